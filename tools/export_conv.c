/* export_conv.c - see export_conv.h */
#define _POSIX_C_SOURCE 200809L

#include "export_conv.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd_util.h"

enum { EXPORT_NAME = 64 };

/* A C identifier of a layer's name that none of the earlier ones has. */
static void identifier(char (*ids)[EXPORT_NAME], size_t i, const char *name)
{
    size_t j, n = 0, tries = 0;
    char *id = ids[i];
    for (; *name && n < EXPORT_NAME - 16; name++)
        id[n++] = isalnum((unsigned char)*name) ? *name : '_';
    id[n] = 0;
    for (j = 0; j < i; j++)
        if (strcasecmp(ids[j], id) == 0) { /* macros are in capitals */
            snprintf(id + n, EXPORT_NAME - n, "_%zu", ++tries + 1);
            j = (size_t)-1;
        }
}

/* Comments end where this text must not. */
static void comment_safe(char *to, size_t cap, const char *from)
{
    size_t n = 0;
    for (; *from && n + 1 < cap; from++) {
        int closes = *from == '/' && n && to[n - 1] == '*';
        to[n] = closes ? '_' : *from;
        if (*from == '\n' || *from == '\r')
            to[n] = ' ';
        n++;
    }
    to[n] = 0;
}

/* Neither comments nor strings end in a name. */
static void text_safe(char *to, size_t cap, const char *from)
{
    comment_safe(to, cap, from);
    for (; *to; to++)
        if (*to == '"' || *to == '\\' || *to == '?')
            *to = '_';
}

static const char head_h[] =
    "   T and O below are a layer's values in and out: float and float, or\n"
    "   signed char and int. Each layer NAME has\n"
    "     tuned_conv_NAME(in, w, out, work)\n"
    "         the kernel. `in` and `out` are in the layer's layout, which its\n"
    "         comment gives; `w` is packed by tuned_conv_NAME_pack_weight,\n"
    "         once for all calls; work is scratch, NULL when it has 0 bytes.\n"
    "     TUNED_CONV_NAME_{IN,WEIGHT,OUT,WORK}_BYTES\n"
    "         their sizes. Blocks of 64-byte alignment are fastest; any block\n"
    "         that may hold a T or O works.\n"
    "     tuned_conv_NAME_pack_in(nchw, in), _unpack_out(out, nchw)\n"
    "         from (N,C,H,W), to (N,K,OH,OW). In a network the kernels hand\n"
    "         each other their tensors as they are.\n"
    "     tuned_conv_NAME_part(in, w, out, work, phase, part, parts)\n"
    "         the same for threads. All do phase 0, each its own part of\n"
    "         `parts`, wait for each other, do phase 1, and so on:\n"
    "           for (phase = 0; phase < TUNED_CONV_NAME_PHASES; phase++) {\n"
    "               tuned_conv_NAME_part(in, w, out, work, phase, me, 2);\n"
    "               barrier();\n"
    "           }\n"
    "         in, w, out and work are the same for all; parts is 1 or at most\n"
    "         TUNED_CONV_THREADS.\n"
    "     tuned_conv_NAME_nchw(nchw, kcrs, result, mem, bytes)\n"
    "         one call on plain tensors: in (N,C,H,W), weights (K,C/groups,R,\n"
    "         S), out (N,K,OH,OW). mem is the caller's, of at least\n"
    "         tuned_conv_NAME_workspace() bytes; 0 = done, -1 = mem is NULL\n"
    "         or too small. It packs on every call: for speed pack weights\n"
    "         once and keep activations in the layers' layout.\n"
    "   and by the layer's name as a string, all pointers void *\n"
    "     tuned_conv_find(\"net/layer\")   a tuned_conv_layer, NULL = none\n"
    "     tuned_conv_run(\"net/layer\", nchw, kcrs, result, mem, bytes)\n"
    "         -2 = no such layer\n"
    "     tuned_conv_workspace(\"net/layer\")   bytes, 0 = no such layer\n"
    "     tuned_conv_count(), tuned_conv_name(i), tuned_conv_spec(i)\n"
    "   Nothing allocates; no state is kept; threads may share all of it but\n"
    "   what is written.\n"
    "*/\n"
    "#ifndef TUNED_CONV_H\n"
    "#define TUNED_CONV_H\n"
    "\n"
    "#include <stddef.h>\n"
    "\n"
    "#ifdef __cplusplus\n"
    "extern \"C\" {\n"
    "#endif\n"
    "\n";

