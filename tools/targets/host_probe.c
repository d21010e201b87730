/* host_probe.c - what this machine can do; see host_run.h */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1
#include "host_proc.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Loops that the probe times; built like a kernel, so that -march, compiler
   and vector width are the kernels' own. */
static const char host_probe_source[] =
    "typedef float v __attribute__((vector_size(4 * LANES), aligned(4),\n"
    "    may_alias));\n"
    "#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) "
    "M(10) M(11)\n"
    "#define HIDE(x) __asm__ volatile(\"\" : \"+r\"(x))\n"
    "float probe_fma(long n) {\n"
    "    volatile float one = 0.999f, tiny = 0.001f;\n"
    "    v z = { 0 }, b = z + one, c = z + tiny;\n"
    "#define M(i) v a##i = z + (float)i;\n"
    "    EACH(M)\n"
    "#undef M\n"
    "    while (n-- > 0) {\n"
    "#define M(i) a##i = a##i * b + c;\n"
    "        EACH(M)\n"
    "#undef M\n"
    "    }\n"
    "#define M(i) z += a##i;\n"
    "    EACH(M)\n"
    "#undef M\n"
    "    return z[0];\n"
    "}\n"
    "float probe_chain(long n) {\n"
    "    volatile float one = 0.999f, tiny = 0.001f;\n"
    "    v z = { 0 }, b = z + one, c = z + tiny, a = z;\n"
    "    while (n-- > 0) a = a * b + c;\n"
    "    return a[0];\n"
    "}\n"
    "float probe_cycle(long n) {\n"
    "    unsigned long x = (unsigned long)n, k = x | 5;\n"
    "    for (n /= 8; n > 0; n--) {\n"
    "        x ^= k; HIDE(x); x ^= k; HIDE(x); x ^= k; HIDE(x); x ^= k;\n"
    "        HIDE(x); x ^= k; HIDE(x); x ^= k; HIDE(x); x ^= k; HIDE(x);\n"
    "        x ^= k; HIDE(x);\n"
    "    }\n"
    "    return (float)(x & 255);\n"
    "}\n"
    "float probe_read(const float *p, long n, long reps) {\n"
    "    v z = { 0 };\n"
    "    long i;\n"
    "#define M(i) v a##i = z;\n"
    "    EACH(M)\n"
    "#undef M\n"
    "    while (reps-- > 0)\n"
    "        for (i = 0; i < n; i += 12 * LANES) {\n"
    "#define M(j) a##j += *(const v *)(p + i + j * LANES);\n"
    "            EACH(M)\n"
    "#undef M\n"
    "        }\n"
    "#define M(i) z += a##i;\n"
    "    EACH(M)\n"
    "#undef M\n"
    "    return z[0];\n"
    "}\n"
    "float probe_stride(const float *p, long n, long step, long reps) {\n"
    "    float a = 0, b = 0, c = 0, d = 0;\n"
    "    long i;\n"
    "    while (reps-- > 0)\n"
    "        for (i = 0; i + 3 * step < n; i += 4 * step) {\n"
    "            a += p[i]; b += p[i + step]; c += p[i + 2 * step];\n"
    "            d += p[i + 3 * step];\n"
    "        }\n"
    "    return a + b + c + d;\n"
    "}\n";

enum { HOST_BIG = 1 << 24 };     /* floats of the DRAM probe: 64 MB */

typedef struct host_probe_job {
    const char *so;
    int32_t lanes;
    int all;                     /* 0: the peak alone */
    double l1_bytes, l2_bytes;
} host_probe_job;

/* Times in the message's samples: FLOP/s, cycles/s, chain s, L1, L2, DRAM
   bytes/s, strided accesses/s. */
