/* host_algo.h - what one algorithm of host_kernel.h is made of

   Inside tools/targets only. host_kernel.c looks after what is common: knob
   lists, the layer's layout, conversion before and after, phases; a
   host_algorithm says the rest. Files: host_direct.c (direct, flat),
   host_plane.c, host_depth.c (with host_depth_emit.c, its writer),
   host_wino.c, and host_layout.c (conversion). */
#ifndef METATUNE_HOST_ALGO_H
#define METATUNE_HOST_ALGO_H

#include "host_kernel.h"

/* One image of a tensor in memory, in values: channel c of group g at row y,
   column x is at
     g * group + (c / block) * plane + y * row + x * pixel + c % block
   The last block of a group may hold fewer channels than `block`. */
typedef struct host_view {
    int32_t groups, channels;    /* channels of a group */
    int32_t block, blocks;       /* of a group */
    int32_t h, w;                /* rows and columns, padding included */
    int32_t top, left;           /* padding rows and columns that lie before
                                    the image: 0, or all of it */
    int64_t pixel, row, plane, group;
    int64_t image;               /* values of one image */
} host_view;

/* How a setting's input is prepared for the core. */
enum {
    HOST_STAGE_BLOCK = 0,        /* blocked (or nhwc); borders not padded */
    HOST_STAGE_PAD = 1,          /* the same, with the padding around it */
    HOST_STAGE_GATHER = 2,       /* 1x1: the pixels that the stride visits,
                                    as one row of oh * ow pixels */
    HOST_STAGE_PLANE = 3         /* like GATHER, in planes (nchw) */
};

struct host_algorithm;

/* One setting's buffers. `work` holds, each aligned to 64 bytes: the staged
   image, the output image before its conversion, the core's own. */
typedef struct host_plan {
    const struct host_algorithm *algorithm;
    host_view src, dst;          /* what the core reads and writes */
    int staged, unstaged;        /* src, dst are in work */
    int stage;                   /* HOST_STAGE_ */
    int vectors;                 /* src is read a vector of L channels at a
                                    time; 0: one channel, broadcast */
    int canonical;               /* for a skeleton: loops that no one setting
                                    has together stand in the nest */
    int32_t core_phases;         /* of one image, >= 1 */
    size_t core_bytes;           /* the core's own part of work */
    size_t dst_at, core_at, bytes; /* byte offsets in work; all of it */
} host_plan;

/* Text being written; full once it did not fit. */
typedef struct host_text {
    char *buf;
    size_t cap, n;
    int full;
} host_text;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void host_put(host_text *text, const char *format, ...);

/* The functions of an algorithm; all pure. `values` are in the knobs' lists
   wherever a plan is given, and valid wherever something is written. */
typedef struct host_algorithm {
    const char *label;
    uint32_t uses;               /* bit i: knob i matters */
    /* Does it suit the layer? Only then is anything else called. */
    int (*suits)(const host_kernel *kernel);
    /* Add the values that it wants to the knobs that it uses
       (host_list_add); lists may hold other algorithms' values, too. */
    void (*lists)(host_kernel *kernel);
    /* Its own constraints: which of the listed values it takes, and that no
       other setting makes the same kernel. */
    int (*valid)(const host_kernel *kernel, const int64_t *values);
    /* Change values (all in the lists) until valid(); 1 = done. */
    int (*repair)(const host_kernel *kernel, int64_t *values);
    /* Its best guess, valid; unused knobs are set by the caller. */
    void (*defaults)(const host_kernel *kernel, int64_t *values);
    /* Fill stage, vectors, core_phases, core_bytes and dst when it is not the
       usual one; called with algorithm and dst filled in, before src is
       known. */
    void (*plan)(const host_kernel *kernel, const int64_t *values,
                 host_plan *plan);
    /* Axes and tensors into a cleared nest, then its loops; sets hints. */
    metatune_status (*axes)(const host_kernel *kernel,
                            metatune_encode_nest *nest);
    metatune_status (*nest)(const host_kernel *kernel, const int64_t *values,
                            const host_plan *plan,
                            metatune_encode_nest *nest);
    /* A layer and a setting of it in which every slot is present; the march
       is 16 lanes, 32 registers. */
    void (*canonical)(metatune_encode_conv2d *conv, int64_t *values);
    size_t (*weight_size)(const host_kernel *kernel, const int64_t *values);
    void (*pack_weight)(const host_kernel *kernel, const int64_t *values,
                        const void *kcrs, void *w);
    /* The run-time knobs: what is in here must not be in emit's text. */
    void (*outer)(const host_kernel *kernel, const int64_t *values,
                  int outer[HOST_OUTER]);
    /* Writes (after host_emit_types) helpers and
         static void NAME_core(const NAME_t *in, const NAME_t *w,
             NAME_o *out, char *work, const int *outer, int phase, int part,
             int parts)
       for one image: src view in, dst view out, work its own part; phase
       0..core_phases-1. part 0 of parts 1 does everything. */
    void (*emit)(const host_kernel *kernel, const int64_t *values,
                 const host_plan *plan, const char *name, host_text *text);
    /* void NAME_pack_weight(const NAME_t *kcrs, NAME_t *w), not static. */
    void (*emit_pack)(const host_kernel *kernel, const int64_t *values,
                      const char *name, host_text *text);
} host_algorithm;

