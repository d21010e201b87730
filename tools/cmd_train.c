/* cmd_train.c - metatune train: meta-train a prior from collected files

   An episode is one (layer, target) group: K measured settings adapt the
   head, others are predicted, and the loss of those is differentiated through
   the head's posterior (metatune_train_episode). y = log2(t0 / t). */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_data.h"
#include "cmd_model.h"
#include "ui.h"

enum {
    TRAIN_META_BATCH = 8,
    TRAIN_QUERY = 64,
    TRAIN_CAP = 128,             /* support + query of an episode */
    TRAIN_LEAST = 16,            /* rows that a group must have */
    TRAIN_LOOKS = 10             /* validations in a training */
};

typedef struct train_options {
    uint64_t steps, seed;
    const char *preset;
    const char **holdout;
    size_t n_holdout;
    const char *out, *header, *name;
    int quiet;
    data_set data;
} train_options;

/* One group, encoded. */
typedef struct train_group {
    const data_group *data;
    metatune_encode_graph *graph; /* (n) */
    const metatune_encode_graph **ptr;
    double *y, *time_s;          /* (n) */
    uint32_t *order, *index;     /* (n), (TRAIN_CAP) */
    char *mem;                   /* of the graphs */
    size_t n;
    int role;                    /* TRAIN_ON... */
} train_group;

/* What a group is for: weights are fitted on the first, the checkpoint is
   chosen on the second, the third is only reported. */
enum { TRAIN_ON, TRAIN_VALIDATE, TRAIN_HELD_OUT, TRAIN_ROLES };

typedef struct train_score {
    double loss, rank, regret;   /* means over the groups of a role */
    double regret_bound;         /* regret@8 by the analytic bound alone */
    double regret_random;        /* and of eight drawn at random, expected */
    size_t n;
} train_score;

/* ----------------------------------------------------------- encoding */

static int group_encode(train_group *g, const data_group *data,
                        const metatune_encode_skeleton *skeletons,
                        metatune_encode_nest *nest, size_t *refused)
{
    metatune_encode_config cfg;
    host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
    size_t i, bytes;
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = CMD_NODES;
    bytes = (metatune_encode_graph_memsize(&cfg) + 63) & ~(size_t)63;
    memset(g, 0, sizeof *g);
    g->data = data;
    g->mem = (char *)cmd_alloc(data->n * bytes);
    g->graph = (metatune_encode_graph *)cmd_alloc(data->n * sizeof *g->graph);
    g->ptr = (const metatune_encode_graph **)cmd_alloc(
        (data->n + TRAIN_CAP) * sizeof *g->ptr);
    g->y = (double *)cmd_alloc((data->n + TRAIN_CAP) * sizeof *g->y);
    g->time_s = (double *)cmd_alloc(data->n * sizeof *g->time_s);
    g->order = (uint32_t *)cmd_alloc(data->n * sizeof *g->order);
    g->index = (uint32_t *)cmd_alloc((data->n + TRAIN_CAP) *
                                     sizeof *g->index);
    if (host_kernel_init(kernel, &data->conv, &data->march, NULL, 0) !=
            METATUNE_OK ||
        host_kernel_nest_begin(kernel, nest) != METATUNE_OK) {
        free(kernel);
        return 0;
    }
    for (i = 0; i < data->n; i++) {
        const data_row *row = &data->row[i];
        metatune_encode_graph *graph = &g->graph[g->n];
        if (row->status != METATUNE_OK)
            continue;
        if (!host_kernel_valid(kernel, row->values) ||
            host_kernel_describe(kernel, row->values, nest) != METATUNE_OK ||
            nest->skeleton < 0 || nest->skeleton >= HOST_ALGORITHMS) {
            ++*refused;
            continue;
        }
        if (metatune_encode_graph_init(graph, &cfg, g->mem + g->n * bytes,
                                       bytes) != METATUNE_OK ||
            metatune_encode_graph_fill(graph, nest,
                                       &skeletons[nest->skeleton],
                                       &data->device) != METATUNE_OK ||
            !(graph->t0_s > 0)) {
            ++*refused;
            continue;
        }
        g->y[g->n] = log2(graph->t0_s / row->time_s);
        g->time_s[g->n] = row->time_s;
        g->n++;
    }
    free(kernel);
    return 1;
}

