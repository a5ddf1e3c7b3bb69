#!/bin/bash
# SPDX-License-Identifier: MIT
# Times this tree beside an earlier commit, in turns, and says what became slower: --help has the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build.shlib

usage() {
	cat <<'END'
usage: scripts/compare-speed.sh [OPTION]... [OLD [NEW]]

Builds the library and the command of commit OLD and of commit NEW in build-speed/ and times them in turns on one
processor: products, quantizing, decoding, functions, row operations, attention, and the command on a model of 256 MB.
A row is how many times as fast NEW is, the median over pairs of neighbouring turns. One below 0.97 is measured again, with
more turns, and has fallen if it still is.

OLD is by default the last tag, else the commit of a week ago, else the first one. NEW is by default this tree, with what is
not committed. What either cannot do is listed, and no failure. A commit is built once, which takes minutes of its own.

  --seconds N          time for all rows [280]
  --pairs N            pairs of turns of a row, at most [61]
  --below RATIO        what has fallen [0.97]
  --only TEXT          only rows whose names contain TEXT, such as 'product w4a8' or 'L2'; may be repeated
  --cpu N              run on processor N [the last that it may use]
  --table FILE         write the ratio of every row [build-speed/OLD-NEW.tsv]
  --archive FILE.tar.xz
                       time nothing: write both libraries and commands, the driver, and the shared libraries they need; on any
                       Linux of this architecture, "tar xf FILE.tar.xz && compare-speed/run" then times them. run takes
                       the options above, but for --archive

The compiler is $CC [gcc], its flags $CFLAGS [-O2]; with ccache they go through it.
Needs 900 MB of disk for the trees and what the command writes, and 1.5 GB of memory.
Exit status: 0; 1 if a row has fallen; 2 if it cannot be found out: misuse, or a commit that does not build.
END
}

fail() {
	printf 'compare-speed.sh: %s\n' "$*" >&2
	exit 2
}

top=$PWD/build-speed
archive='' table='' commits=() options=()
while [ $# -gt 0 ]; do
	case $1 in
	--help | -h) usage; exit ;;
	--archive | --table | --seconds | --pairs | --below | --only | --cpu)
		[ $# -ge 2 ] || fail "$1 needs a value"
		case $1 in
		--archive) archive=$2 ;;
		--table) table=$2 ;;
		*) options+=("$1" "$2") ;;
		esac
		shift
		;;
	-*) usage >&2; fail "no option $1" ;;
	*) commits+=("$1") ;;
	esac
	shift
