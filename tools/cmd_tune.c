/* cmd_tune.c - metatune tune: tune layers on this machine

   For each layer: time the naive loops and the default setting, search, then
   time default and winner again in alternation, since only neighbours in time
   compare fairly. Everything measured goes to the log at once. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_model.h"
#include "cmd_report.h"
#include "cmd_target.h"
#include "cmd_util.h"
#include "export_conv.h"
#include "export_header.h"
#include "ui.h"

enum {
    TUNE_CHUNK = 2,              /* trials measured at once: two builds run in
                                    parallel, and a kill loses no more */
    TUNE_ALTERNATE = 3,          /* rounds of default, winner at the end */
    TUNE_SEEDS = 8,              /* settings taken from an archive */
    TUNE_PEAK_EVERY = 8          /* trials between two looks at the peak */
};

typedef struct tune_options {
    cmd_target_options target;
    cmd_tasks tasks;
    cmd_form form;
    uint64_t trials, batch, seed;
    double time_s;               /* all layers; 0 = no limit */
    int32_t strategy;
    const char *strategy_name;
    const char *model, *log, *out;
    char **archive;              /* (n_archive) logs of other tasks */
    size_t n_archive;
    int share;                   /* trials are those of all layers */
    int resume, quiet, json;
} tune_options;

/* What the table says of a layer. */
typedef struct tune_row {
    int begun, found, measured;
    double naive_s, default_s, tuned_s, gflop, peak_flops;
    metatune_status end;
    metatune_summary summary;
    int64_t values[HOST_KNOBS];
    const char *knobs[HOST_KNOBS]; /* their names */
    uint64_t winner;             /* hash of the search's best setting */
    double baseline_s;           /* seconds spent on naive, default, final */
} tune_row;

typedef struct tune_state {
    const tune_options *options;
    cmd_target *target;
    cmd_layer *layer;
    metatune_tuner *tuner;       /* of the layer; NULL before its search */
    const metatune_schedule *schedule; /* of --share */
    ui u;
    int fd;                      /* log; -1 = none */
    char log[1024];
    int log_errno;               /* why the log could not be written */
    double begin_s, layer_begin_s; /* when the first and this layer began */
    size_t index;                /* 1.. */
    uint32_t since_peak;
    double expected_gain;        /* what the model expected at its last look */
    char stopped[HOST_ERROR_BYTES]; /* why the target could not go on */
    host_result results[TUNE_CHUNK];
    export_table archive;        /* when n_archive is not 0 */
    const char *log_bytes;       /* what the log held at the start */
    size_t log_n;
} tune_state;

/* ---------------------------------------------------------- callbacks */

static metatune_status tune_describe(void *user,
                                     const metatune_problem *problem,
                                     const int64_t *values,
                                     metatune_encode_nest *nest)
{
    tune_state *s = (tune_state *)user;
    const host_kernel *kernel = &s->layer->host.kernel;
    (void)problem;
    if (nest->n_axes == 0) {
        metatune_status st = host_kernel_nest_begin(kernel, nest);
        if (st != METATUNE_OK)
            return st;
    }
    return host_kernel_describe(kernel, values, nest);
}

static int tune_valid(void *user, const metatune_problem *problem,
                      const int64_t *values)
{
    const tune_state *s = (const tune_state *)user;
    (void)problem;
    return host_kernel_valid(&s->layer->host.kernel, values);
}

static int tune_repair(void *user, const metatune_problem *problem,
                       int64_t *values)
{
    const tune_state *s = (const tune_state *)user;
    (void)problem;
    return host_kernel_repair(&s->layer->host.kernel, values);
}

static metatune_status tune_measure(void *user,
                                    const metatune_problem *problem,
                                    const metatune_trial *trials, size_t n,
                                    metatune_result *results)
{
    tune_state *s = (tune_state *)user;
    int64_t values[TUNE_CHUNK * HOST_KNOBS];
    /* confirm trials alternate: one at a time; what is left of the batch
       stays NOT_RUN and comes again at once */
    int confirm = trials[0].kind == METATUNE_CONFIRM;
    size_t i, m = confirm ? 1 : TUNE_CHUNK;
    metatune_status st;
    (void)problem;
    if (m > n)
        m = n;
    for (i = 1; i < m; i++)
        if (trials[i].kind != trials[0].kind)
            m = i;
    if (cmd_interrupted)
        return METATUNE_CANCELLED;
    for (i = 0; i < m; i++)
        memcpy(values + i * HOST_KNOBS, trials[i].values,
               HOST_KNOBS * sizeof *values);
    if (s->target->kind == CMD_TARGET_HOST &&
        s->since_peak >= TUNE_PEAK_EVERY) {
        cmd_target_peak(s->target);
        s->since_peak = 0;
    }
    s->since_peak += (uint32_t)m;
    st = cmd_layer_measure(s->layer, s->target, values, (int32_t)m,
                           confirm ? 1 + trials[0].repeat : 0, s->results);
    for (i = 0; i < m; i++) {
        const host_result *r = &s->results[i];
        if (r->status == METATUNE_NOT_RUN ||
            r->status == METATUNE_CANCELLED) {
            if (r->status == METATUNE_NOT_RUN && r->error[0])
                memcpy(s->stopped, r->error, sizeof s->stopped);
            continue;
        }
        results[i].status = r->status;
        results[i].value = r->time_s;
        results[i].samples = r->sample;
        results[i].n_samples = r->n_samples > 0 ? (uint32_t)r->n_samples : 0;
        results[i].build_s = r->build_s;
        results[i].run_s = r->run_s;
        if (r->error[0]) {
            results[i].error = r->error;
            results[i].error_bytes = strlen(r->error);
        }
    }
    if (st == METATUNE_NOT_RUN)
        return METATUNE_IO;
    return st;
}

static int tune_write(void *user, const char *bytes, size_t n)
{
    tune_state *s = (tune_state *)user;
    if (s->fd < 0)
        return 0;
    if (s->log_errno == 0 && cmd_write_all(s->fd, bytes, n) != 0)
        s->log_errno = errno;
    return s->log_errno;
}

