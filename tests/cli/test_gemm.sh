#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp gemm: products that a hand can check, of files made here byte by byte.
. "${srcdir:-.}/tests/cli/cli.shlib"

# array NAME DESCR ORDER SHAPE HEX: an .npy file.
array() {
	{
		npy "$2" "$3" "$4"
		bytes "$5"
	} >"$work/$1"
}

# product NAME EXPECTED ARGUMENT...: mxfp gemm writes C with these bytes.
product() {
	name=$1 wanted=$(printf '%s' "$2" | tr -d ' ')
	shift 2
	rm -f "$work/c.npy"
	exits 0 "" gemm "$@" -o "$work/c.npy" --check
	same "$name" "$wanted" "$(data $((${#wanted} / 2)) "$work/c.npy")"
}

one=0000803f two=00000040 three=00004040 four=00008040 seven=0000e040
# A = (1 2; 3 4), W = (1 0; 0 1; 1 1), C = (1 2 3; 3 4 7).
array a.npy '<f4' False '(2, 2)' "$one$two$three$four"
array w.npy '<f4' False '(3, 2)' "$one 00000000 00000000 $one $one$one"
c="$one$two$three$three$four$seven"
product "plain" "$c" "$work/a.npy" "$work/w.npy"
has "text" "$(cat "$work/out")" "a.npy: array, 2 x 2, f32"
has "text" "$(cat "$work/out")" "sums: chain, passes of 128"
has "text" "$(cat "$work/out")" "equal to the reference: 6 numbers"
has "C's header" "$(head -c 128 "$work/c.npy" | tr -d '\0')" "'fortran_order': False, 'shape': (2, 3), }"

# Every order in which the same matrices may be stored.
array a.columns.npy '<f4' True '(2, 2)' "$one$three$two$four"
array a.turned.npy '<f4' False '(2, 2)' "$one$three$two$four"
array a.turned.columns.npy '<f4' True '(2, 2)' "$one$two$three$four"
array w.columns.npy '<f4' True '(3, 2)' "$one 00000000 $one 00000000 $one$one"
product "A by columns" "$c" "$work/a.columns.npy" "$work/w.npy"
product "A transposed" "$c" "$work/a.turned.npy" "$work/w.npy" --transpose-a
product "A transposed, by columns" "$c" "$work/a.turned.columns.npy" "$work/w.npy" --transpose-a
product "W by columns" "$c" "$work/a.npy" "$work/w.columns.npy"
array w.turned.npy '<f4' False '(2, 3)' "$one 00000000 $one 00000000 $one$one"
array w.turned.columns.npy '<f4' True '(2, 3)' "$one 00000000 00000000 $one $one$one"
product "W transposed" "$c" "$work/a.npy" "$work/w.turned.npy" --transpose-w
product "W transposed, by columns" "$c" "$work/a.npy" "$work/w.turned.columns.npy" --transpose-w
product "both transposed" "$c" "$work/a.turned.npy" "$work/w.turned.npy" --transpose-a --transpose-w
product "W transposed, quantized" "$c" "$work/a.npy" "$work/w.turned.npy" --transpose-w --w-format mxfp8-e5m2
product "W transposed, by columns, quantized" "$c" "$work/a.npy" "$work/w.turned.columns.npy" --transpose-w \
	--w-format mxfp8-e5m2
product "A by columns, quantized" "$c" "$work/a.columns.npy" "$work/w.npy" --a-format mxfp8-e4m3
product "A transposed, quantized" "$c" "$work/a.turned.npy" "$work/w.npy" --transpose-a --a-format mxint8
product "both on the fly" "$c" "$work/a.npy" "$work/w.npy" --w-format mxfp8-e5m2 --a-format mxfp8-e4m3

# What is added: a bias of (1 2 3), and C before.
array bias.npy '<f4' False '(3,)' "$one$two$three"
array c0.npy '<f4' False '(2, 3)' "$one$one$one$one$one$one"
product "bias" "$two$four 0000c040 $four 0000c040 00002041" "$work/a.npy" "$work/w.npy" --bias "$work/bias.npy"
product "accumulated" "$two$three$four$four 0000a040 00000041" "$work/a.npy" "$work/w.npy" \
	--accumulate "$work/c0.npy"
array half.npy '<f2' False '(3,)' "003c 0040 0042"
product "a bias in f16" "$two$four 0000c040 $four 0000c040 00002041" "$work/a.npy" "$work/w.npy" --bias "$work/half.npy"

