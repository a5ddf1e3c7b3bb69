#!/bin/sh
# SPDX-License-Identifier: MIT
# What block formats cost the character model of this folder. Each row is a model that `mxfp quantize` wrote, evaluated
# by charlm_loss through mxfp_gemm(). Both programs are found in PATH.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$work/model/model.safetensors
base=

row() {
	printf '| %-21s | %11s | %14s | %10s | %6s |\n' "$@"
}

# loss NAME BITS MODEL [ACTIVATIONS]
loss() {
	name=$1 bits=$2
	shift 2
	line=$(charlm_loss "$1" charlm.txt ${2+"$2"})
	nats=${line%% *}
	perplexity=${line##* }
	base=${base:-$perplexity}
	row "$name" "$bits" "$nats" "$perplexity" "$(awk "BEGIN { printf \"%+.1f %%\", ($perplexity / $base - 1) * 100 }")"
}

# quantize OPTION...: to $model; sets bits, those of a weight.
quantize() {
	bits=$(mxfp quantize charlm.safetensors -o "$work/model" --force "$@" |
		sed -n 's/.* elements, \([0-9.]*\) bits each$/\1/p')
}

row 'weights x activations' bits/weight nats/character perplexity change
echo '|-----------------------|------------:|---------------:|-----------:|-------:|'
loss 'f32 x f32' 32 charlm.safetensors
quantize --preset mxfp8
loss 'mxfp8 x mxfp8' "$bits" "$model"
quantize --weights mxfp6-e2m3
loss 'mxfp6-e2m3 x mxfp8' "$bits" "$model"
quantize --preset w4a8
loss 'mxfp4 x mxfp8 (W4A8)' "$bits" "$model"
quantize --preset nvfp4
loss 'nvfp4 x f32' "$bits" "$model"
loss 'nvfp4 x nvfp4' "$bits" "$model" nvfp4
