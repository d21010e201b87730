/* metatune.h - v0.1.0 - an embeddable auto-tuner that learns to learn
   public domain or MIT-0, your choice; no warranty; see the end of this file

   You say what a setting's loop nest is and measure it; this header proposes
   which settings to measure, learning from each result with a meta-trained
   graph network (metatune_gnn.h) over the kernel's AST (metatune_encode.h).

   CONTENTS (each room of this file begins with its token)
     [M-CONFIG]   configuration macros
     [M-CONCEPT]  trials, order, ownership, determinism
     [M-SPACE]    knobs, constraints, settings
     [M-HEAD]     Bayesian linear head
     [M-MODEL]    model, blob
     [M-TRAIN]    meta-training
     [M-PROBLEM]  the caller's side: problem and callbacks
     [M-TUNER]    ask / tell / done / best
     [M-RECORD]   record lines, history, resume
     [M-LOOKUP]   tables of tuned settings in a program
     [M-TUNE]     the tune() loop
     [M-IMPL]     implementation, in the same order

   USE
     metatune_problem problem = {0};         knobs, callbacks, model...
     metatune_config config = {0};           all defaults: 64 trials, seed 0
     size_t bytes = metatune_memsize(&config, &problem);
     metatune_init(&tuner, &config, &problem, malloc(bytes), bytes, &error);
     status = metatune_tune(&tuner);         BUDGET, EXHAUSTED, ...
     metatune_best_get(&tuner, &best);       best.values[] are the knobs

   [M-CONFIG]
     METATUNE_REAL, METATUNE_STATIC, METATUNE_ASSERT  see metatune_encode.h
     METATUNE_GEMM                                    see metatune_gnn.h
     METATUNE_NO_TRAIN       leave meta-training out
     METATUNE_NO_RECORDS     leave record lines and history out
     METATUNE_NO_LOOKUP      leave lookup tables out

   [M-CONCEPT]
     Setting    a digit vector, one digit a knob; digits index knob values.
     Trial      {id, batch, kind, setting, repeat}. EXPLORE trials are new
                settings, each at most once, and count in the budget. CONFIRM
                trials measure the final best few again, in alternation.
     Order      the proposals of batch b are a function of the seed and of the
                results of batches < b in trial-id order. Tells inside a batch
                take effect at the next ask: their order does not matter.
     Repair     where most settings break a constraint, a repair() callback
                bends drawn and mutated ones into valid ones.
     Value      what is minimised: seconds, cycles or instructions, > 0.
     Speed      the model's unit: y = log2(t0 / t), t0 the analytic bound.
     Memory     one block a tuner, said by metatune_memsize; never more.
     Threads    a tuner belongs to one thread at a time; no globals.

   REFERENCES
     [M]  Ryu, Sung: MetaTune, arXiv 2102.04199
     [T]  Tomczak et al., arXiv 1904.11876
     [H]  Harrison, Sharma, Pavone: Meta-Learning Priors for Efficient Online
          Bayesian Regression (ALPaCA), arXiv 1807.08912: a linear head whose
          Gaussian prior is meta-trained through its posterior
     [F]  Finn, Abbeel, Levine: Model-agnostic meta-learning, ICML 2017; ANIL:
          Raghu et al., ICLR 2020; learned rates: Li et al., Meta-SGD, 2017
*/
#ifndef METATUNE_H
#define METATUNE_H

#include "metatune_gnn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ====================================================== [M-SPACE] space */

#define METATUNE_MAX_KNOBS 64

/* A knob: its values in the order of its digits, at least one, distinct. With
   labels, records carry the label text instead of the number. */
typedef struct metatune_knob {
    const char *name;            /* [A-Za-z0-9_.-]+, unique in the space */
    const int64_t *values;       /* (n_values) */
    const char *const *labels;   /* (n_values) or NULL */
    uint32_t n_values;           /* 1..65535 */
} metatune_knob;

/* OK, or BAD_ARG / EMPTY_KNOB / BAD_CONFIG with the knob in *error. */
METATUNE_API metatune_status
metatune_space_check(const metatune_knob *knobs, uint32_t n_knobs,
                     metatune_error *error);
/* Number of settings before constraints, in double (2^80 is no trouble). */
METATUNE_API double metatune_space_size(const metatune_knob *knobs,
                                        uint32_t n_knobs);
/* Changes when a knob, a name, a value or their order changes. */
METATUNE_API uint64_t metatune_space_hash(const metatune_knob *knobs,
                                          uint32_t n_knobs);
/* digits -> values, both (n_knobs). */
METATUNE_API void metatune_space_values(const metatune_knob *knobs,
                                        uint32_t n_knobs,
                                        const uint16_t *digits,
                                        int64_t *values);
/* values -> digits; NOT_FOUND when a value is not in its knob. */
METATUNE_API metatune_status
metatune_space_digits(const metatune_knob *knobs, uint32_t n_knobs,
                      const int64_t *values, uint16_t *digits);
/* 64-bit hash of a setting's digits. */
METATUNE_API uint64_t metatune_setting_hash(const uint16_t *digits,
                                            uint32_t n_knobs);

/* Helpers to make knob values; each returns how many were written (at most
   cap), never 0 for n >= 1. Ascending. */
METATUNE_API uint32_t metatune_values_divisors(int64_t n, int64_t max,
                                               int64_t *out, uint32_t cap);
/* 1, 2, 4... below n, then n itself (a tail is the kernel's business). */
METATUNE_API uint32_t metatune_values_powers(int64_t n, int64_t max,
                                             int64_t *out, uint32_t cap);

/* ================================================ [M-HEAD] linear head */

/* Bayesian linear regression on phi (D): prior w ~ N(w0, diag(lambda)^-1),
   noise variance s2; RECIPE: A = diag(lambda) + Phi'Phi/s2,
   b = diag(lambda) w0 + Phi'y/s2, m = A^-1 b, mu = phi'm, v = phi'A^-1 phi.
   All in double; A as a packed Cholesky factor, one rank-1 update a point. */
typedef struct metatune_head {
    int32_t width;               /* D */
    double s2;                   /* noise variance, > 0 */
    double *chol;                /* (D (D+1)/2) lower, row-packed */
    double *b;                   /* (D) */
    double *m;                   /* (D) posterior mean, after _solve */
    double *work;                /* (D) */
} metatune_head;

METATUNE_API size_t metatune_head_memsize(int32_t width);
METATUNE_API metatune_status metatune_head_init(metatune_head *head,
                                                int32_t width, void *mem,
                                                size_t bytes);
/* The pure prior. scale multiplies every lambda (1 = as trained; < 1 widens).
   w0 and log_lambda (D); natural logarithms. */
METATUNE_API void metatune_head_prior(metatune_head *head,
                                      const metatune_real *w0,
                                      const metatune_real *log_lambda,
                                      metatune_real log_s2, double scale);
/* One point; weight 1 = a full measurement, 0.5 = half the precision. */
METATUNE_API void metatune_head_add(metatune_head *head,
                                    const metatune_real *phi, double y,
                                    double weight);
/* Posterior mean from the points added so far. */
METATUNE_API void metatune_head_solve(metatune_head *head);
/* mu and the variance v of the mean; a measurement's variance is v + s2. */
METATUNE_API void metatune_head_predict(const metatune_head *head,
                                        const metatune_real *phi, double *mu,
                                        double *v);
/* Leave-one-out residual of a point that was added with weight 1:
   (y - phi'm) / (1 - h), h = phi'A^-1 phi / s2. */
METATUNE_API double metatune_head_loo(const metatune_head *head,
                                      const metatune_real *phi, double y);
/* The same residual, and in *var the variance that a head without that point
   gives a measurement of it: v / (1 - h) + s2 = s2 / (1 - h). */
METATUNE_API double metatune_head_leave(const metatune_head *head,
                                        const metatune_real *phi, double y,
                                        double *var);

/* ============================================ [M-MODEL] model and blob */

/* Weights of trunk and head, flat: the gnn's parameters (their last window,
   "out", is the head's w0), log_lambda (D), log_s2 (1). */
typedef struct metatune_model {
    metatune_gnn_config gnn;
    uint32_t schema;             /* METATUNE_ENCODE_SCHEMA it was made for */
    uint64_t hash;               /* of the weights; records name it */
    const metatune_real *params; /* (n_params) not owned */
    size_t n_params;
} metatune_model;

/* gnn parameters + D + 1; 0 when cfg is bad. */
METATUNE_API size_t
metatune_model_param_count(const metatune_gnn_config *cfg);
/* Untrained: random trunk, w0 = 0, lambda = 1, s2 = 1/16. params is the
   caller's (metatune_model_param_count) block, kept by the model. */
METATUNE_API metatune_status
metatune_model_init(metatune_model *model, const metatune_gnn_config *cfg,
                    metatune_real *params, size_t n_params, uint64_t seed);
METATUNE_API const metatune_real *
metatune_model_log_lambda(const metatune_model *model);
METATUNE_API uint64_t metatune_model_hash(const metatune_real *params,
                                          size_t n_params);

/* CRC-32 (IEEE 802.3, reflected), chained with crc; start with 0. */
METATUNE_API uint32_t metatune_crc32(uint32_t crc, const void *bytes,
                                     size_t n);

#define METATUNE_BLOB_F32 0
#define METATUNE_BLOB_F16 1
/* Little-endian, versioned, schema-tagged, CRC-checked. Layout:
   0 "MTUN", 4 u16 version, 6 u16 header bytes (96), 8 u32 schema, 12 u32
   format, 16 16 x i32 gnn config, 80 u32 weights, 84 u32 crc of bytes 96..,
   88 u32 crc of bytes 0..87, 92 u32 zero, 96 weights. */
#define METATUNE_BLOB_HEADER 96u
METATUNE_API size_t metatune_blob_size(const metatune_model *model,
                                       int32_t format);
METATUNE_API metatune_status metatune_blob_write(const metatune_model *model,
                                                 int32_t format, void *buf,
                                                 size_t cap);
/* Bytes of memory that loading needs: 0 when the weights can be used where
   they are (f32, little-endian machine, aligned, METATUNE_REAL float).
   SIZE_MAX when the blob is not one. */
METATUNE_API size_t metatune_blob_memsize(const void *blob, size_t bytes);
/* BAD_BLOB, BAD_SCHEMA or OK; *error says more (may be NULL). The blob must
   outlive the model when used in place. */
METATUNE_API metatune_status
metatune_blob_load(metatune_model *model, const void *blob, size_t bytes,
                   void *mem, size_t mem_bytes, metatune_error *error);

/* ============================================ [M-TRAIN] meta-training */
#ifndef METATUNE_NO_TRAIN

/* {0} is all defaults. */
typedef struct metatune_train_config {
    metatune_gnn_config gnn;     /* train is set by the trainer */
    int32_t cap_points;          /* support + query of an episode; 0 = 128 */
    double weight_decay;         /* decoupled; 0 = 1e-4; < 0 = none */
    double clip;                 /* gradient norm; 0 = 1; < 0 = none */
} metatune_train_config;

typedef struct metatune_trainer {
    metatune_train_config cfg;
    metatune_gnn net;
    metatune_gnn_adam adam;
    metatune_real *params;       /* (n_params) trained in place */
    metatune_real *grad;         /* (n_params) summed over episodes; an MPI
                                    job may add other ranks' sums here */
    size_t n_params;
    uint32_t n_episodes;         /* in grad since the last step */
    metatune_real *phi, *dphi;   /* (cap_points, D) */
    double *work;                /* head, gradients */
    metatune_head head;
} metatune_trainer;

METATUNE_API size_t
metatune_train_memsize(const metatune_train_config *cfg);
/* params: the model's weights (metatune_model_init or a loaded copy). */
METATUNE_API metatune_status
metatune_train_init(metatune_trainer *trainer,
                    const metatune_train_config *cfg, metatune_real *params,
                    size_t n_params, void *mem, size_t bytes);
/* One episode: the first n_support graphs adapt the head, the next n_query
   are predicted. Adds the exact gradient of the mean Gaussian negative
   log-likelihood of the queries, through the head's posterior (RECIPE 4), to
   trainer->grad; loss in nats a query. n_support may be 0. */
METATUNE_API metatune_status
metatune_train_episode(metatune_trainer *trainer,
                       const metatune_encode_graph *const *graphs,
                       const double *y, size_t n_support, size_t n_query,
                       double *loss);
/* Mean over episodes, clip, Adam with decoupled decay; clears grad. Refuses a
   gradient that is not finite (NOT_FINITE: grad cleared, weights as before). */
METATUNE_API metatune_status metatune_train_step(metatune_trainer *trainer,
                                                 double rate);
/* Loss of an episode without gradients, and its predictions: mu, var (n_query,
   either may be NULL). */
METATUNE_API metatune_status
metatune_train_evaluate(metatune_trainer *trainer,
                        const metatune_encode_graph *const *graphs,
                        const double *y, size_t n_support, size_t n_query,
                        double *mu, double *var, double *loss);

/* ---- MAML: the weights themselves adapt [F], as in MetaTune mode [M]

     theta_0 = theta,  g_k = dL_S/dtheta (theta_k)      support, k < steps
     theta_{k+1} = theta_k - alpha g_k                   alpha a window's rate
     episode loss L_Q(theta_K),                          query
   and its exact gradient by going back over the steps, with v = dL_Q/dtheta
   at theta_K at first:
     dalpha_w -= sum over w of v g_k,    v -= H_S(theta_k) (alpha v)
   H by metatune_gnn_hessian_product. L is the mean over points of a loss of
   mu = phi . out; the head's log_lambda and log_s2 take no part. */

typedef enum metatune_maml_loss {
    METATUNE_MAML_SMOOTH_L1 = 0, /* [M] */
    METATUNE_MAML_SQUARED = 1
} metatune_maml_loss;

#define METATUNE_MAML_WINDOWS 21 /* of a gnn, at most */

/* {0} is MetaTune's: one step of 2e-3, second order, smooth L1. */
typedef struct metatune_maml_config {
    metatune_gnn_config gnn;     /* train is set by the trainer */
    int32_t cap_points;          /* of support and of query; 0 = 64 */
    int32_t steps;               /* K, 1..16; 0 = 1; -1 = none: joint
                                    training */
    double rate;                 /* inner; 0 = 2e-3; < 0: 0, nothing moves */
    int32_t loss;                /* metatune_maml_loss */
    int32_t first_order;         /* 1: H is left out (FOMAML) */
    int32_t head_only;           /* 1: inner steps move `out` alone (ANIL) */
    int32_t learn_rates;         /* 1: a rate a window, trained as well */
    double weight_decay;         /* as metatune_train_config */
    double clip;
} metatune_maml_config;

typedef struct metatune_maml {
    metatune_maml_config cfg;    /* defaults filled in */
    metatune_gnn net;
    metatune_gnn_tangent tangent;
    metatune_gnn_adam adam, rate_adam;
    metatune_real *params;       /* (n_params) trained in place */
    metatune_real *grad;         /* (n_params) summed over episodes: with
                                    several processes, zero it before each
                                    episode, and add the episodes' gradients
                                    up in one order everywhere */
    size_t n_params;             /* of the model */
    size_t n_gnn;                /* of the network, the first of them */
    size_t n_windows, window[METATUNE_MAML_WINDOWS + 1]; /* offsets */
    metatune_real *rates;        /* (n_windows) inner rates */
    metatune_real *rate_grad;    /* (n_windows) summed over episodes */
    uint32_t n_episodes;         /* in grad since the last step */
    metatune_real *theta;        /* (steps + 1, n_gnn) */
    metatune_real *inner;        /* (steps, n_gnn) g_k */
    metatune_real *v, *av;       /* (n_gnn) */
    metatune_real *phi, *dphi;   /* (cap_points, D) */
    metatune_real *mu, *dmu, *ddmu, *y; /* (cap_points) */
} metatune_maml;

METATUNE_API size_t metatune_maml_memsize(const metatune_maml_config *cfg);
/* params: a model's (metatune_model_param_count), or the network's alone
   (metatune_gnn_param_count). */
METATUNE_API metatune_status
metatune_maml_init(metatune_maml *maml, const metatune_maml_config *cfg,
                   metatune_real *params, size_t n_params, void *mem,
                   size_t bytes);
/* Adds the gradient of one episode's query loss to grad and rate_grad. The
   first n_support graphs adapt, the next n_query are judged; each at most
   cap_points; n_support 0 adapts nothing. loss may be NULL. */
METATUNE_API metatune_status
metatune_maml_episode(metatune_maml *maml,
                      const metatune_encode_graph *const *graphs,
                      const double *y, size_t n_support, size_t n_query,
                      double *loss);
/* Mean over episodes, clip, Adam; rates by Adam at a tenth of the rate, kept
   positive; clears the gradients. NOT_FINITE as metatune_train_step. */
METATUNE_API metatune_status metatune_maml_step(metatune_maml *maml,
                                                double rate);
/* Adapt to the support, then predict: mu (n_query) and loss, each may be NULL.
   Nothing is trained. */
METATUNE_API metatune_status
metatune_maml_evaluate(metatune_maml *maml,
                       const metatune_encode_graph *const *graphs,
                       const double *y, size_t n_support, size_t n_query,
                       double *mu, double *loss);

/* Draw an episode from n measured points (speeds y): n_support indices, half
   uniform and half from the better half, then n_query: a third from the top
   10 %, a third from the middle, a third uniform; no index twice; fewer when
   n is small. order (n) is scratch. Returns support + query written to index,
   and the support count in *n_support. */
METATUNE_API size_t metatune_episode_draw(metatune_encode_rng *rng,
                                          const double *y, size_t n,
                                          size_t *n_support, size_t n_query,
                                          uint32_t *order, uint32_t *index);
#endif /* METATUNE_NO_TRAIN */

/* ============================================ [M-PROBLEM] caller's side */

typedef enum metatune_unit {
    METATUNE_SECONDS = 0, METATUNE_CYCLES = 1, METATUNE_INSTRUCTIONS = 2
} metatune_unit;

typedef enum metatune_trial_kind {
    METATUNE_EXPLORE = 0, METATUNE_CONFIRM = 1
} metatune_trial_kind;

typedef struct metatune_trial {
    uint64_t id;                 /* 1, 2, 3... in the order proposed */
    uint32_t batch;              /* 0, 1, 2... */
    int32_t kind;                /* metatune_trial_kind */
    uint32_t repeat;             /* CONFIRM: 0.. ; EXPLORE: 0 */
    uint32_t attempt;            /* 1 after the device was lost in it once */
    const uint16_t *digits;      /* (n_knobs) the tuner's, until the next */
    const int64_t *values;       /*           batch is proposed */
    uint64_t hash;               /* of the setting */
    int32_t predicted;           /* whether mean and sigma are set */
    double mean, sigma;          /* predicted value: the model's median in the
                                    problem's unit; sigma in log2 units */
} metatune_trial;

/* Zero it, then fill what is known. value is required with METATUNE_OK. */
typedef struct metatune_result {
    metatune_status status;
    double value;                /* in the problem's unit, > 0 */
    const double *samples;       /* (n_samples) or NULL; copied by tell */
    uint32_t n_samples;          /* records keep the first 16 */
    double build_s, run_s;       /* seconds spent on it; 0 = unknown */
    const char *error;           /* text of a failure or NULL; any bytes */
    size_t error_bytes;
} metatune_result;

typedef struct metatune_progress {
    const char *task;            /* problem->task */
    int32_t kind;                /* phase: EXPLORE or CONFIRM */
    uint32_t done, total;        /* trials of this phase; total is clamped to
                                    what the space and the budget hold */
    metatune_status last;        /* status of the newest result */
    double last_value;           /* 0 when it failed */
    double best_value;           /* 0 before a valid result */
    double expected_gain;        /* model: best / predicted best of what is
                                    left, as a ratio >= 1; 0 = unknown */
    double elapsed_s, left_s;    /* left_s < 0 = unknown; needs now() */
    uint32_t failures;
} metatune_progress;

struct metatune_problem;

/* Fill the nest of a setting: pure, allocates nothing, called thousands of
   times by one ask. The nest is empty on the first call and keeps what the
   last call left otherwise: begin with _nest_clear or _nest_rewind. Return
   nest->status, or another refusal: the setting is then not proposed. */
typedef metatune_status (*metatune_describe_fn)(
    void *user, const struct metatune_problem *problem,
    const int64_t *values, metatune_encode_nest *nest);
/* Non-zero when the setting may be proposed; pure. */
typedef int (*metatune_valid_fn)(void *user,
                                 const struct metatune_problem *problem,
                                 const int64_t *values);
/* Change values, in place, into a valid setting near by; 0 = could not. Called
   before valid() on settings that were drawn or mutated: where constraints are
   many most of them would be thrown away otherwise. Deterministic, a function
   of values alone; what it leaves must be in the knobs' lists. A setting it
   leaves outside of them, not valid or proposed before does not count: the one
   that was drawn is looked at instead. Never called on the default setting, on
   what a log holds or when settings are counted, so a small space is still
   searched to its end. STRATEGY_RANDOM is then uniform over repaired draws, no
   longer over the valid settings: many draws may lead to one. */
typedef int (*metatune_repair_fn)(void *user,
                                  const struct metatune_problem *problem,
                                  int64_t *values);
/* Measure n trials (n = 1 is always legal) into results (n), zeroed before.
   results[i].status is NOT_RUN on entry: leave it for what was not measured.
   With a compile callback, only those that compiled come here. The first
   DEVICE_LOST of a call is blamed on its trial, later ones are taken as
   NOT_RUN. Return OK, or CANCELLED to stop after these, or another status to
   stop with it. */
typedef metatune_status (*metatune_measure_fn)(
    void *user, const struct metatune_problem *problem,
    const metatune_trial *trials, size_t n, metatune_result *results);
/* One record line with its '\n'; one call a line. Non-zero = failed: the
   search stops with IO and keeps its best. */
typedef int (*metatune_write_fn)(void *user, const char *bytes, size_t n);
typedef double (*metatune_now_fn)(void *user); /* seconds, monotonic */
/* After DEVICE_LOST; non-zero = could not: the search stops. */
typedef int (*metatune_reset_fn)(void *user);
/* Non-zero stops after the current trials; the best is kept. */
typedef int (*metatune_progress_fn)(void *user,
                                    const metatune_progress *progress);

struct metatune_history;

typedef struct metatune_problem {
    const char *task;            /* key: everything that changes the kernel */
    const char *target;          /* key: cpu, compiler, flags, threads... */
    int32_t unit;                /* metatune_unit */
    const metatune_knob *knobs;  /* (n_knobs) */
    uint32_t n_knobs;            /* 1..METATUNE_MAX_KNOBS */
    const int64_t *default_values; /* (n_knobs) or NULL: a setting known to
                                    work; seeds the search, answers best()
                                    before anything is measured */
    const uint16_t *list;        /* (n_list, n_knobs) digits or NULL. The
                                    space is these rows, all different, and
                                    nothing else: no other is proposed, and
                                    where a search bends or mixes settings it
                                    takes the row that differs in the fewest
                                    knobs (ties: by the sum of the digits'
                                    distances, then the first). The model
                                    scores every row. repair is not asked */
    uint32_t n_list;
    const int64_t *seeds;        /* (n_seeds, n_knobs) values, nearest task
                                    first, or NULL: what did best on tasks
                                    like this one. The first batch tries two
                                    that are valid here, whatever the
                                    strategy; values a knob lacks and settings
                                    that break a constraint are passed over */
    uint32_t n_seeds;
    const metatune_model *model; /* NULL = start from nothing: an untrained
                                    default trunk, in the tuner's memory */
    const metatune_encode_device *device;          /* or NULL */
    const metatune_encode_skeleton *skeletons;     /* by nest->skeleton */
    uint32_t n_skeletons;        /* 0 = plain mode */
    struct metatune_history *history; /* what a log holds, or NULL */
    void *user;                  /* handed to every callback */
    metatune_describe_fn describe; /* needed by STRATEGY_MODEL */
    metatune_valid_fn valid;     /* optional */
    metatune_repair_fn repair;   /* optional */
    metatune_measure_fn compile; /* optional split */
    metatune_measure_fn measure; /* needed by metatune_tune */
    metatune_write_fn write;     /* optional */
    metatune_now_fn now;         /* optional; needed by a seconds budget */
    metatune_reset_fn reset;     /* optional */
    metatune_progress_fn progress; /* optional */
} metatune_problem;

/* =================================================== [M-TUNER] tuner */

/* All but MODEL need neither describe() nor a model. RANDOM, GENETIC and GRID
   decide by integers alone: their proposals are the same everywhere. */
typedef enum metatune_strategy {
    METATUNE_STRATEGY_MODEL = 0, /* the meta-learned model guides */
    METATUNE_STRATEGY_RANDOM = 1,
    METATUNE_STRATEGY_GENETIC = 2, /* children of two of the best sixteen,
                                    each the better of two drawn: every knob
                                    from either parent, one in ten then drawn
                                    anew; one setting in eight is random */
    METATUNE_STRATEGY_ANNEAL = 3, /* one chain a place in the batch: a knob
                                    is changed; a slower setting is taken with
                                    probability 2^-(octaves / T), T falling
                                    from 1/2 to 0 over the budget */
    METATUNE_STRATEGY_GRID = 4   /* counting order, the last knob fastest; a
                                    list from its first row */
} metatune_strategy;

/* "metatune", "random", "ga", "sa", "grid", as records spell it; NULL for
   another number. */
METATUNE_API const char *metatune_strategy_name(int32_t strategy);

#define METATUNE_UNLIMITED UINT32_MAX

/* {0} is all defaults. */
typedef struct metatune_config {
    uint64_t seed;               /* any */
    uint32_t trials;             /* explore budget; 0 = 64; METATUNE_UNLIMITED
                                    = the whole space; clamped to the space */
    int32_t no_trials;           /* 1: propose nothing; best() is the model's
                                    pick, or the default setting */
    double seconds;              /* 0 = no limit; needs now(); the last tenth
                                    is kept for confirm trials */
    uint32_t batch;              /* explore trials a batch; 0 = 8; 1..64 */
    int32_t strategy;            /* metatune_strategy */
    int32_t no_confirm;          /* 1: no confirm trials */
    uint32_t confirm_top;        /* settings confirmed; 0 = 3; 1..8 */
    uint32_t confirm_repeat;     /* times each; 0 = 5; 1..16 */
    uint32_t patience;           /* stop when this many trials brought no
                                    better valid one; 0 = off */
    uint32_t max_failures;       /* in a row with nothing valid; 0 = 128 */
    uint32_t max_resets;         /* device resets; 0 = 8 */
    uint32_t cap_visited;        /* remembered proposals; 0 = 1024; 16..2^20;
                                    when full the oldest is forgotten */
    uint32_t cap_fit;            /* points kept; 0 = 256; 8..65536; when full
                                    a slow one goes, never one of the best */
    uint32_t draft;              /* candidates of a batch; 0 = 512; 16..4096 */
    uint32_t chains;             /* 0 = 64; 1..1024 */
    uint32_t moves;              /* a chain; 0 = 100; 1..10000 */
    metatune_encode_config encode; /* node capacity of nest and graph */
    uint32_t gnn_batch;          /* graphs a forward holds; 0 = 32; 1..1024 */
} metatune_config;

/* DESIGN's tiny configuration: ask batch 8, forward batch 1, draft 20, 16
   chains, 64 points, 32 nodes. For up to 8 knobs and the tiny preset. */
METATUNE_API metatune_config metatune_config_tiny(void);
METATUNE_API metatune_status metatune_config_check(const metatune_config *cfg,
                                                   metatune_error *error);

typedef struct metatune_best {
    const uint16_t *digits;      /* (n_knobs) the tuner's */
    const int64_t *values;
    uint64_t hash;
    uint64_t trial;              /* id; 0 = never measured (model's pick) */
    int32_t measured, confirmed;
    double value;                /* median of confirm samples, else value */
    double spread;               /* (max - min) / value of those samples */
    uint32_t ties;               /* confirmed others within the spread */
} metatune_best;

typedef struct metatune_summary {
    metatune_status end;         /* OK while running */
    uint32_t trials;             /* explore results told */
    uint32_t confirms;
    uint32_t recalled;           /* of both, answered by the history */
    uint32_t by_status[10];      /* results by status 0..9 */
    uint32_t resets, quarantined;
    double build_s, run_s;       /* sums of what results said */
    double think_s;              /* in ask and tell; needs now() */
    double space_size;           /* before constraints */
    metatune_status first_failure, top_failure; /* OK = none */
    char first_error[96];        /* cut, printable */
    char top_error[96];          /* text of the most frequent class */
    int32_t reference_suspect;   /* > 90 % of >= 10 results are WRONG */
    uint64_t looked;             /* times a setting's validity was asked */
    uint64_t described;          /* times the model could read a setting */
    uint64_t undescribed;        /* times it could not: describe() or its nest
                                    was refused; without any described the
                                    model never worked */
    metatune_status first_undescribed; /* the first refusal; OK = none */
} metatune_summary;

typedef struct metatune_tuner metatune_tuner;

/* Bytes for these; 0 when cfg or problem is refused (metatune_init says
   why). */
METATUNE_API size_t metatune_memsize(const metatune_config *cfg,
                                     const metatune_problem *problem);
/* cfg and problem are copied (what they point at is not). mem aligned to 8. */
METATUNE_API metatune_status
metatune_init(metatune_tuner *tuner, const metatune_config *cfg,
              const metatune_problem *problem, void *mem, size_t bytes,
              metatune_error *error);

/* Up to n trials into trials (n), *count of them. A new batch is proposed only
   when the last is told: before, what is left of it is handed out, then WAIT.
   OK with *count >= 1, WAIT, or the end:
     BUDGET       trials, seconds or patience used up
     EXHAUSTED    nothing new was found any more: every setting was proposed,
                  or in a space above 2^21 settings that many were counted
                  after 512 draws, or describe() refused 256 in one batch
     EMPTY_SPACE  every setting was counted and valid() takes none
     NO_VALID     only failures, max_failures of them or all there are; or
                  nothing was measured: summary.looked settings were looked at
                  and none was valid, or describe() refused those that were
     CANCELLED    and whatever else metatune_stop was told */
METATUNE_API metatune_status metatune_ask(metatune_tuner *tuner,
                                          metatune_trial *trials, size_t n,
                                          size_t *count);
/* Result of an open trial, in any order. NOT_RUN hands it back to ask. A
   DEVICE_LOST hands it back once (attempt 1); lost again, the setting is
   quarantined. NOT_FOUND for an id that is not open (a late duplicate). */
METATUNE_API metatune_status metatune_tell(metatune_tuner *tuner, uint64_t id,
                                           const metatune_result *result);
/* OK while trials are left, else the end reason. */
METATUNE_API metatune_status metatune_done(const metatune_tuner *tuner);
/* End the search; no more trials; best() stays. reason e.g. CANCELLED. */
METATUNE_API void metatune_stop(metatune_tuner *tuner, metatune_status reason);
/* The best valid setting; without one the model's pick or the default setting
   (measured = 0). NOT_FOUND when there is none at all. */
METATUNE_API metatune_status metatune_best_get(metatune_tuner *tuner,
                                               metatune_best *best);
METATUNE_API void metatune_summary_get(const metatune_tuner *tuner,
                                       metatune_summary *summary);
/* Forget a setting's right to be proposed (quarantine, e.g. from a log). */
METATUNE_API metatune_status metatune_quarantine(metatune_tuner *tuner,
                                                 const uint16_t *digits);

/* =================================================== [M-TUNE] the loop */

/* Ask, recall from the history or compile and measure, record, tell; until an
   end. Returns the end reason (BUDGET, EXHAUSTED... are the normal ones), or
   a refusal. */
METATUNE_API metatune_status metatune_tune(metatune_tuner *tuner);
/* The same loop for one batch, e.g. of a task that a schedule names: OK while
   there may be more, else the end reason, whose record metatune_tune writes. */
METATUNE_API metatune_status metatune_tune_batch(metatune_tuner *tuner);

/* Several tasks, one budget of explore trials. Each task has a first batch, in
   their order; then every batch goes where the weighted value should fall
   most:
     gain = weight (size b / (n + b) + drop / 2)
   n trials told, b a batch: b / (n + b) is the chance that one of the next b
   beats all n before if trials were exchangeable; size is what the model
   expects below the best value (without a model a tenth of it, at least one
   in a hundred); drop is what the task's last batch brought. n grows with what
   a task is given, so none waits for ever. A task without a valid result
   counts as one of mean weighted value; one that has ended is passed over.
   Ties go to the first. Deterministic: a function of the results. */
typedef struct metatune_schedule_task {
    metatune_tuner *tuner;       /* the caller's; its config.trials is the most
                                    that this task may be given */
    double weight;               /* > 0: how often the kernel runs, e.g. how
                                    many layers of the network it stands for */
    double before, gain;         /* set by the schedule */
} metatune_schedule_task;

typedef struct metatune_schedule {
    metatune_schedule_task *tasks; /* (n_tasks) the caller's */
    uint32_t n_tasks, trials;
    uint32_t last;               /* given a batch last */
} metatune_schedule;

/* OK or BAD_ARG: weights that are not positive, units that differ. */
METATUNE_API metatune_status
metatune_schedule_init(metatune_schedule *schedule,
                       metatune_schedule_task *tasks, uint32_t n_tasks,
                       uint32_t trials, metatune_error *error);
/* Explore trials told by all. */
METATUNE_API uint32_t
metatune_schedule_used(const metatune_schedule *schedule);
/* For ask/tell: the task whose tuner is to be asked for its next batch, which
   is told whole before this is called again. OK; BUDGET; EXHAUSTED when every
   task has ended or had its trials. Afterwards _close, then ask each tuner to
   its end: what is left are confirm trials. */
METATUNE_API metatune_status
metatune_schedule_next(metatune_schedule *schedule, uint32_t *task);
METATUNE_API void metatune_schedule_close(metatune_schedule *schedule);
/* The loop over the tuners' callbacks, the confirm trials of each at the end.
   BUDGET, EXHAUSTED, or CANCELLED / IO, which stop all of them. */
METATUNE_API metatune_status
metatune_schedule_tune(metatune_schedule *schedule);

/* Ticks between two readings of a counter of `bits` (1..64) that wraps. */
METATUNE_API uint64_t metatune_ticks_delta(uint64_t start, uint64_t end,
                                           int32_t bits);

/* =================================================== [M-RECORD] records */
#ifndef METATUNE_NO_RECORDS

#define METATUNE_RECORD_VERSION 1
#define METATUNE_RECORD_SAMPLES 16
#define METATUNE_RECORD_ERROR 256    /* bytes of error text kept */

typedef enum metatune_record_kind {
    METATUNE_RECORD_TRIAL = 0,
    METATUNE_RECORD_TASK = 1,        /* layer, naive, default, peak */
    METATUNE_RECORD_END = 2          /* reason */
} metatune_record_kind;

/* A piece of text inside somebody's buffer, not NUL-terminated. */
typedef struct metatune_text {
    const char *p;
    size_t n;
} metatune_text;

/* One line. Texts point into the decoded line (still escaped: see
   metatune_text_unescape) or, for encoding, at plain bytes. */
typedef struct metatune_record {
    int32_t kind;                /* metatune_record_kind */
    int32_t version;             /* "v" */
    metatune_text run;           /* run id */
    metatune_text task, target;  /* keys */
    metatune_text strategy;
    uint64_t seed;
    uint64_t trial;              /* id */
    uint32_t batch;
    int32_t trial_kind;          /* metatune_trial_kind */
    uint32_t repeat, attempt;
    uint64_t space, model;       /* hashes; written as 16 hex digits */
    /* knobs: for encoding from knobs/n_knobs/values; for decoding
       knobs_json is the raw {"name":value,...} object */
    const metatune_knob *knobs;
    uint32_t n_knobs;
    const int64_t *values;
    metatune_text knobs_json;
    metatune_status status;
    int32_t unit;                /* metatune_unit */
    double value;                /* 0 unless status is OK: absent in the line */
    uint32_t n_samples;
    double samples[METATUNE_RECORD_SAMPLES];
    double build_s, run_s, think_s;
    int32_t predicted;
    double mean, sigma;
    metatune_text error;
    /* task lines */
    metatune_text layer;
    double naive_s, default_s, peak_gflops, gflop;
    /* end lines: status holds the reason; trials, best value */
    uint64_t trials;
    /* decoded: whatever fields were not ours, raw ,"x":... text; written back
       verbatim by encode */
    metatune_text unknown;
} metatune_record;

/* Bytes that any record with these knobs fits in, '\n' and NUL included. */
METATUNE_API size_t metatune_record_memsize(const metatune_record *record);
/* Write one line with '\n' and a NUL; *n its length with '\n'. NO_MEMORY when
   cap is too small (nothing half-written is useful then). */
METATUNE_API metatune_status
metatune_record_encode(const metatune_record *record, char *buf, size_t cap,
                       size_t *n);
