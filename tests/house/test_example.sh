#!/bin/sh
# SPDX-License-Identifier: MIT
# The character model: training gives the same bits with every compiler and on every machine, and invalid input is
# refused. `make check-example` retrains the weights; test_readme.sh compares the losses with those in README.
set -eu
examples=${srcdir:?}/examples
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

fail() {
	echo "$1" >&2
	exit 1
}

# refused CODE COMMAND...: the command fails with this exit code and prints one line.
refused() {
	expected=$1
	shift
	code=0
	"$@" >"$directory/out" 2>&1 || code=$?
	[ $code = "$expected" ] || fail "exit $code, not $expected: $*"
	[ "$(wc -l <"$directory/out")" = 1 ] || fail "more than a line: $*"
}

examples/charlm_train "$examples/charlm.txt" "$directory/short.safetensors" 20
[ "$(cksum <"$directory/short.safetensors")" = '2731186433 1046968' ] ||
	fail 'twenty steps of training gave other bits'
refused 2 examples/charlm_train "$examples/charlm.txt" "$directory/short.safetensors" 1
refused 2 examples/charlm_train "$examples/charlm.txt" "$directory/e4m3.safetensors" 20 e4m3 none
examples/charlm_train "$examples/charlm.txt" "$directory/none.safetensors" 20 none none >"$directory/out"
cmp "$directory/none.safetensors" "$directory/short.safetensors"
examples/charlm_train "$examples/charlm.txt" "$directory/fake.safetensors" 20 mxfp4 mxfp8 >"$directory/out"
if cmp -s "$directory/fake.safetensors" "$directory/short.safetensors"; then
	fail 'training with quantized numbers gave the bits of training without'
fi
refused 2 examples/charlm_train "$examples/charlm.txt" "$directory/x.safetensors" 20 none none 1 1x
examples/charlm_train "$examples/charlm.txt" "$directory/steps.safetensors" 20 none none 1 10 >"$directory/out"
cmp "$directory/steps.safetensors" "$directory/short.safetensors"
cmp "$directory/steps.safetensors.20" "$directory/short.safetensors"
if cmp -s "$directory/steps.safetensors.10" "$directory/short.safetensors"; then
	fail 'ten steps of training gave the bits of twenty'
fi
examples/charlm_train "$examples/charlm.txt" "$directory/two.safetensors" 20 none none 2 0 >"$directory/out"
if cmp -s "$directory/two.safetensors" "$directory/short.safetensors"; then
	fail 'another seed gave the same bits'
fi

printf '%2000s\001' x >"$directory/control.txt"
printf 'short' >"$directory/short.txt"
refused 2 examples/charlm_loss "$examples/charlm.safetensors"
refused 2 examples/charlm_loss "$examples/charlm.safetensors" "$examples/charlm.txt" e4m3
refused 3 examples/charlm_loss "$examples/charlm.safetensors" "$directory/control.txt"
refused 3 examples/charlm_loss "$examples/charlm.safetensors" "$directory/short.txt"
refused 3 examples/charlm_loss "$examples/charlm.txt" "$examples/charlm.txt"
refused 4 examples/charlm_loss "$directory/missing.safetensors" "$examples/charlm.txt"

# Inputs of layers for mxfp calibrate: test_calibrate_inputs.sh looks at their numbers.
examples/charlm_inputs "$examples/charlm.safetensors" "$examples/charlm.txt" "$directory/inputs.safetensors" 100
[ "$(wc -c <"$directory/inputs.safetensors")" -gt $((100 * 4 * (3 * 384 + 3 * 128))) ] || fail 'inputs are missing'
refused 2 examples/charlm_inputs "$examples/charlm.safetensors" "$examples/charlm.txt"
refused 2 examples/charlm_inputs "$examples/charlm.safetensors" "$examples/charlm.txt" "$directory/none.inputs" 0
refused 2 examples/charlm_inputs "$examples/charlm.safetensors" "$examples/charlm.txt" "$directory/none.inputs" 100000
refused 3 examples/charlm_inputs "$examples/charlm.txt" "$examples/charlm.txt" "$directory/none.inputs"
refused 4 examples/charlm_inputs "$examples/charlm.safetensors" "$examples/charlm.txt" "$directory/inputs.safetensors" 100

# Weights in blocks under activations in binary32 are one chain of sums, as the decoded weights are.
for weights in mxfp4 mxfp6-e3m2 nvfp4; do
	./mxfp quantize -q "$examples/charlm.safetensors" -o "$directory/$weights" --weights $weights --activations none
	./mxfp dequantize -q "$directory/$weights" -o "$directory/$weights.safetensors"
	for model in "$directory/$weights/model.safetensors" "$directory/$weights.safetensors"; do
		examples/charlm_loss "$model" "$examples/charlm.txt"
	done >"$directory/losses"
	[ "$(uniq <"$directory/losses" | wc -l)" = 1 ] || fail "$weights: decoded, it has another loss"
done
./mxfp quantize -q "$examples/charlm.safetensors" -o "$directory/sparse" --sparsity 4:16
refused 3 examples/charlm_loss "$directory/sparse/model.safetensors" "$examples/charlm.txt"

# The sums of the linear layer are known from integer arithmetic.
examples/gemm >"$directory/out" || fail 'examples/gemm differs from a plain loop'
printf '%s\n' 'y = -5 -8 -110 -15.5' 'y = 31 -24.5 -109 25.5' '0 of 8 numbers differ from a plain loop' |
	cmp - "$directory/out" || fail 'examples/gemm computes other sums'
