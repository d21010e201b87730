/* test_interop.c - JSON, expressions, numbers, importers and exporters

   Importers meet every truncation of small files and random byte flips (the
   seed is printed; METATUNE_SEED sets it). What they emit is always a record
   that decodes, and a whole entry is never lost to a torn one. */
#define _XOPEN_SOURCE 700
#define METATUNE_IMPLEMENTATION
#include "metatune.h"

#include <locale.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "cmd_util.h"
#include "io.h"
#include "io_eval.h"
#include "json.h"

typedef int (*reader)(io_import *io, const char *s, size_t n);

static uint64_t seed = 1;

/* A copy of exactly n bytes, so that a sanitizer sees reads past it. */
static int import(io_import *io, reader read, const char *s, size_t n)
{
    char *copy = (char *)malloc(n ? n : 1);
    int good;
    memset(io, 0, sizeof *io);
    memcpy(copy, s, n);
    good = read(io, copy, n);
    free(copy);
    return good;
}

static void import_free(io_import *io)
{
    cmd_text_free(&io->lines);
    json_pool_free(&io->pool);
}

/* The k-th record (0...) of an import. */
static int record_at(const io_import *io, size_t k, metatune_record *r)
{
    size_t pos = 0;
    metatune_status st;
    do
        st = metatune_log_next(io->lines.p, io->lines.n, &pos, r);
    while (st == METATUNE_OK && k-- > 0);
    return st == METATUNE_OK;
}

static int same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* --------------------------------------------------------------- JSON */

static int reads(const char *s, size_t n)
{
    json_pool pool;
    const char *why = NULL;
    char *copy = (char *)malloc(n ? n : 1);
    int good;
    memset(&pool, 0, sizeof pool);
    memcpy(copy, s, n);
    good = json_read(&pool, copy, n, &why) != NULL;
    CHECK(good || why);
    json_pool_free(&pool);
    free(copy);
    return good;
}

static void test_json_accepts_and_refuses(void)
{
    static const char *const good[] = {
        "{}", "[]", " [1, -2.5e-3, 0, 1E5] ", "\"\\u00e9\\n\\\\\"", "null",
        "{\"a\":{\"b\":[true,false,null]}}", "[NaN, -Infinity, Infinity]",
        "\"\\ud83d\\ude00\"", "0.0"
    };
    static const char *const bad[] = {
        "", "{", "[1,]", "{\"a\":1,}", "{a:1}", "01", "1.", ".5", "+1", "1e",
        "- 1", "\"\\x\"", "\"\\u12g4\"", "\"", "\"a\nb\"", "tru", "nulll",
        "[1 2]", "{\"a\" 1}", "{} {}", "'a'", "[1]]", "{\"a\"}"
    };
    size_t i;
    char deep[200];
    for (i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!reads(good[i], strlen(good[i])))
            check_fault(__FILE__, __LINE__, good[i]);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (reads(bad[i], strlen(bad[i])))
            check_fault(__FILE__, __LINE__, bad[i]);
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    CHECK(!reads(deep, 200));
    CHECK(!reads(deep, 100));
    CHECK(reads(deep + 100 - JSON_DEPTH, 2 * JSON_DEPTH));
    CHECK(!reads(deep + 99 - JSON_DEPTH, 2 * JSON_DEPTH + 2));
}

static void test_json_values(void)
{
    static const char text[] =
        "{\"n\": 12345678901234567890, \"m\": -7, \"x\": 0.1, \"s\": \"a\\tb\","
        " \"big\": 1e999, \"x\": 0.25, \"z\": \"\\u0000\"}";
    json_pool pool;
    const char *why = NULL;
    const json_value *v;
    uint64_t u = 0;
    int64_t i = 0;
    double x = 0.0;
    cmd_text t;
    memset(&pool, 0, sizeof pool);
    memset(&t, 0, sizeof t);
    v = json_read(&pool, text, sizeof text - 1, &why);
    CHECK(v != NULL);
    CHECK(json_u64(json_get(v, "n"), &u) && u == 12345678901234567890ULL);
    CHECK(!json_i64(json_get(v, "n"), &i));
    CHECK(json_i64(json_get(v, "m"), &i) && i == -7);
    CHECK(json_double(json_get(v, "x"), &x) && same_bits(x, 0.25));
    CHECK(json_says(json_get(v, "s"), "a\tb"));
    CHECK(!json_double(json_get(v, "big"), &x));
    CHECK(json_get(v, "z")->n == 1);
    CHECK(json_get(v, "absent") == NULL && json_at(v, 0) == NULL);
    json_write_text(&t, "\xC3\xA9\xFF\"\x01", 5);
    CHECK_STR(t.p, "\"\xC3\xA9\\u00ff\\\"\\u0001\"");
    cmd_text_free(&t);
    json_pool_free(&pool);
}

/* ------------------------------------------------------------ numbers */

static void test_numbers_shift(void)
{
    static const struct { double x; int shift; const char *text; } known[] = {
        {0.001, 3, "1"}, {1.5, 3, "1500"}, {0.0038753279224038124, 3,
        "3.875327922403812"}, {1e-9, 3, "0.000001"}, {5e-324, 3, "5e-321"},
        {1.7976931348623157e308, 3, "1.7976931348623157e311"},
        {123456.789, -3, "123.456789"}, {0.5, 0, "0.5"}
    };
    metatune_encode_rng rng;
    char buf[80];
    double x, y;
    size_t i, n;
    int bad = 0;
    for (i = 0; i < sizeof known / sizeof known[0]; i++) {
        n = io_number_write(known[i].x, known[i].shift, buf, sizeof buf);
        CHECK(n == strlen(known[i].text));
        CHECK_STR(buf, known[i].text);
        CHECK(io_number_read(buf, n, -known[i].shift, &y) &&
              same_bits(y, known[i].x));
    }
    metatune_encode_rng_init(&rng, seed, 0);
    for (i = 0; i < 200000; i++) {
        uint64_t bits = metatune_encode_rng_next(&rng);
        memcpy(&x, &bits, sizeof x);
        if (!(x - x < 1.0))
            continue;
        n = io_number_write(x, 3, buf, sizeof buf);
        if (!n || !io_number_read(buf, n, -3, &y) || !same_bits(x, y))
            bad++;
    }
    CHECK_INT(bad, 0);
    CHECK(!io_number_read("1e", 2, -3, &x));
    CHECK(!io_number_read("1x", 2, -3, &x));
    CHECK(!io_number_read("", 0, -3, &x));
    CHECK(!io_number_read("nan", 3, -3, &x));
}

