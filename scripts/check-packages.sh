#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the Debian packages and tries them: check-packages.sh [--cache DIRECTORY] RELEASE. In a bare RELEASE (bookworm, trixie; as
# check-debian.sh makes it) `make dist` of HEAD becomes a source package and that becomes packages, by an ordinary user, and lintian
# finds no error; in another one they are installed, pass their tests (debian/tests), and are removed without a trace. They stay in
# build-packages/RELEASE, all output in check-packages-RELEASE.log. DEB_BUILD_OPTIONS=nocheck builds without the tests of the build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib
. scripts/container.shlib

cache=
if [ "${1-}" = --cache ]; then
	cache=${2-}
	shift "$(($# < 2 ? $# : 2))"
fi
if [ $# != 1 ] || [[ ! $1 =~ ^[a-z]+$ ]]; then
	echo 'usage: scripts/check-packages.sh [--cache DIRECTORY] RELEASE' >&2
	exit 2
fi
release=$1
log=$PWD/check-packages-$release.log
: >"$log"
container_open "$release" "$cache"
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
upstream=${version%-*}
packages=(libmxfp0 libmxfp-engine0 libmxfp-dev mxfp mxfp-doc)

# step WHAT COMMAND: runs it in the container with -e, as root; prints the log's last lines if it fails.
passed=0 failed=0
step() {
	local status=0 writer
	stage "$release: $1"
	echo "== $1: $2" >>"$log"
	exec 3> >(
		exec 9>&-
		tee -a "$log" | { grep --line-buffered -E '^(Unpacking |(libtool: compile: +)?gcc .* -c |PASS: )' || true; } |
			tally 100 '' 'packages unpacked, files compiled, tests passed'
	)
	writer=$!
	container_run bash -ec "$2" >&3 2>&1 3>&- || status=$?
	exec 3>&-
	wait $writer || true
	if [ $status = 0 ]; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	tail -n 30 "$log"
	echo "FAIL: $release: $1; $log"
	return $status
}
finish() {
	echo "$passed passed, $failed failed, 0 skipped"
	exit $((failed > 0))
}
as_user='setpriv --reuid=nobody --regid=nogroup --clear-groups'
apt='DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0'

container_new
step 'installing what the build needs' "apt-get -q update; $apt build-dep ./; $apt install lintian" || finish
"${git[@]}" ls-tree -r --name-only "$commit" | grep -vE '(^|/)\.' >"$root/srv/committed"
step 'make dist' "autoreconf -i; ./configure -q; make -s dist
	mkdir /srv/packages
	mv libmxfp-$upstream.tar.gz /srv/packages/libmxfp_$upstream.orig.tar.gz
	cd /srv/packages
	tar -xf libmxfp_$upstream.orig.tar.gz
	(cd libmxfp-$upstream && xargs -d '\n' ls -d </srv/committed >/dev/null)
	chown -R nobody: ." || finish
step 'building the packages' "cd /srv/packages/libmxfp-$upstream; $as_user dpkg-buildpackage -us -uc -j\$(nproc)" || finish
# A first upload to Debian closes the bug that announced it; these go nowhere.
step 'lintian' "cd /srv/packages
	$as_user lintian --display-info --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs libmxfp_${version}_*.changes" || true
kept=build-packages/$release
rm -rf "$kept"
mkdir -p "$kept"
find "$root/srv/packages" -maxdepth 1 -type f -exec cp -t "$kept" {} +
step 'building the source package from the used tree' "cd /srv/packages/libmxfp-$upstream; $as_user dpkg-buildpackage -us -uc -S" || true

container_new
mkdir "$root/srv/packages"
cp "$kept"/* "$root/srv/packages"
debs=$(printf "/srv/packages/%s_${version}_*.deb " "${packages[@]}")
step 'installing the packages' "apt-get -q update; $apt install $debs; dpkg -L ${packages[*]} | sort -u >/srv/files; mxfp --version" || finish
step 'the tests of the packages' "$apt install autopkgtest; autopkgtest $debs /srv/packages/libmxfp_$version.dsc -- null" || true
step 'removing the packages' "$apt purge ${packages[*]}
	while read -r file; do
		[ ! -e \"\$file\" ] || [ -d \"\$file\" ] || { echo \"\$file is still there\"; exit 1; }
	done </srv/files" || true
finish
