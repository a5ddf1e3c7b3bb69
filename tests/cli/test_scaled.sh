#!/bin/sh
# SPDX-License-Identifier: MIT
# 8-bit floats with scales that are numbers, as models are published: read to the byte by every command, or refused.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 -B "${srcdir:-.}/tests/cli/small_llama.py" "$work" || exit 99
python3 -B "${srcdir:-.}/tests/cli/scaled.py" "$mxfp" "$work"
