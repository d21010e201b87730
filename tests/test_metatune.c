/* test_metatune.c - the tuner: spaces, order, failures, budgets, confirm,
   resume; the head against dense algebra, its meta-gradients against finite
   differences; blobs; training. */
#define METATUNE_IMPLEMENTATION
#include "../metatune.h"
#include "fake.h"

static const int strategies[] = {
    METATUNE_STRATEGY_MODEL, METATUNE_STRATEGY_RANDOM,
    METATUNE_STRATEGY_GENETIC, METATUNE_STRATEGY_ANNEAL,
    METATUNE_STRATEGY_GRID
};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

static metatune_config small_config(uint64_t seed, int strategy)
{
    metatune_config c;
    memset(&c, 0, sizeof c);
    c.seed = seed;
    c.strategy = strategy;
    c.draft = 64;
    c.chains = 8;
    c.moves = 10;
    c.encode.cap_nodes = 32;
    return c;
}

/* -------------------------------------------------------------- space */

static void test_space_check(void)
{
    metatune_knob k[2];
    metatune_error e;
    static const int64_t same[] = {1, 2, 1};
    memcpy(k, fake_knobs, sizeof k);
    CHECK_INT(metatune_space_check(k, 2, &e), METATUNE_OK);
    CHECK_INT(metatune_space_check(k, 0, &e), METATUNE_BAD_ARG);
    CHECK_INT(metatune_space_check(k, 65, &e), METATUNE_BAD_ARG);
    CHECK_INT(metatune_space_check(NULL, 1, &e), METATUNE_BAD_ARG);
    k[1].n_values = 0;
    CHECK_INT(metatune_space_check(k, 2, &e), METATUNE_EMPTY_KNOB);
    CHECK_STR(e.where, "tile_n");
    k[1] = fake_knobs[1];
    k[1].name = "tile_m";
    CHECK_INT(metatune_space_check(k, 2, &e), METATUNE_BAD_ARG);
    k[1].name = "tile n";
    CHECK_INT(metatune_space_check(k, 2, &e), METATUNE_BAD_ARG);
    k[1].name = "ok";
    k[1].values = same;
    k[1].n_values = 3;
    CHECK_INT(metatune_space_check(k, 2, &e), METATUNE_BAD_ARG);
    CHECK_INT(e.got, 1);
}

static void test_space_values(void)
{
    uint16_t d[FAKE_KNOBS], back[FAKE_KNOBS];
    int64_t v[FAKE_KNOBS];
    metatune_encode_rng rng;
    uint64_t h;
    metatune_knob k[FAKE_KNOBS];
    int i, j;
    metatune_encode_rng_init(&rng, 3, 0);
    for (i = 0; i < 200; i++) {
        for (j = 0; j < FAKE_KNOBS; j++)
            d[j] = (uint16_t)metatune_encode_rng_below(
                &rng, fake_knobs[j].n_values);
        metatune_space_values(fake_knobs, FAKE_KNOBS, d, v);
        CHECK_INT(metatune_space_digits(fake_knobs, FAKE_KNOBS, v, back),
                  METATUNE_OK);
        CHECK(memcmp(d, back, sizeof d) == 0);
    }
    v[2] = 3;
    CHECK_INT(metatune_space_digits(fake_knobs, FAKE_KNOBS, v, back),
              METATUNE_NOT_FOUND);
    CHECK_NEAR(metatune_space_size(fake_knobs, FAKE_KNOBS),
               7.0 * 7 * 7 * 5 * 3 * 4, 0);
    /* any change of the space changes its hash */
    h = metatune_space_hash(fake_knobs, FAKE_KNOBS);
    memcpy(k, fake_knobs, sizeof k);
    k[0] = fake_knobs[1];
    k[1] = fake_knobs[0];
    CHECK(metatune_space_hash(k, FAKE_KNOBS) != h);
    memcpy(k, fake_knobs, sizeof k);
    k[3].n_values--;
    CHECK(metatune_space_hash(k, FAKE_KNOBS) != h);
    memcpy(k, fake_knobs, sizeof k);
    k[3].name = "vec2";
    CHECK(metatune_space_hash(k, FAKE_KNOBS) != h);
    memcpy(k, fake_knobs, sizeof k);
    k[4].labels = NULL;
    CHECK(metatune_space_hash(k, FAKE_KNOBS) != h);
}

static void test_values_helpers(void)
{
    static const int64_t extents[] = {1, 2, 7, 12, 13, 229, 1009, 65536,
                                      65537, 2147483647};
    int64_t out[64];
    size_t e;
    uint32_t i, n, want;
    int64_t x;
    for (e = 0; e < sizeof extents / sizeof *extents; e++) {
        int64_t v = extents[e];
        n = metatune_values_divisors(v, v, out, 64);
        want = 0;
        for (x = 1; x <= (v < 70000 ? v : 1); x++)
            want += v % x == 0;
        if (v >= 70000)
            want = 2; /* 2^31 - 1 is prime */
        CHECK_INT(n, want);
        for (i = 0; i < n; i++)
            CHECK(v % out[i] == 0 && (!i || out[i] > out[i - 1]));
        n = metatune_values_powers(v, v, out, 64);
        CHECK(n >= 1 && out[n - 1] == v);
        for (i = 0; i + 1 < n; i++)
            CHECK_INT(out[i], (int64_t)1 << i);
    }
    CHECK_INT(metatune_values_divisors(12, 5, out, 64), 4); /* 1 2 3 4 */
    CHECK_INT(metatune_values_divisors(13, 0, out, 64), 1); /* never empty */
    CHECK_INT(metatune_values_divisors(0, 5, out, 64), 0);
    CHECK_INT(metatune_values_powers(12, 8, out, 64), 4);
}

/* ------------------------------------------------------- small spaces */

static int accept_none(fake *f, const int64_t *v)
{
    (void)f;
    (void)v;
    return 0;
}

static int accept_last(fake *f, const int64_t *v)
{
    (void)f;
    return v[0] == 64 && v[1] == 64 && v[2] == 64 && v[3] == 16 &&
           v[4] == 2 && v[5] == 8;
}

static int accept_first(fake *f, const int64_t *v)
{
    (void)f;
    return v[0] == 1 && v[1] == 1 && v[2] == 1 && v[3] == 1 && v[4] == 0 &&
           v[5] == 1;
}

static void test_space_sizes(void)
{
    /* knob 0 with n values, the others with one: sizes around the batch */
    static const uint32_t sizes[] = {1, 2, 3, 6, 7};
    size_t s, i;
    for (s = 0; s < STRATEGIES; s++)
        for (i = 0; i < 5; i++) {
            fake f;
            fake_tuner ft;
            metatune_problem p;
            metatune_config c = small_config(1, strategies[s]);
            metatune_knob k[FAKE_KNOBS];
            int j;
            fake_init(&f, 64);
            p = fake_problem(&f);
            memcpy(k, fake_knobs, sizeof k);
            for (j = 0; j < FAKE_KNOBS; j++)
                k[j].n_values = j ? 1 : sizes[i];
            p.knobs = k;
            c.trials = 1000;
            c.batch = 6;
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), METATUNE_EXHAUSTED);
            CHECK_INT(fake_distinct(&f), sizes[i]);
            CHECK_INT(f.calls, sizes[i]); /* exact samples: no confirm */
            CHECK_INT(f.last.total, sizes[i]); /* the clamped budget */
            fake_close(&ft);
        }
}

static void test_space_empty_and_sparse(void)
{
    size_t s;
    for (s = 0; s < STRATEGIES; s++) {
        int (*const predicates[3])(fake *, const int64_t *) = {
            accept_none, accept_first, accept_last};
        int i;
        for (i = 0; i < 3; i++) {
            fake f;
            fake_tuner ft;
            metatune_problem p;
            metatune_config c = small_config(2, strategies[s]);
            fake_init(&f, 64);
            f.predicate = predicates[i];
            p = fake_problem(&f);
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), i ? METATUNE_EXHAUSTED
                                              : METATUNE_EMPTY_SPACE);
            CHECK_INT(f.calls, i ? 1 : 0);
            CHECK(f.valid_calls < 200000);
            fake_close(&ft);
        }
    }
}

/* 20 knobs x 16 values = 2^80 settings. */
static void test_space_huge(void)
{
    static char names[20][8];
    static int64_t values[16];
    metatune_knob k[20];
    size_t s;
    int i;
    for (i = 0; i < 16; i++)
        values[i] = i;
    for (i = 0; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "k%d", i);
        k[i].name = names[i];
        k[i].values = values;
        k[i].labels = NULL;
        k[i].n_values = 16;
    }
    for (s = 1; s < STRATEGIES; s++) {
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_trial tr[8];
        metatune_result r;
        size_t n, j, all = 0;
        metatune_config c = small_config(3, METATUNE_STRATEGY_RANDOM);
        fake_init(&f, 64);
        p = fake_problem(&f);
        p.knobs = k;
        p.n_knobs = 20;
        p.measure = NULL;
        c.no_confirm = 1;
        CHECK_NEAR(metatune_space_size(k, 20), ldexp(1, 80), 0);
        fake_open(&ft, &c, &p);
        CHECK(ft.bytes < 100000);
        memset(&r, 0, sizeof r);
        while (metatune_ask(&ft.t, tr, 8, &n) == METATUNE_OK)
            for (j = 0; j < n; j++, all++) {
                r.value = 1 + (double)tr[j].values[3];
                CHECK_INT(metatune_tell(&ft.t, tr[j].id, &r), METATUNE_OK);
            }
        CHECK_INT(all, 64);
        CHECK_INT(metatune_done(&ft.t), METATUNE_BUDGET);
        fake_close(&ft);
    }
}

/* ------------------------------------------------------------ ask, tell */

