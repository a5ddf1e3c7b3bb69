#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs the module for Python as a user does, with pip in an environment of its own, and runs its tests: check-python.sh
# [WHEEL]. Without a WHEEL pip builds it from this tree. Needs a network for pip. The last line is the result.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib

if [ $# -gt 1 ] || { [ $# = 1 ] && [ ! -f "$1" ]; }; then
	echo 'usage: scripts/check-python.sh [WHEEL]' >&2
	exit 2
fi
if [ $# = 0 ]; then
	scripts/dependencies.sh python
else
	scripts/dependencies.sh venv
	echo "compiler: $(command -v cc gcc clang || echo none)"
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/mxfp-python.XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
bin=$work/venv/bin

stage "pip install ${1:-./python}"
time "$bin/pip" -q install "${1:-./python}"
"$bin/mxfp" --version
(cd "$work" && "$bin/python" -c 'import mxfp; print("import mxfp:", mxfp.__version__, mxfp.isa(), mxfp.cast([1.0, 448.0], "e4m3").tolist())')

stage 'tests'
"$bin/pip" -q install numpy pytest
"$bin/python" -m pytest -q -rs -p no:cacheprovider python/tests 2>&1 | tee "$work/log" || true
awk '/(passed|failed|error|skipped).* in [0-9.]+s/ {
		for (i = 2; i <= NF; i++)
			n[$i] = $(i - 1)
		found = 1
	}
	END {
		failed = n["failed"] + n["failed,"] + n["errors"] + n["error"] + !found
		printf "%d passed, %d failed, %d skipped\n", n["passed"] + n["passed,"], failed, n["skipped"] + n["skipped,"]
		exit failed != 0
	}' "$work/log"
