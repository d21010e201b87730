/* test_lookup.c - tables of tuned settings: exact, nearest, default, which one
   it was, why not exact; the predicate of the asked shape; wrong targets;
   tables that lie. Nearest is compared with a search written apart, in
   floating point. */
#define METATUNE_IMPLEMENTATION
#include "../metatune.h"
#include "check.h"

#define TARGET "cpu=a,lanes=8"

static const metatune_lookup_knob knobs[2] = {{"tile", NULL, 0},
                                              {"unroll", NULL, 0}};
static const int64_t values[4][2] = {{16, 4}, {32, 2}, {48, 1}, {1, 1}};

/* By hand, without keys: C = 32 and 64; then one 1x1, and the default. */
static const metatune_lookup_row hand_rows[3] = {
    {{1, 32, 28, 28, 32, 3, 3, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0},
     0, 0, values[0], 1e-3},
    {{1, 64, 28, 28, 64, 3, 3, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0},
     0, 0, values[1], 2e-3},
    {{1, 48, 28, 28, 64, 1, 1, 1, 1,
      0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0},
     0, 0, values[2], 3e-3}};
static const metatune_lookup_table hand = {
    TARGET, METATUNE_SECONDS, knobs, 2, hand_rows, 3, values[3]};

static metatune_encode_conv2d shape(int32_t c, int32_t k)
{
    return metatune_encode_conv2d_make(1, c, 28, 28, k, 3, 3, 1, 1);
}

/* The tile divides the channels of the shape that is asked. */
static int divides(void *user, const metatune_lookup_table *table,
                   const metatune_encode_conv2d *conv, const int64_t *v)
{
    (void)table;
    if (user)
        ++*(int *)user;
    return conv && conv->c % v[0] == 0;
}

static int never(void *user, const metatune_lookup_table *table,
                 const metatune_encode_conv2d *conv, const int64_t *v)
{
    (void)user, (void)table, (void)conv, (void)v;
    return 0;
}

static void test_exact(void)
{
    metatune_lookup_result r;
    metatune_error e;
    metatune_encode_conv2d v = shape(64, 64);
    CHECK_INT(metatune_lookup_check(&hand, &e), METATUNE_OK);
    CHECK_INT(metatune_lookup_find(&hand, TARGET, &v, NULL, NULL, 0, &r),
              METATUNE_OK);
    CHECK_INT(r.which, METATUNE_LOOKUP_EXACT);
    CHECK_INT(r.row, 1);
    CHECK(r.values == values[1]);
    CHECK_NEAR(r.value, 2e-3, 0);
    CHECK_NEAR(r.distance, 0, 0);
    CHECK_INT(r.other_target, 0);
    v = shape(32, 32);
    CHECK_INT(metatune_lookup_find(&hand, TARGET, &v, divides, NULL, 0, &r),
              METATUNE_OK);
    CHECK_INT(r.which, METATUNE_LOOKUP_EXACT);
    CHECK_INT(r.row, 0);
}

/* Tuned for C = 32, 64; asked 48, 33, 1, 4096 with a rule on the tile. */
static void test_predicate_of_the_asked(void)
{
    static const struct {
        int32_t c;
        int32_t which, row;
        uint32_t refused;
    } cases[] = {
        {48, METATUNE_LOOKUP_NEAREST, 0, 1},   /* 32 does not divide 48 */
        {33, METATUNE_LOOKUP_DEFAULT, -1, 3},  /* neither does 16 nor 48 */
        {1, METATUNE_LOOKUP_DEFAULT, -1, 3},
        {4096, METATUNE_LOOKUP_NEAREST, 1, 0}
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        metatune_encode_conv2d v = shape(cases[i].c, 64);
        metatune_lookup_result r;
        int calls = 0;
        CHECK_INT(metatune_lookup_find(&hand, TARGET, &v, divides, &calls, 0,
                                       &r), METATUNE_OK);
        CHECK_INT(r.which, cases[i].which);
        CHECK_INT(r.row, cases[i].row);
        CHECK(calls > 0);
        /* a row farther than one that was liked is not asked about */
        CHECK(r.n_refused <= cases[i].refused);
        if (r.which == METATUNE_LOOKUP_DEFAULT)
            CHECK_INT(r.n_refused, cases[i].refused);
        CHECK(r.values && cases[i].c % r.values[0] == 0);
    }
}

