/* replay_autotvm.h - AutoTVM 0.9's conv2d_NCHWc.x86 template as loop nests

   Tables of its spaces carry knob values only; the template says what they
   mean. NCHWc: (batch, oc chunk, oh) outermost, ow chunk, ic chunk, kh, kw
   (unrolled if unroll_kw), ic inner, ow inner, oc inner (vector). 1x1: oc
   chunk, oh outer, ow outer, ic chunk, ic inner, oh inner, ow inner, oc inner.
   tile_ic, tile_oc, tile_ow, tile_oh are the inner factors; data, weights and
   output are blocked by tile_ic and tile_oc. */
#ifndef METATUNE_REPLAY_AUTOTVM_H
#define METATUNE_REPLAY_AUTOTVM_H

#include "../metatune.h"

enum { AUTOTVM_NCHWC = 0, AUTOTVM_1X1 = 1, AUTOTVM_TEMPLATES = 2 };

typedef struct replay_autotvm {
    metatune_encode_conv2d conv;
    int32_t oh, ow;
    int32_t template_id;         /* AUTOTVM_NCHWC.. */
    /* where the values are: */
    uint32_t tile_ic, tile_oc, tile_ow, tile_oh, unroll_kw;
} replay_autotvm;

/* name: "autotvm_conv2d__r18_56x64_128_k3s2_avx512" (network, spatial size x
   channels, out channels if others, kernel, stride, vectors). 1, and the
   device; or 0 when it is no such table or a knob is missing. */
int replay_autotvm_open(replay_autotvm *t, const char *name,
                        const metatune_knob *knob, uint32_t n_knobs,
                        metatune_encode_device *device);
/* values in the order of the knobs that open saw. */
metatune_status replay_autotvm_describe(const replay_autotvm *t,
                                        const int64_t *values,
                                        metatune_encode_nest *nest);
/* Input of metatune_encode_skeleton_build: every slot of a template. */
metatune_status replay_autotvm_skeleton(int32_t template_id,
                                        metatune_encode_nest *nest);

#endif
