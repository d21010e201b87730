/* host_depth.h - what host_depth.c and its writer, host_depth_emit.c, share

   Inside tools/targets only. How a depthwise layer is cut into tiles: see the
   top of host_depth.c. */
#ifndef METATUNE_HOST_DEPTH_H
#define METATUNE_HOST_DEPTH_H

#include "host_algo.h"

enum {
    HOST_DEPTH_CLASSES = 16,     /* of an axis; a 3-tap axis has at most 14 */
    HOST_DEPTH_SEGMENTS = 24,
    HOST_DEPTH_BODY = 640,       /* multiply-adds of one function */
    HOST_DEPTH_TOTAL = 2560,     /* of all functions: bounds the compile */
    HOST_DEPTH_WIDE = 14,        /* pixels of a register tile's row */
    HOST_DEPTH_TALL = 7,         /* rows of one */
    HOST_DEPTH_AHEAD = 32        /* inputs of a row fetched ahead */
};

/* Dims of the tile loops in the order knob: 0 = k, 1 = y, 2 = c. */
extern const unsigned char host_depth_order[6][3];

/* One spatial axis of the layer. */
typedef struct host_depth_axis {
    int32_t in, out, taps, stride, pad, dil;
} host_depth_axis;

/* `count` tiles of `size` outputs each, from output `first` on. */
typedef struct host_depth_segment {
    int32_t first, count, size, which;
} host_depth_segment;

/* An axis cut into tiles. A class is known by one of its tiles. */
typedef struct host_depth_cut {
    host_depth_axis axis;
    int32_t n_classes, n_segments;
    int32_t class_first[HOST_DEPTH_CLASSES], class_size[HOST_DEPTH_CLASSES];
    host_depth_segment segment[HOST_DEPTH_SEGMENTS];
} host_depth_cut;

enum { HOST_DEPTH_TILE = 0, HOST_DEPTH_LINE = 1, HOST_DEPTH_LOOP = 2 };

typedef struct host_depth_geo {
    int32_t form, oht, owt, vectors;
    host_depth_cut y, x;
} host_depth_geo;

/* The taps lo <= tap < hi of output `at` lie inside the image. */
void host_depth_taps(const host_depth_axis *a, int32_t at, int32_t *lo,
                     int32_t *hi);
/* 0: the classes are too many. */
int host_depth_geo_make(const host_kernel *kernel, const int64_t *values,
                        host_depth_geo *g);
/* How often the tile loops run, in the order of host_depth_order's dims. */
void host_depth_trips(const host_depth_geo *g, int32_t trip[3]);
/* Do the loops that run more than once stand in the same order? */
int host_depth_order_same(const int32_t trip[3], int64_t a, int64_t b);

/* ------------------------------------------------- host_depth_emit.c */

/* host_algorithm's outer, emit and emit_pack */
void host_depth_outer(const host_kernel *kernel, const int64_t *values,
                      int outer[HOST_OUTER]);
void host_depth_emit(const host_kernel *kernel, const int64_t *values,
                     const host_plan *plan, const char *name,
                     host_text *text);
void host_depth_emit_pack(const host_kernel *kernel, const int64_t *values,
                          const char *name, host_text *text);

#endif
