/* host_time.c - verify and time a built kernel in a child; see host_run.h

   Rooms: [R-TIME] samples, [R-TEAM] threads that share a kernel, [R-CHECK]
   buffers and the verdict, [R-JOB] the child. */
#ifdef __linux__
#define _GNU_SOURCE 1            /* sched_getaffinity */
#else
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1
#endif
#include "host_proc.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    HOST_GUARD = 4096,           /* bytes before and after a buffer */
    HOST_STACK = 8 << 20,        /* bytes of a thread's stack */
    HOST_SPINS = 20000           /* looks before a waiting thread yields */
};
#define HOST_LONG_S 0.01         /* a sample that long needs no warm call */
#define HOST_ENOUGH_S 0.05       /* of samples: three are enough then */
#define HOST_POISON 0x7fa5a5a5u  /* a NaN that no arithmetic makes; an i32
                                    that only huge sums reach */

/* ==================================================== [R-TIME] samples */

/* Smallest step the clock was seen to make. */
static double host_tick(double (*now)(void *user), void *user)
{
    double tick = 0;
    int i, j;

    for (i = 0; i < 3; i++) {
        double a = now(user), b = a;
        for (j = 0; j < 1000000 && !(b > a); j++) b = now(user);
        if (b > a && (!(tick > 0) || b - a < tick)) tick = b - a;
    }
    return tick;
}

metatune_status host_sample_reps(double (*now)(void *user),
                                 void (*call)(void *user, double reps),
                                 void *user, double sample_s, double *reps)
{
    double tick = host_tick(now, user);

    if (!(tick > 0)) return METATUNE_INVALID_TIME;
    if (sample_s < 20 * tick) sample_s = 20 * tick;
    for (*reps = 1; *reps < 1e9;) {
        double t = now(user), want;
        call(user, *reps);
        t = now(user) - t;
        if (t >= sample_s) return METATUNE_OK;
        /* under a few ticks the time says nothing yet */
        want = t > 4 * tick ? *reps * sample_s / t * 1.1 : *reps * 16;
        if (want > *reps * 16) want = *reps * 16;
        *reps = floor(want) + 1;
    }
    return METATUNE_INVALID_TIME;
}

/* ===================================================== [R-TEAM] threads */

/* Threads that go through the phases of a kernel together. The child ends
   with them waiting: nobody joins. */
typedef struct host_team {
    void (*share)(void *user, int part); /* one part of the work */
    void *user;
    int32_t parts;
    int crowded;                 /* fewer cores than threads: do not spin */
    char apart0[64];             /* the counters on cache lines of their own */
    uint32_t arrived;
    char apart1[64];
    uint32_t round;
    char apart2[64];
} host_team;

typedef struct host_member {
    host_team *team;
    int part;
} host_member;

static void host_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Returns once all threads have called it. */
static void host_team_meet(host_team *team)
{
    uint32_t round = __atomic_load_n(&team->round, __ATOMIC_ACQUIRE);
    int spins = team->crowded ? HOST_SPINS : 0;

    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) ==
        (uint32_t)team->parts) {
        __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&team->round, round + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&team->round, __ATOMIC_ACQUIRE) == round) {
        if (spins < HOST_SPINS) {
            spins++;
            host_pause();
        } else {
            sched_yield();
        }
    }
}

static void *host_team_thread(void *user)
{
    host_member *member = (host_member *)user;

    for (;;) {
        host_team_meet(member->team);
        member->team->share(member->team->user, member->part);
    }
    return NULL;
}

static int32_t host_cores(void)
{
    long n;
#ifdef __linux__
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int32_t)n : 1;
}

/* Start parts - 1 threads; 0, or an errno. Not pinned: where others compute,
   too, a thread bound to their core would wait for them. */
static int host_team_start(host_team *team, host_member *member)
{
    pthread_attr_t attr;
    pthread_t thread;
    int32_t i;
    int rc = pthread_attr_init(&attr);

    if (rc) return rc;
    team->crowded = host_cores() < team->parts;
    pthread_attr_setstacksize(&attr, HOST_STACK);
    for (i = 1; i < team->parts && !rc; i++) {
        member[i].team = team;
        member[i].part = i;
        rc = pthread_create(&thread, &attr, host_team_thread, &member[i]);
    }
    pthread_attr_destroy(&attr);
    return rc;
}

