/* host_run.c - see host_run.h

   Rooms: [R-TEXT] small text helpers, [R-PROC] child processes with a
   deadline, [R-BUILD] the compiler and the cache, [R-TIME] samples,
   [R-CHILD] the forked child that verifies and times, [R-PROBE] the machine,
   [R-LAYER] data and reference, [R-OPEN] open, measure, close. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1
#include "host_run.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* AddressSanitizer reserves terabytes: no address-space limit under it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define HOST_SANITIZED 1
#endif
#endif
#ifndef HOST_SANITIZED
#define HOST_SANITIZED 0
#endif

extern char **environ;

enum {
    HOST_ARGS = 64,              /* arguments of the compiler */
    HOST_TEXT_BYTES = 16384,     /* kept of what a child says */
    HOST_PATH_BYTES = 640,
    HOST_ENTRIES_MAX = 4096,     /* built kernels kept in the folder */
    HOST_GUARD = 1024,           /* floats before and after a buffer */
    HOST_TICK_MS = 20            /* how soon a cancel is seen */
};
#define HOST_POISON 0x7fa5a5a5u  /* a NaN that no arithmetic makes */

struct host_entry {
    uint64_t hash;
    metatune_status status;      /* OK, COMPILE, TIMEOUT; NOT_RUN: unbuilt */
    int busy;                    /* being built */
    double build_s;
    char error[HOST_ERROR_BYTES];
};

/* ==================================================== [R-TEXT] text */

static double host_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void host_sleep(double s)
{
    struct timespec t;

    t.tv_sec = 0;
    t.tv_nsec = (long)(s * 1e9);
    nanosleep(&t, NULL);
}

/* Into a message of HOST_ERROR_BYTES; a long one is cut. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void host_say(char *line, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(line, HOST_ERROR_BYTES, format, list);
    va_end(list);
}

static metatune_status host_fail(host_error *error, metatune_status status,
                                 const char *line)
{
    if (error) {
        error->status = status;
        snprintf(error->line, sizeof error->line, "%s", line);
    }
    return status;
}

static int host_cancelled(const host_run *run)
{
    return run->cfg.cancel && *run->cfg.cancel;
}

/* The line that explains a failed build: the first with "error" in it (or
   what linkers say), else the first at all; our folder's name taken out. */
static void host_first_error(const host_run *run, const char *text,
                             char *line)
{
    static const char *const signs[] = { "error", "Error", "undefined",
                                         "cannot", "not found" };
    const char *p, *end, *pick = NULL, *pick_end = NULL;
    size_t n = 0, skip = strlen(run->folder), i;

    for (p = text; *p && pick == NULL; p = *end ? end + 1 : end) {
        end = p;
        while (*end && *end != '\n') end++;
        for (i = 0; i < sizeof signs / sizeof signs[0] && !pick; i++) {
            const char *hit = strstr(p, signs[i]);
            if (hit && hit < end) {
                pick = p;
                pick_end = end;
            }
        }
    }
    if (!pick) {
        pick = text;
        while (*pick == '\n') pick++;
        pick_end = pick;
        while (*pick_end && *pick_end != '\n') pick_end++;
    }
    while (pick < pick_end && n + 1 < HOST_ERROR_BYTES) {
        if (skip && strncmp(pick, run->folder, skip) == 0 &&
            pick[skip] == '/') {
            pick += skip + 1;
            continue;
        }
        line[n++] = *pick++;
    }
    line[n] = 0;
}

/* ============================================ [R-PROC] child processes */

typedef struct host_proc {
    pid_t pid;                   /* also its group; 0 = none */
    int fd;                      /* our end of the pipe; -1 = closed */
    double deadline, began, ended;
    int done;
    int timed_out, cancelled;
    int wait_status;
    size_t n;                    /* bytes kept in text */
    char text[HOST_TEXT_BYTES];
} host_proc;

/* A pipe whose ends no other child inherits, reader not blocking; past the
   standard streams even when those are closed, for they get replaced. */
static int host_pipe(int fd[2])
{
    int i, high;

    if (pipe(fd)) return -1;
    for (i = 0; i < 2; i++) {
        high = fcntl(fd[i], F_DUPFD_CLOEXEC, 3);
        if (high < 0) break;
        close(fd[i]);
        fd[i] = high;
    }
    if (i < 2 || fcntl(fd[0], F_SETFL, O_NONBLOCK)) {
        close(fd[0]);
        close(fd[1]);
        return -1;
    }
    return 0;
}

static void host_proc_begin(host_proc *proc, pid_t pid, int fd,
                            double seconds)
{
    proc->pid = pid;
    proc->fd = fd;
    proc->began = host_now();
    proc->deadline = proc->began + seconds;
    proc->done = proc->timed_out = proc->cancelled = 0;
    proc->wait_status = 0;
    proc->n = 0;
    proc->text[0] = 0;
}

/* Start argv[0] from the path, in its own group, with its temporary files in
   our folder; `stream` (1 or 2) comes to us, the others are /dev/null.
   Returns 0 or an errno. */
static int host_proc_spawn(host_proc *proc, const host_run *run,
                           char *const *argv, int stream, double seconds)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t set;
    char tmp[HOST_PATH_BYTES], **env;
    size_t n = 0, i, j;
    int fd[2], rc, s;
    pid_t pid;

    proc->pid = 0;
    proc->fd = -1;
    proc->done = 1;
    if (host_pipe(fd)) return errno;
    while (environ[n]) n++;
    env = (char **)malloc((n + 2) * sizeof *env);
    if (!env) {
        close(fd[0]);
        close(fd[1]);
        return ENOMEM;
    }
    snprintf(tmp, sizeof tmp, "TMPDIR=%s", run->folder);
    for (i = j = 0; i < n; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0) env[j++] = environ[i];
    env[j++] = tmp;
    env[j] = NULL;

    posix_spawn_file_actions_init(&actions);
    for (s = 0; s < 3; s++)
        if (s != stream)
            posix_spawn_file_actions_addopen(&actions, s, "/dev/null",
                                             s ? O_WRONLY : O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fd[1], stream);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setpgroup(&attr, 0);
    sigemptyset(&set);
    posix_spawnattr_setsigmask(&attr, &set);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    posix_spawnattr_setsigdefault(&attr, &set);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP |
                                        POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    rc = posix_spawnp(&pid, argv[0], &actions, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    free(env);
    close(fd[1]);
    if (rc) {
        close(fd[0]);
        return rc;
    }
    host_proc_begin(proc, pid, fd[0], seconds);
    return 0;
}

/* Take what the pipe holds; what does not fit is read and forgotten, so that
   a child that floods it neither blocks nor fills our memory. */
static void host_proc_read(host_proc *proc)
{
    char sink[4096];
    int round;

    for (round = 0; proc->fd >= 0 && round < 64; round++) {
        size_t room = HOST_TEXT_BYTES - 1 - proc->n;
        ssize_t n = room ? read(proc->fd, proc->text + proc->n, room)
                         : read(proc->fd, sink, sizeof sink);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        if (n == 0) {
            close(proc->fd);
            proc->fd = -1;
            return;
        }
        if (room) proc->n += (size_t)n;
        proc->text[proc->n] = 0;
    }
}

/* Whatever is left of the group dies before its leader is reaped: until then
   the group's number cannot belong to anyone else. */
static void host_proc_end(host_proc *proc)
{
    kill(-proc->pid, SIGKILL);
    host_proc_read(proc);
    if (proc->fd >= 0) close(proc->fd);
    proc->fd = -1;
    while (waitpid(proc->pid, &proc->wait_status, 0) < 0 && errno == EINTR)
        continue;
    proc->ended = host_now();
    proc->done = 1;
}

/* One round over n processes: wait a little, read, end those that exited, are
   late, or are cancelled. */
