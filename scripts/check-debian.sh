#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs scripts/check.sh, or another script, on a bare Debian: check-debian.sh [--cache DIRECTORY] [--file FILE] RELEASE [SCRIPT
# [ARGUMENT...]]. The release (bookworm, trixie) is a container made by debootstrap. A copy of it receives the files of
# HEAD, ../shared if it exists, and FILE beside the tree; it shares only the network with this machine, and has its own
# processes, mounts and devices. The last line is the result; all output is in check-debian-RELEASE.log.
# The pristine release is kept in DIRECTORY (default libmxfp-debian-RELEASE in TMPDIR or /var/tmp). Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib
. scripts/container.shlib

cache= file=
while [[ ${1-} == --cache || ${1-} == --file ]]; do
	declare "${1#--}=${2-}"
	shift "$(($# < 2 ? $# : 2))"
done
if [ $# = 0 ] || [[ ! $1 =~ ^[a-z]+$ ]]; then
	echo 'usage: scripts/check-debian.sh [--cache DIRECTORY] [--file FILE] RELEASE [SCRIPT [ARGUMENT...]]' >&2
	exit 2
fi
release=$1
shift
[ $# -gt 0 ] || set -- scripts/check.sh
[ -x "$1" ] || fail "$1: not an executable script in this tree"
log=$PWD/check-debian-$release.log
container_open "$release" "$cache"
stage "$1 in a bare $release, commit $commit"
container_new
[ -z "$file" ] || cp "$file" "$root/srv/"
if [ -d ../shared ]; then
	cp -rL ../shared "$root/srv/shared"
	chmod -R a-w "$root/srv/shared"
fi

began=$SECONDS
status=0
exec 3> >(exec tee "$log" 9>&-)
writer=$!
container_run "$@" >&3 2>&1 3>&- || status=$?
exec 3>&-
wait $writer
how=$(tail -n 1 "$log")
[[ $how =~ ^[0-9]+\ passed,\ [0-9]+\ failed,\ [0-9]+\ skipped$ ]] || how="$1 ended with $status"
compiler=$(container_run gcc --version 2>/dev/null | sed q) || true
echo "$release, ${compiler:-no compiler}: $how, $(((SECONDS - began + 30) / 60)) minutes"
exit "$status"
