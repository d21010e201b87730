/* use_conv.c - runs every kernel of a tuned_conv.h against naive loops

   Compiled by test_cli.sh and test_export.c together with a tuned_conv.c that
   they had written. Each kernel runs whole, in parts (one part after the
   other, which is what threads do between two barriers), and on plain tensors;
   outputs are poisoned before, guard bytes around all buffers looked at after.
   Last line: "layers N wrong N". */
#include "tuned_conv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 };

typedef struct shape {
    int n, c, h, w, k, r, s, stride_h, stride_w, top, bottom, left, right;
    int dil_h, dil_w, groups, i8, oh, ow;
} shape;

static int field(const char *spec, const char *name, int otherwise)
{
    char key[32];
    const char *p;
    snprintf(key, sizeof key, ",%s=", name);
    p = strstr(spec, key);
    if (!p && strncmp(spec, key + 1, strlen(key) - 1) == 0)
        p = spec - 1;
    return p ? atoi(p + strlen(key)) : otherwise;
}

static shape shape_of(const char *q)
{
    shape v;
    int all;
    v.n = field(q, "n", 1);
    v.c = field(q, "c", 1);
    v.h = field(q, "h", 1);
    v.w = field(q, "w", 1);
    v.k = field(q, "k", 1);
    v.r = field(q, "r", 1);
    v.s = field(q, "s", 1);
    all = field(q, "stride", 1);
    v.stride_h = field(q, "stride_h", all);
    v.stride_w = field(q, "stride_w", all);
    all = field(q, "pad", 0);
    v.top = field(q, "pad_top", all);
    v.bottom = field(q, "pad_bottom", all);
    v.left = field(q, "pad_left", all);
    v.right = field(q, "pad_right", all);
    all = field(q, "dil", 1);
    v.dil_h = field(q, "dil_h", all);
    v.dil_w = field(q, "dil_w", all);
    v.groups = field(q, "groups", 1);
    v.i8 = strstr(q, "in=i8") != NULL;
    v.oh = (v.h + v.top + v.bottom - (v.r - 1) * v.dil_h - 1) / v.stride_h + 1;
    v.ow = (v.w + v.left + v.right - (v.s - 1) * v.dil_w - 1) / v.stride_w + 1;
    return v;
}

/* A block with guards before and after; what is between is poisoned: NaN for
   floats. Its own start comes back. */
static unsigned char *block(size_t bytes)
{
    unsigned char *p = (unsigned char *)malloc(bytes + 2 * GUARD + 64);
    if (!p)
        exit(3);
    p += (64 - ((size_t)p & 63)) & 63;
    memset(p, 0xab, GUARD);
    memset(p + GUARD, 0xff, bytes);
    memset(p + GUARD + bytes, 0xab, GUARD);
    return p + GUARD;
}

static int guarded(const unsigned char *p, size_t bytes)
{
    size_t i;
    for (i = 0; i < GUARD; i++)
        if (p[i - GUARD] != 0xab || p[bytes + i] != 0xab)
            return 0;
    return 1;
}

static double value(const void *p, int i8, long i)
{
    return i8 ? ((const signed char *)p)[i] : ((const float *)p)[i];
}

static void fill(void *p, int i8, long n, unsigned x)
{
    long i;
    for (i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        if (i8)
            ((signed char *)p)[i] = (signed char)((int)(x >> 24) - 128);
        else
            ((float *)p)[i] = (float)(x >> 8) / 8388608.0f - 1;
    }
}

static void naive(const shape *v, const void *in, const void *w, double *out)
{
    int cg = v->c / v->groups, kg = v->k / v->groups, n, k, y, x, c, r, s;
    for (n = 0; n < v->n; n++)
    for (k = 0; k < v->k; k++)
    for (y = 0; y < v->oh; y++)
    for (x = 0; x < v->ow; x++) {
        double sum = 0;
        for (c = 0; c < cg; c++)
        for (r = 0; r < v->r; r++)
        for (s = 0; s < v->s; s++) {
            int iy = y * v->stride_h + r * v->dil_h - v->top;
            int ix = x * v->stride_w + s * v->dil_w - v->left;
            if (iy < 0 || iy >= v->h || ix < 0 || ix >= v->w)
                continue;
            sum += value(in, v->i8, ((n * (long)v->c + k / kg * cg + c) *
                                     v->h + iy) * v->w + ix) *
                   value(w, v->i8, ((k * (long)cg + c) * v->r + r) * v->s +
                                   s);
        }
        *out++ = sum;
    }
}

