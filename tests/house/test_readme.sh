#!/bin/bash
# SPDX-License-Identifier: MIT
# The pages for users are correct: run one after another after the demo, their commands ("$ ...") print exactly what is
# shown below them. Other indented lines compile as C, a function for each page. Links within the tree lead to files.
# Blocks in fences are of models that are not here; README.md's first is run where ../shared/weights has its model, a line "..."
# standing for any. test_install.sh runs the lines that compile program.c; make check-example retrains the model.
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
ln -s "$source/conformance" "$dir/top"

# Extract a script of all commands, the expected output of each, and the indented lines of blocks without commands. Blank
# lines at the end of a block do not belong to it.
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
		print "{ " substr($0, 7) "\n} >" dir "/printed/" n " 2>&1" >(dir "/session")
		next
	}
	/^    / {
		if (!in_command)
			print FILENAME ":" substr($0, 5) >(dir "/others")
		else if (!skip) {
			for (; n_blank > 0; n_blank--)
				print "" >shown
			print substr($0, 5) >shown
		}
		next
	}
	/^$/ { n_blank++; next }
	{ n_blank = in_command = 0 }' "${pages[@]}"

(cd "$dir/top" && PATH=$PWD/build-demo:$PWD/build-demo/examples:$PATH bash ../session </dev/null) || true

n=0
failures=0
while IFS= read -r command; do
	n=$((n + 1))
	diff -u --label "$command" --label 'what it prints' "$dir/shown/$n" "$dir/printed/$n" || failures=$((failures + 1))
done <"$dir/commands"

# The first block in fences of README.md.
model=${MXFP_SHARED:-$source/../shared}/weights/doclm
if [ -e "$model" ]; then
	mkdir "$dir/top/doclm"
	cp "$model"/{config.json,model.safetensors,tokenizer.json} "$dir/top/doclm"
	awk '/^```/ { n++; next } n == 1' README.md >"$dir/fence"
	(cd "$dir/top" && PATH=$PWD/build-demo:$PATH && eval "$(sed -n '1s/^\$ //p' "$dir/fence")") >"$dir/fence.printed" 2>&1 || true
	sed 1d "$dir/fence" | awk 'NR == FNR { shown[++n] = $0; next }
		shown[i + 1] == "..." && $0 != shown[i + 2] { next }
		shown[i + 1] == "..." { i++ }
		$0 != shown[++i] { print "README.md: not as shown: " $0; bad = 1 }
		END { if (i != n) print "README.md: not printed: " shown[i + 1]; exit bad || i != n }' - "$dir/fence.printed" ||
		failures=$((failures + 1))
else
	echo "no $model: README.md's mxfp quantize is not run"
fi

while IFS=: read -r page link; do
	[ -e "$(dirname "$page")/$link" ] || {
		echo "$page: no file $link"
		failures=$((failures + 1))
	}
done < <(grep -noHE '\]\([^)#:]+' "${pages[@]}" doc/*.md HACKING.md | sed 's/:[0-9]*:\](/:/')

# Lines without output, and a program of a function for each page.
while IFS=: read -r page line; do
	case $line in
	scripts/*) [ -x "$line" ] || [ -x "${line%% *}" ] || fail "no script: $line" ;;
	'autoreconf -i && ./configure && '* | 'cc program.c '*) ;;
	'#include '*) printf '%s\n' "$line" >>"$dir/includes" ;;
	*) printf '%s\n' "$line" >>"$dir/${page//[\/.]/_}.lines" ;;
	esac
done <"$dir/others"
{
	echo '#include <stdlib.h>'
	cat "$dir/includes"
	for lines in "$dir"/*.lines; do
		name=$(basename "$lines" .lines)
		parameters='size_t rows, size_t cols, size_t tokens, const float *weights, const float *x, float *y'
		echo "void $name($parameters);"
		echo "void $name($parameters)"
		echo '{'
		cat "$lines"
		echo '}'
	done
} >"$dir/fragment.c"
# shellcheck disable=SC2086 # several words
${CC:-cc} -std=c11 -Wall -Wno-unused -Werror -Iinclude -Ilib -fsyntax-only "$dir/fragment.c" || {
	echo 'these lines are no output of a command, and do not compile:'
	cat "$dir"/*.lines
	failures=$((failures + 1))
}
echo "$n checks, $failures failures"
[ $failures = 0 ]
