/* kernels_harness.h - runs the kernels that test_kernels.c emits

   Included by each program that the test builds, after the kernels and before
   its table. Plain C99; nothing here knows how a kernel works. Each is called
   several ways on poisoned buffers of the exact size (an address sanitizer
   sees one byte too far), and again between guard zones, as badly aligned as
   the types allow. One line a kernel on standard output; the exit status is 0
   even when kernels are wrong, so that anything else is a crash. */
#ifndef KERNELS_HARNESS_H
#define KERNELS_HARNESS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef KERNELS_THREADS
#include <pthread.h>
#endif

#include "kernels_random.h"

typedef struct kernels_entry {
    int n, c, h, w, k, r, s, stride_h, stride_w, top, left, dil_h, dil_w;
    int groups, oh, ow;
    int half;                    /* i8: range of the values; 0: f32 */
    int lanes;                   /* of blocked output; 0: plain output */
    int phases, parts;
    int algorithm;
    double tol, unit;            /* bound; what an error is told in */
    unsigned long in, weight, out, work; /* bytes */
    unsigned long long seed, hash_in, hash_weight; /* 0: not compared */
    void (*run)(const void *in, const void *w, void *out, void *work);
    void (*part)(const void *in, const void *w, void *out, void *work,
                 int phase, int part, int parts);
    void (*pack_in)(const void *nchw, void *in);
    void (*pack_weight)(const void *kcrs, void *w);
    void (*unpack_out)(const void *out, void *nchw);
} kernels_entry;

enum { KERNELS_GUARD = 4096 };

/* A NaN, and an i32 that sums of small layers do not reach. */
static void kernels_poison(unsigned char *to, unsigned long n)
{
    static const unsigned char byte[4] = { 0xa5, 0xa5, 0xa5, 0x7f };
    unsigned long i;

    for (i = 0; i < n; i++) to[i] = byte[i & 3];
}

static int kernels_poisoned(const unsigned char *at, unsigned long n)
{
    static const unsigned char byte[4] = { 0xa5, 0xa5, 0xa5, 0x7f };
    unsigned long i;

    for (i = 0; i < n; i++)
        if (at[i] != byte[i & 3]) return 0;
    return 1;
}

/* Exactly n bytes; or between guard zones, `skew` bytes off any alignment. */
typedef struct kernels_buffer {
    unsigned char *all, *data;
    unsigned long n, skew;
    int guarded;
} kernels_buffer;

static void *kernels_alloc(unsigned long n)
{
    void *p = malloc(n ? n : 1);

    if (!p) {
        printf("out of memory\n");
        exit(3);
    }
    return p;
}

static void kernels_make(kernels_buffer *b, unsigned long n, int guarded,
                         unsigned long skew)
{
    b->n = n;
    b->guarded = guarded;
    b->skew = skew;
    b->all = (unsigned char *)kernels_alloc(
        guarded ? n + skew + 2 * KERNELS_GUARD : n);
    b->data = guarded ? b->all + KERNELS_GUARD + skew : b->all;
    if (guarded) {
        kernels_poison(b->all, KERNELS_GUARD + skew);
        kernels_poison(b->data + n, KERNELS_GUARD);
    }
    kernels_poison(b->data, n);
}

static int kernels_intact(const kernels_buffer *b)
{
    return !b->guarded ||
           (kernels_poisoned(b->all, KERNELS_GUARD + b->skew) &&
            kernels_poisoned(b->data + b->n, KERNELS_GUARD));
}

/* Output i of the naive loops, its place in *y, *x, ...; sums exact in i8,
   in doubles in f32. */
static double kernels_reference(const kernels_entry *e, const void *in,
                                const void *w, unsigned long i)
{
    int cg = e->c / e->groups, kg = e->k / e->groups;
    int x = (int)(i % (unsigned long)e->ow), c, r, s;
    int y = (int)(i / (unsigned long)e->ow % (unsigned long)e->oh);
    int k = (int)(i / (unsigned long)e->ow / (unsigned long)e->oh %
                  (unsigned long)e->k);
    int n = (int)(i / (unsigned long)e->ow / (unsigned long)e->oh /
                  (unsigned long)e->k);
    double sum = 0;

    for (c = 0; c < cg; c++)
        for (r = 0; r < e->r; r++)
            for (s = 0; s < e->s; s++) {
                int iy = y * e->stride_h + r * e->dil_h - e->top;
                int ix = x * e->stride_w + s * e->dil_w - e->left;
                long a, b;
                if (iy < 0 || iy >= e->h || ix < 0 || ix >= e->w) continue;
                a = (((long)n * e->c + k / kg * cg + c) * e->h + iy) * e->w +
                    ix;
                b = (((long)k * cg + c) * e->r + r) * e->s + s;
                if (e->half)
                    sum += (double)(((const signed char *)in)[a] *
                                    ((const signed char *)w)[b]);
                else
                    sum += (double)((const float *)in)[a] *
                           (double)((const float *)w)[b];
            }
    return sum;
}

