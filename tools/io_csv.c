/* io_csv.c - tables: knob columns, then status, time_ms

   status is `ok` or a failure class in small letters (reading, another tool's
   word for a failure will do); time_ms is empty unless it is ok. Every column
   is a knob but status, time_ms and those that other tables may have: task,
   target, metatune. Cells follow RFC 4180: quotes
   around commas, quotes and line ends, "" for a quote. A cell that reads as a
   JSON number or string is that; any other is a label.

   Export writes a table: one row a setting, its time the median of its confirm
   trials or else its newest trial; task and target columns only when there are
   several. With --all, a row a line of the log and a last column `metatune`
   with the rest, from which import makes the same log again.

   A last row without a line end may be cut (0.2 of 0.25): it is left out. */
#include "io.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------- reader */

typedef struct csv_row {
    metatune_text *cell;
    size_t n, cap;
    int whole;                   /* ended with a line end */
    int broken;                  /* a quote that does not close */
} csv_row;

static void cell_add(csv_row *row, const char *p, size_t n)
{
    if (row->n == row->cap) {
        row->cap = 2 * row->cap + 32;
        row->cell = (metatune_text *)cmd_realloc(
            row->cell, row->cap * sizeof *row->cell);
    }
    row->cell[row->n].p = p;
    row->cell[row->n++].n = n;
}

/* The next row at *i; 0 at the end. */
static int row_read(json_pool *pool, csv_row *row, const char *s, size_t n,
                    size_t *i)
{
    row->n = 0;
    row->whole = row->broken = 0;
    if (*i >= n)
        return 0;
    for (;;) {
        size_t from = *i, m = 0;
        if (*i < n && s[*i] == '"') {
            char *p;
            size_t k = *i + 1;
            while (k < n && (s[k] != '"' || (k + 1 < n && s[k + 1] == '"')))
                k += s[k] == '"' ? 2 : 1;
            if (k >= n) { /* take the line, not the rest of the file */
                const char *end = (const char *)memchr(s + from, '\n',
                                                       n - from);
                row->broken = 1;
                *i = end ? (size_t)(end - s) + 1 : n;
                return 1;
            }
            p = (char *)json_pool_take(pool, k - from);
            for (from++; from < k; from++) {
                p[m++] = s[from];
                if (s[from] == '"')
                    from++;
            }
            cell_add(row, p, m);
            *i = k + 1;
            while (*i < n && s[*i] != ',' && s[*i] != '\n') {
                if (s[*i] != '\r')
                    row->broken = 1;
                (*i)++;
            }
        } else {
            while (*i < n && s[*i] != ',' && s[*i] != '\n')
                (*i)++;
            m = *i - from;
            if (m && s[from + m - 1] == '\r' && *i < n && s[*i] == '\n')
                m--;
            cell_add(row, s + from, m);
        }
        if (*i >= n)
            return 1;
        if (s[(*i)++] == '\n') {
            row->whole = 1;
            return 1;
        }
    }
}

static int is(metatune_text t, const char *z)
{
    return t.n == strlen(z) && memcmp(t.p, z, t.n) == 0;
}

typedef struct csv_columns {
    metatune_text *name;
    size_t n;
    size_t status, time, task, target, rest; /* n = absent */
} csv_columns;

static void knobs_read(io_import *io, const csv_columns *h,
                       const csv_row *row, cmd_text *knobs)
{
    cmd_text none;
    size_t c;
    memset(&none, 0, sizeof none);
    for (c = 0; c < h->n; c++) {
        metatune_text cell = row->cell[c];
        const char *why;
        json_value *v = NULL, label;
        if (c == h->status || c == h->time || c == h->task ||
            c == h->target || c == h->rest || cell.n == 0)
            continue;
        if (cell.p[0] == '"' || cell.p[0] == '-' ||
            (cell.p[0] >= '0' && cell.p[0] <= '9'))
            v = json_read(&io->pool, cell.p, cell.n, &why);
        if (v && v->n_raw != cell.n) /* blanks are part of a label */
            v = NULL;
        if (!v) {
            memset(&label, 0, sizeof label);
            label.type = JSON_STRING;
            label.text = cell.p;
            label.n = cell.n;
            v = &label;
        }
        io_knob_add(knobs, &none, h->name[c].p, h->name[c].n, v);
    }
    cmd_text_add(knobs, knobs->n ? "}" : "{}");
    cmd_text_free(&none);
}