static double tune_now(void *user)
{
    (void)user;
    return cmd_now();
}

/* Seconds until everything is done: the other layers are taken to last as
   long as this one; the limit bounds it. < 0: unknown. */
static double tune_left(const tune_state *s, const metatune_progress *info)
{
    double now = cmd_now(), left = info->left_s, all;
    size_t more = s->options->tasks.n - s->index;
    if (info->kind == METATUNE_CONFIRM)
        left = 1;
    if (s->schedule) {
        uint32_t used = metatune_schedule_used(s->schedule);
        left = used ? (now - s->begin_s) / used *
                          (s->schedule->trials - used) : -1;
    } else if (left >= 0)
        left += (double)more * (now - s->layer_begin_s + left + 1);
    if (s->options->time_s > 0) {
        all = s->begin_s + s->options->time_s - now;
        if (left < 0 || left > all)
            left = all > 0 ? all : 0;
    }
    return left;
}

static int tune_progress(void *user, const metatune_progress *info)
{
    tune_state *s = (tune_state *)user;
    metatune_best best;
    const char *how = NULL;
    if (info->best_value > 0 &&
        metatune_best_get(s->tuner, &best) == METATUNE_OK)
        how = host_algorithm_name(
            (int32_t)best.values[HOST_KNOB_ALGORITHM]);
    ui_tune(&s->u, cmd_now(), s->layer->task->name, s->index,
            s->options->tasks.n, s->layer->gflop, how, tune_left(s, info),
            info);
    s->expected_gain = info->expected_gain;
    return cmd_interrupted != 0;
}

/* ------------------------------------------------------- task records */

static metatune_text text_of(const char *string)
{
    metatune_text t;
    t.p = string;
    t.n = strlen(string);
    return t;
}

/* tuned_s > 0: the last line of a finished layer, with the setting that won
   the search. These and the device are no fields of the format, so they travel
   as unknown ones. The device is there because a resumed search must see the
   very same probes. */
static void task_write(tune_state *s, const metatune_problem *problem,
                       const tune_row *row, double tuned_s)
{
    metatune_record r;
    char extra[1200], device[1024], run[24], *buf;
    size_t cap, n = 0;
    uint64_t h;
    int i;
    memset(&r, 0, sizeof r);
    r.kind = METATUNE_RECORD_TASK;
    r.version = METATUNE_RECORD_VERSION;
    /* the id that the trial lines of this run carry */
    h = metatune_encode_hash_u64(metatune_space_hash(problem->knobs,
                                                     problem->n_knobs),
                                 s->options->seed);
    h = metatune_encode_hash(h, problem->task, strlen(problem->task));
    h = metatune_encode_hash(h, problem->target, strlen(problem->target));
    snprintf(run, sizeof run, "%016llx", (unsigned long long)h);
    r.run = text_of(run);
    r.task = text_of(problem->task);
    r.target = text_of(problem->target);
    r.strategy = text_of(s->options->strategy_name);
    r.seed = s->options->seed;
    r.space = metatune_space_hash(problem->knobs, problem->n_knobs);
    r.model = problem->model ? problem->model->hash : 0;
    r.unit = problem->unit;
    r.layer = text_of(s->layer->task->name);
    r.naive_s = row->naive_s;
    r.default_s = row->default_s;
    r.peak_gflops = 1e-9 * row->peak_flops;
    r.gflop = row->gflop;
    if (tuned_s > 0) {
        char number[32];
        n = metatune_number_write(tuned_s, number, sizeof number);
        number[n] = 0;
        i = snprintf(extra, sizeof extra,
                     ",\"tuned_s\":%s,\"winner\":\"%016llx\"", number,
                     (unsigned long long)row->winner);
        if (s->expected_gain > 0 && s->expected_gain < 1e6)
            snprintf(extra + i, sizeof extra - (size_t)i,
                     ",\"expected_gain\":%.4f", s->expected_gain);
    } else {
        cmd_device_text(&s->target->device, device, sizeof device);
        snprintf(extra, sizeof extra, ",\"device\":\"%s\"", device);
    }
    r.unknown = text_of(extra);
    cap = metatune_record_memsize(&r) + sizeof extra;
    buf = (char *)cmd_alloc(cap);
    n = 0;
    if (metatune_record_encode(&r, buf, cap, &n) == METATUNE_OK)
        tune_write(s, buf, n);
    free(buf);
}

static double unknown_number(const metatune_record *r, const char *key)
{
    const char *p = r->unknown.p;
    size_t k = strlen(key), i;
    for (i = 0; p && i + k <= r->unknown.n; i++) {
        if (memcmp(p + i, key, k) == 0) {
            double x = 0;
            size_t end = 0;
            if (metatune_number_read(p + i + k, r->unknown.n - i - k, &x,
                                     &end) == METATUNE_OK)
                return x;
        }
    }
    return 0;
}

static int same_text(metatune_text t, const char *string)
{
    /* keys hold no character that JSON escapes */
    return t.n == strlen(string) && memcmp(t.p, string, t.n) == 0;
}

/* The probes of the first task line of this target, if there is one. */
static void device_recall(const tune_state *s, metatune_encode_device *device)
{
    static const char key[] = "\"device\":\"";
    metatune_record r;
    metatune_status st;
    size_t pos = 0, i;
    if (!s->log_bytes)
        return;
    while ((st = metatune_log_next(s->log_bytes, s->log_n, &pos, &r)) !=
           METATUNE_NOT_FOUND) {
        if (st != METATUNE_OK || r.kind != METATUNE_RECORD_TASK ||
            !same_text(r.target, s->target->key))
            continue;
        for (i = 0; r.unknown.p && i + sizeof key < r.unknown.n; i++)
            if (memcmp(r.unknown.p + i, key, sizeof key - 1) == 0 &&
                cmd_device_parse(r.unknown.p + i + sizeof key - 1, device) ==
                    CMD_OK)
                return;
    }
}