static void test_order_inside_batch(void)
{
    size_t s;
    for (s = 0; s < STRATEGIES; s++) {
        fake f[2];
        fake_tuner ft[2];
        uint64_t hash[2][64];
        int w;
        memset(hash, 0, sizeof hash);
        for (w = 0; w < 2; w++) {
            metatune_problem p;
            metatune_config c = small_config(5, strategies[s]);
            metatune_trial tr[64];
            metatune_encode_rng rng;
            size_t n, total = 0;
            fake_init(&f[w], 64);
            p = fake_problem(&f[w]);
            c.trials = 40;
            c.no_confirm = 1;
            metatune_encode_rng_init(&rng, 11, 0);
            fake_open(&ft[w], &c, &p);
            for (;;) {
                size_t open = 0, j, ask = w ? 3 : 64;
                metatune_status st = METATUNE_OK;
                while (open < 8 &&
                       (st = metatune_ask(&ft[w].t, tr + open,
                                          ask < 8 - open ? ask : 8 - open,
                                          &n)) == METATUNE_OK)
                    open += n;
                if (!open)
                    break;
                CHECK(metatune_ask(&ft[w].t, tr + open, 1, &n) ==
                      METATUNE_WAIT);
                for (j = 0; j < open; j++)
                    hash[w][tr[j].id - 1] = tr[j].hash;
                for (j = open; w && j > 1; j--) { /* shuffle the tells */
                    size_t o = (size_t)metatune_encode_rng_below(&rng, j);
                    metatune_trial x = tr[o];
                    tr[o] = tr[j - 1];
                    tr[j - 1] = x;
                }
                for (j = 0; j < open; j++, total++) {
                    metatune_result r;
                    memset(&r, 0, sizeof r);
                    r.status = METATUNE_NOT_RUN; /* handed back: free */
                    if (w && j == 0) {
                        CHECK_INT(metatune_tell(&ft[w].t, tr[j].id, &r),
                                  METATUNE_OK);
                        CHECK_INT(metatune_ask(&ft[w].t, tr + open, 1, &n),
                                  METATUNE_OK);
                        CHECK(n == 1 && tr[open].id == tr[j].id);
                    }
                    r.status = METATUNE_OK;
                    r.value = fake_time(&f[w], tr[j].values);
                    CHECK_INT(metatune_tell(&ft[w].t, tr[j].id, &r),
                              METATUNE_OK);
                    CHECK_INT(metatune_tell(&ft[w].t, tr[j].id, &r),
                              METATUNE_NOT_FOUND); /* told already */
                }
            }
            CHECK_INT(total, 40);
            fake_close(&ft[w]);
        }
        CHECK(memcmp(hash[0], hash[1], sizeof hash[0]) == 0);
    }
}

static void test_two_tuners_interleaved(void)
{
    uint64_t alone[2][32], both[2][32];
    int round, w;
    for (round = 0; round < 2; round++) {
        fake f[2];
        fake_tuner ft[2];
        for (w = 0; w < 2; w++) {
            metatune_problem p;
            metatune_config c = small_config(20 + (uint64_t)w, 0);
            fake_init(&f[w], 32 << w);
            p = fake_problem(&f[w]);
            c.trials = 32;
            c.no_confirm = 1;
            fake_open(&ft[w], &c, &p);
        }
        for (w = 0; w < 2 * 32; w++) {
            /* alone: all of tuner 0 first; else in turn */
            int i = round ? w & 1 : w / 32;
            metatune_trial tr;
            metatune_result r;
            size_t n;
            CHECK_INT(metatune_ask(&ft[i].t, &tr, 1, &n), METATUNE_OK);
            memset(&r, 0, sizeof r);
            r.value = fake_time(&f[i], tr.values);
            (round ? both : alone)[i][tr.id - 1] = tr.hash;
            metatune_tell(&ft[i].t, tr.id, &r);
        }
        fake_close(&ft[0]);
        fake_close(&ft[1]);
    }
    CHECK(memcmp(alone, both, sizeof alone) == 0);
}

static void test_bad_calls(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_config c = small_config(0, 0);
    metatune_trial tr;
    metatune_result r;
    metatune_error e;
    metatune_tuner t;
    size_t n;
    char line[256];
    static unsigned char mem[16];
    fake_init(&f, 64);
    p = fake_problem(&f);
    CHECK_INT(metatune_init(&t, &c, &p, mem, sizeof mem, &e),
              METATUNE_NO_MEMORY);
    CHECK_INT(metatune_init(&t, NULL, &p, mem, sizeof mem, &e),
              METATUNE_BAD_ARG);
    p.describe = NULL;
    CHECK_INT(metatune_init(&t, &c, &p, mem, sizeof mem, &e),
              METATUNE_BAD_CONFIG);
    CHECK_STR(e.where, "describe");
    CHECK(metatune_encode_error_line(&e, line, sizeof line) > 20);
    p = fake_problem(&f);
    c.batch = 65;
    CHECK_INT(metatune_init(&t, &c, &p, mem, sizeof mem, &e),
              METATUNE_BAD_CONFIG);
    CHECK_STR(e.where, "batch");
    CHECK_INT(e.got, 65);
    c.batch = 8;
    c.seconds = 1;
    p.now = NULL;
    CHECK_INT(metatune_init(&t, &c, &p, mem, sizeof mem, &e),
              METATUNE_BAD_CONFIG);
    CHECK_STR(e.where, "now");
    c.seconds = -1;
    CHECK_INT(metatune_config_check(&c, &e), METATUNE_BAD_CONFIG);
    c.seconds = 0;
    c.strategy = 9;
    CHECK_INT(metatune_config_check(&c, &e), METATUNE_BAD_CONFIG);
    CHECK_STR(e.where, "strategy");
    c.strategy = 0;
    p = fake_problem(&f);
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_ask(&ft.t, &tr, 0, &n), METATUNE_BAD_ARG);
    CHECK_INT(metatune_ask(&ft.t, &tr, 1, &n), METATUNE_OK);
    memset(&r, 0, sizeof r);
    CHECK_INT(metatune_tell(&ft.t, 999, &r), METATUNE_NOT_FOUND);
    r.status = METATUNE_BUDGET; /* not a result */
    CHECK_INT(metatune_tell(&ft.t, tr.id, &r), METATUNE_BAD_ARG);
    r.status = METATUNE_OK;
    r.value = 0; /* no such time: counted as INVALID_TIME */
    CHECK_INT(metatune_tell(&ft.t, tr.id, &r), METATUNE_OK);
    CHECK_INT(ft.t.sum.by_status[METATUNE_INVALID_TIME], 1);
    fake_close(&ft);
}

/* ------------------------------------------------------------ failures */

static metatune_status fail_all(fake *f, const metatune_trial *t)
{
    static const metatune_status mix[] = {
        METATUNE_COMPILE, METATUNE_RUNTIME, METATUNE_TIMEOUT, METATUNE_WRONG};
    (void)t;
    return mix[f->calls % 3 ? f->calls % 4 : 0];
}

static metatune_status fail_wrong(fake *f, const metatune_trial *t)
{
    (void)f;
    (void)t;
    return METATUNE_WRONG;
}

static metatune_status fail_first_100(fake *f, const metatune_trial *t)
{
    (void)t;
    return f->calls < 100 ? METATUNE_RUNTIME : METATUNE_OK;
}

static metatune_status fail_half(fake *f, const metatune_trial *t)
{
    (void)f;
    return t->hash & 1 ? METATUNE_TIMEOUT : METATUNE_OK;
}

static void test_all_fail(void)
{
    size_t s;
    for (s = 0; s < STRATEGIES; s++) {
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_best best;
        metatune_summary sum;
        metatune_config c = small_config(4, strategies[s]);
        c.trials = 400;
        c.max_failures = 50;
        fake_init(&f, 64);
        f.fail = fail_all;
        f.error = "ld: cannot find\n-lfoo";
        p = fake_problem(&f);
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_NO_VALID);
        CHECK_INT(f.calls, 50);
        CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_NOT_FOUND);
        metatune_summary_get(&ft.t, &sum);
        CHECK_INT(sum.first_failure, METATUNE_COMPILE);
        CHECK_STR(sum.first_error, "ld: cannot find -lfoo");
        CHECK_INT(sum.trials, 50);
        fake_close(&ft);

        fake_init(&f, 64);
        f.fail = fail_wrong;
        p = fake_problem(&f);
        c.max_failures = 12;
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_NO_VALID);
        metatune_summary_get(&ft.t, &sum);
        CHECK_INT(sum.reference_suspect, 1);
        fake_close(&ft);
    }
}

static void test_late_valid(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_best best;
    metatune_config c = small_config(4, METATUNE_STRATEGY_RANDOM);
    c.trials = 200;
    c.patience = 50; /* counts only after something valid */
    fake_init(&f, 64);
    f.fail = fail_first_100;
    p = fake_problem(&f);
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
    CHECK(f.calls > 100);
    CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
    fake_close(&ft);
}

static void test_patience(void)
{
    static const uint32_t patience[] = {1, 5, 9};
    int i;
    for (i = 0; i < 3; i++) {
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_config c = small_config(4, METATUNE_STRATEGY_RANDOM);
        uint32_t j, since = 0;
        double best = 1e9;
        c.trials = 500;
        c.patience = patience[i];
        c.no_confirm = 1;
        fake_init(&f, 64);
        p = fake_problem(&f);
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
        CHECK(f.calls < 500);
        for (j = 0; j < ft.t.n_points; j++) { /* stopped not too early */
            since = ft.t.point[j].value < best ? 0 : since + 1;
            if (ft.t.point[j].value < best)
                best = ft.t.point[j].value;
            CHECK(since <= patience[i] && (since < patience[i] ||
                                           j + 1 == ft.t.n_points));
        }
        fake_close(&ft);
    }
}

static void test_some_fail(void)
{
    size_t s;
    for (s = 0; s < STRATEGIES; s++) {
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_best best;
        metatune_config c = small_config(6, strategies[s]);
        uint32_t i;
        fake_init(&f, 64);
        f.fail = fail_half;
        p = fake_problem(&f);
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
        CHECK_INT(fake_distinct(&f), 64);
        CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
        CHECK((best.hash & 1) == 0);
        for (i = 0; ft.t.width && i < (uint32_t)ft.t.width; i++)
            CHECK(ft.t.head.m[i] - ft.t.head.m[i] <= 0); /* finite */
        fake_close(&ft);
    }
}

static int64_t deadly[FAKE_KNOBS];

static metatune_status fail_deadly(fake *f, const metatune_trial *t)
{
    (void)f;
    return memcmp(t->values, deadly, sizeof deadly) == 0
               ? METATUNE_DEVICE_LOST : METATUNE_OK;
}

/* The device dies on one setting: reset, one more attempt, quarantine. */
static void test_device_lost(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_summary sum;
    metatune_config c = small_config(8, METATUNE_STRATEGY_RANDOM);
    uint32_t i, n = 0;
    uint16_t digits[FAKE_KNOBS];
    uint64_t hash;
    fake_init(&f, 64);
    p = fake_problem(&f);
    fake_open(&ft, &c, &p); /* which is the 17th? */
    metatune_tune(&ft.t);
    hash = f.seen[16];
    for (i = 0; i < ft.t.n_points; i++)
        if (ft.t.point[i].hash == hash)
            memcpy(digits, ft.t.point_digits + i * FAKE_KNOBS,
                   sizeof digits);
    metatune_space_values(fake_knobs, FAKE_KNOBS, digits, deadly);
    fake_close(&ft);

    fake_init(&f, 64);
    f.fail = fail_deadly;
    p = fake_problem(&f);
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
    metatune_summary_get(&ft.t, &sum);
    for (i = 0; i < f.calls; i++)
        n += f.seen[i] == hash;
    CHECK_INT(n, 2);
    CHECK(f.resets >= 2 && sum.resets == f.resets);
    CHECK_INT(sum.quarantined, 1);
    CHECK_INT(sum.trials, 64);
    fake_close(&ft);

    p.reset = NULL; /* nobody can revive it: stop, keep the best */
    fake_init(&f, 64);
    f.fail = fail_deadly;
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_tune(&ft.t), METATUNE_DEVICE_LOST);
    CHECK(f.calls <= 24);
    fake_close(&ft);
}

