/* report_data.c - see report_data.h */
#include "report_data.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------- texts, keys */

typedef struct report_block {
    struct report_block *next;
    size_t n, cap;
} report_block;

typedef struct report_slot {
    const char *key;
    size_t n;
    uint64_t hash;
    size_t value;                /* SIZE_MAX: new */
} report_slot;

typedef struct report_map {
    report_slot *slot;
    size_t n, cap;               /* cap a power of two */
} report_map;

static char *take(report_data *d, size_t n)
{
    report_block *b = d->blocks;
    if (!b || b->cap - b->n < n) {
        size_t cap = n > 65536 ? n : 65536;
        b = (report_block *)cmd_alloc(sizeof *b + cap);
        b->cap = cap;
        b->next = d->blocks;
        d->blocks = b;
    }
    b->n += n;
    return (char *)(b + 1) + b->n - n;
}

/* The slot of a key; its text is kept. Slots move at the next call. */
static report_slot *intern(report_data *d, const char *key, size_t n)
{
    report_map *m = d->map;
    uint64_t h = metatune_encode_hash(0, key, n);
    size_t i;
    char *p;
    if (2 * (m->n + 1) > m->cap) {
        report_map bigger;
        bigger.n = m->n;
        bigger.cap = m->cap ? 2 * m->cap : 1024;
        bigger.slot = (report_slot *)cmd_alloc(bigger.cap *
                                               sizeof *bigger.slot);
        for (i = 0; i < m->cap; i++) {
            size_t k = (size_t)m->slot[i].hash & (bigger.cap - 1);
            if (!m->slot[i].key)
                continue;
            while (bigger.slot[k].key)
                k = (k + 1) & (bigger.cap - 1);
            bigger.slot[k] = m->slot[i];
        }
        free(m->slot);
        *m = bigger;
    }
    i = (size_t)h & (m->cap - 1);
    while (m->slot[i].key && (m->slot[i].hash != h || m->slot[i].n != n ||
                              memcmp(m->slot[i].key, key, n) != 0))
        i = (i + 1) & (m->cap - 1);
    if (!m->slot[i].key) {
        p = take(d, n + 1);
        memcpy(p, key, n);
        p[n] = 0;
        m->slot[i].key = p;
        m->slot[i].n = n;
        m->slot[i].hash = h;
        m->slot[i].value = SIZE_MAX;
        m->n++;
    }
    return &m->slot[i];
}

/* Unescaped, without NULs, at the end of *t. */
static void plain_add(cmd_text *t, metatune_text text)
{
    char *p = (char *)cmd_alloc(text.n + 1);
    size_t n = metatune_text_unescape(text, p, text.n), i;
    if (n > text.n)
        n = text.n;
    for (i = 0; i < n; i++)
        if (!p[i])
            p[i] = 1;
    cmd_text_bytes(t, p, n);
    free(p);
}

static const char *plain(report_data *d, metatune_text text)
{
    cmd_text t;
    const char *p;
    memset(&t, 0, sizeof t);
    plain_add(&t, text);
    p = intern(d, t.p ? t.p : "", t.n)->key;
    cmd_text_free(&t);
    return p;
}

static void *grow(void *p, size_t *cap, size_t need, size_t size)
{
    size_t c = *cap ? *cap : 8;
    if (need <= *cap)
        return p;
    while (c < need)
        c *= 2;
    *cap = c;
    return cmd_realloc(p, c * size);
}

/* --------------------------------------------------------- structures */

static size_t layer_of(report_data *d, const metatune_record *r)
{
    cmd_text t;
    report_slot *slot;
    size_t i;
    memset(&t, 0, sizeof t);
    cmd_text_bytes(&t, "L\0", 2);
    plain_add(&t, r->task);
    slot = intern(d, t.p, t.n);
    i = slot->value;
    if (i == SIZE_MAX) {
        report_layer *l = (report_layer *)cmd_alloc(sizeof *l);
        i = slot->value = d->n_layers;
        l->task = slot->key + 2;
        d->layer = (report_layer **)grow(d->layer, &d->cap_layers, i + 1,
                                         sizeof *d->layer);
        d->layer[d->n_layers++] = l;
    }
    cmd_text_free(&t);
    return i;
}

