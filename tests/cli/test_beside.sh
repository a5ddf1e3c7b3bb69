#!/bin/bash
# SPDX-License-Identifier: MIT
# What stands beside a model: files in directories are copied by each command that writes a model, which are again known by
# --force, --resume and merge; weights that are no part of the model, and adapters, are named, also under -q.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 "${srcdir:-.}/tests/cli/small_llama.py" "$work" || exit 99
in=$work/model
files=$(python3 -B "${srcdir:-.}/tests/cli/beside.py" "$in") || exit 99
adapter="an adapter is not applied; merge_and_unload() of PEFT makes one model of both: adapter_config.json, adapter_model.safetensors"
weights="weights beside the model are left out: 3_Dense/model.safetensors, mtp.safetensors, \
onnx/model.onnx, original/consolidated.00.pth"

# beside NAME DIRECTORY SOURCE: all that is copied is there, alike, and nothing else is but the model.
beside() {
	same "files of $1" "$files" "$(cd "$2" && find . ! -type d | sed 's,^./,,' |
		grep -v -x -e config.json -e model.safetensors -e hf_quant_config.json | LC_ALL=C sort)"
	for file in $files; do
		check "$file of $1" cmp "$3/$file" "$2/$file"
	done
}

# names ARGUMENT...: a quiet run names what is lost, a line each.
names() {
	exits 0 "$adapter" "$@"
	has "stderr of '$*'" "$error" "$weights"
}

exits 0 "" quantize "$in" -o "$work/q"
has "summary" "$(cat "$work/out")" "copied as they are: $(echo "$files" | tr '\n' ',' | sed 's/,$//; s/,/, /g')"
has "summary" "$(cat "$work/out")" "not copied: .git (hidden), 1_Pooling/.hidden (hidden), 1_Pooling/dangling.json (symbolic link), \
1_Pooling/pipe (not a regular file), 1_Pooling/up (symbolic link), 3_Dense/model.safetensors (weights), \
a/b/c/d/e/f/g/h (nested too deep), adapter_config.json (adapter), adapter_model.safetensors (adapter), etc (symbolic \
link), mtp.safetensors (weights), old.partial (an unfinished output), onnx/huge.json (larger than 64 MiB), onnx/model.onnx (weights), \
original/consolidated.00.pth (weights)"
has "summary" "$(cat "$work/out")" "
$adapter
$weights
"
beside quantize "$work/q" "$in"
exits 0 "" quantize "$in" -o "$work/q" --json --dry-run
has "JSON" "$(tr -d ' \n' <"$work/out")" '"2_Dense/model.safetensors"'

# Under -q, with --force over what an earlier run copied, and from what it made.
names quantize "$in" -o "$work/q" -q --force
beside "quantize --force" "$work/q" "$in"
names transform "$in" -o "$work/t" --scale-mlp -q
beside transform "$work/t" "$in"
names calibrate "$in" -o "$work/c" --tokens "$work/tokens.json" -q
beside calibrate "$work/c" "$in"
for command in "dequantize --to f32" "convert -l quark"; do
	"$mxfp" ${command%% *} "$work/q" -o "$work/d" -q --force ${command#* } 2>/dev/null || bad "$command"
	beside "$command" "$work/d" "$in"
done
for n in 1 2; do
	"$mxfp" quantize "$in" -o "$work/part$n" --part $n/2 -q 2>/dev/null || bad "part $n"
done
exits 0 "" merge "$work/part1" "$work/part2" -o "$work/merged" -q
same "merged" "" "$(diff -r "$work/q" "$work/merged")"
# What is listed of a part leads nowhere else.
mkdir "$work/away"
mv "$work/part1/1_Pooling" "$work/away"
ln -s "$work/away/1_Pooling" "$work/part1/1_Pooling"
exits 3 "part1/1_Pooling: is not a directory" merge "$work/part1" "$work/part2" -o "$work/none" -q
rm "$work/part1/1_Pooling"
mv "$work/away/1_Pooling" "$work/part1"
sed -i 's,"1_Pooling/config.json","../1_Pooling/config.json",' "$work/part1/mxfp-part.json"
exits 3 "lists '../1_Pooling/config.json', which is not the name of a file beside it" merge "$work/part1" "$work/part2" -o "$work/none"
check "nothing was written" test ! -e "$work/none"
# lint --fix: a wrong list of modules to ignore.
cp -r "$work/q" "$work/wrong"
sed -i 's/"lm_head"/"lm_head", "model.layers.0.self_attn.q_proj"/' "$work/wrong/config.json"
exits 0 "" lint "$work/wrong" --fix -o "$work/fixed" -q
beside "lint --fix" "$work/fixed" "$in"

# The source has no metadata, which every loader takes; those that are written have a format, without which transformers 4
# refuses a file. A source's own format stays.
exits 0 "" dequantize "$work/q/model.safetensors" -o "$work/alone.safetensors"
mkdir "$work/mlx"
python3 - "$in/model.safetensors" "$work/mlx/model.safetensors" <<'EOF'
import json, struct, sys
file = open(sys.argv[1], "rb").read()
end = 8 + struct.unpack("<Q", file[:8])[0]
header = json.dumps({"__metadata__": {"format": "mlx"}, **json.loads(file[8:end])}).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(header)) + header + file[end:])
EOF
cp "$in/config.json" "$work/mlx"
exits 0 "" transform "$work/mlx" -o "$work/mlx.t" --scale-mlp -q
exits 0 "" quantize "$work/mlx" -o "$work/mlx.q" -q
exits 0 "" dequantize "$work/mlx.q" -o "$work/mlx.d" -q
for file in q t c d fixed merged alone.safetensors mlx.t mlx.q mlx.d; do
	format=pt
	[ "${file#mlx}" = "$file" ] || format=mlx
	"$mxfp" inspect --json "$work/$file" 2>/dev/null | tr -d ' \n' >"$work/out"
	has "metadata of $file" "$(cat "$work/out")" "\"format\":\"$format\""
done

# Commands that only read.
for command in "eval $in --tokens $work/tokens.json -q" "report $in --formats mxfp4" "advise $in" "lint $in" "inspect $in" "diff $in $in"; do
	exits 0 "mxfp: $in: $adapter" $command
	has "stderr of '$command'" "$error" "mxfp: $in: $weights"
done
mkdir "$work/lora"
cp "$in"/adapter_* "$work/lora"
for command in "eval --tokens $work/tokens.json" "quantize -o $work/none" "lint"; do
	exits 3 "'adapter_model.safetensors' is an adapter (LoRA); merge_and_unload() of PEFT makes a model of it and its base" \
		${command%% *} "$work/lora" ${command#"${command%% *}"}
done

# Directories of ours within the source, where an output may be: neither is copied, and --resume is not confused.
names quantize "$in" -o "$in/q" -q
names quantize "$in" -o "$work/q2" -q
same "an output within the source" "" "$(diff -r "$work/q" "$work/q2")"
# A directory that somebody put into an output is not removed.
mkdir "$work/q2/mine"
exits 2 "holds 'mine', which mxfp does not write" quantize "$in" -o "$work/q2" --force
rmdir "$work/q2/mine"
echo mine >"$work/q2/1_Pooling/mine.json"
exits 2 "holds '1_Pooling/mine.json', which mxfp does not write" quantize "$in" -o "$work/q2" --force
same "mine" mine "$(cat "$work/q2/1_Pooling/mine.json")"
finish
