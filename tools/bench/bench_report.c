/* bench_report.c - see bench_report.h */
#define _POSIX_C_SOURCE 200809L

#include "bench_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_rival.h"
#include "cmd_util.h"

int bench_class(const metatune_encode_conv2d *v)
{
    if (v->groups > 1)
        return v->groups == v->c && v->k == v->c ? BENCH_DEPTHWISE
                                                 : BENCH_REST;
    if (v->r == 1 && v->s == 1)
        return BENCH_1X1;
    return v->r == 3 && v->s == 3 && v->stride_h == 1 && v->stride_w == 1
               ? BENCH_3X3S1 : BENCH_REST;
}

const char *bench_class_name(int class_)
{
    static const char *const names[BENCH_CLASSES] = {"3x3s1", "1x1",
                                                     "depthwise", "rest"};
    return names[class_];
}

double bench_geomean(const double *x, size_t n, size_t *count)
{
    double sum = 0;
    size_t i, m = 0;
    for (i = 0; i < n; i++)
        if (x[i] > 0) {
            sum += log(x[i]);
            m++;
        }
    if (count)
        *count = m;
    return m ? exp(sum / (double)m) : 0;
}

/* Work over time, or "-" without a time. */
static void cell(char *buf, size_t cap, const char *format, double x,
                 double over)
{
    if (over > 0)
        snprintf(buf, cap, format, x / over);
    else
        snprintf(buf, cap, "-");
}

void bench_report_head(void)
{
    printf("\nGFLOP/s, Winograd as direct-equivalent; ratios are medians of "
           "oneDNN's time over\nours, above 1 we win. nchw: plain in and "
           "out, conversions included.\n\n");
    printf("%-30s %-9s %7s %7s %7s %7s %6s | %7s %7s | %-10s %6s %6s\n",
           "layer", "class", "ours", "oneDNN", "XNNPACK", "OpBLAS", "naive",
           "ours", "oneDNN", "algo", "ratio", "ratio");
    printf("%-30s %-9s %7s %7s %7s %7s %6s | %7s %7s | %-10s %6s %6s\n", "",
           "", "best", "best", "nhwc", "nchw", "", "nchw", "nchw", "", "best",
           "nchw");
}

void bench_report_row(const bench_row *r)
{
    char c[9][16];
    cell(c[0], sizeof c[0], "%.1f", r->gflop, r->ours_s);
    cell(c[1], sizeof c[1], "%.1f", r->gflop, r->onednn_s);
    cell(c[2], sizeof c[2], "%.1f", r->gflop, r->xnnpack_s);
    cell(c[3], sizeof c[3], "%.1f", r->gflop, r->openblas_s);
    cell(c[4], sizeof c[4], "%.2f", r->gflop, r->naive_s);
    cell(c[5], sizeof c[5], "%.1f", r->gflop, r->ours_plain_s);
    cell(c[6], sizeof c[6], "%.1f", r->gflop, r->onednn_plain_s);
    cell(c[7], sizeof c[7], "%.3f", r->ratio, r->ratio > 0);
    cell(c[8], sizeof c[8], "%.3f", r->ratio_plain, r->ratio_plain > 0);
    printf("%-30s %-9s %7s %7s %7s %7s %6s | %7s %7s | %-10s %6s %6s%s\n",
           r->name, bench_class_name(bench_class(&r->conv)), c[0], c[1], c[2],
           c[3], c[4], c[5], c[6], r->ours[0] ? r->ours : "-", c[7], c[8],
           r->wrong ? "  an entry is void" : "");
    fflush(stdout);
}

/* ---------------------------------------------------------------- sums */

static const bench_row *row_of(const bench_row *rows, size_t n,
                               const metatune_encode_conv2d *conv)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (nets_same_shape(&rows[i].conv, conv))
            return &rows[i];
    return NULL;
}

static void say_geomean(const char *what, const double *x, size_t n)
{
    size_t m;
    double g = bench_geomean(x, n, &m);
    if (m)
        printf("  %-22s %6.3f over %zu layers\n", what, g, m);
}

