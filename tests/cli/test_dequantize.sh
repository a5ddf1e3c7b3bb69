#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp dequantize on checkpoints as other programs write them: no metadata of ours, parts in different shards.
. "${srcdir:-.}/tests/cli/cli.shlib"

# All 16 codes of e2m1, twice, and what they decode to: the first block at scale 2^1 (80), the second at 2^-1 (7e).
codes=1032547698badcfe
times2=$(echo '00000000 0000803f 00000040 00004040 00008040 0000c040 00000041 00004041
	00000080 000080bf 000000c0 000040c0 000080c0 0000c0c0 000000c1 000040c1' | tr -d ' \n\t')
half=$(echo '00000000 0000803e 0000003f 0000403f 0000803f 0000c03f 00000040 00004040
	00000080 000080be 000000bf 000040bf 000080bf 0000c0bf 000000c0 000040c0' | tr -d ' \n\t')

# Shards: codes in one, scales in the other.
mkdir "$work/sharded"
first=model-00001-of-00002.safetensors
second=model-00002-of-00002.safetensors
safetensors "$work/sharded/$first" '{"x.weight_packed":{"dtype":"U8","shape":[2,16],"data_offsets":[0,32]}}' \
	"$(repeat 4 $codes)"
safetensors "$work/sharded/$second" '{"norm.weight":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},
	"x.weight_scale":{"dtype":"U8","shape":[2,1],"data_offsets":[4,6]}}' 803f0040 807e
echo "{\"weight_map\":{\"x.weight_packed\":\"$first\",\"x.weight_scale\":\"$second\",\"norm.weight\":\"$second\"}}" \
	>"$work/sharded/model.safetensors.index.json"
echo '{"hidden_size":32,"quantization_config":{"quant_method":"compressed-tensors"}}' >"$work/sharded/config.json"
exits 0 "" dequantize "$work/sharded" -o "$work/plain"
has "summary" "$(cat "$work/out")" "1 tensors decoded to f32, 1 kept"
exits 0 "" dequantize "$work/sharded" -o "$work/plain" -fq --json --to bf16
same "JSON" "{\"input\":\"$work/sharded\",\"output\":\"$work/plain\",\"to\":\"bf16\",\"tensors_decoded\":1,\"tensors_converted\":0,\"tensors_kept\":1,\"saturated\":0,\"overflowed\":0,\"pre_quant_scales_folded\":0,\"kv_cache_scheme\":null,\"copied\":[],\"not_copied\":[]}" \
	"$(tr -d ' \n' <"$work/out")"
exits 0 "" dequantize "$work/sharded" -o "$work/plain" -fq
same "decoded" "$times2$times2$half$half" "$(data 256 "$work/plain/$first")"
same "kept" 803f0040 "$(data 4 "$work/plain/$second")"
exits 0 "" inspect "$work/plain"
text=$(tr -s ' ' <"$work/out")
has "index" "$text" "plain: not quantized"
has "shape" "$text" " x.weight F32 256 [2, 32]"
has "shards" "$text" " all 2 66 260"
same "config" '{"hidden_size":32}' "$(tr -d ' \n' <"$work/plain/config.json")"
# Loaders round all numbers to the dtype of config.json, which is another than the source's unless --to says the same.
for case in bfloat16,f32,float32 bfloat16,bf16,bfloat16 bfloat16,f16,float32 float32,bf16,float32 float16,f16,float16; do
	was=${case%%,*} to=${case%,*}
	echo "{\"torch_dtype\":\"$was\",\"text_config\":{\"dtype\":\"$was\"},\"quantization_config\":{\"quant_method\":\"compressed-tensors\"}}" \
		>"$work/sharded/config.json"
	exits 0 "" dequantize "$work/sharded" -o "$work/plain" -fq --to "${to#*,}"
	same "dtype, $case" "{\"torch_dtype\":\"${case##*,}\",\"text_config\":{\"dtype\":\"${case##*,}\"}}" \
		"$(tr -d ' \n' <"$work/plain/config.json")"
done
# --all: a norm in bf16 (1.0, 2.0), an embedding in f16 (1.0, 65504, -2^-24), a scale in f64 (0.1, to nearest even 0x3dcccccd) and one in
# e4m3 (448) become numbers of --to as well; integers stay. Values by hand.
mkdir "$work/all"
printf '{"torch_dtype":"bfloat16","quantization_config":{"quant_method":"compressed-tensors"}}' >"$work/all/config.json"
safetensors "$work/all/model.safetensors" '{"x.weight_packed":{"dtype":"U8","shape":[2,16],"data_offsets":[0,32]},
	"x.weight_scale":{"dtype":"U8","shape":[2,1],"data_offsets":[32,34]},"norm.weight":{"dtype":"BF16","shape":[2],"data_offsets":[34,38]},
	"embed.weight":{"dtype":"F16","shape":[3],"data_offsets":[38,44]},"s":{"dtype":"F64","shape":[1],"data_offsets":[44,52]},
	"e":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[52,53]},"ids":{"dtype":"I32","shape":[1],"data_offsets":[53,57]},
	"flag":{"dtype":"BOOL","shape":[1],"data_offsets":[57,58]}}' \
	"$(repeat 4 $codes)807e803f0040003cff7b01809a9999999999b93f7e0700000001"
