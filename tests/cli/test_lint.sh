#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp lint: a sound model, then one fault at a time, put in by hand.
. "${srcdir:-.}/tests/cli/cli.shlib"
. "${srcdir:-.}/tests/cli/gguf.shlib"

shared=${MXFP_SHARED:-${srcdir:-.}/../shared}
charlm=${srcdir:-.}/examples/charlm.safetensors

# finds CODE "errors ERRORS, warnings WARNINGS, notes NOTES" PART MODEL ARGUMENT...: PART is in the findings. Most models here are made
# of a file alone, and their config.json has no model_type.
finds() {
	expected=$1 counts=$2 part=$3
	shift 3
	code=0
	"$mxfp" lint -q --ignore model-type "$@" >"$work/out" 2>&1 || code=$?
	same "exit code of lint $*" "$expected" $code
	has "summary of lint $*" "$(tail -n 1 "$work/out")" "$counts"
	has "findings of lint $*" "$(cat "$work/out")" "$part"
}

# place FILE TENSOR: the byte of a safetensors file at which the tensor's data start.
place() {
	length=$(od -An -tu4 -N4 "$1" | tr -d ' ')
	from=$(head -c $((8 + length)) "$1" | tail -c "$length" |
		sed -n "s/.*\"$2\": *{[^}]*\"data_offsets\": *\[\([0-9]*\),.*/\1/p")
	echo $((8 + length + from))
}

# damage FILE TENSOR BYTE HEX: a copy of the file in $work/damaged.safetensors with other bytes in a tensor.
damage() {
	cp "$1" "$work/damaged.safetensors"
	bytes "$4" | dd of="$work/damaged.safetensors" bs=1 seek=$(($(place "$1" "$2") + $3)) conv=notrunc 2>/dev/null
}

# made HEX JSON: a file of hand-made tensors.
made() {
	safetensors "$work/made.safetensors" "$2" "$1"
}

for format in mxfp4 mxfp8 mxfp6-e2m3 mxint8 nvfp4; do
	exits 0 "" quantize "$charlm" -o "$work/$format" --force -q --weights $format
	finds 0 "errors 0, warnings 0, notes 0" "5 quantized weights" "$work/$format" --ignore refused
done
# What no loader knows the model by.
for config in none '{}' '{"model_type": "llama"}' '{"_class_name": "FluxTransformer2DModel"}'; do
	rm -rf "$work/untyped"
	mkdir "$work/untyped"
	cp "$charlm" "$work/untyped/model.safetensors"
	[ "$config" = none ] || printf '%s' "$config" >"$work/untyped/config.json"
	exits 0 "" lint -q "$work/untyped"
	case $config in
	none) has "without config.json" "$(cat "$work/out")" "/untyped: has no config.json [model-type]" ;;
	'{}') has "without model_type" "$(cat "$work/out")" "/untyped: config.json has no model_type [model-type]" ;;
	*) same "with $config" "" "$(grep model-type "$work/out")" ;;
	esac
done
exits 0 "" lint -q "$charlm"
same "a file" "" "$(grep model-type "$work/out")"
# What vLLM does not load, and what it loads as something else.
finds 0 "errors 0, warnings 0, notes 1" "it and 4 others are mxfp6-e2m3 in layout compressed-tensors: vLLM 0.33.0 refuses it" "$work/mxfp6-e2m3"
finds 0 "errors 0, warnings 0, notes 1" "it and 4 others are mxint8 in layout compressed-tensors: vLLM 0.33.0 and compressed-tensors refuse it" \
	"$work/mxint8"
exits 0 "" quantize "$charlm" -o "$work/mxfp8-e5m2" --weights mxfp8-e5m2
finds 1 "errors 0, warnings 1, notes 0" "it and 4 others are mxfp8-e5m2 in layout compressed-tensors: vLLM 0.33.0 takes it for mxfp8-e4m3" \
	"$work/mxfp8-e5m2"
finds 0 "errors 0, warnings 0, notes 0" "10 tensors, 0 quantized weights" "$charlm"
mxfp4=$work/mxfp4/model.safetensors nvfp4=$work/nvfp4/model.safetensors mxfp8=$work/mxfp8/model.safetensors
up=model.layers.0.up_proj.weight

