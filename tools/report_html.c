/* report_html.c - see report_html.h

   The page has no script, loads nothing (its policy forbids it) and reads
   without style. Order: what was gained, how sure that is, what to do next;
   all layers in one table; each layer; the logs. All text of a log goes
   through report_escape. */
#include "report_html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_LAYERS = 48,            /* with charts; the table goes on */
    PAGE_ROWS = 400,             /* of the table */
    PAGE_NAMES = 4,              /* layers that a piece of advice names */
    PAGE_MESSAGES = 3,           /* a failure class */
    PAGE_GROUPS = 12
};

static const char style[] =
":root{color-scheme:light dark;--bg:#fbfbfa;--fg:#1c1e21;--dim:#5a6068;"
"--line:#d7dadd;--card:#fff;--c0:#0b62a8;--c1:#b34700;--c2:#00735c;"
"--c3:#8a3b86;--bad:#b3261e;--k0:#5b7fb5;--k1:#d9a441;--k2:#6b6f76}\n"
"@media(prefers-color-scheme:dark){:root{--bg:#15171a;--fg:#e6e8ea;"
"--dim:#a4abb3;--line:#363b41;--card:#1d2024;--c0:#6cb6f5;--c1:#f59a5b;"
"--c2:#4fd1b0;--c3:#d99ad5;--bad:#ff8a80;--k0:#7fa6e0;--k1:#e3b65e;"
"--k2:#9aa0a8}}\n"
"*{box-sizing:border-box}"
"body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 "
"system-ui,sans-serif;overflow-wrap:anywhere}\n"
"header,main,footer{max-width:76rem;margin:0 auto;padding:0 1rem}\n"
"h1{font-size:1.6rem;line-height:1.2;margin:1rem 0 .2rem}"
"h2{font-size:1.25rem;margin:1.6rem 0 .5rem}"
"h3{font-size:1.05rem;margin:1rem 0 .3rem}"
"p,ul{margin:.4rem 0}ul{padding-left:1.2rem}"
".dim{color:var(--dim)}.big{font-size:1.9rem;line-height:1.2;"
"font-weight:650;margin:.2rem 0}\n"
"a{color:var(--c0)}a:focus-visible,summary:focus-visible,"
".scroll:focus-visible{outline:3px solid var(--c1);outline-offset:2px}\n"
".skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;"
"background:var(--card);padding:.5rem 1rem;z-index:1}\n"
"nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;"
"gap:.1rem 1rem}nav a{display:inline-block;padding:.15rem 0}\n"
".grid{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,"
"minmax(min(100%,22rem),1fr));align-items:start}\n"
".figs{columns:2 24rem;column-gap:1rem}.figs figure{break-inside:avoid;"
"margin-bottom:1rem}\n"
".card{background:var(--card);border:1px solid var(--line);"
"border-radius:.5rem;padding:.6rem 1rem;min-width:0}"
".card h2,.card h3{margin-top:.2rem}\n"
".layer{border-top:1px solid var(--line);margin-top:2rem}\n"
"figure{margin:0}figcaption{font-weight:600;margin-bottom:.3rem}"
"figcaption .dim{font-weight:400;font-size:.875rem;display:block}"
"svg{display:block;width:100%;height:auto;max-width:36rem}\n"
".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem;"
"font-variant-numeric:tabular-nums}caption{text-align:left;"
"color:var(--dim);padding-bottom:.3rem}\n"
"th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);"
"text-align:right;vertical-align:top;white-space:nowrap}"
"th[scope=row],td.l,th.l{text-align:left}"
"th[scope=row]{font-weight:500}td.l{overflow-wrap:anywhere;"
"white-space:normal;min-width:16rem}\n"
"dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;"
"margin:.4rem 0}dt{color:var(--dim)}dd{margin:0}"
"code{font:.875em ui-monospace,monospace}summary{cursor:pointer;"
"padding:.3rem 0}\n"
"svg text{font:12px system-ui,sans-serif;fill:var(--fg)}"
"svg .q{fill:var(--dim);font-weight:400}svg .b{font-weight:600}"
"svg .e{text-anchor:end}svg .m{text-anchor:middle}\n"
"svg path{fill:none}.gr{stroke:var(--line);stroke-width:.7}"
".ax{stroke:var(--dim);stroke-width:1}"
".ref{stroke:var(--dim);stroke-width:1;stroke-dasharray:2 3}"
".c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}"
".c3{stroke:var(--c3)}.f0{fill:var(--c0)}.f1{fill:var(--c1)}"
".f2{fill:var(--c2)}.f3{fill:var(--c3)}\n"
".l0,.l1,.l2,.l3{stroke-width:2.4}.l1{stroke-dasharray:9 3}"
".l2{stroke-dasharray:9 3 2 3}.l3{stroke-dasharray:4 2}"
".thin{stroke-width:1;opacity:.55}"
".rnd{stroke-width:1.6;stroke-dasharray:1.5 3.5;stroke-linecap:round}"
".def{stroke-width:1.1;stroke-dasharray:12 5}\n"
"svg .dot{stroke-width:6;stroke-linecap:round}"
"svg .c1.dot,svg .c3.dot{stroke-linecap:square;stroke-width:4.6}"
"svg .c2.dot{stroke-width:8.5}svg .c3.dot{stroke-width:7}\n"
".iv{stroke-width:1;opacity:.4}.box{stroke-width:5;opacity:.35}"
".tip{stroke-width:1.6}.bad{stroke:var(--bad);stroke-width:1.5}"
".none{stroke:none}.k0{fill:var(--k0)}.k1{fill:var(--k1)}"
".k2{fill:var(--k2)}\n"
"td.set{white-space:nowrap;text-align:left}"
"@media(min-width:60rem){.top{grid-template-columns:1.4fr 1fr 1fr}}\n"
"@media(max-width:40rem){body{font-size:15px}"
"dl{grid-template-columns:1fr}dd{margin-bottom:.3rem}"
".big{font-size:1.6rem}svg text{font-size:13.5px}"
".card{padding:.5rem .7rem}}\n"
"@media(prefers-reduced-motion:no-preference){html{"
"scroll-behavior:smooth}}\n"
"@media print{nav,.skip{display:none}.card{break-inside:avoid}}\n";

