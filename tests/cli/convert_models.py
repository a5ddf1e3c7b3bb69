#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mxfp convert --to on models: what is counted, what is refused, what config.json says. usage: convert_models.py MXFP DIRECTORY"""
import json
import os
import struct
import subprocess

from checked import WORK, check, finish, run
from safetensors_file import f32_bytes, read_safetensors, write_safetensors

OUT = WORK + "/out"


def remove(path):
    subprocess.run(["rm", "-rf", path, path + ".partial"], check=True)


def refused(what, text, *arguments, code=3):
    got, _, error = run(*arguments)
    check(what, got == code and text in error and error.count("\n") == 1 and not os.path.exists(OUT) and not os.path.exists(OUT + ".partial"),
          "%d %s" % (got, error))


def nvfp4(scale, factor, codes=b"\x21" * 16, shape=(1, 32), **more):
    """a.weight in the layout of ModelOpt, whose tensor scale multiplies."""
    tensors = {"a.weight": ("U8", [shape[0], shape[1] // 2], codes), "a.weight_scale": ("F8_E4M3", [shape[0], shape[1] // 16], scale),
               "a.weight_scale_2": ("F32", [], f32_bytes([factor]))}
    tensors.update(more)
    return tensors


def mxfp4(rows, scale=127, codes=0x21, name="a.weight"):
    return {name + "_packed": ("U8", [rows, 16], bytes([codes]) * 16 * rows), name + "_scale": ("U8", [rows, 1], bytes([scale]) * rows)}


def write_model(path, tensors, config=None, metadata=None):
    remove(path)
    os.mkdir(path)
    write_safetensors(path + "/model.safetensors", tensors, metadata)
    with open(path + "/config.json", "w") as file:
        json.dump(config or {"model_type": "llama"}, file)


ONE = WORK + "/one.safetensors"

# Tensor scales that are none.
for factor in (0.0, -0.0, -1.0, float("inf"), float("-inf"), float("nan")):
    write_safetensors(ONE, nvfp4(b"\x38\x38", factor))
    refused("tensor scale %r" % factor, "one.safetensors: tensor 'a.weight_scale_2': is ", "convert", ONE, "-o", OUT, "--to", "mxfp4")
# 2^-149, a third, and the largest number are scales.
for factor, exact in ((2.0 ** -149, 0), (1 / 3, 0), (3.4028234663852886e38, 0), (2.0 ** -120, 1), (3.0, 1)):
    write_safetensors(ONE, nvfp4(b"\x38\x38", factor))
    code, out, error = run("convert", ONE, "-o", OUT, "--to", "mxfp4", "--json", "--allow-rounding", "--non-finite", "saturate")
    check("tensor scale %r" % factor, code == 0 and json.loads(out)["summary"]["blocks"]["exact"] == exact, out + error)
    remove(OUT)

# Scales of other shapes, or too few of them.
for what, tensors in (("scales of a column less", {"a.weight_scale": ("F8_E4M3", [1, 1], b"\x38")}),
                      ("scales of two rows", {"a.weight_scale": ("F8_E4M3", [2, 1], b"\x38\x38")}),
                      ("no scales", {"a.weight_scale": ("F32", [1, 2], bytes(8))}),
                      ("two tensor scales", {"a.weight_scale_2": ("F32", [2], bytes(8))})):
    write_safetensors(ONE, nvfp4(b"\x38\x38", 1.0, **tensors))
    refused(what, "tensor 'a.weight", "convert", ONE, "-o", OUT, "--to", "mxfp4")

# NaN scales: a block that is NaN stays one, half of one is none of MXFP4 but of MXFP8.
write_safetensors(ONE, nvfp4(b"\x7f\x7f\x38\x38", 1.0, b"\x21" * 32, (2, 32)))
code, out, error = run("convert", ONE, "-o", OUT, "--to", "mxfp4", "-l", "modelopt")
tensors = read_safetensors(OUT + "/model.safetensors") if code == 0 else {}
check("NaN scales", code == 0 and tensors["a.weight_scale"][2] == b"\xff\x7f" and tensors["a.weight"][2] == bytes(16) + b"\x21" * 16 and
      "2 of 2 blocks are exact" in out, out + error)
remove(OUT)
write_safetensors(ONE, nvfp4(b"\x7f\xb8", 1.0))
refused("half a block NaN", "1 of 1 blocks have a NaN or Inf that mxfp4 does not hold; --non-finite propagate", "convert", ONE, "-o", OUT, "--to", "mxfp4")
refused("half a block NaN, propagated", "1 of 1 blocks are not exact in mxfp4, the first in row 0 from column 0 on; --allow-rounding",
        "convert", ONE, "-o", OUT, "--to", "mxfp4", "--non-finite", "propagate")
code, out, error = run("convert", ONE, "-o", OUT, "--to", "mxfp4", "--non-finite", "propagate", "--allow-rounding")
check("half a block NaN, rounded", code == 0 and "1 of them have a NaN or Inf, by --non-finite propagate" in out and
      read_safetensors(OUT + "/model.safetensors")["a.weight_scale"][2] == b"\xff", out + error)
remove(OUT)
code, out, error = run("convert", ONE, "-o", OUT, "--to", "mxfp8")
check("half a block NaN in MXFP8", code == 0 and read_safetensors(OUT + "/model.safetensors")["a.weight"][2] ==
      b"\x7f" * 16 + b"\x30\x38" * 8, out + error)
remove(OUT)

# Rows that are no whole blocks; the input; names; layouts; options.
write_safetensors(ONE, nvfp4(b"\x38" * 3, 1.0, b"\x21" * 24, (1, 48)))
refused("48 columns", "layout compressed-tensors does not hold it: its rows are not whole blocks of the format; --decode-rest f32 decodes it",
        "convert", ONE, "-o", OUT, "--to", "mxfp4")
code, out, error = run("convert", ONE, "-o", OUT, "--to", "mxfp4", "--decode-rest", "bf16")
check("48 columns, decoded", code == 0 and "decoded to bf16" in out, error)
remove(OUT)
code, _, error = run("convert", ONE, "-o", ONE, "--to", "mxfp8", "-f", "--decode-rest", "f32")
check("the input", code == 2 and "is the input" in error, error)
refused("a layout without", "convert: --to nvfp4: layout gpt-oss holds mxfp4; give one of these, or another --layout", "convert", ONE, "-o", OUT,
        "--to", "nvfp4", "-l", "gpt-oss", code=2)
refused("an array", "layout npy holds nothing quantized", "convert", ONE, "-o", OUT + ".npy", "--to", "nvfp4", code=2)
refused("memory", "convert: --mem: 1048576 bytes are too few for this model; give --mem ", "convert", ONE, "-o", OUT, "--mem", "1M", code=2)
code, out, error = run("convert", ONE, "-o", OUT, "--to", "nvfp4", "-n")
check("dry run", code == 0 and not os.path.exists(OUT), error)

# A model: formats of config.json, of metadata and of what is said of activations; plain tensors stay as they are.
LAYERS = {}
for i in range(2):
    for kind in ("q", "k", "v", "o"):
        # q is larger than k and v, so that each alone would get another tensor scale.
        LAYERS.update(mxfp4(64, 130 if kind == "q" else 120, name="model.layers.%d.self_attn.%s_proj.weight" % (i, kind)))
LAYERS["model.norm.weight"] = ("BF16", [32], b"\x80\x3f" * 32)
MODEL = WORK + "/model"
write_model(MODEL, LAYERS, {"model_type": "llama", "quantization_config": {
    "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "quantization_status": "compressed", "ignore": ["lm_head"],
    "config_groups": {"group_0": {"targets": ["Linear"], "format": "mxfp4-pack-quantized", "weights": {
        "num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8", "symmetric": True, "dynamic": False}}},
    "mxfp": {"weights": "mxfp4", "rule": "rceil"}}}, {"mxfp.version": "0", "mxfp.weights": "mxfp4", "mxfp.rule": "rceil", "mxfp.block": "32x32"})
code, out, error = run("convert", MODEL, "-o", OUT, "--to", "nvfp4")
check("a model", code == 0 and "8 tensors changed to nvfp4: 512 of 512 blocks are exact" in out, out + error)
if code == 0:
    config = json.load(open(OUT + "/config.json"))["quantization_config"]
    check("its format", config["format"] == "nvfp4-pack-quantized" and config["mxfp"] == {"weights": "nvfp4"}, config)
    tensors = read_safetensors(OUT + "/model.safetensors")
    factors = {name: struct.unpack("<f", t[2])[0] for name, t in tensors.items() if name.endswith("_global_scale")}
    # 2^3 is 2^8 x 2^-5, and 2^-7 is 2^8 x 2^-15; compressed-tensors divides by the reciprocal.
    check("q, k and v have one tensor scale", sorted(set(factors.values())) == [32.0, 32768.0] and
          all(x == (32768.0 if ".o_proj." in name else 32.0) for name, x in factors.items()), factors)
    check("plain tensors", tensors["model.norm.weight"] == LAYERS["model.norm.weight"])
    code, listed, _ = run("inspect", OUT + "/model.safetensors")
    check("metadata", "mxfp.weights = nvfp4" in " ".join(listed.split()) and "rceil" not in listed and "32x32" not in listed, listed)
    for path in (MODEL, OUT):
        run("dequantize", path, "-o", path + ".f32", "-qf")
    same = [read_safetensors(path + ".f32/model.safetensors") for path in (MODEL, OUT)]
    check("its numbers", same[0] == same[1])
    code, out, error = run("convert", OUT, "-o", OUT + ".back", "--to", "mxfp4")
    back = read_safetensors(OUT + ".back/model.safetensors") if code == 0 else {}
    check("back to the same bytes", {k: v[2] for k, v in back.items()} == {k: v[2] for k, v in LAYERS.items()}, out + error)
    code, out, error = run("lint", OUT)
    check("lint", code == 0, out + error)
remove(OUT)
remove(OUT + ".back")

# Input scales of NVFP4 are none of MXFP4.
write_model(MODEL, nvfp4(b"\x38\x38", 1.0, **{"a.input_scale": ("F32", [], f32_bytes([0.5]))}), {"model_type": "llama", "quantization_config": {
    "quant_method": "modelopt", "quant_algo": "NVFP4"}})
code, out, error = run("convert", MODEL, "-o", OUT, "--to", "mxfp4")
check("input scales", code == 0 and "1 scales of activations were left out" in out and not any(
    "input" in name for name in read_safetensors(OUT + "/model.safetensors")), out + error)
remove(OUT)

# MLX has no tensor scale, so that it is 1: 2^8 x 1 is its largest power of two.
for scale, code in ((127 + 8, 0), (127 + 9, 3)):
    write_safetensors(ONE, mxfp4(1, scale, 0x72))
    got, out, error = run("convert", ONE, "-o", OUT, "--to", "nvfp4", "-l", "mlx")
    check("mlx, 2^%d" % (scale - 127), got == code and (code == 0 or "2 of 2 blocks" in error or "1 of 1 blocks are not exact" in error), out + error)
    check("mlx, numbers", code != 0 or read_safetensors(OUT + "/model.safetensors")["a.scales"][2] == b"\x78\x78")
    remove(OUT)

# The largest error is a part of the block's largest number: 2 and 1/2 beside 6, by floor in e2m1 with 2^0, are exact; 2.25 (1.125 x
# 2^1 in e4m3) becomes 2.
write_safetensors(ONE, {"a.weight": ("F8_E4M3", [2, 32], b"\x4c" + b"\x41" * 31 + b"\x4c" * 32), "a.weight_scale": ("U8", [2, 1], b"\x7f\x7f")})
refused("2.25", "1 of 2 blocks are not exact in mxfp4, the first in row 0 from column 0 on; --allow-rounding rounds them by mse", "convert", ONE,
        "-o", OUT, "--to", "mxfp4")
code, out, error = run("convert", ONE, "-o", OUT, "--to", "mxfp4", "--allow-rounding", "--rule", "floor", "--json", "--threads", "1")
facts = json.loads(out)["summary"]["blocks"] if code == 0 else {}
check("error of 2.25", facts == {"exact": 1, "rounded": 1, "not_finite": 0, "largest_error": 0.25 / 6}, out + error)
check("rounded by floor", code == 0 and read_safetensors(OUT + "/model.safetensors")["a.weight_packed"][2] == b"\x47" + b"\x44" * 15 + b"\x77" * 16)
remove(OUT)

# gpt-oss-20b's shapes under names that do not turn them: a file of zeros, of which every block is exact; here one layer of 24, and of a
# few experts.
experts, layers = 2, 1
tensors, at, header = {}, 0, {}
for i in range(layers):
    for name, rows, cols in (("gate_up_proj", 5760, 2880), ("down_proj", 2880, 2880)):
        for part, shape in (("_blocks", [experts, rows, cols // 32, 16]), ("_scales", [experts, rows, cols // 32])):
            size = 1
            for n in shape:
                size *= n
            header["model.layers.%d.ffn.experts.%s%s" % (i, name, part)] = {"dtype": "U8", "shape": shape, "data_offsets": [at, at + size]}
            at += size
text = json.dumps(header).encode()
with open(ONE, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    file.truncate(8 + len(text) + at)
remove(OUT + ".safetensors")
code, out, error = run("convert", ONE, "-o", OUT + ".safetensors", "--to", "nvfp4", "--json")
n = experts * layers * (5760 + 2880) * 2880 // 32
check("gpt-oss", code == 0 and json.loads(out)["summary"]["blocks"]["exact"] == n and n * 32 // experts * 24 // layers == 597196800, out[:500] + error)
remove(OUT + ".safetensors")

# What --ignore leaves in a format of six bits is told from the other one. These numbers are codes of both.
numbers = f32_bytes([1.0, -0.25, 0.5, 3.5] * 8)
for first, to in (("mxfp6-e3m2", "mxfp6-e2m3"), ("mxfp6-e2m3", "mxfp6-e3m2"), ("mxfp6-e3m2", "mxfp8-e4m3")):
    write_safetensors(ONE, {name: ("F32", [1, 32], numbers) for name in ("a.weight", "b.weight")})
    for arguments in (("quantize", ONE, "-o", WORK + "/6.safetensors", "-w", first), ("convert", WORK + "/6.safetensors", "-o", WORK + "/7.safetensors", "-t", to, "--ignore", "a.*"),
                      ("dequantize", WORK + "/7.safetensors", "-o", OUT + ".safetensors")):
        code, out, error = run(*arguments, "-q", "--force")
    decoded = read_safetensors(OUT + ".safetensors") if code == 0 else {}
    check("%s left beside %s" % (first, to), [decoded.get(name, ("", [], b""))[2] for name in ("a.weight", "b.weight")] == [numbers] * 2, error)
    remove(OUT + ".safetensors")

finish()
