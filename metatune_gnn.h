/* metatune_gnn.h - v0.1.0 - a small graph network over encoded kernels
   public domain or MIT-0, your choice; no warranty; see the end of this file

   The maths half of metatune: forward and backward of a message-passing
   network over metatune_encode graphs, losses and optimisers, all on one flat
   parameter vector. It uses encode's types and calls none of its functions, so
   a program that only predicts links without the encoder.

   CONTENTS (each room of this file begins with its token)
     [G-CONFIG]   configuration macros
     [G-CONCEPT]  dimension letters, ownership, threads, determinism
     [G-FORMULA]  what is computed
     [G-TYPES]    config, presets, windows
     [G-NET]      forward and backward
     [G-HESSIAN]  Hessian-vector products
     [G-LOSS]     losses
     [G-OPT]      optimisers
     [G-IMPL]     implementation: dimensions, layout, kernels, network

   USE
     #define METATUNE_IMPLEMENTATION    in exactly one source file, or
     #define METATUNE_STATIC            in each file, for private copies
     #include "metatune_gnn.h"

     metatune_gnn_config cfg = metatune_gnn_preset(METATUNE_GNN_DEFAULT);
     metatune_gnn_init(&net, &cfg, mem, metatune_gnn_memsize(&cfg));
     metatune_gnn_forward(&net, params, graphs, n, phi);
     metatune_gnn_mean(&cfg, params, phi, n, mu);

   [G-CONFIG]
     METATUNE_REAL           float (default) or double, see metatune_encode.h
     METATUNE_GNN_SMALL      smaller register tiles (4 by 4) and less stack,
                             for machines without vectors
     METATUNE_GEMM(trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc)
                             replaces the built-in matrix product. Row-major,
                             alpha is 1, beta is the integer 0 or 1 (0: c is
                             not read):
                               c (m,n) = op(a) (m,k) * op(b) (k,n) + beta * c
                             where op transposes when trans_* is 1, so that a
                             is then stored as (k,m) and b as (n,k). ld* are
                             the distances of stored rows, in elements; sizes
                             are size_t, a and b const metatune_real *. No
                             size is 0; c overlaps neither a nor b.
     METATUNE_USE_CBLAS      the matrix product is <cblas.h>'s: link with it.
                             These matrices are small: measure before you do

   [G-CONCEPT]
     Letters    V nodes of one graph, M present nodes of a group of graphs,
                F, G, D_dev node, global, device features, H hidden width,
                K inputs of a layer, R readouts, B graphs, D = width of phi.
     Ownership  parameters, gradients, moments are flat vectors of the caller
                (parameters may lie in flash); a metatune_gnn is only work
                memory in the caller's block. Nothing is allocated.
     Threads    no globals; one metatune_gnn a thread, parameters shared.
     Determinism the same input gives the same bits on one compiler; a graph's
                result does not depend on what else is in its batch, save for
                rounding (rows may fall into differently shaped tiles).
     Gradients  are accumulated (+=); the caller zeroes them.

   [G-FORMULA]
     Over present nodes only; N(v) = present neighbours of v, d_v = |N(v)|.
     SPLIT   z_v = W_self' h_v + W_nbr' mean_{u in N(v)} h_u + b
     GCN     z_v = W' s_v (s_v h_v + sum_{u in N(v)} s_u h_u) + b,
             s_v = (d_v + 1)^-1/2                      [K, eq. 2]
     layer   h'_v = relu(z_v) + (h_v if not the first layer and residual)
     pool    MEAN sum h / V, MAX max h, SUM sum h * METATUNE_GNN_SUM_SCALE,
             those chosen side by side in this order
     u0      = [pools, global row, device row];  u_{i+1} = relu(W_i' u_i + b_i)
     phi     = [u_last, 1], D = last width + 1;   mu = phi . out
     W are stored (inputs, outputs) row-major. Neighbours are taken as the CSR
     lists them (an edge listed twice counts twice, both ways are not
     presumed). MetaTune [M] uses GCN with hidden 16..64 and joins a gated sum
     with a max; here the sum is plain and the mean replaces it by default.

   REFERENCES
     [M]  Ryu, Sung: MetaTune, arXiv 2102.04199
     [T]  Tomczak et al., arXiv 1904.11876
     [K]  Kipf, Welling: Semi-supervised classification with graph
          convolutional networks, ICLR 2017
     [A]  Kingma, Ba: Adam, ICLR 2015; Loshchilov, Hutter: Decoupled weight
          decay, ICLR 2019
     [H]  He et al.: Delving deep into rectifiers, ICCV 2015
     [L]  Burges: From RankNet to LambdaRank to LambdaMART, 2010
     [P]  Pearlmutter: Fast exact multiplication by the Hessian, 1994
*/
#ifndef METATUNE_GNN_H
#define METATUNE_GNN_H

#include "metatune_encode.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ============================================ [G-TYPES] config, windows */

#define METATUNE_GNN_MAX_MLP 4
#define METATUNE_GNN_MAX_LAYERS 4
#define METATUNE_GNN_SUM_SCALE 0.0625 /* keeps a 16-node sum near its mean */

typedef enum metatune_gnn_conv {
    METATUNE_GNN_SPLIT = 0,
    METATUNE_GNN_GCN = 1
} metatune_gnn_conv;

/* Readouts, or'ed. */
typedef enum metatune_gnn_pool {
    METATUNE_GNN_MEAN = 1,
    METATUNE_GNN_MAX = 2,
    METATUNE_GNN_SUM = 4
} metatune_gnn_pool;

typedef enum metatune_gnn_preset_id {
    METATUNE_GNN_DEFAULT = 0,
    METATUNE_GNN_TINY = 1,       /* microcontrollers */
    METATUNE_GNN_LARGE = 2
} metatune_gnn_preset_id;

/* {0} is all defaults. The first eight fields, mlp, no_residual and
   no_propagation fix what the parameters mean, the others only the work
   memory. */
typedef struct metatune_gnn_config {
    int32_t node_features;   /* F, the row length of graph->x; 0 = 28; 1..256 */
    int32_t global_features; /* G, first ones of global_row; 0 = 24; 1..24 */
    int32_t device_features; /* first ones of device_row; 0 = 16; 1..16 */
    int32_t hidden;          /* H; 0 = 24; 1..256 */
    int32_t n_layers;        /* 0 = 2; 1..METATUNE_GNN_MAX_LAYERS */
    int32_t conv;            /* metatune_gnn_conv */
    int32_t readout;         /* metatune_gnn_pool bits; 0 = MEAN|MAX */
    int32_t n_mlp;           /* 0 = 2 (mlp 40, 24 unless given);
                                1..METATUNE_GNN_MAX_MLP */
    int32_t mlp[METATUNE_GNN_MAX_MLP]; /* widths; 1..256 each; with n_mlp = 0
                                a 0 means 40, 24; past n_mlp: ignored */
    int32_t no_residual;     /* 0: h is added back in layers after the first;
                                1: it is not */
    int32_t cap_batch;       /* graphs at once; 0 = 32; 1..65535. Forward only:
                                more graphs are done in chunks. Training: more
                                are refused with CAPACITY */
    int32_t cap_nodes;       /* slots of one graph; 0 = 64; 1..4096. Training:
                                cap_batch * cap_nodes <= 65535 */
    int32_t train;           /* 0: forward only; 1: backward, too */
    int32_t cap_edges;       /* directed edges between present nodes of one
                                graph; 0 = 8 * cap_nodes; 1..65535 */
    int32_t type_embedding;  /* reserved, node-type embedding of [T]; 0 */
    int32_t no_propagation;  /* 1: nodes do not see their neighbours, the MLP
                                baseline of [T]; conv must be GCN, whose layer
                                is then z_v = W' h_v + b; 0: they do */
    int32_t reserved;        /* 0 */
} metatune_gnn_config;

/* DEFAULT hidden 24, mlp 40-24; TINY hidden 16, mlp 32-16, cap_batch 1,
   cap_nodes 32; LARGE hidden 32, mlp 48-32. An unknown id gives DEFAULT. */
METATUNE_API metatune_gnn_config metatune_gnn_preset(metatune_gnn_preset_id id);

/* OK, or BAD_CONFIG with the field in *err (may be NULL). In all functions cfg
   NULL is all defaults. */
METATUNE_API metatune_status
metatune_gnn_config_check(const metatune_gnn_config *cfg, metatune_error *err);
/* The same config with each default written out; unused mlp widths become 0.
   BAD_CONFIG leaves *out alone. out may be cfg. */
METATUNE_API metatune_status
metatune_gnn_config_resolve(const metatune_gnn_config *cfg,
                            metatune_gnn_config *out);

/* Length of the flat parameter vector, `out` included; 0 when cfg is bad. */
METATUNE_API size_t metatune_gnn_param_count(const metatune_gnn_config *cfg);
/* D = last mlp width + 1; phi ends in a constant 1. 0 when cfg is bad. */
METATUNE_API int32_t metatune_gnn_phi_width(const metatune_gnn_config *cfg);

/* A named part of the parameter vector: (rows, cols) row-major at offset. */
typedef struct metatune_gnn_window_info {
    const char *name;            /* static */
    size_t offset, rows, cols;
} metatune_gnn_window_info;

/* In order of offset, without gaps: "conv0.self" (F,H), "conv0.nbr" (F,H),
   "conv0.bias" (1,H) (GCN: "conv0.weight", "conv0.bias"), ..., "mlp0.weight"
   (R*H+G+D_dev, mlp[0]), "mlp0.bias" (1,mlp[0]), ..., "out" (1,D). */
METATUNE_API size_t metatune_gnn_window_count(const metatune_gnn_config *cfg);
METATUNE_API metatune_status
metatune_gnn_window(const metatune_gnn_config *cfg, size_t i,
                    metatune_gnn_window_info *info);

/* Uniform weights of variance 2 / inputs [H] (SPLIT counts its two inputs),
   biases and `out` 0. params (param_count). */
METATUNE_API metatune_status
metatune_gnn_params_init(const metatune_gnn_config *cfg, metatune_real *params,
                         metatune_encode_rng *rng);

/* ======================================= [G-NET] forward and backward */

/* Work memory; no parameters. All fields are private. */
typedef struct metatune_gnn {
    metatune_gnn_config cfg;     /* resolved */
    size_t cap_slots;            /* slots a group of graphs may have */
    size_t cap_group_edges;
    size_t cap_block;            /* rows of blk */
    size_t n_graphs, n_rows;     /* of the last training forward, else 0 */
    const metatune_real **src;   /* (M) feature rows of the present nodes */
    uint32_t *base;              /* (B+1) first row of each graph */
    uint32_t *first;             /* (M+1) first neighbour of each row */
    uint16_t *nbr;               /* rows of the group; GCN lists v itself */
    uint16_t *map;               /* (cap_nodes) slot -> row of its graph */
    metatune_real *scale;        /* (M) 1/d, or s */
    metatune_real *x;            /* training: (M,F), else blk: (cap_block, *) */
    metatune_real *p;            /* (M,H) neighbour product; backward: its dz */
    metatune_real *h;            /* (M,H); training: (n_layers,M,H) */
    metatune_real *u;            /* (B,K0), then (B,mlp[i]) for each i */
    metatune_real *dh, *dz;      /* training: (M,H) each */
    metatune_real *du, *dv;      /* training: (B, widest) each */
    uint16_t *top;               /* training: (B,H) row of the maximum */
    unsigned char *mask;         /* training: (n_layers,M,H) z > 0 */
} metatune_gnn;

/* Bytes of work memory; 0 when cfg is bad or the size does not fit. */
METATUNE_API size_t metatune_gnn_memsize(const metatune_gnn_config *cfg);
/* mem aligned to 8 bytes, kept as long as the net. */
METATUNE_API metatune_status
metatune_gnn_init(metatune_gnn *net, const metatune_gnn_config *cfg, void *mem,
                  size_t bytes);

/* phi (n,D) of n graphs. Skeletons may mix. Only present nodes and edges
   between them are read. BAD_ARG: NULL, a broken CSR, or a graph without
   present nodes; CAPACITY: more slots or edges than the config says, or n >
   cap_batch in training. After an error phi is undefined. */
METATUNE_API metatune_status
metatune_gnn_forward(metatune_gnn *net, const metatune_real *params,
                     const metatune_encode_graph *const *graphs, size_t n,
                     metatune_real *phi);

