#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp quantize --preset w4a8-mixed. Rows hold 6, another number and zeros, so under rule floor the scale is 1: 6 is
# exact and the other is rounded to even. 5 becomes 4: r = 1 / (36 + 25), 17.85 dB. 2.5 becomes 2:
# r = .25 / (36 + 6.25), 22.28 dB. 4 is exact. Each tensor has 4.25 bits a weight, promoted 8.25.
. "${srcdir:-.}/tests/cli/cli.shlib"

zeros=$(repeat 30 00000000)
five="0000c040 0000a040 $zeros" half="0000c040 00002040 $zeros" exact="0000c040 00008040 $zeros"

# model FILE NAME HEX...: F32 tensors [1,32].
model() {
	file=$1 json= all= at=0
	shift
	while [ $# -gt 0 ]; do
		json="$json${json:+,}\"$1\":{\"dtype\":\"F32\",\"shape\":[1,32],\"data_offsets\":[$at,$((at + 128))]}"
		all="$all $2" at=$((at + 128))
		shift 2
	done
	safetensors "$file" "{$json}" "$all"
}
# promoted BITS FILE: the promoted tensors, in order.
promoted() {
	exits 0 "" quantize "$2" -n --preset w4a8-mixed --rule floor --bits "$1"
	sed -n 's/^| \([^ ]*\).*promoted.*/\1/p' "$work/out" | tr '\n' ' '
}

model "$work/a.safetensors" a.weight "$half" b.weight "$exact" c.weight "$five"
same "one of three, 5.583" "c.weight " "$(promoted 5.6 "$work/a.safetensors")"
text=$(tr -s ' ' <"$work/out")
has "table" "$text" "| a.weight | F32 [1, 32] | mxfp4 | linear weight, 22.28 dB in mxfp4 | 4.250 |"
has "table" "$text" "| b.weight | F32 [1, 32] | mxfp4 | linear weight, inf dB in mxfp4 | 4.250 |"
has "table" "$text" "| c.weight | F32 [1, 32] | mxfp8-e4m3 | linear weight, 17.85 dB in mxfp4: promoted | 8.250 |"
same "none" "" "$(promoted 5.5 "$work/a.safetensors")"
same "two of three, 6.917" "a.weight c.weight " "$(promoted 6.95 "$work/a.safetensors")"
same "all" "a.weight b.weight c.weight " "$(promoted 8.25 "$work/a.safetensors")"
exits 2 "--bits 4.2: mxfp4 alone takes 4.2500 bits a weight, and mxfp8-e4m3 8.2500; give a number between them" \
	quantize "$work/a.safetensors" -n --preset w4a8-mixed --bits 4.2
exits 2 "--bits 8.3: mxfp4 alone takes" quantize "$work/a.safetensors" -n --preset w4a8-mixed --bits 8.3

# q and k are one layer of (1 / 61 + 0) / 2, more than .25 / 42.25. Where it does not fit, the next does.
model "$work/q.safetensors" x.k_proj.weight "$five" x.o_proj.weight "$half" x.q_proj.weight "$exact"
same "q and k do not fit" "x.o_proj.weight " "$(promoted 5.6 "$work/q.safetensors")"
same "q and k fit" "x.k_proj.weight x.q_proj.weight " "$(promoted 6.95 "$work/q.safetensors")"
text=$(tr -s ' ' <"$work/out")
has "table" "$text" "| x.q_proj.weight | F32 [1, 32] | mxfp8-e4m3 | linear weight, 20.86 dB in mxfp4: promoted |"
# Equal errors: by name. Experts are one layer, and take both.
experts='m.experts.0.w1.weight m.experts.1.w2.weight'
model "$work/e.safetensors" ${experts% *} "$half" ${experts#* } "$five" y.weight "$five" z.weight "$five"
same "by name" "y.weight " "$(promoted 5.3 "$work/e.safetensors")"
same "by name, two" "y.weight z.weight " "$(promoted 6.3 "$work/e.safetensors")"
same "experts" "$experts y.weight z.weight " "$(promoted 8.25 "$work/e.safetensors")"

# The output has what was decided, whatever the threads.
for threads in 1 3; do
	exits 0 "" quantize "$work/q.safetensors" -o "$work/$threads" --preset w4a8-mixed --bits 7 -r floor -q \
		--threads $threads
done
same "bytes by threads" "$(hex <"$work/1/model.safetensors")" "$(hex <"$work/3/model.safetensors")"
# Nor on parts, nor on memory. Two files of two tensors: of equal errors the names decide, whichever part has them.
mkdir "$work/two"
model "$work/two/a.safetensors" a.weight "$half" d.weight "$five"
model "$work/two/b.safetensors" b.weight "$half" c.weight "$exact"
echo '{"weight_map":{"a.weight":"a.safetensors","b.weight":"b.safetensors","c.weight":"b.safetensors",
"d.weight":"a.safetensors"}}' >"$work/two/model.safetensors.index.json"
same "a and d of four, 6.25" "a.weight d.weight " "$(promoted 6.3 "$work/two")"
mixed="--preset w4a8-mixed --bits 6.3 -r floor -q"
exits 0 "" quantize "$work/two" -o "$work/whole" $mixed
for part in 1 2; do
	exits 0 "" quantize "$work/two" -o "$work/p$part" $mixed --part $part/2
done
exits 0 "" merge "$work/p1" "$work/p2" -o "$work/merged" -q
same "merged parts" "" "$(diff -r "$work/whole" "$work/merged")"
# 64 MiB of text as bf16, in rows so long that some memory holds only a few at a time.
rows=$(fewer 128 16)
bytes=$((rows * 2 * 262144))
{
	header "{\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[$rows,262144],\"data_offsets\":[0,$bytes]}}"
	seq 1 9999999 | head -c $bytes
} >"$work/large.safetensors"
exits 0 "" quantize "$work/large.safetensors" -o "$work/large" $mixed
exits 2 "--mem: 6291456 bytes are too few to measure this model" quantize "$work/large.safetensors" -o "$work/little" $mixed --mem 6M
least=${error##*--mem }
exits 0 "" quantize "$work/large.safetensors" -o "$work/little" $mixed --mem "${least% or more}"
same "with least memory" "" "$(diff -r "$work/large" "$work/little")"
exits 0 "" inspect "$work/1"
has "promoted" "$(tr -s ' ' <"$work/out")" "x.q_proj.weight F8_E4M3 32 [1, 32]"
has "not promoted" "$(tr -s ' ' <"$work/out")" "x.o_proj.weight_packed U8 16 [1, 16]"

exits 2 "--preset w4a8-mixed needs --bits" quantize "$work/a.safetensors" -n --preset w4a8-mixed
exits 2 "--bits is for --preset w4a8-mixed" quantize "$work/a.safetensors" -n --bits 5
exits 2 "invalid --bits 'five': expected a number" quantize "$work/a.safetensors" -n --preset w4a8-mixed --bits five
exits 2 "invalid --bits 'nan': expected a number" quantize "$work/a.safetensors" -n --preset w4a8-mixed --bits nan
finish