/* -------------------------------------------------------- expressions */

static int evaluate(const char *s, eval_value *v, json_pool *pool)
{
    static const char *const names[] = {"a", "b", "s", "zero"};
    static eval_value values[4];
    eval_names n;
    const char *why = NULL;
    char *copy = (char *)json_pool_take(pool, strlen(s) + 1);
    int good;
    memset(values, 0, sizeof values);
    values[0].type = values[1].type = values[3].type = EVAL_INT;
    values[0].i = 16;
    values[1].i = -7;
    values[2].type = EVAL_TEXT;
    values[2].p = "abc";
    values[2].n = 3;
    n.n = 4;
    n.name = names;
    n.value = values;
    memcpy(copy, s, strlen(s));
    good = eval_text(pool, copy, strlen(s), &n, v, &why);
    CHECK(good == !why);
    return good;
}

static void test_eval_values(void)
{
    /* each is true in Python */
    static const char *const yes[] = {
        "a == 16", "b // 2 == -4", "b % 3 == 2", "7 % -3 == -2",
        "-7 / 2 == -3.5", "2 ** 10 == 1024", "-2 ** 2 == -4", "2 ** -1 == 0.5",
        "2 ** 3 ** 2 == 512", "1 < a <= 16 != 17", "not 1 < a < 3",
        "a in [1, 2, 16]", "a not in (1, 2)", "s in ['abc', \"x\"]",
        "zero == 0 or a % zero == 1", "not (zero and 1 // zero)",
        "(a if zero else b) == -7", "(1 if a > 3 else 1 // zero) == 1",
        "min(a, b, 3) == -7 and max([1, a]) == 16", "abs(b) == 7",
        "len(range(1, 9)) == 8", "sum([x * x for x in range(4)]) == 14",
        "[2 ** i for i in range(5)] == [1, 2, 4, 8, 16]",
        "[x for x in range(10) if x % 3 == 0] == [0, 3, 6, 9]",
        "list(range(8, 0, -2)) == [8, 6, 4, 2]", "int(7.9) == 7",
        "7.5 // 2 == 3.0", "-7.5 % 2 == 0.5", "True and not False",
        "(3 or 1 // 0) == 3", "(a & 24) == 16", "1 << 4 | 1 == 17 or a",
        "a >> 2 == 4", ".5 + 1. == 1.5", "1e3 == 1000", "(1,) == (1,)",
        "None == None", "True + 1 == 2", "[[y for y in range(x)] for x in "
        "range(3)] == [[], [0], [0, 1]]", "a * a // 3 == 85", "s == 'abc'"
    };
    static const char *const no[] = {
        "", "1 +", "a b", "(1", "[1", "1 // zero", "1 % zero", "1 / 0", "q",
        "__import__('os')", "open('x')", "a.b", "a[0]", "9223372036854775807"
        " + 1", "99999999999999999999", "2 ** 64", "1 << 63", "'abc' + 1",
        "1 < 'a'", "range(10 ** 9)", "range(1, 2, 0)", "lambda: 1", "a = 3",
        "'a", "1 if 2", "[x for x in 3]", "min([])", "in", "not", "1e999",
        "max(1, 'a')", "0x", "1__0", "a &&  b", "(-1) ** 0.5", "0 ** -1",
        "[x for x in range(60000) for y in range(3)]",
        "[y for x in range(65536) for y in range(65536)]",
        "sum([sum([sum([1 for z in range(2000)]) for y in range(2000)]) for x "
        "in range(2000)])"
    };
    json_pool pool;
    eval_value v;
    size_t i;
    char deep[4000];
    memset(&pool, 0, sizeof pool);
    for (i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (!evaluate(yes[i], &v, &pool) || !eval_truth(&v))
            check_fault(__FILE__, __LINE__, yes[i]);
    for (i = 0; i < sizeof no / sizeof no[0]; i++) {
        json_pool_reset(&pool);
        if (evaluate(no[i], &v, &pool))
            check_fault(__FILE__, __LINE__, no[i]);
    }
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    CHECK(!evaluate(deep, &v, &pool));
    memset(deep, '[', sizeof deep - 1);
    CHECK(!evaluate(deep, &v, &pool));
    memset(deep, '-', sizeof deep - 1);
    CHECK(!evaluate(deep, &v, &pool));
    for (i = 0; i + 4 < sizeof deep; i += 4)
        memcpy(deep + i, "not ", 4);
    CHECK(!evaluate(deep, &v, &pool));
    for (i = 0; i + 2 < sizeof deep; i += 2)
        memcpy(deep + i, "2^", 2);
    CHECK(!evaluate(deep, &v, &pool)); /* ends in an operator */
    json_pool_free(&pool);
}

static void test_eval_hostile(void)
{
    static const char *const parts[] = {
        "a", "b", "(", ")", "[", "]", " for ", " in ", " if ", " else ",
        " and ", " or ", "not ", "1", "2.5", "+", "-", "*", "**", "//", "%",
        "<", "==", ",", "'x'", "range(", "x", " ", "<<"
    };
    enum { N = sizeof parts / sizeof parts[0] };
    metatune_encode_rng rng;
    json_pool pool;
    eval_value v;
    int i, k, fine = 0;
    memset(&pool, 0, sizeof pool);
    metatune_encode_rng_init(&rng, seed, 1);
    for (i = 0; i < 100000; i++) {
        char s[256] = "";
        int n = 1 + (int)(metatune_encode_rng_next(&rng) % 14);
        for (k = 0; k < n; k++)
            strcat(s, parts[metatune_encode_rng_next(&rng) % N]);
        json_pool_reset(&pool);
        fine += evaluate(s, &v, &pool);
    }
    CHECK(fine > 100); /* not all of it is nonsense */
    json_pool_free(&pool);
}

/* ------------------------------------------------------------ AutoTVM */

#define INPUT "\"input\": [\"cuda\", \"dense.cuda\", [[\"TENSOR\", [1, 8], " \
              "\"float32\"]], {}]"

static const char autotvm[] =
    "# a comment\n"
    "{" INPUT ", \"config\": {\"index\": 5, \"code_hash\": null, \"entity\": "
    "[[\"tile_k\", \"sp\", [-1, 8]], [\"tile_f\", \"sp\", [-1, 2, 16, 4]], "
    "[\"order\", \"re\", [2, 0, 1]], [\"ann\", \"an\", [\"none\", "
    "\"unroll\"]], [\"unroll\", \"ot\", 1500], [\"vec\", \"ot\", false]]}, "
    "\"result\": [[0.002, 0.004], 0, 1.5, 1600000000.25], \"version\": 0.2, "
    "\"tvm_version\": \"0.9.0\"}\n"
    "{" INPUT ", \"config\": {\"index\": 6, \"code_hash\": null, \"entity\": "
    "[[\"tile_k\", \"sp\", [2, 4]]]}, \"result\": [[1000000000.0], 4, 2.5, "
    "1600000001.0], \"version\": 0.2, \"tvm_version\": \"0.9.0\"}\n"
    "\n"
    "{" INPUT ", \"config\": {\"index\": 7, \"code_hash\": null, \"entity\": "
    "[[\"tile_k\", \"sp\", [-1, 4]]]}, \"result\": [[1000000000.0], 0, 2.5, "
    "1600000001.0], \"version\": 0.2, \"tvm_version\": \"0.9.0\"}\n";

static void test_autotvm_values(void)
{
    io_import io;
    metatune_record r;
    CHECK(import(&io, io_autotvm_read, autotvm, sizeof autotvm - 1));
    CHECK_INT(io.n_trials, 3);
    CHECK_INT(io.n_failed, 2);
    CHECK_INT(io.n_bad, 0);
    CHECK_INT(io.n_skipped, 2);
    CHECK(record_at(&io, 0, &r));
    CHECK(r.status == METATUNE_OK && same_bits(r.value, 0.003));
    CHECK(r.n_samples == 2 && same_bits(r.samples[1], 0.004));
    CHECK(io_text_is(r.knobs_json, "{\"tile_k\":8,\"tile_f.1\":2,\"tile_f.2\":"
                     "16,\"tile_f.3\":4,\"order\":\"2,0,1\",\"ann\":\"none,"
                     "unroll\",\"unroll\":1500,\"vec\":0}"));
    CHECK(io_text_is(r.target, "cuda"));
    CHECK(record_at(&io, 1, &r));
    CHECK(r.status == METATUNE_RUNTIME && same_bits(r.value, 0.0));
    CHECK(io_text_is(r.error, "AutoTVM error_no 4 (RUNTIME_DEVICE)"));
    CHECK(io_text_is(r.knobs_json, "{\"tile_k.0\":2,\"tile_k.1\":4}"));
    CHECK(record_at(&io, 2, &r)); /* 1e9 is no time, error_no or not */
    CHECK(r.status == METATUNE_INVALID_TIME);
    import_free(&io);
}

static void test_autotvm_error_classes(void)
{
    static const metatune_status want[] = {
        METATUNE_OK, METATUNE_CONSTRAINT, METATUNE_COMPILE, METATUNE_COMPILE,
        METATUNE_RUNTIME, METATUNE_WRONG, METATUNE_TIMEOUT, METATUNE_TIMEOUT,
        METATUNE_RUNTIME, METATUNE_RUNTIME
    };
    int e;
    for (e = 0; e < 10; e++) {
        io_import io;
        metatune_record r;
        char *line = cmd_format(
            "{" INPUT ", \"config\": {\"entity\": []}, \"result\": [[%s], %d, "
            "1, 1], \"version\": 0.2}", e ? "0.5" : "0.25", e);
        CHECK(import(&io, io_autotvm_read, line, strlen(line)));
        CHECK(record_at(&io, 0, &r));
        CHECK_INT(r.status, want[e]); /* a plausible cost changes nothing */
        CHECK(same_bits(r.value, e ? 0.0 : 0.25));
        import_free(&io);
        free(line);
    }
}

static void test_autotvm_foreign(void)
{
    static const char *const bad[] = {
        "{\"input\": [\"llvm\", \"x\", [], {}], \"config\": {\"entity\": [[1]]"
        "}, \"result\": [[1], 0, 1, 1], \"version\": 0.2}",
        "{" INPUT ", \"config\": {\"entity\": [[\"a\", \"zz\", 1]]}, "
        "\"result\": [[1], 0, 1, 1], \"version\": 0.2}",
        "{" INPUT ", \"config\": {\"entity\": []}, \"result\": [[1], 0, 1, 1]"
        ", \"version\": 0.1}",
        "{" INPUT ", \"config\": {\"entity\": []}, \"result\": []}",
        "[1, 2]", "nonsense", "{\"v\":1,\"kind\":\"trial\"}"
    };
    size_t i;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        io_import io;
        CHECK(!import(&io, io_autotvm_read, bad[i], strlen(bad[i])));
        CHECK(io.n_bad == 1 && io.n_lines == 0 && io.why[0]);
        import_free(&io);
    }
}

