/* host_ahead.c - see host_ahead.h */
#define _GNU_SOURCE
#include "host_proc.h"
#include "host_ahead.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void host_pin(int32_t cpu, int32_t not_on)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    int32_t i;

    if (cpu >= CPU_SETSIZE || (cpu < 0 && not_on < 0)) return;
    CPU_ZERO(&set);
    if (cpu >= 0) CPU_SET((size_t)cpu, &set);
    for (i = 0; cpu < 0 && i < n && i < CPU_SETSIZE; i++)
        if (i != not_on) CPU_SET((size_t)i, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

metatune_status host_ahead_open(host_ahead *ahead, host_run *run,
                                const host_ahead_config *cfg)
{
    int32_t i, n = cfg->jobs > 0 ? cfg->jobs : 2;

    memset(ahead, 0, sizeof *ahead);
    ahead->run = run;
    ahead->cfg = *cfg;
    /* one more on the run core, when the two are told apart */
    if (cfg->run_cpu >= 0 && cfg->run_cpu != cfg->build_cpu) n++;
    if (n > 8) n = 8;
    ahead->source = (char *)malloc(HOST_SOURCE_BYTES);
    for (i = 0; i < n && ahead->source; i++) {
        ahead->slot[i] = (host_proc *)malloc(sizeof *ahead->slot[i]);
        if (!ahead->slot[i]) break;
        ahead->slot[i]->done = 1;
        ahead->slot[i]->pid = 0;
    }
    ahead->n_slots = i;
    if (i < n) {
        host_ahead_close(ahead);
        return METATUNE_NO_MEMORY;
    }
    if (cfg->nice) {
        errno = 0;
        (void)setpriority(PRIO_PROCESS, 0, cfg->nice);
    }
    run->cfg.run_cpu = cfg->run_cpu + 1;
    host_pin(cfg->build_cpu, cfg->run_cpu);
    return METATUNE_OK;
}

static int ahead_on_run_core(const host_ahead *ahead, int32_t slot)
{
    return ahead->cfg.run_cpu >= 0 &&
           ahead->cfg.run_cpu != ahead->cfg.build_cpu &&
           slot == ahead->n_slots - 1;
}

/* Take what is finished, start what waits; not a moment longer. */
static void ahead_pump(host_ahead *ahead)
{
    host_run *run = ahead->run;
    int32_t i;

    for (i = 0; i < ahead->n_slots; i++) {
        host_proc *proc = ahead->slot[i];
        if (proc->done && proc->pid) {
            host_entry_finish(run, ahead->which[i], proc);
            proc->pid = 0;
        }
        while (!proc->pid && ahead->n_queue && !host_cancelled(run)) {
            size_t e = ahead->queue[ahead->head];
            ahead->head = (ahead->head + 1) % HOST_AHEAD_CAP;
            ahead->n_queue--;
            if (host_entry_built(run, e) || host_entry_busy(run, e)) continue;
            if (ahead_on_run_core(ahead, i))
                host_pin(ahead->cfg.run_cpu, -1);
            if (host_entry_start(run, e, proc) != 0) proc->pid = 0;
            ahead->which[i] = e;
            host_pin(ahead->cfg.build_cpu, ahead->cfg.run_cpu);
        }
    }
}

void host_ahead_close(host_ahead *ahead)
{
    int32_t i;

    for (i = 0; i < 8; i++) {
        host_proc *proc = ahead->slot[i];
        if (proc && proc->pid) {
            proc->deadline = 0;
            host_proc_wait(ahead->run, proc);
            host_entry_finish(ahead->run, ahead->which[i], proc);
        }
        free(proc);
    }
    free(ahead->source);
    memset(ahead, 0, sizeof *ahead);
}

void host_ahead_room(host_ahead *ahead, int32_t n)
{
    host_cache_trim(ahead->run, n);
}

size_t host_ahead_ask(host_ahead *ahead, const host_layer *layer,
                      const int64_t *values, host_result *result)
{
    size_t e;

    memset(result, 0, sizeof *result);
    result->status = METATUNE_NOT_RUN;
    if (ahead->n_queue == HOST_AHEAD_CAP) {
        result->status = METATUNE_CAPACITY;
        return SIZE_MAX;
    }
    e = host_setting_find(ahead->run, &layer->kernel, values, ahead->source,
                          result);
    if (e == SIZE_MAX) return e;
    if (!host_entry_built(ahead->run, e) && !host_entry_busy(ahead->run, e))
        ahead->queue[(ahead->head + ahead->n_queue++) % HOST_AHEAD_CAP] = e;
    ahead_pump(ahead);
    return e;
}

/* Compilers where kernels run make way, and their children with them. */
static void ahead_signal(const host_ahead *ahead, int number)
{
    int32_t i;

    for (i = 0; i < ahead->n_slots; i++)
        if ((ahead->cfg.run_cpu < 0 || ahead_on_run_core(ahead, i)) &&
            ahead->slot[i]->pid && !ahead->slot[i]->done)
            kill(-ahead->slot[i]->pid, number);
}

metatune_status host_ahead_measure(host_ahead *ahead, const host_layer *layer,
                                   const int64_t *values, size_t entry,
                                   host_result *result)
{
    host_run *run = ahead->run;
    char path[HOST_PATH_BYTES];

    memset(result, 0, sizeof *result);
    ahead_pump(ahead);
    while (!host_entry_built(run, entry) && !host_cancelled(run)) {
        int32_t i, busy = 0;
        for (i = 0; i < ahead->n_slots; i++)
            busy += !ahead->slot[i]->done;
        if (!busy && !host_entry_busy(run, entry) && !ahead->n_queue)
            break;               /* it could not be started */
        host_proc_poll(run, ahead->slot, ahead->n_slots);
        ahead_pump(ahead);
    }
    host_entry_result(run, entry, 0, path, result);
    if (result->status != METATUNE_OK || host_cancelled(run)) {
        if (host_cancelled(run)) result->status = METATUNE_CANCELLED;
        return result->status;
    }
    ahead_signal(ahead, SIGSTOP);
    (void)host_run_time(run, layer, values, path, result);
    ahead_signal(ahead, SIGCONT);
    return result->status;
}
