/* export_header.c - see export_header.h */
#define _POSIX_C_SOURCE 200809L

#include "export_header.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------- strings */

/* Distinct strings, numbered as they come. */
typedef struct names {
    char **p;
    size_t n, cap;
    uint32_t *slot;              /* (n_slots) number + 1, 0 = free */
    size_t n_slots;
} names;

static size_t names_slot(const names *x, const char *s, size_t n)
{
    size_t i = (size_t)metatune_encode_hash(0, s, n) & (x->n_slots - 1);
    while (x->slot[i] && (strlen(x->p[x->slot[i] - 1]) != n ||
                          memcmp(x->p[x->slot[i] - 1], s, n) != 0))
        i = (i + 1) & (x->n_slots - 1);
    return i;
}

static uint32_t names_add(names *x, const char *s, size_t n)
{
    size_t i;
    if (2 * (x->n + 1) > x->n_slots) {
        free(x->slot);
        x->n_slots = x->n_slots ? 2 * x->n_slots : 64;
        x->slot = (uint32_t *)cmd_alloc(x->n_slots * sizeof *x->slot);
        for (i = 0; i < x->n; i++)
            x->slot[names_slot(x, x->p[i], strlen(x->p[i]))] =
                (uint32_t)i + 1;
    }
    i = names_slot(x, s, n);
    if (x->slot[i])
        return x->slot[i] - 1;
    if (x->n == x->cap) {
        x->cap = 2 * x->cap + 16;
        x->p = (char **)cmd_realloc(x->p, x->cap * sizeof *x->p);
    }
    x->p[x->n] = (char *)cmd_alloc(n + 1);
    memcpy(x->p[x->n], s, n);
    x->slot[i] = (uint32_t)++x->n;
    return (uint32_t)x->n - 1;
}

static void names_free(names *x)
{
    size_t i;
    for (i = 0; i < x->n; i++)
        free(x->p[i]);
    free(x->p);
    free(x->slot);
    memset(x, 0, sizeof *x);
}

/* -------------------------------------------------------------- trials */

typedef struct trial {
    uint32_t task, target;
    int32_t unit, kind;
    uint64_t space;
    double value;
    size_t knobs;                /* the object's text, in pool->json */
    int64_t *values;             /* (n_knobs) in pool->values; [-1] is
                                    n_knobs, [-2] the task */
} trial;

/* What one task makes of one setting. */
typedef struct setting {
    uint32_t task;
    int confirmed;
    double value;
    const trial *from;
} setting;

struct export_pool {
    names tasks, targets;
    cmd_text json;
    trial *trial;
    size_t n, cap;
    char *knob_name[METATUNE_MAX_KNOBS];
    names labels[METATUNE_MAX_KNOBS];
    int labelled[METATUNE_MAX_KNOBS];
    uint32_t n_knobs;
    int64_t *values;
    setting *setting;
    size_t n_settings;
    metatune_lookup_knob *knobs;
    metatune_lookup_row *rows;
};

static trial *trial_add(struct export_pool *p)
{
    if (p->n == p->cap) {
        p->cap = 2 * p->cap + 256;
        p->trial = (trial *)cmd_realloc(p->trial, p->cap * sizeof *p->trial);
    }
    memset(&p->trial[p->n], 0, sizeof *p->trial);
    return &p->trial[p->n++];
}

/* A shape is known by its canonical spec, however the log spells it. */
static uint32_t task_add(struct export_pool *p, const char *text)
{
    metatune_encode_conv2d conv;
    char spec[256];
    if (metatune_encode_conv2d_parse(text, &conv, NULL) == METATUNE_OK &&
        metatune_encode_conv2d_spec(&conv, spec, sizeof spec))
        text = spec;
    return names_add(&p->tasks, text, strlen(text));
}

/* --------------------------------------------------------- JSON objects */

/* One "name":value of a flat object that the record decoder has accepted.
   text points at what is between the quotes, or at the number. */
typedef struct pair {
    metatune_text name, text;
    int string;
} pair;

static const char *json_space(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == ',' || *p == ':' || *p == '{')
        p++;
    return p;
}

