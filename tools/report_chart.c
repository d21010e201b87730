/* report_chart.c - see report_chart.h */
#include "report_chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHART_W = 420, CHART_LEFT = 56, CHART_RIGHT = 408, CHART_TOP = 12,
    CHART_TICKS = 8, CHART_POINTS = 150, CHART_ROWS = 40, CHART_KNOBS = 16,
    CHART_VALUES = 12, CHART_RUNS = 6, CHART_STEPS = 64
};

/* --------------------------------------------------------------- text */

/* Length of the valid character at s, 0 when it is none; its code. */
static size_t utf8(const unsigned char *s, unsigned long *code)
{
    size_t n, i;
    unsigned long c = s[0], least;
    if (c < 0x80) {
        *code = c;
        return 1;
    }
    n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4)
        return 0;
    least = n == 4 ? 0x10000UL : n == 3 ? 0x800UL : 0x80UL;
    c &= n == 4 ? 7U : n == 3 ? 15U : 31U;
    for (i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3FU);
    }
    if (c < least || c > 0x10FFFFUL || (c >= 0xD800UL && c <= 0xDFFFUL))
        return 0;
    *code = c;
    return n;
}

/* Characters that change what stands beside them or are none. */
static int unwanted(unsigned long c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C ||
           (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF ||
           (c & 0xFFFE) == 0xFFFE;
}

void report_escape(cmd_text *t, const char *s, size_t most)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t count = 0;
    while (*p) {
        unsigned long c = 0;
        size_t n = utf8(p, &c);
        if (count++ == most) {
            cmd_text_add(t, "\xE2\x80\xA6");
            return;
        }
        if (c == '\n' || c == '\t' || c == '\r')
            cmd_text_add(t, " ");
        else if (n == 0 || unwanted(c))
            cmd_text_add(t, "\xEF\xBF\xBD");
        else if (c == '&')
            cmd_text_add(t, "&amp;");
        else if (c == '<')
            cmd_text_add(t, "&lt;");
        else if (c == '>')
            cmd_text_add(t, "&gt;");
        else if (c == '"')
            cmd_text_add(t, "&quot;");
        else if (c == '\'')
            cmd_text_add(t, "&#39;");
        else
            cmd_text_bytes(t, p, n);
        p += n ? n : 1;
    }
}

double report_scale(double x, int32_t unit, const char **name)
{
    static const char *const seconds[] = {"s", "ms", "\xC2\xB5s", "ns"};
    static const char *const cycles[] = {"cycles", "kcycles", "Mcycles",
                                         "Gcycles"};
    static const char *const instructions[] = {
        "instructions", "kinstructions", "Minstructions", "Ginstructions"
    };
    double scale = 1;
    int i = 0;
    if (unit == METATUNE_SECONDS) {
        for (; i < 3 && x * scale < 1; i++)
            scale *= 1e3;
        *name = seconds[i];
    } else {
        for (; i < 3 && x * scale >= 1e4; i++)
            scale *= 1e-3;
        *name = unit == METATUNE_CYCLES ? cycles[i] : instructions[i];
    }
    return scale;
}

/* Three significant digits without an exponent where people can bear it. */
static void three(char *buf, size_t cap, double x)
{
    if (x >= 1e7)
        snprintf(buf, cap, "%.3g", x);
    else
        snprintf(buf, cap, "%.*f", x >= 99.95 ? 0 : x >= 9.995 ? 1 :
                 x >= 0.01 ? 2 : 4, x);
}

const char *report_value(char *buf, double x, int32_t unit)
{
    const char *name;
    char number[32];
    double scale;
    if (!(x > 0))
        return "\xE2\x80\x93";
    scale = report_scale(x, unit, &name);
    three(number, sizeof number, x * scale);
    snprintf(buf, 48, "%s %s", number, name);
    return buf;
}

const char *report_seconds(char *buf, double s)
{
    unsigned long whole = s < 4e9 ? (unsigned long)(s + 0.5) : 0;
    if (s < 1)
        snprintf(buf, 48, "%.0f ms", 1e3 * s);
    else if (s < 100)
        snprintf(buf, 48, "%.1f s", s);
    else if (s < 6000)
        snprintf(buf, 48, "%lu min %lu s", whole / 60, whole % 60);
    else
        snprintf(buf, 48, "%.1f h", s / 3600);
    return buf;
}

/* --------------------------------------------------------- statistics */

static int explored(const report_trial *t)
{
    return t->kind == METATUNE_EXPLORE && t->status != METATUNE_NOT_RUN &&
           t->status != METATUNE_CANCELLED;
}

double report_best_after(const report_series *s, size_t n)
{
    double best = 0;
    size_t i, k = 0;
    for (i = 0; i < s->n && k < n; i++) {
        if (!explored(&s->trial[i]))
            continue;
        k++;
        if (s->trial[i].value > 0 &&
            (!(best > 0) || s->trial[i].value < best))
            best = s->trial[i].value;
    }
    return best;
}

/* Is s a random run that the cell's main run can be held against? */
static int is_baseline(const report_data *d, const report_cell *c,
                       const report_series *s)
{
    const report_series *m = &d->series[c->main];
    return s->random && s != m && s->group == c->group &&
           s->unit == m->unit && s->n_ok > 0;
}

