/* check.h - the smallest test harness that names what failed.

   static void test_x(void) { CHECK(a == b); CHECK_NEAR(u, v, 1e-6); }
   int main(void) { RUN(test_x); return check_report("test_encode"); }

   One line a test, then "NAME: N passed, N failed, N skipped". A failed CHECK
   ends nothing: all of a test's faults are shown. Header only, one file. */
#ifndef METATUNE_CHECK_H
#define METATUNE_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_passed, check_failed, check_skipped, check_faults;
static const char *check_skip_reason;

#define CHECK(cond)                                                          \
    do {                                                                     \
        if (!(cond)) check_fault(__FILE__, __LINE__, #cond);                 \
    } while (0)
#define CHECK_NEAR(a, b, tol) \
    check_near(__FILE__, __LINE__, #a, (double)(a), (double)(b), (double)(tol))
#define CHECK_INT(a, b)                                    \
    check_int(__FILE__, __LINE__, #a, (long long)(a), (long long)(b))
#define CHECK_STR(a, b) check_str(__FILE__, __LINE__, #a, (a), (b))
/* Leave the test now, named as skipped. */
#define SKIP(reason)                                                         \
    do {                                                                     \
        check_skip_reason = (reason);                                        \
        return;                                                              \
    } while (0)
#define RUN(test) check_run(#test, test)

static void check_fault(const char *file, int line, const char *what)
{
    if (check_faults++ < 20)
        printf("    %s:%d: %s\n", file, line, what);
}

static void check_near(const char *file, int line, const char *what, double a,
                       double b, double tol)
{
    if (!(fabs(a - b) <= tol)) {
        check_fault(file, line, what);
        printf("        is %.17g, want %.17g within %g\n", a, b, tol);
    }
}

static void check_int(const char *file, int line, const char *what,
                      long long a, long long b)
{
    if (a != b) {
        check_fault(file, line, what);
        printf("        is %lld, want %lld\n", a, b);
    }
}

static void check_str(const char *file, int line, const char *what,
                      const char *a, const char *b)
{
    if (!a || !b || strcmp(a, b) != 0) {
        check_fault(file, line, what);
        printf("        is \"%s\", want \"%s\"\n", a ? a : "(null)",
               b ? b : "(null)");
    }
}

static void check_run(const char *name, void (*test)(void))
{
    check_faults = 0;
    check_skip_reason = NULL;
    test();
    if (check_faults) {
        check_failed++;
        printf("  FAIL %s (%d faults)\n", name, check_faults);
    } else if (check_skip_reason) {
        check_skipped++;
        printf("  skip %s: %s\n", name, check_skip_reason);
    } else {
        check_passed++;
        printf("  ok   %s\n", name);
    }
    fflush(stdout);
}

static int check_report(const char *name)
{
    /* referenced here so that a file using only some macros has no warning */
    (void)check_near; (void)check_int; (void)check_str;
    printf("%s: %d passed, %d failed, %d skipped\n", name, check_passed,
           check_failed, check_skipped);
    return check_failed != 0;
}

#endif
