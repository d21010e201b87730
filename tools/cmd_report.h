/* cmd_report.h - what `metatune tune` needs of `metatune report` */
#ifndef METATUNE_CMD_REPORT_H
#define METATUNE_CMD_REPORT_H

#include <stddef.h>

typedef struct cmd_report_totals {
    size_t bytes, layers, trials, charts, bad_lines;
} cmd_report_totals;

/* Write the page of these logs to `out`. CMD_OK, or a status after one line
   on stderr; quiet: not a word about damaged lines. */
int cmd_report_write(const char *const *logs, size_t n, const char *out,
                     const char *title, int quiet,
                     cmd_report_totals *totals);

#endif