static size_t group_of(report_data *d, size_t log, metatune_text target)
{
    cmd_text t;
    report_slot *slot;
    size_t i;
    memset(&t, 0, sizeof t);
    cmd_text_add(&t, "G%zu ", log);
    i = t.n;
    plain_add(&t, target);
    slot = intern(d, t.p, t.n);
    if (slot->value == SIZE_MAX) {
        report_group *g;
        slot->value = d->n_groups;
        d->group = (report_group *)grow(d->group, &d->cap_groups,
                                        d->n_groups + 1, sizeof *d->group);
        g = &d->group[d->n_groups++];
        memset(g, 0, sizeof *g);
        g->log = log;
        g->target = slot->key + i;
    }
    i = slot->value;
    cmd_text_free(&t);
    return i;
}

static report_series *series_of(report_data *d, size_t log,
                                const metatune_record *r)
{
    cmd_text t;
    report_slot *slot;
    size_t layer = layer_of(d, r), group = group_of(d, log, r->target), i;
    report_series *s;
    int rerun = 0;
    memset(&t, 0, sizeof t);
    cmd_text_add(&t, "S%zu %zu %d %llx ", layer, group, (int)r->unit,
                 (unsigned long long)r->space);
    plain_add(&t, r->strategy);
    cmd_text_bytes(&t, "\0", 1);
    plain_add(&t, r->run);
    slot = intern(d, t.p, t.n);
    if (slot->value != SIZE_MAX) {
        s = &d->series[slot->value];
        rerun = s->rerun + 1;
        if (!(r->kind == METATUNE_RECORD_TRIAL && r->batch == 0 &&
              r->trial_kind == METATUNE_EXPLORE && r->attempt == 0 &&
              s->max_batch > 0 && rerun < REPORT_RERUNS)) {
            cmd_text_free(&t);
            return s;
        }
    }
    i = slot->value = d->n_series;
    cmd_text_free(&t);
    d->series = (report_series *)grow(d->series, &d->cap_series, i + 1,
                                      sizeof *d->series);
    s = &d->series[d->n_series++];
    memset(s, 0, sizeof *s);
    s->layer = layer;
    s->group = group;
    s->rerun = rerun;
    s->run = plain(d, r->run);
    s->strategy = plain(d, r->strategy);
    s->random = strcmp(s->strategy, "random") == 0;
    s->seed = r->seed;
    s->unit = r->unit;
    {
        report_layer *l = d->layer[layer];
        l->series = (size_t *)grow(l->series, &l->cap_series,
                                   l->n_series + 1, sizeof *l->series);
        l->series[l->n_series++] = i;
    }
    return s;
}

/* ------------------------------------------------------------ records */

static size_t json_skip(const char *p, size_t n, size_t i)
{
    if (i < n && p[i] == '"') {
        for (i++; i < n && p[i] != '"'; i++)
            if (p[i] == '\\')
                i++;
        return i + 1;
    }
    while (i < n && p[i] != ',' && p[i] != '}' && p[i] != ':')
        i++;
    return i;
}

static int text_is(const char *have, const char *p, size_t n)
{
    return strlen(have) == n && memcmp(have, p, n) == 0;
}

