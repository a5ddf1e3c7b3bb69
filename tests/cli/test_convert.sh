#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp convert on files made here byte by byte, from the definitions of the layouts.
. "${srcdir:-.}/tests/cli/cli.shlib"
. "${srcdir:-.}/tests/cli/gguf.shlib"

# count FROM TO: bytes that count up.
count() {
	i=$1
	while [ $i -le $2 ]; do
		printf '%02x' $i
		i=$((i + 1))
	done
}

# MXFP4: [2, 64] and experts [2, 2, 32]; codes, then scales of each, in the order of the file, which is that of names.
plain=$(count 0 63) plain_scales=7e7f8081 experts=$(count 64 127) expert_scales=00707172
data=$plain$plain_scales$experts$expert_scales
# parts LAYOUT: names and shapes.
parts() {
	case $1 in
	compressed-tensors) echo 'a.weight_packed 2,32 a.weight_scale 2,2 experts.gate_up_proj_packed 2,2,16
		experts.gate_up_proj_scale 2,2,1' ;;
	gpt-oss) echo 'a.weight_blocks 2,2,16 a.weight_scales 2,2 experts.gate_up_proj_blocks 2,2,1,16
		experts.gate_up_proj_scales 2,2,1' ;;
	*) echo 'a.weight 2,32 a.weight_scale 2,2 experts.gate_up_proj 2,2,16 experts.gate_up_proj_scale 2,2,1' ;;
	esac
}
# file PARTS: a safetensors file of those names, in U8, and the data above; sizes are 64, 4, 64, 4.
file() {
	text= at=0
	for size in 64 4 64 4; do
		text="$text,\"$1\":{\"dtype\":\"U8\",\"shape\":[$2],\"data_offsets\":[$at,$((at + size))]}"
		at=$((at + size))
		shift 2
	done
	header "{${text#,}}"
	bytes "$data"
}
# listed FILE: names and shapes, as parts() has them.
listed() {
	"$mxfp" inspect "$1" | sed -n 's/^  \([a-z][^ ]*\)  *U8  *[0-9]*  \[\(.*\)\]$/\1 \2/p' | tr -d '\n' |
		sed 's/, /,/g;s/\([0-9]\)\([a-z]\)/\1 \2/g'
}
layouts='compressed-tensors gpt-oss modelopt quark'
for layout in $layouts; do
	file $(parts $layout) >"$work/$layout.safetensors"
	exits 0 "" dequantize "$work/$layout.safetensors" -o "$work/$layout.f32.safetensors" -q
	same "numbers of $layout" "$(data 1000 "$work/compressed-tensors.f32.safetensors")" \
		"$(data 1000 "$work/$layout.f32.safetensors")"
done
for from in $layouts; do
	for to in $layouts; do
		exits 0 "" convert "$work/$from.safetensors" -o "$work/to.safetensors" --layout $to --force -q
		same "names of $from to $to" "$(echo $(parts $to))" "$(listed "$work/to.safetensors")"
		same "data of $from to $to" "$data" "$(data 136 "$work/to.safetensors")"
	done
done
# What --ignore matches stays bit for bit; the rest has 8 bits: code 1, 0.5, is 30 in E4M3, by the same scale.
exits 0 "" convert "$work/compressed-tensors.safetensors" -o "$work/some.safetensors" --to mxfp8-e4m3 -q --ignore 'a.*'
same "names with --ignore" "a.weight_packed 2,32 a.weight_scale 2,2" "$(echo $(listed "$work/some.safetensors") | cut -d ' ' -f 1-4)"
same "summary of --ignore" "nothing else" "$("$mxfp" inspect "$work/some.safetensors" | grep -q 'experts.gate_up_proj .*F8_E4M3' && echo nothing else)"
same "data with --ignore" "$plain$plain_scales" "$("$mxfp" convert "$work/some.safetensors" -o "$work/four.safetensors" --to mxfp4 -q -f &&
	data 136 "$work/four.safetensors" | cut -c1-136)"
