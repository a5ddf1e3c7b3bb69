#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs every fuzz target once on its corpus. A target without a program or a corpus is a failure.
srcdir=${srcdir:-$(dirname "$0")/..}
status=0
for source in "$srcdir"/fuzz/fuzz_*.c; do
	target=$(basename "$source" .c)
	printf '%s: ' "$target"
	"./fuzz/$target" -runs=0 "$srcdir/fuzz/corpus/${target#fuzz_}" || status=1
done
exit $status
