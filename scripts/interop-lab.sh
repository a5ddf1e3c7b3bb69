#!/bin/bash
# SPDX-License-Identifier: MIT
# Sets up a Debian sid in DIRECTORY with the programs with which tests/interop/interop.sh exchanges files, with which
# tests/interop/families.sh loads models, beside which tests/interop/eval.sh runs them, and whose reading tests/interop/kinds.sh
# compares: libggml, llama.cpp, python3-gguf and python3-safetensors from Debian; compressed-tensors, ModelOpt, Quark, MLX, mlx-lm and
# a newer transformers from PyPI.
# Then run MXFP_LAB=DIRECTORY tests/interop/interop.sh. Needs root, and Debian with debootstrap and pip; takes 3.5 GB and
# about fifteen minutes. A second run keeps what exists. Uses the mirror and the index configured for apt and pip.
set -euo pipefail

debian='
g++ libggml-dev libtorch-dev llama.cpp-tools llama.cpp-tools-extra ninja-build python3-dev python3-gguf python3-ml-dtypes python3-numpy
python3-safetensors python3-torch python3-transformers python3-venv
python3-loguru python3-psutil python3-pydantic
python3-omegaconf python3-pulp python3-regex python3-rich python3-scipy python3-tqdm python3-yaml
python3-accelerate python3-joblib python3-onnx python3-pandas python3-plotly python3-sentencepiece python3-zstandard
'
# The packages under test, and dependencies of ModelOpt and Quark that Debian lacks. All are pure Python.
pypi='
compressed-tensors==0.20.0
nvidia-modelopt==0.47.0 nvidia-ml-py
amd-quark==0.13 onnxslim
'
# transformers that is newer than Debian's, with what it needs newer, for eval.sh, families.sh and kinds.sh, and mlx-lm, which loads
# its models; what loads gpt-oss's codes is tested with Debian's.
newer='
transformers==5.24.0 huggingface_hub==1.33.0 regex==2026.11.15 compressed-tensors==0.20.0 mlx==0.32.4 mlx-cpu==0.32.4 mlx-lm==0.32.2
'

fail() {
	echo "$0: $1" >&2
	exit 1
}

[ $# = 1 ] || fail "usage: interop-lab.sh DIRECTORY"
[ "$(id -u)" = 0 ] || fail "must be run as root, because it uses chroot"
command -v debootstrap >/dev/null || fail "debootstrap not found; install the Debian package debootstrap"
python3 -m pip --version >/dev/null || fail "pip not found; install the Debian package python3-pip"
mkdir -p "$1"
lab=$(cd "$1" && pwd)

if [ ! -e "$lab/etc/debian_version" ]; then
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
	debootstrap --variant=minbase sid "$lab" ${mirror:+"$mirror"}
fi

# A mirror that has not been updated for a while is good enough.
# shellcheck disable=SC2086
chroot "$lab" sh -c 'export DEBIAN_FRONTEND=noninteractive
	apt-get -qq -o Acquire::Check-Valid-Until=false update
	apt-get -qq -y --no-install-recommends install "$@"' sh $debian

# pip downloads on the host, where it is configured, and installs in the lab without a network. Quark requires an older
# Python than that of sid, but works with it.
# shellcheck disable=SC2086
python3 -m pip -q download --no-deps --ignore-requires-python --dest "$lab/opt/wheels" $pypi
[ -x "$lab/opt/python/bin/pip" ] || chroot "$lab" python3 -m venv --system-site-packages /opt/python
# shellcheck disable=SC2086
chroot "$lab" /opt/python/bin/pip -q install --no-deps --no-index --ignore-requires-python --find-links /opt/wheels \
	$pypi

# regex and MLX are compiled, for the Python of the lab.
version=$(chroot "$lab" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# shellcheck disable=SC2086
python3 -m pip -q download --no-deps --only-binary :all: --python-version "$version" --dest "$lab/opt/wheels" $newer
[ -x "$lab/opt/transformers/bin/pip" ] || chroot "$lab" python3 -m venv --system-site-packages /opt/transformers
# shellcheck disable=SC2086
chroot "$lab" /opt/transformers/bin/pip -q install --no-deps --no-index --ignore-installed --find-links /opt/wheels $newer

# The first import of Quark compiles its CPU kernels.
chroot "$lab" env PATH=/opt/python/bin:/usr/bin:/bin HOME=/opt python -c 'import quark.torch' \
	>/dev/null 2>"$lab/tmp/quark.log" || fail "Quark cannot be imported: $(tail -n 1 "$lab/tmp/quark.log")"
echo "the lab is ready: MXFP_LAB=$lab tests/interop/interop.sh"
