#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp diff: every dtype, every kind of difference, and errors worked by hand.
. "${srcdir:-.}/tests/cli/cli.shlib"

# file NAME DTYPE SHAPE HEX: a file with the tensor "t".
file() {
	content=$(printf '%s' "$4" | tr -d ' ')
	safetensors "$work/$1" "{\"t\":{\"dtype\":\"$2\",\"shape\":$3,\"data_offsets\":[0,$((${#content} / 2))]}}" \
		"$content"
}

# compared CODE A B: exit code of mxfp diff; its text, blanks squeezed, is in $text.
compared() {
	code=0
	"$mxfp" diff "$work/$2" "$work/$3" >"$work/out" 2>&1 || code=$?
	same "exit code of diff $2 $3" "$1" $code
	text=$(tr -s ' ' <"$work/out")
}

# differs DTYPE HEX_A HEX_B MAX_ERROR UNEQUAL FIRST: two elements in each, of which some differ.
differs() {
	file a "$1" '[2]' "$2"
	file b "$1" '[2]' "$3"
	compared 1 a b
	has "$1" "$text" "| t | values | $1 [2] | $1 [2] | $4 |"
	has "$1" "$text" " | $5 | $6 |"
	compared 0 a a
	has "$1" "$text" "0 tensors differ, 1 are equal"
}
differs F64 '000000000000f03f 0000000000000000' '000000000000f03f 000000000000e03f' 0.5 1 1
# 2^-1000 and 2^1000, of which binary64 has no squares, beside an error of a half: 20 log10 2 dB.
for units in '0000000000007001 0000000000006001 4.666e-302' '000000000000707e 000000000000607e 5.358e+300'; do
	set -- $units
	file a F64 '[2]' "$1 $1"
	file b F64 '[2]' "$2 $2"
	compared 1 a b
	has "F64 $1" "$text" "| $3 | 6.02 | 0.5 | 2 | 0 |"
done
differs F32 '0000803f 00000040' '00000000 00000040' 1 1 0
differs BF16 '803f 0040' '0000 0040' 1 1 0
differs F16 '003c 0040' '003c 0000' 2 1 1
differs F8_E4M3 '38 40' '38 7e' 446 1 1
differs F8_E5M2 '3c 40' '00 00' 2 2 0
differs F8_E8M0 '7f 80' '80 80' 1 1 0
differs F8_E4M3FNUZ '40 81' '48 81' 1 1 0
differs F8_E5M2FNUZ '40 ff' '40 7f' 1.147e+05 1 1
differs F4 '52' '42' 1 1 1
differs I8 'ff 80' 'ff 7f' 255 1 1
differs U8 'ff 80' '00 80' 255 1 0
differs BOOL '01 00' '00 00' 1 1 0
differs I16 'ffff 0080' 'feff 0080' 1 1 0
differs U16 'ffff 0080' 'ffff 0000' 3.277e+04 1 1
differs I32 'ffffffff 00000080' '01000000 00000080' 2 1 0
differs U32 'ffffffff 00000000' 'ffffffff 01000000' 1 1 1
differs I64 'ffffffffffffffff 0000000000000080' '0000000000000000 0000000000000080' 1 1 0
# Numbers that binary64 cannot tell apart, and numbers whose values are not known, differ by their bits.
differs U64 'ffffffffffffffff 0000000000000000' 'feffffffffffffff 0000000000000000' 0 1 0
differs C64 '0000000000000000 0000000000000000' '0000000000000000 0000803f00000000' - 1 1

# Four codes in three bytes: 08 is 1 in e2m3.
file a F6_E2M3 '[4]' '088220'
file b F6_E2M3 '[4]' '088200'
compared 1 a b
has "F6" "$text" "| t | values | F6_E2M3 [4] | F6_E2M3 [4] | 1 | 6.02 | 0.5 | 1 | 3 |"