# Scales. Rows of up_proj have 4 blocks of 32: byte 5 is row 1, block 1. 384 rows: 1536 blocks.
damage "$mxfp4" ${up}_scale 5 ff
finds 1 "errors 1, warnings 0, notes 0" \
	"'$up': 1 of 1536 blocks (0.0651 %) have a NaN scale, the first in row 1, block 1" \
	"$work/damaged.safetensors"
same "name of the check, and the second line" "    every product with such a block is NaN; quantize again from a source without \
NaN and Inf" "$(grep -A 1 -F 'block 1 [scale-nan]' "$work/out" | sed 1d)"
finds 0 "errors 0, warnings 0, notes 0" "" "$work/damaged.safetensors" --ignore scale-nan
# 2^127 and a code of 6: overflow.
damage "$mxfp4" ${up}_scale 5 fe
printf '\167' | dd of="$work/damaged.safetensors" bs=1 conv=notrunc 2>/dev/null \
	seek=$(($(place "$mxfp4" ${up}_packed) + 5 * 16))
finds 1 "errors 1, warnings 0, notes 0" \
	"1 of 1536 blocks (0.0651 %) hold numbers that are not finite, the first in row 1, block 1" \
	"$work/damaged.safetensors"
has "name of the check" "$(cat "$work/out")" "[non-finite-block]"
# NVFP4 has 8 blocks a row.
damage "$nvfp4" ${up}_scale 9 7f
finds 1 "errors 1, warnings 0, notes 0" "1 of 3072 blocks (0.0326 %) have a NaN scale, the first in row 1, block 1" \
	"$work/damaged.safetensors"
damage "$nvfp4" ${up}_scale 10 b8
finds 1 "errors 0, warnings 1, notes 0" \
	"have a scale with a sign, the first in row 1, block 2" "$work/damaged.safetensors"
damage "$nvfp4" ${up}_scale 11 00
finds 1 "errors 0, warnings 1, notes 1" "have scale 0 over codes that are not 0, the first in row 1, block 3" \
	"$work/damaged.safetensors"
damage "$nvfp4" ${up}_global_scale 0 00000000
finds 1 "" "'${up}_global_scale': it is 0 [tensor-scale]" "$work/damaged.safetensors"
damage "$nvfp4" ${up}_global_scale 0 000080bf
finds 1 "errors 1" "it is -1 [tensor-scale]" "$work/damaged.safetensors"
damage "$nvfp4" ${up}_global_scale 0 00000100
finds 1 "" "it is 9.18" "$work/damaged.safetensors"
damage "$nvfp4" ${up}_global_scale 0 0000807f
finds 1 "" "'${up}_global_scale': it is inf [tensor-scale]" "$work/damaged.safetensors"
damage "$nvfp4" ${up}_global_scale 0 0000c07f
finds 1 "" "'${up}_global_scale': it is nan [tensor-scale]" "$work/damaged.safetensors"
has "name of the check" "$(cat "$work/out")" "[tensor-scale]"
# What quantizing makes of numbers of 2^-140 and 2^-141: te's scale underflows, that of modelopt stops at 2^-140.
made "$(repeat 128 0002000000010000)" '{"x.weight":{"dtype":"F32","shape":[16,16],"data_offsets":[0,1024]}}'
for recipe in te modelopt; do
	exits 0 "" quantize "$work/made.safetensors" -o "$work/tiny.safetensors" -fq -w nvfp4 -l modelopt \
		--nvfp4-recipe $recipe
	case $recipe in
	te) finds 1 "" "'x.weight_scale_2': it is 0 [tensor-scale]" "$work/tiny.safetensors" ;;
	modelopt) finds 1 "errors 1, warnings 0, notes 0" "'x.weight_scale_2': it is 7.17" "$work/tiny.safetensors" ;;
	esac
done
damage "$mxfp8" $up 33 7f
finds 1 "errors 1, warnings 0, notes 0" "hold numbers that are not finite, the first in row 0, block 1" \
	"$work/damaged.safetensors"
damage "$mxfp4" model.norm.weight 8 0000807f0000c07f
finds 1 "errors 1, warnings 0, notes 0" \
	"'model.norm.weight': 2 of 128 elements are NaN or Inf, the first in row 0, column 2" \
	"$work/damaged.safetensors"

