#!/bin/sh
# The command from outside: bad input, resume after kill -9, full disks,
# signals, exported kernels. Needs build/metatune; the parts that build real
# kernels need a C compiler, JSON checks need python3 (else skipped by name).
cd "$(dirname "$0")/.." || exit 2
MT=${METATUNE:-build/metatune}
CC=${CC:-cc}
passed=0 failed=0 skipped=0
T=$(mktemp -d "${TMPDIR:-/tmp}/metatune-cli.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM

pass() { passed=$((passed + 1)); echo "  ok   $1"; }
fail() {
    failed=$((failed + 1))
    echo "  FAIL $1"
    shift
    for f in "$@"; do [ -f "$f" ] && sed "s/^/    /;12q" "$f"; done
}
skip() { skipped=$((skipped + 1)); echo "  skip $1: $2"; }
# ok NAME CONDITION...: the test command's truth
ok() {
    name=$1
    shift
    if "$@"; then pass "$name"; else fail "$name: $*" "$T/out" "$T/err"; fi
}
# run ARGS: stdout and stderr kept, status in $rc
run() { "$MT" "$@" >"$T/out" 2>"$T/err" </dev/null; rc=$?; }
# bad STATUS PATTERN ARGS: that status, one line on stderr that matches
bad() {
    want=$1 pattern=$2
    shift 2
    run "$@"
    if [ "$rc" = "$want" ] && [ "$(wc -l <"$T/err")" -eq 1 ] &&
        grep -q "^metatune: .*$pattern" "$T/err"; then
        pass "refused: $*"
    else
        fail "refused: $* (status $rc, want $want and \"$pattern\")" "$T/err"
    fi
}
have() { command -v "$1" >/dev/null 2>&1; }

if [ ! -x "$MT" ]; then
    echo "  FAIL $MT is missing; run make"
    echo "test_cli: 0 passed, 1 failed, 0 skipped"
    exit 1
fi

# ---------------------------------------------------------------- help
for c in layers tune collect train lookup; do
    run help $c
    ok "help $c" test "$rc" = 0 -a ! -s "$T/err"
    ok "help $c says how" grep -q "^usage: metatune $c" "$T/out"
    cp "$T/out" "$T/help"
    run $c --help
    ok "$c --help is the same" cmp -s "$T/out" "$T/help"
done
run help
ok "help lists the commands" grep -q '^  collect ' "$T/out"
run --version
ok "version" grep -q '^metatune [0-9]*\.[0-9]*\.[0-9]*, schema [0-9]' "$T/out"
run
ok "no command: usage on stderr, status 2" test "$rc" = 2 -a ! -s "$T/out"
bad 2 'unknown command "tuen"' tuen
bad 2 'unknown command "x"' help x

# ----------------------------------------------------------- bad input
good=n=1,c=8,h=6,w=6,k=8,r=3,s=3,stride=1,pad=1,dil=1,groups=1
fake="--target fake --out $T/bad"
for f in n c h w k r s stride dil groups; do
    spec=$(echo "$good" | sed "s/\(^\|,\)$f=[0-9]*/\1$f=0/")
    # shellcheck disable=SC2086
    bad 2 "$f" tune --conv "$spec" $fake
done
# shellcheck disable=SC2086
{
    bad 2 'groups' tune --conv c=8,h=6,k=8,r=3,groups=3 $fake
    bad 2 '' tune --conv c=8,h=2,k=8,r=5 $fake
    bad 2 '' tune --conv c=8,h=6,k=8,r=3,pad=-1 $fake
    bad 2 '' tune --conv c=8,h=6,k=8,r=3,sride=1 $fake
    bad 2 '' tune --conv c=99999999999,h=6,k=8,r=3 $fake
    bad 2 '' tune --conv nonsense $fake
    bad 2 'has kernels for f32' tune --conv c=8,h=6,k=8,r=3,in=f16,out=f16 $fake
    bad 2 'not supported' tune --conv $good,fused=1 $fake
    bad 2 'block is 8, want 16' tune --conv $good,layout=nchwc,block=8 $fake
    bad 2 'block is 16, want 8' tune --conv $good,layout=nchwc,block=16 \
        --lanes 8 $fake
    bad 2 'nchwc, nchw or nhwc' tune --conv $good --layout rows $fake
    bad 2 'f32 or i8' tune --conv $good --dtype f64 $fake
    bad 2 '16, 8, 4 or 1' tune --conv $good --lanes 3 $fake
    bad 2 'layer1' tune --layer resnet18/layr1 $fake
    bad 2 'resnet18' tune --net resnet81 $fake
    bad 2 'nothing to tune' tune $fake
    bad 2 'trials' tune --conv $good --trials many $fake
    bad 2 'trials' tune --conv $good --trials -1 $fake
    bad 2 'trials' tune --conv $good --trials 99999999999999999999 $fake
    bad 2 'trials wants a value' tune --conv $good $fake --trials
    bad 2 'batch' tune --conv $good --batch 0 $fake
    bad 2 'batch' tune --conv $good --batch 65 $fake
    bad 2 'threads' tune --conv $good --threads 0 $fake
    bad 2 'threads' tune --conv $good --threads 9 $fake
    bad 2 'time' tune --conv $good --time nan $fake
    bad 2 'strategy' tune --conv $good --strategy luck $fake
    bad 2 'unknown option --trails' tune --conv $good --trails 4 $fake
    bad 2 'takes no value' tune --conv $good --quiet=1 $fake
    bad 2 'not expected' tune $good $fake
    bad 2 'target' tune --conv $good --target fake:x --out $T/bad
    bad 2 'target' tune --conv $good --target moon --out $T/bad
    bad 2 'cannot read the model' tune --conv $good $fake --model $T/none
    bad 2 'cannot make the folder' tune --conv $good --target fake \
        --out /dev/null/x
    bad 2 'cannot append' tune --conv $good $fake --log $T/no/such/log
    bad 2 'out FILE is missing' collect --conv $good --target fake
    bad 2 'cannot read the list' collect --layers $T/none --out $T/c
    bad 2 'nothing to measure' collect --out $T/c
    bad 2 'at least one file' train --out $T/b
    bad 2 'cannot read' train $T/none --out $T/b
    bad 2 'no file of' train Makefile --out $T/b
    bad 2 'no C identifier' train --out $T/b --name 1x /dev/null
    bad 2 'resnet18' layers --net resnet
    bad 2 'no/such/cc' tune --conv $good --cc /no/such/cc --out $T/bad
    bad 2 '' tune --conv $good --march no-such-cpu --out $T/bad
}
head -c 200 Makefile >"$T/foreign"
bad 2 BAD_BLOB tune --conv $good --target fake --out "$T/bad" \
    --model "$T/foreign"
"$MT" layers >/dev/full 2>"$T/err"
ok "a full disk under stdout is a failed run" test $? = 1
ok "and says so in one line" grep -q 'cannot write the output' "$T/err"

# -------------------------------------------------------------- layers
run layers
ok "layers lists twelve networks" test \
    "$(sed 's,/.*,,' "$T/out" | sort -u | wc -l)" = 12
ok "layers names algorithms" grep -q \
    '^resnet18/layer1 .* direct,wino2,wino4$' "$T/out"
ok "depthwise ones, too" grep -q '^mobilenet_v1/dw1 .*depth' "$T/out"
run layers --layout nchw
ok "layers --layout nchw: a 1x1 may be a matrix product as it is" grep -q \
    '^resnet50_v1/s1b0a .*plane' "$T/out"
run layers --dtype i8
ok "layers --dtype i8: no Winograd" test "$rc" = 0 -a \
    -z "$(grep wino "$T/out")"
run layers --json
csv=${METATUNE_SHARED:-../shared}/data/shapes/conv_shapes.csv
if [ -f "$csv" ]; then
    # net, shape and count of each row, in the spec's order
    sed 1d "$csv" | awk -F, '{ printf "%s n=%d,c=%d,h=%d,w=%d,k=%d,r=%d,s=%d,",
            $1, $3, $4, $5, $6, $7, $8, $9
        printf "stride=%d,", $10
        if ($12 == $13) printf "pad=%d,", $12
        else printf "pad_top=%d,pad_bottom=%d,pad_left=%d,pad_right=%d,",
            $12, $12, $13, $13
        printf "dil=1,groups=%d x%d %.0f\n", $14, $18, $17 }' | sort >"$T/a"
    sed 's/.*"net":"\([^"]*\)".*"count":\([0-9]*\),"flop":\([0-9]*\),"conv":"\([^"]*\)".*/\1 \4 x\2 \3/' \
        "$T/out" | sort >"$T/b"
    ok "every layer is in conv_shapes.csv and the other way round" \
        cmp "$T/a" "$T/b"
