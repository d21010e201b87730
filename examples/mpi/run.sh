#!/bin/sh
# run.sh BUILD_DIR - the MPI example: meta-training on 1, 2 and 4 ranks, which
# must give the same weights, then the farm with one worker and with four.
# Ends with the table; exit status 1 when a claim does not hold.
build=${1:?usage: run.sh BUILD_DIR}
# root is refused otherwise, which is who runs in a container
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
failed=0

echo "meta-training, data-parallel"
for n in 1 2 4; do
    mpirun --oversubscribe -n $n "$build/train" >"$tmp/train" 2>&1 || {
        cat "$tmp/train"
        exit 1
    }
    grep '^ranks' "$tmp/train"
    sed -n 's/.*weights //p' "$tmp/train" >>"$tmp/weights"
done
grep '^a device' "$tmp/train"
if [ "$(sort -u "$tmp/weights" | wc -l)" -eq 1 ]; then
    echo "the weights are the same bit for bit"
else
    echo "FAILED: the weights differ"
    failed=1
fi

echo
echo "the farm, a simulated device of 100 ms"
for n in 1 4; do
    mpirun --oversubscribe --enable-recovery -n $((n + 1)) "$build/farm" \
        --deadline 0.25 >"$tmp/farm$n" 2>"$tmp/err" || {
        cat "$tmp/farm$n" "$tmp/err"
        exit 1
    }
    sed -n '/^workers/p;/^seconds/p' "$tmp/farm$n"
done
rate() { sed -n 's/.*minute \([0-9.]*\),.*/\1/p' "$1"; }
tried() { sed -n 's/.*tried //p' "$1"; }
if [ "$(tried "$tmp/farm1")" != "$(tried "$tmp/farm4")" ]; then
    echo "FAILED: other settings were tried"
    failed=1
fi
awk -v one="$(rate "$tmp/farm1")" -v four="$(rate "$tmp/farm4")" 'BEGIN {
    printf "four workers measure %.2f times as many settings a minute\n\n",
           four / one
    exit four < 2.5 * one }' || {
    echo "FAILED: less than 2.5 times"
    failed=1
}
sed -n '/^task/,$p' "$tmp/farm4"
exit $failed
