/* train_score.c - see train_score.h */
#define _POSIX_C_SOURCE 200809L

#include "train_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SCORE_KAPPA 0.5          /* RECIPE 6: the first batch's */

typedef struct ranked {
    double key;
    size_t i;
} ranked;

static int by_key(const void *a, const void *b)
{
    const ranked *x = (const ranked *)a, *y = (const ranked *)b;
    if (x->key < y->key || x->key > y->key)
        return x->key < y->key ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

/* Spearman's rank correlation; ties by index, they do not matter here. */
static double spearman(const double *a, const double *b, size_t n)
{
    ranked *r = (ranked *)cmd_alloc(n * sizeof *r);
    double *rank = (double *)cmd_alloc(n * sizeof *rank);
    double sum = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        r[i].key = a[i];
        r[i].i = i;
    }
    qsort(r, n, sizeof *r, by_key);
    for (i = 0; i < n; i++)
        rank[r[i].i] = (double)i;
    for (i = 0; i < n; i++) {
        r[i].key = b[i];
        r[i].i = i;
    }
    qsort(r, n, sizeof *r, by_key);
    for (i = 0; i < n; i++) {
        double d = rank[r[i].i] - (double)i;
        sum += d * d;
    }
    free(r);
    free(rank);
    return n < 2 ? 0 : 1 - 6 * sum / ((double)n * ((double)n * (double)n - 1));
}

/* The i-th fastest of n is the fastest drawn with probability
   C(n - 1 - i, k - 1) / C(n, k). */
double train_score_random(const double *times, size_t n, size_t k)
{
    double p = (double)k / (double)n, sum = 0;
    size_t i;
    for (i = 0; i + k <= n; i++) {
        sum += p * times[0] / times[i];
        if (i + k < n)
            p *= (double)(n - k - i) / (double)(n - 1 - i);
    }
    return sum;
}

/* Weights of the head, the parameters' tail: w0, log lambda, log s2. */
static void head_begin(metatune_trainer *t)
{
    size_t d = (size_t)t->head.width;
    const metatune_real *log_lambda = t->params + t->n_params - 1 - d;
    metatune_head_prior(&t->head, log_lambda - d, log_lambda,
                        t->params[t->n_params - 1], 1);
}

static double rows_loss(const metatune_head *head, const metatune_real *phi,
                        const double *y, size_t n, double *mu)
{
    size_t i, d = (size_t)head->width;
    double sum = 0, v;
    for (i = 0; i < n; i++) {
        metatune_head_predict(head, phi + i * d, &mu[i], &v);
        v += head->s2;
        sum += (log(v) + (y[i] - mu[i]) * (y[i] - mu[i]) / v) / 2;
    }
    return sum / (double)n;
}

/* Measure the batch of the highest mu + kappa sigma; one by one, each first
   taken as if it came out as predicted, so that eight alike are not picked. */
static void tune(metatune_trainer *t, const train_group *g,
                 const metatune_real *phi, const double *log_t0,
                 double best_of_all, train_score *s)
{
    size_t d = (size_t)t->head.width, seen[SCORE_BATCHES * SCORE_BATCH];
    size_t n_seen = 0, i, j;
    char *taken = (char *)cmd_alloc(g->n);
    double best = HUGE_VAL;
    int b;
    for (b = 0; b < SCORE_BATCHES; b++) {
        for (j = 0; j < SCORE_BATCH; j++) {
            double top = -HUGE_VAL, top_mu = 0;
            size_t at = 0;
            for (i = 0; i < g->n; i++) {
                double mu, v, key;
                if (taken[i])
                    continue;
                metatune_head_predict(&t->head, phi + i * d, &mu, &v);
                key = mu - log_t0[i] + SCORE_KAPPA * sqrt(v);
                if (key > top) {
                    top = key;
                    top_mu = mu;
                    at = i;
                }
            }
            taken[at] = 1;
            seen[n_seen++] = at;
            metatune_head_add(&t->head, phi + at * d, top_mu, 1);
            metatune_head_solve(&t->head);
            if (g->time_s[at] < best)
                best = g->time_s[at];
        }
        s->score[b] += best_of_all / best;
        head_begin(t); /* what was assumed makes way for what was measured */
        for (i = 0; i < n_seen; i++)
            metatune_head_add(&t->head, phi + seen[i] * d, g->y[seen[i]], 1);
        metatune_head_solve(&t->head);
        if (b == 1) {
            size_t inside = 0;
            for (i = 0; i < g->n; i++) {
                double mu, v;
                if (taken[i])
                    continue;
                metatune_head_predict(&t->head, phi + i * d, &mu, &v);
                inside += fabs(g->y[i] - mu) <=
                          1.6448536 * sqrt(v + t->head.s2);
            }
            s->coverage += (double)inside / (double)(g->n - n_seen);
        }
    }
    free(taken);
}

