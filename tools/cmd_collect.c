/* cmd_collect.c - metatune collect: training data for `metatune train`

   Random valid settings of each layer, the default setting first, then each
   algorithm as often as the others: its knobs are drawn at random and made
   valid (host_kernel_repair). The sequence is a function of the seed and the
   layer, so a resumed run walks the same one and skips what the file holds. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd_data.h"
#include "ui.h"

enum {
    COLLECT_CHUNK = 2,           /* built in parallel, written at once */
    COLLECT_DRAWS = 20000        /* draws for one setting before giving up */
};

typedef struct collect_options {
    cmd_target_options target;
    cmd_tasks tasks;
    cmd_form form;
    uint64_t settings, seed;
    double time_s;
    const char *out;
    int resume, quiet;
} collect_options;

/* A new valid setting: values, or 0 when none turns up. seen holds the n
   before. */
static int draw(const cmd_layer *layer, metatune_encode_rng *rng,
                const int64_t *seen, size_t n, int64_t *values)
{
    int tries;
    if (n == 0) {
        memcpy(values, layer->defaults, HOST_KNOBS * sizeof *values);
        return 1;
    }
    for (tries = 0; tries < COLLECT_DRAWS; tries++) {
        size_t i;
        int32_t k;
        for (k = 0; k < HOST_KNOBS; k++)
            values[k] = layer->knobs[k].values[metatune_encode_rng_below(
                rng, layer->knobs[k].n_values)];
        if (!host_kernel_repair(&layer->host.kernel, values))
            continue;
        for (i = 0; i < n; i++)
            if (memcmp(seen + i * HOST_KNOBS, values,
                       HOST_KNOBS * sizeof *values) == 0)
                break;
        if (i == n)
            return 1;
    }
    return 0;
}

static int known(const data_group *group, const int64_t *values)
{
    size_t i;
    for (i = 0; group && i < group->n; i++)
        if (memcmp(group->row[i].values, values,
                   sizeof group->row[i].values) == 0)
            return 1;
    return 0;
}

static void row_add(cmd_text *text, const int64_t *values,
                    const host_result *r)
{
    int32_t k;
    cmd_text_add(text, "R\t");
    for (k = 0; k < HOST_KNOBS; k++)
        cmd_text_add(text, "%s%lld", k ? "," : "", (long long)values[k]);
    if (r->status == METATUNE_OK)
        cmd_text_add(text, "\tOK\t%.6g\t.\n", r->time_s);
    else
        cmd_text_add(text, "\t%s\t-\t.\n",
                     metatune_encode_status_name(r->status));
}

static void layer_add(cmd_text *text, const cmd_layer *layer,
                      const cmd_target *target)
{
    char device[1024];
    int32_t k;
    cmd_device_text(&target->device, device, sizeof device);
    cmd_text_add(text, "L\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t",
                 layer->task->spec, layer->task->name, target->march.lanes,
                 target->march.vregs, target->march.threads, target->key,
                 device);
    for (k = 0; k < HOST_KNOBS; k++)
        cmd_text_add(text, "%s%s", k ? "," : "", layer->knobs[k].name);
    cmd_text_add(text, "\t.\n");
}

typedef struct collect_state {
    const collect_options *o;
    cmd_target *target;
    const data_set *old;
    ui u;
    int fd;
    double begin_s;
    size_t index;
    uint64_t measured, failed, kept;
} collect_state;

static int flush_text(collect_state *s, cmd_text *text)
{
    int rc = cmd_write_all(s->fd, text->p, text->n);
    if (rc != 0)
        return cmd_fail(CMD_FAILED, "IO: cannot write %s: %s; free some "
                        "space and go on with --resume", s->o->out,
                        strerror(errno));
    text->n = 0;
    return CMD_OK;
}

/* How many of n settings the file lacks: a layer that is complete is not
   even opened with its data. */