exits 2 "convert: --ignore 'b.*': matches no quantized tensor" convert "$work/compressed-tensors.safetensors" -o "$work/x.safetensors" \
	--to mxfp8-e4m3 --ignore 'b.*'
# OpenAI's own names.
sed 's/_blocks"/.blocks"/g;s/_scales"/.scales"/g' "$work/gpt-oss.safetensors" >"$work/openai.safetensors"
exits 0 "" convert "$work/openai.safetensors" -o "$work/to.safetensors" -l quark -fq
same "names of OpenAI" "$(echo $(parts quark))" "$(listed "$work/to.safetensors")"
same "data of OpenAI" "$data" "$(data 136 "$work/to.safetensors")"

# Tiles for Trainium: word (p, 0, n) is bytes 2p and 2p + 1 of row n; after 16 of 128 partitions and 2 of 16 scales
# comes padding. The second dimension of experts stays in front.
x4=
for p in $(seq 0 15); do
	x4=$x4$(count $((2 * p)) $((2 * p + 1)))$(count $((32 + 2 * p)) $((33 + 2 * p)))
done
x4=$x4$(repeat 448 00)7e807f81$(repeat 28 7f)
safetensors "$work/plain.safetensors" '{"a.weight_packed":{"dtype":"U8","shape":[2,32],"data_offsets":[0,64]},
	"a.weight_scale":{"dtype":"U8","shape":[2,2],"data_offsets":[64,68]}}' "$plain$plain_scales"
exits 0 "" convert "$work/plain.safetensors" -o "$work/x4.safetensors" -l trn-x4
has "table" "$(tr -s ' ' <"$work/out")" "| a.weight | mxfp4 [2, 64] | reordered | - | - |"
same "tiles" "$x4" "$(data 544 "$work/x4.safetensors")"
exits 0 "" inspect "$work/x4.safetensors"
has "tiles" "$(tr -s ' ' <"$work/out")" "a.weight_e2m1_x4 U16 512 [128, 1, 2]"
has "tiles" "$(tr -s ' ' <"$work/out")" "a.weight_x4_scale U8 32 [16, 1, 2]"
has "tiles" "$(tr -s ' ' <"$work/out")" "mxfp.cols.a.weight = 64"
exits 0 "" convert "$work/compressed-tensors.safetensors" -o "$work/x4.safetensors" -l trn-x4 -fq
exits 0 "" inspect "$work/x4.safetensors"
has "tiles" "$(tr -s ' ' <"$work/out")" "experts.gate_up_proj_e2m1_x4 U16 1024 [2, 128, 1, 2]"
for to in $layouts; do
	exits 0 "" convert "$work/x4.safetensors" -o "$work/to.safetensors" --layout $to -fq
	same "names of trn-x4 to $to" "$(echo $(parts $to))" "$(listed "$work/to.safetensors")"
	same "data of trn-x4 to $to" "$data" "$(data 136 "$work/to.safetensors")"
done
# Many rows, which are gathered in bands before they are written and after they are read: a band of rows of 544 elements
# has some 7,000, and three matrices of 3,000 do not end with one. Word (p, t, n) of matrix e is where the tiles want it.
e_n=3000 e_row=272 e_size=$((3 * 3000 * 272))
{
	header "{\"__metadata__\":{\"format\":\"pt\"},\"a.weight_packed\":{\"dtype\":\"U8\",\"shape\":[3,$e_n,$e_row],\"data_offsets\":[0,$e_size]},
		\"a.weight_scale\":{\"dtype\":\"U8\",\"shape\":[3,$e_n,17],\"data_offsets\":[$e_size,$((e_size + 3 * e_n * 17))]}}"
	seq 1000000 | head -c $((e_size + 3 * e_n * 17))
} >"$work/rows.safetensors"
data_at() { # DATA FROM N FILE: N bytes at FROM of a file's last DATA bytes, as hex digits
	tail -c "$1" "$4" | tail -c +$(($2 + 1)) | head -c "$3" | hex
}
exits 0 "" convert "$work/rows.safetensors" -o "$work/x4.safetensors" -l trn-x4 -fq
for place in "0 0 0 0" "0 127 0 2999" "1 7 0 1234" "2 64 0 1679" "2 64 0 1680" "2 7 1 2999" "2 8 1 2999"; do
	# shellcheck disable=SC2086
	set -- $place
	e=$1 p=$2 t=$3 n=$4
	if [ $((512 * t + 4 * p)) -lt 544 ]; then
		expected=$(data_at $((e_size + 3 * e_n * 17)) $(((e * e_n + n) * e_row + (512 * t + 4 * p) / 2)) 2 "$work/rows.safetensors")
	else
		expected=0000
	fi
	same "word $place" "$expected" \
		"$(data_at $((3 * 144 * 2 * e_n * 2 - 3 * 16 * 2 * e_n)) $(((((e * 128 + p) * 2 + t) * e_n + n) * 2)) 2 "$work/x4.safetensors")"
