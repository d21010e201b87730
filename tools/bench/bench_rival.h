/* bench_rival.h - contestants of bench_conv and how they are timed

   case   one layer: plain random tensors and the naive loops' output
   entry  one way to compute it, data and weights already as it likes them
   field  the entries that run against each other: in every round each takes
          one sample, so that a ratio within a round is of neighbours in time

   A rival is a library; the file bench_NAME.c has what it needs. Failures of
   a rival are an entry less, and a line on stderr when it is a surprise. */
#ifndef METATUNE_BENCH_RIVAL_H
#define METATUNE_BENCH_RIVAL_H

#include <stddef.h>

#include "metatune_encode.h"

enum {
    BENCH_BEST = 0,              /* any layout, conversions excluded */
    BENCH_PLAIN = 1,             /* nchw in and out, all included but the
                                    packing of weights */
    BENCH_KEEP = 3,              /* entries a rival may send to a field */
    BENCH_ENTRIES = 24           /* of a field */
};

typedef struct bench_case {
    const char *name;            /* "resnet18/layer1" */
    metatune_encode_conv2d conv; /* layout nchw */
    int32_t oh, ow;
    float *in, *w, *ref;         /* (N,C,H,W) (K,C/G,R,S) (N,K,OH,OW) */
    size_t n_in, n_w, n_out;     /* values */
    double gflop, naive_s;
    double tol;                  /* absolute, wide enough for Winograd */
    float *out;                  /* scratch, like ref */
} bench_case;

typedef struct bench_entry {
    char label[120];             /* what it is: algorithm, layouts */
    void *state;
    void (*before)(void *state); /* around each sample, untimed; or NULL */
    void (*after)(void *state);
    void (*run)(void *state);
    void (*poison)(void *state); /* NaN all over its output */
    void (*output)(void *state, float *nchw);
    void (*close)(void *state);
} bench_entry;

typedef struct bench_rival {
    const char *name;
    /* "oneDNN 2.6.3 (...)" */
    void (*version)(char *buf, size_t cap);
    /* Open at most BENCH_KEEP entries, the fastest by a short look; how many.
       threads: 1, or what the library shall use when it can. */
    int (*open)(const bench_case *c, int mode, int threads,
                bench_entry *entries);
} bench_rival;
extern const bench_rival bench_onednn, bench_xnnpack, bench_openblas;

/* ------------------------------------------------------- bench_time.c */

double bench_now(void);          /* seconds */
/* 64-byte aligned and zero, at least one byte; or one line and exit(1). */
void *bench_alloc(size_t bytes);
void bench_nan(float *x, size_t n);
double bench_median(const double *x, size_t n);
/* Quantile q of n values, which need not be sorted. */
double bench_quantile(const double *x, size_t n, double q);

void bench_case_open(bench_case *c, const char *name,
                     const metatune_encode_conv2d *conv);
void bench_case_close(bench_case *c);

void bench_entry_close(bench_entry *e);
/* Poison, run, compare: 1 when right; else 0, and an error line that names
   who. */
int bench_entry_right(const bench_entry *e, const bench_case *c,
                      const char *who);
/* A short look: seconds a call; cut short when clearly above `best` (0 =
   nothing to compare with). */
double bench_entry_quick(const bench_entry *e, double best);

typedef struct bench_field {
    bench_entry *entry[BENCH_ENTRIES]; /* not owned */
    double reps[BENCH_ENTRIES];  /* calls a sample; 0 = not known yet */
    int n;
    double pause_s;              /* idle ahead of each sample */
    double *t;                   /* (rounds, BENCH_ENTRIES) seconds a call */
    size_t rounds;
} bench_field;
/* Position of the new entry. */
int bench_field_add(bench_field *f, bench_entry *e);
/* So many more rounds. */
void bench_field_run(bench_field *f, int rounds);
/* Medians over all rounds: an entry's time; a's time over b's; that over c's
   over d's. */
double bench_field_time(const bench_field *f, int a);
double bench_field_ratio(const bench_field *f, int a, int b);
double bench_field_scaling(const bench_field *f, int a, int b, int c, int d);
/* Of the n entries from `first`, the one with the least median; -1 of 0. */
int bench_field_best(const bench_field *f, int first, int n);
void bench_field_free(bench_field *f);

#endif
