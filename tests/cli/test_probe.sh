#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp conform --probe: each named accumulator is found by its answers, as are those that are the same for a pair of formats, and no
# other; machines that nobody makes are described as they are, and have no name.
. "${srcdir:-.}/tests/cli/cli.shlib"
program=$work/program library=$work/library run=${MXFP_RUN:+$MXFP_RUN } # an emulator
native_cc -std=gnu11 -O2 -ffp-contract=off -o "$program" "${srcdir:-.}/tests/cli/probe_program.c" -lm || { echo "no C compiler"; exit 77; }

# probed ARGS...: what is printed; whatever is described gives all answers, but FP8 of cdna3, which is found by name alone.
probed() {
	exits 0 "" conform "$@" --probe --quick
	same "described, $1" "" "$(awk '/ x / { fnuz = /fnuz/ } /^- so described/ && !fnuz && ($4 != $6 || $11 != $13)' "$work/out")"
}

# is TEXT: a line of what was printed.
is() {
	checks=$((checks + 1))
	grep -qxF -e "$1" "$work/out" || bad "no line '$1' in: $(cat "$work/out")"
}

# Rows: an accumulator; pairs of formats, and the names found for each: doc/numerics.md, section 5. What is equal there is equal here:
# turing and ampere for f16, whose products are none below the least exponent of ampere; hopper and blackwell but for FP8; and chain,
# which is exact's where an operand is in no block format.
# shellcheck disable=SC2086 # CC may contain options
if ${CC:-cc} -std=c11 -O2 -I "${srcdir:-.}/include" -o "$library" "${srcdir:-.}/conformance/library.c" .libs/libmxfp-all.a -lm -lpthread \
	2>/dev/null; then
	library=$run$library
	while read -r acc rows; do
		probed "$library $acc" --products 256
		same "names of $acc" "$(printf '%s' "$rows" | tr ';' '\n')" "$(sed -n 's/^\([a-z0-9-]*\) x \([a-z0-9-]*\)$/\1 \2/; t pair
			s/^- acc: \(.*\) (\([0-9]*\) of \2 dot products equal)$/\1/; t name
			d; : pair; h; d; : name; x; G; s/\n/: /p' "$work/out" | sed 's/, / /g')"
	done <<-END_OF_ACCUMULATORS
		volta f16 f16: volta
		turing f16 f16: turing ampere ada
		ampere tf32 tf32: ampere ada;bf16 bf16: ampere ada;f16 f16: turing ampere ada
		ada tf32 tf32: ampere ada;bf16 bf16: ampere ada;f16 f16: turing ampere ada;e4m3 e4m3: ada;e5m2 e5m2: ada;e4m3 e5m2: ada
		hopper tf32 tf32: hopper blackwell;bf16 bf16: hopper blackwell;f16 f16: hopper blackwell;e4m3 e4m3: hopper;e5m2 e5m2: hopper;e4m3 e5m2: hopper
		hopper-mma e4m3 e4m3: hopper-mma;e5m2 e5m2: hopper-mma;e4m3 e5m2: hopper-mma
		blackwell tf32 tf32: hopper blackwell;bf16 bf16: hopper blackwell;f16 f16: hopper blackwell;e4m3 e4m3: blackwell;e5m2 e5m2: blackwell;e4m3 e5m2: blackwell;mxfp8-e4m3 mxfp8-e4m3: blackwell;mxfp8-e5m2 mxfp8-e5m2: blackwell;mxfp8-e4m3 mxfp4: blackwell;mxfp6-e3m2 mxfp6-e3m2: blackwell;mxfp6-e2m3 mxfp6-e2m3: blackwell;mxfp4 mxfp4: blackwell;nvfp4 nvfp4: blackwell
		cdna2 bf16 bf16: cdna2;f16 f16: cdna2
		cdna3 tf32 tf32: cdna3;bf16 bf16: cdna3;f16 f16: cdna3;e4m3fnuz e4m3fnuz: cdna3;e5m2fnuz e5m2fnuz: cdna3;e4m3fnuz e5m2fnuz: cdna3
		fmmla e4m3 e4m3: fmmla;e5m2 e5m2: fmmla;e4m3 e5m2: fmmla
		ace e4m3 e4m3: ace;e5m2 e5m2: ace;e4m3 e5m2: ace;mxfp8-e4m3 mxfp8-e4m3: ace;mxfp8-e5m2 mxfp8-e5m2: ace
		vdpbf16ps bf16 bf16: vdpbf16ps
		tdpbf16ps bf16 bf16: tdpbf16ps
		exact f32 f32: chain;tf32 tf32: chain;bf16 bf16: chain;f16 f16: chain;mxfp8-e4m3 mxfp8-e4m3: exact;mxfp8-e5m2 mxfp8-e5m2: exact;mxfp8-e4m3 mxfp4: exact;mxfp6-e3m2 mxfp6-e3m2: exact;mxfp6-e2m3 mxfp6-e2m3: exact;mxfp4 mxfp4: exact;nvfp4 nvfp4: exact;bf16 mxfp4: chain
		chain f32 f32: chain;tf32 tf32: chain;bf16 bf16: chain;f16 f16: chain;mxfp8-e4m3 mxfp8-e4m3: chain;mxfp8-e5m2 mxfp8-e5m2: chain;mxfp8-e4m3 mxfp4: chain;mxfp6-e3m2 mxfp6-e3m2: chain;mxfp6-e2m3 mxfp6-e2m3: chain;mxfp4 mxfp4: chain;nvfp4 nvfp4: chain;bf16 mxfp4: chain
	END_OF_ACCUMULATORS

	# The words, of some; the passes of DeepGEMM.
	probed "$library hopper 128" --products 512 --only 'e4m3 e4m3' --only 'bf16 bf16'
	is "- order (512 products): steps of 32 products and the sum so far, 4 of them, ascending; 4 of these, 128 apart, added one by one"
	is "- a step of several: terms are aligned to the largest exponent and cut toward zero at 13 fraction bits; the result is cut toward zero to 14 bits"
	is "- a step of several: terms are aligned to the largest exponent, at least 2^-133, and cut toward zero at 25 fraction bits; the result is cut toward zero to 24 bits"
	is "- an addition of two: the exact sum is rounded to nearest even to 24 bits"
	is "- acc: hopper with pass_k 128 (180 of 180 dot products equal)"
	probed "$library tdpbf16ps" --products 256
	is "- order (256 products): chains of 16 products, 2 apart; pairs of these, 1 apart; 8 of these, 32 apart, added one by one"
	is "- subnormals: of A flushed, of W flushed, results flushed"
	probed "$library ace" --products 256 --only 'e4m3 e4m3' --only 'mxfp8-e5m2 mxfp8-e5m2'
	same "NaN that are numbers" 2 "$(grep -cxF -e '- codes of NaN and Inf: numbers' "$work/out")"
	is "- order (256 products): steps of 4 products; 64 of these, 4 apart, added one by one"
	is "- in a block: each 4 products are a sum, which is added"
	probed "$library blackwell" --products 512 --only 'nvfp4 nvfp4'
	is "- order (512 products): steps of 4 blocks and the sum so far, 8 of them, ascending"
	is "- in a block: the exact sum of its products is one term"
	probed "$library cdna3" --products 256 --only 'bf16 bf16'
	is "- a step of several: terms are aligned to the largest exponent and cut toward zero at 24 fraction bits; their sum, at 32, and the sum so far, at 24, are rounded down and added, and that, at 31, rounded down; the result is rounded to nearest even to 24 bits"
