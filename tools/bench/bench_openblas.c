/* bench_openblas.c - OpenBLAS as a rival of bench_conv: im2col and sgemm on
   plain nchw, the copy included; a 1x1 without stride and padding needs none.
   One matrix product a group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>

#include "bench_rival.h"

typedef struct work {
    const bench_case *c;
    float *in, *w, *out;
    float *columns;              /* (C/G*R*S, OH*OW); NULL: the input is it */
} work;

static void openblas_version(char *buf, size_t cap)
{
    char name[64];
    snprintf(name, sizeof name, "%.63s", openblas_get_config());
    name[strcspn(name, " ")] = 0;
    if (strcmp(name, "OpenBLAS") == 0) /* the number is the next word */
        snprintf(name, sizeof name, "%.40s",
                 openblas_get_config() + sizeof "OpenBLAS");
    name[strcspn(name, " ")] = 0;
    snprintf(buf, cap, "OpenBLAS %s (%s; im2col + sgemm on nchw)", name,
             openblas_get_corename());
}

/* First and past the last x of the row that fall into the image. */
static void inside(int32_t n, int32_t width, int32_t stride, int32_t offset,
                   int32_t *first, int32_t *end)
{
    int32_t x = 0;
    while (x < n && x * stride + offset < 0)
        x++;
    *first = x;
    x = n;
    while (x > *first && (x - 1) * stride + offset >= width)
        x--;
    *end = x;
}

static void im2col(const bench_case *c, const float *in, float *to)
{
    const metatune_encode_conv2d *v = &c->conv;
    int32_t i, r, s, y, x, first, end;
    for (i = 0; i < v->c / v->groups; i++)
        for (r = 0; r < v->r; r++)
            for (s = 0; s < v->s; s++) {
                int32_t left = s * v->dil_w - v->pad_left;
                inside(c->ow, v->w, v->stride_w, left, &first, &end);
                for (y = 0; y < c->oh; y++, to += c->ow) {
                    int32_t row = y * v->stride_h + r * v->dil_h - v->pad_top;
                    const float *from;
                    if (row < 0 || row >= v->h || first == end) {
                        memset(to, 0, (size_t)c->ow * sizeof *to);
                        continue;
                    }
                    from = in + ((int64_t)i * v->h + row) * v->w;
                    for (x = 0; x < first; x++)
                        to[x] = 0;
                    if (v->stride_w == 1)
                        memcpy(to + first, from + first + left,
                               (size_t)(end - first) * sizeof *to);
                    else
                        for (x = first; x < end; x++)
                            to[x] = from[x * v->stride_w + left];
                    for (x = end; x < c->ow; x++)
                        to[x] = 0;
                }
            }
}

static void work_run(void *state)
{
    const work *w = (const work *)state;
    const metatune_encode_conv2d *v = &w->c->conv;
    int32_t kg = v->k / v->groups, cg = v->c / v->groups, i;
    int32_t depth = cg * v->r * v->s, pixels = w->c->oh * w->c->ow;
    for (i = 0; i < v->n * v->groups; i++) {
        int32_t g = i % v->groups;
        const float *in = w->in + (int64_t)i * cg * v->h * v->w;
        if (w->columns)
            im2col(w->c, in, w->columns);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kg, pixels,
                    depth, 1, w->w + (int64_t)g * kg * depth, depth,
                    w->columns ? w->columns : in, pixels, 0,
                    w->out + (int64_t)i * kg * pixels, pixels);
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
    memcpy(nchw, w->out, w->c->n_out * sizeof *nchw);
}

static void work_close(void *state)
{
    work *w = (work *)state;
    free(w->in);
    free(w->w);
    free(w->out);
    free(w->columns);
    free(w);
}

static int openblas_open(const bench_case *c, int mode, int threads,
                         bench_entry *e)
{
    const metatune_encode_conv2d *v = &c->conv;
    work *w;
    int same = v->r == 1 && v->s == 1 && v->stride_h == 1 &&
               v->stride_w == 1 && c->oh == v->h && c->ow == v->w;
    if (mode != BENCH_BEST || threads != 1)
        return 0;
    openblas_set_num_threads(1);
    w = (work *)bench_alloc(sizeof *w);
    w->c = c;
    w->in = (float *)bench_alloc(c->n_in * sizeof(float));
    w->w = (float *)bench_alloc(c->n_w * sizeof(float));
    w->out = (float *)bench_alloc(c->n_out * sizeof(float));
    memcpy(w->in, c->in, c->n_in * sizeof(float));
    memcpy(w->w, c->w, c->n_w * sizeof(float));
    if (!same)
        w->columns = (float *)bench_alloc(
            (size_t)(v->c / v->groups) * (size_t)v->r * (size_t)v->s *
            (size_t)c->oh * (size_t)c->ow * sizeof(float));
    memset(e, 0, sizeof *e);
    snprintf(e->label, sizeof e->label, same ? "sgemm" : "im2col + sgemm");
    e->state = w;
    e->run = work_run;
    e->poison = work_poison;
    e->output = work_output;
    e->close = work_close;
    return 1;
}

const bench_rival bench_openblas = {"OpenBLAS", openblas_version,
                                    openblas_open};
