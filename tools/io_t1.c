/* io_t1.c - T1 files: a tuning problem, schema 1.0.0

   ConfigurationSpace.TuningParameters give names, types and values (an
   expression like "[1, 2, 4]" or "list(range(1, 9))"), .Conditions expressions
   that must hold (io_eval.h). All settings that satisfy them are listed, in
   the order of the file with the last parameter fastest, as trials NOT_RUN: a
   table to fill in. The task is KernelName and ProblemSize; the target the
   device, if the file names one. A condition is asked as soon as all its
   parameters have values, so that most of a large product is never walked. */
#include "io.h"

#include <stdlib.h>
#include <string.h>

#include "io_eval.h"

#define T1_SETTINGS 500000u      /* listed at most */
#define T1_WALK 20000000u        /* partial settings looked at, at most */

typedef struct t1_condition {
    const char *text;
    size_t n;
    size_t level;                /* the last parameter it names */
} t1_condition;

typedef struct t1_reader {
    io_import *io;
    size_t n, n_conditions;
    const char *name[METATUNE_MAX_KNOBS];
    eval_value list[METATUNE_MAX_KNOBS];
    eval_value value[METATUNE_MAX_KNOBS];
    t1_condition *condition;
    eval_names names;
    json_pool scratch;
    cmd_text task;
    metatune_text target;
    uint32_t walked, settings;
} t1_reader;

static int stop(t1_reader *t, const char *what, const char *p, size_t n,
                const char *why)
{
    io_bad(t->io, 0, "%s \"%.*s\": %s", what, (int)(n < 60 ? n : 60), p, why);
    return 0;
}

static int parameter(t1_reader *t, const json_value *p)
{
    const json_value *name = json_get(p, "Name"), *values, *c;
    const char *why = "?";
    eval_value *list;
    size_t i;
    values = json_get(p, "Values");
    if (!json_is(name, JSON_STRING) || name->n == 0 ||
        strlen(name->text) != name->n) {
        io_bad(t->io, 0, "a parameter without a name");
        return 0;
    }
    if (t->n == METATUNE_MAX_KNOBS)
        return stop(t, "parameter", name->text, name->n, "more than 64");
    for (i = 0; i < t->n; i++)
        if (strcmp(t->name[i], name->text) == 0)
            return stop(t, "parameter", name->text, name->n, "comes twice");
    t->name[t->n] = name->text;
    list = &t->list[t->n++];
    if (json_is(values, JSON_STRING)) {
        if (!eval_text(&t->io->pool, values->text, values->n, NULL, list,
                       &why))
            return stop(t, "values of", name->text, name->n, why);
    } else if (json_is(values, JSON_ARRAY)) { /* not the schema's, but met */
        list->type = EVAL_LIST;
        list->n = 0;
        list->item = (eval_value *)json_pool_take(
            &t->io->pool, values->n * sizeof *list->item);
        for (c = values->child; c; c = c->next) {
            eval_value *v = &list->item[list->n++];
            if (json_is(c, JSON_BOOL)) {
                v->type = EVAL_BOOL;
                v->i = c->truth;
            } else if (json_i64(c, &v->i)) {
                v->type = EVAL_INT;
            } else if (json_double(c, &v->x)) {
                v->type = EVAL_REAL;
            } else if (json_is(c, JSON_STRING)) {
                v->type = EVAL_TEXT;
                v->p = c->text;
                v->n = c->n;
            } else {
                return stop(t, "values of", name->text, name->n,
                            "not numbers, strings or bools");
            }
        }
    } else {
        return stop(t, "parameter", name->text, name->n, "has no Values");
    }
    if (list->type != EVAL_LIST || list->n == 0)
        return stop(t, "values of", name->text, name->n,
                    "want a list that is not empty");
    for (i = 0; i < list->n; i++)
        if (list->item[i].type == EVAL_LIST || list->item[i].type == EVAL_NONE)
            return stop(t, "values of", name->text, name->n,
                        "not numbers, strings or bools");
    return 1;
}

static int condition(t1_reader *t, const json_value *c)
{
    const json_value *e = json_get(c, "Expression");
    t1_condition *now = &t->condition[t->n_conditions++];
    const char *name = NULL;
    size_t i = 0, n = 0, k;
    if (!json_is(e, JSON_STRING)) {
        io_bad(t->io, 0, "a condition without an Expression");
        return 0;
    }
    now->text = e->text;
    now->n = e->n;
    while (eval_name_next(e->text, e->n, &i, &name, &n))
        for (k = 0; k < t->n; k++)
            if (strlen(t->name[k]) == n && memcmp(t->name[k], name, n) == 0 &&
                k > now->level)
                now->level = k;
    return 1;
}

static void value_write(cmd_text *knobs, cmd_text *bools, const char *name,
                        const eval_value *v)
{
    json_value j;
    char buf[80];
    memset(&j, 0, sizeof j);
    j.raw = buf;
    if (v->type == EVAL_TEXT) {
        j.type = JSON_STRING;
        j.text = v->p;
        j.n = v->n;
    } else if (v->type == EVAL_BOOL) {
        j.type = JSON_BOOL;
        j.truth = v->i != 0;
    } else if (v->type == EVAL_REAL) {
        j.type = JSON_NUMBER;
        j.n_raw = io_number_write(v->x, 0, buf, sizeof buf);
    } else {
        j.type = JSON_NUMBER;
        j.n_raw = (size_t)snprintf(buf, sizeof buf, "%lld", (long long)v->i);
    }
    io_knob_add(knobs, bools, name, strlen(name), &j);
}

