#!/bin/bash
# SPDX-License-Identifier: MIT
# Callers and libraries of different versions: a copy of the library in which every extensible struct has one more member,
# with a program compiled against the present headers, and the present library with a program compiled against the grown
# headers.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/../..}
archive=.libs/libmxfp-all.a
engine=.libs/libengine.a
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cp -r "$srcdir/include" "$srcdir/lib" "$dir"
chmod -R u+w "$dir"
structs=$(awk '/^struct [a-z_]+ \{$/ { name = $2 } /^\tsize_t size;  / { print name }' "$srcdir"/include/mxfp/*.h)
for struct in $structs; do
	sed -i "/^struct $struct {\$/,/^};/ s/^};/\tsize_t added;\n};/" "$dir"/include/mxfp/*.h
done
sed -i -E 's/^\treturn (matrix|blocks|result);/\t\1.added = 0;\n&/' "$dir"/include/mxfp/matrix.h
# The first version of each struct is the one without.
sed -i 's/_SINCE(from, copy, sizeof \*(copy))$/_SINCE(from, copy, offsetof(__typeof__(*(copy)), added))/' "$dir/lib/sized.h"
grep -q 'added))$' "$dir/lib/sized.h"
[ "$(cat "$dir"/include/mxfp/*.h | grep -c 'size_t added')" = "$(wc -w <<<"$structs")" ]
client=$srcdir/tests/house/grown_client.c
for struct in $structs; do
	grep -qw "struct $struct" "$client" || {
		echo "$client has no struct $struct"
		exit 1
	}
done

# Compiles $2 and the following arguments to $1, with the include folders in the array `include`.
compile() {
	# shellcheck disable=SC2086 # CC may hold options
	${CC:-cc} -std=c11 -I. "${include[@]}" "${@:2}" -o "$1"
}

include=("-I$dir/include" "-I$dir/lib" "-I$srcdir/ref" "-I$srcdir/simd")
objects=()
while read -r file; do
	object=$dir/${#objects[@]}.o
	compile "$object" -w -O1 -c "$file"
	objects+=("$object")
done < <(find "$dir/lib" -name '*.c' ! -name 'cpu_*.c')
# shellcheck disable=SC2086 # no word or one
compile "$dir/newer" -DNEWER "$client" $engine $archive ${PTHREAD_FLAGS-} -lm
include=("-I$srcdir/include" "-I$srcdir/lib")
# shellcheck disable=SC2086 # no word or one
compile "$dir/older" "$client" "${objects[@]}" $archive ${PTHREAD_FLAGS-} -lm
for client in older newer; do
	"$dir/$client" || {
		echo "the $client program failed"
		exit 1
	}
done
# shellcheck disable=SC2086 # words
echo "structs that can grow:" $structs