# 153 blocks of 1536 are less than a tenth, 154 are more.
for n in 153 154; do
	cp "$mxfp4" "$work/damaged.safetensors"
	head -c $((n * 16)) /dev/zero | dd of="$work/damaged.safetensors" bs=1 conv=notrunc 2>/dev/null \
		seek="$(place "$mxfp4" ${up}_packed)"
	case $n in
	153) finds 0 "errors 0, warnings 0, notes 1" \
		"$n of 1536 blocks (9.96 %) are all zeros" "$work/damaged.safetensors" ;;
	154) finds 1 "errors 0, warnings 1, notes 0" "$n of 1536 blocks (10 %) are all zeros" "$work/damaged.safetensors" ;;
	esac
done

# Nibbles: those of one matrix swapped.
down=model.layers.1.down_proj.weight
cp "$mxfp4" "$work/damaged.safetensors"
swapped=$(tail -c +$(($(place "$mxfp4" ${down}_packed) + 1)) "$mxfp4" | head -c $((128 * 384 / 2)) |
	od -An -v -tu1 | awk '{ for (i = 1; i <= NF; i++) printf "\\%03o", int($i / 16) + $i % 16 * 16 }')
printf "$swapped" | dd of="$work/damaged.safetensors" bs=4096 oflag=seek_bytes conv=notrunc 2>/dev/null \
	seek="$(place "$mxfp4" ${down}_packed)"
finds 1 "errors 0, warnings 1, notes 0" \
	"'$down': its columns go with the rows of 'model.layers.1.up_proj.weight' with the nibbles of each byte swapped: " \
	"$work/damaged.safetensors"
has "name of the check" "$(cat "$work/out")" "[nibble-order]"
# The same in the order of GGUF, where bytes hold elements 16 apart.
matrix=$((128 * 384)) other=model.layers.1.up_proj.weight
{
	gguf "$(tensor $other 0 0 128 384)$(tensor $down 0 $((4 * matrix)) 384 128)" 2
	for name in $other $down; do
		tail -c +$(($(place "$charlm" $name) + 1)) "$charlm" | head -c $((4 * matrix))
	done
} >"$work/sound.gguf"
exits 0 "" quantize "$work/sound.gguf" -o "$work/damaged.gguf" -q
finds 0 "errors 0, warnings 0, notes 0" "2 quantized weights" "$work/damaged.gguf"
cp "$work/damaged.gguf" "$work/right.gguf"
blocks=$((matrix / 32 * 17))
swapped=$(tail -c $blocks "$work/damaged.gguf" | od -An -v -tu1 | awk '{ for (i = 1; i <= NF; i++)
	printf "\\%03o", n++ % 17 == 0 ? $i : int($i / 16) + $i % 16 * 16 }')
printf "$swapped" | dd of="$work/damaged.gguf" bs=4096 oflag=seek_bytes conv=notrunc 2>/dev/null \
	seek=$(($(wc -c <"$work/damaged.gguf") - blocks))
finds 1 "errors 0, warnings 1, notes 0" "with the nibbles of each byte swapped, 16 columns apart: " "$work/damaged.gguf"
# What the rows of another layer show is no reason to change one; the model that it was made from is.
finds 1 "nothing is written" "not fixed: the model that it was made from shows beyond doubt" \
	"$work/damaged.gguf" --fix -o "$work/fixed.gguf"
check "something is written" test ! -e "$work/fixed.gguf"
exits 0 "" lint "$work/damaged.gguf" -q --against "$work/sound.gguf" --fix -o "$work/fixed.gguf"
check "the fixed file is another than that before the damage" cmp "$work/right.gguf" "$work/fixed.gguf"

# Parts. 1.0 in 32 columns: codes 2, scale 7f.
codes='"x.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]}'
ones=22222222222222222222222222222222
made $ones "{$codes}"
finds 1 "errors 1, warnings 0, notes 0" "'x.weight_packed': 'x.weight_scale' is missing; look for the file that holds it [parts]" "$work/made.safetensors"
# Found at another part of it, it is still said of the codes, once.
made "${ones}0000803f" "{$codes,\"x.weight_global_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]}}"
finds 1 "errors 1, warnings 0, notes 0" "error: $work/made.safetensors: tensor 'x.weight_packed': 'x.weight_scale' is missing" "$work/made.safetensors"
made "${ones}7f7f" "{$codes,\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,2],\"data_offsets\":[16,18]}}"
finds 1 "errors 1, warnings 0, notes 0" "'x.weight_packed': not in a layout that mxfp knows" "$work/made.safetensors"
made 7f '{"x.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[0,1]}}'
finds 1 "errors 1, warnings 0, notes 0" "'x.weight_scale': it is named as scales, but there are no codes" \
	"$work/made.safetensors"
