/* replay_gpu.h - the public GPU tables' kernels as loop nests

   convolution_milo and convolution: a 4096 x 4096 image, a 15 x 15 filter; a
   work-group of block_size_x x block_size_y threads, each thread tile_size_x x
   tile_size_y outputs that lie a block apart; the image tile in local memory if
   use_shmem (or always, where the table has no such column).
   gemm: CLBlast's Xgemm, 4096^3: a work-group makes an MWG x NWG tile with
   MDIMC x NDIMC threads, vectors of VWM and VWN; A and B in local memory if SA,
   SB. What has no place in a nest (read_only, padding, the shape of copies) is
   a hint. */
#ifndef METATUNE_REPLAY_GPU_H
#define METATUNE_REPLAY_GPU_H

#include "../metatune.h"

enum { GPU_CONVOLUTION = 0, GPU_GEMM = 1, GPU_KERNELS = 2 };
enum { GPU_COLUMNS = 10 };

typedef struct replay_gpu {
    int32_t kernel;
    /* column of each knob, in the order of replay_gpu.c; -1: not there */
    int32_t column[GPU_COLUMNS];
} replay_gpu;

/* name: "convolution_milo__A4000"; the device by its name, unknown ones with
   nothing known. 1, or 0 when it is no such table or a knob is missing. */
int replay_gpu_open(replay_gpu *g, const char *name,
                    const metatune_knob *knob, uint32_t n_knobs,
                    metatune_encode_device *device);
metatune_status replay_gpu_describe(const replay_gpu *g,
                                    const int64_t *values,
                                    metatune_encode_nest *nest);
metatune_status replay_gpu_skeleton(int32_t kernel,
                                    metatune_encode_nest *nest);

#endif