static const char *json_string(const char *p, metatune_text *text)
{
    text->p = ++p;
    while (*p && *p != '"')
        p += *p == '\\' && p[1] ? 2 : 1;
    text->n = (size_t)(p - text->p);
    return *p ? p + 1 : p;
}

/* The next pair; NULL at the end or where the object is not flat. */
static const char *json_pair(const char *p, pair *x)
{
    p = json_space(p);
    if (*p != '"')
        return NULL;
    p = json_space(json_string(p, &x->name));
    x->string = *p == '"';
    if (x->string)
        return json_string(p, &x->text);
    x->text.p = p;
    p += strspn(p, "+-.0123456789eE");
    x->text.n = (size_t)(p - x->text.p);
    return x->text.n ? p : NULL;
}

static char *text_plain(metatune_text text)
{
    char *s = (char *)cmd_alloc(text.n + 1);
    s[metatune_text_unescape(text, s, text.n)] = 0;
    return s;
}

/* Whole numbers only: a knob's value is an int64. */
static int text_int(metatune_text text, int64_t *value)
{
    char buf[32], *end;
    long long x;
    if (text.n == 0 || text.n >= sizeof buf)
        return -1;
    memcpy(buf, text.p, text.n);
    buf[text.n] = 0;
    errno = 0;
    x = strtoll(buf, &end, 10);
    if (*end || errno)
        return -1;
    *value = x;
    return 0;
}

/* --------------------------------------------------------------- files */

static void log_read(export_table *x, const char *bytes, size_t n)
{
    struct export_pool *p = x->pool;
    metatune_record r;
    metatune_status st;
    size_t pos = 0;
    while ((st = metatune_log_next(bytes, n, &pos, &r)) !=
           METATUNE_NOT_FOUND) {
        trial *t;
        char *task, *target;
        if (st != METATUNE_OK) {
            x->n_bad++;
            continue;
        }
        if (r.kind != METATUNE_RECORD_TRIAL)
            continue;
        if (r.status != METATUNE_OK || !(r.value > 0)) {
            x->n_failed++;
            continue;
        }
        task = text_plain(r.task);
        target = text_plain(r.target);
        t = trial_add(p);
        t->task = task_add(p, task);
        t->target = names_add(&p->targets, target, strlen(target));
        t->unit = r.unit;
        t->kind = r.trial_kind;
        t->space = r.space;
        t->value = r.value;
        t->knobs = p->json.n;
        cmd_text_bytes(&p->json, r.knobs_json.p, r.knobs_json.n);
        cmd_text_bytes(&p->json, "", 1);
        free(task);
        free(target);
    }
}

enum { CSV_COLUMNS = METATUNE_MAX_KNOBS + 8 };

/* Split a line in place, RFC 4180 without line breaks in fields; the count,
   or -1 for too many columns or a quote left open. */
static int csv_split(char *line, char **field)
{
    int n = 0;
    char *p = line, *q;
    for (;;) {
        if (n == CSV_COLUMNS)
            return -1;
        if (*p == '"') {
            field[n++] = q = ++p;
            while (*p && !(*p == '"' && p[1] != '"')) {
                p += *p == '"';
                *q++ = *p++;
            }
            if (!*p++)
                return -1;
            if (*p && *p != ',')
                return -1;
        } else {
            field[n++] = q = p;
            while (*p && *p != ',')
                *q++ = *p++;
        }
        if (!*p) {
            *q = 0;
            return n;
        }
        *q = 0;
        p++;
    }
}

