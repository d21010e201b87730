/* nets.h - the convolution layers of twelve well-known networks

   ResNet-18 and 50 (v1, v1.5), VGG-16, SqueezeNet 1.1, AlexNet, MobileNet v1
   and v2 at 224 x 224, and the four of MLPerf Tiny; batch 1, plain f32 NCHW:
   a command chooses the layout its kernels work on. The tables are written by
   hand from the networks' definitions. Layers with the same shape are one
   entry with a count, so a network's time is the sum of count * time. */
#ifndef METATUNE_NETS_H
#define METATUNE_NETS_H

#include "../metatune_encode.h"

typedef struct nets_layer {
    const char *net;             /* "resnet18" */
    const char *layer;           /* "layer1", unique within its network */
    metatune_encode_conv2d conv;
    int32_t count;               /* how often the network runs this shape */
} nets_layer;

/* All layers, networks one after the other. */
int32_t nets_count(void);
/* NULL when i is out of range. */
const nets_layer *nets_get(int32_t i);

/* The networks' names; NULL when i is out of range. */
int32_t nets_net_count(void);
const char *nets_net_name(int32_t i);
/* First layer of a network and how many there are: 0 when there is no such
   network, and then `why` (cap bytes, may be NULL) gets one line that names
   the nearest one. */
int32_t nets_net_find(const char *net, int32_t *first, char *why, size_t cap);

/* "net/layer" -> its layer, or NULL and one line in `why` (may be NULL) that
   names the nearest layer. */
const nets_layer *nets_find(const char *name, char *why, size_t cap);

/* Is it the same layer, whatever its layout and data types? */
int nets_same_shape(const metatune_encode_conv2d *a,
                    const metatune_encode_conv2d *b);

#endif