static void test_default_and_none(void)
{
    metatune_lookup_table t = hand;
    metatune_lookup_result r;
    metatune_encode_conv2d v = shape(64, 64);
    v.dtype_in = METATUNE_I8; /* no row of it: nothing is near */
    CHECK_INT(metatune_lookup_find(&t, TARGET, &v, NULL, NULL, 0, &r),
              METATUNE_OK);
    CHECK_INT(r.which, METATUNE_LOOKUP_DEFAULT);
    CHECK(r.values == values[3]);
    CHECK_INT(r.row, -1);
    CHECK_INT(metatune_lookup_find(&t, TARGET, &v, never, NULL, 0, &r),
              METATUNE_NOT_FOUND);
    CHECK_INT(r.which, METATUNE_LOOKUP_NONE);
    CHECK_INT(r.n_refused, 1);
    CHECK(r.values == NULL);
    t.default_values = NULL;
    CHECK_INT(metatune_lookup_find(&t, TARGET, &v, NULL, NULL, 0, &r),
              METATUNE_NOT_FOUND);
    v = shape(64, 64); /* an exact row that the predicate refuses */
    CHECK_INT(metatune_lookup_find(&t, TARGET, &v, never, NULL, 0, &r),
              METATUNE_NOT_FOUND);
    CHECK_INT(r.n_refused, 3);
}

static void test_empty_and_one(void)
{
    metatune_lookup_table t = hand;
    metatune_lookup_result r;
    metatune_encode_conv2d v = shape(64, 64);
    char line[120];
    t.n_rows = 0;
    t.rows = NULL;
    CHECK_INT(metatune_lookup_check(&t, NULL), METATUNE_OK);
    CHECK_INT(metatune_lookup_find(&t, TARGET, &v, NULL, NULL, 0, &r),
              METATUNE_OK);
    CHECK_INT(r.which, METATUNE_LOOKUP_DEFAULT);
    metatune_lookup_explain(&t, TARGET, &v, line, sizeof line);
    CHECK_STR(line, "the table has no shape");
    t.default_values = NULL;
    CHECK_INT(metatune_lookup_find(&t, TARGET, &v, NULL, NULL, 0, &r),
              METATUNE_NOT_FOUND);
    t.rows = hand_rows;
    t.n_rows = 1;
    CHECK_INT(metatune_lookup_find(&t, TARGET, &v, NULL, NULL, 0, &r),
              METATUNE_OK);
    CHECK_INT(r.which, METATUNE_LOOKUP_NEAREST);
    CHECK_NEAR(r.distance, 2, 1e-12); /* c and k, an octave each */
}

static void test_other_target(void)
{
    metatune_lookup_result r;
    metatune_encode_conv2d v = shape(64, 64);
    const char *others[3];
    char line[120];
    size_t i;
    others[0] = "cpu=b,lanes=8";
    others[1] = "";
    others[2] = NULL;
    for (i = 0; i < 3; i++) {
        CHECK_INT(metatune_lookup_find(&hand, others[i], &v, NULL, NULL, 0,
                                       &r), METATUNE_NOT_FOUND);
        CHECK_INT(r.which, METATUNE_LOOKUP_NONE);
        CHECK(r.values == NULL);
        CHECK_INT(r.other_target, 1);
        CHECK_INT(metatune_lookup_find(&hand, others[i], &v, NULL, NULL,
                                       METATUNE_LOOKUP_OTHER_TARGET, &r),
                  METATUNE_OK);
        CHECK_INT(r.which, METATUNE_LOOKUP_EXACT);
        CHECK_INT(r.other_target, 1);
    }
    metatune_lookup_explain(&hand, others[0], &v, line, sizeof line);
    CHECK_STR(line, "target: asked cpu=b,lanes=8, table has " TARGET);
    CHECK_INT(metatune_lookup_key_find(&hand, "x", 7, NULL, NULL, 0, &r),
              METATUNE_NOT_FOUND);
    CHECK_INT(r.other_target, 1);
}

