/* cmd_export.c - metatune export: record logs as tables, kernels and in the
   formats of other tools */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_target.h"
#include "export_conv.h"
#include "export_header.h"
#include "io.h"
#include "nets.h"

typedef struct export_options {
    char **log;
    size_t n_logs;
    const char *format, *out, *name, *task, *target, *net;
    cmd_form form;               /* conv: -1 = any */
    int all;
} export_options;

static int export_parse(export_options *o, int argc, char **argv)
{
    cmd_args args;
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->log = (char **)cmd_alloc(((size_t)argc + 1) * sizeof *o->log);
    o->form.layout = o->form.dtype = -1;
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
        } else if (cmd_args_is(&args, "--net")) {
            st = cmd_args_text(&args, &o->net);
        } else if (cmd_form_option(&args, &o->form, &st)) {
            ;
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
        st = cmd_fail(CMD_USAGE, "export: --format is missing; want conv, "
                      "header, t4, autotvm or csv");
    if (st == CMD_OK && strcmp(o->format, "conv") == 0) {
        if (!o->out)
            st = cmd_fail(CMD_USAGE, "export: --format conv wants --out DIR");
        return st;
    }
    if (st == CMD_OK && (o->net || o->form.layout >= 0 || o->form.dtype >= 0))
        st = cmd_fail(CMD_USAGE, "export: --net, --layout and --dtype are for "
                      "--format conv");
    if (st == CMD_OK && strcmp(o->format, "header") != 0 &&
        strcmp(o->format, "t4") != 0 && strcmp(o->format, "autotvm") != 0 &&
        strcmp(o->format, "csv") != 0)
        st = cmd_fail(CMD_USAGE, "export: unknown --format \"%s\"; want "
                      "conv, header, t4, autotvm or csv", o->format);
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

/* ------------------------------------------------- kernels as C source */

/* What task lines say of a row: its layer's name and the default's time. */
typedef struct export_task {
    char *name;
    double default_s;
} export_task;

static int text_is(metatune_text t, const char *string)
{
    return t.n == strlen(string) && memcmp(t.p, string, t.n) == 0;
}

/* Fills (n_rows) tasks, and the vector registers from the device that the
   lines hold. */
static int tasks_read(const export_options *o, const export_table *x,
                      export_task *tasks, int32_t *vregs)
{
    static const char key[] = "\"device\":\"";
    size_t i;
    uint32_t j;
    for (i = 0; i < o->n_logs; i++) {
        size_t n = 0, pos = 0, k;
        char *bytes = cmd_file_read(o->log[i], &n);
        metatune_record r;
        metatune_status st;
        if (!bytes)
            return cmd_fail(CMD_USAGE, "cannot read %s: %s", o->log[i],
                            strerror(errno));
        while ((st = metatune_log_next(bytes, n, &pos, &r)) !=
               METATUNE_NOT_FOUND) {
            metatune_encode_device device;
            if (st != METATUNE_OK || r.kind != METATUNE_RECORD_TASK ||
                !text_is(r.target, x->table.target))
                continue;
            for (k = 0; r.unknown.p && k + sizeof key < r.unknown.n; k++)
                if (memcmp(r.unknown.p + k, key, sizeof key - 1) == 0 &&
                    cmd_device_parse(r.unknown.p + k + sizeof key - 1,
                                     &device) == CMD_OK && device.vregs)
                    *vregs = device.vregs;
            for (j = 0; j < x->table.n_rows; j++) {
                export_task *t = &tasks[j];
                if (!text_is(r.task, x->task[j]))
                    continue;
                if (r.default_s > 0)
                    t->default_s = r.default_s;
                if (!r.layer.n)
                    continue;
                free(t->name);
                t->name = (char *)cmd_alloc(r.layer.n + 1);
                t->name[metatune_text_unescape(r.layer, t->name,
                                               r.layer.n)] = 0;
            }
        }
        free(bytes);
    }
    return CMD_OK;
}

/* The number after `key` in a target's key; `otherwise` when not there. */
static int32_t key_number(const char *target, const char *key,
                          int32_t otherwise)
{
    const char *p = strstr(target, key);
    return p ? (int32_t)strtol(p + strlen(key), NULL, 10) : otherwise;
}

/* The row's values in the kernel's order; 0 when they are not its own. */
static int row_values(const metatune_lookup_table *table,
                      const metatune_lookup_row *row,
                      const host_kernel *kernel, int64_t *values)
{
    uint32_t k, j, d;
    if (table->n_knobs != HOST_KNOBS)
        return 0;
    for (k = 0; k < HOST_KNOBS; k++) {
        const host_knob *knob = &kernel->knob[k];
        const char *label;
        for (j = 0; j < table->n_knobs; j++)
            if (strcmp(table->knobs[j].name, knob->name) == 0)
                break;
        if (j == table->n_knobs)
            return 0;
        values[k] = row->values[j];
        label = metatune_lookup_label(table, j, row->values[j]);
        if (!label)
            continue;
        for (d = 0; knob->labels && d < knob->n_values; d++)
            if (strcmp(knob->labels[d], label) == 0)
                break;
        if (!knob->labels || d == knob->n_values)
            return 0;
        values[k] = knob->values[d];
    }
    return host_kernel_valid(kernel, values);
}

/* The row goes into *layer under `name` (kept); 0 after one line. */
static int layer_fill(export_layer *layer, const export_table *x, uint32_t row,
                      const host_march *march, const char *name,
                      double default_s)
{
    const metatune_lookup_row *r = &x->table.rows[row];
    host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
    char why[256] = "its setting is of another space of settings";
    int good = host_kernel_init(kernel, &r->conv, march, why, sizeof why) ==
               METATUNE_OK;
    if (good)
        snprintf(why, sizeof why, "its setting is of another space of "
                 "settings; tune it again");
    good = good && row_values(&x->table, r, kernel, layer->values);
    free(kernel);
    layer->name = name;
    layer->conv = r->conv;
    layer->tuned_s = r->value;
    layer->default_s = default_s;
    if (!good)
        cmd_fail(CMD_USAGE, "export: %s: %s", name, why);
    return good;
}

/* Is the row of the form that was asked for? */
static int row_wanted(const export_options *o, const metatune_lookup_row *r)
{
    return r->conv.c > 0 &&
           (o->form.layout < 0 || r->conv.layout == o->form.layout) &&
           (o->form.dtype < 0 || r->conv.dtype_in == o->form.dtype);
}

/* The one row of a layer's shape: its number; -1 none; -2 after one line. */
static int64_t layer_row(const export_options *o, const export_table *x,
                         const nets_layer *layer)
{
    int64_t found = -1;
    uint32_t j;
    for (j = 0; j < x->table.n_rows; j++) {
        const metatune_lookup_row *r = &x->table.rows[j];
        if (!row_wanted(o, r) || !nets_same_shape(&r->conv, &layer->conv))
            continue;
        if (found >= 0) {
            cmd_fail(CMD_USAGE, "export: %s/%s is there in several forms; "
                     "choose with --layout or --dtype", layer->net,
                     layer->layer);
            return -2;
        }
        found = j;
    }
    return found;
}

/* What a row's layer is called: as its task line says. Another shape of the
   same name (every run's first SPEC is conv-1) gets a number. NULL after one
   line: the same shape in two forms. */
static char *row_name(const export_options *o, const export_table *x,
                      const export_task *tasks, uint32_t row)
{
    const char *name = tasks[row].name;
    uint32_t j;
    int twice = 0;
    if (!name)
        return cmd_format("conv-row-%u", row + 1);
    for (j = 0; j < row; j++) {
        if (!tasks[j].name || strcmp(tasks[j].name, name) != 0 ||
            !row_wanted(o, &x->table.rows[j]))
            continue;
        twice = 1;
        if (nets_same_shape(&x->table.rows[j].conv,
                            &x->table.rows[row].conv)) {
            cmd_fail(CMD_USAGE, "export: %s is there in several forms; "
                     "choose with --layout or --dtype", name);
            return NULL;
        }
    }
    return twice ? cmd_format("%s-row-%u", name, row + 1)
                 : cmd_format("%s", name);
}

/* Kernels of x into layers (room for all rows and layers): how many, or -1
   after one line. names holds what they are called. */
static int64_t layers_gather(const export_options *o, const export_table *x,
                             const export_task *tasks,
                             const host_march *march, export_layer *layers,
                             char **names)
{
    int32_t i, first = 0, n_net = 0;
    int64_t n = 0, row;
    uint32_t j;
    if (!o->net) {
        for (j = 0; j < x->table.n_rows; j++) {
            if (!row_wanted(o, &x->table.rows[j]) ||
                (o->task && strcmp(o->task, x->task[j]) != 0))
                continue;
            names[n] = row_name(o, x, tasks, j);
            if (!names[n])
                return -1;
            if (!layer_fill(&layers[n], x, j, march, names[n],
                            tasks[j].default_s))
                return -1;
            n++;
        }
        return n;
    }
    n_net = nets_net_find(o->net, &first, NULL, 0);
    for (i = first; i < first + n_net; i++) {
        const nets_layer *layer = nets_get(i);
        row = layer_row(o, x, layer);
        if (row == -2)
            return -1;
        if (row < 0) {
            cmd_fail(CMD_OK, "export: %s/%s: left out: it is not in the log",
                     layer->net, layer->layer);
            continue;
        }
        names[n] = cmd_format("%s/%s", layer->net, layer->layer);
        if (!layer_fill(&layers[n], x, (uint32_t)row, march, names[n],
                        tasks[row].default_s))
            return -1;
        n++;
    }
    return n;
}

/* "-O2 ..." out of a target's key, which ends in ",threads=N". */
static void flags_of(const char *target, char *flags, size_t cap)
{
    const char *p = strstr(target, "flags="), *end;
    p = p ? p + 6 : "-O2 -march=native -ffp-contract=fast";
    end = strstr(p, ",threads=");
    snprintf(flags, cap, "%.*s", (int)(end ? (size_t)(end - p) : strlen(p)),
             p);
}

static int export_kernels(const export_options *o)
{
    export_table x;
    export_task *tasks = NULL;
    export_layer *layers = NULL;
    host_march march = { 16, 32, 1 };
    char **names = NULL, path[1200] = "", flags[512], why[256] = "";
    size_t cap = 0, i;
    int64_t n = -1;
    int st;
    if (o->net && nets_net_find(o->net, NULL, why, sizeof why) <= 0)
        return cmd_fail(CMD_USAGE, "%s", why);
    st = export_table_read(&x, "export", o->n_logs, o->log, o->target, 0);
    if (st == CMD_OK) {
        cap = x.table.n_rows + (size_t)nets_count();
        tasks = (export_task *)cmd_alloc(cap * sizeof *tasks);
        layers = (export_layer *)cmd_alloc(cap * sizeof *layers);
        names = (char **)cmd_alloc(cap * sizeof *names);
        march.lanes = key_number(x.table.target, "lanes=", 16);
        march.threads = key_number(x.table.target, "threads=", 1);
        st = tasks_read(o, &x, tasks, &march.vregs);
    }
    if (st == CMD_OK) {
        n = layers_gather(o, &x, tasks, &march, layers, names);
        if (n < 0)
            st = CMD_USAGE;
        else if (n == 0)
            st = cmd_fail(CMD_FAILED, "export: no such layer among %u tuned "
                          "ones", x.table.n_rows);
    }
    if (st == CMD_OK && cmd_mkdirs(o->out) != 0)
        st = cmd_fail(CMD_USAGE, "cannot make the folder %s: %s", o->out,
                      strerror(errno));
    if (st == CMD_OK) {
        flags_of(x.table.target, flags, sizeof flags);
        if (export_conv_write(o->out, layers, (size_t)n, &march,
                              x.table.target, flags, path, sizeof path) != 0)
            st = cmd_fail(CMD_FAILED, "export: cannot write %s: %s", path,
                          strerror(errno));
        else
            printf("%d kernels in %s/tuned_conv.h and tuned_conv.c\n", (int)n,
                   o->out);
    }
    for (i = 0; i < cap; i++) {
        free(tasks[i].name);
        free(names[i]);
    }
    free(tasks);
    free(layers);
    free(names);
    export_table_free(&x);
    return st;
}

static int export_run(int argc, char **argv)
{
    export_options o;
    int st = export_parse(&o, argc, argv);
    if (st == CMD_OK)
        st = strcmp(o.format, "conv") == 0 ? export_kernels(&o)
             : strcmp(o.format, "header") == 0 ? export_lookup(&o)
                                               : export_logs(&o);
    free(o.log);
    return st;
}

const cmd_command cmd_export = {
    "export", "record logs as C kernels, a C table, T4, AutoTVM lines or CSV",
    "usage: metatune export LOG... --format FORMAT [--out FILE] [OPTIONS]\n"
    "\n"
    "  --format conv     the tuned kernels of all layers, or of one network,\n"
    "                    as tuned_conv.h and tuned_conv.c in folder --out DIR\n"
    "           header   a static const table for metatune_lookup_find\n"
    "           t4       results, schema 1.0.0 (JSON, milliseconds)\n"
    "           autotvm  log lines, version 0.2\n"
    "           csv      knob columns, status, time_ms; a row a setting\n"
    "  --out FILE        instead of standard output\n"
    "  --task KEY        only this task; --target KEY: only this target\n"
    "  --net NAME        conv: the layers of this network\n"
    "  --layout L        conv: only kernels on nchwc, nchw or nhwc\n"
    "  --dtype T         conv: only kernels of f32 or i8\n"
    "  --name NAME       of the header's table (metatune_table)\n"
    "  --all             csv: a row a line, with all that a record holds\n"
    "\n"
    "A failure never carries a number. What a format has no place for travels\n"
    "beside its own fields, so that `metatune import` makes the same log.\n"
    "Exit status: 0 written; 1 nothing to write; 2 usage or bad input.\n",
    export_run
};
