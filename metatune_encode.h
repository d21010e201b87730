/* metatune_encode.h - v0.1.0 - kernels as graphs for a learned cost model
   public domain or MIT-0, your choice; no warranty; see the end of this file

   The data half of metatune: a kernel is described as axes, tensors and a loop
   nest; from that come derived quantities (footprint, reuse, stride, traffic),
   a graph with one feature row a node, a global row, a device row and an
   analytic time bound. Nothing here learns; metatune_gnn.h does.

   CONTENTS (each room of this file begins with its token)
     [E-CONFIG]   configuration macros
     [E-CONCEPT]  dimension letters, ownership, threads, determinism
     [E-STATUS]   the one status list, errors for people
     [E-RNG]      random numbers and hashes
     [E-NEST]     kernel description: axes, tensors, loops, statements
     [E-DERIVE]   derived quantities
     [E-DEVICE]   device descriptor
     [E-GRAPH]    skeleton, graph, encode
     [E-CONV2D]   ready-made 2-d convolution
     [E-IMPL]     implementation

   USE
     #define METATUNE_IMPLEMENTATION    in exactly one source file, or
     #define METATUNE_STATIC            in each file, for private copies
     #include "metatune_encode.h"

     metatune_encode_nest_init(&nest, NULL, mem, bytes);
     metatune_encode_conv2d_begin(&nest, &conv);       axes and tensors
     l = metatune_encode_loop_add(&nest, -1, axis, step, trip, kind, slot);
     metatune_encode_stmt_add(&nest, l, METATUNE_STMT_FMA, slot, 1, t, 3);
     st = metatune_encode_graph_fill(&graph, &nest, skeleton, &device);

   [E-CONFIG]
     METATUNE_REAL           float (default) or double: features and weights
     METATUNE_STATIC         functions are static; implies the implementation
     METATUNE_ASSERT(x)      our own bugs only, never data; default nothing

   [E-CONCEPT]
     Letters    V nodes of a graph, E directed edges, F = 28 node features,
                G = 24 global features, D = 16 device features.
     Ownership  the caller owns every block; X_memsize(cfg) says its bytes and
                X_init(obj, cfg, mem, bytes) lays it out. Nothing is allocated,
                printed, opened or kept behind the caller's back.
     Threads    no globals: objects not shared between threads need no lock.
     Determinism the same input gives the same bits on one compiler.

   REFERENCES
     [M]  Ryu, Sung: MetaTune, arXiv 2102.04199 (super-graph = our skeleton)
     [T]  Tomczak et al.: Simulating Execution Time of Tensor Programs using
          Graph Neural Networks, arXiv 1904.11876 (AST nodes, features)
*/
#ifndef METATUNE_ENCODE_H
#define METATUNE_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#define METATUNE_VERSION_MAJOR 0
#define METATUNE_VERSION_MINOR 1
#define METATUNE_VERSION_PATCH 0

/* Changes whenever a feature changes its place or meaning; a model of another
   schema is refused. */
#define METATUNE_ENCODE_SCHEMA 1u

#ifndef METATUNE_REAL
#define METATUNE_REAL float
#endif

#ifdef METATUNE_STATIC
#if defined(__GNUC__) || defined(__clang__)
#define METATUNE_API static __attribute__((unused))
#else
#define METATUNE_API static
#endif
#else
#define METATUNE_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef METATUNE_REAL metatune_real;

/* ======================================================= [E-STATUS] status */

/* One list for the whole library: results of trials, ends of a search, and
   refusals of calls. */
typedef enum metatune_status {
    METATUNE_OK = 0,
    /* the result of a trial; the numbers are written into records: append */
    METATUNE_COMPILE = 1,       /* did not build */
    METATUNE_RUNTIME = 2,       /* crashed or reported an error */
    METATUNE_TIMEOUT = 3,       /* deadline passed, in build or run */
    METATUNE_WRONG = 4,         /* ran, but its output is wrong */
    METATUNE_CONSTRAINT = 5,    /* target refused the setting before a build */
    METATUNE_INVALID_TIME = 6,  /* time <= 0, NaN or infinite */
    METATUNE_DEVICE_LOST = 7,   /* device gone: reset before the next trial */
    METATUNE_CANCELLED = 8,     /* caller stopped; also an end of a search */
    METATUNE_NOT_RUN = 9,       /* not measured: costs nothing, comes again */
    /* the end of a search */
    METATUNE_BUDGET = 20,       /* trials or seconds used up */
    METATUNE_EXHAUSTED = 21,    /* no new setting is left, or can be found */
    METATUNE_EMPTY_SPACE = 22,  /* no setting satisfies the constraints: all
                                   were looked at */
    METATUNE_NO_VALID = 23,     /* many failures and nothing valid; or a space
                                   too large to count, and nothing valid in
                                   what was looked at */
    METATUNE_WAIT = 24,         /* ask: trials of this batch still untold */
    /* refusals */
    METATUNE_BAD_ARG = 40,      /* NULL or an impossible argument */
    METATUNE_BAD_CONFIG = 41,   /* a config field is out of its range */
    METATUNE_BAD_SHAPE = 42,    /* an extent, stride, pad... is impossible */
    METATUNE_BAD_NEST = 43,     /* a loop nest that contradicts itself */
    METATUNE_NO_MEMORY = 44,    /* block smaller than _memsize, or unaligned */
    METATUNE_OVERFLOW = 45,     /* a size does not fit its type */
    METATUNE_CAPACITY = 46,     /* more items than the config allows */
    METATUNE_EMPTY_KNOB = 47,   /* a knob without values */
    METATUNE_BAD_SCHEMA = 48,   /* model made for other features */
    METATUNE_BAD_BLOB = 49,     /* model bytes torn, foreign or corrupted */
    METATUNE_BAD_RECORD = 50,   /* not a record line, or its CRC is wrong */
    METATUNE_NOT_FOUND = 51,    /* no such entry */
    METATUNE_IO = 52,           /* a write() callback failed */
    METATUNE_NOT_FINITE = 53,   /* arithmetic left the finite numbers */
    METATUNE_PARSE = 54         /* text that is not what it should be */
} metatune_status;

/* "OK", "COMPILE", ...; "UNKNOWN" for a number not in the list. */
METATUNE_API const char *metatune_encode_status_name(metatune_status status);

/* One line for people, without a final stop. */
METATUNE_API const char *metatune_encode_status_text(metatune_status status);

/* What was wrong, where, and what would be right. Strings are static. */
typedef struct metatune_error {
    metatune_status status;
    const char *where;          /* field or argument, e.g. "stride_h" */
    const char *want;           /* e.g. "1..65535" */
    int64_t got;                /* the offending value, if has_got */
    int32_t has_got;
} metatune_error;

/* Write "STATUS: where is GOT, want WANT" and a NUL into buf (cap bytes, cut
   when short); returns the length without the NUL. */
METATUNE_API size_t metatune_encode_error_line(const metatune_error *error,
                                               char *buf, size_t cap);

/* ================================================== [E-RNG] random, hashes */

/* xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64; the same numbers
   on every machine. */
typedef struct metatune_encode_rng {
    uint64_t s[4];
} metatune_encode_rng;

/* stream separates independent sequences of one seed. */
METATUNE_API void metatune_encode_rng_init(metatune_encode_rng *rng,
                                           uint64_t seed, uint64_t stream);
METATUNE_API uint64_t metatune_encode_rng_next(metatune_encode_rng *rng);
/* Uniform in 0..n-1, without bias; 0 when n is 0. */
METATUNE_API uint64_t metatune_encode_rng_below(metatune_encode_rng *rng,
                                                uint64_t n);
/* Uniform in [0,1), 53 bits. */
METATUNE_API double metatune_encode_rng_unit(metatune_encode_rng *rng);
/* Standard normal (sum of twelve uniforms less six: |z| <= 6, no libm, so the
   same bits everywhere). */
METATUNE_API double metatune_encode_rng_normal(metatune_encode_rng *rng);

/* 64-bit hash of bytes (FNV-1a with a final mix); chain with `seed`. */
METATUNE_API uint64_t metatune_encode_hash(uint64_t seed, const void *bytes,
                                           size_t n);
/* The same for one integer, independent of byte order. */
METATUNE_API uint64_t metatune_encode_hash_u64(uint64_t seed, uint64_t value);

/* ========================================== [E-NEST] kernel description */

#define METATUNE_ENCODE_MAX_AXES 16  /* axes of a nest */
#define METATUNE_ENCODE_MAX_DIMS 6   /* dimensions of a tensor */
#define METATUNE_ENCODE_MAX_TERMS 3  /* axes summed in one dimension */
#define METATUNE_ENCODE_MAX_TENSORS 8
#define METATUNE_ENCODE_HINTS 4

typedef enum metatune_axis_kind {
    METATUNE_AXIS_SPATIAL = 0,
    METATUNE_AXIS_REDUCTION = 1
} metatune_axis_kind;

typedef enum metatune_scope {
    METATUNE_SCOPE_GLOBAL = 0,
    METATUNE_SCOPE_LOCAL = 1,    /* shared by a work-group, scratchpad */
    METATUNE_SCOPE_PRIVATE = 2   /* registers, stack */
} metatune_scope;

/* Which of the three buffer columns of the node features a tensor fills. */
typedef enum metatune_role {
    METATUNE_ROLE_INPUT = 0,
    METATUNE_ROLE_WEIGHT = 1,
    METATUNE_ROLE_OUTPUT = 2,
    METATUNE_ROLE_TEMP = 3       /* counted in totals, no column */
} metatune_role;

typedef enum metatune_loop_kind {
    METATUNE_LOOP_SERIAL = 0,
    METATUNE_LOOP_PARALLEL = 1,  /* host threads */
    METATUNE_LOOP_VECTOR = 2,
    METATUNE_LOOP_UNROLL = 3,
    METATUNE_LOOP_BLOCK = 4,     /* gpu work-group */
    METATUNE_LOOP_THREAD = 5,    /* gpu work-item */
    METATUNE_LOOP_TENSOR = 6     /* tensorised instruction */
} metatune_loop_kind;

typedef enum metatune_stmt_kind {
    METATUNE_STMT_LOAD = 0,
    METATUNE_STMT_STORE = 1,
    METATUNE_STMT_FMA = 2,       /* multiply-add: 2 FLOP an operation */
    METATUNE_STMT_ARITH = 3,     /* other arithmetic: 1 FLOP an operation */
    METATUNE_STMT_SELECT = 4,    /* guard, select, compare */
    METATUNE_STMT_CALL = 5       /* libm and other calls */
} metatune_stmt_kind;

typedef struct metatune_encode_axis {
    int32_t extent;              /* >= 1 */
    int32_t kind;                /* metatune_axis_kind */
} metatune_encode_axis;

/* One dimension of a tensor: index = sum coef[i] * axis[i] - pad.
   A blocked layout (NCHWc) splits the index: block > 1 says that neighbours
   inside a block are `stride` elements apart, and blocks `stride_block`. */
typedef struct metatune_encode_dim {
    int32_t extent;              /* size of the dimension, >= 1 */
    int32_t pad;                 /* subtracted; indices outside are guarded */
    int32_t n_terms;             /* 0..METATUNE_ENCODE_MAX_TERMS */
    int32_t axis[METATUNE_ENCODE_MAX_TERMS];
    int32_t coef[METATUNE_ENCODE_MAX_TERMS]; /* >= 1 */
    int32_t block;               /* 0 or 1: not blocked */
    double stride;               /* elements; 0 = row-major by extents */
    double stride_block;         /* elements between blocks */
} metatune_encode_dim;

typedef struct metatune_encode_tensor {
    int32_t elem_bytes;          /* 1..16 */
    int32_t scope;               /* metatune_scope */
    int32_t role;                /* metatune_role */
    uint32_t axis_mask;          /* bit a: axis a indexes it; kept by _add */
    int32_t n_dims;              /* 1..METATUNE_ENCODE_MAX_DIMS */
    metatune_encode_dim dim[METATUNE_ENCODE_MAX_DIMS];
} metatune_encode_tensor;

/* A loop runs `trip` times and moves its axis by `step` each time. Loops of
   one axis nest: the outer step is the span of the inner one. trip * step may
   exceed what is left (a guarded or padded tail). */
typedef struct metatune_encode_loop {
    int32_t axis;
    int32_t step;                /* >= 1 */
    int32_t trip;                /* >= 1 */
    int32_t kind;                /* metatune_loop_kind */
    int32_t slot;                /* node of the skeleton, >= 1 (0 is root) */
    int32_t parent;              /* enclosing loop, -1 = the root */
} metatune_encode_loop;

typedef struct metatune_encode_stmt {
    int32_t kind;                /* metatune_stmt_kind */
    int32_t slot;
    int32_t parent;              /* enclosing loop, -1 = the root */
    int32_t count;               /* operations an execution, >= 1 */
    int32_t n_tensors;           /* touched: 0..3 */
    int32_t tensor[3];
} metatune_encode_stmt;

/* A tensor's tile staged into nearer memory: allocated inside `parent`. */
typedef struct metatune_encode_copy {
    int32_t tensor;
    int32_t scope;
    int32_t slot;
    int32_t parent;
} metatune_encode_copy;

/* Capacities; {0} is all defaults. Of a nest's nodes at most half (rounded up)
   may be statements and a quarter copies. */
typedef struct metatune_encode_config {
    int32_t cap_nodes;  /* loops + statements + copies + root, of a nest and a
                           graph; default 64, range 2..4096 */
    int32_t cap_edges;  /* directed edges of a graph; default 8 * cap_nodes,
                           range 1..65535 */
    int32_t cap_tensors; /* of a nest; default and most 8 */
} metatune_encode_config;

typedef struct metatune_encode_nest {
    metatune_encode_axis axis[METATUNE_ENCODE_MAX_AXES];
    metatune_encode_tensor *tensor; /* (cap_tensors) */
    metatune_encode_loop *loop;  /* (cap_nodes) parents before children */
    metatune_encode_stmt *stmt;  /* (cap_stmts) */
    metatune_encode_copy *copy;  /* (cap_copies) */
    float *foot;                 /* (cap_nodes + 1, cap_tensors) scratch of
                                    totals and graph_fill */
    int32_t n_axes, n_tensors, n_loops, n_stmts, n_copies;
    int32_t cap_nodes, cap_tensors, cap_stmts, cap_copies;
    int32_t skeleton;            /* which skeleton this setting uses, >= 0 */
    metatune_status status;      /* the first error of any _add; sticky */
    metatune_real hint[METATUNE_ENCODE_HINTS]; /* knobs that have no place in
                           the nest (prefetch, compiler flags); about -2..2 */
} metatune_encode_nest;

/* cfg NULL = defaults. 0 when cfg is out of range. */
METATUNE_API size_t
metatune_encode_nest_memsize(const metatune_encode_config *cfg);
/* mem aligned to 8 bytes, kept as long as the nest. */
METATUNE_API metatune_status
metatune_encode_nest_init(metatune_encode_nest *nest,
                          const metatune_encode_config *cfg, void *mem,
                          size_t bytes);
/* Empty it for the next setting; axes and tensors go, too. */
METATUNE_API void metatune_encode_nest_clear(metatune_encode_nest *nest);
/* Empty loops, statements, copies and hints; axes and tensors stay. */
METATUNE_API void metatune_encode_nest_rewind(metatune_encode_nest *nest);

