#!/bin/sh
# Run each test given (a program or a .sh file) and add up the "N passed,
# N failed, N skipped" of their last lines. A test that ends without such a
# line, or says 0 failed and exits non-zero, is itself one failure.
passed=0 failed=0 skipped=0
tmp=$(mktemp "${TMPDIR:-/tmp}/metatune-test.XXXXXX") || exit 2
trap 'rm -f "$tmp"' EXIT
trap 'exit 130' INT TERM

for t in "$@"; do
    echo "== $t"
    case $t in
    *.sh) sh "$t" </dev/null >"$tmp" 2>&1 ;;
    *) "$t" </dev/null >"$tmp" 2>&1 ;;
    esac
    rc=$?
    cat "$tmp"
    line=$(tail -n 1 "$tmp" | sed -n 's/^[^ ]*: \([0-9][0-9]* passed, .*\)$/\1/p')
    if [ -z "$line" ]; then
        echo "$t: no summary (exit status $rc)"
        failed=$((failed + 1))
        continue
    fi
    p=${line%% passed*}
    f=${line#* passed, } f=${f%% failed*}
    s=0
    case $line in
    *" skipped") s=${line##*failed, } s=${s%% skipped*} ;;
    esac
    if [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then
        echo "$t: exit status $rc without a failed test"
        f=1
    fi
    passed=$((passed + p)) failed=$((failed + f))
    skipped=$((skipped + s))
done

if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ]