/* --holdout NET or NET/LAYER is only reported, and so is any other layer of
   the same shape. Of the rest every eighth shape, by its hash and whatever its
   target, layout and type, validates. */
static int names_layer(const char *name, const char *layer)
{
    size_t n = strlen(name);
    return strncmp(layer, name, n) == 0 &&
           (layer[n] == 0 || layer[n] == '/');
}

static int role_of(const train_options *o, size_t at)
{
    const data_group *data = &o->data.group[at];
    metatune_encode_conv2d shape;
    char spec[256] = "";
    size_t i, j;
    for (i = 0; i < o->n_holdout; i++)
        for (j = 0; j < o->data.n; j++)
            if (names_layer(o->holdout[i], o->data.group[j].layer) &&
                nets_same_shape(&o->data.group[j].conv, &data->conv))
                return TRAIN_HELD_OUT;
    shape = data->conv;
    shape.dtype_in = shape.dtype_out = shape.dtype_acc = METATUNE_F32;
    shape.layout = METATUNE_NCHW;
    shape.block = 0;
    metatune_encode_conv2d_spec(&shape, spec, sizeof spec);
    return metatune_encode_hash(o->seed, spec, strlen(spec)) % 8 == 0
               ? TRAIN_VALIDATE : TRAIN_ON;
}

/* --------------------------------------------------------- validation */

typedef struct ranked {
    double key;
    size_t i;
} ranked;

static int by_key(const void *a, const void *b)
{
    const ranked *x = (const ranked *)a, *y = (const ranked *)b;
    if (x->key < y->key || x->key > y->key)
        return x->key < y->key ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

/* Spearman's rank correlation; ties by index, they do not matter here. */
static double spearman(const double *a, const double *b, size_t n)
{
    ranked *r = (ranked *)cmd_alloc(n * sizeof *r);
    double *rank = (double *)cmd_alloc(n * sizeof *rank);
    double sum = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        r[i].key = a[i];
        r[i].i = i;
    }
    qsort(r, n, sizeof *r, by_key);
    for (i = 0; i < n; i++)
        rank[r[i].i] = (double)i;
    for (i = 0; i < n; i++) {
        r[i].key = b[i];
        r[i].i = i;
    }
    qsort(r, n, sizeof *r, by_key);
    for (i = 0; i < n; i++) {
        double d = rank[r[i].i] - (double)i;
        sum += d * d;
    }
    free(r);
    free(rank);
    return n < 2 ? 0 : 1 - 6 * sum / ((double)n * ((double)n * (double)n - 1));
}

/* 1 - fastest / fastest of the eight rows of the lowest key. */
static double regret_at_8(const train_group *t, ranked *r)
{
    double best = HUGE_VAL, best8 = HUGE_VAL;
    size_t i;
    for (i = 0; i < t->n; i++)
        if (t->time_s[i] < best)
            best = t->time_s[i];
    qsort(r, t->n, sizeof *r, by_key);
    for (i = 0; i < 8 && i < t->n; i++)
        if (t->time_s[r[i].i] < best8)
            best8 = t->time_s[r[i].i];
    return 1 - best / best8;
}

/* Its expectation for eight drawn at random without replacement: the k-th
   fastest of n is the fastest drawn with probability
   C(n - 1 - k, 7) / C(n, 8). */
static double regret_at_8_random(const train_group *t, ranked *r)
{
    double p = 8 / (double)t->n, sum = 0;
    size_t k, i;
    for (i = 0; i < t->n; i++) {
        r[i].key = t->time_s[i];
        r[i].i = i;
    }
    qsort(r, t->n, sizeof *r, by_key);
    for (k = 0; k + 8 <= t->n; k++) {
        sum += p * (1 - r[0].key / r[k].key);
        p *= (double)(t->n - 8 - k) / (double)(t->n - 1 - k);
    }
    return sum;
}

