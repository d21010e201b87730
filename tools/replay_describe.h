/* replay_describe.h - what a table's settings look like to the model */
#ifndef METATUNE_REPLAY_DESCRIBE_H
#define METATUNE_REPLAY_DESCRIBE_H

#include "replay_table.h"

/* Skeletons of a table's nests. */
typedef struct replay_skeletons {
    metatune_encode_skeleton skeleton[HOST_ALGORITHMS];
    void *mem[HOST_ALGORITHMS];
    uint32_t n;
} replay_skeletons;

int replay_skeletons_open(replay_skeletons *s, const replay_table *table);
void replay_skeletons_close(replay_skeletons *s);

/* Has the table loop nests? Others have their knobs alone. */
int replay_has_nests(const replay_table *table);
/* A nest with room for any table, in memory of its own (*mem, to be freed). */
metatune_status replay_nest_open(metatune_encode_nest *nest, void **mem);
/* metatune_describe_fn; user is the table. */
metatune_status replay_describe(void *user, const metatune_problem *problem,
                                const int64_t *values,
                                metatune_encode_nest *nest);

/* Encode every row: graphs (n_rows) whose memory is *mem; ok (n_rows) says
   which could be. To be freed. */
metatune_encode_graph *replay_encode(const replay_table *table,
                                     const replay_skeletons *skeletons,
                                     char **mem, char *ok);

#endif
