/* 06_lookup.c - the idea: what was tuned goes into the product as a constant
   table, and a lookup says how good its answer is: exact, nearest, default or
   none. The settings of a near shape are checked against the constraints of
   the shape that is asked. No tuner, no file, no allocation, no start-up code.

   The table stands here as `metatune export LOG --format header` writes it,
   only without keys, so that it can be typed by hand. */
#include <stdio.h>

#define METATUNE_IMPLEMENTATION
#include "metatune.h"

#define TARGET "cortex-m7,fpu,gcc-12"

static const metatune_lookup_knob knobs[] = {{"channels_at_once", NULL, 0},
                                             {"columns_at_once", NULL, 0}};
static const int64_t values[][2] = {{8, 4}, {16, 2}, {4, 7}, {1, 1}};
/* n c h w k r s, strides, pads, dilations, groups, dtypes, layout, block,
   dtype of sums, fused; key; space; values; measured */
static const metatune_lookup_row rows[] = {
    {{1, 32, 28, 28, 32, 3, 3, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0}, 0, 0, values[0], 1.1e-3},
    {{1, 64, 14, 14, 64, 3, 3, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0}, 0, 0, values[1], 0.9e-3},
    {{1, 32, 28, 28, 64, 1, 1, 1, 1,
      0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0}, 0, 0, values[2], 0.4e-3}};
static const metatune_lookup_table table = {
    TARGET, METATUNE_SECONDS, knobs, 2, rows, 3, values[3]};

/* Of this kernel: the channels are taken in whole groups. */
static int valid(void *user, const metatune_lookup_table *t,
                 const metatune_encode_conv2d *conv, const int64_t *v)
{
    (void)user, (void)t;
    return conv->c % v[0] == 0;
}

int main(void)
{
    static const char *const which[] = {"none", "exact", "nearest",
                                        "default"};
    static const struct {
        const char *spec, *target;
        int want;
    } asked[] = {
        {"c=64,h=14,k=64,r=3,pad=1", TARGET, METATUNE_LOOKUP_EXACT},
        {"c=48,h=14,k=64,r=3,pad=1", TARGET, METATUNE_LOOKUP_NEAREST},
        {"c=40,h=14,k=64,r=3,pad=1", TARGET, METATUNE_LOOKUP_NEAREST},
        {"c=64,h=14,k=64,r=3,pad=1,stride=2", TARGET,
         METATUNE_LOOKUP_NEAREST},
        {"c=33,h=14,k=64,r=3,pad=1", TARGET, METATUNE_LOOKUP_DEFAULT},
        {"c=64,h=14,k=64,r=3,pad=1,in=i8", TARGET, METATUNE_LOOKUP_DEFAULT},
        {"c=64,h=14,k=64,r=3,pad=1", "riscv,v", METATUNE_LOOKUP_NONE}};
    metatune_error error;
    size_t i, wrong = 0;
    /* in a test of the product, not at every start */
    if (metatune_lookup_check(&table, &error)) {
        char line[120];
        metatune_encode_error_line(&error, line, sizeof line);
        fprintf(stderr, "%s\n", line);
        return 1;
    }
    printf("%-36s %-8s %5s %5s  %s\n", "asked", "answer", "ch", "cols",
           "why not exact");
    for (i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        metatune_encode_conv2d conv;
        metatune_lookup_result r;
        char why[120];
        if (metatune_encode_conv2d_parse(asked[i].spec, &conv, &error))
            return 1;
        /* a wrong target's row never slips in: flags would have to allow it */
        metatune_lookup_find(&table, asked[i].target, &conv, valid, NULL, 0,
                             &r);
        metatune_lookup_explain(&table, asked[i].target, &conv, why,
                                sizeof why);
        wrong += r.which != asked[i].want ||
                 (r.values && conv.c % r.values[0] != 0);
        if (r.values)
            printf("%-36s %-8s %5d %5d  %s\n", asked[i].spec, which[r.which],
                   (int)r.values[0], (int)r.values[1], why);
        else
            printf("%-36s %-8s %5s %5s  %s\n", asked[i].spec, which[r.which],
                   "-", "-", why);
    }
    return wrong != 0;
}
