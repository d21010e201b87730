/* host_plane.c - 1x1 convolution on planes: vectors along the pixels

   A matrix product out(K,P) = w(K,C) * in(C,P) with P pixels of an image. A
   register tile holds V pixel vectors x T output channels and sums over all
   input channels; a step loads V input vectors, broadcasts T weights and does
   V * T multiply-adds. Around it run cache tiles: kt register tiles of output
   channels (k), yt of pixels (y).

   What is left of the pixels, less than V vectors, is a tile of its own:
   whole vectors, and then either one vector more that begins before the whole
   ones end (the same values are stored twice), or, when few pixels are left,
   vectors along the output channels: a pixel is broadcast, T weights are a
   vector.

   Prefetch is 8: the next tile's pixels, or 32: weights 32 vectors ahead.

   Order cyk (the channels of a y tile before all else) first copies the
   pixels of a cache tile into panels, (C, pixels of a register tile) each,
   which are dense in the caches.

   Packed weights: (ceil(K / T), C, T), the last group (C, K % T); then L
   values that vectors along the channels may read.

   Rooms: [P-LIST] knobs, [P-GEO] geometry, [P-VALID] constraints, [P-NEST]
   loop nest, [P-PACK] weights, [P-EMIT] the C writer. */
#include "host_algo.h"

#include <string.h>

enum {
    PLANE_TILE_MAX = 28,         /* output channels of a register tile */
    PLANE_BODY_MAX = 128,        /* multiply-adds of an unrolled body */
    PLANE_PANEL = 3              /* order: 0 kyc, 1 ykc, 3 cyk: with panels */
};

/* ========================================================= [P-LIST] knobs */

/* A tile of t channels is worth having when no smaller one needs as few. */
static int plane_tile_good(const host_kernel *kernel, int64_t v, int64_t t)
{
    int32_t k = kernel->conv.k, n = (int32_t)t;

    if (n < 1 || n > k || n > PLANE_TILE_MAX) return 0;
    /* V inputs and a weight beside the sums; one input: the weight may come
       from memory */
    if (v * t + v + (v > 1) > kernel->march.vregs) return 0;
    if (n < 4 && n < k) return 0;
    return n == host_ceil_div(k, host_ceil_div(k, n));
}

static int32_t plane_pixels(const host_kernel *kernel)
{
    return kernel->oh * kernel->ow;
}

static int plane_vectors_good(const host_kernel *kernel, int64_t v)
{
    return v == 1 || (v <= 4 && v * kernel->march.lanes <=
                                    plane_pixels(kernel));
}

static int plane_unroll_good(const host_kernel *kernel, int64_t u)
{
    /* fewer pixels than a vector: no micro kernel that it could unroll */
    if (u > 1 && plane_pixels(kernel) < kernel->march.lanes) return 0;
    return (u == 1 || u == 2 || u == 4 || u == 8) && kernel->conv.c % u == 0;
}

static int plane_suits(const host_kernel *kernel)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    return c->layout == METATUNE_NCHW && c->r == 1 && c->s == 1 &&
           c->groups == 1 && kernel->in_bytes == 4 &&
           c->dtype_in == METATUNE_F32;
}

static void plane_lists(host_kernel *kernel)
{
    int32_t i, added = 0;

    for (i = 1; i <= 4; i++)
        if (plane_vectors_good(kernel, i))
            host_list_add(kernel, HOST_KNOB_OCV, i);
    for (i = PLANE_TILE_MAX; i >= 1 && added < 9; i--)
        if (plane_tile_good(kernel, 1, i)) {
            host_list_add(kernel, HOST_KNOB_OWT, i);
            added++;
        }
    for (i = 1; i <= 8; i *= 2)
        if (plane_unroll_good(kernel, i))
            host_list_add(kernel, HOST_KNOB_UNROLL, i);
    host_list_add(kernel, HOST_KNOB_ORDER, PLANE_PANEL);
    for (i = 0; i < 2; i++) {
        host_list_add(kernel, HOST_KNOB_ORDER, i);
        host_list_add(kernel, HOST_KNOB_INNER, i);
        if (kernel->march.threads > 1 || i == 0)
            host_list_add(kernel, HOST_KNOB_SPLIT, i);
    }
    host_list_add(kernel, HOST_KNOB_PREFETCH, 0);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 8);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 32);
    host_list_divisors(kernel, HOST_KNOB_OCT,
                       host_ceil_div(kernel->conv.k, kernel->march.lanes));
    for (i = 1; i <= 32; i *= 2)
        host_list_add(kernel, HOST_KNOB_OHT, host_ceil_div(kernel->oh, i));
}

/* ====================================================== [P-GEO] geometry */