/* Builds fail by hash; what does not build must never be measured. */
static uint32_t split_built, split_bad;

static metatune_status split_compile(void *user,
                                     const metatune_problem *problem,
                                     const metatune_trial *trials, size_t n,
                                     metatune_result *results)
{
    size_t i;
    (void)user;
    (void)problem;
    for (i = 0; i < n; i++) {
        results[i].status = trials[i].hash % 3 ? METATUNE_OK
                                               : METATUNE_COMPILE;
        results[i].build_s = 2;
        split_built++;
    }
    return METATUNE_OK;
}

static metatune_status split_measure(void *user,
                                     const metatune_problem *problem,
                                     const metatune_trial *trials, size_t n,
                                     metatune_result *results)
{
    size_t i;
    metatune_status st;
    for (i = 0; i < n; i++) {
        split_bad += trials[i].hash % 3 == 0;
        split_bad += results[i].status != METATUNE_NOT_RUN;
        split_bad += results[i].build_s < 2;
    }
    st = fake_measure(user, problem, trials, n, results);
    for (i = 0; i < n; i++)
        results[i].build_s = 2; /* the fake says its own */
    return st;
}

static void test_compile_split(void)
{
    size_t s;
    for (s = 0; s < STRATEGIES; s++) {
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_summary sum;
        metatune_config c = small_config(3, strategies[s]);
        uint32_t i;
        fake_init(&f, 64);
        f.noise = 0.01;
        p = fake_problem(&f);
        p.compile = split_compile;
        p.measure = split_measure;
        split_built = split_bad = 0;
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
        metatune_summary_get(&ft.t, &sum);
        CHECK_INT(split_bad, 0);
        CHECK_INT(sum.trials, 64);
        CHECK_INT(split_built, 64 + sum.confirms);
        CHECK(sum.by_status[METATUNE_COMPILE] > 5);
        CHECK_INT(f.calls + sum.by_status[METATUNE_COMPILE], split_built);
        CHECK_NEAR(sum.build_s, 2.0 * split_built, 1e-9);
        for (i = 0; i < f.calls; i++)
            CHECK(f.seen[i] % 3 != 0);
        fake_close(&ft);
    }
}

/* A target that measures nothing must not be asked for ever. */
static metatune_status idle_measure(void *user,
                                    const metatune_problem *problem,
                                    const metatune_trial *trials, size_t n,
                                    metatune_result *results)
{
    (void)problem;
    (void)trials;
    (void)n;
    (void)results;
    ((fake *)user)->calls++;
    return METATUNE_OK;
}

static void test_idle_target(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_config c = small_config(3, METATUNE_STRATEGY_RANDOM);
    fake_init(&f, 64);
    p = fake_problem(&f);
    p.measure = idle_measure;
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_tune(&ft.t), METATUNE_NOT_RUN);
    CHECK(f.calls <= 8);
    CHECK_INT(ft.t.sum.trials, 0);
    fake_close(&ft);
}

/* -------------------------------------------------------------- budgets */

static void test_budgets(void)
{
    uint32_t trials, batch;
    size_t s;
    for (s = 0; s < STRATEGIES; s++)
        for (trials = 1; trials <= 10; trials++)
            for (batch = 1; batch <= 8; batch += 3) {
                fake f;
                fake_tuner ft;
                metatune_problem p;
                metatune_config c = small_config(trials, strategies[s]);
                c.trials = trials;
                c.batch = batch;
                c.no_confirm = 1;
                c.moves = 2;
                fake_init(&f, 64);
                p = fake_problem(&f);
                fake_open(&ft, &c, &p);
                CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
                CHECK_INT(f.calls, trials);
                fake_close(&ft);
            }
    {
        double seconds;
        for (seconds = 0.5; seconds < 30; seconds *= 1.7) {
            fake f;
            fake_tuner ft;
            metatune_problem p;
            metatune_config c = small_config(1, METATUNE_STRATEGY_RANDOM);
            c.trials = METATUNE_UNLIMITED;
            c.seconds = seconds;
            c.cap_visited = 4096;
            fake_init(&f, 64);
            f.call_s = 0.25;
            p = fake_problem(&f);
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
            CHECK(f.clock_s >= 0.9 * seconds); /* used up */
            CHECK(f.clock_s <= seconds + 0.25 + 1e-9); /* one trial over */
            /* the last tenth is for confirming */
            CHECK(seconds < 6 || ft.t.sum.confirms > 0);
            fake_close(&ft);
        }
    }
}

static void test_zero_trials(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_best best;
    metatune_config c = small_config(1, METATUNE_STRATEGY_RANDOM);
    static const int64_t chosen[FAKE_KNOBS] = {8, 8, 8, 4, 0, 2};
    c.no_trials = 1;
    fake_init(&f, 64);
    p = fake_problem(&f);
    p.default_values = chosen;
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
    CHECK_INT(f.calls, 0);
    CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
    CHECK_INT(best.measured, 0);
    CHECK(memcmp(best.values, chosen, sizeof chosen) == 0);
    fake_close(&ft);
    p.default_values = NULL; /* any legal one, then */
    f.predicate = accept_last;
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
    CHECK(accept_last(&f, best.values));
    fake_close(&ft);
}

static void test_cancel(void)
{
    uint32_t k;
    for (k = 1; k <= 30; k += 7) {
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_best best;
        metatune_config c = small_config(2, METATUNE_STRATEGY_RANDOM);
        uint32_t i;
        double low = 1e9;
        fake_init(&f, 64);
        f.stop_after = k;
        p = fake_problem(&f);
        c.batch = 1;
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_CANCELLED);
        CHECK_INT(f.calls, k);
        CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
        for (i = 0; i < ft.t.n_points; i++)
            if (ft.t.point[i].value < low)
                low = ft.t.point[i].value;
        CHECK_INT(ft.t.n_points, k);
        CHECK_NEAR(best.value, low, 0);
        fake_close(&ft);
    }
}

/* Best of a batch that is only partly told. */
static void test_best_while_open(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_best best;
    metatune_trial tr[8];
    metatune_result r;
    size_t n;
    metatune_config c = small_config(2, METATUNE_STRATEGY_RANDOM);
    fake_init(&f, 64);
    p = fake_problem(&f);
    fake_open(&ft, &c, &p);
    metatune_ask(&ft.t, tr, 8, &n);
    memset(&r, 0, sizeof r);
    r.value = 3;
    metatune_tell(&ft.t, tr[0].id, &r);
    r.value = 2;
    metatune_tell(&ft.t, tr[5].id, &r);
    CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
    CHECK_INT(best.trial, tr[5].id);
    CHECK_NEAR(best.value, 2, 0);
    CHECK_INT(best.measured, 1);
    metatune_stop(&ft.t, METATUNE_CANCELLED);
    CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
    CHECK_NEAR(best.value, 2, 0);
    fake_close(&ft);
}

/* -------------------------------------------------------------- confirm */

/* Noise of 10 %: confirming the top must beat taking the luckiest. */
static void test_confirm_beats_luck(void)
{
    int seed, good[2] = {0, 0}, runs = 100, w;
    double loss[2] = {0, 0};
    for (seed = 0; seed < runs; seed++)
        for (w = 0; w < 2; w++) {
            fake f;
            fake_tuner ft;
            metatune_problem p;
            metatune_best best;
            metatune_config c =
                small_config((uint64_t)seed, METATUNE_STRATEGY_RANDOM);
            double low = 1e9, got;
            uint32_t i;
            int64_t v[FAKE_KNOBS];
            c.trials = 200;
            c.no_confirm = !w;
            c.confirm_top = 8;
            c.confirm_repeat = 9;
            fake_init(&f, 64);
            f.noise = 0.1;
            metatune_encode_rng_init(&f.rng, (uint64_t)seed, 1);
            p = fake_problem(&f);
            fake_open(&ft, &c, &p);
            metatune_tune(&ft.t);
            metatune_best_get(&ft.t, &best);
            got = fake_time(&f, best.values);
            for (i = 0; i < ft.t.n_points; i++) {
                metatune_space_values(fake_knobs, FAKE_KNOBS,
                                      ft.t.point_digits + i * FAKE_KNOBS, v);
                if (fake_time(&f, v) < low)
                    low = fake_time(&f, v);
            }
            good[w] += got <= low * 1.01;
            loss[w] += got / low - 1;
            if (w) {
                CHECK_INT(best.confirmed, 1);
                CHECK_INT(f.calls, 200 + 8 * 9);
                CHECK(best.spread > 0);
            }
            fake_close(&ft);
        }
    printf("    winner within 1 %%: %d of %d plain, %d confirmed; mean loss "
           "%.2f %%, %.2f %%\n", good[0], runs, good[1],
           100 * loss[0] / runs, 100 * loss[1] / runs);
    CHECK(good[1] >= good[0] + 8);
    CHECK(loss[1] < 0.75 * loss[0]);
}

static metatune_status wrong_confirms(fake *f, const metatune_trial *t)
{
    (void)f;
    return t->kind == METATUNE_CONFIRM && t->repeat ? METATUNE_WRONG
                                                    : METATUNE_OK;
}

/* What is wrong when looked at again must not win, however fast. */
static void test_confirm_wrong(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_best best;
    metatune_config c = small_config(3, METATUNE_STRATEGY_RANDOM);
    uint32_t i;
    fake_init(&f, 64);
    f.noise = 0.05;
    f.fail = wrong_confirms;
    p = fake_problem(&f);
    fake_open(&ft, &c, &p);
    metatune_tune(&ft.t);
    CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
    CHECK_INT(best.confirmed, 0); /* all three were unmasked: the fourth */
    for (i = 0; i < ft.t.n_top; i++)
        CHECK(best.hash != ft.t.point[ft.t.top[i]].hash);
    fake_close(&ft);
}

static metatune_status picky_describe(void *user,
                                      const metatune_problem *problem,
                                      const int64_t *values,
                                      metatune_encode_nest *nest)
{
    return values[0] >= 8 ? METATUNE_BAD_NEST
                          : fake_describe(user, problem, values, nest);
}

