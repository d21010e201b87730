/* sim.h - what examples 01, 03, 04 and 05 tune: a tiled matrix product on
   invented devices, so that they need no hardware and run in a moment. The
   times are made up, but follow footprint, vector fill and loop overhead. */
#ifndef SIM_H
#define SIM_H

#include "metatune.h"

enum { SIM_KNOBS = 4, SIM_NODES = 32 };

static const int64_t sim_tile[] = {2, 4, 8, 16, 32, 64, 128};
static const int64_t sim_order[] = {0, 1, 2};
static const metatune_knob sim_knobs[SIM_KNOBS] = {{"ti", sim_tile, NULL, 7},
                                                   {"tj", sim_tile, NULL, 7},
                                                   {"tk", sim_tile, NULL, 7},
                                                   {"order", sim_order, NULL,
                                                    3}};

/* A device: what its data sheet says, which the model sees, and what only a
   measurement shows. */
typedef struct sim_device {
    int32_t lanes;
    double l1_bytes;
    double overhead, miss;       /* cost of a loop turn; of L1 traffic */
    int32_t size;                /* of the matrices */
} sim_device;

static metatune_encode_device sim_sheet(const sim_device *s)
{
    metatune_encode_device d;
    memset(&d, 0, sizeof d);
    d.size = sizeof d;
    d.cores = 1;
    d.lanes = s->lanes;
    d.vregs = 16;
    d.line_bytes = 64;
    d.l1_bytes = s->l1_bytes;
    d.l2_bytes = 16 * s->l1_bytes;
    d.freq_hz = 1e9;
    d.bandwidth = 4e9;
    return d;
}

/* for tiles in some order: for i, k, j (vector): c[i][j] += a[i][k]*b[k][j] */
static metatune_status sim_describe(void *user,
                                    const metatune_problem *problem,
                                    const int64_t *v,
                                    metatune_encode_nest *nest)
{
    static const int32_t ik[] = {0, 2}, kj[] = {2, 1}, ij[] = {0, 1};
    static const int32_t inner[] = {0, 2, 1}, abc[] = {0, 1, 2};
    static const int32_t outer[3][3] = {{0, 1, 2}, {0, 2, 1}, {2, 1, 0}};
    const sim_device *s = (const sim_device *)user;
    int32_t i, at = -1;
    (void)problem;
    metatune_encode_nest_clear(nest);
    for (i = 0; i < 3; i++) /* axes i, j, k; k is summed over */
        metatune_encode_axis_add(nest, s->size, i == 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_INPUT, ik, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_WEIGHT, kj, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_OUTPUT, ij, 2);
    for (i = 0; i < 3; i++) {
        int32_t a = outer[v[3]][i], t = (int32_t)v[a];
        at = metatune_encode_loop_add(nest, at, a, t, (s->size + t - 1) / t,
                                      METATUNE_LOOP_SERIAL, 0);
    }
    for (i = 0; i < 3; i++)
        at = metatune_encode_loop_add(nest, at, inner[i], 1,
                                      (int32_t)v[inner[i]],
                                      i == 2 ? METATUNE_LOOP_VECTOR
                                             : METATUNE_LOOP_SERIAL, 0);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_LOAD, 0, 1, abc, 2);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_FMA, 0, 1, NULL, 0);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_STORE, 0, 1, abc + 2, 1);
    return nest->status;
}

/* Memory that is there from the start, as on a board; freed by no one. */
static void *sim_take(size_t bytes)
{
    static double block[1 << 19];
    static size_t used;
    size_t n = (bytes + sizeof *block - 1) / sizeof *block, at = used;
    if (n > sizeof block / sizeof *block - used)
        return NULL;
    used += n;
    return block + at;
}

/* Seconds. */
static double sim_time(const sim_device *s, const int64_t *v)
{
    double n = s->size, i = (double)v[0], j = (double)v[1], k = (double)v[2];
    double foot = 4 * (i * k + k * j + i * j), turns, vectors, traffic;
    vectors = ceil(j / s->lanes) / (j / s->lanes);
    turns = 1 / i + 1 / k + 4 / j;
    traffic = 1 / i + 1 / j + 1 / k;
    if (foot > s->l1_bytes)
        traffic += 0.25 * log2(foot / s->l1_bytes);
    if (v[3] == 2)
        traffic *= 1.5;
    return 1e-9 * n * n * n / s->lanes *
           (vectors + s->overhead * turns + s->miss * traffic);
}

#endif
