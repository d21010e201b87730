/* io_util.c - logs, numbers, knobs and the rest that formats share */
#include "io.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------- logs */

int io_logs_open(io_logs *logs, const char *command, size_t n,
                 char *const *paths)
{
    size_t i;
    memset(logs, 0, sizeof *logs);
    logs->file = (io_file *)cmd_alloc(n * sizeof *logs->file);
    for (i = 0; i < n; i++) {
        io_file *f = &logs->file[i];
        f->path = paths[i];
        f->bytes = cmd_file_read(paths[i], &f->n);
        if (!f->bytes)
            return cmd_fail(CMD_USAGE, "%s: cannot read %s: %s", command,
                            paths[i], strerror(errno));
        logs->n_files++;
    }
    return CMD_OK;
}

/* A whole line of another version: an object with a number "v". */
static int other_version(metatune_text line)
{
    json_pool pool;
    const char *why;
    const json_value *v;
    int64_t x = 0;
    int other;
    size_t i = 0;
    while (i < line.n && (line.p[i] == ' ' || line.p[i] == '\t'))
        i++;
    if (line.n - i < 5 || memcmp(line.p + i, "{\"v\":", 5) != 0)
        return 0;
    memset(&pool, 0, sizeof pool);
    v = json_get(json_read(&pool, line.p, line.n, &why), "v");
    other = json_i64(v, &x) && x != METATUNE_RECORD_VERSION;
    json_pool_free(&pool);
    return other;
}

int io_logs_step(io_logs *logs, metatune_record *record, metatune_text *line)
{
    for (; logs->at < logs->n_files; logs->at++, logs->pos = 0) {
        const io_file *f = &logs->file[logs->at];
        size_t from = logs->pos, end, k;
        metatune_status st = metatune_log_next(f->bytes, f->n, &logs->pos,
                                               record);
        if (st == METATUNE_NOT_FOUND)
            continue;
        end = logs->pos;
        if (end > from && f->bytes[end - 1] == '\n')
            end--;
        while (end > from && (f->bytes[end - 1] == '\r' ||
                              f->bytes[end - 1] == 0))
            end--;
        for (k = end; k > from && f->bytes[k - 1] != '\n'; k--)
            ;
        while (k < end && f->bytes[k] != '{')
            k++;
        line->p = f->bytes + k;
        line->n = end - k;
        if (st == METATUNE_OK) {
            logs->n_good++;
            return IO_GOOD;
        }
        if (logs->pos > 0 && f->bytes[logs->pos - 1] == '\n' &&
            other_version(*line)) {
            logs->n_newer++;
            return IO_OTHER;
        }
        logs->n_bad++;
        return IO_BAD;
    }
    return IO_END;
}

int io_logs_next(io_logs *logs, metatune_record *record, metatune_text *line)
{
    int step;
    do
        step = io_logs_step(logs, record, line);
    while (step != IO_GOOD && step != IO_END);
    return step == IO_GOOD;
}

void io_logs_rewind(io_logs *logs)
{
    logs->at = logs->pos = 0;
    logs->n_good = logs->n_bad = logs->n_newer = 0;
}

void io_logs_free(io_logs *logs)
{
    size_t i;
    for (i = 0; i < logs->n_files; i++)
        free(logs->file[i].bytes);
    free(logs->file);
    memset(logs, 0, sizeof *logs);
}

/* ------------------------------------------------------------ numbers */

