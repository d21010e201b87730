/* export_conv.c - see export_conv.h */
#define _POSIX_C_SOURCE 200809L

#include "export_conv.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        if (strcmp(ids[j], id) == 0) {
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

static const char head_h[] =
    "   Each layer NAME of the table below has\n"
    "     tuned_conv_NAME(in, w, out, work)\n"
    "         the kernel on blocked tensors: `in` packed by\n"
    "         tuned_conv_NAME_pack_in, `w` by tuned_conv_NAME_pack_weight;\n"
    "         `out` is unpacked by tuned_conv_NAME_unpack_out. The macros\n"
    "         TUNED_CONV_NAME_{IN,WEIGHT,OUT,WORK}_FLOATS are their sizes.\n"
    "         Blocks of 64-byte alignment are fastest; any float * works.\n"
    "     tuned_conv_NAME_nchw(nchw, kcrs, result, mem, bytes)\n"
    "         the same on plain tensors: in (N,C,H,W), weights (K,C,R,S), out\n"
    "         (N,K,OH,OW). mem is the caller's, of at least\n"
    "         tuned_conv_NAME_workspace() bytes; 0 = done, -1 = mem is NULL\n"
    "         or too small. It packs on every call: for speed pack weights\n"
    "         once and keep activations blocked.\n"
    "   and by the layer's name as a string\n"
    "     tuned_conv_run(\"net/layer\", nchw, kcrs, result, mem, bytes)\n"
    "         -2 = no such layer\n"
    "     tuned_conv_workspace(\"net/layer\")   bytes, 0 = no such layer\n"
    "     tuned_conv_count(), tuned_conv_name(i), tuned_conv_spec(i)\n"
    "   Nothing allocates; no state is kept; threads may share all of it.\n"
    "*/\n"
    "#ifndef TUNED_CONV_H\n"
    "#define TUNED_CONV_H\n"
    "\n"
    "#include <stddef.h>\n"
    "\n"
    "#ifdef __cplusplus\n"
    "extern \"C\" {\n"
    "#endif\n";

static const char tail_h[] =
    "int tuned_conv_run(const char *layer, const float *nchw,\n"
    "                   const float *kcrs, float *result, void *mem,\n"
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
    "static int tuned_conv_find(const char *layer)\n"
    "{\n"
    "    int i;\n"
    "    for (i = 0; i < tuned_conv_count(); i++)\n"
    "        if (strcmp(tuned_conv_table[i].name, layer) == 0)\n"
    "            return i;\n"
    "    return -1;\n"
    "}\n"
    "\n"
    "int tuned_conv_run(const char *layer, const float *nchw,\n"
    "                   const float *kcrs, float *result, void *mem,\n"
    "                   size_t bytes)\n"
    "{\n"
    "    int i = layer ? tuned_conv_find(layer) : -1;\n"
    "    if (i < 0)\n"
    "        return -2;\n"
    "    return tuned_conv_table[i].run(nchw, kcrs, result, mem, bytes);\n"
    "}\n"
    "\n"
    "size_t tuned_conv_workspace(const char *layer)\n"
    "{\n"
    "    int i = layer ? tuned_conv_find(layer) : -1;\n"
    "    return i < 0 ? 0 : tuned_conv_table[i].workspace();\n"
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

