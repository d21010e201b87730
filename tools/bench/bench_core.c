/* bench_core.c - how fast the headers think, on one core

   Settings scored a second: describe + encode + forward of the default preset
   on a host convolution, whole and by part, and the time of ask(8). The
   settings are of the direct algorithm on the blocked layout, a 3x3 layer: so
   that figures compare with those of before there were others. The share of
   the FMA peak counts the forward's multiply-adds only, against a probe built
   by the system compiler with -O3 -march=native, taken before, between and
   after: its maximum counts. Medians over rounds. `make bench-core` builds
   this program twice and runs both: -O2 for baseline x86-64 (or whatever the
   compiler's baseline is) and -O3 -march=native. */
#define METATUNE_IMPLEMENTATION
#include "../../metatune.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../nets.h"
#include "../targets/host_run.h"

enum { SETTINGS = 512, ROUNDS = 15 };

typedef struct bench {
    host_kernel kernel;
    metatune_encode_nest nest;
    metatune_encode_skeleton skeleton[HOST_ALGORITHMS];
    metatune_encode_device device;
    metatune_encode_graph graph[32];
    const metatune_encode_graph *at[32];
    metatune_gnn net;
    metatune_model model;
    metatune_real *phi;
    int64_t values[SETTINGS][HOST_KNOBS];
} bench;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *need(size_t bytes)
{
    void *p = bytes ? malloc(bytes) : NULL;
    if (!p) {
        fprintf(stderr, "bench_core: out of memory\n");
        exit(1);
    }
    return p;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

static metatune_status bench_describe(void *user,
                                      const metatune_problem *problem,
                                      const int64_t *values,
                                      metatune_encode_nest *nest)
{
    const bench *b = (const bench *)user;
    (void)problem;
    if (!nest->n_axes) {
        metatune_status st = host_kernel_nest_begin(&b->kernel, nest);
        if (st)
            return st;
    }
    return host_kernel_describe(&b->kernel, values, nest);
}

static int bench_valid(void *user, const metatune_problem *problem,
                       const int64_t *values)
{
    (void)problem;
    return values[HOST_KNOB_ALGORITHM] == HOST_DIRECT &&
           host_kernel_valid(&((const bench *)user)->kernel, values);
}

static int bench_repair(void *user, const metatune_problem *problem,
                        int64_t *values)
{
    (void)problem;
    values[HOST_KNOB_ALGORITHM] = HOST_DIRECT;
    return host_kernel_repair(&((const bench *)user)->kernel, values);
}

static void bench_open(bench *b, const host_run *run,
                       const metatune_encode_conv2d *conv)
{
    metatune_encode_rng rng;
    metatune_gnn_config gnn = metatune_gnn_preset(METATUNE_GNN_DEFAULT);
    metatune_encode_conv2d blocked = *conv;
    size_t bytes = metatune_encode_nest_memsize(NULL), n;
    int i, k;
    metatune_encode_nest_init(&b->nest, NULL, need(bytes), bytes);
    bytes = metatune_encode_skeleton_memsize(NULL);
    for (i = 0; i < HOST_ALGORITHMS; i++) {
        metatune_encode_skeleton_init(&b->skeleton[i], NULL, need(bytes),
                                      bytes);
        host_kernel_skeleton(i, &b->nest);
        if (metatune_encode_skeleton_build(&b->skeleton[i], &b->nest))
            exit(1);
    }
    bytes = metatune_encode_graph_memsize(NULL);
    for (i = 0; i < 32; i++) {
        metatune_encode_graph_init(&b->graph[i], NULL, need(bytes), bytes);
        b->at[i] = &b->graph[i];
    }
    gnn.cap_batch = 32;
    bytes = metatune_gnn_memsize(&gnn);
    metatune_gnn_init(&b->net, &gnn, need(bytes), bytes);
    n = metatune_model_param_count(&gnn);
    metatune_model_init(&b->model, &gnn,
                        (metatune_real *)need(n * sizeof(metatune_real)), n,
                        1);
    b->phi = (metatune_real *)need(
        32 * (size_t)metatune_gnn_phi_width(&gnn) * sizeof(metatune_real));
    blocked.layout = METATUNE_NCHWC;
    blocked.block = run->platform.march.lanes;
    if (host_kernel_init(&b->kernel, &blocked, &run->platform.march, NULL, 0))
        exit(1);
    metatune_encode_nest_clear(&b->nest);
    host_kernel_nest_begin(&b->kernel, &b->nest);
    metatune_encode_rng_init(&rng, 1, 0);
    for (i = 0; i < SETTINGS;) {
        for (k = 0; k < HOST_KNOBS; k++)
            b->values[i][k] = b->kernel.knob[k].values[
                metatune_encode_rng_below(&rng, b->kernel.knob[k].n_values)];
        i += bench_repair(b, NULL, b->values[i]);
    }
}

/* parts: 1 describe, 2 + encode, 3 + forward. Returns settings a second. */
static double bench_score(bench *b, int parts, int repeats)
{
    double start = now_s();
    int r, i, j;
    for (r = 0; r < repeats; r++)
        for (i = 0; i < SETTINGS; i += 32) {
            for (j = 0; j < 32; j++) {
                host_kernel_describe(&b->kernel, b->values[i + j], &b->nest);
                if (parts > 1 &&
                    metatune_encode_graph_fill(
                        &b->graph[j], &b->nest,
                        &b->skeleton[b->nest.skeleton], &b->device))
                    exit(1);
            }
            if (parts > 2 && metatune_gnn_forward(&b->net, b->model.params,
                                                  b->at, 32, b->phi))
                exit(1);
        }
    return (double)repeats * SETTINGS / (now_s() - start);
}

/* Multiply-adds of a forward, mean over the settings: SPLIT layers on present
   nodes, then the MLP. */
static double bench_macs(bench *b)
{
    metatune_gnn_config c;
    double sum = 0;
    int i, v, l;
    metatune_gnn_config_resolve(&b->model.gnn, &c);
    for (i = 0; i < SETTINGS; i++) {
        int present = 0, width = c.node_features;
        int in = 2 * c.hidden + c.global_features + c.device_features;
        host_kernel_describe(&b->kernel, b->values[i], &b->nest);
        metatune_encode_graph_fill(&b->graph[0], &b->nest,
                                   &b->skeleton[b->nest.skeleton],
                                   &b->device);
        for (v = 0; v < b->graph[0].n_nodes; v++)
            present += b->graph[0].present[v];
        for (l = 0; l < c.n_layers; l++, width = c.hidden)
            sum += 2.0 * present * width * c.hidden;
        for (l = 0; l < c.n_mlp; l++) {
            sum += (double)in * c.mlp[l];
            in = c.mlp[l];
        }
    }
    return sum / SETTINGS;
}

/* Median milliseconds of ask(8) after the first batch, default config. */
static double bench_ask(bench *b, int rounds)
{
    metatune_problem p;
    metatune_config cfg;
    metatune_tuner t;
    metatune_trial trial[8];
    metatune_result r;
    metatune_error e;
    size_t bytes, n, i;
    double ms[64];
    void *mem;
    int asks = 0;
    memset(&p, 0, sizeof p);
    memset(&cfg, 0, sizeof cfg);
    memset(&r, 0, sizeof r);
    p.task = p.target = "bench";
    p.knobs = b->kernel.knob;
    p.n_knobs = HOST_KNOBS;
    p.model = &b->model;
    p.device = &b->device;
    p.skeletons = b->skeleton;
    p.n_skeletons = HOST_ALGORITHMS;
    p.user = b;
    p.describe = bench_describe;
    p.valid = bench_valid;
    p.repair = bench_repair;
    cfg.trials = 8 * (uint32_t)rounds;
    cfg.no_confirm = 1;
    bytes = metatune_memsize(&cfg, &p);
    mem = need(bytes);
    if (metatune_init(&t, &cfg, &p, mem, bytes, &e))
        exit(1);
    for (;;) {
        double start = now_s();
        if (metatune_ask(&t, trial, 8, &n))
            break;
        if (trial[0].batch > 0)
            ms[asks++] = 1e3 * (now_s() - start);
        for (i = 0; i < n; i++) {
            r.value = 1e-3 * (1 + 1e-3 * (double)(trial[i].hash % 1000));
            metatune_tell(&t, trial[i].id, &r);
        }
    }
    free(mem);
    return asks ? median(ms, asks) : 0;
}

int main(int argc, char **argv)
{
    static bench b;
    host_run run;
    host_error err;
    double peak = 0, p, macs, rate[4][ROUNDS], rates[4], ask;
    const char *build = argc > 1 ? argv[1] : "unknown flags";
    int quick = argc > 2 && strcmp(argv[2], "--short") == 0;
    int rounds = quick ? 3 : ROUNDS, repeats = quick ? 4 : 40, i, parts;
    const nets_layer *layer = nets_find("resnet18/layer1", NULL, 0);
    memset(&run, 0, sizeof run);
    if (!layer || host_run_open(&run, NULL, &err) ||
        host_run_probe(&run, &b.device, &peak, &err)) {
        fprintf(stderr, "bench_core: %s\n", layer ? err.line : "no layer");
        host_run_close(&run);
        return 1;
    }
    bench_open(&b, &run, &layer->conv);
    macs = bench_macs(&b);
    for (i = 0; i < rounds; i++) {
        for (parts = 1; parts <= 3; parts++)
            rate[parts][i] = bench_score(&b, parts, repeats);
        if (!host_run_peak(&run, &p, &err) && p > peak)
            peak = p;
    }
    for (parts = 1; parts <= 3; parts++)
        rates[parts] = median(rate[parts], rounds);
    ask = bench_ask(&b, quick ? 4 : 12);
    host_run_close(&run);
    printf("%s, %s, one core, %s/%s, default preset, batches of 32\n", build,
           run.platform.cc, layer->net, layer->layer);
    printf("  scored (describe + encode + forward)  %9.0f settings/s\n",
           rates[3]);
    printf("    describe %.2f us, encode %.2f us, forward %.2f us\n",
           1e6 / rates[1], 1e6 * (1 / rates[2] - 1 / rates[1]),
           1e6 * (1 / rates[3] - 1 / rates[2]));
    printf("    %.1f k multiply-adds each: %.1f GFLOP/s, %.1f %% of the "
           "measured FMA peak (%.0f GFLOP/s)\n", macs / 1e3,
           2e-9 * macs * rates[3], 100 * 2 * macs * rates[3] / peak,
           peak * 1e-9);
    printf("  ask(8), 512 drafts, 64 chains x 100   %9.1f ms\n", ask);
    return 0;
}