/* Read one line (n bytes; with or without '\n' or "\r\n"; a BOM and leading
   NULs are skipped). BAD_RECORD for torn, foreign or corrupt lines, version
   > ours, or a CRC that does not match. */
METATUNE_API metatune_status
metatune_record_decode(const char *line, size_t n, metatune_record *record);
/* Values of the record's knobs in the order of `knobs`: NOT_FOUND when a knob
   is missing, unknown or has a value that is not in the space. */
METATUNE_API metatune_status
metatune_record_values(const metatune_record *record,
                       const metatune_knob *knobs, uint32_t n_knobs,
                       int64_t *values);
/* Plain bytes of an escaped text; returns the length written (cut at cap). */
METATUNE_API size_t metatune_text_unescape(metatune_text text, char *buf,
                                           size_t cap);

/* Walk a log in memory: *pos starts at 0; each call returns the next line as
   decoded. OK, BAD_RECORD (skip it, count it), NOT_FOUND at the end. A last
   line without '\n' is incomplete: BAD_RECORD. */
METATUNE_API metatune_status
metatune_log_next(const char *bytes, size_t n, size_t *pos,
                  metatune_record *record);

/* Numbers without locale: shortest text that reads back to the same double
   (at most 24 characters and a NUL), and the exact inverse (correctly rounded;
   *end past the number; NaN-free: PARSE for anything but a JSON number;
   overflow is OVERFLOW). */
METATUNE_API size_t metatune_number_write(double x, char *buf, size_t cap);
METATUNE_API metatune_status
metatune_number_read(const char *text, size_t n, double *x, size_t *end);

/* What a log holds of one task, target and space, by setting: lets a resumed
   run answer its own proposals without measuring again. */
typedef struct metatune_history_entry {
    uint64_t hash;               /* setting */
    int32_t kind;                /* metatune_trial_kind */
    uint32_t repeat, attempt;
    metatune_status status;
    double value, build_s, run_s;
    double same[2];              /* twice the sample, if all were the same */
} metatune_history_entry;

typedef struct metatune_history {
    metatune_history_entry *entries; /* (cap) sorted after _seal */
    size_t n, cap;
    size_t n_foreign;            /* other task, target, space or version */
    size_t n_bad;                /* torn or corrupt lines */
    size_t n_lost;               /* values no longer in the space */
    int32_t ended;               /* an END line of this task was seen */
} metatune_history;

METATUNE_API size_t metatune_history_memsize(size_t cap);
METATUNE_API metatune_status metatune_history_init(metatune_history *history,
                                                   size_t cap, void *mem,
                                                   size_t bytes);
/* Add every line of a log that belongs to the problem (task, target, space
   hash, unit), count the rest, then sort. CAPACITY when full: the newest are
   left out. Lines how many a log has: metatune_log_lines. */
METATUNE_API metatune_status
metatune_history_read(metatune_history *history,
                      const metatune_problem *problem, const char *bytes,
                      size_t n);
METATUNE_API size_t metatune_log_lines(const char *bytes, size_t n);
/* The newest entry of (setting, kind, repeat), or NULL. */
METATUNE_API const metatune_history_entry *
metatune_history_find(const metatune_history *history, uint64_t hash,
                      int32_t kind, uint32_t repeat);
#endif /* METATUNE_NO_RECORDS */

/* =================================================== [M-LOOKUP] lookup */
#ifndef METATUNE_NO_LOOKUP

/* What was tuned, as a table in the program: plain C initialisers in `static
   const` (flash is fine), no code at start-up, no allocation, no I/O.
   `metatune export LOG --format header` writes one.

   Find asks in this order and says which it was:
     EXACT    a row of this very shape
     NEAREST  the row with the least distance (below) whose setting satisfies
              the caller's predicate for the shape that is asked. Rows with
              the same kernel size go first; rows of another dtype, layout or
              kind of groups (one, depthwise, other) never count
     DEFAULT  the table's default values, if the predicate likes them
     NONE     nothing; the caller has to know a setting himself
   The predicate is asked for exact rows and the default, too.

   Distance, in octaves: sum of weight * |log2 a - log2 b| over n, c, k (weight
   1), h, w (1/2), r, s, stride_h, stride_w, dil_h, dil_w (2), 1 + each pad
   (1/4), groups when neither one nor depthwise (1); plus 1/2 for each fused
   bit that differs. log2 is linear between powers of two, which needs no libm:
   2^e (1 + f) -> e + f. Ties go to the earlier row.

   Other operators use a key of their own: leave `conv` all zero, set `key` to
   metatune_lookup_text_key("matmul 256") or to any non-zero number, sort by
   it, and ask metatune_lookup_key_find: exact, then default. */

typedef struct metatune_lookup_knob {
    const char *name;
    const char *const *labels;   /* (n_labels): the values are indices of it;
                                    NULL: the values are the knob's numbers */
    uint32_t n_labels;
} metatune_lookup_knob;

typedef struct metatune_lookup_row {
    metatune_encode_conv2d conv; /* all zero: found by its key only */
    uint64_t key;                /* rows ascend by it; or 0 in every row: a
                                    table made by hand, searched one by one */
    uint64_t space;              /* metatune_space_hash it came from; 0 =
                                    unknown */
    const int64_t *values;       /* (n_knobs) */
    double value;                /* measured, in the table's unit; 0 = none */
} metatune_lookup_row;

typedef struct metatune_lookup_table {
    const char *target;          /* key of the target it was tuned on */
    int32_t unit;                /* metatune_unit */
    const metatune_lookup_knob *knobs; /* (n_knobs) */
    uint32_t n_knobs;            /* 1..METATUNE_MAX_KNOBS */
    const metatune_lookup_row *rows; /* (n_rows) or NULL */
    uint32_t n_rows;             /* 0..INT32_MAX */
    const int64_t *default_values; /* (n_knobs) or NULL */
} metatune_lookup_table;

typedef enum metatune_lookup_which {
    METATUNE_LOOKUP_NONE = 0, METATUNE_LOOKUP_EXACT = 1,
    METATUNE_LOOKUP_NEAREST = 2, METATUNE_LOOKUP_DEFAULT = 3
} metatune_lookup_which;

/* Flag of find: answer from a table of another target, too; the result then
   says so. A guess to start from, not a tuned setting. */
#define METATUNE_LOOKUP_OTHER_TARGET 1u

typedef struct metatune_lookup_result {
    int32_t which;               /* metatune_lookup_which */
    int32_t row;                 /* of the table; -1: DEFAULT or NONE */
    int32_t other_target;        /* the table is of another target */
    uint32_t n_refused;          /* settings the predicate did not like */
    double distance;             /* octaves; 0 unless NEAREST */
    const int64_t *values;       /* (n_knobs) the table's; NULL for NONE */
    double value;                /* the row's; of NEAREST: of its own shape */
} metatune_lookup_result;

/* Non-zero when these values (n_knobs) work for the shape that is asked;
   conv is NULL when the lookup is by key. */
typedef int (*metatune_lookup_valid_fn)(void *user,
                                        const metatune_lookup_table *table,
                                        const metatune_encode_conv2d *conv,
                                        const int64_t *values);

/* Never 0; changes with every field. */
METATUNE_API uint64_t
metatune_lookup_conv_key(const metatune_encode_conv2d *conv);
METATUNE_API uint64_t metatune_lookup_text_key(const char *text);

/* OK, or what is wrong, with the row's number in *error (may be NULL): for
   tables from elsewhere. Find trusts counts and pointers, not the order. */
METATUNE_API metatune_status
metatune_lookup_check(const metatune_lookup_table *table,
                      metatune_error *error);

/* target: key of the machine that asks. valid may be NULL: every setting
   works for every shape. OK; NOT_FOUND with NONE in *result: no row or default
   fits, or (other_target = 1) the table is of another target and flags do not
   allow that; BAD_SHAPE; BAD_ARG. */
METATUNE_API metatune_status
metatune_lookup_find(const metatune_lookup_table *table, const char *target,
                     const metatune_encode_conv2d *conv,
                     metatune_lookup_valid_fn valid, void *user,
                     uint32_t flags, metatune_lookup_result *result);
/* By the caller's own key: exact, then default. */
METATUNE_API metatune_status
metatune_lookup_key_find(const metatune_lookup_table *table,
                         const char *target, uint64_t key,
                         metatune_lookup_valid_fn valid, void *user,
                         uint32_t flags, metatune_lookup_result *result);

/* Why there is no exact row, in one line: the target when it is another one;
   else the first field in which the nearest row (predicate or not) differs,
   "stride_h: asked 2, nearest has 1". dtypes, layout and groups, which keep a
   row from being used, are named before the rest. Returns the length without
   the NUL, cut at cap. */
METATUNE_API size_t
metatune_lookup_explain(const metatune_lookup_table *table,
                        const char *target,
                        const metatune_encode_conv2d *conv, char *buf,
                        size_t cap);
/* Text of a knob's value: its label, or NULL when it has none. */
METATUNE_API const char *
metatune_lookup_label(const metatune_lookup_table *table, uint32_t knob,
                      int64_t value);

/* An archive: what did best on tasks like this one, as problem.seeds wants it.
   Rows in the order in which find would take them (same kernel size first,
   then distance, then the earlier), each setting once, knobs matched by name
   and labels by text. Rows with a value that a knob lacks are passed over; the
   table's target does not matter: seeds are guesses to be measured. seeds
   (cap, n_knobs); returns how many were written. O(cap n_rows). */
METATUNE_API uint32_t
metatune_archive_seeds(const metatune_lookup_table *table,
                       const metatune_encode_conv2d *conv,
                       const metatune_knob *knobs, uint32_t n_knobs,
                       int64_t *seeds, uint32_t cap);
#endif /* METATUNE_NO_LOOKUP */

/* ------------------------------------------------- the tuner's inside
   Public only so that it can live on the caller's stack; use the functions. */

typedef struct metatune_slot {   /* one trial of the open batch */
    uint64_t id, hash;
    int32_t kind, state;
    uint32_t repeat, attempt, top;
    int32_t predicted, recalled, exact;
    metatune_status status;
    double value, mean, sigma;
} metatune_slot;

typedef struct metatune_point {  /* a measured setting kept for the fit */
    uint64_t hash;
    double value;                /* 0 = failed */
    double y;                    /* log2(t0 / value), before the offset */
    uint32_t trial;              /* id */
    uint16_t exact;              /* its samples were all the same number */
    uint16_t fitted;             /* phi is set */
} metatune_point;

typedef struct metatune_candidate {
    uint64_t hash;
    double key;                  /* what the pool is ordered by */
    double s0;                   /* -log2 t0 */
    double mu, v;
    double risk;                 /* octaves taken off: its knobs' failures */
    int32_t taken, fitted;
} metatune_candidate;

struct metatune_tuner {
    metatune_config cfg;         /* defaults filled in */
    metatune_problem problem;
    metatune_model model;        /* the problem's, or untrained */
    metatune_gnn net;
    metatune_encode_nest nest;
    metatune_encode_graph *graph;            /* (gnn_batch) */
    const metatune_encode_graph **graph_at;  /* (gnn_batch) */
    metatune_head head;
    int32_t width;               /* D, 0 without a model */
    double space_size;
    uint64_t space_hash;
    uint32_t n_knobs, total;     /* explore budget, clamped */
    uint32_t n_legal;            /* valid settings, if counted */
    int32_t counted;             /* all were looked at, none valid and new */
    /* proposals remembered: a ring of hashes and an index into it */
    uint64_t *visited;           /* (cap_visited) */
    uint32_t *index;             /* (n_index) ring position + 1, 0 = free */
    uint32_t n_visited, visited_at, n_index;
    uint64_t quarantine[16];
    uint32_t n_quarantine;
    /* the open batch */
    metatune_slot *slot;         /* (cap_slots) */
    uint16_t *slot_digits;       /* (cap_slots, n_knobs) */
    int64_t *slot_values;        /* (cap_slots, n_knobs) */
    uint32_t n_slots, cap_slots, batch;
    uint64_t next_id;
    /* what was measured */
    metatune_point *point;       /* (cap_fit) */
    uint16_t *point_digits;      /* (cap_fit, n_knobs) */
    uint16_t *walk_digits;       /* ANNEAL (batch, n_knobs) */
    double *walk_value;          /* (batch) 0: not begun */
    uint16_t *grid_digits;       /* GRID (n_knobs) the next one */
    uint32_t grid_row;           /* of a list */
    int32_t grid_end;
    metatune_real *point_phi;    /* (cap_fit, D) */
    uint32_t n_points;
    /* candidates */
    metatune_candidate *pool;    /* (cap_pool) */
    uint16_t *pool_digits;       /* (cap_pool, n_knobs) */
    metatune_real *pool_phi;     /* (cap_pool, D) */
    uint32_t n_pool, cap_pool;   /* draft, or the list's rows if more */
    int32_t list_embedded;       /* the pool is the list, phi and s0 stay */
    uint16_t *chain_digits;      /* (chains, n_knobs) */
    double *chain_score;         /* (chains) */
    uint16_t *move_digits;       /* (max(gnn_batch, 1), n_knobs) */
    metatune_real *move_phi;     /* (gnn_batch, D) */
    double *move_s0;             /* (gnn_batch) NaN-free; ok flags below */
    int32_t *move_ok;            /* (gnn_batch) */
    int64_t *values;             /* (n_knobs) scratch */
    /* confirmation */
    uint32_t n_top, confirm_round;
    uint32_t top[8];             /* points confirmed */
    uint32_t n_confirmed[8];
    double *confirm;             /* (8, 16) */
    uint16_t *pick_digits;       /* (n_knobs) what best_get hands out */
    int64_t *pick_values;        /* (n_knobs) */
    /* trials and results of the loop, the record line */
    metatune_trial *trial;       /* (cap_slots) */
    metatune_result *result;     /* (cap_slots) */
    char *line;
    size_t line_bytes;
    /* state */
    int32_t phase;               /* METATUNE_EXPLORE or METATUNE_CONFIRM */
    metatune_status end;
    uint32_t n_told, n_valid, fails_in_a_row, since_best;
    uint32_t idle;               /* rounds of the loop that measured none */
    double best_value;           /* over explore results */
    double expected_gain, tau, prior_scale, y_offset;
    double expected_best;        /* predicted value of the best of what was
                                    left at the last batch; 0 = unknown */
    double spread2;              /* variances are this many times the head's:
                                    leave-one-out says so */
    double start_s, think_s;
    metatune_summary sum;
};

#ifdef __cplusplus
}
#endif
#endif /* METATUNE_H */

/* ================================================== [M-IMPL] implementation */
#if (defined(METATUNE_IMPLEMENTATION) || defined(METATUNE_STATIC)) && \
    !defined(METATUNE_C)
#define METATUNE_C
#include "metatune_gnn.h" /* its implementation, if only declared yet */

#include <math.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------- [M-SPACE] */

static int mti_name_bad(const char *s)
{
    if (!s || !*s)
        return 1;
    for (; *s; s++)
        if (!((*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z') ||
              (*s >= '0' && *s <= '9') || *s == '_' || *s == '.' ||
              *s == '-'))
            return 1;
    return 0;
}

METATUNE_API metatune_status
metatune_space_check(const metatune_knob *knobs, uint32_t n_knobs,
                     metatune_error *error)
{
    uint32_t k, i, j;
    if (!knobs)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "knobs", "not NULL");
    if (n_knobs < 1 || n_knobs > METATUNE_MAX_KNOBS)
        return mti_enc_refuse_int(error, METATUNE_BAD_ARG, "n_knobs",
                                  (int64_t)n_knobs, "1..64");
    for (k = 0; k < n_knobs; k++) {
        const metatune_knob *b = &knobs[k];
        if (mti_name_bad(b->name))
            return mti_enc_refuse_int(error, METATUNE_BAD_ARG,
                                      "name of knob", (int64_t)k,
                                      "letters, digits, _ . -");
        if (b->n_values < 1 || !b->values)
            return mti_enc_refuse(error, METATUNE_EMPTY_KNOB, b->name,
                                  "at least one value");
        if (b->n_values > 65535)
            return mti_enc_refuse_int(error, METATUNE_BAD_ARG, b->name,
                                      (int64_t)b->n_values,
                                      "at most 65535 values");
        for (j = 0; j < k; j++)
            if (strcmp(knobs[j].name, b->name) == 0)
                return mti_enc_refuse(error, METATUNE_BAD_ARG, b->name,
                                      "a name used once");
        for (i = 0; b->n_values <= 1024 && i < b->n_values; i++)
            for (j = 0; j < i; j++)
                if (b->values[j] == b->values[i])
                    return mti_enc_refuse_int(error, METATUNE_BAD_ARG,
                                              b->name, b->values[i],
                                              "distinct values");
    }
    return METATUNE_OK;
}

METATUNE_API double metatune_space_size(const metatune_knob *knobs,
                                        uint32_t n_knobs)
{
    double size = 1;
    uint32_t k;
    for (k = 0; k < n_knobs; k++)
        size *= knobs[k].n_values;
    return size;
}

METATUNE_API uint64_t metatune_space_hash(const metatune_knob *knobs,
                                          uint32_t n_knobs)
{
    uint64_t h = metatune_encode_hash_u64(0, n_knobs);
    uint32_t k, i;
    for (k = 0; k < n_knobs; k++) {
        const metatune_knob *b = &knobs[k];
        h = metatune_encode_hash(h, b->name, strlen(b->name));
        for (i = 0; i < b->n_values; i++) {
            h = metatune_encode_hash_u64(h, (uint64_t)b->values[i]);
            if (b->labels)
                h = metatune_encode_hash(h, b->labels[i],
                                         strlen(b->labels[i]));
        }
    }
    return h;
}

METATUNE_API void metatune_space_values(const metatune_knob *knobs,
                                        uint32_t n_knobs,
                                        const uint16_t *digits,
                                        int64_t *values)
{
    uint32_t k;
    for (k = 0; k < n_knobs; k++)
        values[k] = knobs[k].values[digits[k]];
}

METATUNE_API metatune_status
metatune_space_digits(const metatune_knob *knobs, uint32_t n_knobs,
                      const int64_t *values, uint16_t *digits)
{
    uint32_t k, i;
    for (k = 0; k < n_knobs; k++) {
        for (i = 0; i < knobs[k].n_values; i++)
            if (knobs[k].values[i] == values[k])
                break;
        if (i == knobs[k].n_values)
            return METATUNE_NOT_FOUND;
        digits[k] = (uint16_t)i;
    }
    return METATUNE_OK;
}

METATUNE_API uint64_t metatune_setting_hash(const uint16_t *digits,
                                            uint32_t n_knobs)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ n_knobs;
    uint32_t k;
    for (k = 0; k < n_knobs; k++) {
        h = (h ^ digits[k]) * UINT64_C(0x100000001b3);
        h ^= h >> 29; /* 16-bit digits: let the high bits reach down, too */
    }
    return mti_enc_mix(h);
}

METATUNE_API uint32_t metatune_values_divisors(int64_t n, int64_t max,
                                               int64_t *out, uint32_t cap)
{
    uint32_t count = 0;
    int64_t i, root = 0;
    if (n < 1 || cap < 1)
        return 0;
    for (i = 1; i <= n / i; i++) {
        root = i;
        if (n % i == 0 && i <= max && count < cap)
            out[count++] = i;
    }
    for (i = root; i >= 1; i--)
        if (n % i == 0 && n / i != i && n / i <= max && count < cap)
            out[count++] = n / i;
    if (count == 0)
        out[count++] = 1; /* never empty, whatever max says */
    return count;
}

METATUNE_API uint32_t metatune_values_powers(int64_t n, int64_t max,
                                             int64_t *out, uint32_t cap)
{
    uint32_t count = 0;
    int64_t i, top = n < max ? n : max;
    if (n < 1 || cap < 1)
        return 0;
    for (i = 1; i < top && count < cap; i *= 2) {
        out[count++] = i;
        if (i > INT64_MAX / 2)
            break;
    }
    if (count < cap)
        out[count++] = top < 1 ? 1 : top;
    return count;
}

METATUNE_API uint64_t metatune_ticks_delta(uint64_t start, uint64_t end,
                                           int32_t bits)
{
    uint64_t delta = end - start;
    if (bits < 1 || bits >= 64)
        return delta;
    return delta & (((uint64_t)1 << bits) - 1);
}

/* -------------------------------------------------------------- [M-HEAD]
   A = L L', L lower, row-packed: L(i,j) at i (i + 1) / 2 + j. */

static size_t mti_tri(int32_t i) { return (size_t)i * ((size_t)i + 1) / 2; }

METATUNE_API size_t metatune_head_memsize(int32_t width)
{
    if (width < 1 || width > 4096)
        return 0;
    return (mti_tri(width) + 3 * (size_t)width) * sizeof(double);
}

METATUNE_API metatune_status metatune_head_init(metatune_head *head,
                                                int32_t width, void *mem,
                                                size_t bytes)
{
    size_t need = metatune_head_memsize(width);
    metatune_status st;
    if (!head)
        return METATUNE_BAD_ARG;
    if (!need)
        return METATUNE_BAD_CONFIG;
    st = mti_enc_block_check(mem, bytes, need);
    if (st)
        return st;
    head->width = width;
    head->s2 = 1;
    head->chol = (double *)mem;
    head->b = head->chol + mti_tri(width);
    head->m = head->b + width;
    head->work = head->m + width;
    memset(mem, 0, need);
    return METATUNE_OK;
}

METATUNE_API void metatune_head_prior(metatune_head *head,
                                      const metatune_real *w0,
                                      const metatune_real *log_lambda,
                                      metatune_real log_s2, double scale)
{
    int32_t i, d = head->width;
    memset(head->chol, 0, mti_tri(d) * sizeof *head->chol);
    head->s2 = exp((double)log_s2);
    for (i = 0; i < d; i++) {
        double lambda = exp((double)log_lambda[i]) * scale;
        head->chol[mti_tri(i) + (size_t)i] = sqrt(lambda);
        head->b[i] = lambda * (double)w0[i];
        head->m[i] = (double)w0[i];
    }
}

/* Rank-1 update L L' += x x' by Givens rotations; x = work is consumed. */
static void mti_chol_update(double *chol, double *x, int32_t d)
{
    int32_t i, j;
    for (j = 0; j < d; j++) {
        double l = chol[mti_tri(j) + (size_t)j], xj = x[j], r, c, s;
        if (xj >= 0 && xj <= 0)
            continue; /* phi after ReLU is often zero */
        r = sqrt(l * l + xj * xj);
        c = l / r;
        s = xj / r;
        chol[mti_tri(j) + (size_t)j] = r;
        for (i = j + 1; i < d; i++) {
            double *lij = &chol[mti_tri(i) + (size_t)j];
            double old = *lij;
            *lij = c * old + s * x[i];
            x[i] = c * x[i] - s * old;
        }
    }
}

/* Solve L z = x in place. */
static void mti_chol_forward(const double *chol, double *x, int32_t d)
{
    int32_t i, j;
    for (i = 0; i < d; i++) {
        const double *row = chol + mti_tri(i);
        double sum = x[i];
        for (j = 0; j < i; j++)
            sum -= row[j] * x[j];
        x[i] = sum / row[i];
    }
}

/* Solve L' z = x in place. */
static void mti_chol_backward(const double *chol, double *x, int32_t d)
{
    int32_t i, j;
    for (i = d - 1; i >= 0; i--) {
        const double *row = chol + mti_tri(i);
        x[i] /= row[i];
        for (j = 0; j < i; j++)
            x[j] -= row[j] * x[i];
    }
}

METATUNE_API void metatune_head_add(metatune_head *head,
                                    const metatune_real *phi, double y,
                                    double weight)
{
    int32_t i, d = head->width;
    double root = sqrt(weight / head->s2);
    for (i = 0; i < d; i++) {
        head->work[i] = root * (double)phi[i];
        head->b[i] += (double)phi[i] * y * weight / head->s2;
    }
    mti_chol_update(head->chol, head->work, d);
}

METATUNE_API void metatune_head_solve(metatune_head *head)
{
    memcpy(head->m, head->b, (size_t)head->width * sizeof *head->m);
    mti_chol_forward(head->chol, head->m, head->width);
    mti_chol_backward(head->chol, head->m, head->width);
}

METATUNE_API void metatune_head_predict(const metatune_head *head,
                                        const metatune_real *phi, double *mu,
                                        double *v)
{
    int32_t i, d = head->width;
    double mean = 0, var = 0;
    for (i = 0; i < d; i++) {
        mean += (double)phi[i] * head->m[i];
        head->work[i] = (double)phi[i];
    }
    if (v) { /* phi'A^-1 phi = |L^-1 phi|^2 */
        mti_chol_forward(head->chol, head->work, d);
        for (i = 0; i < d; i++)
            var += head->work[i] * head->work[i];
        *v = var;
    }
    if (mu)
        *mu = mean;
}

METATUNE_API double metatune_head_leave(const metatune_head *head,
                                        const metatune_real *phi, double y,
                                        double *var)
{
    double mu, v, keep;
    metatune_head_predict(head, phi, &mu, &v);
    keep = 1 - v / head->s2;
    if (!(keep > 1e-6))
        keep = 1e-6;
    *var = head->s2 / keep;
    return (y - mu) / keep;
}

METATUNE_API double metatune_head_loo(const metatune_head *head,
                                      const metatune_real *phi, double y)
{
    double var;
    return metatune_head_leave(head, phi, y, &var);
}

/* ------------------------------------------------------------- [M-MODEL] */

METATUNE_API size_t
metatune_model_param_count(const metatune_gnn_config *cfg)
{
    size_t n = metatune_gnn_param_count(cfg);
    return n ? n + (size_t)metatune_gnn_phi_width(cfg) + 1 : 0;
}

METATUNE_API uint64_t metatune_model_hash(const metatune_real *params,
                                          size_t n_params)
{
    uint64_t h = metatune_encode_hash_u64(METATUNE_ENCODE_SCHEMA, n_params);
    size_t i;
    for (i = 0; i < n_params; i++) {
        float f = (float)params[i];
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        h = metatune_encode_hash_u64(h, bits);
    }
    return h;
}

METATUNE_API metatune_status
metatune_model_init(metatune_model *model, const metatune_gnn_config *cfg,
                    metatune_real *params, size_t n_params, uint64_t seed)
{
    metatune_encode_rng rng;
    metatune_status st;
    size_t need, n_gnn;
    if (!model || !params)
        return METATUNE_BAD_ARG;
    st = metatune_gnn_config_check(cfg, NULL);
    if (st)
        return st;
    need = metatune_model_param_count(cfg);
    n_gnn = metatune_gnn_param_count(cfg);
    if (n_params < need)
        return METATUNE_NO_MEMORY;
    metatune_encode_rng_init(&rng, seed, UINT64_C(0x6d6f64656c));
    metatune_gnn_params_init(cfg, params, &rng);
    memset(params + n_gnn, 0, (need - n_gnn) * sizeof *params);
    params[need - 1] = (metatune_real)-2.7725887; /* log(1/16) */
    memset(model, 0, sizeof *model);
    model->gnn = *cfg;
    model->schema = METATUNE_ENCODE_SCHEMA;
    model->params = params;
    model->n_params = need;
    model->hash = metatune_model_hash(params, need);
    return METATUNE_OK;
}

METATUNE_API const metatune_real *
metatune_model_log_lambda(const metatune_model *model)
{
    return model->params + metatune_gnn_param_count(&model->gnn);
}

static const metatune_real *mti_model_w0(const metatune_model *model)
{
    return metatune_model_log_lambda(model) -
           metatune_gnn_phi_width(&model->gnn);
}

static metatune_real mti_model_log_s2(const metatune_model *model)
{
    return model->params[model->n_params - 1];
}

static void mti_put16(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)(v & 255);
    p[1] = (unsigned char)((v >> 8) & 255);
}

static void mti_put32(unsigned char *p, uint32_t v)
{
    mti_put16(p, v & 0xffff);
    mti_put16(p + 2, v >> 16);
}

