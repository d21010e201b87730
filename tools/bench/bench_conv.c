/* bench_conv.c - tuned kernels against libraries, layer by layer

   `make bench-conv` tunes (bench_conv.sh), then runs this program on the
   logs. For every distinct shape of our networks, in one process and in
   alternation: our winner in blocked layout and on plain nchw, the better of
   which is our best; oneDNN at its best, and on plain nchw; XNNPACK;
   OpenBLAS. Packing of weights is excluded for all, padding included for all.
   Each output is compared with the naive loops first; who is wrong is void.
   What loses is timed again with more rounds before it counts.

   --threads  how much faster a second thread makes ours, against oneDNN
   --against  the winners of two logs against each other */
#define _POSIX_C_SOURCE 200809L
#define METATUNE_IMPLEMENTATION
#include "../../metatune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_ours.h"
#include "bench_report.h"

enum {
    ROUNDS = 11,
    AGAIN = 2,                   /* times that many more for what loses */
    THREADS = 2
};
#define THREADS_GFLOP 0.05       /* smaller layers do not share well */
#define THREADS_PAUSE_S 0.02     /* lets OpenMP's idle threads go to sleep */

/* In the order of the table; installed ones only. */
static const bench_rival *const rivals[] = {
#ifdef BENCH_HAVE_ONEDNN
    &bench_onednn,
#endif
#ifdef BENCH_HAVE_XNNPACK
    &bench_xnnpack,
#endif
#ifdef BENCH_HAVE_OPENBLAS
    &bench_openblas,
#endif
    NULL
};
static const char *const rival_names[] = {"oneDNN", "XNNPACK", "OpenBLAS"};
enum { ONEDNN, XNNPACK, OPENBLAS, RIVALS };

typedef struct options {
    cmd_tasks tasks;             /* only these; none: all */
    const char *cc, *march, *json, *markdown, *times;
    uint64_t rounds;
    int threads, against, guess;
    char **logs;                 /* logs and folders of them */
    size_t n_logs;
} options;

typedef struct bench {
    const options *o;
    host_run run;
    char key[1024];              /* of the run as a target */
    export_table table;
    int have_table;
    cmd_text head;
    bench_row *rows;
    size_t n;
} bench;

/* ------------------------------------------------------ the environment */

/* Libraries look at these when they are loaded: change them, begin again. */
static void environment(char **argv)
{
    static const char *const want[][2] = {
        {"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"},
        {"OPENBLAS_CORETYPE", NULL}, {"OMP_THREAD_LIMIT", NULL},
        {"DNNL_MAX_CPU_ISA", NULL}, {"ONEDNN_MAX_CPU_ISA", NULL},
        {"DNNL_DEFAULT_FPMATH_MODE", NULL},
        {"ONEDNN_DEFAULT_FPMATH_MODE", NULL},
        {"DNNL_VERBOSE", NULL}, {"ONEDNN_VERBOSE", NULL},
    };
    size_t i;
    int changed = 0;
    for (i = 0; i < sizeof want / sizeof want[0]; i++) {
        const char *now = getenv(want[i][0]);
        if (want[i][1] ? now && strcmp(now, want[i][1]) == 0 : !now)
            continue;
        changed = 1;
        if (want[i][1])
            setenv(want[i][0], want[i][1], 1);
        else
            unsetenv(want[i][0]);
    }
    if (!changed)
        return;
    execv("/proc/self/exe", argv);
    execvp(argv[0], argv);
    fprintf(stderr, "bench_conv: cannot begin again with OMP_NUM_THREADS=1\n");
    exit(CMD_FAILED);
}

static const bench_rival *rival_of(int which)
{
    int i;
    for (i = 0; rivals[i]; i++)
        if (strcmp(rivals[i]->name, rival_names[which]) == 0)
            return rivals[i];
    return NULL;
}

