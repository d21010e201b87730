/* test_maml.c - Hessian-vector products and MAML: exact derivatives against
   finite differences and symmetry, the identities that tie the modes together,
   and that training helps. Derivatives want METATUNE_REAL double. */
#define METATUNE_IMPLEMENTATION
#include "../metatune.h"
#include "fake.h"

enum { NODES = 16, POINTS = 24, TASKS = 4 };

/* Encoded settings of TASKS matmuls with their y. */
typedef struct corpus {
    metatune_encode_graph graph[TASKS][POINTS];
    const metatune_encode_graph *at[TASKS][POINTS];
    double y[TASKS][POINTS];
    char *mem;
} corpus;

static void corpus_open(corpus *c, uint64_t seed)
{
    metatune_encode_config cfg;
    metatune_encode_nest nest;
    metatune_encode_rng rng;
    size_t nb, gb;
    void *nest_mem;
    int t, i, k;
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = NODES;
    nb = metatune_encode_nest_memsize(&cfg);
    gb = (metatune_encode_graph_memsize(&cfg) + 63) & ~(size_t)63;
    nest_mem = malloc(nb);
    c->mem = (char *)malloc(TASKS * POINTS * gb);
    metatune_encode_nest_init(&nest, &cfg, nest_mem, nb);
    metatune_encode_rng_init(&rng, seed, 0);
    for (t = 0; t < TASKS; t++)
        for (i = 0; i < POINTS; i++) {
            metatune_encode_graph *g = &c->graph[t][i];
            fake f;
            int64_t v[FAKE_KNOBS];
            fake_init(&f, 32 << t);
            f.bias = 0.3 * t;
            for (k = 0; k < FAKE_KNOBS; k++)
                v[k] = fake_knobs[k].values[metatune_encode_rng_below(
                    &rng, fake_knobs[k].n_values)];
            CHECK_INT(fake_describe(&f, NULL, v, &nest), METATUNE_OK);
            CHECK_INT(metatune_encode_graph_init(
                          g, &cfg, c->mem + (size_t)(t * POINTS + i) * gb,
                          gb), METATUNE_OK);
            CHECK_INT(metatune_encode_graph_fill(g, &nest, NULL, NULL),
                      METATUNE_OK);
            c->at[t][i] = g;
            c->y[t][i] = log2(1e-4 / fake_time(&f, v)) / 4;
        }
    free(nest_mem);
}

static metatune_gnn_config net_of(int variant)
{
    metatune_gnn_config g;
    memset(&g, 0, sizeof g);
    g.hidden = 6;
    g.n_layers = 2 + variant % 2;
    g.conv = variant % 2 ? METATUNE_GNN_GCN : METATUNE_GNN_SPLIT;
    g.readout = variant < 2 ? 3 : 7;
    g.no_residual = variant == 3;
    g.no_propagation = variant == 5;
    g.n_mlp = 2;
    g.mlp[0] = 9;
    g.mlp[1] = 7;
    g.cap_nodes = NODES;
    return g;
}
enum { VARIANTS = 6 };

typedef struct learner {
    metatune_maml m;
    metatune_model model;
    metatune_real *params;
    void *mem;
} learner;

static void learner_open(learner *l, const metatune_maml_config *cfg,
                         uint64_t seed)
{
    size_t n = metatune_model_param_count(&cfg->gnn), i;
    size_t bytes = metatune_maml_memsize(cfg);
    metatune_encode_rng rng;
    l->params = (metatune_real *)malloc(n * sizeof *l->params);
    l->mem = malloc(bytes ? bytes : 1);
    CHECK(bytes > 0);
    CHECK_INT(metatune_model_init(&l->model, &cfg->gnn, l->params, n, seed),
              METATUNE_OK);
    metatune_encode_rng_init(&rng, seed, 9);
    for (i = 0; i < n; i++) /* biases and `out` away from zero */
        l->params[i] += (metatune_real)(0.1 *
                                        metatune_encode_rng_normal(&rng));
    CHECK_INT(metatune_maml_init(&l->m, cfg, l->params, n, l->mem, bytes),
              METATUNE_OK);
}