/* Ratios and the time of all its convolutions, for one network. */
static void sum_net(const char *net, const bench_row *rows, size_t n)
{
    double *ratio, *plain, ours = 0, theirs = 0, ours_nchw = 0,
           theirs_nchw = 0;
    int32_t first = 0, i, count = nets_net_find(net, &first, NULL, 0);
    int32_t have = 0, have_nchw = 0;
    ratio = (double *)bench_alloc((size_t)count * sizeof *ratio);
    plain = (double *)bench_alloc((size_t)count * sizeof *plain);
    for (i = 0; i < count; i++) {
        const nets_layer *layer = nets_get(first + i);
        const bench_row *r = row_of(rows, n, &layer->conv);
        if (r && r->ratio > 0) {
            ratio[have++] = r->ratio;
            ours += layer->count * r->ours_s;
            theirs += layer->count * r->onednn_s;
        }
        if (r && r->ratio_plain > 0) {
            plain[have_nchw++] = r->ratio_plain;
            ours_nchw += layer->count * r->ours_plain_s;
            theirs_nchw += layer->count * r->onednn_plain_s;
        }
    }
    if (have)
        printf("  %-16s best %8.3f ms, oneDNN %8.3f ms, ratio %.3f, geomean "
               "%.3f over %d of %d layers\n", net, 1e3 * ours, 1e3 * theirs,
               theirs / ours, bench_geomean(ratio, (size_t)have, NULL),
               (int)have, (int)count);
    if (have_nchw)
        printf("  %-16s nchw %8.3f ms, oneDNN %8.3f ms, ratio %.3f, geomean "
               "%.3f over %d of %d layers\n", have ? "" : net,
               1e3 * ours_nchw, 1e3 * theirs_nchw, theirs_nchw / ours_nchw,
               bench_geomean(plain, (size_t)have_nchw, NULL), (int)have_nchw,
               (int)count);
    free(ratio);
    free(plain);
}

static void say_below(const bench_row *rows, size_t n, double limit,
                      int plain)
{
    size_t i, m = 0;
    printf("%s ratio below %.2f:", plain ? "nchw" : "best", limit);
    for (i = 0; i < n; i++) {
        double x = plain ? rows[i].ratio_plain : rows[i].ratio;
        if (x > 0 && x < limit)
            printf("%s %s %.3f", m++ ? "," : "", rows[i].name, x);
    }
    if (m)
        printf("; %zu in all\n", m);
    else
        printf(" none\n");
}

static void say_wins(const char *what, const double *x, size_t n)
{
    size_t i, won = 0, tied = 0, lost = 0;
    for (i = 0; i < n; i++) {
        won += x[i] > 1 / BENCH_TIE;
        lost += x[i] > 0 && x[i] < BENCH_TIE;
        tied += x[i] >= BENCH_TIE && x[i] <= 1 / BENCH_TIE;
    }
    printf("%s: %zu wins, %zu ties (%.2f..%.2f), %zu losses\n", what, won,
           tied, BENCH_TIE, 1 / BENCH_TIE, lost);
}

void bench_report_sums(const bench_row *rows, size_t n)
{
    double *x[4], *of_class;
    const char *net;
    size_t i, k, m, wrong = 0;
    int32_t j;
    for (k = 0; k < 4; k++)
        x[k] = (double *)bench_alloc(n * sizeof **x);
    of_class = (double *)bench_alloc(n * sizeof *of_class);
    for (i = 0; i < n; i++) {
        x[0][i] = rows[i].ratio;
        x[1][i] = rows[i].ratio_plain;
        x[2][i] = rows[i].ratio_xnnpack;
        x[3][i] = rows[i].ratio_openblas;
        wrong += (size_t)rows[i].wrong;
    }
    for (k = 0; k < 2; k++) {
        printf("\n%s, geometric means by class:\n", k ? "nchw in and out"
                                                       : "best/best");
        for (j = 0; j < BENCH_CLASSES; j++) {
            for (i = 0; i < n; i++)
                of_class[i] = bench_class(&rows[i].conv) == j ? x[k][i] : 0;
            say_geomean(bench_class_name(j), of_class, n);
        }
        say_geomean("all", x[k], n);
    }
    printf("\nnetworks, time of all their convolutions (above 1 we are "
           "faster):\n");
    for (j = 0; (net = nets_net_name(j)) != NULL; j++)
        sum_net(net, rows, n);
    printf("\n");
    say_wins("best/best", x[0], n);
    say_wins("nchw in and out", x[1], n);
    say_below(rows, n, 0.93, 0);
    say_below(rows, n, 0.85, 0);
    say_below(rows, n, 0.85, 1);
    say_geomean("XNNPACK over our best", x[2], n);
    say_geomean("OpenBLAS over our best", x[3], n);
    if (wrong)
        printf("%zu entries computed something wrong and are void\n", wrong);
    m = 0;
    bench_geomean(x[1], n, &m);
    printf("geomean nchw %.3f over %zu layers\n",
           bench_geomean(x[1], n, NULL), m);
    bench_geomean(x[0], n, &m);
    printf("geomean best/best %.3f over %zu layers\n",
           bench_geomean(x[0], n, NULL), m);
    for (k = 0; k < 4; k++)
        free(x[k]);
    free(of_class);
}

