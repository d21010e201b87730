/* host_build.c - see host_proc.h

   Rooms: [R-FOLDER] the private folder, [R-ERROR] what compilers say,
   [R-CACHE] built kernels. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1
#include "host_proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOST_ENTRIES_MAX = 4096 }; /* built kernels kept in the folder */
#define HOST_FOLDER "metatune-"
#define HOST_LOCK "lock"

struct host_entry {
    uint64_t hash;
    metatune_status status;      /* OK, COMPILE, TIMEOUT; NOT_RUN: unbuilt */
    int busy;                    /* being built */
    double build_s;
    char error[HOST_ERROR_BYTES];
};

/* ================================================ [R-FOLDER] folder */

/* Unlink the files of an open folder; the lock too if `all`. */
static void host_folder_clear(int folder, int all)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;

    if (!dir) {
        if (fd >= 0) close(fd);
        return;
    }
    while ((item = readdir(dir)) != NULL)
        if (strcmp(item->d_name, ".") != 0 &&
            strcmp(item->d_name, "..") != 0 &&
            (all || strcmp(item->d_name, HOST_LOCK) != 0))
            unlinkat(folder, item->d_name, 0);
    closedir(dir);
}

static void host_folder_empty(const char *path, int all)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (folder < 0) return;
    host_folder_clear(folder, all);
    close(folder);
}

/* Remove folders of ours in `tmp` whose owner no longer holds their lock. The
   kernel lets go of a lock when its process ends, however it ends; a folder
   without a lock file may be about to get one and is left alone. */
static void host_folder_sweep(const char *tmp)
{
    DIR *dir = opendir(tmp);
    struct dirent *item;
    struct stat info;

    if (!dir) return;
    while ((item = readdir(dir)) != NULL) {
        int folder, lock = -1;
        if (strncmp(item->d_name, HOST_FOLDER, sizeof HOST_FOLDER - 1) != 0 ||
            strlen(item->d_name) != sizeof HOST_FOLDER - 1 + 6)
            continue;
        folder = openat(dirfd(dir), item->d_name, O_RDONLY | O_DIRECTORY |
                                                      O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0) continue;
        if (fstat(folder, &info) == 0 && info.st_uid == geteuid())
            lock = openat(folder, HOST_LOCK,
                          O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) {
            host_folder_clear(folder, 1);
            unlinkat(dirfd(dir), item->d_name, AT_REMOVEDIR);
        }
        if (lock >= 0) close(lock);
        close(folder);
    }
    closedir(dir);
}

metatune_status host_folder_make(host_run *run, const char *tmp, char *error)
{
    char fresh[HOST_PATH_BYTES], path[HOST_PATH_BYTES];

    run->lock = -1;
    host_folder_sweep(tmp);
    snprintf(run->folder, sizeof run->folder, "%s/" HOST_FOLDER "XXXXXX",
             tmp);
    if (!mkdtemp(run->folder)) { /* mode 0700 */
        host_say(error, "cannot make a folder in %.150s: %.60s", tmp,
                 strerror(errno));
        run->folder[0] = 0;
        return METATUNE_IO;
    }
    /* locked before it gets its name: a sweeper never sees it unlocked */
    snprintf(fresh, sizeof fresh, "%s/fresh", run->folder);
    snprintf(path, sizeof path, "%s/" HOST_LOCK, run->folder);
    run->lock = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (run->lock >= 0 && (flock(run->lock, LOCK_EX | LOCK_NB) ||
                           rename(fresh, path)))
        unlink(fresh);           /* a folder nobody sweeps */
    return METATUNE_OK;
}

void host_folder_remove(host_run *run)
{
    if (!run->folder[0]) return;
    host_folder_empty(run->folder, 1);
    rmdir(run->folder);
    run->folder[0] = 0;
    if (run->lock >= 0) close(run->lock);
    run->lock = -1;
}

/* ============================================ [R-ERROR] compilers */