static const char dash[] = "\xE2\x80\x93";
static const char times[] = "\xC3\x97";

static const char *name_of(const report_layer *l)
{
    return l->name && *l->name ? l->name : *l->task ? l->task : "(no name)";
}

static const report_series *main_of(const report_data *d,
                                    const report_cell *c)
{
    return c->main == SIZE_MAX ? NULL : &d->series[c->main];
}

/* The layer's first cell with a run: what the sentences speak of. */
static const report_cell *first_cell(const report_layer *l)
{
    size_t c;
    for (c = 0; c < l->n_cells; c++)
        if (l->cell[c].main != SIZE_MAX)
            return &l->cell[c];
    return NULL;
}

static void layer_link(report_page *p, const report_data *d, size_t i)
{
    int link = i < PAGE_LAYERS;
    if (link)
        cmd_text_add(&p->text, "<a href=\"#layer%zu\">", i + 1);
    report_escape(&p->text, name_of(d->layer[i]), 60);
    if (link)
        cmd_text_add(&p->text, "</a>");
}

static void speedup_add(cmd_text *t, double x, const char *fallback)
{
    if (x >= 1 + REPORT_NOISE)
        cmd_text_add(t, "%.2f%s as fast as the default (%s)", x, times,
                     fallback);
    else if (x > 1 - REPORT_NOISE)
        cmd_text_add(t, "within noise of the default (%s, %.2f%s)", fallback,
                     x, times);
    else
        cmd_text_add(t, "slower than the default (%s, %.2f%s)", fallback, x,
                     times);
}

static double percent(size_t a, size_t b)
{
    return b ? 100.0 * (double)a / (double)b : 0;
}

/* ------------------------------------------------------- first screen */

static void gained(report_page *p, const report_data *d)
{
    cmd_text *t = &p->text;
    char v0[48], v1[48], v2[48];
    size_t g, shown = 0, many = 0;
    cmd_text_add(t, "<section class=\"card\" aria-labelledby=\"gained\">"
                 "<h2 id=\"gained\">What was gained</h2>\n");
    for (g = 0; g < d->n_groups; g++)
        many += d->group[g].n_layers > 0;
    for (g = 0; g < d->n_groups && shown < PAGE_GROUPS; g++) {
        const report_group *x = &d->group[g];
        if (!x->n_layers)
            continue;
        shown++;
        if (many > 1) {
            cmd_text_add(t, "<h3>%zu. ", g + 1);
            report_escape(t, x->label, 120);
            cmd_text_add(t, "</h3>");
        }
        if (!x->n_found) {
            cmd_text_add(t, "<p class=\"big\">Nothing valid</p><p>None of "
                         "the settings of %zu layer%s worked.</p>\n",
                         x->n_layers, x->n_layers > 1 ? "s" : "");
            continue;
        }
        if (x->n_both) {
            cmd_text_add(t, "<p class=\"big\">%.2f%s</p><p>against the "
                         "default settings: ", x->sum_default / x->sum_best,
                         times);
            cmd_text_add(t, "%s \xE2\x86\x92 %s in sum over %zu layer%s "
                         "(each counted once; geometric mean %.2f%s).",
                         report_value(v0, x->sum_default, x->unit),
                         report_value(v1, x->sum_best, x->unit), x->n_both,
                         x->n_both > 1 ? "s" : "",
                         exp(x->log_speedup / (double)x->n_both), times);
            if (x->sum_naive_best > 0)
                cmd_text_add(t, " Naive loops take %s: %.1f%s the tuned "
                             "time.", report_value(v2, x->sum_naive,
                                                   x->unit),
                             x->sum_naive / x->sum_naive_best, times);
            cmd_text_add(t, "</p>\n");
        } else {
            cmd_text_add(t, "<p>The log does not say how fast the default "
                         "setting is, so the gain is unknown. Best times are "
                         "in the table.</p>\n");
        }
        if (x->n_found < x->n_layers)
            cmd_text_add(t, "<p>%zu of %zu layers have no valid setting."
                         "</p>\n", x->n_layers - x->n_found, x->n_layers);
    }
    if (many > shown)
        cmd_text_add(t, "<p>%zu more are in the table.</p>", many - shown);
    cmd_text_add(t, "<figure>\n");
    if (!report_chart_gain(p, d))
        cmd_text_add(t, "<p class=\"dim\">No layer has both a default and a "
                     "tuned time.</p>");
    cmd_text_add(t, "</figure>");
    cmd_text_add(t, "</section>\n");
}

