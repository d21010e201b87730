/* replay_run.c - see replay_run.h: the header's own searches, best of k */
#define _POSIX_C_SOURCE 200809L

#include "replay_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void replay_score(const replay_table *table, const uint32_t *order,
                  uint32_t n, uint32_t budget, double *score)
{
    double best = 0;
    uint32_t i;
    for (i = 0; i < budget; i++) {
        double t = i < n ? table->time_s[order[i]] : 0;
        if (t > 0 && (!(best > 0) || t < best))
            best = t;
        score[i] = best > 0 ? table->optimum_s / best : 0;
    }
}

uint32_t replay_untried(const replay_table *table, const char *tried,
                        metatune_encode_rng *rng)
{
    uint32_t i, n = table->n_rows, at;
    for (i = 0; i < 64; i++) {
        at = (uint32_t)metatune_encode_rng_below(rng, n);
        if (!tried[at])
            return at;
    }
    at = (uint32_t)metatune_encode_rng_below(rng, n);
    for (i = 0; i < n; i++)
        if (!tried[(at + i) % n])
            return (at + i) % n;
    return n;
}

/* ----------------------------------------------------- metatune_ask/tell */

int replay_header(replay_job *job, int32_t strategy, uint32_t *order,
                  uint32_t *n)
{
    const replay_table *table = job->table;
    metatune_problem problem;
    metatune_config cfg;
    metatune_tuner *tuner = (metatune_tuner *)cmd_alloc(sizeof *tuner);
    metatune_trial trial[64];
    metatune_error error;
    replay_skeletons skeletons;
    int64_t *seeds = NULL;
    metatune_status st;
    uint32_t i, inside = 0, outside = 0;
    double *low = NULL;
    void *mem = NULL;
    size_t bytes, count = 0, c;
    int rc;
    *n = 0;
    rc = replay_skeletons_open(&skeletons, table);
    if (rc != CMD_OK) {
        free(tuner);
        return rc;
    }
    memset(&problem, 0, sizeof problem);
    memset(&cfg, 0, sizeof cfg);
    memset(&error, 0, sizeof error);
    problem.task = table->name;
    problem.target = "recorded";
    problem.knobs = table->knob;
    problem.n_knobs = table->n_knobs;
    problem.list = table->digits;
    problem.n_list = table->n_rows;
    problem.user = (void *)(uintptr_t)table;
    problem.describe = replay_describe;
    problem.device = &table->device;
    problem.model = job->model;
    problem.skeletons = skeletons.skeleton;
    problem.n_skeletons = skeletons.n;
    if (job->n_portfolio && job->bound_first) {
        /* the archive: what did best on the sources */
        seeds = (int64_t *)cmd_alloc((size_t)job->n_portfolio *
                                     table->n_knobs * sizeof *seeds);
        for (i = 0; i < job->n_portfolio; i++)
            memcpy(seeds + (size_t)i * table->n_knobs,
                   table->value + (size_t)job->portfolio[i] * table->n_knobs,
                   table->n_knobs * sizeof *seeds);
        problem.seeds = seeds;
        problem.n_seeds = job->n_portfolio;
    }
    cfg.seed = job->seed;
    cfg.trials = job->budget;
    cfg.batch = job->batch;
    cfg.strategy = strategy;
    cfg.no_confirm = 1;
    cfg.max_failures = UINT32_MAX;
    cfg.cap_visited = 16;
    while (cfg.cap_visited < table->n_rows && cfg.cap_visited < 1048576)
        cfg.cap_visited *= 2;
    cfg.encode.cap_nodes = CMD_NODES;
    bytes = metatune_memsize(&cfg, &problem);
    if (bytes)
        mem = cmd_alloc(bytes);
    st = metatune_init(tuner, &cfg, &problem, mem, bytes, &error);
    if (st != METATUNE_OK) {
        char line[256];
        metatune_encode_error_line(&error, line, sizeof line);
        rc = cmd_fail(CMD_FAILED, "%s: %s", table->name, line);
    }
    while (rc == CMD_OK) {
        st = metatune_ask(tuner, trial, job->batch, &count);
        if (st != METATUNE_OK || count == 0)
            break;
        for (c = 0; c < count; c++) {
            metatune_result result;
            uint32_t row = replay_table_find(table, trial[c].digits);
            memset(&result, 0, sizeof result);
            if (row == table->n_rows) {
                rc = cmd_fail(CMD_FAILED, "%s: a setting that is no row was "
                              "proposed", table->name);
                break;
            }
            result.value = table->time_s[row];
            result.status = result.value > 0 ? METATUNE_OK
                                             : METATUNE_RUNTIME;
            if (*n < job->budget)
                order[(*n)++] = row;
            if (trial[c].predicted && trial[c].batch >= 2 &&
                result.value > 0) {
                /* sigma is that of a measurement, log2 units */
                double z = fabs(log2(trial[c].mean / result.value)) /
                           trial[c].sigma;
                inside += z <= 1.6448536;
                outside += z > 1.6448536;
            }
            metatune_tell(tuner, trial[c].id, &result);
        }
    }
    job->coverage = inside + outside
                        ? (double)inside / (double)(inside + outside) : 0;
    replay_skeletons_close(&skeletons);
    free(seeds);
    free(low);
    free(mem);
    free(tuner);
    return rc;
}

