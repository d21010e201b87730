/* test_records.c - record lines, logs, history, numbers without a locale.

   METATUNE_LONG in the environment: 10^7 random doubles instead of 10^6.
   METATUNE_SEED: another seed for the property tests. */
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
#include "check.h"

#include <float.h>
#include <locale.h>

static uint64_t seed_of_run = 20240607;

#define FAULT(what) check_fault(__FILE__, __LINE__, what)

static metatune_encode_rng rng_make(const char *what, uint64_t stream)
{
    metatune_encode_rng rng;
    printf("    %s: seed %llu\n", what, (unsigned long long)seed_of_run);
    metatune_encode_rng_init(&rng, seed_of_run, stream);
    return rng;
}

static metatune_text text_of(const char *z)
{
    metatune_text text;
    text.p = z;
    text.n = strlen(z);
    return text;
}

static int text_is(metatune_text text, const char *z)
{
    return text.n == strlen(z) && memcmp(text.p, z, text.n) == 0;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Where `part` begins in the log; the needle must be there. */
static char *find(char *hay, const char *part)
{
    char *at = strstr(hay, part);
    CHECK(at != NULL);
    return at ? at : hay;
}

/* ------------------------------------------------------------- numbers */

/* Read with ours and with libc; both must agree to the bit. */
static void same_as_strtod(const char *text)
{
    double x = -1.0, want = strtod(text, NULL);
    size_t end = 0;
    metatune_status st = metatune_number_read(text, strlen(text), &x, &end);
    if (want > DBL_MAX || want < -DBL_MAX) {
        CHECK_INT(st, METATUNE_OVERFLOW);
        return;
    }
    if (st != METATUNE_OK || end != strlen(text) || bits_of(x) != bits_of(want))
    {
        FAULT("number_read differs from strtod");
        printf("        %.60s: %.17g, want %.17g\n", text, x, want);
    }
}

static size_t long_count(size_t usual, size_t longer)
{
    return getenv("METATUNE_LONG") ? longer : usual;
}

static void test_number_random(void)
{
    metatune_encode_rng rng = rng_make("random doubles", 1);
    size_t i, n = long_count(1000000, 10000000), bad = 0;
    for (i = 0; i < n && bad < 10; i++) {
        uint64_t bits = metatune_encode_rng_next(&rng);
        double x = double_of(bits), back = 0.0;
        char text[40];
        size_t len, end = 0;
        if (((bits >> 52) & 2047U) == 2047U) continue;
        len = metatune_number_write(x, text, sizeof text);
        if (!len || len > 24 || strlen(text) != len
            || metatune_number_read(text, len, &back, &end) != METATUNE_OK
            || end != len || bits_of(back) != bits) {
            FAULT("does not read back");
            printf("        %s is not %.17g\n", text, x);
            bad++;
        }
        /* libc is slow: every eighth both ways */
        if ((i & 7U) == 0) {
            if (bits_of(strtod(text, NULL)) != bits) {
                FAULT("strtod reads our text otherwise");
                bad++;
            }
            snprintf(text, sizeof text, "%.17g", x);
            same_as_strtod(text);
        }
    }
}

static int significant(const char *text)
{
    int n = 0, zeros = 0, started = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9') continue;
        if (*text != '0') started = 1;
        if (!started) continue;
        if (*text == '0') {
            zeros++;
        } else {
            n += zeros + 1;
            zeros = 0;
        }
    }
    return n;
}

static void shortest_check(double x)
{
    char ours[40], theirs[40];
    int p;
    metatune_number_write(x, ours, sizeof ours);
    for (p = 1; p <= 17; p++) {
        snprintf(theirs, sizeof theirs, "%.*e", p - 1, x);
        if (bits_of(strtod(theirs, NULL)) == bits_of(x)) break;
    }
    if (significant(ours) > significant(theirs)
        || bits_of(strtod(ours, NULL)) != bits_of(x)) {
        FAULT("not the shortest");
        printf("        %s, but %s will do\n", ours, theirs);
    }
}

static void test_number_shortest(void)
{
    metatune_encode_rng rng = rng_make("shortest", 2);
    int i;
    for (i = 0; i < 20000; i++) {
        uint64_t bits = metatune_encode_rng_next(&rng);
        uint64_t kind = metatune_encode_rng_below(&rng, 4);
        if (kind == 1) bits &= 0x800FFFFFFFFFFFFFULL; /* subnormal */
        if (kind == 2) bits &= 0xFFF0000000000000ULL; /* power of two */
        if (kind == 3)
            bits = bits_of((double)(int64_t)(bits >> 44) / 1000.0);
        if (((bits >> 52) & 2047U) != 2047U) shortest_check(double_of(bits));
    }
    for (i = 0; i < 52; i++) shortest_check(double_of((uint64_t)1 << i));
}

static void write_is(double x, const char *want)
{
    char text[40];
    size_t n = metatune_number_write(x, text, sizeof text);
    CHECK_STR(text, want);
    CHECK_INT(n, strlen(want));
}

static void test_number_write_form(void)
{
    char text[8];
    write_is(0.0, "0");
    write_is(-0.0, "-0");
    write_is(1.0, "1");
    write_is(-1.5, "-1.5");
    write_is(0.1, "0.1");
    write_is(0.0001, "0.0001");
    write_is(0.00001, "1e-5");
    write_is(1e15, "1000000000000000");
    write_is(1e22, "1e22");
    write_is(12345678901234567.0, "12345678901234568");
    write_is(5e-324, "5e-324");
    write_is(DBL_MAX, "1.7976931348623157e308");
    write_is(DBL_MIN, "2.2250738585072014e-308");
    write_is(9007199254740993.0, "9007199254740992");
    write_is(double_of(0x7FF0000000000000ULL), "");
    write_is(double_of(0xFFF0000000000000ULL), "");
    write_is(double_of(0x7FF8000000000000ULL), "");
    CHECK_INT(metatune_number_write(1.25, text, 4), 0); /* no room for NUL */
    CHECK_INT(metatune_number_write(1.25, text, 5), 4);
    CHECK_INT(metatune_number_write(1.25, text, 0), 0);
    CHECK_INT(metatune_number_write(1.25, NULL, 9), 0);
}

/* The exact decimal expansion of the point halfway between a double and the
   next one, then a hair below and above: digits of any number must count. A
   tie goes to the even one. */
static void halfway_check(double x)
{
    static char text[1600], half[1600], near[3000];
    double up = double_of(bits_of(x) + 1U), got = -1.0;
    const char *below;
    size_t len, k, end;
    int rest = 0, carry = 0;
    /* x + ulp / 2 by hand, in decimal: 1080 decimals hold 2^-1075 */
    snprintf(text, sizeof text, "%01500.1080f", x);
    snprintf(half, sizeof half, "%01500.1080f", up - x);
    len = strlen(text);
    CHECK(len == 1500 && strlen(half) == 1500);
    for (k = 0; k < len; k++) {
        int d;
        if (half[k] == '.') continue;
        d = rest * 10 + (half[k] - '0');
        half[k] = (char)('0' + d / 2);
        rest = d % 2;
    }
    CHECK_INT(rest, 0);
    for (k = len; k-- > 0;) {
        int d;
        if (text[k] == '.') continue;
        d = (text[k] - '0') + (half[k] - '0') + carry;
        carry = d / 10;
        text[k] = (char)('0' + d % 10);
    }
    CHECK_INT(carry, 0);
    for (k = 0; text[k] == '0' && text[k + 1] != '.'; k++) { }
    memmove(text, text + k, len - k + 1);
    len = strlen(text);
    same_as_strtod(text);
    CHECK_INT(metatune_number_read(text, len, &got, &end), METATUNE_OK);
    CHECK(bits_of(got) == ((bits_of(x) & 1U) ? bits_of(up) : bits_of(x)));
    /* a hair above: 1300 zeros and a one */
    memcpy(near, text, len);
    memset(near + len, '0', 1300);
    memcpy(near + len + 1300, "1", 2);
    same_as_strtod(near);
    CHECK_INT(metatune_number_read(near, strlen(near), &got, &end),
              METATUNE_OK);
    CHECK(bits_of(got) == bits_of(up));
    /* a hair below */
    for (k = len; k-- > 0;) {
        if (text[k] == '.') continue;
        if (text[k] != '0') {
            text[k]--;
            break;
        }
        text[k] = '9';
    }
    below = text[0] == '0' && text[1] != '.' ? text + 1 : text;
    same_as_strtod(below);
    CHECK_INT(metatune_number_read(below, strlen(below), &got, &end),
              METATUNE_OK);
    CHECK(bits_of(got) == bits_of(x));
}

static void test_number_halfway(void)
{
    metatune_encode_rng rng = rng_make("halfway", 3);
    int i;
    halfway_check(0.0);                            /* 2^-1075 */
    halfway_check(double_of(1));                   /* 1.5 * 2^-1074 */
    halfway_check(double_of(0x000FFFFFFFFFFFFFULL)); /* below DBL_MIN */
    halfway_check(DBL_MIN);
    halfway_check(1.0);
    halfway_check(9007199254740991.0);
    halfway_check(1e22);
    halfway_check(1e23);
    halfway_check(double_of(0x7FEFFFFFFFFFFFFEULL));
    for (i = 0; i < 200; i++) {
        uint64_t bits = metatune_encode_rng_next(&rng) >> 1;
        if (i % 4 == 0) bits &= 0x000FFFFFFFFFFFFFULL;
        if (bits < 0x7FE0000000000000ULL) halfway_check(double_of(bits));
    }
}