static void sure(report_page *p, const report_data *d)
{
    cmd_text *t = &p->text;
    size_t i, c, s, found = 0, confirmed = 0, retimed = 0, ties = 0;
    size_t predicted = 0, covered = 0, n = 0, failed = 0, explore = 0;
    size_t worst = SIZE_MAX, noise = 0, known = 0, bad = 0;
    size_t by_status[REPORT_STATUSES];
    double *spread = (double *)cmd_alloc((d->n_series + 1) *
                                         sizeof *spread), most = -1;
    memset(by_status, 0, sizeof by_status);
    for (i = 0; i < d->n_layers; i++)
        for (c = 0; c < d->layer[i]->n_cells; c++) {
            const report_cell *cell = &d->layer[i]->cell[c];
            const report_series *m = main_of(d, cell);
            if (!m)
                continue;
            predicted += m->n_predicted;
            covered += m->n_covered;
            if (!(m->best > 0))
                continue;
            found++;
            retimed += m->tuned > 0;
            if (cell->speedup > 0) {
                known++;
                noise += cell->speedup < 1 + REPORT_NOISE;
            }
            if (m->confirms < 2)
                continue;
            confirmed++;
            ties += m->ties > 0;
            spread[n++] = m->spread;
            if (m->spread > most) {
                most = m->spread;
                worst = i;
            }
        }
    for (s = 0; s < d->n_series; s++) {
        explore += d->series[s].n_explore + d->series[s].n_confirm;
        failed += d->series[s].n_failed;
        for (i = 0; i < REPORT_STATUSES; i++)
            by_status[i] += d->series[s].by_status[i];
    }
    for (i = 0; i < d->n_logs; i++)
        bad += d->log[i].n_bad;
    qsort(spread, n, sizeof *spread, report_by_value);
    cmd_text_add(t, "<section class=\"card\" aria-labelledby=\"sure\"><h2 "
                 "id=\"sure\">How sure it is</h2>\n<ul>\n");
    if (confirmed) {
        cmd_text_add(t, "<li>%zu of %zu winners were measured again in "
                     "alternation: their times spread %.1f %% (median)",
                     confirmed, found, 100 * report_quantile(spread, n, 0.5));
        cmd_text_add(t, ", %.1f %% at most, on ", 100 * most);
        layer_link(p, d, worst);
        cmd_text_add(t, ".</li>\n");
    } else if (found) {
        cmd_text_add(t, "<li>No winner was measured again: each best time is "
                     "the luckiest of many single looks.</li>\n");
    }
    if (retimed)
        cmd_text_add(t, "<li>%zu of %zu gains compare default and winner "
                     "timed side by side at the end.</li>\n", retimed,
                     found);
    if (confirmed)
        cmd_text_add(t, "<li>On %zu of them another setting ties with the "
                     "winner.</li>\n", ties);
    if (noise)
        cmd_text_add(t, "<li>%zu of %zu gains are below %.0f %%, which is "
                     "noise.</li>\n", noise, known, 100 * REPORT_NOISE);
    if (predicted) {
        double x = percent(covered, predicted);
        cmd_text_add(t, "<li>The model's 90 %% intervals held %.0f %% of %zu "
                     "measurements: %s.</li>\n", x, predicted,
                     predicted < 20 ? "too few to judge"
                     : x < 82 ? "the model is surer than it should be"
                     : x > 97 ? "they are wider than need be"
                              : "as they should");
    } else {
        cmd_text_add(t, "<li>The log holds no predictions to check the model "
                     "by.</li>\n");
    }
    cmd_text_add(t, "<li>%zu of %zu measurements failed", failed, explore);
    for (i = 1, n = 0; i < REPORT_STATUSES; i++)
        if (by_status[i] && i != METATUNE_CANCELLED &&
            i != METATUNE_NOT_RUN)
            cmd_text_add(t, "%s%s %zu", n++ ? ", " : " (",
                         metatune_encode_status_name((metatune_status)i),
                         by_status[i]);
    cmd_text_add(t, "%s.</li>\n", n ? ")" : "");
    if (bad)
        cmd_text_add(t, "<li>Damaged or foreign lines left out: %zu."
                     "</li>\n", bad);
    cmd_text_add(t, "</ul></section>\n");
    free(spread);
}

/* One piece of advice; weight says which come first. */
typedef struct advice {
    double weight;
    size_t layer, order;
    int kind;
    double x;
    size_t n;
} advice;

enum {
    ADVICE_INVALID, ADVICE_STOPPED, ADVICE_DRIFT, ADVICE_EXPECTED,
    ADVICE_LATE, ADVICE_FAILED, ADVICE_SINGLE, ADVICE_TIES, ADVICE_NOISE,
    ADVICE_LUCK
};

