/* cmd_model.c - see cmd_model.h */
#define _POSIX_C_SOURCE 200809L

#include "cmd_model.h"

#include "cmd_target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* written by `make prior` */
#ifdef METATUNE_HAVE_PRIOR
#include "examples/pretrained/metatune_prior_host.h"
#endif

void cmd_model_tail(unsigned char tail[CMD_MODEL_TAIL])
{
    uint64_t space = cmd_space_version();
    int i;
    memcpy(tail, "MTSP", 4);
    for (i = 0; i < 8; i++)
        tail[4 + i] = (unsigned char)(space >> (8 * i) & 255);
}

static int tail_check(const cmd_model *m, const unsigned char *blob,
                      size_t bytes)
{
    unsigned char want[CMD_MODEL_TAIL];
    const unsigned char *tail = blob + bytes - CMD_MODEL_TAIL;
    uint64_t space = 0;
    int i;
    cmd_model_tail(want);
    if (memcmp(tail, want, sizeof want) == 0)
        return CMD_OK;
    if (memcmp(tail, want, 4) != 0)
        return cmd_fail(CMD_USAGE, "model %s: it does not say which space of "
                        "settings it was trained on; train it again or use "
                        "--model none", m->name);
    for (i = 0; i < 8; i++)
        space |= (uint64_t)tail[4 + i] << (8 * i);
    return cmd_fail(CMD_USAGE, "model %s: it was trained on settings of space "
                    "%016llx, this program's are of %016llx; train it again "
                    "or use --model none", m->name,
                    (unsigned long long)space,
                    (unsigned long long)cmd_space_version());
}

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
        return tail_check(m, (const unsigned char *)blob, bytes);
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
