/* cmd_target.c - see cmd_target.h */
#define _POSIX_C_SOURCE 200809L

#include "cmd_target.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The kind that --target names: CMD_OK, or CMD_USAGE after one line. */
static int kind_of(const char *what, int *kind, long *delay_ms)
{
    char *end = NULL;
    *delay_ms = 0;
    *kind = CMD_TARGET_HOST;
    if (!what || strcmp(what, "host") == 0)
        return CMD_OK;
    *kind = strcmp(what, "fail") == 0 ? CMD_TARGET_FAIL : CMD_TARGET_FAKE;
    if (*kind == CMD_TARGET_FAIL || strcmp(what, "fake") == 0)
        return CMD_OK;
    if (strncmp(what, "fake:", 5) != 0)
        return cmd_fail(CMD_USAGE, "unknown --target \"%s\"; want host, or "
                        "for tests fake, fake:MS or fail", what);
    *delay_ms = strtol(what + 5, &end, 10);
    if (end == what + 5 || *end || *delay_ms < 0 || *delay_ms > 60000)
        return cmd_fail(CMD_USAGE, "--target is \"%s\", want "
                        "fake:MILLISECONDS", what);
    return CMD_OK;
}

int cmd_target_option(cmd_args *args, cmd_target_options *options,
                      int *status)
{
    int kind;
    long delay_ms;
    if (cmd_args_is(args, "--target")) {
        *status = cmd_args_text(args, &options->target);
        if (*status == CMD_OK) /* before any file is made */
            *status = kind_of(options->target, &kind, &delay_ms);
    } else if (cmd_args_is(args, "--cc")) {
        *status = cmd_args_text(args, &options->cc);
    } else if (cmd_args_is(args, "--march")) {
        *status = cmd_args_text(args, &options->march);
    } else if (cmd_args_is(args, "--threads")) {
        *status = cmd_args_u64(args, 1, 8, &options->threads);
    } else if (cmd_args_is(args, "--lanes")) {
        *status = cmd_args_u64(args, 1, 16, &options->lanes);
        if (*status == CMD_OK && options->lanes != 1 && options->lanes != 4 &&
            options->lanes != 8 && options->lanes != 16)
            *status = cmd_fail(CMD_USAGE, "%s: --lanes is %d, want 16, 8, 4 "
                               "or 1", args->command, (int)options->lanes);
    } else {
        return 0;
    }
    return 1;
}

uint64_t cmd_space_version(void)
{
    static const host_march march = { 16, 32, 1 };
    metatune_encode_conv2d conv =
        metatune_encode_conv2d_make(1, 16, 8, 8, 16, 3, 3, 1, 1);
    host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
    uint64_t h = metatune_encode_hash_u64(0, CMD_SPACE_EDITION);
    const char *name;
    int32_t i;
    for (i = 0; i < HOST_ALGORITHMS; i++) {
        name = host_algorithm_name(i);
        h = metatune_encode_hash(h, name, strlen(name) + 1);
    }
    if (host_kernel_init(kernel, &conv, &march, NULL, 0) == METATUNE_OK)
        for (i = 0; i < HOST_KNOBS; i++) {
            name = kernel->knob[i].name;
            h = metatune_encode_hash(h, name, strlen(name) + 1);
        }
    free(kernel);
    return h;
}

int cmd_tasks_support(cmd_tasks *tasks, const char *command)
{
    char why[256] = "";
    size_t i, n = 0, all = tasks->n;
    for (i = 0; i < all; i++) {
        cmd_task *task = &tasks->task[i];
        if (host_kernel_supports(&task->conv, why, sizeof why) ==
            METATUNE_OK) {
            tasks->task[n++] = *task;
            continue;
        }
        cmd_fail(CMD_OK, all > 1 ? "%s: skipped: %s" : "%s: %s", task->name,
                 why);
        free(task->name);
    }
    tasks->n = n;
    if (n == 0 && all > 1)
        cmd_fail(CMD_USAGE, "%s: none of the layers is supported", command);
    return n ? CMD_OK : CMD_USAGE;
}

