#!/bin/bash
# SPDX-License-Identifier: MIT
# What the command writes and prints is the same at every tier that the machine has, in every bit: each command that computes is run
# at each of them, whatever MXFP_ISA says, and its files and numbers are compared with those of ref. Which of them are right is for
# other tests to say.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
unset MXFP_ISA

python3 "${srcdir:-.}/tests/cli/small_llama.py" "$work" || exit 99

# Matrices of numbers of many magnitudes, with zeros, and columns of outliers: more rows and columns than any kernel's
# tile has, and no multiple of one.
python3 - "$work" <<'END' || exit 99
import random, struct, sys

draw = random.Random(3)
def write(name, rows, cols, spread):
    numbers = [0.0 if draw.random() < 0.02 else draw.gauss(0, 2.0 ** draw.uniform(-spread, spread)) * (40 if i % cols % 61 == 7 else 1)
               for i in range(rows * cols)]
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, cols)
    text += " " * (117 - len(text)) + "\n"
    with open(sys.argv[1] + "/" + name + ".npy", "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + struct.pack("<%df" % len(numbers), *numbers))
write("few", 3, 352, 2)
write("many", 37, 352, 2)
write("w", 51, 352, 3)
write("wild", 64, 96, 60)
END
tail -c +129 "$work/wild.npy" >"$work/wild.raw"

# The tiers; ref comes first.
tiers=$("$mxfp" info | sed -n '/^Instruction-set tiers/,/^$/s/^  \([a-z0-9]*\) *\(available\|in use\).*/\1/p')
formats=$("$mxfp" info | sed -n '/^Block formats/,/^$/s/^  \([a-z0-9-]*\)  *[a-z0-9]*  *[0-9].*/\1/p')
elements=$("$mxfp" info | sed -n '/^Element formats/,/^$/s/^  \([a-z0-9]*\)  *[0-9].*/\1/p')
recipes=$("$mxfp" info | sed -n '/NVFP4 recipes/,/^$/s/^  \([a-z0-9.-]*\)  .*/\1/p')
same "tier, formats, elements, recipes in mxfp info" "yes" "$([ "$(echo $tiers | cut -d' ' -f 1)" = ref ] &&
	[ $(echo $formats | wc -w) -ge 7 ] && [ $(echo $elements | wc -w) -ge 14 ] && [ $(echo $recipes | wc -w) -ge 6 ] && echo yes)"

# run OUT ARGUMENT...: stdout is in OUT. What fails at one tier alone is found as a difference; what fails at ref is a failure.
run() {
	local out=$1 code=0
	shift
	"$mxfp" --isa "$tier" "$@" >"$out.printed" 2>"$work/error" || code=$?
	[ $code -le 1 ] || [ "$tier" != ref ] || bad "mxfp $*: $(cat "$work/error")"
	echo "exit code $code" >>"$out.printed"
}

# everything: into the current directory, by paths that are the same at each tier.
everything() {
	for format in $formats; do
		run model-$format quantize ../model -o model-$format -w $format --pad-tail --json
		run numbers-$format dequantize model-$format -o numbers-$format --json
		run sr-$format quantize ../model -o sr-$format -w $format --pad-tail --round sr --seed 5 --json
		run blocks-$format blocks --to $format --cols 96 ../wild.raw blocks-$format.codes blocks-$format.scales
		run half-$format dequantize sr-$format -o half-$format --to f16 --json
		for a in none $formats; do
			run few-$a-$format gemm ../few.npy ../w.npy -o few-$a-$format.npy --w-format $format --a-format $a --pass-k 128 -q
		done
		for a in none mxfp8-e4m3 $format; do
			run many-$a-$format gemm ../many.npy ../w.npy -o many-$a-$format.npy --w-format $format --a-format $a -f -q
		done
		run chain-$format gemm ../many.npy ../w.npy -o chain-$format.npy --w-format $format --a-format $format --acc chain -q
	done
	run product gemm ../many.npy ../w.npy -o product.npy -q
	for rule in floor ceil even even-m1 rceil fit trn3 rne log-nearest; do
		run rule-$rule quantize ../model -o rule-$rule --pad-tail -r $rule --json
	done
	for recipe in $recipes; do
		run recipe-$recipe blocks --to nvfp4 --nvfp4-recipe $recipe --cols 96 ../wild.raw recipe-$recipe.codes recipe-$recipe.scales
	done
	for element in $elements; do
		run cast-$element cast --to $element --counts ../wild.raw cast-$element
		[ $element = f32 ] || run sr-$element cast --to $element --round sr --seed 3 ../wild.raw sr-$element
		run back-$element cast --to $element --decode cast-$element back-$element
	done
	run sparse quantize ../model -o sparse --sparsity 4:16 --json
	run squares quantize ../model -o squares --pad-tail --block 32x32 --json
	run mixed quantize ../model -o mixed --pad-tail --preset w4a8-mixed --bits 5.6 --json
	run calibrated calibrate ../model --tokens ../tokens.json --context 24 --sequences 2 -o calibrated --pad-tail --json
	run pruned calibrate ../model --tokens ../tokens.json --context 24 --sequences 2 -o pruned --sparsity 4:16 --json
	run transformed transform ../model -o transformed --scale-norms --scale-mlp --fold-norms --rotate-values --json
	run eval eval ../model --tokens ../tokens.json --sequences 2 --try w4a8,mxfp8,nvfp4,bf16 --pad-tail --attention mxfp8-e4m3 --json
	run generated eval ../model --tokens ../tokens.json --sequences 2 --save-logits logits
	run report report ../model --pad-tail --activations mxfp8-e4m3 --sparsity 4:16 --json
	run advice advise ../model --pad-tail --json
	run sum allreduce --numbers 20000 --ranks 3 --steps 2 --payload f32 --payload bf16 --payload mxfp4 --payload mxfp8-e4m3 --error-feedback --json
	run differences diff ../model calibrated --json
}

for tier in $tiers; do
	mkdir "$work/$tier"
	(cd "$work/$tier" && everything && echo "$failures" >../failed)
	failures=$((failures + $(cat "$work/failed")))
	# What says which tier it was, or how long it took.
	find "$work/$tier" -name '*.printed' -exec sed -i -E 's/"(tier|isa)": *"[a-z0-9]*"//; s/"(seconds|seconds_per_step|tokens_per_second)": *[0-9.e+-]*//' {} +
	[ "$tier" != ref ] || continue
	same "tier $tier" "" "$(diff -r "$work/ref" "$work/$tier" 2>&1 | head -n 20)"
done
echo "tiers compared: $(echo $tiers); files of each: $(find "$work/ref" -type f | wc -l)"
finish
