#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs missing packages: `build` for the library and the command, `check` also for the tests, `python` for the module with the
# command in it, `venv` to install its wheel, `aarch64` and `s390x` to build and run programs for these machines, `emulation` to run
# native programs under qemu-user, `container` for check-debian.sh and check-packages.sh.
# On Debian it uses apt-get, as root or with sudo, and does not access the network if nothing is missing.
# Elsewhere it lists what is missing and fails.
set -euo pipefail
. "$(dirname "$0")/build.shlib"

# Debian package, and how to detect its equivalent on other systems.
build='
gcc            command cc
libc6-dev      header  stdio.h
make           command make
autoconf       command autoreconf
automake       command automake
libtool        command libtoolize
pkgconf        command pkg-config
libjansson-dev module  jansson
libxxhash-dev  module  libxxhash
libpcre2-dev   module  libpcre2-8
libutf8proc-dev module libutf8proc
libsleef-dev   header  sleef.h
libjs-chart.js file    /usr/share/javascript/chart.js/chart.min.js
'
check='
check          module  check
abigail-tools  command abidiff
libmpfr-dev    module  mpfr
g++            command c++
fish           command fish
zsh            command zsh
chromium-headless-shell command chromium
mpich          command mpiexec
libmpich-dev   module  mpich
python3-dev    command python3-config
python3-numpy  python  numpy
python3-pytest python  pytest
'
# pip brings what builds the module from PyPI.
python='
python3-dev    command python3-config
'
venv='
python3-venv   command python3
'

aarch64='
gcc-aarch64-linux-gnu command aarch64-linux-gnu-gcc
libc6-dev-arm64-cross command aarch64-linux-gnu-gcc
qemu-user             command qemu-aarch64
'
emulation='
qemu-user command qemu-x86_64
'
s390x='
gcc-s390x-linux-gnu command s390x-linux-gnu-gcc
libc6-dev-s390x-cross command s390x-linux-gnu-gcc
qemu-user           command qemu-s390x
'
container='
debootstrap            command debootstrap
debian-archive-keyring file    /usr/share/keyrings/debian-archive-keyring.gpg
git                    command git
'

case "${1-}" in
build) wanted=$build ;;
check) wanted=$build$check ;;
python) wanted=$build$python$venv ;;
venv) wanted=$venv ;;
aarch64) wanted=$build$aarch64 ;;
emulation) wanted=$build$check$emulation ;;
s390x) wanted=$build$s390x ;;
container) wanted=$container ;;
*)
	echo "usage: scripts/dependencies.sh build|check|python|venv|aarch64|emulation|s390x|container" >&2
	exit 2
	;;
esac

is_debian() {
	command -v apt-get >/dev/null && grep -qx 'ID=debian' /etc/os-release 2>/dev/null
}

has_package() {
	[[ $(dpkg-query -W -f '${db:Status-Status} ' "$1" 2>/dev/null) == installed* ]]
}

has_thing() {
	case $1 in
	command) command -v "$2" >/dev/null ;;
	file) [ -e "$2" ] ;;
	header) echo "#include <$2>" | cc -E - >/dev/null 2>&1 ;;
	module) pkg-config --exists "$2" 2>/dev/null ;;
	python) python3 -c "import $2" 2>/dev/null ;;
	esac
}

missing=()
while read -r package kind name; do
	[ -n "$package" ] || continue
	if is_debian; then
		has_package "$package" || missing+=("$package")
	else
		has_thing "$kind" "$name" || missing+=("$package ($kind $name)")
	fi
done <<<"$wanted"
[ ${#missing[@]} -gt 0 ] || exit 0

fail() {
	echo "scripts/dependencies.sh: $1" >&2
	exit 1
}

is_debian || fail "missing (names of Debian packages): $(printf '%s, ' "${missing[@]}" | sed 's/, $//')
install them with the package manager of this system and run this script again"

as_root=(env DEBIAN_FRONTEND=noninteractive)
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || fail "missing packages; run as root: apt-get install ${missing[*]}"
	as_root=(sudo "${as_root[@]}")
fi

log=$(mktemp "${TMPDIR:-/tmp}/libmxfp-apt-get.XXXXXX")

# apt_get STEPS ARGUMENT...: runs apt-get; its output goes to the log, which is kept after a failure.
apt_get() {
	local steps=$1
	shift
	"${as_root[@]}" apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" 2>&1 | tee -a "$log" |
		{ grep --line-buffered -E '^(Get:|Unpacking |Setting up )' || true; } |
		tally 100 '' "of $steps steps: packages fetched, unpacked, set up" || {
		tail -n 20 "$log" >&2
		fail "apt-get could not install ${missing[*]}; see $log"
	}
}

stage "installing missing packages: ${missing[*]}"
apt_get 0 update

# These packages and their dependencies, as NAME=VERSION. The time assumes 10 MB and 3 packages per second.
mapfile -t all < <(apt-get -s install --no-install-recommends "${missing[@]}" 2>/dev/null |
	sed -n 's/^Inst \([^ ]*\) \(\[[^]]*\] \)\?(\([^ ]*\) .*/\1=\3/p')
if [ ${#all[@]} -gt 0 ]; then
	stage "  $(apt-cache show --no-all-versions "${all[@]}" | awk -v packages=${#all[@]} '
		/^Size: / { bytes += $2 }
		/^Installed-Size: / { kib += $2 }
		END {
			printf "%d packages, %.0f MB to download, %.0f MB on disk; about %d min", packages, bytes / 1e6,
				kib * 1024 / 1e6, (bytes / 1e7 + packages / 3) / 60 + 1
		}')"
fi
apt_get $((3 * ${#all[@]})) install -y --no-install-recommends "${missing[@]}"
rm "$log"