void report_random_open(report_random *r, const report_data *d,
                        const report_layer *l, const report_cell *c)
{
    const report_series *m = &d->series[c->main];
    size_t i;
    memset(r, 0, sizeof *r);
    r->data = d;
    r->layer = l;
    r->cell = c;
    for (i = 0; i < l->n_series; i++)
        if (is_baseline(d, c, &d->series[l->series[i]]))
            r->runs++;
    r->sorted = (double *)cmd_alloc((m->n + 1) * sizeof *r->sorted);
    for (i = 0; i < m->n; i++)
        if (explored(&m->trial[i]) && m->trial[i].value > 0)
            r->sorted[r->n++] = m->trial[i].value;
    qsort(r->sorted, r->n, sizeof *r->sorted, report_by_value);
}

double report_random_at(const report_random *r, size_t n)
{
    double sum = 0, x;
    size_t i, k = 0;
    if (!r->runs)
        return report_expected_best(r->sorted, r->n,
                                    r->data->series[r->cell->main].n_explore,
                                    n);
    for (i = 0; i < r->layer->n_series; i++) {
        const report_series *s = &r->data->series[r->layer->series[i]];
        if (!is_baseline(r->data, r->cell, s))
            continue;
        x = report_best_after(s, n);
        if (x > 0) {
            sum += x;
            k++;
        }
    }
    return k ? sum / (double)k : 0;
}

void report_random_close(report_random *r)
{
    free(r->sorted);
    memset(r, 0, sizeof *r);
}

report_effect **report_effects(const report_data *d, const report_layer *l,
                               const report_cell *c)
{
    const report_series *s = &d->series[c->main];
    report_effect **e = (report_effect **)cmd_alloc((l->n_knobs + 1) *
                                                    sizeof *e);
    double *x = (double *)cmd_alloc((s->n + 1) * sizeof *x), best = 0;
    size_t *at = (size_t *)cmd_alloc((REPORT_KNOB_VALUES + 1) * sizeof *at);
    size_t k, i, v, n;
    for (i = 0; i < s->n; i++)
        if (explored(&s->trial[i]) && s->trial[i].value > 0 &&
            (!(best > 0) || s->trial[i].value < best))
            best = s->trial[i].value;
    for (k = 0; k < l->n_knobs; k++) {
        const report_knob *knob = &l->knob[k];
        e[k] = (report_effect *)cmd_alloc((knob->n_values + 1U) *
                                          sizeof **e);
        /* bucket the times by value: count, then place */
        for (i = 0; i < s->n; i++) {
            const report_trial *t = &s->trial[i];
            if (explored(t) && t->value > 0 && k < t->n_digits &&
                l->digits[t->digits + k] < knob->n_values)
                e[k][l->digits[t->digits + k]].n++;
        }
        for (n = 0, v = 0; v < knob->n_values; v++) {
            at[v] = n;
            n += e[k][v].n;
        }
        for (i = 0; i < s->n; i++) {
            const report_trial *t = &s->trial[i];
            uint8_t digit;
            if (!explored(t) || !(t->value > 0) || k >= t->n_digits)
                continue;
            digit = l->digits[t->digits + k];
            if (digit < knob->n_values)
                x[at[digit]++] = t->value / best;
        }
        for (n = 0, v = 0; v < knob->n_values; v++) {
            report_effect *f = &e[k][v];
            if (f->n == 0)
                continue;
            qsort(x + n, f->n, sizeof *x, report_by_value);
            f->best = x[n];
            f->low = report_quantile(x + n, f->n, 0.25);
            f->median = report_quantile(x + n, f->n, 0.5);
            f->high = report_quantile(x + n, f->n, 0.75);
            n += f->n;
        }
    }
    free(x);
    free(at);
    return e;
}

void report_effects_free(report_effect **e, const report_layer *l)
{
    size_t k;
    for (k = 0; k < l->n_knobs; k++)
        free(e[k]);
    free(e);
}

void report_knob_order(const report_layer *l, report_effect *const *e,
                       size_t *order, double *how)
{
    size_t k, i, v;
    for (k = 0; k < l->n_knobs; k++) {
        double lo = 0, hi = 0;
        for (v = 0; v < l->knob[k].n_values; v++) {
            if (e[k][v].n < 2)
                continue;
            if (!(lo > 0) || e[k][v].median < lo)
                lo = e[k][v].median;
            if (e[k][v].median > hi)
                hi = e[k][v].median;
        }
        how[k] = lo > 0 ? hi / lo : 1;
        for (i = k; i > 0 && how[order[i - 1]] < how[k]; i--)
            order[i] = order[i - 1];
        order[i] = k;
    }
}

void report_value_order(const report_knob *k, size_t *order)
{
    double x[REPORT_KNOB_VALUES];
    size_t v, i, end;
    int numbers = 1;
    for (v = 0; v < k->n_values; v++) {
        size_t n = strlen(k->value[v]);
        x[v] = 0;
        if (metatune_number_read(k->value[v], n, &x[v], &end) !=
                METATUNE_OK || end != n)
            numbers = 0;
    }
    for (v = 0; v < k->n_values; v++) {
        for (i = v; numbers && i > 0 && x[order[i - 1]] > x[v]; i--)
            order[i] = order[i - 1];
        order[i] = v;
    }
}

/* ---------------------------------------------------------------- axes */

typedef struct axis {
    double lo, hi;               /* logarithms */
    double from, to;             /* units of the picture */
    double tick[CHART_TICKS];
    int n_ticks;
} axis;

static double place(const axis *a, double x)
{
    double u = (log(x) - a->lo) / (a->hi - a->lo);
    u = u < 0 ? 0 : u > 1 ? 1 : u;
    return a->from + u * (a->to - a->from);
}

