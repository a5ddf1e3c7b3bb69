#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp cast: codes worked out by hand from doc/numerics.md, sections 1 and 2; streams; counts; failures.
. "${srcdir:-.}/tests/cli/cli.shlib"

# cast EXPECTED INPUT OPTION...: both in hex, words little-endian.
cast() {
	expected=$1 input=$2
	shift 2
	same "cast $* of $input" "$expected" "$(bytes "$input" | "$mxfp" cast "$@" | hex)"
}

# e4m3: 464 is the tie beyond 448 and goes to even; 465 is past it.
cast 7e 0000e843 --to e4m3
cast 7e 0000e843 --to e4m3 --overflow ovf
cast 7e 0080e843 --to e4m3
cast 7f 0080e843 --to e4m3 --overflow ovf
cast 7e 0080e843 --to e4m3fn --overflow sat
cast 7e 0080e843 --to e4m3 --overflow ovf --round rtz
cast 38b8 0000803f000080bf --to e4m3
cast 80 00000080 --to e4m3
cast 00 00000080 --to e4m3 --no-negative-zero
cast 7fff 0000c07f010080ff --to e4m3
cast 7efe 0000807f000080ff --to e4m3
cast 7fff 0000807f000080ff --to e4m3 --overflow ovf
# 17 and -17 lie half-way between 16 (58) and 18 (59).
cast 58d8 00008841000088c1 --to e4m3 --round rne
cast 59d9 00008841000088c1 --to e4m3 --round rna
cast 58d8 00008841000088c1 --to e4m3 --round rhz
cast 58d8 00008841000088c1 --to e4m3 --round rtz
cast 59d8 00008841000088c1 --to e4m3 --round rtp
cast 58d9 00008841000088c1 --to e4m3 --round rtn
# e5m2: 61440 is the tie beyond 57344 and overflows.
cast 7b 00007047 --to e5m2
cast 7c 00007047 --to e5m2 --overflow ovf
cast 7e 0000c07f --to e5m2
# e2m1: 7 saturates to 6; 5 is a tie between 4 and 6, 0.25 and -0.25 between 0 and +-0.5.
cast 0706 0000e0400000a040 --to e2m1
cast 0008 0000803e000080be --to e2m1
cast 0000 0000803e000080be --to e2m1 --no-negative-zero
cast 07 0000c07f --to e2m1
# The largest finite value of the others; int8 is 2^-6 times the code and has no -128.
cast 1f 0000e041 --to e3m2
cast 1f 0000f040 --to e2m3
cast 40c07f81 0000803f000080bf00000040000000c0 --to int8
# e8m0: 1, 1.5 (tie up), 2^-127, -1, Inf.
cast 7f8000fffe 0000803f0000c03f00004000000080bf0000807f --to e8m0
cast 387f 0000803f000080bf --to ue4m3
cast 7777 0000704300007043 --to e4m3ieee
# FNUZ: 248 saturates or is NaN, 80; -0 and -2^-11 are 00, in any case.
cast 7f80 0000704300007843 --to e4m3fnuz --overflow ovf
cast 7f0000 0000784300000080000000ba --to e4m3fnuz
# Wider formats are little-endian words. 65520 overflows f16; 1 + 2^-11 is a tie in tf32.
cast 803f 0000803f --to bf16
cast 003c007c 0000803f00f07f47 --to f16
cast 0000803f 0010803f --to tf32
# --overflow sat: what always saturates does so, and Inf gives way to the largest of bf16 (7f7f), f16 (7bff) and tf32 (7f7fe000).
# 465, -465, Inf, FLT_MAX; f16: 65520 rounds to Inf, the number below it to 65504.
big=0080e8430080e8c30000807fffff7f7f
cast 1f3f1f1f $big --to e2m3 --overflow sat
cast 1f3f1f1f $big --to e3m2 --overflow sat
cast 070f0707 $big --to e2m1 --overflow sat
cast 7f817f7f $big --to int8 --overflow sat
cast 7f7f7fff7f7f7fff 0000807f000080ff00807f7f00807fff --to bf16 --overflow sat
cast 807f80ff807f80ff 0000807f000080ff00807f7f00807fff --to bf16 --overflow ovf
cast ff7bfffbff7bff7bfffb 00f07f4700f07fc70000807fffef7f47000080ff --to f16 --overflow sat
cast 00e07f7f00e07fff00e07f7f00e07f7f ffff7f7fffff7fff0000807fffef7f7f --to tf32 --overflow sat
cast 7f7f7fff 00f07f7f00f07fff --from tf32 --to bf16 --overflow sat
cast ff7b 807f --from bf16 --to f16 --overflow sat
cast c07f 0000c07f --to bf16 --overflow sat
cast 38 803f --from bf16 --to e4m3
cast 38 003c --from f16 --to e4m3

