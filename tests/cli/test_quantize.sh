#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp quantize and dequantize on files made here byte by byte. The numbers of a row are +-0, .5, 1, 1.5, 2, 3, 4, 6,
# twice: in every format their codes are exact under rule floor, and were worked by hand from the tables of element
# formats.
. "${srcdir:-.}/tests/cli/cli.shlib"

f32='00000000 0000003f 0000803f 0000c03f 00000040 00004040 00008040 0000c040
	00000080 000000bf 000080bf 0000c0bf 000000c0 000040c0 000080c0 0000c0c0'
bf16='0000 003f 803f c03f 0040 4040 8040 c040 0080 00bf 80bf c0bf 00c0 40c0 80c0 c0c0'
f16='0000 0038 003c 003e 0040 0042 0044 0046 0080 00b8 00bc 00be 00c0 00c2 00c4 00c6'
f64='0000000000000000 000000000000e03f 000000000000f03f 000000000000f83f 0000000000000040 0000000000000840
	0000000000001040 0000000000001840 0000000000000080 000000000000e0bf 000000000000f0bf 000000000000f8bf
	00000000000000c0 00000000000008c0 00000000000010c0 00000000000018c0'
e2m1=1032547698badcfe

# one NAME DTYPE HEX: a file of one matrix [1,32], whose row is HEX twice.
one() {
	n=$(($(printf '%s' "$3" | tr -d ' \n\t' | wc -c)))
	header "{\"$1\":{\"dtype\":\"$2\",\"shape\":[1,32],\"data_offsets\":[0,$n]}}"
	bytes "$3" "$3"
}

# Each format: parts in the order of the file, which is that of the dtypes.
one layer.weight F32 "$(echo $f32)" >"$work/one.safetensors"
# holds FORMAT PARTS HEX [OPTION]...: the output's tensors and data. MX formats have the rule floor.
holds() {
	format=$1 parts=$2 held=$(printf '%s' "$3" | tr -d ' ')
	shift 3
	[ $format = nvfp4 ] || set -- --rule floor "$@"
	exits 0 "$(caution $format)" quantize "$work/one.safetensors" -o "$work/q" --force -q --weights $format "$@"
	same "$format" "$held" "$(data $((${#held} / 2)) "$work/q/model.safetensors")"
	exits 0 "" inspect "$work/q"
	same "tensors of $format" "$parts" "$(
		sed -n 's/^  \(layer[^ ]*\)  *\([^ ]*\)  *[0-9]*  \(.*\)/\1 \2 \3;/p' "$work/out" | tr -d '\n'
	)"
	exits 0 "" dequantize "$work/q" -o "$work/back.safetensors" --force -q
	same "decoded $format" "$(data 128 "$work/one.safetensors" | sed "$decoded")" "$(data 128 "$work/back.safetensors")"
	decoded=
}
decoded=
holds mxfp4 'layer.weight_packed U8 [1, 16];layer.weight_scale U8 [1, 1];' "$e2m1$e2m1 7f"
# The code of -0 is the sign alone and decodes to -0.
holds mxfp8-e4m3 'layer.weight F8_E4M3 [1, 32];layer.weight_scale U8 [1, 1];' \
	"$(repeat 2 '0060686c7074787c80e0e8ecf0f4f8fc') 79"
holds mxfp8-e5m2 'layer.weight F8_E5M2 [1, 32];layer.weight_scale U8 [1, 1];' \
	"$(repeat 2 '006c70727476787a80ecf0f2f4f6f8fa') 72"
holds mxfp6-e2m3 'layer.weight_packed U8 [1, 24];layer.weight_scale U8 [1, 1];' \
	"$(repeat 2 '0081301085712089b2308df3') 7f"
holds mxfp6-e3m2 'layer.weight_packed U8 [1, 24];layer.weight_scale U8 [1, 1];' \
	"$(repeat 2 '00445998c679204cdbb8cefb') 7d"
# Integers have one zero.
decoded='s/00000080/00000000/g'
holds mxint8 'layer.weight I8 [1, 32];layer.weight_scale U8 [1, 1];' "$(repeat 2 '000810182030406000f8f0e8e0d0c0a0') 81"
# compressed-tensors has no -0 either. NVFP4: amax 6, so the divisor is 2688 / 6 = 448 (fl32(2688 * fl32(1/6)) rounds
# to it) and scales are 448 = 7e.
decoded='s/00000080/00000000/g'
holds nvfp4 'layer.weight_global_scale F32 [1];layer.weight_scale F8_E4M3 [1, 2];layer.weight_packed U8 [1, 16];' \
	"0000e043 7e7e $(repeat 2 1032547690badcfe)"
# One level: the scale is 6 / 6 = 1 = 38.
holds nvfp4 'layer.weight_global_scale F32 [1];layer.weight_scale F8_E4M3 [1, 2];layer.weight_packed U8 [1, 16];' \
	"0000803f 3838 $e2m1$e2m1" --nvfp4-recipe torchao-1