# SQNR and relative error: signal 3^2 + 4^2 = 25, noise 0.3^2 + 0.4^2 -> 25/0.25 = 20 dB, 0.1. Numbers near .3 and .4.
file a F64 '[2]' '0000000000000840 0000000000001040'
file b F64 '[2]' '6666666666660a40 9a99999999991140'
compared 1 a b
has "errors" "$text" "| 0.4 | 20.00 | 0.1 | 2 | 0 |"
has "errors" "$text" "over the tensors that differ: SQNR 20.00 dB, rel. error 0.1, max error 0.4"

# -0 and +0, and NaNs, are equal values, with a remark.
file a F32 '[3]' '00000080 0000c07f 0000803f'
file b F32 '[3]' '00000000 0100c0ff 0000803f'
compared 0 a b
has "equal values" "$text" "| t | equal values | F32 [3] | F32 [3] |"
has "equal values" "$text" "0 tensors differ, 1 are equal, 1 of these not bit by bit"
# A NaN or an Inf and a number are not.
file b F32 '[3]' '00000080 00000000 0000803f'
compared 1 a b
has "NaN" "$text" "| - | - | - | 1 | 1 | 1 |"
has "NaN" "$text" "over all tensors compared: SQNR -, rel. error -, max error -; without 1 elements that are NaN or Inf in A or B"
"$mxfp" diff --json "$work/a" "$work/b" >"$work/out" || :
has "NaN" "$(tr -d ' \n' <"$work/out")" \
	'"errors":{"max_absolute":null,"sqnr_db":null,"relative_error":null,"elements":2,"excluded":1,"unequal":1}'
# With errors of other elements they are those of these: signal 1 and 2^2, noise 1. An Inf that both have is no error.
file a F32 '[4]' '0000803f 00000040 0000807f 0000807f'
file b F32 '[4]' '00000000 00000040 0000807f 000080ff'
compared 1 a b
has "Inf" "$text" "| 1 | 6.99 | 0.4472 | 2 | 0 | 2 |"
file b F32 '[4]' '0000803f 00000040 0000807f 0000807f'
safetensors "$work/c" '{"t":{"dtype":"F64","shape":[4],"data_offsets":[0,32]}}' \
	'000000000000f03f0000000000000040000000000000f07f000000000000f07f'
compared 1 a c
has "equal Inf" "$text" "| 0 | exact | 0 | 0 | - | 2 |"
# Nothing that is finite.
file a F32 '[1]' '0000807f'
file b F32 '[1]' '00000000'
compared 1 a b
has "Inf" "$text" "SQNR -, rel. error -, max error -; without 1 elements"

# Another dtype is a difference even of equal values; of another shape values are not compared.
file a F32 '[2]' '0000803f 00000040'
file b BF16 '[2]' '803f 0040'
compared 1 a b
has "dtype" "$text" "| t | dtype | F32 [2] | BF16 [2] | 0 | exact | 0 | 0 | - |"
file b F32 '[1, 2]' '0000803f 00000040'
compared 1 a b
has "shape" "$text" "| t | shape | F32 [2] | F32 [1, 2] | - | - | - | - | - |"

# Names.
safetensors "$work/b" '{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"new":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}' \
	'0000803f 00000040 00'
compared 1 a b
has "only in B" "$text" "| new | only in B | - | U8 [] |"
has "only in B" "$text" "1 tensors differ, 1 are equal"
compared 1 b a
has "only in A" "$text" "| new | only in A | U8 [] | - |"

# No tensor in common, or of one shape.
safetensors "$work/u" '{"u":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}' '0000803f'
compared 1 a u
has "nothing in common" "$text" "2 tensors differ, 0 are equal
no tensors were compared; not compared: 1 only in A, 1 only in B"
compared 0 u u
checks=$((checks + 1))
case $text in
*"no tensors"*) bad "a tensor was compared: $text" ;;
esac
has "counts" "$text" "1 tensors were compared, 0 of them quantized and decoded"

