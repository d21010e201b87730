/* io_autotvm.c - AutoTVM log lines, version 0.2

   {"input": [target, task, args, kwargs],
    "config": {"index": N, "code_hash": null, "entity": [[name, kind, x]...]},
    "result": [[cost_s...], error_no, all_cost_s, timestamp],
    "version": 0.2, "tvm_version": "..."}

   Entities become knobs:
     sp  factors of a split: the leading -1 ("whatever is left") is dropped;
         one factor left is the knob NAME, several are NAME.1, NAME.2...
     re  an order: the label "0,2,1"     an  annotations: "none,unroll"
     ot  any value: a number, a label; true and false become 1 and 0
   error_no is the only word on success: a failed line's cost (1e9) is no time,
   and neither is a cost of 1e9 with error_no 0. The value is the mean of the
   costs, as AutoTVM has it. A conv2d workload becomes our task key when it can
   be said in it, so that `metatune lookup` finds it.

   The line's own input, entities and rest are kept in an unknown field
   "autotvm", from which the exporter writes them again. Records of other
   origin are written with target "llvm", task "metatune" and ot entities. */
#include "io.h"

#include <stdlib.h>
#include <string.h>

static const char *const error_names[] = {
    "NO_ERROR", "INSTANTIATION_ERROR", "COMPILE_HOST", "COMPILE_DEVICE",
    "RUNTIME_DEVICE", "WRONG_ANSWER", "BUILD_TIMEOUT", "RUN_TIMEOUT",
    "UNKNOWN_ERROR"
};
static const metatune_status error_status[] = {
    METATUNE_OK, METATUNE_CONSTRAINT, METATUNE_COMPILE, METATUNE_COMPILE,
    METATUNE_RUNTIME, METATUNE_WRONG, METATUNE_TIMEOUT, METATUNE_TIMEOUT,
    METATUNE_RUNTIME
};
enum { N_ERRORS = sizeof error_names / sizeof error_names[0] };

/* ------------------------------------------------------------- entity */

static void knob_label(cmd_text *knobs, const json_value *name,
                       const json_value *list)
{
    const json_value *c;
    cmd_text label;
    memset(&label, 0, sizeof label);
    for (c = list->child; c; c = c->next) {
        if (json_is(c, JSON_STRING))
            cmd_text_bytes(&label, c->text, c->n);
        else
            json_write(&label, c);
        if (c->next)
            cmd_text_add(&label, ",");
    }
    cmd_text_add(knobs, knobs->n ? "," : "{");
    json_write_text(knobs, name->text, name->n);
    cmd_text_add(knobs, ":");
    json_write_text(knobs, label.n ? label.p : "", label.n);
    cmd_text_free(&label);
}

static void knob_split(cmd_text *knobs, cmd_text *bools,
                       const json_value *name, const json_value *list)
{
    const json_value *c = list->child;
    size_t i = 0, n = list->n;
    int64_t x = 0;
    if (c && json_i64(c, &x) && x == -1) {
        c = c->next;
        n--;
        i = 1;
    }
    for (; c; c = c->next, i++) {
        char *key = n == 1 ? cmd_format("%s", name->text)
                           : cmd_format("%s.%zu", name->text, i);
        io_knob_add(knobs, bools, key, strlen(key), c);
        free(key);
    }
}

/* {"knob":value,...} of an entity list; 0 when it is not one. */
static int entity_knobs(const json_value *entity, cmd_text *knobs)
{
    const json_value *e;
    cmd_text bools;
    int good = json_is(entity, JSON_ARRAY);
    memset(&bools, 0, sizeof bools);
    for (e = good ? entity->child : NULL; e && good; e = e->next) {
        const json_value *name = json_at(e, 0), *kind = json_at(e, 1);
        const json_value *x = json_at(e, 2);
        if (!json_is(name, JSON_STRING) || !x)
            good = 0;
        else if (json_says(kind, "sp") && json_is(x, JSON_ARRAY))
            knob_split(knobs, &bools, name, x);
        else if ((json_says(kind, "re") || json_says(kind, "an")) &&
                 json_is(x, JSON_ARRAY))
            knob_label(knobs, name, x);
        else if (json_says(kind, "ot"))
            io_knob_add(knobs, &bools, name->text, name->n, x);
        else
            good = 0;
    }
    cmd_text_add(knobs, knobs->n ? "}" : "{}");
    cmd_text_free(&bools);
    return good;
}

/* --------------------------------------------------------------- task */

/* Integers of a list, exactly n of them in 0..2^30. */
static int ints(const json_value *v, size_t n, int32_t *out)
{
    const json_value *c;
    size_t i = 0;
    int64_t x = 0;
    if (!json_is(v, JSON_ARRAY) || v->n != n)
        return 0;
    for (c = v->child; c; c = c->next) {
        if (!json_i64(c, &x) || x < 0 || x > 1 << 30)
            return 0;
        out[i++] = (int32_t)x;
    }
    return 1;
}

