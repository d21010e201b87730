/* kernels_layers.h - random convolutions for test_kernels.c and test_host.c */
#ifndef KERNELS_LAYERS_H
#define KERNELS_LAYERS_H

#include "../tools/targets/host_kernel.h"

static int layers_pick(metatune_encode_rng *rng, int n)
{
    return (int)metatune_encode_rng_below(rng, (uint64_t)n);
}

/* One of a kind: 0, 1 anything; 2 1x1; 3 3x3 of stride 1; 4 depthwise;
   5 groups; 6 depth multiplier; 7 an image of few channels. Odd, prime and
   tiny extents, strides beyond the kernel, padding up to it and different on
   each side, dilation, every layout, f32 and i8. */
static metatune_encode_conv2d layers_kind(metatune_encode_rng *rng,
                                          int32_t lanes, int kind)
{
    static const int channels[] = { 1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 20,
                                    24, 31, 32, 33, 48, 64 };
    static const int groups[] = { 2, 3, 4, 5, 8 };
#define PICK(n) layers_pick(rng, n)
    metatune_encode_conv2d c = metatune_encode_conv2d_make(
        1, channels[PICK(18)], 1 + PICK(17), 1 + PICK(33), channels[PICK(18)],
        1, 1, 1, 0);

    if (PICK(4) == 0) c.n = 2 + PICK(2);
    if (kind == 3) {
        c.r = c.s = 3;
    } else if (kind != 2 && PICK(4)) {
        c.r = 1 + PICK(5);
        c.s = PICK(2) ? c.r : 1 + PICK(7);
    }
    if (kind != 3 && PICK(2)) {
        c.stride_h = 1 + PICK(3);
        c.stride_w = PICK(2) ? c.stride_h : 1 + PICK(4);
    }
    if (kind != 3 && PICK(3) == 0) {
        c.dil_h = 1 + PICK(2);
        c.dil_w = 1 + PICK(3);
    }
    if (PICK(3) == 0) {
        c.pad_top = PICK(c.r + 1);
        c.pad_bottom = PICK(c.r + 1);
        c.pad_left = PICK(c.s + 1);
        c.pad_right = PICK(c.s + 1);
    } else if (PICK(2)) {        /* what networks have */
        c.pad_top = c.pad_bottom = c.r / 2;
        c.pad_left = c.pad_right = c.s / 2;
    }
    if (kind == 4) {
        c.k = c.groups = c.c;
    } else if (kind == 5) {
        c.groups = groups[PICK(5)];
        c.c = c.groups * (1 + PICK(PICK(2) ? 20 : 5));
        c.k = c.groups * (1 + PICK(PICK(2) ? 20 : 5));
    } else if (kind == 6) {
        c.groups = c.c;
        c.k = c.c * (1 + PICK(4));
    } else if (kind == 7) {
        c.c = 1 + PICK(4);
    }
    c.layout = PICK(3);
    c.block = c.layout == METATUNE_NCHWC ? lanes : 0;
    if (PICK(4) == 0) {
        c.dtype_in = METATUNE_I8;
        c.dtype_out = c.dtype_acc = METATUNE_I32;
    }
#undef PICK
    return c;
}

/* One of any kind that is legal and not much work. */
static metatune_encode_conv2d layers_random(metatune_encode_rng *rng,
                                            int32_t lanes)
{
    for (;;) {
        metatune_encode_conv2d c = layers_kind(rng, lanes,
                                               layers_pick(rng, 8));
        if (metatune_encode_conv2d_check(&c, NULL) == METATUNE_OK &&
            metatune_encode_conv2d_out_h(&c) > 0 &&
            metatune_encode_conv2d_out_w(&c) > 0 &&
            metatune_encode_conv2d_flop(&c) < 1e6 &&
            host_kernel_supports(&c, NULL, 0) == METATUNE_OK)
            return c;
    }
}

/* A random valid setting of an algorithm: random digits, repaired. 0 when
   the repair failed. */
static int layers_setting(const host_kernel *kernel, metatune_encode_rng *rng,
                          int64_t algorithm, int64_t *values)
{
    int i;

    for (i = 0; i < HOST_KNOBS; i++)
        values[i] = kernel->knob[i].values[layers_pick(
            rng, (int)kernel->knob[i].n_values)];
    values[HOST_KNOB_ALGORITHM] = algorithm;
    return host_kernel_repair(kernel, values);
}

#endif
