/* train_data.c - see train_data.h */
#define _POSIX_C_SOURCE 200809L

#include "train_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_model.h"
#include "replay_describe.h"

static void group_room(train_group *g, size_t n)
{
    g->ptr = (const metatune_encode_graph **)cmd_alloc(
        (n + TRAIN_CAP) * sizeof *g->ptr);
    g->y = (double *)cmd_alloc(n * sizeof *g->y);
    g->time_s = (double *)cmd_alloc(n * sizeof *g->time_s);
    g->order = (uint32_t *)cmd_alloc(n * sizeof *g->order);
    g->index = (uint32_t *)cmd_alloc((n + TRAIN_CAP) * sizeof *g->index);
}

static int group_encode(train_group *g, const data_group *data,
                        const metatune_encode_skeleton *skeletons,
                        metatune_encode_nest *nest, size_t *refused)
{
    metatune_encode_config cfg;
    host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
    size_t i, bytes;
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = CMD_NODES;
    bytes = (metatune_encode_graph_memsize(&cfg) + 63) & ~(size_t)63;
    memset(g, 0, sizeof *g);
    g->data = data;
    g->mem = (char *)cmd_alloc(data->n * bytes);
    g->graph = (metatune_encode_graph *)cmd_alloc(data->n * sizeof *g->graph);
    group_room(g, data->n);
    if (host_kernel_init(kernel, &data->conv, &data->march, NULL, 0) !=
            METATUNE_OK ||
        host_kernel_nest_begin(kernel, nest) != METATUNE_OK) {
        free(kernel);
        return 0;
    }
    for (i = 0; i < data->n; i++) {
        const data_row *row = &data->row[i];
        metatune_encode_graph *graph = &g->graph[g->n];
        if (row->status != METATUNE_OK || row->mark == 'x')
            continue;
        if (!host_kernel_valid(kernel, row->values) ||
            host_kernel_describe(kernel, row->values, nest) != METATUNE_OK ||
            nest->skeleton < 0 || nest->skeleton >= HOST_ALGORITHMS) {
            ++*refused;
            continue;
        }
        if (metatune_encode_graph_init(graph, &cfg, g->mem + g->n * bytes,
                                       bytes) != METATUNE_OK ||
            metatune_encode_graph_fill(graph, nest,
                                       &skeletons[nest->skeleton],
                                       &data->device) != METATUNE_OK ||
            !(graph->t0_s > 0)) {
            ++*refused;
            continue;
        }
        g->y[g->n] = log2(graph->t0_s / row->time_s);
        g->time_s[g->n] = row->time_s;
        g->n++;
    }
    free(kernel);
    return 1;
}

/* -------------------------------------------------------------- roles */

static int names_layer(const char *name, const char *layer)
{
    size_t n = strlen(name);
    return strncmp(layer, name, n) == 0 &&
           (layer[n] == 0 || layer[n] == '/');
}

/* Of the shape of a layer that was named, be it another network's or one that
   was not measured. */
static int shape_is_out(const train_split *split, const data_set *data,
                        const data_group *group)
{
    size_t i, j;
    for (i = 0; i < split->n_shapes; i++) {
        const char *name = split->shapes[i];
        int32_t k;
        for (j = 0; j < data->n; j++)
            if (names_layer(name, data->group[j].layer) &&
                nets_same_shape(&data->group[j].conv, &group->conv))
                return 1;
        for (k = 0; k < nets_count(); k++) {
            const nets_layer *layer = nets_get(k);
            char full[64];
            snprintf(full, sizeof full, "%s/%s", layer->net, layer->layer);
            if (names_layer(name, full) &&
                nets_same_shape(&layer->conv, &group->conv))
                return 1;
        }
    }
    return 0;
}

static int target_is_out(const train_split *split, const data_group *group)
{
    size_t i;
    for (i = 0; i < split->n_targets; i++) {
        /* "lanes=1" is no part of "lanes=16" */
        const char *want = split->targets[i], *at = group->target;
        size_t n = strlen(want);
        while ((at = strstr(at, want)) != NULL) {
            if ((at == group->target || at[-1] == ',') &&
                (at[n] == 0 || at[n] == ',' || want[n - 1] == '_'))
                return 1;
            at += n;
        }
    }
    return 0;
}

int train_role(const train_split *split, const data_set *data,
               const data_group *group)
{
    metatune_encode_conv2d shape;
    char spec[256] = "";
    int shape_out = shape_is_out(split, data, group);
    int target_out = target_is_out(split, group);
    if ((shape_out || !split->n_shapes) && (target_out || !split->n_targets) &&
        (shape_out || target_out))
        return TRAIN_HELD_OUT;
    if (shape_out || target_out)
        return TRAIN_LEFT_OUT;
    /* every eighth shape, whatever its target, layout and type */
    shape = group->conv;
    shape.dtype_in = shape.dtype_out = shape.dtype_acc = METATUNE_F32;
    shape.layout = METATUNE_NCHW;
    shape.block = 0;
    metatune_encode_conv2d_spec(&shape, spec, sizeof spec);
    return metatune_encode_hash(split->seed, spec, strlen(spec)) % 8 == 0
               ? TRAIN_VALIDATE : TRAIN_ON;
}

