#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh FOLDER [CHART_JS]: C arrays of the page of a report, what comes before its verdict, from there to its data, and
# after, to stdout. The page is FOLDER/report.html, in which a line @NAME@ stands for the file FOLDER/NAME, @chart.js@ for
# CHART_JS, @verdict@ for the verdict and @report.json@ for the data. Without CHART_JS there is no page, and the arrays are
# of length 0.
set -eu
LC_ALL=C
export LC_ALL
work=$(mktemp -d "${TMPDIR:-/tmp}/embed.XXXXXX")
trap 'rm -rf "$work"' EXIT
: >"$work/head" >"$work/body" >"$work/tail"

# A line of Chart.js says where the map of its sources would be, which browsers look for. A script ends at </script.
if [ -n "${2-}" ]; then
	awk -v folder="$1" -v chart="$2" -v work="$work" '
		function fail(what) { print "embed.sh: " what | "cat >&2"; failed = 1; exit 1 }
		BEGIN { part = work "/head" }
		$0 == "@verdict@" { part = work "/body"; next }
		$0 == "@report.json@" { part = work "/tail"; next }
		/^@[a-z_.]+@$/ {
			name = substr($0, 2, length($0) - 2)
			file = name == "chart.js" ? chart : folder "/" name
			while ((got = (getline line <file)) > 0) {
				if (line ~ /<\/script/)
					fail(file ": holds </script")
				if (line !~ /^\/\/# sourceMappingURL=/)
					print line >part
			}
			if (got < 0)
				fail(file ": cannot be read")
			next
		}
		{ print >part }
		END { exit failed }' "$1/report.html"
fi

# array NAME FILE: its bytes, and a 0 that does not count, as no array is empty.
array() {
	printf 'const unsigned char %s[] = {\n' "$1"
	od -An -v -tx1 "$2" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
	printf '0};\nconst size_t %s_size = sizeof %s - 1;\n' "$1" "$1"
}

printf '/* Made by embed.sh. */\n#include "report/page.h"\n'
array report_page_head "$work/head"
array report_page_body "$work/body"
array report_page_tail "$work/tail"
