# SPDX-License-Identifier: MIT
# Prints a public header with the enumerators of its enums as the tables of lib/ have them:
#   awk -f scripts/enums.awk lib/format.def lib/option.def lib/status.def include/mxfp/options.h
# An enum is one of a table if its name is that of the table's rows: enum mxfp_rule has the rows MXFP_RULE(...).

# field(ROW, I): the I-th quoted string of a row.
function field(row, i,   parts) {
	split(row, parts, "\"")
	return parts[2 * i]
}

FILENAME ~ /\.def$/ {
	if (!match($0, /^MXFP_[A-Z_]+\([A-Z0-9_]+, *-?[0-9]+,/))
		next
	head = substr($0, 1, RLENGTH - 1)
	table = substr(head, 6, index(head, "(") - 6)
	id = substr(head, index(head, "(") + 1, index(head, ",") - index(head, "(") - 1)
	value = substr(head, index(head, ",") + 1)
	gsub(/ /, "", value)
	comment = field($0, 1)
	if (table == "ELEMENT" || table == "BLOCK")
		table = "FORMAT"
	else if (table != "STATUS")
		comment = field($0, 2)
	name = table == "STATUS" ? id : table "_" id
	rows[table] = rows[table] sprintf("\tMXFP_%s = %s, /* %s */\n", name, value, comment)
	next
}

/^enum mxfp_[a-z_]+ \{$/ {
	name = toupper(substr($2, 6))
	print
	if (name in rows) {
		printf "%s", rows[name]
		skipping = 1
	}
	next
}
/^};$/ { skipping = 0 }
!skipping
