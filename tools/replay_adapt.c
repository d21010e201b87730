/* replay_adapt.c - networks that adapt by gradient steps; see replay_run.h

   finetune: joint pre-training, then Adam on all weights. maml: MetaTune mode,
   meta-trained for a few steps of plain gradient descent. */
#define _POSIX_C_SOURCE 200809L

#include "replay_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train_team.h"

/* The rows of one table, encoded, and trainers on a copy of the weights. */
typedef struct tuning {
    replay_skeletons skeletons;
    metatune_encode_graph *graph;
    char *graph_mem, *ok;
    metatune_trainer trainer;    /* of fine-tuning */
    metatune_maml maml;          /* of MetaTune mode */
    metatune_real *params, *phi;
    void *mem;
} tuning;

/* inner steps and rate as in training (train_team.h) */
enum { TUNE_POINTS = 128, TUNE_MAML_STEPS = TEAM_MAML_STEPS };
#define TUNE_MAML_RATE TEAM_MAML_RATE

static int tuning_open(tuning *t, const replay_job *job, int maml)
{
    size_t n = job->model->n_params, bytes;
    metatune_status ms;
    int st = replay_skeletons_open(&t->skeletons, job->table);
    if (st != CMD_OK)
        return st;
    t->ok = (char *)cmd_alloc(job->table->n_rows);
    t->graph = replay_encode(job->table, &t->skeletons, &t->graph_mem, t->ok);
    t->params = (metatune_real *)cmd_alloc(n * sizeof *t->params);
    memcpy(t->params, job->model->params, n * sizeof *t->params);
    if (maml) {
        metatune_maml_config cfg;
        memset(&cfg, 0, sizeof cfg);
        cfg.gnn = job->model->gnn;
        cfg.gnn.cap_nodes = CMD_NODES;
        cfg.cap_points = TUNE_POINTS;
        cfg.steps = TUNE_MAML_STEPS;
        cfg.rate = TUNE_MAML_RATE;
        bytes = metatune_maml_memsize(&cfg);
        t->mem = cmd_alloc(bytes ? bytes : 1);
        ms = metatune_maml_init(&t->maml, &cfg, t->params, n, t->mem, bytes);
    } else {
        metatune_train_config cfg;
        memset(&cfg, 0, sizeof cfg);
        cfg.gnn = job->model->gnn;
        cfg.gnn.cap_nodes = CMD_NODES;
        cfg.gnn.cap_batch = TUNE_POINTS;
        cfg.cap_points = TUNE_POINTS;
        bytes = metatune_train_memsize(&cfg);
        t->mem = cmd_alloc(bytes ? bytes : 1);
        ms = metatune_train_init(&t->trainer, &cfg, t->params, n, t->mem,
                                 bytes);
    }
    if (ms != METATUNE_OK)
        return cmd_fail(CMD_FAILED, "%s: adaptation cannot begin: %s",
                        job->table->name, metatune_encode_status_text(ms));
    t->phi = (metatune_real *)cmd_alloc(
        TUNE_POINTS * (size_t)metatune_gnn_phi_width(&job->model->gnn) *
        sizeof *t->phi);
    return CMD_OK;
}

static void tuning_close(tuning *t)
{
    replay_skeletons_close(&t->skeletons);
    free(t->ok);
    free(t->graph);
    free(t->graph_mem);
    free(t->params);
    free(t->phi);
    free(t->mem);
}

/* log2 of predicted speed of every row. */
static void tuning_predict(tuning *t, const replay_table *table,
                           double *speed)
{
    const metatune_encode_graph *at[TUNE_POINTS];
    size_t d = (size_t)t->trainer.head.width, j, k;
    const metatune_real *w0 =
        t->params + t->trainer.n_params - 1 - 2 * d;
    uint32_t i = 0, which[TUNE_POINTS];
    while (i < table->n_rows) {
        size_t n = 0;
        for (; i < table->n_rows && n < TUNE_POINTS; i++) {
            speed[i] = -HUGE_VAL;
            if (t->ok[i]) {
                which[n] = i;
                at[n++] = &t->graph[i];
            }
        }
        if (n == 0 || metatune_gnn_forward(&t->trainer.net, t->params, at, n,
                                           t->phi) != METATUNE_OK)
            continue;
        for (j = 0; j < n; j++) {
            double mu = 0;
            for (k = 0; k < d; k++)
                mu += (double)t->phi[j * d + k] * (double)w0[k];
            speed[which[j]] = mu - log2(t->graph[which[j]].t0_s);
        }
    }
}

