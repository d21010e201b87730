/* cmd_records.c - metatune records: merge, filter, dedupe and check logs

   Lines travel as they are, byte for byte: unknown fields and lines of other
   versions survive. Torn lines are counted and left out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_util.h"
#include "io.h"

enum { RECORDS_MERGE, RECORDS_FILTER, RECORDS_DEDUPE, RECORDS_CHECK };

typedef struct records_options {
    int verb;
    char **log;
    size_t n_logs;
    const char *task, *target, *status, *out;
    int json;
} records_options;

static int records_parse(records_options *o, int argc, char **argv)
{
    static const char *const verbs[] = {"merge", "filter", "dedupe", "check"};
    cmd_args args;
    int st = CMD_OK, i;
    memset(o, 0, sizeof *o);
    o->verb = -1;
    o->log = (char **)cmd_alloc(((size_t)argc + 1) * sizeof *o->log);
    cmd_args_init(&args, "records", argc, argv);
    while (st == CMD_OK && cmd_args_next(&args)) {
        if (!args.name[0] && o->verb < 0) {
            for (i = 0; i < 4; i++)
                if (strcmp(args.value, verbs[i]) == 0)
                    o->verb = i;
            if (o->verb < 0)
                st = cmd_fail(CMD_USAGE, "records: unknown verb \"%s\"; want "
                              "merge, filter, dedupe or check", args.value);
        } else if (!args.name[0]) {
            o->log[o->n_logs++] = argv[args.i - 1];
        } else if (cmd_args_is(&args, "--task")) {
            st = cmd_args_text(&args, &o->task);
        } else if (cmd_args_is(&args, "--target")) {
            st = cmd_args_text(&args, &o->target);
        } else if (cmd_args_is(&args, "--status")) {
            st = cmd_args_text(&args, &o->status);
            if (st == CMD_OK && io_status_find(o->status,
                                               strlen(o->status)) < 0)
                st = cmd_fail(CMD_USAGE, "records: unknown --status \"%s\"; "
                              "want ok, compile, runtime, timeout, wrong...",
                              o->status);
        } else if (cmd_args_is(&args, "--out")) {
            st = cmd_args_text(&args, &o->out);
        } else if (cmd_args_is(&args, "--json")) {
            st = cmd_args_flag(&args);
            o->json = 1;
        } else {
            st = cmd_args_unknown(&args);
        }
    }
    if (st == CMD_OK && o->verb < 0)
        st = cmd_fail(CMD_USAGE, "records: say merge, filter, dedupe or "
                      "check");
    if (st == CMD_OK && !o->n_logs)
        st = cmd_fail(CMD_USAGE, "records: no log given");
    if (st == CMD_OK && o->verb == RECORDS_FILTER && !o->task && !o->target &&
        !o->status)
        st = cmd_fail(CMD_USAGE, "records: filter by what? give --task, "
                      "--target or --status");
    return st;
}

static int wanted(const records_options *o, const metatune_record *r)
{
    if (o->task && !io_text_is(r->task, o->task))
        return 0;
    if (o->target && !io_text_is(r->target, o->target))
        return 0;
    if (o->status && (r->kind != METATUNE_RECORD_TRIAL ||
                      (int)r->status != io_status_find(o->status,
                                                       strlen(o->status))))
        return 0;
    return 1;
}

/* Lines seen, open addressing over 64-bit hashes. */
typedef struct line_set {
    uint64_t *hash;
    size_t n, cap;               /* cap is a power of two */
} line_set;

/* 1 when it was new. */
static int line_set_add(line_set *set, const char *p, size_t n)
{
    uint64_t h = metatune_encode_hash(1, p, n) | 1; /* 0 = free */
    size_t i;
    if (2 * (set->n + 1) > set->cap) {
        line_set more;
        memset(&more, 0, sizeof more);
        more.cap = set->cap ? 2 * set->cap : 1024;
        more.hash = (uint64_t *)cmd_alloc(more.cap * sizeof *more.hash);
        memset(more.hash, 0, more.cap * sizeof *more.hash);
        for (i = 0; i < set->cap; i++) {
            size_t j = (size_t)set->hash[i] & (more.cap - 1);
            if (!set->hash[i])
                continue;
            while (more.hash[j])
                j = (j + 1) & (more.cap - 1);
            more.hash[j] = set->hash[i];
        }
        more.n = set->n;
        free(set->hash);
        *set = more;
    }
    for (i = (size_t)h & (set->cap - 1); set->hash[i];
         i = (i + 1) & (set->cap - 1))
        if (set->hash[i] == h)
            return 0;
    set->hash[i] = h;
    set->n++;
    return 1;
}