static metatune_status fail_if_refused(fake *f, const metatune_trial *t)
{
    (void)f;
    CHECK(t->values[0] < 8); /* describe refused it */
    return METATUNE_OK;
}

static void test_describe_refuses(void)
{
    uint64_t seed;
    for (seed = 0; seed < 4; seed++) {
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_config c = small_config(seed, METATUNE_STRATEGY_MODEL);
        fake_init(&f, 64);
        f.fail = fail_if_refused;
        p = fake_problem(&f);
        p.describe = picky_describe;
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
        CHECK_INT(fake_distinct(&f), 64);
        fake_close(&ft);
    }
}

/* ----------------------------------------------------------- the search */

/* Four tiles that must be equal, order and unroll at their first values: one
   draw in 4,116 is valid. */
static int equal_tiles(fake *f, const int64_t *v)
{
    (void)f;
    return v[0] == v[1] && v[1] == v[2] && v[3] == 1 && v[4] == 0 &&
           v[5] == 1;
}

static int repair_calls;

static int repair_tiles(void *user, const metatune_problem *problem,
                        int64_t *v)
{
    (void)user, (void)problem;
    repair_calls++;
    v[1] = v[2] = v[0];
    v[3] = v[5] = 1;
    v[4] = 0;
    return 1;
}

static int repair_nothing(void *user, const metatune_problem *problem,
                          int64_t *v)
{
    (void)user, (void)problem;
    v[0] = 5;                   /* must not be looked at */
    return 0;
}

static int repair_foreign(void *user, const metatune_problem *problem,
                          int64_t *v)
{
    (void)user, (void)problem;
    v[0] = 5;                   /* in no list */
    return 1;
}

static void test_repair(void)
{
    metatune_repair_fn const repairs[] = {NULL, repair_nothing,
                                          repair_foreign, repair_tiles};
    size_t s, r;
    for (s = 0; s < STRATEGIES; s++) {
        int calls[4];
        for (r = 0; r < 4; r++) {
            fake f;
            fake_tuner ft;
            metatune_problem p;
            metatune_config c = small_config(2, strategies[s]);
            fake_init(&f, 64);
            f.predicate = equal_tiles;
            p = fake_problem(&f);
            p.repair = repairs[r];
            repair_calls = 0;
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), METATUNE_EXHAUSTED);
            CHECK_INT(fake_distinct(&f), 7); /* all there are, once each */
            calls[r] = (int)f.valid_calls;
            CHECK(repair_calls == 0 || r == 3);
            fake_close(&ft);
        }
        /* a repair that does nothing changes nothing */
        CHECK_INT(calls[1], calls[0]);
        CHECK_INT(calls[2], calls[0]);
    }
}

/* In a space too large to count, draws alone find none of its valid settings;
   with a repair every draw is one. */
static void test_repair_sparse(void)
{
    static int64_t many[256];
    metatune_knob k[FAKE_KNOBS];
    size_t s, i;
    memcpy(k, fake_knobs, sizeof k);
    for (i = 0; i < 256; i++)
        many[i] = (int64_t)i;
    k[4].values = k[5].values = many; /* order and unroll: only the first */
    k[4].labels = NULL;
    k[4].n_values = k[5].n_values = 256;
    many[0] = 1;
    many[1] = 0;
    for (s = 0; s < STRATEGIES - 1; s++) { /* a grid is not bent */
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_config c = small_config(4, strategies[s]);
        c.trials = 6;
        fake_init(&f, 64);
        f.predicate = equal_tiles;
        p = fake_problem(&f);
        p.knobs = k;
        p.repair = repair_tiles;
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
        CHECK_INT(fake_distinct(&f), 6);
        CHECK(f.valid_calls < 20000);
        fake_close(&ft);
        /* without one, such a space is not called empty */
        fake_init(&f, 64);
        f.predicate = accept_none;
        p = fake_problem(&f);
        p.knobs = k;
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_NO_VALID);
        CHECK_INT(f.calls, 0);
        fake_close(&ft);
    }
}

/* Two checksum knobs of 100 values: one draw in 10^4 is valid, 20,580 of 2.06e8
   in all, and repair() knows which. */
#define SUM_KNOBS (FAKE_KNOBS + 2)

static int64_t sum_values[100];

static void sum_space(metatune_knob *k)
{
    int i;
    for (i = 0; i < 100; i++)
        sum_values[i] = i;
    memcpy(k, fake_knobs, sizeof fake_knobs);
    for (i = FAKE_KNOBS; i < SUM_KNOBS; i++) {
        k[i].name = i == FAKE_KNOBS ? "sum" : "alt";
        k[i].values = sum_values;
        k[i].labels = NULL;
        k[i].n_values = 100;
    }
}

static void sums_of(const int64_t *v, int64_t *sums)
{
    sums[0] = (v[0] + 3 * v[1] + 7 * v[2] + v[3]) % 100;
    sums[1] = (5 * v[0] + v[4] + 11 * v[5] + 29) % 100;
}

static int sums_right(fake *f, const int64_t *v)
{
    int64_t want[2];
    (void)f;
    sums_of(v, want);
    return v[FAKE_KNOBS] == want[0] && v[FAKE_KNOBS + 1] == want[1];
}

static int repair_sums(void *user, const metatune_problem *problem,
                       int64_t *v)
{
    (void)user, (void)problem;
    repair_calls++;
    sums_of(v, v + FAKE_KNOBS);
    return 1;
}

/* In the lists, and never valid. */
static int repair_badly(void *user, const metatune_problem *problem,
                        int64_t *v)
{
    (void)user, (void)problem;
    sums_of(v, v + FAKE_KNOBS);
    v[FAKE_KNOBS] = (v[FAKE_KNOBS] + 1) % 100;
    return 1;
}

/* Share of the valid settings that are faster than t. */
static double faster_share(const fake *f, double t)
{
    uint16_t d[FAKE_KNOBS] = {0};
    uint32_t k, fast = 0, all = 0;
    do {
        int64_t v[FAKE_KNOBS];
        metatune_space_values(fake_knobs, FAKE_KNOBS, d, v);
        fast += fake_time(f, v) < t;
        all++;
        for (k = 0; k < FAKE_KNOBS && ++d[k] == fake_knobs[k].n_values; k++)
            d[k] = 0;
    } while (k < FAKE_KNOBS);
    return (double)fast / all;
}

static void test_repair_finds(void)
{
    static const double most[2] = {0.005, 0.03}; /* model, random */
    metatune_knob k[SUM_KNOBS];
    const uint64_t first = 100;
    size_t s;
    sum_space(k);
    for (s = 0; s < 2; s++) {
        double share = 0;
        uint64_t seed, looked = 0;
        for (seed = first; seed < first + 8; seed++) {
            fake f, again;
            fake_tuner ft;
            metatune_problem p;
            metatune_best best;
            metatune_summary sum;
            metatune_config c = small_config(seed, strategies[s]);
            c.moves = 30;
            fake_init(&f, 64);
            f.predicate = sums_right;
            p = fake_problem(&f);
            p.knobs = k;
            p.n_knobs = SUM_KNOBS;
            p.repair = repair_sums;
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
            CHECK_INT(fake_distinct(&f), 64);
            CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
            CHECK(sums_right(&f, best.values));
            share += faster_share(&f, best.value) / 8;
            metatune_summary_get(&ft.t, &sum);
            CHECK_INT(sum.looked, f.valid_calls);
            looked += f.valid_calls;
            fake_close(&ft);
            /* the same seed is the same search */
            again = f;
            fake_init(&f, 64);
            f.predicate = sums_right;
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
            CHECK_INT(f.valid_calls, again.valid_calls);
            CHECK(memcmp(f.seen, again.seen, sizeof f.seen) == 0);
            fake_close(&ft);
        }
        printf("    seeds %d to %d, %s: best in the fastest %.2f %%, %.0f "
               "settings looked at\n", (int)first, (int)first + 7,
               s ? "random" : "model", 100 * share, (double)looked / 8);
        CHECK(share < most[s]);
        /* every draw and most moves are used: a random one looks at a setting
           a trial, a batch of the model's at a draft and at 8 chains' moves */
        CHECK(looked / 8 < (s ? 70 : 8 * (4 * 64 + 8 * 30 * 3)));
    }
}

/* A move that repairs back to where it came from is none. */
static void test_repair_moves(void)
{
    const uint64_t seed = 20261201;
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_config c = small_config(0, METATUNE_STRATEGY_RANDOM);
    metatune_knob k[SUM_KNOBS];
    metatune_encode_rng rng;
    int i;
    printf("    seed %llu\n", (unsigned long long)seed);
    metatune_encode_rng_init(&rng, seed, 0);
    sum_space(k);
    fake_init(&f, 64);
    f.predicate = sums_right;
    p = fake_problem(&f);
    p.knobs = k;
    p.n_knobs = SUM_KNOBS;
    p.repair = repair_sums;
    fake_open(&ft, &c, &p);
    for (i = 0; i < 500; i++) {
        uint16_t from[SUM_KNOBS], to[SUM_KNOBS];
        int64_t v[SUM_KNOBS];
        int at, back;
        CHECK(mti_sample(&ft.t, &rng, from));
        memcpy(to, from, sizeof to);
        do
            mti_mutate(&ft.t, &rng, to);
        while (memcmp(to, from, sizeof to) == 0);
        for (at = 0; to[at] == from[at]; at++) {}
        back = at >= FAKE_KNOBS; /* a checksum, or what is summed */
        CHECK_INT(mti_settle(&ft.t, to, from), !back);
        metatune_space_values(k, SUM_KNOBS, to, v);
        CHECK_INT(sums_right(&f, v), !back);
        CHECK(to[at] != from[at]);
    }
    fake_close(&ft);
}

/* A repair that never leads to a valid setting is as good as none. */
static void test_repair_in_vain(void)
{
    metatune_repair_fn const vain[] = {NULL, repair_nothing, repair_foreign,
                                       repair_badly};
    metatune_knob k[SUM_KNOBS];
    size_t s, r;
    sum_space(k);
    for (s = 0; s < STRATEGIES; s++) {
        static fake f[4];
        for (r = 0; r < 4; r++) {
            fake_tuner ft;
            metatune_problem p;
            metatune_config c = small_config(5, strategies[s]);
            c.trials = 10;
            fake_init(&f[r], 64);
            f[r].predicate = sums_right;
            p = fake_problem(&f[r]);
            p.knobs = k;
            p.n_knobs = SUM_KNOBS;
            p.repair = vain[r];
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
            CHECK_INT(fake_distinct(&f[r]), 10);
            CHECK(memcmp(f[r].seen, f[0].seen, sizeof f[r].seen) == 0);
            fake_close(&ft);
        }
    }
}