int cmd_skeletons_build(metatune_encode_skeleton *skeletons, void **mem)
{
    metatune_encode_config cfg;
    metatune_encode_nest nest;
    void *nest_mem;
    size_t bytes;
    int32_t a;
    metatune_status st = METATUNE_OK;
    memset(&cfg, 0, sizeof cfg);
    cfg.cap_nodes = CMD_NODES;
    bytes = metatune_encode_nest_memsize(&cfg);
    nest_mem = cmd_alloc(bytes);
    st = metatune_encode_nest_init(&nest, &cfg, nest_mem, bytes);
    for (a = 0; a < HOST_ALGORITHMS && st == METATUNE_OK; a++) {
        bytes = metatune_encode_skeleton_memsize(&cfg);
        mem[a] = cmd_alloc(bytes);
        st = metatune_encode_skeleton_init(&skeletons[a], &cfg, mem[a],
                                           bytes);
        if (st == METATUNE_OK)
            st = host_kernel_skeleton(a, &nest);
        if (st == METATUNE_OK)
            st = metatune_encode_skeleton_build(&skeletons[a], &nest);
    }
    free(nest_mem);
    if (st != METATUNE_OK)
        return cmd_fail(CMD_FAILED, "cannot build the kernels' skeletons: %s",
                        metatune_encode_status_text(st));
    return CMD_OK;
}

void cmd_device_text(const metatune_encode_device *d, char *buf, size_t cap)
{
    size_t n;
    int i;
    snprintf(buf, cap, "cores=%d,lanes=%d,vregs=%d,line=%d,l1=%.17g,l2=%.17g,"
             "l3=%.17g,freq=%.17g,bw=%.17g,probe=", d->cores, d->lanes,
             d->vregs, d->line_bytes, d->l1_bytes, d->l2_bytes, d->l3_bytes,
             d->freq_hz, d->bandwidth);
    for (i = 0; i < METATUNE_ENCODE_PROBES; i++) {
        n = strlen(buf);
        snprintf(buf + n, cap - n, "%s%.17g", i ? ":" : "", d->probe[i]);
    }
}

int cmd_device_parse(const char *text, metatune_encode_device *device)
{
    static const char *const keys[] = {
        "cores=", "lanes=", "vregs=", "line=", "l1=", "l2=", "l3=", "freq=",
        "bw=", "probe="
    };
    metatune_encode_device d;
    double x[9 + METATUNE_ENCODE_PROBES];
    size_t i, k = 0;
    memset(&d, 0, sizeof d);
    for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        size_t n = strlen(keys[i]), j;
        if (strncmp(text, keys[i], n) != 0)
            return CMD_USAGE;
        text += n;
        for (j = 0; j < (i < 9 ? 1 : METATUNE_ENCODE_PROBES); j++) {
            char *end;
            x[k++] = strtod(text, &end);
            if (end == text)
                return CMD_USAGE;
            text = end;
            if (*text == ',' || *text == ':')
                text++;
        }
    }
    d.size = sizeof d;
    d.cores = (int32_t)x[0];
    d.lanes = (int32_t)x[1];
    d.vregs = (int32_t)x[2];
    d.line_bytes = (int32_t)x[3];
    d.l1_bytes = x[4];
    d.l2_bytes = x[5];
    d.l3_bytes = x[6];
    d.freq_hz = x[7];
    d.bandwidth = x[8];
    memcpy(d.probe, x + 9, sizeof d.probe);
    *device = d;
    return CMD_OK;
}

