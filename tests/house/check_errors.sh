#!/bin/bash
# SPDX-License-Identifier: MIT
# The errors that the public headers document are those that tests/unit/errors.def provokes: of each function that returns a
# status, the lines "MXFP_ERR_X  when" of its comment, those of the functions that it says it has errors as, those of its header for
# functions with a result, and those of mxfp.h, as far as its declaration has what can be wrong.
set -euo pipefail
cd "${srcdir:-$(dirname "$0")/../..}"

# Lines "FUNCTION CODE", of errors that have a row, and of those that are said not to be.
# shellcheck disable=SC2086 # CC may contain options
pairs() {
	printf '%s\n' '#define F(function, parts, given)' "#define $1(function, code, ...) @@@ function MXFP_##code" \
		"#define $2(function, code, ...)" '#include "errors.def"' | ${CC:-cc} -E -P -x c -I tests/unit - |
		sed 's/@@@ /\n&/g' | sed -n 's/^@@@ \([a-z0-9_]*\) \(MXFP_ERR_[A-Z_]*\).*/\1 \2/p' | sort -u
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
pairs E N >"$dir/pairs.provoked"
pairs N E >"$dir/pairs.never"
[ -s "$dir/pairs.provoked" ]

awk '
# The errors in the comment before this line, and what it says besides.
function take(   i, line, n, names, text) {
	codes = others = excepted = ""
	for (i = 1; i <= n_comment; i++) {
		line = comment[i]
		if (match(line, /^MXFP_ERR_[A-Z_]+ /))
			codes = codes " " substr(line, 1, RLENGTH - 1)
		if (line !~ /^Errors as /)
			continue
		text = line
		while (i < n_comment && comment[i + 1] != "")
			text = text " " comment[++i]
		n = split(text, names, /[^A-Za-z0-9_]+/)
		for (j = 1; j <= n; j++)
			if (names[j] ~ /^mxfp_/)
				others = others " " names[j]
			else if (names[j] ~ /^MXFP_ERR_/)
				excepted = excepted " " names[j]
	}
}

# Whether a declaration, or the body of a struct, names a struct of the set.
function names_of(text, set,   rest) {
	rest = text
	while (match(rest, /struct mxfp_[a-z_]+/)) {
		if (substr(rest, RSTART + 7, RLENGTH - 7) in set)
			return 1
		rest = substr(rest, RSTART + RLENGTH)
	}
	return 0
}

# Whether an error of every function can be one of this.
function concerns(code, name,   text) {
	text = declaration[name]
	if (code == "MXFP_ERR_NULL")
		return text ~ /\*/
	if (code == "MXFP_ERR_VERSION")
		return names_of(text, sized)
	if (code == "MXFP_ERR_ISA")
		return text ~ /struct mxfp_exec/
	if (code == "MXFP_ERR_STRIDE")
		return text ~ /stride/ || names_of(text, strided)
	if (code == "MXFP_ERR_SIZE")
		return text ~ /size_t [a-z]/ || text ~ /struct mxfp_attention_cache/ || names_of(text, strided)
	if (code == "MXFP_ERR_OVERLAP")
		return text ~ /struct mxfp_exec/ && name !~ /_size$/
	print "check_errors.sh: no rule which functions " code " of mxfp.h concerns"
	failed = 1
	return 0
}

function add(set, words,   i, n, list) {
	n = split(words, list, " ")
	for (i = 1; i <= n; i++)
		set[list[i]] = 1
}

# Sets codes_of[name, code] of a function: 2 if the header names it, 1 if mxfp.h does.
function resolve(name,   i, j, n, list, key, other) {
	if (resolved[name]++)
		return
	for (key in common)
		if (concerns(key, name))
			codes_of[name, key] = 1
	n = split(own[name], list, " ")
	for (i = 1; i <= n; i++)
		codes_of[name, list[i]] = 2
	n = split(as[name], list, " ")
	for (i = 1; i <= n; i++) {
		other = list[i]
		if (!(other in declaration)) {
			print "errors of " name " as of " other "(), which is no function"
			failed = 1
			continue
		}
		resolve(other)
		for (key in every)
			if ((other, key) in codes_of && index(but[name] " ", " " key " ") == 0 && codes_of[name, key] < 2)
				codes_of[name, key] = key in common ? 1 : codes_of[other, key]
	}
	n = split(but[name], list, " ")
	for (i = 1; i <= n; i++)
		delete codes_of[name, list[i]]
}

FNR == 1 {
	n_comment = in_comment = in_struct = in_declaration = 0
	of_results[FILENAME] = ""
	kind = FILENAME ~ /\.provoked$/ ? "provoked" : FILENAME ~ /\.never$/ ? "never" : "header"
}
kind != "header" {
	if (kind == "provoked")
		provoked[$1, $2] = 1
	else
		never[$1, $2] = 1
	seen[$1] = 1
	every[$2] = 1
	next
}
/^\/\*/ || in_comment {
	line = $0
	if (!in_comment)
		n_comment = 0
	in_comment = line !~ /\*\/$/
	sub(/^\/\* ?/, "", line)
	sub(/ ?\*\/$/, "", line)
	sub(/^ \* ?/, "", line)
	sub(/^   /, "", line)
	comment[++n_comment] = line
	if (!in_comment) {
		take()
		add(every, codes)
		for (i = 1; i <= n_comment; i++)
			if (comment[i] ~ /^Errors that any function may return/)
				add(common, codes)
			else if (comment[i] ~ /^Functions of this header that have a result return/)
				of_results[FILENAME] = codes
	}
	next
}
/^struct mxfp_[a-z_]+ \{$/ {
	in_struct = $2
	next
}
in_struct {
	body[in_struct] = body[in_struct] " " $0
	if (/^};/)
		in_struct = 0
	next
}
/^MXFP_API enum mxfp_status / {
	in_declaration = 1
	text = ""
}
in_declaration {
	text = text " " $0
	if (!/;$/)
		next
	in_declaration = 0
	name = text
	sub(/\(.*/, "", name)
	sub(/^.*[ *]/, "", name)
	sub(/^[^(]*/, "", text)
	declaration[name] = text
	order[++n_functions] = name
	take()
	own[name] = codes (text ~ /struct mxfp_result/ ? " " of_results[FILENAME] : "")
	as[name] = others
	but[name] = excepted
}

END {
	for (name in body)
		if (body[name] ~ /^ \tsize_t size;/)
			sized[name] = 1
	for (name in body)
		if (body[name] ~ /[ _]stride;/)
			strided[name] = 1
	for (name in body)
		if (names_of(body[name], strided))
			holds[name] = 1
	for (name in holds)
		strided[name] = 1
	for (f = 1; f <= n_functions; f++) {
		name = order[f]
		resolve(name)
		delete seen[name]
		for (code in every) {
			documented = codes_of[name, code] + 0
			if (documented && !((name, code) in provoked) && !(documented == 1 && (name, code) in never)) {
				print name "() may return " code ": no row of tests/unit/errors.def provokes it"
				failed = 1
			}
			if (!documented && !(code in common) && (name, code) in provoked) {
				print name "() returns " code " in tests/unit/errors.def: its header does not say so"
				failed = 1
			}
			if ((name, code) in never && ((name, code) in provoked || documented != 1)) {
				print name "() never returns " code ", says tests/unit/errors.def: it is provoked, or its header says otherwise"
				failed = 1
			}
			n_pairs += documented > 0
		}
	}
	for (name in seen) {
		print name "() has rows in tests/unit/errors.def and is no function that returns a status"
		failed = 1
	}
	print n_functions " functions, " n_pairs " errors"
	exit failed
}' include/mxfp.h include/mxfp/*.h "$dir/pairs.provoked" "$dir/pairs.never"
