#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp advise. Rows hold 6, another number and zeros, so under rule floor MXFP4's scale is 1: 5 becomes 4, an error of
# r = 1 / (36 + 25), 17.85 dB; 2.5 becomes 2, r = .25 / (36 + 6.25), 22.28 dB; 4 is exact. MXFP8's scale is 1/64, and
# all of them are exact.
. "${srcdir:-.}/tests/cli/cli.shlib"

zeros=$(repeat 30 00000000)
five="0000c040 0000a040 $zeros" half="0000c040 00002040 $zeros" exact="0000c040 00008040 $zeros"
json= at=0
for name in a b c; do
	json="$json${json:+,}\"$name.weight\":{\"dtype\":\"F32\",\"shape\":[1,32],\"data_offsets\":[$at,$((at + 128))]}"
	at=$((at + 128))
done
safetensors "$work/m.safetensors" "{$json}" "$half $exact $five"

exits 0 "" advise "$work/m.safetensors" --formats mxfp4,mxfp8-e4m3 --rules floor
text=$(tr -s ' ' <"$work/out")
has "a" "$text" "| a.weight | F32 [1, 32] | mxfp4 | floor 22.28 | 4.250 |"
has "b" "$text" "| b.weight | F32 [1, 32] | mxfp4 | floor inf | 4.250 |"
has "c" "$text" "| c.weight | F32 [1, 32] | mxfp4 | floor 17.85 | 4.250 |"
has "c" "$text" "| | | mxfp8-e4m3 | floor inf | 8.250 |"
# The mean of r over three layers, then over them with c exact, then with a exact too.
has "front" "$text" "| 4.25 | 4.250 | 21.29 | 100.0 % | 0.0 % |"
has "front" "$text" "| 5.5 | 4.250 | 21.29 | 100.0 % | 0.0 % |"
has "front" "$text" "| 5.75 | 5.583 | 27.05 | 66.7 % | 33.3 % |"
has "front" "$text" "| 6.75 | 5.583 | 27.05 | 66.7 % | 33.3 % |"
has "front" "$text" "| 6.917 | 6.917 | inf | 33.3 % | 66.7 % |"
same "points" 12 "$(grep -c '%' "$work/out")"

# The mixture of --bits as a recipe, which mxfp quantize takes.
exits 0 "" advise "$work/m.safetensors" --formats mxfp4,mxfp8-e4m3 --rules floor --bits 5.6 -o "$work/r.json"
has "chosen" "$(cat "$work/out")" "chosen: 5.583 bits a weight, 27.05 dB"
same "recipe" '{"version":1,"default":{"format":"mxfp4","rule":"floor"},"rules":[{"match":["c.weight"],'\
'"format":"mxfp8-e4m3","rule":"floor"}]}' "$(tr -d ' \n' <"$work/r.json")"
exits 0 "" quantize "$work/m.safetensors" -n --recipe "$work/r.json"
text=$(tr -s ' ' <"$work/out")
has "quantized" "$text" "| b.weight | F32 [1, 32] | mxfp4 |"
has "quantized" "$text" "| c.weight | F32 [1, 32] | mxfp8-e4m3 |"
has "quantized" "$text" "elements, 5.583 bits each"
exits 2 "exists" advise "$work/m.safetensors" --bits 5 -o "$work/r.json"
exits 0 "" advise "$work/m.safetensors" --formats mxfp4 --rules mse --bits 4.25 -o "$work/s.json" --ignore 're:a' \
	--include 'b*'
has "patterns" "$(tr -d ' \n' <"$work/s.json")" '"include":["b*"],"rules":[{"match":["re:a"],"keep":true}]}'
has "left out" "$(cat "$work/out")" "| b.weight"
exits 0 "" quantize "$work/m.safetensors" -n --recipe "$work/s.json"
has "kept" "$(tr -s ' ' <"$work/out")" "| a.weight | F32 [1, 32] | kept | kept by rules[0] |"

exits 0 "" advise "$work/m.safetensors" --formats mxfp4,mxfp8 --rules floor --bits 6 --json
text=$(tr -d ' \n' <"$work/out")
has "JSON" "$text" '{"name":"c.weight","dtype":"F32","shape":[1,32],"formats":[{"weights":"mxfp4","bits_per_weight":'
has "JSON" "$text" '"choices":[{"rule":"floor","sqnr_db":17.85329835'
has "JSON" "$text" '"relative_squared_error":0.01639344262295082'
has "JSON" "$text" '"chosen":"mxfp8-e4m3"}'
has "JSON" "$text" '"chosen":{"bits_per_weight":5.58333'
exits 2 "--bits 4.2: no mixture of these formats has fewer than 4.2500 bits a weight" \
	advise "$work/m.safetensors" --formats mxfp8,mxfp4 --rules floor --bits 4.2
exits 2 "-o writes the mixture of --bits" advise "$work/m.safetensors" -o "$work/t.json"
exits 2 "invalid --bits 'x': expected a number, for example 5" advise "$work/m.safetensors" --bits x
exits 2 "unknown value 'mxpf4'" advise "$work/m.safetensors" --formats mxpf4
exits 0 "" quantize "$work/m.safetensors" -o "$work/q" -q
exits 3 "is already quantized" advise "$work/q"
finish
