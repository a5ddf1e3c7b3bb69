#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs every test on emulated x86 CPUs that are just too old for a tier, under qemu-user: the right tier is chosen, and
# no instruction that the CPU lacks is met. qemu emulates AVX2 but no AVX-512, so tier avx512 itself is not run. On
# Debian for x86-64; takes some ten minutes.
set -euo pipefail
. "$(dirname "$0")/emulated.shlib"

tree=build-cpus
cd "$(dirname "$0")/.."
scripts/dependencies.sh emulation
[ -e configure ] || autoreconf -i
mkdir -p $tree
[ -e $tree/Makefile ] || (cd $tree && ../configure -q --disable-shared)
make -s -C $tree "-j$(nproc)"

# try CPU TIER [TESTS]: the command says that it runs at that tier, and the tests pass.
try() {
	local tier
	run="qemu-x86_64 -cpu $1"
	tier=$(emulated_info 2>/dev/null | sed -n 's/^tier *\([a-z0-9]*\).*/\1/p')
	[ "$tier" = "$2" ] || fail "CPU $1: tier '$tier', expected $2"
	echo "CPU $1: tier $tier"
	[ $# -lt 3 ] || emulated_check "$3"
}

# The first x86-64, SSE4, AVX, and then all that tier avx2 asks for and what Debian's C library needs besides (BMI1).
try Opteron_G1 ref '$(TESTS_OF_TIERS)'
try Nehalem ref
try SandyBridge ref
try Nehalem,+xsave,+avx,+avx2,+fma,+f16c,+bmi1,+bmi2 avx2 '$(TESTS_EQUAL) $(TESTS_OF_TIERS)'
try Haswell avx2