# Layouts. Model Optimizer: the tensor scale multiplies, 6 / 2688 = 1/448 rounded to binary32, by which 1.5, 3 and 6
# come out an ulp above what they were; it has no -0 either.
holds mxfp4 'layer.weight U8 [1, 16];layer.weight_scale U8 [1, 1];' "$e2m1$e2m1 7f" --layout modelopt
holds mxfp4 'layer.weight U8 [1, 16];layer.weight_scale U8 [1, 1];' "$e2m1$e2m1 7f" -l quark
# In tiles words (p, 0, 0) are two bytes each, and 15 of 16 scales are padding.
holds mxfp4 'layer.weight_e2m1_x4 U16 [128, 1, 1];layer.weight_x4_scale U8 [16, 1, 1];' \
	"$e2m1$e2m1$(repeat 240 00)7f$(repeat 15 7f)" -l trn-x4
decoded='s/......../& /g;s/00000080 /00000000 /g;s/0000\(c03f\|4040\|c040\|c0bf\|40c0\|c0c0\) /0100\1 /g;s/ //g'
holds nvfp4 'layer.weight_scale_2 F32 [];layer.weight_scale F8_E4M3 [1, 2];layer.weight U8 [1, 16];' \
	"2549123b 7e7e $(repeat 2 1032547690badcfe)" --layout modelopt
# The recipe is that of the version which config.json names, 0.47, whose block scales are at least 2^-9 = 01: beside a
# largest magnitude of 6, a block of 2^-19 has u = 2^-19 * 448 / 6, and its quotient 2^-19 / (2^-9 / 448) = 0.4375 becomes
# 0.5. Up to 0.44 the scale becomes 00, and a quotient by that Inf, the largest code.
small="0000c040 $(repeat 15 00000000) 00000036 $(repeat 15 00000000)"
safetensors "$work/small.safetensors" '{"x.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}' "$small"
exits 0 "" quantize "$work/small.safetensors" -o "$work/q.safetensors" -q -w nvfp4 -l modelopt
same "a small block in 0.47" "2549123b7e0107$(repeat 7 00)01$(repeat 7 00)" "$(data 22 "$work/q.safetensors")"
exits 0 "" quantize "$work/small.safetensors" -o "$work/q.safetensors" -fq -w nvfp4 -l modelopt --nvfp4-recipe modelopt
same "a small block in 0.44" "2549123b7e00" "$(data 22 "$work/q.safetensors" | cut -c 1-12)"
exits 2 "layout gpt-oss holds no nvfp4; give --weights mxfp4" quantize "$work/one.safetensors" -o "$work/r" \
	-w nvfp4 --layout gpt-oss
exits 2 "layout quark holds no sparse weights" quantize "$work/one.safetensors" -o "$work/r" -l quark \
	--sparsity 2:4
exits 2 "that of layout modelopt multiplies; give modelopt-0.45, torchao-1 or ggml" quantize "$work/one.safetensors" \
	-o "$work/r" -w nvfp4 -l modelopt --nvfp4-recipe compressed-tensors
exits 2 "unknown value 'modelop': did you mean 'modelopt'" quantize "$work/one.safetensors" -o "$work/r" -l modelop
exits 2 "divides; give compressed-tensors" quantize "$work/one.safetensors" -o "$work/r" -w nvfp4 --nvfp4-recipe te
for option in "--seed 1" "--seed 1 --round rtz"; do
	exits 2 "quantize: --seed: is for --round sr; leave it out" quantize "$work/one.safetensors" -o "$work/r" $option
done
exits 2 "quantize: --activation-rule: is for MX activations; leave it out" \
	quantize "$work/one.safetensors" -o "$work/r" --activation-rule mse --activations none
exits 2 "--rule: is for the MX formats; leave it out" \
	quantize "$work/one.safetensors" -o "$work/r" -w nvfp4 -r mse
exits 2 "--nvfp4-recipe: is for nvfp4; leave it out" \
	quantize "$work/one.safetensors" -o "$work/r" -w mxfp8 --nvfp4-recipe compressed-tensors
exits 2 "rounding of its own" quantize "$work/one.safetensors" -o "$work/r" -w nvfp4 --nvfp4-recipe ggml --round rtz

# Every source type, and the default rule, which agrees on these numbers.
for type in F32 BF16 F16 F64; do
	eval "one layer.weight $type \"\$(echo \$$(echo $type | tr A-Z a-z))\"" >"$work/$type.safetensors"
	exits 0 "" quantize "$work/$type.safetensors" -o "$work/q" --force
	same "codes of $type" "$e2m1${e2m1}7f" "$(data 17 "$work/q/model.safetensors")"
	case $type in
	F64) has "$type" "$(cat "$work/out")" "1 of them were F64 and first rounded to f32" ;;
	esac
done

