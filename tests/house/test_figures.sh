#!/bin/bash
# SPDX-License-Identifier: MIT
# The figures of README.md and doc/performance.md are those of bench/results, which say where they are from.
set -euo pipefail
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
source=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0

# copy: the pages, the results and the script, to be changed.
copy() {
	rm -rf "$dir/tree"
	mkdir -p "$dir/tree/doc" "$dir/tree/bench" "$dir/tree/scripts"
	cp "$source/README.md" "$dir/tree"
	cp "$source/doc/performance.md" "$dir/tree/doc"
	cp -r "$source/bench/results" "$dir/tree/bench"
	cp "$source/scripts/figures.py" "$dir/tree/scripts"
	chmod -R u+w "$dir/tree"
}

# refused WHAT TEXT: the changed copy is refused with a line that holds TEXT.
refused() {
	if python3 "$dir/tree/scripts/figures.py" --check >"$dir/out" 2>&1 || ! grep -qF -e "$2" "$dir/out"; then
		echo "$1: not refused with: $2"
		cat "$dir/out"
		failures=$((failures + 1))
	fi
}

python3 "$source/scripts/figures.py" --check || failures=$((failures + 1))

result=bench/results/xeon-tiers.json
copy
sed -i 's/\["mxfp8-e4m3 x mxfp4", .*, [0-9.]*,/["mxfp8-e4m3 x mxfp4", "512x4096x4096", 999, 150, 6.66,/' "$dir/tree/$result"
refused 'another result' 'README.md: figures differ'
copy
sed -i 's/^| W4A8.*/&9/' "$dir/tree/doc/performance.md"
refused 'a figure that was edited in a page' 'performance.md: figures differ'
copy
echo 'Products reach 300 GFLOP/s.' >>"$dir/tree/README.md"
refused 'a figure without a result' 'a measured speed that is not from bench/results: 0 GFLOP/s'
for key in machine commit date tool; do
	copy
	sed -i "/^ \"$key\"/d" "$dir/tree/$result"
	refused "a result without $key" "no \"$key\""
done
copy
sed -i 's/"times sgemm"/"of sgemm"/' "$dir/tree/$result"
refused 'a cell that is gone' 'no result xeon-tiers:'
[ $failures = 0 ]