static int score_group(metatune_trainer *t, train_group *g, uint64_t seed,
                       train_score *s)
{
    size_t d = (size_t)t->head.width, n = g->n, i, k = 8, m;
    metatune_real *phi = (metatune_real *)cmd_alloc(n * d * sizeof *phi);
    double *log_t0 = (double *)cmd_alloc(4 * n * sizeof *log_t0), *mu, *speed;
    double loss, best8 = HUGE_VAL, best = HUGE_VAL;
    ranked *r = (ranked *)cmd_alloc(n * sizeof *r);
    metatune_encode_rng rng;
    int good = 1, b;
    mu = log_t0 + n;
    speed = mu + n;
    for (i = 0; i < n; i++) {
        g->ptr[i] = &g->graph[i];
        log_t0[i] = log2(g->graph[i].t0_s);
        if (g->time_s[i] < best)
            best = g->time_s[i];
    }
    for (i = 0; i < n && good; i += m) {
        m = n - i < TRAIN_CAP ? n - i : (size_t)TRAIN_CAP;
        good = metatune_gnn_forward(&t->net, t->params, g->ptr + i, m,
                                    phi + i * d) == METATUNE_OK;
    }
    if (good) {
        head_begin(t);
        metatune_head_solve(&t->head);
        loss = rows_loss(&t->head, phi, g->y, n, mu);
        for (i = 0; i < n; i++) { /* log2 of time = log2 t0 - y */
            mu[i] -= log_t0[i];
            speed[i] = g->y[i] - log_t0[i];
            r[i].key = log_t0[i];
            r[i].i = i;
        }
        s->rank += spearman(mu, speed, n);
        qsort(r, n, sizeof *r, by_key);
        for (i = 0; i < 8; i++)
            if (g->time_s[r[i].i] < best8)
                best8 = g->time_s[r[i].i];
        s->bound += best / best8;
        for (i = 0; i < n; i++)
            mu[i] = r[i].key = g->time_s[i];
        qsort(r, n, sizeof *r, by_key);
        for (i = 0; i < n; i++)
            mu[i] = r[i].key;
        for (b = 0; b < SCORE_BATCHES; b++)
            s->random[b] += train_score_random(
                mu, n, (size_t)(SCORE_BATCH * (b + 1)));
        tune(t, g, phi, log_t0, best, s);
        /* the loss again, eight settings measured, averaged in */
        metatune_encode_rng_init(&rng, seed, 77);
        m = metatune_episode_draw(&rng, g->y, n, &k, TRAIN_QUERY, g->order,
                                  g->index);
        head_begin(t);
        for (i = 0; i < k; i++)
            metatune_head_add(&t->head, phi + g->index[i] * d,
                              g->y[g->index[i]], 1);
        metatune_head_solve(&t->head);
        for (i = k; i < m; i++) {
            double at, v, y = g->y[g->index[i]];
            metatune_head_predict(&t->head, phi + g->index[i] * d, &at, &v);
            v += t->head.s2;
            loss += (log(v) + (y - at) * (y - at) / v) / 2 / (double)(m - k);
        }
        s->loss += 0.5 * loss;
        s->n++;
    }
    free(phi);
    free(log_t0);
    free(r);
    return good;
}

train_score train_score_role(metatune_trainer *trainer, train_set *set,
                             int role, uint64_t seed)
{
    train_score s;
    size_t g;
    int b;
    memset(&s, 0, sizeof s);
    for (g = 0; g < set->n; g++)
        if (set->group[g].role == role &&
            set->group[g].n > SCORE_BATCHES * SCORE_BATCH)
            (void)score_group(trainer, &set->group[g], seed + g, &s);
    if (s.n) {
        double n = (double)s.n;
        s.loss /= n;
        s.rank /= n;
        s.bound /= n;
        s.coverage /= n;
        for (b = 0; b < SCORE_BATCHES; b++) {
            s.score[b] /= n;
            s.random[b] /= n;
        }
    }
    return s;
}
