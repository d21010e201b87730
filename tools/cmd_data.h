/* cmd_data.h - the file between `collect` and `train`

   Text, fields between tabs, every line ends with a field "." (a line without
   it was cut short and does not count).
     # metatune collect 3, space 0123456789abcdef
     L  spec  layer  lanes  vregs  threads  target key  device  knob,...  .
     C  seconds  seconds  n  .
     R  value,value,...  OK  seconds  mark  .
     R  value,value,...  COMPILE  -  mark  .
   The first line names the space of settings (cmd_space_version): a file of
   another space is refused. C and R lines belong to the last L line: C the
   times of the control kernel before and after a window, and which try it was
   (collect_window.h), then the window's rows. Marks: d the default setting,
   u drawn uniformly, g proposed by a tuner; x the machine drifted meanwhile,
   the row is left out by those who learn; t one of the fastest, measured again
   in alternation: its time replaces the row's. A layer may come in several
   parts. Version 2, without C lines and marks, is read, too. */
#ifndef METATUNE_CMD_DATA_H
#define METATUNE_CMD_DATA_H

#include "cmd_target.h"

/* The first line's text up to the space. */
#define CMD_DATA_FIRST "# metatune collect 3, space "

typedef struct data_row {
    int64_t values[HOST_KNOBS];
    metatune_status status;
    double time_s;               /* 0 unless OK; as if the control had taken
                                    its median over the layer's windows */
    double control_s;            /* mean of the window's two; 0 = unknown */
    char mark;                   /* 'd', 'u', 'g', 'x'; of version 2: 'u' */
} data_row;

/* All rows of one (spec, target). */
typedef struct data_group {
    char *layer, *spec, *target;
    metatune_encode_conv2d conv;
    metatune_encode_device device;
    host_march march;
    data_row *row;
    size_t n, cap;
    size_t n_again;              /* rows that were measured again */
    double control_s;            /* of the window that is read */
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
/* The row of a setting, or NULL; group may be NULL. */
data_row *data_row_find(const data_group *group, const int64_t *values);
data_group *data_find(const data_set *set, const char *spec,
                      const char *target);

#endif
