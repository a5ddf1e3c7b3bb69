#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp blocks: blocks worked out by hand from doc/numerics.md, sections 3 and 4; rows, tails, long rows; failures.
. "${srcdir:-.}/tests/cli/cli.shlib"

one=0000803f
# 32 of 1.75 and 64 and 33 of 1.
repeat 32 0000e03f >"$work/hex"
bytes "$(cat "$work/hex")" >"$work/x175"
bytes "$(repeat 64 $one)" >"$work/x64"
bytes "$(repeat 33 $one)" >"$work/x33"

# blocks CODES SCALES INPUT OPTION...: the bytes that are expected, in hex.
blocks() {
	wanted="$1 $2" input=$3
	shift 3
	exits 0 "" blocks "$@" --force "$input" "$work/c" "$work/s"
	same "blocks $*" "$wanted" "$(hex <"$work/c") $(hex <"$work/s")"
}

# amax 1.75 = 1.75 * 2^0, emax 2. floor: s = -2, 7 saturates to 6. The others: s = -1, 3.5 is a tie between 3 and 4.
# mse: the errors are equal (7 - 6 = 1 and 7 - 2 * 4 = -1), so the larger s.
blocks "$(repeat 16 77)" 7d "$work/x175" --to mxfp4 --cols 32 --rule floor
for rule in ceil even rceil trn3 mse; do
	blocks "$(repeat 16 66)" 7e "$work/x175" --to mxfp4 --cols 32 --rule $rule
done
blocks "$(repeat 16 66)" 7e "$work/x175" --to mxfp4 --cols 32
blocks "$(repeat 16 55)" 7e "$work/x175" --to mxfp4 --cols 32 --rule rceil --round rtz
# 1 in each format: the element is 2^emax.
blocks "$(repeat 32 66)" 7d7d "$work/x64" --to mxfp4 --cols 64 --rule floor
blocks "$(repeat 64 78)" 7777 "$work/x64" --to mxfp8-e4m3 --cols 64 --rule floor
blocks "$(repeat 64 78)" 7777 "$work/x64" --to mxfp8 --cols 32 --rule floor
blocks "$(repeat 64 78)" 7070 "$work/x64" --to mxfp8-e5m2 --cols 64 --rule floor
blocks "$(repeat 64 40)" 7f7f "$work/x64" --to mxint8 --cols 64 --rule floor
# e3m2: 16 is 011100; four codes are 3 bytes from the low bit up.
blocks "$(repeat 16 1cc771)" 7b7b "$work/x64" --to mxfp6-e3m2 --cols 64 --rule floor
# Tails: whole blocks are stored, zeros after the row.
blocks "$(repeat 16 66)06$(repeat 15 00)" 7d7d "$work/x33" --to mxfp4 --cols 33 --rule floor
blocks "$(repeat 3 "$(repeat 5 66)06$(repeat 10 00)")" 7d7d7d "$work/x33" --to mxfp4 --cols 11 --rule floor
# Stochastic: 4 sets s = 0, then 31 times 2.5, half-way between 2 (4) and 3 (5); words as in test_cast.sh.
bytes "00008040$(repeat 31 00002040)" >"$work/sr"
sr="--round sr --seed 0x0123456789abcdef --stream 0xfedcba9876543210"
blocks 46455455445544554454454445455544 7f "$work/sr" --to mxfp4 --cols 32 --rule floor $sr
# Zeros; nothing at all.
bytes "$(repeat 32 00000000)" >"$work/zeros"
blocks "$(repeat 16 00)" 00 "$work/zeros" --to mxfp4 --cols 32
: >"$work/empty"
blocks "" "" "$work/empty" --to mxfp4 --cols 32
# bf16 input.
bytes "$(repeat 32 803f)" >"$work/b32"
blocks "$(repeat 16 66)" 7d "$work/b32" --to mxfp4 --cols 32 --rule floor --from bf16