/* ------------------------------------------------------- Kernel Tuner */

static const char cache[] =
    "{\n\"device_name\": \"Testing\",\n\"kernel_name\": \"conv\",\n"
    "\"problem_size\": [4096, \"n\"],\n"
    "\"tune_params_keys\": [\"bx\", \"pad\", \"kind\"],\n"
    "\"tune_params\": {\"bx\": [16, 32], \"pad\": [true], \"kind\": [\"a\"]},\n"
    "\"cache\": {\n"
    "\"16,True,a\": {\"bx\": 16, \"pad\": true, \"kind\": \"a\", \"time\": "
    "3.8753279224038124, \"times\": [3.9, 3.8], \"compile_time\": 918.5, "
    "\"benchmark_time\": 126.25, \"GFLOP/s\": NaN, \"timestamp\": \"t0\"},\n"
    "\"32,True,a\": {\"bx\": 32, \"pad\": true, \"kind\": \"a\", \"time\": "
    "\"CompilationFailedConfig\", \"compile_time\": 1},\n"
    "\"48,True,a\": {\"bx\": 48, \"pad\": true, \"kind\": \"a\", \"time\": "
    "\"InvalidConfig\"},\n"
    "\"64,True,a\": {\"bx\": 64, \"pad\": true, \"kind\": \"a\", \"time\": "
    "1e20},\n"
    "\"80,True,a\": {\"bx\": 80, \"pad\": true, \"kind\": \"a\", \"time\": "
    "0.25}\n}\n}\n";

