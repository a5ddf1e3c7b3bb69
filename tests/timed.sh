#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a test by automake's driver and, if MXFP_TEST_TIMES names a file, adds a line to it: seconds that passed, seconds of
# processor time, the test's name. AM_TESTS_ENVIRONMENT puts this before the driver.
[ -n "$MXFP_TEST_TIMES" ] || exec "$@"
began=$(date +%s.%N)
status=0
"$@" || status=$?
ended=$(date +%s.%N)
# The second line of times: user and system time of children, as 1m2.345s. A substitution would be a shell that has none.
times >"$MXFP_TEST_TIMES.$$"
spent=$(sed -n 2p "$MXFP_TEST_TIMES.$$")
rm "$MXFP_TEST_TIMES.$$"
name=
while [ $# -gt 1 ]; do
	[ "$1" != --test-name ] || name=$2
	shift
done
echo "$began $ended $spent $name" | awk '
	function seconds(text, part) {
		split(text, part, /[ms]/)
		return 60 * part[1] + part[2]
	}
	{ printf "%.1f %.1f %s\n", $2 - $1, seconds($3) + seconds($4), $5 }' >>"$MXFP_TEST_TIMES"
exit $status