/* Every draw and move becomes this one setting, which is valid. */
static int repair_to_one(void *user, const metatune_problem *problem,
                         int64_t *v)
{
    (void)user, (void)problem;
    v[0] = v[1] = v[2] = 4;
    v[3] = v[5] = 1;
    v[4] = 0;
    return 1;
}

static void test_repair_collapses(void)
{
    static const int64_t work[FAKE_KNOBS] = {32, 32, 32, 1, 0, 1};
    uint16_t digits[FAKE_KNOBS];
    size_t s, sparse;
    metatune_space_digits(fake_knobs, FAKE_KNOBS, work, digits);
    for (s = 0; s < STRATEGIES; s++)
        for (sparse = 0; sparse < 2; sparse++) {
            fake f;
            fake_tuner ft;
            metatune_problem p;
            metatune_config c = small_config(3, strategies[s]);
            metatune_knob k[FAKE_KNOBS];
            fake_init(&f, 64);
            f.predicate = sparse ? equal_tiles : NULL;
            p = fake_problem(&f);
            p.repair = repair_to_one;
            p.default_values = work; /* goes in as it is */
            memcpy(k, fake_knobs, sizeof k);
            if (!sparse) /* 7 x 7 settings, all valid */
                k[2].n_values = k[3].n_values = k[4].n_values =
                    k[5].n_values = 1;
            if (!sparse)
                p.default_values = NULL;
            p.knobs = k;
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), METATUNE_EXHAUSTED);
            CHECK_INT(fake_distinct(&f), sparse ? 7 : 49);
            CHECK(!sparse ||
                  f.seen[0] == metatune_setting_hash(digits, FAKE_KNOBS));
            fake_close(&ft);
        }
}

/* Why nothing was proposed: all counted, or looked at in vain. */
static void test_nothing_found(void)
{
    static const int64_t last[FAKE_KNOBS] = {64, 64, 64, 16, 2, 8};
    uint16_t digits[FAKE_KNOBS];
    metatune_knob k[SUM_KNOBS];
    size_t s, i;
    sum_space(k);
    metatune_space_digits(fake_knobs, FAKE_KNOBS, last, digits);
    for (s = 0; s < STRATEGIES; s++)
        for (i = 0; i < 3; i++) {
            fake f;
            fake_tuner ft;
            metatune_problem p;
            metatune_summary sum;
            metatune_config c = small_config(2, strategies[s]);
            fake_init(&f, 64);
            f.predicate = i == 2 ? accept_last : accept_none;
            p = fake_problem(&f);
            p.knobs = k;
            p.n_knobs = i == 1 ? SUM_KNOBS : FAKE_KNOBS;
            fake_open(&ft, &c, &p);
            if (i == 2) /* the only valid setting may not be proposed */
                CHECK_INT(metatune_quarantine(&ft.t, digits), METATUNE_OK);
            CHECK_INT(metatune_tune(&ft.t), i ? METATUNE_NO_VALID
                                              : METATUNE_EMPTY_SPACE);
            CHECK_INT(f.calls, 0);
            metatune_summary_get(&ft.t, &sum);
            CHECK_INT(sum.looked, f.valid_calls);
            CHECK(i != 1 || (sum.looked > 2097152 && sum.looked < 5000000));
            fake_close(&ft);
        }
}

static metatune_status no_describe(void *user,
                                   const metatune_problem *problem,
                                   const int64_t *values,
                                   metatune_encode_nest *nest)
{
    (void)user, (void)problem, (void)values, (void)nest;
    return METATUNE_CAPACITY;
}

/* A model that could read no setting at all is told from one that did. */
static void test_undescribed(void)
{
    static const int64_t work[FAKE_KNOBS] = {32, 32, 32, 1, 0, 1};
    const struct {
        metatune_describe_fn describe;
        const int64_t *work;
        int strategy, some, none;
        metatune_status end, first;
    } rows[] = {
        {no_describe, NULL, METATUNE_STRATEGY_MODEL, 0, 1, METATUNE_NO_VALID,
         METATUNE_CAPACITY},
        {no_describe, work, METATUNE_STRATEGY_MODEL, 0, 1,
         METATUNE_EXHAUSTED, METATUNE_CAPACITY},
        {picky_describe, NULL, METATUNE_STRATEGY_MODEL, 1, 1,
         METATUNE_BUDGET, METATUNE_BAD_NEST},
        {fake_describe, NULL, METATUNE_STRATEGY_MODEL, 1, 0, METATUNE_BUDGET,
         METATUNE_OK},
        {no_describe, NULL, METATUNE_STRATEGY_RANDOM, 0, 0, METATUNE_BUDGET,
         METATUNE_OK},
    };
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_summary sum;
        metatune_config c = small_config(1, rows[i].strategy);
        c.trials = 16;
        fake_init(&f, 64);
        p = fake_problem(&f);
        p.describe = rows[i].describe;
        p.default_values = rows[i].work;
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), rows[i].end);
        metatune_summary_get(&ft.t, &sum);
        CHECK_INT(sum.described > 0, rows[i].some);
        CHECK_INT(sum.undescribed > 0, rows[i].none);
        CHECK_INT(sum.first_undescribed, rows[i].first);
        fake_close(&ft);
    }
}

static void test_null_tuner(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_config c = small_config(0, METATUNE_STRATEGY_RANDOM);
    metatune_summary sum;
    uint16_t digit = 0;
    memset(&sum, 1, sizeof sum);
    CHECK_INT(metatune_done(NULL), METATUNE_BAD_ARG);
    metatune_stop(NULL, METATUNE_CANCELLED);
    metatune_summary_get(NULL, &sum);
    CHECK_INT(sum.end, 0);
    CHECK_INT(metatune_quarantine(NULL, &digit), METATUNE_BAD_ARG);
    fake_init(&f, 64);
    p = fake_problem(&f);
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_quarantine(&ft.t, NULL), METATUNE_BAD_ARG);
    CHECK_INT(ft.t.n_quarantine, 0);
    metatune_summary_get(&ft.t, NULL);
    CHECK_INT(metatune_done(&ft.t), METATUNE_OK);
    fake_close(&ft);
}

static void test_predictions_are_of_the_unit(void)
{
    /* the same kernel in cycles of a 100 MHz device */
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_trial tr[8];
    metatune_config c = small_config(1, METATUNE_STRATEGY_MODEL);
    size_t n, j;
    double off = 0;
    int count = 0;
    c.trials = 48;
    fake_init(&f, 64);
    p = fake_problem(&f);
    p.unit = METATUNE_CYCLES;
    fake_open(&ft, &c, &p);
    while (metatune_ask(&ft.t, tr, 8, &n) == METATUNE_OK)
        for (j = 0; j < n; j++) {
            metatune_result r;
            memset(&r, 0, sizeof r);
            r.value = 1e8 * fake_time(&f, tr[j].values);
            if (tr[j].kind == METATUNE_EXPLORE && tr[j].batch >= 3) {
                CHECK(tr[j].predicted && tr[j].mean > 0 && tr[j].sigma > 0);
                off += fabs(log2(tr[j].mean / r.value));
                count++;
            }
            metatune_tell(&ft.t, tr[j].id, &r);
        }
    CHECK(count > 10 && off / count < 1.0); /* octaves */
    fake_close(&ft);
}

static void test_capacities(void)
{
    /* more trials than points and hashes kept: the best stays */
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_best best;
    metatune_config c = small_config(1, METATUNE_STRATEGY_MODEL);
    double low = 1e9;
    uint32_t i;
    c.trials = 120;
    c.cap_fit = 16;
    c.cap_visited = 32;
    c.no_confirm = 1;
    c.moves = 3;
    fake_init(&f, 64);
    f.fail = fail_half;
    p = fake_problem(&f);
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
    CHECK_INT(f.calls, 120);
    CHECK_INT(ft.t.n_points, 16);
    metatune_best_get(&ft.t, &best);
    low = ft.t.best_value;
    CHECK_NEAR(best.value, low, 0);
    for (i = 0; i < 32; i++) { /* the index still finds all it holds */
        uint32_t at;
        CHECK(mti_visited_at(&ft.t, ft.t.visited[i], &at));
    }
    fake_close(&ft);
}

/* --------------------------------------------------- records and resume */

#ifndef METATUNE_NO_RECORDS
/* Kill after every number of results; resume from the log; the union must be
   the unbroken run, nothing measured twice. */
static void test_resume(void)
{
    size_t s;
    for (s = 0; s < STRATEGIES; s++) {
        fake whole;
        fake_tuner ft;
        metatune_problem p;
        metatune_best best, best2;
        metatune_config c = small_config(9, strategies[s]);
        uint32_t cut;
        uint64_t best_hash;
        double best_value;
        c.trials = 20;
        fake_init(&whole, 64);
        whole.noise = 0.05; /* makes confirm trials happen */
        whole.fail = fail_half;
        p = fake_problem(&whole);
        p.write = fake_write;
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
        metatune_best_get(&ft.t, &best);
        best_hash = best.hash;
        best_value = best.value;
        fake_close(&ft);
        for (cut = 0; cut <= whole.calls; cut += s ? 1 : 5) {
            fake f;
            size_t pos = 0, lines = 0, bytes;
            metatune_history h;
            void *mem;
            uint32_t i;
            metatune_summary sum;
            while (lines < cut) /* the first `cut` lines of its log */
                lines += whole.log[pos++] == '\n';
            fake_init(&f, 64);
            f.noise = 0.05;
            f.fail = fail_half;
            /* the noise continues where the whole run's would */
            for (i = 0; i < cut; i++)
                if (!(whole.seen[i] & 1))
                    (void)metatune_encode_rng_normal(&f.rng);
            p = fake_problem(&f);
            p.write = fake_write;
            bytes = metatune_history_memsize(cut + 1);
            mem = malloc(bytes);
            CHECK_INT(metatune_history_init(&h, cut + 1, mem, bytes),
                      METATUNE_OK);
            CHECK_INT(metatune_history_read(&h, &p, whole.log, pos),
                      METATUNE_OK);
            CHECK_INT(h.n, cut);
            p.history = &h;
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), METATUNE_BUDGET);
            CHECK_INT(f.calls, whole.calls - cut);
            for (i = 0; i < f.calls; i++)
                CHECK(f.seen[i] == whole.seen[cut + i]);
            metatune_best_get(&ft.t, &best2);
            CHECK(best2.hash == best_hash);
            CHECK_NEAR(best2.value, best_value, 0);
            metatune_summary_get(&ft.t, &sum);
            CHECK_INT(sum.recalled, cut);
            fake_close(&ft);
            free(mem);
            free(f.log);
        }
        free(whole.log);
    }
}

/* A space searched to its end with exact samples: resumed from any part of its
   log it ends the same, with no confirm trials and nothing measured twice. */
