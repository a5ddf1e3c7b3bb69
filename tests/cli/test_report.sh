#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp report: a matrix worked by hand, the shipped model, the real weights of ../shared if they are there.
. "${srcdir:-.}/tests/cli/cli.shlib"
shared=${MXFP_SHARED:-${srcdir:-.}/../shared}
model=${srcdir:-.}/examples/charlm.safetensors

# safetensors HEADER: its length and itself; the data follow.
safetensors() {
	bytes "$(printf '%02x%02x000000000000' $((${#1} % 256)) $((${#1} / 256)))"
	printf '%s' "$1"
}

# One row (7.5, 5, 0.25, -1, 0 ...). In MXFP4 under floor its scale is 2^0, and it becomes (6, 4, 0, -1, 0 ...): noise
# 2.25 + 1 + 0.0625, signal 56.25 + 25 + 0.0625 + 1, so SQNR is 10 log10(82.3125 / 3.3125).
{
	safetensors '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
		"b":{"dtype":"I8","shape":[1],"data_offsets":[128,129]}}'
	bytes 0000f040 0000a040 0000803e 000080bf
	head -c 113 /dev/zero
} >"$work/row.safetensors"
# Its activations: (1, 1, 0 ...), which E4M3 holds. y is 12.5, and 10 with quantized weights.
{
	safetensors '{"any":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
	bytes 0000803f 0000803f
	head -c 120 /dev/zero
} >"$work/x.safetensors"
exits 0 "" report --json --formats mxfp4 --rules floor --activation-file "$work/x.safetensors" "$work/row.safetensors"
text=$(tr -d ' \n' <"$work/out")
has "variant" "$text" '"format":"mxfp4","rule":"floor","recipe":null,"sparsity":null,"elements":32,"bytes":17,'
has "size" "$text" '"bytes":17,"bits_per_weight":4.25,'
has "shares" "$text" '"saturated":1,"saturated_share":0.03125,"flushed":1,"flushed_share":0.03125,'
has "weights" "$text" '"weights":{"sqnr_db":13.9530990536,"relative_error":0.200606521483,'
has "weights" "$text" '"max_absolute_error":1.5,"max_relative_error":1.0,"cosine":0.99924757871,'
has "products" "$text" '"weights_quantized":{"sqnr_db":13.9794000867,"relative_error":0.2,"max_absolute_error":2.5,'
has "relative errors" "$text" '"errors":{"exact":29,"first_exponent":-3,"counts":[2,0,0,1]}'
has "source" "$text" '"source_bytes":128,'
has "histogram" "$text" '"scales":{"scale_format":"e8m0","first_code":127,"counts":[1]}'
has "exact activations" "$text" '"activations_error":{"sqnr_db":null,"relative_error":0.0,'
has "sums" "$text" '"sums":{"reference":"binary64","weights_quantized":{"rule":"chain","pass":128},"both_quantized":{'
has "not measured" "$text" '"not_measured":[{"name":"b","reason":"'

# The same in other units, whose products binary32 does not hold: times 2^-90 and 2^-90, times 2^60 and 2^90.
units() {
	{
		safetensors '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
		bytes "$1"
		head -c 112 /dev/zero
	} >"$work/row_in_units.safetensors"
	{
		safetensors '{"any":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
		bytes "$2"
		head -c 120 /dev/zero
	} >"$work/x_in_units.safetensors"
	exits 0 "" report --json --formats mxfp4 --rules floor --activation-file "$work/x_in_units.safetensors" \
		"$work/row_in_units.safetensors"
	same "$1: statistics" "$(printf '%s' "$text" | grep -oE '"(sqnr_db|relative_error|cosine|flushed|max_relative_error)":[^,]*')" \
		"$(tr -d ' \n' <"$work/out" | grep -oE '"(sqnr_db|relative_error|cosine|flushed|max_relative_error)":[^,]*')"
	has "$1: largest error" "$(tr -d ' \n' <"$work/out")" "\"weights_quantized\":{\"sqnr_db\":13.9794000867,\"relative_error\":0.2,\"max_absolute_error\":$3,"
}
units "0000f013 0000a013 00008011 00008092" "00008012 00008012" 1.631326117e-54
units "0000f05e 0000a05e 0000805c 000080dd" "0000806c 0000806c" 3.56811923176e45

# Pruned to 1 of 2 it is (7.5, 0, 0, -1, 0 ...), with noise 25.0625, and products lack 5; quantized then, (6, 0, 0, -1,
# 0 ...), with noise 27.3125, and products lack 6.5. It keeps 16 codes of 32 bits, or of 4, and has masks of 32 bits.
exits 0 "" report --json --formats mxfp4 --rules floor --sparsity 1:2 --activation-file "$work/x.safetensors" \
	"$work/row.safetensors"
text=$(tr -d ' \n' <"$work/out" | sed 's/.*"total"//; s/"tensors".*//')
same "variants" "mxfp4 null mxfp4 1:2 f32 1:2" "$(printf '%s\n' "$text" | grep -oE '"(format|sparsity)":[^,]*' |
	sed 's/"[a-z]*"://; s/"//g' | tr '\n' ' ' | sed 's/ $//')"