# Quantized tensors are those they were made from. A row of all codes of e2m1, twice, at scale 1 is 0, 0.5, 1, 1.5, 2, 3,
# 4, 6 and their negatives, twice; in its source there is 8 for the first 6 and 0.25 for the first 0. Squares: the source
# has 4 * 68.5 - 36 + 64 + 0.0625 = 302.0625, the errors are 2^2 + 0.25^2 = 4.0625: 18.71 dB, 0.116.
values=$(echo 00000000 0000003f 0000803f 0000c03f 00000040 00004040 00008040 0000c040 \
	00000080 000000bf 000080bf 0000c0bf 000000c0 000040c0 000080c0 0000c0c0)
near="0000803e ${values#00000000}"
near="$(printf '%s' "$near" | sed 's/0000c040/00000041/') $values"
e2m1=1032547698badcfe
safetensors "$work/source" '{"x.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
	"norm":{"dtype":"F32","shape":[1],"data_offsets":[128,132]}}' "$near 0000803f"
norm='"norm":{"dtype":"F32","shape":[1]'

# compares FILE FORMAT: what diff says of it and the source.
compares() {
	compared 1 source "$1"
	has "$1" "$text" "| x.weight | dtype | F32 [1, 32] | $2 [1, 32] | 2 | 18.71 | 0.116 | 2 | 0 |"
	has "$1" "$text" "1 tensors differ, 1 are equal
2 tensors were compared, 1 of them quantized and decoded
over the tensors that differ: SQNR 18.71 dB, rel. error 0.116, max error 2"
}
safetensors "$work/mxfp4" "{\"x.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},
	\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[16,17]},
	$norm,\"data_offsets\":[17,21]}}" "$e2m1${e2m1}7f 0000803f"
compares mxfp4 mxfp4
# Scales 1 and 4 at a divisor of 1 and 4; the multiplier of ModelOpt is 1/4.
safetensors "$work/nvfp4" "{\"x.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},
	\"x.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,2],\"data_offsets\":[16,18]},
	\"x.weight_global_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18,22]},
	$norm,\"data_offsets\":[22,26]}}" "$e2m1${e2m1}4848 00008040 0000803f"
compares nvfp4 nvfp4
safetensors "$work/modelopt" "{\"x.weight\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},
	\"x.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,2],\"data_offsets\":[16,18]},
	\"x.weight_scale_2\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[18,22]},
	$norm,\"data_offsets\":[22,26]}}" "$e2m1${e2m1}4848 0000803e 0000803f"
compares modelopt nvfp4
safetensors "$work/quark" "{\"x.weight\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},
	\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[16,17]},
	$norm,\"data_offsets\":[17,21]}}" "$e2m1${e2m1}7f 0000803f"
compares quark mxfp4
exits 0 "" convert "$work/mxfp4" -o "$work/x4.safetensors" -l trn-x4
compares x4.safetensors mxfp4
# In e4m3 30 is 0.5, 38 1, 3c 1.5, 40 2, 44 3, 48 4 and 4c 6.
e4m3=0030383c4044484c80b0b8bcc0c4c8cc
safetensors "$work/mxfp8" "{\"x.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,32],\"data_offsets\":[0,32]},
	\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[32,33]},
	$norm,\"data_offsets\":[33,37]}}" "$e4m3${e4m3}7f 0000803f"
compares mxfp8 mxfp8-e4m3

# Two quantized models: the same numbers in another layout are equal, in another format they are not; what one code says.
compared 0 mxfp4 quark
has "layouts" "$text" "0 tensors differ, 2 are equal
2 tensors were compared, 1 of them quantized and decoded
over all tensors compared: SQNR exact"
compared 0 nvfp4 modelopt
compared 1 mxfp4 nvfp4
has "formats" "$text" "| x.weight | dtype | mxfp4 [1, 32] | nvfp4 [1, 32] | 0 | exact | 0 | 0 | - |"
# The code of -6 becomes that of -4, and one of -0 that of +0: 274 over 4 is 18.36 dB.
safetensors "$work/other" "{\"x.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},
	\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[16,17]},
	$norm,\"data_offsets\":[17,21]}}" "${e2m1}10325476 90badcee 7f 0000803f"
