#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds for s390x, which is big-endian, and runs every test of the library and the command under qemu-user; files are
# little-endian on every machine. Needs Debian; takes about ten minutes.
set -euo pipefail
. "$(dirname "$0")/emulated.shlib"

emulated_build s390x s390x
emulated_check '$(TESTS_EQUAL) $(TESTS_OF_TIERS)'
