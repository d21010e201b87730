/* host_layer.c - data and reference of one convolution; see host_run.h */
#define _XOPEN_SOURCE 700
#include "host_proc.h"

#include <stdlib.h>
#include <string.h>

/* The seven loops, for values of type T and sums of type O. */
#define HOST_NAIVE(name, T, O)                                               \
    static void name(const metatune_encode_conv2d *d, const T *in,           \
                     const T *w, O *out)                                     \
    {                                                                        \
        int32_t oh = metatune_encode_conv2d_out_h(d);                        \
        int32_t ow = metatune_encode_conv2d_out_w(d);                        \
        int32_t cg = d->c / d->groups, kg = d->k / d->groups;                \
        int32_t n, k, y, x, c, r, s;                                         \
                                                                             \
        for (n = 0; n < d->n; n++)                                           \
            for (k = 0; k < d->k; k++)                                       \
                for (y = 0; y < oh; y++)                                     \
                    for (x = 0; x < ow; x++) {                               \
                        O sum = 0;                                           \
                        for (c = 0; c < cg; c++)                             \
                            for (r = 0; r < d->r; r++) {                     \
                                int32_t iy = y * d->stride_h - d->pad_top +  \
                                             r * d->dil_h;                   \
                                const T *row, *tap;                          \
                                if (iy < 0 || iy >= d->h) continue;          \
                                row = in + (((size_t)n * (size_t)d->c +      \
                                             (size_t)(k / kg * cg + c)) *    \
                                                (size_t)d->h +               \
                                            (size_t)iy) * (size_t)d->w;      \
                                tap = w + (((size_t)k * (size_t)cg +         \
                                            (size_t)c) * (size_t)d->r +      \
                                           (size_t)r) * (size_t)d->s;        \
                                for (s = 0; s < d->s; s++) {                 \
                                    int32_t ix = x * d->stride_w -           \
                                                 d->pad_left + s * d->dil_w; \
                                    if (ix < 0 || ix >= d->w) continue;      \
                                    sum += (O)row[ix] * (O)tap[s];           \
                                }                                            \
                            }                                                \
                        *out++ = sum;                                        \
                    }                                                        \
    }
HOST_NAIVE(host_naive_f32, float, float)
HOST_NAIVE(host_naive_i8, signed char, int32_t)
#undef HOST_NAIVE

void host_naive_conv(const metatune_encode_conv2d *conv, const void *in,
                     const void *w, void *out)
{
    if (conv->dtype_in == METATUNE_I8)
        host_naive_i8(conv, (const signed char *)in, (const signed char *)w,
                      (int32_t *)out);
    else
        host_naive_f32(conv, (const float *)in, (const float *)w,
                       (float *)out);
}

void host_fill_values(const metatune_encode_conv2d *conv,
                     metatune_encode_rng *rng, void *to, size_t n)
{
    double taps = (double)(conv->c / conv->groups) * conv->r * conv->s;
    int32_t half = 128;
    size_t i;

    if (conv->dtype_in != METATUNE_I8) {
        float *f = (float *)to;
        for (i = 0; i < n; i++)
            f[i] = (float)(2 * metatune_encode_rng_unit(rng) - 1);
        return;
    }
    /* no sum may leave 32 bits */
    while (taps * half * half > 2147483647.0) half /= 2;
    for (i = 0; i < n; i++)
        ((signed char *)to)[i] = (signed char)(
            (int32_t)metatune_encode_rng_below(rng, (uint64_t)half * 2) -
            half);
}

double host_tolerance(const metatune_encode_conv2d *conv, int64_t algorithm)
{
    /* two sums of this many products of size <= 1, in different orders */
    double sum = 2e-7 * ((double)(conv->c / conv->groups) * conv->r *
                         conv->s + 16);

    if (conv->dtype_in == METATUNE_I8) return 0;
    return algorithm == HOST_WINO4   ? HOST_TOL_WINO4 * sum
           : algorithm == HOST_WINO2 ? HOST_TOL_WINO2 * sum
                                     : sum;
}

void host_layer_close(host_layer *layer)
{
    free(layer->in);
    free(layer->kcrs);
    free(layer->ref);
    layer->in = layer->kcrs = layer->ref = NULL;
}

metatune_status host_layer_open(host_layer *layer, const host_run *run,
                                const metatune_encode_conv2d *conv,
                                uint64_t seed, host_error *error)
{
    const host_kernel *kernel = &layer->kernel;
    char why[HOST_ERROR_BYTES];
    metatune_encode_rng rng;
    metatune_status status;
    size_t n_in, n_w, n_out;
    void *plain;
    int round;

    memset(layer, 0, sizeof *layer);
    status = host_kernel_init(&layer->kernel, conv, &run->platform.march,
                              why, sizeof why);
    if (status != METATUNE_OK) return host_fail(error, status, why);
    n_in = (size_t)conv->n * (size_t)conv->c * (size_t)conv->h *
           (size_t)conv->w;
    n_w = (size_t)conv->k * (size_t)kernel->cg * (size_t)conv->r *
          (size_t)conv->s;
    n_out = (size_t)conv->n * (size_t)conv->k * (size_t)kernel->oh *
            (size_t)kernel->ow;
    plain = malloc(n_in * (size_t)kernel->in_bytes);
    layer->in = malloc(host_kernel_in_size(kernel));
    layer->kcrs = malloc(n_w * (size_t)kernel->in_bytes);
    layer->ref = malloc(n_out * (size_t)kernel->out_bytes);
    if (!plain || !layer->in || !layer->kcrs || !layer->ref) {
        free(plain);
        host_layer_close(layer);
        return host_fail(error, METATUNE_NO_MEMORY,
                         "out of memory for the layer's tensors");
    }
    metatune_encode_rng_init(&rng, seed, 7);
    host_fill_values(conv, &rng, plain, n_in);
    host_fill_values(conv, &rng, layer->kcrs, n_w);
    for (round = 0; round < 3; round++) {
        double t = host_now();
        host_naive_conv(conv, plain, layer->kcrs, layer->ref);
        t = host_now() - t;
        if (round == 0 || t < layer->naive_s) layer->naive_s = t;
        if (t > 0.2 || host_cancelled(run)) break;
    }
    host_kernel_pack_in(kernel, plain, layer->in);
    free(plain);
    return METATUNE_OK;
}