# What the output says about itself, and the table.
exits 0 "" quantize "$work/one.safetensors" -o "$work/q" --force --seed 7 --round sr
text=$(tr -s ' ' <"$work/out")
has "table" "$text" "| layer.weight | F32 [1, 32] | mxfp4 | linear weight | 4.250 | 0 | 0 |"
has "summary" "$text" "1 of 1 tensors quantized: 32 elements, 4.250 bits each"
has "summary" "$text" "17 bytes of tensors, before 128 (13.3 %)"
has "summary" "$text" "written to $work/q"
exits 0 "" inspect "$work/q"
text=$(cat "$work/out")
for line in 'format = pt' 'mxfp.version = ' 'mxfp.weights = mxfp4' 'mxfp.rule = mse' 'mxfp.round = sr' 'mxfp.seed = 7' \
	'mxfp.activations = mxfp8-e4m3' 'mxfp.activation_rule = rceil' 'mxfp.non_finite = error' \
	'mxfp.source_xxh3_128 = '; do
	has "metadata" "$text" "  $line"
done
text=$(tr -d ' \n' <"$work/q/config.json")
has "config" "$text" '"quantization_config":{"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized",'
has "config" "$text" '"quantization_status":"compressed","config_groups":{"group_0":{"targets":["Linear"],'
has "config" "$text" '"weights":{"num_bits":4,"type":"float","strategy":"group","group_size":32,"symmetric":true,'
has "config" "$text" '"dynamic":false,"scale_dtype":"torch.uint8"},"input_activations":{"num_bits":8,"type":"float",'
has "config" "$text" '"group_size":32,"symmetric":true,"dynamic":true,"scale_dtype":"torch.uint8"},'
has "config" "$text" '"ignore":["lm_head"],"kv_cache_scheme":null'
exits 0 "" quantize "$work/one.safetensors" -o "$work/q" --force -q -w nvfp4 --activations none
text=$(tr -d ' \n' <"$work/q/config.json")
has "config" "$text" '"strategy":"tensor_group","group_size":16,'
has "config" "$text" '"scale_dtype":"torch.float8_e4m3fn"},"input_activations":null'
# config.json of each layout, as its loaders parse it.
# says LAYOUT TEXT [OPTION]...: config.json, without blanks, has the text.
says() {
	layout=$1 part=$2
	shift 2
	exits 0 "" quantize "$work/one.safetensors" -o "$work/q" --force -q --layout $layout "$@"
	has "config of $layout" "$(tr -d ' \n' <"$work/q/config.json")" "$part"
}
says modelopt '{"quant_method":"modelopt","ignore":["lm_head"],"quant_algo":"W4A8_MXFP4_FP8",'
same "second config" "$(printf '%s' '{"producer":{"name":"modelopt","version":"0.47.0"},"quantization":' \
	'{"quant_algo":"W4A8_MXFP4_FP8","kv_cache_quant_algo":null,"exclude_modules":["lm_head"],"group_size":32}}')" \
	"$(tr -d ' \n' <"$work/q/hf_quant_config.json")"
says modelopt '"quant_algo":"MXFP4"' --activations none
says modelopt '"quant_algo":"MXFP8"' -w mxfp8
says modelopt '{"group_0":{"weights":{"dynamic":false,"num_bits":4,"type":"float","group_size":16},"targets":' \
	-w nvfp4
says modelopt '"quant_algo":"W4A16_NVFP4"' -w nvfp4
has "second config" "$(cat "$work/q/hf_quant_config.json")" '"group_size": 16'
says quark '"global_quant_config":{"input_tensors":null,"output_tensors":null,"weight":{"dtype":"fp4",'
says quark '"exclude":["lm_head"],"export":{"kv_cache_group":[],'
says quark '"input_tensors":{"dtype":"fp4","is_dynamic":true,' --activations mxfp4
exits 2 "config.json cannot say 'mxfp8-e4m3' of mxfp4 in layout quark; give mxfp4 or none" \
	quantize "$work/one.safetensors" -o "$work/r" -l quark -a mxfp8-e4m3
exits 2 "unknown value 'mxfp9'" quantize "$work/one.safetensors" -o "$work/r" --activations mxfp9
exits 2 "config.json cannot say 'nvfp4'" quantize "$work/one.safetensors" -o "$work/r" --activations nvfp4

# A model: experts, padding, what is kept, config.json. Tensor data are the row above in bf16, 64 bytes, repeated.
mkdir "$work/model"
row=$(echo $bf16 $bf16)
safetensors "$work/model/model.safetensors" '{"__metadata__":{"format":"np","note":"kept","mxfp.rule":"not"},
	"mlp.experts.7.up_proj.weight":{"dtype":"BF16","shape":[2,32],"data_offsets":[0,128]},
	"a.weight":{"dtype":"BF16","shape":[2,16],"data_offsets":[128,192]},
	"mlp.gate.weight":{"dtype":"BF16","shape":[1,32],"data_offsets":[192,256]},
	"ids":{"dtype":"I64","shape":[8],"data_offsets":[256,320]},
	"none.weight":{"dtype":"BF16","shape":[0,32],"data_offsets":[320,320]}}' "$(repeat 5 "$row")"
