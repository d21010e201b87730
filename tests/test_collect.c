/* test_collect.c - windows of measurements against a machine that is told how
   to behave: what drifts is measured again, what keeps drifting is marked. */
#define METATUNE_IMPLEMENTATION
#include <string.h>

#include "../tools/collect_window.h"
#include "check.h"

typedef struct machine {
    double speed[256];           /* factor on the time of call i */
    size_t n;                    /* calls so far */
    size_t controls;             /* of them, the control's */
    metatune_status fails_at;    /* status at call `at` */
    size_t at;
    size_t seen[256];            /* settings, in the order asked */
} machine;

static void machine_init(machine *m)
{
    size_t i;
    memset(m, 0, sizeof *m);
    m->at = SIZE_MAX;
    for (i = 0; i < 256; i++)
        m->speed[i] = 1;
}

static metatune_status measure(void *user, size_t i, host_result *r)
{
    machine *m = (machine *)user;
    memset(r, 0, sizeof *r);
    if (m->n == m->at)
        return m->fails_at;
    r->status = METATUNE_OK;
    r->time_s = (i == SIZE_MAX ? 1e-3 : 1e-3 * (double)(i + 2)) *
                m->speed[m->n];
    m->seen[m->n++] = i;
    m->controls += i == SIZE_MAX;
    return METATUNE_OK;
}

static collect_meter meter_of(machine *m)
{
    collect_meter meter;
    memset(&meter, 0, sizeof meter);
    meter.measure = measure;
    meter.user = m;
    return meter;
}

/* Two looks at the control on each side, the settings between in order; the
   end of one window is the beginning of the next. */
static void test_steady(void)
{
    machine m;
    collect_meter meter;
    host_result r[COLLECT_WINDOW];
    double control[2];
    int drifted;
    size_t i;
    machine_init(&m);
    meter = meter_of(&m);
    CHECK_INT(collect_window(&meter, 5, r, &drifted, control), METATUNE_OK);
    CHECK_INT(drifted, 0);
    CHECK_INT(m.n, 2 + 5 + 2);
    for (i = 0; i < 5; i++)
        CHECK_INT(m.seen[2 + i], i);
    CHECK_NEAR(control[0], 1e-3, 0);
    CHECK_NEAR(r[3].time_s, 5e-3, 1e-15);
    CHECK_INT(collect_window(&meter, 5, r, &drifted, control), METATUNE_OK);
    CHECK_INT(m.n, 9 + 5 + 2);
    CHECK_INT(meter.n_discarded, 0);
}

/* 4 % slower from the middle of the window on: again, and then all is of the
   new level. */
static void test_step(void)
{
    machine m;
    collect_meter meter;
    host_result r[COLLECT_WINDOW];
    double control[2];
    int drifted;
    size_t i;
    machine_init(&m);
    for (i = 5; i < 256; i++)
        m.speed[i] = 1.04;
    meter = meter_of(&m);
    CHECK_INT(collect_window(&meter, 5, r, &drifted, control), METATUNE_OK);
    CHECK_INT(drifted, 0);
    CHECK_INT(meter.n_discarded, 1);
    CHECK_INT(m.n, 2 * 9);
    CHECK_NEAR(control[0], 1.04e-3, 1e-15);
    CHECK_NEAR(control[1], 1.04e-3, 1e-15);
    CHECK_NEAR(r[0].time_s, 2.08e-3, 1e-15);
    CHECK_INT(meter.n_drifted, 0);
}

/* 2 % is noise; one disturbed look is not believed. */
static void test_noise(void)
{
    machine m;
    collect_meter meter;
    host_result r[COLLECT_WINDOW];
    double control[2];
    int drifted;
    machine_init(&m);
    m.speed[0] = 1.5;
    m.speed[7] = m.speed[8] = 1.02;
    meter = meter_of(&m);
    CHECK_INT(collect_window(&meter, 5, r, &drifted, control), METATUNE_OK);
    CHECK_INT(meter.n_discarded, 0);
    CHECK_NEAR(control[0], 1e-3, 0);
    CHECK_NEAR(control[1], 1.02e-3, 1e-15);
}

/* Always faster than before: the tries run out and the rows are marked. */
static void test_restless(void)
{
    machine m;
    collect_meter meter;
    host_result r[COLLECT_WINDOW];
    double control[2];
    int drifted;
    size_t i;
    machine_init(&m);
    for (i = 1; i < 256; i++)
        m.speed[i] = m.speed[i - 1] * 0.99;
    meter = meter_of(&m);
    CHECK_INT(collect_window(&meter, 5, r, &drifted, control), METATUNE_OK);
    CHECK_INT(drifted, 1);
    CHECK_INT(meter.n_discarded, COLLECT_TRIES);
    CHECK_INT(meter.n_drifted, 1);
    CHECK_INT(m.n, COLLECT_TRIES * 9);
    CHECK_NEAR(meter.last, 0, 0); /* the next one looks anew */
}

static void test_stops(void)
{
    machine m;
    collect_meter meter;
    host_result r[COLLECT_WINDOW];
    double control[2];
    int drifted;
    machine_init(&m);
    m.at = 4;
    m.fails_at = METATUNE_CANCELLED;
    meter = meter_of(&m);
    CHECK_INT(collect_window(&meter, 5, r, &drifted, control),
              METATUNE_CANCELLED);
    machine_init(&m);
    m.at = 0;
    m.fails_at = METATUNE_NOT_RUN;
    meter = meter_of(&m);
    CHECK_INT(collect_window(&meter, 5, r, &drifted, control),
              METATUNE_NOT_RUN);
}

int main(void)
{
    RUN(test_steady);
    RUN(test_step);
    RUN(test_noise);
    RUN(test_restless);
    RUN(test_stops);
    return check_report("test_collect");
}
