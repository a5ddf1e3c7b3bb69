#!/bin/sh
# SPDX-License-Identifier: MIT
# Random models in every layout with one key, tensor or fact that is not as it should be: right numbers or a refusal that names it.
# MXFP_TEST_ROUNDS=67 runs 10,000.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 -B "${srcdir:-.}/tests/cli/silent.py" "$mxfp" "$work" "$(fewer 150 15)"
