/* replay_xgb.c - AutoTVM's cost model: XGBoost ranking, see replay_run.h

   As XGBTuner does it [Chen et al., Learning to optimize tensor programs,
   2018, and TVM 0.9]: rank:pairwise, depth 3, eta 0.3, gamma 1e-4, lambda 1;
   label = throughput / best, failures 0; the first plan random, then a new
   model every plan, 5 % random picks. Rounds end when the recall of the top
   has not improved for 20, at most 200. The annealing over the model is
   replaced by scoring every row, which can only be better. With sources, a
   model of them is the base margin, discounted by 2^(-n/64) with n trials,
   margins aligned with their rows, and its ranking is the first plan.

   The library is looked up when it is needed: nothing here links to it. */
#define _POSIX_C_SOURCE 200809L

#include "replay_run.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of the C interface that is used; handles are opaque. */
typedef struct xgb_api {
    int (*matrix)(const float *data, uint64_t rows, uint64_t cols,
                  float missing, void **out);
    int (*set_float)(void *matrix, const char *field, const float *array,
                     uint64_t n);
    int (*set_uint)(void *matrix, const char *field, const unsigned *array,
                    uint64_t n);
    int (*matrix_free)(void *matrix);
    int (*create)(void *const *matrices, uint64_t n, void **out);
    int (*set)(void *booster, const char *name, const char *value);
    int (*update)(void *booster, int iteration, void *matrix);
    int (*predict)(void *booster, void *matrix, int option, unsigned limit,
                   int training, uint64_t *n, const float **out);
    int (*free)(void *booster);
    const char *(*error)(void);
    int state;                   /* 0 not tried, 1 there, -1 not */
} xgb_api;

static xgb_api api;              /* of the process, as the library is */

static int symbol(void *lib, const char *name, void *fn)
{
    void *at = dlsym(lib, name);
    memcpy(fn, &at, sizeof at);
    return at != NULL;
}

int replay_xgb_open(void)
{
    const char *path = getenv("METATUNE_XGBOOST");
    void *lib;
    if (api.state > 0)
        return 1;
    lib = dlopen(path && *path ? path : "libxgboost.so", RTLD_NOW);
    if (!lib && !(path && *path))
        lib = dlopen("libxgboost.so.0", RTLD_NOW);
    if (lib && symbol(lib, "XGDMatrixCreateFromMat", &api.matrix) &&
        symbol(lib, "XGDMatrixSetFloatInfo", &api.set_float) &&
        symbol(lib, "XGDMatrixSetUIntInfo", &api.set_uint) &&
        symbol(lib, "XGDMatrixFree", &api.matrix_free) &&
        symbol(lib, "XGBoosterCreate", &api.create) &&
        symbol(lib, "XGBoosterSetParam", &api.set) &&
        symbol(lib, "XGBoosterUpdateOneIter", &api.update) &&
        symbol(lib, "XGBoosterPredict", &api.predict) &&
        symbol(lib, "XGBoosterFree", &api.free) &&
        symbol(lib, "XGBGetLastError", &api.error)) {
        api.state = 1;
        return 1;
    }
    cmd_fail(CMD_USAGE, "xgb needs XGBoost's C library, %s: install "
             "libxgboost-dev, or name it in METATUNE_XGBOOST",
             path && *path ? path : "libxgboost.so");
    return 0;
}

/* ------------------------------------------------------------ features */

enum { XGB_EXTRA = 16 };

/* Knob values; of a layer's rows its shape and vector width, too, so that
   layers can learn from each other. */
static uint32_t row_width(const replay_table *table)
{
    return table->n_knobs + (table->kernel ? (uint32_t)XGB_EXTRA : 0);
}

static void row_features(const replay_table *like, const replay_table *of,
                         const int64_t *values, float *x)
{
    uint32_t k;
    for (k = 0; k < like->n_knobs; k++)
        x[k] = (float)values[k];
    if (like->kernel) {
        float *e = x + like->n_knobs;
        const host_kernel *h = of->kernel;
        memset(e, 0, XGB_EXTRA * sizeof *e);
        if (h) {
            e[0] = (float)h->conv.c;
            e[1] = (float)h->conv.h;
            e[2] = (float)h->conv.k;
            e[3] = (float)h->conv.r;
            e[4] = (float)h->conv.stride_h;
            e[5] = (float)h->conv.groups;
            e[6] = (float)h->march.lanes;
            e[7] = (float)h->march.vregs;
            e[8] = (float)h->march.threads;
            e[9] = (float)h->conv.layout;
            e[10] = (float)h->oh;
            e[11] = (float)h->cg;
        }
    }
}

static int failed(const char *what)
{
    return cmd_fail(CMD_FAILED, "XGBoost: %s: %.200s", what, api.error());
}