done
for run in "convert -l compressed-tensors" "dequantize --threads 1"; do
	# shellcheck disable=SC2086
	exits 0 "" $run "$work/x4.safetensors" -o "$work/from_x4.safetensors" -fq
	# shellcheck disable=SC2086
	exits 0 "" $run "$work/rows.safetensors" -o "$work/from_rows.safetensors" -fq
	check "$run: bands: other bytes than of rows" cmp -s "$work/from_x4.safetensors" "$work/from_rows.safetensors"
done
exits 0 "" convert "$work/x4.safetensors" -o "$work/again.safetensors" -l trn-x4 -fq
check "bands to bands" cmp -s "$work/x4.safetensors" "$work/again.safetensors"
# Four codes of 8 bits, the first in the lowest byte: bytes 4p to 4p + 3.
for type in E4M3 E5M2; do
	safetensors "$work/one.safetensors" "{\"a.weight\":{\"dtype\":\"F8_$type\",\"shape\":[1,32],\"data_offsets\":[0,32]},
		\"a.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[32,33]}}" "$(count 1 32)70"
	exits 0 "" convert "$work/one.safetensors" -o "$work/x4.safetensors" -l trn-x4 -fq
	same "tiles of $type" "$(count 1 32)$(repeat 480 00)70$(repeat 15 7f)" "$(data 528 "$work/x4.safetensors")"
	exits 0 "" convert "$work/x4.safetensors" -o "$work/to.safetensors" -l compressed-tensors -fq
	same "$type back" "$(data 33 "$work/one.safetensors")" "$(data 33 "$work/to.safetensors")"
done

# NVFP4: the tensor scale 4 divides, .25 multiplies; that of activations 8, and .125. Kept tensors come first or last.
nvfp4() {
	header "{\"a.$3\":{\"dtype\":\"F32\",\"shape\":[$5],\"data_offsets\":[0,4]},
		\"a.$4\":{\"dtype\":\"F32\",\"shape\":[$5],\"data_offsets\":[4,8]},
		\"a.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,2],\"data_offsets\":[8,10]},
		\"a.weight$6\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[10,26]},
		\"b.weight\":{\"dtype\":\"I8\",\"shape\":[1,2],\"data_offsets\":[26,28]}}"
	bytes "$1$2 3840 $(count 1 16) aabb"
}
divides() {
	nvfp4 "$2" "$1" input_global_scale weight_global_scale 1 _packed
}
multiplies() {
	nvfp4 "$2" "$1" input_scale weight_scale_2 "" ""
}
divides 00008040 00000041 >"$work/ct.safetensors"
multiplies 0000803e 0000003e >"$work/mo.safetensors"
exits 0 "" convert "$work/ct.safetensors" -o "$work/to.safetensors" -l modelopt -f
has "table" "$(tr -s ' ' <"$work/out")" "| a.weight | nvfp4 [1, 32] | as they are | 1/x, exact | 1/x, exact |"
has "table" "$(tr -s ' ' <"$work/out")" "| b.weight | I8 [1, 2] | as they are | - | - |"
same "divided to multiplied" "0000003e0000803e3840$(count 1 16)" "$(data 28 "$work/to.safetensors" | sed 's/aabb//')"
exits 0 "" inspect "$work/to.safetensors"
has "rank" "$(tr -s ' ' <"$work/out")" "a.weight_scale_2 F32 4 []"
exits 0 "" convert "$work/mo.safetensors" -o "$work/to.safetensors" -l compressed-tensors -fq
same "multiplied to divided" "00000041000080403840$(count 1 16)" "$(data 28 "$work/to.safetensors" | sed 's/aabb//')"
exits 0 "" convert "$work/mo.safetensors" -o "$work/back.safetensors" -l modelopt -fq
same "to the same layout" "$(data 28 "$work/mo.safetensors" | sed 's/aabb//')" \
	"$(data 28 "$work/back.safetensors" | sed 's/aabb//')"

