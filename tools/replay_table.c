/* replay_table.c - see replay_table.h */
#define _POSIX_C_SOURCE 200809L

#include "replay_table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A table as read, before it is brought into order. */
typedef struct raw_table {
    char **name;                 /* (n_knobs) */
    uint32_t n_knobs, n_rows, cap;
    int64_t *value;              /* (n_rows, n_knobs) */
    double *time_s;              /* (n_rows) 0 = failed */
} raw_table;

static void raw_free(raw_table *raw)
{
    uint32_t k;
    for (k = 0; k < raw->n_knobs; k++)
        free(raw->name[k]);
    free(raw->name);
    free(raw->value);
    free(raw->time_s);
}

static int64_t *raw_row(raw_table *raw, double time_s)
{
    if (raw->n_rows == raw->cap) {
        raw->cap = 2 * raw->cap + 64;
        raw->value = (int64_t *)cmd_realloc(
            raw->value, (size_t)raw->cap * raw->n_knobs * sizeof *raw->value);
        raw->time_s = (double *)cmd_realloc(raw->time_s, raw->cap *
                                            sizeof *raw->time_s);
    }
    raw->time_s[raw->n_rows] = time_s;
    return raw->value + (size_t)raw->n_rows++ * raw->n_knobs;
}

/* --------------------------------------------------------------- order */

typedef struct column {
    uint64_t key;
    uint32_t at;
} column;

