/* cmd_collect.c - metatune collect: training data for `metatune train`

   Random valid settings of each layer, the default setting first, then each
   algorithm as often as the others: its knobs are drawn at random and made
   valid (host_kernel_repair). The sequence is a function of the seed and the
   layer, so a resumed run walks the same one and skips what the file holds.
   Kernels are built ahead (host_ahead.h) and timed in windows between looks at
   a control kernel (collect_window.h); the fastest are timed again. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd_data.h"
#include "collect_window.h"
#include "targets/host_ahead.h"
#include "ui.h"

enum { COLLECT_DRAWS = 20000 };  /* for one setting before giving up */

typedef struct collect_options {
    cmd_target_options target;
    cmd_tasks tasks;
    cmd_form form;
    uint64_t settings, seed, again;
    double time_s;
    int64_t build_cpu, run_cpu, nice; /* cores; -1 = not told apart */
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

static void row_add(cmd_text *text, const int64_t *values,
                    metatune_status status, double time_s, char mark)
{
    int32_t k;
    cmd_text_add(text, "R\t");
    for (k = 0; k < HOST_KNOBS; k++)
        cmd_text_add(text, "%s%lld", k ? "," : "", (long long)values[k]);
    if (status == METATUNE_OK)
        cmd_text_add(text, "\tOK\t%.5g\t%c\t.\n", time_s, mark);
    else
        cmd_text_add(text, "\t%s\t-\t%c\t.\n",
                     metatune_encode_status_name(status), mark);
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
    host_ahead ahead;            /* of the host */
    ui u;
    int fd;
    double begin_s;
    size_t index;
    uint64_t measured, failed, kept, discarded, drifted;
    uint64_t todo, done;         /* settings of all layers, for the ETA */
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

/* A layer at work: what is to be measured, in order. */
typedef struct collect_run {
    collect_state *s;
    cmd_layer *layer;
    collect_meter meter;
    cmd_text text;               /* lines not written yet */
    int64_t *todo;               /* (n, HOST_KNOBS) */
    char *mark;                  /* (n) */
    size_t *entry;               /* (n) of the built kernels */
    metatune_status *status;     /* (n), time_s (n): what came out */
    double *time_s;
    size_t n, asked, at;         /* builds asked for; the window's first */
    size_t control;              /* the control's entry */
    char error[HOST_ERROR_BYTES];
} collect_run;

/* Setting i of the window; the builds of the next windows are asked for on the
   way. */
static metatune_status run_measure(void *user, size_t i, host_result *r)
{
    collect_run *run = (collect_run *)user;
    collect_state *s = run->s;
    const int64_t *values = i == SIZE_MAX ? run->layer->defaults
                            : run->todo + (run->at + i) * HOST_KNOBS;
    metatune_status st;
    if (s->target->kind != CMD_TARGET_HOST) {
        st = cmd_layer_measure(run->layer, s->target, values, 1, 0, r);
        return st == METATUNE_CANCELLED ? st : METATUNE_OK;
    }
    if (run->control == SIZE_MAX) /* first in the queue */
        run->control = host_ahead_ask(&s->ahead, &run->layer->host,
                                      run->layer->defaults, r);
    while (run->asked < run->n &&
           run->asked < run->at + 3 * (size_t)COLLECT_WINDOW) {
        host_result asked;
        size_t k = run->asked++;
        run->entry[k] = host_ahead_ask(&s->ahead, &run->layer->host,
                                       run->todo + k * HOST_KNOBS, &asked);
    }
    if (i != SIZE_MAX && run->entry[run->at + i] == SIZE_MAX)
        run->entry[run->at + i] = host_ahead_ask(
            &s->ahead, &run->layer->host, values, r);
    if ((i == SIZE_MAX ? run->control : run->entry[run->at + i]) == SIZE_MAX)
        st = r->status;
    else
        st = host_ahead_measure(&s->ahead, &run->layer->host, values,
                                i == SIZE_MAX ? run->control
                                              : run->entry[run->at + i], r);
    if (cmd_interrupted)
        return METATUNE_CANCELLED;
    if (st == METATUNE_NOT_RUN || st == METATUNE_CANCELLED)
        snprintf(run->error, sizeof run->error, "%s", r->error);
    return st == METATUNE_NOT_RUN || st == METATUNE_CANCELLED ? st
                                                              : METATUNE_OK;
}

static void run_show(collect_run *run)
{
    collect_state *s = run->s;
    double now = cmd_now(), took = now - s->begin_s;
    double left = s->measured ? took / (double)s->measured *
                  (double)(s->todo - s->done) : 0;
    char t[24];
    ui_live(&s->u, now, 10, 0, "[%zu/%zu] %s: %zu/%zu; %llu measured (%.1f/s), "
            "%llu failed, %llu windows again, %llu drifted, %s left",
            s->index, s->o->tasks.n, run->layer->task->name, run->at, run->n,
            (unsigned long long)s->measured,
            took > 0 ? (double)s->measured / took : 0,
            (unsigned long long)s->failed,
            (unsigned long long)(s->discarded + run->meter.n_discarded),
            (unsigned long long)(s->drifted + run->meter.n_drifted),
            ui_time(left, t, sizeof t));
}

/* The next window into the file: CMD_OK, or a status after one line. */
static int run_window(collect_run *run)
{
    collect_state *s = run->s;
    host_result results[COLLECT_WINDOW];
    double control[2];
    size_t n = run->n - run->at, i;
    uint64_t before = run->meter.n_discarded;
    int drifted;
    metatune_status st;
    if (n > COLLECT_WINDOW)
        n = COLLECT_WINDOW;
    memset(results, 0, sizeof results);
    st = collect_window(&run->meter, n, results, &drifted, control);
    if (st == METATUNE_CANCELLED)
        return CMD_OK;
    if (st != METATUNE_OK)
        return cmd_fail(CMD_FAILED, "%s: %s", run->layer->task->name,
                        run->error[0] ? run->error
                        : metatune_encode_status_text(st));
    cmd_text_add(&run->text, "C\t%.5g\t%.5g\t%llu\t.\n", control[0],
                 control[1], (unsigned long long)(run->meter.n_discarded -
                                                  before + !drifted));
    for (i = 0; i < n; i++) {
        size_t k = run->at + i;
        run->status[k] = results[i].status;
        run->time_s[k] = results[i].time_s;
        if (drifted)
            run->mark[k] = 'x';
        row_add(&run->text, run->todo + k * HOST_KNOBS, results[i].status,
                results[i].time_s, run->mark[k]);
        s->measured++;
        s->failed += results[i].status != METATUNE_OK;
    }
    s->done += n;
    run->at += n;
    return flush_text(s, &run->text);
}

/* The fastest rows of the layer once more, in turns, so that who is best does
   not hang on one lucky sample: medians of three. */
static int run_again(collect_run *run, const data_group *group)
{
    enum { TOP = 16, ROUNDS = 3 };
    const collect_options *o = run->s->o;
    int64_t top[TOP][HOST_KNOBS];
    double best[TOP], t[TOP][ROUNDS];
    size_t n = 0, want = o->again < TOP ? (size_t)o->again : TOP, i, j, k;
    size_t all = run->n + (group ? group->n : 0);
    int round;
    for (i = 0; i < all; i++) {
        const data_row *row = i < run->n ? NULL : &group->row[i - run->n];
        metatune_status st = row ? row->status : run->status[i];
        double time_s = row ? row->time_s : run->time_s[i];
        if (st != METATUNE_OK || (row ? row->mark : run->mark[i]) == 'x' ||
            (n == want && time_s >= best[n - 1]))
            continue;
        if (n < want)
            n++;
        for (j = n - 1; j > 0 && best[j - 1] > time_s; j--) {
            best[j] = best[j - 1];
            memcpy(top[j], top[j - 1], sizeof top[j]);
        }
        best[j] = time_s;
        memcpy(top[j], row ? row->values : run->todo + i * HOST_KNOBS,
               sizeof top[j]);
    }
    if (n == 0)
        return CMD_OK;
    memcpy(run->todo, top, n * sizeof top[0]);
    run->n = n;
    run->at = run->asked = 0;
    for (round = 0; round < ROUNDS; round++)
        for (i = 0; i < n; i++) {
            host_result r;
            metatune_status st = run_measure(run, i, &r);
            if (st == METATUNE_CANCELLED)
                return CMD_OK;
            if (st != METATUNE_OK)
                return cmd_fail(CMD_FAILED, "%s: %s", run->layer->task->name,
                                run->error);
            t[i][round] = r.status == METATUNE_OK ? r.time_s : 0;
        }
    for (i = 0; i < n; i++) {
        for (j = 1; j < ROUNDS; j++)
            for (k = j; k > 0 && t[i][k - 1] > t[i][k]; k--) {
                double x = t[i][k];
                t[i][k] = t[i][k - 1];
                t[i][k - 1] = x;
            }
        if (t[i][0] > 0)
            row_add(&run->text, top[i], METATUNE_OK, t[i][ROUNDS / 2], 't');
    }
    return flush_text(run->s, &run->text);
}

/* What the file lacks of a layer: one that is complete is not even opened with
   its data. */
static int collect_layer(collect_state *s, const cmd_task *task)
{
    const collect_options *o = s->o;
    const data_group *group = data_find(s->old, task->spec, s->target->key);
    cmd_layer *layer;
    collect_run run;
    metatune_encode_rng rng;
    int64_t *seen;
    size_t n, cap = (size_t)o->settings + 16;
    int st;
    if (group && group->n >= o->settings &&
        (group->n_again || o->again == 0)) {
        s->kept += group->n;
        s->done += o->settings;
        return CMD_OK;
    }
    layer = (cmd_layer *)cmd_alloc(sizeof *layer);
    st = cmd_layer_open(layer, s->target, task);
    if (st != CMD_OK) {
        free(layer);
        return st;
    }
    memset(&run, 0, sizeof run);
    run.s = s;
    run.layer = layer;
    run.meter.measure = run_measure;
    run.meter.user = &run;
    run.control = SIZE_MAX;
    run.todo = (int64_t *)cmd_alloc(cap * HOST_KNOBS * sizeof *run.todo);
    run.mark = (char *)cmd_alloc(cap);
    run.entry = (size_t *)cmd_alloc(cap * sizeof *run.entry);
    run.status = (metatune_status *)cmd_alloc(cap * sizeof *run.status);
    run.time_s = (double *)cmd_alloc(cap * sizeof *run.time_s);
    seen = (int64_t *)cmd_alloc(cap * HOST_KNOBS * sizeof *seen);
    metatune_encode_rng_init(&rng, o->seed,
                             metatune_encode_hash(0, task->spec,
                                                  strlen(task->spec)));
    for (n = 0; n < o->settings; n++) {
        int64_t *values = seen + n * HOST_KNOBS;
        if (!draw(layer, &rng, seen, n, values))
            break;
        if (data_row_find(group, values)) {
            s->kept++;
            s->done++;
            continue;
        }
        memcpy(run.todo + run.n * HOST_KNOBS, values,
               HOST_KNOBS * sizeof *values);
        run.mark[run.n++] = n == 0 ? 'd' : 'u';
    }
    s->done += o->settings - n; /* the space has no more */
    if (s->target->kind == CMD_TARGET_HOST)
        host_ahead_room(&s->ahead, (int32_t)run.n + 32);
    layer_add(&run.text, layer, s->target);
    while (st == CMD_OK && run.at < run.n && !cmd_interrupted &&
           !(o->time_s > 0 && cmd_now() - s->begin_s > o->time_s)) {
        st = run_window(&run);
        run_show(&run);
    }
    if (st == CMD_OK && run.at == run.n && o->again && !cmd_interrupted)
        st = run_again(&run, group);
    s->discarded += run.meter.n_discarded;
    s->drifted += run.meter.n_drifted;
    cmd_text_free(&run.text);
    free(run.todo);
    free(run.mark);
    free(run.entry);
    free(run.status);
    free(run.time_s);
    free(seen);
    cmd_layer_close(layer, s->target);
    free(layer);
    return st;
}

static int cpu_option(cmd_args *args, int64_t *cpu)
{
    const char *text = NULL;
    char *end;
    int st = cmd_args_text(args, &text);
    if (st != CMD_OK)
        return st;
    *cpu = strcmp(text, "any") == 0 ? -1 : strtoll(text, &end, 10);
    if (*cpu != -1 && (end == text || *end || *cpu < 0 || *cpu > 1023))
        return cmd_fail(CMD_USAGE, "collect: %s \"%s\": want a core's number "
                        "or any", args->name, text);
    return CMD_OK;
}

static int nice_option(cmd_args *args, int64_t *nice_by)
{
    const char *text = NULL;
    char *end;
    int st = cmd_args_text(args, &text);
    if (st != CMD_OK)
        return st;
    *nice_by = strtoll(text, &end, 10);
    if (end == text || *end || *nice_by < -20 || *nice_by > 19)
        return cmd_fail(CMD_USAGE, "collect: --nice \"%s\": want -20..19",
                        text);
    return CMD_OK;
}

static int collect_parse(collect_options *o, int argc, char **argv)
{
    cmd_args args;
    const char *text = NULL;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->settings = 100;
    o->again = 10;
    o->build_cpu = o->run_cpu = -1;
    if (cores > 1) { /* the last core measures, the others build */
        o->run_cpu = cores - 1;
        o->build_cpu = cores == 2 ? 0 : -1;
    }
    o->form.layout = METATUNE_NCHWC;
    o->form.dtype = METATUNE_F32;
    cmd_args_init(&args, "collect", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (cmd_target_option(&args, &o->target, &st) ||
            cmd_tasks_option(&args, &o->tasks, &st) ||
            cmd_form_option(&args, &o->form, &st)) {
            ;
        } else if (cmd_args_is(&args, "--layers")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                st = cmd_tasks_add_list(&o->tasks, text);
        } else if (cmd_args_is(&args, "--settings")) {
            st = cmd_args_u64(&args, 1, 100000, &o->settings);
        } else if (cmd_args_is(&args, "--again")) {
            st = cmd_args_u64(&args, 0, 16, &o->again);
        } else if (cmd_args_is(&args, "--build-cpu")) {
            st = cpu_option(&args, &o->build_cpu);
        } else if (cmd_args_is(&args, "--run-cpu")) {
            st = cpu_option(&args, &o->run_cpu);
        } else if (cmd_args_is(&args, "--nice")) {
            st = nice_option(&args, &o->nice);
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
                      "--layer, --conv or --layers");
    if (o->target.threads > 1) /* the kernel has all cores to itself */
        o->build_cpu = o->run_cpu = -1;
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
    for (i = 0; i < old.n; i++)
        if (strcmp(old.group[i].target, target->key) != 0) {
            st = cmd_fail(CMD_USAGE, "%s was measured on another target, "
                          "%s; this one is %s: choose another --out", o.out,
                          old.group[i].target, target->key);
            goto done;
        }
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
    if (target->kind == CMD_TARGET_HOST) {
        host_ahead_config ahead;
        memset(&ahead, 0, sizeof ahead);
        ahead.build_cpu = (int32_t)o.build_cpu;
        ahead.run_cpu = (int32_t)o.run_cpu;
        ahead.nice = (int32_t)o.nice;
        if (host_ahead_open(&s.ahead, &target->run, &ahead) != METATUNE_OK) {
            st = cmd_fail(CMD_FAILED, "out of memory");
            goto done;
        }
    }
    s.todo = o.settings * o.tasks.n;
    ui_say(&s.u, "target %s", target->key);
    for (i = 0; i < o.tasks.n && st == CMD_OK && !cmd_interrupted; i++) {
        if (o.time_s > 0 && cmd_now() - s.begin_s > o.time_s)
            break;
        s.index = i + 1;
        st = collect_layer(&s, &o.tasks.task[i]);
    }
    ui_say(&s.u, "%llu measured (%llu failed), %llu windows measured again, "
           "%llu drifted all the same; %llu were there, %zu layers skipped as "
           "not supported, in %s", (unsigned long long)s.measured,
           (unsigned long long)s.failed, (unsigned long long)s.discarded,
           (unsigned long long)s.drifted, (unsigned long long)s.kept,
           asked - o.tasks.n, o.out);
    if (st == CMD_OK && cmd_interrupted)
        st = cmd_fail(CMD_FAILED, "interrupted; go on with --resume");
done:
    host_ahead_close(&s.ahead);
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
    "                        --layers FILE]... --out FILE [OPTIONS]\n"
    "\n"
    "Each algorithm that suits a layer gets as many settings as the others.\n"
    "Layers that the target does not support are skipped with a line each.\n"
    "\n"
    "  --net, --layer, --conv, --layout, --dtype   as in `metatune tune`\n"
    "  --layers FILE  one of them a line; '#' begins a comment\n"
    "  --settings N   random settings a layer, the default among them (100)\n"
    "  --seed N       the same seed draws the same settings\n"
    "  --out FILE     one text file, appended while measuring; it names the\n"
    "                 space of settings, another program's may be refused\n"
    "  --resume       measure only what FILE lacks\n"
    "  --again N      the N fastest of a layer are timed again, in turns (10)\n"
    "  --time S       stop after S seconds\n"
    "  --build-cpu C, --run-cpu C   cores of compilers and kernels, or any\n"
    "                 (the last core measures; with --threads all are used)\n"
    "  --nice N       of compilers and kernels\n"
    "  --march, --cc, --threads, --lanes, --target   as in `metatune tune`\n"
    "  --quiet        no progress\n"
    "\n"
    "A control kernel, the layer's default, is timed every 20 settings; when\n"
    "it moved by more than 3 % they are measured again, and after four tries\n"
    "kept with a mark that `metatune train` respects.\n",
    collect
};