static void *matrix_make(const float *x, size_t n, uint32_t width)
{
    void *m = NULL;
    if (api.matrix(x, n, width, nanf(""), &m) != 0) {
        failed("matrix");
        return NULL;
    }
    return m;
}

/* ------------------------------------------------------------ training */

typedef struct ranked {
    float key;
    uint32_t at;
} ranked;

static int by_key(const void *a, const void *b)
{
    const ranked *x = (const ranked *)a, *y = (const ranked *)b;
    if (x->key < y->key || x->key > y->key)
        return x->key > y->key ? -1 : 1; /* highest first */
    return x->at < y->at ? -1 : x->at > y->at;
}

/* AutoTVM's average recall of the top n: the mean over i <= n of the share of
   the i best that are among the i predicted best. */
static double recall(const float *predicted, const float *label, uint32_t n,
                     uint32_t top)
{
    ranked *p = (ranked *)cmd_alloc(2 * (size_t)n * sizeof *p), *l = p + n;
    uint32_t *rank = (uint32_t *)cmd_alloc(n * sizeof *rank);
    double sum = 0;
    uint32_t i, j;
    if (top > n)
        top = n;
    for (i = 0; i < n; i++) {
        p[i].key = predicted[i];
        l[i].key = label[i];
        p[i].at = l[i].at = i;
    }
    qsort(p, n, sizeof *p, by_key);
    qsort(l, n, sizeof *l, by_key);
    for (i = 0; i < n; i++)
        rank[l[i].at] = i;
    for (i = 0; i < top; i++) {
        uint32_t hits = 0;
        for (j = 0; j <= i; j++)
            hits += rank[p[j].at] <= i;
        sum += (double)hits / (i + 1);
    }
    free(p);
    free(rank);
    return top ? sum / top : 0;
}

/* A booster of the rows x (n, width), labels, groups; margin may be NULL. */
static void *train(const float *x, const float *label, const float *margin,
                   uint32_t n, uint32_t width, const unsigned *group,
                   uint32_t n_groups, uint32_t top, uint64_t seed)
{
    void *m = matrix_make(x, n, width), *b = NULL;
    char text[32];
    double best = -1;
    int round, since = 0, bad;
    if (!m)
        return NULL;
    bad = api.set_float(m, "label", label, n) ||
          api.set_uint(m, "group", group, n_groups) ||
          (margin && api.set_float(m, "base_margin", margin, n)) ||
          api.create(&m, 1, &b);
    if (!bad) {
        snprintf(text, sizeof text, "%u", (unsigned)(seed & 0x7fffffff));
        bad = api.set(b, "objective", "rank:pairwise") ||
              api.set(b, "max_depth", "3") || api.set(b, "eta", "0.3") ||
              api.set(b, "gamma", "0.0001") || api.set(b, "lambda", "1") ||
              api.set(b, "alpha", "0") ||
              api.set(b, "min_child_weight", "1") ||
              api.set(b, "subsample", "1") || api.set(b, "nthread", "1") ||
              api.set(b, "verbosity", "0") || api.set(b, "seed", text);
    }
    for (round = 0; !bad && round < 200 && since < 20; round++) {
        const float *out = NULL;
        uint64_t count = 0;
        double r;
        bad = api.update(b, round, m);
        if (bad || n_groups > 1) { /* of sources: 100 rounds */
            if (round == 99)
                break;
            continue;
        }
        bad = api.predict(b, m, 1, 0, 0, &count, &out);
        if (bad)
            break;
        r = recall(out, label, n, top);
        since = r > best + 1e-12 ? 0 : since + 1;
        if (r > best)
            best = r;
    }
    if (bad) {
        failed("training");
        if (b)
            api.free(b);
        b = NULL;
    }
    api.matrix_free(m);
    return b;
}

/* Margins of rows x (n, width) into out (n); base may be NULL. */
static int predict(void *b, const float *x, const float *margin, uint32_t n,
                   uint32_t width, float *out)
{
    void *m = matrix_make(x, n, width);
    const float *got = NULL;
    uint64_t count = 0;
    int bad;
    if (!m)
        return CMD_FAILED;
    bad = (margin && api.set_float(m, "base_margin", margin, n)) ||
          api.predict(b, m, 1, 0, 0, &count, &got) || count != n;
    if (!bad)
        memcpy(out, got, n * sizeof *out);
    api.matrix_free(m);
    return bad ? failed("prediction") : CMD_OK;
}

/* ------------------------------------------------------------- sources */

struct replay_booster {
    void *booster;
};

