/* conv.c - tune convolutions on an OpenCL device, twice: with the prior that
   was learnt on CPUs with quite another kernel, and from nothing. Says what
   the prior gained, or lost.

   The tuning process itself never talks to OpenCL: each candidate is built,
   launched, verified and timed in a child (../child.h), because a driver may
   abort, hang or leak. Even the device's limits are asked in one. A setting
   that breaks a limit is refused by valid(), before anything is built.

     conv [--trials N] [--time S] [--seed N] [--source conv.cl] [--log FILE]
          [--check]
   Trials are of one search; seconds of all four together. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define METATUNE_IMPLEMENTATION
#include "../child.h"
#include "../pretrained/metatune_prior_host.h"

/* --------------------------------------------------------------- the space */

enum { WK, WX, WY, VEC, TK, TX, UC, STAGE, UNROLL, KNOBS };

static const int64_t v_wk[] = {1, 2, 4, 8, 16};
static const int64_t v_wx[] = {1, 2, 4, 8, 16, 32, 64, 128};
static const int64_t v_wy[] = {1, 2, 4, 8, 16};
static const int64_t v_vec[] = {1, 2, 4, 8, 16};
static const int64_t v_tk[] = {1, 2, 4};
static const int64_t v_tx[] = {1, 2, 4, 7, 8};
static const int64_t v_uc[] = {1, 4, 16, 64};
static const int64_t v_flag[] = {0, 1};
static const metatune_knob knobs[KNOBS] = {
    {"WK", v_wk, NULL, 5}, {"WX", v_wx, NULL, 8}, {"WY", v_wy, NULL, 5},
    {"VEC", v_vec, NULL, 5}, {"TK", v_tk, NULL, 3}, {"TX", v_tx, NULL, 5},
    {"UC", v_uc, NULL, 4}, {"STAGE", v_flag, NULL, 2},
    {"UNROLL", v_flag, NULL, 2}};
/* what one writes first: float4, one pixel an item, 32 items a group */
static const int64_t plain[KNOBS] = {4, 8, 1, 4, 1, 1, 16, 0, 0};

/* What the device said; filled in a child, so it lives in shared memory. */
typedef struct limits {
    char name[128];
    uint64_t group, item[3];     /* work-items, at most */
    uint64_t local_bytes, cache_bytes;
    uint32_t units, mhz, lanes, line;
} limits;

typedef struct layer {
    const char *name;
    metatune_encode_conv2d conv;
    int oh, ow;
    const char *source;          /* text of conv.cl */
    const char *extra;           /* more compiler options: the self-test's */
    float *in, *weights, *want, *got;
    limits *device;
    FILE *log;
    double curve[3];             /* best after 4, 8 and all trials, s; 0 =
                                    nothing valid by then */
    uint32_t trials;
} layer;

static int64_t local_bytes(const layer *l, const int64_t *v)
{
    return v[STAGE] ? 4 * v[UC] * v[WK] * v[VEC] * v[TK] * l->conv.r *
                          l->conv.s : 0;
}

/* Limits of the device, and what the kernel cannot do. Before any build. */
static int valid(void *user, const metatune_problem *problem,
                 const int64_t *v)
{
    const layer *l = (const layer *)user;
    const limits *d = l->device;
    (void)problem;
    return (uint64_t)(v[WK] * v[WX] * v[WY]) <= d->group &&
           (uint64_t)v[WK] <= d->item[0] && (uint64_t)v[WX] <= d->item[1] &&
           (uint64_t)v[WY] <= d->item[2] &&
           (uint64_t)local_bytes(l, v) <= d->local_bytes &&
           l->conv.k % (v[WK] * v[VEC] * v[TK]) == 0 &&
           l->conv.c % v[UC] == 0 &&
           /* groups twice as large as the image only idle */
           v[WX] * v[TX] < 2 * l->ow && v[WY] < 2 * l->oh;
}

