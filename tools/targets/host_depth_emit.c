/* host_depth_emit.c - the C writer of depthwise kernels

   The forms, tiles and classes that it writes are host_depth.c's. */
#include "host_depth.h"

#include <string.h>

void host_depth_outer(const host_kernel *kernel, const int64_t *values,
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

void host_depth_emit(const host_kernel *kernel, const int64_t *values,
                     const host_plan *plan, const char *name, host_text *text)
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

void host_depth_emit_pack(const host_kernel *kernel, const int64_t *values,
                          const char *name, host_text *text)
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
