#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs scripts/check.sh, or another script, on a bare Debian: check-debian.sh [--cache DIRECTORY] RELEASE [SCRIPT
# [ARGUMENT...]]. The release (bookworm, trixie) is a container made by debootstrap. A copy of it receives the files of
# HEAD, and ../shared if it exists; it shares only the network with this machine, and has its own processes, mounts and
# devices. The last line is the result; all output is in check-debian-RELEASE.log.
# The pristine release is kept in DIRECTORY (default libmxfp-debian-RELEASE in TMPDIR or /var/tmp). Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib

fail() {
	echo "check-debian.sh: $1" >&2
	exit 1
}

cache=
if [ "${1-}" = --cache ]; then
	cache=${2-}
	shift "$(($# < 2 ? $# : 2))"
fi
if [ $# = 0 ] || [[ ! $1 =~ ^[a-z]+$ ]]; then
	echo 'usage: scripts/check-debian.sh [--cache DIRECTORY] RELEASE [SCRIPT [ARGUMENT...]]' >&2
	exit 2
fi
release=$1
shift
[ $# -gt 0 ] || set -- scripts/check.sh
[ -x "$1" ] || fail "$1: not an executable script in this tree"
[ "$(id -u)" = 0 ] || fail 'must be run as root, because it uses chroot'
scripts/dependencies.sh container

git=(git -c 'safe.directory=*')
commit=$("${git[@]}" rev-parse --verify HEAD) || fail 'not a git repository; it checks what is committed'
[ -z "$("${git[@]}" status --porcelain)" ] || echo 'warning: uncommitted changes are not checked' >&2
log=$PWD/check-debian-$release.log
cache=${cache:-${TMPDIR:-/var/tmp}/libmxfp-debian-$release}
base=$cache/base
root=$cache/container

# The cache must belong to root: a directory made by another user may contain anything.
[ -e "$cache" ] || mkdir -m 700 "$cache"
if [ ! -O "$cache" ] || [ -L "$cache" ] || [ "$(stat -c %a "$cache")" != 700 ]; then
	fail "$cache must be owned by root and have mode 700; choose another with --cache"
fi
exec 9>"$cache/lock"
flock -n 9 || fail "$cache is in use by another run"

# contained COMMAND...: runs it with its own mounts and processes, which end when it or this script ends, even if killed.
# Signals that they send to their process group do not reach this script.
contained() {
	setpriv --pdeathsig KILL setsid unshare --mount --pid --ipc --fork --kill-child=KILL "$@" 9>&- &
	inside=$!
	local status=0
	wait "$inside" || status=$?
	inside=
	return $status
}

clean_up() {
	trap '' INT TERM HUP
	if [ -n "$inside" ]; then
		kill -KILL "$inside" 2>/dev/null || true
		wait "$inside" 2>/dev/null || true
	fi
	rm -rf --one-file-system "$root" "$base.partial"
}
inside=
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
rm -rf --one-file-system "$root" "$base.partial"

if [ ! -e "$base" ]; then
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' \
		2>/dev/null | head -n 1) || true
	stage "debootstrap $release in $cache: 60 MB to download, 220 MB on disk, about two minutes"
	contained debootstrap --variant=minbase "$release" "$base.partial" ${mirror:+"$mirror"} >"$log" 2>&1 || {
		tail -n 20 "$log"
		fail "debootstrap failed: $log"
	}
	mv "$base.partial" "$base"
fi

stage "$1 in a bare $release, commit $commit"
cp -a "$base" "$root"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mkdir "$root/srv/libmxfp"
"${git[@]}" archive "$commit" | tar -x -C "$root/srv/libmxfp"
if [ -d ../shared ]; then
	cp -rL ../shared "$root/srv/shared"
	chmod -R a-w "$root/srv/shared"
fi

# Process 1 of the container: sets up mounts and devices, runs the script, and records the compiler. There is no /sys.
init='
set -e
cd "$1"
mount -t proc proc proc
mount -t tmpfs -o mode=755 devices dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620 terminals dev/pts
mount -t tmpfs shared-memory dev/shm
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
	IFS=: read -r name major minor <<<"$device"
	mknod -m 666 "dev/$name" c "$major" "$minor"
done
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for name in stdin:0 stdout:1 stderr:2; do
	ln -s "fd/${name#*:}" "dev/${name%:*}"
done
shift
status=0
chroot . "$@" || status=$?
chroot . gcc --version 2>/dev/null | sed q >srv/compiler
exit "$status"'
variables=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv)
for name in CI MXFP_TEST_SEED http_proxy https_proxy no_proxy; do
	[ -z "${!name-}" ] || variables+=("$name=${!name}")
done

began=$SECONDS
status=0
exec 3> >(exec tee "$log" 9>&-)
writer=$!
contained bash -c "$init" init "$root" env -i "${variables[@]}" \
	sh -c 'cd /srv/libmxfp && exec "$@"' sh "$@" >&3 2>&1 3>&- || status=$?
exec 3>&-
wait $writer
how=$(tail -n 1 "$log")
[[ $how =~ ^[0-9]+\ passed,\ [0-9]+\ failed,\ [0-9]+\ skipped$ ]] || how="$1 ended with $status"
compiler=$(cat "$root/srv/compiler" 2>/dev/null) || true
rm -rf --one-file-system "$root"
echo "$release, ${compiler:-no compiler}: $how, $(((SECONDS - began + 30) / 60)) minutes"
exit "$status"