/* mu (n) = phi (n,D) . out. Does nothing when cfg is bad. */
METATUNE_API void
metatune_gnn_mean(const metatune_gnn_config *cfg, const metatune_real *params,
                  const metatune_real *phi, size_t n, metatune_real *mu);
/* dphi (n,D) += dmu (n) out;  grad.out += sum dmu phi. Either may be NULL. */
METATUNE_API void
metatune_gnn_mean_backward(const metatune_gnn_config *cfg,
                           const metatune_real *params,
                           const metatune_real *phi, size_t n,
                           const metatune_real *dmu, metatune_real *dphi,
                           metatune_real *grad);

/* grad (param_count) += d/dparams of sum dphi * phi, after the forward of the
   same n graphs with the same parameters. dphi's last column belongs to the
   constant and is not read; grad's `out` is not touched. May be called again
   for another dphi. BAD_ARG without such a forward, or without cfg.train. */
METATUNE_API metatune_status
metatune_gnn_backward(metatune_gnn *net, const metatune_real *params,
                      const metatune_encode_graph *const *graphs, size_t n,
                      const metatune_real *dphi, metatune_real *grad);

/* ====================================== [G-HESSIAN] Hessian-vector product */

/* Work memory of the tangents, beside a training net's. Private. */
typedef struct metatune_gnn_tangent {
    size_t bytes;
    metatune_real *h;            /* (n_layers,M,H) */
    metatune_real *p, *dh, *dz;  /* (M,H) each */
    metatune_real *u;            /* as net->u */
    metatune_real *du, *dv;      /* (B, widest) each */
    metatune_real *dphi, *tphi;  /* (B,D) each: adjoint and its tangent */
} metatune_gnn_tangent;

/* 0 when cfg is bad; cfg->train is taken as 1. */
METATUNE_API size_t
metatune_gnn_tangent_memsize(const metatune_gnn_config *cfg);
METATUNE_API metatune_status
metatune_gnn_tangent_init(metatune_gnn_tangent *tangent,
                          const metatune_gnn_config *cfg, void *mem,
                          size_t bytes);

/* Of a loss l(mu) that is a sum over points of a function of each mu alone:
   hv (param_count) += (d^2 l / d params^2) v, exactly, by the R-operator [P]
   through forward and backward; `out` is among the parameters. dmu (n) and
   ddmu (n) are l' and l'' at each point; net and phi (n,D) those of a training
   forward of the same n graphs with the same params. Which relu is open and
   which row is a maximum is held fixed, as derivatives do. v and hv (both
   param_count) do not overlap. BAD_ARG without such a forward. */
METATUNE_API metatune_status
metatune_gnn_hessian_product(metatune_gnn *net, metatune_gnn_tangent *tangent,
                             const metatune_real *params,
                             const metatune_encode_graph *const *graphs,
                             size_t n, const metatune_real *phi,
                             const metatune_real *dmu,
                             const metatune_real *ddmu,
                             const metatune_real *v, metatune_real *hv);

/* ===================================================== [G-LOSS] losses */

/* Each returns sum w l / sum w over n points and writes its derivatives by mu
   (and var) when the pointer is not NULL. weight NULL = all 1; weights are
   >= 0; when n or their sum is 0, loss and derivatives are 0. r = mu - y. */

/* l = r^2 / 2 */
METATUNE_API double
metatune_gnn_loss_squared(const metatune_real *mu, const metatune_real *y,
                          const metatune_real *weight, size_t n,
                          metatune_real *dmu);
/* l = r^2 / 2 for |r| < 1, |r| - 1/2 else (beta = 1) */
METATUNE_API double
metatune_gnn_loss_smooth_l1(const metatune_real *mu, const metatune_real *y,
                            const metatune_real *weight, size_t n,
                            metatune_real *dmu);
/* l = [log var + r^2 / var] / 2, var > 0 */
METATUNE_API double
metatune_gnn_loss_gaussian(const metatune_real *mu, const metatune_real *var,
                           const metatune_real *y, const metatune_real *weight,
                           size_t n, metatune_real *dmu, metatune_real *dvar);

/* Pairwise logistic loss over all pairs with y_i > y_j, weighted as LambdaRank
   does [L], by what exchanging the two in the order of mu would change in
   DCG:
     w_ij = |2^(y_i - y_max) - 2^(y_j - y_max)| * |1/lg(1+r_i) - 1/lg(1+r_j)|
     loss = sum w_ij log(1 + exp(mu_j - mu_i)) / sum w_ij
   lg is log2, r_i the rank of mu_i, 1 the highest, ties by index; with y =
   log2 of speed the gain is the share of the best. The weights count as
   constants in the derivative. 0 without such a pair. O(n^2). */
METATUNE_API double
metatune_gnn_loss_rank(const metatune_real *mu, const metatune_real *y,
                       size_t n, metatune_real *dmu);

/* ================================================== [G-OPT] optimisers */

/* params (n) -= rate * grad (n) */
METATUNE_API void metatune_gnn_sgd_step(metatune_real *params,
                                        const metatune_real *grad, size_t n,
                                        double rate);

/* Scale grad (n) to the norm max_norm if it is longer; returns the norm it
   had. max_norm <= 0 only measures. */
METATUNE_API double metatune_gnn_clip(metatune_real *grad, size_t n,
                                      double max_norm);

/* Adam with decoupled weight decay [A]: with t counted up first,
     m = b1 m + (1-b1) g,  v = b2 v + (1-b2) g^2
     p = p - rate * (decay p + (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)) */
typedef struct metatune_gnn_adam {
    metatune_real *m, *v;        /* (n) each */
    size_t n;
    uint64_t t;                  /* steps done */
    double beta1;                /* _init sets 0.9 */
    double beta2;                /* 0.999 */
    double eps;                  /* 1e-8 */
    double weight_decay;         /* 0 */
} metatune_gnn_adam;

/* 0 when n is 0 or the size does not fit. */
METATUNE_API size_t metatune_gnn_adam_memsize(size_t n);
/* Zero moments; the caller may then change the constants. mem aligned to 8. */
METATUNE_API metatune_status metatune_gnn_adam_init(metatune_gnn_adam *adam,
                                                    size_t n, void *mem,
                                                    size_t bytes);
/* BAD_ARG when n is not the one of _init. */
METATUNE_API metatune_status
metatune_gnn_adam_step(metatune_gnn_adam *adam, metatune_real *params,
                       const metatune_real *grad, size_t n, double rate);

#ifdef __cplusplus
}
#endif
#endif /* METATUNE_GNN_H */

/* ============================================== [G-IMPL] implementation */

#if defined(METATUNE_GNN_IMPLEMENTATION) ||                                   \
    defined(METATUNE_IMPLEMENTATION) || defined(METATUNE_STATIC)
#ifndef METATUNE_GNN_C
#define METATUNE_GNN_C
#include "metatune_encode.h" /* a program may have seen only declarations */

#include <math.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------- checked arithmetic, layout */

/* A size that overflowed stays SIZE_MAX through further sums and products, so
   one look at the end is enough. */
static size_t mti_gnn_add(size_t a, size_t b)
{
    return a > (size_t)-1 - b ? (size_t)-1 : a + b;
}

static size_t mti_gnn_mul(size_t a, size_t b)
{
    if (a == 0 || b == 0) return 0;
    if (a == (size_t)-1 || b == (size_t)-1) return (size_t)-1;
    return a > (size_t)-1 / b ? (size_t)-1 : a * b;
}

/* Reserve count * size bytes at *at, aligned to 8; returns their offset. */
static size_t mti_gnn_take(size_t *at, size_t count, size_t size)
{
    const size_t start = *at;
    size_t end = mti_gnn_add(start, mti_gnn_mul(count, size));
    end = mti_gnn_add(end, 7u);
    *at = end == (size_t)-1 ? end : end & ~(size_t)7;
    return start;
}

/* Sizes and parameter offsets of a checked config. */
typedef struct mti_gnn_dims {
    size_t f, g, d, h, r, k0, width, max_u;
    size_t n_layers, n_mlp, mlp[METATUNE_GNN_MAX_MLP];
    size_t self[METATUNE_GNN_MAX_LAYERS]; /* SPLIT only */
    size_t nbr[METATUNE_GNN_MAX_LAYERS];  /* GCN: its only weight */
    size_t bias[METATUNE_GNN_MAX_LAYERS];
    size_t mw[METATUNE_GNN_MAX_MLP], mb[METATUNE_GNN_MAX_MLP];
    size_t out, params;
} mti_gnn_dims;

static int mti_gnn_field(metatune_error *err, const char *where, int32_t got,
                         int32_t low, int32_t high, const char *want)
{
    if (got >= low && got <= high) return 1;
    if (err) {
        err->status = METATUNE_BAD_CONFIG;
        err->where = where;
        err->want = want;
        err->got = got;
        err->has_got = 1;
    }
    return 0;
}

static metatune_status mti_gnn_resolve(const metatune_gnn_config *cfg,
                                       metatune_gnn_config *out,
                                       metatune_error *err)
{
    static const char *const mlp_name[METATUNE_GNN_MAX_MLP] = {
        "mlp[0]", "mlp[1]", "mlp[2]", "mlp[3]"
    };
    metatune_gnn_config c;
    int32_t i;

    if (cfg) c = *cfg;
    else memset(&c, 0, sizeof c);
    if (c.node_features == 0) c.node_features = METATUNE_ENCODE_NODE_FEATURES;
    if (c.global_features == 0)
        c.global_features = METATUNE_ENCODE_GLOBAL_FEATURES;
    if (c.device_features == 0)
        c.device_features = METATUNE_ENCODE_DEVICE_FEATURES;
    if (c.hidden == 0) c.hidden = 24;
    if (c.n_layers == 0) c.n_layers = 2;
    if (c.readout == 0) c.readout = METATUNE_GNN_MEAN | METATUNE_GNN_MAX;
    if (c.n_mlp == 0) {
        c.n_mlp = 2;
        if (c.mlp[0] == 0) c.mlp[0] = 40;
        if (c.mlp[1] == 0) c.mlp[1] = 24;
    }
    if (c.cap_batch == 0) c.cap_batch = 32;
    if (c.cap_nodes == 0) c.cap_nodes = 64;

    if (!mti_gnn_field(err, "node_features", c.node_features, 1, 256,
                       "1..256") ||
        !mti_gnn_field(err, "global_features", c.global_features, 1,
                       METATUNE_ENCODE_GLOBAL_FEATURES, "1..24") ||
        !mti_gnn_field(err, "device_features", c.device_features, 1,
                       METATUNE_ENCODE_DEVICE_FEATURES, "1..16") ||
        !mti_gnn_field(err, "hidden", c.hidden, 1, 256, "1..256") ||
        !mti_gnn_field(err, "n_layers", c.n_layers, 1,
                       METATUNE_GNN_MAX_LAYERS, "1..4") ||
        !mti_gnn_field(err, "conv", c.conv, 0, 1, "SPLIT or GCN") ||
        !mti_gnn_field(err, "readout", c.readout, 1, 7,
                       "MEAN, MAX, SUM or'ed") ||
        !mti_gnn_field(err, "n_mlp", c.n_mlp, 1, METATUNE_GNN_MAX_MLP,
                       "1..4") ||
        !mti_gnn_field(err, "no_residual", c.no_residual, 0, 1, "0 or 1") ||
        !mti_gnn_field(err, "cap_batch", c.cap_batch, 1, 65535, "1..65535") ||
        !mti_gnn_field(err, "cap_nodes", c.cap_nodes, 1, 4096, "1..4096") ||
        !mti_gnn_field(err, "train", c.train, 0, 1, "0 or 1") ||
        !mti_gnn_field(err, "type_embedding", c.type_embedding, 0, 0,
                       "0 (reserved)") ||
        !mti_gnn_field(err, "no_propagation", c.no_propagation, 0,
                       c.conv == METATUNE_GNN_GCN,
                       "0, or 1 with conv GCN") ||
        !mti_gnn_field(err, "reserved", c.reserved, 0, 0, "0"))
        return METATUNE_BAD_CONFIG;
    for (i = 0; i < METATUNE_GNN_MAX_MLP; i++) {
        if (i >= c.n_mlp) c.mlp[i] = 0;
        else if (!mti_gnn_field(err, mlp_name[i], c.mlp[i], 1, 256, "1..256"))
            return METATUNE_BAD_CONFIG;
    }
    if (c.cap_edges == 0) c.cap_edges = 8 * c.cap_nodes;
    if (!mti_gnn_field(err, "cap_edges", c.cap_edges, 1, 65535, "1..65535"))
        return METATUNE_BAD_CONFIG;
    /* rows of a group are numbered in 16 bits */
    if (c.train && !mti_gnn_field(err, "cap_batch", c.cap_batch, 1,
                                  65535 / c.cap_nodes,
                                  "cap_batch * cap_nodes <= 65535"))
        return METATUNE_BAD_CONFIG;
    if (out) *out = c;
    return METATUNE_OK;
}

