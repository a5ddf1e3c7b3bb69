#!/bin/bash
# SPDX-License-Identifier: MIT
# Sets up a Debian sid in DIRECTORY with the packages that generated tests/vectors, runs make.py, text_ids.py and
# text_ids_gguf.py of tests/vectors there, and reports whether their output, DIRECTORY/opt/vectors, equals tests/vectors.
# The packages are ml-dtypes, numpy, torch, onnxruntime, libggml, llama.cpp and gguf-py from Debian; torchao,
# compressed-tensors, gfloat, tokenizers and two versions of MLX from PyPI. Needs root, and Debian with debootstrap and pip; takes 3 GB and about
# ten minutes. A second run keeps what exists. Uses the mirror and the index configured for apt and pip. sid changes: with
# versions other than those in tests/vectors/README.md, outputs may differ.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

debian='
libggml0 llama.cpp-tools-extra python3-gguf python3-loguru python3-ml-dtypes python3-numpy python3-onnx python3-onnxruntime
python3-psutil python3-pydantic python3-torch python3-transformers python3-venv
'
pypi='torchao==0.18.0 compressed-tensors==0.20.0 gfloat==0.5.2 tokenizers==0.23.3 array-api-compat more-itertools'
mlx='0.32.1 0.32.4' # those of nearest.py

fail() {
	echo "$0: $1" >&2
	exit 1
}

[ $# = 1 ] || fail "usage: vectors-lab.sh DIRECTORY"
[ "$(id -u)" = 0 ] || fail "must be run as root, because it uses chroot"
python3 -m pip --version >/dev/null || fail "pip not found; install the Debian package python3-pip"
mkdir -p "$1"
lab=$(cd "$1" && pwd)

if [ ! -e "$lab/etc/debian_version" ]; then
	command -v debootstrap >/dev/null || fail "debootstrap not found; install the Debian package debootstrap"
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
	debootstrap --variant=minbase sid "$lab" ${mirror:+"$mirror"}
fi

# shellcheck disable=SC2086
chroot "$lab" sh -c 'export DEBIAN_FRONTEND=noninteractive
	apt-get -qq -o Acquire::Check-Valid-Until=false update
	apt-get -qq -y --no-install-recommends install "$@"' sh $debian

# pip downloads on the host, where it is configured, and installs in the lab without a network.
# shellcheck disable=SC2086
python3 -m pip -q download --no-deps --only-binary :all: --dest "$lab/opt/wheels" $pypi
[ -x "$lab/opt/python/bin/pip" ] || chroot "$lab" python3 -m venv --system-site-packages /opt/python
# shellcheck disable=SC2086
chroot "$lab" /opt/python/bin/pip -q install --no-deps --no-index --find-links /opt/wheels $pypi

for version in $mlx; do
	[ -d "$lab/opt/mlx/$version" ] && continue
	# pip takes the newest of these tags that the package has.
	python3 -m pip -q download --no-deps --only-binary :all: --dest "$lab/opt/wheels/mlx-$version" \
		--python-version "$(chroot "$lab" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" \
		--platform "manylinux_2_35_$(uname -m)" "mlx==$version" "mlx-cpu==$version"
	chroot "$lab" /opt/python/bin/pip -q install --no-deps --no-index --target "/opt/mlx/$version" \
		--find-links "/opt/wheels/mlx-$version" mlx mlx-cpu
done

rm -rf "$lab/opt/vectors"
mkdir "$lab/opt/vectors"
cp "$here"/tests/vectors/*.py "$here/tests/vectors/README.md" "$lab/opt/vectors"
# onnxruntime needs /proc. It and Debian's onnx both register the schemas of onnx, which prints about a hundred warnings.
unshare --mount sh -c 'mount -t proc proc "$1/proc" &&
	for script in make.py "text_ids.py text_ids" "text_ids_gguf.py text_ids"; do
		# shellcheck disable=SC2086
		set -- "$1" $script
		chroot "$1" env PYTHONDONTWRITEBYTECODE=1 HOME=/opt MLX=/opt/mlx /opt/python/bin/python "/opt/vectors/$2" "/opt/vectors/${3-}" || exit
		set -- "$1"
	done' sh "$lab" 2>"$lab/tmp/vectors.log" ||
	fail "a script failed: $(tail -n 3 "$lab/tmp/vectors.log")"
if diff -r "$here/tests/vectors" "$lab/opt/vectors" >"$lab/tmp/vectors.diff"; then
	echo "$lab/opt/vectors: identical to tests/vectors"
else
	echo "$lab/opt/vectors: differs from tests/vectors, see $lab/tmp/vectors.diff"
	exit 1
fi
