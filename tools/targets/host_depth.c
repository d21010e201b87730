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
   nests, [D-PACK] weights; host_depth_emit.c writes the C. */
#include "host_depth.h"

#include <string.h>

const unsigned char host_depth_order[6][3] = {
    { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 },
    { 2, 1, 0 }, { 0, 2, 1 }, { 1, 2, 0 }
};

/* ============================================= [D-GEO] geometry */

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
void host_depth_taps(const host_depth_axis *a, int32_t at, int32_t *lo,
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
int host_depth_geo_make(const host_kernel *kernel, const int64_t *values,
                        host_depth_geo *g)
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

void host_depth_trips(const host_depth_geo *g, int32_t trip[3])
{
    trip[0] = g->vectors;
    trip[1] = host_depth_tiles(&g->y);
    trip[2] = host_depth_tiles(&g->x);
}

/* Do the loops that run more than once stand in the same order? */
int host_depth_order_same(const int32_t trip[3], int64_t a, int64_t b)
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
    plan->vectors = 1;
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
    host_access(nest, l, METATUNE_STMT_LOAD, HOST_DEPTH_LOAD_A, rows * columns,
                METATUNE_CONV_INPUT);
    host_access(nest, l, METATUNE_STMT_LOAD, HOST_DEPTH_LOAD_W,
                g.form == HOST_DEPTH_TILE   ? c->r * c->s
                : g.form == HOST_DEPTH_LINE ? c->s : 1,
                METATUNE_CONV_WEIGHT);
    p = host_loop(nest, p, METATUNE_CONV_Y, 1, g.oht, UNROLL, HOST_DEPTH_YU);
    p = host_loop(nest, p, METATUNE_CONV_X, 1, g.owt, UNROLL, HOST_DEPTH_XU);
    p = host_loop(nest, p, METATUNE_CONV_G, 1, lanes, VECTOR, HOST_DEPTH_KV);
    host_fma(nest, p, HOST_DEPTH_FMA);
    host_access(nest, e, METATUNE_STMT_STORE, HOST_DEPTH_STORE, 1,
                METATUNE_CONV_OUTPUT);
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
