/* bench_onednn.c - oneDNN (v2 API) as a rival of bench_conv

   Everything it offers for a layer is looked at: algorithm direct, winograd,
   auto; layouts of input and output; every implementation that it lists for
   these ("ref" only when there is no other: loops, not kernels). Each is timed
   twice for a moment, alone and with the reorders from and to plain nchw; the
   best of either kind go into the field. Weights are packed beforehand, the
   scratchpad is ours, so that no call allocates. */
#define _GNU_SOURCE              /* RTLD_DEFAULT */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dnnl.h>

#include "bench_rival.h"

enum { RECIPES = 160, STEPS = 3 };

typedef struct layouts {
    const char *name;
    dnnl_format_tag_t src, dst;
    int32_t most_c;              /* only for that many input channels */
} layouts;

static const layouts layouts_of[] = {
    {"any", dnnl_format_tag_any, dnnl_format_tag_any, INT32_MAX},
    {"nChw16c", dnnl_nChw16c, dnnl_nChw16c, INT32_MAX},
    {"nChw8c", dnnl_nChw8c, dnnl_nChw8c, INT32_MAX},
    {"nhwc", dnnl_nhwc, dnnl_nhwc, INT32_MAX},
    {"nchw", dnnl_nchw, dnnl_nchw, INT32_MAX},
    /* images: plain in, blocked out */
    {"nchw-nChw16c", dnnl_nchw, dnnl_nChw16c, 4},
    {"nchw-nChw8c", dnnl_nchw, dnnl_nChw8c, 4},
    {"nhwc-nChw16c", dnnl_nhwc, dnnl_nChw16c, 4},
    {"nhwc-nChw8c", dnnl_nhwc, dnnl_nChw8c, 4},
};
enum { LAYOUTS = sizeof layouts_of / sizeof layouts_of[0] };

static const struct {
    const char *name;
    dnnl_alg_kind_t kind;
} algorithms[] = {
    {"direct", dnnl_convolution_direct},
    {"winograd", dnnl_convolution_winograd},
    {"auto", dnnl_convolution_auto},
};
enum { ALGORITHMS = sizeof algorithms / sizeof algorithms[0] };

/* How to get one of its primitives again. */
typedef struct recipe {
    int algorithm, layout, at;   /* the at-th implementation of these */
    char name[64];
    dnnl_memory_desc_t src, weights, dst;
    double t[2];                 /* by BENCH_BEST, BENCH_PLAIN */
} recipe;

typedef struct step {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arg[4];
    int n_args;
} step;

/* Tensors: plain in, in as wanted, weights, out as given, plain out, and the
   scratchpads of the steps. */
enum { T_PLAIN_IN, T_SRC, T_WEIGHTS, T_DST, T_PLAIN_OUT, T_SCRATCH,
       TENSORS = T_SCRATCH + STEPS };

typedef struct work {
    dnnl_stream_t stream;
    dnnl_memory_t memory[TENSORS];
    dnnl_memory_desc_t desc[TENSORS];
    float *data[TENSORS];
    step steps[STEPS];           /* reorder, convolution, reorder */
    int first, end;              /* of the steps, those that run */
    int threads, failed;
} work;

/* The one engine: primitives and memory of two do not mix. */
static dnnl_engine_t cpu(void)
{
    static dnnl_engine_t engine;
    if (!engine && dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) {
        fprintf(stderr, "bench_conv: oneDNN has no CPU engine\n");
        exit(1);
    }
    return engine;
}

static int omp_threads(int n)
{
    static void (*set)(int);
    static int known;
    if (!known) {
        void *f = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
        memcpy(&set, &f, sizeof set);
        known = 1;
    }
    if (set)
        set(n);
    return set != NULL;
}