static void test_kernel_tuner_values(void)
{
    io_import io;
    metatune_record r;
    CHECK(import(&io, io_kernel_tuner_read, cache, sizeof cache - 1));
    CHECK_INT(io.n_trials, 5);
    CHECK_INT(io.n_failed, 3);
    CHECK_INT(io.n_bad, 0);
    CHECK(!io.torn);
    CHECK(record_at(&io, 0, &r));
    CHECK(same_bits(r.value, 0.0038753279224038124));
    CHECK(r.n_samples == 2 && same_bits(r.samples[0], 0.0039));
    CHECK(same_bits(r.build_s, 0.9185) && same_bits(r.run_s, 0.12625));
    CHECK(io_text_is(r.knobs_json, "{\"bx\":16,\"pad\":1,\"kind\":\"a\"}"));
    CHECK(io_text_is(r.task, "conv,4096,n"));
    CHECK(io_text_is(r.target, "Testing"));
    CHECK(record_at(&io, 1, &r) && r.status == METATUNE_COMPILE);
    CHECK(io_text_is(r.error, "CompilationFailedConfig"));
    CHECK(record_at(&io, 2, &r) && r.status == METATUNE_CONSTRAINT);
    CHECK(record_at(&io, 3, &r) && r.status == METATUNE_RUNTIME);
    CHECK(record_at(&io, 4, &r) && same_bits(r.value, 0.00025));
    import_free(&io);
}

/* Glued writers: the entry after the damage is read. */
static void test_kernel_tuner_damage(void)
{
    static const char *const cut[] = {"\"32,True,a\": {\"bx\": 32, \"pa",
                                      "\"32,True,a\": {\"bx\": 32, \"pad\": "
                                      "true, \"kind\": \"a\" \"time\"", "\""};
    size_t i;
    for (i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        const char *at = strstr(cache, "\"32,True,a\"");
        const char *next = strstr(cache, "\"48,True,a\"");
        char *text = cmd_format("%.*s%s\n%s", (int)(at - cache), cache,
                                cut[i], next);
        io_import io;
        CHECK(import(&io, io_kernel_tuner_read, text, strlen(text)));
        CHECK_INT(io.n_trials, 4);
        CHECK_INT(io.n_bad, 1);
        import_free(&io);
        free(text);
    }
}

/* ----------------------------------------------------------- T4, CSV */

static const char t4[] =
    "{\"results\": [\n"
    "{\"timestamp\": \"t0\", \"configuration\": {\"bx\": 16, \"pad\": true}, "
    "\"times\": {\"compilation\": 661.5, \"runtimes\": [12.25, 12.5]}, "
    "\"invalidity\": \"correct\", \"correctness\": 1, \"measurements\": "
    "[{\"name\": \"GFLOP/s\", \"value\": 615.5, \"unit\": \"\"}, {\"name\": "
    "\"time\", \"value\": 12.262957006692886, \"unit\": \"ms\"}], "
    "\"objectives\": [\"time\"]},\n"
    "{\"configuration\": {\"bx\": 32, \"pad\": false}, \"times\": {}, "
    "\"invalidity\": \"compile\", \"correctness\": 0, \"measurements\": "
    "[{\"name\": \"time\", \"value\": 1e20}]},\n"
    "{\"configuration\": {\"bx\": 48, \"pad\": false}, \"times\": "
    "{\"runtimes\": [2, 4]}, \"invalidity\": \"correct\", \"correctness\": 1}"
    ",\n"
    "{\"configuration\": {\"bx\": 64, \"pad\": false}, \"times\": {}, "
    "\"invalidity\": \"constraints\", \"correctness\": 0}\n"
    "], \"schema_version\": \"1.0.0\"}\n";

static void test_t4_values(void)
{
    io_import io;
    metatune_record r;
    CHECK(import(&io, io_t4_read, t4, sizeof t4 - 1));
    CHECK_INT(io.n_trials, 4);
    CHECK_INT(io.n_failed, 2);
    CHECK(record_at(&io, 0, &r));
    CHECK(same_bits(r.value, 0.012262957006692886));
    CHECK(r.n_samples == 2 && same_bits(r.samples[0], 0.01225));
    CHECK(same_bits(r.build_s, 0.6615));
    CHECK(io_text_is(r.knobs_json, "{\"bx\":16,\"pad\":1}"));
    CHECK(record_at(&io, 1, &r) && r.status == METATUNE_COMPILE);
    CHECK(same_bits(r.value, 0.0)); /* its 1e20 is no time */
    CHECK(record_at(&io, 2, &r) && same_bits(r.value, 0.003));
    CHECK(record_at(&io, 3, &r) && r.status == METATUNE_CONSTRAINT);
    import_free(&io);
}

