#!/bin/sh
# SPDX-License-Identifier: MIT
# conformance/vectors is what make_vectors makes, and what others answer: tests/oracle/test_conform_vectors.c, and vectors.py.
srcdir=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
folder=$srcdir/conformance/vectors
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0
bad() {
	echo "$*"
	failures=$((failures + 1))
}

checker=
if command -v python3 >/dev/null; then
	python3 -B "$srcdir/tests/house/vectors.py" "$srcdir" &
	checker=$!
fi
mkdir "$dir/made"
tools/conform/make_vectors "$dir/made" || exit 1
diff -rq -x README.md -x SHA256SUMS "$dir/made" "$folder" || bad 'conformance/vectors is not what it is made from; after "make vectors" it is'
(cd "$folder" && sha256sum --quiet -c SHA256SUMS) || bad "SHA256SUMS"
[ "$(wc -l <"$folder/SHA256SUMS")" = "$(find "$folder" -name '*.hex' -o -name '*.tsv' | wc -l)" ] || bad "SHA256SUMS has other files"
if command -v iverilog >/dev/null; then
	iverilog -g2012 -o "$dir/vectors.vvp" "$srcdir/conformance/vectors.sv" || bad "iverilog"
	[ "$(cd "$folder" && vvp -n "$dir/vectors.vvp")" = "0 of 16 differ" ] || bad "vectors.sv"
fi
[ -z "$checker" ] || wait "$checker" || bad "vectors.py"
[ $failures = 0 ]
