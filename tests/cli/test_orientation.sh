#!/bin/sh
# SPDX-License-Identifier: MIT
# Weights stored [.., in, out]: what is turned on the way, what is refused, and files that were made the wrong way.
. "${srcdir:-.}/tests/cli/cli.shlib"

# model NAME JSON-OF-CONFIG TENSORS HEX: a directory.
model() {
	mkdir -p "$work/$1"
	printf '%s\n' "$2" >"$work/$1/config.json"
	{
		header "{$3}"
		bytes "$4"
	} >"$work/$1/model.safetensors"
}
# parts: names, dtypes and shapes of the model in $work/q.
parts() {
	"$mxfp" inspect "$work/q" | sed -n 's/^  \([a-z][^ ]*\)  *\([UFB][^ ]*\)  *[0-9]*  \(\[.*\]\)$/\1 \2 \3;/p' | tr -d '\n'
}
experts=model.layers.0.mlp.experts
gpt_oss='{"model_type":"gpt_oss","hidden_size":32,"intermediate_size":1,"num_local_experts":1}'

# Experts [1, 32, 2]: channel k of the first output is the value of code k mod 16 of E2M1, of the second 3. With floor
# the scale of 6 is 1, that of 3 is 1/2, by which it is 6, code 7.
values='0000 003f 803f c03f 0040 4040 8040 c040 0080 00bf 80bf c0bf 00c0 40c0 80c0 c0c0'
columns=
for value in $values $values; do
	columns="$columns$value 4040 "
done
e2m1=1032547698badcfe
model hand "$gpt_oss" "\"$experts.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":[1,32,2],\"data_offsets\":[0,128]}" \
	"$columns"
exits 0 "" quantize "$work/hand" -o "$work/q" --layout gpt-oss --rule floor
has "why" "$(tr -s ' ' <"$work/out")" "| $experts.gate_up_proj | BF16 [1, 32, 2] | mxfp4 | weights of experts | 4.250 |"
same "parts" "$experts.gate_up_proj_blocks U8 [1, 2, 1, 16];$experts.gate_up_proj_scales U8 [1, 2, 1];" "$(parts)"
same "codes" "$e2m1$e2m1$(repeat 16 77)7f7e" "$(data 34 "$work/q/model.safetensors")"
has "config" "$(tr -d ' \n' <"$work/q/config.json")" '{"quant_method":"mxfp4","modules_to_not_convert":["lm_head"],'
exits 0 "" inspect "$work/q"
has "note" "$(cat "$work/out")" "mxfp.transposed.$experts.gate_up_proj = yes"
exits 0 "" lint "$work/q"
exits 0 "" dequantize "$work/q" -o "$work/back" --to bf16
exits 0 "" diff "$work/hand" "$work/back"
exits 0 "" report "$work/hand" --against "$work/q" --json
has "report" "$(tr -d ' \n' <"$work/out")" '"shape":[1,2,32]'
exits 0 "" detect-rule "$work/q" --ref "$work/hand"
has "rule" "$(cat "$work/out")" floor
# The same without metadata, as OpenAI's files are: the model's type says it.
model theirs "${gpt_oss%\}},\"quantization_config\":{\"quant_method\":\"mxfp4\"}}" \
	"\"$experts.gate_up_proj_blocks\":{\"dtype\":\"U8\",\"shape\":[1,2,1,16],\"data_offsets\":[0,32]},
	\"$experts.gate_up_proj_scales\":{\"dtype\":\"U8\",\"shape\":[1,2,1],\"data_offsets\":[32,34]}" \
	"$e2m1$e2m1$(repeat 16 77)7f7e"
