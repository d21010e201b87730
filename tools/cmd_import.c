/* cmd_import.c - metatune import: other tools' files as records or a table */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_util.h"
#include "io.h"

typedef struct import_format {
    const char *name;
    int (*read)(io_import *io, const char *s, size_t n);
    const char *key[4];          /* members that only its object has */
} import_format;

static const import_format formats[] = {
    {"t1", io_t1_read, {"ConfigurationSpace", NULL, NULL, NULL}},
    {"autotvm", io_autotvm_read, {"input", "config", "result", NULL}},
    {"kernel_tuner", io_kernel_tuner_read,
     {"cache", "kernel_name", "tune_params_keys", "device_name"}},
    {"t4", io_t4_read, {"results", NULL, NULL, NULL}},
    {"csv", io_csv_read, {NULL, NULL, NULL, NULL}}
};
enum { N_FORMATS = sizeof formats / sizeof formats[0], CSV = N_FORMATS - 1 };

typedef struct import_options {
    const char *path, *format, *out, *task, *target;
    int quiet;
} import_options;

static int import_parse(import_options *o, int argc, char **argv)
{
    cmd_args args;
    int st = CMD_OK;
    memset(o, 0, sizeof *o);
    cmd_args_init(&args, "import", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (!args.name[0] && !o->path) {
            o->path = argv[args.i - 1];
        } else if (!args.name[0]) {
            st = cmd_fail(CMD_USAGE, "import: one file at a time; \"%s\" is "
                          "the second", args.value);
        } else if (cmd_args_is(&args, "--format")) {
            st = cmd_args_text(&args, &o->format);
        } else if (cmd_args_is(&args, "--out")) {
            st = cmd_args_text(&args, &o->out);
        } else if (cmd_args_is(&args, "--task")) {
            st = cmd_args_text(&args, &o->task);
        } else if (cmd_args_is(&args, "--target")) {
            st = cmd_args_text(&args, &o->target);
        } else if (cmd_args_is(&args, "--quiet")) {
            st = cmd_args_flag(&args);
            o->quiet = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st == CMD_OK && !o->path)
        st = cmd_fail(CMD_USAGE, "import: no file given");
    if (st == CMD_OK && !o->out)
        st = cmd_fail(CMD_USAGE, "import: --out LOG.jsonl or TABLE.csv is "
                      "missing");
    return st;
}

static const import_format *format_of_key(const char *key)
{
    size_t i, k;
    for (i = 0; i < N_FORMATS; i++)
        for (k = 0; k < 4 && formats[i].key[k]; k++)
            if (strcmp(formats[i].key[k], key) == 0)
                return &formats[i];
    return NULL;
}

/* What the file looks like: the first member that says so, of the object that
   it begins with. Members before it may be large, and what follows torn. */
static const import_format *format_guess(const char *s, size_t n)
{
    const import_format *found = NULL;
    json_pool pool;
    const char *key = NULL, *why;
    size_t i = 0, n_key = 0;
    memset(&pool, 0, sizeof pool);
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0)
        i = 3;
    for (json_space(s, n, &i); i < n && s[i] == '#'; json_space(s, n, &i)) {
        found = format_of_key("input"); /* AutoTVM has comments */
        while (i < n && s[i] != '\n')
            i++;
    }
    if (i >= n || s[i] != '{')
        return found ? found : &formats[CSV];
    for (i++; !found && json_key(&pool, s, n, &i, &key, &n_key); i++) {
        found = format_of_key(key);
        if (found || !json_parse(&pool, s, n, &i, &why))
            break;
        json_space(s, n, &i);
        if (i >= n || s[i] != ',')
            break;
        json_pool_reset(&pool);
    }
    json_pool_free(&pool);
    return found;
}

static const import_format *format_of(const import_options *o, const char *s,
                                      size_t n)
{
    size_t i;
    if (!o->format)
        return format_guess(s, n);
    for (i = 0; i < N_FORMATS; i++)
        if (strcmp(o->format, formats[i].name) == 0)
            return &formats[i];
    return NULL;
}

