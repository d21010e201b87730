/* test_host.c - network tables, generated kernels, and the processes that
   build and run them. Builds and runs real code: about half a minute. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1
#define METATUNE_ENCODE_IMPLEMENTATION
#include "../metatune_encode.h"
#include "../tools/targets/host_target.h"
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
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

static int pick(int n)
{
    return (int)metatune_encode_rng_below(&rng, (uint64_t)n);
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int random_valid(const host_kernel *k, int64_t *values)
{
    int i, j;

    for (i = 0; i < 20000; i++) {
        for (j = 0; j < HOST_KNOBS; j++)
            values[j] = k->knob[j].values[pick((int)k->knob[j].n_values)];
        if (host_kernel_valid(k, values)) return 1;
    }
    host_kernel_default(k, values);
    return 0;
}

/* Odd, prime and tiny extents, strides beyond the kernel, padding up to it
   and different on each side, dilation. */
static metatune_encode_conv2d random_conv(void)
{
    static const int channels[] = { 1, 2, 3, 5, 7, 8, 12, 13, 16, 17, 20, 24,
                                    31, 32, 48, 64 };
    metatune_encode_conv2d c;

    for (;;) {
        c = metatune_encode_conv2d_make(1 + pick(2), channels[pick(16)],
                                        1 + pick(17), 1 + pick(33),
                                        channels[pick(16)], 1, 1, 1, 0);
        if (pick(3)) {
            c.r = 1 + pick(5);
            c.s = 1 + pick(5);
        }
        c.stride_h = 1 + pick(3);
        c.stride_w = 1 + pick(4);
        c.dil_h = 1 + pick(2);
        c.dil_w = 1 + pick(3);
        if (pick(2)) {
            c.pad_top = pick(c.r + 1);
            c.pad_bottom = pick(c.r + 1);
            c.pad_left = pick(c.s + 1);
            c.pad_right = pick(c.s + 1);
        }
        if (metatune_encode_conv2d_check(&c, NULL) == METATUNE_OK &&
            metatune_encode_conv2d_out_h(&c) > 0 &&
            metatune_encode_conv2d_out_w(&c) > 0)
            return c;
    }
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
    CHECK_INT(nets_net_count(), 5);
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
    metatune_encode_conv2d c =
        metatune_encode_conv2d_make(1, 8, 8, 8, 8, 3, 3, 1, 1);
    char why[128];

    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_OK);
    c.groups = 8;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_ARG);
    CHECK(strstr(why, "depthwise") != NULL);
    c.groups = 2;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_ARG);
    CHECK(strstr(why, "groups") != NULL);
    c.groups = 1;
    c.layout = METATUNE_NHWC;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_ARG);
    CHECK(strstr(why, "nchw") != NULL);
    c.layout = METATUNE_NCHW;
    c.dtype_in = METATUNE_I8;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_ARG);
    CHECK(strstr(why, "f32") != NULL);
    c.dtype_in = METATUNE_F32;
    c.r = 30;
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_SHAPE);
    CHECK(why[0] != 0);
    c = metatune_encode_conv2d_make(64, 4096, 512, 512, 8, 3, 3, 1, 1);
    CHECK_INT(host_kernel_supports(&c, why, sizeof why), METATUNE_BAD_ARG);
}

static void check_knobs(const metatune_encode_conv2d *conv, int32_t lanes)
{
    static host_kernel k;
    host_march march;
    int64_t values[HOST_KNOBS];
    uint32_t i, j;
    int valid = 0, t;

    march.lanes = lanes;
    march.vregs = lanes == 16 ? 32 : 16;
    CHECK_INT(host_kernel_init(&k, conv, &march, NULL, 0), METATUNE_OK);
    for (i = 0; i < HOST_KNOBS; i++) {
        CHECK(k.knob[i].n_values >= 1 &&
              k.knob[i].n_values <= HOST_KNOB_CAP);
        for (j = 1; j < k.knob[i].n_values; j++)
            CHECK(k.knob[i].values[j] > k.knob[i].values[j - 1]);
    }
    CHECK(k.knob[HOST_KNOB_ALGORITHM].n_values ==
          (conv->r == 1 && conv->s == 1 ? 2u : 1u));
    host_kernel_default(&k, values);
    CHECK(host_kernel_valid(&k, values));
    for (t = 0; t < 200; t++) {
        for (i = 0; i < HOST_KNOBS; i++)
            values[i] = k.knob[i].values[pick((int)k.knob[i].n_values)];
        valid += host_kernel_valid(&k, values);
    }
    if (conv->h >= 7 && conv->k >= 2 * lanes) CHECK(valid > 0);
}