made "${ones}7f" "{$codes,\"x.weight_scale\":{\"dtype\":\"F8_E8M0\",\"shape\":[1,1],\"data_offsets\":[16,17]}}"
finds 0 "errors 0, warnings 0, notes 1" "'x.weight_scale': it is F8_E8M0" "$work/made.safetensors"
plain='"x.weight":{"dtype":"BF16","shape":[1],"data_offsets":[17,19]}'
made "${ones}7f0000" "{$codes,$plain,\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[16,17]}}"
finds 1 "errors 0, warnings 1, notes 0" "'x.weight_packed': 'x.weight' is there too, as BF16" "$work/made.safetensors"
plain='"x.weight":{"dtype":"I8","shape":[1,1],"data_offsets":[0,1]}'
made 380000803f "{$plain,\"x.weight_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}"
finds 6 "errors 0, warnings 0, notes 1" "'x.weight': it is 8 bits with a scale for each tensor or row" \
	"$work/made.safetensors"
has "name of the check" "$(cat "$work/out")" "which mxfp does not read; quantize the model that it was made from [unknown-layout]"

# Layouts that are known by name, with the parts that their writers give a layer of [256,128], or of [8,32] where numbers
# are few: FILE HEADER, and bytes 3F for data, which are 0.7 as numbers. Names, dtypes and shapes are those of the programs that the table names.
foreign() { # EXPECTED TENSOR DTYPE SHAPE BYTES ...
	expect=$1 offset=0 json=
	shift
	while [ $# -gt 0 ]; do
		json="$json${json:+,}\"$1\":{\"dtype\":\"$2\",\"shape\":[$3],\"data_offsets\":[$offset,$((offset + $4))]}"
		offset=$((offset + $4))
		shift 4
	done
	mkdir -p "$work/foreign"
	{
		header "{$json}"
		head -c $offset /dev/zero | tr '\0' '?'
	} >"$work/foreign/model.safetensors"
	if [ "$expect" = read ]; then
		finds 0 "errors 0, warnings 0, notes 0" ", 1 quantized weights" "$work/foreign"
	else
		finds 6 "errors 0, warnings 0, notes 1" "': it is $expect" "$work/foreign" --ignore missing
	fi
}
q=model.layers.0.self_attn.q_proj
# Those of 8-bit floats are read: a scale for each square of 128, of experts, of a tensor, of a row.
foreign read $q.weight F8_E4M3 256,128 32768 $q.weight_scale_inv F32 2,1 8
foreign read $q.weight F8_E4M3 256,128 32768 $q.weight_scale_inv BF16 2,1 4
foreign read x.experts.gate_up_proj F8_E4M3 1,256,128 32768 x.experts.gate_up_proj_scale_inv F32 1,2,1 8
foreign read $q.weight F8_E4M3 256,128 32768 $q.scale F32 2,1 8
foreign read $q.weight F8_E4M3 256,128 32768 $q.weight_scale BF16 1 2 $q.input_scale BF16 1 2
foreign read $q.weight F8_E4M3 256,128 32768 $q.weight_scale F32 256,1 1024 $q.input_scale F32 1 4
foreign read $q.weight F8_E4M3 256,128 32768 $q.weight_scale F32 "" 4 $q.input_scale F32 "" 4
foreign read $q.weight F8_E4M3 256,128 32768 $q.weight_scale_inv F32 2,1 8 $q.input_scale F32 1 4
foreign "FP8 without scales, which mxfp does not read; .to(torch.bfloat16)" $q.weight F8_E4M3 256,128 32768
# A llama whose weights have other names is not one without them.
echo '{"model_type":"llama","hidden_size":128,"num_hidden_layers":1,"num_attention_heads":4,"vocab_size":96,
"intermediate_size":256,"quantization_config":{"quant_method":"?"}}' >"$work/foreign/config.json"
foreign "GPTQ" $q.qweight I32 16,256 16384 $q.qzeros I32 1,32 128 $q.scales F16 1,256 512 $q.g_idx I32 128 512
foreign "GPTQ" $q.qweight I32 16,256 16384 $q.qzeros I32 1,32 128 $q.scales F16 1,256 512 \
	model.layers.0.input_layernorm.weight F32 128 512
