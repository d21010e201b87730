/* host_kernel.c - see host_kernel.h

   Rooms: [K-LIST] knob lists, [K-GEO] geometry of an algorithm, [K-VALID]
   constraints and default, [K-NEST] loop nests, [K-PACK] layouts, [K-EMIT]
   the C writer. */
#include "host_kernel.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    HOST_TILE_MAX = 28,          /* pixels of a register tile */
    HOST_BODY_MAX = 1024         /* multiply-adds of an unrolled body: bounds
                                    the compile time */
};
#define HOST_FLOATS_MAX 1.0e9    /* floats of a tensor: 4 GB */

/* dims of the cache-tile loops in the order knob: 0 = k, 1 = y, 2 = c */
static const unsigned char host_order[6][3] = {
    { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 },
    { 2, 1, 0 }, { 0, 2, 1 }, { 1, 2, 0 }
};

static int32_t host_ceil_div(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

/* ================================================== [K-LIST] knob lists */

static const char *const host_knob_name[HOST_KNOBS] = {
    "algorithm", "ocv", "owt", "unroll", "kwu", "prefetch",
    "ict", "oct", "oht", "order", "inner"
};
static const char *const host_label_algorithm[] = { "direct", "flat" };
static const char *const host_label_order[] = {
    "kyc", "ykc", "cky", "cyk", "kcy", "yck"
};
static const char *const host_label_inner[] = { "k", "x" };

static void host_list_add(host_kernel *kernel, int knob, int64_t value)
{
    host_knob *list = &kernel->knob[knob];
    uint32_t i = list->n_values, j;

    for (j = 0; j < i; j++)
        if (kernel->store[knob][j] == value) return;
    if (i >= HOST_KNOB_CAP) return;
    for (; i > 0 && kernel->store[knob][i - 1] > value; i--)
        kernel->store[knob][i] = kernel->store[knob][i - 1];
    kernel->store[knob][i] = value;
    list->n_values++;
}

/* Divisors of n from the largest down, each at most half the one before, at
   most six; 1 always belongs to them. */
static void host_list_divisors(host_kernel *kernel, int knob, int32_t n)
{
    int32_t d, last = 2 * n;

    for (d = n; d >= 1; d--) {
        if (n % d || 2 * d > last) continue;
        if (kernel->knob[knob].n_values == 5) d = 1;
        host_list_add(kernel, knob, d);
        last = d;
    }
}

/* A register tile of t pixels is worth having when no smaller one needs as
   few of them; the tiny ones only where the extent is tiny, too. */
static int host_tile_good(int32_t extent, int32_t t)
{
    static const int32_t round_up[] = { 4, 6, 7, 8, 10, 12, 14, 16, 20, 24,
                                        28 };
    size_t i;

    if (t > extent) return 0;
    if (t < 4 && t < extent) return 0;
    if (t != host_ceil_div(extent, host_ceil_div(extent, t))) return 0;
    if (extent <= 64 || extent % t == 0) return 1;
    for (i = 0; i < sizeof round_up / sizeof round_up[0]; i++)
        if (t == round_up[i]) return 1;
    return 0;
}

static int32_t host_tile_extent(const host_kernel *kernel, int64_t algorithm)
{
    return algorithm == HOST_FLAT ? kernel->oh * kernel->ow : kernel->ow;
}

static int32_t host_tile_limit(const host_kernel *kernel)
{
    int32_t limit = kernel->march.vregs - 2;

    return limit < HOST_TILE_MAX ? limit : HOST_TILE_MAX;
}

metatune_status host_kernel_supports(const metatune_encode_conv2d *conv,
                                     char *why, size_t cap)
{
    const char *reason = NULL;
    metatune_status status = METATUNE_BAD_ARG;
    metatune_error error;
    double in, out, w;

    if (why && cap) why[0] = 0;
    if (!conv) return METATUNE_BAD_ARG;
    memset(&error, 0, sizeof error);
    status = metatune_encode_conv2d_check(conv, &error);
    if (status != METATUNE_OK) {
        if (why && cap) metatune_encode_error_line(&error, why, cap);
        return status;
    }
    if (conv->dtype_in != METATUNE_F32 || conv->dtype_out != METATUNE_F32 ||
        conv->dtype_acc != METATUNE_F32)
        reason = "only f32 is supported by the host target";
    else if (conv->fused)
        reason = "fused operations are not supported by the host target yet";
    else if (conv->layout != METATUNE_NCHW)
        reason = "only nchw is supported by the host target";
    else if (conv->groups == conv->c && conv->c > 1)
        reason = "depthwise convolution is not supported by the host target"
                 " yet";
    else if (conv->groups != 1)
        reason = "groups > 1 is not supported by the host target yet";
    else if (conv->dtype_in == METATUNE_F32) {
        /* 64: the widest channel padding there is */
        in = (double)conv->n * conv->c *
             ((double)conv->h + conv->pad_top + conv->pad_bottom) *
             ((double)conv->w + conv->pad_left + conv->pad_right);
        out = (double)conv->n * ((double)conv->k + 64) *
              metatune_encode_conv2d_out_h(conv) *
              metatune_encode_conv2d_out_w(conv);
        w = ((double)conv->k + 64) * conv->c * conv->r * conv->s;
        if (in > HOST_FLOATS_MAX || out > HOST_FLOATS_MAX ||
            w > HOST_FLOATS_MAX)
            reason = "a tensor of more than 10^9 floats is not supported by "
                     "the host target";
    }
    if (!reason) return METATUNE_OK;
    if (why && cap) snprintf(why, cap, "%s", reason);
    return METATUNE_BAD_ARG;
}

metatune_status host_kernel_init(host_kernel *kernel,
                                 const metatune_encode_conv2d *conv,
                                 const host_march *march, char *why,
                                 size_t cap)
{
    metatune_status status = host_kernel_supports(conv, why, cap);
    int32_t i, t, algorithms;

    if (status != METATUNE_OK) return status;
    if (!kernel || !march ||
        (march->lanes != 16 && march->lanes != 8 && march->lanes != 4) ||
        march->vregs < 8) {
        if (why && cap) snprintf(why, cap, "lanes is 16, 8 or 4");
        return METATUNE_BAD_ARG;
    }
    memset(kernel, 0, sizeof *kernel);
    kernel->conv = *conv;
    kernel->march = *march;
    kernel->oh = metatune_encode_conv2d_out_h(conv);
    kernel->ow = metatune_encode_conv2d_out_w(conv);
    for (i = march->lanes; conv->c % i; i--) continue;
    kernel->cb = i;
    kernel->ib = conv->c / i;
    kernel->ob = host_ceil_div(conv->k, march->lanes);
    kernel->n_knobs = HOST_KNOBS;
    for (i = 0; i < HOST_KNOBS; i++) {
        kernel->knob[i].name = host_knob_name[i];
        kernel->knob[i].values = kernel->store[i];
    }
    kernel->knob[HOST_KNOB_ALGORITHM].labels = host_label_algorithm;
    kernel->knob[HOST_KNOB_ORDER].labels = host_label_order;
    kernel->knob[HOST_KNOB_INNER].labels = host_label_inner;

    kernel->flat = *conv;
    kernel->flat.h = 1;
    kernel->flat.w = kernel->oh * kernel->ow;
    kernel->flat.r = kernel->flat.s = 1;
    kernel->flat.stride_h = kernel->flat.stride_w = 1;
    kernel->flat.dil_h = kernel->flat.dil_w = 1;
    kernel->flat.pad_top = kernel->flat.pad_bottom = 0;
    kernel->flat.pad_left = kernel->flat.pad_right = 0;

    algorithms = conv->r == 1 && conv->s == 1 ? 2 : 1;
    for (i = 0; i < algorithms; i++) {
        host_list_add(kernel, HOST_KNOB_ALGORITHM, i);
        for (t = host_tile_limit(kernel); t >= 1; t--)
            if (host_tile_good(host_tile_extent(kernel, i), t))
                host_list_add(kernel, HOST_KNOB_OWT, t);
    }
    for (i = 1; i <= 4; i++)
        if (kernel->ob % i == 0) host_list_add(kernel, HOST_KNOB_OCV, i);
    for (i = 1; i <= kernel->cb; i++)
        if (kernel->cb % i == 0) host_list_add(kernel, HOST_KNOB_UNROLL, i);
    host_list_add(kernel, HOST_KNOB_KWU, 0);
    if (conv->s > 1) host_list_add(kernel, HOST_KNOB_KWU, 1);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 0);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 8);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 32);
    host_list_divisors(kernel, HOST_KNOB_ICT, kernel->ib);
    host_list_divisors(kernel, HOST_KNOB_OCT, kernel->ob);
    for (i = 1; i <= 32; i *= 2)
        host_list_add(kernel, HOST_KNOB_OHT, host_ceil_div(kernel->oh, i));
    for (i = 0; i < 6; i++) host_list_add(kernel, HOST_KNOB_ORDER, i);
    for (i = 0; i < 2; i++) host_list_add(kernel, HOST_KNOB_INNER, i);
    return METATUNE_OK;
}

