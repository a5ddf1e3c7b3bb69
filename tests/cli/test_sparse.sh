#!/bin/sh
# SPDX-License-Identifier: MIT
# Structured sparsity in the command: a row worked by hand, every pattern and format there and back, wrong files.
. "${srcdir:-.}/tests/cli/cli.shlib"
model=${srcdir:-.}/examples/charlm.safetensors

# A row of 32: (6 4 0 -3 0.5 2 1 1 0 ...), then 16 ones. At 4:16 the first group keeps 6, 4, -3 and 2 (mask 2b 00), the
# second its first four (0f 00). amax 6 gives scale 2^0 under floor: codes 7 6 d 4 and 2 2 2 2, low nibble first.
one=0000803f
safetensors "$work/row.safetensors" '{"x.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}' \
	"0000c040 00008040 00000000 000040c0 0000003f 00000040 $one $one $(repeat 8 00000000) $(repeat 16 $one)"
exits 0 "" quantize "$work/row.safetensors" -o "$work/row" --sparsity 4:16 --rule floor
has "summary" "$(cat "$work/out")" "sparsity 4:16"
# Tensors lie by dtype, then name: mask, scale, kept codes.
same "parts" "2b000f007f674d2222" "$(data 9 "$work/row/model.safetensors")"
exits 0 "" inspect "$work/row"
text=$(tr -s ' ' <"$work/out")
has "metadata" "$text" "mxfp.sparsity = 4:16"
has "kept codes" "$text" " x.weight_sparse U8 4 [1, 4]"
has "masks" "$text" " x.weight_mask U8 4 [1, 4]"
has "config" "$(cat "$work/row/config.json")" '"mxfp4-pack-quantized-sparse"'
exits 0 "" dequantize "$work/row" -o "$work/row.back.safetensors" -q
back=0000c0400000804000000000000040c00000000000000040
same "decoded" "$back$(repeat 10 00000000)$(repeat 4 $one)$(repeat 12 00000000)" \
	"$(data 128 "$work/row.back.safetensors")"
# What is quantized is decoded first.
exits 0 "" quantize "$work/row/model.safetensors" -o "$work/again.safetensors" -w mxint8 --rule floor
has "rounded twice" "$(cat "$work/out")" "1 tensor quantized before"
has "bytes in the file before" "$(cat "$work/out")" "33 bytes of tensors, before 9 "
exits 0 "mxfp: 1 tensor quantized before" quantize "$work/row/model.safetensors" -o "$work/again.safetensors" -fq -w mxint8 --rule floor
exits 0 "" quantize "$work/row.back.safetensors" -o "$work/once.safetensors" -w mxint8 --rule floor -q
same "of the numbers" "$(data 66 "$work/once.safetensors")" "$(data 66 "$work/again.safetensors")"

# A product with it: the row times ones is 9 + 4.
{
	npy '<f4' False '(1, 32)'
	bytes "$(repeat 32 $one)"
} >"$work/ones.npy"
exits 0 "" gemm "$work/ones.npy" "$work/row:x.weight" -o "$work/c.npy" --check
same "product" 00005041 "$(data 4 "$work/c.npy")"

x=$model:model.layers.1.up_proj.weight w=model.layers.0.up_proj.weight
# What is decoded is pruned: quantized without sparsity it has the same bits, and gives the same products, for every
# pattern and format.
for pattern in 4:16 4:12 4:8 2:8 2:4 1:4 1:2; do
	exits 0 "" quantize "$model" -o "$work/s" --force -q --sparsity $pattern --weights mxfp8-e4m3 --threads 3
	exits 0 "" dequantize "$work/s" -o "$work/s.safetensors" --force -q
	exits 0 "" quantize "$work/s.safetensors" -o "$work/d" --force -q --weights mxfp8-e4m3
	exits 0 "" dequantize "$work/d" -o "$work/d.safetensors" --force -q
	exits 0 "" diff "$work/s.safetensors" "$work/d.safetensors"
	for sums in exact chain; do
		exits 0 "" gemm "$x" "$work/s:$w" -o "$work/s.npy" --force --acc $sums --a-format mxfp8-e4m3
		has "W" "$(cat "$work/out")" ", mxfp8-e4m3 $pattern"
		exits 0 "" gemm "$x" "$work/d:$w" -o "$work/d.npy" --force --acc $sums --a-format mxfp8-e4m3 -q
		same "$sums products at $pattern" "$(cksum <"$work/d.npy")" "$(cksum <"$work/s.npy")"
	done
	exits 0 "" quantize "$model" -o "$work/s1" --force -q --sparsity $pattern --weights mxfp8-e4m3 --threads 1
	same "threads at $pattern" 0 \
		"$(cmp "$work/s/model.safetensors" "$work/s1/model.safetensors" >/dev/null; echo $?)"