static int inside(const axis *a, double x)
{
    return log(x) >= a->lo && log(x) <= a->hi;
}

static void ticks_linear(axis *a)
{
    double lo = exp(a->lo), hi = exp(a->hi), raw = (hi - lo) / 4;
    double step = pow(10, floor(log10(raw))), x;
    step *= raw / step >= 5 ? 5 : raw / step >= 2 ? 2 : 1;
    a->n_ticks = 0;
    for (x = ceil(lo / step) * step; x <= hi && a->n_ticks < CHART_TICKS;
         x += step)
        a->tick[a->n_ticks++] = x;
}

/* scale: numbers are round in the unit that is shown */
static void axis_make(axis *a, double lo, double hi, double from, double to,
                      double scale)
{
    static const double steps[3][4] = {
        {1, 0, 0, 0}, {1, 3, 0, 0}, {1, 2, 5, 0}
    };
    double pad, decade, x;
    int set, i, n, fits;
    lo *= scale;
    hi *= scale;
    pad = (log(hi) - log(lo)) * 0.05;
    if (pad < 0.01)
        pad = 0.05;
    a->lo = log(lo) - pad;
    a->hi = log(hi) + pad;
    a->from = from;
    a->to = to;
    for (set = 2; set >= 0; set--) {
        n = 0;
        fits = 1;
        for (decade = floor(a->lo / log(10)); decade * log(10) <= a->hi &&
             fits; decade++)
            for (i = 0; i < 4 && steps[set][i] > 0; i++) {
                x = steps[set][i] * pow(10, decade);
                if (!inside(a, x))
                    continue;
                if (n == CHART_TICKS) {
                    fits = 0;
                    break;
                }
                a->tick[n++] = x;
            }
        a->n_ticks = n;
        if (fits)
            break;
    }
    if (a->n_ticks < 3 && a->hi - a->lo < 5)
        ticks_linear(a);
    for (i = 0; i < a->n_ticks; i++)
        a->tick[i] /= scale;
    a->lo -= log(scale);
    a->hi -= log(scale);
}

/* ------------------------------------------------------------- pieces */

static void begin(report_page *p, const char *name, double height,
                  const char *title)
{
    size_t id = p->n_ids++;
    p->n_charts++;
    cmd_text_add(&p->text, "<svg data-chart=\"%s\" viewBox=\"0 0 %d %.0f\" "
                 "role=\"img\" aria-labelledby=\"t%zu d%zu\"><title "
                 "id=\"t%zu\">", name, CHART_W, height, id, id, id);
    report_escape(&p->text, title, 200);
    cmd_text_add(&p->text, "</title><desc id=\"d%zu\">", id);
}

static void frame(report_page *p, const axis *x, const axis *y,
                  const char *x_label, const char *y_label, double x_scale,
                  double y_scale, int x_log)
{
    cmd_text *t = &p->text;
    int i;
    cmd_text_add(t, "<path class=\"gr\" d=\"");
    for (i = 0; y && i < y->n_ticks; i++)
        cmd_text_add(t, "M%.0f %.1fH%.0f", x->from, place(y, y->tick[i]),
                     x->to);
    for (i = 0; x_log && i < x->n_ticks; i++)
        cmd_text_add(t, "M%.1f %.0fV%.0f", place(x, x->tick[i]), y->from,
                     y->to);
    cmd_text_add(t, "\"/><path class=\"ax\" d=\"M%.0f %.0fV%.0fH%.0f\"/>",
                 x->from, y->to, y->from, x->to);
    for (i = 0; i < y->n_ticks; i++)
        cmd_text_add(t, "<text class=\"e\" x=\"%.0f\" y=\"%.1f\">%.4g"
                     "</text>", x->from - 5, place(y, y->tick[i]) + 4,
                     y->tick[i] * y_scale);
    for (i = 0; x_log && i < x->n_ticks; i++)
        cmd_text_add(t, "<text class=\"m\" x=\"%.1f\" y=\"%.0f\">%.4g"
                     "</text>", place(x, x->tick[i]), y->from + 15,
                     x->tick[i] * x_scale);
    cmd_text_add(t, "<text class=\"m\" x=\"%.0f\" y=\"%.0f\">%s</text>",
                 0.5 * (x->from + x->to), y->from + 31, x_label);
    cmd_text_add(t, "<text class=\"m\" transform=\"translate(12 %.0f) "
                 "rotate(-90)\">%s</text>", 0.5 * (y->from + y->to),
                 y_label);
}

static void legend(report_page *p, double y, const char *mark,
                   const char *label)
{
    cmd_text_add(&p->text, "<path class=\"%s\" d=\"M%d %.0fh%d\"/><text "
                 "x=\"%d\" y=\"%.0f\">", mark, CHART_LEFT, y - 4, 26,
                 CHART_LEFT + 33, y);
    report_escape(&p->text, label, 46);
    cmd_text_add(&p->text, "</text>");
}

/* Cells that are drawn: with a valid main run, the first few. */
static size_t cells_drawn(const report_data *d, const report_layer *l,
                          size_t *cell)
{
    size_t c, n = 0;
    for (c = 0; c < l->n_cells && n < REPORT_SIDE; c++)
        if (l->cell[c].main != SIZE_MAX && l->cell[c].best > 0 &&
            (n == 0 || d->series[l->cell[c].main].unit ==
                           d->series[l->cell[cell[0]].main].unit))
            cell[n++] = c;
    return n;
}

static const char *group_label(const report_data *d, const report_cell *c)
{
    return d->group[c->group].label;
}

/* ----------------------------------------------------------- overview */