/* A label's quotes stay in the key text, so that "1" is not 1. */
static uint8_t digit_of(report_data *d, report_knob *k, const char *p,
                        size_t n)
{
    metatune_text text;
    const char *value;
    uint32_t i;
    /* by text first: nearly always there are no escapes */
    if (n >= 2 && p[0] == '"') {
        text.p = p + 1;
        text.n = n - 2;
    } else {
        text.p = p;
        text.n = n;
    }
    for (i = 0; i < k->n_values; i++)
        if (text_is(k->value[i], text.p, text.n))
            return (uint8_t)i;
    value = plain(d, text);
    for (i = 0; i < k->n_values; i++)
        if (strcmp(k->value[i], value) == 0)
            return (uint8_t)i;
    if (k->n_values == REPORT_KNOB_VALUES) {
        k->lost = 1;
        return UINT8_MAX;
    }
    k->value = (const char **)grow(k->value, &k->cap_values,
                                   k->n_values + 1, sizeof *k->value);
    k->value[k->n_values] = value;
    return (uint8_t)k->n_values++;
}

static size_t knob_of(report_data *d, report_layer *l, const char *p,
                      size_t n, size_t guess)
{
    metatune_text text;
    const char *name;
    size_t k;
    if (guess < l->n_knobs && text_is(l->knob[guess].name, p, n))
        return guess;
    for (k = 0; k < l->n_knobs; k++)
        if (text_is(l->knob[k].name, p, n))
            return k;
    text.p = p;
    text.n = n;
    name = plain(d, text);
    for (k = 0; k < l->n_knobs; k++)
        if (strcmp(l->knob[k].name, name) == 0)
            return k;
    if (l->n_knobs == METATUNE_MAX_KNOBS)
        return SIZE_MAX;
    l->knob = (report_knob *)grow(l->knob, &l->cap_knobs, l->n_knobs + 1,
                                  sizeof *l->knob);
    memset(&l->knob[l->n_knobs], 0, sizeof *l->knob);
    l->knob[l->n_knobs].name = name;
    return l->n_knobs++;
}

/* {"name":value,...} was checked when the line was decoded. */
static void knobs_add(report_data *d, report_layer *l, report_trial *t,
                      metatune_text json)
{
    uint8_t digit[METATUNE_MAX_KNOBS];
    size_t i = 0, n = 0, begin, end, k, guess = 0;
    memset(digit, 0xFF, sizeof digit);
    while (i < json.n) {
        while (i < json.n && json.p[i] != '"')
            i++;
        begin = i + 1;
        end = json_skip(json.p, json.n, i);
        if (end >= json.n || end <= begin)
            break;
        k = knob_of(d, l, json.p + begin, end - 1 - begin, guess++);
        i = end;
        while (i < json.n && (json.p[i] == ':' || json.p[i] == ' ' ||
                              json.p[i] == '\t'))
            i++;
        begin = i;
        i = json_skip(json.p, json.n, i);
        end = i < json.n ? i : json.n;
        while (end > begin && (json.p[end - 1] == ' ' ||
                               json.p[end - 1] == '\t'))
            end--;
        if (k == SIZE_MAX)
            continue;
        digit[k] = digit_of(d, &l->knob[k], json.p + begin, end - begin);
        if (k + 1 > n)
            n = k + 1;
    }
    l->digits = (uint8_t *)grow(l->digits, &l->cap_digits, l->n_digits + n,
                                1);
    if (n)
        memcpy(l->digits + l->n_digits, digit, n);
    t->digits = l->n_digits;
    t->n_digits = (uint8_t)n;
    l->n_digits += n;
}

static int is_failure(int status)
{
    return status != METATUNE_OK && status != METATUNE_NOT_RUN &&
           status != METATUNE_CANCELLED;
}

static void message_add(report_data *d, report_layer *l, int status,
                        metatune_text error)
{
    const char *text = plain(d, error);
    size_t i;
    for (i = 0; i < l->n_messages; i++)
        if (l->message[i].status == status &&
            l->message[i].text == text) { /* texts are kept once */
            l->message[i].count++;
            return;
        }
    if (l->n_messages == REPORT_MESSAGES) {
        l->other_messages++;
        return;
    }
    l->message = (report_message *)grow(l->message, &l->cap_messages, i + 1,
                                        sizeof *l->message);
    l->message[i].status = status;
    l->message[i].text = text;
    l->message[i].count = 1;
    l->n_messages++;
}

