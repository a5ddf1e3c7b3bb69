#!/bin/bash
# SPDX-License-Identifier: MIT
# A snapshot of a Hugging Face cache, whose files are links to blobs, is the model that it shows, to every command;
# links that lead elsewhere stay where they are.
. "${srcdir:-.}/tests/cli/cli.shlib"

# cached DIR: makes DIR.cache/snapshots/rev, with a blob for each file of DIR.
cached() {
	mkdir -p "$1.cache/blobs" "$1.cache/snapshots/rev"
	for file in "$1"/*; do
		blob=$(sha256sum "$file")
		cp "$file" "$1.cache/blobs/${blob%% *}"
		ln -s "../../blobs/${blob%% *}" "$1.cache/snapshots/rev/${file##*/}"
	done
}

# alike NAME ARGUMENT... -- ARGUMENT...: both calls succeed, with the same output if the name of the snapshot is that of
# the directory.
alike() {
	name=$1
	shift
	first=()
	while [ "$1" != -- ]; do
		first+=("$1")
		shift
	done
	shift
	exits 0 "" "${first[@]}"
	cp "$work/out" "$work/first"
	exits 0 "" "$@"
	same "$name" "" "$(sed "s,\.cache/snapshots/rev,,g; s,\.cached,,g" "$work/out" | diff - "$work/first" | head -5)"
}

mkdir "$work/in"
seq 1 20000 >"$work/numbers"
map=
for file in 1 2; do
	{
		header "{\"l.$file.down_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[64,64],\"data_offsets\":[0,8192]},\
\"l.$file.norm\":{\"dtype\":\"BF16\",\"shape\":[64],\"data_offsets\":[8192,8320]}}"
		tail -c +$((file * 9000)) "$work/numbers" | head -c 8320
	} >"$work/in/m$file.safetensors"
	map+=",\"l.$file.down_proj.weight\":\"m$file.safetensors\",\"l.$file.norm\":\"m$file.safetensors\""
done
echo "{\"metadata\":{\"total_size\":16640},\"weight_map\":{${map#,}}}" >"$work/in/model.safetensors.index.json"
echo '{"model_type":"test"}' >"$work/in/config.json"
echo words >"$work/in/merges.txt"
echo '{"version":"1.0"}' >"$work/in/tokenizer.json"
cached "$work/in"
in=$work/in rev=$work/in.cache/snapshots/rev

alike quantize quantize "$in" -o "$work/q" -w nvfp4 --layout modelopt -- quantize "$rev" -o "$work/q.cached" -w nvfp4 \
	--layout modelopt
same "what quantize wrote" "" "$(diff -r "$work/q" "$work/q.cached")"
same "no links" "" "$(find "$work/q.cached" -type l)"
same "copied" words "$(cat "$work/q.cached/merges.txt")"
exits 0 "" quantize "$rev/model.safetensors.index.json" -o "$work/q.cached" -w nvfp4 --layout modelopt --force -q
same "what quantize wrote" "" "$(diff -r "$work/q" "$work/q.cached")"
cached "$work/q"
q=$work/q qrev=$work/q.cache/snapshots/rev

alike inspect inspect "$in" -- inspect "$rev"
alike lint lint "$q" -- lint "$qrev"
alike report report "$in" --formats mxfp4 -- report "$rev" --formats mxfp4
alike "report --against" report "$in" --against "$q" -- report "$rev" --against "$qrev"
alike advise advise "$in" -- advise "$rev"
alike diff diff "$q" "$q" -- diff "$q" "$qrev"
alike detect-rule detect-rule "$q" --ref "$in" -- detect-rule "$qrev" --ref "$rev"
alike dequantize dequantize "$q" -o "$work/d" -- dequantize "$qrev" -o "$work/d.cached"
same "what dequantize wrote" "" "$(diff -r "$work/d" "$work/d.cached")"
alike convert convert "$q" -o "$work/r" --allow-rounding -- convert "$qrev" -o "$work/r.cached" --allow-rounding
same "what convert wrote" "" "$(diff -r "$work/r" "$work/r.cached")"
for n in 1 2; do
	exits 0 "" quantize "$rev" -o "$work/part$n" -w nvfp4 --layout modelopt --part $n/2 -q
	cached "$work/part$n"
done
exits 0 "" merge "$work"/part[12].cache/snapshots/rev -o "$work/merged"
same "what merge wrote" "" "$(diff -r "$q" "$work/merged")"
same "no links" "" "$(find "$work/merged" -type l)"
# What config.json lists as quantized is read from the snapshot too: hf_quant_config.json is what loaders read first.
sed 's/"lm_head"/"lm_head", "l.1*"/' "$q/hf_quant_config.json" >"$work/hf_quant_config.json"
ln -sf "$work/hf_quant_config.json" "$qrev/hf_quant_config.json"
exits 3 "hf_quant_config.json: is a symbolic link that leaves the model's directory, to $work/" lint "$qrev"

# Everything else that links lead to is refused, or stays behind, and no output appears.
echo '{"secret":1}' >"$work/secret"
cp "$in/m1.safetensors" "$work/secret.safetensors"
ln -s ../../../secret "$rev/special_tokens_map.json"
ln -s ../../blobs/none "$rev/none.json"
mkdir "$work/in.cache/blobs/deep"
cp "$work/secret" "$work/in.cache/blobs/deep"
ln -s ../../blobs/deep/secret "$rev/deep.json"
ln -s /dev/zero "$rev/zero.json"
exits 0 "" quantize "$rev" -o "$work/left"
has "what is copied" "$(cat "$work/out")" "copied as they are: merges.txt, tokenizer.json
not copied: deep.json (symbolic link), none.json (symbolic link), special_tokens_map.json (symbolic link), zero.json (symbolic link)"
same "copied" "config.json m1.safetensors m2.safetensors merges.txt model.safetensors.index.json tokenizer.json" \
	"$(cd "$work/left" && echo *)"
for target in ../../../secret.safetensors "$work/secret.safetensors" ../../../in/m1.safetensors; do
	ln -sf "$target" "$rev/m1.safetensors"
	exits 3 "m1.safetensors: is a symbolic link that leaves the model's directory" quantize "$rev" -o "$work/none"
done
ln -sf ../../blobs/none "$rev/m1.safetensors"
exits 3 "m1.safetensors: is a symbolic link to a file that is not there; download the model again" \
	quantize "$rev" -o "$work/none"
check "nothing was written" test ! -e "$work/none"
exits 3 "is a repository in the cache of the Hugging Face Hub; name a directory in its snapshots" inspect "$work/in.cache"
finish