/* Work-groups, work-items, what an item does: the loops of conv.cl. */
static metatune_status describe(void *user, const metatune_problem *problem,
                                const int64_t *v, metatune_encode_nest *nest)
{
    static const int32_t iwo[] = {0, 1, 2};
    const layer *l = (const layer *)user;
    int32_t ki = (int32_t)(v[VEC] * v[TK]), kg = (int32_t)v[WK] * ki;
    int32_t tx = (int32_t)v[TX], xg = (int32_t)v[WX] * tx;
    int32_t wy = (int32_t)v[WY], uc = (int32_t)v[UC], at, item, p;
    int32_t taps = v[UNROLL] ? METATUNE_LOOP_UNROLL : METATUNE_LOOP_SERIAL;
    (void)problem;
    if (metatune_encode_conv2d_begin(nest, &l->conv))
        return nest->status;
#define LOOP(axis, step, trip, kind) \
    metatune_encode_loop_add(nest, at, METATUNE_CONV_##axis, step, trip, \
                             kind, 0)
    at = -1;
    at = LOOP(Y, wy, (l->oh + wy - 1) / wy, METATUNE_LOOP_BLOCK);
    at = LOOP(X, xg, (l->ow + xg - 1) / xg, METATUNE_LOOP_BLOCK);
    at = LOOP(K, kg, l->conv.k / kg, METATUNE_LOOP_BLOCK);
    at = LOOP(Y, 1, wy, METATUNE_LOOP_THREAD);
    at = LOOP(X, tx, (int32_t)v[WX], METATUNE_LOOP_THREAD);
    item = at = LOOP(K, ki, (int32_t)v[WK], METATUNE_LOOP_THREAD);
    at = LOOP(C, uc, l->conv.c / uc, METATUNE_LOOP_SERIAL);
    if (v[STAGE])
        metatune_encode_copy_add(nest, at, METATUNE_CONV_WEIGHT,
                                 METATUNE_SCOPE_LOCAL, 0);
    at = LOOP(R, 1, l->conv.r, taps);
    at = LOOP(S, 1, l->conv.s, taps);
    at = LOOP(C, 1, uc, METATUNE_LOOP_SERIAL);
    p = at;
    at = LOOP(X, 1, tx, METATUNE_LOOP_UNROLL);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_LOAD, 0, 1, iwo, 1);
    at = LOOP(K, (int32_t)v[VEC], (int32_t)v[TK], METATUNE_LOOP_UNROLL);
    at = LOOP(K, 1, (int32_t)v[VEC], METATUNE_LOOP_VECTOR);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_FMA, 0, 1, iwo, 3);
    at = p;                      /* weights once for all pixels of the item */
    at = LOOP(K, (int32_t)v[VEC], (int32_t)v[TK], METATUNE_LOOP_UNROLL);
    at = LOOP(K, 1, (int32_t)v[VEC], METATUNE_LOOP_VECTOR);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_LOAD, 0, 1, iwo + 1, 1);
    at = item;
    at = LOOP(X, 1, tx, METATUNE_LOOP_UNROLL);
    at = LOOP(K, (int32_t)v[VEC], (int32_t)v[TK], METATUNE_LOOP_UNROLL);
    at = LOOP(K, 1, (int32_t)v[VEC], METATUNE_LOOP_VECTOR);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_STORE, 0, 1, iwo + 2, 1);
#undef LOOP
    return nest->status;
}

/* -------------------------------------------------------- inside the child */

typedef struct machine {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
} machine;

static int fail(child_answer *a, metatune_status status, const char *what,
                cl_int code)
{
    a->status = status;
    snprintf(a->text, sizeof a->text, "%s: %d", what, (int)code);
    return 1;
}

static int machine_open(machine *m, child_answer *a)
{
    cl_platform_id platform[8];
    cl_uint n = 0, i;
    cl_int e = clGetPlatformIDs(8, platform, &n);
    m->device = NULL;
    for (i = 0; !e && i < n && i < 8 && !m->device; i++)
        if (clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_ALL, 1, &m->device,
                           NULL))
            m->device = NULL;
    if (!m->device)
        return fail(a, METATUNE_DEVICE_LOST, "no OpenCL device", e);
    m->context = clCreateContext(NULL, 1, &m->device, NULL, NULL, &e);
    if (e)
        return fail(a, METATUNE_DEVICE_LOST, "clCreateContext", e);
    m->queue = clCreateCommandQueue(m->context, m->device,
                                    CL_QUEUE_PROFILING_ENABLE, &e);
    return e ? fail(a, METATUNE_DEVICE_LOST, "clCreateCommandQueue", e) : 0;
}

