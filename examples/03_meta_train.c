/* 03_meta_train.c - the idea: a prior is learnt from other devices, so that a
   new one is known after a handful of measurements. A small graph network is
   meta-trained on five invented devices: every step plays "adapt to 8
   measurements, predict 16 others" and changes the weights so that this game
   goes better. Then it plays on a device that it never saw, against the same
   network from scratch. */
#include <stdio.h>

#define METATUNE_IMPLEMENTATION
#include "sim.h"

enum { DEVICES = 6, POINTS = 64, QUERY = 16, STEPS = 400 };

/* lanes, L1, cost of loops, of traffic; the last is the new one */
static const sim_device devices[DEVICES] = {
    {4, 16384, 0.5, 3.0, 128}, {4, 65536, 1.5, 1.0, 128},
    {8, 32768, 0.3, 4.0, 128}, {16, 32768, 1.0, 2.0, 256},
    {16, 65536, 2.0, 3.0, 256}, {8, 49152, 1.2, 2.5, 128}};
static metatune_encode_graph graphs[DEVICES][POINTS];
static double y[DEVICES][POINTS];

/* Measure random settings of every device: the training data. */
static int collect(void)
{
    metatune_encode_config size = {SIM_NODES, 0, 0};
    metatune_encode_nest nest;
    metatune_encode_rng rng;
    size_t bytes = metatune_encode_nest_memsize(&size);
    int d, i, k;
    metatune_encode_rng_init(&rng, 3, 0);
    metatune_encode_nest_init(&nest, &size, sim_take(bytes), bytes);
    bytes = metatune_encode_graph_memsize(&size);
    for (d = 0; d < DEVICES; d++)
        for (i = 0; i < POINTS; i++) {
            metatune_encode_graph *g = &graphs[d][i];
            metatune_encode_device sheet = sim_sheet(&devices[d]);
            sim_device device = devices[d];
            int64_t v[SIM_KNOBS];
            for (k = 0; k < SIM_KNOBS; k++)
                v[k] = sim_knobs[k].values[metatune_encode_rng_below(
                    &rng, sim_knobs[k].n_values)];
            sim_describe(&device, NULL, v, &nest);
            if (metatune_encode_graph_init(g, &size, sim_take(bytes), bytes) ||
                metatune_encode_graph_fill(g, &nest, NULL, &sheet))
                return 1;
            y[d][i] = log2(g->t0_s / sim_time(&device, v));
        }
    return 0;
}

/* RMS error on the new device's other settings, in octaves of time. */
static double play(metatune_trainer *trainer, size_t n_seen)
{
    const metatune_encode_graph *at[POINTS];
    double mu[POINTS], var[POINTS], loss, error = 0;
    size_t i, n_query = POINTS - n_seen;
    for (i = 0; i < POINTS; i++)
        at[i] = &graphs[DEVICES - 1][i];
    metatune_train_evaluate(trainer, at, y[DEVICES - 1], n_seen, n_query, mu,
                            var, &loss);
    for (i = 0; i < n_query; i++)
        error += pow(mu[i] - y[DEVICES - 1][n_seen + i], 2);
    return sqrt(error / (double)n_query);
}

int main(void)
{
    metatune_train_config config = {.cap_points = POINTS};
    metatune_trainer trainer;
    metatune_model model;
    metatune_encode_rng rng;
    double scratch[3], trained, loss, sum = 0;
    size_t n, bytes, i, seen[3] = {2, 4, 8};
    int step, better = 0;
    metatune_real *params;
    config.gnn = metatune_gnn_preset(METATUNE_GNN_TINY);
    config.gnn.cap_batch = POINTS;
    n = metatune_model_param_count(&config.gnn);
    params = (metatune_real *)sim_take(n * sizeof *params);
    bytes = metatune_train_memsize(&config);
    metatune_encode_rng_init(&rng, 5, 0);
    if (collect() ||
        metatune_model_init(&model, &config.gnn, params, n, 1) ||
        metatune_train_init(&trainer, &config, params, n, sim_take(bytes),
                            bytes))
        return 1;
    for (i = 0; i < 3; i++)
        scratch[i] = play(&trainer, seen[i]);
    for (step = 1; step <= STEPS; step++) {
        size_t d = (size_t)metatune_encode_rng_below(&rng, DEVICES - 1);
        size_t n_seen = 1 + (size_t)metatune_encode_rng_below(&rng, 8);
        uint32_t order[POINTS], index[POINTS];
        const metatune_encode_graph *at[POINTS];
        double speed[POINTS];
        size_t m = metatune_episode_draw(&rng, y[d], POINTS, &n_seen, QUERY,
                                         order, index);
        for (i = 0; i < m; i++) {
            at[i] = &graphs[d][index[i]];
            speed[i] = y[d][index[i]];
        }
        if (metatune_train_episode(&trainer, at, speed, n_seen, m - n_seen,
                                   &loss) ||
            metatune_train_step(&trainer, 3e-3))
            return 1;
        sum += loss;
        if (step % 100 == 0) {
            printf("step %3d: loss %6.3f nats each\n", step, sum / 100);
            sum = 0;
        }
    }
    printf("\na device never seen, error in octaves\n%12s %14s %14s\n",
           "measured", "from scratch", "meta-trained");
    for (i = 0; i < 3; i++) {
        trained = play(&trainer, seen[i]);
        better += trained < scratch[i];
        printf("%12d %14.2f %14.2f\n", (int)seen[i], scratch[i], trained);
    }
    return better != 3;
}
