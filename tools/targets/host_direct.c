/* host_direct.c - direct convolution and flat 1x1 (see host_algo.h)

   A register tile holds V vectors of output channels x T output pixels of one
   row; a step of the reduction loads V weight vectors, broadcasts T input
   values and does V * T multiply-adds. Around it run cache tiles: kt groups of
   V vectors (k), yt rows (y; flat: register tiles), ict input blocks (c).

   Packed weights: (groups, kg / (V * B), IB, R, S, channels of the block,
   V * B) with B values of an output vector; channels past kg are zero.

   Rooms: [T-LIST] knobs, [T-GEO] geometry, [T-VALID] constraints, [T-NEST]
   loop nest, [T-PACK] weights, [T-EMIT] the C writer. */
#include "host_algo.h"

#include <string.h>

enum {
    HOST_TILE_MAX = 28,          /* pixels of a register tile */
    HOST_BODY_MAX = 1024         /* multiply-adds of an unrolled body: bounds
                                    the compile time */
};

/* dims of the cache-tile loops in the order knob: 0 = k, 1 = y, 2 = c */
static const unsigned char host_order[6][3] = {
    { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 },
    { 2, 1, 0 }, { 0, 2, 1 }, { 1, 2, 0 }
};

/* ========================================================= [T-LIST] knobs */

/* Shapes that need no setting: vectors of an output group and how many,
   input block and its last one's channels. They are the plan's, found
   without one. */
typedef struct host_blocks {
    int32_t ob_lanes, ob;        /* B, vectors of a group's outputs */
    int32_t cb, ib, last;        /* input block, blocks, channels of the last */
} host_blocks;

static void host_blocks_make(const host_kernel *kernel, host_blocks *b)
{
    int32_t cg = kernel->cg;

    b->ob_lanes = host_out_block(kernel);
    b->ob = host_ceil_div(kernel->kg, b->ob_lanes);
    b->cb = host_in_block(kernel);
    b->ib = host_ceil_div(cg, b->cb);
    b->last = cg - (b->ib - 1) * b->cb;
}

/* A register tile of t pixels is worth having when no smaller one needs as
   few of them; the tiny ones only where the extent is tiny, too. More pixels
   than a row has are whole rows: small images then still read a weight for
   many pixels. */
static int host_tile_good(int32_t rows, int32_t extent, int32_t t)
{
    static const int32_t round_up[] = { 4, 6, 7, 8, 10, 12, 14, 16, 20, 24,
                                        28 };
    size_t i;

    if (t > extent) {
        int32_t y = t / extent;
        return t % extent == 0 && y <= rows &&
               y == host_ceil_div(rows, host_ceil_div(rows, y));
    }
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

static int32_t host_tile_rows(const host_kernel *kernel, int64_t algorithm)
{
    return algorithm == HOST_FLAT ? 1 : kernel->oh;
}

static int32_t host_tile_limit(const host_kernel *kernel)
{
    int32_t limit = kernel->march.vregs - 2;

    return limit < HOST_TILE_MAX ? limit : HOST_TILE_MAX;
}

static int host_direct_suits(const host_kernel *kernel)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    return !(c->groups > 1 && c->groups == c->c && c->groups == c->k);
}

static int host_flat_suits(const host_kernel *kernel)
{
    return host_direct_suits(kernel) && kernel->conv.r == 1 &&
           kernel->conv.s == 1;
}

/* Padding without a copy of the image: worth it where nothing else asks for
   one. */
static int host_border_suits(const host_kernel *kernel, int64_t algorithm)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    return algorithm == HOST_DIRECT && c->groups == 1 &&
           c->layout != METATUNE_NCHW &&
           (c->pad_top || c->pad_bottom || c->pad_left || c->pad_right);
}

static void host_lists(host_kernel *kernel, int64_t algorithm)
{
    host_blocks b;
    int32_t i, t;

    host_blocks_make(kernel, &b);
    for (t = host_tile_limit(kernel); t >= 1; t--)
        if (host_tile_good(host_tile_rows(kernel, algorithm),
                           host_tile_extent(kernel, algorithm), t))
            host_list_add(kernel, HOST_KNOB_OWT, t);
    for (i = 1; i <= 4; i++)
        if (b.ob % i == 0) host_list_add(kernel, HOST_KNOB_OCV, i);
    for (i = 1; i <= b.cb; i++)
        if (b.cb % i == 0 && b.last % i == 0)
            host_list_add(kernel, HOST_KNOB_UNROLL, i);
    host_list_add(kernel, HOST_KNOB_KWU, 0);
    if (kernel->conv.s > 1 && algorithm == HOST_DIRECT)
        host_list_add(kernel, HOST_KNOB_KWU, 1);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 0);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 8);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 32);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 128);
    host_list_divisors(kernel, HOST_KNOB_ICT, b.ib);
    host_list_divisors(kernel, HOST_KNOB_OCT, b.ob);
    for (i = 1; i <= 32; i *= 2)
        host_list_add(kernel, HOST_KNOB_OHT, host_ceil_div(kernel->oh, i));
    for (i = 0; i < 6; i++) host_list_add(kernel, HOST_KNOB_ORDER, i);
    for (i = 0; i < 2; i++) host_list_add(kernel, HOST_KNOB_INNER, i);
    for (i = 0; i < (kernel->march.threads > 1 ? 2 : 1); i++)
        host_list_add(kernel, HOST_KNOB_SPLIT, i);
    host_list_add(kernel, HOST_KNOB_BORDER, 0);
    if (host_border_suits(kernel, algorithm))
        host_list_add(kernel, HOST_KNOB_BORDER, 1);
}

static void host_direct_lists(host_kernel *kernel)
{
    host_lists(kernel, HOST_DIRECT);
}

static void host_flat_lists(host_kernel *kernel)
{
    host_lists(kernel, HOST_FLAT);
}

/* ====================================================== [T-GEO] geometry */

/* Everything that the nest, the source and the sizes need of one setting. */
typedef struct host_geo {
    int flat;
    int32_t r, s, sh, sw, dh, dw; /* of the layer, or of its flat form */
    int32_t rows, extent;        /* output rows, pixels of a row */
    int32_t b;                   /* values of an output vector */
    int32_t cb, ib, last;        /* input block, blocks, channels of the last */
    int32_t v, t, u, kwu, prefetch;
    int32_t ty, tx;              /* t as rows x pixels of a row */
    int32_t tiles, tail;         /* register tiles of a row; last width */
    int32_t ytail;               /* rows of the last register tile */
    int border;                  /* padding is the kernel's, not src's */
    int32_t all[3];              /* k groups of V, rows of register tiles
                                    (flat: register tiles), input blocks */
    int32_t part[3];             /* the same of one thread */
    int32_t tile[3];             /* of a cache tile */
    int32_t trip[3];             /* cache tiles of one thread */
} host_geo;

