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
	exits 2 "--shard-size: invalid size '$size'" quantize "$work/in" -o "$work/r" --shard-size "$size"
done

# Little memory, which is named if it is too little, never changes the output; few descriptors are raised.
exits 0 "" quantize "$work/in" -o "$work/out.d" -q --force
exits 2 "quantize: --mem: 1048576 bytes are too few for this model; give --mem " \
	quantize "$work/in" -o "$work/least" --mem 1M
least=${error##*--mem }
exits 0 "" quantize "$work/in" -o "$work/least" -q --mem "${least% or more}"
same "with least memory" "" "$(diff -r "$work/out.d" "$work/least")"
# A model of 100,000 tiny tensors, 11 MB of header, is refused before the plan is made, which takes 60 MB; within the
# memory that is asked for it is quantized. Limits are of addresses, which a sanitizer has many of.
awk 'BEGIN {
	for (i = 0; i < 100000; i++)
		printf "%s\"model.layers.%d.mlp.experts.%d.down_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[1,32],\"data_offsets\":[%d,%d]}", \
			i == 0 ? "{" : ",", i / 1000, i % 1000, 64 * i, 64 * i + 64
	printf "}"
}' >"$work/json"
n=$(wc -c <"$work/json")
{
	bytes "$(printf '%02x%02x%02x0000000000' $((n % 256)) $((n / 256 % 256)) $((n / 65536)))"
	cat "$work/json"
	head -c 6400000 /dev/zero
} >"$work/tiny.safetensors"
exits 2 "quantize: --mem: 16777216 bytes are too few for this model; give --mem " \
	quantize "$work/tiny.safetensors" -o "$work/tiny" --mem 16M
