/* train_team.c - see train_team.h */
#define _POSIX_C_SOURCE 200809L

#include "train_team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void episode_run(train_worker *w, int e)
{
    static const size_t supports[] = { 0, 4, 8, 16, 32, 64 };
    train_team *team = w->team;
    const metatune_encode_graph *graphs[TRAIN_CAP];
    double y[TRAIN_CAP];
    metatune_encode_rng rng;
    const train_group *g;
    size_t k, m, i, bytes = team->n_params * sizeof *team->grad;
    metatune_encode_rng_init(&rng, team->seed,
                             team->step * TEAM_META_BATCH + (uint64_t)e + 1);
    g = &team->set->group[team->set->pick[metatune_encode_rng_below(
        &rng, team->set->n_pick)]];
    k = team->method == TEAM_JOINT ? 0
        : team->method == TEAM_MAML
            ? (size_t)TEAM_MAML_POINTS
            : supports[metatune_encode_rng_below(&rng, 6)];
    m = metatune_episode_draw(&rng, g->y, g->n, &k,
                              team->method == TEAM_MAML
                                  ? (size_t)TEAM_MAML_POINTS : TRAIN_QUERY,
                              w->order, w->index);
    team->made[e] = m > k;
    team->loss[e] = 0;
    team->status[e] = METATUNE_OK;
    if (!team->made[e])
        return;
    for (i = 0; i < m; i++) {
        graphs[i] = &g->graph[w->index[i]];
        y[i] = g->y[w->index[i]];
    }
    if (team->method == TEAM_MAML) {
        memset(w->maml.grad, 0, bytes);
        team->status[e] = metatune_maml_episode(&w->maml, graphs, y, k, m - k,
                                                &team->loss[e]);
        memcpy(team->grad + (size_t)e * team->n_params, w->maml.grad, bytes);
        return;
    }
    memset(w->trainer.grad, 0, bytes);
    team->status[e] = metatune_train_episode(&w->trainer, graphs, y, k, m - k,
                                             &team->loss[e]);
    memcpy(team->grad + (size_t)e * team->n_params, w->trainer.grad, bytes);
}

static void share_run(train_worker *w)
{
    int e;
    for (e = w->at; e < TEAM_META_BATCH; e += w->team->n_workers)
        episode_run(w, e);
}

static void *worker_main(void *arg)
{
    train_worker *w = (train_worker *)arg;
    pthread_mutex_lock(&w->team->gate);
    pthread_mutex_unlock(&w->team->gate);
    for (;;) {
        pthread_barrier_wait(&w->team->begin);
        if (w->team->stop)
            return NULL;
        share_run(w);
        pthread_barrier_wait(&w->team->end);
    }
}

metatune_status train_team_open(train_team *team,
                                const metatune_train_config *cfg,
                                metatune_real *params, size_t n_params,
                                const train_set *set, int n_threads,
                                int method)
{
    size_t bytes = metatune_train_memsize(cfg), most = 1, i;
    int w;
    memset(team, 0, sizeof *team);
    if (!bytes)
        return METATUNE_BAD_CONFIG;
    if (n_threads < 1)
        n_threads = 1;
    if (n_threads > TEAM_CAP)
        n_threads = TEAM_CAP;
    for (i = 0; i < set->n; i++)
        if (set->group[i].n > most)
            most = set->group[i].n;
    team->params = params;
    team->method = method;
    team->n_params = n_params;
    team->grad = (metatune_real *)cmd_alloc(TEAM_META_BATCH * n_params *
                                            sizeof *team->grad);
    for (w = 0; w < n_threads; w++) {
        train_worker *it = &team->worker[w];
        metatune_status st;
        it->team = team;
        it->at = w;
        it->mem = cmd_alloc(bytes);
        it->order = (uint32_t *)cmd_alloc(most * sizeof *it->order);
        st = metatune_train_init(&it->trainer, cfg, params, n_params, it->mem,
                                 bytes);
        if (st == METATUNE_OK && method == TEAM_MAML) {
            metatune_maml_config maml;
            size_t need;
            memset(&maml, 0, sizeof maml);
            maml.gnn = cfg->gnn;
            maml.steps = TEAM_MAML_STEPS;
            maml.rate = TEAM_MAML_RATE;
            need = metatune_maml_memsize(&maml);
            it->maml_mem = cmd_alloc(need ? need : 1);
            st = metatune_maml_init(&it->maml, &maml, params, n_params,
                                    it->maml_mem, need);
        }
        if (st != METATUNE_OK) {
            train_team_close(team);
            return st;
        }
    }
    /* as many as can be had: fewer are slower and nothing else. They wait at
       the gate until it is known how many they are. */
    team->n_workers = 1;
    pthread_mutex_init(&team->gate, NULL);
    pthread_mutex_lock(&team->gate);
    while (team->n_workers < n_threads &&
           pthread_create(&team->worker[team->n_workers].thread, NULL,
                          worker_main, &team->worker[team->n_workers]) == 0)
        team->n_workers++;
    if (team->n_workers > 1) {
        pthread_barrier_init(&team->begin, NULL, (unsigned)team->n_workers);
        pthread_barrier_init(&team->end, NULL, (unsigned)team->n_workers);
    }
    pthread_mutex_unlock(&team->gate);
    return METATUNE_OK;
}

void train_team_close(train_team *team)
{
    int w;
    if (team->n_workers > 1) {
        team->stop = 1;
        pthread_barrier_wait(&team->begin);
        for (w = 1; w < team->n_workers; w++)
            pthread_join(team->worker[w].thread, NULL);
        pthread_barrier_destroy(&team->begin);
        pthread_barrier_destroy(&team->end);
    }
    if (team->n_workers > 0)
        pthread_mutex_destroy(&team->gate);
    for (w = 0; w < TEAM_CAP; w++) {
        free(team->worker[w].mem);
        free(team->worker[w].maml_mem);
        free(team->worker[w].order);
    }
    free(team->grad);
    memset(team, 0, sizeof *team);
}

metatune_status train_team_step(train_team *team, train_set *set,
                                uint64_t seed, uint64_t step, double rate,
                                double *loss)
{
    train_worker *lead = &team->worker[0];
    int maml = team->method == TEAM_MAML;
    metatune_real *total = maml ? lead->maml.grad : lead->trainer.grad;
    metatune_status st;
    double sum = 0;
    size_t i;
    uint32_t made = 0;
    int e;
    team->set = set;
    team->seed = seed;
    team->step = step;
    if (team->n_workers > 1)
        pthread_barrier_wait(&team->begin);
    share_run(&team->worker[0]);
    if (team->n_workers > 1)
        pthread_barrier_wait(&team->end);
    memset(total, 0, team->n_params * sizeof *total);
    for (e = 0; e < TEAM_META_BATCH; e++) {
        const metatune_real *grad = team->grad + (size_t)e * team->n_params;
        if (!team->made[e])
            continue;
        if (team->status[e] != METATUNE_OK)
            return team->status[e];
        for (i = 0; i < team->n_params; i++)
            total[i] += grad[i];
        sum += team->loss[e];
        made++;
    }
    *loss = made ? sum / made : (double)NAN;
    if (!made)
        return METATUNE_OK;
    if (maml) {
        lead->maml.n_episodes = made;
        st = metatune_maml_step(&lead->maml, rate);
    } else {
        lead->trainer.n_episodes = made;
        st = metatune_train_step(&lead->trainer, rate);
    }
    /* a step that is refused leaves the weights as they were */
    return st == METATUNE_NOT_FINITE ? METATUNE_OK : st;
}
