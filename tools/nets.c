/* nets.c - see nets.h */
#include "nets.h"

#include <stdio.h>
#include <string.h>

/* f32 NCHW; one padding for top and bottom, one for left and right: all that
   these networks use. */
#define NETS_ROW(layer, c, h, w, k, r, s, stride, pad_h, pad_w, groups,      \
                 count)                                                      \
    { NET, layer,                                                            \
      { 1, c, h, w, k, r, s, stride, stride, pad_h, pad_h, pad_w, pad_w, 1,  \
        1, groups, METATUNE_F32, METATUNE_F32, METATUNE_NCHW, 0,             \
        METATUNE_F32, 0 }, count }
/* square image and kernel */
#define CONV(layer, c, h, k, r, stride, pad, count)                          \
    NETS_ROW(layer, c, h, h, k, r, r, stride, pad, pad, 1, count)
/* depthwise 3x3 */
#define DEPTH(layer, c, h, stride, count)                                    \
    NETS_ROW(layer, c, h, h, c, 3, 3, stride, 1, 1, c, count)
/* fully connected */
#define DENSE(layer, c, k, count) CONV(layer, c, 1, k, 1, 1, 0, count)

static const nets_layer nets_table[] = {
#define NET "resnet18"
    CONV("conv1", 3, 224, 64, 7, 2, 3, 1),
    CONV("layer1", 64, 56, 64, 3, 1, 1, 4),
    CONV("layer2.0.conv1", 64, 56, 128, 3, 2, 1, 1),
    CONV("layer2.0.down", 64, 56, 128, 1, 2, 0, 1),
    CONV("layer2", 128, 28, 128, 3, 1, 1, 3),
    CONV("layer3.0.conv1", 128, 28, 256, 3, 2, 1, 1),
    CONV("layer3.0.down", 128, 28, 256, 1, 2, 0, 1),
    CONV("layer3", 256, 14, 256, 3, 1, 1, 3),
    CONV("layer4.0.conv1", 256, 14, 512, 3, 2, 1, 1),
    CONV("layer4.0.down", 256, 14, 512, 1, 2, 0, 1),
    CONV("layer4", 512, 7, 512, 3, 1, 1, 3),
#undef NET
#define NET "vgg16"
    CONV("conv1_1", 3, 224, 64, 3, 1, 1, 1),
    CONV("conv1_2", 64, 224, 64, 3, 1, 1, 1),
    CONV("conv2_1", 64, 112, 128, 3, 1, 1, 1),
    CONV("conv2_2", 128, 112, 128, 3, 1, 1, 1),
    CONV("conv3_1", 128, 56, 256, 3, 1, 1, 1),
    CONV("conv3_2", 256, 56, 256, 3, 1, 1, 2),
    CONV("conv4_1", 256, 28, 512, 3, 1, 1, 1),
    CONV("conv4_2", 512, 28, 512, 3, 1, 1, 2),
    CONV("conv5", 512, 14, 512, 3, 1, 1, 3),
#undef NET
#define NET "squeezenet1.1"
    CONV("conv1", 3, 224, 64, 3, 2, 0, 1),
    CONV("fire2.squeeze", 64, 55, 16, 1, 1, 0, 1),
    CONV("fire2.expand1", 16, 55, 64, 1, 1, 0, 2),
    CONV("fire2.expand3", 16, 55, 64, 3, 1, 1, 2),
    CONV("fire3.squeeze", 128, 55, 16, 1, 1, 0, 1),
    CONV("fire4.squeeze", 128, 27, 32, 1, 1, 0, 1),
    CONV("fire4.expand1", 32, 27, 128, 1, 1, 0, 2),
    CONV("fire4.expand3", 32, 27, 128, 3, 1, 1, 2),
    CONV("fire5.squeeze", 256, 27, 32, 1, 1, 0, 1),
    CONV("fire6.squeeze", 256, 13, 48, 1, 1, 0, 1),
    CONV("fire6.expand1", 48, 13, 192, 1, 1, 0, 2),
    CONV("fire6.expand3", 48, 13, 192, 3, 1, 1, 2),
    CONV("fire7.squeeze", 384, 13, 48, 1, 1, 0, 1),
    CONV("fire8.squeeze", 384, 13, 64, 1, 1, 0, 1),
    CONV("fire8.expand1", 64, 13, 256, 1, 1, 0, 2),
    CONV("fire8.expand3", 64, 13, 256, 3, 1, 1, 2),
    CONV("fire9.squeeze", 512, 13, 64, 1, 1, 0, 1),
    CONV("conv10", 512, 13, 1000, 1, 1, 0, 1),
#undef NET
#define NET "alexnet"
    CONV("conv1", 3, 224, 64, 11, 4, 2, 1),
    CONV("conv2", 64, 27, 192, 5, 1, 2, 1),
    CONV("conv3", 192, 13, 384, 3, 1, 1, 1),
    CONV("conv4", 384, 13, 256, 3, 1, 1, 1),
    CONV("conv5", 256, 13, 256, 3, 1, 1, 1),
#undef NET
#define NET "mobilenet_v2"
    CONV("conv1", 3, 224, 32, 3, 2, 1, 1),
    DEPTH("dw32", 32, 112, 1, 1),
    CONV("project32-16", 32, 112, 16, 1, 1, 0, 1),
    CONV("expand16-96", 16, 112, 96, 1, 1, 0, 1),
    DEPTH("dw96s2", 96, 112, 2, 1),
    CONV("project96-24", 96, 56, 24, 1, 1, 0, 1),
    CONV("expand24-144", 24, 56, 144, 1, 1, 0, 2),
    DEPTH("dw144", 144, 56, 1, 1),
    CONV("project144-24", 144, 56, 24, 1, 1, 0, 1),
    DEPTH("dw144s2", 144, 56, 2, 1),
    CONV("project144-32", 144, 28, 32, 1, 1, 0, 1),
    CONV("expand32-192", 32, 28, 192, 1, 1, 0, 3),
    DEPTH("dw192", 192, 28, 1, 2),
    CONV("project192-32", 192, 28, 32, 1, 1, 0, 2),
    DEPTH("dw192s2", 192, 28, 2, 1),
    CONV("project192-64", 192, 14, 64, 1, 1, 0, 1),
    CONV("expand64-384", 64, 14, 384, 1, 1, 0, 4),
    DEPTH("dw384", 384, 14, 1, 4),
    CONV("project384-64", 384, 14, 64, 1, 1, 0, 3),
    CONV("project384-96", 384, 14, 96, 1, 1, 0, 1),
    CONV("expand96-576", 96, 14, 576, 1, 1, 0, 3),
    DEPTH("dw576", 576, 14, 1, 2),
    CONV("project576-96", 576, 14, 96, 1, 1, 0, 2),
    DEPTH("dw576s2", 576, 14, 2, 1),
    CONV("project576-160", 576, 7, 160, 1, 1, 0, 1),
    CONV("expand160-960", 160, 7, 960, 1, 1, 0, 3),
    DEPTH("dw960", 960, 7, 1, 3),
    CONV("project960-160", 960, 7, 160, 1, 1, 0, 2),
    CONV("project960-320", 960, 7, 320, 1, 1, 0, 1),
    CONV("head", 320, 7, 1280, 1, 1, 0, 1),
#undef NET
#define NET "resnet50_v1"
    CONV("conv1", 3, 224, 64, 7, 2, 3, 1),
    CONV("s1b0a", 64, 56, 64, 1, 1, 0, 1),
    CONV("s1b0b", 64, 56, 64, 3, 1, 1, 3),
    CONV("s1b0c", 64, 56, 256, 1, 1, 0, 4),
    CONV("s1b1a", 256, 56, 64, 1, 1, 0, 2),
    CONV("s2b0a", 256, 56, 128, 1, 2, 0, 1),
    CONV("s2b0b", 128, 28, 128, 3, 1, 1, 4),
    CONV("s2b0c", 128, 28, 512, 1, 1, 0, 4),
    CONV("s2ds", 256, 56, 512, 1, 2, 0, 1),
    CONV("s2b1a", 512, 28, 128, 1, 1, 0, 3),
    CONV("s3b0a", 512, 28, 256, 1, 2, 0, 1),
    CONV("s3b0b", 256, 14, 256, 3, 1, 1, 6),
    CONV("s3b0c", 256, 14, 1024, 1, 1, 0, 6),
    CONV("s3ds", 512, 28, 1024, 1, 2, 0, 1),
    CONV("s3b1a", 1024, 14, 256, 1, 1, 0, 5),
    CONV("s4b0a", 1024, 14, 512, 1, 2, 0, 1),
    CONV("s4b0b", 512, 7, 512, 3, 1, 1, 3),
    CONV("s4b0c", 512, 7, 2048, 1, 1, 0, 3),
    CONV("s4ds", 1024, 14, 2048, 1, 2, 0, 1),
    CONV("s4b1a", 2048, 7, 512, 1, 1, 0, 2),
#undef NET
#define NET "resnet50_v1.5"
    CONV("conv1", 3, 224, 64, 7, 2, 3, 1),
    CONV("s1b0a", 64, 56, 64, 1, 1, 0, 1),
    CONV("s1b0b", 64, 56, 64, 3, 1, 1, 3),
    CONV("s1b0c", 64, 56, 256, 1, 1, 0, 4),
    CONV("s1b1a", 256, 56, 64, 1, 1, 0, 2),
    CONV("s2b0a", 256, 56, 128, 1, 1, 0, 1),
    CONV("s2b0b", 128, 56, 128, 3, 2, 1, 1),
    CONV("s2b0c", 128, 28, 512, 1, 1, 0, 4),
    CONV("s2ds", 256, 56, 512, 1, 2, 0, 1),
    CONV("s2b1a", 512, 28, 128, 1, 1, 0, 3),
    CONV("s2b1b", 128, 28, 128, 3, 1, 1, 3),
    CONV("s3b0a", 512, 28, 256, 1, 1, 0, 1),
    CONV("s3b0b", 256, 28, 256, 3, 2, 1, 1),
    CONV("s3b0c", 256, 14, 1024, 1, 1, 0, 6),
    CONV("s3ds", 512, 28, 1024, 1, 2, 0, 1),
    CONV("s3b1a", 1024, 14, 256, 1, 1, 0, 5),
    CONV("s3b1b", 256, 14, 256, 3, 1, 1, 5),
    CONV("s4b0a", 1024, 14, 512, 1, 1, 0, 1),
    CONV("s4b0b", 512, 14, 512, 3, 2, 1, 1),
    CONV("s4b0c", 512, 7, 2048, 1, 1, 0, 3),
    CONV("s4ds", 1024, 14, 2048, 1, 2, 0, 1),
    CONV("s4b1a", 2048, 7, 512, 1, 1, 0, 2),
    CONV("s4b1b", 512, 7, 512, 3, 1, 1, 2),
#undef NET
#define NET "mobilenet_v1"
    CONV("conv1", 3, 224, 32, 3, 2, 1, 1),
    DEPTH("dw1", 32, 112, 1, 1),
    CONV("pw1", 32, 112, 64, 1, 1, 0, 1),
    DEPTH("dw2", 64, 112, 2, 1),
    CONV("pw2", 64, 56, 128, 1, 1, 0, 1),
    DEPTH("dw3", 128, 56, 1, 1),
    CONV("pw3", 128, 56, 128, 1, 1, 0, 1),
    DEPTH("dw4", 128, 56, 2, 1),
    CONV("pw4", 128, 28, 256, 1, 1, 0, 1),
    DEPTH("dw5", 256, 28, 1, 1),
    CONV("pw5", 256, 28, 256, 1, 1, 0, 1),
    DEPTH("dw6", 256, 28, 2, 1),
    CONV("pw6", 256, 14, 512, 1, 1, 0, 1),
    DEPTH("dw7", 512, 14, 1, 5),
    CONV("pw7", 512, 14, 512, 1, 1, 0, 5),
    DEPTH("dw12", 512, 14, 2, 1),
    CONV("pw12", 512, 7, 1024, 1, 1, 0, 1),
    DEPTH("dw13", 1024, 7, 1, 1),
    CONV("pw13", 1024, 7, 1024, 1, 1, 0, 1),
#undef NET
#define NET "mlperftiny_ad_autoencoder"
    DENSE("fc0", 640, 128, 1),
    DENSE("fc1", 128, 128, 6),
    DENSE("fc2", 128, 8, 1),
    DENSE("fc3", 8, 128, 1),
    DENSE("fc4", 128, 640, 1),
#undef NET
#define NET "mlperftiny_ic_resnet8"
    CONV("conv1", 3, 32, 16, 3, 1, 1, 1),
    CONV("s1", 16, 32, 16, 3, 1, 1, 2),
    CONV("s32a", 16, 32, 32, 3, 2, 1, 1),
    CONV("s32b", 32, 16, 32, 3, 1, 1, 1),
    CONV("s32ds", 16, 32, 32, 1, 2, 0, 1),
    CONV("s64a", 32, 16, 64, 3, 2, 1, 1),
    CONV("s64b", 64, 8, 64, 3, 1, 1, 1),
    CONV("s64ds", 32, 16, 64, 1, 2, 0, 1),
#undef NET
#define NET "mlperftiny_kws_dscnn"
    NETS_ROW("conv1", 1, 49, 10, 64, 10, 4, 2, 4, 1, 1, 1),
    NETS_ROW("dw1", 64, 25, 5, 64, 3, 3, 1, 1, 1, 64, 4),
    NETS_ROW("pw1", 64, 25, 5, 64, 1, 1, 1, 0, 0, 1, 4),
#undef NET
#define NET "mlperftiny_vww_mobilenetv1_0.25"
    CONV("conv1", 3, 96, 8, 3, 2, 1, 1),
    DEPTH("dw1", 8, 48, 1, 1),
    CONV("pw1", 8, 48, 16, 1, 1, 0, 1),
    DEPTH("dw2", 16, 48, 2, 1),
    CONV("pw2", 16, 24, 32, 1, 1, 0, 1),
    DEPTH("dw3", 32, 24, 1, 1),
    CONV("pw3", 32, 24, 32, 1, 1, 0, 1),
    DEPTH("dw4", 32, 24, 2, 1),
    CONV("pw4", 32, 12, 64, 1, 1, 0, 1),
    DEPTH("dw5", 64, 12, 1, 1),
    CONV("pw5", 64, 12, 64, 1, 1, 0, 1),
    DEPTH("dw6", 64, 12, 2, 1),
    CONV("pw6", 64, 6, 128, 1, 1, 0, 1),
    DEPTH("dw7", 128, 6, 1, 5),
    CONV("pw7", 128, 6, 128, 1, 1, 0, 5),
    DEPTH("dw12", 128, 6, 2, 1),
    CONV("pw12", 128, 3, 256, 1, 1, 0, 1),
    DEPTH("dw13", 256, 3, 1, 1),
    CONV("pw13", 256, 3, 256, 1, 1, 0, 1)
#undef NET
};

