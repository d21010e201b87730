/* test_strategy.c - searches without a model, listed spaces, archive seeds:
   coverage by brute force, the same proposals everywhere, and that they find
   more than chance. What holds for every strategy alike is in
   test_metatune.c. */
#define METATUNE_IMPLEMENTATION
#include "../metatune.h"
#include "fake.h"

enum { STRATEGIES = 5, ROWS = 500 };

static const int64_t four[] = {1, 2, 3, 4};
static const metatune_knob knobs[] = {
    {"a", four, NULL, 4}, {"b", four, NULL, 4}, {"c", four, NULL, 4},
    {"d", four, NULL, 4}
};

static metatune_config config_of(int strategy, uint32_t trials)
{
    metatune_config c;
    memset(&c, 0, sizeof c);
    c.strategy = strategy;
    c.trials = trials;
    c.no_confirm = 1;
    c.draft = 64;
    c.chains = 8;
    c.moves = 10;
    c.encode.cap_nodes = 32;
    return c;
}

static int even_sum(void *user, const metatune_problem *p, const int64_t *v)
{
    (void)user;
    (void)p;
    return (v[0] + v[1] + v[2] + v[3]) % 2 == 0;
}

/* An ask/tell run that tells value(v) and notes hashes in their order. */
typedef struct run {
    metatune_tuner tuner;
    void *mem;
    uint64_t hash[4096];
    int64_t values[4096][8];
    uint32_t n;
    metatune_status end;
} run;

typedef double (*value_fn)(const int64_t *v, const void *user);

static void run_go(run *r, const metatune_config *c,
                   const metatune_problem *p, value_fn value,
                   const void *user)
{
    metatune_error e;
    size_t bytes = metatune_memsize(c, p), count, i;
    metatune_trial trial[64];
    r->n = 0;
    r->mem = malloc(bytes ? bytes : 1);
    CHECK_INT(metatune_init(&r->tuner, c, p, r->mem, bytes, &e),
              METATUNE_OK);
    while ((r->end = metatune_ask(&r->tuner, trial, 64, &count)) ==
           METATUNE_OK)
        for (i = 0; i < count; i++) {
            metatune_result result;
            memset(&result, 0, sizeof result);
            result.value = value(trial[i].values, user);
            result.status = result.value > 0 ? METATUNE_OK
                                             : METATUNE_RUNTIME;
            if (r->n < 4096) {
                r->hash[r->n] = trial[i].hash;
                memcpy(r->values[r->n], trial[i].values,
                       p->n_knobs * sizeof(int64_t));
                r->n++;
            }
            metatune_tell(&r->tuner, trial[i].id, &result);
        }
    free(r->mem);
}

static double bowl(const int64_t *v, const void *user)
{
    double t = 1;
    int i;
    (void)user;
    for (i = 0; i < 4; i++)
        t += (double)((v[i] - 3) * (v[i] - 3));
    return t;
}

static int distinct(const run *r)
{
    uint32_t i, j;
    for (i = 0; i < r->n; i++)
        for (j = 0; j < i; j++)
            if (r->hash[i] == r->hash[j])
                return 0;
    return 1;
}

/* Every valid setting of a small space, once, and no other. */
static void test_exhausts(void)
{
    int s;
    for (s = 1; s < STRATEGIES; s++) {
        static run r;
        metatune_config c = config_of(s, METATUNE_UNLIMITED);
        metatune_problem p;
        uint32_t i;
        memset(&p, 0, sizeof p);
        p.knobs = knobs;
        p.n_knobs = 4;
        p.valid = even_sum;
        run_go(&r, &c, &p, bowl, NULL);
        CHECK_INT(r.end, METATUNE_EXHAUSTED);
        CHECK_INT(r.n, 128); /* half of 4^4 */
        CHECK(distinct(&r));
        for (i = 0; i < r.n; i++)
            CHECK(even_sum(NULL, &p, r.values[i]));
    }
}

/* ------------------------------------------------------- listed spaces */

typedef struct listed {
    uint16_t digits[ROWS * FAKE_KNOBS];
    uint32_t n;
} listed;

static void listed_draw(listed *l, uint64_t seed)
{
    metatune_encode_rng rng;
    uint32_t i, j, k;
    metatune_encode_rng_init(&rng, seed, 0);
    for (l->n = 0; l->n < ROWS;) {
        uint16_t *d = l->digits + l->n * FAKE_KNOBS;
        for (k = 0; k < FAKE_KNOBS; k++)
            d[k] = (uint16_t)metatune_encode_rng_below(
                &rng, fake_knobs[k].n_values);
        for (j = 0; j < l->n; j++)
            if (memcmp(l->digits + j * FAKE_KNOBS, d,
                       FAKE_KNOBS * sizeof *d) == 0)
                break;
        i = l->n;
        l->n += j == i;
    }
}