static uint32_t mti_get16(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t mti_get32(const unsigned char *p)
{
    return mti_get16(p) | mti_get16(p + 2) << 16;
}

/* CRC-32 (IEEE 802.3, reflected), a nibble at a time: a table of 16. */
METATUNE_API uint32_t metatune_crc32(uint32_t crc, const void *bytes,
                                     size_t n)
{
    static const uint32_t table[16] = {
        0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu,
        0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
        0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu,
        0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
    const unsigned char *p = (const unsigned char *)bytes;
    size_t i;
    crc = ~crc;
    for (i = 0; i < n; i++) {
        crc ^= p[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

/* binary16, round to nearest even; beyond its range: infinity, which
   blob_write refuses. */
static uint32_t mti_half_from(float f)
{
    uint32_t x, sign, man, half, rest, mid;
    int32_t e;
    memcpy(&x, &f, sizeof x);
    sign = (x >> 16) & 0x8000u;
    e = (int32_t)((x >> 23) & 255) - 127 + 15;
    man = x & 0x7fffffu;
    if (e >= 31)
        return sign | 0x7c00u;
    if (e <= 0) { /* subnormal: shift the implicit one in */
        uint32_t shift = (uint32_t)(14 - e);
        if (shift > 24)
            return sign;
        man |= 0x800000u;
        half = man >> shift;
        rest = man & (((uint32_t)1 << shift) - 1);
        mid = (uint32_t)1 << (shift - 1);
    } else {
        half = ((uint32_t)e << 10) | (man >> 13);
        rest = man & 0x1fffu;
        mid = 0x1000u;
    }
    if (rest > mid || (rest == mid && (half & 1)))
        half++; /* may carry into the exponent: still right */
    return sign | half;
}

static float mti_half_to(uint32_t h)
{
    uint32_t sign = (h & 0x8000u) << 16, e = (h >> 10) & 31, man = h & 1023;
    uint32_t x;
    float f;
    if (e == 0) {
        f = (float)man * (1.0f / 16777216.0f);
        return sign ? -f : f;
    }
    x = sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | man << 13;
    memcpy(&f, &x, sizeof f);
    return f;
}

static void mti_gnn_to_words(const metatune_gnn_config *g, int32_t *w)
{
    metatune_gnn_config full; /* defaults written out: the same bytes for all */
    memset(w, 0, 16 * sizeof *w);
    if (metatune_gnn_config_resolve(g, &full))
        return;
    g = &full;
    w[0] = g->node_features;
    w[1] = g->global_features;
    w[2] = g->device_features;
    w[3] = g->hidden;
    w[4] = g->n_layers;
    w[5] = (int32_t)g->conv;
    w[6] = (int32_t)g->readout;
    w[7] = g->n_mlp;
    memcpy(w + 8, g->mlp, 4 * sizeof *w);
    w[12] = g->no_residual;
    w[13] = g->no_propagation;
}

static void mti_gnn_from_words(metatune_gnn_config *g, const int32_t *w)
{
    memset(g, 0, sizeof *g);
    g->node_features = w[0];
    g->global_features = w[1];
    g->device_features = w[2];
    g->hidden = w[3];
    g->n_layers = w[4];
    g->conv = w[5];
    g->readout = w[6];
    g->n_mlp = w[7];
    memcpy(g->mlp, w + 8, 4 * sizeof *w);
    g->no_residual = w[12];
    g->no_propagation = w[13];
}

METATUNE_API size_t metatune_blob_size(const metatune_model *model,
                                       int32_t format)
{
    size_t each = format == METATUNE_BLOB_F16 ? 2 : 4;
    return METATUNE_BLOB_HEADER + (model->n_params * each + 3) / 4 * 4;
}

METATUNE_API metatune_status metatune_blob_write(const metatune_model *model,
                                                 int32_t format, void *buf,
                                                 size_t cap)
{
    unsigned char *p = (unsigned char *)buf;
    int32_t words[16];
    size_t i, n, bytes;
    if (!model || !buf ||
        (format != METATUNE_BLOB_F32 && format != METATUNE_BLOB_F16))
        return METATUNE_BAD_ARG;
    n = model->n_params;
    bytes = metatune_blob_size(model, format);
    if (cap < bytes)
        return METATUNE_NO_MEMORY;
    memset(p, 0, bytes);
    memcpy(p, "MTUN", 4);
    mti_put16(p + 4, 1);
    mti_put16(p + 6, METATUNE_BLOB_HEADER);
    mti_put32(p + 8, model->schema);
    mti_put32(p + 12, (uint32_t)format);
    mti_gnn_to_words(&model->gnn, words);
    for (i = 0; i < 16; i++)
        mti_put32(p + 16 + 4 * i, (uint32_t)words[i]);
    mti_put32(p + 80, (uint32_t)n);
    for (i = 0; i < n; i++) {
        float f = (float)model->params[i];
        if (!(f - f <= 0)) /* infinite or NaN */
            return METATUNE_NOT_FINITE;
        if (format == METATUNE_BLOB_F16) {
            uint32_t h = mti_half_from(f);
            if ((h & 0x7c00u) == 0x7c00u)
                return METATUNE_OVERFLOW;
            mti_put16(p + METATUNE_BLOB_HEADER + 2 * i, h);
        } else {
            uint32_t x;
            memcpy(&x, &f, sizeof x);
            mti_put32(p + METATUNE_BLOB_HEADER + 4 * i, x);
        }
    }
    mti_put32(p + 84, metatune_crc32(0, p + METATUNE_BLOB_HEADER,
                                     bytes - METATUNE_BLOB_HEADER));
    mti_put32(p + 88, metatune_crc32(0, p, 88));
    return METATUNE_OK;
}

/* Everything but the weights' meaning; fills cfg, format and count. */
static metatune_status mti_blob_check(const void *blob, size_t bytes,
                                      metatune_gnn_config *gnn,
                                      uint32_t *format, size_t *n,
                                      metatune_error *error)
{
    const unsigned char *p = (const unsigned char *)blob;
    int32_t words[16];
    metatune_gnn_config built;
    size_t i, need;
    if (!blob)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "blob", "not NULL");
    if (bytes < METATUNE_BLOB_HEADER || memcmp(p, "MTUN", 4) != 0)
        return mti_enc_refuse(error, METATUNE_BAD_BLOB, "model",
                              "bytes that begin with MTUN and a whole "
                              "header");
    if (mti_get16(p + 4) != 1 || mti_get16(p + 6) != METATUNE_BLOB_HEADER)
        return mti_enc_refuse_int(error, METATUNE_BAD_BLOB, "model version",
                                  (int64_t)mti_get16(p + 4), "1");
    if (mti_get32(p + 88) != metatune_crc32(0, p, 88) || mti_get32(p + 92))
        return mti_enc_refuse(error, METATUNE_BAD_BLOB, "model header",
                              "a matching checksum: the file is damaged");
    if (mti_get32(p + 8) != METATUNE_ENCODE_SCHEMA)
        return mti_enc_refuse_int(error, METATUNE_BAD_SCHEMA,
                                  "model's feature schema",
                                  (int64_t)mti_get32(p + 8),
                                  "this library's: train the model again");
    *format = mti_get32(p + 12);
    if (*format > METATUNE_BLOB_F16)
        return mti_enc_refuse_int(error, METATUNE_BAD_BLOB, "model format",
                                  (int64_t)*format, "0 (f32) or 1 (f16)");
    for (i = 0; i < 16; i++) {
        uint32_t u = mti_get32(p + 16 + 4 * i);
        if (u > 65535)
            return mti_enc_refuse(error, METATUNE_BAD_BLOB, "model config",
                                  "small numbers");
        words[i] = (int32_t)u;
    }
    mti_gnn_from_words(gnn, words);
    built = *gnn;
    if (metatune_gnn_config_check(&built, error)) {
        if (error)
            error->status = METATUNE_BAD_BLOB;
        return METATUNE_BAD_BLOB;
    }
    *n = mti_get32(p + 80);
    if (*n != metatune_model_param_count(gnn))
        return mti_enc_refuse_int(error, METATUNE_BAD_BLOB, "model weights",
                                  (int64_t)*n, "as many as its config says");
    need = METATUNE_BLOB_HEADER +
           (*n * (*format == METATUNE_BLOB_F16 ? 2 : 4) + 3) / 4 * 4;
    if (bytes < need)
        return mti_enc_refuse_int(error, METATUNE_BAD_BLOB, "model bytes",
                                  (int64_t)bytes, "more: the file is torn");
    if (mti_get32(p + 84) != metatune_crc32(0, p + METATUNE_BLOB_HEADER,
                                            need - METATUNE_BLOB_HEADER))
        return mti_enc_refuse(error, METATUNE_BAD_BLOB, "model weights",
                              "a matching checksum: the file is damaged");
    return METATUNE_OK;
}

/* The weights can be read where they are. */
static int mti_blob_in_place(const void *blob, uint32_t format)
{
    const uint32_t one = 1;
    unsigned char low;
    memcpy(&low, &one, 1);
    return format == METATUNE_BLOB_F32 && low == 1 &&
           sizeof(metatune_real) == 4 &&
           ((uintptr_t)blob + METATUNE_BLOB_HEADER) % sizeof(float) == 0;
}

METATUNE_API size_t metatune_blob_memsize(const void *blob, size_t bytes)
{
    metatune_gnn_config gnn;
    uint32_t format;
    size_t n;
    if (mti_blob_check(blob, bytes, &gnn, &format, &n, NULL))
        return SIZE_MAX;
    return mti_blob_in_place(blob, format) ? 0 : n * sizeof(metatune_real);
}

METATUNE_API metatune_status
metatune_blob_load(metatune_model *model, const void *blob, size_t bytes,
                   void *mem, size_t mem_bytes, metatune_error *error)
{
    const unsigned char *p = (const unsigned char *)blob;
    metatune_gnn_config gnn;
    uint32_t format;
    size_t i, n;
    metatune_status st;
    if (!model)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "model", "not NULL");
    st = mti_blob_check(blob, bytes, &gnn, &format, &n, error);
    if (st)
        return st;
    memset(model, 0, sizeof *model);
    model->gnn = gnn;
    model->schema = METATUNE_ENCODE_SCHEMA;
    model->n_params = n;
    if (mti_blob_in_place(blob, format)) {
        model->params = (const metatune_real *)(const void *)(
            p + METATUNE_BLOB_HEADER);
    } else {
        metatune_real *w = (metatune_real *)mem;
        st = mti_enc_block_check(mem, mem_bytes, n * sizeof *w);
        if (st)
            return mti_enc_refuse(error, st, "mem",
                                  "metatune_blob_memsize bytes, aligned");
        for (i = 0; i < n; i++) {
            const unsigned char *q = p + METATUNE_BLOB_HEADER;
            float f;
            if (format == METATUNE_BLOB_F16) {
                f = mti_half_to(mti_get16(q + 2 * i));
            } else {
                uint32_t x = mti_get32(q + 4 * i);
                memcpy(&f, &x, sizeof f);
            }
            w[i] = (metatune_real)f;
        }
        model->params = w;
    }
    for (i = 0; i < n; i++)
        if (!(model->params[i] - model->params[i] <= 0))
            return mti_enc_refuse(error, METATUNE_BAD_BLOB, "model weights",
                                  "finite numbers");
    model->hash = metatune_model_hash(model->params, n);
    return METATUNE_OK;
}

/* ------------------------------------------------------------- [M-TRAIN] */
#ifndef METATUNE_NO_TRAIN

typedef struct mti_train_layout {
    size_t net, adam, grad, phi, dphi, head, work, bytes;
    size_t net_bytes, adam_bytes, head_bytes, n;
    int32_t width, points;
    metatune_gnn_config gnn;
} mti_train_layout;

static metatune_status mti_train_plan(const metatune_train_config *cfg,
                                      mti_train_layout *l)
{
    metatune_status st;
    size_t d, p;
    if (!cfg)
        return METATUNE_BAD_ARG;
    memset(l, 0, sizeof *l);
    l->points = cfg->cap_points ? cfg->cap_points : 128;
    if (l->points < 1 || l->points > 4096)
        return METATUNE_BAD_CONFIG;
    l->gnn = cfg->gnn;
    l->gnn.train = 1;
    l->gnn.cap_batch = l->points;
    st = metatune_gnn_config_check(&l->gnn, NULL);
    if (st)
        return st;
    l->n = metatune_model_param_count(&l->gnn);
    l->width = metatune_gnn_phi_width(&l->gnn);
    d = (size_t)l->width;
    p = (size_t)l->points;
    l->net_bytes = metatune_gnn_memsize(&l->gnn);
    l->adam_bytes = metatune_gnn_adam_memsize(l->n);
    l->head_bytes = metatune_head_memsize(l->width);
    if (!l->net_bytes || !l->adam_bytes || !l->head_bytes)
        return METATUNE_BAD_CONFIG;
    l->net = mti_enc_block(&l->bytes, l->net_bytes, 1);
    l->adam = mti_enc_block(&l->bytes, l->adam_bytes, 1);
    l->head = mti_enc_block(&l->bytes, l->head_bytes, 1);
    l->grad = mti_enc_block(&l->bytes, l->n, sizeof(metatune_real));
    l->phi = mti_enc_block(&l->bytes, p * d, sizeof(metatune_real));
    l->dphi = mti_enc_block(&l->bytes, p * d, sizeof(metatune_real));
    /* u, z, p (D); mu, v (points); support residuals and products */
    l->work = mti_enc_block(&l->bytes, 3 * d + 4 * p, sizeof(double));
    return METATUNE_OK;
}

METATUNE_API size_t metatune_train_memsize(const metatune_train_config *cfg)
{
    mti_train_layout l;
    return mti_train_plan(cfg, &l) ? 0 : l.bytes;
}

METATUNE_API metatune_status
metatune_train_init(metatune_trainer *trainer,
                    const metatune_train_config *cfg, metatune_real *params,
                    size_t n_params, void *mem, size_t bytes)
{
    mti_train_layout l;
    char *base = (char *)mem;
    metatune_status st = mti_train_plan(cfg, &l);
    if (st)
        return st;
    if (!trainer || !params || n_params != l.n)
        return METATUNE_BAD_ARG;
    st = mti_enc_block_check(mem, bytes, l.bytes);
    if (st)
        return st;
    memset(trainer, 0, sizeof *trainer);
    trainer->cfg = *cfg;
    trainer->cfg.gnn = l.gnn;
    trainer->cfg.cap_points = l.points;
    trainer->params = params;
    trainer->n_params = l.n;
    trainer->grad = (metatune_real *)(void *)(base + l.grad);
    trainer->phi = (metatune_real *)(void *)(base + l.phi);
    trainer->dphi = (metatune_real *)(void *)(base + l.dphi);
    trainer->work = (double *)(void *)(base + l.work);
    memset(trainer->grad, 0, l.n * sizeof *trainer->grad);
    st = metatune_gnn_init(&trainer->net, &l.gnn, base + l.net, l.net_bytes);
    if (!st)
        st = metatune_gnn_adam_init(&trainer->adam, l.n, base + l.adam,
                                    l.adam_bytes);
    if (!st)
        st = metatune_head_init(&trainer->head, l.width, base + l.head,
                                l.head_bytes);
    return st;
}

/* Posterior of the support points, then mu and v of the queries. */
static void mti_episode_predict(metatune_trainer *t, const double *y,
                                size_t n_support, size_t n_query, double *mu,
                                double *v)
{
    size_t i, d = (size_t)t->head.width;
    const metatune_real *log_lambda = t->params + t->n_params - 1 - d;
    metatune_head_prior(&t->head, log_lambda - d, log_lambda,
                        t->params[t->n_params - 1], 1);
    for (i = 0; i < n_support; i++)
        metatune_head_add(&t->head, t->phi + i * d, y[i], 1);
    metatune_head_solve(&t->head);
    for (i = 0; i < n_query; i++)
        metatune_head_predict(&t->head, t->phi + (n_support + i) * d, &mu[i],
                              &v[i]);
}

static metatune_status
mti_episode_forward(metatune_trainer *t,
                    const metatune_encode_graph *const *graphs,
                    const double *y, size_t n_support, size_t n_query)
{
    if (!t || !graphs || !y || !n_query)
        return METATUNE_BAD_ARG;
    if (n_support + n_query > (size_t)t->cfg.cap_points)
        return METATUNE_CAPACITY;
    return metatune_gnn_forward(&t->net, t->params, graphs,
                                n_support + n_query, t->phi);
}

METATUNE_API metatune_status
metatune_train_evaluate(metatune_trainer *trainer,
                        const metatune_encode_graph *const *graphs,
                        const double *y, size_t n_support, size_t n_query,
                        double *mu, double *var, double *loss)
{
    double sum = 0, *m, *v;
    size_t i;
    metatune_status st =
        mti_episode_forward(trainer, graphs, y, n_support, n_query);
    if (st)
        return st;
    m = trainer->work + 3 * (size_t)trainer->head.width;
    v = m + n_query;
    mti_episode_predict(trainer, y, n_support, n_query, m, v);
    for (i = 0; i < n_query; i++) {
        double total = v[i] + trainer->head.s2, r = y[n_support + i] - m[i];
        sum += (log(total) + r * r / total) / 2;
        if (mu)
            mu[i] = m[i];
        if (var)
            var[i] = total;
    }
    if (loss)
        *loss = sum / (double)n_query;
    return METATUNE_OK;
}

/* x = A^-1 x through the factor */
static void mti_head_inverse(const metatune_head *head, double *x)
{
    mti_chol_forward(head->chol, x, head->width);
    mti_chol_backward(head->chol, x, head->width);
}

/* RECIPE section 4, with A = diag(lambda) + Phi'Phi / s2, m = A^-1 b:
     g_q = dL/dmu_q, h_q = dL/dv_q, u = sum g_q phi_q, z = A^-1 u,
     r_i = y_i - phi_i'm (support), p = A^-1 phi_q
     dphi_q    = g_q m + 2 h_q p
     dphi_i    = (r_i z - (phi_i'z) m) / s2 - 2 h_q (p'phi_i) p / s2
     dw0       = lambda z
     dlambda   = z (w0 - m) - h_q p^2
     ds2       = -sum_i r_i (phi_i'z) / s2^2
                 + h_q (1 + sum_i (p'phi_i)^2 / s2^2)
   lambda and s2 are trained as logarithms: d log x = x dx. */
METATUNE_API metatune_status
metatune_train_episode(metatune_trainer *trainer,
                       const metatune_encode_graph *const *graphs,
                       const double *y, size_t n_support, size_t n_query,
                       double *loss)
{
    metatune_trainer *t = trainer;
    metatune_status st = mti_episode_forward(t, graphs, y, n_support,
                                             n_query);
    size_t d, i, j, q;
    double *u, *z, *p, *mu, *v, *g, *h, s2, ds2 = 0, sum = 0;
    metatune_real *dlog_lambda, *dw0;
    const metatune_real *log_lambda, *w0;
    const double *m;
    if (st)
        return st;
    d = (size_t)t->head.width;
    u = t->work;
    z = u + d;
    p = z + d;
    mu = p + d;
    v = mu + n_query;
    g = mu; /* mu and v are spent once g and h are known */
    h = v;
    mti_episode_predict(t, y, n_support, n_query, mu, v);
    s2 = t->head.s2;
    m = t->head.m;
    log_lambda = t->params + t->n_params - 1 - d;
    w0 = log_lambda - d;
    dlog_lambda = t->grad + t->n_params - 1 - d;
    dw0 = dlog_lambda - d;
    memset(u, 0, d * sizeof *u);
    memset(t->dphi, 0, (n_support + n_query) * d * sizeof *t->dphi);
    for (q = 0; q < n_query; q++) {
        const metatune_real *phi = t->phi + (n_support + q) * d;
        double total = v[q] + s2, r = y[n_support + q] - mu[q];
        sum += (log(total) + r * r / total) / 2;
        g[q] = -r / total / (double)n_query;
        h[q] = (1 / total - r * r / (total * total)) / 2 / (double)n_query;
        for (j = 0; j < d; j++)
            u[j] += g[q] * (double)phi[j];
    }
    memcpy(z, u, d * sizeof *z);
    mti_head_inverse(&t->head, z);
    for (j = 0; j < d; j++) {
        double lambda = exp((double)log_lambda[j]);
        dw0[j] += (metatune_real)(lambda * z[j]);
        dlog_lambda[j] +=
            (metatune_real)(lambda * z[j] * ((double)w0[j] - m[j]));
    }
    for (i = 0; i < n_support; i++) {
        const metatune_real *phi = t->phi + i * d;
        metatune_real *dphi = t->dphi + i * d;
        double fit = 0, along = 0, r;
        for (j = 0; j < d; j++) {
            fit += (double)phi[j] * m[j];
            along += (double)phi[j] * z[j];
        }
        r = y[i] - fit;
        ds2 -= r * along / (s2 * s2);
        for (j = 0; j < d; j++)
            dphi[j] += (metatune_real)((r * z[j] - along * m[j]) / s2);
    }
    for (q = 0; q < n_query; q++) {
        const metatune_real *phi = t->phi + (n_support + q) * d;
        metatune_real *dphi = t->dphi + (n_support + q) * d;
        double through = 0;
        for (j = 0; j < d; j++)
            p[j] = (double)phi[j];
        mti_head_inverse(&t->head, p);
        for (j = 0; j < d; j++) {
            double lambda = exp((double)log_lambda[j]);
            dphi[j] += (metatune_real)(g[q] * m[j] + 2 * h[q] * p[j]);
            dlog_lambda[j] -= (metatune_real)(lambda * h[q] * p[j] * p[j]);
        }
        for (i = 0; i < n_support; i++) {
            const metatune_real *phi_i = t->phi + i * d;
            metatune_real *dphi_i = t->dphi + i * d;
            double dot = 0;
            for (j = 0; j < d; j++)
                dot += p[j] * (double)phi_i[j];
            through += dot * dot;
            for (j = 0; j < d; j++)
                dphi_i[j] -= (metatune_real)(2 * h[q] * dot * p[j] / s2);
        }
        ds2 += h[q] * (1 + through / (s2 * s2));
    }
    t->grad[t->n_params - 1] += (metatune_real)(s2 * ds2);
    if (loss)
        *loss = sum / (double)n_query;
    t->n_episodes++;
    return metatune_gnn_backward(&t->net, t->params, graphs,
                                 n_support + n_query, t->dphi, t->grad);
}

METATUNE_API metatune_status metatune_train_step(metatune_trainer *trainer,
                                                 double rate)
{
    metatune_trainer *t = trainer;
    size_t i, n = t->n_params, d = (size_t)t->head.width;
    size_t n_trunk = n - 1 - 2 * d; /* decay spares the head */
    double decay = t->cfg.weight_decay, clip = t->cfg.clip, norm = 0;
    if (t->n_episodes == 0)
        return METATUNE_BAD_ARG;
    for (i = 0; i < n; i++) {
        t->grad[i] /= (metatune_real)t->n_episodes;
        norm += (double)t->grad[i] * (double)t->grad[i];
    }
    t->n_episodes = 0;
    if (!(norm - norm <= 0)) {
        memset(t->grad, 0, n * sizeof *t->grad);
        return METATUNE_NOT_FINITE;
    }
    if (clip >= 0)
        (void)metatune_gnn_clip(t->grad, n, clip > 0 ? clip : 1);
    if (decay >= 0) {
        metatune_real keep =
            (metatune_real)(1 - rate * (decay > 0 ? decay : 1e-4));
        for (i = 0; i < n_trunk; i++)
            t->params[i] *= keep;
    }
    (void)metatune_gnn_adam_step(&t->adam, t->params, t->grad, n, rate);
    /* keep the prior's scales where exp() and the factor are well-behaved */
    for (i = n - 1 - d; i < n; i++) {
        if (t->params[i] > 12)
            t->params[i] = 12;
        if (t->params[i] < -12)
            t->params[i] = -12;
    }
    memset(t->grad, 0, n * sizeof *t->grad);
    return METATUNE_OK;
}

/* ---- MAML */

typedef struct mti_maml_layout {
    metatune_maml_config cfg;
    size_t net, tangent, adam, rate_adam, grad, rates, rate_grad, theta, inner;
    size_t v, av, phi, dphi, mu, dmu, ddmu, y, bytes;
    size_t net_bytes, tangent_bytes, adam_bytes, rate_bytes;
    size_t n_gnn, n_model, n_windows;
    int32_t width;
} mti_maml_layout;

static metatune_status mti_maml_plan(const metatune_maml_config *cfg,
                                     mti_maml_layout *l)
{
    metatune_maml_config *c;
    metatune_status st;
    size_t p, d, k;
    if (!cfg)
        return METATUNE_BAD_ARG;
    memset(l, 0, sizeof *l);
    l->cfg = *cfg;
    c = &l->cfg;
    if (!c->cap_points)
        c->cap_points = 64;
    if (!c->steps)
        c->steps = 1;
    if (c->steps == -1)
        c->steps = 0;
    if (!(c->rate < 0) && !(c->rate > 0))
        c->rate = 2e-3;
    if (c->rate < 0)
        c->rate = 0;
    if (c->cap_points < 1 || c->cap_points > 4096 || c->steps < 0 ||
        c->steps > 16 || !(c->rate <= 100) || c->loss < 0 || c->loss > 1)
        return METATUNE_BAD_CONFIG;
    c->gnn.train = 1;
    c->gnn.cap_batch = c->cap_points;
    st = metatune_gnn_config_check(&c->gnn, NULL);
    if (st)
        return st;
    l->n_gnn = metatune_gnn_param_count(&c->gnn);
    l->n_model = metatune_model_param_count(&c->gnn);
    l->n_windows = metatune_gnn_window_count(&c->gnn);
    l->width = metatune_gnn_phi_width(&c->gnn);
    if (l->n_windows > METATUNE_MAML_WINDOWS)
        return METATUNE_BAD_CONFIG;
    p = (size_t)c->cap_points;
    d = (size_t)l->width;
    k = (size_t)c->steps;
    l->net_bytes = metatune_gnn_memsize(&c->gnn);
    l->tangent_bytes = metatune_gnn_tangent_memsize(&c->gnn);
    l->adam_bytes = metatune_gnn_adam_memsize(l->n_model);
    l->rate_bytes = metatune_gnn_adam_memsize(l->n_windows);
    if (!l->net_bytes || !l->tangent_bytes || !l->adam_bytes || !l->rate_bytes)
        return METATUNE_BAD_CONFIG;
#define MTI_BLOCK(name, count, size) \
    l->name = mti_enc_block(&l->bytes, count, size)
    MTI_BLOCK(net, l->net_bytes, 1);
    MTI_BLOCK(tangent, l->tangent_bytes, 1);
    MTI_BLOCK(adam, l->adam_bytes, 1);
    MTI_BLOCK(rate_adam, l->rate_bytes, 1);
    MTI_BLOCK(grad, l->n_model, sizeof(metatune_real));
    MTI_BLOCK(rates, l->n_windows, sizeof(metatune_real));
    MTI_BLOCK(rate_grad, l->n_windows, sizeof(metatune_real));
    MTI_BLOCK(theta, (k + 1) * l->n_gnn, sizeof(metatune_real));
    MTI_BLOCK(inner, k * l->n_gnn, sizeof(metatune_real));
    MTI_BLOCK(v, l->n_gnn, sizeof(metatune_real));
    MTI_BLOCK(av, l->n_gnn, sizeof(metatune_real));
    MTI_BLOCK(phi, p * d, sizeof(metatune_real));
    MTI_BLOCK(dphi, p * d, sizeof(metatune_real));
    MTI_BLOCK(mu, p, sizeof(metatune_real));
    MTI_BLOCK(dmu, p, sizeof(metatune_real));
    MTI_BLOCK(ddmu, p, sizeof(metatune_real));
    MTI_BLOCK(y, p, sizeof(metatune_real));
#undef MTI_BLOCK
    return l->bytes == SIZE_MAX ? METATUNE_OVERFLOW : METATUNE_OK;
}

METATUNE_API size_t metatune_maml_memsize(const metatune_maml_config *cfg)
{
    mti_maml_layout l;
    return mti_maml_plan(cfg, &l) ? 0 : l.bytes;
}

METATUNE_API metatune_status
metatune_maml_init(metatune_maml *maml, const metatune_maml_config *cfg,
                   metatune_real *params, size_t n_params, void *mem,
                   size_t bytes)
{
    metatune_maml *t = maml;
    mti_maml_layout l;
    char *base = (char *)mem;
    size_t i;
    metatune_status st = mti_maml_plan(cfg, &l);
    if (st)
        return st;
    if (!t || !params || (n_params != l.n_model && n_params != l.n_gnn))
        return METATUNE_BAD_ARG;
    st = mti_enc_block_check(mem, bytes, l.bytes);
    if (st)
        return st;
    memset(t, 0, sizeof *t);
    memset(mem, 0, l.bytes);
    t->cfg = l.cfg;
    t->params = params;
    t->n_params = n_params;
    t->n_gnn = l.n_gnn;
    t->n_windows = l.n_windows;
#define MTI_PLACE(name) \
    t->name = (metatune_real *)(void *)(base + l.name)
    MTI_PLACE(grad);
    MTI_PLACE(rates);
    MTI_PLACE(rate_grad);
    MTI_PLACE(theta);
    MTI_PLACE(inner);
    MTI_PLACE(v);
    MTI_PLACE(av);
    MTI_PLACE(phi);
    MTI_PLACE(dphi);
    MTI_PLACE(mu);
    MTI_PLACE(dmu);
    MTI_PLACE(ddmu);
    MTI_PLACE(y);
#undef MTI_PLACE
    for (i = 0; i < t->n_windows; i++) {
        metatune_gnn_window_info w;
        (void)metatune_gnn_window(&l.cfg.gnn, i, &w);
        t->window[i] = w.offset;
        t->rates[i] = (metatune_real)(
            l.cfg.head_only && i + 1 < t->n_windows ? 0 : l.cfg.rate);
    }
    t->window[t->n_windows] = l.n_gnn;
    st = metatune_gnn_init(&t->net, &l.cfg.gnn, base + l.net, l.net_bytes);
    if (!st)
        st = metatune_gnn_tangent_init(&t->tangent, &l.cfg.gnn,
                                       base + l.tangent, l.tangent_bytes);
    if (!st)
        st = metatune_gnn_adam_init(&t->adam, n_params, base + l.adam,
                                    l.adam_bytes);
    if (!st)
        st = metatune_gnn_adam_init(&t->rate_adam, l.n_windows,
                                    base + l.rate_adam, l.rate_bytes);
    return st;
}

/* Loss at theta over n points, with l' and l''; phi stays for what follows. */
static metatune_status mti_maml_loss(metatune_maml *t,
                                     const metatune_real *theta,
                                     const metatune_encode_graph *const *graphs,
                                     const double *y, size_t n, double *loss)
{
    size_t i;
    metatune_status st = metatune_gnn_forward(&t->net, theta, graphs, n,
                                              t->phi);
    if (st)
        return st;
    metatune_gnn_mean(&t->cfg.gnn, theta, t->phi, n, t->mu);
    for (i = 0; i < n; i++)
        t->y[i] = (metatune_real)y[i];
    if (t->cfg.loss == METATUNE_MAML_SQUARED)
        *loss = metatune_gnn_loss_squared(t->mu, t->y, NULL, n, t->dmu);
    else
        *loss = metatune_gnn_loss_smooth_l1(t->mu, t->y, NULL, n, t->dmu);
    for (i = 0; i < n; i++) { /* r^2 / 2 has 1, |r| - 1/2 has none */
        double r = (double)t->mu[i] - (double)t->y[i];
        int square = t->cfg.loss == METATUNE_MAML_SQUARED || fabs(r) < 1;
        t->ddmu[i] = (metatune_real)(square ? 1 / (double)n : 0);
    }
    return METATUNE_OK;
}

/* g (n_gnn) = its gradient, after mti_maml_loss with the same arguments. */
static metatune_status mti_maml_grad(metatune_maml *t,
                                     const metatune_real *theta,
                                     const metatune_encode_graph *const *graphs,
                                     size_t n, metatune_real *g)
{
    memset(g, 0, t->n_gnn * sizeof *g);
    memset(t->dphi, 0, n * (size_t)metatune_gnn_phi_width(&t->cfg.gnn) *
                           sizeof *t->dphi);
    metatune_gnn_mean_backward(&t->cfg.gnn, theta, t->phi, n, t->dmu, t->dphi,
                               g);
    return metatune_gnn_backward(&t->net, theta, graphs, n, t->dphi, g);
}

/* out (n_gnn) = alpha * x, each window its own rate */
static void mti_maml_scale(const metatune_maml *t, const metatune_real *x,
                           metatune_real *out)
{
    size_t w, i;
    for (w = 0; w < t->n_windows; w++)
        for (i = t->window[w]; i < t->window[w + 1]; i++)
            out[i] = t->rates[w] * x[i];
}

/* theta_0..theta_K and g_0..g_{K-1} */
static metatune_status
mti_maml_adapt(metatune_maml *t, const metatune_encode_graph *const *graphs,
               const double *y, size_t n_support)
{
    int32_t k;
    size_t n = t->n_gnn, i;
    memcpy(t->theta, t->params, n * sizeof *t->theta);
    for (k = 0; k < t->cfg.steps; k++) {
        metatune_real *theta = t->theta + (size_t)k * n, *next = theta + n;
        metatune_real *g = t->inner + (size_t)k * n;
        double loss;
        metatune_status st;
        if (!n_support) {
            memcpy(next, theta, n * sizeof *next);
            memset(g, 0, n * sizeof *g);
            continue;
        }
        st = mti_maml_loss(t, theta, graphs, y, n_support, &loss);
        if (!st)
            st = mti_maml_grad(t, theta, graphs, n_support, g);
        if (st)
            return st;
        mti_maml_scale(t, g, next);
        for (i = 0; i < n; i++)
            next[i] = theta[i] - next[i];
    }
    return METATUNE_OK;
}

static metatune_status
mti_maml_check(const metatune_maml *t,
               const metatune_encode_graph *const *graphs, const double *y,
               size_t n_support, size_t n_query)
{
    if (!t || !graphs || !y || !n_query)
        return METATUNE_BAD_ARG;
    if (n_support > (size_t)t->cfg.cap_points ||
        n_query > (size_t)t->cfg.cap_points)
        return METATUNE_CAPACITY;
    return METATUNE_OK;
}

METATUNE_API metatune_status
metatune_maml_evaluate(metatune_maml *maml,
                       const metatune_encode_graph *const *graphs,
                       const double *y, size_t n_support, size_t n_query,
                       double *mu, double *loss)
{
    metatune_maml *t = maml;
    double l = 0;
    size_t i;
    metatune_status st = mti_maml_check(t, graphs, y, n_support, n_query);
    if (!st)
        st = mti_maml_adapt(t, graphs, y, n_support);
    if (!st)
        st = mti_maml_loss(t, t->theta + (size_t)t->cfg.steps * t->n_gnn,
                           graphs + n_support, y + n_support, n_query, &l);
    if (st)
        return st;
    for (i = 0; mu && i < n_query; i++)
        mu[i] = (double)t->mu[i];
    if (loss)
        *loss = l;
    return METATUNE_OK;
}

METATUNE_API metatune_status
metatune_maml_episode(metatune_maml *maml,
                      const metatune_encode_graph *const *graphs,
                      const double *y, size_t n_support, size_t n_query,
                      double *loss)
{
    metatune_maml *t = maml;
    const metatune_real *theta;
    double l = 0;
    size_t n, i, w;
    int32_t k;
    metatune_status st = mti_maml_check(t, graphs, y, n_support, n_query);
    if (!st)
        st = mti_maml_adapt(t, graphs, y, n_support);
    if (st)
        return st;
    n = t->n_gnn;
    theta = t->theta + (size_t)t->cfg.steps * n;
    /* v = dL_Q / dtheta_K */
    st = mti_maml_loss(t, theta, graphs + n_support, y + n_support, n_query,
                       &l);
    if (!st)
        st = mti_maml_grad(t, theta, graphs + n_support, n_query, t->v);
    for (k = t->cfg.steps; !st && n_support && k-- > 0;) {
        const metatune_real *g = t->inner + (size_t)k * n;
        double unused;
        /* theta_{k+1} = theta_k - alpha g_k */
        for (w = 0; w < t->n_windows; w++) {
            double sum = 0;
            for (i = t->window[w]; i < t->window[w + 1]; i++)
                sum += (double)t->v[i] * (double)g[i];
            t->rate_grad[w] -= (metatune_real)sum;
        }
        if (t->cfg.first_order)
            continue;
        /* v -= H (alpha v) */
        theta -= n;
        mti_maml_scale(t, t->v, t->av);
        for (i = 0; i < n; i++)
            t->av[i] = -t->av[i];
        st = mti_maml_loss(t, theta, graphs, y, n_support, &unused);
        if (!st)
            st = metatune_gnn_hessian_product(&t->net, &t->tangent, theta,
                                              graphs, n_support, t->phi,
                                              t->dmu, t->ddmu, t->av, t->v);
    }
    if (st)
        return st;
    for (i = 0; i < n; i++)
        t->grad[i] += t->v[i];
    t->n_episodes++;
    if (loss)
        *loss = l;
    return METATUNE_OK;
}

METATUNE_API metatune_status metatune_maml_step(metatune_maml *maml,
                                                double rate)
{
    metatune_maml *t = maml;
    size_t i, n;
    double norm = 0, decay, clip;
    if (!t || t->n_episodes == 0)
        return METATUNE_BAD_ARG;
    n = t->n_params;
    for (i = 0; i < n; i++) {
        t->grad[i] /= (metatune_real)t->n_episodes;
        norm += (double)t->grad[i] * (double)t->grad[i];
    }
    for (i = 0; i < t->n_windows; i++) {
        t->rate_grad[i] /= (metatune_real)t->n_episodes;
        norm += (double)t->rate_grad[i] * (double)t->rate_grad[i];
    }
    t->n_episodes = 0;
    if (!(norm - norm <= 0)) {
        memset(t->grad, 0, n * sizeof *t->grad);
        memset(t->rate_grad, 0, t->n_windows * sizeof *t->rate_grad);
        return METATUNE_NOT_FINITE;
    }
    clip = t->cfg.clip;
    decay = t->cfg.weight_decay;
    if (clip >= 0)
        (void)metatune_gnn_clip(t->grad, n, clip > 0 ? clip : 1);
    if (decay >= 0) {
        metatune_real keep =
            (metatune_real)(1 - rate * (decay > 0 ? decay : 1e-4));
        size_t trunk = t->window[t->n_windows - 1]; /* not `out` */
        for (i = 0; i < trunk; i++)
            t->params[i] *= keep;
    }
    (void)metatune_gnn_adam_step(&t->adam, t->params, t->grad, n, rate);
    if (t->cfg.learn_rates) {
        if (clip >= 0)
            (void)metatune_gnn_clip(t->rate_grad, t->n_windows,
                                    clip > 0 ? clip : 1);
        (void)metatune_gnn_adam_step(&t->rate_adam, t->rates, t->rate_grad,
                                     t->n_windows, rate / 10);
        for (i = 0; i < t->n_windows; i++) {
            if (t->cfg.head_only && i + 1 < t->n_windows)
                t->rates[i] = 0;
            else if (t->rates[i] < (metatune_real)1e-6)
                t->rates[i] = (metatune_real)1e-6;
        }
    }
    memset(t->grad, 0, n * sizeof *t->grad);
    memset(t->rate_grad, 0, t->n_windows * sizeof *t->rate_grad);
    return METATUNE_OK;
}

/* Indices by falling y; insertion sort: n is a task's settings. */
static void mti_order_by_speed(const double *y, size_t n, uint32_t *order)
{
    size_t i, j, gap;
    for (i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (i = gap; i < n; i++) {
            uint32_t it = order[i];
            for (j = i; j >= gap && y[order[j - gap]] < y[it]; j -= gap)
                order[j] = order[j - gap];
            order[j] = it;
        }
}

METATUNE_API size_t metatune_episode_draw(metatune_encode_rng *rng,
                                          const double *y, size_t n,
                                          size_t *n_support, size_t n_query,
                                          uint32_t *order, uint32_t *index)
{
    size_t want = *n_support, i, count = 0;
    if (n == 0) {
        *n_support = 0;
        return 0;
    }
    if (want + n_query > n) { /* too few points: queries first */
        if (n_query > n)
            n_query = n;
        if (want > n - n_query)
            want = n - n_query;
    }
    mti_order_by_speed(y, n, order);
    *n_support = want;
    for (i = 0; i < want + n_query; i++) {
        size_t lo = 0, hi = n, tries, at = 0, k;
        if (i < want) {
            if (i & 1) /* every other support point: the better half */
                hi = (n + 1) / 2;
        } else if ((i - want) % 3 == 0) {
            hi = (n + 9) / 10;
        } else if ((i - want) % 3 == 1) {
            lo = n / 3;
            hi = n - n / 3;
        }
        for (tries = 0;; tries++) { /* a band may be used up: widen it */
            if (tries == 16) {
                lo = 0;
                hi = n;
            }
            at = lo + (size_t)metatune_encode_rng_below(rng, hi - lo);
            if (tries >= 64) /* walk to a free one */
                at = (at + tries) % n;
            for (k = 0; k < count && index[k] != order[at]; k++) {}
            if (k == count)
                break;
        }
        index[count++] = order[at];
    }
    return count;
}
#endif /* METATUNE_NO_TRAIN */

/* ------------------------------------------------------------ [M-RECORD] */
#ifndef METATUNE_NO_RECORDS

/* ---- numbers: decimal <-> binary64 in integers only, so that locale, x87
   precision, rounding mode and fast-math have no say. A decimal w * 10^q is
   first evaluated to 128 bits with a known error; only when a halfway case
   lies inside that error do exact big integers decide. ---- */

/* a * b as 128 bits: returns the low half. */
static uint64_t mti_num_mul(uint64_t a, uint64_t b, uint64_t *hi)
{
    const uint64_t low = 0xFFFFFFFFU;
    uint64_t a0 = a & low, a1 = a >> 32, b0 = b & low, b1 = b >> 32;
    uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0, p11 = a1 * b1;
    uint64_t mid = (p00 >> 32) + (p01 & low) + (p10 & low);
    *hi = p11 + (p01 >> 32) + (p10 >> 32) + (mid >> 32);
    return (mid << 32) | (p00 & low);
}

/* A normalised 128-bit float: the true value is in [m, m + err) * 2^exp with
   m = hi:lo, bit 127 set, err in units of the last bit (err_hi:err_lo). */
typedef struct mti_num_wide {
    uint64_t hi, lo, err_hi, err_lo;
    int32_t exp;
} mti_num_wide;

/* x *= f with f normalised (bit 63 set); the low 64 of 192 bits are cut. */
static void mti_num_scale(mti_num_wide *x, uint64_t f)
{
    uint64_t h1, l1, h2, l2, mid;
    l1 = mti_num_mul(x->hi, f, &h1);
    l2 = mti_num_mul(x->lo, f, &h2);
    mid = l1 + h2;
    if (mid < l1) h1++;
    x->hi = h1;
    x->lo = mid;
    x->exp += 64;
    /* err * f / 2^64 <= err, and one more for what was cut */
    if (x->err_lo || l2) x->err_lo++;
    if (!(x->hi >> 63)) {
        x->hi = (x->hi << 1) | (x->lo >> 63);
        x->lo = (x->lo << 1) | (l2 >> 63);
        x->err_lo *= 2U;
        x->exp--;
    }
}

static int mti_num_clz(uint64_t x) /* x != 0 */
{
    int n = 0;
    if (!(x >> 32)) { n += 32; x <<= 32; }
    if (!(x >> 48)) { n += 16; x <<= 16; }
    if (!(x >> 56)) { n += 8; x <<= 8; }
    if (!(x >> 60)) { n += 4; x <<= 4; }
    if (!(x >> 62)) { n += 2; x <<= 2; }
    if (!(x >> 63)) n++;
    return n;
}

/* 10^k, -364 <= k <= 363. */
static void mti_num_pow10(int32_t k, mti_num_wide *x)
{
    static const uint64_t coarse[26][2] = { /* 10^(28 (i - 13)), cut */
        { 0xE1AFA13AFBD14D6DULL, 0x82189C09A3A1EC21ULL },
        { 0xE3E27A444D8D98B7ULL, 0xFD1B1B2308169B25ULL },
        { 0xE61ACF033D1A45DFULL, 0x6FB92487298E33BDULL },
        { 0xE858AD248F5C22C9ULL, 0xD1B3400F8F9CFF68ULL },
        { 0xEA9C227723EE8BCBULL, 0x465E15A979C1CADCULL },
        { 0xECE53CEC4A314EBDULL, 0xA4F8BF5635246428ULL },
        { 0xEF340A98172AACE4ULL, 0x86FB897116C87C34ULL },
        { 0xF18899B1BC3F8CA1ULL, 0xDC44E6C3CB279AC1ULL },
        { 0xF3E2F893DEC3F126ULL, 0x5A89DBA3C3EFCCFAULL },
        { 0xF64335BCF065D37DULL, 0x4D4617B5FF4A16D5ULL },
        { 0xF8A95FCF88747D94ULL, 0x75A44C6397CE912AULL },
        { 0xFB158592BE068D2EULL, 0xEED6E2F0F0D56712ULL },
        { 0xFD87B5F28300CA0DULL, 0x8BCA9D6E188853FCULL },
        { 0x8000000000000000ULL, 0x0000000000000000ULL },
        { 0x813F3978F8940984ULL, 0x4000000000000000ULL },
        { 0x82818F1281ED449FULL, 0xBFF8F10E7A8921A4ULL },
        { 0x83C7088E1AAB65DBULL, 0x792667C6DA79E0FAULL },
        { 0x850FADC09923329EULL, 0x03E2CF6BC604DDB0ULL },
        { 0x865B86925B9BC5C2ULL, 0x0B8A2392BA45A9B2ULL },
        { 0x87AA9AFF79042286ULL, 0x90FB44D2F05D0842ULL },
        { 0x88FCF317F22241E2ULL, 0x441FECE3BDF81F03ULL },
        { 0x8A5296FFE33CC92FULL, 0x82BD6B70D99AAA6FULL },
        { 0x8BAB8EEFB6409C1AULL, 0x1AD089B6C2F7548EULL },
        { 0x8D07E33455637EB2ULL, 0xDB0B487B6423E1E8ULL },
        { 0x8E679C2F5E44FF8FULL, 0x570F09EAA7EA7648ULL },
        { 0x8FCAC257558EE4E6ULL, 0x213A4F0AA5E8A7B1ULL }
    };
    static const uint64_t five[28] = { /* 5^b, exact */
        0x1ULL, 0x5ULL, 0x19ULL, 0x7DULL, 0x271ULL, 0xC35ULL, 0x3D09ULL,
        0x1312DULL, 0x5F5E1ULL, 0x1DCD65ULL, 0x9502F9ULL, 0x2E90EDDULL,
        0xE8D4A51ULL, 0x48C27395ULL, 0x16BCC41E9ULL, 0x71AFD498DULL,
        0x2386F26FC1ULL, 0xB1A2BC2EC5ULL, 0x3782DACE9D9ULL,
        0x1158E460913DULL, 0x56BC75E2D631ULL, 0x1B1AE4D6E2EF5ULL,
        0x878678326EAC9ULL, 0x2A5A058FC295EDULL, 0xD3C21BCECCEDA1ULL,
        0x422CA8B0A00A425ULL, 0x14ADF4B7320334B9ULL,
        0x6765C793FA10079DULL
    };
    int32_t a = (k + 364) / 28, b = (k + 364) % 28, shift;
    int32_t k28 = k - b;
    /* floor(log2(10^k28)) by multiplication; true for every entry */
    int32_t log2 = (int32_t)(((int64_t)k28 * 217706
                              + (int64_t)2000 * 65536) / 65536) - 2000;
    x->hi = coarse[a][0];
    x->lo = coarse[a][1];
    x->err_hi = 0;
    x->err_lo = (a == 13 || a == 14) ? 0 : 1;
    x->exp = log2 - 127;
    shift = mti_num_clz(five[b]);
    mti_num_scale(x, five[b] << shift);
    x->exp += b - shift;
}

/* A decimal: w * 10^q, w the first (at most 19) significant digits; `more`
   says that non-zero digits follow. text/n is the digit string, which may
   hold a '.', from the first significant digit, whose weight is 10^lead. */
typedef struct mti_num_dec {
    uint64_t w;
    int64_t q, lead;
    int more;
    const char *text;
    size_t n;
} mti_num_dec;

/* 800 digits are 2658 bits; a halfway point never needs more than 767 digits,
   so the rest is one sticky digit. 5^1150 has 2671 bits. Both sides of a
   comparison are nearly equal, so neither grows past these. */
#define MTI_NUM_WORDS 100
#define MTI_NUM_DIGITS 800

typedef struct mti_num_big {
    uint32_t w[MTI_NUM_WORDS]; /* little end first */
    int n;
} mti_num_big;

static void mti_num_big_muladd(mti_num_big *a, uint32_t mul, uint32_t add)
{
    uint64_t carry = add;
    int i;
    for (i = 0; i < a->n; i++) {
        carry += (uint64_t)a->w[i] * mul;
        a->w[i] = (uint32_t)(carry & 0xFFFFFFFFU);
        carry >>= 32;
    }
    if (carry && a->n < MTI_NUM_WORDS) a->w[a->n++] = (uint32_t)carry;
}

static void mti_num_big_shift(mti_num_big *a, int32_t bits)
{
    int words = (int)(bits / 32), i;
    uint32_t low = (uint32_t)(bits % 32);
    mti_num_big_muladd(a, (uint32_t)1 << low, 0);
    if (words <= 0 || a->n == 0 || a->n + words > MTI_NUM_WORDS) return;
    for (i = a->n - 1; i >= 0; i--) a->w[i + words] = a->w[i];
    for (i = 0; i < words; i++) a->w[i] = 0;
    a->n += words;
}

static void mti_num_big_pow5(mti_num_big *a, int32_t k)
{
    for (; k >= 13; k -= 13) mti_num_big_muladd(a, 1220703125U, 0);
    for (; k > 0; k--) mti_num_big_muladd(a, 5U, 0);
}

/* Exact sign of dec - half * 2^exp. */
static int mti_num_compare(const mti_num_dec *dec, uint64_t half, int32_t exp)
{
    mti_num_big a, b;
    uint32_t chunk = 0, scale = 1;
    int digits = 0, more = 0, i;
    int32_t q;
    size_t at;
    a.n = 0;
    b.n = 0;
    for (at = 0; at < dec->n; at++) {
        char c = dec->text[at];
        if (c == '.') continue;
        if (digits == MTI_NUM_DIGITS) {
            if (c != '0') { more = 1; break; }
            continue;
        }
        chunk = chunk * 10U + (uint32_t)(c - '0');
        scale *= 10U;
        digits++;
        if (scale == 1000000000U) {
            mti_num_big_muladd(&a, scale, chunk);
            chunk = 0;
            scale = 1;
        }
    }
    if (scale > 1U) mti_num_big_muladd(&a, scale, chunk);
    if (more) {
        mti_num_big_muladd(&a, 10U, 1U);
        digits++;
    }
    q = (int32_t)(dec->lead - (digits - 1)); /* a * 10^q against half * 2^exp */
    b.w[0] = (uint32_t)(half & 0xFFFFFFFFU);
    b.w[1] = (uint32_t)(half >> 32);
    b.n = b.w[1] ? 2 : 1;
    if (q >= 0) mti_num_big_pow5(&a, q);
    else mti_num_big_pow5(&b, -q);
    if (q >= exp) mti_num_big_shift(&a, q - exp);
    else mti_num_big_shift(&b, exp - q);
    if (a.n != b.n) return a.n < b.n ? -1 : 1;
    for (i = a.n - 1; i >= 0; i--)
        if (a.w[i] != b.w[i]) return a.w[i] < b.w[i] ? -1 : 1;
    return 0;
}

/* The nearest double, ties to even, as bits without a sign. 0 = overflow. */
static int mti_num_round(const mti_num_dec *dec, uint64_t *bits)
{
    mti_num_wide x;
    uint64_t m, rem, half, end_hi, end_lo;
    int32_t shift, e, drop, unit;
    int up;
    *bits = 0;
    if (!dec->w || dec->lead < -325) return 1;
    if (dec->lead > 308) return 0;
    mti_num_pow10((int32_t)dec->q, &x);
    shift = mti_num_clz(dec->w);
    mti_num_scale(&x, dec->w << shift);
    x.exp -= shift;
    /* w + 1 is 2^shift more of 2^64; twice that, as _scale may have shifted */
    if (dec->more) x.err_hi = ((uint64_t)2 << shift) + 1U;
    e = x.exp + 127; /* 2^e <= value */
    if (e > 1023) return 0;
    drop = e >= -1022 ? 11 : 11 + (-1022 - e);
    unit = e >= -1022 ? e - 52 : -1074;
    if (drop > 65) return 1;
    if (drop == 65) { /* below half of the smallest, perhaps by a hair */
        uint64_t lo = x.lo + x.err_lo, hi;
        hi = x.hi + x.err_hi + (lo < x.lo ? 1U : 0U);
        if (hi >= x.hi) return 1;
        *bits = mti_num_compare(dec, 1U, -1075) > 0 ? 1U : 0U;
        return 1;
    }
    m = drop < 64 ? x.hi >> drop : 0;
    rem = drop < 64 ? x.hi & (((uint64_t)1 << drop) - 1U) : x.hi;
    half = (uint64_t)1 << (drop - 1);
    end_lo = x.lo + x.err_lo;
    end_hi = rem + x.err_hi + (end_lo < x.lo ? 1U : 0U);
    /* with drop 64 the sum may wrap: it is beyond half then, as rem is */
    up = rem > half || (rem == half && x.lo);
    if (!up && (x.err_lo || x.err_hi)
        && (end_hi > half || (end_hi == half && end_lo))) {
        int sign = mti_num_compare(dec, 2U * m + 1U, unit - 1);
        up = sign > 0 || (sign == 0 && (m & 1U));
    } else if (!up && rem == half && !x.lo) {
        up = (int)(m & 1U);
    }
    m += (uint64_t)up;
    /* a carry out of m moves into the exponent, where it belongs */
    if (e >= -1022) m += (uint64_t)(e + 1022) << 52;
    *bits = m;
    return (m >> 52) < 2047U;
}

static double mti_num_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t mti_num_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static int mti_num_finite(double x)
{
    return ((mti_num_bits(x) >> 52) & 2047U) != 2047U;
}

/* Positive and finite, by the bits: fast-math may flush or assume. */
static int mti_num_positive(double x)
{
    uint64_t bits = mti_num_bits(x);
    return bits > 0 && bits < (uint64_t)2047 << 52;
}

static int mti_num_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The JSON number at text; 0 = none, else its length. dec may be NULL. */
static size_t mti_num_scan(const char *text, size_t n, mti_num_dec *dec)
{
    size_t i = 0, first = 0, last;
    int64_t exp = 0, lead = 0; /* lead: weight of the first digit */
    int64_t point = 0;         /* digits after the point so far */
    int found = 0, digits = 0, dot = 0, more = 0;
    uint64_t w = 0;
    if (i < n && text[i] == '-') i++;
    if (i >= n || !mti_num_digit(text[i])) return 0;
    if (text[i] == '0' && i + 1U < n && mti_num_digit(text[i + 1U])) return 0;
    last = i;
    for (; i < n; i++) {
        char c = text[i];
        if (c == '.' && !dot) {
            if (i + 1U >= n || !mti_num_digit(text[i + 1U])) return 0;
            dot = 1;
            continue;
        }
        if (!mti_num_digit(c)) break;
        if (dot) point++;
        last = i + 1U;
        if (!found && c == '0') continue;
        if (!found) {
            found = 1;
            first = i;
            lead = dot ? -point : 0;
        } else if (!dot) {
            lead++;
        }
        if (digits < 19) {
            w = w * 10U + (uint64_t)(c - '0');
            digits++;
        } else if (c != '0') {
            more = 1;
        }
    }
    if (i < n && (text[i] == 'e' || text[i] == 'E')) {
        int neg = 0;
        i++;
        if (i < n && (text[i] == '+' || text[i] == '-')) neg = text[i++] == '-';
        if (i >= n || !mti_num_digit(text[i])) return 0;
        for (; i < n && mti_num_digit(text[i]); i++)
            if (exp < 100000000000000000) exp = exp * 10 + (text[i] - '0');
        if (neg) exp = -exp;
    }
    if (dec) {
        dec->w = w;
        dec->more = more;
        dec->text = text + first;
        dec->n = found ? last - first : 0;
        dec->lead = lead + exp;
        dec->q = dec->lead - (digits - 1);
    }
    return i;
}

METATUNE_API metatune_status
metatune_number_read(const char *text, size_t n, double *x, size_t *end)
{
    mti_num_dec dec;
    uint64_t bits;
    size_t used;
    if (!text || !x) return METATUNE_BAD_ARG;
    used = mti_num_scan(text, n, &dec);
    if (end) *end = used;
    if (!used) return METATUNE_PARSE;
    if (!mti_num_round(&dec, &bits)) return METATUNE_OVERFLOW;
    *x = mti_num_double(bits | (text[0] == '-' ? (uint64_t)1 << 63 : 0U));
    return METATUNE_OK;
}

/* Decimal digits of v into buf (20); returns how many. */
static int mti_num_digits(uint64_t v, char *buf)
{
    char back[20];
    int n = 0, i;
    do {
        back[n++] = (char)('0' + (int)(v % 10U));
        v /= 10U;
    } while (v);
    for (i = 0; i < n; i++) buf[i] = back[n - 1 - i];
    return n;
}

/* Whether d (p digits, or 10^p) * 10^(e10 - p + 1) reads back as bits. */
static int mti_num_is(uint64_t d, int32_t p, int32_t e10, uint64_t bits)
{
    mti_num_dec dec;
    char text[20];
    uint64_t got;
    int n = mti_num_digits(d, text);
    dec.w = d;
    dec.q = e10 - p + 1;
    dec.lead = dec.q + n - 1;
    dec.more = 0;
    dec.text = text;
    dec.n = (size_t)n;
    return mti_num_round(&dec, &got) && got == bits;
}

METATUNE_API size_t metatune_number_write(double x, char *buf, size_t cap)
{
    uint64_t bits = mti_num_bits(x), m, d, unit, best = 0;
    int negative = (int)(bits >> 63), n, i, digits;
    int32_t e, e10, shift, drop, p, p_first;
    mti_num_wide r;
    char text[20], out[32];
    size_t len = 0;
    if (!buf || !cap) return 0;
    buf[0] = 0;
    if (!mti_num_finite(x)) return 0;
    bits &= ~((uint64_t)1 << 63);
    if (negative) out[len++] = '-';
    if (!bits) {
        out[len++] = '0';
    } else {
        e = (int32_t)(bits >> 52);
        m = bits & (((uint64_t)1 << 52) - 1U);
        /* 15 digits always survive a double, so of at most 15 the rounding to
           15 is enough; subnormals are coarser and may need fewer */
        p_first = e ? 15 : 1;
        if (e) m |= (uint64_t)1 << 52;
        else e = 1;
        shift = mti_num_clz(m);
        e -= 1075 + shift; /* x = (m << shift) * 2^e */
        /* floor(log10(2^(e + 63))): the true exponent or one less */
        e10 = (int32_t)(((int64_t)(e + 63) * 78913
                         + (int64_t)2000 * 262144) / 262144) - 2000;
        mti_num_pow10(16 - e10, &r);
        mti_num_scale(&r, m << shift);
        drop = -(r.exp + e) - 64; /* 4..11: 17 or 18 digits before the point */
        d = r.hi >> drop;
        if (d >= 100000000000000000U) {
            e10++;
            d = d / 10U + (d % 10U >= 5U ? 1U : 0U);
        } else {
            d += (r.hi >> (drop - 1)) & 1U;
        }
        if (d >= 100000000000000000U) {
            e10++;
            d /= 10U;
        }
        for (p = p_first, unit = 1, i = p; i < 17; i++) unit *= 10U;
        for (; p <= 17; p++, unit /= 10U) {
            uint64_t low = d / unit, rest = d % unit;
            uint64_t near = low + (rest * 2U >= unit ? 1U : 0U);
            /* below a power of two the gap is half as wide: the other
               neighbour may be the one that comes back */
            uint64_t other = near == low ? low + 1U : low;
            best = near;
            if (mti_num_is(near, p, e10, bits)) break;
            best = other;
            if (rest && (p > 15 || p_first == 1)
                && mti_num_is(other, p, e10, bits)) break;
        }
        if (p > 17) { /* not reached: 17 digits always come back */
            best = d;
            p = 17;
        }
        digits = mti_num_digits(best, text);
        e10 += digits - p;
        while (digits > 1 && text[digits - 1] == '0') digits--;
        if (e10 >= 0 && e10 < 17) {
            for (i = 0; i < digits || i <= e10; i++) {
                if (i == e10 + 1) out[len++] = '.';
                out[len++] = i < digits ? text[i] : '0';
            }
        } else if (e10 < 0 && e10 >= -4) {
            out[len++] = '0';
            out[len++] = '.';
            for (i = -1; i > e10; i--) out[len++] = '0';
            for (i = 0; i < digits; i++) out[len++] = text[i];
        } else {
            out[len++] = text[0];
            if (digits > 1) out[len++] = '.';
            for (i = 1; i < digits; i++) out[len++] = text[i];
            out[len++] = 'e';
            if (e10 < 0) out[len++] = '-';
            n = mti_num_digits((uint64_t)(e10 < 0 ? -e10 : e10), text);
            for (i = 0; i < n; i++) out[len++] = text[i];
        }
    }
    if (len >= cap) return 0;
    memcpy(buf, out, len);
    buf[len] = 0;
    return len;
}

/* ---- text: UTF-8 and JSON strings. Bytes that are not UTF-8 are taken for
   Latin-1: byte XX is written \u00XX and read back as U+00XX, so a line is
   always valid JSON and unescaped text always valid UTF-8. ---- */

/* Length of the valid UTF-8 sequence at s (n >= 1 bytes), 0 when invalid. */
static size_t mti_rec_utf8(const char *s, size_t n, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t len, i;
    uint32_t c = p[0], least;
    if (c < 0x80U) { *code = c; return 1; }
    if (c >= 0xC2U && c <= 0xDFU) { len = 2; c &= 31U; least = 0x80U; }
    else if ((c & 0xF0U) == 0xE0U) { len = 3; c &= 15U; least = 0x800U; }
    else if (c >= 0xF0U && c <= 0xF4U) { len = 4; c &= 7U; least = 0x10000U; }
    else return 0;
    if (n < len) return 0;
    for (i = 1; i < len; i++) {
        if ((p[i] & 0xC0U) != 0x80U) return 0;
        c = (c << 6) | (p[i] & 63U);
    }
    if (c < least || c > 0x10FFFFU || (c >= 0xD800U && c <= 0xDFFFU)) return 0;
    *code = c;
    return len;
}

/* Next code point of plain bytes, *i < n. */
static uint32_t mti_rec_plain(const char *s, size_t n, size_t *i)
{
    uint32_t code = 0;
    size_t len = mti_rec_utf8(s + *i, n - *i, &code);
    if (!len) {
        code = (unsigned char)s[*i];
        len = 1;
    }
    *i += len;
    return code;
}

static int mti_rec_hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* The four digits of \uXXXX at s, or -1. */
static int32_t mti_rec_hex4(const char *s, size_t n)
{
    int32_t code = 0;
    size_t i;
    if (n < 4) return -1;
    for (i = 0; i < 4; i++) {
        int h = mti_rec_hex(s[i]);
        if (h < 0) return -1;
        code = code * 16 + h;
    }
    return code;
}

/* Next code point of an escaped text, *i < n. A lone surrogate is U+FFFD; a
   backslash that begins no escape stands for itself. */
static uint32_t mti_rec_escaped(const char *s, size_t n, size_t *i)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t left = n - *i, k;
    int32_t a, b;
    if (s[*i] != '\\' || left < 2U) return mti_rec_plain(s, n, i);
    if (s[*i + 1U] == 'u') {
        a = mti_rec_hex4(s + *i + 2U, left - 2U);
        if (a < 0) return mti_rec_plain(s, n, i);
        *i += 6U;
        if (a < 0xD800 || a > 0xDFFF) return (uint32_t)a;
        left -= 6U;
        if (a <= 0xDBFF && left >= 6U && s[*i] == '\\' && s[*i + 1U] == 'u') {
            b = mti_rec_hex4(s + *i + 2U, left - 2U);
            if (b >= 0xDC00 && b <= 0xDFFF) {
                *i += 6U;
                return (uint32_t)(0x10000 + (a - 0xD800) * 1024
                                  + (b - 0xDC00));
            }
        }
        return 0xFFFDU;
    }
    for (k = 0; k < 8U; k++)
        if (s[*i + 1U] == from[k]) {
            *i += 2U;
            return (unsigned char)to[k];
        }
    return mti_rec_plain(s, n, i);
}

METATUNE_API size_t metatune_text_unescape(metatune_text text, char *buf,
                                           size_t cap)
{
    size_t i = 0, len = 0;
    if (!buf) return 0;
    while (text.p && i < text.n) {
        uint32_t c = mti_rec_escaped(text.p, text.n, &i);
        char u[4];
        size_t k = 0;
        if (c < 0x80U) {
            u[k++] = (char)c;
        } else {
            if (c >= 0x10000U) {
                u[k++] = (char)(unsigned char)(0xF0U | (c >> 18));
                u[k++] = (char)(unsigned char)(0x80U | ((c >> 12) & 63U));
            } else if (c >= 0x800U) {
                u[k++] = (char)(unsigned char)(0xE0U | (c >> 12));
            } else {
                u[k++] = (char)(unsigned char)(0xC0U | (c >> 6));
            }
            if (c >= 0x800U)
                u[k++] = (char)(unsigned char)(0x80U | ((c >> 6) & 63U));
            u[k++] = (char)(unsigned char)(0x80U | (c & 63U));
        }
        if (k > cap - len) break; /* cut before, never inside a character */
        memcpy(buf + len, u, k);
        len += k;
    }
    if (len < cap) buf[len] = 0;
    return len;
}

/* Whether an escaped text says the plain bytes. */
static int mti_rec_says(metatune_text text, const char *plain, size_t n)
{
    size_t i = 0, k = 0;
    while (i < text.n && k < n)
        if (mti_rec_escaped(text.p, text.n, &i) != mti_rec_plain(plain, n, &k))
            return 0;
    return i == text.n && k == n;
}

static int mti_rec_says_z(metatune_text text, const char *plain)
{
    return mti_rec_says(text, plain ? plain : "", plain ? strlen(plain) : 0U);
}

/* Raw text equal to a name that needs no escapes. */
static int mti_rec_is(metatune_text text, const char *name)
{
    size_t n = strlen(name);
    return text.n == n && memcmp(text.p, name, n) == 0;
}

/* ---- lexer: n is the end, never read; depth is bounded, nothing recurses.
   Each takes *i to its token and returns 0 when it is malformed. ---- */

#define MTI_REC_DEPTH 32

static void mti_rec_space(const char *s, size_t n, size_t *i)
{
    while (*i < n && (s[*i] == ' ' || s[*i] == '\t')) ++*i;
}

static int mti_rec_char(const char *s, size_t n, size_t *i, char c)
{
    mti_rec_space(s, n, i);
    if (*i >= n || s[*i] != c) return 0;
    ++*i;
    return 1;
}

static int mti_rec_string(const char *s, size_t n, size_t *i,
                          metatune_text *text)
{
    size_t at;
    if (!mti_rec_char(s, n, i, '"')) return 0;
    for (at = *i; at < n; at++) {
        if ((unsigned char)s[at] < 0x20U) return 0;
        if (s[at] == '"') {
            text->p = s + *i;
            text->n = at - *i;
            *i = at + 1U;
            return 1;
        }
        if (s[at] != '\\') continue;
        if (++at >= n) return 0;
        if (s[at] == 'u') {
            if (mti_rec_hex4(s + at + 1U, n - at - 1U) < 0) return 0;
            at += 4U;
        } else if (!s[at] || !strchr("\"\\/bfnrt", s[at])) {
            return 0;
        }
    }
    return 0;
}

static int mti_rec_key(const char *s, size_t n, size_t *i, metatune_text *key)
{
    return mti_rec_string(s, n, i, key) && mti_rec_char(s, n, i, ':');
}

/* A string, number or word. */
static int mti_rec_scalar(const char *s, size_t n, size_t *i)
{
    static const char *const word[3] = { "true", "false", "null" };
    metatune_text text;
    size_t k, len;
    if (*i >= n) return 0;
    if (s[*i] == '"') return mti_rec_string(s, n, i, &text);
    for (k = 0; k < 3U; k++) {
        len = strlen(word[k]);
        if (n - *i >= len && memcmp(s + *i, word[k], len) == 0) {
            *i += len;
            return 1;
        }
    }
    len = mti_num_scan(s + *i, n - *i, NULL);
    *i += len;
    return len != 0;
}

/* Any value, exactly JSON; *text is its raw bytes. */
static int mti_rec_value(const char *s, size_t n, size_t *i,
                         metatune_text *text)
{
    uint32_t objects = 0; /* a bit a level: 1 = object, 0 = array */
    int depth = 0, opened;
    size_t start;
    metatune_text key;
    mti_rec_space(s, n, i);
    start = *i;
    for (;;) {
        mti_rec_space(s, n, i);
        if (*i >= n) return 0;
        opened = s[*i] == '{' || s[*i] == '[';
        if (opened) {
            if (depth == MTI_REC_DEPTH) return 0;
            objects = (objects << 1) | (s[*i] == '{' ? 1U : 0U);
            depth++;
            ++*i;
        } else if (!mti_rec_scalar(s, n, i)) {
            return 0;
        }
        /* close what ends here; then a comma, or the first item */
        while (depth) {
            if (mti_rec_char(s, n, i, (objects & 1U) ? '}' : ']')) {
                objects >>= 1;
                depth--;
                opened = 0;
                continue;
            }
            if (!opened && !mti_rec_char(s, n, i, ',')) return 0;
            if ((objects & 1U) && !mti_rec_key(s, n, i, &key)) return 0;
            break;
        }
        if (!depth) {
            text->p = s + start;
            text->n = *i - start;
            return 1;
        }
    }
}

/* An integer of the whole text: digits only, no exponent, no point. */
static int mti_rec_u64(metatune_text text, uint64_t *value)
{
    uint64_t v = 0;
    size_t i;
    if (!text.n || (text.n > 1U && text.p[0] == '0')) return 0;
    for (i = 0; i < text.n; i++) {
        uint64_t d;
        if (!mti_num_digit(text.p[i])) return 0;
        d = (uint64_t)(text.p[i] - '0');
        if (v > (UINT64_MAX - d) / 10U) return 0;
        v = v * 10U + d;
    }
    *value = v;
    return 1;
}

static int mti_rec_u32(metatune_text text, uint32_t *value)
{
    uint64_t v;
    if (!mti_rec_u64(text, &v) || v > UINT32_MAX) return 0;
    *value = (uint32_t)v;
    return 1;
}

static int mti_rec_i64(metatune_text text, int64_t *value)
{
    uint64_t v;
    int negative = text.n && text.p[0] == '-';
    if (negative) {
        text.p++;
        text.n--;
    }
    if (!mti_rec_u64(text, &v)) return 0;
    if (v > (uint64_t)INT64_MAX) {
        if (!negative || v != (uint64_t)INT64_MAX + 1U) return 0;
        *value = INT64_MIN;
    } else {
        *value = negative ? -(int64_t)v : (int64_t)v;
    }
    return 1;
}

static int mti_rec_double(metatune_text text, double *value)
{
    size_t end;
    return metatune_number_read(text.p, text.n, value, &end) == METATUNE_OK
        && end == text.n;
}

/* "text" without its quotes. */
static int mti_rec_quoted(metatune_text raw, metatune_text *text)
{
    if (raw.n < 2U || raw.p[0] != '"') return 0;
    text->p = raw.p + 1;
    text->n = raw.n - 2U;
    return 1;
}

/* Exactly `digits` lower-case hex digits. */
static int mti_rec_hex_read(metatune_text text, size_t digits, uint64_t *value)
{
    uint64_t v = 0;
    size_t i;
    if (text.n != digits) return 0;
    for (i = 0; i < digits; i++) {
        int h = mti_rec_hex(text.p[i]);
        if (h < 0 || (text.p[i] >= 'A' && text.p[i] <= 'F')) return 0;
        v = (v << 4) | (uint64_t)h;
    }
    *value = v;
    return 1;
}

/* ---- fields, in the order they are written. A key of ours with an escape
   in it is not ours, and one that comes twice makes the line bad. ---- */

enum {
    MTI_REC_V, MTI_REC_KIND, MTI_REC_RUN, MTI_REC_SEED, MTI_REC_TRIAL,
    MTI_REC_BATCH, MTI_REC_TRIAL_KIND, MTI_REC_REPEAT, MTI_REC_ATTEMPT,
    MTI_REC_STRATEGY, MTI_REC_TASK, MTI_REC_TARGET, MTI_REC_LAYER,
    MTI_REC_KNOBS, MTI_REC_SPACE, MTI_REC_MODEL, MTI_REC_STATUS,
    MTI_REC_UNIT, MTI_REC_VALUE, MTI_REC_SAMPLES, MTI_REC_BUILD, MTI_REC_RUN_S,
    MTI_REC_THINK, MTI_REC_MEAN, MTI_REC_SIGMA, MTI_REC_TRIALS,
    MTI_REC_NAIVE, MTI_REC_DEFAULT, MTI_REC_PEAK, MTI_REC_GFLOP,
    MTI_REC_ERROR, MTI_REC_CRC, MTI_REC_FIELDS
};

static const char *mti_rec_name(int field)
{
    static const char *const name[MTI_REC_FIELDS] = {
        "v", "kind", "run", "seed", "trial", "batch", "trial_kind", "repeat",
        "attempt", "strategy", "task", "target", "layer", "knobs", "space",
        "model", "status", "unit", "value", "samples", "build_s", "run_s",
        "think_s", "mean", "sigma", "trials", "naive_s", "default_s",
        "peak_gflops", "gflop", "error", "crc"
    };
    return name[field];
}

static int mti_rec_field(metatune_text key)
{
    int i;
    for (i = 0; i < MTI_REC_FIELDS; i++)
        if (mti_rec_is(key, mti_rec_name(i))) return i;
    return -1;
}

/* Words of the enumerations; NULL past the end. */
static const char *mti_rec_kind_name(int32_t kind)
{
    static const char *const name[3] = { "trial", "task", "end" };
    return kind >= 0 && kind < 3 ? name[kind] : NULL;
}

static const char *mti_rec_trial_kind_name(int32_t kind)
{
    static const char *const name[2] = { "explore", "confirm" };
    return kind >= 0 && kind < 2 ? name[kind] : NULL;
}

static const char *mti_rec_unit_name(int32_t unit)
{
    static const char *const name[3] = { "seconds", "cycles", "instructions" };
    return unit >= 0 && unit < 3 ? name[unit] : NULL;
}

/* Numbers of the list may have gaps; it ends below 64. */
static const char *mti_rec_status_name(int32_t status)
{
    const char *name;
    if (status < 0 || status > 63) return NULL;
    name = metatune_encode_status_name((metatune_status)status);
    return name && strcmp(name, "UNKNOWN") != 0 ? name : NULL;
}

static int mti_rec_word(metatune_text raw, const char *(*name)(int32_t),
                        int32_t count, int32_t *value)
{
    metatune_text text;
    int32_t i;
    if (!mti_rec_quoted(raw, &text)) return 0;
    for (i = 0; i < count; i++) {
        const char *word = name(i);
        if (word && mti_rec_is(text, word)) {
            *value = i;
            return 1;
        }
    }
    return 0;
}

/* ---- encode ---- */

/* Counts past the end, so that a short buffer is noticed once. */
typedef struct mti_rec_out {
    char *buf;
    size_t cap, n;
} mti_rec_out;

static void mti_rec_put(mti_rec_out *out, const char *p, size_t n)
{
    if (n > SIZE_MAX - out->n) {
        out->n = SIZE_MAX;
        return;
    }
    if (n && out->n <= out->cap && n <= out->cap - out->n)
        memcpy(out->buf + out->n, p, n);
    out->n += n;
}

static void mti_rec_put_z(mti_rec_out *out, const char *z)
{
    mti_rec_put(out, z, strlen(z));
}

static void mti_rec_put_hex(mti_rec_out *out, uint64_t value, int digits)
{
    static const char hex[] = "0123456789abcdef";
    while (digits-- > 0)
        mti_rec_put(out, &hex[(value >> (4 * digits)) & 15U], 1);
}

static void mti_rec_put_text(mti_rec_out *out, const char *s, size_t n)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    size_t i = 0;
    mti_rec_put(out, "\"", 1);
    while (i < n) {
        uint32_t code = 0;
        size_t len = mti_rec_utf8(s + i, n - i, &code), k;
        for (k = 0; k < 7U && s[i] != plain[k]; k++) { }
        if (k < 7U) {
            mti_rec_put(out, "\\", 1);
            mti_rec_put(out, &letter[k], 1);
            i++;
        } else if (!len || code < 0x20U || code == 0x7FU) {
            mti_rec_put(out, "\\u", 2);
            mti_rec_put_hex(out, (unsigned char)s[i], 4);
            i++;
        } else {
            mti_rec_put(out, s + i, len);
            i += len;
        }
    }
    mti_rec_put(out, "\"", 1);
}

static void mti_rec_put_u64(mti_rec_out *out, uint64_t value)
{
    char text[20];
    mti_rec_put(out, text, (size_t)mti_num_digits(value, text));
}

static void mti_rec_put_i64(mti_rec_out *out, int64_t value)
{
    if (value < 0) mti_rec_put(out, "-", 1);
    mti_rec_put_u64(out, value < 0 ? 0U - (uint64_t)value : (uint64_t)value);
}

static void mti_rec_put_double(mti_rec_out *out, double value)
{
    char text[32];
    mti_rec_put(out, text, metatune_number_write(value, text, sizeof text));
}

static void mti_rec_put_key(mti_rec_out *out, int field)
{
    mti_rec_put_z(out, field == MTI_REC_V ? "{\"" : ",\"");
    mti_rec_put_z(out, mti_rec_name(field));
    mti_rec_put(out, "\":", 2);
}

static void mti_rec_put_word(mti_rec_out *out, int field, const char *word)
{
    mti_rec_put_key(out, field);
    mti_rec_put_text(out, word, strlen(word));
}

/* Left out when empty, unless it must be there. */
static void mti_rec_put_field(mti_rec_out *out, int field, metatune_text text,
                              int must)
{
    if (!text.n && !must) return;
    mti_rec_put_key(out, field);
    mti_rec_put_text(out, text.p, text.p ? text.n : 0U);
}

static void mti_rec_put_count(mti_rec_out *out, int field, uint64_t value)
{
    mti_rec_put_key(out, field);
    mti_rec_put_u64(out, value);
}

/* Left out when not a positive finite number: absent means unknown. */
static void mti_rec_put_amount(mti_rec_out *out, int field, double value)
{
    if (!mti_num_positive(value)) return;
    mti_rec_put_key(out, field);
    mti_rec_put_double(out, value);
}

/* Where to cut an error text: not inside a character. */
static size_t mti_rec_cut(metatune_text text, size_t most)
{
    uint32_t code;
    size_t back;
    if (!text.p) return 0;
    if (text.n <= most) return text.n;
    for (back = 1; back <= 3U && back <= most; back++) {
        size_t at = most - back;
        if (mti_rec_utf8(text.p + at, text.n - at, &code) > back) return at;
    }
    return most;
}

/* Members of a raw ,"x":... text that are not ours; 0 when malformed. */
static int mti_rec_put_unknown(mti_rec_out *out, metatune_text text)
{
    size_t i = 0, start;
    metatune_text key, value;
    while (i < text.n) {
        start = i;
        if (!mti_rec_char(text.p, text.n, &i, ',')) return 0;
        if (!mti_rec_key(text.p, text.n, &i, &key)
            || !mti_rec_value(text.p, text.n, &i, &value)) return 0;
        if (mti_rec_field(key) < 0)
            mti_rec_put(out, text.p + start, i - start);
    }
    return 1;
}

/* Index of a value in its knob, or n_values. */
static uint32_t mti_rec_index(const metatune_knob *knob, int64_t value)
{
    uint32_t i;
    for (i = 0; i < knob->n_values && knob->values[i] != value; i++) { }
    return i;
}

static metatune_status mti_rec_put_knobs(mti_rec_out *out,
                                         const metatune_record *record)
{
    uint32_t k;
    mti_rec_put_key(out, MTI_REC_KNOBS);
    if (!record->knobs && record->knobs_json.n) {
        metatune_text value;
        size_t i = 0;
        if (!record->knobs_json.p || record->knobs_json.p[0] != '{'
            || !mti_rec_value(record->knobs_json.p, record->knobs_json.n, &i,
                              &value)
            || i != record->knobs_json.n) return METATUNE_BAD_ARG;
        mti_rec_put(out, record->knobs_json.p, record->knobs_json.n);
        return METATUNE_OK;
    }
    mti_rec_put(out, "{", 1);
    for (k = 0; record->knobs && k < record->n_knobs; k++) {
        const metatune_knob *knob = &record->knobs[k];
        if (!record->values || !knob->name || !knob->values)
            return METATUNE_BAD_ARG;
        if (k) mti_rec_put(out, ",", 1);
        mti_rec_put_text(out, knob->name, strlen(knob->name));
        mti_rec_put(out, ":", 1);
        if (knob->labels) {
            uint32_t digit = mti_rec_index(knob, record->values[k]);
            if (digit == knob->n_values || !knob->labels[digit])
                return METATUNE_BAD_ARG;
            mti_rec_put_text(out, knob->labels[digit],
                             strlen(knob->labels[digit]));
        } else {
            mti_rec_put_i64(out, record->values[k]);
        }
    }
    mti_rec_put(out, "}", 1);
    return METATUNE_OK;
}

static size_t mti_rec_sum(size_t total, size_t n, size_t times)
{
    if (total == SIZE_MAX || n > (SIZE_MAX - 1U - total) / times)
        return SIZE_MAX;
    return total + n * times;
}

METATUNE_API size_t metatune_record_memsize(const metatune_record *record)
{
    /* keys, integers and hashes: under 900; 10 + 16 doubles of 25 */
    size_t total = 900U + 26U * 25U + 6U * METATUNE_RECORD_ERROR;
    uint32_t k, d;
    if (!record) return 0;
    total = mti_rec_sum(total, record->run.n, 6);
    total = mti_rec_sum(total, record->task.n, 6);
    total = mti_rec_sum(total, record->target.n, 6);
    total = mti_rec_sum(total, record->strategy.n, 6);
    total = mti_rec_sum(total, record->layer.n, 6);
    total = mti_rec_sum(total, record->knobs_json.n, 1);
    total = mti_rec_sum(total, record->unknown.n, 1);
    for (k = 0; record->knobs && k < record->n_knobs; k++) {
        const metatune_knob *knob = &record->knobs[k];
        size_t longest = 4; /* 6 * 4 > an int64 */
        for (d = 0; knob->labels && d < knob->n_values; d++) {
            size_t n = knob->labels[d] ? strlen(knob->labels[d]) : 0U;
            if (n > longest) longest = n;
        }
        total = mti_rec_sum(total, knob->name ? strlen(knob->name) : 0U, 6);
        total = mti_rec_sum(total, longest, 6);
        total = mti_rec_sum(total, 6, 1);
    }
    return total == SIZE_MAX ? 0U : total;
}

METATUNE_API metatune_status
metatune_record_encode(const metatune_record *record, char *buf, size_t cap,
                       size_t *n)
{
    mti_rec_out out;
    metatune_text error;
    const char *kind, *status, *unit, *trial_kind;
    int trial, ok;
    uint32_t i;
    if (n) *n = 0;
    if (!record || !buf || !n) return METATUNE_BAD_ARG;
    out.buf = buf;
    out.cap = cap;
    out.n = 0;
    kind = mti_rec_kind_name(record->kind);
    status = mti_rec_status_name((int32_t)record->status);
    unit = mti_rec_unit_name(record->unit);
    trial_kind = mti_rec_trial_kind_name(record->trial_kind);
    if (!kind || !status || !unit || !trial_kind) return METATUNE_BAD_ARG;
    if (record->n_samples > METATUNE_RECORD_SAMPLES) return METATUNE_BAD_ARG;
    if (record->unknown.n && !record->unknown.p) return METATUNE_BAD_ARG;
    trial = record->kind == METATUNE_RECORD_TRIAL;
    ok = record->status == METATUNE_OK;
    if (trial && !ok && (int32_t)record->status > (int32_t)METATUNE_NOT_RUN)
        return METATUNE_BAD_ARG;
    if (trial && ok) {
        if (!mti_num_finite(record->value)) return METATUNE_NOT_FINITE;
        if (!mti_num_positive(record->value)) return METATUNE_BAD_ARG;
        for (i = 0; i < record->n_samples; i++)
            if (!mti_num_finite(record->samples[i]))
                return METATUNE_NOT_FINITE;
    }

    mti_rec_put_count(&out, MTI_REC_V, METATUNE_RECORD_VERSION);
    mti_rec_put_word(&out, MTI_REC_KIND, kind);
    mti_rec_put_field(&out, MTI_REC_RUN, record->run, 0);
    mti_rec_put_count(&out, MTI_REC_SEED, record->seed);
    if (trial) {
        mti_rec_put_count(&out, MTI_REC_TRIAL, record->trial);
        mti_rec_put_count(&out, MTI_REC_BATCH, record->batch);
        mti_rec_put_word(&out, MTI_REC_TRIAL_KIND, trial_kind);
        mti_rec_put_count(&out, MTI_REC_REPEAT, record->repeat);
        if (record->attempt)
            mti_rec_put_count(&out, MTI_REC_ATTEMPT, record->attempt);
    }
    mti_rec_put_field(&out, MTI_REC_STRATEGY, record->strategy, 0);
    mti_rec_put_field(&out, MTI_REC_TASK, record->task, 1);
    mti_rec_put_field(&out, MTI_REC_TARGET, record->target, 1);
    mti_rec_put_field(&out, MTI_REC_LAYER, record->layer, 0);
    if (trial || record->knobs || record->knobs_json.n) {
        metatune_status bad = mti_rec_put_knobs(&out, record);
        if (bad != METATUNE_OK) return bad;
    }
    mti_rec_put_key(&out, MTI_REC_SPACE);
    mti_rec_put(&out, "\"", 1);
    mti_rec_put_hex(&out, record->space, 16);
    mti_rec_put(&out, "\"", 1);
    mti_rec_put_key(&out, MTI_REC_MODEL);
    mti_rec_put(&out, "\"", 1);
    mti_rec_put_hex(&out, record->model, 16);
    mti_rec_put(&out, "\"", 1);
    mti_rec_put_word(&out, MTI_REC_STATUS, status);
    mti_rec_put_word(&out, MTI_REC_UNIT, unit);
    /* a failed trial has no number at all, so that none can be minimised */
    if (!trial || ok)
        mti_rec_put_amount(&out, MTI_REC_VALUE, record->value);
    if (trial && ok && record->n_samples) {
        mti_rec_put_key(&out, MTI_REC_SAMPLES);
        for (i = 0; i < record->n_samples; i++) {
            mti_rec_put(&out, i ? "," : "[", 1);
            mti_rec_put_double(&out, record->samples[i]);
        }
        mti_rec_put(&out, "]", 1);
    }
    mti_rec_put_amount(&out, MTI_REC_BUILD, record->build_s);
    mti_rec_put_amount(&out, MTI_REC_RUN_S, record->run_s);
    mti_rec_put_amount(&out, MTI_REC_THINK, record->think_s);
    if (record->predicted && mti_num_finite(record->mean)
        && mti_num_finite(record->sigma)) {
        mti_rec_put_key(&out, MTI_REC_MEAN);
        mti_rec_put_double(&out, record->mean);
        mti_rec_put_key(&out, MTI_REC_SIGMA);
        mti_rec_put_double(&out, record->sigma);
    }
    if (record->kind == METATUNE_RECORD_END)
        mti_rec_put_count(&out, MTI_REC_TRIALS, record->trials);
    mti_rec_put_amount(&out, MTI_REC_NAIVE, record->naive_s);
    mti_rec_put_amount(&out, MTI_REC_DEFAULT, record->default_s);
    mti_rec_put_amount(&out, MTI_REC_PEAK, record->peak_gflops);
    mti_rec_put_amount(&out, MTI_REC_GFLOP, record->gflop);
    error = record->error;
    error.n = mti_rec_cut(error, METATUNE_RECORD_ERROR);
    mti_rec_put_field(&out, MTI_REC_ERROR, error, 0);
    if (!mti_rec_put_unknown(&out, record->unknown)) return METATUNE_BAD_ARG;

    if (out.n > cap) return METATUNE_NO_MEMORY;
    {
        uint32_t crc = metatune_crc32(0, buf, out.n);
        mti_rec_put_key(&out, MTI_REC_CRC);
        mti_rec_put(&out, "\"", 1);
        mti_rec_put_hex(&out, crc, 8);
        mti_rec_put(&out, "\"}\n", 4); /* and the NUL */
    }
    if (out.n > cap) return METATUNE_NO_MEMORY;
    *n = out.n - 1U;
    return METATUNE_OK;
}

/* ---- decode ---- */

#define MTI_REC_TAIL 18 /* ,"crc":"01234567"} */

/* Without a BOM, NULs (a padded file) and blanks before, "\r\n" after. */
static metatune_text mti_rec_trim(const char *line, size_t n)
{
    metatune_text text;
    size_t i = 0;
    if (n && line[n - 1U] == '\n') n--;
    while (n && (line[n - 1U] == '\r' || !line[n - 1U])) n--;
    for (;;) {
        if (n - i >= 3U && memcmp(line + i, "\xEF\xBB\xBF", 3) == 0) i += 3U;
        else if (i < n && (!line[i] || line[i] == ' ' || line[i] == '\t')) i++;
        else break;
    }
    text.p = line + i;
    text.n = n - i;
    return text;
}

static int mti_rec_samples(metatune_text raw, metatune_record *record)
{
    size_t i = 0;
    metatune_text item;
    double x;
    record->n_samples = 0;
    if (!mti_rec_char(raw.p, raw.n, &i, '[')) return 0;
    if (mti_rec_char(raw.p, raw.n, &i, ']')) return 1;
    do {
        if (!mti_rec_value(raw.p, raw.n, &i, &item)
            || !mti_rec_double(item, &x)) return 0;
        if (record->n_samples < METATUNE_RECORD_SAMPLES)
            record->samples[record->n_samples++] = x;
    } while (mti_rec_char(raw.p, raw.n, &i, ','));
    return 1;
}

static int mti_rec_take(int field, metatune_text raw, metatune_record *r)
{
    metatune_text text;
    int32_t status;
    switch (field) {
    case MTI_REC_KIND:
        return mti_rec_word(raw, mti_rec_kind_name, 3, &r->kind);
    case MTI_REC_RUN: return mti_rec_quoted(raw, &r->run);
    case MTI_REC_SEED: return mti_rec_u64(raw, &r->seed);
    case MTI_REC_TRIAL: return mti_rec_u64(raw, &r->trial);
    case MTI_REC_BATCH: return mti_rec_u32(raw, &r->batch);
    case MTI_REC_TRIAL_KIND:
        return mti_rec_word(raw, mti_rec_trial_kind_name, 2, &r->trial_kind);
    case MTI_REC_REPEAT: return mti_rec_u32(raw, &r->repeat);
    case MTI_REC_ATTEMPT: return mti_rec_u32(raw, &r->attempt);
    case MTI_REC_STRATEGY: return mti_rec_quoted(raw, &r->strategy);
    case MTI_REC_TASK: return mti_rec_quoted(raw, &r->task);
    case MTI_REC_TARGET: return mti_rec_quoted(raw, &r->target);
    case MTI_REC_LAYER: return mti_rec_quoted(raw, &r->layer);
    case MTI_REC_KNOBS:
        r->knobs_json = raw;
        return raw.p[0] == '{';
    case MTI_REC_SPACE:
        return mti_rec_quoted(raw, &text)
            && mti_rec_hex_read(text, 16, &r->space);
    case MTI_REC_MODEL:
        return mti_rec_quoted(raw, &text)
            && mti_rec_hex_read(text, 16, &r->model);
    case MTI_REC_STATUS:
        if (!mti_rec_word(raw, mti_rec_status_name, 64, &status)) return 0;
        r->status = (metatune_status)status;
        return 1;
    case MTI_REC_UNIT:
        return mti_rec_word(raw, mti_rec_unit_name, 3, &r->unit);
    case MTI_REC_VALUE: return mti_rec_double(raw, &r->value);
    case MTI_REC_SAMPLES: return mti_rec_samples(raw, r);
    case MTI_REC_BUILD: return mti_rec_double(raw, &r->build_s);
    case MTI_REC_RUN_S: return mti_rec_double(raw, &r->run_s);
    case MTI_REC_THINK: return mti_rec_double(raw, &r->think_s);
    case MTI_REC_MEAN: return mti_rec_double(raw, &r->mean);
    case MTI_REC_SIGMA: return mti_rec_double(raw, &r->sigma);
    case MTI_REC_TRIALS: return mti_rec_u64(raw, &r->trials);
    case MTI_REC_NAIVE: return mti_rec_double(raw, &r->naive_s);
    case MTI_REC_DEFAULT: return mti_rec_double(raw, &r->default_s);
    case MTI_REC_PEAK: return mti_rec_double(raw, &r->peak_gflops);
    case MTI_REC_GFLOP: return mti_rec_double(raw, &r->gflop);
    case MTI_REC_ERROR: return mti_rec_quoted(raw, &r->error);
    default: return 0; /* "v" again, "crc" before the end */
    }
}

#define MTI_REC_BIT(field) ((uint32_t)1 << (field))

/* After a refusal record->version tells a line of a later version (> 1) from
   one that is torn, foreign or corrupt (0 or 1). */
METATUNE_API metatune_status
metatune_record_decode(const char *line, size_t n, metatune_record *record)
{
    const char *s;
    metatune_text text, key, value;
    uint64_t crc;
    uint32_t version, seen = MTI_REC_BIT(MTI_REC_V), need;
    size_t i = 0, end;
    if (!record) return METATUNE_BAD_ARG;
    memset(record, 0, sizeof *record);
    if (!line) return METATUNE_BAD_ARG;
    text = mti_rec_trim(line, n);
    s = text.p;
    if (!mti_rec_char(s, text.n, &i, '{')
        || !mti_rec_key(s, text.n, &i, &key) || !mti_rec_is(key, "v")
        || !mti_rec_value(s, text.n, &i, &value)
        || !mti_rec_u32(value, &version) || version > (uint32_t)INT32_MAX)
        return METATUNE_BAD_RECORD;
    record->version = (int32_t)version;
    if (record->version != METATUNE_RECORD_VERSION) return METATUNE_BAD_RECORD;

    if (text.n < MTI_REC_TAIL || i > text.n - MTI_REC_TAIL)
        return METATUNE_BAD_RECORD;
    end = text.n - MTI_REC_TAIL;
    value.p = s + end + 8;
    value.n = 8;
    if (memcmp(s + end, ",\"crc\":\"", 8) != 0
        || memcmp(s + end + 16, "\"}", 2) != 0
        || !mti_rec_hex_read(value, 8, &crc)
        || crc != metatune_crc32(0, s, end)) return METATUNE_BAD_RECORD;

    while (i < end) {
        size_t start = i;
        int field;
        if (!mti_rec_char(s, end, &i, ',') || !mti_rec_key(s, end, &i, &key)
            || !mti_rec_value(s, end, &i, &value)) return METATUNE_BAD_RECORD;
        field = mti_rec_field(key);
        if (field < 0) {
            /* from the first to the last; encode leaves ours between out */
            if (!record->unknown.p) record->unknown.p = s + start;
            record->unknown.n = (size_t)(s + i - record->unknown.p);
        } else if ((seen & MTI_REC_BIT(field))
                   || !mti_rec_take(field, value, record)) {
            return METATUNE_BAD_RECORD;
        } else {
            seen |= MTI_REC_BIT(field);
        }
        mti_rec_space(s, end, &i);
    }

    need = MTI_REC_BIT(MTI_REC_KIND) | MTI_REC_BIT(MTI_REC_TASK);
    if (record->kind == METATUNE_RECORD_END)
        need |= MTI_REC_BIT(MTI_REC_STATUS);
    if (record->kind == METATUNE_RECORD_TRIAL)
        need |= MTI_REC_BIT(MTI_REC_TRIAL) | MTI_REC_BIT(MTI_REC_TARGET)
            | MTI_REC_BIT(MTI_REC_KNOBS) | MTI_REC_BIT(MTI_REC_SPACE)
            | MTI_REC_BIT(MTI_REC_STATUS) | MTI_REC_BIT(MTI_REC_UNIT);
    if ((seen & need) != need) return METATUNE_BAD_RECORD;
    need = MTI_REC_BIT(MTI_REC_MEAN) | MTI_REC_BIT(MTI_REC_SIGMA);
    record->predicted = (seen & need) == need;
    if (record->kind == METATUNE_RECORD_TRIAL) {
        if ((int32_t)record->status > (int32_t)METATUNE_NOT_RUN)
            return METATUNE_BAD_RECORD;
        if (record->status != METATUNE_OK) {
            record->value = 0.0; /* a sentinel must not become the optimum */
            record->n_samples = 0;
        } else if (!mti_num_positive(record->value)) {
            return METATUNE_BAD_RECORD;
        }
    }
    return METATUNE_OK;
}

METATUNE_API metatune_status
metatune_record_values(const metatune_record *record,
                       const metatune_knob *knobs, uint32_t n_knobs,
                       int64_t *values)
{
    uint64_t seen = 0;
    uint32_t count = 0, k;
    metatune_text json, key, raw, text;
    size_t i = 0;
    if (!record || !knobs || !values || n_knobs > METATUNE_MAX_KNOBS)
        return METATUNE_BAD_ARG;
    json = record->knobs_json;
    if (!json.p || !mti_rec_char(json.p, json.n, &i, '{'))
        return METATUNE_NOT_FOUND;
    if (mti_rec_char(json.p, json.n, &i, '}'))
        return n_knobs ? METATUNE_NOT_FOUND : METATUNE_OK;
    do {
        const metatune_knob *knob;
        uint32_t digit = 0;
        if (!mti_rec_key(json.p, json.n, &i, &key)
            || !mti_rec_value(json.p, json.n, &i, &raw))
            return METATUNE_NOT_FOUND;
        for (k = 0; k < n_knobs; k++)
            if (knobs[k].name && mti_rec_says_z(key, knobs[k].name)) break;
        if (k == n_knobs || (seen & ((uint64_t)1 << k)))
            return METATUNE_NOT_FOUND;
        seen |= (uint64_t)1 << k;
        count++;
        knob = &knobs[k];
        if (!knob->values) return METATUNE_BAD_ARG;
        /* a number for a knob that has labels now, or the reverse, is from
           another space even if it happens to be in range */
        if (knob->labels) {
            if (!mti_rec_quoted(raw, &text)) return METATUNE_NOT_FOUND;
            while (digit < knob->n_values
                   && !(knob->labels[digit]
                        && mti_rec_says_z(text, knob->labels[digit]))) digit++;
        } else {
            int64_t value;
            if (!mti_rec_i64(raw, &value)) return METATUNE_NOT_FOUND;
            digit = mti_rec_index(knob, value);
        }
        if (digit == knob->n_values) return METATUNE_NOT_FOUND;
        values[k] = knob->values[digit];
    } while (mti_rec_char(json.p, json.n, &i, ','));
    if (!mti_rec_char(json.p, json.n, &i, '}')) return METATUNE_NOT_FOUND;
    return count == n_knobs ? METATUNE_OK : METATUNE_NOT_FOUND;
}

/* ---- logs ---- */

METATUNE_API size_t metatune_log_lines(const char *bytes, size_t n)
{
    size_t lines = 0, i;
    if (!bytes || !n) return 0;
    for (i = 0; i < n; i++)
        if (bytes[i] == '\n') lines++;
    return lines + (bytes[n - 1U] != '\n' ? 1U : 0U);
}

/* Only blanks, CR and BOMs. NULs are damage, not a blank line. */
static int mti_rec_blank(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n) {
        char c = line[i];
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') i++;
        else if (n - i >= 3U && memcmp(line + i, "\xEF\xBB\xBF", 3) == 0)
            i += 3U;
        else return 0;
    }
    return 1;
}

METATUNE_API metatune_status
metatune_log_next(const char *bytes, size_t n, size_t *pos,
                  metatune_record *record)
{
    static const char head[] = "{\"v\":";
    if (!pos || !record) return METATUNE_BAD_ARG;
    memset(record, 0, sizeof *record);
    if (!bytes) return n ? METATUNE_BAD_ARG : METATUNE_NOT_FOUND;
    while (*pos < n) {
        const char *line = bytes + *pos;
        size_t left = n - *pos, len, k;
        const char *end = (const char *)memchr(line, '\n', left);
        len = end ? (size_t)(end - line) + 1U : left;
        if (mti_rec_blank(line, len)) {
            *pos += len;
            continue;
        }
        if (end && metatune_record_decode(line, len, record) == METATUNE_OK) {
            *pos += len;
            return METATUNE_OK;
        }
        /* A record glued to a torn one (an append without a new line, two
           writers): the last head in the line begins the next line. No good
           line holds one inside, its quotes would be escaped. */
        k = 0;
        if (end && record->version <= METATUNE_RECORD_VERSION)
            for (k = len > 5U ? len - 5U : 0U; k > 0; k--)
                if (memcmp(line + k, head, 5) == 0) break;
        if (k && mti_rec_trim(line, k).n == 0) k = 0;
        *pos += k ? k : len;
        return METATUNE_BAD_RECORD;
    }
    return METATUNE_NOT_FOUND;
}

/* ---- history. Entries 0..sorted-1 are in order, one a key; the tail behind
   them is in the order of the log. While reading, `attempt` of a tail entry
   holds its place in the log above bit 0, which makes an in-place sort
   stable. ---- */

METATUNE_API size_t metatune_history_memsize(size_t cap)
{
    if (!cap || cap > SIZE_MAX / sizeof(metatune_history_entry)
        || cap > 0x7FFFFFFEU) return 0;
    return cap * sizeof(metatune_history_entry);
}

METATUNE_API metatune_status
metatune_history_init(metatune_history *history, size_t cap, void *mem,
                      size_t bytes)
{
    size_t want = metatune_history_memsize(cap);
    if (!history) return METATUNE_BAD_ARG;
    memset(history, 0, sizeof *history);
    if (!want) return cap ? METATUNE_OVERFLOW : METATUNE_BAD_ARG;
    if (!mem || bytes < want || ((uintptr_t)mem & 7U))
        return METATUNE_NO_MEMORY;
    history->entries = (metatune_history_entry *)mem;
    history->cap = cap;
    return METATUNE_OK;
}

static int mti_rec_order(const metatune_history_entry *a, uint64_t hash,
                         int32_t kind, uint32_t repeat)
{
    if (a->hash != hash) return a->hash < hash ? -1 : 1;
    if (a->kind != kind) return a->kind < kind ? -1 : 1;
    if (a->repeat != repeat) return a->repeat < repeat ? -1 : 1;
    return 0;
}

static int mti_rec_less(const metatune_history_entry *a,
                        const metatune_history_entry *b)
{
    int order = mti_rec_order(a, b->hash, b->kind, b->repeat);
    return order ? order < 0 : a->attempt < b->attempt;
}

static void mti_rec_sift(metatune_history_entry *e, size_t root, size_t n)
{
    metatune_history_entry moved = e[root];
    size_t child;
    while ((child = 2U * root + 1U) < n) {
        if (child + 1U < n && mti_rec_less(&e[child], &e[child + 1U])) child++;
        if (!mti_rec_less(&moved, &e[child])) break;
        e[root] = e[child];
        root = child;
    }
    e[root] = moved;
}

/* A newer entry of the same key. Two losses of the device in a row show as
   attempt 1, whether or not the second line says so. */
static void mti_rec_merge(metatune_history_entry *old,
                          const metatune_history_entry *newer)
{
    int lost = old->status == METATUNE_DEVICE_LOST;
    *old = *newer;
    old->attempt &= 1U;
    if (lost && old->status == METATUNE_DEVICE_LOST) old->attempt = 1;
}

/* Sort all, keep the newest of each key. */
static void mti_rec_seal(metatune_history *history)
{
    metatune_history_entry *e = history->entries, swap;
    size_t n = history->n, i, kept, from;
    for (i = n / 2U; i > 0; i--) mti_rec_sift(e, i - 1U, n);
    for (i = n; i > 1U; i--) {
        swap = e[0];
        e[0] = e[i - 1U];
        e[i - 1U] = swap;
        mti_rec_sift(e, 0, i - 1U);
    }
    for (i = 0, kept = 0; i < n; i++) {
        if (kept && !mti_rec_order(&e[kept - 1U], e[i].hash, e[i].kind,
                                   e[i].repeat)) {
            mti_rec_merge(&e[kept - 1U], &e[i]);
        } else {
            e[kept] = e[i];
            e[kept++].attempt &= 1U;
        }
    }
    history->n = kept;
    /* losses of one setting in different trials (confirm runs) add up */
    for (from = 0; from < kept; from = i) {
        uint32_t lost = 0;
        for (i = from; i < kept && e[i].hash == e[from].hash; i++)
            if (e[i].status == METATUNE_DEVICE_LOST) lost += 1U + e[i].attempt;
        if (lost < 2U) continue;
        for (i = from; i < kept && e[i].hash == e[from].hash; i++)
            if (e[i].status == METATUNE_DEVICE_LOST) e[i].attempt = 1;
    }
}

/* Where the key is among the first n entries; n when it is not. */
static size_t mti_rec_search(const metatune_history_entry *e, size_t n,
                             uint64_t hash, int32_t kind, uint32_t repeat)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2U;
        if (mti_rec_order(&e[mid], hash, kind, repeat) < 0) low = mid + 1U;
        else high = mid;
    }
    return low < n && !mti_rec_order(&e[low], hash, kind, repeat) ? low : n;
}

