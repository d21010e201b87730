/* json.c - a small strict JSON reader over a buffer */
#include "json.h"

#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------- pool */

typedef struct json_block {
    struct json_block *next;
    size_t n, cap;
    char *p;
} json_block;

void *json_pool_take(json_pool *pool, size_t bytes)
{
    json_block *b = pool->blocks;
    char *p;
    bytes = (bytes + 7) & ~(size_t)7;
    if (!b || b->cap - b->n < bytes) {
        size_t cap = bytes > 65536 ? bytes : 65536;
        b = (json_block *)cmd_alloc(sizeof *b);
        b->p = (char *)cmd_alloc(cap);
        b->cap = cap;
        b->next = pool->blocks;
        pool->blocks = b;
    }
    p = b->p + b->n;
    b->n += bytes;
    pool->bytes += bytes;
    memset(p, 0, bytes);
    return p;
}

void json_pool_reset(json_pool *pool)
{
    while (pool->blocks && pool->blocks->next) {
        json_block *b = pool->blocks;
        pool->blocks = b->next;
        free(b->p);
        free(b);
    }
    if (pool->blocks)
        pool->blocks->n = 0;
    pool->bytes = 0;
}

void json_pool_free(json_pool *pool)
{
    json_pool_reset(pool);
    if (pool->blocks) {
        free(pool->blocks->p);
        free(pool->blocks);
    }
    pool->blocks = NULL;
}

/* -------------------------------------------------------------- lexer */

typedef struct json_reader {
    json_pool *pool;
    const char *s;
    size_t n, i;
    const char *why;
} json_reader;

void json_space(const char *s, size_t n, size_t *i)
{
    while (*i < n && (s[*i] == ' ' || s[*i] == '\t' || s[*i] == '\n' ||
                      s[*i] == '\r'))
        (*i)++;
}

static int is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
           (c >= 'A' && c <= 'F');
}

static int refuse(json_reader *r, const char *why)
{
    if (!r->why)
        r->why = why;
    return 0;
}

/* A string at i: its plain bytes. */
static int string(json_reader *r, const char **text, size_t *n)
{
    size_t start = r->i + 1, k;
    metatune_text raw;
    char *p;
    if (r->i >= r->n || r->s[r->i] != '"')
        return refuse(r, "a string is missing");
    for (k = start; k < r->n && r->s[k] != '"'; k++) {
        unsigned char c = (unsigned char)r->s[k];
        if (c < 0x20)
            return refuse(r, "a control character in a string");
        if (c != '\\')
            continue;
        if (++k >= r->n)
            break;
        if (r->s[k] == 'u') {
            if (r->n - k < 5 || !is_hex(r->s[k + 1]) || !is_hex(r->s[k + 2]) ||
                !is_hex(r->s[k + 3]) || !is_hex(r->s[k + 4]))
                return refuse(r, "a bad \\u escape");
            k += 4;
        } else if (!r->s[k] || !strchr("\"\\/bfnrt", r->s[k])) {
            return refuse(r, "a bad escape");
        }
    }
    if (k >= r->n)
        return refuse(r, "it ends inside a string");
    raw.p = r->s + start;
    raw.n = k - start;
    /* a lone byte that is not UTF-8 grows to two */
    p = (char *)json_pool_take(r->pool, 2 * raw.n + 1);
    *n = metatune_text_unescape(raw, p, 2 * raw.n + 1);
    p[*n] = 0;
    *text = p;
    r->i = k + 1;
    return 1;
}

static size_t digits(const json_reader *r, size_t i)
{
    size_t k = i;
    while (k < r->n && r->s[k] >= '0' && r->s[k] <= '9')
        k++;
    return k - i;
}

/* Length of the number at i, 0 when it is none. */
static size_t number(const json_reader *r)
{
    size_t k = r->i, d;
    if (k < r->n && r->s[k] == '-')
        k++;
    d = digits(r, k);
    if (d == 0 || (d > 1 && r->s[k] == '0'))
        return 0;
    k += d;
    if (k < r->n && r->s[k] == '.') {
        d = digits(r, k + 1);
        if (d == 0)
            return 0;
        k += d + 1;
    }
    if (k < r->n && (r->s[k] == 'e' || r->s[k] == 'E')) {
        size_t e = k + 1;
        if (e < r->n && (r->s[e] == '+' || r->s[e] == '-'))
            e++;
        d = digits(r, e);
        if (d == 0)
            return 0;
        k = e + d;
    }
    return k - r->i;
}