static const char tail_h[] =
    "typedef struct tuned_conv_layer {\n"
    "    const char *name, *spec;\n"
    "    size_t in_bytes, weight_bytes, out_bytes, work_bytes;\n"
    "    size_t workspace;            /* of nchw */\n"
    "    int phases;\n"
    "    void (*run)(const void *in, const void *w, void *out, void *work);\n"
    "    void (*part)(const void *in, const void *w, void *out, void *work,\n"
    "                 int phase, int part, int parts);\n"
    "    void (*pack_in)(const void *nchw, void *in);\n"
    "    void (*pack_weight)(const void *kcrs, void *w);\n"
    "    void (*unpack_out)(const void *out, void *nchw);\n"
    "    int (*nchw)(const void *nchw, const void *kcrs, void *result,\n"
    "                void *mem, size_t bytes);\n"
    "} tuned_conv_layer;\n"
    "const tuned_conv_layer *tuned_conv_find(const char *layer);\n"
    "int tuned_conv_run(const char *layer, const void *nchw,\n"
    "                   const void *kcrs, void *result, void *mem,\n"
    "                   size_t bytes);\n"
    "size_t tuned_conv_workspace(const char *layer);\n"
    "int tuned_conv_count(void);\n"
    "const char *tuned_conv_name(int i);\n"
    "const char *tuned_conv_spec(int i);\n"
    "\n"
    "#ifdef __cplusplus\n"
    "}\n"
    "#endif\n"
    "#endif\n";

static const char tail_c[] =
    "const tuned_conv_layer *tuned_conv_find(const char *layer)\n"
    "{\n"
    "    int i;\n"
    "    for (i = 0; layer && i < tuned_conv_count(); i++)\n"
    "        if (strcmp(tuned_conv_table[i].name, layer) == 0)\n"
    "            return &tuned_conv_table[i];\n"
    "    return NULL;\n"
    "}\n"
    "\n"
    "int tuned_conv_run(const char *layer, const void *nchw,\n"
    "                   const void *kcrs, void *result, void *mem,\n"
    "                   size_t bytes)\n"
    "{\n"
    "    const tuned_conv_layer *l = tuned_conv_find(layer);\n"
    "    return l ? l->nchw(nchw, kcrs, result, mem, bytes) : -2;\n"
    "}\n"
    "\n"
    "size_t tuned_conv_workspace(const char *layer)\n"
    "{\n"
    "    const tuned_conv_layer *l = tuned_conv_find(layer);\n"
    "    return l ? l->workspace : 0;\n"
    "}\n"
    "\n"
    "const char *tuned_conv_name(int i)\n"
    "{\n"
    "    return i < 0 || i >= tuned_conv_count() ? NULL\n"
    "                                            : tuned_conv_table[i].name;\n"
    "}\n"
    "\n"
    "const char *tuned_conv_spec(int i)\n"
    "{\n"
    "    return i < 0 || i >= tuned_conv_count() ? NULL\n"
    "                                            : tuned_conv_table[i].spec;\n"
    "}\n";

/* Declarations of a layer: @ is tuned_conv_NAME, T and O its types. */
static const char layer_h[] =
    "void @(const $T *in, const $T *w,\n"
    "    $O *out, void *work);\n"
    "void @_part(const $T *in, const $T *w,\n"
    "    $O *out, void *work, int phase, int part, int parts);\n"
    "void @_pack_in(const $T *nchw, $T *in);\n"
    "void @_pack_weight(const $T *kcrs, $T *w);\n"
    "void @_unpack_out(const $O *out, $O *nchw);\n"
    "size_t @_workspace(void);\n"
    "int @_nchw(const $T *nchw,\n"
    "    const $T *kcrs, $O *result, void *mem, size_t bytes);\n";

/* The plain call, for layers that are not plain themselves; then those of the
   table. # is TUNED_CONV_NAME. */
