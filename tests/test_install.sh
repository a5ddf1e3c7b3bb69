#!/bin/bash
# SPDX-License-Identifier: MIT
# make install gives a tree in which a program finds the library through pkg-config: as C and C++, shared and static.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/..}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

env -u MAKEFLAGS -u MFLAGS "${MAKE:-make}" -s install DESTDIR="$dir" >"$dir/log" 2>&1 || {
	cat "$dir/log"
	exit 1
}
pc=$(find "$dir" -name libmxfp.pc)
libdir=${pc%/pkgconfig/libmxfp.pc}
export PKG_CONFIG_PATH=${pc%/libmxfp.pc} PKG_CONFIG_SYSROOT_DIR=$dir
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
pkg_config=${PKG_CONFIG:-pkg-config}

# Compiles the client as language $1 with further options, and runs it.
client() {
	local language=$1
	shift
	# shellcheck disable=SC2046,SC2086 # several words
	${CC:-cc} -x "$language" $("$pkg_config" --cflags libmxfp) "$srcdir/tests/install_client.c" -x none \
		-o "$dir/client" "$@"
	LD_LIBRARY_PATH=$libdir "$dir/client"
}

languages=(c c++)
# shellcheck disable=SC2086
${CC:-cc} -x c++ -fsyntax-only /dev/null 2>/dev/null || languages=(c)
for language in "${languages[@]}"; do
	# shellcheck disable=SC2046
	[ ! -e "$libdir/libmxfp.so" ] || client "$language" $("$pkg_config" --libs libmxfp)
	# shellcheck disable=SC2046
	[ ! -e "$libdir/libmxfp.a" ] ||
		client "$language" $("$pkg_config" --static --libs libmxfp | sed "s|-lmxfp|$libdir/libmxfp.a|")
done
for file in bash-completion/completions/mxfp fish/vendor_completions.d/mxfp.fish zsh/site-functions/_mxfp; do
	[ -n "$(find "$dir" -path "*/share/$file")" ] || {
		echo "not installed: share/$file"
		exit 1
	}
done
bindir=$("$pkg_config" --variable=exec_prefix libmxfp)/bin
[ ! -e "$dir$bindir/mxfp" ] || "$dir$bindir/mxfp" --version