# 1/3 is no binary32 number: 3eaaaaab is off by 2^-25 of itself, 3e-08. Its own reciprocal is 3 again, but that of
# 3f7fffff, 1 - 2^-24, is 3f800001, whose reciprocal is 3f7ffffe, so what it was is noted.
divides 00004040 00000041 >"$work/third.safetensors"
exits 3 "tensor 'a.weight_global_scale': is 3, and its reciprocal, which layout modelopt wants, has to be rounded:" \
	convert "$work/third.safetensors" -o "$work/x.safetensors" -l modelopt
exits 3 "changes numbers by 3.0e-08 of themselves; --allow-rounding" \
	convert "$work/third.safetensors" -o "$work/x.safetensors" -l modelopt
[ ! -e "$work/x.safetensors" ] || bad "output after a refusal"
exits 0 "" convert "$work/third.safetensors" -o "$work/to.safetensors" -l modelopt -f --allow-rounding
has "table" "$(tr -s ' ' <"$work/out")" "| 1/x, rounded: 3.0e-08 | 1/x, exact |"
has "summary" "$(cat "$work/out")" "1 scales were rounded, which changes numbers by at most 3.0e-08 of themselves"
exits 0 "" convert "$work/third.safetensors" -o "$work/to.safetensors" -l modelopt -fq --allow-rounding --json
text=$(tr -d ' \n' <"$work/out")
has "JSON" "$text" "\"layout\":\"modelopt\",\"tensors_moved\":1,\"tensors_copied\":1,\"tensors_decoded\":0,\"scales_rounded\":1,"
has "JSON" "$text" '"scales_left_out":0,"kv_cache_scheme":null,"copied":[],"not_copied":[]},"tensors":['
has "JSON" "$text" '{"name":"a.weight","weights":"nvfp4","shape":[1,32],"became":"moved","tensor_scale":{"became":"reciprocal,'
has "JSON" "$text" 'rounded","was":3.0,"is":0.33333334326744'
has "JSON" "$text" '"input_scale":{"became":"reciprocal","was":8.0,"is":0.125,"change":0.0}}'
has "JSON" "$text" '{"name":"b.weight","dtype":"I8","shape":[1,2],"became":"copied","tensor_scale":null,"input_scale":null}'
if command -v python3 >/dev/null 2>&1; then
	python3 -m json.tool "$work/out" >/dev/null || bad "--json is no JSON"
fi
same "a third" "0000003eabaaaa3e" "$(data 28 "$work/to.safetensors" | cut -c 1-16)"
divides ffff7f3f 00000041 >"$work/near.safetensors"
exits 0 "mxfp: 1 scales were rounded" convert "$work/near.safetensors" -o "$work/to.safetensors" -l modelopt -fq --allow-rounding
same "reciprocal" "0000003e0100803f" "$(data 28 "$work/to.safetensors" | cut -c 1-16)"
exits 0 "" convert "$work/to.safetensors" -o "$work/back.safetensors" -l compressed-tensors -f
has "table" "$(tr -s ' ' <"$work/out")" "| 1/x, as noted | 1/x, exact |"
same "back" "00000041ffff7f3f" "$(data 28 "$work/back.safetensors" | cut -c 1-16)"
divides 01000000 00000041 >"$work/none.safetensors"
exits 3 "whose reciprocal, which layout modelopt wants, is not an F32 number" \
	convert "$work/none.safetensors" -o "$work/x.safetensors" -l modelopt --allow-rounding
