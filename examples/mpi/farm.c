/* farm.c - a measuring farm: rank 0 asks the tuner and hands settings out, the
   other ranks measure, each setting in a child process of its own. The search
   is that of one patient worker, however many there are and whoever is first.

   A worker that says nothing for --silence seconds is taken for lost: its
   setting goes back to the tuner as NOT_RUN, which costs nothing, and is asked
   again. Every result is in the log before the next is handed out, so that a
   killed job goes on where it was: what the log holds is not measured again.

     mpirun --enable-recovery -n 5 farm --log farm.jsonl

   --enable-recovery lets the job live on when a rank is killed. Without any
   loss, the end is an ordinary MPI_Finalize; else MPI_Abort with status 0. A
   worker that hears nothing for --orphan seconds ends the job: its manager is
   gone. Ranks are taken to be of one kind of machine (answers go as bytes). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define METATUNE_IMPLEMENTATION
#include "../sim.h"
#include "../child.h"

enum { TAG_WORK = 1, TAG_ANSWER = 2, MAX_WORKERS = 1024 };
enum { ORDER_LEAVE = 0, ORDER_WAIT = -1 }; /* 1, 2, 3.. are work */
/* a message of work: the order's number, id, kind, repeat, values */
enum { WORK_ORDER, WORK_ID, WORK_KIND, WORK_REPEAT, WORK_VALUES,
       WORK_WORDS = WORK_VALUES + SIM_KNOBS };

typedef struct farm_answer {
    int64_t order;               /* of the work it answers */
    double run_s;
    child_answer of;
} farm_answer;

typedef struct farm_options {
    uint32_t trials, batch;
    double silence_s, deadline_s, device_s, orphan_s;
    const char *log, *ledger, *pids;
} farm_options;

/* ------------------------------------------------------------- the device */

typedef struct farm_device {
    sim_device sim;
    double seconds;              /* that one measurement takes */
} farm_device;

static double footprint(const int64_t *v)
{
    return 4.0 * (double)(v[0] * v[2] + v[2] * v[1] + v[0] * v[1]);
}

/* 100 ms a setting. Its scratchpad is not checked: large tiles overrun it,
   which crashes, and the largest never comes back. */
static void device_measure(void *user, const int64_t *values,
                           child_answer *answer)
{
    const farm_device *d = (const farm_device *)user;
    usleep((useconds_t)(1e6 * d->seconds));
    if (footprint(values) > 120000)
        for (;;)
            pause();
    if (footprint(values) > 60000)
        raise(SIGSEGV);
    answer->status = METATUNE_OK;
    answer->value = sim_time(&d->sim, values);
}

/* ---------------------------------------------------------------- a worker */

/* One line a finished measurement: what the tests count. */
static void ledger_add(const char *path, const int64_t *work)
{
    char line[160];
    int fd, n = snprintf(line, sizeof line, "%" PRId64 " %" PRId64 " %" PRId64
                         " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                         work[WORK_KIND], work[WORK_REPEAT],
                         work[WORK_VALUES], work[WORK_VALUES + 1],
                         work[WORK_VALUES + 2], work[WORK_VALUES + 3]);
    if (!path || n <= 0)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        perror(path);
    if (fd >= 0)
        close(fd);
}

/* Wait without burning a core: MPI's own wait spins, and a measurement may be
   running on the next core. 0 when nothing came in that time. */
static int message_wait(int source, int tag, double seconds)
{
    double until = child_now() + seconds;
    int ready = 0;
    while (!ready && child_now() < until) {
        MPI_Iprobe(source, tag, MPI_COMM_WORLD, &ready, MPI_STATUS_IGNORE);
        if (!ready)
            usleep(500);
    }
    return ready;
}