foreign "AWQ" $q.qweight I32 128,32 16384 $q.qzeros I32 1,32 128 $q.scales F16 1,256 512
foreign "AWQ" $q.qweight I32 256,16 16384 $q.qzeros I32 256,1 1024 $q.scales F16 256,8 4096
foreign "EXL2 of ExLlamaV2" $q.q_weight I32 16,256 16384 $q.q_scale I32 2,32 256 $q.q_scale_max F16 2 4 $q.q_groups I16 4 8 \
	$q.q_invperm I16 128 256
foreign "VPTQ" $q.indices I32 1,256,16 16384 $q.centroids.weight F16 1,2048 4096 $q.weight_scale F16 128 256 \
	$q.weight_bias F16 128 256 $q.perm I16 128 256
foreign "GPTQ in the order of Marlin" $q.B I32 8,512 16384 $q.s F16 4,256 2048
foreign "NF4 of bitsandbytes" $q.weight U8 16384,1 16384 $q.weight.absmax F32 512 2048 $q.weight.quant_map F32 16 64 \
	$q.weight.quant_state.bitsandbytes__nf4 U8 80 80
foreign "FP4 of bitsandbytes" $q.weight BF16 8192,1 16384 $q.weight.absmax U8 512 512 $q.weight.quant_map F32 16 64 \
	$q.weight.nested_absmax F32 2 8 $q.weight.nested_quant_map F32 256 1024 \
	$q.weight.quant_state.bitsandbytes__fp4 U8 80 80
foreign "LLM.int8() of bitsandbytes" $q.weight I8 256,128 32768 $q.SCB F32 256 1024 $q.weight_format U8 "" 1
foreign "integers in 32-bit words of compressed-tensors" $q.weight_packed I32 256,16 16384 \
	$q.weight_scale BF16 256,1 512 $q.weight_shape I64 2 16
foreign "HQQ" $q.W_q U8 128,128 16384 $q.scale F16 512,1 1024 $q.zero F16 512,1 1024
foreign "HQQ" $q.W_q F16 64,128 16384 $q.meta U8 8 8
foreign "HQQ" $q.W_q I32 32,128 16384 $q.meta U8 8 8 $q.scale F16 512,1 1024
# Integers by row, with static activations.
foreign "8 bits with a scale for each tensor or row" $q.weight I8 256,128 32768 $q.weight_scale F32 256,1 1024 $q.input_scale F32 1 4 \
	$q.input_zero_point I8 1 1
foreign "groups of MLX" $q.weight U32 256,16 16384 $q.scales BF16 256,2 1024 $q.biases BF16 256,2 1024
# A method that is known by name alone: its weights are not missing, for they may have any names.
echo '{"model_type":"llama","hidden_size":128,"num_hidden_layers":1,"num_attention_heads":4,"vocab_size":96,
"intermediate_size":256,"quantization_config":{"quant_method":"higgs"}}' >"$work/foreign/config.json"
safetensors_zeros "$work/foreign/model.safetensors" '{"model.layers.0.self_attn.q_proj.tables":{"dtype":"I8","shape":[2,4],
"data_offsets":[0,8]}}' 8
finds 6 "errors 0, warnings 0, notes 1" "'quant_method' is higgs" "$work/foreign"
# Its keys are no errors of their own where its tensors are known.
echo '{"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized"}}' >"$work/foreign/config.json"
foreign "integers in 32-bit words of compressed-tensors" $q.weight_packed I32 256,16 16384 \
	$q.weight_scale BF16 256,1 512 $q.weight_shape I64 2 16
