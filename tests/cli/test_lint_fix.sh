#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp lint --fix: a fault put in by hand becomes the model that it was put into, byte for byte, or is said not to be fixed.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 -B "${srcdir:-.}/tests/cli/small_llama.py" "$work" && python3 -B "${srcdir:-.}/tests/cli/small_experts.py" "$work" || exit 99
python3 -B "${srcdir:-.}/tests/cli/lint_fix.py" "$mxfp" "$work"
