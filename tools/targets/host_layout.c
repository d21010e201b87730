/* host_layout.c - a layer's tensors in memory, and their conversion

   Rooms: [L-VIEW] where a value stands, [L-RUN] conversion here, [L-TYPE]
   types of the written source, [L-TILE] register transposes, [L-STAGE] and
   [L-UNSTAGE] conversion before and after a core, [L-PACK] as plain C. */
#include "host_algo.h"

#include <string.h>

/* =============================================== [L-VIEW] where it stands */

static int host_is_depthwise(const host_kernel *kernel)
{
    return kernel->conv.groups > 1 &&
           kernel->conv.groups == kernel->conv.c &&
           kernel->conv.groups == kernel->conv.k;
}

/* An image of at most 4 channels is not blocked. */
static int host_in_layout(const host_kernel *kernel)
{
    if (kernel->conv.layout == METATUNE_NCHWC && kernel->conv.c <= 4)
        return METATUNE_NHWC;
    return kernel->conv.layout;
}

/* A tensor of a layout, all of its channels as one group. */
static void host_view_whole(host_view *view, int32_t layout, int32_t channels,
                            int32_t lanes, int32_t h, int32_t w)
{
    int64_t hw = (int64_t)h * w;

    memset(view, 0, sizeof *view);
    view->groups = 1;
    view->channels = channels;
    view->h = h;
    view->w = w;
    if (layout == METATUNE_NHWC) {
        view->block = channels <= 4 || channels < lanes ? channels : lanes;
        view->pixel = channels;
        view->plane = view->block;
        view->image = hw * channels;
    } else {
        view->block = layout == METATUNE_NCHWC ? lanes : 1;
        view->pixel = view->block;
        view->plane = hw * view->block;
        view->image = view->plane * host_ceil_div(channels, view->block);
    }
    view->blocks = host_ceil_div(channels, view->block);
    view->row = view->pixel * w;
    view->group = view->image;
}

/* The same seen as groups of `channels`. */
static void host_view_split(host_view *view, int32_t layout, int32_t groups,
                            int32_t channels, int32_t lanes)
{
    view->groups = groups;
    view->channels = channels;
    if (layout == METATUNE_NHWC) {
        view->block = channels < lanes ? channels : lanes;
        view->plane = view->block;
        view->group = channels;
    } else {
        /* of blocks only when they belong to one group each */
        view->group = channels / view->block * view->plane;
    }
    view->blocks = host_ceil_div(channels, view->block);
}

static void host_view_layer_in(const host_kernel *kernel, host_view *view)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    host_view_whole(view, host_in_layout(kernel), c->c, kernel->march.lanes,
                    c->h, c->w);
}

static void host_view_layer_out(const host_kernel *kernel, host_view *view)
{
    host_view_whole(view, kernel->conv.layout, kernel->conv.k,
                    kernel->march.lanes, kernel->oh, kernel->ow);
    /* a view of the output has whole blocks wherever there is a choice */
    if (kernel->conv.layout == METATUNE_NHWC) {
        view->block = kernel->march.lanes;
        view->plane = view->block;
        view->blocks = host_ceil_div(view->channels, view->block);
    }
}

void host_view_in(const host_kernel *kernel, host_view *view)
{
    host_view_layer_in(kernel, view);
    if (kernel->conv.groups > 1 && !host_is_depthwise(kernel))
        host_view_split(view, host_in_layout(kernel), kernel->conv.groups,
                        kernel->cg, kernel->march.lanes);
}

void host_view_out(const host_kernel *kernel, host_view *view)
{
    host_view_layer_out(kernel, view);
    if (kernel->conv.groups > 1 && !host_is_depthwise(kernel))
        host_view_split(view, kernel->conv.layout, kernel->conv.groups,
                        kernel->kg, kernel->march.lanes);
}

void host_view_packed(host_view *view, int32_t groups, int32_t channels,
                      int32_t block, int32_t h, int32_t w)
{
    host_view_whole(view, METATUNE_NCHWC, channels, block, h, w);
    view->groups = groups;
    view->image *= groups;
}

/* ================================================ [L-RUN] conversion here */

size_t host_kernel_in_size(const host_kernel *kernel)
{
    host_view view;

    host_view_layer_in(kernel, &view);
    return (size_t)kernel->conv.n * (size_t)view.image *
           (size_t)kernel->in_bytes;
}

