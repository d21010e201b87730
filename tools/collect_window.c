/* collect_window.c - see collect_window.h */
#include "collect_window.h"

#include <string.h>

static int apart(double a, double b)
{
    return a > b ? a > b * (1 + COLLECT_DRIFT) : b > a * (1 + COLLECT_DRIFT);
}

/* The faster of two: one alone, of a kernel that lives off memory, is off by
   more than the limit now and then on a machine that has not changed. */
static metatune_status control_time(collect_meter *meter, double *t)
{
    int look;
    for (look = 0; look < 2; look++) {
        host_result r;
        metatune_status st;
        memset(&r, 0, sizeof r);
        st = meter->measure(meter->user, SIZE_MAX, &r);
        if (st == METATUNE_OK && r.status != METATUNE_OK)
            st = r.status;
        if (st != METATUNE_OK)
            return st;
        if (look == 0 || r.time_s < *t)
            *t = r.time_s;
    }
    return METATUNE_OK;
}

metatune_status collect_window(collect_meter *meter, size_t n,
                               host_result *results, int *drifted,
                               double control[2])
{
    metatune_status st = METATUNE_OK;
    int tries;
    *drifted = 0;
    for (tries = 1;; tries++) {
        size_t i;
        control[0] = meter->last;
        meter->last = 0;
        if (!(control[0] > 0))
            st = control_time(meter, &control[0]);
        for (i = 0; i < n && st == METATUNE_OK; i++)
            st = meter->measure(meter->user, i, &results[i]);
        if (st == METATUNE_OK)
            st = control_time(meter, &control[1]);
        if (st != METATUNE_OK)
            return st;
        if (!apart(control[0], control[1])) {
            meter->last = control[1];
            return METATUNE_OK;
        }
        meter->n_discarded++;
        if (tries == COLLECT_TRIES)
            break;
    }
    meter->n_drifted++;
    *drifted = 1;
    return METATUNE_OK;
}