else
    skip "layers against conv_shapes.csv" "$csv is not there"
fi
ok "layers --json: an object a line" test \
    "$(grep -c '^{"net":.*"conv":"n=.*}$' "$T/out")" = "$(wc -l <"$T/out")"
run layers --net resnet18
spec=$(sed -n 's/^resnet18\/layer1 .*GFLOP  \([^ ]*\).*/\1/p' "$T/out")
run tune --conv "$spec" --target fake --trials 2 --out "$T/spec" --json
ok "a printed layer goes back in as --conv" test "$rc" = 0

# ------------------------------------------- tuning on invented times
# what was proposed: task, kind, repeat, setting
proposals() {
    sed -n '/"kind":"trial"/{
        s/^.*"trial_kind":"\([a-z]*\)".*$/\1 &/
        s/^\([a-z]*\) .*"repeat":\([0-9]*\).*$/\1 \2 &/
        s/^\([a-z]* [0-9]*\) .*"task":"\([^"]*\)".*$/\1 \2 &/
        s/^\([a-z]* [0-9]* [^ ]*\) .*"knobs":\({[^}]*}\).*$/\1 \2/
        p
    }' "$1" | sort
}
settings() { sed 's/.*"layers":\[//' "$1" | tr '{' '\n' |
    sed -n 's/}.*//;/"ocv"/p'; }
