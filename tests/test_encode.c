/* test_encode.c - adversarial tests of metatune_encode.h

   Each quantity is compared with a second, slower implementation: walks of
   whole loop nests, counted output positions, addresses from a layout's own
   formula. Random tests print their seed. METATUNE_SHARED (default ../shared)
   names the directory with the layer tables; without it those skip. */
#define METATUNE_IMPLEMENTATION
#include "metatune_encode.h"

#include "check.h"

typedef metatune_encode_rng rng_t;
typedef metatune_encode_nest nest_t;
typedef metatune_encode_conv2d conv_t;

#define SEED 20261130u
#define BIG 2147483647
#define FAULT(text) check_fault(__FILE__, __LINE__, text)

/* ------------------------------------------------------------- helpers */

/* Heap blocks of exactly the size asked for, so that a sanitizer sees every
   byte beyond. */
static void *block_new(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) {
        printf("out of memory\n");
        exit(1);
    }
    memset(p, 0xA5, bytes);
    return p;
}

static void *nest_new(nest_t *nest, const metatune_encode_config *cfg)
{
    size_t n = metatune_encode_nest_memsize(cfg);
    void *mem = block_new(n);
    CHECK(metatune_encode_nest_init(nest, cfg, mem, n) == METATUNE_OK);
    return mem;
}

static void *graph_new(metatune_encode_graph *graph,
                       const metatune_encode_config *cfg)
{
    size_t n = metatune_encode_graph_memsize(cfg);
    void *mem = block_new(n);
    CHECK(metatune_encode_graph_init(graph, cfg, mem, n) == METATUNE_OK);
    return mem;
}

static void *skeleton_new(metatune_encode_skeleton *skeleton,
                          const metatune_encode_config *cfg)
{
    size_t n = metatune_encode_skeleton_memsize(cfg);
    void *mem = block_new(n);
    CHECK(metatune_encode_skeleton_init(skeleton, cfg, mem, n) ==
          METATUNE_OK);
    return mem;
}

/* lo..hi, both included */
static int32_t pick(rng_t *rng, int32_t lo, int32_t hi)
{
    uint64_t n = (uint64_t)((int64_t)hi - lo + 1);
    return (int32_t)(lo + (int64_t)metatune_encode_rng_below(rng, n));
}

static int finite_is(double x) { return x - x < 1 && x - x > -1; }

static int same_double(double a, double b)
{
    return !(a < b) && !(a > b); /* NaN has no place here */
}

static double round_up(double a, double b) { return ceil(a / b); }

/* ------------------------------------------------------ random tilings */

#define MAX_TILES 48

typedef struct tile {
    int32_t axis, step, trip, slot, level; /* level 0 is the outermost */
} tile;

/* Split every axis into `levels` loops at most, slots 1 + axis * 3 + level.
   A loop of one iteration is left out with probability one half. */
static int32_t tiles_make(rng_t *rng, const nest_t *nest, int32_t levels,
                          int32_t max_inner, int exact, tile *t)
{
    int32_t a, n = 0;
    for (a = 0; a < nest->n_axes; a++) {
        int32_t e = nest->axis[a].extent, m = pick(rng, 1, levels), l;
        int32_t step = 1;
        for (l = m - 1; l >= 0; l--) {
            int32_t left = (int32_t)(((int64_t)e + step - 1) / step);
            int32_t trip = left;
            if (l > 0) {
                int32_t top = left < max_inner ? left : max_inner;
                if (!exact && pick(rng, 0, 7) == 0)
                    top = left + 1; /* a tile beyond the extent */
                trip = pick(rng, 1, top);
                while (exact && left % trip)
                    trip--;
            }
            if (trip > 1 || pick(rng, 0, 1)) {
                t[n].axis = a;
                t[n].step = step;
                t[n].trip = trip;
                t[n].level = l;
                t[n].slot = 1 + a * 3 + l;
                n++;
            }
            if (l > 0)
                step *= trip;
        }
    }
    return n;
}

/* Random order; nested: of one axis the larger step is outside. */
static void tiles_order(rng_t *rng, tile *t, int32_t n, int nested)
{
    int32_t i, j;
    for (i = n - 1; i > 0; i--) {
        tile swap;
        j = pick(rng, 0, i);
        swap = t[i];
        t[i] = t[j];
        t[j] = swap;
    }
    for (i = 0; nested && i < n; i++)
        for (j = i + 1; j < n; j++)
            if (t[i].axis == t[j].axis && t[i].level > t[j].level) {
                tile swap = t[i];
                t[i] = t[j];
                t[j] = swap;
            }
}

/* What somebody would try: whole tiles outside, and inside, last, a loop over
   columns or filters to vectorise. */
static void tiles_sensible(tile *t, int32_t n)
{
    int32_t i, j, best = -1;
    for (i = 1; i < n; i++)
        for (j = i; j > 0 && t[j - 1].level > t[j].level; j--) {
            tile swap = t[j];
            t[j] = t[j - 1];
            t[j - 1] = swap;
        }
    for (i = 0; i < n; i++)
        if ((t[i].axis == METATUNE_CONV_X || t[i].axis == METATUNE_CONV_K) &&
            t[i].step == 1 && t[i].trip <= 16 &&
            (best < 0 || t[i].trip > t[best].trip))
            best = i;
    for (i = best; i >= 0 && i + 1 < n; i++) {
        tile swap = t[i];
        t[i] = t[i + 1];
        t[i + 1] = swap;
    }
}

static void tiles_emit(rng_t *rng, nest_t *nest, const tile *t, int32_t n,
                       int plausible)
{
    int32_t i, parent = -1, par = 0, body = 1;
    for (i = 0; i < n; i++) {
        int32_t kind = plausible ? METATUNE_LOOP_SERIAL
                                 : pick(rng, 0, METATUNE_LOOP_TENSOR);
        if (plausible) {
            int spatial =
                nest->axis[t[i].axis].kind == METATUNE_AXIS_SPATIAL;
            if (i == n - 1 && t[i].trip <= 16)
                kind = METATUNE_LOOP_VECTOR;
            else if (spatial && i == par && i < 2 && pick(rng, 0, 1))
                kind = METATUNE_LOOP_PARALLEL, par++;
            else if (t[i].step == 1 && i > n - 5 && body * t[i].trip <= 32) {
                kind = METATUNE_LOOP_UNROLL;
                body *= t[i].trip;
            }
        }
        parent = metatune_encode_loop_add(nest, parent, t[i].axis, t[i].step,
                                          t[i].trip, kind, t[i].slot);
    }
}

/* Statements of a convolution or matrix product on tensors 0, 1 -> 2. */
static void stmts_emit(rng_t *rng, nest_t *nest, int32_t slot, int random)
{
    int32_t deep = nest->n_loops - 1, all[3] = {0, 1, 2}, store = deep;
    if (random && pick(rng, 0, 1))
        store = pick(rng, -1, deep);
    metatune_encode_stmt_add(nest, deep, METATUNE_STMT_LOAD, slot, 1, all, 1);
    metatune_encode_stmt_add(nest, random ? pick(rng, -1, deep) : deep,
                             METATUNE_STMT_LOAD, slot + 1, 1, all + 1, 1);
    metatune_encode_stmt_add(nest, deep, METATUNE_STMT_FMA, slot + 2,
                             random ? pick(rng, 1, 3) : 1, all, 3);
    metatune_encode_stmt_add(nest, store, METATUNE_STMT_STORE, slot + 3, 1,
                             all + 2, 1);
}

static void matmul_axes(nest_t *nest, int32_t m, int32_t n, int32_t k)
{
    int32_t t;
    metatune_encode_nest_clear(nest);
    metatune_encode_axis_add(nest, m, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, n, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, k, METATUNE_AXIS_REDUCTION);
    t = metatune_encode_tensor_add(nest, 4, 0, METATUNE_ROLE_INPUT);
    metatune_encode_dim_add(nest, t, m, 0);
    metatune_encode_term_add(nest, t, 0, 1);
    metatune_encode_dim_add(nest, t, k, 0);
    metatune_encode_term_add(nest, t, 2, 1);
    t = metatune_encode_tensor_add(nest, 2, 0, METATUNE_ROLE_WEIGHT);
    metatune_encode_dim_add(nest, t, k, 0);
    metatune_encode_term_add(nest, t, 2, 1);
    metatune_encode_dim_add(nest, t, n, 0);
    metatune_encode_term_add(nest, t, 1, 1);
    t = metatune_encode_tensor_add(nest, 8, 0, METATUNE_ROLE_OUTPUT);
    metatune_encode_dim_add(nest, t, m, 0);
    metatune_encode_term_add(nest, t, 0, 1);
    metatune_encode_dim_add(nest, t, n, 0);
    metatune_encode_term_add(nest, t, 1, 1);
}

/* A valid random convolution with every dimension of at most `top`. */
static conv_t conv_random(rng_t *rng, int32_t top)
{
    conv_t v;
    do {
        int32_t g = pick(rng, 0, 2) ? 1 : pick(rng, 1, 3);
        v = metatune_encode_conv2d_make(
            pick(rng, 1, 2), g * pick(rng, 1, top), pick(rng, 1, 2 * top),
            pick(rng, 1, 2 * top), g * pick(rng, 1, top), pick(rng, 1, 4),
            pick(rng, 1, 4), 1, 0);
        v.groups = g;
        v.stride_h = pick(rng, 1, 3);
        v.stride_w = pick(rng, 1, 3);
        v.dil_h = pick(rng, 1, 3);
        v.dil_w = pick(rng, 1, 3);
        if (pick(rng, 0, 1)) {
            v.pad_top = pick(rng, 0, v.r);
            v.pad_bottom = pick(rng, 0, v.r);
            v.pad_left = pick(rng, 0, v.s);
            v.pad_right = pick(rng, 0, v.s);
        }
        v.layout = pick(rng, 0, 2);
        if (v.layout == METATUNE_NCHWC)
            v.block = pick(rng, 1, 5);
        v.dtype_in = pick(rng, 0, 6);
        v.dtype_out = pick(rng, 0, 6);
        v.dtype_acc = pick(rng, 0, 6);
        v.fused = pick(rng, 0, 7);
    } while (metatune_encode_conv2d_check(&v, NULL));
    return v;
}

/* -------------------------------------------------------------- status */

static void test_status(void)
{
    static const metatune_status all[] = {
        METATUNE_OK, METATUNE_COMPILE, METATUNE_RUNTIME, METATUNE_TIMEOUT,
        METATUNE_WRONG, METATUNE_CONSTRAINT, METATUNE_INVALID_TIME,
        METATUNE_DEVICE_LOST, METATUNE_CANCELLED, METATUNE_NOT_RUN,
        METATUNE_BUDGET, METATUNE_EXHAUSTED, METATUNE_EMPTY_SPACE,
        METATUNE_NO_VALID, METATUNE_WAIT, METATUNE_BAD_ARG,
        METATUNE_BAD_CONFIG, METATUNE_BAD_SHAPE, METATUNE_BAD_NEST,
        METATUNE_NO_MEMORY, METATUNE_OVERFLOW, METATUNE_CAPACITY,
        METATUNE_EMPTY_KNOB, METATUNE_BAD_SCHEMA, METATUNE_BAD_BLOB,
        METATUNE_BAD_RECORD, METATUNE_NOT_FOUND, METATUNE_IO,
        METATUNE_NOT_FINITE, METATUNE_PARSE};
    int n = (int)(sizeof all / sizeof all[0]), i, j, known = 0;
    for (i = 0; i < n; i++) {
        const char *a = metatune_encode_status_name(all[i]);
        const char *t = metatune_encode_status_text(all[i]);
        CHECK(*a && strcmp(a, "UNKNOWN") != 0);
        CHECK(*t && t[strlen(t) - 1] != '.');
        for (j = 0; j < i; j++) {
            CHECK(strcmp(a, metatune_encode_status_name(all[j])) != 0);
            CHECK(strcmp(t, metatune_encode_status_text(all[j])) != 0);
        }
    }
    for (i = -5; i < 127; i++)
        known += strcmp(metatune_encode_status_name((metatune_status)i),
                        "UNKNOWN") != 0;
    CHECK_INT(known, n);
    CHECK_STR(metatune_encode_status_name(METATUNE_NO_VALID), "NO_VALID");
    CHECK_STR(metatune_encode_status_name((metatune_status)10), "UNKNOWN");
    CHECK_STR(metatune_encode_status_text((metatune_status)10),
              "not a status of this library");
}

static void error_line_check(const metatune_error *e, const char *want)
{
    size_t len = strlen(want), cap;
    for (cap = 0; cap <= len + 2; cap++) {
        char *buf = (char *)block_new(cap + 4);
        size_t n = metatune_encode_error_line(e, buf, cap);
        size_t expect = cap == 0 ? 0 : cap - 1 < len ? cap - 1 : len;
        CHECK_INT(n, expect);
        if (cap) {
            CHECK(memcmp(buf, want, expect) == 0);
            CHECK(buf[expect] == 0);
        }
        CHECK(memcmp(buf + cap, "\xA5\xA5\xA5\xA5", 4) == 0);
        free(buf);
    }
    CHECK_INT(metatune_encode_error_line(e, NULL, 0), 0);
    CHECK_INT(metatune_encode_error_line(e, NULL, 10), 0);
}

static void test_error_line(void)
{
    metatune_error e;
    memset(&e, 0, sizeof e);
    e.status = METATUNE_BAD_SHAPE;
    error_line_check(&e, "BAD_SHAPE: the shape is impossible");
    e.where = "stride_h";
    error_line_check(&e, "BAD_SHAPE: stride_h");
    e.has_got = 1;
    error_line_check(&e, "BAD_SHAPE: stride_h is 0");
    e.want = "1..65535";
    e.got = INT64_MIN;
    error_line_check(&e,
                     "BAD_SHAPE: stride_h is -9223372036854775808, want "
                     "1..65535");
    e.got = INT64_MAX;
    error_line_check(
        &e, "BAD_SHAPE: stride_h is 9223372036854775807, want 1..65535");
    e.has_got = 0;
    error_line_check(&e, "BAD_SHAPE: stride_h, want 1..65535");
    error_line_check(NULL, "");
}

/* ------------------------------------------------------- rng and hashes */

static uint64_t ref_split(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z ^= z >> 30;
    z *= UINT64_C(0xBF58476D1CE4E5B9);
    z ^= z >> 27;
    z *= UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return z;
}

static void test_rng_reference(void)
{
    /* published outputs: splitmix64 of seed 1234567, xoshiro256** of state
       1, 2, 3, 4 */
    static const uint64_t split[5] = {
        UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821)};
    static const uint64_t xo[8] = {
        UINT64_C(11520), UINT64_C(0), UINT64_C(1509978240),
        UINT64_C(1215971899390074240), UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600), UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832)};
    uint64_t state = 1234567, seed;
    rng_t r;
    int i, j;
    for (i = 0; i < 5; i++)
        CHECK(ref_split(&state) == split[i]);
    for (i = 0; i < 4; i++)
        r.s[i] = (uint64_t)i + 1;
    for (i = 0; i < 8; i++)
        CHECK(metatune_encode_rng_next(&r) == xo[i]);
    for (i = 0; i < 50; i++) {
        uint64_t stream = (uint64_t)i * UINT64_C(0x123456789abcdef) % 97;
        uint64_t z = stream;
        seed = (uint64_t)i * UINT64_C(0xfedcba9876543211);
        z = seed ^ ref_split(&z);
        metatune_encode_rng_init(&r, seed, stream);
        for (j = 0; j < 4; j++)
            CHECK(r.s[j] == ref_split(&z));
    }
}