static void host_probe_body(void *user, host_message *message)
{
    const host_probe_job *job = (const host_probe_job *)user;
    void *library = dlopen(job->so, RTLD_NOW | RTLD_LOCAL);
    float (*fma)(long), (*chain)(long), (*cycle)(long);
    float (*feed)(const float *, long, long);
    float (*stride)(const float *, long, long, long);
    double *out = message->sample, t, rate, l2 = job->l2_bytes;
    volatile float sink;
    long n, reps, block = 12L * job->lanes;
    int round, rounds = job->all ? 8 : 6;
    float *big = NULL;
    void *mem = NULL;

    message->status = METATUNE_RUNTIME;
    if (!library || host_symbol(library, "probe_fma", &fma, sizeof fma) ||
        host_symbol(library, "probe_chain", &chain, sizeof chain) ||
        host_symbol(library, "probe_cycle", &cycle, sizeof cycle) ||
        host_symbol(library, "probe_read", &feed, sizeof feed) ||
        host_symbol(library, "probe_stride", &stride, sizeof stride)) {
        const char *text = dlerror();
        host_say(message->error, "cannot load the probe: %.120s (may "
                 "programs be in that folder? else set TMPDIR)",
                 text ? text : "?");
        return;
    }
    if (job->all) {
        if (posix_memalign(&mem, 4096, HOST_BIG * sizeof(float))) {
            host_say(message->error, "out of memory for the probe");
            return;
        }
        big = (float *)mem;
        memset(big, 0, HOST_BIG * sizeof(float));
        if (!(l2 > 0)) l2 = 262144;
    }
    sink = fma(1000) + chain(1000) + cycle(1000);
#define HOST_BEST(i, work, call)                                             \
    do {                                                                     \
        t = host_now();                                                      \
        sink += (call);                                                      \
        t = host_now() - t;                                                  \
        rate = t > 0 ? (work) / t : 0;                                       \
        if (rate > out[i]) out[i] = rate;                                    \
    } while (0)
    for (round = 0; round < rounds; round++) {
        n = 300000;
        HOST_BEST(0, 24.0 * job->lanes * (double)n, fma(n));
        if (!job->all) continue;
        n = 4000000;
        HOST_BEST(1, (double)n, cycle(n));
        n = 500000;
        HOST_BEST(2, (double)n, chain(n));
        n = 4096 / block * block;
        reps = 4000;
        HOST_BEST(3, 4.0 * (double)n * (double)reps, feed(big, n, reps));
        n = (long)(l2 / 2 / 4) / block * block;
        if (n > HOST_BIG) n = HOST_BIG;
        if (n < block) n = block;
        reps = 1 + (1L << 22) / n;
        HOST_BEST(4, 4.0 * (double)n * (double)reps, feed(big, n, reps));
        if (round < 4)
            HOST_BEST(5, 4.0 * (double)(HOST_BIG / block * block),
                      feed(big, HOST_BIG / block * block, 1));
        reps = 1 + (1L << 24) / n;
        HOST_BEST(6, floor((double)n / 64) * (double)reps,
                  stride(big, n, 64, reps));
    }
#undef HOST_BEST
    (void)sink;
    free(mem);
    message->status = METATUNE_OK;
}

static metatune_status host_probe_run(host_run *run, host_probe_job *job,
                                      host_message *message,
                                      host_error *error)
{
    char source[sizeof host_probe_source + 64], so[HOST_PATH_BYTES];
    host_result result;

    snprintf(source, sizeof source, "#define LANES %d\n%s",
             (int)run->platform.march.lanes, host_probe_source);
    if (host_run_build(run, source, so, sizeof so, &result) != METATUNE_OK)
        return host_fail(error, result.status, result.error);
    job->so = so;
    job->lanes = run->platform.march.lanes;
    host_child_run(run, host_probe_body, job, run->cfg.run_s,
                   4.0 * HOST_BIG, 1, message);
    if (message->status != METATUNE_OK)
        return host_fail(error, (metatune_status)message->status,
                         message->error);
    return METATUNE_OK;
}

