#!/bin/sh
# SPDX-License-Identifier: MIT
# The files of a quantized model: cut as the source's or by --shard-size, the index, and files that are carried along.
. "${srcdir:-.}/tests/cli/cli.shlib"

# Three tensors of [64,64] bf16 in two files: 8 KiB each, quantized 2176 bytes.
mkdir "$work/in"
seq 1 20000 >"$work/numbers"
{
	header '{"__metadata__":{"note":"first"},"a.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192]},
		"b.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[8192,16384]}}'
	head -c 16384 "$work/numbers"
} >"$work/in/x1.safetensors"
{
	header '{"c.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192]}}'
	tail -c 8192 "$work/numbers"
} >"$work/in/x2.safetensors"
echo '{"weight_map":{"a.weight":"x1.safetensors","b.weight":"x1.safetensors","c.weight":"x2.safetensors"}}' \
	>"$work/in/model.safetensors.index.json"
echo '{"model_type":"test"}' >"$work/in/config.json"

# files NAME EXPECTED: the output's files of tensors.
files() {
	same "files $1" "$2" "$(cd "$work/out.d" && echo *.safetensors)"
}

# maps LINE...: the index, without blanks.
maps() {
	text=$(tr -d ' \n' <"$work/out.d/model.safetensors.index.json")
	same "index" "{\"weight_map\":{$1},\"metadata\":{\"total_size\":6528}}" "$text"
}
exits 0 "" quantize "$work/in" -o "$work/out.d" -q
files "of the source" "x1.safetensors x2.safetensors"
maps '"a.weight_packed":"x1.safetensors","a.weight_scale":"x1.safetensors","b.weight_packed":"x1.safetensors",'"$(
	)"'"b.weight_scale":"x1.safetensors","c.weight_packed":"x2.safetensors","c.weight_scale":"x2.safetensors"'
exits 0 "" dequantize "$work/out.d" -o "$work/decoded.d" -q
mv "$work/decoded.d" "$work/decoded"

# Two tensors are 4352 bytes.
exits 0 "" quantize "$work/in" -o "$work/out.d" -q --force --shard-size 4352
files "of 4352 bytes" "model-00001-of-00002.safetensors model-00002-of-00002.safetensors"
maps '"a.weight_packed":"model-00001-of-00002.safetensors","a.weight_scale":"model-00001-of-00002.safetensors",'"$(
	)"'"b.weight_packed":"model-00001-of-00002.safetensors","b.weight_scale":"model-00001-of-00002.safetensors",'"$(
	)"'"c.weight_packed":"model-00002-of-00002.safetensors","c.weight_scale":"model-00002-of-00002.safetensors"'
exits 0 "" inspect "$work/out.d/model-00001-of-00002.safetensors"
has "metadata of the first source" "$(cat "$work/out")" "note = first"
exits 0 "" dequantize "$work/out.d" -o "$work/decoded.d" -q
exits 0 "" diff "$work/decoded" "$work/decoded.d"
for size in 4351 1; do
	exits 0 "" quantize "$work/in" -o "$work/out.d" -q --force --shard-size $size
	files "of $size bytes" \
		"model-00001-of-00003.safetensors model-00002-of-00003.safetensors model-00003-of-00003.safetensors"
done
# One file of a source with an index has an index, one of a source without has none.
exits 0 "" quantize "$work/in" -o "$work/out.d" -q --force --shard-size 5K
exits 0 "" quantize "$work/in" -o "$work/out.d" -q --force --shard-size 7K
files "of 7 KiB" "model-00001-of-00001.safetensors"
exits 0 "" inspect "$work/out.d"
exits 0 "" quantize "$work/in/x1.safetensors" -o "$work/out.d" -q --force --shard-size 1T
same "files" "config.json model.safetensors" "$(cd "$work/out.d" && echo *)"
for size in 0 5x -1 99999999T ''; do
	exits 2 "--shard-size: '$size'" quantize "$work/in" -o "$work/r" --shard-size "$size"
done

# Little memory, which is named if it is too little, never changes the output; few descriptors are raised.
exits 0 "" quantize "$work/in" -o "$work/out.d" -q --force
exits 2 "quantize: --mem: 1048576 bytes are too few for this model; give --mem " \
	quantize "$work/in" -o "$work/least" --mem 1M
least=${error##*--mem }
exits 0 "" quantize "$work/in" -o "$work/least" -q --mem "${least% or more}"
same "with least memory" "" "$(diff -r "$work/out.d" "$work/least")"
mkdir "$work/many"
map=
for i in 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29; do
	header "{\"$i.weight\":{\"dtype\":\"BF16\",\"shape\":[0,64],\"data_offsets\":[0,0]}}" >"$work/many/$i.safetensors"
	map="$map,\"$i.weight\":\"$i.safetensors\""
done
echo "{\"weight_map\":{${map#,}}}" >"$work/many/model.safetensors.index.json"
(
	ulimit -S -n 16
	exec "$mxfp" quantize "$work/many" -o "$work/many.out" -q
) 2>"$work/error"
same "many files" "0 " "$? $(cat "$work/error")"

# What else is in the directory.
echo words >"$work/in/merges.txt"
echo '{}' >"$work/in/tokenizer.json"
echo model >"$work/in/tokenizer.model"
echo text >"$work/in/README.md"
for left in old.safetensors pytorch_model.bin pytorch_model.bin.index.json .gitattributes; do
	echo left >"$work/in/$left"
done
mkdir "$work/in/sub"
echo secret >"$work/secret"
ln -s ../secret "$work/in/secret.txt"
exits 0 "" quantize "$work/in" -o "$work/out.d" --force
same "files" "README.md config.json merges.txt model.safetensors.index.json tokenizer.json tokenizer.model \
x1.safetensors x2.safetensors" "$(cd "$work/out.d" && echo *)"
same "README.md" text "$(cat "$work/out.d/README.md")"
has "summary" "$(cat "$work/out")" "copied as they are: README.md, merges.txt, tokenizer.json, tokenizer.model"
has "summary" "$(cat "$work/out")" "not copied: .gitattributes (hidden), old.safetensors (weights), pytorch_model.bin \
(weights), pytorch_model.bin.index.json (weights), secret.txt (symbolic link), sub (directory)"
exits 0 "" quantize "$work/in" -o "$work/out.d" --dry-run --json
has "JSON" "$(tr -d ' \n' <"$work/out")" '"copied":["README.md","merges.txt","tokenizer.json","tokenizer.model"]'

# Such an output may be replaced, with what was copied, but nothing else.
rm "$work/in/README.md"
exits 0 "" quantize "$work/in" -o "$work/out.d" --force -q
same "files" "config.json merges.txt model.safetensors.index.json tokenizer.json tokenizer.model \
x1.safetensors x2.safetensors" "$(cd "$work/out.d" && echo *)"
echo mine >"$work/out.d/notes.txt"
exits 2 "holds 'notes.txt', which mxfp does not write" quantize "$work/in" -o "$work/out.d" --force
same "notes" mine "$(cat "$work/out.d/notes.txt")"
rm "$work/out.d/notes.txt"
# An output whose config.json is lost or damaged is not known any more.
echo '{' >"$work/out.d/config.json"
exits 2 "which mxfp does not write" quantize "$work/in" -o "$work/out.d" --force
finish