static void test_number_hard(void)
{
    static const char *const hard[] = {
        "0", "-0", "0.0", "-0.0e5", "0e999999999", "1", "10", "123",
        "2.2250738585072011e-308", "2.2250738585072012e-308",
        "2.2250738585072014e-308", "2.225073858507201e-308",
        "4.9406564584124654e-324", "2.4703282292062327e-324",
        "2.4703282292062328e-324", "2.47032822920623272e-324", "1e-324",
        "3e-324", "1e-400", "1e-99999999999999999999", "1.7976931348623157e308",
        "1.7976931348623158e308", "1.7976931348623159e308",
        "179769313486231580793728971405303415079934132710037826936173778980444"
        "968292764750946649017977587207096330286416692887910946555547851940402"
        "630657488671505820681908902000708383676273854845817711531764475730270"
        "069855571366959622842914819860834936475292719074168444365510704342711"
        "559699508093042880", /* the exact tie: overflow */
        "179769313486231580793728971405303415079934132710037826936173778980444"
        "968292764750946649017977587207096330286416692887910946555547851940402"
        "630657488671505820681908902000708383676273854845817711531764475730270"
        "069855571366959622842914819860834936475292719074168444365510704342711"
        "559699508093042879.999", /* just below */
        "1e309", "-1e309", "1e400", "1e99999999999999999999",
        "9007199254740993", "9007199254740992.999999999999999999999",
        "9007199254740993.0000000000000000000000000001", "1e22", "1e23",
        "8.9255e-42", "6.9294956446009195e15", "5e-324", "0.000001e-318",
        "7.3177701707893310e15",
        ("0.500000000000000166533453693773481063544750"
         "213623046875"), "0.1e1", "100000000000000000000000000000000000000000",
        "0.3e-5", "123456789012345678901234567890e-20",
        "1090544144181609348671888949248", "9.5e-3", "1E5", "1e+5", "1.5e-05"
    };
    static char text[4000];
    size_t i;
    for (i = 0; i < sizeof hard / sizeof hard[0]; i++) same_as_strtod(hard[i]);
    /* 3000 zeros undone by the exponent, either way */
    memcpy(text, "0.", 2);
    memset(text + 2, '0', 3000);
    memcpy(text + 3002, "12345e3001", 11);
    same_as_strtod(text);
    text[0] = '7';
    memset(text + 1, '0', 3000);
    memcpy(text + 3001, "e-3000", 7);
    same_as_strtod(text);
    memset(text, '9', 3990);
    memcpy(text + 3990, "e-3990", 7);
    same_as_strtod(text);
}

static void test_number_random_text(void)
{
    metatune_encode_rng rng = rng_make("random decimal texts", 4);
    size_t i, n = long_count(100000, 2000000);
    for (i = 0; i < n; i++) {
        char text[80];
        size_t len = 0, k, digits;
        digits = 1 + metatune_encode_rng_below(&rng, i % 10 ? 19 : 45);
        text[len++] = (char)('1' + (int)metatune_encode_rng_below(&rng, 9));
        if (digits > 1) text[len++] = '.';
        for (k = 1; k < digits; k++)
            text[len++] =
                (char)('0' + (int)metatune_encode_rng_below(&rng, 10));
        snprintf(text + len, sizeof text - len, "e%d",
                 (int)metatune_encode_rng_below(&rng, 660) - 345);
        same_as_strtod(text);
    }
}

static void test_number_grammar(void)
{
    static const char *const bad[] = {
        "", "-", "+1", ".5", "1.", "1.e5", "1e", "1e+", "01", "-01", "00",
        "nan", "NaN", "inf", "Infinity", "-inf", " 1", "--1", "e5",
        "\"1\""
    };
    static const struct { const char *text; size_t end; double x; } part[] = {
        { "12abc", 2, 12.0 }, { "1.5,2", 3, 1.5 }, { "0x10", 1, 0.0 },
        { "1,5", 1, 1.0 }, { "2e3.5", 3, 2000.0 }, { "1-2", 1, 1.0 },
        { "-0}", 2, 0.0 }
    };
    size_t i, end;
    double x = 0.0;
    char text[4];
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        metatune_status st;
        st = metatune_number_read(bad[i], strlen(bad[i]), &x, &end);
        if (st != METATUNE_PARSE) {
            FAULT("accepted");
            printf("        %s\n", bad[i]);
        }
    }
    for (i = 0; i < sizeof part / sizeof part[0]; i++) {
        CHECK_INT(metatune_number_read(part[i].text, strlen(part[i].text), &x,
                                       &end), METATUNE_OK);
        CHECK_INT(end, part[i].end);
        CHECK_NEAR(x, part[i].x, 0.0);
    }
    /* n is the end, whatever follows */
    memcpy(text, "1234", 4);
    CHECK_INT(metatune_number_read(text, 2, &x, &end), METATUNE_OK);
    CHECK_NEAR(x, 12.0, 0.0);
    CHECK_INT(metatune_number_read(text, 0, &x, &end), METATUNE_PARSE);
    CHECK_INT(metatune_number_read(NULL, 0, &x, &end), METATUNE_BAD_ARG);
}

/* A locale whose decimal point is a comma must not matter. */
static void test_number_comma_locale(void)
{
    static const char *const name[] = {
        "de_DE.UTF-8", "de_DE.utf8", "de_DE", "de_DE@euro", "fr_FR.UTF-8",
        "fr_FR.utf8", "German"
    };
    size_t i, end;
    double x = 0.0;
    char text[40];
    for (i = 0; i < sizeof name / sizeof name[0]; i++)
        if (setlocale(LC_ALL, name[i])) break;
    if (i == sizeof name / sizeof name[0])
        SKIP("no comma locale (de_DE, fr_FR) installed");
    snprintf(text, sizeof text, "%.1f", 1.5);
    CHECK_STR(text, "1,5"); /* the locale is what we wanted */
    CHECK_INT(metatune_number_read("1.5", 3, &x, &end), METATUNE_OK);
    CHECK_NEAR(x, 1.5, 0.0);
    metatune_number_write(1.5, text, sizeof text);
    CHECK_STR(text, "1.5");
    setlocale(LC_ALL, "C");
}

/* ------------------------------------------------------ ticks and checksum */

static void test_ticks(void)
{
    CHECK(metatune_ticks_delta(10, 25, 32) == 15);
    CHECK(metatune_ticks_delta(0xFFF0, 0x0010, 16) == 0x20);
    CHECK(metatune_ticks_delta(0xFFFFF0, 0x10, 24) == 0x20);
    CHECK(metatune_ticks_delta(0xFFFFFFF0U, 0x10, 32) == 0x20);
    CHECK(metatune_ticks_delta(UINT64_MAX - 1U, 5, 64) == 7);
    CHECK(metatune_ticks_delta(1, 0, 1) == 1);
    CHECK(metatune_ticks_delta(7, 7, 16) == 0); /* halted counter */
    /* a 32-bit counter in 64-bit variables with rubbish above */
    CHECK(metatune_ticks_delta(0x1FFFFFFF0ULL, 0x900000010ULL, 32) == 0x20);
}

static void test_crc(void)
{
    uint32_t crc;
    CHECK(metatune_crc32(0, "123456789", 9) == 0xCBF43926U);
    CHECK(metatune_crc32(0, "", 0) == 0);
    crc = metatune_crc32(0, "1234", 4);
    CHECK(metatune_crc32(crc, "56789", 5) == 0xCBF43926U);
}

/* ------------------------------------------------------------- one record */

static const int64_t ocv_values[] = { 1, 2, 4, 8 };
static const int64_t order_values[] = { 0, 1, 2 };
static const char *const order_labels[] = { "kyx", "la\"bel", "xyk" };
static const int64_t wide_values[] = { INT64_MIN, -1, 0, INT64_MAX };
static const metatune_knob knobs[3] = {
    { "ocv", ocv_values, NULL, 4 },
    { "order", order_values, order_labels, 3 },
    { "wide", wide_values, NULL, 4 }
};
static const int64_t some_values[3] = { 2, 1, INT64_MIN };

static metatune_record record_make(void)
{
    metatune_record r;
    memset(&r, 0, sizeof r);
    r.kind = METATUNE_RECORD_TRIAL;
    r.run = text_of("run-1");
    r.task = text_of("n=1,c=64,h=56");
    r.target = text_of("cpu/\"gcc 12\" -O3");
    r.strategy = text_of("metatune");
    r.seed = UINT64_MAX;
    r.trial = 9007199254740993ULL; /* not a double */
    r.batch = UINT32_MAX;
    r.space = 0x0123456789ABCDEFULL;
    r.model = 0xFEDCBA9876543210ULL;
    r.knobs = knobs;
    r.n_knobs = 3;
    r.values = some_values;
    r.status = METATUNE_OK;
    r.value = 1.25e-3;
    r.n_samples = 2;
    r.samples[0] = 1.25e-3;
    r.samples[1] = 0.1;
    r.build_s = 0.25;
    r.run_s = 3.5;
    r.predicted = 1;
    r.mean = 1e-3;
    r.sigma = 0.5;
    return r;
}

static size_t encode(const metatune_record *r, char *buf, size_t cap)
{
    size_t n = 0;
    CHECK_INT(metatune_record_encode(r, buf, cap, &n), METATUNE_OK);
    CHECK_INT(strlen(buf), n);
    return n;
}

/* Replace the CRC of a hand-made line, so that only its grammar is judged. */
static size_t seal(char *line, const char *body)
{
    size_t n = strlen(body);
    uint32_t crc = metatune_crc32(0, body, n);
    memcpy(line, body, n);
    return n + (size_t)sprintf(line + n, ",\"crc\":\"%08lx\"}\n",
                               (unsigned long)crc);
}