static int by_weight(const void *a, const void *b)
{
    const advice *x = (const advice *)a, *y = (const advice *)b;
    if (x->weight < y->weight)
        return 1;
    if (x->weight > y->weight)
        return -1;
    return x->order < y->order ? -1 : 1;
}

static void advise(advice *list, size_t *n, size_t layer, int kind,
                   double weight, double x, size_t count)
{
    list[*n].weight = weight;
    list[*n].layer = layer;
    list[*n].order = *n;
    list[*n].kind = kind;
    list[*n].x = x;
    list[*n].n = count;
    ++*n;
}

static void advise_layer(const report_data *d, size_t i, advice *list,
                         size_t *n)
{
    const report_layer *l = d->layer[i];
    const report_cell *c = first_cell(l);
    const report_series *m;
    if (!c)
        return;
    m = main_of(d, c);
    if (!(m->best > 0)) {
        advise(list, n, i, ADVICE_INVALID, 100, 0, m->n_failed);
        return;
    }
    if (!m->ended || m->end == METATUNE_CANCELLED)
        advise(list, n, i, ADVICE_STOPPED, 50, 0, m->n_explore);
    if (m->drift > 0 && fabs(m->drift - 1) > 0.05)
        advise(list, n, i, ADVICE_DRIFT, 20 * fabs(m->drift - 1) + 10,
               100 * (m->drift - 1), 0);
    if (m->expected > 1 + REPORT_NOISE)
        advise(list, n, i, ADVICE_EXPECTED, 10 * m->expected,
               100 * (1 - 1 / m->expected), 0);
    else if (m->n_explore >= 16 && m->late_gain > 1 + REPORT_NOISE)
        advise(list, n, i, ADVICE_LATE, 8 * m->late_gain,
               100 * (1 - 1 / m->late_gain), 0);
    if (m->n_explore >= 8 && m->n_failed > m->n_explore / 4)
        advise(list, n, i, ADVICE_FAILED, 9, percent(m->n_failed,
               m->n_explore + m->n_confirm), 0);
    if (m->confirms < 2)
        advise(list, n, i, ADVICE_SINGLE, 6, 0, 0);
    else if (m->single > 0 && m->tuned > 0 &&
             m->tuned / m->single > 1.1)
        advise(list, n, i, ADVICE_LUCK, 5, 100 * (m->tuned / m->single - 1),
               0);
    if (m->ties > 0)
        advise(list, n, i, ADVICE_TIES, 4, 100 * m->spread, m->ties + 1);
    if (c->speedup > 0 && c->speedup < 1 + REPORT_NOISE)
        advise(list, n, i, ADVICE_NOISE, 3, 0, 0);
}

static void advice_add(cmd_text *t, const advice *a)
{
    switch (a->kind) {
    case ADVICE_INVALID:
        cmd_text_add(t, "%zu failures", a->n);
        break;
    case ADVICE_STOPPED:
        cmd_text_add(t, "after %zu settings", a->n);
        break;
    case ADVICE_DRIFT:
        cmd_text_add(t, "%.0f %% %s", fabs(a->x), a->x > 0 ? "slower"
                                                           : "faster");
        break;
    case ADVICE_EXPECTED:
    case ADVICE_LATE:
    case ADVICE_FAILED:
    case ADVICE_LUCK:
        cmd_text_add(t, "%.0f %%", a->x);
        break;
    case ADVICE_TIES:
        cmd_text_add(t, "%zu within %.1f %%", a->n, a->x);
        break;
    default:
        break;
    }
}

/* One item a kind, the weightiest layer first. */
static void next_steps(report_page *p, const report_data *d)
{
    static const char *const say[][2] = {
        {"No valid setting:", "Their messages stand below."},
        {"The run did not end:", "Go on with <code>--resume</code>."},
        {"Drift seen:", "The default setting was that much off at the end; "
         "measure again on a quiet machine."},
        {"More trials:", "The model still expected that much less time at "
         "its last look."},
        {"More trials:", "The last quarter still brought that much."},
        {"Look at the failures:", "Many measurements failed."},
        {"Confirm the winner:", "Its time is a single measurement."},
        {"Settings tie:", "Any of them will do; take the simplest."},
        {"Keep the default:", "The gain is noise."},
        {"The first look was lucky:", "Timed again beside the default the "
         "winner took that much more."}
    };
    cmd_text *t = &p->text;
    advice *list = (advice *)cmd_alloc((8 * d->n_layers + 1) *
                                       sizeof *list);
    size_t i, j, n = 0, shown, of_kind;
    int done[ADVICE_LUCK + 1];
    memset(done, 0, sizeof done);
    for (i = 0; i < d->n_layers; i++)
        advise_layer(d, i, list, &n);
    qsort(list, n, sizeof *list, by_weight);
    cmd_text_add(t, "<section class=\"card\" aria-labelledby=\"next\"><h2 "
                 "id=\"next\">What to do next</h2>\n<ul>\n");
    for (i = 0; i < n; i++) {
        if (done[list[i].kind])
            continue;
        done[list[i].kind] = 1;
        cmd_text_add(t, "<li><strong>%s</strong> ", say[list[i].kind][0]);
        for (j = i, shown = of_kind = 0; j < n; j++) {
            cmd_text detail;
            if (list[j].kind != list[i].kind || ++of_kind > PAGE_NAMES)
                continue;
            cmd_text_add(t, shown++ ? ", " : "");
            layer_link(p, d, list[j].layer);
            memset(&detail, 0, sizeof detail);
            advice_add(&detail, &list[j]);
            if (detail.n)
                cmd_text_add(t, " (%s)", detail.p);
            cmd_text_free(&detail);
        }
        if (of_kind > shown)
            cmd_text_add(t, " and %zu more", of_kind - shown);
        cmd_text_add(t, ". %s</li>\n", say[list[i].kind][1]);
    }
    if (!n)
        cmd_text_add(t, "<li>Nothing calls for more trials: every run ended, "
                     "its winner stood alone when measured again, and the "
                     "last quarter brought nothing. Use the settings of the "
                     "table.</li>\n");
    cmd_text_add(t, "</ul></section>\n");
    free(list);
}

