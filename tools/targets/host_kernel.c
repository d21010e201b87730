/* host_kernel.c - see host_kernel.h

   Rooms: [K-TEXT] the writer, [K-LIST] knob lists, [K-PLAN] buffers of a
   setting, [K-VALID] constraints, [K-NEST] loop nests, [K-SIZE] sizes,
   [K-EMIT] the C source around an algorithm's core. */
#include "host_algo.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HOST_VALUES_MAX 1.0e9    /* values of a tensor: 4 GB */

static const host_algorithm *const host_algorithms[HOST_ALGORITHMS] = {
    &host_algorithm_direct, &host_algorithm_flat, &host_algorithm_plane,
    &host_algorithm_depth, &host_algorithm_wino2, &host_algorithm_wino4
};

int32_t host_ceil_div(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

const char *host_algorithm_name(int32_t algorithm)
{
    return algorithm >= 0 && algorithm < HOST_ALGORITHMS
               ? host_algorithms[algorithm]->label
               : NULL;
}

/* ================================================ [K-TEXT] the C writer */

void host_put(host_text *text, const char *format, ...)
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

static size_t host_text_end(const host_text *text)
{
    if (text->full || text->n == 0) {
        if (text->cap) text->buf[0] = 0;
        return 0;
    }
    return text->n;
}

/* ================================================== [K-LIST] knob lists */

static const char *const host_knob_name[HOST_KNOBS] = {
    "algorithm", "ocv", "owt", "unroll", "kwu", "prefetch",
    "ict", "oct", "oht", "order", "inner", "split", "border"
};
/* Where a knob stands that nobody uses. */
static const int64_t host_knob_base[HOST_KNOBS] = {
    0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0
};
static const char *const host_label_order[] = {
    "kyc", "ykc", "cky", "cyk", "kcy", "yck"
};
static const char *const host_label_inner[] = { "k", "x" };
static const char *const host_label_split[] = { "k", "y" };
static const char *const host_label_border[] = { "copy", "code" };

void host_list_add(host_kernel *kernel, int knob, int64_t value)
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

void host_list_divisors(host_kernel *kernel, int knob, int32_t n)
{
    int32_t d, last = 2 * n, added = 0;

    for (d = n; d >= 1; d--) {
        if (n % d || 2 * d > last) continue;
        if (added++ == 5) d = 1;
        host_list_add(kernel, knob, d);
        last = d;
    }
}

int64_t host_list_floor(const host_kernel *kernel, int knob, double limit)
{
    const host_knob *list = &kernel->knob[knob];
    uint32_t i = list->n_values - 1;

    while (i > 0 && (double)list->values[i] > limit) i--;
    return list->values[i];
}

static int host_is_i8(const metatune_encode_conv2d *conv)
{
    return conv->dtype_in == METATUNE_I8 && conv->dtype_out == METATUNE_I32 &&
           conv->dtype_acc == METATUNE_I32;
}

metatune_status host_kernel_supports(const metatune_encode_conv2d *conv,
                                     char *why, size_t cap)
{
    const char *reason = NULL;
    metatune_status status;
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
    /* 64: the widest channel padding there is; 36/9: Winograd's weights */
    in = (double)conv->n * (conv->c + 64.0) *
         ((double)conv->h + conv->pad_top + conv->pad_bottom) *
         ((double)conv->w + conv->pad_left + conv->pad_right);
    out = (double)conv->n * ((double)conv->k + 64) *
          metatune_encode_conv2d_out_h(conv) *
          metatune_encode_conv2d_out_w(conv);
    w = ((double)conv->k + 64) * (conv->c + 64.0) / conv->groups * conv->r *
        conv->s * 4;
    if (conv->fused)
        reason = "fused operations are not supported by the host target yet";
    else if (!host_is_i8(conv) && (conv->dtype_in != METATUNE_F32 ||
                                   conv->dtype_out != METATUNE_F32 ||
                                   conv->dtype_acc != METATUNE_F32))
        reason = "the host target has kernels for f32, and for in=i8 out=i32 "
                 "acc=i32";
    else if (in > HOST_VALUES_MAX || out > HOST_VALUES_MAX ||
             w > HOST_VALUES_MAX)
        reason = "a tensor of more than 10^9 values is not supported by the "
                 "host target";
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
    int32_t i;

    if (status != METATUNE_OK) return status;
    if (!kernel || !march ||
        (march->lanes != 16 && march->lanes != 8 && march->lanes != 4 &&
         march->lanes != 1) ||
        march->vregs < 8 || march->threads < 0 || march->threads > 8) {
        if (why && cap)
            snprintf(why, cap, "lanes is 16, 8, 4 or 1, threads 1..8");
        return METATUNE_BAD_ARG;
    }
    if (conv->layout == METATUNE_NCHWC && conv->block != march->lanes) {
        if (why && cap)
            snprintf(why, cap, "block is %d, want %d on this platform",
                     (int)conv->block, (int)march->lanes);
        return METATUNE_BAD_ARG;
    }
    memset(kernel, 0, sizeof *kernel);
    kernel->conv = *conv;
    kernel->march = *march;
    if (kernel->march.threads == 0) kernel->march.threads = 1;
    kernel->oh = metatune_encode_conv2d_out_h(conv);
    kernel->ow = metatune_encode_conv2d_out_w(conv);
    kernel->cg = conv->c / conv->groups;
    kernel->kg = conv->k / conv->groups;
    kernel->in_bytes = metatune_encode_dtype_bytes(conv->dtype_in);
    kernel->out_bytes = metatune_encode_dtype_bytes(conv->dtype_out);
    kernel->n_knobs = HOST_KNOBS;
    for (i = 0; i < HOST_KNOBS; i++) {
        kernel->knob[i].name = host_knob_name[i];
        kernel->knob[i].values = kernel->store[i];
    }
    kernel->knob[HOST_KNOB_ORDER].labels = host_label_order;
    kernel->knob[HOST_KNOB_INNER].labels = host_label_inner;
    kernel->knob[HOST_KNOB_SPLIT].labels = host_label_split;
    kernel->knob[HOST_KNOB_BORDER].labels = host_label_border;

    for (i = 0; i < HOST_ALGORITHMS; i++)
        if (host_algorithms[i]->suits(kernel)) {
            kernel->labels[kernel->knob[HOST_KNOB_ALGORITHM].n_values] =
                host_algorithms[i]->label;
            host_list_add(kernel, HOST_KNOB_ALGORITHM, i);
            host_algorithms[i]->lists(kernel);
        }
    for (i = 0; i < HOST_KNOBS; i++)
        if (kernel->knob[i].n_values == 0)
            host_list_add(kernel, i, host_knob_base[i]);
    kernel->knob[HOST_KNOB_ALGORITHM].labels = kernel->labels;
    return METATUNE_OK;
}

/* ====================================== [K-PLAN] buffers of a setting */

static int host_depthwise(const host_kernel *kernel)
{
    const metatune_encode_conv2d *c = &kernel->conv;

    return c->groups > 1 && c->groups == c->c && c->groups == c->k;
}

/* nhwc is blocked, too: blocks of a vector, side by side in a pixel. */
static void host_view_block(const host_kernel *kernel, host_view *view)
{
    if (kernel->conv.layout != METATUNE_NHWC) return;
    view->block = view->channels < kernel->march.lanes ? view->channels
                                                       : kernel->march.lanes;
    view->blocks = host_ceil_div(view->channels, view->block);
    view->plane = view->block;
}

static size_t host_align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* Can vectors of whole channel blocks be moved to and from the layer's own
   tensor of `channels` a group? */
static int host_whole(const host_kernel *kernel, int32_t channels)
{
    int32_t lanes = kernel->march.lanes;
    int grouped = kernel->conv.groups > 1 && !host_depthwise(kernel);

    switch (kernel->conv.layout) {
    case METATUNE_NCHWC: return !grouped || channels % lanes == 0;
    case METATUNE_NHWC: return channels % lanes == 0;
    default: return lanes == 1;
    }
}

int32_t host_in_block(const host_kernel *kernel)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int32_t lanes = kernel->march.lanes, cg = kernel->cg;

    if (c->layout == METATUNE_NHWC) return cg < lanes ? cg : lanes;
    if (c->layout == METATUNE_NCHW && lanes == 1) return 1;
    if (c->groups == 1) return cg <= 4 ? cg : lanes;
    return cg < lanes ? cg : lanes;
}

