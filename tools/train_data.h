/* train_data.h - what a training sees of recorded settings

   A group is one layer on one target: its valid settings, encoded, with
   y = log2(t0 / t). Roles are given by whole shapes and whole platforms, never
   by rows. */
#ifndef METATUNE_TRAIN_DATA_H
#define METATUNE_TRAIN_DATA_H

#include "cmd_data.h"

enum {
    TRAIN_QUERY = 64,
    TRAIN_CAP = 128,             /* support + query of an episode */
    TRAIN_LEAST = 16             /* rows that a group must have */
};

/* What a group is for: weights are fitted on the first, the checkpoint is
   chosen on the second, the third is only reported, the last not used. */
enum {
    TRAIN_ON, TRAIN_VALIDATE, TRAIN_HELD_OUT, TRAIN_ROLES,
    TRAIN_LEFT_OUT = TRAIN_ROLES
};

/* Which groups are held out. Shapes and platforms both given: a group counts
   as held out when it is of both, and is left out when of one of them. */
typedef struct train_split {
    const char **shapes;         /* (n_shapes) NET or NET/LAYER */
    size_t n_shapes;
    const char **targets;        /* (n_targets) "lanes=8" or part of a key */
    size_t n_targets;
    uint64_t seed;
} train_split;

typedef struct train_group {
    const data_group *data;      /* NULL: a table of another origin */
    metatune_encode_graph *graph; /* (n) */
    const metatune_encode_graph **ptr; /* (n + TRAIN_CAP) scratch */
    double *y, *time_s;          /* (n) */
    uint32_t *order, *index;     /* (n), (n + TRAIN_CAP) scratch */
    char *mem;                   /* of the graphs */
    size_t n;
    int role;                    /* TRAIN_ON... */
} train_group;

typedef struct train_set {
    train_group *group;          /* (n), one a data group */
    size_t n;
    size_t n_role[TRAIN_ROLES + 1];
    size_t *pick;                /* (n_pick) groups to train on */
    size_t n_pick;
    size_t rows, refused;
    /* the graphs point into these */
    metatune_encode_skeleton skeleton[HOST_ALGORITHMS];
    void *skeleton_mem[HOST_ALGORITHMS];
    struct replay_skeletons *of_tables; /* (n of them) or NULL */
    size_t n_tables;
} train_set;

/* A group's role by the split. */
int train_role(const train_split *split, const data_set *data,
               const data_group *group);

/* data and tables (may be NULL; with loop nests; all trained on, unless their
   names are held out) outlive the set. CMD_OK, or CMD_USAGE after one line. */
struct replay_tables;
int train_set_open(train_set *set, const data_set *data,
                   const struct replay_tables *tables,
                   const train_split *split);
void train_set_close(train_set *set);

#endif
