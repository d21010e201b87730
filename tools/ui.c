/* ui.c - see ui.h */
#define _DEFAULT_SOURCE

#include "ui.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void ui_init(ui *u, int quiet)
{
    const char *term = getenv("TERM");
    memset(u, 0, sizeof *u);
    u->mode = UI_PLAIN;
    if (quiet)
        u->mode = UI_QUIET;
    else if (isatty(1) && term && strcmp(term, "dumb") != 0)
        u->mode = UI_LIVE;
}

void ui_clear(ui *u)
{
    if (u->dirty) {
        fputs("\r\033[K", stdout);
        fflush(stdout);
    }
    u->dirty = 0;
}

void ui_say(ui *u, const char *format, ...)
{
    va_list ap;
    if (u->mode == UI_QUIET)
        return;
    ui_clear(u);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

static int ui_width(void)
{
    struct winsize size;
    memset(&size, 0, sizeof size);
    if (ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 8)
        return size.ws_col;
    return 80;
}

void ui_live(ui *u, double now_s, double every, int force, const char *format,
             ...)
{
    char line[512];
    va_list ap;
    if (u->mode == UI_QUIET || (!force && now_s < u->next_s))
        return;
    u->next_s = now_s + (u->mode == UI_LIVE ? 0.1 : every);
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (u->mode == UI_LIVE) {
        /* one column is left free: some terminals wrap in the last one */
        printf("\r%.*s\033[K", ui_width() - 1, line);
        u->dirty = 1;
    } else {
        printf("%s\n", line);
    }
    fflush(stdout);
}

const char *ui_time(double s, char *buf, size_t cap)
{
    long n = s < 0 ? 0 : s > 1e9 ? 1000000000L : (long)(s + 0.5);
    if (n < 60)
        snprintf(buf, cap, "%lds", n);
    else if (n < 3600)
        snprintf(buf, cap, "%ldm%02lds", n / 60, n % 60);
    else
        snprintf(buf, cap, "%ldh%02ldm", n / 3600, n / 60 % 60);
    return buf;
}

void ui_tune(ui *u, double now_s, const char *layer, size_t index, size_t n,
             double gflop, const char *how, double left_s,
             const metatune_progress *info)
{
    char best[64] = "no valid one yet", gain[48] = "", left[48] = "", t[24];
    int better = info->best_value > 0 &&
                 (u->best <= 0 || info->best_value < u->best);
    if (info->best_value > 0)
        snprintf(best, sizeof best, "best %.1f GFLOP/s%s%.16s%s",
                 gflop / info->best_value, how ? " (" : "", how ? how : "",
                 how ? ")" : "");
    if (info->expected_gain > 0)
        snprintf(gain, sizeof gain, ", expected gain %.0f %%",
                 100 * (info->expected_gain - 1));
    if (left_s < 0)
        left_s = info->left_s;
    if (left_s >= 0)
        snprintf(left, sizeof left, ", %s left", ui_time(left_s, t, sizeof t));
    /* in a pipe: each new best, each end of a phase, and a sign of life */
    ui_live(u, now_s, 5, u->mode == UI_LIVE || better ||
            info->done == info->total,
            "[%zu/%zu] %s: %s %u/%u, %s%s%s", index, n, layer,
            info->kind == METATUNE_CONFIRM ? "confirm" : "trial", info->done,
            info->total, best, gain, left);
    if (better)
        u->best = info->best_value;
}