/* Each returns the new item's index, or -1 and a sticky nest->status: a
   describe callback may add everything and look once at the end. */
METATUNE_API int32_t metatune_encode_axis_add(metatune_encode_nest *nest,
                                              int32_t extent, int32_t kind);
METATUNE_API int32_t metatune_encode_tensor_add(metatune_encode_nest *nest,
                                                int32_t elem_bytes,
                                                int32_t scope, int32_t role);
/* Append a dimension with no term yet; returns the dimension's index. */
METATUNE_API int32_t metatune_encode_dim_add(metatune_encode_nest *nest,
                                             int32_t tensor, int32_t extent,
                                             int32_t pad);
/* Append coef * axis to the tensor's last dimension. */
METATUNE_API int32_t metatune_encode_term_add(metatune_encode_nest *nest,
                                              int32_t tensor, int32_t axis,
                                              int32_t coef);
/* The usual tensor in one call: global scope, one dimension an axis of
   axes (n_axes), row-major: a[i][k] is {i, k}. */
METATUNE_API int32_t metatune_encode_array_add(metatune_encode_nest *nest,
                                               int32_t elem_bytes,
                                               int32_t role,
                                               const int32_t *axes,
                                               int32_t n_axes);
METATUNE_API int32_t metatune_encode_loop_add(metatune_encode_nest *nest,
                                              int32_t parent, int32_t axis,
                                              int32_t step, int32_t trip,
                                              int32_t kind, int32_t slot);
METATUNE_API int32_t metatune_encode_stmt_add(metatune_encode_nest *nest,
                                              int32_t parent, int32_t kind,
                                              int32_t slot, int32_t count,
                                              const int32_t *tensors,
                                              int32_t n_tensors);
METATUNE_API int32_t metatune_encode_copy_add(metatune_encode_nest *nest,
                                              int32_t parent, int32_t tensor,
                                              int32_t scope, int32_t slot);

/* Full check of ranges and references; OK, BAD_NEST, or the sticky status. */
METATUNE_API metatune_status
metatune_encode_nest_check(const metatune_encode_nest *nest);

/* ========================================== [E-DERIVE] derived quantities */

/* Of one tensor, over one full execution of a loop (loop = -1: the kernel)
   and everything below it, outer loops at their first iteration:
     unique   distinct elements that one statement touches; with several,
              the largest. A loop contributes axis values 0, step, 2 step..;
              values at or beyond the axis's extent are skipped (the tail).
              Indices in the padding count, too: a dimension has at most
              min(distinct indices, its extent). Exact by this rule when
              every dimension has at most two terms, every axis is in at most
              one term, and the values of every axis leave no holes (each
              step at most the span of the loops of that axis below it, or
              loops interleaved so that they fill it); else an upper bound.
     bytes    unique * elem_bytes
     touches  accesses (statement executions that touch the tensor, times
              their count; those of a tail and of padding included)
     reuse    touches / unique, >= 1 when touched; 0 when not
     stride   elements the address moves from the loop's first iteration to
              its second, other loops at their first */
typedef struct metatune_encode_access {
    double unique, bytes, touches, reuse, stride;
} metatune_encode_access;

METATUNE_API metatune_status
metatune_encode_access_derive(const metatune_encode_nest *nest, int32_t loop,
                              int32_t tensor, metatune_encode_access *out);

/* Whole-nest totals. flop counts the work including tail waste. */
typedef struct metatune_encode_totals {
    double flop;            /* executed, padding waste included */
    double bytes_min;       /* each tensor's distinct bytes, once */
    double bytes_l1;        /* traffic into L1 (from L2), bytes */
    double bytes_l2;        /* traffic into L2 (from L3), bytes */
    double bytes_l3;        /* traffic into L3 (from DRAM), bytes */
    double foot_inner;      /* footprint of the innermost 2 serial loops */
    double waste;           /* executed / needed iterations, >= 1 */
    double chunks;          /* parallel iterations */
    double imbalance;       /* ceil(chunks/u)*u/chunks, >= 1, with u =
                               min(chunks, cores) */
    double vector_fill;     /* vector iterations / lanes, clipped to 4 */
    double unrolled;        /* statements in the unrolled body */
    double accumulators;    /* output registers of the unrolled body */
    double loads_per_fma;   /* vector loads an FMA of the unrolled body */
    double t0_s;            /* analytic lower bound, seconds */
} metatune_encode_totals;

struct metatune_encode_device;
METATUNE_API metatune_status
metatune_encode_totals_derive(const metatune_encode_nest *nest,
                              const struct metatune_encode_device *device,
                              metatune_encode_totals *out);

/* ================================================ [E-DEVICE] device */

#define METATUNE_ENCODE_PROBES 8

/* 0 = unknown everywhere; size = sizeof(metatune_encode_device), so that the
   struct may grow: a shorter one from older code reads as unknown. */
typedef struct metatune_encode_device {
    uint32_t size;               /* bytes of this struct as the caller saw it */
    int32_t cores;
    int32_t lanes;               /* 32-bit lanes of a vector register */
    int32_t vregs;               /* vector registers */
    int32_t line_bytes;          /* cache line */
    int32_t warp;                /* gpu warp or wavefront */
    double l1_bytes, l2_bytes, l3_bytes;
    double local_bytes;          /* gpu shared memory, scratchpad */
    double flash_bytes, ram_bytes;
    double freq_hz;
    double bandwidth;            /* DRAM, bytes a second */
    /* log2(measured / nominal): FMA, L1, L2, DRAM streaming, latency chain,
       strided access, two spare; 0 = not probed */
    double probe[METATUNE_ENCODE_PROBES];
} metatune_encode_device;

/* ==================================================== [E-GRAPH] graph */

#define METATUNE_ENCODE_NODE_FEATURES 28
#define METATUNE_ENCODE_GLOBAL_FEATURES 24
#define METATUNE_ENCODE_DEVICE_FEATURES 16

/* Topology shared by every setting of every shape of one (family, algorithm)
   pair: MetaTune's super-graph [M, section 3]. Row v of the CSR lists the
   neighbours of slot v; edges go both ways; no self-loops. */
typedef struct metatune_encode_skeleton {
    int32_t n_nodes;
    int32_t n_edges;             /* directed */
    int32_t cap_nodes, cap_edges;
    uint16_t *row;               /* (cap_nodes + 1) */
    uint16_t *col;               /* (cap_edges) */
} metatune_encode_skeleton;

METATUNE_API size_t
metatune_encode_skeleton_memsize(const metatune_encode_config *cfg);
METATUNE_API metatune_status
metatune_encode_skeleton_init(metatune_encode_skeleton *skeleton,
                              const metatune_encode_config *cfg, void *mem,
                              size_t bytes);
/* Declare it from the canonical nest, in which every slot is present once.
   Edges: nest (parent - child), same-axis split, loop - statement touch,
   producer - consumer (copy, load -> arithmetic -> store). */
METATUNE_API metatune_status
metatune_encode_skeleton_build(metatune_encode_skeleton *skeleton,
                               const metatune_encode_nest *canonical);

/* One encoded setting. Absent slots have present = 0 and a zero row, and take
   no part in propagation or readout. */
typedef struct metatune_encode_graph {
    int32_t n_nodes;             /* V */
    int32_t cap_nodes, cap_edges;
    int32_t skeleton;            /* nest->skeleton, or -1 in plain mode */
    const uint16_t *row;         /* (V + 1) CSR; the skeleton's, or own_row */
    const uint16_t *col;         /* (E) */
    uint16_t *own_row;           /* (cap_nodes + 1), plain mode */
    uint16_t *own_col;           /* (cap_edges), plain mode */
    unsigned char *present;      /* (cap_nodes) */
    metatune_real *x;            /* (V, F) row-major */
    metatune_real global_row[METATUNE_ENCODE_GLOBAL_FEATURES];
    metatune_real device_row[METATUNE_ENCODE_DEVICE_FEATURES];
    double t0_s;                 /* analytic time bound, seconds */
} metatune_encode_graph;

METATUNE_API size_t
metatune_encode_graph_memsize(const metatune_encode_config *cfg);
METATUNE_API metatune_status
metatune_encode_graph_init(metatune_encode_graph *graph,
                           const metatune_encode_config *cfg, void *mem,
                           size_t bytes);

/* Encode a described setting. skeleton NULL = plain mode: the topology as
   described [T]. device NULL = all unknown. The graph points at the skeleton's
   edges, which must outlive it. */
METATUNE_API metatune_status
metatune_encode_graph_fill(metatune_encode_graph *graph,
                           const metatune_encode_nest *nest,
                           const metatune_encode_skeleton *skeleton,
                           const metatune_encode_device *device);

/* The device row alone: (METATUNE_ENCODE_DEVICE_FEATURES). */
METATUNE_API void
metatune_encode_device_row(const metatune_encode_device *device,
                           metatune_real *row);

/* ==================================================== [E-CONV2D] conv2d */

typedef enum metatune_dtype {
    METATUNE_F32 = 0, METATUNE_F16 = 1, METATUNE_BF16 = 2, METATUNE_F64 = 3,
    METATUNE_I8 = 4, METATUNE_I16 = 5, METATUNE_I32 = 6
} metatune_dtype;

typedef enum metatune_layout {
    METATUNE_NCHW = 0, METATUNE_NHWC = 1,
    METATUNE_NCHWC = 2           /* channels in blocks of `block` */
} metatune_layout;

/* Cross-correlation, as networks mean it:
     out[n][k][y][x] = sum c r s  in[n][g*C/G + c][y*stride_h + r*dil_h -
       pad_top][x*stride_w + s*dil_w - pad_left] * w[k][c][r][s]
   with C/G channels a group; depthwise is groups = c. */
typedef struct metatune_encode_conv2d {
    int32_t n, c, h, w;          /* input, each >= 1 */
    int32_t k, r, s;             /* output channels, kernel height, width */
    int32_t stride_h, stride_w;  /* >= 1 */
    int32_t pad_top, pad_bottom, pad_left, pad_right; /* >= 0 */
    int32_t dil_h, dil_w;        /* >= 1 */
    int32_t groups;              /* divides c and k */
    int32_t dtype_in, dtype_out; /* metatune_dtype */
    int32_t layout;              /* metatune_layout */
    int32_t block;               /* of METATUNE_NCHWC, else 0 */
    int32_t dtype_acc;           /* of the sums */
    int32_t fused;               /* METATUNE_FUSED_ bits: done on the output
                                    before it is stored */
} metatune_encode_conv2d;

enum {
    METATUNE_FUSED_BIAS = 1, METATUNE_FUSED_RELU = 2, METATUNE_FUSED_ADD = 4
};

/* The usual case: square stride and padding, no dilation, one group, f32,
   NCHW. Nothing is checked here. */
METATUNE_API metatune_encode_conv2d
metatune_encode_conv2d_make(int32_t n, int32_t c, int32_t h, int32_t w,
                            int32_t k, int32_t r, int32_t s, int32_t stride,
                            int32_t pad);
/* OK, or BAD_SHAPE / BAD_ARG with the field in *error (may be NULL). */
METATUNE_API metatune_status
metatune_encode_conv2d_check(const metatune_encode_conv2d *conv,
                             metatune_error *error);
/* Output height and width; 0 when the shape is bad. */
METATUNE_API int32_t
metatune_encode_conv2d_out_h(const metatune_encode_conv2d *conv);
METATUNE_API int32_t
metatune_encode_conv2d_out_w(const metatune_encode_conv2d *conv);
/* 2 * n*k*oh*ow * c/groups*r*s, in double; padding counted as work. */
METATUNE_API double
metatune_encode_conv2d_flop(const metatune_encode_conv2d *conv);
/* "n=1,c=64,h=56,w=56,k=64,r=3,s=3,stride=1,pad=1,dil=1,groups=1"; stride,
   pad and dil become stride_h=..,stride_w=.. (pad_top=..) when they differ;
   dtypes (in, out, acc), layout and fused are written when not f32, nchw and
   0. This text is the task
   key of records: everything that changes the kernel is in it. Returns the
   length without the NUL, or 0 when cap is too small. */
METATUNE_API size_t
metatune_encode_conv2d_spec(const metatune_encode_conv2d *conv, char *buf,
                            size_t cap);
/* The inverse, fields in any order; n, stride, dil, groups default to 1, pad
   to 0, s to r, w to h. PARSE or BAD_SHAPE with *error (may be NULL). */
METATUNE_API metatune_status
metatune_encode_conv2d_parse(const char *text, metatune_encode_conv2d *conv,
                             metatune_error *error);
METATUNE_API int32_t metatune_encode_dtype_bytes(int32_t dtype);

/* Axis and tensor indices that conv2d_begin adds, in this order. */
enum {
    METATUNE_CONV_N = 0, METATUNE_CONV_G = 1, METATUNE_CONV_K = 2,
    METATUNE_CONV_Y = 3, METATUNE_CONV_X = 4, METATUNE_CONV_C = 5,
    METATUNE_CONV_R = 6, METATUNE_CONV_S = 7
};
enum {
    METATUNE_CONV_INPUT = 0, METATUNE_CONV_WEIGHT = 1, METATUNE_CONV_OUTPUT = 2
};
/* Clear the nest, then add the 8 axes (K and C count within a group) and the
   3 tensors with their layout. Loops and statements are the caller's. */
METATUNE_API metatune_status
metatune_encode_conv2d_begin(metatune_encode_nest *nest,
                             const metatune_encode_conv2d *conv);

#ifdef __cplusplus
}
#endif
#endif /* METATUNE_ENCODE_H */

/* ================================================== [E-IMPL] implementation */
#if (defined(METATUNE_ENCODE_IMPLEMENTATION) || \
     defined(METATUNE_IMPLEMENTATION) || defined(METATUNE_STATIC)) && \
    !defined(METATUNE_ENCODE_C)
#define METATUNE_ENCODE_C
#include "metatune_encode.h"

#include <string.h>

#ifndef METATUNE_ASSERT
#define METATUNE_ASSERT(x) ((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------- checked arithmetic and layout */

/* Round up to 8, or SIZE_MAX. */
static size_t mti_enc_align(size_t n)
{
    return n > SIZE_MAX - 7 ? SIZE_MAX : (n + 7) & ~(size_t)7;
}

/* Append count * size bytes to a block of *total; returns the offset.
   *total becomes SIZE_MAX on overflow and stays there. */
static size_t mti_enc_block(size_t *total, size_t count, size_t size)
{
    size_t at = *total, bytes;
    if (at == SIZE_MAX || (size && count > SIZE_MAX / size)) {
        *total = SIZE_MAX;
        return 0;
    }
    bytes = mti_enc_align(count * size);
    *total = bytes > SIZE_MAX - at ? SIZE_MAX : at + bytes;
    return at;
}

/* mem is usable as a block of `need` bytes. */
static metatune_status mti_enc_block_check(const void *mem, size_t bytes,
                                           size_t need)
{
    if (!mem)
        return METATUNE_BAD_ARG;
    if (need == SIZE_MAX)
        return METATUNE_OVERFLOW;
    if (bytes < need || ((uintptr_t)mem & 7) != 0)
        return METATUNE_NO_MEMORY;
    return METATUNE_OK;
}

