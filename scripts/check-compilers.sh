#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs make check with each installed gcc and clang at -O1, -O2 and -O3, and with clang's sanitizers. Each run has a tree
# in build-compilers/ and prints a line with its counts, warnings and time; the last line is the total.
# Arguments select runs, for example: check-compilers.sh gcc-14 clang -O3. gcc and clang stand for all versions, and
# sanitize is a level. Takes about five minutes per run on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib

# LLVM 14's tracking of thread-local storage makes its LeakSanitizer crash at the exit of a program with threads.
export LSAN_OPTIONS=intercept_tls_get_addr=0

compilers=()
levels=()
for argument; do
	case $argument in
	gcc | gcc-[0-9]* | clang | clang-[0-9]*) compilers+=("$argument") ;;
	-O[0-3] | sanitize) levels+=("$argument") ;;
	*)
		echo 'usage: scripts/check-compilers.sh [gcc|clang|gcc-N|clang-N|-O1|-O2|-O3|sanitize...]' >&2
		exit 2
		;;
	esac
done
[ ! -e config.status ] || {
	echo 'check-compilers.sh: this tree is configured in place; run make distclean first' >&2
	exit 1
}

# Prints each compiler once per version, even if it has several commands, as "NAME COMMAND".
found() {
	local command kind version
	compgen -c | grep -xE '(gcc|clang)(-[0-9]+)?' | sort -uV | while read -r command; do
		kind=${command%%-*}
		version=$("$command" -dM -E -x c /dev/null | sed -n 's/^#define __VERSION__ "\(.*\)"/\1/p') || continue
		echo "$kind-$("$command" -dumpversion | cut -d. -f1) $command $kind $version"
	done | sort -u -k 3 | cut -d' ' -f 1,2
}

# wanted NAME: whether the arguments select this compiler.
wanted() {
	local name
	[ ${#compilers[@]} -gt 0 ] || return 0
	for name in "${compilers[@]}"; do
		[ "$1" != "$name" ] && [ "${1%%-*}" != "$name" ] || return 0
	done
	return 1
}

# build_and_test COMMAND LEVEL: builds and runs the tests in $tree; sanitizers with all checks and texts.
build_and_test() {
	local flags=$2 target=check
	[ "$2" != sanitize ] || flags=-O1 target=check-sanitize
	mkdir -p "$tree"
	[ -e "$tree/Makefile" ] || (cd "$tree" && ../../configure -q CC="$1" CFLAGS="$flags") || return 1
	make -s "-j$(nproc)" -C "$tree" VERBOSE=1 SANITIZE_CFLAGS='-g1 -O1' $target
}

logs=()
broken=0
# try NAME COMMAND LEVEL: does one run and prints its line.
try() {
	local tree=build-compilers/$1${3/#sanitize/-sanitize} began=$SECONDS text log
	text=$tree.log
	log=$tree/test-suite.log
	[ "$3" != sanitize ] || log=$tree/sanitize/build/test-suite.log
	rm -f "$log"
	if build_and_test "$2" "$3" >"$text" 2>&1; then
		:
	elif [ ! -e "$log" ] || [ "$(total 'FAIL|XPASS|ERROR' "$log")" = 0 ]; then
		broken=$((broken + 1))
		stage "$1 $3: failed without a failed test: $text"
		tail -n 5 "$text"
		return
	fi
	logs+=("$log")
	stage "$1 $3: $(counts 0 "$log"), $(grep -c 'warning: ' "$text") warnings, $((SECONDS - began)) s"
	grep -E '^(FAIL|XPASS|ERROR): ' "$text" || true
}

scripts/dependencies.sh check
prepare_configure
mkdir -p build-compilers
tried=0
while read -r name command <&3; do
	wanted "$name" || continue
	if [ ${#levels[@]} -gt 0 ]; then
		set -- "${levels[@]}"
	else
		set -- -O1 -O2 -O3
		[[ $name != clang-* ]] || set -- "$@" sanitize
	fi
	for level; do
		tried=$((tried + 1))
		try "$name" "$command" "$level"
	done
done 3< <(found)
if [ $tried = 0 ]; then
	echo 'check-compilers.sh: no such compiler is installed' >&2
	exit 1
fi
counts $broken "${logs[@]}"
[ $broken = 0 ] && [ "$(total 'FAIL|XPASS|ERROR' "${logs[@]}")" = 0 ]
