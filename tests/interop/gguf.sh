#!/bin/sh
# SPDX-License-Identifier: MIT
# GGUF files that mxfp makes of models of Hugging Face, of every family that mxfp eval runs: beside those of llama.cpp's own
# converter, key by key and byte by byte, and loaded by llama.cpp, whose logits are compared with those of mxfp eval of the
# model itself. These programs are in the lab that scripts/interop-lab.sh makes, and MXFP_LAB names its directory.
lab_venv=/opt/transformers
. "${srcdir:-.}/tests/interop/lab.shlib"

prompt="the other hat  and an eel, that's there: 12345 x"

# converted WARNING NAME OPTION...: makes NAME.gguf.
converted() {
	warning=$1 from=$2
	shift 2
	exits 0 "$warning" convert "$work/$from" -o "$work/$from.gguf" -q "$@"
}

# loaded NAME RESULTS: llama.cpp's logits of the prompt.
loaded() {
	inside_lab llama-results -m "$inside/$1.gguf" -o "$inside/$2" -p "$prompt" -ctk f32 -ctv f32 -fa off \
		>"$work/$1.llama" 2>&1 </dev/null || bad "llama-results $1: $(tail -n 1 "$work/$1.llama")"
}

lab_python eval_models
lab_python gguf_models
for name in qwen2-window qwen3-moe-dense; do
	exits 3 "llama.cpp" convert "$work/$name" -o "$work/$name.gguf"
	rm -r "${work:?}/$name"
done
exits 3 "sliding_window: is 100" convert "$work/mistral" -o "$work/mistral.gguf"

# Numbers as they are. llama.cpp rounds what it multiplies with BF16 to BF16, and with MXFP4 and NVFP4 to 8 bits.
theirs=
for config in "$work"/*/config.json; do
	name=$(basename "$(dirname "$config")")
	converted "" "$name" --allow-unknown sliding_window
	theirs="$theirs $name"
	case $name in
	*gpt-oss-mxfp4 | *bf16) loaded "$name" "$name.loaded" ;;
	*) loaded "$name" "$name.results" ;;
	esac
done

# NVFP4 whose tensor scales divide, and multiply; a tensor [experts, rows, cols] has a scale for each. Rows of 160 are no whole
# blocks of GGUF, and of 96 neither.
for name in llama3 qwen3 qwen3-moe qwen2-moe; do
	case $name in
	qwen3-moe) ignore='*.k_proj.weight' ;;
	qwen2-moe) ignore='*.shared_expert.down_proj.weight' ;;
	*) ignore='*.down_proj.weight' ;;
	esac
	for layout in compressed-tensors modelopt; do
		[ $layout = modelopt ] && warning= || warning='scales were rounded'
		exits 0 "" quantize "$work/$name" -o "$work/$name-nvfp4-$layout" -q --weights nvfp4 --activations none --layout $layout --ignore "$ignore"
		converted "$warning" "$name-nvfp4-$layout" --allow-rounding
		theirs="$theirs $name-nvfp4-$layout"
		loaded "$name-nvfp4-$layout" "$name-nvfp4-$layout.loaded"
	done
done

# MXFP4: what becomes of its blocks is decoded again, and what is decoded before becomes a file with the same numbers, whose
# logits llama.cpp computes in binary32.
for name in llama2 llama-bias mistral mixtral qwen3-moe gpt-oss; do
	exits 0 "" quantize "$work/$name" -o "$work/$name-w4" -q --activations none
	converted "" "$name-w4" --allow-unknown sliding_window
	loaded "$name-w4" "$name-w4.loaded"
	exits 0 "" dequantize "$work/$name-w4.gguf" -o "$work/decoded.gguf" -f -q --to f32
	exits 0 "" dequantize "$work/$name-w4" -o "$work/$name-decoded" -q --to f32
	converted "" "$name-decoded" --allow-unknown sliding_window
	exits 0 "" diff "$work/$name-decoded.gguf" "$work/decoded.gguf"
	loaded "$name-decoded" "$name-decoded.results"
done

# The way back, whose files are the same again.
mkdir "$work/back"
for name in llama2 llama3 llama-bias qwen2 qwen3 mixtral qwen2-moe qwen3-moe llama2-w4 qwen3-moe-w4 qwen3-nvfp4-modelopt; do
	layout=compressed-tensors
	[ $name != qwen3-nvfp4-modelopt ] || layout=modelopt
	exits 0 "" convert "$work/$name.gguf" -o "$work/back/$name" -q --layout $layout
	exits 0 "" convert "$work/back/$name" -o "$work/back/$name.gguf" -q
	check "the same file of $name" cmp "$work/$name.gguf" "$work/back/$name.gguf"
done
lab_python gguf_back "$prompt"

# shellcheck disable=SC2086
lab_python gguf_theirs $theirs
lab_python gguf_compare tokens "$prompt"
for results in "$work"/*.results; do
	name=$(basename "$results" .results)
	exits 0 "" eval "$work/$name" --tokens "$work/$name.tokens.json" --context 513 --threads 1 -q --save-logits "$work/$name.logits"
done
lab_python gguf_compare
grep ' differ by ' "$work/log"
finish