for scale in 00000000 0000807f 0000c07f; do
	divides $scale 00000041 >"$work/none.safetensors"
	exits 3 "which is not a valid tensor scale" convert "$work/none.safetensors" -o "$work/x.safetensors" -l modelopt --allow-rounding
done

# GGUF. Element e of a row of bytes 10, 11, ... is e / 2 if e is even, else 1; bytes of a block have the elements i and
# i + 16 (NVFP4: i + 8, in each 16) in their nibbles. Here row k has the bytes k0 to kf.
halves() {
	for row; do
		printf '%s' "${row%??}"
		printf "%s${row#??}" 80 91 a2 b3 c4 d5 e6 f7
	done
}
gguf "$(tensor a.weight 39 0 64 2)$(tensor experts.gate_up_proj 39 96 32 2 2)" 2 "$(halves 7e00 7f11 8022 8133)$(repeat 28 00)\
$(halves 0044 7055 7166 7277)$(repeat 28 00)" >"$work/from.gguf"
for to in $layouts trn-x4; do
	exits 0 "" convert "$work/from.gguf" -o "$work/to.safetensors" --layout $to -fq
	if [ $to = trn-x4 ]; then
		exits 0 "" convert "$work/to.safetensors" -o "$work/back.safetensors" -fq
		mv "$work/back.safetensors" "$work/to.safetensors"
	fi
	same "data of gguf to $to" "$data" "$(data 136 "$work/to.safetensors")"
done
exits 0 "" convert "$work/from.gguf" -o "$work/to.gguf"
has "table" "$(tr -s ' ' <"$work/out")" "| a.weight | mxfp4 [2, 64] | as they are | - | - |"
has "key-values" "$(hex <"$work/to.gguf")" "$carried"
same "gguf to gguf" "$(data 192 "$work/from.gguf")" "$(data 192 "$work/to.gguf")"
# Its tensor scale multiplies, and that of compressed-tensors divides; none is 1.
long() {
	header "{\"a.weight_global_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},
		\"a.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,4],\"data_offsets\":[4,8]},
		\"a.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,32],\"data_offsets\":[8,40]}}"
	bytes "$1 38403028 $(count 0 31)"
}
nvfp4='38403028 4000510062007300 c800d900ea00fb00 4011511162117311 c811d911ea11fb11'
long 00008040 >"$work/long.safetensors"
gguf "$(tensor a.weight 40 0 64 1)$(tensor a.scale 0 64 1)" 2 "$nvfp4$(repeat 28 00)0000803e$(repeat 28 00)" >"$work/long.gguf"
exits 0 "" convert "$work/long.gguf" -o "$work/to.safetensors" -f
has "scale of NVFP4" "$(tr -s ' ' <"$work/out")" "| reordered | 1/x, exact | - |"
same "NVFP4" "$(data 40 "$work/long.safetensors")" "$(data 40 "$work/to.safetensors")"
long 0000803f >"$work/long.safetensors"
gguf "$(tensor a.weight 40 0 64 1)" 1 "$nvfp4$(repeat 28 00)" >"$work/long.gguf"
exits 0 "" convert "$work/long.gguf" -o "$work/to.safetensors" -fq
same "NVFP4 without a scale" "$(data 40 "$work/long.safetensors")" "$(data 40 "$work/to.safetensors")"
# Neither becomes the other kind of model: llama.cpp wants key-values, and loaders of directories have other names.
exits 2 "to.gguf: a GGUF file is made from another one, and $work/plain.safetensors is not a GGUF file; mxfp convert makes one" \
	convert "$work/plain.safetensors" -o "$work/to.gguf" -f
exits 2 "x: a GGUF file becomes no model directory" convert "$work/from.gguf" -o "$work/x"
[ ! -e "$work/x" ] || bad "an output after a refusal"
exits 2 "layout gguf is that of a file; give it a name that ends in .gguf" \
	convert "$work/plain.safetensors" -o "$work/x" -l gguf
