#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds for aarch64 and runs under qemu-user: every test of the library and the command at tier neon, the comparison of
# the neon kernels with the reference, and the conversion of all numbers of at most 19 bits. Needs Debian; takes about ten
# minutes.
set -euo pipefail
. "$(dirname "$0")/emulated.shlib"

emulated_build aarch64 arm64
emulated_check '$(TESTS_EQUAL)'
make -s -C "$tree" tests/oracle/exhaustive
for format in $(emulated_info | sed -n '/^Element formats/,/^$/s/^  \([a-z0-9]*\)  *[0-9].*/\1/p'); do
	[ "$format" = f32 ] || $run "$tree"/tests/oracle/exhaustive --tier neon --from "$format" --workers "$(nproc)"
done
$run "$tree"/tests/oracle/exhaustive --tier neon --from f32 --round sr --workers "$(nproc)"
emulated_check '$(TESTS_OF_TIERS)'
