/* export_header.h - the best of record logs as a lookup table

   `metatune export --format header` writes the table as a C header, `metatune
   lookup` asks it at once. Only one target a table: logs that hold several are
   refused unless one is chosen. A task's row is the setting with the best
   median of confirm trials, or, when none was confirmed, the best trial. The
   default is, of the settings measured on every task, the one with the least
   geometric mean of its slowdowns; none when no setting was. */
#ifndef METATUNE_EXPORT_HEADER_H
#define METATUNE_EXPORT_HEADER_H

#include <stdio.h>

#include "cmd_util.h"

typedef struct export_table {
    metatune_lookup_table table; /* its rows sorted; all memory owned */
    char **task;                 /* (n_rows) the rows' keys as text */
    size_t n_good;               /* trials it was made from */
    size_t n_failed;             /* trials without a time */
    size_t n_bad;                /* torn or foreign lines */
    size_t n_other;              /* trials of other targets, left out */
    size_t n_left;               /* trials of other knobs or units, left out:
                                    the newest trial says which are right */
    struct export_pool *pool;
} export_table;

/* Read logs (JSON lines), or CSV files with columns `task`, `time_ms` and one
   a knob (`status` and `target` are known, too). target NULL: the only one
   that is there; or_the_only = 1: that one, even if it is not `target` (the
   lookup then says so). CMD_OK, or a status after one line that begins with
   `command`: CMD_USAGE for files that cannot be read or hold no line, several
   targets, or not the one asked for; CMD_FAILED when nothing valid is there. */
int export_table_read(export_table *x, const char *command, size_t n_logs,
                      char *const *logs, const char *target, int or_the_only);
void export_table_free(export_table *x);

/* The header's text: `static const metatune_lookup_table NAME`. name is a C
   identifier, NULL = "metatune_table". A status after one line. */
int export_header_text(const export_table *x, const char *name,
                       cmd_text *text);

/* `metatune export LOG... --format header [--name NAME] [--target KEY]`. */
int export_header_main(int n_logs, char **logs, const char *name,
                       const char *target, FILE *out);

#endif