static void limits_ask(void *user, const int64_t *values, child_answer *a)
{
    limits *d = ((layer *)user)->device;
    machine m;
    size_t group = 0, item[8] = {0};
    cl_ulong local = 0, cache = 0;
    int i;
    (void)values;
    if (machine_open(&m, a))
        return;
    clGetDeviceInfo(m.device, CL_DEVICE_NAME, sizeof d->name, d->name, NULL);
    clGetDeviceInfo(m.device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group,
                    &group, NULL);
    clGetDeviceInfo(m.device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof item, item,
                    NULL);
    clGetDeviceInfo(m.device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local,
                    NULL);
    clGetDeviceInfo(m.device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache,
                    &cache, NULL);
    clGetDeviceInfo(m.device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof d->units,
                    &d->units, NULL);
    clGetDeviceInfo(m.device, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof d->mhz,
                    &d->mhz, NULL);
    clGetDeviceInfo(m.device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT,
                    sizeof d->lanes, &d->lanes, NULL);
    clGetDeviceInfo(m.device, CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE,
                    sizeof d->line, &d->line, NULL);
    d->group = group;
    for (i = 0; i < 3; i++)
        d->item[i] = item[i];
    d->local_bytes = local;
    d->cache_bytes = cache;
    a->status = METATUNE_OK;
    a->value = 1;
}

static cl_kernel kernel_build(const layer *l, const machine *m,
                              const int64_t *v, child_answer *a)
{
    const metatune_encode_conv2d *c = &l->conv;
    char options[512], log[2048] = "";
    cl_ulong local = 0;
    cl_program program;
    cl_kernel kernel;
    cl_int e;
    int k, n = snprintf(options, sizeof options, "-DC=%d -DH=%d -DW=%d -DK=%d "
                        "-DR=%d -DS=%d -DOH=%d -DOW=%d -DSTRIDE=%d -DPAD=%d %s",
                        c->c, c->h, c->w, c->k, c->r, c->s, l->oh, l->ow,
                        c->stride_h, c->pad_top, l->extra ? l->extra : "");
    for (k = 0; k < KNOBS; k++)
        n += snprintf(options + n, sizeof options - (size_t)n, " -D%s=%d",
                      knobs[k].name, (int)v[k]);
    program = clCreateProgramWithSource(m->context, 1,
                                        (const char **)(uintptr_t)&l->source,
                                        NULL, &e);
    if (!e)
        e = clBuildProgram(program, 1, &m->device, options, NULL, NULL);
    if (e) {
        fail(a, METATUNE_COMPILE, "build", e);
        clGetProgramBuildInfo(program, m->device, CL_PROGRAM_BUILD_LOG,
                              sizeof log - 1, log, NULL);
        snprintf(a->text, sizeof a->text, "build: %d: %.70s", (int)e, log);
        return NULL;
    }
    kernel = clCreateKernel(program, "conv", &e);
    if (e) {
        fail(a, METATUNE_COMPILE, "clCreateKernel", e);
        return NULL;
    }
    /* once more, of what was really built: some drivers abort on it */
    clGetKernelWorkGroupInfo(kernel, m->device, CL_KERNEL_LOCAL_MEM_SIZE,
                             sizeof local, &local, NULL);
    if (local > l->device->local_bytes) {
        fail(a, METATUNE_CONSTRAINT, "local memory, bytes", (cl_int)local);
        return NULL;
    }
    return kernel;
}

