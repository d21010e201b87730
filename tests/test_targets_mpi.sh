#!/bin/sh
# The MPI example: its own claims; a worker killed in the middle, a worker that
# is only stopped, a manager killed. The ledger has a line a finished
# measurement, written by the workers: the farm's own count is not believed.
cd "$(dirname "$0")/.." || exit 2
command -v mpicc >/dev/null && command -v mpirun >/dev/null || {
    echo "skipped: the MPI example needs libopenmpi-dev and openmpi-bin"
    echo "test_targets_mpi: 0 passed, 0 failed, 1 skipped"
    exit 0
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
passed=0 failed=0
tmp=$(mktemp -d) || exit 2
job=
trap '[ -z "$job" ] || kill "$job" 2>/dev/null; rm -rf "$tmp"' EXIT

check() { # what, then a command
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        echo "FAIL $what"
        failed=$((failed + 1))
    fi
}
value() { sed -n "s/.*$2 \([0-9a-f][0-9a-f.]*\).*/\1/p" "$tmp/$1.out"; }
lines() { wc -l <"$1"; }
unique() { sort -u "$1" | wc -l; }

start() { # name, workers, options: in the background
    name=$1
    timeout 90 mpirun --oversubscribe --enable-recovery -n $(($2 + 1)) \
        build/mpi/farm --deadline 0.25 --silence 1 --orphan 5 \
        --log "$tmp/$name.log" --ledger "$tmp/$name.ledger" \
        --pids "$tmp/$name.pid" >"$tmp/$name.out" 2>"$tmp/$name.err" &
    job=$!
}
middle() { # wait until so many measurements are done
    tries=0
    until [ -s "$tmp/$name.ledger" ] &&
        [ "$(lines "$tmp/$name.ledger")" -ge "$1" ]
    do
        sleep 0.05
        tries=$((tries + 1))
        [ $tries -lt 600 ] || return 1
    done
}
finish() { wait "$job"; rc=$?; job=; return $rc; }

check "make example-mpi" make -s example-mpi

# the undisturbed run that the others are compared to
start plain 4
check "plain run ends well" finish
tried=$(value plain tried)
check "all measured once" [ "$(lines "$tmp/plain.ledger")" -eq 79 ]
check "a crash and a hang were survived" \
    grep -q 'crashed [1-9][0-9]*, hung [1-9]' "$tmp/plain.out"

start killed 4
check "killed: begins" middle 20
kill -9 "$(cat "$tmp/killed.pid.2")"
check "killed: the job lives on" finish
check "killed: nothing lost" [ "$(value killed tried)" = "$tried" ]
check "killed: nothing measured twice" \
    [ "$(lines "$tmp/killed.ledger")" -eq "$(unique "$tmp/killed.ledger")" ]
check "killed: the same number" [ "$(lines "$tmp/killed.ledger")" -eq 79 ]

# stopped, not dead: its work goes to another; what it says later is ignored
start stopped 2
check "stopped: begins" middle 10
kill -STOP "$(cat "$tmp/stopped.pid.1")"
sleep 2
kill -CONT "$(cat "$tmp/stopped.pid.1")"
check "stopped: ends well" finish
check "stopped: nothing lost" [ "$(value stopped tried)" = "$tried" ]
check "stopped: it was welcomed back" grep -q 'late 1' "$tmp/stopped.out"

# the manager dies: the workers end the job; the log goes on where it was.
# Only what was in the workers' hands, four at most, may come again
start manager 4
check "manager: begins" middle 30
kill -9 "$(cat "$tmp/manager.pid.0")"
finish
logged=$(lines "$tmp/manager.log")
check "manager: the workers did not stay" \
    sh -c '! kill -0 "$(cat "$1")" 2>/dev/null' sh "$tmp/manager.pid.3"
check "manager: something was logged" [ "$logged" -ge 26 ]
start manager 4
check "manager: resumed" finish
check "manager: the log was believed" \
    [ "$(value manager 'from the log')" -eq "$logged" ]
check "manager: nothing lost" [ "$(value manager tried)" = "$tried" ]
check "manager: four at most came again" \
    [ "$(lines "$tmp/manager.ledger")" -le 83 ]

check "train refuses more ranks than episodes" \
    sh -c '! mpirun --oversubscribe -n 9 build/mpi/train >/dev/null 2>&1'

echo "test_targets_mpi: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
