#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp quantize --recipe and --preset. The row of every tensor is +-0, .5, 1, 1.5, 2, 3, 4, 6, twice; its codes were
# worked by hand from the tables of element formats, and at 4:16 what is left of each 16 is +-4 and +-6.
. "${srcdir:-.}/tests/cli/cli.shlib"

half='00000000 0000003f 0000803f 0000c03f 00000040 00004040 00008040 0000c040
	00000080 000000bf 000080bf 0000c0bf 000000c0 000040c0 000080c0 0000c0c0'
row=$(echo $half $half | tr -d ' ')
kept=$(repeat 2 "$(repeat 6 00000000)000080400000c040$(repeat 6 00000000)000080c00000c0c0")
names='l.0.down_proj l.0.up_proj l.1.down_proj l.1.up_proj l.2.down_proj'
json= at=0
for name in $names; do
	json="$json${json:+,}\"$name.weight\":{\"dtype\":\"F32\",\"shape\":[1,32],\"data_offsets\":[$at,$((at + 128))]}"
	at=$((at + 128))
done
header "{$json}" >"$work/m.safetensors"
for name in $names; do
	bytes "$row"
done >>"$work/m.safetensors"

cat >"$work/r.json" <<END
{
  "version": 1,
  "default": {"rule": "floor"},
  "activations": "none",
  "rules": [
    {"match": "re:l\\\\.2", "keep": true},
    {"match": "*.0.up_proj.weight", "format": "mxfp6-e3m2"},
    {"match": ["*.1.up_proj.*", "nothing.*"], "sparsity": "4:16"},
    {"match": "*.1.*", "format": "mxfp8-e4m3"}
  ]
}
END
exits 2 "r.json: rules[2].match 'nothing.*' matches no tensor" quantize "$work/m.safetensors" -n --recipe "$work/r.json"
sed -i 's/, "nothing.\*"//' "$work/r.json"
exits 0 "" quantize "$work/m.safetensors" -n --recipe "$work/r.json"
text=$(tr -s ' ' <"$work/out")
has "table" "$text" "| l.0.down_proj.weight | F32 [1, 32] | mxfp4 | linear weight | 4.250 |"
has "table" "$text" "| l.0.up_proj.weight | F32 [1, 32] | mxfp6-e3m2 | linear weight, rules[1] | 6.250 |"
has "table" "$text" "| l.1.down_proj.weight | F32 [1, 32] | mxfp8-e4m3 | linear weight, rules[3] | 8.250 |"
has "table" "$text" "| l.1.up_proj.weight | F32 [1, 32] | mxfp4 floor 4:16 | linear weight, rules[2] | 2.250 |"
has "table" "$text" "| l.2.down_proj.weight | F32 [1, 32] | kept | kept by rules[0] | 32 |"
exits 0 "" quantize "$work/m.safetensors" -o "$work/q" --json --recipe "$work/r.json"
text=$(tr -d ' \n' <"$work/out")
has "JSON" "$text" '"weights":"mxfp4","rule":"floor","sparsity":"4:16","bits_per_weight":2.25'

# Every tensor as it is by itself, and what the file and config.json say.
exits 0 "" inspect "$work/q"
text=$(tr -s ' ' <"$work/out")
for line in 'l.0.down_proj.weight_packed U8 16 [1, 16]' 'l.0.up_proj.weight_packed U8 24 [1, 24]' \
	'l.1.down_proj.weight F8_E4M3 32 [1, 32]' 'l.1.up_proj.weight_sparse U8 4 [1, 4]' \
	'l.2.down_proj.weight F32 128 [1, 32]' 'mxfp.weights = mxfp4' 'mxfp.rule = floor' \
	'mxfp.tensor.l.0.up_proj.weight = mxfp6-e3m2 floor' 'mxfp.tensor.l.1.down_proj.weight = mxfp8-e4m3 floor' \
	'mxfp.tensor.l.1.up_proj.weight = mxfp4 floor 4:16'; do
	has "file" "$text" " $line"
done
file=$(hex <"$work/q/model.safetensors")
for codes in "$(repeat 2 1032547698badcfe)" "$(repeat 2 00445998c679204cdbb8cefb)" \
	"$(repeat 2 0060686c7074787c80e0e8ecf0f4f8fc)"; do
	has "codes" "$file" "$codes"
done
config=$(tr -d ' \n' <"$work/q/config.json")
has "config" "$config" '"format":"mixed-precision"'
has "config" "$config" '"group_0":{"targets":["l.0.down_proj"],"weights":{"num_bits":4,'
has "config" "$config" '"format":"mxfp4-pack-quantized"},"group_1":{"targets":["l.0.up_proj"],"weights":{"num_bits":6,'
has "config" "$config" '"output_activations":null,"format":null},"group_2":{"targets":["l.1.down_proj"],'
has "config" "$config" '"ignore":["lm_head","l.2.down_proj"]'
exits 0 "" dequantize "$work/q" -o "$work/back.safetensors" -q
same "decoded" "$(repeat 3 $row)$kept$row" "$(data 640 "$work/back.safetensors")"

# Options change the default, not what rules say.
exits 0 "" quantize "$work/m.safetensors" -n --recipe "$work/r.json" -w mxint8 --rule even
text=$(tr -s ' ' <"$work/out")
has "table" "$text" "| l.0.down_proj.weight | F32 [1, 32] | mxint8 |"
has "table" "$text" "| l.1.up_proj.weight | F32 [1, 32] | mxint8 even 4:16 |"
has "table" "$text" "| l.1.down_proj.weight | F32 [1, 32] | mxfp8-e4m3 |"
has "choices" "$text" "weights mxint8, rule even"

# Presets; options change them too.
preset() {
	exits 0 "" quantize "$work/m.safetensors" -n "$@"
	text=$(tail -5 "$work/out")
}
preset --preset w4a8
w4a8=$text
preset
same "default" "$w4a8" "$text"
has "default" "$text" "weights mxfp4, rule mse, round rne, seed 0, non_finite error, activations mxfp8-e4m3"
preset --preset mxfp8
has "mxfp8" "$text" "weights mxfp8-e4m3, rule mse, round rne, seed 0, non_finite error, activations mxfp8-e4m3"
preset --preset nvfp4
has "nvfp4" "$text" "weights nvfp4, recipe compressed-tensors, fuse yes, round rne, seed 0, non_finite error, activations none"
preset --preset nvfp4 --nvfp4-recipe ggml
has "nvfp4" "$text" "weights nvfp4, recipe ggml,"
preset --preset mxfp8 -w mxfp6-e2m3 -r floor -a none
has "mxfp8" "$text" "weights mxfp6-e2m3, rule floor, round rne, seed 0, non_finite error, activations none"
exits 2 "--preset: unknown value 'w4a9': did you mean 'w4a8'?" quantize "$work/m.safetensors" -n --preset w4a9
exits 2 "--preset and --recipe" quantize "$work/m.safetensors" -n --preset mxfp8 --recipe "$work/r.json"
exits 2 "--rule: is for the MX formats" quantize "$work/m.safetensors" -n --preset nvfp4 --rule mse
sed 's/"version"/"fuse": 1, "version"/' "$work/r.json" >"$work/f.json"
exits 3 "f.json: fuse: is neither true nor false" quantize "$work/m.safetensors" -n --recipe "$work/f.json"
sed -i 's/"floor"/"flor"/' "$work/r.json"
exits 3 "r.json: default.rule: unknown value 'flor': did you mean 'floor'?" \
	quantize "$work/m.safetensors" -n --recipe "$work/r.json"
finish