static void host_proc_poll(const host_run *run, host_proc *const *proc,
                           int32_t n)
{
    struct pollfd set[8];
    nfds_t used = 0;
    int32_t i, silent = 0;
    double now = host_now(), wait_s = HOST_TICK_MS * 1e-3;

    for (i = 0; i < n && i < 8; i++) {
        if (proc[i]->done) continue;
        if (proc[i]->deadline - now < wait_s)
            wait_s = proc[i]->deadline - now;
        if (proc[i]->fd < 0) {
            silent = 1;
            continue;
        }
        set[used].fd = proc[i]->fd;
        set[used].events = POLLIN;
        set[used++].revents = 0;
    }
    if (wait_s < 0) wait_s = 0;
    /* A closed pipe tells nothing more: look again soon. */
    if (silent && wait_s > 1e-3) wait_s = 1e-3;
    if (used)
        poll(set, used, (int)(wait_s * 1e3 + 0.999));
    else
        host_sleep(wait_s);
    now = host_now();
    for (i = 0; i < n; i++) {
        siginfo_t info;
        if (proc[i]->done) continue;
        host_proc_read(proc[i]);
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)proc[i]->pid, &info,
                   WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == proc[i]->pid) {
            host_proc_end(proc[i]);
            continue;
        }
        if (host_cancelled(run))
            proc[i]->cancelled = 1;
        else if (now >= proc[i]->deadline)
            proc[i]->timed_out = 1;
        else
            continue;
        host_proc_end(proc[i]);
    }
}

static void host_proc_wait(const host_run *run, host_proc *proc)
{
    while (!proc->done) host_proc_poll(run, &proc, 1);
}

/* ====================================== [R-BUILD] compiler and cache */

/* Fill argv with the compiler and all flags; `store` holds the pieces. */
static int host_args(const host_run *run, char **argv, char *store)
{
    int n = 0;
    char *p = store;

    /* the compiler may be "ccache gcc" */
    snprintf(store, 2 * HOST_FLAG_BYTES, "%s %s",
             run->cfg.cc, run->platform.flags);
    while (*p && n < HOST_ARGS - 12) {
        while (*p == ' ') *p++ = 0;
        if (!*p) break;
        argv[n++] = p;
        while (*p && *p != ' ') p++;
    }
    argv[n] = NULL;
    return n;
}

/* exec wants char *; it does not write */
static char *host_arg(const char *text)
{
    union {
        const char *in;
        char *out;
    } u;

    u.in = text;
    return u.out;
}

static void host_entry_path(const host_run *run, uint64_t hash,
                            const char *end, char *path)
{
    snprintf(path, HOST_PATH_BYTES, "%s/k%016llx%s", run->folder,
             (unsigned long long)hash, end);
}

static void host_folder_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *item;
    char path[HOST_PATH_BYTES + 256];

    if (!dir) return;
    while ((item = readdir(dir)) != NULL) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        unlink(path);
    }
    closedir(dir);
}

/* The cache's index of a source, added unbuilt when new; its text is in the
   folder from then on. SIZE_MAX and a message when that failed. */
static size_t host_entry_find(host_run *run, const char *source, char *error)
{
    uint64_t hash = metatune_encode_hash(1, source, strlen(source));
    char path[HOST_PATH_BYTES];
    host_entry *entry;
    size_t i;
    FILE *file;
    int bad;

    for (i = 0; i < run->n_entries; i++)
        if (run->entry[i].hash == hash) break;
    if (i < run->n_entries && run->entry[i].status != METATUNE_NOT_RUN)
        return i;
    if (i == run->n_entries) {
        if (i == run->cap_entries) {
            size_t cap = run->cap_entries ? 2 * run->cap_entries : 64;
            entry = (host_entry *)realloc(run->entry, cap * sizeof *entry);
            if (!entry) {
                host_say(error, "out of memory for the build cache");
                return SIZE_MAX;
            }
            run->entry = entry;
            run->cap_entries = cap;
        }
        memset(&run->entry[i], 0, sizeof run->entry[i]);
        run->entry[i].hash = hash;
        run->entry[i].status = METATUNE_NOT_RUN;
        run->n_entries++;
    }
    host_entry_path(run, hash, ".c", path);
    errno = 0;
    file = fopen(path, "w");
    bad = !file || fputs(source, file) < 0;
    if (file && fclose(file)) bad = 1;
    if (bad) {
        if (errno == ENOSPC || errno == EDQUOT)
            host_say(error, "no space left in %.150s: free some or point "
                     "TMPDIR elsewhere", run->folder);
        else
            host_say(error, "cannot write in %.150s: %.60s", run->folder,
                     strerror(errno));
        unlink(path);
        return SIZE_MAX;
    }
    return i;
}

static int host_entry_start(host_run *run, host_entry *entry,
                            host_proc *proc)
{
    char source[HOST_PATH_BYTES], so[HOST_PATH_BYTES];
    char store[2 * HOST_FLAG_BYTES];
    char *argv[HOST_ARGS];
    int n = host_args(run, argv, store);

    host_entry_path(run, entry->hash, ".c", source);
    host_entry_path(run, entry->hash, ".so", so);
    argv[n++] = host_arg("-shared");
    argv[n++] = host_arg("-fPIC");
    argv[n++] = host_arg("-w");
    argv[n++] = host_arg("-o");
    argv[n++] = so;
    argv[n++] = source;
    argv[n] = NULL;
    return host_proc_spawn(proc, run, argv, 2, run->cfg.build_s);
}

/* How a finished build went: into the entry, and files tidied. */
static void host_entry_finish(host_run *run, host_entry *entry,
                              const host_proc *proc)
{
    char path[HOST_PATH_BYTES];
    int code = WIFEXITED(proc->wait_status) ? WEXITSTATUS(proc->wait_status)
                                            : -1;

    entry->build_s = proc->ended - proc->began;
    entry->busy = 0;
    entry->error[0] = 0;
    host_entry_path(run, entry->hash, ".c", path);
    unlink(path);
    if (!proc->timed_out && !proc->cancelled && code == 0) {
        entry->status = METATUNE_OK;
        run->n_built++;
        return;
    }
    host_entry_path(run, entry->hash, ".so", path);
    unlink(path);
    if (proc->cancelled) {
        entry->status = METATUNE_NOT_RUN;
        host_say(entry->error, "cancelled");
    } else if (proc->timed_out) {
        entry->status = METATUNE_TIMEOUT;
        host_say(entry->error, "the build took longer than %g s",
                 run->cfg.build_s);
    } else if (strstr(proc->text, "No space left on device")) {
        entry->status = METATUNE_NOT_RUN;
        host_say(entry->error, "no space left in %.150s: free some or point "
                 "TMPDIR elsewhere", run->folder);
    } else {
        entry->status = METATUNE_COMPILE;
        if (proc->text[0])
            host_first_error(run, proc->text, entry->error);
        else if (code >= 0)
            host_say(entry->error, "the compiler ended with status %d and "
                     "said nothing", code);
        else
            host_say(entry->error, "the compiler was killed by signal %d",
                     WTERMSIG(proc->wait_status));
    }
}

static void host_spawn_error(const host_run *run, int rc, char *error)
{
    if (rc == ENOENT)
        host_say(error, "compiler \"%.100s\" not found: install it or name "
                 "another one", run->cfg.cc);
    else if (rc == EACCES)
        host_say(error, "compiler \"%.100s\" may not be run: permission "
                 "denied", run->cfg.cc);
    else
        host_say(error, "cannot start \"%.100s\": %.60s", run->cfg.cc,
                 strerror(rc));
}

/* Build the entries of a list (n of them, some already built), jobs at a
   time. Entries that could not be tried stay NOT_RUN with a message. */