static void row_emit(io_import *io, const csv_columns *h, const csv_row *row,
                     size_t at)
{
    metatune_record r;
    cmd_text knobs;
    const json_value *extra = NULL;
    const char *why;
    metatune_text status = {"", 0}, time = {"", 0};
    int finer = -1, st;
    memset(&r, 0, sizeof r);
    memset(&knobs, 0, sizeof knobs);
    if (h->rest < h->n && row->cell[h->rest].n)
        extra = json_read(&io->pool, row->cell[h->rest].p,
                          row->cell[h->rest].n, &why);
    if (extra && io_extra_line(io, extra))
        return;
    if (h->status < h->n)
        status = row->cell[h->status];
    if (h->time < h->n)
        time = row->cell[h->time];
    st = status.n ? io_status_find(status.p, status.n)
       : time.n ? METATUNE_OK : METATUNE_NOT_RUN;
    if (st < 0 && !time.n) { /* another tool's word for a failure */
        st = io_status_foreign(status.p, status.n);
        st = st < 0 ? METATUNE_RUNTIME : st;
        r.error = status;
    }
    if (st < 0) {
        io_bad(io, 1, "row %zu: unknown status \"%.*s\"", at,
               (int)(status.n < 40 ? status.n : 40), status.p);
        return;
    }
    r.status = (metatune_status)st;
    if (h->task < h->n)
        r.task = row->cell[h->task];
    if (h->target < h->n)
        r.target = row->cell[h->target];
    if (extra)
        io_extra_read(io, extra, &r, &finer);
    if (st == METATUNE_OK && r.unit == METATUNE_SECONDS &&
        !io_number_read(time.p, time.n, -3, &r.value)) {
        io_bad(io, 1, "row %zu: time_ms is not a number", at);
        return;
    }
    knobs_read(io, h, row, &knobs);
    r.knobs_json.p = knobs.p;
    r.knobs_json.n = knobs.n;
    io_emit(io, &r);
    cmd_text_free(&knobs);
}

static int header_read(io_import *io, csv_row *row, csv_columns *h)
{
    size_t c, k;
    h->name = row->cell;
    h->n = row->n;
    h->status = h->time = h->task = h->target = h->rest = h->n;
    for (c = 0; c < h->n; c++) {
        metatune_text name = h->name[c];
        for (k = 0; k < c; k++)
            if (h->name[k].n == name.n &&
                memcmp(h->name[k].p, name.p, name.n) == 0)
                break;
        if (k < c || name.n == 0 || memchr(name.p, 0, name.n)) {
            io_bad(io, 0, "column %zu has no name of its own", c + 1);
            return 0;
        }
        if (is(name, "status"))
            h->status = c;
        else if (is(name, "time_ms"))
            h->time = c;
        else if (is(name, "task"))
            h->task = c;
        else if (is(name, "target"))
            h->target = c;
        else if (is(name, "metatune"))
            h->rest = c;
    }
    if (h->time == h->n || row->broken) {
        io_bad(io, 0, "no column time_ms in its first line");
        return 0;
    }
    row->cell = NULL; /* the header's now */
    row->cap = 0;
    return 1;
}