static void test_record_format(void)
{
    static const char want[] =
        "{\"v\":1,\"kind\":\"trial\",\"run\":\"run-1\","
        "\"seed\":18446744073709551615,\"trial\":9007199254740993,"
        "\"batch\":4294967295,\"trial_kind\":\"explore\",\"repeat\":0,"
        "\"strategy\":\"metatune\",\"task\":\"n=1,c=64,h=56\","
        "\"target\":\"cpu/\\\"gcc 12\\\" -O3\","
        "\"knobs\":{\"ocv\":2,\"order\":\"la\\\"bel\","
        "\"wide\":-9223372036854775808},\"space\":\"0123456789abcdef\","
        "\"model\":\"fedcba9876543210\",\"status\":\"OK\","
        "\"unit\":\"seconds\",\"value\":0.00125,\"samples\":[0.00125,0.1],"
        "\"build_s\":0.25,\"run_s\":3.5,\"mean\":0.001,\"sigma\":0.5";
    char buf[4096], line[4096], small[64];
    metatune_record r = record_make(), d;
    int64_t values[3];
    size_t n, m;
    n = encode(&r, buf, sizeof buf);
    CHECK(n > 20 && memcmp(buf, want, sizeof want - 1) == 0);
    CHECK_INT(n, seal(line, want));
    CHECK_STR(buf, line);
    CHECK(metatune_record_memsize(&r) > n);
    CHECK(metatune_record_memsize(&r) <= sizeof buf);
    CHECK_INT(metatune_record_decode(buf, n, &d), METATUNE_OK);
    CHECK_INT(d.version, 1);
    CHECK(d.seed == r.seed && d.trial == r.trial && d.batch == r.batch);
    CHECK(d.space == r.space && d.model == r.model);
    CHECK(text_is(d.knobs_json, "{\"ocv\":2,\"order\":\"la\\\"bel\","
                                "\"wide\":-9223372036854775808}"));
    CHECK_INT(metatune_record_values(&d, knobs, 3, values), METATUNE_OK);
    CHECK(memcmp(values, some_values, sizeof values) == 0);
    CHECK_INT(metatune_text_unescape(d.target, small, sizeof small),
              r.target.n);
    CHECK_STR(small, "cpu/\"gcc 12\" -O3");
    /* every short buffer is refused, none is overrun */
    for (m = 0; m <= n; m++) {
        size_t got = 77;
        memset(line, 'x', sizeof line);
        CHECK_INT(metatune_record_encode(&r, line, m, &got),
                  METATUNE_NO_MEMORY);
        CHECK(line[m] == 'x' && got == 0);
    }
    CHECK_INT(metatune_record_encode(&r, line, n + 1, &m), METATUNE_OK);
    CHECK_INT(metatune_record_encode(NULL, line, n, &m), METATUNE_BAD_ARG);
    CHECK_INT(metatune_record_decode(NULL, 5, &d), METATUNE_BAD_ARG);
    CHECK_INT(metatune_record_memsize(NULL), 0);
}

static void random_bytes(metatune_encode_rng *rng, char *buf, size_t n)
{
    /* mostly text, some of everything */
    size_t i;
    for (i = 0; i < n; i++) {
        uint64_t r = metatune_encode_rng_below(rng, 8);
        if (r < 5) buf[i] = (char)(0x20 + metatune_encode_rng_below(rng, 95));
        else if (r == 5) buf[i] = "\"\\\n\t"[metatune_encode_rng_below(rng, 4)];
        else buf[i] = (char)(unsigned char)metatune_encode_rng_below(rng, 256);
    }
}

/* Plain bytes as they come back: invalid bytes as Latin-1. The test's own
   small decoder, for 1..4 byte sequences. */
static size_t latin_repair(const char *s, size_t n, char *out)
{
    size_t i = 0, len = 0;
    while (i < n) {
        const unsigned char *p = (const unsigned char *)s + i;
        size_t left = n - i, k = 0;
        if (p[0] < 0x80) k = 1;
        else if (left > 1 && p[0] >= 0xC2 && p[0] < 0xE0
                 && (p[1] >> 6) == 2) k = 2;
        else if (left > 2 && (p[0] >> 4) == 14 && (p[1] >> 6) == 2
                 && (p[2] >> 6) == 2 && !(p[0] == 0xE0 && p[1] < 0xA0)
                 && !(p[0] == 0xED && p[1] > 0x9F)) k = 3;
        else if (left > 3 && p[0] >= 0xF0 && p[0] <= 0xF4
                 && (p[1] >> 6) == 2 && (p[2] >> 6) == 2 && (p[3] >> 6) == 2
                 && !(p[0] == 0xF0 && p[1] < 0x90)
                 && !(p[0] == 0xF4 && p[1] > 0x8F)) k = 4;
        if (k) {
            memcpy(out + len, s + i, k);
            len += k;
            i += k;
        } else {
            out[len++] = (char)(unsigned char)(0xC0 | (p[0] >> 6));
            out[len++] = (char)(unsigned char)(0x80 | (p[0] & 63));
            i++;
        }
    }
    return len;
}

static int text_back(metatune_text escaped, metatune_text plain)
{
    char got[2048], want[2048];
    size_t n = metatune_text_unescape(escaped, got, sizeof got);
    return n == latin_repair(plain.p, plain.n, want)
        && memcmp(got, want, n) == 0;
}

static double random_time(metatune_encode_rng *rng)
{
    double x;
    do {
        x = double_of(metatune_encode_rng_next(rng) >> 1);
    } while (!(x > 0.0 && x <= DBL_MAX));
    return x;
}

static void record_random(metatune_encode_rng *rng, metatune_record *r,
                          char (*texts)[300], int64_t *values)
{
    metatune_text *slot[6];
    uint32_t k;
    size_t i;
    memset(r, 0, sizeof *r);
    slot[0] = &r->run; slot[1] = &r->task; slot[2] = &r->target;
    slot[3] = &r->strategy; slot[4] = &r->error; slot[5] = &r->layer;
    for (i = 0; i < 6; i++) {
        slot[i]->n = metatune_encode_rng_below(rng, i == 4 ? 250 : 40);
        random_bytes(rng, texts[i], slot[i]->n);
        slot[i]->p = texts[i];
    }
    r->kind = (int32_t)metatune_encode_rng_below(rng, 3);
    r->seed = metatune_encode_rng_next(rng);
    r->space = metatune_encode_rng_next(rng);
    r->model = metatune_encode_rng_next(rng);
    r->unit = (int32_t)metatune_encode_rng_below(rng, 3);
    r->build_s = random_time(rng);
    r->think_s = random_time(rng);
    for (k = 0; k < 3; k++)
        values[k] = knobs[k].values[metatune_encode_rng_below(
            rng, knobs[k].n_values)];
    if (r->kind == METATUNE_RECORD_TRIAL) {
        r->trial = metatune_encode_rng_next(rng);
        r->batch = (uint32_t)metatune_encode_rng_next(rng);
        r->repeat = (uint32_t)metatune_encode_rng_next(rng);
        r->attempt = (uint32_t)metatune_encode_rng_below(rng, 2);
        r->trial_kind = (int32_t)metatune_encode_rng_below(rng, 2);
        r->status = (metatune_status)metatune_encode_rng_below(rng, 10);
        r->knobs = knobs;
        r->n_knobs = 3;
        r->values = values;
        if (r->status == METATUNE_OK) {
            r->value = random_time(rng);
            r->n_samples = (uint32_t)metatune_encode_rng_below(rng, 17);
            for (k = 0; k < r->n_samples; k++)
                r->samples[k] = random_time(rng);
        }
        r->predicted = (int32_t)metatune_encode_rng_below(rng, 2);
        if (r->predicted) {
            r->mean = -random_time(rng);
            r->sigma = random_time(rng);
        }
    } else if (r->kind == METATUNE_RECORD_END) {
        r->status = METATUNE_BUDGET;
        r->trials = metatune_encode_rng_next(rng);
        r->value = random_time(rng);
    } else {
        r->naive_s = random_time(rng);
        r->default_s = random_time(rng);
        r->peak_gflops = random_time(rng);
        r->gflop = random_time(rng);
    }
}

static int record_equal(const metatune_record *a, const metatune_record *d)
{
    uint32_t i;
    int64_t values[3];
    int same = d->version == 1 && a->kind == d->kind && a->seed == d->seed
        && a->trial == d->trial && a->batch == d->batch
        && a->trial_kind == d->trial_kind && a->repeat == d->repeat
        && a->attempt == d->attempt && a->space == d->space
        && a->model == d->model && a->status == d->status
        && a->unit == d->unit && bits_of(a->value) == bits_of(d->value)
        && a->n_samples == d->n_samples
        && bits_of(a->build_s) == bits_of(d->build_s)
        && bits_of(a->run_s) == bits_of(d->run_s)
        && bits_of(a->think_s) == bits_of(d->think_s)
        && a->predicted == d->predicted
        && bits_of(a->mean) == bits_of(d->mean)
        && bits_of(a->sigma) == bits_of(d->sigma)
        && bits_of(a->naive_s) == bits_of(d->naive_s)
        && bits_of(a->default_s) == bits_of(d->default_s)
        && bits_of(a->peak_gflops) == bits_of(d->peak_gflops)
        && bits_of(a->gflop) == bits_of(d->gflop) && a->trials == d->trials;
    for (i = 0; same && i < a->n_samples; i++)
        same = bits_of(a->samples[i]) == bits_of(d->samples[i]);
    same = same && text_back(d->run, a->run) && text_back(d->task, a->task)
        && text_back(d->target, a->target) && text_back(d->error, a->error)
        && text_back(d->strategy, a->strategy)
        && text_back(d->layer, a->layer);
    if (same && a->knobs)
        same = metatune_record_values(d, knobs, 3, values) == METATUNE_OK
            && memcmp(values, a->values, sizeof values) == 0;
    return same;
}