/* c is resolved. */
static void mti_gnn_dims_set(mti_gnn_dims *dm, const metatune_gnn_config *c)
{
    size_t at = 0, i, k;

    memset(dm, 0, sizeof *dm);
    dm->f = (size_t)c->node_features;
    dm->g = (size_t)c->global_features;
    dm->d = (size_t)c->device_features;
    dm->h = (size_t)c->hidden;
    dm->n_layers = (size_t)c->n_layers;
    dm->n_mlp = (size_t)c->n_mlp;
    dm->r = (size_t)((c->readout & 1) + (c->readout >> 1 & 1) +
                     (c->readout >> 2 & 1));
    dm->k0 = dm->r * dm->h + dm->g + dm->d;
    dm->max_u = dm->r * dm->h;
    for (i = 0; i < dm->n_layers; i++) {
        k = i ? dm->h : dm->f;
        dm->self[i] = at;
        if (c->conv == METATUNE_GNN_SPLIT) at += k * dm->h;
        dm->nbr[i] = at;
        at += k * dm->h;
        dm->bias[i] = at;
        at += dm->h;
    }
    for (i = 0, k = dm->k0; i < dm->n_mlp; i++) {
        dm->mlp[i] = (size_t)c->mlp[i];
        if (dm->mlp[i] > dm->max_u) dm->max_u = dm->mlp[i];
        dm->mw[i] = at;
        at += k * dm->mlp[i];
        dm->mb[i] = at;
        at += dm->mlp[i];
        k = dm->mlp[i];
    }
    dm->width = k + 1;
    dm->out = at;
    dm->params = at + dm->width;
}

static int mti_gnn_dims_get(mti_gnn_dims *dm, const metatune_gnn_config *cfg)
{
    metatune_gnn_config c;
    if (mti_gnn_resolve(cfg, &c, NULL) != METATUNE_OK) return 0;
    mti_gnn_dims_set(dm, &c);
    return 1;
}

/* Forward only works on groups of about this many slots: matrices tall enough
   for full tiles, small enough for the first cache. */
#define MTI_GNN_GROUP 192u

/* Bytes for a resolved config; with mem also sets net's pointers. */
static size_t mti_gnn_layout(metatune_gnn *net, const metatune_gnn_config *c,
                             void *mem)
{
    const size_t rs = sizeof(metatune_real);
    const size_t batch = (size_t)c->cap_batch, nodes = (size_t)c->cap_nodes;
    const size_t edges = (size_t)c->cap_edges;
    size_t slots = mti_gnn_mul(batch, nodes), groups, block, nbrs, at = 0;
    size_t o_src, o_base, o_first, o_nbr, o_map, o_scale, o_x, o_p, o_h, o_u;
    size_t o_dh = 0, o_dz = 0, o_du = 0, o_dv = 0, o_top = 0, o_mask = 0;
    size_t i, wide;
    mti_gnn_dims dm;

    mti_gnn_dims_set(&dm, c);
    if (!c->train && slots > MTI_GNN_GROUP)
        slots = nodes > MTI_GNN_GROUP ? nodes : MTI_GNN_GROUP;
    groups = slots / nodes; /* >= 1 */
    /* two more: compaction writes before it knows whether to keep, and sees
       one edge past the limit */
    nbrs = mti_gnn_add(mti_gnn_mul(groups, edges), slots + 2);
    block = slots / 4 < 4 ? 4 : slots / 4 > 64 ? 64 : slots / 4;
    if (block > slots) block = slots;

    o_src = mti_gnn_take(&at, slots, sizeof(const metatune_real *));
    o_base = mti_gnn_take(&at, batch + 1, sizeof(uint32_t));
    o_first = mti_gnn_take(&at, slots + 1, sizeof(uint32_t));
    o_nbr = mti_gnn_take(&at, nbrs, sizeof(uint16_t));
    o_map = mti_gnn_take(&at, nodes, sizeof(uint16_t));
    o_scale = mti_gnn_take(&at, slots, rs);
    if (c->train) {
        o_x = mti_gnn_take(&at, mti_gnn_mul(slots, dm.f), rs);
    } else {
        wide = dm.f > dm.h ? dm.f : dm.h;
        o_x = mti_gnn_take(&at, mti_gnn_mul(block, wide), rs);
    }
    o_p = mti_gnn_take(&at, mti_gnn_mul(slots, dm.h), rs);
    wide = mti_gnn_mul(slots, dm.h * (c->train ? dm.n_layers : 1u));
    o_h = mti_gnn_take(&at, wide, rs);
    for (i = 0, wide = dm.k0; i < dm.n_mlp; i++) wide += dm.mlp[i];
    o_u = mti_gnn_take(&at, mti_gnn_mul(batch, wide), rs);
    if (c->train) {
        o_dh = mti_gnn_take(&at, mti_gnn_mul(slots, dm.h), rs);
        o_dz = mti_gnn_take(&at, mti_gnn_mul(slots, dm.h), rs);
        o_du = mti_gnn_take(&at, mti_gnn_mul(batch, dm.max_u), rs);
        o_dv = mti_gnn_take(&at, mti_gnn_mul(batch, dm.max_u), rs);
        o_top = mti_gnn_take(&at, mti_gnn_mul(batch, dm.h), sizeof(uint16_t));
        o_mask = mti_gnn_take(&at, mti_gnn_mul(slots, dm.h * dm.n_layers), 1u);
    }
    if (at == (size_t)-1) return 0;
    if (mem) {
        unsigned char *const b = (unsigned char *)mem;
        memset(net, 0, sizeof *net);
        net->cfg = *c;
        net->cap_slots = slots;
        net->cap_group_edges = groups * edges;
        net->cap_block = block;
        net->src = (const metatune_real **)(void *)(b + o_src);
        net->base = (uint32_t *)(void *)(b + o_base);
        net->first = (uint32_t *)(void *)(b + o_first);
        net->nbr = (uint16_t *)(void *)(b + o_nbr);
        net->map = (uint16_t *)(void *)(b + o_map);
        net->scale = (metatune_real *)(void *)(b + o_scale);
        net->x = (metatune_real *)(void *)(b + o_x);
        net->p = (metatune_real *)(void *)(b + o_p);
        net->h = (metatune_real *)(void *)(b + o_h);
        net->u = (metatune_real *)(void *)(b + o_u);
        if (c->train) {
            net->dh = (metatune_real *)(void *)(b + o_dh);
            net->dz = (metatune_real *)(void *)(b + o_dz);
            net->du = (metatune_real *)(void *)(b + o_du);
            net->dv = (metatune_real *)(void *)(b + o_dv);
            net->top = (uint16_t *)(void *)(b + o_top);
            net->mask = b + o_mask;
        }
    }
    return at;
}

static int mti_gnn_aligned(const void *mem)
{
    return ((uintptr_t)mem & 7u) == 0;
}

/* -------------------------------------------------------------- kernels */

static metatune_real mti_gnn_sqrt(metatune_real x)
{
    return sizeof(metatune_real) == sizeof(float)
               ? (metatune_real)sqrtf((float)x)
               : (metatune_real)sqrt((double)x);
}

/* Register tiles. gcc must be told to unroll the outer loops and to leave the
   innermost for the vectoriser: peeled first, it becomes scalar code. Scalar
   machines want just that. */
#if defined(__GNUC__) && !defined(__clang__)
#define MTI_GNN_UNROLL _Pragma("GCC unroll 8")
#ifdef METATUNE_GNN_SMALL
#define MTI_GNN_KEEP MTI_GNN_UNROLL
#else
#define MTI_GNN_KEEP _Pragma("GCC unroll 1")
#endif
#else
#define MTI_GNN_KEEP
#define MTI_GNN_UNROLL
#endif

/* z (N) += s * sum of the rows nbr[0..n) of p (*,ldp) */
#define MTI_GNN_SUM_TILE(NAME, N, W)                                          \
    static void NAME(const uint16_t *nbr, size_t n, const metatune_real *p,   \
                     size_t ldp, metatune_real s, metatune_real *z)           \
    {                                                                         \
        metatune_real t[N];                                                   \
        size_t e, j, q;                                                       \
        for (j = 0; j < N; j++) t[j] = 0;                                     \
        for (e = 0; e < n; e++) {                                             \
            const metatune_real *const pe = p + nbr[e] * ldp;                 \
            MTI_GNN_UNROLL                                                    \
            for (q = 0; q < N; q += W) {                                      \
                MTI_GNN_KEEP                                                  \
                for (j = 0; j < W; j++) t[q + j] += pe[q + j];                \
            }                                                                 \
        }                                                                     \
        for (j = 0; j < N; j++) z[j] += s * t[j];                             \
    }

#ifndef METATUNE_GNN_SMALL
MTI_GNN_SUM_TILE(mti_gnn_sum_24, 24, 8)
MTI_GNN_SUM_TILE(mti_gnn_sum_16, 16, 8)
MTI_GNN_SUM_TILE(mti_gnn_sum_8, 8, 8)
#endif
MTI_GNN_SUM_TILE(mti_gnn_sum_4, 4, 4)
MTI_GNN_SUM_TILE(mti_gnn_sum_1, 1, 1)

#if defined(METATUNE_USE_CBLAS) && !defined(METATUNE_GEMM)
#include <cblas.h>
#define METATUNE_GEMM mti_gnn_cblas
#define MTI_GNN_OWN_GEMM

/* Both precisions are named and the compiler drops one: METATUNE_REAL is no
   preprocessor number. */
static void mti_gnn_cblas(int trans_a, int trans_b, size_t m, size_t n,
                          size_t k, const metatune_real *a, size_t lda,
                          const metatune_real *b, size_t ldb, int beta,
                          metatune_real *c, size_t ldc)
{
    const void *const va = a, *const vb = b;
    void *const vc = c;
    if (sizeof(metatune_real) == sizeof(double))
        cblas_dgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
                    trans_b ? CblasTrans : CblasNoTrans, (int)m, (int)n,
                    (int)k, 1.0, (const double *)va, (int)lda,
                    (const double *)vb, (int)ldb, (double)beta, (double *)vc,
                    (int)ldc);
    else
        cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
                    trans_b ? CblasTrans : CblasNoTrans, (int)m, (int)n,
                    (int)k, 1.0f, (const float *)va, (int)lda,
                    (const float *)vb, (int)ldb, (float)beta, (float *)vc,
                    (int)ldc);
}
#endif

#ifndef METATUNE_GEMM
#define METATUNE_GEMM mti_gnn_gemm
#define MTI_GNN_OWN_GEMM

/* c (R,N) = or += a (R,k) * b (k,N). Element (i,p) of a lies at i*ar + p*ac:
   a transposed a costs nothing, as each element is broadcast anyway. W is the
   length left to the vectoriser and divides N. */
#define MTI_GNN_TILE(NAME, R, N, W)                                           \
    static void NAME(size_t k, const metatune_real *a, size_t ar, size_t ac,  \
                     const metatune_real *b, size_t ldb, int add,             \
                     metatune_real *c, size_t ldc)                            \
    {                                                                         \
        metatune_real t[R][N];                                                \
        size_t i, j, p, q;                                                    \
        for (i = 0; i < R; i++)                                               \
            for (j = 0; j < N; j++) t[i][j] = 0;                              \
        for (p = 0; p < k; p++) {                                             \
            const metatune_real *const ap = a + p * ac;                       \
            const metatune_real *const bp = b + p * ldb;                      \
            MTI_GNN_UNROLL                                                    \
            for (i = 0; i < R; i++) {                                         \
                const metatune_real s = ap[i * ar];                           \
                MTI_GNN_UNROLL                                                \
                for (q = 0; q < N; q += W) {                                  \
                    MTI_GNN_KEEP                                              \
                    for (j = 0; j < W; j++) t[i][q + j] += s * bp[q + j];     \
                }                                                             \
            }                                                                 \
        }                                                                     \
        for (i = 0; i < R; i++) {                                             \
            metatune_real *const ci = c + i * ldc;                            \
            if (add) for (j = 0; j < N; j++) ci[j] += t[i][j];                \
            else for (j = 0; j < N; j++) ci[j] = t[i][j];                     \
        }                                                                     \
    }