# NaN and Inf in the second row, column 2.
bytes "$(repeat 32 $one)$one${one}0000807f$(repeat 29 $one)" >"$work/inf"
blocks "$(repeat 16 66)$(repeat 16 00)" 7dff "$work/inf" --to mxfp4 --cols 32 --rule floor
exits 3 "row 1, column 2: NaN or Inf" blocks --to mxfp4 --cols 32 --non-finite error "$work/inf" "$work/nc" "$work/ns"
same "no output after a failure" "" "$(ls -A "$work" | grep -E '^\.?n[cs]')"
# saturate: FLT_MAX has e = 127; s = 125, byte fc; 1 is 0 there, the Inf 7.99... -> 6.
blocks "$(repeat 16 66)0007$(repeat 14 00)" 7dfc "$work/inf" --to mxfp4 --cols 32 --rule floor --non-finite saturate

# NVFP4: amax 2688 = 6 * 448 gives the tensor scale 1, block scale 448 (7e), elements 6.
bytes "$(repeat 16 00002845)" >"$work/n16"
exits 0 "" blocks --to nvfp4 --cols 16 --nvfp4-recipe te "$work/n16" "$work/c" "$work/s" --force
same "nvfp4" "7777777777777777 7e" "$(hex <"$work/c") $(hex <"$work/s")"
same "tensor scale" "tensor scale 1 (multiplies: --nvfp4-recipe te)" "$(cat "$work/out")"
exits 0 "" blocks --to nvfp4 --cols 16 --nvfp4-recipe te "$work/n16" "$work/c" "$work/s" --force --json
has "--json" "$(tr -d ' \n' <"$work/out")" '"amax":2688.0,"tensor_scale":1.0,"tensor_scale_divides":false,"recipe":"te"'
# amax 2688 in the second row only: the first pass must see it. Row 1 of 448 has block scale 448/6 -> 72 (69), and
# 448/72 = 6.2 -> 6.
bytes "$(repeat 16 0000e043)$(repeat 16 00002845)" >"$work/n32"
exits 0 "" blocks --to nvfp4 --cols 16 "$work/n32" "$work/c" "$work/s" --force
same "amax of the whole" "697e" "$(hex <"$work/s")"
exits 0 "" blocks --to nvfp4 --cols 16 "$work/n32" "$work/c" "$work/s" --force --json
has "--json" "$(tr -d ' \n' <"$work/out")" '"rows":2,"cols":16,"counts":{"elements":32,'
# By default as mxfp quantize: of amax 1344 the tensor scale 2688 / 1344 divides. Numbers of 1344 have the block scale
# 2 * (1344 / 6) = 448.
bytes "$(repeat 16 0000a844)" >"$work/n1344"
for recipe in "" "--nvfp4-recipe compressed-tensors"; do
	exits 0 "" blocks --to nvfp4 --cols 16 $recipe "$work/n1344" "$work/c" "$work/s" --force
	same "the usual recipe" "tensor scale 2 (divides: --nvfp4-recipe compressed-tensors)" "$(cat "$work/out")"
	same "the usual recipe" "7777777777777777 7e" "$(hex <"$work/c") $(hex <"$work/s")"
done
exits 0 "" blocks --to nvfp4 --cols 16 --decode --tensor-scale 2 --nvfp4-recipe compressed-tensors "$work/c" "$work/s"
same "and back" "$(repeat 16 0000a844)" "$(hex <"$work/out")"
code=0
bytes "$(repeat 16 00002845)" | "$mxfp" blocks --to nvfp4 --cols 16 - "$work/c2" "$work/s2" 2>"$work/err" || code=$?
same "exit code of nvfp4 from a pipe" 2 $code
has "nvfp4 from a pipe" "$(cat "$work/err")" "give --amax"
bytes "$(repeat 16 00002845)" | "$mxfp" blocks --to nvfp4 --cols 16 --amax 2688 - "$work/c2" "$work/s2" >"$work/out"
same "--amax" "tensor scale 1 (divides: --nvfp4-recipe compressed-tensors) 7e" "$(cat "$work/out") $(hex <"$work/s2")"

