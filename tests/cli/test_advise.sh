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
has "b" "$text" "| b.weight | F32 [1, 32] | mxfp4 | floor exact | 4.250 |"
has "c" "$text" "| c.weight | F32 [1, 32] | mxfp4 | floor 17.85 | 4.250 |"
has "c" "$text" "| | | mxfp8-e4m3 | floor exact | 8.250 |"
# The mean of r over three layers, then over them with c exact, then with a exact too.
has "front" "$text" "| 4.25 | 4.250 | 21.29 | 100.0 % | 0.0 % |"
has "front" "$text" "| 5.5 | 4.250 | 21.29 | 100.0 % | 0.0 % |"
has "front" "$text" "| 5.75 | 5.583 | 27.05 | 66.7 % | 33.3 % |"
has "front" "$text" "| 6.75 | 5.583 | 27.05 | 66.7 % | 33.3 % |"
has "front" "$text" "| 6.917 | 6.917 | exact | 33.3 % | 66.7 % |"
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

# What is not measured is not quantized, whatever may be quantized with --weights nvfp4.
safetensors_zeros "$work/48.safetensors" '{"a[1].weight":{"dtype":"F32","shape":[1,48],"data_offsets":[0,192]},
	"b.weight":{"dtype":"F32","shape":[1,64],"data_offsets":[192,448]}}' 448
exits 0 "" advise "$work/48.safetensors" --formats nvfp4 --bits 5 -o "$work/n.json"
has "left out" "$(cat "$work/out")" "left out: 1 layers whose rows are not whole blocks"
same "recipe" '{"version":1,"default":{"format":"nvfp4","nvfp4_recipe":"compressed-tensors"},"fuse":true,"rules":[{"match":['\
'"a\\[1].weight"],"keep":true}]}' "$(tr -d ' \n' <"$work/n.json")"
exits 0 "" quantize "$work/48.safetensors" -n --recipe "$work/n.json" -a none
has "what advise left out" "$(tr -s ' ' <"$work/out")" "| a[1].weight | F32 [1, 48] | kept | kept by rules[0] |"

# Not greedy: c saves .5246 (32 weights of r = 1/61) in 16 bytes more, d .9275 (64 of 2/138) in 32, which is less a byte. Of
# 96 weights in 51 bytes 7 bits allow 84: with d in MXFP8 and c not, .5246 / 96 is left, 22.62 dB; the other way, 20.15.
safetensors "$work/d.safetensors" '{"c.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
	"d.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[128,384]}}' "$five $five" "0000c040 0000a040 00008040 $(repeat 29 00000000)"
exits 0 "" advise "$work/d.safetensors" --formats mxfp4,mxfp8-e4m3 --rules floor --bits 7
has "not greedy" "$(cat "$work/out")" "chosen: 6.917 bits a weight, 22.62 dB"
has "not greedy" "$(tr -s ' ' <"$work/out")" "| 6.75 | 5.583 | 20.15 | 66.7 % | 33.3 % |"

exits 0 "" advise "$work/m.safetensors" --formats mxfp4,mxfp8 --rules floor --bits 6 --json
text=$(tr -d ' \n' <"$work/out")
has "JSON" "$text" '{"name":"c.weight","dtype":"F32","shape":[1,32],"non_finite":0,"formats":[{"weights":"mxfp4","bits_per_weight":'
has "JSON" "$text" '"choices":[{"rule":"floor","sqnr_db":17.85329835'
has "JSON" "$text" '"relative_squared_error":0.01639344262295082'
has "JSON" "$text" '"chosen":"mxfp8-e4m3"}'
has "JSON" "$text" '"chosen":{"bits_per_weight":5.58333'
has "JSON" "$text" '"exact":true,'
has "JSON" "$text" '"tensors_left_out":0,"tensors_refused":0'
exits 2 "--bits 4.2: no mixture of these formats has fewer than 4.2500 bits a weight" \
	advise "$work/m.safetensors" --formats mxfp8,mxfp4 --rules floor --bits 4.2
exits 2 "-o writes the mixture of --bits" advise "$work/m.safetensors" -o "$work/t.json"
exits 2 "invalid --bits 'x': expected a number, for example 5" advise "$work/m.safetensors" --bits x
exits 2 "unknown value 'mxpf4'" advise "$work/m.safetensors" --formats mxpf4
exits 0 "" quantize "$work/m.safetensors" -o "$work/q" -q
exits 3 "is already quantized" advise "$work/q"