echo '{"model_type":"test","quantization_config":null}' >"$work/model/config.json"
echo text >"$work/model/tokenizer.txt"
exits 0 "" quantize "$work/model" -o "$work/m"
text=$(tr -s ' ' <"$work/out")
has "experts" "$text" "| mlp.experts.7.up_proj.weight | BF16 [2, 32] | mxfp4 | linear weight | 4.250 |"
has "tail" "$text" "| a.weight | BF16 [2, 16] | kept | row length is not a multiple of 32; --pad-tail takes it | 16 |"
has "router" "$text" "| mlp.gate.weight | BF16 [1, 32] | kept | router | 16 |"
has "integers" "$text" "| ids | I64 [8] | kept | not of type F32, BF16, F16 or F64 | 64 |"
has "empty" "$text" "| none.weight | BF16 [0, 32] | kept | empty | 16 |"
has "summary" "$text" "1 of 5 tensors quantized: 64 elements"
text=$(tr -d ' \n' <"$work/m/config.json")
has "config" "$text" '{"model_type":"test","quantization_config":{"quant_method"'
has "config" "$text" '"ignore":["lm_head","a","mlp.gate","none"]'
exits 0 "" inspect "$work/m"
text=$(tr -s ' ' <"$work/out")
has "metadata" "$text" " format = np"
has "metadata" "$text" " note = kept"
has "metadata" "$text" " mxfp.rule = mse"
has "experts" "$text" " mlp.experts.7.up_proj.weight_packed U8 32 [2, 16]"
has "experts" "$text" " mlp.experts.7.up_proj.weight_scale U8 2 [2, 1]"
same "experts" "$(repeat 4 $e2m1)7f7f" "$(data 34 "$work/m/model.safetensors")"

# Padded rows hold zeros, and decode to their own length.
exits 0 "" quantize "$work/model" -o "$work/m" --force --pad-tail
has "tail" "$(tr -s ' ' <"$work/out")" "| a.weight | BF16 [2, 16] | mxfp4 | linear weight, rows padded | 8.500 |"
exits 0 "" inspect "$work/m"
text=$(tr -s ' ' <"$work/out")
has "tail" "$text" " mxfp.cols.a.weight = 16"
has "tail" "$text" " a.weight_packed U8 32 [2, 16]"
exits 0 "" dequantize "$work/m" -o "$work/back"
"$mxfp" diff "$work/model" "$work/back" >"$work/out"
same "exit code of diff" 1 $?
has "decoded" "$(cat "$work/out")" "SQNR exact"
exits 0 "" dequantize "$work/m" -o "$work/back" --to bf16 --force
exits 0 "" diff "$work/model" "$work/back"
same "config of the decoded" '{"model_type":"test"}' "$(tr -d ' \n' <"$work/back/config.json")"
exits 0 "" inspect "$work/back"
text=$(tr -s ' ' <"$work/out")
has "decoded metadata" "$text" " note = kept"
same "own metadata of the decoded" "mxfp.carried mxfp.version" \
	"$(grep -o 'mxfp\.[a-z_]*' "$work/out" | sort | tr '\n' ' ' | sed 's/ $//')"

# Neither threads nor tiers change a byte: digits as bf16, tensors of many pieces, one of them kept.
exits 0 "" info
tiers=$(sed -n '/^Instruction-set tiers/,/^$/s/^  \([a-z0-9]*\) .*/\1/p' "$work/out")
{
	header '{"model.embed_tokens.weight":{"dtype":"BF16","shape":[1024,512],"data_offsets":[0,1048576]},
		"b.weight":{"dtype":"BF16","shape":[2048,512],"data_offsets":[1048576,3145728]},
		"c.weight":{"dtype":"BF16","shape":[3,349184],"data_offsets":[3145728,5240832]}}'
	seq 1 800000 | head -c 5240832
} >"$work/digits.safetensors"
for format in mxfp4 nvfp4; do
	exits 0 "" quantize "$work/digits.safetensors" -o "$work/threads" --force -q --weights $format --threads 1
	exits 0 "" dequantize "$work/threads" -o "$work/threads.safetensors" --force -q --threads 1
	for threads in 2 3 0; do
		exits 0 "" quantize "$work/digits.safetensors" -o "$work/t" --force -q --weights $format --threads $threads
		diff -r "$work/threads" "$work/t" || bad "$format: $threads threads change the output"
		exits 0 "" dequantize "$work/t" -o "$work/t.safetensors" --force -q --threads $threads
		cmp "$work/threads.safetensors" "$work/t.safetensors" || bad "$format: $threads threads change the numbers"
	done
	for tier in $tiers; do
		exits 0 "" --isa $tier quantize "$work/digits.safetensors" -o "$work/t" --force -q --weights $format
		diff -r "$work/threads" "$work/t" || bad "$format: tier $tier changes the output"
	done
	text=$("$mxfp" diff "$work/digits.safetensors" "$work/threads.safetensors")
	has "$format" "$text" "2 tensors differ, 1 are equal"
done

# Patterns.
exits 0 "" quantize "$work/model" -o "$work/m" --force --ignore '*experts*' --include '*gate.weight'
text=$(tr -s ' ' <"$work/out")
has "--ignore" "$text" "| mlp.experts.7.up_proj.weight | BF16 [2, 32] | kept | --ignore | 16 |"
has "--include" "$text" "| mlp.gate.weight | BF16 [1, 32] | mxfp4 | --include | 4.250 |"
exits 2 "--ignore 'mlp.gaet.weight' matches no tensor: did you mean 'mlp.gate.weight'?" \
	quantize "$work/model" -o "$work/r" --ignore mlp.gaet.weight

