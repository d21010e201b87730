/* io_eval.h - expressions as T1 files have them: a small part of Python

   + - * / // % **, | ^ & << >>, comparisons in chains, in, not in, and, or,
   not, a if c else b, lists, tuples, [f(x) for x in xs if c], strings, True,
   False, None, and min max abs int float len range list tuple sum.
   Meaning as in Python (floor division, sign of %, what and/or return), but
   integers have 64 bits and leaving them is an error. Nothing is executed:
   no names but the given ones, no attributes. Depth, list lengths and work
   are bounded. */
#ifndef METATUNE_IO_EVAL_H
#define METATUNE_IO_EVAL_H

#include "json.h"

#define EVAL_DEPTH 64
#define EVAL_ITEMS 65536         /* of a list */
#define EVAL_STEPS 2000000       /* of one expression */

typedef enum eval_type {
    EVAL_NONE, EVAL_BOOL, EVAL_INT, EVAL_REAL, EVAL_TEXT, EVAL_LIST
} eval_type;

typedef struct eval_value {
    eval_type type;
    int64_t i;                   /* INT, BOOL */
    double x;                    /* REAL */
    const char *p;               /* TEXT */
    size_t n;                    /* its bytes, or items of a LIST */
    struct eval_value *item;
} eval_value;

typedef struct eval_names {
    size_t n;
    const char *const *name;
    const eval_value *value;
} eval_names;

/* 1 and the value (its lists and texts live in the pool and in s), or 0 and
   why. */
int eval_text(json_pool *pool, const char *s, size_t n,
              const eval_names *names, eval_value *value, const char **why);
int eval_truth(const eval_value *value);
/* The next name in an expression at or after *i: 1, or 0 at the end. */
int eval_name_next(const char *s, size_t n, size_t *i, const char **name,
                   size_t *n_name);

#endif
