/* train_team.h - meta-steps by several threads

   Each episode's gradient is computed on its own and they are added in the
   episodes' order, so the weights do not depend on the number of threads. */
#ifndef METATUNE_TRAIN_TEAM_H
#define METATUNE_TRAIN_TEAM_H

#include <pthread.h>

#include "train_data.h"

enum { TEAM_META_BATCH = 8, TEAM_CAP = 8 };

struct train_team;

typedef struct train_worker {
    struct train_team *team;
    metatune_trainer trainer;    /* worker 0's also makes the step */
    void *mem;
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
    int joint;                   /* 1: episodes without support: one model of
                                    all groups, nothing adapts */
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
                                const train_set *set, int n_threads);
void train_team_close(train_team *team);

/* One meta-step: a function of weights, moments, set, seed and step. loss:
   mean over episodes, NaN when none could be made. */
metatune_status train_team_step(train_team *team, train_set *set,
                                uint64_t seed, uint64_t step, double rate,
                                double *loss);

#endif