# A recipe for a layout is one that mxfp quantize takes for it: formats are those that the layout holds.
# for_layout LAYOUT FORMAT...
for_layout() {
	layout=$1
	shift
	exits 0 "" advise "$work/d.safetensors" -l "$layout" --json
	same "default formats of $layout" "$*" "$(tr -d ' \n' <"$work/out" | sed 's/.*"shares":{//;s/}.*//' |
		grep -o '"[^"]*"' | tr -d '"' | tr '\n' ' ' | sed 's/ $//')"
	for bits in 4.5 8; do
		exits 0 "" advise "$work/d.safetensors" -l "$layout" --bits $bits -fo "$work/l.json"
		exits 0 "" quantize "$work/d.safetensors" -n -l "$layout" --recipe "$work/l.json"
	done
}
for_layout compressed-tensors mxfp4 nvfp4 mxfp6-e2m3 mxfp8-e4m3
for_layout modelopt mxfp4 nvfp4 mxfp8-e4m3
for_layout quark mxfp4
for_layout trn-x4 mxfp4 mxfp8-e4m3
exits 2 "--formats: layout quark holds no nvfp4; give " advise "$work/d.safetensors" -l quark --formats mxfp4,nvfp4
exits 2 "--nvfp4-recipe: layout modelopt holds no tensor scale of compressed-tensors; give modelopt-0.45" \
	advise "$work/d.safetensors" -l modelopt --nvfp4-recipe compressed-tensors

# Loaders fuse q, k and v: a mixture with tensor scales has them share one, though the largest of q is 6 and of k 96.
safetensors "$work/qk.safetensors" '{"a.q_proj.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
	"a.k_proj.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[128,256]}}' "0000c040 $(repeat 31 0000803f) 0000c042 $(repeat 31 0000803f)"
for layout in compressed-tensors modelopt; do
	exits 0 "" advise "$work/qk.safetensors" -l $layout --formats nvfp4 --bits 5.5 -fo "$work/f.json"
	has "fused" "$(tr -d ' \n' <"$work/f.json")" '"fuse":true'
	exits 0 "" quantize "$work/qk.safetensors" -l $layout -o "$work/qk" -fq --recipe "$work/f.json"
	exits 0 "" lint -q "$work/qk"
	sed '/"fuse"/d' "$work/f.json" >"$work/apart.json"
	exits 0 "" quantize "$work/qk.safetensors" -l $layout -o "$work/qk" -fq --recipe "$work/apart.json"
	has "apart" "$("$mxfp" lint -q "$work/qk" || :)" "[fused-scale]"
done
exits 0 "" advise "$work/qk.safetensors" --formats nvfp4,mxfp4 --bits 4.25 -fo "$work/f.json"
checks=$((checks + 1))
! grep -q fuse "$work/f.json" || bad "a recipe without NVFP4 fuses"
exits 0 "" advise "$work/qk.safetensors" --formats nvfp4 --nvfp4-recipe torchao-1 --bits 5.5 -fo "$work/f.json"
checks=$((checks + 1))
! grep -q fuse "$work/f.json" || bad "a recipe without tensor scales fuses"

# Weights that are NaN or Inf: how many, and no word of an error of 0. In b they are two of 64, in one of two blocks.
safetensors "$work/nan.safetensors" '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
	"b.weight":{"dtype":"F32","shape":[2,32],"data_offsets":[128,384]},
	"c.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[384,512]}}' \
	"$exact 0000c07f 000080ff $zeros $exact $(repeat 32 0000c07f)"
exits 0 "" advise "$work/nan.safetensors" --formats mxfp4 --rules floor --bits 5
text=$(tr -s ' ' <"$work/out")
has "NaN" "$text" "NaN or Inf: 34 weights in 2 layers, the first 'b.weight';"
has "NaN" "$text" "mxfp quantize refuses them: mend the model, --ignore the layers, or give it --non-finite"
has "NaN" "$text" "| a.weight | F32 [1, 32] | mxfp4 | floor exact | 4.250 |"
has "NaN" "$text" "| c.weight | F32 [1, 32] | mxfp4 | floor - | 4.250 |"
has "NaN" "$text" "chosen: 4.250 bits a weight, -"
exits 0 "" advise "$work/nan.safetensors" --json
has "NaN" "$(tr -d ' \n' <"$work/out")" '"name":"b.weight","dtype":"F32","shape":[2,32],"non_finite":2,'
exits 3 "" quantize "$work/nan.safetensors" -o "$work/nan" -q
exits 0 "" advise "$work/m.safetensors"
checks=$((checks + 1))
! grep -q "NaN" "$work/out" || bad "NaN in a model without"
finish
