#!/bin/sh
# The OpenCL example: a wrong kernel, source that is no C, groups and local
# memory beyond the device's limits, random valid settings; then a short tuning
# and what it leaves.
cd "$(dirname "$0")/.." || exit 2
skip() {
    echo "skipped: $1"
    echo "test_targets_opencl: 0 passed, 0 failed, 1 skipped"
    exit 0
}
echo '#include <CL/cl.h>' | ${CC:-cc} -E - >/dev/null 2>&1 ||
    skip "the OpenCL example needs ocl-icd-opencl-dev"
[ -n "$(ls /etc/OpenCL/vendors 2>/dev/null)" ] ||
    skip "the OpenCL example needs a driver, e.g. pocl-opencl-icd"
passed=0 failed=0
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/cache"
export POCL_CACHE_DIR="$tmp/cache"
check() { # what, then a command
    what=$1
    shift
    if "$@" >"$tmp/out" 2>&1; then
        passed=$((passed + 1))
    else
        cat "$tmp/out"
        echo "FAIL $what"
        failed=$((failed + 1))
    fi
}
check "builds" make -s build/opencl/conv
check "limits, verification, random settings" \
    timeout 300 build/opencl/conv --check
check "tunes, and beats the default" timeout 300 make -s example-opencl \
    OPENCL_FLAGS="--trials 6 --time 60"
cp "$tmp/out" "$tmp/table"
check "says what the prior gained" grep -q 'prior against nothing' "$tmp/table"
check "ends with the table" sh -c 'tail -n 3 "$1" | grep -q "^layer.*gain"' \
    sh "$tmp/table"
check "no source, no run" \
    sh -c '! build/opencl/conv --source /nowhere/conv.cl'
echo "test_targets_opencl: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
