#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs what is missing, builds in build-demo/ (or here, if this tree is configured in place), quantizes the
# character model of examples/ to W4A8, reports the error against FP32, and states the model's loss before and after.
# Leaves its files in demo/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib

tree=build-demo
[ ! -e config.status ] || tree=.

echo "Builds in $tree/, quantizes a model of 1 MB and reports what that costs."
echo 'With what it installs, if that is missing: some 3 minutes on two cores, and 500 MB of disk.'
scripts/dependencies.sh build
prepare_configure
mkdir -p $tree demo
if [ ! -e $tree/Makefile ]; then
	stage 'configure'
	(cd $tree && ../configure -q)
fi
stage 'building'
make_tally -C $tree
echo

model=examples/charlm.safetensors
text=examples/charlm.txt

# Shows a command and runs it.
run() {
	echo "\$ $*"
	"$@"
	echo
}

run $tree/mxfp quantize $model -o demo/w4a8 --force
run $tree/mxfp report $model --against demo/w4a8
run $tree/mxfp report $model -o demo/report.md --force
run $tree/mxfp dequantize demo/w4a8 -o demo/dequantized.safetensors --force

echo 'Loss of the model on text that it was not trained on:'
echo "  before (FP32)                              $($tree/examples/charlm_loss $model $text)"
echo "  MXFP4 weights                              $($tree/examples/charlm_loss demo/dequantized.safetensors $text)"
echo "  MXFP4 weights, MXFP8 activations (W4A8)    $(
	$tree/examples/charlm_loss demo/dequantized.safetensors $text mxfp8-e4m3
)"
echo
echo 'The W4A8 model:   demo/w4a8/'
echo 'The error report: demo/report.md (this and other formats side by side)'
