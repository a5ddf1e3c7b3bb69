#!/bin/bash
# SPDX-License-Identifier: MIT
# Every public header compiles on its own, included twice, in every standard from C11 and C++11 on that the compiler knows, without
# a warning that an including program may have turned on: inline functions are that program's code. With clang too, if there is
# one. Enumerators are those of the tables in lib/, as scripts/enums.awk prints them.
set -euo pipefail
cd "${srcdir:-$(dirname "$0")/../..}/include"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for header in mxfp/{format,options,status}.h; do
	diff "$header" <(awk -f ../scripts/enums.awk ../lib/{format,option,status}.def "$header") || {
		echo "< include/$header, > what scripts/enums.awk prints"
		exit 1
	}
done

warnings=(-Wall -Wextra -Wcast-align -Wcast-qual -Wconversion -Wdouble-promotion -Wfloat-equal -Wformat=2 -Wmissing-declarations
	-Wredundant-decls -Wshadow -Wsign-conversion -Wswitch-default -Wswitch-enum -Wundef -Wvla)
c_warnings=(-Wc++-compat -Wmissing-prototypes -Wold-style-definition -Wstrict-prototypes)
cxx_warnings=(-Wextra-semi -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual -Wzero-as-null-pointer-constant)
# Without warnings of what is old or what is new in a standard, and of layouts that are a promise.
everything=(-Weverything -Wno-unknown-warning-option -Wno-padded -Wno-c++98-compat -Wno-c++98-compat-pedantic -Wno-pre-c11-compat
	-Wno-pre-c2x-compat -Wno-pre-c23-compat -Wno-unsafe-buffer-usage)

for header in mxfp.h mxfp/*.h; do
	printf '#include "%s"\n#include "%s"\nextern int x;\n' "$header" "$header" >"$dir/${header//\//_}.c"
done
# Compiles all headers by the command of the arguments.
compile() {
	"$@" -I . -pedantic-errors -Werror -fsyntax-only "$dir"/*
}
# The same in standard $1, if the command of the other arguments knows it.
in_standard() {
	local standard=-std=$1
	shift
	if "$@" "$standard" -fsyntax-only /dev/null 2>/dev/null; then
		compile "$@" "$standard"
	else
		echo "$* $standard: unknown"
	fi
}

read -ra cc <<<"${CC:-cc}"
for standard in c11 c17 c2x; do
	in_standard $standard "${cc[@]}" "${warnings[@]}" "${c_warnings[@]}" -x c
	! command -v clang >/dev/null || in_standard $standard clang "${everything[@]}" -x c
done
for standard in c++11 c++17 c++20 c++2b; do
	in_standard $standard "${cc[@]}" "${warnings[@]}" "${cxx_warnings[@]}" -x c++
	! command -v clang >/dev/null || in_standard $standard clang "${everything[@]}" -x c++
done
