#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp engine: cycles worked out by hand from the geometry (a load of 64 cycles, a row a cycle, depth 512, 256 or 128).
. "${srcdir:-.}/tests/cli/cli.shlib"

# row SPLIT: that row of the last output's first table, with single blanks.
row() {
	tr -s ' ' <"$work/out" | grep "^| $1 "
}

# Four heads with K = 128 on one core: 64 + 4 * 512, two halves with two each, four quarters with one each.
exits 0 "" engine --cores 1 --shape 512,128,128 --shape 512,128,128 --shape 512,128,128 --shape 512,128,128
has "whole" "$(row '1 x 512')" "| 2112 | 100.0 % | 97.0 % | 25.0 % | 100.0 % | 0.88 |"
has "halves" "$(row '2 x 256')" "| 1088 | 100.0 % | 94.1 % | 50.0 % | 100.0 % |"
has "quarters" "$(row '4 x 128')" "| 576 | 100.0 % | 88.9 % | 100.0 % | 100.0 % | 0.24 |"
has "gain by shape" "$(row '128 x 128')" "| 4 | 512 | 2112 | 1088 | 576 | 3.67 |"
has "verdict" "$(cat "$work/out")" "Four sub-arrays beat one array: 576 cycles against 2112, 3.67 times as fast"

# One product with K = 512: three quarters idle. Cut into four, there is nothing to win or lose but the loads.
exits 0 "" engine --cores 1 --shape 512,512,512
has "idle quarters" "$(row '4 x 128')" "| 8256 | 25.0 % |"
has "verdict" "$(cat "$work/out")" "One array beats four sub-arrays: 2112 cycles against 8256, 3.91 times as fast"
exits 0 "" engine --cores 1 --shape 512,512,512 --cut 128
has "cut" "$(row '4 x 128')" "| 2112 | 100.0 % |"
has "verdict" "$(cat "$work/out")" "Four sub-arrays take as many cycles as one array"

# 16 bits: depth 128, 64, 32. f32 is four times slower. 4:16 is as deep as MX.
exits 0 "" engine --cores 1 --shape 512,128,512 --activations bf16 --weights bf16
has "bf16" "$(row '1 x 128')" "| 2112 |"
exits 0 "" engine --cores 1 --shape 512,128,512 --activations f32 --weights bf16
has "f32" "$(row '1 x 128')" "| 8448 |"
exits 0 "" engine --cores 1 --shape 512,128,512 --activations bf16 --weights bf16 --sparsity 4:16
has "4:16" "$(row '1 x 512')" "| 576 |"

# Decoding: 4096 rows of 128 times 17 bytes, 4224 bytes of A, 16384 of C are 8933504 bytes, at 612.5 GB/s; 32 strips of
# 8 tiles of K take a load of 64 cycles each.
exits 0 "" engine --shape 1,4096,4096 --cores 1
has "decoding" "$(row '1 x 512')" "| 16448 | 100.0 % | 1.6 % |"
has "decoding" "$(row '1 x 512')" "| memory |"
has "decoding" "$(cat "$work/out")" "8.934 MB: 14.59 us of memory"

# Another clock, another bandwidth: 576 cycles at 1 GHz; 106496 bytes at 10 GB/s for all cores.
exits 0 "" engine --shape 512,128,512 --clock 1000 --bandwidth 10 --result bf16
has "clock" "$(row '1 x 512')" "| 0.576 |"
has "bandwidth" "$(cat "$work/out")" "at 1000 MHz, 10 GB/s"

exits 0 "" engine --shape 512,128,512 --clock 4000000000 --bandwidth 4000000 --json
has "large clock" "$(tr -d ' \n' <"$work/out")" '"clock_mhz":4000000000,"memory_mb_s":4000000000}'

# Routing: with as many experts as each token takes, or all tokens on the first, rows are known.
exits 0 "" engine --experts 4 --topk 4 --tokens 100 --skew 0
has "all experts" "$(row '1024 x 1024')" "| 4 | 100 |"
exits 0 "" engine --experts 4 --topk 1 --tokens 100 --skew 64
has "the first expert" "$(row '1024 x 1024')" "| 4 | 0 to 100 |"
# With skew 1 two experts are as 2 to 1: of 3000 tokens 2000 +- 26 take the first (one standard deviation).
exits 0 "" engine --experts 2 --topk 1 --tokens 3000 --skew 1 --expert-shape 128,512 --json
first=$(tr -d ' \n' <"$work/out" | sed 's/.*"expert0","m":\([0-9]*\).*/\1/')
second=$(tr -d ' \n' <"$work/out" | sed 's/.*"expert1","m":\([0-9]*\).*/\1/')
same "tokens" 3000 $((first + second))
[ "$first" -gt 1870 ] && [ "$first" -lt 2130 ] || bad "expert 0 has $first of 3000 tokens"
cp "$work/out" "$work/first"
exits 0 "" engine --experts 2 --topk 1 --tokens 3000 --skew 1 --expert-shape 128,512 --json --seed 1
cmp -s "$work/first" "$work/out" && bad "the seed changes nothing"

