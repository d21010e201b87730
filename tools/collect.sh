#!/bin/sh
# collect.sh - walk a plan of measurements; see tools/data/plan.txt
#
#   sh tools/collect.sh [PLAN]      COLLECT_FLAGS="--nice -10"
#
# A line that is complete is passed over quickly, so the same command goes on
# where the last one was stopped. Files and lists are named from the plan's
# folder.
set -u
trap 'exit 130' INT TERM
plan=${1:-tools/data/plan.txt}
metatune=${METATUNE:-build/metatune}
dir=$(dirname "$plan")
if [ ! -r "$plan" ]; then
    echo "collect.sh: cannot read $plan" >&2
    exit 2
fi
all=$(grep -c '^[^#]' "$plan")
n=0
failed=0
while read -r out layers settings seed flags; do
    case $out in '' | '#'*) continue ;; esac
    n=$((n + 1))
    echo "[$n/$all] $out: $settings settings of $layers $flags" >&2
    # shellcheck disable=SC2086
    "$metatune" collect --layers "$dir/$layers" --settings "$settings" \
        --seed "$seed" --out "$dir/$out" --resume $flags \
        ${COLLECT_FLAGS:-} < /dev/null
    rc=$?
    # interrupted: stop; a line that cannot be measured here is named above
    [ $rc -ge 128 ] && exit $rc
    [ $rc -eq 0 ] || failed=$((failed + 1))
done < "$plan"
[ $failed -eq 0 ] || { echo "collect.sh: $failed of $all failed" >&2; exit 1; }