struct replay_booster *replay_xgb_pretrain(const replay_table *table,
                                           const replay_tables *sources)
{
    struct replay_booster *base;
    uint32_t width = row_width(table), s, i, n = 0;
    unsigned *group = (unsigned *)cmd_alloc((sources->n + 1) *
                                            sizeof *group);
    float *x, *label;
    size_t all = 0;
    for (s = 0; s < sources->n; s++)
        all += sources->table[s].n_rows;
    x = (float *)cmd_alloc((all * width + 1) * sizeof *x);
    label = (float *)cmd_alloc((all + 1) * sizeof *label);
    for (s = 0; s < sources->n; s++) {
        const replay_table *src = &sources->table[s];
        int64_t *value = replay_table_aligned(table, src);
        for (i = 0; i < src->n_rows; i++) {
            row_features(table, src, value + (size_t)i * table->n_knobs,
                         x + (size_t)n * width);
            label[n++] = src->time_s[i] > 0
                             ? (float)(src->optimum_s / src->time_s[i]) : 0;
        }
        group[s] = src->n_rows;
        free(value);
    }
    base = (struct replay_booster *)cmd_alloc(sizeof *base);
    base->booster = train(x, label, NULL, n, width, group,
                          (uint32_t)sources->n, 0, 0);
    free(x);
    free(label);
    free(group);
    if (!base->booster) {
        free(base);
        return NULL;
    }
    return base;
}

void replay_xgb_free(struct replay_booster *base)
{
    if (base)
        api.free(base->booster);
    free(base);
}

/* -------------------------------------------------------------- tuning */

int replay_xgb(replay_job *job, uint32_t *order, uint32_t *n)
{
    const replay_table *table = job->table;
    uint32_t rows = table->n_rows, width = row_width(table), i;
    float *x = (float *)cmd_alloc(((size_t)rows * width + 1) * sizeof *x);
    float *fit = (float *)cmd_alloc(((size_t)job->budget * width + 1) *
                                    sizeof *fit);
    float *label = (float *)cmd_alloc((job->budget + 1) * sizeof *label);
    float *margin = (float *)cmd_alloc((job->budget + 1) * sizeof *margin);
    float *base = (float *)cmd_alloc((rows + 1) * sizeof *base);
    float *scaled = (float *)cmd_alloc((rows + 1) * sizeof *scaled);
    float *score = (float *)cmd_alloc((rows + 1) * sizeof *score);
    char *tried = (char *)cmd_alloc(rows);
    metatune_encode_rng rng;
    int st = CMD_OK, ready = 0;
    metatune_encode_rng_init(&rng, job->seed, 4);
    *n = 0;
    for (i = 0; i < rows; i++)
        row_features(table, table, table->value + (size_t)i * table->n_knobs,
                     x + (size_t)i * width);
    if (job->base) {
        st = predict(job->base->booster, x, NULL, rows, width, base);
        memcpy(score, base, rows * sizeof *score);
        ready = 1;
    }
    while (st == CMD_OK && *n < job->budget) {
        uint32_t k;
        for (k = 0; k < job->plan && *n < job->budget; k++) {
            uint32_t at = rows;
            if (*n < job->n_first && job->bound_first && !job->base)
                at = job->first[*n];
            else if (!ready || metatune_encode_rng_below(&rng, 20) == 0)
                at = replay_untried(table, tried, &rng);
            else
                for (i = 0; i < rows; i++)
                    if (!tried[i] && (at == rows || score[i] > score[at]))
                        at = i;
            if (at == rows)
                break;
            tried[at] = 1;
            order[(*n)++] = at;
        }
        if (k == 0)
            break;
        if (*n < job->budget) {
            unsigned group = *n;
            double best = 0, share = exp2(-(double)*n / 64);
            void *b;
            for (i = 0; i < *n; i++) {
                double t = table->time_s[order[i]];
                if (t > 0 && (!(best > 0) || t < best))
                    best = t;
            }
            for (i = 0; i < *n; i++) {
                double t = table->time_s[order[i]];
                memcpy(fit + (size_t)i * width,
                       x + (size_t)order[i] * width, width * sizeof *fit);
                label[i] = t > 0 ? (float)(best / t) : 0;
                margin[i] = (float)(share * (double)base[order[i]]);
            }
            for (i = 0; i < rows; i++)
                scaled[i] = (float)(share * (double)base[i]);
            b = train(fit, label, job->base ? margin : NULL, *n, width,
                      &group, 1, job->plan, job->seed);
            st = b ? predict(b, x, job->base ? scaled : NULL, rows, width,
                             score) : CMD_FAILED;
            if (b)
                api.free(b);
            ready = 1;
        }
    }
    free(x);
    free(fit);
    free(label);
    free(margin);
    free(base);
    free(scaled);
    free(score);
    free(tried);
    return st;
}