int io_csv_read(io_import *io, const char *s, size_t n)
{
    csv_columns h;
    csv_row row;
    json_pool head;
    size_t i = 0, at = 1;
    io->format = "csv";
    memset(&h, 0, sizeof h);
    memset(&row, 0, sizeof row);
    memset(&head, 0, sizeof head);
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0)
        i = 3;
    if (!row_read(&head, &row, s, n, &i) || !header_read(io, &row, &h)) {
        io_bad(io, 0, "it is empty");
        free(row.cell);
        json_pool_free(&head);
        return 0;
    }
    while (json_pool_reset(&io->pool), row_read(&io->pool, &row, s, n, &i)) {
        at++;
        if (row.n == 1 && row.cell[0].n == 0 && !row.broken) {
            io->n_skipped++;
        } else if (!row.whole || row.broken || row.n != h.n) {
            io_bad(io, 1, "row %zu: %s", at, row.broken ? "a broken quote"
                   : row.whole ? "not as many cells as columns"
                               : "no line end, so it may be cut");
            io->torn |= !row.whole;
        } else {
            row_emit(io, &h, &row, at);
        }
    }
    free(h.name);
    free(row.cell);
    json_pool_free(&head);
    return 1;
}

/* ------------------------------------------------------------- writer */

static void cell_write(cmd_text *t, const char *p, size_t n)
{
    size_t i;
    int plain = n == 0 || (p[0] != ' ' && p[n - 1] != ' ');
    for (i = 0; i < n && plain; i++)
        plain = p[i] != '"' && p[i] != ',' && p[i] != '\n' && p[i] != '\r';
    if (plain) {
        cmd_text_bytes(t, p, n);
        return;
    }
    cmd_text_add(t, "\"");
    for (i = 0; i < n; i++) {
        if (p[i] == '"')
            cmd_text_add(t, "\"");
        cmd_text_bytes(t, p + i, 1);
    }
    cmd_text_add(t, "\"");
}

/* A knob's value: a label that reads as a number keeps its quotes. */
static void knob_write(cmd_text *t, const json_value *v)
{
    cmd_text part;
    int quoted;
    if (!json_is(v, JSON_STRING)) {
        json_write(t, v);
        return;
    }
    quoted = v->n == 0 || v->text[0] == '"' || v->text[0] == '-' ||
             (v->text[0] >= '0' && v->text[0] <= '9');
    if (!quoted) {
        cell_write(t, v->text, v->n);
        return;
    }
    memset(&part, 0, sizeof part);
    json_write(&part, v);
    cell_write(t, part.p, part.n);
    cmd_text_free(&part);
}

typedef struct csv_names {
    char **p;
    size_t n, cap;
} csv_names;

static size_t name_find(csv_names *names, const char *p, size_t n)
{
    size_t i;
    for (i = 0; i < names->n; i++)
        if (strlen(names->p[i]) == n && memcmp(names->p[i], p, n) == 0)
            break;
    return i;
}

static void name_add(csv_names *names, const char *p, size_t n)
{
    if (memchr(p, 0, n) || name_find(names, p, n) < names->n)
        return;
    if (names->n == names->cap) {
        names->cap = 2 * names->cap + 16;
        names->p = (char **)cmd_realloc(names->p,
                                        names->cap * sizeof *names->p);
    }
    names->p[names->n] = (char *)cmd_alloc(n + 1);
    memcpy(names->p[names->n++], p, n);
}

static void names_free(csv_names *names)
{
    size_t i;
    for (i = 0; i < names->n; i++)
        free(names->p[i]);
    free(names->p);
}

/* A setting's row. */
typedef struct csv_setting {
    char *key;                   /* task, target, knobs */
    size_t n_key;
    metatune_text task, target, knobs;
    metatune_status status;
    double value;
    double *confirm;
    size_t n_confirm;
} csv_setting;

typedef struct csv_table {
    csv_setting *row;
    size_t n, cap;
    size_t *slot, n_slots;       /* row + 1, open addressing */
} csv_table;

static uint32_t hash(const char *p, size_t n)
{
    return metatune_crc32(0, p, n);
}

static void table_grow(csv_table *t)
{
    size_t i;
    t->cap = t->cap ? 2 * t->cap : 256;
    t->row = (csv_setting *)cmd_realloc(t->row, t->cap * sizeof *t->row);
    free(t->slot);
    t->n_slots = 4 * t->cap;
    t->slot = (size_t *)cmd_alloc(t->n_slots * sizeof *t->slot);
    for (i = 0; i < t->n; i++) {
        size_t k = hash(t->row[i].key, t->row[i].n_key) % t->n_slots;
        while (t->slot[k])
            k = (k + 1) % t->n_slots;
        t->slot[k] = i + 1;
    }
}