/* =================================== [K-GEO] geometry of an algorithm */

/* Everything that the nest, the source and the sizes need of one setting. */
typedef struct host_geo {
    const metatune_encode_conv2d *conv; /* the layer, or its flat form */
    int flat, staged;
    int32_t hs, ws;              /* source image: staged, or the input */
    int32_t rows, extent;        /* output rows, pixels of a row */
    int32_t v, t, u, kwu, prefetch;
    int32_t tiles, tail;         /* register tiles of a row; last width */
    int32_t ict, kt, yt;         /* cache tile: blocks, groups of V, rows
                                    (flat: register tiles) */
    int32_t trip[3];             /* cache-tile loops: k, y, c */
} host_geo;

static void host_geo_make(const host_kernel *kernel, const int64_t *values,
                          host_geo *g)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int padded = c->pad_top || c->pad_bottom || c->pad_left || c->pad_right;
    int32_t oht = (int32_t)values[HOST_KNOB_OHT];

    g->flat = values[HOST_KNOB_ALGORITHM] == HOST_FLAT;
    if (g->flat) {
        g->conv = &kernel->flat;
        g->staged = padded || c->stride_h != 1 || c->stride_w != 1;
        g->hs = 1;
        g->ws = kernel->flat.w;
        g->rows = 1;
        g->extent = kernel->flat.w;
    } else {
        g->conv = c;
        g->staged = padded;
        g->hs = c->h + c->pad_top + c->pad_bottom;
        g->ws = c->w + c->pad_left + c->pad_right;
        g->rows = kernel->oh;
        g->extent = kernel->ow;
    }
    g->v = (int32_t)values[HOST_KNOB_OCV];
    g->t = (int32_t)values[HOST_KNOB_OWT];
    g->u = (int32_t)values[HOST_KNOB_UNROLL];
    g->kwu = (int32_t)values[HOST_KNOB_KWU];
    g->prefetch = (int32_t)values[HOST_KNOB_PREFETCH];
    g->tiles = host_ceil_div(g->extent, g->t);
    g->tail = g->extent % g->t;
    g->ict = (int32_t)values[HOST_KNOB_ICT];
    g->kt = (int32_t)values[HOST_KNOB_OCT] / g->v;
    g->yt = g->flat ? host_ceil_div(oht * kernel->ow, g->t) : oht;
    g->trip[0] = host_ceil_div(kernel->ob / g->v, g->kt);
    g->trip[1] = host_ceil_div(g->flat ? g->tiles : g->rows, g->yt);
    g->trip[2] = host_ceil_div(kernel->ib, g->ict);
}

/* ============================== [K-VALID] constraints and default */

/* Two orders make the same kernel when the loops that run more than once
   stand in the same order; the first of them stands for all. */
static int host_order_first(const int32_t *trip, int64_t order)
{
    int64_t o;

    for (o = 0; o < order; o++) {
        int i = 0, j = 0, same = 1;
        while (same) {
            while (i < 3 && trip[host_order[o][i]] < 2) i++;
            while (j < 3 && trip[host_order[order][j]] < 2) j++;
            if (i == 3 || j == 3) break;
            same = host_order[o][i++] == host_order[order][j++];
        }
        if (same) return 0;
    }
    return 1;
}

