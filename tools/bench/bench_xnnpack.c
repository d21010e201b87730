/* bench_xnnpack.c - XNNPACK as a rival of bench_conv: its f32 convolution on
   nhwc, created and set up beforehand, no thread pool */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xnnpack.h>

#include "bench_rival.h"

typedef struct work {
    const bench_case *c;
    xnn_operator_t op;
    float *in, *out;             /* (N,H,W,C) (N,OH,OW,K) */
} work;

static void xnnpack_version(char *buf, size_t cap)
{
    snprintf(buf, cap, "XNNPACK (nhwc)"); /* it has no version number */
}

static void work_run(void *state)
{
    if (xnn_run_operator(((const work *)state)->op, NULL) !=
        xnn_status_success) {
        fprintf(stderr, "bench_conv: XNNPACK refused to run\n");
        exit(1);
    }
}

static void work_poison(void *state)
{
    work *w = (work *)state;
    bench_nan(w->out, w->c->n_out);
}

static void work_output(void *state, float *nchw)
{
    const work *w = (const work *)state;
    size_t pixels = (size_t)w->c->oh * (size_t)w->c->ow;
    size_t k = (size_t)w->c->conv.k, images = (size_t)w->c->conv.n, i, p, j;
    for (i = 0; i < images; i++)
        for (j = 0; j < k; j++)
            for (p = 0; p < pixels; p++)
                nchw[(i * k + j) * pixels + p] =
                    w->out[(i * pixels + p) * k + j];
}

static void work_close(void *state)
{
    work *w = (work *)state;
    if (w->op)
        xnn_delete_operator(w->op);
    free(w->in);
    free(w->out);
    free(w);
}

/* (K, C/G, R, S) -> (K, R, S, C/G), which it packs itself */
static float *weights_turn(const bench_case *c)
{
    size_t k = (size_t)c->conv.k;
    size_t taps = (size_t)c->conv.r * (size_t)c->conv.s;
    size_t cg = (size_t)(c->conv.c / c->conv.groups), i, j, t;
    float *w = (float *)bench_alloc(c->n_w * sizeof *w);
    for (i = 0; i < k; i++)
        for (j = 0; j < cg; j++)
            for (t = 0; t < taps; t++)
                w[(i * taps + t) * cg + j] = c->w[(i * cg + j) * taps + t];
    return w;
}

static int xnnpack_open(const bench_case *c, int mode, int threads,
                        bench_entry *e)
{
    const metatune_encode_conv2d *v = &c->conv;
    size_t g = (size_t)v->groups, channels = (size_t)v->c, k = (size_t)v->k;
    size_t pixels = (size_t)v->h * (size_t)v->w, images = (size_t)v->n;
    size_t i, j, p;
    work *w;
    float *weights;
    int good;
    if (mode != BENCH_BEST || threads != 1 ||
        xnn_initialize(NULL) != xnn_status_success)
        return 0;
    w = (work *)bench_alloc(sizeof *w);
    w->c = c;
    w->in = (float *)bench_alloc(c->n_in * sizeof(float) + XNN_EXTRA_BYTES);
    w->out = (float *)bench_alloc(c->n_out * sizeof(float) +
                                  XNN_EXTRA_BYTES);
    for (i = 0; i < images; i++)
        for (j = 0; j < channels; j++)
            for (p = 0; p < pixels; p++)
                w->in[(i * pixels + p) * channels + j] =
                    c->in[(i * channels + j) * pixels + p];
    weights = weights_turn(c);
    good = xnn_create_convolution2d_nhwc_f32(
               (uint32_t)v->pad_top, (uint32_t)v->pad_right,
               (uint32_t)v->pad_bottom, (uint32_t)v->pad_left,
               (uint32_t)v->r, (uint32_t)v->s, (uint32_t)v->stride_h,
               (uint32_t)v->stride_w, (uint32_t)v->dil_h,
               (uint32_t)v->dil_w, (uint32_t)g, channels / g, k / g, channels,
               k, weights, NULL, -INFINITY, INFINITY, 0, &w->op) ==
               xnn_status_success &&
           xnn_setup_convolution2d_nhwc_f32(
               w->op, images, (size_t)v->h, (size_t)v->w, w->in, w->out,
               NULL) == xnn_status_success;
    free(weights);
    if (!good) {
        work_close(w);
        return 0;
    }
    memset(e, 0, sizeof *e);
    snprintf(e->label, sizeof e->label, "nhwc");
    e->state = w;
    e->run = work_run;
    e->poison = work_poison;
    e->output = work_output;
    e->close = work_close;
    return 1;
}

const bench_rival bench_xnnpack = {"XNNPACK", xnnpack_version, xnnpack_open};