# the tuned times of a JSON answer
tuned_times() { tr ',' '\n' <"$1" | grep '"tuned_s"'; }
two="--layer resnet18/layer1 --layer resnet18/layer2.0.down"
args="tune $two --trials 20 --seed 3 --json"
# shellcheck disable=SC2086
run $args --target fake --out "$T/ref"
ok "fake: status 0" test "$rc" = 0
ok "fake: no word on stderr" test ! -s "$T/err"
cp "$T/out" "$T/ref.json"
proposals "$T/ref/records.jsonl" >"$T/ref.txt"
ok "20 new settings a layer" test \
    "$(grep -c '^explore' "$T/ref.txt")" = 40
ok "top settings are confirmed" grep -q '^confirm 4' "$T/ref.txt"
ok "no setting twice" test -z "$(uniq -d "$T/ref.txt")"
ok "task and end lines" test \
    "$(grep -c '"kind":"end"' "$T/ref/records.jsonl")" = 2
ok "kernels are exported" test -s "$T/ref/tuned_conv.c"
# shellcheck disable=SC2086
run $args --target fake --out "$T/ref2"
proposals "$T/ref2/records.jsonl" >"$T/ref2.txt"
ok "the same seed proposes the same" cmp -s "$T/ref.txt" "$T/ref2.txt"
# shellcheck disable=SC2086
run tune $two --trials 20 --seed 4 --json --target fake --out "$T/ref4"
proposals "$T/ref4/records.jsonl" >"$T/ref4.txt"
ok "another seed does not" test -n "$(cmp "$T/ref.txt" "$T/ref4.txt")"
# shellcheck disable=SC2086
run $args --target fake --out "$T/ref" --resume
proposals "$T/ref/records.jsonl" >"$T/again.txt"
ok "resuming a finished run measures nothing" cmp -s "$T/ref.txt" \
    "$T/again.txt"
settings "$T/out" >"$T/a"
settings "$T/ref.json" >"$T/b"
ok "and ends with the same settings" cmp -s "$T/a" "$T/b"
ok "which are two" test "$(wc -l <"$T/a")" = 2
tuned_times "$T/ref.json" >"$T/c"
tuned_times "$T/out" >"$T/a"
ok "and the same times" cmp -s "$T/a" "$T/c"

# a longer search of the same seed in the same log may find a better one; the
# shorter one, resumed, still has its own
cp -R "$T/ref" "$T/two"
# shellcheck disable=SC2086
run tune $two --trials 60 --seed 3 --json --target fake --out "$T/two" --resume
ok "a longer search finds better" test -n "$(tuned_times "$T/out" | cmp - "$T/c")"
# shellcheck disable=SC2086
run $args --target fake --out "$T/two" --resume
tuned_times "$T/out" >"$T/a"
ok "two searches in one log: the shorter one's own times" cmp -s "$T/a" "$T/c"
settings "$T/out" >"$T/a"
ok "and its own settings" cmp -s "$T/a" "$T/b"

i=0
for wait in 0.05 0.2 0.4 0.7 1.0; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    "$MT" $args --target fake:15 --out "$T/kill$i" >/dev/null 2>&1 &
    pid=$!
    sleep $wait
    kill -9 $pid
    wait $pid 2>/dev/null
    n=$(grep -c '"kind":"trial"' "$T/kill$i/records.jsonl")
    # shellcheck disable=SC2086
    run $args --target fake --out "$T/kill$i" --resume
    proposals "$T/kill$i/records.jsonl" >"$T/kill.txt"
    settings "$T/out" >"$T/a"
    ok "killed after $n trials, resumed: same proposals, none twice" \
        cmp -s "$T/kill.txt" "$T/ref.txt"
    ok "killed after $n trials, resumed: same result" cmp -s "$T/a" "$T/b"
