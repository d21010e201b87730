/* nets.h - the convolution layers of five well-known networks

   The tables are written by hand from the networks' definitions (batch 1,
   224 x 224 input). Layers with the same shape are one entry with a count, so
   a network's time is the sum of count * time. */
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

#endif