static void test_knobs(void)
{
    static const int32_t lanes[3] = { 16, 8, 4 };
    int32_t i, j;

    for (j = 0; j < 3; j++) {
        for (i = 0; i < nets_count(); i++)
            if (nets_get(i)->conv.groups == 1)
                check_knobs(&nets_get(i)->conv, lanes[j]);
        for (i = 0; i < 200; i++) {
            metatune_encode_conv2d c = random_conv();
            check_knobs(&c, lanes[j]);
        }
    }
}

static uint64_t nest_hash(const metatune_encode_nest *nest)
{
    uint64_t h = 0;
    int32_t i;

    for (i = 0; i < nest->n_loops; i++) {
        const metatune_encode_loop *l = &nest->loop[i];
        h = metatune_encode_hash_u64(h, (uint64_t)l->axis);
        h = metatune_encode_hash_u64(h, (uint64_t)l->step);
        h = metatune_encode_hash_u64(h, (uint64_t)l->trip);
        h = metatune_encode_hash_u64(h, (uint64_t)l->kind);
        h = metatune_encode_hash_u64(h, (uint64_t)(l->parent + 1));
        h = metatune_encode_hash_u64(h, (uint64_t)l->slot);
    }
    h = metatune_encode_hash_u64(h, (uint64_t)(nest->hint[0] * 16));
    return metatune_encode_hash_u64(h, (uint64_t)nest->skeleton);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* Every valid setting has a nest of its own: no knob is lost on the model,
   and no two settings are the same kernel. */
static void check_distinct(const metatune_encode_conv2d *conv)
{
    static host_kernel k;
    static host_march march = { 16, 32 };
    enum { CAP = 400000 };
    uint64_t *hash = (uint64_t *)malloc(CAP * sizeof *hash), block[2048];
    metatune_encode_config cfg = { 24, 0, 0 };
    metatune_encode_nest nest;
    int64_t values[HOST_KNOBS];
    uint32_t digit[HOST_KNOBS] = { 0 };
    size_t n = 0, i, same = 0;
    int at;

    CHECK_INT(host_kernel_init(&k, conv, &march, NULL, 0), METATUNE_OK);
    CHECK(metatune_encode_nest_memsize(&cfg) <= sizeof block);
    CHECK_INT(metatune_encode_nest_init(&nest, &cfg, block, sizeof block),
              METATUNE_OK);
    CHECK_INT(host_kernel_nest_begin(&k, &nest), METATUNE_OK);
    do {
        for (at = 0; at < HOST_KNOBS; at++)
            values[at] = k.knob[at].values[digit[at]];
        if (host_kernel_valid(&k, values) && n < CAP) {
            CHECK_INT(host_kernel_describe(&k, values, &nest), METATUNE_OK);
            hash[n++] = nest_hash(&nest);
        }
        for (at = HOST_KNOBS - 1; at >= 0; at--) {
            if (++digit[at] < k.knob[at].n_values) break;
            digit[at] = 0;
        }
    } while (at >= 0);
    qsort(hash, n, sizeof *hash, compare_u64);
    for (i = 1; i < n; i++) same += hash[i] == hash[i - 1];
    CHECK(n > 100 && n < CAP);
    CHECK_INT(same, 0);
    free(hash);
}

static void test_distinct(void)
{
    metatune_encode_conv2d c =
        metatune_encode_conv2d_make(1, 32, 6, 9, 64, 3, 3, 1, 1);

    check_distinct(&c);
    c = metatune_encode_conv2d_make(2, 12, 5, 7, 48, 1, 1, 2, 1);
    check_distinct(&c);
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

static void check_describe(const metatune_encode_conv2d *conv, int32_t lanes,
                           const metatune_encode_skeleton *skeletons,
                           metatune_encode_graph *graph)
{
    static host_kernel k;
    host_march march;
    uint64_t block[2048];
    metatune_encode_config cfg = { 24, 0, 0 };
    metatune_encode_nest nest;
    metatune_encode_totals totals;
    metatune_encode_device device;
    int64_t v[HOST_KNOBS];
    int trial;

    march.lanes = lanes;
    march.vregs = lanes == 16 ? 32 : 16;
    memset(&device, 0, sizeof device);
    device.size = (uint32_t)sizeof device;
    device.lanes = lanes;
    CHECK_INT(host_kernel_init(&k, conv, &march, NULL, 0), METATUNE_OK);
    CHECK_INT(metatune_encode_nest_init(&nest, &cfg, block, sizeof block),
              METATUNE_OK);
    CHECK_INT(host_kernel_nest_begin(&k, &nest), METATUNE_OK);
    for (trial = 0; trial < 20; trial++) {
        int32_t i, a, fma = -1, body;
        double total = 1;
        random_valid(&k, v);
        CHECK_INT(host_kernel_describe(&k, v, &nest), METATUNE_OK);
        CHECK_INT(metatune_encode_nest_check(&nest), METATUNE_OK);
        CHECK_INT(nest.skeleton, v[HOST_KNOB_ALGORITHM]);
        for (i = 0; i < nest.n_stmts; i++)
            if (nest.stmt[i].kind == METATUNE_STMT_FMA) fma = i;
        CHECK(fma >= 0);
        if (fma < 0) continue;
        body = nest.stmt[fma].parent;
        for (a = 0; a < nest.n_axes; a++) {
            double trips = axis_trips(&nest, body, a);
            double extent = nest.axis[a].extent;
            total *= trips;
            CHECK(trips >= extent);
            /* reductions and images are exact; K is whole vectors; Y and X
               have one unfinished tile a level at most */
            if (nest.axis[a].kind == METATUNE_AXIS_REDUCTION ||
                a == METATUNE_CONV_N)
                CHECK_NEAR(trips, extent, 0);
            if (a == METATUNE_CONV_K)
                CHECK_NEAR(trips, k.ob * lanes, 0);
        }
        /* an outer loop's step is what the loops of its axis inside span */
        for (i = body; i >= 0; i = nest.loop[i].parent) {
            int32_t j, span = 1;
            for (j = body; j != i; j = nest.loop[j].parent)
                if (nest.loop[j].axis == nest.loop[i].axis)
                    span *= nest.loop[j].trip;
            if (nest.loop[i].axis == METATUNE_CONV_X)
                CHECK(nest.loop[i].step <= span);
            else
                CHECK_INT(nest.loop[i].step, span);
            CHECK(nest.loop[i].trip > 1);
        }
        CHECK_INT(metatune_encode_totals_derive(&nest, &device, &totals),
                  METATUNE_OK);
        CHECK_NEAR(totals.flop, 2 * total, 1e-9 * total);
        CHECK_NEAR(totals.accumulators,
                   (double)(v[HOST_KNOB_OCV] * v[HOST_KNOB_OWT]), 1e-9);
        CHECK_INT(metatune_encode_graph_fill(
                      graph, &nest, &skeletons[v[HOST_KNOB_ALGORITHM]],
                      NULL),
                  METATUNE_OK);
        for (i = 0; i < graph->n_nodes * METATUNE_ENCODE_NODE_FEATURES; i++)
            CHECK(fabs((double)graph->x[i]) < 100);
    }
}

static void test_describe(void)
{
    static const int32_t lanes[3] = { 16, 8, 4 };
    metatune_encode_config cfg = { 24, 0, 0 };
    metatune_encode_skeleton skeleton[HOST_ALGORITHMS];
    metatune_encode_graph graph;
    metatune_encode_nest nest;
    uint64_t block[2048];
    void *mem[HOST_ALGORITHMS], *graph_mem;
    size_t bytes = metatune_encode_skeleton_memsize(&cfg);
    int32_t a, i, j;

    CHECK_INT(metatune_encode_nest_init(&nest, &cfg, block, sizeof block),
              METATUNE_OK);
    for (a = 0; a < HOST_ALGORITHMS; a++) {
        int32_t n = 1;
        mem[a] = malloc(bytes);
        CHECK_INT(metatune_encode_skeleton_init(&skeleton[a], &cfg, mem[a],
                                                bytes), METATUNE_OK);
        CHECK_INT(host_kernel_skeleton(a, &nest), METATUNE_OK);
        CHECK_INT(metatune_encode_nest_check(&nest), METATUNE_OK);
        n += nest.n_loops + nest.n_stmts + nest.n_copies;
        CHECK_INT(metatune_encode_skeleton_build(&skeleton[a], &nest),
                  METATUNE_OK);
        CHECK_INT(skeleton[a].n_nodes, n);
        CHECK_INT(n, a == HOST_DIRECT ? 24 : 21);
    }
    CHECK_INT(host_kernel_skeleton(HOST_ALGORITHMS, &nest),
              METATUNE_BAD_ARG);
    bytes = metatune_encode_graph_memsize(&cfg);
    graph_mem = malloc(bytes);
    CHECK_INT(metatune_encode_graph_init(&graph, &cfg, graph_mem, bytes),
              METATUNE_OK);
    for (j = 0; j < 3; j++) {
        for (i = 0; i < nets_count(); i++)
            if (nets_get(i)->conv.groups == 1)
                check_describe(&nets_get(i)->conv, lanes[j], skeleton,
                               &graph);
        for (i = 0; i < 60; i++) {
            metatune_encode_conv2d c = random_conv();
            check_describe(&c, lanes[j], skeleton, &graph);
        }
    }
    for (a = 0; a < HOST_ALGORITHMS; a++) free(mem[a]);
    free(graph_mem);
}

static void test_emit_bounds(void)
{
    metatune_encode_conv2d c = nets_find("alexnet/conv1", NULL, 0)->conv;
    static host_kernel k;
    static host_march march = { 16, 32 };
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
static void check_march(const char *march, int layers, int settings)
{
    int64_t values[8 * HOST_KNOBS];
    host_result result[8];
    host_config cfg = config;
    host_run run;
    host_error error;
    int i, j;

    cfg.march = march;
    if (host_run_open(&run, &cfg, &error) != METATUNE_OK) {
        /* illegal here: the cpu or the compiler lacks it */
        printf("    -march=%s left out: %s\n", march, error.line);
        CHECK(strcmp(march, "native") != 0);
        return;
    }
    for (i = 0; i < layers; i++) {
        metatune_encode_conv2d c = random_conv();
        char spec[256];
        metatune_encode_conv2d_spec(&c, spec, sizeof spec);
        CHECK_INT(host_layer_open(&layer, &run, &c, SEED + (uint64_t)i,
                                  &error), METATUNE_OK);
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
                printf("    %s: %s\n", spec, result[j].error);
            else
                CHECK(result[j].time_s > 0 && result[j].n_samples == 1);
        }
        host_layer_close(&layer);
    }
    host_run_close(&run);
}

static void test_kernels_native(void) { check_march("native", 12, 3); }
static void test_kernels_avx2(void) { check_march("x86-64-v3", 5, 3); }
static void test_kernels_sse(void) { check_march("x86-64-v2", 4, 3); }

static void write_file(const char *path, const char *text, int executable)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    if (!file) return;
    fputs(text, file);
    fclose(file);
    if (executable) chmod(path, 0700);
}

/* Exported kernels with their packers in one program under the sanitizers,
   buffers of the exact size: nothing is read or written outside either. */
static void test_kernels_sanitized(void)
{
    enum { KERNELS = 10 };
    static char source[HOST_SOURCE_BYTES];
    static host_kernel k;
    static host_march march = { 16, 32 };
    char path[400], command[1200];
    const char *cc = getenv("CC");
    int64_t v[HOST_KNOBS];
    FILE *file;
    int i;

    if (!cc || !cc[0]) cc = "cc";
    snprintf(path, sizeof path, "%s/asan.c", scratch);
    write_file(path, "int main(void) { return 0; }\n", 0);
    snprintf(command, sizeof command, "%s -fsanitize=address,undefined -o "
             "%s/asan %s >/dev/null 2>&1 && %s/asan >/dev/null 2>&1",
             cc, scratch, path, scratch);
    if (system(command)) {
        unlink(path);
        SKIP("no sanitizers in this compiler");
    }
    file = fopen(path, "w");
    CHECK(file != NULL);
    if (!file) return;
    fprintf(file, "#include <math.h>\n#include <stdio.h>\n"
            "#include <stdlib.h>\n"
            "static float *make(long n) { long i; float *p = (float *)malloc"
            "((size_t)n * 4 + !n);\n"
            "  for (i = 0; i < n; i++) p[i] = (float)(i * 7919 %% 201 - 100) "
            "/ 100;\n  return p; }\n");
    for (i = 0; i < KERNELS; i++) {
        metatune_encode_conv2d c = random_conv();
        char name[16];
        march.lanes = i % 3 == 0 ? 16 : i % 3 == 1 ? 8 : 4;
        march.vregs = march.lanes == 16 ? 32 : 16;
        CHECK_INT(host_kernel_init(&k, &c, &march, NULL, 0), METATUNE_OK);
        random_valid(&k, v);
        snprintf(name, sizeof name, "kern%d", i);
        CHECK(host_kernel_emit(&k, v, name, source, sizeof source) > 0);
        fputs(source, file);
        CHECK(host_kernel_emit_pack(&k, v, name, source, sizeof source) > 0);
        fputs(source, file);
        fprintf(file,
            "static int test%d(void) {\n"
            "  enum { N = %d, C = %d, H = %d, W = %d, K = %d, R = %d, S = %d,"
            " OH = %d, OW = %d };\n"
            "  float *in = make((long)N * C * H * W), *w = make((long)K * C * "
            "R * S);\n"
            "  float *bi = make(%lu), *bw = make(%lu), *bo = make(%lu), *wk ="
            " make(%lu);\n"
            "  float *out = make((long)N * K * OH * OW);\n"
            "  int n, k, y, x, c, r, s, bad = 0;\n"
            "  %s_pack_in(in, bi); %s_pack_weight(w, bw);\n"
            "  %s(bi, bw, bo, wk); %s(bi, bw, bo, wk);\n"
            "  %s_unpack_out(bo, out);\n"
            "  for (n = 0; n < N; n++) for (k = 0; k < K; k++)\n"
            "  for (y = 0; y < OH; y++) for (x = 0; x < OW; x++) {\n"
            "    double a = 0;\n"
            "    for (c = 0; c < C; c++) for (r = 0; r < R; r++)\n"
            "    for (s = 0; s < S; s++) {\n"
            "      int iy = y * %d + r * %d - %d, ix = x * %d + s * %d - %d;\n"
            "      if (iy >= 0 && iy < H && ix >= 0 && ix < W)\n"
            "        a += (double)in[((n * C + c) * H + iy) * W + ix] *\n"
            "             (double)w[((k * C + c) * R + r) * S + s];\n"
            "    }\n"
            "    if (!(fabs(a - (double)out[((n * K + k) * OH + y) * OW + x])"
            " < 1e-3)) bad++;\n"
            "  }\n"
            "  if (bad) printf(\"kernel %d: %%d wrong\\n\", bad);\n"
            "  free(in); free(w); free(bi); free(bw); free(bo); free(wk); "
            "free(out);\n  return bad != 0;\n}\n",
            i, (int)c.n, (int)c.c, (int)c.h, (int)c.w, (int)c.k, (int)c.r,
            (int)c.s, (int)k.oh, (int)k.ow,
            (unsigned long)host_kernel_in_floats(&k),
            (unsigned long)host_kernel_weight_floats(&k),
            (unsigned long)host_kernel_out_floats(&k),
            (unsigned long)host_kernel_work_floats(&k, v),
            name, name, name, name, name,
            (int)c.stride_h, (int)c.dil_h, (int)c.pad_top, (int)c.stride_w,
            (int)c.dil_w, (int)c.pad_left, i);
    }
    fprintf(file, "int main(void) { return 0");
    for (i = 0; i < KERNELS; i++) fprintf(file, " | test%d()", i);
    fprintf(file, "; }\n");
    fclose(file);
    /* wide vectors without the instructions: only gcc's ABI remark, which
       does not concern static functions, is silenced */
    snprintf(command, sizeof command, "%s -O1 -g -Wall -Wextra -Werror "
             "-Wno-psabi -fsanitize=address,undefined "
             "-fno-sanitize-recover=all -o %s/asan %s -lm",
             cc, scratch, path);
    i = system(command);
    CHECK_INT(i, 0);
    snprintf(command, sizeof command, "%s/asan", scratch);
    if (i == 0) CHECK_INT(system(command), 0);
    unlink(command);
    unlink(path);
}

static void test_cache(void)
{
    metatune_encode_conv2d c =
        metatune_encode_conv2d_make(1, 32, 12, 12, 64, 3, 3, 1, 1);
    int64_t v[5 * HOST_KNOBS];
    host_result result[5];
    host_run run;
    host_error error;
    int i;

    CHECK_INT(host_run_open(&run, &config, &error), METATUNE_OK);
    if (error.status) return;
    CHECK_INT(host_layer_open(&layer, &run, &c, SEED, &error), METATUNE_OK);
    for (i = 0; i < 5; i++)
        host_kernel_default(&layer.kernel, v + i * HOST_KNOBS);
    /* 1: another cache tile, the same micro kernel; 3: not a setting;
       4: another micro kernel */
    v[1 * HOST_KNOBS + HOST_KNOB_OHT] = 3;
    v[3 * HOST_KNOBS + HOST_KNOB_UNROLL] = 5;
    v[4 * HOST_KNOBS + HOST_KNOB_PREFETCH] = 8;
    CHECK(host_kernel_valid(&layer.kernel, v + HOST_KNOBS));
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
    host_layer_close(&layer);
    host_run_close(&run);
}

/* ------------------------------------------------------------- processes */

static host_run bad_run;
static int64_t bad_values[HOST_KNOBS];
static size_t bad_out;           /* floats of the output */

#define SIGNATURE "void host_entry_point(const float *in, const float *w, " \
    "float *out, float *work, const int *outer)\n"
#define IGNORE "(void)in; (void)w; (void)out; (void)work; (void)outer;"

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
    snprintf(source + n, sizeof source - n, SIGNATURE "{\n    %s\n"
             "    real_kernel(in, w, out, work, outer);\n    %s\n}\n",
             before, after);
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

/* 0 and the reason when that failed: nothing can be tested then. */
static int open_bad_run(double build_s, double run_s)
{
    metatune_encode_conv2d c =
        metatune_encode_conv2d_make(1, 16, 9, 9, 20, 3, 3, 1, 1);
    host_config cfg = config;
    host_error error;

    cfg.build_s = build_s;
    cfg.run_s = run_s;
    if (host_run_open(&bad_run, &cfg, &error) ||
        host_layer_open(&layer, &bad_run, &c, SEED, &error)) {
        printf("    %s\n", error.line);
        CHECK_INT(error.status, METATUNE_OK);
        host_run_close(&bad_run);
        return 0;
    }
    host_kernel_default(&layer.kernel, bad_values);
    bad_out = host_kernel_out_floats(&layer.kernel);
    return 1;
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
    if (layer.kernel.ob * layer.kernel.march.lanes > 20) {
        snprintf(text, sizeof text, "out[%lu] = 1;",
                 (unsigned long)(bad_out - 1));
        CHECK_INT(run_wrapped("", text, &r), METATUNE_WRONG);
        CHECK(strstr(r.error, "past the last channel") != NULL);
    }
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
    cfg.cc = "cc";
    cfg.march = "no-such-cpu";
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_COMPILE);
    CHECK(strstr(error.line, "no-such-cpu") != NULL);
    cfg.march = NULL;
    cfg.tmp = "/no/such/folder";
    CHECK_INT(host_run_open(&run, &cfg, &error), METATUNE_IO);
    CHECK(strstr(error.line, "/no/such/folder") != NULL);
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
    float out[6];

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
    RUN(test_knobs);
    RUN(test_distinct);
    RUN(test_describe);
    RUN(test_emit_bounds);
    RUN(test_naive);
    RUN(test_sample_reps);
    RUN(test_kernels_native);
    RUN(test_kernels_avx2);
    RUN(test_kernels_sse);
    RUN(test_kernels_sanitized);
    RUN(test_cache);
    RUN(test_wrong_kernels);
    RUN(test_broken_kernels);
    RUN(test_late_kernels);
    RUN(test_memory_limit);
    RUN(test_compile_errors);
    RUN(test_bad_compilers);
    RUN(test_cancel);
    RUN(test_probe);
    RUN(test_nothing_left);
    rc = check_report("test_host");
    rmdir(scratch);
    return rc;
}
