#!/bin/bash
# SPDX-License-Identifier: MIT
# The reference uses integers only: each of its files compiles for the general registers alone. There gcc refuses
# floating-point arithmetic, and clang calls functions such as __addsf3, which is refused here.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/../..}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Compiles a file without floating-point registers; fails if it cannot or if the object calls arithmetic on floats.
compile() {
	# shellcheck disable=SC2086 # CC may hold options
	${CC:-cc} -std=c11 -O2 -mgeneral-regs-only -I "$srcdir/include" -I "$srcdir/lib" -I "$srcdir/ref" \
		-c -o "$dir/object.o" "$1" && ! ${NM:-nm} -u "$dir/object.o" | grep -E '__[a-z]+([sdtxh]f|bf)[0-9a-z]*$'
}

echo 'int f(int a, int b); int f(int a, int b) { return a + b; }' >"$dir/integer.c"
echo 'void f(float *a); void f(float *a) { *a += 1; }' >"$dir/float.c"
if ! compile "$dir/integer.c" >"$dir/log" 2>&1 || compile "$dir/float.c" >"$dir/log" 2>&1; then
	echo "skipped: this compiler has no way to tell"
	exit 77
fi

status=0
for file in "$srcdir"/ref/*.c; do
	compile "$file" || {
		echo "$file: uses floating point"
		status=1
	}
done
exit $status