static size_t bytes_in(const layer *l)
{
    return sizeof(float) * (size_t)(l->conv.h * l->conv.w * l->conv.c);
}
static size_t bytes_weights(const layer *l)
{
    return sizeof(float) * (size_t)(l->conv.r * l->conv.s * l->conv.c *
                                    l->conv.k);
}
static size_t bytes_out(const layer *l)
{
    return sizeof(float) * (size_t)(l->oh * l->ow * l->conv.k);
}

/* Seconds by the device's own clock, < 0 on an error in *e. */
static double launch(const machine *m, cl_kernel kernel, const size_t *global,
                     const size_t *group, cl_int *e)
{
    cl_ulong start = 0, end = 0;
    cl_event event;
    *e = clEnqueueNDRangeKernel(m->queue, kernel, 3, NULL, global, group, 0,
                                NULL, &event);
    if (*e || (*e = clWaitForEvents(1, &event)) ||
        (*e = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START,
                                      sizeof start, &start, NULL)) ||
        (*e = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END,
                                      sizeof end, &end, NULL)))
        return -1;
    clReleaseEvent(event);
    return 1e-9 * (double)(end - start);
}

static int output_check(const layer *l, child_answer *a)
{
    size_t i, n = bytes_out(l) / sizeof(float);
    for (i = 0; i < n; i++) {
        double want = (double)l->want[i], off = (double)l->got[i] - want;
        if (!(fabs(off) <= 1e-4 * (1 + fabs(want)))) {
            a->status = METATUNE_WRONG;
            snprintf(a->text, sizeof a->text, "out[%d] is %g, not %g", (int)i,
                     (double)l->got[i], want);
            return 1;
        }
    }
    return 0;
}

/* Build, launch once on a poisoned output and verify, then time: the least of
   several, at least 3 and until 0.2 s have gone. */
static void candidate(void *user, const int64_t *v, child_answer *a)
{
    layer *l = (layer *)user;
    machine m;
    cl_kernel kernel;
    cl_mem in, weights, out;
    size_t global[3], group[3], tile[3], i, n = bytes_out(l) / sizeof(float);
    double t, spent = 0, begin = child_now();
    cl_int e, e2, e3;
    if (machine_open(&m, a) || !(kernel = kernel_build(l, &m, v, a)))
        return;
    in = clCreateBuffer(m.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                        bytes_in(l), l->in, &e);
    weights = clCreateBuffer(m.context,
                             CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                             bytes_weights(l), l->weights, &e2);
    for (i = 0; i < n; i++)
        l->got[i] = NAN;
    out = clCreateBuffer(m.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                         bytes_out(l), l->got, &e3);
    if (e || e2 || e3 ||
        clSetKernelArg(kernel, 0, sizeof in, &in) ||
        clSetKernelArg(kernel, 1, sizeof weights, &weights) ||
        clSetKernelArg(kernel, 2, sizeof out, &out)) {
        fail(a, METATUNE_RUNTIME, "buffers", e | e2 | e3);
        return;
    }
    tile[0] = (size_t)(v[VEC] * v[TK]);
    tile[1] = (size_t)v[TX];
    tile[2] = 1;
    global[0] = (size_t)l->conv.k;
    global[1] = (size_t)l->ow;
    global[2] = (size_t)l->oh;
    for (i = 0; i < 3; i++) {
        group[i] = (size_t)v[i];
        global[i] = (global[i] + tile[i] * group[i] - 1) /
                    (tile[i] * group[i]) * group[i];
    }
    if (launch(&m, kernel, global, group, &e) < 0) {
        fail(a, METATUNE_RUNTIME, "launch", e);
        return;
    }
    e = clEnqueueReadBuffer(m.queue, out, CL_TRUE, 0, bytes_out(l), l->got, 0,
                            NULL, NULL);
    if (e) {
        fail(a, METATUNE_RUNTIME, "clEnqueueReadBuffer", e);
        return;
    }
    if (output_check(l, a))
        return;
    a->build_s = child_now() - begin;
    a->value = HUGE_VAL;
    for (i = 0; i < 3 || (spent < 0.2 && i < 200); i++) {
        t = launch(&m, kernel, global, group, &e);
        if (t < 0) {
            fail(a, METATUNE_RUNTIME, "launch", e);
            return;
        }
        spent += t;
        a->value = t < a->value ? t : a->value;
    }
    a->status = METATUNE_OK;
}

