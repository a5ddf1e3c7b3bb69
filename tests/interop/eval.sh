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

# What mxfp transform made of those that it takes. lab_python overwrites the log that the last lines print.
for name in llama2 llama3 llama3-bf16 llama-bias mistral qwen2 qwen2-window qwen3; do
	exits 0 "" transform "$work/$name" --scale-norms --scale-values --scale-mlp -o "$work/scaled.$name" -q
	exits 0 "" transform "$work/$name" --rotate-values --rotate-stream -o "$work/rotated.$name" -q
done
lab_python eval_transformed
cp "$work/log" "$work/transformed"

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

	# What mxfp transform and mxfp calibrate made of it, through llama.cpp's converter, and quantized then: calibrated weights
	# are what they were, for NVFP4 if they were chosen for GGUF's tensor scale.
	mkdir "$work/stories"
	cp "$shared/stories260K/config.json" "$work/stories"
	cp "$shared/stories260K/stories260K.hf.f32.safetensors" "$work/stories/model.safetensors"
	head -c 16000 "$work/text" >"$work/calibration"
	exits 0 "" transform "$work/stories" --scale-norms --scale-values --scale-mlp -o "$work/stories-scaled" -q
	exits 0 "" transform "$work/stories" --rotate-values --rotate-stream -o "$work/stories-rotated" -q
	for format in mxfp4 nvfp4; do
		recipe=
		[ $format != nvfp4 ] || recipe="--nvfp4-recipe ggml"
		# shellcheck disable=SC2086
		exits 0 "" calibrate "$work/stories" --text "$work/calibration" --tokenizer "$work/stories260K.f32.gguf" --context 256 \
			--weights $format $recipe -o "$work/stories-$format" -q
	done
	lab_python eval_gguf stories-scaled stories-rotated stories-mxfp4 stories-nvfp4
	for model in scaled.mxfp4 rotated.nvfp4 mxfp4.mxfp4 nvfp4.nvfp4; do
		name=stories-${model%.*}
		exits 0 "" quantize "$work/$name.gguf" -o "$work/stories-$model.gguf" -q --weights "${model#*.}"
		perplexity "$name.gguf"
		perplexity "stories-$model.gguf"
	done
	for format in mxfp4 nvfp4; do
		exits 0 "" dequantize "$work/stories-$format.$format.gguf" -o "$work/decoded.gguf" -f -q
		exits 0 "" diff "$work/stories-$format.gguf" "$work/decoded.gguf"
	done
else
	echo "$shared/eval is not there: llama-perplexity has no text"
fi
lab_python eval_compare
grep -h -e ' differ by ' -e ' perplexity ' "$work/transformed" "$work/log"
finish
