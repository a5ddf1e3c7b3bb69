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

export PATH=$PWD/$tree:$PWD/$tree/examples:$PATH
model=examples/charlm.safetensors

# Shows a command and runs it.
run() {
	echo "\$ $*"
	"$@"
	echo
}

run mxfp quantize $model -o demo/w4a8 --force
run mxfp report $model --against demo/w4a8
run mxfp report $model -o demo/report.md --force

echo 'Loss of the model on text that it was not trained on, before (f32), in W4A8, and in other formats:'
run examples/loss.sh
echo 'The W4A8 model:   demo/w4a8/'
echo 'The error report: demo/report.md (this and other formats side by side)'
