/* bench_time.c - cases, samples and medians; see bench_rival.h */
#define _GNU_SOURCE              /* RUSAGE_THREAD */

#include "bench_rival.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "host_run.h"

#define SAMPLE_S 2e-3            /* a sample lasts at least that long */
enum { RETRIES = 6 };            /* of a sample that was interrupted */

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *bench_alloc(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 1) != 0) {
        fprintf(stderr, "bench_conv: out of memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

void bench_nan(float *x, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++)
        x[i] = (float)NAN;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(const double *x, size_t n, double q)
{
    double *s, at, y;
    size_t i;
    if (n == 0)
        return 0;
    s = (double *)bench_alloc(n * sizeof *s);
    memcpy(s, x, n * sizeof *s);
    qsort(s, n, sizeof *s, by_value);
    at = q * (double)(n - 1);
    i = (size_t)at;
    y = i + 1 < n ? s[i] + (at - (double)i) * (s[i + 1] - s[i]) : s[n - 1];
    free(s);
    return y;
}

double bench_median(const double *x, size_t n)
{
    return bench_quantile(x, n, 0.5);
}

/* --------------------------------------------------------------- cases */

void bench_case_open(bench_case *c, const char *name,
                     const metatune_encode_conv2d *conv)
{
    metatune_encode_rng rng;
    double start;
    memset(c, 0, sizeof *c);
    c->name = name;
    c->conv = *conv;
    c->oh = metatune_encode_conv2d_out_h(conv);
    c->ow = metatune_encode_conv2d_out_w(conv);
    c->gflop = 1e-9 * metatune_encode_conv2d_flop(conv);
    c->n_in = (size_t)conv->n * (size_t)conv->c * (size_t)conv->h *
              (size_t)conv->w;
    c->n_w = (size_t)conv->k * (size_t)(conv->c / conv->groups) *
             (size_t)conv->r * (size_t)conv->s;
    c->n_out = (size_t)conv->n * (size_t)conv->k * (size_t)c->oh *
               (size_t)c->ow;
    c->in = (float *)bench_alloc(c->n_in * sizeof(float));
    c->w = (float *)bench_alloc(c->n_w * sizeof(float));
    c->ref = (float *)bench_alloc(c->n_out * sizeof(float));
    c->out = (float *)bench_alloc(c->n_out * sizeof(float));
    metatune_encode_rng_init(&rng, 1, 7);
    host_fill_values(conv, &rng, c->in, c->n_in);
    host_fill_values(conv, &rng, c->w, c->n_w);
    start = bench_now();
    host_naive_conv(conv, c->in, c->w, c->ref);
    c->naive_s = bench_now() - start;
    c->tol = host_tolerance(conv, HOST_WINO4);
}

void bench_case_close(bench_case *c)
{
    free(c->in);
    free(c->w);
    free(c->ref);
    free(c->out);
    memset(c, 0, sizeof *c);
}

/* ------------------------------------------------------------- entries */

void bench_entry_close(bench_entry *e)
{
    if (e->close)
        e->close(e->state);
    memset(e, 0, sizeof *e);
}

int bench_entry_right(const bench_entry *e, const bench_case *c,
                      const char *who)
{
    size_t i, at = 0;
    double worst = -1;
    e->poison(e->state);
    if (e->before)
        e->before(e->state);
    e->run(e->state);
    if (e->after)
        e->after(e->state);
    bench_nan(c->out, c->n_out);
    e->output(e->state, c->out);
    for (i = 0; i < c->n_out; i++) {
        double d = fabs((double)c->out[i] - (double)c->ref[i]);
        if (!(d <= worst)) {     /* a NaN is worst of all */
            worst = d;
            at = i;
            if (!(d <= c->tol))
                break;
        }
    }
    if (worst <= c->tol)
        return 1;
    fprintf(stderr, "bench_conv: error: %s: %s, %s: value %zu is %.9g, want "
            "%.9g within %.2g; entry void\n", c->name, who, e->label, at,
            (double)c->out[at], (double)c->ref[at], c->tol);
    return 0;
}

static double calls(const bench_entry *e, double reps)
{
    double start = bench_now(), i;
    for (i = 0; i < reps; i++)
        e->run(e->state);
    return bench_now() - start;
}

double bench_entry_quick(const bench_entry *e, double best)
{
    double t, least, reps;
    int i;
    if (e->before)
        e->before(e->state);
    e->run(e->state);
    least = calls(e, 1);
    reps = ceil(3e-4 / (least + 1e-9));
    for (i = 0; i < 3 && !(best > 0 && least > 2 * best); i++) {
        t = calls(e, reps) / reps;
        if (t < least)
            least = t;
        if (best > 0 && least > 1.4 * best)
            break;
    }
    if (e->after)
        e->after(e->state);
    return least;
}

/* -------------------------------------------------------------- fields */

int bench_field_add(bench_field *f, bench_entry *e)
{
    if (f->n == BENCH_ENTRIES) {
        fprintf(stderr, "bench_conv: too many entries\n");
        exit(1);
    }
    f->reps[f->n] = 0;
    f->entry[f->n] = e;
    return f->n++;
}

static long interruptions(void)
{
    struct rusage use;
    return getrusage(RUSAGE_THREAD, &use) == 0 ? use.ru_nivcsw : 0;
}

/* Seconds a call, one warm call ahead. */
static double sample(bench_field *f, int i)
{
    const bench_entry *e = f->entry[i];
    struct timespec idle;
    double t = 0, least = 0;
    int attempt;
    for (attempt = 0; attempt <= RETRIES; attempt++) {
        long before;
        if (f->pause_s > 0) {
            idle.tv_sec = 0;
            idle.tv_nsec = (long)(1e9 * f->pause_s);
            nanosleep(&idle, NULL);
        }
        if (e->before)
            e->before(e->state);
        e->run(e->state);
        if (!(f->reps[i] > 0))
            f->reps[i] = ceil(SAMPLE_S / (calls(e, 1) + 1e-9));
        before = interruptions();
        t = calls(e, f->reps[i]);
        while (t < SAMPLE_S) {   /* the first guess was of a slow call */
            f->reps[i] = ceil(f->reps[i] * 1.1 * SAMPLE_S / (t + 1e-9));
            before = interruptions();
            t = calls(e, f->reps[i]);
        }
        if (e->after)
            e->after(e->state);
        if (attempt == 0 || t / f->reps[i] < least)
            least = t / f->reps[i];
        /* long samples are interrupted as a rule; again would not help */
        if (interruptions() == before || t > 10 * SAMPLE_S)
            break;
    }
    return least;
}

void bench_field_run(bench_field *f, int rounds)
{
    int r, i;
    f->t = (double *)realloc(f->t, (f->rounds + (size_t)rounds) *
                                       BENCH_ENTRIES * sizeof *f->t);
    if (!f->t) {
        fprintf(stderr, "bench_conv: out of memory\n");
        exit(1);
    }
    for (r = 0; r < rounds; r++, f->rounds++)
        for (i = 0; i < f->n; i++) {
            /* not always the same neighbour */
            int at = (i + (int)f->rounds) % f->n;
            f->t[f->rounds * BENCH_ENTRIES + (size_t)at] = sample(f, at);
        }
}

/* Median over the rounds of (t[a] / t[b]) / (t[c] / t[d]); what is -1 counts
   as 1. */
static double median_of(const bench_field *f, int a, int b, int c, int d)
{
    double *x = (double *)bench_alloc(f->rounds * sizeof *x), y;
    size_t r;
    for (r = 0; r < f->rounds; r++) {
        const double *t = f->t + r * BENCH_ENTRIES;
        x[r] = t[a];
        x[r] /= b < 0 ? 1 : t[b];
        x[r] /= c < 0 ? 1 : t[c] / t[d];
    }
    y = bench_median(x, f->rounds);
    free(x);
    return y;
}

double bench_field_time(const bench_field *f, int a)
{
    return median_of(f, a, -1, -1, -1);
}

double bench_field_ratio(const bench_field *f, int a, int b)
{
    return median_of(f, a, b, -1, -1);
}

double bench_field_scaling(const bench_field *f, int a, int b, int c, int d)
{
    return median_of(f, a, b, c, d);
}

int bench_field_best(const bench_field *f, int first, int n)
{
    int i, best = -1;
    double least = 0;
    for (i = first; i < first + n; i++) {
        double t = bench_field_time(f, i);
        if (best < 0 || t < least) {
            best = i;
            least = t;
        }
    }
    return best;
}

void bench_field_free(bench_field *f)
{
    free(f->t);
    memset(f, 0, sizeof *f);
}
