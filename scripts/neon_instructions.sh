#!/bin/bash
# SPDX-License-Identifier: MIT
# Counts the instructions that tier neon executes, a figure of its speed where no machine of that kind is at hand. Prints a table
# for each CPU of qemu that it is given: instructions for each 1000 multiply-adds of products of packed weights, and for each
# element of A. By default these are a CPU without dot products of bytes, one with them, and one with products of matrices of
# bytes besides. A CPU that executes the same as the one before gets a line that says so. Needs Debian; takes five minutes
# a CPU.
set -euo pipefail
. "$(dirname "$0")/emulated.shlib"

[ $# -gt 0 ] || set -- cortex-a72 neoverse-n1 max

emulated_configure aarch64 arm64
make -s -C "$tree" "-j$(nproc)" bench/instructions >&2
for cpu; do
	$run -cpu "$cpu" "$tree/bench/instructions" >/dev/null || fail "qemu-aarch64 -cpu $cpu does not run bench/instructions"
done

# count CPU: prints "A W M N K instructions" for each product. qemu logs a line whenever it runs a block of code, since blocks are
# not chained: the third word is the block's address in qemu, the last the function. Before the first of these lines of a block
# it logs the block's instructions. bench/instructions writes a line before each product.
count() {
	$run -cpu "$1" -d in_asm,exec,nochain "$tree/bench/instructions" 2>&1 | awk '
		/^Trace / {
			if (instructions > 0) {
				length_of[$3] = instructions
				instructions = 0
			}
			if (!counts) {
				counts = $NF == "begin_count"
				sum = 0
			} else if ($NF == "end_count") {
				counts = 0
				products++
				print product, sum
			} else if (!($3 in length_of)) {
				exit
			} else {
				sum += length_of[$3]
			}
		}
		/^0x/ { instructions++ }
		/^OBJD-T:/ { instructions += length($2) / 8 }
		/^product / { product = $2 " " $3 " " $4 " " $5 " " $6 }
		END { if (products == 0 || counts) exit 1 }
	' || fail "qemu-aarch64 -cpu $1 did not log what it ran"
}

# table: prints what a multiply-add takes in a column more, by the difference of two products, and for each element of A what is
# left without columns at the most rows, which is chiefly packing.
table() {
	awk '
		{
			pair = $1 " | " $2
			if (!(pair in known)) {
				known[pair] = 1
				order[++pairs] = pair
			}
			if (!($3 in has_rows)) {
				has_rows[$3] = 1
				rows[++n_rows] = $3
			}
			if (!($4 in has_columns)) {
				has_columns[$4] = 1
				columns[++n_columns] = $4
			}
			count[pair, $3, $4] = $6
			depth = $5
		}
		END {
			printf "| A | W |"
			for (j = 1; j <= n_rows; j++)
				printf " %d row%s |", rows[j], rows[j] == 1 ? "" : "s"
			printf " element of A |\n|---|---|"
			for (j = 0; j <= n_rows; j++)
				printf "---:|"
			print ""
			for (i = 1; i <= pairs; i++) {
				printf "| %s |", order[i]
				for (j = 1; j <= n_rows; j++) {
					column = (count[order[i], rows[j], columns[2]] - count[order[i], rows[j], columns[1]]) / (columns[2] - columns[1])
					printf " %.0f |", 1000 * column / (rows[j] * depth)
				}
				printf " %.0f |\n", (count[order[i], rows[n_rows], columns[1]] - columns[1] * column) / (rows[n_rows] * depth)
			}
		}
	'
}

tables=$tree/instructions
mkdir -p "$tables"
before=
for cpu; do
	count "$cpu" | table >"$tables/$cpu"
	if [ -n "$before" ] && cmp -s "$tables/$before" "$tables/$cpu"; then
		printf '\n%s: as %s\n' "$cpu" "$before"
		continue
	fi
	printf '\n%s: instructions for each 1000 multiply-adds, and for each element of A\n\n' "$cpu"
	cat "$tables/$cpu"
	before=$cpu
done
