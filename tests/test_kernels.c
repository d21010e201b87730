/* test_kernels.c - the proof of every kernel template

   Random layers and settings: first what can be said without a compiler, then
   kernels by the dozen in one program, run on poisoned buffers against naive
   loops (kernels_harness.h): under sanitizers, optimized, by other compilers
   and for other vector widths, for another machine under an emulator.

     test_kernels [--seed N] [--scale X] [--algorithm NAME] [--keep]
     test_kernels --cc "aarch64-linux-gnu-gcc -O2" --static --lanes 4
                  --run qemu-aarch64-static

   --scale 10 (or METATUNE_KERNELS=10) tests ten times as much. With --cc only
   that compiler is tried: --lanes one width, else all; --threads the most
   parts of a kernel; --sanitize adds the sanitizers; --pthread runs the parts
   in real threads. --keep leaves the programs that failed. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1
#define METATUNE_ENCODE_IMPLEMENTATION
#include "../metatune_encode.h"
#include "../tools/targets/host_run.h"
#include "check.h"
#include "kernels_layers.h"
#include "kernels_random.h"

#include <time.h>
#include <unistd.h>

enum { BATCH = 40, PAIR = 2 };   /* kernels of a program; programs at once */

static metatune_encode_rng rng;
static uint64_t seed = 20240601;
static double scale = 1;
static int only = -1;            /* algorithm */
static int keep;
static char scratch[300];

static int pick(int n)
{
    return layers_pick(&rng, n);
}

static host_march march_of(int32_t lanes, int32_t threads)
{
    host_march march;

    march.lanes = lanes;
    march.vregs = lanes == 16 || (lanes == 4 && pick(2)) ? 32 : 16;
    march.threads = threads;
    return march;
}

static const int32_t all_lanes[] = { 16, 8, 4, 1 };

/* Layer and setting in one line. */
static void describe(const host_kernel *kernel, const int64_t *values,
                     char *text, size_t cap)
{
    char spec[256];
    size_t n;
    int i;

    metatune_encode_conv2d_spec(&kernel->conv, spec, sizeof spec);
    n = (size_t)snprintf(text, cap, "%s: %s | lanes=%d vregs=%d threads=%d |",
                         host_algorithm_name(
                             (int32_t)values[HOST_KNOB_ALGORITHM]),
                         spec, (int)kernel->march.lanes,
                         (int)kernel->march.vregs,
                         (int)kernel->march.threads);
    for (i = 1; i < HOST_KNOBS && n < cap; i++)
        n += (size_t)snprintf(text + n, cap - n, " %s=%ld",
                              kernel->knob[i].name, (long)values[i]);
}

/* ------------------------------------------------- without a compiler */

static char source[HOST_SOURCE_BYTES];

static void complain(const host_kernel *kernel, const int64_t *values,
                     const char *what)
{
    char text[700];

    describe(kernel, values, text, sizeof text);
    check_fault(__FILE__, __LINE__, what);
    if (check_faults <= 20) printf("        %s\n", text);
}

