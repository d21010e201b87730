/* replay_gpu.c - see replay_gpu.h */
#include "replay_gpu.h"

#include <math.h>
#include <string.h>

static const char *const convolution_knobs[GPU_COLUMNS] = {
    "block_size_x", "block_size_y", "tile_size_x", "tile_size_y",
    "read_only", "use_padding", "use_shmem", NULL, NULL, NULL
};
enum { C_BX, C_BY, C_TX, C_TY, C_READ_ONLY, C_PADDING, C_SHMEM };

static const char *const gemm_knobs[GPU_COLUMNS] = {
    "MWG", "NWG", "MDIMC", "NDIMC", "MDIMA", "NDIMB", "VWM", "VWN", "SA", "SB"
};
enum { G_MWG, G_NWG, G_MDIMC, G_NDIMC, G_MDIMA, G_NDIMB, G_VWM, G_VWN, G_SA,
       G_SB };

enum { IMAGE = 4096, FILTER = 15, MATRIX = 4096, GEMM_KWG = 32 };

static int32_t parts(int32_t n, int32_t size)
{
    return (n + size - 1) / size;
}

static int32_t loop(metatune_encode_nest *nest, int32_t parent, int32_t axis,
                    int32_t step, int32_t trip, int32_t kind, int32_t slot)
{
    return trip == 1 ? parent
                     : metatune_encode_loop_add(nest, parent, axis, step,
                                                trip, kind, slot);
}

/* -------------------------------------------------------- convolution */

enum { CY, CX, CR, CS };         /* axes */
enum { CT_IMAGE, CT_FILTER, CT_OUT };
enum {                           /* slots */
    CS_YB = 1, CS_XB, CS_COPY, CS_R, CS_S, CS_YT, CS_XT, CS_YI, CS_XI,
    CS_LOAD, CS_FMA, CS_STORE
};

static void convolution_axes(metatune_encode_nest *nest, int32_t image,
                             int32_t filter)
{
    int32_t t;
    const int32_t rs[] = { CR, CS }, yx[] = { CY, CX };
    metatune_encode_nest_clear(nest);
    metatune_encode_axis_add(nest, image, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, image, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, filter, METATUNE_AXIS_REDUCTION);
    metatune_encode_axis_add(nest, filter, METATUNE_AXIS_REDUCTION);
    t = metatune_encode_tensor_add(nest, 4, METATUNE_SCOPE_GLOBAL,
                                   METATUNE_ROLE_INPUT);
    metatune_encode_dim_add(nest, t, image + filter - 1, 0);
    metatune_encode_term_add(nest, t, CY, 1);
    metatune_encode_term_add(nest, t, CR, 1);
    metatune_encode_dim_add(nest, t, image + filter - 1, 0);
    metatune_encode_term_add(nest, t, CX, 1);
    metatune_encode_term_add(nest, t, CS, 1);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_WEIGHT, rs, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_OUTPUT, yx, 2);
}

static metatune_status convolution_fill(metatune_encode_nest *nest,
                                        int32_t image, int32_t filter,
                                        const int32_t *v)
{
    const int32_t load[] = { CT_IMAGE, CT_FILTER };
    const int32_t all[] = { CT_IMAGE, CT_FILTER, CT_OUT };
    const int32_t out = CT_OUT;
    int32_t p, e, spanx = v[C_BX] * v[C_TX], spany = v[C_BY] * v[C_TY];
    convolution_axes(nest, image, filter);
    p = loop(nest, -1, CY, spany, parts(image, spany), METATUNE_LOOP_BLOCK,
             CS_YB);
    p = loop(nest, p, CX, spanx, parts(image, spanx), METATUNE_LOOP_BLOCK,
             CS_XB);
    if (v[C_SHMEM])
        metatune_encode_copy_add(nest, p, CT_IMAGE, METATUNE_SCOPE_LOCAL,
                                 CS_COPY);
    p = loop(nest, p, CY, 1, v[C_BY], METATUNE_LOOP_THREAD, CS_YI);
    p = loop(nest, p, CX, 1, v[C_BX], METATUNE_LOOP_THREAD, CS_XI);
    e = p;
    p = loop(nest, p, CR, 1, filter, METATUNE_LOOP_SERIAL, CS_R);
    p = loop(nest, p, CS, 1, filter, METATUNE_LOOP_UNROLL, CS_S);
    p = loop(nest, p, CY, v[C_BY], v[C_TY], METATUNE_LOOP_UNROLL, CS_YT);
    p = loop(nest, p, CX, v[C_BX], v[C_TX], METATUNE_LOOP_UNROLL, CS_XT);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_LOAD, CS_LOAD, 1, load,
                             2);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_FMA, CS_FMA, 1, all, 3);
    metatune_encode_stmt_add(nest, e, METATUNE_STMT_STORE, CS_STORE,
                             v[C_TX] * v[C_TY], &out, 1);
    nest->hint[0] = (metatune_real)v[C_READ_ONLY];
    nest->hint[1] = (metatune_real)v[C_PADDING];
    nest->hint[2] = (metatune_real)v[C_SHMEM];
    /* a work-group of whole warps */
    nest->hint[3] = (metatune_real)(
        (log2((double)v[C_BX] * v[C_BY]) - 7) / 2);
    nest->skeleton = GPU_CONVOLUTION;
    return nest->status;
}

