/* io_kernel_tuner.c - cache files of Kernel Tuner, whole or torn

   {"device_name": .., "kernel_name": .., "problem_size": ..,
    "tune_params_keys": [names], "tune_params": {..},
    "cache": {"16,1": {"block_size_x": 16, .., "time": 3.87, "times": [..],
                       "compile_time": 918.6, ..}, ...}}

   All times are milliseconds. A failure has a word instead of a time; old
   files have 1e20. An open cache (a run that was killed) ends after a comma,
   or anywhere: every whole entry is read. The task is kernel_name and
   problem_size, the target device_name. */
#include "io.h"

#include <stdlib.h>
#include <string.h>

typedef struct kt_reader {
    io_import *io;
    const json_value *names;
    cmd_text task;
    const json_value *device;
} kt_reader;

/* A word this does not know is a failure all the same. */
static void failure(const json_value *word, metatune_record *r)
{
    int status = io_status_foreign(word->text, word->n);
    r->status = status < 0 ? METATUNE_RUNTIME : (metatune_status)status;
    r->error.p = word->text;
    r->error.n = word->n;
}

static void entry(void *user, json_value *e)
{
    kt_reader *k = (kt_reader *)user;
    io_import *io = k->io;
    metatune_record r;
    cmd_text knobs, more, bools;
    const json_value *v, *name;
    memset(&r, 0, sizeof r);
    memset(&knobs, 0, sizeof knobs);
    memset(&more, 0, sizeof more);
    memset(&bools, 0, sizeof bools);
    if (!e)
        return;
    if (!json_is(e, JSON_OBJECT)) {
        io_bad(io, 1, "an entry of the cache is not an object");
        return;
    }
    for (name = k->names->child; name; name = name->next) {
        v = json_is(name, JSON_STRING) ? json_get(e, name->text) : NULL;
        if (!v) {
            io_bad(io, 1, "entry \"%s\" lacks a parameter", e->key);
            cmd_text_free(&knobs);
            cmd_text_free(&bools);
            return;
        }
        io_knob_add(&knobs, &bools, name->text, name->n, v);
    }
    cmd_text_add(&knobs, knobs.n ? "}" : "{}");
    v = json_get(e, "time");
    if (json_is(json_get(e, "__error__"), JSON_STRING))
        v = json_get(e, "__error__");
    if (json_is(v, JSON_STRING)) {
        failure(v, &r);
    } else if (!io_json_scaled(v, -3, &r.value)) {
        r.status = METATUNE_INVALID_TIME;
        r.error = io_text("no time");
    } else if (r.value >= 1e17) {
        r.status = METATUNE_RUNTIME;
        r.error = io_text("time 1e20, an old mark of failure");
    }
    v = json_get(e, "times");
    for (v = json_is(v, JSON_ARRAY) ? v->child : NULL;
         v && r.status == METATUNE_OK &&
         r.n_samples < METATUNE_RECORD_SAMPLES; v = v->next)
        if (io_json_scaled(v, -3, &r.samples[r.n_samples]))
            r.n_samples++;
    io_json_scaled(json_get(e, "compile_time"), -3, &r.build_s);
    io_json_scaled(json_get(e, "benchmark_time"), -3, &r.run_s);
    io_json_scaled(json_get(e, "strategy_time"), -3, &r.think_s);
    if (bools.n)
        cmd_text_add(&more, ",\"bools\":[%s]", bools.p);
    v = json_get(e, "timestamp");
    if (json_is(v, JSON_STRING)) {
        cmd_text_add(&more, ",\"timestamp\":");
        json_write_text(&more, v->text, v->n);
    }
    r.unknown.p = more.p;
    r.unknown.n = more.n;
    r.knobs_json.p = knobs.p;
    r.knobs_json.n = knobs.n;
    r.task.p = k->task.p;
    r.task.n = k->task.n;
    if (json_is(k->device, JSON_STRING)) {
        r.target.p = k->device->text;
        r.target.n = k->device->n;
    }
    io_emit(io, &r);
    cmd_text_free(&knobs);
    cmd_text_free(&more);
    cmd_text_free(&bools);
}

static void task_key(kt_reader *k, const json_value *kernel,
                     const json_value *size)
{
    const json_value *c;
    if (json_is(kernel, JSON_STRING))
        cmd_text_bytes(&k->task, kernel->text, kernel->n);
    else
        cmd_text_add(&k->task, "kernel");
    for (c = json_is(size, JSON_ARRAY) ? size->child : size; c; c = c->next) {
        cmd_text_add(&k->task, ",");
        if (json_is(c, JSON_STRING))
            cmd_text_bytes(&k->task, c->text, c->n);
        else
            json_write(&k->task, c);
        if (!json_is(size, JSON_ARRAY))
            break;
    }
}

int io_kernel_tuner_read(io_import *io, const char *s, size_t n)
{
    kt_reader k;
    const json_value *kernel = NULL, *size = NULL;
    const char *why = "it ends too early";
    size_t i = 0, n_key = 0;
    int found = 0;
    memset(&k, 0, sizeof k);
    k.io = io;
    io->format = "kernel_tuner";
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0)
        i = 3;
    json_space(s, n, &i);
    if (i >= n || s[i] != '{') {
        io_bad(io, 0, "not a JSON object");
        return 0;
    }
    i++;
    for (;;) {
        const char *key = NULL;
        json_value *v;
        json_space(s, n, &i);
        if (i < n && s[i] == '}')
            break;
        if (!json_key(&io->pool, s, n, &i, &key, &n_key)) {
            io->torn = 1;
            break;
        }
        json_space(s, n, &i);
        if (strcmp(key, "cache") == 0 && i < n && s[i] == '{') {
            if (!json_is(k.names, JSON_ARRAY)) {
                io_bad(io, 0, "no tune_params_keys before the cache");
                break;
            }
            found = 1;
            if (!k.task.n)
                task_key(&k, kernel, size);
            i++;
            io_items(io, s, n, &i, '}', '"', entry, &k);
        } else {
            v = json_parse(&io->pool, s, n, &i, &why);
            if (!v) {
                io_bad(io, 0, "%s", why);
                io->torn = 1;
                break;
            }
            if (strcmp(key, "tune_params_keys") == 0)
                k.names = v;
            else if (strcmp(key, "kernel_name") == 0)
                kernel = v;
            else if (strcmp(key, "problem_size") == 0)
                size = v;
            else if (strcmp(key, "device_name") == 0)
                k.device = v;
        }
        json_space(s, n, &i);
        if (i < n && s[i] == ',') {
            i++;
        } else if (i >= n || s[i] != '}') {
            io->torn = 1;
            break;
        }
    }
    cmd_text_free(&k.task);
    if (!found)
        io_bad(io, 0, "no cache in it");
    return found;
}
