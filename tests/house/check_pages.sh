#!/bin/bash
# SPDX-License-Identifier: MIT
# Every command has a man page, mxfp(1) lists it as --help does, the page and --help have the same options with the same
# letters and names of their values, an option has one letter in all commands and a letter stands for one option, and the examples
# in the pages are not usage errors.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/../..}
status=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for command in $(./mxfp --help | sed -n 's/^.\{8\}\([a-z][a-z-]*\)  .*/\1/p'); do
	page=$srcdir/doc/mxfp-$command.1
	[ -e "$page" ] || {
		echo "mxfp $command: no $page"
		status=1
		continue
	}
	grep -qxF ".It Xr mxfp-$command 1 Ta $(./mxfp --help | sed -n "s/^.\{8\}$command  *//p")" "$srcdir/doc/mxfp.1" || {
		echo "mxfp $command: doc/mxfp.1 does not list it with the words of --help"
		status=1
	}
	diff <(./mxfp "$command" --help | sed -nE 's/^  (-.,|   ) --([a-z0-9-]+( [^ ]+)?).*/\2 \1/p' | tr -d ', -' | sort) \
		<(sed -nE 's/^\.It Fl -([a-z0-9-]+)( Ar)?(.*)/\1\3/p; s/^\.It Fl (.) , -([a-z0-9-]+)( Ar)?(.*)/\2\4\1/p' "$page" |
			tr -d ', -' | sort) || {
		echo "mxfp $command: < only in --help, > only in the page"
		status=1
	}
	./mxfp "$command" --help | sed -nE "s/^  (-.,|   ) (--[a-z0-9-]+).*/\2 \1 $command/p" | tr -d , >>"$dir/letters"
done
letters=$(awk 'NF == 2 { $3 = $2; $2 = "" }
	$1 in letter && letter[$1] != $2 { print $1 ": \"" letter[$1] "\" in " by[$1] ", \"" $2 "\" in " $3 }
	$2 != "" && $2 in option && option[$2] != $1 { print $2 ": " option[$2] " and " $1 }
	{ letter[$1] = $2; by[$1] = $3; option[$2] = $1 }' "$dir/letters")
[ -z "$letters" ] || {
	echo "options and their letters differ between commands:"
	echo "$letters"
	status=1
}
[ "$(wc -l <"$dir/letters")" -gt 100 ] || status=1

# What programs load: the table in doc/vllm.md is that of the command.
diff <(sed -nE 's/^TARGET\((\w+), *"([^"]*)".*/T \1 \2/p; s/^LOADS\((\w+), (\w+), (\w+), (\w+), "([^"]*)"\)$/L \1 \2 \3 \4 \5/p' \
	"$srcdir/tools/model/target.def" | awk '
	$1 == "T" { name[$2] = $3 }
	$1 == "L" {
		as = $0
		sub(/^L [^ ]+ [^ ]+ [^ ]+ [^ ]+ /, "", as)
		gsub("_", "-")
		target = $2
		gsub("-", "_", target)
		print "| " name[target] " | " $3 " | " tolower($4) " | " tolower($5) " | " as " |"
	}') <(sed -n '/^<!-- targets -->/,/^<!-- end of targets -->/p' "$srcdir/doc/vllm.md" | sed -n '4,$p' | grep '^|') || {
	echo "doc/vllm.md: < only in tools/model/target.def, > only in the page"
	status=1
}

# The examples run without their files, for at most a second; they only must not exit with 2.
build=$PWD
# shellcheck disable=SC2317 # eval calls it
mxfp() {
	local code=0
	timeout -s KILL 1 "$build/mxfp" "$@" || code=$?
	[ "$code" != 2 ] || touch "$dir/usage"
	return "$code"
}
n=0
for page in "$srcdir"/doc/*.[15]; do
	while IFS= read -r line; do
		n=$((n + 1))
		rm -rf "$dir/usage" "$dir/empty"
		mkdir "$dir/empty"
		(cd "$dir/empty" && eval "$line") </dev/null >/dev/null 2>&1 || true
		[ ! -e "$dir/usage" ] || {
			echo "$page: a usage error: $line"
			status=1
		}
	done < <(sed -n '/^\.Sh EXAMPLES/,/^\.Sh [^E]/{s/^\.Dl mxfp /mxfp /p;s/^\(\.Dl \)\{0,1\}\$ //p}' "$page" |
		sed 's/\\e/\\/g; s/\\(dq/"/g; s/\\&//g')
done
echo "$n examples"
[ $n -gt 0 ] || status=1
exit $status
