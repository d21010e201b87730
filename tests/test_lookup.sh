#!/bin/sh
# Lookup from outside: `metatune lookup` on real, torn, foreign and mixed logs;
# the exported header compiles as C and C++ without a warning and answers; an
# installed tree builds the quickstart through pkg-config. Needs
# build/metatune; what else is missing is skipped by name.
cd "$(dirname "$0")/.." || exit 2
MT=${METATUNE:-build/metatune}
CC=${CC:-cc}
MAKE=${MAKE:-make}
passed=0 failed=0 skipped=0
T=$(mktemp -d "${TMPDIR:-/tmp}/metatune-lookup.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM

pass() { passed=$((passed + 1)); echo "  ok   $1"; }
fail() {
    failed=$((failed + 1))
    echo "  FAIL $1"
    for f in "$T/out" "$T/err"; do [ -f "$f" ] && sed 's/^/    /;12q' "$f"; done
}
skip() { skipped=$((skipped + 1)); echo "  skip $1: $2"; }
ok() { # NAME TEST...
    name=$1
    shift
    if "$@"; then pass "$name"; else fail "$name: $*"; fi
}
run() { "$MT" "$@" >"$T/out" 2>"$T/err" </dev/null; rc=$?; }
bad() { # STATUS PATTERN ARGS: that status, one line on stderr that matches
    want=$1 pattern=$2
    shift 2
    run "$@"
    if [ "$rc" = "$want" ] && [ "$(wc -l <"$T/err")" -eq 1 ] &&
        grep -q "^metatune: .*$pattern" "$T/err"; then
        pass "refused ($pattern)"
    else
        fail "refused: $* (status $rc, want $want and \"$pattern\")"
    fi
}
have() { command -v "$1" >/dev/null 2>&1; }
finish() {
    echo "test_lookup_sh: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}
if [ ! -x "$MT" ]; then
    fail "$MT is missing; run make"
    finish
fi

# ------------------------------------------------------------- a real log
A=c=64,h=56,w=56,k=64,r=3,stride=1,pad=1
B=c=64,h=56,w=56,k=128,r=3,stride=2,pad=1
run tune --target fake --conv $A --conv $B --trials 24 --quiet --out "$T/t"
L=$T/t/records.jsonl
ok "a log to ask" test "$rc" = 0 -a -s "$L"
KEY=$(sed -n '1s/.*"target":"\([^"]*\)".*/\1/p' "$L")
run lookup "$L" --conv $A
ok "exact" grep -q '^exact  n=1,c=64,h=56' "$T/out"
ok "exact is exit 0" test "$rc" = 0
ok "labels are words" grep -q 'algorithm=[a-z]' "$T/out"
run lookup "$L" --conv c=64,h=56,w=56,k=128,r=3,stride=4,pad=1
ok "explained" grep -q 'stride_h: asked 4, nearest has 2' "$T/out"
run lookup "$L" --conv $A,in=i8
ok "none for another dtype" test "$rc" = 1
ok "and why" grep -q 'in: asked i8, nearest has f32' "$T/out"
run lookup "$L" --conv $A --json
ok "json" grep -q '"which":"exact","other_target":false' "$T/out"
# the best of the log by another way: the least median of confirm values
want=$(grep '"trial_kind":"confirm"' "$L" | grep '"c\?task":"n=1,c=64,h=56,w=56,k=64,' |
    sed 's/.*"knobs":{\([^}]*\)}.*"value":\([^,]*\).*/\2 \1/' | sort -k2 -k1g |
    awk '{if ($2 != k && n) {print v[int((n + 1) / 2)], k; n = 0}
          k = $2; v[++n] = $1} END {print v[int((n + 1) / 2)], k}' |
    sort -g | sed -n '1s/^[^ ]* //p')
if [ -n "$want" ] && grep -qF "\"knobs\":{$want}" "$T/out"
then pass "it is the best confirmed one"
else fail "it is the best confirmed one"
fi

# ------------------------------------------- settings that a shape cannot have
W=c=64,h=28,w=28,k=64,r=3,pad=1
cat >"$T/wino.csv" <<E
task,target,algorithm,ocv,owt,unroll,kwu,prefetch,ict,oct,oht,order,inner,split,border,status,time_ms
"$W,layout=nchwc,block=16","lanes=16",wino4,4,6,4,0,2,1,4,1,kyc,k,k,copy,ok,1
"c=64,h=56,w=56,k=64,r=3,pad=1,layout=nchwc,block=16","lanes=16",direct,2,7,2,1,32,1,2,4,kyc,k,k,copy,ok,2
E
run lookup "$T/wino.csv" --conv $W
ok "the row itself" grep -q '^exact .*' "$T/out"
run lookup "$T/wino.csv" --conv c=64,h=28,w=28,k=64,r=3,stride=2,pad=1
ok "nearest" grep -q '^nearest ' "$T/out"
ok "no Winograd for a stride: the next nearest" grep -q \
    'algorithm=direct' "$T/out"
ok "what was passed over is said" grep -q 'passed over: 1' "$T/out"
bad 1 'no setting for 1' lookup "$T/wino.csv" \
    --conv "$W,layout=nchwc,block=5"
bad 1 'no setting for 1' lookup "$T/wino.csv" --conv $W,in=i8,out=i32,acc=i32

# ---------------------------------------------------------------- targets
bad 1 'another target' lookup "$L" --conv $A --target "cpu=other"
ok "nothing was applied" grep -q '^none ' "$T/out"
ok "the target is named" grep -q 'target: asked cpu=other' "$T/out"
run lookup "$L" --conv $A --target "$KEY"
ok "the right target" grep -q '^exact ' "$T/out"
run lookup "$L" --conv $A --target cpu=other --allow-other-target
ok "another one, allowed" test "$rc" = 0
ok "is flagged" grep -q '(of another target)' "$T/out"
cat >"$T/mixed.csv" <<'E'
task,target,tile,order,status,time_ms
"c=8,h=9,k=8,r=3,pad=1",A,4,"x,""y",ok,3
"c=8,h=9,k=8,r=3,pad=1",B,8,nm,ok,9
"c=8,h=9,k=8,r=3,pad=1",A,2,nm,wrong,
"c=8,h=9,k=8,r=3,pad=1",A,16,nm,ok,5
E
bad 2 'hold 2 targets' lookup "$T/mixed.csv" --conv c=8,h=9,k=8,r=3,pad=1
run lookup "$T/mixed.csv" --conv c=8,h=9,k=8,r=3,pad=1 --target A
ok "target A of a table" grep -q 'tile=4 order=x,"y' "$T/out"
ok "its time" grep -q 'measured 0.003 seconds' "$T/out"
run lookup "$T/mixed.csv" --conv c=8,h=9,k=8,r=3,pad=1 --target B
ok "target B" grep -q 'tile=8' "$T/out"
bad 2 'no trial of the target "C"' lookup "$T/mixed.csv" \
    --conv c=8,h=9,k=8,r=3,pad=1 --target C

# ---------------------------------------------------------- hostile input
head -c $(($(wc -c <"$L") / 2)) "$L" >"$T/torn"
run lookup "$T/torn" --conv $A
ok "a torn log answers" grep -q '^exact ' "$T/out"
bad 2 'cannot read' lookup "$T/absent" --conv $A
: >"$T/empty"
bad 2 'no trial in' lookup "$T/empty" --conv $A
printf 'a,b\n1,2\n' >"$T/foreign.csv"
bad 2 'neither a record log nor a CSV' lookup "$T/foreign.csv" --conv $A
printf 'task,time_ms,tile\n"open,1,2\n1,2\nx,nan,1\ny,1e999,2\n' >"$T/bad.csv"
bad 2 'no trial in' lookup "$T/bad.csv" --conv $A
head -c 100000 /dev/urandom >"$T/noise"
run lookup "$T/noise" --conv $A
ok "noise is refused" test "$rc" = 2
run tune --target fail --conv $A --trials 4 --quiet --out "$T/f"
bad 1 'none of .* trials is valid' lookup "$T/f/records.jsonl" --conv $A
bad 2 'nothing to look up' lookup "$L"
bad 2 'no log given' lookup --conv $A
bad 2 'unknown option' lookup "$L" --conv $A --fast
bad 2 'BAD_SHAPE' lookup "$L" --conv c=0,h=1,k=1,r=1

# ------------------------------------------------------- exported header
if "$MT" help export 2>/dev/null | grep -q header; then
    run export "$L" --format header --out "$T/table.h"
    ok "export header" test "$rc" = 0 -a -s "$T/table.h"
    run export "$T/mixed.csv" --format header --out "$T/no.h"
    ok "mixed targets are refused" test "$rc" = 2
    if awk 'length > 80 {exit 1}' "$T/table.h"
    then pass "80 columns"
    else fail "80 columns"
    fi
    cat >"$T/use.c" <<'E'
#include "table.h"
#define METATUNE_IMPLEMENTATION
#include "metatune.h"
#include <stdio.h>
int main(void)
{
    metatune_lookup_result r;
    metatune_encode_conv2d v =
        metatune_encode_conv2d_make(1, 64, 56, 56, 64, 3, 3, 1, 1);
    v.layout = METATUNE_NCHWC; /* what tune tunes unless told otherwise */
    v.block = 16;
    if (metatune_lookup_check(&metatune_table, NULL) != METATUNE_OK)
        return 2;
    if (metatune_lookup_find(&metatune_table, metatune_table.target, &v,
                             NULL, NULL, 0, &r) != METATUNE_OK ||
        r.which != METATUNE_LOOKUP_EXACT)
        return 3;
    v.k = 4000;
    if (metatune_lookup_find(&metatune_table, "other", &v, NULL, NULL, 0,
                             &r) != METATUNE_NOT_FOUND)
        return 4;
    printf("%.17g\n", metatune_table.rows[0].value);
    return 0;
}
E
    warn="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
     -Wdouble-promotion -Wundef -Wcast-qual -Wvla -Wfloat-equal -Werror"
    for c in "$CC -std=c99" "clang -std=c99" "g++ -xc++ -std=c++11" \
        "clang++ -xc++ -std=c++11"; do
        have "${c%% *}" || { skip "header by $c" "not installed"; continue; }
        # shellcheck disable=SC2086
        if $c $warn -I. -I"$T" "$T/use.c" -o "$T/use" -lm \
            >"$T/out" 2>"$T/err" && "$T/use" >"$T/out" 2>"$T/err"
        then pass "header by $c"
        else fail "header by $c"
        fi
    done
else
    skip "exported header" "this build has no export --format header"
fi

# --------------------------------------------------------------- install
if $MAKE install PREFIX=/opt/mt DESTDIR="$T/dest" >"$T/out" 2>"$T/err"
then pass "make install"
else fail "make install"
fi
R=$T/dest/opt/mt
for f in bin/metatune include/metatune.h include/metatune_gnn.h \
    include/metatune_encode.h share/pkgconfig/metatune.pc; do
    ok "installed $f" test -s "$R/$f"
done
if have pkg-config; then
    flags=$(PKG_CONFIG_PATH=$R/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$T/dest \
        pkg-config --cflags --libs metatune 2>"$T/err")
    ok "pkg-config knows it" test -n "$flags"
    # shellcheck disable=SC2086
    if (cd "$T" && cp "$OLDPWD/examples/quickstart.c" . &&
        $CC -O2 quickstart.c -o qs $flags) >"$T/out" 2>"$T/err" &&
        "$T/qs" >"$T/out" && grep -q '^BUDGET' "$T/out"
    then pass "quickstart against the installed headers"
    else fail "quickstart against the installed headers"
    fi
else
    skip "quickstart through pkg-config" "pkg-config is not installed"
fi
if $MAKE uninstall PREFIX=/opt/mt DESTDIR="$T/dest" >"$T/out" 2>"$T/err" &&
    [ -z "$(find "$T/dest" -type f)" ]
then pass "make uninstall leaves nothing"
else fail "make uninstall leaves nothing"
fi
finish
