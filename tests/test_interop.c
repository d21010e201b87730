/* test_interop.c - importers on right, torn and hostile input, and the T1
   expressions; what only a process can show is in test_interop.sh */
#define _XOPEN_SOURCE 700

#include <locale.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define METATUNE_IMPLEMENTATION
#include "../metatune.h"

#include "../tools/io.h"
#include "../tools/io_eval.h"

static const char kernel_tuner[] =
    "{\"device_name\": \"GPU X\", \"kernel_name\": \"vadd\", "
    "\"problem_size\": \"4096\",\n"
    "\"tune_params_keys\": [\"bx\", \"cache\"],\n"
    "\"tune_params\": {\"bx\": [16, 32], \"cache\": [\"L1\", \"L2\"]},\n"
    "\"cache\": {\n"
    "\"16,L1\": {\"bx\": 16, \"cache\": \"L1\", \"time\": 3.25, "
    "\"times\": [3.5, 3.25]},\n"
    "\"16,L2\": {\"bx\": 16, \"cache\": \"L2\", \"time\": "
    "\"CompilationFailedConfig\"},\n"
    "\"32,L1\": {\"bx\": 32, \"cache\": \"L1\", \"time\": 1e20},\n"
    "\"32,L2\": {\"bx\": 32, \"cache\": \"L2\", \"time\": 0.1}\n"
    "}}\n";

static const char autotvm[] =
    "# a comment\n"
    "{\"input\": [\"llvm\", \"t\", [], {}], \"config\": {\"index\": 5, "
    "\"code_hash\": null, \"entity\": [[\"tile_x\", \"sp\", [-1, 8]], "
    "[\"order\", \"re\", [0, 2, 1]], [\"ann\", \"an\", [\"none\", "
    "\"vec\"]], [\"unroll\", \"ot\", true]]}, \"result\": [[0.001, 0.003], "
    "0, 1.5, 1600000000.0], \"version\": 0.2, \"tvm_version\": \"0.9\"}\n"
    "{\"input\": [\"llvm\", \"t\", [], {}], \"config\": {\"index\": 6, "
    "\"code_hash\": null, \"entity\": [[\"tile_x\", \"sp\", [-1, 4]]]}, "
    "\"result\": [[1000000000.0], 4, 1.5, 1600000001.0], \"version\": 0.2, "
    "\"tvm_version\": \"0.9\"}\n";

static const char t4[] =
    "{\"schema_version\": \"1.0.0\", \"results\": [\n"
    "{\"timestamp\": \"x\", \"configuration\": {\"a\": 1}, \"times\": "
    "{\"compilation_time\": 12.5, \"runtimes\": [2.0, 3.0]}, "
    "\"invalidity\": \"correct\", \"correctness\": 1, \"measurements\": "
    "[{\"name\": \"time\", \"value\": 2.0, \"unit\": \"ms\"}], "
    "\"objectives\": [\"time\"]},\n"
    "{\"timestamp\": \"x\", \"configuration\": {\"a\": 2}, \"times\": {}, "
    "\"invalidity\": \"timeout\", \"correctness\": 0, \"measurements\": "
    "[{\"name\": \"time\", \"value\": 9e9, \"unit\": \"ms\"}], "
    "\"objectives\": [\"time\"]}\n"
    "]}\n";

static const char t1[] =
    "{\"General\": {\"FormatVersion\": 1}, \"KernelSpecification\": "
    "{\"KernelName\": \"k\", \"ProblemSize\": [64]}, "
    "\"ConfigurationSpace\": {\"TuningParameters\": [\n"
    "{\"Name\": \"x\", \"Type\": \"int\", \"Values\": \"[1, 2, 4, 8]\"},\n"
    "{\"Name\": \"y\", \"Type\": \"int\", \"Values\": "
    "\"list(range(1, 5))\"},\n"
    "{\"Name\": \"m\", \"Type\": \"string\", \"Values\": \"['a', 'b']\"}],\n"
    "\"Conditions\": [{\"Parameters\": [\"x\", \"y\"], \"Expression\": "
    "\"x * y <= 8 and x % 2 == 0\"}, {\"Parameters\": [\"m\", \"x\"], "
    "\"Expression\": \"m == 'a' or x > 2\"}]}}\n";

static const char csv[] =
    "a,b,status,time_ms\n"
    "1,x,ok,0.1\n"
    "2,\"y,\"\"z\",ok,0.30000000000000004\n"
    "3,x,compile,\n"
    "4,x,timeout,7\n"
    "5,x,ok,0\n";