int host_kernel_valid(const host_kernel *kernel, const int64_t *values)
{
    host_geo g;
    int32_t i, pixels;

    for (i = 0; i < HOST_KNOBS; i++) {
        const host_knob *knob = &kernel->knob[i];
        uint32_t j = 0;
        while (j < knob->n_values && knob->values[j] != values[i]) j++;
        if (j == knob->n_values) return 0;
    }
    if (values[HOST_KNOB_OCT] % values[HOST_KNOB_OCV]) return 0;
    host_geo_make(kernel, values, &g);
    if (g.v * g.t > kernel->march.vregs - 2) return 0;
    if (!host_tile_good(g.extent, g.t)) return 0;
    if (g.v * g.t * g.u * (g.kwu ? g.conv->s : 1) > HOST_BODY_MAX) return 0;
    if (g.flat)
        for (i = 0; kernel->knob[HOST_KNOB_OHT].values[i] <
                    values[HOST_KNOB_OHT]; i++) {
            int32_t less = (int32_t)kernel->knob[HOST_KNOB_OHT].values[i];
            if (host_ceil_div(less * kernel->ow, g.t) == g.yt) return 0;
        }
    if (!host_order_first(g.trip, values[HOST_KNOB_ORDER])) return 0;
    pixels = g.flat ? (g.yt < g.tiles ? g.yt : g.tiles) : g.yt * g.tiles;
    if (values[HOST_KNOB_INNER] && (g.kt == 1 || pixels == 1)) return 0;
    return 1;
}

/* Largest value of a knob's list that is <= limit, else its smallest. */
static int64_t host_list_floor(const host_kernel *kernel, int knob,
                               double limit)
{
    const host_knob *list = &kernel->knob[knob];
    uint32_t i = list->n_values - 1;

    while (i > 0 && (double)list->values[i] > limit) i--;
    return list->values[i];
}

void host_kernel_default(const host_kernel *kernel, int64_t *values)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    const host_knob *list = &kernel->knob[HOST_KNOB_OWT];
    double best = -1, bytes;
    uint32_t i, o;
    int64_t v;

    memset(values, 0, HOST_KNOBS * sizeof *values);
    i = kernel->knob[HOST_KNOB_ALGORITHM].n_values;
    values[HOST_KNOB_ALGORITHM] =
        kernel->knob[HOST_KNOB_ALGORITHM].values[i - 1];
    /* Many accumulators hide the latency, two vectors halve the loads of the
       input, a narrow last tile wastes both. */
    for (v = 1; v <= 4; v++) {
        int32_t extent =
            host_tile_extent(kernel, values[HOST_KNOB_ALGORITHM]);
        if (kernel->ob % v) continue;
        for (i = 0; i < list->n_values; i++) {
            int32_t t = (int32_t)list->values[i];
            double score, full;
            if (v * t > kernel->march.vregs - 2 ||
                !host_tile_good(extent, t))
                continue;
            full = (double)extent / (host_ceil_div(extent, t) * t);
            score = (double)(v * t < 24 ? v * t : 24) / 24 * full;
            if (v == 2) score *= 1.1;
            if (v > 2) score *= 0.95;
            if (score > best) {
                best = score;
                values[HOST_KNOB_OCV] = v;
                values[HOST_KNOB_OWT] = t;
            }
        }
    }
    v = values[HOST_KNOB_OCV];
    /* large bodies make compilers spill: unroll small ones only */
    if (v <= 2 && kernel->cb >= 4)
        values[HOST_KNOB_UNROLL] =
            host_list_floor(kernel, HOST_KNOB_UNROLL, 4);
    else
        values[HOST_KNOB_UNROLL] = 1;
    /* One group's weights of a cache tile stay in the inner caches. */
    bytes = (double)v * kernel->march.lanes * kernel->cb * c->r * c->s * 4;
    values[HOST_KNOB_ICT] =
        host_list_floor(kernel, HOST_KNOB_ICT, 131072 / bytes);
    list = &kernel->knob[HOST_KNOB_OCT];
    for (i = 0; i < list->n_values; i++)
        if (list->values[i] % v == 0) values[HOST_KNOB_OCT] = list->values[i];
    for (i = kernel->knob[HOST_KNOB_OHT].n_values; i-- > 0;) {
        values[HOST_KNOB_OHT] = kernel->knob[HOST_KNOB_OHT].values[i];
        for (o = 0; o < 6; o++) {
            values[HOST_KNOB_ORDER] = o;
            if (host_kernel_valid(kernel, values)) return;
        }
    }
}

/* ======================================================= [K-NEST] nests */

/* Slots of the two skeletons; 0 is the root, -1 a loop that it lacks. */
enum {
    HOST_N, HOST_KO, HOST_YO, HOST_CO, HOST_KI, HOST_YI, HOST_XO, HOST_CB,
    HOST_R, HOST_S, HOST_CI, HOST_CU, HOST_KU, HOST_KV, HOST_XU, HOST_XE,
    HOST_KE, HOST_LOAD_A, HOST_LOAD_W, HOST_FMA, HOST_LOAD_C, HOST_STORE_C,
    HOST_COPY, HOST_SLOTS
};
static const signed char host_slot[HOST_ALGORITHMS][HOST_SLOTS] = {
    { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
      21, 22, 23 },
    { 1, 2, 3, 4, 5, -1, 6, 7, -1, -1, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
      18, 19, 20 }
};

/* conv2d_begin knows plain layouts; these are the blocked ones. */
static void host_dim_set(metatune_encode_dim *dim, int32_t block,
                         double stride, double stride_block)
{
    dim->block = block;
    dim->stride = stride;
    dim->stride_block = stride_block;
}

