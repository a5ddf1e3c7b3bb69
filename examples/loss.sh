#!/bin/sh
# SPDX-License-Identifier: MIT
# What block formats cost the character model of this folder: perplexity on text it was not trained on. Each row is a model
# that `mxfp quantize` wrote, each column what the inputs of its products become; charlm_loss evaluates both through
# mxfp_gemm(). The programs are found in PATH.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# perplexity MODEL ACTIVATIONS: and how much worse than base it is.
perplexity() {
	line=$(charlm_loss "$1" charlm.txt "$2")
	awk "BEGIN { printf \"%.3f (%+.1f %%)\", ${line##* }, (${line##* } / ${base:-${line##* }} - 1) * 100 }"
}

row() {
	printf '| %-15s | %11s | %15s | %15s | %15s |\n' "$@"
}

# formats NAME WEIGHTS OPTION...
formats() {
	name=$1 weights=$2
	shift 2
	bits=$(mxfp quantize charlm.safetensors -o "$work" --force --weights "$weights" "$@" |
		sed -n 's/.* elements, \([0-9.]*\) bits each$/\1/p')
	model=$work/model.safetensors
	plain=$(perplexity "$model" none)
	wide=$(perplexity "$model" mxfp8-e4m3)
	same=$(perplexity "$model" "$weights")
	row "$name" "$bits" "$plain" "$wide" "$same"
}

row weights bits/weight 'activations f32' MXFP8 'as weights'
echo '|-----------------|------------:|----------------:|----------------:|----------------:|'
plain=$(perplexity charlm.safetensors none)
base=${plain%% *}
row f32 32 "$plain" - -
formats MXFP8 mxfp8-e4m3
formats 'MXFP6 E2M3' mxfp6-e2m3
formats NVFP4 nvfp4
for rule in floor even rceil mse; do
	formats "MXFP4 $rule" mxfp4 --rule $rule
done
