#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp detect-rule: blocks worked by hand, the shipped model in every rule, what other programs made of the inputs of
# tests/vectors, and what llama-quantize made of a model in ../shared if it is there.
. "${srcdir:-.}/tests/cli/cli.shlib"

shared=${MXFP_SHARED:-${srcdir:-.}/../shared}
vectors=${srcdir:-.}/tests/vectors
charlm=${srcdir:-.}/examples/charlm.safetensors

# detects CODE VERDICT QUANTIZED SOURCE ARGUMENT...: the verdict of the first group begins like this.
detects() {
	expected=$1 verdict=$2 name="detect-rule of $3"
	file=$3 ref=$4
	shift 4
	code=0
	"$mxfp" detect-rule "$file" --ref "$ref" -q "$@" >"$work/out" 2>&1 || code=$?
	same "exit code of $name" "$expected" $code
	has "$name" "$(sed -n 2p "$work/out")" "$verdict"
}

# source HEX: one block of 32 numbers in f32, those given and zeros.
source() {
	{
		header '{"x.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
		bytes "$1"
		head -c $((128 - $(printf '%s' "$1" | tr -d ' ' | wc -c) / 2)) /dev/zero
	} >"$work/source.safetensors"
}

# block SCALE HEX: the same in mxfp4, codes given and zeros.
block() {
	json='{"x.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},'
	{
		header "$json\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[16,17]}}"
		bytes "$2"
		head -c $((16 - ${#2} / 2)) /dev/zero
		bytes "$1"
	} >"$work/block.safetensors"
}

# By hand: 6 and -6 make scale 2^0 (7f) but by ceil and trn3; 0.25, 1.25 and -0.25 are ties, the six 0.4 are not.
# Codes: 6 is 7, 0.5 is 1, 1 is 2, 1.5 is 3, -0 is 8.
near='cdcccc3e'
source "0000c040 0000c0c0 0000803e 0000a03f 000080be $near $near $near $near $near $near"
block 7f 'f72018111101'
detects 0 'exact: rule mse, floor, even, even-m1, rceil, fit, rne or log-nearest, rounding rne or rhz;' \
	"$work/block.safetensors" "$work/source.safetensors"
block 7f 'f73119111101'
detects 0 'exact: rule mse, floor, even, even-m1, rceil, fit, rne or log-nearest, rounding rna' \
	"$work/block.safetensors" "$work/source.safetensors"
block 7f 'f72010111101'
detects 0 'rounding rne or rhz, no -0' "$work/block.safetensors" "$work/source.safetensors"
# 1.75 is a tie of 1.5 (3) and 2 (4), which is even; one ulp more (3fe00001) is none, but is one by way of bf16.
source '0000c040 0000e03f'
block 7f '47'
detects 0 'rounding rne, rna or rtp' "$work/block.safetensors" "$work/source.safetensors"
block 7f '37'
detects 0 'rounding rhz, rtz, rtn' "$work/block.safetensors" "$work/source.safetensors"
source '0000c040 0100a03f'
block 7f '37'
detects 0 'rounding rne, rna, rhz or rtp' "$work/block.safetensors" "$work/source.safetensors"
block 7f '27'
has "via bf16" "$("$mxfp" detect-rule "$work/block.safetensors" --ref "$work/source.safetensors" --json | tr -d ' \n' |
	grep -o '"rule":"floor","round":"rne","via":"bf16","negative_zero":true,"exact":[a-z]*')" '"exact":true'
# A code that no rounding gives, under the right scale.
block 7f '77'
detects 1 'none is exact; nearest: rule mse, rounding rne: 100.00 % of scales, 96.88 % of codes' \
	"$work/block.safetensors" "$work/source.safetensors"
# Under a NaN scale codes mean nothing, so 07 for 00 counts as equal, but the scale is wrong.
block ff '07'
detects 1 'none is exact' "$work/block.safetensors" "$work/source.safetensors"
source '0000c07f'
detects 0 'exact: rule' "$work/block.safetensors" "$work/source.safetensors"

# The shipped model. With 4-bit elements even, even-m1 and fit are one rule, and ceil and trn3 differ only where the
# largest magnitude is a power of two; with e4m3, even-m1 and rceil where it is 1.75 times one.
while read -r format option rule round others; do
	case $round in
	sr) seed='--seed 5' ;;
	*) seed= ;;
	esac
	exits 0 "$(caution "$format")" quantize "$charlm" -o "$work/q" --force -q --weights "$format" --$option "$rule" --round "$round" \
		$seed
	detects 0 "exact: ${option#nvfp4-} $others" "$work/q" "$charlm" --seed 5