exits 0 "" lint "$work/theirs"
exits 0 "" dequantize "$work/theirs" -o "$work/back" --to bf16 -f
exits 0 "" diff "$work/hand" "$work/back"
# So is a shard on its own, without a config.json: only gpt-oss has such names.
mkdir "$work/shard"
cp "$work/theirs/model.safetensors" "$work/shard/model-00001-of-00002.safetensors"
exits 0 "" dequantize "$work/shard/model-00001-of-00002.safetensors" -o "$work/shard/back.safetensors" --to bf16
exits 0 "" diff "$work/hand/model.safetensors" "$work/shard/back.safetensors"
exits 0 "decoded to f32, and what is quantized is rounded once more" quantize "$work/shard/model-00001-of-00002.safetensors" -o "$work/shard/q" --layout gpt-oss --rule floor -q
exits 0 "" dequantize "$work/shard/q" -o "$work/back" --to bf16 -f
exits 0 "" diff "$work/hand" "$work/back"
cp "$work/hand/model.safetensors" "$work/shard/hand.safetensors"
exits 3 "config.json does not say whether it is [.., out, in] or [.., in, out]" \
	quantize "$work/shard/hand.safetensors" -o "$work/r" --layout gpt-oss
# Another layout notes it.
exits 0 "" convert "$work/theirs" -o "$work/x4" -l trn-x4
exits 0 "" dequantize "$work/x4" -o "$work/back" --to bf16 -f
exits 0 "" diff "$work/hand" "$work/back"
exits 0 "" convert "$work/x4" -o "$work/oss" -l gpt-oss
same "back" "$e2m1$e2m1$(repeat 16 77)7f7e" "$(data 34 "$work/oss/model.safetensors")"
exits 3 "layout quark does not hold it: experts in one tensor, which --layout gpt-oss holds; loaders of this layout" \
	convert "$work/theirs" -o "$work/x" -l quark
exits 0 "" convert "$work/theirs" -o "$work/x" -l quark --decode-rest bf16
exits 0 "" diff "$work/hand" "$work/x"

# What loaders of gpt-oss take: experts, and nothing else.
gate='"model.layers.0.mlp.router.weight":{"dtype":"BF16","shape":[1,32],"data_offsets":[128,192]}'
query='"model.layers.0.self_attn.q_proj.weight":{"dtype":"BF16","shape":[1,32],"data_offsets":[192,256]}'
model whole "$gpt_oss" "\"$experts.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":[1,32,2],\"data_offsets\":[0,128]},
	$gate,$query" "$columns$values$values$values$values"
exits 0 "" quantize "$work/whole" -o "$work/q" --layout gpt-oss -f
text=$(tr -s ' ' <"$work/out")
has "attention" "$text" "q_proj.weight | BF16 [1, 32] | kept | loaders of this layout take experts only |"
has "router" "$text" "router.weight | BF16 [1, 32] | kept | router |"
has "config" "$(tr -d ' \n' <"$work/q/config.json")" \
	'"modules_to_not_convert":["lm_head","model.layers.0.mlp.router","model.layers.0.self_attn.q_proj"]'
exits 0 "" lint "$work/q" --ignore missing
exits 2 "--include: tensor 'model.layers.0.self_attn.q_proj.weight': loaders of this layout take experts only" \
	quantize "$work/whole" -o "$work/r" --layout gpt-oss --include '*q_proj*'
exits 0 "" quantize "$work/whole" -o "$work/q" -f
text=$(tr -s ' ' <"$work/out")
has "experts" "$text" "[1, 32, 2] | kept | experts in one tensor, which --layout gpt-oss holds;"
has "attention" "$text" "q_proj.weight | BF16 [1, 32] | mxfp4 | linear weight |"
exits 2 "--include: tensor '$experts.gate_up_proj': experts in one tensor" \
	quantize "$work/whole" -o "$work/r" --include '*experts*'
# advise leaves the same alone.
exits 0 "" advise "$work/whole" --bits 5 -o "$work/whole.json" --formats mxfp4
has "refused" "$(cat "$work/out")" "left out: 1 layers that loaders of layout compressed-tensors do not take quantized"
has "totals" "$(tr -d ' \n' <"$work/whole.json")" '"default":{"format":"mxfp4",'
case $(cat "$work/out") in
*experts.gate_up_proj*) bad "advise measures experts that quantize keeps" ;;
esac
exits 0 "" advise "$work/whole" --layout gpt-oss
has "refused" "$(cat "$work/out")" "left out: 1 layers that loaders of layout gpt-oss do not take quantized"
has "experts" "$(cat "$work/out")" "| $experts.gate_up_proj "
exits 2 "advise: --include: tensor '$experts.gate_up_proj': experts in one tensor" \
	advise "$work/whole" --include '*experts*'