int32_t host_out_block(const host_kernel *kernel)
{
    int32_t block = kernel->march.lanes;

    if (kernel->conv.groups > 1 && !host_depthwise(kernel) &&
        !host_whole(kernel, kernel->kg))
        while (block / 2 >= kernel->kg) block /= 2;
    return block;
}

static void host_plan_src(const host_kernel *kernel, host_plan *plan)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int depthwise = host_depthwise(kernel);
    int grouped = c->groups > 1 && !depthwise;
    int padded = c->pad_top || c->pad_bottom || c->pad_left || c->pad_right;
    int strided = c->stride_h != 1 || c->stride_w != 1;
    int32_t lanes = kernel->march.lanes, channels, block, h = c->h, w = c->w;
    int fits;

    channels = depthwise ? c->c : kernel->cg;
    if (plan->stage == HOST_STAGE_PLANE)
        fits = c->layout == METATUNE_NCHW;
    else if (plan->vectors)
        fits = host_whole(kernel, channels) &&
               (c->layout != METATUNE_NCHWC || channels > 4);
    else
        /* broadcasts read no further than the last channel */
        fits = c->layout == METATUNE_NHWC || host_whole(kernel, channels);
    if (plan->stage == HOST_STAGE_PAD && padded) fits = 0;
    if (plan->stage >= HOST_STAGE_GATHER && (padded || strided)) fits = 0;
    plan->staged = !fits;
    if (fits) {
        host_view_in(kernel, &plan->src);
        if (depthwise) {
            plan->src.groups = 1;
            plan->src.channels = channels;
        }
        host_view_block(kernel, &plan->src);
        if (plan->stage >= HOST_STAGE_GATHER) {
            plan->src.h = 1;
            plan->src.w = c->h * c->w;
            plan->src.row = plan->src.w * plan->src.pixel;
        }
        return;
    }
    if (plan->stage == HOST_STAGE_PLANE)
        block = 1;
    else if (plan->vectors)
        block = lanes;
    else
        block = host_in_block(kernel);
    if (plan->stage == HOST_STAGE_PAD) {
        h += c->pad_top + c->pad_bottom;
        w += c->pad_left + c->pad_right;
    } else if (plan->stage >= HOST_STAGE_GATHER) {
        h = 1;
        w = kernel->oh * kernel->ow;
    }
    host_view_packed(&plan->src, grouped ? c->groups : 1, channels, block, h,
                     w);
    if (plan->stage == HOST_STAGE_PAD) {
        plan->src.top = c->pad_top;
        plan->src.left = c->pad_left;
    }
}