size_t io_number_write(double x, int shift, char *buf, size_t cap)
{
    char text[32], d[32], out[80];
    size_t n = metatune_number_write(x, text, sizeof text), i = 0, k = 0, m;
    long point = 0, e = 0; /* x = 0.ddd * 10^point */
    int minus = 0, dot = 0, eminus = 0;
    if (n == 0 || n >= sizeof text)
        return 0;
    if (text[i] == '-') {
        minus = 1;
        i++;
    }
    for (; i < n && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            dot = 1;
            continue;
        }
        if (!dot && (k > 0 || text[i] != '0'))
            point++;
        else if (dot && k == 0 && text[i] == '0')
            point--;
        if ((k > 0 || text[i] != '0') && k < sizeof d)
            d[k++] = text[i];
    }
    if (i < n) {
        i++;
        if (i < n && (text[i] == '-' || text[i] == '+'))
            eminus = text[i++] == '-';
        for (; i < n; i++)
            e = 10 * e + (text[i] - '0');
    }
    while (k > 1 && d[k - 1] == '0')
        k--;
    point += (eminus ? -e : e) + shift;
    m = 0;
    if (minus)
        out[m++] = '-';
    if (k == 0) {
        out[m++] = '0';
    } else if (point > 0 && point <= 21) {
        for (i = 0; i < (size_t)point || i < k; i++) {
            if (i == (size_t)point)
                out[m++] = '.';
            out[m++] = i < k ? d[i] : '0';
        }
    } else if (point > -6 && point <= 0) {
        out[m++] = '0';
        out[m++] = '.';
        for (e = point; e < 0; e++)
            out[m++] = '0';
        memcpy(out + m, d, k);
        m += k;
    } else {
        out[m++] = d[0];
        if (k > 1) {
            out[m++] = '.';
            memcpy(out + m, d + 1, k - 1);
            m += k - 1;
        }
        m += (size_t)snprintf(out + m, sizeof out - m, "e%ld", point - 1);
    }
    if (m + 1 > cap)
        return 0;
    memcpy(buf, out, m);
    buf[m] = 0;
    return m;
}

void io_number_add(cmd_text *text, double x, int shift)
{
    char buf[80];
    size_t n = io_number_write(x, shift, buf, sizeof buf);
    cmd_text_bytes(text, buf, n);
}

int io_number_read(const char *text, size_t n, int shift, double *x)
{
    size_t end = 0, mantissa = 0, i;
    char *copy;
    long e = 0;
    int minus = 0, good;
    metatune_status st = metatune_number_read(text, n, x, &end);
    if (st == METATUNE_OK && shift == 0)
        return end == n;
    /* out of range before the point moves is not yet out of range */
    if (st != METATUNE_OK && st != METATUNE_OVERFLOW)
        return 0;
    while (mantissa < n && text[mantissa] != 'e' && text[mantissa] != 'E')
        mantissa++;
    i = mantissa;
    if (i < n) {
        i++;
        if (i < n && (text[i] == '-' || text[i] == '+'))
            minus = text[i++] == '-';
        if (i >= n)
            return 0;
        for (; i < n; i++) {
            if (text[i] < '0' || text[i] > '9')
                return 0;
            if (e < 100000000)
                e = 10 * e + (text[i] - '0');
        }
    }
    copy = (char *)cmd_alloc(mantissa + 32);
    memcpy(copy, text, mantissa);
    snprintf(copy + mantissa, 32, "e%ld", (minus ? -e : e) + shift);
    n = strlen(copy);
    good = metatune_number_read(copy, n, x, &end) == METATUNE_OK && end == n;
    free(copy);
    return good;
}

int io_json_scaled(const json_value *v, int shift, double *x)
{
    return json_is(v, JSON_NUMBER) &&
           io_number_read(v->raw, v->n_raw, shift, x);
}

/* --------------------------------------------------------------- text */

metatune_text io_text(const char *z)
{
    metatune_text t;
    t.p = z;
    t.n = z ? strlen(z) : 0;
    return t;
}

const char *io_text_plain(json_pool *pool, metatune_text text, size_t *n)
{
    char *p = (char *)json_pool_take(pool, 2 * text.n + 1);
    size_t k = metatune_text_unescape(text, p, 2 * text.n + 1);
    p[k] = 0;
    if (n)
        *n = k;
    return p;
}