/* The machine and everyone's version: every output begins with it. */
static void head_make(bench *b)
{
    char line[160];
    double load[1] = {0};
    int i;
    FILE *f = fopen("/proc/loadavg", "r");
    if (f) {
        if (fscanf(f, "%lf", load) != 1)
            load[0] = 0;
        fclose(f);
    }
    cmd_text_add(&b->head, "cpu %s, load %.2f\n", b->run.platform.cpu,
                 load[0]);
    if (load[0] > 1)
        cmd_text_add(&b->head, "the machine is busy: figures of a moment "
                     "like this are not to be quoted\n");
    cmd_text_add(&b->head, "kernels %s %s\n", b->run.platform.cc,
                 b->run.platform.flags);
    for (i = 0; i < RIVALS; i++) {
        const bench_rival *r = rival_of(i);
        if (r)
            r->version(line, sizeof line);
        else
            snprintf(line, sizeof line, "%s not installed: left out",
                     rival_names[i]);
        cmd_text_add(&b->head, "%s\n", line);
    }
    cmd_text_add(&b->head, "one process, %s, at least %u rounds in "
                 "alternation, medians\n",
                 b->o->threads ? "1 and 2 threads" : "one thread",
                 (unsigned)b->o->rounds);
    fputs(b->head.p, stdout);
}

/* Opens the run and its logs. CMD_OK, or a status after one line. */
static int bench_open(bench *b, const options *o, int threads,
                      char *const *logs, size_t n_logs)
{
    host_config cfg;
    host_error error;
    int st = CMD_OK;
    memset(b, 0, sizeof *b);
    memset(&cfg, 0, sizeof cfg);
    memset(&error, 0, sizeof error);
    b->o = o;
    cfg.cc = o->cc;
    cfg.march = o->march;
    cfg.threads = threads;
    cfg.cancel = &cmd_interrupted;
    if (host_run_open(&b->run, &cfg, &error) != METATUNE_OK) {
        b->run.folder[0] = 0;
        return cmd_fail(CMD_FAILED, "bench_conv: %s", error.line);
    }
    if (!host_run_key(&b->run, b->key, sizeof b->key))
        return cmd_fail(CMD_FAILED, "bench_conv: the target's key is too "
                        "long");
    if (n_logs > 0) {
        st = bench_ours_read(&b->table, logs, n_logs, b->key);
        b->have_table = st == CMD_OK;
    }
    return st;
}

static void bench_close(bench *b)
{
    if (b->run.folder[0])
        host_run_close(&b->run);
    export_table_free(&b->table);
    cmd_text_free(&b->head);
    free(b->rows);
}

/* -------------------------------------------------------------- layers */

static int chosen(const options *o, const metatune_encode_conv2d *conv)
{
    size_t i;
    for (i = 0; i < o->tasks.n; i++)
        if (nets_same_shape(&o->tasks.task[i].conv, conv))
            return 1;
    return o->tasks.n == 0;
}

/* Distinct shapes of the networks, then what was given as a SPEC. */
static void rows_make(bench *b)
{
    const options *o = b->o;
    size_t cap = (size_t)nets_count() + o->tasks.n, i;
    int32_t j;
    b->rows = (bench_row *)cmd_alloc(cap * sizeof *b->rows);
    memset(b->rows, 0, cap * sizeof *b->rows);
    for (j = 0; j < nets_count() + (int32_t)o->tasks.n; j++) {
        const nets_layer *l = nets_get(j);
        const cmd_task *t = l ? NULL : &o->tasks.task[j - nets_count()];
        metatune_encode_conv2d conv = l ? l->conv : t->conv;
        bench_row *r = &b->rows[b->n];
        conv.layout = METATUNE_NCHW;
        conv.block = 0;
        if (!chosen(o, &conv))
            continue;
        for (i = 0; i < b->n; i++)
            if (nets_same_shape(&b->rows[i].conv, &conv))
                break;
        if (i < b->n)
            continue;
        r->conv = conv;
        if (l)
            snprintf(r->name, sizeof r->name, "%s/%s", l->net, l->layer);
        else
            snprintf(r->name, sizeof r->name, "%s", t->name);
        b->n++;
    }
}

/* What belongs together in a field: a contestant's entries. */
typedef struct side {
    bench_entry entry[BENCH_KEEP];
    int first, n;                /* positions in the field */
} side;

/* The right ones of its entries go into the field; *wrong counts the others.
   How many did. */
static int side_add(side *s, bench_field *f, const bench_case *c,
                    const char *who, int opened, int *wrong)
{
    int i;
    s->first = f->n;
    for (i = 0; i < opened; i++)
        if (bench_entry_right(&s->entry[i], c, who))
            bench_field_add(f, &s->entry[i]);
        else
            ++*wrong;
    s->n = f->n - s->first;
    return s->n;
}

