/* cmd_util.c - errors, signals, files, arguments, chosen layers */
#define _XOPEN_SOURCE 700

#include "cmd_util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nets.h"

const char *cmd_program = "metatune";

/* ------------------------------------------------------------- errors */

int cmd_fail(int status, const char *format, ...)
{
    char line[1024];
    va_list ap;
    char *p;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    for (p = line; *p; p++) /* one line is the promise */
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    fflush(stdout);
    fprintf(stderr, "metatune: %s\n", line);
    return status;
}

int cmd_fail_error(int status, const char *what, const metatune_error *error)
{
    char line[256];
    metatune_encode_error_line(error, line, sizeof line);
    return cmd_fail(status, "%s: %s", what, line);
}

/* ------------------------------------------------------------ signals */

volatile sig_atomic_t cmd_interrupted;

static void on_signal(int number)
{
    if (cmd_interrupted) { /* asked twice: die of it, now */
        signal(number, SIG_DFL);
        raise(number);
    }
    cmd_interrupted = number;
}

void cmd_signals_install(void)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_signal;
    sigemptyset(&sa.sa_mask);
    /* no SA_RESTART: a wait for a child ends and looks at the flag */
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    sa.sa_handler = SIG_IGN; /* a closed pipe is a failed write, no death */
    sigaction(SIGPIPE, &sa, NULL);
    sigaction(SIGXFSZ, &sa, NULL); /* so is a limit on the file's size */
}

double cmd_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* ------------------------------------------------------------- memory */

void *cmd_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        exit(cmd_fail(CMD_FAILED, "out of memory (%zu bytes)", bytes));
    return p;
}

void *cmd_realloc(void *p, size_t bytes)
{
    p = realloc(p, bytes ? bytes : 1);
    if (!p)
        exit(cmd_fail(CMD_FAILED, "out of memory (%zu bytes)", bytes));
    return p;
}

char *cmd_format(const char *format, ...)
{
    va_list ap;
    int n;
    char *p;
    va_start(ap, format);
    n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    p = (char *)cmd_alloc((size_t)(n < 0 ? 0 : n) + 1);
    va_start(ap, format);
    vsnprintf(p, (size_t)(n < 0 ? 0 : n) + 1, format, ap);
    va_end(ap);
    return p;
}

/* -------------------------------------------------------------- files */

char *cmd_file_read(const char *path, size_t *n)
{
    size_t cap = 65536, got = 0;
    struct stat st;
    char *p;
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode)) {
        /* /dev/full and /dev/zero never end */
        close(fd);
        *n = 0;
        return (char *)cmd_alloc(1);
    }
    p = (char *)cmd_alloc(cap + 1);
    for (;;) {
        ssize_t k = read(fd, p + got, cap - got);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            int e = errno;
            close(fd);
            free(p);
            errno = e;
            return NULL;
        }
        if (k == 0)
            break;
        got += (size_t)k;
        if (got == cap) {
            cap *= 2;
            p = (char *)cmd_realloc(p, cap + 1);
        }
    }
    close(fd);
    p[got] = 0;
    *n = got;
    return p;
}

int cmd_write_all(int fd, const void *bytes, size_t n)
{
    ssize_t k;
    do {
        errno = 0;
        k = write(fd, bytes, n);
    } while (k < 0 && errno == EINTR);
    if (k == (ssize_t)n)
        return 0;
    if (k >= 0) /* a short write to a file means that it is full */
        errno = ENOSPC;
    return -1;
}

int cmd_file_write(const char *path, const void *bytes, size_t n)
{
    const char *p = (const char *)bytes;
    struct stat st;
    char *tmp;
    int fd, e, beside;
    /* a device or pipe is written in place */
    beside = stat(path, &st) != 0 || S_ISREG(st.st_mode);
    tmp = beside ? cmd_format("%s.%ld.tmp", path, (long)getpid())
                 : cmd_format("%s", path);
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) {
        e = errno;
        free(tmp);
        errno = e;
        return -1;
    }
    e = 0;
    while (n > 0 && !e) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            e = k < 0 ? errno : ENOSPC;
        } else {
            p += k;
            n -= (size_t)k;
        }
    }
    if (close(fd) != 0 && !e)
        e = errno;
    if (beside && !e && rename(tmp, path) != 0)
        e = errno;
    if (beside && e)
        unlink(tmp);
    free(tmp);
    errno = e;
    return e ? -1 : 0;
}