METATUNE_API metatune_status
metatune_history_read(metatune_history *history,
                      const metatune_problem *problem, const char *bytes,
                      size_t n)
{
    metatune_status status, result = METATUNE_OK;
    metatune_record record;
    metatune_history_entry entry;
    int64_t values[METATUNE_MAX_KNOBS];
    uint16_t digits[METATUNE_MAX_KNOBS];
    size_t pos = 0, sorted, at;
    uint32_t place = 0;
    uint64_t space;
    if (!history || !history->entries || !problem || !problem->knobs
        || !problem->n_knobs || problem->n_knobs > METATUNE_MAX_KNOBS
        || (n && !bytes)) return METATUNE_BAD_ARG;
    space = metatune_space_hash(problem->knobs, problem->n_knobs);
    sorted = history->n;
    while ((status = metatune_log_next(bytes, n, &pos, &record))
           != METATUNE_NOT_FOUND) {
        if (status != METATUNE_OK) {
            if (record.version > METATUNE_RECORD_VERSION) history->n_foreign++;
            else history->n_bad++;
            continue;
        }
        if (!mti_rec_says_z(record.task, problem->task)
            || !mti_rec_says_z(record.target, problem->target)
            || record.space != space || record.unit != problem->unit) {
            history->n_foreign++;
            continue;
        }
        if (record.kind == METATUNE_RECORD_END) history->ended = 1;
        if (record.kind != METATUNE_RECORD_TRIAL
            || record.status == METATUNE_NOT_RUN
            || record.status == METATUNE_CANCELLED) continue;
        if (metatune_record_values(&record, problem->knobs, problem->n_knobs,
                                   values) != METATUNE_OK
            || metatune_space_digits(problem->knobs, problem->n_knobs, values,
                                     digits) != METATUNE_OK) {
            history->n_lost++;
            continue;
        }
        entry.hash = metatune_setting_hash(digits, problem->n_knobs);
        entry.kind = record.trial_kind;
        entry.repeat = record.repeat;
        entry.attempt = record.attempt ? 1U : 0U;
        entry.status = record.status;
        entry.value = record.value;
        entry.build_s = record.build_s;
        entry.run_s = record.run_s;
        entry.same[0] = entry.same[1] = 0;
        for (at = 1; at < record.n_samples; at++)
            if (record.samples[at] < record.samples[0]
                || record.samples[at] > record.samples[0]) break;
        if (record.n_samples >= 2 && at == record.n_samples)
            entry.same[0] = entry.same[1] = record.samples[0];
        at = mti_rec_search(history->entries, sorted, entry.hash, entry.kind,
                            entry.repeat);
        if (at == sorted && history->n == history->cap && history->n > sorted) {
            mti_rec_seal(history); /* perhaps older ones make room */
            sorted = history->n;
            place = 0;
            at = mti_rec_search(history->entries, sorted, entry.hash,
                                entry.kind, entry.repeat);
        }
        if (at < sorted) {
            mti_rec_merge(&history->entries[at], &entry);
        } else if (history->n < history->cap) {
            entry.attempt |= ++place << 1;
            history->entries[history->n++] = entry;
        } else {
            result = METATUNE_CAPACITY;
        }
    }
    mti_rec_seal(history);
    return result;
}

