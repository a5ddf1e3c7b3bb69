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

# compile FLAGS ARGUMENT...: for x86-64. The intrinsics, which take as long as what is compiled, are read once for all files with the
# same flags, of $dir/FLAGS/intrinsics.h, if it is there.
compile() {
	local flags=$1 header
	header=$dir/${flags//[^a-z0-9]/}/intrinsics.h
	shift
	[ ! -e "$header.gch" ] || set -- -include "$header" "$@"
	# shellcheck disable=SC2086 # CC and the flags contain options
	${CC:-cc} -std=c11 -O0 $flags -Dalways_inline=unused -DHAVE_CONFIG_H -I. -I "$srcdir/include" -I "$srcdir/lib" -I "$srcdir/ref" \
		-I "$srcdir/simd" "$@"
}

# precompile FLAGS
precompile() {
	local folder=$dir/${1//[^a-z0-9]/}
	mkdir "$folder"
	printf '#include "config.h"\n#include <immintrin.h>\n' >"$folder/intrinsics.h"
	compile "$1" -x c-header -o "$folder/made" "$folder/intrinsics.h"
	mv "$folder/made" "$folder/intrinsics.h.gch"
}

# Compiles a file with these flags and prints the scalar floating-point instructions of its functions. Those that are
# always inlined (simd/body/vector.h) are functions here: their instructions are the same, once and not in each place.
scalars() {
	compile "$2" -c -o "$dir/object.o" "$1" && objdump -d --no-show-raw-insn "$dir/object.o" | awk '
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
avx2="$avx2 -I $srcdir/simd/avx2" avx512="$avx512 -I $srcdir/simd/avx512"
precompile "$avx2"
precompile "$avx512"
check "$avx2" "$srcdir"/simd/body/*.c "$srcdir"/simd/avx2/*.c
check "$avx512" "${shared[@]}" "$srcdir"/simd/avx512/*.c
exit $status