/* Room on both sides for the products and ratios that follow. */
static int finite_positive(double x)
{
    return x > 1e-280 && x < 1e280;
}

static void trial_add(report_data *d, report_series *s,
                      const metatune_record *r)
{
    report_layer *l = d->layer[s->layer];
    report_trial *t;
    int status = (int)r->status;
    if (status < 0 || status >= REPORT_STATUSES)
        status = METATUNE_RUNTIME;
    s->trial = (report_trial *)grow(s->trial, &s->cap, s->n + 1,
                                    sizeof *s->trial);
    t = &s->trial[s->n++];
    memset(t, 0, sizeof *t);
    t->kind = (uint8_t)r->trial_kind;
    t->status = (uint8_t)status;
    t->setting = metatune_encode_hash(1, r->knobs_json.p, r->knobs_json.n);
    if (status == METATUNE_OK && finite_positive(r->value))
        t->value = r->value;
    if (r->predicted && finite_positive(r->mean) &&
        r->sigma >= 0 && r->sigma < 1000) {
        t->predicted = 1;
        t->mean = r->mean;
        t->sigma = r->sigma;
    }
    knobs_add(d, l, t, r->knobs_json);
    if (is_failure(status))
        message_add(d, l, status, r->error);
    if (r->batch > s->max_batch)
        s->max_batch = r->batch;
    if (finite_positive(r->build_s))
        s->build_s += r->build_s;
    if (finite_positive(r->run_s))
        s->run_s += r->run_s;
    /* seconds of thinking count up within one process */
    if (finite_positive(r->think_s)) {
        s->think_s += r->think_s >= s->think_last
                    ? r->think_s - s->think_last : r->think_s;
        s->think_last = r->think_s;
    }
    s->tuned = 0;                /* what was re-timed before is no more it */
    s->ended = 0;
    d->n_trials++;
}

static double unknown_number(const metatune_record *r, const char *key)
{
    const char *p = r->unknown.p;
    size_t k = strlen(key), i, end = 0;
    double x = 0;
    for (i = 0; p && i + k <= r->unknown.n; i++)
        if (memcmp(p + i, key, k) == 0 &&
            metatune_number_read(p + i + k, r->unknown.n - i - k, &x,
                                 &end) == METATUNE_OK)
            return finite_positive(x) ? x : 0;
    return 0;
}

static void task_add(report_data *d, report_series *s,
                     const metatune_record *r)
{
    report_layer *l = d->layer[s->layer];
    if (r->layer.n)
        l->name = plain(d, r->layer);
    if (finite_positive(r->naive_s))
        s->naive = r->naive_s;
    if (finite_positive(r->default_s)) {
        if (!(s->default_first > 0))
            s->default_first = r->default_s;
        s->default_last = r->default_s;
    }
    if (finite_positive(r->peak_gflops) && r->peak_gflops > s->peak_gflops)
        s->peak_gflops = r->peak_gflops;
    if (finite_positive(r->gflop))
        s->gflop = r->gflop;
    s->tuned = unknown_number(r, "\"tuned_s\":");
    s->expected = unknown_number(r, "\"expected_gain\":");
    if (s->tuned > 0 && s->default_first > 0 && s->default_last > 0)
        s->drift = s->default_last / s->default_first;
}

static void record_add(report_data *d, size_t log, const metatune_record *r)
{
    report_series *s = series_of(d, log, r);
    if (r->kind == METATUNE_RECORD_TRIAL) {
        trial_add(d, s, r);
    } else if (r->kind == METATUNE_RECORD_TASK) {
        task_add(d, s, r);
    } else {
        s->ended = 1;
        s->end = r->status;
        if (finite_positive(r->think_s) && r->think_s > s->think_last) {
            s->think_s += r->think_s - s->think_last;
            s->think_last = r->think_s;
        }
    }
}