static int tensor(const json_value *v, int32_t *dims)
{
    return json_says(json_at(v, 0), "TENSOR") && ints(json_at(v, 1), 4, dims) &&
           json_says(json_at(v, 2), "float32");
}

/* The task key of a plain conv2d; 0 for anything else. */
static size_t conv_key(const json_value *name, const json_value *args,
                       char *buf, size_t cap)
{
    metatune_encode_conv2d conv;
    int32_t in[4], w[4], stride[2], pad[4], dil[2];
    const json_value *layout = json_at(args, 5);
    if (!json_is(name, JSON_STRING) || strncmp(name->text, "conv2d_", 7) != 0 ||
        !tensor(json_at(args, 0), in) || !tensor(json_at(args, 1), w) ||
        !ints(json_at(args, 2), 2, stride) || !ints(json_at(args, 4), 2, dil) ||
        !json_says(layout, "NCHW"))
        return 0;
    if (ints(json_at(args, 3), 2, pad)) { /* top and left stand for both */
        pad[2] = pad[0];
        pad[3] = pad[1];
    } else if (!ints(json_at(args, 3), 4, pad)) {
        return 0;
    }
    conv = metatune_encode_conv2d_make(in[0], in[1], in[2], in[3], w[0], w[2],
                                       w[3], 1, 0);
    if (w[1] != in[1])
        return 0;
    conv.stride_h = stride[0];
    conv.stride_w = stride[1];
    conv.pad_top = pad[0];
    conv.pad_left = pad[1];
    conv.pad_bottom = pad[2];
    conv.pad_right = pad[3];
    conv.dil_h = dil[0];
    conv.dil_w = dil[1];
    if (metatune_encode_conv2d_check(&conv, NULL) != METATUNE_OK)
        return 0;
    return metatune_encode_conv2d_spec(&conv, buf, cap);
}

/* ------------------------------------------------------------- import */

static void member(cmd_text *t, const char *name, const json_value *v)
{
    if (!v)
        return;
    cmd_text_add(t, "%s\"%s\":", t->n ? "," : ",\"autotvm\":{", name);
    json_write(t, v);
}

static void result_read(const json_value *result, metatune_record *r)
{
    const json_value *costs = json_at(result, 0), *c;
    int64_t error_no = -1;
    double sum = 0.0, cost;
    size_t n = 0, bad = 0;
    json_i64(json_at(result, 1), &error_no);
    json_double(json_at(result, 2), &r->run_s);
    if (error_no != 0) {
        r->status = error_no > 0 && error_no < N_ERRORS
                        ? error_status[error_no] : METATUNE_RUNTIME;
        return;
    }
    for (c = json_is(costs, JSON_ARRAY) ? costs->child : NULL; c;
         c = c->next) {
        if (!json_double(c, &cost) || !(cost > 0.0 && cost < 1e9)) {
            bad++;
            continue;
        }
        sum += cost;
        if (n++ < METATUNE_RECORD_SAMPLES)
            r->samples[r->n_samples++] = cost;
    }
    if (bad || n == 0) { /* 1e9 marks a failure, whatever error_no says */
        r->status = METATUNE_INVALID_TIME;
        r->n_samples = 0;
        return;
    }
    r->value = n == 1 ? r->samples[0] : sum / (double)n;
    if (n == 1)
        r->n_samples = 0;
}

