#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs each fuzz target for SECONDS: fuzz.sh SECONDS [TARGET...]. Builds in build-fuzz/ with clang's libFuzzer,
# AddressSanitizer and UndefinedBehaviorSanitizer. Inputs that reach new code are kept in build-fuzz/corpus/, findings in
# build-fuzz/findings/; the first finding ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 1 ]; then
	echo 'usage: scripts/fuzz.sh SECONDS [TARGET...]' >&2
	exit 2
fi
seconds=$1
shift
command -v clang >/dev/null || {
	echo 'fuzz.sh: clang not found; install clang with compiler-rt, which contains libFuzzer' >&2
	exit 1
}

if [ ! -e configure ] || [ configure.ac -nt configure ]; then
	autoreconf -i
fi
mkdir -p build-fuzz
cd build-fuzz
if [ ! -e Makefile ]; then
	../configure -q CC=clang CFLAGS='-g -O1' --enable-fuzzing --enable-sanitize=address,undefined --disable-shared
fi
make -s -j"$(nproc)" fuzzers

if [ $# = 0 ]; then
	for source in ../fuzz/fuzz_*.c; do
		set -- "$@" "$(basename "$source" .c)"
	done
fi
# As in check-sanitize (Makefile.am): ASan's fake stack frames are not aligned for 64-byte vectors.
export ASAN_OPTIONS=detect_stack_use_after_return=0
for target; do
	name=${target#fuzz_}
	mkdir -p "corpus/$name" findings
	echo "fuzz_$name: $seconds s"
	"fuzz/fuzz_$name" -max_total_time="$seconds" -artifact_prefix="findings/$name-" -print_final_stats=1 \
		"corpus/$name" "../fuzz/corpus/$name" 2>"$name.log" || { tail -40 "$name.log"; exit 1; }
	grep -E 'stat::number_of_executed_units|^Done' "$name.log"
done