sed 's/gpt_oss/mixtral/' "$work/whole/config.json" >"$work/config" && mv "$work/config" "$work/whole/config.json"
exits 3 "gate_up_proj' (loaders of this layout take model_type gpt_oss only)" quantize "$work/whole" -n --layout gpt-oss
has "another model" "$(cat "$work/out")" "loaders of this layout take model_type gpt_oss only"

# Nobody says what the rows are: refused, unless the hidden size does.
refusal="does not say whether it is [.., out, in] or [.., in, out]"
mv "$work/hand/config.json" "$work/config"
exits 3 "tensor '$experts.gate_up_proj': config.json $refusal" quantize "$work/hand" -o "$work/r" --layout trn-x4
exits 3 "$refusal" quantize "$work/hand" -o "$work/r" --layout gpt-oss
exits 3 "$refusal" advise "$work/hand" --layout trn-x4
exits 3 "has no layer to quantize" advise "$work/hand"
exits 0 "" report "$work/hand"
has "report" "$(cat "$work/out")" "$refusal"
exits 3 "nothing is to be quantized: '$experts.gate_up_proj' (--ignore)" \
	quantize "$work/hand" -n --layout trn-x4 --ignore '*experts*'
mv "$work/config" "$work/hand/config.json"
exits 0 "" quantize "$work/hand/model.safetensors" -n --layout gpt-oss
has "a file beside config.json" "$(tr -s ' ' <"$work/out")" "[1, 32, 2] | mxfp4 | weights of experts |"
# by_size NAME HIDDEN SHAPE PARTS
by_size() {
	model size "{\"model_type\":\"new\",\"text_config\":{\"hidden_size\":$2}}" \
		"\"$1\":{\"dtype\":\"BF16\",\"shape\":$3,\"data_offsets\":[0,4096]}" "$(repeat 32 "$columns")"
	exits 0 "" quantize "$work/size" -o "$work/q" --layout trn-x4 -fq
	has "$1 $3 of $2" "$(parts)" "$1_x4_scale U8 $4;"
}
by_size experts.gate_up_proj 64 '[1,64,32]' '[1, 16, 1, 32]'
by_size experts.gate_up_proj 32 '[1,64,32]' '[1, 16, 1, 64]'
by_size experts.down_proj 64 '[1,64,32]' '[1, 16, 1, 64]'
by_size experts.down_proj 32 '[1,64,32]' '[1, 16, 1, 32]'
sed -i 's/:32}/:48}/' "$work/size/config.json"
exits 3 "$refusal" quantize "$work/size" -o "$work/r" --layout trn-x4

# GPT-2: Conv1D.
conv='"h.0.mlp.c_fc.weight":{"dtype":"BF16","shape":[32,2],"data_offsets":[0,128]}'
model gpt2 '{"model_type":"gpt2","n_embd":32}' "$conv" "$columns"
exits 3 "gpt2: nothing can be quantized: 'h.0.mlp.c_fc.weight' (a Conv1D; loaders of this layout take Linear); " \
	quantize "$work/gpt2" -o "$work/r"
[ ! -e "$work/r" ] || bad "an output in which nothing is quantized"
exits 3 "nothing can be quantized" quantize "$work/gpt2" -n
has "Conv1D" "$(tr -s ' ' <"$work/out")" "[32, 2] | kept | a Conv1D; loaders of this layout take Linear |"
exits 2 "a Conv1D" quantize "$work/gpt2" -o "$work/r" --include '*c_fc*'
exits 0 "" quantize "$work/gpt2" -o "$work/q" -fq --layout trn-x4
exits 0 "" lint "$work/q"
exits 0 "" dequantize "$work/q" -o "$work/back" --to bf16 -f
exits 0 "" diff "$work/gpt2" "$work/back"
# StarCoder has the names and a Linear; without a type nobody knows.
model starcoder '{"model_type":"gpt_bigcode","n_embd":2}' "$conv" "$columns"
sed -i 's/\[32,2\]/[2,32]/' "$work/starcoder/model.safetensors"
exits 0 "" quantize "$work/starcoder" -n
has "Linear" "$(tr -s ' ' <"$work/out")" "[2, 32] | mxfp4 | linear weight |"
cp "$work/starcoder/model.safetensors" "$work/untyped.safetensors"
exits 3 "$refusal" quantize "$work/untyped.safetensors" -o "$work/r"

