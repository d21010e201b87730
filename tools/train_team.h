/* train_team.h - meta-steps by several threads

   Each episode's gradient is computed on its own and they are added in the
   episodes' order, so the weights do not depend on the number of threads. */
#ifndef METATUNE_TRAIN_TEAM_H
#define METATUNE_TRAIN_TEAM_H

#include <pthread.h>

#include "train_data.h"

enum {
    TEAM_META_BATCH = 8, TEAM_CAP = 8,
    /* MAML, as MetaTune: 20 points adapt, 20 others judge; its longer form of
       five steps, the better one there and here */
    TEAM_MAML_STEPS = 5, TEAM_MAML_POINTS = 20
};
#define TEAM_MAML_RATE 2e-3

typedef enum team_method {
    TEAM_HEAD = 0,               /* through the Bayesian head */
    TEAM_JOINT = 1,              /* episodes without support: one model of all
                                    groups, nothing adapts */
    TEAM_MAML = 2
} team_method;

struct train_team;

typedef struct train_worker {
    struct train_team *team;
    metatune_trainer trainer;    /* worker 0's also makes the step, */
    metatune_maml maml;          /* or this one's */
    void *mem, *maml_mem;
    uint32_t *order;             /* (rows of the largest group) scratch */
    uint32_t index[TRAIN_CAP];
    pthread_t thread;
    int at;
} train_worker;

typedef struct train_team {
    metatune_real *params;       /* (n_params) the caller's, shared */
    size_t n_params;
    train_worker worker[TEAM_CAP];
    int n_workers;
    pthread_mutex_t gate;
    pthread_barrier_t begin, end;
    int stop;
    int method;                  /* team_method */
    /* the step at work */
    train_set *set;
    uint64_t seed, step;
    metatune_real *grad;         /* (TEAM_META_BATCH, n_params) */
    double loss[TEAM_META_BATCH];
    int made[TEAM_META_BATCH];   /* an episode could be drawn */
    metatune_status status[TEAM_META_BATCH];
} train_team;

metatune_status train_team_open(train_team *team,
                                const metatune_train_config *cfg,
                                metatune_real *params, size_t n_params,
                                const train_set *set, int n_threads,
                                int method);
void train_team_close(train_team *team);

/* One meta-step: a function of weights, moments, set, seed and step. loss:
   mean over episodes, NaN when none could be made. */
metatune_status train_team_step(train_team *team, train_set *set,
                                uint64_t seed, uint64_t step, double rate,
                                double *loss);

#endif