static int emit(t1_reader *t)
{
    metatune_record r;
    cmd_text knobs, bools, more;
    size_t i;
    int good;
    if (++t->settings > T1_SETTINGS) {
        io_bad(t->io, 0, "more than %u settings satisfy the conditions",
               T1_SETTINGS);
        return 0;
    }
    memset(&r, 0, sizeof r);
    memset(&knobs, 0, sizeof knobs);
    memset(&bools, 0, sizeof bools);
    memset(&more, 0, sizeof more);
    for (i = 0; i < t->n; i++)
        value_write(&knobs, &bools, t->name[i], &t->value[i]);
    cmd_text_add(&knobs, "}");
    if (bools.n)
        cmd_text_add(&more, ",\"bools\":[%s]", bools.p);
    r.status = METATUNE_NOT_RUN;
    r.knobs_json.p = knobs.p;
    r.knobs_json.n = knobs.n;
    r.unknown.p = more.p;
    r.unknown.n = more.n;
    r.task.p = t->task.p;
    r.task.n = t->task.n;
    r.target = t->target;
    good = io_emit(t->io, &r);
    cmd_text_free(&knobs);
    cmd_text_free(&bools);
    cmd_text_free(&more);
    return good;
}

/* Whether the conditions of this level hold; -1 when one cannot be asked. */
static int holds(t1_reader *t, size_t level)
{
    size_t i;
    for (i = 0; i < t->n_conditions; i++) {
        const t1_condition *c = &t->condition[i];
        const char *why = "?";
        eval_value v;
        if (c->level != level)
            continue;
        json_pool_reset(&t->scratch);
        if (!eval_text(&t->scratch, c->text, c->n, &t->names, &v, &why)) {
            stop(t, "condition", c->text, c->n, why);
            return -1;
        }
        if (!eval_truth(&v))
            return 0;
    }
    return 1;
}

static int walk(t1_reader *t)
{
    size_t digit[METATUNE_MAX_KNOBS];
    size_t level = 0;
    memset(digit, 0, sizeof digit);
    for (;;) {
        int good;
        if (digit[level] == t->list[level].n) {
            digit[level] = 0;
            if (level == 0)
                return 1;
            level--;
            digit[level]++;
            continue;
        }
        if (++t->walked > T1_WALK) {
            io_bad(t->io, 0, "the space is too large to list: give it more "
                   "or earlier conditions");
            return 0;
        }
        t->value[level] = t->list[level].item[digit[level]];
        t->names.n = level + 1;
        good = holds(t, level);
        if (good < 0)
            return 0;
        if (good && level + 1 < t->n) {
            level++;
            continue;
        }
        if (good && !emit(t))
            return 0;
        digit[level]++;
    }
}

static void key(t1_reader *t, const json_value *root)
{
    const json_value *kernel = json_get(root, "KernelSpecification");
    const json_value *name = json_get(kernel, "KernelName"), *c;
    const json_value *size = json_get(kernel, "ProblemSize");
    const json_value *device = json_get(json_get(kernel, "Device"), "Name");
    if (json_is(name, JSON_STRING))
        cmd_text_bytes(&t->task, name->text, name->n);
    else
        cmd_text_add(&t->task, "kernel");
    for (c = json_is(size, JSON_ARRAY) ? size->child : NULL; c; c = c->next) {
        cmd_text_add(&t->task, ",");
        if (json_is(c, JSON_STRING))
            cmd_text_bytes(&t->task, c->text, c->n);
        else
            json_write(&t->task, c);
    }
    if (json_is(device, JSON_STRING)) {
        t->target.p = device->text;
        t->target.n = device->n;
    }
}

static int read_all(t1_reader *t, const json_value *root)
{
    const json_value *space = json_get(root, "ConfigurationSpace"), *c;
    const json_value *params = json_get(space, "TuningParameters");
    const json_value *conditions = json_get(space, "Conditions");
    if (!json_is(params, JSON_ARRAY) || params->n == 0) {
        io_bad(t->io, 0, "no ConfigurationSpace.TuningParameters in it");
        return 0;
    }
    for (c = params->child; c; c = c->next)
        if (!parameter(t, c))
            return 0;
    t->condition = (t1_condition *)cmd_alloc(
        (json_is(conditions, JSON_ARRAY) ? conditions->n + 1 : 1) *
        sizeof *t->condition);
    for (c = json_is(conditions, JSON_ARRAY) ? conditions->child : NULL; c;
         c = c->next)
        if (!condition(t, c))
            return 0;
    t->names.name = t->name;
    t->names.value = t->value;
    key(t, root);
    return walk(t);
}

int io_t1_read(io_import *io, const char *s, size_t n)
{
    t1_reader *t = (t1_reader *)cmd_alloc(sizeof *t);
    const char *why = "?";
    const json_value *root;
    int good = 0;
    t->io = io;
    io->format = "t1";
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) {
        s += 3;
        n -= 3;
    }
    root = json_read(&io->pool, s, n, &why);
    if (!root)
        io_bad(io, 0, "%s", why); /* half a problem is no problem */
    else
        good = read_all(t, root);
    cmd_text_free(&t->task);
    json_pool_free(&t->scratch);
    free(t->condition);
    free(t);
    return good;
}
