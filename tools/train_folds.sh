#!/bin/sh
# train_folds.sh - the priors of the held-out folds, for bench-learning
#
#   sh tools/train_folds.sh OUT FILE...
#
# For each network family a prior that has seen none of its layers, nor any of
# the same shape (OUT/FAMILY.blob: unseen layers, known platform); and for each
# family and vector width one that has seen neither (OUT/FAMILY_wN.blob: unseen
# platform). A blob that is there is kept: a run that was cut goes on.
# STEPS, SEEDS and FLAGS change the training.
set -eu
if [ $# -lt 2 ]; then
    sed -n '4,5s/^# *//p' "$0" >&2
    exit 2
fi
out=$1
shift
metatune=${METATUNE:-build/metatune}
families=${FAMILIES:-tools/data/layers/families.txt}
widths=${WIDTHS:-"any 16 8 4"}
mkdir -p "$out"
n=0
all=0
for w in $widths; do
    all=$((all + $(grep -c '^[a-z]' "$families")))
done
for w in $widths; do
    while read -r family nets; do
        case $family in '' | '#'*) continue ;; esac
        n=$((n + 1))
        blob=$out/$family.blob
        [ "$w" = any ] || blob=$out/${family}_w$w.blob
        if [ -s "$blob" ]; then
            echo "[$n/$all] $blob is there" >&2
            continue
        fi
        echo "[$n/$all] $blob" >&2
        flags=
        for net in $nets; do
            flags="$flags --holdout $net"
        done
        [ "$w" = any ] || flags="$flags --holdout-target lanes=$w"
        # shellcheck disable=SC2086
        "$metatune" train "$@" $flags --steps "${STEPS:-20000}" \
            --seeds "${SEEDS:-3}" --seed 0 --out "$blob.new" ${FLAGS:-} \
            > "$blob.txt" < /dev/null
        mv "$blob.new" "$blob"
    done < "$families"
done
