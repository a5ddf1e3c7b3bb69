#!/bin/sh
# SPDX-License-Identifier: MIT
# Every weight file and directory there is, in every format: quantized, decoded, and measured. What diff says of the
# decoded model is what report measured, and neither time nor threads change a byte.
. "${srcdir:-.}/tests/cli/cli.shlib"

weights=${MXFP_SHARED:-${srcdir:-.}/../shared}/weights
models="${srcdir:-.}/examples/charlm.safetensors"
if [ -d "$weights" ]; then
	models="$models $weights/*.safetensors $weights/*/*.safetensors $weights/*/sharded"
else
	echo "$weights is not there: only the model that is shipped is tested"
fi

# numbers FILE PATTERN: the numbers after "max_absolute..", "sqnr_db" and "relative_error" below the pattern, to 9
# digits.
numbers() {
	sed -n "/$2/,\$p" "$1" | tr -d ' \n' | tr ',{}' '\n\n\n' | awk -F: '
		/"max_absolute(_error)?":|"sqnr_db":|"relative_error":/ && !($1 in seen) {
			key = $1
			sub(/_error/, "", key)
			seen[$1] = 1
			printf "%s %.8e\n", key, $2
		}' | sort
}

for model in $models; do
	# Of large ones there are numbers, and no other ways through the code.
	[ $slow = no ] || [ "$(du -sm "$model" | cut -f1)" -le 8 ] || continue
	code=0
	"$mxfp" quantize "$model" -n --pad-tail >"$work/out" 2>"$work/error" || code=$?
	if [ $code != 0 ]; then
		has "$model" "$(cat "$work/error")" "$model: nothing is to be quantized: "
		continue
	fi
	for format in mxfp4 mxfp8-e4m3 mxfp8-e5m2 mxfp6-e2m3 mxfp6-e3m2 mxint8 nvfp4; do
		exits 0 "$(caution $format)" quantize "$model" -o "$work/q" --force -q --weights $format --pad-tail
		if [ $slow = no ]; then
			exits 0 "$(caution $format)" quantize "$model" -o "$work/again" --force -q --weights $format --pad-tail --threads 1
			diff -r "$work/q" "$work/again" || bad "$model: two runs differ"
		fi
		exits 0 "" dequantize "$work/q" -o "$work/back" --force -q
		"$mxfp" diff --json "$model" "$work/back" >"$work/diff" || same "exit code of diff" 1 $?
		exits 0 "" report "$model" --against "$work/q" --json --activation-rows 1
		same "$format of $model" "$(numbers "$work/diff" errors_of_differing)" "$(numbers "$work/out" '"weights": {')"
	done
	exits 0 "" quantize "$model" -o "$work/q" --force -q --round sr --seed 3 --pad-tail
	for threads in $(fewer "1 2 3" 3); do
		exits 0 "" quantize "$model" -o "$work/again" --force -q --round sr --seed 3 --pad-tail --threads $threads
		diff -r "$work/q" "$work/again" || bad "$model: $threads threads differ"
	done
done
finish
