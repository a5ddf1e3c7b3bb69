# SPDX-License-Identifier: MIT
"""meaning.py MXFP WORK: small quantized models with the keys and tensors that other programs write beside numbers; what mxfp
reads of them, or that it refuses them by name. Numbers that are expected are worked out here from the formats' definitions."""
import copy, json, math, os, random, shutil, struct, subprocess, sys

from checked import WORK, check, finish, run
from safetensors_file import bf16_bytes, f32_bytes, read_safetensors, write_safetensors



def refused(what, part, *arguments):
    """One line that names `part`, and no output."""
    code, _, error = run(*arguments)
    check(what, code == 3 and part in error and error.count("\n") == 1, "exit %d: %s" % (code, error.strip()))
    check(what + ": an output", not os.path.exists(OUT) and not os.path.exists(OUT + ".partial"))
    remove(OUT)


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def e2m1(code):
    return (0.0, .5, 1, 1.5, 2, 3, 4, 6)[code & 7] * (-1 if code & 8 else 1)


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    return mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0**(exponent - 7)


ROWS, COLS = 32, 64
DOWN, NORM = "model.layers.0.mlp.down_proj", "model.norm.weight"
draw = random.Random(11)
CODES = [[draw.randrange(16) for _ in range(COLS)] for _ in range(ROWS)]
NIBBLES = ("U8", [ROWS, COLS // 2], bytes(r[i] | r[i + 1] << 4 for r in CODES for i in range(0, COLS, 2)))
MX = [[draw.randrange(120, 130) for _ in range(COLS // 32)] for _ in range(ROWS)]
NV = [[draw.randrange(0x30, 0x50) for _ in range(COLS // 16)] for _ in range(ROWS)]
MX_SCALES = ("U8", [ROWS, COLS // 32], bytes(s for r in MX for s in r))
NV_SCALES = ("F8_E4M3", [ROWS, COLS // 16], bytes(s for r in NV for s in r))
TENSOR_SCALE = 0.75
PLAIN = {NORM: ("F32", [4], f32_bytes([1, 2, 3, 4]))}


def numbers_mx():
    return [e2m1(CODES[r][c]) * 2.0**(MX[r][c // 32] - 127) for r in range(ROWS) for c in range(COLS)]


def numbers_nv(scale=TENSOR_SCALE):
    return [f32(e2m1(CODES[r][c]) * e4m3(NV[r][c // 16]) * scale) for r in range(ROWS) for c in range(COLS)]


def read_metadata(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))["__metadata__"]


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


def read_json(path):
    with open(path) as file:
        return json.load(file)


MODEL, OUT = WORK + "/model", WORK + "/out"


def make(tensors, config, second=None, metadata=None):
    remove(MODEL)
    os.mkdir(MODEL)
    write_safetensors(MODEL + "/model.safetensors", dict(PLAIN, **tensors), metadata)
    if config is not None:
        write_json(MODEL + "/config.json", config)
    if second is not None:
        write_json(MODEL + "/hf_quant_config.json", second)


def decoded(path=None):
    """The numbers of DOWN that dequantize finds, or what it says."""
    back = WORK + "/decoded"
    code, _, error = run("dequantize", path or MODEL, "-o", back, "-q", "--force")
    if code != 0:
        return error.strip()
    tensors = read_safetensors(back + "/model.safetensors")
    return list(struct.unpack("<%df" % (ROWS * COLS), tensors[DOWN + ".weight"][2]))


CT = {DOWN + ".weight_packed": NIBBLES, DOWN + ".weight_scale": MX_SCALES}
CT_NV = {DOWN + ".weight_packed": NIBBLES, DOWN + ".weight_scale": NV_SCALES,
         DOWN + ".weight_global_scale": ("F32", [1], f32_bytes([1 / TENSOR_SCALE]))}
MODELOPT = {DOWN + ".weight": NIBBLES, DOWN + ".weight_scale": NV_SCALES,
            DOWN + ".weight_scale_2": ("F32", [], f32_bytes([TENSOR_SCALE])),
            DOWN + ".input_scale": ("F32", [], f32_bytes([0.5]))}
QUARK = {DOWN + ".weight": NIBBLES, DOWN + ".weight_scale": MX_SCALES}
# The names that Quark's modules have: CHECKPOINT_KEYS of quantizer_quark.py in transformers.
QUARK_MODULES = {DOWN + ".weight": NIBBLES, DOWN + ".weight_quantizer.scale": MX_SCALES,
                 DOWN + ".output_quantizer.scale": ("F32", [], f32_bytes([0.5]))}

# ---- as the programs write them
CT_ARGUMENTS = {"num_bits": 4, "type": "float", "symmetric": True, "group_size": 32, "strategy": "group", "block_structure": None,
                "dynamic": False, "actorder": "static", "scale_dtype": "torch.uint8", "zp_dtype": None, "observer": "minmax",
                "observer_kwargs": {}}
CT_CONFIG = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "quantization_status": "compressed",
             "global_compression_ratio": None, "ignore": ["lm_head", "re:.*gate$"], "version": "0.20.0", "sparsity_config": {},
             "transform_config": {}, "kv_cache_scheme": None, "moe_sparsity_config": None, "provider": "auto-round",
             "attention_input_activations": {"targets": ["LlamaAttention"], "input_activations": {"num_bits": 8, "type": "float"}},
             "config_groups": {"group_0": {"targets": ["Linear"], "format": "mxfp4-pack-quantized", "weights": CT_ARGUMENTS,
                                           "input_activations": dict(CT_ARGUMENTS, dynamic=True, actorder=None),
                                           "output_activations": None}}}
CT_NV_CONFIG = copy.deepcopy(CT_CONFIG)
CT_NV_CONFIG["format"] = CT_NV_CONFIG["config_groups"]["group_0"]["format"] = "nvfp4-pack-quantized"
CT_NV_CONFIG["config_groups"]["group_0"]["weights"].update(group_size=16, strategy="tensor_group",
                                                           scale_dtype="torch.float8_e4m3fn")
PRODUCER = {"name": "modelopt", "version": "0.47.0"}
MO_GROUP = {"input_activations": {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16},
            "weights": {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}, "targets": ["Linear"]}
MO_CONFIG = {"config_groups": {"group_0": MO_GROUP}, "ignore": ["lm_head"], "quant_algo": "NVFP4", "producer": PRODUCER,
             "quant_method": "modelopt", "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}
MO_SECOND = {"producer": PRODUCER, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
                                                    "exclude_modules": ["lm_head"]}}
QUARK_TENSOR = {"dtype": "fp4", "is_dynamic": False, "qscheme": "per_group", "ch_axis": -1, "group_size": 32, "block_size": None,
                "symmetric": None, "round_method": "half_even", "scale_type": "float", "zero_point_type": None,
                "scale_format": "e8m0", "scale_calculation_mode": "even", "mx_element_dtype": None,
                "observer_cls": "PerBlockMXObserver", "is_scale_quant": False, "enable_buffer_reuse": False,
                "max_input_numel": None}
QUARK_LAYER = {"input_tensors": dict(QUARK_TENSOR, is_dynamic=True), "output_tensors": None, "weight": QUARK_TENSOR, "bias": None,
               "target_device": None}
QUARK_CONFIG = {"global_quant_config": QUARK_LAYER, "exclude": ["lm_head"], "softmax_quant_spec": None, "quant_method": "quark",
                "algo_config": [{"name": "rotation", "scaling_layers": {}, "r1": True, "r2": True, "r3": False, "r4": False,
                                 "online_r1_rotation": False, "online_config": None, "backbone": "model"},
                                {"name": "gptq", "damp_percent": 0.01}],
                "layer_type_quant_config": {}, "layer_quant_config": {}, "kv_cache_quant_config": {}, "kv_cache_post_rope": False,
                "quant_mode": "eager_mode", "version": "0.13",
                "export": {"kv_cache_group": [], "min_kv_scale": 0.0, "pack_method": "reorder", "weight_format": "real_quantized",
                           "weight_merge_groups": None}}
ROUND_CONFIG = {"bits": 4, "act_bits": 4, "data_type": "mx_fp", "act_data_type": "mx_fp_rceil", "group_size": 32,
                "act_group_size": 32, "sym": True, "act_sym": True, "act_dynamic": True, "enable_quanted_input": False,
                "block_name_to_quantize": "model.layers", "quant_method": "auto-round", "iters": 0, "autoround_version": "0.16.1",
                "packing_format": "auto_round:llm_compressor", "extra_config": {"lm_head": {"bits": 16, "data_type": "fp"}}}
SOURCES = {"compressed-tensors": (CT, CT_CONFIG, None, numbers_mx), "compressed-tensors, NVFP4": (CT_NV, CT_NV_CONFIG, None,
                                                                                                   numbers_nv),
           "modelopt": (MODELOPT, MO_CONFIG, MO_SECOND, numbers_nv), "quark": (QUARK, QUARK_CONFIG, None, numbers_mx),
           "quark, names of its modules": (QUARK_MODULES, QUARK_CONFIG, None, numbers_mx),
           "auto-round": (CT, ROUND_CONFIG, None, numbers_mx)}


def tensor_scale_of(name):
    return f32(1 / f32(1 / TENSOR_SCALE)) if name.endswith("NVFP4") else TENSOR_SCALE


for name, (tensors, section, second, numbers) in SOURCES.items():
    make(tensors, {"model_type": "llama", "quantization_config": section}, second)
    got = decoded()
    want = numbers() if numbers is numbers_mx else [f32(x / TENSOR_SCALE / f32(1 / TENSOR_SCALE)) if name.endswith("NVFP4") else x
                                                    for x in numbers()]
    check(name + " as it is written", isinstance(got, list) and
          all(abs(a - b) <= 1e-7 * abs(b) for a, b in zip(got, want)), got if isinstance(got, str) else "other numbers")
    code, out, error = run("lint", MODEL)
    check(name + ": lint", "[meaning]" not in out, out + error)


# ---- Quark's names of modules are the usual ones: in a file alone, of FP8, and what is refused
make(QUARK_MODULES, None)
check("a file with names of Quark's modules", decoded(MODEL + "/model.safetensors") == numbers_mx(), decoded(MODEL + "/model.safetensors"))
code, out, error = run("quantize", MODEL, "-o", OUT, "-w", "mxfp8-e4m3", "-q")
check("quantized from Quark's modules", code == 0, error)
remove(OUT)
FP8 = bytes(draw.randrange(0x78) for _ in range(ROWS * COLS))
make({DOWN + ".weight": ("F8_E4M3", [ROWS, COLS], FP8), DOWN + ".weight_quantizer.scale": ("F32", [], f32_bytes([0.25]))}, None)
check("FP8 with names of Quark's modules", decoded() == [e4m3(c) * 0.25 for c in FP8], decoded())
make(dict(QUARK_MODULES, **{DOWN + ".weight_quantizer.zero_point": ("U8", [ROWS, COLS // 32], bytes(ROWS * COLS // 32))}), None)
refused("a zero point of Quark's modules", "weight_zero_point", "dequantize", MODEL, "-o", OUT)
# Of plain numbers it is what other programs have learned, and no scale of codes.
make({DOWN + ".weight": ("F32", [1, 32], f32_bytes([1] * 32)), DOWN + ".weight_quantizer.scale": ("F32", [1], f32_bytes([2]))}, None)
code, out, error = run("inspect", MODEL)
check("no alias of plain numbers", code == 0 and ".weight_quantizer.scale" in out, out + error)


# ---- modules that the configuration leaves out, and that are still FP8 in squares of the source
OUT_PROJ = "model.layers.0.self_attn.o_proj"
SIDE, CORNERS = 256, (0.5, 0.25, 1.0, 2.0)
SQUARES = bytes(draw.randrange(0x78) for _ in range(SIDE * SIDE))
FP8_SQUARES = {OUT_PROJ + ".weight": ("F8_E4M3", [SIDE, SIDE], SQUARES),
               OUT_PROJ + ".weight_scale_inv": ("F32", [2, 2], f32_bytes(CORNERS))}
OF_SQUARES = f32_bytes([e4m3(SQUARES[r * SIDE + c]) * CORNERS[r // 128 * 2 + c // 128] for r in range(SIDE) for c in range(SIDE)])


def leaving_out(section, names):
    """The section, with another list of modules that are not quantized, and the size of the squares."""
    section = dict(copy.deepcopy(section), weight_block_size=[128, 128])
    section["exclude" if "exclude" in section else "ignore"] = names
    return section


for name, tensors, section in (("quark", QUARK, QUARK_CONFIG), ("compressed-tensors", CT, CT_CONFIG), ("modelopt", MODELOPT, MO_CONFIG)):
    for names in (["lm_head", OUT_PROJ], ["re:.*o_proj" if name == "compressed-tensors" else "*o_proj"]):
        what = "FP8 of a module that %s leaves out as %s" % (name, names[-1])
        make(dict(tensors, **FP8_SQUARES), {"model_type": "llama", "quantization_config": leaving_out(section, names)})
        wanted = decoded()
        check(what + ": the others", isinstance(wanted, list), wanted)
        check(what, read_safetensors(WORK + "/decoded/model.safetensors")[OUT_PROJ + ".weight"][2] == OF_SQUARES, "other numbers")
        code, _, error = run("convert", MODEL, "-o", OUT, "-l", name, "--decode-rest", "f32", "-q")
        check(what + ": convert", code == 0 and decoded(OUT) == wanted and
              read_safetensors(OUT + "/model.safetensors")[OUT_PROJ + ".weight"][2] == OF_SQUARES, error)
        remove(OUT)
        code, _, error = run("quantize", MODEL, "-o", OUT, "-w", "mxfp8-e4m3", "-q")
        check(what + ": quantize", code == 0, error)
        remove(OUT)
        code, out, _ = run("lint", MODEL)
        check(what + ": lint", "quantized otherwise" not in out and "[meaning]" not in out, out)
    make(dict(tensors, **FP8_SQUARES), {"model_type": "llama", "quantization_config": leaving_out(section, ["lm_head"])})
    refused("FP8 of a module that %s does not leave out" % name, "with scales, and config.json says", "dequantize", MODEL, "-o", OUT)


# ---- one key more, or another value: refused by its name
def put(section, path, value):
    section = copy.deepcopy(section)
    at = section
    *parents, last = path
    for part in parents:
        at = at[part] if isinstance(part, int) else at.setdefault(part, {})
    at[last] = value
    return section


W = ("config_groups", "group_0", "weights")
TRANSFORM = {"config_groups": {"u": {"type": "hadamard", "apply": [{"targets": ["Linear"], "location": "input"}]}}}
KEYS = {
    "compressed-tensors": [
        (("rotation",), True), (("config_groups", "group_0", "permutation"), [1]), (W + ("offset",), 1), (W + ("symmetric",), False),
        (W + ("strategy",), "channel"), (W + ("type",), "int"), (W + ("num_bits",), 3), (W + ("group_size",), 64),
        (W + ("actorder",), "group"), (W + ("dynamic",), True), (W + ("block_structure",), [128, 128]),
        (W + ("scale_dtype",), "torch.float16"), (("format",), "marlin-24"), (("config_groups", "group_0", "format"), "int-quantized"),
        (("quantization_status",), "calibration"), (("sparsity_config", "format"), "sparse-24-bitmask"),
        (("sparsity_config", "mask"), "x"), (("transform_config",), TRANSFORM), (("moe_sparsity_config",), {"method": "novice"}),
        (("config_groups", "group_0", "input_activations", "shift"), 1), (("kv_cache_scheme",), {"shift": 1}),
        (("fp8_dtype_flavor",), "float8_e4m3fnuz"), (("quant_method",), "modelslim"), (("quant_method",), "gptq"),
        (("config_groups", "NVFP4"), ["Linear"])],
    "modelopt": [
        (("quant_algo",), "NVFP4_SVD"), (("quant_algo",), "FP8"), (("lora_rank",), 32), (("has_zero_point",), True),
        (("config_groups", "group_0", "lora_rank"), 8), (W + ("type",), "int"), (W + ("zero",), 0), (("awq_clip",), 1),
        (("quantized_layers",), {"a.b": {"quant_algo": "W4A16_AWQ"}}), (("quantized_layers",), {"a.b": {"shift": 1}}),
        (("group_size",), 128)],
    "quark": [
        (("global_quant_config", "weight", "dtype"), "fp8_e4m3"), (("global_quant_config", "weight", "qscheme"), "per_channel"),
        (("global_quant_config", "weight", "symmetric"), False), (("global_quant_config", "weight", "zero"), 1),
        (("global_quant_config", "input_tensors", "zero"), 1), (("global_quant_config", "bias"), QUARK_TENSOR), (("layer_quant_config",), {"*": dict(QUARK_LAYER, skew=1)}),
        (("algo_config", 0, "r4"), True), (("algo_config", 0, "online_r1_rotation"), True),
        (("algo_config", 0, "name"), "svdquant"), (("export", "weight_format"), "fake_quantized"), (("export", "swizzle"), True)],
    "auto-round": [
        (("rotation_config",), {"block_size": 32, "hadamard_type": "hadamard"}), (("sym",), False), (("data_type",), "int"),
        (("super_bits",), 6), (("packing_format",), "auto_round:auto_gptq"), (("bias_correction",), True),
        (("extra_config", "lm_head", "zero"), 1)],
}
for name, cases in KEYS.items():
    tensors, section, second, _ = SOURCES[name]
    for path, value in cases:
        make(tensors, {"model_type": "llama", "quantization_config": put(section, path, value)}, second)
        last = path[-1] if not isinstance(value, dict) or path[-1] in ("transform_config", "rotation_config", "bias") else None
        part = last or {"shift": "shift", "quant_algo": "quant_algo", "method": "method"}.get(
            next(iter(next(iter(value.values())) if isinstance(next(iter(value.values())), dict) else value)), "skew")
        part = "weights" if path[-1] in ("type", "num_bits") else part
        refused("%s: %s" % (name, ".".join(map(str, path))), "'" if part is None else part, "dequantize", MODEL, "-o", OUT, "-q")
        if path[-1] in ("rotation", "type", "r4", "lora_rank"):
            refused("%s: %s, the file alone" % (name, path[-1]), part, "dequantize", MODEL + "/model.safetensors", "-o", OUT, "-q")
            code, out, error = run("lint", MODEL)
            check("lint of %s: %s" % (name, path[-1]), code == 1 and part in out and "[meaning]" in out, out + error)
            code, out, error = run("inspect", MODEL)
            check("inspect of %s: %s" % (name, path[-1]), code == 0 and "refused: '" in out and part in out, out + error)

# hf_quant_config.json, the section of a part of the model, an older name of the section, no name of a method.
for what, config, second in [
        ("hf_quant_config.json", {"quantization_config": MO_CONFIG}, put(MO_SECOND, ("quantization", "smoothing"), 1)),
        ("hf_quant_config.json, above", {"quantization_config": MO_CONFIG}, put(MO_SECOND, ("smoothing",), 1)),
        ("hf_quant_config.json alone", {}, put(MO_SECOND, ("quantization", "smoothing"), 1)),
        ("text_config", {"text_config": {"quantization_config": put(MO_CONFIG, ("smoothing",), 1)}}, None),
        ("quantization", {"quantization": {"bits": 4, "group_size": 32, "mode": "mxfp4", "smoothing": 1}}, None)]:
    make(MODELOPT, config, second)
    refused(what, "smoothing" if what != "quantization" else "MLX", "dequantize", MODEL, "-o", OUT, "-q")
make(MODELOPT, {"quantization_config": dict(MO_SECOND, quant_method="modelopt")})
check("hf_quant_config.json within config.json", decoded() == numbers_nv())
for path in (("smoothing",), ("quantization", "smoothing")):
    make(MODELOPT, {"quantization_config": put(dict(MO_SECOND, quant_method="modelopt"), path, 1)})
    refused("hf_quant_config.json within config.json: " + path[0], "smoothing", "dequantize", MODEL, "-o", OUT, "-q")
make(CT, {"compression_config": put(CT_CONFIG, ("smoothing",), 1)})
refused("compression_config", "smoothing", "dequantize", MODEL, "-o", OUT, "-q")
make(CT, {"quantization_config": {"style": 1}})
refused("a section of nobody", "quant_method", "dequantize", MODEL, "-o", OUT, "-q")

# What the section states and what the tensors are.
make(CT_NV, {"quantization_config": CT_CONFIG})
refused("config.json of another format", "config.json says mxfp4", "dequantize", MODEL, "-o", OUT, "-q")
make(QUARK, {"quantization_config": MO_CONFIG})
refused("config.json of another program's format", "config.json says nvfp4", "dequantize", MODEL, "-o", OUT, "-q")

# Every command that reads numbers asks.
make(CT, {"model_type": "llama", "quantization_config": put(CT_CONFIG, ("rotation",), True)})
write_safetensors(WORK + "/plain.safetensors", {DOWN + ".weight": ("F32", [ROWS, COLS], f32_bytes(numbers_mx()))})
write_json(WORK + "/tokens.json", [1, 2, 3])
for command in [("quantize", MODEL, "-o", OUT), ("convert", MODEL, "-o", OUT), ("report", WORK + "/plain.safetensors", "--against", MODEL),
                ("detect-rule", MODEL, "--ref", WORK + "/plain.safetensors"), ("diff", MODEL, WORK + "/plain.safetensors"),
                ("gemm", MODEL + ":" + DOWN + ".weight", WORK + "/plain.safetensors:" + DOWN + ".weight", "-o", OUT + ".npy"),
                ("eval", MODEL, "--tokens", WORK + "/tokens.json"), ("advise", MODEL), ("report", MODEL),
                ("calibrate", MODEL, "-o", OUT, "--tokens", WORK + "/tokens.json"),
                ("transform", MODEL, "-o", OUT, "--fold-norms")]:
    refused(command[0], "'rotation' is not known", *command)

# --allow-unknown is for what is not known, by its name or its path, and not for what is known and not done.
for key in ("rotation", "config_groups.group_0.permutation"):
    make(CT, {"quantization_config": put(CT_CONFIG, tuple(key.split(".")), True)})
    for word in {key, key.split(".")[-1]}:
        code, _, error = run("dequantize", MODEL, "-o", OUT, "-q", "--allow-unknown", word)
        check("--allow-unknown " + word, code == 0, error)
        remove(OUT)
make(CT, {"quantization_config": put(CT_CONFIG, ("transform_config",), TRANSFORM)})
refused("--allow-unknown of what is known", "transform_config", "dequantize", MODEL, "-o", OUT, "--allow-unknown", "transform_config")

# ---- tensors beside quantized ones
BESIDE = [".weight_zero_point", ".weight_g_idx", ".svdquant_lora_a", ".proj_up", ".smooth", ".input_rotation", ".input_prescale",
          ".hadamard_matrix", ".comfy_quant", ".weight_chan_scale", ".bias_scale", ".scale_b", ".weight_scale_inv", ".mystery",
          ".lora_A.weight", ".lora_A.default.weight", ".parametrizations.weight.original0", ".weight.scale", ".weight.mystery"]
for layout, tensors, section in (("compressed-tensors", CT, CT_CONFIG), ("quark", QUARK, QUARK_CONFIG)):
    for ending in BESIDE:
        make(dict(tensors, **{DOWN + ending: ("F32", [COLS], f32_bytes([2] * COLS))}), {"quantization_config": section})
        for path in (MODEL, MODEL + "/model.safetensors"):
            refused("%s: %s" % (layout, ending), ending.split(".")[1], "dequantize", path, "-o", OUT, "-q")
        refused("%s: %s, diff" % (layout, ending), ending.split(".")[1], "diff", MODEL, MODEL)
for name in (".weight_global_scale", ".weight_scale_2", ".scale"):
    make(dict(CT, **{DOWN + name: ("F32", [1], f32_bytes([2]))}), {"quantization_config": CT_CONFIG})
    refused("a tensor scale of MXFP4", name[1:], "dequantize", MODEL, "-o", OUT, "-q")
make(dict(CT, **{DOWN + ".mystery": ("F32", [1], f32_bytes([2]))}), {"quantization_config": CT_CONFIG})
code, _, error = run("dequantize", MODEL, "-o", OUT, "-q", "--allow-unknown", "mystery")
check("--allow-unknown mystery", code == 0, error)
remove(OUT)
experts = "model.layers.0.mlp.experts.gate_up_proj"
make({experts + "_blocks": ("U8", [2, 4, 1, 16], bytes(128)), experts + "_scales": ("U8", [2, 4, 1], bytes([127] * 8)),
      experts + "_bias": ("BF16", [2, 4], bytes(16)), experts + "_shift": ("BF16", [2, 4], bytes(16))},
     {"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": []}})
refused("beside blocks of gpt-oss", "shift", "dequantize", MODEL, "-o", OUT, "-q")
# Experts whose scales have names of their own, and codes without any.
for name in ("_weight_scale", "_weight_scale_2", "_zero"):
    make(dict(QUARK, **{experts: ("U8", [2, 4, 16], bytes(128)), experts + name: ("U8", [2, 4, 1], bytes(8))}),
         {"quantization_config": QUARK_CONFIG})
    refused("experts with " + name, "scales U8 [2, 4, 1]" if name == "_weight_scale" else name[1:], "dequantize", MODEL, "-o", OUT, "-q")
make(dict(QUARK, **{experts: ("U8", [2, 4, 16], bytes(128))}), {"quantization_config": QUARK_CONFIG})
refused("experts without scales", "no scales", "dequantize", MODEL, "-o", OUT, "-q")
# FP8 of ComfyUI in part of a model whose other weights are plain: never quantized in part.
for scale in (".scale_weight",):
    make({DOWN + ".weight": ("F8_E4M3", [ROWS, COLS], bytes(ROWS * COLS)), DOWN + scale: ("F32", [], f32_bytes([1])),
          "other.weight": ("BF16", [ROWS, COLS], bytes(2 * ROWS * COLS))}, None)
    refused("FP8 with %s" % scale, "which mxfp does not read", "quantize", MODEL + "/model.safetensors", "-o", OUT, "-q")
# What is about activations and caches is not in the way, nor is what stands in a module without a quantized weight.
make(dict(CT, **{DOWN + ".input_global_scale": ("F32", [1], f32_bytes([2])), "model.layers.0.self_attn.k_scale": ("F32", [1], f32_bytes([2])),
                 "model.layers.0.self_attn.mystery": ("F32", [1], f32_bytes([2])), DOWN + ".bias": ("F32", [ROWS], bytes(4 * ROWS))}),
     {"quantization_config": CT_CONFIG})
check("what is about activations", decoded() == numbers_mx())

# Parts that are missing: scales, codes, in a layout whose codes have the name of an unquantized weight and in another.
for what, tensors, section in (("compressed-tensors", CT, CT_CONFIG), ("quark", QUARK, QUARK_CONFIG), ("modelopt", MODELOPT, MO_CONFIG)):
    for name in tensors:
        if name.endswith("input_scale"):
            continue
        make({k: v for k, v in tensors.items() if k != name}, {"quantization_config": section})
        refused("%s without %s" % (what, name), DOWN, "dequantize", MODEL, "-o", OUT, "-q")
        refused("%s without %s, the file alone" % (what, name), DOWN, "dequantize", MODEL + "/model.safetensors", "-o", OUT, "-q")
        renamed = {k + "x" if k == name else k: v for k, v in tensors.items()}
        make(renamed, {"quantization_config": section})
        refused("%s with %sx" % (what, name), DOWN, "dequantize", MODEL, "-o", OUT, "-q")

# Files for ComfyUI: by a tensor, or by metadata, which ModelOpt writes where it puts scales into another order.
for metadata in ({"_quantization_metadata": "{}"}, {"quantization_config": "{}"}):
    make(MODELOPT, None, None, metadata)
    refused("metadata %s" % next(iter(metadata)), "ComfyUI", "dequantize", MODEL, "-o", OUT, "-q")
# ---- pre_quant_scale: W (s * x) is W with its columns times s
S = [1 + (k % 7) / 8 for k in range(COLS)]
AWQ = put(put(MO_CONFIG, ("quant_algo",), "NVFP4_AWQ"), ("config_groups",), {})
AWQ_SECOND = put(MO_SECOND, ("quantization",), {"quant_algo": "NVFP4_AWQ", "kv_cache_quant_algo": None, "group_size": 16,
                                                "has_zero_point": False, "pre_quant_scale": True, "exclude_modules": []})
FOLDED = [f32(x * S[i % COLS]) for i, x in enumerate(numbers_nv())]
for dtype, shape, content in (("BF16", [COLS], bf16_bytes(S)), ("F32", [COLS], f32_bytes(S)), ("F32", [1, COLS], f32_bytes(S)),
                              ("F16", [COLS], struct.pack("<%de" % COLS, *S))):
    make(dict(MODELOPT, **{DOWN + ".pre_quant_scale": (dtype, shape, content)}), {"quantization_config": AWQ}, AWQ_SECOND)
    check("pre_quant_scale %s %r" % (dtype, shape), decoded() == FOLDED)
# What quantizes it again rounds the folded numbers.
write_safetensors(WORK + "/folded.safetensors", {DOWN + ".weight": ("F32", [ROWS, COLS], f32_bytes(FOLDED))})
again = []
for source, out in ((MODEL, WORK + "/of_awq"), (WORK + "/folded.safetensors", WORK + "/of_folded")):
    code, _, error = run("quantize", source, "-o", out, "-f", "-q", "-w", "mxfp8", "--layout", "modelopt")
    check("pre_quant_scale: quantize " + source, code == 0, error)
    again.append(read_safetensors(out + "/model.safetensors") if code == 0 else {})
check("pre_quant_scale: quantized once more", all(again[0].get(n) == t for n, t in again[1].items()) and
      not any("pre_quant_scale" in n for n in again[0]))
code, out, error = run("dequantize", MODEL, "-o", OUT, "--to", "bf16")
tensors = read_safetensors(OUT + "/model.safetensors")
check("pre_quant_scale to bf16", code == 0 and tensors[DOWN + ".weight"][2] == bf16_bytes(FOLDED))
check("pre_quant_scale stays behind", DOWN + ".pre_quant_scale" not in tensors and "1 of them were multiplied" in out, out)
remove(OUT)
for command in (("eval", MODEL, "--tokens", WORK + "/tokens.json"), ("detect-rule", MODEL, "--ref", WORK + "/plain.safetensors"),
                ("diff", MODEL, MODEL), ("convert", MODEL, "-o", OUT, "--allow-rounding")):
    refused("pre_quant_scale: " + command[0], "pre_quant_scale", *command)
code, _, error = run("convert", MODEL, "-o", OUT, "--decode-rest", "f32", "-q")
check("pre_quant_scale: convert --decode-rest", code == 0 and
      read_safetensors(OUT + "/model.safetensors")[DOWN + ".weight"][2] == f32_bytes(FOLDED), error)
remove(OUT)
code, _, error = run("convert", MODEL, "-o", OUT, "-l", "modelopt", "-q")
check("pre_quant_scale: convert within ModelOpt's layout", code == 0 and decoded(OUT) == FOLDED, error)
check("quant_algo of it", read_json(OUT + "/config.json")["quantization_config"]["quant_algo"] == "NVFP4_AWQ" and
      read_json(OUT + "/hf_quant_config.json")["quantization"]["pre_quant_scale"] is True)
remove(OUT)
code, out, _ = run("lint", MODEL)
check("lint of pre_quant_scale", "[pre-quant-scale]" in out, out)
code, out, _ = run("inspect", MODEL, "--json")
check("inspect of pre_quant_scale", sorted((f["becomes"], f["key"]) for f in json.loads(out)["meaning"]) ==
      [("carried", "input_scale"), ("folded", "pre_quant_scale")], out)
for shape, n in (([COLS - 1], COLS - 1), ([], 1)):
    make(dict(MODELOPT, **{DOWN + ".pre_quant_scale": ("F32", shape, f32_bytes([1] * n))}), {"quantization_config": AWQ}, AWQ_SECOND)
    code, _, error = run("dequantize", MODEL, "-o", OUT, "-q")
    check("pre_quant_scale of another length", code == 3 and "pre_quant_scale" in error and not os.path.exists(OUT), error)
    remove(OUT + ".partial")
make(dict(CT, **{DOWN + ".pre_quant_scale": ("F32", [COLS], f32_bytes(S))}), {"quantization_config": CT_CONFIG})
refused("pre_quant_scale in another layout", "pre_quant_scale", "dequantize", MODEL, "-o", OUT, "-q")
make({"a.weight": ("BF16", [2, COLS], bytes(4 * COLS)), "a.pre_quant_scale": ("F32", [COLS], f32_bytes(S))}, {})
refused("pre_quant_scale of a plain weight", "pre_quant_scale", "quantize", MODEL, "-o", OUT, "-q")

# ---- the cache of keys and values
FP8_CACHE = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": False, "observer": "minmax"}
QUARK_FP8 = {"output_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False}}
SCALES = {"model.layers.0.self_attn.%s_scale" % x: ("F32", [1], f32_bytes([.5])) for x in "kv"}
mo_mx = dict(put(MO_CONFIG, ("quant_algo",), "MXFP4"), config_groups={})
for what, tensors, section, second, lost in [
        ("compressed-tensors, FP8", CT, put(CT_CONFIG, ("kv_cache_scheme",), FP8_CACHE), None, ("quark",)),
        ("compressed-tensors, FP8 by heads", CT, put(CT_CONFIG, ("kv_cache_scheme",), dict(FP8_CACHE, strategy="attn_head")), None,
         ("quark", "modelopt")),
        ("modelopt, FP8", QUARK, mo_mx, None, ("quark",)),
        ("modelopt, in the second file alone", QUARK, dict(mo_mx, kv_cache_scheme=None),
         {"producer": PRODUCER, "quantization": {"quant_algo": "MXFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": []}}, ("quark",)),
        ("modelopt, INT8", QUARK, dict(mo_mx, kv_cache_scheme="INT8"), None, ("quark", "compressed-tensors")),
        ("quark, FP8 with its own names", dict(QUARK, **{"model.layers.0.self_attn.k_proj.output_scale": ("F32", [1], f32_bytes([.5]))}),
         put(QUARK_CONFIG, ("kv_cache_quant_config",), {"*k_proj": QUARK_FP8, "*v_proj": QUARK_FP8}), None, ("modelopt",)),
        ("quark, FP8", QUARK, put(QUARK_CONFIG, ("kv_cache_quant_config",), {"*k_proj": QUARK_FP8, "*v_proj": QUARK_FP8}), None, ())]:
    for layout in ("compressed-tensors", "modelopt", "quark"):
        make(dict(tensors, **SCALES), {"quantization_config": section}, second)
        code, out, error = run("convert", MODEL, "-o", OUT, "-l", layout)
        check("convert of %s to %s" % (what, layout), code == 0, error)
        if code != 0:
            continue
        section_of = read_json(OUT + "/config.json")["quantization_config"]
        if what.startswith(layout):
            kept = section_of.get("kv_cache_scheme") or section_of.get("kv_cache_quant_config")
        elif layout == "modelopt":
            kept = read_json(OUT + "/hf_quant_config.json")["quantization"]["kv_cache_quant_algo"] == "FP8" and \
                section_of.get("kv_cache_scheme") == {"dynamic": False, "num_bits": 8, "type": "float"}
        else:
            scheme = section_of.get("kv_cache_scheme") or {}
            kept = scheme.get("num_bits") == 8 and scheme.get("type") == "float" and scheme.get("strategy") in ("tensor", "attn_head")
        said = "kv_cache_scheme" in out
        check("%s in %s is kept, or lost with a word" % (what, layout), bool(kept) != said and said == (layout in lost and
              not what.startswith(layout)), "%r %s" % (section_of, out))
        check("scales of %s in %s" % (what, layout), set(SCALES) <= set(read_safetensors(OUT + "/model.safetensors")))
        remove(OUT)
make(dict(CT, **SCALES), {"quantization_config": put(CT_CONFIG, ("kv_cache_scheme",), FP8_CACHE)})
code, out, _ = run("convert", MODEL, "-o", OUT + ".safetensors", "--layout", "quark")
check("convert to a file says that the scheme is lost", code == 0 and "kv_cache_scheme" in out and "a file alone" in out, out)
remove(OUT + ".safetensors")
code, out, _ = run("dequantize", MODEL, "-o", OUT)
check("dequantize says that the scheme is lost", code == 0 and "kv_cache_scheme" in out, out)
remove(OUT)
code, out, error = run("dequantize", MODEL, "-o", OUT, "-q")
check("--quiet does not hide it", code == 0 and out == "" and error.startswith("mxfp: kv_cache_scheme") and error.count("\n") <= 1, error)
remove(OUT)
# How activations are quantized is kept, or lost with a word.
fp8_groups = put(CT_CONFIG, ("config_groups", "group_0", "input_activations"), dict(CT_ARGUMENTS, num_bits=8, group_size=128, dynamic=True))
for what, section, layout, lost in (("MXFP4", CT_CONFIG, "quark", False), ("MXFP4", CT_CONFIG, "modelopt", True), ("FP8", fp8_groups, "quark", True),
                                    ("none", put(CT_CONFIG, ("config_groups", "group_0", "input_activations"), None), "modelopt", False)):
    make(CT, {"quantization_config": section})
    code, out, error = run("convert", MODEL, "-o", OUT, "-l", layout)
    check("activations in %s, to %s" % (what, layout), code == 0 and ("how activations are quantized was left out" in out) == lost, out + error)
    if layout == "quark":
        inputs = read_json(OUT + "/config.json")["quantization_config"]["global_quant_config"]["input_tensors"]
        check("activations in %s of quark" % what, (inputs is None) == lost, inputs)
    remove(OUT)
# A model runs as it is without them.
os.makedirs(WORK + "/llama")
subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "small_llama.py"), WORK + "/llama"], check=True)
small = WORK + "/llama/model"
remove(MODEL)
run("quantize", small, "-o", MODEL, "-q", "--include", "*mlp*", "--pad-tail")
likelihoods = []
for more in ({}, {"model.layers.0.self_attn.k_scale": ("F32", [1], f32_bytes([.5])), "model.layers.0.self_attn.v_scale": ("F32", [], f32_bytes([.5]))}):
    write_safetensors(MODEL + "/model.safetensors", dict(read_safetensors(MODEL + "/model.safetensors"), **more),
               read_metadata(MODEL + "/model.safetensors"))
    code, out, error = run("eval", MODEL, "--tokens", WORK + "/llama/tokens.json", "--json", "-q")
    likelihoods.append(json.loads(out)["runs"][0]["nll"] if code == 0 else error)
check("eval with scales of the cache", likelihoods[0] == likelihoods[1] and "mean" in likelihoods[0], likelihoods)
# Where nothing moves, the section stays as it was.
make(CT, {"quantization_config": CT_CONFIG})
run("convert", MODEL, "-o", OUT, "-q")
section = read_json(OUT + "/config.json")["quantization_config"]
section.pop("mxfp")
check("a section of the same layout", section == CT_CONFIG, section)
remove(OUT)

# ---- a section without a quantized tensor
for what, config, good in [
        ("fp8", {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, False),
        ("compressed-tensors", {"quantization_config": CT_CONFIG}, False), ("modelopt", {"quantization_config": MO_CONFIG}, False),
        ("in a part", {"text_config": {"quantization_config": CT_CONFIG}}, False),
        ("null", {"quantization_config": None}, True), ("{}", {"quantization_config": {}}, True)]:
    make({DOWN + ".weight": ("BF16", [ROWS, COLS], bytes(2 * ROWS * COLS))}, dict(config, model_type="llama"))
    if not good:
        refused("a leftover section: " + what, "remove quantization_config", "quantize", MODEL, "-o", OUT, "-q")
        continue
    code, _, error = run("quantize", MODEL, "-o", OUT, "-q")
    check("a section that says nothing: " + what, code == 0, error)
    remove(OUT)
    code, out, _ = run("lint", MODEL)
    check("lint of a section that says nothing: " + what, code == 0 and "quantization_config" not in out, out)

make({DOWN + ".weight": ("BF16", [ROWS, COLS], bytes(2 * ROWS * COLS))},
     {"quantization_config": dict(CT_CONFIG, config_groups={}, kv_cache_scheme=FP8_CACHE)})
refused("keys and values alone", "no weight is; remove quantization_config", "quantize", MODEL, "-o", OUT, "-q")
code, _, error = run("diff", MODEL, MODEL)
check("keys and values alone: diff", code == 0, error)

# ---- two files hold a tensor, and the index names one
A, B, C = ("model-0000%d-of-00003.safetensors" % i for i in (1, 2, 3))


def shards(files, weight_map):
    remove(MODEL)
    os.mkdir(MODEL)
    for name, tensors in files.items():
        write_safetensors(MODEL + "/" + name, {k: ("F32", [2, 32], f32_bytes([v] * 64)) for k, v in tensors.items()})
    write_json(MODEL + "/model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})
    write_json(MODEL + "/config.json", {})


for what, files, weight_map in [
        ("the last", {A: {"x.weight": 1, "y.weight": 1}, B: {"x.weight": 2}}, {"x.weight": B, "y.weight": A}),
        ("the first", {A: {"x.weight": 2}, B: {"x.weight": 1, "y.weight": 1}}, {"x.weight": A, "y.weight": B}),
        ("of three", {A: {"x.weight": 1, "y.weight": 1}, B: {"x.weight": 2, "y.weight": 3}, C: {"x.weight": 1, "z.weight": 1}},
         {"x.weight": B, "y.weight": A, "z.weight": C})]:
    shards(files, weight_map)
    code, out, error = run("quantize", MODEL, "-o", OUT, "--weights", "mxfp8-e4m3")
    remove(WORK + "/back")
    run("dequantize", OUT, "-o", WORK + "/back", "-q")
    found = [t["x.weight"] for f in sorted(os.listdir(WORK + "/back")) if f.endswith(".safetensors")
             for t in [read_safetensors(WORK + "/back/" + f)] if "x.weight" in t] if code == 0 else []
    check("the copy that the index names: " + what, found == [("F32", [2, 32], f32_bytes([2] * 64))] and "two files" in out, error)
    remove(OUT)
    code, out, _ = run("lint", MODEL)
    check("lint of two copies: " + what, "[superseded]" in out and "[total-size]" not in out, out)
for weight_map in ({"x.weight": B, "y.weight": B}, {"x.weight": B, "y.weight": B, "z.weight": A}):
    shards({A: {"x.weight": 1, "z.weight": 1}, B: {"y.weight": 1}}, weight_map)
    refused("an index that sends a tensor where it is not", "does not hold it; correct weight_map", "quantize", MODEL, "-o",
            OUT)

finish()