static void onednn_version(char *buf, size_t cap)
{
    const dnnl_version_t *v = dnnl_version();
    const char *isa = "isa unknown";
    switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41: isa = "SSE4.1"; break;
    case dnnl_cpu_isa_avx: isa = "AVX"; break;
    case dnnl_cpu_isa_avx2: isa = "AVX2"; break;
    case dnnl_cpu_isa_avx512_core: isa = "AVX-512"; break;
    case dnnl_cpu_isa_avx512_core_vnni: isa = "AVX-512 VNNI"; break;
    case dnnl_cpu_isa_avx512_core_bf16: isa = "AVX-512 bf16"; break;
    case dnnl_cpu_isa_avx512_core_amx: isa = "AVX-512 AMX"; break;
    default: break;
    }
    snprintf(buf, cap, "oneDNN %d.%d.%d (%s, %s)", v->major, v->minor,
             v->patch, isa, v->cpu_runtime == DNNL_RUNTIME_OMP ? "OpenMP"
                            : v->cpu_runtime == DNNL_RUNTIME_SEQ
                                ? "sequential" : "other threads");
}

/* --------------------------------------------------------------- works */

static int tensor_open(work *w, int i, const dnnl_memory_desc_t *desc)
{
    size_t bytes = dnnl_memory_desc_get_size(desc);
    w->desc[i] = *desc;
    w->data[i] = (float *)bench_alloc(bytes);
    return dnnl_memory_create(&w->memory[i], desc, cpu(), w->data[i]) ==
           dnnl_success;
}

/* Primitive of a descriptor, with a scratchpad of its own as last argument. */
static int step_open(work *w, int i, const_dnnl_primitive_desc_t pd)
{
    step *s = &w->steps[i];
    const dnnl_memory_desc_t *d =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    if (d && dnnl_memory_desc_get_size(d) > 0) {
        if (!tensor_open(w, T_SCRATCH + i, d))
            return 0;
        s->arg[s->n_args].arg = DNNL_ARG_SCRATCHPAD;
        s->arg[s->n_args++].memory = w->memory[T_SCRATCH + i];
    }
    return dnnl_primitive_create(&s->primitive, pd) == dnnl_success;
}

static int run_step(work *w, const step *s)
{
    return dnnl_primitive_execute(s->primitive, w->stream, s->n_args,
                                  s->arg) == dnnl_success;
}

static dnnl_primitive_attr_t user_scratchpad(void)
{
    dnnl_primitive_attr_t attr = NULL;
    if (dnnl_primitive_attr_create(&attr) == dnnl_success)
        dnnl_primitive_attr_set_scratchpad_mode(attr,
                                                dnnl_scratchpad_mode_user);
    return attr;
}

static int reorder_open(work *w, int i, int from, int to)
{
    dnnl_primitive_attr_t attr = user_scratchpad();
    dnnl_primitive_desc_t pd = NULL;
    step *s = &w->steps[i];
    int good;
    s->arg[0].arg = DNNL_ARG_FROM;
    s->arg[0].memory = w->memory[from];
    s->arg[1].arg = DNNL_ARG_TO;
    s->arg[1].memory = w->memory[to];
    s->n_args = 2;
    good = dnnl_reorder_primitive_desc_create(
               &pd, &w->desc[from], cpu(), &w->desc[to], cpu(),
               attr) == dnnl_success &&
           step_open(w, i, pd);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return good;
}

/* Copy between layouts once. */
static int reorder_once(work *w, dnnl_memory_t from, dnnl_memory_t to,
                        const dnnl_memory_desc_t *from_desc,
                        const dnnl_memory_desc_t *to_desc)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t p = NULL;
    dnnl_exec_arg_t arg[2];
    int good;
    arg[0].arg = DNNL_ARG_FROM;
    arg[0].memory = from;
    arg[1].arg = DNNL_ARG_TO;
    arg[1].memory = to;
    good = dnnl_reorder_primitive_desc_create(&pd, from_desc, cpu(),
                                              to_desc, cpu(), NULL) ==
               dnnl_success &&
           dnnl_primitive_create(&p, pd) == dnnl_success &&
           dnnl_primitive_execute(p, w->stream, 2, arg) == dnnl_success &&
           dnnl_stream_wait(w->stream) == dnnl_success;
    if (p)
        dnnl_primitive_destroy(p);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return good;
}

