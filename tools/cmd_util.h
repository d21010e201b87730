/* cmd_util.h - what every sub-command of `metatune` needs

   Errors are one line on stderr, "metatune: WHAT; WHAT TO DO". Exit statuses:
   CMD_OK 0; CMD_FAILED 1, nothing valid found or a failed run; CMD_USAGE 2,
   usage or bad input. */
#ifndef METATUNE_CMD_UTIL_H
#define METATUNE_CMD_UTIL_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "metatune.h"

enum { CMD_OK = 0, CMD_FAILED = 1, CMD_USAGE = 2 };

#if defined(__GNUC__)
#define CMD_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define CMD_PRINTF(a, b)
#endif

/* How this program was called, for lines that say what to type. */
extern const char *cmd_program;

/* Print the line; return `status`, so that `return cmd_fail(...)` reads. */
int cmd_fail(int status, const char *format, ...) CMD_PRINTF(2, 3);
/* The same from a metatune_error. */
int cmd_fail_error(int status, const char *what, const metatune_error *error);

/* Set by the first SIGINT, SIGTERM or SIGHUP; the second one kills. */
extern volatile sig_atomic_t cmd_interrupted;
void cmd_signals_install(void);

double cmd_now(void);            /* seconds, monotonic */

/* malloc or one line and exit(1): tools may, headers may not. */
void *cmd_alloc(size_t bytes);
void *cmd_realloc(void *p, size_t bytes);
char *cmd_format(const char *format, ...) CMD_PRINTF(1, 2);

/* Whole file in memory, NUL-terminated; NULL and errno when not readable. */
char *cmd_file_read(const char *path, size_t *n);
/* Write beside it and rename; 0, or -1 and errno. */
int cmd_file_write(const char *path, const void *bytes, size_t n);
/* One write(2) of the whole; 0, or -1 and errno (ENOSPC when cut short). */
int cmd_write_all(int fd, const void *bytes, size_t n);
/* mkdir -p; 0, or -1 and errno. */
int cmd_mkdirs(const char *path);
/* Open for appending, made when absent; after a torn last line a newline is
   written first. -1 and errno. */
int cmd_open_append(const char *path);

/* Growing text. */
typedef struct cmd_text {
    char *p;                     /* NUL-terminated, or NULL when empty */
    size_t n, cap;
} cmd_text;
void cmd_text_add(cmd_text *text, const char *format, ...) CMD_PRINTF(2, 3);
void cmd_text_bytes(cmd_text *text, const void *bytes, size_t n);
/* A JSON string with its quotes. */
void cmd_text_json(cmd_text *text, const char *string);
void cmd_text_free(cmd_text *text);

/* Walk arguments: "--name value", "--name=value", "--flag", or a word. */
typedef struct cmd_args {
    const char *command;
    int argc;
    char **argv;
    int i;
    char name[64];               /* "--trials"; "" for a word */
    const char *value;           /* after '=', or the word */
} cmd_args;
void cmd_args_init(cmd_args *args, const char *command, int argc,
                   char **argv);
/* 1 for an option or a word, 0 at the end. */
int cmd_args_next(cmd_args *args);
int cmd_args_is(const cmd_args *args, const char *name);
/* The option's value: CMD_OK, or CMD_USAGE after one line. */
int cmd_args_text(cmd_args *args, const char **value);
int cmd_args_u64(cmd_args *args, uint64_t min, uint64_t max, uint64_t *value);
int cmd_args_real(cmd_args *args, double min, double max, double *value);
/* For an option that takes no value. */
int cmd_args_flag(const cmd_args *args);
int cmd_args_unknown(const cmd_args *args);

/* A list of chosen layers. */
typedef struct cmd_task {
    char *name;                  /* "resnet18/layer1", or "conv-1" */
    metatune_encode_conv2d conv;
    char spec[256];
    int own_layout;              /* a SPEC said which */
    int own_types;               /* it is a SPEC */
} cmd_task;
typedef struct cmd_tasks {
    cmd_task *task;
    size_t n, cap;
    size_t n_conv;               /* how many came from a SPEC */
} cmd_tasks;
/* Each refuses with one line (CMD_USAGE); a shape already there is left out. */
int cmd_tasks_add_net(cmd_tasks *tasks, const char *net);
int cmd_tasks_add_layer(cmd_tasks *tasks, const char *name);
int cmd_tasks_add_conv(cmd_tasks *tasks, const char *spec);
/* One NET/LAYER or SPEC a line; '#' begins a comment. */
int cmd_tasks_add_list(cmd_tasks *tasks, const char *path);
/* Take --net, --layer or --conv with its value: 1, and the outcome in *status;
   0 when the option is another one. */
int cmd_tasks_option(cmd_args *args, cmd_tasks *tasks, int *status);
void cmd_tasks_free(cmd_tasks *tasks);

/* The form that layers take which do not say so themselves. */
typedef struct cmd_form {
    int32_t layout;              /* metatune_layout */
    int32_t dtype;               /* of networks' layers: METATUNE_F32 or I8,
                                    which is in=i8,out=i32,acc=i32 */
} cmd_form;
/* Names of the layouts, by metatune_layout. */
extern const char *const cmd_layout_name[3];
/* Take --layout or --dtype, like cmd_tasks_option. */
int cmd_form_option(cmd_args *args, cmd_form *form, int *status);
/* Give every task its form; blocks are `lanes` wide. Tasks that are the same
   now are left out. CMD_USAGE after one line: a SPEC with another block. */
int cmd_tasks_settle(cmd_tasks *tasks, const cmd_form *form, int32_t lanes);

/* The commands and their help. */
typedef struct cmd_command {
    const char *name;
    const char *brief;
    const char *help;
    int (*run)(int argc, char **argv);
} cmd_command;
extern const cmd_command cmd_layers, cmd_tune, cmd_collect, cmd_train;
extern const cmd_command cmd_replay;
extern const cmd_command cmd_lookup;
extern const cmd_command cmd_report;
extern const cmd_command cmd_export;
extern const cmd_command cmd_import;
extern const cmd_command cmd_records;

#endif