/* The next task line of the problem at or after *pos; 0 when there is none. */
static int task_next(const tune_state *s, const metatune_problem *problem,
                     size_t *pos, metatune_record *r)
{
    metatune_status st;
    if (!s->log_bytes)
        return 0;
    while ((st = metatune_log_next(s->log_bytes, s->log_n, pos, r)) !=
           METATUNE_NOT_FOUND)
        if (st == METATUNE_OK && r->kind == METATUNE_RECORD_TASK &&
            same_text(r->task, problem->task) &&
            same_text(r->target, problem->target) &&
            r->space == metatune_space_hash(problem->knobs, problem->n_knobs))
            return 1;
    return 0;
}

/* Naive and default time of the newest task line. 1: this very search has one
   that says so. */
static int task_recall(const tune_state *s, const metatune_problem *problem,
                       tune_row *row)
{
    metatune_record r;
    size_t pos = 0;
    int mine = 0;
    while (task_next(s, problem, &pos, &r)) {
        row->naive_s = r.naive_s;
        row->default_s = r.default_s;
        if (r.seed == s->options->seed && r.default_s > 0 &&
            r.model == (problem->model ? problem->model->hash : 0) &&
            same_text(r.strategy, s->options->strategy_name))
            mine = 1;
    }
    return mine;
}

/* The newest final times of the setting that won, with the default's beside
   it, into the row; 0 when it was never timed so. Whichever search had found
   it: other trials or another model may lead to other winners, but a setting's
   time is its own. */
static int final_recall(const tune_state *s, const metatune_problem *problem,
                        tune_row *row)
{
    char key[48];
    metatune_record r;
    size_t pos = 0, k, i;
    int found = 0;
    snprintf(key, sizeof key, "\"winner\":\"%016llx\"",
             (unsigned long long)row->winner);
    k = strlen(key);
    while (task_next(s, problem, &pos, &r)) {
        double tuned = unknown_number(&r, "\"tuned_s\":");
        for (i = 0; r.unknown.p && i + k <= r.unknown.n; i++)
            if (tuned > 0 && memcmp(r.unknown.p + i, key, k) == 0) {
                row->tuned_s = tuned;
                row->default_s = r.default_s;
                found = 1;
                break;
            }
    }
    return found;
}

/* ------------------------------------------------------------ a layer */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    if (n < 1)
        return 0;
    qsort(x, (size_t)n, sizeof *x, by_value);
    return 0.5 * (x[(n - 1) / 2] + x[n / 2]);
}

/* One sample of a setting; 0 when it failed, with one line unless quiet. */
static double measure_once(tune_state *s, const int64_t *values,
                           uint32_t repeat, int quiet)
{
    host_result r;
    memset(&r, 0, sizeof r);
    if (cmd_layer_measure(s->layer, s->target, values, 1, repeat, &r) !=
            METATUNE_OK || r.status != METATUNE_OK) {
        if (!quiet && !cmd_interrupted && r.error[0])
            cmd_fail(CMD_FAILED, "%s: the default or the winning setting "
                     "failed: %s: %s", s->layer->task->name,
                     metatune_encode_status_name(r.status), r.error);
        return 0;
    }
    return r.time_s;
}

/* Default and winner in alternation, medians into the row. */
static void alternate(tune_state *s, tune_row *row)
{
    double d[TUNE_ALTERNATE], t[TUNE_ALTERNATE];
    int i, nd = 0, nt = 0;
    int same = memcmp(row->values, s->layer->defaults,
                      sizeof row->values) == 0;
    for (i = 0; i < TUNE_ALTERNATE && !cmd_interrupted; i++) {
        double x = row->default_s > 0 || same
                 ? measure_once(s, s->layer->defaults, 100 + (uint32_t)i,
                                i > 0) : 0;
        if (x > 0)
            d[nd++] = x;
        x = same ? x : measure_once(s, row->values, 200 + (uint32_t)i,
                                    i > 0);
        if (x > 0)
            t[nt++] = x;
    }
    if (nd == TUNE_ALTERNATE)
        row->default_s = median(d, nd);
    if (nt == TUNE_ALTERNATE)
        row->tuned_s = median(t, nt);
    /* a winner that cannot run again is none: the default, if that can */
    if (nt == 0 && !cmd_interrupted)
        row->tuned_s = nd > 0 ? row->default_s : 0;
    /* luck made a winner that does not win: keep what is known to work */
    if (nd == TUNE_ALTERNATE && nt == TUNE_ALTERNATE &&
        row->tuned_s > row->default_s)
        row->tuned_s = row->default_s;
}

/* CMD_OK, and *history NULL without a log; or a status after one line: going
   on would measure again what the log holds. */
static int history_open(const tune_state *s, const metatune_problem *problem,
                        metatune_history **history, void **mem)
{
    metatune_history *h;
    metatune_status st;
    size_t cap, bytes;
    *history = NULL;
    if (!s->log_bytes)
        return CMD_OK;
    cap = metatune_log_lines(s->log_bytes, s->log_n) + 1;
    bytes = metatune_history_memsize(cap);
    h = (metatune_history *)cmd_alloc(sizeof *h);
    *mem = cmd_alloc(bytes);
    st = metatune_history_init(h, cap, *mem, bytes);
    if (st == METATUNE_OK)
        st = metatune_history_read(h, problem, s->log_bytes, s->log_n);
    if (st != METATUNE_OK) {
        free(h);
        return cmd_fail(CMD_FAILED, "cannot resume from %s: %s: %s (%zu "
                        "lines); leave --resume out or choose another --log",
                        s->log, metatune_encode_status_name(st),
                        metatune_encode_status_text(st), cap - 1);
    }
    *history = h;
    return CMD_OK;
}

/* CMD_OK also when nothing valid was found (the row says so); else a status
   after one line: nothing more can be tuned. */
/* A layer's search and what it needs. */
typedef struct tune_job {
    cmd_layer *layer;
    tune_row *row;
    size_t index;                /* 1.. */
    double begin_s;
    metatune_problem problem;
    metatune_tuner *tuner;
    metatune_history *history;
    void *mem, *history_mem;
    int64_t seeds[TUNE_SEEDS * HOST_KNOBS];
} tune_job;