void host_plan_make(const host_kernel *kernel, const int64_t *values,
                    host_plan *plan)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    int depthwise = host_depthwise(kernel);
    int32_t channels = depthwise ? c->k : kernel->kg;

    memset(plan, 0, sizeof *plan);
    plan->algorithm = host_algorithms[values[HOST_KNOB_ALGORITHM]];
    plan->core_phases = 1;
    if (host_whole(kernel, channels)) {
        host_view_out(kernel, &plan->dst);
        if (depthwise) {
            plan->dst.groups = 1;
            plan->dst.channels = channels;
        }
        host_view_block(kernel, &plan->dst);
    } else {
        host_view_packed(&plan->dst, depthwise ? 1 : c->groups, channels,
                         host_out_block(kernel), kernel->oh, kernel->ow);
        plan->unstaged = 1;
    }
    plan->algorithm->plan(kernel, values, plan);
    host_plan_src(kernel, plan);
    if (plan->staged)
        plan->dst_at = host_align64((size_t)plan->src.image *
                                    (size_t)kernel->in_bytes);
    plan->core_at = plan->dst_at;
    if (plan->unstaged)
        plan->core_at += host_align64((size_t)plan->dst.image *
                                      (size_t)kernel->out_bytes);
    plan->bytes = plan->core_at + host_align64(plan->core_bytes);
}

