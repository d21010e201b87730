/* io_eval.c - expressions as T1 files have them: a small part of Python */
#include "io_eval.h"

#include <math.h>
#include <string.h>

typedef struct eval {
    json_pool *pool;
    const char *s;
    size_t n, i;
    const eval_names *names;
    const char *var[8];          /* of comprehensions, innermost last */
    size_t n_var[8];
    eval_value var_value[8];
    int vars;
    int depth;
    int skip;                    /* > 0: only walk over it */
    uint32_t steps;
    const char *why;
} eval;

static eval_value none(void)
{
    eval_value v;
    memset(&v, 0, sizeof v);
    return v;
}

static eval_value integer(int64_t i)
{
    eval_value v = none();
    v.type = EVAL_INT;
    v.i = i;
    return v;
}

static eval_value truth(int i)
{
    eval_value v = integer(i != 0);
    v.type = EVAL_BOOL;
    return v;
}

static eval_value refuse(eval *e, const char *why)
{
    if (!e->why)
        e->why = why;
    e->i = e->n; /* nothing more is read */
    return none();
}

static eval_value real(eval *e, double x)
{
    eval_value v = none();
    v.type = EVAL_REAL;
    v.x = x;
    return x - x < 1.0 ? v : refuse(e, "a number that is not finite");
}

/* ------------------------------------------------------------- tokens */

