#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp conform: programs with faults that people reported of others, and some of our own, are caught, and the fault is named.
. "${srcdir:-.}/tests/cli/cli.shlib"
program=$work/program
native_cc -std=gnu11 -O1 -o "$program" "${srcdir:-.}/tests/cli/conform_program.c" -lm || { echo "no C compiler"; exit 77; }

# Rows: FAULT, WORDS, WHAT IS NAMED (-: nothing), and what else: its first 12 letters, with tabs between. The thread is where such a
# program was reported.
n=0
while IFS='	' read -r fault words named more; do
	more=$(printf '%s' "$more" | tr '\t' '|')
	case $fault in '' | '#'*) continue ;; esac
	n=$((n + 1))
	[ $((n % $(fewer 1 6))) = 0 ] || continue
	exits 1 "answers differ" conform "$program $fault" --quick --only "$words"
	matches=$(sed -n '/^The answers match instead:/,$p' "$work/out")
	if [ "$named" = - ]; then
		same "$fault: what is named" "" "$matches"
		continue
	fi
	has "$fault" "$matches" "$named"
	same "$fault: what else is named" "$(printf '%s' "$more" | sed '/./s/|/\n/g')" "$(printf '%s\n' "$matches" | grep '^- ' | grep -vF -e "$named" | sed 's/^- //; s/\(.\{12\}\).*/\1/' | sort)"