/* CMD_OK, or CMD_USAGE after one line. */
static int csv_read(export_table *x, const char *command, const char *path,
                    char *text)
{
    static const char *const known[] = {"task", "target", "status",
                                        "time_ms", "metatune"};
    enum { TASK, TARGET, STATUS, TIME, MORE, KNOWN };
    struct export_pool *p = x->pool;
    char *field[CSV_COLUMNS], *head[CSV_COLUMNS], *line, *next;
    int column[KNOWN] = {-1, -1, -1, -1, -1}, n_head = 0, i, k, n;
    for (line = text; *line; line = next) {
        char *end = line + strcspn(line, "\n");
        metatune_text number;
        double ms = 0;
        size_t used = 0;
        trial *t;
        next = *end ? end + 1 : end;
        *end = 0;
        line[strcspn(line, "\r")] = 0;
        if (!*line)
            continue;
        n = csv_split(line, n_head ? field : head);
        if (!n_head) {
            if (n < 0)
                return cmd_fail(CMD_USAGE, "%s: %s: neither a record log nor "
                                "a CSV table", command, path);
            n_head = n;
            for (i = 0; i < n; i++)
                for (k = 0; k < KNOWN; k++)
                    if (strcmp(head[i], known[k]) == 0)
                        column[k] = i;
            if (column[TASK] < 0 || column[TIME] < 0)
                return cmd_fail(CMD_USAGE, "%s: %s: neither a record log nor "
                                "a CSV table with the columns task and "
                                "time_ms", command, path);
            continue;
        }
        if (n != n_head) {
            x->n_bad++;
            continue;
        }
        number.p = field[column[TIME]];
        number.n = strlen(number.p);
        if ((column[STATUS] >= 0 && strcmp(field[column[STATUS]], "ok") != 0 &&
             strcmp(field[column[STATUS]], "OK") != 0) || number.n == 0) {
            x->n_failed++;
            continue;
        }
        if (metatune_number_read(number.p, number.n, &ms, &used) !=
                METATUNE_OK || used != number.n || !(ms > 0)) {
            x->n_bad++;
            continue;
        }
        t = trial_add(p);
        t->task = task_add(p, field[column[TASK]]);
        t->target = column[TARGET] < 0
                        ? names_add(&p->targets, "csv", 3)
                        : names_add(&p->targets, field[column[TARGET]],
                                    strlen(field[column[TARGET]]));
        t->unit = METATUNE_SECONDS;
        t->value = 1e-3 * ms;
        t->knobs = p->json.n;
        for (i = 0; i < n; i++) {
            metatune_text value;
            int64_t whole;
            for (k = 0; k < KNOWN && column[k] != i; k++) {}
            if (k < KNOWN)
                continue;
            cmd_text_add(&p->json, ",");
            cmd_text_json(&p->json, head[i]);
            value.p = field[i];
            value.n = strlen(field[i]);
            if (text_int(value, &whole) == 0)
                cmd_text_add(&p->json, ":%lld", (long long)whole);
            else
                cmd_text_json(&p->json, field[i]);
        }
        cmd_text_bytes(&p->json, "", 1);
    }
    return CMD_OK;
}

/* ------------------------------------------------------------ settings */

static int targets_say(const export_table *x, const char *command,
                       const char *target)
{
    const names *t = &x->pool->targets;
    if (!target)
        return cmd_fail(CMD_USAGE, "%s: the logs hold %zu targets and a table "
                        "is of one; give --target with \"%s\" or \"%s\"%s",
                        command, t->n, t->p[0], t->p[1],
                        t->n > 2 ? " or another" : "");
    return cmd_fail(CMD_USAGE, "%s: no trial of the target \"%s\"; the logs "
                    "hold \"%s\"%s", command, target, t->p[0],
                    t->n > 1 ? " and others" : "");
}

/* Drop the trials of other targets, and of other units than the newest. */
static int targets_choose(export_table *x, const char *command,
                          const char *target, int or_the_only)
{
    struct export_pool *p = x->pool;
    size_t i, n = 0;
    uint32_t want = 0;
    int32_t unit;
    if (!target && p->targets.n > 1)
        return targets_say(x, command, target);
    if (target && !(or_the_only && p->targets.n == 1)) {
        while (want < p->targets.n &&
               strcmp(p->targets.p[want], target) != 0)
            want++;
        if (want == p->targets.n)
            return targets_say(x, command, target);
    }
    for (i = 0; i < p->n; i++)
        if (p->trial[i].target == want)
            p->trial[n++] = p->trial[i];
    x->n_other = p->n - n;
    p->n = n;
    x->table.target = p->targets.p[want];
    unit = x->table.unit = p->trial[n - 1].unit;
    for (i = n = 0; i < p->n; i++)
        if (p->trial[i].unit == unit)
            p->trial[n++] = p->trial[i];
    x->n_left += p->n - n;
    p->n = n;
    return CMD_OK;
}

