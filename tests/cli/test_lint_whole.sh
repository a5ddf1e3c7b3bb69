#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp lint: whether a model is whole and loaders know its names, and what lint says that it did not look at.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 -B "${srcdir:-.}/tests/cli/lint_whole.py" "$mxfp" "$work"
