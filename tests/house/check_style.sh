#!/bin/bash
# SPDX-License-Identifier: MIT
# Checks those rules of HACKING.md that a script can check: the form of every source file, and that files which belong
# together exist. Prints each violation as FILE:LINE: WHAT. Works in a checkout and in an unpacked tarball.
set -euo pipefail
cd "${srcdir:-$(dirname "$0")/../..}"

violations=0

# Reads "FILE:LINE:..." lines and reports each as a violation called $1.
report() {
	local line
	while IFS= read -r line; do
		echo "${line%%:*}:$(cut -d: -f2 <<<"$line"): $1"
		violations=$((violations + 1))
	done
}

folders=()
for folder in include lib ref simd tools tests fuzz bench examples conformance doc scripts python; do
	[ ! -d "$folder" ] || folders+=("$folder")
done
# What pip builds in python/ is no source.
find_sources() {
	find "${folders[@]}" \( -path python/build -o -path python/dist -o -path python/libmxfp \) -prune -o \( "$@" \) -print | sort
}
mapfile -t code < <(find_sources -name '*.[ch]' -o -name '*.def')
mapfile -t scripts < <(find_sources -name '*.sh' -o -name '*.shlib')
mapfile -t python < <(find_sources -name '*.py')
mapfile -t build < <(find_sources -name Makefile.inc)
mapfile -t pages < <(find doc -name '*.[13]' | sort)
build+=(configure.ac Makefile.am libmxfp.pc.in libmxfp-engine.pc.in)
mapfile -t web < <(find_sources -name '*.js' -o -name '*.css' -o -name '*.html')
texts=(README.md HACKING.md NEWS doc/*.md)
programs=("${code[@]}" "${scripts[@]}" "${python[@]}" "${web[@]}")
sources=("${programs[@]}" "${build[@]}" "${pages[@]}")
all=("${sources[@]}" "${texts[@]}")

# Characters.
report 'trailing blank' < <(grep -nHE '[[:blank:]]+$' "${all[@]}")
report 'blank before a tab' < <(grep -nHP ' \t' "${all[@]}")
report 'control character' < <(LC_ALL=C grep -nHaP '[\x00-\x08\x0B-\x1F\x7F]' "${all[@]}")
report 'invisible character' < <(LC_ALL=C grep -nHaP \
	'\xC2[\x80-\xA0\xAD]|\xE2\x80[\x8B-\x8F\xA8-\xAE]|\xE2\x81[\xA0-\xAF]|\xEF\xBB\xBF|\xF3\xA0[\x80-\x81]' "${all[@]}")
# grep counts a last line without a newline too, wc does not.
report 'no newline at the end' < <(diff <(grep -c '' "${all[@]}") <(wc -l "${all[@]}" | sed -nE '$!s/^ *([0-9]+) (.*)/\2:\1/p') |
	sed -n 's/^< \(.*\):[0-9]*$/\1:0/p')

# Required and forbidden content.
report 'no SPDX line at the top' < <(awk '
	/SPDX-License-Identifier: MIT/ { has[FILENAME] = 1 }
	FNR == 2 { nextfile }
	END { for (i = 1; i < ARGC; i++) if (!(ARGV[i] in has)) print ARGV[i] ":1" }' "${sources[@]}")
report 'unfinished work' < <(grep -nHwE 'TO''DO|FIX''ME|XX''X|HA''CK' "${sources[@]}")
report 'disabled code' < <(grep -nHE '^[[:blank:]]*#[[:blank:]]*if 0' "${code[@]}")
report 'comment with //' < <(grep -nHE '(^|[^:"])//' "${code[@]}")
report 'path of one machine' < <(grep -nHE '(^|[^a-z])/(wor''k|root|home/[a-z]+)(/|[^a-z/]|$)' "${all[@]}")
report 'name says nothing' < <(for file in "${all[@]}"; do
	name=${file##*/}
	name=${name%%.*}
	[[ ! _${name//-/_}_ =~ _(utils?|misc|common|helpers?|old|new|tmp|v?[0-9]+)_ ]] || echo "$file:0"
done)
report 'not executable' < <(for file in "${scripts[@]}"; do [[ -x $file || $file == *.shlib ]] || echo "$file:0"; done)
intrinsic='_mm[0-9]*_|__m(128|256|512)|__builtin_(ia32|cpu)|(^|[^a-z_])v(ld|st)[1-4]q?_|intrin\.h|arm_neon|cpuid|HWCAP'
machine='__asm|(^|[^a-z_])asm[^a-z]|__(ARM|AVX|SSE|i386|x86_64|aarch64|riscv)'
report 'instruction set outside its place' < <(grep -nHE "$intrinsic|$machine" "${code[@]}" |
	grep -vE '^(simd/|conformance/arm\.c|bench/machine\.h|lib/cpu_[a-z0-9]*\.c|lib/isa\.def)')

# Files that belong together.
report 'no such file' < <(grep -noE '`[a-z]+/[A-Za-z0-9_./-]+`' HACKING.md | tr -d '`' | while IFS=: read -r line path; do
	[ -e "$path" ] || echo "HACKING.md:$line"
done)
declare -A built
for word in $(cat "${build[@]}"); do built[$word]=1; done
report 'in no Makefile.inc' < <(for file in "${code[@]}"; do
	place=%D%/${file#*/}
	[ -n "${built[$file]-}${built[${file%.c}]-}${built[$place]-}${built[${place%.c}]-}" ] || echo "$file:0"
done)
report 'page of a function not in doc/Makefile.inc, or of none' < <(comm -3 \
	<(awk -v list=1 -f scripts/pages.awk doc/libmxfp.3 include/mxfp/*.h | sort) \
	<(grep -o '%D%/mxfp_[a-z0-9_]*\.3' doc/Makefile.inc | sed 's/^%D%.//; s/\.3$//' | sort) | sed 's/[[:blank:]]//g; s/$/:0/')
report 'name not in doc/libmxfp.3' < <(for file in lib/format.def lib/option.def; do
	sed -nE 's/^MXFP_[A-Z_]+\([^"]*"([^"]*)".*/\1/p' $file |
		while read -r name; do grep -qwF -e "$name" doc/libmxfp.3 || echo "$file:0:$name"; done
done)
report 'no page doc/mxfp-VERB.1' < <(for file in tools/cli/cmd_*.c; do
	verb=$(basename "${file#tools/cli/cmd_}" .c)
	[ -e "doc/mxfp-${verb//_/-}.1" ] || echo "$file:0"
done)
report 'no test or no fuzzer of this file format' < <(for file in tools/io/file_*.c; do
	format=${file#tools/io/file_}
	[[ $format == *_* ]] || [[ -e tests/unit/test_file_$format && -e fuzz/fuzz_file_$format ]] || echo "$file:0"
done)

[ $violations = 0 ] || echo "$violations violations"
[ $violations = 0 ]
