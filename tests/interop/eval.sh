#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp eval beside the programs that define the models it runs: logits of transformers, of small random models of every
# family; perplexities of llama-perplexity, of these as llama.cpp's converter writes them and of stories260K.
# These programs are in the lab that scripts/interop-lab.sh makes, and MXFP_LAB names its directory.
lab_venv=/opt/transformers
. "${srcdir:-.}/tests/interop/lab.shlib"

shared=${MXFP_SHARED:-${srcdir:-.}/../shared}/weights

# logits MODEL TOKENS: saves the logits of all rows but the last as MODEL.logits; all 513 tokens are one window.
logits() {
	exits 0 "" eval "$work/$1" --tokens "$work/$2/tokens.json" --context 513 --threads 1 -q --save-logits "$work/$1.logits"
}

# perplexity MODEL.gguf: of the text, as llama-perplexity has it, with keys and values in binary32, and as mxfp has it. The
# last lines of llama-perplexity are lost now and then: a thread prints them, and the process does not wait for it.
perplexity() {
	file=$1
	for attempt in 1 2 3 4 5 6 7 8 9 10; do
		inside_lab llama-perplexity -m "$inside/$file" -f "$inside/text" -c 256 -b 256 -ctk f32 -ctv f32 -fa off \
			>"$work/$file.llama" 2>&1 </dev/null || bad "llama-perplexity $file: $(tail -n 1 "$work/$file.llama")"
		! grep -q 'Final estimate' "$work/$file.llama" || break
	done
	exits 0 "" eval "$work/$file" --text "$work/text" --context 256 --skip 128 --threads 1 -q --json
	mv "$work/out" "$work/$file.json"
}

lab_python eval_models
lab_python eval_gguf
for config in "$work"/*/config.json; do
	name=$(basename "$(dirname "$config")")
	logits "$name" "$name"
	[ ! -e "$work/$name.gguf" ] || logits "$name.gguf" "$name"
done

# llama.cpp rounds the ends of YaRN's ramp whatever the file says: gpt-oss.gguf says so, that in MXFP4 not, as gpt-oss is. And
# it rounds what it multiplies with MXFP4 to 8 bits, which only a model that has learned something does not mind.
if [ -e "$shared/eval/self_generated.plain.txt" ]; then
	head -c 6000 "$shared/eval/self_generated.plain.txt" >"$work/text"
	for file in "$work"/*.gguf; do
		case $file in
		*gpt-oss-mxfp4*) ;;
		*) perplexity "${file##*/}" ;;
		esac
	done
	cp "$shared/eval/self_generated.plain.txt" "$work/text"
	cp "$shared"/stories260K/*.f32.gguf "$shared"/stories260K/*fp4.*.gguf "$work"
	for file in "$work"/stories260K.*.gguf; do
		perplexity "${file##*/}"
	done
else
	echo "$shared/eval is not there: llama-perplexity has no text"
fi
lab_python eval_compare
grep -e ' differ by ' -e ' perplexity ' "$work/log"
finish