/* --------------------------------------------------------------- callbacks */

static metatune_status measure(void *user, const metatune_problem *problem,
                               const metatune_trial *trials, size_t n,
                               metatune_result *results)
{
    static child_answer answer[64];
    size_t i;
    (void)problem;
    for (i = 0; i < n && i < 64; i++) {
        double start = child_now();
        child_run(candidate, user, trials[i].values, 20, &answer[i]);
        results[i].status = answer[i].status;
        results[i].value = answer[i].value;
        results[i].build_s = answer[i].build_s;
        results[i].run_s = child_now() - start - answer[i].build_s;
        results[i].error = answer[i].text[0] ? answer[i].text : NULL;
        results[i].error_bytes = strlen(answer[i].text);
    }
    return METATUNE_OK;
}

static int record(void *user, const char *bytes, size_t n)
{
    FILE *log = ((layer *)user)->log;
    return log && (fwrite(bytes, 1, n, log) != n || fflush(log));
}

static double now(void *user)
{
    (void)user;
    return child_now();
}

static int progress(void *user, const metatune_progress *p)
{
    layer *l = (layer *)user;
    static const uint32_t at[2] = {4, 8};
    int i;
    if (p->kind != METATUNE_EXPLORE)
        return 0;
    for (i = 0; i < 2; i++)
        if (p->done <= at[i])
            l->curve[i] = p->best_value;
    l->curve[2] = p->best_value;
    return 0;
}

/* -------------------------------------------------------------- the layers */

static int layer_fill(layer *l)
{
    const metatune_encode_conv2d *c = &l->conv;
    metatune_encode_rng rng;
    size_t i;
    int x, y, k, r, s, ch;
    l->oh = metatune_encode_conv2d_out_h(c);
    l->ow = metatune_encode_conv2d_out_w(c);
    l->in = (float *)malloc(bytes_in(l));
    l->weights = (float *)malloc(bytes_weights(l));
    l->want = (float *)malloc(bytes_out(l));
    l->got = (float *)malloc(bytes_out(l));
    if (!l->in || !l->weights || !l->want || !l->got)
        return 1;
    metatune_encode_rng_init(&rng, 11, 0);
    for (i = 0; i < bytes_in(l) / sizeof(float); i++)
        l->in[i] = (float)(metatune_encode_rng_unit(&rng) - 0.5);
    for (i = 0; i < bytes_weights(l) / sizeof(float); i++)
        l->weights[i] = (float)(metatune_encode_rng_unit(&rng) - 0.5);
    for (y = 0; y < l->oh; y++)
        for (x = 0; x < l->ow; x++)
            for (k = 0; k < c->k; k++) {
                double sum = 0;
                for (r = 0; r < c->r; r++)
                    for (s = 0; s < c->s; s++) {
                        int h = y * c->stride_h + r - c->pad_top;
                        int w = x * c->stride_w + s - c->pad_left;
                        if (h < 0 || h >= c->h || w < 0 || w >= c->w)
                            continue;
                        for (ch = 0; ch < c->c; ch++)
                            sum += (double)l->in[(h * c->w + w) * c->c + ch] *
                                   (double)l->weights[((r * c->s + s) * c->c +
                                                       ch) * c->k + k];
                    }
                l->want[(y * l->ow + x) * c->k + k] = (float)sum;
            }
    return 0;
}

static metatune_encode_device sheet(const limits *d)
{
    metatune_encode_device s;
    memset(&s, 0, sizeof s);
    s.size = sizeof s;
    s.cores = (int32_t)d->units;
    s.lanes = (int32_t)d->lanes;
    s.line_bytes = (int32_t)d->line;
    s.l3_bytes = (double)d->cache_bytes;
    s.local_bytes = (double)d->local_bytes;
    s.freq_hz = 1e6 * d->mhz;
    return s;
}

/* Tune with a model or from nothing; the winner's values; 0 = something was
   found. */
