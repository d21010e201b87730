/* test_host.c - network tables, the loop nests of their layers, and the
   processes that build and run kernels. Builds and runs real code: about half
   a minute. Whether all kernels are right is test_kernels.c. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1
#define METATUNE_ENCODE_IMPLEMENTATION
#include "../metatune_encode.h"
#include "../tools/targets/host_target.h"
#include "check.h"
#include "kernels_layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEED 20240501u

static metatune_encode_rng rng;
static char scratch[300];        /* a folder of this test alone */
static host_config config;       /* tmp = scratch, one short sample */
static host_layer layer;         /* large: not on the stack */

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Any valid setting, of any algorithm. */
static void random_valid(const host_kernel *k, int64_t *values)
{
    const host_knob *list = &k->knob[HOST_KNOB_ALGORITHM];
    int a = layers_pick(&rng, (int)list->n_values);

    CHECK(layers_setting(k, &rng, list->values[a], values));
}

static void algorithm_valid(const host_kernel *k, int64_t algorithm,
                            int64_t *values)
{
    host_kernel_default(k, values);
    values[HOST_KNOB_ALGORITHM] = algorithm;
    CHECK(host_kernel_repair(k, values));
}

/* ---------------------------------------------------------------- tables */

static void test_nets_csv(void)
{
    const char *shared = getenv("METATUNE_SHARED");
    char path[512], line[512];
    int seen[256] = { 0 }, rows = 0, i;
    FILE *file;

    snprintf(path, sizeof path, "%s/data/shapes/conv_shapes.csv",
             shared && shared[0] ? shared : "../shared");
    file = fopen(path, "r");
    if (!file) SKIP("no data/shapes/conv_shapes.csv (METATUNE_SHARED)");
    CHECK(nets_count() <= 256);
    while (fgets(line, sizeof line, file)) {
        char net[64], name[64];
        int n, c, h, w, k, kh, kw, sh, sw, ph, pw, g, oh, ow, count;
        double flops;
        if (sscanf(line, "%63[^,],%63[^,],%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,"
                   "%d,%d,%d,%lf,%d", net, name, &n, &c, &h, &w, &k, &kh, &kw,
                   &sh, &sw, &ph, &pw, &g, &oh, &ow, &flops, &count) != 18)
            continue;
        if (!nets_net_find(net, NULL, NULL, 0)) continue;
        rows++;
        for (i = 0; i < nets_count(); i++) {
            const nets_layer *l = nets_get(i);
            const metatune_encode_conv2d *v = &l->conv;
            if (seen[i] || strcmp(l->net, net) != 0 || v->n != n ||
                v->c != c || v->h != h || v->w != w || v->k != k ||
                v->r != kh || v->s != kw || v->stride_h != sh ||
                v->stride_w != sw || v->pad_top != ph || v->pad_left != pw ||
                v->pad_bottom != ph || v->pad_right != pw || v->groups != g ||
                l->count != count)
                continue;
            seen[i] = 1;
            CHECK_INT(metatune_encode_conv2d_out_h(v), oh);
            CHECK_INT(metatune_encode_conv2d_out_w(v), ow);
            CHECK_NEAR(metatune_encode_conv2d_flop(v), flops, 0.5);
            break;
        }
        if (i == nets_count()) printf("    no row for %s", line);
        CHECK(i < nets_count());
    }
    fclose(file);
    CHECK_INT(rows, nets_count());
    for (i = 0; i < nets_count(); i++) CHECK(seen[i]);
}

static void test_nets_find(void)
{
    char why[128], name[64];
    const nets_layer *l;
    int32_t first = -1, i, j;

    l = nets_find("resnet18/layer1", why, sizeof why);
    CHECK(l && l->conv.c == 64 && l->conv.h == 56 && l->count == 4);
    CHECK_STR(why, "");
    CHECK(!nets_find("resnet18/layr1", why, sizeof why));
    CHECK_STR(why, "no layer \"resnet18/layr1\", did you mean "
                   "\"resnet18/layer1\"?");
    CHECK(!nets_find(NULL, why, sizeof why));
    CHECK(!nets_find("", NULL, 0));
    CHECK_INT(nets_net_find("vgg16", &first, why, sizeof why), 9);
    CHECK_STR(nets_get(first)->layer, "conv1_1");
    CHECK_INT(nets_net_find("vgg19", &first, why, sizeof why), 0);
    CHECK(strstr(why, "\"vgg16\"") != NULL);
    CHECK_INT(nets_net_count(), 12);
    CHECK(nets_get(-1) == NULL && nets_get(nets_count()) == NULL);
    for (i = 0; i < nets_count(); i++) {
        for (j = 0; j < i; j++)
            CHECK(strcmp(nets_get(i)->net, nets_get(j)->net) != 0 ||
                  strcmp(nets_get(i)->layer, nets_get(j)->layer) != 0);
        snprintf(name, sizeof name, "%s/%s", nets_get(i)->net,
                 nets_get(i)->layer);
        CHECK(nets_find(name, NULL, 0) == nets_get(i));
    }
}

/* --------------------------------------------------------------- kernels */

static void test_supports(void)
{
    static host_kernel k;
    static const host_march march = { 8, 16, 0 };
    metatune_encode_conv2d c =
        metatune_encode_conv2d_make(1, 8, 8, 8, 8, 3, 3, 1, 1);
    host_march bad = march;
    char why[128];

    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_OK);
    c.groups = 8;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_OK);
    c.groups = 2;
    c.layout = METATUNE_NHWC;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_OK);
    c.layout = METATUNE_NCHWC;
    c.block = 16;
    CHECK_INT(host_kernel_init(&k, &c, &march, why, sizeof why),
              METATUNE_BAD_ARG);
    CHECK(strstr(why, "block") != NULL);
    c.block = 8;
    CHECK_INT(host_kernel_init(&k, &c, &march, why, sizeof why),
              METATUNE_OK);
    CHECK_INT(k.march.threads, 1);
    bad.lanes = 5;
    CHECK_INT(host_kernel_init(&k, &c, &bad, why, sizeof why),
              METATUNE_BAD_ARG);
    CHECK(strstr(why, "lanes") != NULL);
    bad = march;
    bad.threads = 9;
    CHECK_INT(host_kernel_init(&k, &c, &bad, NULL, 0), METATUNE_BAD_ARG);
    c.dtype_in = METATUNE_I8;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_ARG);
    CHECK(strstr(why, "i8") != NULL);
    c.dtype_out = c.dtype_acc = METATUNE_I32;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_OK);
    c.fused = METATUNE_FUSED_RELU;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_ARG);
    CHECK(strstr(why, "fused") != NULL);
    c.fused = 0;
    c.r = 30;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_SHAPE);
    CHECK(why[0] != 0);
    c = metatune_encode_conv2d_make(64, 4096, 512, 512, 8, 3, 3, 1, 1);
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_ARG);
}