/* ========================================== [K-VALID] constraints */

static int host_listed(const host_kernel *kernel, int knob, int64_t value)
{
    const host_knob *list = &kernel->knob[knob];
    uint32_t j;

    for (j = 0; j < list->n_values; j++)
        if (list->values[j] == value) return 1;
    return 0;
}

int host_kernel_valid(const host_kernel *kernel, const int64_t *values)
{
    const host_algorithm *algorithm;
    int i;

    for (i = 0; i < HOST_KNOBS; i++)
        if (!host_listed(kernel, i, values[i])) return 0;
    algorithm = host_algorithms[values[HOST_KNOB_ALGORITHM]];
    for (i = 1; i < HOST_KNOBS; i++)
        if (!(algorithm->uses >> i & 1) &&
            values[i] != kernel->knob[i].values[0])
            return 0;
    return algorithm->valid(kernel, values);
}

static void host_unused_reset(const host_kernel *kernel, int64_t *values)
{
    uint32_t uses = host_algorithms[values[HOST_KNOB_ALGORITHM]]->uses;
    int i;

    for (i = 1; i < HOST_KNOBS; i++)
        if (!(uses >> i & 1)) values[i] = kernel->knob[i].values[0];
}

int host_kernel_repair(const host_kernel *kernel, int64_t *values)
{
    int i;

    for (i = 0; i < HOST_KNOBS; i++)
        if (!host_listed(kernel, i, values[i]))
            values[i] = host_list_floor(kernel, i, (double)values[i]);
    host_unused_reset(kernel, values);
    if (host_kernel_valid(kernel, values)) return 1;
    return host_algorithms[values[HOST_KNOB_ALGORITHM]]->repair(kernel,
                                                                values) &&
           host_kernel_valid(kernel, values);
}

/* Would Winograd pay? Few tiles or channels do not earn back the transforms;
   on small images with many channels the weights are what is moved, and F(2)
   has fewer of them. */
static int host_wino_pays(const host_kernel *kernel, int64_t algorithm)
{
    double ck = (double)kernel->conv.c * kernel->conv.k;
    int heavy = kernel->oh <= 14 && kernel->ow <= 14 && ck >= 65536;

    if (kernel->conv.c < 16 || kernel->conv.k < 16) return 0;
    if (heavy) return algorithm == HOST_WINO2;
    return kernel->oh >= 12 && kernel->ow >= 12;
}

/* Which algorithm to begin with: what usually wins, where it suits. */
void host_kernel_default(const host_kernel *kernel, int64_t *values)
{
    static const int64_t prefer[HOST_ALGORITHMS] = {
        HOST_WINO4, HOST_WINO2, HOST_DEPTH, HOST_PLANE, HOST_FLAT, HOST_DIRECT
    };
    int i;

    memset(values, 0, HOST_KNOBS * sizeof *values);
    for (i = 0; i < HOST_ALGORITHMS; i++) {
        if (!host_listed(kernel, HOST_KNOB_ALGORITHM, prefer[i])) continue;
        if (prefer[i] >= HOST_WINO2 && !host_wino_pays(kernel, prefer[i]))
            continue;
        /* flat gathers the pixels that a stride visits; direct skips them */
        if (prefer[i] == HOST_FLAT && kernel->conv.layout != METATUNE_NCHW &&
            (kernel->conv.stride_h > 1 || kernel->conv.stride_w > 1))
            continue;
        break;
    }
    values[HOST_KNOB_ALGORITHM] = prefer[i < HOST_ALGORITHMS ? i
                                             : HOST_ALGORITHMS - 1];
    host_algorithms[values[HOST_KNOB_ALGORITHM]]->defaults(kernel, values);
    host_unused_reset(kernel, values);
}