static void test_record_roundtrip(void)
{
    metatune_encode_rng rng = rng_make("records", 5);
    static char texts[6][300], buf[8192];
    int64_t values[3];
    int i;
    for (i = 0; i < 20000; i++) {
        metatune_record r, d;
        size_t n = 0;
        record_random(&rng, &r, texts, values);
        if (metatune_record_encode(&r, buf, sizeof buf, &n) != METATUNE_OK
            || n + 1 > metatune_record_memsize(&r) || strlen(buf) != n
            || strchr(buf, '\n') != buf + n - 1
            || metatune_record_decode(buf, n - (size_t)(i & 1), &d)
                != METATUNE_OK
            || !record_equal(&r, &d)) {
            FAULT("does not come back");
            printf("        round %d: %s", i, buf);
            break;
        }
    }
}

static void test_record_memsize(void)
{
    /* everything at its longest must fit in what memsize says */
    static char ones[300], buf[32768], name[64];
    static const char unknown[] = ",\"x\":[1,2,{\"y\":null}]";
    static const int64_t least[2] = { INT64_MIN, INT64_MAX };
    static const char *label[2];
    metatune_knob wide[2];
    int64_t values[2] = { INT64_MIN, INT64_MAX };
    metatune_record r;
    int i;
    size_t n = 0;
    memset(ones, 1, sizeof ones);
    memset(name, 2, sizeof name - 1);
    label[0] = name;
    label[1] = "b";
    wide[0].name = wide[1].name = name;
    wide[0].values = wide[1].values = least;
    wide[0].n_values = wide[1].n_values = 2;
    wide[0].labels = label;
    wide[1].labels = NULL;
    for (i = 0; i < 3; i++) {
        memset(&r, 0, sizeof r);
        r.kind = i;
        r.run.p = r.task.p = r.target.p = r.strategy.p = r.layer.p = ones;
        r.run.n = r.task.n = r.target.n = r.strategy.n = r.layer.n = 300;
        r.error.p = ones;
        r.error.n = 300;
        r.seed = r.trial = r.space = r.model = r.trials = UINT64_MAX;
        r.batch = r.repeat = r.attempt = UINT32_MAX;
        r.trial_kind = METATUNE_CONFIRM;
        r.unit = METATUNE_INSTRUCTIONS;
        r.knobs = wide;
        r.n_knobs = 2;
        r.values = values;
        r.value = r.build_s = r.run_s = r.think_s = r.sigma = DBL_MIN;
        r.mean = -DBL_MIN;
        r.naive_s = r.default_s = r.peak_gflops = r.gflop = DBL_MIN;
        r.predicted = 1;
        r.n_samples = 16;
        for (n = 0; n < 16; n++) r.samples[n] = -DBL_MIN;
        r.unknown = text_of(unknown);
        n = encode(&r, buf, sizeof buf);
        CHECK(n + 1 <= metatune_record_memsize(&r));
        CHECK(metatune_record_memsize(&r) < 2 * n);
    }
    r.task.n = SIZE_MAX / 2;
    CHECK_INT(metatune_record_memsize(&r), 0);
}

/* A flipped bit anywhere, '\n' included, is refused: none is silently kept. */
static void test_record_bitflips(void)
{
    char buf[4096], copy[4096];
    metatune_record r = record_make(), d;
    size_t n = encode(&r, buf, sizeof buf), i;
    int bit, accepted = 0;
    for (i = 0; i < n; i++)
        for (bit = 0; bit < 8; bit++) {
            memcpy(copy, buf, n);
            copy[i] = (char)(copy[i] ^ (1 << bit));
            if (metatune_record_decode(copy, n, &d) == METATUNE_OK) {
                accepted++;
                printf("        byte %lu bit %d accepted\n", (unsigned long)i,
                       bit);
            }
        }
    CHECK_INT(accepted, 0);
    /* and no prefix of the line is a record */
    for (i = 0; i + 1 < n; i++) {
        char *tight = (char *)malloc(i ? i : 1);
        if (!tight) break;
        memcpy(tight, buf, i);
        CHECK(metatune_record_decode(tight, i, &d) == METATUNE_BAD_RECORD);
        free(tight);
    }
}

static void test_record_refusals(void)
{
    char buf[4096];
    size_t n;
    metatune_record r = record_make(), d;
    r.value = double_of(0x7FF0000000000000ULL);
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_NOT_FINITE);
    r.value = double_of(0x7FF8000000000000ULL);
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_NOT_FINITE);
    r.value = 0.0;
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_BAD_ARG);
    r.value = 1.0;
    r.samples[1] = double_of(0x7FF8000000000000ULL);
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_NOT_FINITE);
    /* a failure carries no number, whatever the caller left in there */
    r.status = METATUNE_INVALID_TIME;
    r.value = double_of(0x7FF0000000000000ULL);
    r.mean = r.value;
    r.run_s = r.value;
    n = encode(&r, buf, sizeof buf);
    CHECK(!strstr(buf, "value") && !strstr(buf, "samples"));
    CHECK(!strstr(buf, "mean") && !strstr(buf, "run_s"));
    CHECK(!strstr(buf, "inf") && !strstr(buf, "nan"));
    CHECK_INT(metatune_record_decode(buf, n, &d), METATUNE_OK);
    CHECK_INT(d.status, METATUNE_INVALID_TIME);
    CHECK_NEAR(d.value, 0.0, 0.0);
    CHECK_INT(d.predicted, 0);
    r = record_make();
    r.status = METATUNE_BUDGET; /* the end of a search is no trial's status */
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_BAD_ARG);
    r = record_make();
    r.status = (metatune_status)15;
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_BAD_ARG);
    r = record_make();
    r.kind = 3;
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_BAD_ARG);
    r = record_make();
    r.n_samples = 17;
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_BAD_ARG);
    r = record_make();
    r.unknown = text_of(",\"x\":1\n");
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_BAD_ARG);
    r.unknown = text_of("\"x\":1");
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_BAD_ARG);
    r = record_make();
    r.knobs = NULL;
    r.knobs_json = text_of("{\"a\":1}\n{}");
    CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
              METATUNE_BAD_ARG);
    r = record_make();
    {
        int64_t other[3] = { 2, 7, 0 }; /* 7 has no label */
        r.values = other;
        CHECK_INT(metatune_record_encode(&r, buf, sizeof buf, &n),
                  METATUNE_BAD_ARG);
    }
}

/* Lines with a right CRC and a wrong body. HEAD is good up to there. */
#define HEAD "{\"v\":1,\"kind\":\"trial\",\"trial\":1,\"task\":\"t\"," \
    "\"target\":\"u\",\"knobs\":{},\"space\":\"0000000000000000\"," \
    "\"unit\":\"seconds\""
#define GOOD HEAD ",\"status\":\"OK\",\"value\":1"