/* One field changed at a time: explain names that one, and the key changes. */
static void test_explain_every_field(void)
{
    static const struct {
        const char *spec, *says;
    } cases[] = {
        {"n=2,c=64,h=28,k=64,r=3,pad=1", "n: asked 2, nearest has 1"},
        {"c=65,h=28,k=64,r=3,pad=1", "c: asked 65, nearest has 64"},
        {"c=64,h=29,w=28,k=64,r=3,pad=1", "h: asked 29, nearest has 28"},
        {"c=64,h=28,w=27,k=64,r=3,pad=1", "w: asked 27, nearest has 28"},
        {"c=64,h=28,k=63,r=3,pad=1", "k: asked 63, nearest has 64"},
        {"c=64,h=28,k=64,r=5,s=3,pad=1", "r: asked 5, nearest has 3"},
        {"c=64,h=28,k=64,r=3,s=4,pad=1", "s: asked 4, nearest has 3"},
        {"c=64,h=28,k=64,r=3,pad=1,stride=2",
         "stride_h: asked 2, nearest has 1"},
        {"c=64,h=28,k=64,r=3,pad=1,stride_w=2",
         "stride_w: asked 2, nearest has 1"},
        {"c=64,h=28,k=64,r=3,pad=1,pad_top=0",
         "pad_top: asked 0, nearest has 1"},
        {"c=64,h=28,k=64,r=3,pad=1,pad_bottom=2",
         "pad_bottom: asked 2, nearest has 1"},
        {"c=64,h=28,k=64,r=3,pad=1,pad_left=0",
         "pad_left: asked 0, nearest has 1"},
        {"c=64,h=28,k=64,r=3,pad=1,pad_right=0",
         "pad_right: asked 0, nearest has 1"},
        {"c=64,h=28,k=64,r=3,pad=1,dil_h=2", "dil_h: asked 2, nearest has 1"},
        {"c=64,h=28,k=64,r=3,pad=1,dil_w=2", "dil_w: asked 2, nearest has 1"},
        {"c=64,h=28,k=64,r=3,pad=1,groups=64",
         "groups: asked 64, nearest has 1"},
        {"c=64,h=28,k=64,r=3,pad=1,in=i8", "in: asked i8, nearest has f32"},
        {"c=64,h=28,k=64,r=3,pad=1,out=f16",
         "out: asked f16, nearest has f32"},
        {"c=64,h=28,k=64,r=3,pad=1,acc=f64",
         "acc: asked f64, nearest has f32"},
        {"c=64,h=28,k=64,r=3,pad=1,layout=nhwc",
         "layout: asked nhwc, nearest has nchw"},
        {"c=64,h=28,k=64,r=3,pad=1,fused=2", "fused: asked 2, nearest has 0"},
        {"c=64,h=28,k=64,r=3,pad=1", "exact: the table has this shape"}
    };
    metatune_lookup_table t = hand;
    uint64_t key = metatune_lookup_conv_key(&hand_rows[1].conv);
    size_t i, n = sizeof cases / sizeof cases[0];
    t.rows = hand_rows + 1;
    t.n_rows = 1;
    for (i = 0; i < n; i++) {
        metatune_encode_conv2d v;
        metatune_error e;
        char line[80], cut[8];
        memset(&e, 0, sizeof e);
        CHECK_INT(metatune_encode_conv2d_parse(cases[i].spec, &v, &e),
                  METATUNE_OK);
        CHECK_INT(metatune_lookup_explain(&t, TARGET, &v, line, sizeof line),
                  (long long)strlen(cases[i].says));
        CHECK_STR(line, cases[i].says);
        CHECK((metatune_lookup_conv_key(&v) == key) == (i + 1 == n));
        CHECK_INT(metatune_lookup_explain(&t, TARGET, &v, cut, sizeof cut),
                  7);
        CHECK_INT(cut[7], 0);
        CHECK(strncmp(cut, cases[i].says, 7) == 0);
    }
    CHECK_INT(metatune_lookup_explain(&t, TARGET, NULL, NULL, 0), 0);
}