static void fake_open(cmd_target *target, const cmd_target_options *options)
{
    metatune_encode_device *d = &target->device;
    target->march.lanes = options->lanes ? (int32_t)options->lanes : 16;
    target->march.vregs = 32;
    target->march.threads = options->threads ? (int32_t)options->threads : 1;
    target->peak_flops = 128e9;
    d->size = sizeof *d;
    d->cores = target->march.threads;
    d->lanes = target->march.lanes;
    d->vregs = 32;
    d->line_bytes = 64;
    d->l1_bytes = 32768;
    d->l2_bytes = 1048576;
    d->l3_bytes = 33554432;
    d->freq_hz = 2e9;
    d->bandwidth = 1e10;
    snprintf(target->march_name, sizeof target->march_name, "fake");
    snprintf(target->key, sizeof target->key, "fake,lanes=%d,threads=%d",
             (int)target->march.lanes, (int)target->march.threads);
}

int cmd_target_open(cmd_target *target, const cmd_target_options *options)
{
    host_config cfg;
    host_error error;
    int st;
    memset(target, 0, sizeof *target);
    st = kind_of(options->target, &target->kind, &target->delay_ms);
    if (st != CMD_OK)
        return st;
    if (target->kind != CMD_TARGET_HOST) {
        fake_open(target, options);
        return cmd_skeletons_build(target->skeletons, target->skeleton_mem);
    }
    st = cmd_skeletons_build(target->skeletons, target->skeleton_mem);
    if (st != CMD_OK)
        return st;
    memset(&cfg, 0, sizeof cfg);
    memset(&error, 0, sizeof error);
    cfg.cc = options->cc;
    cfg.march = options->march;
    cfg.threads = (int32_t)options->threads;
    cfg.lanes = (int32_t)options->lanes;
    cfg.cancel = &cmd_interrupted;
    if (host_run_open(&target->run, &cfg, &error) != METATUNE_OK) {
        target->run.folder[0] = 0; /* it closed itself */
        cmd_target_close(target);
        /* a compiler or a cpu that is not there was asked for */
        return cmd_fail(options->cc || options->march || options->lanes
                            ? CMD_USAGE : CMD_FAILED, "%s", error.line);
    }
    target->march = target->run.platform.march;
    snprintf(target->march_name, sizeof target->march_name, "%s",
             options->march ? options->march : "native");
    if (!host_run_key(&target->run, target->key, sizeof target->key) ||
        host_run_probe(&target->run, &target->device, &target->peak_flops,
                       &error) != METATUNE_OK) {
        cmd_target_close(target);
        return cmd_fail(CMD_FAILED, "%s", error.line[0] ? error.line
                        : "the target's key is too long");
    }
    return CMD_OK;
}

void cmd_target_close(cmd_target *target)
{
    int32_t a;
    if (target->kind == CMD_TARGET_HOST && target->run.folder[0])
        host_run_close(&target->run);
    for (a = 0; a < HOST_ALGORITHMS; a++) {
        free(target->skeleton_mem[a]);
        target->skeleton_mem[a] = NULL;
    }
}

void cmd_target_peak(cmd_target *target)
{
    double peak = 0;
    host_error error;
    memset(&error, 0, sizeof error);
    if (target->kind == CMD_TARGET_HOST &&
        host_run_peak(&target->run, &peak, &error) == METATUNE_OK &&
        peak > target->peak_flops)
        target->peak_flops = peak;
}

int cmd_layer_open(cmd_layer *layer, cmd_target *target, const cmd_task *task)
{
    host_error error;
    metatune_status st;
    int32_t i;
    memset(layer, 0, sizeof *layer);
    memset(&error, 0, sizeof error);
    layer->task = task;
    layer->gflop = 1e-9 * metatune_encode_conv2d_flop(&task->conv);
    st = host_kernel_supports(&task->conv, error.line, sizeof error.line);
    if (st != METATUNE_OK)
        return cmd_fail(CMD_USAGE, "%s: %s", task->name, error.line);
    if (target->kind == CMD_TARGET_HOST) {
        st = host_layer_open(&layer->host, &target->run, &task->conv, 1,
                             &error);
        layer->naive_s = layer->host.naive_s;
    } else {
        st = host_kernel_init(&layer->host.kernel, &task->conv,
                              &target->march, error.line, sizeof error.line);
        layer->naive_s = layer->gflop / 1.0;
    }
    if (st != METATUNE_OK)
        return cmd_fail(CMD_FAILED, "%s: %s", task->name, error.line);
    for (i = 0; i < HOST_KNOBS; i++) {
        const host_knob *knob = &layer->host.kernel.knob[i];
        layer->knobs[i].name = knob->name;
        layer->knobs[i].values = knob->values;
        layer->knobs[i].labels = knob->labels;
        layer->knobs[i].n_values = knob->n_values;
    }
    host_kernel_default(&layer->host.kernel, layer->defaults);
    return CMD_OK;
}