static void learner_close(learner *l)
{
    free(l->params);
    free(l->mem);
}

static void direction(double *d, size_t n, metatune_encode_rng *rng)
{
    size_t i;
    for (i = 0; i < n; i++)
        d[i] = metatune_encode_rng_normal(rng);
}

/* ------------------------------------------------------------ Hessian */

/* Gradient of the loss at theta and, with v, H v. */
static void grad_at(learner *l, const corpus *c, const metatune_real *theta,
                    const metatune_real *v, metatune_real *g,
                    metatune_real *hv)
{
    double loss;
    metatune_maml *m = &l->m;
    CHECK_INT(mti_maml_loss(m, theta, c->at[0], c->y[0], 12, &loss),
              METATUNE_OK);
    if (v) {
        memset(hv, 0, m->n_gnn * sizeof *hv);
        CHECK_INT(metatune_gnn_hessian_product(&m->net, &m->tangent, theta,
                                               c->at[0], 12, m->phi, m->dmu,
                                               m->ddmu, v, hv), METATUNE_OK);
    }
    if (g)
        CHECK_INT(mti_maml_grad(m, theta, c->at[0], 12, g), METATUNE_OK);
}

static void test_hessian_product(void)
{
    corpus *c;
    int variant, loss, trial;
    double worst = 0, skew = 0;
    if (sizeof(metatune_real) != 8)
        SKIP("needs METATUNE_REAL double; test_maml_double runs it");
    c = (corpus *)malloc(sizeof *c);
    corpus_open(c, 1);
    for (variant = 0; variant < VARIANTS; variant++)
        for (loss = 0; loss < 2; loss++) {
            metatune_maml_config cfg;
            metatune_encode_rng rng;
            learner l;
            double *dir, *other;
            metatune_real *theta, *v, *u, *hv, *hu, *lo, *hi;
            size_t n, i;
            memset(&cfg, 0, sizeof cfg);
            cfg.gnn = net_of(variant);
            cfg.loss = loss;
            learner_open(&l, &cfg, 5 + (uint64_t)variant);
            n = l.m.n_gnn;
            dir = (double *)malloc(2 * n * sizeof *dir);
            other = dir + n;
            theta = (metatune_real *)malloc(7 * n * sizeof *theta);
            v = theta + n;
            u = v + n;
            hv = u + n;
            hu = hv + n;
            lo = hu + n;
            hi = lo + n;
            metatune_encode_rng_init(&rng, 3, (uint64_t)variant);
            for (trial = 0; trial < 4; trial++) {
                double num = 0, den = 0, a = 0, b = 0;
                const double h = 1e-6;
                direction(dir, n, &rng);
                direction(other, n, &rng);
                for (i = 0; i < n; i++) {
                    v[i] = (metatune_real)dir[i];
                    u[i] = (metatune_real)other[i];
                }
                grad_at(&l, c, l.params, v, NULL, hv);
                grad_at(&l, c, l.params, u, NULL, hu);
                for (i = 0; i < n; i++) {
                    a += dir[i] * (double)hu[i];
                    b += other[i] * (double)hv[i];
                }
                if (fabs(a - b) / (fabs(a) + 1e-9) > skew)
                    skew = fabs(a - b) / (fabs(a) + 1e-9);
                for (i = 0; i < n; i++)
                    theta[i] = l.params[i] + (metatune_real)(h * dir[i]);
                grad_at(&l, c, theta, NULL, hi, NULL);
                for (i = 0; i < n; i++)
                    theta[i] = l.params[i] - (metatune_real)(h * dir[i]);
                grad_at(&l, c, theta, NULL, lo, NULL);
                for (i = 0; i < n; i++) {
                    double fd = (double)(hi[i] - lo[i]) / (2 * h);
                    num += (fd - (double)hv[i]) * (fd - (double)hv[i]);
                    den += fd * fd;
                }
                if (sqrt(num / den) > worst)
                    worst = sqrt(num / den);
                CHECK(sqrt(num / den) <= 1e-6);
            }
            free(dir);
            free(theta);
            learner_close(&l);
        }
    printf("    H v: %.1e from finite differences, u'Hv and v'Hu %.1e apart\n",
           worst, skew);
    CHECK(skew < 1e-9);
    free(c->mem);
    free(c);
}