/* ------------------------------------------------------------- tables */

static void setting_add(cmd_text *t, const report_layer *l,
                        const report_series *s)
{
    const report_trial *w;
    size_t k, n = 0;
    if (s->winner >= s->n)
        return;
    w = &s->trial[s->winner];
    for (k = 0; k < w->n_digits; k++) {
        uint8_t digit = l->digits[w->digits + k];
        if (digit >= l->knob[k].n_values)
            continue;
        cmd_text_add(t, n++ ? ", " : "");
        report_escape(t, l->knob[k].name, 40);
        cmd_text_add(t, "=");
        report_escape(t, l->knob[k].value[digit], 40);
    }
}

static void scroll_open(cmd_text *t, const char *label)
{
    cmd_text_add(t, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" "
                 "aria-label=\"");
    report_escape(t, label, 120);
    cmd_text_add(t, "\">");
}

static void number_cell(cmd_text *t, double x, int digits, const char *unit)
{
    if (x > 0)
        cmd_text_add(t, "<td>%.*f%s</td>", digits, x, unit);
    else
        cmd_text_add(t, "<td>%s</td>", dash);
}

static void final_table(report_page *p, const report_data *d)
{
    cmd_text *t = &p->text;
    size_t i, c, rows = 0, left = 0;
    char v[48];
    cmd_text_add(t, "<section aria-labelledby=\"all\"><h2 id=\"all\">All "
                 "layers</h2>\n");
    scroll_open(t, "All layers, table");
    cmd_text_add(t, "<table><caption>Naive loops, default setting and tuned "
                 "kernel; spread is that of the repeated measurements of the "
                 "winner.</caption><thead><tr><th scope=\"col\" class=\"l\">"
                 "layer</th>");
    if (d->n_groups > 1)
        cmd_text_add(t, "<th scope=\"col\" class=\"l\">log</th>");
    cmd_text_add(t, "<th scope=\"col\">naive</th><th scope=\"col\">default"
                 "</th><th scope=\"col\">tuned</th><th scope=\"col\">%s "
                 "naive</th><th scope=\"col\">%s default</th><th scope="
                 "\"col\">GFLOP/s</th><th scope=\"col\">of peak</th><th "
                 "scope=\"col\">spread</th><th scope=\"col\">ties</th><th "
                 "scope=\"col\">trials</th><th scope=\"col\">failed</th><th "
                 "scope=\"col\">end</th><th scope=\"col\" class=\"l\">"
                 "setting</th></tr></thead><tbody>\n", times, times);
    for (i = 0; i < d->n_layers; i++) {
        const report_layer *l = d->layer[i];
        for (c = 0; c < l->n_cells; c++) {
            const report_cell *k = &l->cell[c];
            const report_series *m = main_of(d, k);
            double rate;
            if (!m)
                continue;
            if (rows == PAGE_ROWS) {
                left++;
                continue;
            }
            rows++;
            rate = m->unit == METATUNE_SECONDS && m->best > 0
                 ? k->gflop / m->best : 0;
            cmd_text_add(t, "<tr><th scope=\"row\">");
            layer_link(p, d, i);
            cmd_text_add(t, "</th>");
            if (d->n_groups > 1) {
                cmd_text_add(t, "<td class=\"l\">%zu. ", k->group + 1);
                report_escape(t, d->group[k->group].label, 80);
                cmd_text_add(t, "</td>");
            }
            cmd_text_add(t, "<td>%s</td>", report_value(v, k->naive,
                                                        m->unit));
            cmd_text_add(t, "<td>%s</td>", report_value(v, k->fallback,
                                                        m->unit));
            cmd_text_add(t, "<td>%s</td>", report_value(v, m->best,
                                                        m->unit));
            number_cell(t, m->best > 0 ? k->naive / m->best : 0, 1, times);
            number_cell(t, k->speedup, 2, times);
            number_cell(t, rate, 1, "");
            number_cell(t, k->peak_gflops > 0 ? 100 * rate / k->peak_gflops
                                              : 0, 0, " %");
            if (m->confirms > 1)
                cmd_text_add(t, "<td>%.1f %%</td><td>%zu</td>",
                             100 * m->spread, m->ties);
            else
                cmd_text_add(t, "<td>%s</td><td>%s</td>", dash, dash);
            cmd_text_add(t, "<td>%zu</td><td>%zu</td><td>%s</td><td "
                         "class=\"set\"><code>", m->n_explore, m->n_failed,
                         m->ended ? metatune_encode_status_name(m->end)
                                  : "open");
            setting_add(t, l, m);
            cmd_text_add(t, "</code></td></tr>\n");
        }
    }
    cmd_text_add(t, "</tbody></table></div>\n");
    if (left)
        cmd_text_add(t, "<p>%zu more rows are left out.</p>\n", left);
    cmd_text_add(t, "</section>\n");
}