typedef struct plane_geo {
    int32_t lanes, c, k, p;      /* p: pixels of an image */
    int32_t v, t, u, prefetch;
    int panel;
    int32_t width;               /* v * lanes */
    int32_t full, ktail;         /* whole pixel tiles; channels of the last
                                    channel tile if fewer than t, else 0 */
    int32_t rest_v, rest_at;     /* vectors of the last pixel tile, and the
                                    pixel where they begin */
    int32_t few;                 /* pixels after them */
    int overlap;                 /* the last tile's vectors cover pixels of
                                    the one before */
    int32_t all[2], part[2], tile[2], trip[2]; /* register tiles: k, y */
} plane_geo;

static void plane_geo_make(const host_kernel *kernel, const int64_t *values,
                           plane_geo *g)
{
    int32_t i, left, split = values[HOST_KNOB_SPLIT] ? 1 : 0;

    memset(g, 0, sizeof *g);
    g->lanes = kernel->march.lanes;
    g->c = kernel->conv.c;
    g->k = kernel->conv.k;
    g->p = plane_pixels(kernel);
    g->v = (int32_t)values[HOST_KNOB_OCV];
    g->t = (int32_t)values[HOST_KNOB_OWT];
    g->u = (int32_t)values[HOST_KNOB_UNROLL];
    g->prefetch = (int32_t)values[HOST_KNOB_PREFETCH];
    g->panel = values[HOST_KNOB_ORDER] == PLANE_PANEL;
    g->width = g->v * g->lanes;
    g->full = g->p / g->width;
    g->ktail = g->k % g->t;
    left = g->p % g->width;
    g->rest_v = left / g->lanes;
    g->few = left % g->lanes;
    g->rest_at = g->full * g->width;
    /* a vector more costs t multiply-adds a step, a pixel t / lanes */
    if (g->few * host_ceil_div(g->t, g->lanes) * 4 > g->t * 3 &&
        g->p >= (g->rest_v + 1) * g->lanes) {
        g->rest_v++;
        g->few = 0;
        g->rest_at = g->p - g->rest_v * g->lanes;
    }
    g->all[0] = host_ceil_div(g->k, g->t);
    g->all[1] = g->full + (left > 0);
    g->tile[0] = host_ceil_div((int32_t)values[HOST_KNOB_OCT] * g->lanes,
                               g->t);
    g->tile[1] = host_ceil_div((int32_t)values[HOST_KNOB_OHT] * kernel->ow,
                               g->width);
    g->overlap = g->rest_at < g->full * g->width;
    for (i = 0; i < 2; i++) {
        int32_t n = i == split ? kernel->march.threads : 1;
        /* tiles that overlap stay with one thread: the last part has one
           more than a fair share of the others */
        g->part[i] = i == 1 && g->overlap && n > 1
                         ? g->all[1] - (int32_t)((int64_t)(g->all[1] - 1) *
                                                 (n - 1) / n)
                         : host_ceil_div(g->all[i], n);
        if (g->tile[i] > g->part[i]) g->tile[i] = g->part[i];
        g->trip[i] = host_ceil_div(g->part[i], g->tile[i]);
    }
}

/* Values of the panels that one part needs. */
static size_t plane_panel(const plane_geo *g)
{
    return g->panel ? (size_t)g->tile[1] * (size_t)g->c * (size_t)g->width
                    : 0;
}

static void plane_plan(const host_kernel *kernel, const int64_t *values,
                       host_plan *plan)
{
    plane_geo g;

    plane_geo_make(kernel, values, &g);
    plan->stage = HOST_STAGE_PLANE;
    host_view_out(kernel, &plan->dst);
    plan->dst.h = 1;
    plan->dst.w = g.p;
    plan->dst.row = g.p;
    plan->unstaged = 0;
    plan->core_bytes = plane_panel(&g) * sizeof(float) *
                       (size_t)kernel->march.threads;
}

/* ========================== [P-VALID] constraints, repair, default */

/* The smallest listed value of a knob whose cache tile is as large: it
   stands for all of them. */
static int64_t plane_tile_least(const host_kernel *kernel,
                                const int64_t *values, int knob, int dim)
{
    const host_knob *list = &kernel->knob[knob];
    int64_t other[HOST_KNOBS];
    plane_geo g, h;
    uint32_t i;

    memcpy(other, values, sizeof other);
    plane_geo_make(kernel, values, &g);
    for (i = 0; list->values[i] < values[knob]; i++) {
        other[knob] = list->values[i];
        plane_geo_make(kernel, other, &h);
        if (h.tile[dim] == g.tile[dim]) return other[knob];
    }
    return values[knob];
}

/* The order of cache tiles, and of the register tiles in one, that makes the
   same kernel as this one and is listed first; c means something only where
   it stands before all. Panels are made once for all channels. */
static int64_t plane_order_first(const plane_geo *g, int64_t order)
{
    if (g->panel) return order;
    return (order == 1 || order == 5) && g->trip[0] > 1 && g->trip[1] > 1;
}