/* ======================================================= [K-NEST] nests */

void host_dim_set(metatune_encode_dim *dim, int32_t block, double stride,
                  double stride_block)
{
    dim->block = block;
    dim->stride = stride;
    dim->stride_block = stride_block;
}

void host_dims_view(metatune_encode_tensor *tensor, const host_view *view)
{
    host_dim_set(&tensor->dim[0], 0, (double)view->image, 0);
    if (view->block > 1)
        host_dim_set(&tensor->dim[1], view->block, 1, (double)view->plane);
    else
        host_dim_set(&tensor->dim[1], 0, (double)view->plane, 0);
    host_dim_set(&tensor->dim[2], 0, (double)view->row, 0);
    host_dim_set(&tensor->dim[3], 0, (double)view->pixel, 0);
}

metatune_status host_axes_flat(const host_kernel *kernel,
                               metatune_encode_nest *nest)
{
    metatune_encode_conv2d flat = kernel->conv;

    flat.h = 1;
    flat.w = kernel->oh * kernel->ow;
    flat.stride_h = flat.stride_w = 1;
    flat.pad_top = flat.pad_bottom = flat.pad_left = flat.pad_right = 0;
    return metatune_encode_conv2d_begin(nest, &flat);
}

int32_t host_access(metatune_encode_nest *nest, int32_t parent, int32_t kind,
                    int32_t slot, int32_t count, int32_t tensor)
{
    return metatune_encode_stmt_add(nest, parent, kind, slot, count, &tensor,
                                    1);
}

int32_t host_fma(metatune_encode_nest *nest, int32_t parent, int32_t slot)
{
    static const int32_t all[3] = { METATUNE_CONV_INPUT, METATUNE_CONV_WEIGHT,
                                    METATUNE_CONV_OUTPUT };

    return metatune_encode_stmt_add(nest, parent, METATUNE_STMT_FMA, slot, 1,
                                    all, 3);
}

int32_t host_loop(metatune_encode_nest *nest, int32_t parent, int32_t axis,
                  int32_t step, int32_t trip, int32_t kind, int32_t slot)
{
    if (trip == 1) return parent;
    return metatune_encode_loop_add(nest, parent, axis, step, trip, kind,
                                    slot);
}

static metatune_status host_axes(const host_kernel *kernel, int64_t algorithm,
                                 metatune_encode_nest *nest)
{
    metatune_status status;

    metatune_encode_nest_clear(nest);
    status = host_algorithms[algorithm]->axes(kernel, nest);
    nest->skeleton = (int32_t)algorithm;
    return status;
}

metatune_status host_kernel_nest_begin(const host_kernel *kernel,
                                       metatune_encode_nest *nest)
{
    return host_axes(kernel, kernel->knob[HOST_KNOB_ALGORITHM].values[0],
                     nest);
}

metatune_status host_kernel_describe(const host_kernel *kernel,
                                     const int64_t *values,
                                     metatune_encode_nest *nest)
{
    int64_t algorithm = values[HOST_KNOB_ALGORITHM];
    metatune_status status = METATUNE_OK;
    host_plan plan;

    /* nest->skeleton says whose axes it holds */
    if (nest->skeleton != (int32_t)algorithm || !nest->n_axes)
        status = host_axes(kernel, algorithm, nest);
    else
        metatune_encode_nest_rewind(nest);
    if (status != METATUNE_OK) return status;
    nest->skeleton = (int32_t)algorithm;
    host_plan_make(kernel, values, &plan);
    return plan.algorithm->nest(kernel, values, &plan, nest);
}