static int word(json_reader *r, const char *w)
{
    size_t n = strlen(w);
    if (r->n - r->i < n || memcmp(r->s + r->i, w, n) != 0)
        return 0;
    r->i += n;
    return 1;
}

static json_value *value(json_reader *r, int depth);

/* Members or items up to `close`. */
static int children(json_reader *r, json_value *v, char close, int depth)
{
    json_value **last = &v->child;
    if (depth >= JSON_DEPTH)
        return refuse(r, "it is nested too deeply");
    r->i++;
    json_space(r->s, r->n, &r->i);
    if (r->i < r->n && r->s[r->i] == close) {
        r->i++;
        return 1;
    }
    for (;;) {
        const char *key = NULL;
        size_t n_key = 0;
        json_value *c;
        json_space(r->s, r->n, &r->i);
        if (close == '}') {
            if (!string(r, &key, &n_key))
                return 0;
            json_space(r->s, r->n, &r->i);
            if (r->i >= r->n || r->s[r->i] != ':')
                return refuse(r, "a ':' is missing");
            r->i++;
        }
        c = value(r, depth + 1);
        if (!c)
            return 0;
        c->key = key;
        c->n_key = n_key;
        *last = c;
        last = &c->next;
        v->n++;
        json_space(r->s, r->n, &r->i);
        if (r->i >= r->n)
            return refuse(r, "it ends too early");
        if (r->s[r->i] == close) {
            r->i++;
            return 1;
        }
        if (r->s[r->i] != ',')
            return refuse(r, "a ',' is missing");
        r->i++;
    }
}

static json_value *value(json_reader *r, int depth)
{
    json_value *v = (json_value *)json_pool_take(r->pool, sizeof *v);
    size_t start, n;
    int good = 1;
    json_space(r->s, r->n, &r->i);
    start = r->i;
    if (start >= r->n) {
        refuse(r, "it ends too early");
        return NULL;
    }
    if (r->s[start] == '{') {
        v->type = JSON_OBJECT;
        good = children(r, v, '}', depth);
    } else if (r->s[start] == '[') {
        v->type = JSON_ARRAY;
        good = children(r, v, ']', depth);
    } else if (r->s[start] == '"') {
        v->type = JSON_STRING;
        good = string(r, &v->text, &v->n);
    } else if ((n = number(r)) > 0) {
        v->type = JSON_NUMBER;
        r->i += n;
    } else if (word(r, "true")) {
        v->type = JSON_BOOL;
        v->truth = 1;
    } else if (word(r, "false")) {
        v->type = JSON_BOOL;
    } else if (word(r, "null")) {
        v->type = JSON_NULL;
    } else if (word(r, "NaN") || word(r, "Infinity") || word(r, "-Infinity")) {
        v->type = JSON_NUMBER;
    } else {
        good = refuse(r, "something that is not JSON");
    }
    v->raw = r->s + start;
    v->n_raw = r->i - start;
    return good ? v : NULL;
}

json_value *json_parse(json_pool *pool, const char *s, size_t n, size_t *i,
                       const char **why)
{
    json_reader r;
    json_value *v;
    r.pool = pool;
    r.s = s;
    r.n = n;
    r.i = *i;
    r.why = NULL;
    v = value(&r, 0);
    *i = r.i;
    if (why)
        *why = r.why;
    return v;
}

int json_key(json_pool *pool, const char *s, size_t n, size_t *i,
             const char **key, size_t *n_key)
{
    json_reader r;
    r.pool = pool;
    r.s = s;
    r.n = n;
    r.why = NULL;
    json_space(s, n, i);
    r.i = *i;
    if (!string(&r, key, n_key))
        return 0;
    json_space(s, n, &r.i);
    if (r.i >= n || s[r.i] != ':')
        return 0;
    *i = r.i + 1;
    return 1;
}

json_value *json_read(json_pool *pool, const char *s, size_t n,
                      const char **why)
{
    size_t i = 0;
    json_value *v = json_parse(pool, s, n, &i, why);
    json_space(s, n, &i);
    if (v && i < n) {
        if (why)
            *why = "something follows its end";
        return NULL;
    }
    return v;
}