static void host_geo_make(const host_kernel *kernel, const int64_t *values,
                          host_geo *g)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t oht = (int32_t)values[HOST_KNOB_OHT], i, split;
    host_blocks b;

    host_blocks_make(kernel, &b);
    memset(g, 0, sizeof *g);
    g->flat = values[HOST_KNOB_ALGORITHM] == HOST_FLAT;
    g->r = c->r;
    g->s = c->s;
    g->sh = g->flat ? 1 : c->stride_h;
    g->sw = g->flat ? 1 : c->stride_w;
    g->dh = c->dil_h;
    g->dw = c->dil_w;
    g->rows = g->flat ? 1 : kernel->oh;
    g->extent = g->flat ? kernel->oh * kernel->ow : kernel->ow;
    g->b = b.ob_lanes;
    g->cb = b.cb;
    g->ib = b.ib;
    g->last = b.last;
    g->v = (int32_t)values[HOST_KNOB_OCV];
    g->t = (int32_t)values[HOST_KNOB_OWT];
    g->u = (int32_t)values[HOST_KNOB_UNROLL];
    g->kwu = (int32_t)values[HOST_KNOB_KWU];
    g->prefetch = (int32_t)values[HOST_KNOB_PREFETCH];
    g->ty = g->t > g->extent ? g->t / g->extent : 1;
    g->tx = g->t / g->ty;
    g->tiles = host_ceil_div(g->extent, g->tx);
    g->tail = g->extent % g->tx;
    g->ytail = g->rows % g->ty;
    g->border = !g->flat && values[HOST_KNOB_BORDER] == 1;
    g->all[0] = host_ceil_div(b.ob, g->v);
    g->all[1] = g->flat ? g->tiles : host_ceil_div(g->rows, g->ty);
    g->all[2] = g->ib;
    split = values[HOST_KNOB_SPLIT] ? 1 : 0;
    for (i = 0; i < 3; i++)
        g->part[i] = i == split ? host_ceil_div(g->all[i],
                                                kernel->march.threads)
                                : g->all[i];
    g->tile[0] = (int32_t)values[HOST_KNOB_OCT] / g->v;
    g->tile[1] = g->flat ? host_ceil_div(oht * kernel->ow, g->t)
                         : host_ceil_div(oht, g->ty);
    g->tile[2] = (int32_t)values[HOST_KNOB_ICT];
    for (i = 0; i < 3; i++)
        g->trip[i] = g->tile[i] ? host_ceil_div(g->part[i], g->tile[i]) : 0;
}

/* A micro kernel's shape, and which of the image's borders it touches. */
enum { HOST_LEFT = 1, HOST_RIGHT = 2 };
typedef struct host_micro {
    int32_t rows, width;
    int borders;
} host_micro;

/* Which micro kernel computes tile t of a row? */
static void host_micro_of(const host_kernel *kernel, const host_geo *g,
                          int32_t t, host_micro *m)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t x, s, last = t == g->tiles - 1;

    m->rows = g->ty;
    m->width = last && g->tail ? g->tail : g->tx;
    m->borders = 0;
    if (!g->border) return;
    if (t == 0 && c->pad_left) m->borders |= HOST_LEFT;
    if (!last) return;
    m->borders |= HOST_RIGHT;
    for (x = 0; x < m->width; x++)
        for (s = 0; s < g->s; s++)
            if ((int64_t)(t * g->tx + x) * g->sw + (int64_t)s * g->dw -
                    c->pad_left >= c->w)
                return;
    m->borders &= ~HOST_RIGHT;
}

/* Tiles at a border unroll the kernel's columns whatever the knob says. */
static int host_kwu_matters(const host_kernel *kernel, const host_geo *g)
{
    host_micro m;
    int32_t t;

    for (t = 0; t < 3 && t < g->tiles; t++) {
        host_micro_of(kernel, g, t == 2 ? g->tiles - 1 : t, &m);
        if (!m.borders) return 1;
    }
    return 0;
}

static void host_direct_plan(const host_kernel *kernel, const int64_t *values,
                             host_plan *plan)
{
    (void)kernel;
    plan->stage = values[HOST_KNOB_ALGORITHM] == HOST_FLAT ? HOST_STAGE_GATHER
                  : values[HOST_KNOB_BORDER] == 1 ? HOST_STAGE_BLOCK
                                                  : HOST_STAGE_PAD;
}

/* ========================== [T-VALID] constraints, repair, default */

/* Two orders make the same kernel when the loops that run more than once
   stand in the same order; the first of them stands for all. */
static int64_t host_order_first(const int32_t *trip, int64_t order)
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
        if (same) return o;
    }
    return order;
}

/* Do k and y tiles inside a cache tile have an order at all? */
static int host_inner_matters(const host_geo *g)
{
    int32_t k = g->tile[0] < g->part[0] ? g->tile[0] : g->part[0];
    int32_t y = g->tile[1] < g->part[1] ? g->tile[1] : g->part[1];

    return k > 1 && (g->flat ? y : y * g->tiles) > 1;
}

static int host_register_fits(const host_kernel *kernel, const host_geo *g)
{
    return g->v * g->t <= kernel->march.vregs - 2 &&
           host_tile_good(g->rows, g->extent, g->t) &&
           g->v * g->t * g->u * (g->kwu || g->border ? g->s : 1) <=
               HOST_BODY_MAX;
}

/* Code for borders: only the first and the last tile of a row touch them, and
   a tile is of one row. */
static int host_border_fits(const host_kernel *kernel, const host_geo *g)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t inner = (g->tiles - 1) * g->tx - 1; /* last pixel before the last
                                                   tile */

    return host_border_suits(kernel, g->flat ? HOST_FLAT : HOST_DIRECT) &&
           g->ty == 1 &&
           (g->tiles == 1 ||
            (g->tx * g->sw >= c->pad_left &&
             inner * g->sw + (g->s - 1) * g->dw - c->pad_left < c->w));
}

/* The smallest listed value of a knob whose cache tile is as large: of
   several that make one kernel it stands for all. */