static int collect_layer(collect_state *s, const cmd_task *task)
{
    const collect_options *o = s->o;
    const data_group *group = data_find(s->old, task->spec, s->target->key);
    cmd_layer *layer;
    metatune_encode_rng rng;
    int64_t *seen, todo[COLLECT_CHUNK * HOST_KNOBS];
    host_result results[COLLECT_CHUNK];
    cmd_text text;
    size_t n, m = 0;
    int st, header = 0, more = 1;
    if (group && group->n >= o->settings) {
        s->kept += group->n;
        return CMD_OK;
    }
    layer = (cmd_layer *)cmd_alloc(sizeof *layer);
    st = cmd_layer_open(layer, s->target, task);
    if (st != CMD_OK) {
        free(layer);
        return st;
    }
    memset(&text, 0, sizeof text);
    seen = (int64_t *)cmd_alloc((size_t)o->settings * HOST_KNOBS *
                                sizeof *seen);
    metatune_encode_rng_init(&rng, o->seed,
                             metatune_encode_hash(0, task->spec,
                                                  strlen(task->spec)));
    for (n = 0; st == CMD_OK && !cmd_interrupted;) {
        int64_t *values = seen + n * HOST_KNOBS;
        int32_t i;
        double now;
        more = n < o->settings && draw(layer, &rng, seen, n, values);
        if (more) {
            n++;
            if (known(group, values)) {
                s->kept++;
                continue;
            }
            memcpy(todo + m++ * HOST_KNOBS, values,
                   HOST_KNOBS * sizeof *values);
            if (m < COLLECT_CHUNK)
                continue;
        }
        if (m == 0)
            break;
        memset(results, 0, sizeof results);
        cmd_layer_measure(layer, s->target, todo, (int32_t)m, 0, results);
        for (i = 0; i < (int32_t)m; i++) {
            if (results[i].status == METATUNE_CANCELLED)
                continue;
            if (results[i].status == METATUNE_NOT_RUN) {
                if (st == CMD_OK && !cmd_interrupted)
                    st = cmd_fail(CMD_FAILED, "%s: %s", task->name,
                                  results[i].error);
                continue;
            }
            if (!header)
                layer_add(&text, layer, s->target);
            header = 1;
            row_add(&text, todo + i * HOST_KNOBS, &results[i]);
            s->measured++;
            s->failed += results[i].status != METATUNE_OK;
        }
        if (text.n && flush_text(s, &text) != CMD_OK)
            st = CMD_FAILED;
        m = 0;
        now = cmd_now();
        {
            char t[24];
            double done = (double)(s->index - 1) +
                          (double)n / (double)o->settings;
            double left = done > 0 ? (now - s->begin_s) *
                          ((double)o->tasks.n / done - 1) : 0;
            ui_live(&s->u, now, 10, 0, "[%zu/%zu] %s: setting %zu/%llu, %llu "
                    "measured, %llu failed, %s left", s->index, o->tasks.n,
                    task->name, n, (unsigned long long)o->settings,
                    (unsigned long long)s->measured,
                    (unsigned long long)s->failed,
                    ui_time(left, t, sizeof t));
        }
        if (!more)
            break;
        if (o->time_s > 0 && now - s->begin_s > o->time_s)
            break;
    }
    cmd_text_free(&text);
    free(seen);
    cmd_layer_close(layer, s->target);
    free(layer);
    return st;
}

static int collect_parse(collect_options *o, int argc, char **argv)
{
    cmd_args args;
    const char *text = NULL;
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->settings = 100;
    o->form.layout = METATUNE_NCHWC;
    o->form.dtype = METATUNE_F32;
    cmd_args_init(&args, "collect", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (cmd_target_option(&args, &o->target, &st) ||
            cmd_tasks_option(&args, &o->tasks, &st) ||
            cmd_form_option(&args, &o->form, &st)) {
            ;
        } else if (cmd_args_is(&args, "--list")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                st = cmd_tasks_add_list(&o->tasks, text);
        } else if (cmd_args_is(&args, "--settings")) {
            st = cmd_args_u64(&args, 1, 100000, &o->settings);
        } else if (cmd_args_is(&args, "--seed")) {
            st = cmd_args_u64(&args, 0, UINT64_MAX, &o->seed);
        } else if (cmd_args_is(&args, "--time")) {
            st = cmd_args_real(&args, 0, 1e7, &o->time_s);
        } else if (cmd_args_is(&args, "--out")) {
            st = cmd_args_text(&args, &o->out);
        } else if (cmd_args_is(&args, "--resume")) {
            st = cmd_args_flag(&args);
            o->resume = 1;
        } else if (cmd_args_is(&args, "--quiet")) {
            st = cmd_args_flag(&args);
            o->quiet = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st == CMD_OK && o->tasks.n == 0)
        st = cmd_fail(CMD_USAGE, "collect: nothing to measure; give --net, "
                      "--layer, --conv or --list");
    if (st == CMD_OK && !o->out)
        st = cmd_fail(CMD_USAGE, "collect: --out FILE is missing");
    return st;
}

/* A regular file that is not empty. */
static int holds_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
}