static const char blocked_c[] =
    "\nint @_nchw(const $T *nchw,\n"
    "    const $T *kcrs, $O *result, void *mem, size_t bytes)\n"
    "{\n"
    "    char *p = (char *)mem;\n"
    "    $T *in, *w;\n"
    "    $O *out;\n"
    "    if (!mem || bytes < #_WORKSPACE_BYTES)\n"
    "        return -1;\n"
    "    p += (64 - ((size_t)p & 63)) & 63;\n"
    "    in = ($T *)(void *)p;\n"
    "    p += TUNED_CONV_ROUND(#_IN_BYTES);\n"
    "    w = ($T *)(void *)p;\n"
    "    p += TUNED_CONV_ROUND(#_WEIGHT_BYTES);\n"
    "    out = ($O *)(void *)p;\n"
    "    p += TUNED_CONV_ROUND(#_OUT_BYTES);\n"
    "    @_pack_in(nchw, in);\n"
    "    @_pack_weight(kcrs, w);\n"
    "    @(in, w, out, p);\n"
    "    @_unpack_out(out, result);\n"
    "    return 0;\n"
    "}\n";
static const char plain_c[] =
    "\nint @_nchw(const $T *nchw,\n"
    "    const $T *kcrs, $O *result, void *mem, size_t bytes)\n"
    "{\n"
    "    char *p = (char *)mem;\n"
    "    $T *w;\n"
    "    if (!mem || bytes < #_WORKSPACE_BYTES)\n"
    "        return -1;\n"
    "    p += (64 - ((size_t)p & 63)) & 63;\n"
    "    w = ($T *)(void *)p;\n"
    "    p += TUNED_CONV_ROUND(#_WEIGHT_BYTES);\n"
    "    @_pack_weight(kcrs, w);\n"
    "    @(nchw, w, result, p);\n"
    "    return 0;\n"
    "}\n";
static const char table_c[] =
    "\nsize_t @_workspace(void)\n"
    "{\n"
    "    return #_WORKSPACE_BYTES;\n"
    "}\n"
    "\nstatic void @_v_run(const void *in, const void *w, void *out,\n"
    "    void *work)\n"
    "{\n"
    "    @((const $T *)in, (const $T *)w, ($O *)out, work);\n"
    "}\n"
    "static void @_v_part(const void *in, const void *w, void *out,\n"
    "    void *work, int phase, int part, int parts)\n"
    "{\n"
    "    @_part((const $T *)in, (const $T *)w, ($O *)out, work,\n"
    "        phase, part, parts);\n"
    "}\n"
    "static void @_v_pack_in(const void *nchw, void *in)\n"
    "{\n"
    "    @_pack_in((const $T *)nchw, ($T *)in);\n"
    "}\n"
    "static void @_v_pack_weight(const void *kcrs, void *w)\n"
    "{\n"
    "    @_pack_weight((const $T *)kcrs, ($T *)w);\n"
    "}\n"
    "static void @_v_unpack_out(const void *out, void *nchw)\n"
    "{\n"
    "    @_unpack_out((const $O *)out, ($O *)nchw);\n"
    "}\n"
    "static int @_v_nchw(const void *nchw, const void *kcrs,\n"
    "    void *result, void *mem, size_t bytes)\n"
    "{\n"
    "    return @_nchw((const $T *)nchw, (const $T *)kcrs,\n"
    "        ($O *)result, mem, bytes);\n"
    "}\n";

/* Adds a text with its @, #, $T and $O filled in. */
static void template_add(cmd_text *to, const char *text, const char *name,
                         const char *upper, const host_kernel *kernel)
{
    int i8 = kernel->in_bytes == 1;
    for (; *text; text++) {
        if (*text == '@')
            cmd_text_add(to, "%s", name);
        else if (*text == '#')
            cmd_text_add(to, "TUNED_CONV_%s", upper);
        else if (*text == '$')
            cmd_text_add(to, "%s", *++text == 'O' ? i8 ? "int" : "float"
                                   : i8 ? "signed char" : "float");
        else
            cmd_text_bytes(to, text, 1);
    }
}

/* "(1,4,56,56,16)": a tensor of c channels as the layer's layout has it. */
static void shape_add(cmd_text *to, const host_kernel *kernel, int input,
                      int32_t c, int32_t h, int32_t w)
{
    const metatune_encode_conv2d *conv = &kernel->conv;
    if (conv->layout == METATUNE_NHWC ||
        (conv->layout == METATUNE_NCHWC && input && c <= 4))
        cmd_text_add(to, "nhwc (%d,%d,%d,%d)", conv->n, h, w, c);
    else if (conv->layout == METATUNE_NCHW)
        cmd_text_add(to, "nchw (%d,%d,%d,%d)", conv->n, c, h, w);
    else
        cmd_text_add(to, "nchwc (%d,%d,%d,%d,%d)", conv->n,
                     (c + conv->block - 1) / conv->block, h, w, conv->block);
}

