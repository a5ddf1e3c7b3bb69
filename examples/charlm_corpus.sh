#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints what examples/charlm.txt is a snapshot of: the project's documents and the comments of its C sources, in ASCII.
set -eu
cd "$(dirname "$0")/.."

# shellcheck disable=SC2016 # awk's fields
comments='
	# A line inside a comment, or the comment part of a line, without its leading star.
	{
		if (!inside && !match($0, /\/\*/))
			next
		text = inside ? $0 : substr($0, RSTART + 2)
		inside = !match(text, /\*\//)
		if (!inside)
			text = substr(text, 1, RSTART - 1)
		sub(/^[ \t]*\*?[ \t]*/, "", text)
		print text
	}'

{
	cat README.md HACKING.md NEWS COPYING doc/numerics.md
	awk "$comments" include/*.h include/mxfp/*.h lib/*.[ch] lib/*/*.[ch] lib/*.def ref/*.[ch] tools/*.c tools/*/*.[ch] tools/*/*.def \
		tests/*.[ch] tests/*/*.[ch] fuzz/*.c
} | tr '\t' ' ' | LC_ALL=C tr -cd '\n -~' | sed 's/ *$//' | cat -s
