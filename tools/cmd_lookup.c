/* cmd_lookup.c - metatune lookup: ask record logs for a shape's setting

   The logs become a table in memory, the very one that `metatune export
   --format header` writes, and metatune_lookup_find answers from it. */
#include "cmd_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export_header.h"
#include "nets.h"
#include "targets/host_kernel.h"

typedef struct lookup_options {
    char **log;
    size_t n_logs;
    cmd_tasks tasks;
    const char *target;
    int allow, json;
} lookup_options;

static const char *const which_names[] = {"none", "exact", "nearest",
                                          "default"};
static const char *const unit_names[] = {"seconds", "cycles",
                                         "instructions"};

static void number_add(cmd_text *t, double x)
{
    char number[32];
    size_t n = metatune_number_write(x, number, sizeof number);
    number[n] = 0;
    cmd_text_add(t, "%s", number);
}

static void json_add(cmd_text *t, const export_table *x, const char *task,
                     const metatune_lookup_result *r, const char *explain)
{
    const metatune_lookup_table *table = &x->table;
    uint32_t k;
    cmd_text_add(t, "{\"task\":");
    cmd_text_json(t, task);
    cmd_text_add(t, ",\"which\":\"%s\",\"other_target\":%s,\"target\":",
                 which_names[r->which], r->other_target ? "true" : "false");
    cmd_text_json(t, table->target);
    cmd_text_add(t, ",\"explain\":");
    cmd_text_json(t, explain);
    cmd_text_add(t, ",\"refused\":%u", (unsigned)r->n_refused);
    if (r->row >= 0) {
        cmd_text_add(t, ",\"record\":");
        cmd_text_json(t, x->task[r->row]);
        cmd_text_add(t, ",\"distance\":");
        number_add(t, r->distance);
        cmd_text_add(t, ",\"value\":");
        number_add(t, r->value);
        cmd_text_add(t, ",\"unit\":\"%s\"", unit_names[table->unit]);
    }
    cmd_text_add(t, ",\"knobs\":");
    if (!r->values)
        cmd_text_add(t, "null");
    for (k = 0; r->values && k < table->n_knobs; k++) {
        const char *label = metatune_lookup_label(table, k, r->values[k]);
        cmd_text_add(t, k ? "," : "{");
        cmd_text_json(t, table->knobs[k].name);
        cmd_text_add(t, ":");
        if (label)
            cmd_text_json(t, label);
        else
            cmd_text_add(t, "%lld", (long long)r->values[k]);
    }
    cmd_text_add(t, r->values ? "}}\n" : "}\n");
}

static void plain_add(cmd_text *t, const export_table *x, const char *task,
                      const metatune_lookup_result *r, const char *explain)
{
    const metatune_lookup_table *table = &x->table;
    uint32_t k;
    cmd_text_add(t, "%s  %s%s\n", which_names[r->which], task,
                 r->values && r->other_target ? "  (of another target)" : "");
    if (r->values) {
        cmd_text_add(t, " ");
        for (k = 0; k < table->n_knobs; k++) {
            const char *label = metatune_lookup_label(table, k, r->values[k]);
            if (label)
                cmd_text_add(t, " %s=%s", table->knobs[k].name, label);
            else
                cmd_text_add(t, " %s=%lld", table->knobs[k].name,
                             (long long)r->values[k]);
        }
        cmd_text_add(t, "\n");
    }
    if (r->row >= 0) {
        cmd_text_add(t, "  measured %.6g %s", r->value,
                     unit_names[table->unit]);
        if (r->which == METATUNE_LOOKUP_NEAREST)
            cmd_text_add(t, " for %s, %.2f octaves away", x->task[r->row],
                         r->distance);
        cmd_text_add(t, "\n");
    }
    cmd_text_add(t, "  %s\n", explain);
    if (r->n_refused)
        cmd_text_add(t, "  settings that this shape cannot have, passed over: "
                     "%u\n", (unsigned)r->n_refused);
    if (!r->other_target)
        cmd_text_add(t, "  target %s\n", table->target);
}

