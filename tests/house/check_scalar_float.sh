#!/bin/bash
# SPDX-License-Identifier: MIT
# No scalar floating-point arithmetic in lib/ and simd/: each of their files is compiled without optimization, which
# keeps vector operations apart from scalar ones, and its instructions are checked. Compilers have miscompiled scalar
# arithmetic (HACKING.md).
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/../..}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

avx2='-mavx2 -mfma -mf16c -mbmi2 -mpopcnt'
avx512="$avx2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vbmi -mavx512vbmi2 -mavx512vnni"

# Compiles a file for x86-64 with these flags and prints the scalar floating-point instructions of its functions. Those that are
# always inlined (simd/body/vector.h) are functions here: their instructions are the same, once and not in each place.
scalars() {
	# shellcheck disable=SC2086 # CC and the flags contain options
	${CC:-cc} -std=c11 -O0 $2 -Dalways_inline=unused -DHAVE_CONFIG_H -I. -I "$srcdir/include" -I "$srcdir/lib" -I "$srcdir/ref" \
		-I "$srcdir/simd" -c -o "$dir/object.o" "$1" && objdump -d --no-show-raw-insn "$dir/object.o" | awk '
		/^[0-9a-f]+ </ { name = $2 }
		$2 ~ /^v?(add|sub|mul|div|sqrt|min|max|u?comi|fn?m(add|sub)[0-9]*|cmp[a-z]*)s[sd]$/ { print "  " name, $2 }'
}

echo 'int f(int a); int f(int a) { return a + 1; }' >"$dir/integer.c"
echo 'void f(float *a); void f(float *a) { *a += 1; }' >"$dir/float.c"
if ! found=$(scalars "$dir/integer.c" "$avx512" 2>&1) || [ -n "$found" ] ||
	! found=$(scalars "$dir/float.c" "$avx512" 2>&1) || [ -z "$found" ]; then
	echo "skipped: this compiler does not make x86-64 code with AVX-512, or there is no objdump"
	exit 77
fi

status=0

# With these flags no function of these files computes with scalars.
check() {
	local flags=$1 file found
	shift
	for file; do
		found=$(scalars "$file" "$flags")
		[ -z "$found" ] || {
			printf '%s: computes with scalars:\n%s\n' "$file" "$found"
			status=1
		}
	done
}

for file in "$srcdir"/lib/*.c "$srcdir"/lib/*/*.c; do
	[[ $file == */cpu_arm.c || $file == */cpu_none.c ]] || check '' "$file"
done
# The files of simd/body that avx512 takes are those of SIMD_BODY.
mapfile -t shared < <(sed -n '/^SIMD_BODY =/,/[^\\]$/p' "$srcdir/simd/Makefile.inc" | grep -o 'body/[a-z0-9_]*\.c' |
	sed "s,^,$srcdir/simd/,")
[ ${#shared[@]} -gt 1 ]
check "$avx2 -I $srcdir/simd/avx2" "$srcdir"/simd/body/*.c "$srcdir"/simd/avx2/*.c
check "$avx512 -I $srcdir/simd/avx512" "${shared[@]}" "$srcdir"/simd/avx512/*.c
exit $status