/* ------------------------------------------------------ text kernels */

typedef struct mti_enc_out {
    char *buf;
    size_t cap, n; /* n counts what did not fit, too */
} mti_enc_out;

static void mti_enc_put(mti_enc_out *o, const char *text)
{
    for (; *text; text++, o->n++)
        if (o->n + 1 < o->cap)
            o->buf[o->n] = *text;
}

static void mti_enc_put_int(mti_enc_out *o, int64_t value)
{
    char digits[24];
    size_t i = sizeof digits - 1;
    uint64_t u = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
    digits[i] = 0;
    do {
        digits[--i] = (char)('0' + (int)(u % 10));
        u /= 10;
    } while (u);
    if (value < 0)
        digits[--i] = '-';
    mti_enc_put(o, digits + i);
}

static size_t mti_enc_put_end(mti_enc_out *o)
{
    size_t n = o->n;
    if (o->cap == 0)
        return 0;
    if (n >= o->cap)
        n = o->cap - 1;
    o->buf[n] = 0;
    return n;
}

/* ----------------------------------------------------------- status */

typedef struct mti_enc_status_row {
    metatune_status status;
    const char *name, *text;
} mti_enc_status_row;

static const mti_enc_status_row mti_enc_statuses[] = {
    {METATUNE_OK, "OK", "success"},
    {METATUNE_COMPILE, "COMPILE", "the setting did not build"},
    {METATUNE_RUNTIME, "RUNTIME", "the kernel crashed or reported an error"},
    {METATUNE_TIMEOUT, "TIMEOUT", "the deadline passed"},
    {METATUNE_WRONG, "WRONG", "the kernel's output is wrong"},
    {METATUNE_CONSTRAINT, "CONSTRAINT", "the target refused the setting"},
    {METATUNE_INVALID_TIME, "INVALID_TIME",
     "the time is not a positive finite number"},
    {METATUNE_DEVICE_LOST, "DEVICE_LOST", "the device is gone"},
    {METATUNE_CANCELLED, "CANCELLED", "stopped by the caller"},
    {METATUNE_NOT_RUN, "NOT_RUN", "not measured"},
    {METATUNE_BUDGET, "BUDGET", "the budget is used up"},
    {METATUNE_EXHAUSTED, "EXHAUSTED", "no new setting is left to propose"},
    {METATUNE_EMPTY_SPACE, "EMPTY_SPACE",
     "no setting satisfies the constraints"},
    {METATUNE_NO_VALID, "NO_VALID", "no valid setting was found"},
    {METATUNE_WAIT, "WAIT", "results of the batch are outstanding"},
    {METATUNE_BAD_ARG, "BAD_ARG", "an argument is missing or impossible"},
    {METATUNE_BAD_CONFIG, "BAD_CONFIG", "a config field is out of its range"},
    {METATUNE_BAD_SHAPE, "BAD_SHAPE", "the shape is impossible"},
    {METATUNE_BAD_NEST, "BAD_NEST", "the loop nest contradicts itself"},
    {METATUNE_NO_MEMORY, "NO_MEMORY",
     "the block is too small or not aligned to 8 bytes"},
    {METATUNE_OVERFLOW, "OVERFLOW", "a size does not fit its type"},
    {METATUNE_CAPACITY, "CAPACITY", "more items than the config allows"},
    {METATUNE_EMPTY_KNOB, "EMPTY_KNOB", "a knob has no values"},
    {METATUNE_BAD_SCHEMA, "BAD_SCHEMA",
     "the model was made for other features"},
    {METATUNE_BAD_BLOB, "BAD_BLOB", "the model is torn or not a model"},
    {METATUNE_BAD_RECORD, "BAD_RECORD", "not a good record line"},
    {METATUNE_NOT_FOUND, "NOT_FOUND", "no such entry"},
    {METATUNE_IO, "IO", "writing failed"},
    {METATUNE_NOT_FINITE, "NOT_FINITE",
     "arithmetic left the finite numbers"},
    {METATUNE_PARSE, "PARSE", "the text cannot be read"},
};

static const mti_enc_status_row *mti_enc_status_find(metatune_status status)
{
    size_t i, n = sizeof mti_enc_statuses / sizeof mti_enc_statuses[0];
    for (i = 0; i < n; i++)
        if (mti_enc_statuses[i].status == status)
            return &mti_enc_statuses[i];
    return NULL;
}

METATUNE_API const char *metatune_encode_status_name(metatune_status status)
{
    const mti_enc_status_row *row = mti_enc_status_find(status);
    return row ? row->name : "UNKNOWN";
}

METATUNE_API const char *metatune_encode_status_text(metatune_status status)
{
    const mti_enc_status_row *row = mti_enc_status_find(status);
    return row ? row->text : "not a status of this library";
}

METATUNE_API size_t metatune_encode_error_line(const metatune_error *error,
                                               char *buf, size_t cap)
{
    mti_enc_out o;
    o.buf = buf;
    o.cap = buf ? cap : 0;
    o.n = 0;
    if (!error)
        return mti_enc_put_end(&o);
    mti_enc_put(&o, metatune_encode_status_name(error->status));
    mti_enc_put(&o, ": ");
    if (!error->where) {
        mti_enc_put(&o, metatune_encode_status_text(error->status));
        return mti_enc_put_end(&o);
    }
    mti_enc_put(&o, error->where);
    if (error->has_got) {
        mti_enc_put(&o, " is ");
        mti_enc_put_int(&o, error->got);
    }
    if (error->want) {
        mti_enc_put(&o, ", want ");
        mti_enc_put(&o, error->want);
    }
    return mti_enc_put_end(&o);
}

/* Fill *error (may be NULL) and return the status. */
static metatune_status mti_enc_refuse(metatune_error *error,
                                      metatune_status status,
                                      const char *where, const char *want)
{
    if (error) {
        memset(error, 0, sizeof *error);
        error->status = status;
        error->where = where;
        error->want = want;
    }
    return status;
}

static metatune_status mti_enc_refuse_int(metatune_error *error,
                                          metatune_status status,
                                          const char *where, int64_t got,
                                          const char *want)
{
    (void)mti_enc_refuse(error, status, where, want);
    if (error) {
        error->got = got;
        error->has_got = 1;
    }
    return status;
}

/* -------------------------------------------------------- rng, hashes */

static uint64_t mti_enc_mix(uint64_t z) /* splitmix64's finaliser */
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t mti_enc_rotl(uint64_t x, unsigned k)
{
    return (x << k) | (x >> (64 - k));
}

METATUNE_API void metatune_encode_rng_init(metatune_encode_rng *rng,
                                           uint64_t seed, uint64_t stream)
{
    uint64_t z = seed ^ mti_enc_mix(stream + UINT64_C(0x9e3779b97f4a7c15));
    int i;
    for (i = 0; i < 4; i++) {
        z += UINT64_C(0x9e3779b97f4a7c15);
        rng->s[i] = mti_enc_mix(z);
    }
}

METATUNE_API uint64_t metatune_encode_rng_next(metatune_encode_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = mti_enc_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = mti_enc_rotl(s[3], 45);
    return result;
}

METATUNE_API uint64_t metatune_encode_rng_below(metatune_encode_rng *rng,
                                                uint64_t n)
{
    uint64_t limit, x;
    if (n < 2)
        return 0;
    /* reject the incomplete last run of n values */
    limit = UINT64_MAX - UINT64_MAX % n;
    do
        x = metatune_encode_rng_next(rng);
    while (x >= limit);
    return x % n;
}

METATUNE_API double metatune_encode_rng_unit(metatune_encode_rng *rng)
{
    return (double)(metatune_encode_rng_next(rng) >> 11) *
           (1.0 / 9007199254740992.0);
}

METATUNE_API double metatune_encode_rng_normal(metatune_encode_rng *rng)
{
    double sum = -6;
    int i;
    for (i = 0; i < 12; i++)
        sum += metatune_encode_rng_unit(rng);
    return sum;
}