/* Groups of a role, nothing measured: loss and rank correlation of speed over
   all rows, and the regret of the eight settings predicted fastest. Then the
   loss again with eight measured ones, averaged in. */
static train_score validate(metatune_trainer *trainer, train_group *groups,
                            size_t n_groups, int role, uint64_t seed)
{
    train_score s;
    size_t g;
    memset(&s, 0, sizeof s);
    for (g = 0; g < n_groups; g++) {
        train_group *t = &groups[g];
        metatune_encode_rng rng;
        double *mu, *speed, loss = 0, part = 0;
        ranked *r;
        size_t i, k = 8, m;
        if (t->role != role || t->n < TRAIN_LEAST)
            continue;
        mu = (double *)cmd_alloc(2 * t->n * sizeof *mu);
        speed = mu + t->n;
        r = (ranked *)cmd_alloc(t->n * sizeof *r);
        for (i = 0; i < t->n; i += m) {
            size_t j;
            m = t->n - i < TRAIN_CAP ? t->n - i : (size_t)TRAIN_CAP;
            for (j = 0; j < m; j++)
                t->ptr[j] = &t->graph[i + j];
            if (metatune_train_evaluate(trainer, t->ptr, t->y + i, 0, m,
                                        mu + i, NULL, &part) == METATUNE_OK)
                loss += part * (double)m;
        }
        loss /= (double)t->n;
        s.regret_random += regret_at_8_random(t, r);
        for (i = 0; i < t->n; i++) { /* log2 of time = log2 t0 - y */
            double log_t0 = log2(t->graph[i].t0_s);
            r[i].key = log_t0;
            r[i].i = i;
            mu[i] -= log_t0;
            speed[i] = t->y[i] - log_t0;
        }
        s.regret_bound += regret_at_8(t, r);
        for (i = 0; i < t->n; i++) {
            r[i].key = -mu[i];
            r[i].i = i;
        }
        s.regret += regret_at_8(t, r);
        s.rank += spearman(mu, speed, t->n);
        metatune_encode_rng_init(&rng, seed, 77 + g);
        m = metatune_episode_draw(&rng, t->y, t->n, &k, TRAIN_QUERY, t->order,
                                  t->index);
        for (i = 0; i < m; i++) {
            t->ptr[i] = &t->graph[t->index[i]];
            mu[i] = t->y[t->index[i]];
        }
        if (m > k && metatune_train_evaluate(trainer, t->ptr, mu, k, m - k,
                                             NULL, NULL, &part) ==
                         METATUNE_OK)
            loss = 0.5 * (loss + part);
        s.loss += loss;
        s.n++;
        free(mu);
        free(r);
    }
    if (s.n) {
        s.loss /= (double)s.n;
        s.rank /= (double)s.n;
        s.regret /= (double)s.n;
        s.regret_bound /= (double)s.n;
        s.regret_random /= (double)s.n;
    }
    return s;
}

/* ------------------------------------------------------------ outputs */

