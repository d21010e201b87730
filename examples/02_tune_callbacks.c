/* 02_tune_callbacks.c - the idea: the tuner owns no clock, file or process; all
   of that is callbacks of yours. Here each of them serves a real transpose: a
   constraint, a build that may fail, a measurement that is checked, a log, a
   clock, progress. Then the run is resumed: nothing is measured twice. */
#include <stdio.h>
#include <time.h>

#define METATUNE_IMPLEMENTATION
#include "metatune.h"

enum { N = 512, LOG_BYTES = 1 << 17 };
static float from[N][N], to[N][N];
static const int64_t sides[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
static const int64_t which[] = {0, 1};
static const metatune_knob knobs[] = {
    {"rows", sides, NULL, 9}, {"cols", sides, NULL, 9}, {"by", which, NULL, 2}};
typedef struct bench {
    int measured;
    size_t n;                    /* bytes in the log, which ought to be a */
    char log[LOG_BYTES];         /* file opened for appending */
} bench;

static double now(void *user) /* seconds; better take a monotonic clock */
{
    return (void)user, (double)clock() / CLOCKS_PER_SEC;
}

static int valid(void *user, const metatune_problem *p, const int64_t *v)
{
    return (void)user, (void)p, v[0] * v[1] <= 8192; /* fits a cache */
}

/* Says OK for what was built; a failure is a normal result, too. */
static metatune_status compile(void *user, const metatune_problem *p,
                               const metatune_trial *trial, size_t n,
                               metatune_result *result)
{
    for (size_t i = 0; i < n; i++) {
        int bad = trial[i].values[0] * trial[i].values[1] == 1;
        result[i].status = bad ? METATUNE_COMPILE : METATUNE_OK;
        result[i].error = "a block of one element is no block";
        result[i].error_bytes = bad ? strlen(result[i].error) : 0;
    }
    return (void)user, (void)p, METATUNE_OK;
}

static metatune_status measure(void *user, const metatune_problem *p,
                               const metatune_trial *trial, size_t n,
                               metatune_result *result)
{
    for (size_t t = 0; t < n; t++) {
        int bi = (int)trial[t].values[0], bj = (int)trial[t].values[1];
        int i, j, i0, j0, reps, turn = (int)trial[t].values[2];
        double start = now(NULL);
        for (reps = 0; now(NULL) - start < 0.004; reps++)
            for (i0 = 0; i0 < N; i0 += bi)
                for (j0 = 0; j0 < N; j0 += bj)
                    for (i = i0; i < i0 + bi; i++)
                        for (j = j0; j < j0 + bj; j++)
                            *(turn ? &to[i][j] : &to[j][i]) =
                                turn ? from[j][i] : from[i][j];
        result[t].value = (now(NULL) - start) / reps;
        j = fabsf(to[3][N - 1] - from[N - 1][3]) > 0; /* checked, too */
        result[t].status = j ? METATUNE_WRONG : METATUNE_OK;
        ((bench *)user)->measured++;
    }
    return (void)p, METATUNE_OK;
}

static int keep(void *user, const char *bytes, size_t n)
{
    bench *b = (bench *)user;
    if (n > LOG_BYTES - b->n)
        return 1; /* the search stops and keeps its best */
    memcpy(b->log + b->n, bytes, n);
    b->n += n;
    return 0;
}

static int progress(void *user, const metatune_progress *p)
{
    if (p->kind == METATUNE_EXPLORE && p->done % 16 == 0)
        printf("%4u of %u: best %.1f us, %u failed\n", p->done, p->total,
               1e6 * p->best_value, p->failures);
    return (void)user, 0; /* anything else stops the search */
}

int main(void)
{
    static bench b;
    static metatune_tuner tuner;
    static double memory[1 << 18], recalled[1 << 13];
    /* random: the model's strategy would want describe(), see quickstart.c */
    metatune_config config = {.strategy = METATUNE_STRATEGY_RANDOM};
    metatune_problem problem = {
        .task = "transpose 512", .target = "this machine", .knobs = knobs,
        .n_knobs = 3, .user = &b, .valid = valid, .compile = compile,
        .measure = measure, .write = keep, .now = now, .progress = progress};
    metatune_history history;
    metatune_best best;
    int run, i;
    for (i = 0; i < N * N; i++)
        from[i / N][i % N] = (float)i;
    metatune_history_init(&history, 256, recalled, sizeof recalled);
    problem.history = &history;
    for (run = 0; run < 2; run++) { /* tune, then resume from the log */
        b.measured = 0;
        metatune_history_read(&history, &problem, b.log, b.n);
        if (metatune_init(&tuner, &config, &problem, memory, sizeof memory, 0)
            || metatune_tune(&tuner) != METATUNE_BUDGET ||
            metatune_best_get(&tuner, &best))
            return 1;
        printf("%s: %d measured; best %d x %d by rows of %s: %.1f us\n",
               run ? "resumed" : "tuned", b.measured, (int)best.values[0],
               (int)best.values[1], best.values[2] ? "`to`" : "`from`",
               1e6 * best.value);
    }
    return b.measured != 0; /* the log knew it all */
}
