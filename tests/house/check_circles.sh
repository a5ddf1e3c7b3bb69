#!/bin/bash
# SPDX-License-Identifier: MIT
# Checks that the files of lib/, and those of tools/, do not call each other in a circle: nm lists what each object defines
# and needs, and files that need none of the remaining ones are removed until all are gone. Calls through pointers, such
# as those in tables, are not detected. Runs in the build folder.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/../..}

failures=0
for folder in lib tools; do
	# A build folder may hold objects of sources that are gone.
	mapfile -t objects < <(find "$folder" -name '*.o' 2>/dev/null | sort | while read -r object; do
		source=${object/.libs\//}
		source=${source%/*}/$(sed -E 's/^[A-Za-z0-9_]*_l?a-//; s/o$/c/' <<<"${source##*/}")
		[ ! -e "$srcdir/$source" ] && [ ! -e "$source" ] || echo "$object"
	done)
	if [ ${#objects[@]} = 0 ]; then
		echo "SKIP: $folder/ has no objects here"
		exit 77
	fi
	symbols=$(${NM:-nm} -A -g "${objects[@]}" 2>/dev/null) || true
	if ! grep -q ' T ' <<<"$symbols"; then
		echo "SKIP: ${NM:-nm} reads no functions in the objects of $folder/, which may be those of link-time optimization"
		exit 77
	fi
	# "OBJECT:VALUE T NAME" or "OBJECT: U NAME"; automake puts "lib..._la-" or "lib..._a-" before the name of a file.
	awk -v folder="$folder" '
		# A file may be compiled for a static and, in .libs, for a shared library: its calls are the same.
		{
			name = $1
			sub(/\.libs\//, "", name)
			sub(/:[^:]*$/, "", name)
			sub(/\.o$/, "", name)
			sub(/[A-Za-z0-9_]*_l?a-/, "", name)
			files[name] = 1
			if ($(NF - 1) == "U")
				needs[name, $NF] = 1
			else if ($(NF - 1) ~ /^[TDBRCVW]$/)
				defined[$NF] = name
		}
		END {
			for (pair in needs) {
				split(pair, part, SUBSEP)
				other = defined[part[2]]
				if (other != "" && other != part[1] && !((part[1], other) in edge)) {
					edge[part[1], other] = part[2]
					left[part[1]]++
				}
			}
			do {
				gone = 0
				for (name in files) {
					if (left[name] > 0)
						continue
					delete files[name]
					gone = 1
					for (other in files)
						if ((other, name) in edge)
							left[other]--
				}
			} while (gone)
			# What is left is in a circle or above one: take away from above what nobody left needs.
			do {
				gone = 0
				for (name in files) {
					needed = 0
					for (other in files)
						needed += (other != name && (other, name) in edge)
					if (needed == 0) {
						delete files[name]
						gone = 1
					}
				}
			} while (gone)
			for (pair in edge) {
				split(pair, part, SUBSEP)
				if ((part[1] in files) && (part[2] in files)) {
					print part[1] ".c: is in a circle of calls: calls " part[2] ".c: " edge[pair]
					bad = 1
				}
			}
			exit bad
		}' <<<"$symbols" || failures=$((failures + 1))
done
[ $failures = 0 ]
