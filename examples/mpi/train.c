/* train.c - data-parallel meta-training: the episodes of a meta-batch are dealt
   to the ranks, and every rank makes the same step. The weights are the same
   bit for bit on any number of ranks, because floating-point sums depend on
   their order and the order is fixed: each episode's gradient is computed on
   its own, gathered, and summed in episode order by everyone.

   The library knows nothing of it. One hook stands between the episodes and
   metatune_train_step(): exchange(), which makes the rows of all episodes known
   to all. Without MPI it would do nothing.

     mpirun -n 4 train                   [--steps N] */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define METATUNE_IMPLEMENTATION
#include "../sim.h"

enum { DEVICES = 9, SEEN = DEVICES - 1, POINTS = 64, QUERY = 16,
       META_BATCH = 8 };

/* ------------------------------------------- the hook and the training loop */

/* Rows begin..end-1 of (n_episodes, width) are this rank's; afterwards all
   rows are there. width counts the gradient and, last, the loss. */
typedef int (*exchange_fn)(void *user, metatune_real *rows, int n_episodes,
                           size_t width);

typedef struct episode {
    const metatune_encode_graph *graphs[POINTS];
    double y[POINTS];
    size_t n_support, n_query;
} episode;

typedef struct team {
    int rank, size;
    metatune_real *rows;         /* (META_BATCH, n_params + 1) */
    exchange_fn exchange;
    void *user;
} team;

/* Episodes of rank r: [deal(r), deal(r + 1)). */
static int deal(const team *t, int rank)
{
    return META_BATCH * rank / t->size;
}

/* One step over a meta-batch, which is the same on every rank. */
static metatune_status team_step(team *t, metatune_trainer *trainer,
                                 const episode *batch, double rate,
                                 double *loss)
{
    size_t n = trainer->n_params, width = n + 1, i;
    int e, bad = 0;
    for (e = deal(t, t->rank); e < deal(t, t->rank + 1); e++) {
        metatune_real *row = t->rows + (size_t)e * width;
        double of = 0;
        /* from zero: a sum that goes on from another episode's would depend
           on who had that one */
        memset(trainer->grad, 0, n * sizeof *trainer->grad);
        if (metatune_train_episode(trainer, batch[e].graphs, batch[e].y,
                                   batch[e].n_support, batch[e].n_query, &of))
            of = HUGE_VAL; /* all ranks see it and stop together */
        memcpy(row, trainer->grad, n * sizeof *row);
        row[n] = (metatune_real)of;
    }
    if (t->exchange(t->user, t->rows, META_BATCH, width))
        return METATUNE_IO;
    memset(trainer->grad, 0, n * sizeof *trainer->grad);
    *loss = 0;
    for (e = 0; e < META_BATCH; e++) {
        const metatune_real *row = t->rows + (size_t)e * width;
        for (i = 0; i < n; i++)
            trainer->grad[i] += row[i];
        *loss += (double)row[n] / META_BATCH;
        bad |= !(row[n] - row[n] <= 0);
    }
    trainer->n_episodes = META_BATCH;
    return bad ? METATUNE_NOT_FINITE : metatune_train_step(trainer, rate);
}

static int mpi_exchange(void *user, metatune_real *rows, int n_episodes,
                        size_t width)
{
    team *t = (team *)user;
    int count[META_BATCH + 1], at[META_BATCH + 1], r;
    (void)n_episodes;
    for (r = 0; r < t->size; r++) {
        at[r] = deal(t, r) * (int)width;
        count[r] = deal(t, r + 1) * (int)width - at[r];
    }
    return MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rows, count, at,
                          sizeof *rows == 8 ? MPI_DOUBLE : MPI_FLOAT,
                          MPI_COMM_WORLD);
}

/* --------------------------------------------------------------- the data */

/* lanes, L1, cost of loops, of traffic, size; the last is the new one */
static const sim_device devices[DEVICES] = {
    {4, 16384, 0.5, 3.0, 128}, {4, 65536, 1.5, 1.0, 128},
    {8, 32768, 0.3, 4.0, 128}, {16, 32768, 1.0, 2.0, 256},
    {16, 65536, 2.0, 3.0, 256}, {4, 32768, 1.0, 2.0, 256},
    {8, 65536, 0.6, 1.5, 128}, {16, 16384, 1.5, 2.5, 128},
    {8, 49152, 1.2, 2.5, 128}};
static metatune_encode_graph graphs[DEVICES][POINTS];
static double y[DEVICES][POINTS];
static double seconds[DEVICES][POINTS];