/* Everything of one layer; -1 when its source does not fit (our own bug). */
static int layer_write(cmd_text *h, cmd_text *c, const export_layer *layer,
                       const char *id, const host_march *march, char *buf)
{
    host_kernel *kernel = (host_kernel *)cmd_alloc(sizeof *kernel);
    char upper[EXPORT_NAME], name[EXPORT_NAME + 16], spec[256];
    size_t i;
    int32_t k;
    for (i = 0; id[i]; i++)
        upper[i] = (char)toupper((unsigned char)id[i]);
    upper[i] = 0;
    snprintf(name, sizeof name, "tuned_conv_%s", id);
    if (host_kernel_init(kernel, &layer->conv, march, NULL, 0) !=
            METATUNE_OK ||
        !metatune_encode_conv2d_spec(&layer->conv, spec, sizeof spec)) {
        free(kernel);
        return -1;
    }

    cmd_text_add(h, "\n/* %s\n   %s\n", layer->name, spec);
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
    cmd_text_add(h, "#define TUNED_CONV_%s_IN_FLOATS ((size_t)%zuu)\n", upper,
                 host_kernel_in_floats(kernel));
    cmd_text_add(h, "#define TUNED_CONV_%s_WEIGHT_FLOATS ((size_t)%zuu)\n",
                 upper, host_kernel_weight_floats(kernel));
    cmd_text_add(h, "#define TUNED_CONV_%s_OUT_FLOATS ((size_t)%zuu)\n",
                 upper, host_kernel_out_floats(kernel));
    cmd_text_add(h, "#define TUNED_CONV_%s_WORK_FLOATS ((size_t)%zuu)\n",
                 upper, host_kernel_work_floats(kernel, layer->values));
    cmd_text_add(h,
        "void %s(const float *in, const float *w,\n"
        "    float *out, float *work);\n"
        "void %s_pack_in(const float *nchw, float *in);\n"
        "void %s_pack_weight(const float *kcrs, float *w);\n"
        "void %s_unpack_out(const float *out, float *nchw);\n"
        "size_t %s_workspace(void);\n"
        "int %s_nchw(const float *nchw,\n"
        "    const float *kcrs, float *result, void *mem, size_t bytes);\n",
        name, name, name, name, name, name);

    cmd_text_add(c, "\n/* ---- %s: %s */\n\n", layer->name, spec);
    if (!host_kernel_emit(kernel, layer->values, name, buf,
                          HOST_SOURCE_BYTES)) {
        free(kernel);
        return -1;
    }
    cmd_text_bytes(c, buf, strlen(buf));
    if (!host_kernel_emit_pack(kernel, layer->values, name, buf,
                               HOST_SOURCE_BYTES)) {
        free(kernel);
        return -1;
    }
    cmd_text_bytes(c, buf, strlen(buf));
    cmd_text_add(c,
        "\nsize_t %s_workspace(void)\n"
        "{\n"
        "    return TUNED_CONV_ROUND(TUNED_CONV_%s_IN_FLOATS) +\n"
        "           TUNED_CONV_ROUND(TUNED_CONV_%s_WEIGHT_FLOATS) +\n"
        "           TUNED_CONV_ROUND(TUNED_CONV_%s_OUT_FLOATS) +\n"
        "           TUNED_CONV_ROUND(TUNED_CONV_%s_WORK_FLOATS) + 64;\n"
        "}\n\n", name, upper, upper, upper, upper);
    cmd_text_add(c,
        "int %s_nchw(const float *nchw,\n"
        "    const float *kcrs, float *result, void *mem, size_t bytes)\n"
        "{\n"
        "    char *p = (char *)mem;\n"
        "    float *in, *w, *out, *work;\n"
        "    if (!mem || bytes < %s_workspace())\n"
        "        return -1;\n"
        "    p += (64 - ((size_t)p & 63)) & 63;\n"
        "    in = (float *)(void *)p;\n"
        "    p += TUNED_CONV_ROUND(TUNED_CONV_%s_IN_FLOATS);\n"
        "    w = (float *)(void *)p;\n"
        "    p += TUNED_CONV_ROUND(TUNED_CONV_%s_WEIGHT_FLOATS);\n"
        "    out = (float *)(void *)p;\n"
        "    p += TUNED_CONV_ROUND(TUNED_CONV_%s_OUT_FLOATS);\n"
        "    work = (float *)(void *)p;\n"
        "    %s_pack_in(nchw, in);\n"
        "    %s_pack_weight(kcrs, w);\n"
        "    %s(in, w, out, work);\n"
        "    %s_unpack_out(out, result);\n"
        "    return 0;\n"
        "}\n", name, name, upper, upper, upper, name, name, name, name);
    free(kernel);
    return 0;
}

int export_conv_write(const char *dir, const export_layer *layers, size_t n,
                      const host_march *march, const char *target,
                      const char *flags, char *path, size_t cap)
{
    char (*ids)[EXPORT_NAME] = (char (*)[EXPORT_NAME])cmd_alloc(
        (n ? n : 1) * sizeof *ids);
    char *buf = (char *)cmd_alloc(HOST_SOURCE_BYTES);
    char key[512], opt[512];
    cmd_text h, c;
    size_t i;
    int rc = 0;
    memset(&h, 0, sizeof h);
    memset(&c, 0, sizeof c);
    comment_safe(key, sizeof key, target);
    comment_safe(opt, sizeof opt, flags);
    cmd_text_add(&h, "/* tuned_conv.h - %zu tuned convolution%s\n\n"
                 "   Written by metatune for\n     %s\n"
                 "   Compile tuned_conv.c with\n     %s\n\n", n,
                 n == 1 ? "" : "s", key, opt);
    cmd_text_bytes(&h, head_h, sizeof head_h - 1);
    cmd_text_add(&c, "/* tuned_conv.c - see tuned_conv.h; compile with\n"
                 "     %s\n"
                 "   GCC vector extensions: gcc or clang. */\n"
                 "#include \"tuned_conv.h\"\n\n#include <string.h>\n\n"
                 "#define TUNED_CONV_ROUND(floats) \\\n"
                 "    (((floats) * sizeof(float) + 63) & ~(size_t)63)\n",
                 opt);
    for (i = 0; i < n && rc == 0; i++) {
        identifier(ids, i, layers[i].name);
        rc = layer_write(&h, &c, &layers[i], ids[i], march, buf);
        errno = rc ? EFBIG : 0;
    }
    cmd_text_add(&h, "\n");
    cmd_text_bytes(&h, tail_h, sizeof tail_h - 1);
    cmd_text_add(&c, "\n/* ---- dispatch by name */\n\n"
                 "static const struct {\n"
                 "    const char *name, *spec;\n"
                 "    int (*run)(const float *, const float *, float *, "
                 "void *, size_t);\n"
                 "    size_t (*workspace)(void);\n"
                 "} tuned_conv_table[] = {\n");
    for (i = 0; i < n && rc == 0; i++) {
        char spec[256];
        metatune_encode_conv2d_spec(&layers[i].conv, spec, sizeof spec);
        cmd_text_add(&c, "    { \"%s\",\n      \"%s\",\n"
                     "      tuned_conv_%s_nchw, tuned_conv_%s_workspace },\n",
                     layers[i].name, spec, ids[i], ids[i]);
    }
    cmd_text_add(&c, "    { NULL, NULL, NULL, NULL }\n};\n\n"
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
    free(buf);
    free(ids);
    errno = (int)i;
    return rc;
}