/* What the callbacks look at is this layer's. */
static void job_turn(tune_state *s, tune_job *job)
{
    s->index = job->index;
    s->layer = job->layer;
    s->tuner = job->tuner;
    s->layer_begin_s = job->begin_s;
    s->u.best = 0;
    s->expected_gain = 0;
}

/* Naive loops, default setting, an open tuner. CMD_OK, or a status after one
   line; job_free either way. */
static int job_begin(tune_state *s, const cmd_model *model, tune_job *job)
{
    const tune_options *o = s->options;
    const cmd_task *task = &o->tasks.task[job->index - 1];
    cmd_layer *layer = (cmd_layer *)cmd_alloc(sizeof *layer);
    metatune_problem *problem = &job->problem;
    metatune_history *history;
    metatune_config cfg;
    metatune_error error;
    tune_row *row = job->row;
    double share, t;
    size_t bytes;
    int32_t k;
    int st, known;

    job->layer = layer;
    job->begin_s = cmd_now();
    st = cmd_layer_open(layer, s->target, task);
    if (st != CMD_OK)
        return st;
    job_turn(s, job);
    row->begun = 1;
    row->gflop = layer->gflop;
    for (k = 0; k < HOST_KNOBS; k++)
        row->knobs[k] = layer->knobs[k].name;

    problem->task = task->spec;
    problem->target = s->target->key;
    problem->unit = METATUNE_SECONDS;
    problem->knobs = layer->knobs;
    problem->n_knobs = HOST_KNOBS;
    problem->default_values = layer->defaults;
    if (o->n_archive) {
        problem->seeds = job->seeds;
        problem->n_seeds = metatune_archive_seeds(
            &s->archive.table, &task->conv, layer->knobs, HOST_KNOBS,
            job->seeds, TUNE_SEEDS);
    }
    problem->model = model->present ? &model->model : NULL;
    problem->device = &s->target->device;
    problem->skeletons = s->target->skeletons;
    problem->n_skeletons = HOST_ALGORITHMS;
    problem->user = s;
    problem->describe = tune_describe;
    problem->valid = tune_valid;
    problem->repair = tune_repair;
    problem->measure = tune_measure;
    problem->write = tune_write;
    problem->now = tune_now;
    problem->progress = tune_progress;

    st = history_open(s, problem, &job->history, &job->history_mem);
    if (st != CMD_OK)
        return st;
    problem->history = history = job->history;
    known = task_recall(s, problem, row);
    if (!(row->naive_s > 0))
        row->naive_s = layer->naive_s;
    if (!(row->default_s > 0))
        row->default_s = measure_once(s, layer->defaults, 99, 1);
    row->peak_flops = s->target->peak_flops;
    if (!known)
        task_write(s, problem, row, 0);
    if (history && (history->n || history->n_bad || history->n_lost))
        ui_say(&s->u, "[%zu/%zu] %s: %zu results are in the log, %zu of "
               "another space, %zu damaged lines", s->index, o->tasks.n,
               task->name, history->n, history->n_lost, history->n_bad);

    memset(&cfg, 0, sizeof cfg);
    memset(&error, 0, sizeof error);
    cfg.seed = o->seed;
    cfg.trials = (uint32_t)o->trials;
    if (o->share && o->tasks.n > 4) /* four times its part at most */
        cfg.trials = (uint32_t)(4 * (o->trials / o->tasks.n + 1));
    cfg.no_trials = o->trials == 0;
    cfg.batch = (uint32_t)o->batch;
    cfg.strategy = o->strategy;
    cfg.encode.cap_nodes = CMD_NODES;
    if (o->time_s > 0) {
        /* what is left, shared by the layers left; a sixth and the time of
           one long build stay free for the confirmations at the end */
        share = (s->begin_s + o->time_s - job->begin_s) /
                (double)(o->share ? 1 : o->tasks.n - s->index + 1);
        t = share * 5 / 6 - 1 - (cmd_now() - job->begin_s);
        cfg.seconds = t > 0.01 ? t : 0.01;
    }
    bytes = metatune_memsize(&cfg, problem);
    job->tuner = (metatune_tuner *)cmd_alloc(sizeof *job->tuner);
    job->mem = cmd_alloc(bytes);
    row->end = metatune_init(job->tuner, &cfg, problem, job->mem, bytes,
                             &error);
    if (row->end != METATUNE_OK)
        return cmd_fail_error(CMD_USAGE, task->name, &error);
    row->baseline_s = cmd_now() - job->begin_s;
    s->tuner = job->tuner;
    return CMD_OK;
}

