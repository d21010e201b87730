/* child.h - run a measurement in a process of its own, so that what crashes,
   hangs or scribbles takes nothing else down: fork, a pipe for the answer, a
   deadline, and the whole process group killed at its end. */
#ifndef CHILD_H
#define CHILD_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "metatune.h"

typedef struct child_answer {
    metatune_status status;
    double value;                /* seconds, with METATUNE_OK */
    double build_s;              /* of the run, 0 = unknown */
    char text[96];               /* of a failure */
} child_answer;

/* Measures one setting: what runs inside the child. */
typedef void (*child_fn)(void *user, const int64_t *values,
                         child_answer *answer);

/* Seconds, monotonic. */
static double child_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Read the answer until it is whole, the pipe ends or the deadline passes.
   1 whole, 0 ended early, -1 too late. */
static int child_read(int fd, child_answer *answer, double until)
{
    size_t have = 0;
    while (have < sizeof *answer) {
        struct pollfd p;
        double left = until - child_now();
        ssize_t n;
        p.fd = fd;
        p.events = POLLIN;
        if (left <= 0 || (n = poll(&p, 1, 1 + (int)(1e3 * left))) == 0)
            return -1;
        if (n < 0 && errno != EINTR)
            return 0;
        if (n < 0)
            continue;
        n = read(fd, (char *)answer + have, sizeof *answer - have);
        if (n == 0 || (n < 0 && errno != EINTR))
            return 0;
        have += n > 0 ? (size_t)n : 0;
    }
    return 1;
}

/* Always fills *answer: a crash is RUNTIME, a passed deadline TIMEOUT. */
static void child_run(child_fn measure, void *user, const int64_t *values,
                      double deadline_s, child_answer *answer)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    int fd[2], state = 0, got, i;
    pid_t pid, parent = getpid();
    memset(answer, 0, sizeof *answer);
    answer->status = METATUNE_NOT_RUN; /* not the setting's fault */
    if (pipe(fd))
        return;
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed worker leaves nobody */
        if (getppid() != parent)
            _exit(1);
#endif
        (void)parent;
        close(fd[0]);
        for (i = 0; i < 5; i++) /* MPI's handlers would print a page */
            signal(fatal[i], SIG_DFL);
        measure(user, values, answer);
        if (write(fd[1], answer, sizeof *answer) != (ssize_t)sizeof *answer)
            _exit(1);
        _exit(0);
    }
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        return;
    }
    setpgid(pid, pid); /* whoever is first; the other call does nothing */
    got = child_read(fd[0], answer, child_now() + deadline_s);
    close(fd[0]);
    kill(-pid, SIGKILL);
    while (waitpid(pid, &state, 0) < 0 && errno == EINTR)
        ;
    if (got > 0)
        return;
    memset(answer, 0, sizeof *answer);
    answer->status = got < 0 ? METATUNE_TIMEOUT : METATUNE_RUNTIME;
    strcpy(answer->text, got < 0 ? "deadline passed" : "the child died");
    if (got == 0 && WIFSIGNALED(state)) {
        strcpy(answer->text, "the child died by signal ");
        answer->text[25] = (char)('0' + WTERMSIG(state) / 10 % 10);
        answer->text[26] = (char)('0' + WTERMSIG(state) % 10);
    }
}

#endif
