/* bench_ours.h - the winners of record logs as entries of bench_conv */
#ifndef METATUNE_BENCH_OURS_H
#define METATUNE_BENCH_OURS_H

#include "bench_rival.h"
#include "export_header.h"
#include "host_run.h"

/* All records of one target. Each path is a log, or a folder whose .jsonl
   files are taken. CMD_OK, or a status after one line. */
int bench_ours_read(export_table *table, char *const *paths, size_t n,
                    const char *target);
/* Do they hold a valid trial of this target? */
int bench_ours_hold(char *const *paths, size_t n, const char *target);

/* Is there a setting of this layer in this layout? */
int bench_ours_has(const host_run *run, const export_table *table,
                   const metatune_encode_conv2d *conv, int32_t layout);

enum { BENCH_OURS_NONE = 0, BENCH_OURS_OPEN = 1, BENCH_OURS_BAD = -1 };

typedef struct bench_winner {
    int64_t values[HOST_KNOBS];
    const char *algorithm;
} bench_winner;

/* The table's setting of the layer in this layout, built and ready on `parts`
   threads (at most those of the run); table NULL: the default setting. NONE:
   no record; BAD: not to be used, after one line. */
int bench_ours_open(host_run *run, const export_table *table,
                    const bench_case *c, int32_t layout, int parts,
                    bench_entry *e, bench_winner *winner);

#endif