/* The search to its end, and the winner against the default. */
static int job_end(tune_state *s, tune_job *job)
{
    const tune_options *o = s->options;
    const cmd_task *task = &o->tasks.task[job->index - 1];
    cmd_layer *layer = job->layer;
    tune_row *row = job->row;
    metatune_best best;
    metatune_status end;
    double t;
    int st = CMD_OK;

    job_turn(s, job);
    end = row->end = metatune_tune(job->tuner);
    metatune_summary_get(job->tuner, &row->summary);
    if (metatune_best_get(job->tuner, &best) == METATUNE_OK) {
        memcpy(row->values, best.values, sizeof row->values);
        row->found = best.measured || o->trials == 0 ||
                     (o->share && row->summary.trials == 0);
        row->measured = best.measured;
        row->winner = best.hash;
        row->tuned_s = best.measured ? best.value : 0;
    }

    if (row->found && !s->log_errno && !cmd_interrupted) {
        t = cmd_now();
        if (row->summary.recalled !=
                row->summary.trials + row->summary.confirms ||
            !final_recall(s, &job->problem, row)) {
            ui_live(&s->u, t, 0, s->u.mode == UI_LIVE,
                    "[%zu/%zu] %s: default and winner in alternation",
                    s->index, o->tasks.n, task->name);
            alternate(s, row);
            cmd_target_peak(s->target);
            row->peak_flops = s->target->peak_flops;
            if (!cmd_interrupted && row->tuned_s > 0)
                task_write(s, &job->problem, row, row->tuned_s);
        }
        if (row->tuned_s >= row->default_s && row->default_s > 0)
            memcpy(row->values, layer->defaults, sizeof row->values);
        row->baseline_s += cmd_now() - t;
        if (!(row->tuned_s > 0))
            row->found = 0;
    }
    ui_clear(&s->u);

    if (s->log_errno) {
        st = cmd_fail(CMD_FAILED, "IO: cannot write %s: %s; stopped, the "
                      "best so far is kept; free some space and go on with "
                      "--resume", s->log, strerror(s->log_errno));
    } else if (s->stopped[0] && !cmd_interrupted) {
        st = cmd_fail(CMD_FAILED, "%s: %s", task->name, s->stopped);
    } else if (!row->found && !cmd_interrupted) {
        const metatune_summary *y = &row->summary;
        if (end == METATUNE_NO_VALID || y->top_failure != METATUNE_OK)
            cmd_fail(CMD_FAILED, "%s: NO_VALID: none of %u settings worked; "
                     "most frequent: %s: %s%s", task->name, y->trials,
                     metatune_encode_status_name(y->top_failure),
                     y->top_error, y->reference_suspect
                         ? "; the reference may be wrong" : "");
        else
            cmd_fail(CMD_FAILED, "%s: %s: %s", task->name,
                     metatune_encode_status_name(end),
                     metatune_encode_status_text(end));
    }
    return st;
}

static void job_free(tune_state *s, tune_job *job)
{
    s->tuner = NULL;
    s->layer = NULL;
    free(job->tuner);
    free(job->mem);
    free(job->history);
    free(job->history_mem);
    if (job->layer)
        cmd_layer_close(job->layer, s->target);
    free(job->layer);
}

/* Layer after layer, each with trials of its own. */
static int tune_each(tune_state *s, const cmd_model *model, tune_row *rows)
{
    size_t i;
    int st = CMD_OK;
    for (i = 0; i < s->options->tasks.n && st == CMD_OK && !cmd_interrupted;
         i++) {
        tune_job *job = (tune_job *)cmd_alloc(sizeof *job);
        job->row = &rows[i];
        job->index = i + 1;
        st = job_begin(s, model, job);
        if (st == CMD_OK)
            st = job_end(s, job);
        job_free(s, job);
        free(job);
    }
    return st;
}

/* All layers open, one budget: metatune_schedule says whose turn it is. */
static int tune_shared(tune_state *s, const cmd_model *model, tune_row *rows)
{
    const tune_options *o = s->options;
    size_t i, n = o->tasks.n;
    tune_job *job = (tune_job *)cmd_alloc(n * sizeof *job);
    metatune_schedule_task *task =
        (metatune_schedule_task *)cmd_alloc(n * sizeof *task);
    metatune_schedule schedule;
    const nets_layer *layer;
    metatune_error error;
    uint32_t at;
    int st = CMD_OK;
    memset(job, 0, n * sizeof *job);
    for (i = 0; i < n && st == CMD_OK && !cmd_interrupted; i++) {
        job[i].row = &rows[i];
        job[i].index = i + 1;
        st = job_begin(s, model, &job[i]);
        task[i].tuner = job[i].tuner;
        layer = nets_find(o->tasks.task[i].name, NULL, 0);
        task[i].weight = layer ? layer->count : 1;
    }
    if (st == CMD_OK && !cmd_interrupted &&
        metatune_schedule_init(&schedule, task, (uint32_t)n,
                               (uint32_t)o->trials, &error) != METATUNE_OK)
        st = cmd_fail_error(CMD_FAILED, "tune", &error);
    if (st == CMD_OK && !cmd_interrupted) {
        s->schedule = &schedule;
        while (!cmd_interrupted && !s->stopped[0] && !s->log_errno &&
               metatune_schedule_next(&schedule, &at) == METATUNE_OK) {
            job_turn(s, &job[at]);
            (void)metatune_tune_batch(job[at].tuner);
        }
        metatune_schedule_close(&schedule);
    }
    for (i = 0; i < n; i++) {
        if (job[i].tuner && st == CMD_OK)
            st = job_end(s, &job[i]);
        if (job[i].layer)
            job_free(s, &job[i]);
    }
    s->schedule = NULL;
    free(task);
    free(job);
    return st;
}

/* ------------------------------------------------------------- report */

static void cell(char *buf, size_t cap, double x, const char *format)
{
    if (x > 0)
        snprintf(buf, cap, format, x);
    else
        snprintf(buf, cap, "-");
}

static const char *row_algorithm(const tune_row *r)
{
    const char *name = r->found ? host_algorithm_name(
        (int32_t)r->values[HOST_KNOB_ALGORITHM]) : NULL;
    return name ? name : "-";
}