# What belongs to no Linear stays, and naming it is an error: all 16 x 32, of ones.
names='attn.in_proj_weight attn.out_proj.weight lstm.weight_ih_l0 fc.weight_v fc2.parametrizations.weight.original1 eh_proj.weight'
small='linear_attn.in_proj_a.weight mixer.x_proj.weight score.weight mtp.fc.weight'
at=0 json=
for name in $names $small up_proj.weight; do
	json=$json,$(printf '"l.%s":{"dtype":"BF16","shape":[16,32],"data_offsets":[%d,%d]}' $name $at $((at + 1024)))
	at=$((at + 1024))
done
{
	header "{${json#,}}"
	head -c $at /dev/zero | tr '\0' '?'
} >"$work/modules.safetensors"
exits 0 "" quantize "$work/modules.safetensors" -o "$work/m.safetensors" -fq
text=$("$mxfp" inspect "$work/m.safetensors")
for name in $names $small; do
	has "kept" "$text" "  l.$name "
done
has "taken" "$text" "  l.up_proj.weight_packed "
for name in $names; do
	for layout in compressed-tensors modelopt quark; do
		exits 2 "--include: tensor 'l.$name': of no module that takes codes; loaders of this layout read numbers there" \
			quantize "$work/modules.safetensors" -o "$work/r.safetensors" --include "l.$name" --layout $layout -a none
	done
	[ ! -e "$work/r.safetensors" ] || bad "an output with l.$name"
	exits 0 "" quantize "$work/modules.safetensors" -n --include "l.$name" --layout trn-x4
done
printf '{"version": 1, "include": ["*.in_proj_weight"]}' >"$work/names.json"
exits 2 "the recipe's include: tensor 'l.attn.in_proj_weight': of no module that takes codes; loaders of this layout read numbers" \
	quantize "$work/modules.safetensors" -n --recipe "$work/names.json"
exits 2 "(--layout compressed-tensors); --ignore it, or give another layout" quantize "$work/modules.safetensors" -n --include '*'
for name in $small; do
	exits 0 "" quantize "$work/modules.safetensors" -n --include "l.$name"
	has "named" "$(tr -s ' ' <"$work/out")" "| l.$name | BF16 [16, 32] | mxfp4 | --include |"
done

# Experts are quantized or not as loaders take them, all of a module: here down has rows of 24.
safetensors_zeros "$work/uneven.safetensors" '{"l.experts.0.up_proj.weight":{"dtype":"BF16","shape":[24,32],"data_offsets":[0,1536]},
	"l.experts.0.down_proj.weight":{"dtype":"BF16","shape":[32,24],"data_offsets":[1536,3072]},
	"m.experts.0.up_proj.weight":{"dtype":"BF16","shape":[24,32],"data_offsets":[3072,4608]},
	"l.shared_experts.up_proj.weight":{"dtype":"BF16","shape":[24,32],"data_offsets":[4608,6144]}}' 6144
exits 0 "" quantize "$work/uneven.safetensors" -n
text=$(tr -s ' ' <"$work/out")
has "alike" "$text" "| l.experts.0.up_proj.weight | BF16 [24, 32] | kept | of other experts, which loaders take alike, row length is not a multiple of 32; --pad-tail takes it |"
has "another module" "$text" "| m.experts.0.up_proj.weight | BF16 [24, 32] | mxfp4 | linear weight |"
has "shared" "$text" "| l.shared_experts.up_proj.weight | BF16 [24, 32] | mxfp4 | linear weight |"
has "count" "$text" "2 of 4 tensors quantized"
for how in '--pad-tail' '--include l.experts.0.up_proj.weight' '--layout trn-x4 --pad-tail'; do
	exits 0 "" quantize "$work/uneven.safetensors" -n $how
	has "$how" "$(tr -s ' ' <"$work/out")" "| l.experts.0.up_proj.weight | BF16 [24, 32] | mxfp4 |"
done

# Layers that loaders fuse have one tensor scale by --preset nvfp4: that of the largest, here 1, 2, 4.
for set in 'to_q to_k to_v' 'q_a_proj kv_a_proj_with_mqa g_proj' 'in_proj_qkv in_proj_z' 'add_q_proj add_k_proj add_v_proj' \
	'q_proj k_proj v_proj index_q_proj index_k_proj' 'wq_a wkv' 'fc1 fc3'; do
	at=0 json= numbers=
	for name in $set; do
		json=$json,$(printf '"l.%s.weight":{"dtype":"BF16","shape":[1,32],"data_offsets":[%d,%d]}' $name $at $((at + 64)))
		at=$((at + 64))
		case $((at / 64)) in
		1) numbers="$numbers $(repeat 32 803f)" ;;
		2) numbers="$numbers $(repeat 32 0040)" ;;
		*) numbers="$numbers $(repeat 32 8040)" ;;
		esac
	done
	safetensors "$work/fused.safetensors" "{${json#,}}" $numbers
	exits 0 "" quantize "$work/fused.safetensors" -o "$work/f.safetensors" -fq --preset nvfp4
	exits 0 "" lint "$work/f.safetensors" -q
	exits 0 "" quantize "$work/fused.safetensors" -o "$work/f.safetensors" -fq -w nvfp4
	code=0
	"$mxfp" lint "$work/f.safetensors" -q >"$work/out" || code=$?
	same "exit code of lint, $set apart" 1 $code
	has "apart: $set" "$(cat "$work/out")" "[fused-scale]"