static metatune_status host_nest_axes(const host_kernel *kernel, int flat,
                                      metatune_encode_nest *nest)
{
    metatune_status status = metatune_encode_conv2d_begin(
        nest, flat ? &kernel->flat : &kernel->conv);
    double h = flat ? 1 : kernel->conv.h;
    double w = flat ? kernel->flat.w : kernel->conv.w;
    double oh = flat ? 1 : kernel->oh, ow = flat ? w : kernel->ow;
    double cb = kernel->cb, lanes = kernel->march.lanes;
    metatune_encode_dim *dim;

    if (status != METATUNE_OK) return status;
    nest->skeleton = flat ? HOST_FLAT : HOST_DIRECT;
    dim = nest->tensor[METATUNE_CONV_INPUT].dim;
    host_dim_set(&dim[0], 0, kernel->ib * h * w * cb, 0);
    host_dim_set(&dim[1], kernel->cb, 1, h * w * cb);
    host_dim_set(&dim[2], 0, w * cb, 0);
    host_dim_set(&dim[3], 0, cb, 0);
    dim = nest->tensor[METATUNE_CONV_OUTPUT].dim;
    host_dim_set(&dim[0], 0, kernel->ob * oh * ow * lanes, 0);
    host_dim_set(&dim[1], kernel->march.lanes, 1, oh * ow * lanes);
    host_dim_set(&dim[2], 0, ow * lanes, 0);
    host_dim_set(&dim[3], 0, lanes, 0);
    return METATUNE_OK;
}

metatune_status host_kernel_nest_begin(const host_kernel *kernel,
                                       metatune_encode_nest *nest)
{
    return host_nest_axes(
        kernel,
        kernel->knob[HOST_KNOB_ALGORITHM].values[0] == HOST_FLAT, nest);
}

/* A loop that runs once is left out. */
static int32_t host_loop(metatune_encode_nest *nest, const signed char *slot,
                         int32_t parent, int which, int32_t axis,
                         int32_t step, int32_t trip, int32_t kind)
{
    if (trip == 1) return parent;
    return metatune_encode_loop_add(nest, parent, axis, step, trip, kind,
                                    slot[which]);
}

static metatune_status host_nest_fill(const host_kernel *kernel,
                                      const int64_t *values,
                                      metatune_encode_nest *nest)
{
    enum { SERIAL = METATUNE_LOOP_SERIAL, UNROLL = METATUNE_LOOP_UNROLL,
           VECTOR = METATUNE_LOOP_VECTOR };
    static const int32_t a_in[1] = { METATUNE_CONV_INPUT };
    static const int32_t a_w[1] = { METATUNE_CONV_WEIGHT };
    static const int32_t a_out[1] = { METATUNE_CONV_OUTPUT };
    static const int32_t a_fma[3] = { METATUNE_CONV_INPUT,
                                      METATUNE_CONV_WEIGHT,
                                      METATUNE_CONV_OUTPUT };
    const int32_t lanes = kernel->march.lanes, cb = kernel->cb;
    const signed char *slot;
    const unsigned char *order;
    metatune_encode_dim *dim;
    host_geo g;
    double vl, rs;
    int32_t p, e, i, pass;

    host_geo_make(kernel, values, &g);
    slot = host_slot[g.flat];
    order = host_order[values[HOST_KNOB_ORDER]];
    vl = (double)(g.v * lanes);
    rs = (double)g.conv->r * g.conv->s;
    dim = nest->tensor[METATUNE_CONV_WEIGHT].dim;
    host_dim_set(&dim[0], g.v * lanes, 1, kernel->ib * rs * cb * vl);
    host_dim_set(&dim[1], cb, vl, rs * cb * vl);
    host_dim_set(&dim[2], 0, g.conv->s * cb * vl, 0);
    host_dim_set(&dim[3], 0, cb * vl, 0);

    p = host_loop(nest, slot, -1, HOST_N, METATUNE_CONV_N, 1, g.conv->n,
                  SERIAL);
    if (g.staged)
        metatune_encode_copy_add(nest, p, METATUNE_CONV_INPUT,
                                 METATUNE_SCOPE_GLOBAL, slot[HOST_COPY]);
    for (i = 0; i < 3; i++) {
        if (order[i] == 0)
            p = host_loop(nest, slot, p, HOST_KO, METATUNE_CONV_K,
                          g.kt * g.v * lanes, g.trip[0], SERIAL);
        else if (order[i] == 2)
            p = host_loop(nest, slot, p, HOST_CO, METATUNE_CONV_C,
                          g.ict * cb, g.trip[2], SERIAL);
        else if (g.flat)
            p = host_loop(nest, slot, p, HOST_YO, METATUNE_CONV_X,
                          g.yt * g.t, g.trip[1], SERIAL);
        else
            p = host_loop(nest, slot, p, HOST_YO, METATUNE_CONV_Y, g.yt,
                          g.trip[1], SERIAL);
    }
    for (pass = 0; pass < 2; pass++) {
        if (pass == values[HOST_KNOB_INNER])
            p = host_loop(nest, slot, p, HOST_KI, METATUNE_CONV_K,
                          g.v * lanes, g.kt, SERIAL);
        else {
            if (!g.flat)
                p = host_loop(nest, slot, p, HOST_YI, METATUNE_CONV_Y, 1,
                              g.yt, SERIAL);
            p = host_loop(nest, slot, p, HOST_XO, METATUNE_CONV_X, g.t,
                          g.flat && g.yt < g.tiles ? g.yt : g.tiles, SERIAL);
        }
    }
    /* The register tile comes from and goes to memory once a cache tile. It
       is unrolled there, too, but called serial: the totals would count its
       loads as part of the body that runs for every reduction step. */
    e = host_loop(nest, slot, p, HOST_XE, METATUNE_CONV_X, 1, g.t, SERIAL);
    e = host_loop(nest, slot, e, HOST_KE, METATUNE_CONV_K, 1, g.v * lanes,
                  VECTOR);
    if (g.trip[2] > 1)
        metatune_encode_stmt_add(nest, e, METATUNE_STMT_LOAD,
                                 slot[HOST_LOAD_C], 1, a_out, 1);

    p = host_loop(nest, slot, p, HOST_CB, METATUNE_CONV_C, cb, g.ict, SERIAL);
    p = host_loop(nest, slot, p, HOST_R, METATUNE_CONV_R, 1, g.conv->r,
                  SERIAL);
    if (!g.kwu)
        p = host_loop(nest, slot, p, HOST_S, METATUNE_CONV_S, 1, g.conv->s,
                      SERIAL);
    p = host_loop(nest, slot, p, HOST_CI, METATUNE_CONV_C, g.u, cb / g.u,
                  SERIAL);
    if (g.kwu)
        p = host_loop(nest, slot, p, HOST_S, METATUNE_CONV_S, 1, g.conv->s,
                      UNROLL);
    p = host_loop(nest, slot, p, HOST_CU, METATUNE_CONV_C, 1, g.u, UNROLL);
    /* an input is loaded once for all V vectors */
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_LOAD, slot[HOST_LOAD_A],
                             g.t, a_in, 1);
    p = host_loop(nest, slot, p, HOST_KU, METATUNE_CONV_K, lanes, g.v,
                  UNROLL);
    p = host_loop(nest, slot, p, HOST_KV, METATUNE_CONV_K, 1, lanes, VECTOR);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_LOAD, slot[HOST_LOAD_W],
                             1, a_w, 1);
    p = host_loop(nest, slot, p, HOST_XU, METATUNE_CONV_X, 1, g.t, UNROLL);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_FMA, slot[HOST_FMA], 1,
                             a_fma, 3);
    metatune_encode_stmt_add(nest, e, METATUNE_STMT_STORE,
                             slot[HOST_STORE_C], 1, a_out, 1);
    nest->hint[0] = (metatune_real)(g.prefetch == 0 ? 0
                                    : g.prefetch < 16 ? 1 : 2);
    return nest->status;
}

