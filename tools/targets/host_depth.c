/* host_depth.c - depthwise convolution (see host_algo.h)

   Every channel has a kernel of its own, so nothing is shared between
   channels: a vector is L channels, and what can be reused is one input by
   the taps that it meets. A register tile is oht x owt output pixels of one
   channel vector. The borders are in the code: no padded copy is made, and no
   tap is tested while it runs.

   Three forms, from the knobs kwu and oht:
     tile  kwu 1, oht > 1: rows and columns of taps unrolled. An input is
           loaded once for the whole tile; an output row is stored as soon as
           its last input row has gone by, so that only those rows occupy
           registers that one input row feeds.
     line  kwu 1, oht 1: columns of taps unrolled, rows a loop that knows
           which of them lie inside the image.
     loop  kwu 0: both are loops; for kernels too large to unroll.
   Tiles of an axis whose taps are missing in the same places are one class;
   there is one function for each row class x column class, and segments say
   which tiles are of which class.

   Knob order: the letters of kyc are k channel vectors, y rows of tiles, c
   the tiles of a row (an input channel there is none to loop over).

   Rooms: [D-GEO] geometry, [D-KNOB] lists and constraints, [D-NEST] loop
   nests, [D-PACK] weights, [D-EMIT] the C writer. */
#include "host_algo.h"

#include <string.h>

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
static const unsigned char host_depth_order[6][3] = {
    { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 },
    { 2, 1, 0 }, { 0, 2, 1 }, { 1, 2, 0 }
};

/* ============================================= [D-GEO] geometry */

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

static void host_depth_axes(const host_kernel *kernel, host_depth_axis *y,
                            host_depth_axis *x)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    y->in = c->h;
    y->out = kernel->oh;
    y->taps = c->r;
    y->stride = c->stride_h;
    y->pad = c->pad_top;
    y->dil = c->dil_h;
    x->in = c->w;
    x->out = kernel->ow;
    x->taps = c->s;
    x->stride = c->stride_w;
    x->pad = c->pad_left;
    x->dil = c->dil_w;
}

/* The taps lo <= tap < hi of output `at` lie inside the image. */
static void host_depth_taps(const host_depth_axis *a, int32_t at, int32_t *lo,
                            int32_t *hi)
{
    int64_t before = (int64_t)a->pad - (int64_t)at * a->stride;
    int64_t last = a->in - 1 + before; /* of dil * tap */

    *lo = before > 0 ? (int32_t)((before + a->dil - 1) / a->dil) : 0;
    if (*lo > a->taps) *lo = a->taps;
    *hi = last < 0 ? 0
          : last / a->dil + 1 < a->taps ? (int32_t)(last / a->dil + 1)
                                        : a->taps;
    if (*hi < *lo) *hi = *lo;
}

/* Outputs from <= at < to have all their taps (from >= to: there are none,
   and both stand at 0). */
static void host_depth_inner(const host_depth_axis *a, int32_t *from,
                             int32_t *to)
{
    int64_t first = ((int64_t)a->pad + a->stride - 1) / a->stride;
    int64_t last = (int64_t)a->in - 1 + a->pad -
                   (int64_t)(a->taps - 1) * a->dil;
    int64_t end = last < 0 ? 0 : last / a->stride + 1;

    if (end > a->out) end = a->out;
    if (first >= end) first = end = 0;
    *from = (int32_t)first;
    *to = (int32_t)end;
}

static int host_depth_same(const host_depth_axis *a, int32_t p, int32_t q,
                           int32_t size)
{
    int32_t i, lo[2], hi[2];

    for (i = 0; i < size; i++) {
        host_depth_taps(a, p + i, &lo[0], &hi[0]);
        host_depth_taps(a, q + i, &lo[1], &hi[1]);
        if (lo[0] != lo[1] || hi[0] != hi[1]) return 0;
    }
    return 1;
}

/* A tile (or, of a class that needs no comparison, `count` of them) more;
   0 when there is no room. */
static int host_depth_segment_add(host_depth_cut *cut, int32_t first,
                                  int32_t count, int32_t size, int32_t which)
{
    host_depth_segment *last = &cut->segment[cut->n_segments];

    if (count == 0) return 1;
    if (which == cut->n_classes) {
        if (which == HOST_DEPTH_CLASSES) return 0;
        cut->class_first[which] = first;
        cut->class_size[which] = size;
        cut->n_classes++;
    }
    if (cut->n_segments && last[-1].which == which) {
        last[-1].count += count;
        return 1;
    }
    if (cut->n_segments == HOST_DEPTH_SEGMENTS) return 0;
    last->first = first;
    last->count = count;
    last->size = size;
    last->which = which;
    cut->n_segments++;
    return 1;
}

/* Tiles of `size`, the last one perhaps smaller, by class. */
static int host_depth_cut_classes(host_depth_cut *cut, int32_t size)
{
    const host_depth_axis *a = &cut->axis;
    int32_t at, from, to, n, i;

    host_depth_inner(a, &from, &to);
    for (at = 0; at < a->out; at += n * size) {
        int32_t t = a->out - at < size ? a->out - at : size;
        /* tiles well inside are alike: no need to look at each */
        n = at >= from && at + size <= to ? (to - at) / size : 1;
        for (i = 0; i < cut->n_classes; i++)
            if (cut->class_size[i] == t &&
                host_depth_same(a, cut->class_first[i], at, t))
                break;
        if (!host_depth_segment_add(cut, at, n, t, i)) return 0;
    }
    return 1;
}

/* Form loop: single pixels at the borders (class 0), tiles between them. */
static int host_depth_cut_loop(host_depth_cut *cut, int32_t size)
{
    const host_depth_axis *a = &cut->axis;
    int32_t from, to, tail;

    host_depth_inner(a, &from, &to);
    tail = (to - from) % size;
    cut->n_classes = 1;          /* always there, first in the table */
    cut->class_first[0] = 0;
    cut->class_size[0] = 1;
    return host_depth_segment_add(cut, 0, from, 1, 0) &&
           host_depth_segment_add(cut, from, (to - from) / size, size, 1) &&
           host_depth_segment_add(cut, to - tail, tail != 0, tail,
                                  cut->n_classes) &&
           host_depth_segment_add(cut, to, a->out - to, 1, 0);
}

/* 0: the classes are too many. */
static int host_depth_geo_make(const host_kernel *kernel,
                               const int64_t *values, host_depth_geo *g)
{
    memset(g, 0, sizeof *g);
    host_depth_axes(kernel, &g->y.axis, &g->x.axis);
    g->oht = (int32_t)values[HOST_KNOB_OHT];
    g->owt = (int32_t)values[HOST_KNOB_OWT];
    g->form = !values[HOST_KNOB_KWU] ? HOST_DEPTH_LOOP
              : g->oht == 1          ? HOST_DEPTH_LINE
                                     : HOST_DEPTH_TILE;
    g->vectors = host_ceil_div(kernel->conv.c, kernel->march.lanes);
    if (g->form == HOST_DEPTH_TILE) {
        if (!host_depth_cut_classes(&g->y, g->oht)) return 0;
    } else {
        g->y.n_classes = g->y.class_size[0] = 1;
        host_depth_segment_add(&g->y, 0, kernel->oh, 1, 0);
    }
    return g->form == HOST_DEPTH_LOOP
               ? host_depth_cut_loop(&g->x, g->owt)
               : host_depth_cut_classes(&g->x, g->owt);
}