static void test_record_hostile(void)
{
    static const char *const bad[] = {
        HEAD, HEAD ",\"status\":\"OK\"", HEAD ",\"status\":\"ok\",\"value\":1",
        HEAD ",\"status\":\"OK\",\"value\":0",
        HEAD ",\"status\":\"OK\",\"value\":-1",
        HEAD ",\"status\":\"OK\",\"value\":1e999",
        HEAD ",\"status\":\"OK\",\"value\":1e-999",
        HEAD ",\"status\":\"OK\",\"value\":null",
        HEAD ",\"status\":\"OK\",\"value\":\"1\"",
        HEAD ",\"status\":\"OK\",\"value\":NaN",
        HEAD ",\"status\":\"OK\",\"value\":Infinity",
        HEAD ",\"status\":\"BUDGET\",\"value\":1",
        HEAD ",\"status\":\"UNKNOWN\",\"value\":1",
        HEAD ",\"status\":0,\"value\":1",
        GOOD ",\"value\":1", GOOD ",\"value\":2", GOOD ",\"v\":1",
        GOOD ",\"crc\":\"00000000\"", GOOD ",", GOOD "}", GOOD ",\"x\"",
        GOOD ",\"x\":", GOOD ",\"x\":}", GOOD ",\"x\":[", GOOD ",\"x\":[1,]",
        GOOD ",\"x\":[1 2]", GOOD ",\"x\":{\"a\":1,}", GOOD ",\"x\":{1:2}",
        GOOD ",\"x\":{\"a\"}", GOOD ",\"x\":[}", GOOD ",\"x\":{]",
        GOOD ",\"x\":[1}", GOOD ",\"x\":01", GOOD ",\"x\":1.",
        GOOD ",\"x\":+1", GOOD ",\"x\":.5", GOOD ",\"x\":tru",
        GOOD ",\"x\":\"\\x\"", GOOD ",\"x\":\"\\u12g4\"",
        GOOD ",\"x\":\"\\u12", GOOD ",\"x\":\"\\", GOOD ",\"x\":\"a\tb\"",
        GOOD ",x:1", GOOD ",\"x\":'a'", GOOD " \"x\":1",
        GOOD ",\"seed\":-1", GOOD ",\"seed\":1.0", GOOD ",\"seed\":1e3",
        GOOD ",\"seed\":18446744073709551616", GOOD ",\"seed\":\"1\"",
        GOOD ",\"seed\":99999999999999999999999999999999999999",
        GOOD ",\"batch\":4294967296", GOOD ",\"repeat\":-0",
        GOOD ",\"model\":\"0123456789ABCDEF\"", GOOD ",\"model\":\"12\"",
        GOOD ",\"model\":12", GOOD ",\"samples\":1", GOOD ",\"samples\":[[1]]",
        GOOD ",\"samples\":[1e999]", GOOD ",\"samples\":[null]",
        GOOD ",\"trial_kind\":\"other\"", GOOD ",\"run\":5",
        "{\"v\":1", "{\"v\":1,\"kind\":\"trial\"",
        "{\"v\":1,\"kind\":\"other\",\"task\":\"t\"",
        "{\"v\":1,\"kind\":\"end\",\"task\":\"t\"",
        "{\"v\":0,\"kind\":\"task\",\"task\":\"t\"",
        "{\"v\":-1,\"kind\":\"task\",\"task\":\"t\"",
        "{\"v\":\"1\",\"kind\":\"task\",\"task\":\"t\"",
        "{\"v\":1.0,\"kind\":\"task\",\"task\":\"t\"",
        "{\"kind\":\"task\",\"v\":1,\"task\":\"t\"", "{", "", "[1", "{\"v\":",
        "{\"v\""
    };
    static const char *const good[] = {
        GOOD, GOOD ",\"x\":[]", GOOD ",\"x\":{}", GOOD ",\"x\":[[],{},[{}]]",
        GOOD ",\"x\":{\"a\":[1,{\"b\":null}],\"c\":\"\\ud83d\\ude00\"}",
        GOOD ",\"x\":-1.5e-7", GOOD ",\"x\":1e9999", GOOD ",\"x\":true",
        GOOD ",\"\":1", GOOD ",\"x\":1,\"x\":1", GOOD " , \"x\" : [ 1 , 2 ] ",
        GOOD ",\"samples\":[]", GOOD ",\"samples\":[1,2e-3]",
        GOOD ",\"seed\":18446744073709551615",
        "{\"v\":1,\"kind\":\"task\",\"task\":\"t\"",
        "{\"v\":1,\"kind\":\"end\",\"task\":\"t\",\"status\":\"NO_VALID\"",
        HEAD ",\"status\":\"COMPILE\""
    };
    static char line[8192];
    metatune_record d;
    size_t i, n;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        n = seal(line, bad[i]);
        if (metatune_record_decode(line, n, &d) != METATUNE_BAD_RECORD) {
            FAULT("accepted");
            printf("        %s", line);
        }
    }
    for (i = 0; i < sizeof good / sizeof good[0]; i++) {
        n = seal(line, good[i]);
        if (metatune_record_decode(line, n, &d) != METATUNE_OK) {
            FAULT("refused");
            printf("        %s", line);
        }
    }
    /* AutoTVM's 1e9 of a failure is no time (and 17 samples are 16) */
    n = seal(line, HEAD ",\"status\":\"RUNTIME\",\"value\":1e9,"
                        "\"samples\":[1e9]");
    CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_OK);
    CHECK_NEAR(d.value, 0.0, 0.0);
    CHECK_INT(d.n_samples, 0);
    n = seal(line, GOOD ",\"samples\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,"
                        "16,17]");
    CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_OK);
    CHECK_INT(d.n_samples, 16);
    CHECK_NEAR(d.samples[15], 16.0, 0.0);
}

/* depth levels of arrays or objects, in an unknown field */
static size_t nested(char *line, size_t depth, int object)
{
    static char body[400000];
    size_t k, len = strlen(GOOD ",\"x\":");
    memcpy(body, GOOD ",\"x\":", len);
    for (k = 0; k < depth; k++) {
        memcpy(body + len, object ? "{\"a\":" : "[", object ? 5 : 1);
        len += object ? 5 : 1;
    }
    body[len++] = '1';
    for (k = 0; k < depth; k++) body[len++] = object ? '}' : ']';
    body[len] = 0;
    return seal(line, body);
}

static void test_record_deep(void)
{
    static char line[500000];
    metatune_record d;
    size_t n;
    int object;
    for (object = 0; object < 2; object++) {
        n = nested(line, 32, object);
        CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_OK);
        n = nested(line, 33, object);
        CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_BAD_RECORD);
        n = nested(line, 60000, object);
        CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_BAD_RECORD);
    }
}

/* Random damage of every sort: nothing is read past the end (run this under
   the address sanitizer) and what is accepted carries a right CRC. */
static void test_record_mutations(void)
{
    metatune_encode_rng rng = rng_make("mutations", 6);
    char buf[4096], body[4096], line[4200];
    metatune_record r = record_make(), d;
    size_t n = encode(&r, buf, sizeof buf) - 19, i, accepted = 0;
    int round;
    buf[n] = 0;
    for (round = 0; round < 30000; round++) {
        size_t edits = 1 + metatune_encode_rng_below(&rng, 3), len = n;
        char *tight;
        memcpy(body, buf, n);
        for (i = 0; i < edits; i++) {
            size_t at = 7 + metatune_encode_rng_below(&rng, len - 7);
            static const char alphabet[] = "{}[]\",:\\u0-1e.+ tfn";
            uint64_t what = metatune_encode_rng_below(&rng, 3);
            char c = alphabet[metatune_encode_rng_below(&rng,
                                                        sizeof alphabet - 1)];
            if (what == 0) {
                body[at] = c;
            } else if (what == 1) {
                memmove(body + at, body + at + 1, len - at - 1);
                len--;
            } else {
                memmove(body + at + 1, body + at, len - at);
                body[at] = c;
                len++;
            }
        }
        body[len] = 0;
        len = seal(line, body);
        tight = (char *)malloc(len);
        if (!tight) return;
        memcpy(tight, line, len);
        if (metatune_record_decode(tight, len, &d) == METATUNE_OK) {
            int64_t values[3];
            char text[64];
            accepted++;
            (void)metatune_record_values(&d, knobs, 3, values);
            (void)metatune_text_unescape(d.target, text, sizeof text);
            /* what decodes must encode again (raw parts verbatim) */
            d.run = d.task = d.target = d.strategy = d.error = d.layer
                = text_of("x");
            CHECK_INT(metatune_record_encode(&d, body, sizeof body, &i),
                      METATUNE_OK);
        }
        free(tight);
    }
    CHECK(accepted > 1000 && accepted < 29000);
}

static void test_record_version(void)
{
    char line[400];
    metatune_record d;
    size_t n = seal(line, "{\"v\":99,\"kind\":\"trial\"");
    CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_BAD_RECORD);
    CHECK_INT(d.version, 99); /* later, not damaged */
    n = (size_t)sprintf(line, "{\"v\":2,\"anything\":<...>}\n");
    CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_BAD_RECORD);
    CHECK_INT(d.version, 2);
    n = seal(line, "{\"v\":99999999999,\"kind\":\"trial\"");
    CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_BAD_RECORD);
    CHECK_INT(d.version, 0);
}

/* An AutoTVM line, with and without a CRC of ours. */
static void test_record_foreign(void)
{
    static const char autotvm[] =
        "{\"input\": [\"llvm -mcpu=core-avx2\", \"conv2d\", [[\"TENSOR\", [1, "
        "64, 56, 56], \"float32\"]], {}], \"config\": {\"index\": 7, "
        "\"entity\": [[\"tile_ic\", \"sp\", [-1, 8]]]}, \"result\": [[1e9], 4, "
        "0.5, 1600000000.0], \"version\": 0.2, \"tvm_version\": \"0.8.dev0\"";
    char line[1000];
    metatune_record d;
    size_t n = (size_t)sprintf(line, "%s}\n", autotvm);
    CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_BAD_RECORD);
    CHECK_INT(d.version, 0);
    n = seal(line, autotvm);
    CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_BAD_RECORD);
    CHECK_INT(metatune_record_decode("{}\n", 3, &d), METATUNE_BAD_RECORD);
    CHECK_INT(metatune_record_decode("null\n", 5, &d), METATUNE_BAD_RECORD);
    CHECK_INT(metatune_record_decode("a,b,c\n", 6, &d), METATUNE_BAD_RECORD);
}

/* ------------------------------------------------------------------- text */

static void test_error_text(void)
{
    static char error[10240], buf[8192], back[2048], want[2048];
    metatune_encode_rng rng = rng_make("error text", 7);
    metatune_record r = record_make(), d;
    size_t n, i, len, m;
    int round;
    r.status = METATUNE_COMPILE;
    for (round = 0; round < 200; round++) {
        for (i = 0; i < sizeof error; i++)
            error[i] = "\"\\\n\xFF\0\xC3\xA9 e'<"[metatune_encode_rng_below(
                &rng, 11)];
        r.error.p = error;
        r.error.n = sizeof error;
        n = encode(&r, buf, sizeof buf);
        CHECK(memchr(buf, '\n', n) == buf + n - 1);
        CHECK_INT(metatune_record_decode(buf, n, &d), METATUNE_OK);
        len = metatune_text_unescape(d.error, back, sizeof back);
        /* the longest prefix of at most 256 bytes that cuts no character */
        m = 256;
        if (error[255] == '\xC3' && error[256] == '\xA9') m = 255;
        CHECK_INT(len, latin_repair(error, m, want));
        CHECK(memcmp(back, want, len) == 0);
    }
    /* sequences of 2, 3 and 4 bytes at the cut */
    for (i = 250; i <= 256; i++) {
        static const char *const seq[] = { "\xC3\xA9", "\xE2\x82\xAC",
                                           "\xF0\x9F\x98\x80" };
        for (m = 0; m < 3; m++) {
            size_t end = i + strlen(seq[m]);
            memset(error, 'a', sizeof error);
            memcpy(error + i, seq[m], strlen(seq[m]));
            n = encode(&r, buf, sizeof buf);
            CHECK_INT(metatune_record_decode(buf, n, &d), METATUNE_OK);
            CHECK_INT(d.error.n, end > 256 ? i : 256);
        }
    }
    r.error.n = 256;
    n = encode(&r, buf, sizeof buf);
    CHECK_INT(metatune_record_decode(buf, n, &d), METATUNE_OK);
    CHECK_INT(d.error.n, 256);
}