# Llama 4: loaders that quantize Linear take one expert each. Gate are the first columns and up the others, so that the
# rows of gate are the values and 3s, and those of up 3s and the values.
halves=
for value in $values $values; do
	halves="$halves$value 4040 4040 $value "
done
experts=model.layers.0.feed_forward.experts
model llama4 '{"model_type":"llama4","text_config":{"hidden_size":32,"num_local_experts":2}}' \
	"\"$experts.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":[2,32,4],\"data_offsets\":[0,512]}" "$halves$halves"
exits 0 "" quantize "$work/llama4" -o "$work/q" -fq --rule floor
expected=
for part in 0.gate_proj 0.up_proj 1.gate_proj 1.up_proj; do
	expected="$expected$experts.$part.weight_packed U8 [2, 16];$experts.$part.weight_scale U8 [2, 1];"
done
same "parts of experts" "$expected" "$(parts)"
gate=$e2m1$e2m1$(repeat 16 77)7f7e up=$(repeat 16 77)$e2m1${e2m1}7e7f
same "codes of experts" "$gate$up$gate$up" "$(data 136 "$work/q/model.safetensors")"
exits 0 "" lint "$work/q"
# One tensor again, unless an expert is not quantized.
exits 0 "" dequantize "$work/q" -o "$work/back" --to bf16 -f
exits 0 "" diff "$work/llama4" "$work/back"
exits 0 "" report "$work/llama4" --against "$work/q" --json
has "report of experts" "$(tr -d ' \n' <"$work/out")" "\"$experts.1.up_proj.weight\""
exits 0 "" detect-rule "$work/q" --ref "$work/llama4"
has "rule of experts" "$(cat "$work/out")" floor
exits 0 "" advise "$work/llama4" --bits 5 -o "$work/recipe.json"
exits 0 "" quantize "$work/llama4" -n --recipe "$work/recipe.json"
rows=$(echo $values $values | tr -d ' ')$(repeat 32 4040)
exits 0 "" quantize "$work/llama4" -o "$work/q" -fq --rule floor --ignore '*.1.gate_proj.weight'
has "kept expert" "$(parts)" "$experts.1.gate_proj.weight BF16 [2, 32];"
has "kept expert" "$(data 10000 "$work/q/model.safetensors")" "$rows"
exits 0 "" dequantize "$work/q" -o "$work/back" --to bf16 -f
has "kept expert" "$("$mxfp" inspect "$work/back")" "$experts.0.gate_proj.weight "
exits 0 "" quantize "$work/llama4" -o "$work/q" -fq --layout trn-x4
has "in one tensor" "$(parts)" "$experts.gate_up_proj_x4_scale U8 [2, 16, 1, 4];"
experts=model.layers.0.mlp.experts

# The same numbers [experts, 2 out, in], as the files of Qwen3.5-MoE have them, and what loaders take: the same codes.
threes=$(repeat 32 4040) one=$(echo $values $values | tr -d ' ')
upright=$one$threes$threes$one
halves=$(echo "$halves" | tr -d ' ')
each_parts=
for part in 0.gate_proj 0.up_proj 1.gate_proj 1.up_proj; do
	each_parts="$each_parts$experts.$part.weight_packed U8 [2, 16];$experts.$part.weight_scale U8 [2, 1];"