static void weights_desc(const metatune_encode_conv2d *v,
                         dnnl_memory_desc_t *desc, int any)
{
    int64_t g = v->groups;
    dnnl_dims_t grouped = {g, v->k / g, v->c / g, v->r, v->s};
    dnnl_dims_t plain = {v->k, v->c, v->r, v->s};
    if (g > 1)
        dnnl_memory_desc_init_by_tag(desc, 5, grouped, dnnl_f32,
                                     any ? dnnl_format_tag_any : dnnl_goihw);
    else
        dnnl_memory_desc_init_by_tag(desc, 4, plain, dnnl_f32,
                                     any ? dnnl_format_tag_any : dnnl_oihw);
}

static void image_desc(const bench_case *c, dnnl_memory_desc_t *desc,
                       int output, dnnl_format_tag_t tag)
{
    dnnl_dims_t in = {c->conv.n, c->conv.c, c->conv.h, c->conv.w};
    dnnl_dims_t out = {c->conv.n, c->conv.k, c->oh, c->ow};
    dnnl_memory_desc_init_by_tag(desc, 4, output ? out : in, dnnl_f32, tag);
}

static void work_close(void *state)
{
    work *w = (work *)state;
    int i;
    for (i = 0; i < STEPS; i++)
        if (w->steps[i].primitive)
            dnnl_primitive_destroy(w->steps[i].primitive);
    for (i = 0; i < TENSORS; i++) {
        if (w->memory[i])
            dnnl_memory_destroy(w->memory[i]);
        free(w->data[i]);
    }
    if (w->stream)
        dnnl_stream_destroy(w->stream);
    free(w);
}

/* The implementation, its data, and the reorders where they do anything;
   NULL when the library refuses. */