static int tune(layer *l, const metatune_model *model, uint32_t trials,
                double seconds, uint64_t seed, int64_t *winner)
{
    metatune_tuner *tuner = (metatune_tuner *)calloc(1, sizeof *tuner);
    metatune_config config;
    metatune_problem problem;
    metatune_encode_device device = sheet(l->device);
    metatune_summary sum;
    metatune_best best;
    metatune_error error;
    metatune_status st;
    char task[256];
    void *mem;
    size_t bytes;
    int bad;
    memset(&config, 0, sizeof config);
    memset(&problem, 0, sizeof problem);
    memset(l->curve, 0, sizeof l->curve);
    metatune_encode_conv2d_spec(&l->conv, task, sizeof task);
    config.trials = trials;
    config.seed = seed;
    config.batch = 4;            /* a build takes longer than a thought */
    config.no_confirm = 1;       /* compare() does it, across both searches */
    config.seconds = seconds;
    problem.task = task;
    problem.target = l->device->name;
    problem.knobs = knobs;
    problem.n_knobs = KNOBS;
    problem.default_values = plain;
    problem.model = model;
    problem.device = &device;
    problem.user = l;
    problem.describe = describe;
    problem.valid = valid;
    problem.measure = measure;
    problem.now = now;
    problem.progress = progress;
    problem.write = l->log ? record : NULL;
    bytes = metatune_memsize(&config, &problem);
    mem = malloc(bytes);
    if (!tuner || !mem ||
        metatune_init(tuner, &config, &problem, mem, bytes, &error)) {
        fprintf(stderr, "conv: no tuner\n");
        return 1;
    }
    st = metatune_tune(tuner);
    metatune_summary_get(tuner, &sum);
    bad = metatune_best_get(tuner, &best) || !best.measured;
    if (!bad)
        memcpy(winner, best.values, KNOBS * sizeof *winner);
    l->trials = sum.trials;
    printf("  %-8s %s: %u trials, %u compile, %u runtime, %u wrong, %u late, "
           "%u refused; think %.1f s\n", model ? "prior" : "nothing",
           metatune_encode_status_name(st), sum.trials,
           sum.by_status[METATUNE_COMPILE], sum.by_status[METATUNE_RUNTIME],
           sum.by_status[METATUNE_WRONG], sum.by_status[METATUNE_TIMEOUT],
           sum.by_status[METATUNE_CONSTRAINT], sum.think_s);
    if (sum.top_failure)
        printf("           %s\n", sum.top_error);
    printf("           best ms after 4: %.3f, 8: %.3f, all: %.3f\n",
           1e3 * l->curve[0], 1e3 * l->curve[1], 1e3 * l->curve[2]);
    fflush(stdout);
    free(mem);
    free(tuner);
    return bad;
}

/* ------------------------------------------------------------ the self-test */

/* What must not pass does not. Returns the number of failures. */
static int check(layer *l)
{
    static const int64_t wide[KNOBS] = {16, 128, 8, 1, 1, 1, 4, 0, 0};
    static const int64_t huge[KNOBS] = {4, 1, 1, 16, 1, 1, 64, 1, 0};
    child_answer a;
    limits small = *l->device, *real = l->device;
    int bad = 0;
    child_run(candidate, l, plain, 20, &a);
    bad += a.status != METATUNE_OK;
    printf("plain: %s\n", metatune_encode_status_name(a.status));
    /* the image moved by one pixel: seen in the output */
    l->extra = "-DPAD=0";
    child_run(candidate, l, plain, 20, &a);
    bad += a.status != METATUNE_WRONG;
    printf("sabotaged: %s, %s\n", metatune_encode_status_name(a.status),
           a.text);
    l->extra = "-Dacc=";
    child_run(candidate, l, plain, 20, &a);
    bad += a.status != METATUNE_COMPILE;
    printf("no C: %s, %.40s\n", metatune_encode_status_name(a.status), a.text);
    l->extra = NULL;
    /* refused before a build; forced, it is an answer and no crash */
    bad += valid(l, NULL, wide) != 0;
    child_run(candidate, l, wide, 20, &a);
    bad += a.status == METATUNE_OK;
    printf("group of 16384 items: valid %d, forced %s, %s\n",
           valid(l, NULL, wide), metatune_encode_status_name(a.status),
           a.text);
    small.local_bytes = 4096;
    l->device = &small;
    bad += valid(l, NULL, huge) != 0;
    child_run(candidate, l, huge, 20, &a);
    bad += a.status != METATUNE_CONSTRAINT;
    printf("4 kB of local memory: valid %d, forced %s, %s\n",
           valid(l, NULL, huge), metatune_encode_status_name(a.status),
           a.text);
    l->device = real;
    bad += valid(l, NULL, huge) != 1;
    child_run(candidate, l, huge, 20, &a);
    bad += a.status != METATUNE_OK;
    printf("enough of it: valid %d, %s\n", valid(l, NULL, huge),
           metatune_encode_status_name(a.status));
    return bad;
}

