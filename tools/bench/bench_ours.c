/* bench_ours.c - see bench_ours.h

   With several threads the caller is part 0; the helpers sleep between
   samples and spin within one, as a phase lasts microseconds. */
#define _GNU_SOURCE

#include "bench_ours.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARTS = 8, SPINS = 20000 };

/* ---------------------------------------------------------------- logs */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct files {
    char **path;
    size_t n;
} files;

static void files_add(files *f, char *path)
{
    f->path = (char **)cmd_realloc(f->path, (f->n + 1) * sizeof *f->path);
    f->path[f->n++] = path;
}

/* Folders become the .jsonl files in them, sorted. */
static files files_of(char *const *paths, size_t n)
{
    files f = {NULL, 0};
    size_t i;
    for (i = 0; i < n; i++) {
        DIR *folder = opendir(paths[i]);
        const struct dirent *d;
        while (folder && (d = readdir(folder)) != NULL) {
            size_t m = strlen(d->d_name);
            if (m > 6 && strcmp(d->d_name + m - 6, ".jsonl") == 0)
                files_add(&f, cmd_format("%s/%s", paths[i], d->d_name));
        }
        if (folder)
            closedir(folder);
        else
            files_add(&f, cmd_format("%s", paths[i]));
    }
    qsort(f.path, f.n, sizeof *f.path, by_text);
    return f;
}

static void files_free(files *f)
{
    size_t i;
    for (i = 0; i < f->n; i++)
        free(f->path[i]);
    free(f->path);
}

int bench_ours_read(export_table *table, char *const *paths, size_t n,
                    const char *target)
{
    files f = files_of(paths, n);
    int st = export_table_read(table, "bench_conv", f.n, f.path, target, 0);
    files_free(&f);
    return st;
}

int bench_ours_hold(char *const *paths, size_t n, const char *target)
{
    files f = files_of(paths, n);
    size_t i, bytes, pos, m = strlen(target);
    int found = 0;
    for (i = 0; i < f.n && !found; i++) {
        char *text = cmd_file_read(f.path[i], &bytes);
        metatune_record r;
        metatune_status st = METATUNE_OK;
        for (pos = 0; text && !found && st != METATUNE_NOT_FOUND;) {
            st = metatune_log_next(text, bytes, &pos, &r);
            /* keys hold no character that JSON escapes */
            found = st == METATUNE_OK && r.kind == METATUNE_RECORD_TRIAL &&
                    r.status == METATUNE_OK && r.target.n == m &&
                    memcmp(r.target.p, target, m) == 0;
        }
        free(text);
    }
    files_free(&f);
    return found;
}

/* The row's values in the kernel's own knobs: 1, or 0 when it has others. */
static int values_of(const host_kernel *kernel,
                     const metatune_lookup_table *table, const int64_t *row,
                     int64_t *values)
{
    uint32_t i, j, k;
    for (i = 0; i < HOST_KNOBS; i++) {
        const host_knob *knob = &kernel->knob[i];
        const char *label;
        for (k = 0; k < table->n_knobs; k++)
            if (strcmp(table->knobs[k].name, knob->name) == 0)
                break;
        if (k == table->n_knobs)
            return 0;
        label = metatune_lookup_label(table, k, row[k]);
        for (j = 0; j < knob->n_values; j++)
            if (label ? knob->labels && strcmp(knob->labels[j], label) == 0
                      : knob->values[j] == row[k])
                break;
        if (j == knob->n_values)
            return 0;
        values[i] = knob->values[j];
    }
    return host_kernel_valid(kernel, values);
}

/* -------------------------------------------------------------- threads */

typedef struct work {
    host_layer layer;            /* its kernel only */
    int64_t values[HOST_KNOBS];
    int outer[HOST_OUTER];
    void *library;
    host_entry_fn call;
    char *in, *w, *out, *work;
    size_t out_bytes;
    int32_t phases;
    int parts;
    pthread_t thread[PARTS];
    int n_threads;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int awake, stop;             /* both under the lock, and read without */
    int phase;                   /* written before `turn` counts up */
    int turn, done;              /* jobs given out; parts that finished */
} work;

typedef struct helper {
    work *w;
    int part;
} helper;

static int look(const int *x)
{
    return __atomic_load_n(x, __ATOMIC_ACQUIRE);
}

static void pause_a_bit(long *spins)
{
    if (++*spins > SPINS) {
        sched_yield();
        *spins = 0;
    }
}