static int message_order(const void *a, const void *b)
{
    const report_message *x = *(const report_message *const *)a;
    const report_message *y = *(const report_message *const *)b;
    if (x->status != y->status)
        return x->status < y->status ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return strcmp(x->text, y->text);
}

static void failures(report_page *p, const report_layer *l)
{
    cmd_text *t = &p->text;
    const report_message **m;
    size_t i, total = l->other_messages, shown = 0;
    if (!l->n_messages)
        return;
    m = (const report_message **)cmd_alloc(l->n_messages * sizeof *m);
    for (i = 0; i < l->n_messages; i++) {
        m[i] = &l->message[i];
        total += m[i]->count;
    }
    qsort(m, l->n_messages, sizeof *m, message_order);
    cmd_text_add(t, "<h3>Failures: %zu</h3>\n", total);
    scroll_open(t, "Failures, table");
    cmd_text_add(t, "<table><caption>By class, the most frequent messages "
                 "first</caption><thead><tr><th scope=\"col\" class=\"l\">"
                 "class</th><th scope=\"col\">times</th><th scope=\"col\" "
                 "class=\"l\">message</th></tr></thead><tbody>\n");
    for (i = 0; i < l->n_messages; i++) {
        if (i && m[i]->status != m[i - 1]->status)
            shown = 0;
        if (++shown > PAGE_MESSAGES)
            continue;
        cmd_text_add(t, "<tr><th scope=\"row\">%s</th><td>%zu</td><td "
                     "class=\"l\"><code>", metatune_encode_status_name(
                         (metatune_status)m[i]->status), m[i]->count);
        report_escape(t, *m[i]->text ? m[i]->text : "(no message)", 256);
        cmd_text_add(t, "</code></td></tr>\n");
    }
    cmd_text_add(t, "</tbody></table></div>\n");
    free(m);
}

static void knob_table(report_page *p, const report_data *d,
                       const report_layer *l)
{
    cmd_text *t = &p->text;
    const report_cell *c = first_cell(l);
    report_effect **e;
    size_t order[METATUNE_MAX_KNOBS], vo[REPORT_KNOB_VALUES], i, w;
    double how[METATUNE_MAX_KNOBS];
    if (!l->n_knobs || !c || !(c->best > 0))
        return;
    e = report_effects(d, l, c);
    report_knob_order(l, e, order, how);
    cmd_text_add(t, "<details><summary>Numbers of the knobs</summary>\n");
    scroll_open(t, "Knobs, table");
    cmd_text_add(t, "<table><caption>Time by value, relative to the best of "
                 "the run");
    if (l->n_cells > 1) {
        cmd_text_add(t, " (");
        report_escape(t, d->group[c->group].label, 80);
        cmd_text_add(t, ")");
    }
    cmd_text_add(t, "</caption><thead><tr><th scope=\"col\" class=\"l\">knob"
                 "</th><th scope=\"col\">value</th><th scope=\"col\">settings"
                 "</th><th scope=\"col\">best</th><th scope=\"col\">25 %%"
                 "</th><th scope=\"col\">median</th><th scope=\"col\">75 %%"
                 "</th></tr></thead><tbody>\n");
    for (i = 0; i < l->n_knobs; i++) {
        const report_knob *k = &l->knob[order[i]];
        report_value_order(k, vo);
        for (w = 0; w < k->n_values; w++) {
            const report_effect *f = &e[order[i]][vo[w]];
            if (!f->n)
                continue;
            cmd_text_add(t, "<tr><th scope=\"row\">");
            report_escape(t, k->name, 40);
            cmd_text_add(t, "</th><td>");
            report_escape(t, k->value[vo[w]], 40);
            cmd_text_add(t, "</td><td>%zu</td><td>%.3g</td><td>%.3g</td><td>"
                         "%.3g</td><td>%.3g</td></tr>\n", f->n, f->best,
                         f->low, f->median, f->high);
        }
        if (k->lost) {
            cmd_text_add(t, "<tr><th scope=\"row\">");
            report_escape(t, k->name, 40);
            cmd_text_add(t, "</th><td>other</td><td colspan=\"5\">more than "
                         "%d values; the rest is left out</td></tr>\n",
                         REPORT_KNOB_VALUES);
        }
    }
    cmd_text_add(t, "</tbody></table></div></details>\n");
    report_effects_free(e, l);
}

