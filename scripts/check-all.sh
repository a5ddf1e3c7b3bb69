#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs all that can be checked, before a release: hours. Arguments select parts; the last line is the total of all.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib

parts=(tiers sanitize abi compilers debian packages python emulated interop prove exhaustive)
usage='usage: scripts/check-all.sh [PART...]

Parts, with random inputs of a seed that is printed; MXFP_TEST_SEED sets it:
  tiers       every test at every instruction-set tier, and under mpirun
  sanitize    every test with sanitizers and with all inputs; threads with ThreadSanitizer
  abi         exported symbols, and the interface beside that of the last tag
  compilers   every test with every gcc and clang of this machine, at -O1, -O2, -O3
  debian      scripts/check.sh in a bare Debian 12 and 13 (needs root)
  packages    Debian packages for both, built, installed and tested (needs root)
  python      the module for Python there, built by pip, and as a wheel without a compiler (needs root)
  emulated    aarch64, s390x and old x86 CPUs under qemu (needs Debian)
  interop     other programs read and write files, and run models (needs MXFP_LAB)
  prove       proofs of the reference with CBMC
  exhaustive  all inputs, on every tier; MXFP_TEST_PART=K/N runs part K of N

Without PART all run, one after the other; one that cannot run says why. The output of each is in build-all/PART.log.'
case ${1-} in
-h | --help)
	echo "$usage"
	exit
	;;
esac
for part; do
	[[ " ${parts[*]} " == *" $part "* ]] || {
		echo "check-all.sh: no part '$part'"$'\n'"$usage" >&2
		exit 2
	}
done
[ $# = 0 ] || parts=("$@")
[ ! -e config.status ] || {
	echo 'check-all.sh: this tree is configured in place; run make distclean first' >&2
	exit 1
}

# A tree with everything, that of check.sh.
tree=build-check
build() {
	mkdir -p $tree
	[ -e $tree/Makefile ] || (cd $tree && ../configure -q --with-mpi)
	make -s "-j$(nproc)" -C $tree
}
check() {
	make -s "-j$(nproc)" -C $tree VERBOSE=1 "$@"
}

part_tiers() {
	local status=0
	build || return
	check check || status=1
	check check-tiers TESTS_AT_TIERS='$(TESTS_OF_TIERS)' || status=1
	return $status
}

# At the tier that check.sh leaves out here.
part_sanitize() {
	local status=0
	build || return
	check check-races || status=1
	MXFP_ISA='' check check-sanitize SANITIZE_SHARE=1 || status=1
	return $status
}

part_abi() {
	local status=0
	build || return
	(cd $tree && srcdir=.. ../tests/house/check_symbols.sh) || status=1
	scripts/check-abi.sh || status=1
	return $status
}

part_compilers() {
	scripts/check-compilers.sh
}

part_debian() {
	local status=0
	scripts/check-debian.sh bookworm || status=1
	scripts/check-debian.sh trixie || status=1
	return $status
}

part_packages() {
	local status=0
	scripts/check-packages.sh bookworm || status=1
	scripts/check-packages.sh trixie || status=1
	return $status
}

part_python() {
	local status=0 release
	for release in bookworm trixie; do
		scripts/check-debian.sh $release scripts/check-python.sh || status=1
	done
	scripts/dependencies.sh python
	rm -rf python/dist
	python/wheel.sh || return
	set -- python/dist/*.whl
	scripts/check-debian.sh --file "$1" bookworm scripts/check-python.sh "../${1##*/}" || status=1
	return $status
}

part_emulated() {
	local status=0 machine
	for machine in aarch64 s390x cpus; do
		echo "== scripts/check-$machine.sh"
		scripts/check-$machine.sh || status=1
	done
	return $status
}

part_interop() {
	build || return
	check check TESTS='tests/interop/interop.sh tests/interop/families.sh tests/interop/gguf.sh tests/interop/kinds.sh tests/interop/eval.sh'
}

part_prove() {
	tests/prove/prove.sh
}

part_exhaustive() {
	build || return
	check check-exhaustive
}

# lack PART: why it cannot run here; nothing if it can.
lack() {
	case $1 in
	debian | packages | python) [ "$(id -u)" = 0 ] || echo 'it needs root, for chroot' ;;
	emulated) command -v apt-get >/dev/null || echo 'it needs Debian, whose packages for other machines it takes' ;;
	prove) command -v cbmc >/dev/null || echo 'it needs cbmc, a package of Debian 13' ;;
	interop) [ -n "${MXFP_LAB-}" ] || echo 'MXFP_LAB names no lab; scripts/interop-lab.sh DIR makes one' ;;
	esac
}

# summed LOG: passed, failed and skipped tests: automake's summaries, or the lines in which scripts say their own.
summed() {
	awk '
		/^Testsuite summary for / { within = 1 }
		within && /^# (PASS|XFAIL): / { passed += $3 }
		within && /^# (FAIL|XPASS|ERROR): / { failed += $3 }
		within && /^# SKIP: / { skipped += $3 }
		/^# ERROR: / { within = 0 }
		/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { own = 1; p += $1; f += $3; s += $5 }
		END { print own ? p + 0 " " f + 0 " " s + 0 : passed + 0 " " failed + 0 " " skipped + 0 }' "$1"
}

export MXFP_TEST_SEED=${MXFP_TEST_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "Runs ${parts[*]}, which takes hours; MXFP_TEST_SEED=$MXFP_TEST_SEED"
scripts/dependencies.sh check
prepare_configure
mkdir -p build-all
all_passed=0 all_failed=0 all_skipped=0
for part in "${parts[@]}"; do
	why=$(lack "$part")
	if [ -n "$why" ]; then
		stage "$part: cannot run: $why"
		all_skipped=$((all_skipped + 1))
		continue
	fi
	stage "$part"
	log=build-all/$part.log
	began=$SECONDS
	status=0
	# In a process of its own: what fails in it does not end this script.
	(part_"$part") >"$log" 2>&1 || status=$?
	read -r passed failed skipped < <(summed "$log")
	if [ $status != 0 ] && [ "$failed" = 0 ]; then
		failed=1 # not a test
		tail -n 5 "$log"
	elif [ $status = 0 ] && [ "$passed$failed$skipped" = 000 ]; then
		passed=1
	fi
	grep -E '^(FAIL|XPASS|ERROR): ' "$log" | sort -u || true
	stage "$part: $passed passed, $failed failed, $skipped skipped, $(((SECONDS - began + 30) / 60)) min; $log"
	all_passed=$((all_passed + passed)) all_failed=$((all_failed + failed)) all_skipped=$((all_skipped + skipped))
done
echo "$all_passed passed, $all_failed failed, $all_skipped skipped"
[ $all_failed = 0 ]