least=${error##*--mem }
least=${least%M or more}
check "what 100,000 tensors need, $least MiB" test "$least" -le 160
# limited KB ARGUMENT...: the exit code within so much address space.
limited() {
	(
		ulimit -v "$1" && shift
		exec "$mxfp" "$@"
	) >/dev/null 2>"$work/error"
	echo $?
}
if [ "$(limited 64000 --version)" = 0 ]; then
	same "100,000 tensors within 64 MB" 0 "$(limited 64000 inspect "$work/tiny.safetensors")"
	same "100,000 tensors refused within 64 MB" 2 "$(limited 64000 quantize "$work/tiny.safetensors" -o "$work/tiny" --mem 16M)"
	same "100,000 tensors within what they need" 0 "$(limited $((least * 1024 + 32000)) quantize "$work/tiny.safetensors" \
		-o "$work/tiny" --mem "${least}M" --threads 1 -q)"
fi
mkdir "$work/many"
map=
for i in 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29; do
	safetensors_zeros "$work/many/$i.safetensors" "{\"$i.weight\":{\"dtype\":\"BF16\",\"shape\":[1,32],\"data_offsets\":[0,64]}}" 64
	map="$map,\"$i.weight\":\"$i.safetensors\""
done
echo "{\"weight_map\":{${map#,}}}" >"$work/many/model.safetensors.index.json"
(
	ulimit -S -n 16
	exec "$mxfp" quantize "$work/many" -o "$work/many.out" -q
) 2>"$work/error"
same "many files" "0 " "$? $(cat "$work/error")"

# More files than descriptors: 60 under a limit of 32, in each command that reads a model, give what they give without.
mkdir "$work/sixty"
map= i=100
while [ $i -lt 160 ]; do
	{
		header "{\"l.$i.up_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[8,64],\"data_offsets\":[0,1024]}}"
		tail -c +$i "$work/numbers" | head -c 1024
	} >"$work/sixty/$i.safetensors"
	map="$map,\"l.$i.up_proj.weight\":\"$i.safetensors\""
	i=$((i + 1))
done
echo "{\"weight_map\":{${map#,}}}" >"$work/sixty/model.safetensors.index.json"
echo '{"model_type":"test"}' >"$work/sixty/config.json"
few() { # ARGUMENT...
	code=0
	(
		ulimit -n 32
		exec "$mxfp" "$@"
	) >"$work/out.few" 2>"$work/error" || code=$?
	same "errors of $*" "" "$(cat "$work/error")"
	exits $code "" "$@"
	same "what few descriptors make of $*" "" "$(diff "$work/out" "$work/out.few")"
}
few_written() { # OUT ARGUMENT...
	to=$1
	shift
	exits 0 "$lost" "$@" -o "$work/$to" -q
	enough=$error
	mv "$work/$to" "$work/enough"
	(
		ulimit -n 32
		exec "$mxfp" "$@" -o "$work/$to" -q
	) 2>"$work/error"
	same "errors of $*" "$enough" "$(cat "$work/error")"
	same "output of $* with few descriptors" "" "$(diff -r "$work/enough" "$work/$to")"
	rm -r "$work/enough"
}
lost= # what stderr says in spite of -q
few_written q60 quantize "$work/sixty" -w nvfp4
few_written one60 quantize "$work/sixty" --shard-size 1G
few_written m60 quantize "$work/sixty" --preset w4a8-mixed --bits 5
few_written p1 quantize "$work/sixty" --part 1/2 -w nvfp4
few_written p2 quantize "$work/sixty" --part 2/2 -w nvfp4
(
	ulimit -n 32
	exec "$mxfp" merge "$work/p1" "$work/p2" -o "$work/merged60" -q
)
same "merged with few descriptors" "" "$(diff -r "$work/q60" "$work/merged60")"
few_written d60 dequantize "$work/q60"
lost="60 scales were rounded"
few_written r60 convert "$work/q60" --layout modelopt --allow-rounding
lost=
few_written r60.safetensors convert "$work/q60"
few lint -q "$work/q60"
few inspect "$work/q60"
few diff -q "$work/d60" "$work/d60"
few detect-rule -q "$work/q60" --ref "$work/sixty"
few report -q "$work/sixty" --against "$work/q60"
few advise -q "$work/sixty"

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
(weights), pytorch_model.bin.index.json (weights), secret.txt (symbolic link)"
exits 0 "" quantize "$work/in" -o "$work/out.d" --dry-run --json
has "JSON" "$(tr -d ' \n' <"$work/out")" '"copied":["README.md","merges.txt","tokenizer.json","tokenizer.model"]'

# Such an output may be replaced, with what was copied, but nothing else.
rm "$work/in/README.md"
exits 0 "weights beside the model are left out: old.safetensors, pytorch_model.bin, pytorch_model.bin.index.json" \
	quantize "$work/in" -o "$work/out.d" --force -q
same "files" "config.json merges.txt model.safetensors.index.json tokenizer.json tokenizer.model \
x1.safetensors x2.safetensors" "$(cd "$work/out.d" && echo *)"
echo mine >"$work/out.d/notes.txt"
exits 2 "holds 'notes.txt', which mxfp does not write" quantize "$work/in" -o "$work/out.d" --force
same "notes" mine "$(cat "$work/out.d/notes.txt")"
rm "$work/out.d/notes.txt"
# An output whose config.json is lost or damaged is not known any more.
echo '{' >"$work/out.d/config.json"
exits 2 "which mxfp does not write" quantize "$work/in" -o "$work/out.d" --force

# A model that mxfp did not write is never replaced, whatever the command, and though its files have the names of ours.
mkdir "$work/original"
safetensors_zeros "$work/original/model.safetensors" \
	'{"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}' 128
echo '{"model_type":"x"}' >"$work/original/config.json"
echo '{}' >"$work/original/tokenizer.json"
printf 'a b\n' >"$work/original/merges.txt"
before=$(cat "$work/original"/* | hex)
exits 0 "" quantize "$work/original" -o "$work/small" -q
exits 0 "" quantize "$work/original" -o "$work/part" --part 1/1 -q
cp -r "$work/original" "$work/same"
for command in "quantize $work/same" "dequantize $work/small" "convert $work/small -l quark" "merge $work/part"; do
	exits 2 "holds 'model.safetensors', which mxfp did not write, by its metadata, so it is not replaced; name another" \
		$command -o "$work/original" --force
	same "original after $command" "$before" "$(cat "$work/original"/* | hex)"
done
# What the commands write is replaced, by each other too, with what they copied. All of it is decoded for layout gpt-oss.
for command in "dequantize $work/small" "convert $work/small -l quark" "quantize $work/original" "merge $work/part" \
	"convert $work/small -l gpt-oss --decode-rest f32" "dequantize $work/small"; do
	exits 0 "" $command -o "$work/again" --force
	same "files of $command" "config.json merges.txt model.safetensors tokenizer.json" "$(cd "$work/again" && echo *)"
	for file in merges.txt tokenizer.json; do
		check "$file of $command" cmp "$work/original/$file" "$work/again/$file"
	done
done
has "summary" "$(cat "$work/out")" "copied as they are: merges.txt, tokenizer.json"
exits 0 "" dequantize "$work/small" -o "$work/again" --force --json
has "JSON" "$(tr -d ' \n' <"$work/out")" '"copied":["merges.txt","tokenizer.json"]'
echo mine >"$work/again/notes.txt"
exits 2 "holds 'notes.txt', which mxfp does not write" dequantize "$work/small" -o "$work/again" --force
# One file has nothing beside it.
exits 0 "" dequantize "$work/small" -o "$work/alone.safetensors" --json
has "JSON of one file" "$(tr -d ' \n' <"$work/out")" '"copied":[]'
finish