/* The first thing that is wrong with an output, in words; NULL: none. */
static const char *kernels_check(const kernels_entry *e, const double *want,
                                 const unsigned char *out, void *plain,
                                 double *worst)
{
    static char text[160];
    unsigned long hw = (unsigned long)e->oh * (unsigned long)e->ow, i;
    unsigned long n = (unsigned long)e->n * (unsigned long)e->k * hw;

    kernels_poison((unsigned char *)plain, n * 4);
    e->unpack_out(out, plain);
    for (i = 0; i < n; i++) {
        double got = e->half ? (double)((const int *)plain)[i]
                             : (double)((const float *)plain)[i];
        double off = fabs(got - want[i]);
        if (off <= e->tol) {     /* not for NaN */
            if (off > *worst) *worst = off;
            continue;
        }
        if (kernels_poisoned((const unsigned char *)plain + 4 * i, 4))
            sprintf(text, "output k=%lu y=%lu x=%lu was not written",
                    i / hw, i % hw / (unsigned long)e->ow,
                    i % (unsigned long)e->ow);
        else
            sprintf(text, "output k=%lu y=%lu x=%lu is %.9g, want %.9g within"
                    " %.3g", i / hw, i % hw / (unsigned long)e->ow,
                    i % (unsigned long)e->ow, got, want[i], e->tol);
        return text;
    }
    if (e->lanes) {
        unsigned long lanes = (unsigned long)e->lanes;
        unsigned long blocks = ((unsigned long)e->k + lanes - 1) / lanes;
        unsigned long image, k, p;
        for (image = 0; image < (unsigned long)e->n; image++)
            for (k = (unsigned long)e->k; k < blocks * lanes; k++)
                for (p = 0; p < hw; p++) {
                    const unsigned char *v =
                        out + (((image * blocks + k / lanes) * hw + p) *
                                   lanes + k % lanes) * 4;
                    if (v[0] || v[1] || v[2] || (v[3] & 127) ||
                        (e->half && v[3]))
                        return "a lane past the last channel is not zero";
                }
    }
    return NULL;
}

#ifdef KERNELS_THREADS
typedef struct kernels_task {
    const kernels_entry *e;
    const kernels_buffer *in, *w, *out, *work;
    int phase, part;
} kernels_task;

static void *kernels_thread(void *user)
{
    const kernels_task *t = (const kernels_task *)user;

    t->e->part(t->in->data, t->w->data, t->out->data,
               t->work->n ? t->work->data : NULL, t->phase, t->part,
               t->e->parts);
    return NULL;
}
#endif

/* All parts of a phase in real threads, or in some order. */
static void kernels_phase(const kernels_entry *e, const kernels_buffer *in,
                          const kernels_buffer *w, const kernels_buffer *out,
                          const kernels_buffer *work, int phase)
{
    int i;

#ifdef KERNELS_THREADS
    pthread_t thread[8];
    kernels_task task[8];
    for (i = 0; i < e->parts; i++) {
        task[i].e = e;
        task[i].in = in;
        task[i].w = w;
        task[i].out = out;
        task[i].work = work;
        task[i].phase = phase;
        task[i].part = i;
        if (pthread_create(&thread[i], NULL, kernels_thread, &task[i]))
            exit(4);
    }
    for (i = 0; i < e->parts; i++) pthread_join(thread[i], NULL);
#else
    for (i = 0; i < e->parts; i++)
        e->part(in->data, w->data, out->data, work->n ? work->data : NULL,
                phase, phase & 1 ? e->parts - 1 - i : i, e->parts);
#endif
}

/* Everything about one kernel; NULL or what is wrong. Round 0: exact buffers,
   the whole kernel; 1: guarded, in parts; 2: exact, in parts; 3: guarded,
   whole. */