/* The valid ones among the newest points: how many. */
static size_t newest(const tuning *t, const replay_table *table,
                     const uint32_t *order, uint32_t n,
                     const metatune_encode_graph **graphs, double *y)
{
    size_t m = 0;
    uint32_t i;
    for (i = n; i-- > 0 && m < TUNE_POINTS;)
        if (t->ok[order[i]] && table->time_s[order[i]] > 0) {
            graphs[m] = &t->graph[order[i]];
            y[m++] = log2(t->graph[order[i]].t0_s / table->time_s[order[i]]);
        }
    return m;
}

/* Gradient steps of Adam on all that was measured, after every batch. */
static void finetune_learn(tuning *t, const replay_job *job,
                           const uint32_t *order, uint32_t n)
{
    const metatune_encode_graph *graphs[TUNE_POINTS];
    double y[TUNE_POINTS], loss;
    size_t m = newest(t, job->table, order, n, graphs, y);
    uint32_t k;
    for (k = 0; m && k < job->steps; k++)
        if (metatune_train_episode(&t->trainer, graphs, y, 0, m, &loss) !=
                METATUNE_OK ||
            metatune_train_step(&t->trainer, job->rate) != METATUNE_OK)
            break;
}

/* MetaTune mode: the meta-weights take the inner steps they were trained for
   on all that was measured, and predict. */
static void maml_predict(tuning *t, const replay_job *job,
                         const uint32_t *order, uint32_t n, double *speed)
{
    const metatune_encode_graph *graphs[2 * TUNE_POINTS];
    const replay_table *table = job->table;
    double y[2 * TUNE_POINTS], mu[TUNE_POINTS];
    size_t m = newest(t, table, order, n, graphs, y), k, j;
    uint32_t i = 0, which[TUNE_POINTS];
    while (i < table->n_rows) {
        for (k = 0; i < table->n_rows && k < TUNE_POINTS; i++) {
            speed[i] = -HUGE_VAL;
            if (t->ok[i]) {
                which[k] = i;
                y[m + k] = 0;
                graphs[m + k++] = &t->graph[i];
            }
        }
        if (k == 0 || metatune_maml_evaluate(&t->maml, graphs, y, m, k, mu,
                                             NULL) != METATUNE_OK)
            continue;
        for (j = 0; j < k; j++)
            speed[which[j]] = mu[j] - log2(t->graph[which[j]].t0_s);
    }
}

/* The rows that are predicted fastest, one in twenty at random. */
static int search(replay_job *job, int maml, uint32_t *order, uint32_t *n)
{
    const replay_table *table = job->table;
    tuning *t = (tuning *)cmd_alloc(sizeof *t);
    metatune_encode_rng rng;
    char *tried = (char *)cmd_alloc(table->n_rows);
    double *speed = (double *)cmd_alloc(table->n_rows * sizeof *speed);
    int st = tuning_open(t, job, maml);
    *n = 0;
    metatune_encode_rng_init(&rng, job->seed, 5);
    while (st == CMD_OK && *n < job->budget) {
        uint32_t i, k;
        if (maml)
            maml_predict(t, job, order, *n, speed);
        else
            tuning_predict(t, table, speed);
        for (k = 0; k < job->batch && *n < job->budget; k++) {
            uint32_t at = table->n_rows;
            if (metatune_encode_rng_below(&rng, 20) == 0) {
                at = replay_untried(table, tried, &rng);
            } else {
                for (i = 0; i < table->n_rows; i++)
                    if (!tried[i] && (at == table->n_rows ||
                                      speed[i] > speed[at]))
                        at = i;
            }
            if (at == table->n_rows)
                break;
            tried[at] = 1;
            order[(*n)++] = at;
        }
        if (k == 0)
            break;
        if (!maml)
            finetune_learn(t, job, order, *n);
    }
    tuning_close(t);
    free(t);
    free(tried);
    free(speed);
    return st;
}

int replay_finetune(replay_job *job, uint32_t *order, uint32_t *n)
{
    return search(job, 0, order, n);
}

int replay_maml(replay_job *job, uint32_t *order, uint32_t *n)
{
    return search(job, 1, order, n);
}