static void test_rng_ranges(void)
{
    rng_t r, a, b;
    uint64_t ns[] = {2, 3, 7, 10, 64, 97}, n;
    uint32_t count[97];
    size_t k;
    int i, low = 0, equal = 0;
    double sum = 0, sum2 = 0;
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&r, SEED, 1);
    CHECK(metatune_encode_rng_below(&r, 0) == 0);
    CHECK(metatune_encode_rng_below(&r, 1) == 0);
    for (k = 0; k < sizeof ns / sizeof ns[0]; k++) {
        double chi = 0, expect = 20000.0 / (double)ns[k];
        double dof = (double)(ns[k] - 1);
        memset(count, 0, sizeof count);
        for (i = 0; i < 20000; i++) {
            n = metatune_encode_rng_below(&r, ns[k]);
            CHECK(n < ns[k]);
            if (n < ns[k])
                count[n]++;
        }
        for (n = 0; n < ns[k]; n++)
            chi += (count[n] - expect) * (count[n] - expect) / expect;
        CHECK(chi < dof + 5 * sqrt(2 * dof) + 5);
    }
    /* x % n of a plain 64-bit x would put half below 2^62, not a third */
    for (i = 0; i < 20000; i++)
        low += metatune_encode_rng_below(&r, UINT64_C(3) << 62) <
               UINT64_C(1) << 62;
    CHECK_NEAR(low / 20000.0, 1.0 / 3, 0.02);
    CHECK(metatune_encode_rng_below(&r, UINT64_MAX) < UINT64_MAX);
    for (i = 0; i < 50000; i++) {
        double u = metatune_encode_rng_unit(&r);
        CHECK(u >= 0 && u < 1);
        sum += u;
        sum2 += u * u;
    }
    CHECK_NEAR(sum / 50000, 0.5, 0.01);
    CHECK_NEAR(sum2 / 50000, 1.0 / 3, 0.01);
    memset(r.s, 0, sizeof r.s);
    r.s[1] = UINT64_C(0x38e38e38e38e38e4); /* any state: the bound holds */
    CHECK(metatune_encode_rng_unit(&r) < 1);
    sum = sum2 = 0;
    metatune_encode_rng_init(&r, SEED, 2);
    for (i = 0; i < 50000; i++) {
        double z = metatune_encode_rng_normal(&r);
        CHECK(z >= -6 && z <= 6);
        sum += z;
        sum2 += z * z;
    }
    CHECK_NEAR(sum / 50000, 0, 0.025);
    CHECK_NEAR(sum2 / 50000, 1, 0.04);
    metatune_encode_rng_init(&a, SEED, 0);
    metatune_encode_rng_init(&b, SEED, 1);
    for (i = 0; i < 1000; i++)
        equal +=
            metatune_encode_rng_next(&a) == metatune_encode_rng_next(&b);
    CHECK_INT(equal, 0);
    metatune_encode_rng_init(&a, 0, SEED);
    metatune_encode_rng_init(&b, SEED, 0);
    CHECK(metatune_encode_rng_next(&a) != metatune_encode_rng_next(&b));
    metatune_encode_rng_init(&a, SEED, 3);
    metatune_encode_rng_init(&b, SEED, 3);
    for (i = 0; i < 100; i++)
        CHECK(metatune_encode_rng_next(&a) == metatune_encode_rng_next(&b));
}

static uint64_t ref_hash(uint64_t seed, const unsigned char *p, size_t n)
{
    uint64_t h = seed ^ UINT64_C(14695981039346656037), z;
    size_t i;
    for (i = 0; i < n; i++) {
        h ^= p[i];
        h *= UINT64_C(1099511628211);
    }
    z = (h ^ n) - UINT64_C(0x9E3779B97F4A7C15);
    return ref_split(&z);
}

static void test_hash(void)
{
    enum { N = 3000 };
    static uint64_t seen[N];
    unsigned char text[64];
    int i, j;
    for (i = 0; i < 64; i++)
        text[i] = (unsigned char)(i * 37 + 11);
    for (i = 0; i <= 64; i++)
        CHECK(metatune_encode_hash((uint64_t)i, text, (size_t)i) ==
              ref_hash((uint64_t)i, text, (size_t)i));
    CHECK(metatune_encode_hash(5, NULL, 0) == ref_hash(5, text, 0));
    /* one changed bit anywhere, a zero more, another seed: another hash */
    for (i = 0; i < 512; i++) {
        uint64_t before = metatune_encode_hash(1, text, 64);
        text[i / 8] = (unsigned char)(text[i / 8] ^ (1u << i % 8));
        CHECK(metatune_encode_hash(1, text, 64) != before);
        text[i / 8] = (unsigned char)(text[i / 8] ^ (1u << i % 8));
    }
    memset(text, 0, sizeof text);
    for (i = 0; i < 64; i++)
        seen[i] = metatune_encode_hash(0, text, (size_t)i);
    for (i = 0; i < 64; i++)
        for (j = 0; j < i; j++)
            CHECK(seen[i] != seen[j]);
    CHECK(metatune_encode_hash(1, text, 4) !=
          metatune_encode_hash(2, text, 4));
    /* integers: golden values say the byte order does not matter */
    CHECK(metatune_encode_hash_u64(1, 2) != metatune_encode_hash_u64(2, 1));
    for (i = 0; i < 40; i++) {
        uint64_t v = (uint64_t)i << (i % 33), s = (uint64_t)(i / 3), z;
        z = v + UINT64_C(0xd1b54a32d192ed03) - UINT64_C(0x9E3779B97F4A7C15);
        z = (s * UINT64_C(0x9E3779B97F4A7C15)) ^ ref_split(&z);
        z -= UINT64_C(0x9E3779B97F4A7C15);
        CHECK(metatune_encode_hash_u64(s, v) == ref_split(&z));
    }
    for (i = 0; i < N; i++)
        seen[i] = metatune_encode_hash_u64((uint64_t)(i / 60),
                                           (uint64_t)(i % 60));
    for (i = 0; i < N; i++)
        for (j = 0; j < i; j++)
            if (seen[i] == seen[j])
                FAULT("hash_u64 collides");
}

static void test_log2(void)
{
    double worst = 0, x;
    rng_t r;
    int i;
    metatune_encode_rng_init(&r, SEED, 3);
    for (i = 0; i < 200000; i++) {
        double want, err;
        x = (1 + metatune_encode_rng_unit(&r)) *
            ldexp(1, pick(&r, -300, 300));
        if (i < 2000)
            x = 1 + (i - 1000) * 1e-6; /* where the sum cancels */
        want = log2(x);
        err = fabs((double)mti_enc_log2(x) - want) /
              (3e-7 + 6e-8 * fabs(want));
        if (err > worst)
            worst = err;
    }
    printf("    worst error / bound %.2f\n", worst);
    CHECK(worst < 1);
    for (i = -1000; i <= 1023; i++)
        CHECK_NEAR(mti_enc_log2(ldexp(1, i)), i, 1e-12);
    CHECK_NEAR(mti_enc_log2(0), 0, 0);
    CHECK_NEAR(mti_enc_log2(-3), 0, 0);
    CHECK_NEAR(mti_enc_log2(1e-310), 0, 0);
    CHECK(finite_is((double)mti_enc_log2(HUGE_VAL)));
    CHECK_NEAR(mti_enc_log2p(0.25), 0, 0);
    CHECK_NEAR(mti_enc_log2p(8), 3, 0);
}

/* -------------------------------------------------------- nest builder */

static void nest_good(nest_t *nest)
{
    int32_t t[3] = {0, 1, 2}, l;
    matmul_axes(nest, 8, 16, 4);
    l = metatune_encode_loop_add(nest, -1, 0, 1, 8, METATUNE_LOOP_SERIAL, 1);
    l = metatune_encode_loop_add(nest, l, 1, 1, 16, METATUNE_LOOP_SERIAL, 2);
    l = metatune_encode_loop_add(nest, l, 2, 1, 4, METATUNE_LOOP_SERIAL, 3);
    metatune_encode_stmt_add(nest, l, METATUNE_STMT_LOAD, 4, 1, t, 2);
    metatune_encode_stmt_add(nest, l, METATUNE_STMT_FMA, 5, 1, t, 3);
    metatune_encode_copy_add(nest, 0, 1, METATUNE_SCOPE_LOCAL, 6);
}

/* The expression is refused with the status, which then sticks; what is good
   after it neither clears nor replaces the status. */
#define REFUSED(expr, code)                                                  \
    do {                                                                     \
        nest_good(&nest);                                                    \
        CHECK(nest.status == METATUNE_OK);                                   \
        CHECK((expr) == -1);                                                 \
        CHECK_INT(nest.status, code);                                        \
        CHECK(metatune_encode_axis_add(&nest, 3, 0) == 3);                   \
        (void)metatune_encode_axis_add(&nest, 3, 99);                        \
        CHECK_INT(nest.status, code);                                        \
        CHECK_INT(metatune_encode_nest_check(&nest), code);                  \
    } while (0)