metatune_status host_run_peak(host_run *run, double *peak_flops,
                              host_error *error)
{
    host_probe_job job;
    host_message message;
    metatune_status status;

    memset(&job, 0, sizeof job);
    status = host_probe_run(run, &job, &message, error);
    if (status == METATUNE_OK) *peak_flops = message.sample[0];
    return status;
}

/* First number in a small file of the system, K, M understood; 0: none. */
static double host_sys_number(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long value = 0;
    char unit = 0;
    int n;

    if (!file) return 0;
    n = fscanf(file, "%lu%c", &value, &unit);
    fclose(file);
    if (n < 1) return 0;
    return (double)value * (unit == 'K' ? 1024.0
                            : unit == 'M' ? 1048576.0 : 1.0);
}

static void host_caches(metatune_encode_device *device)
{
    char path[128], type[32];
    int i;

    for (i = 0; i < 8; i++) {
        double level, bytes;
        FILE *file;
        snprintf(path, sizeof path,
                 "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        file = fopen(path, "r");
        if (!file) break;
        type[0] = 0;
        if (fscanf(file, "%31s", type) != 1) type[0] = 0;
        fclose(file);
        if (strcmp(type, "Instruction") == 0) continue;
        snprintf(path, sizeof path,
                 "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        level = host_sys_number(path);
        snprintf(path, sizeof path,
                 "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        bytes = host_sys_number(path);
        if (level < 1.5)
            device->l1_bytes = bytes;
        else if (level < 2.5)
            device->l2_bytes = bytes;
        else
            device->l3_bytes = bytes;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/"
                 "index%d/coherency_line_size", i);
        if (!device->line_bytes)
            device->line_bytes = (int32_t)host_sys_number(path);
    }
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (!(device->l1_bytes > 0) && sysconf(_SC_LEVEL1_DCACHE_SIZE) > 0)
        device->l1_bytes = (double)sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (!(device->l2_bytes > 0) && sysconf(_SC_LEVEL2_CACHE_SIZE) > 0)
        device->l2_bytes = (double)sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (!(device->l3_bytes > 0) && sysconf(_SC_LEVEL3_CACHE_SIZE) > 0)
        device->l3_bytes = (double)sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
}

static double host_log2_ratio(double measured, double nominal)
{
    return measured > 0 && nominal > 0 ? log(measured / nominal) / log(2.0)
                                       : 0;
}

metatune_status host_run_probe(host_run *run, metatune_encode_device *device,
                               double *peak_flops, host_error *error)
{
    host_probe_job job;
    host_message message;
    const double *m = message.sample;
    double hz, lanes = run->platform.march.lanes;
    metatune_status status;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    memset(device, 0, sizeof *device);
    device->size = (uint32_t)sizeof *device;
    device->cores = cores > 0 ? (int32_t)cores : 0;
    device->lanes = run->platform.march.lanes;
    device->vregs = run->platform.march.vregs;
    if (pages > 0 && page > 0)
        device->ram_bytes = (double)pages * (double)page;
    host_caches(device);
    memset(&job, 0, sizeof job);
    job.all = 1;
    job.l1_bytes = device->l1_bytes;
    job.l2_bytes = device->l2_bytes;
    status = host_probe_run(run, &job, &message, error);
    if (status != METATUNE_OK) return status;
    if (peak_flops) *peak_flops = m[0];
    hz = m[1];                   /* one exclusive-or is one cycle */
    device->freq_hz = hz;
    device->bandwidth = m[5];
    device->probe[0] = host_log2_ratio(m[0], 4 * lanes * hz);
    device->probe[1] = host_log2_ratio(m[3], 8 * lanes * hz);
    device->probe[2] = host_log2_ratio(m[4], 32 * hz);
    device->probe[3] = host_log2_ratio(m[5], 1e10);
    device->probe[4] = host_log2_ratio(hz / m[2], 4);
    device->probe[5] = host_log2_ratio(m[6], hz);
    return METATUNE_OK;
}