exits 2 "layout gguf is that of a file" quantize "$work/plain.safetensors" -o "$work/x" -l gguf -n
exits 2 "layout quark is for .safetensors files" convert "$work/plain.safetensors" -o "$work/x.gguf" -l quark

# What a layout does not hold: refused, or decoded.
exits 3 "tensor 'a.weight_packed': is nvfp4, which layout quark does not hold; --decode-rest f32 decodes it" \
	convert "$work/ct.safetensors" -o "$work/x.safetensors" -l quark
exits 0 "" convert "$work/ct.safetensors" -o "$work/to.safetensors" -l quark -f --decode-rest f32
has "summary" "$(cat "$work/out")" "0 tensors brought into layout quark"
exits 0 "" dequantize "$work/ct.safetensors" -o "$work/f32.safetensors" -q
same "decoded" "$(data 128 "$work/f32.safetensors")" "$(data 128 "$work/to.safetensors")"
exits 2 "layout quark is for .safetensors files" convert "$work/ct.safetensors" -o "$work/x.npy" -l quark
exits 2 "unknown value 'quarks': did you mean 'quark'" convert "$work/ct.safetensors" -o "$work/x" -l quarks
exits 2 "no output given" convert "$work/ct.safetensors"

# .npy: 118 bytes of header after 10, as NumPy pads it, in C order.
safetensors "$work/array.safetensors" '{"a":{"dtype":"I16","shape":[2,3],"data_offsets":[0,12]}}' "$(count 1 12)"
exits 0 "" convert "$work/array.safetensors" -o "$work/to.npy"
same "array" "934e554d505901007600" "$(hex <"$work/to.npy" | cut -c 1-20)"
has "array" "$(tail -c +11 "$work/to.npy" | head -c 60)" "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), } "
same "array" "0a$(count 1 12)" "$(tail -c +128 "$work/to.npy" | hex)"
exits 0 "" convert "$work/to.npy" -o "$work/to.safetensors" -fq
same "array back" "$(count 1 12)" "$(data 12 "$work/to.safetensors")"
exits 3 "holds one array, and here are 2" convert "$work/ct.safetensors" -o "$work/x.npy" --decode-rest f32
exits 3 "is nvfp4, which layout npy does not hold; --decode-rest f32 decodes it" \
	convert "$work/ct.safetensors" -o "$work/x.npy"
exits 3 "is BF16 of 2 dimensions, which NumPy does not have" convert "$work/long.safetensors" -o "$work/x.npy" --decode-rest bf16
exits 0 "" convert "$work/long.safetensors" -o "$work/to.npy" --decode-rest f32 -fq
exits 0 "" dequantize "$work/long.safetensors" -o "$work/f32.npy" -q
exits 0 "" dequantize "$work/long.safetensors" -o "$work/f32.safetensors" -fq
same "decoded to .npy" "$(data 256 "$work/f32.safetensors")" "$(data 256 "$work/to.npy")"
cmp -s "$work/to.npy" "$work/f32.npy" || bad "dequantize to .npy"
[ ! -e "$work/x.npy" ] || bad "an output after a refusal"

# A sharded model: codes and scales in different files, config.json, other files, and no configuration of before.
mkdir "$work/model"
safetensors "$work/model/one.safetensors" '{"__metadata__":{"note":"kept"},"a.weight_packed":{"dtype":"U8","shape":[2,32],"data_offsets":[0,64]}}' \
	"$plain"
safetensors "$work/model/two.safetensors" '{"a.weight_scale":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]},
	"b.weight":{"dtype":"BF16","shape":[1,1],"data_offsets":[4,6]}}' "$plain_scales 803f"
echo '{"weight_map":{"a.weight_packed":"one.safetensors","a.weight_scale":"two.safetensors",
	"b.weight":"two.safetensors"}}' \
	>"$work/model/model.safetensors.index.json"
