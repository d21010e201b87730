#!/bin/sh
# bench_learning.sh - the contest on held-out layers and platforms
#
#   sh tools/bench/bench_learning.sh            SHORT=1 for a quick look
#
# Contest tables (tools/data/contest_*.txt) were never trained on. Unseen
# layers: a prior, and sources, without the layer's network family; unseen
# platform: without the family and without its vector width. AutoTVM's own
# spaces (../shared/data): without the layer, and AVX-512 to AVX2. Everything
# goes to build/bench_learning: scores.csv, result.md, SVG plots.
set -eu
LC_ALL=C
export LC_ALL
dir=${DIR:-build/bench_learning}
metatune=${METATUNE:-build/metatune}
bench=${BENCH:-build/bench_learning/bench_learning}
data=${DATA:-tools/data}
folds=${FOLDS:-$data/folds}
shared=${METATUNE_SHARED:-../shared}
seeds=${SEEDS:-10}
budget=${BUDGET:-64}
families="resnet vgg mobile"
widths="16 8 4"
if [ -n "${SHORT:-}" ]; then
    seeds=2
    budget=32
    families=mobile
    widths=16
fi
mkdir -p "$dir"
out=$dir/scores.csv
: > "$out"
name() { # WIDTH -> part of a file's name
    case $1 in 16) echo avx512 ;; 8) echo avx2 ;; *) echo sse4 ;; esac
}
sources=$(ls "$data"/train_*.txt)
xgb=
if "$metatune" replay --table "$data/contest_$(name 16)_gcc.txt" --budget 1 \
    --seeds 1 --strategy xgb --quiet > /dev/null 2>&1; then
    xgb="--strategy xgb:64 --strategy xgb:16 --strategy xgb:8
        --strategy xgb-pre:8"
else
    echo "skipped: xgb, XGBoost's library is not installed" >&2
fi

# contest FAMILY WIDTH BLOB HOLDOUT...: one fold's scores
contest() {
    what=$1 family=$2 width=$3 blob=$4
    shift 4
    tables=
    while read -r layer; do
        case $layer in
        '' | '#'*) continue ;;
        esac
        case " $(sed -n "s/^$family  *//p" "$data/layers/families.txt") " in
        *" ${layer%%/*} "*)
            file=$data/contest_$(name "$width")_gcc.txt
            tables="$tables --table $file:$layer"
            ;;
        esac
    done < "$data/layers/contest12.txt"
    from=
    for s in $sources; do from="$from --source $s"; done
    for net in $(sed -n "s/^$family  *//p" "$data/layers/families.txt"); do
        from="$from --holdout $net"
    done
    models="--model $folds/$blob.blob"
    [ ! -s "$folds/${blob}_joint.blob" ] ||
        models="$models --strategy finetune=$folds/${blob}_joint.blob"
    for m in maml mlp; do
        [ ! -s "$folds/${blob}_$m.blob" ] ||
            models="$models --strategy $m=$folds/${blob}_$m.blob"
    done
    # shellcheck disable=SC2086
    "$metatune" replay $tables $from "$@" $models --budget "$budget" \
        --seeds "$seeds" --csv --strategy metatune --strategy random \
        --strategy ga --strategy portfolio $xgb ${FLAGS:-} |
        sed "s/^/$what,/" >> "$out"
    # shellcheck disable=SC2086
    "$metatune" replay $tables --budget "$budget" --seeds "$seeds" --csv \
        --strategy metatune --quiet |
        sed "s/^metatune/$what,from nothing/;/^$what/!d" >> "$out"
}
for family in $families; do
    for width in $widths; do
        [ -s "$data/contest_$(name "$width")_gcc.txt" ] || continue
        [ ! -s "$folds/$family.blob" ] ||
            contest "unseen layers" "$family" "$width" "$family"
        [ ! -s "$folds/${family}_w$width.blob" ] ||
            contest "unseen platform" "$family" "$width" \
                "${family}_w$width" --holdout-target "lanes=$width"
    done
done

# AutoTVM's spaces
tables=$shared/data/tables
if [ -d "$tables" ]; then
    for table in "$tables"/autotvm_conv2d__*.csv; do
        t=$(basename "$table" .csv)
        [ -s "$folds/$t.blob" ] || continue
        from=
        for s in "$tables"/autotvm_conv2d__*.csv; do
            # the layer itself is no source, but for the step to AVX2
            b=$(basename "$s" .csv)
            [ "$b" = "$t" ] && continue
            [ "${b%_avx*}" = "${t%_avx*}" ] && [ "${t##*_}" = avx512 ] &&
                continue
            from="$from --source $s"
        done
        what="AutoTVM spaces"
        # shellcheck disable=SC2086
        "$metatune" replay --table "$table" $from --model "$folds/$t.blob" \
            --budget "$budget" --seeds "$seeds" --csv --strategy metatune \
            --strategy random --strategy ga --strategy portfolio $xgb |
            sed "s/^/$what,/" >> "$out"
        "$metatune" replay --table "$table" --budget "$budget" --csv \
            --seeds "$seeds" --strategy metatune --quiet |
            sed "s/^metatune/$what,from nothing/;/^$what/!d" >> "$out"
        [ -z "${SHORT:-}" ] || break
    done
else
    echo "skipped: AutoTVM's spaces, $tables is not there" >&2
fi
"$bench" "$dir/result.md" "$dir" < "$out"
cat "$dir/result.md"
