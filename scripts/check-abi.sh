#!/bin/bash
# SPDX-License-Identifier: MIT
# Compares the interface of two versions as programs that were compiled meet it: --help has the rest.
set -euo pipefail

case ${1-} in
-h | --help)
	cat <<'END'
usage: scripts/check-abi.sh [OLD [NEW]]

Says what a program compiled with OLD would meet in NEW: functions that are gone or take something else, structs of another
layout, enumerators of another value. OLD and NEW are commits, or folders that have include/, lib/ and configure.ac. OLD is by
default the last tag, NEW this tree.

The interface of a library is headers and a linker's map, so abidiff (Debian: abigail-tools) compares two libraries of these
functions without bodies; tests/house/check_symbols.sh sees that the real ones export the same. New functions and enumerators
are no change. Structs that begin with `size`, and those that only the library makes, may get members at the end, past the old
sizeof. A SONAME of another number is another interface, for which programs are compiled anew.

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

# take VERSION DIR: its headers, its maps, and the versions of its interfaces.
take() {
	local what=(include lib configure.ac)
	mkdir "$2"
	if [ -d "$1" ]; then
		tar -c -C "$1" "${what[@]}" | tar -x -C "$2"
	elif git -C "$top" rev-parse -q --verify "$1^{commit}" >/dev/null; then
		git -C "$top" archive "$1" "${what[@]}" | tar -x -C "$2"
	else
		fail "$1: no commit, and no folder"
	fi || fail "$1: not all of ${what[*]} is there"
}

# A library, the map of what it exports, and what configure.ac calls its version.
libraries='
libmxfp        lib/libmxfp.map               MXFP_LIBTOOL_VERSION
libmxfp-engine lib/engine/libmxfp-engine.map MXFP_ENGINE_LIBTOOL_VERSION'

# soname DIR NAME VERSION: by libtool's CURRENT:REVISION:AGE.
soname() {
	local current age
	IFS=: read -r current _ age < <(sed -n "s/.*\[$3\], \[\([0-9:]*\)\].*/\1/p" "$1/configure.ac")
	echo "$2.so.$((current - age))"
}

# members DIR: of each struct that may grow its name, a tab, and its members without comments.
members() {
	awk '
		/^struct mxfp_[a-z_]+ \{$/ {
			name = $2
			body = ""
			within = 1
			next
		}
		within && /^};/ {
			gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", body)
			gsub(/[[:space:]]+/, " ", body)
			if (body ~ /^ size_t size;/ || name ~ /^mxfp_(format_info|gemm_tile)$/) # the library makes these
				print name "\t" body
			within = 0
		}
		within { body = body $0 "\n" }' "$1"/include/mxfp/*.h
}