static void test_unescape(void)
{
    static const struct { const char *escaped, *plain; } pair[] = {
        { "", "" }, { "abc", "abc" }, { "\\\"\\\\\\/\\b\\f\\n\\r\\t",
                                        "\"\\/\b\f\n\r\t" },
        { "\\u0041\\u00e9\\u20ac", "A\xC3\xA9\xE2\x82\xAC" },
        { "\\ud83d\\ude00", "\xF0\x9F\x98\x80" },
        { "\\ud83dx", "\xEF\xBF\xBDx" }, { "\\ude00", "\xEF\xBF\xBD" },
        { "\\ud83d\\u0041", "\xEF\xBF\xBD" "A" },
        { "\\ud83d\\ud83d\\ude00", "\xEF\xBF\xBD\xF0\x9F\x98\x80" },
        { "\\", "\\" }, { "\\u12", "\\u12" }, { "\\q", "\\q" },
        { "\xFF", "\xC3\xBF" }
    };
    char buf[64];
    size_t i, n, cap;
    for (i = 0; i < sizeof pair / sizeof pair[0]; i++) {
        memset(buf, 'x', sizeof buf);
        n = metatune_text_unescape(text_of(pair[i].escaped), buf, sizeof buf);
        CHECK_INT(n, strlen(pair[i].plain));
        CHECK_STR(buf, pair[i].plain);
    }
    CHECK_INT(metatune_text_unescape(text_of("a\\u0000b"), buf, 9), 3);
    CHECK(memcmp(buf, "a\0b", 4) == 0);
    for (cap = 0; cap < 9; cap++) { /* never inside a character, never over */
        memset(buf, 'x', sizeof buf);
        n = metatune_text_unescape(text_of("\\u20ac\\u20ac"), buf, cap);
        CHECK_INT(n, cap / 3 > 2 ? 2 * 3 : cap / 3 * 3);
        CHECK(buf[cap] == 'x');
    }
    CHECK_INT(metatune_text_unescape(text_of("a"), NULL, 9), 0);
}

/* A rewrite keeps what it does not know, wherever it stood. */
static void test_unknown_survives(void)
{
    static const char body[] = HEAD ",\"x\":[1, {\"v\":2}],\"status\":\"OK\","
        "\"value\":1,\"power_w\":3.50,\"seed\":18446744073709551615,"
        "\"note\":\"a\\u00e9\\\"\"";
    char line[2048], again[2048], third[2048];
    metatune_record d, e;
    size_t n = seal(line, body), m = 0;
    CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_OK);
    CHECK(d.seed == UINT64_MAX);
    CHECK_INT(metatune_record_encode(&d, again, sizeof again, &m),
              METATUNE_OK);
    CHECK(m + 1 <= metatune_record_memsize(&d));
    CHECK_INT(metatune_record_decode(again, m, &e), METATUNE_OK);
    CHECK(text_is(e.unknown, ",\"x\":[1, {\"v\":2}],\"power_w\":3.50,"
                             "\"note\":\"a\\u00e9\\\"\""));
    CHECK(e.seed == d.seed && text_is(e.knobs_json, "{}"));
    CHECK_INT(metatune_record_encode(&e, third, sizeof third, &n),
              METATUNE_OK);
    CHECK_STR(third, again);
}

/* --------------------------------------------------------- changed spaces */

static void test_space_changed(void)
{
    static const int64_t ocv_more[] = { 16, 8, 4, 3, 2, 1 };
    static const int64_t ocv_less[] = { 1, 4 };
    static const int64_t order_other[] = { 5, 6, 7 };
    static const char *const labels_moved[] = { "xyk", "kyx", "la\"bel" };
    metatune_knob k[4];
    metatune_record r = record_make(), d;
    char buf[4096], line[4096];
    int64_t values[4];
    size_t n = encode(&r, buf, sizeof buf);
    static const char *const json[] = {
        "{\"ocv\":2,\"ocv\":2}", "{\"ocv\":2.0}", "{\"ocv\":2e0}",
        "{\"ocv\":\"2\"}", "{\"ocv\":null}", "{\"ocv\":[2]}", "{\"ocv\":02}",
        "{\"ocv\":9223372036854775808}", "{\"ocv\":-9223372036854775809}",
        "{\"ocv\":18446744073709551618}", "{}", "{\"ocv\":2", "{\"ocv\"}", "",
        "2", "{\"OCV\":2}"
    };
    size_t i;
    CHECK_INT(metatune_record_decode(buf, n, &d), METATUNE_OK);
    /* a value added, its list in another order: by value, still right */
    memcpy(k, knobs, sizeof knobs);
    k[0].values = ocv_more;
    k[0].n_values = 6;
    CHECK_INT(metatune_record_values(&d, k, 3, values), METATUNE_OK);
    CHECK(values[0] == 2 && values[1] == 1 && values[2] == INT64_MIN);
    /* the value is gone */
    k[0].values = ocv_less;
    k[0].n_values = 2;
    CHECK_INT(metatune_record_values(&d, k, 3, values), METATUNE_NOT_FOUND);
    /* labels moved to other numbers: by label */
    memcpy(k, knobs, sizeof knobs);
    k[1].values = order_other;
    k[1].labels = labels_moved;
    CHECK_INT(metatune_record_values(&d, k, 3, values), METATUNE_OK);
    CHECK(values[1] == 7);
    k[1].labels = NULL; /* labels gone */
    CHECK_INT(metatune_record_values(&d, k, 3, values), METATUNE_NOT_FOUND);
    /* knobs reordered */
    k[0] = knobs[2];
    k[1] = knobs[0];
    k[2] = knobs[1];
    CHECK_INT(metatune_record_values(&d, k, 3, values), METATUNE_OK);
    CHECK(values[0] == INT64_MIN && values[1] == 2 && values[2] == 1);
    /* renamed, added, removed */
    memcpy(k, knobs, sizeof knobs);
    k[0].name = "ocw";
    CHECK_INT(metatune_record_values(&d, k, 3, values), METATUNE_NOT_FOUND);
    memcpy(k, knobs, sizeof knobs);
    k[3] = knobs[0];
    k[3].name = "unroll";
    CHECK_INT(metatune_record_values(&d, k, 4, values), METATUNE_NOT_FOUND);
    CHECK_INT(metatune_record_values(&d, k, 2, values), METATUNE_NOT_FOUND);
    k[1].labels = labels_moved; /* and a number where labels are now */
    n = seal(line, "{\"v\":1,\"kind\":\"task\",\"task\":\"t\","
                   "\"knobs\":{\"order\":0}");
    CHECK_INT(metatune_record_decode(line, n, &d), METATUNE_OK);
    CHECK_INT(metatune_record_values(&d, k + 1, 1, values),
              METATUNE_NOT_FOUND);
    /* odd texts for one numeric knob */
    for (i = 0; i < sizeof json / sizeof json[0]; i++) {
        memset(&d, 0, sizeof d);
        d.knobs_json = text_of(json[i]);
        if (metatune_record_values(&d, knobs, 1, values)
            != METATUNE_NOT_FOUND) {
            FAULT("accepted");
            printf("        %s\n", json[i]);
        }
    }
    d.knobs_json = text_of(" { \"ocv\" : 2 } ");
    CHECK_INT(metatune_record_values(&d, knobs, 1, values), METATUNE_OK);
    CHECK_INT(metatune_record_values(&d, knobs, METATUNE_MAX_KNOBS + 1,
                                     values), METATUNE_BAD_ARG);
}

/* ------------------------------------------------------------------- logs */

static char big_log[1500000];

/* 20 records of the test's task; returns the length, offsets of line ends */
static size_t log_make(char *log, size_t *ends)
{
    size_t len = 0, i, n;
    for (i = 0; i < 20; i++) {
        metatune_record r = record_make();
        int64_t values[3];
        values[0] = ocv_values[i % 4];
        values[1] = order_values[i / 4 % 3];
        values[2] = wide_values[i / 12 % 4];
        r.values = values;
        r.trial = i + 1;
        if (i % 5 == 4) {
            r.status = METATUNE_RUNTIME;
            r.error = text_of("line 1\nline 2 {\"v\":1,\"kind\"");
        }
        r.space = metatune_space_hash(knobs, 3);
        CHECK_INT(metatune_record_encode(&r, log + len, 4096, &n),
                  METATUNE_OK);
        len += n;
        ends[i] = len;
    }
    return len;
}

static void log_count(const char *log, size_t n, size_t *good, size_t *bad)
{
    size_t pos = 0, before;
    metatune_record r;
    metatune_status st;
    *good = *bad = 0;
    for (;;) {
        before = pos;
        st = metatune_log_next(log, n, &pos, &r);
        if (st == METATUNE_NOT_FOUND) break;
        if (st == METATUNE_OK) ++*good;
        else ++*bad;
        if (pos <= before || pos > n) {
            FAULT("no progress");
            break;
        }
    }
    CHECK_INT(pos, n);
}

