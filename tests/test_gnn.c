/* test_gnn.c - metatune_gnn.h against finite differences, a second
   implementation (golden_gnn.h), hand formulas and its own invariances.

   Built twice: as it is, and with -DMETATUNE_REAL=double, where the finite
   differences run. -DTEST_GEMM_HOOK replaces the matrix product by the naive
   one through METATUNE_GEMM. Graphs are made by hand: no encoder is linked. */
#include <stddef.h>
#include <stdint.h>

#ifdef TEST_GEMM_HOOK
static int hook_calls;
#define METATUNE_GEMM hook_gemm
#endif

#include "metatune_encode.h"

static void naive_gemm(int trans_a, int trans_b, size_t m, size_t n, size_t k,
                       const metatune_real *a, size_t lda,
                       const metatune_real *b, size_t ldb, int beta,
                       metatune_real *c, size_t ldc)
{
    size_t i, j, p;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            double sum = beta ? (double)c[i * ldc + j] : 0;
            for (p = 0; p < k; p++)
                sum += (double)(trans_a ? a[p * lda + i] : a[i * lda + p]) *
                       (double)(trans_b ? b[j * ldb + p] : b[p * ldb + j]);
            c[i * ldc + j] = (metatune_real)sum;
        }
}

#ifdef TEST_GEMM_HOOK
static void hook_gemm(int trans_a, int trans_b, size_t m, size_t n, size_t k,
                      const metatune_real *a, size_t lda,
                      const metatune_real *b, size_t ldb, int beta,
                      metatune_real *c, size_t ldc)
{
    hook_calls++;
    naive_gemm(trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
}
#endif

#define METATUNE_GNN_IMPLEMENTATION
#include "metatune_gnn.h"
#include "check.h"
#include "golden_gnn.h"

typedef metatune_real real;

#define IS_DOUBLE (sizeof(real) == sizeof(double))
#define TOL(f, d) (IS_DOUBLE ? (d) : (f))

/* ------------------------------------------------------------- helpers */

static metatune_encode_rng seeded(uint64_t seed)
{
    metatune_encode_rng rng;
    int i;
    for (i = 0; i < 4; i++) { /* splitmix64 */
        uint64_t z = (seed += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        rng.s[i] = z ^ (z >> 31);
    }
    return rng;
}

static double unit(metatune_encode_rng *rng)
{
    return mti_gnn_unit(rng);
}

static int below(metatune_encode_rng *rng, int n)
{
    return (int)(unit(rng) * n);
}

static double sym(metatune_encode_rng *rng)
{
    return 2 * unit(rng) - 1;
}

static void *alloc(size_t n)
{
    void *p = calloc(n ? n : 1, 1);
    if (!p) {
        printf("out of memory\n");
        exit(2);
    }
    return p;
}

static real *reals(size_t n)
{
    return (real *)alloc(n * sizeof(real));
}

static void fill_random(real *x, size_t n, double scale,
                        metatune_encode_rng *rng)
{
    size_t i;
    for (i = 0; i < n; i++) x[i] = (real)(scale * sym(rng));
}

/* Not (a < b or b < a): equality without a float comparison warning. */
static int same(double a, double b)
{
    return a <= b && a >= b;
}

static int all_same(const real *a, const real *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

static double max_diff(const real *a, const real *b, size_t n)
{
    double worst = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst)) worst = d; /* NaN counts as worst */
    }
    return worst;
}

#define MAX_V 64
#define MAX_E 1024
#define MAX_F 40

typedef struct hand {
    metatune_encode_graph g;
    uint16_t row[MAX_V + 1], col[MAX_E];
    unsigned char present[MAX_V];
    real x[MAX_V * MAX_F];
} hand;

static void hand_bind(hand *h, int nodes)
{
    h->g.n_nodes = nodes;
    h->g.cap_nodes = MAX_V;
    h->g.cap_edges = MAX_E;
    h->g.row = h->row;
    h->g.col = h->col;
    h->g.present = h->present;
    h->g.x = h->x;
}

/* CSR of a symmetric (V,V) adjacency. */
static void hand_edges(hand *h, const unsigned char *adj, int nodes)
{
    int u, v, e = 0;
    for (v = 0; v < nodes; v++) {
        h->row[v] = (uint16_t)e;
        for (u = 0; u < nodes; u++)
            if (adj[v * nodes + u]) h->col[e++] = (uint16_t)u;
    }
    h->row[nodes] = (uint16_t)e;
}

static void hand_random(hand *h, int nodes, int f, double density,
                        double absent, metatune_encode_rng *rng)
{
    unsigned char adj[MAX_V * MAX_V];
    int u, v;

    memset(h, 0, sizeof *h);
    memset(adj, 0, sizeof adj);
    for (v = 0; v < nodes; v++)
        for (u = 0; u < v; u++)
            if (unit(rng) < density)
                adj[v * nodes + u] = adj[u * nodes + v] = 1;
    hand_bind(h, nodes);
    hand_edges(h, adj, nodes);
    for (v = 0; v < nodes; v++) h->present[v] = unit(rng) >= absent;
    h->present[below(rng, nodes)] = 1;
    fill_random(h->x, (size_t)(nodes * f), 1, rng);
    fill_random(h->g.global_row, METATUNE_ENCODE_GLOBAL_FEATURES, 1, rng);
    fill_random(h->g.device_row, METATUNE_ENCODE_DEVICE_FEATURES, 1, rng);
}

/* A net with its memory (exactly memsize bytes) and parameters. */
typedef struct rig {
    metatune_gnn_config cfg;
    metatune_gnn net;
    void *mem;
    real *params;
    size_t n_params, width;
} rig;

static void rig_open(rig *r, const metatune_gnn_config *cfg, uint64_t seed)
{
    metatune_encode_rng rng = seeded(seed);
    const size_t bytes = metatune_gnn_memsize(cfg);
    size_t i;

    CHECK(bytes > 0);
    r->cfg = *cfg;
    r->mem = alloc(bytes);
    memset(r->mem, 0xff, bytes); /* NaN, should anything be read too early */
    CHECK_INT(metatune_gnn_init(&r->net, cfg, r->mem, bytes), METATUNE_OK);
    r->n_params = metatune_gnn_param_count(cfg);
    r->width = (size_t)metatune_gnn_phi_width(cfg);
    r->params = reals(r->n_params);
    CHECK_INT(metatune_gnn_params_init(cfg, r->params, &rng), METATUNE_OK);
    /* biases and out are 0: give them something to do */
    for (i = 0; i < r->n_params; i++)
        r->params[i] += (real)(0.1 * sym(&rng));
}

static void rig_close(rig *r)
{
    free(r->mem);
    free(r->params);
}

static metatune_gnn_config small_config(int conv, int readout)
{
    metatune_gnn_config c;
    memset(&c, 0, sizeof c);
    c.node_features = 11;
    c.global_features = 5;
    c.device_features = 3;
    c.hidden = 13;
    c.conv = conv;
    c.readout = readout;
    c.n_mlp = 2;
    c.mlp[0] = 12;
    c.mlp[1] = 7;
    c.cap_batch = 6;
    c.cap_nodes = 20;
    c.cap_edges = 400;
    return c;
}

static void hands_random(hand *h, const metatune_encode_graph **p, int n,
                         int max_nodes, int f, metatune_encode_rng *rng)
{
    int i;
    for (i = 0; i < n; i++) {
        hand_random(&h[i], 1 + below(rng, max_nodes), f, 0.3, 0.3, rng);
        p[i] = &h[i].g;
    }
}

/* --------------------------------------------------------------- config */