compared 1 mxfp4 other
has "codes" "$text" "| x.weight | values | mxfp4 [1, 32] | mxfp4 [1, 32] | 2 | 18.36 | 0.1208 | 1 | 31 |"
safetensors "$work/other" "{\"x.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},
	\"x.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[16,17]},
	$norm,\"data_offsets\":[17,21]}}" "${e2m1}10325476 90badcfe 7f 0000803f"
compared 0 mxfp4 other
has "zeros" "$text" "0 tensors differ, 2 are equal, 1 of these not bit by bit"
"$mxfp" diff --json "$work/source" "$work/mxfp4" >"$work/out"
text=$(tr -d ' \n' <"$work/out")
has "json" "$text" '"b":{"dtype":"mxfp4","layout":"compressed-tensors","shape":[1,32]}'
has "json" "$text" '"compared":2,"decoded":1,"not_decoded":null,'

# Experts of gpt-oss lie [in, out] in the source: 32 x 2 of which the second column is the quantized row of 3 (code 7 at
# 2^-1) and the first that of the codes. In row 6, column 0, element 12, 8 stands for 4: squares of 274 - 16 + 64 + 288
# over 16 are 15.81 dB.
turned=
for value in $values $values; do
	turned="$turned$value 00004040 "
done
turned=$(printf '%s' "$turned" | sed 's/00008040/00000041/')
mkdir "$work/oss" "$work/oss-source"
experts=model.layers.0.mlp.experts.gate_up_proj
echo '{"model_type":"gpt_oss","hidden_size":32}' | tee "$work/oss/config.json" >"$work/oss-source/config.json"
safetensors "$work/oss-source/model.safetensors" \
	"{\"$experts\":{\"dtype\":\"F32\",\"shape\":[1,32,2],\"data_offsets\":[0,256]}}" "$turned"
safetensors "$work/oss/model.safetensors" \
	"{\"${experts}_blocks\":{\"dtype\":\"U8\",\"shape\":[1,2,1,16],\"data_offsets\":[0,32]},
	\"${experts}_scales\":{\"dtype\":\"U8\",\"shape\":[1,2,1],\"data_offsets\":[32,34]}}" "$e2m1$e2m1$(repeat 16 77)7f7e"
compared 1 oss-source oss
has "gpt-oss" "$text" "| $experts | dtype | F32 [1, 32, 2] | mxfp4 [1, 32, 2] | 4 | 15.81 | 0.162 | 1 | 12 |"
exits 0 "" convert "$work/oss" -o "$work/oss-x4" -l trn-x4
compared 0 oss oss-x4

# Experts of Llama 4: [in, out] too, one by one in the quantized model, gate and up apart.
mkdir "$work/llama4" "$work/llama4-source"
experts=model.layers.0.feed_forward.experts
echo '{"model_type":"llama4","text_config":{"hidden_size":32,"num_local_experts":1}}' |
	tee "$work/llama4/config.json" >"$work/llama4-source/config.json"
safetensors "$work/llama4-source/model.safetensors" \
	"{\"$experts.gate_up_proj\":{\"dtype\":\"F32\",\"shape\":[1,32,2],\"data_offsets\":[0,256]}}" "$turned"
safetensors "$work/llama4/model.safetensors" \
	"{\"$experts.0.gate_proj.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},
	\"$experts.0.gate_proj.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[16,17]},
	\"$experts.0.up_proj.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[17,33]},
	\"$experts.0.up_proj.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[33,34]}}" \
	"$e2m1${e2m1}7f$(repeat 16 77)7e"
