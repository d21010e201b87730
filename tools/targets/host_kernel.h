/* host_kernel.h - convolution kernels for a CPU, written as C

   One host_kernel is one convolution on one vector width. It has named knobs;
   a setting is one value a knob, in the knobs' order. From a setting come: is
   it legal (valid), its loop nest (describe), its C source (emit). Nothing
   here allocates, reads a clock or runs anything; host_run.h does.

   Letters  L lanes (values of a vector), C and K channels in and out.
   Layouts  of the layer (conv.layout), for input and output alike:
     nchwc  block must be L: (N, ceil(C/L), H, W, L), lanes past the last
            channel zero; an input of at most 4 channels (an image) is
            (N, H, W, C) instead. Reorders are the caller's: this is what
            kernels of a network hand to each other.
     nchw, nhwc  plain tensors; conversion, where a kernel wants one, is part
            of the kernel and of its time.
   Weights are (K, C/groups, R, S), packed for a setting before it runs.

   Algorithms (the first knob, also nest->skeleton)
     direct  register tile of output-channel vectors x pixels of one row
     flat    1x1: all pixels of an image are one row (a matrix product)
     plane   1x1 on nchw: vectors along the pixels, no conversion
     depth   depthwise; the borders are in the kernel, nothing is padded
     wino2   Winograd F(2x2,3x3): stride 1, 2.25 x fewer multiplications
     wino4   Winograd F(4x4,3x3): 4 x fewer, less exact */
#ifndef METATUNE_HOST_KERNEL_H
#define METATUNE_HOST_KERNEL_H

#include "../../metatune.h"

enum {
    HOST_DIRECT = 0, HOST_FLAT = 1, HOST_PLANE = 2, HOST_DEPTH = 3,
    HOST_WINO2 = 4, HOST_WINO4 = 5, HOST_ALGORITHMS = 6
};

/* Knobs, always all of them and in this order; one without a choice has one
   value. What an algorithm does not use stands at the knob's first value. */
enum {
    HOST_KNOB_ALGORITHM = 0,
    HOST_KNOB_OCV = 1,       /* vectors of a register tile (plane: along the
                                pixels; else along the output channels) */
    HOST_KNOB_OWT = 2,       /* the tile's other side: pixels of a row;
                                wino: tiles; plane: output channels */
    HOST_KNOB_UNROLL = 3,    /* input channels unrolled */
    HOST_KNOB_KWU = 4,       /* 1: kernel columns unrolled, too */
    HOST_KNOB_PREFETCH = 5,  /* 0 none; n: weights n vectors ahead; wino: n
                                lines of the next weights a step; depth: 1
                                the next image; plane: 8 the next pixels,
                                32 weights */
    HOST_KNOB_ICT = 6,       /* input blocks of a cache tile */
    HOST_KNOB_OCT = 7,       /* output blocks of a cache tile */
    HOST_KNOB_OHT = 8,       /* output rows of a cache tile; depth: of a
                                register tile; wino: rows of tiles */
    HOST_KNOB_ORDER = 9,     /* order of the cache-tile loops, 0..5:
                                kyc ykc cky cyk kcy yck; plane: cyk copies
                                pixels into panels first; depth: c is tiles
                                of a row */
    HOST_KNOB_INNER = 10,    /* inside a cache tile: 0 channels outermost,
                                1 pixels outermost */
    HOST_KNOB_SPLIT = 11,    /* threads share out 0 channels, 1 pixels */
    HOST_KNOB_BORDER = 12,   /* padding by 0 a copy, 1 code for the borders */
    HOST_KNOBS = 13
};
enum { HOST_KNOB_CAP = 32 };     /* values of a knob, at most */

typedef metatune_knob host_knob; /* values ascending */

typedef struct host_march {
    int32_t lanes;               /* 32-bit values of a vector: 16, 8, 4; 1:
                                    plain C99 without vector extensions */
    int32_t vregs;               /* vector registers: 32, 16 */
    int32_t threads;             /* that share a kernel, 1..8; 0 is 1 */
} host_march;

/* Do not copy or move one after init: knob[].values points into it. */
typedef struct host_kernel {
    host_knob knob[HOST_KNOBS];
    int32_t n_knobs;             /* HOST_KNOBS */
    metatune_encode_conv2d conv; /* the layer as given */
    host_march march;            /* threads >= 1 */
    int32_t oh, ow;
    int32_t cg, kg;              /* channels of a group, in and out */
    int32_t in_bytes, out_bytes; /* of one value */
    const char *labels[HOST_ALGORITHMS]; /* of the algorithm knob's values */
    int64_t store[HOST_KNOBS][HOST_KNOB_CAP];
} host_kernel;