static size_t round64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* A layer's comment and declarations. */
static void layer_declare(cmd_text *h, const export_layer *layer,
                          const host_kernel *kernel, const char *spec,
                          const char *name, const char *upper)
{
    static const char *const size_name[5] = {
        "IN", "WEIGHT", "OUT", "WORK", "WORKSPACE"
    };
    const metatune_encode_conv2d *conv = &kernel->conv;
    size_t size[5];
    int32_t k;
    cmd_text_add(h, "\n/* %s\n   %s\n   in ", layer->name, spec);
    shape_add(h, kernel, 1, conv->c, conv->h, conv->w);
    cmd_text_add(h, ", out ");
    shape_add(h, kernel, 0, conv->k, kernel->oh, kernel->ow);
    if (conv->layout == METATUNE_NCHWC && (conv->k % conv->block ||
            (conv->c > 4 && conv->c % conv->block)))
        cmd_text_add(h, ",\n   lanes past the last channel are zero");
    cmd_text_add(h, "\n");
    if (layer->tuned_s > 0)
        cmd_text_add(h, "   %.4g ms", 1e3 * layer->tuned_s);
    if (layer->tuned_s > 0 && layer->default_s > 0)
        cmd_text_add(h, ", default setting %.4g ms", 1e3 * layer->default_s);
    cmd_text_add(h, "%s  ", layer->tuned_s > 0 ? "\n" : "");
    for (k = 0; k < kernel->n_knobs; k++) {
        const host_knob *knob = &kernel->knob[k];
        uint32_t d;
        for (d = 0; knob->labels && d + 1 < knob->n_values &&
                    knob->values[d] != layer->values[k]; d++)
            ;
        if (k == 6)
            cmd_text_add(h, "\n  ");
        if (knob->labels)
            cmd_text_add(h, " %s=%s", knob->name, knob->labels[d]);
        else
            cmd_text_add(h, " %s=%lld", knob->name,
                         (long long)layer->values[k]);
    }
    cmd_text_add(h, " */\n");
    size[0] = host_kernel_in_size(kernel);
    size[1] = host_kernel_weight_size(kernel, layer->values);
    size[2] = host_kernel_out_size(kernel);
    size[3] = host_kernel_work_size(kernel, layer->values);
    size[4] = round64(size[1]) + round64(size[3]) + 64;
    if (conv->layout != METATUNE_NCHW)
        size[4] += round64(size[0]) + round64(size[2]);
    for (k = 0; k < 5; k++)
        cmd_text_add(h, "#define TUNED_CONV_%s_%s_BYTES ((size_t)%zuu)\n",
                     upper, size_name[k], size[k]);
    cmd_text_add(h, "#define TUNED_CONV_%s_PHASES %d\n", upper,
                 (int)host_kernel_phases(kernel, layer->values));
    template_add(h, layer_h, name, upper, kernel);
}

/* Everything of one layer; -1 when its source does not fit (our own bug). */
static int layer_write(cmd_text *h, cmd_text *c, cmd_text *table,
                       const export_layer *layer, const char *id,
                       const host_march *march, char *buf)
{
    host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
    char upper[EXPORT_NAME], name[EXPORT_NAME + 16], spec[256];
    int rc = -1;
    size_t i;
    for (i = 0; id[i]; i++)
        upper[i] = (char)toupper((unsigned char)id[i]);
    upper[i] = 0;
    snprintf(name, sizeof name, "tuned_conv_%s", id);
    if (host_kernel_init(kernel, &layer->conv, march, NULL, 0) !=
            METATUNE_OK ||
        !metatune_encode_conv2d_spec(&layer->conv, spec, sizeof spec) ||
        !host_kernel_emit(kernel, layer->values, name, buf,
                          HOST_SOURCE_BYTES))
        goto done;
    layer_declare(h, layer, kernel, spec, name, upper);
    cmd_text_add(c, "\n/* ---- %s: %s */\n\n", layer->name, spec);
    cmd_text_bytes(c, buf, strlen(buf));
    if (!host_kernel_emit_pack(kernel, layer->values, name, buf,
                               HOST_SOURCE_BYTES))
        goto done;
    cmd_text_bytes(c, buf, strlen(buf));
    template_add(c, layer->conv.layout == METATUNE_NCHW ? plain_c : blocked_c,
                 name, upper, kernel);
    template_add(c, table_c, name, upper, kernel);
    cmd_text_add(table, "    { \"%s\",\n      \"%s\",\n", layer->name, spec);
    template_add(table,
                 "      #_IN_BYTES, #_WEIGHT_BYTES,\n"
                 "      #_OUT_BYTES, #_WORK_BYTES,\n", name, upper, kernel);
    template_add(table,
                 "      #_WORKSPACE_BYTES, #_PHASES,\n"
                 "      @_v_run,\n      @_v_part,\n      @_v_pack_in,\n"
                 "      @_v_pack_weight,\n      @_v_unpack_out,\n"
                 "      @_v_nchw },\n", name, upper, kernel);
    rc = 0;
done:
    free(kernel);
    return rc;
}