METATUNE_API const metatune_history_entry *
metatune_history_find(const metatune_history *history, uint64_t hash,
                      int32_t kind, uint32_t repeat)
{
    size_t at;
    if (!history || !history->entries) return NULL;
    at = mti_rec_search(history->entries, history->n, hash, kind, repeat);
    return at < history->n ? &history->entries[at] : NULL;
}

#undef MTI_NUM_WORDS
#undef MTI_NUM_DIGITS
#undef MTI_REC_DEPTH
#undef MTI_REC_TAIL
#undef MTI_REC_BIT
#endif /* METATUNE_NO_RECORDS */

/* ------------------------------------------------------------ [M-LOOKUP] */
#ifndef METATUNE_NO_LOOKUP

/* The fields that make a shape, those that forbid sharing a setting first;
   explain names them in this order. */
typedef struct mti_look_field {
    const char *name;
    size_t at;
} mti_look_field;

#define MTI_LOOK_FIELDS 21
#define MTI_LOOK_F(name, field) {name, offsetof(metatune_encode_conv2d, field)}
static const mti_look_field mti_look_fields[MTI_LOOK_FIELDS] = {
    MTI_LOOK_F("in", dtype_in),
    MTI_LOOK_F("out", dtype_out),
    MTI_LOOK_F("acc", dtype_acc),
    MTI_LOOK_F("layout", layout),
    MTI_LOOK_F("block", block),
    MTI_LOOK_F("groups", groups),
    MTI_LOOK_F("n", n),
    MTI_LOOK_F("c", c),
    MTI_LOOK_F("h", h),
    MTI_LOOK_F("w", w),
    MTI_LOOK_F("k", k),
    MTI_LOOK_F("r", r),
    MTI_LOOK_F("s", s),
    MTI_LOOK_F("stride_h", stride_h),
    MTI_LOOK_F("stride_w", stride_w),
    MTI_LOOK_F("pad_top", pad_top),
    MTI_LOOK_F("pad_bottom", pad_bottom),
    MTI_LOOK_F("pad_left", pad_left),
    MTI_LOOK_F("pad_right", pad_right),
    MTI_LOOK_F("dil_h", dil_h),
    MTI_LOOK_F("dil_w", dil_w)
};
#define MTI_LOOK_N (6)           /* index of "n": before it, what forbids */

static int32_t mti_look_get(const metatune_encode_conv2d *conv, int i)
{
    int32_t x;
    memcpy(&x, (const char *)conv + mti_look_fields[i].at, sizeof x);
    return x;
}

/* One, depthwise, or other. */
static int mti_look_groups(const metatune_encode_conv2d *v)
{
    return v->groups == 1 ? 0 : v->groups == v->c ? 1 : 2;
}

/* First field that differs, MTI_LOOK_FIELDS for `fused`, or -1. */
static int mti_look_differs(const metatune_encode_conv2d *a,
                            const metatune_encode_conv2d *b)
{
    int i;
    for (i = 0; i < MTI_LOOK_FIELDS; i++) {
        /* a depthwise shape with other channels differs in its channels */
        if (i == MTI_LOOK_N - 1 && mti_look_groups(a) == 1 &&
            mti_look_groups(b) == 1)
            continue;
        if (mti_look_get(a, i) != mti_look_get(b, i))
            return i;
    }
    return a->fused == b->fused ? -1 : MTI_LOOK_FIELDS;
}

METATUNE_API uint64_t
metatune_lookup_conv_key(const metatune_encode_conv2d *conv)
{
    uint64_t h = (uint64_t)(uint32_t)conv->fused;
    int i;
    /* splitmix64's mix after each field: fast, the same everywhere */
    for (i = 0; i < MTI_LOOK_FIELDS; i++) {
        h = (h ^ (uint32_t)mti_look_get(conv, i)) + 0x9e3779b97f4a7c15u;
        h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 27;
    }
    h *= 0x94d049bb133111ebu;
    h ^= h >> 31;
    return h ? h : 1;
}

METATUNE_API uint64_t metatune_lookup_text_key(const char *text)
{
    uint64_t h = text ? metatune_encode_hash(0, text, strlen(text)) : 0;
    return h ? h : 1;
}

/* log2 of x >= 1 as 2^23 times (exponent + fraction): the bits of a float are
   just that. Differences of it are the distance. */
