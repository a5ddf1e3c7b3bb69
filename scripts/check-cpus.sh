#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs tests under qemu-user on emulated x86 CPUs that are just too old for a tier, to check that the right tier is chosen and no
# unsupported instruction is executed: the programs of the library, and of the command test_tiers.sh, which runs each command that
# computes. qemu emulates AVX2 but not AVX-512, so tier avx512 itself is not run.
# Needs Debian on x86-64; takes about ten minutes.
set -euo pipefail
. "$(dirname "$0")/emulated.shlib"

tree=build-cpus
cd "$(dirname "$0")/.."
scripts/dependencies.sh emulation
[ -e configure ] || autoreconf -i
mkdir -p $tree
[ -e $tree/Makefile ] || (cd $tree && ../configure -q --disable-shared)
make -s -C $tree "-j$(nproc)"

# try CPU TIER [TESTS]: checks that the command reports this tier and that the tests pass.
try() {
	local tier
	run="qemu-x86_64 -cpu $1"
	tier=$(emulated_info 2>/dev/null | sed -n 's/^tier *\([a-z0-9]*\).*/\1/p')
	[ "$tier" = "$2" ] || fail "CPU $1: tier '$tier', expected $2"
	echo "CPU $1: tier $tier"
	[ $# -lt 3 ] || emulated_check "$3"
}

# The first x86-64, SSE4, AVX, and then what tier avx2 requires plus BMI1 for Debian's C library.
try Opteron_G1 ref '$(TESTS_AT_TIERS) tests/cli/test_tiers.sh'
try Nehalem ref
try SandyBridge ref
try Nehalem,+xsave,+avx,+avx2,+fma,+f16c,+bmi1,+bmi2 avx2 '$(TESTS_EQUAL) $(TESTS_C) tests/cli/test_tiers.sh'
try Haswell avx2
