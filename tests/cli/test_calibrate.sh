#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp calibrate: a small random Llama, whose weights are on the format's grid afterwards and the same for all threads and tiers;
# experts; memory; a run that is stopped and resumed; what is refused, with nothing written; and, if ../shared is there, the perplexity of a real model.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }

shared=${MXFP_SHARED:-${srcdir:-.}/../shared}/weights
python3 "${srcdir:-.}/tests/cli/small_llama.py" "$work" || exit 99
for bad in nan large; do
	mkdir "$work/$bad"
	mv "$work/$bad.safetensors" "$work/$bad/model.safetensors"
	cp "$work/model/config.json" "$work/$bad/"
done
model=$work/model tokens=$work/tokens.json

exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/out1" --pad-tail
text=$(tr -s ' ' <"$work/out")
has "table" "$text" "| model.layers.1.mlp.down_proj.weight | 32 x 76 | mxfp4 mse |"
has "summary" "$text" "14 tensors calibrated on 422 tokens, 6 kept"
same "rows that calibration makes worse" "" "$(sed -n 's/^| model[^|]*|[^|]*|[^|]*| *\([^ ]*\) | *\([^ ]*\) |/\1 \2/p' "$work/out" |
	awk '$2 < $1')"
check "copied config.json" python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1])) != json.load(open(sys.argv[2])))' \
	"$model/config.json" "$work/out1/config.json"
for option in $(fewer --threads=1 '') --threads=3 "--rule mse --activations mxfp8-e4m3 --damping 0.01"; do
	exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/out2" -f -q --pad-tail $option
	check "bytes with $option" cmp -s "$work/out1/model.safetensors" "$work/out2/model.safetensors"
done
# of_ref OPTION...: the same bytes by tier ref, which takes a hundred times as long, on as many tokens as suffice.
fewer '[[1, 7, 3, 39, 0, 7, 12, 25, 31, 8, 2, 2, 17, 30, 5, 11], [4, 38, 9, 21, 33, 6, 14, 28, 19, 10]]' '[[1, 7, 3, 39], [4, 38]]' >"$work/some.json"
of_ref() {
	exits 0 "" calibrate "$model" --tokens "$work/some.json" -o "$work/fast" -f -q "$@"
	MXFP_ISA=ref exits 0 "" calibrate "$model" --tokens "$work/some.json" -o "$work/slow" -f -q "$@"
	check "bytes of tier ref, $*" cmp -s "$work/fast/model.safetensors" "$work/slow/model.safetensors"
}
of_ref --pad-tail
of_ref --pad-tail --weights nvfp4
of_ref --weights nvfp4 --sparsity 4:12

# Quantizing loses nothing more: decoded, the quantized model is the calibrated one.
for rule in floor mse; do
	exits 0 "" quantize "$work/out1" -o "$work/quantized" -f -q --pad-tail --rule $rule
	exits 0 "" dequantize "$work/quantized" -o "$work/decoded" -f -q
	exits 0 "" diff "$work/decoded" "$work/out1"
done
exits 0 "" eval "$work/out1" --tokens "$tokens" --weights mxfp4 --pad-tail --compare "$work/out1" -q
has "beside itself" "$(tr -s ' ' <"$work/out")" "largest KL divergence 0.000000"

# MXFP8 E4M3 has no 1.875 * 2^8, so that of its blocks some have their numbers under another scale than that of rule floor.
exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/e4m3" -q --pad-tail --preset mxfp8
for rule in rceil mse; do
	exits 0 "" quantize "$work/e4m3" -o "$work/quantized" -f -q --pad-tail --preset mxfp8 --rule $rule
	exits 0 "" dequantize "$work/quantized" -o "$work/decoded" -f -q
	exits 0 "" diff "$work/decoded" "$work/e4m3"
done

