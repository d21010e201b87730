/* cmd_train.c - metatune train: meta-train a prior from collected files

   An episode is one (layer, target) group: K measured settings adapt the
   head, others are predicted, and the loss of those is differentiated through
   the head's posterior (metatune_train_episode). What a group is, and which
   are held out: train_data.h; how a prior is judged: train_score.h; the steps:
   train_team.h. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_model.h"
#include "replay_table.h"
#include "train_score.h"
#include "train_team.h"
#include "ui.h"

enum { TRAIN_LOOKS = 10 };       /* validations in a training */

typedef struct train_options {
    uint64_t steps, seed, seeds, threads;
    const char *preset;
    int method;                  /* team_method */
    int alone;                   /* no propagation */
    train_split split;
    const char *out, *header, *name;
    int quiet;
    data_set data;
    replay_tables tables;        /* files of another kind */
} train_options;

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

/* ------------------------------------------------------------ options */

static int method_of(const char *name, int *method)
{
    static const char *const names[] = { "head", "joint", "maml" };
    for (*method = 0; *method < 3; ++*method)
        if (strcmp(names[*method], name) == 0)
            return CMD_OK;
    return cmd_fail(CMD_USAGE, "train: unknown --method \"%s\"; want head, "
                    "joint or maml", name);
}