# bf16: 257 is not one of its numbers, 256 and 258 are; ties go to even. In .npy they are f32.
array 257.npy '<f4' False '(1, 1)' 00808043
array 1.npy '<f4' False '(1, 1)' "$one"
product "C in bf16" 00008043 "$work/257.npy" "$work/1.npy" --c-format bf16
product "psum in bf16" 00008043 "$work/257.npy" "$work/1.npy" --psum bf16
has "psum is told" "$(cat "$work/out")" "psum bf16 (rne)"
exits 3 "257.npy: number 0: bf16 does not hold it" gemm "$work/1.npy" "$work/1.npy" --c-format bf16 \
	--accumulate "$work/257.npy" -o "$work/no.npy"
exits 0 "" gemm "$work/257.npy" "$work/1.npy" --c-format bf16 -o "$work/c.safetensors" -q
same "quiet" "" "$(cat "$work/out")"
same "C in bf16 in safetensors" 8043 "$(data 2 "$work/c.safetensors")"
exits 0 "" inspect "$work/c.safetensors"
text=$(tr -s ' ' <"$work/out")
has "C in safetensors" "$text" " c BF16 2 [1, 1]"
has "its rule" "$text" "mxfp.gemm.acc = chain"

weights=${srcdir:-.}/examples/charlm.safetensors
layer=$weights:model.layers.0.up_proj.weight

# A model that mxfp quantize made: a row of 32 ones and one of 32 twos in MXFP4. 1.0625 is no e4m3: it becomes 1.
safetensors "$work/model.safetensors" '{"x.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[0,256]},
	"y":{"dtype":"F32","shape":[1],"data_offsets":[256,260]}}' "$(repeat 32 $one)" "$(repeat 32 $two)" "$one"
exits 0 "" quantize "$work/model.safetensors" -o "$work/model" -q
array x.npy '<f4' False '(1, 32)' "$(repeat 32 0000883f)"
product "W4A8" "00000042 00008042" "$work/x.npy" "$work/model:x.weight"
has "W4A8" "$(cat "$work/out")" "x.npy: array, 1 x 32, mxfp8-e4m3 by rceil from F32"
has "W4A8" "$(cat "$work/out")" "x.weight_packed, 2 x 32, mxfp4"
has "W4A8" "$(cat "$work/out")" "sums: exact, passes of 512"
exits 0 "" quantize "$work/model.safetensors" -o "$work/sparse" -q --sparsity 4:16
product "sparse W4A8" "00000041 00008041" "$work/x.npy" "$work/sparse:x.weight"
product "sparse W, sparse A" "00000041 00008041 00008041 00000042" "$work/sparse:x.weight" "$work/sparse:x.weight"
exits 0 "" gemm "$work/x.npy" "$work/sparse:x.weight" -o "$work/s.npy" --json
has "sparse W" "$(tr -d ' \n' <"$work/out")" '"format":"mxfp4","sparsity":"4:16","rule":null}'
product "W4A16" "00000842 00008842" "$work/x.npy" "$work/model:x.weight" --a-format none
has "W4A16" "$(cat "$work/out")" "sums: chain, passes of 128"
product "chain" "00000042 00008042" "$work/x.npy" "$work/model:x.weight" --acc chain --pass-k 128
has "chain" "$(cat "$work/out")" "sums: chain, passes of 128"
product "W on the fly" "00000042 00008042" "$work/x.npy" "$work/model.safetensors:x.weight" --w-format mxfp4 -r floor
has "W on the fly" "$(cat "$work/out")" "x.weight, 2 x 32, mxfp4 by floor from F32"
product "NVFP4" "00000842 00008842" "$work/x.npy" "$work/model.safetensors:x.weight" --w-format nvfp4
# The recipe of NVFP4 is that of mxfp quantize.
has "the usual recipe" "$(cat "$work/out")" "x.weight, 2 x 32, nvfp4 by compressed-tensors from F32"
exits 0 "" quantize "$weights" -o "$work/nvfp4" -q -w nvfp4
exits 0 "" gemm "$layer" "$layer" --w-format nvfp4 -o "$work/fly.npy" -q
exits 0 "" gemm "$layer" "$work/nvfp4:${layer#*:}" -o "$work/stored.npy" -q
check "NVFP4 on the fly is not what mxfp quantize writes" cmp "$work/fly.npy" "$work/stored.npy"
exits 0 "" gemm "$layer" "$layer" --w-format nvfp4 --nvfp4-recipe te -o "$work/te.npy" -q
! cmp -s "$work/te.npy" "$work/stored.npy" || bad "recipe te has the numbers of compressed-tensors"
product "A is quantized too" "00000042 00008042 00008042 00000043" "$work/model:x.weight" "$work/model:x.weight"
exits 0 "" gemm "$work/x.npy" "$work/model:x.weight" -o "$work/j.npy" --json
text=$(tr -d ' \n' <"$work/out")
has "json" "$text" '"dtype":"F32","shape":[1,32],"format":"mxfp8-e4m3","sparsity":null,"rule":"rceil"}'
has "json" "$text" '"dtype":"U8","shape":[2,32],"format":"mxfp4","sparsity":null,"rule":null}'
has "json" "$text" '"sums":{"rule":"exact","pass":512,"psum":"f32","psum_round":null,"seed":0}'

