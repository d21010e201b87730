/* report_chart.h - the charts of a report, as inline SVG

   Every chart is 420 units wide, so that its 12-unit letters stay readable on
   a phone, and carries data-chart="NAME", a <title> and a <desc>. Colours come
   from the page's classes c0..c3 (stroke) and f0..f3 (fill); what differs by
   colour also differs by dash, shape, place or words. Dots are subpaths of no
   length with round or square caps: ten bytes each. */
#ifndef METATUNE_REPORT_CHART_H
#define METATUNE_REPORT_CHART_H

#include "report_data.h"

enum { REPORT_SIDE = 4 };        /* logs side by side in a chart */

typedef struct report_page {
    cmd_text text;
    size_t n_charts, n_ids;
} report_page;

/* Text for HTML and XML: & < > " ' escaped, invalid UTF-8, control and
   direction-changing characters replaced; cut after `most` characters. */
void report_escape(cmd_text *t, const char *s, size_t most);
/* Factor and name of the unit in which x reads well. */
double report_scale(double x, int32_t unit, const char **name);
/* "8.33 ms"; "-" for 0. buf of 48. */
const char *report_value(char *buf, double x, int32_t unit);
/* "1.3 s", "4 min 10 s" */
const char *report_seconds(char *buf, double s);

/* Each returns whether there was something to draw. */
int report_chart_gain(report_page *p, const report_data *d);
int report_chart_curve(report_page *p, const report_data *d, size_t layer);
int report_chart_predicted(report_page *p, const report_data *d,
                           size_t layer);
int report_chart_knobs(report_page *p, const report_data *d, size_t layer);
int report_chart_time(report_page *p, const report_data *d, size_t layer);

/* Time relative to the run's best of one value of a knob in one cell. */
typedef struct report_effect {
    size_t n;
    double best, low, median, high; /* least, quartiles */
} report_effect;
/* (n_knobs of the layer) x values; of the cell's main run, explore only.
   Caller frees; effect[k] has knob[k].n_values entries. */
report_effect **report_effects(const report_data *d, const report_layer *l,
                               const report_cell *c);
void report_effects_free(report_effect **e, const report_layer *l);
/* Knobs with the largest difference of medians first; (n_knobs). how[] that
   ratio, 1 when there is none. */
void report_knob_order(const report_layer *l, report_effect *const *e,
                       size_t *order, double *how);
/* Values in the order of their numbers, or of appearance; (n_values). */
void report_value_order(const report_knob *k, size_t *order);

/* Best so far after n explore trials, 0 = none valid yet. */
double report_best_after(const report_series *s, size_t n);
/* What random search has after n trials: with runs > 0 the mean of that many
   measured random runs of the same cell; else what the main run's settings
   in random order are expected to give. */
typedef struct report_random {
    const report_data *data;
    const report_layer *layer;
    const report_cell *cell;
    size_t runs;
    double *sorted;
    size_t n;
} report_random;
void report_random_open(report_random *r, const report_data *d,
                        const report_layer *l, const report_cell *c);
double report_random_at(const report_random *r, size_t n);
void report_random_close(report_random *r);

#endif
