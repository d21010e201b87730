/* host_target.h - the CPU that runs the tuner as a tuning target

   How a command uses it:
     host_run run; host_layer layer; host_error err;
     if (host_run_open(&run, NULL, &err)) { puts(err.line); ... }
     host_run_probe(&run, &device, &peak_flops, &err);
     host_layer_open(&layer, &run, &nets_find("resnet18/layer1", ...)->conv,
                     seed, &err);
     space     from layer.kernel.knob[0..n_knobs-1]
     valid     host_kernel_valid(&layer.kernel, values)
     describe  host_kernel_nest_begin once, host_kernel_describe per setting
     measure   host_run_measure(&run, &layer, values, n, results)
     export    host_kernel_emit, host_kernel_emit_pack
     host_layer_close(&layer);
     host_run_close(&run);                    also after SIGINT */
#ifndef METATUNE_HOST_TARGET_H
#define METATUNE_HOST_TARGET_H

#include "../nets.h"
#include "host_kernel.h"
#include "host_run.h"

#endif