/* A recorded table as a group: CMD_OK, or CMD_USAGE after one line. */
static int table_encode(train_group *g, const replay_table *table,
                        replay_skeletons *skeletons, size_t *refused)
{
    char *ok;
    uint32_t i;
    int st;
    memset(g, 0, sizeof *g);
    if (!replay_has_nests(table))
        return cmd_fail(CMD_USAGE, "train: %s has no loop nests to learn "
                        "from", table->name);
    st = replay_skeletons_open(skeletons, table);
    if (st != CMD_OK)
        return st;
    ok = (char *)cmd_alloc(table->n_rows);
    g->graph = replay_encode(table, skeletons, &g->mem, ok);
    group_room(g, table->n_rows);
    for (i = 0; i < table->n_rows; i++) {
        if (!(table->time_s[i] > 0))
            continue;
        if (!ok[i]) {
            ++*refused;
            continue;
        }
        g->graph[g->n] = g->graph[i];
        g->y[g->n] = log2(g->graph[i].t0_s / table->time_s[i]);
        g->time_s[g->n++] = table->time_s[i];
    }
    free(ok);
    return CMD_OK;
}

static int table_role(const train_split *split, const replay_table *table)
{
    size_t i;
    for (i = 0; i < split->n_shapes; i++)
        if (strcmp(split->shapes[i], table->name) == 0)
            return TRAIN_HELD_OUT;
    return TRAIN_ON;
}

static void role_count(train_set *set, size_t i)
{
    train_group *g = &set->group[i];
    if (g->n < TRAIN_LEAST)
        return;
    set->n_role[g->role]++;
    if (g->role == TRAIN_ON) {
        set->pick[set->n_pick++] = i;
        set->rows += g->n;
    }
}

int train_set_open(train_set *set, const data_set *data,
                   const replay_tables *tables, const train_split *split)
{
    metatune_encode_config cfg;
    metatune_encode_nest nest;
    void *nest_mem;
    size_t i, bytes;
    int st;
    memset(set, 0, sizeof *set);
    st = cmd_skeletons_build(set->skeleton, set->skeleton_mem);
    if (st != CMD_OK)
        return st;
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = CMD_NODES;
    bytes = metatune_encode_nest_memsize(&cfg);
    nest_mem = cmd_alloc(bytes);
    metatune_encode_nest_init(&nest, &cfg, nest_mem, bytes);
    set->n_tables = tables ? tables->n : 0;
    set->n = data->n + set->n_tables;
    set->group = (train_group *)cmd_alloc((set->n + 1) * sizeof *set->group);
    set->pick = (size_t *)cmd_alloc((set->n + 1) * sizeof *set->pick);
    set->of_tables = (replay_skeletons *)cmd_alloc(
        (set->n_tables + 1) * sizeof *set->of_tables);
    for (i = 0; i < data->n; i++) {
        train_group *g = &set->group[i];
        int have = group_encode(g, &data->group[i], set->skeleton, &nest,
                                &set->refused);
        g->role = train_role(split, data, &data->group[i]);
        if (have)
            role_count(set, i);
    }
    for (i = 0; i < set->n_tables && st == CMD_OK; i++) {
        train_group *g = &set->group[data->n + i];
        st = table_encode(g, &tables->table[i], &set->of_tables[i],
                          &set->refused);
        g->role = table_role(split, &tables->table[i]);
        if (st == CMD_OK)
            role_count(set, data->n + i);
    }
    free(nest_mem);
    if (st == CMD_OK && set->n_pick == 0)
        st = cmd_fail(CMD_USAGE, "train: no layer with at least %d measured "
                      "settings is left to train on", TRAIN_LEAST);
    return st;
}

void train_set_close(train_set *set)
{
    size_t i;
    for (i = 0; set->group && i < set->n; i++) {
        free(set->group[i].mem);
        free(set->group[i].graph);
        free((void *)set->group[i].ptr);
        free(set->group[i].y);
        free(set->group[i].time_s);
        free(set->group[i].order);
        free(set->group[i].index);
    }
    for (i = 0; i < HOST_ALGORITHMS; i++)
        free(set->skeleton_mem[i]);
    for (i = 0; i < set->n_tables; i++)
        replay_skeletons_close(&set->of_tables[i]);
    free(set->of_tables);
    free(set->group);
    free(set->pick);
    memset(set, 0, sizeof *set);
}
