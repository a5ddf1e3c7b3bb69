#!/bin/bash
# SPDX-License-Identifier: MIT
# The driver of scripts/compare-speed.sh on commits that are made up, whose rows take a known time, and on this build beside
# itself. Ratios far from 1 only, since the machine may be busy.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/../..}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
include=("-I$srcdir/bench/compare" "-I$srcdir/bench" "-I$srcdir/include" "-I$srcdir/lib" -I.)

# compile OUT ARGUMENT...
compile() {
	# shellcheck disable=SC2086 # CC may hold options
	${CC:-cc} -O1 "${include[@]}" "${@:2}" -o "$1"
}

sources=("$srcdir"/bench/compare/{compare,objects,turns,command,report}.c "$srcdir"/bench/{numbers,samples}.c)
compile "$dir/compare" -std=c11 "${sources[@]}" -ldl -lm

# make_up NAME FLAG...: a made-up commit.
make_up() {
	mkdir -p "$dir/$1"
	compile "$dir/$1/side.so" -std=c11 -shared -fPIC "${@:2}" "$srcdir/tests/house/speed_side.c"
}

# expect STATUS OLD NEW ARGUMENT...: runs the driver; its output is in $dir/output.
expect() {
	local status=0
	what="$2 and $3"
	"$dir/compare" --seconds 600 --pairs 9 --below 0.75 --work "$dir" --names "$2,$3" "${@:4}" "$dir/$2" "$dir/$3" \
		>"$dir/output" 2>&1 || status=$?
	[ $status = "$1" ] || complain "exit status $status, not $1"
}

complain() {
	failures=$((failures + 1))
	echo "FAIL: $what: $1"
	sed 's/^/  /' "$dir/output"
}

says() {
	grep -qE -e "$1" "$dir/output" || complain "does not say '$1'"
}

says_nothing_of() {
	! grep -qE -e "$1" "$dir/output" || complain "says '$1'"
}

rows=(--only product --only kind)
make_up plain
make_up slow -DSLOW
make_up less -DLESS
make_up other -DOTHER
make_up dies -DDIES
make_up newer -DVERSION=99

expect 0 plain plain "${rows[@]}"
says '^tier avx2: all rows$'
says '^tier avx512: not timed: this machine lacks a feature$'
says '^5 rows in [0-9]* s: 0 below 0.75; not in plain 0, not in plain 0, not reached 0$'

expect 1 plain slow "${rows[@]}"
says '^  0\.[3-7][0-9]*  avx2    product changed: [0-9.]* [mun]s, now [0-9.]* [mun]s$'
says '^5 rows in [0-9]* s: 1 below 0.75;'
says_nothing_of '^  0.*product steady'
expect 0 slow plain "${rows[@]}"

expect 0 plain less "${rows[@]}"
says '^not timed: less has no such row'
says '^  product gone$'
says 'not in plain 0, not in less 1,'
expect 0 less plain "${rows[@]}"
says 'not in less 1, not in plain 0,'

expect 0 plain other "${rows[@]}"
says '^not the same work'
says '^  other kind$'

expect 1 plain dies "${rows[@]}"
says '^the process ended in row product dies at tier avx2$'
says '^4 rows in '

# What takes longer than there is time for is listed.
expect 0 plain plain "${rows[@]}" --seconds 0.000001
says '^not timed: there was no time left'
says '^0 rows in .*not reached 5$'

# Without the program mxfp there is nothing that its rows could run.
expect 0 plain plain --only command
says 'not in plain 3, not in plain 3,'

expect 2 plain newer
says 'has version 99 of bench/compare/side.h, not 1$'
expect 2 plain absent
expect 2 plain plain --only 'no such row'
expect 2 plain plain --seconds fast
expect 2 plain plain --cpu 100000
expect 2 plain plain --no-such-option
what='the script'
for arguments in --no-such-option --seconds 'HEAD HEAD HEAD'; do
	status=0
	# shellcheck disable=SC2086 # words
	"$srcdir/scripts/compare-speed.sh" $arguments >"$dir/output" 2>&1 || status=$?
	[ $status = 2 ] || complain "exit status $status of $arguments"
done

# This build beside itself: its rows compile and run.
mkdir "$dir/build"
groups=
for group in products blocks vectors attention; do
	compile "$dir/$group.o" -std=gnu11 -Wall -Wextra -Werror -fPIC -c "$srcdir/bench/compare/rows_$group.c"
	groups+=" GROUP($group)"
done
library=.libs/libmxfp.so
[ -e $library ] || library=.libs/libmxfp.a
compile "$dir/build/side.so" -std=gnu11 -Wall -Wextra -Werror -shared -fPIC "-DSPEED_GROUPS=$groups" \
	"$srcdir/bench/compare/side.c" "$dir"/*.o "$PWD/$library" -lm
LD_LIBRARY_PATH=$PWD/.libs expect 0 build build --below 0.1 --only attention --only softmax --only 'norm rms' \
	--only 'mxfp4 rceil rne, L2' --only 'w4a8, 1 row'
says '^[1-9][0-9]* rows in [0-9]* s: 0 below 0.10; not in build 0, not in build 0, not reached 0$'
says '^1 row [0-9.]* / [0-9.]* \(W4A8 at '
says_nothing_of 'not the same work'

[ $failures = 0 ] || echo "$failures failures"
[ $failures = 0 ]
