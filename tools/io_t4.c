/* io_t4.c - the T4 results format, schema 1.0.0

   {"schema_version": "1.0.0", "results": [{"timestamp": .., "configuration":
     {knobs}, "times": {"compilation_time": ms, "runtimes": [ms], ..},
     "invalidity": WORD, "correctness": 0 or 1,
     "measurements": [{"name": "time", "value": ms, "unit": "ms"}],
     "objectives": ["time"]}, ...]}

   Milliseconds, as Kernel Tuner writes them. invalidity: correct, timeout,
   compile, runtime, correctness, constraints. A failure has no measurement and
   no runtimes, so no number can be taken for its time; reading, whatever
   number a file gives to a failure is left aside. Our finer status, the error
   text and the rest are in "metatune" of each result; task and end lines, and
   trials that never ran, in "metatune" of the whole. A torn file gives every
   whole result. */
#include "io.h"

#include <stdlib.h>
#include <string.h>

static const struct { const char *word; metatune_status status; } words[] = {
    {"correct", METATUNE_OK}, {"timeout", METATUNE_TIMEOUT},
    {"compile", METATUNE_COMPILE}, {"runtime", METATUNE_RUNTIME},
    {"correctness", METATUNE_WRONG}, {"constraints", METATUNE_CONSTRAINT}
};
enum { N_WORDS = sizeof words / sizeof words[0] };

static const char *word_of(metatune_status status)
{
    size_t i;
    for (i = 0; i < N_WORDS; i++)
        if (words[i].status == status)
            return words[i].word;
    return "runtime"; /* invalid time, device lost */
}

/* ------------------------------------------------------------- import */

typedef struct t4_reader {
    io_import *io;
    json_value *held;            /* {"at":N,"line":{}}, in order */
    size_t seen;                 /* results and lines so far */
} t4_reader;

static void held_lines(t4_reader *t, int all)
{
    uint64_t at = 0;
    while (t->held && (all || (json_u64(json_get(t->held, "at"), &at) &&
                               at <= t->seen))) {
        io_extra_line(t->io, t->held);
        t->held = t->held->next;
        t->seen++;
    }
}

/* Powers of ten of a unit against a second; 1 when it is none. */
static int unit_shift(const json_value *unit)
{
    if (!unit || json_says(unit, "ms") || json_says(unit, "milliseconds") ||
        json_says(unit, ""))
        return -3;
    if (json_says(unit, "s") || json_says(unit, "seconds"))
        return 0;
    if (json_says(unit, "us") || json_says(unit, "microseconds"))
        return -6;
    if (json_says(unit, "ns") || json_says(unit, "nanoseconds"))
        return -9;
    return 1;
}

/* The objective among the measurements, or "time". */
static const json_value *measurement(const json_value *e, int *shift)
{
    const json_value *list = json_get(e, "measurements"), *m;
    const json_value *wanted = json_at(json_get(e, "objectives"), 0);
    for (m = json_is(list, JSON_ARRAY) ? list->child : NULL; m; m = m->next) {
        const json_value *name = json_get(m, "name");
        int same = json_is(wanted, JSON_STRING)
                       ? json_is(name, JSON_STRING) && name->n == wanted->n &&
                             memcmp(name->text, wanted->text, name->n) == 0
                       : json_says(name, "time");
        if (!same)
            continue;
        *shift = unit_shift(json_get(m, "unit"));
        return json_get(m, "value");
    }
    return NULL;
}

static void time_read(const json_value *e, metatune_record *r)
{
    const json_value *runs = json_get(json_get(e, "times"), "runtimes"), *c;
    int shift = -3;
    const json_value *m = measurement(e, &shift);
    double sum = 0.0;
    for (c = json_is(runs, JSON_ARRAY) ? runs->child : NULL;
         c && r->n_samples < METATUNE_RECORD_SAMPLES; c = c->next)
        if (io_json_scaled(c, -3, &r->samples[r->n_samples])) {
            sum += r->samples[r->n_samples];
            r->n_samples++;
        }
    if (shift <= 0 && io_json_scaled(m, shift, &r->value))
        return;
    if (r->n_samples)
        r->value = sum / r->n_samples;
}

