#!/bin/sh
# SPDX-License-Identifier: MIT
# What stands beside numbers and says what they mean: known, or refused by name, by every command that reads numbers.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 -B "${srcdir:-.}/tests/cli/meaning.py" "$mxfp" "$work"