static int parse(lookup_options *o, int argc, char **argv)
{
    cmd_args args;
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->log = (char **)cmd_alloc(((size_t)argc + 1) * sizeof *o->log);
    cmd_args_init(&args, "lookup", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (!args.name[0]) {
            o->log[o->n_logs++] = cmd_format("%s", args.value);
        } else if (cmd_tasks_option(&args, &o->tasks, &st)) {
            ;
        } else if (cmd_args_is(&args, "--target")) {
            st = cmd_args_text(&args, &o->target);
        } else if (cmd_args_is(&args, "--allow-other-target")) {
            st = cmd_args_flag(&args);
            o->allow = 1;
        } else if (cmd_args_is(&args, "--json")) {
            st = cmd_args_flag(&args);
            o->json = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st == CMD_OK && o->n_logs == 0)
        st = cmd_fail(CMD_USAGE, "lookup: no log given; `metatune tune` "
                      "leaves tuned/records.jsonl");
    if (st == CMD_OK && o->tasks.n == 0)
        st = cmd_fail(CMD_USAGE, "lookup: nothing to look up; give --conv, "
                      "--layer or --net");
    return st;
}

/* A layout that was not asked for is that of the log: of the row of the same
   shape, else of its first one. */
static void form_take(cmd_task *task, const metatune_lookup_table *table)
{
    const metatune_encode_conv2d *like = NULL;
    uint32_t i;
    for (i = 0; i < table->n_rows; i++) {
        const metatune_encode_conv2d *conv = &table->rows[i].conv;
        if (conv->c < 1)
            continue; /* no convolution */
        if (!like)
            like = conv;
        if (nets_same_shape(conv, &task->conv) &&
            conv->dtype_in == task->conv.dtype_in) {
            like = conv;
            break;
        }
    }
    if (!like)
        return;
    task->conv.layout = like->layout;
    task->conv.block = like->block;
    metatune_encode_conv2d_spec(&task->conv, task->spec, sizeof task->spec);
}

/* ---- the host target's kernels know which settings a shape can have ---- */

typedef struct host_table {
    uint32_t column[HOST_KNOBS]; /* of each of the kernel's knobs */
    host_march march;
} host_table;

static int32_t key_number(const char *key, const char *name, int32_t other)
{
    const char *at = strstr(key, name);
    return at ? (int32_t)strtol(at + strlen(name), NULL, 10) : other;
}

/* 1 when the table's knobs are those of the host target. */
static int host_table_open(host_table *h, const metatune_lookup_table *table)
{
    static const host_march march = { 16, 32, 1 };
    metatune_encode_conv2d conv;
    host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
    int32_t k;
    uint32_t j;
    int good = table->n_knobs == HOST_KNOBS &&
               metatune_encode_conv2d_parse("c=16,h=8,k=16,r=3,layout=nchw",
                                            &conv, NULL) == METATUNE_OK &&
               host_kernel_init(kernel, &conv, &march, NULL, 0) ==
                   METATUNE_OK;
    for (k = 0; good && k < HOST_KNOBS; k++) {
        for (j = 0; j < table->n_knobs; j++)
            if (strcmp(table->knobs[j].name, kernel->knob[k].name) == 0)
                break;
        good = j < table->n_knobs;
        h->column[k] = j;
    }
    free(kernel);
    h->march.lanes = key_number(table->target, "lanes=", 16);
    h->march.threads = key_number(table->target, "threads=", 1);
    /* registers, as host_run.h finds them for these widths */
    h->march.vregs = h->march.lanes == 16 ? 32 : 16;
    return good;
}

static int host_table_valid(void *user, const metatune_lookup_table *table,
                            const metatune_encode_conv2d *conv,
                            const int64_t *values)
{
    const host_table *h = (const host_table *)user;
    host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
    int64_t own[HOST_KNOBS];
    int good = conv && host_kernel_init(kernel, conv, &h->march, NULL, 0) ==
                           METATUNE_OK;
    int32_t k;
    for (k = 0; good && k < HOST_KNOBS; k++) {
        const host_knob *knob = &kernel->knob[k];
        int64_t value = values[h->column[k]];
        const char *label = metatune_lookup_label(table, h->column[k],
                                                  value);
        uint32_t i;
        own[k] = value;
        for (i = 0; label && i < knob->n_values; i++)
            if (knob->labels && strcmp(knob->labels[i], label) == 0)
                break;
        if (label) { /* a label that this shape's knob lacks */
            good = i < knob->n_values;
            own[k] = good ? knob->values[i] : 0;
        }
    }
    good = good && host_kernel_valid(kernel, own);
    free(kernel);
    return good;
}

static int lookup(int argc, char **argv)
{
    lookup_options o;
    export_table x;
    host_table host;
    cmd_text text;
    size_t i, missed = 0;
    int st = parse(&o, argc, argv), of_host = 0;
    memset(&x, 0, sizeof x);
    memset(&text, 0, sizeof text);
    if (st == CMD_OK)
        st = export_table_read(&x, "lookup", o.n_logs, o.log, o.target, 1);
    if (st == CMD_OK)
        of_host = host_table_open(&host, &x.table);
    for (i = 0; i < o.tasks.n && st == CMD_OK; i++) {
        cmd_task *task = &o.tasks.task[i];
        /* not asked for: the log's own, which the answer names */
        const char *target = o.target ? o.target : x.table.target;
        metatune_lookup_result r;
        size_t cap = 256 + strlen(target) + strlen(x.table.target);
        char *why = (char *)cmd_alloc(cap);
        if (!task->own_layout)
            form_take(task, &x.table);
        if (metatune_lookup_find(&x.table, target, &task->conv,
                                 of_host ? host_table_valid : NULL, &host,
                                 o.allow ? METATUNE_LOOKUP_OTHER_TARGET : 0,
                                 &r) != METATUNE_OK)
            missed++;
        metatune_lookup_explain(&x.table, target, &task->conv, why, cap);
        (o.json ? json_add : plain_add)(&text, &x, task->spec, &r, why);
        free(why);
    }
    if (st == CMD_OK)
        fwrite(text.p, 1, text.n, stdout);
    if (st == CMD_OK && missed)
        st = cmd_fail(CMD_FAILED, "lookup: no setting for %zu of %zu shapes%s",
                      missed, o.tasks.n, o.target && !o.allow &&
                      strcmp(o.target, x.table.target) != 0
                          ? "; the log is of another target "
                            "(--allow-other-target takes it as a guess)" : "");
    cmd_text_free(&text);
    export_table_free(&x);
    cmd_tasks_free(&o.tasks);
    for (i = 0; i < o.n_logs; i++)
        free(o.log[i]);
    free(o.log);
    return st;
}

const cmd_command cmd_lookup = {
    "lookup", "ask record logs for the setting of a shape",
    "usage: metatune lookup LOG... --conv SPEC [OPTIONS]\n"
    "\n"
    "Says for each shape: exact (it was tuned), nearest (the tuned shape with\n"
    "the least distance; see [M-LOOKUP] in metatune.h), default (the setting\n"
    "that did best on all tuned shapes, if one was measured on all) or none;\n"
    "then the knobs, what they were measured at, and the first field in which\n"
    "the nearest record differs. Settings of this host's kernels are checked\n"
    "against the shape's constraints: one that it cannot have is passed over\n"
    "for the next. Those of other kernels are not: a program that uses the\n"
    "exported header gives a predicate.\n"
    "\n"
    "  LOG                    records (JSON lines), or CSV with the columns\n"
    "                         task, time_ms and one a knob\n"
    "  --conv SPEC            e.g. c=64,h=56,w=56,k=64,r=3,stride=1,pad=1;\n"
    "                         without layout=L: in the log's own layout\n"
    "  --layer NET/LAYER      a layer by name; --net NET: all of a network\n"
    "  --target KEY           the machine that asks, as records spell it;\n"
    "                         without it, the log's own (if it has only one)\n"
    "  --allow-other-target   answer from a log of another target, too, and\n"
    "                         say so\n"
    "  --json                 one JSON object a shape\n"
    "\n"
    "Exit status: 0 every shape got a setting; 1 not all did; 2 usage or bad\n"
    "input.\n",
    lookup
};
