#!/bin/bash
# SPDX-License-Identifier: MIT
# Times mxfp quantize of a bf16 file against cp of that file and sync of the copy, alternating, from a warm cache:
# medians, their ratio, and the most memory that mxfp held. Exit 1 if the ratio is above 1.5 or the memory above 64 MiB.
# Run from the build tree; needs three times the file's size beside it.
# usage: bench/quantize_file.sh [MEBIBYTES [RUNS [mxfp quantize option]...]]
set -euo pipefail
export LC_ALL=C
mebibytes=${1:-1024} runs=${2:-5}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- --rule mse --threads 2

work=$(mktemp -d bench-quantize-XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
model=$work/model.safetensors

seconds_since() {
	awk -v start="$1" -v end="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", end - start }'
}

median() {
	sort -n "$1" | awk '{ x[NR] = $1 } END { printf "%.3f", (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'
}

# Each removes what it wrote, which its time does not count; the cache is that of a file read once.
copy() {
	local start=$EPOCHREALTIME
	cp "$model" "$work/copy"
	sync "$work/copy"
	seconds_since "$start" >>"$work/copy.seconds"
	rm "$work/copy"
}

quantize() {
	local start=$EPOCHREALTIME
	"$mxfp" quantize "$model" -o "$work/quantized" --quiet "$@"
	seconds_since "$start" >>"$work/quantize.seconds"
	rm -r "$work/quantized"
}

mxfp=${MXFP:-./mxfp}
"${MXFP_BENCH_MODEL:-bench/model}" "$model" "$mebibytes"
sync "$model"
cat "$model" >/dev/null
for ((i = 0; i < runs; i++)); do
	copy
	quantize "$@"
done
memory=$(/usr/bin/time -f %M "$mxfp" quantize "$model" -o "$work/quantized" --quiet "$@" 2>&1)

copied=$(median "$work/copy.seconds") quantized=$(median "$work/quantize.seconds")
ratio=$(awk -v a="$quantized" -v b="$copied" 'BEGIN { printf "%.2f", a / b }')
echo "bf16 file of $mebibytes MiB, $* ($runs runs, medians)"
echo "cp and sync   $copied s ($(sort -n "$work/copy.seconds" | sed -n '1p;$p' | paste -sd '-'))"
echo "mxfp quantize $quantized s ($(sort -n "$work/quantize.seconds" | sed -n '1p;$p' | paste -sd '-'))"
echo "ratio         $ratio (at most 1.5)"
echo "memory        $((memory / 1024)) MiB (at most 64)"
awk -v ratio="$ratio" -v memory="$memory" 'BEGIN { exit !(ratio <= 1.5 && memory <= 65536) }'