done
[ ${#commits[@]} -le 2 ] || fail 'more than two commits'

# The last tag, else the commit of a week ago, else the first one.
default_commit() {
	git describe --tags --abbrev=0 2>/dev/null && return
	local week
	week=$(git rev-list -1 --before='7 days ago' HEAD)
	echo "${week:-$(git rev-list --max-parents=0 HEAD | tail -n 1)}"
}

compiler=${CC:-gcc}
flags=${CFLAGS:--O2}
if [[ $compiler != ccache* ]] && command -v ccache >/dev/null; then
	export CCACHE_BASEDIR=$top CCACHE_NOHASHDIR=1
	cached="ccache $compiler"
else
	cached=$compiler
fi

# source_of_commit COMMIT DIR: its files, once.
source_of_commit() {
	[ ! -e "$2/source/configure.ac" ] || return 0
	mkdir -p "$2/source"
	git archive "$1" | tar -x -C "$2/source"
}

# source_of_tree DIR: the files of this tree that git does not ignore, with their times, so that make builds what changed.
source_of_tree() {
	local file
	mkdir -p "$1/source"
	git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
		[ ! -e "$file" ] || printf '%s\0' "$file"
	done | sort -zu >"$1/files"
	[ ! -e "$1/copied" ] || comm -z -13 "$1/files" "$1/copied" | (cd "$1/source" && xargs -0r rm -f)
	tar -c --null -T "$1/files" | tar -x -C "$1/source"
	mv "$1/files" "$1/copied"
}

# build DIR: from DIR/source, libmxfp.a of the objects that a shared library has, and the command; make builds what changed.
build() {
	local key
	key="$compiler $flags $($compiler --version | head -n 1)"
	[ "$(cat "$1/key" 2>/dev/null)" = "$key" ] || rm -rf "$1/build"
	mkdir -p "$1/build"
	echo "$key" >"$1/key"
	(cd "$1/source" && prepare_configure) || return 1
	(
		cd "$1/build" &&
			{ [ -e Makefile ] || ../source/configure -q --enable-static --disable-shared --with-pic CC="$cached" CFLAGS="$flags"; } &&
			make -s "-j$(nproc)" libmxfp.la &&
			{ ! grep -q '^mxfp[$](EXEEXT):' Makefile || make -s "-j$(nproc)" mxfp; } # the first commits have no command
	) >"$1/log" 2>&1 || return 1
}

# link_side DIR: DIR/side.so, the rows of its own bench/compare or else of this tree's, and its library; DIR/mxfp.
link_side() {
	local rows=$1/source/bench/compare group groups='' objects=() libs
	[ -e "$rows/side.c" ] || rows=bench/compare
	# shellcheck disable=SC2206 # words
	local compile=($compiler -std=gnu11 $flags -fPIC -fvisibility=hidden "-I$1/source/include" "-I$1/source/lib")
	rm -f "$1"/rows_*.o
	: >"$1/rows.log"
	# What is in front is timed first, whatever the time does to the rest.
	for group in "$rows"/rows_products.c "$rows"/rows_*.c; do
		group=$(basename "$group" .c)
		[ ! -e "$1/$group.o" ] || continue
		if "${compile[@]}" -c "$rows/$group.c" -o "$1/$group.o" 2>>"$1/rows.log"; then
			groups+=" GROUP(${group#rows_})" objects+=("$1/$group.o")
		elif [ "$rows" != bench/compare ]; then
			return 1 # a commit's own rows are of its own API
		fi
	done
	# shellcheck disable=SC1091,SC2154 # libtool writes it in shell
	libs=$(. "$1/build/libmxfp.la" && echo "$inherited_linker_flags $dependency_libs")
	# The code is that of libmxfp.so; none of its names leaves the object, so that two can be in one process.
	# shellcheck disable=SC2086 # words
	"${compile[@]}" "-DSPEED_GROUPS=$groups" -shared -o "$1/side.so" "$rows/side.c" "${objects[@]}" "$1/build/.libs/libmxfp.a" \
		-Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,defs $libs -pthread -lm 2>>"$1/rows.log" || return 1
	strip --strip-unneeded "$1/side.so"
	[ ! -e "$1/build/mxfp" ] || strip --strip-unneeded -o "$1/mxfp" "$1/build/mxfp"
}

# prepare COMMIT: sets directory and name; builds. An empty COMMIT is this tree.
prepare() {
	local hash
	if [ -z "$1" ]; then
		name=$(git describe --always --dirty --exclude '*') directory=$top/tree
		stage "building this tree, $name"
		source_of_tree "$directory"
	else
		hash=$(git rev-parse -q --verify "$1^{commit}") || fail "no commit $1"
		name=$(git rev-parse --short=7 "$hash") directory=$top/${hash:0:12}
		stage "building $name of $(git log -1 --format=%cs "$hash")"
		source_of_commit "$hash" "$directory"
	fi
	build "$directory" || { tail -n 20 "$directory/log" >&2; fail "$name does not build: $directory/log"; }
	link_side "$directory" || { tail -n 20 "$directory/rows.log" >&2; fail "the rows of $name do not link"; }
}

# link_driver DIR: DIR/compare, with what config.h of a build says.
link_driver() {
	$compiler -std=c11 -O2 "-I$1/build" -Ibench -Ibench/compare -o "$top/compare" \
		bench/compare/{compare,objects,turns,command,report}.c bench/{numbers,samples}.c -ldl -lm
	strip "$top/compare"
}

# write_archive FILE: everything below compare-speed/. The loader is started by its path, so nothing of the machine is used.
write_archive() {
	local work to side loader files
	work=$(mktemp -d "$top/archive-XXXXXX")
	to=$work/compare-speed
	loader=$(basename "$(ldd "$top/compare" | grep -oE '/[^ ]*/ld-[^ ]*')")
	mkdir -p "$to/lib"
	cp "$top/compare" "$to"
	for side in old new; do
		mkdir "$to/$side"
		cp "${!side}/side.so" "$to/$side"
		[ -e "${!side}/mxfp" ] || continue
		cp "${!side}/mxfp" "$to/$side/mxfp.bin"
		cat >"$to/$side/mxfp" <<-END
			#!/bin/sh
			exec "\${0%/*}/../lib/$loader" --library-path "\${0%/*}/../lib" "\${0%/*}/mxfp.bin" "\$@"
		END
		chmod +x "$to/$side/mxfp"
	done
	mapfile -t files < <(ldd "$to/compare" "$to"/*/{side.so,mxfp.bin} 2>/dev/null |
		awk '$2 == "=>" && $3 ~ "^/" { print $3 } $1 ~ "^/" && $2 ~ "^[(]" { print $1 }' | sort -u)
	cp -L "${files[@]}" "$to/lib"
	cat >"$to/run" <<-END
		#!/bin/sh
		# Times $name_new beside $name_old: run --help.
		here=\$(cd "\$(dirname "\$0")" && pwd) || exit 2
		work=\$(mktemp -d) || exit 2
		trap 'rm -rf "\$work"' EXIT
		"\$here/lib/$loader" --library-path "\$here/lib" "\$here/compare" --names $name_old,$name_new --work "\$work" "\$@" \\
			"\$here/old" "\$here/new"
	END
	chmod +x "$to/run"
	tar -C "$work" -c compare-speed | xz -9 >"$1"
	rm -rf "$work"
	echo "$1: $(($(stat -c %s "$1") / 1024)) KiB; tar xf $(basename "$1") && compare-speed/run"
}

git rev-parse -q --verify HEAD >/dev/null || fail 'this is not a git repository'
mkdir -p "$top"
[ ${#commits[@]} -gt 0 ] || commits=("$(default_commit)")
prepare "${commits[0]}"
old=$directory name_old=$name
prepare "${commits[1]-}"
new=$directory name_new=$name
# The loader opens a file once, so a commit beside itself needs a second one.
if [ "$old" = "$new" ]; then
	new=$top/again
	mkdir -p "$new"
	cp "$old/side.so" "$new"
	[ ! -e "$old/mxfp" ] || cp "$old/mxfp" "$new"
fi
link_driver "$directory"
if [ -n "$archive" ]; then
	write_archive "$archive"
	exit
fi
work=$(mktemp -d "$top/work-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
stage 'timing'
status=0
"$top/compare" --names "$name_old,$name_new" --work "$work" --table "${table:-$top/$name_old-$name_new.tsv}" "${options[@]}" \
	"$old" "$new" || status=$?
[ $status -le 1 ] || status=2
exit $status
