#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs missing packages, builds in build-demo/ (or here, if this tree is configured in place), quantizes the
# character model of examples/ to W4A8, reports the error relative to FP32, and prints the perplexity
# of the model before and after. The files are kept in demo/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib

tree=build-demo
[ ! -e config.status ] || tree=.

echo "Builds in $tree/, quantizes a model of 1 MB and reports the error."
echo 'Takes about 2 minutes on two cores and 500 MB of disk, including missing packages that it installs.'
step=0

# next TEXT: says which step begins.
next() {
	step=$((step + 1))
	stage "step $step of 7: $*"
}

next 'packages'
scripts/dependencies.sh build
next 'configure'
prepare_configure
mkdir -p $tree demo
[ -e $tree/Makefile ] || (cd $tree && ../configure -q)
next 'build'
make_tally -C $tree
echo

export PATH=$PWD/$tree:$PWD/$tree/examples:$PATH
model=examples/charlm.safetensors

# run TEXT COMMAND...: a step that shows a command and runs it.
run() {
	next "$1"
	shift
	echo "\$ $*"
	"$@"
	echo
}

run 'quantize' mxfp quantize $model -o demo/w4a8 --force
run 'errors of weights' mxfp report $model --against demo/w4a8
run 'other formats' mxfp report $model -o demo/report.md --force

run 'perplexity on text that it was not trained on, as it is and in block formats; MXFP4 below MXFP8 is W4A8' examples/loss.sh
echo 'The W4A8 model:   demo/w4a8/'
echo 'The error report: demo/report.md (this and other formats side by side)'