done <<-LIST
	mxfp4 rule mse rne mse, rounding rne
	mxfp4 rule floor rhz floor, rounding rne, rna or rhz
	mxfp4 rule ceil rtz ceil or trn3, rounding rtz
	mxfp4 rule even rtp even, even-m1 or fit, rounding rtp
	mxfp4 rule rceil sr rceil, rounding sr
	mxfp8-e4m3 rule even rne even, rounding rne
	mxfp8-e4m3 rule even-m1 rne even-m1 or rceil, rounding rne
	mxfp8-e4m3 rule fit rtz fit, rounding rtz
	mxfp8-e5m2 rule floor rtn floor, rounding rtn
	mxfp6-e2m3 rule trn3 rne
	mxfp6-e2m3 rule even rne
	mxfp4 rule rne rne rne, rounding rne
	mxfp8-e4m3 rule log-nearest rne log-nearest, rounding rne
	mxint8 rule rceil rtz rceil, rounding rtz
	nvfp4 nvfp4-recipe compressed-tensors rne compressed-tensors, rounding rne
	nvfp4 nvfp4-recipe torchao-1 rtz torchao-1, rounding rtz
	nvfp4 nvfp4-recipe ggml rne ggml, rounding rne
LIST
has "own tensor scales" "$(cat "$work/out")" "largest magnitude: 5 of 5"
# A layout whose tensor scale multiplies.
exits 0 "" quantize "$charlm" -o "$work/q" --force -q --weights nvfp4 --layout modelopt --nvfp4-recipe torchao
detects 0 'exact: recipe te, torchao, modelopt or modelopt-0.45, rounding rne' "$work/q" "$charlm"
exits 0 "" quantize "$charlm" -o "$work/q" --force -q --weights nvfp4 --layout modelopt --nvfp4-recipe modelopt-4over6
detects 0 'exact: recipe 4over6 or modelopt-4over6, rounding rne' "$work/q" "$charlm"
# A block of zeros tells them apart: 7E and 00.
{
	header '{"a.up_proj.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
	bytes "$(repeat 16 0000c040) $(repeat 16 00000000)"
} >"$work/half.safetensors"
for recipe in 4over6 modelopt-4over6; do
	exits 0 "" quantize "$work/half.safetensors" -o "$work/half" -f -q --weights nvfp4 --layout modelopt --nvfp4-recipe $recipe
	detects 0 "exact: recipe" "$work/half" "$work/half.safetensors"
	same "$recipe" "$recipe" "$(sed -n 's/:.*//; 3,$s/.*4over6$/&/p' "$work/out")"
done
# Another seed: the scales tell the rule.
exits 0 "" quantize "$charlm" -o "$work/q" --force -q --rule rceil --round sr --seed 6
detects 1 'none is exact; nearest: rule rceil, ' "$work/q" "$charlm"
has "another seed" "$(cat "$work/out")" "stochastically with another seed"
# Pruned before, padded rows, every element.
exits 0 "" quantize "$charlm" -o "$work/q" --force -q --rule floor --sparsity 4:16
detects 0 'exact: rule floor, ' "$work/q" "$charlm"
exits 0 "" quantize "$charlm" -o "$work/q" --force -q --rule floor --pad-tail --include '*'
detects 0 'exact: rule floor, ' "$work/q" "$charlm" --all
has "every tensor" "$(cat "$work/out")" "mxfp4, 7 tensors (first: "
has "every element" "$(cat "$work/out")" "$((96 * 128 + 96 * 32 + 128 * 384 + 4 * 384 * 128)) |"