static int32_t host_depth_tiles(const host_depth_cut *cut)
{
    int32_t i, n = 0;

    for (i = 0; i < cut->n_segments; i++) n += cut->segment[i].count;
    return n;
}

static int32_t host_depth_sizes(const host_depth_cut *cut)
{
    int32_t i, n = 0;

    for (i = 0; i < cut->n_classes; i++) n += cut->class_size[i];
    return n;
}

/* Output rows of a tile that one input row can feed. */
static int32_t host_depth_live(const host_kernel *kernel, int32_t oht)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int64_t rows = (int64_t)(c->r - 1) * c->dil_h / c->stride_h + 1;

    return rows < oht ? (int32_t)rows : oht;
}

/* ============================ [D-KNOB] lists and constraints */

static int host_depth_suits(const host_kernel *kernel)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    return c->groups == c->c && c->k == c->c && c->c > 1;
}

/* Accumulators at a time. */
static int32_t host_depth_limit(const host_kernel *kernel)
{
    return kernel->march.vregs - 4;
}

/* A tile of t is worth having when no smaller one needs as few of them; the
   tiny ones only where the extent is tiny, too. There is one for every
   extent. */
static int host_depth_good(const host_kernel *kernel, int32_t extent,
                           int32_t t)
{
    static const int32_t wide[] = { 4, 5, 6, 7, 8, 10, 12, 14 };
    int32_t limit = host_depth_limit(kernel), least = limit / 2;
    size_t i;

    if (limit > HOST_DEPTH_WIDE) limit = HOST_DEPTH_WIDE;
    if (least > 4) least = 4;
    if (extent < 1) extent = 1;
    if (t < 1 || t > limit || t > extent) return 0;
    if (t < least && t < extent) return 0;
    if (t != host_ceil_div(extent, host_ceil_div(extent, t))) return 0;
    if (extent <= 32) return 1;
    for (i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (t == wide[i] || t == least) return 1;
    return 0;
}

static int host_depth_rows_good(const host_kernel *kernel, int32_t t)
{
    static const int32_t rows[] = { 1, 2, 3, 4, HOST_DEPTH_TALL };
    size_t i;

    if (t != host_ceil_div(kernel->oh, host_ceil_div(kernel->oh, t)))
        return 0;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (t == rows[i]) return 1;
    return 0;
}

/* The pixels of a row that owt cuts into tiles. */
static int32_t host_depth_extent(const host_kernel *kernel, int64_t kwu)
{
    host_depth_axis y, x;
    int32_t from, to;

    if (kwu) return kernel->ow;
    host_depth_axes(kernel, &y, &x);
    host_depth_inner(&x, &from, &to);
    return to - from;
}

/* Up to three columns of taps are always unrolled: that is always valid with
   one row, and never worse. */
static int host_depth_kwu_listed(const host_kernel *kernel, int64_t kwu)
{
    return kwu == 1 || (kwu == 0 && kernel->conv.s > 3);
}

/* kyc, kcy: channels outermost; ykc, yck: rows outermost. */
static int host_depth_order_listed(int64_t order)
{
    return order == 0 || order == 1 || order == 4 || order == 5;
}

static void host_depth_lists(host_kernel *kernel)
{
    int32_t i, t;

    for (i = 0; i < 2; i++) {
        if (!host_depth_kwu_listed(kernel, i)) continue;
        host_list_add(kernel, HOST_KNOB_KWU, i);
        for (t = 1; t <= HOST_DEPTH_WIDE; t++)
            if (host_depth_good(kernel, host_depth_extent(kernel, i), t))
                host_list_add(kernel, HOST_KNOB_OWT, t);
    }
    for (t = 1; t <= kernel->oh && t <= HOST_DEPTH_TALL; t++)
        if (host_depth_rows_good(kernel, t))
            host_list_add(kernel, HOST_KNOB_OHT, t);
    for (i = 0; i < 6; i++)
        if (host_depth_order_listed(i))
            host_list_add(kernel, HOST_KNOB_ORDER, i);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 0);
    if (kernel->oh > 1 && kernel->oh <= HOST_DEPTH_TALL &&
        kernel->ow <= HOST_DEPTH_WIDE)
        host_list_add(kernel, HOST_KNOB_PREFETCH, 1);
    host_list_add(kernel, HOST_KNOB_SPLIT, 0);
    if (kernel->march.threads > 1) host_list_add(kernel, HOST_KNOB_SPLIT, 1);
}

static void host_depth_trips(const host_depth_geo *g, int32_t trip[3])
{
    trip[0] = g->vectors;
    trip[1] = host_depth_tiles(&g->y);
    trip[2] = host_depth_tiles(&g->x);
}

/* Do the loops that run more than once stand in the same order? */
static int host_depth_order_same(const int32_t trip[3], int64_t a, int64_t b)
{
    const unsigned char *p = host_depth_order[a], *q = host_depth_order[b];
    int i = 0, j = 0;

    for (;; i++, j++) {
        while (i < 3 && trip[p[i]] < 2) i++;
        while (j < 3 && trip[q[j]] < 2) j++;
        if (i == 3 || j == 3) return i == j;
        if (p[i] != q[j]) return 0;
    }
}

/* The first of those listed that make the same kernel stands for all. */
static int64_t host_depth_order_first(const host_depth_geo *g, int64_t order)
{
    int32_t trip[3];
    int64_t o;

    host_depth_trips(g, trip);
    for (o = 0; o < order; o++)
        if (host_depth_order_listed(o) &&
            host_depth_order_same(trip, o, order))
            break;
    return o;
}

/* Prefetch looks one tile ahead: the hardware does so by itself along a row,
   but not when each tile is a whole image (7x7) of the next channels. */
static int host_depth_whole(const host_depth_geo *g)
{
    return g->form == HOST_DEPTH_TILE && g->vectors > 1 &&
           host_depth_tiles(&g->y) == 1 && host_depth_tiles(&g->x) == 1;
}

/* Everything but order, prefetch and split. */
static int host_depth_tile_valid(const host_kernel *kernel,
                                 const int64_t *values, host_depth_geo *g)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t oht = (int32_t)values[HOST_KNOB_OHT];
    int32_t owt = (int32_t)values[HOST_KNOB_OWT];
    int64_t kwu = values[HOST_KNOB_KWU];
    double taps, body;

    if (!host_depth_kwu_listed(kernel, kwu) ||
        !host_depth_rows_good(kernel, oht) || (!kwu && oht > 1) ||
        !host_depth_good(kernel, host_depth_extent(kernel, kwu), owt) ||
        host_depth_live(kernel, oht) * owt > host_depth_limit(kernel))
        return 0;
    taps = kwu ? (double)c->s * (oht > 1 ? c->r : 1) : 1;
    body = taps * oht * owt;
    if (body > HOST_DEPTH_BODY || !host_depth_geo_make(kernel, values, g))
        return 0;
    return taps * host_depth_sizes(&g->y) * host_depth_sizes(&g->x) <=
           HOST_DEPTH_TOTAL;
}