rm "$work/foreign/config.json"
# Two, and three.
for n in 2 3; do
	json='"w0":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[0,1]},"w1":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[1,2]}'
	[ $n = 2 ] || json="$json,"'"w2":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[2,3]}'
	safetensors_zeros "$work/foreign/model.safetensors" "{$json}" $n
	other=others
	[ $n = 3 ] || other=other
	finds 0 "errors 0, warnings 0, notes 1" "'w0': it and $((n - 1)) $other are F8_E8M0" "$work/foreign"
done
# Names alone are not enough: numbers that are not quantized.
safetensors_zeros "$work/foreign/model.safetensors" '{"x.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
"x.scale":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"x.scales":{"dtype":"F32","shape":[2],
"data_offsets":[16,24]},"x.weight_scale_inv":{"dtype":"F32","shape":[2],"data_offsets":[24,32]}}' 32
finds 0 "errors 0, warnings 0, notes 0" "4 tensors, 0 quantized weights" "$work/foreign"

# Fused layers: tensor scales 1 and 1/2 (1.0 and 2.0 divide).
parts=
at=0
for name in q k; do
	parts=$parts,$(printf '"a.%s_proj.weight_packed":{"dtype":"U8","shape":[1,8],"data_offsets":[%d,%d]}' \
		$name $at $((at + 8)))
	parts=$parts,$(printf '"a.%s_proj.weight_scale":{"dtype":"F8_E4M3","shape":[1,1],"data_offsets":[%d,%d]}' \
		$name $((at + 8)) $((at + 9)))
	parts=$parts,$(printf '"a.%s_proj.weight_global_scale":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}' \
		$name $((at + 9)) $((at + 13)))
	at=$((at + 13))
done
half=222222222222222238
made "${half}0000803f${half}00000040" "{${parts#,}}"
finds 1 "errors 0, warnings 1, notes 0" \
	"'a.q_proj.weight': of its tensor scale, 1, and those of k_proj beside it the largest is 2 times" \
	"$work/made.safetensors"
made "${half}0000803f${half}0000803f" "{${parts#,}}"
finds 0 "errors 0, warnings 0, notes 0" "" "$work/made.safetensors"

# Every set that loaders fuse, in modules of their names; not where the two are in no set, or in two modules.
# set FINDINGS NAME NAME: the same two scales.
set_of() {
	printf '%s' "$parts" | sed "s/a\.k_proj/$3/g;s/a\.q_proj/$2/g;s/^,//" >"$work/set"
	made "${half}0000803f${half}00000040" "{$(cat "$work/set")}"
	finds $(($1 > 0)) "errors 0, warnings $1, notes 0" "" "$work/made.safetensors"
}
for pair in 'to_q to_k' 'to_k to_v' 'add_q_proj add_v_proj' 'q_a_proj kv_a_proj_with_mqa' 'kv_a_proj_with_mqa g_proj' \
	'in_proj_qkv in_proj_z' 'in_proj_b in_proj_a' 'k_proj v_proj' 'q_proj g_proj' 'q_proj index_k_proj' 'w1 w3' 'gate_proj up_proj' \
	'c_fc_0 c_fc_1' 'fc1 fc3' 'wq_a wkv' 'wkv wgate' 'wq wv' 'query key' 'q k' 'f_b_proj g_b_proj' 'attn_q attn_v' \
	'ffn_gate ffn_up' 'wq_du wr_du' 'q_proj indexer.index_qk_proj' 'experts.1.w1 experts.1.w3'; do
	set_of 1 "a.${pair% *}" "a.${pair#* }"
done
for pair in 'a.q_proj b.k_proj' 'a.w1 a.w2' 'a.fc1 a.fc2' 'a.q_a_proj a.q_b_proj' 'a.up_proj a.down_proj' \
	'a.experts.0.w1 a.experts.1.w3' 'a.in_proj_z a.out_proj' 'a.eq_proj a.ek_proj' 'a.q_proj a.kv_a_proj_with_mqa'; do
	set_of 0 ${pair}
done

# Scales that a loader multiplies or divides by: of activations, of caches, and of what is not read here.
# scale BITS NAME DTYPE [SHAPE]: beside the two weights with equal tensor scales.
scale() {
	made "${half}0000803f${half}0000803f$1" "{${parts#,},\"$2\":{\"dtype\":\"$3\",\"shape\":[${4:-}],
		\"data_offsets\":[$at,$((at + ${#1} / 2))]}}"
}
for bits in 00000000 0000c07f 0000807f 000080bf 01000000; do
	scale $bits a.q_proj.input_global_scale F32 1
	finds 1 "errors 1, warnings 0, notes 0" "'a.q_proj.input_global_scale': it is " "$work/made.safetensors"
	has "check" "$(cat "$work/out")" "[scale-value]"