metatune_status host_kernel_describe(const host_kernel *kernel,
                                     const int64_t *values,
                                     metatune_encode_nest *nest)
{
    int32_t algorithm = (int32_t)values[HOST_KNOB_ALGORITHM];
    metatune_status status = METATUNE_OK;

    /* nest->skeleton says which of the two forms of the layer it holds */
    if (nest->skeleton != algorithm || !nest->n_axes)
        status = host_nest_axes(kernel, algorithm == HOST_FLAT, nest);
    else
        metatune_encode_nest_rewind(nest);
    if (status != METATUNE_OK) return status;
    nest->skeleton = algorithm;
    return host_nest_fill(kernel, values, nest);
}

metatune_status host_kernel_skeleton(int32_t algorithm,
                                     metatune_encode_nest *nest)
{
    /* a setting in which every loop runs more than once and the input is
       staged; which one does not matter */
    static const int64_t values[HOST_ALGORITHMS][HOST_KNOBS] = {
        { HOST_DIRECT, 2, 14, 4, 0, 0, 2, 4, 14, 0, 0 },
        { HOST_FLAT, 2, 14, 4, 0, 0, 2, 4, 14, 0, 0 }
    };
    static const host_march march = { 16, 32 };
    metatune_encode_conv2d conv;
    host_kernel kernel;
    metatune_status status;

    if (algorithm < 0 || algorithm >= HOST_ALGORITHMS || !nest)
        return METATUNE_BAD_ARG;
    conv = algorithm == HOST_FLAT
               ? metatune_encode_conv2d_make(2, 64, 56, 56, 128, 1, 1, 2, 0)
               : metatune_encode_conv2d_make(2, 64, 28, 28, 128, 3, 3, 1, 1);
    status = host_kernel_init(&kernel, &conv, &march, NULL, 0);
    if (status == METATUNE_OK)
        status = host_nest_axes(&kernel, algorithm == HOST_FLAT, nest);
    if (status == METATUNE_OK)
        status = host_nest_fill(&kernel, values[algorithm], nest);
    return status;
}

/* ================================================== [K-PACK] layouts */

size_t host_kernel_in_floats(const host_kernel *kernel)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    return (size_t)c->n * (size_t)c->c * (size_t)c->h * (size_t)c->w;
}

size_t host_kernel_out_floats(const host_kernel *kernel)
{
    return (size_t)kernel->conv.n * (size_t)kernel->ob *
           (size_t)kernel->march.lanes * (size_t)kernel->oh *
           (size_t)kernel->ow;
}

size_t host_kernel_weight_floats(const host_kernel *kernel)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    return (size_t)kernel->ob * (size_t)kernel->march.lanes * (size_t)c->c *
           (size_t)c->r * (size_t)c->s;
}

size_t host_kernel_work_floats(const host_kernel *kernel,
                               const int64_t *values)
{
    host_geo g;

    host_geo_make(kernel, values, &g);
    if (!g.staged) return 0;
    return (size_t)kernel->conv.c * (size_t)g.hs * (size_t)g.ws;
}

void host_kernel_pack_in(const host_kernel *kernel, const float *nchw,
                         float *in)
{
    size_t cb = (size_t)kernel->cb;
    size_t planes = (size_t)kernel->conv.n * (size_t)kernel->ib;
    size_t hw = (size_t)kernel->conv.h * (size_t)kernel->conv.w, i, j, p;

    for (i = 0; i < planes; i++)
        for (j = 0; j < cb; j++)
            for (p = 0; p < hw; p++)
                in[(i * hw + p) * cb + j] = nchw[(i * cb + j) * hw + p];
}

void host_kernel_pack_weight(const host_kernel *kernel,
                             const int64_t *values, const float *kcrs,
                             float *w)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    size_t rs = (size_t)c->r * (size_t)c->s, cb = (size_t)kernel->cb;
    size_t vl = (size_t)values[HOST_KNOB_OCV] * (size_t)kernel->march.lanes;
    size_t groups = (size_t)kernel->ob * (size_t)kernel->march.lanes / vl;
    size_t g, b, i, j, v, ib = (size_t)kernel->ib;

    for (g = 0; g < groups; g++)
        for (b = 0; b < ib; b++)
            for (i = 0; i < rs; i++)
                for (j = 0; j < cb; j++)
                    for (v = 0; v < vl; v++, w++) {
                        size_t k = g * vl + v;
                        *w = k < (size_t)c->k
                                 ? kcrs[((k * ib + b) * cb + j) * rs + i]
                                 : 0.0f;
                    }
}