static void work_forever(const farm_options *o, farm_device *device)
{
    int64_t work[WORK_WORDS];
    farm_answer answer;
    for (;;) {
        double start;
        if (!message_wait(0, TAG_WORK, o->orphan_s))
            MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Recv(work, WORK_WORDS, MPI_INT64_T, 0, TAG_WORK, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (work[WORK_ORDER] == ORDER_LEAVE)
            return;
        if (work[WORK_ORDER] == ORDER_WAIT)
            continue;
        memset(&answer, 0, sizeof answer);
        answer.order = work[WORK_ORDER];
        start = child_now();
        child_run(device_measure, device, work + WORK_VALUES, o->deadline_s,
                  &answer.of);
        answer.run_s = child_now() - start;
        if (answer.of.status != METATUNE_NOT_RUN)
            ledger_add(o->ledger, work);
        MPI_Send(&answer, (int)sizeof answer, MPI_BYTE, 0, TAG_ANSWER,
                 MPI_COMM_WORLD);
    }
}

/* ------------------------------------------------------------- the manager */

typedef struct farm_worker {
    int busy, lost;
    int64_t order;               /* of the last work it was given */
    double since;
    metatune_trial trial;        /* its values and digits are the tuner's */
} farm_worker;

typedef struct farm {
    const farm_options *o;
    const metatune_problem *problem;
    metatune_tuner *tuner;
    FILE *log;
    char *line;
    size_t line_bytes;
    farm_worker worker[MAX_WORKERS + 1]; /* by rank; 0 is not used */
    int n_workers, n_busy, n_lost;
    int64_t order;
    uint32_t measured, recalled, asked_again, late;
    double greeted;              /* when idle workers last heard of us */
    uint64_t tried;              /* of all results, in any order */
} farm;

/* The tuner hears of a result only when the log has it. */
static int record_write(farm *f, const metatune_trial *trial,
                        const metatune_result *r)
{
    metatune_record rec;
    size_t n = 0;
    memset(&rec, 0, sizeof rec);
    rec.kind = METATUNE_RECORD_TRIAL;
    rec.task.p = f->problem->task;
    rec.task.n = strlen(f->problem->task);
    rec.target.p = f->problem->target;
    rec.target.n = strlen(f->problem->target);
    rec.strategy.p = "metatune";
    rec.strategy.n = 8;
    rec.trial = trial->id;
    rec.batch = trial->batch;
    rec.trial_kind = trial->kind;
    rec.repeat = trial->repeat;
    rec.attempt = trial->attempt;
    rec.space = metatune_space_hash(f->problem->knobs, f->problem->n_knobs);
    rec.knobs = f->problem->knobs;
    rec.n_knobs = f->problem->n_knobs;
    rec.values = trial->values;
    rec.status = r->status;
    rec.value = r->status == METATUNE_OK ? r->value : 0;
    rec.run_s = r->run_s;
    rec.predicted = trial->predicted;
    rec.mean = trial->mean;
    rec.sigma = trial->sigma;
    rec.error.p = r->error;
    rec.error.n = r->error_bytes;
    if (metatune_record_memsize(&rec) > f->line_bytes) {
        free(f->line);
        f->line_bytes = metatune_record_memsize(&rec);
        f->line = (char *)malloc(f->line_bytes);
    }
    return !f->line ||
           metatune_record_encode(&rec, f->line, f->line_bytes, &n) ||
           fwrite(f->line, 1, n, f->log) != n || fflush(f->log);
}

static void tried_add(farm *f, const metatune_trial *trial)
{
    f->tried += metatune_encode_hash_u64(
        trial->hash, (uint64_t)trial->kind * 64 + trial->repeat);
}

/* What the log knows is told at once. 1 = it did. */
static int recall(farm *f, const metatune_trial *trial)
{
    const metatune_history_entry *e = NULL;
    metatune_result r;
    if (f->problem->history)
        e = metatune_history_find(f->problem->history, trial->hash,
                                  trial->kind, trial->repeat);
    if (!e)
        return 0;
    memset(&r, 0, sizeof r);
    r.status = e->status;
    r.value = e->value;
    r.run_s = e->run_s;
    metatune_tell(f->tuner, trial->id, &r);
    tried_add(f, trial);
    f->recalled++;
    return 1;
}

static void work_give(farm *f, int rank, const metatune_trial *trial)
{
    farm_worker *w = &f->worker[rank];
    int64_t work[WORK_WORDS];
    int i;
    w->trial = *trial;
    w->order = work[WORK_ORDER] = ++f->order;
    work[WORK_ID] = (int64_t)trial->id;
    work[WORK_KIND] = trial->kind;
    work[WORK_REPEAT] = trial->repeat;
    for (i = 0; i < SIM_KNOBS; i++)
        work[WORK_VALUES + i] = trial->values[i];
    w->since = child_now();
    w->busy = 1;
    f->n_busy++;
    MPI_Send(work, WORK_WORDS, MPI_INT64_T, rank, TAG_WORK, MPI_COMM_WORLD);
}

static int answer_take(farm *f, int rank, const farm_answer *a)
{
    farm_worker *w = &f->worker[rank];
    metatune_result r;
    if (w->lost) { /* it was only slow: welcome back, but its setting has
                      been given to somebody else */
        w->lost = 0;
        f->n_lost--;
        f->late++;
        return 0;
    }
    if (!w->busy || a->order != w->order)
        return 0;
    w->busy = 0;
    f->n_busy--;
    memset(&r, 0, sizeof r);
    r.status = a->of.status;
    r.value = a->of.value;
    r.run_s = a->run_s;
    if (a->of.text[0]) {
        r.error = a->of.text;
        r.error_bytes = strlen(a->of.text);
    }
    if (r.status != METATUNE_NOT_RUN) {
        f->measured++;
        tried_add(f, &w->trial);
        if (record_write(f, &w->trial, &r))
            return 1;
    }
    return metatune_tell(f->tuner, w->trial.id, &r) != METATUNE_OK;
}

/* Hand back what silent workers hold. */
static void silence_check(farm *f)
{
    metatune_result r;
    double now = child_now();
    int i;
    for (i = 1; i <= f->n_workers; i++) {
        farm_worker *w = &f->worker[i];
        if (!w->busy || now - w->since < f->o->silence_s)
            continue;
        w->busy = 0;
        w->lost = 1;
        f->n_busy--;
        f->n_lost++;
        f->asked_again++;
        memset(&r, 0, sizeof r);
        r.status = METATUNE_NOT_RUN;
        metatune_tell(f->tuner, w->trial.id, &r);
        fprintf(stderr, "farm: worker %d is silent; trial %" PRIu64
                " is asked again\n", i, w->trial.id);
    }
}

/* Idle workers have to know that somebody is there. */
static void idle_greet(farm *f)
{
    int64_t work[WORK_WORDS] = {ORDER_WAIT};
    int i;
    if (child_now() - f->greeted < f->o->orphan_s / 4)
        return;
    f->greeted = child_now();
    for (i = 1; i <= f->n_workers; i++)
        if (!f->worker[i].busy && !f->worker[i].lost)
            MPI_Send(work, WORK_WORDS, MPI_INT64_T, i, TAG_WORK,
                     MPI_COMM_WORLD);
}

/* 0, or 1 when the log cannot be written or nobody is left. */
static int manage(farm *f)
{
    for (;;) {
        metatune_trial trial;
        farm_answer a;
        MPI_Status from;
        size_t n;
        int i, ready = 0, idle = 1;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_ANSWER, MPI_COMM_WORLD, &ready, &from);
        if (ready) {
            MPI_Recv(&a, (int)sizeof a, MPI_BYTE, from.MPI_SOURCE, TAG_ANSWER,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (answer_take(f, from.MPI_SOURCE, &a))
                return 1;
            idle = 0;
        }
        silence_check(f);
        idle_greet(f);
        for (i = 1; i <= f->n_workers; i++) {
            if (f->worker[i].busy || f->worker[i].lost)
                continue;
            if (metatune_ask(f->tuner, &trial, 1, &n) || !n)
                break;           /* WAIT for others, or the end */
            if (!recall(f, &trial))
                work_give(f, i, &trial);
            idle = 0;
        }
        if (!f->n_busy && metatune_done(f->tuner) != METATUNE_OK)
            return 0;
        if (f->n_lost == f->n_workers) {
            fprintf(stderr, "farm: every worker is silent; run again with the "
                    "same --log to go on\n");
            return 1;
        }
        if (idle)
            usleep(500);
    }
}

/* The log of an earlier job as history, or NULL when there is none. */
static metatune_history *log_read(const char *path,
                                  const metatune_problem *problem)
{
    static metatune_history history;
    FILE *file = path ? fopen(path, "rb") : NULL;
    char *bytes = NULL;
    size_t n = 0, lines, need;
    long end;
    if (!file)
        return NULL;
    if (!fseek(file, 0, SEEK_END) && (end = ftell(file)) > 0 &&
        !fseek(file, 0, SEEK_SET) && (bytes = (char *)malloc((size_t)end)))
        n = fread(bytes, 1, (size_t)end, file);
    fclose(file);
    lines = n ? metatune_log_lines(bytes, n) : 0;
    need = metatune_history_memsize(lines);
    if (!lines ||
        metatune_history_init(&history, lines, malloc(need), need) ||
        metatune_history_read(&history, problem, bytes, n)) {
        free(bytes);
        return NULL;
    }
    free(bytes);
    return &history;
}

/* After a cut in the middle of a line the next begins on its own. */
static FILE *log_open(const char *path)
{
    FILE *file = path ? fopen(path, "a+b") : tmpfile();
    if (file && !fseek(file, -1, SEEK_END)) {
        int last = fgetc(file);
        fseek(file, 0, SEEK_END);
        if (last != '\n')
            fputc('\n', file);
    }
    return file;
}

static int manager(const farm_options *o, farm_device *device, int n_workers)
{
    static farm f;
    static metatune_tuner tuner;
    static const int64_t plain[SIM_KNOBS] = {8, 8, 8, 0};
    metatune_encode_device sheet = sim_sheet(&device->sim);
    metatune_config config;
    metatune_problem problem;
    metatune_best best;
    metatune_summary sum;
    metatune_error error;
    metatune_history *history;
    double start, elapsed, tuned;
    size_t bytes;
    int bad;
    memset(&config, 0, sizeof config);
    memset(&problem, 0, sizeof problem);
    config.trials = o->trials;
    config.batch = o->batch;
    config.seed = 4;
    config.draft = 128;          /* the space has 1029 settings: think less */
    config.chains = 16;
    config.moves = 25;
    problem.task = "matmul 128";
    problem.target = "simulated 100 ms device";
    problem.knobs = sim_knobs;
    problem.n_knobs = SIM_KNOBS;
    problem.default_values = plain;
    problem.device = &sheet;
    problem.user = device;
    problem.describe = sim_describe;
    history = log_read(o->log, &problem);
    problem.history = history;
    f.o = o;
    f.problem = &problem;
    f.tuner = &tuner;
    f.n_workers = n_workers;
    f.log = log_open(o->log);
    bytes = metatune_memsize(&config, &problem);
    if (!f.log || metatune_init(&tuner, &config, &problem, malloc(bytes),
                                bytes, &error)) {
        fprintf(stderr, "farm: no log or no tuner\n");
        return 2;
    }
    start = child_now();
    bad = manage(&f);
    elapsed = child_now() - start;
    fclose(f.log);
    metatune_summary_get(&tuner, &sum);
    if (bad || metatune_best_get(&tuner, &best) || !best.measured)
        return 1;
    tuned = best.value;
    printf("workers %d, measured %u, from the log %u, asked again %u, late %u, "
           "crashed %u, hung %u\n", n_workers, f.measured, f.recalled,
           f.asked_again, f.late, sum.by_status[METATUNE_RUNTIME],
           sum.by_status[METATUNE_TIMEOUT]);
    printf("seconds %.2f, settings a minute %.1f, tried %016" PRIx64 "\n\n",
           elapsed, 60 * f.measured / elapsed, f.tried);
    printf("%-12s %11s %11s %6s %7s\n", "task", "default ms", "tuned ms",
           "gain", "trials");
    printf("%-12s %11.4f %11.4f %5.2fx %7u\n", problem.task,
           1e3 * sim_time(&device->sim, plain), 1e3 * tuned,
           sim_time(&device->sim, plain) / tuned, sum.trials);
    fflush(stdout);
    return f.n_lost ? -1 : 0;
}

/* ------------------------------------------------------------------- main */

static int options_read(farm_options *o, int argc, char **argv)
{
    int i;
    for (i = 1; i + 1 < argc; i += 2) {
        const char *k = argv[i], *v = argv[i + 1];
        if (!strcmp(k, "--trials"))
            o->trials = (uint32_t)atoi(v);
        else if (!strcmp(k, "--batch"))
            o->batch = (uint32_t)atoi(v);
        else if (!strcmp(k, "--silence"))
            o->silence_s = atof(v);
        else if (!strcmp(k, "--deadline"))
            o->deadline_s = atof(v);
        else if (!strcmp(k, "--device"))
            o->device_s = atof(v);
        else if (!strcmp(k, "--orphan"))
            o->orphan_s = atof(v);
        else if (!strcmp(k, "--log"))
            o->log = v;
        else if (!strcmp(k, "--ledger"))
            o->ledger = v;
        else if (!strcmp(k, "--pids"))
            o->pids = v;
        else
            return 1;
    }
    return i < argc;
}

int main(int argc, char **argv)
{
    farm_options o = {64, 16, 2.0, 1.0, 0.1, 30.0, NULL, NULL, NULL};
    farm_device device = {{8, 32768, 0.5, 2.0, 128}, 0.1};
    int rank, size, i, rc = 0;
    int64_t leave[WORK_WORDS] = {ORDER_LEAVE};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (options_read(&o, argc, argv) || size < 2 || size > MAX_WORKERS + 1) {
        if (rank == 0)
            fprintf(stderr, "farm: wants 2 ranks or more; options --trials N "
                    "--batch N --silence S --deadline S --device S --orphan S "
                    "--log FILE --ledger FILE --pids FILE\n");
        MPI_Finalize();
        return 2;
    }
    device.seconds = o.device_s;
    if (o.pids) { /* who is who, for those who want to kill one */
        char path[512];
        FILE *file;
        snprintf(path, sizeof path, "%s.%d", o.pids, rank);
        file = fopen(path, "w");
        if (file) {
            fprintf(file, "%ld\n", (long)getpid());
            fclose(file);
        }
    }
    if (rank) {
        work_forever(&o, &device);
    } else {
        rc = manager(&o, &device, size - 1);
        if (rc < 0) /* somebody is gone: no orderly end to wait for */
            MPI_Abort(MPI_COMM_WORLD, 0);
        if (rc == 1)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (i = 1; i < size; i++)
            MPI_Send(leave, WORK_WORDS, MPI_INT64_T, i, TAG_WORK,
                     MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return rc;
}
