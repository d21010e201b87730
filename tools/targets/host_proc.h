/* host_proc.h - child processes and builds of host_run.h, for its own files

   Rooms: host_proc.c children with a deadline, host_build.c the compiler and
   its cache, host_layer.c data and reference, host_time.c verify and time,
   host_probe.c the machine, host_run.c open, measure, close. */
#ifndef METATUNE_HOST_PROC_H
#define METATUNE_HOST_PROC_H

#include <sys/types.h>

#include "host_run.h"

enum {
    HOST_ARGS = 64,              /* arguments of the compiler */
    HOST_TEXT_BYTES = 16384,     /* kept of what a child says */
    HOST_PATH_BYTES = 640
};

/* ------------------------------------------------------- host_proc.c */

double host_now(void);
/* Into a message of HOST_ERROR_BYTES; a long one is cut. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void host_say(char *line, const char *format, ...);
metatune_status host_fail(host_error *error, metatune_status status,
                          const char *line);
int host_cancelled(const host_run *run);

struct host_proc {
    pid_t pid;                   /* also its group; 0 = none */
    int fd;                      /* our end of the pipe; -1 = closed */
    double deadline, began, ended;
    int done;
    int timed_out, cancelled;
    int wait_status;
    size_t n;                    /* bytes kept in text */
    char text[HOST_TEXT_BYTES];
};
typedef struct host_proc host_proc;

/* Start argv[0] from the path, in its own group, with its temporary files in
   our folder; `stream` (1 or 2) comes to us, the others are /dev/null.
   Returns 0 or an errno. */
int host_proc_spawn(host_proc *proc, const host_run *run, char *const *argv,
                    int stream, double seconds);
/* One round over n processes: wait a little, read, end those that exited, are
   late, or are cancelled. */
void host_proc_poll(const host_run *run, host_proc *const *proc, int32_t n);
void host_proc_wait(const host_run *run, host_proc *proc);

/* What a child reports: one write, smaller than a pipe's atomic size. */
typedef struct host_message {
    uint32_t magic;
    int32_t status;
    int32_t n_samples, n_disturbed;
    double sample[HOST_SAMPLES];
    char error[HOST_ERROR_BYTES];
} host_message;

typedef void (*host_body)(void *user, host_message *message);
/* Fork, run body there with limits (`bytes` of memory beyond the usual,
   threads that compute), and take its message. */
void host_child_run(const host_run *run, host_body body, void *user,
                    double seconds, double bytes, int32_t threads,
                    host_message *message);
/* POSIX promises that a data pointer from dlsym holds a function's. 0: ok */
int host_symbol(void *library, const char *name, void *fn, size_t bytes);

/* --------------------------------------------------------- host_run.c */

/* The cache's index of a setting's source, written into `source`
   (HOST_SOURCE_BYTES). SIZE_MAX, and status and message in the result, when
   there is none. */
size_t host_setting_find(host_run *run, const host_kernel *kernel,
                         const int64_t *values, char *source,
                         host_result *result);

/* ------------------------------------------------------ host_ahead.c */

/* This process, and children from now on, may run on one core only, or with
   cpu -1 on all but `not_on`; what is not possible is left. */
void host_pin(int32_t cpu, int32_t not_on);

/* ------------------------------------------------------ host_build.c */

/* Fill argv with the compiler and all flags; `store` holds the pieces
   (2 * HOST_FLAG_BYTES). Returns how many. */
int host_args(const host_run *run, char **argv, char *store);
/* exec wants char *; it does not write */
char *host_arg(const char *text);
/* The line of a compiler's text that explains a failure; "" when none. */
void host_first_error(const host_run *run, const char *text, char *line);
void host_spawn_error(const host_run *run, int rc, char *error);

/* The private folder, held by a lock while its owner lives; folders whose
   owner was killed are removed on the way. OK, or IO and a message. */
metatune_status host_folder_make(host_run *run, const char *tmp,
                                 char *error);
void host_folder_remove(host_run *run);

/* A full cache starts again: only between batches, nothing points into it. */
void host_cache_trim(host_run *run, int32_t n);
/* The cache's index of a source, added unbuilt when new; its text is in the
   folder from then on. SIZE_MAX and a message when that failed. */
size_t host_entry_find(host_run *run, const char *source, char *error);
int host_entry_built(const host_run *run, size_t entry);
int host_entry_busy(const host_run *run, size_t entry);
/* Start the build of an entry: 0, or an errno and a message in the entry.
   Once proc is done, finish notes how it went and tidies up. */
int host_entry_start(host_run *run, size_t entry, host_proc *proc);
void host_entry_finish(host_run *run, size_t entry, const host_proc *proc);
/* Build the entries of a list (n of them, some already built), jobs at a
   time. Entries that could not be tried stay NOT_RUN with a message. */
void host_build_all(host_run *run, const size_t *index, int32_t n);
/* What became of an entry, into a result; so (HOST_PATH_BYTES) its file. */
void host_entry_result(const host_run *run, size_t e, int cached, char *so,
                       host_result *result);

#endif