static int64_t host_tile_least(const host_kernel *kernel,
                               const int64_t *values, int knob, int dim)
{
    const host_knob *list = &kernel->knob[knob];
    int64_t other[HOST_KNOBS];
    host_geo g, h;
    uint32_t i;

    memcpy(other, values, sizeof other);
    host_geo_make(kernel, values, &g);
    for (i = 0; list->values[i] < values[knob]; i++) {
        other[knob] = list->values[i];
        if (knob == HOST_KNOB_OCT && other[knob] % g.v) continue;
        host_geo_make(kernel, other, &h);
        if (h.tile[dim] == g.tile[dim] ||
            (h.trip[dim] == 1 && g.trip[dim] == 1))
            return other[knob];
    }
    return values[knob];
}

static int64_t host_prefetch_near(int64_t value)
{
    return value < 8 ? 0 : value < 32 ? 8 : value < 128 ? 32 : 128;
}

static int host_direct_valid(const host_kernel *kernel, const int64_t *values)
{
    host_geo g;
    host_blocks b;

    host_blocks_make(kernel, &b);
    if (b.ob % values[HOST_KNOB_OCV] || values[HOST_KNOB_OCT] > b.ob ||
        values[HOST_KNOB_OCT] % values[HOST_KNOB_OCV] ||
        b.ob % values[HOST_KNOB_OCT] || b.cb % values[HOST_KNOB_UNROLL] ||
        b.last % values[HOST_KNOB_UNROLL] ||
        b.ib % values[HOST_KNOB_ICT] || values[HOST_KNOB_OHT] > kernel->oh)
        return 0;
    if (host_prefetch_near(values[HOST_KNOB_PREFETCH]) !=
        values[HOST_KNOB_PREFETCH])
        return 0;
    host_geo_make(kernel, values, &g);
    if (!host_register_fits(kernel, &g)) return 0;
    if (g.border && !host_border_fits(kernel, &g)) return 0;
    if (g.kwu && !host_kwu_matters(kernel, &g)) return 0;
    if (host_tile_least(kernel, values, HOST_KNOB_OHT, 1) !=
            values[HOST_KNOB_OHT] ||
        host_tile_least(kernel, values, HOST_KNOB_OCT, 0) !=
            values[HOST_KNOB_OCT])
        return 0;
    if (host_order_first(g.trip, values[HOST_KNOB_ORDER]) !=
        values[HOST_KNOB_ORDER])
        return 0;
    return !values[HOST_KNOB_INNER] || host_inner_matters(&g);
}

/* The listed value of a knob, at most the present one if there is such, that
   divides (or is divided, for OCT by OCV) as it must. */
static int64_t host_divisor_near(const host_kernel *kernel, int knob,
                                 int64_t now, int32_t n, int32_t m,
                                 int32_t multiple)
{
    const host_knob *list = &kernel->knob[knob];
    int64_t best = 0;
    uint32_t i;

    for (i = 0; i < list->n_values; i++) {
        int64_t d = list->values[i];
        if (n % d || m % d || d % multiple) continue;
        if (best == 0 || d <= now) best = d;
    }
    return best;
}

/* The setting's knobs in an order in which none breaks an earlier one. */
static int host_direct_repair(const host_kernel *kernel, int64_t *values)
{
    const host_knob *list = &kernel->knob[HOST_KNOB_OWT];
    int64_t v, limit;
    host_blocks b;
    host_geo g;
    uint32_t i;

    host_blocks_make(kernel, &b);
    values[HOST_KNOB_OCV] = host_divisor_near(
        kernel, HOST_KNOB_OCV, values[HOST_KNOB_OCV], b.ob, b.ob, 1);
    values[HOST_KNOB_UNROLL] = host_divisor_near(
        kernel, HOST_KNOB_UNROLL, values[HOST_KNOB_UNROLL], b.cb, b.last, 1);
    values[HOST_KNOB_ICT] = host_divisor_near(
        kernel, HOST_KNOB_ICT, values[HOST_KNOB_ICT], b.ib, b.ib, 1);
    if (!values[HOST_KNOB_OCV] || !values[HOST_KNOB_UNROLL] ||
        !values[HOST_KNOB_ICT])
        return 0;
    values[HOST_KNOB_PREFETCH] =
        host_prefetch_near(values[HOST_KNOB_PREFETCH]);
    v = values[HOST_KNOB_OCT];
    values[HOST_KNOB_OCT] = host_divisor_near(
        kernel, HOST_KNOB_OCT, v, b.ob, b.ob, (int32_t)values[HOST_KNOB_OCV]);
    if (!values[HOST_KNOB_OCT]) return 0;
    /* the widest tile that fits and is no wider; else the narrowest */
    host_geo_make(kernel, values, &g);
    limit = (kernel->march.vregs - 2) / g.v;
    if (limit > values[HOST_KNOB_OWT]) limit = values[HOST_KNOB_OWT];
    v = 0;
    for (i = 0; i < list->n_values; i++)
        if (host_tile_good(g.rows, g.extent, (int32_t)list->values[i]) &&
            (v == 0 || list->values[i] <= limit))
            v = list->values[i];
    values[HOST_KNOB_OWT] = v;
    for (;;) {
        host_geo_make(kernel, values, &g);
        if (host_register_fits(kernel, &g)) break;
        if (g.v * g.t > kernel->march.vregs - 2) {
            if (g.v == 1) return 0;
            values[HOST_KNOB_OCV] = 1; /* divides everything */
        } else if (values[HOST_KNOB_KWU] && !g.border) {
            values[HOST_KNOB_KWU] = 0;
        } else if (values[HOST_KNOB_UNROLL] > 1) {
            values[HOST_KNOB_UNROLL] = 1;
        } else if (g.border) {
            values[HOST_KNOB_BORDER] = 0;
        } else {
            return 0;
        }
    }
    if (g.border && !host_border_fits(kernel, &g))
        values[HOST_KNOB_BORDER] = 0;
    host_geo_make(kernel, values, &g);
    if (!host_kwu_matters(kernel, &g)) values[HOST_KNOB_KWU] = 0;
    if (values[HOST_KNOB_OHT] > kernel->oh)
        values[HOST_KNOB_OHT] =
            host_list_floor(kernel, HOST_KNOB_OHT, kernel->oh);
    values[HOST_KNOB_OCT] =
        host_tile_least(kernel, values, HOST_KNOB_OCT, 0);
    values[HOST_KNOB_OHT] =
        host_tile_least(kernel, values, HOST_KNOB_OHT, 1);
    host_geo_make(kernel, values, &g);
    values[HOST_KNOB_ORDER] =
        host_order_first(g.trip, values[HOST_KNOB_ORDER]);
    if (values[HOST_KNOB_INNER] && !host_inner_matters(&g))
        values[HOST_KNOB_INNER] = 0;
    return 1;
}