done
# each NAME CONFIG SHAPE HEX: becomes one each, and comes back as it was.
each() {
	model "$1" "$2" "\"$experts.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":$3,\"data_offsets\":[0,512]}" "$4"
	exits 0 "" quantize "$work/$1" -o "$work/q" -fq --rule floor
	same "parts of experts of $1" "$each_parts" "$(parts)"
	same "codes of experts of $1" "$gate$up$gate$up" "$(data 136 "$work/q/model.safetensors")"
	exits 0 "" lint "$work/q" -q --ignore missing
	exits 0 "" dequantize "$work/q" -o "$work/back" --to bf16 -fq
	same "tensor of $1" "$("$mxfp" inspect "$work/$1" | grep "$experts")" "$("$mxfp" inspect "$work/back" | grep "$experts")"
	same "numbers of $1" "$4" "$(data 512 "$work/back/model.safetensors")"
	exits 0 "" diff "$work/$1" "$work/back"
	# Names of whole tensors to ignore leave them whole, and their module is listed.
	exits 3 "nothing is to be quantized: '$experts.gate_up_proj' (--ignore)" quantize "$work/$1" -n --ignore '*experts*'
}
for type in qwen3_5_moe qwen3_5_moe_text qwen4_exp gemma4 qwen3_moe hy_v4 glm4_moe; do
	each $type "{\"model_type\":\"$type\",\"text_config\":{\"hidden_size\":32,\"num_experts\":2}}" '[2,4,32]' "$upright$upright"
done
vl='{"model_type":"qwen3_vl_moe","text_config":{"hidden_size":32,"num_experts":2}}'
each qwen3_vl_moe "$vl" '[2,4,32]' "$upright$upright"
each qwen3_vl_moe_turned "$vl" '[2,32,4]' "$halves$halves"
each deepseek_v3 '{"model_type":"deepseek_v3","hidden_size":32,"n_routed_experts":2}' '[2,4,32]' "$upright$upright"

# A model that stays but for one module lists experts that stay whole.
model mixed "$vl" "\"$experts.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":[2,4,32],\"data_offsets\":[0,512]},
	\"model.layers.0.self_attn.q_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[1,32],\"data_offsets\":[512,576]}" "$upright$upright$one"
exits 0 "" quantize "$work/mixed" -o "$work/q" -fq --ignore '*experts*'
has "whole" "$(parts)" "$experts.gate_up_proj BF16 [2, 4, 32];"
has "listed" "$(cat "$work/q/config.json")" "\"re:$experts[.].*\""

# Square: config.json cannot tell. What other experts of the model say counts, and without them it is refused.
# square TYPE: gate_up [1, 32, 32].
square() {
	model square "{\"model_type\":\"$1\",\"hidden_size\":32,\"num_experts\":1}" \
		"\"$experts.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":[1,32,32],\"data_offsets\":[0,2048]}" "$(repeat 32 "$one")"
}
square qwen3_vl_moe
open="hidden_size of config.json is both of its dimensions"
exits 3 "tensor '$experts.gate_up_proj': it is [.., out, in] or [.., in, out], and $open" quantize "$work/square" -o "$work/r"
exits 3 "$open" quantize "$work/square" -n
exits 3 "$open" quantize "$work/square" -n --layout trn-x4
exits 3 "(--ignore)" quantize "$work/square" -n --ignore '*experts*'
square qwen3_5_moe
exits 0 "" quantize "$work/square" -o "$work/q" -fq
has "by class" "$(parts)" "$experts.0.gate_proj.weight_packed U8 [16, 16];"
for shape in '[1,32,16]' '[1,16,32]'; do
	model square "{\"model_type\":\"qwen3_vl_moe\",\"hidden_size\":32,\"num_experts\":1}" \
		"\"$experts.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":[1,32,32],\"data_offsets\":[0,2048]},
		\"$experts.down_proj\":{\"dtype\":\"BF16\",\"shape\":$shape,\"data_offsets\":[2048,3072]}" \
		"$(repeat 48 "$one")"
	exits 0 "" quantize "$work/square" -o "$work/q" -fq --rule floor --pad-tail
	has "by another" "$(parts)" "$experts.0.gate_proj.weight_packed U8 [16, 16];"
	data 1088 "$work/q/model.safetensors" >"$work/codes.$shape" # in the order of the names: down, padded, gate, up
