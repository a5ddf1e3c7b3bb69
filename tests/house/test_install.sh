#!/bin/bash
# SPDX-License-Identifier: MIT
# A program finds the installed library through pkg-config: as C and C++, shared and static. The command includes and calls
# nothing of the library but what is installed and what lib/internal.h declares. Without it (--disable-tools), configuring and
# building ask for no other library. Installed pages link to what is installed.
set -euo pipefail
srcdir=${srcdir:-$(dirname "$0")/../..}
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

# Compiles the client as language $1 with the command $2 from doc/library.md, and runs it.
cp "$srcdir/tests/house/install_client.c" "$dir/program.c"
client() {
	cc() {
		local source=$1
		shift
		# shellcheck disable=SC2086 # several words
		command ${CC:-cc} -x "$language" "$source" -x none "$@"
	}
	pkg-config() {
		command "${PKG_CONFIG:-pkg-config}" "$@"
	}
	local language=$1
	(cd "$dir" && eval "$2" && LD_LIBRARY_PATH=$libdir ./a.out)
}

mapfile -t lines < <(sed -n 's/^    \(cc program\.c .*\)/\1/p' "$srcdir/doc/library.md")
if [ ${#lines[@]} != 2 ] || [[ ${lines[1]} != *--static* ]]; then
	echo 'doc/library.md does not have two lines that compile program.c, for a shared and for a static library'
	exit 1
fi
languages=(c c++)
# shellcheck disable=SC2086
${CC:-cc} -x c++ -fsyntax-only /dev/null 2>/dev/null || languages=(c)
for language in "${languages[@]}"; do
	[ ! -e "$libdir/libmxfp.so" ] || client "$language" "${lines[0]}"
done

# libmxfp-engine brings libmxfp with it; a library of all functions has no hole.
if [ -e "$libdir/libmxfp-engine.so" ]; then
	# shellcheck disable=SC2046,SC2086 # several words
	${CC:-cc} -std=c11 -shared -fPIC -Wl,-z,defs "$srcdir/tests/house/install_api.c" \
		$(${PKG_CONFIG:-pkg-config} --cflags --libs libmxfp-engine) -o "$dir/api.so"
fi

# A page links to nothing that is not installed beside it.
docs=$(dirname "$(find "$dir" -name SECURITY.md)")
while IFS=: read -r page link; do
	[ -e "$docs/${page%/*}/$link" ] || {
		echo "$page links to $link, which is not installed"
		exit 1
	}
done < <(cd "$docs" && find . -name '*.md' -exec grep -HoE '\]\([^)#: ]+[)#]' {} + | sed 's/](\(.*\).$/\1/')

# The whole interface, with the warnings that a strict user has on.
includedir=$(dirname "$(find "$dir" -name mxfp.h)")
while read -r name; do
	grep -q "\<$name(" "$srcdir/tests/house/install_api.c" || {
		echo "tests/house/install_api.c does not call $name()"
		exit 1
	}
done < <(sed -n 's/^MXFP_API.*[ *]\(mxfp_[a-z0-9_]*\)(.*/\1/p' "$includedir"/mxfp/*.h)
# shellcheck disable=SC2086 # CC may hold options
${CC:-cc} -std=c11 -Wall -Wextra -Wconversion -pedantic -Werror "-I$includedir" -fsyntax-only "$srcdir/tests/house/install_api.c"
if [ ${#languages[@]} = 2 ]; then
	# shellcheck disable=SC2086
	${CC:-cc} -x c++ -std=c++11 -Wall -Wextra -pedantic -Werror "-I$includedir" -fsyntax-only "$srcdir/tests/house/install_api.cc"
fi

mkdir "$dir/internal"
cp "$srcdir/lib/internal.h" "$dir/internal"
mapfile -t folders < <(find "$srcdir/tools" "$srcdir/bench" tools -type d ! -name '.*' -printf '-I%p\n')
# shellcheck disable=SC2086
find "$srcdir/tools" "$srcdir/bench" -name '*.c' ! -path '*/peers/*' ! -path '*/compare/*' -print0 |
	xargs -0 -n 20 -P 2 ${CC:-cc} ${TOOLS_CFLAGS-} -w -std=gnu11 -fsyntax-only -I. "-I$includedir" "-I$dir/internal" "${folders[@]}" \
		-DLIMITS=limits_ref -DPEAK=peak_ref -DTIER_REF
called=$(${NM:-nm} -u tools/mxfp-mxfp.o libtools.a libtools-lanes-*.a libbench.a libbench-limits-*.a |
	sed -n 's/^ *U \(mxfp_[a-z0-9_]*\)$/\1/p' | sort -u)
declared=$(cat "$includedir"/mxfp/*.h "$srcdir/lib/internal.h" | sed -n 's/^[a-zA-Z].*[ *]\(mxfp_[a-z0-9_]*\)(.*/\1/p' | sort -u)
hidden=$(comm -23 <(echo "$called") <(echo "$declared"))
[ -z "$hidden" ] || {
	printf '%s: called by the command, but neither installed nor in lib/internal.h\n' "$hidden"
	exit 1
}

rm -f "$libdir"/libmxfp.so*
for language in "${languages[@]}"; do
	[ ! -e "$libdir/libmxfp.a" ] || client "$language" "${lines[1]}"
done
for file in bash-completion/completions/mxfp fish/vendor_completions.d/mxfp.fish zsh/site-functions/_mxfp; do
	[ -n "$(find "$dir" -path "*/share/$file")" ] || {
		echo "not installed: share/$file"
		exit 1
	}
done
program=$(find "$dir" -path '*/bin/mxfp')
[ -z "$program" ] || "$program" --version

mkdir "$dir/alone"
top=$(cd "$srcdir" && pwd)
(cd "$dir/alone" && PKG_CONFIG=false "$top/configure" -q --disable-tools CC="${CC:-cc}" && ${MAKE:-make} -n install) \
	>"$dir/log" 2>&1 || {
	tail "$dir/log"
	exit 1
}
if grep -E 'tools/|bench/|jansson|pcre2|utf8proc|xxhash|sleef' "$dir/log"; then
	echo '--disable-tools builds more than the library'
	exit 1
fi
