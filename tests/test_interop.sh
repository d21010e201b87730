#!/bin/sh
# test_interop.sh - export, import and records from the command line
cd "$(dirname "$0")/.." || exit 2
MT=${MT:-build/metatune}
SHARED=${METATUNE_SHARED:-../shared}
T=$(mktemp -d) || exit 2
trap 'rm -rf "$T"' EXIT INT TERM
passed=0 failed=0 skipped=0
ok() {
    name=$1
    shift
    if "$@" >"$T/ok" 2>&1; then
        passed=$((passed + 1))
        echo "  ok   $name"
    else
        failed=$((failed + 1))
        echo "  FAIL $name: $*"
        head -n 5 "$T/ok" | sed 's/^/    /'
    fi
}
skip() {
    skipped=$((skipped + 1))
    echo "  skip $1"
}
# status of a command, its one line on stderr kept
refused() { # wanted status, words of the line, command...
    want=$1 words=$2
    shift 2
    "$@" >"$T/out" 2>"$T/err"
    test $? -eq "$want" && test "$(wc -l <"$T/err")" -eq 1 &&
        grep -q "$words" "$T/err"
}

ok "a log to work on" "$MT" tune --target fake --net resnet18 --trials 9 \
    --seed 3 --quiet --out "$T/t"
L=$T/t/records.jsonl
# a failure with a message that wants escaping, and a field of the future
ok "failures, too" sh -c '"$1" tune --target fail --layer resnet18/layer1 \
    --trials 4 --quiet --out "$2" 2>/dev/null; test -s "$2/records.jsonl"' \
    sh "$MT" "$T/f"
cat "$T/f/records.jsonl" >>"$L"

for f in t4 autotvm csv; do
    all=
    test $f = csv && all=--all
    ok "export $f" "$MT" export "$L" --format $f $all --out "$T/x.$f"
    rm -f "$T/back.jsonl"
    ok "import $f" "$MT" import "$T/x.$f" --out "$T/back.jsonl" --quiet
    ok "$f gives the same log, byte for byte" cmp "$L" "$T/back.jsonl"
done
if locale -a 2>/dev/null | grep -qi '^de_DE'; then
    ok "export t4 in a comma locale" env LC_ALL=de_DE.UTF-8 "$MT" export "$L" \
        --format t4 --out "$T/x.de"
    ok "is the same" cmp "$T/x.t4" "$T/x.de"
else
    skip "comma locale: not installed"
fi
if /usr/bin/python3 -c 'import jsonschema' 2>/dev/null &&
   test -f "$SHARED/data/schemas/T4-1.0.0-results-schema.json"; then
    ok "T4 validates and no failure has a number" /usr/bin/python3 -c '
import json, jsonschema, sys
x = json.load(open(sys.argv[1]))
jsonschema.validate(x, json.load(open(sys.argv[2])))
bad = [r for r in x["results"] if r["invalidity"] != "correct"]
assert bad and len(bad) < len(x["results"])
for r in bad:
    assert not r["measurements"] and not r["times"].get("runtimes"), r
' "$T/x.t4" "$SHARED/data/schemas/T4-1.0.0-results-schema.json"
else
    skip "T4 schema: python3-jsonschema or ../shared is not there"
fi
ok "csv table" "$MT" export "$L" --format csv --out "$T/table.csv"
ok "a failure's time is empty" sh -c \
    'grep -v ",ok," "$1" | tail -n +2 | grep -q . &&
     ! grep -v ",ok," "$1" | tail -n +2 | grep -qv ",$"' sh "$T/table.csv"
if test -f "$SHARED/data/logs/autotvm_v0.2_conv2d_NCHWc.log"; then
    A=$SHARED/data/logs/autotvm_v0.2_conv2d_NCHWc.log
    ok "real AutoTVM lines" "$MT" import "$A" --out "$T/a.jsonl" --quiet
    ok "export them again" "$MT" export "$T/a.jsonl" --format autotvm \
        --out "$T/a.log"
    ok "and in again" "$MT" import "$T/a.log" --out "$T/a2.jsonl" --quiet
    ok "the same" cmp "$T/a.jsonl" "$T/a2.jsonl"
else
    skip "AutoTVM log: ../shared is not there"
fi
if test -d "$SHARED/data/tables"; then
    t=$SHARED/data/tables/convolution_milo__W7800.csv
    ok "a table with failures" "$MT" import "$t" --out "$T/w.jsonl" --quiet
    ok "all its rows" test "$(wc -l <"$T/w.jsonl")" -eq \
        "$(($(wc -l <"$t") - 1))"
    ok "and back" "$MT" export "$T/w.jsonl" --format csv --out "$T/w.csv"
    ok "with the same times" sh -c 'for f; do sed "s/CompilationFailedConfig/\
compile/;s/RuntimeFailedConfig/runtime/" "$f" | cksum; done | uniq | wc -l |
        grep -qx " *1"' sh "$t" "$T/w.csv"
else
    skip "tables: ../shared is not there"
fi

cat >"$T/t1.json" <<'END'
{"ConfigurationSpace": {"TuningParameters": [
  {"Name": "bx", "Type": "int", "Values": "[2 ** i for i in range(8)]"},
  {"Name": "tx", "Type": "int", "Values": "list(range(1, 9))"},
  {"Name": "pad", "Type": "bool", "Values": "[True, False]"}],
 "Conditions": [
  {"Parameters": ["bx", "tx"], "Expression": "32 <= bx * tx < 128"},
  {"Parameters": ["bx", "pad"], "Expression": "pad or bx % 32 == 0"}]},
 "KernelSpecification": {"KernelName": "conv"}}