static int host_depth_valid(const host_kernel *kernel, const int64_t *values)
{
    host_depth_geo g;
    int64_t order = values[HOST_KNOB_ORDER], split = values[HOST_KNOB_SPLIT];

    if (!host_depth_order_listed(order) || split < 0 || split > 1 ||
        values[HOST_KNOB_PREFETCH] < 0 || values[HOST_KNOB_PREFETCH] > 1)
        return 0;
    if (!host_depth_tile_valid(kernel, values, &g)) return 0;
    if (host_depth_order_first(&g, order) != order) return 0;
    if (values[HOST_KNOB_PREFETCH] && !host_depth_whole(&g)) return 0;
    return !split ||
           (kernel->march.threads > 1 && host_depth_tiles(&g.y) > 1);
}

/* How far apart two values of a knob's list stand. */
static int32_t host_depth_apart(const host_kernel *kernel, int knob,
                                int64_t a, int64_t b)
{
    const host_knob *list = &kernel->knob[knob];
    uint32_t i;
    int32_t n = 0;

    for (i = 0; i < list->n_values; i++)
        n += (list->values[i] < a) != (list->values[i] < b);
    return n;
}

/* The nearest legal tile: kwu rather stays than oht, oht rather than owt. */
static int host_depth_repair(const host_kernel *kernel, int64_t *values)
{
    const host_knob *kwu = &kernel->knob[HOST_KNOB_KWU];
    const host_knob *oht = &kernel->knob[HOST_KNOB_OHT];
    const host_knob *owt = &kernel->knob[HOST_KNOB_OWT];
    int64_t trial[HOST_KNOBS], best[3] = { 0, 0, 0 };
    int32_t far, least = -1;
    uint32_t i, j, k;
    host_depth_geo g;

    memcpy(trial, values, sizeof trial);
    for (i = 0; i < kwu->n_values; i++)
        for (j = 0; j < oht->n_values; j++)
            for (k = 0; k < owt->n_values; k++) {
                trial[HOST_KNOB_KWU] = kwu->values[i];
                trial[HOST_KNOB_OHT] = oht->values[j];
                trial[HOST_KNOB_OWT] = owt->values[k];
                far = 4096 * host_depth_apart(kernel, HOST_KNOB_KWU,
                                              kwu->values[i],
                                              values[HOST_KNOB_KWU]) +
                      64 * host_depth_apart(kernel, HOST_KNOB_OHT,
                                            oht->values[j],
                                            values[HOST_KNOB_OHT]) +
                      host_depth_apart(kernel, HOST_KNOB_OWT,
                                       owt->values[k],
                                       values[HOST_KNOB_OWT]);
                if ((least >= 0 && far >= least) ||
                    !host_depth_tile_valid(kernel, trial, &g))
                    continue;
                least = far;
                best[0] = kwu->values[i];
                best[1] = oht->values[j];
                best[2] = owt->values[k];
            }
    if (least < 0) return 0;
    values[HOST_KNOB_KWU] = best[0];
    values[HOST_KNOB_OHT] = best[1];
    values[HOST_KNOB_OWT] = best[2];
    if (!host_depth_order_listed(values[HOST_KNOB_ORDER]))
        values[HOST_KNOB_ORDER] = 0;
    if (!host_depth_geo_make(kernel, values, &g)) return 0;
    values[HOST_KNOB_ORDER] =
        host_depth_order_first(&g, values[HOST_KNOB_ORDER]);
    if (values[HOST_KNOB_PREFETCH] != 0)
        values[HOST_KNOB_PREFETCH] =
            host_depth_whole(&g) && values[HOST_KNOB_PREFETCH] == 1;
    if (values[HOST_KNOB_SPLIT] != 0 &&
        (kernel->march.threads < 2 || host_depth_tiles(&g.y) < 2))
        values[HOST_KNOB_SPLIT] = 0;
    return host_depth_valid(kernel, values);
}

/* Inputs that n outputs of an axis touch with t of their taps. */
static int32_t host_depth_touched(const host_depth_axis *a, int32_t n,
                                  int32_t t)
{
    int64_t all = (int64_t)n * t;
    int64_t span = (int64_t)(n - 1) * a->stride + (int64_t)(t - 1) * a->dil +
                   1;

    if (span > all) span = all;
    return (int32_t)(span < a->in ? span : a->in);
}

/* About how long a channel vector takes, in cycles: two multiply-adds or two
   loads, or one store, each; and what a tile, a row of taps, a tap cost
   besides. */
static double host_depth_cost(const host_kernel *kernel,
                              const host_depth_geo *g)
{
    const host_depth_axis *ay = &g->y.axis, *ax = &g->x.axis;
    /* nhwc with C a power of two: the pixels of a tile share few cache sets */
    int32_t channels = kernel->conv.c;
    int crowded = kernel->conv.layout == METATUNE_NHWC && channels >= 64 &&
                  (channels & (channels - 1)) == 0;
    double sum = 0, code;
    int32_t i, j;

    for (i = 0; i < g->y.n_segments; i++)
        for (j = 0; j < g->x.n_segments; j++) {
            int32_t h = g->y.segment[i].size, w = g->x.segment[j].size;
            double taps = (double)ay->taps * ax->taps, inputs, weights, one;
            if (g->form == HOST_DEPTH_TILE) {
                inputs = (double)host_depth_touched(ay, h, ay->taps) *
                         host_depth_touched(ax, w, ax->taps);
                /* every row is one more stream for the hardware */
                one = 12 + 2.0 * (h + host_depth_touched(ay, h, ay->taps));
            } else if (g->form == HOST_DEPTH_LINE) {
                inputs = (double)ay->taps *
                         host_depth_touched(ax, w, ax->taps);
                one = 12 + 5.0 * ay->taps;
            } else {
                inputs = taps * w;
                one = 12 + 5.0 * ay->taps + 2 * taps;
            }
            weights = taps;
            one += 0.5 * (taps * h * w + inputs + weights) + h * w;
            if (crowded && h * w > 16) one += 3.0 * (h * w - 16);
            sum += one * g->y.segment[i].count * g->x.segment[j].count;
        }
    code = (double)host_depth_sizes(&g->y) * host_depth_sizes(&g->x);
    if (g->form != HOST_DEPTH_LOOP) code *= ax->taps;
    if (g->form == HOST_DEPTH_TILE) {
        code *= ay->taps;
        /* weights that find no register are loaded again */
        if (host_depth_live(kernel, g->oht) * g->owt + ax->taps * ay->taps >=
            kernel->march.vregs)
            sum *= 1.1;
    }
    return sum * (1 + code / 20000); /* it has to be fetched and built */
}

