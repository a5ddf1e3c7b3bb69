#!/bin/bash
# SPDX-License-Identifier: MIT
# The module for Python, without what reads models: it compiles against this tree's library, its tests on arrays, values and pages
# pass, and its products equal the command's. pip's way to build it, which takes minutes, is scripts/check-python.sh; here tree.py
# gives its list of sources.
set -euo pipefail
build=$PWD
cd "${srcdir:-$(dirname "$0")/../..}"
source=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

skip() {
	echo "skipped: $1"
	exit 77
}

command -v python3 >/dev/null || skip 'no python3'
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip 'python3 is older than 3.11'

python3 python/tree.py cmake . >"$dir/tree.cmake"
mapfile -t listed < <(grep -v '(nodist_' "$dir/tree.cmake" | grep -oE '\$\{TREE\}/[a-z0-9_/]+\.c' | cut -d/ -f2- | sort -u)
if [ ${#listed[@]} -lt 300 ]; then
	echo "python/tree.py finds ${#listed[@]} sources"
	exit 1
fi
ls "${listed[@]}" >/dev/null

headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$headers/Python.h" ] || skip 'no headers of Python (python3-dev)'
[ -e "$build/.libs/libmxfp.so" ] || skip 'no shared library'
mkdir "$dir/mxfp"
cp python/src/mxfp/* "$dir/mxfp"
mapfile -t core < <(ls python/core/*.c | grep -vE '/(command|model|reader)\.c$')
# shellcheck disable=SC2086 # several words
${CC:-cc} -O1 -std=gnu11 -Wall -Wextra -Werror -fPIC -shared -DPy_LIMITED_API=0x030B0000 -Iinclude -isystem "$headers" "${core[@]}" \
	-o "$dir/mxfp/_core.abi3.so" "$build/.libs/libmxfp.so" -Wl,-rpath,"$build/.libs" ${PTHREAD_FLAGS-} -lm

for package in numpy pytest; do
	python3 -c "import $package" 2>/dev/null || skip "no $package"
done
export MXFP_COMMAND=$build/mxfp PYTHONPATH=$dir PYTHONDONTWRITEBYTECODE=1
python3 -m pytest -q -p no:cacheprovider -k "not mypy and not stubs" "$source"/python/tests/test_{arrays,types,values}.py
python3 -m pytest -q -p no:cacheprovider -k "test_gemm and mxfp4" "$source/python/tests/test_command.py"
