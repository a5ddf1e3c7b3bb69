# SPDX-License-Identifier: MIT
"""Random models with experts of one layer, each in a directory of that which is given. Experts 0 and 1 are the same matrices."""
import json, math, os, random, struct, sys

HIDDEN, EXPERT, EXPERTS, VOCABULARY = 32, 48, 4, 40
work = sys.argv[1]
draw = random.Random(11)


def numbers(*shape):
    return shape, [draw.gauss(0, 0.3) for _ in range(math.prod(shape))]


def half(x, kind):
    """Bytes of a number in bf16, to nearest even, or f16."""
    if kind == "F16":
        return struct.pack("<e", x)
    bits, = struct.unpack("<I", struct.pack("<f", x))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def write(name, tensors, dtype, **config):
    os.mkdir("%s/%s" % (work, name))
    header, data = {}, b""
    for tensor, (shape, x) in tensors.items():
        packed = struct.pack("<%df" % len(x), *x) if dtype == "F32" else b"".join(half(y, dtype) for y in x)
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    with open("%s/%s/model.safetensors" % (work, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open("%s/%s/config.json" % (work, name), "w") as file:
        json.dump({"hidden_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
                   "vocab_size": VOCABULARY, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                   "head_dim": 16, "tie_word_embeddings": True, "hidden_act": "silu", "num_experts_per_tok": 2,
                   "torch_dtype": {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}[dtype]} | config, file)


layer = "model.layers.0."
common = {"model.embed_tokens.weight": numbers(VOCABULARY, HIDDEN), "model.norm.weight": ((HIDDEN,), [1.0] * HIDDEN)}
for part in ("input_layernorm", "post_attention_layernorm"):
    common[layer + part + ".weight"] = ((HIDDEN,), [1.0] * HIDDEN)
for part in "qkvo":
    common[layer + "self_attn.%s_proj.weight" % part] = numbers(HIDDEN, HIDDEN)
router = numbers(EXPERTS, HIDDEN)
gate, up = ([numbers(EXPERT, HIDDEN)[1] for _ in range(EXPERTS)] for _ in range(2))
down = [numbers(HIDDEN, EXPERT)[1] for _ in range(EXPERTS)]
gate[1], up[1], down[1] = gate[0], up[0], down[0]

# Mixtral; Qwen3 with a tensor for each expert, and with one for all; gpt-oss, whose tensors are [experts, in, out].
mixtral = dict(common) | {layer + "block_sparse_moe.gate.weight": router}
apart = dict(common) | {layer + "mlp.gate.weight": router}
for part in "qk":
    apart[layer + "self_attn.%s_norm.weight" % part] = ((16,), [1.0] * 16)
stacked = dict(apart)
for e in range(EXPERTS):
    for name, matrix, shape in (("w1", gate, (EXPERT, HIDDEN)), ("w3", up, (EXPERT, HIDDEN)), ("w2", down, (HIDDEN, EXPERT))):
        mixtral[layer + "block_sparse_moe.experts.%d.%s.weight" % (e, name)] = (shape, matrix[e])
        name = {"w1": "gate", "w3": "up", "w2": "down"}[name]
        apart[layer + "mlp.experts.%d.%s_proj.weight" % (e, name)] = (shape, matrix[e])
stacked[layer + "mlp.experts.gate_up_proj"] = ((EXPERTS, 2 * EXPERT, HIDDEN), [x for e in range(EXPERTS) for x in gate[e] + up[e]])
stacked[layer + "mlp.experts.down_proj"] = ((EXPERTS, HIDDEN, EXPERT), [x for e in range(EXPERTS) for x in down[e]])
oss = dict(common) | {layer + "mlp.router.weight": router, layer + "mlp.router.bias": ((EXPERTS,), [0.0, 0.0, 0.0, -100.0]),
                      layer + "self_attn.sinks": ((2,), [0.5, 1.0])}
for part in "qkvo":
    oss[layer + "self_attn.%s_proj.bias" % part] = ((HIDDEN,), [0.1] * HIDDEN)
oss[layer + "mlp.experts.gate_up_proj"] = ((EXPERTS, HIDDEN, 2 * EXPERT), [
    (gate if o % 2 == 0 else up)[e][o // 2 * HIDDEN + i] for e in range(EXPERTS) for i in range(HIDDEN) for o in range(2 * EXPERT)])
oss[layer + "mlp.experts.gate_up_proj_bias"] = ((EXPERTS, 2 * EXPERT), [0.1] * (EXPERTS * 2 * EXPERT))
oss[layer + "mlp.experts.down_proj"] = ((EXPERTS, EXPERT, HIDDEN), [
    down[e][o * EXPERT + i] for e in range(EXPERTS) for i in range(EXPERT) for o in range(HIDDEN)])
oss[layer + "mlp.experts.down_proj_bias"] = ((EXPERTS, HIDDEN), [0.1] * (EXPERTS * HIDDEN))
write("mixtral", mixtral, "BF16", model_type="mixtral", intermediate_size=EXPERT, num_local_experts=EXPERTS)
write("half", mixtral, "F16", model_type="mixtral", intermediate_size=EXPERT, num_local_experts=EXPERTS)
for name, tensors in (("apart", apart), ("stacked", stacked)):
    write(name, tensors, "F32", model_type="qwen3_moe", intermediate_size=EXPERT, moe_intermediate_size=EXPERT,
          num_experts=EXPERTS, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
write("oss", oss, "BF16", model_type="gpt_oss", intermediate_size=EXPERT, num_local_experts=EXPERTS, sliding_window=64,
      layer_types=["full_attention"], swiglu_limit=7.0, attention_bias=True)
