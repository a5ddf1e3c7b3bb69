# SPDX-License-Identifier: MIT
"""scaled.py MXFP WORK: 8-bit floats with scales as their makers publish them. Numbers that are expected are those of transformers'
Fp8Dequantize, RN32(code * scale), worked out here; bf16 are these rounded. WORK has the model of small_llama.py."""
import json, os, random, shutil, struct

import checked
from checked import WORK, check, finish
from safetensors_file import bf16, bf16_bytes, f32_bytes, read_safetensors, write_safetensors

os.chdir(WORK)
draw = random.Random(17)
W = "model.layers.0.mlp.up_proj.weight"
CODES = [c for c in range(256) if c & 127 != 127]


def run(*arguments):
    code, out, error = checked.run(*arguments)
    return code, out, error.strip()


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def decode(code, mantissa_bits):
    bias = 7 if mantissa_bits == 3 else 15
    exponent, mantissa = (code & 127) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    x = (mantissa + (exponent > 0) * 2.0**mantissa_bits) * 2.0**(max(exponent, 1) - bias - mantissa_bits)
    return -x if code & 128 else x


E4M3 = [decode(c, 3) for c in range(256)]
E5M2 = [decode(c, 2) for c in range(256)]


def pack(numbers, dtype):
    return {"F32": f32_bytes, "BF16": bf16_bytes, "F16": lambda x: struct.pack("<%de" % len(x), *x)}[dtype](numbers)