static int line_read(io_import *io, const char *s, size_t n, size_t at)
{
    const char *why = "?";
    const json_value *v, *input, *config, *result, *extra, *entity, *args;
    const json_value *name, *target;
    metatune_record r;
    cmd_text knobs, mine;
    char key[512], error[64], *task = NULL;
    int64_t error_no = 0;
    double version = 0.0;
    int status = -1, native, good;
    memset(&r, 0, sizeof r);
    memset(&knobs, 0, sizeof knobs);
    memset(&mine, 0, sizeof mine);
    v = json_read(&io->pool, s, n, &why);
    input = json_get(v, "input");
    config = json_get(v, "config");
    result = json_get(v, "result");
    entity = json_get(config, "entity");
    if (!v || !json_is(input, JSON_ARRAY) || input->n < 2 ||
        !json_is(result, JSON_ARRAY) || result->n < 2) {
        io_bad(io, 1, "line %zu: %s", at, v ? "not an AutoTVM record" : why);
        return 0;
    }
    if (!json_double(json_get(v, "version"), &version) ||
        !(version > 0.15 && version < 0.25)) {
        io_bad(io, 1, "line %zu: AutoTVM log version is not 0.2", at);
        return 0;
    }
    if (!entity_knobs(entity, &knobs)) {
        io_bad(io, 1, "line %zu: entities are not sp, re, an or ot", at);
        cmd_text_free(&knobs);
        return 0;
    }
    target = json_at(input, 0);
    name = json_at(input, 1);
    args = json_at(input, 2);
    native = json_says(name, "metatune");
    r.knobs_json.p = knobs.p;
    r.knobs_json.n = knobs.n;
    result_read(result, &r);
    json_i64(json_at(result, 1), &error_no);
    if (!native) {
        member(&mine, "input", input);
        member(&mine, "index", json_get(config, "index"));
        member(&mine, "entity", entity);
        if (r.status != METATUNE_OK)
            member(&mine, "error_no", json_at(result, 1));
        member(&mine, "all_cost", json_at(result, 2));
        member(&mine, "timestamp", json_at(result, 3));
        member(&mine, "tvm_version", json_get(v, "tvm_version"));
        cmd_text_add(&mine, "}");
    }
    extra = json_get(v, "metatune");
    if (extra) {
        metatune_status said = r.status;
        r.run_s = 0.0;
        io_extra_read(io, extra, &r, &status);
        /* the finer word counts only where AutoTVM's does not deny it */
        if (said != METATUNE_OK && status > METATUNE_OK)
            r.status = (metatune_status)status;
    } else if (r.status != METATUNE_OK) {
        snprintf(error, sizeof error, "AutoTVM error_no %lld (%s)",
                 (long long)error_no, error_no >= 0 && error_no < N_ERRORS
                     ? error_names[error_no] : "unknown");
        r.error = io_text(error);
    }
    if (mine.n && r.unknown.n)
        cmd_text_bytes(&mine, r.unknown.p, r.unknown.n);
    if (mine.n) {
        r.unknown.p = mine.p;
        r.unknown.n = mine.n;
    }
    if (!r.target.n && json_is(target, JSON_STRING)) {
        r.target.p = target->text;
        r.target.n = target->n;
    }
    if (!r.task.n) {
        size_t n_key = conv_key(name, args, key, sizeof key);
        if (n_key) {
            r.task.p = key;
            r.task.n = n_key;
        } else {
            cmd_text t;
            memset(&t, 0, sizeof t);
            if (json_is(name, JSON_STRING))
                cmd_text_bytes(&t, name->text, name->n);
            cmd_text_add(&t, ":");
            if (args)
                json_write(&t, args);
            task = t.p;
            r.task.p = t.p;
            r.task.n = t.n;
        }
    }
    good = io_emit(io, &r);
    cmd_text_free(&knobs);
    cmd_text_free(&mine);
    free(task);
    return good;
}

/* A line of ours that AutoTVM takes for a comment: "# metatune {...}". */
static int comment(io_import *io, const char *s, size_t n)
{
    static const char head[] = "# metatune ";
    if (n < sizeof head || memcmp(s, head, sizeof head - 1) != 0)
        return 0;
    return io_emit_line(io, s + sizeof head - 1, n - (sizeof head - 1));
}

int io_autotvm_read(io_import *io, const char *s, size_t n)
{
    size_t i = 0, at = 0;
    io->format = "autotvm";
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0)
        i = 3;
    while (i < n) {
        const char *end = (const char *)memchr(s + i, '\n', n - i);
        size_t from = i, to = end ? (size_t)(end - s) : n;
        i = to + 1;
        at++;
        while (to > from && (s[to - 1] == '\r' || s[to - 1] == ' '))
            to--;
        while (from < to && (s[from] == ' ' || s[from] == '\t'))
            from++;
        if (from == to || s[from] == '#') {
            if (from == to || !comment(io, s + from, to - from))
                io->n_skipped++;
            continue;
        }
        json_pool_reset(&io->pool);
        if (!line_read(io, s + from, to - from, at) && !end)
            io->torn = 1;
    }
    return io->n_lines > 0 || io->n_bad == 0;
}

/* ------------------------------------------------------------- export */

static void entity_write(cmd_text *t, json_pool *pool,
                         const metatune_record *r)
{
    const char *why;
    const json_value *c, *knobs;
    cmd_text text;
    memset(&text, 0, sizeof text);
    io_knobs_write(&text, pool, r);
    knobs = json_read(pool, text.p, text.n, &why);
    cmd_text_add(t, "[");
    for (c = knobs ? knobs->child : NULL; c; c = c->next) {
        cmd_text_add(t, "[");
        json_write_text(t, c->key, c->n_key);
        cmd_text_add(t, ", \"ot\", ");
        json_write(t, c);
        cmd_text_add(t, c->next ? "], " : "]");
    }
    cmd_text_add(t, "]");
    cmd_text_free(&text);
}

/* The "autotvm" field of an imported record, if its entities still say what
   the knobs do. */
