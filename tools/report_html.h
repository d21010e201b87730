/* report_html.h - the page of a report: one self-contained HTML text */
#ifndef METATUNE_REPORT_HTML_H
#define METATUNE_REPORT_HTML_H

#include "report_chart.h"

/* title NULL: a default one. */
void report_html(report_page *p, const report_data *d, const char *title);

#endif
