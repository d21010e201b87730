/* cmd_export.c - metatune export: record logs in the formats of other tools */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_util.h"
#include "export_header.h"
#include "io.h"

typedef struct export_options {
    char **log;
    size_t n_logs;
    const char *format, *out, *name, *task, *target;
    int all;
} export_options;

static int export_parse(export_options *o, int argc, char **argv)
{
    cmd_args args;
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->log = (char **)cmd_alloc(((size_t)argc + 1) * sizeof *o->log);
    cmd_args_init(&args, "export", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (!args.name[0]) {
            o->log[o->n_logs++] = argv[args.i - 1];
        } else if (cmd_args_is(&args, "--format")) {
            st = cmd_args_text(&args, &o->format);
        } else if (cmd_args_is(&args, "--out")) {
            st = cmd_args_text(&args, &o->out);
        } else if (cmd_args_is(&args, "--name")) {
            st = cmd_args_text(&args, &o->name);
        } else if (cmd_args_is(&args, "--task")) {
            st = cmd_args_text(&args, &o->task);
        } else if (cmd_args_is(&args, "--target")) {
            st = cmd_args_text(&args, &o->target);
        } else if (cmd_args_is(&args, "--all")) {
            st = cmd_args_flag(&args);
            o->all = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st == CMD_OK && !o->n_logs)
        st = cmd_fail(CMD_USAGE, "export: no log given");
    if (st == CMD_OK && !o->format)
        st = cmd_fail(CMD_USAGE, "export: --format is missing; want header, "
                      "t4, autotvm or csv");
    if (st == CMD_OK && strcmp(o->format, "header") != 0 &&
        strcmp(o->format, "t4") != 0 && strcmp(o->format, "autotvm") != 0 &&
        strcmp(o->format, "csv") != 0)
        st = cmd_fail(CMD_USAGE, "export: unknown --format \"%s\"; want "
                      "header, t4, autotvm or csv", o->format);
    return st;
}

/* The text into --out, whole or not at all, or to stdout. */
static int export_send(const export_options *o, const cmd_text *text)
{
    if (!o->out) {
        fwrite(text->p ? text->p : "", 1, text->n, stdout);
        return CMD_OK; /* main looks whether it arrived */
    }
    if (cmd_file_write(o->out, text->p ? text->p : "", text->n))
        return cmd_fail(CMD_FAILED, "export: cannot write %s: %s", o->out,
                        strerror(errno));
    return CMD_OK;
}

static int export_lookup(const export_options *o)
{
    export_table x;
    cmd_text text;
    int st;
    memset(&text, 0, sizeof text);
    if (o->task)
        return cmd_fail(CMD_USAGE, "export: a header holds every task of its "
                        "target; leave --task out");
    st = export_table_read(&x, "export", o->n_logs, o->log, o->target, 0);
    if (st == CMD_OK)
        st = export_header_text(&x, o->name, &text);
    if (st == CMD_OK)
        st = export_send(o, &text);
    cmd_text_free(&text);
    export_table_free(&x);
    return st;
}

static int export_logs(const export_options *o)
{
    io_export x;
    io_logs logs;
    cmd_text text;
    int st = io_logs_open(&logs, "export", o->n_logs, o->log);
    memset(&x, 0, sizeof x);
    memset(&text, 0, sizeof text);
    x.command = "export";
    x.task = o->task;
    x.target = o->target;
    x.all = o->all;
    if (st == CMD_OK)
        st = strcmp(o->format, "t4") == 0 ? io_t4_write(&x, &logs, &text)
             : strcmp(o->format, "csv") == 0
                 ? io_csv_write(&x, &logs, &text)
                 : io_autotvm_write(&x, &logs, &text);
    if (st == CMD_OK && !x.n_written && !logs.n_good)
        st = cmd_fail(CMD_USAGE, "export: no good record in %s%s", o->log[0],
                      o->n_logs > 1 ? " or the others" : "");
    else if (st == CMD_OK && !x.n_written)
        st = cmd_fail(CMD_FAILED, "export: no trial of that task and target "
                      "among %zu records", logs.n_good);
    if (st == CMD_OK)
        st = export_send(o, &text);
    if (st == CMD_OK && (logs.n_bad || logs.n_newer || x.n_unit))
        fprintf(stderr, "metatune: export: left out: %zu torn or foreign "
                "lines, %zu of another version, %zu not in seconds\n",
                logs.n_bad, logs.n_newer, x.n_unit);
    cmd_text_free(&text);
    io_logs_free(&logs);
    return st;
}

static int export_run(int argc, char **argv)
{
    export_options o;
    int st = export_parse(&o, argc, argv);
    if (st == CMD_OK)
        st = strcmp(o.format, "header") == 0 ? export_lookup(&o)
                                             : export_logs(&o);
    free(o.log);
    return st;
}

const cmd_command cmd_export = {
    "export", "record logs as a C table, T4, AutoTVM lines or CSV",
    "usage: metatune export LOG... --format FORMAT [--out FILE] [OPTIONS]\n"
    "\n"
    "  --format header   a static const table for metatune_lookup_find\n"
    "           t4       results, schema 1.0.0 (JSON, milliseconds)\n"
    "           autotvm  log lines, version 0.2\n"
    "           csv      knob columns, status, time_ms; a row a setting\n"
    "  --out FILE        instead of standard output\n"
    "  --task KEY        only this task; --target KEY: only this target\n"
    "  --name NAME       of the header's table (metatune_table)\n"
    "  --all             csv: a row a line, with all that a record holds\n"
    "\n"
    "A failure never carries a number. What a format has no place for travels\n"
    "beside its own fields, so that `metatune import` makes the same log.\n"
    "Exit status: 0 written; 1 nothing to write; 2 usage or bad input.\n",
    export_run
};
