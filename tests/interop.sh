#!/bin/sh
# SPDX-License-Identifier: MIT
# Files between mxfp and the programs that define their layouts, both ways, bit for bit: safetensors' own serializer,
# the decompressors and exporters of compressed-tensors, ModelOpt and Quark, and what transformers loads gpt-oss with.
# These programs are in the lab that scripts/interop-lab.sh makes, and MXFP_LAB names its directory. What each does to a
# number is said in interop/.
skip() {
	echo "skipped: $1"
	exit 77
}

lab=${MXFP_LAB:-}
[ -n "$lab" ] || skip "MXFP_LAB names no lab; scripts/interop-lab.sh DIRECTORY makes one"
[ -x "$lab/opt/python/bin/python" ] || skip "$lab is no lab of scripts/interop-lab.sh"
[ "$(id -u)" = 0 ] || skip "the lab is entered with chroot, which only root may do"

# Both sides see $work.
TMPDIR=$lab/tmp
export TMPDIR
. "${srcdir:-.}/tests/cli.shlib"
inside=${work#"$lab"}
cp -R "${srcdir:-.}/tests/interop" "$work"

# lab_python NAME: runs interop/NAME.py, which counts its own checks; the packages talk a lot.
lab_python() {
	code=0
	chroot "$lab" env -i PATH=/opt/python/bin:/usr/bin:/bin HOME=/opt UCX_LOG_LEVEL=fatal LC_ALL=C.UTF-8 \
		python "$inside/interop/$1.py" "$inside" >"$work/log" 2>"$work/errors" || code=$?
	grep -a -e '^FAIL' -e ' failures$' "$work/log" || tail -n 5 "$work/errors"
	same "exit code of interop/$1.py" 0 $code
}

# quantized MODEL NAME OPTION...: quantizes the model to NAME, and decodes that to NAME.bf16 and NAME.f32.
quantized() {
	model=$1 name=$2
	shift 2
	exits 0 "" quantize "$work/$model" -o "$work/$name" -q "$@"
	decoded "$name"
}

decoded() {
	for dtype in bf16 f32; do
		exits 0 "" dequantize "$work/$1" -o "$work/$1.$dtype" -q --to $dtype
	done
}

lab_python models
mkdir "$work/charlm"
cp "${srcdir:-.}/examples/charlm.safetensors" "$work/charlm/model.safetensors"

for format in mxfp4 mxfp6-e2m3 mxfp8-e4m3 nvfp4; do
	quantized dense "ct.dense.$format" --weights $format
	quantized charlm "ct.charlm.$format" --weights $format --activations none
	quantized experts "ct-stacked.$format" --weights $format
done

quantized dense ct-mixed --recipe "$work/mixed.json"

quantized dense modelopt.nvfp4 --layout modelopt --weights nvfp4
quantized dense modelopt.mxfp4 --layout modelopt
quantized dense quark --layout quark
quantized experts gpt-oss --layout gpt-oss

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
alike llama modelopt.W4A16_NVFP4.f32 --layout modelopt --weights nvfp4 --nvfp4-recipe modelopt
lab_python compare
finish