static void result(void *user, json_value *e)
{
    t4_reader *t = (t4_reader *)user;
    io_import *io = t->io;
    const json_value *configuration, *invalidity, *times, *c, *extra;
    metatune_record r;
    cmd_text knobs, bools, more;
    int status = -1;
    size_t i;
    held_lines(t, 0);
    t->seen++;
    if (!e)
        return;
    configuration = json_get(e, "configuration");
    invalidity = json_get(e, "invalidity");
    times = json_get(e, "times");
    if (!json_is(configuration, JSON_OBJECT) ||
        !json_is(invalidity, JSON_STRING)) {
        io_bad(io, 1, "a result without configuration or invalidity");
        return;
    }
    memset(&r, 0, sizeof r);
    memset(&knobs, 0, sizeof knobs);
    memset(&bools, 0, sizeof bools);
    memset(&more, 0, sizeof more);
    for (i = 0; i < N_WORDS && !json_says(invalidity, words[i].word); i++)
        ;
    if (i < N_WORDS) {
        r.status = words[i].status;
    } else {
        r.status = METATUNE_RUNTIME;
        r.error.p = invalidity->text;
        r.error.n = invalidity->n;
    }
    for (c = configuration->child; c; c = c->next)
        io_knob_add(&knobs, &bools, c->key, c->n_key, c);
    cmd_text_add(&knobs, knobs.n ? "}" : "{}");
    r.knobs_json.p = knobs.p;
    r.knobs_json.n = knobs.n;
    if (r.status == METATUNE_OK)
        time_read(e, &r);
    if (!io_json_scaled(json_get(times, "compilation_time"), -3, &r.build_s))
        io_json_scaled(json_get(times, "compilation"), -3, &r.build_s);
    io_json_scaled(json_get(times, "search_algorithm"), -3, &r.think_s);
    extra = json_get(e, "metatune");
    if (extra) {
        io_extra_read(io, extra, &r, &status);
        if (r.status != METATUNE_OK && status > METATUNE_OK &&
            strcmp(word_of((metatune_status)status), word_of(r.status)) == 0)
            r.status = (metatune_status)status;
    } else {
        io_json_scaled(json_get(times, "benchmark"), -3, &r.run_s);
        if (bools.n)
            cmd_text_add(&more, ",\"bools\":[%s]", bools.p);
        c = json_get(e, "timestamp");
        if (json_is(c, JSON_STRING)) {
            cmd_text_add(&more, ",\"timestamp\":");
            json_write_text(&more, c->text, c->n);
        }
        r.unknown.p = more.p;
        r.unknown.n = more.n;
    }
    io_emit(io, &r);
    cmd_text_free(&knobs);
    cmd_text_free(&bools);
    cmd_text_free(&more);
}

int io_t4_read(io_import *io, const char *s, size_t n)
{
    t4_reader t;
    const char *why = "it ends too early";
    size_t i = 0, n_key = 0;
    int found = 0;
    memset(&t, 0, sizeof t);
    t.io = io;
    io->format = "t4";
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
        json_space(s, n, &i);
        if (i < n && s[i] == '}')
            break;
        if (!json_key(&io->pool, s, n, &i, &key, &n_key)) {
            io->torn = 1;
            break;
        }
        json_space(s, n, &i);
        if (strcmp(key, "results") == 0 && i < n && s[i] == '[') {
            found = 1;
            i++;
            io_items(io, s, n, &i, ']', '{', result, &t);
        } else {
            const json_value *v = json_parse(&io->pool, s, n, &i, &why);
            const json_value *lines = json_get(v, "lines");
            if (!v) {
                io_bad(io, 0, "%s", why);
                io->torn = 1;
                break;
            }
            if (strcmp(key, "metatune") == 0 && json_is(lines, JSON_ARRAY))
                t.held = lines->child;
        }
        json_space(s, n, &i);
        if (i < n && s[i] == ',') {
            i++;
        } else if (i >= n || s[i] != '}') {
            io->torn = 1;
            break;
        }
    }
    held_lines(&t, 1);
    if (!found)
        io_bad(io, 0, "no results in it");
    return found;
}