static void table_print(const tune_options *o, const tune_row *rows,
                        double peak, int32_t threads)
{
    char c[7][24];
    size_t i;
    int wino = 0;
    printf("\n%-28s %9s %9s %9s %8s %8s %9s %6s %-6s %6s %8s %7s %6s\n",
           "layer", "naive ms", "deflt ms", "tuned ms", "x naive", "x deflt",
           "GFLOP/s", "% peak", "kind", "trials", "compile", "measure",
           "think");
    for (i = 0; i < o->tasks.n; i++) {
        const tune_row *r = &rows[i];
        double t = r->found ? r->tuned_s : 0;
        if (!r->begun)
            continue;
        wino = wino || strncmp(row_algorithm(r), "wino", 4) == 0;
        cell(c[0], sizeof c[0], 1e3 * r->naive_s, "%.3f");
        cell(c[1], sizeof c[1], 1e3 * r->default_s, "%.4f");
        cell(c[2], sizeof c[2], 1e3 * t, "%.4f");
        cell(c[3], sizeof c[3], t > 0 ? r->naive_s / t : 0, "%.1f");
        cell(c[4], sizeof c[4], t > 0 ? r->default_s / t : 0, "%.2f");
        cell(c[5], sizeof c[5], t > 0 ? r->gflop / t : 0, "%.1f");
        cell(c[6], sizeof c[6],
             t > 0 && peak > 0 ? 1e11 * r->gflop / t / peak / threads : 0,
             "%.0f");
        printf("%-28s %9s %9s %9s %8s %8s %9s %6s %-6s %6u %7.1fs %6.1fs "
               "%5.1fs\n", o->tasks.task[i].name, c[0], c[1], c[2], c[3],
               c[4], c[5], c[6], row_algorithm(r), r->summary.trials,
               r->summary.build_s,
               r->summary.run_s + r->baseline_s, r->summary.think_s);
    }
    printf("peak: %.1f GFLOP/s of multiply-adds on one core, the highest of "
           "several looks", 1e-9 * peak);
    if (threads > 1)
        printf("; %% peak is of %d cores", (int)threads);
    printf("\n%s", wino ? "wino: GFLOP/s of the direct convolution that it "
           "replaces, so above 100 % is no error\n" : "");
}

static void number_add(cmd_text *text, const char *name, double x)
{
    char number[32];
    size_t n;
    if (!(x > 0)) {
        cmd_text_add(text, ",\"%s\":null", name);
        return;
    }
    n = metatune_number_write(x, number, sizeof number);
    number[n < sizeof number ? n : 0] = 0;
    cmd_text_add(text, ",\"%s\":%s", name, number);
}

static void json_print(const tune_state *s, const tune_row *rows, int status,
                       const char *model)
{
    const tune_options *o = s->options;
    cmd_text t;
    size_t i;
    int32_t k;
    int first = 1;
    memset(&t, 0, sizeof t);
    cmd_text_add(&t, "{\"target\":");
    cmd_text_json(&t, s->target->key);
    cmd_text_add(&t, ",\"model\":");
    cmd_text_json(&t, model);
    cmd_text_add(&t, ",\"strategy\":\"%s\",\"seed\":%llu,\"log\":",
                 o->strategy_name, (unsigned long long)o->seed);
    cmd_text_json(&t, s->log);
    number_add(&t, "peak_gflops", 1e-9 * s->target->peak_flops);
    cmd_text_add(&t, ",\"interrupted\":%s,\"status\":%d,\"layers\":[",
                 cmd_interrupted ? "true" : "false", status);
    for (i = 0; i < o->tasks.n; i++) {
        const tune_row *r = &rows[i];
        if (!r->begun)
            continue;
        cmd_text_add(&t, "%s{\"layer\":", first ? "" : ",");
        first = 0;
        cmd_text_json(&t, o->tasks.task[i].name);
        cmd_text_add(&t, ",\"task\":");
        cmd_text_json(&t, o->tasks.task[i].spec);
        cmd_text_add(&t, ",\"end\":\"%s\",\"valid\":%s",
                     metatune_encode_status_name(r->end),
                     r->found ? "true" : "false");
        number_add(&t, "naive_s", r->naive_s);
        number_add(&t, "default_s", r->default_s);
        number_add(&t, "tuned_s", r->found ? r->tuned_s : 0);
        number_add(&t, "gflop", r->gflop);
        number_add(&t, "gflops",
                   r->found && r->tuned_s > 0 ? r->gflop / r->tuned_s : 0);
        cmd_text_add(&t, ",\"trials\":%u,\"confirms\":%u,\"recalled\":%u,"
                     "\"build_s\":%.3f,\"run_s\":%.3f,\"think_s\":%.3f",
                     r->summary.trials, r->summary.confirms,
                     r->summary.recalled, r->summary.build_s,
                     r->summary.run_s + r->baseline_s, r->summary.think_s);
        if (r->found)
            cmd_text_add(&t, ",\"algorithm\":\"%s\"", row_algorithm(r));
        cmd_text_add(&t, ",\"setting\":");
        if (r->found) {
            for (k = 0; k < HOST_KNOBS; k++)
                cmd_text_add(&t, "%s\"%s\":%lld", k ? "," : "{",
                             r->knobs[k], (long long)r->values[k]);
            cmd_text_add(&t, "}}");
        } else {
            cmd_text_add(&t, "null}");
        }
    }
    cmd_text_add(&t, "]}\n");
    fwrite(t.p, 1, t.n, stdout);
    cmd_text_free(&t);
}

static int export_all(tune_state *s, const tune_row *rows, const char *out)
{
    const tune_options *o = s->options;
    export_layer *e = (export_layer *)cmd_alloc(
        (o->tasks.n ? o->tasks.n : 1) * sizeof *e);
    char path[1200] = "", flags[HOST_FLAG_BYTES + 64];
    size_t i, n = 0;
    int rc = 0;
    for (i = 0; i < o->tasks.n; i++) {
        if (!rows[i].found)
            continue;
        e[n].name = o->tasks.task[i].name;
        e[n].conv = o->tasks.task[i].conv;
        e[n].tuned_s = rows[i].tuned_s;
        e[n].default_s = rows[i].default_s;
        memcpy(e[n].values, rows[i].values, sizeof e[n].values);
        n++;
    }
    snprintf(flags, sizeof flags, "-O3 -march=native -ffp-contract=fast");
    if (s->target->kind == CMD_TARGET_HOST)
        snprintf(flags, sizeof flags, "%s", s->target->run.platform.flags);
    if (n > 0)
        rc = export_conv_write(out, e, n, &s->target->march, s->target->key,
                               flags, path, sizeof path);
    free(e);
    if (rc != 0 && !s->log_errno) /* one line a full disk is enough */
        return cmd_fail(CMD_FAILED, "cannot write %s: %s", path,
                        strerror(errno));
    return rc ? CMD_FAILED : CMD_OK;
}