static int64_t plane_inner_first(const plane_geo *g, int64_t inner)
{
    return g->tile[0] > 1 && g->tile[1] > 1 ? inner : 0;
}

/* 8 fetches the input ahead, 32 the weights; a panel is in cache, and so are
   pixels fewer than a vector. */
static int64_t plane_prefetch_near(const plane_geo *g, int64_t value)
{
    if (value >= 32) return 32;
    return value < 8 || g->panel || !(g->full || g->rest_v) ? 0 : 8;
}

static int plane_valid(const host_kernel *kernel, const int64_t *values)
{
    plane_geo g;

    if (!plane_vectors_good(kernel, values[HOST_KNOB_OCV]) ||
        !plane_tile_good(kernel, values[HOST_KNOB_OCV],
                         values[HOST_KNOB_OWT]) ||
        !plane_unroll_good(kernel, values[HOST_KNOB_UNROLL]) ||
        values[HOST_KNOB_OCV] * values[HOST_KNOB_OWT] *
                values[HOST_KNOB_UNROLL] > PLANE_BODY_MAX)
        return 0;
    plane_geo_make(kernel, values, &g);
    return plane_prefetch_near(&g, values[HOST_KNOB_PREFETCH]) ==
               values[HOST_KNOB_PREFETCH] &&
           plane_tile_least(kernel, values, HOST_KNOB_OCT, 0) ==
               values[HOST_KNOB_OCT] &&
           plane_tile_least(kernel, values, HOST_KNOB_OHT, 1) ==
               values[HOST_KNOB_OHT] &&
           plane_order_first(&g, values[HOST_KNOB_ORDER]) ==
               values[HOST_KNOB_ORDER] &&
           plane_inner_first(&g, values[HOST_KNOB_INNER]) ==
               values[HOST_KNOB_INNER];
}

static int plane_repair(const host_kernel *kernel, int64_t *values)
{
    const host_knob *list = &kernel->knob[HOST_KNOB_OWT];
    int64_t v, t = 0, now = values[HOST_KNOB_OWT];
    plane_geo g;
    uint32_t i;

    v = values[HOST_KNOB_OCV];
    while (!plane_vectors_good(kernel, v)) v--;
    values[HOST_KNOB_OCV] = v;
    /* the nearest tile that is no taller, else the least */
    for (i = 0; i < list->n_values; i++)
        if (plane_tile_good(kernel, v, list->values[i]) &&
            (t == 0 || list->values[i] <= now))
            t = list->values[i];
    if (t == 0) {
        v = values[HOST_KNOB_OCV] = 1;
        for (i = 0; i < list->n_values; i++)
            if (plane_tile_good(kernel, v, list->values[i]) &&
                (t == 0 || list->values[i] <= now))
                t = list->values[i];
    }
    if (t == 0) return 0;
    values[HOST_KNOB_OWT] = t;
    while (values[HOST_KNOB_UNROLL] > 1 &&
           (!plane_unroll_good(kernel, values[HOST_KNOB_UNROLL]) ||
            v * t * values[HOST_KNOB_UNROLL] > PLANE_BODY_MAX))
        values[HOST_KNOB_UNROLL]--;
    values[HOST_KNOB_OCT] =
        plane_tile_least(kernel, values, HOST_KNOB_OCT, 0);
    values[HOST_KNOB_OHT] =
        plane_tile_least(kernel, values, HOST_KNOB_OHT, 1);
    plane_geo_make(kernel, values, &g);
    values[HOST_KNOB_ORDER] = plane_order_first(&g, values[HOST_KNOB_ORDER]);
    values[HOST_KNOB_INNER] = plane_inner_first(&g, values[HOST_KNOB_INNER]);
    values[HOST_KNOB_PREFETCH] =
        plane_prefetch_near(&g, values[HOST_KNOB_PREFETCH]);
    return 1;
}

/* Cycles of a step of a tile with this many multiply-adds and loads: two of
   each a cycle, `wait` at least until a sum can be added to again, and the
   loop's. */
static double plane_step_cost(int32_t fma, int32_t load, double wait)
{
    double cycles = (fma > load ? fma : load) / 2.0;

    return (cycles > wait ? cycles : wait) + 0.75;
}

/* The same for t channels and all pixels. */
static double plane_row_cost(const plane_geo *g, int32_t t)
{
    int32_t along = host_ceil_div(t, g->lanes);
    /* vectors of pixels often lie across two lines: two loads */
    double cost = g->full * plane_step_cost(g->v * t, 2 * g->v + t, 4);

    if (g->rest_v)
        cost += plane_step_cost(g->rest_v * t, 2 * g->rest_v + t, 4);
    if (g->few)
        cost += plane_step_cost(g->few * along, g->few + 2 * along, 1);
    return cost;
}

