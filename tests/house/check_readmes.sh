#!/bin/bash
# SPDX-License-Identifier: MIT
# Every source is named in the README.md of its folder, or of the nearest one above that has one; `x.c` names x.h too. What
# a README names exists: files, and functions in a file of its folder. Prints each violation as FILE:LINE: WHAT.
set -euo pipefail
cd "${srcdir:-$(dirname "$0")/../..}"

kinds='c|cc|h|def|map|py|sh|shlib|awk|js|css|html|bash|fish|zsh'
folders=()
for folder in include lib ref simd tools bench tests fuzz examples conformance scripts doc python; do
	[ ! -d "$folder" ] || folders+=("$folder")
done
mapfile -t made < <(sed -n 's/^nodist_[A-Za-z_]* *+*= *//p' ./*/Makefile.inc | tr ' ' '\n' | sed 's/^%D%.//')
# What pip builds in python/ is no source.
pip='python/(build|dist|libmxfp)/'
mapfile -t files < <(find "${folders[@]}" -regextype posix-extended -regex ".*\.($kinds)|doc/[^/]*\.md" ! -name README.md |
	grep -vE "^$pip" | grep -vFf <(printf '/%s\n' "${made[@]}") | sort)
mapfile -t readmes < <(find "${folders[@]}" -name README.md | grep -vE "^$pip" | sort)

status=0
awk -v list="${files[*]}" -v kinds="$kinds" '
	FNR == 1 {
		folder = FILENAME
		sub(/[^\/]*$/, "", folder)
		has_readme[folder] = 1
	}
	BEGIN {
		n = split(list, files, " ")
		for (i = 1; i <= n; i++)
			exists[files[i]] = 1
	}
	{
		n_words = split($0, words, "`")
		for (i = 2; i < n_words; i += 2) {
			word = words[i]
			if (word !~ ("^[A-Za-z0-9_./-]+[.](" kinds "|md)$"))
				continue
			if ((folder word) in exists)
				named[folder word] = 1
			else if (!(word in exists) && (getline line <word) < 0) {
				print FILENAME ":" FNR ": there is no " word
				bad = 1
			}
		}
	}
	END {
		for (i = 1; i <= n; i++) {
			owner = files[i]
			do
				sub(/[^\/]*\/?$/, "", owner)
			while (owner != "" && !(owner in has_readme))
			source = files[i]
			sub(/\.h$/, ".c", source)
			if (files[i] in named || source in named)
				continue
			print files[i] ":0: " (owner == "" ? "its folder has no README.md" : "is not named in " owner "README.md")
			bad = 1
		}
		exit bad
	}' "${readmes[@]}" || status=1

# Functions: `name()` in lib/README.md is a word of lib/.
for readme in "${readmes[@]}"; do
	grep -noE '`[a-z][a-z0-9_]*\(\)`' "$readme" | tr -d '`()' | while IFS=: read -r line name; do
		grep -rqwF --include='*.[ch]' --include='*.def' -e "$name" "${readme%/*}" || echo "$readme:$line: there is no function $name()"
	done
done | grep . && status=1
exit $status
