/* bench_learning.c - a contest's scores as a Markdown table and SVG plots

     bench_learning OUT.md OUTDIR < scores

   Lines of scores: contest,strategy,table,seed,n,score, as `metatune replay
   --csv` prints them with a contest's name in front. For each contest a table
   of mean scores with 95 % intervals (bootstrap: tables drawn with
   replacement, then seeds of each), trials to 95 % of the optimum, the worst
   table; and one plot of mean score by trials. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../metatune_encode.h"

enum {
    CONTESTS = 16, STRATEGIES = 24, TABLES = 512, SEEDS = 64, BUDGET = 256,
    NAME = 96, RESAMPLES = 1000, POINTS = 5
};
static const int points[POINTS] = { 8, 16, 32, 64, 128 };

typedef struct names {
    char name[TABLES][NAME];
    int n, cap;
} names;

/* score[strategy][table][seed][n], floats; 0 trials = not run */
typedef struct contest {
    char name[NAME];
    names strategy, table;
    float *score;                /* (STRATEGIES, TABLES, seeds, BUDGET) */
    int *trials;                 /* (STRATEGIES, TABLES, seeds) */
    int seeds, tables;
} contest;

static int find(names *list, const char *name)
{
    int i;
    for (i = 0; i < list->n; i++)
        if (strcmp(list->name[i], name) == 0)
            return i;
    if (list->n == list->cap)
        return -1;
    snprintf(list->name[list->n], NAME, "%s", name);
    return list->n++;
}

/* ---------------------------------------------------------------- reading */

typedef struct line {
    int strategy, table, seed, n;
    float score;
} line;

typedef struct lines {
    line *at;
    size_t n, cap;
} lines;

static void add(lines *l, line x)
{
    if (l->n == l->cap) {
        l->cap = 2 * l->cap + 4096;
        l->at = (line *)realloc(l->at, l->cap * sizeof *l->at);
        if (!l->at) {
            fprintf(stderr, "bench_learning: out of memory\n");
            exit(1);
        }
    }
    l->at[l->n++] = x;
}

static size_t at(const contest *c, int s, int t, int k)
{
    return ((size_t)s * (size_t)c->tables + (size_t)t) * (size_t)c->seeds +
           (size_t)k;
}

static void settle(contest *c, const lines *l)
{
    size_t i, runs;
    c->tables = c->table.n;
    for (i = 0; i < l->n; i++)
        if (l->at[i].seed >= c->seeds)
            c->seeds = l->at[i].seed + 1;
    runs = (size_t)c->strategy.n * (size_t)c->tables * (size_t)c->seeds;
    c->score = (float *)calloc(runs * BUDGET + 1, sizeof *c->score);
    c->trials = (int *)calloc(runs + 1, sizeof *c->trials);
    if (!c->score || !c->trials) {
        fprintf(stderr, "bench_learning: out of memory\n");
        exit(1);
    }
    for (i = 0; i < l->n; i++) {
        size_t r = at(c, l->at[i].strategy, l->at[i].table, l->at[i].seed);
        int n = l->at[i].n;
        c->score[r * BUDGET + (size_t)n - 1] = l->at[i].score;
        if (n > c->trials[r])
            c->trials[r] = n;
    }
}

/* ------------------------------------------------------------ statistics */

/* Mean over seeds of table t after n trials; -1 when it has not so many. */
static double table_mean(const contest *c, int s, int t, int n)
{
    double sum = 0;
    int k, runs = 0;
    for (k = 0; k < c->seeds; k++) {
        size_t r = at(c, s, t, k);
        if (c->trials[r] < n)
            continue;
        sum += (double)c->score[r * BUDGET + (size_t)n - 1];
        runs++;
    }
    return runs ? sum / runs : -1;
}