static int word_char(char c, int first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

static void space(eval *e)
{
    while (e->i < e->n && (e->s[e->i] == ' ' || e->s[e->i] == '\t' ||
                           e->s[e->i] == '\n' || e->s[e->i] == '\r'))
        e->i++;
}

/* Length of the name at i, 0 when there is none. */
static size_t name_here(eval *e)
{
    size_t k;
    space(e);
    k = e->i;
    while (k < e->n && word_char(e->s[k], k == e->i))
        k++;
    return k - e->i;
}

static int peek_word(eval *e, const char *word)
{
    size_t n = name_here(e);
    return n == strlen(word) && memcmp(e->s + e->i, word, n) == 0;
}

static int take_word(eval *e, const char *word)
{
    if (!peek_word(e, word))
        return 0;
    e->i += strlen(word);
    return 1;
}

static int take(eval *e, const char *op)
{
    size_t n = strlen(op);
    space(e);
    if (e->n - e->i < n || memcmp(e->s + e->i, op, n) != 0)
        return 0;
    e->i += n;
    return 1;
}

static char peek(eval *e)
{
    space(e);
    return e->i < e->n ? e->s[e->i] : 0;
}

int eval_name_next(const char *s, size_t n, size_t *i, const char **name,
                   size_t *n_name)
{
    while (*i < n) {
        char c = s[*i];
        size_t from = *i;
        if (c == '\'' || c == '"') {
            for ((*i)++; *i < n && s[*i] != c; (*i)++)
                if (s[*i] == '\\')
                    (*i)++;
            (*i)++;
        } else if (word_char(c, 1)) {
            while (*i < n && word_char(s[*i], 0))
                (*i)++;
            *name = s + from;
            *n_name = *i - from;
            return 1;
        } else if (c >= '0' && c <= '9') {
            while (*i < n && word_char(s[*i], 0))
                (*i)++;
        } else {
            (*i)++;
        }
    }
    return 0;
}

/* ---------------------------------------------------------- operators */

static int is_number(const eval_value *v)
{
    return v->type == EVAL_INT || v->type == EVAL_BOOL ||
           v->type == EVAL_REAL;
}

static double as_real(const eval_value *v)
{
    return v->type == EVAL_REAL ? v->x : (double)v->i;
}

int eval_truth(const eval_value *v)
{
    switch (v->type) {
    case EVAL_BOOL:
    case EVAL_INT: return v->i != 0;
    case EVAL_REAL: return v->x < 0.0 || v->x > 0.0;
    case EVAL_TEXT:
    case EVAL_LIST: return v->n > 0;
    case EVAL_NONE:
    default: return 0;
    }
}

/* -1, 0, 1; 2 when they cannot be ordered. */
static int compare(const eval_value *a, const eval_value *b)
{
    if (is_number(a) && is_number(b)) {
        if (a->type != EVAL_REAL && b->type != EVAL_REAL)
            return a->i < b->i ? -1 : a->i > b->i;
        return as_real(a) < as_real(b) ? -1 : as_real(a) > as_real(b);
    }
    if (a->type == EVAL_TEXT && b->type == EVAL_TEXT) {
        size_t n = a->n < b->n ? a->n : b->n;
        int c = n ? memcmp(a->p, b->p, n) : 0;
        return c ? (c < 0 ? -1 : 1) : a->n < b->n ? -1 : a->n > b->n;
    }
    return 2;
}

static int equal(const eval_value *a, const eval_value *b, int depth)
{
    size_t i;
    if (a->type == EVAL_LIST && b->type == EVAL_LIST) {
        if (a->n != b->n || depth > EVAL_DEPTH)
            return 0;
        for (i = 0; i < a->n; i++)
            if (!equal(&a->item[i], &b->item[i], depth + 1))
                return 0;
        return 1;
    }
    if (a->type == EVAL_NONE && b->type == EVAL_NONE)
        return 1;
    return compare(a, b) == 0;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}

static eval_value power(eval *e, const eval_value *a, const eval_value *b)
{
    if (a->type != EVAL_REAL && b->type != EVAL_REAL && b->i >= 0) {
        int64_t base = a->i, left = b->i, r = 1;
        while (left > 0) {
            if ((left & 1) && __builtin_mul_overflow(r, base, &r))
                return refuse(e, "a whole number beyond 64 bits");
            left >>= 1;
            if (left && __builtin_mul_overflow(base, base, &base))
                return refuse(e, "a whole number beyond 64 bits");
        }
        return integer(r);
    }
    if (as_real(a) < 0.0 && b->type == EVAL_REAL)
        return refuse(e, "a power of a negative number");
    if (!eval_truth(a) && as_real(b) < 0.0)
        return refuse(e, "a division by zero");
    return real(e, pow(as_real(a), as_real(b)));
}

enum { OP_OR, OP_XOR, OP_AND, OP_SHL, OP_SHR, OP_ADD, OP_SUB, OP_MUL,
       OP_FLOOR, OP_DIV, OP_MOD, OP_NONE };

static eval_value arithmetic(eval *e, int op, const eval_value *a,
                             const eval_value *b)
{
    int64_t r = 0;
    double x, y;
    if (e->skip)
        return none();
    if (!is_number(a) || !is_number(b))
        return refuse(e, "arithmetic on something that is no number");
    x = as_real(a);
    y = as_real(b);
    if ((op == OP_FLOOR || op == OP_DIV || op == OP_MOD) && !eval_truth(b))
        return refuse(e, "a division by zero");
    if (op == OP_DIV)
        return real(e, x / y);
    if (op <= OP_SHR) {
        if (a->type == EVAL_REAL || b->type == EVAL_REAL)
            return refuse(e, "bit arithmetic on something not whole");
        if (op == OP_OR || op == OP_XOR || op == OP_AND) {
            r = op == OP_OR ? a->i | b->i : op == OP_XOR ? a->i ^ b->i
                                                         : a->i & b->i;
            return a->type == EVAL_BOOL && b->type == EVAL_BOOL
                       ? truth(r != 0) : integer(r);
        }
        if (a->i < 0 || b->i < 0 || b->i > 62 ||
            (op == OP_SHL && a->i > INT64_MAX >> b->i))
            return refuse(e, "a shift beyond 64 bits");
        return integer(op == OP_SHL ? a->i << b->i : a->i >> b->i);
    }
    if (a->type == EVAL_REAL || b->type == EVAL_REAL) {
        switch (op) {
        case OP_ADD: return real(e, x + y);
        case OP_SUB: return real(e, x - y);
        case OP_MUL: return real(e, x * y);
        case OP_FLOOR: return real(e, floor(x / y));
        case OP_MOD:
        default: {
            double m = fmod(x, y);
            return real(e, (m < 0.0 || m > 0.0) && (m < 0.0) != (y < 0.0)
                               ? m + y : m);
        }
        }
    }
    if ((op == OP_FLOOR || op == OP_MOD) && a->i == INT64_MIN && b->i == -1)
        return refuse(e, "a whole number beyond 64 bits");
    switch (op) {
    case OP_ADD:
        if (__builtin_add_overflow(a->i, b->i, &r))
            return refuse(e, "a whole number beyond 64 bits");
        return integer(r);
    case OP_SUB:
        if (__builtin_sub_overflow(a->i, b->i, &r))
            return refuse(e, "a whole number beyond 64 bits");
        return integer(r);
    case OP_MUL:
        if (__builtin_mul_overflow(a->i, b->i, &r))
            return refuse(e, "a whole number beyond 64 bits");
        return integer(r);
    case OP_FLOOR: return integer(floor_div(a->i, b->i));
    case OP_MOD:
    default: return integer(a->i - floor_div(a->i, b->i) * b->i);
    }
}

/* -------------------------------------------------------------- lists */

static eval_value list_new(eval *e, size_t n)
{
    eval_value v = none();
    v.type = EVAL_LIST;
    if (n > EVAL_ITEMS || e->pool->bytes > (size_t)64 << 20)
        return refuse(e, "a list that is too long");
    v.item = (eval_value *)json_pool_take(e->pool, n * sizeof *v.item);
    v.n = n;
    return v;
}

/* Append; the room doubles. */
static void list_add(eval *e, eval_value *list, size_t *cap,
                     const eval_value *v)
{
    if (e->why)
        return;
    if (list->n == *cap) {
        eval_value more = list_new(e, *cap ? 2 * *cap : 8);
        if (e->why)
            return;
        if (list->n)
            memcpy(more.item, list->item, list->n * sizeof *list->item);
        *cap = more.n;
        list->item = more.item;
    }
    list->item[list->n++] = *v;
}

static eval_value range(eval *e, const eval_value *args)
{
    int64_t from = 0, to, step = 1, k;
    uint64_t span, n;
    eval_value v;
    size_t i;
    for (i = 0; i < args->n; i++)
        if (args->item[i].type != EVAL_INT && args->item[i].type != EVAL_BOOL)
            return refuse(e, "a range of something not whole");
    if (args->n < 1 || args->n > 3)
        return refuse(e, "range wants 1 to 3 numbers");
    to = args->item[args->n > 1 ? 1 : 0].i;
    if (args->n > 1)
        from = args->item[0].i;
    if (args->n > 2)
        step = args->item[2].i;
    if (step == 0 || step == INT64_MIN)
        return refuse(e, "a range with step 0");
    if ((step > 0 && from >= to) || (step < 0 && from <= to))
        return list_new(e, 0);
    span = step > 0 ? (uint64_t)to - (uint64_t)from
                    : (uint64_t)from - (uint64_t)to;
    n = (span - 1) / (uint64_t)(step > 0 ? step : -step) + 1;
    if (n > EVAL_ITEMS)
        return refuse(e, "a list that is too long");
    v = list_new(e, (size_t)n);
    for (k = 0; k < (int64_t)v.n; k++)
        v.item[k] = integer(from + k * step);
    return v;
}

static eval_value number_of(eval *e, const eval_value *v, int whole)
{
    if (!is_number(v))
        return refuse(e, "int and float want a number");
    if (!whole)
        return real(e, as_real(v));
    if (v->type != EVAL_REAL)
        return integer(v->i);
    if (!(v->x > -9.2e18 && v->x < 9.2e18))
        return refuse(e, "a whole number beyond 64 bits");
    return integer((int64_t)v->x);
}

/* min and max */
static eval_value extreme(eval *e, const eval_value *args, int sign)
{
    const eval_value *list = args->n == 1 &&
                             args->item[0].type == EVAL_LIST
                                 ? &args->item[0] : args;
    const eval_value *best;
    size_t i;
    if (list->n == 0)
        return refuse(e, "min or max of nothing");
    best = &list->item[0];
    for (i = 1; i < list->n; i++) {
        int c = compare(&list->item[i], best);
        if (c == 2)
            return refuse(e, "min or max of things without an order");
        if (c == sign)
            best = &list->item[i];
    }
    return *best;
}

static eval_value call(eval *e, const char *f, size_t n,
                       const eval_value *args)
{
    static const char *const names[] = {"min", "max", "abs", "int", "float",
                                        "len", "range", "list", "tuple",
                                        "sum"};
    const eval_value *a = args->n ? &args->item[0] : NULL;
    eval_value v;
    size_t k, i;
    for (k = 0; k < sizeof names / sizeof names[0]; k++)
        if (strlen(names[k]) == n && memcmp(names[k], f, n) == 0)
            break;
    if (k == sizeof names / sizeof names[0])
        return refuse(e, "a function that is not known here");
    if (e->skip)
        return none();
    if (k == 0 || k == 1)
        return extreme(e, args, k == 0 ? -1 : 1);
    if (k == 6)
        return range(e, args);
    if (args->n != 1)
        return refuse(e, "a function wants one argument");
    switch (k) {
    case 2:
        if (!is_number(a))
            return refuse(e, "abs wants a number");
        v = integer(0);
        return compare(a, &v) < 0 ? arithmetic(e, OP_SUB, &v, a) : *a;
    case 3: return number_of(e, a, 1);
    case 4: return number_of(e, a, 0);
    case 5:
        if (a->type != EVAL_LIST && a->type != EVAL_TEXT)
            return refuse(e, "len of something that has none");
        return integer((int64_t)a->n);
    case 7:
    case 8:
        return a->type == EVAL_LIST ? *a : refuse(e, "list wants a list");
    default:
        if (a->type != EVAL_LIST)
            return refuse(e, "sum wants a list");
        v = integer(0);
        for (i = 0; i < a->n && !e->why; i++)
            v = arithmetic(e, OP_ADD, &v, &a->item[i]);
        return v;
    }
}

/* ------------------------------------------------------------- parser */

static eval_value expression(eval *e);
static eval_value disjunction(eval *e);

/* Items up to `close`; *comma says whether there was one. */
static eval_value items(eval *e, char close, int *comma)
{
    eval_value list = list_new(e, 0), v;
    size_t cap = 0;
    *comma = 0;
    list.item = NULL;
    while (!e->why && peek(e) != close) {
        v = expression(e);
        list_add(e, &list, &cap, &v);
        if (peek(e) != ',')
            break;
        e->i++;
        *comma = 1;
    }
    if (!e->why && peek(e) != close)
        return refuse(e, "a bracket that does not close");
    e->i += !e->why;
    return list;
}

static eval_value comprehension(eval *e, size_t body)
{
    eval_value list = none(), over, v;
    size_t cap = 0, k, condition = 0, end = 0;
    size_t n = name_here(e);
    list.type = EVAL_LIST;
    if (n == 0 || e->vars == 8)
        return refuse(e, "a comprehension without a name");
    e->var[e->vars] = e->s + e->i;
    e->n_var[e->vars] = n;
    e->i += n;
    if (!take_word(e, "in"))
        return refuse(e, "a comprehension without in");
    over = disjunction(e);
    if (take_word(e, "if")) {
        condition = e->i;
        e->skip++;
        disjunction(e);
        e->skip--;
    }
    if (!e->why && peek(e) != ']')
        return refuse(e, "a bracket that does not close");
    end = e->i + 1;
    if (e->why || (!e->skip && over.type != EVAL_LIST))
        return refuse(e, "a comprehension over something not a list");
    e->vars++;
    for (k = 0; !e->skip && k < over.n && !e->why; k++) {
        e->var_value[e->vars - 1] = over.item[k];
        if (condition) {
            e->i = condition;
            v = disjunction(e);
            if (!eval_truth(&v))
                continue;
        }
        e->i = body;
        v = expression(e);
        list_add(e, &list, &cap, &v);
    }
    e->vars--;
    if (!e->why)
        e->i = end;
    return list;
}

static eval_value bracket(eval *e)
{
    size_t body = e->i;
    int comma;
    if (peek(e) != ']') {
        e->skip++;
        expression(e);
        e->skip--;
        if (e->why)
            return none();
        if (take_word(e, "for"))
            return comprehension(e, body);
        /* walked over once is enough, else nesting doubles the work */
        if (!e->skip)
            e->i = body;
        else if (peek(e) == ',')
            e->i++;
    }
    return items(e, ']', &comma);
}

static eval_value text(eval *e)
{
    char quote = e->s[e->i++], *p;
    eval_value v = none();
    size_t k = e->i, n = 0;
    while (k < e->n && e->s[k] != quote && e->s[k] != '\n')
        k += e->s[k] == '\\' && k + 1 < e->n ? 2 : 1;
    if (k >= e->n || e->s[k] != quote)
        return refuse(e, "a string that does not end");
    p = (char *)json_pool_take(e->pool, k - e->i + 1);
    for (; e->i < k; e->i++) {
        if (e->s[e->i] == '\\')
            e->i++; /* only quotes and backslashes are known */
        p[n++] = e->s[e->i];
    }
    e->i = k + 1;
    v.type = EVAL_TEXT;
    v.p = p;
    v.n = n;
    return v;
}

static eval_value number(eval *e)
{
    size_t k = e->i, n = 0, end = 0;
    char buf[128];
    int whole = 1;
    int64_t i = 0;
    double x = 0.0;
    if (e->s[k] == '.')
        buf[n++] = '0';
    for (; k < e->n && n + 3 < sizeof buf; k++) {
        char c = e->s[k];
        if ((c == '+' || c == '-') &&
            !(k > e->i && (e->s[k - 1] == 'e' || e->s[k - 1] == 'E')))
            break;
        if (!(c >= '0' && c <= '9') && c != '.' && c != 'e' && c != 'E' &&
            c != '+' && c != '-')
            break;
        if (!(c >= '0' && c <= '9'))
            whole = 0;
        buf[n++] = c;
        if (c == '.' && !(k + 1 < e->n && e->s[k + 1] >= '0' &&
                          e->s[k + 1] <= '9'))
            buf[n++] = '0'; /* "1." */
    }
    if (k < e->n && word_char(e->s[k], 0))
        return refuse(e, "a number that is none");
    e->i = k;
    if (whole) {
        for (k = 0; k < n; k++)
            if (__builtin_mul_overflow(i, 10, &i) ||
                __builtin_add_overflow(i, buf[k] - '0', &i))
                return refuse(e, "a whole number beyond 64 bits");
        return integer(i);
    }
    if (metatune_number_read(buf, n, &x, &end) != METATUNE_OK || end != n)
        return refuse(e, "a number that is none");
    return real(e, x);
}

static eval_value name(eval *e, size_t n)
{
    const char *p = e->s + e->i;
    size_t k;
    int v, comma;
    e->i += n;
    if (peek(e) == '(') {
        eval_value args;
        e->i++;
        args = items(e, ')', &comma);
        return e->why ? none() : call(e, p, n, &args);
    }
    if (n == 4 && memcmp(p, "True", 4) == 0)
        return truth(1);
    if (n == 5 && memcmp(p, "False", 5) == 0)
        return truth(0);
    if (n == 4 && memcmp(p, "None", 4) == 0)
        return none();
    if (e->skip) /* a comprehension's variable is not bound yet */
        return none();
    for (v = e->vars; v-- > 0;)
        if (e->n_var[v] == n && memcmp(e->var[v], p, n) == 0)
            return e->var_value[v];
    for (k = 0; e->names && k < e->names->n; k++)
        if (strlen(e->names->name[k]) == n &&
            memcmp(e->names->name[k], p, n) == 0)
            return e->names->value[k];
    return refuse(e, "a name that is no parameter");
}

static eval_value atom(eval *e)
{
    char c = peek(e);
    eval_value v;
    size_t n;
    int comma = 0;
    if (c == '(') {
        e->i++;
        v = items(e, ')', &comma);
        if (!e->why && v.n == 1 && !comma)
            return v.item[0];
        return v;
    }
    if (c == '[') {
        e->i++;
        return bracket(e);
    }
    if (c == '\'' || c == '"')
        return text(e);
    if ((c >= '0' && c <= '9') || c == '.')
        return number(e);
    n = name_here(e);
    return n ? name(e, n) : refuse(e, c ? "a character that is not expected"
                                        : "it ends too early");
}

static eval_value unary(eval *e)
{
    eval_value v, zero = integer(0), right;
    if (++e->depth > EVAL_DEPTH || ++e->steps > EVAL_STEPS)
        return refuse(e, "too deep or too much work");
    if (take(e, "-")) {
        v = unary(e);
        v = e->why ? v : arithmetic(e, OP_SUB, &zero, &v);
    } else if (take(e, "+")) {
        v = unary(e);
        v = e->why ? v : arithmetic(e, OP_ADD, &zero, &v);
    } else {
        v = atom(e);
        if (!e->why && take(e, "**")) {
            right = unary(e);
            if (!e->why && !e->skip)
                v = is_number(&v) && is_number(&right)
                        ? power(e, &v, &right)
                        : refuse(e, "a power of something that is no number");
        }
    }
    e->depth--;
    return v;
}

static const char *const op_text[] = {"|", "^", "&", "<<", ">>", "+", "-",
                                      "*", "//", "/", "%"};
static const int op_level[] = {0, 1, 2, 3, 3, 4, 4, 5, 5, 5, 5};

static int operator_here(eval *e, int level)
{
    int op;
    for (op = 0; op < OP_NONE; op++)
        if (op_level[op] == level && take(e, op_text[op]))
            return op;
    return OP_NONE;
}

static eval_value binary(eval *e, int level)
{
    eval_value a = level > 5 ? unary(e) : binary(e, level + 1), b;
    int op;
    while (level <= 5 && !e->why &&
           (op = operator_here(e, level)) != OP_NONE) {
        b = binary(e, level + 1);
        if (!e->why)
            a = arithmetic(e, op, &a, &b);
    }
    return a;
}

enum { CMP_NONE, CMP_EQ, CMP_NE, CMP_LE, CMP_GE, CMP_LT, CMP_GT, CMP_IN,
       CMP_NOT_IN };

static int comparison_here(eval *e)
{
    size_t i;
    if (take(e, "==")) return CMP_EQ;
    if (take(e, "!=")) return CMP_NE;
    if (take(e, "<=")) return CMP_LE;
    if (take(e, ">=")) return CMP_GE;
    if (take(e, "<")) return CMP_LT;
    if (take(e, ">")) return CMP_GT;
    if (take_word(e, "in")) return CMP_IN;
    i = e->i;
    if (take_word(e, "not")) {
        if (take_word(e, "in")) return CMP_NOT_IN;
        e->i = i;
    }
    return CMP_NONE;
}

static int holds(eval *e, int op, const eval_value *a, const eval_value *b)
{
    size_t i;
    int c;
    if (op == CMP_EQ || op == CMP_NE)
        return equal(a, b, 0) == (op == CMP_EQ);
    if (op == CMP_IN || op == CMP_NOT_IN) {
        int found = 0;
        if (b->type != EVAL_LIST) {
            refuse(e, "in wants a list");
            return 0;
        }
        for (i = 0; i < b->n && !found; i++)
            found = equal(a, &b->item[i], 0);
        return found == (op == CMP_IN);
    }
    c = compare(a, b);
    if (c == 2)
        refuse(e, "a comparison of things without an order");
    return op == CMP_LE ? c <= 0 : op == CMP_GE ? c >= 0 : op == CMP_LT
               ? c < 0 : c > 0;
}

static eval_value comparison(eval *e)
{
    eval_value a = binary(e, 0), b;
    int op, so_far = 1, chained = 0;
    while (!e->why && (op = comparison_here(e)) != CMP_NONE) {
        b = binary(e, 0);
        if (!e->why && !e->skip && so_far)
            so_far = holds(e, op, &a, &b);
        a = b;
        chained = 1;
    }
    return chained && !e->skip ? truth(so_far) : a;
}

static eval_value negation(eval *e)
{
    eval_value v;
    if (!take_word(e, "not"))
        return comparison(e);
    if (++e->depth > EVAL_DEPTH)
        return refuse(e, "too deep or too much work");
    v = negation(e);
    e->depth--;
    return e->skip ? v : truth(!eval_truth(&v));
}

/* and, or: the deciding value itself; what comes after is not evaluated. */
static eval_value junction(eval *e, const char *word, int stop)
{
    eval_value a, b;
    int skipped = 0;
    a = stop ? junction(e, "and", 0) : negation(e);
    while (!e->why && take_word(e, word)) {
        if (!e->skip && !skipped && eval_truth(&a) == stop)
            skipped = 1;
        e->skip += skipped;
        b = stop ? junction(e, "and", 0) : negation(e);
        e->skip -= skipped;
        if (!skipped)
            a = b;
    }
    return a;
}

static eval_value disjunction(eval *e)
{
    return junction(e, "or", 1);
}

static eval_value expression(eval *e)
{
    eval_value v, c, other;
    size_t start = e->i, end;
    int yes;
    if (++e->depth > EVAL_DEPTH)
        return refuse(e, "too deep or too much work");
    /* `a if c else b`: a is walked over until c is known */
    e->skip++;
    disjunction(e);
    e->skip--;
    if (!e->why && take_word(e, "if")) {
        c = disjunction(e);
        if (!e->why && !take_word(e, "else"))
            refuse(e, "an if without else");
        yes = eval_truth(&c);
        e->skip += yes;
        other = e->why ? none() : expression(e);
        e->skip -= yes;
        end = e->i;
        if (!e->why && yes && !e->skip) {
            e->i = start;
            v = disjunction(e);
            e->i = e->why ? e->i : end;
        } else {
            v = other;
        }
    } else if (!e->why && !e->skip) {
        e->i = start;
        v = disjunction(e);
    } else {
        v = none();
    }
    e->depth--;
    return v;
}

int eval_text(json_pool *pool, const char *s, size_t n,
              const eval_names *names, eval_value *value, const char **why)
{
    eval e;
    memset(&e, 0, sizeof e);
    e.pool = pool;
    e.s = s;
    e.n = n;
    e.names = names;
    *value = expression(&e);
    if (!e.why && peek(&e) != 0)
        refuse(&e, "something follows its end");
    *why = e.why;
    return !e.why;
}