static double plane_cost(const plane_geo *g)
{
    double cost = (double)(g->k / g->t) * plane_row_cost(g, g->t);

    if (g->ktail) cost += plane_row_cost(g, g->ktail);
    /* one vector: the weights pass through the caches too often; three: more
       stores and less to do between them */
    return cost * (g->v == 1 ? 1.15 : g->v == 2 ? 1.0 : 1.03);
}

static void plane_defaults(const host_kernel *kernel, int64_t *values)
{
    const host_knob *list = &kernel->knob[HOST_KNOB_OWT];
    int64_t v, best_v = 1, best_t = 0;
    double best = 0, cost;
    plane_geo g;
    uint32_t i;

    values[HOST_KNOB_UNROLL] = 2;
    values[HOST_KNOB_ORDER] = 0;
    values[HOST_KNOB_OCT] = host_list_floor(kernel, HOST_KNOB_OCT, 1e9);
    values[HOST_KNOB_OHT] = kernel->oh;
    values[HOST_KNOB_SPLIT] = 0;
    for (v = 1; v <= 4; v++) {
        if (!plane_vectors_good(kernel, v)) continue;
        for (i = 0; i < list->n_values; i++) {
            if (!plane_tile_good(kernel, v, list->values[i])) continue;
            values[HOST_KNOB_OCV] = v;
            values[HOST_KNOB_OWT] = list->values[i];
            plane_geo_make(kernel, values, &g);
            cost = plane_cost(&g);
            if (best_t == 0 || cost < best) {
                best = cost;
                best_v = v;
                best_t = list->values[i];
            }
        }
    }
    values[HOST_KNOB_OCV] = best_v;
    values[HOST_KNOB_OWT] = best_t;
    plane_geo_make(kernel, values, &g);
    if (g.full >= 4 * kernel->march.threads)
        values[HOST_KNOB_SPLIT] =
            host_list_floor(kernel, HOST_KNOB_SPLIT, 1);
    /* The larger of the two factors passes through the caches once, and is
       what to fetch ahead; a small input may pass often when the output is
       large, which is then written in order. */
    values[HOST_KNOB_INNER] =
        g.k < g.p && !(g.k >= 2 * g.c && (double)g.p * g.c <= 262144);
    values[HOST_KNOB_PREFETCH] = g.p >= 1024 || (double)g.p * g.c > 262144
                                     ? 8 : 32;
    if (values[HOST_KNOB_PREFETCH] == 32 && g.full >= 4 && g.k >= 256) {
        /* copies pay when many channels use them */
        values[HOST_KNOB_ORDER] = PLANE_PANEL;
        values[HOST_KNOB_INNER] = 1;
        values[HOST_KNOB_OHT] = host_list_floor(kernel, HOST_KNOB_OHT, 4);
    }
    (void)plane_repair(kernel, values);
}

/* ======================================================== [P-NEST] nests */

/* Slots of the skeleton; 0 is the root. */
enum {
    P_N = 1, P_PART, P_KO, P_YO, P_KI, P_XO, P_CI, P_CU, P_KU, P_XU, P_XV,
    P_KE, P_XE, P_LOAD_A, P_LOAD_W, P_FMA, P_STORE_C, P_COPY, P_PANEL
};

