/* replay_run.h - strategies on a recorded table

   A strategy says in which order it would try a table's rows, learning from
   the recorded time of each batch before it proposes the next. */
#ifndef METATUNE_REPLAY_RUN_H
#define METATUNE_REPLAY_RUN_H

#include "cmd_model.h"
#include "replay_describe.h"
#include "replay_table.h"

typedef struct replay_job {
    const replay_table *table;
    const replay_tables *sources;
    uint32_t budget, batch;      /* budget <= rows */
    uint32_t plan;               /* xgb: trials between two fits */
    uint64_t seed;
    /* the same start for every strategy: 0 its own; 1 the rows of the lowest
       analytic bound are the first batch (tables with loop nests) */
    int bound_first;
    const uint32_t *first;       /* (n_first) those rows */
    uint32_t n_first;
    const metatune_model *model; /* of finetune and metatune; or NULL */
    const uint32_t *portfolio;   /* (n_portfolio) rows to try in this order */
    uint32_t n_portfolio;
    struct replay_booster *base; /* of xgb-pre, trained on the sources */
    double rate;                 /* of finetune */
    uint32_t steps;
    /* after 16 trials: how many rows not tried lie inside the 90 % intervals;
       of metatune */
    double coverage;
} replay_job;

/* Rows in the order tried, (budget); how many in *n. CMD_OK, or a status after
   one line. */
typedef int (*replay_fn)(replay_job *job, uint32_t *order, uint32_t *n);

int replay_header(replay_job *job, int32_t strategy, uint32_t *order,
                  uint32_t *n);
int replay_metatune(replay_job *job, uint32_t *order, uint32_t *n);
int replay_random(replay_job *job, uint32_t *order, uint32_t *n);
int replay_genetic(replay_job *job, uint32_t *order, uint32_t *n);
int replay_anneal(replay_job *job, uint32_t *order, uint32_t *n);
int replay_grid(replay_job *job, uint32_t *order, uint32_t *n);
int replay_xgb(replay_job *job, uint32_t *order, uint32_t *n);
int replay_portfolio(replay_job *job, uint32_t *order, uint32_t *n);
int replay_finetune(replay_job *job, uint32_t *order, uint32_t *n);
int replay_maml(replay_job *job, uint32_t *order, uint32_t *n);

/* score (budget): optimum / best so far, 0 before the first valid row. */
void replay_score(const replay_table *table, const uint32_t *order,
                  uint32_t n, uint32_t budget, double *score);

/* A row not tried yet, uniformly: for strategies that keep their own count.
   n_rows when all are. */
uint32_t replay_untried(const replay_table *table, const char *tried,
                        metatune_encode_rng *rng);

/* The rows of the sources that did best, in the order in which they raise the
   mean score over the sources most, as rows of the table; at most n. To be
   freed. */
uint32_t *replay_portfolio_make(const replay_table *table,
                                const replay_tables *sources, uint32_t n,
                                uint32_t *count);

/* XGBoost through its C library, found at run time. 1, or 0 after one line. */
int replay_xgb_open(void);
/* A ranking model of the sources; NULL after one line. */
struct replay_booster *replay_xgb_pretrain(const replay_table *table,
                                           const replay_tables *sources);
void replay_xgb_free(struct replay_booster *base);

#endif