done
# Rows of values 0, 0.5, 1 ... in every row; turned, rows of one value each.
case $(tail -c 1088 "$work/codes.[1,32,16]") in
$e2m1$e2m1$e2m1*) ;;
*) bad "[1,32,16]: experts [.., out, in] were turned" ;;
esac
case $(tail -c 1088 "$work/codes.[1,16,32]") in
$e2m1*) bad "[1,16,32]: experts [.., in, out] were not turned" ;;
esac
# What contradicts its class is of another model.
model contrary '{"model_type":"qwen3_5_moe","hidden_size":32,"num_experts":2}' \
	"\"$experts.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":[2,32,4],\"data_offsets\":[0,512]}" "$halves$halves"
exits 3 "tensor '$experts.gate_up_proj': by config.json's model_type it is [.., out, in], and by hidden_size [.., in, out]" \
	quantize "$work/contrary" -o "$work/r"
[ ! -e "$work/r" ] || bad "an output of a contradiction"

# Files that were made the wrong way.
# wrong NAME CONFIG TENSORS HEX FINDING
wrong() {
	model "$1" "$2" "$3" "$4"
	code=0
	"$mxfp" lint -q "$work/$1" --ignore missing >"$work/out" || code=$?
	same "exit code of lint $1" 1 $code
	has "$1" "$(cat "$work/out")" "$5"
	has "$1" "$(cat "$work/out")" "[shape]"
}
quantized='"quantization_config":{"quant_method":"mxfp4"}'
big="{\"model_type\":\"gpt_oss\",\"hidden_size\":64,\"intermediate_size\":16,$quantized}"
blocks="\"$experts.gate_up_proj_blocks\":{\"dtype\":\"U8\",\"shape\":[1,64,1,16],\"data_offsets\":[0,1024]},
	\"$experts.gate_up_proj_scales\":{\"dtype\":\"U8\",\"shape\":[1,64,1],\"data_offsets\":[1024,1088]}"
wrong along "$big" "$blocks" "$(repeat 1024 21)$(repeat 64 7f)" \
	"'$experts.gate_up_proj': its blocks are along the last dimension of [.., out, in] [1, 64, 32], and by config.json it takes 64"
down="\"$experts.down_proj_blocks\":{\"dtype\":\"U8\",\"shape\":[1,32,1,16],\"data_offsets\":[0,512]},
	\"$experts.down_proj_scales\":{\"dtype\":\"U8\",\"shape\":[1,32,1],\"data_offsets\":[512,544]}"
square=$(printf '%s' "$big" | sed 's/64/32/;s/16/32/')
# A square one is not to be seen, unless mxfp quantize wrote it.
model square "$square" "$down" "$(repeat 512 21)$(repeat 32 7f)"
exits 0 "" lint "$work/square" -q
wrong square "$square" "\"__metadata__\":{\"mxfp.weights\":\"mxfp4\"},$down" "$(repeat 512 21)$(repeat 32 7f)" \
	"by its metadata it has blocks along its last dimension, and gpt_oss runs over the one before"
wrong attention "$square" '"model.layers.0.self_attn.o_proj.weight_blocks":{"dtype":"U8","shape":[32,1,16],
	"data_offsets":[0,512]},"model.layers.0.self_attn.o_proj.weight_scales":{"dtype":"U8","shape":[32,1],
	"data_offsets":[512,544]}' "$(repeat 512 21)$(repeat 32 7f)" "in layout gpt-oss: loaders of this layout take experts only"
wrong conv '{"model_type":"gpt2","n_embd":32,"quantization_config":{"quant_method":"compressed-tensors"}}' \
	'"h.0.mlp.c_fc.weight_packed":{"dtype":"U8","shape":[32,16],"data_offsets":[0,512]},
	"h.0.mlp.c_fc.weight_scale":{"dtype":"U8","shape":[32,1],"data_offsets":[512,544]}' \
	"$(repeat 512 21)$(repeat 32 7f)" "in layout compressed-tensors: a Conv1D"