static int listed_has(const listed *l, const int64_t *v)
{
    uint16_t d[FAKE_KNOBS];
    uint32_t i;
    if (metatune_space_digits(fake_knobs, FAKE_KNOBS, v, d))
        return 0;
    for (i = 0; i < l->n; i++)
        if (memcmp(l->digits + i * FAKE_KNOBS, d, sizeof d) == 0)
            return 1;
    return 0;
}

static double fake_value(const int64_t *v, const void *user)
{
    return fake_time((const fake *)user, v);
}

static metatune_problem listed_problem(fake *f, const listed *l)
{
    metatune_problem p;
    memset(&p, 0, sizeof p);
    p.knobs = fake_knobs;
    p.n_knobs = FAKE_KNOBS;
    if (l) {
        p.list = l->digits;
        p.n_list = l->n;
    }
    p.user = f;
    p.describe = fake_describe;
    return p;
}

static void fake_size(fake *f)
{
    memset(f, 0, sizeof *f);
    f->m = f->n = f->k = 256;
}

/* Only rows, none twice, to the last one. */
static void test_list(void)
{
    static listed l;
    static run r;
    fake f;
    int s;
    uint32_t i;
    fake_size(&f);
    listed_draw(&l, 11);
    for (s = 0; s < STRATEGIES; s++) {
        metatune_config c = config_of(s, METATUNE_UNLIMITED);
        metatune_problem p = listed_problem(&f, &l);
        run_go(&r, &c, &p, fake_value, &f);
        CHECK_INT(r.end, METATUNE_EXHAUSTED);
        CHECK_INT(r.n, ROWS);
        CHECK(distinct(&r));
        for (i = 0; i < r.n; i++)
            CHECK(listed_has(&l, r.values[i]));
        CHECK_NEAR(r.tuner.space_size, ROWS, 0);
    }
}

static void test_list_refused(void)
{
    static listed l;
    metatune_problem p;
    metatune_config c = config_of(METATUNE_STRATEGY_RANDOM, 8);
    fake f;
    metatune_error e;
    metatune_tuner t;
    fake_size(&f);
    listed_draw(&l, 3);
    p = listed_problem(&f, &l);
    p.n_list = 0;
    CHECK_INT(metatune_init(&t, &c, &p, NULL, 0, &e), METATUNE_BAD_ARG);
    CHECK_STR(e.where, "n_list");
    p.list = NULL;
    p.n_list = 3;
    CHECK_INT(metatune_init(&t, &c, &p, NULL, 0, &e), METATUNE_BAD_ARG);
    p = listed_problem(&f, &l);
    l.digits[FAKE_KNOBS * 7 + 4] = 3; /* order has three values */
    CHECK_INT(metatune_init(&t, &c, &p, NULL, 0, &e), METATUNE_BAD_ARG);
    CHECK_INT(e.got, 3);
    p.list = NULL;
    p.n_list = 0;
    p.n_seeds = 1;
    CHECK_INT(metatune_init(&t, &c, &p, NULL, 0, &e), METATUNE_BAD_ARG);
    CHECK_STR(e.where, "seeds");
}

/* The model on a list: every row is scored, so its picks of the second batch
   must beat what chance finds. */
static void test_list_model(void)
{
    static listed l;
    static run r;
    fake f;
    double sum[STRATEGIES] = {0};
    int s, k;
    fake_size(&f);
    listed_draw(&l, 5);
    for (s = 0; s < STRATEGIES; s++)
        for (k = 0; k < 10; k++) {
            metatune_config c = config_of(s, 32);
            metatune_problem p = listed_problem(&f, &l);
            double best = 1e30;
            uint32_t i;
            c.seed = (uint64_t)k;
            run_go(&r, &c, &p, fake_value, &f);
            for (i = 0; i < r.n; i++)
                if (fake_time(&f, r.values[i]) < best)
                    best = fake_time(&f, r.values[i]);
            sum[s] += best / 10;
        }
    printf("    best of 32 of 500, ms: model %.3f, random %.3f, ga %.3f, "
           "sa %.3f, grid %.3f\n", 1e3 * sum[0], 1e3 * sum[1], 1e3 * sum[2],
           1e3 * sum[3], 1e3 * sum[4]);
    CHECK(sum[METATUNE_STRATEGY_MODEL] < sum[METATUNE_STRATEGY_RANDOM]);
    CHECK(sum[METATUNE_STRATEGY_GENETIC] < sum[METATUNE_STRATEGY_RANDOM]);
}