#ifndef METATUNE_GNN_SMALL
MTI_GNN_TILE(mti_gnn_tile_4x24, 4, 24, 8)
MTI_GNN_TILE(mti_gnn_tile_1x24, 1, 24, 8)
MTI_GNN_TILE(mti_gnn_tile_4x16, 4, 16, 8)
MTI_GNN_TILE(mti_gnn_tile_1x16, 1, 16, 8)
MTI_GNN_TILE(mti_gnn_tile_4x8, 4, 8, 8)
MTI_GNN_TILE(mti_gnn_tile_1x8, 1, 8, 8)
#endif
MTI_GNN_TILE(mti_gnn_tile_4x4, 4, 4, 4)
MTI_GNN_TILE(mti_gnn_tile_1x4, 1, 4, 4)
MTI_GNN_TILE(mti_gnn_tile_4x1, 4, 1, 1)
MTI_GNN_TILE(mti_gnn_tile_1x1, 1, 1, 1)

typedef void (*mti_gnn_tile_fn)(size_t, const metatune_real *, size_t, size_t,
                                const metatune_real *, size_t, int,
                                metatune_real *, size_t);

static void mti_gnn_rows(mti_gnn_tile_fn four, mti_gnn_tile_fn one, size_t m,
                         size_t k, const metatune_real *a, size_t ar,
                         size_t ac, const metatune_real *b, size_t ldb,
                         int add, metatune_real *c, size_t ldc)
{
    size_t i = 0;
    for (; i + 4 <= m; i += 4)
        four(k, a + i * ar, ar, ac, b, ldb, add, c + i * ldc, ldc);
    for (; i < m; i++)
        one(k, a + i * ar, ar, ac, b, ldb, add, c + i * ldc, ldc);
}

static void mti_gnn_gemm_n(size_t m, size_t n, size_t k,
                           const metatune_real *a, size_t ar, size_t ac,
                           const metatune_real *b, size_t ldb, int add,
                           metatune_real *c, size_t ldc)
{
    size_t j = 0;
#ifndef METATUNE_GNN_SMALL
    /* 32 goes better as 16 + 16 than as 24 + 8 */
    for (; j + 24 <= n && n - j != 32; j += 24)
        mti_gnn_rows(mti_gnn_tile_4x24, mti_gnn_tile_1x24, m, k, a, ar, ac,
                     b + j, ldb, add, c + j, ldc);
    for (; j + 16 <= n; j += 16)
        mti_gnn_rows(mti_gnn_tile_4x16, mti_gnn_tile_1x16, m, k, a, ar, ac,
                     b + j, ldb, add, c + j, ldc);
    for (; j + 8 <= n; j += 8)
        mti_gnn_rows(mti_gnn_tile_4x8, mti_gnn_tile_1x8, m, k, a, ar, ac,
                     b + j, ldb, add, c + j, ldc);
#endif
    for (; j + 4 <= n; j += 4)
        mti_gnn_rows(mti_gnn_tile_4x4, mti_gnn_tile_1x4, m, k, a, ar, ac,
                     b + j, ldb, add, c + j, ldc);
    for (; j < n; j++)
        mti_gnn_rows(mti_gnn_tile_4x1, mti_gnn_tile_1x1, m, k, a, ar, ac,
                     b + j, ldb, add, c + j, ldc);
}

#ifndef METATUNE_GNN_SMALL
#define MTI_GNN_PANEL_K 24u
#define MTI_GNN_PANEL_N 24u
#else
#define MTI_GNN_PANEL_K 8u
#define MTI_GNN_PANEL_N 8u
#endif

/* The matrix product of METATUNE_GEMM's description. A transposed b is turned
   panel by panel on the stack (2.3 KiB of float, 256 bytes if SMALL). */
static void mti_gnn_gemm(int trans_a, int trans_b, size_t m, size_t n,
                         size_t k, const metatune_real *a, size_t lda,
                         const metatune_real *b, size_t ldb, int beta,
                         metatune_real *c, size_t ldc)
{
    const size_t ar = trans_a ? 1u : lda, ac = trans_a ? lda : 1u;
    metatune_real panel[MTI_GNN_PANEL_K * MTI_GNN_PANEL_N];
    size_t j, p, jj, pp, nj, np;

    if (!trans_b) {
        mti_gnn_gemm_n(m, n, k, a, ar, ac, b, ldb, beta, c, ldc);
        return;
    }
    for (j = 0; j < n; j += nj) {
        nj = n - j < MTI_GNN_PANEL_N ? n - j : MTI_GNN_PANEL_N;
        for (p = 0; p < k; p += np) {
            np = k - p < MTI_GNN_PANEL_K ? k - p : MTI_GNN_PANEL_K;
            for (jj = 0; jj < nj; jj++)
                for (pp = 0; pp < np; pp++)
                    panel[pp * nj + jj] = b[(j + jj) * ldb + p + pp];
            mti_gnn_gemm_n(m, nj, np, a + p * ac, ar, ac, panel, nj,
                           beta || p > 0, c + j, ldc);
        }
    }
}
#endif /* METATUNE_GEMM */

static void mti_gnn_sum(const uint16_t *nbr, size_t n, const metatune_real *p,
                        size_t h, metatune_real s, metatune_real *z)
{
    size_t j = 0;
#ifndef METATUNE_GNN_SMALL
    for (; j + 24 <= h; j += 24) mti_gnn_sum_24(nbr, n, p + j, h, s, z + j);
    for (; j + 16 <= h; j += 16) mti_gnn_sum_16(nbr, n, p + j, h, s, z + j);
    for (; j + 8 <= h; j += 8) mti_gnn_sum_8(nbr, n, p + j, h, s, z + j);
#endif
    for (; j + 4 <= h; j += 4) mti_gnn_sum_4(nbr, n, p + j, h, s, z + j);
    for (; j < h; j++) mti_gnn_sum_1(nbr, n, p + j, h, s, z + j);
}

/* c (m,n): every row = row (n) */
static void mti_gnn_fill(metatune_real *c, size_t m, size_t n,
                         const metatune_real *row)
{
    size_t i;
    for (i = 0; i < m; i++) memcpy(c + i * n, row, n * sizeof *c);
}

/* sum (n) += column sums of c (m,n) */
static void mti_gnn_colsum(const metatune_real *c, size_t m, size_t n,
                           metatune_real *sum)
{
    size_t i, j;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) sum[j] += c[i * n + j];
}

static void mti_gnn_relu(metatune_real *c, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) c[i] = c[i] > 0 ? c[i] : 0;
}

/* -------------------------------------------------------------- network */

#define MTI_GNN_ABSENT 0xffffu

/* Load as many of the n graphs as fit: rows of present nodes, their
   neighbours, their scale. *count graphs were loaded. */
static metatune_status mti_gnn_load(metatune_gnn *net,
                                    const metatune_encode_graph *const *graphs,
                                    size_t n, size_t *count)
{
    const size_t f = (size_t)net->cfg.node_features;
    const size_t cap = (size_t)net->cfg.cap_edges;
    const int gcn = net->cfg.conv == METATUNE_GNN_GCN;
    const int alone = net->cfg.no_propagation;
    uint16_t *const map = net->map, *const nbr = net->nbr;
    uint32_t *const first = net->first; /* at first, holds the row's slot */
    size_t slots = 0, edges = 0, rows = 0, at = 0, g;

    for (g = 0; g < n; g++) {
        const metatune_encode_graph *const gr = graphs[g];
        const size_t base = rows, at0 = at;
        size_t v, r, nv, present = 0, used = 0, limit;

        if (!gr || !gr->row || !gr->col || !gr->present || !gr->x)
            return METATUNE_BAD_ARG;
        if (gr->n_nodes < 1) return METATUNE_BAD_ARG;
        if (gr->n_nodes > net->cfg.cap_nodes) return METATUNE_CAPACITY;
        nv = (size_t)gr->n_nodes;
        if (slots + nv > net->cap_slots) break;
        /* presence is random to a branch predictor: write, then maybe keep */
        for (v = 0; v < nv; v++) {
            const int here = gr->present[v] != 0;
            net->src[base + present] = gr->x + v * f;
            first[base + present] = (uint32_t)v;
            map[v] = (uint16_t)(here ? present : MTI_GNN_ABSENT);
            present += (size_t)here;
        }
        if (present == 0) return METATUNE_BAD_ARG;
        limit = net->cap_group_edges - edges;
        if (limit > cap) limit = cap;
        for (r = 0; r < present; r++) {
            const size_t e1 = gr->row[first[base + r] + 1];
            size_t e = gr->row[first[base + r]], d;
            if (e > e1) return METATUNE_BAD_ARG;
            if (alone) e = e1;
            first[base + r] = (uint32_t)at;
            if (gcn) nbr[at++] = (uint16_t)(base + r);
            d = at;
            for (; e < e1; e++) {
                const size_t u = gr->col[e];
                if (u >= nv) return METATUNE_BAD_ARG;
                if (at - d > limit - used) break;
                nbr[at] = (uint16_t)(base + map[u]);
                at += map[u] != MTI_GNN_ABSENT;
            }
            d = at - d;
            if (d > limit - used) break;
            used += d;
            if (gcn)
                net->scale[base + r] =
                    1 / mti_gnn_sqrt((metatune_real)(d + 1));
            else
                net->scale[base + r] = d ? 1 / (metatune_real)d : 0;
        }
        if (r < present) { /* too many edges for the graph, or the group? */
            if (limit == cap) return METATUNE_CAPACITY;
            at = at0;
            break;
        }
        rows += present;
        slots += nv;
        edges += used;
        net->base[g] = (uint32_t)base;
    }
    net->base[g] = (uint32_t)rows;
    first[rows] = (uint32_t)at;
    net->n_rows = rows;
    *count = g;
    return METATUNE_OK;
}

/* Copy the feature rows r0..r0+n to x (n,F). */
static void mti_gnn_gather(const metatune_gnn *net, size_t r0, size_t n,
                           metatune_real *x)
{
    const size_t f = (size_t)net->cfg.node_features;
    size_t i;
    for (i = 0; i < n; i++)
        memcpy(x + i * f, net->src[r0 + i], f * sizeof *x);
}

/* p (n,H) = in (n,K) W_nbr for rows r0..r0+n, scaled by s in GCN */
static void mti_gnn_product(const metatune_gnn *net, const mti_gnn_dims *dm,
                            const metatune_real *params, size_t layer,
                            size_t r0, size_t n, const metatune_real *in)
{
    const size_t k = layer ? dm->h : dm->f, h = dm->h;
    metatune_real *const p = net->p + r0 * h;
    size_t i, j;

    METATUNE_GEMM(0, 0, n, h, k, in, k, params + dm->nbr[layer], h, 0, p, h);
    if (net->cfg.conv != METATUNE_GNN_GCN) return;
    for (i = 0; i < n; i++)
        for (j = 0; j < h; j++) p[i * h + j] *= net->scale[r0 + i];
}

/* out (n,H) = b + in (n,K) W_self; GCN has no such product */
static void mti_gnn_self(const metatune_gnn *net, const mti_gnn_dims *dm,
                         const metatune_real *params, size_t layer, size_t n,
                         const metatune_real *in, metatune_real *out)
{
    const size_t k = layer ? dm->h : dm->f, h = dm->h;

    mti_gnn_fill(out, n, h, params + dm->bias[layer]);
    if (net->cfg.conv == METATUNE_GNN_SPLIT)
        METATUNE_GEMM(0, 0, n, h, k, in, k, params + dm->self[layer], h, 1,
                      out, h);
}

/* out (n,H) holds the self part of rows r0..r0+n: add the neighbours', then
   relu, then in (n,H) unless NULL. mask (n,H) unless NULL. */