static void *help(void *arg)
{
    helper h = *(helper *)arg;
    work *w = h.w;
    int turn = 0;
    long spins = 0;
    free(arg);
    for (;;) {
        while (look(&w->turn) == turn) {
            if (!look(&w->awake)) {
                pthread_mutex_lock(&w->lock);
                while (!w->awake && !w->stop)
                    pthread_cond_wait(&w->wake, &w->lock);
                pthread_mutex_unlock(&w->lock);
                if (look(&w->stop))
                    return NULL;
            }
            pause_a_bit(&spins);
        }
        turn++;
        w->call(w->in, w->w, w->out, w->work, w->outer, w->phase, h.part,
                w->parts);
        __atomic_add_fetch(&w->done, 1, __ATOMIC_RELEASE);
    }
}

/* A helper that is woken may be put on its waker's core, and stay there, the
   two taking turns, for longer than a sample. */
static void helpers_part(const work *w)
{
    int n = (int)sysconf(_SC_NPROCESSORS_ONLN), mine = sched_getcpu(), i;
    cpu_set_t others;
    CPU_ZERO(&others);
    for (i = 0; i < n && i < CPU_SETSIZE; i++)
        if (i != mine)
            CPU_SET(i, &others);
    for (i = 0; mine >= 0 && n > 1 && i < w->n_threads; i++)
        (void)pthread_setaffinity_np(w->thread[i], sizeof others, &others);
}

