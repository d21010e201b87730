/* bench_report.h - what bench_conv says: rows, then what they sum up to

   Ratios are a rival's time over ours: above 1 we win. */
#ifndef METATUNE_BENCH_REPORT_H
#define METATUNE_BENCH_REPORT_H

#include <stddef.h>

#include "nets.h"

/* below 1 / BENCH_TIE is a win's opposite: within the band nobody wins */
#define BENCH_TIE 0.97

enum { BENCH_3X3S1 = 0, BENCH_1X1 = 1, BENCH_DEPTHWISE = 2, BENCH_REST = 3,
       BENCH_CLASSES = 4 };

/* One distinct shape. Times in seconds, 0: there is none. */
typedef struct bench_row {
    char name[96];               /* of its first layer */
    metatune_encode_conv2d conv; /* layout nchw */
    double gflop, naive_s;
    double ours_s, ours_plain_s; /* nchwc; nchw in and out */
    double onednn_s, onednn_plain_s, xnnpack_s, openblas_s;
    double ratio, ratio_plain;   /* medians of ratios, to oneDNN's */
    double ratio_xnnpack, ratio_openblas; /* to ours_s */
    char ours[24], ours_plain[24], onednn[120], onednn_plain[120];
    int rounds;
    int wrong;                   /* entries that are void */
} bench_row;

int bench_class(const metatune_encode_conv2d *conv);
const char *bench_class_name(int class_);

/* Geometric mean of the x > 0 of n; *count of them (may be NULL). */
double bench_geomean(const double *x, size_t n, size_t *count);

void bench_report_head(void);
void bench_report_row(const bench_row *row);
/* All after the table; the last line is
   "geomean best/best R over N layers". */
void bench_report_sums(const bench_row *rows, size_t n);
/* "LAYOUT NET/LAYER SECONDS" a line, as bench_conv.sh keeps it. */
void bench_report_tuning(const char *path);
/* CMD_OK, or CMD_FAILED after one line. `head` says what was measured. */
int bench_report_json(const char *path, const char *head,
                      const bench_row *rows, size_t n);
int bench_report_markdown(const char *path, const char *head,
                          const bench_row *rows, size_t n);

#endif