/* ------------------------------------------------------------- export */

static void member_ms(cmd_text *t, int *first, const char *name, double s)
{
    if (!(s > 0.0))
        return;
    cmd_text_add(t, "%s\"%s\":", *first ? "" : ",", name);
    *first = 0;
    io_number_add(t, s, 3);
}

static void result_write(cmd_text *t, json_pool *pool,
                         const metatune_record *r)
{
    static const char *const unit[] = {"ms", "cycles", "instructions"};
    const json_value *stamp = json_get(io_unknown(pool, r), "timestamp");
    int ok = r->status == METATUNE_OK, seconds = r->unit == METATUNE_SECONDS;
    int first = 1;
    uint32_t i;
    cmd_text_add(t, "{");
    if (json_is(stamp, JSON_STRING)) {
        cmd_text_add(t, "\"timestamp\":");
        json_write(t, stamp);
        cmd_text_add(t, ",");
    }
    cmd_text_add(t, "\"configuration\":");
    io_knobs_write(t, pool, r);
    cmd_text_add(t, ",\"times\":{");
    member_ms(t, &first, "compilation_time", r->build_s);
    member_ms(t, &first, "search_algorithm", r->think_s);
    for (i = 0; i < r->n_samples && ok && seconds; i++) {
        cmd_text_add(t, i ? "," : first ? "\"runtimes\":[" : ",\"runtimes\":[");
        io_number_add(t, r->samples[i], 3);
    }
    cmd_text_add(t, "%s},\"invalidity\":\"%s\",\"correctness\":%d",
                 r->n_samples && ok && seconds ? "]" : "", word_of(r->status),
                 ok);
    cmd_text_add(t, ",\"measurements\":[");
    if (ok) {
        cmd_text_add(t, "{\"name\":\"time\",\"value\":");
        io_number_add(t, r->value, seconds ? 3 : 0);
        cmd_text_add(t, ",\"unit\":\"%s\"}", unit[r->unit]);
    }
    cmd_text_add(t, "],\"objectives\":[\"time\"],\"metatune\":");
    io_extra_write(t, pool, r, IO_VALUE | IO_SAMPLES | IO_BUILD | IO_THINK,
                   NULL);
    cmd_text_add(t, "}");
}

int io_t4_write(io_export *x, io_logs *logs, cmd_text *t)
{
    metatune_record r;
    metatune_text line;
    json_pool pool;
    size_t at = 0, n = 0;
    memset(&pool, 0, sizeof pool);
    cmd_text_add(t, "{\n\"schema_version\":\"1.0.0\",\n\"metatune\":{"
                    "\"lines\":[");
    while (io_logs_next(logs, &r, &line)) {
        if (!io_wanted(x, &r))
            continue;
        if (!io_is_result(&r)) {
            cmd_text_add(t, "%s{\"at\":%zu,\"line\":", n++ ? ",\n" : "\n", at);
            cmd_text_bytes(t, line.p, line.n);
            cmd_text_add(t, "}");
        }
        at++;
    }
    cmd_text_add(t, "]},\n\"results\":[");
    io_logs_rewind(logs);
    for (n = 0; io_logs_next(logs, &r, &line);) {
        if (!io_wanted(x, &r) || !io_is_result(&r))
            continue;
        json_pool_reset(&pool);
        cmd_text_add(t, n++ ? ",\n" : "\n");
        result_write(t, &pool, &r);
        x->n_written++;
        x->n_failed += r.status != METATUNE_OK;
    }
    cmd_text_add(t, "\n]\n}\n");
    json_pool_free(&pool);
    return CMD_OK;
}