/* -------------------------------------------------------------- MAML */

/* Loss of an episode at params + h dir, rates + h rdir. */
static double episode_loss(learner *l, const corpus *c, int support,
                           const metatune_real *params, const double *dir,
                           const metatune_real *rates, const double *rdir,
                           double h)
{
    size_t i;
    double loss = 0;
    for (i = 0; i < l->m.n_gnn; i++)
        l->params[i] = params[i] + (metatune_real)(h * dir[i]);
    for (i = 0; i < l->m.n_windows; i++)
        l->m.rates[i] = rates[i] + (metatune_real)(h * rdir[i]);
    CHECK_INT(metatune_maml_evaluate(&l->m, c->at[1], c->y[1],
                                     (size_t)support, 10, NULL, &loss),
              METATUNE_OK);
    return loss;
}

/* d/dh at 0, fourth order */
static double slope(learner *l, const corpus *c, const metatune_real *params,
                    const double *dir, const metatune_real *rates,
                    const double *rdir, double h)
{
    static const double at[4] = {1, -1, 2, -2}, by[4] = {8, -8, -1, 1};
    double sum = 0;
    int i;
    for (i = 0; i < 4; i++)
        sum += by[i] * episode_loss(l, c, 12, params, dir, rates, rdir,
                                    at[i] * h);
    return sum / (12 * h);
}

static void test_meta_gradient(void)
{
    static const int steps[] = {1, 3, 5};
    corpus *c;
    int variant, k, only;
    double worst = 0;
    if (sizeof(metatune_real) != 8)
        SKIP("needs METATUNE_REAL double; test_maml_double runs it");
    c = (corpus *)malloc(sizeof *c);
    corpus_open(c, 2);
    for (variant = 0; variant < VARIANTS; variant++)
        for (k = 0; k < 3; k++)
            for (only = 0; only < 2; only++) {
                metatune_maml_config cfg;
                metatune_encode_rng rng;
                learner l;
                metatune_real *params;
                metatune_real rates[METATUNE_MAML_WINDOWS];
                double *dir, rdir[METATUNE_MAML_WINDOWS], loss;
                size_t n, i, w;
                int part;
                memset(&cfg, 0, sizeof cfg);
                cfg.gnn = net_of(variant);
                cfg.steps = steps[k];
                cfg.rate = variant < 2 ? 0.05 : 5e-4; /* sums are large */
                cfg.head_only = only;
                cfg.loss = k == 1;
                cfg.learn_rates = 1;
                learner_open(&l, &cfg, 17 + (uint64_t)variant);
                n = l.m.n_gnn;
                w = l.m.n_windows;
                params = (metatune_real *)malloc(n * sizeof *params);
                dir = (double *)malloc(n * sizeof *dir);
                memcpy(params, l.params, n * sizeof *params);
                memcpy(rates, l.m.rates, w * sizeof *rates);
                metatune_encode_rng_init(&rng, 8, (uint64_t)(variant * 3 + k));
                CHECK_INT(metatune_maml_episode(&l.m, c->at[1], c->y[1], 12,
                                                10, &loss), METATUNE_OK);
                for (part = 0; part < 6; part++) {
                    double dot, fd, wide, size, err = 1;
                    int tries, smooth = 0;
                    for (tries = 0; tries < 40 && !smooth; tries++) {
                        const double h = 4e-7;
                        dot = size = 0;
                        direction(dir, n, &rng);
                        direction(rdir, w, &rng);
                        for (i = 0; i < n; i++) {
                            if (part >= 4) /* the rates alone */
                                dir[i] = 0;
                            dot += dir[i] * (double)l.m.grad[i];
                            size += fabs(dir[i] * (double)l.m.grad[i]);
                        }
                        for (i = 0; i < w; i++) {
                            if (part < 3 || (only && i + 1 < w))
                                rdir[i] = 0;
                            dot += rdir[i] * (double)l.m.rate_grad[i];
                            size += fabs(rdir[i] * (double)l.m.rate_grad[i]);
                        }
                        fd = slope(&l, c, params, dir, rates, rdir, h);
                        wide = slope(&l, c, params, dir, rates, rdir, 2 * h);
                        size = fabs(fd) + 1e-3 * size + 1e-9;
                        /* where a relu or a maximum changes sides on the way
                           the two differ: that is no derivative */
                        smooth = fabs(fd - wide) <= 3e-7 * size;
                        err = fabs(fd - dot) / size;
                    }
                    CHECK(smooth);
                    if (err > worst)
                        worst = err;
                    if (!smooth || err > 1e-6)
                        printf("        variant %d, %d steps, head only %d, "
                               "part %d: %.2e\n", variant, steps[k], only,
                               part, err);
                    CHECK(err <= 1e-6);
                }
                free(params);
                free(dir);
                learner_close(&l);
            }
    printf("    largest relative error %.1e\n", worst);
    free(c->mem);
    free(c);
}