metatune_status host_kernel_skeleton(int32_t algorithm,
                                     metatune_encode_nest *nest)
{
    static const host_march march = { 16, 32, 2 };
    metatune_encode_conv2d conv;
    int64_t values[HOST_KNOBS] = { 0 };
    host_kernel kernel;
    metatune_status status;
    host_plan plan;

    if (algorithm < 0 || algorithm >= HOST_ALGORITHMS || !nest)
        return METATUNE_BAD_ARG;
    host_algorithms[algorithm]->canonical(&conv, values);
    values[HOST_KNOB_ALGORITHM] = algorithm;
    status = host_kernel_init(&kernel, &conv, &march, NULL, 0);
    if (status == METATUNE_OK) status = host_axes(&kernel, algorithm, nest);
    if (status == METATUNE_OK) {
        host_plan_make(&kernel, values, &plan);
        plan.canonical = 1;
        status = plan.algorithm->nest(&kernel, values, &plan, nest);
    }
    return status;
}

/* ======================================================= [K-SIZE] sizes */

size_t host_kernel_weight_size(const host_kernel *kernel,
                               const int64_t *values)
{
    return host_algorithms[values[HOST_KNOB_ALGORITHM]]->weight_size(kernel,
                                                                     values);
}

size_t host_kernel_work_size(const host_kernel *kernel,
                             const int64_t *values)
{
    host_plan plan;

    host_plan_make(kernel, values, &plan);
    return plan.bytes;
}

void host_kernel_pack_weight(const host_kernel *kernel,
                             const int64_t *values, const void *kcrs, void *w)
{
    host_algorithms[values[HOST_KNOB_ALGORITHM]]->pack_weight(kernel, values,
                                                              kcrs, w);
}

void host_kernel_outer(const host_kernel *kernel, const int64_t *values,
                       int outer[HOST_OUTER])
{
    memset(outer, 0, HOST_OUTER * sizeof outer[0]);
    host_algorithms[values[HOST_KNOB_ALGORITHM]]->outer(kernel, values,
                                                        outer);
}

static int32_t host_plan_phases(const host_plan *plan)
{
    return plan->staged + plan->core_phases + plan->unstaged;
}

int32_t host_kernel_phases(const host_kernel *kernel, const int64_t *values)
{
    host_plan plan;

    host_plan_make(kernel, values, &plan);
    return host_plan_phases(&plan) * kernel->conv.n;
}

/* ============================================== [K-EMIT] the C source */

/* NAME_phase: one phase of one image. */
static void host_emit_phase(host_text *text, const host_kernel *kernel,
                            const host_plan *plan, const char *name)
{
    host_view in, out;
    int32_t phases = host_plan_phases(plan);
    char at[32] = "";            /* work may be NULL: nothing to add then */

    if (plan->core_bytes && plan->core_at)
        snprintf(at, sizeof at, " + %lld", (long long)plan->core_at);

    host_view_in(kernel, &in);
    host_view_out(kernel, &out);
    host_put(text,
             "static void %s_phase(const %s_t *in, const %s_t *w, %s_o *out,\n"
             "    char *work, const int *outer, int phase, int part, int "
             "parts)\n{\n"
             "    const %s_t *src = in + (phase / %d) * (long)%lld;\n"
             "    %s_o *dst = out + (phase / %d) * (long)%lld;\n",
             name, name, name, name, name, phases, (long long)in.image, name,
             phases, (long long)out.image);
    if (plan->staged)
        host_put(text, "    %s_t *stage = (%s_t *)(void *)work;\n", name,
                 name);
    if (plan->unstaged)
        host_put(text, "    %s_o *block = (%s_o *)(void *)(work + %lld);\n",
                 name, name, (long long)plan->dst_at);
    host_put(text, "    (void)work;\n    phase %%= %d;\n", phases);
    if (plan->staged)
        host_put(text,
                 "    if (phase == 0) {\n"
                 "        %s_stage(src, stage, part, parts);\n"
                 "        return;\n    }\n", name);
    if (plan->unstaged)
        host_put(text,
                 "    if (phase == %d) {\n"
                 "        %s_unstage(block, dst, part, parts);\n"
                 "        return;\n    }\n", phases - 1, name);
    host_put(text,
             "    %s_core(%s, w, %s, work%s, outer, phase - %d, part,"
             " parts);\n}\n",
             name, plan->staged ? "stage" : "src",
             plan->unstaged ? "block" : "dst", at, plan->staged);
}