static int train_parse(train_options *o, int argc, char **argv)
{
    cmd_args args;
    const char *text = NULL;
    size_t files = 0, i;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    o->steps = 10000;
    o->seeds = 1;
    o->threads = cores > 1 ? cores > 8 ? 8 : (uint64_t)cores : 1;
    o->preset = "default";
    o->name = "metatune_prior";
    o->split.shapes = (const char **)cmd_alloc((size_t)(argc + 1) *
                                               sizeof *o->split.shapes);
    o->split.targets = (const char **)cmd_alloc((size_t)(argc + 1) *
                                                sizeof *o->split.targets);
    cmd_args_init(&args, "train", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (!args.name[0]) {
            size_t n = strlen(args.value);
            st = n > 4 && strcmp(args.value + n - 4, ".csv") == 0
                     ? replay_tables_read(&o->tables, args.value, NULL)
                     : data_read(&o->data, args.value);
            files++;
        } else if (cmd_args_is(&args, "--steps")) {
            st = cmd_args_u64(&args, 1, 10000000, &o->steps);
        } else if (cmd_args_is(&args, "--seed")) {
            st = cmd_args_u64(&args, 0, UINT64_MAX, &o->seed);
        } else if (cmd_args_is(&args, "--seeds")) {
            st = cmd_args_u64(&args, 1, 100, &o->seeds);
        } else if (cmd_args_is(&args, "--threads")) {
            st = cmd_args_u64(&args, 1, 8, &o->threads);
        } else if (cmd_args_is(&args, "--preset")) {
            st = cmd_args_text(&args, &o->preset);
        } else if (cmd_args_is(&args, "--method")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                st = method_of(text, &o->method);
        } else if (cmd_args_is(&args, "--no-propagation")) {
            st = cmd_args_flag(&args);
            o->alone = 1;
        } else if (cmd_args_is(&args, "--holdout")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK)
                o->split.shapes[o->split.n_shapes++] = text;
        } else if (cmd_args_is(&args, "--holdout-target")) {
            st = cmd_args_text(&args, &text);
            if (st == CMD_OK && !*text)
                st = cmd_fail(CMD_USAGE, "train: --holdout-target is empty; "
                              "want a part of a target's key, lanes=8");
            if (st == CMD_OK)
                o->split.targets[o->split.n_targets++] = text;
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

/* ----------------------------------------------------------- training */

typedef struct train_run {
    const train_options *o;
    train_set *set;
    train_team team;
    metatune_real *best;         /* (n_params) of the best look so far */
    ui *u;
    uint64_t done, all;          /* steps, of all seeds */
    double begin_s;
} train_run;

/* Of two looks at one training the lower loss wins: it is the smoother. */
static int run_seed(train_run *run, uint64_t seed, double *best_loss)
{
    const train_options *o = run->o;
    train_team *team = &run->team;
    double next = 0, mean = 0;
    uint64_t step;
    *best_loss = HUGE_VAL;
    memcpy(run->best, team->params, team->n_params * sizeof *run->best);
    for (step = 0; step < o->steps && !cmd_interrupted; step++) {
        double at = (double)step / (double)o->steps, now, loss;
        double rate = 1e-4 + 4.5e-4 * (1 + cos(3.14159265358979 * at));
        metatune_status st = train_team_step(team, run->set, seed, step,
                                             rate, &loss);
        if (st != METATUNE_OK)
            return cmd_fail(CMD_FAILED, "train: step %llu: %s",
                            (unsigned long long)step,
                            metatune_encode_status_text(st));
        if (loss < HUGE_VAL) /* false for NaN */
            mean = step == 0 ? loss : 0.98 * mean + 0.02 * loss;
        run->done++;
        now = cmd_now();
        if (now >= next) {
            char t[24];
            double left = (now - run->begin_s) *
                          (double)(run->all - run->done) /
                          (double)run->done;
            ui_live(run->u, now, 1, 0, "step %llu/%llu, loss %.3f nats, rate "
                    "%.1e, %s left", (unsigned long long)run->done,
                    (unsigned long long)run->all, mean, rate,
                    ui_time(left, t, sizeof t));
            next = now + 1;
        }
        /* looks at evenly spaced steps, the last one always; the weights of
           the best look are kept */
        if (run->set->n_role[TRAIN_VALIDATE] &&
            ((step + 1) * TRAIN_LOOKS / o->steps !=
             step * TRAIN_LOOKS / o->steps || step + 1 == o->steps)) {
            train_score s = train_score_role(&team->worker[0].trainer,
                                             run->set, TRAIN_VALIDATE,
                                             o->seed);
            ui_say(run->u, "seed %llu, step %llu: loss %.3f nats; validation "
                   "%.3f, rank correlation %.3f, best/optimum %.3f after 8, "
                   "%.3f after 16%s", (unsigned long long)seed,
                   (unsigned long long)(step + 1), mean, s.loss, s.rank,
                   s.score[0], s.score[1], s.loss < *best_loss ? " *" : "");
            if (s.loss < *best_loss) {
                *best_loss = s.loss;
                memcpy(run->best, team->params,
                       team->n_params * sizeof *run->best);
            }
        }
    }
    if (*best_loss < HUGE_VAL)
        memcpy(team->params, run->best, team->n_params * sizeof *run->best);
    return CMD_OK;
}

static void scores_print(train_run *run)
{
    static const char *const name[TRAIN_ROLES] = {
        "trained on", "validation", "held out"
    };
    int role;
    for (role = 0; role < TRAIN_ROLES; role++) {
        train_score s = train_score_role(&run->team.worker[0].trainer,
                                         run->set, role, run->o->seed);
        if (!s.n)
            continue;
        printf("%-10s %3zu groups: loss %6.3f nats, rank correlation %.3f; "
               "best/optimum\n           after 8, 16, 32: %.3f %.3f %.3f "
               "(random %.3f %.3f %.3f, bound %.3f); 90 %% intervals hold "
               "%.1f %%\n", name[role], s.n, s.loss, s.rank, s.score[0],
               s.score[1], s.score[3], s.random[0], s.random[1], s.random[3],
               s.bound, 100 * s.coverage);
    }
}

static int train(int argc, char **argv)
{
    train_options o;
    train_set set;
    train_run run;
    metatune_train_config cfg;
    metatune_model model;
    metatune_real *params = NULL, *winner = NULL;
    metatune_status ms = METATUNE_OK;
    double best_score = -1;
    size_t i, n_params = 0;
    uint64_t k;
    int st;
    ui u;

    memset(&cfg, 0, sizeof cfg);
    memset(&set, 0, sizeof set);
    memset(&run, 0, sizeof run);
    st = train_parse(&o, argc, argv);
    o.split.seed = o.seed;
    if (st == CMD_OK)
        st = preset_of(o.preset, &cfg.gnn);
    if (st == CMD_OK && o.alone) {
        cfg.gnn.conv = METATUNE_GNN_GCN;
        cfg.gnn.no_propagation = 1;
    }
    if (st == CMD_OK)
        st = train_set_open(&set, &o.data, &o.tables, &o.split);
    if (st != CMD_OK)
        goto done;
    ui_init(&u, o.quiet);
    cmd_signals_install();

    cfg.gnn.cap_nodes = CMD_NODES;
    cfg.gnn.cap_batch = TRAIN_CAP;
    cfg.cap_points = TRAIN_CAP;
    n_params = metatune_model_param_count(&cfg.gnn);
    params = (metatune_real *)cmd_alloc(n_params * sizeof *params);
    winner = (metatune_real *)cmd_alloc(n_params * sizeof *winner);
    run.best = (metatune_real *)cmd_alloc(n_params * sizeof *run.best);
    run.o = &o;
    run.set = &set;
    run.u = &u;
    run.all = o.steps * o.seeds;
    ui_say(&u, "%zu groups to train on, %zu to validate, %zu held out, %zu "
           "left out, %zu settings, %zu weights; %zu bad lines, %zu settings "
           "refused", set.n_pick, set.n_role[TRAIN_VALIDATE],
           set.n_role[TRAIN_HELD_OUT], set.n_role[TRAIN_LEFT_OUT], set.rows,
           n_params, o.data.n_bad, set.refused);

    run.begin_s = cmd_now();
    for (k = 0; k < o.seeds && st == CMD_OK && !cmd_interrupted; k++) {
        double loss, score = 0;
        ms = metatune_model_init(&model, &cfg.gnn, params, n_params,
                                 o.seed + k);
        if (ms == METATUNE_OK)
            ms = train_team_open(&run.team, &cfg, params, n_params, &set,
                                 (int)o.threads, o.method);
        if (ms != METATUNE_OK) {
            st = cmd_fail(CMD_FAILED, "train: cannot begin: %s",
                          metatune_encode_status_text(ms));
            break;
        }
        st = run_seed(&run, o.seed + k, &loss);
        if (st == CMD_OK) {
            train_score s = train_score_role(&run.team.worker[0].trainer,
                                             &set, TRAIN_VALIDATE, o.seed);
            score = s.n ? (s.score[0] + s.score[1]) / 2 : 0;
            if (score > best_score) {
                best_score = score;
                memcpy(winner, params, n_params * sizeof *winner);
            }
            if (o.seeds > 1)
                ui_say(&u, "seed %llu: best/optimum %.4f, the mean after 8 "
                       "and 16", (unsigned long long)(o.seed + k), score);
        }
        if (st == CMD_OK && !o.quiet &&
            (k + 1 == o.seeds || cmd_interrupted)) {
            char t[24];
            memcpy(params, winner, n_params * sizeof *params);
            ui_clear(&u);
            printf("%llu steps in %s\n", (unsigned long long)run.done,
                   ui_time(cmd_now() - run.begin_s, t, sizeof t));
            scores_print(&run);
        }
        train_team_close(&run.team);
    }
    if (st != CMD_OK)
        goto done;
    memcpy(params, winner, n_params * sizeof *params);
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
                      "so far is written", (unsigned long long)run.done);
done:
    train_set_close(&set);
    free(params);
    free(winner);
    free(run.best);
    free((void *)o.split.shapes);
    free((void *)o.split.targets);
    data_free(&o.data);
    replay_tables_free(&o.tables);
    return st;
}

const cmd_command cmd_train = {
    "train", "meta-train a prior from collected settings",
    "usage: metatune train FILE... (--out FILE | --header FILE) [OPTIONS]\n"
    "\n"
    "FILEs are written by `metatune collect`, of any number of machines; one\n"
    "that is of another space of settings (other kernels) is refused. A table\n"
    "of `metatune replay` (FILE.csv) that has loop nests is a group, too;\n"
    "--holdout takes its name.\n"
    "\n"
    "  --steps N      meta-steps of 8 episodes (10000)\n"
    "  --seed N       weights and episodes (0)\n"
    "  --seeds N      so many trainings, of seeds N, N + 1...: the best on\n"
    "                 the validation groups is written (1)\n"
    "  --threads N    the result does not depend on it (the cores)\n"
    "  --method M     head: meta-trained through the Bayesian head; joint:\n"
    "                 one model of all groups, the usual pre-training; maml:\n"
    "                 MetaTune mode, five gradient steps adapt (head)\n"
    "  --no-propagation   nodes do not see their neighbours, as the MLP of\n"
    "                 Tomczak et al.\n"
    "  --preset P     default, tiny or large network\n"
    "  --holdout L    NET or NET/LAYER that is only reported, repeatable;\n"
    "                 layers of the same shape go with it\n"
    "  --holdout-target T   a target, by a whole part of its key: lanes=8,\n"
    "                 cc=clang-14.0.6; repeatable. With --holdout, groups of\n"
    "                 both are reported, those of one are not used\n"
    "  --out FILE     the model, for `metatune tune --model FILE`\n"
    "  --header FILE  the model as a C header\n"
    "  --name NAME    of the array in the header (metatune_prior)\n"
    "  --quiet        no progress\n"
    "\n"
    "Every eighth shape of the rest validates: the weights with the lowest\n"
    "validation loss are kept. Reported with nothing measured yet: loss in\n"
    "nats, rank correlation of predicted and measured speed. Then each group\n"
    "is tuned as recorded, eight settings a batch: best/optimum after 8, 16\n"
    "and 32, beside random settings and the analytic bound's first eight; and\n"
    "how many measurements the 90 % intervals hold after 16.\n",
    train
};
