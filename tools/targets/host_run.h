/* host_run.h - build, run, verify and time kernels on this machine

   A host_run owns a private folder and a cache of built kernels; a host_layer
   owns one convolution's data and reference. Every compiler and every kernel
   is a child process in its own group, with a deadline; none survives. No
   shell is used. Not for two threads at once. No signal handler is installed:
   set *config.cancel from yours and the current call returns CANCELLED soon. */
#ifndef METATUNE_HOST_RUN_H
#define METATUNE_HOST_RUN_H

#include <signal.h>

#include "host_kernel.h"

enum { HOST_ERROR_BYTES = 256, HOST_SAMPLES = 16, HOST_FLAG_BYTES = 256 };

typedef struct host_error {
    metatune_status status;
    char line[HOST_ERROR_BYTES]; /* what went wrong and what to do */
} host_error;

/* {0} is all defaults. Strings must outlive the host_run. */
typedef struct host_config {
    const char *cc;              /* compiler; default "cc"; split at spaces */
    const char *march;           /* of -march=; default "native"; "none": no
                                    -march flag at all */
    const char *flags;           /* more compiler flags, split at spaces */
    const char *tmp;             /* default $TMPDIR, else /tmp */
    double build_s;              /* deadline of one build; default 30 */
    double run_s;                /* deadline of one run; default 20, and never
                                    less than twice the naive time */
    double sample_s;             /* shortest timed sample; default 2e-3 */
    int32_t samples;             /* 1..HOST_SAMPLES; default 5; three are
                                    enough once they took 50 ms */
    int32_t retries;             /* disturbed samples that are taken again;
                                    default 10; -1: none */
    int32_t jobs;                /* builds at a time, 1..8; default 2 */
    int32_t threads;             /* that share a kernel, 1..8; default 1 */
    int32_t lanes;               /* 0: what the compiler targets; 16, 8, 4, or
                                    1: plain C99 kernels */
    int32_t run_cpu;             /* 1 + the core that kernels run on; 0: any */
    double mem_bytes;            /* address space of a child on top of what
                                    the layer needs; default 1 GiB; -1: no
                                    limit */
    const volatile sig_atomic_t *cancel; /* may be NULL */
} host_config;

typedef struct host_platform {
    host_march march;
    char cc[64];                 /* "gcc-12.2.0" */
    char cpu[96];                /* model name, only [A-Za-z0-9._-] */
    char flags[HOST_FLAG_BYTES]; /* all flags, one space between */
} host_platform;

typedef struct host_entry host_entry;
typedef struct host_run {
    host_config cfg;             /* defaults filled in */
    host_platform platform;
    char folder[512];            /* private, mode 0700; "" when closed */
    int lock;                    /* held while the folder is ours */
    host_entry *entry;           /* built kernels by hash of their source */
    size_t n_entries, cap_entries;
    uint64_t n_built, n_cached;  /* builds made; builds saved */
} host_run;

/* Makes the folder, asks the compiler what it targets. Folders that killed
   runs of this user left in the same place are removed. */
metatune_status host_run_open(host_run *run, const host_config *cfg,
                              host_error *error);
/* Removes the folder; safe to call twice. */
void host_run_close(host_run *run);

/* "cpu=...,lanes=16,cc=gcc-12.2.0,flags=...,threads=1": everything but the
   layer that changes a time. Length, or 0 when cap is too small. */
size_t host_run_key(const host_run *run, char *buf, size_t cap);

/* This machine, about a second: fills the device descriptor and the highest
   FLOP/s that a register-only multiply-add loop of the same compiler and
   flags reaches on one core. */
metatune_status host_run_probe(host_run *run, metatune_encode_device *device,
                               double *peak_flops, host_error *error);
/* The peak alone, about 0.1 s: it wanders, so take the maximum of several
   spread over a session. */
metatune_status host_run_peak(host_run *run, double *peak_flops,
                              host_error *error);

/* One convolution: inputs of a seed, and the naive loops' output. Values are
   f32, uniform in [-1,1]; or i8, uniform over all of it, with i32 sums. */
typedef struct host_layer {
    host_kernel kernel;
    void *in;                    /* in the layer's layout */
    void *kcrs;                  /* plain weights */
    void *ref;                   /* (N,K,OH,OW) */
    double naive_s;              /* time of the naive loops */
} host_layer;

/* Computes the reference with seven plain loops (2 s for the largest layers
   of VGG); its time is the fastest of up to three. */
metatune_status host_layer_open(host_layer *layer, const host_run *run,
                                const metatune_encode_conv2d *conv,
                                uint64_t seed, host_error *error);
void host_layer_close(host_layer *layer);

/* out (N,K,OH,OW) of in (N,C,H,W) and w (K,C/groups,R,S), floats, or i8 and
   i32 out: the reference. */
void host_naive_conv(const metatune_encode_conv2d *conv, const void *in,
                     const void *w, void *out);

/* How far an output may be from the reference: 0 for i8; for f32 the
   rounding of C/groups*R*S products of values in [-1,1], summed in another
   order. Winograd's transforms round, too: its bounds are multiples. */
enum { HOST_TOL_WINO2 = 1, HOST_TOL_WINO4 = 2 };
double host_tolerance(const metatune_encode_conv2d *conv, int64_t algorithm);

/* n input values or weights as a host_layer has them. */
void host_fill_values(const metatune_encode_conv2d *conv,
                      metatune_encode_rng *rng, void *to, size_t n);

typedef struct host_result {
    metatune_status status;      /* OK, COMPILE, RUNTIME, TIMEOUT, WRONG,
                                    CONSTRAINT, INVALID_TIME, CANCELLED,
                                    NOT_RUN (fork or folder failed: the
                                    setting is not to blame) */
    double time_s;               /* fastest sample; 0 unless OK */
    double sample[HOST_SAMPLES];
    int32_t n_samples;
    int32_t n_disturbed;         /* samples dropped for a context switch */
    int32_t cached;              /* 1: the build was saved */
    double build_s, run_s;       /* wall clock spent on this setting */
    char error[HOST_ERROR_BYTES];
} host_result;

/* Build (in parallel), then run one after the other, n settings of a layer;
   values is (n, HOST_KNOBS) row-major. Always fills all n results; returns OK,
   or the status that stopped the batch (CANCELLED, NOT_RUN). */
metatune_status host_run_measure(host_run *run, const host_layer *layer,
                                 const int64_t *values, int32_t n,
                                 host_result *result);

/* Build a setting, or take it from the cache, without running it: so (at
   least 600 bytes) gets the path of a library that exports HOST_ENTRY_POINT,
   there until the run is closed or some thousand others are built. */
metatune_status host_run_library(host_run *run, const host_layer *layer,
                                 const int64_t *values, char *so, size_t cap,
                                 host_result *result);

/* How often to repeat a call so that one sample lasts at least sample_s and
   20 ticks of the clock, whatever its resolution: doubles and scales *reps
   (at least 1). call(user, reps) makes the calls. INVALID_TIME when the clock
   stands still. */
metatune_status host_sample_reps(double (*now)(void *user),
                                 void (*call)(void *user, double reps),
                                 void *user, double sample_s, double *reps);

/* The parts of measure, for tests and other kernels: build a source that
   exports `host_entry_point`, a host_entry_fn, and run it. so gets the path of
   the built file (at least 600 bytes). */
#define HOST_ENTRY_POINT "host_entry_point"
metatune_status host_run_build(host_run *run, const char *source, char *so,
                               size_t cap, host_result *result);
metatune_status host_run_time(host_run *run, const host_layer *layer,
                              const int64_t *values, const char *so,
                              host_result *result);

#endif
