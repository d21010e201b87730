/* host_kernel.h - convolution kernels for a CPU, written as C

   One host_kernel is one convolution on one vector width. It has named knobs;
   a setting is one value a knob, in the knobs' order. From a setting come: is
   it legal (valid), its loop nest (describe), its C source (emit). Nothing
   here allocates, reads a clock or runs anything; host_run.h does.

   Letters  L lanes (floats of a vector), CB channels of an input block
            (largest divisor of C that is <= L; C = 3 gives 3), IB = C / CB
            input blocks, OB = ceil(K / L) output blocks, V = ocv vectors.
   Layouts  input   (N, IB, H, W, CB)
            weights (OB / V, IB, R, S, CB, V, L)   packed for a setting's V
            output  (N, OB, OH, OW, L)             channels past K are zero

   Algorithms (the first knob, also nest->skeleton)
     0 direct   register tile of V vectors x owt output pixels of one row
     1 flat     1x1 only: all pixels of an image are one row, so the kernel is
                a matrix product; a stride or padding is gathered first
*/
#ifndef METATUNE_HOST_KERNEL_H
#define METATUNE_HOST_KERNEL_H

#include "../../metatune.h"

enum { HOST_DIRECT = 0, HOST_FLAT = 1, HOST_ALGORITHMS = 2 };

/* Knobs, always all of them and in this order; one without a choice has one
   value. */
enum {
    HOST_KNOB_ALGORITHM = 0, /* HOST_DIRECT, HOST_FLAT */
    HOST_KNOB_OCV = 1,       /* output-channel vectors of a register tile */
    HOST_KNOB_OWT = 2,       /* output pixels of a register tile */
    HOST_KNOB_UNROLL = 3,    /* input channels unrolled */
    HOST_KNOB_KWU = 4,       /* 1: kernel columns unrolled, too */
    HOST_KNOB_PREFETCH = 5,  /* 0 none; n: weights n vectors ahead */
    HOST_KNOB_ICT = 6,       /* input blocks of a cache tile */
    HOST_KNOB_OCT = 7,       /* output blocks of a cache tile */
    HOST_KNOB_OHT = 8,       /* output rows of a cache tile */
    HOST_KNOB_ORDER = 9,     /* order of the cache-tile loops, 0..5:
                                kyc ykc cky cyk kcy yck */
    HOST_KNOB_INNER = 10,    /* inside a cache tile: 0 channels outermost,
                                1 pixels outermost */
    HOST_KNOBS = 11
};
enum { HOST_KNOB_CAP = 16 };     /* values of a knob, at most */

typedef metatune_knob host_knob; /* values ascending */

typedef struct host_march {
    int32_t lanes;               /* floats of a vector: 16, 8, 4 */
    int32_t vregs;               /* vector registers: 32, 16 */
} host_march;

/* Do not copy or move one after init: knob[].values points into it. */
typedef struct host_kernel {
    host_knob knob[HOST_KNOBS];
    int32_t n_knobs;             /* HOST_KNOBS */
    metatune_encode_conv2d conv; /* the layer as given */
    metatune_encode_conv2d flat; /* its 1 x (OH*OW) form, of HOST_FLAT */
    host_march march;
    int32_t oh, ow;
    int32_t cb, ib, ob;
    int64_t store[HOST_KNOBS][HOST_KNOB_CAP];
} host_kernel;

/* OK; or BAD_SHAPE / BAD_ARG and one line in `why` (may be NULL) that says
   which feature is not supported: f32, NCHW, groups 1 today. */
metatune_status host_kernel_supports(const metatune_encode_conv2d *conv,
                                     char *why, size_t cap);
/* Fills the knobs. Refuses what supports() refuses. */
metatune_status host_kernel_init(host_kernel *kernel,
                                 const metatune_encode_conv2d *conv,
                                 const host_march *march, char *why,
                                 size_t cap);

/* 1 when the values are in the knobs' lists and satisfy the constraints:
   V * owt accumulators fit, ocv divides oct, the unrolled body is bounded,
   and no second setting makes the same kernel. Pure and cheap. */
int host_kernel_valid(const host_kernel *kernel, const int64_t *values);

/* A hand-picked setting, always valid. */
void host_kernel_default(const host_kernel *kernel, int64_t *values);

/* The nest must have room for 24 nodes. Once per nest and kernel: */
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

/* Sizes in floats of the blocked tensors, the packed weights (the same for
   every setting), and a setting's workspace (0: pass NULL). */
size_t host_kernel_in_floats(const host_kernel *kernel);
size_t host_kernel_out_floats(const host_kernel *kernel);
size_t host_kernel_weight_floats(const host_kernel *kernel);
size_t host_kernel_work_floats(const host_kernel *kernel,
                               const int64_t *values);

/* Between plain and blocked layouts: NCHW -> input; KCRS -> weights of a
   setting; output -> NCHW. */
void host_kernel_pack_in(const host_kernel *kernel, const float *nchw,
                         float *in);
void host_kernel_pack_weight(const host_kernel *kernel,
                             const int64_t *values, const float *kcrs,
                             float *w);
void host_kernel_unpack_out(const host_kernel *kernel, const float *out,
                            float *nchw);

/* The kernel's C source: `name` must be an identifier; sources of different
   names may stand in one file. All return the length without the NUL, or 0
   when cap is too small; HOST_SOURCE_BYTES is always enough.
   emit:       void name(const float *in, const float *w, float *out,
                         float *work)
   emit_outer: void name(..., const int *outer) - the cache-tile knobs (ict,
               oct, oht, order, inner) stay arguments, so that settings that
               differ only in these share one build; host_kernel_outer fills
               them.
   emit_pack:  void name_pack_in(const float *nchw, float *in),
               name_pack_weight(kcrs, w), name_unpack_out(out, nchw). */
enum { HOST_SOURCE_BYTES = 65536, HOST_OUTER = 8 };
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