exits 0 "" dequantize "$work/all" -o "$work/all32" --all
has "summary of --all" "$(cat "$work/out")" "1 tensors decoded to f32, 4 converted, 2 kept"
part() {
	"$mxfp" dequantize "$work/all" -o "$work/part.safetensors" -fq --all --to "$1" || return
	"$mxfp" inspect "$work/part.safetensors" --json | tr -d ' \n' | grep -o "\"name\":\"$2\",[^}]*\"dtype\":\"[A-Z0-9]*\"" | sed 's/.*:"//; s/"//'
}
for case in norm.weight,F32,BF16,F16 embed.weight,F32,BF16,F16 s,F32,BF16,F16 x.weight,F32,BF16,F16 ids,I32,I32,I32 flag,BOOL,BOOL,BOOL; do
	same "dtypes of --all" "$case" "$(echo "${case%%,*}" f32 bf16 f16 | (read -r name a b c && echo "$name,$(part $a $name),$(part $b $name),$(part $c $name)"))"
done
whole=$(od -An -v -tx1 "$work/all32/model.safetensors" | tr -d ' \n')
for number in $times2$times2$half$half 0000803f00000040 0000803f00e07f47000080b3 cdcccc3d 0000e043 07000000; do
	has "numbers of --all" "$whole" "$number"
done
same "config of --all" '{"torch_dtype":"float32"}' "$(tr -d ' \n' <"$work/all32/config.json")"
sed -i.bak s/bfloat16/float32/ "$work/all/config.json"
exits 0 "" dequantize "$work/all" -o "$work/all16" -fq --all --to bf16
same "config of --all" '{"torch_dtype":"bfloat16"}' "$(tr -d ' \n' <"$work/all16/config.json")"
exits 0 "" dequantize "$work/all" -o "$work/all16" -fq --to bf16
same "config without --all" '{"torch_dtype":"float32"}' "$(tr -d ' \n' <"$work/all16/config.json")"
# What is too large: 2^16 of bf16 for f16, counted by --overflow as of others; 1e300 for f32.
safetensors "$work/large.safetensors" '{"x.weight_packed":{"dtype":"U8","shape":[2,16],"data_offsets":[0,32]},
	"x.weight_scale":{"dtype":"U8","shape":[2,1],"data_offsets":[32,34]},"norm.weight":{"dtype":"BF16","shape":[2],"data_offsets":[34,38]}}' \
	"$(repeat 4 $codes)807e80478047"
exits 3 "tensor 'norm.weight': 2 of 2 numbers are too large for f16, whose largest is 65504; --to f32 has more room, --overflow sat writes" \
	dequantize "$work/large.safetensors" -o "$work/large16.safetensors" --all --to f16
same "no output" no "$([ -e "$work/large16.safetensors" ] && echo yes || echo no)"
exits 0 "" dequantize "$work/large.safetensors" -o "$work/large16.safetensors" --all --to f16 --overflow sat
has "saturated" "$(cat "$work/out")" "2 numbers were too large for f16 and became its largest"
exits 0 "" dequantize "$work/large.safetensors" -o "$work/large16.safetensors" -f --to f16
safetensors "$work/large.safetensors" '{"x.weight_packed":{"dtype":"U8","shape":[2,16],"data_offsets":[0,32]},
	"x.weight_scale":{"dtype":"U8","shape":[2,1],"data_offsets":[32,34]},"s":{"dtype":"F64","shape":[2],"data_offsets":[34,50]}}' \
	"$(repeat 4 $codes)807e000000000000f07f9c7500883ce4377e"
exits 3 "tensor 's': element 1 is 1e+300, too large for f32; leave --all out" dequantize "$work/large.safetensors" -o "$work/large32.safetensors" --all
exits 2 "is sharded" dequantize "$work/sharded" -o "$work/one.safetensors"