static int side_rival(side *s, bench_field *f, const bench_case *c,
                      int which, int mode, int threads, int *wrong)
{
    const bench_rival *r = rival_of(which);
    memset(s, 0, sizeof *s);
    return r ? side_add(s, f, c, r->name,
                        r->open(c, mode, threads, s->entry), wrong)
             : 0;
}

/* Is there a kernel of ours to open? */
static int ours_has(const bench *b, const metatune_encode_conv2d *conv,
                    int32_t layout)
{
    return b->o->guess || (b->have_table &&
                           bench_ours_has(&b->run, &b->table, conv, layout));
}

static int side_ours(side *s, bench_field *f, bench *b, const bench_case *c,
                     int32_t layout, int parts, bench_winner *winner,
                     int *wrong)
{
    int st;
    memset(s, 0, sizeof *s);
    memset(winner, 0, sizeof *winner);
    if (!ours_has(b, &c->conv, layout))
        return 0;
    st = bench_ours_open(&b->run, b->have_table ? &b->table : NULL, c,
                         layout, parts, &s->entry[0], winner);
    if (st == BENCH_OURS_NONE && b->o->guess)
        st = bench_ours_open(&b->run, NULL, c, layout, parts, &s->entry[0],
                             winner);
    *wrong += st == BENCH_OURS_BAD;
    return side_add(s, f, c, "ours", st == BENCH_OURS_OPEN, wrong);
}

static void side_close(side *s)
{
    int i;
    for (i = 0; i < BENCH_KEEP; i++)
        bench_entry_close(&s->entry[i]);
}

/* Its best entry's time, and whose that is. */
static double side_time(const side *s, const bench_field *f, int *at)
{
    *at = bench_field_best(f, s->first, s->n);
    return *at < 0 ? 0 : bench_field_time(f, *at);
}

/* ------------------------------------------------------ against others */

static double ratio_of(const bench_field *f, const side *theirs,
                       const side *ours)
{
    int a, b;
    if (!(side_time(theirs, f, &a) > 0) || !(side_time(ours, f, &b) > 0))
        return 0;
    return bench_field_ratio(f, a, b);
}

static void row_measure(bench *b, bench_row *r)
{
    enum { OURS, PLAIN, ONE, ONE_PLAIN, XNN, BLAS, SIDES };
    side s[SIDES], any;
    bench_case c;
    bench_field f;
    bench_winner winner;
    int i, at, mine;
    memset(&f, 0, sizeof f);
    bench_case_open(&c, r->name, &r->conv);
    r->gflop = c.gflop;
    r->naive_s = c.naive_s;
    mine = side_ours(&s[OURS], &f, b, &c, METATUNE_NCHWC, 1, &winner,
                     &r->wrong);
    if (mine)
        snprintf(r->ours, sizeof r->ours, "%s", winner.algorithm);
    if (side_ours(&s[PLAIN], &f, b, &c, METATUNE_NCHW, 1, &winner,
                  &r->wrong)) {
        snprintf(r->ours_plain, sizeof r->ours_plain, "%s",
                 winner.algorithm);
        mine++;
    }
    if (mine) {
        /* as oneDNN's, our best is over layouts: both of ours */
        memset(&any, 0, sizeof any);
        any.first = s[OURS].first;
        any.n = s[OURS].n + s[PLAIN].n;
        side_rival(&s[ONE], &f, &c, ONEDNN, BENCH_BEST, 1, &r->wrong);
        side_rival(&s[ONE_PLAIN], &f, &c, ONEDNN, BENCH_PLAIN, 1, &r->wrong);
        side_rival(&s[XNN], &f, &c, XNNPACK, BENCH_BEST, 1, &r->wrong);
        side_rival(&s[BLAS], &f, &c, OPENBLAS, BENCH_BEST, 1, &r->wrong);
        bench_field_run(&f, (int)b->o->rounds);
        for (i = 0; i < 2; i++) {
            r->ratio = ratio_of(&f, &s[ONE], &any);
            r->ratio_plain = ratio_of(&f, &s[ONE_PLAIN], &s[PLAIN]);
            if (i == 0 && ((r->ratio > 0 && r->ratio < 1) ||
                           (r->ratio_plain > 0 && r->ratio_plain < 1)))
                bench_field_run(&f, AGAIN * (int)b->o->rounds);
        }
        r->rounds = (int)f.rounds;
        r->ratio_xnnpack = ratio_of(&f, &s[XNN], &any);
        r->ratio_openblas = ratio_of(&f, &s[BLAS], &any);
        r->ours_s = side_time(&any, &f, &at);
        if (s[PLAIN].n && at == s[PLAIN].first)
            snprintf(r->ours, sizeof r->ours, "%.16s nchw",
                     r->ours_plain);
        r->ours_plain_s = side_time(&s[PLAIN], &f, &at);
        r->xnnpack_s = side_time(&s[XNN], &f, &at);
        r->openblas_s = side_time(&s[BLAS], &f, &at);
        r->onednn_s = side_time(&s[ONE], &f, &at);
        if (at >= 0)
            snprintf(r->onednn, sizeof r->onednn, "%s", f.entry[at]->label);
        r->onednn_plain_s = side_time(&s[ONE_PLAIN], &f, &at);
        if (at >= 0)
            snprintf(r->onednn_plain, sizeof r->onednn_plain, "%s",
                     f.entry[at]->label);
        for (i = ONE; i < SIDES; i++)
            side_close(&s[i]);
    }
    side_close(&s[OURS]);
    side_close(&s[PLAIN]);
    bench_field_free(&f);
    bench_case_close(&c);
}