/* grad of one episode under cfg from the same weights. */
static void gradient(const metatune_maml_config *cfg, const corpus *c,
                     size_t support, metatune_real *grad, size_t n,
                     double *loss)
{
    learner l;
    learner_open(&l, cfg, 21);
    CHECK_INT(metatune_maml_episode(&l.m, c->at[2], c->y[2], support, 10,
                                    loss), METATUNE_OK);
    memcpy(grad, l.m.grad, n * sizeof *grad);
    learner_close(&l);
}

static double apart(const metatune_real *a, const metatune_real *b, size_t n)
{
    double num = 0, den = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        num += d * d;
        den += (double)a[i] * (double)a[i];
    }
    return sqrt(num / den);
}

static void test_identities(void)
{
    corpus *c = (corpus *)malloc(sizeof *c);
    metatune_maml_config cfg;
    metatune_real *none, *other;
    size_t n;
    double loss0, loss1, eps = sizeof(metatune_real) == 8 ? 1e-12 : 1e-5;
    corpus_open(c, 3);
    memset(&cfg, 0, sizeof cfg);
    cfg.gnn = net_of(0);
    n = metatune_gnn_param_count(&cfg.gnn);
    none = (metatune_real *)malloc(2 * n * sizeof *none);
    other = none + n;
    cfg.steps = -1;
    gradient(&cfg, c, 12, none, n, &loss0);
    cfg.steps = 3; /* a rate of nothing */
    cfg.rate = -1;
    gradient(&cfg, c, 12, other, n, &loss1);
    CHECK_NEAR(loss0, loss1, 0);
    CHECK(apart(none, other, n) < eps);
    cfg.rate = 0.05; /* nothing to adapt to: other queries, then */
    gradient(&cfg, c, 0, other, n, &loss1);
    cfg.steps = -1;
    gradient(&cfg, c, 0, none, n, &loss0);
    cfg.steps = 3;
    CHECK_NEAR(loss0, loss1, 0);
    CHECK(apart(none, other, n) < eps);
    gradient(&cfg, c, 12, none, n, &loss0); /* second against first order */
    cfg.first_order = 1;
    gradient(&cfg, c, 12, other, n, &loss1);
    CHECK_NEAR(loss0, loss1, 1e-12);
    CHECK(apart(none, other, n) > 1e-3);
    cfg.first_order = 0;
    cfg.head_only = 1;
    gradient(&cfg, c, 12, other, n, &loss1);
    CHECK(loss1 > loss0 || loss1 < loss0);
    CHECK(apart(none, other, n) > 1e-3);
    free(none);
    free(c->mem);
    free(c);
}

/* The same seeds, the same weights. Adapted loss falls with training, and is
   below that of joint training from the same start. */