/* ==================================================== [R-CHECK] verdict */

/* A poisoned buffer of n bytes between two guard zones. */
typedef struct host_buffer {
    unsigned char *all, *data;
    size_t n;
} host_buffer;

static void host_poison(unsigned char *to, size_t n)
{
    const uint32_t word = HOST_POISON;
    size_t done = n < sizeof word ? n : sizeof word;

    memcpy(to, &word, done);
    while (done < n) { /* what is there doubles, in steps that fit a cache */
        size_t more = done < 16384 ? done : 16384;
        if (more > n - done) more = n - done;
        memcpy(to + done, to, more);
        done += more;
    }
}

/* Changes when a byte does; four sums side by side, as this is on the way of
   every measurement. */
static uint64_t host_digest(const unsigned char *at, size_t n)
{
    uint64_t sum[4] = { 1, 2, 3, 4 }, word;
    size_t i, j;

    for (i = 0; i + 32 <= n; i += 32)
        for (j = 0; j < 4; j++) {
            memcpy(&word, at + i + 8 * j, 8);
            sum[j] = (sum[j] ^ word) * 0x9e3779b97f4a7c15u;
        }
    for (; i < n; i++) sum[0] = (sum[0] ^ at[i]) * 0x9e3779b97f4a7c15u;
    for (j = 1; j < 4; j++)
        sum[0] = (sum[0] ^ sum[j]) * 0x9e3779b97f4a7c15u;
    return sum[0];
}

static int host_poisoned(const void *at, size_t n)
{
    const uint32_t word = HOST_POISON;
    unsigned char byte[sizeof word];
    size_t i;

    memcpy(byte, &word, sizeof word);
    for (i = 0; i < n; i++)
        if (((const unsigned char *)at)[i] != byte[i % sizeof word]) return 0;
    return 1;
}

static int host_buffer_make(host_buffer *buffer, size_t n)
{
    void *all = NULL;

    buffer->n = n;
    if (posix_memalign(&all, 4096, n + 2 * HOST_GUARD)) return -1;
    buffer->all = (unsigned char *)all;
    buffer->data = buffer->all + HOST_GUARD;
    host_poison(buffer->all, HOST_GUARD);
    host_poison(buffer->data, n);
    host_poison(buffer->data + n, HOST_GUARD);
    return 0;
}

static int host_buffer_intact(const host_buffer *buffer)
{
    return host_poisoned(buffer->all, HOST_GUARD) &&
           host_poisoned(buffer->data + buffer->n, HOST_GUARD);
}

typedef struct host_job {
    const host_config *cfg;
    const host_layer *layer;
    const int64_t *values;
    const char *so;
    host_entry_fn fn;
    host_buffer in, w, out, work;
    uint64_t w_digest;           /* of the packed weights */
    void *plain;
    int outer[HOST_OUTER];
    int32_t phases;
    double reps;                 /* of the call that the team makes */
    host_team team;
    host_member member[8];
} host_job;

/* Are the lanes past the last channel of blocked output zero? The next layer
   reads them. */
static int host_lanes_zero(const host_kernel *kernel, const void *out)
{
    const metatune_encode_conv2d *c = &kernel->conv;
    size_t lanes = (size_t)kernel->march.lanes, n, k, p;
    size_t blocks = ((size_t)c->k + lanes - 1) / lanes;
    size_t hw = (size_t)kernel->oh * (size_t)kernel->ow;

    if (c->layout != METATUNE_NCHWC) return 1;
    for (n = 0; n < (size_t)c->n; n++)
        for (k = (size_t)c->k; k < blocks * lanes; k++)
            for (p = 0; p < hw; p++) {
                uint32_t bits;
                memcpy(&bits, (const unsigned char *)out +
                           (((n * blocks + k / lanes) * hw + p) * lanes +
                            k % lanes) * sizeof bits, sizeof bits);
                /* -0.0f is zero, too */
                if (c->dtype_out == METATUNE_F32) bits <<= 1;
                if (bits) return 0;
            }
    return 1;
}