#define WANT(cond)                                                           \
    do {                                                                     \
        if (!(cond)) complain(k, v, #cond);                                  \
    } while (0)

static metatune_encode_skeleton skeleton[HOST_ALGORITHMS];
static metatune_encode_graph graph;
static metatune_encode_nest nest;

static void *init_memory(void)
{
    static const metatune_encode_config cfg = { HOST_NODES, 0, 0 };
    size_t s = metatune_encode_skeleton_memsize(&cfg);
    size_t g = metatune_encode_graph_memsize(&cfg);
    size_t n = metatune_encode_nest_memsize(&cfg);
    char *mem = (char *)malloc(HOST_ALGORITHMS * s + g + n);
    int32_t a;

    CHECK_INT(metatune_encode_nest_init(&nest, &cfg, mem, n), METATUNE_OK);
    CHECK_INT(metatune_encode_graph_init(&graph, &cfg, mem + n, g),
              METATUNE_OK);
    for (a = 0; a < HOST_ALGORITHMS; a++)
        CHECK_INT(metatune_encode_skeleton_init(
                      &skeleton[a], &cfg, mem + n + g + (size_t)a * s, s),
                  METATUNE_OK);
    return mem;
}

static void test_skeletons(void)
{
    void *mem = init_memory();
    int32_t a, n;

    for (a = 0; a < HOST_ALGORITHMS; a++) {
        metatune_status st = host_kernel_skeleton(a, &nest);
        CHECK_INT(st, METATUNE_OK);
        if (st != METATUNE_OK) {
            printf("        of %s\n", host_algorithm_name(a));
            continue;
        }
        CHECK_INT(metatune_encode_nest_check(&nest), METATUNE_OK);
        CHECK_INT(nest.skeleton, a);
        n = 1 + nest.n_loops + nest.n_stmts + nest.n_copies;
        CHECK(n <= HOST_NODES);
        CHECK_INT(metatune_encode_skeleton_build(&skeleton[a], &nest),
                  METATUNE_OK);
        CHECK_INT(skeleton[a].n_nodes, n);
    }
    CHECK_INT(host_kernel_skeleton(HOST_ALGORITHMS, &nest),
              METATUNE_BAD_ARG);
    CHECK_INT(host_kernel_skeleton(-1, &nest), METATUNE_BAD_ARG);
    free(mem);
}

/* One valid setting: its nest and its texts. */
static void check_setting(const host_kernel *k, const int64_t *v)
{
    metatune_status st = host_kernel_describe(k, v, &nest);
    int64_t same[HOST_KNOBS];
    int32_t i, bad = 0;
    size_t n;

    WANT(st == METATUNE_OK);     /* described */
    if (st == METATUNE_OK) {
        WANT(metatune_encode_nest_check(&nest) == METATUNE_OK);
        WANT(nest.skeleton == v[HOST_KNOB_ALGORITHM]);
        WANT(1 + nest.n_loops + nest.n_stmts + nest.n_copies <= HOST_NODES);
        st = metatune_encode_graph_fill(
            &graph, &nest, &skeleton[v[HOST_KNOB_ALGORITHM]], NULL);
        WANT(st == METATUNE_OK);   /* fits the skeleton */
        for (i = 0; st == METATUNE_OK &&
                    i < graph.n_nodes * METATUNE_ENCODE_NODE_FEATURES; i++)
            bad += !(fabs((double)graph.x[i]) < 100);
        WANT(bad == 0);
    }
    /* repair has nothing to do */
    memcpy(same, v, sizeof same);
    WANT(host_kernel_repair(k, same) && memcmp(same, v, sizeof same) == 0);
    WANT(host_kernel_phases(k, v) >= 1);
    n = host_kernel_emit_pack(k, v, "name", source, sizeof source);
    WANT(n > 0 && n == strlen(source));
    n = host_kernel_emit(k, v, "name", source, sizeof source);
    WANT(n > 0 && n == strlen(source));
    WANT(n < HOST_SOURCE_BYTES / 2);
    n = host_kernel_emit_outer(k, v, "name", source, sizeof source);
    WANT(n > 0 && n == strlen(source));
}

static void check_knobs(const host_kernel *k)
{
    uint32_t i, j;

    CHECK_INT(k->n_knobs, HOST_KNOBS);
    for (i = 0; i < HOST_KNOBS; i++) {
        CHECK(k->knob[i].n_values >= 1 &&
              k->knob[i].n_values <= HOST_KNOB_CAP);
        for (j = 1; j < k->knob[i].n_values; j++)
            CHECK(k->knob[i].values[j] > k->knob[i].values[j - 1]);
    }
}

static void build_skeletons(void)
{
    int32_t a;

    for (a = 0; a < HOST_ALGORITHMS; a++)
        if (host_kernel_skeleton(a, &nest) == METATUNE_OK)
            metatune_encode_skeleton_build(&skeleton[a], &nest);
}

static void test_settings(void)
{
    void *mem = init_memory();
    static host_kernel kernel;
    const host_kernel *k = &kernel;
    int64_t v[HOST_KNOBS];
    int layers = (int)(400 * scale), i, j;
    int32_t a;

    build_skeletons();
    for (i = 0; i < layers; i++) {
        int32_t lanes = all_lanes[pick(4)];
        metatune_encode_conv2d c = layers_random(&rng, lanes);
        host_march march = march_of(lanes, 1 + pick(8));
        CHECK_INT(host_kernel_init(&kernel, &c, &march, NULL, 0),
                  METATUNE_OK);
        check_knobs(k);
        CHECK_INT(host_kernel_nest_begin(k, &nest), METATUNE_OK);
        host_kernel_default(k, v);
        WANT(host_kernel_valid(k, v));
        if (host_kernel_valid(k, v)) check_setting(k, v);
        for (a = 0; a < (int32_t)k->knob[0].n_values; a++)
            for (j = 0; j < 6; j++) {
                int64_t algorithm = k->knob[0].values[a];
                int good = layers_setting(k, &rng, algorithm, v);
                WANT(good && host_kernel_valid(k, v));
                WANT(v[HOST_KNOB_ALGORITHM] == algorithm);
                if (good) check_setting(k, v);
            }
        /* far outside the lists */
        for (j = 0; j < HOST_KNOBS; j++)
            v[j] = (int64_t)metatune_encode_rng_below(&rng, 200) - 40;
        v[HOST_KNOB_ALGORITHM] = k->knob[0].values[0];
        WANT(host_kernel_repair(k, v) && host_kernel_valid(k, v));
    }
    free(mem);
}

/* All that a model sees of a setting. */
static uint64_t graph_hash(const host_kernel *k, const int64_t *v)
{
    size_t n;
    uint64_t h;

    if (host_kernel_describe(k, v, &nest) != METATUNE_OK ||
        metatune_encode_graph_fill(&graph, &nest,
                                   &skeleton[v[HOST_KNOB_ALGORITHM]],
                                   NULL) != METATUNE_OK)
        return 0;
    n = (size_t)graph.n_nodes;
    h = metatune_encode_hash(1, graph.present, n);
    h = metatune_encode_hash(
        h, graph.x, n * METATUNE_ENCODE_NODE_FEATURES * sizeof *graph.x);
    return metatune_encode_hash(h, graph.global_row, sizeof graph.global_row);
}

typedef struct mark {
    uint64_t code, seen;         /* hashes of source with outer, and graph */
    int64_t values[HOST_KNOBS];
} mark;

static int by_code(const void *a, const void *b)
{
    const mark *x = (const mark *)a, *y = (const mark *)b;

    return x->code < y->code ? -1 : x->code > y->code;
}

static int by_seen(const void *a, const void *b)
{
    const mark *x = (const mark *)a, *y = (const mark *)b;

    return x->seen < y->seen ? -1 : x->seen > y->seen;
}

/* Two settings are two kernels, and a model can tell them apart. */
static void check_distinct(const metatune_encode_conv2d *conv,
                           const host_march *march, int n)
{
    static host_kernel kernel;
    const host_kernel *k = &kernel;
    mark *marks = (mark *)malloc((size_t)n * sizeof *marks);
    int32_t a;
    int i, same_code, same_seen;

    CHECK_INT(host_kernel_init(&kernel, conv, march, NULL, 0), METATUNE_OK);
    CHECK_INT(host_kernel_nest_begin(k, &nest), METATUNE_OK);
    for (a = 0; a < (int32_t)k->knob[0].n_values; a++) {
        for (i = 0; i < n; i++) {
            int64_t *v = marks[i].values;
            int outer[HOST_OUTER];
            size_t length;
            if (!layers_setting(k, &rng, k->knob[0].values[a], v)) {
                complain(k, v, "repair");
                host_kernel_default(k, v);
            }
            length = host_kernel_emit_outer(k, v, "name", source,
                                            sizeof source);
            host_kernel_outer(k, v, outer);
            marks[i].code = metatune_encode_hash(
                metatune_encode_hash(1, source, length), outer,
                sizeof outer);
            marks[i].seen = graph_hash(k, v);
        }
        same_code = same_seen = 0;
        qsort(marks, (size_t)n, sizeof *marks, by_code);
        for (i = 1; i < n; i++)
            if (marks[i].code == marks[i - 1].code &&
                memcmp(marks[i].values, marks[i - 1].values,
                       sizeof marks[i].values) != 0 && same_code++ == 0) {
                complain(k, marks[i - 1].values, "two settings, one kernel");
                complain(k, marks[i].values, "two settings, one kernel");
            }
        qsort(marks, (size_t)n, sizeof *marks, by_seen);
        for (i = 1; i < n; i++)
            if (marks[i].seen == marks[i - 1].seen &&
                memcmp(marks[i].values, marks[i - 1].values,
                       sizeof marks[i].values) != 0 && same_seen++ == 0) {
                complain(k, marks[i - 1].values, "two settings, one graph");
                complain(k, marks[i].values, "two settings, one graph");
            }
    }
    free(marks);
}

static void test_distinct(void)
{
    void *mem = init_memory();
    int layers = (int)(24 * scale), i;

    build_skeletons();
    for (i = 0; i < layers; i++) {
        int32_t lanes = all_lanes[pick(4)];
        metatune_encode_conv2d c = layers_random(&rng, lanes);
        host_march march = march_of(lanes, 1 + pick(2));
        check_distinct(&c, &march, 250);
    }
    free(mem);
}

/* -------------------------------------------------- built and run */

typedef struct job {
    host_kernel kernel;
    int64_t values[HOST_KNOBS];
    uint64_t seed;
    int line;                    /* where its source begins */
} job;

typedef struct variant {
    const char *cc;              /* compiler with flags */
    const char *run;             /* "" or an emulator */
    int32_t lanes, threads;      /* lanes 0: all widths */
    int sanitize, threaded;
} variant;

typedef struct batch {
    const variant *v;
    job *jobs;                   /* BATCH of them */
    int n, id;
    FILE *pipe;
} batch;

/* kernels that were right, and their worst errors */
static int done_n[HOST_ALGORITHMS];
static double done_worst[HOST_ALGORITHMS];

static void say_job(const job *j, const char *what)
{
    complain(&j->kernel, j->values, what);
}

/* How large i8 values may be: no sum may leave 32 bits. */
static int half_of(const metatune_encode_conv2d *c)
{
    double taps = (double)(c->c / c->groups) * c->r * c->s;
    int half = 128;

    if (c->dtype_in != METATUNE_I8) return 0;
    while (taps * half * half > 2147483647.0) half /= 2;
    return half;
}

/* A packed tensor's hash, as the library packs it. */
static uint64_t packed_hash(const job *j, int weight)
{
    const metatune_encode_conv2d *c = &j->kernel.conv;
    size_t n = weight ? (size_t)c->k * (size_t)(c->c / c->groups) *
                            (size_t)c->r * (size_t)c->s
                      : (size_t)c->n * (size_t)c->c * (size_t)c->h *
                            (size_t)c->w;
    size_t bytes = weight ? host_kernel_weight_size(&j->kernel, j->values)
                          : host_kernel_in_size(&j->kernel);
    void *plain = malloc(n * (size_t)j->kernel.in_bytes);
    void *packed = malloc(bytes + 1);
    uint64_t hash;

    kernels_fill(plain, (unsigned long)n, half_of(c),
                 j->seed + (uint64_t)weight);
    memset(packed, 0x5a, bytes);
    if (weight)
        host_kernel_pack_weight(&j->kernel, j->values, plain, packed);
    else
        host_kernel_pack_in(&j->kernel, plain, packed);
    hash = kernels_hash(packed, (unsigned long)bytes);
    free(plain);
    free(packed);
    return hash;
}

static void write_entry(FILE *file, const job *j, int i)
{
    const host_kernel *k = &j->kernel;
    const metatune_encode_conv2d *c = &k->conv;
    int64_t a = j->values[HOST_KNOB_ALGORITHM];
    int wino = a == HOST_WINO2 || a == HOST_WINO4;

    fprintf(file, "    { %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d,"
            " %d, %d, %d,\n", (int)c->n, (int)c->c, (int)c->h, (int)c->w,
            (int)c->k, (int)c->r, (int)c->s, (int)c->stride_h,
            (int)c->stride_w, (int)c->pad_top, (int)c->pad_left,
            (int)c->dil_h, (int)c->dil_w, (int)c->groups, (int)k->oh,
            (int)k->ow);
    fprintf(file, "      %d, %d, %d, %d, %d, %.9g, %.9g, %luu, %luu, %luu, "
            "%luu,\n", half_of(c),
            c->layout == METATUNE_NCHWC ? (int)k->march.lanes : 0,
            (int)host_kernel_phases(k, j->values), (int)k->march.threads,
            (int)a, host_tolerance(c, a),
            c->dtype_in == METATUNE_I8 ? 1.0 : host_tolerance(c, HOST_DIRECT),
            (unsigned long)host_kernel_in_size(k),
            (unsigned long)host_kernel_weight_size(k, j->values),
            (unsigned long)host_kernel_out_size(k),
            (unsigned long)host_kernel_work_size(k, j->values));
    fprintf(file, "      %lluu, %lluu, %lluu, run_k%d, part_k%d, in_k%d, "
            "weight_k%d, out_k%d },\n", (unsigned long long)j->seed,
            (unsigned long long)packed_hash(j, 0),
            wino ? 0 : (unsigned long long)packed_hash(j, 1), i, i, i, i, i);
}

static void batch_path(const batch *b, const char *end, char *path,
                       size_t cap)
{
    snprintf(path, cap, "%s/b%d%s", scratch, b->id, end);
}

static int lines(const char *text)
{
    int n = 0;

    while ((text = strchr(text, '\n')) != NULL) {
        n++;
        text++;
    }
    return n;
}

static void write_batch(const batch *b)
{
    char path[400], name[16];
    FILE *file;
    int i, line = 1;

    batch_path(b, ".c", path, sizeof path);
    file = fopen(path, "w");
    CHECK(file != NULL);
    if (!file) return;
    for (i = 0; i < b->n; i++) {
        job *j = &b->jobs[i];
        const char *t = j->kernel.in_bytes == 1 ? "signed char" : "float";
        const char *o = j->kernel.in_bytes == 1 ? "int" : "float";
        snprintf(name, sizeof name, "k%d", i);
        j->line = line;
        if (!host_kernel_emit(&j->kernel, j->values, name, source,
                              sizeof source))
            say_job(j, "emit");
        line += lines(source);
        fputs(source, file);
        if (!host_kernel_emit_pack(&j->kernel, j->values, name, source,
                                   sizeof source))
            say_job(j, "emit_pack");
        line += lines(source) + 11;
        fputs(source, file);
        fprintf(file,
                "static void run_k%d(const void *in, const void *w, void "
                "*out, void *work)\n{ k%d((const %s *)in, (const %s *)w, (%s "
                "*)out, work); }\n", i, i, t, t, o);
        fprintf(file,
                "static void part_k%d(const void *in, const void *w, void "
                "*out, void *work,\n    int phase, int part, int parts)\n"
                "{ k%d_part((const %s *)in, (const %s *)w, (%s *)out, work, "
                "phase, part, parts); }\n", i, i, t, t, o);
        fprintf(file,
                "static void in_k%d(const void *nchw, void *in)\n"
                "{ k%d_pack_in((const %s *)nchw, (%s *)in); }\n"
                "static void weight_k%d(const void *kcrs, void *w)\n"
                "{ k%d_pack_weight((const %s *)kcrs, (%s *)w); }\n"
                "static void out_k%d(const void *out, void *nchw)\n"
                "{ k%d_unpack_out((const %s *)out, (%s *)nchw); }\n",
                i, i, t, t, i, i, t, t, i, i, o, o);
    }
    fprintf(file, "%s#include \"kernels_harness.h\"\n"
            "static const kernels_entry table[] = {\n",
            b->v->threaded ? "#define KERNELS_THREADS\n" : "");
    for (i = 0; i < b->n; i++) write_entry(file, &b->jobs[i], i);
    fprintf(file, "};\nint main(int argc, char **argv)\n{\n"
            "    kernels_all(table, %d, argc > 1 ? atoi(argv[1]) : 0);\n"
            "    return 0;\n}\n", b->n);
    fclose(file);
}

/* Folder of this file, where the harness is. */
static void here(char *path, size_t cap)
{
    char *slash;

    snprintf(path, cap, "%s", __FILE__);
    slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    else
        snprintf(path, cap, ".");
}

/* Compile and run; or from an entry on, run what is compiled. */
static void batch_start(batch *b, int first)
{
    char command[2400], folder[300], path[400];

    batch_path(b, "", path, sizeof path);
    here(folder, sizeof folder);
    if (first)
        snprintf(command, sizeof command, "ulimit -t 300; echo compiled; "
                 "%s %s %d 2>&1", b->v->run, path, first);
    else
        snprintf(command, sizeof command, "ulimit -t 300; if %s -I'%s' -o %s "
                 "%s.c -lm 2>&1; then echo compiled; %s %s 0 2>&1; fi",
                 b->v->cc, folder, path, path, b->v->run, path);
    fflush(stdout);
    b->pipe = popen(command, "r");
    CHECK(b->pipe != NULL);
}

/* Lines of a sanitizer or compiler that say what happened. */
static int telling(const char *line)
{
    static const char *const signs[] = { "error", "ERROR", "READ of",
        "WRITE of", "#0 ", "#1 ", "located", "signal" };
    size_t i;

    for (i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (strstr(line, signs[i])) return 1;
    return 0;
}

static int n_batches;            /* so far: names of files */

static void batch_check(batch *b, int first);

/* A program that does not compile: which of its kernels are to blame? */
static void batch_split(const batch *b, const char *said)
{
    batch half = *b;
    int i;

    if (b->n == 1) {
        say_job(b->jobs, "does not compile");
        printf("%s", said);
        return;
    }
    for (i = 0; i < 2; i++) {
        half.jobs = b->jobs + (i ? b->n / 2 : 0);
        half.n = i ? b->n - b->n / 2 : b->n / 2;
        half.id = n_batches++;
        write_batch(&half);
        batch_start(&half, 0);
        batch_check(&half, 0);
    }
}

/* "b1.c:234:5: warning: ..." is about the kernel whose source it is in. */
static void say_warning(const batch *b, const char *line)
{
    const char *at = strstr(line, ".c:");
    int n = at ? atoi(at + 3) : 0, i = b->n - 1;

    while (i > 0 && b->jobs[i].line > n) i--;
    say_job(&b->jobs[i], strstr(line, "warning:"));
}

/* Read what a started batch says; go on behind a kernel that crashed. */
static void batch_check(batch *b, int first)
{
    char line[512], said[1600] = "", path[400];
    int compiled = 0, at = first - 1, ended = first - 1, i, a, told = 0;
    int faults = check_faults, status;
    size_t n = 0;
    double worst;

    while (b->pipe && fgets(line, sizeof line, b->pipe)) {
        if (strcmp(line, "compiled\n") == 0) {
            compiled = 1;
        } else if (sscanf(line, "begin %d", &i) == 1) {
            at = i;
        } else if (sscanf(line, "ok %d %d %lf", &i, &a, &worst) == 3 &&
                   i == at && a >= 0 && a < HOST_ALGORITHMS) {
            ended = i;
            done_n[a]++;
            if (worst > done_worst[a]) done_worst[a] = worst;
        } else if (sscanf(line, "bad %d", &i) == 1 && i == at) {
            ended = i;
            line[strcspn(line, "\n")] = 0;
            say_job(&b->jobs[i], strchr(line + 4, ' ') + 1);
        } else if (!compiled && strstr(line, "warning:")) {
            line[strcspn(line, "\n")] = 0;
            say_warning(b, line);
        } else if (strstr(line, "WARNING: ThreadSanitizer") && at >= 0) {
            line[strcspn(line, "\n")] = 0; /* it goes on by itself */
            say_job(&b->jobs[at], line);
        } else if (told < 8 && n + strlen(line) + 16 < sizeof said &&
                   telling(line)) {
            told++;
            n += (size_t)snprintf(said + n, sizeof said - n, "          %s",
                                  line);
        }
    }
    status = b->pipe ? pclose(b->pipe) : -1;
    b->pipe = NULL;
    if (!compiled) {
        batch_split(b, said);
    } else if (at > ended) {
        say_job(&b->jobs[at], "crashed");
        if (check_faults <= 20) printf("%s", said);
        if (at + 1 < b->n) {
            batch_start(b, at + 1);
            batch_check(b, at + 1);
        }
    } else if (ended != b->n - 1 || (status && check_faults == faults)) {
        check_fault(__FILE__, __LINE__, "a program ended badly");
        printf("%s", said);
    }
    batch_path(b, ".c", path, sizeof path);
    if (keep && check_faults > faults)
        printf("        kept %s\n", path);
    else
        unlink(path);
    batch_path(b, "", path, sizeof path);
    unlink(path);
}

/* Can the layer be computed this way? */
static int suits(const host_kernel *k, int64_t algorithm)
{
    uint32_t a;

    for (a = 0; a < k->knob[HOST_KNOB_ALGORITHM].n_values; a++)
        if (k->knob[HOST_KNOB_ALGORITHM].values[a] == algorithm) return 1;
    return 0;
}

/* The algorithms in turn, each on a layer that it suits; every fifth setting
   is a layer's default. */
static void fill_jobs(batch *b)
{
    static const int turn[] = { HOST_DIRECT, HOST_WINO2, HOST_DEPTH,
                                HOST_FLAT, HOST_WINO4, HOST_PLANE,
                                HOST_DIRECT };

    for (b->n = 0; b->n < BATCH; b->n++) {
        job *j = &b->jobs[b->n];
        int want = only >= 0 ? only : turn[b->n % 7], tries;
        for (tries = 0; tries < 1000; tries++) {
            int32_t lanes = b->v->lanes ? b->v->lanes : all_lanes[pick(4)];
            metatune_encode_conv2d c = layers_random(&rng, lanes);
            host_march march = march_of(lanes, 1 + pick((int)b->v->threads));
            CHECK_INT(host_kernel_init(&j->kernel, &c, &march, NULL, 0),
                      METATUNE_OK);
            if (suits(&j->kernel, want)) break;
        }
        j->seed = metatune_encode_rng_next(&rng) >> 1;
        if (b->n % 5 == 4) {
            host_kernel_default(&j->kernel, j->values);
        } else if (!layers_setting(&j->kernel, &rng, want, j->values)) {
            if (tries < 1000) say_job(j, "repair");
            host_kernel_default(&j->kernel, j->values);
        }
    }
}

static int works(const char *cc, const char *run)
{
    char path[400], command[1600];
    FILE *file;
    int rc;

    snprintf(path, sizeof path, "%s/works.c", scratch);
    file = fopen(path, "w");
    if (!file) return 0;
    fputs("#include <stdio.h>\nint main(void) { return 0; }\n", file);
    fclose(file);
    snprintf(command, sizeof command, "{ %s -o %s/works %s -lm && %s "
             "%s/works; } >/dev/null 2>&1", cc, scratch, path, run, scratch);
    rc = system(command);
    unlink(path);
    snprintf(path, sizeof path, "%s/works", scratch);
    unlink(path);
    return rc == 0;
}

static char skip_text[200];

/* `batches` programs (times the scale), two at a time. */
static void check_variant(const char *cc, const char *run, int32_t lanes,
                          int32_t threads, int sanitize, int threaded,
                          int batches)
{
    static job jobs[PAIR][BATCH];
    char command[1200];
    batch pair[PAIR];
    variant v;
    int i, n, left, a;

    v.run = run;
    v.lanes = lanes;
    v.threads = threads;
    v.sanitize = sanitize;
    v.threaded = threaded;
    v.cc = command;
    snprintf(command, sizeof command, "%s%s%s", cc, sanitize
             ? " -fsanitize=address,undefined -fno-sanitize-recover=all" : "",
             threaded ? " -pthread" : "");
    if (!works(command, run)) {
        snprintf(skip_text, sizeof skip_text, "\"%.80s\" does not work here",
                 cc);
        SKIP(skip_text);
    }
    /* warnings are faults, where the compiler knows these flags */
    n = (int)strlen(command);
    snprintf(command + n, sizeof command - (size_t)n,
             " -Wall -Wextra -Wno-psabi");
    if (!works(command, run)) command[n] = 0;
    memset(done_n, 0, sizeof done_n);
    memset(done_worst, 0, sizeof done_worst);
    left = (int)ceil(batches * scale);
    for (i = 0; i < PAIR; i++) {
        pair[i].v = &v;
        pair[i].jobs = jobs[i];
    }
    for (; left > 0; left -= PAIR) {
        n = left < PAIR ? left : PAIR;
        for (i = 0; i < n; i++) {
            pair[i].id = n_batches++;
            fill_jobs(&pair[i]);
            write_batch(&pair[i]);
            batch_start(&pair[i], 0);
        }
        for (i = 0; i < n; i++) batch_check(&pair[i], 0);
    }
    printf("    right, and the worst error in units of direct's bound:");
    for (a = 0; a < HOST_ALGORITHMS; a++)
        if (done_n[a])
            printf(" %s %d (%.2g)", host_algorithm_name(a), done_n[a],
                   done_worst[a]);
    printf("\n");
}

static const char *default_cc(void)
{
    const char *cc = getenv("CC");

    return cc && cc[0] ? cc : "cc";
}

static char native_text[300];

/* The compiler with the flags of this machine, where it has some. */
static const char *native_cc(const char *flags)
{
    snprintf(native_text, sizeof native_text, "%.200s %s -march=native",
             default_cc(), flags);
    if (!works(native_text, ""))
        snprintf(native_text, sizeof native_text, "%.200s %s", default_cc(),
                 flags);
    return native_text;
}

static void test_sanitized(void)
{
    check_variant(native_cc("-std=gnu99 -O0"), "", 0, 2, 1, 0, 4);
}

static void test_optimized(void)
{
    check_variant(native_cc("-std=gnu99 -O2 -ffp-contract=fast"), "", 0, 3, 0,
                  0, 2);
}

static void test_threads(void)
{
    check_variant(native_cc("-std=gnu99 -O0 -fsanitize=thread"), "", 0, 3, 0,
                  1, 2);
}

static void test_clang(void)
{
    check_variant("clang -std=gnu99 -O0", "", 0, 2, 1, 0, 1);
}

static void test_avx2(void)
{
    check_variant("gcc -std=gnu99 -O2 -mavx2 -mfma", "", 8, 2, 0, 0, 1);
}

static void test_sse4(void)
{
    check_variant("gcc -std=gnu99 -O2 -msse4.2", "", 4, 2, 0, 0, 1);
}

static void test_neon(void)
{
    check_variant("aarch64-linux-gnu-gcc -std=gnu99 -O2 -static",
                  "qemu-aarch64-static", 4, 2, 0, 0, 1);
}

/* Strictly C99, no extension of any compiler. */
static void test_plain_c(void)
{
    char cc[300];

    snprintf(cc, sizeof cc, "%.200s -std=c99 -pedantic-errors -O0",
             default_cc());
    check_variant(cc, "", 1, 2, 1, 0, 1);
}

static void test_tcc(void)
{
    check_variant("tcc", "", 1, 2, 0, 0, 1);
}

static int usage(const char *what)
{
    fprintf(stderr, "test_kernels: %s (see the top of tests/test_kernels.c)"
            "\n", what);
    return 2;
}

static variant asked;            /* by --cc; flags in `asked_cc` */
static char asked_cc[600];
static int asked_static;

static void test_asked(void)
{
    if (asked_static)
        strncat(asked_cc, " -static",
                sizeof asked_cc - strlen(asked_cc) - 1);
    check_variant(asked_cc, asked.run, asked.lanes, asked.threads,
                  asked.sanitize, asked.threaded, 2);
}

static int algorithm_of(const char *name)
{
    int a;

    for (a = 0; a < HOST_ALGORITHMS; a++)
        if (strcmp(host_algorithm_name(a), name) == 0) return a;
    return -1;
}

static int options(int argc, char **argv)
{
    int i;

    asked.run = "";
    asked.threads = 2;
    for (i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--keep") == 0) keep = 1;
        else if (strcmp(name, "--static") == 0) asked_static = 1;
        else if (strcmp(name, "--sanitize") == 0) asked.sanitize = 1;
        else if (strcmp(name, "--pthread") == 0) asked.threaded = 1;
        else if (++i >= argc) return usage("an option lacks its value");
        else if (strcmp(name, "--seed") == 0)
            seed = (uint64_t)strtoull(argv[i], NULL, 10);
        else if (strcmp(name, "--scale") == 0) scale = atof(argv[i]);
        else if (strcmp(name, "--cc") == 0)
            snprintf(asked_cc, sizeof asked_cc, "%s", argv[i]);
        else if (strcmp(name, "--run") == 0) asked.run = argv[i];
        else if (strcmp(name, "--lanes") == 0)
            asked.lanes = (int32_t)atoi(argv[i]);
        else if (strcmp(name, "--threads") == 0)
            asked.threads = (int32_t)atoi(argv[i]);
        else if (strcmp(name, "--algorithm") == 0) {
            only = algorithm_of(argv[i]);
            if (only < 0) return usage("no such algorithm");
        } else
            return usage("no such option");
    }
    return scale > 0 && asked.threads >= 1 && asked.threads <= 8
               ? 0
               : usage("scale is positive, threads 1 to 8");
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR"), *more = getenv("METATUNE_KERNELS");
    int rc;

    if (more && atof(more) > 0) scale = atof(more);
    if (options(argc, argv)) return 2;
    printf("seed %llu\n", (unsigned long long)seed);
    metatune_encode_rng_init(&rng, seed, 0);
    snprintf(scratch, sizeof scratch, "%s/test_kernels-XXXXXX",
             tmp && tmp[0] && strlen(tmp) < 200 ? tmp : "/tmp");
    if (!mkdtemp(scratch)) {
        perror(scratch);
        return 1;
    }
    if (asked_cc[0]) {
        RUN(test_asked);
    } else {
        RUN(test_skeletons);
        RUN(test_settings);
        RUN(test_distinct);
        RUN(test_sanitized);
        RUN(test_optimized);
        RUN(test_threads);
        RUN(test_clang);
        RUN(test_avx2);
        RUN(test_sse4);
        RUN(test_neon);
        RUN(test_plain_c);
        RUN(test_tcc);
    }
    rc = check_report("test_kernels");
    rmdir(scratch);
    return rc;
}