/* ---------------------------------------------------- 1000 random shapes */

enum { ROWS = 1000 };
static metatune_lookup_row rows[ROWS];

static int by_key(const void *a, const void *b)
{
    const metatune_lookup_row *x = (const metatune_lookup_row *)a;
    const metatune_lookup_row *y = (const metatune_lookup_row *)b;
    return (x->key > y->key) - (x->key < y->key);
}

static int32_t pick(metatune_encode_rng *rng, int32_t lo, int32_t hi)
{
    return lo + (int32_t)metatune_encode_rng_below(
                    rng, (uint64_t)(hi - lo + 1));
}

static metatune_encode_conv2d random_shape(metatune_encode_rng *rng)
{
    for (;;) {
        metatune_encode_conv2d v;
        int32_t r = 1 + 2 * pick(rng, 0, 2), kind = pick(rng, 0, 7);
        v = metatune_encode_conv2d_make(
            pick(rng, 1, 2), 8 * pick(rng, 1, 64), pick(rng, 7, 112),
            pick(rng, 7, 112), 8 * pick(rng, 1, 64), r, r, pick(rng, 1, 2),
            pick(rng, 0, r / 2));
        if (kind == 0) {
            v.k = v.c;
            v.groups = v.c;
        } else if (kind == 1) {
            v.groups = pick(rng, 0, 1) ? 2 : 4;
        } else if (kind == 2) {
            v.pad_left = pick(rng, 0, 3);
            v.dil_h = pick(rng, 1, 2);
            v.fused = pick(rng, 0, 7);
        }
        v.layout = pick(rng, 0, 5) == 0 ? METATUNE_NHWC : METATUNE_NCHW;
        if (metatune_encode_conv2d_check(&v, NULL) == METATUNE_OK)
            return v;
    }
}

/* The distance as [M-LOOKUP] says it, by frexp and doubles. */
static double slow_log(int32_t x)
{
    int e;
    double f = frexp((double)x, &e);
    return e - 1 + (2 * f - 1);
}

static double slow_gap(int32_t a, int32_t b)
{
    return fabs(slow_log(a) - slow_log(b));
}

static double slow_distance(const metatune_encode_conv2d *a,
                            const metatune_encode_conv2d *b)
{
    double d = slow_gap(a->n, b->n) + slow_gap(a->c, b->c) +
               slow_gap(a->k, b->k) + 0.5 * slow_gap(a->h, b->h) +
               0.5 * slow_gap(a->w, b->w) + 2 * slow_gap(a->r, b->r) +
               2 * slow_gap(a->s, b->s) +
               2 * slow_gap(a->stride_h, b->stride_h) +
               2 * slow_gap(a->stride_w, b->stride_w) +
               2 * slow_gap(a->dil_h, b->dil_h) +
               2 * slow_gap(a->dil_w, b->dil_w) +
               0.25 * slow_gap(1 + a->pad_top, 1 + b->pad_top) +
               0.25 * slow_gap(1 + a->pad_bottom, 1 + b->pad_bottom) +
               0.25 * slow_gap(1 + a->pad_left, 1 + b->pad_left) +
               0.25 * slow_gap(1 + a->pad_right, 1 + b->pad_right);
    int bit;
    if (a->groups != 1 && a->groups != a->c)
        d += slow_gap(a->groups, b->groups);
    for (bit = 0; bit < 3; bit++)
        d += 0.5 * (((a->fused >> bit) & 1) != ((b->fused >> bit) & 1));
    return d;
}

static int groups_kind(const metatune_encode_conv2d *v)
{
    return v->groups == 1 ? 0 : v->groups == v->c ? 1 : 2;
}