/* Product of the trips of one axis over a loop and those around it. */
static double axis_trips(const metatune_encode_nest *nest, int32_t loop,
                         int32_t axis)
{
    double p = 1;

    for (; loop >= 0; loop = nest->loop[loop].parent)
        if (nest->loop[loop].axis == axis) p *= nest->loop[loop].trip;
    return p;
}

/* The loops of a direct or flat convolution cover it, exactly where they
   must. */
static void check_cover(const host_kernel *k, const int64_t *v,
                        const metatune_encode_nest *nest)
{
    int32_t i, a, fma = -1, body, lanes = k->march.lanes;

    for (i = 0; i < nest->n_stmts; i++)
        if (nest->stmt[i].kind == METATUNE_STMT_FMA) fma = i;
    CHECK(fma >= 0);
    if (fma < 0) return;
    body = nest->stmt[fma].parent;
    for (a = 0; a < nest->n_axes; a++) {
        double trips = axis_trips(nest, body, a);
        double extent = nest->axis[a].extent;
        CHECK(trips >= extent);
        /* images and kernels are exact; channels are whole vectors, and have,
           like Y and X, one unfinished tile a level at most */
        if (a == METATUNE_CONV_N || a == METATUNE_CONV_R ||
            a == METATUNE_CONV_S)
            CHECK_NEAR(trips, extent, 0);
        if (a == METATUNE_CONV_K) {
            double tile = (double)lanes * (double)v[HOST_KNOB_OCV];
            CHECK_NEAR(fmod(trips, lanes), 0, 0);
            CHECK(trips < extent + tile * (1 + (double)v[HOST_KNOB_OCT]));
        }
    }
    /* an outer loop's step is what the loops of its axis inside span */
    for (i = body; i >= 0; i = nest->loop[i].parent) {
        int32_t j, span = 1;
        for (j = body; j != i; j = nest->loop[j].parent)
            if (nest->loop[j].axis == nest->loop[i].axis)
                span *= nest->loop[j].trip;
        if (nest->loop[i].axis == METATUNE_CONV_X)
            CHECK(nest->loop[i].step <= span);
        else
            CHECK_INT(nest->loop[i].step, span);
        CHECK(nest->loop[i].trip > 1);
    }
}

static void check_describe(const metatune_encode_conv2d *conv, int32_t lanes,
                           const metatune_encode_skeleton *skeletons,
                           metatune_encode_graph *graph,
                           metatune_encode_nest *nest)
{
    static host_kernel k;
    host_march march;
    metatune_encode_totals totals;
    metatune_encode_device device;
    int64_t v[HOST_KNOBS];
    int trial;

    march.lanes = lanes;
    march.vregs = lanes == 16 ? 32 : 16;
    march.threads = 1;
    memset(&device, 0, sizeof device);
    device.size = (uint32_t)sizeof device;
    device.lanes = lanes;
    CHECK_INT(host_kernel_init(&k, conv, &march, NULL, 0), METATUNE_OK);
    CHECK_INT(host_kernel_nest_begin(&k, nest), METATUNE_OK);
    for (trial = 0; trial < 20; trial++) {
        int64_t algorithm;
        metatune_status st;
        char spec[256];
        int32_t i;
        if (trial)
            random_valid(&k, v);
        else
            host_kernel_default(&k, v);
        CHECK(host_kernel_valid(&k, v));
        algorithm = v[HOST_KNOB_ALGORITHM];
        st = host_kernel_describe(&k, v, nest);
        if (st == METATUNE_OK) st = metatune_encode_nest_check(nest);
        CHECK_INT(st, METATUNE_OK);
        CHECK_INT(nest->skeleton, algorithm);
        if (st != METATUNE_OK) {
            metatune_encode_conv2d_spec(conv, spec, sizeof spec);
            printf("    %s, lanes=%d: %s\n",
                   host_algorithm_name((int32_t)algorithm), (int)lanes, spec);
            return;
        }
        if (algorithm <= HOST_FLAT && conv->groups == 1)
            check_cover(&k, v, nest);
        CHECK_INT(metatune_encode_totals_derive(nest, &device, &totals),
                  METATUNE_OK);
        CHECK(totals.flop > 0 && totals.accumulators > 0);
        CHECK_INT(metatune_encode_graph_fill(graph, nest,
                                             &skeletons[algorithm], NULL),
                  METATUNE_OK);
        for (i = 0; i < graph->n_nodes * METATUNE_ENCODE_NODE_FEATURES; i++)
            CHECK(fabs((double)graph->x[i]) < 100);
    }
}

/* Every layer of every network, in every width. */
static void test_describe(void)
{
    static const int32_t lanes[4] = { 16, 8, 4, 1 };
    metatune_encode_config cfg = { HOST_NODES, 0, 0 };
    metatune_encode_skeleton skeleton[HOST_ALGORITHMS];
    metatune_encode_graph graph;
    metatune_encode_nest nest;
    void *mem[HOST_ALGORITHMS], *graph_mem, *nest_mem;
    size_t bytes = metatune_encode_nest_memsize(&cfg);
    int32_t a, i, j;

    nest_mem = malloc(bytes);
    CHECK_INT(metatune_encode_nest_init(&nest, &cfg, nest_mem, bytes),
              METATUNE_OK);
    bytes = metatune_encode_skeleton_memsize(&cfg);
    for (a = 0; a < HOST_ALGORITHMS; a++) {
        mem[a] = malloc(bytes);
        CHECK_INT(metatune_encode_skeleton_init(&skeleton[a], &cfg, mem[a],
                                                bytes), METATUNE_OK);
        CHECK_INT(host_kernel_skeleton(a, &nest), METATUNE_OK);
        CHECK_INT(metatune_encode_skeleton_build(&skeleton[a], &nest),
                  METATUNE_OK);
    }
    bytes = metatune_encode_graph_memsize(&cfg);
    graph_mem = malloc(bytes);
    CHECK_INT(metatune_encode_graph_init(&graph, &cfg, graph_mem, bytes),
              METATUNE_OK);
    for (j = 0; j < 4; j++)
        for (i = 0; i < nets_count(); i++)
            check_describe(&nets_get(i)->conv, lanes[j], skeleton, &graph,
                           &nest);
    for (a = 0; a < HOST_ALGORITHMS; a++) free(mem[a]);
    free(graph_mem);
    free(nest_mem);
}

