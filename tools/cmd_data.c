/* cmd_data.c - see cmd_data.h */
#define _POSIX_C_SOURCE 200809L

#include "cmd_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_FIELDS = 10 };

/* Cut a line at its tabs; how many fields, 0 when it does not end in ".". */
static int fields_cut(char *line, char **field)
{
    int n = 0;
    while (n < DATA_FIELDS) {
        char *tab = strchr(line, '\t');
        field[n++] = line;
        if (!tab)
            break;
        *tab = 0;
        line = tab + 1;
    }
    return strcmp(field[n - 1], ".") == 0 ? n : 0;
}

static metatune_status status_of(const char *name)
{
    int i;
    for (i = 0; i < 10; i++)
        if (strcmp(metatune_encode_status_name((metatune_status)i), name) ==
            0)
            return (metatune_status)i;
    return METATUNE_NOT_FOUND;
}

data_group *data_find(const data_set *set, const char *spec,
                      const char *target)
{
    size_t i;
    for (i = 0; i < set->n; i++)
        if (strcmp(set->group[i].spec, spec) == 0 &&
            strcmp(set->group[i].target, target) == 0)
            return &set->group[i];
    return NULL;
}

static data_group *group_line(data_set *set, char **f, int n)
{
    data_group g, *old;
    metatune_error error;
    int i;
    memset(&g, 0, sizeof g);
    if (n != 10 || metatune_encode_conv2d_parse(f[1], &g.conv, &error) !=
                      METATUNE_OK ||
        cmd_device_parse(f[7], &g.device) != CMD_OK)
        return NULL;
    g.march.lanes = (int32_t)strtol(f[3], NULL, 10);
    g.march.vregs = (int32_t)strtol(f[4], NULL, 10);
    g.march.threads = (int32_t)strtol(f[5], NULL, 10);
    old = data_find(set, f[1], f[6]);
    if (old)
        return old;
    /* the knobs must be those of this program, by name and order */
    {
        host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
        const char *p = f[8];
        int good = host_kernel_init(kernel, &g.conv, &g.march, NULL, 0) ==
                   METATUNE_OK;
        for (i = 0; good && i < HOST_KNOBS; i++) {
            size_t k = strlen(kernel->knob[i].name);
            good = strncmp(p, kernel->knob[i].name, k) == 0 &&
                   p[k] == (i + 1 < HOST_KNOBS ? ',' : 0);
            p += k + 1;
        }
        free(kernel);
        if (!good)
            return NULL;
    }
    g.spec = cmd_format("%s", f[1]);
    g.layer = cmd_format("%s", f[2]);
    g.target = cmd_format("%s", f[6]);
    if (set->n == set->cap) {
        set->cap = 2 * set->cap + 16;
        set->group = (data_group *)cmd_realloc(
            set->group, set->cap * sizeof *set->group);
    }
    set->group[set->n] = g;
    return &set->group[set->n++];
}

data_row *data_row_find(const data_group *group, const int64_t *values)
{
    size_t i;
    for (i = 0; group && i < group->n; i++)
        if (memcmp(group->row[i].values, values,
                   sizeof group->row[i].values) == 0)
            return &group->row[i];
    return NULL;
}

static int row_line(data_group *g, char **f, int n)
{
    data_row row;
    char *p = f[1], *end;
    int i;
    memset(&row, 0, sizeof row);
    if (n != 5 && !(n == 6 && strlen(f[4]) == 1 && strchr("dugxt", f[4][0])))
        return 0;
    row.mark = n == 6 ? f[4][0] : 'u';
    row.control_s = g->control_s;
    for (i = 0; i < HOST_KNOBS; i++) {
        row.values[i] = strtoll(p, &end, 10);
        if (end == p || *end != (i + 1 < HOST_KNOBS ? ',' : 0))
            return 0;
        p = end + 1;
    }
    row.status = status_of(f[2]);
    if (row.status == METATUNE_NOT_FOUND)
        return 0;
    if (row.status == METATUNE_OK) {
        row.time_s = strtod(f[3], &end);
        if (*end || !(row.time_s > 0 && row.time_s < 1e9))
            return 0;
    }
    if (row.mark == 't') {
        data_row *old = data_row_find(g, row.values);
        if (!old || row.status != METATUNE_OK)
            return 0;
        old->time_s = row.time_s;
        old->control_s = g->control_s;
        g->n_again++;
        return 1;
    }
    if (g->n == g->cap) {
        g->cap = 2 * g->cap + 64;
        g->row = (data_row *)cmd_realloc(g->row, g->cap * sizeof *g->row);
    }
    g->row[g->n++] = row;
    return 1;
}

