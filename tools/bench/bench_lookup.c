/* bench_lookup.c - how long a lookup in a table of 1000 shapes takes

   Medians over rounds of the time of one find, over 1000 different shapes:
   exact (each row's own shape), nearest (other shapes, with a predicate that
   likes half of the settings), and a task by its own key. `make bench-lookup`.
   The goals are exact below 1 us and nearest below 20 us. */
#define _POSIX_C_SOURCE 200809L
#define METATUNE_IMPLEMENTATION
#include "../../metatune.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 1000, ROUNDS = 21 };

static metatune_lookup_row rows[ROWS];
static metatune_encode_conv2d asked[ROWS];
static int64_t values[ROWS][4];
static double sink;

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

static int by_key(const void *a, const void *b)
{
    const metatune_lookup_row *x = (const metatune_lookup_row *)a;
    const metatune_lookup_row *y = (const metatune_lookup_row *)b;
    return (x->key > y->key) - (x->key < y->key);
}

static int even(void *user, const metatune_lookup_table *table,
                const metatune_encode_conv2d *conv, const int64_t *v)
{
    (void)user, (void)table, (void)conv;
    return v[0] % 2 == 0;
}

static metatune_encode_conv2d shape(metatune_encode_rng *rng)
{
    static const int32_t side[] = {7, 14, 28, 56, 112, 13, 27, 35};
    int32_t r = 1 + 2 * (int32_t)metatune_encode_rng_below(rng, 3);
    int32_t h = side[metatune_encode_rng_below(rng, 8)];
    int32_t c = 16 + 16 * (int32_t)metatune_encode_rng_below(rng, 40);
    int32_t k = 16 + 16 * (int32_t)metatune_encode_rng_below(rng, 40);
    return metatune_encode_conv2d_make(
        1, c, h, h, k, r, r, 1 + (int32_t)metatune_encode_rng_below(rng, 2),
        r / 2);
}

/* Median over rounds of one find's time, in microseconds. */
static double time_us(const metatune_lookup_table *t, int kind)
{
    double x[ROUNDS];
    int round, i;
    for (round = 0; round < ROUNDS; round++) {
        double start = now_s();
        for (i = 0; i < ROWS; i++) {
            metatune_lookup_result r;
            metatune_lookup_find(t, "bench",
                                 kind == 0 ? &rows[i].conv : &asked[i],
                                 kind == 2 ? even : NULL, NULL, 0, &r);
            sink += r.distance + r.which;
        }
        x[round] = 1e6 * (now_s() - start) / ROWS;
    }
    qsort(x, ROUNDS, sizeof *x, by_value);
    return x[ROUNDS / 2];
}

int main(void)
{
    static const metatune_lookup_knob knobs[4] = {
        {"a", NULL, 0}, {"b", NULL, 0}, {"c", NULL, 0}, {"d", NULL, 0}};
    static const char *const what[] = {
        "exact", "nearest, any setting", "nearest, half of them refused"};
    metatune_lookup_table t;
    metatune_encode_rng rng;
    int i;
    metatune_encode_rng_init(&rng, 1, 0);
    for (i = 0; i < ROWS; i++) {
        rows[i].conv = shape(&rng);
        rows[i].key = metatune_lookup_conv_key(&rows[i].conv);
        values[i][0] = i;
        rows[i].values = values[i];
        rows[i].value = 1e-3;
        asked[i] = shape(&rng);
        asked[i].c += 1; /* never a row */
    }
    qsort(rows, ROWS, sizeof rows[0], by_key);
    t.target = "bench";
    t.unit = METATUNE_SECONDS;
    t.knobs = knobs;
    t.n_knobs = 4;
    t.rows = rows;
    t.n_rows = ROWS;
    t.default_values = NULL;
    printf("lookup in %d rows, median of %d rounds\n", ROWS, ROUNDS);
    for (i = 0; i < 3; i++)
        printf("  %-30s %8.3f us\n", what[i], time_us(&t, i));
    return sink < 0; /* what was computed is used */
}