static void awake_set(work *w, int awake, int stop)
{
    if (awake)
        helpers_part(w);
    pthread_mutex_lock(&w->lock);
    __atomic_store_n(&w->stop, stop, __ATOMIC_RELEASE);
    __atomic_store_n(&w->awake, awake, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

static int threads_open(work *w)
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    while (w->n_threads < w->parts - 1) {
        helper *h = (helper *)bench_alloc(sizeof *h);
        h->w = w;
        h->part = w->n_threads + 1;
        if (pthread_create(&w->thread[w->n_threads], NULL, help, h) != 0) {
            free(h);
            return 0;
        }
        w->n_threads++;
    }
    return 1;
}

/* -------------------------------------------------------------- an entry */

static void work_run(void *state)
{
    work *w = (work *)state;
    long spins = 0;
    int32_t p;
    if (w->parts == 1) {
        w->call(w->in, w->w, w->out, w->work, w->outer, -1, 0, 1);
        return;
    }
    for (p = 0; p < w->phases; p++) {
        w->phase = p;
        w->done = 0;
        __atomic_add_fetch(&w->turn, 1, __ATOMIC_RELEASE);
        w->call(w->in, w->w, w->out, w->work, w->outer, p, 0, w->parts);
        while (look(&w->done) != w->parts - 1)
            pause_a_bit(&spins);
    }
}

static void work_before(void *state)
{
    awake_set((work *)state, 1, 0);
}

static void work_after(void *state)
{
    awake_set((work *)state, 0, 0);
}

static void work_poison(void *state)
{
    work *w = (work *)state;
    memset(w->out, 0xff, w->out_bytes); /* NaN */
}

static void work_output(void *state, float *nchw)
{
    const work *w = (const work *)state;
    host_kernel_unpack_out(&w->layer.kernel, w->out, nchw);
}

static void work_close(void *state)
{
    work *w = (work *)state;
    int i;
    if (w->parts > 1) {
        awake_set(w, 0, 1);
        for (i = 0; i < w->n_threads; i++)
            pthread_join(w->thread[i], NULL);
        pthread_cond_destroy(&w->wake);
        pthread_mutex_destroy(&w->lock);
    }
    if (w->library)
        dlclose(w->library);
    free(w->in);
    free(w->w);
    free(w->out);
    free(w->work);
    free(w);
}

static int library_open(host_run *run, work *w, const char *name)
{
    char so[1024];
    host_result result;
    void *symbol = NULL;
    memset(&result, 0, sizeof result);
    if (host_run_library(run, &w->layer, w->values, so, sizeof so,
                         &result) == METATUNE_OK)
        w->library = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (w->library)
        symbol = dlsym(w->library, HOST_ENTRY_POINT);
    if (!symbol) {
        fprintf(stderr, "bench_conv: error: %s: the winner does not build: "
                "%s\n", name, result.error);
        return 0;
    }
    memcpy(&w->call, &symbol, sizeof symbol);
    return 1;
}

static metatune_encode_conv2d in_layout(const host_run *run,
                                        const metatune_encode_conv2d *conv,
                                        int32_t layout)
{
    metatune_encode_conv2d v = *conv;
    v.layout = layout;
    v.block = layout == METATUNE_NCHWC ? run->platform.march.lanes : 0;
    return v;
}

/* The row's values, or NULL. */
static const int64_t *row_find(const export_table *table,
                               const metatune_encode_conv2d *conv)
{
    metatune_lookup_result found;
    return metatune_lookup_find(&table->table, table->table.target, conv,
                                NULL, NULL, 0, &found) == METATUNE_OK &&
                   found.which == METATUNE_LOOKUP_EXACT
               ? found.values : NULL;
}

int bench_ours_has(const host_run *run, const export_table *table,
                   const metatune_encode_conv2d *conv, int32_t layout)
{
    metatune_encode_conv2d v = in_layout(run, conv, layout);
    return row_find(table, &v) != NULL;
}

/* The layer's setting into w->values; an outcome like bench_ours_open's. */
static int setting_find(work *w, const export_table *table,
                        const bench_case *c)
{
    const host_kernel *kernel = &w->layer.kernel;
    const int64_t *row;
    if (!table) {
        host_kernel_default(kernel, w->values);
        return BENCH_OURS_OPEN;
    }
    row = row_find(table, &kernel->conv);
    if (!row)
        return BENCH_OURS_NONE;
    if (values_of(kernel, &table->table, row, w->values))
        return BENCH_OURS_OPEN;
    fprintf(stderr, "bench_conv: error: %s: the log's winner is not of "
            "today's space; tune it again (FRESH=1)\n", c->name);
    return BENCH_OURS_BAD;
}

/* Data and weights as the setting wants them. */
static void tensors_open(work *w, const bench_case *c)
{
    const host_kernel *kernel = &w->layer.kernel;
    size_t work_bytes = host_kernel_work_size(kernel, w->values);
    w->out_bytes = host_kernel_out_size(kernel);
    w->in = (char *)bench_alloc(host_kernel_in_size(kernel));
    w->out = (char *)bench_alloc(w->out_bytes);
    w->w = (char *)bench_alloc(host_kernel_weight_size(kernel, w->values));
    w->work = work_bytes ? (char *)bench_alloc(work_bytes) : NULL;
    host_kernel_pack_in(kernel, c->in, w->in);
    host_kernel_pack_weight(kernel, w->values, c->w, w->w);
    host_kernel_outer(kernel, w->values, w->outer);
    w->phases = host_kernel_phases(kernel, w->values);
}

int bench_ours_open(host_run *run, const export_table *table,
                    const bench_case *c, int32_t layout, int parts,
                    bench_entry *e, bench_winner *winner)
{
    metatune_encode_conv2d conv = in_layout(run, &c->conv, layout);
    char why[256] = "";
    work *w = (work *)bench_alloc(sizeof *w);
    int st = BENCH_OURS_BAD;
    w->parts = 1;                /* until there are threads to close */
    if (parts > PARTS ||
        host_kernel_init(&w->layer.kernel, &conv, &run->platform.march, why,
                         sizeof why) != METATUNE_OK) {
        fprintf(stderr, "bench_conv: error: %s: %s\n", c->name, why);
        work_close(w);
        return BENCH_OURS_BAD;
    }
    st = setting_find(w, table, c);
    if (st == BENCH_OURS_OPEN && !library_open(run, w, c->name))
        st = BENCH_OURS_BAD;
    if (st != BENCH_OURS_OPEN) {
        work_close(w);
        return st;
    }
    tensors_open(w, c);
    w->parts = parts;
    if (parts > 1 && !threads_open(w)) {
        fprintf(stderr, "bench_conv: error: no thread: %s\n",
                strerror(errno));
        work_close(w);
        return BENCH_OURS_BAD;
    }
    memcpy(winner->values, w->values, sizeof winner->values);
    winner->algorithm =
        host_algorithm_name((int32_t)w->values[HOST_KNOB_ALGORITHM]);
    memset(e, 0, sizeof *e);
    snprintf(e->label, sizeof e->label, "%s", winner->algorithm);
    e->state = w;
    e->run = work_run;
    e->poison = work_poison;
    e->output = work_output;
    e->close = work_close;
    if (parts > 1) {
        e->before = work_before;
        e->after = work_after;
    }
    return BENCH_OURS_OPEN;
}