int io_text_is(metatune_text text, const char *plain)
{
    char small[512], *p = small;
    size_t n, want = strlen(plain);
    int same;
    if (2 * text.n + 1 > sizeof small)
        p = (char *)cmd_alloc(2 * text.n + 1);
    n = metatune_text_unescape(text, p, 2 * text.n + 1);
    same = n == want && memcmp(p, plain, n) == 0;
    if (p != small)
        free(p);
    return same;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

const char *io_status_word(metatune_status status, char *buf, size_t cap)
{
    const char *name = metatune_encode_status_name(status);
    size_t i;
    for (i = 0; name[i] && i + 1 < cap; i++)
        buf[i] = lower(name[i]);
    buf[i] = 0;
    return buf;
}

int io_status_find(const char *p, size_t n)
{
    char word[32];
    int st;
    size_t i;
    for (st = METATUNE_OK; st <= METATUNE_NOT_RUN; st++) {
        io_status_word((metatune_status)st, word, sizeof word);
        for (i = 0; i < n && word[i] && lower(p[i]) == word[i]; i++)
            ;
        if (i == n && !word[i])
            return st;
    }
    return -1;
}

int io_status_foreign(const char *p, size_t n)
{
    static const struct { const char *word; metatune_status status; } w[] = {
        {"InvalidConfig", METATUNE_CONSTRAINT},
        {"CompilationFailedConfig", METATUNE_COMPILE},
        {"RuntimeFailedConfig", METATUNE_RUNTIME},
        {"CorrectnessFailedConfig", METATUNE_WRONG},
        {"TimeoutConfig", METATUNE_TIMEOUT}
    };
    size_t i;
    for (i = 0; i < sizeof w / sizeof w[0]; i++)
        if (strlen(w[i].word) == n && memcmp(w[i].word, p, n) == 0)
            return (int)w[i].status;
    return -1;
}

/* -------------------------------------------------------------- knobs */

void io_knob_add(cmd_text *knobs, cmd_text *bools, const char *key,
                 size_t n_key, const json_value *v)
{
    cmd_text part;
    cmd_text_add(knobs, knobs->n ? "," : "{");
    json_write_text(knobs, key, n_key);
    cmd_text_add(knobs, ":");
    if (v->type == JSON_BOOL) {
        cmd_text_add(knobs, v->truth ? "1" : "0");
        if (bools->n)
            cmd_text_add(bools, ",");
        json_write_text(bools, key, n_key);
    } else if (v->type == JSON_ARRAY || v->type == JSON_OBJECT) {
        memset(&part, 0, sizeof part);
        json_write(&part, v); /* as a label */
        json_write_text(knobs, part.p, part.n);
        cmd_text_free(&part);
    } else {
        json_write(knobs, v);
    }
}

const json_value *io_unknown(json_pool *pool, const metatune_record *record)
{
    const char *why;
    char *p;
    if (record->unknown.n == 0)
        return NULL;
    p = (char *)json_pool_take(pool, record->unknown.n + 2);
    memcpy(p, record->unknown.p, record->unknown.n);
    p[0] = '{'; /* it begins with a comma */
    p[record->unknown.n] = '}';
    return json_read(pool, p, record->unknown.n + 1, &why);
}

void io_knobs_write(cmd_text *text, json_pool *pool,
                    const metatune_record *record)
{
    const json_value *bools = json_get(io_unknown(pool, record), "bools");
    const json_value *knobs, *c, *b;
    const char *why;
    int first = 1;
    knobs = json_read(pool, record->knobs_json.p, record->knobs_json.n, &why);
    if (!json_is(bools, JSON_ARRAY) || !knobs) {
        cmd_text_bytes(text, record->knobs_json.p, record->knobs_json.n);
        return;
    }
    cmd_text_add(text, "{");
    for (c = knobs->child; c; c = c->next) {
        int is_bool = 0;
        int64_t x = 2;
        for (b = bools->child; b && !is_bool; b = b->next)
            is_bool = json_is(b, JSON_STRING) && b->n == c->n_key &&
                      memcmp(b->text, c->key, b->n) == 0;
        if (!first)
            cmd_text_add(text, ",");
        first = 0;
        json_write_text(text, c->key, c->n_key);
        cmd_text_add(text, ":");
        if (is_bool && json_i64(c, &x) && (x == 0 || x == 1))
            cmd_text_add(text, x ? "true" : "false");
        else
            json_write(text, c);
    }
    cmd_text_add(text, "}");
}

/* ------------------------------------------------------------- import */

void io_bad(io_import *io, size_t count, const char *format, ...)
{
    va_list ap;
    io->n_bad += count;
    if (io->why[0])
        return;
    va_start(ap, format);
    vsnprintf(io->why, sizeof io->why, format, ap);
    va_end(ap);
}

int io_emit_line(io_import *io, const char *line, size_t n)
{
    metatune_record record;
    if (memchr(line, '\n', n) ||
        metatune_record_decode(line, n, &record) != METATUNE_OK)
        return 0;
    cmd_text_bytes(&io->lines, line, n);
    cmd_text_bytes(&io->lines, "\n", 1);
    io->n_lines++;
    if (record.kind == METATUNE_RECORD_TRIAL) {
        io->n_trials++;
        io->n_failed += record.status != METATUNE_OK;
    }
    return 1;
}

int io_emit(io_import *io, metatune_record *r)
{
    char small[8192], *buf = small;
    size_t need, n = 0;
    int good = 0;
    r->kind = METATUNE_RECORD_TRIAL;
    if (io->task)
        r->task = io_text(io->task);
    if (io->target)
        r->target = io_text(io->target);
    if (!r->task.n)
        r->task = io_text(io->format);
    if (!r->target.n)
        r->target = io_text("unknown");
    if (!r->run.n)
        r->run = io_text("import");
    if (!r->strategy.n)
        r->strategy = io_text(io->format);
    if (!r->trial)
        r->trial = io->n_trials + 1;
    if (!r->knobs_json.n)
        r->knobs_json = io_text("{}");
    if (r->status == METATUNE_OK && !(r->value > 0.0 && r->value < 1e300)) {
        r->status = METATUNE_INVALID_TIME;
        r->value = 0.0;
        if (!r->error.n)
            r->error = io_text("the file's time is not a time");
    }
    need = metatune_record_memsize(r);
    if (need > sizeof small)
        buf = (char *)cmd_alloc(need);
    if (need && metatune_record_encode(r, buf, need, &n) == METATUNE_OK)
        good = io_emit_line(io, buf, n - 1);
    if (buf != small)
        free(buf);
    if (!good)
        io_bad(io, 1, "an entry that does not make a record");
    return good;
}

/* -------------------------------------------------------------- extra */

static void extra_text(cmd_text *t, const char *name, metatune_text raw)
{
    if (raw.n == 0)
        return;
    cmd_text_add(t, ",\"%s\":\"", name);
    cmd_text_bytes(t, raw.p, raw.n);
    cmd_text_add(t, "\"");
}

static void extra_u64(cmd_text *t, const char *name, uint64_t x)
{
    if (x)
        cmd_text_add(t, ",\"%s\":%llu", name, (unsigned long long)x);
}

static void extra_real(cmd_text *t, const char *name, double x, int always)
{
    if (!(x > 0.0) && !always)
        return;
    cmd_text_add(t, ",\"%s\":", name);
    io_number_add(t, x, 0);
}

void io_extra_write(cmd_text *t, json_pool *pool, const metatune_record *r,
                    unsigned has, const char *without)
{
    static const char *const unit[] = {"seconds", "cycles", "instructions"};
    const json_value *unknown = io_unknown(pool, r), *c;
    int ok = r->status == METATUNE_OK, first = 1;
    uint32_t i;
    cmd_text_add(t, "{\"trial\":%llu", (unsigned long long)r->trial);
    extra_text(t, "run", r->run);
    extra_u64(t, "seed", r->seed);
    extra_u64(t, "batch", r->batch);
    if (r->trial_kind == METATUNE_CONFIRM)
        cmd_text_add(t, ",\"trial_kind\":\"confirm\"");
    extra_u64(t, "repeat", r->repeat);
    extra_u64(t, "attempt", r->attempt);
    extra_text(t, "strategy", r->strategy);
    extra_text(t, "task", r->task);
    extra_text(t, "target", r->target);
    extra_text(t, "layer", r->layer);
    if (r->space)
        cmd_text_add(t, ",\"space\":\"%016llx\"",
                     (unsigned long long)r->space);
    if (r->model)
        cmd_text_add(t, ",\"model\":\"%016llx\"",
                     (unsigned long long)r->model);
    if (r->unit != METATUNE_SECONDS)
        cmd_text_add(t, ",\"unit\":\"%s\"", unit[r->unit]);
    if (!ok) /* the format's own word may be coarser */
        cmd_text_add(t, ",\"status\":\"%s\"",
                     metatune_encode_status_name(r->status));
    if (ok && (!(has & IO_VALUE) || r->unit != METATUNE_SECONDS))
        extra_real(t, "value", r->value, 1);
    if (ok && r->n_samples &&
        (!(has & IO_SAMPLES) || r->unit != METATUNE_SECONDS)) {
        cmd_text_add(t, ",\"samples\":[");
        for (i = 0; i < r->n_samples; i++) {
            if (i)
                cmd_text_add(t, ",");
            io_number_add(t, r->samples[i], 0);
        }
        cmd_text_add(t, "]");
    }
    if (!(has & IO_BUILD))
        extra_real(t, "build_s", r->build_s, 0);
    extra_real(t, "run_s", r->run_s, 0);
    if (!(has & IO_THINK))
        extra_real(t, "think_s", r->think_s, 0);
    if (r->predicted) {
        extra_real(t, "mean", r->mean, 1);
        extra_real(t, "sigma", r->sigma, 1);
    }
    extra_text(t, "error", r->error);
    for (c = unknown ? unknown->child : NULL; c; c = c->next) {
        if (without && c->n_key == strlen(without) &&
            memcmp(c->key, without, c->n_key) == 0)
            continue;
        cmd_text_add(t, first ? ",\"unknown\":{" : ",");
        first = 0;
        json_write_text(t, c->key, c->n_key);
        cmd_text_add(t, ":");
        json_write(t, c);
    }
    cmd_text_add(t, first ? "}" : "}}");
}

static unsigned hex_digit(char c)
{
    return c >= '0' && c <= '9' ? (unsigned)(c - '0')
         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                : (unsigned)(c - 'A') + 10;
}

/* A text of a record as the bytes it was made from: \u0080 to \u00ff stand
   for bytes that were no UTF-8 (else they would be there as they are), and as
   two bytes each they could push the end of an error over its limit. */
static void get_text(json_pool *pool, const json_value *x, const char *name,
                     metatune_text *t)
{
    const json_value *v = json_get(x, name);
    const char *raw, *end;
    char *p;
    size_t n = 0;
    if (!json_is(v, JSON_STRING))
        return;
    p = (char *)json_pool_take(pool, 2 * v->n_raw + 1);
    end = v->raw + v->n_raw - 1;
    for (raw = v->raw + 1; raw < end;) {
        const char *from = raw;
        unsigned byte = 0;
        metatune_text piece;
        while (raw < end && byte < 0x80) {
            byte = 0;
            if (*raw != '\\') {
                raw++;
                continue;
            }
            if (raw[1] != 'u') {
                raw += 2;
                continue;
            }
            if (raw[2] == '0' && raw[3] == '0')
                byte = hex_digit(raw[4]) << 4 | hex_digit(raw[5]);
            raw += 6;
        }
        piece.p = from;
        piece.n = (size_t)(raw - from) - (byte < 0x80 ? 0 : 6);
        n += metatune_text_unescape(piece, p + n, 2 * piece.n + 1);
        if (byte >= 0x80)
            p[n++] = (char)(unsigned char)byte;
    }
    t->p = p;
    t->n = n;
}

static void get_u32(const json_value *x, const char *name, uint32_t *out)
{
    uint64_t u = 0;
    if (json_u64(json_get(x, name), &u) && u <= UINT32_MAX)
        *out = (uint32_t)u;
}

static void get_hash(const json_value *x, const char *name, uint64_t *out)
{
    const json_value *v = json_get(x, name);
    uint64_t u = 0;
    size_t i;
    if (!json_is(v, JSON_STRING) || v->n != 16)
        return;
    for (i = 0; i < 16; i++) {
        char c = v->text[i];
        unsigned d = c >= '0' && c <= '9' ? (unsigned)(c - '0')
                   : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
        if (d > 15)
            return;
        u = u << 4 | d;
    }
    *out = u;
}

int io_extra_read(io_import *io, const json_value *x, metatune_record *r,
                  int *status)
{
    const json_value *v, *c;
    double mean = 0.0, sigma = 0.0;
    if (!json_is(x, JSON_OBJECT))
        return 0;
    json_u64(json_get(x, "trial"), &r->trial);
    json_u64(json_get(x, "seed"), &r->seed);
    get_text(&io->pool, x, "run", &r->run);
    get_u32(x, "batch", &r->batch);
    if (json_says(json_get(x, "trial_kind"), "confirm"))
        r->trial_kind = METATUNE_CONFIRM;
    get_u32(x, "repeat", &r->repeat);
    get_u32(x, "attempt", &r->attempt);
    get_text(&io->pool, x, "strategy", &r->strategy);
    get_text(&io->pool, x, "task", &r->task);
    get_text(&io->pool, x, "target", &r->target);
    get_text(&io->pool, x, "layer", &r->layer);
    get_text(&io->pool, x, "error", &r->error);
    get_hash(x, "space", &r->space);
    get_hash(x, "model", &r->model);
    v = json_get(x, "unit");
    if (json_says(v, "cycles"))
        r->unit = METATUNE_CYCLES;
    if (json_says(v, "instructions"))
        r->unit = METATUNE_INSTRUCTIONS;
    v = json_get(x, "status");
    if (json_is(v, JSON_STRING))
        *status = io_status_find(v->text, v->n);
    json_double(json_get(x, "value"), &r->value);
    json_double(json_get(x, "build_s"), &r->build_s);
    json_double(json_get(x, "run_s"), &r->run_s);
    json_double(json_get(x, "think_s"), &r->think_s);
    if (json_double(json_get(x, "mean"), &mean) &&
        json_double(json_get(x, "sigma"), &sigma)) {
        r->predicted = 1;
        r->mean = mean;
        r->sigma = sigma;
    }
    v = json_get(x, "samples");
    for (c = json_is(v, JSON_ARRAY) ? v->child : NULL;
         c && r->n_samples < METATUNE_RECORD_SAMPLES; c = c->next)
        if (json_double(c, &r->samples[r->n_samples]))
            r->n_samples++;
    v = json_get(x, "unknown");
    if (json_is(v, JSON_OBJECT) && v->child) {
        cmd_text t;
        char *p;
        memset(&t, 0, sizeof t);
        json_write(&t, v);
        p = (char *)json_pool_take(&io->pool, t.n);
        memcpy(p, t.p, t.n);
        p[0] = ',';
        r->unknown.p = p;
        r->unknown.n = t.n - 1;
        cmd_text_free(&t);
    }
    return 1;
}

int io_extra_line(io_import *io, const json_value *x)
{
    const json_value *line = json_get(x, "line");
    if (!json_is(line, JSON_OBJECT))
        return 0;
    if (!io_emit_line(io, line->raw, line->n_raw))
        io_bad(io, 1, "a kept line that is not a record");
    return 1;
}

/* -------------------------------------------------------------- items */

void io_items(io_import *io, const char *s, size_t n, size_t *i, char close,
              char resume, io_item_fn fn, void *user)
{
    json_pool keep = io->pool; /* what came before the items stays */
    memset(&io->pool, 0, sizeof io->pool);
    for (;;) {
        json_value *item = NULL;
        const char *key = NULL, *why = "it ends too early";
        size_t n_key = 0, start;
        json_pool_reset(&io->pool);
        json_space(s, n, i);
        if (*i < n && s[*i] == close) {
            (*i)++;
            break;
        }
        start = *i;
        if (*i >= n) {
            io->torn = 1;
            break;
        }
        if (close == ']' || json_key(&io->pool, s, n, i, &key, &n_key))
            item = json_parse(&io->pool, s, n, i, &why);
        if (item) {
            item->key = key;
            item->n_key = n_key;
            fn(user, item);
            json_space(s, n, i);
            if (*i < n && s[*i] == ',') {
                (*i)++;
                continue;
            }
            if (*i < n && s[*i] == close)
                continue;
            start = *i; /* what follows is damaged, this one was whole */
        } else {
            io_bad(io, 1, "a broken entry: %s", why);
            fn(user, NULL);
        }
        for (*i = start; *i < n; (*i)++)
            if (s[*i] == '\n' && *i + 1 < n && s[*i + 1] == resume &&
                *i + 1 > start)
                break;
        if (*i >= n) {
            io->torn = 1;
            break;
        }
    }
    json_pool_free(&io->pool);
    io->pool = keep;
}

int io_wanted(const io_export *x, const metatune_record *record)
{
    return (!x->task || io_text_is(record->task, x->task)) &&
           (!x->target || io_text_is(record->target, x->target));
}

int io_is_result(const metatune_record *record)
{
    return record->kind == METATUNE_RECORD_TRIAL &&
           record->status != METATUNE_CANCELLED &&
           record->status != METATUNE_NOT_RUN;
}