static int collect(int argc, char **argv)
{
    collect_options o;
    collect_state s;
    data_set old;
    cmd_target *target = (cmd_target *)cmd_alloc(sizeof *target);
    char head[CMD_DATA_HEAD];
    size_t i, asked = 0;
    int st, opened = 0, have;
    memset(&s, 0, sizeof s);
    memset(&old, 0, sizeof old);
    s.o = &o;
    s.target = target;
    s.old = &old;
    s.fd = -1;
    st = collect_parse(&o, argc, argv);
    if (st != CMD_OK)
        goto done;
    have = holds_bytes(o.out);
    if (o.resume && have)
        st = data_read(&old, o.out);
    else if (have) /* measurements are dear: never overwrite some */
        st = cmd_fail(CMD_USAGE, "%s exists; add to it with --resume or "
                      "choose another --out", o.out);
    if (st != CMD_OK)
        goto done;
    cmd_signals_install();
    ui_init(&s.u, o.quiet);
    s.begin_s = cmd_now();
    st = cmd_target_open(target, &o.target);
    if (st != CMD_OK)
        goto done;
    opened = 1;
    st = cmd_tasks_settle(&o.tasks, &o.form, target->march.lanes);
    asked = o.tasks.n;
    if (st == CMD_OK)
        st = cmd_tasks_support(&o.tasks, "collect");
    if (st != CMD_OK)
        goto done;
    s.fd = cmd_open_append(o.out);
    if (s.fd < 0) {
        st = cmd_fail(CMD_USAGE, "cannot append to %s: %s", o.out,
                      strerror(errno));
        goto done;
    }
    data_head(head);
    if (!have && cmd_write_all(s.fd, head, strlen(head)) != 0) {
        st = cmd_fail(CMD_FAILED, "IO: cannot write %s: %s", o.out,
                      strerror(errno));
        goto done;
    }
    ui_say(&s.u, "target %s", target->key);
    for (i = 0; i < o.tasks.n && st == CMD_OK && !cmd_interrupted; i++) {
        if (o.time_s > 0 && cmd_now() - s.begin_s > o.time_s)
            break;
        s.index = i + 1;
        st = collect_layer(&s, &o.tasks.task[i]);
    }
    ui_say(&s.u, "%llu measured (%llu failed), %llu were there, %zu layers "
           "skipped as not supported, in %s", (unsigned long long)s.measured,
           (unsigned long long)s.failed, (unsigned long long)s.kept,
           asked - o.tasks.n, o.out);
    if (st == CMD_OK && cmd_interrupted)
        st = cmd_fail(CMD_FAILED, "interrupted; go on with --resume");
done:
    if (opened)
        cmd_target_close(target);
    if (s.fd >= 0)
        close(s.fd);
    data_free(&old);
    cmd_tasks_free(&o.tasks);
    free(target);
    return st;
}

const cmd_command cmd_collect = {
    "collect", "measure random settings of many layers, to train a prior",
    "usage: metatune collect [--net NAME | --layer NET/LAYER | --conv SPEC |\n"
    "                        --list FILE]... --out FILE [OPTIONS]\n"
    "\n"
    "Each algorithm that suits a layer gets as many settings as the others.\n"
    "Layers that the target does not support are skipped with a line each.\n"
    "\n"
    "  --net, --layer, --conv, --layout, --dtype   as in `metatune tune`\n"
    "  --list FILE    one of them a line; '#' begins a comment\n"
    "  --settings N   random settings a layer, the default among them (100)\n"
    "  --seed N       the same seed draws the same settings\n"
    "  --out FILE     one text file, appended while measuring; it names the\n"
    "                 space of settings, another program's may be refused\n"
    "  --resume       measure only what FILE lacks\n"
    "  --time S       stop after S seconds\n"
    "  --march, --cc, --threads, --lanes, --target   as in `metatune tune`\n"
    "  --quiet        no progress\n",
    collect
};