static void host_build_all(host_run *run, const size_t *index, int32_t n)
{
    host_proc *slot[8];
    size_t which[8];
    int32_t jobs = run->cfg.jobs, i, next = 0, busy;

    if (jobs > n) jobs = n;
    for (i = 0; i < jobs; i++) {
        slot[i] = (host_proc *)malloc(sizeof **slot);
        if (!slot[i]) break;
        slot[i]->done = 1;
        slot[i]->pid = 0;
    }
    jobs = i;
    do {
        busy = 0;
        for (i = 0; i < jobs; i++) {
            while (slot[i]->done && next < n && !host_cancelled(run)) {
                size_t e = index[next++];
                int rc;
                if (e == SIZE_MAX || run->entry[e].busy ||
                    run->entry[e].status != METATUNE_NOT_RUN)
                    continue;
                rc = host_entry_start(run, &run->entry[e], slot[i]);
                run->entry[e].busy = rc == 0;
                if (rc)
                    host_spawn_error(run, rc, run->entry[e].error);
                which[i] = e;
            }
            busy += !slot[i]->done;
        }
        if (!busy) break;
        host_proc_poll(run, slot, jobs);
        for (i = 0; i < jobs; i++)
            if (slot[i]->done && slot[i]->pid) {
                host_entry_finish(run, &run->entry[which[i]], slot[i]);
                slot[i]->pid = 0;
            }
    } while (1);
    for (i = 0; i < jobs; i++) free(slot[i]);
}

/* A full cache starts again: only between batches, nothing points into it. */
static void host_cache_trim(host_run *run, int32_t n)
{
    if (run->n_entries + (size_t)n <= HOST_ENTRIES_MAX) return;
    host_folder_empty(run->folder);
    run->n_entries = 0;
}

static void host_entry_result(const host_run *run, size_t e, int cached,
                              host_result *result)
{
    const host_entry *entry = &run->entry[e];

    result->status = entry->status;
    result->cached = cached;
    result->build_s = cached ? 0 : entry->build_s;
    if (entry->status == METATUNE_NOT_RUN && host_cancelled(run)) {
        result->status = METATUNE_CANCELLED;
        host_say(result->error, "cancelled");
    } else {
        memcpy(result->error, entry->error, sizeof result->error);
        if (entry->status == METATUNE_NOT_RUN && !result->error[0])
            host_say(result->error, "the build could not be started");
    }
}

metatune_status host_run_build(host_run *run, const char *source, char *so,
                               size_t cap, host_result *result)
{
    char path[HOST_PATH_BYTES];
    size_t e;
    int cached;

    memset(result, 0, sizeof *result);
    result->status = METATUNE_NOT_RUN;
    host_cache_trim(run, 1);
    e = host_entry_find(run, source, result->error);
    if (e == SIZE_MAX) return result->status;
    cached = run->entry[e].status != METATUNE_NOT_RUN;
    run->n_cached += (uint64_t)cached;
    if (!cached) host_build_all(run, &e, 1);
    host_entry_result(run, e, cached, result);
    host_entry_path(run, run->entry[e].hash, ".so", path);
    snprintf(so, cap, "%s", path);
    return result->status;
}

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

/* ========================================= [R-CHILD] verify and time */

/* What a child reports: one write, smaller than a pipe's atomic size. */
typedef struct host_message {
    uint32_t magic;
    int32_t status;
    int32_t n_samples, n_disturbed;
    double sample[HOST_SAMPLES];
    char error[HOST_ERROR_BYTES];
} host_message;
#define HOST_MAGIC 0x6d746168u

typedef void (*host_body)(void *user, host_message *message);

static void host_limit(int what, double value)
{
    struct rlimit limit;

    if (getrlimit(what, &limit)) return;
    if (limit.rlim_max != RLIM_INFINITY &&
        value > (double)limit.rlim_max)
        return;
    limit.rlim_cur = (rlim_t)value;
    if (what != RLIMIT_CPU) limit.rlim_max = limit.rlim_cur;
    setrlimit(what, &limit);
}

/* Bytes of address space in use; 0 when the system does not say. */
static double host_vm_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (!file) return 0;
    if (fscanf(file, "%lu", &pages) != 1) pages = 0;
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void host_child(const host_run *run, host_body body, void *user,
                       double seconds, double bytes, int fd)
{
    host_message message;
    const char *at = (const char *)&message;
    size_t left = sizeof message;
    sigset_t set;
    double vm;
    int s, null;

    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
#endif
    for (s = 1; s < 32; s++)
        if (s != SIGKILL && s != SIGSTOP) signal(s, SIG_DFL);
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    null = open("/dev/null", O_RDWR);
    for (s = 0; s < 3 && null >= 0; s++) dup2(null, s);
    host_limit(RLIMIT_CORE, 0);
    host_limit(RLIMIT_CPU, ceil(seconds) + 1);
    vm = host_vm_bytes();
    if (!HOST_SANITIZED && run->cfg.mem_bytes > 0 && vm > 0)
        host_limit(RLIMIT_AS, vm + bytes + run->cfg.mem_bytes);
    memset(&message, 0, sizeof message);
    message.magic = HOST_MAGIC;
    body(user, &message);
    while (left) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        at += n;
        left -= (size_t)n;
    }
    _exit(0);
}

static const char *host_signal_text(int number)
{
    switch (number) {
    case SIGSEGV: return "bad memory access (SIGSEGV)";
    case SIGBUS: return "bad memory access (SIGBUS)";
    case SIGILL: return "illegal instruction (SIGILL): is -march right for "
                        "this cpu?";
    case SIGFPE: return "arithmetic exception (SIGFPE)";
    case SIGABRT: return "it gave up (SIGABRT)";
    case SIGKILL: return "killed from outside (SIGKILL): out of memory?";
    default: return NULL;
    }
}

/* Fork, run body there with limits, and take its message. */
static void host_child_run(const host_run *run, host_body body, void *user,
                           double seconds, double bytes,
                           host_message *message)
{
    host_proc *proc;
    const char *text;
    int fd[2];
    pid_t pid;

    memset(message, 0, sizeof *message);
    message->status = METATUNE_NOT_RUN;
    proc = (host_proc *)malloc(sizeof *proc);
    if (!proc || host_pipe(fd)) {
        host_say(message->error, "cannot make a pipe: %.100s",
                 strerror(errno));
        free(proc);
        return;
    }
    pid = fork();
    if (pid == 0) {
        close(fd[0]);
        host_child(run, body, user, seconds, bytes, fd[1]);
    }
    close(fd[1]);
    if (pid < 0) {
        host_say(message->error, "cannot fork: %.100s", strerror(errno));
        close(fd[0]);
        free(proc);
        return;
    }
    setpgid(pid, pid);           /* whoever is first */
    host_proc_begin(proc, pid, fd[0], seconds);
    host_proc_wait(run, proc);
    if (proc->cancelled) {
        message->status = METATUNE_CANCELLED;
        host_say(message->error, "cancelled");
    } else if (proc->timed_out) {
        message->status = METATUNE_TIMEOUT;
        host_say(message->error, "the run took longer than %g s", seconds);
    } else {
        host_message got;
        memset(&got, 0, sizeof got);
        if (proc->n == sizeof got) memcpy(&got, proc->text, sizeof got);
        message->status = METATUNE_RUNTIME;
        if (WIFSIGNALED(proc->wait_status) &&
            WTERMSIG(proc->wait_status) == SIGXCPU) {
            message->status = METATUNE_TIMEOUT;
            host_say(message->error, "the run used more cpu time than %g s",
                     seconds + 1);
        } else if (WIFSIGNALED(proc->wait_status)) {
            text = host_signal_text(WTERMSIG(proc->wait_status));
            host_say(message->error, "the kernel crashed: %s%d",
                     text ? text : "signal ",
                     WTERMSIG(proc->wait_status));
            if (text)
                host_say(message->error, "the kernel crashed: %s", text);
        } else if (got.magic != HOST_MAGIC) {
            host_say(message->error, "the kernel ended the process (exit "
                     "status %d) before it had returned",
                     WEXITSTATUS(proc->wait_status));
        } else {
            *message = got;
            message->error[HOST_ERROR_BYTES - 1] = 0;
        }
    }
    free(proc);
}