static void curve_table(report_page *p, const report_data *d,
                        const report_layer *l)
{
    static const size_t at[] = {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
    cmd_text *t = &p->text;
    size_t i, c, drawn = 0;
    char v[48];
    cmd_text_add(t, "<details><summary>Numbers of the curve</summary>\n");
    scroll_open(t, "Best time so far, table");
    cmd_text_add(t, "<table><caption>Best time after so many settings, and "
                 "what random would have</caption><thead><tr><th "
                 "scope=\"col\" class=\"l\">run</th><th scope=\"col\">trials"
                 "</th><th scope=\"col\">best</th><th scope=\"col\">random"
                 "</th></tr></thead><tbody>\n");
    for (c = 0; c < l->n_cells && drawn < REPORT_SIDE; c++) {
        const report_cell *k = &l->cell[c];
        const report_series *m = main_of(d, k);
        report_random random;
        if (!m || !(m->best > 0))
            continue;
        drawn++;
        report_random_open(&random, d, l, k);
        for (i = 0; i < sizeof at / sizeof at[0]; i++) {
            size_t n = at[i] < m->n_explore ? at[i] : m->n_explore;
            cmd_text_add(t, "<tr><th scope=\"row\">");
            report_escape(t, d->group[k->group].label, 60);
            cmd_text_add(t, "</th><td>%zu</td><td>%s</td>", n,
                         report_value(v, report_best_after(m, n), m->unit));
            cmd_text_add(t, "<td>%s</td></tr>\n",
                         report_value(v, report_random_at(&random, n),
                                      m->unit));
            if (n < at[i] || n == m->n_explore)
                break;
        }
        report_random_close(&random);
    }
    cmd_text_add(t, "</tbody></table></div></details>\n");
}

/* ------------------------------------------------------------- layers */

static void facts(report_page *p, const report_data *d,
                  const report_layer *l, const report_cell *c)
{
    cmd_text *t = &p->text;
    const report_series *m = main_of(d, c);
    char v0[48], v1[48];
    cmd_text_add(t, "<dl>");
    if (l->n_cells > 1) {
        cmd_text_add(t, "<dt>log</dt><dd><strong>");
        report_escape(t, d->group[c->group].label, 120);
        cmd_text_add(t, "</strong></dd>");
    }
    cmd_text_add(t, "<dt>result</dt><dd>");
    if (!(m->best > 0)) {
        cmd_text_add(t, "no valid setting");
    } else {
        cmd_text_add(t, "%s", report_value(v0, m->best, m->unit));
        if (c->speedup > 0) {
            cmd_text_add(t, ", ");
            speedup_add(t, c->speedup,
                        report_value(v1, c->fallback, m->unit));
        }
        if (m->tuned > 0)
            cmd_text_add(t, ", timed side by side");
    }
    cmd_text_add(t, "</dd><dt>setting</dt><dd><code>");
    setting_add(t, l, m);
    cmd_text_add(t, "</code></dd><dt>sure</dt><dd>");
    if (m->confirms > 1)
        cmd_text_add(t, "measured again %zu times, spread %.1f %%, %zu other "
                     "setting%s tie%s", m->confirms, 100 * m->spread,
                     m->ties, m->ties == 1 ? "" : "s",
                     m->ties == 1 ? "s" : "");
    else
        cmd_text_add(t, "not measured again");
    if (m->n_predicted)
        cmd_text_add(t, "; 90 %% intervals held %zu of %zu", m->n_covered,
                     m->n_predicted);
    cmd_text_add(t, "</dd><dt>run</dt><dd>%zu settings, %zu confirmations, "
                 "%zu failed, seed %llu, ", m->n_explore, m->n_confirm,
                 m->n_failed, (unsigned long long)m->seed);
    report_escape(t, m->strategy, 20);
    cmd_text_add(t, "; %s", m->ended ? metatune_encode_status_name(m->end)
                                     : "did not end");
    if (c->n_runs > 1)
        cmd_text_add(t, "; best of %zu runs, %zu of them random", c->n_runs,
                     c->n_random);
    cmd_text_add(t, "</dd></dl>\n");
}

static void figure(report_page *p, const report_data *d, size_t layer,
                   int (*chart)(report_page *, const report_data *, size_t),
                   const char *caption, const char *more, const char *none)
{
    cmd_text *t = &p->text;
    cmd_text_add(t, "<figure class=\"card\"><figcaption>%s<span "
                 "class=\"dim\">%s</span></figcaption>\n", caption, more);
    if (!chart(p, d, layer))
        cmd_text_add(t, "<p class=\"dim\">%s</p>", none);
    cmd_text_add(t, "</figure>\n");
}

static void layer_section(report_page *p, const report_data *d, size_t i)
{
    const report_layer *l = d->layer[i];
    cmd_text *t = &p->text;
    size_t c, n = 0;
    cmd_text_add(t, "<section class=\"layer\" aria-labelledby=\"layer%zu\">"
                 "<h2 id=\"layer%zu\">", i + 1, i + 1);
    report_escape(t, name_of(l), 120);
    cmd_text_add(t, "</h2>\n<p class=\"dim\"><code>");
    report_escape(t, l->task, 300);
    cmd_text_add(t, "</code></p>\n");
    for (c = 0; c < l->n_cells && n < REPORT_SIDE; c++)
        if (l->cell[c].main != SIZE_MAX) {
            facts(p, d, l, &l->cell[c]);
            n++;
        }
    for (n = 0, c = 0; c < l->n_cells; c++)
        n += l->cell[c].main != SIZE_MAX;
    if (n > REPORT_SIDE)
        cmd_text_add(t, "<p>%zu more logs hold this layer; charts show the "
                     "first %d.</p>\n", n - REPORT_SIDE, REPORT_SIDE);
    cmd_text_add(t, "<div class=\"figs\">\n");
    figure(p, d, i, report_chart_curve, "Best so far",
           "against random search where a log holds one, else against its "
           "own settings in random order (which flatters random)",
           "Nothing valid was measured.");
    figure(p, d, i, report_chart_predicted, "Predicted and measured",
           "lines are the model's 90 % intervals",
           "The log holds no predictions for this layer.");
    figure(p, d, i, report_chart_knobs, "Effect of each knob",
           "the search prefers good settings, so this is no fair sample; "
           "number: slowest over fastest median",
           "Fewer than two values of any knob were measured.");
    figure(p, d, i, report_chart_time, "Where the time went",
           "building kernels, running them, thinking what to try",
           "The log does not say.");
    cmd_text_add(t, "</div>\n");
    failures(p, l);
    for (c = 0; c < l->n_cells; c++)
        if (l->cell[c].best > 0)
            break;
    if (c < l->n_cells)
        curve_table(p, d, l);
    knob_table(p, d, l);
    cmd_text_add(t, "</section>\n");
}

static void logs(report_page *p, const report_data *d)
{
    cmd_text *t = &p->text;
    size_t i;
    cmd_text_add(t, "<section class=\"layer\" aria-labelledby=\"logs\"><h2 "
                 "id=\"logs\">Logs and targets</h2>\n<ul>\n");
    for (i = 0; i < d->n_logs; i++) {
        cmd_text_add(t, "<li>");
        report_escape(t, d->log[i].label, 200);
        cmd_text_add(t, ": %zu records, %zu damaged or foreign lines</li>\n",
                     d->log[i].n_good, d->log[i].n_bad);
    }
    for (i = 0; i < d->n_groups && i < PAGE_GROUPS; i++) {
        cmd_text_add(t, "<li>target in ");
        report_escape(t, d->log[d->group[i].log].label, 100);
        cmd_text_add(t, ": <code>");
        report_escape(t, *d->group[i].target ? d->group[i].target
                                             : "(not said)", 400);
        cmd_text_add(t, "</code></li>\n");
    }
    cmd_text_add(t, "</ul></section>\n");
}

void report_html(report_page *p, const report_data *d, const char *title)
{
    cmd_text *t = &p->text;
    size_t i, runs = 0, n = d->n_layers < PAGE_LAYERS ? d->n_layers
                                                      : PAGE_LAYERS;
    if (!title || !*title)
        title = "metatune report";
    for (i = 0; i < d->n_series; i++)
        runs += d->series[i].n > 0;
    cmd_text_add(t, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
                 "charset=\"utf-8\"><meta name=\"viewport\" content=\""
                 "width=device-width,initial-scale=1\"><meta "
                 "http-equiv=\"Content-Security-Policy\" content=\""
                 "default-src 'none'; style-src 'unsafe-inline'; img-src "
                 "data:\"><link rel=\"icon\" href=\"data:,\"><title>");
    report_escape(t, title, 200);
    cmd_text_add(t, "</title><style>\n");
    cmd_text_bytes(t, style, sizeof style - 1);
    cmd_text_add(t, "</style></head>\n<body><a class=\"skip\" href=\"#main\">"
                 "Skip to the report</a>\n<header><h1>");
    report_escape(t, title, 200);
    cmd_text_add(t, "</h1><p class=\"dim\">%zu layer%s, %zu measurements in "
                 "%zu run%s from %zu log%s</p></header>\n", d->n_layers,
                 d->n_layers == 1 ? "" : "s", d->n_trials, runs,
                 runs == 1 ? "" : "s", d->n_logs,
                 d->n_logs == 1 ? "" : "s");
    cmd_text_add(t, "<main id=\"main\" tabindex=\"-1\">\n<div "
                 "class=\"grid top\">\n");
    gained(p, d);
    sure(p, d);
    next_steps(p, d);
    cmd_text_add(t, "</div>\n");
    final_table(p, d);
    cmd_text_add(t, "<nav aria-label=\"Layers\"><h2>Layer by layer</h2><ul>"
                 "\n");
    for (i = 0; i < n; i++) {
        cmd_text_add(t, "<li>");
        layer_link(p, d, i);
        cmd_text_add(t, "</li>\n");
    }
    cmd_text_add(t, "</ul></nav>\n");
    if (n < d->n_layers)
        cmd_text_add(t, "<p>The first %zu of %zu layers have charts.</p>\n",
                     n, d->n_layers);
    for (i = 0; i < n; i++)
        layer_section(p, d, i);
    logs(p, d);
    cmd_text_add(t, "</main>\n<footer><p class=\"dim\">Written by metatune "
                 "%d.%d.%d; this file needs nothing else.</p></footer>"
                 "</body></html>\n", METATUNE_VERSION_MAJOR,
                 METATUNE_VERSION_MINOR, METATUNE_VERSION_PATCH);
}