wrong plain '{"model_type":"gpt_oss","hidden_size":2}' \
	"\"$experts.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":[1,32,2],\"data_offsets\":[0,128]}" "$columns" \
	"transposed it is [.., out, in] [1, 2, 32], and by config.json it takes 2 channels"

# Large ones, in bands, beside files that were transposed before: the same codes, and the same numbers back.
if command -v python3 >/dev/null 2>&1; then
	cols=$(fewer 9001 4001)
	python3 - "$work" $cols <<'END'
import array, json, pathlib, sys
work = pathlib.Path(sys.argv[1])
experts, rows, cols = 2, 544, int(sys.argv[2])  # [in, out]
numbers = array.array("H", (0x3C00 + (i * 2654435761 >> 7) % 1024 for i in range(experts * rows * cols)))
if sys.byteorder == "big":
    numbers.byteswap()
turned = array.array("H")
for e in range(experts):
    matrix = numbers[e * rows * cols:(e + 1) * rows * cols]
    for col in range(cols):
        turned.extend(matrix[col::cols])
def save(name, tensor, shape, data, **config):
    (work / name).mkdir()
    (work / name / "config.json").write_text(json.dumps(config))
    header = json.dumps({tensor: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 2 * len(data)]}}).encode()
    with open(work / name / "model.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + data.tobytes())
name = "model.layers.0.mlp.experts.gate_up_proj"
save("stored", name, [experts, rows, cols], numbers, model_type="gpt_oss", hidden_size=rows)
save("turned", name, [experts, cols, rows], turned, model_type="mixtral", hidden_size=rows)
END
	codes=$((2 * cols * 17 * 16)) # of those in tiles, the last
	for format in mxfp4 mxfp8; do
		exits 0 "" quantize "$work/stored" -o "$work/s" --layout trn-x4 -w $format -fq
		exits 0 "" quantize "$work/turned" -o "$work/t" --layout trn-x4 -w $format -fq
		[ "$(tail -c $codes "$work/s/model.safetensors" | cksum)" = \
			"$(tail -c $codes "$work/t/model.safetensors" | cksum)" ] || bad "$format: other tiles"
	done
	exits 0 "" quantize "$work/stored" -o "$work/s" --layout gpt-oss -fq
	exits 0 "" quantize "$work/turned/model.safetensors" -o "$work/t" --layout trn-x4 -fq
	exits 0 "" quantize "$work/stored" -o "$work/s1" --layout gpt-oss -fq --mem 6M --threads 1
	cmp "$work/s/model.safetensors" "$work/s1/model.safetensors" || bad "--mem changes the output"
	exits 0 "" convert "$work/s" -o "$work/sx" --layout trn-x4 -q
	[ "$(tail -c $codes "$work/sx/model.safetensors" | cksum)" = "$(tail -c $codes "$work/t/model.safetensors" | cksum)" ] ||
		bad "other codes"
	exits 0 "" dequantize "$work/s" -o "$work/ds" -q
	exits 0 "" dequantize "$work/t" -o "$work/dt" -q
	python3 - "$work" $cols <<'END' || bad "other numbers"
import array, pathlib, sys
work = pathlib.Path(sys.argv[1])
experts, rows, cols = 2, 544, int(sys.argv[2])
def load(name):
    return array.array("I", (work / name / "model.safetensors").read_bytes()[-4 * experts * rows * cols:])
stored, turned = load("ds"), load("dt")
for e in range(experts):
    matrix = stored[e * rows * cols:(e + 1) * rows * cols]
    for col in range(0, cols, 7):
        at = (e * cols + col) * rows
        if matrix[col::cols] != turned[at:at + rows]:
            sys.exit(f"matrix {e}, column {col}")
END
	for model in stored turned; do
		exits 0 "" report "$work/$model" --formats mxfp4 --rules mse --json -q
		tr -d ' \n' <"$work/out" | grep -o '"sqnr_db":[0-9.]*' >"$work/$model.sqnr"
		[ -s "$work/$model.sqnr" ] || bad "no SQNR of $model"
	done
	same "SQNR" "$(cat "$work/turned.sqnr")" "$(cat "$work/stored.sqnr")"
fi
finish