size_t host_kernel_out_size(const host_kernel *kernel)
{
    host_view view;

    host_view_layer_out(kernel, &view);
    return (size_t)kernel->conv.n * (size_t)view.image *
           (size_t)kernel->out_bytes;
}

/* One image between planes and a view; in == 1: from planes. */
static void host_image_move(const host_view *view, size_t bytes, int in,
                            const char *from, char *to)
{
    size_t row = (size_t)view->row * bytes, pixel = (size_t)view->pixel;
    size_t plane = 0, c, y, x;

    pixel *= bytes;
    for (c = 0; c < (size_t)view->channels; c++) {
        size_t block = c / (size_t)view->block;
        size_t at = (block * (size_t)view->plane +
                     c % (size_t)view->block) * bytes;
        for (y = 0; y < (size_t)view->h; y++)
            for (x = 0; x < (size_t)view->w; x++, plane += bytes) {
                size_t v = at + y * row + x * pixel;
                memcpy(to + (in ? v : plane), from + (in ? plane : v), bytes);
            }
    }
}

void host_kernel_pack_in(const host_kernel *kernel, const void *nchw,
                         void *in)
{
    size_t bytes = (size_t)kernel->in_bytes, plain, image, n;
    const char *from = (const char *)nchw;
    char *to = (char *)in;
    host_view view;

    host_view_layer_in(kernel, &view);
    image = (size_t)view.image * bytes;
    plain = (size_t)view.channels * (size_t)view.h * (size_t)view.w * bytes;
    for (n = 0; n < (size_t)kernel->conv.n; n++) {
        if (plain < image) memset(to + n * image, 0, image);
        host_image_move(&view, bytes, 1, from + n * plain, to + n * image);
    }
}

void host_kernel_unpack_out(const host_kernel *kernel, const void *out,
                            void *nchw)
{
    size_t bytes = (size_t)kernel->out_bytes, plain, image, n;
    const char *from = (const char *)out;
    char *to = (char *)nchw;
    host_view view;

    host_view_layer_out(kernel, &view);
    image = (size_t)view.image * bytes;
    plain = (size_t)view.channels * (size_t)view.h * (size_t)view.w * bytes;
    for (n = 0; n < (size_t)kernel->conv.n; n++)
        host_image_move(&view, bytes, 0, from + n * image, to + n * plain);
}

/* ======================================================= [L-TYPE] types */

void host_emit_types(const host_kernel *kernel, const char *name,
                     host_text *text)
{
    int i8 = kernel->in_bytes == 1;

    host_put(text,
             "#include <string.h>\n"
             "typedef %s %s_t;\n"
             "typedef %s %s_o;\n",
             i8 ? "signed char" : "float", name, i8 ? "int" : "float", name);
    if (kernel->march.lanes > 1)
        host_put(text,
                 "typedef %s_o %s_v\n"
                 "    __attribute__((vector_size(%d), aligned(4), may_alias));"
                 "\n", name, name, kernel->march.lanes * 4);
    else
        host_put(text, "typedef %s_o %s_v;\n", name, name);
    host_put(text,
             "#ifdef __GNUC__\n"
             "#define %s_PREFETCH(p) __builtin_prefetch(p)\n"
             "#else\n"
             "#define %s_PREFETCH(p) ((void)(p))\n"
             "#endif\n"
             /* Inputs that the next step uses again would be carried over in
                registers that there are not: twice the time, all on the
                stack. */
             "#if defined(__clang__)\n"
             "#define %s_NOINLINE __attribute__((noinline))\n"
             "#elif defined(__GNUC__)\n"
             "#define %s_NOINLINE \\\n"
             "    __attribute__((noinline, "
             "optimize(\"no-predictive-commoning\")))\n"
             "#else\n"
             "#define %s_NOINLINE\n"
             "#endif\n", name, name, name, name, name);
}

/* =========================================== [L-TILE] register transposes */

/* A tile: `rows` vectors of `lanes` values, `from` apart, become the same
   values in the other order, in vectors `to` apart. rows == lanes: a square
   is transposed; rows < lanes: rows are interleaved (an image of 2..4
   channels). With `guard` only the first n rows are loaded, others being zero
   (1), or only the first n are stored (2). */
typedef struct host_tile {
    int32_t lanes, rows;
    int64_t from, to;
    int guard;
} host_tile;

/* Masks of two vectors x, y: the low and the high halves' interleave of
   every 4 lanes, by one value and by two, and every other 4 lanes. */
