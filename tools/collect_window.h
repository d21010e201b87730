/* collect_window.h - settings measured between two looks at the machine

   A control kernel is timed before and after every window of settings. When
   the two differ by more than 3 % the machine changed meanwhile: the window is
   measured again, and after some tries taken with its rows marked as drifted.
   A machine that is another one from window to window (a neighbour came, the
   clock fell) is no reason to refuse: the controls are written beside the
   rows, and readers put times of one layer on the same footing. */
#ifndef METATUNE_COLLECT_WINDOW_H
#define METATUNE_COLLECT_WINDOW_H

#include "cmd_target.h"

#define COLLECT_DRIFT 0.03
enum {
    COLLECT_WINDOW = 20,         /* settings between two controls */
    COLLECT_TRIES = 4            /* of a window */
};

/* Measure setting i of the window, or the control when i is SIZE_MAX. OK, or
   the status that stops: CANCELLED, NOT_RUN, or the control's own. */
typedef metatune_status (*collect_measure_fn)(void *user, size_t i,
                                              host_result *result);

typedef struct collect_meter {
    collect_measure_fn measure;
    void *user;
    double last;                 /* the newest, if nothing came between; 0 */
    size_t n_discarded, n_drifted; /* windows */
} collect_meter;

/* Measure n settings (at most COLLECT_WINDOW). drifted: whether the tries were
   used up. control (2): the window's. */
metatune_status collect_window(collect_meter *meter, size_t n,
                               host_result *results, int *drifted,
                               double control[2]);

#endif