static const char csv[] =
    "bx,kind,status,time_ms\n"
    "16,a,ok,15.9801\n"
    "32,\"x,\"\"y\"\"\",compile,\n"
    "48,\"\"\"7\"\"\",TIMEOUT,\n"
    "64,b,ok,0.000123\n";

static void test_csv_values(void)
{
    io_import io;
    metatune_record r;
    CHECK(import(&io, io_csv_read, csv, sizeof csv - 1));
    CHECK_INT(io.n_trials, 4);
    CHECK_INT(io.n_failed, 2);
    CHECK_INT(io.n_bad, 0);
    CHECK(record_at(&io, 0, &r) && same_bits(r.value, 0.0159801));
    CHECK(io_text_is(r.knobs_json, "{\"bx\":16,\"kind\":\"a\"}"));
    CHECK(record_at(&io, 1, &r) && r.status == METATUNE_COMPILE);
    CHECK(io_text_is(r.knobs_json, "{\"bx\":32,\"kind\":\"x,\"y\"\"}"));
    CHECK(record_at(&io, 2, &r) && r.status == METATUNE_TIMEOUT);
    CHECK(io_text_is(r.knobs_json, "{\"bx\":48,\"kind\":\"7\"}"));
    CHECK(record_at(&io, 3, &r) && same_bits(r.value, 1.23e-7));
    import_free(&io);
}

static void test_csv_foreign(void)
{
    static const char *const bad[] = {
        "", "\n", "a,b\n1,2\n", "a,a,time_ms\n1,2,3\n", "\"a,time_ms\n1,2\n",
        ",time_ms\n1,2\n"
    };
    static const char rows[] =
        "\xEF\xBB\xBF" "a,status,time_ms\r\n1,ok,2\r\n\r\n1,ok\r\n1,ok,2,3\r\n"
        "1,odd,1\r\n5,CompilationFailedConfig,\r\n1,ok,abc\r\n1,ok,nan\r\n"
        "2,ok,-5\r\n3,,\r\n4,ok,0.2";
    size_t i;
    io_import io;
    metatune_record r;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(!import(&io, io_csv_read, bad[i], strlen(bad[i])));
        CHECK(io.why[0] && io.n_lines == 0);
        import_free(&io);
    }
    CHECK(import(&io, io_csv_read, rows, sizeof rows - 1));
    CHECK_INT(io.n_bad, 6);
    CHECK_INT(io.n_trials, 4);
    CHECK(record_at(&io, 1, &r) && r.status == METATUNE_COMPILE);
    CHECK(io_text_is(r.error, "CompilationFailedConfig"));
    CHECK(record_at(&io, 2, &r) && r.status == METATUNE_INVALID_TIME);
    CHECK(record_at(&io, 3, &r) && r.status == METATUNE_NOT_RUN);
    import_free(&io);
}

/* ----------------------------------------------------------------- T1 */

#define T1(values, conditions)                                               \
    "{\"ConfigurationSpace\": {\"TuningParameters\": ["                       \
    "{\"Name\": \"x\", \"Type\": \"int\", \"Values\": \"" values "\"},"       \
    "{\"Name\": \"y\", \"Type\": \"int\", \"Values\": \"list(range(1, 4))\"}" \
    ",{\"Name\": \"k\", \"Type\": \"string\", \"Values\": \"['a', 'b']\"}]"   \
    ",\"Conditions\": [" conditions "]},"                                     \
    "\"KernelSpecification\": {\"KernelName\": \"conv\", \"ProblemSize\": "   \
    "[4096]}}"
#define CONDITION(e) "{\"Parameters\": [\"x\"], \"Expression\": \"" e "\"}"

static void test_t1_values(void)
{
    static const char text[] =
        T1("[1, 2, 4, 8]", CONDITION("x * y >= 4") "," CONDITION("2 <= x < 8")
           "," CONDITION("k == 'a' or y != 2"));
    io_import io;
    metatune_record r;
    int x, y, k, n = 0;
    CHECK(import(&io, io_t1_read, text, sizeof text - 1));
    for (x = 1; x <= 8; x *= 2)
        for (y = 1; y < 4; y++)
            for (k = 0; k < 2; k++)
                if (x * y >= 4 && x >= 2 && x < 8 && (k == 0 || y != 2)) {
                    char want[64];
                    snprintf(want, sizeof want,
                             "{\"x\":%d,\"y\":%d,\"k\":\"%c\"}", x, y,
                             'a' + k);
                    CHECK(record_at(&io, (size_t)n, &r));
                    CHECK(io_text_is(r.knobs_json, want));
                    CHECK(r.status == METATUNE_NOT_RUN);
                    CHECK(io_text_is(r.task, "conv,4096"));
                    n++;
                }
    CHECK_INT(io.n_trials, n);
    import_free(&io);
}

static void test_t1_refuses(void)
{
    static const char *const bad[] = {
        T1("[1, 2", ""), T1("[]", ""), T1("3", ""), T1("open('x')", ""),
        T1("[1]", CONDITION("x // 0 > 1")), T1("[1]", CONDITION("q > 1")),
        T1("[1]", CONDITION("x >")), T1("range(60000)", CONDITION("x >= 0")
        "," CONDITION("y >= 0 and k != 'c' and x + y < 0 or True")) "x",
        "{\"ConfigurationSpace\": {}}", "[]", "{",
        "{\"ConfigurationSpace\": {\"TuningParameters\": [{\"Name\": \"x\", "
        "\"Values\": [[1]]}]}}",
        "{\"ConfigurationSpace\": {\"TuningParameters\": [{\"Name\": \"x\", "
        "\"Values\": \"[1]\"}, {\"Name\": \"x\", \"Values\": \"[1]\"}]}}"
    };
    size_t i;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        io_import io;
        if (import(&io, io_t1_read, bad[i], strlen(bad[i])))
            check_fault(__FILE__, __LINE__, bad[i]);
        CHECK(io.why[0]);
        import_free(&io);
    }
}

