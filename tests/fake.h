/* fake.h - a deterministic matmul target for the tuner's tests: real loop
   nests, invented times, every kind of failure on demand. */
#ifndef METATUNE_FAKE_H
#define METATUNE_FAKE_H

#include "../metatune.h"
#include "check.h"

#define FAKE_KNOBS 6

#if defined(__GNUC__)
#define FAKE_FN static __attribute__((unused))
#else
#define FAKE_FN static
#endif

typedef struct fake {
    int32_t m, n, k;             /* matmul shape */
    double noise;                /* lognormal sigma of a measurement */
    double bias;                 /* what the analytic bound does not see */
    metatune_encode_rng rng;     /* of the noise */
    uint32_t calls, compiles, valid_calls, describes, resets, writes;
    uint64_t seen[4096];         /* hashes measured, in order */
    int32_t seen_kind[4096];
    /* failures: status of call number i (from 0), or by setting */
    metatune_status (*fail)(struct fake *, const metatune_trial *);
    int (*predicate)(struct fake *, const int64_t *);
    const char *error;
    double clock_s, call_s;      /* fake clock and what a call costs */
    uint32_t stop_after;         /* progress stops after that many; 0 = no */
    uint32_t progressed;
    metatune_progress last;
    char *log;                   /* what write() got */
    size_t log_n, log_cap;
    uint32_t write_fails_at;     /* 1 = the first line */
    int device_dead;
    double exact_samples[3];
} fake;

static const int64_t fake_tile[] = {1, 2, 4, 8, 16, 32, 64};
static const int64_t fake_order[] = {0, 1, 2};
static const int64_t fake_unroll[] = {1, 2, 4, 8};
static const char *const fake_order_label[] = {"mnk", "nmk", "kmn"};
static const metatune_knob fake_knobs[FAKE_KNOBS] = {
    {"tile_m", fake_tile, NULL, 7},
    {"tile_n", fake_tile, NULL, 7},
    {"tile_k", fake_tile, NULL, 7},
    {"vec", fake_tile, NULL, 5},
    {"order", fake_order, fake_order_label, 3},
    {"unroll", fake_unroll, NULL, 4},
};

/* 10 slots: root, 3 outer, 3 inner loops, vector, load, fma, store = 11 */
static void fake_loops(const fake *f, const int64_t *v, int all,
                       metatune_encode_nest *nest)
{
    static const int8_t order[3][3] = {{0, 1, 2}, {1, 0, 2}, {2, 0, 1}};
    int32_t extent[3], inner[3], up = -1, i, vec = (int32_t)v[3];
    const int32_t touch[3] = {0, 1, 2};
    extent[0] = f->m;
    extent[1] = f->n;
    extent[2] = f->k;
    for (i = 0; i < 3; i++)
        inner[i] = (int32_t)v[i] < extent[i] ? (int32_t)v[i] : extent[i];
    for (i = 0; i < 3; i++) {
        int32_t a = order[v[4]][i];
        int32_t trip = (extent[a] + inner[a] - 1) / inner[a];
        if (trip > 1 || all)
            up = metatune_encode_loop_add(nest, up, a, inner[a], trip,
                                          METATUNE_LOOP_SERIAL, 1 + a);
    }
    for (i = 2; i >= 0; i--) {
        int32_t step = i == 1 && vec > 1 ? vec : 1;
        int32_t trip = (inner[i] + step - 1) / step;
        if (trip > 1 || all)
            up = metatune_encode_loop_add(
                nest, up, i, step, trip,
                i == 0 && v[5] > 1 ? METATUNE_LOOP_UNROLL
                                   : METATUNE_LOOP_SERIAL, 4 + i);
    }
    if (vec > 1 || all)
        up = metatune_encode_loop_add(nest, up, 1, 1, vec > 1 ? vec : 1,
                                      METATUNE_LOOP_VECTOR, 7);
    nest->hint[0] = (metatune_real)(log2((double)v[5]) / 2 - 0.75);
    nest->hint[1] = (metatune_real)(v[4] == 2);
    metatune_encode_stmt_add(nest, up, METATUNE_STMT_LOAD, 8, 1, touch, 2);
    metatune_encode_stmt_add(nest, up, METATUNE_STMT_FMA, 9, 1, NULL, 0);
    metatune_encode_stmt_add(nest, up, METATUNE_STMT_STORE, 10, 1, touch + 2,
                             1);
}

static void fake_begin(const fake *f, metatune_encode_nest *nest)
{
    static const int32_t mk[] = {0, 2}, kn[] = {2, 1}, mn[] = {0, 1};
    metatune_encode_nest_clear(nest);
    metatune_encode_axis_add(nest, f->m, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, f->n, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, f->k, METATUNE_AXIS_REDUCTION);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_INPUT, mk, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_WEIGHT, kn, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_OUTPUT, mn, 2);
}

static metatune_status fake_describe(void *user,
                                     const metatune_problem *problem,
                                     const int64_t *values,
                                     metatune_encode_nest *nest)
{
    fake *f = (fake *)user;
    (void)problem;
    f->describes++;
    fake_begin(f, nest);
    fake_loops(f, values, 0, nest);
    return nest->status;
}

static int fake_valid(void *user, const metatune_problem *problem,
                      const int64_t *values)
{
    fake *f = (fake *)user;
    (void)problem;
    f->valid_calls++;
    return f->predicate ? f->predicate(f, values) : 1;
}

