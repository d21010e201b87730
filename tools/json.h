/* json.h - a small strict JSON reader over a buffer

   Values point into the text that was read and live in a pool. Every byte is
   hostile: depth is bounded by JSON_DEPTH, nothing is read past n. Numbers stay
   text (value->raw), so that none is rounded twice; json_double reads them
   through metatune_number_read, which knows no locale. Stricter than needed in
   nothing: NaN, Infinity and -Infinity, which Python writes, are read as
   numbers that json_double refuses and json_write turns into null. Of keys that
   come twice the last counts, as in Python. */
#ifndef METATUNE_JSON_H
#define METATUNE_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "cmd_util.h"

#define JSON_DEPTH 28 /* record lines hold 32; theirs are nested in ours */

typedef enum json_type {
    JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT
} json_type;

typedef struct json_value {
    json_type type;
    int truth;                   /* of a BOOL */
    const char *raw;             /* in the source, quotes and all */
    size_t n_raw;
    const char *key;             /* of a member: plain bytes and a NUL */
    size_t n_key;
    const char *text;            /* of a STRING: plain bytes and a NUL */
    size_t n;                    /* its bytes, or how many children */
    struct json_value *child, *next;
} json_value;

typedef struct json_pool {
    struct json_block *blocks;
    size_t bytes;                /* handed out since the last reset */
} json_pool;

/* Reset forgets every value but keeps a block for the next ones. */
void json_pool_reset(json_pool *pool);
void json_pool_free(json_pool *pool);
void *json_pool_take(json_pool *pool, size_t bytes);

void json_space(const char *s, size_t n, size_t *i);
/* One value at *i, which moves past it. NULL and *why when it is none. */
json_value *json_parse(json_pool *pool, const char *s, size_t n, size_t *i,
                       const char **why);
/* `"key" :` at *i. 0 when it is none. */
int json_key(json_pool *pool, const char *s, size_t n, size_t *i,
             const char **key, size_t *n_key);
/* A whole text: nothing but blanks around one value. */
json_value *json_read(json_pool *pool, const char *s, size_t n,
                      const char **why);

/* Member of an object; NULL when absent or v is none. */
const json_value *json_get(const json_value *v, const char *key);
const json_value *json_at(const json_value *v, size_t i);
int json_is(const json_value *v, json_type type);
int json_says(const json_value *v, const char *text);
/* 1 and the number, 0 when it is none, is not finite or does not fit. */
int json_double(const json_value *v, double *x);
int json_i64(const json_value *v, int64_t *x);
int json_u64(const json_value *v, uint64_t *x);

/* Written on one line, strings as valid UTF-8 (other bytes as \u00XX). */
void json_write(cmd_text *text, const json_value *v);
void json_write_text(cmd_text *text, const char *p, size_t n);

#endif