/* ------------------------------------------------- torn and hostile */

typedef struct sample {
    const char *name;
    reader read;
    const char *text;
    size_t n;
} sample;

static const char t1[] = T1("[1, 2, 4, 8]", CONDITION("x * y >= 4"));

static const sample samples[] = {
    {"autotvm", io_autotvm_read, autotvm, sizeof autotvm - 1},
    {"kernel_tuner", io_kernel_tuner_read, cache, sizeof cache - 1},
    {"t4", io_t4_read, t4, sizeof t4 - 1},
    {"csv", io_csv_read, csv, sizeof csv - 1},
    {"t1", io_t1_read, t1, sizeof t1 - 1}
};
enum { N_SAMPLES = sizeof samples / sizeof samples[0] };

/* How many entries are whole within the first n bytes, counted by hand: each
   ends at the end of a line, but for a comma or nothing more. */
static size_t whole(const sample *f, size_t n)
{
    const char *begin = f->read == io_kernel_tuner_read
                            ? strstr(f->text, "\"cache\"") + 9 : f->text;
    size_t i = (size_t)(begin - f->text), count = 0, from;
    for (from = i; i < f->n; i++) {
        size_t end = i;
        if (f->text[i] != '\n')
            continue;
        if (f->read == io_csv_read) {
            count += from > 0 && i + 1 <= n;
        } else {
            while (end > from && f->text[end - 1] != '}')
                end--;
            count += end > from + 1 && f->text[from] != ']' && end <= n;
        }
        from = i + 1;
    }
    return count;
}

static void test_every_truncation(void)
{
    size_t k, n;
    for (k = 0; k < N_SAMPLES; k++)
        for (n = 0; n <= samples[k].n; n++) {
            io_import io;
            import(&io, samples[k].read, samples[k].text, n);
            if (samples[k].read == io_t1_read) {
                CHECK(n == samples[k].n ? io.n_trials > 0 : !io.n_trials);
            } else if (io.n_trials != whole(&samples[k], n)) {
                printf("    %s cut at %zu: %zu trials, want %zu\n",
                       samples[k].name, n, io.n_trials,
                       whole(&samples[k], n));
                CHECK(!"a whole entry is lost or a torn one taken");
            }
            import_free(&io);
        }
}

static void test_byte_flips(void)
{
    metatune_encode_rng rng;
    size_t k, i;
    metatune_encode_rng_init(&rng, seed, 2);
    for (k = 0; k < N_SAMPLES; k++)
        for (i = 0; i < 4000; i++) {
            char *text = (char *)malloc(samples[k].n);
            size_t flips = 1 + metatune_encode_rng_next(&rng) % 4, m;
            io_import io;
            metatune_record r;
            metatune_status st;
            size_t pos = 0, lines = 0;
            memcpy(text, samples[k].text, samples[k].n);
            for (m = 0; m < flips; m++)
                text[metatune_encode_rng_next(&rng) % samples[k].n] =
                    (char)(unsigned char)(metatune_encode_rng_next(&rng) &
                                          255);
            import(&io, samples[k].read, text, samples[k].n);
            while ((st = metatune_log_next(io.lines.p, io.lines.n, &pos, &r))
                   == METATUNE_OK)
                lines++;
            CHECK(st == METATUNE_NOT_FOUND && lines == io.n_lines);
            import_free(&io);
            free(text);
        }
}

/* Every reader on every other format, and on plain garbage. */
static void test_foreign_formats(void)
{
    char garbage[4096];
    metatune_encode_rng rng;
    io_import io;
    size_t k, j, i;
    metatune_encode_rng_init(&rng, seed, 3);
    for (i = 0; i < sizeof garbage; i++)
        garbage[i] = (char)(unsigned char)(metatune_encode_rng_next(&rng) &
                                           255);
    for (k = 0; k < N_SAMPLES; k++) {
        for (j = 0; j < N_SAMPLES; j++) {
            if (j == k)
                continue;
            import(&io, samples[k].read, samples[j].text, samples[j].n);
            CHECK_INT(io.n_lines, 0);
            CHECK(io.why[0]);
            import_free(&io);
        }
        import(&io, samples[k].read, garbage, sizeof garbage);
        CHECK_INT(io.n_lines, 0);
        import_free(&io);
        memset(garbage, 0, sizeof garbage);
        import(&io, samples[k].read, garbage, sizeof garbage);
        CHECK_INT(io.n_lines, 0);
        import_free(&io);
    }
}

static void test_oversized(void)
{
    size_t n = (size_t)4 << 20, i;
    char *text = (char *)malloc(n);
    io_import io;
    /* one cell, one string, one list without an end */
    memset(text, 'x', n);
    for (i = 0; i < N_SAMPLES; i++) {
        import(&io, samples[i].read, text, n);
        CHECK_INT(io.n_lines, 0);
        import_free(&io);
    }
    memset(text, '[', n);
    memcpy(text, "{\"results\":", 11);
    import(&io, io_t4_read, text, n);
    CHECK_INT(io.n_lines, 0);
    import_free(&io);
    memset(text, '"', n);
    import(&io, io_csv_read, text, n);
    CHECK_INT(io.n_lines, 0);
    import_free(&io);
    memset(text, '\n', n);
    import(&io, io_csv_read, text, n);
    CHECK_INT(io.n_lines, 0);
    import_free(&io);
    free(text);
}

/* --------------------------------------------------------- round trip */

static metatune_text bytes(const char *p, size_t n)
{
    metatune_text t;
    t.p = p;
    t.n = n;
    return t;
}

