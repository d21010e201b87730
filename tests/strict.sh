#!/bin/sh
# The three headers under every warning we promise to be free of, on every
# compiler that is here, in every way of including them; then what their
# objects export and import. One test is one (compiler, way) pair.
#   sh tests/strict.sh [PATTERN]     only tests whose name matches
here=$(cd "$(dirname "$0")/.." && pwd)
only=${1:-}
passed=0 failed=0 skipped=0
tmp=$(mktemp -d "${TMPDIR:-/tmp}/metatune-strict.XXXXXX") || exit 2
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

pass() { passed=$((passed + 1)); echo "  ok   $1"; }
fail() { failed=$((failed + 1)); echo "  FAIL $1"; sed 's/^/    /;20q' "$2"; }
skip() { skipped=$((skipped + 1)); echo "  skip $1: $2"; }
wanted() { case $1 in *"$only"*) return 0 ;; esac; return 1; }

warn="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
 -Wdouble-promotion -Wundef -Wcast-qual -Wvla -Wfloat-equal -Werror"
c_only="-std=c99 -Wmissing-prototypes -Wstrict-prototypes"
m4="-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"

# ---- ways of including: name, then the text of a source file
way() { cat > "$tmp/$1.c"; ways="$ways $1"; }
ways=
for h in metatune_encode metatune_gnn metatune; do
    way "decl-$h" <<W
#include "$h.h"
typedef int file_is_not_empty;
W
    way "twice-$h" <<W
#define METATUNE_IMPLEMENTATION
#include "$h.h"
#include "$h.h"
W
done
way impl-late <<'W'
#include "metatune.h"
size_t use(const metatune_config *c, const metatune_problem *p);
size_t use(const metatune_config *c, const metatune_problem *p)
{ return metatune_memsize(c, p); }
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
W
way impl-late-each <<'W'
#include "metatune.h"
#define METATUNE_ENCODE_IMPLEMENTATION
#include "metatune_encode.h"
#define METATUNE_GNN_IMPLEMENTATION
#include "metatune_gnn.h"
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
W
way gnn-only <<'W'
#define METATUNE_GNN_IMPLEMENTATION
#include "metatune_gnn.h"
W
way encode-only <<'W'
#define METATUNE_ENCODE_IMPLEMENTATION
#include "metatune_encode.h"
W
way static <<'W'
#define METATUNE_STATIC
#include "metatune.h"
typedef int file_is_not_empty;
W
way static-used <<'W'
#define METATUNE_STATIC
#include "metatune.h"
#include "metatune.h"
size_t used(const metatune_config *c, const metatune_problem *p);
size_t used(const metatune_config *c, const metatune_problem *p)
{ return metatune_memsize(c, p); }
W
way no-train <<'W'
#define METATUNE_NO_TRAIN
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
W
way no-records <<'W'
#define METATUNE_NO_RECORDS
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
W
way no-lookup <<'W'
#define METATUNE_NO_LOOKUP
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
W
way no-both-static <<'W'
#define METATUNE_NO_TRAIN
#define METATUNE_NO_RECORDS
#define METATUNE_STATIC
#include "metatune.h"
typedef int file_is_not_empty;
W
way tiny <<'W'
#define METATUNE_NO_TRAIN
#define METATUNE_NO_RECORDS
#define METATUNE_GNN_SMALL
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
W
way real-double <<'W'
#define METATUNE_REAL double
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
W
way assert <<'W'
extern void on_assert(void);
#define METATUNE_ASSERT(x) do { if (!(x)) on_assert(); } while (0)
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
W

# ---- the matrix; the objects are kept for the symbol checks
matrix() {
    name=$1 cc=$2
    shift 2
    if ! command -v "$cc" >/dev/null 2>&1; then
        wanted "$name" && skip "$name" "$cc is not installed"
        return
    fi
    for w in $ways; do
        wanted "$name $w" || continue
        # without PIC, constant tables of pointers are plain constants to nm
        # shellcheck disable=SC2086
        if "$cc" "$@" $warn -O2 -fno-pic -I"$here" -c "$tmp/$w.c" \
            -o "$tmp/$name-$w.o" >"$tmp/log" 2>&1; then
            pass "$name $w"
        else
            fail "$name $w" "$tmp/log"
        fi
    done
}
# shellcheck disable=SC2086
{
    matrix gcc gcc $c_only -Wcast-align=strict
    matrix clang clang $c_only -Wcast-align
    matrix g++ g++ -x c++ -std=c++11 -Wcast-align=strict
    matrix clang++ clang++ -x c++ -std=c++11 -Wcast-align
    matrix cortex-m4f arm-none-eabi-gcc $c_only $m4 -Wcast-align=strict
}

