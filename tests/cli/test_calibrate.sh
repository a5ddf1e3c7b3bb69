#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp calibrate: a small random Llama, whose weights are on the format's grid afterwards and the same for all threads and tiers;
# what is refused, with nothing written; and, if ../shared is there, the perplexity of a real model.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }

shared=${MXFP_SHARED:-${srcdir:-.}/../shared}/weights
mkdir "$work/model"
cat >"$work/make.py" <<'END'
import json, random, struct, sys

HIDDEN, MLP, VOCABULARY = 32, 76, 40
work = sys.argv[1]
draw = random.Random(7)
shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
for layer in range(2):
    name = "model.layers.%d." % layer
    for part in ("input_layernorm", "post_attention_layernorm"):
        shapes[name + part + ".weight"] = (HIDDEN,)
    for part in "qkvo":
        shapes[name + "self_attn.%s_proj.weight" % part] = (HIDDEN, HIDDEN)
    shapes[name + "mlp.gate_proj.weight"] = shapes[name + "mlp.up_proj.weight"] = (MLP, HIDDEN)
    shapes[name + "mlp.down_proj.weight"] = (HIDDEN, MLP)


def write(path, bad=None, number=0.0, at=35):
    header, data = {}, b""
    draw.seed(7)
    for name, shape in shapes.items():
        n = shape[0] * shape[-1] if len(shape) > 1 else shape[0]
        numbers = [1.0] * n if "norm" in name else [draw.gauss(0, 0.3) for _ in range(n)]
        if name == bad:
            numbers[at] = number
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * n]}
        data += struct.pack("<%df" % n, *numbers)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


write(work + "/model/model.safetensors")
write(work + "/nan.safetensors", "model.layers.1.self_attn.o_proj.weight", float("nan"))
write(work + "/large.safetensors", "model.layers.0.input_layernorm.weight", 1e30, 3)
with open(work + "/model/config.json", "w") as file:
    json.dump({"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": MLP, "num_hidden_layers": 2,
               "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": VOCABULARY,
               "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
               "tie_word_embeddings": True, "hidden_act": "silu"}, file)
draw.seed(8)
with open(work + "/tokens.json", "w") as file:
    json.dump([[draw.randrange(VOCABULARY) for _ in range(length)] for length in (0, 60, 1, 128, 0, 200, 33)], file)
END
python3 "$work/make.py" "$work" || exit 99
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
for option in "--threads 1" "--threads 3" "--rule mse --activations mxfp8-e4m3 --damping 0.01"; do
	exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/out2" -f -q --pad-tail $option
	check "bytes with $option" cmp -s "$work/out1/model.safetensors" "$work/out2/model.safetensors"
done
MXFP_ISA=ref exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/out2" -f -q --pad-tail
check "bytes of tier ref" cmp -s "$work/out1/model.safetensors" "$work/out2/model.safetensors"

# Quantizing loses nothing more: decoded, the quantized model is the calibrated one.
for rule in floor mse; do
	exits 0 "" quantize "$work/out1" -o "$work/quantized" -f -q --pad-tail --rule $rule
	exits 0 "" dequantize "$work/quantized" -o "$work/decoded" -f -q
	exits 0 "" diff "$work/decoded" "$work/out1"
done
exits 0 "" eval "$work/out1" --tokens "$tokens" --weights mxfp4 --pad-tail --compare "$work/out1" -q
has "beside itself" "$(tr -s ' ' <"$work/out")" "largest KL divergence 0.000000"

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
MXFP_ISA=ref calibrate_nvfp4 out2
check "bytes of NVFP4 of tier ref" cmp -s "$work/nvfp4/model.safetensors" "$work/out2/model.safetensors"

# What cannot be calibrated is told; so are few tokens.
exits 0 "" calibrate "$model" --tokens "$tokens" -o "$work/out2" -f --pad-tail --include model.embed_tokens.weight --sequences 2
has "what cannot be calibrated" "$(cat "$work/out")" "1 of those kept, such as experts, would be quantized"
has "few tokens" "$(cat "$work/out")" "60 tokens are few for layers of 76 inputs"

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
refused 2 "invalid --damping '0'" "$model" --tokens "$tokens" --damping 0
refused 2 "invalid --damping 'x'" "$model" --tokens "$tokens" --damping x
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

# Stories 25 to 56, which the model wrote, and the first 24: 4.619 rounded to nearest, NVFP4 4.350, f32 3.819.
if [ ! -d "$shared/stories260K" ]; then
	echo "no ../shared: not run on stories260K"
elif [ "${MXFP_ISA:-}" = ref ]; then
	echo "stories260K takes minutes without vectors: not run"
else
	python3 - "$shared/eval/self_generated.tokens.json" "$work" <<'END'
import json, sys

stories = json.load(open(sys.argv[1]))["seqs"]
json.dump(stories[24:56], open(sys.argv[2] + "/train.json", "w"))
json.dump(stories[:24], open(sys.argv[2] + "/test.json", "w"))
END
	mkdir "$work/stories"
	cp "$shared/stories260K/config.json" "$work/stories/"
	cp "$shared/stories260K/stories260K.hf.f32.safetensors" "$work/stories/model.safetensors"
	exits 0 "" calibrate "$work/stories" --tokens "$work/train.json" -o "$work/stories-calibrated" --pad-tail -q
	exits 0 "" eval "$work/stories-calibrated" --tokens "$work/test.json" --preset w4a8 --pad-tail -q
	perplexity=$(sed -n 's/^perplexity  *\([^ ]*\).*/\1/p' "$work/out")
	check "perplexity of stories260K in W4A8: $perplexity" awk "BEGIN { exit !($perplexity > 3.8 && $perplexity <= 4.30) }"
	exits 0 "" calibrate "$work/stories" --tokens "$work/train.json" -o "$work/stories-calibrated" -f --pad-tail -q --weights nvfp4
	exits 0 "" eval "$work/stories-calibrated" --tokens "$work/test.json" --preset w4a8 --weights nvfp4 --pad-tail -q
	perplexity=$(sed -n 's/^perplexity  *\([^ ]*\).*/\1/p' "$work/out")
	check "perplexity of stories260K in NVFP4: $perplexity" awk "BEGIN { exit !($perplexity > 3.8 && $perplexity <= 4.12) }"
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