done

# Nothing is written by --dry-run, whose JSON is that of the run but for the counts.
exits 0 "" quantize "$work/model" -o "$work/r" --dry-run --json
[ ! -e "$work/r" ] || bad "--dry-run wrote"
has "--dry-run" "$(cat "$work/out")" '"output": "'
has "dry run" "$(tr -d ' \n' <"$work/out")" '"dry_run":true,"tensors":5,"tensors_quantized":1,"elements_quantized":64,'
exits 0 "" quantize "$work/model" -n --json
has "--dry-run without an output" "$(cat "$work/out")" '"output": null'
exits 0 "" quantize "$work/model" -n
has "--dry-run" "$(cat "$work/out")" "dry run: nothing was read but headers, and nothing written"
exits 2 "no output given" quantize "$work/model"
exits 0 "" quantize "$work/model" -o "$work/r" --json
has "json" "$(tr -d ' \n' <"$work/out")" '"bytes_before":320,"bytes_after":226,"bits_per_weight":4.25,'
if command -v python3 >/dev/null 2>&1; then
	python3 -m json.tool "$work/out" >/dev/null || bad "--json is no JSON"
	python3 -m json.tool "$work/r/config.json" >/dev/null || bad "config.json is no JSON"
fi

# Nothing to quantize is an error that says why, not a copy with a configuration that claims something.
safetensors_zeros "$work/none.safetensors" '{"n.norm.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
	"o.norm.weight":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},
	"model.embed_tokens.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[16,144]}}' 144
exits 3 "none.safetensors: nothing is to be quantized: 'n.norm.weight' (norm), 'model.embed_tokens.weight' (embedding); " \
	quantize "$work/none.safetensors" -o "$work/none" -q
exits 3 "none.safetensors: nothing is to be quantized: " quantize "$work/none.safetensors" -n --json
has "json" "$(tr -d ' \n' <"$work/out")" '"tensors_quantized":0,'
safetensors_zeros "$work/short.safetensors" '{"a.weight":{"dtype":"F32","shape":[2,16],"data_offsets":[0,128]},
	"n.norm.weight":{"dtype":"F32","shape":[2],"data_offsets":[128,136]}}' 136
exits 3 "nothing can be quantized: 'a.weight' (row length is not a multiple of 32; --pad-tail takes it); mxfp quantize -n" \
	quantize "$work/short.safetensors" -o "$work/none"
echo '{"version":1,"rules":[{"match":["a.*"],"keep":true}]}' >"$work/keep.json"
exits 3 "nothing can be quantized: 'a.weight' (kept by rules[0])" quantize "$work/short.safetensors" -o "$work/none" \
	--recipe "$work/keep.json"
[ ! -e "$work/none" ] || bad "an output in which nothing is quantized"

# A file becomes a file if OUT is named like one: that of the directory, which its metadata describe.
for format in mxfp4 mxfp8-e5m2 mxfp6-e2m3 mxfp6-e3m2 nvfp4; do
	exits 0 "$(caution $format)" quantize "$work/one.safetensors" -o "$work/alone" -fq -w $format
	exits 0 "" quantize "$work/one.safetensors" -o "$work/alone.safetensors" -f -w $format
	has "summary" "$(cat "$work/out")" "one file without a config.json: mxfp reads it so, other programs want a directory"
	check "$format: a file unlike that of a directory" cmp -s "$work/alone/model.safetensors" "$work/alone.safetensors"
	exits 0 "" dequantize "$work/alone" -o "$work/alone.f32.safetensors" -fq
	exits 0 "" dequantize "$work/alone.safetensors" -o "$work/alone.f32" -fq
	check "$format: other numbers" cmp -s "$work/alone.f32.safetensors" "$work/alone.f32/model.safetensors"
	exits 0 "" lint "$work/alone.safetensors" -q --ignore misread
done
exits 2 "alone.safetensors is a file and cannot be cut; leave out --part" quantize "$work/one.safetensors" -o "$work/alone.safetensors" -f --part 1/2
exits 2 "alone.safetensors is one file; leave it out, or name a directory" \
	quantize "$work/one.safetensors" -o "$work/alone.safetensors" -f --shard-size 1K
exits 2 "new.safetensors: is named like one file, and a model directory becomes a directory" \
	quantize "$work/model" -o "$work/new.safetensors"
exits 2 "x.npy: layout compressed-tensors is for .safetensors files" quantize "$work/one.safetensors" -o "$work/x.npy"
same "refused outputs" "" "$(ls -d "$work"/new.* "$work"/x.npy* 2>/dev/null)"

