#!/bin/bash
# SPDX-License-Identifier: MIT
# Compares the interface of two versions as programs that were compiled meet it: --help has the rest.
set -euo pipefail

case ${1-} in
-h | --help)
	cat <<'END'
usage: scripts/check-abi.sh [OLD [NEW]]

Says what a program compiled with OLD would meet in NEW: functions that are gone or take something else, structs of another
layout, enumerators of another value. OLD and NEW are commits, or folders that have include/, lib/libmxfp.map and configure.ac. OLD
is by default the last tag, NEW this tree.

The interface is the headers and the linker's map, so abidiff (Debian: abigail-tools) compares two libraries of these functions
without bodies; that the real one exports the same is tests/house/check_symbols.sh. New functions and new enumerators are none
of its business. Members may come to the end, past the old sizeof, of structs that begin with `size` and of those that only the
library makes. A SONAME of another number is another interface, which programs are compiled for anew.

The compiler is $CC [cc]. Exit status: 0; 1 if the interface changed; 2 if it cannot be found out.
END
	exit
	;;
esac

fail() {
	printf 'check-abi.sh: %s\n' "$*" >&2
	exit 2
}

[ $# -le 2 ] || fail 'more than two versions'
command -v abidiff >/dev/null || fail 'no abidiff; install abigail-tools'
top=$(cd "$(dirname "$0")/.." && pwd)
old=${1-} new=${2-$top}
if [ -z "$old" ]; then
	old=$(git -C "$top" describe --tags --abbrev=0 2>/dev/null) || {
		echo 'skipped: no tag and no OLD, so there is no interface to keep'
		exit
	}
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# take VERSION DIR: its headers and its map.
take() {
	mkdir "$2"
	if [ -d "$1" ]; then
		tar -c -C "$1" include lib/libmxfp.map configure.ac | tar -x -C "$2"
	else
		git -C "$top" archive "$1" include lib/libmxfp.map configure.ac | tar -x -C "$2"
	fi || fail "$1: no commit, and no folder with include/, lib/libmxfp.map and configure.ac"
}

# soname DIR: by libtool's CURRENT:REVISION:AGE.
soname() {
	local current age
	IFS=: read -r current _ age < <(sed -n 's/.*MXFP_LIBTOOL_VERSION\], \[\([0-9:]*\)\].*/\1/p' "$1/configure.ac")
	echo "libmxfp.so.$((current - age))"
}

# link DIR: DIR/libmxfp.so, the functions of its headers without bodies.
link() {
	{
		(cd "$1/include" && for header in mxfp.h mxfp/*.h; do echo "#include \"$header\""; done)
		cat "$1"/include/mxfp/*.h | awk '
			/^MXFP_API / { within = 1 }
			within { within = !sub(/;$/, " { __builtin_trap(); }"); print }'
	} >"$1/interface.c"
	# shellcheck disable=SC2086 # CC may contain options
	${CC:-cc} -std=gnu11 -w -g -fPIC -shared -fvisibility=hidden -I "$1/include" "$1/interface.c" -o "$1/libmxfp.so" \
		-Wl,--version-script="$1/lib/libmxfp.map" -Wl,-soname,"$(soname "$1")"
}

# growing DIR: the structs that may grow, each with its bits.
growing() {
	{
		cat "$1/interface.c"
		echo '#include <stdio.h>'
		echo 'int main(void) {'
		awk '
			/^struct mxfp_[a-z_]+ \{$/ { name = $2 }
			/^\tsize_t size;/ || /^struct mxfp_(format_info|gemm_tile) \{$/ { # the library makes these
				printf "printf(\"%s %%zu\\n\", 8 * sizeof(struct %s));\n", name, name
			}' "$1"/include/mxfp/*.h
		echo '}'
	} >"$1/sizes.c"
	# shellcheck disable=SC2086 # CC may contain options
	${CC:-cc} -std=gnu11 -w -I "$1/include" "$1/sizes.c" -o "$1/sizes"
	"$1/sizes"
}

take "$old" "$dir/old"
take "$new" "$dir/new"
if [ "$(soname "$dir/old")" != "$(soname "$dir/new")" ]; then
	echo "$(soname "$dir/old") became $(soname "$dir/new"): another interface, not compared"
	exit
fi
link "$dir/old" || fail "$old: its headers do not compile"
link "$dir/new" || fail "$new: its headers do not compile"
growing "$dir/old" >"$dir/growing" || fail "$old: its structs have no size"
while read -r struct bits; do
	printf '[suppress_type]\nname = %s\nhas_data_member_inserted_between = {%s, end}\nhas_size_change = yes\n' "$struct" "$bits"
done <"$dir/growing" >"$dir/suppressions"

status=0
abidiff --no-default-suppression --suppressions "$dir/suppressions" --no-added-syms "$dir/old/libmxfp.so" \
	"$dir/new/libmxfp.so" || status=$?
# Of abidiff's bits, 1 and 2 are errors of its own, 4 and 8 changes.
[ $((status & 3)) = 0 ] || fail 'abidiff failed'
[ $status = 0 ] || {
	echo "the interface of ${old#"$top/"} is not that of ${new#"$top/"}: see above"
	exit 1
}
echo "the interface of $old is kept"
