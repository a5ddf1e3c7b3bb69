#!/bin/bash
# SPDX-License-Identifier: MIT
# Every public header compiles on its own, included twice, as C11 and, if there is a C++ compiler, as C++11. Enumerators are those
# of the tables in lib/, as scripts/enums.awk prints them.
set -euo pipefail
cd "${srcdir:-$(dirname "$0")/../..}/include"

# Compiles standard input as language $1 with standard $2.
compile() {
	# shellcheck disable=SC2086 # CC may contain options
	${CC:-cc} -x "$1" "-std=$2" -pedantic-errors -Wall -Wextra -Werror -I . -fsyntax-only -
}

standards=('c c11' 'c++ c++11')
if ! compile c++ c++11 </dev/null 2>/dev/null; then
	echo "no C++ compiler: C only"
	standards=('c c11')
fi
for header in mxfp/{format,options,status}.h; do
	diff "$header" <(awk -f ../scripts/enums.awk ../lib/{format,option,status}.def "$header") || {
		echo "< include/$header, > what scripts/enums.awk prints"
		exit 1
	}
done
for header in mxfp.h mxfp/*.h; do
	for standard in "${standards[@]}"; do
		# shellcheck disable=SC2086 # two words
		printf '#include "%s"\n#include "%s"\nint x;\n' "$header" "$header" | compile $standard
	done
done
