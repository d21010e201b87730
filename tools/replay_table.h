/* replay_table.h - a recorded table as a space to search

   The rows are the space: settings with the time each once took. Columns and
   rows are brought into an order of their own that depends on what they hold
   and neither on names nor on the order in the file, so that a replay depends
   on neither. */
#ifndef METATUNE_REPLAY_TABLE_H
#define METATUNE_REPLAY_TABLE_H

#include "replay_autotvm.h"
#include "replay_gpu.h"
#include "train_data.h"

enum { REPLAY_NAME = 160 };

typedef struct replay_table {
    char name[REPLAY_NAME];      /* file, or layer of a collect file */
    uint32_t n_knobs, n_rows;
    metatune_knob *knob;         /* (n_knobs) values ascending */
    int64_t *value;              /* (n_rows, n_knobs) */
    uint16_t *digits;            /* (n_rows, n_knobs) */
    double *time_s;              /* (n_rows) 0: it failed */
    double optimum_s;            /* the fastest row's */
    /* how to describe rows: of `metatune collect`, AutoTVM's, of a GPU; all
       NULL: they are knob values and no more */
    host_kernel *kernel;
    replay_autotvm *autotvm;
    replay_gpu *gpu;
    metatune_encode_device device;
    char *store;                 /* names and values of the knobs */
} replay_table;

/* A list that grows. */
typedef struct replay_tables {
    replay_table *table;
    size_t n, cap;
} replay_tables;

/* Add what a file holds: a CSV with knob columns, `status` and `time_ms` is
   one table, a file of `metatune collect` one a layer, or with "FILE:LAYER"
   that layer alone. Rows that a tuner proposed or that were measured while the
   machine drifted are left out; with a split, so are layers that it holds or
   leaves out. CMD_OK, or CMD_USAGE after one line. */
int replay_tables_read(replay_tables *tables, const char *path,
                       const train_split *split);
void replay_tables_free(replay_tables *tables);

/* The row of a setting's digits; n_rows when there is none. */
uint32_t replay_table_find(const replay_table *table, const uint16_t *digits);
/* Bring the columns of `other` into the order of `table`, by name: values
   (other->n_rows, table->n_knobs), 0 where it has no such column. To be
   freed. */
int64_t *replay_table_aligned(const replay_table *table,
                              const replay_table *other);
/* The row whose values are nearest: differing knobs, then the sum of
   |log2 a - log2 b| (1 + |x| of what is below 1). */
uint32_t replay_table_nearest(const replay_table *table,
                              const int64_t *values);

#endif
