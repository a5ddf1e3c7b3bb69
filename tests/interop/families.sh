#!/bin/sh
# SPDX-License-Identifier: MIT
# Small random models of many families, as transformers writes them, loaded back by it from what mxfp made of them: no key is
# missing or left over, and the outputs are those of the decoded weights. transformers reads codes by compressed-tensors.
# These programs are in the lab that scripts/interop-lab.sh makes, and MXFP_LAB names its directory.
lab_venv=/opt/transformers
. "${srcdir:-.}/tests/interop/lab.shlib"

# Each with nothing but weights quantized, in each format, and with defaults, where activations are quantized too and so
# the output is another one. GPT-2 and Mamba have nothing that loaders of the default layout take.
lab_python families
exits 3 "a Conv1D; loaders of this layout take Linear" quantize "$work/family.gpt2" -o "$work/x"
exits 3 "nothing is to be quantized" quantize "$work/family.mamba" -o "$work/x"
for family in $(sed -n 's/^loads //p' "$work/families"); do
	quantized family.$family keys.$family.defaults
	quantized family.$family loads.$family.mxfp4 -a none
	quantized family.$family loads.$family.mxfp8 -w mxfp8 -a none
	quantized family.$family loads.$family.nvfp4 --preset nvfp4
done
# Of experts one each, transformers 5.24 reads MXFP4 alone: it leaves out the tensor scale of NVFP4, takes E8M0 for a number for each
# row, and does not find experts that are not quantized beside codes of 4 bits (CompressedTensorsDequantize). Those are decoded by
# compressed-tensors itself.
for family in $(sed -n 's/^each //p' "$work/families"); do
	quantized family.$family keys.$family.defaults
	quantized family.$family loads.$family.mxfp4 -a none
	quantized family.$family loads.$family.mxfp8 -w mxfp8 -a none --ignore '*.experts.*'
	quantized family.$family each.$family.mxfp8 -w mxfp8 -a none
	quantized family.$family each.$family.nvfp4 --preset nvfp4
done
quantized family.gpt-oss loads.gpt-oss.gpt-oss --layout gpt-oss
# Experts in one tensor, which transformers takes one each of these models, in whatever order they were.
for family in qwen3-5-moe qwen3-moe; do
	quantized fused.$family loads.fused-$family.mxfp4 -a none
	exits 0 "" diff "$work/loads.$family.mxfp4.bf16" "$work/loads.fused-$family.mxfp4.bf16" -q
done

# What mxfp calibrate and mxfp transform wrote, quantized. Calibrated weights stay what they were, in bf16 or,
# NVFP4, in f32; its loaders want fused tensor scales.
awk 'BEGIN { for (i = 0; i < 512; i++) printf "%s%d", i ? ", " : "[", i * i % 127; print "]" }' >"$work/ids.json"
exits 0 "" transform "$work/family.llama" --scale-norms --scale-values --scale-mlp -o "$work/scaled" -q
exits 0 "" transform "$work/family.llama" --rotate-values --rotate-stream -o "$work/rotated" -q
# stays FORMAT DTYPE OPTION...
stays() {
	format=$1 exact=$2
	shift 2
	exits 0 "" calibrate "$work/family.llama" --tokens "$work/ids.json" -w "$format" "$@" -o "$work/calibrated" -f -q
	quantized calibrated "loads.calibrated.$format" -w "$format" -a none "$@"
	exits 0 "" diff "$work/calibrated" "$work/loads.calibrated.$format.$exact"
	for changed in scaled rotated; do
		quantized $changed "loads.$changed.$format" -w "$format" -a none "$@"
	done
}
stays mxfp4 bf16
stays nvfp4 f32 --fuse

for made in "$work"/loads.*.mxfp4 "$work"/loads.*.nvfp4 "$work"/loads.*.mxfp8 "$work"/loads.*.gpt-oss \
	"$work"/each.*.mxfp8 "$work"/each.*.nvfp4; do
	exits 0 "" lint "$made" -q --ignore config
done
lab_python loaded
finish