static void host_depth_defaults(const host_kernel *kernel, int64_t *values)
{
    const host_knob *kwu = &kernel->knob[HOST_KNOB_KWU];
    const host_knob *oht = &kernel->knob[HOST_KNOB_OHT];
    const host_knob *owt = &kernel->knob[HOST_KNOB_OWT];
    int64_t trial[HOST_KNOBS];
    double best = -1, cost;
    uint32_t i, j, k;
    host_depth_geo g;

    memcpy(trial, values, sizeof trial);
    trial[HOST_KNOB_ORDER] = trial[HOST_KNOB_SPLIT] = 0;
    trial[HOST_KNOB_PREFETCH] = 0;
    for (i = 0; i < kwu->n_values; i++)
        for (j = 0; j < oht->n_values; j++)
            for (k = 0; k < owt->n_values; k++) {
                trial[HOST_KNOB_KWU] = kwu->values[i];
                trial[HOST_KNOB_OHT] = oht->values[j];
                trial[HOST_KNOB_OWT] = owt->values[k];
                if (!host_depth_tile_valid(kernel, trial, &g)) continue;
                cost = host_depth_cost(kernel, &g);
                if (best >= 0 && cost >= best) continue;
                best = cost;
                memcpy(values, trial, sizeof trial);
            }
    /* The channels of a pixel of nhwc stand side by side: innermost. */
    if (best >= 0 && kernel->conv.layout == METATUNE_NHWC &&
        kernel->conv.c % kernel->march.lanes == 0 &&
        host_depth_geo_make(kernel, values, &g))
        values[HOST_KNOB_ORDER] = host_depth_order_first(&g, 5);
}

static void host_depth_plan(const host_kernel *kernel, const int64_t *values,
                            host_plan *plan)
{
    (void)kernel;
    (void)values;
    plan->stage = HOST_STAGE_BLOCK;
    plan->core_phases = 1;
    plan->core_bytes = 0;
}

/* ======================================================= [D-NEST] nests */

/* Slots; 0 is the root. */
enum {
    HOST_DEPTH_N = 1, HOST_DEPTH_K, HOST_DEPTH_Y, HOST_DEPTH_X, HOST_DEPTH_R,
    HOST_DEPTH_S, HOST_DEPTH_KL, HOST_DEPTH_YU, HOST_DEPTH_XU, HOST_DEPTH_KV,
    HOST_DEPTH_YE, HOST_DEPTH_XE, HOST_DEPTH_KE, HOST_DEPTH_LOAD_A,
    HOST_DEPTH_LOAD_W, HOST_DEPTH_FMA, HOST_DEPTH_STORE, HOST_DEPTH_COPY_IN,
    HOST_DEPTH_COPY_OUT
};

static metatune_status host_depth_nest_axes(const host_kernel *kernel,
                                            metatune_encode_nest *nest)
{
    metatune_status status =
        metatune_encode_conv2d_begin(nest, &kernel->conv);

    nest->skeleton = HOST_DEPTH;
    return status;
}

static metatune_status host_depth_nest(const host_kernel *kernel,
                                       const int64_t *values,
                                       const host_plan *plan,
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
    const metatune_encode_conv2d *c = &kernel->conv;
    const int32_t lanes = kernel->march.lanes;
    const double taps = (double)c->r * c->s;
    const unsigned char *order = host_depth_order[values[HOST_KNOB_ORDER]];
    metatune_encode_dim *dim = nest->tensor[METATUNE_CONV_WEIGHT].dim;
    int32_t p, e, l, i, rows, columns;
    host_depth_geo g;

    if (!host_depth_geo_make(kernel, values, &g)) return METATUNE_BAD_ARG;
    host_dims_view(&nest->tensor[METATUNE_CONV_INPUT], &plan->src);
    host_dims_view(&nest->tensor[METATUNE_CONV_OUTPUT], &plan->dst);
    host_dim_set(&dim[0], lanes, 1, taps * lanes);
    host_dim_set(&dim[1], 0, 1, 0); /* one channel a group */
    host_dim_set(&dim[2], 0, (double)c->s * lanes, 0);
    host_dim_set(&dim[3], 0, lanes, 0);

    p = host_loop(nest, -1, METATUNE_CONV_N, 1, c->n, SERIAL, HOST_DEPTH_N);
    if (plan->staged)
        metatune_encode_copy_add(nest, p, METATUNE_CONV_INPUT,
                                 METATUNE_SCOPE_GLOBAL, HOST_DEPTH_COPY_IN);
    if (plan->unstaged)
        metatune_encode_copy_add(nest, p, METATUNE_CONV_OUTPUT,
                                 METATUNE_SCOPE_GLOBAL, HOST_DEPTH_COPY_OUT);
    for (i = 0; i < 3; i++) {
        int shared = kernel->march.threads > 1 &&
                     order[i] == values[HOST_KNOB_SPLIT];
        int32_t kind = shared ? METATUNE_LOOP_PARALLEL : SERIAL;
        if (order[i] == 0)
            p = host_loop(nest, p, METATUNE_CONV_G, lanes, g.vectors, kind,
                          HOST_DEPTH_K);
        else if (order[i] == 1)
            p = host_loop(nest, p, METATUNE_CONV_Y, g.oht,
                          host_ceil_div(kernel->oh, g.oht), kind,
                          HOST_DEPTH_Y);
        else
            p = host_loop(nest, p, METATUNE_CONV_X, g.owt,
                          host_ceil_div(kernel->ow, g.owt), kind,
                          HOST_DEPTH_X);
    }
    /* Stores are unrolled, too, but called serial: the totals would count
       them as part of the body that runs for every tap. */
    e = host_loop(nest, p, METATUNE_CONV_Y, 1, g.oht, SERIAL, HOST_DEPTH_YE);
    e = host_loop(nest, e, METATUNE_CONV_X, 1, g.owt, SERIAL, HOST_DEPTH_XE);
    e = host_loop(nest, e, METATUNE_CONV_G, 1, lanes, VECTOR, HOST_DEPTH_KE);

    /* Loads stand where they happen: once a tile (form tile), a row of taps
       (line), a tap (loop). */
    l = p;
    rows = host_depth_touched(&g.y.axis, g.oht,
                              g.form == HOST_DEPTH_TILE ? c->r : 1);
    columns = host_depth_touched(&g.x.axis, g.owt,
                                 g.form == HOST_DEPTH_LOOP ? 1 : c->s);
    p = host_loop(nest, p, METATUNE_CONV_R, 1, c->r,
                  g.form == HOST_DEPTH_TILE ? UNROLL : SERIAL, HOST_DEPTH_R);
    if (g.form == HOST_DEPTH_LINE) l = p;
    p = host_loop(nest, p, METATUNE_CONV_S, 1, c->s,
                  g.form == HOST_DEPTH_LOOP ? SERIAL : UNROLL, HOST_DEPTH_S);
    if (g.form == HOST_DEPTH_LOOP) l = p;
    l = host_loop(nest, l, METATUNE_CONV_G, 1, lanes, VECTOR, HOST_DEPTH_KL);
    metatune_encode_stmt_add(nest, l, METATUNE_STMT_LOAD, HOST_DEPTH_LOAD_A,
                             rows * columns, a_in, 1);
    metatune_encode_stmt_add(nest, l, METATUNE_STMT_LOAD, HOST_DEPTH_LOAD_W,
                             g.form == HOST_DEPTH_TILE   ? c->r * c->s
                             : g.form == HOST_DEPTH_LINE ? c->s
                                                         : 1,
                             a_w, 1);
    p = host_loop(nest, p, METATUNE_CONV_Y, 1, g.oht, UNROLL, HOST_DEPTH_YU);
    p = host_loop(nest, p, METATUNE_CONV_X, 1, g.owt, UNROLL, HOST_DEPTH_XU);
    p = host_loop(nest, p, METATUNE_CONV_G, 1, lanes, VECTOR, HOST_DEPTH_KV);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_FMA, HOST_DEPTH_FMA, 1,
                             a_fma, 3);
    metatune_encode_stmt_add(nest, e, METATUNE_STMT_STORE, HOST_DEPTH_STORE,
                             1, a_out, 1);
    nest->hint[0] = (metatune_real)values[HOST_KNOB_PREFETCH];
    return nest->status;
}