static metatune_status plane_nest(const host_kernel *kernel,
                                  const int64_t *values,
                                  const host_plan *plan,
                                  metatune_encode_nest *nest)
{
    enum { SERIAL = METATUNE_LOOP_SERIAL, UNROLL = METATUNE_LOOP_UNROLL,
           VECTOR = METATUNE_LOOP_VECTOR, PARALLEL = METATUNE_LOOP_PARALLEL };
    const int32_t threads = kernel->march.threads;
    metatune_encode_dim *dim;
    int32_t p, e, pass;
    plane_geo g;

    plane_geo_make(kernel, values, &g);
    host_dims_view(&nest->tensor[METATUNE_CONV_INPUT], &plan->src);
    host_dims_view(&nest->tensor[METATUNE_CONV_OUTPUT], &plan->dst);
    dim = nest->tensor[METATUNE_CONV_WEIGHT].dim;
    host_dim_set(&dim[0], g.t, 1, (double)g.c * g.t);
    host_dim_set(&dim[1], 0, g.t, 0);
    host_dim_set(&dim[2], 0, g.t, 0);
    host_dim_set(&dim[3], 0, g.t, 0);

    p = host_loop(nest, -1, METATUNE_CONV_N, 1, kernel->conv.n, SERIAL, P_N);
    if (plan->staged)
        metatune_encode_copy_add(nest, p, METATUNE_CONV_INPUT,
                                 METATUNE_SCOPE_GLOBAL, P_COPY);
    if (values[HOST_KNOB_SPLIT])
        p = host_loop(nest, p, METATUNE_CONV_X, g.part[1] * g.width, threads,
                      PARALLEL, P_PART);
    else
        p = host_loop(nest, p, METATUNE_CONV_K, g.part[0] * g.t, threads,
                      PARALLEL, P_PART);
    for (pass = 0; pass < 2; pass++)
        if (pass == (values[HOST_KNOB_ORDER] ? 1 : 0)) {
            p = host_loop(nest, p, METATUNE_CONV_K, g.tile[0] * g.t,
                          g.trip[0], SERIAL, P_KO);
        } else {
            p = host_loop(nest, p, METATUNE_CONV_X, g.tile[1] * g.width,
                          g.trip[1], SERIAL, P_YO);
            if (g.panel)
                metatune_encode_copy_add(nest, p, METATUNE_CONV_INPUT,
                                         METATUNE_SCOPE_LOCAL, P_PANEL);
        }
    for (pass = 0; pass < 2; pass++)
        if (pass == values[HOST_KNOB_INNER])
            p = host_loop(nest, p, METATUNE_CONV_K, g.t, g.tile[0], SERIAL,
                          P_KI);
        else
            p = host_loop(nest, p, METATUNE_CONV_X, g.width, g.tile[1],
                          SERIAL, P_XO);
    /* once a register tile: serial, see host_direct_nest */
    e = host_loop(nest, p, METATUNE_CONV_K, 1, g.t, SERIAL, P_KE);
    e = host_loop(nest, e, METATUNE_CONV_X, 1, g.width, VECTOR, P_XE);
    p = host_loop(nest, p, METATUNE_CONV_C, g.u, g.c / g.u, SERIAL, P_CI);
    p = host_loop(nest, p, METATUNE_CONV_C, 1, g.u, UNROLL, P_CU);
    host_access(nest, p, METATUNE_STMT_LOAD, P_LOAD_W, g.t,
                METATUNE_CONV_WEIGHT);
    p = host_loop(nest, p, METATUNE_CONV_X, g.lanes, g.v, UNROLL, P_XU);
    p = host_loop(nest, p, METATUNE_CONV_X, 1, g.lanes, VECTOR, P_XV);
    host_access(nest, p, METATUNE_STMT_LOAD, P_LOAD_A, 1, METATUNE_CONV_INPUT);
    p = host_loop(nest, p, METATUNE_CONV_K, 1, g.t, UNROLL, P_KU);
    host_fma(nest, p, P_FMA);
    host_access(nest, e, METATUNE_STMT_STORE, P_STORE_C, 1,
                METATUNE_CONV_OUTPUT);
    nest->hint[0] = (metatune_real)(g.prefetch == 0 ? 0.0
                                    : g.prefetch == 8 ? 0.7 : 1.4);
    return nest->status;
}

static void plane_canonical(metatune_encode_conv2d *conv, int64_t *values)
{
    static const int64_t all[HOST_KNOBS] = { HOST_PLANE, 2, 13, 4, 0, 0, 1, 4,
                                             14, 3, 0, 1 };

    *conv = metatune_encode_conv2d_make(2, 64, 112, 112, 256, 1, 1, 2, 0);
    memcpy(values, all, sizeof all);
}

/* ====================================================== [P-PACK] weights */

static size_t plane_weight_size(const host_kernel *kernel,
                                const int64_t *values)
{
    (void)values;
    return ((size_t)kernel->conv.k * (size_t)kernel->conv.c +
            (size_t)kernel->march.lanes) * sizeof(float);
}

static void plane_pack_weight(const host_kernel *kernel,
                              const int64_t *values, const void *kcrs,
                              void *w)
{
    const float *from = (const float *)kcrs;
    float *to = (float *)w;
    int32_t k, c, i, n;
    plane_geo g;

    plane_geo_make(kernel, values, &g);
    for (k = 0; k < g.k; k += n) {
        n = g.t < g.k - k ? g.t : g.k - k;
        for (c = 0; c < g.c; c++)
            for (i = 0; i < n; i++)
                *to++ = from[(size_t)(k + i) * (size_t)g.c + (size_t)c];
    }
    memset(to, 0, (size_t)g.lanes * sizeof *to);
}

static void plane_emit_pack(const host_kernel *kernel, const int64_t *values,
                            const char *name, host_text *text)
{
    plane_geo g;

    plane_geo_make(kernel, values, &g);
    host_put(text,
             "void %s_pack_weight(const %s_t *kcrs, %s_t *w);\n"
             "void %s_pack_weight(const %s_t *kcrs, %s_t *w)\n{\n"
             "    long k, c, i, n;\n"
             "    for (k = 0; k < %d; k += n) {\n"
             "        n = %d - k < %d ? %d - k : %d;\n"
             "        for (c = 0; c < %d; c++)\n"
             "            for (i = 0; i < n; i++)\n"
             "                *w++ = kcrs[(k + i) * %d + c];\n    }\n"
             "    for (i = 0; i < %d; i++) *w++ = 0;\n}\n",
             name, name, name, name, name, name, g.k, g.k, g.t, g.k, g.t, g.c,
             g.c, g.lanes);
}