fi

# odd MACHINE LINE...: lines for f32 and for bf16, and no name.
odd() {
	probed "$program $1" --products 256
	shift
	for line; do
		same "lines of '$line'" 2 "$(grep -cxF -e "$line" "$work/out")"
	done
	same "names of none" 2 "$(grep -c '^- acc: none gives these answers' "$work/out")"
}
odd cut-22 "- order (256 products): steps of 8 products (0 32 64 96 128 160 192 224) and the sum so far, 32 of them, 1 apart" \
	"- a step of several: terms are aligned to the largest exponent and cut toward zero at 22 fraction bits; the result is cut toward zero to 22 bits"
odd down "- order (256 products): steps of 4 products and the sum so far, 64 of them, ascending" \
	"- a step of several: terms are aligned to the largest exponent and rounded down at 20 fraction bits; the result is rounded to nearest even to 24 bits or more"
odd fours "- a step of several: terms are aligned to the largest exponent and cut toward zero at 22 fraction bits; the result is cut toward zero to 24 bits"
odd pairs "- order (256 products): chains of 2 products, ascending; pairs of these, 2, 4, 8, 16, 32, 64, 128 apart" \
	"- each addition: the exact sum is rounded to nearest even to 24 bits" "- products: rounded, then added"
odd binary64 "- order (256 products): a chain of 256 products, descending" \
	"- each addition: the exact sum is rounded to nearest even to 53 bits" "- products: not rounded"
odd bf16 "- each addition: the exact sum is rounded to nearest even to 8 bits" "- answers: rounded to bf16"
odd lanes "- order (256 products): chains of 64 products, 4 apart; 4 of these, 1 apart, added one by one from the last on" \
	"- products: fused with the addition, but the first of each sum" "- subnormals: of A kept, of W kept, results flushed"
odd gathered "- order (256 products): chains of 64 products, 4 apart; 4 of these, 1 apart, added at once" \
	"- a step of several: terms are aligned to the largest exponent (of operands or of the product: not determined) and cut toward zero at 18 fraction bits; the result is cut toward zero to 19 bits"

# An order that depends on the numbers is none.
exits 0 "" conform "$program sorted" --probe --quick --products 256
same "sorted products" 2 "$(grep -c ': it sums in another way$' "$work/out")"
# Sums of 8 in binary64, which are rounded and summed in binary32: not one kind of addition.
exits 0 "" conform "$program eights" --probe --quick --products 64 --only 'f32 f32'
is "- each addition: the exact sum is rounded to nearest even to 53 bits (not confirmed)"
is "- products: not rounded (not confirmed)"

exits 0 "" conform "$program pairs" --probe --quick --products 64 --only 'f32 f32' --json
has "JSON" "$(tr -d ' \n' <"$work/out")" '"rounded_products":64'
exits 1 "nothing was probed: it answers dot with acc own for none of the 1 pairs" conform "$program pairs" --probe --only 'f16 f16'
exits 2 "no such pair of formats" conform "$program pairs" --probe --only 'cast e4m3'
exits 2 "--products is a multiple of 64" conform "$program pairs" --probe --products 100
finish