int replay_metatune(replay_job *job, uint32_t *order, uint32_t *n)
{
    return replay_header(job, METATUNE_STRATEGY_MODEL, order, n);
}

int replay_random(replay_job *job, uint32_t *order, uint32_t *n)
{
    return replay_header(job, METATUNE_STRATEGY_RANDOM, order, n);
}

int replay_genetic(replay_job *job, uint32_t *order, uint32_t *n)
{
    return replay_header(job, METATUNE_STRATEGY_GENETIC, order, n);
}

int replay_anneal(replay_job *job, uint32_t *order, uint32_t *n)
{
    return replay_header(job, METATUNE_STRATEGY_ANNEAL, order, n);
}

int replay_grid(replay_job *job, uint32_t *order, uint32_t *n)
{
    return replay_header(job, METATUNE_STRATEGY_GRID, order, n);
}

/* --------------------------------------------------------- best of k */

int replay_portfolio(replay_job *job, uint32_t *order, uint32_t *n)
{
    const replay_table *table = job->table;
    char *tried = (char *)cmd_alloc(table->n_rows);
    metatune_encode_rng rng;
    uint32_t i;
    metatune_encode_rng_init(&rng, job->seed, 3);
    *n = 0;
    for (i = 0; i < job->n_portfolio && *n < job->budget; i++)
        if (!tried[job->portfolio[i]]) {
            tried[job->portfolio[i]] = 1;
            order[(*n)++] = job->portfolio[i];
        }
    while (*n < job->budget) {
        uint32_t at = replay_untried(table, tried, &rng);
        if (at == table->n_rows)
            break;
        tried[at] = 1;
        order[(*n)++] = at;
    }
    free(tried);
    return CMD_OK;
}

typedef struct timed_row {
    double time_s;
    uint32_t at;
} timed_row;

static int by_time(const void *a, const void *b)
{
    const timed_row *x = (const timed_row *)a, *y = (const timed_row *)b;
    if (x->time_s < y->time_s || x->time_s > y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

uint32_t *replay_portfolio_make(const replay_table *table,
                                const replay_tables *sources, uint32_t n,
                                uint32_t *count)
{
    uint32_t each = sources->n ? (uint32_t)(128 / sources->n) : 1, s, i, j;
    uint32_t *pick = (uint32_t *)cmd_alloc((n + 1) * sizeof *pick);
    int64_t *cand;
    double *score, *best;
    size_t n_cand = 0, m = table->n_knobs, c;
    *count = 0;
    if (each < 1)
        each = 1;
    cand = (int64_t *)cmd_alloc((sources->n * each + 1) * m * sizeof *cand);
    for (s = 0; s < sources->n; s++) {
        const replay_table *src = &sources->table[s];
        int64_t *value = replay_table_aligned(table, src);
        timed_row *row = (timed_row *)cmd_alloc((src->n_rows + 1) *
                                                sizeof *row);
        uint32_t good = 0;
        for (i = 0; i < src->n_rows; i++)
            if (src->time_s[i] > 0) {
                row[good].time_s = src->time_s[i];
                row[good++].at = i;
            }
        qsort(row, good, sizeof *row, by_time);
        for (i = 0; i < each && i < good; i++)
            memcpy(cand + n_cand++ * m, value + row[i].at * m,
                   m * sizeof *cand);
        free(value);
        free(row);
    }
    /* score of each candidate on each source: of the row that is nearest */
    score = (double *)cmd_alloc((n_cand * sources->n + 1) * sizeof *score);
    best = (double *)cmd_alloc((sources->n + 1) * sizeof *best);
    for (s = 0; s < sources->n; s++) {
        const replay_table *src = &sources->table[s];
        int64_t *own = (int64_t *)cmd_alloc((src->n_knobs + 1) *
                                            sizeof *own);
        uint32_t k;
        for (c = 0; c < n_cand; c++) {
            for (i = 0; i < src->n_knobs; i++) {
                own[i] = 0;
                for (k = 0; k < m; k++)
                    if (strcmp(src->knob[i].name, table->knob[k].name) == 0)
                        own[i] = cand[c * m + k];
            }
            i = replay_table_nearest(src, own);
            score[c * sources->n + s] =
                src->time_s[i] > 0 ? src->optimum_s / src->time_s[i] : 0;
        }
        free(own);
    }
    while (*count < n) {
        size_t at = n_cand;
        double top = 0;
        for (c = 0; c < n_cand; c++) {
            double gain = 0;
            for (s = 0; s < sources->n; s++)
                if (score[c * sources->n + s] > best[s])
                    gain += score[c * sources->n + s] - best[s];
            if (gain > top) {
                top = gain;
                at = c;
            }
        }
        if (at == n_cand) { /* all sources have their optimum: once more */
            int any = 0;
            for (s = 0; s < sources->n; s++) {
                any |= best[s] > 0;
                best[s] = 0;
            }
            if (!any)
                break;
            continue;
        }
        j = replay_table_nearest(table, cand + at * m);
        for (s = 0; s < sources->n; s++) {
            if (score[at * sources->n + s] > best[s])
                best[s] = score[at * sources->n + s];
            score[at * sources->n + s] = 0;
        }
        for (i = 0; i < *count && pick[i] != j; i++) {}
        if (i == *count)
            pick[(*count)++] = j;
    }
    free(cand);
    free(score);
    free(best);
    return pick;
}