/* ------------------------------------------------------------- access */

int json_is(const json_value *v, json_type type)
{
    return v && v->type == type;
}

const json_value *json_get(const json_value *v, const char *key)
{
    const json_value *c, *found = NULL;
    size_t n = strlen(key);
    if (!json_is(v, JSON_OBJECT))
        return NULL;
    for (c = v->child; c; c = c->next)
        if (c->n_key == n && memcmp(c->key, key, n) == 0)
            found = c;
    return found;
}

const json_value *json_at(const json_value *v, size_t i)
{
    const json_value *c;
    if (!json_is(v, JSON_ARRAY))
        return NULL;
    for (c = v->child; c && i > 0; i--)
        c = c->next;
    return c;
}

int json_says(const json_value *v, const char *text)
{
    return json_is(v, JSON_STRING) && v->n == strlen(text) &&
           memcmp(v->text, text, v->n) == 0;
}

int json_double(const json_value *v, double *x)
{
    size_t end = 0;
    return json_is(v, JSON_NUMBER) &&
           metatune_number_read(v->raw, v->n_raw, x, &end) == METATUNE_OK &&
           end == v->n_raw;
}

int json_u64(const json_value *v, uint64_t *x)
{
    uint64_t u = 0;
    size_t i;
    if (!json_is(v, JSON_NUMBER))
        return 0;
    for (i = 0; i < v->n_raw; i++) {
        unsigned d = (unsigned)(unsigned char)v->raw[i] - '0';
        if (d > 9 || u > (UINT64_MAX - d) / 10)
            return 0;
        u = 10 * u + d;
    }
    *x = u;
    return 1;
}

int json_i64(const json_value *v, int64_t *x)
{
    json_value positive;
    uint64_t u = 0;
    int minus;
    if (!json_is(v, JSON_NUMBER))
        return 0;
    positive = *v;
    minus = v->n_raw > 0 && v->raw[0] == '-';
    if (minus) {
        positive.raw++;
        positive.n_raw--;
    }
    if (!json_u64(&positive, &u) || u > (uint64_t)INT64_MAX)
        return 0;
    *x = minus ? -(int64_t)u : (int64_t)u;
    return 1;
}

/* -------------------------------------------------------------- write */

/* Length of the UTF-8 sequence at p, 0 when there is none. */
static size_t utf8(const unsigned char *p, size_t n)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2
               : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0, i;
    if (len == 0 || len > n)
        return 0;
    for (i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return len;
}

void json_write_text(cmd_text *text, const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t i = 0;
    cmd_text_bytes(text, "\"", 1);
    while (i < n) {
        size_t len = utf8(u + i, n - i);
        if (u[i] == '"' || u[i] == '\\')
            cmd_text_add(text, "\\%c", u[i]);
        else if (len == 0 || u[i] < 0x20 || u[i] == 0x7F)
            cmd_text_add(text, "\\u%04x", u[i]);
        else
            cmd_text_bytes(text, p + i, len);
        i += len ? len : 1;
    }
    cmd_text_bytes(text, "\"", 1);
}

void json_write(cmd_text *text, const json_value *v)
{
    const json_value *c;
    double x;
    switch (v->type) {
    case JSON_NUMBER:
        if (json_double(v, &x))
            cmd_text_bytes(text, v->raw, v->n_raw);
        else
            cmd_text_add(text, "null");
        break;
    case JSON_STRING:
        json_write_text(text, v->text, v->n);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        cmd_text_add(text, v->type == JSON_ARRAY ? "[" : "{");
        for (c = v->child; c; c = c->next) {
            if (v->type == JSON_OBJECT) {
                json_write_text(text, c->key, c->n_key);
                cmd_text_add(text, ":");
            }
            json_write(text, c);
            if (c->next)
                cmd_text_add(text, ",");
        }
        cmd_text_add(text, v->type == JSON_ARRAY ? "]" : "}");
        break;
    case JSON_NULL:
        cmd_text_add(text, "null");
        break;
    case JSON_BOOL:
    default:
        cmd_text_add(text, v->truth ? "true" : "false");
        break;
    }
}