/* The knobs of the newest trial: names, and which carry labels. */
static int knobs_choose(export_table *x, const char *command)
{
    struct export_pool *p = x->pool;
    const char *at = p->json.p + p->trial[p->n - 1].knobs;
    pair a;
    while ((at = json_pair(at, &a)) != NULL) {
        if (p->n_knobs == METATUNE_MAX_KNOBS)
            return cmd_fail(CMD_USAGE, "%s: more than %d knobs", command,
                            METATUNE_MAX_KNOBS);
        p->labelled[p->n_knobs] = a.string;
        p->knob_name[p->n_knobs++] = text_plain(a.name);
    }
    if (p->n_knobs == 0)
        return cmd_fail(CMD_USAGE, "%s: the newest trial names no knobs",
                        command);
    return CMD_OK;
}

/* Its knobs' values, by name: 0, or -1 when they are others. */
static int trial_values(struct export_pool *p, trial *t)
{
    const char *at = p->json.p + t->knobs;
    uint64_t seen = 0;
    uint32_t n = 0, guess = 0;
    pair a;
    while ((at = json_pair(at, &a)) != NULL) {
        char *name = text_plain(a.name);
        uint32_t k, i;
        for (i = 0, k = guess; i < p->n_knobs; i++, k++) {
            k = k < p->n_knobs ? k : 0;
            if (strcmp(p->knob_name[k], name) == 0)
                break;
        }
        free(name);
        if (i == p->n_knobs || (seen >> k & 1) || a.string != p->labelled[k])
            return -1;
        guess = k + 1;
        seen |= (uint64_t)1 << k;
        n++;
        if (a.string) {
            char *label = text_plain(a.text);
            t->values[k] = names_add(&p->labels[k], label, strlen(label));
            free(label);
        } else if (text_int(a.text, &t->values[k]) != 0) {
            return -1;
        }
    }
    return n == p->n_knobs ? 0 : -1;
}

/* Labels in alphabetical order: the table does not depend on the log's. */
static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void labels_sort(struct export_pool *p)
{
    uint32_t k;
    size_t i;
    for (k = 0; k < p->n_knobs; k++) {
        names *l = &p->labels[k];
        char **old;
        int64_t *to;
        if (!l->n)
            continue;
        old = (char **)cmd_alloc(l->n * sizeof *old);
        to = (int64_t *)cmd_alloc(l->n * sizeof *to);
        memcpy(old, l->p, l->n * sizeof *old);
        qsort(l->p, l->n, sizeof *l->p, by_text);
        for (i = 0; i < l->n; i++)
            to[i] = (char **)bsearch(&old[i], l->p, l->n, sizeof *l->p,
                                     by_text) - l->p;
        for (i = 0; i < p->n; i++)
            p->trial[i].values[k] = to[p->trial[i].values[k]];
        free(old);
        free(to);
    }
}

/* qsort has no user pointer; the values' length stands before them, and
   before that their task. */
