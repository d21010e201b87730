/* cmd_replay.c - metatune replay: searches on recorded tables

   The space is a table's rows, the score after n trials is optimum / best so
   far (0 before the first valid row), the optimum the fastest row. Figures for
   more than a quarter of a table's rows are not given. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay_run.h"
#include "ui.h"

enum { STRATEGY_CAP = 16, POINTS = 5 };
static const uint32_t points[POINTS] = { 8, 16, 32, 64, 128 };

/* What a strategy needs besides the table. */
enum { NEEDS_SOURCE = 1, NEEDS_MODEL = 2, NEEDS_XGB = 4, NEEDS_NESTS = 8 };

typedef struct strategy {
    const char *name, *what;
    replay_fn run;
    int needs;
} strategy;

static const strategy strategies[] = {
    { "random", "uniform", replay_random, 0 },
    { "ga", "genetic", replay_genetic, 0 },
    { "sa", "annealing", replay_anneal, 0 },
    { "grid", "counting order", replay_grid, 0 },
    { "xgb", "AutoTVM's XGBoost ranking", replay_xgb, NEEDS_XGB },
    { "xgb-pre", "the same on a model of the sources", replay_xgb,
      NEEDS_XGB | NEEDS_SOURCE },
    { "portfolio", "the sources' best, best of k", replay_portfolio,
      NEEDS_SOURCE },
    { "finetune", "a jointly trained network, fine-tuned", replay_finetune,
      NEEDS_MODEL | NEEDS_NESTS },
    { "maml", "MetaTune mode: adapted by gradient steps", replay_maml,
      NEEDS_MODEL | NEEDS_NESTS },
    { "mlp", "metatune's search, a network that does not propagate",
      replay_metatune, NEEDS_MODEL | NEEDS_NESTS },
    { "metatune", "the meta-trained head; without a model from nothing",
      replay_metatune, NEEDS_NESTS },
};
enum { STRATEGIES = (int)(sizeof strategies / sizeof strategies[0]) };

typedef struct replay_options {
    char **table, **source;
    size_t n_tables, n_sources;
    const strategy *strategy[STRATEGY_CAP];
    char *label[STRATEGY_CAP];   /* as given, without a model: xgb:16 */
    const char *blob[STRATEGY_CAP]; /* a model of its own, or NULL */
    uint32_t plan[STRATEGY_CAP];
    size_t n_strategies;
    train_split split;
    uint64_t budget, batch, seeds, seed, plan_given, steps;
    double rate;
    const char *model;
    int bound, csv, quiet;
} replay_options;

static int strategy_add(replay_options *o, const char *text)
{
    size_t n = strcspn(text, ":=");
    int i;
    if (o->n_strategies == STRATEGY_CAP)
        return cmd_fail(CMD_USAGE, "replay: at most %d strategies",
                        STRATEGY_CAP);
    for (i = 0; i < STRATEGIES; i++)
        if (strlen(strategies[i].name) == n &&
            strncmp(strategies[i].name, text, n) == 0)
            break;
    if (i == STRATEGIES)
        return cmd_fail(CMD_USAGE, "replay: unknown --strategy \"%.40s\"; "
                        "want random, ga, sa, grid, xgb, xgb-pre, portfolio, "
                        "finetune, maml, mlp or metatune", text);
    o->strategy[o->n_strategies] = &strategies[i];
    o->label[o->n_strategies] = cmd_format("%.*s", text[n] == '=' ? (int)n
                                           : (int)strlen(text), text);
    o->plan[o->n_strategies] = 0;
    o->blob[o->n_strategies] = NULL;
    if (text[n] == '=' && strategies[i].needs & NEEDS_NESTS) {
        o->blob[o->n_strategies] = text + n + 1;
    } else if (text[n]) {
        char *end;
        unsigned long plan = strtoul(text + n + 1, &end, 10);
        if (!(strategies[i].needs & NEEDS_XGB) || *end || plan < 1 ||
            plan > 4096)
            return cmd_fail(CMD_USAGE, "replay: --strategy \"%.40s\": a plan "
                            "is xgb's or xgb-pre's, 1..4096", text);
        o->plan[o->n_strategies] = (uint32_t)plan;
    }
    o->n_strategies++;
    return CMD_OK;
}