# Back. 6 * 448 * 2 = 5376.
bytes "$(repeat 16 66)" >"$work/c"
bytes 7d >"$work/s"
exits 0 "" blocks --to mxfp4 --cols 32 --decode "$work/c" "$work/s"
same "decode" "$(repeat 32 $one)" "$(hex <"$work/out")"
exits 0 "" blocks --to mxfp4 --cols 32 --decode --from bf16 "$work/c" "$work/s" "$work/d"
same "decode to bf16" "$(repeat 32 803f)" "$(hex <"$work/d")"
exits 0 "" blocks --to mxfp4 --cols 31 --decode "$work/c" "$work/s"
same "decode without the padding" "$(repeat 31 $one)" "$(hex <"$work/out")"
bytes 7777777777777777 >"$work/c"
bytes 7e >"$work/s"
exits 0 "" blocks --to nvfp4 --cols 16 --decode --tensor-scale 2 --nvfp4-recipe te "$work/c" "$work/s"
same "decode nvfp4" "$(repeat 16 0000a845)" "$(hex <"$work/out")"
exits 0 "" blocks --to nvfp4 --cols 16 --decode --tensor-scale 0.5 --nvfp4-recipe compressed-tensors "$work/c" "$work/s"
same "decode nvfp4 with a divisor" "$(repeat 16 0000a845)" "$(hex <"$work/out")"
exits 0 "" blocks --to nvfp4 --cols 16 --decode --amax 5376 --nvfp4-recipe te "$work/c" "$work/s"
same "decode nvfp4 by amax" "$(repeat 16 0000a845)" "$(hex <"$work/out")"
exits 2 "needs --tensor-scale and --nvfp4-recipe" blocks --to nvfp4 --cols 16 --decode --nvfp4-recipe te "$work/c" "$work/s"
exits 2 "needs --tensor-scale and --nvfp4-recipe" blocks --to nvfp4 --cols 16 --decode --tensor-scale 2 "$work/c" "$work/s"
exits 2 "needs --tensor-scale and --nvfp4-recipe" blocks --to nvfp4 --cols 16 --decode --amax 2 "$work/c" "$work/s"

# 300000 = 3125 * 96 numbers as one row, which is worked on in parts, and as rows of three blocks by one
# thread: the same bytes.
while [ "$(wc -c <"$work/empty")" -lt 1200000 ]; do
	cat "$mxfp" >>"$work/empty"
done
head -c 1200000 "$work/empty" >"$work/long"
for options in "--rule rceil" "--round sr --seed 5 --stream 9"; do
	exits 0 "" blocks --to mxfp6-e2m3 $options --cols 300000 --force "$work/long" "$work/c1" "$work/s1"
	exits 0 "" blocks --to mxfp6-e2m3 $options --cols 96 --threads 1 --force "$work/long" "$work/c2" "$work/s2"
	same "bytes of the codes" 225000 "$(wc -c <"$work/c1" | tr -d ' ')"
	same "codes of a long row ($options)" "" "$(cmp "$work/c1" "$work/c2" 2>&1)"
	same "scales of a long row ($options)" "" "$(cmp "$work/s1" "$work/s2" 2>&1)"
done
exits 0 "" blocks --to mxfp6-e2m3 --cols 300000 --decode "$work/c1" "$work/s1" "$work/d1"
exits 0 "" blocks --to mxfp6-e2m3 --cols 96 --decode --threads 1 "$work/c1" "$work/s1" "$work/d2"
same "a long row decoded" "" "$(cmp "$work/d1" "$work/d2" 2>&1)"
exits 0 "" blocks --to nvfp4 --cols 300000 "$work/long" "$work/c3" "$work/s3"
exits 0 "" blocks --to nvfp4 --cols 16 --threads 1 "$work/long" "$work/c4" "$work/s4"
same "nvfp4 codes of a long row" "" "$(cmp "$work/c3" "$work/c4" 2>&1)"