/* A page about the whole log. Without it the run is no less a success. */
static void report_write(const tune_state *s, char *path, size_t cap)
{
    const char *logs[1];
    cmd_report_totals totals;
    metatune_record r;
    size_t n = 0, pos = 0;
    char *bytes = cmd_file_read(s->log, &n);
    metatune_status st = METATUNE_OK;
    int any = 0;
    while (bytes && !any && st != METATUNE_NOT_FOUND) {
        st = metatune_log_next(bytes, n, &pos, &r);
        any = st == METATUNE_OK && r.kind == METATUNE_RECORD_TRIAL;
    }
    free(bytes);
    if (!any)
        return;
    logs[0] = s->log;
    snprintf(path, cap, "%s/report.html", s->options->out);
    if (cmd_report_write(logs, 1, path, NULL, 1, &totals) != CMD_OK)
        path[0] = 0;
}

/* ---------------------------------------------------------- arguments */

static int strategy_of(const char *name, int32_t *strategy)
{
    const char *known;
    int32_t i;
    for (i = 0; (known = metatune_strategy_name(i)) != NULL; i++)
        if (strcmp(name, known) == 0) {
            *strategy = i;
            return CMD_OK;
        }
    return cmd_fail(CMD_USAGE, "tune: unknown --strategy \"%s\"; want "
                    "metatune, random, ga, sa or grid", name);
}