# NVFP4 is kept too, by the recipe and the sharing of tensor scales that it was made for.
calibrate_nvfp4() {
	out=$1
	shift
	exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/$out" -f -q --pad-tail --weights nvfp4 "$@"
}
for how in "" "--fuse" "--layout modelopt"; do
	recipe=
	[ "$how" != "--layout modelopt" ] || recipe="--nvfp4-recipe modelopt"
	calibrate_nvfp4 nvfp4 ${recipe:-$how}
	exits 0 "" quantize "$work/nvfp4" -o "$work/quantized" -f -q --pad-tail --weights nvfp4 --activations none $how
	exits 0 "" dequantize "$work/quantized" -o "$work/decoded" -f -q
	exits 0 "" diff "$work/decoded" "$work/nvfp4"
done
calibrate_nvfp4 nvfp4
calibrate_nvfp4 out2 --threads 3
check "bytes of NVFP4 with 3 threads" cmp -s "$work/nvfp4/model.safetensors" "$work/out2/model.safetensors"

# Pruned and compensated: outputs nearer to the exact ones than by magnitude, for any threads and tier; mxfp quantize prunes and rounds
# nothing more. Rows of 76 are not whole blocks, so down stays; a recipe may leave it dense.
sparse() {
	out=$1
	shift
	exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/$out" -f "$@"
}
for how in "mxfp4 4:8" "mxfp4 4:16" "mxfp8-e4m3 4:12" "nvfp4 4:8" "nvfp4 4:16" "nvfp4 4:12"; do
	set -- --weights ${how% *} --sparsity ${how#* }
	sparse sparse "$@"
	has "sparse table, $how" "$(tr -s ' ' <"$work/out")" "12 tensors calibrated on 422 tokens, 8 kept"
	same "rows that calibration does not make better, $how" "" \
		"$(sed -n 's/^| model[^|]*|[^|]*|[^|]*| *\([^ ]*\) | *\([^ ]*\) |/\1 \2/p' "$work/out" | awk '$2 <= $1')"
	exits 0 "" quantize "$work/sparse" -o "$work/quantized" -f -q --activations none "$@"
	exits 0 "" dequantize "$work/quantized" -o "$work/decoded" -f -q
	exits 0 "" diff "$work/decoded" "$work/sparse"
	[ $slow = no ] || continue
	sparse out2 "$@" --threads 3
	check "bytes with 3 threads, $how" cmp -s "$work/sparse/model.safetensors" "$work/out2/model.safetensors"
done
printf '{"version": 1, "default": {"format": "mxfp4", "sparsity": "4:8"}, "rules": [{"match": "*.down_proj.*", "sparsity": "none"}]}' \
	>"$work/sparse.json"
sparse sparse --recipe "$work/sparse.json" --pad-tail
text=$(tr -s ' ' <"$work/out")
has "sparse by a recipe" "$text" "| model.layers.1.mlp.gate_proj.weight | 76 x 32 | mxfp4 mse 4:8 |"
has "dense by a recipe" "$text" "| model.layers.1.mlp.down_proj.weight | 32 x 76 | mxfp4 mse |"
exits 0 "" quantize "$work/sparse" -o "$work/quantized" -f -q --pad-tail --recipe "$work/sparse.json"
exits 0 "" dequantize "$work/quantized" -o "$work/decoded" -f -q
exits 0 "" diff "$work/decoded" "$work/sparse"

# --sequences counts windows where the file has one sequence.
echo "[$(seq -s , 0 39), $(seq -s , 39 -1 0)]" >"$work/flat.json"
echo "[[$(seq -s , 0 15)], [$(seq -s , 16 31)]]" >"$work/windows.json"
exits 0 "" calibrate "$model" --tokens "$work/flat.json" --context 16 --sequences 2 -o "$work/sparse" -f -q
exits 0 "" calibrate "$model" --tokens "$work/windows.json" -o "$work/out2" -f -q
check "two windows of one sequence" cmp -s "$work/sparse/model.safetensors" "$work/out2/model.safetensors"

# What cannot be calibrated is told; so are few tokens.
exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/out2" -f --pad-tail --include model.embed_tokens.weight --sequences 2
has "what cannot be calibrated" "$(cat "$work/out")" "1 of those kept, such as an embedding, would be quantized"
has "few tokens" "$(cat "$work/out")" "60 tokens are few for layers of 76 inputs"
# Eight for each input are not.
for last in 127 128; do
	python3 -c 'import json, sys; print(json.dumps([[(7 * i) % 40 for i in range(n)] for n in (128, int(sys.argv[1]))]))' $last >"$work/eight.json"
	exits 0 "" calibrate "$model" --tokens "$work/eight.json" -o "$work/out2" -f
	same "lines on $((128 + last)) tokens" $((128 - last)) "$(grep -c "tokens are few for layers of 32 inputs: .* take more, of many documents" "$work/out")"
done

# Models with experts: Mixtral in bf16; Qwen3, a tensor for each expert or one for all; gpt-oss, whose tensors are [experts, in,
# out], in bf16, and whose last expert no token reaches. Experts 0 and 1 are the same matrices.
python3 "${srcdir:-.}/tests/cli/small_experts.py" "$work" || exit 99

# divergence MODEL OTHER: the mean one beside the other, in $divergence.
divergence() {
	exits 0 "" eval "$1" --tokens "$tokens" --compare "$2" -q
	divergence=$(sed -n 's/^mean KL divergence  *\([^ ]*\).*/\1/p' "$work/out")
}
# decoded MODEL OPTION...: the model quantized and decoded, in $work/decoded.
decoded() {
	source=$1
	shift
	exits 0 "" quantize "$source" -o "$work/quantized" -f -q --pad-tail "$@"
	exits 0 "" dequantize "$work/quantized" -o "$work/decoded" -f -q
}
for model_and_layout in mixtral:compressed-tensors apart:compressed-tensors stacked:trn-x4 oss:gpt-oss; do
	name=${model_and_layout%:*} layout=${model_and_layout#*:}
	exits 0 "" calibrate "$work/$name" --tokens "$tokens" -o "$work/$name-calibrated" --pad-tail --layout $layout --json
	cp "$work/out" "$work/$name.facts"
	decoded "$work/$name-calibrated" --layout $layout
	"$mxfp" diff "$work/decoded" "$work/$name-calibrated" >"$work/out"
	has "quantized again, $name" "$(cat "$work/out")" "over all tensors compared: SQNR exact"
	divergence "$work/$name-calibrated" "$work/$name"
	calibrated=$divergence
	decoded "$work/$name" --layout $layout
	divergence "$work/decoded" "$work/$name"
	check "experts of $name: divergence $calibrated, and rounded to nearest $divergence" awk "BEGIN { exit !($calibrated < 0.6 * $divergence) }"
done
echo '[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]]' >"$work/few.json"
exits 0 "" calibrate "$work/mixtral" --tokens "$work/few.json" -o "$work/few" --pad-tail
has "experts with few tokens" "$(cat "$work/out")" "matrices of experts that fewer tokens reach than they have inputs"
exits 0 "" calibrate "$work/half" --tokens "$tokens" -o "$work/half-calibrated" --pad-tail -q
exits 0 "" calibrate "$work/half" --tokens "$tokens" -o "$work/half-nvfp4" --pad-tail -q --weights nvfp4
python3 - "$work" <<'END' || bad "numbers of experts"
import json, struct, sys

work = sys.argv[1]


def read(name):
    with open("%s/%s/model.safetensors" % (work, name), "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    return {key: (fact["dtype"], fact["shape"], data[slice(*fact["data_offsets"])]) for key, fact in header.items()
            if key != "__metadata__"}


def facts(name):
    return {row["tensor"]: row for row in json.load(open("%s/%s.facts" % (work, name)))["tensors"]}


# Experts in one tensor become what they become apart.
apart, stacked = read("apart-calibrated"), read("stacked-calibrated")
layer = "model.layers.0.mlp.experts."
for e in range(4):
    at = e * 48 * 32 * 4
    for name, part in (("gate", 0), ("up", 1)):
        first = (2 * e + part) * 48 * 32 * 4
        assert apart[layer + "%d.%s_proj.weight" % (e, name)][2] == stacked[layer + "gate_up_proj"][2][first:first + 48 * 32 * 4]
    assert apart[layer + "%d.down_proj.weight" % e][2] == stacked[layer + "down_proj"][2][at:at + 32 * 48 * 4]

# What is not calibrated is what it was; bf16 stays; experts that take all experts' tokens and are the same stay the same.
for name in ("mixtral", "oss"):
    source, made = read(name), read(name + "-calibrated")
    for key in source:
        assert made[key][:2] == source[key][:2], key
        assert key in facts(name) or made[key] == source[key], key
mixtral = "model.layers.0.block_sparse_moe.experts."
few, many = read("few"), read("mixtral-calibrated")
for name in ("w1", "w2", "w3"):
    assert few[mixtral + "0.%s.weight" % name] == few[mixtral + "1.%s.weight" % name]
    assert many[mixtral + "0.%s.weight" % name] != many[mixtral + "1.%s.weight" % name]
assert [row["pooled"] for row in facts("oss").values()] == [1, 1]
counts = [facts("mixtral")[mixtral + "%d.w1.weight" % e]["tokens"] for e in range(4)]
assert sum(counts) == 2 * 422 and min(counts) >= 48, counts

# f16 holds MXFP4 of weights like these, and not products with NVFP4's tensor scale, so that config.json says f32.
source = read("half")
# Activations in blocks of 32 leave down, of 48 inputs, to MX formats, whose rows are padded, and so all experts: attention remains.
for name, n, dtype, config in (("half-calibrated", 16, "F16", "float16"), ("half-nvfp4", 4, "F32", "float32")):
    made = read(name)
    changed = [key for key in source if made[key] != source[key]]
    assert len(changed) == n and all(made[key][0] == dtype for key in changed), name
    assert json.load(open("%s/%s/config.json" % (work, name)))["torch_dtype"] == config
END
exits 2 "are too few for this model and these tokens; give --mem" calibrate "$work/stacked" --tokens "$tokens" -o "$work/none" \
	--pad-tail --layout trn-x4 --mem 1M
least=$(printf '%s\n' "$error" | sed -n 's/.*give --mem \([0-9]*\)M or more/\1/p')
exits 0 "" calibrate "$work/stacked" --tokens "$tokens" -o "$work/out2" -f -q --pad-tail --layout trn-x4 --mem ${least}M \
	--threads 3
check "bytes with --mem and 3 threads" cmp -s "$work/stacked-calibrated/model.safetensors" "$work/out2/model.safetensors"

# A router that is calibrated chooses the tokens of all experts, also where their sums do not fit at once: with the
# least memory, which differs from run to run by less than 4 KiB.
router() {
	"$mxfp" calibrate "$work/apart" --tokens "$tokens" -q --pad-tail --include '*.mlp.gate.weight' -f "$@"
}
router -o "$work/router" || bad "a router"
exits 2 "give --mem" calibrate "$work/apart" --tokens "$tokens" --pad-tail --include '*.mlp.gate.weight' -o "$work/none" --mem 1M
high=$(printf '%s\n' "$error" | sed -n 's/.*give --mem \([0-9]*\)M or more/\1/p')
high=$((high << 10)) low=$((high - 1024))
while [ $((high - low)) -gt $(fewer 1 128) ]; do
	middle=$(((low + high) / 2))
	if router -o "$work/out2" --mem ${middle}K 2>/dev/null; then
		high=$middle
	else
		low=$middle
	fi
done
router -o "$work/out2" --mem $((high + 4))K || bad "a router, with --mem"
check "bytes of a router with little memory" cmp -s "$work/router/model.safetensors" "$work/out2/model.safetensors"

# A run that is stopped goes on where it was, to the same bytes. It is slow enough to be stopped behind its first layer.
python3 - "$work" $(fewer 64 24) <<'END'
import json, random, sys

draw = random.Random(9)
with open(sys.argv[1] + "/long.json", "w") as file:
    json.dump([[draw.randrange(40) for _ in range(int(sys.argv[2]))] for _ in range(2)], file)
END
long() {
	"$mxfp" --isa ref calibrate "$model" --tokens "$work/long.json" -q "$@"
}
# stopped NAME OPTION...: a run that is.
stopped() {
	name=$1
	shift
	stop_at "$work/$name.partial/weights-1.state" --isa ref calibrate "$model" --tokens "$work/long.json" -q -o "$work/$name" "$@"
	check "layers that are done, two files each" test "$(wc -l <"$work/$name.partial/layers.journal")" = 2
}
long -o "$work/whole" --pad-tail || bad "the run that is not stopped"
stopped resumed --pad-tail
exits 2 "--resume continues it" --isa ref calibrate "$model" --tokens "$work/long.json" --pad-tail -q -o "$work/resumed"
exits 2 "was begun with another damping: 0.01, and not 0.02; --resume" --isa ref calibrate "$model" --tokens "$work/long.json" --pad-tail -q -o "$work/resumed" \
	--resume --damping 0.02
exits 2 "was begun with another set of tokens (--tokens, --text, --context or --sequences); --resume" --isa ref calibrate "$model" \
	--tokens "$tokens" --pad-tail -q -o "$work/resumed" --resume
exits 2 "was begun with another plan of the tensors (--include, --ignore, --pad-tail or --recipe); --resume" --isa ref calibrate \
	"$model" --tokens "$work/long.json" --pad-tail --ignore '*.q_proj.*' -q -o "$work/resumed" --resume
exits 2 "was begun with another sparsity: none, and not 4:8; --resume" --isa ref calibrate "$model" --tokens "$work/long.json" -q -o "$work/resumed" --resume \
	--sparsity 4:8
# Files that are damaged are made again: a name, a row, the length, states, a file that is lost.
cat >"$work/damage.py" <<'END'
import os, sys

how, path = sys.argv[1:]
path += "/states-1.state" if how == "states" else "/weights-0.state"
with open(path, "r+b") as file:
    data = file.read()
    if how == "cut":
        file.truncate(100)
    elif how == "lost":
        os.remove(path)
    else:
        at = {"name": data.find(b"q_proj"), "row": 8, "states": 4003}[how]
        file.seek(at)
        file.write(bytes([data[at] ^ 2]))
END
for how in name row cut states lost; do
	cp -R "$work/resumed.partial" "$work/damaged.partial"
	python3 "$work/damage.py" $how "$work/damaged.partial" || bad "damage: $how"
	exits 0 "" calibrate "$model" --tokens "$work/long.json" --pad-tail -q -o "$work/damaged" --resume
	check "bytes of a run that is resumed from damaged files: $how" cmp -s "$work/whole/model.safetensors" "$work/damaged/model.safetensors"
	rm -rf "$work/damaged" "$work/damaged.partial"
done
exits 0 "" calibrate "$model" --tokens "$work/long.json" --pad-tail -o "$work/resumed" --resume --json
check "bytes of a run that is resumed" cmp -s "$work/whole/model.safetensors" "$work/resumed/model.safetensors"
same "tensors of a run that is resumed" 14 "$(grep -c '"tensor":' "$work/out")"
check "what is left of a run that is resumed" test ! -e "$work/resumed.partial"
# The last line is the command that comes next, with the options that say the same there, and works.
exits 0 "" calibrate "$model" --tokens "$work/long.json" --pad-tail -o "$work/next it's" --rule even --ignore '*down*' -a none
next=$(tail -n 1 "$work/out")
same "what comes next" "    mxfp quantize '$work/next it'\\''s' -o '$work/next it'\\''s-quantized' --activations none --rule even --ignore '*down*' --pad-tail" "$next"
eval "set -- ${next#    mxfp}"
exits 0 "" "$@"
exits 0 "" inspect "$work/next it's-quantized"
exits 0 "" calibrate "$model" --tokens "$work/long.json" --pad-tail -o "$work/next" --preset nvfp4 --json
has "what comes next" "$(tr -d '\n' <"$work/out")" "\"command\": \"mxfp quantize $work/next -o $work/next-quantized --preset nvfp4 --pad-tail\""
# So does one that prunes.
long -o "$work/whole" -f --sparsity 4:8 || bad "the run that prunes and is not stopped"
stopped pruned --sparsity 4:8
long -o "$work/pruned" --sparsity 4:8 --resume || bad "the run that prunes and is resumed"
check "bytes of a run that prunes and is resumed" cmp -s "$work/whole/model.safetensors" "$work/pruned/model.safetensors"
check "zeros of a run that prunes" python3 -c '
import sys
data = open(sys.argv[1], "rb").read()
sys.exit(sum(data[i:i + 4] == bytes(4) for i in range(0, len(data), 4)) < 6000)' "$work/pruned/model.safetensors"

# The most memory that a run holds stays under --mem: 1,536 inputs of down take 90 MiB of statistics. ref takes a minute for them.
python3 - "$work" <<'END'
import json, os, random, struct, sys

HIDDEN, MLP = 64, 1536
os.mkdir(sys.argv[1] + "/wide")
draw = random.Random(10)
layer = "model.layers.0."
shapes = {"model.embed_tokens.weight": (40, HIDDEN), "model.norm.weight": (HIDDEN,), layer + "input_layernorm.weight": (HIDDEN,),
          layer + "post_attention_layernorm.weight": (HIDDEN,), layer + "mlp.gate_proj.weight": (MLP, HIDDEN),
          layer + "mlp.up_proj.weight": (MLP, HIDDEN), layer + "mlp.down_proj.weight": (HIDDEN, MLP)}
for part in "qkvo":
    shapes[layer + "self_attn.%s_proj.weight" % part] = (HIDDEN, HIDDEN)
header, data = {}, b""
for name, shape in shapes.items():
    n = shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * n]}
    data += struct.pack("<%df" % n, *([1.0] * n if "norm" in name else [draw.uniform(-0.3, 0.3) for _ in range(n)]))