static void host_depth_canonical(metatune_encode_conv2d *conv,
                                 int64_t *values)
{
    /* plain nchw: both conversions are there */
    *conv = metatune_encode_conv2d_make(2, 64, 28, 28, 64, 3, 3, 1, 1);
    conv->groups = 64;
    values[HOST_KNOB_PREFETCH] = 0;
    values[HOST_KNOB_KWU] = 1;
    values[HOST_KNOB_OHT] = 2;
    values[HOST_KNOB_OWT] = 7;
    values[HOST_KNOB_ORDER] = 0;
    values[HOST_KNOB_SPLIT] = 0;
}

/* ==================================================== [D-PACK] weights */

static size_t host_depth_weight_size(const host_kernel *kernel,
                                     const int64_t *values)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t lanes = kernel->march.lanes;

    (void)values;
    return (size_t)host_ceil_div(c->c, lanes) * (size_t)lanes *
           (size_t)c->r * (size_t)c->s * (size_t)kernel->in_bytes;
}

/* (C, 1, R, S) -> (ceil(C/L), R, S, L), lanes past the last channel zero. */
static void host_depth_pack_weight(const host_kernel *kernel,
                                   const int64_t *values, const void *kcrs,
                                   void *w)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    const size_t lanes = (size_t)kernel->march.lanes;
    const size_t taps = (size_t)c->r * (size_t)c->s;
    const size_t bytes = (size_t)kernel->in_bytes;
    const unsigned char *from = (const unsigned char *)kcrs;
    unsigned char *to = (unsigned char *)w;
    size_t k, i;

    memset(w, 0, host_depth_weight_size(kernel, values));
    for (k = 0; k < (size_t)c->c; k++)
        for (i = 0; i < taps; i++)
            memcpy(to + (((k / lanes) * taps + i) * lanes + k % lanes) *
                            bytes,
                   from + (k * taps + i) * bytes, bytes);
}

/* ================================================ [D-EMIT] the C writer */

static void host_depth_outer(const host_kernel *kernel, const int64_t *values,
                             int outer[HOST_OUTER])
{
    int32_t trip[3];
    host_depth_geo g;
    int o = 0, order = (int)values[HOST_KNOB_ORDER];

    memset(outer, 0, HOST_OUTER * sizeof outer[0]);
    /* the innermost loop is the function's own: one that runs, if any does */
    if (host_depth_geo_make(kernel, values, &g)) {
        host_depth_trips(&g, trip);
        while (o < 6 && (trip[host_depth_order[o][2]] < 2 ||
                         !host_depth_order_same(trip, o, order)))
            o++;
    }
    outer[0] = o < 6 ? o : order;
    outer[1] = (int)values[HOST_KNOB_SPLIT];
}

/* What the writers share; steps are in values. The names they write: in, w,
   out the tile's pointers, n how many tiles, d the steps to the next one, y
   and x its first output; aI_J the sums, wR_S the weights, u an input. */
typedef struct host_depth_code {
    const host_kernel *kernel;
    const char *name;
    host_text *text;
    host_depth_geo g;
    long in_x, in_y, in_k;       /* input: a column, a row, a vector */
    long out_x, out_y, out_k;
    int32_t taps;                /* of a kernel */
    int32_t lanes, prefetch;
} host_depth_code;

/* The sums are of the type NAME_a. Products of i8 are whole numbers of at
   most 2^14: up to 2^10 of them a float sums exactly, and much faster than a
   vector of i32, whose multiplication is slow. */
static void host_depth_emit_types(const host_depth_code *d)
{
    const char *name = d->name;
    int i8 = d->kernel->in_bytes == 1, as_float = i8 && d->taps <= 1024;

    if (d->lanes == 1) {
        host_put(d->text,
                 "typedef %s_o %s_a;\n"
                 "#define %s_LD(p) ((%s_o)*(p))\n"
                 "#define %s_ST(p, a) (*(p) = (a))\n",
                 name, name, name, name, name);
        return;
    }
    if (!i8) {
        host_put(d->text,
                 "typedef %s_v %s_a;\n"
                 "#define %s_LD(p) (*(const %s_v *)(p))\n",
                 name, name, name, name);
    } else {
        /* in steps of twice the width: compilers know instructions for
           these */
        host_put(d->text,
                 "typedef signed char %s_b __attribute__((vector_size(%d), "
                 "aligned(1), may_alias));\n"
                 "typedef short %s_h __attribute__((vector_size(%d)));\n"
                 "typedef int %s_i __attribute__((vector_size(%d)));\n"
                 "typedef %s %s_a __attribute__((vector_size(%d)));\n",
                 name, d->lanes, name, d->lanes * 2, name, d->lanes * 4,
                 as_float ? "float" : "int", name, d->lanes * 4);
        host_put(d->text,
                 "#define %s_LI(p) __builtin_convertvector( \\\n"
                 "    __builtin_convertvector(*(const %s_b *)(p), %s_h), "
                 "%s_i)\n",
                 name, name, name, name);
        if (as_float)
            host_put(d->text,
                     "#define %s_LD(p) __builtin_convertvector(%s_LI(p), "
                     "%s_a)\n", name, name, name);
        else
            host_put(d->text, "#define %s_LD(p) %s_LI(p)\n", name, name);
    }
    if (as_float)
        host_put(d->text,
                 "#define %s_ST(p, a) (*(%s_v *)(p) = (%s_v) \\\n"
                 "    __builtin_convertvector(a, %s_i))\n",
                 name, name, name, name);
    else
        host_put(d->text, "#define %s_ST(p, a) (*(%s_v *)(p) = (%s_v)(a))\n",
                 name, name, name);
}

/* Steps of the innermost loop over tiles, and the function of a class. */
static void host_depth_emit_step(const host_depth_code *d)
{
    host_put(d->text,
             "typedef struct %s_d {\n    long in, w, out;\n    int y, x;\n"
             "} %s_d;\n"
             "typedef void %s_f(const %s_t *in, const %s_t *w, %s_o *out,\n"
             "    const %s_d *d, int n%s);\n",
             d->name, d->name, d->name, d->name, d->name, d->name, d->name,
             d->g.form == HOST_DEPTH_TILE ? "" : ", int y, int x");
}

