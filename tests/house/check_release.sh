#!/bin/bash
# SPDX-License-Identifier: MIT
# What a release states more than once is one: the version in configure.ac, the headers, README.md, NEWS and debian/changelog, and whether
# it is released; the number of each interface in configure.ac and in the name of its Debian package; what a library's map exports and the
# symbols of the package, which stay a record of the interface when both the map and the headers lose a function. In a checkout, debian/
# and Makefile.am name the same files.
set -euo pipefail
cd "${srcdir:-$(dirname "$0")/../..}"
status=0

# same WHAT A WHAT B
same() {
	[ "$2" = "$4" ] || {
		echo "$1 has '$2', $3 '$4'"
		status=1
	}
}

version=$(sed -nE 's/^AC_INIT\(\[libmxfp\], \[([^]]*)\].*/\1/p' configure.ac)
[ -n "$version" ] || {
	echo 'configure.ac: no version'
	exit 1
}
same configure.ac "$version" include/mxfp/version.h \
	"$(sed -nE 's/^#define MXFP_VERSION_(MAJOR|MINOR|PATCH) //p' include/mxfp/version.h | paste -sd .)"
same configure.ac "$version" README.md "$(sed -nE 's/.*This is version ([0-9.]*[0-9]).*/\1/p' README.md)"
read -r _ news state <NEWS
same configure.ac "$version" NEWS "$news"
same configure.ac "$version" debian/changelog "$(sed -nE '1s/^libmxfp \((.*)-[^-]*\) .*/\1/p' debian/changelog)"
same NEWS "${state:+not released}" debian/changelog "$(sed -n '1s/.* UNRELEASED;.*/not released/p' debian/changelog)"

# A library: its map, its row in configure.ac, its package.
library() {
	local name=$1 map=$2 row=$3 current age package symbols
	IFS=: read -r current _ age < <(sed -nE "s/^AC_SUBST\(\[$row\], \[([0-9:]*)\]\).*/\1/p" configure.ac)
	package=$name$((current - age))
	symbols=debian/$package.symbols
	[ -e "$symbols" ] || {
		echo "no $symbols, while configure.ac has $row $current:_:$age"
		status=1
		return
	}
	same "$symbols" "$(sed 's/ #MINVER#$//;q' "$symbols")" configure.ac "$name.so.$((current - age)) $package"
	diff <(awk '/ \{$/ { node = $1; print node "@" node } /^\t[a-z0-9_]*;$/ { sub(/;/, "@" node); print $1 }' "$map" | sort) \
		<(sed -n 's/^ \([^ ]*\) .*/\1/p' "$symbols" | sort) || {
		echo "< in $map, > in $symbols"
		status=1
	}
	awk -v symbols="$symbols" '/^ / { node = $1; sub(/.*_/, "", node); if (index($2, node ".") != 1) { print symbols ": " $0; wrong = 1 } }
		END { exit wrong }' "$symbols" || status=1
}
library libmxfp lib/libmxfp.map MXFP_LIBTOOL_VERSION
library libmxfp-engine lib/engine/libmxfp-engine.map MXFP_ENGINE_LIBTOOL_VERSION

if [ -e .git ]; then
	diff <(git -c 'safe.directory=*' ls-files debian | grep -v '\.gitignore$' | sort) \
		<(grep -oE '(^|[[:blank:]])debian/[^[:blank:]]+' Makefile.am | tr -d '[:blank:]' | sort) || {
		echo '< in debian/, > in Makefile.am'
		status=1
	}
fi
exit $status