END
ok "T1 to a table" "$MT" import "$T/t1.json" --out "$T/space.csv" --quiet
# counted by an independent walk in the shell
want=0
for bx in 1 2 4 8 16 32 64 128; do
    for tx in 1 2 3 4 5 6 7 8; do
        p=$((bx * tx))
        if test $p -ge 32 && test $p -lt 128; then
            want=$((want + 1 + (bx % 32 == 0)))
        fi
    done
done
ok "T1: $want settings" test "$(wc -l <"$T/space.csv")" -eq $((want + 1))
ok "T1: header" grep -qx "bx,tx,pad,status,time_ms" "$T/space.csv"

cat >"$T/kt.json" <<'END'
{"device_name": "D", "kernel_name": "k", "problem_size": [64],
"tune_params_keys": ["bx"], "tune_params": {"bx": [1, 2, 3]},
"cache": {
"1": {"bx": 1, "time": 3.25},
"2": {"bx": 2, "time": "InvalidConfig"},
"3": {"bx": 3, "ti
END
# the key that says T4 comes after 100 kB of others
{ printf '{"metatune":{"lines":["'; head -c 100000 /dev/zero | tr '\0' x
  printf '"]},"results":[{"configuration":{"a":1},"times":{},'
  printf '"invalidity":"compile","correctness":0}]}'; } >"$T/late.json"
ok "a late key" "$MT" import "$T/late.json" --out "$T/late.jsonl" --quiet
echo '{"a": 1, "cached": 2}' >"$T/other.json"
ok "other JSON" refused 2 "no format that is known" "$MT" import \
    "$T/other.json" --out "$T/j.jsonl"
ok "a torn cache" "$MT" import "$T/kt.json" --out "$T/kt.jsonl"
ok "its two whole entries" sh -c 'test "$(wc -l <"$1")" -eq 2 &&
    head -n 1 "$1" | grep -q "\"value\":0.00325," &&
    tail -n 1 "$1" | grep -q "\"status\":\"CONSTRAINT\""' sh "$T/kt.jsonl"
ok "header" "$MT" export "$T/t/records.jsonl" --format header --out "$T/h.h"
ok "header names its table" grep -q "metatune_lookup_table metatune_table" \
    "$T/h.h"

# ------------------------------------------------------------- records
n=$(wc -l <"$L")
ok "check" "$MT" records check "$L"
ok "check --json" sh -c '"$1" records check --json "$2" |
    grep -q "^{\"trials\":[1-9][0-9]*,.*\"torn\":0,"' sh "$MT" "$L"
printf '{"v":1,"kind":"tri' >>"$L"
ok "check sees a torn line" sh -c '! "$1" records check "$2"' sh "$MT" "$L"
ok "merge leaves it out" sh -c '"$1" records merge "$2" "$2" >"$3" 2>/dev/null
    test "$(wc -l <"$3")" -eq "$4"' sh "$MT" "$L" "$T/two" $((2 * n))
ok "dedupe" "$MT" records dedupe "$T/two" --out "$T/one"
ok "is the first log again" sh -c 'head -n "$1" "$2" | cmp - "$3"' sh "$n" \
    "$L" "$T/one"
ok "filter by status" sh -c '"$1" records filter "$2" --status ok 2>/dev/null |
    grep -qv "\"status\":\"OK\"" && exit 1; exit 0' sh "$MT" "$L"
echo '{"v":99,"kind":"trial","new":[1,{"x":null}]}' >>"$T/one"
ok "a later version survives a merge" sh -c \
    '"$1" records merge "$2" 2>/dev/null | grep -q "\"v\":99"' sh "$MT" \
    "$T/one"

# ------------------------------------------------------------ bad input
ok "no such file" refused 2 "cannot read" "$MT" export "$T/nope" --format t4
ok "unknown format" refused 2 "unknown --format" "$MT" export "$L" \
    --format xml
ok "import without --out" refused 2 "is missing" "$MT" import "$L"
echo 'hello' >"$T/junk"
ok "junk" refused 2 "nothing to take" "$MT" import "$T/junk" --out "$T/j.jsonl"
ok "junk leaves no file" test ! -e "$T/j.jsonl"
: >"$T/empty"
ok "empty" refused 2 "nothing to take" "$MT" import "$T/empty" \
    --out "$T/j.jsonl"
ok "export of no log" refused 2 "no good record" "$MT" export "$T/junk" \
    --format csv
if test -w /dev/full; then
    ok "full disk" refused 1 "cannot write" "$MT" import "$T/x.t4" \
        --out /dev/full
fi
ok "a log of ours" refused 2 "log of metatune already" "$MT" import "$L" \
    --out "$T/j.jsonl"
ok "one condition too bold" sh -c 'sed "s/bx % 32/bx % 0/" "$1" >"$2"' sh \
    "$T/t1.json" "$T/t1bad.json"
ok "is refused by name" refused 2 "division by zero" "$MT" import \
    "$T/t1bad.json" --out "$T/j.csv"
ok "unknown verb" refused 2 "unknown verb" "$MT" records frob "$L"
for c in export import records; do
    ok "help $c" sh -c '"$1" help "$2" | grep -q "^usage: metatune $2"' sh \
        "$MT" $c
done
echo "test_interop_sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