static void host_direct_defaults(const host_kernel *kernel, int64_t *values)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    const host_knob *list = &kernel->knob[HOST_KNOB_OWT];
    int32_t extent = host_tile_extent(kernel, values[HOST_KNOB_ALGORITHM]);
    int32_t rows = host_tile_rows(kernel, values[HOST_KNOB_ALGORITHM]);
    double best = -1, bytes;
    host_blocks b;
    uint32_t i;
    int64_t v;

    host_blocks_make(kernel, &b);
    /* Many accumulators hide the latency, two vectors halve the loads of the
       input, a narrow last tile wastes both. */
    values[HOST_KNOB_OCV] = values[HOST_KNOB_OWT] = 1;
    for (v = 1; v <= 4; v++) {
        if (b.ob % v) continue;
        for (i = 0; i < list->n_values; i++) {
            int32_t t = (int32_t)list->values[i];
            double score, full;
            if (v * t > kernel->march.vregs - 2 ||
                !host_tile_good(rows, extent, t))
                continue;
            if (t > extent)
                full = (double)rows / (host_ceil_div(rows, t / extent) *
                                       (t / extent));
            else
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
    values[HOST_KNOB_UNROLL] = v <= 2 ? 4 : 1;
    /* One group's weights of a cache tile stay in the inner caches. */
    bytes = (double)v * b.ob_lanes * b.cb * c->r * c->s * 4;
    values[HOST_KNOB_ICT] =
        host_list_floor(kernel, HOST_KNOB_ICT, 131072 / bytes);
    values[HOST_KNOB_OCT] = b.ob;
    values[HOST_KNOB_OHT] = kernel->oh;
    values[HOST_KNOB_SPLIT] =
        host_list_floor(kernel, HOST_KNOB_SPLIT, 1);
    values[HOST_KNOB_BORDER] =
        host_list_floor(kernel, HOST_KNOB_BORDER, 1);
    (void)host_direct_repair(kernel, values);
}

/* ======================================================= [T-NEST] nests */

/* Slots of the two skeletons; 0 is the root, -1 a loop that it lacks. */
enum {
    T_N, T_PART, T_G, T_KO, T_YO, T_CO, T_KI, T_YI, T_XO, T_CB, T_R, T_S,
    T_CI, T_CU, T_KU, T_KV, T_YU, T_XU, T_YE, T_XE, T_KE, T_LOAD_A, T_LOAD_W,
    T_FMA, T_LOAD_C, T_STORE_C, T_COPY, T_COPY_OUT, T_SLOTS
};
static const signed char host_slot[2][T_SLOTS] = {
    { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
      21, 22, 23, 24, 25, 26, 27, 28 },
    { 1, 2, 3, 4, 5, 6, 7, -1, 8, 9, -1, -1, 10, 11, 12, 13, -1, 14, -1, 15,
      16, 17, 18, 19, 20, 21, 22, 23 }
};

static metatune_status host_direct_axes(const host_kernel *kernel,
                                        metatune_encode_nest *nest)
{
    return metatune_encode_conv2d_begin(nest, &kernel->conv);
}

static metatune_status host_direct_nest(const host_kernel *kernel,
                                        const int64_t *values,
                                        const host_plan *plan,
                                        metatune_encode_nest *nest)
{
    enum { SERIAL = METATUNE_LOOP_SERIAL, UNROLL = METATUNE_LOOP_UNROLL,
           VECTOR = METATUNE_LOOP_VECTOR, PARALLEL = METATUNE_LOOP_PARALLEL };
    const int32_t threads = kernel->march.threads;
    const signed char *slot;
    const unsigned char *order;
    metatune_encode_dim *dim;
    host_geo g;
    double vl, rs;
    int32_t p, e, i, pass, vb, yaxis, ystep;

    host_geo_make(kernel, values, &g);
    /* tiles of several rows are a whole row wide */
    if (plan->canonical && g.ty > 1) g.tiles = 2;
    slot = host_slot[g.flat];
    order = host_order[values[HOST_KNOB_ORDER]];
    vb = g.v * g.b;
    vl = vb;
    rs = (double)g.r * g.s;
    yaxis = g.flat ? METATUNE_CONV_X : METATUNE_CONV_Y;
    ystep = g.flat ? g.t : g.ty;
    host_dims_view(&nest->tensor[METATUNE_CONV_INPUT], &plan->src);
    host_dims_view(&nest->tensor[METATUNE_CONV_OUTPUT], &plan->dst);
    dim = nest->tensor[METATUNE_CONV_WEIGHT].dim;
    host_dim_set(&dim[0], vb, 1, kernel->cg * rs * vl);
    host_dim_set(&dim[1], g.cb, vl, rs * g.cb * vl);
    host_dim_set(&dim[2], 0, g.s * g.cb * vl, 0);
    host_dim_set(&dim[3], 0, g.cb * vl, 0);

    p = host_loop(nest, -1, METATUNE_CONV_N, 1, kernel->conv.n, SERIAL,
                  slot[T_N]);
    if (plan->staged)
        metatune_encode_copy_add(nest, p, METATUNE_CONV_INPUT,
                                 METATUNE_SCOPE_GLOBAL, slot[T_COPY]);
    if (plan->unstaged)
        metatune_encode_copy_add(nest, p, METATUNE_CONV_OUTPUT,
                                 METATUNE_SCOPE_GLOBAL, slot[T_COPY_OUT]);
    if (values[HOST_KNOB_SPLIT])
        p = host_loop(nest, p, yaxis, g.part[1] * ystep, threads, PARALLEL,
                      slot[T_PART]);
    else
        p = host_loop(nest, p, METATUNE_CONV_K, g.part[0] * vb, threads,
                      PARALLEL, slot[T_PART]);
    p = host_loop(nest, p, METATUNE_CONV_G, 1, kernel->conv.groups, SERIAL,
                  slot[T_G]);
    for (i = 0; i < 3; i++) {
        if (order[i] == 0)
            p = host_loop(nest, p, METATUNE_CONV_K, g.tile[0] * vb, g.trip[0],
                          SERIAL, slot[T_KO]);
        else if (order[i] == 2)
            p = host_loop(nest, p, METATUNE_CONV_C, g.tile[2] * g.cb,
                          g.trip[2], SERIAL, slot[T_CO]);
        else
            p = host_loop(nest, p, yaxis, g.tile[1] * ystep, g.trip[1],
                          SERIAL, slot[T_YO]);
    }
    for (pass = 0; pass < 2; pass++) {
        if (pass == values[HOST_KNOB_INNER])
            p = host_loop(nest, p, METATUNE_CONV_K, vb,
                          g.tile[0] < g.part[0] ? g.tile[0] : g.part[0],
                          SERIAL, slot[T_KI]);
        else if (g.flat)
            p = host_loop(nest, p, METATUNE_CONV_X, g.t,
                          g.tile[1] < g.part[1] ? g.tile[1] : g.part[1],
                          SERIAL, slot[T_XO]);
        else {
            p = host_loop(nest, p, METATUNE_CONV_Y, g.ty,
                          g.tile[1] < g.part[1] ? g.tile[1] : g.part[1],
                          SERIAL, slot[T_YI]);
            p = host_loop(nest, p, METATUNE_CONV_X, g.tx, g.tiles, SERIAL,
                          slot[T_XO]);
        }
    }
    /* The register tile comes from and goes to memory once a cache tile. It
       is unrolled there, too, but called serial: the totals would count its
       loads as part of the body that runs for every reduction step. */
    e = host_loop(nest, p, METATUNE_CONV_Y, 1, g.ty, SERIAL, slot[T_YE]);
    e = host_loop(nest, e, METATUNE_CONV_X, 1, g.tx, SERIAL, slot[T_XE]);
    e = host_loop(nest, e, METATUNE_CONV_K, 1, vb, VECTOR, slot[T_KE]);
    if (g.trip[2] > 1)
        host_access(nest, e, METATUNE_STMT_LOAD, slot[T_LOAD_C], 1,
                    METATUNE_CONV_OUTPUT);

    p = host_loop(nest, p, METATUNE_CONV_C, g.cb, g.tile[2], SERIAL,
                  slot[T_CB]);
    p = host_loop(nest, p, METATUNE_CONV_R, 1, g.r, SERIAL, slot[T_R]);
    if (!g.kwu)
        p = host_loop(nest, p, METATUNE_CONV_S, 1, g.s, SERIAL, slot[T_S]);
    p = host_loop(nest, p, METATUNE_CONV_C, g.u, g.cb / g.u, SERIAL,
                  slot[T_CI]);
    if (g.kwu)
        p = host_loop(nest, p, METATUNE_CONV_S, 1, g.s, UNROLL, slot[T_S]);
    p = host_loop(nest, p, METATUNE_CONV_C, 1, g.u, UNROLL, slot[T_CU]);
    /* an input is loaded once for all V vectors */
    host_access(nest, p, METATUNE_STMT_LOAD, slot[T_LOAD_A], g.t,
                METATUNE_CONV_INPUT);
    p = host_loop(nest, p, METATUNE_CONV_K, g.b, g.v, UNROLL, slot[T_KU]);
    p = host_loop(nest, p, METATUNE_CONV_K, 1, g.b, VECTOR, slot[T_KV]);
    host_access(nest, p, METATUNE_STMT_LOAD, slot[T_LOAD_W], 1,
                METATUNE_CONV_WEIGHT);
    p = host_loop(nest, p, METATUNE_CONV_Y, 1, g.ty, UNROLL, slot[T_YU]);
    p = host_loop(nest, p, METATUNE_CONV_X, 1, g.tx, UNROLL, slot[T_XU]);
    host_fma(nest, p, slot[T_FMA]);
    host_access(nest, e, METATUNE_STMT_STORE, slot[T_STORE_C], 1,
                METATUNE_CONV_OUTPUT);
    nest->hint[0] = (metatune_real)(g.prefetch == 0 ? 0.0
                                    : g.prefetch == 8 ? 0.7
                                    : g.prefetch == 32 ? 1.4 : 2.0);
    return nest->status;
}

/* Layers and settings in which every loop but one (see host_direct_nest)
   runs more than once. */
static void host_direct_canonical(metatune_encode_conv2d *conv,
                                  int64_t *values)
{
    static const int64_t all[HOST_KNOBS] = { HOST_DIRECT, 2, 14, 4, 0, 0, 2,
                                             4, 4, 0, 0, 1 };

    *conv = metatune_encode_conv2d_make(2, 128, 28, 7, 256, 3, 3, 1, 1);
    conv->groups = 2;
    memcpy(values, all, sizeof all);
}

static void host_flat_canonical(metatune_encode_conv2d *conv, int64_t *values)
{
    static const int64_t all[HOST_KNOBS] = { HOST_FLAT, 2, 14, 4, 0, 0, 2, 4,
                                             7, 0, 0, 1 };

    *conv = metatune_encode_conv2d_make(2, 128, 56, 56, 256, 1, 1, 2, 0);
    conv->groups = 2;
    memcpy(values, all, sizeof all);
}

/* ================================================== [T-PACK] weights */

static size_t host_direct_weight_size(const host_kernel *kernel,
                                      const int64_t *values)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    host_geo g;

    host_geo_make(kernel, values, &g);
    return (size_t)c->groups * (size_t)g.all[0] * (size_t)(g.v * g.b) *
           (size_t)kernel->cg * (size_t)c->r * (size_t)c->s *
           (size_t)kernel->in_bytes;
}

