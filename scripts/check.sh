#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs missing packages, builds in build-check/ (or here, if this tree is configured in place), and runs the tests: all at
# the highest instruction-set tier, under mpirun too; those that compare with MPFR at each lower tier; and all under
# AddressSanitizer and UndefinedBehaviorSanitizer, with a tenth of the random inputs. HACKING.md says which faults each is for;
# check-all.sh runs all that can be checked. At the end it prints what was skipped and why; the last line is the total of all runs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib

tree=build-check
[ ! -e config.status ] || tree=.

# The log of each run; each tier below the highest has one of its own.
logs() {
	find "$tree" -name 'test-suite*.log' \( -path "$tree/test-suite*" -o -path "$tree/sanitize/build/test-suite.log" \)
}

# The logs of the test programs with this result.
test_logs() {
	find "$tree" -path './build-*' -prune -o -name '*.trs' -exec grep -lE "^:test-result: ($1)" {} + | sed 's/trs$/log/'
}

# Sums up the checks and the compared inputs that these programs report.
print_counts() {
	test_logs '.*' | xargs -r cat | awk '
		match($0, /Checks: [0-9]+/) { checks += substr($0, RSTART + 8, RLENGTH - 8) }
		/^[0-9]+ checks,/ { checks += $1 }
		/^inputs compared: / { inputs += $3 }
		END { printf "%d checks in these tests, %d inputs compared\n", checks, inputs }'
}

# Prints why tests were skipped, which is the last line of their output, and which parts passing tests skipped.
print_skipped() {
	{
		logs | xargs -r awk '
			/^SKIP .* \(exit status: 77\)$/ { print "SKIP " $2 ": " reason }
			$0 != "" { reason = $0 }'
		test_logs PASS | xargs -r grep -HE '^skipped: |: skipped$' |
			sed -E 's/^.*\/(tests|fuzz)\/([^:]*)\.log:/SKIP PART OF \1\/\2: /'
	} | sed 's/: skipped: /: /; s/: skipped$//' | sort | uniq -c | sed -E 's/^ *1 //; s/^ *([0-9]+) (.*)/\2 (\1 runs)/'
}

print_totals() {
	[ -z "$(logs)" ] || { print_skipped && print_counts; } || true
	if [ $finished = no ] && [ $broken = 0 ] && [ "$(failed)" = 0 ]; then
		broken=1 # not a test: the message is above
	fi
	# shellcheck disable=SC2046
	counts $broken $(logs)
}

# shellcheck disable=SC2046
failed() {
	total 'FAIL|XPASS|ERROR' $(logs)
}

# run_tests WHAT ARGUMENT...: runs make, and prints the tests that took longest; a failure without a failed test, such as a compile
# error, counts as broken.
broken=0
run_tests() {
	local before
	stage "$1"
	shift
	before=$(failed)
	rm -f "$MXFP_TEST_TIMES"
	make_tally VERBOSE=1 "$@" || [ "$(failed)" != "$before" ] || broken=$((broken + 1))
	[ ! -s "$MXFP_TEST_TIMES" ] || print_slowest
}

# timed.sh writes seconds, seconds of processor time, and a name.
print_slowest() {
	echo 'The slowest, in seconds, and in seconds of processor time:'
	sort -rn "$MXFP_TEST_TIMES" | awk 'NR <= 10 { printf "%7.1f %7.1f  %s\n", $1, $2, $3 }'
}

echo "Builds in $tree/ and runs every test there, at each instruction-set tier and under sanitizers."
echo 'Takes about 15 minutes on two cores and 3 GB of disk, including missing packages that it installs.'
mkdir -p $tree
logs | xargs -r rm
finished=no
trap print_totals EXIT

scripts/dependencies.sh check
prepare_configure
if [ ! -e $tree/Makefile ] || { [ $tree != . ] && ! grep -qs -e --with-mpi $tree/config.log; }; then
	stage 'configure'
	(cd $tree && ../configure -q --with-mpi ${CI:+--enable-werror})
fi
stage 'building the library and the command'
make_tally -C $tree
export MXFP_TEST_TIMES=$PWD/$tree/test-times.log

run_tests 'building and running the tests' -C $tree check
run_tests 'comparing with MPFR at each lower tier' -C $tree check-tiers
run_tests 'building and running the tests with sanitizers' -C $tree check-sanitize
stage 'done'
finished=yes
[ $broken = 0 ] && [ "$(failed)" = 0 ]