enum { HOST_MASK_L1, HOST_MASK_H1, HOST_MASK_L2, HOST_MASK_H2, HOST_MASK_EVEN,
       HOST_MASK_ODD, HOST_MASKS };

static int32_t host_mask_lane(int mask, int32_t lanes, int32_t i)
{
    int32_t quad = i / 4 * 4, r = i % 4, half = lanes / 2;

    switch (mask) {
    case HOST_MASK_L1:
    case HOST_MASK_H1:
        return quad + r / 2 + (r & 1) * lanes + 2 * (mask == HOST_MASK_H1);
    case HOST_MASK_L2:
    case HOST_MASK_H2:
        return quad + (r & 1) + r / 2 * lanes + 2 * (mask == HOST_MASK_H2);
    default:
        return i % half / 4 * 8 + r + i / half * lanes +
               4 * (mask == HOST_MASK_ODD);
    }
}

/* One step of a transpose: a pair x, y of `a` becomes a pair of `b`. */
static void host_put_pair(host_text *text, int mask, char a, int32_t x,
                          int32_t y, char b, int32_t low, int32_t high)
{
    host_put(text,
             "    HOST_V %c%d = HOST_%d(%c%d, %c%d), %c%d = HOST_%d(%c%d, "
             "%c%d);\n",
             b, low, mask, a, x, a, y, b, high, mask + 1, a, x, a, y);
}

/* Rows a0.. into columns; returns the letter of the result. */
static char host_emit_square(host_text *text, int32_t lanes)
{
    int32_t i, j;

    for (i = 0; i < lanes; i += 2)
        host_put_pair(text, HOST_MASK_L1, 'a', i, i + 1, 'b', i, i + 1);
    for (i = 0; i < lanes; i += 4)
        for (j = 0; j < 2; j++)
            host_put_pair(text, HOST_MASK_L2, 'b', i + j, i + j + 2, 'c',
                          i + 2 * j, i + 2 * j + 1);
    /* c[4q + j]: columns j, j + 4, .. of rows 4q .. 4q + 3 */
    if (lanes == 4) return 'c';
    for (i = 0; i < lanes; i += 8)
        for (j = 0; j < 4; j++)
            host_put_pair(text, HOST_MASK_EVEN, 'c', i + j, i + j + 4, 'd',
                          i + j, i + j + 4);
    if (lanes == 8) return 'd';
    for (i = 0; i < 8; i++)
        host_put_pair(text, HOST_MASK_EVEN, 'd', i, i + 8, 'e', i, i + 8);
    return 'e';
}

/* Rows a0.. interleaved; value l of vector i is of row (i*lanes + l) % rows.
   Rows join a vector one after the other. */
static char host_emit_interleave(host_text *text, const host_tile *tile)
{
    int32_t i, l, r, at, lanes = tile->lanes;

    for (i = 0; i < tile->rows; i++)
        for (r = 1; r < tile->rows; r++) {
            if (r == 1)
                host_put(text, "    HOST_V b%d = HOST_SH(a0, a1", i);
            else
                host_put(text, "    b%d = HOST_SH(b%d, a%d", i, i, r);
            for (l = 0; l < lanes; l++) {
                at = i * lanes + l;
                host_put(text, ", %d",
                         at % tile->rows == r ? lanes + at / tile->rows
                         : r == 1 && at % tile->rows == 0 ? at / tile->rows
                                                          : l);
            }
            host_put(text, ");\n");
        }
    return 'b';
}