static void host_depth_emit_open(const host_depth_code *d, int32_t row_class,
                                 int32_t column_class)
{
    host_put(d->text,
             "static %s_NOINLINE void %s_m%d_%d(const %s_t *in,\n"
             "    const %s_t *w, %s_o *out, const %s_d *d, int n%s)\n{\n",
             d->name, d->name, (int)row_class, (int)column_class, d->name,
             d->name, d->name, d->name,
             d->g.form == HOST_DEPTH_TILE ? "" : ", int y, int x");
}

/* One input column's products: input u is loaded, and every output pixel of
   the class that has a tap there gets its share. Form tile: input row iy,
   kernel rows known; form line: the row that p points to. */
static void host_depth_emit_input(const host_depth_code *d, int32_t yc,
                                  int32_t xc, int64_t iy, int64_t ix,
                                  unsigned char *begun)
{
    const host_depth_axis *ay = &d->g.y.axis, *ax = &d->g.x.axis;
    const int line = d->g.form == HOST_DEPTH_LINE;
    int32_t h = d->g.y.class_size[yc], w = d->g.x.class_size[xc];
    int32_t i, j, lo, hi, loaded = 0;

    for (i = 0; i < h; i++) {
        int64_t r = iy - (int64_t)i * ay->stride;
        if (!line) {
            if (r < 0 || r % ay->dil) continue;
            r /= ay->dil;
            host_depth_taps(ay, d->g.y.class_first[yc] + i, &lo, &hi);
            if (r < lo || r >= hi) continue;
        }
        for (j = 0; j < w; j++) {
            int64_t s = ix - (int64_t)j * ax->stride;
            if (s < 0 || s % ax->dil) continue;
            s /= ax->dil;
            host_depth_taps(ax, d->g.x.class_first[xc] + j, &lo, &hi);
            if (s < lo || s >= hi) continue;
            if (!loaded)
                host_put(d->text, "u = %s_LD(%s + %ldL);\n", d->name,
                         line ? "p" : "in",
                         (line ? 0L : (long)(iy - ay->pad) * d->in_y) +
                             (long)(ix - ax->pad) * d->in_x);
            loaded = 1;
            if (line)
                host_put(d->text, "a0_%d += w0_%d * u;\n", (int)j, (int)s);
            else
                host_put(d->text, "a%d_%d %s w%d_%d * u;\n", (int)i, (int)j,
                         begun[i * w + j] ? "+=" : "=", (int)r, (int)s);
            begun[i * w + j] = 1;
        }
    }
}

/* The first input of a tile of n outputs, at or after `at`, that a tap
   touches; -1: none does. Both count from the tile's first tap. */
static int64_t host_depth_next(const host_depth_axis *a, int32_t n,
                               int64_t at)
{
    int64_t best = -1, i, t, p;

    for (i = 0; i < n; i++)
        for (t = 0; t < a->taps; t++) {
            p = i * a->stride + t * a->dil;
            if (p >= at && (best < 0 || p < best)) best = p;
        }
    return best;
}

/* Any tap of kernel column s inside, for some pixel of the class? */
static int host_depth_used(const host_depth_cut *cut, int32_t which,
                           int32_t tap)
{
    int32_t i, lo, hi;

    for (i = 0; i < cut->class_size[which]; i++) {
        host_depth_taps(&cut->axis, cut->class_first[which] + i, &lo, &hi);
        if (tap >= lo && tap < hi) return 1;
    }
    return 0;
}

static void host_depth_emit_sums(const host_depth_code *d, int32_t h,
                                 int32_t w)
{
    int32_t i, j;

    for (i = 0; i < h; i++) {
        host_put(d->text, "    %s_a", d->name);
        for (j = 0; j < w; j++)
            host_put(d->text, " a%d_%d%s", (int)i, (int)j,
                     j + 1 < w ? "," : ";\n");
    }
}

static void host_depth_emit_store(const host_depth_code *d, int32_t i,
                                  int32_t w, const unsigned char *begun)
{
    int32_t j;

    for (j = 0; j < w; j++) {
        if (!begun[i * w + j])
            host_put(d->text, "a%d_%d = zero;\n", (int)i, (int)j);
        host_put(d->text, "%s_ST(out + %ldL, a%d_%d);\n", d->name,
                 i * d->out_y + j * d->out_x, (int)i, (int)j);
    }
}

/* Row i of the next tile's image. */
static void host_depth_emit_prefetch(const host_depth_code *d, int64_t i)
{
    int64_t j;

    for (j = 0; j < d->g.x.axis.in && j < HOST_DEPTH_AHEAD; j++)
        host_put(d->text, "%s_PREFETCH(in + d->in + %ldL);\n", d->name,
                 (long)(i * d->in_y + j * d->in_x));
}

/* Form tile. */
static void host_depth_emit_tile(const host_depth_code *d, int32_t yc,
                                 int32_t xc)
{
    const host_depth_axis *ay = &d->g.y.axis, *ax = &d->g.x.axis;
    int32_t h = d->g.y.class_size[yc], w = d->g.x.class_size[xc], i, s, r;
    int64_t iy, ix;
    unsigned char begun[HOST_DEPTH_BODY];
    int32_t any = 0, all = 1;

    memset(begun, 0, sizeof begun);
    host_depth_emit_open(d, yc, xc);
    host_put(d->text, "    for (; n > 0; n--, in += d->in, w += d->w, "
             "out += d->out) {\n");
    for (r = 0; r < ay->taps; r++)
        for (s = 0; s < ax->taps; s++)
            if (host_depth_used(&d->g.y, yc, r) &&
                host_depth_used(&d->g.x, xc, s)) {
                host_put(d->text, "const %s_a w%d_%d = %s_LD(w + %ldL);\n",
                         d->name, (int)r, (int)s, d->name,
                         ((long)r * ax->taps + s) * d->lanes);
                any = 1;
            }
    host_depth_emit_sums(d, h, w);
    if (any) host_put(d->text, "%s_a u;\n", d->name);
    for (i = 0; i < h * w; i++) {
        int32_t lo, hi, lx, hx;
        host_depth_taps(ay, d->g.y.class_first[yc] + i / w, &lo, &hi);
        host_depth_taps(ax, d->g.x.class_first[xc] + i % w, &lx, &hx);
        if (lo == hi || lx == hx) all = 0;
    }
    if (!all) host_put(d->text, "const %s_a zero = { 0 };\n", d->name);
    i = 0;
    for (iy = 0; iy >= 0; iy = host_depth_next(ay, h, iy + 1)) {
        if (d->prefetch && iy < ay->in) host_depth_emit_prefetch(d, iy);
        for (ix = 0; ix >= 0; ix = host_depth_next(ax, w, ix + 1))
            host_depth_emit_input(d, yc, xc, iy, ix, begun);
        /* rows whose last tap this was are done */
        while (i < h && (int64_t)i * ay->stride +
                                (int64_t)(ay->taps - 1) * ay->dil <=
                            iy)
            host_depth_emit_store(d, i++, w, begun);
    }
    host_put(d->text, "    }\n}\n");
}