static void host_direct_pack_weight(const host_kernel *kernel,
                                    const int64_t *values, const void *kcrs,
                                    void *w)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    size_t bytes = (size_t)kernel->in_bytes, cg = (size_t)kernel->cg;
    size_t rs = (size_t)c->r * (size_t)c->s, kg = (size_t)kernel->kg;
    const char *from = (const char *)kcrs;
    char *to = (char *)w;
    size_t group, k0, b, i, j, v, vl, all, cb;
    host_geo g;

    host_geo_make(kernel, values, &g);
    vl = (size_t)(g.v * g.b);
    all = (size_t)g.all[0] * vl;
    cb = (size_t)g.cb;
    for (group = 0; group < (size_t)c->groups; group++)
        for (k0 = 0; k0 < all; k0 += vl)
            for (b = 0; b < cg; b += cb)
                for (i = 0; i < rs; i++)
                    for (j = b; j < b + cb && j < cg; j++)
                        for (v = 0; v < vl; v++, to += bytes) {
                            size_t k = k0 + v;
                            if (k >= kg)
                                memset(to, 0, bytes);
                            else
                                memcpy(to, from + (((group * kg + k) * cg +
                                                    j) * rs + i) * bytes,
                                       bytes);
                        }
}

static void host_direct_emit_pack(const host_kernel *kernel,
                                  const int64_t *values, const char *name,
                                  host_text *text)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    host_geo g;
    int32_t vl, rs = c->r * c->s;

    host_geo_make(kernel, values, &g);
    vl = g.v * g.b;
    host_put(text,
             "void %s_pack_weight(const %s_t *kcrs, %s_t *w);\n"
             "void %s_pack_weight(const %s_t *kcrs, %s_t *w)\n{\n"
             "    long g, k, b, i, j, v;\n"
             "    for (g = 0; g < %d; g++)\n"
             "        for (k = 0; k < %d; k += %d)\n"
             "            for (b = 0; b < %d; b += %d)\n"
             "                for (i = 0; i < %d; i++)\n"
             "                    for (j = b; j < b + %d && j < %d; j++)\n"
             "                        for (v = k; v < k + %d; v++)\n"
             "                            *w++ = v < %d ? kcrs[((g * %d + v)"
             " * %d + j) * %d + i] : 0;\n}\n",
             name, name, name, name, name, name, c->groups, g.all[0] * vl, vl,
             kernel->cg, g.cb, rs, g.cb, kernel->cg, vl, kernel->kg,
             kernel->kg, kernel->cg, rs);
}