int report_chart_gain(report_page *p, const report_data *d)
{
    cmd_text *t = &p->text;
    size_t i, c, rows = 0, bars = 0, n = 0;
    double most = 1, least = 1, y, height, one;
    axis a;
    char v0[48], v1[48];
    for (i = 0; i < d->n_layers && rows < CHART_ROWS; i++) {
        const report_layer *l = d->layer[i];
        size_t here = 0;
        for (c = 0; c < l->n_cells && here < REPORT_SIDE; c++) {
            double x = l->cell[c].speedup;
            if (!(x > 0))
                continue;
            here++;
            if (x > most)
                most = x;
            if (x < least)
                least = x;
        }
        bars += here;
        rows += here > 0;
    }
    if (!bars)
        return 0;
    if (most < 1.5)
        most = 1.5;
    height = 24 + 17.0 * (double)rows + 18.0 * (double)bars;
    begin(p, "gain", height, "Gain of every layer over its default setting");
    cmd_text_add(t, "Bars: default time divided by tuned time, from 1 "
                 "(no gain); longer is better.</desc>");
    axis_make(&a, least, most, 4, 190, 1);
    one = place(&a, 1);
    y = 6;
    for (i = 0; i < d->n_layers && n < rows; i++) {
        const report_layer *l = d->layer[i];
        size_t here = 0;
        int named = 0;
        for (c = 0; c < l->n_cells && here < REPORT_SIDE; c++) {
            const report_cell *k = &l->cell[c];
            double x;
            if (!(k->speedup > 0))
                continue;
            if (!named) {
                cmd_text_add(t, "<text class=\"b\" x=\"4\" y=\"%.0f\">",
                             y + 11);
                report_escape(t, l->name ? l->name : l->task, 60);
                cmd_text_add(t, "</text>");
                y += 17;
                named = 1;
                n++;
            }
            here++;
            x = place(&a, k->speedup);
            cmd_text_add(t, "<rect class=\"f%zu\" x=\"%.1f\" y=\"%.0f\" "
                         "width=\"%.1f\" height=\"12\"/>",
                         k->group % REPORT_SIDE, x < one ? x : one, y,
                         fabs(x - one) + 1.5);
            cmd_text_add(t, "<path class=\"ax\" d=\"M%.1f %.0fv16\"/>", one,
                         y - 2);
            cmd_text_add(t, "<text x=\"%.0f\" y=\"%.0f\"><tspan class="
                         "\"b\">%.2f\xC3\x97</tspan> ",
                         (x > one ? x : one) + 8, y + 11, k->speedup);
            if (d->n_groups > 1) /* not by colour alone */
                cmd_text_add(t, "<tspan class=\"q\">in %zu.</tspan> ",
                             k->group + 1);
            cmd_text_add(t, "%s \xE2\x86\x92 %s</text>",
                         report_value(v0, k->fallback,
                                      d->series[k->main].unit),
                         report_value(v1, k->best, d->series[k->main].unit));
            y += 18;
        }
    }
    cmd_text_add(t, "<text x=\"4\" y=\"%.0f\" class=\"q\">%s</text></svg>",
                 y + 14,
                 rows == CHART_ROWS
                     ? "the first 40 layers; the table below has all"
                     : "a bar begins at 1\xC3\x97, the default (log scale)");
    return 1;
}

/* -------------------------------------------------------- best so far */

static void step_path(report_page *p, const report_series *s, const axis *y,
                      double x0, double per, const char *mark)
{
    double best = 0;
    size_t i, n = 0;
    cmd_text_add(&p->text, "<path class=\"%s\" d=\"", mark);
    for (i = 0; i < s->n; i++) {
        const report_trial *t = &s->trial[i];
        if (!explored(t))
            continue;
        n++;
        if (!(t->value > 0) || (best > 0 && t->value >= best))
            continue;
        if (best > 0)
            cmd_text_add(&p->text, "H%.1fV%.1f", x0 + per * (double)n,
                         place(y, t->value));
        else
            cmd_text_add(&p->text, "M%.1f %.1f", x0 + per * (double)n,
                         place(y, t->value));
        best = t->value;
    }
    cmd_text_add(&p->text, "H%.1f\"/>", x0 + per * (double)n);
}

