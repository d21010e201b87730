/* report_data.h - what a report says, gathered from record logs

   log      one file
   group    (log, target): what is laid side by side
   layer    one task key, over all logs
   series   one run of a layer: the trials that share file, target, run id,
            strategy, space and unit, in the order of the file. When batch 0
            comes again after later ones (the same seed run twice into one
            file without --resume) a new series begins
   cell     (layer, group): its best run that is not random, and its random
            runs, which serve as a baseline

   Texts are unescaped, NUL-terminated (a NUL inside becomes \1) and as hostile
   as the log: whoever prints them escapes them. */
#ifndef METATUNE_REPORT_DATA_H
#define METATUNE_REPORT_DATA_H

#include "cmd_util.h"

enum {
    REPORT_KNOB_VALUES = 64,     /* distinct values kept a knob */
    REPORT_RERUNS = 8,           /* series a run id may become */
    REPORT_MESSAGES = 64,        /* distinct failure texts kept a layer */
    REPORT_STATUSES = 10
};

/* the model's 90 % interval: mean * 2^(+-REPORT_Z90 sigma) */
#define REPORT_Z90 1.6448536269514722
/* differences below this are noise on a machine that is not a laboratory */
#define REPORT_NOISE 0.03

typedef struct report_trial {
    double value;                /* 0 unless OK */
    double mean, sigma;          /* 0 unless predicted */
    uint64_t setting;            /* hash of the knobs' text */
    size_t digits;               /* first of n_digits in layer->digits */
    uint8_t n_digits, kind, status, predicted;
} report_trial;

typedef struct report_series {
    size_t layer, group;
    const char *run, *strategy;
    uint64_t seed;
    int random, rerun, ended, last;
    metatune_status end;
    int32_t unit;
    report_trial *trial;
    size_t n, cap;
    uint32_t max_batch;
    double build_s, run_s, think_s, think_last;
    /* from task lines; 0 = unknown */
    double naive, default_first, default_last, tuned, peak_gflops, gflop;
    double expected;             /* best / what the model still expected */
    /* derived */
    size_t n_explore, n_confirm, n_ok, n_failed, n_not_run;
    size_t by_status[REPORT_STATUSES];
    size_t n_predicted, n_covered;
    size_t winner;               /* trial index; n when nothing is valid */
    double best;                 /* its time: re-timed, confirmed or single */
    double single;               /* its explore time */
    double spread;               /* (max - min) / median of its confirms */
    size_t confirms, ties;       /* of the winner; others within the spread */
    size_t best_at;              /* explore trials until the last progress */
    double late_gain;            /* what the last quarter brought, >= 1 */
    double drift;                /* default re-timed over first, 0 unknown */
} report_series;

typedef struct report_knob {
    const char *name;
    const char **value;          /* in the order of appearance */
    uint32_t n_values;
    size_t cap_values;
    int lost;                    /* more values than are kept */
} report_knob;

typedef struct report_message {
    int32_t status;
    const char *text;
    size_t count;
} report_message;

typedef struct report_cell {
    size_t group;
    size_t main;                 /* series; SIZE_MAX = none */
    size_t n_runs, n_random;     /* series of this cell */
    double naive, fallback, peak_gflops, gflop; /* fallback: default time */
    double best, speedup;        /* 0 = unknown; default over best */
} report_cell;

typedef struct report_layer {
    const char *task, *name;
    size_t *series;
    size_t n_series, cap_series;
    report_cell *cell;
    size_t n_cells;
    report_knob *knob;
    size_t n_knobs, cap_knobs;
    uint8_t *digits;
    size_t n_digits, cap_digits;
    report_message *message;
    size_t n_messages, cap_messages, other_messages;
} report_layer;

typedef struct report_log {
    const char *path, *label;    /* label: base name, or path when ambiguous */
    size_t n_good, n_bad, n_groups;
} report_log;

typedef struct report_group {
    size_t log;
    const char *target, *label;
    size_t n_layers, n_found;    /* with a main series; with a valid one */
    size_t n_both;               /* of those in the sums */
    double sum_default, sum_best, sum_naive, sum_naive_best;
    double log_speedup;          /* sum of ln(default / best) over n_both */
    int32_t unit;
    size_t last_layer, last_cell; /* while gathering */
} report_group;

typedef struct report_data {
    report_log *log;
    size_t n_logs;
    report_group *group;
    size_t n_groups, cap_groups;
    report_layer **layer;
    size_t n_layers, cap_layers;
    report_series *series;
    size_t n_series, cap_series;
    size_t n_trials;
    struct report_block *blocks; /* texts */
    struct report_map *map;
} report_data;

/* Read the logs; CMD_USAGE after one line when one cannot be read or all of
   them hold nothing. Damaged lines are counted, one line on stderr a log
   unless quiet. Free in every case. */
int report_data_read(report_data *d, const char *const *paths, size_t n,
                     int quiet);
void report_data_free(report_data *d);

/* Expected least of k of the n sorted values, drawn without putting back from
   `total` >= n things of which the others are failures; given that one is
   valid at all. */
double report_expected_best(const double *sorted, size_t n, size_t total,
                            size_t k);
/* Quantile q of sorted values, linear between neighbours; 0 of none. */
double report_quantile(const double *sorted, size_t n, double q);
int report_by_value(const void *a, const void *b);

#endif