static int header_write(const train_options *o, const unsigned char *blob,
                        size_t bytes, size_t n_params)
{
    cmd_text t;
    char guard[128];
    unsigned long long space = cmd_space_version();
    size_t i, words = (bytes + 3) / 4;
    int rc;
    memset(&t, 0, sizeof t);
    for (i = 0; o->name[i] && i + 1 < sizeof guard; i++)
        guard[i] = (char)(o->name[i] >= 'a' && o->name[i] <= 'z'
                              ? o->name[i] - 'a' + 'A' : o->name[i]);
    guard[i] = 0;
    cmd_text_add(&t, "/* %s: a meta-trained prior, %zu weights\n"
                 "   Written by `metatune train`. Load it with\n"
                 "     metatune_blob_load(&model, %s,\n"
                 "         %s_BYTES, mem, n, &error);\n"
                 "   Words of a little-endian blob, used in place there,\n"
                 "   and the space of settings that it knows: %016llx. */\n"
                 "#ifndef %s_H\n#define %s_H\n\n#include <stddef.h>\n"
                 "#include <stdint.h>\n\n"
                 "#define %s_BYTES ((size_t)%zuu)\n\n"
                 "static const uint32_t %s[%zu] = {\n", o->name, n_params,
                 o->name, guard, space, guard, guard, guard, bytes, o->name,
                 words);
    for (i = 0; i < words; i++) {
        uint32_t w = 0, k;
        for (k = 0; k < 4; k++)
            if (4 * i + k < bytes)
                w |= (uint32_t)blob[4 * i + k] << (8 * k);
        cmd_text_add(&t, "%s0x%08xu%s", i % 5 ? " " : "    ", w,
                     i + 1 == words ? "\n" : i % 5 == 4 ? ",\n" : ",");
    }
    cmd_text_add(&t, "};\n\n#endif\n");
    rc = cmd_file_write(o->header, t.p, t.n);
    cmd_text_free(&t);
    if (rc != 0)
        return cmd_fail(CMD_FAILED, "cannot write %s: %s", o->header,
                        strerror(errno));
    return CMD_OK;
}

static int outputs_write(const train_options *o, metatune_model *model)
{
    size_t bytes = metatune_blob_size(model, METATUNE_BLOB_F32);
    unsigned char *blob = (unsigned char *)cmd_alloc(bytes + CMD_MODEL_TAIL);
    int st = CMD_OK;
    if (metatune_blob_write(model, METATUNE_BLOB_F32, blob, bytes) !=
        METATUNE_OK)
        st = cmd_fail(CMD_FAILED, "the model could not be packed");
    cmd_model_tail(blob + bytes);
    bytes += CMD_MODEL_TAIL;
    if (st == CMD_OK && o->out && cmd_file_write(o->out, blob, bytes) != 0)
        st = cmd_fail(CMD_FAILED, "cannot write %s: %s", o->out,
                      strerror(errno));
    if (st == CMD_OK && o->header)
        st = header_write(o, blob, bytes, model->n_params);
    free(blob);
    return st;
}

/* ----------------------------------------------------------- training */