/* ================================================= [P-EMIT] the C writer */

static void plane_outer(const host_kernel *kernel, const int64_t *values,
                        int outer[HOST_OUTER])
{
    plane_geo g;

    plane_geo_make(kernel, values, &g);
    outer[0] = g.tile[0];
    outer[1] = g.tile[1];
    outer[2] = values[HOST_KNOB_ORDER] ? 1 : 0;
    outer[3] = (int)values[HOST_KNOB_INNER];
    outer[4] = (int)values[HOST_KNOB_SPLIT];
    outer[5] = (int)plane_panel(&g);
}

/* void NAME_mV_T(in, w, out): V vectors of pixels x T channels; the inputs
   of a channel are `row` values further. */
static void plane_emit_micro(host_text *text, const plane_geo *g,
                             const char *name, int32_t v, int32_t t,
                             int32_t row)
{
    int32_t i, j;

    host_put(text, "#define %s_STEP(p, q) do { \\\n    %s_t x; \\\n", name,
             name);
    for (i = 0; i < v; i++)
        host_put(text, "    %s_v b%d = *(const %s_v *)((p) + %d); \\\n", name,
                 i, name, i * g->lanes);
    for (j = 0; j < t; j++) {
        host_put(text, "    x = (q)[%d];", j);
        for (i = 0; i < v; i++)
            host_put(text, " a%d_%d += b%d * x;", j, i, i);
        host_put(text, " \\\n");
    }
    host_put(text,
             "} while (0)\n"
             "static %s_NOINLINE void %s_m%d_%d(const %s_t *in, const %s_t "
             "*w, %s_o *out)\n{\n    int c;\n",
             name, name, v, t, name, name, name);
    for (j = 0; j < t; j++) {
        host_put(text, "    %s_v", name);
        for (i = 0; i < v; i++)
            host_put(text, " a%d_%d = { 0 }%c", j, i, i + 1 < v ? ',' : ';');
        host_put(text, "\n");
    }
    host_put(text, "    for (c = 0; c < %d; c += %d, in += %d, w += %d) {\n",
             g->c, g->u, g->u * row, g->u * t);
    if (g->prefetch >= 32)
        for (i = 0; i < g->u * t; i += 16)
            host_put(text, "        %s_PREFETCH(w + %d);\n", name,
                     32 * g->lanes + i);
    if (g->prefetch && g->prefetch != 32 && !g->panel)
        for (i = 0; i < g->u; i++)
            for (j = 0; j < v; j++)
                host_put(text, "        %s_AHEAD(in + %d);\n", name,
                         i * row + (v + j) * g->lanes);
    for (i = 0; i < g->u; i++)
        host_put(text, "        %s_STEP(in + %d, w + %d);\n", name, i * row,
                 i * t);
    host_put(text, "    }\n");
    for (j = 0; j < t; j++)
        for (i = 0; i < v; i++)
            host_put(text, "    *(%s_v *)(out + %d) = a%d_%d;\n", name,
                     j * g->p + i * g->lanes, j, i);
    host_put(text, "}\n#undef %s_STEP\n", name);
}

/* Sums of every n-th channel, kept apart: a sum can be added to only every
   fourth cycle. */
static int32_t plane_few_sums(const plane_geo *g, int32_t t)
{
    int32_t n = 1, one = g->few * host_ceil_div(t, g->lanes);

    while (n < 4 && n * one < 8 && g->c % (2 * n) == 0) n *= 2;
    return n;
}

/* void NAME_f_T(in, w, out): the few last pixels x T channels. The weights'
   vectors may reach into the next channel's; nothing past the end is read. */