static void test_resume_exhausted(void)
{
    size_t s;
    for (s = 0; s < STRATEGIES; s++) {
        fake whole;
        fake_tuner ft;
        metatune_problem p;
        metatune_best best, best2;
        metatune_knob k[FAKE_KNOBS];
        metatune_config c = small_config(6, strategies[s]);
        uint32_t cut, j;
        uint64_t best_hash;
        memcpy(k, fake_knobs, sizeof k);
        for (j = 2; j < FAKE_KNOBS; j++)
            k[j].n_values = 1;
        k[1].n_values = 3; /* 7 x 3 settings */
        fake_init(&whole, 64);
        p = fake_problem(&whole);
        p.knobs = k;
        p.write = fake_write;
        fake_open(&ft, &c, &p);
        CHECK_INT(metatune_tune(&ft.t), METATUNE_EXHAUSTED);
        CHECK_INT(whole.calls, 21);
        CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
        CHECK_INT(best.confirmed, 0);
        best_hash = best.hash;
        fake_close(&ft);
        for (cut = 0; cut <= 22; cut++) { /* 22: with its end line */
            uint32_t had = cut < 21 ? cut : 21, i;
            size_t pos = 0, lines = 0, bytes = metatune_history_memsize(32);
            metatune_history h;
            metatune_summary sum;
            void *mem = malloc(bytes);
            fake f;
            while (lines < cut && pos < whole.log_n)
                lines += whole.log[pos++] == '\n';
            CHECK_INT(lines, cut);
            fake_init(&f, 64);
            p.user = &f;
            metatune_history_init(&h, 32, mem, bytes);
            CHECK_INT(metatune_history_read(&h, &p, whole.log, pos),
                      METATUNE_OK);
            CHECK_INT(h.n, had);
            p.history = &h;
            fake_open(&ft, &c, &p);
            CHECK_INT(metatune_tune(&ft.t), METATUNE_EXHAUSTED);
            CHECK_INT(f.calls, 21 - had);
            for (i = 0; i < f.calls; i++)
                CHECK(f.seen[i] == whole.seen[had + i]);
            CHECK_INT(metatune_best_get(&ft.t, &best2), METATUNE_OK);
            CHECK(best2.hash == best_hash && !best2.confirmed);
            metatune_summary_get(&ft.t, &sum);
            CHECK_INT(sum.recalled, had);
            CHECK_INT(sum.confirms, 0);
            fake_close(&ft);
            p.history = NULL;
            free(mem);
            free(f.log);
        }
        free(whole.log);
    }
}

/* A setting that killed the device is met at most twice over two sessions. */
static void test_resume_quarantine(void)
{
    uint32_t first;
    for (first = 1; first <= 3; first++) {
        fake f;
        fake_tuner ft;
        metatune_problem p;
        metatune_config c = small_config(8, METATUNE_STRATEGY_RANDOM);
        metatune_history h;
        char *log;
        size_t log_n, bytes;
        void *mem;
        uint32_t i, met = 0;
        uint64_t hash;
        uint16_t digits[FAKE_KNOBS];
        metatune_space_digits(fake_knobs, FAKE_KNOBS, deadly, digits);
        hash = metatune_setting_hash(digits, FAKE_KNOBS);
        fake_init(&f, 64);
        f.fail = fail_deadly;
        p = fake_problem(&f);
        p.write = fake_write;
        c.batch = 1;
        f.stop_after = 16 + first; /* around the fatal one */
        fake_open(&ft, &c, &p);
        metatune_tune(&ft.t);
        for (i = 0; i < f.calls; i++)
            met += f.seen[i] == hash;
        log = f.log;
        log_n = f.log_n;
        fake_close(&ft);
        fake_init(&f, 64);
        f.fail = fail_deadly;
        p = fake_problem(&f);
        bytes = metatune_history_memsize(100);
        mem = malloc(bytes);
        metatune_history_init(&h, 100, mem, bytes);
        metatune_history_read(&h, &p, log, log_n);
        p.history = &h;
        fake_open(&ft, &c, &p);
        metatune_tune(&ft.t);
        for (i = 0; i < f.calls; i++)
            met += f.seen[i] == hash;
        CHECK(met <= 2);
        fake_close(&ft);
        free(mem);
        free(log);
    }
}

static void test_disk_full(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_best best;
    metatune_config c = small_config(9, METATUNE_STRATEGY_RANDOM);
    fake_init(&f, 64);
    f.write_fails_at = 11;
    p = fake_problem(&f);
    p.write = fake_write;
    fake_open(&ft, &c, &p);
    CHECK_INT(metatune_tune(&ft.t), METATUNE_IO);
    CHECK(f.calls <= 16);
    CHECK_INT(metatune_best_get(&ft.t, &best), METATUNE_OK);
    fake_close(&ft);
    free(f.log);
}

/* What a run writes reads back as what was measured. */
static void test_record_lines(void)
{
    fake f;
    fake_tuner ft;
    metatune_problem p;
    metatune_record r;
    metatune_config c = small_config(9, METATUNE_STRATEGY_MODEL);
    size_t pos = 0;
    uint32_t i = 0, ends = 0;
    metatune_status st;
    c.trials = 12;
    fake_init(&f, 64);
    f.fail = fail_half;
    p = fake_problem(&f);
    p.write = fake_write;
    fake_open(&ft, &c, &p);
    metatune_tune(&ft.t);
    while ((st = metatune_log_next(f.log, f.log_n, &pos, &r)) !=
           METATUNE_NOT_FOUND) {
        int64_t v[FAKE_KNOBS];
        uint16_t d[FAKE_KNOBS];
        CHECK_INT(st, METATUNE_OK);
        if (r.kind == METATUNE_RECORD_END) {
            ends++;
            CHECK_INT(r.status, METATUNE_BUDGET);
            CHECK_INT(r.trials, 12);
            continue;
        }
        CHECK_INT(metatune_record_values(&r, fake_knobs, FAKE_KNOBS, v),
                  METATUNE_OK);
        metatune_space_digits(fake_knobs, FAKE_KNOBS, v, d);
        CHECK(metatune_setting_hash(d, FAKE_KNOBS) == f.seen[i]);
        CHECK(r.space == ft.t.space_hash && r.model == ft.t.model.hash);
        if (r.status == METATUNE_OK)
            CHECK_NEAR(r.value, fake_time(&f, v), 0);
        else
            CHECK_INT(r.status, METATUNE_TIMEOUT);
        CHECK(r.trial_kind == METATUNE_CONFIRM || (r.predicted && r.mean > 0));
        i++;
    }
    CHECK_INT(i, f.calls);
    CHECK_INT(ends, 1);
    fake_close(&ft);
    free(f.log);
}
#endif

static void test_ticks(void)
{
    CHECK(metatune_ticks_delta(0xfff0, 0x10, 16) == 0x20);
    CHECK(metatune_ticks_delta(0xfffff0, 0x10, 24) == 0x20);
    CHECK(metatune_ticks_delta(0xfffffff0u, 0x10, 32) == 0x20);
    CHECK(metatune_ticks_delta(5, 9, 64) == 4);
    CHECK(metatune_ticks_delta(7, 7, 32) == 0);
}

/* ---------------------------------------------------------------- head */

/* Gauss-Jordan on a small dense system: the second implementation. */
static void dense_inverse(const double *a, double *inv, int n)
{
    double m[20][40];
    int i, j, k;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            m[i][j] = a[i * n + j];
            m[i][n + j] = i == j;
        }
    for (i = 0; i < n; i++) {
        int p = i;
        for (k = i; k < n; k++)
            if (fabs(m[k][i]) > fabs(m[p][i]))
                p = k;
        for (j = 0; j < 2 * n; j++) {
            double t = m[i][j];
            m[i][j] = m[p][j];
            m[p][j] = t;
        }
        for (k = 0; k < n; k++) {
            double s = m[k][i] / m[i][i];
            for (j = 0; j < 2 * n && k != i; j++)
                m[k][j] -= s * m[i][j];
        }
    }
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            inv[i * n + j] = m[i][n + j] / m[i][i];
}

static void test_head_against_dense(void)
{
    enum { D = 9, N = 14 };
    metatune_encode_rng rng;
    int seed, i, j, k;
    for (seed = 0; seed < 10; seed++) {
        metatune_real phi[N][D], w0[D], ll[D], q[D];
        double y[N], a[D * D], inv[D * D], b[D], m[D], mu, v, s2;
        double mem[200];
        metatune_head h;
        metatune_encode_rng_init(&rng, (uint64_t)seed, 0);
        for (i = 0; i < D; i++) {
            w0[i] = (metatune_real)metatune_encode_rng_normal(&rng);
            ll[i] = (metatune_real)metatune_encode_rng_normal(&rng);
            q[i] = (metatune_real)metatune_encode_rng_normal(&rng);
        }
        for (i = 0; i < N; i++) {
            for (j = 0; j < D; j++)
                phi[i][j] = i % 3 && j % 2 ? 0 : (metatune_real)
                    metatune_encode_rng_normal(&rng);
            y[i] = metatune_encode_rng_normal(&rng);
        }
        CHECK(metatune_head_memsize(D) <= sizeof mem);
        CHECK_INT(metatune_head_init(&h, D, mem, sizeof mem), METATUNE_OK);
        metatune_head_prior(&h, w0, ll, (metatune_real)-1, 1);
        s2 = exp(-1);
        memset(a, 0, sizeof a);
        for (i = 0; i < D; i++) {
            a[i * D + i] = exp((double)ll[i]);
            b[i] = a[i * D + i] * (double)w0[i];
        }
        for (k = 0; k < N; k++) {
            double weight = k == 3 ? 0.5 : 1;
            metatune_head_add(&h, phi[k], y[k], weight);
            for (i = 0; i < D; i++) {
                b[i] += weight * (double)phi[k][i] * y[k] / s2;
                for (j = 0; j < D; j++)
                    a[i * D + j] += weight * (double)phi[k][i] *
                                    (double)phi[k][j] / s2;
            }
        }
        metatune_head_solve(&h);
        dense_inverse(a, inv, D);
        mu = v = 0;
        for (i = 0; i < D; i++) {
            m[i] = 0;
            for (j = 0; j < D; j++) {
                m[i] += inv[i * D + j] * b[j];
                v += (double)q[i] * inv[i * D + j] * (double)q[j];
            }
            mu += m[i] * (double)q[i];
        }
        {
            double gm, gv, tol = sizeof(metatune_real) == 8 ? 1e-9 : 1e-5;
            metatune_head_predict(&h, q, &gm, &gv);
            CHECK_NEAR(gm, mu, tol * (1 + fabs(mu)));
            CHECK_NEAR(gv, v, tol * (1 + fabs(v)));
            /* leave one out = fit without it */
            metatune_head_prior(&h, w0, ll, (metatune_real)-1, 1);
            for (k = 0; k < N; k++)
                if (k != 5)
                    metatune_head_add(&h, phi[k], y[k], k == 3 ? 0.5 : 1);
            metatune_head_solve(&h);
            metatune_head_predict(&h, phi[5], &gm, &gv);
            metatune_head_add(&h, phi[5], y[5], 1);
            metatune_head_solve(&h);
            CHECK_NEAR(metatune_head_loo(&h, phi[5], y[5]), y[5] - gm,
                       tol * 10 * (1 + fabs(y[5] - gm)));
            gv += s2; /* of a measurement */
            CHECK_NEAR(metatune_head_leave(&h, phi[5], y[5], &v), y[5] - gm,
                       tol * 10 * (1 + fabs(y[5] - gm)));
            CHECK_NEAR(v, gv, tol * 10 * (1 + gv));
        }
    }
    CHECK_INT(metatune_head_memsize(0), 0);
}

