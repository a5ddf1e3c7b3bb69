# SPDX-License-Identifier: MIT
# Writes section 3 of the manual, a page a function, from the comments of the public headers:
#   awk -v out=DIRECTORY -f scripts/pages.awk doc/libmxfp.3 include/mxfp/*.h
# With -v list=1 instead of out, prints the functions. doc/libmxfp.3 has the date of the pages.
#
# A page has the declaration, the structs and enums of the same header that it names, the comment before it (or before the
# function in front of it, if both share one), and as a list the comment's lines "MXFP_ERR_X  when". A comment that has a line
# "Functions of this header that have a result" belongs to the pages of these, too.

function clear(array,   i) {
	for (i in array)
		delete array[i]
}

# escape(TEXT): a line of text for mdoc.
function escape(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	if (text ~ /^[.']/)
		text = "\\\&" text
	return text
}

# is_error(LINES, I): whether line I belongs to an error: a line "MXFP_ERR_X  when" or what follows it, indented.
function is_error(lines, i) {
	while (lines[i] ~ /^ /)
		i--
	return lines[i] ~ /^MXFP_ERR_[A-Z_]+ /
}

# emit_text(FILE, LINES, N): prints the lines of a comment that are not of errors.
function emit_text(file, lines, n,   i, line, literal, blank) {
	literal = blank = 0
	for (i = 1; i <= n; i++) {
		line = lines[i]
		if (is_error(lines, i))
			continue
		if (line == "") {
			blank = 1
			continue
		}
		if (line ~ /^    /) {
			if (!literal)
				print ".Bd -literal -offset indent" >>file
			literal = 1
			print escape(substr(line, 5)) >>file
			blank = 0
			continue
		}
		if (literal)
			print ".Ed" >>file
		if (blank && !literal)
			print ".Pp" >>file
		literal = blank = 0
		print escape(line) >>file
	}
	if (literal)
		print ".Ed" >>file
}

# emit_errors(FILE, LINES, N): prints those of errors; returns their number.
function emit_errors(file, lines, n, first,   i, line, errors) {
	errors = 0
	for (i = 1; i <= n; i++) {
		if (!is_error(lines, i))
			continue
		line = lines[i]
		if (errors++ == 0 && first)
			printf ".Sh ERRORS\nBesides what any function may return\n.Pq Xr libmxfp 3 :\n.Bl -tag -width \"MXFP_ERR_NON_FINITE\" -compact\n" >>file
		if (line ~ /^MXFP/)
			printf ".It Dv %s\n", substr(line, 1, index(line, " ") - 1) >>file
		sub(/^MXFP_ERR_[A-Z_]+ +|^ +/, "", line)
		print escape(line) >>file
	}
	return errors
}

# page(NAME, DECLARATION): writes the page of a function.
function page(name, declaration,   engine, errors, with, file, what, i, t, seen, rest, other, separator, all) {
	if (list) {
		print name
		return
	}
	file = out "/" name ".3"
	engine = header == "mxfp/engine.h"
	what = comment[1]
	for (i = 2; i <= n_comment && what !~ /[.:](  *|$)/; i++)
		what = what " " comment[i]
	sub(/[.:]( .*)?$/, "", what)
	what = tolower(substr(what, 1, 1)) substr(what, 2)
	printf ".\\\" SPDX-License-Identifier: MIT\n.\\\" Made by scripts/pages.awk from include/%s\n%s\n.Dt %s 3\n.Os libmxfp\n", header, date, toupper(name) >file
	printf ".Sh NAME\n.Nm %s\n.Nd %s\n.Sh LIBRARY\n%s\n.Sh SYNOPSIS\n.In %s\n.Bd -literal\n%s\n", name, escape(what),
		engine ? "libmxfp\\-engine (\\-lmxfp\\-engine, \\-lmxfp)" : "libmxfp (\\-lmxfp)", engine ? header : "mxfp.h", escape(declaration) >>file
	all = declaration
	for (i = 1; i <= n_types; i++)
		if (index(all " ", type_name[i] " ") || index(all, type_name[i] "\n"))
			printf "\n%s\n", escape_block(type_text[i]) >>file
	print ".Ed" >>file
	print ".Sh DESCRIPTION" >>file
	emit_text(file, comment, n_comment)
	with = n_shared > 0 && declaration ~ /struct mxfp_result \*/
	if (with) {
		print ".Pp" >>file
		emit_text(file, shared, n_shared)
	}
	errors = emit_errors(file, comment, n_comment, 1)
	if (with)
		errors += emit_errors(file, shared, n_shared, errors == 0)
	if (errors > 0)
		print ".El" >>file
	print ".Sh SEE ALSO" >>file
	rest = ""
	for (i = 1; i <= n_comment; i++)
		rest = rest " " comment[i]
	seen = " " name " "
	separator = ""
	while (match(rest, /mxfp_[a-z0-9_]+\(/)) {
		other = substr(rest, RSTART, RLENGTH - 1)
		rest = substr(rest, RSTART + RLENGTH)
		if (index(seen, " " other " "))
			continue
		seen = seen other " "
		printf ".Xr %s 3 ,\n", other >>file
	}
	print ".Xr libmxfp 3" >>file
	close(file)
}

function escape_block(text,   lines, n, i, result) {
	n = split(text, lines, "\n")
	result = ""
	for (i = 1; i <= n; i++)
		result = result (i > 1 ? "\n" : "") escape(lines[i])
	return result
}

FNR == 1 {
	header = FILENAME
	sub(/^.*\/include\//, "", header)
	sub(/^include\//, "", header)
	n_types = n_comment = n_shared = 0
	in_comment = in_type = in_declaration = 0
}
FILENAME ~ /\.3$/ {
	if ($1 == ".Dd")
		date = $0
	next
}

# Comments.
/^\/\*/ || in_comment {
	line = $0
	if (!in_comment)
		n_comment = 0
	in_comment = line !~ /\*\/$/
	sub(/^\/\* ?/, "", line)
	sub(/ ?\*\/$/, "", line)
	sub(/^ \* ?/, "", line)
	sub(/^   /, "", line)
	if (line != "" || n_comment > 0)
		comment[++n_comment] = line
	if (line ~ /^Functions of this header that have a result/)
		shares = 1
	if (shares && !in_comment) {
		for (n_shared = 0; n_shared < n_comment; n_shared++)
			shared[n_shared + 1] = comment[n_shared + 1] ~ /^Functions of this header/ ? "" : comment[n_shared + 1]
		shares = 0
	}
	next
}

# Types.
/^(struct|enum) mxfp_[a-z_]+ \{$/ {
	in_type = 1
	type_name[++n_types] = $1 " " $2
	type_text[n_types] = $0
	next
}
in_type {
	type_text[n_types] = type_text[n_types] "\n" $0
	in_type = $0 !~ /^};/
	next
}

# Functions.
/^MXFP_API / {
	in_declaration = 1
	declaration = substr($0, 10)
	if (declaration !~ /;$/)
		next
}
in_declaration {
	if ($0 !~ /^MXFP_API /) {
		line = $0
		sub(/^ +/, "\t", line)
		sub(/^\t+/, "\t", line)
		declaration = declaration "\n" line
	}
	if ($0 !~ /;$/)
		next
	in_declaration = 0
	name = declaration
	sub(/\(.*/, "", name)
	sub(/^.*[ *]/, "", name)
	page(name, declaration)
}