static void mti_gnn_spread(const metatune_gnn *net, size_t h, size_t r0,
                           size_t n, const metatune_real *in,
                           metatune_real *out, unsigned char *mask)
{
    size_t i, j;
    for (i = 0; i < n; i++) {
        const size_t e = net->first[r0 + i];
        metatune_real *const z = out + i * h;
        mti_gnn_sum(net->nbr + e, net->first[r0 + i + 1] - e, net->p, h,
                    net->scale[r0 + i], z);
        if (mask)
            for (j = 0; j < h; j++) mask[i * h + j] = z[j] > 0;
        if (in)
            for (j = 0; j < h; j++)
                z[j] = (z[j] > 0 ? z[j] : 0) + in[i * h + j];
        else
            mti_gnn_relu(z, h);
    }
}

/* One layer, keeping what backward needs. The neighbours' product comes before
   their sum: H <= K nearly always, and W_nbr's gradient then needs no sum of
   the inputs. */
static void mti_gnn_layer_train(metatune_gnn *net, const mti_gnn_dims *dm,
                                const metatune_real *params, size_t layer)
{
    const size_t rows = net->n_rows, mh = net->cap_slots * dm->h;
    const metatune_real *const in =
        layer ? net->h + (layer - 1) * mh : net->x;
    metatune_real *const out = net->h + layer * mh;
    const int residual = layer > 0 && !net->cfg.no_residual;

    if (layer == 0) mti_gnn_gather(net, 0, rows, net->x);
    mti_gnn_product(net, dm, params, layer, 0, rows, in);
    mti_gnn_self(net, dm, params, layer, rows, in, out);
    mti_gnn_spread(net, dm->h, 0, rows, residual ? in : NULL, out,
                   net->mask + layer * mh);
}

/* The same in place: h is read and overwritten block by block, with the old
   rows kept in x, so that a tiny net needs only two (M,H) buffers. */
static void mti_gnn_layer(metatune_gnn *net, const mti_gnn_dims *dm,
                          const metatune_real *params, size_t layer)
{
    const size_t rows = net->n_rows, h = dm->h;
    const int residual = layer > 0 && !net->cfg.no_residual;
    metatune_real *const blk = net->x;
    size_t r, n;

    if (layer > 0) mti_gnn_product(net, dm, params, layer, 0, rows, net->h);
    for (r = 0; r < rows; r += n) {
        metatune_real *const out = net->h + r * h;
        n = rows - r < net->cap_block ? rows - r : net->cap_block;
        if (layer == 0) {
            mti_gnn_gather(net, r, n, blk);
            mti_gnn_product(net, dm, params, 0, r, n, blk);
        } else {
            memcpy(blk, out, n * h * sizeof *blk);
        }
        mti_gnn_self(net, dm, params, layer, n, blk, out);
        if (layer > 0)
            mti_gnn_spread(net, h, r, n, residual ? blk : NULL, out, NULL);
    }
    /* the first layer's neighbours are complete only now */
    if (layer == 0) mti_gnn_spread(net, h, 0, rows, NULL, net->h, NULL);
}

/* u0 (count,K0) = [pools of h, global row, device row] */
static void mti_gnn_readout(metatune_gnn *net, const mti_gnn_dims *dm,
                            const metatune_encode_graph *const *graphs,
                            size_t count, const metatune_real *h,
                            metatune_real *u0)
{
    const int pools = net->cfg.readout;
    const size_t w = dm->h;
    size_t g, i, j;

    for (g = 0; g < count; g++) {
        const size_t r0 = net->base[g], r1 = net->base[g + 1];
        metatune_real *u = u0 + g * dm->k0, *sum = u;
        const metatune_real mean = 1 / (metatune_real)(r1 - r0);

        if (pools & (METATUNE_GNN_MEAN | METATUNE_GNN_SUM)) {
            /* summed once, where the last of the two goes */
            if ((pools & METATUNE_GNN_SUM) != 0)
                sum = u + (dm->r - 1) * w;
            memcpy(sum, h + r0 * w, w * sizeof *sum);
            for (i = r0 + 1; i < r1; i++)
                for (j = 0; j < w; j++) sum[j] += h[i * w + j];
        }
        if (pools & METATUNE_GNN_MEAN) {
            for (j = 0; j < w; j++) u[j] = sum[j] * mean;
            u += w;
        }
        if (pools & METATUNE_GNN_MAX) {
            memcpy(u, h + r0 * w, w * sizeof *u);
            for (i = r0 + 1; i < r1; i++)
                for (j = 0; j < w; j++)
                    u[j] = h[i * w + j] > u[j] ? h[i * w + j] : u[j];
            if (net->top) {
                uint16_t *const top = net->top + g * w;
                for (j = 0; j < w; j++) {
                    for (i = r0; i + 1 < r1 && h[i * w + j] < u[j]; i++)
                        continue;
                    top[j] = (uint16_t)i;
                }
            }
            u += w;
        }
        if (pools & METATUNE_GNN_SUM) {
            for (j = 0; j < w; j++)
                sum[j] *= (metatune_real)METATUNE_GNN_SUM_SCALE;
            u += w;
        }
        memcpy(u, graphs[g]->global_row, dm->g * sizeof *u);
        memcpy(u + dm->g, graphs[g]->device_row, dm->d * sizeof *u);
    }
}

/* u_{i+1} = relu(u_i W_i + b_i), then phi (n,D) = [u_last, 1] */
static void mti_gnn_mlp(metatune_gnn *net, const mti_gnn_dims *dm,
                        const metatune_real *params, size_t n,
                        metatune_real *phi)
{
    const size_t batch = (size_t)net->cfg.cap_batch;
    const metatune_real *in = net->u;
    size_t i, k = dm->k0;

    for (i = 0; i < dm->n_mlp; i++) {
        const size_t w = dm->mlp[i];
        metatune_real *const out = net->u + (size_t)(in - net->u) + batch * k;
        mti_gnn_fill(out, n, w, params + dm->mb[i]);
        METATUNE_GEMM(0, 0, n, w, k, in, k, params + dm->mw[i], w, 1, out, w);
        mti_gnn_relu(out, n * w);
        in = out;
        k = w;
    }
    for (i = 0; i < n; i++) {
        memcpy(phi + i * (k + 1), in + i * k, k * sizeof *phi);
        phi[i * (k + 1) + k] = 1;
    }
}

/* du (n,*) of u0's pools back to dh (M,H). */
static void mti_gnn_readout_backward(const metatune_gnn *net,
                                     const mti_gnn_dims *dm, size_t n,
                                     const metatune_real *du,
                                     metatune_real *dh)
{
    const int pools = net->cfg.readout;
    const size_t w = dm->h, rw = dm->r * w;
    size_t g, i, j;

    for (g = 0; g < n; g++) {
        const size_t r0 = net->base[g], r1 = net->base[g + 1];
        const metatune_real mean = 1 / (metatune_real)(r1 - r0);
        const metatune_real *d = du + g * rw, *dmax = NULL;
        metatune_real *const row = dh + r0 * w;

        /* u = mean h, max h, scale * sum h, in this order */
        for (j = 0; j < w; j++) row[j] = 0;
        if (pools & METATUNE_GNN_MEAN) {
            for (j = 0; j < w; j++) row[j] += d[j] * mean;
            d += w;
        }
        if (pools & METATUNE_GNN_MAX) {
            dmax = d;
            d += w;
        }
        if (pools & METATUNE_GNN_SUM)
            for (j = 0; j < w; j++)
                row[j] += d[j] * (metatune_real)METATUNE_GNN_SUM_SCALE;
        for (i = r0 + 1; i < r1; i++)
            memcpy(dh + i * w, row, w * sizeof *row);
        if (dmax)
            for (j = 0; j < w; j++)
                dh[net->top[g * w + j] * w + j] += dmax[j];
    }
}

/* q (M,H) = what dz (M,H) sends to each row along the edges */
static void mti_gnn_scatter(const metatune_gnn *net, size_t h,
                            const metatune_real *dz, metatune_real *q)
{
    size_t i, j, e;
    memset(q, 0, net->n_rows * h * sizeof *q);
    for (i = 0; i < net->n_rows; i++) {
        const metatune_real s = net->scale[i], *const d = dz + i * h;
        for (e = net->first[i]; e < net->first[i + 1]; e++) {
            metatune_real *const qe = q + net->nbr[e] * h;
            for (j = 0; j < h; j++) qe[j] += s * d[j];
        }
    }
    if (net->cfg.conv == METATUNE_GNN_GCN)
        for (i = 0; i < net->n_rows; i++)
            for (j = 0; j < h; j++) q[i * h + j] *= net->scale[i];
}

/* Through one layer: dh (M,H) of its output becomes that of its input. */
static void mti_gnn_layer_backward(metatune_gnn *net, const mti_gnn_dims *dm,
                                   const metatune_real *params, size_t layer,
                                   metatune_real *grad)
{
    const size_t rows = net->n_rows, h = dm->h, mh = net->cap_slots * h;
    const size_t k = layer ? h : dm->f;
    const int split = net->cfg.conv == METATUNE_GNN_SPLIT;
    const int residual = layer > 0 && !net->cfg.no_residual;
    const metatune_real *const in =
        layer ? net->h + (layer - 1) * mh : net->x;
    const unsigned char *const mask = net->mask + layer * mh;
    metatune_real *const dh = net->dh, *const dz = net->dz;
    metatune_real *const q = net->p; /* gradient of the product p */
    size_t i;

    /* h' = relu(z) + h */
    for (i = 0; i < rows * h; i++) dz[i] = mask[i] ? dh[i] : 0;
    /* z = b + ... */
    mti_gnn_colsum(dz, rows, h, grad + dm->bias[layer]);
    /* z_v += scale_v * sum p_u;  GCN: p_u = scale_u * (h W)_u */
    mti_gnn_scatter(net, h, dz, q);
    /* p = h W_nbr */
    METATUNE_GEMM(1, 0, k, h, rows, in, k, q, h, 1, grad + dm->nbr[layer], h);
    /* z += h W_self */
    if (split)
        METATUNE_GEMM(1, 0, k, h, rows, in, k, dz, h, 1,
                      grad + dm->self[layer], h);
    if (layer == 0) return;
    METATUNE_GEMM(0, 1, rows, k, h, q, h, params + dm->nbr[layer], h, residual,
                  dh, k);
    if (split)
        METATUNE_GEMM(0, 1, rows, k, h, dz, h, params + dm->self[layer], h, 1,
                      dh, k);
}

/* dphi (n,D) to grad of the mlp; returns du (n,R*H) of the pools. */
static const metatune_real *
mti_gnn_mlp_backward(metatune_gnn *net, const mti_gnn_dims *dm,
                     const metatune_real *params, size_t n,
                     const metatune_real *dphi, metatune_real *grad)
{
    const size_t batch = (size_t)net->cfg.cap_batch;
    const size_t last = dm->mlp[dm->n_mlp - 1];
    metatune_real *du = net->du, *dv = net->dv, *swap;
    size_t at = batch * dm->k0, i, j, k;

    for (i = 0; i + 1 < dm->n_mlp; i++) at += batch * dm->mlp[i];
    for (i = 0; i < n; i++)
        for (j = 0; j < last; j++) du[i * last + j] = dphi[i * (last + 1) + j];
    for (i = dm->n_mlp; i-- > 0;) {
        const size_t w = dm->mlp[i];
        const metatune_real *const out = net->u + at;
        /* u' = relu(u W + b); u' is the last layer's output at first */
        for (j = 0; j < n * w; j++) du[j] = out[j] > 0 ? du[j] : 0;
        k = i ? dm->mlp[i - 1] : dm->k0;
        at -= batch * k;
        mti_gnn_colsum(du, n, w, grad + dm->mb[i]);
        METATUNE_GEMM(1, 0, k, w, n, net->u + at, k, du, w, 1,
                      grad + dm->mw[i], w);
        /* global and device rows, the last rows of W_0, are constants */
        if (i == 0) k = dm->r * dm->h;
        METATUNE_GEMM(0, 1, n, k, w, du, w, params + dm->mw[i], w, 0, dv, k);
        swap = du;
        du = dv;
        dv = swap;
    }
    return du;
}

/* --------------------------------------------------- public definitions */