text = json.dumps(header).encode()
with open(sys.argv[1] + "/wide/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
with open(sys.argv[1] + "/wide/config.json", "w") as file:
    json.dump({"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": MLP, "num_hidden_layers": 1, "num_attention_heads": 2,
               "num_key_value_heads": 2, "vocab_size": 40, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
               "tie_word_embeddings": True, "hidden_act": "silu"}, file)
END
if [ "${MXFP_ISA:-}" != ref ] && peak_tells; then
	exits 2 "give --mem" calibrate "$work/wide" --tokens "$tokens" -o "$work/none" --mem 1M
	least=$(printf '%s\n' "$error" | sed -n 's/.*give --mem \([0-9]*\)M or more/\1/p')
	held=$(peak calibrate "$work/wide" --tokens "$tokens" -o "$work/wide-made" -q --mem "${least}M")
	check "memory, $held MiB of $least" test "$held" -gt 90 -a "$held" -lt "$least"
fi

# One part of the tensors, a file, JSON.
exits 0 "" calibrate "$model/model.safetensors" --tokens "$tokens" -o "$work/one.safetensors" --include '*.q_proj.*' \
	--ignore '*.mlp.*' --weights mxfp6-e2m3 --activations none --json
python3 - "$work/out" <<'END' || bad "JSON: $(cat "$work/out")"
import json, sys

facts = json.load(open(sys.argv[1]))
assert facts["tokens"] == 422 and facts["tensors_kept"] == 12 and len(facts["tensors"]) == 8
for row in facts["tensors"]:
    assert row["format"] == "mxfp6-e2m3 mse" and 0 < row["calibrated_error"] < row["rounded_error"] < 1
END

# refused PART ARGUMENT...: a code of its own, one line, and no output.
refused() {
	code=$1 part=$2
	shift 2
	exits "$code" "$part" calibrate "$@" -o "$work/none"
	check "output of a failed run" test ! -e "$work/none"
	check "partial output of a failed run" test ! -e "$work/none.partial"
}
refused 2 "give one of them" "$model"
echo '[[],[1,2,3]]' >"$work/empty.json"
refused 3 "no window has a token" "$model" --tokens "$work/empty.json" --sequences 1 --pad-tail
refused 2 "invalid --damping '0'" "$model" --tokens "$tokens" --damping 0
refused 2 "invalid --damping 'x'" "$model" --tokens "$tokens" --damping x
refused 2 "calibrate: --sparsity: unknown value '4:7'" "$model" --tokens "$tokens" --sparsity 4:7
refused 2 "calibrate: --sparsity: layout quark holds no sparse weights" "$model" --tokens "$tokens" --sparsity 4:8 --layout quark
refused 2 "sparse.json: layout quark holds no sparse weights" "$model" --tokens "$tokens" --recipe "$work/sparse.json" --layout quark
refused 3 "give another recipe" "$model" --tokens "$tokens" --weights nvfp4 --nvfp4-recipe 4over6 --pad-tail
refused 3 "element 35 (row 1, column 3) is NaN or Inf" "$work/nan" --tokens "$tokens" --pad-tail
refused 3 "layers.1.mlp.up_proj.weight': the inputs that the model gives it are NaN, Inf" "$work/nan" --tokens "$tokens" \
	--pad-tail --ignore '*.o_proj.*'
refused 3 "layers.0.self_attn.q_proj.weight': the inputs that the model gives it are NaN, Inf, or too large" "$work/large" \
	--tokens "$tokens" --pad-tail
exits 2 "so the output is one" calibrate "$model" --tokens "$tokens" -o "$work/none.safetensors"
exits 2 "no output given" calibrate "$model" --tokens "$tokens"
exits 2 "--force" calibrate "$model" --tokens "$tokens" -o "$work/out1"
exits 2 "" calibrate "$model" --tokens "$tokens" -o "$model"
check "the model is intact" test -s "$model/model.safetensors"

# Stories 25 to 36, which the model wrote, and the first 24: 4.619 rounded to nearest, NVFP4 4.350, f32 3.819.
if [ ! -d "$shared/stories260K" ]; then
	echo "no ../shared: not run on stories260K"
elif [ "${MXFP_ISA:-}" = ref ]; then
	echo "stories260K takes minutes without vectors: not run"
else
	python3 - "$shared/eval/self_generated.tokens.json" "$work" $(fewer "12 24" "1 1") <<'END'
import json, sys

stories = json.load(open(sys.argv[1]))["seqs"]
train, test = map(int, sys.argv[3:])
json.dump(stories[24:24 + train], open(sys.argv[2] + "/train.json", "w"))
json.dump(stories[:test], open(sys.argv[2] + "/test.json", "w"))
END
	mkdir "$work/stories"
	cp "$shared/stories260K/config.json" "$work/stories/"
	cp "$shared/stories260K/stories260K.hf.f32.safetensors" "$work/stories/model.safetensors"
	exits 0 "" calibrate "$work/stories" --tokens "$work/train.json" -o "$work/stories-calibrated" --pad-tail -q
	exits 0 "" eval "$work/stories-calibrated" --tokens "$work/test.json" --preset w4a8 --pad-tail -q
	perplexity=$(sed -n 's/^perplexity  *\([^ ]*\).*/\1/p' "$work/out")
	[ $slow = yes ] || check "perplexity of stories260K in W4A8: $perplexity" awk "BEGIN { exit !($perplexity > 3.8 && $perplexity <= 4.30) }"
	if [ $slow = no ]; then
		exits 0 "" calibrate "$work/stories" --tokens "$work/train.json" -o "$work/stories-calibrated" -f --pad-tail -q --weights nvfp4
		exits 0 "" eval "$work/stories-calibrated" --tokens "$work/test.json" --preset w4a8 --weights nvfp4 --pad-tail -q
		perplexity=$(sed -n 's/^perplexity  *\([^ ]*\).*/\1/p' "$work/out")
		check "perplexity of stories260K in NVFP4: $perplexity" awk "BEGIN { exit !($perplexity > 3.8 && $perplexity <= 4.12) }"
	fi
fi

# A disk that is too small for a model of 4 * (40 * 32 + 32 + 2 * (2 * 32 + 4 * 32 * 32 + 3 * 76 * 32)) bytes is seen first.
if preload; then
	export LD_PRELOAD="$shim" IO_ROOM=96895
	exits 4 "$work/full: 96896 bytes will be written to this disk, which has room for 96895" \
		calibrate "$work/model" --tokens "$work/tokens.json" -o "$work/full"
	check "output on a full disk" test ! -e "$work/full"
	unset LD_PRELOAD IO_ROOM
fi
finish