static void test_presets(void)
{
    static const char *const name[3] = { "default", "tiny", "large" };
    static const size_t want_width[3] = { 25, 17, 33 };
    metatune_gnn_config c, zero, full;
    size_t i, p, n, count, at;

    for (p = 0; p < 3; p++) {
        metatune_gnn_window_info w;
        size_t h, k0;
        c = metatune_gnn_preset((metatune_gnn_preset_id)p);
        h = (size_t)c.hidden;
        k0 = 2 * h + 24 + 16;
        n = 2 * 28 * h + h + 2 * h * h + h + k0 * (size_t)c.mlp[0] +
            (size_t)c.mlp[0] + (size_t)c.mlp[0] * (size_t)c.mlp[1] +
            (size_t)c.mlp[1] + (size_t)c.mlp[1] + 1;
        CHECK_INT(metatune_gnn_param_count(&c), n);
        CHECK_INT(metatune_gnn_phi_width(&c), want_width[p]);
        CHECK_INT(metatune_gnn_config_check(&c, NULL), METATUNE_OK);
        count = metatune_gnn_window_count(&c);
        CHECK_INT(count, 11);
        for (i = at = 0; i < count; i++) {
            CHECK_INT(metatune_gnn_window(&c, i, &w), METATUNE_OK);
            CHECK_INT(w.offset, at);
            at += w.rows * w.cols;
        }
        CHECK_INT(at, n);
        CHECK_STR(w.name, "out");
        CHECK_INT(metatune_gnn_window(&c, count, &w), METATUNE_NOT_FOUND);
        printf("    %-8s %zu parameters, work %zu bytes forward", name[p], n,
               metatune_gnn_memsize(&c));
        c.train = 1;
        printf(", %zu training\n", metatune_gnn_memsize(&c));
    }
    c = metatune_gnn_preset(METATUNE_GNN_TINY);
    CHECK(metatune_gnn_memsize(&c) <= (IS_DOUBLE ? 14u : 7u) * 1024u);
    /* {0}, NULL and the default preset are the same network */
    memset(&zero, 0, sizeof zero);
    c = metatune_gnn_preset(METATUNE_GNN_DEFAULT);
    CHECK_INT(metatune_gnn_param_count(&zero), metatune_gnn_param_count(&c));
    CHECK_INT(metatune_gnn_param_count(NULL), metatune_gnn_param_count(&c));
    CHECK_INT(metatune_gnn_memsize(NULL), metatune_gnn_memsize(&c));
    CHECK_INT(metatune_gnn_config_resolve(&zero, &full), METATUNE_OK);
    CHECK_INT(metatune_gnn_config_resolve(&c, &c), METATUNE_OK);
    CHECK(memcmp(&full, &c, sizeof c) == 0);
    CHECK_INT(full.cap_edges, 512);
}

static void test_windows(void)
{
    static const char *const split[9] = {
        "conv0.self", "conv0.nbr", "conv0.bias", "conv1.self", "conv1.nbr",
        "conv1.bias", "mlp0.weight", "mlp0.bias", "out"
    };
    static const char *const gcn[7] = { "conv0.weight", "conv0.bias",
                                        "conv1.weight", "conv1.bias",
                                        "mlp0.weight", "mlp0.bias", "out" };
    metatune_gnn_config c = small_config(METATUNE_GNN_SPLIT, 7);
    metatune_gnn_window_info w;
    size_t i;

    c.n_mlp = 1;
    CHECK_INT(metatune_gnn_window_count(&c), 9);
    for (i = 0; i < 9; i++) {
        CHECK_INT(metatune_gnn_window(&c, i, &w), METATUNE_OK);
        CHECK_STR(w.name, split[i]);
        if (i == 0 || i == 1) CHECK_INT(w.rows, 11);
        if (i == 3 || i == 4) CHECK_INT(w.rows, 13);
        if (i == 6) CHECK_INT(w.rows, 3 * 13 + 5 + 3);
        if (i == 8) CHECK_INT(w.cols, 13);
    }
    c.conv = METATUNE_GNN_GCN;
    CHECK_INT(metatune_gnn_window_count(&c), 7);
    for (i = 0; i < 7; i++) {
        CHECK_INT(metatune_gnn_window(&c, i, &w), METATUNE_OK);
        CHECK_STR(w.name, gcn[i]);
    }
    c.hidden = -1;
    CHECK_INT(metatune_gnn_window_count(&c), 0);
    CHECK_INT(metatune_gnn_window(&c, 0, &w), METATUNE_BAD_CONFIG);
    CHECK_INT(metatune_gnn_window(&c, 0, NULL), METATUNE_BAD_ARG);
}

static void test_bad_config(void)
{
#define FIELD(name) offsetof(metatune_gnn_config, name)
    static const struct {
        const char *name;
        size_t at;
        int32_t value;
    } bad[] = {
        { "node_features", FIELD(node_features), -1 },
        { "node_features", FIELD(node_features), 257 },
        { "global_features", FIELD(global_features), 25 },
        { "device_features", FIELD(device_features), 17 },
        { "hidden", FIELD(hidden), 257 },
        { "hidden", FIELD(hidden), INT32_MIN },
        { "n_layers", FIELD(n_layers), 5 },
        { "conv", FIELD(conv), 2 },
        { "readout", FIELD(readout), 8 },
        { "n_mlp", FIELD(n_mlp), 5 },
        { "mlp[0]", FIELD(mlp[0]), 0 },
        { "mlp[1]", FIELD(mlp[1]), 257 },
        { "no_residual", FIELD(no_residual), 2 },
        { "cap_batch", FIELD(cap_batch), 65536 },
        { "cap_batch", FIELD(cap_batch), INT32_MAX },
        { "cap_nodes", FIELD(cap_nodes), 4097 },
        { "train", FIELD(train), -1 },
        { "cap_edges", FIELD(cap_edges), 65536 },
        { "type_embedding", FIELD(type_embedding), 1 },
        { "no_propagation", FIELD(no_propagation), 1 },
        { "reserved", FIELD(reserved), 1 }
    };
#undef FIELD
    metatune_gnn net;
    metatune_error err;
    double mem[64];
    size_t i;

    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        metatune_gnn_config c = small_config(0, 3);
        memcpy((char *)&c + bad[i].at, &bad[i].value, sizeof(int32_t));
        memset(&err, 0, sizeof err);
        CHECK_INT(metatune_gnn_config_check(&c, &err), METATUNE_BAD_CONFIG);
        CHECK_INT(err.status, METATUNE_BAD_CONFIG);
        CHECK_STR(err.where, bad[i].name);
        CHECK_INT(err.got, bad[i].value);
        CHECK(err.has_got && err.want && err.want[0]);
        CHECK_INT(metatune_gnn_param_count(&c), 0);
        CHECK_INT(metatune_gnn_phi_width(&c), 0);
        CHECK_INT(metatune_gnn_memsize(&c), 0);
        CHECK_INT(metatune_gnn_init(&net, &c, mem, sizeof mem),
                  METATUNE_BAD_CONFIG);
    }
    { /* each fits, their product does not */
        metatune_gnn_config c = small_config(0, 3);
        c.cap_batch = 600;
        c.cap_nodes = 110;
        CHECK_INT(metatune_gnn_config_check(&c, &err), METATUNE_OK);
        c.train = 1;
        CHECK_INT(metatune_gnn_config_check(&c, &err), METATUNE_BAD_CONFIG);
        CHECK_STR(err.where, "cap_batch");
    }
}