/* OK; or BAD_SHAPE / BAD_ARG and one line in `why` (may be NULL) that says
   which feature is not supported. Types: f32, or i8 -> i32 exact (direct,
   flat, depth). */
metatune_status host_kernel_supports(const metatune_encode_conv2d *conv,
                                     char *why, size_t cap);
/* Fills the knobs. Refuses what supports() refuses, and a block that is not
   march->lanes. */
metatune_status host_kernel_init(host_kernel *kernel,
                                 const metatune_encode_conv2d *conv,
                                 const host_march *march, char *why,
                                 size_t cap);

/* 1 when the values are in the knobs' lists and satisfy the constraints; no
   second valid setting makes the same kernel. Pure and cheap. */
int host_kernel_valid(const host_kernel *kernel, const int64_t *values);

/* Make a setting valid by changing as little of it as is simple; its
   algorithm stays. Values outside the lists move to a neighbour. 1 = valid
   now; 0 = could not. */
int host_kernel_repair(const host_kernel *kernel, int64_t *values);

/* A hand-picked setting, always valid. */
void host_kernel_default(const host_kernel *kernel, int64_t *values);

/* The nest must have room for HOST_NODES nodes. Once per nest and kernel: */
enum { HOST_NODES = 32 };
metatune_status host_kernel_nest_begin(const host_kernel *kernel,
                                       metatune_encode_nest *nest);
/* then for every setting; values must be valid. */
metatune_status host_kernel_describe(const host_kernel *kernel,
                                     const int64_t *values,
                                     metatune_encode_nest *nest);
/* The canonical nest of an algorithm, every slot present: input of
   metatune_encode_skeleton_build. Depends on the algorithm alone. Leaves the
   nest to be begun again. */
metatune_status host_kernel_skeleton(int32_t algorithm,
                                     metatune_encode_nest *nest);
/* "direct", ...; NULL outside 0..HOST_ALGORITHMS-1. */
const char *host_algorithm_name(int32_t algorithm);

/* Bytes of the layer's tensors, and of a setting's packed weights and
   workspace (0: pass NULL). Blocks aligned to 64 bytes are fastest. */
size_t host_kernel_in_size(const host_kernel *kernel);
size_t host_kernel_out_size(const host_kernel *kernel);
size_t host_kernel_weight_size(const host_kernel *kernel,
                               const int64_t *values);
size_t host_kernel_work_size(const host_kernel *kernel,
                             const int64_t *values);

/* Between plain NCHW and the layer's layout; KCRS -> weights of a setting. */
void host_kernel_pack_in(const host_kernel *kernel, const void *nchw,
                         void *in);
void host_kernel_pack_weight(const host_kernel *kernel,
                             const int64_t *values, const void *kcrs,
                             void *w);
void host_kernel_unpack_out(const host_kernel *kernel, const void *out,
                            void *nchw);

/* A kernel runs in phases; threads may share a phase, and all must be done
   with it before the next one begins. */
typedef void (*host_entry_fn)(const void *in, const void *w, void *out,
                              void *work, const int *outer, int phase,
                              int part, int parts);
/* Number of phases, >= 1. parts must be 1 or march.threads at most. */
int32_t host_kernel_phases(const host_kernel *kernel, const int64_t *values);

/* The kernel's C source: `name` must be an identifier; sources of different
   names may stand in one file. All return the length without the NUL, or 0
   when cap is too small; HOST_SOURCE_BYTES is always enough.
   emit_outer: a host_entry_fn called `name`: the cache-tile knobs stay
               arguments, so that settings that differ only in these share
               one build; host_kernel_outer fills them. phase -1 runs all
               phases one after the other.
   emit:       the same with the knobs fixed and typed pointers:
               void name(const T *in, const T *w, O *out, void *work), and
               void name_part(in, w, out, work, phase, part, parts)
   emit_pack:  to follow emit of the same name in the same file:
               void name_pack_in(const T *nchw, T *in),
               name_pack_weight(kcrs, w), name_unpack_out(out, nchw). */
enum { HOST_SOURCE_BYTES = 262144, HOST_OUTER = 8 };
size_t host_kernel_emit(const host_kernel *kernel, const int64_t *values,
                        const char *name, char *buf, size_t cap);
size_t host_kernel_emit_outer(const host_kernel *kernel,
                              const int64_t *values, const char *name,
                              char *buf, size_t cap);
void host_kernel_outer(const host_kernel *kernel, const int64_t *values,
                       int outer[HOST_OUTER]);
size_t host_kernel_emit_pack(const host_kernel *kernel,
                             const int64_t *values, const char *name,
                             char *buf, size_t cap);

#endif