METATUNE_API uint64_t metatune_encode_hash(uint64_t seed, const void *bytes,
                                           size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t h = seed ^ UINT64_C(0xcbf29ce484222325);
    size_t i;
    for (i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return mti_enc_mix(h ^ n);
}

METATUNE_API uint64_t metatune_encode_hash_u64(uint64_t seed, uint64_t value)
{
    return mti_enc_mix(seed * UINT64_C(0x9e3779b97f4a7c15) ^
                       mti_enc_mix(value + UINT64_C(0xd1b54a32d192ed03)));
}

/* ------------------------------------------------- log2 for features */

/* log2(x) for x > 0, error below 2e-7 + rounding; 0 for x <= 0. libm's is
   exact but ten times slower, and features need no more:
   x = 2^e m, m in [0.70, 1.42), t = (m-1)/(m+1),
   log2 m = 2/ln 2 (t + t^3/3 + t^5/5 + t^7/7). */
static float mti_enc_log2(double x)
{
    uint64_t bits;
    uint32_t man, big, fbits;
    int32_t e;
    float m, t, t2;
    memcpy(&bits, &x, sizeof bits);
    if ((bits >> 63) || bits < UINT64_C(0x0010000000000000))
        return 0; /* negative, zero, or too small to matter */
    man = (uint32_t)(bits >> 29) & 0x7fffffu;
    big = man > 0x3504f3u ? 1u : 0u; /* m above sqrt 2: halve it */
    e = (int32_t)(bits >> 52) - 1023 + (int32_t)big;
    fbits = man | ((127u - big) << 23);
    memcpy(&m, &fbits, sizeof m);
    t = (m - 1.0f) / (m + 1.0f);
    t2 = t * t;
    return (float)e + t * (2.88539008f + t2 * (0.961796694f +
           t2 * (0.577078016f + t2 * 0.412198583f)));
}

/* log2 of max(x, 1) */
static float mti_enc_log2p(double x)
{
    return x > 1 ? mti_enc_log2(x) : 0.0f;
}

static double mti_enc_max(double a, double b) { return a > b ? a : b; }
static double mti_enc_min(double a, double b) { return a < b ? a : b; }

/* Products of trips and extents stop here, so that they fit a float and
   nothing becomes infinite. */
#define MTI_ENC_HUGE 1e30

/* ------------------------------------------------------------ config */

static metatune_status mti_enc_config(const metatune_encode_config *cfg,
                                      int32_t *cap_nodes, int32_t *cap_edges)
{
    *cap_nodes = cfg && cfg->cap_nodes ? cfg->cap_nodes : 64;
    if (*cap_nodes < 2 || *cap_nodes > 4096)
        return METATUNE_BAD_CONFIG;
    *cap_edges = cfg && cfg->cap_edges ? cfg->cap_edges : 8 * *cap_nodes;
    if (*cap_edges < 1 || *cap_edges > 65535)
        return METATUNE_BAD_CONFIG;
    return METATUNE_OK;
}

/* -------------------------------------------------------------- nest */

typedef struct mti_enc_nest_layout {
    size_t tensor, loop, stmt, copy, foot, bytes;
    int32_t cap_nodes, cap_tensors, cap_stmts, cap_copies;
} mti_enc_nest_layout;

static metatune_status mti_enc_nest_plan(const metatune_encode_config *cfg,
                                         mti_enc_nest_layout *l)
{
    int32_t edges;
    size_t n;
    metatune_status st = mti_enc_config(cfg, &l->cap_nodes, &edges);
    if (st)
        return st;
    n = (size_t)l->cap_nodes;
    l->cap_tensors = cfg && cfg->cap_tensors ? cfg->cap_tensors
                                             : METATUNE_ENCODE_MAX_TENSORS;
    if (l->cap_tensors < 1 || l->cap_tensors > METATUNE_ENCODE_MAX_TENSORS)
        return METATUNE_BAD_CONFIG;
    l->cap_stmts = (l->cap_nodes + 1) / 2;
    l->cap_copies = (l->cap_nodes + 3) / 4;
    l->bytes = 0;
    l->tensor = mti_enc_block(&l->bytes, (size_t)l->cap_tensors,
                              sizeof(metatune_encode_tensor));
    l->loop = mti_enc_block(&l->bytes, n, sizeof(metatune_encode_loop));
    l->stmt = mti_enc_block(&l->bytes, (size_t)l->cap_stmts,
                            sizeof(metatune_encode_stmt));
    l->copy = mti_enc_block(&l->bytes, (size_t)l->cap_copies,
                            sizeof(metatune_encode_copy));
    l->foot = mti_enc_block(&l->bytes, (n + 1) * (size_t)l->cap_tensors,
                            sizeof(float));
    return METATUNE_OK;
}

METATUNE_API size_t
metatune_encode_nest_memsize(const metatune_encode_config *cfg)
{
    mti_enc_nest_layout l;
    return mti_enc_nest_plan(cfg, &l) ? 0 : l.bytes;
}

METATUNE_API metatune_status
metatune_encode_nest_init(metatune_encode_nest *nest,
                          const metatune_encode_config *cfg, void *mem,
                          size_t bytes)
{
    mti_enc_nest_layout l;
    char *base = (char *)mem;
    metatune_status st = mti_enc_nest_plan(cfg, &l);
    if (st)
        return st;
    if (!nest)
        return METATUNE_BAD_ARG;
    st = mti_enc_block_check(mem, bytes, l.bytes);
    if (st)
        return st;
    memset(nest, 0, sizeof *nest);
    nest->tensor = (metatune_encode_tensor *)(void *)(base + l.tensor);
    nest->loop = (metatune_encode_loop *)(void *)(base + l.loop);
    nest->stmt = (metatune_encode_stmt *)(void *)(base + l.stmt);
    nest->copy = (metatune_encode_copy *)(void *)(base + l.copy);
    nest->foot = (float *)(void *)(base + l.foot);
    nest->cap_nodes = l.cap_nodes;
    nest->cap_tensors = l.cap_tensors;
    nest->cap_stmts = l.cap_stmts;
    nest->cap_copies = l.cap_copies;
    return METATUNE_OK;
}

METATUNE_API void metatune_encode_nest_rewind(metatune_encode_nest *nest)
{
    nest->n_loops = nest->n_stmts = nest->n_copies = 0;
    nest->status = METATUNE_OK;
    memset(nest->hint, 0, sizeof nest->hint);
}

METATUNE_API void metatune_encode_nest_clear(metatune_encode_nest *nest)
{
    metatune_encode_nest_rewind(nest);
    nest->n_axes = nest->n_tensors = 0;
    nest->skeleton = 0;
}

static int32_t mti_enc_nest_fail(metatune_encode_nest *nest,
                                 metatune_status status)
{
    if (!nest->status)
        nest->status = status;
    return -1;
}

METATUNE_API int32_t metatune_encode_axis_add(metatune_encode_nest *nest,
                                              int32_t extent, int32_t kind)
{
    int32_t i = nest->n_axes;
    if (i >= METATUNE_ENCODE_MAX_AXES)
        return mti_enc_nest_fail(nest, METATUNE_CAPACITY);
    if (extent < 1)
        return mti_enc_nest_fail(nest, METATUNE_BAD_SHAPE);
    if (kind < 0 || kind > METATUNE_AXIS_REDUCTION)
        return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
    nest->axis[i].extent = extent;
    nest->axis[i].kind = kind;
    nest->n_axes++;
    return i;
}

METATUNE_API int32_t metatune_encode_tensor_add(metatune_encode_nest *nest,
                                                int32_t elem_bytes,
                                                int32_t scope, int32_t role)
{
    int32_t i = nest->n_tensors;
    metatune_encode_tensor *t;
    if (i >= nest->cap_tensors)
        return mti_enc_nest_fail(nest, METATUNE_CAPACITY);
    if (elem_bytes < 1 || elem_bytes > 16 || scope < 0 ||
        scope > METATUNE_SCOPE_PRIVATE || role < 0 ||
        role > METATUNE_ROLE_TEMP)
        return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
    t = &nest->tensor[i];
    memset(t, 0, sizeof *t);
    t->elem_bytes = elem_bytes;
    t->scope = scope;
    t->role = role;
    nest->n_tensors++;
    return i;
}

METATUNE_API int32_t metatune_encode_dim_add(metatune_encode_nest *nest,
                                             int32_t tensor, int32_t extent,
                                             int32_t pad)
{
    metatune_encode_tensor *t;
    if (tensor < 0 || tensor >= nest->n_tensors)
        return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
    if (extent < 1 || pad < 0)
        return mti_enc_nest_fail(nest, METATUNE_BAD_SHAPE);
    t = &nest->tensor[tensor];
    if (t->n_dims >= METATUNE_ENCODE_MAX_DIMS)
        return mti_enc_nest_fail(nest, METATUNE_CAPACITY);
    t->dim[t->n_dims].extent = extent;
    t->dim[t->n_dims].pad = pad;
    return t->n_dims++;
}

METATUNE_API int32_t metatune_encode_term_add(metatune_encode_nest *nest,
                                              int32_t tensor, int32_t axis,
                                              int32_t coef)
{
    metatune_encode_tensor *t;
    metatune_encode_dim *d;
    if (tensor < 0 || tensor >= nest->n_tensors || axis < 0 ||
        axis >= nest->n_axes || coef < 1 || !nest->tensor[tensor].n_dims)
        return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
    t = &nest->tensor[tensor];
    d = &t->dim[t->n_dims - 1];
    if (d->n_terms >= METATUNE_ENCODE_MAX_TERMS)
        return mti_enc_nest_fail(nest, METATUNE_CAPACITY);
    d->axis[d->n_terms] = axis;
    d->coef[d->n_terms] = coef;
    t->axis_mask |= (uint32_t)1 << axis;
    return d->n_terms++;
}

METATUNE_API int32_t metatune_encode_array_add(metatune_encode_nest *nest,
                                               int32_t elem_bytes,
                                               int32_t role,
                                               const int32_t *axes,
                                               int32_t n_axes)
{
    int32_t t, i;
    if (!axes || n_axes < 1)
        return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
    t = metatune_encode_tensor_add(nest, elem_bytes, METATUNE_SCOPE_GLOBAL,
                                   role);
    for (i = 0; t >= 0 && i < n_axes; i++) {
        if (axes[i] < 0 || axes[i] >= nest->n_axes)
            return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
        if (metatune_encode_dim_add(nest, t, nest->axis[axes[i]].extent, 0) <
                0 ||
            metatune_encode_term_add(nest, t, axes[i], 1) < 0)
            return -1;
    }
    return t;
}

/* Nodes used so far, the root included. */
static int32_t mti_enc_nest_nodes(const metatune_encode_nest *nest)
{
    return 1 + nest->n_loops + nest->n_stmts + nest->n_copies;
}

/* What every node needs: room, a slot, a parent that exists. */
static int mti_enc_node_bad(metatune_encode_nest *nest, int32_t parent,
                            int32_t slot)
{
    if (mti_enc_nest_nodes(nest) >= nest->cap_nodes) {
        (void)mti_enc_nest_fail(nest, METATUNE_CAPACITY);
        return 1;
    }
    if (parent < -1 || parent >= nest->n_loops || slot < 0) {
        (void)mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
        return 1;
    }
    return 0;
}

METATUNE_API int32_t metatune_encode_loop_add(metatune_encode_nest *nest,
                                              int32_t parent, int32_t axis,
                                              int32_t step, int32_t trip,
                                              int32_t kind, int32_t slot)
{
    metatune_encode_loop *l;
    if (mti_enc_node_bad(nest, parent, slot))
        return -1;
    if (axis < 0 || axis >= nest->n_axes || step < 1 || trip < 1 ||
        kind < 0 || kind > METATUNE_LOOP_TENSOR)
        return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
    l = &nest->loop[nest->n_loops];
    l->axis = axis;
    l->step = step;
    l->trip = trip;
    l->kind = kind;
    l->slot = slot;
    l->parent = parent;
    return nest->n_loops++;
}

METATUNE_API int32_t metatune_encode_stmt_add(metatune_encode_nest *nest,
                                              int32_t parent, int32_t kind,
                                              int32_t slot, int32_t count,
                                              const int32_t *tensors,
                                              int32_t n_tensors)
{
    metatune_encode_stmt *s;
    int32_t i;
    if (mti_enc_node_bad(nest, parent, slot))
        return -1;
    if (nest->n_stmts >= nest->cap_stmts)
        return mti_enc_nest_fail(nest, METATUNE_CAPACITY);
    if (kind < 0 || kind > METATUNE_STMT_CALL || count < 1 ||
        n_tensors < 0 || n_tensors > 3 || (n_tensors && !tensors))
        return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
    s = &nest->stmt[nest->n_stmts];
    for (i = 0; i < n_tensors; i++) {
        if (tensors[i] < 0 || tensors[i] >= nest->n_tensors)
            return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
        s->tensor[i] = tensors[i];
    }
    s->kind = kind;
    s->slot = slot;
    s->parent = parent;
    s->count = count;
    s->n_tensors = n_tensors;
    return nest->n_stmts++;
}

METATUNE_API int32_t metatune_encode_copy_add(metatune_encode_nest *nest,
                                              int32_t parent, int32_t tensor,
                                              int32_t scope, int32_t slot)
{
    metatune_encode_copy *c;
    if (mti_enc_node_bad(nest, parent, slot))
        return -1;
    if (nest->n_copies >= nest->cap_copies)
        return mti_enc_nest_fail(nest, METATUNE_CAPACITY);
    if (tensor < 0 || tensor >= nest->n_tensors || scope < 0 ||
        scope > METATUNE_SCOPE_PRIVATE)
        return mti_enc_nest_fail(nest, METATUNE_BAD_NEST);
    c = &nest->copy[nest->n_copies];
    c->tensor = tensor;
    c->scope = scope;
    c->slot = slot;
    c->parent = parent;
    return nest->n_copies++;
}

/* n of cap items, where cap itself may be nonsense, is at most top */
static int mti_enc_count_bad(int32_t n, int32_t cap, int32_t top)
{
    return n < 0 || n > cap || cap > top;
}

/* Structs are public, so a caller may have filled them by hand. */
METATUNE_API metatune_status
metatune_encode_nest_check(const metatune_encode_nest *nest)
{
    int32_t i, j, k;
    if (!nest)
        return METATUNE_BAD_ARG;
    if (nest->status)
        return nest->status;
    if (nest->n_axes < 0 || nest->n_axes > METATUNE_ENCODE_MAX_AXES ||
        nest->cap_nodes < 2 ||
        mti_enc_count_bad(nest->n_tensors, nest->cap_tensors,
                          METATUNE_ENCODE_MAX_TENSORS) ||
        mti_enc_count_bad(nest->n_loops, nest->cap_nodes, 4096) ||
        mti_enc_count_bad(nest->n_stmts, nest->cap_stmts, 2048) ||
        mti_enc_count_bad(nest->n_copies, nest->cap_copies, 1024) ||
        mti_enc_nest_nodes(nest) > nest->cap_nodes || nest->skeleton < 0)
        return METATUNE_BAD_NEST;
    for (i = 0; i < METATUNE_ENCODE_HINTS; i++) /* NaN, too */
        if (!(nest->hint[i] > -1000 && nest->hint[i] < 1000))
            return METATUNE_BAD_NEST;
    for (i = 0; i < nest->n_axes; i++)
        if (nest->axis[i].extent < 1 || nest->axis[i].kind < 0 ||
            nest->axis[i].kind > METATUNE_AXIS_REDUCTION)
            return METATUNE_BAD_NEST;
    for (i = 0; i < nest->n_tensors; i++) {
        const metatune_encode_tensor *t = &nest->tensor[i];
        uint32_t mask = 0;
        if (t->elem_bytes < 1 || t->elem_bytes > 16 || t->n_dims < 1 ||
            t->n_dims > METATUNE_ENCODE_MAX_DIMS || t->role < 0 ||
            t->role > METATUNE_ROLE_TEMP || t->scope < 0 ||
            t->scope > METATUNE_SCOPE_PRIVATE)
            return METATUNE_BAD_NEST;
        for (j = 0; j < t->n_dims; j++) {
            const metatune_encode_dim *d = &t->dim[j];
            if (d->extent < 1 || d->pad < 0 || d->block < 0 ||
                d->n_terms < 0 || d->n_terms > METATUNE_ENCODE_MAX_TERMS ||
                !(d->stride >= 0 && d->stride < MTI_ENC_HUGE) ||
                !(d->stride_block >= 0 && d->stride_block < MTI_ENC_HUGE))
                return METATUNE_BAD_NEST;
            for (k = 0; k < d->n_terms; k++) {
                if (d->axis[k] < 0 || d->axis[k] >= nest->n_axes ||
                    d->coef[k] < 1)
                    return METATUNE_BAD_NEST;
                mask |= (uint32_t)1 << d->axis[k];
            }
        }
        if (mask != t->axis_mask)
            return METATUNE_BAD_NEST;
    }
    for (i = 0; i < nest->n_loops; i++) {
        const metatune_encode_loop *l = &nest->loop[i];
        if (l->axis < 0 || l->axis >= nest->n_axes || l->step < 1 ||
            l->trip < 1 || l->parent < -1 || l->parent >= i || l->slot < 0 ||
            l->kind < 0 || l->kind > METATUNE_LOOP_TENSOR)
            return METATUNE_BAD_NEST;
    }
    for (i = 0; i < nest->n_stmts; i++) {
        const metatune_encode_stmt *s = &nest->stmt[i];
        if (s->parent < -1 || s->parent >= nest->n_loops || s->slot < 0 ||
            s->count < 1 || s->kind < 0 || s->kind > METATUNE_STMT_CALL ||
            s->n_tensors < 0 || s->n_tensors > 3)
            return METATUNE_BAD_NEST;
        for (j = 0; j < s->n_tensors; j++)
            if (s->tensor[j] < 0 || s->tensor[j] >= nest->n_tensors)
                return METATUNE_BAD_NEST;
    }
    for (i = 0; i < nest->n_copies; i++) {
        const metatune_encode_copy *c = &nest->copy[i];
        if (c->tensor < 0 || c->tensor >= nest->n_tensors ||
            c->parent < -1 || c->parent >= nest->n_loops || c->slot < 0 ||
            c->scope < 0 || c->scope > METATUNE_SCOPE_PRIVATE)
            return METATUNE_BAD_NEST;
    }
    return METATUNE_OK;
}

/* ------------------------------------------------- derived quantities */

static int32_t mti_enc_gcd(int32_t a, int32_t b)
{
    while (b) {
        int32_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* Distinct values of a i + b j, 0 <= i < m, 0 <= j < n. With a, b divided by
   their gcd, (i, j) and (i - b, j + a) give the same value, and each value is
   counted once at the pair that has no such predecessor:
   m n - max(0, m - b) max(0, n - a). */
static double mti_enc_pair_count(int32_t a, int32_t b, double m, double n)
{
    if (a != 1 && b != 1) {
        int32_t g = mti_enc_gcd(a, b);
        a /= g;
        b /= g;
    }
    return m * n - mti_enc_max(0, m - b) * mti_enc_max(0, n - a);
}

/* Values an axis takes below some loop: how many, and the largest. They are
   dense (0..reach) when reach < count. */
typedef struct mti_enc_span {
    double count, reach;
} mti_enc_span;

/* Distinct indices of a dimension when axis i takes the values of span[i]. */
static double mti_enc_dim_count(const metatune_encode_dim *d,
                                const mti_enc_span *span)
{
    double count = 1;
    if (d->n_terms == 1) {
        count = span[d->axis[0]].count;
    } else if (d->n_terms == 2 &&
               span[d->axis[0]].reach < span[d->axis[0]].count &&
               span[d->axis[1]].reach < span[d->axis[1]].count) {
        count = mti_enc_pair_count(d->coef[0], d->coef[1],
                                   span[d->axis[0]].count,
                                   span[d->axis[1]].count);
    } else if (d->n_terms > 1) { /* an upper bound: product, or full range */
        double range = 1;
        int32_t i;
        for (i = 0; i < d->n_terms; i++) {
            count *= span[d->axis[i]].count;
            range += d->coef[i] * span[d->axis[i]].reach;
        }
        count = mti_enc_min(count, range);
    }
    return mti_enc_min(count, d->extent);
}

static double mti_enc_tensor_count(const metatune_encode_tensor *t,
                                   const mti_enc_span *span)
{
    double count = 1;
    int32_t i;
    for (i = 0; i < t->n_dims; i++)
        count *= mti_enc_dim_count(&t->dim[i], span);
    return count;
}

static void mti_enc_span_reset(const metatune_encode_nest *nest,
                               mti_enc_span *span)
{
    int32_t i;
    for (i = 0; i < nest->n_axes; i++) {
        span[i].count = 1;
        span[i].reach = 0;
    }
}

/* span of the loop's axis once the loop is added around what is below: a
   dense run grows by at most a step; where there are holes, each iteration
   may bring only new values. */
static void mti_enc_span_grow(const metatune_encode_nest *nest,
                              const metatune_encode_loop *l,
                              mti_enc_span *span)
{
    mti_enc_span *s = &span[l->axis];
    double more = l->trip - 1, extent = nest->axis[l->axis].extent;
    int dense = s->reach < s->count;
    s->count += more * (dense ? mti_enc_min(l->step, s->count) : s->count);
    s->reach = mti_enc_min(s->reach + more * l->step, extent - 1);
    s->count = mti_enc_min(s->count, s->reach + 1);
}

/* Elements the tensor's address moves when `axis` moves by step. */
static double mti_enc_stride(const metatune_encode_tensor *t, int32_t axis,
                             int32_t step)
{
    double move = 0, row_major = 1;
    int32_t i, j;
    if (!(t->axis_mask & ((uint32_t)1 << axis)))
        return 0;
    for (i = t->n_dims - 1; i >= 0; i--) {
        const metatune_encode_dim *d = &t->dim[i];
        double stride = d->stride > 0 ? d->stride : row_major;
        int64_t delta = 0; /* of the index; three products of 2^62 could
                              pass 2^63, so each is cut */
        row_major *= d->extent;
        for (j = 0; j < d->n_terms; j++)
            if (d->axis[j] == axis) {
                int64_t add = (int64_t)d->coef[j] * step;
                delta += add < INT64_MAX / 4 ? add : INT64_MAX / 4;
            }
        if (!delta)
            continue;
        if (d->block > 1)
            move += (double)(delta / d->block) * d->stride_block +
                    (double)(delta % d->block) * stride;
        else
            move += (double)delta * stride;
    }
    return mti_enc_min(move, MTI_ENC_HUGE);
}

METATUNE_API metatune_status
metatune_encode_access_derive(const metatune_encode_nest *nest, int32_t loop,
                              int32_t tensor, metatune_encode_access *out)
{
    mti_enc_span span[METATUNE_ENCODE_MAX_AXES];
    int32_t i, j, l;
    metatune_status st = metatune_encode_nest_check(nest);
    if (st)
        return st;
    if (!out || loop < -1 || loop >= nest->n_loops || tensor < 0 ||
        tensor >= nest->n_tensors)
        return METATUNE_BAD_ARG;
    memset(out, 0, sizeof *out);
    for (i = 0; i < nest->n_stmts; i++) {
        const metatune_encode_stmt *s = &nest->stmt[i];
        double times = s->count;
        for (j = 0; j < s->n_tensors && s->tensor[j] != tensor; j++) {}
        if (j == s->n_tensors)
            continue;
        mti_enc_span_reset(nest, span);
        for (l = s->parent; l >= 0; l = nest->loop[l].parent) {
            mti_enc_span_grow(nest, &nest->loop[l], span);
            times = mti_enc_min(times * nest->loop[l].trip, MTI_ENC_HUGE);
            if (l == loop)
                break;
        }
        if (l != loop)
            continue; /* the statement is not below that loop */
        out->touches += times;
        out->unique = mti_enc_max(
            out->unique,
            mti_enc_min(
                times, mti_enc_tensor_count(&nest->tensor[tensor], span)));
    }
    out->bytes = out->unique * nest->tensor[tensor].elem_bytes;
    out->reuse = out->unique > 0 ? out->touches / out->unique : 0;
    if (loop >= 0)
        out->stride = mti_enc_stride(&nest->tensor[tensor],
                                     nest->loop[loop].axis,
                                     nest->loop[loop].step);
    return METATUNE_OK;
}

/* One pass over every access: foot[(loop + 1) * T + tensor] becomes bytes
   touched below the loop (row 0: the kernel). When x is given, the raw unique
   bytes and touches of role columns go into its rows, too; node says which
   row a loop has. Spans grow as the walk goes up, and only a tensor that the
   loop's axis indexes is counted anew. */
static void mti_enc_walk(const metatune_encode_nest *nest, metatune_real *x,
                         int by_slot)
{
    float *foot = nest->foot;
    mti_enc_span span[METATUNE_ENCODE_MAX_AXES];
    int32_t i, j, l, T = nest->cap_tensors;
    memset(foot, 0, (size_t)(nest->n_loops + 1) * (size_t)T * sizeof *foot);
    for (i = 0; i < nest->n_stmts; i++) {
        const metatune_encode_stmt *s = &nest->stmt[i];
        for (j = 0; j < s->n_tensors; j++) {
            int32_t id = s->tensor[j];
            const metatune_encode_tensor *t = &nest->tensor[id];
            double count[METATUNE_ENCODE_MAX_DIMS];
            double unique = 1, times = s->count;
            int32_t d;
            for (d = 0; d < t->n_dims; d++)
                count[d] = 1;
            mti_enc_span_reset(nest, span);
            for (l = s->parent;; l = nest->loop[l].parent) {
                float *f = &foot[(l + 1) * T + id];
                float bytes;
                if (l >= 0) {
                    const metatune_encode_loop *loop = &nest->loop[l];
                    times = mti_enc_min(times * loop->trip, MTI_ENC_HUGE);
                    if (t->axis_mask & ((uint32_t)1 << loop->axis)) {
                        mti_enc_span_grow(nest, loop, span);
                        unique = 1;
                        for (d = 0; d < t->n_dims; d++) {
                            const metatune_encode_dim *dim = &t->dim[d];
                            int32_t k;
                            for (k = 0; k < dim->n_terms; k++)
                                if (dim->axis[k] == loop->axis) {
                                    count[d] = mti_enc_dim_count(dim, span);
                                    break;
                                }
                            unique *= count[d];
                        }
                    }
                }
                bytes = (float)(mti_enc_min(unique, times) * t->elem_bytes);
                if (bytes > *f)
                    *f = bytes;
                if (x && l >= 0 && t->role < METATUNE_ROLE_TEMP) {
                    int32_t v = by_slot ? nest->loop[l].slot : l + 1;
                    metatune_real *row =
                        x + (size_t)v * METATUNE_ENCODE_NODE_FEATURES + 19 +
                        3 * t->role;
                    if ((metatune_real)bytes > row[0])
                        row[0] = (metatune_real)bytes;
                    if (!(row[1] > 0)) /* every access of it moves alike */
                        row[2] = (metatune_real)mti_enc_stride(
                            t, nest->loop[l].axis, nest->loop[l].step);
                    row[1] += (metatune_real)(times * t->elem_bytes);
                }
                if (l < 0)
                    break;
            }
        }
    }
}

/* Bytes of all tensors below loop l (-1: the kernel). */
static double mti_enc_foot(const metatune_encode_nest *nest, int32_t l)
{
    const float *f =
        nest->foot + (size_t)(l + 1) * (size_t)nest->cap_tensors;
    double sum = 0;
    int32_t i;
    for (i = 0; i < nest->n_tensors; i++)
        sum += (double)f[i];
    return sum;
}

/* Bytes that cross into a cache of `cap` bytes while the statement's loops
   run. The outermost loop whose footprint fits is loaded once an execution;
   a tensor that the loops right around it do not index stays for those. */
static double mti_enc_traffic(const metatune_encode_nest *nest, int32_t stmt,
                              double cap)
{
    int32_t l = nest->stmt[stmt].parent, fit = -2, i, up;
    double sum = 0;
    for (; l >= -1; l = l < 0 ? -2 : nest->loop[l].parent) {
        if (mti_enc_foot(nest, l) > cap)
            break;
        fit = l;
    }
    if (fit == -2)
        fit = nest->stmt[stmt].parent; /* not even one iteration fits */
    for (i = 0; i < nest->n_tensors; i++) {
        double times = 1;
        int held = 1;
        uint32_t mask = nest->tensor[i].axis_mask;
        up = fit < 0 ? -1 : nest->loop[fit].parent;
        for (; up >= 0; up = nest->loop[up].parent) {
            if (mask & ((uint32_t)1 << nest->loop[up].axis))
                held = 0;
            if (!held)
                times = mti_enc_min(times * nest->loop[up].trip,
                                    MTI_ENC_HUGE);
        }
        sum += times * (double)nest->foot[(size_t)(fit + 1) *
                                          (size_t)nest->cap_tensors +
                                          (size_t)i];
    }
    return sum;
}

/* Numbers assumed where the device is unknown: a middling core. */
typedef struct mti_enc_machine {
    double cores, lanes, vregs, l1, l2, l3, freq, bandwidth;
} mti_enc_machine;

static double mti_enc_or(double x, double fallback)
{
    return x > 1e-9 && x < MTI_ENC_HUGE ? x : fallback;
}

/* A device as this version's struct: what an older caller's shorter one does
   not have reads as unknown. */
static metatune_encode_device
mti_enc_device_get(const metatune_encode_device *device)
{
    metatune_encode_device d;
    memset(&d, 0, sizeof d);
    if (device && device->size >= sizeof d.size) {
        size_t n = device->size < sizeof d ? device->size : sizeof d;
        memcpy(&d, device, n);
    }
    return d;
}

static mti_enc_machine mti_enc_machine_get(const metatune_encode_device *d)
{
    mti_enc_machine m;
    m.cores = mti_enc_or(d->cores, 1);
    m.lanes = mti_enc_or(d->lanes, 8);
    m.vregs = mti_enc_or(d->vregs, 16);
    m.l1 = mti_enc_or(d->l1_bytes, 32768);
    m.l2 = mti_enc_or(d->l2_bytes, 1048576);
    m.l3 = mti_enc_or(d->l3_bytes, 8388608);
    m.freq = mti_enc_or(d->freq_hz, 3e9);
    m.bandwidth = mti_enc_or(d->bandwidth, 1e10);
    return m;
}

static void mti_enc_totals(const metatune_encode_nest *nest,
                           const mti_enc_machine *m,
                           metatune_encode_totals *o)
{
    double needed = 0, executed = 0, fma_body = 0, load_body = 0;
    double vector = 1, parallel = 1, mem = 0, compute, per_fma;
    int32_t i, l, deepest = -1, main_stmt = -1;
    double deepest_work = -1;
    memset(o, 0, sizeof *o);
    for (i = 0; i < nest->n_stmts; i++) {
        const metatune_encode_stmt *s = &nest->stmt[i];
        double times = 1, body = 1, accs = 1, need = 1, vec = 1, par = 1;
        uint32_t seen = 0;
        int arith = s->kind == METATUNE_STMT_FMA ||
                    s->kind == METATUNE_STMT_ARITH;
        for (l = s->parent; l >= 0; l = nest->loop[l].parent) {
            const metatune_encode_loop *loop = &nest->loop[l];
            const metatune_encode_axis *a = &nest->axis[loop->axis];
            times = mti_enc_min(times * loop->trip, MTI_ENC_HUGE);
            if (!(seen & ((uint32_t)1 << loop->axis)))
                need *= a->extent;
            seen |= (uint32_t)1 << loop->axis;
            if (loop->kind == METATUNE_LOOP_UNROLL) {
                body = mti_enc_min(body * loop->trip, MTI_ENC_HUGE);
                if (a->kind == METATUNE_AXIS_SPATIAL)
                    accs = body < MTI_ENC_HUGE ? accs * loop->trip : accs;
            } else if (loop->kind == METATUNE_LOOP_VECTOR) {
                vec = mti_enc_min(vec * loop->trip, MTI_ENC_HUGE);
            } else if (loop->kind == METATUNE_LOOP_PARALLEL ||
                       loop->kind == METATUNE_LOOP_BLOCK) {
                par = mti_enc_min(par * loop->trip, MTI_ENC_HUGE);
            }
        }
        o->unrolled += body * s->count;
        if (s->kind == METATUNE_STMT_LOAD)
            load_body += body * s->count;
        if (!arith)
            continue;
        o->flop += times * s->count * (s->kind == METATUNE_STMT_FMA ? 2 : 1);
        executed += times;
        needed += need;
        parallel = mti_enc_max(parallel, par);
        fma_body += body * s->count;
        if (times > deepest_work) { /* the statement that dominates */
            deepest_work = times;
            deepest = s->parent;
            main_stmt = i;
            vector = vec;
            o->accumulators = accs;
        }
    }
    if (main_stmt < 0 && nest->n_stmts) { /* a pure copy */
        main_stmt = nest->n_stmts - 1;
        deepest = nest->stmt[main_stmt].parent;
    }
    o->waste = needed > 0 ? mti_enc_max(1, executed / needed) : 1;
    o->chunks = parallel;
    {
        double used = mti_enc_min(parallel, m->cores);
        double rounds = (parallel + used - 1) / used;
        if (rounds < 1e15) /* beyond, rounding down changes nothing */
            rounds = (double)(int64_t)rounds;
        o->imbalance = rounds * used / parallel;
    }
    o->vector_fill = mti_enc_min(4, vector / m->lanes);
    o->accumulators = mti_enc_max(1, o->accumulators) *
                      mti_enc_max(1, vector / m->lanes);
    o->loads_per_fma = fma_body > 0 ? load_body / fma_body : 0;
    o->bytes_min = mti_enc_foot(nest, -1);
    if (main_stmt >= 0) {
        o->bytes_l1 = mti_enc_traffic(nest, main_stmt, m->l1 * 0.75);
        o->bytes_l2 = mti_enc_traffic(nest, main_stmt, m->l2 * 0.75);
        o->bytes_l3 = mti_enc_traffic(nest, main_stmt, m->l3 * 0.75);
        for (i = 0, l = deepest; l >= 0; l = nest->loop[l].parent) {
            o->foot_inner = mti_enc_foot(nest, l);
            if (nest->loop[l].kind == METATUNE_LOOP_SERIAL && ++i == 2)
                break;
        }
    }
    /* Two FMA ports, latency 4 hidden by accumulators, two load ports; an
       unrolled tile beyond the registers spills. Streaming: 48, 16 bytes a
       cycle into L1, L2; DRAM as the device says. */
    per_fma = mti_enc_max(0.5, 4 / o->accumulators);
    per_fma = mti_enc_max(per_fma, 0.5 * o->loads_per_fma);
    if (o->accumulators > m->vregs)
        per_fma *= 1.5;
    {
        double used = mti_enc_min(m->lanes, vector);
        double instr = o->flop / (2 * mti_enc_max(1, used));
        double speed = m->freq * mti_enc_min(parallel, m->cores);
        compute = instr * per_fma * o->imbalance / speed;
        mem = o->bytes_l1 / (48 * speed);
        mem = mti_enc_max(mem, o->bytes_l2 / (16 * speed));
        mem = mti_enc_max(mem, o->bytes_l3 / m->bandwidth);
    }
    /* never 0: a kernel takes at least about a hundred cycles to start */
    o->t0_s = mti_enc_max(mti_enc_max(compute, mem), 100 / m->freq);
}

METATUNE_API metatune_status
metatune_encode_totals_derive(const metatune_encode_nest *nest,
                              const struct metatune_encode_device *device,
                              metatune_encode_totals *out)
{
    metatune_encode_device d;
    mti_enc_machine m;
    metatune_status st = metatune_encode_nest_check(nest);
    if (st)
        return st;
    if (!out)
        return METATUNE_BAD_ARG;
    d = mti_enc_device_get(device);
    m = mti_enc_machine_get(&d);
    mti_enc_walk(nest, NULL, 0);
    mti_enc_totals(nest, &m, out);
    return METATUNE_OK;
}

/* ----------------------------------------------------------- topology */

/* Items are numbered root 0, loops, statements, copies. */
static int32_t mti_enc_item_parent(const metatune_encode_nest *nest,
                                   int32_t item)
{
    int32_t i = item - 1;
    if (i < 0)
        return -2;
    if (i < nest->n_loops)
        return nest->loop[i].parent;
    i -= nest->n_loops;
    if (i < nest->n_stmts)
        return nest->stmt[i].parent;
    return nest->copy[i - nest->n_stmts].parent;
}

static int32_t mti_enc_item_slot(const metatune_encode_nest *nest,
                                 int32_t item)
{
    int32_t i = item - 1;
    if (i < 0)
        return 0;
    if (i < nest->n_loops)
        return nest->loop[i].slot;
    i -= nest->n_loops;
    if (i < nest->n_stmts)
        return nest->stmt[i].slot;
    return nest->copy[i - nest->n_stmts].slot;
}

/* loop l encloses the item */
static int mti_enc_item_below(const metatune_encode_nest *nest, int32_t item,
                              int32_t l)
{
    int32_t p = mti_enc_item_parent(nest, item);
    while (p >= 0 && p != l)
        p = nest->loop[p].parent;
    return p == l;
}

static uint32_t mti_enc_stmt_mask(const metatune_encode_nest *nest,
                                  const metatune_encode_stmt *s)
{
    uint32_t mask = 0;
    int32_t i;
    for (i = 0; i < s->n_tensors; i++)
        mask |= nest->tensor[s->tensor[i]].axis_mask;
    return mask;
}

static int mti_enc_stmt_arith(const metatune_encode_stmt *s)
{
    return s->kind >= METATUNE_STMT_FMA;
}

/* Statement a feeds statement b: the next arithmetic after a load, the next
   store after arithmetic, in the order given. */
static int mti_enc_stmt_feeds(const metatune_encode_nest *nest, int32_t a,
                              int32_t b)
{
    int32_t i;
    const metatune_encode_stmt *s = nest->stmt;
    if (a >= b)
        return 0;
    if (s[a].kind == METATUNE_STMT_LOAD && mti_enc_stmt_arith(&s[b])) {
        for (i = a + 1; i < b; i++)
            if (mti_enc_stmt_arith(&s[i]))
                return 0;
        return 1;
    }
    if (mti_enc_stmt_arith(&s[a]) && s[b].kind == METATUNE_STMT_STORE) {
        for (i = a + 1; i < b; i++)
            if (mti_enc_stmt_arith(&s[i]))
                return 0;
        return 1;
    }
    return 0;
}

/* One direction of the edge relation; the graph takes both. */
static int mti_enc_item_edge(const metatune_encode_nest *nest, int32_t a,
                             int32_t b)
{
    int32_t pb = mti_enc_item_parent(nest, b);
    int32_t n_loops = nest->n_loops, n_stmts = nest->n_stmts;
    int a_loop = a >= 1 && a <= n_loops, b_loop = b >= 1 && b <= n_loops;
    int a_stmt = a > n_loops && a <= n_loops + n_stmts;
    int b_stmt = b > n_loops && b <= n_loops + n_stmts;
    if (b == 0)
        return 0;
    if (pb == a - 1) /* nest; the root is loop -1 */
        return 1;
    if (a_loop && b_loop && nest->loop[a - 1].axis == nest->loop[b - 1].axis) {
        int32_t p = pb; /* same-axis split: the nearest enclosing one */
        while (p >= 0 && nest->loop[p].axis != nest->loop[b - 1].axis)
            p = nest->loop[p].parent;
        return p == a - 1;
    }
    if (a_loop && b_stmt) { /* touch */
        const metatune_encode_stmt *s = &nest->stmt[b - 1 - n_loops];
        uint32_t bit = (uint32_t)1 << nest->loop[a - 1].axis;
        return (mti_enc_stmt_mask(nest, s) & bit) != 0 &&
               mti_enc_item_below(nest, b, a - 1);
    }
    if (a_stmt && b_stmt)
        return mti_enc_stmt_feeds(nest, a - 1 - n_loops, b - 1 - n_loops);
    if (a > n_loops + n_stmts && b_stmt) { /* copy feeds its loads */
        const metatune_encode_copy *c = &nest->copy[a - 1 - n_loops - n_stmts];
        const metatune_encode_stmt *s = &nest->stmt[b - 1 - n_loops];
        int32_t i;
        if (s->kind != METATUNE_STMT_LOAD)
            return 0;
        for (i = 0; i < s->n_tensors; i++)
            if (s->tensor[i] == c->tensor)
                return 1;
    }
    return 0;
}

/* CSR of the nest's items; node = item in plain mode, slot in a skeleton. */
static metatune_status mti_enc_edges_fill(const metatune_encode_nest *nest,
                                          int by_slot, int32_t n_nodes,
                                          int32_t cap_edges, uint16_t *row,
                                          uint16_t *col)
{
    int32_t items = mti_enc_nest_nodes(nest), n = 0, v, a, b;
    for (v = 0; v < n_nodes; v++) {
        row[v] = (uint16_t)n;
        a = v;
        if (by_slot) /* slots are dense, checked by the caller */
            for (a = 0; mti_enc_item_slot(nest, a) != v; a++) {}
        for (b = 0; b < items; b++) {
            if (a == b || !(mti_enc_item_edge(nest, a, b) ||
                            mti_enc_item_edge(nest, b, a)))
                continue;
            if (n >= cap_edges)
                return METATUNE_CAPACITY;
            col[n++] = (uint16_t)(by_slot ? mti_enc_item_slot(nest, b) : b);
        }
    }
    row[n_nodes] = (uint16_t)n;
    return METATUNE_OK;
}

typedef struct mti_enc_skeleton_layout {
    size_t row, col, bytes;
    int32_t cap_nodes, cap_edges;
} mti_enc_skeleton_layout;

static metatune_status mti_enc_skeleton_plan(const metatune_encode_config *cfg,
                                             mti_enc_skeleton_layout *l)
{
    metatune_status st = mti_enc_config(cfg, &l->cap_nodes, &l->cap_edges);
    if (st)
        return st;
    l->bytes = 0;
    l->row = mti_enc_block(&l->bytes, (size_t)l->cap_nodes + 1,
                           sizeof(uint16_t));
    l->col = mti_enc_block(&l->bytes, (size_t)l->cap_edges, sizeof(uint16_t));
    return METATUNE_OK;
}

METATUNE_API size_t
metatune_encode_skeleton_memsize(const metatune_encode_config *cfg)
{
    mti_enc_skeleton_layout l;
    return mti_enc_skeleton_plan(cfg, &l) ? 0 : l.bytes;
}

METATUNE_API metatune_status
metatune_encode_skeleton_init(metatune_encode_skeleton *skeleton,
                              const metatune_encode_config *cfg, void *mem,
                              size_t bytes)
{
    mti_enc_skeleton_layout l;
    metatune_status st = mti_enc_skeleton_plan(cfg, &l);
    if (st)
        return st;
    if (!skeleton)
        return METATUNE_BAD_ARG;
    st = mti_enc_block_check(mem, bytes, l.bytes);
    if (st)
        return st;
    memset(skeleton, 0, sizeof *skeleton);
    skeleton->cap_nodes = l.cap_nodes;
    skeleton->cap_edges = l.cap_edges;
    skeleton->row = (uint16_t *)(void *)((char *)mem + l.row);
    skeleton->col = (uint16_t *)(void *)((char *)mem + l.col);
    return METATUNE_OK;
}

METATUNE_API metatune_status
metatune_encode_skeleton_build(metatune_encode_skeleton *skeleton,
                               const metatune_encode_nest *canonical)
{
    int32_t items, i, j;
    metatune_status st = metatune_encode_nest_check(canonical);
    if (st)
        return st;
    if (!skeleton)
        return METATUNE_BAD_ARG;
    items = mti_enc_nest_nodes(canonical);
    if (items > skeleton->cap_nodes)
        return METATUNE_CAPACITY;
    for (i = 0; i < items; i++) { /* every slot 0..items-1 exactly once */
        if (mti_enc_item_slot(canonical, i) >= items)
            return METATUNE_BAD_NEST;
        for (j = 0; j < i; j++)
            if (mti_enc_item_slot(canonical, i) ==
                mti_enc_item_slot(canonical, j))
                return METATUNE_BAD_NEST;
    }
    st = mti_enc_edges_fill(canonical, 1, items, skeleton->cap_edges,
                            skeleton->row, skeleton->col);
    if (st)
        return st;
    skeleton->n_nodes = items;
    skeleton->n_edges = skeleton->row[items];
    return METATUNE_OK;
}

/* -------------------------------------------------------------- graph */

typedef struct mti_enc_graph_layout {
    size_t row, col, present, x, bytes;
    int32_t cap_nodes, cap_edges;
} mti_enc_graph_layout;

static metatune_status mti_enc_graph_plan(const metatune_encode_config *cfg,
                                          mti_enc_graph_layout *l)
{
    metatune_status st = mti_enc_config(cfg, &l->cap_nodes, &l->cap_edges);
    size_t n;
    if (st)
        return st;
    n = (size_t)l->cap_nodes;
    l->bytes = 0;
    l->x = mti_enc_block(&l->bytes, n * METATUNE_ENCODE_NODE_FEATURES,
                         sizeof(metatune_real));
    l->row = mti_enc_block(&l->bytes, n + 1, sizeof(uint16_t));
    l->col = mti_enc_block(&l->bytes, (size_t)l->cap_edges, sizeof(uint16_t));
    l->present = mti_enc_block(&l->bytes, n, 1);
    return METATUNE_OK;
}

METATUNE_API size_t
metatune_encode_graph_memsize(const metatune_encode_config *cfg)
{
    mti_enc_graph_layout l;
    return mti_enc_graph_plan(cfg, &l) ? 0 : l.bytes;
}

METATUNE_API metatune_status
metatune_encode_graph_init(metatune_encode_graph *graph,
                           const metatune_encode_config *cfg, void *mem,
                           size_t bytes)
{
    mti_enc_graph_layout l;
    char *base = (char *)mem;
    metatune_status st = mti_enc_graph_plan(cfg, &l);
    if (st)
        return st;
    if (!graph)
        return METATUNE_BAD_ARG;
    st = mti_enc_block_check(mem, bytes, l.bytes);
    if (st)
        return st;
    memset(graph, 0, sizeof *graph);
    graph->cap_nodes = l.cap_nodes;
    graph->cap_edges = l.cap_edges;
    graph->skeleton = -1;
    graph->x = (metatune_real *)(void *)(base + l.x);
    graph->own_row = (uint16_t *)(void *)(base + l.row);
    graph->own_col = (uint16_t *)(void *)(base + l.col);
    graph->present = (unsigned char *)(base + l.present);
    return METATUNE_OK;
}

METATUNE_API void
metatune_encode_device_row(const metatune_encode_device *device,
                           metatune_real *row)
{
    metatune_encode_device d = mti_enc_device_get(device);
    int i;
    memset(row, 0, METATUNE_ENCODE_DEVICE_FEATURES * sizeof *row);
    row[0] = (metatune_real)(mti_enc_log2p(d.cores) / 3);
    row[1] = (metatune_real)(mti_enc_log2p(d.lanes) / 3);
    row[2] = (metatune_real)(mti_enc_log2p(d.vregs) / 4);
    if (d.l1_bytes > 0)
        row[3] = (metatune_real)((mti_enc_log2(d.l1_bytes) - 15) / 3);
    if (d.l2_bytes > 0)
        row[4] = (metatune_real)((mti_enc_log2(d.l2_bytes) - 20) / 3);
    if (d.l3_bytes > 0)
        row[5] = (metatune_real)((mti_enc_log2(d.l3_bytes) - 24) / 4);
    if (d.bandwidth > 0)
        row[6] = (metatune_real)((mti_enc_log2(d.bandwidth) - 33) / 4);
    if (d.freq_hz > 0)
        row[7] = (metatune_real)((mti_enc_log2(d.freq_hz) - 31) / 4);
    for (i = 0; i < METATUNE_ENCODE_PROBES; i++) {
        double p = d.probe[i] / 2; /* NaN: as if not probed */
        if (p > -2 && p < 2)
            row[8 + i] = (metatune_real)p;
        else if (p > 0)
            row[8 + i] = 2;
        else if (p < 0)
            row[8 + i] = -2;
    }
}

/* Node feature columns, each about -2..2:
    0      present
    1      log2 trip / 4           2  log2 step / 4       3  depth / 6
    4, 5   log2 iterations from the root down, and below / 10
    6      reduction axis          7  tail waste, log2 * 2, up to 4
    8..14  root, loop, load, store, arithmetic, select or call, copy
    15..18 parallel, vector, unroll, gpu or tensorised
    19 + 3 role + {0, 1, 2}: log2 unique bytes below / 10, log2 reuse / 8,
           log2 (1 + stride) / 8 */
#define MTI_ENC_F METATUNE_ENCODE_NODE_FEATURES

static void mti_enc_graph_loops(const metatune_encode_nest *nest,
                                metatune_real *x, int by_slot)
{
    int32_t i, r;
    for (i = 0; i < nest->n_loops; i++) {
        const metatune_encode_loop *l = &nest->loop[i];
        metatune_real *row = x + (by_slot ? l->slot : i + 1) * MTI_ENC_F;
        const metatune_real *up = x; /* the root's row: zeros */
        double cover = (double)l->trip * l->step;
        int32_t p = l->parent, span = nest->axis[l->axis].extent;
        if (p >= 0)
            up = x + (by_slot ? nest->loop[p].slot : p + 1) * MTI_ENC_F;
        row[1] = (metatune_real)mti_enc_log2(l->trip);
        row[2] = (metatune_real)(mti_enc_log2(l->step) / 4);
        row[3] = up[3] + (metatune_real)(1.0f / 6);
        row[4] = up[4] + row[1];
        row[5] = row[1]; /* children add theirs below */
        row[6] = (metatune_real)nest->axis[l->axis].kind;
        for (; p >= 0; p = nest->loop[p].parent)
            if (nest->loop[p].axis == l->axis) {
                if (nest->loop[p].step < span)
                    span = nest->loop[p].step;
                break;
            }
        row[7] = (metatune_real)mti_enc_min(
            4, (double)(2 * mti_enc_log2p(cover / span)));
        row[9] = 1;
        if (l->kind == METATUNE_LOOP_PARALLEL)
            row[15] = 1;
        else if (l->kind == METATUNE_LOOP_VECTOR)
            row[16] = 1;
        else if (l->kind == METATUNE_LOOP_UNROLL)
            row[17] = 1;
        else if (l->kind >= METATUNE_LOOP_BLOCK)
            row[18] = 1;
    }
    /* backward: a parent's product below includes its largest child's */
    for (i = nest->n_loops - 1; i >= 0; i--) {
        const metatune_encode_loop *l = &nest->loop[i];
        metatune_real *row = x + (by_slot ? l->slot : i + 1) * MTI_ENC_F;
        int32_t p = l->parent;
        metatune_real below = row[5];
        if (p >= 0) {
            metatune_real *up =
                x + (by_slot ? nest->loop[p].slot : p + 1) * MTI_ENC_F;
            metatune_real with = up[1] + below;
            if (with > up[5])
                up[5] = with;
        } else if (below > x[5]) {
            x[5] = below;
        }
        for (r = 19; r < 28; r += 3) {
            float unique = mti_enc_log2p((double)row[r]);
            float touched = mti_enc_log2p((double)row[r + 1]);
            row[r] = (metatune_real)(unique / 10);
            row[r + 1] = (metatune_real)((touched - unique) / 8);
            row[r + 2] = (metatune_real)(
                mti_enc_log2p(1 + (double)row[r + 2]) / 8);
        }
    }
    x[5] /= 10;
    for (i = 0; i < nest->n_loops; i++) {
        metatune_real *row =
            x + (by_slot ? nest->loop[i].slot : i + 1) * MTI_ENC_F;
        row[1] /= 4;
        row[4] /= 10;
        row[5] /= 10;
    }
}

static void mti_enc_graph_leaves(const metatune_encode_nest *nest,
                                 metatune_real *x, int by_slot)
{
    int32_t i, j, item = 1 + nest->n_loops;
    for (i = 0; i < nest->n_stmts; i++, item++) {
        const metatune_encode_stmt *s = &nest->stmt[i];
        metatune_real *row = x + (by_slot ? s->slot : item) * MTI_ENC_F;
        int32_t p = s->parent;
        if (p >= 0) {
            const metatune_real *up =
                x + (by_slot ? nest->loop[p].slot : p + 1) * MTI_ENC_F;
            row[3] = up[3] + (metatune_real)(1.0f / 6);
            row[4] = up[4];
        }
        row[1] = (metatune_real)(mti_enc_log2(s->count) / 4);
        if (s->kind == METATUNE_STMT_LOAD)
            row[10] = 1;
        else if (s->kind == METATUNE_STMT_STORE)
            row[11] = 1;
        else if (s->kind <= METATUNE_STMT_ARITH)
            row[12] = 1;
        else
            row[13] = 1;
        for (j = 0; j < s->n_tensors; j++) {
            const metatune_encode_tensor *t = &nest->tensor[s->tensor[j]];
            metatune_real *c = row + 19 + 3 * t->role;
            if (t->role >= METATUNE_ROLE_TEMP)
                continue;
            c[0] = (metatune_real)(mti_enc_log2p(t->elem_bytes) / 10);
            if (p >= 0)
                c[2] = (metatune_real)(
                    mti_enc_log2p(1 + mti_enc_stride(t, nest->loop[p].axis,
                                                     nest->loop[p].step)) /
                    8);
        }
    }
    for (i = 0; i < nest->n_copies; i++, item++) {
        const metatune_encode_copy *c = &nest->copy[i];
        metatune_real *row = x + (by_slot ? c->slot : item) * MTI_ENC_F;
        const metatune_encode_tensor *t = &nest->tensor[c->tensor];
        double bytes = (double)nest->foot[(c->parent + 1) *
                                          nest->cap_tensors +
                                          c->tensor];
        if (c->parent >= 0) {
            int32_t p = c->parent;
            const metatune_real *up =
                x + (by_slot ? nest->loop[p].slot : p + 1) * MTI_ENC_F;
            row[3] = up[3] + (metatune_real)(1.0f / 6);
            row[4] = up[4];
        }
        row[2] = (metatune_real)((float)c->scope / 2);
        row[14] = 1;
        if (t->role < METATUNE_ROLE_TEMP)
            row[19 + 3 * t->role] =
                (metatune_real)(mti_enc_log2p(bytes) / 10);
    }
}

/* Global columns, each about -2..2 and cut at 4, so that a freak setting does
   not drown the others; see RECIPE section 2. */
static void mti_enc_graph_global(const metatune_encode_nest *nest,
                                 const mti_enc_machine *m,
                                 const metatune_encode_totals *o,
                                 metatune_real *g)
{
    double flop = mti_enc_max(o->flop, 1), reduction = 1;
    float lf = mti_enc_log2(flop);
    float bytes[4];
    int32_t i;
    bytes[0] = mti_enc_log2p(o->bytes_min);
    bytes[1] = mti_enc_log2p(o->bytes_l1);
    bytes[2] = mti_enc_log2p(o->bytes_l2);
    bytes[3] = mti_enc_log2p(o->bytes_l3);
    for (i = 0; i < nest->n_axes; i++)
        if (nest->axis[i].kind == METATUNE_AXIS_REDUCTION)
            reduction *= nest->axis[i].extent;
    g[0] = (metatune_real)((lf - 26) / 4);
    g[1] = (metatune_real)((bytes[0] - 20) / 4);
    g[2] = (metatune_real)((bytes[1] - 22) / 4);
    g[3] = (metatune_real)((bytes[2] - 21) / 4);
    g[4] = (metatune_real)((bytes[3] - 20) / 4);
    g[5] = (metatune_real)mti_enc_min(2, o->accumulators / m->vregs);
    g[6] = (metatune_real)(mti_enc_log2(o->foot_inner / m->l1) / 4);
    g[7] = (metatune_real)(mti_enc_log2(o->bytes_min / m->l2) / 4);
    for (i = 0; i < 3; i++) /* FLOP a byte: L1, L2, DRAM traffic */
        g[8 + i] = (metatune_real)((lf - bytes[1 + i]) / 4 - 1);
    g[11] = (metatune_real)(-mti_enc_log2(o->loads_per_fma) / 3);
    g[12] = (metatune_real)(mti_enc_log2p(o->chunks) / 4);
    g[13] = (metatune_real)(2 * mti_enc_log2p(o->imbalance));
    g[14] = (metatune_real)mti_enc_min(2, o->vector_fill);
    g[15] = (metatune_real)(mti_enc_log2p(o->unrolled) / 6);
    g[16] = (metatune_real)(mti_enc_log2p(o->accumulators) / 3);
    g[17] = (metatune_real)mti_enc_min(
        2, (double)(4 * mti_enc_log2p(o->waste)));
    g[18] = (metatune_real)((mti_enc_log2(o->t0_s) + 12) / 4);
    g[19] = (metatune_real)((mti_enc_log2p(reduction) - 8) / 4);
    for (i = 0; i < METATUNE_ENCODE_HINTS; i++)
        g[20 + i] = nest->hint[i];
    for (i = 0; i < METATUNE_ENCODE_GLOBAL_FEATURES; i++)
        g[i] = g[i] > 4 ? 4 : g[i] < -4 ? -4 : g[i];
}

METATUNE_API metatune_status
metatune_encode_graph_fill(metatune_encode_graph *graph,
                           const metatune_encode_nest *nest,
                           const metatune_encode_skeleton *skeleton,
                           const metatune_encode_device *device)
{
    metatune_encode_device d;
    metatune_encode_totals totals;
    mti_enc_machine m;
    int32_t items, i, by_slot = skeleton ? 1 : 0;
    metatune_status st = metatune_encode_nest_check(nest);
    if (st)
        return st;
    if (!graph)
        return METATUNE_BAD_ARG;
    items = mti_enc_nest_nodes(nest);
    graph->n_nodes = skeleton ? skeleton->n_nodes : items;
    if (graph->n_nodes > graph->cap_nodes)
        return METATUNE_CAPACITY;
    if (skeleton) {
        graph->skeleton = nest->skeleton;
        graph->row = skeleton->row;
        graph->col = skeleton->col;
    } else {
        graph->skeleton = -1;
        st = mti_enc_edges_fill(nest, 0, items, graph->cap_edges,
                                graph->own_row, graph->own_col);
        if (st)
            return st;
        graph->row = graph->own_row;
        graph->col = graph->own_col;
    }
    memset(graph->present, 0, (size_t)graph->n_nodes);
    memset(graph->x, 0,
           (size_t)graph->n_nodes * MTI_ENC_F * sizeof *graph->x);
    for (i = 0; i < items; i++) {
        int32_t v = by_slot ? mti_enc_item_slot(nest, i) : i;
        if (v >= graph->n_nodes || graph->present[v])
            return METATUNE_BAD_NEST; /* unknown slot, or used twice */
        graph->present[v] = 1;
        graph->x[v * MTI_ENC_F] = 1;
    }
    graph->x[8] = 1; /* the root */
    d = mti_enc_device_get(device);
    m = mti_enc_machine_get(&d);
    mti_enc_walk(nest, graph->x, by_slot);
    mti_enc_graph_loops(nest, graph->x, by_slot);
    mti_enc_graph_leaves(nest, graph->x, by_slot);
    mti_enc_totals(nest, &m, &totals);
    mti_enc_graph_global(nest, &m, &totals, graph->global_row);
    metatune_encode_device_row(device, graph->device_row);
    graph->t0_s = totals.t0_s;
    return METATUNE_OK;
}

/* ------------------------------------------------------------- conv2d */

METATUNE_API int32_t metatune_encode_dtype_bytes(int32_t dtype)
{
    static const unsigned char bytes[7] = {4, 2, 2, 8, 1, 2, 4};
    return dtype >= 0 && dtype < 7 ? bytes[dtype] : 0;
}

METATUNE_API metatune_encode_conv2d
metatune_encode_conv2d_make(int32_t n, int32_t c, int32_t h, int32_t w,
                            int32_t k, int32_t r, int32_t s, int32_t stride,
                            int32_t pad)
{
    metatune_encode_conv2d v;
    memset(&v, 0, sizeof v);
    v.n = n;
    v.c = c;
    v.h = h;
    v.w = w;
    v.k = k;
    v.r = r;
    v.s = s;
    v.stride_h = v.stride_w = stride;
    v.pad_top = v.pad_bottom = v.pad_left = v.pad_right = pad;
    v.dil_h = v.dil_w = 1;
    v.groups = 1;
    return v;
}

/* (in + pads - dil * (kernel - 1) - 1) / stride + 1, or 0 when it does not
   fit. Wide arithmetic: the fields may be anything. */
static int32_t mti_enc_conv_out(int32_t in, int32_t pad_a, int32_t pad_b,
                                int32_t kernel, int32_t dil, int32_t stride)
{
    int64_t room, reach;
    if (in < 1 || pad_a < 0 || pad_b < 0 || kernel < 1 || dil < 1 ||
        stride < 1)
        return 0;
    room = (int64_t)in + pad_a + pad_b;
    reach = (int64_t)dil * (kernel - 1) + 1;
    if (reach > room)
        return 0;
    room = (room - reach) / stride + 1;
    return room > INT32_MAX ? 0 : (int32_t)room;
}

METATUNE_API int32_t
metatune_encode_conv2d_out_h(const metatune_encode_conv2d *v)
{
    return mti_enc_conv_out(v->h, v->pad_top, v->pad_bottom, v->r, v->dil_h,
                            v->stride_h);
}

METATUNE_API int32_t
metatune_encode_conv2d_out_w(const metatune_encode_conv2d *v)
{
    return mti_enc_conv_out(v->w, v->pad_left, v->pad_right, v->s, v->dil_w,
                            v->stride_w);
}

/* Names of the int32 fields, in the order of the spec text. */
typedef struct mti_enc_conv_field {
    const char *name;
    size_t at;
    int32_t min;
} mti_enc_conv_field;

static const mti_enc_conv_field mti_enc_conv_fields[] = {
    {"n", offsetof(metatune_encode_conv2d, n), 1},
    {"c", offsetof(metatune_encode_conv2d, c), 1},
    {"h", offsetof(metatune_encode_conv2d, h), 1},
    {"w", offsetof(metatune_encode_conv2d, w), 1},
    {"k", offsetof(metatune_encode_conv2d, k), 1},
    {"r", offsetof(metatune_encode_conv2d, r), 1},
    {"s", offsetof(metatune_encode_conv2d, s), 1},
    {"stride_h", offsetof(metatune_encode_conv2d, stride_h), 1},
    {"stride_w", offsetof(metatune_encode_conv2d, stride_w), 1},
    {"pad_top", offsetof(metatune_encode_conv2d, pad_top), 0},
    {"pad_bottom", offsetof(metatune_encode_conv2d, pad_bottom), 0},
    {"pad_left", offsetof(metatune_encode_conv2d, pad_left), 0},
    {"pad_right", offsetof(metatune_encode_conv2d, pad_right), 0},
    {"dil_h", offsetof(metatune_encode_conv2d, dil_h), 1},
    {"dil_w", offsetof(metatune_encode_conv2d, dil_w), 1},
    {"groups", offsetof(metatune_encode_conv2d, groups), 1},
};
#define MTI_ENC_CONV_FIELDS \
    (sizeof mti_enc_conv_fields / sizeof mti_enc_conv_fields[0])

static int32_t *mti_enc_conv_at(metatune_encode_conv2d *v, size_t at)
{
    return (int32_t *)(void *)((char *)v + at);
}

METATUNE_API metatune_status
metatune_encode_conv2d_check(const metatune_encode_conv2d *conv,
                             metatune_error *error)
{
    metatune_encode_conv2d v;
    size_t i;
    if (!conv)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "conv", "not NULL");
    v = *conv;
    for (i = 0; i < MTI_ENC_CONV_FIELDS; i++) {
        const mti_enc_conv_field *f = &mti_enc_conv_fields[i];
        int32_t got = *mti_enc_conv_at(&v, f->at);
        if (got < f->min)
            return mti_enc_refuse_int(error, METATUNE_BAD_SHAPE, f->name, got,
                                      f->min ? "1 or more" : "0 or more");
    }
    if (v.c % v.groups != 0 || v.k % v.groups != 0)
        return mti_enc_refuse_int(error, METATUNE_BAD_SHAPE, "groups",
                                  v.groups, "a divisor of c and of k");
    if ((int64_t)v.h + v.pad_top + v.pad_bottom > INT32_MAX)
        return mti_enc_refuse_int(error, METATUNE_BAD_SHAPE, "h", v.h,
                                  "h plus padding below 2^31");
    if ((int64_t)v.w + v.pad_left + v.pad_right > INT32_MAX)
        return mti_enc_refuse_int(error, METATUNE_BAD_SHAPE, "w", v.w,
                                  "w plus padding below 2^31");
    /* the kernel itself is to blame, or its dilation */
    if (metatune_encode_conv2d_out_h(&v) < 1) {
        int r = v.r > (int64_t)v.h + v.pad_top + v.pad_bottom;
        return mti_enc_refuse_int(error, METATUNE_BAD_SHAPE,
                                  r ? "r" : "dil_h", r ? v.r : v.dil_h,
                                  "dilated kernel height within h plus "
                                  "padding");
    }
    if (metatune_encode_conv2d_out_w(&v) < 1) {
        int s = v.s > (int64_t)v.w + v.pad_left + v.pad_right;
        return mti_enc_refuse_int(error, METATUNE_BAD_SHAPE,
                                  s ? "s" : "dil_w", s ? v.s : v.dil_w,
                                  "dilated kernel width within w plus "
                                  "padding");
    }
    if (!metatune_encode_dtype_bytes(v.dtype_in))
        return mti_enc_refuse_int(error, METATUNE_BAD_ARG, "dtype_in",
                                  v.dtype_in, "a metatune_dtype");
    if (!metatune_encode_dtype_bytes(v.dtype_out))
        return mti_enc_refuse_int(error, METATUNE_BAD_ARG, "dtype_out",
                                  v.dtype_out, "a metatune_dtype");
    if (!metatune_encode_dtype_bytes(v.dtype_acc))
        return mti_enc_refuse_int(error, METATUNE_BAD_ARG, "dtype_acc",
                                  v.dtype_acc, "a metatune_dtype");
    if (v.fused < 0 || v.fused > 7)
        return mti_enc_refuse_int(error, METATUNE_BAD_ARG, "fused", v.fused,
                                  "METATUNE_FUSED_ bits, 0..7");
    if (v.layout < 0 || v.layout > METATUNE_NCHWC)
        return mti_enc_refuse_int(error, METATUNE_BAD_ARG, "layout",
                                  v.layout, "a metatune_layout");
    if (v.layout == METATUNE_NCHWC ? v.block < 1 : v.block != 0)
        return mti_enc_refuse_int(error, METATUNE_BAD_ARG, "block", v.block,
                                  "1 or more with NCHWC, else 0");
    return METATUNE_OK;
}

METATUNE_API double
metatune_encode_conv2d_flop(const metatune_encode_conv2d *v)
{
    if (v->groups < 1)
        return 0;
    return 2.0 * v->n * v->k * metatune_encode_conv2d_out_h(v) *
           metatune_encode_conv2d_out_w(v) * (v->c / v->groups) * v->r * v->s;
}

static const char *const mti_enc_dtype_names[7] = {"f32", "f16", "bf16",
                                                   "f64", "i8", "i16", "i32"};
static const char *const mti_enc_dtype_fields[3] = {"in", "out", "acc"};
static const char *const mti_enc_layout_names[3] = {"nchw", "nhwc", "nchwc"};

static void mti_enc_put_field(mti_enc_out *o, const char *name, int32_t value)
{
    if (o->n)
        mti_enc_put(o, ",");
    mti_enc_put(o, name);
    mti_enc_put(o, "=");
    mti_enc_put_int(o, value);
}

METATUNE_API size_t
metatune_encode_conv2d_spec(const metatune_encode_conv2d *conv, char *buf,
                            size_t cap)
{
    metatune_encode_conv2d v = *conv;
    mti_enc_out o;
    size_t i;
    o.buf = buf;
    o.cap = cap;
    o.n = 0;
    for (i = 0; i < 7; i++)
        mti_enc_put_field(&o, mti_enc_conv_fields[i].name,
                          *mti_enc_conv_at(&v, mti_enc_conv_fields[i].at));
    if (v.stride_h == v.stride_w) {
        mti_enc_put_field(&o, "stride", v.stride_h);
    } else {
        mti_enc_put_field(&o, "stride_h", v.stride_h);
        mti_enc_put_field(&o, "stride_w", v.stride_w);
    }
    if (v.pad_top == v.pad_bottom && v.pad_top == v.pad_left &&
        v.pad_top == v.pad_right) {
        mti_enc_put_field(&o, "pad", v.pad_top);
    } else {
        mti_enc_put_field(&o, "pad_top", v.pad_top);
        mti_enc_put_field(&o, "pad_bottom", v.pad_bottom);
        mti_enc_put_field(&o, "pad_left", v.pad_left);
        mti_enc_put_field(&o, "pad_right", v.pad_right);
    }
    if (v.dil_h == v.dil_w) {
        mti_enc_put_field(&o, "dil", v.dil_h);
    } else {
        mti_enc_put_field(&o, "dil_h", v.dil_h);
        mti_enc_put_field(&o, "dil_w", v.dil_w);
    }
    mti_enc_put_field(&o, "groups", v.groups);
    if ((v.dtype_in != METATUNE_F32 || v.dtype_out != METATUNE_F32) &&
        metatune_encode_dtype_bytes(v.dtype_in) &&
        metatune_encode_dtype_bytes(v.dtype_out)) {
        mti_enc_put(&o, ",in=");
        mti_enc_put(&o, mti_enc_dtype_names[v.dtype_in]);
        mti_enc_put(&o, ",out=");
        mti_enc_put(&o, mti_enc_dtype_names[v.dtype_out]);
    }
    if (v.dtype_acc != METATUNE_F32 &&
        metatune_encode_dtype_bytes(v.dtype_acc)) {
        mti_enc_put(&o, ",acc=");
        mti_enc_put(&o, mti_enc_dtype_names[v.dtype_acc]);
    }
    if (v.fused)
        mti_enc_put_field(&o, "fused", v.fused);
    if (v.layout > METATUNE_NCHW && v.layout <= METATUNE_NCHWC) {
        mti_enc_put(&o, ",layout=");
        mti_enc_put(&o, mti_enc_layout_names[v.layout]);
        if (v.layout == METATUNE_NCHWC)
            mti_enc_put_field(&o, "block", v.block);
    }
    i = mti_enc_put_end(&o);
    return o.n < cap ? i : 0;
}

/* name is exactly the n bytes at p */
static int mti_enc_word(const char *p, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(p, name, n) == 0;
}

/* Index of the word in names, or -1. */
static int32_t mti_enc_word_find(const char *p, size_t n,
                                 const char *const *names, int32_t n_names)
{
    int32_t i;
    for (i = 0; i < n_names; i++)
        if (mti_enc_word(p, n, names[i]))
            return i;
    return -1;
}

/* Decimal digits only; -1 when not, or above INT32_MAX. */
static int32_t mti_enc_word_int(const char *p, size_t n)
{
    int64_t v = 0;
    size_t i;
    if (n == 0 || n > 10)
        return -1;
    for (i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return -1;
        v = v * 10 + (p[i] - '0');
    }
    return v > INT32_MAX ? -1 : (int32_t)v;
}

static metatune_status mti_enc_twice(metatune_error *error, const char *field)
{
    return mti_enc_refuse(error, METATUNE_PARSE, field,
                          "given once (stride, pad and dil set all of their "
                          "kind: first)");
}

METATUNE_API metatune_status
metatune_encode_conv2d_parse(const char *text, metatune_encode_conv2d *conv,
                             metatune_error *error)
{
    metatune_encode_conv2d v;
    uint32_t seen = 0; /* bit i: field i was given */
    uint32_t given = 0; /* by its own name */
    const char *p = text;
    size_t i;
    if (!text || !conv)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "text", "not NULL");
    v = metatune_encode_conv2d_make(1, 0, 0, 0, 0, 0, 0, 1, 0);
    while (*p) {
        const char *name = p, *value;
        size_t nn, nv;
        int32_t number, which;
        uint32_t bits = 0;
        while (*p && *p != '=' && *p != ',')
            p++;
        nn = (size_t)(p - name);
        if (*p != '=')
            return mti_enc_refuse(error, METATUNE_PARSE, "conv spec",
                                  "name=value pairs between commas, like "
                                  "c=64,h=56,w=56,k=64,r=3,s=3,stride=1,"
                                  "pad=1");
        value = ++p;
        while (*p && *p != ',')
            p++;
        nv = (size_t)(p - value);
        if (*p == ',')
            p++;
        which = mti_enc_word_find(name, nn, mti_enc_dtype_fields, 3);
        if (which >= 0) {
            int32_t t =
                mti_enc_word_find(value, nv, mti_enc_dtype_names, 7);
            if (seen & (uint32_t)1 << (24 + which))
                return mti_enc_twice(error, mti_enc_dtype_fields[which]);
            seen |= (uint32_t)1 << (24 + which);
            if (t < 0)
                return mti_enc_refuse(error, METATUNE_PARSE,
                                      mti_enc_dtype_fields[which],
                                      "f32, f16, bf16, f64, i8, i16 or i32");
            *(which == 0 ? &v.dtype_in
                         : which == 1 ? &v.dtype_out : &v.dtype_acc) = t;
            continue;
        }
        if (mti_enc_word(name, nn, "layout")) {
            if (seen & (uint32_t)1 << 27)
                return mti_enc_twice(error, "layout");
            seen |= (uint32_t)1 << 27;
            v.layout = mti_enc_word_find(value, nv, mti_enc_layout_names, 3);
            if (v.layout < 0)
                return mti_enc_refuse(error, METATUNE_PARSE, "layout",
                                      "nchw, nhwc or nchwc");
            continue;
        }
        number = mti_enc_word_int(value, nv);
        if (mti_enc_word(name, nn, "block") ||
            mti_enc_word(name, nn, "fused")) {
            bits = (uint32_t)1 << (*name == 'b' ? 28 : 29);
            if (seen & bits)
                return mti_enc_twice(error, *name == 'b' ? "block" : "fused");
            seen |= bits;
            if (number < 0)
                return mti_enc_refuse(error, METATUNE_PARSE,
                                      *name == 'b' ? "block" : "fused",
                                      "a whole number below 2^31");
            *(*name == 'b' ? &v.block : &v.fused) = number;
            continue;
        }
        for (i = 0; i < MTI_ENC_CONV_FIELDS; i++) {
            const mti_enc_conv_field *f = &mti_enc_conv_fields[i];
            /* "stride", "pad", "dil" set all of their kind */
            int all = i >= 7 && i < 15 &&
                      (mti_enc_word(name, nn, "stride") ||
                       mti_enc_word(name, nn, "pad") ||
                       mti_enc_word(name, nn, "dil")) &&
                      memcmp(f->name, name, nn) == 0;
            if (all || mti_enc_word(name, nn, f->name)) {
                /* one side may follow its whole kind: pad=1,pad_left=0 */
                if ((all ? seen : given) & (uint32_t)1 << i)
                    return mti_enc_twice(error, f->name);
                if (!all)
                    given |= (uint32_t)1 << i;
                if (number < 0)
                    return mti_enc_refuse(error, METATUNE_PARSE, f->name,
                                          "a whole number below 2^31");
                *mti_enc_conv_at(&v, f->at) = number;
                bits |= (uint32_t)1 << i;
            }
        }
        if (!bits)
            return mti_enc_refuse_int(
                error, METATUNE_PARSE, "offset of the unknown field",
                (int64_t)(name - text),
                "n c h w k r s stride[_h|_w] pad[_top|_bottom|_left|_right] "
                "dil[_h|_w] groups in out acc fused layout or block");
        seen |= bits;
    }
    if (!(seen & (1u << 3)))
        v.w = v.h; /* w defaults to h */
    if (!(seen & (1u << 6)))
        v.s = v.r; /* s to r */
    for (i = 1; i < 6; i++)
        if (i != 3 && !(seen & (1u << i)))
            return mti_enc_refuse(error, METATUNE_PARSE,
                                  mti_enc_conv_fields[i].name,
                                  "given: c, h, k and r have no default");
    *conv = v;
    return metatune_encode_conv2d_check(conv, error);
}

/* Set the strides of a (channels, rows, columns) activation within one image
   of the given total channels; dims are n, c, h, w. */
static void mti_enc_conv_layout(metatune_encode_tensor *t, int32_t channels,
                                int32_t rows, int32_t cols, int32_t layout,
                                int32_t block)
{
    double plane = (double)rows * cols;
    if (layout == METATUNE_NHWC) {
        t->dim[1].stride = 1;
        t->dim[2].stride = (double)cols * channels;
        t->dim[3].stride = channels;
        t->dim[0].stride = plane * channels;
    } else if (layout == METATUNE_NCHWC && block > 1) {
        double blocks = (double)(((int64_t)channels + block - 1) / block);
        t->dim[1].stride = 1;
        t->dim[1].block = block;
        t->dim[1].stride_block = plane * block;
        t->dim[2].stride = (double)cols * block;
        t->dim[3].stride = block;
        t->dim[0].stride = plane * block * blocks;
    } else {
        t->dim[1].stride = plane;
        t->dim[2].stride = cols;
        t->dim[3].stride = 1;
        t->dim[0].stride = plane * channels;
    }
}

METATUNE_API metatune_status
metatune_encode_conv2d_begin(metatune_encode_nest *nest,
                             const metatune_encode_conv2d *v)
{
    metatune_status st = metatune_encode_conv2d_check(v, NULL);
    int32_t cg, kg, oh, ow, in, we, out, bytes;
    if (st)
        return st;
    cg = v->c / v->groups;
    kg = v->k / v->groups;
    oh = metatune_encode_conv2d_out_h(v);
    ow = metatune_encode_conv2d_out_w(v);
    bytes = metatune_encode_dtype_bytes(v->dtype_in);
    metatune_encode_nest_clear(nest);
    metatune_encode_axis_add(nest, v->n, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, v->groups, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, kg, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, oh, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, ow, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, cg, METATUNE_AXIS_REDUCTION);
    metatune_encode_axis_add(nest, v->r, METATUNE_AXIS_REDUCTION);
    metatune_encode_axis_add(nest, v->s, METATUNE_AXIS_REDUCTION);

    in = metatune_encode_tensor_add(nest, bytes, METATUNE_SCOPE_GLOBAL,
                                    METATUNE_ROLE_INPUT);
    metatune_encode_dim_add(nest, in, v->n, 0);
    metatune_encode_term_add(nest, in, METATUNE_CONV_N, 1);
    metatune_encode_dim_add(nest, in, v->c, 0);
    metatune_encode_term_add(nest, in, METATUNE_CONV_G, cg);
    metatune_encode_term_add(nest, in, METATUNE_CONV_C, 1);
    metatune_encode_dim_add(nest, in, v->h, v->pad_top);
    metatune_encode_term_add(nest, in, METATUNE_CONV_Y, v->stride_h);
    metatune_encode_term_add(nest, in, METATUNE_CONV_R, v->dil_h);
    metatune_encode_dim_add(nest, in, v->w, v->pad_left);
    metatune_encode_term_add(nest, in, METATUNE_CONV_X, v->stride_w);
    metatune_encode_term_add(nest, in, METATUNE_CONV_S, v->dil_w);

    we = metatune_encode_tensor_add(nest, bytes, METATUNE_SCOPE_GLOBAL,
                                    METATUNE_ROLE_WEIGHT);
    metatune_encode_dim_add(nest, we, v->k, 0);
    metatune_encode_term_add(nest, we, METATUNE_CONV_G, kg);
    metatune_encode_term_add(nest, we, METATUNE_CONV_K, 1);
    metatune_encode_dim_add(nest, we, cg, 0);
    metatune_encode_term_add(nest, we, METATUNE_CONV_C, 1);
    metatune_encode_dim_add(nest, we, v->r, 0);
    metatune_encode_term_add(nest, we, METATUNE_CONV_R, 1);
    metatune_encode_dim_add(nest, we, v->s, 0);
    metatune_encode_term_add(nest, we, METATUNE_CONV_S, 1);

    out = metatune_encode_tensor_add(
        nest, metatune_encode_dtype_bytes(v->dtype_out),
        METATUNE_SCOPE_GLOBAL, METATUNE_ROLE_OUTPUT);
    metatune_encode_dim_add(nest, out, v->n, 0);
    metatune_encode_term_add(nest, out, METATUNE_CONV_N, 1);
    metatune_encode_dim_add(nest, out, v->k, 0);
    metatune_encode_term_add(nest, out, METATUNE_CONV_G, kg);
    metatune_encode_term_add(nest, out, METATUNE_CONV_K, 1);
    metatune_encode_dim_add(nest, out, oh, 0);
    metatune_encode_term_add(nest, out, METATUNE_CONV_Y, 1);
    metatune_encode_dim_add(nest, out, ow, 0);
    metatune_encode_term_add(nest, out, METATUNE_CONV_X, 1);
    if (nest->status)
        return nest->status;
    mti_enc_conv_layout(&nest->tensor[in], v->c, v->h, v->w, v->layout,
                        v->block);
    mti_enc_conv_layout(&nest->tensor[out], v->k, oh, ow, v->layout,
                        v->block);
    return METATUNE_OK;
}

#undef MTI_ENC_F
#undef MTI_ENC_HUGE
#undef MTI_ENC_CONV_FIELDS
#ifdef __cplusplus
}
#endif
#endif /* METATUNE_ENCODE_C */

/* Licence: choose either.

   A. Public domain (unlicense.org). This is free and unencumbered software
   released into the public domain. Anyone is free to copy, modify, publish,
   use, compile, sell or distribute it, in source or binary form, for any
   purpose, commercial or not, and by any means. The authors dedicate all
   copyright interest in it to the public domain.

   B. MIT No Attribution (MIT-0). Permission is hereby granted, free of
   charge, to any person obtaining a copy of this software and associated
   documentation files, to deal in the software without restriction,
   including without limitation the rights to use, copy, modify, merge,
   publish, distribute, sublicense and/or sell copies of it.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
   IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
   FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
   AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN
   ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
   CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
   SOFTWARE. */