static void test_log_truncated(void)
{
    size_t ends[20], n = log_make(big_log, ends), cut, good, bad, whole = 0;
    static char again[40000], extra[4096];
    metatune_record r = record_make();
    size_t extra_n = encode(&r, extra, sizeof extra);
    for (cut = 0; cut <= n; cut++) {
        char *tight = (char *)malloc(cut ? cut : 1);
        int torn;
        if (!tight) return;
        memcpy(tight, big_log, cut);
        while (whole < 20 && ends[whole] <= cut) whole++;
        torn = cut != (whole ? ends[whole - 1] : 0);
        log_count(tight, cut, &good, &bad);
        CHECK_INT(good, whole);
        CHECK_INT(bad, torn);
        free(tight);
        if (cut % 7) continue; /* the slower part on some */
        /* appended on a new line, as it should be */
        memcpy(again, big_log, cut);
        again[cut] = '\n';
        memcpy(again + cut + 1, extra, extra_n);
        log_count(again, cut + 1 + extra_n, &good, &bad);
        /* a line that lacked nothing but its '\n' is a record now */
        CHECK_INT(good, whole + 1
                  + (size_t)(whole < 20 && cut + 1 == ends[whole]));
        /* appended right behind the torn line: not lost either */
        memcpy(again + cut, extra, extra_n);
        log_count(again, cut + extra_n, &good, &bad);
        CHECK_INT(good, whole + 1);
        CHECK_INT(bad, torn);
    }
}

static void test_log_odd_files(void)
{
    size_t ends[20], n = log_make(big_log, ends), good, bad, i, len;
    static char log[1400000];
    log_count("", 0, &good, &bad);
    CHECK(good == 0 && bad == 0);
    log_count("\n", 1, &good, &bad);
    CHECK(good == 0 && bad == 0);
    log_count("\r\n\n  \n", 6, &good, &bad);
    CHECK(good == 0 && bad == 0);
    log_count("\xEF\xBB\xBF", 3, &good, &bad);
    CHECK(good == 0 && bad == 0);
    /* BOM before, then CRLF everywhere */
    memcpy(log, "\xEF\xBB\xBF", 3);
    for (i = 0, len = 3; i < n; i++) {
        if (big_log[i] == '\n') log[len++] = '\r';
        log[len++] = big_log[i];
    }
    log_count(log, len, &good, &bad);
    CHECK(good == 20 && bad == 0);
    /* a block of NULs where the power went, then more records */
    memcpy(log, big_log, n);
    memset(log + n, 0, 4096);
    log_count(log, n + 4096, &good, &bad);
    CHECK(good == 20 && bad == 1);
    memcpy(log + n + 4096, big_log, n);
    log_count(log, 2 * n + 4096, &good, &bad);
    CHECK(good == 40 && bad == 0);
    /* NULs before a torn record are one bad line with it */
    log_count("\0\0 {\"v\":1,\"kind\"\n", 17, &good, &bad);
    CHECK(good == 0 && bad == 1);
    /* a line of 1 MB between good ones: rubbish, then heads only */
    memcpy(log, big_log, n);
    memset(log + n, '[', 1000000);
    log[n + 1000000] = '\n';
    memcpy(log + n + 1000001, big_log, n);
    log_count(log, 2 * n + 1000001, &good, &bad);
    CHECK(good == 40 && bad == 1);
    for (i = 0; i < 200000; i++) memcpy(log + n + 5 * i, "{\"v\":", 5);
    log_count(log, 2 * n + 1000001, &good, &bad);
    CHECK(good == 40 && bad == 2);
    /* a good record with 1 MB of unknown text */
    len = strlen(GOOD ",\"x\":\"");
    memcpy(log, GOOD ",\"x\":\"", len);
    memset(log + len, 'y', 1000000);
    memcpy(log + len + 1000000, "\"", 2);
    {
        metatune_record d;
        size_t m = seal(big_log, log);
        CHECK_INT(metatune_record_decode(big_log, m, &d), METATUNE_OK);
        CHECK_INT(d.unknown.n, 1000000 + 7);
    }
    CHECK_INT(metatune_log_lines("a\nb\nc", 5), 3);
    CHECK_INT(metatune_log_lines("a\nb\n", 4), 2);
    CHECK_INT(metatune_log_lines("", 0), 0);
    CHECK_INT(metatune_log_lines(NULL, 0), 0);
}

/* ---------------------------------------------------------------- history */

static metatune_problem problem_make(void)
{
    metatune_problem p;
    memset(&p, 0, sizeof p);
    p.task = "n=1,c=64,h=56";
    p.target = "cpu/\"gcc 12\" -O3";
    p.knobs = knobs;
    p.n_knobs = 3;
    return p;
}

static uint64_t setting_hash(const int64_t *values)
{
    uint16_t digits[3];
    CHECK_INT(metatune_space_digits(knobs, 3, values, digits), METATUNE_OK);
    return metatune_setting_hash(digits, 3);
}

static metatune_encode_rng log_rng;

/* Append one trial line; returns the new length. */
static size_t log_add(char *log, size_t len, uint32_t setting, int32_t kind,
                      uint32_t repeat, metatune_status status, double value)
{
    metatune_record r = record_make();
    int64_t values[3];
    size_t n = 0;
    values[0] = ocv_values[setting % 4];
    values[1] = order_values[setting / 4 % 3];
    values[2] = wide_values[setting / 12 % 4];
    r.space = metatune_space_hash(knobs, 3);
    r.values = values;
    r.trial_kind = kind;
    r.repeat = repeat;
    r.status = status;
    r.value = value;
    r.n_samples = 0;
    CHECK_INT(metatune_record_encode(&r, log + len, 4096, &n), METATUNE_OK);
    return len + n;
}

static uint64_t setting_key(uint32_t setting)
{
    int64_t values[3];
    values[0] = ocv_values[setting % 4];
    values[1] = order_values[setting / 4 % 3];
    values[2] = wide_values[setting / 12 % 4];
    return setting_hash(values);
}

#define HISTORY_CAP 2000
static metatune_history_entry history_mem[HISTORY_CAP];

