#!/bin/bash
# SPDX-License-Identifier: MIT
# Of libmxfp and of libmxfp-engine: the functions marked MXFP_API in the public headers, those in the linker's map, and those that
# the shared library exports with a version are the same; the objects of a static one define only symbols with the prefix mxfp_; and
# the SONAME is that of the interface version.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/../..}

if [ ! -e .libs/libmxfp.so ]; then
	echo "skipped: configured without a shared library"
	exit 77
fi

# library NAME MAP STATIC HEADER...
library() {
	local name=$1 map=$2 static=.libs/$3 shared=.libs/$1.so declared mapped exported stray soname
	shift 3

	declared=$(cat "$@" | sed -n 's/^MXFP_API.*[ *]\(mxfp_[a-z0-9_]*\)(.*/\1/p' | sort)
	[ "$(wc -l <<<"$declared")" = "$(cat "$@" | grep -c '^MXFP_API')" ] || {
		echo "a declaration has MXFP_API and its name on different lines"
		exit 1
	}

	mapped=$(sed -n 's/^\t\(mxfp_[a-z0-9_]*\);$/\1/p' "$map" | sort)
	diff <(echo "$declared") <(echo "$mapped") || {
		echo "< declared MXFP_API, > in $map"
		exit 1
	}

	exported=$(${NM:-nm} -D --defined-only "$shared" | awk '$2 != "A" { print $NF }' | sort)
	if grep -q '@@LIBMXFP_' <<<"$exported"; then
		exported=$(sed -n 's/@@LIBMXFP_[A-Z_]*[0-9.]*$//p' <<<"$exported")
	fi
	diff <(echo "$declared") <(echo "$exported") || {
		echo "< declared MXFP_API, > exported by $shared"
		exit 1
	}

	stray=$(${NM:-nm} -g --defined-only "$static" | awk 'NF == 3 && $3 !~ /^(mxfp_|\.)/ { print $3 }')
	[ -z "$stray" ] || {
		printf '%s: defined in the static library without the prefix mxfp_\n' "$stray"
		exit 1
	}

	soname=$(objdump -p "$shared" | awk '$1 == "SONAME" { print $2 }')
	[[ $soname =~ ^$name\.so\.[0-9]+$ ]] || {
		echo "SONAME is '$soname'"
		exit 1
	}
	echo "$(wc -l <<<"$exported") functions exported, $soname"
}

include=$srcdir/include/mxfp
mapfile -t headers < <(find "$include" -name '*.h' ! -name engine.h)
library libmxfp "$srcdir/lib/libmxfp.map" libmxfp-all.a "${headers[@]}"
library libmxfp-engine "$srcdir/lib/engine/libmxfp-engine.map" libengine.a "$include/engine.h"