static csv_setting *table_row(csv_table *t, const metatune_record *r)
{
    cmd_text key;
    size_t k;
    csv_setting *row;
    if (t->n == t->cap)
        table_grow(t);
    memset(&key, 0, sizeof key);
    cmd_text_bytes(&key, r->task.p, r->task.n);
    cmd_text_bytes(&key, "\n", 1);
    cmd_text_bytes(&key, r->target.p, r->target.n);
    cmd_text_bytes(&key, "\n", 1);
    cmd_text_bytes(&key, r->knobs_json.p, r->knobs_json.n);
    for (k = hash(key.p, key.n) % t->n_slots; t->slot[k];
         k = (k + 1) % t->n_slots) {
        row = &t->row[t->slot[k] - 1];
        if (row->n_key == key.n && memcmp(row->key, key.p, key.n) == 0) {
            cmd_text_free(&key);
            return row;
        }
    }
    row = &t->row[t->n++];
    t->slot[k] = t->n;
    memset(row, 0, sizeof *row);
    row->key = key.p;
    row->n_key = key.n;
    row->task = r->task;
    row->target = r->target;
    row->knobs = r->knobs_json;
    row->status = METATUNE_NOT_RUN;
    return row;
}

static int by_value(const void *a, const void *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    return *x < *y ? -1 : *x > *y;
}

static void table_add(csv_table *t, const metatune_record *r)
{
    csv_setting *row = table_row(t, r);
    if (r->trial_kind == METATUNE_CONFIRM) {
        if (r->status != METATUNE_OK)
            return;
        row->confirm = (double *)cmd_realloc(
            row->confirm, (row->n_confirm + 1) * sizeof *row->confirm);
        row->confirm[row->n_confirm++] = r->value;
    } else if (r->status != METATUNE_NOT_RUN &&
               r->status != METATUNE_CANCELLED) {
        row->status = r->status;
        row->value = r->value;
    }
}

static void knobs_write(cmd_text *t, json_pool *pool, const csv_names *names,
                        metatune_text json)
{
    const char *why;
    const json_value *knobs = json_read(pool, json.p, json.n, &why);
    size_t i;
    for (i = 0; i < names->n; i++) {
        const json_value *v = json_get(knobs, names->p[i]);
        if (v)
            knob_write(t, v);
        cmd_text_add(t, ",");
    }
}

static void plain_cell(cmd_text *t, json_pool *pool, metatune_text raw)
{
    size_t n = 0;
    const char *p = io_text_plain(pool, raw, &n);
    cell_write(t, p, n);
}

static void all_write(io_export *x, cmd_text *t, json_pool *pool,
                      const csv_names *knobs, const metatune_record *r,
                      metatune_text line)
{
    cmd_text rest;
    char word[32];
    int seconds = r->unit == METATUNE_SECONDS;
    metatune_text none = {"{}", 2};
    memset(&rest, 0, sizeof rest);
    if (r->kind != METATUNE_RECORD_TRIAL) {
        knobs_write(t, pool, knobs, none);
        cmd_text_add(t, ",,");
        cmd_text_add(&rest, "{\"line\":");
        cmd_text_bytes(&rest, line.p, line.n);
        cmd_text_add(&rest, "}");
    } else {
        knobs_write(t, pool, knobs, r->knobs_json);
        cmd_text_add(t, "%s,", io_status_word(r->status, word, sizeof word));
        if (r->status == METATUNE_OK && seconds)
            io_number_add(t, r->value, 3);
        cmd_text_add(t, ",");
        io_extra_write(&rest, pool, r, IO_VALUE, NULL);
        x->n_written++;
        x->n_failed += r->status != METATUNE_OK;
    }
    cell_write(t, rest.p, rest.n);
    cmd_text_add(t, "\n");
    cmd_text_free(&rest);
}