static void test_emit_bounds(void)
{
    metatune_encode_conv2d c = nets_find("alexnet/conv1", NULL, 0)->conv;
    static host_kernel k;
    static const host_march march = { 16, 32, 1 };
    static char source[HOST_SOURCE_BYTES], cut[HOST_SOURCE_BYTES];
    int64_t v[HOST_KNOBS];
    size_t n, longest = 0, cap;
    int i;

    CHECK_INT(host_kernel_init(&k, &c, &march, NULL, 0), METATUNE_OK);
    for (i = 0; i < 300; i++) {
        random_valid(&k, v);
        n = host_kernel_emit(&k, v, "name", source, sizeof source);
        CHECK(n > 0 && n == strlen(source));
        if (n > longest) longest = n;
    }
    CHECK(longest < HOST_SOURCE_BYTES / 2);
    for (cap = 0; cap <= n + 1; cap += cap < 40 || cap + 40 > n ? 1 : 37) {
        size_t got = host_kernel_emit(&k, v, "name", cut, cap);
        CHECK(got == (cap > n ? n : 0));
    }
    CHECK_STR(cut, source);
}

/* ------------------------------------------------- kernels, really built */

/* The batch is built and run in children, output poisoned and guarded. */
static void check_config(const host_config *cfg, int layers, int settings)
{
    int64_t values[8 * HOST_KNOBS];
    host_result result[8];
    host_run run;
    host_error error;
    int i, j;

    if (host_run_open(&run, cfg, &error) != METATUNE_OK) {
        /* illegal here: the cpu or the compiler lacks it */
        printf("    -march=%s left out: %s\n",
               cfg->march ? cfg->march : "native", error.line);
        CHECK(cfg->march != NULL);
        return;
    }
    if (cfg->lanes) CHECK_INT(run.platform.march.lanes, cfg->lanes);
    for (i = 0; i < layers; i++) {
        metatune_encode_conv2d c =
            layers_random(&rng, run.platform.march.lanes);
        char spec[256];
        metatune_encode_conv2d_spec(&c, spec, sizeof spec);
        CHECK_INT(host_layer_open(&layer, &run, &c, SEED + (uint64_t)i,
                                  &error), METATUNE_OK);
        CHECK_INT(layer.kernel.march.threads,
                  cfg->threads ? cfg->threads : 1);
        for (j = 0; j < settings; j++)
            if (j)
                random_valid(&layer.kernel, values + j * HOST_KNOBS);
            else
                host_kernel_default(&layer.kernel, values);
        CHECK_INT(host_run_measure(&run, &layer, values, settings, result),
                  METATUNE_OK);
        for (j = 0; j < settings; j++) {
            CHECK_INT(result[j].status, METATUNE_OK);
            if (result[j].status != METATUNE_OK)
                printf("    %s %s: %s\n",
                       host_algorithm_name((int32_t)values[j * HOST_KNOBS]),
                       spec, result[j].error);
            else
                CHECK(result[j].time_s > 0 && result[j].n_samples == 1);
        }
        host_layer_close(&layer);
    }
    host_run_close(&run);
}

static void check_march(const char *march, int layers, int settings)
{
    host_config cfg = config;

    cfg.march = march;
    check_config(&cfg, layers, settings);
}

static void test_kernels_native(void) { check_march(NULL, 12, 3); }
static void test_kernels_avx2(void) { check_march("x86-64-v3", 4, 3); }
static void test_kernels_sse(void) { check_march("x86-64-v2", 3, 3); }

static void test_kernels_lanes(void)
{
    host_config cfg = config;

    for (cfg.lanes = 16; cfg.lanes > 1; cfg.lanes /= 2)
        if (cfg.lanes != 2) check_config(&cfg, 1, 3);
    cfg.lanes = 1;
    check_config(&cfg, 2, 3);
}

/* Also more of them than there are cores. */
static void test_kernels_threads(void)
{
    host_config cfg = config;

    cfg.threads = 2;
    check_config(&cfg, 5, 3);
    cfg.threads = 8;
    check_config(&cfg, 2, 3);
}

static void write_file(const char *path, const char *text, int executable)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    if (!file) return;
    fputs(text, file);
    fclose(file);
    if (executable) chmod(path, 0700);
}

/* Move one knob to another of its values, so that the setting stays valid. */
static void change(const host_kernel *k, int knob, int64_t *values)
{
    int64_t old = values[knob];
    uint32_t i;

    for (i = 0; i < k->knob[knob].n_values; i++) {
        values[knob] = k->knob[knob].values[i];
        if (values[knob] != old && host_kernel_valid(k, values)) return;
    }
    values[knob] = old;
    check_fault(__FILE__, __LINE__, "no other value is valid");
}

static void test_cache(void)
{
    metatune_encode_conv2d c =
        metatune_encode_conv2d_make(1, 32, 12, 12, 64, 3, 3, 1, 1);
    int64_t v[5 * HOST_KNOBS];
    host_result result[5];
    host_run run;
    host_error error;
    char so[700];
    int i;

    CHECK_INT(host_run_open(&run, &config, &error), METATUNE_OK);
    if (error.status) return;
    CHECK_INT(host_layer_open(&layer, &run, &c, SEED, &error), METATUNE_OK);
    for (i = 0; i < 5; i++)
        algorithm_valid(&layer.kernel, HOST_DIRECT, v + i * HOST_KNOBS);
    /* 1: another cache tile, the same micro kernel; 3: not a setting;
       4: another micro kernel */
    change(&layer.kernel, HOST_KNOB_OHT, v + 1 * HOST_KNOBS);
    v[3 * HOST_KNOBS + HOST_KNOB_UNROLL] = 1000;
    change(&layer.kernel, HOST_KNOB_PREFETCH, v + 4 * HOST_KNOBS);
    CHECK_INT(host_run_measure(&run, &layer, v, 5, result), METATUNE_OK);
    CHECK_INT(result[0].status, METATUNE_OK);
    CHECK_INT(result[1].status, METATUNE_OK);
    CHECK_INT(result[2].status, METATUNE_OK);
    CHECK_INT(result[3].status, METATUNE_CONSTRAINT);
    CHECK_INT(result[4].status, METATUNE_OK);
    CHECK(!result[0].cached && result[0].build_s > 0);
    CHECK(result[1].cached && result[2].cached && !result[4].cached);
    CHECK_INT(run.n_built, 2);
    CHECK_INT(host_run_measure(&run, &layer, v, 1, result), METATUNE_OK);
    CHECK(result[0].cached && result[0].status == METATUNE_OK);
    CHECK_INT(run.n_built, 2);
    CHECK_INT(host_run_measure(&run, &layer, v, 0, result),
              METATUNE_BAD_ARG);
    /* a library alone: in the cache, new, and none */
    CHECK_INT(host_run_library(&run, &layer, v, so, sizeof so, result),
              METATUNE_OK);
    CHECK(result[0].cached && access(so, R_OK) == 0);
    change(&layer.kernel, HOST_KNOB_OWT, v);
    CHECK_INT(host_run_library(&run, &layer, v, so, sizeof so, result),
              METATUNE_OK);
    CHECK(!result[0].cached && access(so, R_OK) == 0);
    CHECK_INT(run.n_built, 3);
    CHECK_INT(host_run_library(&run, &layer, v + 3 * HOST_KNOBS, so,
                               sizeof so, result), METATUNE_CONSTRAINT);
    CHECK(result[0].error[0] != 0);
    host_layer_close(&layer);
    host_run_close(&run);
}

