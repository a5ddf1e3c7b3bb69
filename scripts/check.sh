#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs what is missing, builds in build-check/ (or here, if this tree is configured in place), runs every test, runs
# them again at each lower instruction-set tier, again under AddressSanitizer and UndefinedBehaviorSanitizer, and the
# ranks of mpirun. The last line is the total of all runs.
set -euo pipefail
cd "$(dirname "$0")/.."

tree=build-check
[ ! -e config.status ] || tree=.
jobs=-j$(nproc)

# The log of each run: this machine's tiers have one each but the highest.
logs() {
	find "$tree" -name 'test-suite*.log' -path "$tree/test-suite*" -o -path "$tree/sanitize/build/test-suite.log"
}

# Sum of automake's totals of these names.
total() {
	logs | xargs -r cat | awk -v name="^# ($1): " '$0 ~ name { n += $3 } END { print n + 0 }'
}

# What the programs behind automake's tests count: their cases or checks, and the inputs they compared.
print_counts() {
	find "$tree" -path './build-*' -prune -o -name '*.trs' -print | sed 's/trs$/log/' | xargs -r cat | awk '
		match($0, /Checks: [0-9]+/) { checks += substr($0, RSTART + 8, RLENGTH - 8) }
		/^[0-9]+ checks,/ { checks += $1 }
		/^inputs compared: / { inputs += $3 }
		END { printf "%d checks in these, %d inputs compared\n", checks, inputs }'
}

print_totals() {
	local status=$? failed
	[ -z "$(logs)" ] || print_counts || true
	failed=$(total 'FAIL|XPASS|ERROR')
	if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
		failed=1 # not a test: the message is above
	fi
	echo "$(total 'PASS|XFAIL') passed, $failed failed, $(total SKIP) skipped"
}

mkdir -p $tree
logs | xargs -r rm
trap print_totals EXIT

scripts/dependencies.sh check
if [ ! -e Makefile.in ] || [ ! -e config.h.in ] || [ ! -e configure ] || [ configure.ac -nt configure ]; then
	autoreconf -i
fi
if [ ! -e $tree/Makefile ]; then
	(cd $tree && ../configure -q ${CI:+--enable-werror})
fi
make -s -C $tree "$jobs"

status=0
make -s -C $tree "$jobs" VERBOSE=1 check || status=1
make -s -C $tree "$jobs" VERBOSE=1 check-tiers || status=1
make -s -C $tree "$jobs" VERBOSE=1 check-sanitize || status=1
# The command with MPI, for the one test that needs it; a tree that is configured in place can have no other build.
if [ $tree != . ]; then
	mkdir -p $tree/mpi
	(cd $tree/mpi && ../../configure -q --with-mpi ${CI:+--enable-werror} CFLAGS=-O1)
	make -s -C $tree/mpi "$jobs"
	(cd $tree/mpi && WITH_MPI=yes srcdir=../.. ../../tests/test_mpi.sh) || status=1
fi
[ $status = 0 ]