static int bench_rivals(const options *o)
{
    bench b;
    size_t i, done = 0, missing = 0;
    int st = bench_open(&b, o, 1, o->logs, o->n_logs);
    if (st == CMD_OK) {
        head_make(&b);
        rows_make(&b);
        bench_report_head();
        for (i = 0; i < b.n && !cmd_interrupted; i++) {
            bench_row *r = &b.rows[done];
            *r = b.rows[i];
            if (!ours_has(&b, &r->conv, METATUNE_NCHWC) &&
                !ours_has(&b, &r->conv, METATUNE_NCHW)) {
                missing++;
                continue;
            }
            row_measure(&b, r);
            bench_report_row(r);
            if (r->wrong)
                st = CMD_FAILED;
            done++;
        }
        if (missing)
            printf("%zu layers are not in the logs\n", missing);
        if (o->json && bench_report_json(o->json, b.head.p, b.rows, done))
            st = CMD_FAILED;
        if (o->markdown &&
            bench_report_markdown(o->markdown, b.head.p, b.rows, done))
            st = CMD_FAILED;
        if (o->times) {
            printf("\n");
            bench_report_tuning(o->times);
        }
        bench_report_sums(b.rows, done);
    }
    bench_close(&b);
    return st;
}

/* ---------------------------------------------------------- two threads */

/* Our gain by a second thread over oneDNN's; 0: not to be had. alone: the run
   of one thread, whose winner may be the better lone one. */
static double scaling_measure(bench *b, bench *alone, bench_row *r)
{
    enum { LONE, ONE, TWO, DNNL_ONE, DNNL_TWO, SIDES };
    side s[SIDES];
    bench_case c;
    bench_field f;
    bench_winner winner;
    double ours = 0, theirs = 0, x = 0;
    int i, at[SIDES];
    memset(&f, 0, sizeof f);
    memset(s, 0, sizeof s);
    bench_case_open(&c, r->name, &r->conv);
    f.pause_s = THREADS_PAUSE_S;
    if (side_ours(&s[TWO], &f, b, &c, METATUNE_NCHWC, THREADS, &winner,
                  &r->wrong) &&
        side_ours(&s[ONE], &f, b, &c, METATUNE_NCHWC, 1, &winner,
                  &r->wrong) &&
        side_rival(&s[DNNL_ONE], &f, &c, ONEDNN, BENCH_BEST, 1, &r->wrong) &&
        side_rival(&s[DNNL_TWO], &f, &c, ONEDNN, BENCH_BEST, THREADS,
                   &r->wrong)) {
        snprintf(r->ours, sizeof r->ours, "%s", winner.algorithm);
        side_ours(&s[LONE], &f, alone, &c, METATUNE_NCHWC, 1, &winner,
                  &r->wrong);
        bench_field_run(&f, (int)b->o->rounds);
        for (;;) {
            for (i = 0; i < SIDES; i++)
                at[i] = bench_field_best(&f, s[i].first, s[i].n);
            if (at[LONE] >= 0 && bench_field_time(&f, at[LONE]) <
                                     bench_field_time(&f, at[ONE]))
                at[ONE] = at[LONE];
            x = bench_field_scaling(&f, at[ONE], at[TWO], at[DNNL_ONE],
                                    at[DNNL_TWO]);
            if (x >= 1 || f.rounds > b->o->rounds)
                break;
            bench_field_run(&f, AGAIN * (int)b->o->rounds);
        }
        ours = bench_field_ratio(&f, at[ONE], at[TWO]);
        theirs = bench_field_ratio(&f, at[DNNL_ONE], at[DNNL_TWO]);
        printf("%-30s %-9s %8.1f %8.1f %7.3f | %8.1f %8.1f %7.3f | %7.3f\n",
               r->name, r->ours, c.gflop / bench_field_time(&f, at[ONE]),
               c.gflop / bench_field_time(&f, at[TWO]), ours,
               c.gflop / bench_field_time(&f, at[DNNL_ONE]),
               c.gflop / bench_field_time(&f, at[DNNL_TWO]), theirs, x);
        fflush(stdout);
    }
    for (i = 0; i < SIDES; i++)
        side_close(&s[i]);
    bench_field_free(&f);
    bench_case_close(&c);
    return x;
}