/* static void NAME_WHICH_tile(const NAME_TYPE *from, NAME_TYPE *to[, n]) */
static void host_emit_tile(host_text *text, const host_tile *tile,
                           const char *name, const char *which, char type)
{
    int32_t i, lanes = tile->lanes, square = tile->rows == lanes;
    int mask, masks = !square ? 0 : lanes == 4 ? HOST_MASK_EVEN : HOST_MASKS;
    char last;

    host_put(text,
             "typedef %s_%c %s_%s_v\n"
             "    __attribute__((vector_size(%d), aligned(4), may_alias));\n"
             "#define HOST_V %s_%s_v\n"
             "#if defined(__clang__) || __GNUC__ >= 12\n"
             "#define HOST_SH __builtin_shufflevector\n"
             "#else\n"
             "typedef int %s_%s_m __attribute__((vector_size(%d)));\n"
             "#define HOST_SH(x, y, ...) \\\n"
             "    __builtin_shuffle(x, y, (%s_%s_m){ __VA_ARGS__ })\n"
             "#endif\n",
             name, type, name, which, lanes * 4, name, which, name, which,
             lanes * 4, name, which);
    for (mask = 0; mask < masks; mask++) {
        host_put(text, "#define HOST_%d(x, y) HOST_SH(x, y", mask);
        for (i = 0; i < lanes; i++)
            host_put(text, ", %d", host_mask_lane(mask, lanes, i));
        host_put(text, ")\n");
    }
    host_put(text,
             "static %s_NOINLINE void %s_%s_tile(const %s_%c *from, %s_%c *to"
             "%s)\n{\n",
             name, name, which, name, type, name, type,
             tile->guard ? ", int n" : "");
    if (tile->guard == 1)
        host_put(text, "    static const %s_%c none[%d] = { 0 };\n", name,
                 type, lanes);
    if (tile->guard == 2)
        host_put(text, "    %s_%c none[%d];\n", name, type, lanes);
    for (i = 0; i < tile->rows; i++)
        if (tile->guard == 1)
            host_put(text,
                     "    HOST_V a%d = *(const HOST_V *)(n > %d ? from + "
                     "%lldL : none);\n", i, i, (long long)(i * tile->from));
        else
            host_put(text,
                     "    HOST_V a%d = *(const HOST_V *)(from + %lldL);\n", i,
                     (long long)(i * tile->from));
    last = square ? host_emit_square(text, lanes)
                  : host_emit_interleave(text, tile);
    for (i = 0; i < tile->rows; i++)
        if (tile->guard == 2)
            host_put(text,
                     "    *(HOST_V *)(n > %d ? to + %lldL : none) = %c%d;\n",
                     i, (long long)(i * tile->to), last, i);
        else
            host_put(text, "    *(HOST_V *)(to + %lldL) = %c%d;\n",
                     (long long)(i * tile->to), last, i);
    host_put(text, "}\n");
    for (mask = 0; mask < masks; mask++)
        host_put(text, "#undef HOST_%d\n", mask);
    host_put(text, "#undef HOST_SH\n#undef HOST_V\n");
}

/* ===================================================== [L-STAGE] before */

/* The image inside the staged one: rows y0..y1-1 of `rows` and columns
   x0..x1-1 of `cols` hold pixels, others are padding. Pixel (y0, x0) is pixel
   (fy, fx) of the input, its neighbours are sy and sx further. */
typedef struct host_grid {
    int32_t rows, cols, y0, y1, x0, x1, fy, fx, sy, sx;
} host_grid;

/* Positions 0..n-1 of which position i sees input i*step - pad of `size`. */
static void host_grid_axis(int32_t n, int32_t size, int32_t step, int32_t pad,
                           int32_t *begin, int32_t *end, int32_t *first)
{
    *begin = host_ceil_div(pad, step);
    *end = (size - 1 + pad) / step + 1;
    if (*end > n) *end = n;
    if (*begin >= *end) *begin = *end = 0;
    *first = *begin * step - pad;
}

static void host_grid_make(const host_kernel *kernel, const host_plan *plan,
                           host_grid *g)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int gather = plan->stage >= HOST_STAGE_GATHER;

    g->rows = gather ? kernel->oh : plan->src.h;
    g->cols = gather ? kernel->ow : plan->src.w;
    g->sy = gather ? c->stride_h : 1;
    g->sx = gather ? c->stride_w : 1;
    host_grid_axis(g->rows, c->h, g->sy, gather ? c->pad_top : plan->src.top,
                   &g->y0, &g->y1, &g->fy);
    host_grid_axis(g->cols, c->w, g->sx,
                   gather ? c->pad_left : plan->src.left, &g->x0, &g->x1,
                   &g->fx);
    if (g->y0 == g->y1 || g->x0 == g->x1)
        g->y0 = g->y1 = g->x0 = g->x1 = 0;
    else if (g->cols == c->w && g->sx == 1 && g->x0 == 0 && g->x1 == c->w &&
             g->rows == c->h && g->sy == 1 && g->y0 == 0 && g->y1 == c->h) {
        /* nothing around it: one long row */
        g->cols = g->x1 = c->h * c->w;
        g->rows = g->y1 = 1;
    }
}

