#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp eval in bounded memory: weights that would take far more if all of them were packed; keys and values that take what
# their format has; and logits that stay when the heads of a long sequence run in groups.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
[ "${MXFP_ISA:-}" != ref ] || { echo "takes minutes without vectors"; exit 77; }

cat >"$work/make.py" <<'END'
import json, math, os, random, struct, sys

path, filled, hidden, heads, kv_heads, cols, mlp, layers, vocabulary, tokens = sys.argv[1], *map(int, sys.argv[2:])
names = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,),
         "lm_head.weight": (vocabulary, hidden)}
for i in range(layers):
    names.update({"model.layers.%d.%s.weight" % (i, name): shape for name, shape in {
        "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (heads * cols, hidden),
        "self_attn.k_proj": (kv_heads * cols, hidden), "self_attn.v_proj": (kv_heads * cols, hidden),
        "self_attn.o_proj": (hidden, heads * cols), "mlp.gate_proj": (mlp, hidden), "mlp.up_proj": (mlp, hidden),
        "mlp.down_proj": (hidden, mlp)}.items()})
header, at = {}, 0
for name, shape in names.items():
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * math.prod(shape)]}
    at += 2 * math.prod(shape)
text = json.dumps(header).encode()
os.mkdir(path)
random.seed(1)
with open(path + "/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    # Numbers of 1/8 to 1/2 in size; or a file with nothing but a hole, all zeros.
    for _ in range(at // 2 if filled else 0):
        file.write(bytes((random.randrange(256), random.choice((0x3e, 0xbe)))))
    file.truncate(8 + len(text) + at)
with open(path + "/config.json", "w") as file:
    json.dump({"model_type": "llama", "hidden_size": hidden, "intermediate_size": mlp, "num_hidden_layers": layers,
               "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": cols, "vocab_size": vocabulary,
               "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu"}, file)
with open(path + ".json", "w") as file:
    json.dump([[i * i * 31 % vocabulary for i in range(tokens)]], file)
# MiB of weights as MXFP4, the head as it is.
elements = sum(math.prod(shape) for name, shape in names.items() if ".layers." in name)
print((elements * 17 // 32 + 2 * vocabulary * hidden) >> 20)
END

if ! peak_tells; then
	echo "memory is what the sanitizer takes"
else
	quantized=$(python3 "$work/make.py" "$work/wide" 0 1024 16 8 64 18432 2 32000 600)
	taken=$(peak eval "$work/wide" --tokens "$work/wide.json" --context 600 --batch 600 --weights mxfp4 --threads 1 -q)
	check "$taken MiB, with weights of $quantized" test "$taken" -le $((quantized + 512))
	# 1024 keys and as many values in 32 layers are 256 KiB a token, and 34 KiB as MXFP4: 128 MiB, and 17.
	python3 "$work/make.py" "$work/long" 0 32 16 16 64 32 32 32 513 >/dev/null
	whole=$(peak eval "$work/long" --tokens "$work/long.json" --context 513 --threads 1 -q)
	blocks=$(peak eval "$work/long" --tokens "$work/long.json" --context 513 --kv-cache mxfp4 --threads 1 -q)
	check "$blocks MiB, and $whole in binary32" test "$blocks" -le $((whole - 100))
fi

# Scores of 512 rows beyond 16 MiB, and of 24 rows not.
keys=$(fewer 2048 768)
python3 "$work/make.py" "$work/heads" 1 32 64 8 8 32 1 256 $keys >/dev/null
for formats in "" "--attention mxfp8-e4m3 --kv-cache nvfp4"; do
	exits 0 "" eval "$work/heads" --tokens "$work/heads.json" --context $keys $formats --save-logits "$work/logits" -f -q --threads 1
	exits 0 "" eval "$work/heads" --tokens "$work/heads.json" --context $keys $formats --save-logits "$work/few" -f -q --threads 1 --batch 24
	check "logits of groups of heads $formats" cmp "$work/logits" "$work/few"
done
finish