typedef struct source {
    const char *name, *text;
    int (*read)(io_import *io, const char *s, size_t n);
    size_t trials, failed;
} source;

static const source sources[] = {
    {"kernel_tuner", kernel_tuner, io_kernel_tuner_read, 4, 2},
    {"autotvm", autotvm, io_autotvm_read, 2, 1},
    {"t4", t4, io_t4_read, 2, 1},
    {"t1", t1, io_t1_read, 0, 0}, /* counted below */
    {"csv", csv, io_csv_read, 5, 3},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

static int import(const source *s, io_import *io, const char *text, size_t n)
{
    memset(io, 0, sizeof *io);
    io->path = "test";
    io->format = s->name;
    return s->read(io, text, n);
}

static void import_free(io_import *io)
{
    cmd_text_free(&io->lines);
    json_pool_free(&io->pool);
}

/* Every line it made is a good record, and no failure has a number. */
static size_t lines_check(const io_import *io)
{
    size_t pos = 0, n = 0;
    metatune_record r;
    metatune_status st;
    if (!io->lines.n)
        return 0;
    while ((st = metatune_log_next(io->lines.p, io->lines.n, &pos, &r)) !=
           METATUNE_NOT_FOUND) {
        CHECK_INT(st, METATUNE_OK);
        CHECK(r.status == METATUNE_OK ? r.value > 0 && r.value < 1e6
                                      : r.value <= 0);
        n++;
    }
    return n;
}

static void nth(const io_import *io, size_t want, metatune_record *r)
{
    size_t pos = 0, i;
    for (i = 0; i <= want; i++)
        CHECK_INT(metatune_log_next(io->lines.p, io->lines.n, &pos, r),
                  METATUNE_OK);
}

static int knobs_are(const metatune_record *r, const char *json)
{
    return r->knobs_json.n == strlen(json) &&
           memcmp(r->knobs_json.p, json, r->knobs_json.n) == 0;
}

static void test_values(void)
{
    io_import io;
    metatune_record r;
    size_t i;
    for (i = 0; i < SOURCES; i++) {
        CHECK(import(&sources[i], &io, sources[i].text,
                     strlen(sources[i].text)));
        if (sources[i].trials) {
            CHECK_INT(io.n_trials, sources[i].trials);
            CHECK_INT(io.n_failed, sources[i].failed);
        }
        CHECK_INT(io.torn, 0);
        CHECK_INT(lines_check(&io), io.n_lines);
        import_free(&io);
    }
    import(&sources[0], &io, kernel_tuner, strlen(kernel_tuner));
    nth(&io, 0, &r);
    CHECK_NEAR(r.value, 3.25e-3, 0);
    nth(&io, 1, &r);
    CHECK_INT(r.status, METATUNE_COMPILE);
    nth(&io, 2, &r);
    CHECK(r.status != METATUNE_OK); /* 1e20 is no time */
    nth(&io, 3, &r);
    CHECK_NEAR(r.value, 1e-4, 0);
    CHECK(knobs_are(&r, "{\"bx\":32,\"cache\":\"L2\"}"));
    import_free(&io);
    import(&sources[1], &io, autotvm, strlen(autotvm));
    nth(&io, 0, &r);
    CHECK_NEAR(r.value, 0.002, 1e-18);
    CHECK(knobs_are(&r, "{\"tile_x\":8,\"order\":\"0,2,1\","
                        "\"ann\":\"none,vec\",\"unroll\":1}"));
    nth(&io, 1, &r);
    CHECK_INT(r.status, METATUNE_RUNTIME); /* cost 1e9 is no time */
    import_free(&io);
    import(&sources[2], &io, t4, strlen(t4));
    nth(&io, 0, &r);
    CHECK_NEAR(r.value, 2e-3, 0);
    CHECK_NEAR(r.build_s, 12.5e-3, 0);
    nth(&io, 1, &r);
    CHECK_INT(r.status, METATUNE_TIMEOUT);
    import_free(&io);
    import(&sources[4], &io, csv, strlen(csv));
    nth(&io, 1, &r);
    CHECK_NEAR(r.value, 0.30000000000000004e-3, 0);
    CHECK(knobs_are(&r, "{\"a\":2,\"b\":\"y,\\\"z\"}"));
    nth(&io, 4, &r);
    CHECK_INT(r.status, METATUNE_INVALID_TIME);
    import_free(&io);
}

/* Settings of the T1 file against a walk in C. */
static void test_t1_settings(void)
{
    io_import io;
    int x, y, m, want = 0;
    for (x = 1; x <= 8; x *= 2)
        for (y = 1; y < 5; y++)
            for (m = 0; m < 2; m++)
                want += x * y <= 8 && x % 2 == 0 && (m == 0 || x > 2);
    CHECK(import(&sources[3], &io, t1, strlen(t1)));
    CHECK_INT(io.n_trials, want);
    CHECK_INT(io.n_failed, want); /* NOT_RUN */
    import_free(&io);
}

/* Cut at every byte: what is whole is kept, nothing is read past the end (the
   copy is exactly as long), every line made is good. */
static void test_torn(void)
{
    size_t i, n;
    for (i = 0; i < SOURCES; i++) {
        size_t full = strlen(sources[i].text), last = 0;
        for (n = 0; n <= full; n++) {
            io_import io;
            char *copy = (char *)malloc(n + 1);
            memcpy(copy, sources[i].text, n);
            copy[n] = 0;
            (void)import(&sources[i], &io, copy, n);
            lines_check(&io);
            CHECK(io.n_trials >= last || sources[i].read == io_csv_read ||
                  sources[i].read == io_t1_read);
            if (io.n_trials > last)
                last = io.n_trials;
            import_free(&io);
            free(copy);
        }
        if (sources[i].trials)
            CHECK_INT(last, sources[i].trials);
    }
}

static void test_flipped(void)
{
    metatune_encode_rng rng;
    unsigned seed = 20261201;
    size_t i, k, round;
    const char *env = getenv("METATUNE_SEED");
    if (env)
        seed = (unsigned)strtoul(env, NULL, 10);
    printf("    seed %u\n", seed);
    metatune_encode_rng_init(&rng, seed, 0);
    for (i = 0; i < SOURCES; i++)
        for (round = 0; round < 1500; round++) {
            size_t n = strlen(sources[i].text);
            char *copy = (char *)malloc(n + 1);
            io_import io;
            memcpy(copy, sources[i].text, n + 1);
            for (k = 0; k <= round % 4; k++) {
                static const char spice[] = "{}[]\",:0e-\\\n9";
                uint64_t x = metatune_encode_rng_next(&rng);
                size_t at = (size_t)metatune_encode_rng_below(&rng, n);
                copy[at] = x & 1 ? spice[(x >> 8) % (sizeof spice - 1)]
                                 : (char)(x >> 16);
            }
            (void)import(&sources[i], &io, copy, n);
            lines_check(&io);
            import_free(&io);
            free(copy);
        }
}

static void test_foreign(void)
{
    size_t i, j;
    static const char *const junk[] = {"", "\n", "{", "[]", "nil",
                                       "{\"results\":7}", "\xef\xbb\xbf",
                                       "{\"cache\":[]}", "a\nb\n"};
    char *deep = (char *)malloc(200001);
    memset(deep, '[', 200000);
    deep[200000] = 0;
    for (i = 0; i < SOURCES; i++) {
        io_import io;
        for (j = 0; j < sizeof junk / sizeof junk[0]; j++) {
            (void)import(&sources[i], &io, junk[j], strlen(junk[j]));
            CHECK_INT(io.n_trials, 0);
            import_free(&io);
        }
        (void)import(&sources[i], &io, deep, 200000);
        CHECK_INT(io.n_trials, 0);
        import_free(&io);
        for (j = 0; j < SOURCES; j++) { /* each other's files */
            (void)import(&sources[i], &io, sources[j].text,
                         strlen(sources[j].text));
            lines_check(&io);
            import_free(&io);
        }
    }
    free(deep);
}

static int truth(const char *s, int *ok)
{
    json_pool pool;
    eval_value v;
    const char *why = NULL;
    int r;
    memset(&pool, 0, sizeof pool);
    *ok = eval_text(&pool, s, strlen(s), NULL, &v, &why);
    r = *ok && eval_truth(&v);
    json_pool_free(&pool);
    return r;
}

static void test_expressions(void)
{
    static const char *const yes[] = {
        "1 < 2 <= 2 != 3", "7 // 2 == 3", "-7 // 2 == -4", "-7 % 3 == 2",
        "2 ** 10 == 1024", "not 0 and 1", "3 in [1, 2, 3]",
        "4 not in (1, 2)", "'a' in ['a']", "7 / 2 == 3.5",
        "(1 if 2 > 1 else 0) == 1", "min(3, 2) == 2", "max([1, 5]) == 5",
        "len(list(range(5))) == 5", "True", "1e3 == 1000", "5 & 4 == 4"};
    static const char *const no[] = {"0", "", "1 > 2", "[]", "''", "None",
                                     "1 == 1 == 2"};
    static const char *const bad[] = {
        "1 +", "(1", "x", "1 // 0", "1 % 0", "__import__('os')",
        "9223372036854775807 + 1", "2 ** 4000", "a.b", "lambda: 1",
        "[0] * 99999999", "list(range(10 ** 9))", "'", "1 <"};
    size_t i;
    int ok;
    char deep[4000];
    for (i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (!truth(yes[i], &ok) || !ok) {
            CHECK(!"an expression that holds");
            printf("        %s\n", yes[i]);
        }
    for (i = 0; i < sizeof no / sizeof no[0]; i++)
        CHECK(!truth(no[i], &ok));
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)truth(bad[i], &ok);
        if (ok) {
            CHECK(!"an expression that is refused");
            printf("        %s\n", bad[i]);
        }
    }
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = 0;
    (void)truth(deep, &ok);
    CHECK(!ok);
}