int report_chart_curve(report_page *p, const report_data *d, size_t layer)
{
    const report_layer *l = d->layer[layer];
    cmd_text *t = &p->text;
    size_t cell[REPORT_SIDE], n_cells = cells_drawn(d, l, cell), c, i, k;
    size_t trials = 0, lines = 0, step;
    report_random random[REPORT_SIDE];
    double lo = 0, hi = 0, x, scale, y_pos, height, per, from = CHART_LEFT;
    const char *unit;
    char label[128], text[160], v0[48], v1[48];
    int32_t u;
    axis ax, ay;
    if (!n_cells)
        return 0;
    u = d->series[l->cell[cell[0]].main].unit;
    for (c = 0; c < n_cells; c++) {
        const report_cell *k0 = &l->cell[cell[c]];
        const report_series *m = &d->series[k0->main];
        double low = report_best_after(m, m->n);
        size_t more = 0;
        for (i = 0; i < l->n_series && more < CHART_RUNS; i++) {
            const report_series *s = &d->series[l->series[i]];
            if (s->group != k0->group || s->unit != u || s->random ||
                s == m || s->n_ok == 0)
                continue;
            more++;
            x = report_best_after(s, s->n);
            if (x > 0 && x < low)
                low = x;
            if (s->n_explore > trials)
                trials = s->n_explore;
        }
        lines += more > 0;
        if (m->n_explore > trials)
            trials = m->n_explore;
        if (low > 0 && (!(lo > 0) || low < lo))
            lo = low;
        for (i = 0; i < m->n; i++) /* the first valid one */
            if (explored(&m->trial[i]) && m->trial[i].value > 0)
                break;
        if (i < m->n && m->trial[i].value > hi)
            hi = m->trial[i].value;
        report_random_open(&random[c], d, l, k0);
        x = report_random_at(&random[c], 1);
        hi = x > hi ? x : hi;
        x = report_random_at(&random[c], SIZE_MAX);
        lo = x > 0 && x < lo ? x : lo;
        if (k0->fallback > 0 && k0->fallback < 20 * hi) {
            hi = k0->fallback > hi ? k0->fallback : hi;
            lo = k0->fallback < lo ? k0->fallback : lo;
            lines++;
        }
        lines += 2;
    }
    /* cells_drawn saw a valid time; an axis of nothing is no axis */
    if (!(lo > 0) || !trials) {
        for (c = 0; c < n_cells; c++)
            report_random_close(&random[c]);
        return 0;
    }
    scale = report_scale(hi, u, &unit);
    axis_make(&ay, lo, hi, 216, CHART_TOP, scale);
    memset(&ax, 0, sizeof ax);
    ax.from = from;
    ax.to = CHART_RIGHT;
    per = (ax.to - ax.from) / (double)trials;
    height = 262 + 17 * (double)lines;
    snprintf(label, sizeof label, "Best time so far");
    begin(p, "curve", height, label);
    for (c = 0; c < n_cells; c++) {
        const report_cell *k0 = &l->cell[cell[c]];
        const report_series *m = &d->series[k0->main];
        report_escape(t, group_label(d, k0), 60);
        cmd_text_add(t, ": best %s after %zu trials, reached at trial %zu; ",
                     report_value(v0, report_best_after(m, m->n), u),
                     m->n_explore, m->best_at);
        cmd_text_add(t, "random order would stand at %s after a quarter of "
                     "them. ", report_value(v1, report_random_at(&random[c],
                                          (m->n_explore + 3) / 4), u));
    }
    cmd_text_add(t, "</desc>");
    snprintf(label, sizeof label, "best so far, %s (log)", unit);
    frame(p, &ax, &ay, "settings measured", label, 1, scale, 0);
    step = trials <= 6 ? 1 : (trials + 3) / 4;
    for (k = 0; k <= trials; k += step)
        cmd_text_add(t, "<text class=\"m\" x=\"%.1f\" y=\"231\">%zu</text>",
                     from + per * (double)k, k);
    y_pos = 262;
    for (c = 0; c < n_cells; c++) {
        const report_cell *k0 = &l->cell[cell[c]];
        const report_series *m = &d->series[k0->main];
        size_t colour = k0->group % REPORT_SIDE, more = 0, at, last = 0;
        snprintf(text, sizeof text, "c%zu l%zu", colour, colour);
        snprintf(label, sizeof label, "%.60s (%.20s)",
                 group_label(d, k0), m->strategy);
        legend(p, y_pos, text, label);
        y_pos += 17;
        if (k0->fallback > 0 && k0->fallback < 20 * hi) {
            snprintf(text, sizeof text, "c%zu def", colour);
            cmd_text_add(t, "<path class=\"%s\" d=\"M%.0f %.1fH%.0f\"/>",
                         text, ax.from, place(&ay, k0->fallback), ax.to);
            snprintf(label, sizeof label, "default setting, %s",
                     report_value(v0, k0->fallback, u));
            legend(p, y_pos, text, label);
            y_pos += 17;
        }
        snprintf(text, sizeof text, "c%zu rnd", colour);
        cmd_text_add(t, "<path class=\"%s\" d=\"", text);
        for (i = 1, at = 0; i <= CHART_STEPS; i++) {
            size_t n = (size_t)((double)m->n_explore *
                                pow((double)i / CHART_STEPS, 2));
            if (n <= last)
                continue;
            last = n;
            x = report_random_at(&random[c], n);
            if (x > 0)
                cmd_text_add(t, "%c%.1f %.1f", at++ ? 'L' : 'M',
                             from + per * (double)n, place(&ay, x));
        }
        cmd_text_add(t, "\"/>");
        if (random[c].runs)
            snprintf(label, sizeof label, "random search, measured: %zu "
                     "run%s", random[c].runs,
                     random[c].runs > 1 ? "s, mean" : "");
        else
            snprintf(label, sizeof label, "the same settings in random order "
                     "(expected)");
        legend(p, y_pos, text, label);
        y_pos += 17;
        for (i = 0; i < l->n_series && more < CHART_RUNS; i++) {
            const report_series *s = &d->series[l->series[i]];
            if (s->group != k0->group || s->unit != u || s->random ||
                s == m || s->n_ok == 0)
                continue;
            more++;
            snprintf(text, sizeof text, "c%zu thin", colour);
            step_path(p, s, &ay, from, per, text);
        }
        if (more) {
            snprintf(label, sizeof label, "%zu other run%s in this log",
                     more, more > 1 ? "s" : "");
            legend(p, y_pos, text, label);
            y_pos += 17;
        }
        snprintf(text, sizeof text, "c%zu l%zu", colour, colour);
        step_path(p, m, &ay, from, per, text);
        cmd_text_add(t, "<path class=\"c%zu dot\" d=\"M%.1f %.1fh0\"/>",
                     colour, from + per * (double)m->best_at,
                     place(&ay, report_best_after(m, m->n)));
    }
    for (c = 0; c < n_cells; c++)
        report_random_close(&random[c]);
    cmd_text_add(t, "</svg>");
    return 1;
}