static int32_t host_gcd(int32_t a, int32_t b)
{
    while (b) {
        int32_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The loop over part's units of work: a unit is one of `steps` of block q of
   a packed view. n is the number of its channels, k the first of them. */
static void host_put_units(host_text *text, const host_view *view,
                           int32_t steps)
{
    int32_t tail = view->channels % view->block;
    long long units = (long long)view->groups * view->blocks * steps;

    host_put(text,
             "    long u = %lldL * part / parts;\n"
             "    for (; u < %lldL * (part + 1) / parts; u++) {\n"
             "        long q = u / %d, b = q %% %d;\n"
             "        long k = q / %d * %d + b * %d, i = u %% %d;\n",
             units, units, steps, view->blocks, view->blocks, view->channels,
             view->block, steps);
    if (tail)
        host_put(text, "        int n = b == %d ? %d : %d;\n",
                 view->blocks - 1, tail, view->block);
    else
        host_put(text, "        int n = %d;\n", view->block);
}

/* Tiles of a row of pixels, which lie s_step and d_step apart; the last one
   overlaps the one before. one: only tile i of pixels / lanes. */
static void host_put_tiles(host_text *text, const host_tile *tile,
                           const char *name, const char *which,
                           int32_t pixels, int32_t s_step, int32_t d_step,
                           int one)
{
    int32_t step = tile->lanes;

    if (one && pixels % step)
        /* with the last tile the rest, which overlaps it: of one thread */
        host_put(text,
                 "        int end = i == %d ? %d : (int)i * %d + %d;\n"
                 "        for (x = (int)i * %d; x < end; x += %d) {\n",
                 pixels / step - 1, pixels, step, step, step, step);
    else if (one)
        host_put(text, "        x = (int)i * %d;\n        {\n", step);
    else
        host_put(text, "        for (x = 0; x < %d; x += %d) {\n", pixels,
                 step);
    if (pixels % step)
        host_put(text, "            if (x > %d) x = %d;\n", pixels - step,
                 pixels - step);
    host_put(text,
             "            %s_%s_tile(s + x * %dL, d + x * %dL%s);\n"
             "        }\n",
             name, which, s_step, d_step, tile->guard ? ", n" : "");
}

/* Which tile suits a block of planes; lanes 0: none. */
static void host_tile_choose(const host_kernel *kernel, const host_view *view,
                             int64_t planes, int stage, host_tile *tile)
{
    int32_t block = view->block, lanes = kernel->march.lanes;
    int tail = view->channels % block != 0;

    memset(tile, 0, sizeof *tile);
    if ((stage ? kernel->in_bytes : kernel->out_bytes) != 4 || lanes < 4)
        return;
    tile->rows = block;
    tile->guard = !tail ? 0 : stage ? 1 : 2;
    tile->from = stage ? planes : view->pixel;
    tile->to = stage ? view->pixel : planes;
    if (stage && !tail && block > 1 && block <= 4 && block < lanes) {
        tile->lanes = lanes;
        tile->to = lanes;
    } else if ((block == 4 || block == 8 || block == 16) && block <= lanes) {
        tile->lanes = block;
    }
}

/* A row from channels in planes, one pixel after the other. */
static void host_stage_plain(host_text *text, const host_grid *g, int32_t hw,
                             int32_t block)
{
    int32_t pixels = g->x1 - g->x0;

    if (block == 1 && g->sx == 1)
        host_put(text, "        memcpy(d, s, n * %d * sizeof *d);\n", pixels);
    else
        host_put(text,
                 "        for (x = 0; x < %d; x++, d += %d) {\n"
                 "            for (c = 0; c < n; c++)\n"
                 "                d[c] = s[x * %dL + c * %dL];\n"
                 "            for (; c < %d; c++) d[c] = 0;\n        }\n",
                 pixels, block, g->sx, hw, block);
}

/* A row from channels that stand together: `run` of them at least. */
static void host_stage_runs(host_text *text, const host_grid *g,
                            const host_view *in, const host_view *to,
                            int32_t run)
{
    int32_t pixels = g->x1 - g->x0, block = to->block;
    long long step = (long long)in->pixel * g->sx;
    int tail = to->channels % block != 0;

    if (run == block && (!tail || in->plane != in->block)) {
        /* whole blocks; the lanes past the last channel are zero */
        if (step == block)
            host_put(text, "        memcpy(d, s, %d * sizeof *d);\n",
                     pixels * block);
        else
            host_put(text,
                     "        for (x = 0; x < %d; x++)\n"
                     "            memcpy(d + x * %d, s + x * %lldL, %d * "
                     "sizeof *d);\n", pixels, block, step, block);
        return;
    }
    if (in->plane == in->block) {
        if (tail)
            host_put(text, "        if (n == %d)\n    ", block);
        host_put(text,
                 "        for (x = 0; x < %d; x++)\n"
                 "            memcpy(d + x * %d, s + x * %lldL, %d * sizeof "
                 "*d);\n", pixels, block, step, block);
        if (tail)
            host_put(text,
                     "        else\n"
                     "            for (x = 0; x < %d; x++) {\n"
                     "                memcpy(d + x * %d, s + x * %lldL, %d * "
                     "sizeof *d);\n"
                     "                memset(d + x * %d + %d, 0, %d * sizeof "
                     "*d);\n            }\n",
                     pixels, block, step, to->channels % block, block,
                     to->channels % block, block - to->channels % block);
        return;
    }
    host_put(text,
             "        s -= k / %d * %lldL + k %% %d;\n"
             "        for (c = 0; c < n; c += %d, k += %d) {\n"
             "            const long at = k / %d * %lldL + k %% %d;\n"
             "            for (x = 0; x < %d; x++)\n"
             "                memcpy(d + x * %d + c, s + at + x * %lldL, %d * "
             "sizeof *d);\n        }\n"
             "        for (x = 0; x < %d; x++)\n"
             "            for (c = n; c < %d; c++) d[x * %d + c] = 0;\n",
             in->block, (long long)in->plane, in->block, run, run, in->block,
             (long long)in->plane, in->block, pixels, block, step, run,
             pixels, block, block);
}

/* A block of an image whose rows are narrower than a tile: transposed as one
   long row to the block's end, from where the rows move to their places,
   first to last, none of them onto one that is still to come. */
static void host_stage_narrow(host_text *text, const host_grid *g,
                              const host_tile *tile, const char *name,
                              const host_view *in, int32_t block)
{
    int32_t row = g->cols * block, used = in->w * block;
    int32_t left = g->x0 * block, right = (g->cols - g->x1) * block;

    host_put(text,
             "        %s_t *r = d;\n        d += %d;\n", name,
             g->rows * row - in->h * used);
    host_put_tiles(text, tile, name, "stage", in->h * in->w, 1, block, 0);
    host_put(text,
             "        memset(r, 0, %d * sizeof *d);\n"
             "        r += %d;\n"
             "        for (x = 0; x < %d; x++, r += %d, d += %d) {\n"
             "            memset(r, 0, %d * sizeof *d);\n"
             "            memmove(r + %d, d, %d * sizeof *d);\n"
             "            memset(r + %d, 0, %d * sizeof *d);\n        }\n"
             "        memset(r, 0, %d * sizeof *d);\n",
             g->y0 * row, g->y0 * row, in->h, row, used, left, left, used,
             left + used, right, (g->rows - g->y1) * row);
}

void host_emit_stage(const host_kernel *kernel, const host_plan *plan,
                     const char *name, host_text *text)
{
    const host_view *to = &plan->src;
    int32_t lanes = kernel->march.lanes, pixels, steps, run, hw;
    int planes, framed, one = 0, narrow = 0;
    host_tile tile;
    host_view in;
    host_grid g;

    host_view_layer_in(kernel, &in);
    host_grid_make(kernel, plan, &g);
    planes = in.pixel == 1;
    hw = in.h * in.w;
    pixels = g.x1 - g.x0;
    steps = g.rows;
    framed = g.rows > 1 || pixels < g.cols || g.fy || g.fx;
    host_tile_choose(kernel, to, hw, 1, &tile);
    if (!planes || g.sx != 1 || pixels == 0) {
        tile.lanes = 0;
    } else if (pixels < tile.lanes) {
        narrow = framed && pixels == in.w && g.y1 - g.y0 == in.h &&
                 hw >= tile.lanes && g.sy == 1;
        if (narrow)
            steps = 1;
        else
            tile.lanes = 0;
    } else if (!framed && tile.lanes) {
        one = 1;
        steps = pixels / tile.lanes;
    }
    if (tile.lanes) host_emit_tile(text, &tile, name, "stage", 't');

    host_put(text,
             "static void %s_stage(const %s_t *in, %s_t *to, int part, int "
             "parts)\n{\n    int x, c;\n", name, name, name);
    host_put_units(text, to, steps);
    host_put(text,
             "        %s_t *d = to + q * %lldL;\n"
             "        const %s_t *s = in + k / %d * %lldL + k %% %d;\n"
             "        (void)i; (void)b; (void)n; (void)x; (void)c;\n",
             name, (long long)to->plane, name, in.block,
             (long long)in.plane, in.block);
    if (narrow) {
        host_stage_narrow(text, &g, &tile, name, &in, to->block);
        host_put(text, "    }\n}\n");
        return;
    }
    if (framed) {
        host_put(text, "        d += i * %d;\n", g.cols * to->block);
        if (g.y0 > 0 || g.y1 < g.rows)
            host_put(text,
                     "        if (i - %d < 0 || i - %d >= 0) {\n"
                     "            memset(d, 0, %d * sizeof *d);\n"
                     "            continue;\n        }\n",
                     g.y0, g.y1, g.cols * to->block);
        if (g.x0 > 0)
            host_put(text, "        memset(d, 0, %d * sizeof *d);\n"
                     "        d += %d;\n", g.x0 * to->block,
                     g.x0 * to->block);
        if (g.x1 < g.cols)
            host_put(text, "        memset(d + %d, 0, %d * sizeof *d);\n",
                     pixels * to->block, (g.cols - g.x1) * to->block);
        host_put(text, "        s += ((i - %d) * %d + %d) * %lldL + %lldL;\n",
                 g.y0, g.sy, g.fy, (long long)in.row,
                 (long long)in.pixel * g.fx);
    }
    if (pixels == 0)
        host_put(text, "        (void)s;\n");
    else if (tile.lanes)
        host_put_tiles(text, &tile, name, "stage", pixels, 1, to->block, one);
    else if (planes)
        host_stage_plain(text, &g, hw, to->block);
    else {
        run = to->block;
        if (in.plane != in.block && to->groups > 1)
            run = host_gcd(host_gcd(to->channels, lanes), to->block);
        host_stage_runs(text, &g, &in, to, run);
    }
    host_put(text, "    }\n}\n");
}

/* ==================================================== [L-UNSTAGE] after */

/* To blocks: lanes of one block may come from several groups. */
static void host_unstage_blocks(host_text *text, const host_kernel *kernel,
                                const host_view *from, const char *name,
                                int32_t rows, int32_t pixels)
{
    int32_t lanes = kernel->march.lanes, run;
    long long units;

    run = host_gcd(from->channels, lanes);
    units = (long long)host_ceil_div(kernel->conv.k, lanes) * rows;
    host_put(text,
             "    int x, c;\n"
             "    long u = %lldL * part / parts;\n"
             "    for (; u < %lldL * (part + 1) / parts; u++) {\n"
             "        long q = u / %d, i = u %% %d;\n"
             "        %s_o *d = out + u * %lldL;\n"
             "        for (c = 0; c < %d; c += %d) {\n"
             "            long k = q * %d + c, g = k / %d, j = k %% %d;\n"
             "            const %s_o *s = from + g * %lldL + j / %d * %lldL + "
             "j %% %d\n"
             "                + (i + %d) * %lldL + %lldL;\n"
             "            for (x = 0; x < %d; x++)\n"
             "                if (k < %d)\n"
             "                    memcpy(d + x * %d + c, s + x * %lldL, %d * "
             "sizeof *d);\n"
             "                else\n"
             "                    memset(d + x * %d + c, 0, %d * sizeof *d);\n"
             "        }\n    }\n}\n",
             units, units, rows, rows, name, (long long)pixels * lanes, lanes,
             run, lanes, from->channels, from->channels, name,
             (long long)from->group, from->block, (long long)from->plane,
             from->block, from->top, (long long)from->row,
             (long long)(from->left * from->pixel), pixels, kernel->conv.k,
             lanes, (long long)from->pixel, run, lanes, run);
}

void host_emit_unstage(const host_kernel *kernel, const host_plan *plan,
                       const char *name, host_text *text)
{
    const host_view *from = &plan->dst;
    int32_t rows = kernel->oh, pixels = kernel->ow, steps, hw, tail;
    int planes, one = 0;
    host_tile tile;
    host_view out;

    host_view_layer_out(kernel, &out);
    planes = out.pixel == 1;
    hw = rows * pixels;
    if (from->h == 1 || from->row == pixels * from->pixel) {
        pixels = hw;
        rows = 1;
    }
    steps = rows;
    host_tile_choose(kernel, from, hw, 0, &tile);
    if (!planes || pixels < tile.lanes) tile.lanes = 0;
    if (tile.lanes && rows == 1) {
        one = 1;
        steps = pixels / tile.lanes;
    }
    if (tile.lanes) host_emit_tile(text, &tile, name, "unstage", 'o');
    host_put(text,
             "static void %s_unstage(const %s_o *from, %s_o *out, int part, "
             "int parts)\n{\n", name, name, name);
    if (!planes && kernel->conv.layout == METATUNE_NCHWC) {
        host_unstage_blocks(text, kernel, from, name, rows, pixels);
        return;
    }
    host_put(text, "    int x, c;\n");
    host_put_units(text, from, steps);
    host_put(text,
             "        const %s_o *s = from + q / %d * %lldL + b * %lldL + "
             "%lldL;\n"
             "        %s_o *d = out + k * %dL;\n"
             "        (void)i; (void)n; (void)c;\n",
             name, from->blocks, (long long)from->group,
             (long long)from->plane,
             (long long)(from->top * from->row + from->left * from->pixel),
             name, planes ? hw : 1);
    if (rows > 1)
        host_put(text,
                 "        s += i * %lldL;\n        d += i * %lldL;\n",
                 (long long)from->row, (long long)out.row);
    tail = from->channels % from->block;
    if (tile.lanes)
        host_put_tiles(text, &tile, name, "unstage", pixels,
                       (int32_t)from->pixel, 1, one);
    else if (planes && from->pixel == 1)
        host_put(text,
                 "        x = %d;\n"
                 "        memcpy(d, s, (size_t)x * sizeof *d);\n", pixels);
    else if (planes)
        host_put(text,
                 "        for (c = 0; c < n; c++)\n"
                 "            for (x = 0; x < %d; x++)\n"
                 "                d[c * %dL + x] = s[x * %lldL + c];\n",
                 pixels, hw, (long long)from->pixel);
    else {
        if (tail)
            host_put(text,
                     "        if (n == %d) {\n"
                     "            for (x = 0; x < %d; x++)\n"
                     "                memcpy(d + x * %lldL, s + x * %lldL, %d "
                     "* sizeof *d);\n"
                     "            continue;\n        }\n",
                     tail, pixels, (long long)out.pixel,
                     (long long)from->pixel, tail);
        host_put(text,
                 "        for (x = 0; x < %d; x++)\n"
                 "            memcpy(d + x * %lldL, s + x * %lldL, %d * "
                 "sizeof *d);\n",
                 pixels, (long long)out.pixel, (long long)from->pixel,
                 from->block);
    }
    host_put(text, "    }\n}\n");
}

/* ================================================ [L-PACK] as plain C */

static void host_emit_move(host_text *text, const host_view *view, int32_t n,
                           int in, const char *name)
{
    const char *what = in ? "pack_in" : "unpack_out";
    const char *to = in ? "in" : "nchw", *from = in ? "nchw" : "out";
    char type = in ? 't' : 'o';
    int pass;

    for (pass = 0; pass < 2; pass++)
        host_put(text, "void %s_%s(const %s_%c *%s, %s_%c *%s)%s", name, what,
                 name, type, from, name, type, to, pass ? "\n" : ";\n");
    host_put(text, "{\n    long n, c, y, x, p = 0;\n");
    if (in && view->block * view->blocks != view->channels)
        host_put(text, "    memset(in, 0, %lldUL * sizeof *in);\n",
                 (long long)(view->image * n));
    host_put(text,
             "    for (n = 0; n < %d; n++)\n"
             "        for (c = 0; c < %d; c++)\n"
             "            for (y = 0; y < %d; y++)\n"
             "                for (x = 0; x < %d; x++, p++) {\n"
             "                    long v = n * %lldL + c / %d * %lldL + c %% "
             "%d\n"
             "                           + y * %lldL + x * %lldL;\n"
             "                    %s\n"
             "                }\n}\n",
             n, view->channels, view->h, view->w, (long long)view->image,
             view->block, (long long)view->plane, view->block,
             (long long)view->row, (long long)view->pixel,
             in ? "in[v] = nchw[p];" : "nchw[p] = out[v];");
}

void host_emit_pack_tensors(const host_kernel *kernel, const char *name,
                            host_text *text)
{
    host_view view;

    host_view_layer_in(kernel, &view);
    host_emit_move(text, &view, kernel->conv.n, 1, name);
    host_view_layer_out(kernel, &view);
    host_emit_move(text, &view, kernel->conv.n, 0, name);
}