static void test_thousand_rows(void)
{
    metatune_encode_rng rng;
    metatune_lookup_table t = hand;
    metatune_error e;
    int i, j, n_exact = 0, n_nearest = 0, n_default = 0;
    const uint64_t seed = 11;
    printf("    seed %d\n", (int)seed);
    metatune_encode_rng_init(&rng, seed, 0);
    for (i = 0; i < ROWS; i++) {
        rows[i].conv = random_shape(&rng);
        rows[i].key = metatune_lookup_conv_key(&rows[i].conv);
        rows[i].values = values[i % 3];
        rows[i].value = 1e-3 * (i + 1);
    }
    qsort(rows, ROWS, sizeof rows[0], by_key);
    t.rows = rows;
    t.n_rows = ROWS;
    memset(&e, 0, sizeof e);
    CHECK_INT(metatune_lookup_check(&t, &e), METATUNE_OK);
    for (i = 0; i < ROWS; i++) { /* every row finds itself */
        metatune_lookup_result r;
        CHECK_INT(metatune_lookup_find(&t, TARGET, &rows[i].conv, NULL, NULL,
                                       0, &r), METATUNE_OK);
        if (r.which == METATUNE_LOOKUP_EXACT && r.row == i)
            n_exact++;
    }
    CHECK_INT(n_exact, ROWS);
    for (i = 0; i < 2000; i++) {
        metatune_encode_conv2d v = random_shape(&rng);
        metatune_lookup_result r;
        double best = 0;
        int tier = 2, rule = i % 2;
        if (i % 5 == 4)
            v.layout = METATUNE_NHWC;
        if (i % 50 == 49)
            v.dtype_acc = METATUNE_F64; /* no such row */
        CHECK_INT(metatune_lookup_find(&t, TARGET, &v, rule ? divides : NULL,
                                       NULL, 0, &r), METATUNE_OK);
        for (j = 0; j < ROWS; j++) {
            const metatune_encode_conv2d *b = &rows[j].conv;
            int far = b->r != v.r || b->s != v.s;
            double d;
            if (b->layout != v.layout || b->dtype_acc != v.dtype_acc ||
                groups_kind(b) != groups_kind(&v) || far > tier ||
                (rule && v.c % rows[j].values[0] != 0))
                continue;
            d = slow_distance(&v, b);
            if (far < tier || d < best) {
                tier = far;
                best = d;
            }
        }
        if (tier == 2) {
            CHECK_INT(r.which, METATUNE_LOOKUP_DEFAULT);
            n_default++;
            continue;
        }
        n_nearest++;
        CHECK(r.which == METATUNE_LOOKUP_NEAREST ||
              (r.which == METATUNE_LOOKUP_EXACT && best <= 0));
        CHECK_NEAR(r.distance, best, 1e-9);
        if (r.row >= 0) {
            CHECK_NEAR(slow_distance(&v, &rows[r.row].conv), best, 1e-9);
            CHECK(!rule || v.c % r.values[0] == 0);
        }
    }
    printf("    %d nearest, %d default\n", n_nearest, n_default);
    CHECK(n_nearest > 1000 && n_default > 20);
}

static void test_own_key(void)
{
    metatune_lookup_row own[3];
    metatune_lookup_table t = hand;
    metatune_lookup_result r;
    metatune_encode_conv2d v = shape(64, 64);
    const char *tasks[2];
    int i;
    tasks[0] = "matmul 64";
    tasks[1] = "matmul 256";
    memset(own, 0, sizeof own);
    for (i = 0; i < 2; i++) {
        own[i].key = metatune_lookup_text_key(tasks[i]);
        own[i].values = values[i];
    }
    own[2] = hand_rows[1]; /* may stand in the same table */
    own[2].key = metatune_lookup_conv_key(&own[2].conv);
    qsort(own, 3, sizeof own[0], by_key);
    t.rows = own;
    CHECK_INT(metatune_lookup_check(&t, NULL), METATUNE_OK);
    for (i = 0; i < 2; i++) {
        CHECK_INT(metatune_lookup_key_find(
                      &t, TARGET, metatune_lookup_text_key(tasks[i]), NULL,
                      NULL, 0, &r), METATUNE_OK);
        CHECK_INT(r.which, METATUNE_LOOKUP_EXACT);
        CHECK(r.values == values[i]);
    }
    CHECK_INT(metatune_lookup_key_find(&t, TARGET,
                                       metatune_lookup_text_key("matmul 65"),
                                       NULL, NULL, 0, &r), METATUNE_OK);
    CHECK_INT(r.which, METATUNE_LOOKUP_DEFAULT);
    CHECK_INT(metatune_lookup_key_find(&t, TARGET, 0, NULL, NULL, 0, &r),
              METATUNE_BAD_ARG);
    CHECK_INT(metatune_lookup_find(&t, TARGET, &v, NULL, NULL, 0, &r),
              METATUNE_OK);
    CHECK_INT(r.which, METATUNE_LOOKUP_EXACT);
    v = shape(128, 64); /* rows without a shape are never near */
    CHECK_INT(metatune_lookup_find(&t, TARGET, &v, NULL, NULL, 0, &r),
              METATUNE_OK);
    CHECK(r.row >= 0 && own[r.row].conv.c == 64);
}