only=${text##*'"format":'} before=${text#*'"sparsity":"1:2"'}
before=${before%%'"format":'*}
has "pruned" "$only" '"f32","rule":null,"recipe":null,"sparsity":"1:2","elements":32,"bytes":68,'
has "pruned" "$only" '"bytes":68,"bits_per_weight":17.0,'
has "pruned" "$only" '"saturated":0,"saturated_share":0.0,"flushed":2,'
has "pruned" "$only" '"weights":{"sqnr_db":5.16441402342,"relative_error":0.551796954062,"max_absolute_error":5.0,'
has "pruned" "$only" '"weights_quantized":{"sqnr_db":7.95880017344,"relative_error":0.4,"max_absolute_error":5.0,'
has "pruned" "$only" '"scales":null'
has "pruned, quantized" "$before" ',"elements":32,"bytes":13,"bits_per_weight":3.25,"gaussian_sqnr_db":null,"saturated":1,'
has "pruned, quantized" "$before" '"weights":{"sqnr_db":4.79104337991,"relative_error":0.576033619199,'
has "pruned, quantized" "$before" '"weights_quantized":{"sqnr_db":5.6799331273,"relative_error":0.52,'

# Of five rows that row is 0, 1 and 3, which --product-rows 3 takes, as floor(5 i / 3) are; the others are (6, 4, 0 ...),
# which MXFP4 holds: y is 10 and stays so. With all rows the relative error is the root of 18.75 / 668.75.
{
	safetensors '{"a.weight":{"dtype":"F32","shape":[5,32],"data_offsets":[0,640]}}'
	for row in worse worse held worse held; do
		case $row in
		worse) bytes 0000f040 0000a040 0000803e 000080bf ;;
		held) bytes 0000c040 00008040 00000000 00000000 ;;
		esac
		head -c 112 /dev/zero
	done
} >"$work/rows.safetensors"
for wanted in "0 0.167443" "3 0.2," "5 0.167443" "2 0.156173"; do
	exits 0 "" report --json --formats mxfp4 --rules floor --activation-file "$work/x.safetensors" \
		--product-rows "${wanted%% *}" "$work/rows.safetensors"
	text=$(tr -d ' \n' <"$work/out" | sed 's/.*"total"//')
	has "products of some rows" "$(printf '%s' "$text" | sed 's/"weights_quantized":{"sqnr_db":[0-9.]*,/W/')" \
		"W\"relative_error\":${wanted#* }"
done

# Text: one line a variant, and the same numbers.
exits 0 "" report --formats mxfp4 --rules floor "$work/row.safetensors"
has "text" "$(tr -s ' ' <"$work/out")" "| mxfp4 | floor | 4.250 | 4.364 | 13.95 | 18.79 | 0.2006 | 3.125 % | 3.125 % | 0 |"
exits 0 "" report --formats mxfp4 --rules floor --sparsity 1:2 "$work/row.safetensors"
text=$(tr -s ' ' <"$work/out")
has "text" "$text" "| mxfp4 | floor | 4.250 | 4.364 | 13.95 | 18.79 |"
has "text" "$text" "| mxfp4 1:2 | floor | 3.250 | 3.394 | 4.79 | - |"
has "text" "$text" "| f32 1:2 | - | 17.000 | 16.727 | 5.16 | - |"
# The front: of two variants of as many bits, the one with the larger error is not on it.
exits 0 "" report --formats mxfp4,mxfp8-e4m3 --rules floor,mse "$model" --activation-rows 1 --json
same "Pareto front" "4.25 false 4.25 true 8.25 false 8.25 true" "$(tr -d ' \n' <"$work/out" | sed 's/"tensors":.*//' |
	grep -oE '"(bits_per_weight|pareto)":[^,}]*' | sed 's/.*://' | tr '\n' ' ' | sed 's/ $//')"