static int by_column(const void *a, const void *b)
{
    const column *x = (const column *)a, *y = (const column *)b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* What a column holds, whatever the rows' order: a sum over rows of a hash of
   (value, time). Two columns with the same sum are alike in all that matters
   here. */
static uint64_t column_key(const raw_table *raw, uint32_t k)
{
    uint64_t sum = 0, bits;
    uint32_t i;
    for (i = 0; i < raw->n_rows; i++) {
        memcpy(&bits, &raw->time_s[i], sizeof bits);
        sum += metatune_encode_hash_u64(
            metatune_encode_hash_u64(
                1, (uint64_t)raw->value[(size_t)i * raw->n_knobs + k]), bits);
    }
    return sum;
}

typedef struct row_ref {
    const int64_t *value;
    uint32_t n, at;
} row_ref;

static int by_row(const void *a, const void *b)
{
    const row_ref *x = (const row_ref *)a, *y = (const row_ref *)b;
    uint32_t k;
    for (k = 0; k < x->n; k++)
        if (x->value[k] != y->value[k])
            return x->value[k] < y->value[k] ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* fixed: the columns' order means something. CMD_OK, or CMD_USAGE after one
   line; raw is used up. */
static int table_settle(replay_table *t, raw_table *raw, int fixed)
{
    uint32_t n = raw->n_rows, m = raw->n_knobs, i, k;
    column *order = (column *)cmd_alloc((m + 1) * sizeof *order);
    row_ref *row = (row_ref *)cmd_alloc((n + 1) * sizeof *row);
    int64_t *value, *sorted, *at;
    size_t names = 0;
    char *text;
    int st = CMD_OK;
    t->n_knobs = m;
    value = (int64_t *)cmd_alloc(((size_t)n * m + 1) * sizeof *value);
    for (k = 0; k < m; k++) {
        order[k].key = fixed ? k : column_key(raw, k);
        order[k].at = k;
        names += strlen(raw->name[k]) + 1;
    }
    qsort(order, m, sizeof *order, by_column);
    for (i = 0; i < n; i++) {
        for (k = 0; k < m; k++)
            value[(size_t)i * m + k] =
                raw->value[(size_t)i * m + order[k].at];
        row[i].value = value + (size_t)i * m;
        row[i].n = m;
        row[i].at = i;
    }
    qsort(row, n, sizeof *row, by_row);
    t->value = (int64_t *)cmd_alloc(((size_t)n * m + 1) * sizeof *t->value);
    t->digits = (uint16_t *)cmd_alloc(((size_t)n * m + 1) *
                                      sizeof *t->digits);
    t->time_s = (double *)cmd_alloc((n + 1) * sizeof *t->time_s);
    t->knob = (metatune_knob *)cmd_alloc((m + 1) * sizeof *t->knob);
    for (i = 0; i < n; i++) {
        if (i && memcmp(row[i].value, row[i - 1].value,
                        m * sizeof *row[i].value) == 0)
            continue; /* the same setting again: the first counts */
        memcpy(t->value + (size_t)t->n_rows * m, row[i].value,
               m * sizeof *t->value);
        t->time_s[t->n_rows] = raw->time_s[row[i].at];
        if (t->time_s[t->n_rows] > 0 &&
            (!(t->optimum_s > 0) || t->time_s[t->n_rows] < t->optimum_s))
            t->optimum_s = t->time_s[t->n_rows];
        t->n_rows++;
    }
    n = t->n_rows;
    /* knobs: the distinct values of each column, then the names */
    t->store = (char *)cmd_alloc(((size_t)n * m + 1) * sizeof(int64_t) +
                                 names);
    at = (int64_t *)(void *)t->store;
    text = t->store + ((size_t)n * m + 1) * sizeof(int64_t);
    for (k = 0; k < m && st == CMD_OK; k++) {
        uint32_t distinct = 0;
        sorted = at;
        for (i = 0; i < n; i++)
            sorted[i] = t->value[(size_t)i * m + k];
        qsort(sorted, n, sizeof *sorted, by_value);
        for (i = 0; i < n; i++)
            if (i == 0 || sorted[i] != sorted[i - 1])
                sorted[distinct++] = sorted[i];
        if (distinct > 65535)
            st = cmd_fail(CMD_USAGE, "%s: column %s has %u values, at most "
                          "65535", t->name, raw->name[order[k].at],
                          (unsigned)distinct);
        strcpy(text, raw->name[order[k].at]);
        t->knob[k].name = text;
        t->knob[k].values = sorted;
        t->knob[k].n_values = distinct;
        text += strlen(text) + 1;
        at += distinct;
    }
    for (i = 0; i < n && st == CMD_OK; i++)
        (void)metatune_space_digits(t->knob, m, t->value + (size_t)i * m,
                                    t->digits + (size_t)i * m);
    free(order);
    free(row);
    free(value);
    raw_free(raw);
    if (st == CMD_OK && !(t->optimum_s > 0))
        st = cmd_fail(CMD_USAGE, "%s: no row is valid", t->name);
    return st;
}

/* ----------------------------------------------------------------- CSV */

/* Cut a line at its commas, in place. */
static uint32_t cells_cut(char *line, char **cell, uint32_t cap)
{
    uint32_t n = 0;
    while (n < cap) {
        char *comma = strchr(line, ',');
        cell[n++] = line;
        if (!comma)
            break;
        *comma = 0;
        line = comma + 1;
    }
    return n;
}

static int csv_read(replay_table *t, const char *path, char *text)
{
    enum { CELLS = METATUNE_MAX_KNOBS + 8 };
    char *cell[CELLS], *line, *next;
    uint32_t status = CELLS, time_ms = CELLS, n, k, knobs[CELLS];
    unsigned long number = 1;
    raw_table raw;
    int st = CMD_OK;
    memset(&raw, 0, sizeof raw);
    line = text;
    next = line + strcspn(line, "\n");
    if (*next)
        *next++ = 0;
    line[strcspn(line, "\r")] = 0;
    n = cells_cut(line, cell, CELLS);
    raw.name = (char **)cmd_alloc(CELLS * sizeof *raw.name);
    for (k = 0; k < n; k++) {
        if (strcmp(cell[k], "status") == 0)
            status = k;
        else if (strcmp(cell[k], "time_ms") == 0)
            time_ms = k;
        else {
            knobs[raw.n_knobs] = k;
            raw.name[raw.n_knobs++] = cmd_format("%s", cell[k]);
        }
    }
    if (status == CELLS || time_ms == CELLS || raw.n_knobs == 0 ||
        raw.n_knobs > METATUNE_MAX_KNOBS) {
        raw_free(&raw);
        return cmd_fail(CMD_USAGE, "%s: want a first line of 1 to %d knob "
                        "names, status and time_ms", path,
                        METATUNE_MAX_KNOBS);
    }
    for (line = next; *line && st == CMD_OK; line = next) {
        double ms = 0;
        int64_t *value;
        char *end;
        number++;
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = 0;
        line[strcspn(line, "\r")] = 0;
        if (!*line)
            continue;
        if (cells_cut(line, cell, CELLS) != n) {
            st = cmd_fail(CMD_USAGE, "%s: line %lu has not the %u cells of "
                          "the first", path, number, (unsigned)n);
            break;
        }
        if (strcmp(cell[status], "ok") == 0) {
            ms = strtod(cell[time_ms], &end);
            if (end == cell[time_ms] || *end || !(ms > 0 && ms < 1e12)) {
                st = cmd_fail(CMD_USAGE, "%s: line %lu: time_ms \"%.40s\", "
                              "want a positive number", path, number,
                              cell[time_ms]);
                break;
            }
        }
        value = raw_row(&raw, ms * 1e-3);
        for (k = 0; k < raw.n_knobs; k++) {
            const char *v = cell[knobs[k]];
            value[k] = strtoll(v, &end, 10);
            if (end == v || *end) {
                st = cmd_fail(CMD_USAGE, "%s: line %lu: %s is \"%.40s\", want "
                              "a whole number", path, number, raw.name[k],
                              v);
                break;
            }
        }
    }
    if (st != CMD_OK || raw.n_rows == 0) {
        raw_free(&raw);
        return st != CMD_OK ? st
               : cmd_fail(CMD_USAGE, "%s has no rows", path);
    }
    return table_settle(t, &raw, 0);
}

/* ---------------------------------------------------- collected layers */

static int group_read(replay_table *t, const data_group *g)
{
    raw_table raw;
    size_t i;
    int32_t k;
    memset(&raw, 0, sizeof raw);
    t->kernel = (host_kernel *)cmd_alloc(sizeof *t->kernel);
    t->device = g->device;
    if (host_kernel_init(t->kernel, &g->conv, &g->march, NULL, 0) !=
        METATUNE_OK)
        return cmd_fail(CMD_USAGE, "%s: these kernels do not support it",
                        t->name);
    raw.name = (char **)cmd_alloc(HOST_KNOBS * sizeof *raw.name);
    for (k = 0; k < HOST_KNOBS; k++)
        raw.name[raw.n_knobs++] = cmd_format("%s", t->kernel->knob[k].name);
    for (i = 0; i < g->n; i++) {
        const data_row *row = &g->row[i];
        if (row->mark == 'g' || row->mark == 'x' ||
            !host_kernel_valid(t->kernel, row->values))
            continue;
        memcpy(raw_row(&raw, row->time_s), row->values, sizeof row->values);
    }
    if (raw.n_rows == 0) {
        raw_free(&raw);
        return cmd_fail(CMD_USAGE, "%s has no rows", t->name);
    }
    return table_settle(t, &raw, 1);
}

static replay_table *table_new(replay_tables *tables)
{
    if (tables->n == tables->cap) {
        tables->cap = 2 * tables->cap + 8;
        tables->table = (replay_table *)cmd_realloc(
            tables->table, tables->cap * sizeof *tables->table);
    }
    memset(&tables->table[tables->n], 0, sizeof tables->table[0]);
    return &tables->table[tables->n++];
}

static int collected_read(replay_tables *tables, const char *path,
                          const char *layer, const train_split *split)
{
    data_set set;
    size_t i, found = 0;
    int st;
    memset(&set, 0, sizeof set);
    st = data_read(&set, path);
    for (i = 0; i < set.n && st == CMD_OK; i++) {
        replay_table *t;
        const char *lanes = strstr(set.group[i].target, "lanes=");
        if (layer && strcmp(layer, set.group[i].layer) != 0)
            continue;
        found++;
        if (split) {
            int role = train_role(split, &set, &set.group[i]);
            if (role != TRAIN_ON && role != TRAIN_VALIDATE)
                continue;
        }
        t = table_new(tables);
        snprintf(t->name, sizeof t->name, "%s@w%d", set.group[i].layer,
                 lanes ? (int)strtol(lanes + 6, NULL, 10) : 0);
        st = group_read(t, &set.group[i]);
    }
    if (st == CMD_OK && found == 0)
        st = cmd_fail(CMD_USAGE, layer ? "%s has no layer %s"
                                       : "%s has no layers%s", path,
                      layer ? layer : "");
    data_free(&set);
    return st;
}

/* Whose kernel it is, by the table's name and knobs. */
static void nests_find(replay_table *t)
{
    t->autotvm = (replay_autotvm *)cmd_alloc(sizeof *t->autotvm);
    t->gpu = (replay_gpu *)cmd_alloc(sizeof *t->gpu);
    if (!replay_autotvm_open(t->autotvm, t->name, t->knob, t->n_knobs,
                             &t->device)) {
        free(t->autotvm);
        t->autotvm = NULL;
    }
    if (t->autotvm || !replay_gpu_open(t->gpu, t->name, t->knob, t->n_knobs,
                                       &t->device)) {
        free(t->gpu);
        t->gpu = NULL;
    }
}

int replay_tables_read(replay_tables *tables, const char *path,
                       const train_split *split)
{
    static const char collected[] = "# metatune collect ";
    const char *colon = strrchr(path, ':');
    size_t n = 0;
    char *file = cmd_format("%s", path), *text;
    int st;
    text = cmd_file_read(file, &n);
    if (!text && colon) { /* FILE:LAYER */
        file[colon - path] = 0;
        text = cmd_file_read(file, &n);
    } else {
        colon = NULL;
    }
    if (!text) {
        st = cmd_fail(CMD_USAGE, "cannot read %s: %s", file, strerror(errno));
    } else if (strncmp(text, collected, sizeof collected - 1) == 0) {
        st = collected_read(tables, file, colon ? colon + 1 : NULL,
                            split);
    } else {
        replay_table *t = table_new(tables);
        const char *base = strrchr(file, '/');
        base = base ? base + 1 : file;
        snprintf(t->name, sizeof t->name, "%.*s",
                 (int)strcspn(base, "."), base);
        st = csv_read(t, file, text);
        if (st == CMD_OK)
            nests_find(t);
    }
    free(text);
    free(file);
    return st;
}

void replay_tables_free(replay_tables *tables)
{
    size_t i;
    for (i = 0; i < tables->n; i++) {
        replay_table *t = &tables->table[i];
        free(t->knob);
        free(t->value);
        free(t->digits);
        free(t->time_s);
        free(t->kernel);
        free(t->autotvm);
        free(t->gpu);
        free(t->store);
    }
    free(tables->table);
    memset(tables, 0, sizeof *tables);
}

/* -------------------------------------------------------------- lookup */

uint32_t replay_table_find(const replay_table *table, const uint16_t *digits)
{
    uint32_t lo = 0, hi = table->n_rows, k, m = table->n_knobs;
    while (lo < hi) { /* rows ascend, digits as values do */
        uint32_t mid = lo + (hi - lo) / 2;
        const uint16_t *row = table->digits + (size_t)mid * m;
        for (k = 0; k < m && row[k] == digits[k]; k++) {}
        if (k == m)
            return mid;
        if (row[k] < digits[k])
            lo = mid + 1;
        else
            hi = mid;
    }
    return table->n_rows;
}

int64_t *replay_table_aligned(const replay_table *table,
                              const replay_table *other)
{
    uint32_t i, k, j;
    int64_t *value = (int64_t *)cmd_alloc(
        ((size_t)other->n_rows * table->n_knobs + 1) * sizeof *value);
    for (k = 0; k < table->n_knobs; k++) {
        for (j = 0; j < other->n_knobs; j++)
            if (strcmp(table->knob[k].name, other->knob[j].name) == 0)
                break;
        for (i = 0; i < other->n_rows; i++)
            value[(size_t)i * table->n_knobs + k] =
                j < other->n_knobs
                    ? other->value[(size_t)i * other->n_knobs + j] : 0;
    }
    return value;
}

static double scaled(int64_t x)
{
    return x >= 1 ? log2((double)x) : (double)x - 1;
}

uint32_t replay_table_nearest(const replay_table *table,
                              const int64_t *values)
{
    uint32_t i, k, best = 0, m = table->n_knobs;
    double least = HUGE_VAL;
    for (i = 0; i < table->n_rows; i++) {
        const int64_t *row = table->value + (size_t)i * m;
        double d = 0;
        for (k = 0; k < m && d < least; k++)
            if (row[k] != values[k])
                d += 1000 + fabs(scaled(row[k]) - scaled(values[k]));
        if (d < least) {
            least = d;
            best = i;
        }
    }
    return best;
}