/* Is the output right, and nothing else touched? 0 and a message when not. */
static int host_job_check(host_job *job, char *error)
{
    const host_kernel *kernel = &job->layer->kernel;
    const metatune_encode_conv2d *c = &kernel->conv;
    double tol = host_tolerance(c, job->values[HOST_KNOB_ALGORITHM]);
    size_t hw = (size_t)kernel->oh * (size_t)kernel->ow, i, n, k, p;

    if (!host_buffer_intact(&job->out) || !host_buffer_intact(&job->work)) {
        host_say(error, "wrote outside its %s",
                 host_buffer_intact(&job->work) ? "output" : "workspace");
        return 0;
    }
    if (!host_buffer_intact(&job->in) || !host_buffer_intact(&job->w) ||
        memcmp(job->in.data, job->layer->in, job->in.n) ||
        host_digest(job->w.data, job->w.n) != job->w_digest) {
        host_say(error, "wrote into its input or weights");
        return 0;
    }
    host_kernel_unpack_out(kernel, job->out.data, job->plain);
    n = (size_t)c->n * (size_t)c->k * hw;
    for (i = 0; i < n; i++) {
        double got, want;
        if (c->dtype_out == METATUNE_I32) {
            got = ((const int32_t *)job->plain)[i];
            want = ((const int32_t *)job->layer->ref)[i];
        } else {
            got = (double)((const float *)job->plain)[i];
            want = (double)((const float *)job->layer->ref)[i];
        }
        if (fabs(got - want) <= tol) continue; /* not for NaN */
        k = i / hw;
        p = i % hw;
        if (host_poisoned((const unsigned char *)job->plain + 4 * i, 4))
            host_say(error, "output n=%d k=%d y=%d x=%d was not written",
                     (int)(k / (size_t)c->k), (int)(k % (size_t)c->k),
                     (int)(p / (size_t)kernel->ow),
                     (int)(p % (size_t)kernel->ow));
        else
            host_say(error, "output n=%d k=%d y=%d x=%d is %.10g, want %.10g",
                     (int)(k / (size_t)c->k), (int)(k % (size_t)c->k),
                     (int)(p / (size_t)kernel->ow),
                     (int)(p % (size_t)kernel->ow), got, want);
        return 0;
    }
    if (!host_lanes_zero(kernel, job->out.data)) {
        host_say(error, "a lane past the last channel is not zero");
        return 0;
    }
    return 1;
}

/* ======================================================== [R-JOB] child */

/* One part of the team's call, phase by phase. */
static void host_job_share(void *user, int part)
{
    host_job *job = (host_job *)user;
    void *work = job->work.n ? job->work.data : NULL;
    double reps = job->reps;
    int32_t phase;

    for (; reps >= 1; reps -= 1)
        for (phase = 0; phase < job->phases; phase++) {
            job->fn(job->in.data, job->w.data, job->out.data, work,
                    job->outer, phase, part, job->team.parts);
            host_team_meet(&job->team);
        }
}

static void host_job_call(void *user, double reps)
{
    host_job *job = (host_job *)user;
    void *work = job->work.n ? job->work.data : NULL;

    if (job->team.parts > 1) {
        job->reps = reps;
        host_team_meet(&job->team);
        host_job_share(job, 0);
        return;
    }
    for (; reps >= 1; reps -= 1)
        job->fn(job->in.data, job->w.data, job->out.data, work, job->outer,
                -1, 0, 1);
}

static double host_job_now(void *user)
{
    (void)user;
    return host_now();
}

/* Buffers filled, library loaded, threads waiting; 0 and a message if not. */
static int host_job_begin(host_job *job, host_message *message)
{
    const host_kernel *kernel = &job->layer->kernel;
    size_t n_w = host_kernel_weight_size(kernel, job->values);
    size_t n_out = host_kernel_out_size(kernel);
    void *library = dlopen(job->so, RTLD_NOW | RTLD_LOCAL);
    int rc;

    message->status = METATUNE_RUNTIME;
    if (!library || host_symbol(library, HOST_ENTRY_POINT, &job->fn,
                                sizeof job->fn)) {
        const char *text = dlerror();
        host_say(message->error, "cannot load the kernel: %.180s",
                 text ? text : "?");
        return 0;
    }
    host_kernel_outer(kernel, job->values, job->outer);
    job->phases = host_kernel_phases(kernel, job->values);
    job->plain = malloc(n_out + 1);
    if (!job->plain ||
        host_buffer_make(&job->in, host_kernel_in_size(kernel)) ||
        host_buffer_make(&job->w, n_w) ||
        host_buffer_make(&job->out, n_out) ||
        host_buffer_make(&job->work,
                         host_kernel_work_size(kernel, job->values))) {
        host_say(message->error, "out of memory for the layer's tensors");
        return 0;
    }
    memcpy(job->in.data, job->layer->in, job->in.n);
    host_kernel_pack_weight(kernel, job->values, job->layer->kcrs,
                            job->w.data);
    job->w_digest = host_digest(job->w.data, job->w.n);
    job->team.share = host_job_share;
    job->team.user = job;
    job->team.parts = kernel->march.threads;
    rc = host_team_start(&job->team, job->member);
    if (rc) {
        message->status = METATUNE_NOT_RUN;
        host_say(message->error, "cannot start a thread: %.100s",
                 strerror(rc));
        return 0;
    }
    return 1;
}