static const char *kernels_round(const kernels_entry *e, const void *nchw,
                                 const void *kcrs, const double *want,
                                 void *plain, int round, double *worst)
{
    kernels_buffer in, w, out, work;
    unsigned long skew = e->half ? 1 : 4;
    unsigned char *same;
    int guarded = round & 1, whole = round == 0 || round == 3, again, phase;
    const char *bad = NULL;

    kernels_make(&in, e->in, guarded, skew);
    kernels_make(&w, e->weight, guarded, skew);
    kernels_make(&out, e->out, guarded, 4);
    kernels_make(&work, e->work, guarded, 4);
    e->pack_in(nchw, in.data);
    e->pack_weight(kcrs, w.data);
    if (e->hash_in && kernels_hash(in.data, in.n) != e->hash_in)
        bad = "pack_in is not what host_kernel_pack_in does";
    else if (e->hash_weight &&
             kernels_hash(w.data, w.n) != e->hash_weight)
        bad = "pack_weight is not what host_kernel_pack_weight does";
    else if (!kernels_intact(&in) || !kernels_intact(&w))
        bad = "packing wrote outside its buffer";
    same = (unsigned char *)kernels_alloc(in.n + w.n);
    memcpy(same, in.data, in.n);
    memcpy(same + in.n, w.data, w.n);
    /* twice: the second finds what the first has left in the workspace */
    for (again = 0; again < 2 && !bad; again++) {
        kernels_poison(out.data, out.n);
        if (whole)
            e->run(in.data, w.data, out.data, work.n ? work.data : NULL);
        else
            for (phase = 0; phase < e->phases; phase++)
                kernels_phase(e, &in, &w, &out, &work, phase);
        if (!kernels_intact(&out))
            bad = "wrote outside its output";
        else if (!kernels_intact(&work))
            bad = "wrote outside its workspace";
        else if (!kernels_intact(&in) || !kernels_intact(&w) ||
                 memcmp(same, in.data, in.n) ||
                 memcmp(same + in.n, w.data, w.n))
            bad = "wrote into its input or weights";
        else
            bad = kernels_check(e, want, out.data, plain, worst);
    }
    free(same);
    free(in.all);
    free(w.all);
    free(out.all);
    free(work.all);
    return bad;
}

/* From entry `first` on: "begin I" before each, then "ok I A ERROR" or
   "bad I ROUND TEXT". */
static void kernels_all(const kernels_entry *table, int n, int first)
{
    static const char *const how[4] = { "", " (in parts, guarded)",
                                        " (in parts)", " (guarded)" };
    int i, round;

    for (i = first; i < n; i++) {
        const kernels_entry *e = &table[i];
        unsigned long size = e->half ? 1 : 4, j;
        unsigned long n_in = (unsigned long)e->n * (unsigned long)e->c *
                             (unsigned long)e->h * (unsigned long)e->w;
        unsigned long n_w = (unsigned long)e->k *
                            (unsigned long)(e->c / e->groups) *
                            (unsigned long)e->r * (unsigned long)e->s;
        unsigned long n_out = (unsigned long)e->n * (unsigned long)e->k *
                              (unsigned long)e->oh * (unsigned long)e->ow;
        void *nchw = kernels_alloc(n_in * size);
        void *kcrs = kernels_alloc(n_w * size);
        void *plain = kernels_alloc(n_out * 4);
        double *want = (double *)kernels_alloc(n_out * sizeof *want);
        double worst = 0;
        const char *bad = NULL;

        printf("begin %d\n", i);
        fflush(stdout);
        kernels_fill(nchw, n_in, e->half, e->seed);
        kernels_fill(kcrs, n_w, e->half, e->seed + 1);
        for (j = 0; j < n_out; j++)
            want[j] = kernels_reference(e, nchw, kcrs, j);
        for (round = 0; round < 4 && !bad; round++)
            bad = kernels_round(e, nchw, kcrs, want, plain, round, &worst);
        if (bad)
            printf("bad %d %s%s\n", i, bad, how[round - 1]);
        else
            printf("ok %d %d %.9g\n", i, e->algorithm, worst / e->unit);
        fflush(stdout);
        free(nchw);
        free(kcrs);
        free(plain);
        free(want);
    }
}

#endif