# Back.
cast 0000e0430000c07f 7e7f --to e4m3 --decode
cast 0000c0400000c0c0 070f --to e2m1 --decode
cast 0000807f 7c --to e5m2 --decode
cast 000040000000007f0000c07f 00feff --to e8m0 --decode
cast e043 7e --to e4m3 --decode --from bf16
cast 005f 7e --to e4m3 --decode --from f16

# Stochastic: with key and counter 0 Philox4x32-10 gives 6627e8d5 e169c58d bc57ac4c 9b00dbd8 (Random123's known
# answers).
# 2.5 lies half-way between 2 (04) and 3 (05); only the first word is below one half.
cast 05040404 00002040000020400000204000002040 --to e2m1 --round sr
cast 04 00001040 --to e2m1 --round sr
# Words of another implementation of Philox4x32-10 that gives all three of Random123's known answers.
sr="--round sr --seed 0x0123456789abcdef --stream 0xfedcba9876543210"
cast 04040504040505050404050504040505 "$(repeat 16 00002040)" --to e2m1 $sr

# Input and output: files, -, -o; nothing in, nothing out.
cast "" "" --to e4m3
bytes 0000803f >"$work/in"
exits 0 "" cast --to e4m3 "$work/in" "$work/a"
exits 0 "" cast --to e4m3 "$work/in" -o "$work/b"
exits 0 "" cast --to e4m3 "$work/in" -
same "stdout" 38 "$(hex <"$work/out")"
same "OUT" 38 "$(hex <"$work/a")"
same "--output" 38 "$(hex <"$work/b")"
exits 2 "two outputs" cast --to e4m3 "$work/in" "$work/c" -o "$work/d"
exits 2 "give --force" cast --to e2m1 "$work/in" "$work/a"
same "an output that exists stays" 38 "$(hex <"$work/a")"
exits 0 "" cast --to e2m1 "$work/in" "$work/a" --force
same "--force replaces" 02 "$(hex <"$work/a")"

# An output is never the input, however it is spelled.
ln -s in "$work/link"
for name in in ./in link in/; do
	exits 2 "$work/$name" cast --to e4m3 "$work/in" "$work/$name" --force
done
code=0
"$mxfp" cast --to e4m3 - "$work/in" --force <"$work/in" 2>"$work/err" || code=$?
same "exit code of standard input as the output" 2 $code
same "an input that was named as the output" 0000803f "$(hex <"$work/in")"

# A long stream in pieces of any size has the bytes of the whole: pipes hand on less at a time than files.
head -c 1300000 "$mxfp" >"$work/long"
while [ "$(wc -c <"$work/long")" -lt 1300000 ]; do
	cat "$mxfp" >>"$work/long"
done
head -c 1300000 "$work/long" >"$work/words"
exits 0 "" cast --to e4m3 --round sr --seed 7 --stream 3 "$work/words" "$work/file"
cat "$work/words" | "$mxfp" cast --to e4m3 --round sr --seed 7 --stream 3 >"$work/pipe"
same "codes of a long stream" 325000 "$(wc -c <"$work/file" | tr -d ' ')"
same "file and pipe" "" "$(cmp "$work/file" "$work/pipe" 2>&1)"
{
	head -c 5 "$work/words"
	sleep 0.1
	tail -c +6 "$work/words"
} | "$mxfp" cast --to e4m3 --round sr --seed 7 --stream 3 >"$work/odd"
same "a number that comes in two parts" "" "$(cmp "$work/file" "$work/odd" 2>&1)"
for threads in 1 3; do
	exits 0 "" cast --to e4m3 --round sr --seed 7 --stream 3 --threads $threads "$work/words" "$work/threads" --force
	same "$threads threads" "" "$(cmp "$work/file" "$work/threads" 2>&1)"
done

# Counts: 465 saturates, 2^-20 is flushed.
bytes 0080e843 00008035 0000c07f 0000807f 0000803f >"$work/in5"
bytes 00f07f47 00000030 0000c07f 0000807f 0000803f >"$work/in6"
exits 0 "elements 5, saturated 2, overflowed 0, flushed 1, nan 1, inf 1" cast --to e4m3 --counts "$work/in5"
exits 0 "elements 5, saturated 0, overflowed 1, flushed 1, nan 1, inf 1" \
	cast --to e4m3 --overflow ovf --counts "$work/in5"