# A tensor made otherwise is a group of its own, and makes the whole no exact match.
exits 0 "" quantize "$charlm" -o "$work/q" --force -q --rule floor
# The last byte of the last tensor's codes or scales: whichever it is, no rule makes it.
cp "$work/q/model.safetensors" "$work/changed.safetensors"
printf '\377' | dd of="$work/changed.safetensors" bs=1 seek=$(($(wc -c <"$work/changed.safetensors") - 1)) \
	conv=notrunc 2>/dev/null
code=0
"$mxfp" detect-rule "$work/changed.safetensors" --ref "$charlm" >"$work/out" 2>&1 || code=$?
same "exit code of a changed file" 1 $code
has "a changed file" "$(cat "$work/out")" "mxfp4, 4 tensors (first: "
has "a changed file" "$(cat "$work/out")" "mxfp4, 1 tensor ("
"$mxfp" detect-rule "$work/changed.safetensors" --ref "$charlm" --json >"$work/out" || code=$?
has "JSON of a changed file" "$(tr -d ' \n' <"$work/out")" '"exact":false,"not_compared":0,"groups":[{"format":"mxfp4"'

# Errors.
exits 2 "no source given; --ref SOURCE" detect-rule "$work/q"
exits 3 "none of its quantized tensors has the name of a float tensor of" detect-rule "$work/q" \
	--ref "$work/source.safetensors"
exits 3 "none of its quantized tensors" detect-rule "$charlm" --ref "$charlm"
safetensors_zeros "$work/other.safetensors" '{"x.weight":{"dtype":"F32","shape":[2,16],"data_offsets":[0,128]}}' 128
exits 3 "tensor 'x.weight': has a different shape in" detect-rule "$work/block.safetensors" \
	--ref "$work/other.safetensors"

# vector NAME KIND: the file of an output of a case.
vector() {
	sed -n "s|.*\"name\": \"$1\".*\"$2\": {[^}]*\"file\": \"\([^\"]*\)\".*|\1|p" "$vectors/manifest.json"
}

# entry PART DTYPE SHAPE FROM TO
entry() {
	printf '"x.weight_%s":{"dtype":"%s","shape":[%s],"data_offsets":[%s,%s]}' "$@"
}