static void test_training_helps(void)
{
    corpus *c = (corpus *)malloc(sizeof *c);
    double after[3], before = 0;
    int mode;
    corpus_open(c, 4);
    for (mode = 0; mode < 3; mode++) { /* joint, maml, maml again */
        metatune_maml_config cfg;
        learner l;
        uint32_t step;
        int t;
        double loss, sum = 0;
        memset(&cfg, 0, sizeof cfg);
        cfg.gnn = net_of(0);
        cfg.steps = mode ? 3 : -1;
        cfg.rate = 0.05;
        cfg.learn_rates = 1;
        learner_open(&l, &cfg, 77);
        for (t = 0; t < 3 && mode == 1; t++) {
            metatune_maml_evaluate(&l.m, c->at[t], c->y[t], 12, 12, NULL,
                                   &loss);
            before += loss / 3;
        }
        for (step = 0; step < 300; step++) {
            for (t = 0; t < 3; t++)
                CHECK_INT(metatune_maml_episode(&l.m, c->at[t], c->y[t], 12,
                                                12, &loss), METATUNE_OK);
            CHECK_INT(metatune_maml_step(&l.m, 3e-3), METATUNE_OK);
        }
        for (t = 0; t < 3; t++) {
            metatune_maml_evaluate(&l.m, c->at[t], c->y[t], 12, 12, NULL,
                                   &loss);
            sum += loss / 3;
        }
        after[mode] = sum;
        learner_close(&l);
    }
    printf("    loss after adapting: untrained %.4f, joint %.4f, MAML %.4f\n",
           before, after[0], after[1]);
    CHECK(after[1] < 0.5 * before);
    CHECK(after[1] < after[0]);
    CHECK_NEAR(after[1], after[2], 0);
    free(c->mem);
    free(c);
}

static void test_refuses(void)
{
    corpus *c = (corpus *)malloc(sizeof *c);
    metatune_maml_config cfg;
    learner l;
    double loss;
    corpus_open(c, 5);
    memset(&cfg, 0, sizeof cfg);
    cfg.gnn = net_of(0);
    cfg.cap_points = 12;
    learner_open(&l, &cfg, 1);
    CHECK_INT(metatune_maml_episode(&l.m, c->at[0], c->y[0], 13, 4, &loss),
              METATUNE_CAPACITY);
    CHECK_INT(metatune_maml_episode(&l.m, c->at[0], c->y[0], 4, 13, &loss),
              METATUNE_CAPACITY);
    CHECK_INT(metatune_maml_episode(&l.m, c->at[0], c->y[0], 4, 0, &loss),
              METATUNE_BAD_ARG);
    CHECK_INT(metatune_maml_step(&l.m, 1e-3), METATUNE_BAD_ARG);
    l.m.n_episodes = 1;
    l.m.grad[0] = (metatune_real)HUGE_VAL;
    CHECK_INT(metatune_maml_step(&l.m, 1e-3), METATUNE_NOT_FINITE);
    CHECK_NEAR((double)l.m.grad[0], 0, 0);
    learner_close(&l);
    cfg.steps = 17;
    CHECK(metatune_maml_memsize(&cfg) == 0);
    cfg.steps = 1;
    cfg.loss = 2;
    CHECK(metatune_maml_memsize(&cfg) == 0);
    free(c->mem);
    free(c);
}

/* Without propagation a node's row counts and its edges do not. */
static void test_no_propagation(void)
{
    corpus *c = (corpus *)malloc(sizeof *c);
    metatune_gnn_config g = net_of(5), bad = net_of(0);
    metatune_gnn net;
    size_t n = metatune_gnn_param_count(&g), d, i;
    size_t bytes = metatune_gnn_memsize(&g);
    metatune_real *params = (metatune_real *)malloc(n * sizeof *params);
    metatune_real phi[2][64];
    metatune_encode_graph cut;
    uint16_t row[NODES + 1];
    void *mem = malloc(bytes);
    metatune_encode_rng rng;
    corpus_open(c, 6);
    memset(row, 0, sizeof row);
    metatune_encode_rng_init(&rng, 1, 1);
    CHECK_INT(metatune_gnn_params_init(&g, params, &rng), METATUNE_OK);
    CHECK_INT(metatune_gnn_init(&net, &g, mem, bytes), METATUNE_OK);
    d = (size_t)metatune_gnn_phi_width(&g);
    cut = c->graph[0][0];
    cut.row = row; /* no edges at all */
    {
        const metatune_encode_graph *one = &c->graph[0][0], *other = &cut;
        CHECK_INT(metatune_gnn_forward(&net, params, &one, 1, phi[0]),
                  METATUNE_OK);
        CHECK_INT(metatune_gnn_forward(&net, params, &other, 1, phi[1]),
                  METATUNE_OK);
    }
    for (i = 0; i < d; i++)
        CHECK_NEAR((double)phi[0][i], (double)phi[1][i], 0);
    g.no_propagation = 0; /* and with it the edges matter */
    CHECK_INT(metatune_gnn_init(&net, &g, mem, bytes), METATUNE_OK);
    {
        const metatune_encode_graph *one = &c->graph[0][0];
        double sum = 0;
        CHECK_INT(metatune_gnn_forward(&net, params, &one, 1, phi[1]),
                  METATUNE_OK);
        for (i = 0; i < d; i++)
            sum += fabs((double)phi[0][i] - (double)phi[1][i]);
        CHECK(sum > 1e-3);
    }
    bad.no_propagation = 1; /* SPLIT would carry a matrix in vain */
    CHECK_INT(metatune_gnn_config_check(&bad, NULL), METATUNE_BAD_CONFIG);
    free(params);
    free(mem);
    free(c->mem);
    free(c);
}

