#!/bin/sh
# Replay from outside: scores of a table small enough to check by hand, what
# must not change a result, and what is refused. Needs build/metatune; what
# else is missing is skipped by name.
cd "$(dirname "$0")/.." || exit 2
MT=${METATUNE:-build/metatune}
SHARED=${METATUNE_SHARED:-../shared}
passed=0 failed=0 skipped=0
T=$(mktemp -d "${TMPDIR:-/tmp}/metatune-replay.XXXXXX") || exit 2
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
finish() {
    echo "test_replay_sh: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}
if [ ! -x "$MT" ]; then
    fail "$MT is missing; run make"
    finish
fi

# ------------------------------------------------------------- by hand
# Counting order (rows by the columns' own order) needs no luck: with one knob
# the rows ascend: failed, 4, 2, 8 ms, 16 ... and the optimum is 1 ms, so the
# scores are 0, 1/4, 1/2, 1/2.
{
    echo tile,status,time_ms
    echo 8,ok,8
    echo 1,wrong,
    echo 4,ok,2
    echo 2,ok,4
    for i in 16 17 18 19 20 21 22 23 24 25 26; do echo $i,ok,16; done
    echo 27,ok,1
} >"$T/hand.csv"
run replay --table "$T/hand.csv" --strategy grid --budget 64 --seeds 1 --csv \
    --quiet
cat >"$T/want" <<'E'
strategy,table,seed,n,score
grid,hand,0,1,0.000000
grid,hand,0,2,0.250000
grid,hand,0,3,0.500000
grid,hand,0,4,0.500000
E
ok "scores by hand, a quarter of 16 rows" cmp -s "$T/out" "$T/want"
# the portfolio: the source's best rows in turn, here tile 27, then 4
{
    echo tile,status,time_ms
    echo 27,ok,2
    echo 4,ok,3
    echo 8,ok,9
} >"$T/source.csv"
run replay --table "$T/hand.csv" --source "$T/source.csv" --seeds 1 --csv \
    --strategy portfolio --quiet
ok "the source's best comes first" grep -q 'portfolio,hand,0,1,1.000000' \
    "$T/out"

# ----------------------------------------------- what must not matter
awk 'BEGIN { srand(3); print "a,b,c,d,status,time_ms"
    for (a = 1; a <= 16; a *= 2) for (b = 0; b < 4; b++)
    for (c = 1; c <= 3; c++) for (d = 0; d < 2; d++)
    {
        x = (1 + (log(a) - 1.4)^2) * (1 + b / 3) * (1 + (c - 2)^2 / 4)
        x *= (1 + d / 5) * (1 + rand() / 50)
        if (rand() < 0.05) print a "," b "," c "," d ",wrong,"
        else printf "%d,%d,%d,%d,ok,%.4f\n", a, b, c, d, x
    } }' >"$T/t.csv"
awk -F, 'BEGIN { OFS = "," } NR == 1 { print "zz,time_ms,a,status,x9,b"; next }
    { print $4, $6, $1, $5, $3, $2 }' "$T/t.csv" >"$T/cols.csv"
{ sed 1q "$T/cols.csv"; sed 1d "$T/cols.csv" | sort -t, -k2 -k1r; } \
    >"$T/moved.csv"
mkdir "$T/m" && cp "$T/moved.csv" "$T/m/t.csv"
all="random ga sa grid"
if "$MT" replay --table "$T/t.csv" --strategy xgb --seeds 1 --quiet \
    >/dev/null 2>&1; then
    all="$all xgb:8 xgb"
else
    skip "xgb" "libxgboost is not installed"
fi
for s in $all; do
    for t in "$T/t.csv" "$T/m/t.csv"; do
        "$MT" replay --table "$t" --strategy "$s" --budget 30 --seeds 3 --csv \
            --quiet
    done >"$T/both"
    n=$(($(wc -l <"$T/both") / 2))
    head -n $n "$T/both" >"$T/a"
    tail -n $n "$T/both" >"$T/b"
    ok "$s: order and names of rows and columns do not matter" \
        cmp -s "$T/a" "$T/b"
    ok "$s: scores rise" awk -F, 'NR > 1 { if ($4 > 1 && $5 < last) bad = 1
        last = $5 } END { exit bad || NR != 91 }' "$T/a"
done
run replay --table "$T/t.csv" --strategy random --seeds 5 --seed 2 --csv
cp "$T/out" "$T/a"
run replay --table "$T/t.csv" --strategy random --seeds 5 --seed 2 --csv
ok "nothing but scores" test "$(grep -vc '^random,t,[2-6],[0-9]*,[01]' \
    "$T/out")" = 1