/* ============================================= [T-EMIT] the C writer */

static void host_direct_outer(const host_kernel *kernel,
                              const int64_t *values, int outer[HOST_OUTER])
{
    host_geo g;
    int i;

    host_geo_make(kernel, values, &g);
    for (i = 0; i < 3; i++) outer[i] = g.tile[i];
    outer[3] = (int)values[HOST_KNOB_ORDER];
    outer[4] = (int)values[HOST_KNOB_INNER];
    outer[5] = (int)values[HOST_KNOB_SPLIT];
}

static const char *const host_micro_suffix[] = { "", "l", "r", "lr" };

/* Column of pixel x at kernel column s, counted from the tile's first input
   column: for a tile at the left border that of the image. */
static int64_t host_micro_column(const host_kernel *kernel,
                                 const host_geo *g, const host_micro *m,
                                 int32_t x, int32_t s)
{
    return (int64_t)x * g->sw + (int64_t)s * g->dw -
           (m->borders & HOST_LEFT ? kernel->conv.pad_left : 0);
}

/* Does pixel x of the tile see the image at kernel column s? */
static int host_micro_sees(const host_kernel *kernel, const host_geo *g,
                           const host_micro *m, int32_t x, int32_t s)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int64_t column = host_micro_column(kernel, g, m, x, s);

    if (m->borders & HOST_LEFT && column < 0) return 0;
    if (m->borders & HOST_LEFT) return column < c->w;
    if (m->borders & HOST_RIGHT)
        return column + (int64_t)(g->tiles - 1) * g->tx * g->sw -
                   c->pad_left < c->w;
    return 1;
}

/* One reduction step of a register tile: V weight vectors, a broadcast input
   a pixel, V multiply-adds each. At a border the step of kernel column s has
   only the pixels that see the image; returns how many. */
static int32_t host_emit_step(host_text *text, const host_kernel *kernel,
                              const host_geo *g, const host_plan *plan,
                              const char *name, const host_micro *m,
                              int32_t s)
{
    int32_t v, x, b = g->b, line = 64 / kernel->in_bytes, n = 0;
    int64_t at;

    for (x = 0; x < m->rows * m->width; x++)
        n += host_micro_sees(kernel, g, m, x % m->width, s);
    if (n == 0) return 0;
    host_put(text, "#define %s_STEP%d(p, q) do { \\\n    %s_o x;", name, s,
             name);
    for (v = 0; v < g->v; v++)
        if (kernel->in_bytes == 4)
            host_put(text, " %s_w w%d = *(const %s_w *)(const void *)((q) + "
                     "%d);", name, v, name, v * b);
        else if (b == 1)
            host_put(text, " %s_w w%d = (q)[%d];", name, v, v);
        else
            host_put(text, " %s_w w%d = __builtin_convertvector(*(const %s_q "
                     "*)(const void *)((q) + %d), %s_w);", name, v, name,
                     v * b, name);
    host_put(text, " \\\n");
    if (g->prefetch)
        for (v = 0; v * line < g->v * b; v++)
            host_put(text, "    %s_PREFETCH((q) + %d); \\\n", name,
                     g->prefetch * b + v * line);
    for (x = 0; x < m->rows * m->width; x++) {
        if (!host_micro_sees(kernel, g, m, x % m->width, s)) continue;
        at = (int64_t)(x / m->width) * g->sh * plan->src.row;
        if (m->borders)
            at += host_micro_column(kernel, g, m, x, s) * plan->src.pixel;
        else
            at += (int64_t)(x % m->width) * g->sw * plan->src.pixel;
        host_put(text, "    x = (p)[%lld];", (long long)at);
        for (v = 0; v < g->v; v++)
            host_put(text, " a%d_%d += w%d * x;", v, x, v);
        host_put(text, " \\\n");
    }
    host_put(text, "} while (0)\n");
    return n;
}

/* The reduction over one kernel row of one input block: p its input, q its
   weights; cn is a number or a variable. */
static void host_emit_row(host_text *text, const host_geo *g,
                          const host_plan *plan, const char *name,
                          const host_micro *m, const int32_t *seen, int inner,
                          const char *cn)
{
    long long pixel = (long long)g->dw * plan->src.pixel;
    int32_t vl = g->v * g->b, s, i;

    if (m->borders) {
        /* every column by itself, whatever the knob says */
        for (s = 0; s < g->s; s++) {
            if (!seen[s]) continue;
            if (inner)
                host_put(text, "            for (c = 0; c < %s; c += %d)"
                         " {\n", cn, g->u);
            for (i = 0; i < g->u; i++)
                host_put(text, "            %s_STEP%d(p + %d%s, q + %d * %s +"
                         " %d%s);\n", name, s, i, inner ? " + c" : "", s * vl,
                         cn, i * vl, inner ? " + c * VL" : "");
            if (inner) host_put(text, "            }\n");
        }
    } else if (g->kwu) {
        if (inner)
            host_put(text, "            for (c = 0; c < %s; c += %d, p += %d,"
                     " q += %d) {\n", cn, g->u, g->u, g->u * vl);
        for (s = 0; s < g->s; s++)
            for (i = 0; i < g->u; i++)
                host_put(text, "            %s_STEP0(p + %lld, q + %d * %s + "
                         "%d);\n", name, s * pixel + i, s * vl, cn, i * vl);
        if (inner) host_put(text, "            }\n");
    } else {
        if (g->s > 1)
            host_put(text, "            for (s = 0; s < %d; s++, p += %lld)"
                     " {\n", g->s, pixel);
        if (inner)
            host_put(text, "            for (c = 0; c < %s; c += %d, q += %d)"
                     " {\n", cn, g->u, g->u * vl);
        for (i = 0; i < g->u; i++)
            host_put(text, "            %s_STEP0(p%s + %d, q + %d);\n", name,
                     inner ? " + c" : "", i, i * vl);
        if (inner)
            host_put(text, "            }\n");
        else if (g->s > 1)
            host_put(text, "            q += %d;\n", g->cb * vl);
        if (g->s > 1) host_put(text, "            }\n");
    }
}

