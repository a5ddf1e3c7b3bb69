#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp bench: what it prints, not how fast anything is.
. "${srcdir:-.}/tests/cli/cli.shlib"

exits 0 "" bench --quick --in L2 --tier ref --op convert --format bf16
text=$(tr -s ' ' <"$work/out")
has "machine" "$text" ", tier ref, 1 thread"
has "a row" "$text" "convert f32 -> bf16 rne ref L2 "
has "the way back" "$text" "convert bf16 -> f32 ref L2 "
has "targets" "$text" "f32 -> bf16, f16 L2 40 GB/s "
same "other formats" "" "$(grep e5m2 "$work/out")"
same "other operations" "" "$(grep quantize "$work/out")"

exits 0 "" bench --quick --in l2 --tier ref --op scan --json
text=$(tr -d ' \n' <"$work/out")
has "json" "$text" '"tier":"ref","threads":1,"l2_bytes":524288,'
has "json" "$text" '"rows":[{"op":"scan","case":"f32","tier":"ref","in":"L2","gbps":'
has "json" "$text" ',{"op":"scan","case":"bf16",'
same "the end" ']}' "$(printf '%s' "$text" | tail -c 2)"

# What computes more than it moves, in the best tier: of each function ref takes two seconds.
best=$("$mxfp" info | sed -n 's/^tier  *\([a-z0-9]*\):.*/\1/p')
if [ "$best" != ref ]; then
	exits 0 "" bench --quick --in l2 --tier "$best" --op apply
	text=$(tr -s ' ' <"$work/out")
	has "a function" "$text" "apply gelu-tanh $best L2 "
	has "its target" "$text" "exp, tanh, sigmoid, silu, gelu L2 4 GB/s "
fi

exits 0 "" bench --quick --in l2 --tier "$best" --op rows --format mxfp4
text=$(tr -s ' ' <"$work/out")
has "a row operation" "$text" "rows layer-norm -> mxfp4 $best L2 "
same "two calls" 1 "$(printf '%s' "$text" | grep -c 'rows rms-norm.* steps [0-9]')"
has "the target" "$text" "functions and row operations, quantized L2 0.9 of steps "
same "other formats" "" "$(printf '%s' "$text" | grep mxfp8)"

exits 0 "" bench --quick --in l2 --tier "$best" --op fake --format mxfp4
text=$(tr -s ' ' <"$work/out")
same "there and back" 1 "$(printf '%s' "$text" | grep -c "fake f32 by mxfp4 mse $best L2.* steps [0-9]")"
same "other formats" "" "$(printf '%s' "$text" | grep mxfp8)"

# DRAM, in the best tier, if it has kernels of its own.
if [ "$best" != ref ] && "$mxfp" bench --quick --in L2 --tier "$best" --op scan --format f32 >"$work/out" 2>&1; then
	exits 0 "" bench --quick --tier "$best" --op scan --format f32
	has "memory" "$(tr -s ' ' <"$work/out")" "scan f32 $best DRAM "
fi

# Products, in a tier that has kernels for them.
if [ "$best" != ref ] &&
		"$mxfp" bench --quick --op gemm --tier "$best" --format tf32 --shape 1x1024x1024 >"$work/out" 2>&1; then
	text=$(tr -s ' ' <"$work/out")
	has "products" "$text" "Products: GFLOP/s counts 2 m n k"
	has "a product" "$text" "tf32 x tf32 normal $best 1x1024x1024 L2 "
	same "other formats" "" "$(grep mxfp4 "$work/out")"
	same "other shapes" "" "$(grep 4096 "$work/out")"
	exits 0 "" bench --quick --op gemm --tier "$best" --format tf32 --shape 1x1024x1024 --json
	text=$(tr -d ' \n' <"$work/out")
	has "products as JSON" "$text" '"rows":[],"products":[{"case":"tf32xtf32","data":"normal",'
	has "shape" "$text" '"shape":"1x1024x1024","in":"L2","gflops":'
	has "limit" "$text" '"read_gbps":'
	same "the end" '}]}' "$(printf '%s' "$text" | tail -c 3)"
	weights=${srcdir:-.}/examples/charlm.safetensors
	exits 0 "" bench --quick --op gemm --tier "$best" --format tf32 --shape 1x1024x1024 --data "t4,outliers,$weights"
	same "a row for each source" "t4 outliers file" \
		"$(sed -n 's/^tf32 x tf32 *\([a-z0-9]*\) .*/\1/p' "$work/out" | paste -s -d ' ' -)"
	exits 0 "" bench --quick --op gemm --tier "$best" --format tf32 --shape 1x1024x1024 --data "$weights" --json
	has "the file's name" "$(tr -d ' \n' <"$work/out")" "\"data\":\"$weights\""
fi
exits 2 "no case is left" bench --quick --op gemm --shape 3x3x3

# All of it would take minutes, but nobody reads the second row.
(
	code=0
	timeout 60 "$mxfp" bench --in L2 --all 2>/dev/null || code=$?
	echo $code >"$work/code"
) | head -n 1 >"$work/out"
same "exit code with a pipe closed" "$(pipe_code)" "$(cat "$work/code")"

exits 2 "--op: unknown value 'divide' (known: convert, quantize, dequantize, scan, apply, rows, fake, gemm)" bench --op divide
exits 2 "--format: unknown value 'e9m9'" bench --format e9m9
exits 2 "--in: unknown value 'L4': did you mean 'L2'? (known: L2, DRAM)" bench --in L4
exits 2 "--tier: unknown value 'altivec' (known: ref" bench --tier altivec
if [ "$best" != ref ]; then
	exits 2 "--tier: $best does not run here" --isa ref bench --tier "$best"
fi
exits 2 "--data: unknown value 'nromal': did you mean 'normal'? (known, besides files: normal, t4, outliers)" \
	bench --quick --op gemm --data t4,nromal
exits 2 "--data: a name is empty" bench --quick --op gemm --data t4,
exits 2 "--data: is for products" bench --quick --op scan --data t4
exits 4 "none.safetensors: cannot open" bench --quick --op gemm --data "$work/none.safetensors"
{
	npy '<f4' False '(1, 2)'
	bytes 0000803f0000c07f
} >"$work/nan.npy"
exits 3 "nan.npy: tensor 'array': element 1 is NaN or Inf" bench --quick --op gemm --data "$work/nan.npy"
{
	npy '<f4' False '(2,)'
	bytes 0000803f0000803f
} >"$work/vector.npy"
exits 3 "vector.npy: holds no matrix" bench --quick --op gemm --data "$work/vector.npy"
exits 2 "--threads: 0 is out of range" bench --threads 0
exits 2 "no case is left" bench --quick --in L2 --op scan --format e4m3
finish