static void table_write(io_export *x, cmd_text *t, json_pool *pool,
                        csv_table *table, const csv_names *knobs,
                        int with_task, int with_target)
{
    char word[32];
    size_t i;
    for (i = 0; i < table->n; i++) {
        csv_setting *row = &table->row[i];
        if (row->n_confirm) {
            qsort(row->confirm, row->n_confirm, sizeof *row->confirm,
                  by_value);
            row->value = row->confirm[(row->n_confirm - 1) / 2];
            row->status = METATUNE_OK;
        }
        if (row->status == METATUNE_NOT_RUN && !x->listing)
            continue;
        json_pool_reset(pool);
        if (with_task) {
            plain_cell(t, pool, row->task);
            cmd_text_add(t, ",");
        }
        if (with_target) {
            plain_cell(t, pool, row->target);
            cmd_text_add(t, ",");
        }
        knobs_write(t, pool, knobs, row->knobs);
        cmd_text_add(t, "%s,", io_status_word(row->status, word, sizeof word));
        if (row->status == METATUNE_OK)
            io_number_add(t, row->value, 3);
        cmd_text_add(t, "\n");
        x->n_written++;
        x->n_failed += row->status != METATUNE_OK;
    }
}

int io_csv_write(io_export *x, io_logs *logs, cmd_text *t)
{
    metatune_record r;
    metatune_text line;
    json_pool pool;
    csv_names knobs, tasks, targets;
    csv_table table;
    size_t i;
    int clash = 0;
    memset(&pool, 0, sizeof pool);
    memset(&knobs, 0, sizeof knobs);
    memset(&tasks, 0, sizeof tasks);
    memset(&targets, 0, sizeof targets);
    memset(&table, 0, sizeof table);
    while (io_logs_next(logs, &r, &line)) {
        const char *why;
        const json_value *c;
        if (!io_wanted(x, &r) || r.kind != METATUNE_RECORD_TRIAL)
            continue;
        json_pool_reset(&pool);
        c = json_read(&pool, r.knobs_json.p, r.knobs_json.n, &why);
        for (c = c ? c->child : NULL; c; c = c->next)
            name_add(&knobs, c->key, c->n_key);
        if (!x->all && r.unit != METATUNE_SECONDS) {
            x->n_unit++;
            continue;
        }
        name_add(&tasks, r.task.p, r.task.n);
        name_add(&targets, r.target.p, r.target.n);
        if (!x->all)
            table_add(&table, &r);
    }
    for (i = 0; i < knobs.n; i++) {
        static const char *const ours[] = {"status", "time_ms", "task",
                                           "target", "metatune"};
        size_t k;
        for (k = 0; k < sizeof ours / sizeof ours[0]; k++)
            clash |= strcmp(knobs.p[i], ours[k]) == 0;
    }
    if (!x->all && tasks.n > 1)
        cmd_text_add(t, "task,");
    if (!x->all && targets.n > 1)
        cmd_text_add(t, "target,");
    for (i = 0; i < knobs.n; i++) {
        cell_write(t, knobs.p[i], strlen(knobs.p[i]));
        cmd_text_add(t, ",");
    }
    cmd_text_add(t, x->all ? "status,time_ms,metatune\n" : "status,time_ms\n");
    if (!x->all)
        table_write(x, t, &pool, &table, &knobs, tasks.n > 1, targets.n > 1);
    io_logs_rewind(logs);
    while (x->all && io_logs_next(logs, &r, &line)) {
        if (!io_wanted(x, &r))
            continue;
        json_pool_reset(&pool);
        all_write(x, t, &pool, &knobs, &r, line);
    }
    for (i = 0; i < table.n; i++) {
        free(table.row[i].key);
        free(table.row[i].confirm);
    }
    free(table.row);
    free(table.slot);
    names_free(&knobs);
    names_free(&tasks);
    names_free(&targets);
    json_pool_free(&pool);
    return clash ? cmd_fail(CMD_USAGE, "%s: a knob is named like a column of "
                            "the table (status, time_ms, task, target, "
                            "metatune)", x->command)
                 : CMD_OK;
}