# The verdict. Seven tensors that MXFP4 holds exactly, the row above, whose 13.95 dB are more than 1 under the 18.79 of
# floor, and 32 numbers that stay as they are. In MXFP8 the row takes 33 bytes and not 17, so 0.5 bits of 256 weights.
{
	safetensors "{$(for i in 0 1 2 3 4 5 6; do
		printf '"l%d.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[%d,%d]},' $i $((128 * i)) $((128 * i + 128))
	done)"'"r.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[896,1024]},
		"norm.weight":{"dtype":"F32","shape":[32],"data_offsets":[1024,1152]}}'
	bytes "$(repeat $((7 * 32)) 0000803f)"
	bytes 0000f040 0000a040 0000803e 000080bf
	head -c $((112 + 128)) /dev/zero
} >"$work/a model.safetensors"
# Weights do not tell what the model loses, and the report says so.
unknown=" Errors of weights say nothing about what the model loses: --eval TEXT measures that."
verdict="W4A8: the weights of 7 of 8 layers lose what MXFP4 costs a Gaussian, 18.8 dB; 1 loses more; keeping that one in \
MXFP8 costs 0.5 bits a weight.$unknown"
next="mxfp quantize '$work/a model.safetensors' -o OUT --preset w4a8-mixed --bits 4.75 --rule floor"
exits 0 "" report --formats mxfp4,mxfp8-e4m3 --rules floor "$work/a model.safetensors"
has "verdict" "$(sed -n 3p "$work/out")" "**$verdict**"
has "worst" "$(cat "$work/out")" "The worst is r.weight with 14.0 dB, 4.8 under that."
has "sizes" "$(cat "$work/out")" "goes from 1.12 KiB, 32.00 bits a weight, to 264 bytes, 7.33 bits, or with those layers \
kept 280 bytes, 7.78 bits."
has "command" "$(cat "$work/out")" "    $next"
exits 0 "" report --formats mxfp4,mxfp8-e4m3 --rules floor "$work/a model.safetensors" --json
text=$(tr -d '\n' <"$work/out")
has "verdict" "$text" "\"sentence\": \"$verdict\""
has "verdict" "$(printf '%s' "$text" | tr -d ' ')" '"layers":8,"tolerance_db":1.0,"losing_more":1,"losing_more_share":0.125,"losing_more_promoted":1,"promoted":1,"promoted_bits_per_weight":4.75,"promoted_bits_more":0.5'
has "sizes" "$(printf '%s' "$text" | tr -d ' ')" '"whole_source_bytes":1152,"whole_elements":288,'
has "size" "$(printf '%s' "$text" | tr -d ' ')" '"whole_bytes":264,'
has "size" "$(printf '%s' "$text" | tr -d ' ')" '"whole_bytes":392,'
has "yardstick" "$(printf '%s' "$text" | tr -d ' ')" '"bits_per_weight":4.25,"gaussian_sqnr_db":18.79,'
has "yardstick" "$(printf '%s' "$text" | tr -d ' ')" '"bits_per_weight":8.25,"gaussian_sqnr_db":30.64,'

# The command does what the verdict says.
eval "set -- $(printf '%s' "${next#mxfp}" | sed "s,OUT,'$work/OUT',")"
exits 0 "" "$@" -q
exits 0 "" inspect "$work/OUT"
same "layers in MXFP8" "r.weight" "$(awk '/F8_E4M3 .*\[/ { print $1 }' "$work/out")"

# One of 102 experts, which w4a8-mixed would promote all: it has 0.98 % of the weights, and is left where it is.
{
	text=$(awk 'BEGIN {
		for (i = 0; i < 102; i++)
			printf "%s\"l.0.experts.%d.weight\":{\"dtype\":\"F32\",\"shape\":[1,32],\"data_offsets\":[%d,%d]}", i ? "," : "{",
				i, 128 * i, 128 * i + 128
		print "}"
	}')
	safetensors "$text"
	bytes "$(repeat $((101 * 32)) 0000803f)"
	bytes 0000f040 0000a040 0000803e 000080bf
	head -c 112 /dev/zero
} >"$work/experts.safetensors"
exits 0 "" report --formats mxfp4 --rules floor "$work/experts.safetensors"
has "few experts" "$(cat "$work/out")" "**W4A8: the weights of 101 of 102 layers lose what MXFP4 costs a Gaussian, 18.8 dB; \
1 loses more, with 0.98 % of the weights.$unknown**"
has "few experts" "$(cat "$work/out")" "    mxfp quantize $work/experts.safetensors -o OUT --preset w4a8 --rule floor"

# With a layer that loses more beside them, which ranks before the experts: it alone is promoted, 16 bytes of 3296 weights.
{
	safetensors "$(printf '%s' "$text" | sed 's/}$/,"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[13056,13184]}}/')"
	bytes "$(repeat $((101 * 32)) 0000803f)"
	for i in 1 2; do
		bytes 0000f040 0000a040 0000803e 000080bf
		head -c 112 /dev/zero
	done
} >"$work/experts.safetensors"
exits 0 "" report --formats mxfp4 --rules floor "$work/experts.safetensors"
has "few experts and a layer" "$(cat "$work/out")" "**W4A8: the weights of 101 of 103 layers lose what MXFP4 costs a \
Gaussian, 18.8 dB; 2 lose more; keeping 1 of those in MXFP8 costs 0.04 bits a weight.$unknown**"
has "few experts and a layer" "$(cat "$work/out")" " --preset w4a8-mixed --bits 4.289 --rule floor"

# All layers, and none; activations that cancel, of which E4M3 has 1.0625 as 1; pruned weights have no yardstick.
exits 0 "" report --formats mxfp4 --rules floor "$work/a model.safetensors" --ignore r.weight
has "fine" "$(cat "$work/out")" "**W4A8: the weights of all 7 layers lose what MXFP4 costs a Gaussian, 18.8 dB.$unknown**"
has "fine" "$(cat "$work/out")" "    mxfp quantize '$work/a model.safetensors' -o OUT --preset w4a8 --rule floor --ignore r.weight"
exits 0 "" report --formats mxfp4 --rules floor "$work/row.safetensors"
has "not fine" "$(cat "$work/out")" "**W4A8 does not suit the weights: 1 of 1 layer loses more than MXFP4 costs a Gaussian, \
18.8 dB; keeping that one in MXFP8 costs 4.0 bits a weight.$unknown**"
has "not fine" "$(cat "$work/out")" "    mxfp advise $work/row.safetensors"
{
	safetensors '{"any":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
	bytes 0000883f 000080bf
	head -c 120 /dev/zero
} >"$work/cancel.safetensors"
exits 0 "" report --formats mxfp4 --rules floor "$work/a model.safetensors" --ignore r.weight \
	--activation-file "$work/cancel.safetensors"