# Activations of 48 channels are no whole blocks of MXFP8, whatever the weights are.
safetensors_zeros "$work/48.safetensors" '{"a.weight":{"dtype":"F32","shape":[1,48],"data_offsets":[0,192]},
	"b.weight":{"dtype":"F32","shape":[1,64],"data_offsets":[192,448]}}' 448
exits 0 "" quantize "$work/48.safetensors" -o "$work/q" -f -w nvfp4
has "48 columns" "$(tr -s ' ' <"$work/out")" \
	"| a.weight | F32 [1, 48] | kept | row length is not a multiple of 32, as its activations need; --activations none"
has "48 columns" "$(tr -d ' \n' <"$work/q/config.json")" '"ignore":["lm_head","a"]'
has "64 columns" "$(tr -s ' ' <"$work/out")" "| b.weight | F32 [1, 64] | nvfp4 |"
exits 0 "" quantize "$work/48.safetensors" -o "$work/q" -f -w nvfp4 -a none
has "48 columns without activations" "$(tr -s ' ' <"$work/out")" "| a.weight | F32 [1, 48] | nvfp4 |"
exits 0 "" quantize "$work/48.safetensors" -o "$work/q" -f -w nvfp4 -l modelopt
has "48 columns in a layout without activations" "$(tr -s ' ' <"$work/out")" "| a.weight | F32 [1, 48] | nvfp4 |"

# Names that would collide, NaN, Inf, and what is quantized already.
safetensors_zeros "$work/clash.safetensors" '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
	"a.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[128,132]}}' 132
exits 3 "tensor 'a.weight': quantized it needs the name 'a.weight_scale'" \
	quantize "$work/clash.safetensors" -o "$work/n"
{
	header '{"ok.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
		"bad.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[128,384]}}'
	head -c 288 /dev/zero
	bytes 0000807f 0100c07f
	head -c 88 /dev/zero
} >"$work/inf.safetensors"
exits 3 "inf.safetensors: tensor 'bad.weight': element 40 (row 1, column 8) is NaN or Inf; mxfp quantize --non-finite" \
	quantize "$work/inf.safetensors" -o "$work/n"
[ ! -e "$work/n" ] || bad "a refused input left an output"
exits 0 "" quantize "$work/inf.safetensors" -o "$work/n" --non-finite propagate
cp -r "$work/n" "$work/propagated"
has "counts" "$(cat "$work/out")" "NaN 1, Inf 1"
exits 0 "mxfp: " quantize "$work/inf.safetensors" -o "$work/n" --non-finite propagate -fq
has "NaN and Inf with --quiet" "$error" "numbers were NaN and"
same "propagate" "$(repeat 32 00)00ff$(repeat 16 00)00" "$(data 51 "$work/n/model.safetensors")"
# Of what is written without propagate mxfp lint finds no number that is not finite: the largest f32, and an Inf, are rounded up to
# 2^128 by most rules, and refused then; the rule that the error names takes them. Row 1 has the number in column 8.
for number in ffff7f7f 0000807f 000080ff; do
	{
		header '{"ok.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
			"bad.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[128,384]}}'
		head -c 288 /dev/zero
		bytes $number
		head -c 92 /dev/zero
	} >"$work/large.safetensors"
	for format in mxfp4 mxfp6-e2m3 mxfp8-e4m3 mxfp8-e5m2 mxint8; do
		for rule in mse ceil floor; do
			code=0
			"$mxfp" quantize "$work/large.safetensors" -o "$work/n" -w $format --rule $rule --non-finite saturate -fq \
				2>"$work/error" || code=$?
			case $format$rule in
			mxint8* | *floor)
				same "code of $number, $format, $rule" 0 $code
				"$mxfp" lint "$work/n" >"$work/out" || :
				has "lint of $number, $format, $rule" "$(cat "$work/out")" "errors 0,"
				;;
			*)
				same "code of $number, $format, $rule" 3 $code
				has "error of $number, $format, $rule" "$(cat "$work/error")" \
					"row 1, column 8 is so near to the largest f32 that it becomes Inf in $format; mxfp quantize --rule floor"
				;;
			esac
		done
	done
done
exits 3 "row 1 has NaN in the block from column 0 on, which --non-finite saturate does not replace; mxfp quantize --non-finite" \
	quantize "$work/inf.safetensors" -o "$work/no" --non-finite saturate --rule floor
check "no output of NaN" test ! -e "$work/no"
# A quantized model is decoded first, a NaN block to NaN; so is one that only the names of its tensors tell.
exits 3 "tensor 'bad.weight': element 32 (row 1, column 0) is NaN or Inf" quantize "$work/propagated" -o "$work/nn"
rm "$work/propagated/config.json"
exits 3 "tensor 'bad.weight': element 32 (row 1, column 0) is NaN or Inf" quantize "$work/propagated" -o "$work/nn"

