#!/bin/bash
# SPDX-License-Identifier: MIT
# The pages for users are correct: run one after another after the demo, their commands ("$ ...") print exactly what is
# shown below them, except `mxfp bench`, of which one row is run for a smaller product and only the form is compared. Other
# indented lines compile as C. Links within the tree lead to files. test_install.sh runs the lines that compile program.c;
# make check-example retrains the model.
set -euo pipefail
build=$PWD
cd "${srcdir:-$(dirname "$0")/../..}"
source=$PWD
pages=(README.md doc/quantize.md doc/accuracy.md doc/hardware.md doc/engine.md doc/library.md examples/README.md)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
	echo "$1"
	exit 1
}

# The working directory of a reader after the demo.
mkdir "$dir/top" "$dir/top/examples" "$dir/top/demo" "$dir/shown" "$dir/printed"
ln -s "$source"/examples/* "$dir/top/examples"
ln -sf "$build"/examples/{charlm_inputs,charlm_loss,gemm} "$dir/top/examples"
ln -s "$build" "$dir/top/build-demo"

# Extract a script of all commands, the expected output of each, and the indented lines of blocks without commands. Blank
# lines at the end of a block do not belong to it. Blocks in fences are of models that are not here.
awk -v dir="$dir" '
	FNR == 1 { n_blank = skip = in_command = fenced = 0 }
	/^```/ { fenced = !fenced; n_blank = in_command = 0 }
	fenced { next }
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
		sub(/mxfp bench .*--shape 512x4096x4096/, "& --format mxint8")
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

# form FILE: prints its table of `mxfp bench` with # for numbers.
form() {
	awk '{ for (i = 1; i <= NF; i++) sub(/^(-|[0-9][0-9.x]*%?)$/, "#", $i); $1 = $1; print }' "$1"
}

# bench_prints N COMMAND: its output, a heading and a row, has the form of the rows shown.
bench_prints() {
	local tier=${2##*--tier }
	tier=${tier%% *}
	if ! "$build/mxfp" info | grep -qE "^  $tier +(available|in use)"; then
		echo "skipped: $2"
	elif [ "$(wc -l <"$dir/printed/$1")" != 2 ] ||
		grep -vxFf <(form "$dir/shown/$1") <(form "$dir/printed/$1"); then
		echo "$2: the output does not have the form shown"
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

# Lines without output, and the program.
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
	echo 'int layer(size_t rows, size_t cols, size_t tokens, const float *weights, const float *x, float *y);'
	echo 'int layer(size_t rows, size_t cols, size_t tokens, const float *weights, const float *x, float *y)'
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