typedef void (*host_entry_fn)(const float *in, const float *w, float *out,
                              float *work, const int *outer);

/* POSIX promises that a data pointer from dlsym holds a function's. */
static int host_symbol(void *library, const char *name, void *fn,
                       size_t bytes)
{
    void *symbol = dlsym(library, name);

    if (!symbol || bytes != sizeof symbol) return -1;
    memcpy(fn, &symbol, sizeof symbol);
    return 0;
}

/* A poisoned buffer between two guard zones. */
typedef struct host_buffer {
    float *all, *data;
    size_t n;
} host_buffer;

static void host_poison(float *to, size_t n)
{
    const uint32_t word = HOST_POISON;
    size_t i;

    for (i = 0; i < n; i++) memcpy(&to[i], &word, sizeof word);
}

static int host_poisoned(const float *at, size_t n)
{
    const uint32_t word = HOST_POISON;
    size_t i;

    for (i = 0; i < n; i++)
        if (memcmp(&at[i], &word, sizeof word) != 0) return 0;
    return 1;
}

static int host_buffer_make(host_buffer *buffer, size_t n)
{
    void *all = NULL;

    buffer->n = n;
    if (posix_memalign(&all, 4096, (n + 2 * HOST_GUARD) * sizeof(float)))
        return -1;
    buffer->all = (float *)all;
    buffer->data = buffer->all + HOST_GUARD;
    host_poison(buffer->all, n + 2 * HOST_GUARD);
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
    float *w_same, *plain;
    int outer[HOST_OUTER];
} host_job;

static void host_job_call(void *user, double reps)
{
    host_job *job = (host_job *)user;

    for (; reps >= 1; reps -= 1)
        job->fn(job->in.data, job->w.data, job->out.data,
                job->work.n ? job->work.data : NULL, job->outer);
}

static double host_job_now(void *user)
{
    (void)user;
    return host_now();
}

/* Is the output right, and nothing else touched? 0 and a message when not. */
static int host_job_check(host_job *job, char *error)
{
    const host_kernel *kernel = &job->layer->kernel;
    const metatune_encode_conv2d *c = &kernel->conv;
    size_t lanes = (size_t)kernel->march.lanes, i, n, k, p;
    size_t hw = (size_t)kernel->oh * (size_t)kernel->ow;
    size_t blocked = (size_t)kernel->ob * lanes;

    if (!host_buffer_intact(&job->out) || !host_buffer_intact(&job->work)) {
        host_say(error, "wrote outside its %s",
                 host_buffer_intact(&job->work) ? "output" : "workspace");
        return 0;
    }
    if (!host_buffer_intact(&job->in) || !host_buffer_intact(&job->w) ||
        memcmp(job->in.data, job->layer->in, job->in.n * sizeof(float)) ||
        memcmp(job->w.data, job->w_same, job->w.n * sizeof(float))) {
        host_say(error, "wrote into its input or weights");
        return 0;
    }
    host_kernel_unpack_out(kernel, job->out.data, job->plain);
    n = (size_t)c->n * (size_t)c->k * hw;
    for (i = 0; i < n; i++) {
        double got = (double)job->plain[i], want = (double)job->layer->ref[i];
        if (fabs(got - want) <= job->layer->tol) continue; /* not for NaN */
        k = i / hw;
        p = i % hw;
        if (host_poisoned(&job->plain[i], 1))
            host_say(error, "output n=%d k=%d y=%d x=%d was not written",
                     (int)(k / (size_t)c->k), (int)(k % (size_t)c->k),
                     (int)(p / (size_t)kernel->ow),
                     (int)(p % (size_t)kernel->ow));
        else
            host_say(error, "output n=%d k=%d y=%d x=%d is %.9g, want %.9g",
                     (int)(k / (size_t)c->k), (int)(k % (size_t)c->k),
                     (int)(p / (size_t)kernel->ow),
                     (int)(p % (size_t)kernel->ow), got, want);
        return 0;
    }
    /* lanes past the last channel are zero: the next layer reads them */
    for (n = 0; n < (size_t)c->n; n++)
        for (k = (size_t)c->k; k < blocked; k++)
            for (p = 0; p < hw; p++) {
                float got = job->out.data[((n * (size_t)kernel->ob +
                                            k / lanes) * hw + p) * lanes +
                                          k % lanes];
                if (fabsf(got) <= 0.0f) continue;
                host_say(error, "a lane past the last channel is not zero");
                return 0;
            }
    return 1;
}

