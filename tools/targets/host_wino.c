/* host_wino.c - Winograd convolution, F(2x2,3x3) and F(4x4,3x3)

   A tile of m x m outputs comes from a = m + 2 rows and columns of input by
     A^T [ sum over c of (G g G^T) (B^T d B) ] A     [Lavin, Gray: 1509.09308]
   so that the sum over channels is a*a products of matrices (tiles x C) *
   (C x K), which is where the time goes: 36 multiplications instead of 144
   for m = 4. Letters: X = a*a elements of a transformed tile, T tiles of an
   image in rows, g groups of `owt` tiles (a register tile's), V transformed
   input, U weights, M products before the output transform. In memory
     V  (g, C/L, X, owt, L) or (g, X, C/L, owt, L)
     U  (K/(ocv L), X, C, ocv L)
     M  (k group, g, X, ocv, owt, L)
   V and M hold one cache block: `oht` rows of tiles, rounded up to whole
   groups, and `oct` vectors of output channels. Only an image's last group
   may be narrower than owt, so there are at most two micro kernels.
   Borders: a tile that reaches outside is first copied into a patch.

   Points: m = 2: 0, +-1, inf. m = 4: 0, +-5/8, +-3/2, inf: two operations of
   twelve more in A^T than 0, +-1, +-2, inf, and a quarter of its error.
   Error: the largest one, inputs and weights uniform in [-1,1], 16..512
   channels, as part of 2e-7 * (9 C + 16), which is what direct is held to:
   m = 2: 0.10, m = 4: 0.54 (0, +-1, +-2, inf: 1.98); random layers of up to 70
   channels: 0.15 and 0.86.

   Rooms: [W-GEO] geometry, [W-LIST] knobs, [W-NEST] loop nests, [W-PACK]
   weights, [W-EMIT] the C writer. */
#include "host_algo.h"

#include <stdio.h>
#include <string.h>

/* =============================================== [W-GEO] geometry */

typedef struct host_wino {
    int32_t m, a, x;             /* tile out, tile in, a * a */
    int32_t lanes, cb, kb;       /* blocks of channels */
    int32_t th, tw, tiles;       /* tiles of an image */
    int32_t v, t, u, prefetch;   /* of a register tile */
    int32_t groups, tail;        /* of tiles; width of the last, 0: full */
    int32_t gt, kt;              /* cache block: groups of tiles, of ocv */
    int32_t k_groups;
    int share;                   /* threads share V and split K */
    int64_t v_x[2], v_block[2], /* V's strides; [1]: one k group */
        v_group, m_group, patch, panel; /* values */
} host_wino;

static void host_wino_make(const host_kernel *kernel, const int64_t *values,
                           host_wino *w)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t oht = (int32_t)values[HOST_KNOB_OHT];
    int64_t lanes = kernel->march.lanes;

    w->m = values[HOST_KNOB_ALGORITHM] == HOST_WINO2 ? 2 : 4;
    w->a = w->m + 2;
    w->x = w->a * w->a;
    w->lanes = kernel->march.lanes;
    w->cb = host_ceil_div(c->c, w->lanes);
    w->kb = host_ceil_div(c->k, w->lanes);
    w->th = host_ceil_div(kernel->oh, w->m);
    w->tw = host_ceil_div(kernel->ow, w->m);
    w->tiles = w->th * w->tw;
    w->v = (int32_t)values[HOST_KNOB_OCV];
    w->t = (int32_t)values[HOST_KNOB_OWT];
    w->u = (int32_t)values[HOST_KNOB_UNROLL];
    w->prefetch = (int32_t)values[HOST_KNOB_PREFETCH];
    w->groups = host_ceil_div(w->tiles, w->t);
    w->tail = w->tiles % w->t;
    w->gt = oht >= w->th ? w->groups : host_ceil_div(oht * w->tw, w->t);
    w->k_groups = w->kb / w->v;
    w->kt = (int32_t)values[HOST_KNOB_OCT] / w->v;
    w->share = kernel->march.threads > 1 && !values[HOST_KNOB_SPLIT];
    /* V is (g, C/L, X, ..) or (g, X, C/L, ..), which the products read in one
       piece: better when every k group reads all of V anew. Parts that lie a
       multiple of 2 KB apart would fight for the same cache sets. */
    w->v_x[0] = w->v_block[1] = w->t * lanes;
    w->v_block[0] = w->v_x[0] * (w->x + (w->x * w->t % 32 == 0));
    w->v_x[1] = w->v_block[1] * (w->cb + (w->cb * w->t % 32 == 0));
    w->v_group = w->v_block[0] * w->cb;
    if (w->v_group < w->v_x[1] * w->x) w->v_group = w->v_x[1] * w->x;
    w->m_group = (int64_t)w->x * w->v * w->t * lanes;
    w->patch = (int64_t)(w->x + w->m * w->m) * lanes;
    w->panel = (int64_t)c->c * w->v * lanes;
}

static int host_wino_suits(const host_kernel *kernel)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    return c->r == 3 && c->s == 3 && c->stride_h == 1 && c->stride_w == 1 &&
           c->dil_h == 1 && c->dil_w == 1 && c->groups == 1 &&
           kernel->in_bytes == 4 && c->dtype_in == METATUNE_F32;
}

/* With `share` phase 0 fills V for all; otherwise a part owns all of its
   work. */
static void host_wino_plan(const host_kernel *kernel, const int64_t *values,
                           host_plan *plan)
{
    int64_t parts = kernel->march.threads, v, m;
    host_wino w;

    host_wino_make(kernel, values, &w);
    v = w.gt * w.v_group;
    m = (int64_t)w.gt * w.kt * w.m_group + w.patch;
    plan->stage = HOST_STAGE_BLOCK;
    plan->vectors = 1;
    plan->core_phases = w.share ? 2 : 1;
    plan->core_bytes = (size_t)(w.share ? v + m * parts : (v + m) * parts) *
                       sizeof(float);
}

/* =========================================== [W-LIST] knobs, constraints */

/* Widths of a register tile that use the registers well with 1..4 vectors of
   output channels; a small image takes all its tiles at once, too. */
