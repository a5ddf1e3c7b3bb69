#!/bin/bash
# SPDX-License-Identifier: MIT
# Checks every include against the layers in HACKING.md: the lines "FOLDER: FOLDERS" between the markers, which are
# transitive. Prints each violation as FILE:LINE: WHAT.
set -euo pipefail
cd "${srcdir:-$(dirname "$0")/../..}"

folders=()
for folder in include lib ref simd tools bench; do
	[ ! -d "$folder" ] || folders+=("$folder")
done
mapfile -t code < <(find "${folders[@]}" -name '*.[ch]' -o -name '*.def' | sort)

awk -v files="${code[*]}" '
	# The folder of the plan that contains a file: the longest prefix of its path.
	function layer_of(path, name, best) {
		for (name in allowed)
			if (index(path, name "/") == 1 && length(name) > length(best))
				best = name
		return best
	}
	# The file that a quoted name refers to: in the same folder, or in or below an include folder.
	function resolve(from, name, folder, i) {
		folder = from
		sub(/[^\/]*$/, "", folder)
		if ((folder name) in known)
			return folder name
		for (i = 1; i <= n_roots; i++)
			if ((roots[i] "/" name) in known)
				return roots[i] "/" name
		for (i = 1; i <= n_known; i++)
			if (order[i] !~ /^include/ && substr(order[i], length(order[i]) - length(name)) == "/" name)
				return order[i]
		return ""
	}
	function may(from, to, seen, n, i, next_) {
		if (from == to)
			return 1
		if (seen[from]++)
			return 0
		n = split(allowed[from], next_, " ")
		for (i = 1; i <= n; i++)
			if (may(next_[i], to, seen))
				return 1
		return 0
	}
	BEGIN {
		n_roots = split("include lib ref simd tools bench", roots, " ")
		n_known = split(files, order, " ")
		for (i = 1; i <= n_known; i++)
			known[order[i]] = 1
	}
	FILENAME == "HACKING.md" {
		if (/<!-- layers -->/) inside = 1
		if (/<!-- end of layers -->/) inside = 0
		if (inside && match($0, /^[ \t]*[a-z0-9\/]+:/)) {
			line = $0
			gsub(/[ \t]+/, " ", line)
			sub(/^ /, "", line)
			name = substr(line, 1, index(line, ":") - 1)
			allowed[name] = substr(line, index(line, ":") + 1)
			n_layers++
		}
		next
	}
	n_layers == 0 { print "HACKING.md:0: no layers between the markers"; bad = 1; exit }
	/^[ \t]*#[ \t]*include "/ {
		split($0, part, "\"")
		from = layer_of(FILENAME)
		if (from == "") {
			print FILENAME ":" FNR ": its folder is in no line of the layers in HACKING.md"
			bad = 1
			nextfile
		}
		target = resolve(FILENAME, part[2])
		to = layer_of(target)
		delete seen
		# The command takes a few functions of the library besides its interface.
		if (target == "" || (from ~ /^(tools|bench)/ && target == "lib/internal.h") || may(from, to, seen))
			next
		print FILENAME ":" FNR ": " from "/ may not include " target
		bad = 1
	}
	END { exit bad }' HACKING.md "${code[@]}"