/* ------------------------------------------------------------- training */

/* Encoded settings of a few fake matmuls. */
typedef struct corpus {
    metatune_encode_graph g[6][96];
    const metatune_encode_graph *at[6][96];
    double y[6][96];
    char *mem;
} corpus;

static void corpus_make(corpus *c, int tasks, int points)
{
    metatune_encode_config cfg;
    metatune_encode_nest nest;
    metatune_encode_rng rng;
    size_t gb, nb;
    char *nest_mem;
    int t, i, j;
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = 16;
    gb = metatune_encode_graph_memsize(&cfg);
    nb = metatune_encode_nest_memsize(&cfg);
    c->mem = (char *)malloc((size_t)(tasks * points) * gb);
    nest_mem = (char *)malloc(nb);
    metatune_encode_nest_init(&nest, &cfg, nest_mem, nb);
    metatune_encode_rng_init(&rng, 77, 0);
    for (t = 0; t < tasks; t++) {
        fake f;
        fake_init(&f, 16 << (t % 4));
        f.n = 24 << (t % 3);
        f.bias = 0.3 * t - 0.5;
        for (i = 0; i < points; i++) {
            int64_t v[FAKE_KNOBS];
            for (j = 0; j < FAKE_KNOBS; j++)
                v[j] = fake_knobs[j].values[metatune_encode_rng_below(
                    &rng, fake_knobs[j].n_values)];
            metatune_encode_graph_init(&c->g[t][i], &cfg,
                                       c->mem + (size_t)(t * points + i) * gb,
                                       gb);
            fake_describe(&f, NULL, v, &nest);
            CHECK_INT(metatune_encode_graph_fill(&c->g[t][i], &nest, NULL,
                                                 NULL), METATUNE_OK);
            c->at[t][i] = &c->g[t][i];
            c->y[t][i] = log2(c->g[t][i].t0_s / fake_time(&f, v));
        }
    }
    free(nest_mem);
}

typedef struct learner {
    metatune_train_config cfg;
    metatune_trainer t;
    metatune_model model;
    metatune_real *params;
    void *mem;
} learner;

static void learner_open(learner *l, int conv, uint64_t seed)
{
    size_t bytes;
    memset(l, 0, sizeof *l);
    l->cfg.gnn = metatune_gnn_preset(METATUNE_GNN_TINY);
    l->cfg.gnn.conv = conv;
    l->cfg.gnn.cap_nodes = 16;
    l->cfg.cap_points = 96;
    bytes = metatune_train_memsize(&l->cfg);
    CHECK(bytes > 0);
    l->mem = malloc(bytes);
    l->params = (metatune_real *)malloc(
        metatune_model_param_count(&l->cfg.gnn) * sizeof *l->params);
    CHECK_INT(metatune_model_init(&l->model, &l->cfg.gnn, l->params,
                                  metatune_model_param_count(&l->cfg.gnn),
                                  seed), METATUNE_OK);
    CHECK_INT(metatune_train_init(&l->t, &l->cfg, l->params,
                                  l->model.n_params, l->mem, bytes),
              METATUNE_OK);
}

static void learner_close(learner *l)
{
    free(l->mem);
    free(l->params);
}

/* Every part of the exact meta-gradient against central differences: the
   whole vector along random directions, and each window of the head alone.
   Rounding of float is far above the differences: double only. */
static void test_meta_gradient(void)
{
    static const int support[] = {0, 1, 7, 24};
    corpus *c;
    int conv, k, trial;
    double worst = 0;
    if (sizeof(metatune_real) != 8)
        SKIP("needs METATUNE_REAL double; test_metatune_double runs it");
    c = (corpus *)malloc(sizeof *c);
    corpus_make(c, 1, 40);
    for (conv = 0; conv < 2; conv++)
        for (k = 0; k < 4; k++) {
            learner l;
            size_t n, i, d, ns = (size_t)support[k];
            double *dir, loss;
            metatune_real *keep;
            metatune_encode_rng rng;
            learner_open(&l, conv, 31 + (uint64_t)k);
            n = l.model.n_params;
            d = (size_t)l.t.head.width;
            metatune_encode_rng_init(&rng, 99, (uint64_t)(4 * conv + k));
            /* away from the symmetric start: w0, lambda, s2 all move */
            for (i = n - 2 * d - 1; i < n; i++)
                l.params[i] += (metatune_real)(
                    0.5 * metatune_encode_rng_normal(&rng));
            dir = (double *)malloc(n * sizeof *dir);
            keep = (metatune_real *)malloc(n * sizeof *keep);
            memcpy(keep, l.params, n * sizeof *keep);
            CHECK_INT(metatune_train_episode(&l.t, c->at[0], c->y[0], ns, 12,
                                             &loss), METATUNE_OK);
            for (trial = 0; trial < 8; trial++) {
                double dot = 0, fd, err, size = 0;
                double h = trial >= 1 && trial <= 3 ? 1e-3 : 1e-6;
                size_t lo = 0, hi = n;
                int e;
                if (trial == 1) { /* w0 */
                    lo = n - 1 - 2 * d;
                    hi = n - 1 - d;
                } else if (trial == 2) { /* log lambda */
                    lo = n - 1 - d;
                    hi = n - 1;
                } else if (trial == 3) { /* log s2 */
                    lo = n - 1;
                } else if (trial > 3) { /* the trunk */
                    hi = n - 1 - 2 * d;
                }
                for (i = 0; i < n; i++) {
                    dir[i] = i >= lo && i < hi
                                 ? metatune_encode_rng_normal(&rng) : 0;
                    dot += dir[i] * (double)l.t.grad[i];
                    size += fabs(dir[i] * (double)l.t.grad[i]);
                }
                fd = 0;
                for (e = 0; e < 4; e++) {
                    /* fourth order where nothing has kinks; the trunk's ReLUs
                       want a step too small to cross one */
                    static const double at[4] = {1, -1, 2, -2};
                    static const double by[4] = {8, -8, -1, 1};
                    for (i = 0; i < n; i++)
                        l.params[i] = (metatune_real)(
                            (double)keep[i] + at[e] * h * dir[i]);
                    metatune_train_evaluate(&l.t, c->at[0], c->y[0], ns, 12,
                                            NULL, NULL, &loss);
                    fd += by[e] * loss / (12 * h);
                }
                memcpy(l.params, keep, n * sizeof *keep);
                err = fabs(fd - dot) / (fabs(dot) + 1e-3 * size + 1e-12);
                if (err > worst)
                    worst = err;
                CHECK(err <= 1e-6);
                if (err > 1e-6)
                    printf("        conv %d support %d part %d: fd %.9g, "
                           "exact %.9g\n", conv, support[k], trial, fd, dot);
            }
            free(dir);
            free(keep);
            learner_close(&l);
        }
    printf("    largest relative error %.2g\n", worst);
    free(c->mem);
    free(c);
}

/* Meta-train on the first `tasks` tasks of the corpus. */
static void learner_train(learner *l, corpus *c, int tasks, int steps)
{
    metatune_encode_rng rng;
    int step, t;
    metatune_encode_rng_init(&rng, 1, 2);
    for (step = 0; step < steps; step++) {
        for (t = 0; t < tasks; t++) {
            static const size_t ks[] = {0, 4, 8, 16, 32};
            const metatune_encode_graph *g[96];
            double y[96], loss;
            uint32_t order[96], index[96];
            size_t k = ks[metatune_encode_rng_below(&rng, 5)], n, i;
            n = metatune_episode_draw(&rng, c->y[t], 96, &k, 32, order,
                                      index);
            for (i = 0; i < n; i++) {
                g[i] = c->at[t][index[i]];
                y[i] = c->y[t][index[i]];
            }
            CHECK_INT(metatune_train_episode(&l->t, g, y, k, n - k, &loss),
                      METATUNE_OK);
        }
        CHECK_INT(metatune_train_step(&l->t, 3e-3), METATUNE_OK);
    }
}

static double learner_loss(learner *l, corpus *c, int task, size_t support)
{
    double loss = 0;
    CHECK_INT(metatune_train_evaluate(&l->t, c->at[task], c->y[task], support,
                                      96 - support < 64 ? 96 - support : 64,
                                      NULL, NULL, &loss), METATUNE_OK);
    return loss;
}

/* Meta-train on four tasks; on a fifth the prior must predict better than
   the untrained one, and adapting must help. */
static void test_meta_training(void)
{
    corpus *c = (corpus *)malloc(sizeof *c);
    learner l;
    double before[2], after[2];
    corpus_make(c, 5, 96);
    learner_open(&l, 0, 5);
    before[0] = learner_loss(&l, c, 4, 0);
    before[1] = learner_loss(&l, c, 4, 16);
    learner_train(&l, c, 4, 250);
    after[0] = learner_loss(&l, c, 4, 0);
    after[1] = learner_loss(&l, c, 4, 16);
    printf("    held-out loss, 0 and 16 support: %.3f %.3f untrained, "
           "%.3f %.3f trained\n", before[0], before[1], after[0], after[1]);
    CHECK(after[0] < before[0] - 0.3);
    CHECK(after[1] < before[1] - 0.1);
    CHECK(after[1] < after[0]);
    learner_close(&l);
    free(c->mem);
    free(c);
}

/* The product in small: meta-trained on four kernels, tuning a fifth with 16
   measurements, against no prior and against random. */