/* ------------------------------------------------------------- processes */

static host_run bad_run;
static int64_t bad_values[HOST_KNOBS];
static size_t bad_out;           /* values of the output */

#define SIGNATURE "void host_entry_point(const void *vin, const void *vw, " \
    "void *vout, void *vwork, const int *outer, int phase, int part, " \
    "int parts)\n"
#define IGNORE "(void)vin; (void)vw; (void)vout; (void)vwork; (void)outer; " \
    "(void)phase; (void)part; (void)parts;"

/* Run hand-written code in the kernel's place. */
static metatune_status run_source(const char *source, host_result *result)
{
    char so[700];

    if (host_run_build(&bad_run, source, so, sizeof so, result) ==
        METATUNE_OK)
        host_run_time(&bad_run, &layer, bad_values, so, result);
    return result->status;
}

/* `before` runs first, then the true kernel, then `after`. */
static metatune_status run_wrapped(const char *before, const char *after,
                                   host_result *result)
{
    static char source[HOST_SOURCE_BYTES + 4096];
    size_t n;

    n = (size_t)snprintf(source, sizeof source, "#include <stdio.h>\n"
                         "#include <stdlib.h>\n#include <string.h>\n"
                         "#include <unistd.h>\n#include <signal.h>\n");
    n += host_kernel_emit_outer(&layer.kernel, bad_values, "real_kernel",
                                source + n, HOST_SOURCE_BYTES);
    snprintf(source + n, sizeof source - n, SIGNATURE "{\n"
             "    const float *in = vin, *w = vw;\n"
             "    float *out = vout, *work = vwork;\n    %s\n"
             "    real_kernel(in, w, out, work, outer, phase, part, parts);\n"
             "    %s\n}\n", before, after);
    return run_source(source, result);
}

static int process_gone(const char *pid_file)
{
    char path[64], state = 0;
    long pid = 0;
    int tries;
    FILE *file = fopen(pid_file, "r");

    if (!file) return 0;
    if (fscanf(file, "%ld", &pid) != 1) pid = 0;
    fclose(file);
    unlink(pid_file);
    if (pid <= 1) return 0;
    for (tries = 0; tries < 100; tries++) {
        if (kill((pid_t)pid, 0) && errno == ESRCH) return 1;
        /* dead and waiting for init is gone, too */
        snprintf(path, sizeof path, "/proc/%ld/stat", pid);
        file = fopen(path, "r");
        if (!file) return 1;
        if (fscanf(file, "%*d %*[^)]) %c", &state) != 1) state = 0;
        fclose(file);
        if (state == 'Z' || state == 'X') return 1;
        usleep(10000);
    }
    return 0;
}

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    if (!dir) return -1;
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

/* A layer with lanes past its last channel, and a setting with a workspace.
   0 and the reason when that failed: nothing can be tested then. */
static int open_bad_layer(const host_config *cfg, int32_t dtype)
{
    metatune_encode_conv2d c =
        metatune_encode_conv2d_make(1, 16, 9, 9, 20, 3, 3, 1, 1);
    host_error error;

    if (host_run_open(&bad_run, cfg, &error) == METATUNE_OK) {
        c.layout = METATUNE_NCHWC;
        c.block = bad_run.platform.march.lanes;
        c.dtype_in = dtype;
        if (dtype == METATUNE_I8) c.dtype_out = c.dtype_acc = METATUNE_I32;
        host_layer_open(&layer, &bad_run, &c, SEED, &error);
    }
    if (error.status) {
        printf("    %s\n", error.line);
        CHECK_INT(error.status, METATUNE_OK);
        host_run_close(&bad_run);
        return 0;
    }
    algorithm_valid(&layer.kernel, HOST_DIRECT, bad_values);
    CHECK(host_kernel_work_size(&layer.kernel, bad_values) > 0);
    bad_out = host_kernel_out_size(&layer.kernel) / 4;
    return 1;
}

static int open_bad_run(double build_s, double run_s)
{
    host_config cfg = config;

    cfg.build_s = build_s;
    cfg.run_s = run_s;
    return open_bad_layer(&cfg, METATUNE_F32);
}

static void close_bad_run(void)
{
    host_layer_close(&layer);
    host_run_close(&bad_run);
    host_run_close(&bad_run);    /* twice is safe */
}

