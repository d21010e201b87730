/* 04_ask_tell.c - the idea: when you own the loop (a farm of boards, a serial
   line, an event loop), ask for trials and tell results in whatever order they
   come. Three workers of different speed measure here; their results arrive
   out of order, and one board dies now and then. The search does not depend on
   who was first: the same settings are tried as by one patient worker. */
#include <stdio.h>

#define METATUNE_IMPLEMENTATION
#include "sim.h"

enum { WORKERS = 3 };

typedef struct worker {
    metatune_trial trial;
    int busy;                    /* ticks until it is done; 0 = idle */
} worker;

static sim_device device = {8, 32768, 0.5, 2.0, 128};

static void finish(metatune_tuner *tuner, const metatune_trial *trial,
                   int dies, int *lost)
{
    metatune_result result = {.status = METATUNE_OK};
    if (dies) { /* not the setting's fault: hand it back, it comes again */
        result.status = METATUNE_NOT_RUN;
        ++*lost;
    } else {
        result.value = sim_time(&device, trial->values);
    }
    metatune_tell(tuner, trial->id, &result);
}

/* Tune with some workers. Returns a hash of all settings tried. */
static uint64_t tune(const metatune_problem *problem, int workers, void *memory,
                     size_t bytes, metatune_best *best)
{
    static metatune_tuner tuner;
    metatune_config config = {.trials = 32, .seed = 4};
    worker w[WORKERS] = {{.busy = 0}};
    uint64_t tried = 0, newest = 0;
    int i, tick, open = 0, late = 0, lost = 0;
    metatune_encode_rng rng;
    metatune_encode_rng_init(&rng, 9, 0);
    if (metatune_init(&tuner, &config, problem, memory, bytes, NULL))
        return 0;
    for (tick = 0;; tick++) {
        for (i = 0; i < workers; i++)
            if (w[i].busy && --w[i].busy == 0) {
                int dies = workers > 1 &&
                           metatune_encode_rng_below(&rng, 16) == 0;
                if (!dies && w[i].trial.kind == METATUNE_EXPLORE)
                    tried += w[i].trial.hash; /* in any order */
                late += w[i].trial.id < newest;
                if (w[i].trial.id > newest)
                    newest = w[i].trial.id;
                finish(&tuner, &w[i].trial, dies, &lost);
                open--;
            }
        for (i = 0; i < workers; i++) {
            size_t n = 0;
            /* OK and a trial; or WAIT: a batch has to be told first; or the
               end, after which nothing more is handed out */
            if (!w[i].busy && metatune_ask(&tuner, &w[i].trial, 1, &n) ==
                                  METATUNE_OK && n == 1) {
                w[i].busy = 1 + i * 2 +
                            (int)metatune_encode_rng_below(&rng, 4);
                open++;
            }
        }
        if (!open && metatune_done(&tuner) != METATUNE_OK)
            break;
    }
    if (metatune_best_get(&tuner, best))
        return 0;
    printf("%7d %6d %8d %6d  %d %d %d order %d: %.3f ms\n", workers, tick,
           late, lost, (int)best->values[0], (int)best->values[1],
           (int)best->values[2], (int)best->values[3], 1e3 * best->value);
    return tried;
}

int main(void)
{
    metatune_encode_device sheet = sim_sheet(&device);
    metatune_problem problem = {
        .task = "matmul 128", .target = "boards", .knobs = sim_knobs,
        .n_knobs = SIM_KNOBS, .device = &sheet, .user = &device,
        .describe = sim_describe};
    metatune_config config = {.trials = 32, .seed = 4};
    size_t bytes = metatune_memsize(&config, &problem);
    void *memory = sim_take(bytes);
    metatune_best one, many;
    uint64_t a, b;
    double value;
    printf("%7s %6s %8s %6s  %s\n", "workers", "ticks", "too late", "lost",
           "best");
    a = tune(&problem, 1, memory, bytes, &one);
    value = one.value;
    b = tune(&problem, WORKERS, memory, bytes, &many);
    printf("the same settings were tried: %s\n", a == b ? "yes" : "no");
    return !(a && a == b && !(many.value < value) && !(many.value > value));
}
