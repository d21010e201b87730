/* test_export.c - exported kernels, every algorithm: built by the compilers
   that are here without a warning, and right (tests/use_conv.c)

   CC names the compiler (cc); clang is tried, too, and named when it is not
   there. */
#define _POSIX_C_SOURCE 200809L
#define METATUNE_IMPLEMENTATION
#include "cmd_util.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "export_conv.h"

enum { LAYERS_CAP = 128 };

static char folder[256];

/* Shapes of every class; the layouts each is exported on, as letters. */
static const struct {
    const char *spec, *layouts;
} shapes[] = {
    { "c=3,h=11,w=9,k=20,r=3,stride=2,pad=1", "bpn" },   /* first layer */
    { "n=2,c=33,h=9,w=12,k=21,r=3,pad=1", "bpn" },       /* odd channels */
    { "c=32,h=14,k=48,r=3,pad=1", "b" },
    { "c=40,h=7,k=24,r=1", "bpn" },
    { "c=17,h=8,k=35,r=1,stride=2", "bp" },
    { "c=18,h=10,k=18,r=3,pad=1,groups=18", "bpn" },     /* depthwise */
    { "c=16,h=9,k=16,r=5,stride=2,pad=2,dil=1,groups=16", "b" },
    { "c=12,h=6,k=20,r=3,pad=1,groups=4", "bpn" },
    { "c=5,h=9,w=7,k=6,r=3,s=2,dil=2,pad_top=1,pad_bottom=0,pad_left=2,"
      "pad_right=1", "bp" },
    { "c=24,h=6,k=33,r=3,pad=1,in=i8,out=i32,acc=i32", "bpn" },
    { "c=24,h=6,k=40,r=1,in=i8,out=i32,acc=i32", "bn" },
    { "c=20,h=6,k=20,r=3,pad=1,groups=20,in=i8,out=i32,acc=i32", "bp" },
};

/* A setting of each algorithm that suits each shape on each layout: how many
   layers; counts says how many of each algorithm. */
static size_t layers_make(export_layer *layers, char (*names)[32],
                          const host_march *march, int *counts)
{
    host_kernel *kernel = (host_kernel *)malloc(sizeof *kernel);
    metatune_encode_rng rng;
    size_t n = 0, i;
    const char *l;
    metatune_encode_rng_init(&rng, 1, 0);
    memset(counts, 0, HOST_ALGORITHMS * sizeof *counts);
    for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (l = shapes[i].layouts; *l; l++) {
            metatune_encode_conv2d conv;
            char why[256] = "";
            uint32_t a;
            CHECK_INT(metatune_encode_conv2d_parse(shapes[i].spec, &conv,
                                                   NULL), METATUNE_OK);
            conv.layout = *l == 'b' ? METATUNE_NCHWC
                        : *l == 'p' ? METATUNE_NCHW : METATUNE_NHWC;
            conv.block = *l == 'b' ? march->lanes : 0;
            if (host_kernel_init(kernel, &conv, march, why, sizeof why) !=
                METATUNE_OK) {
                printf("    %s: %s\n", shapes[i].spec, why);
                CHECK(0);
                continue;
            }
            for (a = 0; a < kernel->knob[0].n_values; a++) {
                export_layer *e = &layers[n];
                int k, good = 0, tries;
                memset(e, 0, sizeof *e);
                for (tries = 0; !good && tries < 100; tries++) {
                    e->values[0] = kernel->knob[0].values[a];
                    for (k = 1; k < HOST_KNOBS; k++)
                        e->values[k] = kernel->knob[k].values[
                            metatune_encode_rng_below(
                                &rng, kernel->knob[k].n_values)];
                    good = host_kernel_repair(kernel, e->values);
                }
                CHECK(good);
                CHECK(n < LAYERS_CAP);
                if (!good || n >= LAYERS_CAP)
                    continue;
                snprintf(names[n], sizeof names[n], "s%d/%c.%s", (int)i, *l,
                         host_algorithm_name((int32_t)e->values[0]));
                e->name = names[n];
                e->conv = conv;
                counts[e->values[0]]++;
                n++;
            }
        }
    free(kernel);
    return n;
}

/* Run a shell line; its last line of output into `last`. The status. */
static int shell(const char *line, char *last, size_t cap)
{
    char buf[512];
    int shown = 0;
    FILE *pipe = popen(line, "r");
    last[0] = 0;
    if (!pipe)
        return -1;
    while (fgets(buf, sizeof buf, pipe)) {
        if (shown < 12 && (strstr(buf, "WRONG") || strstr(buf, "warning") ||
                           strstr(buf, "error") || strstr(buf, "ERROR")))
            shown += printf("    %s", buf) > 0;
        snprintf(last, cap, "%s", buf);
    }
    return pclose(pipe);
}

static void build_and_run(const char *cc, const char *flags, size_t n)
{
    char line[2048], last[512], want[64];
    int st;
    snprintf(line, sizeof line, "cd '%s' && %s %s -Wall -Wextra -Werror -c "
             "tuned_conv.c -o t.o 2>&1", folder, cc, flags);
    st = shell(line, last, sizeof last);
    CHECK_INT(st, 0);
    if (st != 0)
        return;
    snprintf(line, sizeof line, "%s -std=c99 -O1 -I'%s' tests/use_conv.c "
             "'%s/t.o' -lm -o '%s/use' 2>&1 && '%s/use' 2>&1", cc, folder,
             folder, folder, folder);
    st = shell(line, last, sizeof last);
    snprintf(want, sizeof want, "layers %d wrong 0\n", (int)n);
    CHECK_STR(last, want);
}

/* compilers: bit 0 for CC, bit 1 for clang. */
static void exported(const host_march *march, const char *flags,
                     int compilers)
{
    export_layer *layers = (export_layer *)calloc(LAYERS_CAP, sizeof *layers);
    char (*names)[32] = (char (*)[32])calloc(LAYERS_CAP, sizeof *names);
    char path[512] = "", line[256], last[512];
    int counts[HOST_ALGORITHMS], i;
    size_t n = layers_make(layers, names, march, counts);
    for (i = 0; i < HOST_ALGORITHMS; i++)
        CHECK(counts[i] > 0);
    CHECK_INT(export_conv_write(folder, layers, n, march, "a */ target",
                                flags, path, sizeof path), 0);
    for (i = 0; i < 2; i++) {
        const char *cc = i ? "clang" : getenv("CC");
        if (!(compilers >> i & 1))
            continue;
        cc = cc && cc[0] ? cc : "cc";
        snprintf(line, sizeof line, "command -v %s", cc);
        if (shell(line, last, sizeof last) != 0) {
            printf("    without %s: not installed\n", cc);
            continue;
        }
        build_and_run(cc, flags, n);
    }
    free(layers);
    free(names);
}

static void test_vectors(void)
{
    static const host_march march = { 16, 32, 2 };
    exported(&march, "-O1 -std=gnu99 -Wno-psabi", 3);
}

static void test_narrow(void)
{
    static const host_march march = { 4, 16, 1 };
    exported(&march, "-O1 -std=gnu99", 2);
}

static void test_plain_c(void)
{
    static const host_march march = { 1, 16, 3 };
    exported(&march, "-O1 -std=c99 -Wpedantic", 1);
}

int main(void)
{
    char line[300];
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/metatune-export.XXXXXX",
             tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return 2;
    RUN(test_vectors);
    RUN(test_narrow);
    RUN(test_plain_c);
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    if (system(line) != 0)
        printf("    %s is left\n", folder);
    return check_report("test_export");
}