/* ---------------------------------------------- predicted and measured */

int report_chart_predicted(report_page *p, const report_data *d,
                           size_t layer)
{
    const report_layer *l = d->layer[layer];
    cmd_text *t = &p->text;
    size_t cell[REPORT_SIDE], n_cells = cells_drawn(d, l, cell), c, i;
    size_t n = 0, outside = 0, n_predicted = 0, missed = 0;
    double *v, lo, hi, scale, y_pos, mlo, mhi;
    const char *unit;
    char label[128], mark[32];
    int32_t u;
    int pass;
    axis ax, ay;
    for (c = 0; c < n_cells; c++)
        n_predicted += d->series[l->cell[cell[c]].main].n_predicted;
    if (!n_predicted)
        return 0;
    u = d->series[l->cell[cell[0]].main].unit;
    v = (double *)cmd_alloc(2 * n_predicted * sizeof *v);
    for (c = 0; c < n_cells; c++) {
        const report_series *m = &d->series[l->cell[cell[c]].main];
        for (i = 0; i < m->n; i++)
            if (explored(&m->trial[i]) && m->trial[i].predicted &&
                m->trial[i].value > 0) {
                v[n_predicted + n] = m->trial[i].mean;
                v[n++] = m->trial[i].value;
            }
    }
    qsort(v, n, sizeof *v, report_by_value);
    qsort(v + n_predicted, n, sizeof *v, report_by_value);
    lo = v[0];
    hi = report_quantile(v, n, 0.98);
    mlo = report_quantile(v + n_predicted, n, 0.02);
    mhi = report_quantile(v + n_predicted, n, 0.98);
    free(v);
    /* both axes alike: the diagonal is what would be perfect. A wild model
       may not squeeze the measurements into a corner. */
    mlo = mlo < lo / 3 ? lo / 3 : mlo;
    mhi = mhi > 3 * hi ? 3 * hi : mhi;
    lo = mlo < lo ? mlo : lo;
    hi = mhi > hi ? mhi : hi;
    scale = report_scale(hi, u, &unit);
    axis_make(&ax, lo, hi, CHART_LEFT, CHART_RIGHT, scale);
    axis_make(&ay, lo, hi, 246, CHART_TOP, scale);
    begin(p, "predicted", 292 + 17.0 * (double)(n_cells + 3),
          "Predicted against measured time");
    for (c = 0; c < n_cells; c++) {
        const report_series *m = &d->series[l->cell[cell[c]].main];
        if (!m->n_predicted)
            continue;
        report_escape(t, group_label(d, &l->cell[cell[c]]), 60);
        cmd_text_add(t, ": %zu of %zu measurements inside the model's 90 %% "
                     "interval. ", m->n_covered, m->n_predicted);
        missed += m->n_predicted - m->n_covered;
    }
    cmd_text_add(t, "</desc>");
    snprintf(label, sizeof label, "measured, %s (log)", unit);
    snprintf(mark, sizeof mark, "predicted, %s (log)", unit);
    frame(p, &ax, &ay, label, mark, scale, scale, 1);
    cmd_text_add(t, "<path class=\"ref\" d=\"M%.0f %.0fL%.0f %.0f\"/>",
                 ax.from, ay.from, ax.to, ay.to);
    for (c = 0; c < n_cells; c++) {
        const report_cell *k0 = &l->cell[cell[c]];
        const report_series *m = &d->series[k0->main];
        size_t colour = k0->group % REPORT_SIDE, seen;
        size_t every = (m->n_predicted + CHART_POINTS - 1) / CHART_POINTS;
        for (pass = 0; pass < 3; pass++) { /* intervals, dots, misses */
            cmd_text_add(t, pass == 0 ? "<path class=\"c%zu iv\" d=\""
                         : pass == 1 ? "<path class=\"c%zu dot\" d=\""
                         : "<path class=\"bad\" d=\"", colour);
            for (i = 0, seen = 0; i < m->n; i++) {
                const report_trial *r = &m->trial[i];
                double half, x, y;
                int miss;
                if (!explored(r) || !r->predicted || !(r->value > 0))
                    continue;
                /* the last ones always: there the model knew most */
                if ((m->n_predicted - 1 - seen++) % every)
                    continue;
                half = REPORT_Z90 * r->sigma;
                miss = fabs(log2(r->value / r->mean)) > half;
                x = place(&ax, r->value);
                y = place(&ay, r->mean);
                if (pass == 0) {
                    outside += !inside(&ay, r->mean) ||
                               !inside(&ax, r->value);
                    cmd_text_add(t, "M%.1f %.1fV%.1f", x,
                                 place(&ay, r->mean * exp2(
                                     half < 60 ? -half : -60)),
                                 place(&ay, r->mean * exp2(
                                     half < 60 ? half : 60)));
                } else if (pass == 1) {
                    cmd_text_add(t, "M%.1f %.1fh0", x, y);
                } else if (miss) {
                    cmd_text_add(t, "M%.1f %.1fl8 8m0-8l-8 8", x - 4, y - 4);
                }
            }
            cmd_text_add(t, "\"/>");
        }
    }
    y_pos = 292;
    for (c = 0; c < n_cells; c++) {
        const report_cell *k0 = &l->cell[cell[c]];
        const report_series *m = &d->series[k0->main];
        size_t colour = k0->group % REPORT_SIDE;
        cmd_text_add(t, "<path class=\"c%zu dot\" d=\"M%d %.0fh0\"/><path "
                     "class=\"c%zu iv\" d=\"M%d %.0fv12\"/>", colour,
                     CHART_LEFT + 13, y_pos - 4, colour, CHART_LEFT + 13,
                     y_pos - 10);
        snprintf(label, sizeof label, "%.26s: held %zu of %zu",
                 group_label(d, k0), m->n_covered, m->n_predicted);
        legend(p, y_pos, "none", label);
        y_pos += 17;
    }
    cmd_text_add(t, "<path class=\"bad\" d=\"M%d %.0fl8 8m0-8l-8 8\"/>",
                 CHART_LEFT + 9, y_pos - 8);
    snprintf(label, sizeof label, "measured outside the interval (%zu)",
             missed);
    legend(p, y_pos, "none", label);
    y_pos += 17;
    legend(p, y_pos, "ref", "perfect prediction");
    y_pos += 17;
    if (outside) {
        snprintf(label, sizeof label, "drawn at the edge, lying beyond it: "
                 "%zu", outside);
        legend(p, y_pos, "none", label);
    }
    cmd_text_add(t, "</svg>");
    return 1;
}