/* Random valid settings all build, run and give the right output, or fail by
   no fault of valid(). */
static int check_random(layer *l, uint64_t seed)
{
    metatune_encode_rng rng;
    int i, k, n = 0, bad = 0;
    metatune_encode_rng_init(&rng, seed, 0);
    for (i = 0; n < 12 && i < 100000; i++) {
        int64_t v[KNOBS];
        child_answer a;
        for (k = 0; k < KNOBS; k++)
            v[k] = knobs[k].values[metatune_encode_rng_below(
                &rng, knobs[k].n_values)];
        if (!valid(l, NULL, v))
            continue;
        n++;
        child_run(candidate, l, v, 20, &a);
        if (a.status == METATUNE_OK)
            continue;
        bad++;
        printf("%s: %s:", metatune_encode_status_name(a.status), a.text);
        for (k = 0; k < KNOBS; k++)
            printf(" %s=%d", knobs[k].name, (int)v[k]);
        printf("\n");
    }
    printf("%s: %d random settings, seed %llu, %d bad\n", l->name, n,
           (unsigned long long)seed, bad);
    return bad;
}

/* -------------------------------------------------------------------- main */

static char *text_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = (char *)calloc(1, 65536);
    if (file && text && !fread(text, 1, 65535, file))
        text[0] = 0;
    if (file)
        fclose(file);
    return file ? text : NULL;
}

/* The final word: in alternation, the least of three. */
static void compare(layer *l, const int64_t *const *settings, double *best)
{
    child_answer a;
    int i, round;
    for (i = 0; i < 3; i++)
        best[i] = HUGE_VAL;
    for (round = 0; round < 3; round++)
        for (i = 0; i < 3; i++) {
            child_run(candidate, l, settings[i], 20, &a);
            if (a.status == METATUNE_OK && a.value < best[i])
                best[i] = a.value;
        }
}