static void test_wrong_kernels(void)
{
    host_result r;
    char text[300];

    if (!open_bad_run(20, 20)) return;
    CHECK_INT(run_wrapped("", "", &r), METATUNE_OK);
    CHECK_INT(run_source(SIGNATURE "{ " IGNORE " }\n", &r), METATUNE_WRONG);
    CHECK(strstr(r.error, "was not written") != NULL);
    snprintf(text, sizeof text, "memset(out, 0, %lu * sizeof *out);",
             (unsigned long)bad_out);
    CHECK_INT(run_wrapped("", text, &r), METATUNE_WRONG);
    CHECK(strstr(r.error, "want") != NULL);
    CHECK_INT(run_wrapped("", "out[3] += 0.01f;", &r), METATUNE_WRONG);
    CHECK_INT(run_wrapped("", "out[3] = 0.0f / (out[3] - out[3]);", &r),
              METATUNE_WRONG);
    /* halves of the output, one after the other: both are found out, the
       second cannot live on what the first has left */
    snprintf(text, sizeof text, "float *half = (float *)malloc(%lu * 4); "
             "float *all = out; out = half;", (unsigned long)bad_out);
    {
        char after[200];
        snprintf(after, sizeof after, "memcpy(all, half, %lu);",
                 (unsigned long)(bad_out * 2));
        CHECK_INT(run_wrapped(text, after, &r), METATUNE_WRONG);
        snprintf(after, sizeof after, "memcpy(all + %lu, half + %lu, %lu);",
                 (unsigned long)(bad_out / 2), (unsigned long)(bad_out / 2),
                 (unsigned long)(bad_out * 2));
        CHECK_INT(run_wrapped(text, after, &r), METATUNE_WRONG);
    }
    CHECK(strstr(r.error, "was not written") != NULL);
    CHECK_INT(run_wrapped("", "out[-1] = 0;", &r), METATUNE_WRONG);
    CHECK(strstr(r.error, "outside its output") != NULL);
    snprintf(text, sizeof text, "out[%lu] = 0;", (unsigned long)bad_out);
    CHECK_INT(run_wrapped("", text, &r), METATUNE_WRONG);
    CHECK(strstr(r.error, "outside") != NULL);
    CHECK_INT(run_wrapped("", "work[-1] = 0;", &r), METATUNE_WRONG);
    CHECK(strstr(r.error, "outside its workspace") != NULL);
    CHECK_INT(run_wrapped("", "((float *)in)[5] = 0;", &r), METATUNE_WRONG);
    CHECK(strstr(r.error, "input or weights") != NULL);
    CHECK_INT(run_wrapped("", "((float *)w)[5] = 0;", &r), METATUNE_WRONG);
    /* right once, wrong later */
    CHECK_INT(run_wrapped("static int calls;",
                          "if (calls++ > 1) out[0] += 1;", &r),
              METATUNE_WRONG);
    /* a lane that belongs to no channel must stay zero */
    if (bad_out > 20 * 9 * 9) {
        snprintf(text, sizeof text, "out[%lu] = 1;",
                 (unsigned long)(bad_out - 1));
        CHECK_INT(run_wrapped("", text, &r), METATUNE_WRONG);
        CHECK(strstr(r.error, "past the last channel") != NULL);
    }
    close_bad_run();
}

/* Integers are exact, and what was not written is told from what is wrong. */
static void test_wrong_integers(void)
{
    host_result r;
    char text[200];

    if (!open_bad_layer(&config, METATUNE_I8)) return;
    CHECK_INT(run_wrapped("", "", &r), METATUNE_OK);
    CHECK_INT(run_source(SIGNATURE "{ " IGNORE " }\n", &r), METATUNE_WRONG);
    CHECK(strstr(r.error, "was not written") != NULL);
    CHECK_INT(run_wrapped("int *sum = vout;", "sum[3] += 1;", &r),
              METATUNE_WRONG);
    CHECK(strstr(r.error, "want") != NULL);
    if (bad_out > 20 * 9 * 9) {
        snprintf(text, sizeof text, "((unsigned *)vout)[%lu] = 0x80000000u;",
                 (unsigned long)(bad_out - 1));
        CHECK_INT(run_wrapped("", text, &r), METATUNE_WRONG);
        CHECK(strstr(r.error, "past the last channel") != NULL);
    }
    CHECK_INT(run_wrapped("", "((signed char *)vwork)[-1] = 0;", &r),
              METATUNE_WRONG);
    CHECK(strstr(r.error, "outside its workspace") != NULL);
    CHECK_INT(run_wrapped("", "((signed char *)vin)[1] ^= 1;", &r),
              METATUNE_WRONG);
    CHECK(strstr(r.error, "input or weights") != NULL);
    close_bad_run();
}

/* What a thread does wrong is found out as well. */
static void test_wrong_threads(void)
{
    host_config cfg = config;
    host_result r;

    cfg.threads = 2;
    cfg.run_s = 1;
    if (!open_bad_layer(&cfg, METATUNE_F32)) return;
    CHECK_INT(run_wrapped("", "", &r), METATUNE_OK);
    CHECK_INT(run_wrapped("if (parts != 2 || phase < 0) abort();", "", &r),
              METATUNE_OK);
    CHECK_INT(run_wrapped("if (part == 1) return;", "", &r), METATUNE_WRONG);
    CHECK(strstr(r.error, "was not written") || strstr(r.error, "want"));
    CHECK_INT(run_wrapped("if (part == 1) *(volatile int *)8 = 1;", "", &r),
              METATUNE_RUNTIME);
    CHECK(strstr(r.error, "SIGSEGV") != NULL);
    CHECK_INT(run_wrapped("if (part == 1) for (;;) pause();", "", &r),
              METATUNE_TIMEOUT);
    CHECK_INT(run_wrapped("if (part == 1) for (;;) __asm__ volatile(\"\");",
                          "", &r), METATUNE_TIMEOUT);
    close_bad_run();
}

static void test_broken_kernels(void)
{
    host_result r;

    if (!open_bad_run(20, 20)) return;
    CHECK_INT(run_source(SIGNATURE "{ " IGNORE " *(volatile int *)8 = 1; }\n",
                         &r), METATUNE_RUNTIME);
    CHECK(strstr(r.error, "SIGSEGV") != NULL);
    CHECK_INT(run_wrapped("exit(0);", "", &r), METATUNE_RUNTIME);
    /* a leak checker may turn the 0 into something else */
    CHECK(strstr(r.error, "exit status ") != NULL);
    CHECK_INT(run_wrapped("_exit(3);", "", &r), METATUNE_RUNTIME);
    CHECK(strstr(r.error, "exit status 3") != NULL);
    CHECK_INT(run_wrapped("abort();", "", &r), METATUNE_RUNTIME);
    CHECK(strstr(r.error, "SIGABRT") != NULL);
    CHECK_INT(run_wrapped("raise(SIGKILL);", "", &r), METATUNE_RUNTIME);
    CHECK_INT(run_source("int other;\n", &r), METATUNE_RUNTIME);
    CHECK(strstr(r.error, "cannot load") != NULL);
    /* what it prints goes nowhere and does not block */
    CHECK_INT(run_wrapped("{ static int once; int i; if (!once++) "
                          "for (i = 0; i < 200000; i++) printf(\"0123456789"
                          "0123456789012345678901234567890\\n\"); }",
                          "fflush(stdout);", &r), METATUNE_OK);
    close_bad_run();
}

