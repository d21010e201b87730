/* 05_no_heap.c - the idea: the whole tuner fits beside your program in static
   memory, known at build time. Tiny configuration, no training, no record
   lines, no malloc: what runs on a microcontroller of 64 KiB, where the device
   tunes itself. */
#include <stdio.h>

#define METATUNE_NO_TRAIN
#define METATUNE_NO_RECORDS
#define METATUNE_NO_LOOKUP
#define METATUNE_GNN_SMALL
#define METATUNE_IMPLEMENTATION
#include "metatune.h"

/* A FIR filter of 32 taps: outputs and taps an inner block, on a core without
   caches or vectors. Cycles of a counter that wraps at 24 bits. */
enum { OUTPUTS = 256, TAPS = 32, COUNTER_BITS = 24 };
static const int64_t outs[] = {1, 2, 4, 8, 16}, taps[] = {1, 2, 4, 8, 16, 32};
static const metatune_knob knobs[] = {{"outputs", outs, NULL, 5},
                                      {"taps", taps, NULL, 6}};
static uint32_t counter = 0xfffff0;  /* about to wrap */

static metatune_status describe(void *user, const metatune_problem *problem,
                                const int64_t *v, metatune_encode_nest *nest)
{
    const int32_t o = (int32_t)v[0], t = (int32_t)v[1];
    const int32_t y[] = {0}, w[] = {1}, all[] = {0, 1, 2};
    int32_t at;
    (void)user, (void)problem;
    metatune_encode_nest_clear(nest);
    metatune_encode_axis_add(nest, OUTPUTS, METATUNE_AXIS_SPATIAL);
    metatune_encode_axis_add(nest, TAPS, METATUNE_AXIS_REDUCTION);
    at = metatune_encode_tensor_add(nest, 4, METATUNE_SCOPE_GLOBAL,
                                    METATUNE_ROLE_INPUT);
    metatune_encode_dim_add(nest, at, OUTPUTS + TAPS - 1, 0);
    metatune_encode_term_add(nest, at, 0, 1); /* x[output + tap] */
    metatune_encode_term_add(nest, at, 1, 1);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_WEIGHT, w, 1);
    metatune_encode_array_add(nest, 4, METATUNE_ROLE_OUTPUT, y, 1);
    at = metatune_encode_loop_add(nest, -1, 0, o, OUTPUTS / o, 0, 0);
    at = metatune_encode_loop_add(nest, at, 1, t, TAPS / t, 0, 0);
    at = metatune_encode_loop_add(nest, at, 0, 1, o, METATUNE_LOOP_UNROLL, 0);
    at = metatune_encode_loop_add(nest, at, 1, 1, t, METATUNE_LOOP_UNROLL, 0);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_LOAD, 0, 1, all, 2);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_FMA, 0, 1, NULL, 0);
    metatune_encode_stmt_add(nest, at, METATUNE_STMT_STORE, 0, 1, all + 2, 1);
    return nest->status;
}

/* Stands for the kernel: registers spill above 12, code above 64 turns. */
static void run(const int64_t *v)
{
    int32_t o = (int32_t)v[0], t = (int32_t)v[1], regs = o + 2;
    int32_t a_turn = o * t * 2 + o + t + 6 + (regs > 12 ? o * t * 3 : 0) +
                     (o * t > 64 ? o * t : 0);
    counter += (uint32_t)(OUTPUTS / o * (TAPS / t) * a_turn);
    counter &= (1u << COUNTER_BITS) - 1;
}

/* memsize says 0 for a bad configuration and the need for a good one */
static double block[3400];       /* 27200 bytes */
static metatune_real weights[4500];
static metatune_tuner tuner;

int main(void)
{
    metatune_gnn_config gnn = metatune_gnn_preset(METATUNE_GNN_TINY);
    metatune_config config = metatune_config_tiny();
    metatune_model model;
    metatune_problem problem = {.task = "fir 256x32", .target = "mcu",
                                .unit = METATUNE_CYCLES, .knobs = knobs,
                                .n_knobs = 2, .model = &model,
                                .describe = describe};
    metatune_trial trial;
    metatune_best best;
    size_t n, bytes, used;
    uint32_t first = 0;
    config.trials = 16;
    /* untrained weights; a board keeps a trained prior in flash */
    if (metatune_model_init(&model, &gnn, weights, 4500, 1))
        return 1;
    bytes = metatune_memsize(&config, &problem);
    if (metatune_init(&tuner, &config, &problem, block, sizeof block, NULL))
        return 1;
    while (metatune_ask(&tuner, &trial, 1, &n) == METATUNE_OK) {
        metatune_result result = {.status = METATUNE_OK};
        uint32_t start = counter;
        run(trial.values);
        result.value = (double)metatune_ticks_delta(start, counter,
                                                    COUNTER_BITS);
        if (!first)
            first = (uint32_t)result.value;
        metatune_tell(&tuner, trial.id, &result);
    }
    if (metatune_best_get(&tuner, &best))
        return 1;
    used = bytes + sizeof tuner + sizeof model;
    printf("%-28s %6u bytes\n%-28s %6u\n%-28s %6u\n%-28s %6u\n",
           "block of the tuner", (unsigned)bytes, "tuner, model",
           (unsigned)(used - bytes), "weights (RAM or flash)",
           (unsigned)(model.n_params * sizeof *weights), "together",
           (unsigned)(used + model.n_params * sizeof *weights));
    printf("\nfirst setting %u cycles, best of %u: outputs %d, taps %d, %.0f "
           "cycles\n", (unsigned)first, (unsigned)config.trials,
           (int)best.values[0], (int)best.values[1], best.value);
    return !(used + model.n_params * sizeof *weights <= 49152 &&
             best.value <= first);
}