void bench_report_tuning(const char *path)
{
    size_t bytes = 0, n[3] = {0, 0, 0};
    char *text = cmd_file_read(path, &bytes), *line, *next;
    double *s[3];
    int k;
    if (!text)
        return;
    for (k = 0; k < 3; k++)
        s[k] = (double *)bench_alloc((bytes + 1) * sizeof **s);
    for (line = text; *line; line = next) {
        char layout[16] = "", layer[96] = "";
        double seconds = 0;
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = 0;
        if (sscanf(line, "%15s %95s %lf", layout, layer, &seconds) != 3)
            continue;
        for (k = 0; k < 3; k++)
            if (strcmp(layout, cmd_layout_name[k]) == 0)
                s[k][n[k]++] = seconds;
    }
    for (k = 0; k < 3; k++) {
        if (n[k])
            printf("tuning a layer in %s, wall clock, start of the program "
                   "included: median %.1f s, 90th percentile %.1f s, longest "
                   "%.1f s over %zu layers\n", cmd_layout_name[k],
                   bench_median(s[k], n[k]), bench_quantile(s[k], n[k], 0.9),
                   bench_quantile(s[k], n[k], 1), n[k]);
        free(s[k]);
    }
    free(text);
}

/* --------------------------------------------------------------- files */

static int text_write(const char *path, cmd_text *t)
{
    int st = CMD_OK;
    if (cmd_file_write(path, t->p ? t->p : "", t->n) != 0)
        st = cmd_fail(CMD_FAILED, "bench_conv: cannot write %s: %s", path,
                      strerror(errno));
    cmd_text_free(t);
    return st;
}

static void number_add(cmd_text *t, const char *name, double x)
{
    if (x > 0)
        cmd_text_add(t, ",\"%s\":%.6g", name, x);
    else
        cmd_text_add(t, ",\"%s\":null", name);
}

static void string_add(cmd_text *t, const char *name, const char *text)
{
    cmd_text_add(t, ",\"%s\":", name);
    cmd_text_json(t, text);
}

int bench_report_json(const char *path, const char *head,
                      const bench_row *rows, size_t n)
{
    cmd_text t;
    size_t i;
    memset(&t, 0, sizeof t);
    cmd_text_add(&t, "{\"head\":");
    cmd_text_json(&t, head);
    cmd_text_add(&t, ",\"layers\":[");
    for (i = 0; i < n; i++) {
        const bench_row *r = &rows[i];
        char spec[256] = "";
        metatune_encode_conv2d_spec(&r->conv, spec, sizeof spec);
        cmd_text_add(&t, "%s\n{\"layer\":", i ? "," : "");
        cmd_text_json(&t, r->name);
        string_add(&t, "conv", spec);
        string_add(&t, "class", bench_class_name(bench_class(&r->conv)));
        number_add(&t, "gflop", r->gflop);
        number_add(&t, "naive_s", r->naive_s);
        number_add(&t, "ours_s", r->ours_s);
        string_add(&t, "ours", r->ours);
        number_add(&t, "onednn_s", r->onednn_s);
        string_add(&t, "onednn", r->onednn);
        number_add(&t, "ratio", r->ratio);
        number_add(&t, "ours_nchw_s", r->ours_plain_s);
        string_add(&t, "ours_nchw", r->ours_plain);
        number_add(&t, "onednn_nchw_s", r->onednn_plain_s);
        string_add(&t, "onednn_nchw", r->onednn_plain);
        number_add(&t, "ratio_nchw", r->ratio_plain);
        number_add(&t, "xnnpack_s", r->xnnpack_s);
        number_add(&t, "openblas_s", r->openblas_s);
        cmd_text_add(&t, ",\"rounds\":%d,\"void\":%d}", r->rounds, r->wrong);
    }
    cmd_text_add(&t, "\n]}\n");
    return text_write(path, &t);
}

int bench_report_markdown(const char *path, const char *head,
                          const bench_row *rows, size_t n)
{
    cmd_text t;
    size_t i;
    memset(&t, 0, sizeof t);
    cmd_text_add(&t, "```\n%s```\n\n| layer | class | algorithm | ours | "
                 "oneDNN | XNNPACK | OpenBLAS | naive | ratio | ours nchw | "
                 "oneDNN nchw | ratio nchw |\n|---|---|---|--:|--:|--:|--:|"
                 "--:|--:|--:|--:|--:|\n", head);
    for (i = 0; i < n; i++) {
        const bench_row *r = &rows[i];
        char c[9][16];
        cell(c[0], sizeof c[0], "%.0f", r->gflop, r->ours_s);
        cell(c[1], sizeof c[1], "%.0f", r->gflop, r->onednn_s);
        cell(c[2], sizeof c[2], "%.0f", r->gflop, r->xnnpack_s);
        cell(c[3], sizeof c[3], "%.0f", r->gflop, r->openblas_s);
        cell(c[4], sizeof c[4], "%.1f", r->gflop, r->naive_s);
        cell(c[5], sizeof c[5], "%.2f", r->ratio, r->ratio > 0);
        cell(c[6], sizeof c[6], "%.0f", r->gflop, r->ours_plain_s);
        cell(c[7], sizeof c[7], "%.0f", r->gflop, r->onednn_plain_s);
        cell(c[8], sizeof c[8], "%.2f", r->ratio_plain, r->ratio_plain > 0);
        cmd_text_add(&t, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s "
                     "| %s | %s |\n", r->name,
                     bench_class_name(bench_class(&r->conv)), r->ours, c[0],
                     c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]);
    }
    return text_write(path, &t);
}