static void test_late_kernels(void)
{
    char text[800], file[400];
    host_result r;
    double t;

    if (!open_bad_run(20, 1)) return;
    t = now_s();
    CHECK_INT(run_source(SIGNATURE "{ " IGNORE
                         " for (;;) __asm__ volatile(\"\"); }\n", &r),
              METATUNE_TIMEOUT);
    CHECK(strstr(r.error, "1 s") != NULL);
    CHECK_INT(run_wrapped("signal(SIGTERM, SIG_IGN); for (;;) pause();", "",
                          &r), METATUNE_TIMEOUT);
    CHECK_INT(run_wrapped("{ int i; for (i = 0; i < 99; i++) close(i); "
                          "for (;;) pause(); }", "", &r), METATUNE_TIMEOUT);
    CHECK(now_s() - t < 3 * 1.9);
    /* its children go with it, whether it hangs or returns */
    snprintf(file, sizeof file, "%s/pid", scratch);
    snprintf(text, sizeof text,
             "static int once; if (!once++ && fork() == 0) { FILE *f = fopen("
             "\"%s\", \"w\"); fprintf(f, \"%%ld\", (long)getpid()); "
             "fclose(f); for (;;) sleep(100); } usleep(300000);", file);
    t = now_s();
    CHECK_INT(run_wrapped(text, "for (;;) pause();", &r), METATUNE_TIMEOUT);
    CHECK(process_gone(file));
    CHECK(now_s() - t < 2);
    CHECK_INT(run_wrapped(text, "out[0] += 1;", &r), METATUNE_WRONG);
    CHECK(process_gone(file));
    close_bad_run();
}

static void test_memory_limit(void)
{
    host_result r;

#if defined(__SANITIZE_ADDRESS__)
    SKIP("no address-space limit under AddressSanitizer");
#endif
    if (!open_bad_run(20, 20)) return;
    CHECK_INT(run_wrapped("char *p = (char *)malloc((size_t)4 << 30); "
                          "if (!p) abort(); p[0] = 1;", "free(p);", &r),
              METATUNE_RUNTIME);
    CHECK(strstr(r.error, "SIGABRT") != NULL);
    close_bad_run();
}

static void test_compile_errors(void)
{
    host_result r;
    char so[700];

    if (!open_bad_run(20, 20)) return;
    CHECK_INT(host_run_build(&bad_run, "#warning early\nint x = ;\n"
                             "int y = ;\n", so, sizeof so, &r),
              METATUNE_COMPILE);
    CHECK(strstr(r.error, "error") != NULL);
    CHECK(strstr(r.error, ":2:") != NULL);
    CHECK(strstr(r.error, bad_run.folder) == NULL);
    CHECK(strchr(r.error, '\n') == NULL);
    CHECK(!r.cached);
    /* a failed build is remembered, too */
    CHECK_INT(host_run_build(&bad_run, "#warning early\nint x = ;\n"
                             "int y = ;\n", so, sizeof so, &r),
              METATUNE_COMPILE);
    CHECK(r.cached && strstr(r.error, ":2:") != NULL);
    CHECK_INT(host_run_build(&bad_run, "#error " "0123456789012345678901234"
        "567890123456789012345678901234567890123456789012345678901234567890"
        "123456789012345678901234567890123456789012345678901234567890123456"
        "789012345678901234567890123456789012345678901234567890123456789012"
        "345678901234567890123456789012345678901234567890\n", so, sizeof so,
        &r), METATUNE_COMPILE);
    CHECK_INT(strlen(r.error), HOST_ERROR_BYTES - 1);
    close_bad_run();
}

/* A stand-in for the compiler: obeys until the file "mark" appears. */
static void fake_compiler(char *path, size_t cap, const char *misdeed)
{
    char text[1000];

    snprintf(path, cap, "%s/fakecc", scratch);
    snprintf(text, sizeof text, "#!/bin/sh\nif [ -e '%s/mark' ]; then\n"
             "%s\nfi\nexec cc \"$@\"\n", scratch, misdeed);
    write_file(path, text, 1);
}

static void test_bad_compilers(void)
{
    char cc[400], mark[400], pid[400], text[600], so[700];
    host_config cfg = config;
    host_error error;
    host_result r;
    host_run run;
    double t;

    cfg.cc = "no-such-compiler";
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_NOT_FOUND);
    CHECK(strstr(error.line, "no-such-compiler") != NULL);
    CHECK_STR(run.folder, "");
    cfg.cc = "true";             /* succeeds and makes nothing */
    CHECK(host_run_open(&run, &cfg, &error) != METATUNE_OK);
    CHECK(error.line[0] != 0);
    cfg.cc = "false";            /* fails and says nothing */
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_COMPILE);
    CHECK(strstr(error.line, "\"false\"") && strstr(error.line, "status 1"));
    cfg.cc = "cc";
    cfg.march = "no-such-cpu";
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_COMPILE);
    CHECK(strstr(error.line, "no-such-cpu") != NULL);
    cfg.march = NULL;
    cfg.tmp = "/no/such/folder";
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_IO);
    CHECK(strstr(error.line, "/no/such/folder") != NULL);
    cfg = config;
    cfg.lanes = 5;
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_BAD_CONFIG);
    CHECK(strstr(error.line, "lanes") != NULL);
    cfg.lanes = 0;
    cfg.threads = 9;
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_BAD_CONFIG);
    CHECK(strstr(error.line, "threads") != NULL);
    cfg = config;

    snprintf(mark, sizeof mark, "%s/mark", scratch);
    snprintf(pid, sizeof pid, "%s/pid", scratch);
    snprintf(text, sizeof text, "trap '' TERM INT HUP\n(trap '' TERM; echo "
             "$$ >%s; exec sleep 100) &\nsleep 100\nsleep 100", pid);
    fake_compiler(cc, sizeof cc, text);
    cfg.cc = cc;
    cfg.build_s = 1;
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_OK);
    write_file(mark, "", 0);
    t = now_s();
    CHECK_INT(host_run_build(&run, "int a;\n", so, sizeof so, &r),
              METATUNE_TIMEOUT);
    CHECK(now_s() - t < 2);
    CHECK(strstr(r.error, "1 s") != NULL);
    CHECK(process_gone(pid));
    host_run_close(&run);
    unlink(mark);

    /* a full disk is nobody's setting's fault, and is not remembered */
    fake_compiler(cc, sizeof cc, "echo 'as: No space left on device' >&2\n"
                  "exit 1");
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_OK);
    write_file(mark, "", 0);
    CHECK_INT(host_run_build(&run, "int a;\n", so, sizeof so, &r),
              METATUNE_NOT_RUN);
    CHECK(strstr(r.error, "TMPDIR") != NULL);
    unlink(mark);
    CHECK_INT(host_run_build(&run, "int a;\n", so, sizeof so, &r),
              METATUNE_OK);
    host_run_close(&run);

    /* floods what we listen to, a gigabyte of it */
    fake_compiler(cc, sizeof cc, "dd if=/dev/zero bs=65536 count=3000 "
                  "2>/dev/null >&2\nexit 1");
    cfg.build_s = 20;
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_OK);
    write_file(mark, "", 0);
    CHECK_INT(host_run_build(&run, "int a;\n", so, sizeof so, &r),
              METATUNE_COMPILE);
    host_run_close(&run);
    unlink(mark);
    unlink(cc);
}

