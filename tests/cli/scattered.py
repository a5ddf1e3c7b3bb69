# SPDX-License-Identifier: MIT
"""Random quantized models whose tensors lie in five shards, each in one of two by chance: codes in one, their scales in another, fused tensors in several.
Each in a directory of that which is given: mxfp4 and nvfp4 of compressed-tensors and ModelOpt, fp8 with scales that are F32 powers of two,
late, the same with others in the last shard; fused, the tensors of mxfp4 with q, k and v in the first, third and fifth shard."""
import json, os, random, struct, sys

SHARDS, LAYERS, SIZE, FP8 = 5, 2, 1024, 640 # a shard has more than the places by which a run that resumes knows it
work = sys.argv[1]
draw = random.Random(39)
NAMES = ["model.layers.%d.%s" % (layer, name) for layer in range(LAYERS) for name in
         ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")]


def some(n, low, high):
    return draw.randbytes(n).translate(bytes(low + i % (high + 1 - low) for i in range(256)))


def write(name, tensors, section, late=None, fused=None):
    """Every shard has a tensor that is no part of another, too. fused: the shards of tensors by a part of their names. late: scales of codes in the last shard, and of all in the shard of their codes."""
    os.mkdir("%s/%s" % (work, name))
    for i in range(SHARDS):
        tensors["model.layers.%d.input_layernorm.weight" % i] = ("BF16", [SIZE], some(2 * SIZE, 0, 60))
    place, shards = {}, [[] for _ in range(SHARDS)]
    for tensor in tensors:
        kept = tensor.endswith("layernorm.weight")
        module = next((i for i, name in enumerate(NAMES) if tensor.startswith(name + ".")), 0)
        place[tensor] = int(tensor.split(".")[2]) if kept else min(module * SHARDS // len(NAMES) + draw.randrange(2), SHARDS - 1)
        if late is not None:
            place[tensor] = place.get(tensor.replace("_scale_inv", ""), place[tensor])
        shards[place[tensor]].append(tensor)
    for tensor in tensors if fused is not None else ():
        if not tensor.endswith("layernorm.weight"):
            place[tensor] = next((shard for part, shard in fused.items() if part in tensor), 1)
    if fused is not None:
        shards = [[tensor for tensor in tensors if place[tensor] == i] for i in range(SHARDS)]
    for tensor in tensors:
        if late is not None and place.get(tensor.replace("_scale_inv", "")) == SHARDS - 1 and tensor.endswith("_scale_inv"):
            tensors[tensor] = tensors[tensor][:2] + (late,)
    file = "model-%05d-of-00005.safetensors"
    for i, names in enumerate(shards):
        header, data = {"__metadata__": {"format": "pt"}}, b""
        for tensor in names:
            dtype, shape, these = tensors[tensor]
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(these)]}
            data += these
        text = json.dumps(header).encode()
        with open("%s/%s/%s" % (work, name, file % (i + 1)), "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text + data)
    with open("%s/%s/model.safetensors.index.json" % (work, name), "w") as out:
        json.dump({"metadata": {}, "weight_map": {t: file % (i + 1) for t, i in place.items()}}, out)
    with open("%s/%s/config.json" % (work, name), "w") as out:
        json.dump({"model_type": "llama", "quantization_config": section}, out)
    with open("%s/%s/tokenizer.json" % (work, name), "w") as out:
        out.write("{}\n")


tensors = {}
for name in NAMES:
    tensors[name + ".weight_packed"] = ("U8", [SIZE, SIZE // 2], some(SIZE * SIZE // 2, 0, 255))
    tensors[name + ".weight_scale"] = ("U8", [SIZE, SIZE // 32], some(SIZE * SIZE // 32, 120, 130))
write("mxfp4", tensors, {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"})
write("fused", tensors, {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}, None, {"q_proj": 0, "k_proj": 2, "v_proj": 4})

# Scales of 128 x 128 blocks; a power of two is exact in MXFP8.
tensors = {}
for name in NAMES:
    tensors[name + ".weight"] = ("F8_E4M3", [FP8, FP8], some(FP8 * FP8, 0, 120))
    tensors[name + ".weight_scale_inv"] = ("F32", [5, 5], struct.pack("<25f", *(2.0 ** draw.randint(-9, 3) for _ in range(25))))
write("fp8", tensors, {"quant_method": "fp8", "weight_block_size": [128, 128]})
write("late", tensors, {"quant_method": "fp8", "weight_block_size": [128, 128]}, struct.pack("<25f", *[0.1] * 25))

# Fused tensors have one tensor scale, a power of two, whose reciprocal is exact. Scales are UE4M3 without NaN.
tensors = {}
for name in NAMES:
    tensors[name + ".weight"] = ("U8", [SIZE, SIZE // 2], some(SIZE * SIZE // 2, 0, 255))
    tensors[name + ".weight_scale"] = ("F8_E4M3", [SIZE, SIZE // 16], some(SIZE * SIZE // 16, 1, 126))
    tensors[name + ".weight_scale_2"] = ("F32", [], struct.pack("<f", 2.0 ** -4))
write("nvfp4", tensors, {"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"})