exits 0 "elements 5, saturated 2, overflowed 0, flushed 1, nan 1, inf 1" cast --to f16 --overflow sat --counts "$work/in6"
exits 0 "elements 5, saturated 0, overflowed 1, flushed 1, nan 1, inf 1" cast --to f16 --counts "$work/in6"
exits 0 '"flushed": 1,' cast --to e4m3 --counts --json "$work/in5"

# Failures.
exits 2 "--to FORMAT is missing" cast "$work/in"
exits 4 "no-such-file: cannot open" cast --to e4m3 "$work/no-such-file"
exits 4 "cannot read: Is a directory" cast --to e4m3 "$work"
{ npy '<f4' False '(2,)' && bytes 0000803f 00000040; } >"$work/in.npy"
safetensors "$work/in.safetensors" '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' 0000803f
printf 'GGUF\3\0\0\0\0\0\0\0' >"$work/named"
exits 3 "in.npy: is a file of format npy, whose header would be taken for numbers; save the numbers alone" cast --to e4m3 "$work/in.npy"
exits 3 "in.safetensors: is a file of format safetensors" cast --to e4m3 "$work/in.safetensors" "$work/partial"
exits 3 "named: is a file of format gguf" cast --to e4m3 "$work/named"
"$mxfp" cast --to e4m3 <"$work/named" >"$work/out" || bad "what is piped in was refused"
exits 4 "cannot create" cast --to e4m3 "$work/in" "$work/no/such/directory"
bytes 0000803f00 >"$work/in1"
exits 3 "5 bytes are not a whole number of f32 words of 4 bytes: 1 left over" cast --to e4m3 "$work/in1" "$work/partial"
same "no output after a failure" "" "$(ls -A "$work" | grep partial)"
if [ -w /dev/full ]; then
	code=0
	error=$("$mxfp" cast --to e4m3 "$work/in" 2>&1 >/dev/full) || code=$?
	same "exit code on a full disk" 4 $code
	has "full disk" "$error" "mxfp: standard output: cannot write"
fi
(
	code=0
	"$mxfp" cast --to e4m3 /dev/zero 2>/dev/null || code=$?
	echo $code >"$work/code"
) | head -c 1 >/dev/null
same "exit code with a pipe closed" "$(pipe_code)" "$(cat "$work/code")"

# A signal leaves nothing behind.
mkfifo "$work/fifo"
"$mxfp" cast --to e4m3 "$work/fifo" "$work/stopped" 2>/dev/null &
process=$!
exec 3>"$work/fifo"
bytes 0000803f >&3
sleep 0.2
kill -TERM $process
code=0
wait $process || code=$?
exec 3>&-
same "exit code after SIGTERM" 143 $code
same "no output after a signal" "" "$(ls -A "$work" | grep stopped)"

# Raw bytes do not go to a terminal.
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
	code=0
	script -qec "'$mxfp' cast --to e4m3 '$work/in'" /dev/null >"$work/typescript" 2>&1 </dev/null || code=$?
	same "exit code on a terminal" 2 $code
	has "terminal" "$(cat "$work/typescript")" "standard output is a terminal"
	# The progress line does not wrap, whatever the width. Bytes for the terminal are between \r and ESC [ K.
	truncate -s 1G "$work/large"
	for columns in 20 40 132; do
		script -qec "stty cols $columns; '$mxfp' cast --to e4m3 --round sr --threads 1 '$work/large' >/dev/null" /dev/null \
			>"$work/typescript" 2>&1 </dev/null
		text=$(tr '\r' '\n' <"$work/typescript" | sed -n 's/\x1b\[K.*//p' | awk -v n=$columns \
			'length >= n { print "too long: " $0 } /^casting/ { lines++ } /left$/ { left++ }
			END { print (lines > 0), (left > 0) }')
		same "progress in $columns columns" "1 $([ $columns = 132 ] && echo 1 || echo 0)" "$text"
	done
fi

# What would be passed over silently is refused.
exits 2 "cast: --seed: is for --round sr; leave it out" cast --to e4m3 --seed 1
exits 2 "cast: --stream: is for --round sr; leave it out" cast --to e4m3 --round rtz --stream 0
exits 2 "cast: --overflow ovf: e2m1 has neither Inf nor NaN; numbers that are too large become its largest (sat)" cast --to e2m1 --overflow ovf
exits 2 "cast: --overflow: is for formats with a smaller range, and no number of f16 is too large for bf16; leave it out" \
	cast --from f16 --to bf16 --overflow sat
exits 2 "no number of f32 is too large for f32" cast --to f32 --overflow sat
exits 2 "cast: --round: is for conversions that round, and no number of e2m1 lies between two of int8; leave it out" \
	cast --from e2m1 --to int8 --round rna
finish