static void plane_emit_few(host_text *text, const plane_geo *g,
                           const char *name, int32_t t, int32_t row)
{
    int32_t i, j, n, s, along = host_ceil_div(t, g->lanes);
    int32_t sums = plane_few_sums(g, t);

    host_put(text,
             "static %s_NOINLINE void %s_f_%d(const %s_t *in, const %s_t *w, "
             "%s_o *out)\n{\n    int c;\n    %s_v b;\n",
             name, name, t, name, name, name, name);
    for (s = 0; s < sums; s++)
        for (j = 0; j < g->few; j++)
            for (i = 0; i < along; i++)
                host_put(text, "    %s_v a%d_%d_%d = { 0 };\n", name, s, j,
                         i);
    host_put(text, "    for (c = 0; c < %d; c += %d, in += %d, w += %d) {\n",
             g->c, sums, sums * row, sums * t);
    /* no pixels but these: nothing has read the weights before */
    if (g->prefetch >= 32 && g->p == g->few)
        for (i = 0; i < sums * t; i += 16)
            host_put(text, "        %s_PREFETCH(w + %d);\n", name,
                     32 * g->lanes + i);
    for (s = 0; s < sums; s++)
        for (i = 0; i < along; i++) {
            host_put(text, "        b = *(const %s_v *)(w + %d);\n", name,
                     s * t + i * g->lanes);
            for (j = 0; j < g->few; j++)
                host_put(text, "        a%d_%d_%d += b * in[%d];\n", s, j, i,
                         s * row + j);
        }
    host_put(text, "    }\n");
    for (j = 0; j < g->few; j++)
        for (i = 0; i < along; i++) {
            for (s = 1; s < sums; s++)
                host_put(text, "    a0_%d_%d += a%d_%d_%d;\n", j, i, s, j, i);
            n = t - i * g->lanes < g->lanes ? t - i * g->lanes : g->lanes;
            host_put(text, "    for (c = 0; c < %d; c++) out[(%d + c) * %dL + "
                     "%d] = a0_%d_%d[c];\n", n, i * g->lanes, g->p, j, j, i);
        }
    host_put(text, "}\n");
}

static void plane_put_call(host_text *text, const plane_geo *g,
                           const char *name, int32_t v, int64_t in_at,
                           int32_t out_at)
{
    int tail;

    for (tail = g->ktail ? 1 : 0; tail >= 0; tail--) {
        if (tail)
            host_put(text, "        if (k == %d) ", g->all[0] - 1);
        else
            host_put(text, g->ktail ? "        else " : "        ");
        host_put(text, "%s_", name);
        if (v)
            host_put(text, "m%d", v);
        else
            host_put(text, "f");
        host_put(text, "_%d(in + %lld, w, out + %d);\n",
                 tail ? g->ktail : g->t, (long long)in_at, out_at);
    }
}

/* NAME_tile: one register tile, k and y; in: pixel 0, or the panel of y. */
static void plane_emit_tile(host_text *text, const plane_geo *g,
                            const char *name)
{
    int32_t base = g->full * g->width, few_at = g->p - g->few;
    int rest = g->all[1] > g->full;

    host_put(text,
             "static void %s_tile(const %s_t *in, const %s_t *w, %s_o *out, "
             "int k, int y)\n{\n"
             "    w += k * %ldL;\n    out += k * %ldL + y * %ldL;\n",
             name, name, name, name, (long)g->c * g->t, (long)g->t * g->p,
             (long)g->width);
    if (!g->panel)
        host_put(text, "    in += y * %ldL;\n", (long)g->width);
    if (g->full) {
        if (rest) host_put(text, "    if (y < %d) {\n", g->full);
        else host_put(text, "    {\n");
        plane_put_call(text, g, name, g->v, 0, 0);
        host_put(text, "        return;\n    }\n");
    }
    if (rest) {
        host_put(text, "    {\n");
        if (g->rest_v)
            plane_put_call(text, g, name, g->rest_v,
                           g->panel ? 0 : g->rest_at - base,
                           g->rest_at - base);
        if (g->few)
            plane_put_call(text, g, name, 0,
                           g->panel ? (int64_t)g->c * g->rest_v * g->lanes
                                    : few_at - base,
                           few_at - base);
        host_put(text, "    }\n");
    }
    host_put(text, "}\n");
}

/* NAME_panel: the pixels of register tiles y..end-1, one panel each. A channel
   of all of them is read at a time: its pixels stand together. */
static void plane_emit_panel(host_text *text, const plane_geo *g,
                             const char *name)
{
    int32_t rest = g->rest_v * g->lanes, i;

    host_put(text,
             "static void %s_panel(const %s_t *in, %s_t *to, int y, int end)"
             "\n{\n"
             "    int c, i, full = end < %d ? end : %d;\n"
             "    for (c = 0; c < %d; c++, in += %d, to += %d) {\n"
             "        const %s_t *from = in + y * %ldL;\n"
             "        %s_t *p = to;\n"
             "        for (i = y; i < full; i++, from += %d, p += %ldL) {\n",
             name, name, name, g->full, g->full, g->c, g->p, g->width, name,
             (long)g->width, name, g->width, (long)g->c * g->width);
    for (i = 0; i < g->v; i++)
        host_put(text, "            *(%s_v *)(p + %d) = *(const %s_v *)(from "
                 "+ %d);\n", name, i * g->lanes, name, i * g->lanes);
    host_put(text, "        }\n    }\n");
    if (g->all[1] > g->full) {
        host_put(text,
                 "    if (end == full) return;\n"
                 "    in -= %ldL;\n    to += (full - y - 1) * %ldL;\n"
                 "    for (c = 0; c < %d; c++, in += %d) {\n",
                 (long)g->c * g->p, (long)g->c * g->width, g->c, g->p);
        for (i = 0; i < g->rest_v; i++)
            host_put(text,
                     "        *(%s_v *)(to + c * %d + %d) = *(const %s_v *)"
                     "(in + %d);\n",
                     name, rest, i * g->lanes, name,
                     g->rest_at + i * g->lanes);
        for (i = 0; i < g->few; i++)
            host_put(text, "        to[%ldL + c * %d + %d] = in[%d];\n",
                     (long)g->c * rest, g->few, i, g->p - g->few + i);
        host_put(text, "    }\n");
    }
    host_put(text, "}\n");
}