static void test_memory(void)
{
    metatune_gnn_config c = small_config(0, 7);
    metatune_gnn net;
    metatune_gnn_adam adam;
    size_t bytes, at;
    unsigned char *mem;

    for (c.train = 0; c.train < 2; c.train++) {
        bytes = metatune_gnn_memsize(&c);
        mem = (unsigned char *)alloc(bytes + 8);
        CHECK_INT(metatune_gnn_init(&net, &c, mem, bytes), METATUNE_OK);
        CHECK_INT(metatune_gnn_init(&net, &c, mem, bytes - 1),
                  METATUNE_NO_MEMORY);
        CHECK_INT(metatune_gnn_init(&net, &c, mem, 0), METATUNE_NO_MEMORY);
        CHECK_INT(metatune_gnn_init(&net, &c, NULL, bytes),
                  METATUNE_NO_MEMORY);
        CHECK_INT(metatune_gnn_init(&net, &c, mem + 1, bytes),
                  METATUNE_NO_MEMORY);
        CHECK_INT(metatune_gnn_init(&net, &c, mem + 4, bytes),
                  METATUNE_NO_MEMORY);
        CHECK_INT(metatune_gnn_init(NULL, &c, mem, bytes), METATUNE_BAD_ARG);
        free(mem);
    }
    CHECK_INT(metatune_gnn_adam_memsize(0), 0);
    CHECK_INT(metatune_gnn_adam_memsize(SIZE_MAX / 2), 0);
    CHECK_INT(metatune_gnn_adam_memsize(SIZE_MAX / sizeof(real)), 0);
    bytes = metatune_gnn_adam_memsize(33);
    mem = (unsigned char *)alloc(bytes + 8);
    CHECK_INT(metatune_gnn_adam_init(&adam, 33, mem, bytes), METATUNE_OK);
    CHECK_INT(metatune_gnn_adam_init(&adam, 33, mem, bytes - 1),
              METATUNE_NO_MEMORY);
    CHECK_INT(metatune_gnn_adam_init(&adam, 33, mem + 4, bytes),
              METATUNE_NO_MEMORY);
    CHECK_INT(metatune_gnn_adam_init(&adam, SIZE_MAX / 2, mem, bytes),
              METATUNE_OVERFLOW);
    free(mem);
    /* no config overflows 64 bits, so the arithmetic is tested itself */
    CHECK(mti_gnn_add(SIZE_MAX, 1) == SIZE_MAX);
    CHECK(mti_gnn_add(SIZE_MAX - 5, 6) == SIZE_MAX);
    CHECK(mti_gnn_mul(SIZE_MAX / 2, 3) == SIZE_MAX);
    CHECK(mti_gnn_mul(SIZE_MAX, 0) == 0);
    CHECK(mti_gnn_mul(SIZE_MAX, 1) == SIZE_MAX);
    CHECK(mti_gnn_mul(1000, 1000) == 1000000);
    at = 8;
    CHECK(mti_gnn_take(&at, 3, 4) == 8 && at == 24);
    (void)mti_gnn_take(&at, SIZE_MAX / 4, 8);
    CHECK(at == SIZE_MAX);
    (void)mti_gnn_take(&at, 1, 1);
    CHECK(at == SIZE_MAX);
}

static void test_params_init(void)
{
    metatune_gnn_config c = metatune_gnn_preset(METATUNE_GNN_LARGE);
    const size_t n = metatune_gnn_param_count(&c);
    real *a = reals(n), *b = reals(n);
    metatune_encode_rng rng = seeded(7);
    metatune_gnn_window_info w;
    size_t i, j;

    CHECK_INT(metatune_gnn_params_init(&c, a, &rng), METATUNE_OK);
    CHECK_INT(metatune_gnn_params_init(&c, b, &rng), METATUNE_OK);
    CHECK(!all_same(a, b, n)); /* the stream moved on */
    rng = seeded(7);
    CHECK_INT(metatune_gnn_params_init(&c, b, &rng), METATUNE_OK);
    CHECK(all_same(a, b, n));
    for (i = 0; i < metatune_gnn_window_count(&c); i++) {
        double sum = 0, want;
        CHECK_INT(metatune_gnn_window(&c, i, &w), METATUNE_OK);
        for (j = 0; j < w.rows * w.cols; j++)
            sum += (double)a[w.offset + j] * (double)a[w.offset + j];
        sum /= (double)(w.rows * w.cols);
        want = w.rows == 1 ? 0.0
               : 2.0 / (double)(w.rows * (w.name[0] == 'c' ? 2 : 1));
        CHECK_NEAR(sum, want, 0.12 * want);
    }
    /* xoshiro256**, state {1,2,3,4}: its published first outputs */
    rng.s[0] = 1; rng.s[1] = 2; rng.s[2] = 3; rng.s[3] = 4;
    CHECK_NEAR(unit(&rng), 11520 / 18446744073709551616.0, 1e-15);
    CHECK_NEAR(unit(&rng), 0, 1e-15);
    CHECK_NEAR(unit(&rng), 1509978240 / 18446744073709551616.0, 1e-15);
    CHECK_NEAR(unit(&rng), 1215971899390074240.0 / 18446744073709551616.0,
               1e-15);
    CHECK_INT(metatune_gnn_params_init(&c, NULL, &rng), METATUNE_BAD_ARG);
    CHECK_INT(metatune_gnn_params_init(&c, a, NULL), METATUNE_BAD_ARG);
    free(a);
    free(b);
}

/* -------------------------------------------------------------- kernels */

#ifndef TEST_GEMM_HOOK
static void test_gemm(void)
{
    static const size_t size[] = { 1, 2, 3, 4, 5, 7, 8, 13, 16, 21, 24, 25,
                                   40, 49, 71 };
    const size_t n_sizes = sizeof size / sizeof size[0];
    const uint64_t seed = 11;
    metatune_encode_rng rng = seeded(seed);
    real *a = reals(80 * 80), *b = reals(80 * 80), *c = reals(80 * 80);
    real *d = reals(80 * 80);
    double worst = 0;
    int t;

    for (t = 0; t < 600; t++) {
        const size_t m = size[(size_t)below(&rng, (int)n_sizes)];
        const size_t n = size[(size_t)below(&rng, (int)n_sizes)];
        const size_t k = size[(size_t)below(&rng, (int)n_sizes)];
        const int ta = t & 1, tb = t >> 1 & 1, beta = t >> 2 & 1;
        const size_t pad = (size_t)below(&rng, 4);
        const size_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad;
        const size_t ldc = n + pad;
        double diff;
        fill_random(a, 80 * 80, 1, &rng);
        fill_random(b, 80 * 80, 1, &rng);
        fill_random(c, 80 * 80, 1, &rng);
        memcpy(d, c, 80 * 80 * sizeof *d); /* beyond c nothing may change */
        mti_gnn_gemm(ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc);
        naive_gemm(ta, tb, m, n, k, a, lda, b, ldb, beta, d, ldc);
        diff = max_diff(c, d, 80 * 80);
        if (!(diff <= worst)) worst = diff;
    }
    printf("    seed %d, worst difference %g\n", (int)seed, worst);
    CHECK_NEAR(worst, 0, TOL(1e-5, 1e-13));
    free(a);
    free(b);
    free(c);
    free(d);
}
#endif

/* --------------------------------------------------------------- golden */

static double val(int i, int seed)
{
    i %= 97; /* the same remainder, without overflow */
    return ((i * i * 31 + i * 37 + seed * 101) % 97 - 48) / 97.0;
}

static void hand_golden(hand *h, int g, int f)
{
    const int n = 5 + 4 * g;
    unsigned char adj[MAX_V * MAX_V];
    int u, v, i;

    memset(h, 0, sizeof *h);
    memset(adj, 0, sizeof adj);
    for (u = 0; u < n; u++)
        for (v = 0; v < u; v++)
            if ((u * 7 + v * 3 + g) % 5 < 2)
                adj[u * n + v] = adj[v * n + u] = 1;
    hand_bind(h, n);
    hand_edges(h, adj, n);
    for (v = 0; v < n; v++) h->present[v] = v == 0 || (v * 5 + g) % 4 != 0;
    for (i = 0; i < n * f; i++) h->x[i] = (real)val(i, 10 + g);
    for (i = 0; i < 24; i++) h->g.global_row[i] = (real)val(i, 20 + g);
    for (i = 0; i < 16; i++) h->g.device_row[i] = (real)val(i, 30 + g);
}