# c_of DIR CODE...: compiles lines of C behind all headers, and runs them.
c_of() {
	{
		(cd "$1/include" && printf '#include "%s"\n' mxfp.h mxfp/*.h)
		printf '%s\n' '#include <stddef.h>' '#include <stdio.h>' 'int main(void) {' "${@:2}" '}'
	} >"$1/run.c"
	# shellcheck disable=SC2086 # CC may contain options
	${CC:-cc} -std=gnu11 -w -I "$1/include" "$1/run.c" -o "$1/run"
	"$1/run"
}

# cut: takes the members from structs in "$dir/new" that have come to their ends, as far as an older caller has nothing there.
cut_new_members() {
	local name before now first size place
	members "$dir/old" >"$dir/old/members"
	members "$dir/new" >"$dir/new/members"
	while IFS=$'\t' read -r name before; do
		now=$(awk -F'\t' -v name="$name" '$1 == name { print $2 }' "$dir/new/members")
		[[ $now == "$before"?* && $now != "$before " ]] || continue
		# The first of the new ones: "type (*name)(...)", "type name[8]", "type name, other".
		first=$(sed -E 's/^[^;]*\(\*([a-z0-9_]+)\).*/\1/; t; s/^([^;,[]*[^a-z0-9_])?([a-z0-9_]+)[;,[].*/\2/' <<<"${now#"$before"}")
		size=$(c_of "$dir/old" "printf(\"%zu\", sizeof(struct $name));")
		place=$(c_of "$dir/new" "printf(\"%zu\", offsetof(struct $name, $first));")
		if [ "$place" -lt "$size" ]; then
			echo "struct $name: $first lies at byte $place, in the padding of older callers, whose struct has $size bytes"
			changed=1
		fi
		echo "struct $name has grown"
		printf '%s\t%s\n' "$name" "$before" >>"$dir/cut"
	done <"$dir/old/members"
}

# plain DIR: the headers without functions that are inline, and NEW's with structs as OLD had them.
plain() {
	local header
	mkdir -p "$1/plain/mxfp"
	cp "$1/include/mxfp.h" "$1/plain"
	for header in "$1"/include/mxfp/*.h; do
		awk -F'\t' -v cut="$dir/cut" -v is_new="$([ "$1" != "$dir/new" ] || echo 1)" '
			BEGIN {
				while (is_new && (getline <cut) > 0)
					body[$1] = $2
			}
			/^static inline / { skips = "^}" }
			/^struct mxfp_[a-z_]+ \{$/ {
				split($0, words, " ")
				if (words[2] in body) {
					print $0 body[words[2]] "};"
					skips = "^};"
				}
			}
			!skips
			skips && $0 ~ skips { skips = "" }' "$header" >"$1/plain/mxfp/${header##*/}"
	done
}

# link DIR NAME MAP VERSION: DIR/NAME.so, the functions of a library without bodies.
link() {
	{
		(cd "$1/plain" && printf '#include "%s"\n' mxfp.h mxfp/*.h)
		awk '
			FILENAME ~ /\.map$/ {
				if (sub(/^\t/, "") && sub(/;$/, ""))
					mapped[$0] = 1
				next
			}
			/^MXFP_API / {
				within = 1
				text = ""
			}
			within { text = text $0 "\n" }
			within && /;$/ {
				within = 0
				name = text
				sub(/\(.*/, "", name)
				sub(/^.*[ *]/, "", name)
				if (name in mapped && sub(/;\n$/, " { __builtin_trap(); }\n", text))
					printf "%s", text
			}' "$1/$3" "$1"/plain/mxfp/*.h
	} >"$1/interface.c"
	# shellcheck disable=SC2086 # CC may contain options
	${CC:-cc} -std=gnu11 -w -g -fPIC -shared -fvisibility=hidden -I "$1/plain" "$1/interface.c" -o "$1/$2.so" \
		-Wl,--version-script="$1/$3" -Wl,-soname,"$(soname "$1" "$2" "$4")"
}

# compare NAME MAP VERSION: one library.
compare() {
	local status=0 before now
	[ -e "$dir/old/$2" ] || {
		echo "$1: $old has none"
		return
	}
	before=$(soname "$dir/old" "$1" "$3")
	now=$(soname "$dir/new" "$1" "$3")
	[ "$before" = "$now" ] || {
		echo "$before became $now: another interface, not compared"
		return
	}
	link "$dir/old" "$@" || fail "$old: its headers do not compile"
	link "$dir/new" "$@" || fail "$new: its headers do not compile"
	abidiff --no-default-suppression --no-added-syms "$dir/old/$1.so" "$dir/new/$1.so" || status=$?
	# Of abidiff's bits, 1 and 2 are errors of its own, 4 and 8 changes.
	[ $((status & 3)) = 0 ] || fail 'abidiff failed'
	if [ $status = 0 ]; then
		echo "$now: the interface of $old is kept"
	else
		echo "$now: the interface of $old has changed as above"
		changed=1
	fi
}

take "$old" "$dir/old"
take "$new" "$dir/new"
changed=0
: >"$dir/cut"
cut_new_members
plain "$dir/old"
plain "$dir/new"
while read -r name map version; do
	[ -z "$name" ] || compare "$name" "$map" "$version"
done <<<"$libraries"
exit $changed