# others CASE INPUT ROWS COLS VERDICT: another program's 4-bit blocks; nvfp4 of one level has no tensor scale, 1.
others() {
	packed=$(vector "$1" packed) scales=$(vector "$1" scales)
	case $1 in
	nvfp4/*) block=16 type=F8_E4M3 ;;
	*) block=32 type=U8 ;;
	esac
	codes_end=$(($3 * $4 / 2)) scales_end=$(($3 * $4 / 2 + $3 * $4 / block))
	{
		header "{\"x.weight\":{\"dtype\":\"F32\",\"shape\":[$3,$4],\"data_offsets\":[0,$(($3 * $4 * 4))]}}"
		cat "$vectors/inputs/$2.f32"
	} >"$work/source.safetensors"
	{
		parts=$(entry packed U8 "$3,$(($4 / 2))" 0 $codes_end),$(entry scale $type "$3,$(($4 / block))" \
			$codes_end $scales_end)
		case $1 in
		nvfp4/*) parts=$parts,$(entry global_scale F32 1 $scales_end $((scales_end + 4))) ;;
		esac
		header "{$parts}"
		cat "$vectors/$packed" "$vectors/$scales"
		case $1 in
		*/compressed-tensors) cat "$vectors/$(vector "$1" global_scale)" ;;
		nvfp4/*) bytes 0000803f ;;
		esac
	} >"$work/other.safetensors"
	detects 0 "$5" "$work/other.safetensors" "$work/source.safetensors" --all
}
others mx/e2m1/blocks_plain/torchao-floor blocks_plain 64 32 'exact: rule floor, rounding rne'
others mx/e2m1/blocks_plain/torchao-ceil blocks_plain 64 32 'exact: rule ceil, rounding rne'
others mx/e2m1/blocks_plain/torchao-rceil blocks_plain 64 32 'exact: rule rceil, rounding rne'
# MLX before its 0.32.2 and since.
others mx/e2m1/blocks_plain/mlx-0.32.1 blocks_plain 64 32 'exact: rule rne or log-nearest, rounding rhz, no -0'
has "its maker" "$(sed -n 4p "$work/out")" "log-nearest: log2(amax / max) to the nearest integer: MLX up to 0.32.1"
others mx/e2m1/blocks_plain/mlx-0.32.4 blocks_plain 64 32 'exact: rule rceil, rounding rhz, no -0'
others nvfp4/nv_spread/compressed-tensors nv_spread 16 128 'exact: recipe compressed-tensors, rounding rne'
others nvfp4/nv_spread/torchao-onelevel nv_spread 16 128 'exact: recipe torchao-1, rounding rne'
# What llama-quantize made of a model in f32.
if [ -d "$shared/weights" ]; then
	stories=$shared/weights/stories260K/stories260K
	detects 0 'exact: rule floor, rounding rne, rna or rhz, no -0' "$stories.mxfp4.llama-quantize.gguf" \
		"$stories.f32.gguf" --all
	has "every tensor of llama-quantize" "$(cat "$work/out")" "mxfp4, 30 tensors"
	detects 0 'exact: recipe ggml, rounding rne' "$stories.nvfp4.llama-quantize.gguf" "$stories.f32.gguf" --all
	# The same by the names, and with the rows of q and k in the order, of Hugging Face; and the other way round.
	"$mxfp" detect-rule "$stories.mxfp4.llama-quantize.gguf" --ref "$stories.f32.gguf" -q --all >"$work/same-names"
	detects 0 'exact: rule floor, rounding rne, rna or rhz, no -0' "$stories.mxfp4.llama-quantize.gguf" \
		"$stories.hf.f32.safetensors" --all
	same "tensors by both names" "$(sed -n 1p "$work/same-names" | grep -o '[0-9]* tensors')" \
		"$(sed -n 1p "$work/out" | grep -o '[0-9]* tensors')"
	detects 0 'exact: recipe ggml, rounding rne' "$stories.nvfp4.llama-quantize.gguf" "$stories.hf.f32.safetensors" --all
	exits 0 "" quantize "$stories.hf.f32.safetensors" -o "$work/stories" -q --rule ceil
	detects 0 'exact: rule ceil or trn3, rounding rne' "$work/stories" "$stories.f32.gguf" --all
	detects 1 'none is exact; nearest: rule floor, ' "$stories.mxfp4.llama-quantize.gguf" \
		"$stories.bf16.llama-quantize.gguf"
else
	echo "$shared/weights is not there: what llama-quantize made is not tested"
fi
# The largest numbers of f32, of which bf16 and f16 make Inf: a way via those has no other tensor scale. Blocks of them decode to Inf.
{
	header '{"a.up_proj.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
	bytes "ffff7f7f ffff7fff $(repeat 30 0000007e)"
} >"$work/ends.safetensors"
for format in nvfp4 mxfp4 mxint8; do
	exits 0 "" quantize "$work/ends.safetensors" -o "$work/ends.q.safetensors" -f -q --weights $format --non-finite propagate
	exits 0 "" detect-rule "$work/ends.q.safetensors" --ref "$work/ends.safetensors"
	has "$format of the largest" "$(cat "$work/out")" "exact: "
done
finish
