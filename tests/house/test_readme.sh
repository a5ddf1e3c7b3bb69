#!/bin/bash
# SPDX-License-Identifier: MIT
# README.md and examples/README.md are true: typed one after another behind the demo, their commands ("$ ...") print
# what is shown below them, to the byte, and what is indented otherwise compiles as C. test_install.sh runs the lines
# that compile program.c; make check-example trains.
set -euo pipefail
build=$PWD
cd "${srcdir:-$(dirname "$0")/../..}"
source=$PWD
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
		print substr($0, 7) >(dir "/commands")
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
	{ n_blank = in_command = 0 }' README.md examples/README.md

(cd "$dir/top" && bash ../session </dev/null) || true
n=0
failures=0
while IFS= read -r command; do
	n=$((n + 1))
	diff -u --label "a README: \$ $command" --label 'what it prints' "$dir/shown/$n" "$dir/printed/$n" ||
		failures=$((failures + 1))
done <"$dir/commands"

# Lines that have nothing to show, and the program.
while IFS= read -r line; do
	case $line in
	scripts/*) [ -x "$line" ] || fail "README.md: $line is no script" ;;
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
	echo 'README.md: these lines are no output of a command, and do not compile:'
	cat "$dir/fragment"
	failures=$((failures + 1))
}
echo "$n checks, $failures failures"
[ $failures = 0 ]