static void *take(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

static int collect(void)
{
    metatune_encode_config size = {SIM_NODES, 0, 0};
    metatune_encode_nest nest;
    metatune_encode_rng rng;
    size_t bytes = metatune_encode_nest_memsize(&size);
    int d, i, k;
    metatune_encode_rng_init(&rng, 3, 0);
    metatune_encode_nest_init(&nest, &size, take(bytes), bytes);
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
            if (metatune_encode_graph_init(g, &size, take(bytes), bytes) ||
                metatune_encode_graph_fill(g, &nest, NULL, &sheet))
                return 1;
            seconds[d][i] = sim_time(&device, v);
            y[d][i] = log2(g->t0_s / seconds[d][i]);
        }
    return 0;
}

static void draw(metatune_encode_rng *rng, episode *e)
{
    size_t d = (size_t)metatune_encode_rng_below(rng, SEEN), i, m;
    uint32_t order[POINTS], index[POINTS];
    e->n_support = 1 + (size_t)metatune_encode_rng_below(rng, 8);
    m = metatune_episode_draw(rng, y[d], POINTS, &e->n_support, QUERY, order,
                              index);
    e->n_query = m - e->n_support;
    for (i = 0; i < m; i++) {
        e->graphs[i] = &graphs[d][index[i]];
        e->y[i] = y[d][index[i]];
    }
}

/* On the new device: of what is not measured yet, take what is predicted to be
   fastest; seconds of the best after n_seen + 1 measurements. */
static double pick(metatune_trainer *trainer, size_t n_seen)
{
    const metatune_encode_graph *at[POINTS];
    double mu[POINTS], var[POINTS], loss, best = HUGE_VAL, top = -HUGE_VAL;
    size_t i, choice = 0;
    for (i = 0; i < POINTS; i++)
        at[i] = &graphs[SEEN][i];
    metatune_train_evaluate(trainer, at, y[SEEN], n_seen, POINTS - n_seen, mu,
                            var, &loss);
    for (i = n_seen; i < POINTS; i++) {
        double speed = mu[i - n_seen] - log2(at[i]->t0_s);
        if (speed > top) {
            top = speed;
            choice = i;
        }
    }
    for (i = 0; i < n_seen; i++)
        best = seconds[SEEN][i] < best ? seconds[SEEN][i] : best;
    return seconds[SEEN][choice] < best ? seconds[SEEN][choice] : best;
}

int main(int argc, char **argv)
{
    metatune_train_config config = {.cap_points = POINTS};
    metatune_trainer trainer;
    metatune_model model;
    metatune_encode_rng rng;
    team t;
    metatune_real *params;
    episode batch[META_BATCH];
    double scratch[2], trained[2], loss = 0, sum = 0, start, took;
    size_t n, bytes;
    int step, steps = 200, i;
    MPI_Init(&argc, &argv);
    if (argc == 3 && !strcmp(argv[1], "--steps"))
        steps = atoi(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t.size);
    if (t.size > META_BATCH) {
        if (t.rank == 0)
            fprintf(stderr, "train: a meta-batch of %d feeds %d ranks at "
                    "most\n", META_BATCH, META_BATCH);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    config.gnn = metatune_gnn_preset(METATUNE_GNN_TINY);
    config.gnn.cap_batch = POINTS;
    n = metatune_model_param_count(&config.gnn);
    params = (metatune_real *)take(n * sizeof *params);
    t.rows = (metatune_real *)take(META_BATCH * (n + 1) * sizeof *params);
    t.exchange = mpi_exchange;
    t.user = &t;
    bytes = metatune_train_memsize(&config);
    metatune_encode_rng_init(&rng, 5, 0); /* every rank draws all episodes */
    if (collect() ||
        metatune_model_init(&model, &config.gnn, params, n, 1) ||
        metatune_train_init(&trainer, &config, params, n, take(bytes), bytes))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (i = 0; i < 2; i++)
        scratch[i] = pick(&trainer, i ? 4 : 0);
    start = MPI_Wtime();
    for (step = 1; step <= steps; step++) {
        for (i = 0; i < META_BATCH; i++)
            draw(&rng, &batch[i]);
        if (team_step(&t, &trainer, batch, 3e-3, &loss))
            MPI_Abort(MPI_COMM_WORLD, 1);
        sum += loss;
        if (step % 50 == 0 && t.rank == 0)
            printf("step %3d: loss %6.3f nats each\n", step, sum / 50);
        if (step % 50 == 0)
            sum = 0;
    }
    took = MPI_Wtime() - start;
    for (i = 0; i < 2; i++)
        trained[i] = pick(&trainer, i ? 4 : 0);
    if (t.rank == 0) {
        printf("ranks %d, episodes a second %.0f, weights %016" PRIx64 "\n",
               t.size, META_BATCH * steps / took,
               metatune_model_hash(params, n));
        printf("a device never seen, ms: untrained %.4f, trained %.4f (1 "
               "trial); %.4f, %.4f (5)\n", 1e3 * scratch[0], 1e3 * trained[0],
               1e3 * scratch[1], 1e3 * trained[1]);
    }
    MPI_Finalize();
    return 0;
}