METATUNE_API metatune_gnn_config metatune_gnn_preset(metatune_gnn_preset_id id)
{
    metatune_gnn_config c;

    memset(&c, 0, sizeof c);
    c.n_mlp = 2;
    c.n_layers = 2;
    c.readout = METATUNE_GNN_MEAN | METATUNE_GNN_MAX;
    c.cap_batch = 32;
    c.cap_nodes = 64;
    c.hidden = 24;
    c.mlp[0] = 40;
    c.mlp[1] = 24;
    if (id == METATUNE_GNN_TINY) {
        c.hidden = 16;
        c.mlp[0] = 32;
        c.mlp[1] = 16;
        c.cap_batch = 1;
        c.cap_nodes = 32;
    } else if (id == METATUNE_GNN_LARGE) {
        c.hidden = 32;
        c.mlp[0] = 48;
        c.mlp[1] = 32;
    }
    return c;
}

METATUNE_API metatune_status
metatune_gnn_config_check(const metatune_gnn_config *cfg, metatune_error *err)
{
    return mti_gnn_resolve(cfg, NULL, err);
}

METATUNE_API metatune_status
metatune_gnn_config_resolve(const metatune_gnn_config *cfg,
                            metatune_gnn_config *out)
{
    if (!out) return METATUNE_BAD_ARG;
    return mti_gnn_resolve(cfg, out, NULL);
}

METATUNE_API size_t metatune_gnn_param_count(const metatune_gnn_config *cfg)
{
    mti_gnn_dims dm;
    return mti_gnn_dims_get(&dm, cfg) ? dm.params : 0;
}

METATUNE_API int32_t metatune_gnn_phi_width(const metatune_gnn_config *cfg)
{
    mti_gnn_dims dm;
    return mti_gnn_dims_get(&dm, cfg) ? (int32_t)dm.width : 0;
}

METATUNE_API size_t metatune_gnn_window_count(const metatune_gnn_config *cfg)
{
    metatune_gnn_config c;
    if (mti_gnn_resolve(cfg, &c, NULL) != METATUNE_OK) return 0;
    return (size_t)(c.n_layers * (c.conv == METATUNE_GNN_SPLIT ? 3 : 2) +
                    c.n_mlp * 2 + 1);
}

METATUNE_API metatune_status
metatune_gnn_window(const metatune_gnn_config *cfg, size_t i,
                    metatune_gnn_window_info *info)
{
    static const char *const conv_name[METATUNE_GNN_MAX_LAYERS][4] = {
        { "conv0.self", "conv0.nbr", "conv0.weight", "conv0.bias" },
        { "conv1.self", "conv1.nbr", "conv1.weight", "conv1.bias" },
        { "conv2.self", "conv2.nbr", "conv2.weight", "conv2.bias" },
        { "conv3.self", "conv3.nbr", "conv3.weight", "conv3.bias" }
    };
    static const char *const mlp_name[METATUNE_GNN_MAX_MLP][2] = {
        { "mlp0.weight", "mlp0.bias" }, { "mlp1.weight", "mlp1.bias" },
        { "mlp2.weight", "mlp2.bias" }, { "mlp3.weight", "mlp3.bias" }
    };
    metatune_gnn_config c;
    mti_gnn_dims dm;
    size_t parts, l, part;

    if (!info) return METATUNE_BAD_ARG;
    if (mti_gnn_resolve(cfg, &c, NULL) != METATUNE_OK)
        return METATUNE_BAD_CONFIG;
    mti_gnn_dims_set(&dm, &c);
    parts = c.conv == METATUNE_GNN_SPLIT ? 3 : 2;
    if (i < dm.n_layers * parts) {
        l = i / parts;
        /* GCN has neither self nor nbr but weight, which stands at nbr */
        part = i % parts + (parts == 2 ? 2 : i % parts == 2 ? 1 : 0);
        info->name = conv_name[l][part];
        info->offset = part == 0 ? dm.self[l] : part == 3 ? dm.bias[l]
                                                          : dm.nbr[l];
        info->rows = part == 3 ? 1 : l ? dm.h : dm.f;
        info->cols = dm.h;
        return METATUNE_OK;
    }
    i -= dm.n_layers * parts;
    if (i < dm.n_mlp * 2) {
        l = i / 2;
        part = i % 2;
        info->name = mlp_name[l][part];
        info->offset = part ? dm.mb[l] : dm.mw[l];
        info->rows = part ? 1 : l ? dm.mlp[l - 1] : dm.k0;
        info->cols = dm.mlp[l];
        return METATUNE_OK;
    }
    if (i > dm.n_mlp * 2) return METATUNE_NOT_FOUND;
    info->name = "out";
    info->offset = dm.out;
    info->rows = 1;
    info->cols = dm.width;
    return METATUNE_OK;
}

/* xoshiro256**, step for step encode's: a program may lack that function. */
static double mti_gnn_unit(metatune_encode_rng *rng)
{
    uint64_t *const s = rng->s;
    const uint64_t x = s[1] * 5u, t = s[1] << 17;
    const uint64_t out = ((x << 7) | (x >> 57)) * 9u;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return (double)(out >> 11) * (1.0 / 9007199254740992.0);
}

/* w (n) uniform in +-sqrt(6 / inputs): variance 2 / inputs */
static void mti_gnn_he(metatune_real *w, size_t n, size_t inputs,
                       metatune_encode_rng *rng)
{
    const double a = sqrt(6.0 / (double)inputs);
    size_t i;
    for (i = 0; i < n; i++)
        w[i] = (metatune_real)(a * (2.0 * mti_gnn_unit(rng) - 1.0));
}

METATUNE_API metatune_status
metatune_gnn_params_init(const metatune_gnn_config *cfg, metatune_real *params,
                         metatune_encode_rng *rng)
{
    mti_gnn_dims dm;
    size_t i, k;

    if (!params || !rng) return METATUNE_BAD_ARG;
    if (!mti_gnn_dims_get(&dm, cfg)) return METATUNE_BAD_CONFIG;
    for (i = 0; i < dm.params; i++) params[i] = 0;
    for (i = 0; i < dm.n_layers; i++) {
        /* self and nbr lie side by side; GCN has a single matrix */
        k = i ? dm.h : dm.f;
        mti_gnn_he(params + dm.self[i], dm.bias[i] - dm.self[i],
                   (dm.bias[i] - dm.self[i]) / dm.h, rng);
    }
    for (i = 0, k = dm.k0; i < dm.n_mlp; i++) {
        mti_gnn_he(params + dm.mw[i], k * dm.mlp[i], k, rng);
        k = dm.mlp[i];
    }
    return METATUNE_OK;
}

METATUNE_API size_t metatune_gnn_memsize(const metatune_gnn_config *cfg)
{
    metatune_gnn_config c;
    if (mti_gnn_resolve(cfg, &c, NULL) != METATUNE_OK) return 0;
    return mti_gnn_layout(NULL, &c, NULL);
}

METATUNE_API metatune_status
metatune_gnn_init(metatune_gnn *net, const metatune_gnn_config *cfg, void *mem,
                  size_t bytes)
{
    metatune_gnn_config c;
    size_t need;

    if (!net) return METATUNE_BAD_ARG;
    if (mti_gnn_resolve(cfg, &c, NULL) != METATUNE_OK)
        return METATUNE_BAD_CONFIG;
    need = mti_gnn_layout(NULL, &c, NULL);
    if (need == 0) return METATUNE_OVERFLOW;
    if (!mem || bytes < need || !mti_gnn_aligned(mem))
        return METATUNE_NO_MEMORY;
    (void)mti_gnn_layout(net, &c, mem);
    return METATUNE_OK;
}

METATUNE_API metatune_status
metatune_gnn_forward(metatune_gnn *net, const metatune_real *params,
                     const metatune_encode_graph *const *graphs, size_t n,
                     metatune_real *phi)
{
    mti_gnn_dims dm;
    size_t batch, done, chunk, g, count, l;
    metatune_status st;

    if (!net || !net->u || !params || (n && (!graphs || !phi)))
        return METATUNE_BAD_ARG;
    batch = (size_t)net->cfg.cap_batch;
    net->n_graphs = 0;
    if (net->cfg.train && n > batch) return METATUNE_CAPACITY;
    mti_gnn_dims_set(&dm, &net->cfg);
    for (done = 0; done < n; done += chunk) {
        chunk = n - done < batch ? n - done : batch;
        /* node layers by groups, then the mlp over the whole chunk */
        for (g = 0; g < chunk; g += count) {
            const metatune_encode_graph *const *group = graphs + done + g;
            const metatune_real *h = net->h;
            st = mti_gnn_load(net, group, chunk - g, &count);
            if (st != METATUNE_OK) return st;
            for (l = 0; l < dm.n_layers; l++) {
                if (net->cfg.train) mti_gnn_layer_train(net, &dm, params, l);
                else mti_gnn_layer(net, &dm, params, l);
            }
            if (net->cfg.train) h += (dm.n_layers - 1) * net->cap_slots * dm.h;
            mti_gnn_readout(net, &dm, group, count, h, net->u + g * dm.k0);
        }
        mti_gnn_mlp(net, &dm, params, chunk, phi + done * dm.width);
    }
    if (net->cfg.train) net->n_graphs = n;
    return METATUNE_OK;
}

METATUNE_API metatune_status
metatune_gnn_backward(metatune_gnn *net, const metatune_real *params,
                      const metatune_encode_graph *const *graphs, size_t n,
                      const metatune_real *dphi, metatune_real *grad)
{
    const metatune_real *du;
    mti_gnn_dims dm;
    size_t l;

    if (!net || !params || !graphs || !dphi || !grad) return METATUNE_BAD_ARG;
    if (!net->dz || n == 0 || n != net->n_graphs) return METATUNE_BAD_ARG;
    mti_gnn_dims_set(&dm, &net->cfg);
    du = mti_gnn_mlp_backward(net, &dm, params, n, dphi, grad);
    mti_gnn_readout_backward(net, &dm, n, du, net->dh);
    for (l = dm.n_layers; l-- > 0;)
        mti_gnn_layer_backward(net, &dm, params, l, grad);
    return METATUNE_OK;
}

/* ------------------------------------------------ Hessian-vector product
   Each step stands under the line of forward or backward it differentiates;
   t* is the tangent of *, v the direction. */

/* h' = relu(b + h W_self + scale sum (h W_nbr)) + h */
static void mti_gnn_layer_tangent(metatune_gnn *net, metatune_gnn_tangent *tan,
                                  const mti_gnn_dims *dm,
                                  const metatune_real *params,
                                  const metatune_real *v, size_t layer)
{
    const size_t rows = net->n_rows, h = dm->h, mh = net->cap_slots * h;
    const size_t k = layer ? h : dm->f;
    const int split = net->cfg.conv == METATUNE_GNN_SPLIT;
    const metatune_real *const in =
        layer ? net->h + (layer - 1) * mh : net->x;
    const metatune_real *const tin = layer ? tan->h + (layer - 1) * mh : NULL;
    metatune_real *const out = tan->h + layer * mh;
    const unsigned char *const mask = net->mask + layer * mh;
    size_t i, j;

    /* p = h W_nbr (features are constants: no tangent before layer 0) */
    METATUNE_GEMM(0, 0, rows, h, k, in, k, v + dm->nbr[layer], h, 0, tan->p,
                  h);
    if (tin)
        METATUNE_GEMM(0, 0, rows, h, k, tin, k, params + dm->nbr[layer], h, 1,
                      tan->p, h);
    if (!split)
        for (i = 0; i < rows; i++)
            for (j = 0; j < h; j++) tan->p[i * h + j] *= net->scale[i];
    /* z = b + h W_self + scale sum p */
    mti_gnn_fill(out, rows, h, v + dm->bias[layer]);
    if (split) {
        METATUNE_GEMM(0, 0, rows, h, k, in, k, v + dm->self[layer], h, 1, out,
                      h);
        if (tin)
            METATUNE_GEMM(0, 0, rows, h, k, tin, k, params + dm->self[layer],
                          h, 1, out, h);
    }
    for (i = 0; i < rows; i++) {
        const size_t e = net->first[i];
        mti_gnn_sum(net->nbr + e, net->first[i + 1] - e, tan->p, h,
                    net->scale[i], out + i * h);
    }
    /* h' = relu(z) + h */
    for (i = 0; i < rows * h; i++) out[i] = mask[i] ? out[i] : 0;
    if (tin && !net->cfg.no_residual)
        for (i = 0; i < rows * h; i++) out[i] += tin[i];
}