done

# a torn last line, foreign lines and rubbish do no harm
mkdir -p "$T/torn"
{
    head -n 9 "$T/ref/records.jsonl"
    echo 'rubbish'
    echo '{"v":99,"kind":"trial"}'
    sed -n 10p "$T/ref/records.jsonl" | head -c 150
} >"$T/torn/records.jsonl"
# shellcheck disable=SC2086
run $args --target fake --out "$T/torn" --resume
proposals "$T/torn/records.jsonl" | uniq >"$T/torn.txt"
settings "$T/out" >"$T/a"
ok "a torn log: same result" cmp -s "$T/a" "$T/b"

# a full disk: best kept, one line, status 1; and resume when there is room
# shellcheck disable=SC2086
run tune $two --trials 8 --target fake --out "$T/full" --log /dev/full
ok "full disk: status 1" test "$rc" = 1
ok "full disk: one line" test "$(wc -l <"$T/err")" = 1
ok "full disk: says IO" grep -q '^metatune: IO: .*No space left' "$T/err"
(
    ulimit -f 12
    # shellcheck disable=SC2086
    "$MT" $args --target fake --out "$T/limit" >"$T/out" 2>"$T/err"
    echo $? >"$T/rc"
)
ok "file size limit: status 1" test "$(cat "$T/rc")" = 1
ok "file size limit: one line, IO" test \
    "$(grep -c '^metatune: IO: ' "$T/err")" = "$(wc -l <"$T/err")"
n=$(grep -c '"kind":"trial"' "$T/limit/records.jsonl")
ok "file size limit: $n trials are kept" test "$n" -gt 2
# shellcheck disable=SC2086
run $args --target fake --out "$T/limit" --resume
settings "$T/out" >"$T/a"
ok "file size limit: resumed to the same result" cmp -s "$T/a" "$T/b"

# layouts, types, vector widths; layers that are not for this target
tasks() { sed -n 's/.*"kind":"trial".*"task":"\([^"]*\)".*/\1/p' "$1" |
    sort -u; }
run tune --conv $good --target fake --trials 2 --out "$T/l1" --quiet
ok "tune: blocked by default" test "$(tasks "$T/l1/records.jsonl")" = \
    "$good,layout=nchwc,block=16"
run tune --conv $good --target fake --trials 2 --out "$T/l2" --quiet \
    --lanes 8 --threads 2
ok "--lanes 8: blocks of 8" test "$(tasks "$T/l2/records.jsonl")" = \
    "$good,layout=nchwc,block=8"
ok "threads and lanes are in the target's key" grep -q \
    '"target":"fake,lanes=8,threads=2"' "$T/l2/records.jsonl"
run tune --conv $good --target fake --trials 2 --out "$T/l3" --quiet \
    --layout nchw
ok "--layout nchw" test "$(tasks "$T/l3/records.jsonl")" = "$good"
run tune --conv $good,layout=nhwc --conv $good --target fake --trials 2 \
    --out "$T/l4" --quiet
ok "a SPEC's own layout stays" test "$(tasks "$T/l4/records.jsonl" |
    tr '\n' ' ')" = "$good,layout=nchwc,block=16 $good,layout=nhwc "
run tune --layer resnet18/layer1 --conv $good --dtype i8 --target fake \
    --trials 2 --out "$T/l5" --quiet
ok "--dtype i8: of networks' layers" test "$(tasks "$T/l5/records.jsonl" |
    grep -c 'in=i8,out=i32,acc=i32,layout=nchwc')" = 1
run tune --conv $good,in=i8,out=i32,acc=i32 --target fake --trials 2 \
    --out "$T/l6" --json
ok "a SPEC's types" test "$rc" = 0 -a -s "$T/l6/tuned_conv.c"
run tune --conv $good --conv $good,fused=2 --target fake --trials 2 \
    --out "$T/skip" --quiet
ok "a layer that is not supported is skipped" test "$rc" = 0 -a \
    "$(tasks "$T/skip/records.jsonl" | wc -l)" = 1
ok "and named, with why, in one line" test "$(wc -l <"$T/err")" = 1 -a \
    -n "$(grep '^metatune: conv-2: skipped: fused' "$T/err")"
run tune --conv $good,fused=1 --conv $good,fused=2 --target fake \
    --out "$T/none"
ok "none left: status 2, nothing written" test "$rc" = 2 -a ! -e "$T/none" -a \
    "$(wc -l <"$T/err")" = 3