done <<END_OF_FAULTS
# ucb-bar/saturn-vectors#101: NaN for finite numbers from 512 to 57344, and overflow that ignores the rounding mode
nan-512	cast e4m3 rne sat	NaN for finite numbers of an exponent above the largest's
overflow-any-mode	cast e4m3 rtz ovf	overflow ignores the rounding mode
# sgl-project/sglang#40581: 256 to 448 saturate, and ties go away from zero
saturates-early	cast e4m3 rne sat	the top exponent saturates	rna: to near
# ml-explore/mlx#4135: NaN decoded as 480
nan-480	decode e4m3	codes of NaN and Inf decoded as numbers
# google/XNNPACK#10460: the top exponent as Inf and NaN
top-exponent-special	decode e4m3	the top exponent decoded as Inf and NaN
# intel/intel-xpu-backend-for-triton#7772: Inf of e5m2 decoded as 65536
inf-65536	decode e5m2	codes of NaN and Inf decoded as numbers
# ROCm/rocm-libraries#5792: 80 taken for NaN, as in FNUZ
fnuz-nan	decode e4m3	the code of -0 decoded as NaN
# ahrefs/ocannl#646: ties away from zero, subnormal codes flushed, no -0, Inf for what is too large
four-decisions	cast e5m2 rne sat	rna: to nearest	+0 for -0 an	numbers belo	ovf: they be
# tenstorrent/tt-metal#51971: subnormal codes a binade too small, the last bit of e4m3 cut
binade-too-small	cast e4m3 rne sat	a binade too small	the last bit
# ROCm/aiter#3992: ties of e2m1 away from zero
half-away	cast e2m1 rne	rna: to nearest, ties away from zero
# scott-griffiths/bitstring#342: e4m3 cut
truncates	cast e4m3 rne sat	rtz: toward zero
# triton-lang/triton#10846: through f16
through-f16	cast e4m3 rne sat	numbers rounded to f16 first
# triton-lang/triton#9808: a carry out of the significand is lost
loses-carry	cast e4m3 rne sat	a carry out of the significand is lost
# uxlfoundation/oneDNN#3675: NaN for what is too large
never-saturates	cast e4m3 rne sat	ovf: they become Inf, or NaN
# vllm-project/vllm#43557: the exponent of amax / 6
quotient-exponent	scale mxfp4 floor	the exponent of amax / largest, rounded down
# ml-explore/mlx#4353: the nearest power, by logarithm
log-nearest	scale mxfp8-e4m3 rceil	log-nearest
# ROCm/FlyDSL#590: the nearest power, where even is meant
power-nearest	scale mxfp6-e2m3 even	rne: amax / max to the nearest power of two
# vllm-project/vllm#53110: emax not subtracted
no-emax	scale mxfp8-e4m3 floor	emax not subtracted
# vllm-project/compressed-tensors#538: a bias of 125
bias-125	scale mxfp4 floor	scale bytes with a bias of 125
# microsoft/onnxruntime#32122: frexp() is one more for a power of two
frexp	scale mxfp4 rceil	one too high where amax is exactly the largest
# pytorch/ao#4725: amax rounded to bf16
amax-bf16	scale mxfp8-e4m3 floor	numbers rounded to bf16 first
# intel/auto-round#1908: a NaN scale for zeros
zero-block-nan	mx mxfp4 floor rne	the scale of zero blocks is FF
# ROCm/rocm-libraries#12362: std::max drops NaN
nan-dropped	mx mxfp8-e4m3 rceil rne	NaN left out of the largest magnitude
# kekzl/imp#567: GGUF's order of codes taken for the other one
split-halves	mx-decode mxfp4	codes of a block's halves in one byte
# sgl-project/sglang#23625: the first code in the high bits
high-first	nvfp4 te rne	the first code in the high bits
# jundot/omlx#2159: scale bytes as numbers
scale-linear	mx-decode mxfp8-e4m3	the scale byte as a number
# vllm-project/vllm#46676: scales added to exponents
scale-added	mx-decode mxfp4	scales added to the exponent field
# JustVugg/colibri#1041: FF as Inf
scale-inf	mx-decode mxfp4	scale FF decoded as 2^128
# modular/modular#6600: a tensor scale that divides, multiplied
not-inverted	nvfp4-decode divides	the inverse of the tensor scale
# ROCm/rocm-libraries#7439: exponents of scales alone
scale-exponent	nvfp4-decode multiplies	the exponent of scales alone
# NVIDIA/Model-Optimizer#1397: a NaN scale for zeros
zero-scale-nan	nvfp4 modelopt-0.45	the scale of zero blocks is NaN
# of our own: the sign of what becomes zero kept in a FNUZ format
zero-sign-nan	cast e4m3fnuz rne sat	80, NaN in a FNUZ format, for -0
ties-odd,zero-sign-nan	cast e4m3fnuz rne sat	ties to odd	80, NaN in a
# of our own: overflow looked at before a number is rounded; a shifter without a sticky bit for what leaves it; rounding that is not random; a sum without passes; the last of equal magnitudes
carry-unchecked	cast e4m3 rne sat	rounding up past the largest runs into the sign	the code aft
shifted-out	cast e5m2 rne sat	of subnormal codes, two bits below the last are looked at
not-random	cast e2m1 sr	rne: to nearest, ties to even
one-pass	dot mxfp8-e4m3 mxfp4 chain	one pass, however long
last-of-equal	prune 2:4	the last of equal magnitudes
# of an implementer's own, who tried what they had feared to get wrong
low-bit	cast e4m3 rne sat	the lowest bit of binary32 is not looked at
sticky-lost	mx mxfp4 floor rne	no sticky bit
sticky-lost	mx mxfp8-e5m2 floor rne	no sticky bit
rounds-twice	cast e5m2 rne sat	numbers rounded to one bit more first
ties-odd	mx mxfp8-e5m2 floor rne	ties to odd
ties-bit	cast e4m3 rne sat	ties look at the bit above the last
carry-keeps	cast e4m3 rne ovf	a carry into the exponent leaves the significand as it was
loses-carry	mx mxfp4 floor rne	a carry out of the significand is lost
subnormal-stays	mx mxfp4 floor rne	a subnormal code does not round up
underflow-plus	mx mxfp4 floor rne	+0 for negative numbers that round to zero; -0 is kept
early-overflow	cast e4m3 rne ovf	what is above the largest number overflows
largest-overflows	cast e5m2 rne ovf	what rounds to the largest number overflows
saturated-positive	mx mxfp4 floor rne	finite numbers past the largest lose their sign
nan-minus-max	cast e4m3 rne sat	minus the largest number for NaN
through-f16	mx mxfp4 floor rne	elements rounded to f16
scale-1	scale mxfp4 floor	scales at least 01
last-out	mx mxfp4 floor rne	the last number left out of the largest magnitude
interleaved	mx mxfp4 floor rne	codes, scale, codes, scale
scales-first	mx mxfp8-e4m3 floor rne	all scales, then all codes
gguf-blocks	mx-decode mxfp4	scale, codes, scale, codes, as in GGUF
big-endian	cast e4m3 rne sat	numbers read big-endian
emax-1,underflow-plus	mx mxfp4 floor rne	trn3: floor(log2 amax) - (emax - 1)	+0 for negat
high-first,emax-1,ties-odd	mx mxfp4 floor rne	ties to odd	the first co	trn3: floor(
# of a second one's
log2-cut	scale mxfp4 floor	log2 truncated toward zero
scale-1-not-0	mx mxfp4 floor rne	scales at least 01, but for zeros
shift-masked	cast e5m2 rne sat	the shift count of subnormal codes masked to 5 bits
hidden-lost	cast e5m2 rne sat	of subnormal codes, the hidden bit is forgotten
rounds-low	cast e4m3 rne ovf	subnormal codes rounded to the bits of a normal one
carry-sets-sign	mx mxfp4 floor rne	rounding up past the largest sets the sign
max-by-or	mx mxfp4 floor rne	the OR of magnitudes
scale-late	mx mxfp4 floor rne	elements divided by the scale of the block before
signed-nibble	pack 4	the high code all ones where the low one is negative
signed-codes	unpack	codes sign-extended to bytes
big-words	pack	bytes of codes reversed by fours
# of a third one's
bf16-no-nan	cast bf16 rne	bf16: NaN rounded as numbers are
low-2-bits	cast f16 rne	the lowest 2 bits of binary32 are not looked at
after-sign	cast e2m1 rne	numbers that round to the code after the largest
inf-number	decode e5m2	codes of Inf decoded as numbers, those of NaN as NaN
minus-inf-number	decode e5m2	the code of -Inf decoded as a number
log2-float	scale mxint8 floor	log2 in binary32
amax-bf16	mx mxfp8-e4m3 floor rne	the largest magnitude, not the numbers, rounded to bf16
inf-large	mx mxfp4 floor rne	Inf quantized as a number of 2^128
divides	nvfp4 te rne	elements divided by their scale, not multiplied
block-scale-1	nvfp4 te rne	block scales at least 01
inverse-in-two,divides	nvfp4 te rne	te: the inverse of the tensor scale as 448	elements div
second-top	unpack 6	of four codes of 6 bits, the second loses its top bit
rounded-products	dot mxfp8-e4m3 mxfp8-e4m3 chain	a chain of products that are rounded
flushes-sums	dot mxfp4 mxfp4 chain	in a chain after each addition
flushes-results	dot mxfp4 mxfp4 chain	subnormal results flushed to +0
fraction-24	dot f16 f16 hopper	aligned terms keep one bit less
products-alone	dot f16 f16 hopper	terms are aligned to the largest product alone
normalized	dot f16 f16 hopper	terms are aligned by the exponents of products
# of a fourth one's
ties-plus	cast e4m3 rne sat	ties toward +Inf
away	cast e5m2 rtp ovf	away from zero, whatever the sign
nan-inf	decode e5m2	codes of NaN decoded as Inf
inf-largest	mx mxfp4 ceil rne	Inf taken for the largest finite number
inf-counts,last-out	mx mxfp4	Inf counts as the largest finite number where	the last num
never-saturates	mx mxfp8-e4m3 floor rne	elements do not saturate
ceil,scale-1-not-0	mx mxfp4 floor rne	ceil: ceil(log2 amax)	scales at le
ceil,scale-1-not-0,underflow-plus	mx mxfp4 floor rne	ceil: ceil(log2 amax)	+0 for negat	scales at le
# a fault of scales or of elements that is known beside one of the other that is not
clips-wrong,last-out	mx mxfp4 floor rne	the last number left out of the largest magnitude
top-250,underflow-plus	mx mxfp4 floor rne	+0 for negative numbers that round to zero
clamps-shift	cast e4m3 rne sat	-
every-eighth	cast e4m3 rne sat	-
top-250	scale mxfp4 floor	-
truncates-below	cast e4m3 rne sat	-
clips-wrong	mx mxfp4 floor rne	-
# of a fifth one's: the sign of zero, > for >= where a rule decides, sums beside 2^-126
zero-unsigned	cast e4m3 rne sat	+0 for -0 alone
zero-unsigned	cast bf16 rtn	+0 for -0 alone
underflow-plus	cast e5m2 rtz sat	+0 for negative numbers that round to zero; -0 is kept
zero-unsigned,underflow-plus	cast f16 rne	+0 for -0 and for negative numbers that round to zero
zero-minus	cast e2m1 rne	-0 for +0 alone
zero-nan	cast e4m3fnuz rne sat	80, NaN in a FNUZ format, for -0 alone
even-above	scale mxfp4 even	amax exactly where the rule decides goes the other way
even-above	scale mxint8 even	amax exactly where the rule decides goes the other way
even-above	mx mxfp8-e4m3 even rne	amax exactly where the rule decides goes the other way
flushes-late	dot bf16 bf16 vdpbf16ps	sums just below 2^-126 rounded to it among binary32's subnormals
cut-nearest	dot bf16 bf16 hopper	rounded to nearest among binary32's subnormals, not cut
block-sums-f32	dot mxfp4 mxfp4 exact	sums of blocks rounded to binary32, with its subnormals
first-product	dot mxfp8-e4m3 mxfp4 chain	-0 where all products are -0
END_OF_FAULTS
[ $n -ge 116 ] || bad "only $n faults"

# Scales at least 01 only where they would be below 00: said of both classes, also of the one of two blocks.
exits 1 "answers differ" conform "$program scale-1-low" --only 'mx mxfp4 floor rne'
same "classes of one way" 2 "$(grep -c 'in this class only: scales at least 01, but for zeros' "$work/out")"

has "classes without a name" "$(cat "$work/out")" "2 of the 2 classes in the tables have no name, or one for a part alone."

# Few answers of very many have no name: a quotient that is rounded otherwise gives the same ones.
exits 1 "answers differ" conform "$program low-bit" --only 'nvfp4 te rhz 45280000'
has "few of many" "$(cat "$work/out")" "| perhaps: the lowest bit of binary32 is not looked at |"
has "few of many" "$(cat "$work/out")" "1 of the 1 classes in the tables have no name"

# Of ways that do the same in a question, the one that explains the others too.
exits 1 "answers differ" conform "$program amax-cut" --only 'scale mxfp4 rceil' --only 'mx mxfp4 rceil'
same "one name for one fault" 1 "$(grep -c '^- ' "$work/out")"

# Answers to nothing: every way is tried, those that read bytes in another order and one pass of f16 among them.
for words in 'dot f16 f16 hopper' nvfp4-tensor; do
	exits 1 "answers differ" conform "$program zeros" --quick --only "$words"
done

# Sums that have no name.
exits 1 "answers differ" conform "$program drops-last" --quick --only 'dot mxfp4 mxfp4 chain'
has "what describes sums" "$(cat "$work/out")" "mxfp conform CMD --probe describes how products are summed"

# One bit that is not in the sticky OR, and an answer to nothing.
exits 1 "answers differ" conform "$program narrow-or" --only 'cast e4m3 rne sat'
exits 1 "answers differ" conform "$program narrow-or" --only 'cast e4m3 rne sat' --quick
finish
