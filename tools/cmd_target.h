/* cmd_target.h - where a command measures: this host, or a fake for tests

   The fake measures nothing: a setting's time is a smooth function of its
   knobs times a hash, the same on every machine; some settings fail. */
#ifndef METATUNE_CMD_TARGET_H
#define METATUNE_CMD_TARGET_H

#include "cmd_util.h"
#include "targets/host_target.h"

enum cmd_target_kind {
    CMD_TARGET_HOST = 0,
    CMD_TARGET_FAKE = 1,         /* "fake" or "fake:MS", MS slept a trial */
    CMD_TARGET_FAIL = 2          /* "fail": every setting fails to build */
};

typedef struct cmd_target_options {
    const char *target;          /* NULL = the host */
    const char *cc, *march;      /* NULL = default */
    uint64_t threads;            /* 1..8; 0 = 1 */
    uint64_t lanes;              /* 16, 8, 4 or 1; 0 = what the CPU has */
} cmd_target_options;

typedef struct cmd_target {
    int kind;                    /* cmd_target_kind */
    long delay_ms;
    host_run run;                /* of the host */
    host_march march;
    char march_name[64];
    metatune_encode_device device;
    double peak_flops;           /* highest seen so far */
    char key[1024];              /* target key of records */
    metatune_encode_skeleton skeletons[HOST_ALGORITHMS];
    void *skeleton_mem[HOST_ALGORITHMS];
} cmd_target;

typedef struct cmd_layer {
    const cmd_task *task;
    host_layer host;             /* kernel always; data on the host only */
    metatune_knob knobs[HOST_KNOBS];
    int64_t defaults[HOST_KNOBS];
    double naive_s;              /* 0: unknown */
    double gflop;
} cmd_layer;

/* Nodes of the nests and graphs that the commands and the prior use. */
enum { CMD_NODES = HOST_NODES };

/* Raised whenever a knob's values or an algorithm's code come to mean
   something else under the same names: what was measured before is of another
   space then. */
enum { CMD_SPACE_EDITION = 1 };
/* Names the space of settings: a hash of the edition, the algorithms' and the
   knobs' names in their order. Data files and priors carry it. */
uint64_t cmd_space_version(void);

/* One of the shared options --target --cc --march --threads --lanes: 1 and
   *status, or 0 when it is another one. */
int cmd_target_option(cmd_args *args, cmd_target_options *options,
                      int *status);

/* CMD_OK, or a status after one line. */
int cmd_target_open(cmd_target *target, const cmd_target_options *options);
void cmd_target_close(cmd_target *target);
/* Look at the peak once more (a tenth of a second on the host). */
void cmd_target_peak(cmd_target *target);

/* "cores=1,lanes=16,...,probe=a:b:..." and back (up to a NUL, '"' or tab):
   CMD_OK or CMD_USAGE, silently. */
void cmd_device_text(const metatune_encode_device *device, char *buf,
                     size_t cap);
int cmd_device_parse(const char *text, metatune_encode_device *device);

/* Skeletons by algorithm; CMD_OK or a status after one line. */
int cmd_skeletons_build(metatune_encode_skeleton *skeletons, void **mem);

/* Leave out, with one line each, the tasks (settled) that the kernels do not
   support. CMD_USAGE after one line when none is left. */
int cmd_tasks_support(cmd_tasks *tasks, const char *command);

/* Not to be moved once open. */
int cmd_layer_open(cmd_layer *layer, cmd_target *target, const cmd_task *task);
void cmd_layer_close(cmd_layer *layer, const cmd_target *target);
/* n settings, values (n, HOST_KNOBS); repeats tell samples of the fake apart.
   OK or the status that stopped the batch; always fills n results. */
metatune_status cmd_layer_measure(cmd_layer *layer, cmd_target *target,
                                  const int64_t *values, int32_t n,
                                  uint32_t repeat, host_result *results);

#endif
