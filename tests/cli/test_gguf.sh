#!/bin/sh
# SPDX-License-Identifier: MIT
# GGUF files through the commands: blocks of ggml by hand from its ggml-common.h, and the files of llama-quantize.
. "${srcdir:-.}/tests/cli/cli.shlib"
. "${srcdir:-.}/tests/cli/gguf.shlib"
weights=${MXFP_SHARED:-${srcdir:-.}/../shared}/weights/stories260K

# All 16 codes, and what they decode to.
values=$(echo '00000000 0000003f 0000803f 0000c03f 00000040 00004040 00008040 0000c040
	00000080 000000bf 000080bf 0000c0bf 000000c0 000040c0 000080c0 0000c0c0' | tr -d ' \n\t')

# MXFP4, scale 2^1: the low nibbles are elements 0 to 15, the codes 0 to 15; the high ones 16 to 31, all 0.5.
twice=$(echo '00000000 0000803f 00000040 00004040 00008040 0000c040 00000041 00004041
	00000080 000080bf 000000c0 000040c0 000080c0 0000c0c0 000000c1 000040c1' | tr -d ' \n\t')
gguf "$(tensor blk.0.ffn_up.weight 39 0 32 1)$(tensor norm 0 32 1 1)" 2 \
	"80 101112131415161718191a1b1c1d1e1f $(repeat 15 00) 0000803f $(repeat 28 00)" >"$work/mxfp4.gguf"
exits 0 "" inspect "$work/mxfp4.gguf"
seen=$(tr -s ' ' <"$work/out")
has "type" "$seen" "blk.0.ffn_up.weight MXFP4 17 [1, 32]"
has "quantized" "$seen" "already quantized: tensors of ggml's type MXFP4"
exits 0 "" dequantize "$work/mxfp4.gguf" -o "$work/plain.gguf"
same "decoded" "$twice$(repeat 16 0000803f)0000803f$(repeat 28 00)" "$(data 160 "$work/plain.gguf")"
has "pairs" "$(hex <"$work/plain.gguf")" "$carried"
exits 0 "" inspect "$work/plain.gguf"
seen=$(tr -s ' ' <"$work/out")
has "decoded shape" "$seen" "blk.0.ffn_up.weight F32 128 [1, 32]"
has "kind of file" "$seen" "general.file_type = 0"
exits 0 "" dequantize "$work/mxfp4.gguf" -o "$work/plain.safetensors" -q
exits 0 "" diff "$work/plain.gguf" "$work/plain.safetensors"
"$mxfp" diff "$work/plain.gguf" "$work/mxfp4.gguf" >"$work/out"
has "values of blocks" "$(tr -s ' ' <"$work/out")" "| blk.0.ffn_up.weight | dtype | F32 [1, 32] | mxfp4 [1, 32] | 0 | exact | 0 | 0 |"
has "tensors compared" "$(cat "$work/out")" "2 tensors were compared, 1 of them quantized and decoded"
exits 0 "1 tensor quantized before (tensors of ggml's type MXFP4)" quantize "$work/mxfp4.gguf" -o "$work/again.gguf" -q
exits 0 "" diff "$work/mxfp4.gguf" "$work/again.gguf"
exits 2 "that of layout gguf multiplies; give torchao-1 or ggml" quantize "$work/plain.gguf" -o "$work/x.gguf" \
	-w nvfp4 --nvfp4-recipe compressed-tensors

# NVFP4: four scales, 1, 2, 0.5 and 1 with a sign, which is not read; 8 bytes for 16 elements each, the first 8 in the
# low nibbles; the tensor's scale is 0.5.
half=$(echo '00000000 0000803e 0000003f 0000403f 0000803f 0000c03f 00000040 00004040
	00000080 000080be 000000bf 000040bf 000080bf 0000c0bf 000000c0 000040c0' | tr -d ' \n\t')
gguf "$(tensor l.weight 40 0 64 1)$(tensor l.scale 0 64 1)" 2 \
	"383830b8 8091a2b3c4d5e6f7 8091a2b3c4d5e6f7 $(repeat 8 22) $(repeat 8 aa) $(repeat 28 00) 0000003f$(repeat 28 00)" \
	>"$work/nvfp4.gguf"
exits 0 "" dequantize "$work/nvfp4.gguf" -o "$work/plain.gguf" --force
has "scale" "$(cat "$work/out")" "1 tensors decoded to f32, 0 kept"
"$mxfp" diff "$work/plain.gguf" "$work/nvfp4.gguf" >"$work/out"
has "values of nvfp4" "$(tr -s ' ' <"$work/out")" "| l.weight | dtype | F32 [1, 64] | nvfp4 [1, 64] | 0 | exact | 0 | 0 |"
same "nvfp4" "$half$half$(repeat 16 0000803e)$(repeat 16 000000bf)" "$(data 256 "$work/plain.gguf")"
gguf "$(tensor l.weight 40 0 64 1)" 1 "383830b8 $(repeat 32 22) $(repeat 28 00)" >"$work/unscaled.gguf"
exits 0 "" dequantize "$work/unscaled.gguf" -o "$work/plain.gguf" --force -q
same "no scale" "$(repeat 32 0000803f)$(repeat 16 0000003f)$(repeat 16 0000803f)" "$(data 256 "$work/plain.gguf")"

# Q8_0: d = 0.25 (f16 3400), codes 0, 1, -1, 127, -128 and zeros; Q4_0 is carried, and nothing else can hold it.
gguf "$(tensor a.weight 8 0 32 1)$(tensor b.weight 2 64 32 1)" 2 \
	"0034 0001ff7f80 $(repeat 27 00) $(repeat 30 00) 003c $(repeat 16 5a) $(repeat 14 00)" >"$work/q8.gguf"
exits 0 "" dequantize "$work/q8.gguf" -o "$work/plain.gguf" --force
has "q8_0" "$(cat "$work/out")" "1 tensors decoded to f32, 1 kept"
same "q8_0" "000000000000803e000080be0000fe41000000c2$(repeat 27 00000000)003c$(repeat 16 5a)$(repeat 14 00)" \
	"$(data 160 "$work/plain.gguf")"
exits 0 "" dequantize "$work/q8.gguf" -o "$work/half.gguf" --to bf16 -q
same "q8_0 in bf16" "0000803e80befe4100c2$(repeat 27 0000)" "$(data 96 "$work/half.gguf" | cut -c 1-128)"
"$mxfp" diff "$work/q8.gguf" "$work/plain.gguf" >"$work/out"
has "values of q8_0" "$(tr -s ' ' <"$work/out")" "| a.weight | dtype | Q8_0 [1, 32] | F32 [1, 32] | 0 | exact | 0 | 0 |"
# The largest d, 65504, times 2: f16 has no such number. Where d is Inf, so are the numbers that are not 0 times it.
gguf "$(tensor a.weight 8 0 64 1)" 1 "ff7b 0102ff $(repeat 29 00) 007c $(repeat 32 01) $(repeat 28 00)" >"$work/large.gguf"
exits 3 "large.gguf: tensor 'a.weight': 1 of 64 numbers are too large for f16, whose largest is 65504; --to f32 has more room" \
	dequantize "$work/large.gguf" -o "$work/large.back.gguf" --to f16 -q
exits 0 "" dequantize "$work/large.gguf" -o "$work/large.back.gguf" --to f16 --overflow sat
has "q8_0 in f16" "$(cat "$work/out")" "1 numbers were too large for f16 and became its largest"
same "q8_0 in f16" "ff7bff7bfffb$(repeat 29 0000)$(repeat 32 007c)" "$(data 128 "$work/large.back.gguf")"
exits 3 "dtype Q4_0 cannot stand in a safetensors file" dequantize "$work/q8.gguf" -o "$work/x.safetensors"
# Beside MXFP4, as llama.cpp keeps it.
gguf "$(tensor b.weight 39 0 32 1)$(tensor a.weight 8 32 32 1)" 2 \
	"80 101112131415161718191a1b1c1d1e1f $(repeat 15 00) 0034 0001ff7f80 $(repeat 57 00)" >"$work/both.gguf"
exits 3 "is Q8_0, which safetensors files do not hold; --decode-rest f32 decodes it, and --layout gguf does" \
	convert "$work/both.gguf" -o "$work/x.safetensors" -l gpt-oss
exits 0 "" convert "$work/both.gguf" -o "$work/both.safetensors" -l gpt-oss --decode-rest f32
has "table" "$(tr -s ' ' <"$work/out")" "| a.weight | Q8_0 [1, 32] | decoded to f32 | - | - |"
same "convert" "000000000000803e000080be0000fe41000000c2$(repeat 27 00000000)1032547698badcfe$(repeat 8 11)80" \
	"$(data 145 "$work/both.safetensors")"

# And back: the largest is 6, so the scale is 1 (7f); -0 is written as +0, as ggml does. Order and pairs are kept.
gguf "$(tensor z.weight 0 0 32 1)$(tensor a.weight 0 128 30 1)$(tensor token_embd.weight 0 256 32 1)" 3 \
	"$values$(repeat 16 0000003f)$(repeat 32 0000803f)$(repeat 32 00000040)" >"$work/f32.gguf"
exits 0 "" quantize "$work/f32.gguf" -o "$work/out.gguf" --rule floor
seen=$(cat "$work/out")
has "short rows" "$seen" "not a multiple of 32, as MXFP4 in GGUF needs"
same "block" "7f101112131415161710191a1b1c1d1e1f$(repeat 15 00)" "$(data 288 "$work/out.gguf" | cut -c 1-64)"
has "all pairs" "$(hex <"$work/out.gguf")" "$carried"
exits 0 "" inspect "$work/out.gguf"
seen=$(tr -s ' ' <"$work/out")
has "order" "$(printf '%s' "$seen" | tr '\n' '|')" \
	"z.weight MXFP4 17 [1, 32]| a.weight F32 120 [1, 30]| token_embd.weight F32 128 [1, 32]"
has "rule" "$seen" "mxfp.rule = floor"
has "kind" "$seen" "general.file_type = 38"
has "version" "$seen" "general.quantization_version = 2"
exits 0 "" quantize "$work/f32.gguf" -o "$work/other.gguf" --rule floor --threads 1 -q
cmp -s "$work/out.gguf" "$work/other.gguf" || bad "the number of threads changes the file"

# Blocks of another version are not read; numbers have none.
old=$carried
carried=$(printf '%s' "$pairs$(text general.quantization_version)$(little 4 4)$(little 4 3)" | tr -d ' \n\t')
gguf "$(tensor l.weight 39 0 32 1)" 1 "80 $(repeat 16 11) $(repeat 15 00)" >"$work/version.gguf"
printf '\4' | dd of="$work/version.gguf" bs=1 seek=16 conv=notrunc 2>/dev/null
exits 3 "general.quantization_version: is 3, and only blocks of version 2 are known" dequantize "$work/version.gguf" -o "$work/x.gguf"
gguf "$(tensor l.weight 0 0 32 1)" 1 "$(repeat 128 00)" >"$work/version.gguf"
printf '\4' | dd of="$work/version.gguf" bs=1 seek=16 conv=notrunc 2>/dev/null
exits 0 "" quantize "$work/version.gguf" -o "$work/other.gguf" -fq
exits 0 "" inspect "$work/other.gguf"
has "version of what is written" "$(tr -s ' ' <"$work/out")" "general.quantization_version = 2"
carried=$old

# What cannot be.
header '{"x.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}' >"$work/x.safetensors"
repeat 128 0 >>"$work/x.safetensors"
exits 2 "mxfp convert makes one" quantize "$work/x.safetensors" -o "$work/x.gguf"
exits 2 "a .gguf file is in layout gguf" quantize "$work/f32.gguf" -o "$work/x.gguf" --layout quark
exits 2 "layout gguf holds no mxfp8-e4m3" quantize "$work/f32.gguf" -o "$work/x.gguf" --weights mxfp8-e4m3
exits 2 "layout gguf holds no sparse weights" quantize "$work/f32.gguf" -o "$work/x.gguf" --sparsity 4:16
exits 2 "tensor scale divides" quantize "$work/f32.gguf" -o "$work/x.gguf" --weights nvfp4 \
	--nvfp4-recipe compressed-tensors
exits 2 "llama-gguf-split" quantize "$work/f32.gguf" -o "$work/x.gguf" --shard-size 1M
{
	header '{"x.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
		"x.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[16,17]}}'
	repeat 17 0
} >"$work/packed.safetensors"
exits 2 "a GGUF file is made from another one" dequantize "$work/packed.safetensors" -o "$work/x.gguf"
exits 2 "x: a GGUF file becomes no model directory, because $work/f32.gguf has the tensor names of llama.cpp; name a .gguf" \
	quantize "$work/f32.gguf" -o "$work/x"
exits 2 "x: a GGUF file becomes no model directory" dequantize "$work/mxfp4.gguf" -o "$work/x"
exits 0 "" quantize "$work/f32.gguf" -n -w mxfp8-e4m3
exits 0 "" quantize "$work/f32.gguf" -o "$work/mxfp8.safetensors" -w mxfp8-e4m3 -q
exits 0 "" dequantize "$work/mxfp8.safetensors" -o "$work/plain.safetensors" -fq
[ ! -e "$work/x.gguf" ] && [ ! -e "$work/x" ] || bad "a refused output is left"

# A recipe with a tensor scale writes it beside: of 7/16 times the codes the largest is 2688 / 2^10.
sevenths=$(echo '00000000 0000603e 0000e03e 0000283f 0000603f 0000a83f 0000e03f 00002840
	00000000 000060be 0000e0be 000028bf 000060bf 0000a8bf 0000e0bf 000028c0' | tr -d ' \n\t')
gguf "$(tensor l.weight 0 0 64 2)" 1 "$(repeat 8 "$sevenths")" >"$work/wide.gguf"
exits 0 "" quantize "$work/wide.gguf" -o "$work/scaled.gguf" --weights nvfp4 --nvfp4-recipe te -q
exits 0 "" inspect "$work/scaled.gguf"
has "scale beside" "$(tr -s ' ' <"$work/out")" " l.scale F32 4 [1]"
same "scale" "0000803a$(repeat 28 00)" "$(data 32 "$work/scaled.gguf")"
exits 0 "" dequantize "$work/scaled.gguf" -o "$work/plain.gguf" --force -q
exits 0 "" diff "$work/wide.gguf" "$work/plain.gguf"

# A split model: each part says which it is, the first has the key-values. Any of them is the whole, in every command; the first
# has the 32 numbers 1, the second 2 in a tensor and 0.5 in one behind it.
# part NO COUNT ALL PAIRS N_PAIRS TENSORS N_TENSORS DATA
part() {
	split="$(text split.no)$(little 4 2)$(little 2 "$1")$(text split.count)$(little 4 2)$(little 2 "$2")"
	split="$split$(text split.tensors.count)$(little 4 5)$(little 4 "$3")"
	start="47475546$(little 4 3)$(little 8 "$7")$(little 8 $(($5 + 3)))$4$split$6"
	bytes "$start$(repeat $(((64 - ${#start} % 64) % 64 / 2)) 00)$8"
}
mkdir "$work/split" "$work/alone"
first=$work/split/m-00001-of-00002.gguf second=$work/split/m-00002-of-00002.gguf
one=$(repeat 32 0000803f) two=$(repeat 32 00000040)$(repeat 32 0000003f)
part 0 2 3 "$carried" 3 "$(tensor z.weight 0 0 32 1)" 1 "$one" >"$first"
part 1 2 3 "" 0 "$(tensor a.weight 0 0 32 1)$(tensor m.weight 0 128 32 1)" 2 "$two" >"$second"
gguf "$(tensor z.weight 0 0 32 1)$(tensor a.weight 0 128 32 1)$(tensor m.weight 0 256 32 1)" 3 "$one$two" >"$work/whole.gguf"
for named in "$first" "$second"; do
	exits 0 "" quantize "$named" -o "$work/split.gguf" -fq --rule floor
	exits 0 "" quantize "$work/whole.gguf" -o "$work/other.gguf" -fq --rule floor
	cmp -s "$work/split.gguf" "$work/other.gguf" || bad "$named is not quantized as the whole is"
	exits 0 "" dequantize "$work/split.gguf" -o "$work/plain.gguf" -fq
	exits 0 "" diff "$work/plain.gguf" "$named"
	has "tensors of all parts" "$(cat "$work/out")" "3 tensors were compared, 0 of them quantized"
	exits 0 "" report "$named" --json --activation-rows 1
	has "tensors reported" "$(cat "$work/out")" '"m.weight"'
done
exits 0 "" inspect "$second"
seen=$(tr -s ' ' <"$work/out" | tr '\n' '|')
has "both parts" "$seen" "m-00001-of-00002.gguf: gguf,"
has "the second" "$seen" "m-00002-of-00002.gguf: gguf, header 224 bytes, data 256 bytes| split.no = 1| split.count = 2| \
split.tensors.count = 3| tensor dtype bytes shape| a.weight F32 128 [1, 32]| m.weight F32 128 [1, 32]|"
has "all" "$seen" " all 3 96 384|"
exits 0 "" inspect --json "$first"
same "files" 2 "$(grep -c '"header_bytes"' "$work/out")"
exits 0 "" inspect "$work/split.gguf"
same "split keys" 0 "$(grep -c "split[.][nct]" "$work/out")"
exits 2 "m-00002-of-00002.gguf: is the input" quantize "$first" -f -o "$second"
# What is missing, or of another model, is named.
cp "$first" "$work/alone"
exits 3 "alone/m-00002-of-00002.gguf: is missing: $work/alone/m-00001-of-00002.gguf is one of the 2 files" \
	lint "$work/alone/m-00001-of-00002.gguf"
cp "$first" "$work/alone/m-00002-of-00002.gguf"
exits 3 "alone/m-00002-of-00002.gguf: is file 1 of 2 by its split.no and split.count" inspect "$work/alone/m-00001-of-00002.gguf"
part 1 3 3 "" 0 "$(tensor a.weight 0 0 32 1)" 1 "$one" >"$work/alone/m-00002-of-00002.gguf"
exits 3 "alone/m-00002-of-00002.gguf: is file 2 of 3" inspect "$work/alone/m-00001-of-00002.gguf"
part 1 2 9 "" 0 "$(tensor a.weight 0 0 32 1)" 1 "$one" >"$work/alone/m-00002-of-00002.gguf"
exits 3 "m-00002-of-00002.gguf: is of a model of 9 tensors" inspect "$work/alone/m-00001-of-00002.gguf"
part 1 2 3 "" 0 "$(tensor a.weight 0 0 32 1)" 1 "$one" >"$work/alone/m-00002-of-00002.gguf"
exits 3 "the 2 files of the model have 2 tensors together, and split.tensors.count says 3" \
	inspect "$work/alone/m-00001-of-00002.gguf"
part 1 2 3 "" 0 "$(tensor z.weight 0 0 32 1)$(tensor b.weight 0 128 32 1)" 2 "$two" >"$work/alone/m-00002-of-00002.gguf"
exits 3 "m-00001-of-00002.gguf: tensor 'z.weight': is in $work/alone/m-00002-of-00002.gguf too" \
	inspect "$work/alone/m-00002-of-00002.gguf"
part 1 2 3 "$(text general.architecture)$(little 4 8)$(text qwen2)" 1 "$(tensor a.weight 0 0 32 1)$(tensor m.weight 0 128 32 1)" 2 \
	"$two" >"$work/alone/m-00002-of-00002.gguf"
exits 3 "m-00002-of-00002.gguf: general.architecture: is 'qwen2'" inspect "$work/alone/m-00001-of-00002.gguf"
cp "$second" "$work/alone/other.gguf"
exits 3 "other.gguf: is file 2 of the 2 of a split model, and its name does not end in -00002-of-00002.gguf" \
	dequantize "$work/alone/other.gguf" -o "$work/x.gguf"
# What llama-gguf-split --merge leaves is whole, and does not say so when it is written again.
part 0 0 1 "$carried" 3 "$(tensor z.weight 0 0 32 1)" 1 "$one" >"$work/merged.gguf"
exits 0 "" quantize "$work/merged.gguf" -o "$work/other.gguf" -fq
exits 0 "" inspect "$work/other.gguf"
same "split keys of a merged file" 0 "$(grep -c "split[.][nct]" "$work/out")"

# Changes to a model's weights, and sums over its inputs, are no weights: by general.type, or by the keys of older files.
old=$carried
for key in "$(text general.type)$(little 4 8)$(text adapter)" "$(text imatrix.chunk_count)$(little 4 4)$(little 4 5)"; do
	carried=$(printf '%s' "$pairs$key" | tr -d ' \n\t')
	gguf "$(tensor blk.0.attn_q.weight 0 0 32 1)" 1 "$one" >"$work/sums.gguf"
	printf '\4' | dd of="$work/sums.gguf" bs=1 seek=16 conv=notrunc 2>/dev/null
	exits 3 "so it holds no weights of a model" quantize "$work/sums.gguf" -o "$work/x.gguf"
	exits 0 "" inspect "$work/sums.gguf"
done
carried=$old

# llama-quantize's own: the same blocks of the same tensors; it makes ffn_down, whose rows are not whole blocks, F16.
golden() {
	exits 0 "" quantize "$weights/stories260K.f32.gguf" -o "$work/golden.$1.gguf" --weights "$@" -q
	"$mxfp" diff "$work/golden.$1.gguf" "$weights/stories260K.$1.llama-quantize.gguf" >"$work/out"
	same "tensors that differ from llama-quantize's in $1" 5 "$(grep -c '\.weight' "$work/out")"
	same "of which are ffn_down" 5 "$(grep -c 'blk\..\.ffn_down\.weight.* F16 ' "$work/out")"
}
if [ -r "$weights/stories260K.f32.gguf" ]; then
	golden mxfp4 --rule floor --round rhz
	golden nvfp4
else
	echo "skipped: no stories260K in MXFP_SHARED"
fi
finish