/* r0 <= r < r1: the kernel rows inside for output row y. */
static void host_depth_emit_range(const host_depth_code *d,
                                  const host_depth_axis *a, char tap,
                                  char at)
{
    host_put(d->text,
             "        int %c0 = %d - %c * %d, %c1 = %c0 + %d;\n",
             tap, (int)a->pad, at, (int)a->stride, tap, tap,
             (int)(a->in - 1));
    host_put(d->text,
             "        %c0 = %c0 > 0 ? (%c0 + %d) / %d : 0;\n"
             "        %c1 = %c1 < 0 ? 0 : %c1 / %d + 1;\n"
             "        if (%c1 > %d) %c1 = %d;\n",
             tap, tap, tap, (int)(a->dil - 1), (int)a->dil, tap, tap, tap,
             (int)a->dil, tap, (int)a->taps, tap, (int)a->taps);
}

/* Forms line and loop: the loop over the tiles, down to a kernel row. */
static void host_depth_emit_rows(const host_depth_code *d, int32_t xc)
{
    const host_depth_axis *ay = &d->g.y.axis, *ax = &d->g.x.axis;
    int32_t w = d->g.x.class_size[xc], j;
    int border = d->g.form == HOST_DEPTH_LOOP && xc == 0;

    host_depth_emit_open(d, 0, xc);
    host_put(d->text, "    for (; n > 0; n--, in += d->in, w += d->w, "
             "out += d->out,\n        y += d->y%s) {\n",
             border ? ", x += d->x" : "");
    host_depth_emit_range(d, ay, 'r', 'y');
    if (border) host_depth_emit_range(d, ax, 's', 'x');
    host_put(d->text,
             "        const %s_t *p = in + (r0 * %ldL - %ldL) * %ldL;\n"
             "        const %s_t *q = w + r0 * %ldL;\n"
             "        int r;\n",
             d->name, (long)ay->dil, (long)ay->pad, d->in_y, d->name,
             (long)ax->taps * d->lanes);
    host_depth_emit_sums(d, 1, w);
    host_put(d->text, "    %s", "");
    for (j = 0; j < w; j++) host_put(d->text, "a0_%d = ", (int)j);
    host_put(d->text, "(%s_a)%s;\n", d->name, d->lanes > 1 ? "{ 0 }" : "0");
    host_put(d->text,
             "        for (r = r0; r < r1; r++, p += %ldL, q += %ldL) {\n",
             (long)ay->dil * d->in_y, (long)ax->taps * d->lanes);
}

static void host_depth_emit_rows_end(const host_depth_code *d, int32_t xc)
{
    int32_t j, w = d->g.x.class_size[xc];

    host_put(d->text, "        }\n");
    for (j = 0; j < w; j++)
        host_put(d->text, "        %s_ST(out + %ldL, a0_%d);\n", d->name,
                 j * d->out_x, (int)j);
    if (d->g.form == HOST_DEPTH_LINE || xc > 0)
        host_put(d->text, "    }\n    (void)x;\n}\n");
    else
        host_put(d->text, "    }\n}\n");
}

static void host_depth_emit_line(const host_depth_code *d, int32_t xc)
{
    const host_depth_axis *ax = &d->g.x.axis;
    unsigned char begun[HOST_DEPTH_WIDE];
    int32_t w = d->g.x.class_size[xc], s, any = 0;
    int64_t ix;

    memset(begun, 1, sizeof begun);
    host_depth_emit_rows(d, xc);
    for (s = 0; s < ax->taps; s++)
        if (host_depth_used(&d->g.x, xc, s)) {
            host_put(d->text, "const %s_a w0_%d = %s_LD(q + %ldL);\n",
                     d->name, (int)s, d->name, (long)s * d->lanes);
            any = 1;
        }
    if (any) host_put(d->text, "%s_a u;\n", d->name);
    for (ix = 0; ix >= 0; ix = host_depth_next(ax, w, ix + 1))
        host_depth_emit_input(d, 0, xc, 0, ix, begun);
    host_depth_emit_rows_end(d, xc);
}

static void host_depth_emit_loop(const host_depth_code *d, int32_t xc)
{
    const host_depth_axis *ax = &d->g.x.axis;
    int32_t w = d->g.x.class_size[xc], j;
    int border = xc == 0;

    host_depth_emit_rows(d, xc);
    host_put(d->text, "        const %s_t *a = p - %ldL;\n",
             d->name, (long)ax->pad * d->in_x);
    host_put(d->text, "        int s;\n");
    if (border)
        host_put(d->text,
                 "        a += s0 * %ldL;\n"
                 "        for (s = s0; s < s1; s++, a += %ldL) {\n",
                 (long)ax->dil * d->in_x, (long)ax->dil * d->in_x);
    else
        host_put(d->text, "        for (s = 0; s < %d; s++, a += %ldL) {\n",
                 (int)ax->taps, (long)ax->dil * d->in_x);
    host_put(d->text, "        const %s_a b = %s_LD(q + s * %d);\n", d->name,
             d->name, (int)d->lanes);
    for (j = 0; j < w; j++)
        host_put(d->text, "        a0_%d += b * %s_LD(a + %ldL);\n", (int)j,
                 d->name, (long)j * ax->stride * d->in_x);
    host_put(d->text, "        }\n");
    host_depth_emit_rows_end(d, xc);
}

static void host_depth_emit_segments(const host_depth_code *d,
                                     const host_depth_cut *cut, char axis)
{
    int32_t i;

    host_put(d->text, "    static const int s%c[%d][4] = {", axis,
             (int)cut->n_segments);
    for (i = 0; i < cut->n_segments; i++)
        host_put(d->text, "%s { %d, %d, %d, %d }", i ? "," : "",
                 (int)cut->segment[i].first, (int)cut->segment[i].count,
                 (int)cut->segment[i].size, (int)cut->segment[i].which);
    host_put(d->text, " };\n");
}