extern const host_algorithm host_algorithm_direct, host_algorithm_flat,
    host_algorithm_plane, host_algorithm_depth, host_algorithm_wino2,
    host_algorithm_wino4;

/* --------------------------------------------- host_kernel.c, for them */

void host_plan_make(const host_kernel *kernel, const int64_t *values,
                    host_plan *plan);
int32_t host_ceil_div(int32_t a, int32_t b);
/* Block of src where inputs are broadcast (not of depth and wino, which read
   vectors of L channels); block of dst: L, or for groups of few channels
   whose output is unstaged the least power of two that holds them. */
int32_t host_in_block(const host_kernel *kernel);
int32_t host_out_block(const host_kernel *kernel);
/* Keeps the list ascending and without doubles. */
void host_list_add(host_kernel *kernel, int knob, int64_t value);
/* Divisors of n from the largest down, each at most half the one before, at
   most six, 1 among them. */
void host_list_divisors(host_kernel *kernel, int knob, int32_t n);
/* Largest value of the list that is <= limit, else its smallest. */
int64_t host_list_floor(const host_kernel *kernel, int knob, double limit);
/* Nodes: a loop that runs once is left out (returns its parent). slot 0 is
   the root's. */
int32_t host_loop(metatune_encode_nest *nest, int32_t parent, int32_t axis,
                  int32_t step, int32_t trip, int32_t kind, int32_t slot);
/* Statements below a loop, `count` each time that it runs: a load or a store
   (kind) of one tensor, or multiply-adds of a convolution's three. Return as
   metatune_encode_stmt_add. */
int32_t host_access(metatune_encode_nest *nest, int32_t parent, int32_t kind,
                    int32_t slot, int32_t count, int32_t tensor);
int32_t host_fma(metatune_encode_nest *nest, int32_t parent, int32_t slot);
/* The axes of a 1x1 layer as one row of oh * ow pixels. */
metatune_status host_axes_flat(const host_kernel *kernel,
                               metatune_encode_nest *nest);
void host_dim_set(metatune_encode_dim *dim, int32_t block, double stride,
                  double stride_block);
/* The strides of a view into a conv2d tensor's four dims (n, c, h, w). */
void host_dims_view(metatune_encode_tensor *tensor, const host_view *view);

/* ------------------------------------------------------- host_layout.c */

/* The layer's own input and output image as given by conv.layout. */
void host_view_in(const host_kernel *kernel, host_view *view);
void host_view_out(const host_kernel *kernel, host_view *view);
/* A packed view: (groups, ceil(channels/block), h, w, block). */
void host_view_packed(host_view *view, int32_t groups, int32_t channels,
                      int32_t block, int32_t h, int32_t w);
/* static void NAME_stage(const NAME_t *in, NAME_t *to, int part, int parts):
   the layer's input image into plan->src (padding and unused lanes zero);
   static void NAME_unstage(const NAME_o *from, NAME_o *out, int part, int
   parts): plan->dst into the layer's output image, whose lanes past the last
   channel become zero. Fast: plain <-> blocked by register transposes. */
void host_emit_stage(const host_kernel *kernel, const host_plan *plan,
                     const char *name, host_text *text);
void host_emit_unstage(const host_kernel *kernel, const host_plan *plan,
                       const char *name, host_text *text);
/* emit_pack's name_pack_in and name_unpack_out, whole images (plain code). */
void host_emit_pack_tensors(const host_kernel *kernel, const char *name,
                            host_text *text);
/* typedefs NAME_t (values in), NAME_o (values out), NAME_v (march.lanes
   values out, unaligned, may alias; with 1 lane just NAME_o), and
   NAME_PREFETCH(p), NAME_NOINLINE; <string.h> is included. */
void host_emit_types(const host_kernel *kernel, const char *name,
                     host_text *text);

#endif