static int bench_threads(const options *o)
{
    bench b, alone;
    double *x = NULL;
    size_t i, m = 0;
    int st = bench_open(&alone, o, 1, NULL, 0);
    memset(&b, 0, sizeof b);
    if (st == CMD_OK && bench_ours_hold(o->logs, o->n_logs, alone.key))
        alone.have_table = bench_ours_read(&alone.table, o->logs, o->n_logs,
                                           alone.key) == CMD_OK;
    if (st == CMD_OK)
        st = bench_open(&b, o, THREADS, o->logs, o->n_logs);
    if (st == CMD_OK) {
        head_make(&b);
        rows_make(&b);
        x = (double *)bench_alloc(b.n * sizeof *x);
        printf("\nlayers above %.0f MFLOP; GFLOP/s of one and two threads, "
               "the gain, and ours over oneDNN's.\nOurs alone is the better "
               "of the kernel tuned for two threads%s.\n\n",
               1e3 * THREADS_GFLOP,
               alone.have_table ? " and the one tuned for one"
                                : " (no log of one thread given)");
        printf("%-30s %-9s %8s %8s %7s | %8s %8s %7s | %7s\n", "layer",
               "algo", "ours 1", "ours 2", "gain", "oneDNN 1", "oneDNN 2",
               "gain", "ratio");
        for (i = 0; i < b.n && !cmd_interrupted; i++) {
            bench_row *r = &b.rows[i];
            if (1e-9 * metatune_encode_conv2d_flop(&r->conv) >
                    THREADS_GFLOP && ours_has(&b, &r->conv, METATUNE_NCHWC))
                x[i] = scaling_measure(&b, &alone, r);
            if (r->wrong)
                st = CMD_FAILED;
        }
        printf("\ngeomean scaling %.3f over ",
               bench_geomean(x, b.n, &m));
        printf("%zu layers\n", m);
        free(x);
    }
    bench_close(&b);
    bench_close(&alone);
    return st;
}

/* --------------------------------------------------- log against log */

static double against_measure(bench *a, bench *b, const bench_row *r,
                              int32_t layout)
{
    side s[2];
    bench_case c;
    bench_field f;
    bench_winner winner[2];
    double x = 0;
    int wrong = 0, at[2];
    memset(&f, 0, sizeof f);
    bench_case_open(&c, r->name, &r->conv);
    if (side_ours(&s[0], &f, a, &c, layout, 1, &winner[0], &wrong) +
            side_ours(&s[1], &f, b, &c, layout, 1, &winner[1], &wrong) == 2) {
        bench_field_run(&f, (1 + AGAIN) * (int)a->o->rounds);
        at[0] = s[0].first;
        at[1] = s[1].first;
        /* the same setting is the same kernel: noise is no difference */
        x = memcmp(winner[0].values, winner[1].values,
                   sizeof winner[0].values) == 0
                ? 1 : bench_field_ratio(&f, at[0], at[1]);
        printf("%-30s %-6s %-7s %8.1f %-7s %8.1f %7.3f\n", r->name,
               cmd_layout_name[layout], winner[0].algorithm,
               c.gflop / bench_field_time(&f, at[0]), winner[1].algorithm,
               c.gflop / bench_field_time(&f, at[1]), x);
        fflush(stdout);
    }
    side_close(&s[0]);
    side_close(&s[1]);
    bench_field_free(&f);
    bench_case_close(&c);
    return x;
}