/* -------------------------------------------------------------- knobs */

int report_chart_knobs(report_page *p, const report_data *d, size_t layer)
{
    const report_layer *l = d->layer[layer];
    cmd_text *t = &p->text;
    size_t cell[REPORT_SIDE], n_cells = cells_drawn(d, l, cell), c, k, i, v;
    size_t order[METATUNE_MAX_KNOBS], vo[REPORT_KNOB_VALUES];
    size_t shown[CHART_KNOBS], n_shown = 0, rows = 0;
    report_effect **e[REPORT_SIDE];
    double how[METATUNE_MAX_KNOBS], high = 1.1, y, height, bottom;
    double row_h;
    axis a;
    if (!n_cells || !l->n_knobs)
        return 0;
    for (c = 0; c < n_cells; c++)
        e[c] = report_effects(d, l, &l->cell[cell[c]]);
    report_knob_order(l, e[0], order, how);
    for (i = 0; i < l->n_knobs && n_shown < CHART_KNOBS; i++) {
        size_t n = 0;
        k = order[i];
        for (v = 0; v < l->knob[k].n_values; v++) {
            int any = 0;
            for (c = 0; c < n_cells; c++)
                any = any || e[c][k][v].n > 0;
            n += any != 0;
        }
        if (n < 2)
            continue;
        shown[n_shown++] = k;
        rows += n < CHART_VALUES ? n : CHART_VALUES;
    }
    if (!n_shown)
        goto none;
    for (i = 0; i < n_shown; i++)
        for (v = 0; v < l->knob[shown[i]].n_values; v++)
            for (c = 0; c < n_cells; c++)
                if (e[c][shown[i]][v].high > high)
                    high = e[c][shown[i]][v].high;
    if (high > 50)
        high = 50;
    row_h = 13 + 5 * (double)(n_cells - 1);
    height = 92 + 22 * (double)n_shown + row_h * (double)rows +
             17 * (double)n_cells;
    begin(p, "knobs", height, "Effect of each knob");
    cmd_text_add(t, "Median and quartiles of measured time by knob value, "
                 "relative to the run's best; knobs with the largest "
                 "difference first: ");
    for (i = 0; i < n_shown && i < 3; i++) {
        cmd_text_add(t, i ? ", " : "");
        report_escape(t, l->knob[shown[i]].name, 40);
        cmd_text_add(t, " (%.2f times)", how[shown[i]]);
    }
    cmd_text_add(t, ". The table below holds all numbers.</desc>");
    axis_make(&a, 1, high, 96, 368, 1);
    bottom = 4 + 22 * (double)n_shown + row_h * (double)rows;
    cmd_text_add(t, "<path class=\"gr\" d=\"");
    for (i = 0; i < (size_t)a.n_ticks; i++)
        cmd_text_add(t, "M%.1f 4V%.0f", place(&a, a.tick[i]), bottom);
    cmd_text_add(t, "\"/>");
    for (i = 0; i < (size_t)a.n_ticks; i++)
        cmd_text_add(t, "<text class=\"m\" x=\"%.1f\" y=\"%.0f\">%.3g\xC3\x97"
                     "</text>", place(&a, a.tick[i]), bottom + 15,
                     a.tick[i]);
    cmd_text_add(t, "<text class=\"m\" x=\"232\" y=\"%.0f\">time relative to "
                 "the best (log)</text><text class=\"q e\" x=\"%d\" y=\"14\">"
                 "settings</text>", bottom + 31, CHART_W - 4);
    y = 4;
    for (i = 0; i < n_shown; i++) {
        const report_knob *knob = &l->knob[shown[i]];
        size_t n = 0, w;
        int pass;
        k = shown[i];
        cmd_text_add(t, "<text class=\"b\" x=\"4\" y=\"%.0f\">", y + 15);
        report_escape(t, knob->name, 30);
        cmd_text_add(t, "<tspan class=\"q\"> %.2f\xC3\x97</tspan></text>",
                     how[k]);
        y += 22;
        report_value_order(knob, vo);
        for (w = 0; w < knob->n_values && n < CHART_VALUES; w++) {
            size_t count = 0;
            v = vo[w];
            for (c = 0; c < n_cells; c++)
                count += e[c][k][v].n;
            if (!count)
                continue;
            cmd_text_add(t, "<text class=\"e\" x=\"86\" y=\"%.0f\">",
                         y + 0.5 * row_h + 3);
            report_escape(t, knob->value[v], 11);
            cmd_text_add(t, "</text><text class=\"q e\" x=\"%d\" "
                         "y=\"%.0f\">%zu</text>", CHART_W - 4,
                         y + 0.5 * row_h + 3, count);
            y += row_h;
            n++;
        }
        /* the marks of all values of a cell are one path each */
        for (c = 0; c < n_cells; c++) {
            size_t colour = l->cell[cell[c]].group % REPORT_SIDE;
            for (pass = 0; pass < 3; pass++) {
                double at = y - row_h * (double)n + 6.5 + 5 * (double)c;
                size_t m = 0;
                cmd_text_add(t, "<path class=\"c%zu %s\" d=\"", colour,
                             pass == 0 ? "box" : pass == 1 ? "tip" : "dot");
                for (w = 0; w < knob->n_values && m < n; w++) {
                    const report_effect *f = &e[c][k][vo[w]];
                    size_t all = 0, cc;
                    for (cc = 0; cc < n_cells; cc++)
                        all += e[cc][k][vo[w]].n;
                    if (!all)
                        continue;
                    m++;
                    if (f->n && pass == 0)
                        cmd_text_add(t, "M%.1f %.1fH%.1f", place(&a, f->low),
                                     at, place(&a, f->high));
                    else if (f->n && pass == 1)
                        cmd_text_add(t, "M%.1f %.1fv6", place(&a, f->best),
                                     at - 3);
                    else if (f->n)
                        cmd_text_add(t, "M%.1f %.1fh0",
                                     place(&a, f->median), at);
                    at += row_h;
                }
                cmd_text_add(t, "\"/>");
            }
        }
    }
    y = bottom + 52;
    for (c = 0; c < n_cells; c++) {
        size_t colour = l->cell[cell[c]].group % REPORT_SIDE;
        char label[128];
        cmd_text_add(t, "<path class=\"c%zu box\" d=\"M60 %.0fh22\"/><path "
                     "class=\"c%zu tip\" d=\"M60 %.0fv6\"/><path class=\"c%zu"
                     " dot\" d=\"M71 %.0fh0\"/>", colour, y - 4, colour,
                     y - 7, colour, y - 4);
        snprintf(label, sizeof label, "%.44s", group_label(d,
                                                           &l->cell[cell[c]]));
        legend(p, y, "none", label);
        y += 17;
    }
    cmd_text_add(t, "<text class=\"q\" x=\"4\" y=\"%.0f\">dot: median; bar: "
                 "middle half; tick: best</text></svg>", y);
    for (c = 0; c < n_cells; c++)
        report_effects_free(e[c], l);
    return 1;
none:
    for (c = 0; c < n_cells; c++)
        report_effects_free(e[c], l);
    return 0;
}

