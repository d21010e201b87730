/* replay_describe.c - see replay_describe.h */
#define _POSIX_C_SOURCE 200809L

#include "replay_describe.h"

#include <stdlib.h>
#include <string.h>

#include "cmd_model.h"

int replay_skeletons_open(replay_skeletons *s, const replay_table *table)
{
    metatune_encode_config cfg;
    metatune_encode_nest nest;
    void *nest_mem = NULL;
    size_t bytes;
    uint32_t n;
    int st = CMD_OK;
    memset(s, 0, sizeof *s);
    s->n = HOST_ALGORITHMS;
    if (!table->autotvm && !table->gpu)
        return cmd_skeletons_build(s->skeleton, s->mem);
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = CMD_NODES;
    bytes = metatune_encode_skeleton_memsize(&cfg);
    (void)replay_nest_open(&nest, &nest_mem);
    n = table->gpu ? (uint32_t)GPU_KERNELS : (uint32_t)AUTOTVM_TEMPLATES;
    for (s->n = 0; s->n < n && st == CMD_OK; s->n++) {
        uint32_t i = s->n;
        s->mem[i] = cmd_alloc(bytes);
        if (metatune_encode_skeleton_init(&s->skeleton[i], &cfg, s->mem[i],
                                          bytes) != METATUNE_OK ||
            (table->gpu ? replay_gpu_skeleton((int32_t)i, &nest)
                        : replay_autotvm_skeleton((int32_t)i, &nest)) !=
                METATUNE_OK ||
            metatune_encode_skeleton_build(&s->skeleton[i], &nest) !=
                METATUNE_OK)
            st = cmd_fail(CMD_FAILED, "%s: its skeleton cannot be built",
                          table->name);
    }
    free(nest_mem);
    return st;
}

void replay_skeletons_close(replay_skeletons *s)
{
    int i;
    for (i = 0; i < HOST_ALGORITHMS; i++)
        free(s->mem[i]);
    memset(s, 0, sizeof *s);
}

int replay_has_nests(const replay_table *table)
{
    return table->kernel || table->autotvm || table->gpu;
}

metatune_status replay_nest_open(metatune_encode_nest *nest, void **mem)
{
    metatune_encode_config cfg;
    size_t bytes;
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = CMD_NODES;
    bytes = metatune_encode_nest_memsize(&cfg);
    *mem = cmd_alloc(bytes);
    return metatune_encode_nest_init(nest, &cfg, *mem, bytes);
}

metatune_status replay_describe(void *user, const metatune_problem *problem,
                                const int64_t *values,
                                metatune_encode_nest *nest)
{
    const replay_table *table = (const replay_table *)user;
    (void)problem;
    if (table->autotvm)
        return replay_autotvm_describe(table->autotvm, values, nest);
    if (table->gpu)
        return replay_gpu_describe(table->gpu, values, nest);
    return table->kernel ? host_kernel_describe(table->kernel, values, nest)
                         : METATUNE_BAD_NEST;
}

metatune_encode_graph *replay_encode(const replay_table *table,
                                     const replay_skeletons *skeletons,
                                     char **mem, char *ok)
{
    metatune_encode_config cfg;
    metatune_encode_nest nest;
    metatune_encode_graph *graph = (metatune_encode_graph *)cmd_alloc(
        table->n_rows * sizeof *graph);
    void *nest_mem = NULL;
    size_t bytes;
    uint32_t i;
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = CMD_NODES;
    bytes = (metatune_encode_graph_memsize(&cfg) + 63) & ~(size_t)63;
    *mem = (char *)cmd_alloc(table->n_rows * bytes);
    (void)replay_nest_open(&nest, &nest_mem);
    for (i = 0; i < table->n_rows; i++) {
        const int64_t *values = table->value + (size_t)i * table->n_knobs;
        ok[i] = replay_describe((void *)(uintptr_t)table, NULL, values,
                                &nest) == METATUNE_OK &&
                nest.skeleton >= 0 && (uint32_t)nest.skeleton < skeletons->n &&
                metatune_encode_graph_init(&graph[i], &cfg,
                                           *mem + i * bytes, bytes) ==
                    METATUNE_OK &&
                metatune_encode_graph_fill(
                    &graph[i], &nest, &skeletons->skeleton[nest.skeleton],
                    &table->device) == METATUNE_OK &&
                graph[i].t0_s > 0;
    }
    free(nest_mem);
    return graph;
}
