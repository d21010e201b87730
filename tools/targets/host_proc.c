/* host_proc.c - see host_proc.h

   Rooms: [R-TEXT] small text helpers, [R-PROC] child processes with a
   deadline, [R-CHILD] the forked child and its limits. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1
#include "host_proc.h"

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

enum { HOST_TICK_MS = 20 };      /* how soon a cancel is seen */
#define HOST_MAGIC 0x6d746168u

/* ==================================================== [R-TEXT] text */

double host_now(void)
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

void host_say(char *line, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(line, HOST_ERROR_BYTES, format, list);
    va_end(list);
}

metatune_status host_fail(host_error *error, metatune_status status,
                          const char *line)
{
    if (error) {
        error->status = status;
        snprintf(error->line, sizeof error->line, "%s", line);
    }
    return status;
}

int host_cancelled(const host_run *run)
{
    return run->cfg.cancel && *run->cfg.cancel;
}
/* ============================================ [R-PROC] child processes */

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

int host_proc_spawn(host_proc *proc, const host_run *run, char *const *argv,
                    int stream, double seconds)
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

void host_proc_poll(const host_run *run, host_proc *const *proc, int32_t n)
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

void host_proc_wait(const host_run *run, host_proc *proc)
{
    while (!proc->done) host_proc_poll(run, &proc, 1);
}

/* ============================================ [R-CHILD] forked child */

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
                       double cpu_s, double bytes, int fd)
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
    if (run->cfg.run_cpu > 0) host_pin(run->cfg.run_cpu - 1, -1);
    for (s = 1; s < 32; s++)
        if (s != SIGKILL && s != SIGSTOP) signal(s, SIG_DFL);
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    null = open("/dev/null", O_RDWR);
    for (s = 0; s < 3 && null >= 0; s++) dup2(null, s);
    host_limit(RLIMIT_CORE, 0);
    host_limit(RLIMIT_CPU, cpu_s);
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

void host_child_run(const host_run *run, host_body body, void *user,
                    double seconds, double bytes, int32_t threads,
                    host_message *message)
{
    double cpu_s = ceil(seconds * threads) + 1;
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
        host_child(run, body, user, cpu_s, bytes, fd[1]);
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
                     cpu_s);
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

int host_symbol(void *library, const char *name, void *fn, size_t bytes)
{
    void *symbol = dlsym(library, name);

    if (!symbol || bytes != sizeof symbol) return -1;
    memcpy(fn, &symbol, sizeof symbol);
    return 0;
}