static int32_t mti_look_log(int32_t x, float plus)
{
    float f = (float)x + plus;
    int32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static int64_t mti_look_gap(int32_t log_a, int32_t b, int64_t weight)
{
    int64_t d = (int64_t)log_a - mti_look_log(b, 0);
    return weight * (d < 0 ? -d : d);
}

/* Logarithms of what is asked, once. Weights are quarters: MTI_LOOK_ONE is an
   octave of weight 1. */
#define MTI_LOOK_ONE (4.0 * 8388608.0)
typedef struct mti_look_asked {
    const metatune_encode_conv2d *conv;
    int32_t n, c, h, w, k, groups, kind;
} mti_look_asked;

static void mti_look_ask(mti_look_asked *q, const metatune_encode_conv2d *v)
{
    q->conv = v;
    q->n = mti_look_log(v->n, 0);
    q->c = mti_look_log(v->c, 0);
    q->h = mti_look_log(v->h, 0);
    q->w = mti_look_log(v->w, 0);
    q->k = mti_look_log(v->k, 0);
    q->groups = mti_look_log(v->groups, 0);
    q->kind = mti_look_groups(v);
}

static int64_t mti_look_pair(int32_t a, int32_t b, float plus,
                             int64_t weight)
{
    int64_t d;
    if (a == b)
        return 0;
    d = (int64_t)mti_look_log(a, plus) - mti_look_log(b, plus);
    return weight * (d < 0 ? -d : d);
}

/* 0: same kernel size; 1: another one; 2: never to be used. */
static int mti_look_tier(const mti_look_asked *q,
                         const metatune_encode_conv2d *b)
{
    const metatune_encode_conv2d *a = q->conv;
    if (a->dtype_in != b->dtype_in || a->dtype_out != b->dtype_out ||
        a->dtype_acc != b->dtype_acc || a->layout != b->layout ||
        a->block != b->block || q->kind != mti_look_groups(b))
        return 2;
    return a->r != b->r || a->s != b->s;
}

/* Distance, or anything >= limit when it is no less than limit. */
static int64_t mti_look_distance(const mti_look_asked *q,
                                 const metatune_encode_conv2d *b,
                                 int64_t limit)
{
    const metatune_encode_conv2d *a = q->conv;
    uint32_t fused = (uint32_t)a->fused ^ (uint32_t)b->fused;
    int64_t d = mti_look_gap(q->c, b->c, 4) + mti_look_gap(q->k, b->k, 4);
    if (d >= limit)
        return d;
    d += mti_look_gap(q->h, b->h, 2) + mti_look_gap(q->w, b->w, 2);
    if (d >= limit)
        return d;
    d += mti_look_gap(q->n, b->n, 4);
    if (q->kind == 2)
        d += mti_look_gap(q->groups, b->groups, 4);
    d += mti_look_pair(a->r, b->r, 0, 8) + mti_look_pair(a->s, b->s, 0, 8);
    d += mti_look_pair(a->stride_h, b->stride_h, 0, 8);
    d += mti_look_pair(a->stride_w, b->stride_w, 0, 8);
    d += mti_look_pair(a->dil_h, b->dil_h, 0, 8);
    d += mti_look_pair(a->dil_w, b->dil_w, 0, 8);
    if (a->pad_top != b->pad_top || a->pad_bottom != b->pad_bottom ||
        a->pad_left != b->pad_left || a->pad_right != b->pad_right)
        d += mti_look_pair(a->pad_top, b->pad_top, 1, 1) +
             mti_look_pair(a->pad_bottom, b->pad_bottom, 1, 1) +
             mti_look_pair(a->pad_left, b->pad_left, 1, 1) +
             mti_look_pair(a->pad_right, b->pad_right, 1, 1);
    for (; fused; fused &= fused - 1)
        d += (int64_t)1 << 24;   /* half an octave */
    return d;
}

/* What find must not stumble over in a table that nobody checked. */
static int mti_look_usable(const metatune_lookup_row *row)
{
    return row->values && row->conv.n > 0;
}

/* First row whose key is not below; with no keys, the first row. */
static uint32_t mti_look_first(const metatune_lookup_table *t, uint64_t key)
{
    uint32_t low = 0, high = t->n_rows;
    if (!t->n_rows || !t->rows[0].key)
        return 0;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (t->rows[mid].key < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int mti_look_likes(const metatune_lookup_table *t,
                          const metatune_encode_conv2d *conv,
                          const int64_t *values,
                          metatune_lookup_valid_fn valid, void *user,
                          metatune_lookup_result *r)
{
    if (!valid || valid(user, t, conv, values))
        return 1;
    r->n_refused++;
    return 0;
}

static metatune_status mti_look_take(const metatune_lookup_table *t,
                                     uint32_t row, int32_t which,
                                     int64_t distance,
                                     metatune_lookup_result *r)
{
    r->which = which;
    r->row = (int32_t)row;
    r->distance = (double)distance / MTI_LOOK_ONE;
    r->values = t->rows[row].values;
    r->value = t->rows[row].value;
    return METATUNE_OK;
}

static metatune_status mti_look_default(const metatune_lookup_table *t,
                                        const metatune_encode_conv2d *conv,
                                        metatune_lookup_valid_fn valid,
                                        void *user,
                                        metatune_lookup_result *r)
{
    if (!t->default_values ||
        !mti_look_likes(t, conv, t->default_values, valid, user, r))
        return METATUNE_NOT_FOUND;
    r->which = METATUNE_LOOKUP_DEFAULT;
    r->values = t->default_values;
    return METATUNE_OK;
}

/* What both kinds of find begin with: OK to go on. */
static metatune_status mti_look_begin(const metatune_lookup_table *t,
                                      const char *target, uint32_t flags,
                                      metatune_lookup_result *r)
{
    if (!r)
        return METATUNE_BAD_ARG;
    memset(r, 0, sizeof *r);
    r->row = -1;
    if (!t || (t->n_rows && !t->rows) || t->n_rows > INT32_MAX)
        return METATUNE_BAD_ARG;
    r->other_target = !target || !t->target || strcmp(target, t->target) != 0;
    return r->other_target && !(flags & METATUNE_LOOKUP_OTHER_TARGET)
               ? METATUNE_NOT_FOUND : METATUNE_OK;
}

METATUNE_API metatune_status
metatune_lookup_find(const metatune_lookup_table *table, const char *target,
                     const metatune_encode_conv2d *conv,
                     metatune_lookup_valid_fn valid, void *user,
                     uint32_t flags, metatune_lookup_result *result)
{
    const metatune_lookup_table *t = table;
    int64_t best = INT64_MAX, d;
    uint32_t i, at = 0;
    int best_tier = 2;
    uint64_t key;
    mti_look_asked q;
    metatune_status st;
    if (!conv)
        return METATUNE_BAD_ARG;
    st = mti_look_begin(t, target, flags, result);
    if (st)
        return st;
    st = metatune_encode_conv2d_check(conv, NULL);
    if (st)
        return st;
    if (t->n_rows && t->rows[0].key) {
        key = metatune_lookup_conv_key(conv);
        for (i = mti_look_first(t, key);
             i < t->n_rows && t->rows[i].key == key; i++)
            if (mti_look_usable(&t->rows[i]) &&
                mti_look_differs(conv, &t->rows[i].conv) < 0 &&
                mti_look_likes(t, conv, t->rows[i].values, valid, user,
                               result))
                return mti_look_take(t, i, METATUNE_LOOKUP_EXACT, 0, result);
        result->n_refused = 0;   /* the scan below meets them again */
    }
    mti_look_ask(&q, conv);
    for (i = 0; i < t->n_rows; i++) {
        const metatune_lookup_row *row = &t->rows[i];
        int tier = mti_look_tier(&q, &row->conv);
        if (tier > best_tier || tier == 2 || !mti_look_usable(row))
            continue;
        d = mti_look_distance(&q, &row->conv,
                              tier < best_tier ? INT64_MAX : best);
        if ((tier == best_tier && d >= best) ||
            !mti_look_likes(t, conv, row->values, valid, user, result))
            continue;
        best_tier = tier;
        best = d;
        at = i;
        if (d == 0 && tier == 0 && mti_look_differs(conv, &row->conv) < 0)
            break; /* exact, in a table without keys or out of order */
    }
    if (best_tier < 2)
        return mti_look_take(t, at,
                             mti_look_differs(conv, &t->rows[at].conv) < 0
                                 ? METATUNE_LOOKUP_EXACT
                                 : METATUNE_LOOKUP_NEAREST, best, result);
    return mti_look_default(t, conv, valid, user, result);
}

METATUNE_API metatune_status
metatune_lookup_key_find(const metatune_lookup_table *table,
                         const char *target, uint64_t key,
                         metatune_lookup_valid_fn valid, void *user,
                         uint32_t flags, metatune_lookup_result *result)
{
    const metatune_lookup_table *t = table;
    uint32_t i;
    metatune_status st = mti_look_begin(t, target, flags, result);
    if (st)
        return st;
    if (!key)
        return METATUNE_BAD_ARG;
    for (i = mti_look_first(t, key);
         i < t->n_rows && t->rows[i].key == key; i++)
        if (t->rows[i].values && t->rows[i].conv.n == 0 &&
            mti_look_likes(t, NULL, t->rows[i].values, valid, user, result))
            return mti_look_take(t, i, METATUNE_LOOKUP_EXACT, 0, result);
    return mti_look_default(t, NULL, valid, user, result);
}

METATUNE_API const char *
metatune_lookup_label(const metatune_lookup_table *table, uint32_t knob,
                      int64_t value)
{
    const metatune_lookup_knob *k;
    if (!table || !table->knobs || knob >= table->n_knobs)
        return NULL;
    k = &table->knobs[knob];
    return k->labels && value >= 0 && value < (int64_t)k->n_labels
               ? k->labels[value] : NULL;
}

/* A row's setting in the knobs of another space; 0 when it has no place. */
static int mti_archive_values(const metatune_lookup_table *t,
                              const int64_t *from,
                              const metatune_knob *knobs, uint32_t n_knobs,
                              int64_t *to)
{
    uint32_t k, j, i;
    for (k = 0; k < n_knobs; k++) {
        const metatune_knob *b = &knobs[k];
        const char *label;
        for (j = 0; j < t->n_knobs; j++)
            if (strcmp(t->knobs[j].name, b->name) == 0)
                break;
        if (j == t->n_knobs)
            return 0;
        label = metatune_lookup_label(t, j, from[j]);
        if (!label != !b->labels)
            return 0;
        for (i = 0; i < b->n_values; i++)
            if (label ? strcmp(b->labels[i], label) == 0
                      : b->values[i] == from[j])
                break;
        if (i == b->n_values)
            return 0;
        to[k] = b->values[i];
    }
    return 1;
}

METATUNE_API uint32_t
metatune_archive_seeds(const metatune_lookup_table *table,
                       const metatune_encode_conv2d *conv,
                       const metatune_knob *knobs, uint32_t n_knobs,
                       int64_t *seeds, uint32_t cap)
{
    const metatune_lookup_table *t = table;
    mti_look_asked q;
    uint32_t n = 0, i, last_at = 0;
    int last_tier = -1;
    int64_t last = -1;
    if (!t || !conv || !knobs || !seeds || !t->knobs ||
        (t->n_rows && !t->rows) || metatune_encode_conv2d_check(conv, NULL) ||
        metatune_space_check(knobs, n_knobs, NULL))
        return 0;
    mti_look_ask(&q, conv);
    while (n < cap) {
        uint32_t at = t->n_rows;
        int best_tier = 2;
        int64_t best = INT64_MAX;
        for (i = 0; i < t->n_rows; i++) { /* the next after the last */
            const metatune_lookup_row *row = &t->rows[i];
            int64_t d;
            int tier;
            if (!mti_look_usable(row))
                continue;
            tier = mti_look_tier(&q, &row->conv);
            if (tier > best_tier || tier == 2)
                continue;
            d = mti_look_distance(&q, &row->conv, INT64_MAX);
            if (tier < last_tier ||
                (tier == last_tier &&
                 (d < last || (d == last && i <= last_at))))
                continue;
            if (tier == best_tier && d >= best)
                continue;
            best_tier = tier;
            best = d;
            at = i;
        }
        if (at == t->n_rows)
            break;
        last_tier = best_tier;
        last = best;
        last_at = at;
        if (!mti_archive_values(t, t->rows[at].values, knobs, n_knobs,
                                seeds + (size_t)n * n_knobs))
            continue;
        for (i = 0; i < n; i++)
            if (memcmp(seeds + (size_t)i * n_knobs,
                       seeds + (size_t)n * n_knobs,
                       n_knobs * sizeof *seeds) == 0)
                break;
        n += i == n;
    }
    return n;
}

static metatune_status mti_look_refuse(metatune_error *error,
                                       metatune_status status,
                                       const char *where, const char *want,
                                       int has_got, int64_t got)
{
    if (error) {
        error->status = status;
        error->where = where;
        error->want = want;
        error->has_got = has_got;
        error->got = got;
    }
    return status;
}

/* 0 when every labelled knob's value is one of its labels. */
static int mti_look_bad_values(const metatune_lookup_table *t,
                               const int64_t *values)
{
    uint32_t k;
    for (k = 0; k < t->n_knobs; k++)
        if (t->knobs[k].labels && !metatune_lookup_label(t, k, values[k]))
            return 1;
    return 0;
}

static metatune_status mti_look_check_knobs(const metatune_lookup_table *t,
                                            metatune_error *error)
{
    uint32_t i, j;
    if (!t->n_knobs || t->n_knobs > METATUNE_MAX_KNOBS)
        return mti_look_refuse(error, METATUNE_BAD_CONFIG, "n_knobs", "1..64",
                               1, t->n_knobs);
    if (!t->knobs)
        return mti_look_refuse(error, METATUNE_BAD_ARG, "knobs", "not NULL",
                               0, 0);
    for (i = 0; i < t->n_knobs; i++) {
        const metatune_lookup_knob *k = &t->knobs[i];
        if (!k->name || !k->name[0])
            return mti_look_refuse(error, METATUNE_BAD_ARG,
                                   "the nameless knob", "a name", 1, i);
        for (j = 0; j < i; j++)
            if (strcmp(k->name, t->knobs[j].name) == 0)
                return mti_look_refuse(error, METATUNE_BAD_CONFIG,
                                       "the knob named as an earlier one",
                                       "distinct names", 1, i);
        if ((k->labels == NULL) != (k->n_labels == 0))
            return mti_look_refuse(error, METATUNE_EMPTY_KNOB,
                                   "the knob with half its labels",
                                   "labels and n_labels, or neither", 1, i);
        for (j = 0; j < k->n_labels; j++)
            if (!k->labels[j])
                return mti_look_refuse(error, METATUNE_BAD_ARG,
                                       "the knob with a NULL label",
                                       "labels that are not NULL", 1, i);
    }
    return METATUNE_OK;
}

METATUNE_API metatune_status
metatune_lookup_check(const metatune_lookup_table *table,
                      metatune_error *error)
{
    static const metatune_encode_conv2d none = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                0, 0};
    const metatune_lookup_table *t = table;
    uint32_t i, j;
    metatune_status st;
    if (!t)
        return mti_look_refuse(error, METATUNE_BAD_ARG, "table", "not NULL",
                               0, 0);
    if (!t->target || !t->target[0])
        return mti_look_refuse(error, METATUNE_BAD_ARG, "target",
                               "the key of the target it was tuned on", 0, 0);
    if (t->unit < METATUNE_SECONDS || t->unit > METATUNE_INSTRUCTIONS)
        return mti_look_refuse(error, METATUNE_BAD_CONFIG, "unit", "0..2", 1,
                               t->unit);
    st = mti_look_check_knobs(t, error);
    if (st)
        return st;
    if (t->n_rows > INT32_MAX)
        return mti_look_refuse(error, METATUNE_OVERFLOW, "n_rows",
                               "0..INT32_MAX", 1, t->n_rows);
    if (t->n_rows && !t->rows)
        return mti_look_refuse(error, METATUNE_BAD_ARG, "rows", "not NULL", 0,
                               0);
    if (t->default_values && mti_look_bad_values(t, t->default_values))
        return mti_look_refuse(error, METATUNE_BAD_CONFIG, "default_values",
                               "indices of the knobs' labels", 0, 0);
    for (i = 0; i < t->n_rows; i++) {
        const metatune_lookup_row *row = &t->rows[i];
        int plain = mti_look_differs(&row->conv, &none) < 0;
        if (!row->values)
            return mti_look_refuse(error, METATUNE_BAD_ARG,
                                   "the row without values", "values", 1, i);
        if (mti_look_bad_values(t, row->values))
            return mti_look_refuse(error, METATUNE_BAD_CONFIG,
                                   "the row with a value out of its labels",
                                   "indices of the knobs' labels", 1, i);
        if (!plain && metatune_encode_conv2d_check(&row->conv, NULL))
            return mti_look_refuse(error, METATUNE_BAD_SHAPE,
                                   "the row with an impossible shape",
                                   "a convolution, or all zero", 1, i);
        if (!(row->value >= 0 && row->value - row->value <= 0))
            return mti_look_refuse(error, METATUNE_INVALID_TIME,
                                   "the row with an impossible value",
                                   "finite, > 0, or 0 when unknown", 1, i);
        if ((row->key == 0) != (t->rows[0].key == 0))
            return mti_look_refuse(error, METATUNE_BAD_CONFIG,
                                   "the row with or without a key",
                                   "a key in every row or in none", 1, i);
        if (!row->key && plain)
            return mti_look_refuse(error, METATUNE_BAD_CONFIG,
                                   "the row without shape and key",
                                   "one of them", 1, i);
        if (row->key && !plain &&
            row->key != metatune_lookup_conv_key(&row->conv))
            return mti_look_refuse(error, METATUNE_BAD_CONFIG,
                                   "the row with a wrong key",
                                   "metatune_lookup_conv_key of its shape", 1,
                                   i);
        if (i && row->key && row->key < t->rows[i - 1].key)
            return mti_look_refuse(error, METATUNE_BAD_CONFIG,
                                   "the row out of order",
                                   "rows sorted by key", 1, i);
        /* equal keys stand together: only those can be the same shape */
        for (j = i; j-- > 0 && t->rows[j].key == row->key;)
            if (mti_look_differs(&row->conv, &t->rows[j].conv) < 0)
                return mti_look_refuse(error, METATUNE_BAD_CONFIG,
                                       "the row that is there twice",
                                       "one row a shape", 1, i);
    }
    return METATUNE_OK;
}

/* ---- explain: text without stdio */

typedef struct mti_look_text {
    char *p;
    size_t n, cap;
} mti_look_text;

static void mti_look_add(mti_look_text *t, const char *s)
{
    for (; *s && t->n + 1 < t->cap; s++)
        t->p[t->n++] = *s;
}

static void mti_look_add_int(mti_look_text *t, int32_t x)
{
    char digits[12];
    size_t i = sizeof digits - 1;
    uint32_t u = x < 0 ? 0u - (uint32_t)x : (uint32_t)x;
    digits[i] = 0;
    do {
        digits[--i] = (char)('0' + u % 10);
        u /= 10;
    } while (u);
    if (x < 0)
        digits[--i] = '-';
    mti_look_add(t, digits + i);
}

static void mti_look_add_value(mti_look_text *t, int field, int32_t x)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16", "f64",
                                         "i8", "i16", "i32"};
    static const char *const layouts[] = {"nchw", "nhwc", "nchwc"};
    if (field < 3 && x >= 0 && x < 7)
        mti_look_add(t, dtypes[x]);
    else if (field == 3 && x >= 0 && x < 3)
        mti_look_add(t, layouts[x]);
    else
        mti_look_add_int(t, x);
}

METATUNE_API size_t
metatune_lookup_explain(const metatune_lookup_table *table,
                        const char *target,
                        const metatune_encode_conv2d *conv, char *buf,
                        size_t cap)
{
    const metatune_lookup_table *t = table;
    const metatune_encode_conv2d *closest = NULL;
    mti_look_text x;
    mti_look_asked q;
    int64_t best = INT64_MAX, d;
    int best_tier = 3, f;
    uint32_t i;
    if (!buf || !cap)
        return 0;
    x.p = buf;
    x.n = 0;
    x.cap = cap;
    if (!t || (t->n_rows && !t->rows)) {
        mti_look_add(&x, "no table");
    } else if (!conv || metatune_encode_conv2d_check(conv, NULL)) {
        mti_look_add(&x, "not a convolution that can be");
    } else if (!target || !t->target || strcmp(target, t->target) != 0) {
        mti_look_add(&x, "target: asked ");
        mti_look_add(&x, target ? target : "none");
        mti_look_add(&x, ", table has ");
        mti_look_add(&x, t->target ? t->target : "none");
    } else {
        mti_look_ask(&q, conv);
        for (i = 0; i < t->n_rows; i++) {
            int tier = mti_look_tier(&q, &t->rows[i].conv);
            if (tier > best_tier || !mti_look_usable(&t->rows[i]))
                continue;
            d = mti_look_distance(&q, &t->rows[i].conv,
                                  tier < best_tier ? INT64_MAX : best);
            if (tier == best_tier && d >= best)
                continue;
            best_tier = tier;
            best = d;
            closest = &t->rows[i].conv;
        }
        f = closest ? mti_look_differs(conv, closest) : -1;
        if (!closest) {
            mti_look_add(&x, "the table has no shape");
        } else if (f < 0) {
            mti_look_add(&x, "exact: the table has this shape");
        } else {
            int fused = f == MTI_LOOK_FIELDS;
            mti_look_add(&x, fused ? "fused" : mti_look_fields[f].name);
            mti_look_add(&x, ": asked ");
            mti_look_add_value(&x, f, fused ? conv->fused
                                            : mti_look_get(conv, f));
            mti_look_add(&x, ", nearest has ");
            mti_look_add_value(&x, f, fused ? closest->fused
                                            : mti_look_get(closest, f));
        }
    }
    buf[x.n] = 0;
    return x.n;
}

#undef MTI_LOOK_FIELDS
#undef MTI_LOOK_F
#undef MTI_LOOK_N
#undef MTI_LOOK_ONE
#endif /* METATUNE_NO_LOOKUP */

/* ------------------------------------------------------------- [M-TUNER] */

/* States of a slot. */
#define MTI_READY 0
#define MTI_OPEN 1
#define MTI_TOLD 2

METATUNE_API const char *metatune_strategy_name(int32_t strategy)
{
    static const char *const name[] = { "metatune", "random", "ga", "sa",
                                        "grid" };
    return strategy >= 0 && strategy <= METATUNE_STRATEGY_GRID
               ? name[strategy] : NULL;
}

static void mti_default_u32(uint32_t *field, uint32_t value)
{
    if (!*field)
        *field = value;
}

/* Defaults filled in, ranges checked. */
static metatune_status mti_config_fill(metatune_config *c,
                                       metatune_error *error)
{
    size_t i;
    struct {
        const char *name, *want;
        uint32_t *field, value, lo, hi;
    } rows[12];
    size_t n = 0;
#define MTI_ROW(f, v, l, h, w)      \
    do {                            \
        rows[n].name = #f;          \
        rows[n].want = w;           \
        rows[n].field = &c->f;      \
        rows[n].value = v;          \
        rows[n].lo = l;             \
        rows[n].hi = h;             \
        n++;                        \
    } while (0)
    mti_default_u32(&c->trials, 64);
    mti_default_u32(&c->batch, 8);
    MTI_ROW(batch, 8, 1, 64, "1..64");
    MTI_ROW(confirm_top, 3, 1, 8, "1..8");
    MTI_ROW(confirm_repeat, 5, 1, 16, "1..16");
    MTI_ROW(max_failures, 128, 1, UINT32_MAX, "1 or more");
    MTI_ROW(max_resets, 8, 1, UINT32_MAX, "1 or more");
    MTI_ROW(cap_visited,
            c->trials < 512 ? 1024u
                            : (c->trials > 524288 ? 1048576u : 2 * c->trials),
            16, 1048576, "16..1048576");
    MTI_ROW(cap_fit, 256, 8, 65536, "8..65536");
    MTI_ROW(draft, 512, 16, 4096, "16..4096");
    MTI_ROW(chains, 64, 1, 1024, "1..1024");
    MTI_ROW(moves, 100, 1, 10000, "1..10000");
    MTI_ROW(gnn_batch, 32, 1, 1024, "1..1024");
#undef MTI_ROW
    for (i = 0; i < n; i++) {
        mti_default_u32(rows[i].field, rows[i].value);
        if (*rows[i].field < rows[i].lo || *rows[i].field > rows[i].hi)
            return mti_enc_refuse_int(error, METATUNE_BAD_CONFIG,
                                      rows[i].name, (int64_t)*rows[i].field,
                                      rows[i].want);
    }
    if (c->strategy < METATUNE_STRATEGY_MODEL ||
        c->strategy > METATUNE_STRATEGY_GRID)
        return mti_enc_refuse_int(error, METATUNE_BAD_CONFIG, "strategy",
                                  c->strategy, "a metatune_strategy, 0..4");
    if (!(c->seconds >= 0) || c->seconds - c->seconds > 0)
        return mti_enc_refuse(error, METATUNE_BAD_CONFIG, "seconds",
                              "0 or a positive finite number");
    if (!metatune_encode_nest_memsize(&c->encode))
        return mti_enc_refuse_int(error, METATUNE_BAD_CONFIG,
                                  "encode.cap_nodes", c->encode.cap_nodes,
                                  "2..4096 nodes, 1..65535 edges");
    return METATUNE_OK;
}

METATUNE_API metatune_config metatune_config_tiny(void)
{
    metatune_config c;
    memset(&c, 0, sizeof c);
    c.batch = 8;
    c.cap_visited = 64;
    c.cap_fit = 64;
    c.draft = 20;
    c.chains = 16;
    c.moves = 24;
    c.gnn_batch = 1;
    c.encode.cap_nodes = 32;
    c.encode.cap_edges = 160;
    c.encode.cap_tensors = 3;
    return c;
}

METATUNE_API metatune_status metatune_config_check(const metatune_config *cfg,
                                                   metatune_error *error)
{
    metatune_config c;
    if (!cfg)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "cfg", "not NULL");
    c = *cfg;
    return mti_config_fill(&c, error);
}

typedef struct mti_tuner_layout {
    metatune_config cfg;
    metatune_gnn_config gnn;
    int32_t width;
    uint32_t cap_slots, n_index;
    size_t net, nest, graph, graph_at, graph_mem, head, params;
    size_t visited, index, slot, slot_digits, slot_values;
    size_t point, point_digits, point_phi, pool, pool_digits, pool_phi;
    size_t walk_digits, walk_value, grid_digits, cap_pool;
    size_t chain_digits, chain_score, move_digits, move_phi, move_s0;
    size_t move_ok, values, confirm, pick_digits, pick_values;
    size_t trial, result, line, line_bytes, bytes;
    size_t net_bytes, nest_bytes, graph_bytes, head_bytes, n_params;
} mti_tuner_layout;

static size_t mti_record_room(const metatune_problem *problem);

static metatune_status mti_list_check(const metatune_problem *p,
                                      metatune_error *error)
{
    uint32_t i, k;
    if (!p->list && p->n_list)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "list",
                              "not NULL when n_list is not 0");
    if (p->list && (p->n_list < 1 || p->n_list > 1048576u))
        return mti_enc_refuse_int(error, METATUNE_BAD_ARG, "n_list",
                                  (int64_t)p->n_list, "1..1048576");
    if (!p->seeds && p->n_seeds)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "seeds",
                              "not NULL when n_seeds is not 0");
    for (i = 0; p->list && i < p->n_list; i++)
        for (k = 0; k < p->n_knobs; k++)
            if (p->list[(size_t)i * p->n_knobs + k] >= p->knobs[k].n_values)
                return mti_enc_refuse_int(
                    error, METATUNE_BAD_ARG, "list: a digit",
                    p->list[(size_t)i * p->n_knobs + k],
                    "below its knob's n_values");
    return METATUNE_OK;
}

static metatune_status mti_tuner_plan(const metatune_config *cfg,
                                      const metatune_problem *p,
                                      mti_tuner_layout *l,
                                      metatune_error *error)
{
    metatune_status st;
    size_t k, d, b, n;
    memset(l, 0, sizeof *l);
    if (!cfg || !p)
        return mti_enc_refuse(error, METATUNE_BAD_ARG,
                              cfg ? "problem" : "cfg", "not NULL");
    l->cfg = *cfg;
    st = mti_config_fill(&l->cfg, error);
    if (st)
        return st;
    st = metatune_space_check(p->knobs, p->n_knobs, error);
    if (st)
        return st;
    if (l->cfg.seconds > 0 && !p->now)
        return mti_enc_refuse(error, METATUNE_BAD_CONFIG, "now",
                              "a clock: a budget in seconds needs one");
    if (p->unit < 0 || p->unit > METATUNE_INSTRUCTIONS)
        return mti_enc_refuse_int(error, METATUNE_BAD_ARG, "unit", p->unit,
                                  "a metatune_unit");
    st = mti_list_check(p, error);
    if (st)
        return st;
    k = p->n_knobs;
    n = l->cfg.draft;
    if (p->list && p->n_list > n)
        n = p->n_list;
    l->cap_pool = n;
    b = l->cfg.gnn_batch;
    l->cap_slots = l->cfg.batch > l->cfg.confirm_top ? l->cfg.batch
                                                     : l->cfg.confirm_top;
    for (l->n_index = 16; l->n_index < 2 * l->cfg.cap_visited;)
        l->n_index *= 2;
    if (l->cfg.strategy == METATUNE_STRATEGY_MODEL) {
        if (!p->describe)
            return mti_enc_refuse(error, METATUNE_BAD_CONFIG, "describe",
                                  "a callback: the model-guided strategy "
                                  "reads loop nests");
        if (p->n_skeletons && !p->skeletons)
            return mti_enc_refuse(error, METATUNE_BAD_ARG, "skeletons",
                                  "not NULL");
        if (p->model) {
            l->gnn = p->model->gnn;
            if (p->model->schema != METATUNE_ENCODE_SCHEMA)
                return mti_enc_refuse_int(error, METATUNE_BAD_SCHEMA,
                                          "model's feature schema",
                                          (int64_t)p->model->schema,
                                          "this library's");
        } else {
            l->gnn = metatune_gnn_preset(METATUNE_GNN_DEFAULT);
            l->n_params = metatune_model_param_count(&l->gnn);
        }
        l->gnn.train = 0;
        l->gnn.cap_batch = (int32_t)b;
        l->gnn.cap_nodes =
            l->cfg.encode.cap_nodes ? l->cfg.encode.cap_nodes : 64;
        l->gnn.cap_edges = l->cfg.encode.cap_edges;
        st = metatune_gnn_config_check(&l->gnn, error);
        if (st)
            return st;
        if (p->model &&
            p->model->n_params != metatune_model_param_count(&l->gnn))
            return mti_enc_refuse(error, METATUNE_BAD_BLOB, "model",
                                  "as many weights as its config says");
        l->width = metatune_gnn_phi_width(&l->gnn);
        l->net_bytes = metatune_gnn_memsize(&l->gnn);
        l->nest_bytes = metatune_encode_nest_memsize(&l->cfg.encode);
        l->graph_bytes = metatune_encode_graph_memsize(&l->cfg.encode);
        l->head_bytes = metatune_head_memsize(l->width);
    }
    d = (size_t)l->width;
#define MTI_BLOCK(name, count, type) \
    l->name = mti_enc_block(&l->bytes, count, sizeof(type))
    MTI_BLOCK(visited, l->cfg.cap_visited, uint64_t);
    MTI_BLOCK(index, l->n_index, uint32_t);
    MTI_BLOCK(slot, l->cap_slots, metatune_slot);
    MTI_BLOCK(slot_digits, l->cap_slots * k, uint16_t);
    MTI_BLOCK(slot_values, l->cap_slots * k, int64_t);
    MTI_BLOCK(point, l->cfg.cap_fit, metatune_point);
    MTI_BLOCK(point_digits, l->cfg.cap_fit * k, uint16_t);
    if (l->cfg.strategy == METATUNE_STRATEGY_ANNEAL) {
        MTI_BLOCK(walk_digits, l->cfg.batch * k, uint16_t);
        MTI_BLOCK(walk_value, l->cfg.batch, double);
    }
    if (l->cfg.strategy == METATUNE_STRATEGY_GRID)
        MTI_BLOCK(grid_digits, k, uint16_t);
    MTI_BLOCK(values, k, int64_t);
    MTI_BLOCK(pick_digits, k, uint16_t);
    MTI_BLOCK(pick_values, k, int64_t);
    MTI_BLOCK(move_digits, (b > 2 ? b : 2) * k, uint16_t);
    if (!l->cfg.no_confirm)
        MTI_BLOCK(confirm,
                  (size_t)l->cfg.confirm_top * l->cfg.confirm_repeat, double);
    if (l->width) {
        MTI_BLOCK(net, l->net_bytes, char);
        MTI_BLOCK(nest, l->nest_bytes, char);
        MTI_BLOCK(graph, b, metatune_encode_graph);
        MTI_BLOCK(graph_at, b, const metatune_encode_graph *);
        MTI_BLOCK(graph_mem, mti_enc_align(l->graph_bytes) * b, char);
        MTI_BLOCK(head, l->head_bytes, char);
        MTI_BLOCK(params, l->n_params, metatune_real);
        MTI_BLOCK(point_phi, l->cfg.cap_fit * d, metatune_real);
        MTI_BLOCK(pool, n, metatune_candidate);
        MTI_BLOCK(pool_digits, n * k, uint16_t);
        MTI_BLOCK(pool_phi, n * d, metatune_real);
        MTI_BLOCK(chain_digits, l->cfg.chains * k, uint16_t);
        MTI_BLOCK(chain_score, l->cfg.chains, double);
        MTI_BLOCK(move_phi, b * d, metatune_real);
        MTI_BLOCK(move_s0, b, double);
        MTI_BLOCK(move_ok, b, int32_t);
    }
    if (p->measure) {
        MTI_BLOCK(trial, l->cap_slots, metatune_trial);
        MTI_BLOCK(result, l->cap_slots, metatune_result);
    }
    if (p->write) {
        l->line_bytes = mti_record_room(p);
        MTI_BLOCK(line, l->line_bytes, char);
    }
#undef MTI_BLOCK
    if (l->bytes == SIZE_MAX)
        return mti_enc_refuse(error, METATUNE_OVERFLOW, "cfg",
                              "smaller capacities");
    return METATUNE_OK;
}

METATUNE_API size_t metatune_memsize(const metatune_config *cfg,
                                     const metatune_problem *problem)
{
    mti_tuner_layout l;
    return mti_tuner_plan(cfg, problem, &l, NULL) ? 0 : l.bytes;
}

static uint32_t mti_total_clamp(metatune_tuner *t);

METATUNE_API metatune_status
metatune_init(metatune_tuner *tuner, const metatune_config *cfg,
              const metatune_problem *problem, void *mem, size_t bytes,
              metatune_error *error)
{
    metatune_tuner *t = tuner;
    mti_tuner_layout l;
    char *base = (char *)mem;
    metatune_status st = mti_tuner_plan(cfg, problem, &l, error);
    size_t i;
    if (st)
        return st;
    if (!t)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "tuner", "not NULL");
    st = mti_enc_block_check(mem, bytes, l.bytes);
    if (st)
        return mti_enc_refuse(error, st, "mem",
                              "metatune_memsize bytes, aligned to 8");
    memset(t, 0, sizeof *t);
    memset(mem, 0, l.bytes);
    t->cfg = l.cfg;
    t->problem = *problem;
    t->n_knobs = problem->n_knobs;
    t->width = l.width;
    t->cap_slots = l.cap_slots;
    t->n_index = l.n_index;
    t->cap_pool = (uint32_t)l.cap_pool;
    t->line_bytes = l.line_bytes;
    t->space_size = problem->list ? (double)problem->n_list
                        : metatune_space_size(problem->knobs,
                                              problem->n_knobs);
    t->space_hash = metatune_space_hash(problem->knobs, problem->n_knobs);
    t->next_id = 1;
    t->prior_scale = 1;
#define MTI_PLACE(name, type) t->name = (type *)(void *)(base + l.name)
    MTI_PLACE(visited, uint64_t);
    MTI_PLACE(index, uint32_t);
    MTI_PLACE(slot, metatune_slot);
    MTI_PLACE(slot_digits, uint16_t);
    MTI_PLACE(slot_values, int64_t);
    MTI_PLACE(point, metatune_point);
    MTI_PLACE(point_digits, uint16_t);
    MTI_PLACE(values, int64_t);
    MTI_PLACE(pick_digits, uint16_t);
    MTI_PLACE(pick_values, int64_t);
    MTI_PLACE(move_digits, uint16_t);
    if (l.cfg.strategy == METATUNE_STRATEGY_ANNEAL) {
        MTI_PLACE(walk_digits, uint16_t);
        MTI_PLACE(walk_value, double);
    }
    if (l.cfg.strategy == METATUNE_STRATEGY_GRID)
        MTI_PLACE(grid_digits, uint16_t);
    MTI_PLACE(confirm, double);
    MTI_PLACE(trial, metatune_trial);
    MTI_PLACE(result, metatune_result);
    MTI_PLACE(line, char);
    if (l.width) {
        MTI_PLACE(graph, metatune_encode_graph);
        MTI_PLACE(graph_at, const metatune_encode_graph *);
        MTI_PLACE(point_phi, metatune_real);
        MTI_PLACE(pool, metatune_candidate);
        MTI_PLACE(pool_digits, uint16_t);
        MTI_PLACE(pool_phi, metatune_real);
        MTI_PLACE(chain_digits, uint16_t);
        MTI_PLACE(chain_score, double);
        MTI_PLACE(move_phi, metatune_real);
        MTI_PLACE(move_s0, double);
        MTI_PLACE(move_ok, int32_t);
        st = metatune_gnn_init(&t->net, &l.gnn, base + l.net, l.net_bytes);
        if (!st)
            st = metatune_encode_nest_init(&t->nest, &l.cfg.encode,
                                           base + l.nest, l.nest_bytes);
        for (i = 0; !st && i < l.cfg.gnn_batch; i++)
            st = metatune_encode_graph_init(
                &t->graph[i], &l.cfg.encode,
                base + l.graph_mem + i * mti_enc_align(l.graph_bytes),
                l.graph_bytes);
        if (!st)
            st = metatune_head_init(&t->head, l.width, base + l.head,
                                    l.head_bytes);
        if (!st && problem->model)
            t->model = *problem->model;
        else if (!st)
            st = metatune_model_init(
                &t->model, &l.gnn,
                (metatune_real *)(void *)(base + l.params), l.n_params,
                l.cfg.seed);
        if (st)
            return mti_enc_refuse(error, st, NULL, NULL);
    }
#undef MTI_PLACE
    t->sum.space_size = t->space_size;
    if (problem->default_values &&
        metatune_space_digits(problem->knobs, problem->n_knobs,
                              problem->default_values, t->pick_digits))
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "default_values",
                              "values of the knobs");
    if (problem->now)
        t->start_s = problem->now(problem->user);
    t->total = mti_total_clamp(t);
    return METATUNE_OK;
}

/* ------------------------------------------- settings: visited, valid */

static int mti_visited_at(const metatune_tuner *t, uint64_t hash,
                          uint32_t *where)
{
    uint32_t mask = t->n_index - 1, i = (uint32_t)hash & mask;
    while (t->index[i]) {
        if (t->visited[t->index[i] - 1] == hash) {
            *where = i;
            return 1;
        }
        i = (i + 1) & mask;
    }
    *where = i;
    return 0;
}

static int mti_visited(const metatune_tuner *t, uint64_t hash)
{
    uint32_t i;
    for (i = 0; i < t->n_quarantine; i++)
        if (t->quarantine[i] == hash)
            return 1;
    return mti_visited_at(t, hash, &i);
}

/* Linear probing: close the gap that a removed entry leaves. */
static void mti_visited_remove(metatune_tuner *t, uint64_t hash)
{
    uint32_t mask = t->n_index - 1, hole, i;
    if (!mti_visited_at(t, hash, &hole))
        return;
    for (i = (hole + 1) & mask; t->index[i]; i = (i + 1) & mask) {
        uint32_t home = (uint32_t)t->visited[t->index[i] - 1] & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            t->index[hole] = t->index[i];
            hole = i;
        }
    }
    t->index[hole] = 0;
}

static void mti_visited_add(metatune_tuner *t, uint64_t hash)
{
    uint32_t where;
    if (mti_visited_at(t, hash, &where))
        return;
    if (t->n_visited == t->cfg.cap_visited) { /* forget the oldest */
        mti_visited_remove(t, t->visited[t->visited_at]);
        (void)mti_visited_at(t, hash, &where);
    } else {
        t->n_visited++;
    }
    t->visited[t->visited_at] = hash;
    t->index[where] = t->visited_at + 1;
    t->visited_at = (t->visited_at + 1) % t->cfg.cap_visited;
}

METATUNE_API metatune_status metatune_quarantine(metatune_tuner *tuner,
                                                 const uint16_t *digits)
{
    metatune_tuner *t = tuner;
    uint64_t hash;
    uint32_t i, cap;
    if (!t || !digits)
        return METATUNE_BAD_ARG;
    hash = metatune_setting_hash(digits, t->n_knobs);
    cap = sizeof t->quarantine / sizeof t->quarantine[0];
    for (i = 0; i < t->n_quarantine; i++)
        if (t->quarantine[i] == hash)
            return METATUNE_OK;
    mti_visited_add(t, hash);
    if (t->n_quarantine == cap)
        return METATUNE_CAPACITY;
    t->quarantine[t->n_quarantine++] = hash;
    t->sum.quarantined++;
    return METATUNE_OK;
}

static int mti_valid(metatune_tuner *t, const uint16_t *digits)
{
    t->sum.looked++;
    if (!t->problem.valid)
        return 1;
    metatune_space_values(t->problem.knobs, t->n_knobs, digits, t->values);
    return t->problem.valid(t->problem.user, &t->problem, t->values) != 0;
}

static void mti_random_digits(const metatune_tuner *t,
                              metatune_encode_rng *rng, uint16_t *digits)
{
    uint32_t k;
    for (k = 0; k < t->n_knobs; k++)
        digits[k] = (uint16_t)metatune_encode_rng_below(
            rng, t->problem.knobs[k].n_values);
}

/* ---- a listed space ---- */

static const uint16_t *mti_list_row(const metatune_tuner *t, uint32_t i)
{
    return t->problem.list + (size_t)i * t->n_knobs;
}

static int mti_listed(const metatune_tuner *t, const uint16_t *digits)
{
    uint32_t i;
    for (i = 0; i < t->problem.n_list; i++)
        if (memcmp(mti_list_row(t, i), digits,
                   t->n_knobs * sizeof *digits) == 0)
            return 1;
    return 0;
}

