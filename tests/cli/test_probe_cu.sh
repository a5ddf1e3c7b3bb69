#!/bin/sh
# SPDX-License-Identifier: MIT
# conformance/probe.cu: its host's part, with libmxfp in place of a GPU, answers what a chip has, and "own", and records tiles; nvcc,
# where it is, compiles the GPU's part without a warning.
. "${srcdir:-.}/tests/cli/cli.shlib"
source=${srcdir:-.}/conformance/probe.cu
# shellcheck disable=SC2086 # CXX may contain options
${CXX:-c++} --version >"$work/built" 2>&1 || { echo "skipped: no C++ compiler"; exit 77; }
for chip in 75 89 90; do
	# shellcheck disable=SC2086
	check "it does not compile" ${CXX:-c++} -x c++ -O1 -Wall -Wextra -Werror -DEMULATE=$chip -I "${srcdir:-.}/include" \
		-c -o "$work/probe.o" "$source"
	# shellcheck disable=SC2086
	${CXX:-c++} -o "$work/probe$chip" "$work/probe.o" .libs/libmxfp-all.a -lm -lpthread 2>"$work/built" || {
		echo "skipped: the library needs what a C++ program is not linked with: $(head -n 1 "$work/built")"
		exit 77
	}
	exits 0 "" conform "$work/probe$chip" --only dot --quick
	# Equal and unknown of 12 pairs of formats, each with two k.
	has "what a chip of capability $chip has" "$(cat "$work/out")" \
		"$(case $chip in 75) echo '|     2 |      0 |' ;; 89) echo '|    10 |      0 |' ;; *) echo '|    14 |      0 |' ;; esac)"
done
# 33 products of 2 and 1/2, whose last is the first of a third instruction of 16.
{
	printf '%s\n%s\n' '{"op":"hello","version":1}' '{"op":"dot","a":"f16","w":"f16","acc":"own","k":33,"n":1,"bytes":132}'
	bytes "$(repeat 33 0040)" "$(repeat 33 0038)"
} | "$work/probe90" >"$work/out"
same "a sum whose k is no multiple of the instruction's" 00000442 "$(data 4 "$work/out")"
mkdir "$work/tiles"
check "no tiles were recorded" "$work/probe90" --record "$work/tiles"
# Seven pairs of formats by mma, four of them by wgmma too: 30 tiles of 6400 bytes of five kinds of data.
same "bytes of tiles" $((11 * 5 * 30 * 6400)) "$(wc -c <"$work/tiles/tiles.bin" | tr -d ' ')"
if command -v nvcc >/dev/null; then
	case $(nvcc --list-gpu-arch) in *_100*) chip=sm_90a ;; *) chip=sm_80 ;; esac
	nvcc -arch=$chip --Werror all-warnings -Xcompiler -Wall,-Wextra -c -o "$work/probe.o" "$source" >"$work/nvcc" 2>&1 ||
		bad "nvcc does not compile it"
	same "what nvcc says" "" "$(cat "$work/nvcc")"
fi
finish
