/* 01_encode_predict.c - the idea: a setting is a loop nest, the nest is a
   graph, and a graph network turns the graph into numbers from which a
   Bayesian head predicts a time, and says how sure it is.

   Nothing was trained here: the network's weights are random. Even so the head
   learns from 30 measurements to predict settings it has not seen, because the
   graph holds what matters (footprint, vectors, loops). Example 03 shows what
   training adds. */
#include <stdio.h>

#define METATUNE_IMPLEMENTATION
#include "sim.h"

enum { N_SEEN = 30, N_NEW = 60, N = N_SEEN + N_NEW };

int main(void)
{
    sim_device device = {8, 32768, 0.5, 2.0, 128};
    metatune_encode_device sheet = sim_sheet(&device);
    metatune_encode_config size = {SIM_NODES, 0, 0};
    metatune_gnn_config cfg = metatune_gnn_preset(METATUNE_GNN_DEFAULT);
    metatune_encode_nest nest;
    metatune_encode_graph graph;
    const metatune_encode_graph *one = &graph;
    metatune_encode_rng rng;
    metatune_model model;
    metatune_gnn net;
    metatune_head head;
    double sum = 0, square = 0, error = 0, mean;
    int inside = 0, i, k;

    /* every object says its bytes and takes a block of the caller's */
    size_t n_params = metatune_model_param_count(&cfg);
    size_t n_nest = metatune_encode_nest_memsize(&size);
    size_t n_graph = metatune_encode_graph_memsize(&size);
    size_t n_net = metatune_gnn_memsize(&cfg);
    int32_t width = metatune_gnn_phi_width(&cfg);
    size_t n_head = metatune_head_memsize(width);
    metatune_real *params = sim_take(n_params * sizeof *params);
    metatune_real *phi = sim_take((size_t)width * sizeof *phi);
    metatune_encode_nest_init(&nest, &size, sim_take(n_nest), n_nest);
    metatune_encode_graph_init(&graph, &size, sim_take(n_graph), n_graph);
    metatune_model_init(&model, &cfg, params, n_params, 1);
    metatune_gnn_init(&net, &cfg, sim_take(n_net), n_net);
    metatune_head_init(&head, width, sim_take(n_head), n_head);
    /* the weights end in: the head's mean w0, log lambda (width each), s2 */
    metatune_head_prior(&head, metatune_model_log_lambda(&model) - width,
                        metatune_model_log_lambda(&model),
                        params[n_params - 1], 1);
    metatune_encode_rng_init(&rng, 7, 0);

    for (i = 0; i < N; i++) {
        int64_t v[SIM_KNOBS];
        double t, y, mu, var, z;
        for (k = 0; k < SIM_KNOBS; k++)
            v[k] = sim_knobs[k].values[metatune_encode_rng_below(
                &rng, sim_knobs[k].n_values)];
        sim_describe(&device, NULL, v, &nest);
        if (metatune_encode_graph_fill(&graph, &nest, NULL, &sheet) ||
            metatune_gnn_forward(&net, params, &one, 1, phi))
            return 1;
        t = sim_time(&device, v);
        y = log2(graph.t0_s / t); /* what models predict: speed against an
                                     analytic lower bound */
        if (i == 0)
            printf("a setting is a graph of %d nodes, %d edges; bound %.3f "
                   "ms\n\n%-20s %9s %9s %7s\n", graph.n_nodes,
                   graph.row[graph.n_nodes], 1e3 * graph.t0_s,
                   "ti tj tk order", "predicted", "is (ms)", "sigma");
        if (i < N_SEEN) {
            metatune_head_add(&head, phi, y, 1); /* measured */
            metatune_head_solve(&head);
            continue;
        }
        metatune_head_predict(&head, phi, &mu, &var);
        z = (y - mu) / sqrt(var + head.s2);
        inside += fabs(z) < 2;
        error += (y - mu) * (y - mu);
        sum += y;
        square += y * y;
        if (i < N_SEEN + 8)
            printf("%4d %4d %4d %4d %11.3f %9.3f %7.2f\n", (int)v[0],
                   (int)v[1], (int)v[2], (int)v[3],
                   1e3 * graph.t0_s * exp2(-mu), 1e3 * t,
                   sqrt(var + head.s2));
    }
    mean = sum / N_NEW;
    printf("\nunseen settings: error %.2f octaves (predicting the mean: "
           "%.2f); %d of %d within 2 sigma\n", sqrt(error / N_NEW),
           sqrt(square / N_NEW - mean * mean), inside, N_NEW);
    /* the claim: half the error of knowing nothing, sigmas not far off */
    return !(4 * error < square - N_NEW * mean * mean &&
             inside >= N_NEW * 7 / 10);
}