def unpack(data, dtype):
    if dtype == "BF16":
        return [struct.unpack("<f", struct.pack("<I", w << 16))[0] for w in struct.unpack("<%dH" % (len(data) // 2), data)]
    return list(struct.unpack("<%d%s" % (len(data) // (4 if dtype == "F32" else 2), "f" if dtype == "F32" else "e"), data))


def ct(strategy, structure=None):
    return {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                "num_bits": 8, "type": "float", "strategy": strategy, "symmetric": True, "dynamic": False,
                "group_size": None, "block_structure": structure}}}, "ignore": ["lm_head"]}


def modelopt(algorithm):
    return {"quant_method": "modelopt", "quant_algo": algorithm, "ignore": [], "producer": {"name": "modelopt", "version": "0.47.0"}}


def quark(layers, **weight):
    """QConfig.to_dict() of Quark 0.13: layers have these settings of weights, all others MXFP4."""
    spec = {"dtype": "fp4", "is_dynamic": False, "qscheme": "per_group", "ch_axis": -1, "group_size": 32, "block_size": None, "symmetric": None,
            "round_method": "half_even", "scale_type": "float", "scale_format": "e8m0", "scale_calculation_mode": "even", "mx_element_dtype": None,
            "observer_cls": "PerBlockMXObserver", "is_scale_quant": False}
    layer = lambda spec: {"input_tensors": None, "output_tensors": None, "weight": spec, "bias": None, "target_device": None}
    eight = dict(spec, dtype="fp8_e4m3", qscheme="per_tensor", ch_axis=None, group_size=None, symmetric=True, scale_format=None,
                 scale_calculation_mode=None, observer_cls="PerTensorMinMaxObserver")
    eight.update(weight)
    return {"quant_method": "quark", "quant_mode": "eager_mode", "version": "0.13", "algo_config": None, "softmax_quant_spec": None, "kv_cache_quant_config": {},
            "global_quant_config": layer(spec), "layer_quant_config": {name: layer(eight) for name in layers}, "layer_type_quant_config": {}, "exclude": ["lm_head"],
            "export": {"kv_cache_group": [], "min_kv_scale": 0.0, "pack_method": "reorder", "weight_format": "real_quantized", "weight_merge_groups": None}}


def fp8(block, **more):
    return dict({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": block}, **more)


def product(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def write(path, tensors, section):
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    write_safetensors(path + "/model.safetensors", tensors)
    with open(path + "/config.json", "w") as file:
        json.dump({"model_type": "llama", **({"quantization_config": section} if section else {})}, file)


def cells(n, block):
    return -(-n // block)


# What, name of codes, their dtype and shape, end of the scale's name, its dtype and shape, block, configuration, other tensors.
CASES = [
    ("DeepSeek-V3", W, "F8_E4M3", (256, 384), W + "_scale_inv", "F32", (2, 3), (128, 128), fp8([128, 128], fmt="e4m3")),
    ("DeepSeek-V3, squares that do not divide", W, "F8_E4M3", (200, 320), W + "_scale_inv", "BF16", (2, 3), (128, 128), fp8([128, 128])),
    ("a table whose block is another than the stated one", W, "F8_E4M3", (40, 96), W + "_scale_inv", "F32", (40, 3), (1, 32), fp8([128, 128])),
    ("DeepSeek-V4 Base", "layers.0.attn.wq_a.weight", "F8_E4M3", (128, 256), "layers.0.attn.wq_a.scale", "F32", (1, 2), (128, 128),
     fp8([128, 128], scale_fmt="ue8m0")),
    ("Mistral", W, "F8_E4M3", (64, 96), W[:-6] + "qscale_weight", "F32", (), (64, 96), fp8(None, activation_scheme="static")),
    ("a tensor", W, "F8_E4M3", (96, 160), W + "_scale_inv", "F32", (1,), (96, 160), fp8(None)),
    ("compressed-tensors, channel", W, "F8_E4M3", (96, 160), W + "_scale", "BF16", (96, 1), (1, 160), ct("channel")),
    ("compressed-tensors, tensor", W, "F8_E4M3", (96, 160), W + "_scale", "F32", (1,), (96, 160), ct("tensor")),
    ("compressed-tensors, block", W, "F8_E4M3", (130, 160), W + "_scale", "F16", (2, 2), (128, 128), ct("block", [128, 128])),
    ("compressed-tensors, block as a text", W, "F8_E4M3", (130, 160), W + "_scale", "F32", (2, 2), (128, 128), ct("block", "128x128")),
    ("ModelOpt FP8", W, "F8_E4M3", (48, 64), W + "_scale", "F32", (), (48, 64), modelopt("FP8")),
    ("ModelOpt FP8_PC_PT", W, "F8_E4M3", (48, 64), W + "_scale", "F32", (48,), (1, 64), modelopt("FP8_PER_CHANNEL_PER_TOKEN")),
    ("ModelOpt FP8_PB_WO", W, "F8_E4M3", (256, 128), W + "_scale", "F32", (2, 1, 1, 1), (128, 128), modelopt("fp8_pb_wo")),
    ("ModelOpt, experts by row", "model.layers.0.mlp.experts.gate_up_proj", "F8_E4M3", (3, 64, 32),
     "model.layers.0.mlp.experts.gate_up_proj_scale", "F32", (3, 64), (1, 32), modelopt("fp8_pc_pt")),
    ("ModelOpt, experts by column", "model.layers.0.mlp.experts.gate_up_proj", "F8_E4M3", (3, 64, 32),
     "model.layers.0.mlp.experts.gate_up_proj_scale", "F32", (3, 32), (64, 1), modelopt("fp8_pc_pt")),
    ("experts by square", "model.layers.0.mlp.experts.gate_up_proj", "F8_E4M3", (2, 64, 64),
     "model.layers.0.mlp.experts.gate_up_proj_scale_inv", "F32", (2, 2, 2), (32, 32), fp8([32, 32])),
    ("FBGEMM", W, "F8_E4M3", (48, 64), W + "_scale", "F32", (48, 1), (1, 64), {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}),
    ("Quark, tensor", W, "F8_E4M3", (48, 64), W + "_scale", "F32", (), (48, 64), quark(["*"])),
    ("Quark, channel", W, "F8_E4M3", (48, 64), W + "_scale", "F32", (48,), (1, 64), quark(["*up_proj"], qscheme="per_channel", ch_axis=0)),
    ("E5M2", W, "F8_E5M2", (48, 64), W + "_scale", "F32", (48, 1), (1, 64), None),
]


def make(case):
    """The model, and its numbers."""
    what, name, dtype, shape, scale_name, scale_dtype, scale_shape, block, section = case
    table, finite = (E4M3, CODES) if dtype == "F8_E4M3" else (E5M2, [c for c in range(256) if c & 127 < 124])
    n = product(shape)
    codes = bytes(draw.choice(finite) for _ in range(n))
    scales = unpack(pack([draw.uniform(1e-4, 3e-2) for _ in range(product(scale_shape))], scale_dtype), scale_dtype)
    rows, cols = shape[-2:]
    grid = cells(rows, block[0]) * cells(cols, block[1])
    where = [((i // (rows * cols)) * grid if len(shape) == 3 else 0) + i // cols % rows // block[0] * cells(cols, block[1]) +
             i % cols // block[1] for i in range(n)]
    tensors = {name: (dtype, shape, codes), scale_name: (scale_dtype, scale_shape, pack(scales, scale_dtype)),
               "model.norm.weight": ("F32", [4], f32_bytes([1, 2, 3, 4]))}
    if name == W and section is not None:
        tensors[W[:-6] + "input_scale"] = ("F32", [], f32_bytes([2]))
    if what == "Mistral":
        del tensors[W[:-6] + "input_scale"]
        tensors[W[:-6] + "qscale_act"] = ("F32", [], f32_bytes([2]))
    return tensors, section, [f32(table[c] * scales[at]) for c, at in zip(codes, where)]


for case in CASES:
    what, name = case[:2]
    tensors, section, numbers = make(case)
    write("m", tensors, section)
    code, out, error = run("dequantize", "m", "-o", "f32", "-f", "--to", "f32")
    read = read_safetensors("f32/model.safetensors") if code == 0 else {}
    check(what, code == 0 and read[name] == ("F32", list(case[3]), f32_bytes(numbers)), error)
    check(what + ": tensors", sorted(read) == sorted([name, "model.norm.weight"]) and "1 tensors decoded" in out, sorted(read))
    code, _, error = run("dequantize", "m", "-o", "bf16", "-f", "-q", "--to", "bf16")
    check(what + ": bf16", code == 0 and read_safetensors("bf16/model.safetensors")[name][2] == bf16_bytes(numbers), error)
    code, out, error = run("lint", "m")
    # Without a config.json's word lint says so; otherwise nothing is wrong.
    check(what + ": lint", code == (0 if section else 1) and "1 quantized weights" in out, out + error)
    # What is made of it is what is made of the numbers.
    if len(case[3]) == 2:
        for command in (("quantize", "m", "-o", "q", "-f", "-w", "mxfp8", "-q", "--include", "*"), ("quantize", "f32", "-o", "r", "-f", "-w", "mxfp8", "-q", "--include", "*")):
            code, _, error = run(*command)
            check(what + ": " + " ".join(command[:2]), code == 0, error)
        check(what + ": quantized", read_safetensors("q/model.safetensors") == read_safetensors("r/model.safetensors"))
        check(what + ": configuration", json.load(open("q/config.json")) == json.load(open("r/config.json")))
        code, _, error = run("diff", "m", "f32")
        check(what + ": diff", code == 0, error)

# Mixtures: one layer in FP8, another in NVFP4 or MXFP8, as most builds of 2026 are; each is read as what it is.
O = "model.layers.0.self_attn.o_proj.weight"
E2M1 = [0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6]
nibbles = bytes(draw.randrange(256) for _ in range(32 * 32))
fours = [E2M1[n] for b in nibbles for n in (b & 15, b >> 4)]
nvfp4_args = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True, "dynamic": False, "scale_dtype": "torch.float8_e4m3fn"}
mixed_ct = {"quant_method": "compressed-tensors", "format": "mixed-precision", "quantization_status": "compressed", "ignore": ["lm_head"], "config_groups": {
    "group_0": dict(ct("channel")["config_groups"]["group_0"], format="float-quantized", targets=["re:.*up_proj"]),
    "group_1": {"targets": ["re:.*o_proj"], "format": "nvfp4-pack-quantized", "weights": nvfp4_args, "input_activations": None}}}
mixed_mo = dict(modelopt("MIXED_PRECISION"), quantized_layers={"model.language_model.layers.0.mlp": {"quant_algo": "FP8"},
                                                              "model.language_model.layers.0.self_attn.o_proj": {"quant_algo": "NVFP4", "group_size": 16}})
ones16 = bytes([0x38] * 32 * 4)
QUARK_CASE = next(i for i, case in enumerate(CASES) if case[0] == "Quark, channel")
for what, section, parts in (
        ("Quark", quark(["*up_proj"], qscheme="per_channel", ch_axis=0), {O: ("U8", (32, 32), nibbles), O + "_scale": ("U8", (32, 2), bytes([128] * 64))}),
        ("compressed-tensors", mixed_ct, {O + "_packed": ("U8", (32, 32), nibbles), O + "_scale": ("F8_E4M3", (32, 4), ones16),
                                          O + "_global_scale": ("F32", (1,), f32_bytes([0.5]))}),
        ("ModelOpt", mixed_mo, {O: ("U8", (32, 32), nibbles), O + "_scale": ("F8_E4M3", (32, 4), ones16), O + "_scale_2": ("F32", (), f32_bytes([2]))}),
        ("DeepSeek-V4", fp8([128, 128], scale_fmt="ue8m0", expert_dtype="fp4"), {O: ("I8", (32, 32), nibbles), O[:-6] + "scale": ("F8_E8M0", (32, 2), bytes([128] * 64))})):
    case = CASES[{"compressed-tensors": 6, "ModelOpt": 10, "DeepSeek-V4": 0, "Quark": QUARK_CASE}[what]]
    tensors, _, numbers = make(case)
    shape = case[3]
    tensors.update(parts)
    write("m", tensors, section)
    code, _, error = run("dequantize", "m", "-o", "f32", "-f", "-q", "--to", "f32")
    read = read_safetensors("f32/model.safetensors") if code == 0 else {}
    check("mixture of " + what, code == 0 and read[W] == ("F32", list(shape), f32_bytes(numbers)), error)
    check("mixture of %s, the other" % what, code == 0 and read[O] == ("F32", [32, 64], f32_bytes([2.0 * x for x in fours])), error)
    code, out, error = run("lint", "m")
    check("mixture of %s: lint" % what, code in (0, 1) and "2 quantized weights" in out and "error:" not in out, out + error)
    # Twice what is rounded once more is what the numbers give.
    for path, out in (("m", "q"), ("f32", "r")):
        code, _, error = run("quantize", path, "-o", out, "-f", "-w", "mxfp8", "-q", "--include", "*")
        check("mixture of %s: quantize %s" % (what, path), code == 0, error)
    check("mixture of %s: quantized" % what, read_safetensors("q/model.safetensors") == read_safetensors("r/model.safetensors"))

# A model that runs: the same as its numbers.
model = read_safetensors("model/model.safetensors")
config = json.load(open("model/config.json"))
eight, plain = {}, {}
for name, (dtype, shape, data) in model.items():
    if len(shape) < 2 or "proj" not in name:
        eight[name] = plain[name] = (dtype, shape, data)
        continue
    codes, scales = bytes(draw.choice(CODES) for _ in range(product(shape))), [f32(draw.uniform(1e-4, 3e-4)) for _ in range(cells(shape[0], 16) * cells(shape[1], 16))]
    eight[name] = ("F8_E4M3", shape, codes)
    eight[name + "_scale_inv"] = ("F32", [cells(shape[0], 16), cells(shape[1], 16)], f32_bytes(scales))
    plain[name] = ("F32", shape, f32_bytes([E4M3[c] * scales[i // shape[1] // 16 * cells(shape[1], 16) + i % shape[1] // 16] for i, c in enumerate(codes)]))
for path, tensors, section in (("of8", eight, fp8([16, 16])), ("plain", plain, None)):
    write(path, tensors, section)
    json.dump(dict(config, **({"quantization_config": section} if section else {})), open(path + "/config.json", "w"))
seen = {}
for path in ("of8", "plain"):
    for command in (("eval", "--tokens", "tokens.json", "--json"), ("report", "--json"), ("advise", "--json"),
                    ("gemm", "X:model.layers.0.self_attn.q_proj.weight", "X:model.layers.0.self_attn.k_proj.weight", "-o", "X.npy", "-f"),
                    ("calibrate", "--tokens", "tokens.json", "-o", "X-calibrated", "-f", "-q")):
        arguments = [a.replace("X", path) for a in command[1:]]
        code, out, error = run(command[0], *([] if command[0] == "gemm" else [path]), *arguments)
        check("%s of %s" % (command[0], path), code == 0, error)
        text = out.replace(path, "P")
        if text.startswith("{"):
            facts = json.loads(text)
            for key in ("decoded_from", "seconds"):
                facts.pop(key, None)
            text = json.dumps({k: v for k, v in facts.items() if "second" not in k and "bytes" not in k})
        seen.setdefault(command[0], []).append(text)
check("eval", '"perplexity"' in seen["eval"][0])
# advise and calibrate say that numbers were decoded, and of numbers nothing.
for path, said in (("of8", True), ("plain", False)):
    for command in (("advise", path), ("calibrate", path, "--tokens", "tokens.json", "-o", "X-calibrated", "-f")):
        code, out, error = run(*command)
        check("%s says of %s" % command[:2], code == 0 and (" quantized before (fp8" in out) == said, out + error)
        code, out, error = run(*command, "--json")
        check("%s says of %s in JSON" % command[:2], code == 0 and (json.loads(out)["decoded_from"] is not None) == said, out + error)
check("gemm is that of the numbers", open("of8.npy", "rb").read() == open("plain.npy", "rb").read())
check("advise is that of the numbers", seen["advise"][0] == seen["advise"][1], seen["advise"])
check("calibrate is that of the numbers", read_safetensors("of8-calibrated/model.safetensors") == read_safetensors("plain-calibrated/model.safetensors"))
perplexity = [json.loads(t) for t in seen["eval"]]
check("eval is that of the numbers", [str(p)[:60] for p in perplexity][0] == [str(p)[:60] for p in perplexity][1], perplexity)


# Scales of activations and caches, which dequantize carries, are those of the numbers before for transform.
carried = {}
for layer in range(2):
    for part in ("q", "k", "v"):
        carried["model.layers.%d.self_attn.%s_proj.input_scale" % (layer, part)] = ("F32", [1], f32_bytes([2.0]))
    for name in ("k_scale", "v_scale", "q_scale", "prob_scale", "kv_scale"):
        carried["model.layers.%d.self_attn.%s" % (layer, name)] = ("F32", [1], f32_bytes([0.5]))
    carried["model.layers.%d.self_attn.k_proj.output_scale" % layer] = ("F32", [1], f32_bytes([0.25]))
for path, tensors in (("of8", eight), ("carries", {**eight, **carried})):
    write(path, tensors, fp8([16, 16]))
    json.dump(dict(config, quantization_config=fp8([16, 16])), open(path + "/config.json", "w"))
    code, out, error = run("transform", path, "-o", path + "-t", "-f", "--scale-norms")
    check("transform of " + path, code == 0 and ("are left out" in out) == (path == "carries"), out + error)
check("transform without scales", read_safetensors("carries-t/model.safetensors") == read_safetensors("of8-t/model.safetensors"))
write_safetensors("carries/model.safetensors", {**eight, "model.layers.0.self_attn.mystery": ("F32", [1], f32_bytes([1.0]))})
for more, want in (((), 3), (("--allow-unknown", "model.layers.0.self_attn.mystery"), 0)):
    code, out, error = run("transform", "carries", "-o", "carries-t", "-f", "--scale-norms", *more)
    check("transform beside what is unknown", code == want and (want == 0 or "self_attn.mystery" in error), error)


# What is not read, and says which tensor.
def refused(what, part, tensors, section, command="dequantize", path="m"):
    write("m", tensors, section)
    shutil.rmtree("none", ignore_errors=True)
    code, _, error = run(command, path, *(["-o", "none", "-q"] if command in ("dequantize", "quantize") else []))
    check(what, code == 3 and part in error and "\n" not in error and not os.path.exists("none"), "exit %d: %s" % (code, error))


# Whatever is asked for.
COMMANDS = (("dequantize", "m", "-o", "none", "-q"), ("quantize", "m", "-o", "none", "-q"), ("convert", "m", "-o", "none", "-q", "--layout", "modelopt"),
            ("convert", "m", "-o", "none", "-q", "--to", "mxfp8", "--allow-rounding"))


def refused_by_all(what, part, tensors, section, **config):
    write("m", tensors if isinstance(tensors, dict) else {}, section)
    if not isinstance(tensors, dict):
        open("m/model.safetensors", "wb").write(tensors)
    if config:
        json.dump(dict({"model_type": "llama", "quantization_config": section}, **config), open("m/config.json", "w"))
    shutil.rmtree("none", ignore_errors=True)
    for command in COMMANDS:
        code, out, error = run(*command)
        # No layout moves codes whose scales are numbers, whatever they are.
        told = part in error or ("--to" not in command and command[0] == "convert" and "nothing in it is quantized in a layout" in error)
        check("%s: %s" % (what, command[0]), code == 3 and told and "\n" not in error and not out, "exit %d: %s" % (code, error))
        check("%s: %s writes" % (what, command[0]), not os.path.exists("none") and not os.path.exists("none.partial"))


def header(shape, n=64, dtype="F8_E4M3"):
    text = json.dumps({W: {"dtype": dtype, "shape": shape, "data_offsets": [0, n]}}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(n)


def with_scales(dtype, shape, data, codes=("F8_E4M3", (200, 320), bytes(200 * 320)), name=W + "_scale_inv"):
    return {W: codes, name: (dtype, shape, data)}


ones = lambda n: f32_bytes([1.0] * n)
for command in ("dequantize", "quantize", "report"):
    refused("a grid that does not divide", "does not divide, nor is a block stated", with_scales("F32", (3, 7), ones(21)), None, command)
    refused("an ambiguous grid", "may be of blocks of several sizes", with_scales("F32", (2, 5), ones(10), ("F8_E4M3", (192, 320), bytes(192 * 320))), None, command)
    refused("a NaN", "element 4 is NaN", with_scales("F32", (2, 3), f32_bytes([1, 1, 1, 1, float("nan"), 1])), fp8([128, 128]), command)
    refused("an Inf", "element 0 is Inf", with_scales("F32", (2, 3), f32_bytes([float("inf")] + [1] * 5)), fp8([128, 128]), command)
refused("a file alone", "may be of blocks of several sizes", with_scales("F32", (2, 5), ones(10), ("F8_E4M3", (192, 320), bytes(192 * 320))), fp8([128, 128]), path="m/model.safetensors")
refused("more scales than rows", "does not", with_scales("F32", (201, 3), ones(603)), fp8([128, 128]))
refused("scales of rank 3", "does not fit", with_scales("F32", (2, 3, 1), ones(6)), fp8([128, 128]))
refused("scales of binary64", "does not fit", with_scales("F64", (), struct.pack("<d", 1)), fp8(None))
for block in ([128], [128, "x"], [128, 128, 1], [0, 128], [-1, 128]):
    refused("the block %r" % block, "weight_block_size", with_scales("F32", (2, 3), ones(6)), fp8(block))
for block in ("128", "128x128 or so", [128], {"a": 1}):
    refused("the structure %r" % block, "block_structure", with_scales("F32", (2, 3), ones(6), name=W + "_scale"), ct("block", block))
several = ct("block", [128, 128])
for k, block in enumerate(([120, 128], [128, 128])):
    several["config_groups"]["group_%d" % (k + 1)] = ct("block", block)["config_groups"]["group_0"]
refused("several blocks that fit", "fits several blocks", with_scales("F32", (2, 3), ones(6), name=W + "_scale"), several)
refused("no scale", "no tensor is in its layout", {W: ("F8_E4M3", (32, 32), bytes(1024))}, fp8(None))
refused("a configuration of another format", "config.json says mxfp4", with_scales("F32", (), ones(1), name=W + "_scale"), {"quant_method": "mxfp4"})
refused("two scales", "weight_scale", dict(with_scales("F32", (), ones(1)), **{W + "_scale": ("F32", (), ones(1))}), fp8(None))
refused("experts, rows as columns", "does not fit", {"e.gate_up_proj": ("F8_E4M3", (2, 32, 32), bytes(2048)), "e.gate_up_proj_scale": ("F32", (2, 32), ones(64))}, modelopt("fp8_pc_pt"))
refused("a scale for several matrices", "does not fit", {"e.gate_up_proj": ("F8_E4M3", (2, 32, 32), bytes(2048)), "e.gate_up_proj_scale": ("F32", (32, 1), ones(32))}, modelopt("fp8_pc_pt"))
refused("an unknown key", "mystery", with_scales("F32", (), ones(1)), fp8(None, mystery=1))
refused("another kind of scale", "scale_fmt", with_scales("F32", (), ones(1)), fp8(None, scale_fmt="int"))
# Quark: settings that together are nothing, and tensors that are not what they say.
for what, part, more in (("channels of columns", "qscheme", {"qscheme": "per_channel", "ch_axis": 1}), ("groups of numbers", "qscheme", {"qscheme": "per_group", "group_size": 32}),
                         ("E8M0 for a tensor", "scale_format", {"scale_format": "e8m0"}), ("FP4 for a tensor", "dtype", {"dtype": "fp4"}), ("blocks", "qscheme", {"qscheme": "per_block"}),
                         ("E5M2", "dtype", {"dtype": "fp8_e5m2"})):
    section = quark(["*up_proj"])
    section["layer_quant_config"]["*up_proj"]["weight"].update(more)
    refused("Quark, " + what, part, with_scales("F32", (), ones(1), name=W + "_scale"), section)
section = quark(["*up_proj"])
section["layer_quant_config"]["*up_proj"]["weight"] = [dict(section["layer_quant_config"]["*up_proj"]["weight"], dtype="int4"), section["layer_quant_config"]["*up_proj"]["weight"]]
refused("Quark, two steps", "dtype", with_scales("F32", (), ones(1), name=W + "_scale"), section)
section["layer_quant_config"]["*up_proj"]["weight"][0]["dtype"] = "fp8_e4m3"
refused("Quark, two steps of FP8", "several steps", with_scales("F32", (), ones(1), name=W + "_scale"), section)
refused("Quark of FP4 alone", "config.json says mxfp4", with_scales("F32", (), ones(1), name=W + "_scale"), quark([]))
refused("Quark, zero points", "zero points", dict(with_scales("F32", (), ones(1), name=W + "_scale"), **{W + "_zero_point": ("F32", (), ones(1))}), quark(["*"]))
# MXFP8 of Quark is compressed-tensors' blocks: OCP_MXFP8E4M3Spec.
section = quark(["*up_proj"])
section["layer_quant_config"]["*up_proj"]["weight"].update(qscheme="per_group", group_size=32, ch_axis=-1, scale_format="e8m0", symmetric=None)
codes = bytes(draw.choice(CODES) for _ in range(48 * 64))
write("m", {W: ("F8_E4M3", (48, 64), codes), W + "_scale": ("U8", (48, 2), bytes([126, 129] * 48))}, section)
code, _, error = run("dequantize", "m", "-o", "f32", "-f", "-q", "--to", "f32")
check("Quark, MXFP8", code == 0 and read_safetensors("f32/model.safetensors")[W][2] == f32_bytes([E4M3[c] * (0.5, 4.0)[i // 32 % 2] for i, c in enumerate(codes)]), error)
refused("FNUZ", "F8_E4M3FNUZ", {W: ("F8_E4M3FNUZ", (32, 32), bytes(1024)), W + "_scale": ("F32", (), ones(1))}, None)
# Shapes, grids, blocks and scales that are none.
eights, six = ("F8_E4M3", (64, 96), bytes(64 * 96)), lambda x=1.0: f32_bytes([x] * 6)
grid = lambda dtype="F32", shape=(2, 3), data=six(): {W: eights, W + "_scale_inv": (dtype, shape, data)}
mx4 = lambda scale=("U8", (64, 3), bytes([127] * 192)), codes=("U8", (64, 48), bytes(64 * 48)): {W + "_packed": codes, W + "_scale": scale}
nv4 = lambda x, dtype="F32": dict(mx4(("F8_E4M3", (64, 6), bytes([0x38] * 384))), **{W + "_global_scale": (dtype, (len(x),), f32_bytes(x) if dtype == "F32" else bf16_bytes(x))})
mo4 = lambda x: {W: ("U8", (64, 48), bytes(64 * 48)), W + "_scale": ("F8_E4M3", (64, 6), bytes([0x38] * 384)), W + "_scale_2": ("F32", (), f32_bytes([x]))}


def four(group, bits=4, form="mxfp4-pack-quantized", strategy="group"):
    section = ct(strategy)
    section["format"] = form
    section["config_groups"]["group_0"]["weights"].update(num_bits=bits, group_size=group)
    return section


nan, inf = float("nan"), float("inf")
nv = four(16, form="nvfp4-pack-quantized", strategy="tensor_group")
for what, part, tensors, section in (
        ("a shape of 2^64", "is too large", header([2**32, 2**32]), fp8([32, 32])), ("a dimension of 2^63", "too big integer", header([2**63, 2]), fp8([32, 32])),
        ("a dimension below 0", "not negative", header([-8, -8]), fp8([32, 32])), ("a text as a dimension", "a whole number", header(["8", 8]), fp8([32, 32])),
        ("a real dimension", "a whole number", header([8.0, 8]), fp8([32, 32])),
        ("a block of 2^64", "weight_block_size", grid(), fp8([2**64, 128])), ("blocks below 0", "weight_block_size", grid(), fp8([-32, -32])),
        ("texts as a block", "weight_block_size", grid(), fp8(["32", "32"])), ("a block of reals", "weight_block_size", grid(), fp8([32.0, 32.0])),
        ("a block that is an object", "weight_block_size", grid(), fp8({"n": 32})), ("a block of true", "weight_block_size", grid(), fp8([True, True])),
        ("an Inf below 0", "element 0 is Inf", grid(data=six(-inf)), fp8([32, 32])), ("an empty grid", "does not fit", grid(shape=(0, 3), data=b""), fp8([32, 32])),
        ("a grid of 5 x 7", "does not divide", grid(shape=(5, 7), data=f32_bytes([1.0] * 35)), fp8([32, 32])),
        ("scales of integers", "does not fit", grid("I32"), fp8([32, 32])), ("scales of truth", "scales BOOL", grid("BOOL", data=bytes(6)), fp8([32, 32])),
        ("scales of FP8", "scales F8_E4M3", grid("F8_E4M3", data=bytes(6)), fp8([32, 32])),
        ("exponents, 5 x 7", "F8_E8M0 [5, 7] does not divide", {W: eights, W[:-6] + "scale": ("F8_E8M0", (5, 7), bytes(35))}, fp8([32, 32], scale_fmt="ue8m0")),
        ("MXFP4, scales in a row", "scales U8 [192]", mx4(("U8", (192,), bytes(192))), four(32)), ("MXFP4, too few scales", "scales U8 [64, 2]", mx4(("U8", (64, 2), bytes(128))), four(32)),
        ("MXFP4, scales of numbers", "scales F32", mx4(("F32", (64, 3), f32_bytes([1.0] * 192))), four(32)), ("MXFP4, codes in a row", "U8 [3072]", mx4(codes=("U8", (3072,), bytes(3072))), four(32)),
        ("groups of 0", "group_size", mx4(), four(0)), ("groups below 0", "group_size", mx4(), four(-32)), ("groups of 2^63 - 1", "group_size", mx4(), four(2**63 - 1)),
        ("groups of a text", "config_groups.group_0.weights", mx4(), four("32")), ("no bits", "num_bits", mx4(), four(32, 0)), ("a text of bits", "config_groups.group_0.weights", mx4(), four(32, "4")),
        ("a tensor scale of NaN", "is nan, which is not a valid tensor scale", nv4([nan]), nv), ("a tensor scale of Inf", "is inf, which is not a valid tensor scale", nv4([inf]), nv),
        ("a tensor scale that divides by 0", "is 0, which is not a valid tensor scale", nv4([0.0]), nv), ("two tensor scales", "is not one F32 number", nv4([1.0, 1.0]), nv),
        ("a tensor scale of BF16", "is not one F32 number", nv4([1.0], "BF16"), nv), ("a factor of NaN", "is nan, which is not a valid tensor scale", mo4(nan), modelopt("NVFP4")),
        ("a factor of -Inf", "is -inf, which is not a valid tensor scale", mo4(-inf), modelopt("NVFP4")), ("groups of ModelOpt below 0", "group_size", mo4(1.0), dict(modelopt("NVFP4"), group_size=-16)),
        ("groups that are a list", "config_groups", mx4(), dict(four(32), config_groups=[1])), ("a number as a method", "quant_method", grid(), {"quant_method": 8}),
        ("a list as a section", "quant_method", grid(), [1, 2]), ("a number as an algorithm", "quant_algo", mo4(1.0), modelopt(8))):
    refused_by_all(what, part, tensors, section)
for what, part, section in (("bits below 0", "bits", {"group_size": 32, "bits": -4, "mode": "mxfp4"}), ("MLX's groups of 0", "group_size", {"group_size": 0, "bits": 4, "mode": "mxfp4"}),
                            ("a number as a mode", "mode", {"group_size": 32, "bits": 4, "mode": 4}), ("a list of MLX", "quantization", [1])):
    refused_by_all(what, part, {W: ("U32", (64, 12), bytes(64 * 48)), W[:-6] + "scales": ("U8", (64, 3), bytes([127] * 192))}, None, quantization=section, quantization_config=None)
# A factor of 0 is that of a tensor of zeros, as ModelOpt writes it.
write("m", mo4(0.0), modelopt("NVFP4"))
code, _, error = run("dequantize", "m", "-o", "f32", "-f", "-q", "--to", "f32")
check("a factor of 0", code == 0 and read_safetensors("f32/model.safetensors")[W][2] == bytes(64 * 96 * 4), error)
# Parameters that are called so are no scales.
tensors, section, numbers = make(CASES[3])
tensors.update({"layers.0.hc_attn_scale": ("F32", (3,), ones(3)), "layers.0.attn.q_norm.weight": ("F32", (4,), ones(4)), "layers.0.attn.q_norm.scale": ("F32", (4,), ones(4))})
write("m", tensors, section)
code, _, error = run("dequantize", "m", "-o", "f32", "-f", "-q")
check("parameters", code == 0 and {"layers.0.hc_attn_scale", "layers.0.attn.q_norm.scale"} < set(read_safetensors("f32/model.safetensors")), error)
finish()
