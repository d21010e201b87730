/* host_run.c - see host_run.h

   Rooms: [R-PLATFORM] what the compiler targets, [R-OPEN] open and close,
   [R-MEASURE] a batch of settings. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1
#include "host_proc.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ============================================== [R-PLATFORM] platform */

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
        if (first[0])
            host_say(error, "compiler \"%.60s\" refuses its flags: %.150s",
                     run->cfg.cc, first);
        else if (WIFEXITED(proc->wait_status))
            host_say(error, "compiler \"%.100s\" ended with status %d and "
                     "said nothing: is it a C compiler?", run->cfg.cc,
                     WEXITSTATUS(proc->wait_status));
        else
            host_say(error, "compiler \"%.100s\" was killed by signal %d",
                     run->cfg.cc, WTERMSIG(proc->wait_status));
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

    /* Neighbouring scalars that are broadcast look like a vector to the SLP
       pass of some versions. */
    snprintf(p->flags, sizeof p->flags, "-O2 -fno-tree-slp-vectorize "
             "-std=gnu99 -ffp-contract=fast%s%s%s%s%s",
             none ? "" : " -march=", none ? "" : march,
             wide ? " -mprefer-vector-width=512" : "",
             run->cfg.flags && run->cfg.flags[0] ? " " : "",
             run->cfg.flags ? run->cfg.flags : "");
}

/* Lanes and registers of what the compiler makes code for (`text`: its
   macros), unless lanes are forced: wider ones take several registers. */
static void host_vectors(host_run *run, const char *text)
{
    host_march *march = &run->platform.march;
    int32_t lanes = 4;

    march->vregs = 16;
    if (host_macro(text, "__AVX512F__") >= 0) {
        lanes = 16;
        march->vregs = 32;
    } else if (host_macro(text, "__AVX__") >= 0) {
        lanes = 8;
    } else if (host_macro(text, "__aarch64__") >= 0 ||
               host_macro(text, "__VSX__") >= 0) {
        march->vregs = 32;
    }
    march->lanes = run->cfg.lanes ? run->cfg.lanes : lanes;
    for (; lanes < march->lanes && march->vregs > 8; lanes *= 2)
        march->vregs /= 2;
    march->threads = run->cfg.threads;
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
    host_vectors(run, text);
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
    if (p->march.lanes == 16 && p->march.vregs == 32) {
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
        host_say(message->error, "the compiler makes wrong code");
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

    /* one lane is for compilers without vectors */
    if (run->platform.march.lanes == 1)
        snprintf(source, sizeof source,
                 "float hello(float x) { volatile float y = x;\n"
                 "    return y * y + 1.75f; }\n");
    else
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
        host_say(line, "compiler \"%.40s\" cannot build a kernel: %.180s",
                 run->cfg.cc, result.error);
        return host_fail(error, METATUNE_COMPILE, line);
    }
    host_child_run(run, host_hello_body, so, run->cfg.run_s, 0, 1, &message);
    if (message.status != METATUNE_OK)
        return host_fail(error, (metatune_status)message.status,
                         message.error);
    run->n_built = 0;
    return METATUNE_OK;
}

/* ======================================================= [R-OPEN] open */

metatune_status host_run_open(host_run *run, const host_config *cfg,
                              host_error *error)
{
    host_config *c = &run->cfg;
    char line[HOST_ERROR_BYTES];
    struct sigaction action;
    metatune_status status;
    const char *tmp;
    int32_t lanes;
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
    if (c->threads == 0) c->threads = 1;
    lanes = c->lanes;
    if (c->threads < 1 || c->threads > 8)
        return host_fail(error, METATUNE_BAD_CONFIG, "threads is 1 to 8");
    if (lanes && lanes != 16 && lanes != 8 && lanes != 4 && lanes != 1)
        return host_fail(error, METATUNE_BAD_CONFIG,
                         "lanes is 16, 8, 4, 1, or 0 for the compiler's");
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
    status = host_folder_make(run, tmp, line);
    if (status != METATUNE_OK) return host_fail(error, status, line);
    host_cpu_name(run->platform.cpu, sizeof run->platform.cpu);
    status = host_detect(run, error);
    if (status == METATUNE_OK) status = host_hello(run, error);
    if (status != METATUNE_OK) host_run_close(run);
    return status;
}

void host_run_close(host_run *run)
{
    host_folder_remove(run);
    free(run->entry);
    run->entry = NULL;
    run->n_entries = run->cap_entries = 0;
}

size_t host_run_key(const host_run *run, char *buf, size_t cap)
{
    const host_platform *p = &run->platform;
    int n = snprintf(buf, cap, "cpu=%s,lanes=%d,cc=%s,flags=%s,threads=%d",
                     p->cpu, (int)p->march.lanes, p->cc, p->flags,
                     (int)p->march.threads);

    if (n < 0 || (size_t)n >= cap) {
        if (cap) buf[0] = 0;
        return 0;
    }
    return (size_t)n;
}
/* ================================================= [R-MEASURE] batch */

size_t host_setting_find(host_run *run, const host_kernel *kernel,
                         const int64_t *values, char *source,
                         host_result *result)
{
    if (!host_kernel_valid(kernel, values)) {
        result->status = METATUNE_CONSTRAINT;
        host_say(result->error, "not a valid setting of this layer");
        return SIZE_MAX;
    }
    if (!host_kernel_emit_outer(kernel, values, HOST_ENTRY_POINT, source,
                                HOST_SOURCE_BYTES)) {
        result->status = METATUNE_CONSTRAINT;
        host_say(result->error, "the source is longer than %d bytes",
                 HOST_SOURCE_BYTES);
        return SIZE_MAX;
    }
    return host_entry_find(run, source, result->error);
}

metatune_status host_run_library(host_run *run, const host_layer *layer,
                                 const int64_t *values, char *so, size_t cap,
                                 host_result *result)
{
    char *source = (char *)malloc(HOST_SOURCE_BYTES), path[HOST_PATH_BYTES];
    size_t e = SIZE_MAX;
    int cached;

    memset(result, 0, sizeof *result);
    result->status = METATUNE_NOT_RUN;
    host_cache_trim(run, 1);
    if (source)
        e = host_setting_find(run, &layer->kernel, values, source, result);
    else
        host_say(result->error, "out of memory for the source");
    free(source);
    if (e == SIZE_MAX) return result->status;
    cached = host_entry_built(run, e);
    run->n_cached += (uint64_t)cached;
    host_build_all(run, &e, 1);
    host_entry_result(run, e, cached, path, result);
    snprintf(so, cap, "%s", path);
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
        cached[i] = 0;
        index[i] = host_setting_find(run, &layer->kernel, v, source,
                                     &result[i]);
        if (index[i] == SIZE_MAX) {
            if (result[i].status == METATUNE_NOT_RUN) end = METATUNE_NOT_RUN;
            continue;
        }
        cached[i] = (unsigned char)host_entry_built(run, index[i]);
        for (j = 0; j < i; j++)
            if (index[j] == index[i]) cached[i] = 1;
        run->n_cached += cached[i];
    }
    host_build_all(run, index, n);
    for (i = 0; i < n; i++) {
        if (index[i] == SIZE_MAX) continue;
        host_entry_result(run, index[i], cached[i], path, &result[i]);
        if (result[i].status == METATUNE_OK) {
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