static int host_wino_width(const host_kernel *kernel, int32_t tiles,
                           int64_t t)
{
    static const int32_t wide[] = { 4, 6, 7, 8, 9, 12, 14, 28 };
    static const int32_t narrow[] = { 1, 2, 3, 4, 6, 12 };
    size_t i;

    if (t < 1 || t > tiles || t + 2 > kernel->march.vregs) return 0;
    if (t == tiles && t <= 28) return 1;
    if (kernel->march.vregs >= 32) {
        for (i = 0; i < sizeof wide / sizeof wide[0]; i++)
            if (t == wide[i]) return 1;
    } else {
        for (i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
            if (t == narrow[i]) return 1;
    }
    return 0;
}

/* Accumulators, the weights, and an input unless it is a memory operand. */
static int host_wino_fits(const host_kernel *kernel, int64_t v, int64_t t)
{
    return v * t + v + (v > 1) <= kernel->march.vregs;
}

static int32_t host_wino_tiles(const host_kernel *kernel, int32_t m)
{
    return host_ceil_div(kernel->oh, m) * host_ceil_div(kernel->ow, m);
}

static void host_wino_lists(host_kernel *kernel, int32_t m)
{
    int32_t kb = host_ceil_div(kernel->conv.k, kernel->march.lanes), i;
    int32_t tiles = host_wino_tiles(kernel, m);

    for (i = 1; i <= 4; i++)
        if (kb % i == 0) host_list_add(kernel, HOST_KNOB_OCV, i);
    for (i = 1; i <= 28; i++)
        if (host_wino_width(kernel, tiles, i))
            host_list_add(kernel, HOST_KNOB_OWT, i);
    for (i = 1; i <= 4 && i <= kernel->march.lanes; i *= 2)
        host_list_add(kernel, HOST_KNOB_UNROLL, i);
    host_list_add(kernel, HOST_KNOB_PREFETCH, 0);
    for (i = 1; i <= 8; i *= 2) host_list_add(kernel, HOST_KNOB_PREFETCH, i);
    host_list_divisors(kernel, HOST_KNOB_OCT, kb);
    for (i = 1; i <= 8; i *= 2)
        host_list_add(kernel, HOST_KNOB_OHT,
                      host_ceil_div(host_ceil_div(kernel->oh, m), i));
    host_list_add(kernel, HOST_KNOB_OHT, 1);
    if (kernel->oh > m) host_list_add(kernel, HOST_KNOB_OHT, 2);
    host_list_add(kernel, HOST_KNOB_INNER, 0);
    host_list_add(kernel, HOST_KNOB_INNER, 1);
    host_list_add(kernel, HOST_KNOB_SPLIT, 0);
    if (kernel->march.threads > 1) host_list_add(kernel, HOST_KNOB_SPLIT, 1);
}

static void host_wino2_lists(host_kernel *kernel)
{
    host_wino_lists(kernel, 2);
}

static void host_wino4_lists(host_kernel *kernel)
{
    host_wino_lists(kernel, 4);
}

/* The least listed number of rows that makes the same cache blocks. */
static int64_t host_wino_rows(const host_kernel *kernel, const host_wino *w)
{
    const host_knob *list = &kernel->knob[HOST_KNOB_OHT];
    uint32_t i;

    for (i = 0; i + 1 < list->n_values; i++) {
        int64_t rows = list->values[i];
        if (rows >= w->th ||
            host_ceil_div((int32_t)rows * w->tw, w->t) >= w->gt)
            break;
    }
    return list->values[i];
}

static int host_wino_valid(const host_kernel *kernel, const int64_t *values)
{
    int64_t v = values[HOST_KNOB_OCV], t = values[HOST_KNOB_OWT];
    int64_t u = values[HOST_KNOB_UNROLL], ahead = values[HOST_KNOB_PREFETCH];
    int32_t kb = host_ceil_div(kernel->conv.k, kernel->march.lanes);
    int32_t m = values[HOST_KNOB_ALGORITHM] == HOST_WINO2 ? 2 : 4;
    host_wino w;

    if (v > 4 || kb % v || !host_wino_fits(kernel, v, t) ||
        !host_wino_width(kernel, host_wino_tiles(kernel, m), t))
        return 0;
    /* fewer channels than lanes: neither unrolled nor prefetched */
    if (u > 4 || kernel->march.lanes % u) return 0;
    if (u > 1 && kernel->conv.c < kernel->march.lanes) return 0;
    if (ahead && (kernel->conv.c < kernel->march.lanes ||
                  ahead * 16 > u * v * kernel->march.lanes))
        return 0;
    if (values[HOST_KNOB_OCT] % v || kb % values[HOST_KNOB_OCT]) return 0;
    host_wino_make(kernel, values, &w);
    if (host_wino_rows(kernel, &w) != values[HOST_KNOB_OHT]) return 0;
    if (w.share && (w.gt < w.groups || w.k_groups < 2)) return 0;
    if (values[HOST_KNOB_INNER] && (w.kt == 1 || w.gt == 1)) return 0;
    return 1;
}

/* Of a knob's values that divide `of` and are multiples of `by`: the largest
   one <= value, else the smallest; 0 = none. */
static int64_t host_wino_near(const host_kernel *kernel, int knob,
                              int64_t value, int32_t of, int32_t by)
{
    const host_knob *list = &kernel->knob[knob];
    int64_t near = 0;
    uint32_t i;

    for (i = 0; i < list->n_values; i++)
        if (of % list->values[i] == 0 && list->values[i] % by == 0 &&
            (list->values[i] <= value || near == 0))
            near = list->values[i];
    return near;
}

static int host_wino_repair(const host_kernel *kernel, int64_t *values)
{
    int32_t m = values[HOST_KNOB_ALGORITHM] == HOST_WINO2 ? 2 : 4;
    int32_t lanes = kernel->march.lanes;
    int32_t kb = host_ceil_div(kernel->conv.k, lanes);
    int32_t tiles = host_wino_tiles(kernel, m);
    const host_knob *list = &kernel->knob[HOST_KNOB_OWT];
    int64_t near = 0, v = values[HOST_KNOB_OCV];
    uint32_t i;
    host_wino w;

    v = host_wino_near(kernel, HOST_KNOB_OCV, v < 4 ? v : 4, kb, 1);
    for (; v >= 1 && near == 0; v--) {
        if (kb % v) continue;
        values[HOST_KNOB_OCV] = v;
        for (i = 0; i < list->n_values; i++)
            if (host_wino_fits(kernel, v, list->values[i]) &&
                host_wino_width(kernel, tiles, list->values[i]) &&
                (list->values[i] <= values[HOST_KNOB_OWT] || near == 0))
                near = list->values[i];
    }
    if (near == 0) return 0;
    v = values[HOST_KNOB_OCV];
    values[HOST_KNOB_OWT] = near;
    if (values[HOST_KNOB_UNROLL] > 4) values[HOST_KNOB_UNROLL] = 4;
    if (kernel->conv.c < lanes) values[HOST_KNOB_UNROLL] = 1;
    values[HOST_KNOB_UNROLL] =
        host_wino_near(kernel, HOST_KNOB_UNROLL, values[HOST_KNOB_UNROLL],
                       lanes, 1);
    values[HOST_KNOB_OCT] = host_wino_near(
        kernel, HOST_KNOB_OCT, values[HOST_KNOB_OCT], kb, (int32_t)v);
    if (values[HOST_KNOB_UNROLL] == 0 || values[HOST_KNOB_OCT] == 0) return 0;
    near = values[HOST_KNOB_UNROLL] * v * lanes / 16; /* of the next panel */
    if (kernel->conv.c < lanes) near = 0;
    if (values[HOST_KNOB_PREFETCH] > near)
        values[HOST_KNOB_PREFETCH] =
            host_list_floor(kernel, HOST_KNOB_PREFETCH, (double)near);
    host_wino_make(kernel, values, &w);
    if (w.share && w.k_groups < 2) {
        values[HOST_KNOB_SPLIT] = 1;
        w.share = 0;
    }
    if (w.share) values[HOST_KNOB_OHT] = w.th;
    host_wino_make(kernel, values, &w);
    values[HOST_KNOB_OHT] = host_wino_rows(kernel, &w);
    if (w.kt == 1 || w.gt == 1) values[HOST_KNOB_INNER] = 0;
    return host_wino_valid(kernel, values);
}

/* Cycles of one channel and vector of outputs, all tiles: two FMAs and two
   loads a cycle, 4 cycles of latency, half a cycle for the loop. */
static double host_wino_cycles(int32_t tiles, int64_t v, int64_t t)
{
    double sum = 0;
    int i;

    for (i = 0; i < 2; i++) {
        double width = i ? (double)(tiles % t) : (double)t, cost;
        double times = i ? (tiles % t ? 1 : 0) : (double)(tiles / t);
        cost = width * (double)v / 2;
        if (cost < 4) cost = 4;
        if (cost < (width + (double)v) / 2) cost = (width + (double)v) / 2;
        sum += times * (cost + 0.5 + 0.25 * (double)v);
    }
    return sum / (double)v;
}

/* Bytes that a cache block's size makes pass through a level-2 cache of
   about 1.5 MB: U once a block unless it stays there, V once for every group
   of output channels when it is too large. */
static double host_wino_traffic(const host_wino *w)
{
    const double near = 1.5e6;
    double u = 4.0 * (double)w->x * (double)w->panel * w->k_groups;
    double v = 4.0 * (double)w->v_group * w->gt;
    double m = 4.0 * (double)w->m_group * w->gt * w->kt;
    double sum = u, blocks = host_ceil_div(w->groups, w->gt);

    if (u + v + m > near) sum *= blocks;
    if (v + m > near) sum += v * blocks * w->k_groups / w->kt + 2 * m;
    return sum;
}

static void host_wino_defaults(const host_kernel *kernel, int64_t *values)
{
    const host_knob *list = &kernel->knob[HOST_KNOB_OWT];
    double best = 0, cost;
    int32_t kb = host_ceil_div(kernel->conv.k, kernel->march.lanes);
    int64_t v, best_rows = 1;
    uint32_t i;
    host_wino w;

    values[HOST_KNOB_OCV] = values[HOST_KNOB_OWT] = 1;
    values[HOST_KNOB_UNROLL] =
        kernel->march.lanes < 4 || kernel->conv.c < kernel->march.lanes ? 1
                                                                        : 4;
    values[HOST_KNOB_PREFETCH] = 0;
    values[HOST_KNOB_OCT] = values[HOST_KNOB_OHT] = 1;
    values[HOST_KNOB_INNER] = values[HOST_KNOB_SPLIT] = 0;
    host_wino_make(kernel, values, &w);
    for (v = 1; v <= 4; v++)
        for (i = 0; i < list->n_values; i++) {
            int64_t t = list->values[i];
            if (kb % v || !host_wino_fits(kernel, v, t) ||
                !host_wino_width(kernel, w.tiles, t))
                continue;
            cost = host_wino_cycles(w.tiles, v, t);
            if (best > 0 && cost >= best) continue;
            best = cost;
            values[HOST_KNOB_OCV] = v;
            values[HOST_KNOB_OWT] = t;
        }
    v = values[HOST_KNOB_OCV];
    values[HOST_KNOB_OCT] =
        host_wino_near(kernel, HOST_KNOB_OCT, v, kb, (int32_t)v);
    list = &kernel->knob[HOST_KNOB_OHT];
    best = 0;
    for (i = 0; i < list->n_values; i++) {
        values[HOST_KNOB_OHT] = list->values[i];
        host_wino_make(kernel, values, &w);
        cost = host_wino_traffic(&w);
        if (best > 0 && cost >= best * 0.99) continue;
        best = cost;
        best_rows = list->values[i];
    }
    values[HOST_KNOB_OHT] = best_rows;
    if (kernel->march.threads > 1) {
        /* threads share out what there is more of */
        host_wino_make(kernel, values, &w);
        values[HOST_KNOB_SPLIT] =
            w.groups / w.gt >= 2 * kernel->march.threads || w.k_groups < 2;
        if (!values[HOST_KNOB_SPLIT]) values[HOST_KNOB_OHT] = w.th;
    }
    /* Weights that pass through are fetched ahead, spread over the groups of
       tiles that use the same panel. */
    host_wino_make(kernel, values, &w);
    if ((double)w.x * (double)w.panel * w.k_groups > 3e5)
        values[HOST_KNOB_PREFETCH] = host_list_floor(
            kernel, HOST_KNOB_PREFETCH,
            host_ceil_div(w.u * w.v * w.lanes / 16, w.gt));
    host_wino_repair(kernel, values);
}

/* ======================================================= [W-NEST] nests */

/* Axes: T counts tiles, X the elements of a transformed one. Pixels are
   described along T, m * m a tile, so that what neighbours share counts
   once. V and M hold one cache block: host_wino_nest sets their extents. */
enum { W_N, W_T, W_X, W_K, W_C };
enum { W_IN, W_U, W_V, W_M, W_OUT };

static void host_wino_dim(metatune_encode_nest *nest, int32_t tensor,
                          int32_t extent, int32_t axis, int32_t coef)
{
    metatune_encode_dim_add(nest, tensor, extent, 0);
    metatune_encode_term_add(nest, tensor, axis, coef);
}

static metatune_status host_wino_axes(const host_kernel *kernel,
                                      metatune_encode_nest *nest, int32_t m)
{
    static const int32_t role[5] = {
        METATUNE_ROLE_INPUT, METATUNE_ROLE_WEIGHT, METATUNE_ROLE_TEMP,
        METATUNE_ROLE_TEMP, METATUNE_ROLE_OUTPUT
    };
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t tiles = host_wino_tiles(kernel, m), x = (m + 2) * (m + 2), i;

    metatune_encode_axis_add(nest, c->n, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, tiles, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, x, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, c->k, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, c->c, METATUNE_AXIS_REDUCTION);
    for (i = 0; i < 5; i++)
        metatune_encode_tensor_add(nest, 4, METATUNE_SCOPE_GLOBAL, role[i]);
    host_wino_dim(nest, W_IN, c->n, W_N, 1);
    host_wino_dim(nest, W_IN, c->c, W_C, 1);
    host_wino_dim(nest, W_IN, c->h * c->w, W_T, m * m);
    metatune_encode_term_add(nest, W_IN, W_X, 1);
    host_wino_dim(nest, W_U, c->k, W_K, 1);
    host_wino_dim(nest, W_U, x, W_X, 1);
    host_wino_dim(nest, W_U, c->c, W_C, 1);
    host_wino_dim(nest, W_V, c->c, W_C, 1);
    host_wino_dim(nest, W_V, x, W_X, 1);
    host_wino_dim(nest, W_V, tiles, W_T, 1);
    host_wino_dim(nest, W_M, c->k, W_K, 1);
    host_wino_dim(nest, W_M, x, W_X, 1);
    host_wino_dim(nest, W_M, tiles, W_T, 1);
    host_wino_dim(nest, W_OUT, c->n, W_N, 1);
    host_wino_dim(nest, W_OUT, c->k, W_K, 1);
    host_wino_dim(nest, W_OUT, tiles, W_T, 1);
    host_wino_dim(nest, W_OUT, m * m, W_X, 1);
    return nest->status;
}

static metatune_status host_wino2_axes(const host_kernel *kernel,
                                       metatune_encode_nest *nest)
{
    return host_wino_axes(kernel, nest, 2);
}

static metatune_status host_wino4_axes(const host_kernel *kernel,
                                       metatune_encode_nest *nest)
{
    return host_wino_axes(kernel, nest, 4);
}

/* Slots of the skeletons; 0 is the root. */
enum {
    S_N = 1, S_PART, S_TO, S_IN_T, S_IN_C, S_IN_X, S_LOAD_IN, S_ARITH_IN,
    S_STORE_V, S_KO, S_X, S_KI, S_TI, S_C, S_CU, S_LOAD_V, S_KU, S_KV,
    S_LOAD_U, S_TU, S_FMA, S_KE, S_STORE_M, S_OUT_T, S_OUT_K, S_OUT_X,
    S_LOAD_M, S_ARITH_OUT, S_STORE_OUT, S_COPY, S_COPY_OUT
};

/* Strides and extents that depend on the setting. */
static void host_wino_dims(const host_wino *w, const host_plan *plan,
                           metatune_encode_nest *nest)
{
    const host_view *view = &plan->src;
    metatune_encode_dim *dim = nest->tensor[W_IN].dim;
    double vl = (double)w->v * w->lanes, lane = w->lanes;
    double panel = (double)w->panel, x = w->x, t = w->t;
    int32_t width = w->gt * w->t < w->tiles ? w->gt * w->t : w->tiles;

    host_dim_set(&dim[0], 0, (double)view->image, 0);
    host_dim_set(&dim[1], view->block, 1, (double)view->plane);
    host_dim_set(&dim[2], 0, (double)view->pixel, 0);
    dim = nest->tensor[W_U].dim;
    host_dim_set(&dim[0], w->v * w->lanes, 1, x * panel);
    host_dim_set(&dim[1], 0, panel, 0);
    host_dim_set(&dim[2], 0, vl, 0);
    dim = nest->tensor[W_V].dim;
    host_dim_set(&dim[0], w->lanes, 1, (double)w->v_block[w->kt == 1]);
    host_dim_set(&dim[1], 0, (double)w->v_x[w->kt == 1], 0);
    host_dim_set(&dim[2], w->t, lane, (double)w->v_group);
    dim[2].extent = width;
    dim = nest->tensor[W_M].dim;
    host_dim_set(&dim[0], w->lanes, 1, t * lane);
    host_dim_set(&dim[1], 0, vl * t, 0);
    host_dim_set(&dim[2], w->t, lane, (double)w->m_group);
    dim[0].extent = w->kt * w->v * w->lanes;
    dim[2].extent = width;
    view = &plan->dst;
    dim = nest->tensor[W_OUT].dim;
    host_dim_set(&dim[0], 0, (double)view->image, 0);
    host_dim_set(&dim[1], view->block, 1, (double)view->plane);
    host_dim_set(&dim[2], 0, (double)(w->m * view->pixel), 0);
    host_dim_set(&dim[3], 0, (double)view->pixel, 0);
}

/* The transforms' operations are flops a tile, channel and element of X. */
static metatune_status host_wino_nest(const host_kernel *kernel,
                                      const int64_t *values,
                                      const host_plan *plan,
                                      metatune_encode_nest *nest)
{
    enum { SERIAL = METATUNE_LOOP_SERIAL, UNROLL = METATUNE_LOOP_UNROLL,
           VECTOR = METATUNE_LOOP_VECTOR, PARALLEL = METATUNE_LOOP_PARALLEL };
    static const int32_t in[2] = { W_IN, W_V }, out[2] = { W_M, W_OUT };
    static const int32_t fma[3] = { W_V, W_U, W_M };
    const int32_t threads = kernel->march.threads, lanes = kernel->march.lanes;
    int32_t vl, groups, k_groups, gt, kt, width, p, q, i;
    host_wino w;

    host_wino_make(kernel, values, &w);
    host_wino_dims(&w, plan, nest);
    vl = w.v * lanes;
    groups = w.share ? w.groups : host_ceil_div(w.groups, threads);
    k_groups = w.share ? host_ceil_div(w.k_groups, threads) : w.k_groups;
    gt = w.gt < groups ? w.gt : groups;
    kt = w.kt < k_groups ? w.kt : k_groups;
    width = gt * w.t < w.tiles ? gt * w.t : w.tiles;
    p = host_loop(nest, -1, W_N, 1, kernel->conv.n, SERIAL, S_N);
    if (plan->staged)
        metatune_encode_copy_add(nest, p, W_IN, METATUNE_SCOPE_GLOBAL,
                                 S_COPY);
    if (plan->unstaged)
        metatune_encode_copy_add(nest, p, W_OUT, METATUNE_SCOPE_GLOBAL,
                                 S_COPY_OUT);
    if (!w.share)
        p = host_loop(nest, p, W_T, groups * w.t, threads, PARALLEL, S_PART);
    p = host_loop(nest, p, W_T, gt * w.t, host_ceil_div(groups, gt), SERIAL,
                  S_TO);

    q = host_loop(nest, p, W_T, 1, width, SERIAL, S_IN_T);
    q = host_loop(nest, q, W_C, 1, w.cb * lanes, VECTOR, S_IN_C);
    q = host_loop(nest, q, W_X, 1, w.x, SERIAL, S_IN_X);
    metatune_encode_stmt_add(nest, q, METATUNE_STMT_LOAD, S_LOAD_IN, 1, in,
                             1);
    metatune_encode_stmt_add(nest, q, METATUNE_STMT_ARITH, S_ARITH_IN,
                             w.m == 2 ? 2 : 8, in, 2);
    metatune_encode_stmt_add(nest, q, METATUNE_STMT_STORE, S_STORE_V, 1,
                             in + 1, 1);

    if (w.share)
        p = host_loop(nest, p, W_K, k_groups * vl, threads, PARALLEL, S_PART);
    p = host_loop(nest, p, W_K, kt * vl, host_ceil_div(k_groups, kt), SERIAL,
                  S_KO);
    q = host_loop(nest, p, W_X, 1, w.x, SERIAL, S_X);
    for (i = 0; i < 2; i++)
        if (i == values[HOST_KNOB_INNER])
            q = host_loop(nest, q, W_K, vl, kt, SERIAL, S_KI);
        else
            q = host_loop(nest, q, W_T, w.t, gt, SERIAL, S_TI);
    i = host_loop(nest, q, W_K, 1, vl, VECTOR, S_KE);
    q = host_loop(nest, q, W_C, w.u, host_ceil_div(kernel->conv.c, w.u),
                  SERIAL, S_C);
    q = host_loop(nest, q, W_C, 1, w.u, UNROLL, S_CU);
    metatune_encode_stmt_add(nest, q, METATUNE_STMT_LOAD, S_LOAD_V, w.t, fma,
                             1);
    q = host_loop(nest, q, W_K, lanes, w.v, UNROLL, S_KU);
    q = host_loop(nest, q, W_K, 1, lanes, VECTOR, S_KV);
    metatune_encode_stmt_add(nest, q, METATUNE_STMT_LOAD, S_LOAD_U, 1,
                             fma + 1, 1);
    q = host_loop(nest, q, W_T, 1, w.t, UNROLL, S_TU);
    metatune_encode_stmt_add(nest, q, METATUNE_STMT_FMA, S_FMA, 1, fma, 3);
    metatune_encode_stmt_add(nest, i, METATUNE_STMT_STORE, S_STORE_M, w.t,
                             fma + 2, 1);

    q = host_loop(nest, p, W_T, 1, width, SERIAL, S_OUT_T);
    q = host_loop(nest, q, W_K, 1, kt * vl, VECTOR, S_OUT_K);
    q = host_loop(nest, q, W_X, 1, w.x, SERIAL, S_OUT_X);
    metatune_encode_stmt_add(nest, q, METATUNE_STMT_LOAD, S_LOAD_M, 1, out,
                             1);
    metatune_encode_stmt_add(nest, q, METATUNE_STMT_ARITH, S_ARITH_OUT,
                             w.m == 2 ? 2 : 4, out, 2);
    metatune_encode_stmt_add(nest, q, METATUNE_STMT_STORE, S_STORE_OUT, 1,
                             out + 1, 1);
    nest->hint[0] = (metatune_real)(w.prefetch == 0   ? 0.0
                                    : w.prefetch == 1 ? 0.5
                                    : w.prefetch == 2 ? 1.0
                                    : w.prefetch == 4 ? 1.5 : 2.0);
    /* loops of few trips look alike in either order */
    nest->hint[1] = (metatune_real)values[HOST_KNOB_INNER];
    return nest->status;
}

/* A layer and settings in which every loop runs more than once. */
static void host_wino_canonical(metatune_encode_conv2d *conv, int64_t *values,
                                int32_t algorithm)
{
    *conv = metatune_encode_conv2d_make(2, 128, 56, 56, 256, 3, 3, 1, 1);
    memset(values, 0, HOST_KNOBS * sizeof *values);
    values[HOST_KNOB_ALGORITHM] = algorithm;
    values[HOST_KNOB_OCV] = 2;
    values[HOST_KNOB_OWT] = 14;
    values[HOST_KNOB_UNROLL] = 4;
    values[HOST_KNOB_OCT] = 4;
    values[HOST_KNOB_OHT] = algorithm == HOST_WINO2 ? 7 : 4;
    values[HOST_KNOB_SPLIT] = 1;
}

static void host_wino2_canonical(metatune_encode_conv2d *conv,
                                 int64_t *values)
{
    host_wino_canonical(conv, values, HOST_WINO2);
}

static void host_wino4_canonical(metatune_encode_conv2d *conv,
                                 int64_t *values)
{
    host_wino_canonical(conv, values, HOST_WINO4);
}

/* ================================================== [W-PACK] weights */

/* Rows of G: (1, p, p^2) / N with N the product of p's distances to the other
   points, and (0, 0, 1) for inf; for m = 2 signs are moved into B^T. */
static const double host_wino_g2[4][3] = {
    { 1, 0, 0 }, { 0.5, 0.5, 0.5 }, { 0.5, -0.5, 0.5 }, { 0, 0, 1 }
};
static void host_wino_g(int32_t m, double g[6][3])
{
    static const double point[4] = { 0.625, -0.625, 1.5, -1.5 };
    const double a2 = 0.390625, b2 = 2.25;
    int i;

    memset(g, 0, 6 * sizeof g[0]);
    if (m == 2) {
        memcpy(g, host_wino_g2, sizeof host_wino_g2);
        return;
    }
    g[0][0] = 1 / (a2 * b2);
    for (i = 0; i < 4; i++) {
        double p = point[i];
        double n = i < 2 ? 2 * a2 * (a2 - b2) : 2 * b2 * (b2 - a2);
        g[i + 1][0] = 1 / n;
        g[i + 1][1] = p / n;
        g[i + 1][2] = p * p / n;
    }
    g[5][2] = 1;
}

static size_t host_wino_weight_size(const host_kernel *kernel,
                                    const int64_t *values)
{
    host_wino w;

    host_wino_make(kernel, values, &w);
    return (size_t)w.k_groups * (size_t)w.x * (size_t)w.panel * sizeof(float);
}

/* The text of emit_pack below does the same. */
static void host_wino_pack_weight(const host_kernel *kernel,
                                  const int64_t *values, const void *kcrs,
                                  void *to)
{
    int32_t channels = kernel->conv.c, vl, k, c, i, j;
    double g[6][3], h[6][3];
    host_wino w;

    host_wino_make(kernel, values, &w);
    host_wino_g(w.m, g);
    vl = w.v * w.lanes;
    for (k = 0; k < w.kb * w.lanes; k++)
        for (c = 0; c < channels; c++) {
            const float *f = (const float *)kcrs +
                             ((int64_t)k * channels + c) * 9;
            float *p = (float *)to + k / vl * (w.x * w.panel) +
                       (int64_t)c * vl + k % vl;
            for (i = 0; i < w.a; i++)
                for (j = 0; j < 3; j++)
                    h[i][j] = k >= kernel->conv.k ? 0
                              : g[i][0] * (double)f[j] +
                                g[i][1] * (double)f[3 + j] +
                                g[i][2] * (double)f[6 + j];
            for (i = 0; i < w.a; i++)
                for (j = 0; j < w.a; j++, p += w.panel)
                    *p = (float)(h[i][0] * g[j][0] + h[i][1] * g[j][1] +
                                 h[i][2] * g[j][2]);
        }
}

static void host_wino_emit_pack(const host_kernel *kernel,
                                const int64_t *values, const char *name,
                                host_text *text)
{
    double g[6][3];
    host_wino w;
    int i;

    host_wino_make(kernel, values, &w);
    host_wino_g(w.m, g);
    host_put(text,
             "void %s_pack_weight(const float *kcrs, float *w);\n"
             "void %s_pack_weight(const float *kcrs, float *w)\n{\n"
             "    static const double g[%d][3] = {\n",
             name, name, w.a);
    for (i = 0; i < w.a; i++)
        host_put(text, "        { %.17g, %.17g, %.17g }%s\n", g[i][0], g[i][1],
                 g[i][2], i + 1 < w.a ? "," : "");
    host_put(text,
             "    };\n"
             "    double h[%d][3];\n"
             "    long k, c;\n"
             "    int i, j;\n"
             "    for (k = 0; k < %d; k++)\n"
             "        for (c = 0; c < %d; c++) {\n"
             "            const float *f = kcrs + (k * %d + c) * 9;\n"
             "            float *p = w + k / %d * %ldL + c * %d + k %% %d;\n"
             "            for (i = 0; i < %d; i++)\n"
             "                for (j = 0; j < 3; j++)\n"
             "                    h[i][j] = k >= %d ? 0 :\n"
             "                        g[i][0] * f[j] + g[i][1] * f[3 + j] +\n"
             "                        g[i][2] * f[6 + j];\n"
             "            for (i = 0; i < %d; i++)\n"
             "                for (j = 0; j < %d; j++, p += %ldL)\n"
             "                    *p = (float)(h[i][0] * g[j][0] +\n"
             "                        h[i][1] * g[j][1] + h[i][2] * g[j][2]);"
             "\n        }\n}\n",
             w.a, w.kb * w.lanes, kernel->conv.c, kernel->conv.c,
             w.v * w.lanes, (long)(w.x * w.panel), w.v * w.lanes,
             w.v * w.lanes, w.a, kernel->conv.k, w.a, w.a, (long)w.panel);
}

/* ================================================== [W-EMIT] the C writer */

static void host_wino_outer(const host_kernel *kernel, const int64_t *values,
                            int outer[HOST_OUTER])
{
    host_wino w;

    host_wino_make(kernel, values, &w);
    outer[0] = w.gt;
    outer[1] = w.kt;
    outer[2] = (int)values[HOST_KNOB_INNER];
}

/* One-dimensional transforms: B^T of a values, A^T of them to m. */
#define HOST_WINO_TEXT2 \
    "#define %s_BT(d0, d1, d2, d3, t0, t1, t2, t3) do { \\\n" \
    "    t0 = d0 - d2; t1 = d1 + d2; t2 = d2 - d1; t3 = d1 - d3; \\\n" \
    "} while (0)\n" \
    "#define %s_AT(d0, d1, d2, d3, y0, y1) do { \\\n" \
    "    y0 = d0 + d1 + d2; y1 = d1 - d2 - d3; \\\n" \
    "} while (0)\n"
/* 0.87890625 = a2 b2, 2.640625 = a2 + b2, a2 = 0.390625, b2 = 2.25 */
#define HOST_WINO_TEXT4 \
    "#define %s_BT(d0, d1, d2, d3, d4, d5, t0, t1, t2, t3, t4, t5) do { \\\n" \
    "    %s_v p = d4 - 2.25f * d2, q = d3 - 2.25f * d1; \\\n" \
    "    %s_v r = d4 - 0.390625f * d2, s = d3 - 0.390625f * d1; \\\n" \
    "    t0 = d4 + 0.87890625f * d0 - 2.640625f * d2; \\\n" \
    "    t1 = p + 0.625f * q; t2 = p - 0.625f * q; \\\n" \
    "    t3 = r + 1.5f * s; t4 = r - 1.5f * s; \\\n" \
    "    t5 = d5 + 0.87890625f * d1 - 2.640625f * d3; \\\n" \
    "} while (0)\n" \
    "#define %s_AT(d0, d1, d2, d3, d4, d5, y0, y1, y2, y3) do { \\\n" \
    "    %s_v p = d1 + d2, q = d1 - d2, r = d3 + d4, s = d3 - d4; \\\n" \
    "    y0 = d0 + p + r; y1 = 0.625f * q + 1.5f * s; \\\n" \
    "    y2 = 0.390625f * p + 2.25f * r; \\\n" \
    "    y3 = d5 + 0.244140625f * q + 3.375f * s; \\\n" \
    "} while (0)\n"

/* A declaration of vectors <letter><i>_<j>. */
static void host_wino_declare(host_text *text, const char *name, char letter,
                              int32_t rows, int32_t columns)
{
    int32_t i, j;

    for (i = 0; i < rows; i++) {
        host_put(text, "    %s_v", name);
        for (j = 0; j < columns; j++)
            host_put(text, "%s %c%d_%d", j ? "," : "", letter, i, j);
        host_put(text, ";\n");
    }
}

/* NAME_in: one tile of one block of channels from s to (X, owt, L). Columns
   first: six loads at a time; then rows, stored as they come. */
static void host_wino_emit_in(host_text *text, const host_wino *w,
                              const char *name)
{
    int32_t y, x;

    host_put(text,
             "static %s_NOINLINE void %s_in(const %s_t *s, long row, long "
             "pixel,\n    %s_o *v, long x)\n{\n",
             name, name, name, name);
    host_wino_declare(text, name, 'w', w->a, w->a);
    host_put(text, "    %s_v", name);
    for (y = 0; y < w->a; y++)
        host_put(text, "%s d%d", y ? "," : "", y);
    for (y = 0; y < w->a; y++) host_put(text, ", t%d", y);
    host_put(text, ";\n");
    for (x = 0; x < w->a; x++) {
        for (y = 0; y < w->a; y++)
            host_put(text, "    d%d = *(const %s_v *)(s + %d * row + %d * "
                     "pixel);\n", y, name, y, x);
        host_put(text, "    %s_BT(", name);
        for (y = 0; y < w->a; y++) host_put(text, "d%d, ", y);
        for (y = 0; y < w->a; y++)
            host_put(text, "w%d_%d%s", y, x, y + 1 < w->a ? ", " : ");\n");
    }
    for (y = 0; y < w->a; y++) {
        host_put(text, "    %s_BT(", name);
        for (x = 0; x < w->a; x++) host_put(text, "w%d_%d, ", y, x);
        for (x = 0; x < w->a; x++)
            host_put(text, "t%d%s", x, x + 1 < w->a ? ", " : ");\n");
        for (x = 0; x < w->a; x++)
            host_put(text, "    *(%s_v *)v = t%d; v += x;\n", name, x);
    }
    host_put(text, "}\n");
}

/* NAME_out: one tile of one vector of M to d. */
static void host_wino_emit_out(host_text *text, const host_wino *w,
                               const char *name)
{
    int32_t y, x;

    host_put(text,
             "static %s_NOINLINE void %s_out(const %s_o *s, %s_o *d, long "
             "row,\n    long pixel)\n{\n",
             name, name, name, name);
    host_wino_declare(text, name, 'w', w->m, w->a);
    host_put(text, "    %s_v", name);
    for (y = 0; y < w->a; y++)
        host_put(text, "%s d%d", y ? "," : "", y);
    for (y = 0; y < w->m; y++) host_put(text, ", t%d", y);
    host_put(text, ";\n");
    for (x = 0; x < w->a; x++) {
        for (y = 0; y < w->a; y++)
            host_put(text, "    d%d = *(const %s_v *)(s + %ld);\n", y, name,
                     (long)(y * w->a + x) * w->v * w->t * w->lanes);
        host_put(text, "    %s_AT(", name);
        for (y = 0; y < w->a; y++) host_put(text, "d%d, ", y);
        for (y = 0; y < w->m; y++)
            host_put(text, "w%d_%d%s", y, x, y + 1 < w->m ? ", " : ");\n");
    }
    for (y = 0; y < w->m; y++) {
        host_put(text, "    %s_AT(", name);
        for (x = 0; x < w->a; x++) host_put(text, "w%d_%d, ", y, x);
        for (x = 0; x < w->m; x++)
            host_put(text, "t%d%s", x, x + 1 < w->m ? ", " : ");\n");
        for (x = 0; x < w->m; x++)
            host_put(text, "    *(%s_v *)(d + %d * row + %d * pixel) = t%d;\n",
                     name, y, x, x);
    }
    host_put(text, "}\n");
}

/* NAME_m<width>: (width tiles x C) * (C x ocv vectors), one element of X. */
static void host_wino_emit_micro(host_text *text, const host_kernel *kernel,
                                 const host_wino *w, const char *name,
                                 int32_t width)
{
    int32_t channels = kernel->conv.c, vl = w->v * w->lanes;
    int32_t whole = channels / w->lanes, rest = channels % w->lanes, v, x, i;

    host_put(text, "#define %s_STEP(p, q) do { \\\n    %s_o x;", name, name);
    for (v = 0; v < w->v; v++)
        host_put(text, " %s_v w%d = *(const %s_v *)((q) + %d);", name, v,
                 name, v * w->lanes);
    host_put(text, " \\\n");
    for (x = 0; x < width; x++) {
        host_put(text, "    x = (p)[%d];", x * w->lanes);
        for (v = 0; v < w->v; v++)
            host_put(text, " a%d_%d += w%d * x;", v, x, v);
        host_put(text, " \\\n");
    }
    host_put(text, "} while (0)\n");
    host_put(text,
             "static %s_NOINLINE void %s_m%d(const %s_o *v, long block,\n"
             "    const %s_t *u, %s_o *m%s)\n{\n"
             "    int %s;\n",
             name, name, width, name, name, name,
             w->prefetch ? ", const float *next" : "",
             whole ? w->u < w->lanes || rest ? "b, c" : "b" : "c");
    for (v = 0; v < w->v; v++)
        for (x = 0; x < width; x++)
            host_put(text, "    %s_v a%d_%d = %s;\n", name, v, x,
                     w->lanes > 1 ? "{ 0 }" : "0");
    if (!whole) host_put(text, "    (void)block;\n");
    if (whole) {
        host_put(text, "    for (b = 0; b < %d; b++, v += block)\n", whole);
        if (w->u < w->lanes)
            host_put(text, "        for (c = 0; c < %d; c += %d, u += %d) {\n",
                     w->lanes, w->u, w->u * vl);
        else
            host_put(text, "    {\n");
        for (i = 0; i < w->u; i++)
            host_put(text, "            %s_STEP(v + %s%d, u + %d);\n", name,
                     w->u < w->lanes ? "c + " : "", i, i * vl);
        if (w->u == w->lanes)
            host_put(text, "            u += %d;\n", w->u * vl);
        for (i = 0; i < w->prefetch; i++)
            host_put(text, "            %s_PREFETCH2(next + %d);\n", name,
                     i * 16);
        if (w->prefetch)
            host_put(text, "            next += %d;\n", w->prefetch * 16);
        host_put(text, "        }\n");
    }
    if (rest)
        host_put(text,
                 "    for (c = 0; c < %d; c++, u += %d)\n"
                 "        %s_STEP(v + c, u);\n", rest, vl, name);
    for (v = 0; v < w->v; v++)
        for (x = 0; x < width; x++)
            host_put(text, "    *(%s_v *)(m + %ld) = a%d_%d;\n", name,
                     ((long)v * w->t + x) * w->lanes, v, x);
    host_put(text, "}\n#undef %s_STEP\n", name);
}

/* NAME_input: groups g..to of tiles, all channels, into V. */
static void host_wino_emit_input(host_text *text, const host_kernel *kernel,
                                 const host_wino *w, const host_view *src,
                                 const char *name)
{
    host_put(text,
             "static void %s_input(const %s_t *in, %s_o *v, int g, int to,\n"
             "    %s_o *patch, long stride, long block)\n{\n"
             "    int i, j, b, t = g * %d, end = to * %d < %d ? to * %d : %d;\n"
             "    int y = t / %d * %d - %d, x = t %% %d * %d - %d;\n"
             "    for (; t < end; t++) {\n"
             "        %s_o *q = v + (t / %d - g) * %ldL + t %% %d * %d;\n",
             name, name, name, name, w->t, w->t, w->tiles, w->t, w->tiles,
             w->tw, w->m, kernel->conv.pad_top, w->tw, w->m,
             kernel->conv.pad_left, name, w->t, (long)w->v_group, w->t,
             w->lanes);
    /* a whole tile inside the image */
    if (src->h >= w->a && src->w >= w->a)
        host_put(text,
                 "        if (y >= 0 && y <= %d && x >= 0 && x <= %d) {\n"
                 "            const %s_t *s = in + y * %ldL + x * %ldL;\n"
                 "            for (b = 0; b < %d; b++)\n"
                 "                %s_in(s + b * %ldL, %ldL, %ldL, q + b * "
                 "block,\n                    stride);\n"
                 "        } else\n",
                 src->h - w->a, src->w - w->a, name, (long)src->row,
                 (long)src->pixel, w->cb, name, (long)src->plane,
                 (long)src->row, (long)src->pixel);
    host_put(text,
             "        {\n"
             "            int ya = y < 0 ? -y : 0, yb = %d - y;\n"
             "            int xa = x < 0 ? -x : 0, xb = %d - x;\n"
             "            if (yb > %d) yb = %d;\n"
             "            if (xb > %d) xb = %d;\n"
             "            memset(patch, 0, %d * sizeof *patch);\n"
             "            for (b = 0; b < %d; b++) {\n"
             "                for (i = ya; i < yb; i++)\n"
             "                    for (j = xa; j < xb; j++)\n"
             "                        *(%s_v *)(patch + (i * %d + j) * %d) =\n"
             "                            *(const %s_v *)(in + b * %ldL +\n"
             "                            (y + i) * %ldL + (x + j) * %ldL);\n"
             "                %s_in(patch, %d, %d, q + b * block, stride);\n"
             "            }\n        }\n"
             "        x += %d;\n"
             "        if (x == %d) {\n"
             "            x = %d;\n"
             "            y += %d;\n"
             "        }\n    }\n}\n",
             src->h, src->w, w->a, w->a, w->a, w->a, w->x * w->lanes, w->cb,
             name, w->a, w->lanes, name, (long)src->plane, (long)src->row,
             (long)src->pixel, name, w->a * w->lanes, w->lanes, w->m,
             w->tw * w->m - kernel->conv.pad_left, -kernel->conv.pad_left,
             w->m);
}

/* NAME_output: the same tiles of nk groups of output channels from M. */
static void host_wino_emit_output(host_text *text, const host_kernel *kernel,
                                  const host_wino *w, const host_view *dst,
                                  const char *name)
{
    host_put(text,
             "static void %s_output(const %s_o *m, %s_o *out, int g, int to,"
             "\n    int nk, %s_o *patch)\n{\n"
             "    int k, i, j, t, end = to * %d < %d ? to * %d : %d;\n"
             "    for (k = 0; k < nk * %d; k++, out += %ldL) {\n"
             "        const %s_o *s = m + k / %d * (to - g) * %ldL + k %% %d * "
             "%ldL;\n"
             "        int y = g * %d / %d * %d, x = g * %d %% %d * %d;\n",
             name, name, name, name, w->t, w->tiles, w->t, w->tiles, w->v,
             (long)dst->plane, name, w->v, (long)w->m_group, w->v,
             (long)w->t * w->lanes, w->t, w->tw, w->m, w->t, w->tw, w->m);
    host_put(text,
             "        for (t = g * %d; t < end; t++) {\n"
             "            const %s_o *p = s + (t / %d - g) * %ldL + t %% %d * "
             "%d;\n"
             "            %s_o *d = out + y * %ldL + x * %ldL;\n"
             "            if (y <= %d && x <= %d)\n"
             "                %s_out(p, d, %ldL, %ldL);\n"
             "            else {\n"
             "                %s_out(p, patch, %d, %d);\n"
             "                for (i = 0; i < %d && y + i < %d; i++)\n"
             "                    for (j = 0; j < %d && x + j < %d; j++)\n"
             "                        *(%s_v *)(d + i * %ldL + j * %ldL) =\n"
             "                            *(%s_v *)(patch + (i * %d + j) * "
             "%d);\n"
             "            }\n"
             "            x += %d;\n"
             "            if (x == %d) {\n"
             "                x = 0;\n"
             "                y += %d;\n"
             "            }\n        }\n    }\n}\n",
             w->t, name, w->t, (long)w->m_group, w->t, w->lanes, name,
             (long)dst->row, (long)dst->pixel, kernel->oh - w->m,
             kernel->ow - w->m, name, (long)dst->row, (long)dst->pixel, name,
             w->m * w->lanes, w->lanes, w->m, kernel->oh, w->m, kernel->ow,
             name, (long)dst->row, (long)dst->pixel, name, w->m, w->lanes,
             w->m, w->tw * w->m, w->m);
}

static void host_wino_emit_strides(host_text *text, const host_wino *w)
{
    host_put(text,
             "    long stride = outer[1] == 1 ? %ldL : %ldL;\n"
             "    long block = outer[1] == 1 ? %ldL : %ldL;\n",
             (long)w->v_x[1], (long)w->v_x[0], (long)w->v_block[1],
             (long)w->v_block[0]);
}

/* NAME_tiles: groups g..to of tiles by groups k0..k1 of output channels. While
   a panel of U is multiplied, each group of tiles fetches its share of the one
   that follows in memory into the second-level cache. */
static void host_wino_emit_tiles(host_text *text, const host_wino *w,
                                 const host_view *dst, const char *name)
{
    char next[80] = "";
    int pass;

    host_put(text,
             "static void %s_tile(const %s_o *v, long block, const %s_t *u,\n"
             "    %s_o *m, int g, int j)\n{\n    (void)j;\n",
             name, name, name, name);
    if (w->prefetch)
        snprintf(next, sizeof next, ", u + %ldL + j * %ldL", (long)w->panel,
                (long)(w->cb * w->lanes / w->u * w->prefetch * 16));
    if (w->tail)
        host_put(text,
                 "    if (g == %d)\n        %s_m%d(v, block, u, m%s);\n"
                 "    else\n    ",
                 w->groups - 1, name, w->tail, next);
    else
        host_put(text, "    (void)g;\n");
    host_put(text, "    %s_m%d(v, block, u, m%s);\n}\n", name, w->t, next);
    host_put(text,
             "static void %s_tiles(const %s_o *v, const %s_t *w, %s_o *out,\n"
             "    %s_o *m, %s_o *patch, const int *outer, int g, int to, int "
             "k0,\n    int k1)\n{\n"
             "    int k, x, i, j, nk, n = to - g;\n",
             name, name, name, name, name, name);
    host_wino_emit_strides(text, w);
    host_put(text,
             "    for (k = k0; k < k1; k += nk) {\n"
             "        nk = outer[1] < k1 - k ? outer[1] : k1 - k;\n"
             "        for (x = 0; x < %d; x++)\n", w->x);
    for (pass = 0; pass < 2; pass++) {
        const char *k = "for (i = 0; i < nk; i++)";
        const char *t = "for (j = 0; j < n; j++)";
        host_put(text,
                 "            %s\n                %s\n                    %s\n"
                 "                        %s_tile(v + j * %ldL + x * stride,\n"
                 "                            block, w + ((k + i) * %ldL + x) "
                 "* %ldL,\n                            m + (i * n + j) * "
                 "%ldL + x * %ldL, g + j, j);\n",
                 pass ? "else" : "if (outer[2] == 0)", pass ? t : k,
                 pass ? k : t, name, (long)w->v_group, (long)w->x,
                 (long)w->panel, (long)w->m_group,
                 (long)w->v * w->t * w->lanes);
    }
    host_put(text, "        %s_output(m, out + k * %ldL, g, to, nk, patch);\n"
                   "    }\n}\n", name, (long)(w->v * dst->plane));
}

/* NAME_core; a part's own of `work` lies behind that of the parts before. */
static void host_wino_emit_core(host_text *text, const host_wino *w,
                                const char *name)
{
    host_put(text,
             "static void %s_core(const %s_t *in, const %s_t *w, %s_o *out,\n"
             "    char *work, const int *outer, int phase, int part, int "
             "parts)\n{\n"
             "    long vs = outer[0] * %ldL, ms = (long)outer[0] * outer[1] * "
             "%ldL;\n"
             "    int g = (int)((long)%d * part / parts);\n"
             "    int end = (int)((long)%d * (part + 1) / parts);\n"
             "    long own = ms + %ldL%s;\n"
             "    %s_o *v = (%s_o *)(void *)work%s, *m = v + vs%s;\n",
             name, name, name, name, (long)w->v_group, (long)w->m_group,
             w->groups, w->groups, (long)w->patch, w->share ? "" : " + vs",
             name, name, w->share ? "" : " + part * own",
             w->share ? " + part * own" : "");
    host_wino_emit_strides(text, w);
    if (w->share)
        host_put(text,
                 "    if (phase == 0)\n"
                 "        %s_input(in, v + g * %ldL, g, end, m + ms, stride,\n"
                 "            block);\n"
                 "    else\n"
                 "        %s_tiles(v, w, out, m, m + ms, outer, 0, %d,\n"
                 "            (int)((long)%d * part / parts),\n"
                 "            (int)((long)%d * (part + 1) / parts));\n}\n",
                 name, (long)w->v_group, name, w->groups, w->k_groups,
                 w->k_groups);
    else
        host_put(text,
                 "    for (; g < end; g += outer[0]) {\n"
                 "        int to = end - g < outer[0] ? end : g + outer[0];\n"
                 "        %s_input(in, v, g, to, m + ms, stride, block);\n"
                 "        %s_tiles(v, w, out, m, m + ms, outer, g, to, 0, %d);"
                 "\n    }\n    (void)phase;\n}\n",
                 name, name, w->k_groups);
}

static void host_wino_emit(const host_kernel *kernel, const int64_t *values,
                           const host_plan *plan, const char *name,
                           host_text *text)
{
    host_wino w;

    host_wino_make(kernel, values, &w);
    if (w.m == 2)
        host_put(text, HOST_WINO_TEXT2, name, name);
    else
        host_put(text, HOST_WINO_TEXT4, name, name, name, name, name);
    if (w.prefetch)
        host_put(text,
                 "#ifdef __GNUC__\n"
                 "#define %s_PREFETCH2(p) __builtin_prefetch(p, 0, 2)\n"
                 "#else\n#define %s_PREFETCH2(p) (void)0\n#endif\n", name,
                 name);
    host_wino_emit_in(text, &w, name);
    host_wino_emit_out(text, &w, name);
    host_wino_emit_micro(text, kernel, &w, name, w.t);
    if (w.tail) host_wino_emit_micro(text, kernel, &w, name, w.tail);
    host_wino_emit_input(text, kernel, &w, &plan->src, name);
    host_wino_emit_output(text, kernel, &w, &plan->dst, name);
    host_wino_emit_tiles(text, &w, &plan->dst, name);
    host_wino_emit_core(text, &w, name);
    host_put(text, "#undef %s_BT\n#undef %s_AT\n", name, name);
}

#define HOST_WINO_USES                                                      \
    (1u << HOST_KNOB_OCV | 1u << HOST_KNOB_OWT | 1u << HOST_KNOB_UNROLL |   \
     1u << HOST_KNOB_PREFETCH | 1u << HOST_KNOB_OCT | 1u << HOST_KNOB_OHT | \
     1u << HOST_KNOB_INNER | 1u << HOST_KNOB_SPLIT)

const host_algorithm host_algorithm_wino2 = {
    "wino2", HOST_WINO_USES, host_wino_suits, host_wino2_lists,
    host_wino_valid, host_wino_repair, host_wino_defaults, host_wino_plan,
    host_wino2_axes, host_wino_nest, host_wino2_canonical,
    host_wino_weight_size, host_wino_pack_weight, host_wino_outer,
    host_wino_emit, host_wino_emit_pack
};
const host_algorithm host_algorithm_wino4 = {
    "wino4", HOST_WINO_USES, host_wino_suits, host_wino4_lists,
    host_wino_valid, host_wino_repair, host_wino_defaults, host_wino_plan,
    host_wino4_axes, host_wino_nest, host_wino4_canonical,
    host_wino_weight_size, host_wino_pack_weight, host_wino_outer,
    host_wino_emit, host_wino_emit_pack
};