static int control_line(data_group *g, char **f)
{
    char *end;
    double a = strtod(f[1], &end), b;
    if (end == f[1] || *end)
        return 0;
    b = strtod(f[2], &end);
    if (end == f[2] || *end || !(a > 0 && b > 0 && a + b < 1e9))
        return 0;
    g->control_s = (a + b) / 2;
    return 1;
}

static int by_control(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* All times on the footing of the layer's median control. */
static void group_level(data_group *g)
{
    double *control = (double *)cmd_alloc((g->n + 1) * sizeof *control);
    size_t n = 0, i;
    for (i = 0; i < g->n; i++)
        if (g->row[i].control_s > 0)
            control[n++] = g->row[i].control_s;
    qsort(control, n, sizeof *control, by_control);
    for (i = 0; n && i < g->n; i++)
        if (g->row[i].control_s > 0)
            g->row[i].time_s *= control[n / 2] / g->row[i].control_s;
    free(control);
}

void data_head(char head[CMD_DATA_HEAD])
{
    snprintf(head, CMD_DATA_HEAD, "%s%016llx\n", CMD_DATA_FIRST,
             (unsigned long long)cmd_space_version());
}

/* CMD_OK, or CMD_USAGE after one line when the first line is another one. */
static int head_check(const char *path, const char *text)
{
    static const char any[] = "# metatune collect ";
    char head[CMD_DATA_HEAD];
    int n = (int)strcspn(text, "\n");
    size_t digit = sizeof any - 1;
    data_head(head);
    if (strncmp(text, any, digit) == 0 && text[digit] == '2')
        head[digit] = '2';
    if (strncmp(text, head, strlen(head)) == 0)
        return CMD_OK;
    if (strncmp(text, any, sizeof any - 1) != 0)
        return cmd_fail(CMD_USAGE, "%s is no file of `metatune collect`",
                        path);
    if (strncmp(text, head, sizeof CMD_DATA_FIRST - 1) != 0)
        return cmd_fail(CMD_USAGE, "%s is a collect file of version %.*s, "
                        "want 2 or 3; collect it again", path,
                        (int)strcspn(text + sizeof any - 1, ",\n"),
                        text + sizeof any - 1);
    return cmd_fail(CMD_USAGE, "%s: its settings are of space %.*s, this "
                    "program's are of %.16s; collect it again", path,
                    n - (int)sizeof CMD_DATA_FIRST + 1,
                    text + sizeof CMD_DATA_FIRST - 1,
                    head + sizeof CMD_DATA_FIRST - 1);
}

int data_read(data_set *set, const char *path)
{
    size_t n = 0, g = 0, before = set->n;
    int have = 0;
    char *text = cmd_file_read(path, &n), *line, *next;
    if (!text)
        return cmd_fail(CMD_USAGE, "cannot read %s: %s", path,
                        strerror(errno));
    if (n > 0 && head_check(path, text) != CMD_OK) {
        free(text);
        return CMD_USAGE;
    }
    for (line = text; line < text + n; line = next) {
        char *field[DATA_FIELDS], *end = strchr(line, '\n');
        int k;
        if (!end)
            end = line + strlen(line);
        next = end + 1;
        *end = 0;
        if (!*line || *line == '#')
            continue;
        k = fields_cut(line, field);
        if (k > 1 && strcmp(field[0], "L") == 0) {
            data_group *group = group_line(set, field, k);
            have = group != NULL;
            if (group)
                group->control_s = 0;
            g = group ? (size_t)(group - set->group) : 0;
            set->n_bad += !group;
        } else if (k > 1 && strcmp(field[0], "R") == 0 && have) {
            set->n_bad += !row_line(&set->group[g], field, k);
        } else if (k == 5 && strcmp(field[0], "C") == 0 && have) {
            set->n_bad += !control_line(&set->group[g], field);
        } else {
            set->n_bad++;
        }
    }
    free(text);
    for (g = before; g < set->n; g++)
        group_level(&set->group[g]);
    return CMD_OK;
}

void data_free(data_set *set)
{
    size_t i;
    for (i = 0; i < set->n; i++) {
        free(set->group[i].layer);
        free(set->group[i].spec);
        free(set->group[i].target);
        free(set->group[i].row);
    }
    free(set->group);
    memset(set, 0, sizeof *set);
}