static const json_value *original(json_pool *pool, const metatune_record *r)
{
    const json_value *a = json_get(io_unknown(pool, r), "autotvm");
    cmd_text knobs;
    int same;
    memset(&knobs, 0, sizeof knobs);
    if (!json_is(json_get(a, "input"), JSON_ARRAY))
        return NULL;
    same = entity_knobs(json_get(a, "entity"), &knobs) &&
           knobs.n == r->knobs_json.n &&
           memcmp(knobs.p, r->knobs_json.p, knobs.n) == 0;
    cmd_text_free(&knobs);
    return same ? a : NULL;
}

static void costs_write(cmd_text *t, const metatune_record *r, int *samples)
{
    double sum = 0.0;
    uint32_t i;
    /* AutoTVM's reader takes the mean, and it must be the value */
    for (i = 0; i < r->n_samples; i++)
        sum += r->samples[i];
    sum = r->n_samples ? sum / (double)r->n_samples : 0.0;
    *samples = r->n_samples > 1 && sum <= r->value && sum >= r->value;
    cmd_text_add(t, "[");
    for (i = 0; i < r->n_samples && *samples; i++) {
        if (i)
            cmd_text_add(t, ", ");
        io_number_add(t, r->samples[i], 0);
    }
    if (!*samples)
        io_number_add(t, r->value, 0);
    cmd_text_add(t, "]");
}

static int error_of(const metatune_record *r, const json_value *a)
{
    int64_t kept = 0;
    int i;
    if (r->status == METATUNE_OK)
        return 0;
    if (json_i64(json_get(a, "error_no"), &kept) && kept >= 0 && kept < 100)
        return (int)kept;
    if (r->status == METATUNE_COMPILE)
        return 2;
    if (r->status == METATUNE_TIMEOUT)
        return 7;
    for (i = 1; i < N_ERRORS; i++)
        if (error_status[i] == r->status)
            return i;
    return N_ERRORS - 1;
}

static void or_default(cmd_text *t, const json_value *v, const char *otherwise)
{
    if (v)
        json_write(t, v);
    else
        cmd_text_add(t, "%s", otherwise);
}

int io_autotvm_write(io_export *x, io_logs *logs, cmd_text *t)
{
    metatune_record r;
    metatune_text line;
    json_pool pool;
    memset(&pool, 0, sizeof pool);
    while (io_logs_next(logs, &r, &line)) {
        const json_value *a;
        int samples = 0, e;
        if (!io_wanted(x, &r))
            continue;
        if (!io_is_result(&r)) {
            cmd_text_add(t, "# metatune ");
            cmd_text_bytes(t, line.p, line.n);
            cmd_text_add(t, "\n");
            continue;
        }
        if (r.unit != METATUNE_SECONDS) {
            x->n_unit++; /* costs are seconds */
            continue;
        }
        json_pool_reset(&pool);
        a = original(&pool, &r);
        e = error_of(&r, a);
        cmd_text_add(t, "{\"input\": ");
        if (a) {
            json_write(t, json_get(a, "input"));
        } else {
            cmd_text_add(t, "[\"llvm\", \"metatune\", [\"");
            cmd_text_bytes(t, r.task.p, r.task.n);
            cmd_text_add(t, "\"], {}]");
        }
        cmd_text_add(t, ", \"config\": {\"index\": ");
        if (json_get(a, "index"))
            json_write(t, json_get(a, "index"));
        else
            cmd_text_add(t, "%llu", (unsigned long long)r.trial);
        cmd_text_add(t, ", \"code_hash\": null, \"entity\": ");
        if (a)
            json_write(t, json_get(a, "entity"));
        else
            entity_write(t, &pool, &r);
        cmd_text_add(t, "}, \"result\": [");
        if (r.status != METATUNE_OK)
            cmd_text_add(t, "[1000000000.0]"); /* the format's own mark */
        else
            costs_write(t, &r, &samples);
        cmd_text_add(t, ", %d, ", e);
        if (json_get(a, "all_cost"))
            json_write(t, json_get(a, "all_cost"));
        else
            io_number_add(t, r.build_s + r.run_s, 0);
        cmd_text_add(t, ", ");
        or_default(t, json_get(a, "timestamp"), "0.0");
        cmd_text_add(t, "], \"version\": 0.2, \"tvm_version\": ");
        or_default(t, json_get(a, "tvm_version"), "\"metatune\"");
        cmd_text_add(t, ", \"metatune\": ");
        io_extra_write(t, &pool, &r,
                       IO_VALUE | (samples || !r.n_samples ? IO_SAMPLES : 0),
                       a ? "autotvm" : NULL);
        cmd_text_add(t, "}\n");
        x->n_written++;
        x->n_failed += r.status != METATUNE_OK;
    }
    json_pool_free(&pool);
    return CMD_OK;
}