/* ------------------------------------------------------------ quality */

/* With 96 trials of 14,406 settings the genetic search and annealing beat
   chance on the mean of 20 seeds. */
static void test_better_than_chance(void)
{
    static run r;
    fake f;
    double sum[STRATEGIES] = {0};
    int s, k;
    fake_size(&f);
    for (s = 1; s < 4; s++)
        for (k = 0; k < 20; k++) {
            metatune_config c = config_of(s, 96);
            metatune_problem p = listed_problem(&f, NULL);
            double best = 1e30;
            uint32_t i;
            c.seed = (uint64_t)k;
            run_go(&r, &c, &p, fake_value, &f);
            for (i = 0; i < r.n; i++)
                if (fake_time(&f, r.values[i]) < best)
                    best = fake_time(&f, r.values[i]);
            sum[s] += best / 20;
        }
    CHECK(sum[METATUNE_STRATEGY_GENETIC] <
          0.97 * sum[METATUNE_STRATEGY_RANDOM]);
    CHECK(sum[METATUNE_STRATEGY_ANNEAL] <
          0.99 * sum[METATUNE_STRATEGY_RANDOM]);
}

/* ------------------------------------------------- the same everywhere */

/* Integers alone decide: these numbers hold for every compiler and -O. */
static void test_golden(void)
{
    static const uint64_t want[STRATEGIES] = {
        0, 0x827b1a8d4e6ee522u, 0x5f298b6e4fc9328au, 0, 0xe3a803f7985aa8ecu
    };
    static run r;
    static listed l;
    fake f;
    int s;
    fake_size(&f);
    listed_draw(&l, 5);
    for (s = 0; s < STRATEGIES; s++) {
        uint64_t h = 0;
        uint32_t i, part;
        if (!want[s])
            continue;
        for (part = 0; part < 2; part++) { /* a space, and a list */
            metatune_config c = config_of(s, 64);
            metatune_problem p = listed_problem(&f, part ? &l : NULL);
            c.seed = 42;
            run_go(&r, &c, &p, fake_value, &f);
            for (i = 0; i < r.n; i++)
                h = metatune_encode_hash_u64(h, r.hash[i]);
        }
        if (h != want[s])
            printf("    strategy %d: 0x%016llx\n", s, (unsigned long long)h);
        CHECK(h == want[s]);
    }
}

/* -------------------------------------------------------------- seeds */

static void test_seeds(void)
{
    static const int64_t first[FAKE_KNOBS] = {1, 1, 1, 1, 0, 1};
    static const int64_t seeds[4 * FAKE_KNOBS] = {
        8, 8, 8, 3, 0, 1,        /* vec has no 3 */
        8, 8, 8, 8, 1, 2,
        1, 1, 1, 1, 0, 1,        /* the default: already there */
        4, 4, 4, 4, 2, 4
    };
    static run r;
    fake f;
    int s;
    fake_size(&f);
    for (s = 0; s < STRATEGIES; s++) {
        metatune_config c = config_of(s, 16);
        metatune_problem p = listed_problem(&f, NULL);
        p.default_values = first;
        p.seeds = seeds;
        p.n_seeds = 4;
        run_go(&r, &c, &p, fake_value, &f);
        CHECK_INT(r.n, 16);
        CHECK(memcmp(r.values[0], first, sizeof first) == 0);
        CHECK(memcmp(r.values[1], seeds + FAKE_KNOBS, sizeof first) == 0);
        CHECK(memcmp(r.values[2], seeds + 3 * FAKE_KNOBS, sizeof first) ==
              0);
        CHECK(distinct(&r));
    }
}

static void test_names(void)
{
    CHECK_STR(metatune_strategy_name(METATUNE_STRATEGY_MODEL), "metatune");
    CHECK_STR(metatune_strategy_name(METATUNE_STRATEGY_GRID), "grid");
    CHECK(metatune_strategy_name(5) == NULL);
    CHECK(metatune_strategy_name(-1) == NULL);
}

int main(void)
{
    RUN(test_exhausts);
    RUN(test_list);
    RUN(test_list_refused);
    RUN(test_list_model);
    RUN(test_better_than_chance);
    RUN(test_golden);
    RUN(test_seeds);
    RUN(test_names);
    return check_report("test_strategy");
}