/* How far two settings are: differing knobs, then digits. */
static uint64_t mti_knob_distance(const metatune_tuner *t, const uint16_t *a,
                                  const uint16_t *b)
{
    uint64_t d = 0;
    uint32_t k;
    for (k = 0; k < t->n_knobs; k++)
        if (a[k] != b[k])
            d += ((uint64_t)1 << 32) +
                 (uint64_t)(a[k] > b[k] ? a[k] - b[k] : b[k] - a[k]);
    return d;
}

/* New (from = NULL), or another one than `from`; and valid. */
static int mti_usable(metatune_tuner *t, const uint16_t *digits,
                      const uint16_t *from)
{
    if (from ? memcmp(digits, from, t->n_knobs * sizeof *digits) == 0
             : mti_visited(t, metatune_setting_hash(digits, t->n_knobs)))
        return 0;
    return mti_valid(t, digits);
}

/* The nearest usable row into digits; 0 when there is none. */
static int mti_list_settle(metatune_tuner *t, uint16_t *digits,
                           const uint16_t *from)
{
    uint64_t best = UINT64_MAX;
    uint32_t i, at = t->problem.n_list;
    for (i = 0; i < t->problem.n_list && best; i++) {
        const uint16_t *row = mti_list_row(t, i);
        uint64_t d = mti_knob_distance(t, digits, row);
        if (d < best && mti_usable(t, row, from)) {
            best = d;
            at = i;
        }
    }
    if (at == t->problem.n_list)
        return 0;
    memcpy(digits, mti_list_row(t, at), t->n_knobs * sizeof *digits);
    return 1;
}

/* A setting that was drawn, or mutated from another one: what the caller's
   repair makes of it, or else itself, if that is usable. */
static int mti_settle(metatune_tuner *t, uint16_t *digits,
                      const uint16_t *from)
{
    const metatune_problem *p = &t->problem;
    uint16_t better[METATUNE_MAX_KNOBS];
    if (p->list)
        return mti_list_settle(t, digits, from);
    if (p->repair) {
        metatune_space_values(p->knobs, t->n_knobs, digits, t->values);
        if (p->repair(p->user, p, t->values) &&
            !metatune_space_digits(p->knobs, t->n_knobs, t->values, better) &&
            memcmp(better, digits, t->n_knobs * sizeof *digits) != 0 &&
            mti_usable(t, better, from)) {
            memcpy(digits, better, t->n_knobs * sizeof *digits);
            return 1;
        }
    }
    return mti_usable(t, digits, from);
}

/* Next setting in counting order; 0 after the last. */
static int mti_next_digits(const metatune_tuner *t, uint16_t *digits)
{
    uint32_t k;
    for (k = t->n_knobs; k-- > 0;) {
        if ((uint32_t)digits[k] + 1 < t->problem.knobs[k].n_values) {
            digits[k]++;
            return 1;
        }
        digits[k] = 0;
    }
    return 0;
}

#define MTI_REJECT_TRIES 512u        /* random draws before counting */
#define MTI_COUNT_STEPS 2097152u     /* settings looked at when counting */

/* A valid setting that is not visited, uniformly over (repaired) draws while
   rejection works; else the next one in counting order from a random start.
   0 = none found; t->counted says whether it looked at all of them. */
static int mti_sample(metatune_tuner *t, metatune_encode_rng *rng,
                      uint16_t *digits)
{
    uint32_t i;
    double steps = t->space_size;
    if (t->problem.list) {
        uint32_t n = t->problem.n_list;
        uint32_t at = (uint32_t)metatune_encode_rng_below(rng, n);
        for (i = 0; i < MTI_REJECT_TRIES + n; i++) {
            const uint16_t *row = mti_list_row(t, at);
            if (mti_usable(t, row, NULL)) {
                memcpy(digits, row, t->n_knobs * sizeof *digits);
                return 1;
            }
            at = i < MTI_REJECT_TRIES
                     ? (uint32_t)metatune_encode_rng_below(rng, n)
                     : (at + 1) % n;
        }
        t->counted = 1;
        return 0;
    }
    for (i = 0; i < MTI_REJECT_TRIES; i++) {
        mti_random_digits(t, rng, digits);
        if (mti_settle(t, digits, NULL))
            return 1;
    }
    if (steps > MTI_COUNT_STEPS)
        steps = MTI_COUNT_STEPS;
    for (i = 0; i < (uint32_t)steps; i++) {
        if (!mti_next_digits(t, digits))
            memset(digits, 0, t->n_knobs * sizeof *digits);
        if (mti_usable(t, digits, NULL))
            return 1;
    }
    t->counted = steps >= t->space_size;
    return 0;
}

/* The budget, clamped to what a small space really holds. */
static uint32_t mti_total_clamp(metatune_tuner *t)
{
    uint32_t total = t->cfg.no_trials ? 0 : t->cfg.trials;
    t->n_legal = UINT32_MAX;
    if (t->problem.list) {
        uint32_t i, n = 0;
        for (i = 0; i < t->problem.n_list; i++)
            n += mti_valid(t, mti_list_row(t, i)) ? 1u : 0u;
        t->n_legal = n;
        if (n < total)
            total = n;
    } else if (t->space_size <= 4096) {
        uint32_t n = 0;
        uint16_t *d = t->move_digits;
        memset(d, 0, t->n_knobs * sizeof *d);
        do
            if (mti_valid(t, d))
                n++;
        while (mti_next_digits(t, d));
        t->n_legal = n;
        if (n < total)
            total = n;
    } else if (t->space_size < total) {
        total = (uint32_t)t->space_size;
    }
    return total;
}

/* --------------------------------------------------- predicting settings */

static metatune_status mti_graph(metatune_tuner *t, const uint16_t *digits,
                                 uint32_t i)
{
    const metatune_problem *p = &t->problem;
    const metatune_encode_skeleton *sk = NULL;
    metatune_status st;
    metatune_space_values(p->knobs, t->n_knobs, digits, t->values);
    st = p->describe(p->user, p, t->values, &t->nest);
    if (st)
        return st;
    if (p->n_skeletons) {
        if ((uint32_t)t->nest.skeleton >= p->n_skeletons)
            return METATUNE_BAD_NEST;
        sk = &p->skeletons[t->nest.skeleton];
    }
    return metatune_encode_graph_fill(&t->graph[i], &t->nest, sk, p->device);
}

static void mti_undescribed(metatune_tuner *t, metatune_status st, uint32_t n)
{
    if (!t->sum.undescribed)
        t->sum.first_undescribed = st;
    t->sum.undescribed += n;
}

/* Describe and encode a setting into graph i. */
static metatune_status mti_encode(metatune_tuner *t, const uint16_t *digits,
                                  uint32_t i)
{
    metatune_status st = mti_graph(t, digits, i);
    if (st)
        mti_undescribed(t, st, 1);
    else
        t->sum.described++;
    return st;
}

/* phi and s0 = -log2 t0 of n <= gnn_batch settings; ok[i] = 0 where the
   description was refused. */
static void mti_embed(metatune_tuner *t, const uint16_t *digits, uint32_t n,
                      metatune_real *phi, double *s0, int32_t *ok)
{
    uint32_t i, m = 0;
    metatune_status st = METATUNE_OK;
    size_t d = (size_t)t->width;
    for (i = 0; i < n; i++) {
        ok[i] = mti_encode(t, digits + (size_t)i * t->n_knobs, m) ==
                METATUNE_OK;
        if (!ok[i])
            continue;
        s0[i] = -log2(t->graph[m].t0_s);
        t->graph_at[m] = &t->graph[m];
        m++;
    }
    if (m)
        st = metatune_gnn_forward(&t->net, t->model.params, t->graph_at, m,
                                  phi);
    if (st) {
        memset(ok, 0, n * sizeof *ok);
        mti_undescribed(t, st, m);
        t->sum.described -= m;
        return;
    }
    for (i = n; i-- > 0 && m < n;) /* spread the rows to their settings */
        if (ok[i]) {
            m--;
            memmove(phi + i * d, phi + m * d, d * sizeof *phi);
            if (m == i)
                break;
        }
}

/* y of a point in the head's terms. */
static double mti_point_y(const metatune_tuner *t, const metatune_point *p)
{
    return p->y - t->y_offset;
}

/* What leave-one-out says of the fit, over valid points. tau: Kendall's,
   between predicted and measured log2 of speed. spread2: the head's noise is
   the training tasks'; on this one it may be another, and a misfit of the
   trunk is not in it at all. Squared leave-one-out z-scores, whose mean is 1
   when the intervals are right, scale every variance, as the posterior of an
   unknown noise (inverse gamma) would:
     spread2 = (MTI_SPREAD_PRIOR + sum z^2) / (MTI_SPREAD_PRIOR + n),
   z^2 = residual^2 / var of metatune_head_leave, each at most 100. */
#define MTI_SPREAD_PRIOR 2.0

static void mti_leave_one_out(metatune_tuner *t, uint32_t n_ok)
{
    uint32_t i, j;
    double agree = 0, pairs = 0, sum = MTI_SPREAD_PRIOR, count = sum;
    /* the candidates' keys are free here: a scratch of cap_pool doubles */
    uint32_t n = t->n_points < t->cap_pool ? t->n_points : t->cap_pool;
    for (i = 0; i < n; i++) {
        const metatune_point *p = &t->point[i];
        double y = mti_point_y(t, p), residual, var, z2;
        if (!(p->value > 0 && p->fitted))
            continue;
        residual = metatune_head_leave(
            &t->head, t->point_phi + i * (size_t)t->width, y, &var);
        z2 = residual * residual / var;
        sum += z2 < 100 ? z2 : 100;
        count++;
        t->pool[i].key = y - residual -
                         (p->y + log2(p->value)); /* - log2 t0: log2 speed */
    }
    t->spread2 = sum / count;
    t->tau = 0;
    if (n_ok < 8)
        return;
    for (i = 0; i < n; i++)
        for (j = 0; j < i; j++) {
            const metatune_point *a = &t->point[i], *b = &t->point[j];
            double real, pred_diff;
            if (!(a->value > 0 && a->fitted && b->value > 0 && b->fitted))
                continue;
            real = b->value - a->value; /* a faster: positive */
            pred_diff = t->pool[i].key - t->pool[j].key;
            if (real * pred_diff > 0)
                agree++;
            else if (real * pred_diff < 0)
                agree--;
            pairs++;
        }
    t->tau = pairs > 0 ? agree / pairs : 0;
}

/* Rebuild the head from the prior and every point: RECIPE 4. A failure enters
   as two octaves below the slowest valid one, at half weight. */
static void mti_fit(metatune_tuner *t)
{
    uint32_t i, n_ok = 0;
    size_t d = (size_t)t->width;
    double lowest = 0, offset = 0;
    metatune_head_prior(&t->head, mti_model_w0(&t->model),
                        metatune_model_log_lambda(&t->model),
                        mti_model_log_s2(&t->model), t->prior_scale);
    for (i = 0; i < t->n_points; i++) {
        const metatune_point *p = &t->point[i];
        double mu;
        if (!(p->value > 0) || !p->fitted)
            continue;
        metatune_head_predict(&t->head, t->point_phi + i * d, &mu, NULL);
        offset += p->y - mu;
        if (!n_ok || p->y < lowest)
            lowest = p->y;
        n_ok++;
    }
    /* Cycles and instructions differ from seconds by an unknown constant
       factor, and an untrained model knows no level at all: take the mean out
       before the head sees y. */
    t->y_offset = (t->problem.unit != METATUNE_SECONDS ||
                   !t->problem.model) && n_ok ? offset / n_ok : 0;
    for (i = 0; i < t->n_points; i++) {
        const metatune_point *p = &t->point[i];
        if (!p->fitted)
            continue;
        if (p->value > 0)
            metatune_head_add(&t->head, t->point_phi + i * d,
                              mti_point_y(t, p), 1);
        else if (n_ok >= 2)
            metatune_head_add(&t->head, t->point_phi + i * d,
                              lowest - 2 - t->y_offset, 0.5);
    }
    metatune_head_solve(&t->head);
    mti_leave_one_out(t, n_ok);
}

/* Octaves to take off a setting for the failures of its knobs' values: of a
   value with f failures and s successes, p = (f + 2q) / (f + s + 2) shrinks
   the failing share towards q, that of all points; the worst knob costs
   log2((1 - q) / (1 - p)), what its chance of success falls by. A value not
   tried yet costs nothing. */
static double mti_risk(const metatune_tuner *t, const uint16_t *digits)
{
    uint32_t i, k, failed = 0;
    double q, worst = 0;
    for (i = 0; i < t->n_points; i++)
        failed += t->point[i].value > 0 ? 0u : 1u;
    if (!failed)
        return 0;
    q = failed / (t->n_points + 1.0);
    for (k = 0; k < t->n_knobs; k++) {
        double f = 0, s = 0, p;
        for (i = 0; i < t->n_points; i++)
            if (t->point_digits[(size_t)i * t->n_knobs + k] == digits[k]) {
                if (t->point[i].value > 0)
                    s++;
                else
                    f++;
            }
        p = (f + 2 * q) / (f + s + 2);
        if (p > worst)
            worst = p;
    }
    return worst > q ? log2((1 - q) / (1 - worst)) : 0;
}

static double mti_kappa(const metatune_tuner *t)
{
    /* exploration falls over the budget; sigma itself falls with the data */
    double left = t->total ? 1 - (double)t->n_told / t->total : 0;
    return 0.25 + 0.5 * left;
}

static double mti_score(const metatune_candidate *c, double kappa)
{
    return c->mu + c->s0 + kappa * sqrt(c->v > 0 ? c->v : 0) - c->risk;
}

/* Into the pool unless visited or already there; when full, in the place of
   the lowest key if that is lower. Returns the place, or -1. */
static int32_t mti_pool_add(metatune_tuner *t, const uint16_t *digits,
                            uint64_t hash, double key)
{
    uint32_t i, at = t->n_pool;
    if (mti_visited(t, hash))
        return -1;
    for (i = 0; i < t->n_pool; i++)
        if (t->pool[i].hash == hash)
            return -1;
    if (at == t->cap_pool) {
        for (at = 0, i = 1; i < t->n_pool; i++)
            if (t->pool[i].key < t->pool[at].key)
                at = i;
        if (t->pool[at].key >= key)
            return -1;
    } else {
        t->n_pool++;
    }
    memset(&t->pool[at], 0, sizeof t->pool[at]);
    t->pool[at].hash = hash;
    t->pool[at].key = key;
    memcpy(t->pool_digits + (size_t)at * t->n_knobs, digits,
           t->n_knobs * sizeof *digits);
    return (int32_t)at;
}

/* Embed rows from..from + n of the pool (n <= gnn_batch). */
static void mti_pool_embed(metatune_tuner *t, uint32_t from, uint32_t n)
{
    uint32_t j;
    size_t w = (size_t)t->width;
    mti_embed(t, t->pool_digits + (size_t)from * t->n_knobs, n, t->move_phi,
              t->move_s0, t->move_ok);
    for (j = 0; j < n; j++) {
        metatune_candidate *c = &t->pool[from + j];
        c->fitted = t->move_ok[j];
        if (!c->fitted) {
            c->key = -1e30;
            continue;
        }
        c->s0 = t->move_s0[j];
        memcpy(t->pool_phi + (from + j) * w, t->move_phi + j * w,
               w * sizeof *t->move_phi);
    }
}

static void mti_pool_predict(metatune_tuner *t)
{
    uint32_t i;
    size_t w = (size_t)t->width;
    double kappa = mti_kappa(t);
    for (i = 0; i < t->n_pool; i++) {
        metatune_candidate *c = &t->pool[i];
        if (!c->fitted)
            continue;
        metatune_head_predict(&t->head, t->pool_phi + i * w, &c->mu, &c->v);
        c->risk = mti_risk(t, t->pool_digits + (size_t)i * t->n_knobs);
        c->key = mti_score(c, kappa);
    }
}

/* Every row of the list is a candidate; they are embedded once. */
static void mti_draft_list(metatune_tuner *t)
{
    uint32_t i, n = t->problem.n_list;
    if (!t->list_embedded) {
        t->n_pool = n;
        memset(t->pool, 0, n * sizeof *t->pool);
        memcpy(t->pool_digits, t->problem.list,
               (size_t)n * t->n_knobs * sizeof *t->pool_digits);
        for (i = 0; i < n; i++)
            t->pool[i].hash = metatune_setting_hash(mti_list_row(t, i),
                                                    t->n_knobs);
        for (i = 0; i < n; i += t->cfg.gnn_batch)
            mti_pool_embed(t, i, n - i < t->cfg.gnn_batch
                                     ? n - i : t->cfg.gnn_batch);
        t->list_embedded = 1;
    }
    for (i = 0; i < n; i++)
        t->pool[i].taken = mti_visited(t, t->pool[i].hash) ||
                           !mti_valid(t, mti_list_row(t, i));
    mti_pool_predict(t);
}

/* Analytic draft: the valid settings of the lowest time bound t0 out of four
   times as many random ones (of all, when the space is that small); about one
   in ten of those kept came in whatever its bound. */
static void mti_draft(metatune_tuner *t, metatune_encode_rng *rng)
{
    uint16_t *d = t->move_digits;
    uint32_t i, tries = 4 * t->cfg.draft, all = t->space_size <= tries;
    uint32_t limit = all ? UINT32_MAX : 4 * tries;
    if (t->problem.list) {
        mti_draft_list(t);
        return;
    }
    t->n_pool = 0;
    if (all)
        memset(d, 0, t->n_knobs * sizeof *d);
    for (i = 0; i < limit && tries; i++) {
        if (all) {
            if (i && !mti_next_digits(t, d))
                break;
            if (!mti_usable(t, d, NULL))
                continue;
        } else {
            mti_random_digits(t, rng, d);
            if (!mti_settle(t, d, NULL))
                continue;
            tries--;
        }
        if (mti_encode(t, d, 0))
            continue;
        (void)mti_pool_add(t, d, metatune_setting_hash(d, t->n_knobs),
                           metatune_encode_rng_below(rng, 40) == 0
                               ? 1e30 : -log2(t->graph[0].t0_s));
    }
    if (t->n_pool == 0 && mti_sample(t, rng, d)) /* a sparse space */
        (void)mti_pool_add(t, d, metatune_setting_hash(d, t->n_knobs), 0);
    for (i = 0; i < t->n_pool; i += t->cfg.gnn_batch)
        mti_pool_embed(t, i, t->n_pool - i < t->cfg.gnn_batch
                                 ? t->n_pool - i : t->cfg.gnn_batch);
    mti_pool_predict(t);
}

/* One knob changed: half the time to a neighbouring value. */
static void mti_mutate(const metatune_tuner *t, metatune_encode_rng *rng,
                       uint16_t *digits)
{
    uint32_t tries;
    for (tries = 0; tries < 32; tries++) {
        uint32_t k = (uint32_t)metatune_encode_rng_below(rng, t->n_knobs);
        uint32_t n = t->problem.knobs[k].n_values, d = digits[k];
        uint64_t coin = metatune_encode_rng_next(rng) >> 62;
        if (n < 2)
            continue;
        if (coin == 0 && d + 1 < n)
            d++;
        else if (coin == 1 && d > 0)
            d--;
        else
            d = (d + 1 +
                 (uint32_t)metatune_encode_rng_below(rng, n - 1)) % n;
        digits[k] = (uint16_t)d;
        return;
    }
}

/* Index of the r-th fastest point, r = 0..; n_points when there is none. */
static uint32_t mti_point_rank(const metatune_tuner *t, uint32_t r)
{
    uint32_t i, best = t->n_points, last = t->n_points, k;
    for (k = 0; k <= r; k++) {
        best = t->n_points;
        for (i = 0; i < t->n_points; i++) {
            const metatune_point *p = &t->point[i], *l = &t->point[last];
            if (!(p->value > 0))
                continue;
            /* after `last` in the order (value, trial id) */
            if (last < t->n_points &&
                (p->value < l->value ||
                 (p->value <= l->value && p->trial <= l->trial)))
                continue;
            if (best == t->n_points || p->value < t->point[best].value ||
                (p->value <= t->point[best].value &&
                 p->trial < t->point[best].trial))
                best = i;
        }
        last = best;
        if (best == t->n_points)
            break;
    }
    return best;
}

/* Annealing chains over the model's score; whatever they meet that beats the
   pool's lowest enters it. Temperature in octaves of speed. */
static void mti_anneal(metatune_tuner *t, metatune_encode_rng *rng)
{
    uint32_t c, step, n_knobs = t->n_knobs, best_n = 0;
    double kappa = mti_kappa(t);
    size_t w = (size_t)t->width, row = n_knobs * sizeof(uint16_t);
    if (!t->n_pool || t->problem.list) /* a list is scored whole */
        return;
    for (c = 0; c < t->cfg.chains; c++) {
        uint16_t *d = t->chain_digits + (size_t)c * n_knobs;
        uint32_t from = t->n_points;
        if ((c & 1) == 0 && t->n_valid)
            from = mti_point_rank(t, best_n++ % 8);
        if (from < t->n_points) {
            memcpy(d, t->point_digits + (size_t)from * n_knobs, row);
        } else {
            uint32_t a = (uint32_t)metatune_encode_rng_below(rng, t->n_pool);
            uint32_t b = (uint32_t)metatune_encode_rng_below(rng, t->n_pool);
            if (t->pool[b].key > t->pool[a].key)
                a = b; /* a tournament of two */
            memcpy(d, t->pool_digits + (size_t)a * n_knobs, row);
        }
        t->chain_score[c] = -1e30; /* the first move is always taken */
    }
    for (step = 0; step < t->cfg.moves; step++) {
        double temp = 0.5 * (1 - (double)step / t->cfg.moves);
        uint32_t first, i, n;
        for (first = 0; first < t->cfg.chains; first += n) {
            n = t->cfg.chains - first;
            if (n > t->cfg.gnn_batch)
                n = t->cfg.gnn_batch;
            for (i = 0; i < n; i++) {
                uint16_t *to = t->move_digits + (size_t)i * n_knobs;
                const uint16_t *from =
                    t->chain_digits + (size_t)(first + i) * n_knobs;
                uint32_t tries = 0;
                do { /* moves that break a constraint are drawn again */
                    memcpy(to, from, row);
                    mti_mutate(t, rng, to);
                } while (!mti_settle(t, to, from) && ++tries < 8);
                if (tries == 8)
                    memcpy(to, from, row);
            }
            mti_embed(t, t->move_digits, n, t->move_phi, t->move_s0,
                      t->move_ok);
            for (i = 0; i < n; i++) {
                const uint16_t *to = t->move_digits + (size_t)i * n_knobs;
                metatune_candidate one;
                double score, *now = &t->chain_score[first + i];
                int32_t at;
                if (!t->move_ok[i])
                    continue;
                one.s0 = t->move_s0[i];
                metatune_head_predict(&t->head, t->move_phi + i * w, &one.mu,
                                      &one.v);
                one.risk = mti_risk(t, to);
                score = mti_score(&one, kappa);
                if (score < *now &&
                    metatune_encode_rng_unit(rng) >=
                        exp((score - *now) / (temp + 1e-9)))
                    continue;
                *now = score;
                memcpy(t->chain_digits + (size_t)(first + i) * n_knobs, to,
                       row);
                at = mti_pool_add(t, to, metatune_setting_hash(to, n_knobs),
                                  score);
                if (at < 0)
                    continue;
                t->pool[at].s0 = one.s0;
                t->pool[at].mu = one.mu;
                t->pool[at].v = one.v;
                t->pool[at].risk = one.risk;
                t->pool[at].fitted = 1;
                memcpy(t->pool_phi + (size_t)at * w, t->move_phi + i * w,
                       w * sizeof *t->move_phi);
            }
        }
    }
}

/* ------------------------------------------------------------- proposing */

static metatune_slot *mti_slot_add(metatune_tuner *t, const uint16_t *digits,
                                   int32_t kind)
{
    metatune_slot *s = &t->slot[t->n_slots];
    uint16_t *d = t->slot_digits + (size_t)t->n_slots * t->n_knobs;
    memset(s, 0, sizeof *s);
    s->id = t->next_id++;
    s->kind = kind;
    s->hash = metatune_setting_hash(digits, t->n_knobs);
    memcpy(d, digits, t->n_knobs * sizeof *d);
    metatune_space_values(t->problem.knobs, t->n_knobs, d,
                          t->slot_values +
                              (size_t)t->n_slots * t->n_knobs);
    mti_visited_add(t, s->hash);
    t->n_slots++;
    return s;
}

/* The model's opinion in the problem's unit: t = t0 2^-y. */
static void mti_slot_predict(metatune_tuner *t, metatune_slot *s,
                             const metatune_candidate *c)
{
    s->predicted = 1;
    s->mean = exp2(-(c->mu + t->y_offset + c->s0));
    s->sigma = sqrt(t->spread2 * ((c->v > 0 ? c->v : 0) + t->head.s2));
}

/* Pick the highest score; after each pick believe the model's mean there
   (mu stays, v falls around it) and look again. The head keeps these beliefs:
   the caller fits it anew. */
static uint32_t mti_pick(metatune_tuner *t, uint32_t n)
{
    uint32_t i, j, picked = 0;
    size_t d = (size_t)t->width;
    double kappa = mti_kappa(t), *p = t->head.b; /* A^-1 phi of the pick */
    while (picked < n) {
        uint32_t best = t->n_pool;
        metatune_candidate *c;
        const metatune_real *phi;
        double top = -1e29;
        for (i = 0; i < t->n_pool; i++) {
            double s;
            if (t->pool[i].taken || !t->pool[i].fitted)
                continue;
            s = mti_score(&t->pool[i], kappa);
            if (s > top) {
                top = s;
                best = i;
            }
        }
        if (best == t->n_pool)
            break;
        c = &t->pool[best];
        c->taken = 1;
        mti_slot_predict(
            t, mti_slot_add(t, t->pool_digits + (size_t)best * t->n_knobs,
                            METATUNE_EXPLORE), c);
        picked++;
        phi = t->pool_phi + best * d;
        for (j = 0; j < d; j++)
            p[j] = (double)phi[j];
        mti_chol_forward(t->head.chol, p, t->width);
        mti_chol_backward(t->head.chol, p, t->width);
        for (i = 0; i < t->n_pool; i++) {
            const metatune_real *other = t->pool_phi + i * d;
            double dot = 0;
            if (t->pool[i].taken || !t->pool[i].fitted)
                continue;
            for (j = 0; j < d; j++)
                dot += p[j] * (double)other[j];
            /* Sherman-Morrison for the variance */
            t->pool[i].v -= dot * dot / (t->head.s2 + c->v);
        }
        for (j = 0; j < d; j++)
            t->head.work[j] = (double)phi[j] / sqrt(t->head.s2);
        mti_chol_update(t->head.chol, t->head.work, t->width);
    }
    return picked;
}

#define MTI_GENETIC_PARENTS 16u
#define MTI_GENETIC_TRIES 16u

/* A new valid setting: a child of two of the best, or one in eight random. 0
   with fewer than two to breed from, or when nothing is left. */
static int mti_breed(metatune_tuner *t, metatune_encode_rng *rng,
                     uint16_t *digits)
{
    uint32_t parents[MTI_GENETIC_PARENTS], n_parents = 0, k, pair, tries;
    while (n_parents < MTI_GENETIC_PARENTS &&
           (parents[n_parents] = mti_point_rank(t, n_parents)) < t->n_points)
        n_parents++;
    if (n_parents < 2)
        return 0;
    tries = metatune_encode_rng_below(rng, 8) == 0 ? MTI_GENETIC_TRIES : 0;
    for (; tries < MTI_GENETIC_TRIES; tries++) {
        const uint16_t *of[2];
        for (pair = 0; pair < 2; pair++) { /* the better of two */
            uint32_t a = (uint32_t)metatune_encode_rng_below(rng, n_parents);
            uint32_t b = (uint32_t)metatune_encode_rng_below(rng, n_parents);
            of[pair] = t->point_digits +
                       (size_t)parents[a < b ? a : b] * t->n_knobs;
        }
        for (k = 0; k < t->n_knobs; k++)
            digits[k] = metatune_encode_rng_below(rng, 10) == 0
                            ? (uint16_t)metatune_encode_rng_below(
                                  rng, t->problem.knobs[k].n_values)
                            : of[metatune_encode_rng_next(rng) >> 63][k];
        if (mti_settle(t, digits, NULL))
            return 1;
    }
    return mti_sample(t, rng, digits);
}

/* Best score's mean against the best measured: what is still to be had. */
static void mti_expect(metatune_tuner *t)
{
    double top = -1e30;
    uint32_t i;
    for (i = 0; i < t->n_pool; i++)
        if (t->pool[i].fitted && !t->pool[i].taken &&
            t->pool[i].mu + t->pool[i].s0 > top)
            top = t->pool[i].mu + t->pool[i].s0;
    t->expected_gain = 0;
    t->expected_best = top > -1e29 && (t->n_valid || t->problem.model)
                           ? exp2(-(top + t->y_offset)) : 0;
    if (t->best_value > 0 && t->expected_best > 0) {
        double gain = t->best_value / t->expected_best;
        t->expected_gain = gain > 1 ? gain : 1;
    }
}

static void mti_propose_model(metatune_tuner *t, metatune_encode_rng *rng,
                              uint32_t n)
{
    uint32_t random, refused = 0;
    uint16_t *d = t->move_digits;
    int lost;
    mti_fit(t);
    /* a wrong prior is widened, then dropped (RECIPE 6) */
    if (t->n_told >= 16 && t->tau < 0.1 && t->prior_scale > 0.9) {
        t->prior_scale = 0.25;
        mti_fit(t);
    }
    /* and where that did not help, half of the batch is bred */
    lost = t->batch > 0 && t->n_told >= 24 && t->tau < 0.1;
    if (t->batch == 0)
        random = n / 4;
    else if (lost)
        random = n - n / 2;
    else
        random = t->tau > 0.6 ? 0 : (n + 7) / 8;
    mti_draft(t, rng);
    if (t->batch > 0 || t->problem.model)
        mti_anneal(t, rng);
    mti_expect(t);
    if (t->n_slots + random < n) /* the default setting may have a place */
        (void)mti_pick(t, n - random - t->n_slots);
    mti_fit(t);
    while (t->n_slots < n && refused < 256 &&
           ((lost && mti_breed(t, rng, d)) || mti_sample(t, rng, d))) {
        /* random ones are predicted, too: records keep the model honest */
        metatune_slot *s;
        metatune_candidate c;
        memset(&c, 0, sizeof c);
        mti_embed(t, d, 1, t->move_phi, t->move_s0, t->move_ok);
        if (!t->move_ok[0]) { /* describe refused it: not proposed, ever */
            mti_visited_add(t, metatune_setting_hash(d, t->n_knobs));
            refused++;
            continue;
        }
        s = mti_slot_add(t, d, METATUNE_EXPLORE);
        c.s0 = t->move_s0[0];
        metatune_head_predict(&t->head, t->move_phi, &c.mu, &c.v);
        mti_slot_predict(t, s, &c);
    }
}

static void mti_propose_random(metatune_tuner *t, metatune_encode_rng *rng,
                               uint32_t n)
{
    while (t->n_slots < n && mti_sample(t, rng, t->move_digits))
        (void)mti_slot_add(t, t->move_digits, METATUNE_EXPLORE);
}

/* Two of the archive's settings, the nearest tasks' first. */
static void mti_propose_seeds(metatune_tuner *t, uint32_t n)
{
    const metatune_problem *p = &t->problem;
    uint16_t *d = t->move_digits;
    uint32_t i, most = t->n_slots + 2;
    for (i = 0; i < p->n_seeds && t->n_slots < n && t->n_slots < most; i++)
        if (!metatune_space_digits(p->knobs, t->n_knobs,
                                   p->seeds + (size_t)i * t->n_knobs, d) &&
            (!p->list || mti_listed(t, d)) && mti_usable(t, d, NULL))
            (void)mti_slot_add(t, d, METATUNE_EXPLORE);
}

static void mti_propose_genetic(metatune_tuner *t, metatune_encode_rng *rng,
                                uint32_t n)
{
    while (t->n_slots < n && mti_breed(t, rng, t->move_digits))
        (void)mti_slot_add(t, t->move_digits, METATUNE_EXPLORE);
    mti_propose_random(t, rng, n); /* nothing to breed from yet */
}

/* Place i of a batch belongs to chain i. */
static void mti_propose_anneal(metatune_tuner *t, metatune_encode_rng *rng,
                               uint32_t n)
{
    uint16_t *d = t->move_digits;
    uint32_t tries;
    while (t->n_slots < n) {
        uint32_t i = t->n_slots;
        int done = 0;
        for (tries = 0; tries < 16 && !done && t->walk_value[i] > 0;
             tries++) {
            memcpy(d, t->walk_digits + (size_t)i * t->n_knobs,
                   t->n_knobs * sizeof *d);
            mti_mutate(t, rng, d);
            done = mti_settle(t, d, NULL);
        }
        if (!done && !mti_sample(t, rng, d))
            return;
        (void)mti_slot_add(t, d, METATUNE_EXPLORE);
    }
}

/* A chain takes what was measured in its place, or stays. */
static void mti_walk(metatune_tuner *t, uint32_t i, double value)
{
    double temp = 0.5 * (1 - (double)t->n_told / t->total);
    metatune_encode_rng rng;
    metatune_encode_rng_init(&rng, ~t->cfg.seed,
                             (uint64_t)t->batch * t->cfg.batch + i);
    if (t->walk_value[i] > 0 && value > t->walk_value[i] &&
        metatune_encode_rng_unit(&rng) >=
            exp2(-log2(value / t->walk_value[i]) / (temp + 1e-9)))
        return;
    t->walk_value[i] = value;
    memcpy(t->walk_digits + (size_t)i * t->n_knobs,
           t->slot_digits + (size_t)i * t->n_knobs,
           t->n_knobs * sizeof *t->walk_digits);
}

static void mti_propose_grid(metatune_tuner *t, uint32_t n)
{
    uint16_t *d = t->grid_digits;
    double looked = 0;
    while (t->n_slots < n && !t->grid_end) {
        if (t->problem.list)
            memcpy(d, mti_list_row(t, t->grid_row), t->n_knobs * sizeof *d);
        if (mti_usable(t, d, NULL)) {
            (void)mti_slot_add(t, d, METATUNE_EXPLORE);
            looked = 0;
        }
        t->grid_end = t->problem.list ? ++t->grid_row == t->problem.n_list
                                      : !mti_next_digits(t, d);
        if (++looked > MTI_COUNT_STEPS) /* a desert: come again next batch */
            break;
    }
    t->counted = t->grid_end;
}

static void mti_propose_explore(metatune_tuner *t)
{
    metatune_encode_rng rng;
    uint32_t n = t->cfg.batch, left = t->total - t->n_told;
    if (n > left)
        n = left;
    if (!t->n_valid && n > t->cfg.max_failures - t->fails_in_a_row)
        n = t->cfg.max_failures - t->fails_in_a_row;
    if (t->cfg.patience) { /* the first valid one starts the count */
        uint32_t stay = t->cfg.patience - t->since_best;
        if (!t->n_valid)
            stay += stay < UINT32_MAX;
        if (n > stay)
            n = stay;
    }
    metatune_encode_rng_init(&rng, t->cfg.seed, t->batch);
    if (t->batch == 0 && t->problem.default_values && n) {
        /* a setting known to work comes first */
        memcpy(t->move_digits, t->pick_digits,
               t->n_knobs * sizeof *t->pick_digits);
        if ((!t->problem.list || mti_listed(t, t->move_digits)) &&
            mti_valid(t, t->move_digits) &&
            !mti_visited(t, metatune_setting_hash(t->move_digits,
                                                  t->n_knobs)))
            (void)mti_slot_add(t, t->move_digits, METATUNE_EXPLORE);
    }
    if (t->batch == 0)
        mti_propose_seeds(t, n);
    switch (t->cfg.strategy) {
    case METATUNE_STRATEGY_MODEL: mti_propose_model(t, &rng, n); break;
    case METATUNE_STRATEGY_GENETIC: mti_propose_genetic(t, &rng, n); break;
    case METATUNE_STRATEGY_ANNEAL: mti_propose_anneal(t, &rng, n); break;
    case METATUNE_STRATEGY_GRID: mti_propose_grid(t, n); break;
    default: mti_propose_random(t, &rng, n); break;
    }
}

/* ------------------------------------------------------ taking results in */

static uint32_t mti_fit_victim(const metatune_tuner *t)
{
    /* a failure first, else the slowest of the older three quarters: the
       newest say most about where the search is now, and the best stay */
    uint32_t i, worst = t->n_points;
    for (i = 0; i < t->n_points; i++)
        if (!(t->point[i].value > 0))
            return i;
    for (i = 0; i < t->n_points - t->n_points / 4; i++)
        if (worst == t->n_points ||
            t->point[i].value > t->point[worst].value)
            worst = i;
    return worst;
}