void host_kernel_unpack_out(const host_kernel *kernel, const float *out,
                            float *nchw)
{
    size_t lanes = (size_t)kernel->march.lanes, k_all = (size_t)kernel->conv.k;
    size_t hw = (size_t)kernel->oh * (size_t)kernel->ow, n, k, p;

    for (n = 0; n < (size_t)kernel->conv.n; n++)
        for (k = 0; k < k_all; k++)
            for (p = 0; p < hw; p++)
                nchw[(n * k_all + k) * hw + p] =
                    out[((n * (size_t)kernel->ob + k / lanes) * hw + p) *
                            lanes + k % lanes];
}

/* ================================================ [K-EMIT] the C writer */

typedef struct host_text {
    char *buf;
    size_t cap, n;
    int full;
} host_text;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void host_put(host_text *text, const char *format, ...)
{
    va_list list;
    int n;

    if (text->full) return;
    va_start(list, format);
    n = vsnprintf(text->buf + text->n, text->cap - text->n, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= text->cap - text->n)
        text->full = 1;
    else
        text->n += (size_t)n;
}

/* One reduction step of a register tile of `width` pixels: V weight vectors,
   width broadcast inputs, V * width multiply-adds. */
static void host_emit_step(host_text *text, const host_kernel *kernel,
                           const host_geo *g, const char *name, int32_t width)
{
    int32_t v, x, lanes = kernel->march.lanes;
    int32_t pixel = g->conv->stride_w * kernel->cb;

    host_put(text, "#define %s_STEP(p, q) do { \\\n    float x;", name);
    for (v = 0; v < g->v; v++)
        host_put(text, " %s_v w%d = *(const %s_v *)((q) + %d);", name, v,
                 name, v * lanes);
    host_put(text, " \\\n");
    if (g->prefetch)
        for (v = 0; v * 16 < g->v * lanes; v++)
            host_put(text, "    __builtin_prefetch((q) + %d); \\\n",
                     g->prefetch * lanes + v * 16);
    for (x = 0; x < width; x++) {
        host_put(text, "    x = (p)[%d];", x * pixel);
        for (v = 0; v < g->v; v++)
            host_put(text, " a%d_%d += w%d * x;", v, x, v);
        host_put(text, " \\\n");
    }
    host_put(text, "} while (0)\n");
}

/* The micro kernel: nb input blocks into one register tile. */
static void host_emit_micro(host_text *text, const host_kernel *kernel,
                            const host_geo *g, const char *name,
                            int32_t width)
{
    const metatune_encode_conv2d *c = g->conv;
    int32_t lanes = kernel->march.lanes, cb = kernel->cb;
    int32_t vl = g->v * lanes, plane = g->rows * g->extent * lanes;
    int32_t v, x, s, i;

    host_emit_step(text, kernel, g, name, width);
    host_put(text,
             "static __attribute__((noinline)) void\n"
             "%s_m%d(const float *in, const float *w, float *out, int nb,"
             " int first)\n{\n    int b, r%s%s;\n",
             name, width, !g->kwu && c->s > 1 ? ", s" : "",
             g->u < cb ? ", c" : "");
    for (v = 0; v < g->v; v++) {
        host_put(text, "    %s_v", name);
        for (x = 0; x < width; x++)
            host_put(text, " a%d_%d%c", v, x, x + 1 < width ? ',' : ';');
        host_put(text, "\n");
    }
    host_put(text, "    if (first) {\n");
    for (v = 0; v < g->v; v++)
        for (x = 0; x < width; x++)
            host_put(text, "        a%d_%d = (%s_v){ 0 };\n", v, x, name);
    host_put(text, "    } else {\n");
    for (v = 0; v < g->v; v++)
        for (x = 0; x < width; x++)
            host_put(text, "        a%d_%d = *(%s_v *)(out + %ld);\n", v, x,
                     name, (long)v * plane + (long)x * lanes);
    host_put(text,
             "    }\n"
             "    for (b = 0; b < nb; b++, in += %ld)\n"
             "        for (r = 0; r < %d; r++",
             (long)g->hs * g->ws * cb, c->r);
    if (!g->kwu) {
        host_put(text, ") {\n            const float *p = in + r * %ldL;\n",
                 (long)c->dil_h * g->ws * cb);
        if (c->s > 1)
            host_put(text, "            for (s = 0; s < %d; s++, p += %d) {\n",
                     c->s, c->dil_w * cb);
        else
            host_put(text, "            {\n");
        if (g->u < cb)
            host_put(text,
                     "                for (c = 0; c < %d; c += %d, w += %d) "
                     "{\n",
                     cb, g->u, g->u * vl);
        for (i = 0; i < g->u; i++)
            host_put(text, "                %s_STEP(p%s + %d, w + %d);\n",
                     name, g->u < cb ? " + c" : "", i, i * vl);
        if (g->u < cb)
            host_put(text, "                }\n");
        else
            host_put(text, "                w += %d;\n", cb * vl);
        host_put(text, "            }\n        }\n");
    } else {
        host_put(text, ", w += %d) {\n"
                 "            const float *p = in + r * %ldL;\n",
                 c->s * cb * vl, (long)c->dil_h * g->ws * cb);
        host_put(text, "            const float *q = w;\n");
        if (g->u < cb)
            host_put(text,
                     "            for (c = 0; c < %d; c += %d, p += %d, q += "
                     "%d) {\n",
                     cb, g->u, g->u, g->u * vl);
        for (s = 0; s < c->s; s++)
            for (i = 0; i < g->u; i++)
                host_put(text, "                %s_STEP(p + %d, q + %d);\n",
                         name, s * c->dil_w * cb + i, (s * cb + i) * vl);
        if (g->u < cb) host_put(text, "            }\n");
        host_put(text, "        }\n");
    }
    for (v = 0; v < g->v; v++)
        for (x = 0; x < width; x++)
            host_put(text, "    *(%s_v *)(out + %ld) = a%d_%d;\n", name,
                     (long)v * plane + (long)x * lanes, v, x);
    host_put(text, "}\n#undef %s_STEP\n", name);
}

/* One image into the workspace: with its padding, or only the pixels that a
   1x1 kernel visits. */
