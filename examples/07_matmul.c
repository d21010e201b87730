/* 07_matmul.c - the idea: any operator can be tuned, because any can be said as
   a loop nest: axes, tensors as sums of axes, loops of several kinds, a staged
   copy, statements. Here a matrix product c = a * b whose micro kernel, tiles
   and packing of b are knobs; every setting is really run and checked. */
#include <stdio.h>
#include <time.h>

#define METATUNE_IMPLEMENTATION
#include "metatune.h"

enum { N = 240, MR = 6, NR = 16 };
static float a[N * N], b[N * N], c[N][N], want[N][N], packed[N * N];
static const int64_t rows[] = {1, 2, 4, 6}, cols[] = {4, 8, 16};
static const int64_t depth[] = {15, 30, 60, 120, 240}, yes[] = {0, 1};
static const metatune_knob knobs[] = {
    {"mr", rows, NULL, 4}, {"nr", cols, NULL, 3}, {"kc", depth, NULL, 5},
    {"pack", yes, NULL, 2}};

/* for kt, jt: [pack b's strip], for it, k: for i, j of the micro tile. */
static metatune_status describe(void *user, const metatune_problem *problem,
                                const int64_t *v, metatune_encode_nest *nest)
{
    const int32_t ik[] = {0, 2}, kj[] = {2, 1}, abc[] = {0, 1, 2};
    const int32_t mr = (int32_t)v[0], nr = (int32_t)v[1], kc = (int32_t)v[2];
    int32_t i, at;
    metatune_encode_nest_clear(nest);
    for (i = 0; i < 3; i++) /* axes i, j, k; k is summed over */
        metatune_encode_axis_add(nest, N, i == 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_INPUT, ik, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_WEIGHT, kj, 2);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_OUTPUT, abc, 2);
    at = metatune_encode_loop_add(nest, -1, 2, kc, N / kc, 0, 0);
    at = metatune_encode_loop_add(nest, at, 1, nr, N / nr, 0, 0);
    if (v[3]) /* tensor 1 is b */
        metatune_encode_copy_add(nest, at, 1, METATUNE_SCOPE_LOCAL, 0);
    at = metatune_encode_loop_add(nest, at, 0, mr, N / mr, 0, 0);
    at = metatune_encode_loop_add(nest, at, 2, 1, kc, 0, 0);
    at = metatune_encode_loop_add(nest, at, 0, 1, mr, METATUNE_LOOP_UNROLL, 0);
    at = metatune_encode_loop_add(nest, at, 1, 1, nr, METATUNE_LOOP_VECTOR, 0);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_LOAD, 0, 1, abc, 2);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_FMA, 0, 1, NULL, 0);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_STORE, 0, 1, abc + 2, 1);
    return (void)user, (void)problem, nest->status;
}

static inline void product(int mr, int nr, int kc, int pack)
{
    int kt, jt, it, k, i, j, step = pack ? nr : N;
    memset(c, 0, sizeof c);
    for (kt = 0; kt < N; kt += kc)
        for (jt = 0; jt < N; jt += nr) {
            const float *strip = pack ? packed : &b[kt * N + jt];
            for (k = 0; pack && k < kc; k++)
                memcpy(packed + k * nr, &b[(kt + k) * N + jt],
                       sizeof *b * (size_t)nr);
            for (it = 0; it < N; it += mr) {
                const float *x = &a[it * N + kt];
                float sum[MR][NR] = {{0}};
                for (k = 0; k < kc; k++)
                    for (i = 0; i < mr; i++)
                        for (j = 0; j < nr; j++)
                            sum[i][j] += x[i * N + k] * strip[k * step + j];
                for (i = 0; i < mr; i++)
                    for (j = 0; j < nr; j++)
                        c[it + i][jt + j] += sum[i][j];
            }
        }
}

/* The compiler sees constants: a kernel of its own for each. */
#define CASE(m, n) case 100 * m + n: product(m, n, kc, pack); break;
#define ROW(m) CASE(m, 4) CASE(m, 8) CASE(m, 16)
static double seconds(const int64_t *v)
{
    clock_t start = clock();
    int kc = (int)v[2], pack = (int)v[3];
    switch (100 * v[0] + v[1]) { ROW(1) ROW(2) ROW(4) ROW(6) }
    return (double)(clock() - start + 1) / CLOCKS_PER_SEC;
}

static metatune_status measure(void *user, const metatune_problem *problem,
                               const metatune_trial *trial, size_t n,
                               metatune_result *result)
{
    for (size_t t = 0; t < n; t++) {
        result[t].value = seconds(trial[t].values);
        result[t].status = memcmp(c, want, sizeof c) ? METATUNE_WRONG
                                                     : METATUNE_OK;
    }
    return (void)user, (void)problem, METATUNE_OK;
}

int main(void)
{
    static metatune_tuner tuner;
    static double memory[1 << 18];
    metatune_config config = {.trials = 48};
    metatune_problem problem = {.task = "matmul", .knobs = knobs, .n_knobs = 4,
                                .describe = describe, .measure = measure};
    metatune_best best;
    const int64_t plainest[] = {1, 4, 15, 0};
    for (int i = 0; i < N * N; i++) { /* whole numbers: sums are exact */
        a[i] = (float)(i * 7 % 9 - 4);
        b[i] = (float)(i * 5 % 11 - 5);
    }
    for (int i = 0; i < N * N; i++)
        for (int j = 0; j < N; j++)
            want[i / N][j] += a[i] * b[i % N * N + j];
    double plain = seconds(plainest);
    if (metatune_init(&tuner, &config, &problem, memory, sizeof memory, 0) ||
        metatune_tune(&tuner) != METATUNE_BUDGET ||
        metatune_best_get(&tuner, &best))
        return 1;
    printf("%-10s %8.3f ms\n%-10s %8.3f ms: mr %d, nr %d, kc %d, b %s\n",
           "plain", 1e3 * plain, "best of 48", 1e3 * best.value,
           (int)best.values[0], (int)best.values[1], (int)best.values[2],
           best.values[3] ? "packed" : "in place");
    return !(best.value < plain);
}