static void test_golden(void)
{
    hand *h = (hand *)alloc(GOLDEN_GRAPHS * sizeof *h);
    const metatune_encode_graph *graphs[GOLDEN_GRAPHS];
    int t, g, i;
    double worst = 0;

    for (t = 0; t < GOLDEN_CASES; t++) {
        const struct golden_case *const c = &golden[t];
        metatune_gnn_config cfg;
        metatune_gnn_window_info w;
        rig r;
        real *phi, *dphi, *grad;
        real mu[GOLDEN_GRAPHS], dmu[GOLDEN_GRAPHS];
        double dot = 0;
        size_t j, n_phi;

        memset(&cfg, 0, sizeof cfg);
        cfg.conv = c->conv;
        cfg.n_layers = c->n_layers;
        cfg.no_residual = c->no_residual;
        cfg.readout = c->readout;
        cfg.node_features = c->f;
        cfg.global_features = c->g;
        cfg.device_features = c->d;
        cfg.hidden = c->hidden;
        cfg.n_mlp = c->n_mlp;
        for (i = 0; i < 4; i++) cfg.mlp[i] = c->mlp[i];
        cfg.cap_batch = GOLDEN_GRAPHS;
        cfg.train = 1;
        rig_open(&r, &cfg, 1);
        CHECK_INT(r.n_params, c->params);
        CHECK_INT(metatune_gnn_window_count(&cfg), c->n_windows);
        for (i = 0; i < c->n_windows; i++) {
            CHECK_INT(metatune_gnn_window(&cfg, (size_t)i, &w), METATUNE_OK);
            CHECK_STR(w.name, c->window[i].name);
            for (j = w.offset; j < w.offset + w.rows * w.cols; j++)
                r.params[j] =
                    (real)(val((int)j, 1) * (3.0 / sqrt((double)w.rows)));
        }
        for (g = 0; g < GOLDEN_GRAPHS; g++) {
            hand_golden(&h[g], g, c->f);
            graphs[g] = &h[g].g;
            dmu[g] = (real)(val(g, 40) + 1);
        }
        n_phi = GOLDEN_GRAPHS * r.width;
        phi = reals(n_phi);
        dphi = reals(n_phi);
        grad = reals(r.n_params);
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, graphs, GOLDEN_GRAPHS,
                                       phi), METATUNE_OK);
        metatune_gnn_mean(&cfg, r.params, phi, GOLDEN_GRAPHS, mu);
        for (g = 0; g < GOLDEN_GRAPHS; g++)
            CHECK_NEAR(mu[g], c->mu[g],
                       TOL(1e-5, 1e-13) * (1 + fabs(c->mu[g])));
        for (j = 0; j < n_phi; j++) dot += (double)phi[j] * val((int)j, 41);
        CHECK_NEAR(dot, c->phi_dot, TOL(2e-5, 1e-12));
        metatune_gnn_mean_backward(&cfg, r.params, phi, GOLDEN_GRAPHS, dmu,
                                   dphi, grad);
        CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs,
                                        GOLDEN_GRAPHS, dphi, grad),
                  METATUNE_OK);
        for (i = 0; i < c->n_windows; i++) {
            double sum = 0, probe = 0, size = 0;
            metatune_gnn_window(&cfg, (size_t)i, &w);
            for (j = 0; j < w.rows * w.cols; j++) {
                const double d = (double)grad[w.offset + j];
                sum += d;
                probe += d * val((int)j, 42);
                size += fabs(d);
            }
            CHECK_NEAR(sum, c->window[i].sum, TOL(2e-5, 1e-12) * (1 + size));
            CHECK_NEAR(probe, c->window[i].dot,
                       TOL(2e-5, 1e-12) * (1 + size));
            if (fabs(sum - c->window[i].sum) > worst)
                worst = fabs(sum - c->window[i].sum);
        }
        free(phi);
        free(dphi);
        free(grad);
        rig_close(&r);
    }
    printf("    worst gradient sum differs by %g\n", worst);
    free(h);
}

/* -------------------------------------------------------- gradients, FD */

/* Which pieces of the piecewise smooth function are active. */
static uint64_t net_signature(const metatune_gnn *net)
{
    const size_t h = (size_t)net->cfg.hidden, m = net->n_rows * h;
    const size_t batch = (size_t)net->cfg.cap_batch, n = net->n_graphs;
    uint64_t sig = 1469598103934665603u;
    const real *last;
    size_t i, l, at;

    for (l = 0; l < (size_t)net->cfg.n_layers; l++)
        for (i = 0; i < m; i++)
            sig = (sig ^ net->mask[l * net->cap_slots * h + i]) *
                  1099511628211u;
    /* GCN gives nodes of the same closed neighbourhood the same row, up to
       rounding: such ties are no kink, so the first of them stands for all */
    last = net->h + (size_t)(net->cfg.n_layers - 1) * net->cap_slots * h;
    if (net->cfg.readout & METATUNE_GNN_MAX)
        for (i = 0; i < n * h; i++) {
            const real top = last[net->top[i] * h + i % h];
            l = net->base[i / h];
            while (top - last[l * h + i % h] > (real)1e-10) l++;
            sig = (sig ^ l) * 1099511628211u;
        }
    at = (size_t)((net->cfg.readout & 1) + (net->cfg.readout >> 1 & 1) +
                  (net->cfg.readout >> 2 & 1)) * h +
         (size_t)(net->cfg.global_features + net->cfg.device_features);
    at *= batch;
    for (l = 0; l < (size_t)net->cfg.n_mlp; l++) {
        const size_t w = (size_t)net->cfg.mlp[l];
        for (i = 0; i < n * w; i++)
            sig = (sig ^ (net->u[at + i] > 0)) * 1099511628211u;
        at += batch * w;
    }
    return sig;
}

#define FD_N 5

typedef struct fd {
    rig *r;
    const metatune_encode_graph **graphs;
    const real *y, *weight, *var, *coef;
    int loss; /* 0 squared, 1 smooth-l1, 2 gaussian, 3 linear in phi */
    real *phi, *mu;
} fd;

static double fd_loss(fd *t, const real *params, real *dmu, real *dvar)
{
    double sum = 0;
    size_t i;
    CHECK_INT(metatune_gnn_forward(&t->r->net, params, t->graphs, FD_N,
                                   t->phi), METATUNE_OK);
    if (t->loss == 3) {
        for (i = 0; i < FD_N * t->r->width; i++)
            sum += (double)(t->phi[i] * t->coef[i]);
        return sum;
    }
    metatune_gnn_mean(&t->r->cfg, params, t->phi, FD_N, t->mu);
    if (t->loss == 0)
        return metatune_gnn_loss_squared(t->mu, t->y, t->weight, FD_N, dmu);
    if (t->loss == 1)
        return metatune_gnn_loss_smooth_l1(t->mu, t->y, t->weight, FD_N, dmu);
    return metatune_gnn_loss_gaussian(t->mu, t->var, t->y, t->weight, FD_N,
                                      dmu, dvar);
}