static double mean(const contest *c, int s, int n, int *tables)
{
    double sum = 0;
    int t;
    *tables = 0;
    for (t = 0; t < c->tables; t++) {
        double m = table_mean(c, s, t, n);
        if (m < 0)
            continue;
        sum += m;
        ++*tables;
    }
    return *tables ? sum / *tables : -1;
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* 95 % interval of the mean (or, with a second strategy, of the difference of
   the means, pairs kept): tables, then seeds, drawn with replacement. */
static void interval(const contest *c, int s, int other, int n, double *lo,
                     double *hi)
{
    static double sample[RESAMPLES];
    int has[TABLES], tables = 0; /* those that have n trials */
    metatune_encode_rng rng;
    int b, t, k;
    metatune_encode_rng_init(&rng, 1, (uint64_t)n);
    for (t = 0; t < c->tables; t++)
        if (table_mean(c, s, t, n) >= 0 &&
            (other < 0 || table_mean(c, other, t, n) >= 0))
            has[tables++] = t;
    *lo = *hi = 0;
    if (!tables)
        return;
    for (b = 0; b < RESAMPLES; b++) {
        double sum = 0;
        int got = 0;
        for (t = 0; t < tables; t++) {
            int which = has[metatune_encode_rng_below(&rng,
                                                      (uint64_t)tables)];
            double part = 0;
            int runs = 0;
            for (k = 0; k < c->seeds; k++) {
                int seed = (int)metatune_encode_rng_below(
                    &rng, (uint64_t)c->seeds);
                size_t r = at(c, s, which, seed);
                size_t q = other < 0 ? r : at(c, other, which, seed);
                if (c->trials[r] < n || c->trials[q] < n)
                    continue;
                part += (double)c->score[r * BUDGET + (size_t)n - 1];
                if (other >= 0)
                    part -= (double)c->score[q * BUDGET + (size_t)n - 1];
                runs++;
            }
            if (runs) {
                sum += part / runs;
                got++;
            }
        }
        sample[b] = got ? sum / got : 0;
    }
    qsort(sample, RESAMPLES, sizeof *sample, by_double);
    *lo = sample[RESAMPLES / 40];
    *hi = sample[RESAMPLES - 1 - RESAMPLES / 40];
}

/* Mean trials until 95 % of the optimum; a run that does not get there counts
   with one more than it had. */
static double to_95(const contest *c, int s, double *missed)
{
    double sum = 0;
    int t, k, runs = 0, not = 0;
    for (t = 0; t < c->tables; t++)
        for (k = 0; k < c->seeds; k++) {
            size_t r = at(c, s, t, k);
            int n;
            if (!c->trials[r])
                continue;
            for (n = 1; n <= c->trials[r]; n++)
                if (c->score[r * BUDGET + (size_t)n - 1] >= 0.95f)
                    break;
            sum += n;
            not += n > c->trials[r];
            runs++;
        }
    *missed = runs ? (double)not / runs : 0;
    return runs ? sum / runs : 0;
}

/* ------------------------------------------------------------- Markdown */

static void table_write(FILE *f, const contest *c)
{
    int s, p, tables = 0;
    fprintf(f, "\n## %s\n\n", c->name);
    (void)mean(c, 0, 8, &tables);
    fprintf(f, "%d tables, %d seeds. Mean best/optimum after n trials, 95 %% "
            "interval in brackets;\nmean trials to 95 %% of the optimum (runs "
            "that did not get there, which count one\nmore than their "
            "budget); the worst table after 16.\n\n", tables, c->seeds);
    fprintf(f, "| strategy |");
    for (p = 0; p < POINTS; p++)
        fprintf(f, " %d |", points[p]);
    fprintf(f, " to 95 %% | worst at 16 |\n|---|");
    for (p = 0; p < POINTS + 2; p++)
        fprintf(f, "---|");
    fprintf(f, "\n");
    for (s = 0; s < c->strategy.n; s++) {
        double lo, hi, m, missed, worst = 2, to;
        int t;
        fprintf(f, "| %s |", c->strategy.name[s]);
        for (p = 0; p < POINTS; p++) {
            m = mean(c, s, points[p], &tables);
            if (m < 0) {
                fprintf(f, " - |");
                continue;
            }
            interval(c, s, -1, points[p], &lo, &hi);
            fprintf(f, " %.4f [%.3f, %.3f] |", m, lo, hi);
        }
        for (t = 0; t < c->tables; t++) {
            m = table_mean(c, s, t, 16);
            if (m >= 0 && m < worst)
                worst = m;
        }
        to = to_95(c, s, &missed);
        fprintf(f, " %.1f (%.0f %%) |", to, 100 * missed);
        if (worst <= 1)
            fprintf(f, " %.3f |\n", worst);
        else
            fprintf(f, " - |\n");
    }
}

/* Regret at 16 of the first strategy named "metatune" against every other. */
static void regret_write(FILE *f, const contest *c)
{
    int own = -1, s, tables;
    double mine;
    for (s = 0; s < c->strategy.n; s++)
        if (strcmp(c->strategy.name[s], "metatune") == 0)
            own = s;
    if (own < 0)
        return;
    mine = mean(c, own, 16, &tables);
    if (mine < 0)
        return;
    fprintf(f, "\nRegret after 16 (1 - score) of metatune over that of: ");
    for (s = 0; s < c->strategy.n; s++) {
        double lo, hi, m = mean(c, s, 16, &tables);
        if (s == own || m < 0)
            continue;
        interval(c, own, s, 16, &lo, &hi);
        fprintf(f, "%s%s %.2f (score %+.4f [%+.4f, %+.4f])",
                s && !(s == 1 && own == 0) ? ";\n" : "",
                c->strategy.name[s], (1 - mine) / (1 - m + 1e-9), mine - m,
                lo, hi);
    }
    fprintf(f, ".\n");
}

/* ------------------------------------------------------------------- SVG */

static int plot_write(const char *dir, const contest *c)
{
    static const char *const colour[] = {
        "#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b",
        "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"
    };
    enum { W = 720, H = 420, LEFT = 56, RIGHT = 150, TOP = 30, BOTTOM = 40 };
    char path[512], *p;
    double low = 1, x, y;
    int s, n, most = 0, tables, i;
    FILE *f;
    snprintf(path, sizeof path, "%s/%s.svg", dir, c->name);
    for (p = path + strlen(dir) + 1; *p; p++)
        if (*p == ' ' || *p == ',' || *p == ':')
            *p = '_';
    f = fopen(path, "w");
    if (!f) {
        fprintf(stderr, "bench_learning: cannot write %s: %s\n", path,
                strerror(errno));
        return 0;
    }
    for (s = 0; s < c->strategy.n; s++)
        for (n = 1; n <= BUDGET; n++) {
            double m = mean(c, s, n, &tables);
            if (m < 0)
                continue;
            if (n > most)
                most = n;
            if (n >= 8 && m < low)
                low = m;
        }
    low = floor(low * 20) / 20;
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"18\">%s: mean best/optimum by trials</text>\n",
            (int)W, (int)H, (int)LEFT, c->name);
#define PLOT_X(v) (LEFT + (W - LEFT - RIGHT) * log2((v) / 4.0) / \
                              log2(most / 4.0))
