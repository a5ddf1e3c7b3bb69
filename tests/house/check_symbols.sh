#!/bin/bash
# SPDX-License-Identifier: MIT
# The functions marked MXFP_API in the public headers, those in the linker's map, and those that the shared library exports
# with a version are the same; the objects of a static one define only symbols with the prefix mxfp_; and the SONAME is that of the
# interface version.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/../..}
shared=.libs/libmxfp.so
static=.libs/libmxfp-all.a

if [ ! -e $shared ]; then
	echo "skipped: configured without a shared library"
	exit 77
fi

declared=$(sed -n 's/^MXFP_API.*[ *]\(mxfp_[a-z0-9_]*\)(.*/\1/p' "$srcdir"/include/mxfp/*.h | sort)
[ "$(wc -l <<<"$declared")" = "$(cat "$srcdir"/include/mxfp/*.h | grep -c '^MXFP_API')" ] || {
	echo "a declaration has MXFP_API and its name on different lines"
	exit 1
}

mapped=$(sed -n 's/^\t\(mxfp_[a-z0-9_]*\);$/\1/p' "$srcdir/lib/libmxfp.map" | sort)
diff <(echo "$declared") <(echo "$mapped") || {
	echo "< declared MXFP_API, > in lib/libmxfp.map"
	exit 1
}

exported=$(${NM:-nm} -D --defined-only $shared | awk '$2 != "A" { print $NF }' | sort)
if grep -q '@@LIBMXFP_' <<<"$exported"; then
	exported=$(sed -n 's/@@LIBMXFP_[0-9.]*$//p' <<<"$exported")
fi
diff <(echo "$declared") <(echo "$exported") || {
	echo "< declared MXFP_API, > exported"
	exit 1
}

stray=$(${NM:-nm} -g --defined-only $static | awk 'NF == 3 && $3 !~ /^(mxfp_|\.)/ { print $3 }')
[ -z "$stray" ] || {
	printf '%s: defined in the static library without the prefix mxfp_\n' "$stray"
	exit 1
}

soname=$(objdump -p $shared | awk '$1 == "SONAME" { print $2 }')
[[ $soname =~ ^libmxfp\.so\.[0-9]+$ ]] || {
	echo "SONAME is '$soname'"
	exit 1
}
echo "$(wc -l <<<"$exported") functions exported, $soname"