# Sums of machines, by hand: 1 + 4 * 2^-24 is cut at 23 fraction bits, and at 25 all of it is kept.
array small.npy '<f2' False '(1, 5)' "003c 000c 000c 000c 000c"
product "volta" "$one" "$work/small.npy" "$work/small.npy" --acc volta
has "volta" "$(cat "$work/out")" "sums: volta"
product "hopper" "0200803f" "$work/small.npy" "$work/small.npy" --acc hopper
safetensors "$work/f8.safetensors" '{"x":{"dtype":"F8_E4M3","shape":[1,4],"data_offsets":[0,4]}}' "38404448"
product "fp8" "0000f041" "$work/f8.safetensors:x" "$work/f8.safetensors:x" --acc hopper --pass-k 128
has "fp8" "$(cat "$work/out")" "sums: hopper, passes of 128"
# 1 * 1 + 1 * 2 + 2 * 0 + 2 * -2 in e4m3fnuz by e5m2fnuz, and 1 * 1 + 1 * 1 + 2 * 2 + 2 * 2.
safetensors "$work/fnuz.safetensors" '{"x":{"dtype":"F8_E4M3FNUZ","shape":[1,4],"data_offsets":[0,4]},
	"y":{"dtype":"F8_E5M2FNUZ","shape":[1,4],"data_offsets":[4,8]}}' "40404848404400c4"
product "fnuz" "000080bf" "$work/fnuz.safetensors:x" "$work/fnuz.safetensors:y" --acc cdna3
product "fnuz" "00002041" "$work/fnuz.safetensors:x" "$work/fnuz.safetensors:x" --acc cdna3
exits 3 "--acc hopper does not take f32 times f32" gemm "$work/a.npy" "$work/w.npy" --acc hopper -o "$work/no.npy"
exits 3 "--acc exact does not take e4m3 times e4m3" gemm "$work/f8.safetensors:x" "$work/f8.safetensors:x" -o "$work/no.npy"
exits 2 "leave --w-format out" gemm "$work/f8.safetensors:x" "$work/f8.safetensors:x" --w-format mxfp4 -o "$work/no.npy"

# Threads and tiers never change a bit: 70 x 90 over 200 of the shipped weights.
for format in mxfp4 mxfp8-e4m3 nvfp4; do
	exits 0 "" gemm "$layer" "$layer" --w-format $format --a-format mxfp8-e4m3 -o "$work/1.$format.npy" -q --threads 1
	exits 0 "" gemm "$layer" "$layer" --w-format $format --a-format mxfp8-e4m3 -o "$work/7.$format.npy" -q --threads 7
	exits 0 "" --isa ref gemm "$layer" "$layer" --w-format $format --a-format mxfp8-e4m3 -o "$work/ref.$format.npy" -q
	same "threads" 0 "$(cmp "$work/1.$format.npy" "$work/7.$format.npy" >/dev/null; echo $?)"
	same "tiers" 0 "$(cmp "$work/1.$format.npy" "$work/ref.$format.npy" >/dev/null; echo $?)"
done