static void host_emit_all(host_text *text, const host_kernel *kernel,
                          const int64_t *values, const char *name,
                          const char *linkage, const char *suffix)
{
    host_plan plan;

    host_plan_make(kernel, values, &plan);
    host_emit_types(kernel, name, text);
    if (plan.staged) host_emit_stage(kernel, &plan, name, text);
    if (plan.unstaged) host_emit_unstage(kernel, &plan, name, text);
    plan.algorithm->emit(kernel, values, &plan, name, text);
    host_emit_phase(text, kernel, &plan, name);
    host_put(text,
             "%svoid %s%s(const void *in, const void *w, void *out, void "
             "*work,\n"
             "    const int *outer, int phase, int part, int parts)\n{\n"
             "    int end = phase + 1;\n"
             "    if (phase < 0) {\n"
             "        phase = part = 0;\n"
             "        parts = 1;\n"
             "        end = %d;\n"
             "    }\n"
             "    for (; phase < end; phase++)\n"
             "        %s_phase((const %s_t *)in, (const %s_t *)w, (%s_o "
             "*)out,\n"
             "            (char *)work, outer, phase, part, parts);\n}\n",
             linkage, name, suffix,
             host_plan_phases(&plan) * kernel->conv.n, name, name, name,
             name);
}

static const char *host_type_in(const host_kernel *kernel)
{
    return kernel->in_bytes == 1 ? "signed char" : "float";
}

static const char *host_type_out(const host_kernel *kernel)
{
    return kernel->in_bytes == 1 ? "int" : "float";
}

size_t host_kernel_emit(const host_kernel *kernel, const int64_t *values,
                        const char *name, char *buf, size_t cap)
{
    host_text text = { buf, cap, 0, cap == 0 };
    const char *t = host_type_in(kernel), *o = host_type_out(kernel);
    int outer[HOST_OUTER], i;

    host_kernel_outer(kernel, values, outer);
    host_emit_all(&text, kernel, values, name, "static ", "_entry");
    host_put(&text, "static const int %s_outer[%d] = {", name, HOST_OUTER);
    for (i = 0; i < HOST_OUTER; i++)
        host_put(&text, "%s%d", i ? ", " : " ", outer[i]);
    host_put(&text,
             " };\n"
             "void %s_part(const %s *in, const %s *w, %s *out, void *work,\n"
             "    int phase, int part, int parts);\n"
             "void %s_part(const %s *in, const %s *w, %s *out, void *work,\n"
             "    int phase, int part, int parts)\n{\n"
             "    %s_entry(in, w, out, work, %s_outer, phase, part, parts);\n"
             "}\n"
             "void %s(const %s *in, const %s *w, %s *out, void *work);\n"
             "void %s(const %s *in, const %s *w, %s *out, void *work)\n{\n"
             "    %s_entry(in, w, out, work, %s_outer, -1, 0, 1);\n}\n",
             name, t, t, o, name, t, t, o, name, name, name, t, t, o, name,
             t, t, o, name, name);
    return host_text_end(&text);
}

size_t host_kernel_emit_outer(const host_kernel *kernel,
                              const int64_t *values, const char *name,
                              char *buf, size_t cap)
{
    host_text text = { buf, cap, 0, cap == 0 };

    host_put(&text,
             "void %s(const void *in, const void *w, void *out, void *work,\n"
             "    const int *outer, int phase, int part, int parts);\n",
             name);
    host_emit_all(&text, kernel, values, name, "", "");
    return host_text_end(&text);
}

size_t host_kernel_emit_pack(const host_kernel *kernel,
                             const int64_t *values, const char *name,
                             char *buf, size_t cap)
{
    host_text text = { buf, cap, 0, cap == 0 };

    host_emit_pack_tensors(kernel, name, &text);
    host_algorithms[values[HOST_KNOB_ALGORITHM]]->emit_pack(kernel, values,
                                                            name, &text);
    return host_text_end(&text);
}
