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

/* A model's last bytes name the space of settings it was trained on: "MTSP"
   and cmd_space_version, little-endian. metatune_blob_load does not mind. */
enum { CMD_MODEL_TAIL = 12 };
void cmd_model_tail(unsigned char tail[CMD_MODEL_TAIL]);

/* what: NULL = the shipped prior (nothing when this build has none), "none",
   or a blob's file. CMD_OK, or CMD_USAGE after one line: damaged, of other
   features, or of another space of settings. */
int cmd_model_open(cmd_model *m, const char *what);
void cmd_model_close(cmd_model *m);

#endif