/* In the child: everything about one setting. */
static void host_job_body(void *user, host_message *message)
{
    host_job *job = (host_job *)user;
    struct rusage use;
    double reps = 1, last = 0, spent = 0;
    int32_t tries = 0;

    if (!host_job_begin(job, message)) return;
    host_job_call(job, 1);
    message->status = METATUNE_WRONG;
    if (!host_job_check(job, message->error)) return;

    message->status = (int32_t)host_sample_reps(
        host_job_now, host_job_call, job, job->cfg->sample_s, &reps);
    if (message->status != METATUNE_OK) {
        host_say(message->error, "the clock does not advance");
        return;
    }
    /* Slow calls need neither warming up between samples nor many of them:
       what disturbs a sample is short beside it. */
    while (message->n_samples < job->cfg->samples &&
           (message->n_samples < 3 || spent < HOST_ENOUGH_S)) {
        double t;
        long before;
        if (last < HOST_LONG_S) host_job_call(job, 1); /* warm */
        getrusage(RUSAGE_SELF, &use);
        before = use.ru_nivcsw;
        t = host_now();
        host_job_call(job, reps);
        last = host_now() - t;
        t = last / reps;
        spent += last;
        getrusage(RUSAGE_SELF, &use);
        /* too many threads disturb each other all the time */
        if (use.ru_nivcsw != before && tries < job->cfg->retries &&
            !job->team.crowded) {
            tries++;
            continue;
        }
        message->sample[message->n_samples++] = t;
    }
    message->n_disturbed = tries;
    if (!host_job_check(job, message->error)) message->status = METATUNE_WRONG;
}

metatune_status host_run_time(host_run *run, const host_layer *layer,
                              const int64_t *values, const char *so,
                              host_result *result)
{
    const host_kernel *kernel = &layer->kernel;
    host_job job;
    host_message message;
    double seconds = run->cfg.run_s, bytes, began = host_now();
    int32_t i;

    memset(&job, 0, sizeof job);
    job.cfg = &run->cfg;
    job.layer = layer;
    job.values = values;
    job.so = so;
    if (seconds < 2 * layer->naive_s) seconds = 2 * layer->naive_s;
    bytes = (double)host_kernel_in_size(kernel) +
            (double)host_kernel_weight_size(kernel, values) +
            2.0 * (double)host_kernel_out_size(kernel) +
            (double)host_kernel_work_size(kernel, values) +
            (double)(kernel->march.threads - 1) * HOST_STACK;
    host_child_run(run, host_job_body, &job, seconds, bytes,
                   kernel->march.threads, &message);
    result->status = (metatune_status)message.status;
    result->n_samples = message.n_samples;
    result->n_disturbed = message.n_disturbed;
    memcpy(result->sample, message.sample, sizeof result->sample);
    memcpy(result->error, message.error, sizeof result->error);
    result->time_s = 0;
    if (result->status == METATUNE_OK) {
        for (i = 0; i < result->n_samples; i++)
            if (i == 0 || result->sample[i] < result->time_s)
                result->time_s = result->sample[i];
        if (!(result->time_s > 0 && result->time_s < 1e9)) {
            result->status = METATUNE_INVALID_TIME;
            host_say(result->error, "measured a time of %g s",
                     result->time_s);
            result->time_s = 0;
        }
    }
    result->run_s = host_now() - began;
    return result->status;
}