done
scale 00000000 a.k_scale F32
finds 1 "errors 1, warnings 0, notes 0" "'a.k_scale': it is 0 [scale-value]" "$work/made.safetensors"
scale 80bf a.attn.v_scale BF16 1
finds 1 "errors 1, warnings 0, notes 0" "'a.attn.v_scale': it is -1 [scale-value]" "$work/made.safetensors"
scale 0000803f0000803f000080bf0000803f b.weight_scale_inv F32 2,2
finds 1 "errors 1, warnings 0, notes 0" "1 of 4 scales are not, the first in row 1, column 0: -1 [scale-value]" "$work/made.safetensors"
# The scale of one row may be 0: all that is said is that there are no codes.
scale 0000803f00000000 b.weight_scale F32 2,1
finds 1 "errors 1, warnings 0, notes 0" "it is named as the scales of codes, and there are none" "$work/made.safetensors"
# So may that of a square.
scale 0000803f00000000 b.weight_scale_inv F32 2,1
finds 0 "errors 0, warnings 0, notes 0" "" "$work/made.safetensors"
scale 0000000000000000 a.q_norm.scale F32 2
finds 0 "errors 0, warnings 0, notes 0" "" "$work/made.safetensors"
made "${half}0000803f${half}0000803f" "{${parts#,}}"

# What config.json lists.
cp -R "$work/mxfp4" "$work/listed"
# config SED: the model's config.json, changed.
config() {
	sed "$1" "$work/mxfp4/config.json" >"$work/listed/config.json"
}
config 's/"lm_head"/"model.layers.0.up_proj"/'
finds 1 "errors 1, warnings 1, notes 0" "'$up': it is quantized (mxfp4), and config.json lists its module as not" \
	"$work/listed"
has "unlisted" "$(cat "$work/out")" "'lm_head.weight': a linear weight of dtype F32, and config.json does not say"
for entry in 'model.layers.0' 'up_proj' '*.0.up_*' 're:.*[.]0[.]up_proj$'; do
	config "s/\"lm_head\"/\"lm_head\", \"$entry\"/"
	finds 1 "" "[skipped]" "$work/listed"
done
config 's/"lm_head"/"lm_head", "re:up_proj", "p_proj", "layers.0.up", "Model*"/'
finds 0 "errors 0, warnings 0, notes 0" "" "$work/listed"
config 's/"quantization_config"/"other"/'
finds 1 "errors 0, warnings 1, notes 0" \
	"5 weights are quantized, and config.json has no quantization_config" "$work/listed"
config 's/"lm_head"/"re:("/'
exits 3 "config.json: ignored modules 're:('" lint "$work/listed"
cp "$charlm" "$work/listed/model.safetensors"
config ''
finds 1 "errors 0, warnings 1, notes 0" \
	"config.json has a quantization_config, and no tensor is quantized" "$work/listed"

# ModelOpt lists modules in a file of its own.
exits 0 "" quantize "$charlm" -o "$work/modelopt" -q --weights nvfp4 --layout modelopt
finds 0 "errors 0, warnings 0, notes 0" "" "$work/modelopt"
sed -i 's/"lm_head"/"lm_head", "model.layers.1*"/' "$work/modelopt/hf_quant_config.json"
finds 1 "errors 2, warnings 0, notes 0" "'$down': it is quantized (nvfp4), and config.json lists its module as not" \
	"$work/modelopt"

