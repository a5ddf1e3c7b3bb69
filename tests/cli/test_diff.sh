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
differs F32 '0000803f 00000040' '00000000 00000040' 1 1 0
differs BF16 '803f 0040' '0000 0040' 1 1 0
differs F16 '003c 0040' '003c 0000' 2 1 1
differs F8_E4M3 '38 40' '38 7e' 446 1 1
differs F8_E5M2 '3c 40' '00 00' 2 2 0
differs F8_E8M0 '7f 80' '80 80' 1 1 0
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
differs F8_E4M3FNUZ '38 40' '38 41' - 1 1
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
has "NaN" "$text" "| 1 | 1 |"

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
no tensors were compared"
compared 0 u u
checks=$((checks + 1))
case $text in
*"no tensors"*) bad "a tensor was compared: $text" ;;
esac

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
finish
