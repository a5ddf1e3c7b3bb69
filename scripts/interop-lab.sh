#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes DIRECTORY a Debian sid with the programs that tests/interop/interop.sh lets read our files and reads the files of:
# libggml, llama.cpp, python3-gguf and python3-safetensors of Debian; compressed-tensors, ModelOpt and Quark of PyPI.
# Then MXFP_LAB=DIRECTORY tests/interop/interop.sh. As root, on Debian with debootstrap and pip; 3.5 GB, some fifteen minutes.
# Can be run again: what is there is kept. Mirror and index are those that apt and pip are configured with.
set -euo pipefail

debian='
g++ libggml-dev libtorch-dev llama.cpp-tools ninja-build python3-dev python3-gguf python3-ml-dtypes python3-numpy
python3-safetensors python3-torch python3-transformers python3-venv
python3-loguru python3-psutil python3-pydantic
python3-omegaconf python3-pulp python3-regex python3-rich python3-scipy python3-tqdm python3-yaml
python3-accelerate python3-joblib python3-onnx python3-pandas python3-plotly python3-sentencepiece python3-zstandard
'
# The packages under test, and what ModelOpt and Quark need that Debian has not. All are Python only.
pypi='
compressed-tensors==0.20.0
nvidia-modelopt==0.47.0 nvidia-ml-py
amd-quark==0.13 onnxslim
'

fail() {
	echo "$0: $1" >&2
	exit 1
}

[ $# = 1 ] || fail "usage: interop-lab.sh DIRECTORY"
[ "$(id -u)" = 0 ] || fail "makes a system to chroot into: run it as root"
command -v debootstrap >/dev/null || fail "needs debootstrap (Debian package debootstrap)"
python3 -m pip --version >/dev/null || fail "needs pip (Debian package python3-pip)"
mkdir -p "$1"
lab=$(cd "$1" && pwd)

if [ ! -e "$lab/etc/debian_version" ]; then
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
	debootstrap --variant=minbase sid "$lab" ${mirror:+"$mirror"}
fi

# A mirror that stands still for a while is as good as any here.
# shellcheck disable=SC2086
chroot "$lab" sh -c 'export DEBIAN_FRONTEND=noninteractive
	apt-get -qq -o Acquire::Check-Valid-Until=false update
	apt-get -qq -y --no-install-recommends install "$@"' sh $debian

# pip runs here, where it is configured, and installs there without a network. Quark asks for an older Python than sid's
# and runs on it.
# shellcheck disable=SC2086
python3 -m pip -q download --no-deps --ignore-requires-python --dest "$lab/opt/wheels" $pypi
[ -x "$lab/opt/python/bin/pip" ] || chroot "$lab" python3 -m venv --system-site-packages /opt/python
# shellcheck disable=SC2086
chroot "$lab" /opt/python/bin/pip -q install --no-deps --no-index --ignore-requires-python --find-links /opt/wheels \
	$pypi

# The first import of Quark compiles its kernels for the processor.
chroot "$lab" env PATH=/opt/python/bin:/usr/bin:/bin HOME=/opt python -c 'import quark.torch' \
	>/dev/null 2>"$lab/tmp/quark.log" || fail "Quark cannot be imported: $(tail -n 1 "$lab/tmp/quark.log")"
echo "the lab is ready: MXFP_LAB=$lab tests/interop/interop.sh"