static volatile sig_atomic_t cancel;

static void on_alarm(int number)
{
    (void)number;
    cancel = 1;
}

static void test_cancel(void)
{
    metatune_encode_conv2d c =
        metatune_encode_conv2d_make(1, 16, 9, 9, 20, 3, 3, 1, 1);
    int64_t v[3 * HOST_KNOBS];
    host_config cfg = config;
    host_result r, batch[3];
    host_error error;
    char so[700];
    double t;
    int i;

    cfg.cancel = &cancel;
    CHECK_INT(host_run_open(&bad_run, &cfg, &error), METATUNE_OK);
    if (error.status) return;
    CHECK_INT(host_layer_open(&layer, &bad_run, &c, SEED, &error),
              METATUNE_OK);
    host_kernel_default(&layer.kernel, bad_values);
    CHECK_INT(host_run_build(&bad_run, SIGNATURE "{ " IGNORE
                             " for (;;) __asm__ volatile(\"\"); }\n", so,
                             sizeof so, &r), METATUNE_OK);
    signal(SIGALRM, on_alarm);
    alarm(1);
    t = now_s();
    CHECK_INT(host_run_time(&bad_run, &layer, bad_values, so, &r),
              METATUNE_CANCELLED);
    CHECK(now_s() - t < 1.5);
    for (i = 0; i < 3; i++)
        memcpy(v + i * HOST_KNOBS, bad_values, sizeof bad_values);
    CHECK_INT(host_run_measure(&bad_run, &layer, v, 3, batch),
              METATUNE_CANCELLED);
    for (i = 0; i < 3; i++) CHECK_INT(batch[i].status, METATUNE_CANCELLED);
    cancel = 0;
    CHECK_INT(host_run_measure(&bad_run, &layer, v, 3, batch), METATUNE_OK);
    signal(SIGALRM, SIG_DFL);
    close_bad_run();
}

/* A clock for tests: reads advance by `tick` steps only. */
typedef struct fake_clock {
    double time, tick, cost, calls;
} fake_clock;

static double fake_now(void *user)
{
    fake_clock *c = (fake_clock *)user;

    c->time += 1e-7;             /* a look at a clock takes time, too */
    return c->tick > 0 ? floor(c->time / c->tick) * c->tick : 0;
}

static void fake_call(void *user, double reps)
{
    fake_clock *c = (fake_clock *)user;

    c->time += reps * c->cost;
    c->calls += reps;
}

static void test_sample_reps(void)
{
    fake_clock c = { 0, 1e-3, 3e-6, 0 };
    double reps = 0;

    CHECK_INT(host_sample_reps(fake_now, fake_call, &c, 2e-3, &reps),
              METATUNE_OK);
    CHECK(reps * c.cost >= 19 * c.tick && reps * c.cost < 200 * c.tick);
    c.tick = 1e-9;
    c.cost = 0.5;
    c.calls = 0;
    CHECK_INT(host_sample_reps(fake_now, fake_call, &c, 2e-3, &reps),
              METATUNE_OK);
    CHECK_NEAR(reps, 1, 0);
    CHECK_NEAR(c.calls, 1, 0);
    c.tick = 0;
    CHECK_INT(host_sample_reps(fake_now, fake_call, &c, 2e-3, &reps),
              METATUNE_INVALID_TIME);
    c.tick = 1e-4;
    c.cost = 0;                  /* a kernel that takes no time at all */
    CHECK_INT(host_sample_reps(fake_now, fake_call, &c, 2e-3, &reps),
              METATUNE_INVALID_TIME);
}

static void test_probe(void)
{
    metatune_encode_device device;
    host_config cfg = config;
    host_error error;
    host_run run;
    double peak = 0, again = 0, t;
    char key[700], cut[20];
    int i;

    CHECK_INT(host_run_open(&run, &config, &error), METATUNE_OK);
    t = now_s();
    CHECK_INT(host_run_probe(&run, &device, &peak, &error), METATUNE_OK);
    CHECK(now_s() - t < 5);
    CHECK(peak > 1e8 && peak < 1e13);
    CHECK_INT(device.size, sizeof device);
    CHECK_INT(device.lanes, run.platform.march.lanes);
    CHECK(device.cores >= 1 && device.freq_hz > 1e8 && device.freq_hz < 1e10);
    CHECK(device.bandwidth > 1e8);
    for (i = 0; i < 6; i++) CHECK(fabs(device.probe[i]) < 8);
    CHECK_INT(host_run_peak(&run, &again, &error), METATUNE_OK);
    CHECK(again > peak / 4 && again < peak * 4);
    CHECK(host_run_key(&run, key, sizeof key) == strlen(key));
    CHECK(strncmp(key, "cpu=", 4) == 0);
    CHECK(strstr(key, "lanes=") && strstr(key, "cc=") &&
          strstr(key, "-O2") && strstr(key, "threads=1"));
    CHECK_INT(host_run_key(&run, cut, sizeof cut), 0);
    host_run_close(&run);
    cfg.lanes = 4;
    cfg.threads = 3;
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_OK);
    CHECK(host_run_key(&run, key, sizeof key) == strlen(key));
    CHECK(strstr(key, "lanes=4,") && strstr(key, "threads=3"));
    host_run_close(&run);
}

/* A naive convolution by hand: 1 channel, 2x2 kernel, 2x3 image, pad 1 left,
   stride 2 wide; and two groups. */