run lookup "$T/l1/records.jsonl" --conv $good
ok "lookup asks in the log's layout" grep -q "^exact  $good,layout=nchwc" \
    "$T/out"
run lookup "$T/l1/records.jsonl" --conv $good,layout=nhwc
ok "unless one is asked for" grep -q "layout" "$T/out"

# nothing valid
bad 1 NO_VALID tune --conv $good --target fail --out "$T/fail" --quiet
n=$(grep -c '"kind":"trial"' "$T/fail/records.jsonl")
ok "nothing valid: every failure is recorded ($n)" test "$n" -gt 7

# zero trials, tiny budgets, random
run tune --conv $good --target fake --trials 0 --out "$T/zero" --json
ok "zero trials: a pick all the same" test "$rc" = 0
ok "zero trials: no trial" test \
    -z "$(grep '"kind":"trial"' "$T/zero/records.jsonl")"
run tune --conv $good --target fake --trials 3 --strategy random \
    --model none --out "$T/rand" --json
ok "random strategy" test "$rc" = 0
run tune --conv $good --conv c=32,h=14,k=32,r=1 --target fake --trials 20 \
    --share --log "$T/share.jsonl" --out "$T/share" --quiet
ok "one budget for two layers" test "$rc" = 0 -a \
    "$(grep -c '"trial_kind":"explore"' "$T/share.jsonl")" = 20
run tune --conv c=24,h=14,k=24,r=1 --target fake --trials 4 \
    --archive "$T/share.jsonl" --out "$T/archive" --quiet
ok "archive" test "$rc" = 0
run tune --conv $good --target fake --archive "$T/none.jsonl" \
    --out "$T/archive"
ok "no archive there" test "$rc" = 2
run tune --conv $good --target fake:10 --trials 500 --time 2 \
    --out "$T/time" --json
n=$(grep -c '"explore"' "$T/time/records.jsonl")
ok "--time ends the search early ($n trials)" test "$n" -gt 8 -a "$n" -lt 250

# the hint to go on is a command that a shell takes
"$MT" tune $two --trials 400 --target fake:10 --out "$T/it's here" \
    >"$T/out" 2>"$T/err" </dev/null &
pid=$!
sleep 0.8
kill -INT $pid
wait $pid
hint=$(sed -n 's/^to go on: //p' "$T/out" | sed 's/--trials 400/--trials 9/')
n=$(grep -c '"kind":"trial"' "$T/it's here/records.jsonl")
eval "$hint" >"$T/out" 2>"$T/err"
ok "what is printed to go on works ($n trials)" test $? = 0 -a ! -s "$T/err"

# signals: the best is kept, the table printed, resume explained
for sig in INT TERM HUP; do
    # shellcheck disable=SC2086
    "$MT" tune $two --trials 400 --target fake:10 --out "$T/$sig" \
        >"$T/out" 2>"$T/err" </dev/null &
    pid=$!
    sleep 0.8
    kill -$sig $pid
    wait $pid
    rc=$?
    ok "SIG$sig: status 1" test "$rc" = 1
    ok "SIG$sig: table" grep -q '^layer .*GFLOP' "$T/out"
    ok "SIG$sig: how to go on" grep -q "^to go on: $MT tune .*--resume\$" \
        "$T/out"
    ok "SIG$sig: kernels of the best so far" test -s "$T/$sig/tuned_conv.h"
done

# output forms
run tune --conv $good --target fake --trials 4 --out "$T/q" --quiet
ok "--quiet is quiet" test "$rc" = 0 -a ! -s "$T/out" -a ! -s "$T/err"
run tune --conv $good --target fake --trials 4 --out "$T/p"
ok "plain progress lines in a pipe" grep -q \
    '^\[1/1\] conv-1: trial [0-9]*/4, best .* GFLOP/s ([a-z]*[24]*)' "$T/out"
ok "no control characters in a pipe" test \
    -z "$(tr -d '\n\t\040-\176' <"$T/out")"
if have python3; then
    ok "--json is JSON" python3 -m json.tool "$T/ref.json" /dev/null
    python3 -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)' "$T/ref/records.jsonl" \
        2>"$T/err"
    ok "every record is JSON" test $? = 0
else
    skip "--json is JSON" "python3 is not installed"
fi

# ---------------------------------------------------- collect and train
list="--layer resnet18/layer1 --layer resnet18/layer2 --layer vgg16/conv1_2"
two="--layer resnet18/layer1 --layer resnet18/layer2.0.down"
# shellcheck disable=SC2086
run collect $two --target fake --settings 40 --seed 5 --out "$T/c1"
ok "collect" test "$rc" = 0
ok "collect: 40 settings a layer, ten of them timed again" test \
    "$(grep -c '^R.*[du]	\.$' "$T/c1")" = 80 -a \
    "$(grep -c '^R.*	t	\.$' "$T/c1")" = 20