# No product: nothing is written.
array k3.npy '<f4' False '(1, 3)' "$one$one$one"
array f8.npy '<f8' False '(1, 1)' "00000000 0000f03f"
no="-o $work/no.npy"
exits 3 "a.npy: is 2 x 2, but " gemm "$work/a.npy" "$work/k3.npy" $no
exits 3 "f8.npy: tensor 'array': is F64" gemm "$work/f8.npy" "$work/1.npy" $no
exits 3 "holds 2 tensors; name one behind a colon, such as" gemm "$work/x.npy" "$work/model.safetensors" $no
exits 3 "has no tensor 'x.weigh': did you mean 'x.weight'?" gemm "$work/x.npy" "$work/model.safetensors:x.weigh" $no
exits 3 "a.npy: is 2 x 2; 1 x 3 numbers are needed" gemm "$work/a.npy" "$work/w.npy" --bias "$work/a.npy" $no
exits 3 "x.weight: is 2 x 32, quantized; 2 x 3" gemm "$work/a.npy" "$work/w.npy" \
	--accumulate "$work/model:x.weight" $no
exits 2 "is quantized already, to mxfp4; leave --w-format" gemm "$work/x.npy" "$work/model:x.weight" \
	--w-format mxfp4 $no
exits 2 "is quantized already, to mxfp4; leave --a-format" gemm "$work/model:x.weight" "$work/model:x.weight" \
	--a-format mxfp4 $no
exits 2 "cannot be taken transposed" gemm "$work/model:x.weight" "$work/model:x.weight" --transpose-a $no
exits 2 "cannot be taken transposed" gemm "$work/x.npy" "$work/model:x.weight" --transpose-w $no
exits 3 "w.turned.npy is 3 x 2; both need" gemm "$work/k3.npy" "$work/w.turned.npy" --transpose-w $no
exits 2 "--a-format: 'e4m3' is not a block format" gemm "$work/a.npy" "$work/w.npy" --a-format e4m3 $no
exits 2 "--pass-k 100: give 512, 256 or 128" gemm "$work/a.npy" "$work/w.npy" --pass-k 100 $no
exits 2 "--c-format: 'f16' is not taken; give f32|bf16" gemm "$work/a.npy" "$work/w.npy" --c-format f16 $no
exits 2 "--psum: 'tf32' is not taken; give f32|bf16" gemm "$work/a.npy" "$work/w.npy" --psum tf32 $no
exits 2 "--psum-round: 'rtz' is not taken; give rne|sr" gemm "$work/a.npy" "$work/w.npy" --psum-round rtz $no
exits 2 "no output given" gemm "$work/a.npy" "$work/w.npy"
exits 2 "end it with .npy or .safetensors" gemm "$work/a.npy" "$work/w.npy" -o "$work/c.bin"
exits 2 "too few operands" gemm "$work/a.npy" $no
exits 4 "none.npy: cannot open" gemm "$work/none.npy" "$work/w.npy" $no
same "nothing was written" "" "$(ls "$work"/no* 2>/dev/null)"
exits 2 "exists" gemm "$work/a.npy" "$work/w.npy" -o "$work/c.npy"
exits 0 "" gemm "$work/a.npy" "$work/w.npy" -o "$work/c.npy" -q --force
cp "$work/bias.npy" "$work/bias2.npy"
exits 2 "bias2.npy" gemm "$work/a.npy" "$work/w.npy" --bias "$work/bias2.npy:array" -o "$work/bias2.npy" --force
exits 2 "w.npy" gemm "$work/a.npy" "$work/w.npy:array" -o "$work/w.npy" --force
same "an input stays" "$(hex <"$work/bias.npy")" "$(hex <"$work/bias2.npy")"

# Colons in a file's name, and empty matrices.
cp "$work/a.npy" "$work/a:b.npy"
product "a colon in the name" "$c" "$work/a:b.npy" "$work/w.npy"
array none.npy '<f4' False '(0, 2)' ""
exits 0 "" gemm "$work/none.npy" "$work/w.npy" -o "$work/empty.npy" -q
has "no rows" "$(head -c 128 "$work/empty.npy" | tr -d '\0')" "'shape': (0, 3), }"
array wide.npy '<f4' False '(2, 0)' ""
array narrow.npy '<f4' False '(1, 0)' ""
product "k = 0" "00000000 00000000" "$work/wide.npy" "$work/narrow.npy"

# What would be passed over silently is refused.
for option in "rule mse" "rule mse --w-format nvfp4" "psum-round sr" "seed 1" "seed 1 --psum bf16" \
	"a-rule rceil" "a-rule rceil --a-format nvfp4" "nvfp4-recipe te" "nvfp4-recipe te --w-format mxfp8-e4m3"; do
	exits 2 "gemm: --${option%% *}: " gemm "$work/a.npy" "$work/w.npy" --$option $no
done
finish