#define PLOT_Y(v) (TOP + (H - TOP - BOTTOM) * (1 - (v)) / (1 - low))
    for (y = low; y <= 1.0001; y += (1 - low) / 5)
        fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" "
                "stroke=\"#ddd\"/><text x=\"8\" y=\"%.1f\">%.3f</text>\n",
                (int)LEFT, (int)(W - RIGHT), PLOT_Y(y), PLOT_Y(y),
                PLOT_Y(y) + 4, y);
    for (n = 4; n <= most; n *= 2)
        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" "
                "stroke=\"#eee\"/><text x=\"%.1f\" y=\"%d\">%d</text>\n",
                PLOT_X(n), PLOT_X(n), (int)TOP, (int)(H - BOTTOM),
                PLOT_X(n) - 6, (int)(H - BOTTOM + 18), n);
    for (s = 0; s < c->strategy.n; s++) {
        i = s % (int)(sizeof colour / sizeof colour[0]);
        fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" "
                "points=\"", colour[i],
                strcmp(c->strategy.name[s], "metatune") == 0 ? "3" : "1.5");
        for (n = 4; n <= most; n++) {
            y = mean(c, s, n, &tables);
            if (y < 0)
                continue;
            x = PLOT_X(n);
            fprintf(f, "%.1f,%.1f ", x, PLOT_Y(y < low ? low : y));
        }
        fprintf(f, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n",
                (int)(W - RIGHT + 10), (int)(TOP + 14 + 16 * s), colour[i],
                c->strategy.name[s]);
    }
    fprintf(f, "</svg>\n");
    return fclose(f) == 0;
}

int main(int argc, char **argv)
{
    static contest contests[CONTESTS];
    static lines all[CONTESTS];
    static names list;
    char text[512];
    unsigned long number = 0, bad = 0;
    FILE *md;
    int i, good = 1;
    if (argc != 3) {
        fprintf(stderr, "usage: bench_learning OUT.md OUTDIR < scores\n");
        return 2;
    }
    list.cap = CONTESTS;
    while (fgets(text, sizeof text, stdin)) {
        char *cell[6], *p = text;
        contest *c;
        line x;
        long seed;
        number++;
        for (i = 0; i < 6; i++) {
            cell[i] = p;
            p += strcspn(p, ",\n");
            if (*p)
                *p++ = 0;
        }
        if (strcmp(cell[1], "strategy") == 0)
            continue;
        i = find(&list, cell[0]);
        seed = strtol(cell[3], NULL, 10);
        x.n = (int)strtol(cell[4], NULL, 10);
        if (i < 0 || x.n < 1 || x.n > BUDGET || seed < 0 || seed >= SEEDS) {
            bad++;
            continue;
        }
        c = &contests[i];
        snprintf(c->name, sizeof c->name, "%s", cell[0]);
        c->strategy.cap = STRATEGIES;
        c->table.cap = TABLES;
        x.strategy = find(&c->strategy, cell[1]);
        x.table = find(&c->table, cell[2]);
        x.seed = (int)seed;
        x.score = strtof(cell[5], NULL);
        if (x.strategy < 0 || x.table < 0) {
            bad++;
            continue;
        }
        add(&all[i], x);
    }
    if (list.n == 0) {
        fprintf(stderr, "bench_learning: no scores\n");
        return 1;
    }
    md = fopen(argv[1], "w");
    if (!md) {
        fprintf(stderr, "bench_learning: cannot write %s: %s\n", argv[1],
                strerror(errno));
        return 1;
    }
    fprintf(md, "# The contest\n\nWritten by `make bench-learning`.\n");
    for (i = 0; i < list.n; i++) {
        settle(&contests[i], &all[i]);
        table_write(md, &contests[i]);
        regret_write(md, &contests[i]);
        good &= plot_write(argv[2], &contests[i]);
    }
    good &= fclose(md) == 0;
    if (bad)
        fprintf(stderr, "bench_learning: %lu of %lu lines make no sense\n",
                bad, number);
    return good && !bad ? 0 : 1;
}
