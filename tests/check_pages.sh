#!/bin/bash
# SPDX-License-Identifier: MIT
# Every command has a man page, and page and --help name the same options with the same words for their values.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/..}
status=0

for command in $(./mxfp --help | sed -n 's/^.\{8\}\([a-z][a-z-]*\)  .*/\1/p'); do
	page=$srcdir/doc/mxfp-$command.1
	[ -e "$page" ] || {
		echo "mxfp $command: no $page"
		status=1
		continue
	}
	grep -qx "\.Xr mxfp-$command 1" "$srcdir/doc/mxfp.1" || {
		echo "mxfp $command: not in doc/mxfp.1"
		status=1
	}
	diff <(./mxfp "$command" --help | sed -nE 's/^  (-.,|   ) --([a-z0-9-]+( [^ ]+)?).*/\2/p' | sort) \
		<(sed -nE 's/^\.It (Fl . , -|Fl -)([a-z0-9-]+)( Ar)?(.*)/\2\4/p' "$page" | sort) || {
		echo "mxfp $command: < only in --help, > only in the page"
		status=1
	}
done
exit $status
