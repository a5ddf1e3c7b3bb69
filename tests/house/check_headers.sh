#!/bin/bash
# SPDX-License-Identifier: MIT
# Every public header compiles alone and twice over, as C11 and, if the compiler has C++, as C++11.
set -euo pipefail
cd "${srcdir:-$(dirname "$0")/../..}/include"

# Compiles standard input as language $1, standard $2.
compile() {
	# shellcheck disable=SC2086 # CC may hold options
	${CC:-cc} -x "$1" "-std=$2" -pedantic-errors -Wall -Wextra -Werror -I . -I ../lib -fsyntax-only -
}

standards=('c c11' 'c++ c++11')
if ! compile c++ c++11 </dev/null 2>/dev/null; then
	echo "no C++ compiler: C only"
	standards=('c c11')
fi
for header in mxfp.h mxfp/*.h; do
	for standard in "${standards[@]}"; do
		# shellcheck disable=SC2086 # two words
		printf '#include "%s"\n#include "%s"\nint x;\n' "$header" "$header" | compile $standard
	done
done
