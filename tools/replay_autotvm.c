/* replay_autotvm.c - see replay_autotvm.h */
#include "replay_autotvm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nodes of the super-graphs. The 1x1 template has no R and S, the other one
   nothing inside of the rows: what is last of either is the other's alone, so
   that slots have no holes. */
enum {
    S_K1 = 1, S_Y1, S_X1, S_C1, S_C0, S_X0, S_K0, S_LOAD_A, S_LOAD_W, S_FMA,
    S_XE, S_KE, S_STORE,
    S_R, S_S,
    S_YI = S_R, S_YE = S_S
};

typedef struct tiles {
    int32_t ic, oc, ow, oh, unroll;
} tiles;

static int32_t loop(metatune_encode_nest *nest, int32_t parent, int32_t axis,
                    int32_t step, int32_t trip, int32_t kind, int32_t slot)
{
    return trip == 1 ? parent
                     : metatune_encode_loop_add(nest, parent, axis, step,
                                                trip, kind, slot);
}

static int32_t parts(int32_t n, int32_t size)
{
    return (n + size - 1) / size;
}

static void dim_set(metatune_encode_dim *dim, int32_t block, double stride,
                    double stride_block)
{
    dim->block = block;
    dim->stride = stride;
    dim->stride_block = stride_block;
}

/* Addresses of blocked data, weights and output. */
static void layout_set(metatune_encode_nest *nest,
                       const metatune_encode_conv2d *c, int32_t oh,
                       int32_t ow, const tiles *t)
{
    metatune_encode_dim *in = nest->tensor[METATUNE_CONV_INPUT].dim;
    metatune_encode_dim *w = nest->tensor[METATUNE_CONV_WEIGHT].dim;
    metatune_encode_dim *out = nest->tensor[METATUNE_CONV_OUTPUT].dim;
    double ic = t->ic, oc = t->oc, row = (c->w + 2 * c->pad_left) * ic;
    double plane = (c->h + 2 * c->pad_top) * row;
    double rs = (double)c->r * c->s;
    dim_set(&in[0], 0, plane * (c->c / ic), 0);
    dim_set(&in[1], t->ic, 1, plane);
    dim_set(&in[2], 0, row, 0);
    dim_set(&in[3], 0, ic, 0);
    dim_set(&w[0], t->oc, 1, c->c * rs * oc);
    dim_set(&w[1], t->ic, oc, rs * ic * oc);
    dim_set(&w[2], 0, c->s * ic * oc, 0);
    dim_set(&w[3], 0, ic * oc, 0);
    dim_set(&out[0], 0, (double)oh * ow * c->k, 0);
    dim_set(&out[1], t->oc, 1, (double)oh * ow * oc);
    dim_set(&out[2], 0, ow * oc, 0);
    dim_set(&out[3], 0, oc, 0);
}

static metatune_status nest_fill(metatune_encode_nest *nest,
                                 const metatune_encode_conv2d *c, int32_t oh,
                                 int32_t ow, int32_t template_id,
                                 const tiles *t)
{
    enum { SERIAL = METATUNE_LOOP_SERIAL, UNROLL = METATUNE_LOOP_UNROLL,
           VECTOR = METATUNE_LOOP_VECTOR };
    int32_t in = METATUNE_CONV_INPUT, w = METATUNE_CONV_WEIGHT;
    int32_t out = METATUNE_CONV_OUTPUT, all[3], p, e;
    metatune_status st = metatune_encode_conv2d_begin(nest, c);
    if (st)
        return st;
    all[0] = in;
    all[1] = w;
    all[2] = out;
    layout_set(nest, c, oh, ow, t);
    /* a factor that does not divide leaves a guarded tail */
    p = loop(nest, -1, METATUNE_CONV_K, t->oc, parts(c->k, t->oc), SERIAL,
             S_K1);
    p = loop(nest, p, METATUNE_CONV_Y, t->oh, parts(oh, t->oh), SERIAL, S_Y1);
    p = loop(nest, p, METATUNE_CONV_X, t->ow, parts(ow, t->ow), SERIAL, S_X1);
    e = loop(nest, p, METATUNE_CONV_Y, 1, t->oh, SERIAL, S_YE);
    e = loop(nest, e, METATUNE_CONV_X, 1, t->ow, UNROLL, S_XE);
    e = loop(nest, e, METATUNE_CONV_K, 1, t->oc, VECTOR, S_KE);
    p = loop(nest, p, METATUNE_CONV_C, t->ic, parts(c->c, t->ic), SERIAL,
             S_C1);
    if (template_id == AUTOTVM_NCHWC) {
        p = loop(nest, p, METATUNE_CONV_R, 1, c->r, SERIAL, S_R);
        p = loop(nest, p, METATUNE_CONV_S, 1, c->s,
                 t->unroll ? UNROLL : SERIAL, S_S);
    }
    p = loop(nest, p, METATUNE_CONV_C, 1, t->ic, SERIAL, S_C0);
    p = loop(nest, p, METATUNE_CONV_Y, 1, t->oh, UNROLL, S_YI);
    p = loop(nest, p, METATUNE_CONV_X, 1, t->ow, UNROLL, S_X0);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_LOAD, S_LOAD_A, 1, &in,
                             1);
    p = loop(nest, p, METATUNE_CONV_K, 1, t->oc, VECTOR, S_K0);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_LOAD, S_LOAD_W, 1, &w, 1);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_FMA, S_FMA, 1, all, 3);
    metatune_encode_stmt_add(nest, e, METATUNE_STMT_STORE, S_STORE, 1, &out,
                             1);
    nest->skeleton = template_id;
    return nest->status;
}

