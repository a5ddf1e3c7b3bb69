#!/bin/bash
# SPDX-License-Identifier: MIT
# scripts/check-abi.sh finds and names changes of the interface, and takes those that programs do not notice.
set -euo pipefail
srcdir=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

command -v abidiff >/dev/null || {
	echo 'skipped: no abidiff'
	exit 77
}
failures=0

# compare WANT TEXT WHAT FILES SED: this interface with one whose files are edited; exit status and a line with TEXT.
compare() {
	local status=0 file
	rm -rf "$dir/new"
	mkdir -p "$dir/new"
	tar -c -C "$srcdir" include lib configure.ac | tar -x -C "$dir/new"
	chmod -R u+w "$dir/new"
	for file in $4; do
		sed -i -E "$5" "$dir/new/$file"
		[ -z "$5" ] || ! cmp -s "$srcdir/$file" "$dir/new/$file" || {
			echo "$3: nothing was edited in $file"
			failures=$((failures + 1))
		}
	done
	"$srcdir/scripts/check-abi.sh" "$srcdir" "$dir/new" >"$dir/output" 2>&1 || status=$?
	[ $status = "$1" ] && grep -q -e "$2" "$dir/output" && return
	echo "$3: exit status $status, not $1, or no line with '$2':"
	cat "$dir/output"
	failures=$((failures + 1))
}

member() {
	printf '%s\n' "/^struct $1 \\{\$/,/^};/ s/^};/\\t$2 added;\\n};/"
}

compare 0 'is kept' 'no change' include/mxfp/matrix.h ''
compare 0 'is kept' 'a function more' 'include/mxfp/version.h lib/libmxfp.map' \
	's/^MXFP_API const char \*mxfp_version.*/&\nMXFP_API int mxfp_added(void);/; s/^\tmxfp_amax;/&\n\tmxfp_added;/'
compare 0 'is kept' 'an enumerator more' include/mxfp/options.h 's/^\tMXFP_ROUND_SR = 6,/&\n\tMXFP_ROUND_ADDED = 7,/'
compare 0 'is kept' 'a struct with a size grows' include/mxfp/matrix.h "$(member mxfp_matrix size_t)"
compare 0 'is kept' 'a struct of the library grows' include/mxfp/format.h "$(member mxfp_format_info size_t)"
compare 0 'not compared' 'another SONAME' configure.ac 's/(MXFP_LIBTOOL_VERSION\], )\[0:0:0\]/\1[1:0:0]/'
compare 1 'struct mxfp_sizes' 'a struct without a size grows' include/mxfp/matrix.h "$(member mxfp_sizes size_t)"
compare 1 'mxfp_optional' 'a struct inside others grows' include/mxfp/options.h "$(member mxfp_optional int)"
compare 1 'struct mxfp_blocks' 'a member in the padding of older callers' include/mxfp/matrix.h "$(member mxfp_blocks bool)"
compare 1 'struct mxfp_blocks' 'a member before others' include/mxfp/matrix.h 's/^\tvoid \*codes;/\tsize_t added;\n&/'
compare 1 'struct mxfp_attention_cache' 'a member of another type' include/mxfp/attention.h 's/^\tsize_t capacity;/\tint capacity;/'
compare 1 'struct mxfp_attention_cache' 'the same, and one at the end' include/mxfp/attention.h \
	"s/^\\tsize_t capacity;/\\tint capacity;/; $(member mxfp_attention_cache size_t)"
compare 1 'struct mxfp_attention_cache' 'a member less, and one at the end' include/mxfp/attention.h \
	"/^\\tsize_t capacity;/d; $(member mxfp_attention_cache size_t)"
compare 1 'MXFP_ROUND_SR' 'an enumerator of another value' include/mxfp/options.h 's/MXFP_ROUND_SR = 6/MXFP_ROUND_SR = 9/'
compare 1 'MXFP_REDUCTION_MAX' 'an enumerator less' include/mxfp/rows.h '/MXFP_REDUCTION_MAX /d'
compare 1 'mxfp_amax' 'a function less' lib/libmxfp.map '/mxfp_amax;/d'
compare 1 'mxfp_philox_word' 'a parameter of another type' include/mxfp/philox.h 's/uint64_t index\)/uint32_t index)/'
compare 1 'mxfp_isa_active' 'another result' include/mxfp/isa.h 's/^MXFP_API int mxfp_isa_active/MXFP_API long mxfp_isa_active/'
compare 1 'struct mxfp_engine_place' 'a struct of libmxfp-engine grows' include/mxfp/engine.h "$(member mxfp_engine_place size_t)"
compare 1 'mxfp_engine_run' 'a function of it less' lib/engine/libmxfp-engine.map '/mxfp_engine_run;/d'
[ $failures = 0 ]
