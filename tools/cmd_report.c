/* cmd_report.c - metatune report: a page that shows what logs hold

   report_data.c gathers, report_chart.c draws, report_html.c writes. */
#define _POSIX_C_SOURCE 200809L

#include "cmd_report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report_html.h"

int cmd_report_write(const char *const *paths, size_t n, const char *out,
                     const char *title, int quiet, cmd_report_totals *totals)
{
    report_data d;
    report_page page;
    size_t i;
    int st;
    memset(totals, 0, sizeof *totals);
    memset(&page, 0, sizeof page);
    st = report_data_read(&d, paths, n, quiet);
    if (st == CMD_OK) {
        report_html(&page, &d, title);
        totals->bytes = page.text.n;
        totals->layers = d.n_layers;
        totals->trials = d.n_trials;
        totals->charts = page.n_charts;
        for (i = 0; i < d.n_logs; i++)
            totals->bad_lines += d.log[i].n_bad;
        if (cmd_file_write(out, page.text.p, page.text.n) != 0)
            st = cmd_fail(CMD_FAILED, "cannot write the report %s: %s", out,
                          strerror(errno));
    }
    cmd_text_free(&page.text);
    report_data_free(&d);
    return st;
}

/* A report on top of a log would be the end of the log. */
static int same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static int report(int argc, char **argv)
{
    const char **logs = (const char **)cmd_alloc((size_t)(argc + 1) *
                                                 sizeof *logs);
    const char *out = "report.html", *title = NULL;
    cmd_report_totals totals;
    cmd_args args;
    size_t n = 0, i;
    int st = CMD_OK, json = 0, quiet = 0;
    cmd_args_init(&args, "report", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (!args.name[0]) {
            logs[n++] = args.value;
        } else if (cmd_args_is(&args, "--out")) {
            st = cmd_args_text(&args, &out);
        } else if (cmd_args_is(&args, "--title")) {
            st = cmd_args_text(&args, &title);
        } else if (cmd_args_is(&args, "--json")) {
            st = cmd_args_flag(&args);
            json = 1;
        } else if (cmd_args_is(&args, "--quiet")) {
            st = cmd_args_flag(&args);
            quiet = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st == CMD_OK && n == 0)
        st = cmd_fail(CMD_USAGE, "report: which log? `metatune tune` writes "
                      "records.jsonl");
    for (i = 0; i < n && st == CMD_OK; i++)
        if (same_file(logs[i], out))
            st = cmd_fail(CMD_USAGE, "report: --out %s is one of the logs; "
                          "name another file", out);
    if (st == CMD_OK)
        st = cmd_report_write(logs, n, out, title, quiet, &totals);
    if (st == CMD_OK && json) {
        cmd_text t;
        memset(&t, 0, sizeof t);
        cmd_text_add(&t, "{\"out\":");
        cmd_text_json(&t, out);
        cmd_text_add(&t, ",\"bytes\":%zu,\"layers\":%zu,\"trials\":%zu,"
                     "\"charts\":%zu,\"bad_lines\":%zu}\n", totals.bytes,
                     totals.layers, totals.trials, totals.charts,
                     totals.bad_lines);
        fwrite(t.p, 1, t.n, stdout);
        cmd_text_free(&t);
    } else if (st == CMD_OK && !quiet) {
        printf("report %s: %zu layer%s, %zu measurement%s, %zu charts, %zu "
               "KB\n", out, totals.layers, totals.layers == 1 ? "" : "s",
               totals.trials, totals.trials == 1 ? "" : "s", totals.charts,
               (totals.bytes + 999) / 1000);
    }
    free(logs);
    return st;
}

const cmd_command cmd_report = {
    "report", "one self-contained page about record logs",
    "usage: metatune report LOG... [--out FILE] [--title T] [--json | "
    "--quiet]\n"
    "\n"
    "Writes one HTML file that needs nothing else: what was gained, how sure\n"
    "it is and what to do next; a table of all layers; and per layer the\n"
    "best-so-far curve against random, predicted against measured time, the\n"
    "effect of each knob, where the time went, and the failures. Several logs\n"
    "stand side by side, up to four in a chart.\n"
    "\n"
    "  --out FILE         where to (report.html)\n"
    "  --title T          its heading (metatune report)\n"
    "  --json             one JSON object about the page, for machines\n"
    "  --quiet            say nothing but errors\n"
    "\n"
    "Random: when a log holds runs of strategy random of the same layer and\n"
    "target, their mean. Otherwise the expected best of drawing the settings\n"
    "that were measured in random order, which flatters random: a search\n"
    "measures good settings.\n"
    "Several runs of a layer in a log: the best one that is not random is\n"
    "shown, the others as thin lines.\n"
    "Damaged and foreign lines are counted and left out. Exit status: 0\n"
    "success; 1 the page could not be written; 2 usage, a log that cannot be\n"
    "read, or no measurement in any.\n",
    report
};