/* Seconds -> milliseconds as text -> seconds: the same bits, in any locale. */
static void test_milliseconds(void)
{
    metatune_encode_rng rng;
    int round, comma = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    printf("    comma locale: %s\n", comma ? "yes" : "not installed");
    metatune_encode_rng_init(&rng, 5, 5);
    for (round = 0; round < 200000; round++) {
        uint64_t bits = metatune_encode_rng_next(&rng) & ~((uint64_t)1 << 63);
        double x, back;
        char buf[64];
        size_t n;
        memcpy(&x, &bits, sizeof x);
        if (!(x - x <= 0) || x > 1e300 || x < 1e-300)
            continue;
        n = io_number_write(x, 3, buf, sizeof buf);
        if (!io_number_read(buf, n, -3, &back) ||
            memcmp(&x, &back, sizeof x) != 0) {
            CHECK(!"a time that keeps its bits");
            printf("        %.17g %s\n", x, buf);
            break;
        }
    }
    setlocale(LC_ALL, "C");
}

/* Four processes append to one log: no line lost, none torn. */
static void test_appending(void)
{
    enum { WRITERS = 4, LINES = 500 };
    char path[] = "interop-log-XXXXXX", *bytes;
    int fd = mkstemp(path), w;
    size_t n, pos = 0, good = 0;
    metatune_record r;
    metatune_status st;
    CHECK(fd >= 0);
    close(fd);
    for (w = 0; w < WRITERS; w++)
        if (fork() == 0) {
            int i, log = cmd_open_append(path);
            for (i = 0; i < LINES; i++) {
                metatune_record x;
                char line[1024], task[200];
                size_t len;
                memset(&x, 0, sizeof x);
                memset(task, 'a' + w, sizeof task);
                x.version = METATUNE_RECORD_VERSION;
                x.task = io_text("t");
                x.task.p = task;
                x.task.n = (size_t)(1 + i % 190);
                x.target = io_text("x");
                x.knobs_json = io_text("{\"a\":1}");
                x.trial = (uint64_t)i + 1;
                x.value = 1e-3;
                if (metatune_record_encode(&x, line, sizeof line, &len) ||
                    cmd_write_all(log, line, len))
                    _exit(1);
            }
            _exit(0);
        }
    for (w = 0; w < WRITERS; w++) {
        int status = 1;
        CHECK(wait(&status) > 0 && status == 0);
    }
    bytes = cmd_file_read(path, &n);
    unlink(path);
    while ((st = metatune_log_next(bytes, n, &pos, &r)) !=
           METATUNE_NOT_FOUND) {
        CHECK_INT(st, METATUNE_OK);
        good++;
    }
    CHECK_INT(good, WRITERS * LINES);
    free(bytes);
}

int main(void)
{
    RUN(test_values);
    RUN(test_t1_settings);
    RUN(test_torn);
    RUN(test_flipped);
    RUN(test_foreign);
    RUN(test_expressions);
    RUN(test_milliseconds);
    RUN(test_appending);
    return check_report("test_interop");
}