static void plane_emit(const host_kernel *kernel, const int64_t *values,
                       const host_plan *plan, const char *name,
                       host_text *text)
{
    int32_t t, pass;
    plane_geo g;

    (void)plan;
    plane_geo_make(kernel, values, &g);
    /* the next tile's pixels need not be nearer than the second cache yet */
    host_put(text,
             "#ifdef __GNUC__\n"
             "#define %s_AHEAD(p) __builtin_prefetch(p, 0, 2)\n"
             "#else\n"
             "#define %s_AHEAD(p) ((void)(p))\n"
             "#endif\n", name, name);
    for (pass = 0; pass < (g.ktail ? 2 : 1); pass++) {
        t = pass ? g.ktail : g.t;
        if (g.full)
            plane_emit_micro(text, &g, name, g.v, t,
                             g.panel ? g.width : g.p);
        /* a rest of V vectors that overlaps is read in the same way */
        if (g.rest_v && !(g.full && g.rest_v == g.v))
            plane_emit_micro(text, &g, name, g.rest_v, t,
                             g.panel ? g.rest_v * g.lanes : g.p);
        if (g.few)
            plane_emit_few(text, &g, name, t, g.panel ? g.few : g.p);
    }
    plane_emit_tile(text, &g, name);
    if (g.panel) plane_emit_panel(text, &g, name);
    host_put(text,
             "static void %s_core(const %s_t *in, const %s_t *w, %s_o *out, "
             "char *work,\n"
             "    const int *outer, int phase, int part, int parts)\n{\n"
             "    int all[2] = { %d, %d }, from[2] = { 0, 0 }, to[2], i[2], "
             "k, y;\n"
             "    const int a = outer[2], b = 1 - a, s = outer[4];\n"
             "    const int n = all[s]%s;\n",
             name, name, name, name, g.all[0], g.all[1],
             g.overlap ? " - (s == 1)" : "");
    if (g.panel)
        host_put(text,
                 "    %s_t *panel = (%s_t *)(void *)work + part * "
                 "(long)outer[5];\n", name, name);
    host_put(text,
             "    (void)work; (void)phase;\n"
             "    from[s] = (int)((long)n * part / parts);\n"
             "    if (part + 1 < parts)\n"
             "        all[s] = (int)((long)n * (part + 1) / parts);\n"
             "    for (i[a] = from[a]; i[a] < all[a]; i[a] += outer[a])\n"
             "    for (i[b] = from[b]; i[b] < all[b]; i[b] += outer[b]) {\n"
             "        for (k = 0; k < 2; k++)\n"
             "            to[k] = all[k] - i[k] > outer[k] ? i[k] + outer[k] "
             ": all[k];\n");
    if (g.panel)
        host_put(text,
                 "        if (i[0] == from[0])\n"
                 "            %s_panel(in, panel, i[1], to[1]);\n", name);
    for (pass = 0; pass < 2; pass++) {
        host_put(text, pass ? "        else\n" : "        if (outer[3])\n");
        host_put(text, pass ? "            for (k = i[0]; k < to[0]; k++)\n"
                              "            for (y = i[1]; y < to[1]; y++)\n"
                            : "            for (y = i[1]; y < to[1]; y++)\n"
                              "            for (k = i[0]; k < to[0]; k++)\n");
        if (g.panel)
            host_put(text, "                %s_tile(panel + (y - i[1]) * "
                     "%ldL, w, out, k, y);\n", name, (long)g.c * g.width);
        else
            host_put(text, "                %s_tile(in, w, out, k, y);\n",
                     name);
    }
    host_put(text, "    }\n}\n");
}

const host_algorithm host_algorithm_plane = {
    "plane",
    1u << HOST_KNOB_OCV | 1u << HOST_KNOB_OWT | 1u << HOST_KNOB_UNROLL |
        1u << HOST_KNOB_PREFETCH | 1u << HOST_KNOB_OCT |
        1u << HOST_KNOB_OHT | 1u << HOST_KNOB_ORDER | 1u << HOST_KNOB_INNER |
        1u << HOST_KNOB_SPLIT,
    plane_suits, plane_lists, plane_valid, plane_repair, plane_defaults,
    plane_plan, host_axes_flat, plane_nest, plane_canonical, plane_weight_size,
    plane_pack_weight, plane_outer, plane_emit, plane_emit_pack
};