static void test_naive(void)
{
    metatune_encode_conv2d c =
        metatune_encode_conv2d_make(1, 1, 2, 3, 1, 2, 2, 1, 0);
    const float in[6] = { 1, 2, 3, 4, 5, 6 };
    const float w[4] = { 1, 10, 100, 1000 };
    const float ones[2] = { 2, 3 };
    const signed char bytes[6] = { -128, 1, 127, 3, 4, 5 };
    const signed char edge[2] = { -128, 127 };
    float out[6];
    int32_t sums[6];

    c.pad_left = 1;
    c.stride_w = 2;
    host_naive_conv(&c, in, w, out);
    CHECK_NEAR(out[0], 4010, 0);         /* columns -1, 0 */
    CHECK_NEAR(out[1], 6532, 0);         /* columns 1, 2 */
    c = metatune_encode_conv2d_make(1, 2, 1, 3, 2, 1, 1, 1, 0);
    c.groups = 2;
    host_naive_conv(&c, in, ones, out);
    CHECK_NEAR(out[2], 6, 0);
    CHECK_NEAR(out[3], 12, 0);
    c.dtype_in = METATUNE_I8;
    c.dtype_out = c.dtype_acc = METATUNE_I32;
    host_naive_conv(&c, bytes, edge, sums);
    CHECK_INT(sums[0], 16384);
    CHECK_INT(sums[2], -16256);
    CHECK_INT(sums[3], 127 * 3);
    CHECK_NEAR(host_tolerance(&c, HOST_DIRECT), 0, 0);
}

/* A folder of the tmp folder; with a lock file or none. */
static void make_folder(const char *name, int lock)
{
    char path[400];

    snprintf(path, sizeof path, "%s/%s", scratch, name);
    CHECK_INT(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/file", scratch, name);
    write_file(path, "", 0);
    snprintf(path, sizeof path, "%s/%s/lock", scratch, name);
    if (lock) write_file(path, "", 0);
}

static int there(const char *name)
{
    char path[400];

    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return access(path, F_OK) == 0;
}

static void drop_folder(const char *name)
{
    static const char *const files[3] = { "/file", "/lock", "" };
    char path[400];
    int i;

    for (i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s%s", scratch, name, files[i]);
        remove(path);
    }
}

/* What killed runs leave is removed, what others hold is not. */
static void test_stale_folders(void)
{
    char path[400], link[400], folder[512];
    host_error error;
    host_run run, other;
    int lock, fd[2];
    pid_t pid;

    make_folder("metatune-aaaaaa", 1);   /* its owner is dead */
    make_folder("metatune-bbbbbb", 0);   /* may be about to get its lock */
    make_folder("metatune-cccccc", 1);   /* locked */
    make_folder("metatune-long-name", 1);
    make_folder("elsewhere", 1);
    snprintf(path, sizeof path, "%s/elsewhere", scratch);
    snprintf(link, sizeof link, "%s/metatune-dddddd", scratch);
    CHECK_INT(symlink(path, link), 0);
    snprintf(path, sizeof path, "%s/metatune-cccccc/lock", scratch);
    lock = open(path, O_RDWR);
    CHECK_INT(flock(lock, LOCK_EX | LOCK_NB), 0);
    CHECK_INT(host_run_open(&run, &config, &error), METATUNE_OK);
    CHECK(!there("metatune-aaaaaa"));
    CHECK(there("metatune-bbbbbb/file"));
    CHECK(there("metatune-cccccc/file"));
    CHECK(there("metatune-long-name/file"));
    CHECK(there("elsewhere/file") && there("elsewhere/lock"));
    /* a second run beside the first leaves it alone */
    CHECK_INT(host_run_open(&other, &config, &error), METATUNE_OK);
    CHECK(access(run.folder, F_OK) == 0);
    host_run_close(&other);
    CHECK(access(run.folder, F_OK) == 0);
    host_run_close(&run);
    close(lock);
    /* a run that is killed */
    CHECK_INT(pipe(fd), 0);
    pid = fork();
    if (pid == 0) {
        if (host_run_open(&run, &config, &error) ||
            write(fd[1], run.folder, sizeof run.folder) < 0)
            _exit(1);
        for (;;) pause();
    }
    close(fd[1]);
    CHECK(read(fd[0], folder, sizeof folder) == (ssize_t)sizeof folder);
    close(fd[0]);
    CHECK(access(folder, F_OK) == 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK(access(folder, F_OK) == 0);
    CHECK_INT(host_run_open(&run, &config, &error), METATUNE_OK);
    CHECK(access(folder, F_OK) != 0);
    CHECK(!there("metatune-cccccc"));    /* its lock was let go, too */
    host_run_close(&run);
    unlink(link);
    drop_folder("metatune-bbbbbb");
    drop_folder("metatune-long-name");
    drop_folder("elsewhere");
}

static int files_before;

/* After everything above: nothing is left behind. */
static void test_nothing_left(void)
{
    DIR *dir = opendir(scratch);
    struct dirent *item;
    int left = 0;

    CHECK(dir != NULL);
    while (dir && (item = readdir(dir)) != NULL)
        if (strcmp(item->d_name, ".") != 0 &&
            strcmp(item->d_name, "..") != 0) {
            printf("    left: %s\n", item->d_name);
            left++;
        }
    if (dir) closedir(dir);
    CHECK_INT(left, 0);
    CHECK_INT(open_files(), files_before);
    errno = 0;
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    int rc;

    printf("seed %u\n", SEED);
    metatune_encode_rng_init(&rng, SEED, 0);
    snprintf(scratch, sizeof scratch, "%s/test_host-XXXXXX",
             tmp && tmp[0] && strlen(tmp) < 200 ? tmp : "/tmp");
    if (!mkdtemp(scratch)) {
        perror(scratch);
        return 1;
    }
    config.tmp = scratch;
    config.samples = 1;
    config.sample_s = 1e-4;
    config.retries = -1;
    files_before = open_files();
    RUN(test_nets_csv);
    RUN(test_nets_find);
    RUN(test_supports);
    RUN(test_describe);
    RUN(test_emit_bounds);
    RUN(test_naive);
    RUN(test_sample_reps);
    RUN(test_kernels_native);
    RUN(test_kernels_avx2);
    RUN(test_kernels_sse);
    RUN(test_kernels_lanes);
    RUN(test_kernels_threads);
    RUN(test_cache);
    RUN(test_wrong_kernels);
    RUN(test_wrong_integers);
    RUN(test_wrong_threads);
    RUN(test_broken_kernels);
    RUN(test_late_kernels);
    RUN(test_memory_limit);
    RUN(test_compile_errors);
    RUN(test_bad_compilers);
    RUN(test_cancel);
    RUN(test_probe);
    RUN(test_stale_folders);
    RUN(test_nothing_left);
    rc = check_report("test_host");
    rmdir(scratch);
    return rc;
}