has "activations" "$(cat "$work/out")" "**W4A16: the weights of all 7 layers lose what MXFP4 costs a Gaussian, 18.8 dB; \
activations in MXFP8 lose more than normal ones would, so keep them in 16 bits.$unknown**"
has "activations" "$(cat "$work/out")" " -o OUT --layout quark --weights mxfp4 --activations none --rule floor"
exits 0 "" report --for transformers --formats mxfp4 --rules floor "$work/a model.safetensors" --ignore r.weight \
	--activation-file "$work/cancel.safetensors"
has "activations" "$(cat "$work/out")" " -o OUT --preset w4a8 --activations none --rule floor"
exits 0 "" report --formats mxfp8-e5m2,nvfp4 --activations mxfp4 "$model" --activation-rows 1
has "NVFP4" "$(cat "$work/out")" "**NVFP4: the weights of all 5 layers lose what NVFP4 costs a Gaussian, 20.4 dB.$unknown**"
exits 0 "" report --formats mxfp8-e5m2 --activations mxfp4 "$model" --activation-rows 1
has "W8A4" "$(cat "$work/out")" "**W8A4: the weights of all 5 layers lose what MXFP8-E5M2 costs a Gaussian, 25.5 dB.$unknown**"
has "W8A4" "$(cat "$work/out")" "- Left out of what is recommended: mxfp8-e5m2, which vLLM 0.33.0 does not load (--for vllm)."
same "W8A4" "" "$(grep '^    ' "$work/out")"
exits 0 "" report --for any --formats mxfp8-e5m2 --activations mxfp4 "$model" --activation-rows 1
has "W8A4" "$(cat "$work/out")" "-o OUT --weights mxfp8-e5m2 --activations mxfp4"

