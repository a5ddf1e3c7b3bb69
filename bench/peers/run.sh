#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds and runs what the installed libraries allow: conversions on one thread, or products with --gemm; README.md says
# more. The last argument is ggml's library for this processor. The programs go to a directory that is removed at the end.
set -u
cd "$(dirname "$0")" || exit 1
cc=${CC:-cc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# build NAME LIBRARY...
build() {
	name=$1
	shift
	if ! $cc -std=gnu11 -O2 -o "$work/$name" "$name.c" "$@" -lm 2>"$work/log"; then
		echo "left out: $name: $(grep -m 1 error "$work/log")"
		return 1
	fi
}

if [ "${1:-}" = --gemm ]; then
	shift
	if build ggml_gemm -lggml -lggml-base; then "$work/ggml_gemm" ${1+"$1"}; fi
	if build dnnl_gemm -fopenmp -ldnnl; then "$work/dnnl_gemm"; fi
	if build openblas_gemm -lopenblas; then "$work/openblas_gemm"; fi
	exit 0
fi
export OMP_NUM_THREADS=1
if build ggml -lggml -lggml-base; then "$work/ggml" ${1+"$1"}; fi
if build dnnl -ldnnl; then "$work/dnnl"; fi
if command -v python3 >"$work/log"; then python3 torch_ml_dtypes.py; fi