static void mti_point_add(metatune_tuner *t, const metatune_slot *s,
                          const uint16_t *digits)
{
    metatune_point *p;
    uint32_t at = t->n_points, k = t->n_knobs;
    size_t d = (size_t)t->width;
    if (at == t->cfg.cap_fit) {
        uint32_t out = mti_fit_victim(t), tail;
        if (out == t->n_points || out == mti_point_rank(t, 0))
            out = t->n_points - 1;
        tail = t->n_points - 1 - out; /* keep them in the order of age */
        memmove(t->point + out, t->point + out + 1, tail * sizeof *t->point);
        memmove(t->point_digits + (size_t)out * k,
                t->point_digits + (size_t)(out + 1) * k,
                (size_t)tail * k * sizeof *t->point_digits);
        if (d)
            memmove(t->point_phi + out * d, t->point_phi + (out + 1) * d,
                    tail * d * sizeof *t->point_phi);
        at = --t->n_points;
    }
    p = &t->point[at];
    memset(p, 0, sizeof *p);
    p->hash = s->hash;
    p->trial = (uint32_t)s->id;
    p->exact = s->exact ? 1 : 0;
    p->value = s->status == METATUNE_OK ? s->value : 0;
    memcpy(t->point_digits + (size_t)at * k, digits, k * sizeof *digits);
    if (d) {
        mti_embed(t, digits, 1, t->point_phi + at * d, t->move_s0,
                  t->move_ok);
        p->fitted = t->move_ok[0] ? 1 : 0;
        if (p->fitted && p->value > 0)
            p->y = -t->move_s0[0] - log2(p->value);
    }
    t->n_points++;
}

/* The batch is told: take its results in, in trial-id order. */
static void mti_commit(metatune_tuner *t)
{
    uint32_t i;
    for (i = 0; i < t->n_slots; i++) {
        const metatune_slot *s = &t->slot[i];
        if (s->kind == METATUNE_CONFIRM) {
            if (s->status == METATUNE_OK)
                t->confirm[s->top * t->cfg.confirm_repeat +
                           t->n_confirmed[s->top]++] = s->value;
            else if (s->status == METATUNE_WRONG) /* no longer a winner */
                t->point[t->top[s->top]].value = 0;
            continue;
        }
        mti_point_add(t, s, t->slot_digits + (size_t)i * t->n_knobs);
        if (t->walk_value && s->status == METATUNE_OK)
            mti_walk(t, i, s->value);
        t->n_told++;
        if (s->status != METATUNE_OK) {
            if (!t->n_valid)
                t->fails_in_a_row++;
            if (t->n_valid)
                t->since_best++;
            continue;
        }
        t->n_valid++;
        if (!(t->best_value > 0) || s->value < t->best_value) {
            t->best_value = s->value;
            t->since_best = 0;
        } else {
            t->since_best++;
        }
    }
    t->batch += t->n_slots > 0;
    t->n_slots = 0;
}

static double mti_elapsed(const metatune_tuner *t)
{
    return t->problem.now ? t->problem.now(t->problem.user) - t->start_s : 0;
}

/* The seconds of this phase are used up: the last tenth of the budget is for
   confirming. */
static int mti_time_up(const metatune_tuner *t)
{
    double share = t->phase == METATUNE_EXPLORE && !t->cfg.no_confirm ? 0.9
                                                                      : 1;
    return t->cfg.seconds > 0 && mti_elapsed(t) >= t->cfg.seconds * share;
}

/* Forget the trials of the open batch that are in state `from` or below it;
   what was told stays. */
static void mti_slots_drop(metatune_tuner *t, int32_t from)
{
    uint32_t i, keep = 0, k = t->n_knobs;
    for (i = 0; i < t->n_slots; i++) {
        if (t->slot[i].state <= from)
            continue;
        t->slot[keep] = t->slot[i];
        memmove(t->slot_digits + (size_t)keep * k,
                t->slot_digits + (size_t)i * k, k * sizeof *t->slot_digits);
        memmove(t->slot_values + (size_t)keep * k,
                t->slot_values + (size_t)i * k, k * sizeof *t->slot_values);
        keep++;
    }
    t->n_slots = keep;
}

/* Trials of the open batch that are not told. */
static uint32_t mti_untold(const metatune_tuner *t)
{
    uint32_t i, n = 0;
    for (i = 0; i < t->n_slots; i++)
        n += t->slot[i].state != MTI_TOLD;
    return n;
}

/* All explore trials that it may have are told. */
static int mti_explore_spent(const metatune_tuner *t)
{
    return t->sum.trials >= t->total || t->sum.trials >= t->n_legal;
}

/* Why no further explore batch may be proposed; OK when one may. */
static metatune_status mti_explore_end(const metatune_tuner *t)
{
    if (t->total == 0 && t->cfg.no_trials)
        return METATUNE_BUDGET;
    if (t->total == 0)
        return METATUNE_EMPTY_SPACE;
    if (t->n_told >= t->n_legal)
        return METATUNE_EXHAUSTED;
    if (!t->n_valid && t->fails_in_a_row >= t->cfg.max_failures)
        return METATUNE_NO_VALID;
    if (t->n_told >= t->total)
        return t->total < t->cfg.trials ? METATUNE_EXHAUSTED
                                        : METATUNE_BUDGET;
    if (t->cfg.patience && t->n_valid && t->since_best >= t->cfg.patience)
        return METATUNE_BUDGET;
    return mti_time_up(t) ? METATUNE_BUDGET : METATUNE_OK;
}

/* Choose what is confirmed. 0 = nothing to choose between. */
static uint32_t mti_confirm_begin(metatune_tuner *t, metatune_status reason)
{
    uint32_t i, exact = 1;
    t->n_top = 0;
    if (t->cfg.no_confirm || !t->n_valid ||
        (t->cfg.seconds > 0 && mti_elapsed(t) >= t->cfg.seconds))
        return 0;
    for (i = 0; i < t->cfg.confirm_top; i++) {
        uint32_t at = mti_point_rank(t, i);
        if (at == t->n_points)
            break;
        t->top[t->n_top++] = at;
        exact &= t->point[at].exact ? 1u : 0u;
    }
    if (t->n_top < 2 || (reason == METATUNE_EXHAUSTED && exact))
        t->n_top = 0;
    return t->n_top;
}

static void mti_propose_confirm(metatune_tuner *t)
{
    uint32_t i;
    for (i = 0; i < t->n_top; i++) {
        metatune_slot *s = mti_slot_add(
            t, t->point_digits + (size_t)t->top[i] * t->n_knobs,
            METATUNE_CONFIRM);
        s->top = i;
        s->repeat = t->confirm_round;
    }
    t->confirm_round++;
}

/* Fill the next batch, or set the end. */
static void mti_propose(metatune_tuner *t)
{
    metatune_status reason;
    if (t->phase == METATUNE_EXPLORE) {
        reason = mti_explore_end(t);
        if (!reason) {
            mti_propose_explore(t);
            if (t->n_slots)
                return;
            /* nothing left that is valid and new */
            /* empty is said only of what was counted to the end */
            reason = t->n_told ? METATUNE_EXHAUSTED
                     : t->counted && !t->n_visited ? METATUNE_EMPTY_SPACE
                                                   : METATUNE_NO_VALID;
        }
        if (!t->n_valid && t->n_told)
            reason = METATUNE_NO_VALID;
        t->sum.end = reason;
        if (!mti_confirm_begin(t, reason)) {
            t->end = reason;
            return;
        }
        t->phase = METATUNE_CONFIRM;
    }
    if (t->confirm_round < t->cfg.confirm_repeat && !mti_time_up(t))
        mti_propose_confirm(t);
    else
        t->end = t->sum.end;
}

METATUNE_API metatune_status metatune_ask(metatune_tuner *tuner,
                                          metatune_trial *trials, size_t n,
                                          size_t *count)
{
    metatune_tuner *t = tuner;
    uint32_t i, untold = 0, open = 0;
    size_t out = 0;
    double begin;
    if (!t || !trials || !n || !count)
        return METATUNE_BAD_ARG;
    *count = 0;
    if (t->end)
        return t->end;
    for (i = 0; i < t->n_slots; i++) {
        untold += t->slot[i].state != MTI_TOLD;
        open += t->slot[i].state == MTI_OPEN;
    }
    if (untold && mti_time_up(t)) { /* no more of this batch */
        if (open)
            return METATUNE_WAIT;
        mti_slots_drop(t, MTI_READY);
        untold = 0;
    }
    if (!untold) {
        begin = mti_elapsed(t);
        mti_commit(t);
        mti_propose(t);
        t->think_s += mti_elapsed(t) - begin;
        if (t->end)
            return t->end;
    }
    for (i = 0; i < t->n_slots && out < n; i++) {
        metatune_slot *s = &t->slot[i];
        metatune_trial *r = &trials[out];
        if (s->state != MTI_READY)
            continue;
        s->state = MTI_OPEN;
        r->id = s->id;
        r->batch = t->batch;
        r->kind = s->kind;
        r->repeat = s->repeat;
        r->attempt = s->attempt;
        r->digits = t->slot_digits + (size_t)i * t->n_knobs;
        r->values = t->slot_values + (size_t)i * t->n_knobs;
        r->hash = s->hash;
        r->predicted = s->predicted;
        r->mean = s->mean;
        r->sigma = s->sigma;
        out++;
    }
    *count = out;
    return out ? METATUNE_OK : METATUNE_WAIT;
}

/* Error text for people: printable ASCII, cut. */
static void mti_text_cut(char *buf, size_t cap, const char *text, size_t n)
{
    size_t i;
    if (!text)
        n = 0;
    for (i = 0; i < n && i + 1 < cap; i++)
        buf[i] = text[i] >= 32 && text[i] < 127 ? text[i] : ' ';
    buf[i] = 0;
}

static void mti_count_result(metatune_tuner *t, metatune_status st,
                             const metatune_result *r)
{
    metatune_summary *s = &t->sum;
    uint32_t i, most = 0;
    s->by_status[st]++;
    s->build_s += r->build_s > 0 ? r->build_s : 0;
    s->run_s += r->run_s > 0 ? r->run_s : 0;
    if (st == METATUNE_OK)
        return;
    if (!s->first_failure) {
        s->first_failure = st;
        mti_text_cut(s->first_error, sizeof s->first_error, r->error,
                     r->error_bytes);
    }
    for (i = 1; i < 9; i++)
        if (s->by_status[i] > s->by_status[most] || !most)
            most = i;
    if (s->by_status[most] == s->by_status[st])
        most = (uint32_t)st; /* ties: the newest, whose text is at hand */
    if (most == (uint32_t)st) {
        s->top_failure = st;
        mti_text_cut(s->top_error, sizeof s->top_error, r->error,
                     r->error_bytes);
    }
}

METATUNE_API metatune_status metatune_tell(metatune_tuner *tuner, uint64_t id,
                                           const metatune_result *result)
{
    metatune_tuner *t = tuner;
    metatune_slot *s = NULL;
    metatune_status st;
    uint32_t i, total = 0;
    if (!t || !result || (uint32_t)result->status > METATUNE_NOT_RUN)
        return METATUNE_BAD_ARG;
    for (i = 0; i < t->n_slots; i++)
        if (t->slot[i].id == id && t->slot[i].state == MTI_OPEN)
            s = &t->slot[i];
    if (!s)
        return METATUNE_NOT_FOUND;
    st = result->status;
    if (st == METATUNE_OK &&
        !(result->value > 0 && result->value - result->value <= 0))
        st = METATUNE_INVALID_TIME;
    if (st == METATUNE_NOT_RUN || st == METATUNE_CANCELLED) {
        s->state = MTI_READY;
        return METATUNE_OK;
    }
    mti_count_result(t, st, result);
    if (st == METATUNE_DEVICE_LOST && s->attempt == 0) {
        s->attempt = 1;
        s->state = MTI_READY;
        return METATUNE_OK;
    }
    if (st == METATUNE_DEVICE_LOST)
        (void)metatune_quarantine(
            t, t->slot_digits + (size_t)(s - t->slot) * t->n_knobs);
    s->state = MTI_TOLD;
    s->status = st;
    s->value = result->value;
    s->exact = result->samples && result->n_samples >= 2;
    for (i = 1; s->exact && i < result->n_samples; i++)
        if (result->samples[i] < result->samples[0] ||
            result->samples[i] > result->samples[0])
            s->exact = 0;
    if (s->kind == METATUNE_EXPLORE)
        t->sum.trials++;
    else
        t->sum.confirms++;
    for (i = 0; i < 9; i++)
        total += t->sum.by_status[i];
    t->sum.reference_suspect =
        total >= 10 && t->sum.by_status[METATUNE_WRONG] > total / 10 * 9;
    return METATUNE_OK;
}

METATUNE_API metatune_status metatune_done(const metatune_tuner *tuner)
{
    return tuner ? tuner->end : METATUNE_BAD_ARG;
}

METATUNE_API void metatune_stop(metatune_tuner *tuner, metatune_status reason)
{
    metatune_tuner *t = tuner;
    if (!t || t->end)
        return;
    mti_slots_drop(t, MTI_OPEN); /* what was told counts for best() */
    mti_commit(t);
    t->end = reason ? reason : METATUNE_CANCELLED;
    t->sum.end = t->end;
}

/* Median of n <= 16 numbers, which are sorted in place. */
static double mti_median(double *x, uint32_t n)
{
    uint32_t i, j;
    for (i = 1; i < n; i++) {
        double v = x[i];
        for (j = i; j > 0 && x[j - 1] > v; j--)
            x[j] = x[j - 1];
        x[j] = v;
    }
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* The model's favourite, nothing measured yet. */
static int mti_model_pick(metatune_tuner *t)
{
    metatune_encode_rng rng;
    uint32_t i, best = 0;
    if (!t->width)
        return 0;
    metatune_encode_rng_init(&rng, t->cfg.seed, 0);
    mti_fit(t);
    mti_draft(t, &rng);
    if (t->problem.model)
        mti_anneal(t, &rng);
    if (!t->n_pool)
        return 0;
    for (i = 0; i < t->n_pool; i++)
        if (t->pool[i].fitted && !(t->problem.list && t->pool[i].taken) &&
            t->pool[i].mu + t->pool[i].s0 >
                t->pool[best].mu + t->pool[best].s0)
            best = i;
    memcpy(t->pick_digits, t->pool_digits + (size_t)best * t->n_knobs,
           t->n_knobs * sizeof *t->pick_digits);
    return 1;
}

METATUNE_API metatune_status metatune_best_get(metatune_tuner *tuner,
                                               metatune_best *best)
{
    metatune_tuner *t = tuner;
    const metatune_slot *open = NULL;
    uint32_t i, at;
    int told;
    if (!t || !best)
        return METATUNE_BAD_ARG;
    memset(best, 0, sizeof *best);
    for (i = 0; i < t->n_slots && t->slot[i].state == MTI_TOLD; i++) {}
    if (t->n_slots && i == t->n_slots)
        mti_commit(t); /* as the next ask would */
    at = mti_point_rank(t, 0);
    told = t->n_told > 0;
    for (i = 0; i < t->n_slots; i++) { /* told in a batch still open */
        const metatune_slot *s = &t->slot[i];
        if (s->state != MTI_TOLD || s->kind != METATUNE_EXPLORE)
            continue;
        told = 1;
        if (s->status == METATUNE_OK &&
            (at == t->n_points || s->value < t->point[at].value) &&
            (!open || s->value < open->value))
            open = s;
    }
    if (told && at == t->n_points && !open)
        return METATUNE_NOT_FOUND;
    if (open) {
        memcpy(t->pick_digits,
               t->slot_digits + (size_t)(open - t->slot) * t->n_knobs,
               t->n_knobs * sizeof *t->pick_digits);
        best->measured = 1;
        best->value = open->value;
        best->trial = open->id;
        best->hash = open->hash;
    } else if (!told) {
        if (!(t->problem.model && mti_model_pick(t)) &&
            !t->problem.default_values && !mti_model_pick(t)) {
            metatune_encode_rng rng; /* any setting that is legal */
            metatune_encode_rng_init(&rng, t->cfg.seed, 0);
            if (!mti_sample(t, &rng, t->move_digits))
                return METATUNE_NOT_FOUND;
            memcpy(t->pick_digits, t->move_digits,
                   t->n_knobs * sizeof *t->pick_digits);
        }
        best->hash = metatune_setting_hash(t->pick_digits, t->n_knobs);
    } else {
        double sorted[16], low = 0, high = 0;
        best->value = t->point[at].value;
        for (i = 0; i < t->n_top; i++) {
            uint32_t n = t->n_confirmed[i];
            double median;
            if (!n || !(t->point[t->top[i]].value > 0))
                continue;
            memcpy(sorted, t->confirm + i * t->cfg.confirm_repeat,
                   n * sizeof *sorted);
            median = mti_median(sorted, n);
            if (best->confirmed && median >= best->value)
                continue;
            best->confirmed = 1;
            best->value = median;
            low = sorted[0];
            high = sorted[n - 1];
            at = t->top[i];
        }
        if (best->confirmed)
            best->spread = (high - low) / best->value;
        for (i = 0; best->confirmed && i < t->n_top; i++) {
            uint32_t n = t->n_confirmed[i];
            if (!n || t->top[i] == at)
                continue;
            memcpy(sorted, t->confirm + i * t->cfg.confirm_repeat,
                   n * sizeof *sorted);
            if (mti_median(sorted, n) <= high)
                best->ties++;
        }
        memcpy(t->pick_digits, t->point_digits + (size_t)at * t->n_knobs,
               t->n_knobs * sizeof *t->pick_digits);
        best->measured = 1;
        best->trial = t->point[at].trial;
        best->hash = t->point[at].hash;
    }
    metatune_space_values(t->problem.knobs, t->n_knobs, t->pick_digits,
                          t->pick_values);
    best->digits = t->pick_digits;
    best->values = t->pick_values;
    return METATUNE_OK;
}

METATUNE_API void metatune_summary_get(const metatune_tuner *tuner,
                                       metatune_summary *summary)
{
    if (!summary)
        return;
    memset(summary, 0, sizeof *summary);
    if (!tuner)
        return;
    *summary = tuner->sum;
    summary->end = tuner->end;
    summary->think_s = tuner->think_s;
}

/* -------------------------------------------------------------- [M-TUNE] */

#ifdef METATUNE_NO_RECORDS
static size_t mti_record_room(const metatune_problem *problem)
{
    (void)problem;
    return 0;
}
#else
static metatune_text mti_text_of(const char *s)
{
    metatune_text x;
    x.p = s ? s : "";
    x.n = strlen(x.p);
    return x;
}

/* What every line of a run has. */
static void mti_record_begin(const metatune_problem *p, metatune_record *r,
                             int32_t kind)
{
    memset(r, 0, sizeof *r);
    r->kind = kind;
    r->version = METATUNE_RECORD_VERSION;
    r->task = mti_text_of(p->task);
    r->target = mti_text_of(p->target);
    r->unit = p->unit;
    if (kind == METATUNE_RECORD_TRIAL) {
        r->knobs = p->knobs;
        r->n_knobs = p->n_knobs;
    }
}

static size_t mti_record_room(const metatune_problem *problem)
{
    metatune_record r;
    mti_record_begin(problem, &r, METATUNE_RECORD_TRIAL);
    r.run.n = 16;
    r.strategy.n = 16;
    r.error.n = METATUNE_RECORD_ERROR;
    r.n_samples = METATUNE_RECORD_SAMPLES;
    return metatune_record_memsize(&r);
}

/* 16 hex digits that name the run: the same seed, task, target and space make
   the same run, so a resumed one carries on under its name. */
static void mti_run_id(const metatune_tuner *t, char *id)
{
    const metatune_problem *p = &t->problem;
    metatune_text task = mti_text_of(p->task), tgt = mti_text_of(p->target);
    uint64_t h = metatune_encode_hash_u64(t->space_hash, t->cfg.seed);
    int i;
    h = metatune_encode_hash(h, task.p, task.n);
    h = metatune_encode_hash(h, tgt.p, tgt.n);
    for (i = 15; i >= 0; i--, h >>= 4)
        id[i] = "0123456789abcdef"[h & 15];
}

static int mti_record_send(metatune_tuner *t, metatune_record *r)
{
    size_t n;
    char run[16];
    mti_run_id(t, run);
    r->run.p = run;
    r->run.n = sizeof run;
    r->seed = t->cfg.seed;
    r->space = t->space_hash;
    r->model = t->width ? t->model.hash : 0;
    r->strategy = mti_text_of(metatune_strategy_name(t->cfg.strategy));
    if (metatune_record_encode(r, t->line, t->line_bytes, &n))
        return 1;
    return t->problem.write(t->problem.user, t->line, n);
}

static int mti_record_trial(metatune_tuner *t, const metatune_trial *trial,
                            const metatune_result *result,
                            metatune_status status)
{
    metatune_record r;
    uint32_t i;
    mti_record_begin(&t->problem, &r, METATUNE_RECORD_TRIAL);
    r.trial = trial->id;
    r.batch = trial->batch;
    r.trial_kind = trial->kind;
    r.repeat = trial->repeat;
    r.attempt = trial->attempt;
    r.values = trial->values;
    r.status = status;
    r.value = status == METATUNE_OK ? result->value : 0;
    for (i = 0; result->samples && i < result->n_samples &&
                r.n_samples < METATUNE_RECORD_SAMPLES; i++)
        r.samples[r.n_samples++] = result->samples[i];
    r.build_s = result->build_s;
    r.run_s = result->run_s;
    r.think_s = t->think_s;
    r.predicted = trial->predicted;
    r.mean = trial->mean;
    r.sigma = trial->sigma;
    if (result->error) {
        r.error.p = result->error;
        r.error.n = result->error_bytes;
    }
    return mti_record_send(t, &r);
}

static int mti_record_end(metatune_tuner *t)
{
    metatune_record r;
    metatune_best best;
    mti_record_begin(&t->problem, &r, METATUNE_RECORD_END);
    r.status = t->end;
    r.trials = t->sum.trials;
    r.think_s = t->think_s;
    if (t->n_told && !metatune_best_get(t, &best))
        r.value = best.value;
    return mti_record_send(t, &r);
}

/* The history's answer to a trial, or 0. */
static int mti_recall(metatune_tuner *t, const metatune_trial *trial,
                      metatune_result *result)
{
    const metatune_history_entry *e;
    if (!t->problem.history)
        return 0;
    e = metatune_history_find(t->problem.history, trial->hash, trial->kind,
                              trial->repeat);
    if (!e)
        return 0;
    /* lost once before: this is the second attempt, still to be made */
    if (e->status == METATUNE_DEVICE_LOST && e->attempt < trial->attempt)
        return 0;
    memset(result, 0, sizeof *result);
    result->status = e->status;
    result->value = e->value;
    result->build_s = e->build_s;
    result->run_s = e->run_s;
    if (e->same[0] > 0) { /* exact then, exact now: the same confirmations */
        result->samples = e->same;
        result->n_samples = 2;
    }
    return 1;
}
#endif

/* Best explored value, 0 = none; the open batch counts, too. */
static double mti_best_now(const metatune_tuner *t)
{
    double best = t->best_value;
    uint32_t i;
    for (i = 0; i < t->n_slots; i++) {
        const metatune_slot *s = &t->slot[i];
        if (s->state == MTI_TOLD && s->kind == METATUNE_EXPLORE &&
            s->status == METATUNE_OK && (!(best > 0) || s->value < best))
            best = s->value;
    }
    return best;
}

static int mti_progress(metatune_tuner *t, const metatune_slot *last,
                        const metatune_result *result)
{
    metatune_progress p;
    uint32_t i, pace;
    memset(&p, 0, sizeof p);
    if (!t->problem.progress)
        return 0;
    p.task = t->problem.task;
    p.kind = last->kind;
    p.last = result->status;
    p.last_value = result->status == METATUNE_OK ? result->value : 0;
    p.best_value = mti_best_now(t);
    if (p.kind == METATUNE_EXPLORE) {
        p.done = t->sum.trials;
        p.total = t->total;
    } else {
        p.done = t->sum.confirms;
        p.total = t->n_top * t->cfg.confirm_repeat;
    }
    for (i = 1; i < 9; i++)
        p.failures += t->sum.by_status[i];
    p.expected_gain = t->expected_gain;
    p.left_s = -1;
    pace = t->sum.trials - (t->sum.recalled < t->sum.trials
                                ? t->sum.recalled : t->sum.trials);
    if (t->problem.now) {
        p.elapsed_s = mti_elapsed(t);
        if (pace && p.kind == METATUNE_EXPLORE)
            p.left_s = p.elapsed_s / pace * (t->total - t->sum.trials);
        if (t->cfg.seconds > 0 &&
            (p.left_s < 0 || p.left_s > t->cfg.seconds - p.elapsed_s))
            p.left_s = t->cfg.seconds > p.elapsed_s
                           ? t->cfg.seconds - p.elapsed_s : 0;
    }
    return t->problem.progress(t->problem.user, &p);
}

/* Record, tell, report one result. Returns an end reason or OK. */
static metatune_status mti_take(metatune_tuner *t,
                                const metatune_trial *trial,
                                const metatune_result *result, int recalled)
{
    metatune_status end = METATUNE_OK, st = result->status;
    metatune_slot *s = NULL;
    uint32_t i;
    if (st == METATUNE_OK &&
        !(result->value > 0 && result->value - result->value <= 0))
        st = METATUNE_INVALID_TIME;
    for (i = 0; i < t->n_slots; i++)
        if (t->slot[i].id == trial->id)
            s = &t->slot[i];
#ifndef METATUNE_NO_RECORDS
    if (!recalled && t->problem.write && st != METATUNE_NOT_RUN &&
        st != METATUNE_CANCELLED && mti_record_trial(t, trial, result, st))
        end = METATUNE_IO;
#endif
    if (metatune_tell(t, trial->id, result) || !s)
        return METATUNE_BAD_ARG;
    if (recalled && s->state == MTI_TOLD)
        t->sum.recalled++;
    if (s->state == MTI_TOLD && mti_progress(t, s, result) && !end)
        end = METATUNE_CANCELLED;
    return end;
}

/* How many trials to take at once: with a budget in seconds, no more than
   should fit in what is left, so that it is overshot by one at most. */
static size_t mti_chunk(const metatune_tuner *t)
{
    double left, each;
    uint32_t n = t->sum.trials + t->sum.confirms - t->sum.recalled;
    if (!(t->cfg.seconds > 0))
        return t->cap_slots;
    if (!n)
        return 1;
    left = t->cfg.seconds - mti_elapsed(t);
    each = (mti_elapsed(t) + 1e-9) / n;
    if (left <= 2 * each)
        return 1;
    return left / each / 2 < t->cap_slots ? (size_t)(left / each / 2)
                                          : t->cap_slots;
}

/* One ask and its answers; an end is left in t->end. */
static void mti_round(metatune_tuner *t)
{
    const metatune_problem *p = &t->problem;
    size_t n, i, m = 0, todo, told = 0;
    int lost = 0;
    metatune_status end = METATUNE_OK, st;
    if (metatune_ask(t, t->trial, mti_chunk(t), &n))
        return;
    for (i = 0; i < n; i++) { /* what the log knows is not run again */
#ifndef METATUNE_NO_RECORDS
        metatune_result known;
        if (mti_recall(t, &t->trial[i], &known)) {
            st = mti_take(t, &t->trial[i], &known, 1);
            end = end ? end : st;
            told++;
            continue;
        }
#endif
        t->trial[m++] = t->trial[i];
    }
    n = m;
    memset(t->result, 0, n * sizeof *t->result);
    for (i = 0; i < n; i++)
        t->result[i].status = METATUNE_NOT_RUN;
    if (n && !end && p->compile) {
        end = p->compile(p->user, p, t->trial, n, t->result);
        for (i = 0, todo = 0; i < n; i++) { /* built ones to the front */
            if (t->result[i].status != METATUNE_OK)
                continue;
            if (i != todo) {
                metatune_trial trial = t->trial[i];
                metatune_result result = t->result[i];
                t->trial[i] = t->trial[todo];
                t->result[i] = t->result[todo];
                t->trial[todo] = trial;
                t->result[todo] = result;
            }
            t->result[todo++].status = METATUNE_NOT_RUN;
        }
    } else {
        todo = n;
    }
    if (todo && !end)
        end = p->measure(p->user, p, t->trial, todo, t->result);
    for (i = 0; i < n; i++) {
        if ((uint32_t)t->result[i].status > METATUNE_NOT_RUN)
            t->result[i].status = METATUNE_RUNTIME;
        if (t->result[i].status == METATUNE_DEVICE_LOST) {
            if (lost) /* it was gone before this one began */
                t->result[i].status = METATUNE_NOT_RUN;
            lost = 1;
        }
        told += t->result[i].status != METATUNE_NOT_RUN &&
                t->result[i].status != METATUNE_CANCELLED;
        if (t->result[i].status == METATUNE_CANCELLED && !end)
            end = METATUNE_CANCELLED;
        st = mti_take(t, &t->trial[i], &t->result[i], 0);
        end = end ? end : st;
    }
    if (lost && !end) {
        t->sum.resets++;
        if (t->sum.resets > t->cfg.max_resets || !p->reset ||
            p->reset(p->user))
            end = METATUNE_DEVICE_LOST;
    }
    t->idle = told ? 0 : t->idle + 1;
    if (t->idle == 8 && !end) /* the target measures nothing at all */
        end = METATUNE_NOT_RUN;
    if (end)
        metatune_stop(t, end);
}

METATUNE_API metatune_status metatune_tune_batch(metatune_tuner *tuner)
{
    metatune_tuner *t = tuner;
    if (!t || (!t->problem.measure && !t->cfg.no_trials))
        return METATUNE_BAD_ARG;
    if (!t->end)
        mti_round(t);
    while (!t->end && mti_untold(t))
        mti_round(t);
    return t->end;
}

METATUNE_API metatune_status metatune_tune(metatune_tuner *tuner)
{
    metatune_tuner *t = tuner;
    if (!t || (!t->problem.measure && !t->cfg.no_trials))
        return METATUNE_BAD_ARG;
    while (!t->end)
        mti_round(t);
#ifndef METATUNE_NO_RECORDS
    if (t->problem.write && mti_record_end(t) && t->end != METATUNE_CANCELLED)
        t->end = METATUNE_IO;
#endif
    return t->end;
}

/* ----------------------------------------------------------- the schedule */

METATUNE_API metatune_status
metatune_schedule_init(metatune_schedule *schedule,
                       metatune_schedule_task *tasks, uint32_t n_tasks,
                       uint32_t trials, metatune_error *error)
{
    uint32_t i;
    if (!schedule || !tasks || n_tasks < 1)
        return mti_enc_refuse(error, METATUNE_BAD_ARG, "tasks",
                              "a schedule and one task or more");
    for (i = 0; i < n_tasks; i++) {
        metatune_schedule_task *a = &tasks[i];
        if (!a->tuner)
            return mti_enc_refuse_int(error, METATUNE_BAD_ARG,
                                      "tuner of task", (int64_t)i,
                                      "not NULL");
        if (!(a->weight > 0 && a->weight - a->weight <= 0))
            return mti_enc_refuse_int(error, METATUNE_BAD_ARG,
                                      "weight of task", (int64_t)i,
                                      "a positive finite number");
        if (a->tuner->problem.unit != tasks[0].tuner->problem.unit)
            return mti_enc_refuse_int(error, METATUNE_BAD_ARG,
                                      "unit of task", (int64_t)i,
                                      "one unit for all");
        a->before = a->gain = 0;
    }
    schedule->tasks = tasks;
    schedule->n_tasks = n_tasks;
    schedule->trials = trials;
    schedule->last = n_tasks;
    return METATUNE_OK;
}

METATUNE_API uint32_t metatune_schedule_used(const metatune_schedule *schedule)
{
    uint32_t i, used = 0;
    for (i = 0; i < schedule->n_tasks; i++)
        used += schedule->tasks[i].tuner->sum.trials;
    return used;
}

/* Weighted drop that a task's next batch should bring; `usual` stands for the
   weighted value of a task that has none yet. */
static double mti_schedule_gain(const metatune_schedule_task *a, double usual)
{
    const metatune_tuner *t = a->tuner;
    double best = mti_best_now(t), n = t->sum.trials, b = t->cfg.batch;
    double size, drop = 0;
    if (!(best > 0))
        return usual * b / (n + b);
    size = 0.1 * best;
    if (t->expected_best > 0)
        size = best > t->expected_best ? best - t->expected_best : 0;
    if (size < 0.01 * best)
        size = 0.01 * best; /* a model may be wrong */
    if (a->before > best)
        drop = a->before - best;
    return a->weight * (b / (n + b) * size + 0.5 * drop);
}

METATUNE_API metatune_status
metatune_schedule_next(metatune_schedule *schedule, uint32_t *task)
{
    metatune_schedule *s = schedule;
    uint32_t i, pick, used, living = 0, valid = 0;
    double usual = 0;
    metatune_tuner *t;
    if (!s || !task)
        return METATUNE_BAD_ARG;
    used = metatune_schedule_used(s);
    pick = s->n_tasks;
    for (i = 0; i < s->n_tasks; i++) {
        const metatune_schedule_task *a = &s->tasks[i];
        double best = mti_best_now(a->tuner);
        if (best > 0) {
            usual += a->weight * best;
            valid++;
        }
        if (a->tuner->end || a->tuner->phase != METATUNE_EXPLORE ||
            mti_explore_spent(a->tuner))
            continue;
        living++;
        if (!a->tuner->sum.trials && pick == s->n_tasks)
            pick = i; /* a first batch for each, in their order */
    }
    if (!living)
        return METATUNE_EXHAUSTED;
    if (used >= s->trials)
        return METATUNE_BUDGET;
    usual = valid ? usual / valid : 1;
    for (i = 0; i < s->n_tasks; i++) {
        metatune_schedule_task *a = &s->tasks[i];
        a->gain = a->tuner->end || a->tuner->phase != METATUNE_EXPLORE ||
                          mti_explore_spent(a->tuner)
                      ? 0 : mti_schedule_gain(a, usual);
    }
    if (pick == s->n_tasks)
        for (i = 0; i < s->n_tasks; i++)
            if (s->tasks[i].gain > 0 &&
                (pick == s->n_tasks ||
                 s->tasks[i].gain > s->tasks[pick].gain))
                pick = i;
    if (pick == s->n_tasks) /* gains too small for a double */
        return METATUNE_EXHAUSTED;
    t = s->tasks[pick].tuner;
    s->tasks[pick].before = mti_best_now(t);
    if (t->total - t->sum.trials > s->trials - used)
        t->total = t->cfg.trials = t->sum.trials + (s->trials - used);
    s->last = pick;
    *task = pick;
    return METATUNE_OK;
}

METATUNE_API void metatune_schedule_close(metatune_schedule *schedule)
{
    uint32_t i;
    for (i = 0; i < schedule->n_tasks; i++) {
        metatune_tuner *t = schedule->tasks[i].tuner;
        if (t->end || t->phase != METATUNE_EXPLORE ||
            mti_explore_spent(t))
            continue;
        t->total = t->cfg.trials = t->sum.trials;
        if (!t->total)
            t->cfg.no_trials = 1;
    }
}

METATUNE_API metatune_status
metatune_schedule_tune(metatune_schedule *schedule)
{
    metatune_schedule *s = schedule;
    metatune_status st, end = METATUNE_OK;
    uint32_t i, at;
    if (!s)
        return METATUNE_BAD_ARG;
    for (i = 0; i < s->n_tasks; i++)
        if (!s->tasks[i].tuner->problem.measure)
            return METATUNE_BAD_ARG;
    while (!end && !(st = metatune_schedule_next(s, &at))) {
        metatune_tuner *t = s->tasks[at].tuner;
        (void)metatune_tune_batch(t);
        if (t->end == METATUNE_CANCELLED || t->end == METATUNE_IO)
            end = t->end; /* the user's word, or a full disk: for all */
    }
    metatune_schedule_close(s);
    for (i = 0; i < s->n_tasks; i++) { /* confirm, write the end */
        if (end)
            metatune_stop(s->tasks[i].tuner, end);
        st = metatune_tune(s->tasks[i].tuner);
        if (!end && (st == METATUNE_CANCELLED || st == METATUNE_IO))
            end = st;
    }
    return end ? end
               : metatune_schedule_used(s) >= s->trials ? METATUNE_BUDGET
                                                        : METATUNE_EXHAUSTED;
}

#undef MTI_READY
#undef MTI_OPEN
#undef MTI_TOLD
#undef MTI_SPREAD_PRIOR
#undef MTI_REJECT_TRIES
#undef MTI_COUNT_STEPS
#ifdef __cplusplus
}
#endif
#endif /* METATUNE_C */

/* Licence: public domain (unlicense.org) or MIT No Attribution (MIT-0), your
   choice; the full text of both stands at the end of metatune_encode.h. */
