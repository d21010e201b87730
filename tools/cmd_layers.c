/* cmd_layers.c - metatune layers: networks and their convolutions */
#include "cmd_util.h"

#include <stdio.h>

#include "nets.h"
#include "targets/host_kernel.h"

static int layers(int argc, char **argv)
{
    cmd_args args;
    const char *net = NULL;
    int32_t i, first = 0, n = nets_count();
    int st = CMD_OK, json = 0;
    cmd_args_init(&args, "layers", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (cmd_args_is(&args, "--net")) {
            st = cmd_args_text(&args, &net);
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
        char spec[256] = "", name[128];
        int can = host_kernel_supports(&layer->conv, NULL, 0) == METATUNE_OK;
        metatune_encode_conv2d_spec(&layer->conv, spec, sizeof spec);
        if (json) { /* names and specs have nothing to escape */
            printf("{\"net\":\"%s\",\"layer\":\"%s\",\"count\":%d,"
                   "\"flop\":%.0f,\"conv\":\"%s\",\"host\":%s}\n",
                   layer->net, layer->layer, (int)layer->count,
                   metatune_encode_conv2d_flop(&layer->conv), spec,
                   can ? "true" : "false");
            continue;
        }
        snprintf(name, sizeof name, "%s/%s", layer->net, layer->layer);
        printf("%-34s x%-2d %7.3f GFLOP  %s%s\n", name, layer->count,
               1e-9 * metatune_encode_conv2d_flop(&layer->conv), spec,
               can ? "" : "  (not on the host target yet)");
    }
    return CMD_OK;
}

const cmd_command cmd_layers = {
    "layers", "list networks and their convolution layers",
    "usage: metatune layers [--net NAME] [--json]\n"
    "\n"
    "One line a layer: NET/LAYER, how often the network runs that shape, its\n"
    "work, and its description as `--conv` takes it.\n"
    "\n"
    "  --net NAME   only this network\n"
    "  --json       one JSON object a line\n",
    layers
};
