/* ui.h - progress for people: one live line on a terminal, plain lines in a
   pipe, nothing when quiet */
#ifndef METATUNE_UI_H
#define METATUNE_UI_H

#include "metatune.h"

typedef enum ui_mode { UI_QUIET = 0, UI_PLAIN = 1, UI_LIVE = 2 } ui_mode;

typedef struct ui {
    ui_mode mode;
    int dirty;                   /* a live line is on the screen */
    double next_s;               /* when the next line is due */
    double best;                 /* last best value printed in a pipe */
} ui;

/* Live when stdout is a terminal that can move its cursor. */
void ui_init(ui *u, int quiet);
/* A line that stays. */
void ui_say(ui *u, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/* A line that the next one replaces; in a pipe printed at most once in
   `every` seconds, unless `force`. */
void ui_live(ui *u, double now_s, double every, int force,
             const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6)))
#endif
    ;
/* Layer, trial k/N, best GFLOP/s, expected gain, time left. gflop is the
   layer's work; how: what the best one is, in a word, or NULL. left_s
   overrides the info's when >= 0. */
void ui_tune(ui *u, double now_s, const char *layer, size_t index, size_t n,
             double gflop, const char *how, double left_s,
             const metatune_progress *info);
/* Remove the live line. */
void ui_clear(ui *u);

/* "12s", "3m05s", "1h02m" */
const char *ui_time(double s, char *buf, size_t cap);

#endif
