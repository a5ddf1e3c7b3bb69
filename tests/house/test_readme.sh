#!/bin/bash
# SPDX-License-Identifier: MIT
# What the pages for users show is true: typed one after another behind the demo, their commands ("$ ...") print what is
# shown below them, to the byte, but for `mxfp bench`: of a smaller product one row is run, and only its form compared.
# What is indented otherwise compiles as C. Links within the tree lead to files. test_install.sh runs the lines that
# compile program.c; make check-example trains.
set -euo pipefail
build=$PWD
cd "${srcdir:-$(dirname "$0")/../..}"
source=$PWD
pages=(README.md doc/quantize.md doc/accuracy.md doc/hardware.md doc/library.md examples/README.md)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
	echo "$1"
	exit 1
}

# Where a reader stands after the demo.
mkdir "$dir/top" "$dir/top/examples" "$dir/top/demo" "$dir/shown" "$dir/printed"
ln -s "$source"/examples/* "$dir/top/examples"
ln -sf "$build"/examples/{charlm_loss,gemm} "$dir/top/examples"
ln -s "$build" "$dir/top/build-demo"

# A script of all commands, what each shall print, and the indented lines that are in a block without commands. Blank
# lines at the end of a block are the page's.
awk -v dir="$dir" '
	FNR == 1 { n_blank = skip = in_command = 0 }
	/^    \$ / {
		skip = /retrained\./
		in_command = 1
		n_blank = 0
		if (skip)
			next
		close(shown)
		n++
		shown = dir "/shown/" n
		printf "" >shown
		print FILENAME ": " $0 >(dir "/commands")
		sub(/mxfp bench .*--shape 512x4096x4096/, "& --format nvfp4")
		sub(/512x4096x4096/, "16x4096x4096")
		print "{ " substr($0, 7) "\n} >" dir "/printed/" n " 2>&1" >(dir "/session")
		next
	}
	/^    / {
		if (!in_command)
			print substr($0, 5) >(dir "/others")
		else if (!skip) {
			for (; n_blank > 0; n_blank--)
				print "" >shown
			print substr($0, 5) >shown
		}
		next
	}
	/^$/ { n_blank++; next }
	{ n_blank = in_command = 0 }' "${pages[@]}"

(cd "$dir/top" && bash ../session </dev/null) || true

# form FILE: the table of `mxfp bench` in it, with # for numbers.
form() {
	awk '{ for (i = 1; i <= NF; i++) sub(/^(-|[0-9][0-9.x]*%?)$/, "#", $i); $1 = $1; print }' "$1"
}

# bench_prints N COMMAND: what it printed has the form of rows that are shown, the heading among them.
bench_prints() {
	local tier=${2##*--tier }
	tier=${tier%% *}
	if ! "$build/mxfp" info | grep -qE "^  $tier +(available|in use)"; then
		echo "skipped: $2"
	elif [ "$(wc -l <"$dir/printed/$1")" != 2 ] ||
		grep -vxFf <(form "$dir/shown/$1") <(form "$dir/printed/$1"); then
		echo "$2: this is not of the form shown"
		cat "$dir/printed/$1"
		return 1
	fi
}

n=0
failures=0
while IFS= read -r command; do
	n=$((n + 1))
	if [[ $command == *'$ mxfp bench '* ]]; then
		bench_prints $n "$command"
	else
		diff -u --label "$command" --label 'what it prints' "$dir/shown/$n" "$dir/printed/$n"
	fi || failures=$((failures + 1))
done <"$dir/commands"

while IFS=: read -r page link; do
	[ -e "$(dirname "$page")/$link" ] || {
		echo "$page: no file $link"
		failures=$((failures + 1))
	}
done < <(grep -noHE '\]\([^)#:]+' "${pages[@]}" doc/*.md HACKING.md | sed 's/:[0-9]*:\](/:/')

# Lines that have nothing to show, and the program.
while IFS= read -r line; do
	case $line in
	scripts/*) [ -x "$line" ] || fail "no script: $line" ;;
	'autoreconf -i && ./configure && '* | 'cc program.c '*) ;;
	*) printf '%s\n' "$line" ;;
	esac
done <"$dir/others" >"$dir/fragment"
{
	echo '#include <stdlib.h>'
	grep '^#include' "$dir/fragment"
	echo 'int layer(size_t rows, size_t cols, size_t tokens, const float *weights, const float *x, float *y,'
	echo '          void *workspace, size_t workspace_bytes);'
	echo 'int layer(size_t rows, size_t cols, size_t tokens, const float *weights, const float *x, float *y,'
	echo '          void *workspace, size_t workspace_bytes)'
	echo '{'
	grep -v '^#include' "$dir/fragment"
	echo 'return st != MXFP_OK;'
	echo '}'
} >"$dir/fragment.c"
# shellcheck disable=SC2086 # several words
${CC:-cc} -std=c11 -Wall -Werror -Iinclude -Ilib -fsyntax-only "$dir/fragment.c" || {
	echo 'these lines are no output of a command, and do not compile:'
	cat "$dir/fragment"
	failures=$((failures + 1))
}
echo "$n checks, $failures failures"
[ $failures = 0 ]