static void test_gradients(void)
{
    hand *h = (hand *)alloc(FD_N * sizeof *h);
    const metatune_encode_graph *graphs[FD_N];
    int conv, readout, variant, done = 0, kinks = 0, dead = 0;
    double worst = 0;

    for (conv = 0; conv < 2; conv++)
    for (readout = 1; readout < 8; readout++)
    for (variant = 0; variant < 8; variant++) {
        const uint64_t seed =
            (uint64_t)(1000 + conv * 100 + readout * 10 + variant);
        metatune_encode_rng rng = seeded(seed);
        metatune_gnn_config c = small_config(conv, readout);
        metatune_gnn_window_info w;
        rig r;
        fd t;
        real *grad, *dphi, *dir, *moved;
        real y[FD_N], weight[FD_N], var[FD_N], dmu[FD_N], dvar[FD_N];
        size_t i, j, windows;
        uint64_t sig;

        c.train = 1;
        c.no_residual = variant & 1;
        c.n_layers = 1 + variant % 4;
        c.n_mlp = 1 + variant % 3;
        c.mlp[2] = 9;
        rig_open(&r, &c, seed);
        hands_random(h, graphs, FD_N, 20, 11, &rng);
        grad = reals(r.n_params);
        dir = reals(r.n_params);
        moved = reals(r.n_params);
        dphi = reals(FD_N * r.width);
        t.r = &r;
        t.graphs = graphs;
        t.phi = reals(FD_N * r.width);
        t.mu = reals(FD_N);
        t.loss = variant >> 1;
        fill_random(dphi, FD_N * r.width, 1, &rng);
        t.coef = reals(FD_N * r.width);
        memcpy((void *)(uintptr_t)t.coef, dphi, FD_N * r.width * sizeof *dphi);
        for (i = 0; i < FD_N; i++) {
            y[i] = (real)(2 * sym(&rng));
            weight[i] = (real)(0.5 + unit(&rng));
            var[i] = (real)(0.3 + unit(&rng));
        }
        t.y = y;
        t.var = var;
        t.weight = variant & 1 ? weight : NULL;
        (void)fd_loss(&t, r.params, dmu, dvar);
        sig = net_signature(&r.net);
        if (t.loss != 3) {
            memset(dphi, 0, FD_N * r.width * sizeof *dphi);
            metatune_gnn_mean_backward(&c, r.params, t.phi, FD_N, dmu, dphi,
                                       grad);
        }
        CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs, FD_N, dphi,
                                        grad), METATUNE_OK);
        windows = metatune_gnn_window_count(&c);
        for (i = 0; i <= windows; i++) { /* the last: all windows together */
            int try, good = 0;
            double step = 2e-6;
            if (i < windows) {
                CHECK_INT(metatune_gnn_window(&c, i, &w), METATUNE_OK);
            } else {
                w.offset = 0;
                w.rows = 1;
                w.cols = r.n_params;
            }
            for (try = 0; try < 12 && good < 3; try++) {
                double norm = 0, want = 0, lo, hi, got, err;
                uint64_t s1, s2;
                memset(dir, 0, r.n_params * sizeof *dir);
                for (j = w.offset; j < w.offset + w.rows * w.cols; j++)
                    norm += (double)(grad[j] * grad[j]);
                norm = sqrt(norm / (double)(w.rows * w.cols));
                /* random, leaning to the gradient: never at right angles */
                for (j = w.offset; j < w.offset + w.rows * w.cols; j++) {
                    dir[j] = (real)sym(&rng);
                    if (norm > 0) dir[j] += grad[j] / (real)norm;
                    want += (double)(dir[j] * grad[j]);
                }
                for (j = 0; j < r.n_params; j++)
                    moved[j] = r.params[j] + (real)step * dir[j];
                hi = fd_loss(&t, moved, NULL, NULL);
                s1 = net_signature(&r.net);
                for (j = 0; j < r.n_params; j++)
                    moved[j] = r.params[j] - (real)step * dir[j];
                lo = fd_loss(&t, moved, NULL, NULL);
                s2 = net_signature(&r.net);
                if (s1 != sig || s2 != sig) {
                    kinks++;
                    step *= 0.7; /* one may be very near */
                    continue;
                }
                got = (hi - lo) / (2 * step);
                err = fabs(got - want) / (fabs(want) + 1e-3);
                if (!(err <= worst)) worst = err;
                if (!(err <= 1e-6)) {
                    printf("    seed %d conv %d readout %d variant %d window "
                           "%d: %.12g, want %.12g\n", (int)seed, conv, readout,
                           variant, (int)i, want, got);
                    CHECK(err <= 1e-6);
                }
                good++;
                done++;
                if (!(fabs(want) > 0)) dead++;
            }
            CHECK(good > 0);
        }
        /* the loss's own derivative by var */
        if (t.loss == 2)
            for (i = 0; i < FD_N; i++) {
                const real keep = var[i];
                const double step = 2e-6;
                double hi, lo;
                var[i] = keep + (real)step;
                hi = fd_loss(&t, r.params, NULL, NULL);
                var[i] = keep - (real)step;
                lo = fd_loss(&t, r.params, NULL, NULL);
                var[i] = keep;
                CHECK_NEAR((hi - lo) / (2 * step), dvar[i],
                           1e-6 * (0.1 + fabs((double)dvar[i])));
            }
        free(grad);
        free(dir);
        free(moved);
        free(dphi);
        free(t.phi);
        free(t.mu);
        free((void *)(uintptr_t)t.coef);
        rig_close(&r);
    }
    printf("    seeds 1010..1177: %d directions, worst %g; %d kinks avoided, "
           "%d dead\n", done, worst, kinks, dead);
    CHECK(dead * 20 < done);
    free(h);
}

static void test_accumulate(void)
{
    metatune_encode_rng rng = seeded(21);
    metatune_gnn_config c = small_config(0, 7);
    hand *h = (hand *)alloc(4 * sizeof *h);
    const metatune_encode_graph *graphs[4];
    real *phi, *dphi, *one, *two;
    rig r;
    size_t i;

    c.train = 1;
    rig_open(&r, &c, 22);
    hands_random(h, graphs, 4, 20, 11, &rng);
    phi = reals(4 * r.width);
    dphi = reals(4 * r.width);
    one = reals(r.n_params);
    two = reals(r.n_params);
    fill_random(dphi, 4 * r.width, 1, &rng);
    fill_random(two, r.n_params, 1, &rng);
    CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs, 4, dphi, one),
              METATUNE_BAD_ARG); /* no forward yet */
    CHECK_INT(metatune_gnn_forward(&r.net, r.params, graphs, 4, phi),
              METATUNE_OK);
    CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs, 3, dphi, one),
              METATUNE_BAD_ARG);
    CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs, 4, dphi, one),
              METATUNE_OK);
    memcpy(phi, two, r.width * sizeof *phi); /* a few values to compare */
    for (i = 0; i < r.n_params; i++) two[i] -= one[i];
    CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs, 4, dphi, two),
              METATUNE_OK);
    CHECK_NEAR(max_diff(phi, two, r.width), 0, TOL(2e-5, 1e-12));
    CHECK(max_diff(one, two, r.n_params) > 0.1);
    /* gradient of a batch = sum of its graphs' */
    memset(two, 0, r.n_params * sizeof *two);
    for (i = 0; i < 4; i++) {
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, graphs + i, 1, phi),
                  METATUNE_OK);
        CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs + i, 1,
                                        dphi + i * r.width, two), METATUNE_OK);
    }
    CHECK_NEAR(max_diff(one, two, r.n_params), 0, TOL(2e-5, 1e-12));
    /* mean_backward: += in both, either may be NULL */
    {
        real dmu[4] = { 1, 2, 3, -1 };
        real *a = reals(4 * r.width), *g = reals(r.n_params);
        const size_t out = r.n_params - r.width;
        a[0] = 5;
        g[out] = 7;
        metatune_gnn_mean_backward(&c, r.params, dphi, 4, dmu, a, NULL);
        CHECK_NEAR(a[0], 5 + (double)r.params[out], 1e-6);
        CHECK_NEAR(a[r.width + 1], 2 * (double)r.params[out + 1], 1e-6);
        metatune_gnn_mean_backward(&c, r.params, dphi, 4, dmu, NULL, g);
        CHECK_NEAR(g[out], 7 + (double)dphi[0] + 2 * (double)dphi[r.width] +
                   3 * (double)dphi[2 * r.width] - (double)dphi[3 * r.width],
                   1e-5);
        CHECK(same((double)g[out - 1], 0));
        free(a);
        free(g);
    }
    free(phi);
    free(dphi);
    free(one);
    free(two);
    free(h);
    rig_close(&r);
}