static work *work_open(const bench_case *c, const_dnnl_primitive_desc_t pd,
                       int threads)
{
    work *w = (work *)bench_alloc(sizeof *w);
    dnnl_memory_desc_t plain_weights;
    dnnl_memory_t kcrs = NULL;
    step *s = &w->steps[1];
    static const int args[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    int good, i;
    w->threads = threads;
    weights_desc(&c->conv, &plain_weights, 0);
    image_desc(c, &w->desc[T_PLAIN_IN], 0, dnnl_nchw);
    image_desc(c, &w->desc[T_PLAIN_OUT], 1, dnnl_nchw);
    good = dnnl_stream_create(&w->stream, cpu(),
                              dnnl_stream_default_flags) == dnnl_success &&
           tensor_open(w, T_PLAIN_IN, &w->desc[T_PLAIN_IN]) &&
           tensor_open(w, T_PLAIN_OUT, &w->desc[T_PLAIN_OUT]) &&
           tensor_open(w, T_SRC, dnnl_primitive_desc_query_md(
                                     pd, dnnl_query_src_md, 0)) &&
           tensor_open(w, T_WEIGHTS, dnnl_primitive_desc_query_md(
                                         pd, dnnl_query_weights_md, 0)) &&
           tensor_open(w, T_DST, dnnl_primitive_desc_query_md(
                                     pd, dnnl_query_dst_md, 0));
    if (good)
        memcpy(w->data[T_PLAIN_IN], c->in, c->n_in * sizeof(float));
    good = good &&
           dnnl_memory_create(&kcrs, &plain_weights, cpu(), c->w) ==
               dnnl_success &&
           reorder_once(w, kcrs, w->memory[T_WEIGHTS], &plain_weights,
                        &w->desc[T_WEIGHTS]) &&
           reorder_once(w, w->memory[T_PLAIN_IN], w->memory[T_SRC],
                        &w->desc[T_PLAIN_IN], &w->desc[T_SRC]);
    if (kcrs)
        dnnl_memory_destroy(kcrs);
    if (good) {
        for (i = 0; i < 3; i++) {
            s->arg[i].arg = args[i];
            s->arg[i].memory = w->memory[T_SRC + i];
        }
        s->n_args = 3;
        good = step_open(w, 1, pd) &&
               (dnnl_memory_desc_equal(&w->desc[T_PLAIN_IN],
                                       &w->desc[T_SRC]) ||
                reorder_open(w, 0, T_PLAIN_IN, T_SRC)) &&
               (dnnl_memory_desc_equal(&w->desc[T_DST],
                                       &w->desc[T_PLAIN_OUT]) ||
                reorder_open(w, 2, T_DST, T_PLAIN_OUT));
    }
    if (good)
        return w;
    work_close(w);
    return NULL;
}

static void mode_set(work *w, int mode)
{
    w->first = mode == BENCH_PLAIN && w->steps[0].primitive ? 0 : 1;
    w->end = mode == BENCH_PLAIN && w->steps[2].primitive ? 3 : 2;
}

static void work_before(void *state)
{
    omp_threads(((const work *)state)->threads);
}

static void work_run(void *state)
{
    work *w = (work *)state;
    int i;
    for (i = w->first; i < w->end; i++)
        w->failed |= !run_step(w, &w->steps[i]);
    dnnl_stream_wait(w->stream);
}

static void work_poison(void *state)
{
    work *w = (work *)state;
    bench_nan(w->data[T_DST],
              dnnl_memory_desc_get_size(&w->desc[T_DST]) / sizeof(float));
    bench_nan(w->data[T_PLAIN_OUT],
              dnnl_memory_desc_get_size(&w->desc[T_PLAIN_OUT]) /
                  sizeof(float));
}

static void work_output(void *state, float *nchw)
{
    work *w = (work *)state;
    if (w->end == 2 &&           /* else the run has already done it */
        !reorder_once(w, w->memory[T_DST], w->memory[T_PLAIN_OUT],
                      &w->desc[T_DST], &w->desc[T_PLAIN_OUT]))
        return;                  /* nchw stays NaN */
    memcpy(nchw, w->data[T_PLAIN_OUT],
           dnnl_memory_desc_get_size(&w->desc[T_PLAIN_OUT]));
}

static void entry_fill(bench_entry *e, work *w)
{
    memset(e, 0, sizeof *e);
    e->state = w;
    e->before = work_before;
    e->run = work_run;
    e->poison = work_poison;
    e->output = work_output;
    e->close = work_close;
}

/* ------------------------------------------------------------- recipes */

typedef struct walk {
    const bench_case *c;
    dnnl_primitive_attr_t attr;
} walk;

/* Iterator over the implementations; NULL when there is none. It points at
   *d as long as it lives. */
static dnnl_primitive_desc_iterator_t
implementations(const walk *k, int algorithm, int layout,
                dnnl_convolution_desc_t *d)
{
    const metatune_encode_conv2d *v = &k->c->conv;
    dnnl_primitive_desc_iterator_t it = NULL;
    dnnl_memory_desc_t src, weights, dst;
    dnnl_dims_t strides = {v->stride_h, v->stride_w};
    dnnl_dims_t dilates = {v->dil_h - 1, v->dil_w - 1};
    dnnl_dims_t left = {v->pad_top, v->pad_left};
    dnnl_dims_t right = {v->pad_bottom, v->pad_right};
    image_desc(k->c, &src, 0, layouts_of[layout].src);
    image_desc(k->c, &dst, 1, layouts_of[layout].dst);
    weights_desc(v, &weights, 1);
    if (dnnl_dilated_convolution_forward_desc_init(
            d, dnnl_forward_inference, algorithms[algorithm].kind, &src,
            &weights, NULL, &dst, strides, dilates, left, right) !=
            dnnl_success ||
        dnnl_primitive_desc_iterator_create(&it, d, k->attr, cpu(),
                                            NULL) != dnnl_success)
        return NULL;
    return it;
}

/* What the walk has not met yet goes to *r; 0 for what it has. */
static int recipe_of(const_dnnl_primitive_desc_t pd, const recipe *known,
                     int n, recipe *r)
{
    const char *name = "";
    int i;
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    snprintf(r->name, sizeof r->name, "%s", name);
    r->src = *dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    r->weights = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    r->dst = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    for (i = 0; i < n; i++)
        if (strcmp(known[i].name, r->name) == 0 &&
            dnnl_memory_desc_equal(&known[i].src, &r->src) &&
            dnnl_memory_desc_equal(&known[i].weights, &r->weights) &&
            dnnl_memory_desc_equal(&known[i].dst, &r->dst))
            return 0;
    return 1;
}

/* Visit the at-th implementation of an algorithm and layout; NULL past the
   last. The caller destroys it. */
static dnnl_primitive_desc_t
implementation_get(const walk *k, int algorithm, int layout, int at)
{
    dnnl_convolution_desc_t d;
    dnnl_primitive_desc_iterator_t it = implementations(k, algorithm, layout,
                                                        &d);
    dnnl_primitive_desc_t pd = NULL;
    int i;
    if (!it)
        return NULL;
    for (i = 0; i < at; i++)
        if (dnnl_primitive_desc_iterator_next(it) != dnnl_success)
            break;
    if (i == at)
        pd = dnnl_primitive_desc_iterator_fetch(it);
    dnnl_primitive_desc_iterator_destroy(it);
    return pd;
}

/* Time each as it comes; the times go into the recipes. */
static int recipes_find(const walk *k, int threads, recipe *r, int ref)
{
    int a, l, at, n = 0;
    double best[2] = {0, 0};
    for (l = 0; l < LAYOUTS; l++)
        for (a = 0; a < ALGORITHMS; a++) {
            if (k->c->conv.c > layouts_of[l].most_c)
                continue;
            for (at = 0; n < RECIPES; at++) {
                dnnl_primitive_desc_t pd = implementation_get(k, a, l, at);
                bench_entry e;
                work *w = NULL;
                int mode;
                if (!pd)
                    break;
                if (recipe_of(pd, r, n, &r[n]) &&
                    (strncmp(r[n].name, "ref", 3) == 0) == ref)
                    w = work_open(k->c, pd, threads);
                dnnl_primitive_desc_destroy(pd);
                if (!w)
                    continue;
                entry_fill(&e, w);
                for (mode = 0; mode < 2; mode++) {
                    mode_set(w, mode);
                    r[n].t[mode] = bench_entry_quick(&e, best[mode]);
                    if (!(best[mode] > 0) || r[n].t[mode] < best[mode])
                        best[mode] = r[n].t[mode];
                }
                r[n].algorithm = a;
                r[n].layout = l;
                r[n].at = at;
                n += !w->failed;
                bench_entry_close(&e);
            }
        }
    return n;
}

static void recipe_label(const recipe *r, int mode, const work *w, char *buf,
                         size_t cap)
{
    snprintf(buf, cap, "%s %s %s%s", r->name, algorithms[r->algorithm].name,
             layouts_of[r->layout].name,
             mode == BENCH_PLAIN && (w->first == 0 || w->end == 3)
                 ? " + reorders" : "");
}

static int onednn_open(const bench_case *c, int mode, int threads,
                       bench_entry *entries)
{
    recipe *r = (recipe *)bench_alloc(RECIPES * sizeof *r);
    walk k;
    int i, n, opened = 0;
    memset(&k, 0, sizeof k);
    k.c = c;
    if (!omp_threads(threads) && threads > 1) {
        fprintf(stderr, "bench_conv: this oneDNN takes no OpenMP threads\n");
        free(r);
        return 0;
    }
    k.attr = user_scratchpad();
    n = recipes_find(&k, threads, r, 0);
    if (n == 0)
        n = recipes_find(&k, threads, r, 1);
    while (n > 0 && opened < BENCH_KEEP) {
        dnnl_primitive_desc_t pd;
        int best = 0;
        work *w = NULL;
        for (i = 1; i < n; i++)
            if (r[i].t[mode] < r[best].t[mode])
                best = i;
        pd = implementation_get(&k, r[best].algorithm, r[best].layout,
                                r[best].at);
        if (pd) {
            w = work_open(c, pd, threads);
            dnnl_primitive_desc_destroy(pd);
        }
        if (w) {
            bench_entry *e = &entries[opened++];
            entry_fill(e, w);
            mode_set(w, mode);
            recipe_label(&r[best], mode, w, e->label, sizeof e->label);
        }
        r[best] = r[--n];
    }
    dnnl_primitive_attr_destroy(k.attr);
    free(r);
    return opened;
}

const bench_rival bench_onednn = {"oneDNN", onednn_version, onednn_open};