/* The first line with "error" in it (or what linkers say), else the first at
   all; our folder's name taken out. */
void host_first_error(const host_run *run, const char *text, char *line)
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

int host_args(const host_run *run, char **argv, char *store)
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

char *host_arg(const char *text)
{
    union {
        const char *in;
        char *out;
    } u;

    u.in = text;
    return u.out;
}

void host_spawn_error(const host_run *run, int rc, char *error)
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

/* ================================================== [R-CACHE] builds */

static void host_entry_path(const host_run *run, uint64_t hash,
                            const char *end, char *path)
{
    snprintf(path, HOST_PATH_BYTES, "%s/k%016llx%s", run->folder,
             (unsigned long long)hash, end);
}

size_t host_entry_find(host_run *run, const char *source, char *error)
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

int host_entry_start(host_run *run, size_t e, host_proc *proc)
{
    host_entry *entry = &run->entry[e];
    char source[HOST_PATH_BYTES], so[HOST_PATH_BYTES];
    char store[2 * HOST_FLAG_BYTES];
    char *argv[HOST_ARGS];
    int n = host_args(run, argv, store), rc;

    host_entry_path(run, entry->hash, ".c", source);
    host_entry_path(run, entry->hash, ".so", so);
    argv[n++] = host_arg("-shared");
    argv[n++] = host_arg("-fPIC");
    argv[n++] = host_arg("-w");
    argv[n++] = host_arg("-o");
    argv[n++] = so;
    argv[n++] = source;
    argv[n] = NULL;
    rc = host_proc_spawn(proc, run, argv, 2, run->cfg.build_s);
    entry->busy = rc == 0;
    if (rc) host_spawn_error(run, rc, entry->error);
    return rc;
}

/* How a finished build went: into the entry, and files tidied. */
void host_entry_finish(host_run *run, size_t e, const host_proc *proc)
{
    host_entry *entry = &run->entry[e];
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
        host_first_error(run, proc->text, entry->error);
        if (entry->error[0])
            return;
        if (code >= 0)
            host_say(entry->error, "the compiler ended with status %d and "
                     "said nothing", code);
        else
            host_say(entry->error, "the compiler was killed by signal %d",
                     WTERMSIG(proc->wait_status));
    }
}

void host_build_all(host_run *run, const size_t *index, int32_t n)
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
                if (e == SIZE_MAX || run->entry[e].busy ||
                    run->entry[e].status != METATUNE_NOT_RUN)
                    continue;
                (void)host_entry_start(run, e, slot[i]);
                which[i] = e;
            }
            busy += !slot[i]->done;
        }
        if (!busy) break;
        host_proc_poll(run, slot, jobs);
        for (i = 0; i < jobs; i++)
            if (slot[i]->done && slot[i]->pid) {
                host_entry_finish(run, which[i], slot[i]);
                slot[i]->pid = 0;
            }
    } while (1);
    for (i = 0; i < jobs; i++) free(slot[i]);
}

void host_cache_trim(host_run *run, int32_t n)
{
    if (run->n_entries + (size_t)n <= HOST_ENTRIES_MAX) return;
    host_folder_empty(run->folder, 0);
    run->n_entries = 0;
}

int host_entry_busy(const host_run *run, size_t entry)
{
    return run->entry[entry].busy;
}

int host_entry_built(const host_run *run, size_t entry)
{
    return run->entry[entry].status != METATUNE_NOT_RUN;
}

void host_entry_result(const host_run *run, size_t e, int cached, char *so,
                       host_result *result)
{
    const host_entry *entry = &run->entry[e];

    host_entry_path(run, entry->hash, ".so", so);
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
    cached = host_entry_built(run, e);
    run->n_cached += (uint64_t)cached;
    if (!cached) host_build_all(run, &e, 1);
    host_entry_result(run, e, cached, path, result);
    snprintf(so, cap, "%s", path);
    return result->status;
}