static void test_history(void)
{
    metatune_history h;
    metatune_problem p = problem_make(), other;
    const metatune_history_entry *e;
    size_t len = 0, n;
    metatune_record r;
    static char log[40000];
    CHECK_INT(metatune_history_memsize(0), 0);
    CHECK_INT(metatune_history_memsize(SIZE_MAX / 8), 0);
    CHECK_INT(metatune_history_init(&h, HISTORY_CAP, history_mem, 10),
              METATUNE_NO_MEMORY);
    CHECK_INT(metatune_history_init(&h, 0, history_mem, 10),
              METATUNE_BAD_ARG);
    CHECK_INT(metatune_history_init(&h, HISTORY_CAP, history_mem,
                                    sizeof history_mem), METATUNE_OK);
    CHECK(metatune_history_find(&h, 1, 0, 0) == NULL);

    len = log_add(log, len, 3, METATUNE_EXPLORE, 0, METATUNE_OK, 3.0);
    len = log_add(log, len, 4, METATUNE_EXPLORE, 0, METATUNE_OK, 4.0);
    len = log_add(log, len, 3, METATUNE_EXPLORE, 0, METATUNE_COMPILE, 0.0);
    len = log_add(log, len, 3, METATUNE_EXPLORE, 0, METATUNE_OK, 2.5);
    len = log_add(log, len, 3, METATUNE_CONFIRM, 0, METATUNE_OK, 2.6);
    len = log_add(log, len, 3, METATUNE_CONFIRM, 1, METATUNE_OK, 2.7);
    len = log_add(log, len, 5, METATUNE_EXPLORE, 0, METATUNE_NOT_RUN, 0.0);
    len = log_add(log, len, 6, METATUNE_EXPLORE, 0, METATUNE_CANCELLED, 0.0);
    len = log_add(log, len, 7, METATUNE_EXPLORE, 0, METATUNE_DEVICE_LOST, 0.0);
    len = log_add(log, len, 8, METATUNE_EXPLORE, 0, METATUNE_DEVICE_LOST, 0.0);
    len = log_add(log, len, 8, METATUNE_EXPLORE, 0, METATUNE_DEVICE_LOST, 0.0);
    len = log_add(log, len, 9, METATUNE_EXPLORE, 0, METATUNE_DEVICE_LOST, 0.0);
    len = log_add(log, len, 9, METATUNE_EXPLORE, 0, METATUNE_OK, 9.0);
    len = log_add(log, len, 10, METATUNE_EXPLORE, 0, METATUNE_OK, 10.0);
    len = log_add(log, len, 10, METATUNE_CONFIRM, 0, METATUNE_DEVICE_LOST, 0.0);
    len = log_add(log, len, 10, METATUNE_CONFIRM, 1, METATUNE_DEVICE_LOST, 0.0);
    memset(&r, 0, sizeof r); /* the end line */
    r = record_make();
    r.kind = METATUNE_RECORD_END;
    r.status = METATUNE_BUDGET;
    r.space = metatune_space_hash(knobs, 3);
    n = encode(&r, log + len, 4096);

    CHECK_INT(metatune_history_read(&h, &p, log, len), METATUNE_OK);
    CHECK_INT(h.ended, 0);
    CHECK_INT(h.n, 10);
    CHECK(h.n_bad == 0 && h.n_foreign == 0 && h.n_lost == 0);
    e = metatune_history_find(&h, setting_key(3), METATUNE_EXPLORE, 0);
    CHECK(e && e->status == METATUNE_OK);
    if (e) CHECK_NEAR(e->value, 2.5, 0.0);
    e = metatune_history_find(&h, setting_key(3), METATUNE_CONFIRM, 1);
    CHECK(e != NULL);
    if (e) CHECK_NEAR(e->value, 2.7, 0.0);
    CHECK(!metatune_history_find(&h, setting_key(3), METATUNE_CONFIRM, 2));
    CHECK(!metatune_history_find(&h, setting_key(5), METATUNE_EXPLORE, 0));
    CHECK(!metatune_history_find(&h, setting_key(6), METATUNE_EXPLORE, 0));
    e = metatune_history_find(&h, setting_key(7), METATUNE_EXPLORE, 0);
    CHECK(e && e->status == METATUNE_DEVICE_LOST && e->attempt == 0);
    e = metatune_history_find(&h, setting_key(8), METATUNE_EXPLORE, 0);
    CHECK(e && e->status == METATUNE_DEVICE_LOST && e->attempt == 1);
    e = metatune_history_find(&h, setting_key(9), METATUNE_EXPLORE, 0);
    CHECK(e && e->status == METATUNE_OK && e->attempt == 0);
    e = metatune_history_find(&h, setting_key(10), METATUNE_CONFIRM, 0);
    CHECK(e && e->attempt == 1);
    e = metatune_history_find(&h, setting_key(10), METATUNE_EXPLORE, 0);
    CHECK(e && e->status == METATUNE_OK);

    /* a second log: its lines are newer; setting 7 is lost once more */
    len = log_add(log, 0, 7, METATUNE_EXPLORE, 0, METATUNE_DEVICE_LOST, 0.0);
    len = log_add(log, len, 4, METATUNE_EXPLORE, 0, METATUNE_OK, 1.5);
    n = encode(&r, log + len, 4096);
    CHECK_INT(metatune_history_read(&h, &p, log, len + n), METATUNE_OK);
    CHECK_INT(h.ended, 1);
    CHECK_INT(h.n, 10);
    e = metatune_history_find(&h, setting_key(7), METATUNE_EXPLORE, 0);
    CHECK(e && e->attempt == 1);
    e = metatune_history_find(&h, setting_key(4), METATUNE_EXPLORE, 0);
    if (e) CHECK_NEAR(e->value, 1.5, 0.0);

    /* another task, target, unit, space; a later version; a torn line */
    memcpy(log + len, "{\"v\":99}\n{\"v\":1,\n", 17);
    for (n = 0; n < 5; n++) {
        metatune_knob k[3];
        memcpy(k, knobs, sizeof knobs);
        other = p;
        other.knobs = k;
        if (n == 0) other.task = "n=1,c=64,h=57";
        if (n == 1) other.target = "gpu";
        if (n == 2) other.unit = METATUNE_CYCLES;
        if (n == 3) k[0].n_values = 3;
        metatune_history_init(&h, HISTORY_CAP, history_mem,
                              sizeof history_mem);
        CHECK_INT(metatune_history_read(&h, &other, log, len + 17),
                  METATUNE_OK);
        CHECK_INT(h.n, n == 4 ? 2 : 0);
        CHECK_INT(h.n_foreign, n == 4 ? 1 : 3);
        CHECK_INT(h.n_bad, 1);
        CHECK_INT(h.ended, 0);
    }
    /* right space hash, values it does not have */
    {
        int64_t gone[3] = { 5, 1, 0 };
        r = record_make();
        r.space = metatune_space_hash(knobs, 3);
        r.values = gone;
        len = encode(&r, log, 4096);
        metatune_history_init(&h, HISTORY_CAP, history_mem,
                              sizeof history_mem);
        CHECK_INT(metatune_history_read(&h, &p, log, len), METATUNE_OK);
        CHECK(h.n == 0 && h.n_lost == 1);
    }
    /* keys that are not UTF-8 still find their lines */
    other = p;
    other.task = "t\xFF\xC3\xA9\"\\";
    r = record_make();
    r.space = metatune_space_hash(knobs, 3);
    r.task = text_of(other.task);
    len = encode(&r, log, 4096);
    CHECK_INT(metatune_history_read(&h, &other, log, len), METATUNE_OK);
    CHECK_INT(h.n, 1);
    CHECK_INT(metatune_history_read(NULL, &p, log, len), METATUNE_BAD_ARG);
    CHECK_INT(metatune_history_read(&h, NULL, log, len), METATUNE_BAD_ARG);
}

/* Against the obvious quadratic model, with room and without. */
static void test_history_random(void)
{
    static char log[1200000];
    static struct { uint64_t hash; uint32_t repeat; int32_t kind;
                    double value; } model[HISTORY_CAP];
    metatune_problem p = problem_make();
    metatune_history h;
    size_t len, n_model, i, k, cap, left_out;
    int round;
    log_rng = rng_make("history", 8);
    for (round = 0; round < 12; round++) {
        size_t lines = 1 + metatune_encode_rng_below(&log_rng, 400), half = 0;
        size_t distinct = 1 + metatune_encode_rng_below(&log_rng, 48);
        cap = round % 3 ? HISTORY_CAP
                        : 1 + metatune_encode_rng_below(&log_rng, 60);
        len = n_model = left_out = 0;
        for (i = 0; i < lines; i++) {
            uint32_t s = (uint32_t)metatune_encode_rng_below(&log_rng,
                                                             distinct);
            int32_t kind = (int32_t)metatune_encode_rng_below(&log_rng, 2);
            uint32_t repeat = kind ? (uint32_t)metatune_encode_rng_below(
                                         &log_rng, 3) : 0;
            uint64_t hash = setting_key(s);
            if (i == lines / 2) half = len;
            len = log_add(log, len, s, kind, repeat, METATUNE_OK,
                          (double)(i + 1));
            for (k = 0; k < n_model; k++)
                if (model[k].hash == hash && model[k].kind == kind
                    && model[k].repeat == repeat) break;
            if (k == n_model) {
                if (n_model == cap) {
                    left_out++;
                    continue;
                }
                model[n_model].hash = hash;
                model[n_model].kind = kind;
                model[n_model++].repeat = repeat;
            }
            model[k].value = (double)(i + 1);
        }
        CHECK_INT(metatune_history_init(&h, cap, history_mem,
                                        sizeof history_mem), METATUNE_OK);
        /* in two pieces, cut between lines */
        k = (size_t)(metatune_history_read(&h, &p, log, half)
                     == METATUNE_CAPACITY);
        k |= (size_t)(metatune_history_read(&h, &p, log + half, len - half)
                      == METATUNE_CAPACITY);
        CHECK_INT(k, left_out > 0);
        CHECK_INT(h.n, n_model);
        for (i = 0; i < n_model; i++) {
            const metatune_history_entry *e = metatune_history_find(
                &h, model[i].hash, model[i].kind, model[i].repeat);
            CHECK(e != NULL);
            if (e) CHECK_NEAR(e->value, model[i].value, 0.0);
            if (e) CHECK_INT(e->attempt, 0);
        }
    }
}

/* A record of a big space costs no more than its knobs. */
static void test_record_many_knobs(void)
{
    metatune_knob k[METATUNE_MAX_KNOBS];
    char name[METATUNE_MAX_KNOBS][8], buf[16384];
    int64_t v[METATUNE_MAX_KNOBS], back[METATUNE_MAX_KNOBS];
    metatune_record r = record_make(), d;
    uint32_t i;
    size_t n;
    for (i = 0; i < METATUNE_MAX_KNOBS; i++) {
        sprintf(name[i], "k%lu", (unsigned long)i);
        k[i].name = name[i];
        k[i].values = ocv_values;
        k[i].labels = NULL;
        k[i].n_values = 4;
        v[i] = ocv_values[(i * 7U) % 4U];
    }
    r.knobs = k;
    r.n_knobs = METATUNE_MAX_KNOBS;
    r.values = v;
    CHECK(metatune_record_memsize(&r) <= sizeof buf);
    n = encode(&r, buf, metatune_record_memsize(&r));
    CHECK_INT(metatune_record_decode(buf, n, &d), METATUNE_OK);
    CHECK_INT(metatune_record_values(&d, k, METATUNE_MAX_KNOBS, back),
              METATUNE_OK);
    CHECK(memcmp(v, back, sizeof v) == 0);
    find(buf, "\"k63\":2")[6] = '4'; /* any change is noticed */
    CHECK_INT(metatune_record_decode(buf, n, &d), METATUNE_BAD_RECORD);
}

int main(void)
{
    const char *env = getenv("METATUNE_SEED");
    if (env) seed_of_run = strtoull(env, NULL, 10);
    RUN(test_number_random);
    RUN(test_number_shortest);
    RUN(test_number_write_form);
    RUN(test_number_halfway);
    RUN(test_number_hard);
    RUN(test_number_random_text);
    RUN(test_number_grammar);
    RUN(test_number_comma_locale);
    RUN(test_ticks);
    RUN(test_crc);
    RUN(test_record_format);
    RUN(test_record_roundtrip);
    RUN(test_record_memsize);
    RUN(test_record_bitflips);
    RUN(test_record_refusals);
    RUN(test_record_hostile);
    RUN(test_record_deep);
    RUN(test_record_mutations);
    RUN(test_record_version);
    RUN(test_record_foreign);
    RUN(test_error_text);
    RUN(test_unescape);
    RUN(test_unknown_survives);
    RUN(test_space_changed);
    RUN(test_log_truncated);
    RUN(test_log_odd_files);
    RUN(test_history);
    RUN(test_history_random);
    RUN(test_record_many_knobs);
    return check_report("test_records");
}
