#!/bin/sh
# SPDX-License-Identifier: MIT
# The texts of doc/errors.md are those of the command.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
exec python3 -B "${srcdir:-$(dirname "$0")/../..}/tests/house/errors.py" "${srcdir:-$(dirname "$0")/../..}"