/* u0 = [pools of h, constants] */
static void mti_gnn_readout_tangent(const metatune_gnn *net,
                                    const mti_gnn_dims *dm, size_t n,
                                    const metatune_real *th,
                                    metatune_real *tu0)
{
    const int pools = net->cfg.readout;
    const size_t w = dm->h;
    size_t g, i, j;

    for (g = 0; g < n; g++) {
        const size_t r0 = net->base[g], r1 = net->base[g + 1];
        const metatune_real mean = 1 / (metatune_real)(r1 - r0);
        metatune_real *u = tu0 + g * dm->k0, *sum = NULL, *avg = NULL;
        metatune_real *top = NULL;
        memset(u, 0, dm->k0 * sizeof *u);
        if (pools & METATUNE_GNN_MEAN) {
            avg = u;
            u += w;
        }
        if (pools & METATUNE_GNN_MAX) {
            top = u;
            u += w;
        }
        if (pools & METATUNE_GNN_SUM) sum = u;
        for (i = r0; i < r1; i++)
            for (j = 0; j < w; j++) {
                if (avg) avg[j] += mean * th[i * w + j];
                if (sum)
                    sum[j] += (metatune_real)METATUNE_GNN_SUM_SCALE *
                              th[i * w + j];
            }
        for (j = 0; top && j < w; j++)
            top[j] = th[net->top[g * w + j] * w + j];
    }
}

/* u' = relu(u W + b), phi = [u_last, 1] */
static void mti_gnn_mlp_tangent(metatune_gnn *net, metatune_gnn_tangent *tan,
                                const mti_gnn_dims *dm,
                                const metatune_real *params,
                                const metatune_real *v, size_t n)
{
    const size_t batch = (size_t)net->cfg.cap_batch;
    size_t i, j, k = dm->k0, at = 0, next;

    for (i = 0; i < dm->n_mlp; i++) {
        const size_t w = dm->mlp[i];
        metatune_real *out;
        next = at + batch * k;
        out = tan->u + next;
        mti_gnn_fill(out, n, w, v + dm->mb[i]);
        METATUNE_GEMM(0, 0, n, w, k, tan->u + at, k, params + dm->mw[i], w, 1,
                      out, w);
        METATUNE_GEMM(0, 0, n, w, k, net->u + at, k, v + dm->mw[i], w, 1, out,
                      w);
        for (j = 0; j < n * w; j++)
            out[j] = net->u[next + j] > 0 ? out[j] : 0;
        at = next;
        k = w;
    }
    for (i = 0; i < n; i++) {
        memcpy(tan->tphi + i * (k + 1), tan->u + at + i * k,
               k * sizeof *tan->tphi);
        tan->tphi[i * (k + 1) + k] = 0;
    }
}

/* Adjoints du, tdu (n,*) of u back to those of the pools; hv of the mlp. */
static void mti_gnn_mlp_hessian(metatune_gnn *net, metatune_gnn_tangent *tan,
                                const mti_gnn_dims *dm,
                                const metatune_real *params,
                                const metatune_real *v, size_t n,
                                metatune_real *hv, metatune_real **pools,
                                metatune_real **tpools)
{
    const size_t batch = (size_t)net->cfg.cap_batch;
    const size_t last = dm->mlp[dm->n_mlp - 1];
    metatune_real *du = net->du, *dv = net->dv, *swap;
    metatune_real *tdu = tan->du, *tdv = tan->dv;
    size_t at = batch * dm->k0, i, j, k;

    for (i = 0; i + 1 < dm->n_mlp; i++) at += batch * dm->mlp[i];
    for (i = 0; i < n; i++)
        for (j = 0; j < last; j++) {
            du[i * last + j] = tan->dphi[i * (last + 1) + j];
            tdu[i * last + j] = tan->tphi[i * (last + 1) + j];
        }
    for (i = dm->n_mlp; i-- > 0;) {
        const size_t w = dm->mlp[i];
        const metatune_real *const out = net->u + at;
        /* du = relu'(u') du */
        for (j = 0; j < n * w; j++)
            if (!(out[j] > 0)) du[j] = tdu[j] = 0;
        k = i ? dm->mlp[i - 1] : dm->k0;
        at -= batch * k;
        /* grad.b = sum du,  grad.W = u' du */
        mti_gnn_colsum(tdu, n, w, hv + dm->mb[i]);
        METATUNE_GEMM(1, 0, k, w, n, tan->u + at, k, du, w, 1,
                      hv + dm->mw[i], w);
        METATUNE_GEMM(1, 0, k, w, n, net->u + at, k, tdu, w, 1,
                      hv + dm->mw[i], w);
        if (i == 0) k = dm->r * dm->h;
        /* du = du W' */
        METATUNE_GEMM(0, 1, n, k, w, tdu, w, params + dm->mw[i], w, 0, tdv,
                      k);
        METATUNE_GEMM(0, 1, n, k, w, du, w, v + dm->mw[i], w, 1, tdv, k);
        METATUNE_GEMM(0, 1, n, k, w, du, w, params + dm->mw[i], w, 0, dv, k);
        swap = du;
        du = dv;
        dv = swap;
        swap = tdu;
        tdu = tdv;
        tdv = swap;
    }
    *pools = du;
    *tpools = tdu;
}

/* dh and its tangent through one layer; hv of its weights. */
static void mti_gnn_layer_hessian(metatune_gnn *net, metatune_gnn_tangent *tan,
                                  const mti_gnn_dims *dm,
                                  const metatune_real *params,
                                  const metatune_real *v, size_t layer,
                                  metatune_real *hv)
{
    const size_t rows = net->n_rows, h = dm->h, mh = net->cap_slots * h;
    const size_t k = layer ? h : dm->f;
    const int split = net->cfg.conv == METATUNE_GNN_SPLIT;
    const int residual = layer > 0 && !net->cfg.no_residual;
    const metatune_real *const in =
        layer ? net->h + (layer - 1) * mh : net->x;
    const metatune_real *const tin = layer ? tan->h + (layer - 1) * mh : NULL;
    const unsigned char *const mask = net->mask + layer * mh;
    size_t i;

    /* dz = relu' dh */
    for (i = 0; i < rows * h; i++) {
        net->dz[i] = mask[i] ? net->dh[i] : 0;
        tan->dz[i] = mask[i] ? tan->dh[i] : 0;
    }
    /* grad.b = sum dz,  q = scatter dz */
    mti_gnn_colsum(tan->dz, rows, h, hv + dm->bias[layer]);
    mti_gnn_scatter(net, h, net->dz, net->p);
    mti_gnn_scatter(net, h, tan->dz, tan->p);
    /* grad.W_nbr = h' q,  grad.W_self = h' dz */
    METATUNE_GEMM(1, 0, k, h, rows, in, k, tan->p, h, 1, hv + dm->nbr[layer],
                  h);
    if (tin)
        METATUNE_GEMM(1, 0, k, h, rows, tin, k, net->p, h, 1,
                      hv + dm->nbr[layer], h);
    if (split) {
        METATUNE_GEMM(1, 0, k, h, rows, in, k, tan->dz, h, 1,
                      hv + dm->self[layer], h);
        if (tin)
            METATUNE_GEMM(1, 0, k, h, rows, tin, k, net->dz, h, 1,
                          hv + dm->self[layer], h);
    }
    if (layer == 0) return;
    /* dh = q W_nbr' + dz W_self' + dh */
    METATUNE_GEMM(0, 1, rows, k, h, tan->p, h, params + dm->nbr[layer], h,
                  residual, tan->dh, k);
    METATUNE_GEMM(0, 1, rows, k, h, net->p, h, v + dm->nbr[layer], h, 1,
                  tan->dh, k);
    METATUNE_GEMM(0, 1, rows, k, h, net->p, h, params + dm->nbr[layer], h,
                  residual, net->dh, k);
    if (split) {
        METATUNE_GEMM(0, 1, rows, k, h, tan->dz, h, params + dm->self[layer],
                      h, 1, tan->dh, k);
        METATUNE_GEMM(0, 1, rows, k, h, net->dz, h, v + dm->self[layer], h, 1,
                      tan->dh, k);
        METATUNE_GEMM(0, 1, rows, k, h, net->dz, h, params + dm->self[layer],
                      h, 1, net->dh, k);
    }
}

static size_t mti_gnn_tangent_layout(metatune_gnn_tangent *tan,
                                     const metatune_gnn_config *c, void *mem)
{
    const size_t rs = sizeof(metatune_real);
    size_t slots = (size_t)c->cap_batch * (size_t)c->cap_nodes, at = 0;
    size_t batch = (size_t)c->cap_batch, i, wide, mh, off[9];
    unsigned char *const b = (unsigned char *)mem;
    mti_gnn_dims dm;

    mti_gnn_dims_set(&dm, c);
    mh = mti_gnn_mul(slots, dm.h);
    for (i = 0, wide = dm.k0; i < dm.n_mlp; i++) wide += dm.mlp[i];
    off[0] = mti_gnn_take(&at, mti_gnn_mul(mh, dm.n_layers), rs);
    for (i = 1; i < 4; i++) off[i] = mti_gnn_take(&at, mh, rs);
    off[4] = mti_gnn_take(&at, mti_gnn_mul(batch, wide), rs);
    for (i = 5; i < 7; i++)
        off[i] = mti_gnn_take(&at, mti_gnn_mul(batch, dm.max_u), rs);
    for (i = 7; i < 9; i++)
        off[i] = mti_gnn_take(&at, mti_gnn_mul(batch, dm.width), rs);
    if (at == (size_t)-1) return 0;
    if (tan) {
        tan->bytes = at;
        tan->h = (metatune_real *)(void *)(b + off[0]);
        tan->p = (metatune_real *)(void *)(b + off[1]);
        tan->dh = (metatune_real *)(void *)(b + off[2]);
        tan->dz = (metatune_real *)(void *)(b + off[3]);
        tan->u = (metatune_real *)(void *)(b + off[4]);
        tan->du = (metatune_real *)(void *)(b + off[5]);
        tan->dv = (metatune_real *)(void *)(b + off[6]);
        tan->dphi = (metatune_real *)(void *)(b + off[7]);
        tan->tphi = (metatune_real *)(void *)(b + off[8]);
    }
    return at;
}

METATUNE_API size_t
metatune_gnn_tangent_memsize(const metatune_gnn_config *cfg)
{
    metatune_gnn_config c;
    if (cfg) c = *cfg;
    else memset(&c, 0, sizeof c);
    c.train = 1;
    if (mti_gnn_resolve(&c, &c, NULL) != METATUNE_OK) return 0;
    return mti_gnn_tangent_layout(NULL, &c, NULL);
}

METATUNE_API metatune_status
metatune_gnn_tangent_init(metatune_gnn_tangent *tangent,
                          const metatune_gnn_config *cfg, void *mem,
                          size_t bytes)
{
    metatune_gnn_config c;
    size_t need = metatune_gnn_tangent_memsize(cfg);
    if (!tangent || !mem) return METATUNE_BAD_ARG;
    if (!need) return METATUNE_BAD_CONFIG;
    if (!mti_gnn_aligned(mem)) return METATUNE_BAD_ARG;
    if (bytes < need) return METATUNE_NO_MEMORY;
    if (cfg) c = *cfg;
    else memset(&c, 0, sizeof c);
    c.train = 1;
    (void)mti_gnn_resolve(&c, &c, NULL);
    memset(tangent, 0, sizeof *tangent);
    (void)mti_gnn_tangent_layout(tangent, &c, mem);
    return METATUNE_OK;
}

