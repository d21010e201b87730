#!/bin/sh
# The network on a BLAS (METATUNE_USE_CBLAS): the derivative tests again, in
# both precisions, on OpenBLAS where it is installed.
cd "$(dirname "$0")/.." || exit 2
CC=${CC:-cc}
passed=0 failed=0 skipped=0
T=$(mktemp -d "${TMPDIR:-/tmp}/metatune-blas.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM
flags=$(pkg-config --cflags openblas 2>/dev/null)
libs=$(pkg-config --libs openblas 2>/dev/null)
libs=${libs:--lopenblas}
printf '#include <cblas.h>\nint main(void) { return 0; }\n' >"$T/have.c"
# shellcheck disable=SC2086
if ! "$CC" $flags "$T/have.c" -o "$T/have" $libs 2>/dev/null; then
    echo "  skip OpenBLAS is not installed"
    echo "test_blas_sh: 0 passed, 0 failed, 1 skipped"
    exit 0
fi
for real in float double; do
    for t in test_maml test_metatune; do
        # shellcheck disable=SC2086
        if "$CC" -std=c99 -O2 -I. $flags -DMETATUNE_USE_CBLAS \
            -DMETATUNE_REAL=$real tests/$t.c -o "$T/t" $libs -lm &&
            "$T/t" >"$T/out" 2>&1; then
            passed=$((passed + 1))
            echo "  ok   $t, $real, on a BLAS"
        else
            failed=$((failed + 1))
            echo "  FAIL $t, $real, on a BLAS"
            tail -n 12 "$T/out" 2>/dev/null
        fi
    done
done
nm "$T/t" 2>/dev/null | grep -q 'U cblas_dgemm' && passed=$((passed + 1)) &&
    echo "  ok   it calls the library" || failed=$((failed + 1))
echo "test_blas_sh: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
