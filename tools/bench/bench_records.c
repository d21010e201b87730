/* bench_records.c - how fast a log of 100,000 lines is written and read:
   lines as the tuner writes them (11 knobs, 5 samples, a prediction), encoded,
   decoded one by one, and read into a history. Medians of 7 rounds. */
#define METATUNE_IMPLEMENTATION
#include "../../metatune.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINES = 100000, KNOBS = 11, ROUNDS = 7 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, ROUNDS, sizeof *x, by_value);
    return x[ROUNDS / 2];
}

int main(void)
{
    static const int64_t values[] = {1, 2, 4, 8, 16, 32, 64};
    static const char *const names[KNOBS] = {
        "algorithm", "ocv", "owt", "unroll", "kwu", "prefetch", "ict", "oct",
        "oht", "order", "inner"};
    metatune_knob knob[KNOBS];
    metatune_problem problem;
    metatune_encode_rng rng;
    metatune_history history;
    metatune_record r;
    double t[3][ROUNDS];
    char *log = (char *)malloc((size_t)LINES * 1024);
    size_t bytes = metatune_history_memsize(LINES), n = 0, pos, good = 0;
    void *mem = malloc(bytes);
    int i, k, round;
    if (!log || !mem)
        return 1;
    for (k = 0; k < KNOBS; k++) {
        knob[k].name = names[k];
        knob[k].values = values;
        knob[k].labels = NULL;
        knob[k].n_values = 7;
    }
    memset(&problem, 0, sizeof problem);
    problem.task = "n=1,c=64,h=56,w=56,k=64,r=3,s=3,stride=1,pad=1,dil=1,"
                   "groups=1";
    problem.target = "cpu=bench,lanes=16,cc=gcc,flags=-O2,threads=1";
    problem.knobs = knob;
    problem.n_knobs = KNOBS;
    for (round = 0; round < ROUNDS; round++) {
        double start = now_s();
        metatune_encode_rng_init(&rng, 1, 0);
        for (n = 0, i = 0; i < LINES; i++) {
            int64_t v[KNOBS];
            size_t len;
            memset(&r, 0, sizeof r);
            for (k = 0; k < KNOBS; k++)
                v[k] = values[metatune_encode_rng_below(&rng, 7)];
            r.version = METATUNE_RECORD_VERSION;
            r.run.p = "0123456789abcdef";
            r.run.n = 16;
            r.strategy.p = "metatune";
            r.strategy.n = 8;
            r.task.p = problem.task;
            r.task.n = strlen(problem.task);
            r.target.p = problem.target;
            r.target.n = strlen(problem.target);
            r.knobs = knob;
            r.n_knobs = KNOBS;
            r.values = v;
            r.trial = (uint64_t)i + 1;
            r.space = metatune_space_hash(knob, KNOBS);
            r.value = 1e-3 * (1 + metatune_encode_rng_unit(&rng));
            for (k = 0; k < 5; k++)
                r.samples[r.n_samples++] =
                    r.value * (1 + 0.01 * metatune_encode_rng_unit(&rng));
            r.build_s = 0.1;
            r.run_s = 0.04;
            r.predicted = 1;
            r.mean = r.value * 1.1;
            r.sigma = 0.25;
            if (metatune_record_encode(&r, log + n, 1024, &len))
                return 1;
            n += len;
        }
        t[0][round] = now_s() - start;
        start = now_s();
        for (pos = 0, good = 0;
             metatune_log_next(log, n, &pos, &r) == METATUNE_OK;)
            good++;
        t[1][round] = now_s() - start;
        start = now_s();
        if (good != LINES ||
            metatune_history_init(&history, LINES, mem, bytes) ||
            metatune_history_read(&history, &problem, log, n))
            return 1;
        t[2][round] = now_s() - start;
    }
    printf("%d lines, %.1f MB: written in %.2f s, decoded in %.2f s, read "
           "into a history in %.2f s\n", LINES, 1e-6 * (double)n,
           median(t[0]), median(t[1]), median(t[2]));
    free(mem);
    free(log);
    return 0;
}