int export_conv_write(const char *dir, const export_layer *layers, size_t n,
                      const host_march *march, const char *target,
                      const char *flags, char *path, size_t cap)
{
    char (*ids)[EXPORT_NAME] = (char (*)[EXPORT_NAME])cmd_alloc(
        (n ? n : 1) * sizeof *ids);
    char *buf = (char *)cmd_alloc(HOST_SOURCE_BYTES);
    char key[512], opt[512];
    cmd_text h, c, table;
    size_t i;
    int rc = 0;
    memset(&h, 0, sizeof h);
    memset(&c, 0, sizeof c);
    memset(&table, 0, sizeof table);
    comment_safe(key, sizeof key, target);
    comment_safe(opt, sizeof opt, flags);
    cmd_text_add(&h, "/* tuned_conv.h - %zu tuned convolution%s\n\n"
                 "   Written by metatune for\n     %s\n"
                 "   Compile tuned_conv.c with\n     %s\n\n", n,
                 n == 1 ? "" : "s", key, opt);
    cmd_text_bytes(&h, head_h, sizeof head_h - 1);
    cmd_text_add(&h, "#define TUNED_CONV_THREADS %d\n",
                 march->threads > 0 ? (int)march->threads : 1);
    cmd_text_add(&c, "/* tuned_conv.c - see tuned_conv.h; compile with\n"
                 "     %s\n   %s */\n"
                 "#include \"tuned_conv.h\"\n\n#include <string.h>\n\n"
                 "#define TUNED_CONV_ROUND(bytes) "
                 "(((bytes) + 63) & ~(size_t)63)\n", opt,
                 march->lanes == 1 ? "Plain C99."
                                   : "GCC vector extensions: gcc or clang.");
    for (i = 0; i < n && rc == 0; i++) {
        export_layer layer = layers[i];
        char name[128];
        text_safe(name, sizeof name, layer.name);
        layer.name = name;
        identifier(ids, i, name);
        rc = layer_write(&h, &c, &table, &layer, ids[i], march, buf);
        errno = rc ? EFBIG : 0;
        snprintf(path, cap, "%s", rc ? name : "");
    }
    cmd_text_add(&h, "\n");
    cmd_text_bytes(&h, tail_h, sizeof tail_h - 1);
    cmd_text_add(&c, "\n/* ---- all of them, by name */\n\n"
                 "static const tuned_conv_layer tuned_conv_table[] = {\n");
    cmd_text_bytes(&c, table.p ? table.p : "", table.n);
    cmd_text_add(&c, "    { NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, "
                 "NULL, NULL, NULL }\n};\n\n"
                 "int tuned_conv_count(void)\n{\n    return %zu;\n}\n\n", n);
    cmd_text_bytes(&c, tail_c, sizeof tail_c - 1);
    if (rc == 0) {
        snprintf(path, cap, "%s/tuned_conv.h", dir);
        rc = cmd_file_write(path, h.p, h.n);
    }
    if (rc == 0) {
        snprintf(path, cap, "%s/tuned_conv.c", dir);
        rc = cmd_file_write(path, c.p, c.n);
    }
    i = (size_t)errno;
    cmd_text_free(&h);
    cmd_text_free(&c);
    cmd_text_free(&table);
    free(buf);
    free(ids);
    errno = (int)i;
    return rc;
}