ok "collect: a control before and after every 20" test \
    "$(grep -c '^C' "$T/c1")" = 4
ok "collect: a value for every knob that is named" test \
    "$(awk -F'\t' '/^L/ { n = split($9, knob, ",") }
        /^R/ && $5 != "t" && split($2, value, ",") == n' "$T/c1" |
        wc -l)" = 80
ok "collect: every algorithm that suits, none less than its share" test \
    "$(sed -n '/layer1/,/^L.*down/s/^R	\([0-9]*\),.*[du]	\.$/\1/p' \
        "$T/c1" | sort |
        uniq -c | awk '$1 > 5' | wc -l)" = 3
ok "collect: none twice in a layer" test \
    -z "$(sed -n '/^L/h;/^R.*[du]	\.$/{G;p;}' "$T/c1" |
        sed 'N;s/\n/ /' | sort | uniq -d)"
bad 2 'resume' collect --conv $good --target fake --out "$T/c1"
# shellcheck disable=SC2086
"$MT" collect $two --target fake:15 --settings 40 --seed 5 --out "$T/c2" \
    >/dev/null 2>&1 &
pid=$!
sleep 0.5
kill -9 $pid
wait $pid 2>/dev/null
printf 'R\t0,1,4' >>"$T/c2"
# shellcheck disable=SC2086
run collect $two --target fake --settings 40 --seed 5 --out "$T/c2" --resume
grep '^R.*[du]	\.$' "$T/c1" | sort >"$T/a"
grep '^R.*[du]	\.$' "$T/c2" | sort >"$T/c"
ok "collect: killed and resumed: the same rows, none twice" cmp -s "$T/a" \
    "$T/c"
# shellcheck disable=SC2086
run collect $two --target fake --settings 40 --out /dev/full
ok "collect: full disk: status 1, one line" test "$rc" = 1 -a \
    "$(wc -l <"$T/err")" = 1
run train "$T/c2" --steps 12 --preset tiny --holdout resnet18/layer1 \
    --out "$T/m.blob" --header "$T/m.h" --name test_prior
ok "train" test "$rc" = 0
ok "train: reports held-out layers" grep -q \
    'held out  *1 groups: loss .* rank correlation' "$T/out"
run train "$T/c1" --steps 12 --preset tiny --holdout resnet18/layer1 \
    --out "$T/m2.blob" --quiet
run tune --conv $good --target fake --trials 4 --model "$T/m.blob" \
    --out "$T/m" --json
ok "tune starts from it" grep -q "\"model\":\"$T/m.blob\"" "$T/out"
run collect --layer mobilenet_v1/dw1 --layer resnet18/layer1 --conv $good \
    --conv c=8,h=6,k=8,r=3,groups=2,in=i8,out=i32,acc=i32 --conv $good,fused=1 \
    --layout nhwc --dtype i8 --target fake --settings 20 --out "$T/c3"
ok "collect: other layouts and types, one skipped" test "$rc" = 0 -a \
    "$(grep -c 'layout=nhwc' "$T/c3")" = 4 -a "$(wc -l <"$T/err")" = 1
run train "$T/c1" "$T/c3" --steps 4 --preset tiny --out "$T/m3.blob"
ok "train: takes them" grep -q ' 0 bad lines, 0 settings refused' "$T/out"
run train "$T/c1" --steps 6 --seed 2 --preset tiny --out "$T/ma" --quiet
run train "$T/c1" --steps 6 --seed 2 --preset tiny --out "$T/mb" --quiet
ok "train: the same data and seed, the same bytes" cmp "$T/ma" "$T/mb"
sed '1s/space ..../space beef/' "$T/c1" >"$T/c4"
bad 2 'settings are of space beef[0-9a-f]*, this' train "$T/c4" --out "$T/b"
bad 2 'settings are of space beef' collect --conv $good --target fake \
    --out "$T/c4" --resume
sed '1s/.*/# metatune collect 1/' "$T/c1" >"$T/c4"
bad 2 'collect file of version 1, want 2 or 3' train "$T/c4" --out "$T/b"
{ head -c -8 "$T/m.blob"; printf 'another1'; } >"$T/space.blob"
bad 2 'trained on settings of space 31726568746f6e61' tune --conv $good \
    --target fake --out "$T/bad" --model "$T/space.blob"
head -c -12 "$T/m.blob" >"$T/space.blob"
bad 2 'does not say which space' tune --conv $good --target fake \
    --out "$T/bad" --model "$T/space.blob"