/* ----------------------------------------------------------- invariance */

static void test_permutation(void)
{
    int conv, t;
    double worst = 0, least = 1e9;
    hand *a = (hand *)alloc(sizeof *a), *b = (hand *)alloc(sizeof *b);

    for (conv = 0; conv < 2; conv++)
    for (t = 0; t < 20; t++) {
        metatune_encode_rng rng = seeded((uint64_t)(300 + conv * 50 + t));
        metatune_gnn_config c = small_config(conv, 7);
        const metatune_encode_graph *ga = &a->g, *gb = &b->g;
        const int n = 2 + below(&rng, 19), f = 11;
        int perm[MAX_V], v, i, e = 0;
        rig r;
        real *pa, *pb;

        rig_open(&r, &c, 5);
        pa = reals(r.width);
        pb = reals(r.width);
        hand_random(a, n, f, 0.35, 0.3, &rng);
        for (v = 0; v < n; v++) perm[v] = v; /* new slot -> old slot */
        for (v = n - 1; v > 0; v--) {
            const int u = below(&rng, v + 1), keep = perm[v];
            perm[v] = perm[u];
            perm[u] = keep;
        }
        *b = *a;
        hand_bind(b, n);
        for (v = 0; v < n; v++) {
            int u, w;
            b->present[v] = a->present[perm[v]];
            memcpy(b->x + v * f, a->x + perm[v] * f, (size_t)f * sizeof(real));
            b->row[v] = (uint16_t)e;
            /* neighbours backwards, too: their order must not matter */
            for (u = a->row[perm[v] + 1] - 1; u >= a->row[perm[v]]; u--)
                for (w = 0; w < n; w++)
                    if (perm[w] == a->col[u]) b->col[e++] = (uint16_t)w;
        }
        b->row[n] = (uint16_t)e;
        CHECK_INT(e, a->row[n]);
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, &ga, 1, pa),
                  METATUNE_OK);
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, &gb, 1, pb),
                  METATUNE_OK);
        if (max_diff(pa, pb, r.width) > worst)
            worst = max_diff(pa, pb, r.width);
        /* and the edges do count: isolate every node */
        for (v = i = 0; v < n; v++)
            for (e = a->row[v]; e < a->row[v + 1]; e++)
                i += a->present[v] && a->present[a->col[e]];
        memset(b->row, 0, sizeof b->row);
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, &gb, 1, pb),
                  METATUNE_OK);
        if (i > 2 && max_diff(pa, pb, r.width) < least)
            least = max_diff(pa, pb, r.width);
        free(pa);
        free(pb);
        rig_close(&r);
    }
    printf("    seeds 300..369: permuted differ by %g, without edges by %g\n",
           worst, least);
    CHECK_NEAR(worst, 0, TOL(5e-6, 1e-13));
    CHECK(least > 1e-4 && least < 1e9);
    free(a);
    free(b);
}

static void test_absent(void)
{
    int conv, t;
    hand *a = (hand *)alloc(sizeof *a), *b = (hand *)alloc(sizeof *b);

    for (conv = 0; conv < 2; conv++)
    for (t = 0; t < 20; t++) {
        metatune_encode_rng rng = seeded((uint64_t)(400 + conv * 50 + t));
        metatune_gnn_config c = small_config(conv, 7);
        const metatune_encode_graph *ga = &a->g, *gb = &b->g;
        const int n = 4 + below(&rng, 17), f = 11;
        int slot[MAX_V], v, u, e, i, m = 0;
        rig r;
        real *pa, *pb;

        rig_open(&r, &c, 6);
        pa = reals(r.width);
        pb = reals(r.width);
        hand_random(a, n, f, 0.35, 0.4, &rng);
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, &ga, 1, pa),
                  METATUNE_OK);
        /* garbage in all that belongs to absent slots */
        *b = *a;
        hand_bind(b, n);
        for (v = 0; v < n; v++) {
            if (b->present[v]) continue;
            for (i = 0; i < f; i++)
                b->x[v * f + i] = i & 1 ? (real)NAN : (real)1e30;
            for (e = b->row[v]; e < b->row[v + 1]; e++) b->col[e] = 0xffff;
        }
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, &gb, 1, pb),
                  METATUNE_OK);
        CHECK(all_same(pa, pb, r.width));
        /* the graph of only its present slots */
        for (v = 0; v < n; v++) slot[v] = a->present[v] ? m++ : -1;
        memset(b->present, 1, sizeof b->present);
        hand_bind(b, m);
        for (v = u = e = 0; v < n; v++) {
            if (slot[v] < 0) continue;
            memcpy(b->x + u * f, a->x + v * f, (size_t)f * sizeof(real));
            b->row[u++] = (uint16_t)e;
            for (i = a->row[v]; i < a->row[v + 1]; i++)
                if (slot[a->col[i]] >= 0)
                    b->col[e++] = (uint16_t)slot[a->col[i]];
        }
        b->row[u] = (uint16_t)e;
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, &gb, 1, pb),
                  METATUNE_OK);
        CHECK(all_same(pa, pb, r.width));
        /* but a present slot matters */
        b->x[0] += 1;
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, &gb, 1, pb),
                  METATUNE_OK);
        CHECK(!all_same(pa, pb, r.width));
        free(pa);
        free(pb);
        rig_close(&r);
    }
    free(a);
    free(b);
}

#define BATCH_N 70

static void test_batch(void)
{
    hand *h = (hand *)alloc(BATCH_N * sizeof *h);
    const metatune_encode_graph *graphs[BATCH_N];
    int conv, t;

    for (conv = 0; conv < 2; conv++) {
        metatune_encode_rng rng = seeded((uint64_t)(500 + conv));
        metatune_gnn_config c = small_config(conv, 7);
        real *one, *all;
        int32_t densest;
        rig r, s;
        size_t i;

        c.cap_batch = 1;
        rig_open(&r, &c, 9);
        hands_random(h, graphs, BATCH_N, 20, 11, &rng);
        one = reals(BATCH_N * r.width);
        all = reals(BATCH_N * r.width + 1);
        densest = 0;
        for (i = 0; i < BATCH_N; i++) {
            int32_t edges = 0, v, e;
            for (v = 0; v < h[i].g.n_nodes; v++)
                for (e = h[i].row[v]; e < h[i].row[v + 1]; e++)
                    edges += h[i].present[v] && h[i].present[h[i].col[e]];
            if (edges > densest) densest = edges;
            CHECK_INT(metatune_gnn_forward(&r.net, r.params, graphs + i, 1,
                                           one + i * r.width), METATUNE_OK);
        }
        for (t = 0; t < 6; t++) {
            static const int32_t batch[6] = { 1, 3, 8, 64, 70, 70 };
            c.cap_batch = batch[t];
            /* 64: groups have room for few times cap_edges, many graphs, so
               with barely enough for the densest they close on edges */
            c.cap_nodes = t == 3 || t == 4 ? 64 : 20;
            c.cap_edges = t == 4 ? densest : 400;
            c.train = t == 5;
            rig_open(&s, &c, 9);
            memset(all, 0, (BATCH_N * r.width + 1) * sizeof *all);
            all[BATCH_N * r.width] = 42;
            CHECK_INT(metatune_gnn_forward(&s.net, r.params, graphs, BATCH_N,
                                           all), METATUNE_OK);
            CHECK_NEAR(max_diff(one, all, BATCH_N * r.width), 0,
                       TOL(2e-6, 1e-13));
            CHECK(same((double)all[BATCH_N * r.width], 42));
            for (i = 0; i < BATCH_N; i++)
                CHECK(same((double)all[i * r.width + r.width - 1], 1));
            rig_close(&s);
        }
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, graphs, 0, NULL),
                  METATUNE_OK);
        free(one);
        free(all);
        rig_close(&r);
    }
    free(h);
}

