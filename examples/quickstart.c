/* quickstart.c - tune the tiles of a matrix product whose knobs act at run
   time. One idea: say what loop nest a setting makes, measure what you are
   asked to, read the best. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define METATUNE_IMPLEMENTATION
#include "metatune.h"

enum { N = 256 };
static float a[N][N], b[N][N], c[N][N];
static const int64_t tiles[] = {4, 8, 16, 32, 64, 128, 256};
static const metatune_knob knobs[] = {
    {"ti", tiles, NULL, 7}, {"tj", tiles, NULL, 7}, {"tk", tiles, NULL, 7}};

/* for it, kt, jt: for i, k, j: c[i][j] += a[i][k] * b[k][j] */
static metatune_status describe(void *user, const metatune_problem *problem,
                                const int64_t *v, metatune_encode_nest *nest)
{
    const int32_t ik[] = {0, 2}, kj[] = {2, 1}, ij[] = {0, 1};
    const int32_t order[] = {0, 2, 1}, abc[] = {0, 1, 2};
    int32_t i, loop = -1;
    (void)user, (void)problem;
    metatune_encode_nest_clear(nest);
    for (i = 0; i < 3; i++) /* axes i, j, k; k is summed over */
        metatune_encode_axis_add(nest, N, i == 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_INPUT, ik, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_WEIGHT, kj, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_OUTPUT, ij, 2);
    for (i = 0; i < 3; i++) /* loops over tiles, then inside a tile */
        loop = metatune_encode_loop_add(nest, loop, order[i],
            (int32_t)v[order[i]], N / (int32_t)v[order[i]], 0, 0);
    for (i = 0; i < 3; i++)
        loop = metatune_encode_loop_add(nest, loop, order[i], 1,
                                        (int32_t)v[order[i]], 0, 0);
    metatune_encode_stmt_add(nest, loop, METATUNE_STMT_LOAD, 0, 1, abc, 2);
    metatune_encode_stmt_add(nest, loop, METATUNE_STMT_FMA, 0, 1, NULL, 0);
    metatune_encode_stmt_add(nest, loop, METATUNE_STMT_STORE, 0, 1, abc + 2, 1);
    return nest->status;
}

static metatune_status measure(void *user, const metatune_problem *problem,
                               const metatune_trial *trial, size_t n,
                               metatune_result *result)
{
    (void)user, (void)problem;
    for (size_t t = 0; t < n; t++) {
        int ti = (int)trial[t].values[0], tj = (int)trial[t].values[1];
        int tk = (int)trial[t].values[2], it, jt, kt, i, j, k;
        clock_t start = clock();
        for (it = 0; it < N; it += ti)
            for (kt = 0; kt < N; kt += tk)
                for (jt = 0; jt < N; jt += tj)
                    for (i = it; i < it + ti; i++)
                        for (k = kt; k < kt + tk; k++)
                            for (j = jt; j < jt + tj; j++)
                                c[i][j] += a[i][k] * b[k][j];
        result[t].value = (double)(clock() - start) / CLOCKS_PER_SEC;
        result[t].status = METATUNE_OK;
    }
    return METATUNE_OK;
}

int main(void)
{
    metatune_config config = {0};   /* defaults: 64 trials, seed 0 */
    metatune_problem problem = {0};
    metatune_tuner tuner;
    metatune_best best;
    metatune_error error;
    problem.task = "matmul 256";
    problem.knobs = knobs;
    problem.n_knobs = 3;
    problem.describe = describe;
    problem.measure = measure;
    size_t bytes = metatune_memsize(&config, &problem);
    void *memory = malloc(bytes);
    if (metatune_init(&tuner, &config, &problem, memory, bytes, &error)) {
        char line[200];
        metatune_encode_error_line(&error, line, sizeof line);
        fprintf(stderr, "%s\n", line);
        return 1;
    }
    metatune_status end = metatune_tune(&tuner);
    if (metatune_best_get(&tuner, &best) == METATUNE_OK)
        printf("%s: ti=%d tj=%d tk=%d, %.3f ms\n",
               metatune_encode_status_name(end), (int)best.values[0],
               (int)best.values[1], (int)best.values[2], 1e3 * best.value);
    free(memory);
    return 0;
}