enum { NETS_COUNT = (int)(sizeof nets_table / sizeof nets_table[0]) };

int32_t nets_count(void)
{
    return NETS_COUNT;
}

const nets_layer *nets_get(int32_t i)
{
    return i >= 0 && i < NETS_COUNT ? &nets_table[i] : NULL;
}

const char *nets_net_name(int32_t i)
{
    const char *name = NULL;
    int32_t j;

    if (i < 0) return NULL;
    for (j = 0; j < NETS_COUNT; j++) {
        if (name && strcmp(name, nets_table[j].net) == 0) continue;
        name = nets_table[j].net;
        if (i-- == 0) return name;
    }
    return NULL;
}

int32_t nets_net_count(void)
{
    int32_t n = 0;

    while (nets_net_name(n)) n++;
    return n;
}

/* Edit distance of two names; what lies past 63 letters does not count. */
static int nets_distance(const char *a, const char *b)
{
    int row[64], i, j;
    size_t na = strlen(a), nb = strlen(b);

    if (na > 63) na = 63;
    if (nb > 63) nb = 63;
    for (j = 0; j <= (int)nb; j++) row[j] = j;
    for (i = 1; i <= (int)na; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (j = 1; j <= (int)nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

int32_t nets_net_find(const char *net, int32_t *first, char *why, size_t cap)
{
    const char *name, *near = "";
    int32_t i, n = 0;
    int best = 1000;

    if (why && cap) why[0] = 0;
    if (!net) net = "";
    for (i = 0; i < NETS_COUNT; i++)
        if (strcmp(nets_table[i].net, net) == 0 && n++ == 0 && first)
            *first = i;
    if (n || !why || !cap) return n;
    for (i = 0; (name = nets_net_name(i)) != NULL; i++) {
        int d = nets_distance(net, name);
        if (d < best) {
            best = d;
            near = name;
        }
    }
    snprintf(why, cap, "no network \"%.40s\", did you mean \"%s\"?", net,
             near);
    return 0;
}

const nets_layer *nets_find(const char *name, char *why, size_t cap)
{
    int32_t i, near = 0;
    int best = 1000;
    char full[64];

    if (why && cap) why[0] = 0;
    if (!name) name = "";
    for (i = 0; i < NETS_COUNT; i++) {
        int d;
        snprintf(full, sizeof full, "%s/%s", nets_table[i].net,
                 nets_table[i].layer);
        if (strcmp(full, name) == 0) return &nets_table[i];
        d = nets_distance(name, full);
        if (d < best) {
            best = d;
            near = i;
        }
    }
    if (why && cap)
        snprintf(why, cap, "no layer \"%.60s\", did you mean \"%s/%s\"?",
                 name, nets_table[near].net, nets_table[near].layer);
    return NULL;
}

int nets_same_shape(const metatune_encode_conv2d *a,
                    const metatune_encode_conv2d *b)
{
    metatune_encode_conv2d v = *b;

    v.dtype_in = a->dtype_in;
    v.dtype_out = a->dtype_out;
    v.dtype_acc = a->dtype_acc;
    v.layout = a->layout;
    v.block = a->block;
    /* int32_t only: there is no padding to compare */
    return memcmp(a, &v, sizeof v) == 0;
}