static void test_bad_graph(void)
{
    metatune_encode_rng rng = seeded(31);
    metatune_gnn_config c = small_config(0, 3);
    hand *h = (hand *)alloc(8 * sizeof *h);
    const metatune_encode_graph *graphs[8];
    real *phi;
    rig r;
    int train, v;

    for (train = 0; train < 2; train++) {
        c.train = train;
        c.cap_edges = 60;
        rig_open(&r, &c, 1);
        phi = reals(8 * r.width);
        hands_random(h, graphs, 8, 10, 11, &rng);
#define FORWARD(n) metatune_gnn_forward(&r.net, r.params, graphs, (n), phi)
        hand_random(&h[1], 20, 11, 0, 0, &rng);
        CHECK_INT(FORWARD(6), METATUNE_OK);
        CHECK_INT(FORWARD(7), train ? METATUNE_CAPACITY : METATUNE_OK);
        h[1].g.n_nodes = 21;
        CHECK_INT(FORWARD(2), METATUNE_CAPACITY);
        CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs, 2, phi, phi),
                  METATUNE_BAD_ARG);
        h[1].g.n_nodes = 0;
        CHECK_INT(FORWARD(2), METATUNE_BAD_ARG);
        h[1].g.n_nodes = -5;
        CHECK_INT(FORWARD(2), METATUNE_BAD_ARG);
        hand_random(&h[1], 9, 11, 0.4, 0, &rng); /* 72 edges would be full */
        CHECK_INT(FORWARD(2), METATUNE_OK);
        memset(h[1].present, 0, sizeof h[1].present);
        CHECK_INT(FORWARD(2), METATUNE_BAD_ARG);
        memset(h[1].present, 1, sizeof h[1].present);
        h[1].col[h[1].row[9] - 1] = 9;
        CHECK_INT(FORWARD(2), METATUNE_BAD_ARG);
        h[1].col[h[1].row[9] - 1] = 0;
        CHECK_INT(FORWARD(2), METATUNE_OK);
        h[1].row[4] = 0xffff;
        CHECK(FORWARD(2) != METATUNE_OK);
        hand_random(&h[1], 9, 11, 2, 0, &rng); /* all 72 edges, 60 allowed */
        CHECK_INT(FORWARD(2), METATUNE_CAPACITY);
        h[1].present[3] = 0; /* 56 between present ones */
        CHECK_INT(FORWARD(2), METATUNE_OK);
        /* a lone node has no neighbours to average */
        memset(h[1].present, 0, sizeof h[1].present);
        h[1].present[3] = 1;
        CHECK_INT(FORWARD(2), METATUNE_OK);
        for (v = 0; v < (int)(2 * r.width); v++)
            CHECK(fabs((double)phi[v]) < 1e6);
        graphs[1] = NULL;
        CHECK_INT(FORWARD(2), METATUNE_BAD_ARG);
        graphs[1] = &h[1].g;
        h[1].g.x = NULL;
        CHECK_INT(FORWARD(2), METATUNE_BAD_ARG);
        hand_bind(&h[1], 9);
        CHECK_INT(metatune_gnn_forward(&r.net, NULL, graphs, 1, phi),
                  METATUNE_BAD_ARG);
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, graphs, 1, NULL),
                  METATUNE_BAD_ARG);
        CHECK_INT(metatune_gnn_forward(&r.net, r.params, NULL, 1, phi),
                  METATUNE_BAD_ARG);
        CHECK_INT(FORWARD(2), METATUNE_OK);
        if (!train)
            CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs, 2, phi,
                                            phi), METATUNE_BAD_ARG);
#undef FORWARD
        free(phi);
        rig_close(&r);
    }
    free(h);
}

/* ----------------------------------------------------- losses, optimisers */

static void test_losses(void)
{
    const real mu[3] = { 1, -2, 3 }, y[3] = { (real)0.5, 1, 3 };
    const real var[3] = { 2, (real)0.5, 1 }, w[3] = { 1, 0, 3 };
    const real none[3] = { 0, 0, 0 };
    real dmu[3], dvar[3];

    /* residuals 0.5, -3, 0 */
    CHECK_NEAR(metatune_gnn_loss_squared(mu, y, NULL, 3, dmu),
               (0.125 + 4.5) / 3, 1e-12);
    CHECK_NEAR(dmu[0], 0.5 / 3, 1e-6);
    CHECK_NEAR(dmu[1], -1, 1e-6);
    CHECK_NEAR(metatune_gnn_loss_squared(mu, y, w, 3, dmu), 0.125 / 4, 1e-12);
    CHECK_NEAR(dmu[0], 0.125, 1e-6);
    CHECK(same((double)dmu[1], 0));
    CHECK_NEAR(metatune_gnn_loss_smooth_l1(mu, y, NULL, 3, dmu),
               (0.125 + 2.5) / 3, 1e-12);
    CHECK_NEAR(dmu[0], 0.5 / 3, 1e-6);
    CHECK_NEAR(dmu[1], -1.0 / 3, 1e-6);
    CHECK_NEAR(metatune_gnn_loss_smooth_l1(mu, y, w, 3, NULL), 0.125 / 4,
               1e-12);
    CHECK_NEAR(metatune_gnn_loss_gaussian(mu, var, y, NULL, 3, dmu, dvar),
               (log(2.0) + 0.125 + log(0.5) + 18 + 0) / 6, 1e-12);
    CHECK_NEAR(dmu[0], 0.25 / 3, 1e-6);
    CHECK_NEAR(dmu[1], -2, 1e-6);
    CHECK_NEAR(dvar[0], (1.0 / 2 - 0.25 / 4) / 6, 1e-6);
    CHECK_NEAR(dvar[1], (1.0 / 0.5 - 9 / 0.25) / 6, 1e-6);
    CHECK_NEAR(dvar[2], 1.0 / 6, 1e-6);
    CHECK_NEAR(metatune_gnn_loss_gaussian(mu, var, y, w, 3, NULL, NULL),
               (log(2.0) + 0.125) / 8, 1e-12);
    /* nothing to weigh */
    CHECK(same(metatune_gnn_loss_squared(mu, y, none, 3, dmu), 0));
    CHECK(same((double)dmu[0], 0) && same((double)dmu[1], 0));
    CHECK(same(metatune_gnn_loss_smooth_l1(mu, y, NULL, 0, NULL), 0));
}