static void test_labels(void)
{
    static const char *const orders[2] = {"nmk", "kmn"};
    metatune_lookup_knob k[2];
    metatune_lookup_table t = hand;
    metatune_lookup_row row = hand_rows[0];
    int64_t v[2];
    k[0] = knobs[0];
    k[1].name = "order";
    k[1].labels = orders;
    k[1].n_labels = 2;
    v[0] = 16;
    v[1] = 1;
    row.values = v;
    t.knobs = k;
    t.rows = &row;
    t.n_rows = 1;
    t.default_values = v;
    CHECK_INT(metatune_lookup_check(&t, NULL), METATUNE_OK);
    CHECK_STR(metatune_lookup_label(&t, 1, 1), "kmn");
    CHECK(metatune_lookup_label(&t, 0, 16) == NULL);
    CHECK(metatune_lookup_label(&t, 1, 2) == NULL);
    CHECK(metatune_lookup_label(&t, 1, -1) == NULL);
    CHECK(metatune_lookup_label(&t, 2, 0) == NULL);
    CHECK(metatune_lookup_label(NULL, 0, 0) == NULL);
    v[1] = 2;
    CHECK_INT(metatune_lookup_check(&t, NULL), METATUNE_BAD_CONFIG);
}

/* Each lie is refused with the row's number, and find survives it. */
static void test_hostile(void)
{
    metatune_lookup_row r[3];
    metatune_lookup_knob k[2];
    metatune_lookup_table t;
    metatune_lookup_result result;
    metatune_error e;
    metatune_encode_conv2d v = shape(64, 64);
    int i, lie;
    static const struct {
        metatune_status status;
        int64_t got;
    } want[] = {
        {METATUNE_BAD_CONFIG, 1},    /* out of order */
        {METATUNE_BAD_CONFIG, 0},    /* wrong key */
        {METATUNE_BAD_ARG, 2},       /* values NULL */
        {METATUNE_BAD_SHAPE, 0},
        {METATUNE_INVALID_TIME, 1},  /* NaN */
        {METATUNE_INVALID_TIME, 1},  /* infinite */
        {METATUNE_INVALID_TIME, 1},  /* negative */
        {METATUNE_BAD_CONFIG, 1},    /* a key missing */
        {METATUNE_BAD_CONFIG, 1},    /* twice */
        {METATUNE_BAD_ARG, 1},       /* knob without a name */
        {METATUNE_BAD_CONFIG, 1},    /* two knobs of a name */
        {METATUNE_EMPTY_KNOB, 0},    /* n_labels without labels */
        {METATUNE_BAD_CONFIG, 65},   /* n_knobs */
        {METATUNE_BAD_CONFIG, 0},    /* n_knobs */
        {METATUNE_BAD_CONFIG, 3},    /* unit */
        {METATUNE_BAD_ARG, 0},       /* target NULL */
        {METATUNE_BAD_ARG, 0},       /* knobs NULL */
        {METATUNE_BAD_ARG, 0},       /* rows NULL */
        {METATUNE_OVERFLOW, 4294967295} /* n_rows */
    };
    const int n = (int)(sizeof want / sizeof want[0]);
    for (lie = 0; lie < n; lie++) {
        t = hand;
        memcpy(r, hand_rows, sizeof r);
        memcpy(k, knobs, sizeof k);
        for (i = 0; i < 3; i++)
            r[i].key = metatune_lookup_conv_key(&r[i].conv);
        qsort(r, 3, sizeof r[0], by_key);
        t.rows = r;
        t.knobs = k;
        CHECK_INT(metatune_lookup_check(&t, NULL), METATUNE_OK);
        switch (lie) {
        case 0: { metatune_lookup_row s = r[0]; r[0] = r[1]; r[1] = s; break; }
        case 1: r[0].key ^= 1; break;
        case 2: r[2].values = NULL; break;
        case 3: r[0].conv.h = -5; break;
        case 4: r[1].value = nan(""); break;
        case 5: r[1].value = HUGE_VAL; break;
        case 6: r[1].value = -1; break;
        case 7: r[1].key = 0; break;
        case 8: r[1] = r[0]; break;
        case 9: k[1].name = NULL; break;
        case 10: k[1].name = k[0].name; break;
        case 11: k[0].n_labels = 2; break;
        case 12: t.n_knobs = 65; break;
        case 13: t.n_knobs = 0; break;
        case 14: t.unit = 3; break;
        case 15: t.target = NULL; break;
        case 16: t.knobs = NULL; break;
        case 17: t.rows = NULL; break;
        default: t.n_rows = UINT32_MAX; break;
        }
        memset(&e, 0, sizeof e);
        CHECK_INT(metatune_lookup_check(&t, &e), want[lie].status);
        CHECK_INT(e.status, want[lie].status);
        CHECK_INT(e.got, want[lie].got);
        CHECK(e.where && e.want);
        metatune_lookup_find(&t, TARGET, &v, NULL, NULL, 0, &result);
        if (lie == 0) /* out of order: slower, but found */
            CHECK_INT(result.which, METATUNE_LOOKUP_EXACT);
        if (lie > 16)
            CHECK_INT(result.which, METATUNE_LOOKUP_NONE);
    }
    CHECK_INT(metatune_lookup_check(NULL, &e), METATUNE_BAD_ARG);
    CHECK_INT(metatune_lookup_find(NULL, TARGET, &v, NULL, NULL, 0, &result),
              METATUNE_BAD_ARG);
    CHECK_INT(metatune_lookup_find(&hand, TARGET, NULL, NULL, NULL, 0,
                                   &result), METATUNE_BAD_ARG);
    CHECK_INT(metatune_lookup_find(&hand, TARGET, &v, NULL, NULL, 0, NULL),
              METATUNE_BAD_ARG);
    v.c = 0;
    CHECK_INT(metatune_lookup_find(&hand, TARGET, &v, NULL, NULL, 0, &result),
              METATUNE_BAD_SHAPE);
    v = shape(64, 64);
    /* any numbers at all in a row: no trap, and no row of nonsense is exact */
    t = hand;
    t.rows = r;
    memcpy(r, hand_rows, sizeof r);
    for (i = 0; i < 22; i++) {
        static const int32_t odd[] = {INT32_MIN, -1, 0, INT32_MAX};
        int j;
        for (j = 0; j < 4; j++) {
            r[1].conv = hand_rows[1].conv;
            memcpy((char *)&r[1].conv + 4 * (size_t)i, &odd[j], 4);
            if (memcmp(&r[1].conv, &v, sizeof v) == 0)
                continue;
            metatune_lookup_find(&t, TARGET, &v, NULL, NULL, 0, &result);
            CHECK(result.which != METATUNE_LOOKUP_EXACT);
        }
    }
}

int main(void)
{
    RUN(test_exact);
    RUN(test_predicate_of_the_asked);
    RUN(test_default_and_none);
    RUN(test_empty_and_one);
    RUN(test_other_target);
    RUN(test_explain_every_field);
    RUN(test_thousand_rows);
    RUN(test_own_key);
    RUN(test_labels);
    RUN(test_hostile);
    return check_report("test_lookup");
}