/* --------------------------------------------------------------- gemm */

enum { GM, GN, GK };
enum { GT_A, GT_B, GT_C };
enum {
    GS_MB = 1, GS_NB, GS_COPY_A, GS_COPY_B, GS_K1, GS_K0, GS_MT, GS_NT,
    GS_MI, GS_NI, GS_MV, GS_LOAD_A, GS_LOAD_B, GS_FMA, GS_STORE
};

static metatune_status gemm_fill(metatune_encode_nest *nest, int32_t size,
                                 int32_t kwg, const int32_t *v)
{
    const int32_t ak[] = { GK, GM }, kb[] = { GK, GN }, mn[] = { GN, GM };
    const int32_t a = GT_A, b = GT_B, c = GT_C;
    const int32_t all[] = { GT_A, GT_B, GT_C };
    int32_t mwi = parts(v[G_MWG], v[G_MDIMC]);
    int32_t nwi = parts(v[G_NWG], v[G_NDIMC]);
    int32_t vm = v[G_VWM] < mwi ? v[G_VWM] : mwi, p, e, i;
    metatune_encode_nest_clear(nest);
    for (i = 0; i < 3; i++)
        metatune_encode_axis_add(nest, size, i == GK
                                                 ? METATUNE_AXIS_REDUCTION
                                                 : METATUNE_AXIS_SPATIAL);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_INPUT, ak, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_WEIGHT, kb, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_OUTPUT, mn, 2);
    p = loop(nest, -1, GM, v[G_MWG], parts(size, v[G_MWG]),
             METATUNE_LOOP_BLOCK, GS_MB);
    p = loop(nest, p, GN, v[G_NWG], parts(size, v[G_NWG]),
             METATUNE_LOOP_BLOCK, GS_NB);
    e = p;
    p = loop(nest, p, GK, kwg, parts(size, kwg), METATUNE_LOOP_SERIAL, GS_K1);
    if (v[G_SA])
        metatune_encode_copy_add(nest, p, GT_A, METATUNE_SCOPE_LOCAL,
                                 GS_COPY_A);
    if (v[G_SB])
        metatune_encode_copy_add(nest, p, GT_B, METATUNE_SCOPE_LOCAL,
                                 GS_COPY_B);
    p = loop(nest, p, GN, nwi, v[G_NDIMC], METATUNE_LOOP_THREAD, GS_NT);
    p = loop(nest, p, GM, mwi, v[G_MDIMC], METATUNE_LOOP_THREAD, GS_MT);
    p = loop(nest, p, GK, 1, kwg, METATUNE_LOOP_SERIAL, GS_K0);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_LOAD, GS_LOAD_A, mwi, &a,
                             1);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_LOAD, GS_LOAD_B, nwi, &b,
                             1);
    p = loop(nest, p, GN, 1, nwi, METATUNE_LOOP_UNROLL, GS_NI);
    p = loop(nest, p, GM, vm, parts(mwi, vm), METATUNE_LOOP_UNROLL, GS_MI);
    p = loop(nest, p, GM, 1, vm, METATUNE_LOOP_VECTOR, GS_MV);
    metatune_encode_stmt_add(nest, p, METATUNE_STMT_FMA, GS_FMA, 1, all, 3);
    metatune_encode_stmt_add(nest, e, METATUNE_STMT_STORE, GS_STORE,
                             v[G_MWG] * v[G_NWG], &c, 1);
    nest->hint[0] = (metatune_real)(log2((double)v[G_MDIMA]) - 4);
    nest->hint[1] = (metatune_real)(log2((double)v[G_NDIMB]) - 4);
    nest->hint[2] = (metatune_real)(log2((double)v[G_VWN]) - 1);
    nest->hint[3] = (metatune_real)(v[G_SA] - v[G_SB]);
    nest->skeleton = GPU_GEMM;
    return nest->status;
}