METATUNE_API metatune_status
metatune_gnn_hessian_product(metatune_gnn *net, metatune_gnn_tangent *tangent,
                             const metatune_real *params,
                             const metatune_encode_graph *const *graphs,
                             size_t n, const metatune_real *phi,
                             const metatune_real *dmu,
                             const metatune_real *ddmu,
                             const metatune_real *v, metatune_real *hv)
{
    metatune_gnn_tangent *const tan = tangent;
    metatune_real *pools, *tpools;
    mti_gnn_dims dm;
    size_t l, i, j, d;

    if (!net || !tan || !tan->h || !params || !graphs || !phi || !dmu ||
        !ddmu || !v || !hv)
        return METATUNE_BAD_ARG;
    if (!net->dz || n == 0 || n != net->n_graphs) return METATUNE_BAD_ARG;
    mti_gnn_dims_set(&dm, &net->cfg);
    d = dm.width;
    for (l = 0; l < dm.n_layers; l++)
        mti_gnn_layer_tangent(net, tan, &dm, params, v, l);
    mti_gnn_readout_tangent(net, &dm, n,
                            tan->h + (dm.n_layers - 1) * net->cap_slots *
                                         dm.h, tan->u);
    mti_gnn_mlp_tangent(net, tan, &dm, params, v, n);
    for (i = 0; i < n; i++) {
        const metatune_real *const p = phi + i * d;
        metatune_real *const tp = tan->tphi + i * d;
        metatune_real tmu = 0, tdmu;
        /* mu = phi . out,  dmu = l'(mu) */
        for (j = 0; j < d; j++)
            tmu += tp[j] * params[dm.out + j] + p[j] * v[dm.out + j];
        tdmu = ddmu[i] * tmu;
        /* grad.out = dmu phi,  dphi = dmu out */
        for (j = 0; j < d; j++) {
            hv[dm.out + j] += tdmu * p[j] + dmu[i] * tp[j];
            tan->dphi[i * d + j] = dmu[i] * params[dm.out + j];
            tp[j] = tdmu * params[dm.out + j] + dmu[i] * v[dm.out + j];
        }
    }
    mti_gnn_mlp_hessian(net, tan, &dm, params, v, n, hv, &pools, &tpools);
    mti_gnn_readout_backward(net, &dm, n, pools, net->dh);
    mti_gnn_readout_backward(net, &dm, n, tpools, tan->dh);
    for (l = dm.n_layers; l-- > 0;)
        mti_gnn_layer_hessian(net, tan, &dm, params, v, l, hv);
    return METATUNE_OK;
}

METATUNE_API void
metatune_gnn_mean(const metatune_gnn_config *cfg, const metatune_real *params,
                  const metatune_real *phi, size_t n, metatune_real *mu)
{
    mti_gnn_dims dm;
    size_t i, j;

    if (!params || !phi || !mu || !mti_gnn_dims_get(&dm, cfg)) return;
    for (i = 0; i < n; i++) {
        metatune_real sum = 0;
        for (j = 0; j < dm.width; j++)
            sum += phi[i * dm.width + j] * params[dm.out + j];
        mu[i] = sum;
    }
}

METATUNE_API void
metatune_gnn_mean_backward(const metatune_gnn_config *cfg,
                           const metatune_real *params,
                           const metatune_real *phi, size_t n,
                           const metatune_real *dmu, metatune_real *dphi,
                           metatune_real *grad)
{
    mti_gnn_dims dm;
    size_t i, j;

    if (!params || !phi || !dmu || !mti_gnn_dims_get(&dm, cfg)) return;
    for (i = 0; i < n; i++) {
        /* mu = sum phi_j out_j */
        for (j = 0; dphi && j < dm.width; j++)
            dphi[i * dm.width + j] += dmu[i] * params[dm.out + j];
        for (j = 0; grad && j < dm.width; j++)
            grad[dm.out + j] += dmu[i] * phi[i * dm.width + j];
    }
}

/* 1 / sum of weights; 0 when there is nothing to weigh */
static double mti_gnn_weigh(const metatune_real *weight, size_t n)
{
    double sum = 0;
    size_t i;
    for (i = 0; i < n; i++) sum += weight ? (double)weight[i] : 1.0;
    return sum > 0 ? 1.0 / sum : 0.0;
}

METATUNE_API double
metatune_gnn_loss_squared(const metatune_real *mu, const metatune_real *y,
                          const metatune_real *weight, size_t n,
                          metatune_real *dmu)
{
    const double share = mti_gnn_weigh(weight, n);
    double loss = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        const double w = share * (weight ? (double)weight[i] : 1.0);
        const double r = (double)mu[i] - (double)y[i];
        loss += w * 0.5 * r * r;
        if (dmu) dmu[i] = (metatune_real)(w * r);
    }
    return loss;
}

METATUNE_API double
metatune_gnn_loss_smooth_l1(const metatune_real *mu, const metatune_real *y,
                            const metatune_real *weight, size_t n,
                            metatune_real *dmu)
{
    const double share = mti_gnn_weigh(weight, n);
    double loss = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        const double w = share * (weight ? (double)weight[i] : 1.0);
        const double r = (double)mu[i] - (double)y[i];
        if (fabs(r) < 1) {
            loss += w * 0.5 * r * r;
            if (dmu) dmu[i] = (metatune_real)(w * r);
        } else {
            loss += w * (fabs(r) - 0.5);
            if (dmu) dmu[i] = (metatune_real)(r < 0 ? -w : w);
        }
    }
    return loss;
}

METATUNE_API double
metatune_gnn_loss_gaussian(const metatune_real *mu, const metatune_real *var,
                           const metatune_real *y, const metatune_real *weight,
                           size_t n, metatune_real *dmu, metatune_real *dvar)
{
    const double share = mti_gnn_weigh(weight, n);
    double loss = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        const double w = share * (weight ? (double)weight[i] : 1.0);
        const double r = (double)mu[i] - (double)y[i];
        const double v = (double)var[i];
        loss += w * 0.5 * (log(v) + r * r / v);
        if (dmu) dmu[i] = (metatune_real)(w * r / v);
        if (dvar) dvar[i] = (metatune_real)(w * 0.5 * (1 - r * r / v) / v);
    }
    return loss;
}

/* 1 / log2(1 + rank of mu_i) */
static double mti_gnn_discount(const metatune_real *mu, size_t n, size_t i)
{
    size_t rank = 1, j;
    for (j = 0; j < n; j++)
        rank += mu[j] > mu[i] || (j < i && !(mu[j] < mu[i]));
    return 1.0 / log2(1.0 + (double)rank);
}

METATUNE_API double
metatune_gnn_loss_rank(const metatune_real *mu, const metatune_real *y,
                       size_t n, metatune_real *dmu)
{
    double top = 0, total = 0, loss = 0;
    size_t i, j, pass;

    for (i = 0; i < n; i++) {
        if (i == 0 || (double)y[i] > top) top = (double)y[i];
        if (dmu) dmu[i] = 0;
    }
    /* the sum of the weights first, so that derivatives need no second look */
    for (pass = 0; pass < 2; pass++) {
        for (i = 0; i < n; i++) {
            const double gi = exp2((double)y[i] - top);
            const double di = mti_gnn_discount(mu, n, i);
            for (j = 0; j < n; j++) {
                double w, d, p;
                if (!(y[i] > y[j])) continue;
                w = (gi - exp2((double)y[j] - top)) *
                    fabs(di - mti_gnn_discount(mu, n, j));
                if (pass == 0) {
                    total += w;
                    continue;
                }
                w /= total;
                d = (double)mu[j] - (double)mu[i];
                /* log(1 + e^d) and its slope, without overflow */
                loss += w * ((d > 0 ? d : 0) + log1p(exp(-fabs(d))));
                p = d > 0 ? 1 / (1 + exp(-d)) : exp(d) / (1 + exp(d));
                if (dmu) {
                    dmu[i] -= (metatune_real)(w * p);
                    dmu[j] += (metatune_real)(w * p);
                }
            }
        }
        if (!(total > 0)) return 0;
    }
    return loss;
}

METATUNE_API void metatune_gnn_sgd_step(metatune_real *params,
                                        const metatune_real *grad, size_t n,
                                        double rate)
{
    const metatune_real a = (metatune_real)rate;
    size_t i;
    for (i = 0; i < n; i++) params[i] -= a * grad[i];
}

METATUNE_API double metatune_gnn_clip(metatune_real *grad, size_t n,
                                      double max_norm)
{
    double sum = 0, norm;
    size_t i;

    for (i = 0; i < n; i++) sum += (double)grad[i] * (double)grad[i];
    norm = sqrt(sum);
    if (max_norm > 0 && norm > max_norm) {
        const metatune_real a = (metatune_real)(max_norm / norm);
        for (i = 0; i < n; i++) grad[i] *= a;
    }
    return norm;
}

METATUNE_API size_t metatune_gnn_adam_memsize(size_t n)
{
    size_t at = 0;
    if (n == 0) return 0;
    (void)mti_gnn_take(&at, n, sizeof(metatune_real));
    (void)mti_gnn_take(&at, n, sizeof(metatune_real));
    return at == (size_t)-1 ? 0 : at;
}

METATUNE_API metatune_status metatune_gnn_adam_init(metatune_gnn_adam *adam,
                                                    size_t n, void *mem,
                                                    size_t bytes)
{
    const size_t need = metatune_gnn_adam_memsize(n);
    size_t at = 0, i;

    if (!adam || n == 0) return METATUNE_BAD_ARG;
    if (need == 0) return METATUNE_OVERFLOW;
    if (!mem || bytes < need || !mti_gnn_aligned(mem))
        return METATUNE_NO_MEMORY;
    (void)mti_gnn_take(&at, n, sizeof(metatune_real));
    adam->m = (metatune_real *)mem;
    adam->v = (metatune_real *)(void *)((unsigned char *)mem + at);
    for (i = 0; i < n; i++) adam->m[i] = adam->v[i] = 0;
    adam->n = n;
    adam->t = 0;
    adam->beta1 = 0.9;
    adam->beta2 = 0.999;
    adam->eps = 1e-8;
    adam->weight_decay = 0;
    return METATUNE_OK;
}

METATUNE_API metatune_status
metatune_gnn_adam_step(metatune_gnn_adam *adam, metatune_real *params,
                       const metatune_real *grad, size_t n, double rate)
{
    metatune_real b1, b2, c1, c2, step, root, eps, keep;
    double t;
    size_t i;

    if (!adam || !params || !grad || n != adam->n) return METATUNE_BAD_ARG;
    t = (double)++adam->t;
    b1 = (metatune_real)adam->beta1;
    b2 = (metatune_real)adam->beta2;
    c1 = (metatune_real)(1 - adam->beta1); /* 1 - b1 would lose digits */
    c2 = (metatune_real)(1 - adam->beta2);
    step = (metatune_real)(rate / (1 - pow(adam->beta1, t)));
    root = (metatune_real)sqrt(1 / (1 - pow(adam->beta2, t)));
    eps = (metatune_real)adam->eps;
    keep = (metatune_real)(1 - rate * adam->weight_decay);
    for (i = 0; i < n; i++) {
        const metatune_real g = grad[i];
        const metatune_real m = b1 * adam->m[i] + c1 * g;
        const metatune_real v = b2 * adam->v[i] + c2 * g * g;
        adam->m[i] = m;
        adam->v[i] = v;
        params[i] = keep * params[i] -
                    step * m / (mti_gnn_sqrt(v) * root + eps);
    }
    return METATUNE_OK;
}

#undef MTI_GNN_GROUP
#undef MTI_GNN_KEEP
#undef MTI_GNN_UNROLL
#undef MTI_GNN_TILE
#undef MTI_GNN_SUM_TILE
#undef MTI_GNN_ABSENT
#undef MTI_GNN_PANEL_K
#undef MTI_GNN_PANEL_N
#ifdef MTI_GNN_OWN_GEMM
#undef METATUNE_GEMM
#undef MTI_GNN_OWN_GEMM
#endif

#ifdef __cplusplus
}
#endif
#endif /* METATUNE_GNN_C */
#endif /* METATUNE_GNN_IMPLEMENTATION */

/* Licence: choose either.

   A. Public domain (unlicense.org). This is free and unencumbered software
   released into the public domain. Anyone is free to copy, modify, publish,
   use, compile, sell or distribute it, in source or binary form, for any
   purpose, commercial or not, and by any means. The authors dedicate all
   copyright interest in it to the public domain.

   B. MIT No Attribution (MIT-0). Permission is hereby granted, free of
   charge, to any person obtaining a copy of this software and associated
   documentation files, to deal in the software without restriction,
   including without limitation the rights to use, copy, modify, merge,
   publish, distribute, sublicense and/or sell copies of it.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
   IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
   FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
   AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN
   ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
   CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
   SOFTWARE. */
