/* cmd_model.c - see cmd_model.h */
#define _POSIX_C_SOURCE 200809L

#include "cmd_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* written by `make prior` */
#ifdef METATUNE_HAVE_PRIOR
#include "examples/pretrained/metatune_prior_host.h"
#endif

static int load(cmd_model *m, const void *blob, size_t bytes)
{
    metatune_error error;
    metatune_status st;
    size_t need = metatune_blob_memsize(blob, bytes);
    memset(&error, 0, sizeof error);
    if (need == SIZE_MAX)
        need = 0; /* not a blob: loading says so */
    m->mem = cmd_alloc(need);
    st = metatune_blob_load(&m->model, blob, bytes, m->mem, need, &error);
    if (st == METATUNE_OK) {
        m->present = 1;
        return CMD_OK;
    }
    if (st == METATUNE_BAD_SCHEMA)
        return cmd_fail(CMD_USAGE, "model %s: BAD_SCHEMA: it was made for "
                        "other features than schema %u; train it again or "
                        "use --model none", m->name, METATUNE_ENCODE_SCHEMA);
    if (st == METATUNE_BAD_BLOB)
        return cmd_fail(CMD_USAGE, "model %s: BAD_BLOB: torn, corrupted or "
                        "not a model (%zu bytes); train it again or use "
                        "--model none", m->name, bytes);
    return cmd_fail(CMD_USAGE, "model %s: %s: %s", m->name,
                    metatune_encode_status_name(st),
                    metatune_encode_status_text(st));
}

int cmd_model_open(cmd_model *m, const char *what)
{
    size_t n = 0;
    memset(m, 0, sizeof *m);
    m->name = "none";
    if (what && strcmp(what, "none") == 0)
        return CMD_OK;
    if (what) {
        m->name = what;
        m->blob = cmd_file_read(what, &n);
        if (!m->blob)
            return cmd_fail(CMD_USAGE, "cannot read the model %s: %s", what,
                            strerror(errno));
        return load(m, m->blob, n);
    }
#ifdef METATUNE_HAVE_PRIOR
    m->name = "shipped prior";
    return load(m, metatune_prior_host, METATUNE_PRIOR_HOST_BYTES);
#else
    return CMD_OK;
#endif
}

void cmd_model_close(cmd_model *m)
{
    free(m->mem);
    free(m->blob);
    memset(m, 0, sizeof *m);
}