# A model: 256 x 64 and two experts of 128 x 512, which take every token.
model='{"a.weight":{"dtype":"BF16","shape":[256,64],"data_offsets":[0,32768]},
	"b.experts":{"dtype":"BF16","shape":[2,128,512],"data_offsets":[32768,294912]},
	"norm.weight":{"dtype":"BF16","shape":[64],"data_offsets":[294912,295040]}}'
safetensors_zeros "$work/m.safetensors" "$model" 295040
exits 0 "" engine --model "$work/m.safetensors" --tokens 512 --topk 2 --cores 1
has "linear layer" "$(row '256 x 64')" "| 1 | 512 | 1088 |"
has "experts" "$(row '128 x 512')" "| 2 | 512 | 1024 |"
has "all" "$(row '1 x 512')" "| 2112 |"

# An announced chip has bounds only.
exits 0 "" engine --chip trainium4 --shape 512,512,512
has "announced" "$(cat "$work/out")" "trainium4 (announced)"
has "announced" "$(cat "$work/out")" "No geometry is published"
exits 2 "no published geometry" engine --chip trainium4 --shape 512,512,512 --svg "$work/no.svg"

# The picture: a rectangle for every product and split, two colors of background, no names that are markup.
exits 0 "" engine --shape 512,128,512 --shape 512,128,128 --svg "$work/a.svg"
same "rectangles" 6 "$(grep -c '<rect class="p' "$work/a.svg")"
same "lanes" $((8 + 16 + 32)) "$(grep -c '<rect class="lane' "$work/a.svg")"
has "dark" "$(cat "$work/a.svg")" "prefers-color-scheme: dark"
exits 2 "a.svg" engine --shape 512,128,512 --svg "$work/a.svg"
exits 0 "" engine --shape 512,128,512 --svg "$work/a.svg" --force
if command -v python3 >/dev/null 2>&1; then
	python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/a.svg" ||
		bad "--svg is no XML"
	exits 0 "" engine --shape 512,128,512 --experts 3 --json
	python3 -m json.tool <"$work/out" >/dev/null || bad "--json is no JSON"
fi

# A run: three splits, the same results for any number of threads.
exits 0 "" engine --run --shape 5,40,300 --shape 3,8,64 --threads 1
has "run" "$(row 'pass_k 512')" "| pass_k 512 |"
hashes=$(tr -s ' ' <"$work/out" | sed -n 's/^| pass_k.*| \([0-9a-f]*\) |$/\1/p')
same "hashes" 3 "$(echo "$hashes" | wc -l | tr -d ' ')"
exits 0 "" engine --run --shape 5,40,300 --shape 3,8,64 --threads 2
same "threads" "$hashes" "$(tr -s ' ' <"$work/out" | sed -n 's/^| pass_k.*| \([0-9a-f]*\) |$/\1/p')"
exits 0 "" engine --run --shape 5,40,300 --shape 3,8,64 --seed 2
[ "$hashes" != "$(tr -s ' ' <"$work/out" | sed -n 's/^| pass_k.*| \([0-9a-f]*\) |$/\1/p')" ] || bad "--seed of a run"

exits 2 "nothing to place" engine
exits 2 "--shape" engine --shape 1,2
exits 2 "--shape" engine --shape 1,2,3x
exits 2 "--shape" engine --shape 0,2,3
exits 2 "--skew" engine --experts 2 --skew -1
exits 2 "--skew" engine --experts 2 --skew x
exits 2 "--cores" engine --shape 1,2,3 --cores 9
exits 2 "--chip" engine --shape 1,2,3 --chip trainium9
exits 2 "multiplies no" engine --shape 1,2,3 --weights nvfp4
exits 2 "multiplies no" engine --shape 1,2,3 --chip trainium2
exits 2 "--sparsity" engine --shape 1,2,3 --sparsity 3:7
exits 2 "--run" engine --shape 1,2,3 --sparsity 4:8 --run
exits 2 "--activations" engine --shape 1,2,3 --activations f33
exits 2 "engine" engine --shape 2147483647,2147483647,2147483647
exits 4 "none" engine --model "$work/none"
finish
