#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds for aarch64 and runs, under qemu-user: every test of the library and of the command at tier neon, the kernels
# of neon beside the reference, and conversion of all numbers of at most 19 bits. On Debian; takes some ten minutes.
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
