/* train_score.h - how good a prior is on recorded groups */
#ifndef METATUNE_TRAIN_SCORE_H
#define METATUNE_TRAIN_SCORE_H

#include "train_data.h"

enum { SCORE_BATCHES = 4, SCORE_BATCH = 8 }; /* 8, 16, 24, 32 settings */

/* Means over groups. Nothing measured: loss (nats), rank correlation. Tuned as
   recorded, eight settings a batch: score[b] = fastest of all / fastest of
   the first 8 (b + 1), in (0, 1]. */
typedef struct train_score {
    double loss, rank;
    double score[SCORE_BATCHES];
    double bound;                /* score of the first 8 by the analytic
                                    bound alone */
    double random[SCORE_BATCHES]; /* and drawn at random, expected */
    double coverage;             /* of 90 % intervals after 16 settings, the
                                    others' share inside */
    size_t n;
} train_score;

/* Groups of one role with more than 32 settings. A function of the weights
   and the data alone. */
train_score train_score_role(metatune_trainer *trainer, train_set *set,
                             int role, uint64_t seed);

/* The fastest of the first k drawn without replacement from n, expected:
   sum of times[0] / times[i] by the chance that i is it; times ascend. */
double train_score_random(const double *times, size_t n, size_t k);

#endif