/* The micro kernel: nb input blocks, the last one of `last` channels, into
   one register tile. With code for borders `iy` is the input row of kernel
   row 0, perhaps outside the image. */
static void host_emit_micro(host_text *text, const host_kernel *kernel,
                            const host_geo *g, const host_plan *plan,
                            const char *name, const host_micro *m)
{
    const host_view *src = &plan->src, *dst = &plan->dst;
    int32_t vl = g->v * g->b, pixels = m->rows * m->width, v, x, s, pass;
    int32_t seen[HOST_BODY_MAX];
    int partial = g->last != g->cb;  /* a block with fewer channels */
    int any = 0, inner;
    int loop_s = !m->borders && !g->kwu && g->s > 1;
    char cn[16], row[32] = "";
    host_text rows = { row, sizeof row, 0, 0 };

    if (g->border) host_put(&rows, "(iy + r * %d)", g->dh);
    if (partial)
        strcpy(cn, "cn");
    else {
        host_text t = { cn, sizeof cn, 0, 0 };
        host_put(&t, "%d", g->cb);
    }
    for (s = 0; s < (m->borders ? g->s : 1); s++)
        any |= seen[s] = host_emit_step(text, kernel, g, plan, name, m, s);
    inner = any && (partial || g->u < g->cb);
    host_put(text,
             "static %s_NOINLINE void\n"
             "%s_m%dx%d%s(const %s_t *in, const %s_t *w, %s_o *out, int nb,"
             " int first%s%s)\n{\n    enum { VL = %d };\n    int b, r%s%s%s;\n",
             name, name, m->rows, m->width, host_micro_suffix[m->borders],
             name, name, name, partial ? ", int last" : "",
             g->border ? ", int iy" : "", vl, loop_s ? ", s" : "",
             inner ? ", c" : "", partial ? ", cn" : "");
    if (g->border)
        host_put(text,
                 "    int r0 = iy < 0 ? (%d - iy) / %d : 0;\n"
                 "    int r1 = iy < %d ? (%d - iy) / %d : 0;\n"
                 "    if (r1 > %d) r1 = %d;\n",
                 g->dh - 1, g->dh, kernel->conv.h,
                 kernel->conv.h + g->dh - 1, g->dh, g->r, g->r);
    for (v = 0; v < g->v; v++) {
        host_put(text, "    %s_w", name);
        for (x = 0; x < pixels; x++)
            host_put(text, " a%d_%d%c", v, x, x + 1 < pixels ? ',' : ';');
        host_put(text, "\n");
    }
    /* the register tile: zero, or from memory; at the end to memory */
    for (pass = 0; pass < 3; pass++) {
        host_put(text, pass == 0   ? "    if (first) {\n"
                       : pass == 1 ? "    } else {\n"
                                   : "");
        for (v = 0; v < g->v; v++)
            for (x = 0; x < pixels; x++) {
                long long at = (long long)(v * dst->plane +
                                           x / m->width * dst->row +
                                           x % m->width * dst->pixel);
                if (pass == 0)
                    host_put(text, "        a%d_%d = (%s_w){ 0 };\n", v, x,
                             name);
                else if (pass == 1)
                    host_put(text, "        a%d_%d = *(%s_w *)(void *)(out + "
                             "%lld);\n", v, x, name, at);
                else
                    host_put(text, "    *(%s_w *)(void *)(out + %lld) = "
                             "a%d_%d;\n", name, at, v, x);
            }
        if (pass != 1) continue;
        host_put(text, "    }\n    for (b = 0; b < nb; b++, in += %lld) {\n",
                 (long long)src->plane);
        if (partial)
            host_put(text, "        cn = b + 1 < nb ? %d : last;\n", g->cb);
        host_put(text,
                 "        for (r = %s; r < %s%d; r++) {\n"
                 "            const %s_t *p = in + %s * %lldL;\n"
                 "            const %s_t *q = w + r * (%d * %s);\n",
                 g->border ? "r0" : "0", g->border ? "r1 + " : "",
                 g->border ? 0 : g->r, name, g->border ? row : "r",
                 (long long)(g->border ? 1 : g->dh) * src->row, name,
                 g->s * vl, cn);
        host_emit_row(text, g, plan, name, m, seen, inner, cn);
        if (!any) /* a tile that sees nothing but padding */
            host_put(text, "            (void)p;\n            (void)q;\n");
        host_put(text, "        }\n        w += %d * %s;\n    }\n",
                 g->r * g->s * vl, cn);
    }
    host_put(text, "}\n");
    for (s = 0; s < (m->borders ? g->s : 1); s++)
        if (seen[s]) host_put(text, "#undef %s_STEP%d\n", name, s);
}

