#!/bin/sh
# train_folds.sh - the priors of the held-out folds, for bench-learning
#
#   sh tools/train_folds.sh OUT FILE...       FILEs of `metatune collect`
#
# For each network family a prior that has seen none of its layers, nor any of
# the same shape (OUT/FAMILY.blob: unseen layers, known platform); for each
# family and vector width one that has seen neither (OUT/FAMILY_wN.blob: unseen
# platform); the same again trained jointly, for fine-tuning (.._joint.blob).
# With ../shared/data there, one for each of AutoTVM's spaces, without its
# layer, and from AVX-512 to AVX2. A blob that is there is kept: a run that was
# cut goes on. STEPS, SEEDS, THREADS, FLAGS change the training.
set -eu
if [ $# -lt 2 ]; then
    sed -n '4s/^# *//p' "$0" >&2
    exit 2
fi
out=$1
shift
metatune=${METATUNE:-build/metatune}
families=${FAMILIES:-tools/data/layers/families.txt}
tables=${METATUNE_SHARED:-../shared}/data/tables
seeds=${SEEDS:-1}
mkdir -p "$out"

one() { # NAME ARGUMENTS...: a training
    blob=$out/$1.blob
    shift
    if [ -s "$blob" ]; then
        echo "$blob is there" >&2
        return
    fi
    echo "$blob" >&2
    # shellcheck disable=SC2086
    "$metatune" train "$@" --steps "$steps" --seeds "$seeds" --seed 0 \
        --out "$blob.new" --quiet ${THREADS:+--threads $THREADS} ${FLAGS:-} \
        < /dev/null
    mv "$blob.new" "$blob"
}
for width in any 16 8 4; do
    for method in head joint; do
        while read -r family nets; do
            case $family in '' | '#'*) continue ;; esac
            name=$family
            [ "$width" = any ] || name=${name}_w$width
            [ "$method" = head ] || name=${name}_$method
            flags="--method $method"
            # the unseen-layer priors got the longer training; the others are
            # still to get theirs
            steps=${STEPS:-4000}
            [ "$width$method" != anyhead ] || steps=${STEPS:-16000}
            for net in $nets; do
                flags="$flags --holdout $net"
            done
            [ "$width" = any ] ||
                flags="$flags --holdout-target lanes=$width"
            # shellcheck disable=SC2086
            one "$name" "$@" $flags
        done < "$families"
    done
done
[ -d "$tables" ] || exit 0
steps=${TABLE_STEPS:-2000}
for table in "$tables"/autotvm_conv2d__*.csv; do
    t=$(basename "$table" .csv)
    from=
    for s in "$tables"/autotvm_conv2d__*.csv; do
        b=$(basename "$s" .csv)
        [ "$b" = "$t" ] && continue
        # the layer itself teaches only the step to AVX2
        [ "${b%_avx*}" = "${t%_avx*}" ] && [ "${t##*_}" = avx512 ] &&
            continue
        from="$from $s"
    done
    # shellcheck disable=SC2086
    one "$t" $from
done