static int train_parse(train_options *o, int argc, char **argv)
{
    cmd_args args;
    const char *text = NULL;
    size_t files = 0, i;
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->steps = 3000;
    o->preset = "default";
    o->name = "metatune_prior";
    o->holdout = (const char **)cmd_alloc((size_t)(argc + 1) *
                                          sizeof *o->holdout);
    cmd_args_init(&args, "train", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (!args.name[0]) {
            st = data_read(&o->data, args.value);
            files++;
        } else if (cmd_args_is(&args, "--steps")) {
            st = cmd_args_u64(&args, 1, 10000000, &o->steps);
        } else if (cmd_args_is(&args, "--seed")) {
            st = cmd_args_u64(&args, 0, UINT64_MAX, &o->seed);
        } else if (cmd_args_is(&args, "--preset")) {
            st = cmd_args_text(&args, &o->preset);
        } else if (cmd_args_is(&args, "--holdout")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                o->holdout[o->n_holdout++] = text;
        } else if (cmd_args_is(&args, "--out")) {
            st = cmd_args_text(&args, &o->out);
        } else if (cmd_args_is(&args, "--header")) {
            st = cmd_args_text(&args, &o->header);
        } else if (cmd_args_is(&args, "--name")) {
            st = cmd_args_text(&args, &o->name);
        } else if (cmd_args_is(&args, "--quiet")) {
            st = cmd_args_flag(&args);
            o->quiet = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st != CMD_OK)
        return st;
    if (files == 0)
        return cmd_fail(CMD_USAGE, "train: give at least one file of "
                        "`metatune collect`");
    if (!o->out && !o->header)
        return cmd_fail(CMD_USAGE, "train: give --out FILE or --header FILE");
    for (i = 0; o->name[i]; i++) {
        char c = o->name[i];
        if (!(c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (i > 0 && c >= '0' && c <= '9')) || i > 100)
            return cmd_fail(CMD_USAGE, "train: --name \"%s\" is no C "
                            "identifier", o->name);
    }
    return CMD_OK;
}

static int preset_of(const char *name, metatune_gnn_config *gnn)
{
    if (strcmp(name, "default") == 0)
        *gnn = metatune_gnn_preset(METATUNE_GNN_DEFAULT);
    else if (strcmp(name, "tiny") == 0)
        *gnn = metatune_gnn_preset(METATUNE_GNN_TINY);
    else if (strcmp(name, "large") == 0)
        *gnn = metatune_gnn_preset(METATUNE_GNN_LARGE);
    else
        return cmd_fail(CMD_USAGE, "train: unknown --preset \"%s\"; want "
                        "default, tiny or large", name);
    return CMD_OK;
}

/* One meta-step; the mean loss, or NaN when no episode could be made. */
static double meta_step(metatune_trainer *trainer, train_group *groups,
                        const size_t *pick, size_t n_pick,
                        metatune_encode_rng *rng, double rate,
                        metatune_status *st)
{
    static const size_t supports[] = { 0, 4, 8, 16, 32 };
    double y[TRAIN_CAP], sum = 0;
    int e, done = 0;
    for (e = 0; e < TRAIN_META_BATCH; e++) {
        train_group *t = &groups[pick[metatune_encode_rng_below(rng,
                                                                n_pick)]];
        size_t k = supports[metatune_encode_rng_below(rng, 5)], m, i;
        double loss = 0;
        m = metatune_episode_draw(rng, t->y, t->n, &k, TRAIN_QUERY, t->order,
                                  t->index);
        if (m <= k)
            continue;
        for (i = 0; i < m; i++) {
            t->ptr[i] = &t->graph[t->index[i]];
            y[i] = t->y[t->index[i]];
        }
        *st = metatune_train_episode(trainer, t->ptr, y, k, m - k, &loss);
        if (*st != METATUNE_OK)
            return (double)NAN;
        sum += loss;
        done++;
    }
    *st = metatune_train_step(trainer, rate);
    /* a step that is refused leaves the weights as they were */
    if (*st == METATUNE_NOT_FINITE)
        *st = METATUNE_OK;
    return done ? sum / done : (double)NAN;
}

static int train(int argc, char **argv)
{
    train_options o;
    train_group *groups = NULL;
    metatune_train_config cfg;
    metatune_trainer trainer;
    metatune_model model;
    metatune_encode_skeleton skeletons[HOST_ALGORITHMS];
    void *skeleton_mem[HOST_ALGORITHMS];
    metatune_encode_config encode;
    metatune_encode_nest nest;
    metatune_encode_rng rng;
    metatune_real *params = NULL, *kept = NULL;
    metatune_status ms = METATUNE_OK;
    void *nest_mem = NULL, *mem = NULL;
    size_t i, n_params = 0, n_pick = 0, rows = 0, bytes;
    size_t n_role[TRAIN_ROLES] = { 0, 0, 0 };
    size_t refused = 0, *pick = NULL;
    uint64_t step;
    double begin, next = 0, mean = 0, best_loss = HUGE_VAL;
    train_score score;
    int st, have = 0;
    ui u;

    memset(&cfg, 0, sizeof cfg);
    memset(&score, 0, sizeof score);
    memset(skeleton_mem, 0, sizeof skeleton_mem);
    st = train_parse(&o, argc, argv);
    if (st == CMD_OK)
        st = preset_of(o.preset, &cfg.gnn);
    if (st == CMD_OK)
        st = cmd_skeletons_build(skeletons, skeleton_mem);
    if (st != CMD_OK)
        goto done;
    ui_init(&u, o.quiet);
    cmd_signals_install();

    memset(&encode, 0, sizeof encode);
    encode.cap_nodes = CMD_NODES;
    bytes = metatune_encode_nest_memsize(&encode);
    nest_mem = cmd_alloc(bytes);
    metatune_encode_nest_init(&nest, &encode, nest_mem, bytes);
    groups = (train_group *)cmd_alloc((o.data.n ? o.data.n : 1) *
                                      sizeof *groups);
    pick = (size_t *)cmd_alloc((o.data.n ? o.data.n : 1) * sizeof *pick);
    for (i = 0; i < o.data.n; i++) {
        train_group *g = &groups[i];
        have = group_encode(g, &o.data.group[i], skeletons, &nest, &refused);
        g->role = role_of(&o, i);
        if (!have || g->n < TRAIN_LEAST)
            continue;
        rows += g->n;
        n_role[g->role]++;
        if (g->role == TRAIN_ON)
            pick[n_pick++] = i;
    }
    if (n_pick == 0) {
        st = cmd_fail(CMD_USAGE, "train: no layer with at least %d measured "
                      "settings is left to train on", TRAIN_LEAST);
        goto done;
    }

    cfg.gnn.cap_nodes = CMD_NODES;
    cfg.gnn.cap_batch = TRAIN_CAP;
    cfg.cap_points = TRAIN_CAP;
    n_params = metatune_model_param_count(&cfg.gnn);
    params = (metatune_real *)cmd_alloc(n_params * sizeof *params);
    kept = (metatune_real *)cmd_alloc(n_params * sizeof *kept);
    bytes = metatune_train_memsize(&cfg);
    mem = cmd_alloc(bytes);
    ms = metatune_model_init(&model, &cfg.gnn, params, n_params, o.seed);
    if (ms == METATUNE_OK)
        ms = metatune_train_init(&trainer, &cfg, params, n_params, mem,
                                 bytes);
    if (ms != METATUNE_OK) {
        st = cmd_fail(CMD_FAILED, "train: cannot begin: %s",
                      metatune_encode_status_text(ms));
        goto done;
    }
    ui_say(&u, "%zu groups to train on, %zu to validate, %zu held out, %zu "
           "settings, %zu weights; %zu bad lines, %zu settings refused",
           n_pick, n_role[TRAIN_VALIDATE], n_role[TRAIN_HELD_OUT], rows,
           n_params, o.data.n_bad, refused);

    metatune_encode_rng_init(&rng, o.seed, 1);
    memcpy(kept, params, n_params * sizeof *kept);
    begin = cmd_now();
    for (step = 0; step < o.steps && !cmd_interrupted; step++) {
        double at = (double)step / (double)o.steps, now;
        double rate = 1e-4 + 4.5e-4 * (1 + cos(3.14159265358979 * at));
        double loss = meta_step(&trainer, groups, pick, n_pick, &rng, rate,
                                &ms);
        if (ms != METATUNE_OK) {
            st = cmd_fail(CMD_FAILED, "train: step %llu: %s",
                          (unsigned long long)step,
                          metatune_encode_status_text(ms));
            goto done;
        }
        if (loss < HUGE_VAL) /* false for NaN */
            mean = step == 0 ? loss : 0.98 * mean + 0.02 * loss;
        now = cmd_now();
        if (now >= next) {
            char t[24];
            double left = (now - begin) * (double)(o.steps - step - 1) /
                          (double)(step + 1);
            ui_live(&u, now, 1, 0, "step %llu/%llu, loss %.3f nats, rate "
                    "%.1e, %s left", (unsigned long long)(step + 1),
                    (unsigned long long)o.steps, mean, rate,
                    ui_time(left, t, sizeof t));
            next = now + 1;
        }
        /* looks at evenly spaced steps, the last one always; the weights of
           the best look are kept */
        if (n_role[TRAIN_VALIDATE] && ((step + 1) * TRAIN_LOOKS / o.steps !=
                           step * TRAIN_LOOKS / o.steps ||
                       step + 1 == o.steps)) {
            score = validate(&trainer, groups, o.data.n, TRAIN_VALIDATE,
                             o.seed);
            ui_say(&u, "step %llu: validation: loss %.3f nats, rank "
                   "correlation %.3f, regret@8 %.3f%s",
                   (unsigned long long)(step + 1),
                   score.loss, score.rank, score.regret,
                   score.loss < best_loss ? " *" : "");
            if (score.loss < best_loss) {
                best_loss = score.loss;
                memcpy(kept, params, n_params * sizeof *kept);
            }
        }
    }
    if (best_loss < HUGE_VAL)
        memcpy(params, kept, n_params * sizeof *params);
    ui_clear(&u);
    if (!o.quiet) {
        char t[24];
        printf("%llu steps in %s, loss %.3f nats\n", (unsigned long long)step,
               ui_time(cmd_now() - begin, t, sizeof t), mean);
        for (i = 0; i < TRAIN_ROLES; i++) {
            static const char *const name[TRAIN_ROLES] = {
                "trained on", "validation", "held out"
            };
            score = validate(&trainer, groups, o.data.n, (int)i, o.seed);
            if (score.n)
                printf("%-10s %3zu groups: loss %6.3f nats, rank correlation "
                       "%.3f, regret@8 %.3f (by the bound %.3f, random "
                       "%.3f)\n", name[i], score.n, score.loss, score.rank,
                       score.regret, score.regret_bound,
                       score.regret_random);
        }
    }
    for (i = 0; i < n_params; i++)
        if (!(fabs((double)params[i]) < HUGE_VAL))
            ms = METATUNE_NOT_FINITE;
    if (ms != METATUNE_OK) {
        st = cmd_fail(CMD_FAILED, "train: the weights are not finite; "
                      "nothing written");
        goto done;
    }
    model.hash = metatune_model_hash(params, n_params);
    st = outputs_write(&o, &model);
    if (st == CMD_OK && cmd_interrupted)
        st = cmd_fail(CMD_FAILED, "interrupted after %llu steps; the model "
                      "so far is written", (unsigned long long)step);
done:
    for (i = 0; groups && i < o.data.n; i++) {
        free(groups[i].mem);
        free(groups[i].graph);
        free((void *)groups[i].ptr);
        free(groups[i].y);
        free(groups[i].time_s);
        free(groups[i].order);
        free(groups[i].index);
    }
    for (i = 0; i < HOST_ALGORITHMS; i++)
        free(skeleton_mem[i]);
    free(groups);
    free(pick);
    free(params);
    free(kept);
    free(mem);
    free(nest_mem);
    free((void *)o.holdout);
    data_free(&o.data);
    return st;
}

const cmd_command cmd_train = {
    "train", "meta-train a prior from collected settings",
    "usage: metatune train FILE... (--out FILE | --header FILE) [OPTIONS]\n"
    "\n"
    "FILEs are written by `metatune collect`, of any number of machines; one\n"
    "that is of another space of settings (other kernels) is refused.\n"
    "\n"
    "  --steps N      meta-steps of 8 episodes (3000)\n"
    "  --seed N       weights and episodes\n"
    "  --preset P     default, tiny or large network\n"
    "  --holdout L    NET or NET/LAYER that is only reported, repeatable;\n"
    "                 layers of the same shape go with it\n"
    "  --out FILE     the model, for `metatune tune --model FILE`\n"
    "  --header FILE  the model as a C header\n"
    "  --name NAME    of the array in the header (metatune_prior)\n"
    "  --quiet        no progress\n"
    "\n"
    "Every eighth shape of the rest validates: the weights with the lowest\n"
    "validation loss are written. Reported with nothing measured yet: loss in\n"
    "nats; rank correlation of predicted and measured speed; regret@8 = 1 -\n"
    "fastest / fastest of the eight predicted fastest, beside that of the\n"
    "analytic bound and of eight random ones.\n",
    train
};
