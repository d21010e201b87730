#!/bin/sh
# bench_conv.sh - tune layers of our networks, then run bench_conv on the logs
#
#   bench_conv.sh best      every distinct shape, blocked and plain nchw
#   bench_conv.sh threads   layers above 50 MFLOP on two threads
#   bench_conv.sh deep      eight layers: TRIALS against 1,000 trials
#
# SHORT=1  twelve layers of all classes, fewer trials
# FRESH=1  tune again; else logs that are there are used, and an interrupted
#          run goes on where it stopped
# TRIALS   a layer (64); NETS="resnet18 ..." only these; CC as usual;
#          TUNE_FLAGS more for `metatune tune`
# Each layer has a log of its own in $DIR/LAYOUT; $DIR/times says how long
# tuning it took, all included.
set -u
LC_ALL=C
export LC_ALL
mode=${1:-best}
dir=${DIR:-build/bench_conv}
metatune=${METATUNE:-build/metatune}
bench=${BENCH:-$dir/bench_conv}
trials=${TRIALS:-64}
short_layers="resnet18/layer1 resnet18/layer3 squeezenet1.1/fire4.expand3
    mobilenet_v2/expand24-144 mobilenet_v2/project384-96
    resnet18/layer2.0.down mobilenet_v2/dw144 mobilenet_v2/dw384
    mobilenet_v2/dw96s2 resnet18/conv1 resnet18/layer3.0.conv1 alexnet/conv2"
deep_layers="resnet18/layer1 resnet18/layer4 squeezenet1.1/fire4.expand3
    mobilenet_v2/expand24-144 mobilenet_v2/project384-96 mobilenet_v2/dw144
    resnet18/conv1 resnet18/layer3.0.conv1"

tune_flags="--quiet --resume ${TUNE_FLAGS:-}"
if [ -n "${SHORT:-}" ]; then
    dir=$dir/short
    trials=${TRIALS:-32}
    tune_flags="$tune_flags --time ${TUNE_TIME:-8}"
fi
cc_flags=${CC:+--cc ${CC%% *}}
if [ -n "${FRESH:-}" ]; then
    case $mode in
    best) rm -rf "$dir/nchwc" "$dir/nchw" "$dir/times" ;;
    threads) rm -rf "$dir/threads2" ;;
    deep) rm -rf "$dir/deep" ;;
    esac
fi
mkdir -p "$dir" || exit 1
trap 'echo "bench_conv.sh: interrupted; run it again to go on" >&2
      exit 130' INT TERM

now() {
    t=$(date +%s.%N)
    echo "${t%.N}"
}

# "NET/LAYER FLOP", each shape once
distinct() {
    "$metatune" layers --json |
        sed -n '/"host":true/s/[{}"]//gp' |
        sed 's/,layer:/ /; s/^net://; s/,count:[0-9]*,flop:/ /
             s/,conv:/ /; s/,host:.*//' |
        awk -v nets=" ${NETS:-} " '
            (nets ~ /^ *$/ || index(nets, " " $1 " ")) && !seen[$4]++ {
                print $1 "/" $2, $3
            }'
}

# The layers of this run, one a line.
layers() {
    if [ "$mode" = deep ]; then
        printf '%s\n' $deep_layers
    elif [ -n "${SHORT:-}" ] && [ "$mode" = threads ]; then
        printf '%s\n' resnet18/layer1 resnet18/conv1 alexnet/conv2 \
            resnet50_v1/s1b0c
    elif [ -n "${SHORT:-}" ]; then
        printf '%s\n' $short_layers
    elif [ "$mode" = threads ]; then
        distinct | awk '$2 > 5e7 { print $1 }'
    else
        distinct | awk '{ print $1 }'
    fi
}

# folder, layout, trials, more flags: tune what has no log there yet
tune() {
    folder=$1 layout=$2 count=$3
    shift 3
    mkdir -p "$dir/$folder" "$dir/out"
    touch "$dir/times"
    todo=$(layers)
    all=$(echo "$todo" | wc -l)
    i=0
    for layer in $todo; do
        i=$((i + 1))
        log=$dir/$folder/$(echo "$layer" | tr / -).jsonl
        # what it was tuned with: another budget is another log
        with="$count $tune_flags $cc_flags $*"
        [ "$(cat "$log.done" 2>/dev/null)" = "$with" ] && continue
        [ -e "$log.done" ] && rm -f "$log" "$log.done"
        begun=
        [ -e "$log" ] && begun=1 # by a run that was stopped
        start=$(now)
        "$metatune" tune --layer "$layer" --layout "$layout" \
            --trials "$count" --log "$log" --out "$dir/out" $tune_flags \
            $cc_flags "$@"
        status=$?
        case $status in 130 | 143) exit $status ;; esac
        took=$(echo "$(now) $start" | awk '{ printf "%.1f", $1 - $2 }')
        if [ $status -ne 0 ]; then
            echo "[$i/$all] $folder $layer: not tuned, status $status"
            failed=$((failed + 1))
            continue
        fi
        echo "[$i/$all] $folder $layer: tuned in $took s"
        [ "$folder" = "$layout" ] && [ -z "$begun" ] &&
            echo "$layout $layer $took" >> "$dir/times"
        echo "$with" > "$log.done"
    done
}

echo "tuning: $trials trials a layer${SHORT:+, at most ${TUNE_TIME:-8} s}"
failed=0
case $mode in
best)
    tune nchwc nchwc "$trials"
    tune nchw nchw "$trials"
    "$bench" $cc_flags --times "$dir/times" --json "$dir/result.json" \
        --markdown "$dir/result.md" "$dir/nchwc" "$dir/nchw"
    status=$? ;;
threads)
    tune threads2 nchwc "$trials" --threads 2
    if [ -d "$dir/nchwc" ]; then
        "$bench" $cc_flags --threads "$dir/nchwc" "$dir/threads2"
    else
        "$bench" $cc_flags --threads "$dir/threads2"
    fi
    status=$? ;;
deep)
    tune nchwc nchwc "$trials"
    tune deep nchwc "${DEEP_TRIALS:-1000}"
    "$bench" $cc_flags --against "$dir/nchwc" "$dir/deep"
    status=$? ;;
*)
    echo "usage: bench_conv.sh best|threads|deep" >&2
    exit 2 ;;
esac
[ $failed -eq 0 ] || exit 1
exit $status
