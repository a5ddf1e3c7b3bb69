# SPDX-License-Identifier: MIT
"""A random Llama of two layers, in directory model of that which is given; nan.safetensors and large.safetensors, which have a weight
that cannot be calibrated; and tokens.json."""
import json, os, random, struct, sys

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


os.mkdir(work + "/model")
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