int main(int argc, char **argv)
{
    layer layers[2];
    limits *device = (limits *)mmap(NULL, sizeof *device,
                                    PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *source = "examples/opencl/conv.cl", *log = NULL;
    uint32_t trials = 16;
    uint64_t seed = 0;
    metatune_model prior;
    metatune_error error;
    child_answer a;
    char *text;
    void *mem;
    size_t need;
    int i, j, self = 0, failed = 0;
    double best[2][3], gain[3] = {0, 0, 0}, seconds = 120;
    int pairs[3] = {0, 0, 0};
    uint32_t used[2][2];
    for (i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--check"))
            self = 1;
        else if (i + 1 < argc && !strcmp(argv[i], "--trials"))
            trials = (uint32_t)atoi(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--time"))
            seconds = atof(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
            seed = (uint64_t)atoll(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--source"))
            source = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--log"))
            log = argv[++i];
        else
            return fprintf(stderr, "conv: options --trials N --time S --seed N "
                           "--source FILE --log FILE --check\n"), 2;
    if (device == MAP_FAILED || !(text = text_read(source)))
        return fprintf(stderr, "conv: cannot read %s\n", source), 2;
    memset(layers, 0, sizeof layers);
    layers[0].name = "3x3 64-64 28";
    layers[0].conv = metatune_encode_conv2d_make(1, 64, 28, 28, 64, 3, 3, 1, 1);
    layers[1].name = "1x1s2 128-256 28";
    layers[1].conv = metatune_encode_conv2d_make(1, 128, 28, 28, 256, 1, 1, 2,
                                                 0);
    for (i = 0; i < 2; i++) {
        layers[i].conv.layout = METATUNE_NHWC;
        layers[i].source = text;
        layers[i].device = device;
        layers[i].log = log ? fopen(log, "ab") : NULL;
        if (layer_fill(&layers[i]))
            return 2;
    }
    child_run(limits_ask, &layers[0], plain, 60, &a);
    if (a.status != METATUNE_OK)
        return fprintf(stderr, "conv: %s\n", a.text), 1;
    printf("%s: %u units, %u lanes, groups to %llu, local memory %llu\n",
           device->name, device->units, device->lanes,
           (unsigned long long)device->group,
           (unsigned long long)device->local_bytes);
    if (self) {
        failed = check(&layers[0]);
        failed += check_random(&layers[0], seed + 1);
        failed += check_random(&layers[1], seed + 2);
        printf("%d failed\n", failed);
        return failed != 0;
    }
    need = metatune_blob_memsize(metatune_prior_host,
                                 METATUNE_PRIOR_HOST_BYTES);
    mem = malloc(need + 1);
    if (!mem || metatune_blob_load(&prior, metatune_prior_host,
                                   METATUNE_PRIOR_HOST_BYTES, mem, need,
                                   &error))
        return fprintf(stderr, "conv: the prior does not load\n"), 2;
    for (i = 0; i < 2; i++) {
        int64_t found[2][KNOBS];
        const int64_t *settings[3];
        double curve[3];
        layer *l = &layers[i];
        printf("%s\n", l->name);
        if (tune(l, NULL, trials, seconds / 4, seed, found[0]))
            return 1;
        used[i][0] = l->trials;
        memcpy(curve, l->curve, sizeof curve);
        if (tune(l, &prior, trials, seconds / 4, seed, found[1]))
            return 1;
        used[i][1] = l->trials;
        for (j = 0; j < 3; j++)
            if (curve[j] > 0 && l->curve[j] > 0) {
                gain[j] += log2(curve[j] / l->curve[j]);
                pairs[j]++;
            }
        settings[0] = plain;
        settings[1] = found[0];
        settings[2] = found[1];
        compare(l, settings, best[i]);
        printf("  winner  ");
        for (j = 0; j < KNOBS; j++)
            printf(" %s=%d", knobs[j].name,
                   (int)found[best[i][2] < best[i][1]][j]);
        printf("\n");
    }
    printf("\nthe CPU prior against nothing, time of the best so far:");
    for (j = 0; j < 3; j++) {
        static const char *const when[3] = {"after 4 trials", "after 8",
                                            "at the end"};
        if (pairs[j])
            printf(" %.2fx %s%s", exp2(gain[j] / pairs[j]), when[j],
                   j < 2 ? "," : "\n");
    }
    printf("(above 1 the prior was faster; one seed, two layers: an anecdote, "
           "the page has more)\n");
    printf("\n%-17s %10s %10s %10s %6s %8s %6s\n", "layer", "default ms",
           "nothing ms", "prior ms", "gain", "GFLOP/s", "trials");
    for (i = 0; i < 2; i++) {
        double tuned = best[i][1] < best[i][2] ? best[i][1] : best[i][2];
        failed |= !(tuned < best[i][0]);
        printf("%-17s %10.3f %10.3f %10.3f %5.2fx %8.1f %3u+%u\n",
               layers[i].name, 1e3 * best[i][0], 1e3 * best[i][1],
               1e3 * best[i][2], best[i][0] / tuned,
               1e-9 * metatune_encode_conv2d_flop(&layers[i].conv) / tuned,
               used[i][0], used[i][1]);
    }
    return failed;
}
