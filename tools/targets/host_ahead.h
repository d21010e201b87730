/* host_ahead.h - compile some settings while others are measured

   Compiling takes longer than measuring: builds are asked for ahead, and run
   on the build core while this process waits for the one kernel that has the
   run core to itself. Between two measurements the run core builds, too; it is
   stopped while a kernel runs. */
#ifndef METATUNE_HOST_AHEAD_H
#define METATUNE_HOST_AHEAD_H

#include "host_run.h"

enum { HOST_AHEAD_CAP = 256 };   /* builds asked for and not yet begun */

/* Cores by number. run_cpu -1: wherever the system likes; build_cpu -1: on all
   but the run core. */
typedef struct host_ahead_config {
    int32_t build_cpu, run_cpu;
    int32_t jobs;                /* compilers at a time on the build core; 0
                                    is 2 */
    int32_t nice;                /* of compilers and kernels; what is not
                                    allowed is left */
} host_ahead_config;

struct host_proc;
typedef struct host_ahead {
    host_run *run;
    host_ahead_config cfg;
    struct host_proc *slot[8];   /* the last one on the run core */
    size_t which[8];
    int32_t n_slots;
    size_t queue[HOST_AHEAD_CAP]; /* a ring of cache entries */
    size_t head, n_queue;
    char *source;
} host_ahead;

/* run is used by nobody else meanwhile. OK or NO_MEMORY. */
metatune_status host_ahead_open(host_ahead *ahead, host_run *run,
                                const host_ahead_config *cfg);
/* Ends builds that are at work. */
void host_ahead_close(host_ahead *ahead);

/* Make room for n builds: call it when nothing is asked for (between layers).
   Kernels built before may be forgotten. */
void host_ahead_room(host_ahead *ahead, int32_t n);
/* Ask for a setting's kernel: its entry; or SIZE_MAX, and status and message
   in the result (CAPACITY: HOST_AHEAD_CAP are waiting). */
size_t host_ahead_ask(host_ahead *ahead, const host_layer *layer,
                      const int64_t *values, host_result *result);
/* Wait for its kernel, then verify and time it as host_run_measure does. It
   stays built: call it again to time it again. */
metatune_status host_ahead_measure(host_ahead *ahead, const host_layer *layer,
                                   const int64_t *values, size_t entry,
                                   host_result *result);

#endif
