#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp convert --to: blocks of every format made to blocks of every other, compared with all scales tried one after the other, and
# models. MXFP_TEST_BLOCKS=100000 has so many blocks for each pair.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
mkdir "$work/blocks" "$work/models"
python3 -B "${srcdir:-.}/tests/cli/convert_models.py" "$mxfp" "$work/models" || bad "models"
python3 -B "${srcdir:-.}/tests/cli/convert_blocks.py" "$mxfp" "$work/blocks" "${MXFP_TEST_BLOCKS:-$(fewer 16 4)}" "${MXFP_TEST_SEED:-1}" || bad "blocks"
finish
