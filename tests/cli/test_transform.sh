#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp transform: small random models, a Llama with biases, a Qwen2 and a Qwen3, whose logits scales leave as they are in every
# bit, and the other transforms but for rounding; weights of a hand calculation; what is refused, with nothing written; and, if
# ../shared is there, a real model.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }

shared=${MXFP_SHARED:-${srcdir:-.}/../shared}/weights
cat >"$work/models.py" <<'END'
# make WORK: the models. compare A B: the largest difference of two files of logits over the largest logit; exit status 1
# if it is above 1e-5. read FILE: what a file holds.
import array, json, os, random, struct, sys

HIDDEN, MLP, VOCABULARY, HEADS, KV_HEADS, HEAD = 48, 76, 40, 4, 2, 12


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    result = {}
    for name, t in header.items():
        raw = data[t["data_offsets"][0]:t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
        result[name] = t["dtype"], struct.unpack("<%df" % (len(raw) // 4), raw)
    return result


def write(path, tensors, dtype="F32"):
    header, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        raw = struct.pack("<%df" % len(numbers), *numbers)
        if dtype == "BF16":
            raw = b"".join(raw[i + 2:i + 4] for i in range(0, len(raw), 4))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def model(work, name, kind, biases, tied, head_norms=False, dtype="F32"):
    draw = random.Random(name)
    shapes = {"model.embed_tokens.weight": [VOCABULARY, HIDDEN], "model.norm.weight": [HIDDEN]}
    if not tied:
        shapes["lm_head.weight"] = [VOCABULARY, HIDDEN]
    q, kv = HEADS * HEAD, KV_HEADS * HEAD
    for layer in range(2):
        at = "model.layers.%d." % layer
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[at + norm + ".weight"] = [HIDDEN]
        for part, rows, cols in (("self_attn.q", q, HIDDEN), ("self_attn.k", kv, HIDDEN), ("self_attn.v", kv, HIDDEN),
                                 ("self_attn.o", HIDDEN, q), ("mlp.gate", MLP, HIDDEN), ("mlp.up", MLP, HIDDEN),
                                 ("mlp.down", HIDDEN, MLP)):
            shapes[at + part + "_proj.weight"] = [rows, cols]
            if part[-1] in biases:
                shapes[at + part + "_proj.bias"] = [rows]
        if head_norms:
            shapes[at + "self_attn.q_norm.weight"] = shapes[at + "self_attn.k_norm.weight"] = [HEAD]
    tensors = {}
    for tensor, shape in shapes.items():
        n = shape[0] * shape[-1] if len(shape) > 1 else shape[0]
        spread = [2.0 ** draw.randrange(-2, 3) for _ in range(shape[-1])]
        tensors[tensor] = shape, [draw.uniform(0.2, 3) if "norm" in tensor else draw.gauss(0, 0.1) * spread[i % shape[-1]]
                                  for i in range(n)]
    os.mkdir(work + "/" + name)
    write(work + "/" + name + "/model.safetensors", tensors, dtype)
    with open(work + "/" + name + "/config.json", "w") as file:
        json.dump({"model_type": kind, "hidden_size": HIDDEN, "intermediate_size": MLP, "num_hidden_layers": 2,
                   "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
                   "vocab_size": VOCABULARY, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                   "tie_word_embeddings": tied, "hidden_act": "silu", "attention_bias": "o" in biases,
                   "mlp_bias": "n" in biases}, file)


def compare(a, b):
    def logits(path):
        x = array.array("f")
        with open(path, "rb") as file:
            x.frombytes(file.read()[-(59 + 127 + 32) * VOCABULARY * 4:])
        return x
    x, y = logits(a), logits(b)
    most = max(map(abs, x))
    worst = max(abs(p - q) for p, q in zip(x, y)) / most
    print("%.3g" % worst)
    return worst > 1e-5 or most < 0.1


if sys.argv[1] == "make":
    work = sys.argv[2]
    model(work, "llama", "llama", "qkvoepn", False)
    model(work, "qwen2", "qwen2", "qkv", True)
    model(work, "qwen3", "qwen3", "", True, True)
    model(work, "narrow", "llama", "", True, False, "BF16")
    draw = random.Random(8)
    with open(work + "/tokens.json", "w") as file:
        json.dump([[draw.randrange(VOCABULARY) for _ in range(length)] for length in (60, 128, 33)], file)
elif sys.argv[1] == "compare":
    sys.exit(compare(sys.argv[2], sys.argv[3]))
elif sys.argv[1] == "powers":  # FILE FILE: all numbers differ by powers of two, of the same dtypes, and some do differ
    a, b = read(sys.argv[2]), read(sys.argv[3])
    differ = False
    for name in a:
        if a[name][0] != b[name][0]:
            sys.exit(name + " has another dtype")
        for x, y in zip(a[name][1], b[name][1]):
            differ = differ or x != y
            if x != y and abs(y / x) not in {2.0 ** e for e in range(-16, 17)}:
                sys.exit("%s: %g became %g" % (name, x, y))
    sys.exit(not differ)
END
python3 "$work/models.py" make "$work" || exit 99
tokens=$work/tokens.json

# logits MODEL OUT
logits() {
	exits 0 "" eval "$1" --tokens "$tokens" --save-logits "$2" -f -q
}

for model in llama qwen2 qwen3; do
	logits "$work/$model" "$work/before"
	for transform in --scale-norms --scale-values --scale-mlp "--scale-norms --scale-values --scale-mlp --exponent 0" \
		"--scale-norms --scale-values --scale-mlp --exponent 1"; do
		exits 0 "" transform "$work/$model" $transform -o "$work/after" -f
		has "$model $transform" "$(cat "$work/out")" "the same in every bit"
		check "$model $transform: powers" python3 "$work/models.py" powers "$work/$model/model.safetensors" "$work/after/model.safetensors"
		logits "$work/after" "$work/now"
		check "$model $transform: logits" cmp "$work/before" "$work/now"
	done
	for transform in --fold-norms --rotate-values --rotate-stream "--rotate-stream --rotation-size 4" \
		"--rotate-stream --rotate-values --scale-norms --scale-values --scale-mlp"; do
		exits 0 "" transform "$work/$model" $transform -o "$work/after" -f
		has "$model $transform" "$(cat "$work/out")" "the same but for rounding"
		logits "$work/after" "$work/now"
		check "$model $transform: another model" test "$(cmp -s "$work/$model/model.safetensors" "$work/after/model.safetensors"; echo $?)" = 1
		check "$model $transform: logits" python3 "$work/models.py" compare "$work/before" "$work/now"
	done
done

# What is bf16 stays so under scales; what is rotated is f32; a head that was the embedding is one of its own.
# config.json says f32 only where numbers are, for loaders round to what it says.
sed -i 's/^{/{"torch_dtype": "bfloat16", /' "$work/narrow/config.json"
exits 0 "" transform "$work/narrow" --scale-norms --scale-mlp -o "$work/after" -f
has "config.json" "$(cat "$work/after/config.json")" '"torch_dtype": "bfloat16"'
check "bf16" python3 "$work/models.py" powers "$work/narrow/model.safetensors" "$work/after/model.safetensors"
exits 0 "" transform "$work/narrow" --rotate-stream -o "$work/next it's"
next=$(tail -n 1 "$work/out")
same "what comes next" "    mxfp report '$work/next it'\\''s'" "$next"
eval "set -- ${next#    mxfp}"
exits 0 "" "$@"
exits 0 "" transform "$work/narrow" --rotate-stream -o "$work/after" -f --json
has "what comes next" "$(tr -d '\n' <"$work/out")" "\"command\": \"mxfp report $work/after\""
has "json" "$(cat "$work/out")" '"stream_rotation": 16'
has "json" "$(cat "$work/out")" '"untied": true'
has "config.json" "$(cat "$work/after/config.json")" '"tie_word_embeddings": false'
has "config.json" "$(cat "$work/after/config.json")" '"torch_dtype": "float32"'
exits 0 "" inspect "$work/after"
has "head" "$(cat "$work/out")" "lm_head.weight"

# One head of two numbers, by hand: v = [[1, 2], [3, 4]] and its bias [5, 6] become [[4, 6], [-2, -2]] and [11, -1] over the
# root of 2, o = [[1, 0], [0, 1]] becomes [[1, 1], [1, -1]] over it.
mkdir "$work/hand"
sed -e 's/: 48/: 2/; s/: 76/: 2/; s/: 4,/: 1,/; s/: 2, "head_dim": 12/: 1, "head_dim": 2/; s/hidden_layers": 2/hidden_layers": 1/' \
	-e 's/heads": 4/heads": 1/' "$work/narrow/config.json" >"$work/hand/config.json"
cat >>"$work/models.py" <<'END'
elif sys.argv[1] == "hand":
    at, one = "model.layers.0.", ([2, 2], [1.0, 0.0, 0.0, 1.0])
    tensors = {at + part + "_proj.weight": one for part in ("self_attn.q", "self_attn.k", "self_attn.o", "mlp.gate", "mlp.up",
                                                            "mlp.down")}
    tensors[at + "self_attn.v_proj.weight"] = [2, 2], [1.0, 2.0, 3.0, 4.0]
    tensors[at + "self_attn.v_proj.bias"] = [2], [5.0, 6.0]
    for norm in ("model.norm", at + "input_layernorm", at + "post_attention_layernorm"):
        tensors[norm + ".weight"] = [2], [1.0, 1.0]
    tensors["model.embed_tokens.weight"] = [40, 2], [1.0] * 80
    write(sys.argv[2] + "/model.safetensors", tensors)
elif sys.argv[1] == "show":
    for name in sys.argv[3:]:
        print(" ".join("%.6g" % (x * x * (1 if x > 0 else -1)) for x in read(sys.argv[2])[name][1]))
END
python3 "$work/models.py" hand "$work/hand" || exit 99
exits 0 "" transform "$work/hand" --rotate-values -o "$work/after" -f -q
attention=model.layers.0.self_attn
same "squares by hand" "8 18 -2 -2
60.5 -0.5
0.5 0.5 0.5 -0.5" "$(python3 "$work/models.py" show "$work/after/model.safetensors" $attention.v_proj.weight $attention.v_proj.bias \
	$attention.o_proj.weight)"

# Refused, with nothing written.
refused() {
	rm -rf "$work/none"
	code=$1 text=$2
	shift 2
	exits "$code" "$text" transform "$@"
	check "left by '$*'" test ! -e "$work/none"
}
refused 2 "no transform given" "$work/llama" -o "$work/none"
refused 2 "no output given" "$work/llama" --scale-norms
refused 2 "invalid --exponent '2'" "$work/llama" --scale-norms --exponent 2 -o "$work/none"
refused 2 "invalid --rotation-size" "$work/llama" --rotate-values --rotation-size 3 -o "$work/none"
refused 2 "is for --rotate-values and --rotate-stream" "$work/llama" --scale-norms --rotation-size 4 -o "$work/none"
refused 3 "head_dim is 12, which --rotation-size 8 does not divide; 4 is the largest divisor" "$work/llama" --rotate-values --rotation-size 8 \
	-o "$work/none"
mkdir "$work/experts" "$work/unknown"
sed 's/"llama"/"qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32/' "$work/llama/config.json" \
	>"$work/experts/config.json"
sed 's/"llama"/"gemma2"/' "$work/llama/config.json" >"$work/unknown/config.json"
cp "$work/llama/model.safetensors" "$work/experts"
cp "$work/llama/model.safetensors" "$work/unknown"
refused 3 "is a model with experts (qwen3_moe)" "$work/experts" --scale-norms -o "$work/none"
refused 3 "is not a family of models that is known here" "$work/unknown" --scale-norms -o "$work/none"
cp -r "$work/narrow" "$work/tied"
refused 2 "name a directory" "$work/tied/model.safetensors" --rotate-stream -o "$work/none.safetensors"
exits 0 "" transform "$work/tied/model.safetensors" --scale-mlp -o "$work/one.safetensors" -q
# What a run that was killed leaves cannot be continued.
mkdir "$work/killed.safetensors.partial"
echo '{}' >"$work/killed.safetensors.partial/fingerprint.json"
exits 2 "belongs to a run that was stopped; --force starts over" transform "$work/tied/model.safetensors" --scale-mlp -o "$work/killed.safetensors"
exits 0 "" transform "$work/tied/model.safetensors" --scale-mlp -o "$work/killed.safetensors" -q -f
exits 0 "" quantize "$work/llama" -o "$work/quantized" -q --pad-tail
# What is quantized is decoded first.
exits 0 "" dequantize "$work/quantized" -o "$work/numbers" -q
for of in quantized numbers; do
	exits 0 "" transform "$work/$of" --scale-norms -o "$work/$of.scaled" -q
done
check "the same of the numbers" cmp "$work/quantized.scaled/model.safetensors" "$work/numbers.scaled/model.safetensors"

# A real model, whose rounding is seen by more than random ones'.
if [ ! -d "$shared/stories260K" ]; then
	echo "no ../shared: not run on stories260K"
else
	mkdir "$work/stories"
	cp "$shared/stories260K/config.json" "$work/stories/"
	cp "$shared/stories260K/stories260K.hf.f32.safetensors" "$work/stories/model.safetensors"
	logits "$work/stories" "$work/before"
	exits 0 "" transform "$work/stories" --scale-norms --scale-values --scale-mlp -o "$work/after" -f
	logits "$work/after" "$work/now"
	check "logits of stories260K, scaled" cmp "$work/before" "$work/now"
	logits "$shared/stories260K/sharded" "$work/before"
	exits 0 "" transform "$shared/stories260K/sharded" --scale-norms --scale-values --scale-mlp -o "$work/after" -f
	logits "$work/after" "$work/now"
	check "logits of stories260K in shards, scaled" cmp "$work/before" "$work/now"
	exits 0 "" transform "$shared/stories260K/sharded" --rotate-stream --rotate-values -o "$work/after" -f
	exits 0 "" eval "$work/after" --tokens "$tokens" --compare "$work/before" -q
	has "stories260K, rotated" "$(tr -s ' ' <"$work/out")" "largest KL divergence 0.000000"
fi
finish