static int bench_against(const options *o)
{
    bench a, b;
    double *x = NULL;
    size_t i, m = 0;
    int32_t layout;
    int st = bench_open(&a, o, 1, o->logs, 1);
    memset(&b, 0, sizeof b);
    if (st == CMD_OK)
        st = bench_open(&b, o, 1, o->logs + 1, 1);
    if (st == CMD_OK) {
        rows_make(&a);
        x = (double *)bench_alloc(3 * a.n * sizeof *x);
        printf("first %s, second %s; GFLOP/s, and the first's time over the "
               "second's\n\n", o->logs[0], o->logs[1]);
        printf("%-30s %-6s %-7s %8s %-7s %8s %7s\n", "layer", "layout",
               "first", "", "second", "", "ratio");
        for (i = 0; i < 3 * a.n && !cmd_interrupted; i++) {
            const metatune_encode_conv2d *conv = &a.rows[i / 3].conv;
            layout = (int32_t)(i % 3);
            if (ours_has(&a, conv, layout) && ours_has(&b, conv, layout))
                x[i] = against_measure(&a, &b, &a.rows[i / 3], layout);
        }
        printf("\ngeomean first/second %.4f over ",
               bench_geomean(x, 3 * a.n, &m));
        printf("%zu layers\n", m);
        free(x);
    }
    bench_close(&a);
    bench_close(&b);
    return st;
}

/* ----------------------------------------------------------- arguments */

static const char usage[] =
    "usage: bench_conv [OPTIONS] LOG...\n"
    "       bench_conv --threads [OPTIONS] LOG...\n"
    "       bench_conv --against [OPTIONS] LOG LOG\n"
    "\n"
    "A LOG is a record log, or a folder: all .jsonl files in it.\n"
    "  --net, --layer, --conv   only these, as in `metatune tune`\n"
    "  --rounds N        of the alternation (11)\n"
    "  --guess           default settings for what is in no log\n"
    "  --json FILE, --markdown FILE   the table, for other programs\n"
    "  --times FILE      \"LAYOUT NET/LAYER SECONDS\" lines: how long tuning "
    "took\n"
    "  --cc CC, --march M   as given to `metatune tune`\n";

static int parse(options *o, int argc, char **argv)
{
    cmd_args args;
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->rounds = ROUNDS;
    o->logs = (char **)cmd_alloc((size_t)argc * sizeof *o->logs);
    cmd_args_init(&args, "bench_conv", argc - 1, argv + 1);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (!args.name[0]) {
            o->logs[o->n_logs++] = args.argv[args.i - 1];
        } else if (cmd_tasks_option(&args, &o->tasks, &st)) {
            ;
        } else if (cmd_args_is(&args, "--rounds")) {
            st = cmd_args_u64(&args, 1, 1000, &o->rounds);
        } else if (cmd_args_is(&args, "--guess")) {
            st = cmd_args_flag(&args);
            o->guess = 1;
        } else if (cmd_args_is(&args, "--threads")) {
            st = cmd_args_flag(&args);
            o->threads = 1;
        } else if (cmd_args_is(&args, "--against")) {
            st = cmd_args_flag(&args);
            o->against = 1;
        } else if (cmd_args_is(&args, "--json")) {
            st = cmd_args_text(&args, &o->json);
        } else if (cmd_args_is(&args, "--markdown")) {
            st = cmd_args_text(&args, &o->markdown);
        } else if (cmd_args_is(&args, "--times")) {
            st = cmd_args_text(&args, &o->times);
        } else if (cmd_args_is(&args, "--cc")) {
            st = cmd_args_text(&args, &o->cc);
        } else if (cmd_args_is(&args, "--march")) {
            st = cmd_args_text(&args, &o->march);
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st == CMD_OK && (o->against ? o->n_logs != 2
                                    : o->n_logs == 0 && !o->guess)) {
        fputs(usage, stderr);
        st = CMD_USAGE;
    }
    return st;
}

int main(int argc, char **argv)
{
    options o;
    int st;
    environment(argv);
    st = parse(&o, argc, argv);
    cmd_signals_install();
    if (st == CMD_OK)
        st = o.against   ? bench_against(&o)
             : o.threads ? bench_threads(&o)
                         : bench_rivals(&o);
    if (cmd_interrupted) {
        fprintf(stderr, "bench_conv: interrupted\n");
        st = CMD_FAILED;
    }
    cmd_tasks_free(&o.tasks);
    free(o.logs);
    return st;
}
