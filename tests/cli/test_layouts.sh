#!/bin/sh
# SPDX-License-Identifier: MIT
# Layouts that other programs publish, made byte by byte from their definitions.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 -B "${srcdir:-.}/tests/cli/layouts.py" "$mxfp" "$work"
