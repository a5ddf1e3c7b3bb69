#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs what is missing: `build` for the library and the command, `check` for the tests too, `aarch64` and `s390x` to
# build for and run programs of these machines, `emulation` to run this machine's programs under qemu-user, `container`
# for check-debian.sh.
# Debian: through apt-get, as root or with sudo; nothing is asked of the network when nothing is missing.
# Elsewhere: names what is missing and fails.
set -euo pipefail
. "$(dirname "$0")/build.shlib"

# Debian package, and how other systems show that they have the same thing.
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
libsleef-dev   header  sleef.h
libjs-chart.js file    /usr/share/javascript/chart.js/chart.min.js
'
check='
check          module  check
libmpfr-dev    module  mpfr
g++            command c++
fish           command fish
zsh            command zsh
chromium-headless-shell command chromium
mpich          command mpiexec
libmpich-dev   module  mpich
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
aarch64) wanted=$build$aarch64 ;;
emulation) wanted=$build$check$emulation ;;
s390x) wanted=$build$s390x ;;
container) wanted=$container ;;
*)
	echo "usage: scripts/dependencies.sh build|check|aarch64|emulation|s390x|container" >&2
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

is_debian || fail "missing, by their names in Debian: $(printf '%s, ' "${missing[@]}" | sed 's/, $//')
install them with this system's package manager, then run this again"

as_root=(env DEBIAN_FRONTEND=noninteractive)
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || fail "missing packages: as root, run: apt-get install ${missing[*]}"
	as_root=(sudo "${as_root[@]}")
fi

log=$(mktemp "${TMPDIR:-/tmp}/libmxfp-apt-get.XXXXXX")

# apt_get STEPS ARGUMENT...: what it prints goes to the log, which stays after a failure.
apt_get() {
	local steps=$1
	shift
	"${as_root[@]}" apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" 2>&1 | tee -a "$log" |
		{ grep --line-buffered -E '^(Get:|Unpacking |Setting up )' || true; } |
		tally 100 '' "of $steps steps: packages fetched, unpacked, set up" || {
		tail -n 20 "$log" >&2
		fail "apt-get could not install ${missing[*]}: $log"
	}
}

stage "installing what is missing: ${missing[*]}"
apt_get 0 update

# These and the packages that they need, as NAME=VERSION. Time: for 10 MB and 3 packages a second.
mapfile -t all < <(apt-get -s install --no-install-recommends "${missing[@]}" 2>/dev/null |
	sed -n 's/^Inst \([^ ]*\) \(\[[^]]*\] \)\?(\([^ ]*\) .*/\1=\3/p')
if [ ${#all[@]} -gt 0 ]; then
	stage "  $(apt-cache show --no-all-versions "${all[@]}" | awk -v packages=${#all[@]} '
		/^Size: / { bytes += $2 }
		/^Installed-Size: / { kib += $2 }
		END {
			printf "%d packages, %.0f MB to fetch, %.0f MB on the disk; some %d min", packages, bytes / 1e6,
				kib * 1024 / 1e6, (bytes / 1e7 + packages / 3) / 60 + 1
		}')"
fi
apt_get $((3 * ${#all[@]})) install -y --no-install-recommends "${missing[@]}"
rm "$log"
