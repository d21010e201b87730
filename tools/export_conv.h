/* export_conv.h - tuned kernels as a header and a source of their own */
#ifndef METATUNE_EXPORT_CONV_H
#define METATUNE_EXPORT_CONV_H

#include "targets/host_kernel.h"

typedef struct export_layer {
    const char *name;            /* "resnet18/layer1" */
    metatune_encode_conv2d conv; /* with its layout */
    int64_t values[HOST_KNOBS];  /* the setting */
    double tuned_s, default_s;   /* 0 = unknown */
} export_layer;

/* Write DIR/tuned_conv.h and DIR/tuned_conv.c: for every layer a kernel on its
   layout, whole and in phases that threads share, its packers, and a plain
   NCHW call that takes the caller's workspace; and a table by name. target and
   flags go into the comments. 0, or -1 with errno set and the file's name in
   path (cap bytes). */
int export_conv_write(const char *dir, const export_layer *layers, size_t n,
                      const host_march *march, const char *target,
                      const char *flags, char *path, size_t cap);

#endif