/* Cache tiles: `outer` is host_direct_outer's. */
static void host_emit_nest(host_text *text, const host_kernel *kernel,
                           const host_geo *g, const host_plan *plan,
                           const char *name)
{
    const host_view *src = &plan->src, *dst = &plan->dst;
    long long rs = (long long)g->r * g->s, vl = (long long)g->v * g->b;
    const char *last = g->last != g->cb ? ", last" : "";
    host_micro m;
    int32_t pass;

    host_put(text,
             "static inline void %s_tile(const %s_t *in, const %s_t *w, "
             "%s_o *out,\n    int k, int y, int t, int nb, int first%s)\n{\n"
             "    w += k * %lldL;\n"
             "    out += k * %lldL + y * %lldL + t * %lldL;\n",
             name, name, name, name, g->last != g->cb ? ", int last" : "",
             rs * vl * kernel->cg, (long long)g->v * dst->plane,
             (long long)g->ty * dst->row, (long long)g->tx * dst->pixel);
    if (g->border)
        host_put(text, "    y = y * %d - %d;\n"
                 "    if (t) in += (t * %lldL - %d) * %lldL;\n",
                 g->sh, kernel->conv.pad_top, (long long)g->tx * g->sw,
                 kernel->conv.pad_left, (long long)src->pixel);
    else
        host_put(text, "    in += y * %lldL + t * %lldL;\n",
                 (long long)g->ty * g->sh * src->row,
                 (long long)g->tx * g->sw * src->pixel);
    for (pass = 0; pass < 3; pass++) {
        /* the last tile, the first one, one between */
        int32_t t = pass == 0 ? g->tiles - 1 : pass == 1 ? 0 : 1;
        if ((pass == 1 && g->tiles < 2) || (pass == 2 && g->tiles < 3))
            continue;
        host_micro_of(kernel, g, t, &m);
        if (pass == 0 && g->ytail)
            /* a tile of several rows is whole ones: its tail is below */
            host_put(text, "    if (y == %d) {\n        %s_m%dx%d(in, w, out,"
                     " nb, first%s);\n        return;\n    }\n",
                     g->all[1] - 1, name, g->ytail, g->tx, last);
        if (pass == 2 || (pass == 1 && g->tiles == 2) || g->tiles == 1)
            host_put(text, "    ");
        else
            host_put(text, "    if (t == %d) {\n        ", t);
        host_put(text, "%s_m%dx%d%s(in, w, out, nb, first%s%s);\n", name,
                 m.rows, m.width, host_micro_suffix[m.borders], last,
                 g->border ? ", y" : "");
        if (!(pass == 2 || (pass == 1 && g->tiles == 2) || g->tiles == 1))
            host_put(text, "        return;\n    }\n");
    }
    host_put(text, "}\n");

    host_put(text,
             "static void %s_core(const %s_t *in, const %s_t *w, %s_o *out,\n"
             "    char *work, const int *outer, int phase, int part, int "
             "parts)\n{\n"
             "    static const unsigned char order[6][3] = {\n"
             "        { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 },\n"
             "        { 2, 1, 0 }, { 0, 2, 1 }, { 1, 2, 0 } };\n"
             "    static const int all[3] = { %d, %d, %d };\n"
             "    const unsigned char *d = order[outer[3]];\n"
             "    int g, i[3], from[3], end[3], to[3], k, y, t, s = outer[5];"
             "\n"
             "    (void)work;\n    (void)phase;\n"
             "    for (k = 0; k < 3; k++) {\n"
             "        from[k] = 0;\n"
             "        end[k] = all[k];\n"
             "    }\n"
             "    from[s] = (int)((long)all[s] * part / parts);\n"
             "    end[s] = (int)((long)all[s] * (part + 1) / parts);\n",
             name, name, name, name, g->all[0], g->all[1], g->all[2]);
    host_put(text, "    for (g = 0; g < %d; g++) {\n"
             "    const %s_t *src = in + g * %lldL;\n"
             "    const %s_t *wg = w + g * %lldL;\n"
             "    %s_o *dst = out + g * %lldL;\n",
             kernel->conv.groups, name, (long long)src->group, name,
             rs * vl * kernel->cg * g->all[0], name, (long long)dst->group);
    for (pass = 0; pass < 3; pass++)
        host_put(text, "    for (i[d[%d]] = from[d[%d]]; i[d[%d]] < "
                 "end[d[%d]]; i[d[%d]] += outer[d[%d]]) {\n",
                 pass, pass, pass, pass, pass, pass);
    host_put(text,
             "        const %s_t *a = src + i[2] * %lldL;\n"
             "        const %s_t *b = wg + i[2] * %lldL;\n"
             "        int nb, first = i[2] == 0;\n"
             "        for (k = 0; k < 3; k++) {\n"
             "            to[k] = i[k] + outer[k];\n"
             "            if (to[k] > end[k]) to[k] = end[k];\n"
             "        }\n"
             "        nb = to[2] - i[2];\n",
             name, (long long)src->plane, name, rs * vl * g->cb);
    if (g->last != g->cb)
        host_put(text, "        int last = to[2] == all[2] ? %d : %d;\n",
                 g->last, g->cb);
    host_put(text, "        if (outer[4] == 0) {\n");
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
                 "                %s_tile(a, b, dst, k, y, t, nb, first%s);\n",
                 name, last);
        host_put(text, pass ? "        }\n" : "        } else {\n");
    }
    host_put(text, "    }}}\n    }\n}\n");
}

static void host_direct_emit(const host_kernel *kernel, const int64_t *values,
                             const host_plan *plan, const char *name,
                             host_text *text)
{
    host_micro m[3];
    host_geo g;
    int32_t t;

    host_geo_make(kernel, values, &g);
    if (g.b == 1)
        host_put(text, "typedef %s_o %s_w;\n", name, name);
    else
        host_put(text,
                 "typedef %s_o %s_w __attribute__((vector_size(%d), "
                 "aligned(4), may_alias));\n", name, name, g.b * 4);
    if (g.b > 1 && kernel->in_bytes == 1)
        host_put(text,
                 "typedef signed char %s_q __attribute__((vector_size(%d), "
                 "aligned(1), may_alias));\n", name, g.b);
    for (t = 0; t < 3; t++) {
        /* every kind of tile once; each differs from those before it */
        int j, known = 0;
        if (t >= g.tiles) break;
        host_micro_of(kernel, &g, t == 2 ? g.tiles - 1 : t, &m[t]);
        for (j = 0; j < t; j++)
            known |= m[j].width == m[t].width && m[j].borders == m[t].borders;
        if (!known) host_emit_micro(text, kernel, &g, plan, name, &m[t]);
    }
    if (g.ytail) {
        m[0].rows = g.ytail;
        host_emit_micro(text, kernel, &g, plan, name, &m[0]);
    }
    host_emit_nest(text, kernel, &g, plan, name);
}

/* bit i: knob i matters */
#define HOST_USES_ALL ((1u << HOST_KNOBS) - 1)

const host_algorithm host_algorithm_direct = {
    "direct", HOST_USES_ALL, host_direct_suits, host_direct_lists,
    host_direct_valid, host_direct_repair, host_direct_defaults,
    host_direct_plan, host_direct_axes, host_direct_nest,
    host_direct_canonical, host_direct_weight_size, host_direct_pack_weight,
    host_direct_outer, host_direct_emit, host_direct_emit_pack
};
const host_algorithm host_algorithm_flat = {
    "flat", HOST_USES_ALL & ~(1u << HOST_KNOB_KWU | 1u << HOST_KNOB_BORDER),
    host_flat_suits,
    host_flat_lists, host_direct_valid, host_direct_repair,
    host_direct_defaults, host_direct_plan, host_axes_flat, host_direct_nest,
    host_flat_canonical, host_direct_weight_size, host_direct_pack_weight,
    host_direct_outer, host_direct_emit, host_direct_emit_pack
};
