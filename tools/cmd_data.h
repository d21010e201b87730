/* cmd_data.h - the file between `collect` and `train`

   Text, fields between tabs, every line ends with a field "." (a line without
   it was cut short and does not count).
     # metatune collect 2, space 0123456789abcdef
     L  spec  layer  lanes  vregs  threads  target key  device  knob,...  .
     R  value,value,...  OK  seconds  .
     R  value,value,...  COMPILE  -  .
   The first line names the space of settings (cmd_space_version): a file of
   another space is refused. R lines belong to the last L line. A layer may
   come in several parts. */
#ifndef METATUNE_CMD_DATA_H
#define METATUNE_CMD_DATA_H

#include "cmd_target.h"

/* The first line's text up to the space. */
#define CMD_DATA_FIRST "# metatune collect 2, space "

typedef struct data_row {
    int64_t values[HOST_KNOBS];
    metatune_status status;
    double time_s;               /* 0 unless OK */
} data_row;

/* All rows of one (spec, target). */
typedef struct data_group {
    char *layer, *spec, *target;
    metatune_encode_conv2d conv;
    metatune_encode_device device;
    host_march march;
    data_row *row;
    size_t n, cap;
} data_group;

typedef struct data_set {
    data_group *group;
    size_t n, cap;
    size_t n_bad;                /* lines that were cut or make no sense */
} data_set;

/* The first line of a new file, with its newline. */
enum { CMD_DATA_HEAD = sizeof CMD_DATA_FIRST + 17 };
void data_head(char head[CMD_DATA_HEAD]);
/* Add a file's lines: CMD_OK, or CMD_USAGE after one line. */
int data_read(data_set *set, const char *path);
void data_free(data_set *set);
data_group *data_find(const data_set *set, const char *spec,
                      const char *target);

#endif