static void test_prior_beats_random(void)
{
    corpus *c = (corpus *)malloc(sizeof *c);
    learner l;
    double sum[3] = {0, 0, 0};
    int seed, w, runs = 8;
    corpus_make(c, 4, 96);
    learner_open(&l, 0, 5);
    learner_train(&l, c, 4, 300);
    l.model.hash = metatune_model_hash(l.params, l.model.n_params);
    for (seed = 0; seed < runs; seed++)
        for (w = 0; w < 3; w++) {
            fake f;
            fake_tuner ft;
            metatune_problem p;
            metatune_best best;
            metatune_config cfg = small_config(
                (uint64_t)seed, w == 2 ? METATUNE_STRATEGY_RANDOM
                                       : METATUNE_STRATEGY_MODEL);
            cfg.trials = 16;
            cfg.no_confirm = 1;
            cfg.draft = 128;
            cfg.chains = 16;
            cfg.moves = 20;
            fake_init(&f, 32);
            f.bias = 0.15;
            p = fake_problem(&f);
            if (w == 0)
                p.model = &l.model;
            fake_open(&ft, &cfg, &p);
            metatune_tune(&ft.t);
            metatune_best_get(&ft.t, &best);
            sum[w] += best.value * 1e6 / runs;
            if (w == 0)
                CHECK(f.last.expected_gain >= 1);
            fake_close(&ft);
        }
    printf("    mean best after 16, us: prior %.4g, no prior %.4g, random "
           "%.4g\n", sum[0], sum[1], sum[2]);
    CHECK(sum[0] < 0.9 * sum[2]);
    CHECK(sum[0] < sum[1]);
    learner_close(&l);
    free(c->mem);
    free(c);
}

static void test_train_refuses(void)
{
    corpus *c = (corpus *)malloc(sizeof *c);
    learner l;
    double loss, y[4] = {0, 0, 0, 0};
    corpus_make(c, 1, 8);
    learner_open(&l, 0, 5);
    CHECK_INT(metatune_train_step(&l.t, 1e-3), METATUNE_BAD_ARG);
    CHECK_INT(metatune_train_episode(&l.t, c->at[0], c->y[0], 96, 1, &loss),
              METATUNE_CAPACITY);
    CHECK_INT(metatune_train_episode(&l.t, c->at[0], c->y[0], 4, 0, &loss),
              METATUNE_BAD_ARG);
    y[3] = (double)INFINITY;
    {
        metatune_real first = l.params[0];
        (void)metatune_train_episode(&l.t, c->at[0], y, 2, 2, &loss);
        CHECK_INT(metatune_train_step(&l.t, 1e-3), METATUNE_NOT_FINITE);
        CHECK(l.params[0] >= first && l.params[0] <= first);
    }
    learner_close(&l);
    free(c->mem);
    free(c);
}

static void test_episode_draw(void)
{
    metatune_encode_rng rng;
    double y[50];
    uint32_t order[50], index[50], seen[50];
    size_t n, k, i, top = 0, rounds;
    metatune_encode_rng_init(&rng, 4, 4);
    for (i = 0; i < 50; i++)
        y[i] = metatune_encode_rng_normal(&rng);
    for (rounds = 0; rounds < 200; rounds++) {
        k = rounds % 40;
        memset(seen, 0, sizeof seen);
        n = metatune_episode_draw(&rng, y, 50, &k, 30, order, index);
        CHECK(n == (rounds % 40 + 30 < 50 ? rounds % 40 + 30 : 50));
        for (i = 0; i < n; i++) {
            CHECK(index[i] < 50 && !seen[index[i]]);
            seen[index[i]] = 1;
        }
        for (i = 1; i < 50; i++)
            CHECK(y[order[i - 1]] >= y[order[i]]);
        for (i = 0; i < 5; i++)
            top += k < 5 && seen[order[i]];
    }
    CHECK(top > 0);
    k = 3;
    CHECK_INT(metatune_episode_draw(&rng, y, 0, &k, 5, order, index), 0);
}

/* ----------------------------------------------------------------- blob */

static void test_blob(void)
{
    metatune_gnn_config cfg = metatune_gnn_preset(METATUNE_GNN_TINY);
    metatune_real *w, *back;
    metatune_model m, r;
    metatune_error e;
    size_t n = metatune_model_param_count(&cfg), bytes, i, need;
    unsigned char *blob;
    char line[200];
    w = (metatune_real *)malloc(n * sizeof *w);
    back = (metatune_real *)malloc((n + 2) * sizeof *back);
    CHECK_INT(metatune_model_init(&m, &cfg, w, n, 1), METATUNE_OK);
    for (i = 0; i < n; i++) /* exact in f32 and readable in f16 */
        w[i] = (metatune_real)(float)w[i];
    m.hash = metatune_model_hash(w, n);
    bytes = metatune_blob_size(&m, METATUNE_BLOB_F32);
    blob = (unsigned char *)malloc(bytes + 8);
    CHECK_INT(metatune_blob_write(&m, METATUNE_BLOB_F32, blob, bytes - 1),
              METATUNE_NO_MEMORY);
    CHECK_INT(metatune_blob_write(&m, METATUNE_BLOB_F32, blob, bytes),
              METATUNE_OK);
    need = metatune_blob_memsize(blob, bytes);
    CHECK(need == 0 || need == n * sizeof *w);
    CHECK_INT(metatune_blob_load(&r, blob, bytes, back, n * sizeof *back, &e),
              METATUNE_OK);
    CHECK(r.hash == m.hash && r.n_params == n);
    CHECK(memcmp(r.params, w, n * sizeof *w) == 0);
    CHECK_INT(metatune_gnn_param_count(&r.gnn),
              metatune_gnn_param_count(&cfg));
    /* unaligned: copied, not used in place */
    memmove(blob + 1, blob, bytes);
    CHECK(metatune_blob_memsize(blob + 1, bytes) == n * sizeof *w);
    CHECK_INT(metatune_blob_load(&r, blob + 1, bytes, back, 8, &e),
              METATUNE_NO_MEMORY);
    CHECK_INT(metatune_blob_load(&r, blob + 1, bytes, back, n * sizeof *back,
                                 &e), METATUNE_OK);
    CHECK(memcmp(r.params, w, n * sizeof *w) == 0);
    memmove(blob, blob + 1, bytes);
    /* every length and every flipped bit is refused */
    for (i = 0; i < bytes; i += 37)
        CHECK_INT(metatune_blob_load(&r, blob, i, back, n * sizeof *back, &e),
                  METATUNE_BAD_BLOB);
    for (i = 0; i < bytes; i += i < 96 ? 1 : 41) {
        metatune_status st;
        blob[i] ^= (unsigned char)(1u << (i % 8));
        st = metatune_blob_load(&r, blob, bytes, back, n * sizeof *back, &e);
        CHECK(st == METATUNE_BAD_BLOB || st == METATUNE_BAD_SCHEMA);
        blob[i] ^= (unsigned char)(1u << (i % 8));
    }
    m.schema = METATUNE_ENCODE_SCHEMA + 1;
    metatune_blob_write(&m, METATUNE_BLOB_F32, blob, bytes);
    CHECK_INT(metatune_blob_load(&r, blob, bytes, back, n * sizeof *back, &e),
              METATUNE_BAD_SCHEMA);
    CHECK(metatune_encode_error_line(&e, line, sizeof line) > 20);
    m.schema = METATUNE_ENCODE_SCHEMA;
    /* half precision: half the bytes, 11 bits */
    CHECK(metatune_blob_size(&m, METATUNE_BLOB_F16) <
          METATUNE_BLOB_HEADER + 2 * n + 4);
    CHECK_INT(metatune_blob_write(&m, METATUNE_BLOB_F16, blob, bytes),
              METATUNE_OK);
    CHECK_INT(metatune_blob_load(&r, blob, bytes, back, n * sizeof *back, &e),
              METATUNE_OK);
    for (i = 0; i < n; i++)
        CHECK(fabs((double)(r.params[i] - w[i])) <=
              fabs((double)w[i]) / 2048 + 3.1e-8);
    w[5] = (metatune_real)INFINITY;
    CHECK_INT(metatune_blob_write(&m, METATUNE_BLOB_F32, blob, bytes),
              METATUNE_NOT_FINITE);
    w[5] = 70000;
    CHECK_INT(metatune_blob_write(&m, METATUNE_BLOB_F16, blob, bytes),
              METATUNE_OVERFLOW);
    free(blob);
    free(back);
    free(w);
}

static void test_half(void)
{
    uint32_t h;
    for (h = 0; h < 65536; h++) { /* every finite half reads back itself */
        if ((h & 0x7c00) != 0x7c00)
            CHECK_INT(mti_half_from(mti_half_to(h)), h);
    }
    CHECK_INT(mti_half_from(65520.0f) & 0x7c00, 0x7c00);
    CHECK_INT(mti_half_from(65519.0f), 0x7bff);
    CHECK_INT(mti_half_from(1.0f + 1.0f / 2048), 0x3c00); /* to even */
    CHECK_INT(mti_half_from(1.0f + 3.0f / 2048), 0x3c02);
}

static void test_crc(void)
{
    CHECK(metatune_crc32(0, "123456789", 9) == 0xcbf43926u);
    CHECK(metatune_crc32(metatune_crc32(0, "1234", 4), "56789", 5) ==
          0xcbf43926u);
}

int main(void)
{
    RUN(test_space_check);
    RUN(test_space_values);
    RUN(test_values_helpers);
    RUN(test_space_sizes);
    RUN(test_space_empty_and_sparse);
    RUN(test_space_huge);
    RUN(test_order_inside_batch);
    RUN(test_two_tuners_interleaved);
    RUN(test_bad_calls);
    RUN(test_all_fail);
    RUN(test_late_valid);
    RUN(test_patience);
    RUN(test_some_fail);
    RUN(test_device_lost);
    RUN(test_compile_split);
    RUN(test_idle_target);
    RUN(test_budgets);
    RUN(test_zero_trials);
    RUN(test_cancel);
    RUN(test_best_while_open);
    RUN(test_confirm_beats_luck);
    RUN(test_confirm_wrong);
    RUN(test_describe_refuses);
    RUN(test_repair);
    RUN(test_repair_sparse);
    RUN(test_repair_finds);
    RUN(test_repair_moves);
    RUN(test_repair_in_vain);
    RUN(test_repair_collapses);
    RUN(test_nothing_found);
    RUN(test_undescribed);
    RUN(test_null_tuner);
    RUN(test_predictions_are_of_the_unit);
    RUN(test_capacities);
#ifndef METATUNE_NO_RECORDS
    RUN(test_resume);
    RUN(test_resume_exhausted);
    RUN(test_resume_quarantine);
    RUN(test_disk_full);
    RUN(test_record_lines);
#endif
    RUN(test_ticks);
    RUN(test_head_against_dense);
    RUN(test_meta_gradient);
    RUN(test_meta_training);
    RUN(test_prior_beats_random);
    RUN(test_train_refuses);
    RUN(test_episode_draw);
    RUN(test_blob);
    RUN(test_half);
    RUN(test_crc);
    return check_report("test_metatune");
}