static int replay_parse(replay_options *o, int argc, char **argv)
{
    cmd_args args;
    const char *text = NULL;
    size_t room = (size_t)argc + 1;
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->budget = 64;
    o->batch = 8;
    o->seeds = 10;
    o->plan_given = 64;
    o->steps = 20;
    o->rate = 1e-3;
    o->table = (char **)cmd_alloc(room * sizeof *o->table);
    o->source = (char **)cmd_alloc(room * sizeof *o->source);
    o->split.shapes = (const char **)cmd_alloc(room *
                                               sizeof *o->split.shapes);
    o->split.targets = (const char **)cmd_alloc(room *
                                                sizeof *o->split.targets);
    cmd_args_init(&args, "replay", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (cmd_args_is(&args, "--table")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                o->table[o->n_tables++] = cmd_format("%s", text);
        } else if (cmd_args_is(&args, "--source")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                o->source[o->n_sources++] = cmd_format("%s", text);
        } else if (cmd_args_is(&args, "--strategy")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                st = strategy_add(o, text);
        } else if (cmd_args_is(&args, "--holdout")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                o->split.shapes[o->split.n_shapes++] = text;
        } else if (cmd_args_is(&args, "--holdout-target")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                o->split.targets[o->split.n_targets++] = text;
        } else if (cmd_args_is(&args, "--budget")) {
            st = cmd_args_u64(&args, 1, 100000, &o->budget);
        } else if (cmd_args_is(&args, "--batch")) {
            st = cmd_args_u64(&args, 1, 64, &o->batch);
        } else if (cmd_args_is(&args, "--plan")) {
            st = cmd_args_u64(&args, 1, 4096, &o->plan_given);
        } else if (cmd_args_is(&args, "--seeds")) {
            st = cmd_args_u64(&args, 1, 100000, &o->seeds);
        } else if (cmd_args_is(&args, "--seed")) {
            st = cmd_args_u64(&args, 0, UINT64_MAX, &o->seed);
        } else if (cmd_args_is(&args, "--model")) {
            st = cmd_args_text(&args, &o->model);
        } else if (cmd_args_is(&args, "--rate")) {
            st = cmd_args_real(&args, 1e-7, 1, &o->rate);
        } else if (cmd_args_is(&args, "--steps")) {
            st = cmd_args_u64(&args, 0, 100000, &o->steps);
        } else if (cmd_args_is(&args, "--aids")) {
            st = cmd_args_flag(&args);
            o->bound = 1;
        } else if (cmd_args_is(&args, "--csv")) {
            st = cmd_args_flag(&args);
            o->csv = 1;
        } else if (cmd_args_is(&args, "--quiet")) {
            st = cmd_args_flag(&args);
            o->quiet = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st == CMD_OK && o->n_tables == 0)
        st = cmd_fail(CMD_USAGE, "replay: give --table FILE");
    if (st == CMD_OK && o->n_strategies == 0)
        st = strategy_add(o, "metatune");
    return st;
}

/* Everything that all seeds of a (table, strategy) share. */
typedef struct replay_setting {
    const replay_options *o;
    replay_tables tables, sources;
    cmd_model model[STRATEGY_CAP];
    ui u;
} replay_setting;

static int models_open(replay_setting *s)
{
    const replay_options *o = s->o;
    size_t i;
    int st = CMD_OK;
    for (i = 0; i < o->n_strategies && st == CMD_OK; i++) {
        const strategy *g = o->strategy[i];
        if ((g->needs & NEEDS_SOURCE) && o->n_sources == 0)
            st = cmd_fail(CMD_USAGE, "replay: %s learns from other tables: "
                          "give --source FILE", g->name);
        if ((g->needs & NEEDS_MODEL) && !o->blob[i])
            st = cmd_fail(CMD_USAGE, "replay: %s needs a model: --strategy "
                          "%s=BLOB, from `metatune train%s`", g->name, g->name,
                          strcmp(g->name, "finetune") == 0
                              ? " --method joint"
                          : strcmp(g->name, "maml") == 0 ? " --method maml"
                              : " --no-propagation");
        if (st == CMD_OK && (g->needs & NEEDS_XGB) && !replay_xgb_open())
            st = CMD_USAGE;
    }
    for (i = 0; i < o->n_strategies && st == CMD_OK; i++)
        st = cmd_model_open(&s->model[i], o->blob[i] ? o->blob[i]
                            : o->strategy[i]->run == replay_metatune &&
                              o->model ? o->model : "none");
    return st;
}

typedef struct bound_row {
    double t0;
    uint32_t at;
} bound_row;

static int by_bound(const void *a, const void *b)
{
    const bound_row *x = (const bound_row *)a, *y = (const bound_row *)b;
    if (x->t0 < y->t0 || x->t0 > y->t0)
        return x->t0 < y->t0 ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Rows of the lowest analytic bound: (n), to be freed. */
static uint32_t *bound_first(const replay_table *table, uint32_t n)
{
    uint32_t *first = (uint32_t *)cmd_alloc((n + 1) * sizeof *first), i;
    bound_row *row = (bound_row *)cmd_alloc((table->n_rows + 1) *
                                            sizeof *row);
    char *ok = (char *)cmd_alloc(table->n_rows), *mem = NULL;
    metatune_encode_graph *graph;
    replay_skeletons skeletons;
    if (replay_skeletons_open(&skeletons, table) == CMD_OK) {
        graph = replay_encode(table, &skeletons, &mem, ok);
        for (i = 0; i < table->n_rows; i++) {
            row[i].t0 = ok[i] ? graph[i].t0_s : HUGE_VAL;
            row[i].at = i;
        }
        qsort(row, table->n_rows, sizeof *row, by_bound);
        free(graph);
        replay_skeletons_close(&skeletons);
    }
    for (i = 0; i < n; i++)
        first[i] = row[i].at;
    free(mem);
    free(ok);
    free(row);
    return first;
}

/* All seeds of one strategy on one table: score (seeds, budget) summed into
   mean (budget); rows to stdout with --csv. */
static int strategy_run(replay_setting *s, const replay_table *table, size_t g,
                        uint32_t budget, double *mean, double *coverage)
{
    const replay_options *o = s->o;
    const strategy *way = o->strategy[g];
    uint32_t *order = (uint32_t *)cmd_alloc((budget + 1) * sizeof *order);
    double *score = (double *)cmd_alloc((budget + 1) * sizeof *score);
    uint32_t *portfolio = NULL, *first = NULL;
    replay_job job;
    uint64_t k;
    uint32_t i, n;
    int st = CMD_OK;
    memset(&job, 0, sizeof job);
    job.table = table;
    job.sources = &s->sources;
    job.budget = budget;
    job.batch = (uint32_t)o->batch;
    job.plan = o->plan[g] ? o->plan[g] : (uint32_t)o->plan_given;
    job.rate = o->rate;
    job.steps = (uint32_t)o->steps;
    job.model = s->model[g].present ? &s->model[g].model : NULL;
    job.bound_first = o->bound;
    if ((way->needs & NEEDS_NESTS) && !replay_has_nests(table))
        st = cmd_fail(CMD_USAGE, "replay: %s: %s reads loop nests, which this "
                      "table does not have", table->name, way->name);
    if (st == CMD_OK && s->sources.n &&
        (way->run == replay_portfolio || o->bound))
        portfolio = replay_portfolio_make(table, &s->sources, budget,
                                          &job.n_portfolio);
    job.portfolio = portfolio;
    if (st == CMD_OK && o->bound && replay_has_nests(table)) {
        job.n_first = budget < 8 ? budget : 8;
        first = bound_first(table, job.n_first);
        job.first = first;
    }
    if (st == CMD_OK && (way->needs & NEEDS_XGB) &&
        (way->needs & NEEDS_SOURCE)) {
        job.base = replay_xgb_pretrain(table, &s->sources);
        if (!job.base)
            st = CMD_FAILED;
    }
    *coverage = 0;
    for (k = 0; k < o->seeds && st == CMD_OK; k++) {
        job.seed = o->seed + k;
        st = way->run(&job, order, &n);
        if (st != CMD_OK)
            break;
        replay_score(table, order, n, budget, score);
        *coverage += job.coverage / (double)o->seeds;
        for (i = 0; i < budget; i++) {
            mean[i] += score[i] / (double)o->seeds;
            if (o->csv)
                printf("%s,%s,%llu,%u,%.6f\n", o->label[g], table->name,
                       (unsigned long long)job.seed, (unsigned)i + 1,
                       score[i]);
        }
    }
    replay_xgb_free(job.base);
    free(portfolio);
    free(first);
    free(order);
    free(score);
    return st;
}

static int replay(int argc, char **argv)
{
    replay_options o;
    replay_setting s;
    size_t t, g, i;
    double *total = NULL;
    uint32_t counted[STRATEGY_CAP][POINTS];
    double sum[STRATEGY_CAP][POINTS], cover[STRATEGY_CAP];
    int st;
    memset(&s, 0, sizeof s);
    memset(counted, 0, sizeof counted);
    memset(sum, 0, sizeof sum);
    memset(cover, 0, sizeof cover);
    s.o = &o;
    st = replay_parse(&o, argc, argv);
    ui_init(&s.u, o.quiet || o.csv); /* both write to stdout */
    for (i = 0; i < o.n_tables && st == CMD_OK; i++)
        st = replay_tables_read(&s.tables, o.table[i], NULL);
    for (i = 0; i < o.n_sources && st == CMD_OK; i++)
        st = replay_tables_read(&s.sources, o.source[i], &o.split);
    if (st == CMD_OK)
        st = models_open(&s);
    if (st == CMD_OK && o.csv)
        printf("strategy,table,seed,n,score\n");
    for (t = 0; t < s.tables.n && st == CMD_OK; t++) {
        const replay_table *table = &s.tables.table[t];
        uint32_t budget = (uint32_t)o.budget;
        if (budget > table->n_rows / 4)
            budget = table->n_rows / 4;
        for (g = 0; g < o.n_strategies && st == CMD_OK; g++) {
            double *mean = (double *)cmd_alloc((budget + 1) * sizeof *mean);
            double coverage = 0;
            ui_live(&s.u, cmd_now(), 10, 0, "[%zu/%zu] %s: %s", t + 1,
                    s.tables.n, table->name, o.label[g]);
            st = strategy_run(&s, table, g, budget, mean, &coverage);
            cover[g] += coverage;
            for (i = 0; i < POINTS; i++)
                if (points[i] <= budget) {
                    sum[g][i] += mean[points[i] - 1];
                    counted[g][i]++;
                }
            free(mean);
        }
    }
    ui_clear(&s.u);
    if (st == CMD_OK && !o.csv) {
        printf("mean best/optimum over %zu tables, %llu seeds\n%-14s",
               s.tables.n, (unsigned long long)o.seeds, "after");
        for (i = 0; i < POINTS; i++)
            printf(" %7u", (unsigned)points[i]);
        printf("\n");
        for (g = 0; g < o.n_strategies; g++) {
            printf("%-14s", o.label[g]);
            for (i = 0; i < POINTS; i++)
                if (counted[g][i])
                    printf(" %7.4f", sum[g][i] / counted[g][i]);
                else
                    printf(" %7s", "-");
            if (o.strategy[g]->run == replay_metatune)
                printf("   90 %% intervals hold %.1f %%",
                       100 * cover[g] / (double)s.tables.n);
            printf("\n");
        }
    }
    free(total);
    for (g = 0; g < o.n_strategies; g++) {
        cmd_model_close(&s.model[g]);
        free(o.label[g]);
    }
    replay_tables_free(&s.tables);
    replay_tables_free(&s.sources);
    for (i = 0; i < o.n_tables; i++)
        free(o.table[i]);
    for (i = 0; i < o.n_sources; i++)
        free(o.source[i]);
    free(o.table);
    free(o.source);
    free((void *)o.split.shapes);
    free((void *)o.split.targets);
    return st;
}

const cmd_command cmd_replay = {
    "replay", "simulate searches on recorded tables",
    "usage: metatune replay --table FILE... [--strategy S]... [OPTIONS]\n"
    "\n"
    "Each strategy searches each table, whose rows are the space, as often as\n"
    "there are seeds. The score after n trials is the fastest row's time over\n"
    "the best so far; it is given for n up to a quarter of the rows.\n"
    "\n"
    "  --table FILE   a CSV of knob columns, status and time_ms; or a file of\n"
    "                 `metatune collect`: all its layers, or FILE:NET/LAYER;\n"
    "                 repeatable\n"
    "  --source FILE  tables to learn from beforehand, repeatable\n"
    "  --holdout L, --holdout-target T   leave these layers and targets out\n"
    "                 of the sources, as in `metatune train`\n"
    "  --strategy S   random, ga, sa, grid, xgb, xgb-pre, portfolio,\n"
    "                 finetune, maml, mlp or metatune (metatune); repeatable.\n"
    "                 xgb:16, xgb-pre:16: a plan of 16; finetune=BLOB and\n"
    "                 the like: with a model of its own\n"
    "  --budget N     trials (64); --batch N (8); --plan N of xgb (64)\n"
    "  --seeds K      of each (10), from --seed N (0)\n"
    "  --model BLOB   of metatune; without it, from nothing\n"
    "  --rate R, --steps N   of finetune, a batch (0.001, 20)\n"
    "  --aids         the same start for all: the rows of the lowest analytic\n"
    "                 bound, and the sources' best\n"
    "  --csv          strategy,table,seed,n,score for every n, no summary\n"
    "  --quiet        no progress\n"
    "\n"
    "xgb needs XGBoost's C library (libxgboost-dev); nothing else does.\n",
    replay
};