/* A log of n lines, knobs in one order, with whatever a record may hold. */
static void random_log(metatune_encode_rng *rng, cmd_text *log, size_t n)
{
    static const char *const knobs[] = {
        "{\"a\":1,\"b\":\"kyc\"}", "{\"a\":-3,\"b\":\"x,\\\"y\",\"c\":\"4\"}",
        "{}", "{\"a\":7,\"\xC3\xA9\":2.5}"
    };
    static const char *const unknown[] = {
        "", ",\"x\":{\"y\":[1,null,\"z\"]}", ",\"timestamp\":\"t\",\"q\":1e300"
    };
    size_t i;
    for (i = 0; i < n; i++) {
        metatune_record r;
        char buf[8192], error[300];
        size_t k, len = 0;
        memset(&r, 0, sizeof r);
        for (k = 0; k < sizeof error; k++)
            error[k] = (char)(unsigned char)(metatune_encode_rng_next(rng) &
                                             255);
        r.trial = metatune_encode_rng_next(rng);
        r.seed = metatune_encode_rng_next(rng);
        r.batch = (uint32_t)(metatune_encode_rng_next(rng) & 7);
        r.trial_kind = (int32_t)(metatune_encode_rng_next(rng) & 1);
        r.repeat = (uint32_t)(metatune_encode_rng_next(rng) & 3);
        r.attempt = (uint32_t)(metatune_encode_rng_next(rng) & 1);
        r.run = io_text("run \"1\"");
        r.strategy = io_text("metatune");
        r.task = io_text(metatune_encode_rng_next(rng) & 1 ? "t=1,c=2"
                                                           : "\xC3\xA9\t");
        r.target = io_text("cpu=x,flags=-O2 \"-DX\"");
        r.space = metatune_encode_rng_next(rng);
        r.model = metatune_encode_rng_next(rng);
        r.knobs_json = io_text(knobs[metatune_encode_rng_next(rng) & 3]);
        r.unknown = io_text(unknown[metatune_encode_rng_next(rng) % 3]);
        if (metatune_encode_rng_next(rng) % 8 == 0)
            r.kind = METATUNE_RECORD_TASK + (int32_t)(i & 1);
        r.status = (metatune_status)(metatune_encode_rng_next(rng) % 14);
        if (r.status > METATUNE_NOT_RUN)
            r.status = METATUNE_OK;
        r.value = 1e-3 * (double)(metatune_encode_rng_next(rng) >> 11) /
                  9007199254740992.0 + 1e-9;
        r.n_samples = (uint32_t)(metatune_encode_rng_next(rng) % 4);
        for (k = 0; k < r.n_samples; k++)
            r.samples[k] = r.value * (1.0 + 0.1 * (double)k);
        r.build_s = r.value * 3.0;
        r.run_s = metatune_encode_rng_next(rng) & 1 ? r.value * 7.0 : 0.0;
        r.think_s = metatune_encode_rng_next(rng) & 1 ? r.value / 3.0 : 0.0;
        if (metatune_encode_rng_next(rng) & 1) {
            r.predicted = 1;
            r.mean = -r.value * 1.1;
            r.sigma = 0.3 * r.value;
        }
        if (r.status != METATUNE_OK)
            r.error = bytes(error, metatune_encode_rng_next(rng) % 300);
        if (metatune_record_encode(&r, buf, sizeof buf, &len) == METATUNE_OK)
            cmd_text_bytes(log, buf, len);
        else
            CHECK(!"a random record does not encode");
    }
}

/* Byte for byte; the first line that differs is shown. */
static void same_lines(const cmd_text *is, const cmd_text *want)
{
    size_t i = 0, from = 0;
    while (i < is->n && i < want->n && is->p[i] == want->p[i])
        if (is->p[i++] == '\n')
            from = i;
    if (i == is->n && i == want->n)
        return;
    CHECK(!"the log that comes back is another one");
    if (check_faults < 3)
        printf("    is   %.*s\n    want %.*s\n",
               (int)strcspn(is->p + from, "\n"), is->p + from,
               (int)strcspn(want->p + from, "\n"), want->p + from);
}

typedef int (*writer)(io_export *x, io_logs *logs, cmd_text *text);

static void round_trip(const cmd_text *log, writer write, reader read)
{
    io_file file;
    io_logs logs;
    io_export x;
    io_import io;
    cmd_text text;
    memset(&logs, 0, sizeof logs);
    memset(&x, 0, sizeof x);
    memset(&text, 0, sizeof text);
    file.path = "log";
    file.bytes = log->p;
    file.n = log->n;
    logs.file = &file;
    logs.n_files = 1;
    x.command = "test";
    x.all = 1;
    CHECK_INT(write(&x, &logs, &text), CMD_OK);
    CHECK_INT(logs.n_bad, 0);
    import(&io, read, text.p, text.n);
    CHECK_INT(io.n_bad, 0);
    same_lines(&io.lines, log);
    import_free(&io);
    cmd_text_free(&text);
}

static void round_trips(void)
{
    metatune_encode_rng rng;
    cmd_text log;
    int i;
    metatune_encode_rng_init(&rng, seed, 4);
    for (i = 0; i < 40; i++) {
        memset(&log, 0, sizeof log);
        random_log(&rng, &log, 50);
        round_trip(&log, io_t4_write, io_t4_read);
        round_trip(&log, io_autotvm_write, io_autotvm_read);
        round_trip(&log, io_csv_write, io_csv_read);
        cmd_text_free(&log);
    }
}

static void test_round_trips(void)
{
    round_trips();
}

static void test_round_trips_comma_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE",
                                        "fr_FR.UTF-8"};
    char text[32];
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++)
        if (setlocale(LC_ALL, names[i]))
            break;
    if (i == sizeof names / sizeof names[0])
        SKIP("no locale with a decimal comma is installed");
    snprintf(text, sizeof text, "%.1f", 0.5);
    CHECK_STR(text, "0,5"); /* it is one */
    round_trips();
    test_csv_values();
    test_kernel_tuner_values();
    setlocale(LC_ALL, "C");
}