/* -------------------------------------------------------------- public */

metatune_status replay_gpu_skeleton(int32_t kernel, metatune_encode_nest *nest)
{
    static const int32_t convolution[GPU_COLUMNS] = { 2, 2, 2, 2, 0, 0, 1,
                                                      0, 0, 0 };
    static const int32_t gemm[GPU_COLUMNS] = { 16, 16, 2, 2, 2, 2, 2, 1, 1,
                                               1 };
    return kernel == GPU_CONVOLUTION
               ? convolution_fill(nest, 16, 3, convolution)
               : gemm_fill(nest, 64, 8, gemm);
}

metatune_status replay_gpu_describe(const replay_gpu *g,
                                    const int64_t *values,
                                    metatune_encode_nest *nest)
{
    int32_t v[GPU_COLUMNS], i;
    for (i = 0; i < GPU_COLUMNS; i++) {
        /* no such column: local memory is used, nothing else is */
        v[i] = g->kernel == GPU_CONVOLUTION && i == C_SHMEM;
        if (g->column[i] >= 0)
            v[i] = (int32_t)values[g->column[i]];
    }
    for (i = 0; i < 4; i++)
        if (v[i] < 1 || v[i] > 4096)
            return METATUNE_CONSTRAINT;
    if (g->kernel == GPU_CONVOLUTION)
        return convolution_fill(nest, IMAGE, FILTER, v);
    for (i = 4; i < 8; i++)
        if (v[i] < 1 || v[i] > 4096)
            return METATUNE_CONSTRAINT;
    return gemm_fill(nest, MATRIX, GEMM_KWG, v);
}

/* Public figures: units, f32 lanes of a unit, warp, local memory, L2, clock,
   bandwidth. */
static void device_fill(metatune_encode_device *d, const char *name)
{
    static const struct {
        const char *name;
        int32_t units, lanes, warp;
        double local, l2, hz, bandwidth;
    } known[] = {
        { "A4000", 48, 128, 32, 102400, 4194304, 1.56e9, 448e9 },
        { "A6000", 84, 128, 32, 102400, 6291456, 1.80e9, 768e9 },
        { "MI250X", 110, 64, 64, 65536, 8388608, 1.70e9, 1638e9 },
        { "W7800", 70, 128, 32, 65536, 6291456, 2.50e9, 576e9 },
        { "RTX_2080_Ti", 68, 64, 32, 65536, 5767168, 1.55e9, 616e9 },
        { "RTX_Titan", 72, 64, 32, 65536, 6291456, 1.77e9, 672e9 }
    };
    size_t i;
    memset(d, 0, sizeof *d);
    d->size = (uint32_t)sizeof *d;
    for (i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(name, known[i].name) == 0) {
            d->cores = known[i].units;
            d->lanes = known[i].lanes;
            d->warp = known[i].warp;
            d->local_bytes = known[i].local;
            d->l2_bytes = known[i].l2;
            d->freq_hz = known[i].hz;
            d->bandwidth = known[i].bandwidth;
        }
}

int replay_gpu_open(replay_gpu *g, const char *name,
                    const metatune_knob *knob, uint32_t n_knobs,
                    metatune_encode_device *device)
{
    const char *const *want;
    const char *device_name = strstr(name, "__");
    int32_t i;
    uint32_t k;
    if (!device_name)
        return 0;
    if (strncmp(name, "convolution__", 13) == 0 ||
        strncmp(name, "convolution_milo__", 18) == 0) {
        g->kernel = GPU_CONVOLUTION;
        want = convolution_knobs;
    } else if (strncmp(name, "gemm__", 6) == 0) {
        g->kernel = GPU_GEMM;
        want = gemm_knobs;
    } else {
        return 0;
    }
    for (i = 0; i < GPU_COLUMNS; i++) {
        g->column[i] = -1;
        for (k = 0; want[i] && k < n_knobs; k++)
            if (strcmp(knob[k].name, want[i]) == 0)
                g->column[i] = (int32_t)k;
        if (want[i] && g->column[i] < 0 &&
            !(g->kernel == GPU_CONVOLUTION && i >= C_READ_ONLY))
            return 0;
    }
    device_fill(device, device_name + 2);
    return 1;
}