head -c 500 "$T/m.blob" >"$T/torn.blob"
bad 2 BAD_BLOB tune --conv $good --target fake --out "$T/bad" \
    --model "$T/torn.blob"
if have python3; then
    python3 - "$T/m.blob" "$T/other.blob" <<'P'
import struct, sys, zlib
b = bytearray(open(sys.argv[1], "rb").read())
b[8:12] = struct.pack("<I", 999)
b[88:92] = struct.pack("<I", zlib.crc32(bytes(b[:88])))
open(sys.argv[2], "wb").write(b)
P
    bad 2 BAD_SCHEMA tune --conv $good --target fake --out "$T/bad" \
        --model "$T/other.blob"
else
    skip "a model of another schema" "python3 is not installed"
fi

# ------------------------------------------------------- real kernels
if ! have "$CC"; then
    skip "real kernels" "$CC is not installed"
else
    cat >"$T/h.c" <<'C'
#include "m.h"
#include <stdio.h>
int main(void)
{
    printf("%d %.4s\n", sizeof test_prior >= TEST_PRIOR_BYTES,
           (const char *)test_prior);
    return 0;
}
C
    "$CC" -std=c99 -Wall -Wextra -Wpedantic -Werror -I"$T" \
        "$T/h.c" -o "$T/h" 2>"$T/err" && "$T/h" >"$T/out"
    ok "the model's header compiles" grep -q '^1 MTUN' "$T/out"

    (PATH=/no/such "$MT" tune --conv $good --out "$T/bad" >"$T/out" \
        2>"$T/err"; echo $? >"$T/rc")
    ok "no compiler at all: status 1, one line" test "$(cat "$T/rc")" = 1 \
        -a "$(wc -l <"$T/err")" = 1
    (TMPDIR=/no/such "$MT" tune --conv $good --out "$T/bad" >"$T/out" \
        2>"$T/err"; echo $? >"$T/rc")
    ok "no temporary folder: status 1, one line" test "$(cat "$T/rc")" = 1 \
        -a "$(wc -l <"$T/err")" = 1
    for odd in c=1,h=1,k=1,r=1 c=3,h=7,k=1,r=7,w=11,s=5 \
        c=17,h=13,k=5,r=3,stride=4,pad=2,dil=2 \
        c=7,h=5,k=7,r=3,pad=1,groups=7,layout=nhwc \
        c=6,h=5,k=9,r=3,pad=1,groups=3,layout=nchw; do
        run tune --conv $odd --trials 3 --cc "$CC" --out "$T/odd" --quiet
        ok "host: $odd" test "$rc" = 0 -a ! -s "$T/err"
    done

    mkdir "$T/tmp"
    TMPDIR=$T/tmp
    export TMPDIR
    a=c=5,h=9,w=11,k=19,r=3,s=3,pad=1
    b=c=32,h=14,k=40,r=1,s=1,stride=2
    run tune --conv $a --conv $b --trials 3 --seed 1 --cc "$CC" \
        --out "$T/real"
    ok "host: status 0" test "$rc" = 0
    ok "host: temporary folder is empty" test -z "$(ls -A "$T/tmp")"
    ok "host: task lines have naive time and peak" grep -q \
        '"kind":"task".*"naive_s":[0-9].*"peak_gflops":[0-9]' \
        "$T/real/records.jsonl"
    "$CC" -O3 -march=native -Wall -Wextra -Werror -I"$T/real" \
        tests/use_conv.c "$T/real/tuned_conv.c" -lm -o "$T/use" \
        2>"$T/err" && "$T/use" >"$T/out" 2>&1
    ok "the kernels give the reference's result" grep -q \
        '^layers 2 wrong 0' "$T/out"
    n=$(grep -c '"kind":"trial"' "$T/real/records.jsonl")
    run tune --conv $a --conv $b --trials 3 --seed 1 --cc "$CC" \
        --out "$T/real" --resume
    ok "host: resume measures nothing again" test \
        "$(grep -c '"kind":"trial"' "$T/real/records.jsonl")" = "$n"

    # two threads, plain C99 and i8: tuned, exported, right
    run tune --conv $a --conv c=16,h=8,k=16,r=3,pad=1,groups=16 --threads 2 \
        --trials 2 --cc "$CC" --out "$T/thr" --quiet
    ok "host: --threads 2" test "$rc" = 0 -a ! -s "$T/err" -a \
        -n "$(grep 'threads=2' "$T/thr/records.jsonl")"
    run tune --conv $a --conv $b,in=i8,out=i32,acc=i32 --lanes 1 \
        --layout nchw --trials 2 --cc "$CC" --out "$T/c99" --quiet
    ok "host: --lanes 1" test "$rc" = 0 -a ! -s "$T/err" -a \
        -n "$(grep 'lanes=1,' "$T/c99/records.jsonl")"
    for d in thr c99; do
        std=-std=c99
        [ $d = thr ] && std="-std=gnu99 -march=native"
        # shellcheck disable=SC2086
        "$CC" $std -O2 -Wall -Wextra -Werror -I"$T/$d" tests/use_conv.c \
            "$T/$d/tuned_conv.c" -lm -o "$T/use" 2>"$T/err" &&
            "$T/use" >"$T/out" 2>&1
        ok "host: $d: exported kernels are right" grep -q \
            '^layers 2 wrong 0' "$T/out"
    done

    # a whole network out of a log, on invented times
    run tune --net mlperftiny_ic_resnet8 --net resnet18 --target fake \
        --trials 3 --model none --out "$T/net" --quiet
    run export "$T/net/records.jsonl" --format conv \
        --net mlperftiny_ic_resnet8 --out "$T/net8"
    ok "export: a network's layers" test "$rc" = 0 -a \
        "$(grep -c '^#define .*_PHASES ' "$T/net8/tuned_conv.h")" = 8
    "$CC" -O1 -march=native -Wall -Wextra -Werror -I"$T/net8" \
        tests/use_conv.c "$T/net8/tuned_conv.c" -lm -o "$T/use" \
        2>"$T/err" && "$T/use" >"$T/out" 2>&1
    ok "export: they are right" grep -q '^layers 8 wrong 0' "$T/out"
    # the same object, pedantic, called from C++; it allocates nothing
    "$CC" -std=gnu99 -O1 -march=native -Wall -Wextra -Wpedantic -Werror \
        -c "$T/net8/tuned_conv.c" -o "$T/net8/tuned_conv.o" 2>"$T/err"
    ok "export: pedantic C99" test $? = 0
    if have nm; then
        nm -u "$T/net8/tuned_conv.o" >"$T/out" 2>"$T/err"
        ok "export: calls no allocator" test "$(grep -c 'memset\|memcpy' \
            "$T/out")" -gt 0 -a -z "$(grep 'alloc\|free' "$T/out")"
    fi
    if have g++; then
        g++ -std=c++11 -x c++ -Wall -Wextra -Wpedantic -Werror \
            -I"$T/net8" tests/use_conv.c -x none "$T/net8/tuned_conv.o" -lm \
            -o "$T/use" 2>"$T/err" && "$T/use" >"$T/out" 2>&1
        ok "export: right when called from C++" grep -q \
            '^layers 8 wrong 0' "$T/out"
    fi
    run export "$T/net/records.jsonl" --format conv --net resnet18 \
        --out "$T/net18"
    ok "export: the other network's" test "$rc" = 0 -a \
        "$(grep -c '^#define .*_RESNET18_.*_PHASES ' \
            "$T/net18/tuned_conv.h")" = 11
    run export "$T/net/records.jsonl" --format conv --net resnet18 \
        --layout nhwc --out "$T/net18"
    ok "export: layers that are not there are named" test "$rc" = 1 -a \
        "$(grep -c '^metatune: export: resnet18/.*: left out' "$T/err")" = 11
    run tune --net mlperftiny_ic_resnet8 --target fake --trials 3 \
        --model none --layout nhwc --out "$T/net" --quiet
    bad 2 'several forms' export "$T/net/records.jsonl" --format conv \
        --net mlperftiny_ic_resnet8 --out "$T/net8"
    run export "$T/net/records.jsonl" --format conv --layout nhwc \
        --net mlperftiny_ic_resnet8 --out "$T/net8"
    ok "export: one of two forms" test "$rc" = 0 -a \
        "$(grep -c '^   in nhwc' "$T/net8/tuned_conv.h")" = 8
    bad 2 'wants --out DIR' export "$T/net/records.jsonl" --format conv
    bad 2 'resnet18' export "$T/net/records.jsonl" --format conv \
        --net resnet8 --out "$T/net8"

    "$MT" tune --layer resnet18/layer1 --trials 300 --cc "$CC" \
        --out "$T/int" >"$T/out" 2>"$T/err" </dev/null &
    pid=$!
    sleep 4
    kill -INT $pid
    wait $pid
    ok "host: SIGINT: status 1 and table" test $? = 1 -a -s "$T/out"
    ok "host: SIGINT: temporary folder is empty" test -z "$(ls -A "$T/tmp")"
fi

echo "test_cli: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