static void host_emit_stage(host_text *text, const host_kernel *kernel,
                            const host_geo *g, const char *name)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t cb = kernel->cb;

    host_put(text,
             "static void %s_stage(const float *in, float *to)\n{\n"
             "    int b, y%s;\n    for (b = 0; b < %d; b++)\n"
             "        for (y = 0; y < %d; y++",
             name, g->flat ? ", x" : "", kernel->ib,
             g->flat ? kernel->oh : g->hs);
    if (g->flat) {
        host_put(text,
                 ")\n            for (x = 0; x < %d; x++, to += %d) {\n"
                 "                int iy = y * %d - %d, ix = x * %d - %d;\n"
                 "                if (iy < 0 || iy >= %d || ix < 0 || ix >= "
                 "%d)\n"
                 "                    __builtin_memset(to, 0, %d * sizeof "
                 "*to);\n"
                 "                else\n"
                 "                    __builtin_memcpy(to, in + ((b * %ldL + "
                 "iy) * %d + ix) * %d,\n"
                 "                                     %d * sizeof *to);\n"
                 "            }\n}\n",
                 kernel->ow, cb, c->stride_h, c->pad_top, c->stride_w,
                 c->pad_left, c->h, c->w, cb, (long)c->h, c->w, cb, cb);
        return;
    }
    host_put(text, ", to += %d) {\n", g->ws * cb);
    host_put(text,
             "            if (y < %d || y >= %d) {\n"
             "                __builtin_memset(to, 0, %d * sizeof *to);\n"
             "                continue;\n            }\n",
             c->pad_top, c->pad_top + c->h, g->ws * cb);
    if (c->pad_left)
        host_put(text, "            __builtin_memset(to, 0, %d * sizeof *to);"
                 "\n", c->pad_left * cb);
    host_put(text,
             "            __builtin_memcpy(to + %d, in + (b * %ldL + y - %d) "
             "* %d, %d * sizeof *to);\n",
             c->pad_left * cb, (long)c->h, c->pad_top, c->w * cb,
             c->w * cb);
    if (c->pad_right)
        host_put(text, "            __builtin_memset(to + %d, 0, %d * sizeof "
                 "*to);\n",
                 (c->pad_left + c->w) * cb, c->pad_right * cb);
    host_put(text, "        }\n}\n");
}

/* Cache tiles: `outer` is {kt, ct, yt, order, inner} of host_kernel_outer. */
static void host_emit_nest(host_text *text, const host_kernel *kernel,
                           const host_geo *g, const char *name,
                           const char *linkage, const char *suffix)
{
    const metatune_encode_conv2d *c = g->conv;
    int32_t cb = kernel->cb, lanes = kernel->march.lanes, pass;
    long weights = (long)c->r * c->s * cb * g->v * lanes;

    host_put(text,
             "static inline void %s_tile(const float *in, const float *w, "
             "float *out,\n    int k, int y, int t, int nb, int first)\n{\n"
             "    in += (y * %ldL + t * %ldL) * %d;\n"
             "    w += k * %ldL;\n"
             "    out += ((k * %ldL + y) * %ldL + t * %ldL) * %d;\n",
             name, (long)c->stride_h * g->ws, (long)g->t * c->stride_w, cb,
             weights * kernel->ib, (long)g->v * g->rows, (long)g->extent,
             (long)g->t, lanes);
    if (g->tail)
        host_put(text,
                 "    if (t == %d)\n        %s_m%d(in, w, out, nb, first);\n"
                 "    else\n    ",
                 g->tiles - 1, name, g->tail);
    host_put(text, "    %s_m%d(in, w, out, nb, first);\n}\n", name, g->t);

    host_put(text,
             "%svoid %s%s(const float *in, const float *w, float *out,\n"
             "    float *work, const int *outer)\n{\n"
             "    static const unsigned char order[6][3] = {\n"
             "        { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 },\n"
             "        { 2, 1, 0 }, { 0, 2, 1 }, { 1, 2, 0 } };\n"
             "    static const int all[3] = { %d, %d, %d };\n"
             "    const unsigned char *d = order[outer[3]];\n"
             "    int n, i[3], to[3], k, y, t;\n",
             linkage, name, suffix, kernel->ob / g->v,
             g->flat ? g->tiles : g->rows, kernel->ib);
    if (!g->staged) host_put(text, "    (void)work;\n");
    host_put(text, "    for (n = 0; n < %d; n++) {\n", c->n);
    if (g->staged)
        host_put(text,
                 "    const float *src = work;\n"
                 "    %s_stage(in + n * %ldL, work);\n",
                 name,
                 (long)kernel->conv.c * kernel->conv.h * kernel->conv.w);
    else
        host_put(text, "    const float *src = in + n * %ldL;\n",
                 (long)kernel->conv.c * kernel->conv.h * kernel->conv.w);
    host_put(text, "    float *dst = out + n * %ldL;\n",
             (long)kernel->ob * kernel->oh * kernel->ow * lanes);
    for (pass = 0; pass < 3; pass++)
        host_put(text, "    for (i[d[%d]] = 0; i[d[%d]] < all[d[%d]]; "
                 "i[d[%d]] += outer[d[%d]]) {\n",
                 pass, pass, pass, pass, pass);
    host_put(text,
             "        const float *a = src + i[2] * %ldL;\n"
             "        const float *b = w + i[2] * %ldL;\n"
             "        int nb, first = i[2] == 0;\n"
             "        for (k = 0; k < 3; k++) {\n"
             "            to[k] = i[k] + outer[k];\n"
             "            if (to[k] > all[k]) to[k] = all[k];\n"
             "        }\n"
             "        nb = to[2] - i[2];\n"
             "        if (outer[4] == 0) {\n",
             (long)g->hs * g->ws * cb, weights);
    for (pass = 0; pass < 2; pass++) {
        const char *loops[3];
        int i;
        loops[pass ? 2 : 0] = "            for (k = i[0]; k < to[0]; k++)\n";
        if (g->flat) {
            loops[pass ? 0 : 1] = "";
            loops[pass ? 1 : 2] =
                "            for (t = i[1], y = 0; t < to[1]; t++)\n";
        } else {
            loops[pass ? 0 : 1] =
                "            for (y = i[1]; y < to[1]; y++)\n";
            loops[pass ? 1 : 2] = NULL;
        }
        for (i = 0; i < 3; i++)
            if (loops[i])
                host_put(text, "%s", loops[i]);
            else
                host_put(text, "            for (t = 0; t < %d; t++)\n",
                         g->tiles);
        host_put(text,
                 "                %s_tile(a, b, dst, k, y, t, nb, first);\n",
                 name);
        host_put(text, pass ? "        }\n" : "        } else {\n");
    }
    host_put(text, "    }}}\n    }\n}\n");
}