static int records_run(int argc, char **argv)
{
    records_options o;
    io_logs logs;
    metatune_record r;
    metatune_text line;
    cmd_text text;
    line_set seen;
    size_t kept = 0, twice = 0, other = 0, kinds[3] = {0, 0, 0}, failed = 0;
    int st = records_parse(&o, argc, argv), step;
    memset(&text, 0, sizeof text);
    memset(&seen, 0, sizeof seen);
    if (st != CMD_OK) {
        free(o.log);
        return st;
    }
    st = io_logs_open(&logs, "records", o.n_logs, o.log);
    while (st == CMD_OK && (step = io_logs_step(&logs, &r, &line)) != IO_END) {
        if (step == IO_BAD)
            continue;
        if (step == IO_GOOD) {
            kinds[r.kind >= 0 && r.kind < 3 ? r.kind : 0]++;
            failed += r.kind == METATUNE_RECORD_TRIAL &&
                      r.status != METATUNE_OK;
        }
        /* what a later version says cannot be asked: only filter drops it */
        if (o.verb == RECORDS_CHECK ||
            (o.verb == RECORDS_FILTER &&
             (step != IO_GOOD || !wanted(&o, &r)))) {
            other++;
            continue;
        }
        if (o.verb == RECORDS_DEDUPE && !line_set_add(&seen, line.p, line.n)) {
            twice++;
            continue;
        }
        cmd_text_bytes(&text, line.p, line.n);
        cmd_text_bytes(&text, "\n", 1);
        kept++;
    }
    if (st == CMD_OK && o.verb == RECORDS_CHECK) {
        printf(o.json ? "{\"trials\":%zu,\"failed\":%zu,\"tasks\":%zu,"
               "\"ends\":%zu,\"torn\":%zu,\"other_version\":%zu}\n"
               : "%zu trials (%zu failed), %zu tasks, %zu ends; %zu torn or "
               "foreign lines, %zu of another version\n", kinds[0], failed,
               kinds[1], kinds[2], logs.n_bad, logs.n_newer);
        if (logs.n_bad)
            st = CMD_FAILED;
    } else if (st == CMD_OK) {
        if (!o.out)
            fwrite(text.p ? text.p : "", 1, text.n, stdout);
        else if (cmd_file_write(o.out, text.p ? text.p : "", text.n))
            st = cmd_fail(CMD_FAILED, "records: cannot write %s: %s", o.out,
                          strerror(errno));
        if (st == CMD_OK)
            fprintf(stderr, "metatune: records: %zu lines kept, %zu twice, "
                    "%zu not wanted, %zu torn or foreign\n", kept, twice,
                    other, logs.n_bad);
    }
    cmd_text_free(&text);
    io_logs_free(&logs);
    free(seen.hash);
    free(o.log);
    return st;
}

const cmd_command cmd_records = {
    "records", "merge, filter, dedupe or check record logs",
    "usage: metatune records merge|filter|dedupe|check LOG... [OPTIONS]\n"
    "\n"
    "  merge             all good lines of all logs, in order\n"
    "  filter            those of --task KEY, --target KEY, --status WORD\n"
    "  dedupe            each line once\n"
    "  check             count; exit status 1 when a line is torn\n"
    "  --out FILE        instead of standard output; --json: check's counts\n"
    "\n"
    "Lines are copied byte for byte: fields this version does not know, and\n"
    "lines of other versions (but by filter), survive. Torn lines are counted\n"
    "on standard error and left out. Several processes may append to one log\n"
    "at a time: a line is one write.\n",
    records_run
};