static void test_loss_derivatives(void)
{
    metatune_encode_rng rng = seeded(61);
    real mu[9], y[9], var[9], w[9], dmu[9], dvar[9];
    int kind, i, t;

    for (t = 0; t < 10; t++)
    for (kind = 0; kind < 3; kind++) {
#define LOSS(a, b)                                                          \
    (kind == 0   ? metatune_gnn_loss_squared(mu, y, w, 9, (a))              \
     : kind == 1 ? metatune_gnn_loss_smooth_l1(mu, y, w, 9, (a))            \
                 : metatune_gnn_loss_gaussian(mu, var, y, w, 9, (a), (b)))
        for (i = 0; i < 9; i++) {
            mu[i] = (real)(2 * sym(&rng));
            y[i] = (real)(2 * sym(&rng));
            var[i] = (real)(0.3 + unit(&rng));
            w[i] = (real)unit(&rng);
        }
        (void)LOSS(dmu, dvar);
        for (i = 0; i < 18; i++) {
            real *const at = i < 9 ? &mu[i] : &var[i - 9];
            const real keep = *at, step = (real)1e-5;
            const double want = (double)(i < 9 ? dmu[i] : dvar[i - 9]);
            double hi, lo;
            if (i >= 9 && kind != 2) break;
            /* the kink of the second derivative is 1e-5 wide */
            *at = keep + step;
            hi = LOSS(NULL, NULL);
            *at = keep - step;
            lo = LOSS(NULL, NULL);
            *at = keep;
            CHECK_NEAR((hi - lo) / (2e-5), want, 1e-6 * (0.1 + fabs(want)));
        }
#undef LOSS
    }
}

static void test_optimisers(void)
{
    real p[3] = { 1, -2, 3 }, g[3] = { 3, 0, -4 };
    const double p0[3] = { 1, -2, 3 };
    double mem[16], m[3] = { 0, 0, 0 }, v[3] = { 0, 0, 0 }, q[3];
    metatune_gnn_adam adam;
    int i, t;

    CHECK_NEAR(metatune_gnn_clip(g, 3, 0), 5, 1e-6);
    CHECK_NEAR(metatune_gnn_clip(g, 3, 10), 5, 1e-6);
    CHECK(same((double)g[0], 3));
    CHECK_NEAR(metatune_gnn_clip(g, 3, 1), 5, 1e-6);
    CHECK_NEAR(g[0], 0.6, 1e-6);
    CHECK_NEAR(g[2], -0.8, 1e-6);
    CHECK_NEAR(metatune_gnn_clip(g, 3, 0), 1, 1e-6);

    metatune_gnn_sgd_step(p, g, 3, 0.5);
    CHECK_NEAR(p[0], 0.7, 1e-6);
    CHECK_NEAR(p[1], -2, 1e-12);
    CHECK_NEAR(p[2], 3.4, 1e-6);

    CHECK_INT(metatune_gnn_adam_init(&adam, 3, mem, sizeof mem), METATUNE_OK);
    adam.weight_decay = 0.1;
    adam.beta1 = 0.8;
    adam.beta2 = 0.95;
    for (i = 0; i < 3; i++) {
        p[i] = (real)p0[i];
        q[i] = p0[i];
    }
    for (t = 1; t <= 7; t++) {
        for (i = 0; i < 3; i++) {
            const double d = val(t * 3 + i, 3);
            g[i] = (real)d;
            m[i] = 0.8 * m[i] + 0.2 * d;
            v[i] = 0.95 * v[i] + 0.05 * d * d;
            q[i] -= 0.01 * (0.1 * q[i] +
                            m[i] / (1 - pow(0.8, t)) /
                            (sqrt(v[i] / (1 - pow(0.95, t))) + 1e-8));
        }
        CHECK_INT(metatune_gnn_adam_step(&adam, p, g, 3, 0.01), METATUNE_OK);
        for (i = 0; i < 3; i++) CHECK_NEAR(p[i], q[i], TOL(1e-6, 1e-13));
    }
    CHECK_INT(adam.t, 7);
    CHECK_INT(metatune_gnn_adam_step(&adam, p, g, 2, 0.01), METATUNE_BAD_ARG);
    CHECK_INT(metatune_gnn_adam_step(&adam, p, NULL, 3, 0.01),
              METATUNE_BAD_ARG);
    /* a first step is the rate, whatever the gradient's size */
    CHECK_INT(metatune_gnn_adam_init(&adam, 3, mem, sizeof mem), METATUNE_OK);
    for (i = 0; i < 3; i++) p[i] = 0;
    g[0] = 1000;
    g[1] = (real)-1e-3;
    g[2] = 0;
    CHECK_INT(metatune_gnn_adam_step(&adam, p, g, 3, 0.01), METATUNE_OK);
    CHECK_NEAR(p[0], -0.01, 1e-6);
    CHECK_NEAR(p[1], 0.01, 1e-6);
    CHECK(same((double)p[2], 0));
}

/* All together: the target, edges of a graph, is not in any node's row. */
static void test_learns(void)
{
    enum { N = 24 };
    int conv;
    hand *h = (hand *)alloc(N * sizeof *h);
    const metatune_encode_graph *graphs[N];

    for (conv = 0; conv < 2; conv++) {
        metatune_encode_rng rng = seeded((uint64_t)(700 + conv));
        metatune_gnn_config c = small_config(conv, 3);
        metatune_gnn_adam adam;
        real *phi, *dphi, *grad, y[N], mu[N], dmu[N];
        double first = 0, last = 0;
        void *mem;
        rig r;
        int i, t;

        c.train = 1;
        c.cap_batch = N;
        rig_open(&r, &c, 3);
        for (i = 0; i < N; i++) {
            hand_random(&h[i], 12, 11, 0.1 + 0.6 * unit(&rng), 0, &rng);
            graphs[i] = &h[i].g;
            y[i] = (real)(h[i].row[12] / 66.0 - 0.8);
        }
        phi = reals(N * r.width);
        dphi = reals(N * r.width);
        grad = reals(r.n_params);
        mem = alloc(metatune_gnn_adam_memsize(r.n_params));
        CHECK_INT(metatune_gnn_adam_init(&adam, r.n_params, mem,
                  metatune_gnn_adam_memsize(r.n_params)), METATUNE_OK);
        for (t = 0; t < 300; t++) {
            CHECK_INT(metatune_gnn_forward(&r.net, r.params, graphs, N, phi),
                      METATUNE_OK);
            metatune_gnn_mean(&c, r.params, phi, N, mu);
            last = metatune_gnn_loss_squared(mu, y, NULL, N, dmu);
            if (t == 0) first = last;
            memset(grad, 0, r.n_params * sizeof *grad);
            memset(dphi, 0, N * r.width * sizeof *dphi);
            metatune_gnn_mean_backward(&c, r.params, phi, N, dmu, dphi, grad);
            CHECK_INT(metatune_gnn_backward(&r.net, r.params, graphs, N, dphi,
                                            grad), METATUNE_OK);
            (void)metatune_gnn_clip(grad, r.n_params, 1);
            CHECK_INT(metatune_gnn_adam_step(&adam, r.params, grad, r.n_params,
                                             3e-3), METATUNE_OK);
        }
        printf("    seed %d: loss %g -> %g\n", 700 + conv, first, last);
        CHECK(last < 0.02 * first);
        free(phi);
        free(dphi);
        free(grad);
        free(mem);
        rig_close(&r);
    }
    free(h);
}

int main(void)
{
    printf("reals have %d bytes\n", (int)sizeof(real));
    RUN(test_presets);
    RUN(test_windows);
    RUN(test_bad_config);
    RUN(test_memory);
    RUN(test_params_init);
#ifndef TEST_GEMM_HOOK
    RUN(test_gemm);
#endif
    RUN(test_golden);
    if (IS_DOUBLE) RUN(test_gradients); /* float cannot tell */
    RUN(test_accumulate);
    RUN(test_permutation);
    RUN(test_absent);
    RUN(test_batch);
    RUN(test_bad_graph);
    RUN(test_losses);
    if (IS_DOUBLE) RUN(test_loss_derivatives);
    RUN(test_optimisers);
    RUN(test_learns);
#ifdef TEST_GEMM_HOOK
    if (hook_calls == 0) {
        printf("the hook was never called\n");
        return 1;
    }
#endif
    return check_report("test_gnn");
}