/* The loops over all tiles, in the order and shared as `outer` says. */
static void host_depth_emit_core(const host_depth_code *d)
{
    const char *name = d->name;
    int32_t rows = host_ceil_div(d->kernel->oh, d->g.oht), i, j;
    int tile = d->g.form == HOST_DEPTH_TILE;

    host_put(d->text,
             "static void %s_core(const %s_t *in, const %s_t *w, %s_o *out,"
             "\n    char *work, const int *outer, int phase, int part, "
             "int parts)\n{\n"
             "    static const unsigned char order[6][3] = {\n"
             "        { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 },\n"
             "        { 2, 1, 0 }, { 0, 2, 1 }, { 1, 2, 0 } };\n"
             "    static const int sk[1][4] = { { 0, %d, 1, 0 } };\n",
             name, name, name, name, (int)d->g.vectors);
    host_depth_emit_segments(d, &d->g.y, 'y');
    host_depth_emit_segments(d, &d->g.x, 'x');
    host_put(d->text,
             "    static const int segments[3] = { 1, %d, %d };\n"
             "    static const %s_d one[3] = {\n"
             "        { %ldL, %ldL, %ldL, 0, 0 },\n"
             "        { %ldL, 0, %ldL, 1, 0 },\n"
             "        { %ldL, 0, %ldL, 0, 1 } };\n"
             "    static %s_f *const f[%d] = {",
             (int)d->g.y.n_segments, (int)d->g.x.n_segments, name, d->in_k,
             (long)d->taps * d->lanes, d->out_k,
             d->g.y.axis.stride * d->in_y, d->out_y,
             d->g.x.axis.stride * d->in_x, d->out_x, name,
             (int)(d->g.y.n_classes * d->g.x.n_classes));
    for (i = 0; i < d->g.y.n_classes; i++)
        for (j = 0; j < d->g.x.n_classes; j++)
            host_put(d->text, "%s\n        %s_m%d_%d", i + j ? "," : "",
                     name, (int)i, (int)j);
    host_put(d->text,
             "\n    };\n"
             "    const int (*const segment[3])[4] = { sk, sy, sx };\n"
             "    const unsigned char *o = order[outer[0]];\n"
             "    const int a = o[0], b = o[1], c = o[2];\n"
             "    int lo[3] = { 0, 0, 0 }, hi[3] = { %d, %d, %d };\n"
             "    const int *s[3];\n"
             "    int at[3], to[3], g[3];\n"
             "    (void)work;\n    (void)phase;\n"
             "    if (outer[1] == 0) {\n"
             "        lo[0] = (int)((long)%d * part / parts);\n"
             "        hi[0] = (int)((long)%d * (part + 1) / parts);\n"
             "    } else {\n"
             "        lo[1] = (int)((long)%d * part / parts) * %d;\n"
             "        if (part + 1 < parts)\n"
             "            hi[1] = (int)((long)%d * (part + 1) / parts) * %d;"
             "\n    }\n",
             (int)d->g.vectors, (int)d->kernel->oh, (int)d->kernel->ow,
             (int)d->g.vectors, (int)d->g.vectors, (int)rows,
             (int)d->g.oht, (int)rows, (int)d->g.oht);
    host_put(d->text,
             "#define %s_FOR(v) \\\n"
             "    for (g[v] = 0; g[v] < segments[v]; g[v]++) { \\\n"
             "        s[v] = segment[v][g[v]]; \\\n"
             "        at[v] = s[v][0] < lo[v] ? lo[v] : s[v][0]; \\\n"
             "        to[v] = s[v][0] + s[v][1] * s[v][2]; \\\n"
             "        if (to[v] > hi[v]) to[v] = hi[v];\n"
             "    %s_FOR(a) for (; at[a] < to[a]; at[a] += "
             "s[a][2]) {\n"
             "    %s_FOR(b) for (; at[b] < to[b]; at[b] += "
             "s[b][2]) {\n"
             "    %s_FOR(c)\n"
             "        const int size = s[c][2];\n"
             "        %s_d step;\n"
             "        if (at[c] >= to[c]) continue;\n"
             "        step.in = one[c].in * size;\n"
             "        step.w = one[c].w * size;\n"
             "        step.out = one[c].out * size;\n"
             "        step.y = one[c].y * size;\n"
             "        step.x = one[c].x * size;\n",
             name, name, name, name, name);
    host_put(d->text,
             "        f[s[1][3] * %d + s[2][3]](\n"
             "            in + at[0] * one[0].in + at[1] * one[1].in + "
             "at[2] * one[2].in,\n"
             "            w + at[0] * one[0].w,\n"
             "            out + at[0] * one[0].out + at[1] * one[1].out + "
             "at[2] * one[2].out,\n"
             "            &step, (to[c] - at[c] + size - 1) / size%s);\n"
             "    } } } } }\n"
             "#undef %s_FOR\n}\n",
             (int)d->g.x.n_classes, tile ? "" : ", at[1], at[2]", name);
}

static void host_depth_emit(const host_kernel *kernel, const int64_t *values,
                            const host_plan *plan, const char *name,
                            host_text *text)
{
    host_depth_code d;
    int32_t i, j;

    memset(&d, 0, sizeof d);
    if (!host_depth_geo_make(kernel, values, &d.g)) {
        text->full = 1;          /* not valid: refuse */
        return;
    }
    d.kernel = kernel;
    d.name = name;
    d.text = text;
    d.lanes = kernel->march.lanes;
    d.prefetch = (int32_t)values[HOST_KNOB_PREFETCH];
    d.in_x = (long)plan->src.pixel;
    d.in_y = (long)plan->src.row;
    d.in_k = (long)plan->src.plane;
    d.out_x = (long)plan->dst.pixel;
    d.out_y = (long)plan->dst.row;
    d.out_k = (long)plan->dst.plane;
    d.taps = kernel->conv.r * kernel->conv.s;
    host_depth_emit_types(&d);
    host_depth_emit_step(&d);
    for (i = 0; i < d.g.y.n_classes; i++)
        for (j = 0; j < d.g.x.n_classes; j++)
            if (d.g.form == HOST_DEPTH_TILE)
                host_depth_emit_tile(&d, i, j);
            else if (d.g.form == HOST_DEPTH_LINE)
                host_depth_emit_line(&d, j);
            else
                host_depth_emit_loop(&d, j);
    host_depth_emit_core(&d);
    host_put(text, "#undef %s_LI\n#undef %s_LD\n#undef %s_ST\n", name, name,
             name);
}

static void host_depth_emit_pack(const host_kernel *kernel,
                                 const int64_t *values, const char *name,
                                 host_text *text)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t lanes = kernel->march.lanes;

    (void)values;
    host_put(text,
             "void %s_pack_weight(const %s_t *kcrs, %s_t *w);\n"
             "void %s_pack_weight(const %s_t *kcrs, %s_t *w)\n{\n"
             "    long k, i, v;\n"
             "    for (k = 0; k < %d; k += %d)\n"
             "        for (i = 0; i < %ld; i++)\n"
             "            for (v = k; v < k + %d; v++)\n"
             "                *w++ = v < %d ? kcrs[v * %ld + i] : 0;\n}\n",
             name, name, name, name, name, name, (int)c->c, (int)lanes,
             (long)c->r * c->s, (int)lanes, (int)c->c, (long)c->r * c->s);
}

const host_algorithm host_algorithm_depth = {
    "depth",
    1u << HOST_KNOB_OWT | 1u << HOST_KNOB_KWU | 1u << HOST_KNOB_PREFETCH |
        1u << HOST_KNOB_OHT | 1u << HOST_KNOB_ORDER | 1u << HOST_KNOB_SPLIT,
    host_depth_suits, host_depth_lists, host_depth_valid, host_depth_repair,
    host_depth_defaults, host_depth_plan, host_depth_nest_axes,
    host_depth_nest, host_depth_canonical, host_depth_weight_size,
    host_depth_pack_weight, host_depth_outer, host_depth_emit,
    host_depth_emit_pack
};
