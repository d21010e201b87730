/* cmd_model.h - the model a command starts from */
#ifndef METATUNE_CMD_MODEL_H
#define METATUNE_CMD_MODEL_H

#include "cmd_util.h"

typedef struct cmd_model {
    metatune_model model;
    int present;                 /* 0: start from nothing */
    const char *name;            /* for people */
    char *blob;                  /* of a FILE, else NULL */
    void *mem;
} cmd_model;

/* what: NULL = the shipped prior (nothing when this build has none), "none",
   or a blob's file. CMD_OK, or CMD_USAGE after one line. */
int cmd_model_open(cmd_model *m, const char *what);
void cmd_model_close(cmd_model *m);

#endif