/* ---------------------------------------------------------- rank loss */

/* Three points by hand; a wrong order costs more than the right one; slopes
   against differences that leave every rank as it is. */
static void test_rank_loss(void)
{
    static const metatune_real y[3] = {0, -1, -2};
    metatune_real mu[3] = {0, 0, 0}, dmu[3], mu8[8], y8[8], d8[8];
    const double lg3 = 1 / log2(3.0);
    double w01 = 0.5 * (1 - lg3), w02 = 0.75 * 0.5;
    double w12 = 0.25 * (lg3 - 0.5), sum = w01 + w02 + w12;
    const double eps = sizeof(metatune_real) == 8 ? 1e-12 : 1e-6;
    metatune_encode_rng rng;
    int i, k, trial;
    /* all mu alike: each pair costs log 2, pulled by half its weight */
    CHECK_NEAR(metatune_gnn_loss_rank(mu, y, 3, dmu), log(2.0), eps);
    CHECK_NEAR((double)dmu[0], -0.5 * (w01 + w02) / sum, eps);
    CHECK_NEAR((double)dmu[1], 0.5 * (w01 - w12) / sum, eps);
    CHECK_NEAR((double)dmu[2], 0.5 * (w02 + w12) / sum, eps);
    mu[0] = 3;
    mu[2] = -3;
    CHECK(metatune_gnn_loss_rank(mu, y, 3, NULL) < 0.1);
    mu[0] = -3;
    mu[2] = 3;
    CHECK(metatune_gnn_loss_rank(mu, y, 3, NULL) > 3);
    mu[0] = 5000; /* no overflow */
    mu[2] = -5000;
    CHECK(metatune_gnn_loss_rank(mu, y, 3, NULL) < 1e-6);
    CHECK_NEAR(metatune_gnn_loss_rank(mu, y, 1, dmu), 0, 0);
    if (sizeof(metatune_real) != 8)
        return;
    metatune_encode_rng_init(&rng, 12, 0);
    for (trial = 0; trial < 20; trial++) {
        for (i = 0; i < 8; i++) {
            mu8[i] = (metatune_real)metatune_encode_rng_normal(&rng);
            y8[i] = (metatune_real)metatune_encode_rng_normal(&rng);
        }
        metatune_gnn_loss_rank(mu8, y8, 8, d8);
        for (i = 0; i < 8; i++) {
            double at[2];
            metatune_real keep = mu8[i];
            for (k = 0; k < 2; k++) {
                mu8[i] = keep + (metatune_real)(k ? -1e-6 : 1e-6);
                at[k] = metatune_gnn_loss_rank(mu8, y8, 8, NULL);
            }
            mu8[i] = keep;
            CHECK_NEAR((at[0] - at[1]) / 2e-6, (double)d8[i], 1e-7);
        }
    }
}

int main(void)
{
    RUN(test_rank_loss);
    RUN(test_hessian_product);
    RUN(test_meta_gradient);
    RUN(test_identities);
    RUN(test_training_helps);
    RUN(test_refuses);
    RUN(test_no_propagation);
    return check_report("test_maml");
}