/* In the child: everything about one setting. */
static void host_job_body(void *user, host_message *message)
{
    host_job *job = (host_job *)user;
    const host_kernel *kernel = &job->layer->kernel;
    size_t n_out = host_kernel_out_floats(kernel);
    void *library = dlopen(job->so, RTLD_NOW | RTLD_LOCAL);
    struct rusage use;
    double reps = 1;
    int32_t tries = 0;

    if (!library || host_symbol(library, HOST_ENTRY_POINT, &job->fn,
                                sizeof job->fn)) {
        const char *text = dlerror();
        message->status = METATUNE_RUNTIME;
        host_say(message->error, "cannot load the kernel: %.180s",
                 text ? text : "?");
        return;
    }
    host_kernel_outer(kernel, job->values, job->outer);
    job->w_same = (float *)malloc(host_kernel_weight_floats(kernel) *
                                  sizeof(float));
    job->plain = (float *)malloc((n_out + 1) * sizeof(float));
    if (!job->w_same || !job->plain ||
        host_buffer_make(&job->in, host_kernel_in_floats(kernel)) ||
        host_buffer_make(&job->w, host_kernel_weight_floats(kernel)) ||
        host_buffer_make(&job->out, n_out) ||
        host_buffer_make(&job->work,
                         host_kernel_work_floats(kernel, job->values))) {
        message->status = METATUNE_RUNTIME;
        host_say(message->error, "out of memory for the layer's tensors");
        return;
    }
    memcpy(job->in.data, job->layer->in, job->in.n * sizeof(float));
    host_kernel_pack_weight(kernel, job->values, job->layer->kcrs,
                            job->w.data);
    memcpy(job->w_same, job->w.data, job->w.n * sizeof(float));

    host_job_call(job, 1);
    message->status = METATUNE_WRONG;
    if (!host_job_check(job, message->error)) return;

    message->status = (int32_t)host_sample_reps(
        host_job_now, host_job_call, job, job->cfg->sample_s, &reps);
    if (message->status != METATUNE_OK) {
        host_say(message->error, "the clock does not advance");
        return;
    }
    while (message->n_samples < job->cfg->samples) {
        double t;
        long before;
        host_job_call(job, 1);   /* warm */
        getrusage(RUSAGE_SELF, &use);
        before = use.ru_nivcsw;
        t = host_now();
        host_job_call(job, reps);
        t = (host_now() - t) / reps;
        getrusage(RUSAGE_SELF, &use);
        if (use.ru_nivcsw != before && tries < job->cfg->retries) {
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
    bytes = 4.0 * ((double)host_kernel_in_floats(&layer->kernel) +
                   2.0 * (double)host_kernel_weight_floats(&layer->kernel) +
                   2.0 * (double)host_kernel_out_floats(&layer->kernel) +
                   (double)host_kernel_work_floats(&layer->kernel, values));
    host_child_run(run, host_job_body, &job, seconds, bytes, &message);
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

metatune_status host_run_measure(host_run *run, const host_layer *layer,
                                 const int64_t *values, int32_t n,
                                 host_result *result)
{
    char path[HOST_PATH_BYTES], *source;
    metatune_status end = METATUNE_OK;
    unsigned char *cached;
    size_t *index;
    int32_t i, j;

    if (n < 1) return METATUNE_BAD_ARG;
    memset(result, 0, (size_t)n * sizeof *result);
    source = (char *)malloc(HOST_SOURCE_BYTES);
    index = (size_t *)malloc((size_t)n * sizeof *index);
    cached = (unsigned char *)malloc((size_t)n);
    for (i = 0; i < n; i++) result[i].status = METATUNE_NOT_RUN;
    if (!source || !index || !cached) {
        for (i = 0; i < n; i++)
            host_say(result[i].error, "out of memory for the batch");
        free(source);
        free(index);
        free(cached);
        return METATUNE_NOT_RUN;
    }
    host_cache_trim(run, n);
    for (i = 0; i < n; i++) {
        const int64_t *v = values + (size_t)i * HOST_KNOBS;
        index[i] = SIZE_MAX;
        cached[i] = 0;
        if (!host_kernel_valid(&layer->kernel, v)) {
            result[i].status = METATUNE_CONSTRAINT;
            host_say(result[i].error, "not a valid setting of this layer");
            continue;
        }
        if (!host_kernel_emit_outer(&layer->kernel, v, HOST_ENTRY_POINT,
                                    source, HOST_SOURCE_BYTES)) {
            result[i].status = METATUNE_CONSTRAINT;
            host_say(result[i].error, "the source is longer than %d bytes",
                     HOST_SOURCE_BYTES);
            continue;
        }
        index[i] = host_entry_find(run, source, result[i].error);
        if (index[i] == SIZE_MAX) {
            end = METATUNE_NOT_RUN;
            continue;
        }
        cached[i] = run->entry[index[i]].status != METATUNE_NOT_RUN;
        for (j = 0; j < i; j++)
            if (index[j] == index[i]) cached[i] = 1;
        run->n_cached += cached[i];
    }
    host_build_all(run, index, n);
    for (i = 0; i < n; i++) {
        if (index[i] == SIZE_MAX) continue;
        host_entry_result(run, index[i], cached[i], &result[i]);
        if (result[i].status == METATUNE_OK) {
            host_entry_path(run, run->entry[index[i]].hash, ".so", path);
            if (host_cancelled(run)) {
                result[i].status = METATUNE_CANCELLED;
                host_say(result[i].error, "cancelled");
            } else {
                host_run_time(run, layer, values + (size_t)i * HOST_KNOBS,
                              path, &result[i]);
            }
        }
        if (result[i].status == METATUNE_CANCELLED ||
            result[i].status == METATUNE_NOT_RUN)
            end = result[i].status;
    }
    free(source);
    free(index);
    free(cached);
    return end;
}

/* =================================================== [R-PROBE] machine */

/* Loops that the probe times; built like a kernel, so that -march, compiler
   and vector width are the kernels' own. */
static const char host_probe_source[] =
    "typedef float v __attribute__((vector_size(4 * LANES), aligned(4),\n"
    "    may_alias));\n"
    "#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) "
    "M(10) M(11)\n"
    "#define HIDE(x) __asm__ volatile(\"\" : \"+r\"(x))\n"
    "float probe_fma(long n) {\n"
    "    volatile float one = 0.999f, tiny = 0.001f;\n"
    "    v z = { 0 }, b = z + one, c = z + tiny;\n"
    "#define M(i) v a##i = z + (float)i;\n"
    "    EACH(M)\n"
    "#undef M\n"
    "    while (n-- > 0) {\n"
    "#define M(i) a##i = a##i * b + c;\n"
    "        EACH(M)\n"
    "#undef M\n"
    "    }\n"
    "#define M(i) z += a##i;\n"
    "    EACH(M)\n"
    "#undef M\n"
    "    return z[0];\n"
    "}\n"
    "float probe_chain(long n) {\n"
    "    volatile float one = 0.999f, tiny = 0.001f;\n"
    "    v z = { 0 }, b = z + one, c = z + tiny, a = z;\n"
    "    while (n-- > 0) a = a * b + c;\n"
    "    return a[0];\n"
    "}\n"
    "float probe_cycle(long n) {\n"
    "    unsigned long x = (unsigned long)n, k = x | 5;\n"
    "    for (n /= 8; n > 0; n--) {\n"
    "        x ^= k; HIDE(x); x ^= k; HIDE(x); x ^= k; HIDE(x); x ^= k;\n"
    "        HIDE(x); x ^= k; HIDE(x); x ^= k; HIDE(x); x ^= k; HIDE(x);\n"
    "        x ^= k; HIDE(x);\n"
    "    }\n"
    "    return (float)(x & 255);\n"
    "}\n"
    "float probe_read(const float *p, long n, long reps) {\n"
    "    v z = { 0 };\n"
    "    long i;\n"
    "#define M(i) v a##i = z;\n"
    "    EACH(M)\n"
    "#undef M\n"
    "    while (reps-- > 0)\n"
    "        for (i = 0; i < n; i += 12 * LANES) {\n"
    "#define M(j) a##j += *(const v *)(p + i + j * LANES);\n"
    "            EACH(M)\n"
    "#undef M\n"
    "        }\n"
    "#define M(i) z += a##i;\n"
    "    EACH(M)\n"
    "#undef M\n"
    "    return z[0];\n"
    "}\n"
    "float probe_stride(const float *p, long n, long step, long reps) {\n"
    "    float a = 0, b = 0, c = 0, d = 0;\n"
    "    long i;\n"
    "    while (reps-- > 0)\n"
    "        for (i = 0; i + 3 * step < n; i += 4 * step) {\n"
    "            a += p[i]; b += p[i + step]; c += p[i + 2 * step];\n"
    "            d += p[i + 3 * step];\n"
    "        }\n"
    "    return a + b + c + d;\n"
    "}\n";

enum { HOST_BIG = 1 << 24 };     /* floats of the DRAM probe: 64 MB */

typedef struct host_probe_job {
    const char *so;
    int32_t lanes;
    int all;                     /* 0: the peak alone */
    double l1_bytes, l2_bytes;
} host_probe_job;

/* Times in the message's samples: FLOP/s, cycles/s, chain s, L1, L2, DRAM
   bytes/s, strided accesses/s. */
static void host_probe_body(void *user, host_message *message)
{
    const host_probe_job *job = (const host_probe_job *)user;
    void *library = dlopen(job->so, RTLD_NOW | RTLD_LOCAL);
    float (*fma)(long), (*chain)(long), (*cycle)(long);
    float (*feed)(const float *, long, long);
    float (*stride)(const float *, long, long, long);
    double *out = message->sample, t, rate, l2 = job->l2_bytes;
    volatile float sink;
    long n, reps, block = 12L * job->lanes;
    int round, rounds = job->all ? 8 : 6;
    float *big = NULL;
    void *mem = NULL;

    message->status = METATUNE_RUNTIME;
    if (!library || host_symbol(library, "probe_fma", &fma, sizeof fma) ||
        host_symbol(library, "probe_chain", &chain, sizeof chain) ||
        host_symbol(library, "probe_cycle", &cycle, sizeof cycle) ||
        host_symbol(library, "probe_read", &feed, sizeof feed) ||
        host_symbol(library, "probe_stride", &stride, sizeof stride)) {
        const char *text = dlerror();
        host_say(message->error, "cannot load the probe: %.120s (may "
                 "programs be in that folder? else set TMPDIR)",
                 text ? text : "?");
        return;
    }
    if (job->all) {
        if (posix_memalign(&mem, 4096, HOST_BIG * sizeof(float))) {
            host_say(message->error, "out of memory for the probe");
            return;
        }
        big = (float *)mem;
        memset(big, 0, HOST_BIG * sizeof(float));
        if (!(l2 > 0)) l2 = 262144;
    }
    sink = fma(1000) + chain(1000) + cycle(1000);
#define HOST_BEST(i, work, call)                                             \
    do {                                                                     \
        t = host_now();                                                      \
        sink += (call);                                                      \
        t = host_now() - t;                                                  \
        rate = t > 0 ? (work) / t : 0;                                       \
        if (rate > out[i]) out[i] = rate;                                    \
    } while (0)
    for (round = 0; round < rounds; round++) {
        n = 300000;
        HOST_BEST(0, 24.0 * job->lanes * (double)n, fma(n));
        if (!job->all) continue;
        n = 4000000;
        HOST_BEST(1, (double)n, cycle(n));
        n = 500000;
        HOST_BEST(2, (double)n, chain(n));
        n = 4096 / block * block;
        reps = 4000;
        HOST_BEST(3, 4.0 * (double)n * (double)reps, feed(big, n, reps));
        n = (long)(l2 / 2 / 4) / block * block;
        if (n > HOST_BIG) n = HOST_BIG;
        if (n < block) n = block;
        reps = 1 + (1L << 22) / n;
        HOST_BEST(4, 4.0 * (double)n * (double)reps, feed(big, n, reps));
        if (round < 4)
            HOST_BEST(5, 4.0 * (double)(HOST_BIG / block * block),
                      feed(big, HOST_BIG / block * block, 1));
        reps = 1 + (1L << 24) / n;
        HOST_BEST(6, floor((double)n / 64) * (double)reps,
                  stride(big, n, 64, reps));
    }
#undef HOST_BEST
    (void)sink;
    free(mem);
    message->status = METATUNE_OK;
}

static metatune_status host_probe_run(host_run *run, host_probe_job *job,
                                      host_message *message,
                                      host_error *error)
{
    char source[sizeof host_probe_source + 64], so[HOST_PATH_BYTES];
    host_result result;

    snprintf(source, sizeof source, "#define LANES %d\n%s",
             (int)run->platform.march.lanes, host_probe_source);
    if (host_run_build(run, source, so, sizeof so, &result) != METATUNE_OK)
        return host_fail(error, result.status, result.error);
    job->so = so;
    job->lanes = run->platform.march.lanes;
    host_child_run(run, host_probe_body, job, run->cfg.run_s,
                   4.0 * HOST_BIG, message);
    if (message->status != METATUNE_OK)
        return host_fail(error, (metatune_status)message->status,
                         message->error);
    return METATUNE_OK;
}

metatune_status host_run_peak(host_run *run, double *peak_flops,
                              host_error *error)
{
    host_probe_job job;
    host_message message;
    metatune_status status;

    memset(&job, 0, sizeof job);
    status = host_probe_run(run, &job, &message, error);
    if (status == METATUNE_OK) *peak_flops = message.sample[0];
    return status;
}

/* First number in a small file of the system, K, M understood; 0: none. */
static double host_sys_number(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long value = 0;
    char unit = 0;
    int n;

    if (!file) return 0;
    n = fscanf(file, "%lu%c", &value, &unit);
    fclose(file);
    if (n < 1) return 0;
    return (double)value * (unit == 'K' ? 1024.0
                            : unit == 'M' ? 1048576.0 : 1.0);
}

static void host_caches(metatune_encode_device *device)
{
    char path[128], type[32];
    int i;

    for (i = 0; i < 8; i++) {
        double level, bytes;
        FILE *file;
        snprintf(path, sizeof path,
                 "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        file = fopen(path, "r");
        if (!file) break;
        type[0] = 0;
        if (fscanf(file, "%31s", type) != 1) type[0] = 0;
        fclose(file);
        if (strcmp(type, "Instruction") == 0) continue;
        snprintf(path, sizeof path,
                 "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        level = host_sys_number(path);
        snprintf(path, sizeof path,
                 "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        bytes = host_sys_number(path);
        if (level < 1.5)
            device->l1_bytes = bytes;
        else if (level < 2.5)
            device->l2_bytes = bytes;
        else
            device->l3_bytes = bytes;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/"
                 "index%d/coherency_line_size", i);
        if (!device->line_bytes)
            device->line_bytes = (int32_t)host_sys_number(path);
    }
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (!(device->l1_bytes > 0) && sysconf(_SC_LEVEL1_DCACHE_SIZE) > 0)
        device->l1_bytes = (double)sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (!(device->l2_bytes > 0) && sysconf(_SC_LEVEL2_CACHE_SIZE) > 0)
        device->l2_bytes = (double)sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (!(device->l3_bytes > 0) && sysconf(_SC_LEVEL3_CACHE_SIZE) > 0)
        device->l3_bytes = (double)sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
}

static double host_log2_ratio(double measured, double nominal)
{
    return measured > 0 && nominal > 0 ? log(measured / nominal) / log(2.0)
                                       : 0;
}

metatune_status host_run_probe(host_run *run, metatune_encode_device *device,
                               double *peak_flops, host_error *error)
{
    host_probe_job job;
    host_message message;
    const double *m = message.sample;
    double hz, lanes = run->platform.march.lanes;
    metatune_status status;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    memset(device, 0, sizeof *device);
    device->size = (uint32_t)sizeof *device;
    device->cores = cores > 0 ? (int32_t)cores : 0;
    device->lanes = run->platform.march.lanes;
    device->vregs = run->platform.march.vregs;
    if (pages > 0 && page > 0)
        device->ram_bytes = (double)pages * (double)page;
    host_caches(device);
    memset(&job, 0, sizeof job);
    job.all = 1;
    job.l1_bytes = device->l1_bytes;
    job.l2_bytes = device->l2_bytes;
    status = host_probe_run(run, &job, &message, error);
    if (status != METATUNE_OK) return status;
    if (peak_flops) *peak_flops = m[0];
    hz = m[1];                   /* one exclusive-or is one cycle */
    device->freq_hz = hz;
    device->bandwidth = m[5];
    device->probe[0] = host_log2_ratio(m[0], 4 * lanes * hz);
    device->probe[1] = host_log2_ratio(m[3], 8 * lanes * hz);
    device->probe[2] = host_log2_ratio(m[4], 32 * hz);
    device->probe[3] = host_log2_ratio(m[5], 1e10);
    device->probe[4] = host_log2_ratio(hz / m[2], 4);
    device->probe[5] = host_log2_ratio(m[6], hz);
    return METATUNE_OK;
}

/* ======================================== [R-LAYER] data and reference */

void host_naive_conv(const metatune_encode_conv2d *conv, const float *in,
                     const float *w, float *out)
{
    const metatune_encode_conv2d *d = conv;
    int32_t oh = metatune_encode_conv2d_out_h(d);
    int32_t ow = metatune_encode_conv2d_out_w(d);
    int32_t cg = d->c / d->groups, kg = d->k / d->groups;
    int32_t n, k, y, x, c, r, s;

    for (n = 0; n < d->n; n++)
        for (k = 0; k < d->k; k++)
            for (y = 0; y < oh; y++)
                for (x = 0; x < ow; x++) {
                    float sum = 0;
                    for (c = 0; c < cg; c++)
                        for (r = 0; r < d->r; r++) {
                            int32_t iy = y * d->stride_h + r * d->dil_h -
                                         d->pad_top;
                            const float *row, *tap;
                            if (iy < 0 || iy >= d->h) continue;
                            row = in + (((size_t)n * (size_t)d->c +
                                         (size_t)(k / kg * cg + c)) *
                                            (size_t)d->h +
                                        (size_t)iy) * (size_t)d->w;
                            tap = w + (((size_t)k * (size_t)cg +
                                        (size_t)c) * (size_t)d->r +
                                       (size_t)r) * (size_t)d->s;
                            for (s = 0; s < d->s; s++) {
                                int32_t ix = x * d->stride_w +
                                             s * d->dil_w - d->pad_left;
                                if (ix < 0 || ix >= d->w) continue;
                                sum += row[ix] * tap[s];
                            }
                        }
                    *out++ = sum;
                }
}

void host_layer_close(host_layer *layer)
{
    free(layer->in);
    free(layer->kcrs);
    free(layer->ref);
    layer->in = layer->kcrs = layer->ref = NULL;
}

metatune_status host_layer_open(host_layer *layer, const host_run *run,
                                const metatune_encode_conv2d *conv,
                                uint64_t seed, host_error *error)
{
    char why[HOST_ERROR_BYTES];
    metatune_encode_rng rng;
    metatune_status status;
    size_t n_in, n_w, n_out, i;
    float *plain;
    int round;

    memset(layer, 0, sizeof *layer);
    status = host_kernel_init(&layer->kernel, conv, &run->platform.march,
                              why, sizeof why);
    if (status != METATUNE_OK) return host_fail(error, status, why);
    n_in = host_kernel_in_floats(&layer->kernel);
    n_w = (size_t)conv->k * (size_t)conv->c * (size_t)conv->r *
          (size_t)conv->s;
    n_out = (size_t)conv->n * (size_t)conv->k * (size_t)layer->kernel.oh *
            (size_t)layer->kernel.ow;
    plain = (float *)malloc(n_in * sizeof(float));
    layer->in = (float *)malloc(n_in * sizeof(float));
    layer->kcrs = (float *)malloc(n_w * sizeof(float));
    layer->ref = (float *)malloc(n_out * sizeof(float));
    if (!plain || !layer->in || !layer->kcrs || !layer->ref) {
        free(plain);
        host_layer_close(layer);
        return host_fail(error, METATUNE_NO_MEMORY,
                         "out of memory for the layer's tensors");
    }
    metatune_encode_rng_init(&rng, seed, 7);
    for (i = 0; i < n_in; i++)
        plain[i] = (float)(2 * metatune_encode_rng_unit(&rng) - 1);
    for (i = 0; i < n_w; i++)
        layer->kcrs[i] = (float)(2 * metatune_encode_rng_unit(&rng) - 1);
    for (round = 0; round < 3; round++) {
        double t = host_now();
        host_naive_conv(conv, plain, layer->kcrs, layer->ref);
        t = host_now() - t;
        if (round == 0 || t < layer->naive_s) layer->naive_s = t;
        if (t > 0.2 || host_cancelled(run)) break;
    }
    host_kernel_pack_in(&layer->kernel, plain, layer->in);
    free(plain);
    /* two sums of C*R*S products of size <= 1, in different orders */
    layer->tol = 2e-7 * ((double)conv->c * conv->r * conv->s + 16);
    return METATUNE_OK;
}

/* ======================================================= [R-OPEN] open */

static void host_sanitize(char *to, size_t cap, const char *from)
{
    size_t n = 0;

    for (; *from && n + 1 < cap; from++) {
        int good = (*from >= 'a' && *from <= 'z') ||
                   (*from >= 'A' && *from <= 'Z') ||
                   (*from >= '0' && *from <= '9') || *from == '.' ||
                   *from == '-';
        if (good)
            to[n++] = *from;
        else if (n && to[n - 1] != '_')
            to[n++] = '_';
    }
    while (n && to[n - 1] == '_') n--;
    to[n] = 0;
}

/* Model name and numbers, in the order of `keys`. */
static void host_cpu_name(char *name, size_t cap)
{
    static const char *const keys[] = { "model name", "CPU part", "uarch",
                                        "cpu family", "model", "stepping" };
    enum { KEYS = (int)(sizeof keys / sizeof keys[0]) };
    char line[256], found[KEYS][96], text[KEYS * 97 + 1] = "";
    FILE *file = fopen("/proc/cpuinfo", "r");
    size_t used = 0;
    int i;

    memset(found, 0, sizeof found);
    while (file && fgets(line, sizeof line, file) && line[0] != '\n') {
        char *colon = strchr(line, ':'), *end;
        if (!colon) continue;
        end = colon;
        while (end > line && (end[-1] == ' ' || end[-1] == '\t')) end--;
        *end = 0;
        for (i = 0; i < KEYS; i++)
            if (strcmp(line, keys[i]) == 0)
                snprintf(found[i], sizeof found[i], "%.90s", colon + 1);
    }
    if (file) fclose(file);
    for (i = 0; i < KEYS; i++)
        if (found[i][0])
            used += (size_t)snprintf(text + used, sizeof text - used, "%s ",
                                     found[i]);
    host_sanitize(name, cap, used ? text : "unknown");
}

/* Value of a predefined macro in the output of -dM -E; -1 when absent. */
static long host_macro(const char *text, const char *name)
{
    char key[80];
    const char *at;

    snprintf(key, sizeof key, "#define %s ", name);
    at = strstr(text, key);
    return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

/* All macros that the compiler predefines under the current flags. Returns
   NULL and a message when it cannot say; else memory to be freed. */
static char *host_macros(const host_run *run, char *error,
                         metatune_status *status)
{
    char store[2 * HOST_FLAG_BYTES], path[HOST_PATH_BYTES];
    char *argv[HOST_ARGS], *text = NULL;
    host_proc *proc = (host_proc *)malloc(sizeof *proc);
    int n = host_args(run, argv, store), rc;
    FILE *file;
    long bytes;

    *status = METATUNE_IO;
    error[0] = 0;
    if (!proc) {
        host_say(error, "out of memory");
        return NULL;
    }
    /* into a file: the list is longer than a child's text may be */
    snprintf(path, sizeof path, "%s/macros", run->folder);
    argv[n++] = host_arg("-dM");
    argv[n++] = host_arg("-E");
    argv[n++] = host_arg("-o");
    argv[n++] = path;
    argv[n++] = host_arg("-x");
    argv[n++] = host_arg("c");
    argv[n++] = host_arg("/dev/null");
    argv[n] = NULL;
    rc = host_proc_spawn(proc, run, argv, 2, run->cfg.build_s);
    if (rc) {
        host_spawn_error(run, rc, error);
        *status = METATUNE_NOT_FOUND;
        free(proc);
        return NULL;
    }
    host_proc_wait(run, proc);
    *status = METATUNE_COMPILE;
    if (proc->cancelled) {
        *status = METATUNE_CANCELLED;
        host_say(error, "cancelled");
    } else if (proc->timed_out) {
        *status = METATUNE_TIMEOUT;
        host_say(error, "compiler \"%.100s\" did not answer within %g s",
                 run->cfg.cc, run->cfg.build_s);
    } else if (!WIFEXITED(proc->wait_status) ||
               WEXITSTATUS(proc->wait_status) != 0) {
        char first[HOST_ERROR_BYTES];
        host_first_error(run, proc->text, first);
        host_say(error, "compiler \"%.60s\" refuses its flags: %.150s",
                 run->cfg.cc, first);
        if (WIFEXITED(proc->wait_status) &&
            WEXITSTATUS(proc->wait_status) == 127 && !proc->text[0]) {
            *status = METATUNE_NOT_FOUND;
            host_spawn_error(run, ENOENT, error);
        }
    }
    free(proc);
    if (error[0]) return NULL;
    file = fopen(path, "r");
    bytes = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (bytes > 0 && bytes < (1L << 24)) {
        text = (char *)malloc((size_t)bytes + 1);
        rewind(file);
        if (text) text[fread(text, 1, (size_t)bytes, file)] = 0;
    }
    if (file) fclose(file);
    unlink(path);
    if (!text)
        host_say(error, "compiler \"%.100s\" does not list its macros "
                 "(-dM -E)", run->cfg.cc);
    return text;
}

static void host_flags(host_run *run, const char *march, int wide)
{
    host_platform *p = &run->platform;
    int none = strcmp(march, "none") == 0;

    snprintf(p->flags, sizeof p->flags, "-O2 -std=gnu99 -ffp-contract=fast"
             "%s%s%s%s%s", none ? "" : " -march=", none ? "" : march,
             wide ? " -mprefer-vector-width=512" : "",
             run->cfg.flags && run->cfg.flags[0] ? " " : "",
             run->cfg.flags ? run->cfg.flags : "");
}

/* What does the compiler make code for? */
static metatune_status host_detect(host_run *run, host_error *error)
{
    host_platform *p = &run->platform;
    const char *march = run->cfg.march;
    char why[HOST_ERROR_BYTES];
    metatune_status status;
    char *text;

    host_flags(run, march, 0);
    text = host_macros(run, why, &status);
    if (!text && status == METATUNE_COMPILE &&
        strcmp(march, "native") == 0) {
        march = "none";          /* not every compiler knows native */
        host_flags(run, march, 0);
        text = host_macros(run, why, &status);
    }
    if (!text) return host_fail(error, status, why);
    p->march.lanes = 4;
    p->march.vregs = 16;
    if (host_macro(text, "__AVX512F__") >= 0) {
        p->march.lanes = 16;
        p->march.vregs = 32;
    } else if (host_macro(text, "__AVX__") >= 0) {
        p->march.lanes = 8;
    } else if (host_macro(text, "__aarch64__") >= 0 ||
               host_macro(text, "__VSX__") >= 0) {
        p->march.vregs = 32;
    }
    if (host_macro(text, "__clang_major__") >= 0)
        snprintf(p->cc, sizeof p->cc, "clang-%ld.%ld.%ld",
                 host_macro(text, "__clang_major__"),
                 host_macro(text, "__clang_minor__"),
                 host_macro(text, "__clang_patchlevel__"));
    else
        snprintf(p->cc, sizeof p->cc, "gcc-%ld.%ld.%ld",
                 host_macro(text, "__GNUC__"),
                 host_macro(text, "__GNUC_MINOR__"),
                 host_macro(text, "__GNUC_PATCHLEVEL__"));
    free(text);
    if (p->march.lanes == 16) {
        /* AVX-512 compilers prefer 256 bits unless told */
        host_flags(run, march, 1);
        text = host_macros(run, why, &status);
        if (!text) host_flags(run, march, 0);
        free(text);
    }
    return METATUNE_OK;
}

static void host_hello_body(void *user, host_message *message)
{
    float (*fn)(float);
    void *library = dlopen((const char *)user, RTLD_NOW | RTLD_LOCAL);
    float got;

    message->status = METATUNE_RUNTIME;
    if (!library || host_symbol(library, "hello", &fn, sizeof fn)) {
        const char *text = dlerror();
        host_say(message->error, "cannot load a built kernel: %.120s (may "
                 "programs be in that folder? else set TMPDIR)",
                 text ? text : "?");
        return;
    }
    got = fn(1.5f);
    if (fabsf(got - 4.0f) > 1e-6f) {
        host_say(message->error, "the compiler's vector code is wrong");
        return;
    }
    message->status = METATUNE_OK;
}

/* Build and run three lines of vector code: whatever is wrong with compiler,
   folder or -march is said here once, and not by every setting. */
static metatune_status host_hello(host_run *run, host_error *error)
{
    char source[512], so[HOST_PATH_BYTES], line[HOST_ERROR_BYTES];
    host_message message;
    host_result result;

    snprintf(source, sizeof source,
             "typedef float v __attribute__((vector_size(%d), aligned(4),"
             " may_alias));\n"
             "float hello(float x) { volatile float y = x; v a = { 0 };\n"
             "    a += y; a = a * a + 1.75f; return a[%d]; }\n",
             (int)(4 * run->platform.march.lanes),
             (int)(run->platform.march.lanes - 1));
    if (host_run_build(run, source, so, sizeof so, &result) != METATUNE_OK) {
        if (result.status != METATUNE_COMPILE)
            return host_fail(error, result.status == METATUNE_NOT_RUN
                                        ? METATUNE_IO : result.status,
                             result.error);
        host_say(line, "compiler \"%.40s\" cannot build vector code: %.180s",
                 run->cfg.cc, result.error);
        return host_fail(error, METATUNE_COMPILE, line);
    }
    host_child_run(run, host_hello_body, so, run->cfg.run_s, 0, &message);
    if (message.status != METATUNE_OK)
        return host_fail(error, (metatune_status)message.status,
                         message.error);
    run->n_built = 0;
    return METATUNE_OK;
}

metatune_status host_run_open(host_run *run, const host_config *cfg,
                              host_error *error)
{
    host_config *c = &run->cfg;
    char line[HOST_ERROR_BYTES];
    struct sigaction action;
    metatune_status status;
    const char *tmp;
    size_t n;

    /* inherited from a careless parent, it would hide how children ended */
    if (sigaction(SIGCHLD, NULL, &action) == 0 &&
        action.sa_handler == SIG_IGN)
        signal(SIGCHLD, SIG_DFL);
    memset(run, 0, sizeof *run);
    if (error) memset(error, 0, sizeof *error);
    if (cfg) *c = *cfg;
    if (!c->cc || !c->cc[0]) c->cc = "cc";
    if (!c->march || !c->march[0]) c->march = "native";
    if (!(c->build_s > 0)) c->build_s = 30;
    if (!(c->run_s > 0)) c->run_s = 20;
    if (!(c->sample_s > 0)) c->sample_s = 2e-3;
    if (c->samples < 1) c->samples = 5;
    if (c->samples > HOST_SAMPLES) c->samples = HOST_SAMPLES;
    if (c->retries == 0) c->retries = 10;
    if (c->jobs < 1) c->jobs = 2;
    if (c->jobs > 8) c->jobs = 8;
    if (!(c->mem_bytes < 0) && !(c->mem_bytes > 0))
        c->mem_bytes = 1073741824.0;
    n = strlen(c->cc) + strlen(c->march) +
        (c->flags ? strlen(c->flags) : 0);
    if (n > HOST_FLAG_BYTES - 100 || strchr(c->march, ' '))
        return host_fail(error, METATUNE_BAD_CONFIG,
                         "cc, march and flags together are too long, or "
                         "march has a space");
    tmp = c->tmp && c->tmp[0] ? c->tmp : getenv("TMPDIR");
    if (!tmp || !tmp[0]) tmp = "/tmp";
    if (strlen(tmp) > sizeof run->folder - 32)
        return host_fail(error, METATUNE_BAD_CONFIG,
                         "the temporary folder's name is too long");
    snprintf(run->folder, sizeof run->folder, "%s/metatune-XXXXXX", tmp);
    if (!mkdtemp(run->folder)) {   /* mode 0700 */
        host_say(line, "cannot make a folder in %.150s: %.60s", tmp,
                 strerror(errno));
        run->folder[0] = 0;
        return host_fail(error, METATUNE_IO, line);
    }
    host_cpu_name(run->platform.cpu, sizeof run->platform.cpu);
    status = host_detect(run, error);
    if (status == METATUNE_OK) status = host_hello(run, error);
    if (status != METATUNE_OK) host_run_close(run);
    return status;
}

void host_run_close(host_run *run)
{
    if (run->folder[0]) {
        host_folder_empty(run->folder);
        rmdir(run->folder);
        run->folder[0] = 0;
    }
    free(run->entry);
    run->entry = NULL;
    run->n_entries = run->cap_entries = 0;
}

size_t host_run_key(const host_run *run, char *buf, size_t cap)
{
    const host_platform *p = &run->platform;
    int n = snprintf(buf, cap, "cpu=%s,lanes=%d,cc=%s,flags=%s,threads=1",
                     p->cpu, (int)p->march.lanes, p->cc, p->flags);

    if (n < 0 || (size_t)n >= cap) {
        if (cap) buf[0] = 0;
        return 0;
    }
    return (size_t)n;
}