/* Invented but structured: likes vectors, middling tiles, one order. */
static double fake_time(const fake *f, const int64_t *v)
{
    double t = 1e-9 * f->m * f->n * f->k, x;
    int i;
    t *= 1 + 3.0 / (double)v[3];
    for (i = 0; i < 3; i++) {
        x = log2((double)v[i]) - (2.0 + i + f->bias);
        t *= 1 + 0.08 * x * x;
    }
    t *= v[4] == 0 ? 1.0 : v[4] == 1 ? 1.15 : 1.6;
    x = log2((double)(v[0] * v[5])) - 4;
    t *= 1 + 0.05 * x * x;
    return t;
}

static metatune_status fake_measure(void *user,
                                    const metatune_problem *problem,
                                    const metatune_trial *trials, size_t n,
                                    metatune_result *results)
{
    fake *f = (fake *)user;
    size_t i;
    (void)problem;
    for (i = 0; i < n; i++) {
        metatune_result *r = &results[i];
        f->clock_s += f->call_s;
        if (f->calls < 4096) {
            f->seen[f->calls] = trials[i].hash;
            f->seen_kind[f->calls] = trials[i].kind;
        }
        r->status = f->device_dead ? METATUNE_DEVICE_LOST : METATUNE_OK;
        if (!f->device_dead && f->fail)
            r->status = f->fail(f, &trials[i]);
        f->calls++;
        if (r->status == METATUNE_DEVICE_LOST)
            f->device_dead = 1;
        if (r->status != METATUNE_OK) {
            r->error = f->error ? f->error : "it broke";
            r->error_bytes = strlen(r->error);
            continue;
        }
        r->value = fake_time(f, trials[i].values);
        if (f->noise > 0)
            r->value *= exp(f->noise * metatune_encode_rng_normal(&f->rng));
        else {
            f->exact_samples[0] = f->exact_samples[1] = r->value;
            r->samples = f->exact_samples;
            r->n_samples = 2;
        }
        r->build_s = 0.25;
        r->run_s = r->value;
    }
    return METATUNE_OK;
}

static double fake_now(void *user) { return ((fake *)user)->clock_s; }

static int fake_reset(void *user)
{
    ((fake *)user)->resets++;
    ((fake *)user)->device_dead = 0;
    return 0;
}

static int fake_progress(void *user, const metatune_progress *p)
{
    fake *f = (fake *)user;
    f->last = *p;
    f->progressed++;
    return f->stop_after && f->progressed >= f->stop_after;
}

FAKE_FN int fake_write(void *user, const char *bytes, size_t n)
{
    fake *f = (fake *)user;
    f->writes++;
    if (f->write_fails_at && f->writes >= f->write_fails_at)
        return 1;
    if (f->log_n + n > f->log_cap) {
        f->log_cap = 2 * (f->log_n + n);
        f->log = (char *)realloc(f->log, f->log_cap);
    }
    memcpy(f->log + f->log_n, bytes, n);
    f->log_n += n;
    return 0;
}

FAKE_FN void fake_init(fake *f, int32_t size)
{
    memset(f, 0, sizeof *f);
    f->m = f->n = f->k = size;
    metatune_encode_rng_init(&f->rng, 7, 7);
}

FAKE_FN metatune_problem fake_problem(fake *f)
{
    metatune_problem p;
    memset(&p, 0, sizeof p);
    p.task = "matmul 64";
    p.target = "fake";
    p.knobs = fake_knobs;
    p.n_knobs = FAKE_KNOBS;
    p.user = f;
    p.describe = fake_describe;
    p.valid = fake_valid;
    p.measure = fake_measure;
    p.now = fake_now;
    p.reset = fake_reset;
    p.progress = fake_progress;
    return p;
}

/* A tuner in a block with guard bytes on both sides. */
typedef struct fake_tuner {
    metatune_tuner t;
    unsigned char *block;
    size_t bytes;
} fake_tuner;

#define FAKE_GUARD 64

FAKE_FN metatune_status fake_open(fake_tuner *ft, const metatune_config *cfg,
                                 const metatune_problem *p)
{
    metatune_error e;
    metatune_status st;
    ft->bytes = metatune_memsize(cfg, p);
    ft->block = (unsigned char *)malloc(ft->bytes + 2 * FAKE_GUARD);
    memset(ft->block, 0xa5, ft->bytes + 2 * FAKE_GUARD);
    st = metatune_init(&ft->t, cfg, p, ft->block + FAKE_GUARD, ft->bytes, &e);
    CHECK_INT(st, METATUNE_OK);
    return st;
}

FAKE_FN void fake_close(fake_tuner *ft)
{
    size_t i;
    int whole = 1;
    for (i = 0; i < FAKE_GUARD; i++)
        whole &= ft->block[i] == 0xa5 &&
                 ft->block[FAKE_GUARD + ft->bytes + i] == 0xa5;
    CHECK(whole); /* nothing was written outside the block */
    free(ft->block);
}

/* No explore setting twice; returns how many explores there were. */
FAKE_FN uint32_t fake_distinct(const fake *f)
{
    uint32_t i, j, n = 0;
    for (i = 0; i < f->calls; i++) {
        if (f->seen_kind[i] != METATUNE_EXPLORE)
            continue;
        n++;
        for (j = 0; j < i; j++)
            if (f->seen_kind[j] == METATUNE_EXPLORE &&
                f->seen[j] == f->seen[i]) {
                CHECK(!"a setting was measured twice");
                return n;
            }
    }
    return n;
}

#endif
