/* io.h - records from and to the formats of other tuners

   Every importer turns its file into record lines in memory (io_import.lines);
   every exporter walks record logs (io_logs) and appends text. So the CSV of a
   T4 file is import, then export.

   What a foreign format has no place for is kept in one object "metatune"
   beside the format's own fields (the formats allow more members): run, seed,
   trial, task, target... (io_extra_write). With it a log comes back from a
   round trip line for line; without it importing still works.

   Times: files in milliseconds hold the shortest decimal text of the seconds
   with its point moved three places (io_number_write), and reading moves it
   back before the one rounding. So no bit is lost, in any locale. */
#ifndef METATUNE_IO_H
#define METATUNE_IO_H

#include <stdio.h>

#include "cmd_util.h"
#include "json.h"

#define IO_FILE_MAX ((size_t)1 << 30) /* larger input is refused */

/* --------------------------------------------------------------- logs */

typedef struct io_file {
    const char *path;
    char *bytes;
    size_t n;
} io_file;

typedef struct io_logs {
    io_file *file;
    size_t n_files, at, pos;
    size_t n_good;               /* lines handed out */
    size_t n_bad;                /* torn, foreign or corrupt lines */
    size_t n_newer;              /* whole lines of another version */
} io_logs;

/* Read all files; CMD_USAGE after one line when one cannot be. */
int io_logs_open(io_logs *logs, const char *command, size_t n,
                 char *const *paths);
/* The next good record, in the order of the files: 1, or 0 at the end. *line
   is its text without line end. */
int io_logs_next(io_logs *logs, metatune_record *record, metatune_text *line);
/* One step of it: IO_GOOD, IO_BAD, IO_OTHER (a whole line of another version,
   in *line) or IO_END. */
enum { IO_END, IO_GOOD, IO_BAD, IO_OTHER };
int io_logs_step(io_logs *logs, metatune_record *record, metatune_text *line);
void io_logs_rewind(io_logs *logs);
void io_logs_free(io_logs *logs);

/* ------------------------------------------------------------- import */

typedef struct io_import {
    const char *path;
    const char *task, *target;   /* asked for, or NULL: what the file says */
    const char *format;
    cmd_text lines;              /* records made */
    size_t n_trials, n_failed;   /* of them: trials; those without a time */
    size_t n_lines;              /* records of every kind */
    size_t n_bad;                /* entries or lines that were left out */
    size_t n_skipped;            /* comments and blanks */
    int torn;                    /* the file ends too early */
    char why[160];               /* of the first one that was bad */
    json_pool pool;
} io_import;

/* Say why, once, and count. */
void io_bad(io_import *io, size_t count, const char *format, ...)
    CMD_PRINTF(3, 4);
/* Encode and append; fills version, run, strategy, trial where empty. An OK
   trial whose value is no time becomes INVALID_TIME. 1, or 0 and counted. */
int io_emit(io_import *io, metatune_record *record);
/* A line of a log as it is, if it is a good one. */
int io_emit_line(io_import *io, const char *line, size_t n);

/* Readers: the whole file in memory. 1, or 0 when the file is not of that
   format at all or is refused (io->why says why). */
int io_autotvm_read(io_import *io, const char *s, size_t n);
int io_t4_read(io_import *io, const char *s, size_t n);
int io_t1_read(io_import *io, const char *s, size_t n);
int io_kernel_tuner_read(io_import *io, const char *s, size_t n);
int io_csv_read(io_import *io, const char *s, size_t n);

/* ------------------------------------------------------------- export */

typedef struct io_export {
    const char *command;
    const char *task, *target;   /* only these, or NULL */
    int all;                     /* CSV: every line and its rest */
    int listing;                 /* CSV: settings never run, too */
    size_t n_written, n_failed;  /* trials; those without a time */
    size_t n_unit;               /* left out: not in seconds */
} io_export;

/* CMD_OK, or a status after one line. */
int io_t4_write(io_export *x, io_logs *logs, cmd_text *text);
int io_autotvm_write(io_export *x, io_logs *logs, cmd_text *text);
int io_csv_write(io_export *x, io_logs *logs, cmd_text *text);
/* Whether the export wants this record. */
int io_wanted(const io_export *x, const metatune_record *record);
/* A trial that was run, well or badly; NOT_RUN and CANCELLED say nothing. */
int io_is_result(const metatune_record *record);

/* -------------------------------------------------------------- parts */

/* x * 10^shift, exactly, as the shortest text that reads back to x. */
size_t io_number_write(double x, int shift, char *buf, size_t cap);
void io_number_add(cmd_text *text, double x, int shift);
/* The double nearest to text * 10^shift: 1, or 0. */
int io_number_read(const char *text, size_t n, int shift, double *x);
int io_json_scaled(const json_value *v, int shift, double *x);

/* Whether an escaped text of a record says these plain bytes. */
int io_text_is(metatune_text text, const char *plain);
/* Plain bytes in the pool, NUL-terminated. */
const char *io_text_plain(json_pool *pool, metatune_text text, size_t *n);
metatune_text io_text(const char *z);
/* "timeout" for TIMEOUT...; "ok" for OK. */
const char *io_status_word(metatune_status status, char *buf, size_t cap);
/* The status of such a word in any case, or -1. */
int io_status_find(const char *p, size_t n);
/* The status of a failure as Kernel Tuner names it, or -1. */
int io_status_foreign(const char *p, size_t n);

/* {"a":1,"b":"x"} of a record, member by member. A bool becomes 0 or 1 and
   its name goes to *bools (a JSON list without brackets), for exporters to
   make it a bool again. */
void io_knob_add(cmd_text *knobs, cmd_text *bools, const char *key,
                 size_t n_key, const json_value *v);
/* The record's knobs with such bools as `true` and `false`. */
void io_knobs_write(cmd_text *text, json_pool *pool,
                    const metatune_record *record);
/* The members that are not ours, as an object; NULL when there are none. */
const json_value *io_unknown(json_pool *pool, const metatune_record *record);

/* What a format has a place for itself. */
enum { IO_SAMPLES = 1, IO_BUILD = 2, IO_THINK = 4, IO_VALUE = 8 };
/* The rest of a decoded record as an object; `without` names an unknown
   member to leave out, or NULL. */
void io_extra_write(cmd_text *text, json_pool *pool,
                    const metatune_record *record, unsigned has,
                    const char *without);
/* Fill a record for encoding from such an object; status is set only when
   there is one. 1 when x is an object. */
int io_extra_read(io_import *io, const json_value *x, metatune_record *record,
                  int *status);
/* A raw line inside a "line" member of x: emitted, 1. */
int io_extra_line(io_import *io, const json_value *x);

/* The items of an array or members of an object at *i, one by one and as far
   as they are whole. After a broken one, on with the next line that begins
   with `resume`. item is NULL for one that was broken. */
typedef void (*io_item_fn)(void *user, json_value *item);
void io_items(io_import *io, const char *s, size_t n, size_t *i, char close,
              char resume, io_item_fn fn, void *user);

#endif