static int ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Records are appended to a log; a table is written anew. */
static int import_send(const import_options *o, io_import *io)
{
    io_file file;
    io_logs logs;
    io_export x;
    cmd_text text;
    int fd, st = CMD_OK;
    if (!ends_in(o->out, ".csv")) {
        fd = cmd_open_append(o->out);
        if (fd < 0 || cmd_write_all(fd, io->lines.p, io->lines.n))
            st = cmd_fail(CMD_FAILED, "import: cannot write %s: %s", o->out,
                          strerror(errno));
        if (fd >= 0)
            close(fd);
        return st;
    }
    memset(&logs, 0, sizeof logs);
    memset(&x, 0, sizeof x);
    memset(&text, 0, sizeof text);
    file.path = o->path;
    file.bytes = io->lines.p;
    file.n = io->lines.n;
    logs.file = &file;
    logs.n_files = 1;
    x.command = "import";
    x.listing = 1; /* a T1 file has nothing else */
    st = io_csv_write(&x, &logs, &text);
    if (st == CMD_OK && cmd_file_write(o->out, text.p ? text.p : "", text.n))
        st = cmd_fail(CMD_FAILED, "import: cannot write %s: %s", o->out,
                      strerror(errno));
    cmd_text_free(&text);
    return st;
}

static int import_run(int argc, char **argv)
{
    import_options o;
    io_import io;
    const import_format *format;
    char *bytes = NULL;
    size_t n = 0;
    int st = import_parse(&o, argc, argv);
    memset(&io, 0, sizeof io);
    if (st == CMD_OK) {
        bytes = cmd_file_read(o.path, &n);
        if (!bytes)
            st = cmd_fail(CMD_USAGE, "import: cannot read %s: %s", o.path,
                          strerror(errno));
        else if (n > IO_FILE_MAX)
            st = cmd_fail(CMD_USAGE, "import: %s is larger than 1 GiB",
                          o.path);
    }
    if (st != CMD_OK) {
        free(bytes);
        return st;
    }
    if (!o.format && n > 5 && memcmp(bytes, "{\"v\":", 5) == 0) {
        free(bytes);
        return cmd_fail(CMD_USAGE, "import: %s is a log of metatune already; "
                        "see `metatune help records`", o.path);
    }
    format = format_of(&o, bytes, n);
    if (!format) {
        free(bytes);
        if (!o.format)
            return cmd_fail(CMD_USAGE, "import: nothing to take from %s: no "
                            "format that is known here", o.path);
        return cmd_fail(CMD_USAGE, "import: unknown --format \"%s\"; want "
                        "t1, t4, autotvm, kernel_tuner or csv", o.format);
    }
    io.path = o.path;
    io.task = o.task;
    io.target = o.target;
    io.format = format->name;
    if (!format->read(&io, bytes, n) || !io.n_lines)
        st = cmd_fail(CMD_USAGE, "import: nothing to take from %s as %s%s%s",
                      o.path, format->name, io.why[0] ? ": " : "", io.why);
    else
        st = import_send(&o, &io);
    if (st == CMD_OK && !o.quiet)
        printf("%s: %zu trials (%zu without a time) from %s as %s\n", o.out,
               io.n_trials, io.n_failed, o.path, format->name);
    if (st == CMD_OK && (io.n_bad || io.torn))
        fprintf(stderr, "metatune: import: %zu entries left out%s%s%s\n",
                io.n_bad, io.torn ? ", the file is torn" : "",
                io.why[0] ? "; the first: " : "", io.why);
    cmd_text_free(&io.lines);
    json_pool_free(&io.pool);
    free(bytes);
    return st;
}

const cmd_command cmd_import = {
    "import", "take measurements of other tools",
    "usage: metatune import FILE --out LOG.jsonl|TABLE.csv [OPTIONS]\n"
    "\n"
    "  --format F        t1, t4, autotvm (0.2), kernel_tuner (cache file) or\n"
    "                    csv; without it, what the file looks like\n"
    "  --out FILE        records are appended to it; with a name that ends in\n"
    "                    .csv, a table is written instead\n"
    "  --task KEY        instead of what the file says; --target KEY likewise\n"
    "  --quiet           no summary\n"
    "\n"
    "A failure is never a time (AutoTVM's cost of 1e9, Kernel Tuner's 1e20).\n"
    "From a torn file every whole entry is taken and the rest is counted. A\n"
    "T1 file gives every setting that satisfies its conditions, NOT_RUN.\n"
    "Exit status: 0 something was taken; 2 usage or bad input.\n",
    import_run
};