# An index, layers and shapes.
mkdir "$work/indexed"
cp "$work/made.safetensors" "$work/indexed/1.safetensors"
# index TOTAL
index() {
	entries=$(printf ',"a.%s_proj.weight_packed":"1.safetensors","a.%s_proj.weight_scale":"1.safetensors"' q q k k)
	entries=$entries$(printf ',"a.%s_proj.weight_global_scale":"1.safetensors"' q k)
	printf '{"metadata":{"total_size":%s},"weight_map":{%s}}' "$1" "${entries#,}" \
		>"$work/indexed/model.safetensors.index.json"
}
index 26
finds 0 "errors 0, warnings 0, notes 0" "2 quantized weights" "$work/indexed"
index 27
finds 1 "errors 0, warnings 1, notes 0" "total_size in the index is 27, its tensors have 26 bytes" "$work/indexed"
index '"27"'
finds 0 "errors 0, warnings 0, notes 0" "" "$work/indexed/model.safetensors.index.json"
index 27.0
finds 0 "errors 0, warnings 0, notes 0" "" "$work/indexed"

# layer NUMBER ROWS_OF_Q: tensors of one layer of a model of width 4, with 2 heads of 2 and 1 for k and v.
layer() {
	while read -r name shape n; do
		printf '"model.layers.%s.%s.weight":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]},' "$1" "$name" \
			"$shape" $at $((at + 4 * n))
		at=$((at + 4 * n))
	done <<-LIST
		input_layernorm 4 4
		post_attention_layernorm 4 4
		self_attn.q_proj $2,4 $(($2 * 4))
		self_attn.k_proj 2,4 8
		self_attn.v_proj 2,4 8
		self_attn.o_proj 4,4 16
		mlp.experts.0.down_proj 4,4 16
	LIST
}
# layered LAYERS ROWS_OF_Q EXPERTS
layered() {
	at=0
	json=$(layer 0 "$2")
	safetensors_zeros "$work/layered/model.safetensors" "{${json%,}}" $((4 * (56 + $2 * 4)))
	printf '{"model_type":"llama","hidden_size":4,"num_attention_heads":2,"num_key_value_heads":1,%s}' \
		"\"num_hidden_layers\":$1,\"num_experts\":$3" >"$work/layered/config.json"
}
mkdir "$work/layered"
layered 1 4 1
finds 0 "errors 0, warnings 0, notes 0" "" "$work/layered" --ignore missing
layered 1 6 1
finds 1 "errors 1, warnings 0, notes 0" \
	"q_proj.weight': its shape is [6, 4], and by config.json num_attention_heads * head_dim is 4" \
	"$work/layered" --ignore missing
sed -i 's/llama/other/' "$work/layered/config.json"
finds 0 "errors 0, warnings 0, notes 0" "" "$work/layered"

# Forms of the output, and errors.
code=0
damage "$mxfp4" ${up}_scale 5 ff
"$mxfp" lint --json "$work/damaged.safetensors" >"$work/out" || code=$?
same "exit code with --json" 1 $code
has "JSON" "$(tr -d ' \n' <"$work/out")" '"severity":"error","check":"scale-nan","file":"'
has "JSON" "$(tr -d ' \n' <"$work/out")" '"tensors":15,"quantized":5,"checked":true,"errors":1,"warnings":0,"notes":0,'
for threads in 1 3; do
	"$mxfp" lint --threads $threads "$work/damaged.safetensors" >"$work/out$threads" || :
done
same "findings do not depend on threads" "$(cat "$work/out1")" "$(cat "$work/out3")"
exits 2 "no such check: did you mean 'scale-nan'?" lint "$mxfp4" --ignore scale-nam
exits 2 "no such check; mxfp lint --help lists them" lint "$mxfp4" --ignore zzzzzzzzzzzz
exits 4 "cannot open" lint "$work/none"
head -c 20000 "$mxfp4" >"$work/cut.safetensors"
exits 3 "" lint "$work/cut.safetensors"

# Real weights that nothing is wrong with.
if [ -d "$shared/weights" ]; then
	finds 0 "errors 0, warnings 0, notes 0" "" "$shared/weights/stories260K/sharded"
	for format in mxfp4 nvfp4; do
		finds 0 "errors 0, warnings 0, notes 0" "30 quantized weights" \
			"$shared/weights/stories260K/stories260K.$format.llama-quantize.gguf"
	done
	for format in mxfp4 mxfp8 mxint8; do
		exits 0 "" quantize "$shared/weights/stories260K/sharded" -o "$work/real" --force -q --weights $format \
			--pad-tail
		finds 0 "errors 0, warnings 0, notes 0" "35 quantized weights" "$work/real" --ignore refused
	done
else
	echo "$shared/weights is not there: real weights are not tested"
fi
finish
