#!/bin/sh
# test_readme.sh - what the README shows is what the tree holds: its program is
# examples/quickstart.c, which compiles by the README's own command and tunes;
# the files, macros and make targets it names exist.
cd "$(dirname "$0")/.." || exit 2
CC=${CC:-cc}
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT INT TERM
passed=0 failed=0
check() { # name, then a command
    name=$1
    shift
    if "$@" >"$dir/out" 2>&1; then
        passed=$((passed + 1))
        echo "  ok   $name"
    else
        failed=$((failed + 1))
        echo "  FAIL $name"
        sed 's/^/    /' "$dir/out" | head -n 10
    fi
}

# the first block that holds a main()
awk '/^```c$/ {on = 1; text = ""; next}
     /^```$/ {if (on && text ~ /int main\(/) {printf "%s", text; exit} on = 0}
     on {text = text $0 "\n"}' README.md > "$dir/readme.c"
check "the program is examples/quickstart.c" \
    cmp "$dir/readme.c" examples/quickstart.c
check "it compiles by the README's command" \
    $CC -O2 -Wall -Wextra -Werror -I. "$dir/readme.c" -o "$dir/quickstart" -lm
check "it tunes and says what it found" \
    sh -c '"$1" | grep "BUDGET: ti="' sh "$dir/quickstart"
for word in $(grep -o '`METATUNE_[A-Z_]*`' README.md | tr -d '`' | sort -u)
do
    check "$word exists" grep -q "$word" metatune.h metatune_gnn.h \
        metatune_encode.h
done
for target in $(grep -o 'make [a-z][a-z-]*' README.md | cut -d' ' -f2 |
                sort -u)
do
    case $target in of|a) continue;; esac
    check "make $target exists" \
        grep -qE "^([a-z-]+ )*$target( [a-z-]+)*:" Makefile
done
for file in $(grep -o '`[a-z]*/[a-zA-Z0-9_/.]*\.[a-z]*`' README.md |
              tr -d '`' | sort -u)
do
    case $file in build/*) continue;; esac
    check "$file exists" test -e "$file"
done
echo "test_readme: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