void cmd_layer_close(cmd_layer *layer, const cmd_target *target)
{
    if (layer->task && target->kind == CMD_TARGET_HOST)
        host_layer_close(&layer->host);
    layer->task = NULL;
}

/* A bowl with its lowest point at a hash of the layer, between a fifth and
   nine tenths of the peak at best; +-3 % of noise by (setting, repeat). */
static void fake_measure(const cmd_layer *layer, const cmd_target *target,
                         const int64_t *values, uint32_t repeat,
                         host_result *r)
{
    uint16_t digits[HOST_KNOBS];
    uint64_t h, seed = metatune_encode_hash(7, layer->task->spec,
                                            strlen(layer->task->spec));
    double bowl = 0, noise, at, best;
    int32_t i;
    if (metatune_space_digits(layer->knobs, HOST_KNOBS, values, digits) !=
        METATUNE_OK) {
        r->status = METATUNE_CONSTRAINT;
        snprintf(r->error, sizeof r->error, "not in the space");
        return;
    }
    h = metatune_encode_hash_u64(seed,
                                 metatune_setting_hash(digits, HOST_KNOBS));
    r->build_s = 0.1;
    r->run_s = 0.01;
    if (target->kind == CMD_TARGET_FAIL ||
        (h % 16 == 0 &&
         memcmp(values, layer->defaults, sizeof layer->defaults) != 0)) {
        r->status = METATUNE_COMPILE;
        r->run_s = 0;
        snprintf(r->error, sizeof r->error, "fake: this setting fails");
        return;
    }
    for (i = 0; i < HOST_KNOBS; i++) {
        uint32_t n = layer->knobs[i].n_values;
        uint64_t k = metatune_encode_hash_u64(seed, (uint64_t)i);
        if (n < 2)
            continue;
        at = (double)digits[i] / (double)(n - 1) - (double)(k % 101) / 100;
        bowl += (0.2 + (double)(k / 101 % 16) / 10) * at * at;
    }
    h = metatune_encode_hash_u64(h, repeat);
    noise = 1 + 0.06 * ((double)(h % 1000) / 1000 - 0.5);
    best = layer->gflop * 1e9 / (0.9 * target->peak_flops);
    r->status = METATUNE_OK;
    r->time_s = best * (1 + bowl) * noise;
    r->sample[0] = r->time_s;
    r->n_samples = 1;
}

metatune_status cmd_layer_measure(cmd_layer *layer, cmd_target *target,
                                  const int64_t *values, int32_t n,
                                  uint32_t repeat, host_result *results)
{
    int32_t i;
    if (target->kind == CMD_TARGET_HOST)
        return host_run_measure(&target->run, &layer->host, values, n,
                                results);
    for (i = 0; i < n; i++) {
        memset(&results[i], 0, sizeof results[i]);
        results[i].status = METATUNE_NOT_RUN;
    }
    for (i = 0; i < n; i++) {
        if (cmd_interrupted)
            return METATUNE_CANCELLED;
        if (target->delay_ms > 0) {
            struct timespec ts;
            ts.tv_sec = target->delay_ms / 1000;
            ts.tv_nsec = target->delay_ms % 1000 * 1000000L;
            nanosleep(&ts, NULL);
        }
        fake_measure(layer, target, values + (size_t)i * HOST_KNOBS, repeat,
                     &results[i]);
    }
    return METATUNE_OK;
}