/* --------------------------------------------------------------- time */

int report_chart_time(report_page *p, const report_data *d, size_t layer)
{
    static const char *const part[] = {"build", "run", "think"};
    const report_layer *l = d->layer[layer];
    cmd_text *t = &p->text;
    size_t c, n = 0, i, shown[REPORT_SIDE];
    double most = 0, y = 8, per, x;
    char v0[48];
    for (c = 0; c < l->n_cells && n < REPORT_SIDE; c++) {
        const report_series *m;
        if (l->cell[c].main == SIZE_MAX)
            continue;
        m = &d->series[l->cell[c].main];
        x = m->build_s + m->run_s + m->think_s;
        if (!(x > 0))
            continue;
        shown[n++] = c;
        most = x > most ? x : most;
    }
    if (!n)
        return 0;
    per = (CHART_W - 8) / most;
    begin(p, "time", 26 + 62 * (double)n, "Where the time went");
    cmd_text_add(t, "Seconds of the run: building, running and thinking; the "
                 "numbers stand below each bar.</desc>");
    for (i = 0; i < n; i++) {
        const report_series *m = &d->series[l->cell[shown[i]].main];
        double s[3], sum;
        int k;
        s[0] = m->build_s;
        s[1] = m->run_s;
        s[2] = m->think_s;
        sum = s[0] + s[1] + s[2];
        cmd_text_add(t, "<text class=\"b\" x=\"4\" y=\"%.0f\">", y + 10);
        report_escape(t, group_label(d, &l->cell[shown[i]]), 44);
        cmd_text_add(t, "<tspan class=\"q\"> %s</tspan></text>",
                     report_seconds(v0, sum));
        y += 16;
        for (k = 0, x = 4; k < 3; k++) {
            if (!(s[k] > 0))
                continue;
            cmd_text_add(t, "<rect class=\"k%d\" x=\"%.1f\" y=\"%.0f\" "
                         "width=\"%.1f\" height=\"16\"/>", k, x, y,
                         s[k] * per > 1 ? s[k] * per : 1);
            x += s[k] * per;
        }
        y += 29;
        for (k = 0; k < 3; k++) {
            double at = 4 + 140.0 * k;
            cmd_text_add(t, "<rect class=\"k%d\" x=\"%.0f\" y=\"%.0f\" "
                         "width=\"10\" height=\"10\"/><text x=\"%.0f\" "
                         "y=\"%.0f\">%s %s, %.0f %%</text>", k, at, y - 9,
                         at + 15, y, part[k], report_seconds(v0, s[k]),
                         100 * s[k] / sum);
        }
        y += 17;
    }
    cmd_text_add(t, "</svg>");
    return 1;
}