# --for: the layout and the activations are those of the program, the way is called so, and what it does not load has no command.
for case in vllm,W4A8,'OUT --preset w4a8' transformers,W4A8,'OUT --preset w4a8' any,W4A8,'OUT --preset w4a8' \
	mlx,W4A16,'OUT --layout mlx --weights mxfp4 --activations none'; do
	way=${case#*,}
	exits 0 "" report --for "${case%%,*}" --formats mxfp4 --rules mse "$model" --activation-rows 1
	has "--for ${case%%,*}" "$(cat "$work/out")" "**${way%%,*}: the weights of all 5 layers lose what MXFP4 costs"
	command=$(grep '^    ' "$work/out")
	same "--for ${case%%,*}" "    mxfp quantize $model -o ${way#*,}" "$command"
	eval "set -- $(printf '%s' "${command#    mxfp}" | sed "s,OUT,'$work/for-${case%%,*}',")"
	exits 0 "" "$@" -q
done
exits 0 "" report --for mlx --formats mxfp6-e2m3 "$model" --activation-rows 1 --json
text=$(tr -d '\n' <"$work/out")
has "what mlx does not load" "$text" 'mxfp6-e2m3, which mlx-lm 0.32.2 does not load (--for mlx).'
has "what mlx does not load" "$text" '"command": null'
has "what mlx does not load" "$text" '"for": "mlx"'
exits 2 "report: --for: unknown value 'vlm': did you mean 'vllm'? (programs: vllm, llama.cpp, mlx, transformers, any)" report --for vlm "$model"
exits 2 "did you mean 'llama.cpp'?" report --for gguf "$model"
exits 2 "a GGUF file becomes none of the models that vLLM 0.33.0 loads; mxfp convert x.gguf -o MODEL makes a directory: give that" \
	report --for vllm x.gguf
exits 2 "a GGUF file becomes none of the models that" advise --for mlx x.gguf
exits 2 "mxfp convert x.gguf -o MODEL makes a directory: give that" advise x.gguf --eval t.txt
exits 0 "" report --formats mxfp4 "$model" --activation-rows 1
has "a small model" "$(cat "$work/out")" "- This model is small, "
exits 0 "" report --formats mxfp4 --round rtz "$model" --activation-rows 1
has "no yardstick" "$(cat "$work/out")" "W4A8 has no yardstick here"

exits 0 "" report "$work/row.safetensors" --ignore a.weight
has "nothing" "$(cat "$work/out")" "Nothing was measured: a.weight, the largest of 2 tensors, is left out: --ignore.**"
# Why, by the largest tensor, and a remedy where there is one.
{ header '{"x.up_proj.weight":{"dtype":"F8_E4M3","shape":[2,32],"data_offsets":[0,64]},
	"norm.weight":{"dtype":"F32","shape":[32],"data_offsets":[64,192]}}'; bytes "$(repeat 64 38) $(repeat 32 0000803f)"; } >"$work/fp8.safetensors"
exits 0 "" report "$work/fp8.safetensors"
has "FP8" "$(cat "$work/out")" "**Nothing was measured: x.up_proj.weight, the largest of 2 tensors, is left out: FP8 without scales, which"
has "FP8" "$(cat "$work/out")" "turns into numbers.**"
exits 1 "--fail-under tells nothing; the report says why" report "$work/fp8.safetensors" --fail-under SQNR=1
{ header '{"model.embed_tokens.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[0,256]}}'; bytes "$(repeat 64 0000803f)"; } >"$work/embedding.safetensors"
exits 0 "" report "$work/embedding.safetensors"
has "embedding" "$(cat "$work/out")" "is left out: embedding. --include names tensors to measure.**"
exits 0 "" report "$work/embedding.safetensors" --include '*embed*'
has "included" "$(cat "$work/out")" "1 tensors with 64 weights"
{ header '{"x.up_proj.weight":{"dtype":"F32","shape":[2,33],"data_offsets":[0,264]}}'; bytes "$(repeat 66 0000803f)"; } >"$work/tail.safetensors"
exits 0 "" report "$work/tail.safetensors"
has "rows" "$(cat "$work/out")" "is left out: rows are not multiples of the block (--pad-tail measures them).**"
{ header '{}'; bytes ""; } >"$work/none.safetensors"
exits 0 "" report "$work/none.safetensors"
has "no tensors" "$(cat "$work/out")" "**Nothing was measured.**"

# Results do not depend on threads, nor on the pieces of earlier runs; the seed of activations matters.
exits 0 "" report --json --threads 1 "$model" --activation-rows 2
mv "$work/out" "$work/one"
exits 0 "" report --json --threads 3 "$model" --activation-rows 2
check "threads change the report" cmp -s "$work/one" "$work/out"
exits 0 "" --isa ref report --json --activation-rows 1 --formats mxfp4,nvfp4 "$model"
mv "$work/out" "$work/reference"
exits 0 "" report --json --activation-rows 1 --formats mxfp4,nvfp4 "$model"
check "the tier changes the report" cmp -s "$work/reference" "$work/out"
exits 0 "" report --json --sparsity 4:16 --threads 1 --activation-rows 1 --formats mxfp4,nvfp4 "$model"
mv "$work/out" "$work/one.pruned"
exits 0 "" report --json --sparsity 4:16 --threads 2 --activation-rows 1 --formats mxfp4,nvfp4 "$model"
check "threads change the report of pruned weights" cmp -s "$work/one.pruned" "$work/out"
exits 0 "" --isa ref report --json --sparsity 4:16 --activation-rows 1 --formats mxfp4,nvfp4 "$model"
check "the tier changes the report of pruned weights" cmp -s "$work/one.pruned" "$work/out"
exits 0 "" report --json --seed 1 "$model" --activation-rows 2
checks=$((checks + 1))
! cmp -s "$work/one" "$work/out" || bad "the seed does not change the report"
same "variants by default" 8 "$(tr -d ' \n' <"$work/one" | sed 's/"tensors".*//' | grep -o '"format":"' | wc -l |
	awk '{print $1 - 1}')"

# What mxfp quantize wrote measures as what is quantized in memory, but for the number of saturated elements and the
# rounding, without which there is no yardstick: a file does not tell. Its size is that of the file.
numbers() {
	sed -e '/^ "\(against\|round\|seed\)"/d' -e '/^ "verdict": {/,/^ }/d' -e '/"saturated/d' \
		-e '/"gaussian_sqnr_db"/d' -e '/"whole_bytes"/d' -e '/^ "not_measured"/,$d' "$work/out"
}

# written FORMAT OPTION CHOICE ARGUMENT...
written() {
	format=$1 option=$2 choice=$3
	shift 3
	rm -rf "$work/quantized"
	exits 0 "$(caution "$format")" quantize -q "$model" -o "$work/quantized" --weights "$format" "--$option" "$choice" "$@"
	exits 0 "" report --json "$model" --activation-rows 2 --against "$work/quantized"
	numbers >"$work/against"
	plural=$option
	[ "$option" != rule ] || plural=rules
	exits 0 "" report --json "$model" --activation-rows 2 --formats "$format" "--$plural" "$choice" "$@"
	numbers >"$work/memory"
	check "$format $choice: a file measures otherwise than memory" cmp "$work/against" "$work/memory"
}

written mxfp4 rule mse
written mxfp4 rule even
written mxfp4 rule rceil --round sr
written mxfp6-e2m3 rule floor
written mxfp6-e3m2 rule fit
written mxfp8-e4m3 rule rceil
written mxfp8-e5m2 rule trn3
written mxint8 rule mse
written nvfp4 nvfp4-recipe compressed-tensors
written nvfp4 nvfp4-recipe torchao-1
written nvfp4 nvfp4-recipe ggml
# What is quantized is decoded first: its errors in its own format are none.
exits 0 "" report "$work/quantized" --formats nvfp4 --nvfp4-recipe ggml --json
has "the source" "$(cat "$work/out")" '"decoded_from": "compressed-tensors, nvfp4-pack-quantized"'

# So do sparse ones: what is measured of the file is, word for word, part of what is measured in memory.
for format in mxfp4 mxfp6-e2m3 nvfp4; do
	exits 0 "" quantize -q "$model" -o "$work/sparse" --force --weights "$format" --sparsity 4:16
	exits 0 "" report --json "$model" --activation-rows 2 --against "$work/sparse"
	numbers | tr -d ' \n' >"$work/against"
	against=$(sed -n 's/.*"total":.*"variants":\[\(.*\)\]},"tensors".*/\1/p' "$work/against")
	has "$format in a file" "$against" '"sparsity":"4:16"'
	how="--rules mse"
	[ $format != nvfp4 ] || how="--nvfp4-recipe compressed-tensors"
	exits 0 "" report --json "$model" --activation-rows 2 --formats "$format" $how --sparsity 4:16
	has "$format 4:16 in memory" "$(numbers | tr -d ' \n')" "$against"
done

# Pruned and quantized, weights have no less error than with either alone: in total and in five layers, eight variants.
exits 0 "" report -q "$model" --activation-rows 1 --sparsity 4:16 -o "$work/sparse.md"
same "errors that are no less with both" 48 "$(awk -F' *[|] *' '
	/^## All measures/ { on = 1 }
	/^## Block scales/ { on = 0 }
	on && $4 ~ /:/ && $4 !~ /^f32/ { n += $6 <= dense; both[$2] = both[$2] " " $6 }
	on && $4 !~ /:/ { dense = $6 }
	on && $4 ~ /^f32/ { k = split(both[$2], of, " "); for (i = 1; i <= k; i++) n += of[i] > $6 ? -1000 : 0 }
	END { print n }' "$work/sparse.md")"

# mxfp dequantize and mxfp diff measure the same: tensor and SQNR of the last table of report's summary, and of diff's.
written mxfp4 rule mse
exits 0 "" report "$model" --activation-rows 2 --against "$work/quantized"
sqnr=$(awk -F'|' '/^\| [^ ]*weight / { print $2, $4 }' "$work/out" | tr -s ' ' | sort)
exits 0 "" dequantize -q "$work/quantized" -o "$work/decoded.safetensors"
"$mxfp" diff "$model" "$work/decoded.safetensors" >"$work/out"
same "exit code of diff" 1 $?
same "what diff says of the decoded model" "$sqnr" \
	"$(awk -F'|' '/^\| [^ ]*weight / { print $2, $7 }' "$work/out" | tr -s ' ' | sort)"
same "layers" 5 "$(printf '%s\n' "$sqnr" | wc -l | tr -d ' ')"

# A model whose tensors have different formats, made by hand: 32 times 1 in MXFP4, and 32 times 2 in MXFP8 but for one
# that is 2.25. Together 64 weights in 16 + 1 + 32 + 1 bytes.
{
	a='"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}'
	header "{$a,\"b.weight\":{\"dtype\":\"F32\",\"shape\":[1,32],\"data_offsets\":[128,256]}}"
	bytes "$(repeat 32 0000803f) $(repeat 32 00000040)"
} >"$work/plain.safetensors"
mkdir "$work/mixed"
{
	a='"a.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]}'
	a=$a',"a.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[16,17]}'
	b='"b.weight":{"dtype":"F8_E4M3","shape":[1,32],"data_offsets":[17,49]}'
	header "{$a,$b,\"b.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[49,50]}}"
	bytes "$(repeat 16 22) 7f $(repeat 31 38)39 80"
} >"$work/mixed/model.safetensors"
exits 0 "" report --json "$work/plain.safetensors" --activation-rows 2 --against "$work/mixed"
has "a mixture" "$(tr -d ' \n' <"$work/out" | sed 's/.*"total"//; s/"tensors".*//')" \
	'"format":"mixed","rule":null,"recipe":null,"sparsity":null,"elements":64,"bytes":50,"bits_per_weight":6.25'
has "the first of a mixture" "$(tr -d ' \n' <"$work/out" | sed 's/.*"tensors"//')" '"format":"mxfp4"'
has "the second of a mixture" "$(tr -d ' \n' <"$work/out" | sed 's/.*"tensors"//')" '"format":"mxfp8-e4m3"'
exits 0 "" report -q "$work/plain.safetensors" --activation-rows 2 --against "$work/mixed" -o "$work/mixed.md"
has "a mixture" "$(tr -s ' ' <"$work/mixed.md")" '| b.weight | 1x32 | mxfp8-e4m3 | as written | 33.11 |'

# Limits: the weights of the row have 13.953 dB. The report is written before.
exits 0 "" report --formats mxfp4 --rules floor "$work/row.safetensors" --fail-under SQNR=13.95 --fail-under total-SQNR=13.95
missed="tensor 'a.weight', the worst of 1: mxfp4 floor: SQNR of the weights is under 13.96 dB: 13.95 dB"
exits 1 "row.safetensors: $missed" \
	report --formats mxfp4 --rules floor "$work/row.safetensors" --fail-under SQNR=13.96 -o "$work/limit.md"
has "report of a missed limit" "$(cat "$work/limit.md")" "## Summary"
exits 1 "row.safetensors: total: mxfp4 floor: SQNR" report --formats mxfp4 --rules floor "$work/row.safetensors" \
	--fail-under total-SQNR=14
{
	safetensors '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
	repeat 128 "$(printf '\377')"
} >"$work/all_nan.safetensors"
exits 0 "" report --formats mxfp4 --rules floor "$work/all_nan.safetensors"
has "NaN" "$(cat "$work/out")" "**W4A8 does not suit the weights: 1 of 1 layer holds nothing but NaN and Inf.**"
has "NaN" "$(cat "$work/out")" "Weights that are NaN or Inf, or share a block with one: 32."
{
	safetensors '{"a.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[0,256]}}'
	bytes "$(repeat 63 0000803f)0000c07f"
} >"$work/one_nan.safetensors"
exits 0 "" report --formats mxfp4 --rules floor "$work/one_nan.safetensors"
has "one NaN" "$(cat "$work/out")" "**W4A8 does not suit the weights: 1 of 1 layer holds NaN or Inf.**"
has "one NaN" "$(cat "$work/out")" "    mxfp lint $work/one_nan.safetensors"

# 512 is 4 times 2^7, which MXFP4 holds, and beside it 31 ones become zero: SQNR is 39 dB, and yet nothing is left of them.
{
	safetensors '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}'
	bytes "00000044$(repeat 31 0000803f)"
} >"$work/outlier.safetensors"
exits 0 "" report --formats mxfp4 --rules floor "$work/outlier.safetensors"
has "an outlier" "$(tr -s ' ' <"$work/out")" "| 39.27 |"
has "an outlier" "$(cat "$work/out")" "**W4A8 does not suit the weights: 1 of 1 layer loses more than MXFP4 costs a Gaussian"
has "an outlier" "$(cat "$work/out")" "More than half of the weights of a.weight become zero, beside larger ones."

# What loaders do not take quantized is measured, and not promised.
mkdir "$work/gpt2"
echo '{"model_type":"gpt2","architectures":["GPT2LMHeadModel"]}' >"$work/gpt2/config.json"
{
	safetensors '{"transformer.h.0.mlp.c_fc.weight":{"dtype":"F32","shape":[32,64],"data_offsets":[0,8192]}}'
	bytes "$(repeat 2048 0000803f)"
} >"$work/gpt2/model.safetensors"
exits 0 "" report --formats mxfp4 "$work/gpt2"
has "a Conv1D" "$(cat "$work/out")" "Of these layers 1 stays as they are: "
same "a command for a Conv1D" "" "$(grep 'mxfp quantize' "$work/out")"
exits 1 "under 1 dB: -" report --formats mxfp4 --rules floor "$work/all_nan.safetensors" --fail-under SQNR=1
exits 1 "no tensor was measured" report "$work/row.safetensors" --ignore a.weight --fail-under SQNR=1
exits 2 "--fail-under: 'SNR=1' names no limit" report "$model" --fail-under SNR=1
exits 2 "--fail-under: '1x' is not a number" report "$model" --fail-under SQNR=1x
exits 2 "--fail-under: 'inf' is not a number" report "$model" --fail-under total-SQNR=inf

# Files: both forms, never over one that is there without --force.
exits 0 "" report "$model" --activation-rows 2 -o "$work/report.md"
has "markdown" "$(cat "$work/report.md")" "## All measures, in total and by tensor"
exits 2 "--force" report "$model" -o "$work/report.md"
exits 0 "" report "$model" --activation-rows 2 -o "$work/report.md" --force --formats nvfp4 --nvfp4-recipe te,4over6
has "recipes" "$(cat "$work/report.md")" "4over6"
exits 0 "" report "$model" --activation-rows 2 -o "$work/report.json"
check "report.json is not what --json prints" cmp -s "$work/one" "$work/report.json"
same "partial output" "" "$(find "$work" -name '.*' -type f)"

# Never over one that is read.
mkdir "$work/read"
cp "$work/x.safetensors" "$work/read/x.json"
cp "$work/quantized/model.safetensors" "$work/quantized/config.json" "$work/read"
cp "$model" "$work/read/m.json"
before=$(cat "$work"/read/* | cksum)
exits 2 "m.json: is the input" report "$work/read/m.json" -o "$work/read/./m.json" --force
exits 2 "x.json: is the input" report "$work/row.safetensors" --activation-file "$work/read/x.json" \
	-o "$work/read/x.json" --force
exits 2 "config.json: is the input" report "$model" --against "$work/read" -o "$work/read/config.json" --force
exits 2 "model.safetensors: the name tells no form" report "$model" --against "$work/read" \
	-o "$work/read/model.safetensors" --force
same "files that are read" "$before" "$(cat "$work"/read/* | cksum)"

# Refusals.
exits 2 "mxfp4" report "$model" --formats mxfp44
exits 2 "--rules" report "$model" --rules flor
exits 2 "--nvfp4-recipe" report "$model" --nvfp4-recipe t
exits 2 "--activation-rows" report "$model" --activation-rows 0
exits 2 "report.txt" report "$model" -o "$work/report.txt"
exits 2 "--against" report "$model" --against "$model" --rules mse
exits 2 "--against" report "$model" --against "$model" --sparsity 4:16
exits 2 "--rules: is for the MX formats; leave it out" report "$model" --formats nvfp4 --rules mse
exits 2 "--nvfp4-recipe: is for nvfp4; leave it out" report "$model" --formats mxfp4 --nvfp4-recipe te
exits 2 "report: --activation-rule: is for MX activations; leave it out" \
	report "$model" --activations nvfp4 --activation-rule mse
exits 2 "report: --seed: is for --round sr beside --activation-file; leave it out" \
	report "$model" --activation-file "$model" --seed 1
exits 2 "report: --round: is for weights that are quantized here" report "$model" --against "$model" --round rtz
exits 2 "--sparsity: unknown value '3:16': did you mean '4:16'? (patterns: 4:16, " report "$model" --sparsity 3:16
exits 2 "--sparsity: unknown value ''" report "$model" --sparsity ''
exits 2 "--sparsity: more than 64 combinations" report "$model" --sparsity 4:16 \
	--formats mxfp4,mxfp6-e2m3,mxfp6-e3m2,mxfp8-e4m3,mxfp8-e5m2 --rules mse,floor,even,rceil,ceil,trn3,fit
exits 2 "matches no tensor" report "$model" --ignore nothing
exits 2 "ggml" report "$model" --formats nvfp4 --nvfp4-recipe ggml --round rtz
exits 3 "holds no quantized form" report "$model" --against "$model"
exits 4 "none" report "$work/none"
exits 4 "none" report "$model" --activation-file "$work/none"

# A tensor of activations that bears a layer's name and has another length.
{
	safetensors '{"a.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}'
	bytes 0000803f
} >"$work/short.safetensors"
exits 3 "last dimension of 32" report --activation-file "$work/short.safetensors" "$work/row.safetensors"

# One tensor that fits one layer of two, no layer at all, and with a NaN in its second row.
{
	safetensors '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
		"b.weight":{"dtype":"F32","shape":[1,64],"data_offsets":[128,384]}}'
	head -c 384 /dev/zero
} >"$work/two.safetensors"
exits 0 "" report --activation-file "$work/x.safetensors" "$work/two.safetensors"
has "covered" "$(cat "$work/out")" "x.safetensors; columns y cover 1 of 2 tensors"
exits 0 "" report --json --activation-file "$work/x.safetensors" "$work/two.safetensors"
has "covered" "$(tr -d ' \n' <"$work/out")" '"covered_tensors":1,'
exits 3 "x.safetensors: holds no activations for any tensor: rows of 64 are needed, of 32 found" \
	report --activation-file "$work/x.safetensors" --ignore a.weight "$work/two.safetensors"
{
	safetensors '{"any":{"dtype":"F32","shape":[2,32],"data_offsets":[0,256]}}'
	head -c 248 /dev/zero
	bytes 0000c07f 00000000
} >"$work/nan.safetensors"
exits 3 "nan.safetensors: tensor 'any': element 62: NaN or Inf" \
	report --activation-file "$work/nan.safetensors" "$work/row.safetensors"
exits 0 "" report --activation-file "$work/nan.safetensors" --activation-rows 1 "$work/row.safetensors"
has "rows used" "$(cat "$work/out")" "the first 1 rows of x, of which there are up to 2 (--tokens takes more), "

# All rows of a file count, up to 512: with the row above, y = 12.5 that becomes 10, as the last of n rows of zeros, its
# relative error is 0.2 if it is among those used; if not, there is none.
# last N: such a file.
last() {
	{
		safetensors "{\"any\":{\"dtype\":\"F32\",\"shape\":[$1,32],\"data_offsets\":[0,$(($1 * 128))]}}"
		head -c $((($1 - 1) * 128)) /dev/zero
		tail -c 128 "$work/x.safetensors"
	} >"$work/last.safetensors"
}
# used N OPTIONS ROWS ERROR
used() {
	last "$1"
	exits 0 "" report --json --formats mxfp4 --rules floor $2 --activation-file "$work/last.safetensors" "$work/row.safetensors"
	text=$(tr -d ' \n' <"$work/out")
	has "rows of $1 $2" "$text" "\"tokens\":$3,\"file_rows\":$1,"
	has "error of $1 $2" "$(printf '%s' "$text" | sed 's/"weights_quantized":{"sqnr_db":[0-9a-z.]*,/W/')" "W\"relative_error\":$4,"
}
used 20 "" 20 0.2
used 512 "" 512 0.2
used 513 "" 512 0.0
used 513 "--activation-rows 4096" 513 0.2
exits 0 "" report --activation-file "$work/last.safetensors" "$work/row.safetensors" --activation-rows 600
has "rows used" "$(cat "$work/out")" "all rows of x, at most 513 a layer, "

# Real weights.
if [ -d "$shared/weights" ]; then
	stories=$shared/weights/stories260K
	for input in "$shared"/weights/*.safetensors "$stories"/*.safetensors "$stories/sharded"; do
		exits 0 "" report --json --activation-rows 2 "$input"
		same "$input: numbers that are none" 0 "$(grep -ciE '[:[,] *-?(nan|inf)' "$work/out")"
	done
else
	echo "no $shared/weights: real weights not tried"
fi
finish