# --fuse: q, k and v with the largest magnitudes 1, 4 and 2, in two files. compressed-tensors' tensor scale is
# 2688/amax: 2688, 672 and 1344, and for all of them together 672, which is 0x44280000.
mkdir "$work/qkv"
one='{"dtype":"F32","shape":[1,32],"data_offsets"'
safetensors "$work/qkv/a.safetensors" "{\"q_proj.weight\":$one:[0,128]}}" "$(repeat 31 00000000)0000803f"
safetensors "$work/qkv/b.safetensors" "{\"k_proj.weight\":$one:[0,128]},\"o_proj.weight\":$one:[128,256]},\"v_proj.weight\":$one:[256,384]}}" \
	"$(repeat 31 00000000)00008040 $(repeat 31 00000000)00000041 $(repeat 31 00000000)00000040"
printf '{"weight_map":{"q_proj.weight":"a.safetensors","k_proj.weight":"b.safetensors",%s}}' \
	'"o_proj.weight":"b.safetensors","v_proj.weight":"b.safetensors"' >"$work/qkv/model.safetensors.index.json"
# scales DIR: the tensor scales of q; k, o, v, which begin the data. o has the largest magnitude 8: 336.
scales() {
	size=$(od -An -tu1 -N2 "$1/a.safetensors" | awk '{ print $1 + 256 * $2 + 8 }')
	tail -c "+$((size + 1))" "$1/a.safetensors" | head -c 4 | hex
	size=$(od -An -tu1 -N2 "$1/b.safetensors" | awk '{ print $1 + 256 * $2 + 8 }')
	tail -c "+$((size + 1))" "$1/b.safetensors" | head -c 12 | hex
}
exits 0 "" quantize -q "$work/qkv" -o "$work/apart" -w nvfp4
same "tensor scales" 00002845000028440000a8430000a844 "$(scales "$work/apart")"
has "what lint says of tensor scales" "$("$mxfp" lint "$work/apart")" "4 times the smallest"
exits 0 "" quantize -q "$work/qkv" -o "$work/fused" -w nvfp4 --fuse
same "fused tensor scales" 00002844000028440000a84300002844 "$(scales "$work/fused")"
same "what lint says of fused tensor scales" "" "$("$mxfp" lint "$work/fused" | grep fused-scale)"
exits 2 "--fuse: is for nvfp4 with a tensor scale; leave it out" quantize -q "$work/qkv" -o "$work/no" --fuse
exits 2 "--fuse: is for nvfp4 with" quantize "$work/qkv" -o "$work/no" --fuse -w nvfp4 --nvfp4-recipe torchao-1
# The preset does it; without anything to fuse it is as without it.
exits 0 "" quantize -q "$work/qkv" -o "$work/preset" --preset nvfp4
same "tensor scales of --preset nvfp4" 00002844000028440000a84300002844 "$(scales "$work/preset")"
same "what lint says of --preset nvfp4" "" "$("$mxfp" lint "$work/preset" | grep fused-scale)"
exits 0 "" quantize -q "$work/one.safetensors" -o "$work/preset" -f --preset nvfp4
exits 0 "" quantize -q "$work/one.safetensors" -o "$work/plain" -w nvfp4 -a none
same "one tensor with --preset nvfp4" "$(data 22 "$work/plain/model.safetensors")" \
	"$(data 22 "$work/preset/model.safetensors")"

# 10^-60 in F64 is no number of f32: what becomes zero by that is counted as flushed, though MXFP4 would hold 1 there.
{
	header '{"l.up_proj.weight":{"dtype":"F64","shape":[1,32],"data_offsets":[0,256]}}'
	bytes "26a6acaa04b67933 000000000000f03f $(repeat 30 0000000000000000)"
} >"$work/f64.safetensors"
exits 0 "" quantize "$work/f64.safetensors" -o "$work/f64.q.safetensors"
has "flushed by f32" "$(cat "$work/out")" "saturated 0, flushed to zero 1, NaN 0, Inf 0"
# The output is never the input, nor anything that is not ours.
exits 4 "mxfp: '': cannot open" quantize '' -o "$work/x"
exits 2 "is the input" quantize "$work/model" -o "$work/model" --force
exits 2 "is the input" quantize "$work/model/model.safetensors" -o "$work/model/" --force
exits 2 "is the input" dequantize "$work/q" -o "$work/q/model.safetensors" --force
exits 2 "give --force" quantize "$work/model" -o "$work/m"
exits 2 "no output given" quantize "$work/model"
exits 2 "no output given" dequantize "$work/q"
exits 2 "--to: 'e4m3' is not taken; give f32|bf16|f16" dequantize "$work/q" -o "$work/nn" --to e4m3
exits 3 "nothing in it is quantized" dequantize "$work/model" -o "$work/nn"
[ ! -e "$work/nn" ] || bad "a refused input left an output"

# A disk without room for 16 bytes of codes and a scale.
if preload; then
	export LD_PRELOAD="$shim" IO_ROOM=16
	exits 4 "$work/full: 17 bytes will be written to this disk, which has room for 16" quantize "$work/one.safetensors" -o "$work/full"
	check "output on a full disk" test ! -e "$work/full" -a ! -e "$work/full.partial"
	unset LD_PRELOAD IO_ROOM
fi
finish
