/* cmd_layers.c - metatune layers: networks and their convolutions */
#include "cmd_util.h"

#include <stdio.h>
#include <stdlib.h>

#include "nets.h"
#include "targets/host_kernel.h"

enum { LAYERS_LANES = 16 };      /* algorithms suit any width alike */

/* The algorithms that suit a layer, "direct,wino2"; quoted for JSON. Or why
   there is none: 0. */
static int algorithms(const metatune_encode_conv2d *plain,
                      const cmd_form *form, int json, char *buf, size_t cap)
{
    static const host_march march = { LAYERS_LANES, 32, 1 };
    host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
    metatune_encode_conv2d conv = *plain;
    const host_knob *knob = &kernel->knob[HOST_KNOB_ALGORITHM];
    size_t n = 0;
    uint32_t i;
    int can;
    conv.layout = form->layout;
    conv.block = form->layout == METATUNE_NCHWC ? LAYERS_LANES : 0;
    if (form->dtype == METATUNE_I8) {
        conv.dtype_in = METATUNE_I8;
        conv.dtype_out = conv.dtype_acc = METATUNE_I32;
    }
    can = host_kernel_init(kernel, &conv, &march, buf, cap) == METATUNE_OK;
    for (i = 0; can && i < knob->n_values && n < cap; i++)
        n += (size_t)snprintf(buf + n, cap - n, json ? "%s\"%s\"" : "%s%s",
                              i ? "," : "",
                              host_algorithm_name((int32_t)knob->values[i]));
    free(kernel);
    return can;
}

static int layers(int argc, char **argv)
{
    cmd_args args;
    cmd_form form = { METATUNE_NCHWC, METATUNE_F32 };
    const char *net = NULL;
    int32_t i, first = 0, n = nets_count();
    int st = CMD_OK, json = 0;
    cmd_args_init(&args, "layers", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (cmd_args_is(&args, "--net")) {
            st = cmd_args_text(&args, &net);
        } else if (cmd_form_option(&args, &form, &st)) {
            ;
        } else if (cmd_args_is(&args, "--json")) {
            st = cmd_args_flag(&args);
            json = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st != CMD_OK)
        return st;
    if (net) {
        char why[256] = "";
        n = nets_net_find(net, &first, why, sizeof why);
        if (n <= 0)
            return cmd_fail(CMD_USAGE, "%s", why);
    }
    for (i = first; i < first + n; i++) {
        const nets_layer *layer = nets_get(i);
        char spec[256] = "", name[128], which[256] = "";
        int can = algorithms(&layer->conv, &form, json, which, sizeof which);
        metatune_encode_conv2d_spec(&layer->conv, spec, sizeof spec);
        if (json) { /* names and specs have nothing to escape */
            printf("{\"net\":\"%s\",\"layer\":\"%s\",\"count\":%d,"
                   "\"flop\":%.0f,\"conv\":\"%s\",\"host\":%s,"
                   "\"algorithms\":[%s]}\n",
                   layer->net, layer->layer, (int)layer->count,
                   metatune_encode_conv2d_flop(&layer->conv), spec,
                   can ? "true" : "false", can ? which : "");
            continue;
        }
        snprintf(name, sizeof name, "%s/%s", layer->net, layer->layer);
        printf("%-38s x%-2d %7.3f GFLOP  %s  %s%s\n", name, layer->count,
               1e-9 * metatune_encode_conv2d_flop(&layer->conv), spec,
               can ? "" : "not supported: ", which);
    }
    return CMD_OK;
}

const cmd_command cmd_layers = {
    "layers", "list networks and their convolution layers",
    "usage: metatune layers [--net NAME] [--layout L] [--dtype T] [--json]\n"
    "\n"
    "One line a layer: NET/LAYER, how often the network runs that shape, its\n"
    "work, its description as `--conv` takes it, and the algorithms that\n"
    "`metatune tune` chooses from, or why the layer is not supported.\n"
    "\n"
    "  --net NAME   only this network\n"
    "  --layout L   nchwc, nchw or nhwc, as in `metatune tune` (nchwc)\n"
    "  --dtype T    f32 or i8 (f32)\n"
    "  --json       one JSON object a line\n",
    layers
};