int cmd_mkdirs(const char *path)
{
    char *copy = cmd_format("%s", path), *p;
    struct stat st;
    int e = 0;
    for (p = copy; *p && !e; p++) {
        if (*p == '/' && p > copy) {
            *p = 0;
            if (mkdir(copy, 0777) != 0 && errno != EEXIST)
                e = errno;
            *p = '/';
        }
    }
    if (!e && mkdir(copy, 0777) != 0 && errno != EEXIST)
        e = errno;
    if (!e && (stat(copy, &st) != 0 || !S_ISDIR(st.st_mode)))
        e = ENOTDIR;
    free(copy);
    errno = e;
    return e ? -1 : 0;
}

int cmd_open_append(const char *path)
{
    struct stat st;
    char last = '\n';
    int e, fd = open(path, O_RDWR | O_APPEND | O_CREAT, 0666);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        if (pread(fd, &last, 1, st.st_size - 1) != 1)
            last = '\n';
        if (last != '\n' && cmd_write_all(fd, "\n", 1) != 0) {
            e = errno;
            close(fd);
            errno = e;
            return -1;
        }
    }
    return fd;
}

/* --------------------------------------------------------------- text */

void cmd_text_bytes(cmd_text *text, const void *bytes, size_t n)
{
    if (text->cap - text->n < n + 1) {
        text->cap = 2 * text->cap + n + 64;
        text->p = (char *)cmd_realloc(text->p, text->cap);
    }
    memcpy(text->p + text->n, bytes, n);
    text->n += n;
    text->p[text->n] = 0;
}

void cmd_text_add(cmd_text *text, const char *format, ...)
{
    char small[512], *big;
    va_list ap;
    int n;
    va_start(ap, format);
    n = vsnprintf(small, sizeof small, format, ap);
    va_end(ap);
    if (n < 0)
        return;
    if ((size_t)n < sizeof small) {
        cmd_text_bytes(text, small, (size_t)n);
        return;
    }
    big = (char *)cmd_alloc((size_t)n + 1);
    va_start(ap, format);
    vsnprintf(big, (size_t)n + 1, format, ap);
    va_end(ap);
    cmd_text_bytes(text, big, (size_t)n);
    free(big);
}