for order in "llama4-source llama4" "llama4 llama4-source"; do
	compared 1 $order
	has "Llama 4" "$text" "2 tensors differ, 0 are equal
2 tensors were compared, 2 of them quantized and decoded"
	has "Llama 4" "$text" "| 1 | 6 |"
done
# One that is not quantized is still on its own.
safetensors "$work/llama4/model.safetensors" \
	"{\"$experts.0.gate_proj.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},
	\"$experts.0.gate_proj.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[16,17]},
	\"$experts.0.up_proj.weight\":{\"dtype\":\"F32\",\"shape\":[1,32],\"data_offsets\":[17,145]}}" \
	"$e2m1${e2m1}7f$(repeat 32 00004040)"
compared 1 llama4-source llama4
has "kept expert" "$text" "1 tensors differ, 1 are equal
2 tensors were compared, 1 of them quantized and decoded"

# Codes in a layout that is not known are no numbers, and nothing is concluded from them.
mkdir "$work/fp8" "$work/ones"
safetensors "$work/ones/model.safetensors" '{"x.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' \
	'0000803f 0000803f'
safetensors "$work/fp8/model.safetensors" '{"x.weight":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},
	"x.weight_scale_inv":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}' '3838 00000040'
echo '{"quantization_config":{"quant_method":"fp8"}}' >"$work/fp8/config.json"
compared 1 ones fp8
has "fp8" "$text" "| x.weight | dtype | F32 [2] | F8_E4M3 [2] | - | - | - | - | - |"
has "fp8" "$text" "no tensors were compared; not compared: 1 of a dtype that mxfp cannot decode, 1 only in B"
compared 0 fp8 fp8
has "fp8" "$text" "2 tensors were compared, 0 of them quantized and decoded"
safetensors "$work/broken" '{"x.weight":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},
	"x.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}' '3838 00000040'
compared 1 ones broken
has "broken" "$text" "no tensors were compared"
same "broken, quietly" "" "$("$mxfp" diff -q "$work/ones" "$work/broken" 2>&1)"
same "stderr" "" "$("$mxfp" diff "$work/ones" "$work/broken" 2>&1 >"$work/out")"
has "broken" "$text" "the parts are compared as stored: $work/broken: tensor 'x.weight': not in a layout that mxfp knows"

# JSON has every tensor.
"$mxfp" diff --json "$work/a" "$work/b" >"$work/out"
text=$(tr -d ' \n' <"$work/out")
has "json" "$text" '"name":"t","result":"equal","differs":false'
has "json" "$text" '"name":"new","result":"onlyinB","differs":true'
has "json" "$text" '"different":1,"equal":1'
if command -v python3 >/dev/null 2>&1; then
	python3 -m json.tool "$work/out" >/dev/null || bad "--json is no JSON"
fi
same "quiet" "" "$("$mxfp" diff -q "$work/a" "$work/b" 2>&1)"
exits 2 "too few operands" diff "$work/a"
exits 4 "cannot open" diff "$work/a" "$work/none"
# A quantized tensor of A is that of B; what B has unquantized too, under the name that both have, only B has.
quantized='"a.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
	"a.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[16,17]}'
safetensors_zeros "$work/one_form.safetensors" "{$quantized}" 17
safetensors_zeros "$work/two_forms.safetensors" \
	"{$quantized,\"a.weight\":{\"dtype\":\"F32\",\"shape\":[1,32],\"data_offsets\":[17,145]}}" 145
code=0
"$mxfp" diff "$work/one_form.safetensors" "$work/two_forms.safetensors" >"$work/out" || code=$?
same "exit code for two forms" 1 $code
has "two forms" "$(cat "$work/out")" "1 tensors differ, 1 are equal"
has "two forms" "$(tr -s ' ' <"$work/out")" "| a.weight | only in B | - | F32 [1, 32] |"
finish