/* From a foreign file and back: entities as they were. */
static void test_autotvm_twice(void)
{
    io_import io;
    CHECK(import(&io, io_autotvm_read, autotvm, sizeof autotvm - 1));
    round_trip(&io.lines, io_autotvm_write, io_autotvm_read);
    round_trip(&io.lines, io_t4_write, io_t4_read);
    import_free(&io);
}

/* --------------------------------------------------------------- logs */

/* Four processes append to one log; no line may be lost or torn. */
static void test_append_from_four_processes(void)
{
    enum { WRITERS = 4, LINES = 500 };
    const char *dir = getenv("TMPDIR");
    char *path = cmd_format("%s/metatune-append-XXXXXX", dir ? dir : P_tmpdir);
    char *paths[1];
    unsigned char seen[WRITERS][LINES];
    io_logs logs;
    metatune_record r;
    metatune_text line;
    pid_t child[WRITERS];
    int w, fd = mkstemp(path), missing = 0, k;
    CHECK(fd >= 0);
    if (fd < 0) {
        free(path);
        return;
    }
    /* a torn last line that the first to append must not be glued to */
    CHECK(write(fd, "{\"v\":1,\"ki", 10) == 10);
    close(fd);
    fd = cmd_open_append(path);
    CHECK(fd >= 0);
    close(fd);
    for (w = 0; w < WRITERS; w++) {
        child[w] = fork();
        if (child[w] == 0) {
            char buf[4096];
            size_t n = 0;
            int failed = 0;
            fd = cmd_open_append(path);
            for (k = 0; k < LINES && fd >= 0; k++) {
                memset(&r, 0, sizeof r);
                r.run = io_text("w");
                r.task = io_text("t");
                r.target = io_text("a target with some length to it ........"
                                   "........................................");
                r.knobs_json = io_text("{\"a\":1}");
                r.seed = (uint64_t)w;
                r.trial = (uint64_t)k;
                r.value = 1.0;
                if (metatune_record_encode(&r, buf, sizeof buf, &n) !=
                        METATUNE_OK || cmd_write_all(fd, buf, n) != 0)
                    failed = 1;
            }
            _exit(fd < 0 || failed);
        }
    }
    for (w = 0; w < WRITERS; w++) {
        int status = -1;
        CHECK(child[w] > 0 && waitpid(child[w], &status, 0) == child[w]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    memset(seen, 0, sizeof seen);
    paths[0] = path;
    CHECK_INT(io_logs_open(&logs, "test", 1, paths), CMD_OK);
    while (io_logs_next(&logs, &r, &line)) {
        CHECK(r.seed < WRITERS && r.trial < LINES);
        if (r.seed < WRITERS && r.trial < LINES)
            seen[r.seed][r.trial]++;
    }
    CHECK_INT(logs.n_good, WRITERS * LINES);
    CHECK_INT(logs.n_bad, 1);
    for (w = 0; w < WRITERS; w++)
        for (k = 0; k < LINES; k++)
            missing += seen[w][k] != 1;
    CHECK_INT(missing, 0);
    io_logs_free(&logs);
    unlink(path);
    free(path);
}

static void test_logs_keep_lines(void)
{
    metatune_encode_rng rng;
    cmd_text log;
    io_file file;
    io_logs logs;
    metatune_record r;
    metatune_text line;
    size_t n = 0, cut;
    int step, good = 0, other = 0, bad = 0;
    memset(&log, 0, sizeof log);
    metatune_encode_rng_init(&rng, seed, 5);
    random_log(&rng, &log, 3);
    cut = log.n;
    cmd_text_add(&log, "{\"v\":99,\"kind\":\"later\"}\r\n\nfoo\n"
                       "{\"v\":99,\"kind\n");
    random_log(&rng, &log, 1);
    log.n--; /* the last line is cut: no line end */
    memset(&logs, 0, sizeof logs);
    file.path = "log";
    file.bytes = log.p;
    file.n = log.n;
    logs.file = &file;
    logs.n_files = 1;
    while ((step = io_logs_step(&logs, &r, &line)) != IO_END) {
        good += step == IO_GOOD;
        bad += step == IO_BAD;
        if (step == IO_GOOD) {
            CHECK(memcmp(log.p + n, line.p, line.n) == 0);
            n += line.n + 1;
        }
        if (step == IO_OTHER) {
            other++;
            CHECK(line.n == 23 &&
                  memcmp(line.p, "{\"v\":99,\"kind\":\"later\"}", 23) == 0);
        }
    }
    CHECK_INT(good, 3);
    CHECK(n == cut);
    CHECK_INT(other, 1);
    CHECK_INT(bad, 3);
    cmd_text_free(&log);
}

int main(void)
{
    const char *s = getenv("METATUNE_SEED");
    if (s)
        seed = strtoull(s, NULL, 10);
    printf("  seed %llu\n", (unsigned long long)seed);
    RUN(test_json_accepts_and_refuses);
    RUN(test_json_values);
    RUN(test_numbers_shift);
    RUN(test_eval_values);
    RUN(test_eval_hostile);
    RUN(test_autotvm_values);
    RUN(test_autotvm_error_classes);
    RUN(test_autotvm_foreign);
    RUN(test_autotvm_twice);
    RUN(test_kernel_tuner_values);
    RUN(test_kernel_tuner_damage);
    RUN(test_t4_values);
    RUN(test_csv_values);
    RUN(test_csv_foreign);
    RUN(test_t1_values);
    RUN(test_t1_refuses);
    RUN(test_every_truncation);
    RUN(test_byte_flips);
    RUN(test_foreign_formats);
    RUN(test_oversized);
    RUN(test_round_trips);
    RUN(test_round_trips_comma_locale);
    RUN(test_append_from_four_processes);
    RUN(test_logs_keep_lines);
    return check_report("test_interop");
}