static void host_emit_head(host_text *text, const host_kernel *kernel,
                           const host_geo *g, const char *name)
{
    host_put(text,
             "typedef float %s_v __attribute__((vector_size(%d), aligned(4),"
             " may_alias));\n",
             name, kernel->march.lanes * 4);
    host_emit_micro(text, kernel, g, name, g->t);
    if (g->tail) host_emit_micro(text, kernel, g, name, g->tail);
    if (g->staged) host_emit_stage(text, kernel, g, name);
}

static size_t host_text_end(const host_text *text)
{
    if (text->full || text->n == 0) {
        if (text->cap) text->buf[0] = 0;
        return 0;
    }
    return text->n;
}

void host_kernel_outer(const host_kernel *kernel, const int64_t *values,
                       int outer[HOST_OUTER])
{
    host_geo g;

    host_geo_make(kernel, values, &g);
    memset(outer, 0, HOST_OUTER * sizeof outer[0]);
    outer[0] = g.kt;
    outer[1] = g.yt;
    outer[2] = g.ict;
    outer[3] = (int)values[HOST_KNOB_ORDER];
    outer[4] = (int)values[HOST_KNOB_INNER];
}

size_t host_kernel_emit(const host_kernel *kernel, const int64_t *values,
                        const char *name, char *buf, size_t cap)
{
    host_text text = { buf, cap, 0, cap == 0 };
    int outer[HOST_OUTER];
    host_geo g;

    host_geo_make(kernel, values, &g);
    host_kernel_outer(kernel, values, outer);
    host_emit_head(&text, kernel, &g, name);
    host_emit_nest(&text, kernel, &g, name, "static ", "_nest");
    host_put(&text,
             "void %s(const float *in, const float *w, float *out, float "
             "*work);\n"
             "void %s(const float *in, const float *w, float *out, float "
             "*work)\n{\n"
             "    static const int outer[5] = { %d, %d, %d, %d, %d };\n"
             "    %s_nest(in, w, out, work, outer);\n}\n",
             name, name, outer[0], outer[1], outer[2], outer[3], outer[4],
             name);
    return host_text_end(&text);
}

size_t host_kernel_emit_outer(const host_kernel *kernel,
                              const int64_t *values, const char *name,
                              char *buf, size_t cap)
{
    host_text text = { buf, cap, 0, cap == 0 };
    host_geo g;

    host_geo_make(kernel, values, &g);
    host_emit_head(&text, kernel, &g, name);
    host_put(&text,
             "void %s(const float *in, const float *w, float *out,\n"
             "    float *work, const int *outer);\n", name);
    host_emit_nest(&text, kernel, &g, name, "", "");
    return host_text_end(&text);
}

size_t host_kernel_emit_pack(const host_kernel *kernel,
                             const int64_t *values, const char *name,
                             char *buf, size_t cap)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    host_text text = { buf, cap, 0, cap == 0 };
    int32_t lanes = kernel->march.lanes, vl;

    vl = (int32_t)values[HOST_KNOB_OCV] * lanes;
    host_put(&text,
             "void %s_pack_in(const float *nchw, float *in);\n"
             "void %s_pack_in(const float *nchw, float *in)\n{\n"
             "    long i, j, p;\n"
             "    for (i = 0; i < %ld; i++)\n"
             "        for (j = 0; j < %d; j++)\n"
             "            for (p = 0; p < %ld; p++)\n"
             "                in[(i * %ld + p) * %d + j] =\n"
             "                    nchw[(i * %d + j) * %ld + p];\n}\n",
             name, name, (long)c->n * kernel->ib, kernel->cb,
             (long)c->h * c->w, (long)c->h * c->w, kernel->cb, kernel->cb,
             (long)c->h * c->w);
    host_put(&text,
             "void %s_pack_weight(const float *kcrs, float *w);\n"
             "void %s_pack_weight(const float *kcrs, float *w)\n{\n"
             "    long g, b, i, j, v;\n"
             "    for (g = 0; g < %ld; g++)\n"
             "        for (b = 0; b < %d; b++)\n"
             "            for (i = 0; i < %ld; i++)\n"
             "                for (j = 0; j < %d; j++)\n"
             "                    for (v = 0; v < %d; v++, w++) {\n"
             "                        long k = g * %d + v;\n"
             "                        *w = k < %d ? kcrs[((k * %d + b) * %d +"
             " j) * %ld + i] : 0.0f;\n"
             "                    }\n}\n",
             name, name, (long)kernel->ob * lanes / vl, kernel->ib,
             (long)c->r * c->s, kernel->cb, vl, vl, c->k, kernel->ib,
             kernel->cb, (long)c->r * c->s);
    host_put(&text,
             "void %s_unpack_out(const float *out, float *nchw);\n"
             "void %s_unpack_out(const float *out, float *nchw)\n{\n"
             "    long n, k, p;\n"
             "    for (n = 0; n < %d; n++)\n"
             "        for (k = 0; k < %d; k++)\n"
             "            for (p = 0; p < %ld; p++)\n"
             "                nchw[(n * %d + k) * %ld + p] =\n"
             "                    out[((n * %d + k / %d) * %ld + p) * %d + k "
             "%% %d];\n}\n",
             name, name, c->n, c->k, (long)kernel->oh * kernel->ow, c->k,
             (long)kernel->oh * kernel->ow, kernel->ob, lanes,
             (long)kernel->oh * kernel->ow, lanes, lanes);
    return host_text_end(&text);
}