# Failures.
exits 2 "--to FORMAT is missing" blocks --cols 32 a b c
exits 2 "--cols K" blocks --to mxfp4 a b c
exits 2 "--cols K" blocks --to mxfp4 --cols 0 a b c
exits 2 "FILE CODES SCALES are needed" blocks --to mxfp4 --cols 32 a b
exits 2 "'e4m3' is not taken; give f32|bf16|f16" blocks --to mxfp4 --cols 32 --from e4m3 a b c
exits 2 "two files" blocks --to mxfp4 --cols 32 "$work/x64" - "$work/q"
for name in q ./q ../${work##*/}/q; do
	exits 2 "named for both" blocks --to mxfp4 --cols 32 "$work/x64" "$work/q" "$work/$name"
done
exits 2 "named for both" blocks --to mxfp4 --cols 32 --decode "$work/c1" "$work/c1"
# The name of the scales is taken meanwhile: no codes without them.
mkfifo "$work/fifo"
"$mxfp" blocks --to mxfp4 --cols 32 "$work/fifo" "$work/p" "$work/taken" 2>"$work/err" &
process=$!
exec 3>"$work/fifo"
cat "$work/x64" >&3
sleep 0.2
: >"$work/taken"
exec 3>&-
code=0
wait $process || code=$?
same "exit code when a name is taken meanwhile" 2 $code
has "a name taken meanwhile" "$(cat "$work/err")" "taken: exists"
for name in x64 ./x64; do
	exits 2 "x64: is the input" blocks --to mxfp4 --cols 32 "$work/x64" "$work/$name" "$work/q" --force
	exits 2 "x64: is the input" blocks --to mxfp4 --cols 32 "$work/x64" "$work/q" "$work/$name" --force
	exits 2 "x64: is the input" blocks --to mxfp4 --cols 32 --decode "$work/s1" "$work/x64" "$work/$name" --force
	exits 2 "x64: is the input" blocks --to mxfp4 --cols 32 --decode "$work/x64" "$work/s1" "$work/$name" --force
done
same "an input that was named as an output" "$(repeat 64 $one)" "$(hex <"$work/x64")"
exits 2 "has no tensor scale" blocks --to mxfp4 --cols 32 --amax 1 "$work/x64" "$work/p" "$work/q"
for number in x "" -1 inf nan 1e99; do
	exits 2 "--amax: '$number'" blocks --to nvfp4 --cols 32 --amax "$number" "$work/x64" "$work/p" "$work/q"
done
exits 2 "is for --decode" blocks --to nvfp4 --cols 32 --tensor-scale 1 "$work/x64" "$work/p" "$work/q"
exits 2 "takes only rne" blocks --to nvfp4 --cols 32 --nvfp4-recipe ggml --round rtz "$work/x64" "$work/p" "$work/q"
exits 2 "--rule: is for the MX formats" blocks --to nvfp4 --cols 32 --rule mse "$work/x64" "$work/p" "$work/q"
exits 2 "--nvfp4-recipe: is for nvfp4" blocks --to mxint8 --cols 32 --nvfp4-recipe te "$work/x64" "$work/p" "$work/q"
exits 2 "--via-bf16: is for the MX formats" blocks --to nvfp4 --cols 32 --via-bf16 "$work/x64" "$work/p" "$work/q"
exits 2 "give --force" blocks --to mxfp4 --cols 32 "$work/x64" "$work/c1" "$work/q"
exits 4 "cannot open" blocks --to mxfp4 --cols 32 "$work/none" "$work/p" "$work/q"
safetensors "$work/in.safetensors" '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' 0000803f
exits 3 "in.safetensors: is a file of format safetensors" blocks --to mxfp4 --cols 1 "$work/in.safetensors" "$work/p" "$work/q"
exits 3 "in.safetensors: is a file of format safetensors" blocks --to mxfp4 --decode --cols 32 "$work/in.safetensors" "$work/p" "$work/q"
exits 3 "33 numbers are not a whole number of rows of 32" blocks --to mxfp4 --cols 32 "$work/x33" "$work/p" "$work/q"
exits 3 "not a whole number of rows" blocks --to mxfp4 --cols 524288 "$work/long" "$work/p" "$work/q"
head -c 1048576 "$work/long" >"$work/half"
exits 3 "262144 numbers are not a whole number of rows" blocks --to mxfp4 --cols 524288 "$work/half" "$work/p" "$work/q"
exits 3 "not a whole number of rows" blocks --to nvfp4 --cols 32 "$work/x33" "$work/p" "$work/q"
bytes 0000803f00 >"$work/in1"
exits 3 "not a whole f32 number: 1 of 4 bytes" blocks --to mxfp4 --cols 32 "$work/in1" "$work/p" "$work/q"
same "no output after a failure" "" "$(ls -A "$work" | grep -E '^\.?[pq]')"
bytes "$(repeat 16 66)" >"$work/c"
bytes 7d7d >"$work/s"
exits 3 "more scales" blocks --to mxfp4 --cols 32 --decode "$work/c" "$work/s"
exits 3 "fewer scales" blocks --to mxfp4 --cols 32 --decode "$work/c" /dev/null
exits 3 "inside a row" blocks --to mxfp4 --cols 64 --decode "$work/c" "$work/s"

# What would be passed over silently is refused.
for option in "rule mse" "round rne" "non-finite error" no-negative-zero via-bf16 counts json "seed 1" "stream 1"; do
	exits 2 "blocks: --${option%% *}: is for " blocks --to mxfp4 --cols 32 --decode --$option codes scales
done
exits 2 "blocks: --seed: is for --round sr; leave it out" blocks --to mxfp4 --cols 32 --seed 0 a b c
exits 2 "blocks: --rule: is for the MX formats; leave it out" blocks --to nvfp4 --cols 32 --rule mse a b c
exits 2 "blocks: --nvfp4-recipe: is for nvfp4; leave it out" blocks --to mxfp4 --cols 32 --nvfp4-recipe te a b c
exits 2 "blocks: --tensor-scale: is for --decode; --amax" blocks --to nvfp4 --cols 32 --tensor-scale 1 a b c
# What an Inf becomes under saturate, as doc/numerics.md has it: clamped to largest * 2^(127 - emax) by floor, 127/64 * 2^127
# in MXINT8, and rounded up to 2^128, which is Inf, by the other rules. The least numbers: half of the least element times
# 2^-127 is a tie, which goes to zero and counts as flushed; the next number of f32 does not.
{
	bytes 0000807f
	head -c 124 /dev/zero
} >"$work/inf.f32"
while read -r format clamped tie above; do
	for rule in floor ceil even even-m1 rceil fit trn3 rne log-nearest mse; do
		exits 0 "saturated " blocks --to "$format" --cols 32 --rule $rule --non-finite saturate --counts --force "$work/inf.f32" "$work/c" "$work/s"
		has "$format $rule" "$error" "inf 1"
		exits 0 "" blocks --to "$format" --cols 32 --decode "$work/c" "$work/s" "$work/d" --force
		case $format$rule in
		mxint8* | *floor | *rne | *log-nearest) same "$format $rule" "$clamped" "$(head -c 4 "$work/d" | hex)" ;;
		*) same "$format $rule" 0000807f "$(head -c 4 "$work/d" | hex)" ;;
		esac
	done
	{
		bytes "$tie" "$above"
		head -c 120 /dev/zero
	} >"$work/least.f32"
	exits 0 "flushed 1," blocks --to "$format" --cols 32 --rule ceil --counts --force "$work/least.f32" "$work/c" "$work/s"
	same "$format: least scale" 00 "$(hex <"$work/s")"
	exits 0 "" blocks --to "$format" --cols 32 --decode "$work/c" "$work/s" "$work/d" --force
	same "$format: half of the least" 00000000 "$(head -c 4 "$work/d" | hex)"
	check "$format: the least" [ "$(head -c 8 "$work/d" | tail -c 4 | hex)" != 00000000 ]
done <<'END'
mxfp8-e4m3 0000607f 00100000 01100000
mxfp8-e5m2 0000607f 20000000 21000000
mxfp6-e3m2 0000607f 00000200 01000200
mxfp6-e2m3 0000707f 00000400 01000400
mxfp4 0000407f 00001000 01001000
mxint8 00007e7f 00800000 01800000
END
finish