static int values_order(const int64_t *a, const int64_t *b)
{
    int64_t i;
    for (i = 0; i < a[-1]; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int by_task(const void *a, const void *b)
{
    const trial *x = (const trial *)a, *y = (const trial *)b;
    int d;
    if (x->task != y->task)
        return x->task < y->task ? -1 : 1;
    d = values_order(x->values, y->values);
    if (d)
        return d;
    if (x->kind != y->kind) /* confirm trials first */
        return x->kind == METATUNE_CONFIRM ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static int by_setting(const void *a, const void *b)
{
    const setting *x = (const setting *)a, *y = (const setting *)b;
    int d = values_order(x->from->values, y->from->values);
    return d ? d : (x->task > y->task) - (x->task < y->task);
}

static int by_key(const void *a, const void *b)
{
    const metatune_lookup_row *x = (const metatune_lookup_row *)a;
    const metatune_lookup_row *y = (const metatune_lookup_row *)b;
    return (x->key > y->key) - (x->key < y->key);
}

/* Trials, sorted, to one setting each, and the best of a task to its row. */
static void settings_make(struct export_pool *p, setting *best)
{
    size_t i, j, c;
    p->setting = (setting *)cmd_alloc(p->n * sizeof *p->setting);
    for (i = 0; i < p->n; i = j) {
        const trial *t = &p->trial[i];
        setting *s = &p->setting[p->n_settings++], *b = &best[t->task];
        for (j = i; j < p->n && p->trial[j].task == t->task &&
                    values_order(p->trial[j].values, t->values) == 0; j++) {}
        for (c = i; c < j && p->trial[c].kind == METATUNE_CONFIRM; c++) {}
        s->task = t->task;
        s->from = t;
        s->confirmed = c > i;
        s->value = c > i ? 0.5 * (p->trial[i + (c - i - 1) / 2].value +
                                  p->trial[i + (c - i) / 2].value)
                         : t->value;
        if (!b->from || s->confirmed > b->confirmed ||
            (s->confirmed == b->confirmed && s->value < b->value))
            *b = *s;
    }
}

static const int64_t *default_find(struct export_pool *p, const setting *best)
{
    const int64_t *found = NULL;
    double least = 0;
    size_t i, j, n_tasks = 0;
    for (i = 0; i < p->tasks.n; i++)
        n_tasks += best[i].from != NULL;
    qsort(p->setting, p->n_settings, sizeof *p->setting, by_setting);
    for (i = 0; i < p->n_settings; i = j) {
        double sum = 0;
        for (j = i; j < p->n_settings &&
                    values_order(p->setting[j].from->values,
                                 p->setting[i].from->values) == 0; j++)
            sum += log(p->setting[j].value / best[p->setting[j].task].value);
        if (j - i == n_tasks && (!found || sum < least)) {
            found = p->setting[i].from->values;
            least = sum;
        }
    }
    return found;
}

/* Rows with their tasks' texts, sorted by key. */
static int rows_make(export_table *x, const char *command)
{
    struct export_pool *p = x->pool;
    setting *best = (setting *)cmd_alloc(p->tasks.n * sizeof *best);
    metatune_error error;
    uint32_t n = 0, k;
    size_t i;
    memset(&error, 0, sizeof error);
    settings_make(p, best);
    p->rows = (metatune_lookup_row *)cmd_alloc(p->tasks.n * sizeof *p->rows);
    x->task = (char **)cmd_alloc(p->tasks.n * sizeof *x->task);
    for (i = 0; i < p->tasks.n; i++) {
        metatune_lookup_row *row = &p->rows[n];
        if (!best[i].from)
            continue;
        n++;
        if (metatune_encode_conv2d_parse(p->tasks.p[i], &row->conv, NULL) ==
            METATUNE_OK) {
            row->key = metatune_lookup_conv_key(&row->conv);
        } else {
            memset(&row->conv, 0, sizeof row->conv);
            row->key = metatune_lookup_text_key(p->tasks.p[i]);
        }
        row->space = best[i].from->space;
        row->values = best[i].from->values;
        row->value = best[i].value;
    }
    qsort(p->rows, n, sizeof *p->rows, by_key);
    for (i = 0; i < n; i++)
        x->task[i] = p->tasks.p[p->rows[i].values[-2]];
    p->knobs = (metatune_lookup_knob *)cmd_alloc(p->n_knobs *
                                                 sizeof *p->knobs);
    for (k = 0; k < p->n_knobs; k++) {
        p->knobs[k].name = p->knob_name[k];
        p->knobs[k].labels = (const char *const *)p->labels[k].p;
        p->knobs[k].n_labels = (uint32_t)p->labels[k].n;
    }
    x->table.knobs = p->knobs;
    x->table.n_knobs = p->n_knobs;
    x->table.rows = p->rows;
    x->table.n_rows = n;
    x->table.default_values = default_find(p, best);
    free(best);
    if (metatune_lookup_check(&x->table, &error) != METATUNE_OK)
        return cmd_fail_error(CMD_USAGE, command, &error);
    return CMD_OK;
}

int export_table_read(export_table *x, const char *command, size_t n_logs,
                      char *const *logs, const char *target, int or_the_only)
{
    struct export_pool *p;
    size_t i, n, kept = 0;
    int st = CMD_OK;
    memset(x, 0, sizeof *x);
    p = x->pool = (struct export_pool *)cmd_alloc(sizeof *p);
    for (i = 0; i < n_logs && st == CMD_OK; i++) {
        size_t bytes = 0, skip;
        char *text = cmd_file_read(logs[i], &bytes);
        if (!text)
            return cmd_fail(CMD_USAGE, "%s: cannot read %s: %s", command,
                            logs[i], strerror(errno));
        skip = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        if (text[skip] && text[skip] != '{' && memchr(text, ',', bytes))
            st = csv_read(x, command, logs[i], text + skip);
        else
            log_read(x, text, bytes);
        free(text);
    }
    if (st != CMD_OK)
        return st;
    if (!p->n && !x->n_failed)
        return cmd_fail(CMD_USAGE, "%s: no trial in %s%s (%zu lines are not "
                        "records)", command, n_logs ? logs[0] : "no log",
                        n_logs > 1 ? " and the others" : "", x->n_bad);
    if (!p->n)
        return cmd_fail(CMD_FAILED, "%s: none of %zu trials is valid",
                        command, x->n_failed);
    st = targets_choose(x, command, target, or_the_only);
    if (st == CMD_OK)
        st = knobs_choose(x, command);
    if (st != CMD_OK)
        return st;
    n = p->n_knobs + 2;
    p->values = (int64_t *)cmd_alloc(p->n * n * sizeof *p->values);
    for (i = 0; i < p->n; i++) {
        trial *t = &p->trial[kept];
        *t = p->trial[i];
        t->values = p->values + kept * n + 2;
        t->values[-1] = (int64_t)p->n_knobs;
        t->values[-2] = (int64_t)t->task;
        kept += trial_values(p, t) == 0;
    }
    x->n_left += p->n - kept;
    x->n_good = p->n = kept;
    if (!kept) /* its own knobs' values are not whole numbers */
        return cmd_fail(CMD_USAGE, "%s: the newest trial's knobs are neither "
                        "whole numbers nor labels", command);
    labels_sort(p);
    qsort(p->trial, p->n, sizeof *p->trial, by_task);
    return rows_make(x, command);
}

void export_table_free(export_table *x)
{
    struct export_pool *p = x->pool;
    uint32_t k;
    if (!p)
        return;
    for (k = 0; k < p->n_knobs; k++) {
        free(p->knob_name[k]);
        names_free(&p->labels[k]);
    }
    names_free(&p->tasks);
    names_free(&p->targets);
    cmd_text_free(&p->json);
    free(p->trial);
    free(p->values);
    free(p->setting);
    free(p->knobs);
    free(p->rows);
    free(x->task);
    free(p);
    memset(x, 0, sizeof *x);
}

/* -------------------------------------------------------------- C text */

/* A C string literal; '?' is escaped, too: there are trigraphs. Cut into
   pieces so that no line is long; column is where it begins. */
static void c_string(cmd_text *t, const char *s, int indent)
{
    size_t n = 0;
    cmd_text_add(t, "\"");
    for (; *s; s++, n++) {
        unsigned char c = (unsigned char)*s;
        if (n >= 60) {
            cmd_text_add(t, "\"\n%*s\"", indent, "");
            n = 0;
        }
        if (c == '"' || c == '\\' || c == '?')
            cmd_text_add(t, "\\%c", c);
        else if (c < 32 || c > 126)
            cmd_text_add(t, "\\%03o", c);
        else
            cmd_text_add(t, "%c", c);
    }
    cmd_text_add(t, "\"");
}

/* Text inside a comment: nothing that ends it, no line break. */
static void c_comment(cmd_text *t, const char *s, size_t most)
{
    size_t n = 0;
    for (; *s && n < most; s++, n++)
        cmd_text_add(t, "%c", *s == '*' || *s == '/' || *s == '\\' ||
                     *s == '?' || *s < 32 || *s > 126 ? '.' : *s);
    if (*s)
        cmd_text_add(t, "...");
}

static void c_number(cmd_text *t, double x)
{
    char buf[32];
    size_t n = metatune_number_write(x, buf, sizeof buf);
    buf[n] = 0;
    cmd_text_add(t, "%s%s", buf, strpbrk(buf, ".eE") ? "" : ".0");
}

static void c_values(cmd_text *t, const int64_t *values, uint32_t n)
{
    char buf[40];
    size_t column = 5;
    uint32_t k;
    cmd_text_add(t, "    {");
    for (k = 0; k < n; k++) {
        int64_t v = values[k];
        int m;
        if (v == INT64_MIN)
            m = snprintf(buf, sizeof buf, "INT64_MIN");
        else
            m = snprintf(buf, sizeof buf, "%lld%s", (long long)v,
                         v > INT32_MAX || v < -INT32_MAX ? "LL" : "");
        if (column + (size_t)m + 3 > 79) {
            cmd_text_add(t, "\n     ");
            column = 5;
        }
        cmd_text_add(t, "%s%s", buf, k + 1 < n ? ", " : "}");
        column += (size_t)m + 2;
    }
}

int export_header_text(const export_table *x, const char *name,
                       cmd_text *t)
{
    const metatune_lookup_table *table = &x->table;
    static const char *const units[] = {"METATUNE_SECONDS", "METATUNE_CYCLES",
                                        "METATUNE_INSTRUCTIONS"};
    char guard[64];
    uint32_t i, k;
    size_t n;
    name = name ? name : "metatune_table";
    n = strlen(name);
    for (i = 0; name[i]; i++)
        if (!isalpha((unsigned char)name[i]) && name[i] != '_' &&
            !(i && isdigit((unsigned char)name[i])))
            n = 0; /* the locale is "C": no other letters */
    if (n == 0 || n > 48 || name[0] == '_')
        return cmd_fail(CMD_USAGE, "export: --name is \"%s\", want a C "
                        "identifier of at most 48 letters, not beginning "
                        "with _", name);
    for (i = 0; i <= (uint32_t)n; i++)
        guard[i] = (char)toupper((unsigned char)name[i]);

    cmd_text_add(t, "/* %s.h - settings of %u tasks as a lookup table\n"
                 "   written by `metatune export --format header` from %zu "
                 "valid trials; ask it:\n"
                 "     metatune_lookup_find(&%s, target, &conv,\n"
                 "                          valid, user, 0, &result)\n"
                 "   see [M-LOOKUP] in metatune.h. Units: values are %s.\n"
                 "   target ", name, table->n_rows, x->n_good, name,
                 table->unit == METATUNE_SECONDS ? "seconds"
                     : table->unit == METATUNE_CYCLES ? "cycles"
                                                      : "instructions");
    c_comment(t, table->target, 60);
    cmd_text_add(t, " */\n#ifndef %s_H\n#define %s_H\n\n"
                 "#include \"metatune.h\"\n\n", guard, guard);
    for (k = 0; k < table->n_knobs; k++) {
        const metatune_lookup_knob *knob = &table->knobs[k];
        uint32_t j;
        if (!knob->labels)
            continue;
        cmd_text_add(t, "static const char *const %s_labels_%u[%u] = {", name,
                     k, knob->n_labels);
        for (j = 0; j < knob->n_labels; j++) {
            cmd_text_add(t, "\n    ");
            c_string(t, knob->labels[j], 4);
            cmd_text_add(t, "%s", j + 1 < knob->n_labels ? "," : "");
        }
        cmd_text_add(t, "\n};\n");
    }
    cmd_text_add(t, "static const metatune_lookup_knob %s_knobs[%u] = {\n",
                 name, table->n_knobs);
    for (k = 0; k < table->n_knobs; k++) {
        const metatune_lookup_knob *knob = &table->knobs[k];
        cmd_text_add(t, "    {");
        c_string(t, knob->name, 5);
        if (knob->labels)
            cmd_text_add(t, ",\n     %s_labels_%u, %u}", name, k,
                         knob->n_labels);
        else
            cmd_text_add(t, ", NULL, 0}");
        cmd_text_add(t, "%s\n", k + 1 < table->n_knobs ? "," : "");
    }
    cmd_text_add(t, "};\n\n/* rows as below%s */\n"
                 "static const int64_t %s_values[%u][%u] = {\n",
                 table->default_values ? ", then the default" : "", name,
                 table->n_rows + (table->default_values != NULL),
                 table->n_knobs);
    for (i = 0; i < table->n_rows; i++) {
        c_values(t, table->rows[i].values, table->n_knobs);
        cmd_text_add(t, "%s\n", i + 1 < table->n_rows ||
                     table->default_values ? "," : "");
    }
    if (table->default_values) {
        c_values(t, table->default_values, table->n_knobs);
        cmd_text_add(t, "\n");
    }
    cmd_text_add(t, "};\n\n/* n c h w k r s, strides, pads, dilations, groups,"
                 " dtypes, layout, block,\n   dtype of sums, fused; key; space;"
                 " values; measured */\n"
                 "static const metatune_lookup_row %s_rows[%u] = {\n", name,
                 table->n_rows);
    for (i = 0; i < table->n_rows; i++) {
        const metatune_lookup_row *r = &table->rows[i];
        const metatune_encode_conv2d *v = &r->conv;
        cmd_text_add(t, "    /* ");
        c_comment(t, x->task[i], 66);
        cmd_text_add(t, " */\n    {{%d, %d, %d, %d, %d, %d, %d, %d, %d,\n"
                     "      %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, "
                     "%d},\n     0x%016llxu, 0x%016llxu,\n     %s_values[%u],"
                     " ", v->n, v->c, v->h, v->w, v->k, v->r, v->s,
                     v->stride_h, v->stride_w, v->pad_top, v->pad_bottom,
                     v->pad_left, v->pad_right, v->dil_h, v->dil_w, v->groups,
                     v->dtype_in, v->dtype_out, v->layout, v->block,
                     v->dtype_acc, v->fused, (unsigned long long)r->key,
                     (unsigned long long)r->space, name, i);
        c_number(t, r->value);
        cmd_text_add(t, "}%s\n", i + 1 < table->n_rows ? "," : "");
    }
    cmd_text_add(t, "};\n\nstatic const metatune_lookup_table %s = {\n    ",
                 name);
    c_string(t, table->target, 4);
    cmd_text_add(t, ",\n    %s,\n    %s_knobs, %u,\n    %s_rows, %u,\n    ",
                 units[table->unit], name, table->n_knobs, name,
                 table->n_rows);
    if (table->default_values)
        cmd_text_add(t, "%s_values[%u]\n", name, table->n_rows);
    else
        cmd_text_add(t, "NULL\n");
    cmd_text_add(t, "};\n\n#endif\n");
    return CMD_OK;
}

int export_header_main(int n_logs, char **logs, const char *name,
                       const char *target, FILE *out)
{
    export_table x;
    cmd_text text;
    int st;
    memset(&text, 0, sizeof text);
    st = export_table_read(&x, "export", n_logs > 0 ? (size_t)n_logs : 0,
                           logs, target, 0);
    if (st == CMD_OK)
        st = export_header_text(&x, name, &text);
    if (st == CMD_OK && fwrite(text.p, 1, text.n, out) != text.n)
        st = cmd_fail(CMD_FAILED, "export: cannot write the header: %s",
                      strerror(errno));
    if (st == CMD_OK && x.n_left + x.n_bad) /* never silently */
        fprintf(stderr, "metatune: export: %zu trials of other knobs or "
                "units and %zu damaged lines were left out\n", x.n_left,
                x.n_bad);
    cmd_text_free(&text);
    export_table_free(&x);
    return st;
}