done
for format in mxfp4 nvfp4 mxfp6-e2m3 mxfp6-e3m2 mxfp8-e5m2 mxint8; do
	exits 0 "" quantize "$model" -o "$work/s" --force -q --sparsity 4:16 --weights $format
	exits 0 "" dequantize "$work/s" -o "$work/s.safetensors" --force -q
	exits 0 "" report "$model" --against "$work/s" --json --activation-rows 1
	has "report of $format" "$(tr -d ' \n' <"$work/out")" "\"format\":\"$format\",\"rule\":"
done

# Rows that are not whole blocks stay as they are.
safetensors "$work/33.safetensors" '{"x.weight":{"dtype":"F32","shape":[1,33],"data_offsets":[0,132]}}' \
	"$(repeat 33 $one)"
exits 3 "'x.weight' (row length is not a multiple of the block, which --sparsity needs)" \
	quantize "$work/33.safetensors" -n --sparsity 4:16
has "rows of 33" "$(cat "$work/out")" "kept | row length is not a multiple of the block, which --sparsity needs"
exits 2 "--sparsity: unknown value '3:16': did you mean '4:16'?" quantize "$model" -o "$work/no" --sparsity 3:16
exits 2 "--sparsity: unknown value '4:016'" quantize "$model" -o "$work/no" --sparsity 4:016

# sparse NAME METADATA MASKS CODES SCALES EXTRA DATA: a file of the row above, or nearly.
sparse() {
	safetensors "$work/$1.safetensors" "{\"__metadata__\":{$2},
		\"x.weight_mask\":{\"dtype\":\"U8\",\"shape\":$3,\"data_offsets\":[0,4]},
		\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":$5,\"data_offsets\":[4,5]},
		\"x.weight_sparse\":{\"dtype\":\"U8\",\"shape\":$4,\"data_offsets\":[5,9]}}" "$6"
}
ours='"mxfp.weights":"mxfp4","mxfp.sparsity":"4:16"'
good=2b000f007f674d2222
sparse good "$ours" '[1,4]' '[1,4]' '[1,1]' $good
exits 0 "" dequantize "$work/good.safetensors" -o "$work/good.back.safetensors" -q
same "by hand" "$(data 128 "$work/row.back.safetensors")" "$(data 128 "$work/good.back.safetensors")"

# wrong NAME TEXT: is refused by everything that decodes, with one line.
wrong() {
	exits 3 "$1.safetensors: $2" dequantize "$work/$1.safetensors" -o "$work/no.safetensors"
	exits 3 "$1.safetensors: $2" gemm "$work/ones.npy" "$work/$1.safetensors:x.weight" -o "$work/no.npy"
	exits 3 "$1.safetensors: $2" report "$work/row.safetensors" --against "$work/$1.safetensors"
}
mask="tensor 'x.weight_mask': rows 0 to 0: a mask does not keep 4 of 16"
layout="tensor 'x.weight_sparse': not in a layout that mxfp knows"
sparse three "$ours" '[1,4]' '[1,4]' '[1,1]' 0b000f007f674d2222
wrong three "$mask"
sparse five "$ours" '[1,4]' '[1,4]' '[1,1]' 2b000f017f674d2222
wrong five "$mask"
sparse all "$ours" '[1,4]' '[1,4]' '[1,1]' ffffffff7f674d2222
wrong all "$mask"
sparse wide "$ours" '[2,2]' '[1,4]' '[1,1]' $good
wrong wide "$layout"
sparse codes "$ours" '[1,4]' '[4,1]' '[1,1]' $good
wrong codes "$layout"
sparse scales "$ours" '[1,4]' '[1,4]' '[1]' $good
wrong scales "$layout"
sparse other '"mxfp.weights":"mxfp4","mxfp.sparsity":"4:8"' '[1,4]' '[1,4]' '[1,1]' $good
wrong other "$layout"
sparse format '"mxfp.weights":"mxfp8-e4m3","mxfp.sparsity":"4:16"' '[1,4]' '[1,4]' '[1,1]' $good
exits 0 "" dequantize "$work/format.safetensors" -o "$work/format.back.safetensors" -q
sparse unsaid '"mxfp.weights":"mxfp4"' '[1,4]' '[1,4]' '[1,1]' $good
wrong unsaid "metadata 'mxfp.sparsity': '' is not a known pattern"
sparse zero '"mxfp.weights":"mxfp4","mxfp.sparsity":"0:0"' '[1,4]' '[1,4]' '[1,1]' $good
wrong zero "metadata 'mxfp.sparsity': '0:0' is not a known pattern"
safetensors "$work/maskless.safetensors" "{\"__metadata__\":{$ours},\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[0,1]},
	\"x.weight_sparse\":{\"dtype\":\"U8\",\"shape\":[1,4],\"data_offsets\":[1,5]}}" 7f674d2222
wrong maskless "tensor 'x.weight_sparse': 'x.weight_mask' is missing"
same "nothing was written" "" "$(ls "$work"/no* 2>/dev/null)"
finish
