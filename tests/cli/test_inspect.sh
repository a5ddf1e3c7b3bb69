#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp inspect: files made here byte by byte.
. "${srcdir:-.}/tests/cli/cli.shlib"

# safetensors HEADER DATA_BYTES: a file of that header and zeros.
safetensors() {
	bytes "$(printf '%02x%02x000000000000' $((${#1} % 256)) $((${#1} / 256)))"
	printf '%s' "$1"
	head -c "$2" /dev/zero
}

safetensors '{"__metadata__":{"format":"pt"},
	"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
	"b":{"dtype":"I8","shape":[],"data_offsets":[24,25]}}' 25 >"$work/a.safetensors"
exits 0 "" inspect "$work/a.safetensors"
text=$(tr -s ' ' <"$work/out")
has "file" "$text" "a.safetensors: not quantized"
has "metadata" "$text" " format = pt"
has "tensor" "$text" " a.weight F32 24 [2, 3]"
has "scalar" "$text" " b I8 1 []"
has "totals of a dtype" "$text" " F32 1 6 24"
has "totals" "$text" " all 2 7 25"
exits 0 "" inspect --json "$work/a.safetensors"
text=$(tr -d ' \n' <"$work/out")
has "json" "$text" '"quantized_by":null,"meaning":[],"totals":{"tensors":2,"elements":7,"bytes":25,'
has "json" "$text" '"metadata":{"format":"pt"}'
has "json" "$text" '{"name":"a.weight","dtype":"F32","shape":[2,3],"elements":6,"bytes":24,"offset":0,"by_columns":false}'

# NumPy's files.
{ npy '<f4' False '(2, 3)' && head -c 24 /dev/zero; } >"$work/a.npy"
exits 0 "" inspect "$work/a.npy"
has "array" "$(tr -s ' ' <"$work/out")" " array F32 24 [2, 3]"
{ npy '<f4' True '(2, 3)' && head -c 24 /dev/zero; } >"$work/fortran.npy"
exits 0 "" inspect "$work/fortran.npy"
has "Fortran order" "$(tr -s ' ' <"$work/out")" " array F32 24 [2, 3] by columns"
exits 0 "" inspect "$work/fortran.npy" --json
has "Fortran order" "$(tr -d ' \n' <"$work/out")" '"shape":[2,3],"elements":6,"bytes":24,"offset":0,"by_columns":true}'
exits 3 "fortran.npy: is in Fortran order" report "$work/a.safetensors" --activation-file "$work/fortran.npy"

# Names cannot steer the terminal.
safetensors '{"\u001b[31mred":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' 1 >"$work/red.safetensors"
exits 0 "" inspect "$work/red.safetensors"
has "control characters" "$(cat "$work/out")" "?[31mred"

# A model directory of two shards, already quantized.
mkdir "$work/model"
first=model-00001-of-00002.safetensors
second=model-00002-of-00002.safetensors
safetensors '{"x.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
	"x.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[16,17]}}' 17 >"$work/model/$first"
safetensors '{"y":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}' 8 >"$work/model/$second"
printf '%s' "{\"metadata\":{\"total_size\":25},\"weight_map\":{
	\"x.weight_packed\":\"$first\",\"x.weight_scale\":\"$first\",\"y\":\"$second\"}}" \
	>"$work/model/model.safetensors.index.json"
exits 0 "" inspect "$work/model"
text=$(tr -s ' ' <"$work/out")
has "directory" "$text" "already quantized: "
has "directory" "$text" " y BF16 8 [4]"
has "directory" "$text" " all 3 21 25"
exits 0 "" inspect --json "$work/model"
if command -v python3 >/dev/null 2>&1; then
	for input in a.safetensors red.safetensors model; do
		"$mxfp" inspect --json "$work/$input" | python3 -m json.tool >/dev/null ||
			bad "--json of $input is no JSON"
	done
fi

exits 4 "none: cannot open" inspect "$work/none"
echo "no tensors" >"$work/text"
exits 3 "text: " inspect "$work/text"
head -c 100 "$work/a.safetensors" >"$work/cut.safetensors"
exits 3 "cut.safetensors: " inspect "$work/cut.safetensors"
mkdir "$work/nothing"
exits 3 "nothing: " inspect "$work/nothing"
finish