# decodes NAME HEADER DATA EXPECTED: a file of one layer, and its numbers in f32.
decodes() {
	safetensors "$work/$1.safetensors" "$2" "$3"
	exits 0 "" dequantize "$work/$1.safetensors" -o "$work/$1.back.safetensors" -q
	numbers=$(printf '%s' "$4" | tr -d ' ')
	same "$1" "$numbers" "$(data $((${#numbers} / 2)) "$work/$1.back.safetensors")"
	exits 0 "" inspect "$work/$1.back.safetensors"
	has "$1" "$(tr -s ' ' <"$work/out")" " all 1 "
}
# e4m3: 38 is 1, 7e is 448, 01 is 2^-9; the scale dtype may be the number's own.
decodes mxfp8 '{"l.weight":{"dtype":"F8_E4M3","shape":[1,32],"data_offsets":[0,32]},
	"l.weight_scale":{"dtype":"F8_E8M0","shape":[1,1],"data_offsets":[32,33]}}' \
	"387e01b8$(repeat 28 00)80" "00000040 00006044 0000803b 000000c0 $(repeat 28 00000000)"
# A scale of ff is NaN.
decodes nan '{"l.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
	"l.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[16,17]}}' "$codes${codes}ff" "$(repeat 32 0000c07f)"
# NVFP4: code * scale / divisor; scales 38 (1) and 40 (2), divisor 4; the scale of activations goes too.
quarter=$(echo '00000000 0000003e 0000803e 0000c03e 0000003f 0000403f 0000803f 0000c03f
	00000080 000000be 000080be 0000c0be 000000bf 000040bf 000080bf 0000c0bf' | tr -d ' \n\t')
decodes nvfp4 '{"l.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
	"l.weight_scale":{"dtype":"F8_E4M3","shape":[1,2],"data_offsets":[16,18]},
	"l.weight_global_scale":{"dtype":"F32","shape":[],"data_offsets":[18,22]},
	"l.input_global_scale":{"dtype":"F32","shape":[1],"data_offsets":[22,26]}}' \
	"$codes$codes 3840 00008040 0000803f" "$quarter$half"

# overflows NAME HEADER DATA TO N LARGEST: N numbers of its one tensor l.weight are too large for a format whose largest is
# LARGEST; so nothing is written, whatever was there before.
overflows() {
	safetensors "$work/$1.safetensors" "$2" "$3"
	exits 3 "$1.safetensors: tensor 'l.weight': $5 numbers are too large for $4, whose largest is $6; " \
		dequantize "$work/$1.safetensors" -o "$work/$1.back.safetensors" -q --to "$4"
	check "$1: an output though numbers are too large" [ ! -e "$work/$1.back.safetensors" ]
}
# allowed NAME TO MODE N COUNT EXPECTED: N such numbers become something else, and are counted as COUNT.
allowed() {
	exits 0 "" dequantize "$work/$1.safetensors" -o "$work/$1.back.safetensors" --json --force --to "$2" --overflow "$3"
	has "$1" "$(tr -d ' \n' <"$work/out")" "$5"
	numbers=$(printf '%s' "$6" | tr -d ' ')
	same "$1 $2 $3" "$numbers" "$(data $((${#numbers} / 2)) "$work/$1.back.safetensors")"
}
# Codes 7, f and 2 (6, -6 and 1) at 2^127: 6 * 2^127 is beyond binary32, and 2^127 beyond f16.
mxfp4='{"l.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
	"l.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[16,17]}}'
overflows f32 "$mxfp4" "f7$(repeat 15 22)fe" f32 "2 of 32" 3.40282347e+38
allowed f32 f32 ovf 2 '"saturated":0,"overflowed":2' "0000807f000080ff$(repeat 30 0000007f)"
allowed f32 f32 sat 2 '"saturated":2,"overflowed":0' "ffff7f7fffff7fff$(repeat 30 0000007f)"
allowed f32 bf16 ovf 2 '"saturated":0,"overflowed":2' "807f80ff$(repeat 30 007f)"
allowed f32 bf16 sat 2 '"saturated":2,"overflowed":0' "7f7f7fff$(repeat 30 007f)"
allowed f32 f16 sat 32 '"saturated":32,"overflowed":0' "ff7bfffb$(repeat 30 ff7b)"
exits 0 "" dequantize "$work/f32.safetensors" -o "$work/f32.back.safetensors" --force --to f16 --overflow ovf
has "summary" "$(cat "$work/out")" "32 numbers were too large for f16 and became Inf"
exits 0 "" dequantize "$work/f32.safetensors" -o "$work/f32.back.safetensors" --force --to bf16 --overflow sat
has "summary" "$(cat "$work/out")" "2 numbers were too large for bf16 and became its largest"
exits 2 "unknown value 'inf' (known: sat, ovf)" dequantize "$work/f32.safetensors" -o "$work/r" --overflow inf
# At 2^13 6 is 49152, which f16 holds, and at 2^14 98304: what one format holds is written, and what fits is not counted.
overflows f16 "$mxfp4" "f7$(repeat 15 22)8d" f16 "2 of 32" 65504
allowed f16 f32 ovf 0 '"saturated":0,"overflowed":0' "0000c0470000c0c7$(repeat 30 00008046)"
safetensors "$work/held.safetensors" "$mxfp4" "f7$(repeat 15 22)8c"
allowed held f16 sat 0 '"saturated":0,"overflowed":0' "007a00fa$(repeat 30 0070)"
# MXFP8 E5M2 has codes for Inf (7c) and NaN (7e), which stay what they are: only 7b (57344) and fb are too large at 2^1.
overflows e5m2 '{"l.weight":{"dtype":"F8_E5M2","shape":[1,32],"data_offsets":[0,32]},
	"l.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[32,33]}}' "7cfc7e7bfb$(repeat 27 3c)80" f16 "2 of 32" 65504
