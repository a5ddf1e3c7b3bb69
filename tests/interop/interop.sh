#!/bin/sh
# SPDX-License-Identifier: MIT
# Files between mxfp and the programs that define their layouts, both ways, bit for bit: safetensors' own serializer,
# the decompressors and exporters of compressed-tensors, ModelOpt and Quark, and what transformers loads gpt-oss with. Whole
# models are in families.sh.
# These programs are in the lab that scripts/interop-lab.sh makes, and MXFP_LAB names its directory. What each does to a
# number is said in interop/.
lab_venv=/opt/python
. "${srcdir:-.}/tests/interop/lab.shlib"

# relaid WARNING MODEL NAME OPTION...: the same for a quantized model that is brought into another layout.
relaid() {
	warning=$1 model=$2 name=$3
	shift 3
	exits 0 "$warning" convert "$work/$model" -o "$work/$name" -q "$@"
	decoded "$name"
}

lab_python models
mkdir "$work/charlm"
cp "${srcdir:-.}/examples/charlm.safetensors" "$work/charlm/model.safetensors"

for format in mxfp4 mxfp6-e2m3 mxfp8-e4m3 nvfp4; do
	quantized dense "ct.dense.$format" --weights $format
	quantized charlm "ct.charlm.$format" --weights $format --activations none
done

quantized dense ct-mixed --recipe "$work/mixed.json"

quantized dense modelopt.nvfp4 --layout modelopt --weights nvfp4
quantized dense modelopt.mxfp4 --layout modelopt
quantized dense quark --layout quark
quantized experts gpt-oss --layout gpt-oss
exits 0 "" quantize "$work/experts" -o "$work/tiles" -q --layout trn-x4 --ignore '*self_attn*'

relaid "7 scales were rounded" modelopt.nvfp4 ct-relaid.nvfp4 --allow-rounding
relaid "7 scales were rounded" ct.dense.nvfp4 modelopt-relaid.nvfp4 --layout modelopt --allow-rounding
relaid "" ct.dense.mxfp4 modelopt-relaid.mxfp4 --layout modelopt
relaid "how activations are quantized was left out" ct.dense.mxfp4 quark-relaid --layout quark
relaid "" tiles gpt-oss-relaid --layout gpt-oss

lab_python packages
for theirs in "$work"/theirs.*.bf16 "$work"/theirs.*.f32; do
	exits 0 "" dequantize "$theirs" -o "$theirs.ours" -q --to "${theirs##*.}"
done

# alike MODEL NAME OPTION...: what the package that made theirs.NAME made of the same numbers, byte for byte.
alike() {
	model=$1 name=$2
	shift 2
	exits 0 "" quantize "$work/$model" -o "$work/alike.$name" -q "$@"
}

alike dense ct.mxfp4.bf16 --rule even
alike dense ct.mxfp6-e2m3.bf16 --weights mxfp6-e2m3 --rule even
alike dense ct.mxfp8-e4m3.bf16 --weights mxfp8-e4m3 --rule even-m1
alike dense ct.nvfp4.bf16 --weights nvfp4 --nvfp4-recipe compressed-tensors
alike llama modelopt.W4A16_NVFP4.f32 --layout modelopt --weights nvfp4 --fuse
lab_python compare

# GGUF: what python3-gguf wrote, with blocks of its own and of libggml, and what mxfp makes of it.
inside_lab cc -O1 -Wall -Wextra -o "$inside/ggml" "$inside/interop/ggml.c" -lggml -lggml-base || bad "interop/ggml.c"
lab_python gguf_write
stories=${MXFP_SHARED:-${srcdir:-.}/../shared}/weights/stories260K/stories260K
if [ -e "$stories.f32.gguf" ]; then
	cp "$stories".f32.gguf "$stories".*fp4.*.gguf "$work"
else
	echo "$stories.f32.gguf is not there: llama.cpp runs no model"
fi
for model in plain stories260K.f32; do
	[ -e "$work/$model.gguf" ] || continue
	for format in mxfp4 nvfp4; do
		exits 0 "" quantize "$work/$model.gguf" -o "$work/ours.$model.$format.gguf" -q --weights $format
	done
	rm "$work/$model.gguf"
done
mkdir "$work/decoded"
for file in "$work"/*.gguf; do
	exits 0 "" dequantize "$file" -o "$work/decoded/${file##*/}" -q
done
lab_python gguf_read

# llama.cpp runs a model of ours: a story about Lily, as that model tells them.
for file in "$work"/ours.stories260K*.gguf; do
	[ -e "$file" ] || continue
	inside_lab llama-completion -m "$inside/${file##*/}" -p "Once upon a time" -n 48 --temp 0 -no-cnv \
		>"$work/story" 2>"$work/log" </dev/null || bad "llama-completion: $(tail -n 1 "$work/log")"
	has "a story of ${file##*/}" "$(cat "$work/story")" "there was a little"
done
finish