static void test_nest_refusals(void)
{
    nest_t nest;
    int32_t t0[1] = {0}, bad[2] = {0, 3}, neg[1] = {-1}, i;
    metatune_encode_config cfg;
    void *mem;
    memset(&cfg, 0, sizeof cfg);
    mem = nest_new(&nest, NULL);
    nest_good(&nest);
    CHECK_INT(metatune_encode_nest_check(&nest), METATUNE_OK);
    REFUSED(metatune_encode_axis_add(&nest, 0, 0), METATUNE_BAD_SHAPE);
    REFUSED(metatune_encode_axis_add(&nest, -1, 0), METATUNE_BAD_SHAPE);
    REFUSED(metatune_encode_axis_add(&nest, 1, 2), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_axis_add(&nest, 1, -1), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_tensor_add(&nest, 0, 0, 0), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_tensor_add(&nest, 17, 0, 0), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_tensor_add(&nest, 4, 3, 0), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_tensor_add(&nest, 4, 0, 4), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_tensor_add(&nest, 4, -1, 0), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_dim_add(&nest, 3, 4, 0), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_dim_add(&nest, -1, 4, 0), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_dim_add(&nest, 0, 0, 0), METATUNE_BAD_SHAPE);
    REFUSED(metatune_encode_dim_add(&nest, 0, 4, -1), METATUNE_BAD_SHAPE);
    REFUSED(metatune_encode_term_add(&nest, 0, 3, 1), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_term_add(&nest, 0, -1, 1), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_term_add(&nest, 0, 0, 0), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_term_add(&nest, 0, 0, -2), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_term_add(&nest, 3, 0, 1), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_term_add(
                &nest, metatune_encode_tensor_add(&nest, 4, 0, 0), 0, 1),
            METATUNE_BAD_NEST); /* no dimension yet */
    REFUSED(metatune_encode_loop_add(&nest, 3, 0, 1, 1, 0, 7),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_loop_add(&nest, -2, 0, 1, 1, 0, 7),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_loop_add(&nest, -1, 3, 1, 1, 0, 7),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_loop_add(&nest, -1, 0, 0, 1, 0, 7),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_loop_add(&nest, -1, 0, 1, 0, 0, 7),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_loop_add(&nest, -1, 0, 1, 1, 7, 7),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_loop_add(&nest, -1, 0, 1, 1, 0, -1),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_stmt_add(&nest, 3, 0, 7, 1, t0, 1),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_stmt_add(&nest, 0, 6, 7, 1, t0, 1),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_stmt_add(&nest, 0, 0, 7, 0, t0, 1),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_stmt_add(&nest, 0, 0, 7, 1, t0, 4),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_stmt_add(&nest, 0, 0, 7, 1, t0, -1),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_stmt_add(&nest, 0, 0, 7, 1, NULL, 1),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_stmt_add(&nest, 0, 0, 7, 1, bad, 2),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_stmt_add(&nest, 0, 0, 7, 1, neg, 1),
            METATUNE_BAD_NEST);
    REFUSED(metatune_encode_copy_add(&nest, 3, 0, 0, 7), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_copy_add(&nest, 0, 3, 0, 7), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_copy_add(&nest, 0, 0, 3, 7), METATUNE_BAD_NEST);
    REFUSED(metatune_encode_copy_add(&nest, 0, 0, 0, -1), METATUNE_BAD_NEST);

    /* capacities */
    metatune_encode_nest_clear(&nest);
    for (i = 0; i < METATUNE_ENCODE_MAX_AXES; i++)
        CHECK_INT(metatune_encode_axis_add(&nest, BIG, i % 2), i);
    CHECK(nest.status == METATUNE_OK);
    CHECK_INT(metatune_encode_axis_add(&nest, 1, 0), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    metatune_encode_nest_clear(&nest);
    metatune_encode_axis_add(&nest, 2, 0);
    for (i = 0; i < METATUNE_ENCODE_MAX_TENSORS; i++)
        CHECK_INT(metatune_encode_tensor_add(&nest, 16, 2, i % 4), i);
    CHECK_INT(metatune_encode_tensor_add(&nest, 4, 0, 0), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    metatune_encode_nest_clear(&nest);
    CHECK_INT(nest.status, METATUNE_OK);
    metatune_encode_axis_add(&nest, 2, 0);
    metatune_encode_tensor_add(&nest, 4, 0, 0);
    for (i = 0; i < METATUNE_ENCODE_MAX_DIMS; i++)
        CHECK_INT(metatune_encode_dim_add(&nest, 0, 9, 1), i);
    for (i = 0; i < METATUNE_ENCODE_MAX_TERMS; i++)
        CHECK_INT(metatune_encode_term_add(&nest, 0, 0, 1), i);
    CHECK_INT(nest.status, METATUNE_OK);
    CHECK_INT(metatune_encode_term_add(&nest, 0, 0, 1), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    nest.status = METATUNE_OK;
    CHECK_INT(metatune_encode_dim_add(&nest, 0, 9, 1), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    free(mem);

    cfg.cap_nodes = 7; /* root + 3 loops + 2 statements + copy: just fits */
    mem = nest_new(&nest, &cfg);
    nest_good(&nest);
    CHECK_INT(metatune_encode_nest_check(&nest), METATUNE_OK);
    CHECK_INT(metatune_encode_loop_add(&nest, -1, 0, 1, 1, 0, 9), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    nest_good(&nest);
    CHECK_INT(metatune_encode_stmt_add(&nest, -1, 0, 9, 1, NULL, 0), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    nest_good(&nest);
    CHECK_INT(metatune_encode_copy_add(&nest, -1, 0, 0, 9), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    free(mem);

    /* of 10 nodes 5 statements and 3 copies, of 2 tensors 2 */
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = 10;
    cfg.cap_tensors = 2;
    mem = nest_new(&nest, &cfg);
    for (i = 0; i < 2; i++)
        CHECK_INT(metatune_encode_tensor_add(&nest, 4, 0, i), i);
    CHECK_INT(metatune_encode_tensor_add(&nest, 4, 0, 0), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    metatune_encode_nest_rewind(&nest);
    for (i = 0; i < 5; i++)
        CHECK_INT(metatune_encode_stmt_add(&nest, -1, 0, 1, 1, NULL, 0), i);
    CHECK_INT(metatune_encode_stmt_add(&nest, -1, 0, 1, 1, NULL, 0), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    metatune_encode_nest_rewind(&nest);
    for (i = 0; i < 3; i++)
        CHECK_INT(metatune_encode_copy_add(&nest, -1, 0, 0, 1), i);
    CHECK_INT(metatune_encode_copy_add(&nest, -1, 0, 0, 1), -1);
    CHECK_INT(nest.status, METATUNE_CAPACITY);
    free(mem);

    cfg.cap_nodes = 7;
    cfg.cap_tensors = 3;
    mem = nest_new(&nest, &cfg);
    nest_good(&nest);
    /* rewind keeps axes and tensors, clear does not */
    nest.hint[1] = 1;
    metatune_encode_nest_rewind(&nest);
    CHECK(nest.n_axes == 3 && nest.n_tensors == 3 && nest.n_loops == 0 &&
          nest.n_stmts == 0 && nest.n_copies == 0 && nest.status == 0);
    CHECK(nest.hint[1] < 1);
    nest.skeleton = 4;
    metatune_encode_nest_clear(&nest);
    CHECK(nest.n_axes == 0 && nest.n_tensors == 0 && nest.skeleton == 0);
    free(mem);
}

/* Put a wrong value in a field: refused by the check and by all users. */
#define CORRUPT(field, value)                                                \
    do {                                                                     \
        nest_t copy_ = nest;                                                 \
        nest_good(&nest);                                                    \
        (field) = (value);                                                   \
        CHECK_INT(metatune_encode_nest_check(&nest), METATUNE_BAD_NEST);     \
        CHECK(metatune_encode_access_derive(&nest, 0, 0, &access) ==         \
              METATUNE_BAD_NEST);                                            \
        CHECK(metatune_encode_totals_derive(&nest, NULL, &totals) ==         \
              METATUNE_BAD_NEST);                                            \
        CHECK(metatune_encode_graph_fill(&graph, &nest, NULL, NULL) ==       \
              METATUNE_BAD_NEST);                                            \
        CHECK(metatune_encode_skeleton_build(&skeleton, &nest) ==            \
              METATUNE_BAD_NEST);                                            \
        nest = copy_;                                                        \
    } while (0)

static void test_nest_corrupted(void)
{
    nest_t nest;
    metatune_encode_graph graph;
    metatune_encode_skeleton skeleton;
    metatune_encode_access access;
    metatune_encode_totals totals;
    void *mem = nest_new(&nest, NULL), *gmem = graph_new(&graph, NULL);
    void *smem = skeleton_new(&skeleton, NULL);
    CHECK_INT(metatune_encode_nest_check(NULL), METATUNE_BAD_ARG);
    CORRUPT(nest.n_axes, -1);
    CORRUPT(nest.n_axes, 17);
    CORRUPT(nest.n_axes, 2); /* what terms and loops name is gone */
    CORRUPT(nest.n_tensors, -1);
    CORRUPT(nest.n_tensors, 9);
    CORRUPT(nest.n_tensors, 2);
    CORRUPT(nest.n_loops, -1);
    CORRUPT(nest.n_loops, 2);
    CORRUPT(nest.n_loops, BIG);
    CORRUPT(nest.n_stmts, -1);
    CORRUPT(nest.n_stmts, BIG);
    CORRUPT(nest.n_copies, BIG);
    CORRUPT(nest.n_copies, -1);
    CORRUPT(nest.cap_nodes, 6);
    CORRUPT(nest.cap_nodes, BIG);
    CORRUPT(nest.cap_tensors, 2);
    CORRUPT(nest.cap_tensors, BIG);
    CORRUPT(nest.cap_stmts, 1);
    CORRUPT(nest.cap_stmts, BIG);
    CORRUPT(nest.cap_copies, 0);
    CORRUPT(nest.cap_copies, BIG);
    CORRUPT(nest.skeleton, -1);
    CORRUPT(nest.axis[1].extent, 0);
    CORRUPT(nest.axis[1].kind, 2);
    CORRUPT(nest.axis[1].kind, -1);
    CORRUPT(nest.tensor[0].elem_bytes, 0);
    CORRUPT(nest.tensor[0].elem_bytes, 17);
    CORRUPT(nest.tensor[0].scope, 3);
    CORRUPT(nest.tensor[0].role, 4);
    CORRUPT(nest.tensor[0].role, -1);
    CORRUPT(nest.tensor[0].axis_mask, 1);
    CORRUPT(nest.tensor[0].axis_mask, 0xffffffffu);
    CORRUPT(nest.tensor[0].n_dims, 0);
    CORRUPT(nest.tensor[0].n_dims, 7);
    CORRUPT(nest.tensor[0].dim[1].extent, 0);
    CORRUPT(nest.tensor[0].dim[1].pad, -1);
    CORRUPT(nest.tensor[0].dim[1].block, -1);
    CORRUPT(nest.tensor[0].dim[1].n_terms, -1);
    CORRUPT(nest.tensor[0].dim[1].n_terms, 4);
    CORRUPT(nest.tensor[0].dim[1].axis[0], 3);
    CORRUPT(nest.tensor[0].dim[1].axis[0], -1);
    CORRUPT(nest.tensor[0].dim[1].coef[0], 0);
    CORRUPT(nest.tensor[0].dim[1].stride, -1);
    CORRUPT(nest.tensor[0].dim[1].stride, HUGE_VAL);
    CORRUPT(nest.tensor[0].dim[1].stride, HUGE_VAL - HUGE_VAL);
    CORRUPT(nest.tensor[0].dim[1].stride_block, -1);
    CORRUPT(nest.loop[1].axis, 3);
    CORRUPT(nest.loop[1].axis, -1);
    CORRUPT(nest.loop[1].step, 0);
    CORRUPT(nest.loop[1].trip, 0);
    CORRUPT(nest.loop[1].kind, 7);
    CORRUPT(nest.loop[1].slot, -1);
    CORRUPT(nest.loop[1].parent, 1); /* itself */
    CORRUPT(nest.loop[1].parent, 2); /* a cycle */
    CORRUPT(nest.loop[1].parent, -2);
    CORRUPT(nest.stmt[0].parent, 3);
    CORRUPT(nest.stmt[0].parent, -2);
    CORRUPT(nest.stmt[0].kind, 6);
    CORRUPT(nest.stmt[0].count, 0);
    CORRUPT(nest.stmt[0].slot, -1);
    CORRUPT(nest.stmt[0].n_tensors, 4);
    CORRUPT(nest.stmt[0].n_tensors, -1);
    CORRUPT(nest.stmt[0].tensor[1], 3);
    CORRUPT(nest.stmt[0].tensor[1], -1);
    CORRUPT(nest.copy[0].tensor, 3);
    CORRUPT(nest.copy[0].parent, 3);
    CORRUPT(nest.copy[0].slot, -1);
    CORRUPT(nest.copy[0].scope, 3);
    CORRUPT(nest.hint[3], (metatune_real)(HUGE_VAL - HUGE_VAL));
    CORRUPT(nest.hint[0], (metatune_real)HUGE_VAL);
    nest_good(&nest);
    CHECK_INT(metatune_encode_nest_check(&nest), METATUNE_OK);
    CHECK(metatune_encode_access_derive(&nest, 3, 0, &access) ==
          METATUNE_BAD_ARG);
    CHECK(metatune_encode_access_derive(&nest, -2, 0, &access) ==
          METATUNE_BAD_ARG);
    CHECK(metatune_encode_access_derive(&nest, 0, 3, &access) ==
          METATUNE_BAD_ARG);
    CHECK(metatune_encode_access_derive(&nest, 0, 0, NULL) ==
          METATUNE_BAD_ARG);
    CHECK(metatune_encode_totals_derive(&nest, NULL, NULL) ==
          METATUNE_BAD_ARG);
    CHECK(metatune_encode_graph_fill(NULL, &nest, NULL, NULL) ==
          METATUNE_BAD_ARG);
    CHECK(metatune_encode_graph_fill(&graph, NULL, NULL, NULL) ==
          METATUNE_BAD_ARG);
    CHECK(metatune_encode_skeleton_build(NULL, &nest) == METATUNE_BAD_ARG);
    free(mem);
    free(gmem);
    free(smem);
}

#define INIT_CHECK(kind)                                                     \
    do {                                                                     \
        metatune_encode_##kind o;                                            \
        size_t n = metatune_encode_##kind##_memsize(cfg);                    \
        char *m = (char *)block_new(n + 16);                                 \
        CHECK(n > 0);                                                        \
        CHECK_INT(metatune_encode_##kind##_init(&o, cfg, m, n),              \
                  METATUNE_OK);                                              \
        CHECK_INT(metatune_encode_##kind##_init(&o, cfg, m, n - 1),          \
                  METATUNE_NO_MEMORY);                                       \
        CHECK_INT(metatune_encode_##kind##_init(&o, cfg, m, 0),              \
                  METATUNE_NO_MEMORY);                                       \
        CHECK_INT(metatune_encode_##kind##_init(&o, cfg, m + 4, n + 8),      \
                  METATUNE_NO_MEMORY);                                       \
        CHECK_INT(metatune_encode_##kind##_init(&o, cfg, NULL, n),           \
                  METATUNE_BAD_ARG);                                         \
        CHECK_INT(metatune_encode_##kind##_init(NULL, cfg, m, n),            \
                  METATUNE_BAD_ARG);                                         \
        CHECK_INT(metatune_encode_##kind##_init(&o, &bad, m, n),             \
                  METATUNE_BAD_CONFIG);                                      \
        CHECK_INT(metatune_encode_##kind##_memsize(&bad), 0);                \
        free(m);                                                             \
    } while (0)

static void test_init(void)
{
    static const int32_t nodes[] = {1, -1, 4097, BIG, 64, 64, 64};
    static const int32_t edges[] = {0, 0, 0, 0, -1, 65536, BIG};
    metatune_encode_config all[3], bad;
    int i, j;
    memset(all, 0, sizeof all);
    memset(&bad, 0, sizeof bad);
    all[1].cap_nodes = 2;
    all[1].cap_edges = 1;
    all[2].cap_nodes = 4096;
    all[2].cap_edges = 65535;
    for (i = 0; i < 7; i++) {
        bad.cap_nodes = nodes[i];
        bad.cap_edges = edges[i];
        for (j = 0; j < 4; j++) {
            const metatune_encode_config *cfg = j == 3 ? NULL : &all[j];
            INIT_CHECK(nest);
            INIT_CHECK(graph);
            INIT_CHECK(skeleton);
        }
    }
    CHECK_INT(metatune_encode_nest_memsize(NULL),
              metatune_encode_nest_memsize(&all[0]));
    bad.cap_nodes = bad.cap_edges = 0; /* cap_tensors is the nest's alone */
    for (i = 0; i < 3; i++) {
        const metatune_encode_config *cfg = &all[2];
        bad.cap_tensors = i == 0 ? -1 : i == 1 ? 9 : BIG;
        INIT_CHECK(nest);
    }
    all[0].cap_nodes = 64;
    all[0].cap_edges = 512;
    all[0].cap_tensors = 8;
    CHECK_INT(metatune_encode_nest_memsize(NULL),
              metatune_encode_nest_memsize(&all[0]));
    CHECK_INT(metatune_encode_graph_memsize(NULL),
              metatune_encode_graph_memsize(&all[0]));
}

/* -------------------------------------- derived quantities, brute force */

typedef struct brute {
    double dims;    /* product of min(distinct indices, extent) */
    double real;    /* distinct elements inside the tensor */
    double touches;
    int exact;      /* the header promises equality with `dims` */
    int outside;    /* some index was outside */
} brute;

#define INDEX_MAX 512
#define CELLS_MAX (1 << 17)

static unsigned char brute_index[METATUNE_ENCODE_MAX_DIMS][INDEX_MAX];
static unsigned char brute_value[METATUNE_ENCODE_MAX_AXES][INDEX_MAX];
static unsigned char brute_cell[CELLS_MAX];

/* Run every iteration of the loops between `loop` and statement s. */
static void brute_stmt(const nest_t *nest, int32_t loop,
                       const metatune_encode_stmt *s,
                       const metatune_encode_tensor *t, brute *out)
{
    int32_t path[MAX_TILES], at[MAX_TILES], n = 0, l, i, d, a;
    double dims = 1, real = 0;
    int32_t cells = 1, exact = 1;
    for (l = s->parent; l >= 0 && l != loop; l = nest->loop[l].parent)
        path[n++] = l;
    if (l != loop)
        return;
    if (loop >= 0)
        path[n++] = loop;
    for (d = 0; d < t->n_dims; d++)
        cells *= t->dim[d].extent;
    if (cells > CELLS_MAX) {
        FAULT("test tensor too large");
        return;
    }
    memset(brute_cell, 0, (size_t)cells);
    memset(brute_index, 0, sizeof brute_index);
    memset(brute_value, 0, sizeof brute_value);
    memset(at, 0, sizeof at);
    for (;;) {
        int64_t value[METATUNE_ENCODE_MAX_AXES] = {0};
        int inside = 1, in = 1;
        int32_t cell = 0;
        for (i = 0; i < n; i++)
            value[nest->loop[path[i]].axis] +=
                (int64_t)at[i] * nest->loop[path[i]].step;
        for (a = 0; a < nest->n_axes; a++)
            if (value[a] >= nest->axis[a].extent)
                inside = 0;
        out->touches += s->count;
        for (d = 0; inside && d < t->n_dims; d++) {
            int64_t index = 0;
            for (i = 0; i < t->dim[d].n_terms; i++)
                index += t->dim[d].coef[i] * value[t->dim[d].axis[i]];
            if (index < INDEX_MAX)
                brute_index[d][index] = 1;
            else
                FAULT("test index too large");
            index -= t->dim[d].pad;
            if (index < 0 || index >= t->dim[d].extent)
                in = 0;
            else
                cell = cell * t->dim[d].extent + (int32_t)index;
        }
        if (inside) {
            for (a = 0; a < nest->n_axes; a++)
                brute_value[a][value[a]] = 1;
            if (in)
                brute_cell[cell] = 1;
            else
                out->outside = 1;
        }
        for (i = 0; i < n && ++at[i] == nest->loop[path[i]].trip; i++)
            at[i] = 0;
        if (i == n)
            break;
    }
    for (d = 0; d < t->n_dims; d++) {
        double k = 0;
        for (i = 0; i < INDEX_MAX; i++)
            k += brute_index[d][i];
        dims *= k < t->dim[d].extent ? k : t->dim[d].extent;
        exact &= t->dim[d].n_terms <= 2;
    }
    for (i = 0; i < cells; i++)
        real += brute_cell[i];
    for (a = 0; a < nest->n_axes; a++) { /* holes, and repeated axes */
        int64_t reach = 0, used = 0, top = nest->axis[a].extent - 1;
        for (i = 0; i < n; i++)
            if (nest->loop[path[i]].axis == a)
                reach += (int64_t)(nest->loop[path[i]].trip - 1) *
                         nest->loop[path[i]].step;
        if (reach > top)
            reach = top;
        for (i = 0; i <= reach; i++)
            exact &= brute_value[a][i];
        for (d = 0; d < t->n_dims; d++)
            for (i = 0; i < t->dim[d].n_terms; i++)
                used += t->dim[d].axis[i] == a;
        exact &= used <= 1;
    }
    if (dims > out->dims)
        out->dims = dims;
    if (real > out->real)
        out->real = real;
    out->exact &= exact;
}

static brute brute_run(const nest_t *nest, int32_t loop, int32_t tensor)
{
    brute out;
    int32_t i, j;
    memset(&out, 0, sizeof out);
    out.exact = 1;
    for (i = 0; i < nest->n_stmts; i++)
        for (j = 0; j < nest->stmt[i].n_tensors; j++)
            if (nest->stmt[i].tensor[j] == tensor) {
                brute_stmt(nest, loop, &nest->stmt[i], &nest->tensor[tensor],
                           &out);
                break;
            }
    return out;
}

/* How often each kind of comparison was made: all must happen. */
static int32_t n_equal, n_inside, n_bound, n_below;

static void brute_compare(const nest_t *nest, metatune_encode_graph *graph)
{
    int32_t l, t;
    CHECK(metatune_encode_graph_fill(graph, nest, NULL, NULL) ==
          METATUNE_OK);
    for (l = -1; l < nest->n_loops; l++)
        for (t = 0; t < nest->n_tensors; t++) {
            metatune_encode_access a;
            brute b = brute_run(nest, l, t);
            int32_t bytes = nest->tensor[t].elem_bytes;
            CHECK_INT(metatune_encode_access_derive(nest, l, t, &a),
                      METATUNE_OK);
            CHECK_NEAR(a.touches, b.touches, 0);
            CHECK_NEAR(a.bytes, a.unique * bytes, 0);
            CHECK(a.unique <= b.touches);
            CHECK(a.unique >= b.real);
            if (b.touches > 0) {
                CHECK(a.unique >= 1 && a.reuse >= 1);
                CHECK_NEAR(a.reuse, b.touches / a.unique, 1e-9 * a.reuse);
            } else {
                CHECK_NEAR(a.unique + a.reuse, 0, 0);
            }
            if (b.exact) {
                n_equal++;
                CHECK_NEAR(a.unique, b.dims, 0);
                if (!b.outside) {
                    n_inside++;
                    CHECK_NEAR(a.unique, b.real, 0);
                }
            } else {
                n_bound++;
                n_below += a.unique > b.dims;
                CHECK(a.unique >= b.dims || a.unique >= b.touches ||
                      a.unique >= b.real);
            }
            if (l >= 0 && nest->tensor[t].role < METATUNE_ROLE_TEMP &&
                nest->n_tensors == 3) { /* one tensor a role */
                const metatune_real *row =
                    graph->x + (l + 1) * METATUNE_ENCODE_NODE_FEATURES + 19 +
                    3 * nest->tensor[t].role;
                double lu = a.bytes > 1 ? log2(a.bytes) : 0;
                double lt = b.touches * bytes;
                lt = lt > 1 ? log2(lt) : 0;
                CHECK_NEAR((double)row[0] * 10, lu, 1e-5);
                CHECK_NEAR((double)row[1] * 8, lt - lu, 1e-5);
                if (b.touches > 0) /* else the column stays empty */
                    CHECK_NEAR((double)row[2] * 8, log2(1 + a.stride), 1e-5);
            }
        }
}

static double tiles_work(const tile *t, int32_t n)
{
    double work = 1;
    int32_t i;
    for (i = 0; i < n; i++)
        work *= t[i].trip;
    return work;
}

static void test_derive_conv(void)
{
    nest_t nest;
    metatune_encode_graph graph;
    tile tiles[MAX_TILES];
    void *mem = nest_new(&nest, NULL), *gmem = graph_new(&graph, NULL);
    rng_t rng;
    int i;
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 10);
    n_equal = n_inside = n_bound = n_below = 0;
    for (i = 0; i < 300; i++) {
        int32_t n;
        do {
            conv_t v = conv_random(&rng, 3);
            CHECK(metatune_encode_conv2d_begin(&nest, &v) == METATUNE_OK);
            n = tiles_make(&rng, &nest, 3, 4, 0, tiles);
        } while (tiles_work(tiles, n) > 3000);
        tiles_order(&rng, tiles, n, i % 4 != 0);
        tiles_emit(&rng, &nest, tiles, n, 0);
        stmts_emit(&rng, &nest, 40, 1);
        CHECK_INT(nest.status, METATUNE_OK);
        brute_compare(&nest, &graph);
    }
    printf("    %d exact (%d without padding), %d bounds (%d loose)\n",
           (int)n_equal, (int)n_inside, (int)n_bound, (int)n_below);
    CHECK(n_equal > 2000 && n_inside > 1000 && n_bound > 20);
    free(mem);
    free(gmem);
}

static void test_derive_matmul(void)
{
    nest_t nest;
    metatune_encode_graph graph;
    tile tiles[MAX_TILES];
    void *mem = nest_new(&nest, NULL), *gmem = graph_new(&graph, NULL);
    rng_t rng;
    int i;
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 11);
    n_equal = n_inside = n_bound = n_below = 0;
    for (i = 0; i < 150; i++) {
        int32_t n;
        do {
            matmul_axes(&nest, pick(&rng, 1, 17), pick(&rng, 1, 17),
                        pick(&rng, 1, 17));
            n = tiles_make(&rng, &nest, 3, 6, 0, tiles);
        } while (tiles_work(tiles, n) > 5000);
        tiles_order(&rng, tiles, n, i % 3 != 0);
        tiles_emit(&rng, &nest, tiles, n, 0);
        stmts_emit(&rng, &nest, 40, 1);
        brute_compare(&nest, &graph);
    }
    CHECK(n_equal > 1000 && n_inside == n_equal && n_bound > 20);
    free(mem);
    free(gmem);
}

/* Anything goes: three terms, an axis in several dimensions, steps that leave
   holes or overlap, extents that cut. Only the bound is promised. */
static void test_derive_wild(void)
{
    nest_t nest;
    metatune_encode_graph graph;
    void *mem = nest_new(&nest, NULL), *gmem = graph_new(&graph, NULL);
    rng_t rng;
    int i;
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 12);
    n_equal = n_inside = n_bound = n_below = 0;
    for (i = 0; i < 400; i++) {
        int32_t t, d, k, parent = -1, tensors[3] = {0, 1, 2};
        double work = 1;
        metatune_encode_nest_clear(&nest);
        for (k = 0; k < 3; k++)
            metatune_encode_axis_add(&nest, pick(&rng, 1, 20), k % 2);
        for (t = 0; t < 3; t++) {
            metatune_encode_tensor_add(&nest, pick(&rng, 1, 16), 0, t);
            for (d = pick(&rng, 1, 3); d > 0; d--) {
                metatune_encode_dim_add(&nest, t, pick(&rng, 1, 50),
                                        pick(&rng, 0, 3));
                for (k = pick(&rng, 0, 3); k > 0; k--)
                    metatune_encode_term_add(&nest, t, pick(&rng, 0, 2),
                                             pick(&rng, 1, 4));
            }
        }
        for (k = pick(&rng, 1, 7); k > 0; k--) {
            int32_t trip = pick(&rng, 1, 6);
            if (work * trip > 2000)
                break;
            work *= trip;
            parent = metatune_encode_loop_add(&nest, parent,
                                              pick(&rng, 0, 2),
                                              pick(&rng, 1, 9), trip, 0, 1);
        }
        metatune_encode_stmt_add(&nest, parent, METATUNE_STMT_FMA, 1,
                                 pick(&rng, 1, 2), tensors, 3);
        CHECK_INT(nest.status, METATUNE_OK);
        brute_compare(&nest, &graph);
    }
    printf("    %d exact, %d bounds (%d loose)\n", (int)n_equal,
           (int)n_bound, (int)n_below);
    CHECK(n_equal > 200 && n_bound > 500);
    free(mem);
    free(gmem);
}

/* Address of element (n, c, h, w), from each layout's own formula. */
static double address(int32_t layout, int32_t block, const double *size,
                      const double *at)
{
    double C = size[1], H = size[2], W = size[3], b = block;
    if (layout == METATUNE_NCHW)
        return ((at[0] * C + at[1]) * H + at[2]) * W + at[3];
    if (layout == METATUNE_NHWC)
        return ((at[0] * H + at[2]) * W + at[3]) * C + at[1];
    return (((at[0] * round_up(C, b) + floor(at[1] / b)) * H + at[2]) * W +
            at[3]) * b + fmod(at[1], b);
}

static void test_derive_stride(void)
{
    nest_t nest;
    tile tiles[MAX_TILES];
    void *mem = nest_new(&nest, NULL);
    rng_t rng;
    int i;
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 13);
    for (i = 0; i < 300; i++) {
        conv_t v = conv_random(&rng, 12);
        int32_t n, l;
        double in[4], we[4], out[4];
        double cg = v.c / v.groups, kg = v.k / v.groups;
        v.layout = i % 3;
        v.block = v.layout == METATUNE_NCHWC ? pick(&rng, 1, 9) : 0;
        CHECK(metatune_encode_conv2d_begin(&nest, &v) == METATUNE_OK);
        n = tiles_make(&rng, &nest, 3, 12, 0, tiles);
        tiles_order(&rng, tiles, n, 1);
        tiles_emit(&rng, &nest, tiles, n, 0);
        stmts_emit(&rng, &nest, 40, 0);
        in[0] = out[0] = v.n;
        in[1] = v.c;
        in[2] = v.h;
        in[3] = v.w;
        out[1] = v.k;
        out[2] = metatune_encode_conv2d_out_h(&v);
        out[3] = metatune_encode_conv2d_out_w(&v);
        we[0] = v.k;
        we[1] = cg;
        we[2] = v.r;
        we[3] = v.s;
        for (l = 0; l < nest.n_loops; l++) {
            metatune_encode_access a = {0, 0, 0, 0, 0};
            double x[8] = {0}, i0[4] = {0}, i1[4], w1[4], o1[4];
            x[nest.loop[l].axis] = nest.loop[l].step;
            i1[0] = o1[0] = x[METATUNE_CONV_N];
            i1[1] = x[METATUNE_CONV_G] * cg + x[METATUNE_CONV_C];
            i1[2] = x[METATUNE_CONV_Y] * v.stride_h +
                    x[METATUNE_CONV_R] * v.dil_h;
            i1[3] = x[METATUNE_CONV_X] * v.stride_w +
                    x[METATUNE_CONV_S] * v.dil_w;
            o1[1] = x[METATUNE_CONV_G] * kg + x[METATUNE_CONV_K];
            o1[2] = x[METATUNE_CONV_Y];
            o1[3] = x[METATUNE_CONV_X];
            w1[0] = o1[1];
            w1[1] = x[METATUNE_CONV_C];
            w1[2] = x[METATUNE_CONV_R];
            w1[3] = x[METATUNE_CONV_S];
            metatune_encode_access_derive(&nest, l, 0, &a);
            CHECK_NEAR(a.stride,
                       address(v.layout, v.block, in, i1) -
                           address(v.layout, v.block, in, i0), 0);
            metatune_encode_access_derive(&nest, l, 1, &a);
            CHECK_NEAR(a.stride, address(METATUNE_NCHW, 0, we, w1), 0);
            metatune_encode_access_derive(&nest, l, 2, &a);
            CHECK_NEAR(a.stride, address(v.layout, v.block, out, o1), 0);
        }
    }
    free(mem);
}

/* ---------------------------------------------------------------- totals */

static metatune_encode_device device_random(rng_t *rng)
{
    metatune_encode_device d;
    memset(&d, 0, sizeof d);
    d.size = sizeof d;
    d.cores = pick(rng, 0, 64);
    d.lanes = 1 << pick(rng, 0, 4);
    d.vregs = pick(rng, 0, 1) ? 16 : 32;
    d.l1_bytes = 16384.0 * pick(rng, 0, 4);
    d.l2_bytes = 262144.0 * pick(rng, 0, 4);
    d.l3_bytes = 4194304.0 * pick(rng, 0, 8);
    d.freq_hz = 1e8 * pick(rng, 1, 50);
    d.bandwidth = 1e9 * pick(rng, 0, 100);
    return d;
}

static void test_totals(void)
{
    nest_t nest;
    tile tiles[MAX_TILES];
    void *mem = nest_new(&nest, NULL);
    rng_t rng;
    int i, wasted = 0;
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 20);
    for (i = 0; i < 600; i++) {
        metatune_encode_device d = device_random(&rng);
        metatune_encode_totals t, slow;
        metatune_encode_access a;
        conv_t v = conv_random(&rng, 20);
        int32_t n, l, exact = i % 2;
        double work = 1, need = 1, par = 1, vec = 1, cores, fill, used;
        double min_bytes = 0;
        CHECK(metatune_encode_conv2d_begin(&nest, &v) == METATUNE_OK);
        for (l = 0; l < 8; l++)
            need *= nest.axis[l].extent;
        do
            n = tiles_make(&rng, &nest, 3, 16, exact, tiles);
        while (n == 0);
        tiles_order(&rng, tiles, n, 1);
        tiles_emit(&rng, &nest, tiles, n, 0);
        stmts_emit(&rng, &nest, 40, 0);
        work = tiles_work(tiles, n);
        for (l = 0; l < n; l++) {
            int32_t kind = nest.loop[l].kind, trip = nest.loop[l].trip;
            if (kind == METATUNE_LOOP_PARALLEL ||
                kind == METATUNE_LOOP_BLOCK)
                par *= trip;
            if (kind == METATUNE_LOOP_VECTOR)
                vec *= trip;
        }
        CHECK_INT(metatune_encode_totals_derive(&nest, &d, &t), METATUNE_OK);
        CHECK_NEAR(t.flop, 2 * work, 0);
        CHECK_NEAR(t.waste, work / need, 1e-12 * t.waste);
        CHECK(t.waste >= 1);
        wasted += t.waste > 1;
        if (exact) {
            CHECK_NEAR(t.waste, 1, 0);
            CHECK_NEAR(t.flop, metatune_encode_conv2d_flop(&v), 0);
        } else {
            CHECK(t.flop >= metatune_encode_conv2d_flop(&v));
        }
        cores = d.cores ? d.cores : 1;
        used = par < cores ? par : cores;
        CHECK_NEAR(t.chunks, par, 0);
        CHECK_NEAR(t.imbalance, ceil(par / used) * used / par, 1e-12);
        CHECK(t.imbalance >= 1);
        fill = vec / d.lanes;
        CHECK_NEAR(t.vector_fill, fill > 4 ? 4 : fill, 1e-12);
        CHECK_NEAR(t.loads_per_fma, 2, 1e-12);
        for (l = 0; l < 3; l++) {
            metatune_encode_access_derive(&nest, -1, l, &a);
            min_bytes += a.bytes;
        }
        CHECK_NEAR(t.bytes_min, min_bytes, 1e-6 * min_bytes);
        CHECK(t.foot_inner > 0 && t.foot_inner <= t.bytes_min * 1.000001);
        /* the nearer cache sees no less than the farther one's minimum */
        CHECK(t.bytes_l1 >= 0 && t.bytes_l2 >= 0 && t.bytes_l3 >= 0);
        CHECK(t.bytes_l3 >= 0.999999 * t.bytes_min);
        CHECK(t.t0_s > 0 && finite_is(t.t0_s));
        d.freq_hz /= pick(&rng, 2, 10);
        CHECK(metatune_encode_totals_derive(&nest, &d, &slow) ==
              METATUNE_OK);
        CHECK(slow.t0_s >= t.t0_s);
        d.bandwidth = d.bandwidth > 0 ? d.bandwidth / 16 : 0;
        t = slow;
        CHECK(metatune_encode_totals_derive(&nest, &d, &slow) ==
              METATUNE_OK);
        CHECK(slow.t0_s >= t.t0_s);
    }
    CHECK(wasted > 50);
    /* a 3-D convolution through the general nest: 64-bit FLOPs */
    {
        static const int32_t extent[8] = {1, 256, 19, 146, 258, 256, 3, 27};
        metatune_encode_totals t;
        int32_t l = -1;
        metatune_encode_nest_clear(&nest);
        for (i = 0; i < 8; i++) {
            metatune_encode_axis_add(&nest, i == 6 ? 1 : extent[i], i > 4);
            l = metatune_encode_loop_add(&nest, l, i, 1,
                                         i == 6 ? 1 : extent[i], 0, i + 1);
        }
        metatune_encode_stmt_add(&nest, l, METATUNE_STMT_FMA, 9, 1, NULL, 0);
        CHECK(metatune_encode_totals_derive(&nest, NULL, &t) == METATUNE_OK);
        CHECK_NEAR(t.flop, 2532793909248.0, 0);
        /* no arithmetic at all: FLOP 0 is no error, t0 stays positive */
        metatune_encode_nest_rewind(&nest);
        CHECK(metatune_encode_totals_derive(&nest, NULL, &t) == METATUNE_OK);
        CHECK_NEAR(t.flop, 0, 0);
        CHECK(t.t0_s > 0 && t.waste >= 1 && t.imbalance >= 1);
    }
    free(mem);
}

/* i, j, k of 64 with A float, B 2 bytes, C 8 bytes. Footprints: k loop 256 +
   128 + 8, j loop 256 + 8192 + 512, all 16384 + 8192 + 32768. */
static void test_totals_by_hand(void)
{
    nest_t nest;
    metatune_encode_device d;
    metatune_encode_totals t;
    tile tiles[MAX_TILES];
    rng_t rng;
    int32_t l = -1, i, all[3] = {0, 1, 2};
    void *mem = nest_new(&nest, NULL);
    memset(&d, 0, sizeof d);
    d.size = sizeof d;
    d.cores = 1;
    d.lanes = 1;
    d.l1_bytes = 2048; /* three quarters hold the k loop */
    d.l2_bytes = 16384; /* and the j loop */
    d.l3_bytes = 1e6;
    d.freq_hz = 1e9;
    d.bandwidth = 1e12;
    matmul_axes(&nest, 64, 64, 64);
    for (i = 0; i < 3; i++)
        l = metatune_encode_loop_add(&nest, l, i, 1, 64, 0, i + 1);
    metatune_encode_stmt_add(&nest, l, METATUNE_STMT_FMA, 4, 1, all, 3);
    CHECK(metatune_encode_totals_derive(&nest, &d, &t) == METATUNE_OK);
    CHECK_NEAR(t.flop, 524288, 0);
    CHECK_NEAR(t.bytes_min, 57344, 0);
    /* j does not move A's row; every (i, j) loads a column of B */
    CHECK_NEAR(t.bytes_l1, 64 * 256 + 4096 * 128 + 4096 * 8, 0);
    CHECK_NEAR(t.bytes_l2, 64 * 256 + 8192 + 64 * 512, 0);
    CHECK_NEAR(t.bytes_l3, 57344, 0);
    CHECK_NEAR(t.foot_inner, 8960, 0);
    CHECK_NEAR(t.accumulators, 1, 0);
    CHECK_NEAR(t.unrolled, 1, 0);
    CHECK_NEAR(t.t0_s, 262144 * 4 / 1e9, 1e-12); /* latency of one sum */
    d.bandwidth = 1e6;
    CHECK(metatune_encode_totals_derive(&nest, &d, &t) == METATUNE_OK);
    CHECK_NEAR(t.t0_s, 0.057344, 1e-9);

    /* unrolled 4 x 2 around the sum: 8 accumulators, the latency is hidden */
    d.bandwidth = 1e12;
    metatune_encode_nest_rewind(&nest);
    l = metatune_encode_loop_add(&nest, -1, 0, 4, 16, 0, 1);
    l = metatune_encode_loop_add(&nest, l, 1, 2, 32, 0, 2);
    l = metatune_encode_loop_add(&nest, l, 2, 2, 32, 0, 3);
    l = metatune_encode_loop_add(&nest, l, 2, 1, 2, METATUNE_LOOP_UNROLL, 4);
    l = metatune_encode_loop_add(&nest, l, 0, 1, 4, METATUNE_LOOP_UNROLL, 5);
    l = metatune_encode_loop_add(&nest, l, 1, 1, 2, METATUNE_LOOP_UNROLL, 6);
    metatune_encode_stmt_add(&nest, l, METATUNE_STMT_FMA, 7, 1, all, 3);
    CHECK(metatune_encode_totals_derive(&nest, &d, &t) == METATUNE_OK);
    CHECK_NEAR(t.flop, 524288, 0);
    CHECK_NEAR(t.accumulators, 8, 0);
    CHECK_NEAR(t.unrolled, 16, 0);
    CHECK_NEAR(t.t0_s, 262144 * 0.5 / 1e9, 1e-12);

    /* statements at several depths: each tensor's largest access counts */
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 21);
    for (i = 0; i < 100; i++) {
        metatune_encode_access a;
        double sum = 0;
        int32_t n;
        matmul_axes(&nest, pick(&rng, 1, 50), pick(&rng, 1, 50),
                    pick(&rng, 1, 50));
        n = tiles_make(&rng, &nest, 3, 8, 0, tiles);
        tiles_order(&rng, tiles, n, 1);
        tiles_emit(&rng, &nest, tiles, n, 0);
        stmts_emit(&rng, &nest, 40, 1);
        CHECK(metatune_encode_totals_derive(&nest, &d, &t) == METATUNE_OK);
        for (l = 0; l < 3; l++) {
            metatune_encode_access_derive(&nest, -1, l, &a);
            sum += a.bytes;
        }
        CHECK_NEAR(t.bytes_min, sum, 1e-6 * sum);
    }
    free(mem);
}

/* -------------------------------------------------------------- topology */

typedef struct edges {
    int32_t n;
    unsigned char m[64][64];
} edges;

/* The CSR as a matrix; checks symmetry, self-loops and duplicates. */
static void edges_get(int32_t n, const uint16_t *row, const uint16_t *col,
                      edges *e)
{
    int32_t v, i;
    memset(e, 0, sizeof *e);
    CHECK(n <= 64 && row[0] == 0);
    for (v = 0; v < n; v++) {
        CHECK(row[v] <= row[v + 1]);
        for (i = row[v]; i < row[v + 1]; i++) {
            CHECK(col[i] < n && col[i] != v);
            if (col[i] < n) {
                CHECK(!e->m[v][col[i]]);
                e->m[v][col[i]] = 1;
                e->n++;
            }
        }
    }
    for (v = 0; v < n; v++)
        for (i = 0; i < n; i++)
            CHECK(e->m[v][i] == e->m[i][v]);
}

static void edges_expect(const edges *e, const int (*want)[2], int n)
{
    int i;
    CHECK_INT(e->n, 2 * n);
    for (i = 0; i < n; i++)
        if (!e->m[want[i][0]][want[i][1]]) {
            FAULT("edge is missing");
            printf("        %d - %d\n", want[i][0], want[i][1]);
        }
}

static void test_edges_by_hand(void)
{
    /* items: 0 root, 1 i, 2 k outer, 3 k inner, 4 load B, 5 fma, 6 store C,
       7 copy of B below 2 */
    static const int first[][2] = {
        {0, 1}, {1, 2}, {2, 3}, {3, 4}, {3, 5}, {1, 6}, {2, 7}, /* nest */
        {2, 4}, {1, 5}, {2, 5},                                 /* touch */
        {4, 5}, {5, 6}, {7, 4}};                                /* feeds */
    /* 0 root, 1 i outer, 2 k, 3 i inner, 4 load A, 5 load A, 6 add, 7 mul,
       8 store; 6 and 7 touch nothing */
    static const int second[][2] = {
        {0, 1}, {1, 2}, {2, 3}, {3, 4}, {3, 5}, {3, 6}, {3, 7}, {3, 8},
        {1, 3},                 /* same axis */
        {1, 4}, {1, 5}, {1, 8}, /* touch; A has only i */
        {4, 6}, {5, 6},         /* loads feed the next arithmetic only */
        {7, 8}};                /* the last arithmetic feeds the store */
    /* two kernels over one axis: loop 1 with 3 fma, 4 store; loop 2 with
       5 load, 6 fma.
       Neither loop touches the other's statements, nor is it split with it;
       the first's load-free sum feeds the store, the load the second sum */
    static const int third[][2] = {{0, 1}, {1, 3}, {1, 4}, {0, 2},
                                   {2, 5}, {2, 6}, {3, 4}, {5, 6}};
    nest_t nest;
    metatune_encode_graph graph;
    edges e;
    int32_t t[3] = {0, 1, 2}, i, j, k;
    void *mem = nest_new(&nest, NULL), *gmem = graph_new(&graph, NULL);
    metatune_encode_axis_add(&nest, 10, 0);
    metatune_encode_axis_add(&nest, 12, 1);
    for (i = 0; i < 3; i++) {
        metatune_encode_tensor_add(&nest, 4, 0, i);
        metatune_encode_dim_add(&nest, i, 12, 0);
        metatune_encode_term_add(&nest, i, i == 1, 1);
    }
    i = metatune_encode_loop_add(&nest, -1, 0, 1, 10, 0, 1);
    j = metatune_encode_loop_add(&nest, i, 1, 4, 3, 0, 2);
    k = metatune_encode_loop_add(&nest, j, 1, 1, 4, 0, 3);
    metatune_encode_stmt_add(&nest, k, METATUNE_STMT_LOAD, 4, 1, t + 1, 1);
    metatune_encode_stmt_add(&nest, k, METATUNE_STMT_FMA, 5, 1, t, 3);
    metatune_encode_stmt_add(&nest, i, METATUNE_STMT_STORE, 6, 1, t + 2, 1);
    metatune_encode_copy_add(&nest, j, 1, METATUNE_SCOPE_LOCAL, 7);
    CHECK(metatune_encode_graph_fill(&graph, &nest, NULL, NULL) ==
          METATUNE_OK);
    CHECK_INT(graph.n_nodes, 8);
    CHECK_INT(graph.skeleton, -1);
    edges_get(8, graph.row, graph.col, &e);
    edges_expect(&e, first, 13);

    metatune_encode_nest_rewind(&nest);
    i = metatune_encode_loop_add(&nest, -1, 0, 4, 3, 0, 1);
    j = metatune_encode_loop_add(&nest, i, 1, 1, 12, 0, 2);
    k = metatune_encode_loop_add(&nest, j, 0, 1, 4, 0, 3);
    metatune_encode_stmt_add(&nest, k, METATUNE_STMT_LOAD, 4, 1, t, 1);
    metatune_encode_stmt_add(&nest, k, METATUNE_STMT_LOAD, 5, 1, t, 1);
    metatune_encode_stmt_add(&nest, k, METATUNE_STMT_ARITH, 6, 1, t, 0);
    metatune_encode_stmt_add(&nest, k, METATUNE_STMT_ARITH, 7, 1, t, 0);
    metatune_encode_stmt_add(&nest, k, METATUNE_STMT_STORE, 8, 1, t, 1);
    CHECK(metatune_encode_graph_fill(&graph, &nest, NULL, NULL) ==
          METATUNE_OK);
    edges_get(9, graph.row, graph.col, &e);
    edges_expect(&e, second, 15);

    /* and the features of that one, by hand */
    {
        const metatune_real *x = graph.x + 3 * METATUNE_ENCODE_NODE_FEATURES;
        CHECK_NEAR(x[0], 1, 0);
        CHECK_NEAR(x[1], 0.5, 1e-6);                /* log2 4 / 4 */
        CHECK_NEAR(x[2], 0, 0);                     /* step 1 */
        CHECK_NEAR(x[3], 0.5, 1e-6);                /* depth 3 / 6 */
        CHECK_NEAR(x[4], log2(3 * 12 * 4.0) / 10, 1e-6);
        CHECK_NEAR(x[5], log2(4.0) / 10, 1e-6);
        CHECK_NEAR(x[7], 0, 0);
        CHECK_NEAR(x[9], 1, 0);
        CHECK_NEAR(x[19], log2(16.0) / 10, 1e-6);   /* 4 floats of A */
        CHECK_NEAR(x[20], log2(3.0) / 8, 1e-6);     /* 3 statements */
        CHECK_NEAR(x[21], log2(2.0) / 8, 1e-6);     /* stride 1 */
        CHECK_NEAR(graph.x[5], log2(144.0) / 10, 1e-6);
        CHECK_NEAR(graph.x[8], 1, 0);
        x = graph.x + METATUNE_ENCODE_NODE_FEATURES; /* 3 * 4 over 10 */
        CHECK_NEAR(x[7], 2 * log2(1.2), 1e-6);
        CHECK_NEAR(x[2], 0.5, 1e-6);
        CHECK_NEAR(x[19], log2(40.0) / 10, 1e-6);
        x = graph.x + 2 * METATUNE_ENCODE_NODE_FEATURES;
        CHECK_NEAR(x[6], 1, 0); /* reduction */
        CHECK_NEAR(x[21], 0, 0); /* k does not move A */
    }

    metatune_encode_nest_rewind(&nest);
    i = metatune_encode_loop_add(&nest, -1, 0, 1, 10, 0, 1);
    j = metatune_encode_loop_add(&nest, -1, 0, 1, 10, 0, 2);
    metatune_encode_stmt_add(&nest, i, METATUNE_STMT_FMA, 3, 1, t, 1);
    metatune_encode_stmt_add(&nest, i, METATUNE_STMT_STORE, 4, 1, t, 1);
    metatune_encode_stmt_add(&nest, j, METATUNE_STMT_LOAD, 5, 1, t, 1);
    metatune_encode_stmt_add(&nest, j, METATUNE_STMT_FMA, 6, 1, t, 1);
    CHECK(metatune_encode_graph_fill(&graph, &nest, NULL, NULL) ==
          METATUNE_OK);
    edges_get(7, graph.row, graph.col, &e);
    edges_expect(&e, third, 8);
    free(mem);
    free(gmem);
}

/* The canonical nest of a test family: two loops an axis, load, load, fma,
   store, a copy: slots 1..6, 7..10, 11. */
static void canonical(nest_t *nest)
{
    int32_t a, l = -1, t[3] = {0, 1, 2}, in;
    matmul_axes(nest, 16, 16, 16);
    for (in = 0; in < 2; in++)
        for (a = 0; a < 3; a++)
            l = metatune_encode_loop_add(nest, l, a, in ? 1 : 4, 4, 0,
                                         1 + 3 * in + a);
    metatune_encode_stmt_add(nest, l, METATUNE_STMT_LOAD, 7, 1, t, 1);
    metatune_encode_stmt_add(nest, l, METATUNE_STMT_LOAD, 8, 1, t + 1, 1);
    metatune_encode_stmt_add(nest, l, METATUNE_STMT_FMA, 9, 1, t, 3);
    metatune_encode_stmt_add(nest, l, METATUNE_STMT_STORE, 10, 1, t + 2, 1);
    metatune_encode_copy_add(nest, 2, 1, METATUNE_SCOPE_LOCAL, 11);
}

static void test_skeleton(void)
{
    nest_t nest;
    metatune_encode_skeleton skeleton;
    metatune_encode_graph graph;
    edges e;
    rng_t rng;
    void *mem = nest_new(&nest, NULL), *gmem = graph_new(&graph, NULL);
    void *smem = skeleton_new(&skeleton, NULL);
    int i, masked = 0, full = 0;
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 30);
    canonical(&nest);
    CHECK_INT(metatune_encode_skeleton_build(&skeleton, &nest), METATUNE_OK);
    CHECK_INT(skeleton.n_nodes, 12);
    edges_get(12, skeleton.row, skeleton.col, &e);
    CHECK_INT(e.n, skeleton.n_edges);
    for (i = 0; i < 500; i++) {
        int32_t order[6] = {1, 2, 3, 4, 5, 6}, a, j, l = -1, v, f;
        int32_t ext[3], tile3[3], t[3] = {0, 1, 2}, there[12] = {0};
        for (a = 0; a < 3; a++) {
            ext[a] = pick(&rng, 1, 300);
            tile3[a] = pick(&rng, 1, ext[a]);
        }
        matmul_axes(&nest, ext[0], ext[1], ext[2]);
        nest.skeleton = 7;
        for (a = 5; a > 0; a--) {
            int32_t swap = order[a];
            j = pick(&rng, 0, a);
            order[a] = order[j];
            order[j] = swap;
        }
        there[0] = there[7] = there[8] = there[9] = there[10] = 1;
        for (j = 0; j < 6; j++) {
            int32_t slot = order[j], inner = slot > 3;
            a = (slot - 1) % 3;
            if (pick(&rng, 0, 5) == 0)
                continue;
            there[slot] = 1;
            l = metatune_encode_loop_add(
                &nest, l, a, inner ? 1 : tile3[a],
                inner ? tile3[a] : (ext[a] + tile3[a] - 1) / tile3[a],
                pick(&rng, 0, 6), slot);
        }
        metatune_encode_stmt_add(&nest, l, METATUNE_STMT_LOAD, 7, 1, t, 1);
        metatune_encode_stmt_add(&nest, l, METATUNE_STMT_LOAD, 8, 1, t + 1,
                                 1);
        metatune_encode_stmt_add(&nest, l, METATUNE_STMT_FMA, 9, 1, t, 3);
        metatune_encode_stmt_add(&nest, pick(&rng, -1, l),
                                 METATUNE_STMT_STORE, 10, 1, t + 2, 1);
        if (pick(&rng, 0, 1)) {
            there[11] = 1;
            metatune_encode_copy_add(&nest, pick(&rng, -1, l), 1,
                                     METATUNE_SCOPE_LOCAL, 11);
        }
        CHECK_INT(metatune_encode_graph_fill(&graph, &nest, &skeleton, NULL),
                  METATUNE_OK);
        CHECK_INT(graph.n_nodes, 12);
        CHECK_INT(graph.skeleton, 7);
        CHECK(graph.row == skeleton.row && graph.col == skeleton.col);
        full += nest.n_loops == 6 && there[11];
        for (v = 0; v < 12; v++) {
            const metatune_real *x =
                graph.x + v * METATUNE_ENCODE_NODE_FEATURES;
            CHECK_INT(graph.present[v], there[v]);
            CHECK_NEAR(x[0], there[v], 0);
            for (f = 0; f < METATUNE_ENCODE_NODE_FEATURES; f++) {
                CHECK(finite_is((double)x[f]));
                if (!there[v])
                    CHECK_NEAR(x[f], 0, 0);
            }
            masked += !there[v];
        }
    }
    CHECK(masked > 100 && full > 20);

    /* refusals of the setting */
    canonical(&nest);
    nest.loop[3].slot = 12; /* beyond the skeleton */
    CHECK_INT(metatune_encode_graph_fill(&graph, &nest, &skeleton, NULL),
              METATUNE_BAD_NEST);
    nest.loop[3].slot = 5; /* used twice */
    CHECK_INT(metatune_encode_graph_fill(&graph, &nest, &skeleton, NULL),
              METATUNE_BAD_NEST);
    nest.loop[3].slot = 0; /* the root's */
    CHECK_INT(metatune_encode_graph_fill(&graph, &nest, &skeleton, NULL),
              METATUNE_BAD_NEST);
    nest.loop[3].slot = BIG;
    CHECK_INT(metatune_encode_graph_fill(&graph, &nest, &skeleton, NULL),
              METATUNE_BAD_NEST);
    /* and of the declaration */
    CHECK_INT(metatune_encode_skeleton_build(&skeleton, &nest),
              METATUNE_BAD_NEST);
    nest.loop[3].slot = 5; /* 4 is missing, 5 is there twice */
    CHECK_INT(metatune_encode_skeleton_build(&skeleton, &nest),
              METATUNE_BAD_NEST);
    nest.loop[3].slot = 12; /* 4 is missing */
    CHECK_INT(metatune_encode_skeleton_build(&skeleton, &nest),
              METATUNE_BAD_NEST);
    canonical(&nest);
    nest.status = METATUNE_CAPACITY;
    CHECK_INT(metatune_encode_skeleton_build(&skeleton, &nest),
              METATUNE_CAPACITY);
    free(smem);
    free(gmem);
    {
        metatune_encode_config cfg;
        memset(&cfg, 0, sizeof cfg);
        canonical(&nest);
        cfg.cap_nodes = 11; /* one too few */
        smem = skeleton_new(&skeleton, &cfg);
        gmem = graph_new(&graph, &cfg);
        CHECK_INT(metatune_encode_skeleton_build(&skeleton, &nest),
                  METATUNE_CAPACITY);
        CHECK_INT(metatune_encode_graph_fill(&graph, &nest, NULL, NULL),
                  METATUNE_CAPACITY);
        free(smem);
        free(gmem);
        cfg.cap_nodes = 12;
        cfg.cap_edges = e.n - 1;
        smem = skeleton_new(&skeleton, &cfg);
        gmem = graph_new(&graph, &cfg);
        CHECK_INT(metatune_encode_skeleton_build(&skeleton, &nest),
                  METATUNE_CAPACITY);
        CHECK_INT(metatune_encode_graph_fill(&graph, &nest, NULL, NULL),
                  METATUNE_CAPACITY);
        free(smem);
        free(gmem);
        cfg.cap_edges = e.n;
        smem = skeleton_new(&skeleton, &cfg);
        gmem = graph_new(&graph, &cfg);
        CHECK_INT(metatune_encode_skeleton_build(&skeleton, &nest),
                  METATUNE_OK);
        CHECK_INT(metatune_encode_graph_fill(&graph, &nest, NULL, NULL),
                  METATUNE_OK);
    }
    free(smem);
    free(gmem);
    free(mem);
}

/* With every slot present the two modes differ by the numbering alone. */
static void test_plain_agrees(void)
{
    nest_t nest;
    metatune_encode_skeleton skeleton;
    metatune_encode_graph plain, slots;
    tile tiles[MAX_TILES];
    edges ep, es;
    rng_t rng;
    void *mem = nest_new(&nest, NULL), *pmem = graph_new(&plain, NULL);
    void *gmem = graph_new(&slots, NULL), *smem;
    int i;
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 31);
    smem = skeleton_new(&skeleton, NULL);
    for (i = 0; i < 100; i++) {
        int32_t slot[64], n, j, k, items;
        metatune_encode_device d = device_random(&rng);
        conv_t v = conv_random(&rng, 20);
        metatune_encode_conv2d_begin(&nest, &v);
        n = tiles_make(&rng, &nest, 3, 16, 0, tiles);
        tiles_order(&rng, tiles, n, 1);
        tiles_emit(&rng, &nest, tiles, n, 0);
        stmts_emit(&rng, &nest, 40, 1);
        metatune_encode_copy_add(&nest, n / 2 - 1, 0, 1, 60);
        metatune_encode_copy_add(&nest, n / 2 - 1, 1, 1, 61);
        items = 1 + n + 4 + 2;
        for (j = 0; j < items; j++)
            slot[j] = j;
        for (j = items - 1; j > 1; j--) {
            int32_t at = pick(&rng, 1, j), swap = slot[j];
            slot[j] = slot[at];
            slot[at] = swap;
        }
        for (j = 0; j < n; j++)
            nest.loop[j].slot = slot[1 + j];
        for (j = 0; j < 4; j++)
            nest.stmt[j].slot = slot[1 + n + j];
        for (j = 0; j < 2; j++)
            nest.copy[j].slot = slot[1 + n + 4 + j];
        CHECK(metatune_encode_skeleton_build(&skeleton, &nest) ==
              METATUNE_OK);
        CHECK(metatune_encode_graph_fill(&plain, &nest, NULL, &d) ==
              METATUNE_OK);
        CHECK(metatune_encode_graph_fill(&slots, &nest, &skeleton, &d) ==
              METATUNE_OK);
        CHECK_INT(plain.n_nodes, items);
        CHECK_INT(slots.n_nodes, items);
        edges_get(items, plain.row, plain.col, &ep);
        edges_get(items, slots.row, slots.col, &es);
        CHECK_INT(ep.n, es.n);
        for (j = 0; j < items; j++) {
            CHECK(memcmp(plain.x + j * METATUNE_ENCODE_NODE_FEATURES,
                         slots.x + slot[j] * METATUNE_ENCODE_NODE_FEATURES,
                         METATUNE_ENCODE_NODE_FEATURES *
                             sizeof(metatune_real)) == 0);
            CHECK(plain.present[j] == 1 && slots.present[j] == 1);
            for (k = 0; k < items; k++)
                CHECK(ep.m[j][k] == es.m[slot[j]][slot[k]]);
        }
        CHECK(memcmp(plain.global_row, slots.global_row,
                     sizeof plain.global_row) == 0);
        CHECK(memcmp(plain.device_row, slots.device_row,
                     sizeof plain.device_row) == 0);
        CHECK(same_double(plain.t0_s, slots.t0_s) && plain.t0_s > 0);
    }
    free(mem);
    free(pmem);
    free(gmem);
    free(smem);
}

/* -------------------------------------------------------------- features */

typedef struct range {
    double lo[METATUNE_ENCODE_NODE_FEATURES + METATUNE_ENCODE_GLOBAL_FEATURES];
    double hi[METATUNE_ENCODE_NODE_FEATURES + METATUNE_ENCODE_GLOBAL_FEATURES];
    /* of all values, and of those near the cut of 4 */
    double n[METATUNE_ENCODE_NODE_FEATURES + METATUNE_ENCODE_GLOBAL_FEATURES];
    double far[METATUNE_ENCODE_NODE_FEATURES + METATUNE_ENCODE_GLOBAL_FEATURES];
} range;

static void range_add(range *r, int column, double x)
{
    CHECK(finite_is(x));
    if (x < r->lo[column])
        r->lo[column] = x;
    if (x > r->hi[column])
        r->hi[column] = x;
    r->n[column]++;
    r->far[column] += fabs(x) > 3;
}

static void graph_range(const metatune_encode_graph *g, range *r)
{
    int32_t v, f;
    for (v = 0; v < g->n_nodes; v++)
        for (f = 0; f < METATUNE_ENCODE_NODE_FEATURES; f++)
            range_add(r, f,
                      (double)g->x[v * METATUNE_ENCODE_NODE_FEATURES + f]);
    for (f = 0; f < METATUNE_ENCODE_GLOBAL_FEATURES; f++)
        range_add(r, METATUNE_ENCODE_NODE_FEATURES + f,
                  (double)g->global_row[f]);
}

/* Encode a layer with some random tilings; refills must be bit-identical. */
static void layer_encode(rng_t *rng, nest_t *nest,
                         metatune_encode_graph *graph, const conv_t *v,
                         int rounds, range *r)
{
    tile tiles[MAX_TILES];
    metatune_real x[64 * METATUNE_ENCODE_NODE_FEATURES];
    metatune_real g[METATUNE_ENCODE_GLOBAL_FEATURES];
    double t0;
    while (rounds--) {
        metatune_encode_device d = device_random(rng);
        size_t bytes;
        int32_t n;
        CHECK(metatune_encode_conv2d_begin(nest, v) == METATUNE_OK);
        n = tiles_make(rng, nest, 3, 16, 0, tiles);
        tiles_order(rng, tiles, n, 1);
        tiles_sensible(tiles, n);
        tiles_emit(rng, nest, tiles, n, 1);
        stmts_emit(rng, nest, 40, 0);
        CHECK(metatune_encode_graph_fill(graph, nest, NULL,
                                         rounds % 2 ? &d : NULL) ==
              METATUNE_OK);
        CHECK(graph->t0_s > 0 && finite_is(graph->t0_s));
        graph_range(graph, r);
        bytes = (size_t)graph->n_nodes * METATUNE_ENCODE_NODE_FEATURES *
                sizeof *x;
        memcpy(x, graph->x, bytes);
        memcpy(g, graph->global_row, sizeof g);
        t0 = graph->t0_s;
        memset(graph->x, 0x5a, bytes);
        CHECK(metatune_encode_graph_fill(graph, nest, NULL,
                                         rounds % 2 ? &d : NULL) ==
              METATUNE_OK);
        CHECK(memcmp(x, graph->x, bytes) == 0);
        CHECK(memcmp(g, graph->global_row, sizeof g) == 0);
        CHECK(same_double(t0, graph->t0_s));
    }
}

static void range_report(const range *r)
{
    int f;
    double lo = 0, hi = 0;
    int at_lo = 0, at_hi = 0;
    for (f = 0; f < METATUNE_ENCODE_NODE_FEATURES +
                        METATUNE_ENCODE_GLOBAL_FEATURES; f++) {
        if (r->lo[f] < lo) {
            lo = r->lo[f];
            at_lo = f;
        }
        if (r->hi[f] > hi) {
            hi = r->hi[f];
            at_hi = f;
        }
        if (getenv("METATUNE_VERBOSE"))
            printf("    %s %2d  %6.2f %6.2f  beyond 3: %.4f\n",
                   f < METATUNE_ENCODE_NODE_FEATURES ? "node" : "global",
                   f < METATUNE_ENCODE_NODE_FEATURES
                       ? f
                       : f - METATUNE_ENCODE_NODE_FEATURES,
                   r->lo[f], r->hi[f], r->far[f] / r->n[f]);
        CHECK(r->far[f] <= 0.1 * r->n[f]);
    }
    printf("    features in [%.2f (%d), %.2f (%d)]\n", lo, at_lo, hi, at_hi);
    CHECK(lo >= -4 && hi <= 4);
}

/* Split a CSV line in place; returns the number of fields. */
static int csv_split(char *line, char **field, int max)
{
    int n = 0;
    line[strcspn(line, "\r\n")] = 0;
    while (n < max) {
        field[n++] = line;
        line = strchr(line, ',');
        if (!line)
            break;
        *line++ = 0;
    }
    return n;
}

static int csv_layers(const char *name, rng_t *rng, nest_t *nest,
                      metatune_encode_graph *graph, range *r)
{
    static const char *const want[] = {"n", "c", "h", "w", "k", "kh", "kw",
                                       "sh", "sw", "ph", "pw", "groups",
                                       "oh", "ow", "flops"};
    const char *dir = getenv("METATUNE_SHARED");
    char path[1024], line[1024], *field[32];
    int at[15], i, j, n, layers = 0;
    FILE *f;
    if (!dir || !*dir)
        dir = "../shared";
    if (strlen(dir) + strlen(name) + 16 > sizeof path)
        return 0;
    sprintf(path, "%s/data/shapes/%s", dir, name);
    f = fopen(path, "r");
    if (!f)
        return 0;
    for (i = 0; i < 15; i++)
        at[i] = -1;
    if (fgets(line, sizeof line, f)) {
        n = csv_split(line, field, 32);
        for (i = 0; i < 15; i++)
            for (j = 0; j < n; j++)
                if (!strcmp(field[j], want[i]))
                    at[i] = j;
    }
    while (fgets(line, sizeof line, f)) {
        double x[15];
        conv_t v;
        n = csv_split(line, field, 32);
        for (i = 0; i < 15; i++)
            x[i] = at[i] >= 0 && at[i] < n ? strtod(field[at[i]], NULL) : -1;
        if (n < 11 || x[10] < 0)
            continue;
        v = metatune_encode_conv2d_make((int32_t)x[0], (int32_t)x[1],
                                        (int32_t)x[2], (int32_t)x[3],
                                        (int32_t)x[4], (int32_t)x[5],
                                        (int32_t)x[6], 1, 0);
        v.stride_h = (int32_t)x[7];
        v.stride_w = (int32_t)x[8];
        v.pad_top = v.pad_bottom = (int32_t)x[9];
        v.pad_left = v.pad_right = (int32_t)x[10];
        v.groups = x[11] > 0 ? (int32_t)x[11] : 1;
        CHECK(metatune_encode_conv2d_check(&v, NULL) == METATUNE_OK);
        if (x[12] > 0) { /* the table's own output size and FLOPs */
            CHECK_NEAR(metatune_encode_conv2d_out_h(&v), x[12], 0);
            CHECK_NEAR(metatune_encode_conv2d_out_w(&v), x[13], 0);
            CHECK_NEAR(metatune_encode_conv2d_flop(&v), x[14], 0);
        }
        layer_encode(rng, nest, graph, &v, 8, r);
        layers++;
    }
    fclose(f);
    return layers;
}

static void test_features_layers(void)
{
    nest_t nest;
    metatune_encode_graph graph;
    range r;
    rng_t rng;
    int a, b;
    void *mem = nest_new(&nest, NULL), *gmem = graph_new(&graph, NULL);
    printf("    seed %u\n", SEED);
    memset(&r, 0, sizeof r);
    metatune_encode_rng_init(&rng, SEED, 40);
    a = csv_layers("conv_shapes.csv", &rng, &nest, &graph, &r);
    b = csv_layers("deepbench_conv.csv", &rng, &nest, &graph, &r);
    if (a + b > 0) {
        printf("    %d + %d layers\n", a, b);
        range_report(&r);
    }
    free(mem);
    free(gmem);
    if (a + b == 0)
        SKIP("no shapes/*.csv under METATUNE_SHARED");
}

/* ---------------------------------------------------------------- device */

static void test_device_row(void)
{
    static const size_t field_at[] = {
        offsetof(metatune_encode_device, cores),
        offsetof(metatune_encode_device, lanes),
        offsetof(metatune_encode_device, vregs),
        offsetof(metatune_encode_device, l1_bytes),
        offsetof(metatune_encode_device, l2_bytes),
        offsetof(metatune_encode_device, l3_bytes),
        offsetof(metatune_encode_device, bandwidth),
        offsetof(metatune_encode_device, freq_hz)};
    metatune_encode_device d;
    metatune_real full[METATUNE_ENCODE_DEVICE_FEATURES];
    metatune_real row[METATUNE_ENCODE_DEVICE_FEATURES];
    size_t n;
    int i;
    memset(&d, 0, sizeof d);
    d.size = sizeof d;
    d.cores = 8;
    d.lanes = 16;
    d.vregs = 32;
    d.l1_bytes = 65536;
    d.l2_bytes = 2097152;
    d.l3_bytes = 67108864;
    d.bandwidth = 1e11;
    d.freq_hz = 3e9;
    for (i = 0; i < METATUNE_ENCODE_PROBES; i++)
        d.probe[i] = 0.25 * (i + 1);
    metatune_encode_device_row(&d, full);
    for (i = 0; i < METATUNE_ENCODE_DEVICE_FEATURES; i++)
        CHECK(fabs((double)full[i]) > 1e-3 && fabs((double)full[i]) < 4);
    CHECK_NEAR(full[0], 1, 1e-6);
    CHECK_NEAR(full[10], 0.375, 1e-6);
    /* a struct that ends early; the block is that short, too */
    for (n = sizeof d.size; n <= sizeof d; n += 4) {
        metatune_encode_device *cut = (metatune_encode_device *)block_new(n);
        d.size = (uint32_t)n;
        memcpy(cut, &d, n);
        metatune_encode_device_row(cut, row);
        for (i = 0; i < METATUNE_ENCODE_DEVICE_FEATURES; i++) {
            size_t at = i < 8 ? field_at[i]
                              : offsetof(metatune_encode_device, probe) +
                                    (size_t)(i - 8) * sizeof(double);
            size_t end = at + (i < 3 ? 4 : 8);
            if (end <= n)
                CHECK_NEAR(row[i], full[i], 0);
            else if (at >= n)
                CHECK_NEAR(row[i], 0, 0);
        }
        free(cut);
    }
    d.size = 0;
    metatune_encode_device_row(&d, row);
    for (i = 0; i < METATUNE_ENCODE_DEVICE_FEATURES; i++)
        CHECK_NEAR(row[i], 0, 0);
    d.size = 100000; /* a newer caller's longer one */
    metatune_encode_device_row(&d, row);
    CHECK(memcmp(row, full, sizeof row) == 0);
    metatune_encode_device_row(NULL, row);
    for (i = 0; i < METATUNE_ENCODE_DEVICE_FEATURES; i++)
        CHECK_NEAR(row[i], 0, 0);
    /* nonsense stays finite, in the row and in t0 */
    {
        double bad[6];
        nest_t nest;
        void *mem = nest_new(&nest, NULL);
        size_t k;
        bad[0] = HUGE_VAL;
        bad[1] = HUGE_VAL - HUGE_VAL;
        bad[2] = -1;
        bad[3] = 1e-320;
        bad[4] = 1e300;
        bad[5] = -HUGE_VAL;
        nest_good(&nest);
        for (k = 0; k < 6; k++) {
            metatune_encode_totals t;
            d.size = sizeof d;
            d.cores = d.lanes = d.vregs = k % 2 ? -1 : BIG;
            d.l1_bytes = d.l2_bytes = d.l3_bytes = d.bandwidth = d.freq_hz =
                bad[k];
            for (i = 0; i < METATUNE_ENCODE_PROBES; i++)
                d.probe[i] = bad[k];
            metatune_encode_device_row(&d, row);
            for (i = 0; i < METATUNE_ENCODE_DEVICE_FEATURES; i++)
                CHECK(finite_is((double)row[i]));
            CHECK(metatune_encode_totals_derive(&nest, &d, &t) ==
                  METATUNE_OK);
            CHECK(t.t0_s > 0 && finite_is(t.t0_s));
        }
        free(mem);
    }
}

/* ---------------------------------------------------------------- conv2d */

/* Positions at which the dilated kernel lies inside the padded input. */
static int32_t ref_out(int32_t in, int32_t before, int32_t after,
                       int32_t kernel, int32_t dil, int32_t stride)
{
    int64_t y, n = 0, last = (int64_t)dil * (kernel - 1);
    for (y = -(int64_t)before; y + last < (int64_t)in + after; y += stride)
        n++;
    return (int32_t)n;
}

static void test_conv_table(void)
{
    /* n c h w k r s, stride h w, pad t b l r, dil h w, groups */
    static const int32_t table[][16] = {
        {1, 3, 224, 224, 64, 7, 7, 2, 2, 3, 3, 3, 3, 1, 1, 1},
        {1, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {1, 64, 56, 56, 128, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 1},
        {8, 256, 14, 14, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {1, 512, 7, 7, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 32},
        {1, 128, 56, 56, 256, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 32},
        {1, 32, 112, 112, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 32},
        {1, 32, 112, 112, 64, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 32},
        {1, 32, 112, 112, 128, 3, 3, 2, 2, 0, 1, 0, 1, 1, 1, 32},
        {1, 3, 5, 5, 9, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3},
        {1, 64, 33, 33, 64, 3, 3, 1, 1, 2, 2, 2, 2, 2, 2, 1},
        {1, 64, 33, 33, 64, 3, 3, 1, 1, 12, 12, 12, 12, 12, 12, 1},
        {1, 64, 33, 33, 64, 3, 3, 1, 1, 18, 18, 18, 18, 18, 18, 64},
        {1, 8, 20, 30, 8, 3, 5, 2, 3, 0, 1, 2, 1, 3, 2, 1},
        {1, 8, 20, 30, 8, 3, 3, 1, 1, 0, 2, 2, 0, 1, 1, 1},
        {1, 8, 20, 30, 8, 3, 3, 1, 1, 2, 0, 0, 2, 1, 1, 1},
        {1, 8, 20, 30, 8, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1},
        {1, 8, 20, 30, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {4, 8, 1, 1, 8, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1},
        {1, 16, 1, 1000, 32, 1, 9, 1, 1, 0, 0, 4, 4, 1, 1, 1},
        {1, 16, 1, 1000, 32, 1, 9, 1, 4, 0, 0, 0, 0, 1, 5, 1},
        {1, 1, 1, 16000, 64, 1, 400, 1, 160, 0, 0, 0, 0, 1, 1, 1},
        {1, 16, 1000, 1, 16, 5, 1, 2, 1, 2, 2, 0, 0, 1, 1, 16},
        {1, 4, 7, 7, 4, 7, 7, 1, 1, 0, 0, 0, 0, 1, 1, 1},
        {1, 4, 7, 7, 4, 7, 7, 1, 1, 7, 7, 7, 7, 1, 1, 1},
        {1, 4, 7, 7, 4, 3, 3, 1, 1, 3, 3, 3, 3, 1, 1, 1},
        {1, 4, 9, 9, 4, 2, 2, 3, 3, 0, 0, 0, 0, 1, 1, 1},
        {1, 4, 9, 9, 4, 1, 1, 5, 4, 0, 0, 0, 0, 1, 1, 1},
        {1, 4, 9, 9, 4, 3, 3, 9, 9, 0, 0, 0, 0, 1, 1, 2},
        {1, 4, 9, 9, 4, 3, 3, 100, 100, 0, 0, 0, 0, 1, 1, 4},
        {1, 4, 2, 2, 4, 3, 3, 1, 1, 1, 0, 0, 1, 1, 1, 1},
        {1, 4, 1, 1, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {16, 1, 28, 28, 1, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1},
        {1, 7, 13, 229, 11, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {1, 1009, 3, 3, 2, 3, 3, 1, 1, 0, 0, 0, 0, 1, 1, 1},
        {1, 6, 8, 8, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 2},
        {1, 4, 8, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 2},
        {1, 12, 17, 17, 12, 5, 5, 2, 1, 4, 3, 2, 1, 2, 3, 3},
        {32, 1024, 512, 512, 1024, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {1024, 4096, 4096, 4096, 4096, 11, 11, 1, 1, 5, 5, 5, 5, 1, 1, 1},
        {1, 1, 65537, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1},
        {1, 1, 1, 1000003, 1, 1, 3, 1, 2, 0, 0, 1, 1, 1, 1, 1},
        {1, 3, 299, 299, 32, 3, 3, 2, 2, 0, 0, 0, 0, 1, 1, 1},
        {1, 768, 17, 17, 192, 1, 7, 1, 1, 0, 0, 3, 3, 1, 1, 1},
        {1, 768, 17, 17, 192, 7, 1, 1, 1, 3, 3, 0, 0, 1, 1, 1}};
    nest_t nest;
    metatune_encode_graph graph;
    range r;
    rng_t rng;
    size_t i, n = sizeof table / sizeof table[0];
    void *mem = nest_new(&nest, NULL), *gmem = graph_new(&graph, NULL);
    metatune_encode_rng_init(&rng, SEED, 50);
    memset(&r, 0, sizeof r);
    CHECK(n >= 40);
    for (i = 0; i < n; i++) {
        const int32_t *t = table[i];
        conv_t v = metatune_encode_conv2d_make(t[0], t[1], t[2], t[3], t[4],
                                               t[5], t[6], 1, 0);
        double flop = 0;
        int32_t oh, ow, y;
        v.stride_h = t[7];
        v.stride_w = t[8];
        v.pad_top = t[9];
        v.pad_bottom = t[10];
        v.pad_left = t[11];
        v.pad_right = t[12];
        v.dil_h = t[13];
        v.dil_w = t[14];
        v.groups = t[15];
        CHECK_INT(metatune_encode_conv2d_check(&v, NULL), METATUNE_OK);
        oh = ref_out(v.h, v.pad_top, v.pad_bottom, v.r, v.dil_h, v.stride_h);
        ow = ref_out(v.w, v.pad_left, v.pad_right, v.s, v.dil_w, v.stride_w);
        CHECK_INT(metatune_encode_conv2d_out_h(&v), oh);
        CHECK_INT(metatune_encode_conv2d_out_w(&v), ow);
        for (y = 0; y < oh; y++) /* row by row, all taps of all filters */
            flop += 2.0 * ow * ((double)t[0] * t[4]) *
                    ((double)(t[1] / t[15]) * (t[5] * t[6]));
        CHECK_NEAR(metatune_encode_conv2d_flop(&v) / flop, 1, 1e-12);
        layer_encode(&rng, &nest, &graph, &v, 4, &r);
    }
    /* 2 * 32 * 1024 * 512 * 512 * 1024 * 9: beyond 2^32 and 2^46 */
    {
        conv_t v = metatune_encode_conv2d_make(32, 1024, 512, 512, 1024, 3,
                                               3, 1, 1);
        CHECK_NEAR(metatune_encode_conv2d_flop(&v), 158329674399744.0, 0);
        v = metatune_encode_conv2d_make(1, BIG, BIG, BIG, BIG, 1, 1, 1, 0);
        CHECK_NEAR(metatune_encode_conv2d_flop(&v) / (2 * pow(2, 124)), 1,
                   1e-8);
        layer_encode(&rng, &nest, &graph, &v, 2, &r);
        /* by hand: 1x1, 3 -> 5 channels, 2 x 2 */
        v = metatune_encode_conv2d_make(1, 3, 2, 2, 5, 1, 1, 1, 0);
        CHECK_NEAR(metatune_encode_conv2d_flop(&v), 120, 0);
        v.groups = 0;
        CHECK_NEAR(metatune_encode_conv2d_flop(&v), 0, 0);
    }
    free(mem);
    free(gmem);
}

/* Dimensions, strides and extents that conv2d_begin sets up. */
static void test_conv_begin(void)
{
    nest_t nest;
    conv_t v = metatune_encode_conv2d_make(2, 12, 9, 10, 24, 3, 5, 2, 1);
    void *mem = nest_new(&nest, NULL);
    int32_t i;
    static const int32_t extent[8] = {2, 4, 6, 5, 4, 3, 3, 5};
    v.groups = 4;
    v.dtype_in = METATUNE_I8;
    v.dtype_out = METATUNE_I32;
    metatune_encode_axis_add(&nest, 0, 0); /* an old error goes */
    nest.skeleton = 9;
    CHECK_INT(metatune_encode_conv2d_begin(&nest, &v), METATUNE_OK);
    CHECK_INT(metatune_encode_nest_check(&nest), METATUNE_OK);
    CHECK_INT(nest.n_axes, 8);
    CHECK_INT(nest.n_tensors, 3);
    CHECK_INT(nest.skeleton, 0);
    for (i = 0; i < 8; i++) {
        CHECK_INT(nest.axis[i].extent, extent[i]);
        CHECK_INT(nest.axis[i].kind, i >= METATUNE_CONV_C);
    }
    CHECK_INT(nest.tensor[METATUNE_CONV_INPUT].elem_bytes, 1);
    CHECK_INT(nest.tensor[METATUNE_CONV_WEIGHT].elem_bytes, 1);
    CHECK_INT(nest.tensor[METATUNE_CONV_OUTPUT].elem_bytes, 4);
    CHECK_INT(nest.tensor[METATUNE_CONV_INPUT].dim[2].pad, 1);
    v.stride_h = 0;
    CHECK_INT(metatune_encode_conv2d_begin(&nest, &v), METATUNE_BAD_SHAPE);
    CHECK_INT(metatune_encode_conv2d_begin(&nest, NULL), METATUNE_BAD_ARG);
    CHECK_INT(metatune_encode_dtype_bytes(METATUNE_F64), 8);
    CHECK_INT(metatune_encode_dtype_bytes(-1), 0);
    CHECK_INT(metatune_encode_dtype_bytes(7), 0);
    free(mem);
}

static void bad_field(size_t at, int32_t value, metatune_status status,
                      const char *where)
{
    conv_t v = metatune_encode_conv2d_make(1, 8, 10, 10, 8, 3, 3, 1, 1);
    metatune_error e;
    char *p = (char *)&v;
    memset(&e, 0, sizeof e);
    memcpy(p + at, &value, sizeof value);
    CHECK_INT(metatune_encode_conv2d_check(&v, &e), status);
    CHECK_INT(e.status, status);
    CHECK_STR(e.where, where);
    CHECK(e.has_got && e.want && *e.want);
    CHECK_INT(e.got, value);
    CHECK_INT(metatune_encode_conv2d_check(&v, NULL), status);
}

#define FIELD(f) offsetof(metatune_encode_conv2d, f), #f

static void test_conv_check(void)
{
    static const struct {
        size_t at;
        const char *name;
    } least1[] = {{FIELD(n)}, {FIELD(c)}, {FIELD(h)}, {FIELD(w)},
                  {FIELD(k)}, {FIELD(r)}, {FIELD(s)}, {FIELD(stride_h)},
                  {FIELD(stride_w)}, {FIELD(dil_h)}, {FIELD(dil_w)},
                  {FIELD(groups)}},
      least0[] = {{FIELD(pad_top)}, {FIELD(pad_bottom)}, {FIELD(pad_left)},
                  {FIELD(pad_right)}};
    conv_t v = metatune_encode_conv2d_make(1, 8, 10, 10, 8, 3, 3, 1, 1);
    metatune_error e;
    size_t i;
    CHECK_INT(metatune_encode_conv2d_check(&v, &e), METATUNE_OK);
    for (i = 0; i < sizeof least1 / sizeof least1[0]; i++) {
        bad_field(least1[i].at, 0, METATUNE_BAD_SHAPE, least1[i].name);
        bad_field(least1[i].at, -1, METATUNE_BAD_SHAPE, least1[i].name);
        bad_field(least1[i].at, -BIG - 1, METATUNE_BAD_SHAPE,
                  least1[i].name);
    }
    for (i = 0; i < 4; i++)
        bad_field(least0[i].at, -1, METATUNE_BAD_SHAPE, least0[i].name);
    bad_field(offsetof(conv_t, groups), 3, METATUNE_BAD_SHAPE, "groups");
    bad_field(offsetof(conv_t, groups), 16, METATUNE_BAD_SHAPE, "groups");
    bad_field(offsetof(conv_t, r), 13, METATUNE_BAD_SHAPE, "r");
    bad_field(offsetof(conv_t, s), 13, METATUNE_BAD_SHAPE, "s");
    bad_field(offsetof(conv_t, r), BIG, METATUNE_BAD_SHAPE, "r");
    bad_field(offsetof(conv_t, dtype_in), 7, METATUNE_BAD_ARG, "dtype_in");
    bad_field(offsetof(conv_t, dtype_in), -1, METATUNE_BAD_ARG, "dtype_in");
    bad_field(offsetof(conv_t, dtype_out), 7, METATUNE_BAD_ARG,
              "dtype_out");
    bad_field(offsetof(conv_t, dtype_acc), 7, METATUNE_BAD_ARG,
              "dtype_acc");
    bad_field(offsetof(conv_t, fused), 8, METATUNE_BAD_ARG, "fused");
    bad_field(offsetof(conv_t, fused), -1, METATUNE_BAD_ARG, "fused");
    bad_field(offsetof(conv_t, layout), 3, METATUNE_BAD_ARG, "layout");
    bad_field(offsetof(conv_t, layout), -1, METATUNE_BAD_ARG, "layout");
    bad_field(offsetof(conv_t, block), 8, METATUNE_BAD_ARG, "block");
    bad_field(offsetof(conv_t, block), -8, METATUNE_BAD_ARG, "block");
    v.layout = METATUNE_NCHWC;
    CHECK_INT(metatune_encode_conv2d_check(&v, &e), METATUNE_BAD_ARG);
    CHECK_STR(e.where, "block");
    v.block = 8;
    CHECK_INT(metatune_encode_conv2d_check(&v, &e), METATUNE_OK);
    CHECK_INT(metatune_encode_conv2d_check(NULL, &e), METATUNE_BAD_ARG);
    /* wide products inside: no wrap, the right field */
    bad_field(offsetof(conv_t, dil_h), BIG, METATUNE_BAD_SHAPE, "dil_h");
    bad_field(offsetof(conv_t, dil_w), 6, METATUNE_BAD_SHAPE, "dil_w");
    bad_field(offsetof(conv_t, h), BIG, METATUNE_BAD_SHAPE, "h");
    v = metatune_encode_conv2d_make(1, 8, 10, 10, 8, 3, 3, 1, BIG);
    CHECK_INT(metatune_encode_conv2d_check(&v, &e), METATUNE_BAD_SHAPE);
    CHECK_STR(e.where, "h"); /* h with its padding is what does not fit */
    v.pad_top = v.pad_bottom = 0;
    CHECK_INT(metatune_encode_conv2d_check(&v, &e), METATUNE_BAD_SHAPE);
    CHECK_STR(e.where, "w");
    v = metatune_encode_conv2d_make(BIG, BIG, BIG, BIG, BIG, BIG, BIG, BIG,
                                    0);
    v.groups = BIG;
    CHECK_INT(metatune_encode_conv2d_check(&v, &e), METATUNE_OK);
    CHECK_INT(metatune_encode_conv2d_out_h(&v), 1);
}

static const size_t conv_ints[] = {
    offsetof(conv_t, n), offsetof(conv_t, c), offsetof(conv_t, h),
    offsetof(conv_t, w), offsetof(conv_t, k), offsetof(conv_t, r),
    offsetof(conv_t, s), offsetof(conv_t, stride_h),
    offsetof(conv_t, stride_w), offsetof(conv_t, pad_top),
    offsetof(conv_t, pad_bottom), offsetof(conv_t, pad_left),
    offsetof(conv_t, pad_right), offsetof(conv_t, dil_h),
    offsetof(conv_t, dil_w), offsetof(conv_t, groups),
    offsetof(conv_t, dtype_in), offsetof(conv_t, dtype_out),
    offsetof(conv_t, layout), offsetof(conv_t, block),
    offsetof(conv_t, dtype_acc), offsetof(conv_t, fused)};

static void test_conv_spec(void)
{
    conv_t v = metatune_encode_conv2d_make(1, 64, 56, 56, 64, 3, 3, 1, 1);
    conv_t back;
    metatune_error e;
    char buf[512], other[512];
    rng_t rng;
    size_t n, len, k;
    int i, changed = 0;
    const char *plain =
        "n=1,c=64,h=56,w=56,k=64,r=3,s=3,stride=1,pad=1,dil=1,groups=1";
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 51);
    CHECK_INT(metatune_encode_conv2d_spec(&v, buf, sizeof buf),
              strlen(plain));
    CHECK_STR(buf, plain);
    for (n = 0; n <= strlen(plain) + 1; n++) { /* every shorter buffer */
        char *small = (char *)block_new(n);
        CHECK_INT(metatune_encode_conv2d_spec(&v, small, n),
                  n > strlen(plain) ? strlen(plain) : 0);
        free(small);
    }
    CHECK_INT(metatune_encode_conv2d_spec(&v, NULL, 0), 0);
    v.stride_w = 2;
    v.pad_left = 0;
    v.dil_h = 3;
    v.dtype_out = METATUNE_F16;
    v.layout = METATUNE_NCHWC;
    v.block = 8;
    metatune_encode_conv2d_spec(&v, buf, sizeof buf);
    CHECK_STR(buf,
              "n=1,c=64,h=56,w=56,k=64,r=3,s=3,stride_h=1,stride_w=2,"
              "pad_top=1,pad_bottom=1,pad_left=0,pad_right=1,dil_h=3,"
              "dil_w=1,groups=1,in=f32,out=f16,layout=nchwc,block=8");
    for (i = 0; i < 1500; i++) {
        v = conv_random(&rng, i % 2 ? 4 : 1000);
        len = metatune_encode_conv2d_spec(&v, buf, sizeof buf);
        CHECK(len > 0 && len == strlen(buf));
        memset(&back, 0x7f, sizeof back);
        CHECK_INT(metatune_encode_conv2d_parse(buf, &back, &e), METATUNE_OK);
        CHECK(memcmp(&back, &v, sizeof v) == 0);
        for (k = 0; k < sizeof conv_ints / sizeof conv_ints[0]; k++) {
            int32_t x, y;
            back = v;
            memcpy(&x, (char *)&back + conv_ints[k], sizeof x);
            y = conv_ints[k] >= offsetof(conv_t, dtype_in)
                    ? pick(&rng, 0, 6)
                    : x + pick(&rng, -2, 2);
            if (x == y)
                y++;
            memcpy((char *)&back + conv_ints[k], &y, sizeof y);
            if (back.layout != v.layout)
                back.block = back.layout == METATUNE_NCHWC ? 4 : 0;
            if (metatune_encode_conv2d_check(&back, NULL))
                continue;
            changed++;
            metatune_encode_conv2d_spec(&back, other, sizeof other);
            CHECK(strcmp(buf, other) != 0);
        }
    }
    CHECK(changed > 10000);
}

static void parse_bad(const char *text, metatune_status status,
                      const char *where)
{
    conv_t v;
    metatune_error e;
    metatune_status st;
    memset(&e, 0, sizeof e);
    st = metatune_encode_conv2d_parse(text, &v, &e);
    if (st != status || e.status != status || !e.where ||
        strcmp(e.where, where) != 0)
        printf("    \"%s\"\n", text);
    CHECK_INT(st, status);
    CHECK_INT(e.status, status);
    CHECK_STR(e.where, where);
    CHECK(e.want && *e.want);
    CHECK_INT(metatune_encode_conv2d_parse(text, &v, NULL), status);
}

static void test_conv_parse(void)
{
    conv_t v, w;
    metatune_error e;
    rng_t rng;
    int i;
    CHECK_INT(metatune_encode_conv2d_parse("r=3,k=8,h=9,c=4", &v, &e),
              METATUNE_OK);
    w = metatune_encode_conv2d_make(1, 4, 9, 9, 8, 3, 3, 1, 0);
    CHECK(memcmp(&v, &w, sizeof v) == 0);
    CHECK_INT(metatune_encode_conv2d_parse(
                  "s=1,w=2,r=3,k=8,h=9,c=4,stride=2,pad=1,dil=1,groups=4,"
                  "pad_left=0,stride_w=1,layout=nhwc,in=i8,out=i32,n=5",
                  &v, &e), METATUNE_OK);
    w = metatune_encode_conv2d_make(5, 4, 9, 2, 8, 3, 1, 2, 1);
    w.groups = 4;
    w.pad_left = 0;
    w.stride_w = 1;
    w.layout = METATUNE_NHWC;
    w.dtype_in = METATUNE_I8;
    w.dtype_out = METATUNE_I32;
    CHECK(memcmp(&v, &w, sizeof v) == 0);
    CHECK_INT(metatune_encode_conv2d_parse(
                  "c=1,h=2147483647,w=1,k=1,r=1", &v, &e), METATUNE_OK);
    CHECK_INT(v.h, BIG);

    parse_bad("", METATUNE_PARSE, "c");
    parse_bad("c=4", METATUNE_PARSE, "h");
    /* a field twice, also as part of stride, pad or dil */
    parse_bad("c=4,h=9,k=8,r=3,c=5", METATUNE_PARSE, "c");
    parse_bad("c=4,h=9,k=8,r=3,stride_w=2,stride_w=1", METATUNE_PARSE,
              "stride_w");
    parse_bad("c=4,h=9,k=8,r=3,pad=2,pad=1", METATUNE_PARSE, "pad_top");
    parse_bad("c=4,h=9,k=8,r=3,pad_top=1,pad=1", METATUNE_PARSE, "pad_top");
    parse_bad("c=4,h=9,k=8,r=3,in=i8,in=i8", METATUNE_PARSE, "in");
    parse_bad("c=4,h=9,k=8,r=3,layout=nchw,layout=nhwc", METATUNE_PARSE,
              "layout");
    parse_bad("c=4,h=9,k=8,r=3,fused=0,fused=1", METATUNE_PARSE, "fused");
    parse_bad("c=4,h=9", METATUNE_PARSE, "k");
    parse_bad("c=4,h=9,k=8", METATUNE_PARSE, "r");
    parse_bad("h=9,k=8,r=3", METATUNE_PARSE, "c");
    parse_bad("c", METATUNE_PARSE, "conv spec");
    parse_bad("c=4,,h=9", METATUNE_PARSE, "conv spec");
    parse_bad(",c=4", METATUNE_PARSE, "conv spec");
    parse_bad("c=4 h=9", METATUNE_PARSE, "c");
    parse_bad("c=,h=9,k=8,r=3", METATUNE_PARSE, "c");
    parse_bad("c=4,h=x,k=8,r=3", METATUNE_PARSE, "h");
    parse_bad("c=4,h=9,k=-8,r=3", METATUNE_PARSE, "k");
    parse_bad("c=4,h=9,k=+8,r=3", METATUNE_PARSE, "k");
    parse_bad("c=4,h=9,k=8,r=3.0", METATUNE_PARSE, "r");
    parse_bad("c=4,h=9,k=0x8,r=3", METATUNE_PARSE, "k");
    parse_bad("c=4,h=2147483648,k=8,r=3", METATUNE_PARSE, "h");
    parse_bad("c=4,h=9,k=8,r=3,s=4294967297", METATUNE_PARSE, "s");
    parse_bad("c=18446744073709551617,h=9,k=8,r=3", METATUNE_PARSE, "c");
    parse_bad("c=0,h=9,k=8,r=3", METATUNE_BAD_SHAPE, "c");
    parse_bad("c=4,h=9,k=8,r=3,stride=0", METATUNE_BAD_SHAPE, "stride_h");
    parse_bad("c=4,h=9,k=8,r=3,dil=0", METATUNE_BAD_SHAPE, "dil_h");
    parse_bad("c=4,h=9,k=8,r=3,groups=3", METATUNE_BAD_SHAPE, "groups");
    parse_bad("c=4,h=9,k=8,r=10", METATUNE_BAD_SHAPE, "r");
    parse_bad("c=4,h=9,k=8,r=3,in=f8", METATUNE_PARSE, "in");
    parse_bad("c=4,h=9,k=8,r=3,out=", METATUNE_PARSE, "out");
    parse_bad("c=4,h=9,k=8,r=3,layout=NCHW", METATUNE_PARSE, "layout");
    parse_bad("c=4,h=9,k=8,r=3,layout=nchwc", METATUNE_BAD_ARG, "block");
    parse_bad("c=4,h=9,k=8,r=3,block=4", METATUNE_BAD_ARG, "block");
    parse_bad("c=4,h=9,k=8,r=3,block=-4", METATUNE_PARSE, "block");
    /* unknown: no name to point at, so the offset of the field */
    parse_bad("c=4,h=9,kk=8,r=3", METATUNE_PARSE,
              "offset of the unknown field");
    (void)metatune_encode_conv2d_parse("c=4,h=9,kk=8,r=3", &v, &e);
    CHECK(e.has_got && e.got == 8);
    parse_bad("c=4,h=9,k=8,r=3,strid=1", METATUNE_PARSE,
              "offset of the unknown field");
    parse_bad("c=4,h=9,k=8,r=3,stride_=1", METATUNE_PARSE,
              "offset of the unknown field");
    parse_bad("c=4,h=9,k=8,r=3,stride_x=1", METATUNE_PARSE,
              "offset of the unknown field");
    parse_bad("c=4,h=9,k=8,r=3,dtype=1", METATUNE_PARSE,
              "offset of the unknown field");
    parse_bad("C=4,h=9,k=8,r=3", METATUNE_PARSE,
              "offset of the unknown field");
    parse_bad("=4,h=9,k=8,r=3", METATUNE_PARSE,
              "offset of the unknown field");
    parse_bad(" c=4,h=9,k=8,r=3", METATUNE_PARSE,
              "offset of the unknown field");
    CHECK_INT(metatune_encode_conv2d_parse(NULL, &v, &e), METATUNE_BAD_ARG);
    CHECK_INT(metatune_encode_conv2d_parse("c=1", NULL, &e),
              METATUNE_BAD_ARG);

    /* damaged text: no crash, and what is accepted is a valid shape */
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 52);
    for (i = 0; i < 5000; i++) {
        char spec[512], *cut;
        size_t n;
        int k;
        v = conv_random(&rng, 9);
        n = metatune_encode_conv2d_spec(&v, spec, sizeof spec);
        for (k = pick(&rng, 1, 4); k > 0; k--)
            spec[pick(&rng, 0, (int32_t)n - 1)] = (char)pick(&rng, 1, 127);
        n = (size_t)pick(&rng, 0, (int32_t)n);
        cut = (char *)block_new(n + 1);
        memcpy(cut, spec, n);
        cut[n] = 0;
        if (metatune_encode_conv2d_parse(cut, &w, &e) == METATUNE_OK)
            CHECK(metatune_encode_conv2d_check(&w, NULL) == METATUNE_OK);
        else
            CHECK(e.where && *e.where);
        free(cut);
    }
}

/* ------------------------------------------- the far end of 32 bits */

static void huge_check(const nest_t *nest, metatune_encode_graph *graph)
{
    metatune_encode_totals t;
    metatune_encode_access a;
    int32_t l, i;
    range r;
    memset(&r, 0, sizeof r);
    CHECK_INT(metatune_encode_nest_check(nest), METATUNE_OK);
    for (l = -1; l < nest->n_loops; l++)
        for (i = 0; i < nest->n_tensors; i++) {
            CHECK(metatune_encode_access_derive(nest, l, i, &a) ==
                  METATUNE_OK);
            CHECK(finite_is(a.unique) && finite_is(a.bytes) &&
                  finite_is(a.touches) && finite_is(a.reuse) &&
                  finite_is(a.stride));
            CHECK(a.unique >= 0 && a.stride >= 0);
        }
    CHECK(metatune_encode_totals_derive(nest, NULL, &t) == METATUNE_OK);
    CHECK(finite_is(t.flop) && finite_is(t.bytes_min) &&
          finite_is(t.bytes_l1) && finite_is(t.bytes_l2) &&
          finite_is(t.bytes_l3) && finite_is(t.foot_inner) &&
          finite_is(t.waste) && finite_is(t.chunks) &&
          finite_is(t.imbalance) && finite_is(t.vector_fill) &&
          finite_is(t.unrolled) && finite_is(t.accumulators) &&
          finite_is(t.loads_per_fma) && finite_is(t.t0_s));
    CHECK(t.t0_s > 0 && t.waste >= 1 && t.imbalance >= 1);
    CHECK(metatune_encode_graph_fill(graph, nest, NULL, NULL) ==
          METATUNE_OK);
    graph_range(graph, &r);
}

static void test_huge(void)
{
    nest_t nest;
    metatune_encode_graph graph;
    metatune_encode_config cfg;
    void *mem, *gmem;
    rng_t rng;
    int i;
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_edges = 4096;
    mem = nest_new(&nest, &cfg);
    gmem = graph_new(&graph, &cfg);
    printf("    seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 60);
    for (i = 0; i < 300; i++) {
        int32_t small = i % 3, a, t, d, k, l = -1, all[3] = {0, 1, 2};
        metatune_encode_nest_clear(&nest);
        for (a = 0; a < METATUNE_ENCODE_MAX_AXES; a++)
            metatune_encode_axis_add(
                &nest, small ? pick(&rng, 1, BIG) : BIG, a % 2);
        for (t = 0; t < 3; t++) {
            metatune_encode_tensor_add(&nest, 16, 0, t);
            for (d = 0; d < METATUNE_ENCODE_MAX_DIMS; d++) {
                metatune_encode_dim_add(&nest, t, BIG, BIG);
                for (k = 0; k < (small ? pick(&rng, 0, 3) : 1 + t); k++)
                    metatune_encode_term_add(
                        &nest, t, small ? pick(&rng, 0, 15) : (d + k) % 16,
                        small == 2 ? pick(&rng, 1, BIG) : BIG);
                if (pick(&rng, 0, 3) == 0) {
                    nest.tensor[t].dim[d].block = BIG;
                    nest.tensor[t].dim[d].stride_block = 1e20;
                }
            }
        }
        for (k = 0; k < 58; k++)
            l = metatune_encode_loop_add(
                &nest, l, k % 16, small == 1 ? pick(&rng, 1, BIG) : BIG,
                small == 2 ? pick(&rng, 1, BIG) : BIG, pick(&rng, 0, 6),
                k + 1);
        metatune_encode_stmt_add(&nest, l, METATUNE_STMT_LOAD, 59, BIG, all,
                                 2);
        metatune_encode_stmt_add(&nest, l, METATUNE_STMT_FMA, 60, BIG, all,
                                 3);
        metatune_encode_stmt_add(&nest, -1, METATUNE_STMT_ARITH, 61, BIG,
                                 all, 3);
        metatune_encode_copy_add(&nest, 0, 0, 0, BIG);
        CHECK_INT(nest.status, METATUNE_OK);
        huge_check(&nest, &graph);
    }
    for (i = 0; i < 3; i++) { /* convolutions of the largest extents */
        conv_t v = metatune_encode_conv2d_make(BIG, BIG, BIG, BIG, BIG, 1,
                                               BIG, BIG, 0);
        int32_t a, l = -1, all[3] = {0, 1, 2};
        v.layout = i;
        v.block = i == METATUNE_NCHWC ? BIG : 0;
        v.dil_h = BIG;
        CHECK_INT(metatune_encode_conv2d_begin(&nest, &v), METATUNE_OK);
        for (a = 0; a < 8; a++)
            l = metatune_encode_loop_add(&nest, l, a, 1, nest.axis[a].extent,
                                         0, a + 1);
        metatune_encode_stmt_add(&nest, l, METATUNE_STMT_FMA, 9, 1, all, 3);
        huge_check(&nest, &graph);
    }
    /* no loops, no tensors, nothing */
    metatune_encode_nest_clear(&nest);
    huge_check(&nest, &graph);
    CHECK_INT(graph.n_nodes, 1);
    CHECK_INT(graph.row[1], 0);
    metatune_encode_stmt_add(&nest, -1, METATUNE_STMT_CALL, 1, 1, NULL, 0);
    huge_check(&nest, &graph);
    free(mem);
    free(gmem);
}

int main(void)
{
    RUN(test_status);
    RUN(test_error_line);
    RUN(test_rng_reference);
    RUN(test_rng_ranges);
    RUN(test_hash);
    RUN(test_log2);
    RUN(test_nest_refusals);
    RUN(test_nest_corrupted);
    RUN(test_init);
    RUN(test_derive_conv);
    RUN(test_derive_matmul);
    RUN(test_derive_wild);
    RUN(test_derive_stride);
    RUN(test_totals);
    RUN(test_totals_by_hand);
    RUN(test_edges_by_hand);
    RUN(test_skeleton);
    RUN(test_plain_agrees);
    RUN(test_features_layers);
    RUN(test_device_row);
    RUN(test_conv_table);
    RUN(test_conv_begin);
    RUN(test_conv_check);
    RUN(test_conv_spec);
    RUN(test_conv_parse);
    RUN(test_huge);
    return check_report("test_encode");
}