metatune_status replay_autotvm_describe(const replay_autotvm *t,
                                        const int64_t *values,
                                        metatune_encode_nest *nest)
{
    tiles s;
    s.ic = (int32_t)values[t->tile_ic];
    s.oc = (int32_t)values[t->tile_oc];
    s.ow = (int32_t)values[t->tile_ow];
    s.oh = t->template_id == AUTOTVM_1X1 ? (int32_t)values[t->tile_oh] : 1;
    s.unroll = t->template_id == AUTOTVM_NCHWC && values[t->unroll_kw] != 0;
    if (s.ic < 1 || s.oc < 1 || s.ow < 1 || s.oh < 1 ||
        s.ic > t->conv.c || s.oc > t->conv.k || s.ow > t->ow || s.oh > t->oh)
        return METATUNE_CONSTRAINT;
    metatune_encode_nest_clear(nest);
    return nest_fill(nest, &t->conv, t->oh, t->ow, t->template_id, &s);
}

metatune_status replay_autotvm_skeleton(int32_t template_id,
                                        metatune_encode_nest *nest)
{
    metatune_encode_conv2d conv =
        template_id == AUTOTVM_1X1
            ? metatune_encode_conv2d_make(1, 4, 4, 4, 4, 1, 1, 1, 0)
            : metatune_encode_conv2d_make(1, 4, 4, 4, 4, 3, 3, 1, 1);
    tiles s = { 2, 2, 2, 1, 1 };
    if (template_id == AUTOTVM_1X1)
        s.oh = 2;
    metatune_encode_nest_clear(nest);
    return nest_fill(nest, &conv, 4, 4, template_id, &s);
}

static int column(const metatune_knob *knob, uint32_t n, const char *name,
                  uint32_t *at)
{
    for (*at = 0; *at < n; ++*at)
        if (strcmp(knob[*at].name, name) == 0)
            return 1;
    return 0;
}

int replay_autotvm_open(replay_autotvm *t, const char *name,
                        const metatune_knob *knob, uint32_t n_knobs,
                        metatune_encode_device *device)
{
    static const char prefix[] = "autotvm_conv2d__";
    const char *p = name, *isa;
    char *end;
    long size, c, k, r, stride = 1;
    memset(t, 0, sizeof *t);
    if (strncmp(p, prefix, sizeof prefix - 1) != 0)
        return 0;
    p = strchr(p + sizeof prefix - 1, '_'); /* past the network */
    if (!p)
        return 0;
    size = strtol(p + 1, &end, 10);
    if (*end != 'x')
        return 0;
    k = c = strtol(end + 1, &end, 10);
    if (end[0] == '_' && end[1] != 'k')
        k = strtol(end + 1, &end, 10);
    if (end[0] != '_' || end[1] != 'k')
        return 0;
    r = strtol(end + 2, &end, 10);
    if (*end == 's')
        stride = strtol(end + 1, &end, 10);
    isa = end + 1;
    if (*end != '_' || size < 1 || size > 4096 || c < 1 || c > 65536 ||
        k < 1 || k > 65536 || r < 1 || r > 31 || stride < 1 || stride > 8)
        return 0;
    t->conv = metatune_encode_conv2d_make(
        1, (int32_t)c, (int32_t)size, (int32_t)size, (int32_t)k, (int32_t)r,
        (int32_t)r, (int32_t)stride, (int32_t)(r / 2));
    t->oh = metatune_encode_conv2d_out_h(&t->conv);
    t->ow = metatune_encode_conv2d_out_w(&t->conv);
    t->template_id = r == 1 ? AUTOTVM_1X1 : AUTOTVM_NCHWC;
    memset(device, 0, sizeof *device);
    device->size = (uint32_t)sizeof *device;
    device->cores = 1;
    device->lanes = strcmp(isa, "avx512") == 0 ? 16
                    : strcmp(isa, "avx2") == 0 ? 8 : 4;
    device->vregs = device->lanes == 16 ? 32 : 16;
    device->line_bytes = 64;
    return column(knob, n_knobs, "tile_ic", &t->tile_ic) &&
           column(knob, n_knobs, "tile_oc", &t->tile_oc) &&
           column(knob, n_knobs, "tile_ow", &t->tile_ow) &&
           (t->template_id == AUTOTVM_1X1
                ? column(knob, n_knobs, "tile_oh", &t->tile_oh)
                : column(knob, n_knobs, "unroll_kw", &t->unroll_kw));
}