/* --------------------------------------------------------- statistics */

int report_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double report_quantile(const double *sorted, size_t n, double q)
{
    double at;
    size_t i;
    if (n == 0)
        return 0;
    at = q * (double)(n - 1);
    i = (size_t)at;
    if (i + 1 >= n)
        return sorted[n - 1];
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

double report_expected_best(const double *sorted, size_t n, size_t total,
                            size_t k)
{
    /* P(the least is the i-th) = C(total-1-i, k-1) / C(total, k) */
    double p, mass = 0, sum = 0;
    size_t i;
    if (n == 0 || k == 0 || total < n)
        return 0;
    if (k > total)
        k = total;
    p = (double)k / (double)total;
    for (i = 0; i < n && p > 1e-15; i++) {
        mass += p;
        sum += p * sorted[i];
        if (total - 1 - i == 0)
            break;
        p *= (double)(total - i - k) / (double)(total - 1 - i);
    }
    return mass > 0 ? sum / mass : 0;
}

typedef struct pair {
    uint64_t setting;
    double value;
    size_t trial;
} pair;

static int by_setting(const void *a, const void *b)
{
    const pair *x = (const pair *)a, *y = (const pair *)b;
    if (x->setting != y->setting)
        return x->setting < y->setting ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* The winner is the confirmed setting with the least median; without any, the
   least explore time. */
static void winner_find(report_series *s)
{
    pair *p = (pair *)cmd_alloc((s->n_confirm + 1) * sizeof *p);
    double *m, *lo, *hi;
    size_t i, j, n = 0, groups = 0, best = SIZE_MAX, best_n = 0;
    for (i = 0; i < s->n; i++)
        if (s->trial[i].kind == METATUNE_CONFIRM && s->trial[i].value > 0) {
            p[n].setting = s->trial[i].setting;
            p[n].value = s->trial[i].value;
            p[n++].trial = i;
        }
    m = (double *)cmd_alloc(3 * (n + 1) * sizeof *m);
    lo = m + n + 1;
    hi = lo + n + 1;
    qsort(p, n, sizeof *p, by_setting);
    for (i = 0; i < n; i = j, groups++) {
        for (j = i; j < n && p[j].setting == p[i].setting; j++)
            ;
        m[groups] = 0.5 * (p[i + (j - i - 1) / 2].value +
                           p[i + (j - i) / 2].value);
        lo[groups] = p[i].value;
        hi[groups] = p[j - 1].value;
        if (best == SIZE_MAX || m[groups] < m[best]) {
            best = groups;
            best_n = j - i;
            s->winner = p[i].trial;
        }
    }
    if (best != SIZE_MAX) {
        s->best = m[best];
        s->confirms = best_n;
        s->spread = (hi[best] - lo[best]) / m[best];
        for (i = 0; i < groups; i++)
            s->ties += i != best && m[i] <= hi[best];
    }
    for (i = 0; i < s->n; i++) {
        const report_trial *t = &s->trial[i];
        if (t->kind != METATUNE_EXPLORE || !(t->value > 0))
            continue;
        if (best == SIZE_MAX && (s->winner == s->n || t->value < s->best)) {
            s->winner = i;
            s->best = t->value;
        }
        if (best == SIZE_MAX ? s->winner == i
                             : t->setting == s->trial[s->winner].setting)
            s->single = t->value;
    }
    if (s->tuned > 0 && s->winner < s->n)
        s->best = s->tuned;
    free(p);
    free(m);
}

static void series_finish(report_series *s)
{
    double best = 0, at_three_quarters = 0;
    size_t i, n = 0;
    for (i = 0; i < s->n; i++) {
        const report_trial *t = &s->trial[i];
        if (t->status == METATUNE_NOT_RUN || t->status == METATUNE_CANCELLED) {
            s->n_not_run++;
            continue;
        }
        s->by_status[t->status]++;
        s->n_ok += t->status == METATUNE_OK;
        if (is_failure(t->status))
            s->n_failed++;
        if (t->kind == METATUNE_CONFIRM) {
            s->n_confirm++;
            continue;
        }
        s->n_explore++;
        if (t->predicted && t->value > 0) {
            s->n_predicted++;
            s->n_covered += fabs(log2(t->value / t->mean)) <=
                            REPORT_Z90 * t->sigma;
        }
    }
    for (i = 0; i < s->n; i++) {
        const report_trial *t = &s->trial[i];
        if (t->kind == METATUNE_CONFIRM || t->status == METATUNE_NOT_RUN ||
            t->status == METATUNE_CANCELLED)
            continue;
        n++;
        if (t->value > 0 && (!(best > 0) || t->value < best)) {
            best = t->value;
            s->best_at = n;
        }
        if (n <= s->n_explore - s->n_explore / 4)
            at_three_quarters = best;
    }
    s->late_gain = best > 0 && at_three_quarters > 0
                 ? at_three_quarters / best : 1;
    s->winner = s->n;
    winner_find(s);
}

static void cells_make(report_data *d, report_layer *l)
{
    size_t i, c;
    l->cell = (report_cell *)cmd_alloc((l->n_series + 1) * sizeof *l->cell);
    for (i = 0; i < l->n_series; i++) {
        const report_series *s = &d->series[l->series[i]];
        const report_series *m;
        report_cell *cell;
        report_group *g = &d->group[s->group];
        if (g->last_layer != s->layer + 1) {
            g->last_layer = s->layer + 1;
            g->last_cell = l->n_cells++;
            l->cell[g->last_cell].group = s->group;
            l->cell[g->last_cell].main = SIZE_MAX;
        }
        cell = &l->cell[g->last_cell];
        if (s->naive > 0)
            cell->naive = s->naive;
        if (s->default_last > 0)
            cell->fallback = s->default_last;
        if (s->peak_gflops > cell->peak_gflops)
            cell->peak_gflops = s->peak_gflops;
        if (s->gflop > 0)
            cell->gflop = s->gflop;
        if (s->n == 0)
            continue;
        cell->n_runs++;
        cell->n_random += s->random != 0;
        m = cell->main == SIZE_MAX ? NULL : &d->series[cell->main];
        if (!m || (m->random && !s->random) ||
            (m->random == s->random && s->best > 0 &&
             (!(m->best > 0) || s->best < m->best)))
            cell->main = l->series[i];
    }
    for (c = 0; c < l->n_cells; c++) {
        report_cell *cell = &l->cell[c];
        report_group *g = &d->group[cell->group];
        const report_series *m;
        double fallback = cell->fallback, naive = cell->naive;
        if (cell->main == SIZE_MAX)
            continue;
        m = &d->series[cell->main];
        g->n_layers++;
        g->unit = m->unit;
        /* the default that was timed beside this very winner */
        if (m->default_last > 0)
            fallback = cell->fallback = m->default_last;
        if (m->naive > 0)
            naive = cell->naive = m->naive;
        cell->best = m->best;
        if (!(m->best > 0))
            continue;
        g->n_found++;
        if (fallback > 0) {
            cell->speedup = fallback / m->best;
            g->n_both++;
            g->sum_default += fallback;
            g->sum_best += m->best;
            g->log_speedup += log(cell->speedup);
        }
        if (naive > 0) {
            g->sum_naive += naive;
            g->sum_naive_best += m->best;
        }
    }
}

/* ------------------------------------------------------------ reading */

/* The last `parts` components of a path. */
static const char *tail_of(const char *path, int parts)
{
    const char *p = path + strlen(path);
    while (p > path && (p[-1] != '/' || !p[0] || --parts > 0))
        p--;
    return p;
}

static void labels_make(report_data *d)
{
    size_t i, j;
    for (i = 0; i < d->n_logs; i++) {
        const char *path = d->log[i].path;
        int parts = 1, same = 1;
        for (; parts < 8 && same; parts++) {
            d->log[i].label = tail_of(path, parts);
            for (same = 0, j = 0; j < d->n_logs; j++)
                if (j != i && strcmp(tail_of(d->log[j].path, parts),
                                     d->log[i].label) == 0)
                    same = strcmp(path, d->log[j].path) != 0;
        }
    }
    for (i = 0; i < d->n_groups; i++)
        d->log[d->group[i].log].n_groups++;
    for (i = 0; i < d->n_groups; i++) {
        report_group *g = &d->group[i];
        g->label = d->log[g->log].label;
        if (d->log[g->log].n_groups > 1) { /* two targets in one file */
            char *text = cmd_format("%s, %s", g->label, g->target);
            g->label = intern(d, text, strlen(text))->key;
            free(text);
        }
    }
}

int report_data_read(report_data *d, const char *const *paths, size_t n,
                     int quiet)
{
    size_t i, good = 0;
    memset(d, 0, sizeof *d);
    d->map = (report_map *)cmd_alloc(sizeof *d->map);
    d->log = (report_log *)cmd_alloc((n ? n : 1) * sizeof *d->log);
    for (i = 0; i < n; i++) {
        metatune_record r;
        metatune_status st;
        size_t bytes = 0, pos = 0;
        report_log *log = &d->log[d->n_logs++];
        char *p = cmd_file_read(paths[i], &bytes);
        log->path = paths[i];
        if (!p)
            return cmd_fail(CMD_USAGE, "cannot read the log %s: %s",
                            paths[i], strerror(errno));
        while ((st = metatune_log_next(p, bytes, &pos, &r)) !=
               METATUNE_NOT_FOUND) {
            if (st != METATUNE_OK) {
                log->n_bad++;
                continue;
            }
            log->n_good++;
            record_add(d, i, &r);
        }
        free(p);
        if (log->n_good == 0 && n == 1)
            return cmd_fail(CMD_USAGE, log->n_bad
                            ? "%s holds no record of this version; `metatune "
                              "import` reads other formats"
                            : "%s is empty; `metatune tune` writes records",
                            paths[i]);
        if (log->n_good == 0)
            cmd_fail(CMD_OK, "warning: %s holds no record of this version; "
                     "it is left out", paths[i]);
        else if (log->n_bad && !quiet)
            cmd_fail(CMD_OK, "warning: %s: damaged or foreign lines left "
                     "out: %zu; good ones used: %zu", paths[i], log->n_bad,
                     log->n_good);
        good += log->n_good;
    }
    if (good == 0)
        return cmd_fail(CMD_USAGE, "none of the logs holds a record; "
                        "`metatune tune` writes them");
    if (d->n_trials == 0)
        return cmd_fail(CMD_USAGE, "the log holds no measurement yet; let "
                        "`metatune tune` measure one");
    for (i = 0; i < d->n_series; i++)
        series_finish(&d->series[i]);
    for (i = 0; i < d->n_layers; i++)
        cells_make(d, d->layer[i]);
    labels_make(d);
    return CMD_OK;
}

void report_data_free(report_data *d)
{
    size_t i;
    size_t k;
    for (i = 0; i < d->n_layers; i++) {
        for (k = 0; k < d->layer[i]->n_knobs; k++)
            free(d->layer[i]->knob[k].value);
        free(d->layer[i]->knob);
        free(d->layer[i]->message);
        free(d->layer[i]->series);
        free(d->layer[i]->cell);
        free(d->layer[i]->digits);
        free(d->layer[i]);
    }
    for (i = 0; i < d->n_series; i++)
        free(d->series[i].trial);
    while (d->blocks) {
        report_block *b = d->blocks;
        d->blocks = b->next;
        free(b);
    }
    if (d->map)
        free(d->map->slot);
    free(d->map);
    free(d->log);
    free(d->group);
    free(d->layer);
    free(d->series);
    memset(d, 0, sizeof *d);
}