allowed e5m2 f16 sat 2 '"saturated":2,"overflowed":0' "007c00fc007eff7bfffb$(repeat 27 0040)"
allowed e5m2 f16 ovf 2 '"saturated":0,"overflowed":2' "007c00fc007e007c00fc$(repeat 27 0040)"
# A block whose scale is NaN beside them has no numbers to count.
overflows nan-block '{"l.weight":{"dtype":"F8_E5M2","shape":[1,64],"data_offsets":[0,64]},
	"l.weight_scale":{"dtype":"U8","shape":[1,2],"data_offsets":[64,66]}}' \
	"$(repeat 32 7c)7b7c$(repeat 30 3c)ff80" f16 "1 of 64" 65504
# NVFP4, code 2 (1) times block scale 38 (1) times the tensor scale: 65520 is halfway past 65504, and becomes Inf; the
# binary32 number below does not.
tie='{"l.weight":{"dtype":"U8","shape":[1,8],"data_offsets":[0,8]},
	"l.weight_scale":{"dtype":"F8_E4M3","shape":[1,1],"data_offsets":[8,9]},
	"l.weight_scale_2":{"dtype":"F32","shape":[],"data_offsets":[9,13]}}'
overflows tie "$tie" "$(repeat 8 2a) 38 00f07f47" f16 "16 of 16" 65504
safetensors "$work/below.safetensors" "$tie" "$(repeat 8 2a) 38 ffef7f47"
allowed below f16 ovf 0 '"saturated":0,"overflowed":0' "$(repeat 8 fffbff7b)"
# Many pieces on many threads, and tensors that lie by columns: one count.
python3 - "$work" <<'END'
import json, struct, sys
def write(name, metadata, rows, cols, scales):
    h = {'__metadata__': metadata, 'l.weight_packed': {'dtype': 'U8', 'shape': [rows, cols // 2], 'data_offsets': [0, rows * cols // 2]},
         'l.weight_scale': {'dtype': 'U8', 'shape': [rows, cols // 32], 'data_offsets': [rows * cols // 2, rows * cols // 2 + len(scales)]}}
    h = json.dumps(h).encode()
    with open(sys.argv[1] + '/' + name, 'wb') as f:
        f.write(struct.pack('<Q', len(h)) + h + b'\x72' * (rows * cols // 2) + scales)
# Codes 2 and 7 in turn (1 and 6); every 7th block at 2^14, others at 2^13.
blocks = 1024 * 1024 // 32
scales = bytes(127 + 13 + (i % 7 == 0) for i in range(blocks))
write('many.safetensors', {}, 1024, 1024, scales)
write('columns.safetensors', {'mxfp.transposed.l.weight': 'yes'}, 1024, 1024, scales)
END
# 32768 / 7 rounded up blocks of 16 sixes each.
for name in many columns; do
	for threads in 1 5; do
		exits 3 "tensor 'l.weight': 74912 of 1048576 numbers are too large for f16" \
			dequantize "$work/$name.safetensors" -o "$work/r.safetensors" -q --to f16 --threads $threads
	done
	exits 0 "" dequantize "$work/$name.safetensors" -o "$work/$name.back.safetensors" --json --to f16 --overflow sat
	has "$name" "$(tr -d ' \n' <"$work/out")" '"saturated":74912,"overflowed":0'
	same "$name: Inf" 0 "$(tail -c 2097152 "$work/$name.back.safetensors" | od -An -v -tx2 | tr -s ' ' '\n' | grep -c '^[7f]c00$')"
	same "$name: largest" 74912 "$(tail -c 2097152 "$work/$name.back.safetensors" | od -An -v -tx2 | tr -s ' ' '\n' | grep -c '^7bff$')"
done
# Not even convert writes Inf without a word.
exits 3 "tensor 'l.weight': 2 of 32 numbers are too large for f16, whose largest is 65504; " \
	convert "$work/f16.safetensors" -o "$work/f16.npy" --decode-rest f16
exits 0 "" dequantize --help
has "--help" "$(tr -s ' \n' ' ' <"$work/out")" "too large for the format are an error without --overflow"

# Shapes do not tell the two kinds of MXFP6 apart; config.json does. e2m3: 08 is 1, e3m2: 08 is .5.
safetensors "$work/six.safetensors" '{"l.weight_packed":{"dtype":"U8","shape":[1,24],"data_offsets":[0,24]},
	"l.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[24,25]}}' "$(repeat 8 088220)7f"
exits 3 "six.safetensors: tensor 'l.weight_packed': not in a layout" dequantize "$work/six.safetensors" -o "$work/r"
mkdir "$work/six"
mv "$work/six.safetensors" "$work/six/model.safetensors"
echo '{"quantization_config":{"format":"mxfp6-pack-quantized"}}' >"$work/six/config.json"
exits 0 "" dequantize "$work/six" -o "$work/six.back" -q
same "e2m3" "$(repeat 32 0000803f)" "$(data 128 "$work/six.back/model.safetensors")"
echo '{"quantization_config":{"format":"mxfp6-e3m2-pack-quantized"}}' >"$work/six/config.json"
exits 0 "" dequantize "$work/six" -o "$work/six.back" -q --force --to f16
same "e3m2" "$(repeat 32 0038)" "$(data 64 "$work/six.back/model.safetensors")"

# refused PART HEADER BYTES: zeros for data.
refused() {
	safetensors_zeros "$work/refused.safetensors" "$2" "$3"
	exits 3 "$1" dequantize "$work/refused.safetensors" -o "$work/r"
	[ ! -e "$work/r" ] || bad "a refused input left an output"
}
# Nothing is quantized: known before anything is written, so a limit on the size of files does not matter.
refused "nothing in it is quantized" '{"a":{"dtype":"U8","shape":[40000],"data_offsets":[0,40000]}}' 40000
(
	ulimit -f 16
	exits 3 "nothing in it is quantized" dequantize -q "$work/refused.safetensors" -o "$work/r"
	[ "$failures" = 0 ]
) || bad "what is not quantized"

refused "tensor 'l.weight_packed': 'l.weight_scale' is missing" \
	'{"l.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]}}' 16
refused "tensor 'l.weight_packed': not in a layout" \
	'{"l.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
	"l.weight_scale":{"dtype":"U8","shape":[1,2],"data_offsets":[16,18]}}' 18
refused "tensor 'l.weight_packed': not in a layout" \
	'{"l.weight_packed":{"dtype":"U8","shape":[2,16],"data_offsets":[0,32]},
	"l.weight_scale":{"dtype":"U8","shape":[1,1],"data_offsets":[32,33]}}' 33
refused "tensor 'l.weight_packed': not in a layout" \
	'{"l.weight_packed":{"dtype":"I32","shape":[1,4],"data_offsets":[0,16]},
	"l.weight_scale":{"dtype":"BF16","shape":[1,1],"data_offsets":[16,18]}}' 18
refused "tensor 'l.weight': it is 8 bits with a scale for each tensor or row" \
	'{"l.weight":{"dtype":"I8","shape":[1,32],"data_offsets":[0,32]},
	"l.weight_scale":{"dtype":"F32","shape":[1,1],"data_offsets":[32,36]}}' 36
refused "its tensor scale, *_global_scale, is missing" \
	'{"l.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
	"l.weight_scale":{"dtype":"F8_E4M3","shape":[1,2],"data_offsets":[16,18]}}' 18
refused "tensor 'l.weight_global_scale': is not one F32 number" \
	'{"l.weight_packed":{"dtype":"U8","shape":[1,16],"data_offsets":[0,16]},
	"l.weight_scale":{"dtype":"F8_E4M3","shape":[1,2],"data_offsets":[16,18]},
	"l.weight_global_scale":{"dtype":"F32","shape":[2],"data_offsets":[18,26]}}' 26
for cols in 0 33 -1 3x 99999999999999999999 ''; do
	refused "metadata 'mxfp.cols.l.weight': '$cols' is not the length" \
		"{\"__metadata__\":{\"mxfp.cols.l.weight\":\"$cols\"},
		\"l.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},
		\"l.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[16,17]}}" 17
done
finish