echo '{"model_type":"test","quantization_config":{"quant_method":"compressed-tensors","config_groups":{"group_0":
	{"input_activations":{"num_bits":8,"type":"float","group_size":32}}}}}' >"$work/model/config.json"
echo text >"$work/model/tokenizer.txt"
echo '{}' >"$work/model/hf_quant_config.json"
exits 0 "" convert "$work/model" -o "$work/m" -l quark
same "files" "config.json model.safetensors.index.json one.safetensors tokenizer.txt two.safetensors" \
	"$(echo $(ls "$work/m"))"
same "first shard" "$plain$plain_scales" "$(data 68 "$work/m/one.safetensors")"
same "second shard" 803f "$(data 2 "$work/m/two.safetensors")"
has "index" "$(cat "$work/m/model.safetensors.index.json")" '"a.weight_scale": "one.safetensors"'
text=$(tr -d ' \n' <"$work/m/config.json")
has "config" "$text" '{"model_type":"test","quantization_config":{"quant_method":"quark"'
has "config" "$text" '"input_tensors":null'
has "config" "$text" '"exclude":["lm_head","b"]'
exits 0 "" convert "$work/model" -o "$work/m" -l modelopt -f
has "config" "$(tr -d ' \n' <"$work/m/config.json")" '"quant_algo":"W4A8_MXFP4_FP8"'
has "second config" "$(tr -d ' \n' <"$work/m/hf_quant_config.json")" '"exclude_modules":["lm_head","b"]'
exits 0 "" convert "$work/m" -o "$work/back" -l compressed-tensors
has "config" "$(tr -d ' \n' <"$work/back/config.json")" '"input_activations":{"num_bits":8,"type":"float"'
exits 0 "" convert "$work/model" -o "$work/whole.safetensors" -l quark
has "summary of one file" "$(cat "$work/out")" "one file without a config.json"
same "what is said to be copied beside one file" "" "$(grep copied.as "$work/out")"
same "one file" "803f$plain$plain_scales" "$(data 70 "$work/whole.safetensors")"
exits 3 "'a.weight_packed': layout gpt-oss does not hold it: loaders of this layout take model_type gpt_oss only" \
	convert "$work/model" -o "$work/whole.safetensors" -l gpt-oss -f
exits 2 "exists" convert "$work/model" -o "$work/m" -l quark
exits 2 "" convert "$work/model" -o "$work/model" -l quark --force


# What mxfp does not read would only be copied, and its quantization_config be lost: AutoGPTQ's names and shapes, those of
# DeepSeek-V3's FP8, and a model that is not quantized.
for kind in gptq fp8 none; do
	mkdir "$work/$kind"
	echo '{"model_type":"x"}' >"$work/$kind/config.json"
done
echo '{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32}}' >"$work/gptq/config.json"
safetensors_zeros "$work/gptq/model.safetensors" '{"a.g_idx":{"dtype":"I32","shape":[32],"data_offsets":[0,128]},
	"a.qweight":{"dtype":"I32","shape":[4,32],"data_offsets":[128,640]},
	"a.qzeros":{"dtype":"I32","shape":[1,4],"data_offsets":[640,656]},
	"a.scales":{"dtype":"F16","shape":[1,32],"data_offsets":[656,720]}}' 720
safetensors_zeros "$work/none/model.safetensors" '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}' 128
for kind in gptq none; do
	case $kind in
	gptq) why="tensor 'a.qweight': it is GPTQ, which mxfp does not read; quantize the model that it was made from" ;;
	none) why="nothing in it is quantized in a layout that mxfp knows; if it is not quantized at all, mxfp quantize does that" ;;
	esac
	for command in "convert -l quark" "convert --decode-rest f32" dequantize; do
		exits 3 "$why" $command "$work/$kind" -o "$work/lost"
		check "an output of $kind" test ! -e "$work/lost"
	done
done
exits 3 "is GPTQ, which mxfp does not read; quantize the model that it was made from" quantize "$work/gptq" -o "$work/lost"
same "a remedy that does not work" "" "$(echo "$error" | grep dequantize)"

finish