# ---- tools: the same warnings, with POSIX and GNU builtins
for cc in gcc clang; do
    wanted "$cc tools" || continue
    if ! command -v $cc >/dev/null 2>&1; then
        skip "$cc tools" "$cc is not installed"
        continue
    fi
    for f in "$here"/tools/*.c "$here"/tools/targets/*.c; do
        # shellcheck disable=SC2086
        $cc -std=gnu99 $warn -Wmissing-prototypes -Wstrict-prototypes \
            -fsyntax-only -I"$here" -I"$here/tools" -I"$here/tools/targets" \
            "$f"
    done >"$tmp/log" 2>&1
    if [ -s "$tmp/log" ]; then
        fail "$cc tools" "$tmp/log"
    else
        pass "$cc tools"
    fi
done

# ---- what the objects export and import
libm="acos asin atan atan2 cbrt ceil copysign cos cosh erf exp exp2 expm1 fabs
 floor fma fmax fmin fmod frexp hypot ldexp log log10 log1p log2 logb lrint
 modf pow rint round scalbn sin sinh sqrt tan tanh trunc"
# pure string.h only; clang turns memcmp into bcmp
allow="^(memcpy|memset|memmove|memcmp|bcmp|memchr|strlen|strcmp|strchr"
for f in $libm; do allow="$allow|${f}f?"; done
# compilers' own helpers: integer and float routines, stack protector
allow="$allow|__aeabi_.*|__stack_chk_(fail|guard)|_GLOBAL_OFFSET_TABLE_)\$"

check() { # name, file with the offending lines: none = passed
    if [ -s "$2" ]; then fail "$1" "$2"; else pass "$1"; fi
}
symbols() {
    name=$1 nm=$2
    object=$tmp/$name-twice-metatune.o
    if [ ! -f "$object" ] || ! command -v "$nm" >/dev/null 2>&1; then
        wanted "$name symbols" &&
            skip "$name symbols" "no object or no $nm"
        return
    fi
    if wanted "$name static exports nothing"; then
        for w in static static-used no-both-static; do
            "$nm" -g --defined-only "$tmp/$name-$w.o"
        done 2>&1 | grep -v '^$' | grep -v ' T used$' >"$tmp/log"
        check "$name static exports nothing" "$tmp/log"
    fi
    if wanted "$name needs only memory, strings and libm"; then
        for w in twice-metatune no-train no-records real-double; do
            "$nm" -u "$tmp/$name-$w.o"
        done 2>&1 | awk '{ print $NF }' | grep -v '^$' | sort -u |
            grep -Ev "$allow" >"$tmp/log"
        check "$name needs only memory, strings and libm" "$tmp/log"
    fi
    if wanted "$name has no globals"; then
        "$nm" "$object" 2>&1 | grep -E ' [BbDdCSsGg] ' >"$tmp/log"
        check "$name has no globals" "$tmp/log"
    fi
    if wanted "$name exports only metatune_ names"; then
        "$nm" -g --defined-only "$object" 2>&1 | awk '{ print $NF }' |
            grep -v '^metatune_' >"$tmp/log"
        check "$name exports only metatune_ names" "$tmp/log"
    fi
    if wanted "$name gnn alone calls no encode function"; then
        "$nm" -u "$tmp/$name-gnn-only.o" 2>&1 |
            grep 'metatune_encode' >"$tmp/log"
        check "$name gnn alone calls no encode function" "$tmp/log"
    fi
}
symbols gcc nm
symbols clang nm
symbols cortex-m4f arm-none-eabi-nm

# ---- text
if wanted "80 columns"; then
    (cd "$here" && find . -name build -prune -o -name .git -prune -o \
        \( -name '*.c' -o -name '*.h' \) -print |
        xargs awk 'length > 80 { print FILENAME ":" FNR ": " length }') \
        >"$tmp/log" 2>&1
    check "80 columns" "$tmp/log"
fi

echo "strict: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