/* Largest difference; a huge one for what is no number. */
static double worst(const double *want, const void *got, int i8, long n)
{
    double most = 0;
    long i;
    for (i = 0; i < n; i++) {
        double d = fabs(want[i] - (i8 ? ((const int *)got)[i]
                                      : ((const float *)got)[i]));
        if (!(d <= most))
            most = d <= 1e30 ? d : 1e30;
    }
    return most;
}

static int layer_check(const tuned_conv_layer *l)
{
    shape v = shape_of(l->spec);
    long n_in = (long)v.n * v.c * v.h * v.w;
    long n_w = (long)v.k * (v.c / v.groups) * v.r * v.s;
    long n_out = (long)v.n * v.k * v.oh * v.ow;
    size_t size = v.i8 ? 1 : 4, out_bytes = (size_t)n_out * 4;
    unsigned char *nchw = block((size_t)n_in * size);
    unsigned char *kcrs = block((size_t)n_w * size), *got = block(out_bytes);
    unsigned char *in = block(l->in_bytes), *w = block(l->weight_bytes);
    unsigned char *out = block(l->out_bytes), *work = block(l->work_bytes);
    unsigned char *mem = block(l->workspace);
    double *want = (double *)malloc((size_t)n_out * sizeof *want);
    /* Winograd rounds more: sums of c*r*s products below 1 */
    double tol = v.i8 ? 0 : 4e-5 * (8 + v.c / v.groups * v.r * v.s), e[3];
    int parts, phase, part, bad = 0;
    if (!want)
        exit(3);
    fill(nchw, v.i8, n_in, 1);
    fill(kcrs, v.i8, n_w, 2);
    naive(&v, nchw, kcrs, want);

    l->pack_in(nchw, in);
    l->pack_weight(kcrs, w);
    l->run(in, w, out, l->work_bytes ? work : NULL);
    l->unpack_out(out, got);
    e[0] = worst(want, got, v.i8, n_out);
    e[1] = 0;
    for (parts = 1; parts <= TUNED_CONV_THREADS; parts++) {
        double d;
        memset(out, 0xff, l->out_bytes);
        memset(got, 0xff, out_bytes);
        memset(work, 0xff, l->work_bytes);
        for (phase = 0; phase < l->phases; phase++)
            for (part = parts - 1; part >= 0; part--)
                l->part(in, w, out, work, phase, part, parts);
        l->unpack_out(out, got);
        d = worst(want, got, v.i8, n_out);
        e[1] = d > e[1] ? d : e[1];
    }
    memset(got, 0xff, out_bytes);
    bad += tuned_conv_run(l->name, nchw, kcrs, got, mem,
                          l->workspace - 1) != -1;
    bad += tuned_conv_run(l->name, nchw, kcrs, got, mem, l->workspace) != 0;
    bad += tuned_conv_workspace(l->name) != l->workspace;
    e[2] = worst(want, got, v.i8, n_out);
    bad += !(e[0] <= tol) + !(e[1] <= tol) + !(e[2] <= tol);
    bad += !guarded(nchw, (size_t)n_in * size) +
           !guarded(kcrs, (size_t)n_w * size) + !guarded(got, out_bytes) +
           !guarded(in, l->in_bytes) + !guarded(w, l->weight_bytes) +
           !guarded(out, l->out_bytes) + !guarded(work, l->work_bytes) +
           !guarded(mem, l->workspace);
    printf("%s %s: worst %g %g %g, allowed %g%s\n", l->name, l->spec, e[0],
           e[1], e[2], tol, bad ? " WRONG" : "");
    free(want); /* the blocks are left to the end of the program */
    return bad;
}

int main(void)
{
    int i, wrong = 0;
    for (i = 0; i < tuned_conv_count(); i++) {
        const tuned_conv_layer *l = tuned_conv_find(tuned_conv_name(i));
        if (!l || strcmp(l->spec, tuned_conv_spec(i)) != 0)
            wrong++;
        else
            wrong += layer_check(l) != 0;
    }
    if (tuned_conv_find("none") || tuned_conv_name(i) || tuned_conv_spec(-1) ||
        tuned_conv_run("none", NULL, NULL, NULL, NULL, 0) != -2)
        wrong++;
    printf("layers %d wrong %d\n", i, wrong);
    return wrong != 0;
}