ok "the same seeds, the same scores" cmp -s "$T/out" "$T/a"

# --------------------------------------------------------- loop nests
run collect --layer resnet18/layer2 --layer mobilenet_v2/dw144 --target fake \
    --settings 80 --again 0 --out "$T/c.txt" --quiet
run collect --layer resnet18/layer1 --layer resnet18/layer3 --target fake \
    --settings 60 --again 0 --out "$T/s.txt" --quiet
run replay --table "$T/c.txt" --strategy metatune --seeds 2 --budget 20
ok "a collect file: one table a layer" grep -q 'over 2 tables, 2 seeds' \
    "$T/out"
run replay --table "$T/c.txt:resnet18/layer2" --strategy metatune --seeds 2 \
    --budget 20 --csv --quiet
ok "one layer of it" test "$(wc -l <"$T/out")" = 41
"$MT" train "$T/s.txt" --steps 20 --preset tiny --method joint --quiet \
    --out "$T/j.blob" >/dev/null 2>&1
"$MT" train "$T/s.txt" --steps 20 --preset tiny --quiet --out "$T/h.blob" \
    >/dev/null 2>&1
"$MT" train "$T/s.txt" --steps 20 --preset tiny --method maml --quiet \
    --out "$T/m.blob" >/dev/null 2>&1
"$MT" train "$T/s.txt" --steps 20 --preset tiny --no-propagation --quiet \
    --out "$T/n.blob" >/dev/null 2>&1
run replay --table "$T/c.txt" --source "$T/s.txt" --seeds 1 --budget 16 \
    --strategy metatune --model "$T/h.blob" --strategy "maml=$T/m.blob" \
    --strategy "finetune=$T/j.blob" --strategy "mlp=$T/n.blob" \
    --strategy portfolio --aids
ok "priors, fine-tuning, MAML, MLP, the same first batch" test "$rc" = 0 -a \
    "$(grep -c '^[mfp].* 0\.[0-9]* ' "$T/out")" -ge 5
run replay --table "$T/c.txt" --source "$T/s.txt" --holdout resnet18 \
    --strategy portfolio --seeds 1
ok "sources can be held out" test "$rc" = 0
if [ -d "$SHARED/data/tables" ]; then
    for t in "$SHARED"/data/tables/autotvm_conv2d__*.csv; do
        run replay --table "$t" --strategy metatune --seeds 1 --budget 16 \
            --quiet
        ok "$(basename "$t" .csv): every row has a nest" test "$rc" = 0
    done
    t=$SHARED/data/tables/autotvm_conv2d__r18_56x64_k3_avx512.csv
    run train "$t" --steps 10 --preset tiny --out "$T/x.blob"
    ok "train takes it, every row" grep -q \
        '1 groups to train on, .* 980 settings, .* 0 settings refused' \
        "$T/out" "$T/err"
else
    skip "AutoTVM's spaces" "$SHARED/data is not there"
fi

# ----------------------------------------------------------- refusals
bad 2 'give --table' replay
bad 2 'cannot read' replay --table "$T/none.csv"
bad 2 'unknown --strategy "best"; want random' replay --table "$T/t.csv" \
    --strategy best
bad 2 'a plan is xgb' replay --table "$T/t.csv" --strategy ga:8
bad 2 'give --source' replay --table "$T/t.csv" --strategy portfolio
bad 2 'finetune needs a model' replay --table "$T/t.csv" --strategy finetune
bad 2 'loop nests' replay --table "$T/t.csv" --strategy metatune --quiet
METATUNE_XGBOOST=$T/none.so bad 2 'libxgboost-dev' replay --table "$T/t.csv" \
    --strategy xgb
printf 'a,b\n1,2\n' >"$T/x.csv"
bad 2 'knob names, status and time_ms' replay --table "$T/x.csv"
printf 'a,status,time_ms\n1,ok,0\n' >"$T/x.csv"
bad 2 'line 2: time_ms "0"' replay --table "$T/x.csv"
printf 'a,status,time_ms\n1,ok,1\nx,ok,1\n' >"$T/x.csv"
bad 2 'line 3: a is "x"' replay --table "$T/x.csv"
printf 'a,status,time_ms\n1,ok\n' >"$T/x.csv"
bad 2 'line 2 has not the 3 cells' replay --table "$T/x.csv"
printf 'a,status,time_ms\n1,wrong,\n' >"$T/x.csv"
bad 2 'no row is valid' replay --table "$T/x.csv"
bad 2 'has no layer vgg16/conv5' replay --table "$T/c.txt:vgg16/conv5"
finish