static int tune_parse(tune_options *o, int argc, char **argv)
{
    cmd_args args;
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->archive = (char **)cmd_alloc(((size_t)argc + 1) * sizeof *o->archive);
    o->trials = 64;
    o->form.layout = METATUNE_NCHWC;
    o->form.dtype = METATUNE_F32;
    o->strategy_name = "metatune";
    o->out = "tuned";
    cmd_args_init(&args, "tune", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (cmd_target_option(&args, &o->target, &st) ||
            cmd_tasks_option(&args, &o->tasks, &st) ||
            cmd_form_option(&args, &o->form, &st)) {
            ;
        } else if (cmd_args_is(&args, "--trials")) {
            st = cmd_args_u64(&args, 0, 1000000, &o->trials);
        } else if (cmd_args_is(&args, "--time")) {
            st = cmd_args_real(&args, 0, 1e7, &o->time_s);
        } else if (cmd_args_is(&args, "--batch")) {
            st = cmd_args_u64(&args, 1, 64, &o->batch);
        } else if (cmd_args_is(&args, "--seed")) {
            st = cmd_args_u64(&args, 0, UINT64_MAX, &o->seed);
        } else if (cmd_args_is(&args, "--strategy")) {
            st = cmd_args_text(&args, &o->strategy_name);
            if (st == CMD_OK)
                st = strategy_of(o->strategy_name, &o->strategy);
        } else if (cmd_args_is(&args, "--model")) {
            st = cmd_args_text(&args, &o->model);
        } else if (cmd_args_is(&args, "--archive")) {
            const char *path;
            st = cmd_args_text(&args, &path);
            if (st == CMD_OK)
                o->archive[o->n_archive++] = cmd_format("%s", path);
        } else if (cmd_args_is(&args, "--log")) {
            st = cmd_args_text(&args, &o->log);
        } else if (cmd_args_is(&args, "--out")) {
            st = cmd_args_text(&args, &o->out);
        } else if (cmd_args_is(&args, "--resume")) {
            st = cmd_args_flag(&args);
            o->resume = 1;
        } else if (cmd_args_is(&args, "--share")) {
            st = cmd_args_flag(&args);
            o->share = 1;
        } else if (cmd_args_is(&args, "--quiet")) {
            st = cmd_args_flag(&args);
            o->quiet = 1;
        } else if (cmd_args_is(&args, "--json")) {
            st = cmd_args_flag(&args);
            o->json = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st == CMD_OK && o->tasks.n == 0)
        st = cmd_fail(CMD_USAGE, "tune: nothing to tune; give --net, --layer "
                      "or --conv (`metatune layers` lists them)");
    return st;
}

/* A word as a shell takes it: in single quotes unless all of it is harmless. */
static void shell_print(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_./,:=+@%-";
    if (word[0] && word[strspn(word, plain)] == 0) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    putchar('\'');
}

static void resume_hint(int argc, char **argv)
{
    int i, resume = 0;
    printf("to go on: ");
    shell_print(cmd_program);
    printf(" tune");
    for (i = 0; i < argc; i++) {
        putchar(' ');
        shell_print(argv[i]);
        resume = resume || strcmp(argv[i], "--resume") == 0;
    }
    printf("%s\n", resume ? "" : " --resume");
}

static int tune_log_open(tune_state *s)
{
    const tune_options *o = s->options;
    char *bytes;
    size_t n = 0;
    if (cmd_mkdirs(o->out) != 0)
        return cmd_fail(CMD_USAGE, "cannot make the folder %s: %s", o->out,
                        strerror(errno));
    if (o->log)
        snprintf(s->log, sizeof s->log, "%s", o->log);
    else
        snprintf(s->log, sizeof s->log, "%s/records.jsonl", o->out);
    if (o->resume) {
        bytes = cmd_file_read(s->log, &n);
        if (!bytes && errno != ENOENT)
            return cmd_fail(CMD_USAGE, "cannot read the log %s: %s", s->log,
                            strerror(errno));
        s->log_bytes = bytes;
        s->log_n = n;
    }
    s->fd = cmd_open_append(s->log);
    if (s->fd < 0)
        return cmd_fail(CMD_USAGE, "cannot append to the log %s: %s", s->log,
                        strerror(errno));
    return CMD_OK;
}

static int tune(int argc, char **argv)
{
    tune_options o;
    tune_state *s = (tune_state *)cmd_alloc(sizeof *s);
    cmd_target *target = (cmd_target *)cmd_alloc(sizeof *target);
    tune_row *rows = NULL;
    cmd_model model;
    char report[1100] = "";
    size_t i;
    int st, failed = 0, opened = 0;

    memset(&model, 0, sizeof model);
    s->fd = -1;
    s->options = &o;
    s->target = target;
    st = tune_parse(&o, argc, argv);
    if (st == CMD_OK)
        st = cmd_model_open(&model, o.model);
    if (st != CMD_OK)
        goto done;
    cmd_signals_install();
    ui_init(&s->u, o.quiet || o.json);
    s->begin_s = cmd_now();
    st = cmd_target_open(target, &o.target);
    if (st != CMD_OK)
        goto done;
    opened = 1;
    /* the platform says how wide blocks are; nothing was written so far */
    st = cmd_tasks_settle(&o.tasks, &o.form, target->march.lanes);
    if (st == CMD_OK)
        st = cmd_tasks_support(&o.tasks, "tune");
    if (st == CMD_OK && o.n_archive)
        st = export_table_read(&s->archive, "tune", o.n_archive, o.archive,
                               target->key, 1);
    if (st == CMD_OK)
        st = tune_log_open(s);
    if (st != CMD_OK)
        goto done;
    rows = (tune_row *)cmd_alloc(o.tasks.n * sizeof *rows);
    device_recall(s, &target->device);
    ui_say(&s->u, "target %s", target->key);
    ui_say(&s->u, "model %s, %llu trials a layer, seed %llu, log %s",
           model.present ? model.name : "none (untrained)",
           (unsigned long long)o.trials, (unsigned long long)o.seed, s->log);

    st = o.share ? tune_shared(s, &model, rows)
                 : tune_each(s, &model, rows);
    for (i = 0; i < o.tasks.n; i++)
        failed |= rows[i].begun && !rows[i].found;
    ui_clear(&s->u);
    if (st == CMD_OK && (failed || cmd_interrupted))
        st = CMD_FAILED;
    if (export_all(s, rows, o.out) != CMD_OK && st == CMD_OK)
        st = CMD_FAILED;
    if (!s->log_errno)
        report_write(s, report, sizeof report);
    if (o.json)
        json_print(s, rows, st, model.name);
    else if (!o.quiet)
        table_print(&o, rows, target->peak_flops, target->march.threads);
    if (cmd_interrupted && !o.json) {
        printf("interrupted\n");
        resume_hint(argc, argv);
    } else if (!o.json && !o.quiet) {
        printf("records %s, kernels %s/tuned_conv.h and tuned_conv.c\n",
               s->log, o.out);
        if (report[0])
            printf("report %s\n", report);
    }
done:
    if (opened)
        cmd_target_close(target);
    if (s->fd >= 0)
        close(s->fd);
    cmd_model_close(&model);
    cmd_tasks_free(&o.tasks);
    export_table_free(&s->archive);
    for (i = 0; i < o.n_archive; i++)
        free(o.archive[i]);
    free(o.archive);
    free((void *)(uintptr_t)s->log_bytes);
    free(rows);
    free(target);
    free(s);
    return st;
}

const cmd_command cmd_tune = {
    "tune", "find fast settings of convolution layers on this machine",
    "usage: metatune tune [--net NAME | --layer NET/LAYER | --conv SPEC]...\n"
    "                     [OPTIONS]\n"
    "\n"
    "What to tune; each may be repeated and mixed:\n"
    "  --net NAME         all layers of a network\n"
    "  --layer NET/LAYER  one layer (`metatune layers` lists them)\n"
    "  --conv SPEC        c=64,h=56,k=64,r=3,stride=1,pad=1 (n, w, s, dil and\n"
    "                     groups are optional); also in=i8,out=i32,acc=i32\n"
    "                     and layout=nchw, nhwc or nchwc,block=LANES\n"
    "  --layout L         of input and output where a SPEC does not say so:\n"
    "                     nchwc: blocked, what kernels of one network hand\n"
    "                     each other (the default); nchw, nhwc: plain in and\n"
    "                     out, conversion timed\n"
    "  --dtype T          of networks' layers: f32 or i8, the latter with\n"
    "                     32-bit sums (f32)\n"
    "Layers that no kernel here supports are skipped with a line each.\n"
    "How:\n"
    "  --trials N         new settings measured a layer (64); 0: none, take\n"
    "                     the model's pick\n"
    "  --time S           seconds for all layers together; 0: no limit\n"
    "  --batch N          settings proposed at a time, 1..64 (8)\n"
    "  --seed N           the same seed and results give the same proposals\n"
    "  --strategy NAME    metatune, random, ga (genetic), sa (annealing) or\n"
    "                     grid (metatune)\n"
    "  --model FILE|none  prior to start from (the one built in)\n"
    "  --archive LOG      records of other layers, repeatable: the first\n"
    "                     batch tries what did best on the two nearest\n"
    "                     shapes; give the same ones again with --resume\n"
    "  --share            --trials are those of all layers together: each has\n"
    "                     a first batch, then they go where the weighted time\n"
    "                     (a layer counts as often as the network has it)\n"
    "                     should fall most\n"
    "  --threads N        that share a kernel, 1..8 (1)\n"
    "  --lanes N          32-bit values of a vector: 16, 8, 4, or 1 for plain\n"
    "                     C99 without vectors (what --march has)\n"
    "  --march M          -march of the kernels (native)\n"
    "  --cc CC            compiler of the kernels (cc)\n"
    "Output:\n"
    "  --out DIR          tuned_conv.h, tuned_conv.c, records.jsonl and\n"
    "                     report.html go there (tuned)\n"
    "  --log FILE         records go there, always appended\n"
    "  --resume           use what the log holds: nothing is measured twice\n"
    "  --quiet            no progress, no table\n"
    "  --json             one JSON object instead\n"
    "For tests:\n"
    "  --target fake[:MS] invented times, the same everywhere, each taking MS\n"
    "                     milliseconds; --target fail: every setting fails\n"
    "\n"
    "Ctrl-C stops after the current measurement and keeps the best; a second\n"
    "one kills at once. Exit status: 0 success; 1 nothing valid found for a\n"
    "layer, interrupted, or a failed run (full disk, no compiler: there is no\n"
    "`cc`, or it cannot build a file); 2 usage or bad input, which a --cc,\n"
    "--march or --lanes that this machine does not have is, too.\n",
    tune
};