void cmd_text_json(cmd_text *text, const char *string)
{
    const char *p;
    cmd_text_bytes(text, "\"", 1);
    for (p = string; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            cmd_text_add(text, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            cmd_text_add(text, "\\u%04x", c);
        else
            cmd_text_bytes(text, p, 1);
    }
    cmd_text_bytes(text, "\"", 1);
}

void cmd_text_free(cmd_text *text)
{
    free(text->p);
    memset(text, 0, sizeof *text);
}

/* ---------------------------------------------------------- arguments */

void cmd_args_init(cmd_args *args, const char *command, int argc, char **argv)
{
    memset(args, 0, sizeof *args);
    args->command = command;
    args->argc = argc;
    args->argv = argv;
}

int cmd_args_next(cmd_args *args)
{
    const char *word, *eq;
    size_t n;
    if (args->i >= args->argc)
        return 0;
    word = args->argv[args->i++];
    args->name[0] = 0;
    args->value = word;
    if (word[0] != '-' || !word[1])
        return 1;
    eq = word[1] == '-' ? strchr(word, '=') : NULL;
    n = eq ? (size_t)(eq - word) : strlen(word);
    if (n >= sizeof args->name)
        n = sizeof args->name - 1;
    memcpy(args->name, word, n);
    args->name[n] = 0;
    args->value = eq ? eq + 1 : NULL;
    return 1;
}

int cmd_args_is(const cmd_args *args, const char *name)
{
    return strcmp(args->name, name) == 0;
}

int cmd_args_text(cmd_args *args, const char **value)
{
    if (!args->value) {
        if (args->i >= args->argc)
            return cmd_fail(CMD_USAGE, "%s: %s wants a value; see `metatune "
                            "help %s`", args->command, args->name,
                            args->command);
        args->value = args->argv[args->i++];
    }
    if (!args->value[0])
        return cmd_fail(CMD_USAGE, "%s: %s is empty", args->command,
                        args->name);
    *value = args->value;
    return CMD_OK;
}

int cmd_args_u64(cmd_args *args, uint64_t min, uint64_t max, uint64_t *value)
{
    const char *text = NULL, *p;
    uint64_t x = 0;
    int bad = 0, st = cmd_args_text(args, &text);
    if (st != CMD_OK)
        return st;
    for (p = text; *p && !bad; p++) {
        uint64_t d = (uint64_t)(unsigned char)*p - '0';
        bad = d > 9 || x > (UINT64_MAX - d) / 10;
        if (!bad)
            x = 10 * x + d;
    }
    if (bad || x < min || x > max)
        return cmd_fail(CMD_USAGE, "%s: %s is \"%s\", want a whole number "
                        "%llu..%llu", args->command, args->name, text,
                        (unsigned long long)min, (unsigned long long)max);
    *value = x;
    return CMD_OK;
}

int cmd_args_real(cmd_args *args, double min, double max, double *value)
{
    const char *text = NULL;
    char *end;
    double x;
    int st = cmd_args_text(args, &text);
    if (st != CMD_OK)
        return st;
    x = strtod(text, &end);
    if (*end || !(x >= min && x <= max))
        return cmd_fail(CMD_USAGE, "%s: %s is \"%s\", want a number %g..%g",
                        args->command, args->name, text, min, max);
    *value = x;
    return CMD_OK;
}

int cmd_args_flag(const cmd_args *args)
{
    if (args->value)
        return cmd_fail(CMD_USAGE, "%s: %s takes no value", args->command,
                        args->name);
    return CMD_OK;
}

int cmd_args_unknown(const cmd_args *args)
{
    if (!args->name[0])
        return cmd_fail(CMD_USAGE, "%s: \"%s\" is not expected here; see "
                        "`metatune help %s`", args->command, args->value,
                        args->command);
    return cmd_fail(CMD_USAGE, "%s: unknown option %s; see `metatune help "
                    "%s`", args->command, args->name, args->command);
}

/* ------------------------------------------------------ chosen layers */

static int tasks_add(cmd_tasks *tasks, const char *name,
                     const metatune_encode_conv2d *conv, int own_layout,
                     int own_types)
{
    cmd_task *task;
    metatune_error error;
    char spec[sizeof task->spec];
    size_t i;
    memset(&error, 0, sizeof error);
    if (metatune_encode_conv2d_check(conv, &error) != METATUNE_OK)
        return cmd_fail_error(CMD_USAGE, name, &error);
    if (!metatune_encode_conv2d_spec(conv, spec, sizeof spec))
        return cmd_fail(CMD_USAGE, "%s: its description is too long", name);
    for (i = 0; i < tasks->n; i++)
        if (strcmp(tasks->task[i].spec, spec) == 0 &&
            tasks->task[i].own_layout == own_layout &&
            tasks->task[i].own_types == own_types)
            return CMD_OK;
    if (tasks->n == tasks->cap) {
        tasks->cap = 2 * tasks->cap + 16;
        tasks->task = (cmd_task *)cmd_realloc(
            tasks->task, tasks->cap * sizeof *tasks->task);
    }
    task = &tasks->task[tasks->n++];
    memset(task, 0, sizeof *task);
    task->name = cmd_format("%s", name);
    task->conv = *conv;
    memcpy(task->spec, spec, sizeof spec);
    task->own_layout = own_layout;
    task->own_types = own_types;
    return CMD_OK;
}

int cmd_tasks_add_net(cmd_tasks *tasks, const char *net)
{
    char why[256] = "";
    int32_t i, first = 0, n = nets_net_find(net, &first, why, sizeof why);
    if (n <= 0)
        return cmd_fail(CMD_USAGE, "%s", why);
    for (i = first; i < first + n; i++) {
        const nets_layer *layer = nets_get(i);
        char *name = cmd_format("%s/%s", layer->net, layer->layer);
        int st = tasks_add(tasks, name, &layer->conv, 0, 0);
        free(name);
        if (st != CMD_OK)
            return st;
    }
    return CMD_OK;
}

int cmd_tasks_add_layer(cmd_tasks *tasks, const char *name)
{
    char why[256] = "";
    const nets_layer *layer = nets_find(name, why, sizeof why);
    if (!layer)
        return cmd_fail(CMD_USAGE, "%s", why);
    return tasks_add(tasks, name, &layer->conv, 0, 0);
}

int cmd_tasks_add_conv(cmd_tasks *tasks, const char *spec)
{
    metatune_encode_conv2d conv;
    metatune_error error;
    char name[32];
    memset(&error, 0, sizeof error);
    if (metatune_encode_conv2d_parse(spec, &conv, &error) != METATUNE_OK)
        return cmd_fail_error(CMD_USAGE, spec, &error);
    snprintf(name, sizeof name, "conv-%zu", ++tasks->n_conv);
    return tasks_add(tasks, name, &conv, strstr(spec, "layout=") != NULL, 1);
}

int cmd_tasks_add_list(cmd_tasks *tasks, const char *path)
{
    size_t n = 0;
    char *text = cmd_file_read(path, &n), *line, *next;
    int st = CMD_OK;
    if (!text)
        return cmd_fail(CMD_USAGE, "cannot read the list %s: %s", path,
                        strerror(errno));
    for (line = text; *line && st == CMD_OK; line = next) {
        char *end = line + strcspn(line, "\n");
        next = *end ? end + 1 : end;
        *end = 0;
        line[strcspn(line, "#\r")] = 0;
        while (*line == ' ' || *line == '\t')
            line++;
        for (end = line + strlen(line);
             end > line && (end[-1] == ' ' || end[-1] == '\t'); end--)
            end[-1] = 0;
        if (!*line)
            continue;
        st = strchr(line, '=') ? cmd_tasks_add_conv(tasks, line)
             : strchr(line, '/') ? cmd_tasks_add_layer(tasks, line)
                                 : cmd_tasks_add_net(tasks, line);
    }
    free(text);
    return st;
}

int cmd_tasks_option(cmd_args *args, cmd_tasks *tasks, int *status)
{
    static const struct {
        const char *name;
        int (*add)(cmd_tasks *tasks, const char *text);
    } options[] = {
        { "--net", cmd_tasks_add_net },
        { "--layer", cmd_tasks_add_layer },
        { "--conv", cmd_tasks_add_conv },
    };
    const char *text = NULL;
    size_t i;
    for (i = 0; i < sizeof options / sizeof options[0]; i++)
        if (cmd_args_is(args, options[i].name)) {
            *status = cmd_args_text(args, &text);
            if (*status == CMD_OK)
                *status = options[i].add(tasks, text);
            return 1;
        }
    return 0;
}

void cmd_tasks_free(cmd_tasks *tasks)
{
    size_t i;
    for (i = 0; i < tasks->n; i++)
        free(tasks->task[i].name);
    free(tasks->task);
    memset(tasks, 0, sizeof *tasks);
}

/* --------------------------------------------------------- their form */

const char *const cmd_layout_name[3] = { "nchw", "nhwc", "nchwc" };

int cmd_form_option(cmd_args *args, cmd_form *form, int *status)
{
    const char *text = NULL;
    int32_t i;
    if (cmd_args_is(args, "--layout")) {
        *status = cmd_args_text(args, &text);
        if (*status != CMD_OK)
            return 1;
        for (i = 0; i < 3; i++)
            if (strcmp(text, cmd_layout_name[i]) == 0) {
                form->layout = i;
                return 1;
            }
        *status = cmd_fail(CMD_USAGE, "%s: unknown --layout \"%s\"; want "
                           "nchwc, nchw or nhwc", args->command, text);
        return 1;
    }
    if (!cmd_args_is(args, "--dtype"))
        return 0;
    *status = cmd_args_text(args, &text);
    if (*status != CMD_OK)
        return 1;
    form->dtype = strcmp(text, "i8") == 0 ? METATUNE_I8 : METATUNE_F32;
    if (form->dtype == METATUNE_F32 && strcmp(text, "f32") != 0)
        *status = cmd_fail(CMD_USAGE, "%s: unknown --dtype \"%s\"; want f32 "
                           "or i8", args->command, text);
    return 1;
}

int cmd_tasks_settle(cmd_tasks *tasks, const cmd_form *form, int32_t lanes)
{
    size_t i, j, n = 0;
    for (i = 0; i < tasks->n; i++) {
        cmd_task *task = &tasks->task[i];
        metatune_encode_conv2d *conv = &task->conv;
        if (task->own_layout && conv->layout == METATUNE_NCHWC &&
            conv->block != lanes)
            return cmd_fail(CMD_USAGE, "%s: block is %d, want %d on this "
                            "platform; or leave layout and block out",
                            task->name, (int)conv->block, (int)lanes);
        if (!task->own_layout) {
            conv->layout = form->layout;
            conv->block = form->layout == METATUNE_NCHWC ? lanes : 0;
        }
        if (!task->own_types && form->dtype == METATUNE_I8) {
            conv->dtype_in = METATUNE_I8;
            conv->dtype_out = conv->dtype_acc = METATUNE_I32;
        }
        if (!metatune_encode_conv2d_spec(conv, task->spec, sizeof task->spec))
            return cmd_fail(CMD_USAGE, "%s: its description is too long",
                            task->name);
    }
    for (i = 0; i < tasks->n; i++) {
        for (j = 0; j < n; j++)
            if (strcmp(tasks->task[j].spec, tasks->task[i].spec) == 0)
                break;
        if (j < n)
            free(tasks->task[i].name);
        else
            tasks->task[n++] = tasks->task[i];
    }
    tasks->n = n;
    return CMD_OK;
}
