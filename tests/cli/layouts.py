# SPDX-License-Identifier: MIT
"""layouts.py MXFP WORK: small models in layouts that other programs publish, their bytes made here from the loaders'
definitions, and the numbers worked out from these. Near misses are refused by name."""
import json, math, os, random, shutil, struct

from checked import WORK, check, finish, run
from safetensors_file import f32_bytes, read_safetensors, write_safetensors

MODEL, OUT, BACK = WORK + "/model", WORK + "/out", WORK + "/back"
draw = random.Random(39)


def remove(*paths):
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(path):
            os.unlink(path)


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


def read_json(path):
    with open(path) as file:
        return json.load(file)


def make(tensors, config, second=None):
    remove(MODEL, OUT, BACK)
    os.mkdir(MODEL)
    write_safetensors(MODEL + "/model.safetensors", tensors)
    if config is not None:
        write_json(MODEL + "/config.json", config)
    if second is not None:
        write_json(MODEL + "/hf_quant_config.json", second)


def refused(what, parts, *arguments, code=3):
    """One line that names `parts`, and no output."""
    got, _, error = run(*(arguments or ("dequantize", MODEL, "-o", OUT)))
    check(what, got == code and all(p in error for p in parts.split("|")) and error.count("\n") == 1,
          "exit %d: %s" % (got, error.strip()))
    check(what + ": an output", not os.path.exists(OUT) and not os.path.exists(OUT + ".partial"))
    remove(OUT)


def done(what, *arguments):
    code, out, error = run(*arguments)
    check(what, code == 0, "exit %d: %s" % (code, error.strip()))
    return out


def f32(x):
    """Rounded to binary32; what is too large is infinite."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def same(x, y):
    """Equal numbers, zeros of either sign apart, NaN equal to NaN."""
    return len(x) == len(y) and all(struct.pack("<f", a) == struct.pack("<f", b) or (a != a and b != b) for a, b in zip(x, y))


def numbers(path, name):
    dtype, _, data = read_safetensors(path)[name]
    return list(struct.unpack("<%df" % (len(data) // 4), data)) if dtype == "F32" else None


def decodes(what, want, path=MODEL, shapes={}):
    """dequantize finds the numbers `want`: {tensor: numbers}."""
    remove(BACK)
    done(what + ": dequantize", "dequantize", path, "-o", BACK, "-q")
    if not os.path.exists(BACK):
        return
    tensors = read_safetensors(BACK + "/model.safetensors")
    for name in want:
        check(what + ": " + name, name in tensors and same(want[name], numbers(BACK + "/model.safetensors", name)),
              tensors.keys() if name not in tensors else "other numbers")
        if name in shapes and name in tensors:
            check(what + ": shape of " + name, tensors[name][1] == shapes[name], tensors[name][1])
    remove(BACK)


def lint(what, *parts):
    """Clean, or with findings that say `parts`."""
    code, out, error = run("lint", MODEL)
    if parts:
        check(what + ": lint", code != 0 and all(p in out + error for p in parts), out + error)
    else:
        check(what + ": lint", code == 0, out + error)


# ---- the formats, from their definitions
def float_of(code, exponent_bits, mantissa_bits):
    """A number of a format without infinities: sign, exponent, mantissa."""
    bias = 2**(exponent_bits - 1) - 1
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent, mantissa = code >> mantissa_bits & (1 << exponent_bits) - 1, code & (1 << mantissa_bits) - 1
    if exponent == 0:
        return sign * mantissa * 2.0**(1 - bias - mantissa_bits)
    return sign * (2**mantissa_bits + mantissa) * 2.0**(exponent - bias - mantissa_bits)


E2M1, E2M3 = [float_of(c, 2, 1) for c in range(16)], [float_of(c, 2, 3) for c in range(64)]
E4M3 = [float("nan") if c & 0x7F == 0x7F else float_of(c, 4, 3) for c in range(256)]
FINITE = [c for c in range(256) if c & 0x7F != 0x7F]


def e8m0(byte):
    return 2.0**(byte - 127)


class Blocks:
    """Random codes of a matrix, a scale for each `length` of a row, and the numbers that they are."""

    def __init__(self, rows, cols, codes, length, scales, scale_of, of=None):
        self.rows, self.cols = rows, cols
        self.of = of or {16: E2M1, 64: E2M3, 256: E4M3}[len(codes) if len(codes) != len(FINITE) else 256]
        self.codes = [[draw.choice(codes) for _ in range(cols)] for _ in range(rows)]
        self.scales = [[draw.choice(scales) for _ in range(cols // length)] for _ in range(rows)]
        self.numbers = [f32(self.of[c] * scale_of(self.scales[r][k // length])) for r, row in enumerate(self.codes)
                        for k, c in enumerate(row)]

    def code_bytes(self, bits):
        """The first code in the lowest bits."""
        out = b""
        for row in self.codes:
            word = 0
            for k, c in enumerate(row):
                word |= c << bits * k
            out += word.to_bytes(self.cols * bits // 8, "little")
        return out

    def scale_bytes(self):
        return bytes(s for row in self.scales for s in row)


def mxfp4(rows, cols):
    return Blocks(rows, cols, range(16), 32, range(118, 132), e8m0)


def mxfp8(rows, cols):
    return Blocks(rows, cols, FINITE, 32, range(118, 132), e8m0)


def nvfp4(rows, cols):
    return Blocks(rows, cols, range(16), 16, range(0x20, 0x60), lambda b: E4M3[b])


ROWS, COLS = 6, 96
Q, DOWN, UP, NORM = ("model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj", "model.layers.0.mlp.up_proj",
                     "model.norm.weight")
PLAIN = {NORM: ("F32", [4], f32_bytes([1, 2, 3, 4])), "lm_head.weight": ("F32", [4, 4], f32_bytes(range(16)))}

# ---- MLX: quantize_model(), infer_quant_config() of mlx-lm 0.32.2
MLX = {"mxfp4": (mxfp4, 32, 4), "nvfp4": (nvfp4, 16, 4), "mxfp8": (mxfp8, 32, 8)}


def mlx_tensors(module, mode, blocks):
    _, length, bits = MLX[mode]
    return {module + ".weight": ("U32", [blocks.rows, blocks.cols * bits // 32], blocks.code_bytes(bits)),
            module + ".scales": ("U8", [blocks.rows, blocks.cols // length], blocks.scale_bytes())}


def mlx_section(mode):
    return {"group_size": MLX[mode][1], "bits": MLX[mode][2], "mode": mode}


def mlx_config(section):
    return {"model_type": "llama", "quantization": section, "quantization_config": section}


CT_NAMES = {"mxfp4": ("_packed", "U8"), "nvfp4": ("_packed", "U8"), "mxfp8": ("", "F8_E4M3")}
for mode in MLX:
    blocks = MLX[mode][0](ROWS, COLS)
    tensors = {**mlx_tensors(DOWN, mode, blocks), **PLAIN}
    make(tensors, mlx_config(mlx_section(mode)))
    want = {DOWN + ".weight": blocks.numbers}
    decodes("mlx " + mode, want)
    lint("mlx " + mode)
    decodes("mlx %s, a file" % mode, want, MODEL + "/model.safetensors")
    check("mlx %s: inspect" % mode, "already quantized" not in run("inspect", MODEL)[2])
    # To compressed-tensors and back: the same bytes, U32 words and bytes alike.
    done("mlx %s to compressed-tensors" % mode, "convert", MODEL, "-o", OUT, "-q")
    there = read_safetensors(OUT + "/model.safetensors")
    ending, dtype = CT_NAMES[mode]
    name = DOWN + ".weight" + ending
    check("mlx %s: codes" % mode, there.get(name, ("", 0, b""))[0::2] == (dtype, blocks.code_bytes(MLX[mode][2])), there.keys())
    check("mlx %s: scales" % mode, there[DOWN + ".weight_scale"][2] == blocks.scale_bytes())
    check("mlx %s: its sections are gone" % mode, "quantization" not in read_json(OUT + "/config.json"))
    done("mlx %s back" % mode, "convert", OUT, "-o", BACK, "-q", "--layout", "mlx")
    there = read_safetensors(BACK + "/model.safetensors")
    check("mlx %s: as it was" % mode, there == tensors, there.keys())
    config = read_json(BACK + "/config.json")
    check("mlx %s: config" % mode, config["quantization"] == mlx_section(mode) and "quant_method" not in config["quantization_config"] and
          {k: config["quantization_config"][k] for k in mlx_section(mode)} == mlx_section(mode), config)
    remove(OUT, BACK)

# Mixed: what is named has its own format; mlx-lm takes the others from their shapes, and so is a section in `quantization` alone.
four, eight, nv = mxfp4(ROWS, COLS), mxfp8(ROWS, COLS), nvfp4(ROWS, COLS)
mixed = {**mlx_tensors(Q, "mxfp8", eight), **mlx_tensors(DOWN, "mxfp4", four), **mlx_tensors(UP, "nvfp4", nv), **PLAIN}
numbers_mixed = {Q + ".weight": eight.numbers, DOWN + ".weight": four.numbers, UP + ".weight": nv.numbers}
section = dict(mlx_section("mxfp4"), **{Q: mlx_section("mxfp8"), "lm_head": False, UP: True})
make(mixed, {"model_type": "llama", "quantization": section})
decodes("mlx mixed", numbers_mixed)
lint("mlx mixed")
done("mlx mixed, convert", "convert", MODEL, "-o", OUT, "-q", "--layout", "compressed-tensors")
done("mlx mixed, back", "convert", OUT, "-o", BACK, "-q", "--layout", "mlx")
check("mlx mixed: tensors", read_safetensors(BACK + "/model.safetensors") == mixed)
config = read_json(BACK + "/config.json")["quantization"]
stated = {m: config.get(m, {k: config[k] for k in ("group_size", "bits", "mode")}) for m in (Q, DOWN, UP)}
check("mlx mixed: config", stated == {Q: mlx_section("mxfp8"), DOWN: mlx_section("mxfp4"), UP: mlx_section("nvfp4")}, config)
# Experts that mlx-lm stacks.
experts = [mxfp4(ROWS, 64) for _ in range(3)]
SWITCH = "model.layers.0.mlp.switch_mlp.gate_proj"
make({SWITCH + ".weight": ("U32", [3, ROWS, 8], b"".join(e.code_bytes(4) for e in experts)),
      SWITCH + ".scales": ("U8", [3, ROWS, 2], b"".join(e.scale_bytes() for e in experts)), **PLAIN}, mlx_config(mlx_section("mxfp4")))
decodes("mlx experts", {SWITCH + ".weight": sum((e.numbers for e in experts), [])}, shapes={SWITCH + ".weight": [3, ROWS, 64]})

# Near misses.
down = mlx_tensors(DOWN, "mxfp4", four)
BF16 = lambda rows, cols: ("BF16", [rows, cols], bytes(2 * rows * cols))
make({DOWN + ".weight": down[DOWN + ".weight"], DOWN + ".scales": BF16(ROWS, 3), DOWN + ".biases": BF16(ROWS, 3), **PLAIN},
     mlx_config({"group_size": 32, "bits": 4}))
refused("mlx affine", "MLX|affine")
make({**down, DOWN + ".biases": BF16(ROWS, 3), **PLAIN}, mlx_config(mlx_section("mxfp4")))
refused("mlx biases", "biases")
make({**down, DOWN + ".global_scale": ("F32", [1], f32_bytes([2])), **PLAIN}, mlx_config(mlx_section("mxfp4")))
refused("mlx global_scale", "global_scale")
refused("mlx global_scale, a file", "global_scale", "dequantize", MODEL + "/model.safetensors", "-o", OUT)
make({DOWN + ".weight": down[DOWN + ".weight"], **PLAIN}, mlx_config(mlx_section("mxfp4")))
refused("mlx without scales", DOWN + ".scales")
make({DOWN + ".scales": down[DOWN + ".scales"], **PLAIN}, mlx_config(mlx_section("mxfp4")))
refused("mlx without codes", DOWN + ".scales")
make({DOWN + ".weight": down[DOWN + ".weight"], DOWN + ".scales": ("U8", [ROWS, 2], bytes(2 * ROWS)), **PLAIN}, mlx_config(mlx_section("mxfp4")))
refused("mlx, scales that do not fit", DOWN)
make({**mlx_tensors(DOWN, "nvfp4", nv), DOWN + ".scales": ("F8_E8M0", [ROWS, COLS // 16], nv.scale_bytes()), **PLAIN}, None)
refused("mlx nvfp4 with E8M0 scales", DOWN)
for key, value, part in [("mode", "affine", "affine"), ("mode", "mxfp8", "mode"), ("group_size", 64, "group_size"), ("bits", 3, "bits"),
                         ("global_scale", True, "global_scale"), (UP, {"bits": 8, "mode": "affine"}, UP + ".mode"),
                         (UP, {"sparsity": 2}, UP + ".sparsity"), ("mystery", 3, "mystery"), (UP, dict(mlx_section("mxfp8"), bits=4), UP)]:
    make({**down, **PLAIN}, mlx_config(dict(mlx_section("mxfp4"), **{key: value})))
    refused("mlx %s %s" % (key, value), part)
make({**down, **PLAIN}, mlx_config(dict(mlx_section("mxfp4"), **{DOWN: False})))
lint("mlx, a module that is said to be plain", DOWN, "lists its module as not")
# A tensor scale has no place.
make({UP + ".weight_packed": ("U8", [ROWS, COLS // 2], nv.code_bytes(4)), UP + ".weight_scale": ("F8_E4M3", [ROWS, COLS // 16], nv.scale_bytes()),
      UP + ".weight_global_scale": ("F32", [1], f32_bytes([4])), **PLAIN}, None)
refused("a tensor scale to mlx", "tensor scale", "convert", MODEL, "-o", OUT, "--layout", "mlx")
# Written by quantize.
make({DOWN + ".weight": ("F32", [64, 64], f32_bytes([f32(draw.gauss(0, 1)) for _ in range(4096)])), **PLAIN}, {"model_type": "llama"})
for mode in MLX:
    done("quantize to mlx " + mode, "quantize", MODEL, "-o", OUT, "-q", "--layout", "mlx", "--activations", "none",
         "--weights", mode.replace("mxfp8", "mxfp8-e4m3"))
    there, config = read_safetensors(OUT + "/model.safetensors"), read_json(OUT + "/config.json")
    _, length, bits = MLX[mode]
    check("quantize to mlx " + mode, there[DOWN + ".weight"][:2] == ("U32", [64, 2 * bits]) and there[DOWN + ".scales"][:2] == ("U8", [64, 64 // length]))
    check("quantize to mlx %s: config" % mode, config["quantization"] == mlx_section(mode), config)
    remove(OUT)
# The scales of mx.quantize(), mode nvfp4 (fp_quantize() of mlx/ops.cpp): e4m3(amax / 6), also where that is subnormal; codes are w / scale.
quads = [4.0**-k for k in range(1, 5)]
small = [s * x for s in quads for x in (6, -4, 3, 2, -1.5, 1, 0.5, 0, 6, 6, -6, 4, 0, 2, 1, 3)]
make({DOWN + ".weight": ("F32", [1, 64], f32_bytes(small)), **PLAIN}, {"model_type": "llama"})
done("quantize to mlx nvfp4, small weights", "quantize", MODEL, "-o", OUT, "-q", "--layout", "mlx", "--activations", "none", "--weights", "nvfp4")
there = read_safetensors(OUT + "/model.safetensors")
e4m3_of = {0.25: 0x28, 0.0625: 0x18, 2.0**-6: 0x08, 2.0**-8: 0x02}
check("quantize to mlx nvfp4, small weights: scales", there[DOWN + ".scales"][2] == bytes([e4m3_of[s] for s in quads]), there[DOWN + ".scales"][2].hex())
codes = "".join("%x%x" % (b & 15, b >> 4) for b in there[DOWN + ".weight"][2])
check("quantize to mlx nvfp4, small weights: codes", codes == "7e54b21077f60425" * 4, codes)
remove(OUT)
refused("quantize to mlx with a tensor scale", "torchao-1", "quantize", MODEL, "-o", OUT, "--layout", "mlx", "--activations", "none", "--weights",
        "nvfp4", "--nvfp4-recipe", "te", code=2)

# ---- FP8 and FP4 with scales that are powers of two: Fp8Dequantize of transformers 5.24, Fp8Config of SGLang 0.5.23
class Grid:
    """FP8 codes, and a scale for b0 rows and b1 columns, the last of which are cut off; ones of several matrices."""

    def __init__(self, rows, cols, b0, b1, matrices=1, scales=range(118, 132)):
        self.rows, self.cols, self.matrices = rows, cols, matrices
        n, k = -(-rows // b0), -(-cols // b1)
        self.codes = [[draw.choice(FINITE) for _ in range(cols)] for _ in range(matrices * rows)]
        self.scales = [[draw.choice(scales) for _ in range(k)] for _ in range(matrices * n)]
        self.shape = [n, k] if matrices == 1 else [matrices, n, k]
        scale = lambda r, c: self.scales[r // rows * n + r % rows // b0][c // b1]
        self.blocks = bytes(scale(r, c) for r in range(matrices * rows) for c in range(0, cols, 32))
        self.numbers = [float("nan") if scale(r, c) == 255 else f32(E4M3[x] * e8m0(scale(r, c))) for r, row in enumerate(self.codes)
                        for c, x in enumerate(row)]

    def weight(self):
        shape = [self.rows, self.cols] if self.matrices == 1 else [self.matrices, self.rows, self.cols]
        return "F8_E4M3", shape, bytes(c for row in self.codes for c in row)

    def scale(self, dtype="F8_E8M0", shape=None):
        return dtype, self.shape if shape is None else shape, bytes(s for row in self.scales for s in row)


def fp8_config(block, **more):
    section = dict({"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": block}, **more)
    return {"model_type": "llama", "quantization_config": {k: v for k, v in section.items() if v is not None}}


INV, SCALE, PLAIN_SCALE = ".weight_scale_inv", ".scale", ".weight_scale"
# Parameters that are called scales: of hyper-connections of DeepSeek-V4, and a norm of Inkling2.
PARAMETERS = {"layers.0.hc_attn_scale": ("F32", [3], f32_bytes([1, 2, 3])), "hc_head_scale": ("F32", [1], f32_bytes([7])),
              "layers.0.attn.q_norm.scale": ("BF16", [4], bytes(8)), "layers.0.attn.q_norm.weight": ("BF16", [4], bytes(8)), **PLAIN}
four = mxfp4(ROWS, COLS)
for dtype in ("I8", "U8", "F4"):
    for end in (INV, SCALE, PLAIN_SCALE):
        for scale in ("U8", "F8_E8M0"):
            make({UP + ".weight": (dtype, [ROWS, COLS if dtype == "F4" else COLS // 2], four.code_bytes(4)),
                  UP + end: (scale, [ROWS, COLS // 32], four.scale_bytes()), **PARAMETERS}, fp8_config([128, 128], scale_fmt="ue8m0", expert_dtype="fp4"))
            decodes("FP4 in %s, %s %s" % (dtype, end, scale), {UP + ".weight": four.numbers, "hc_head_scale": [7.0]})
lint("FP4")
GRIDS = [((6, 96, 1, 32), None), ((6, 96, 1, 32), [128, 128]), ((64, 128, 32, 32), [32, 32]), ((64, 128, 32, 32), None), ((192, 200, 128, 128), [128, 128]),
         ((7, 256, 1, 128), None), ((5, 40, 1, 40), None), ((5, 40, 5, 40), None), ((130, 64, 128, 64), [128, 64]), ((5, 41, 1, 64), [1, 64]), ((256, 96, 64, 96), None)]
for (rows, cols, b0, b1), block in GRIDS:
    grid, what = Grid(rows, cols, b0, b1), "FP8 [%d, %d] of %d x %d, config %s" % (rows, cols, b0, b1, block)
    for end in (INV, SCALE, PLAIN_SCALE) if (b0, b1) == (1, 32) else (INV, SCALE):
        tensors = {DOWN + ".weight": grid.weight(), DOWN + end: grid.scale("U8" if end == INV else "F8_E8M0"), **PARAMETERS}
        make(tensors, fp8_config(block, scale_fmt="ue8m0"))
        decodes(what + " " + end, {DOWN + ".weight": grid.numbers}, shapes={DOWN + ".weight": [rows, cols]})
    lint(what)
    if cols % 32 == 0:
        for layout, name, scales in (("fp8", DOWN + ".weight", DOWN + INV), ("compressed-tensors", DOWN + ".weight", DOWN + PLAIN_SCALE), ("mlx", DOWN + ".weight", DOWN + ".scales")):
            done("%s to %s" % (what, layout), "convert", MODEL, "-o", OUT, "-q", "--layout", layout)
            there = read_safetensors(OUT + "/model.safetensors")
            check("%s to %s" % (what, layout), there[name][2] == grid.weight()[2] and there[scales][1:] == ([rows, cols // 32], grid.blocks), there.get(scales))
            config = read_json(OUT + "/config.json")["quantization_config"]
            check("%s to %s: config" % (what, layout), layout != "fp8" or (config["quant_method"], config["weight_block_size"]) == ("mxfp8", [1, 32]), config)
            decodes("%s to %s" % (what, layout), {DOWN + ".weight": grid.numbers}, OUT)
            remove(OUT)
    code, out, error = run("diff", MODEL, MODEL)
    check(what + ": diff", code == 0, out + error)
one = Grid(40, 64, 40, 64)
for shape in ([], [1], [1, 1]):
    make({DOWN + ".weight": one.weight(), DOWN + SCALE: one.scale(shape=shape), **PLAIN}, fp8_config(None))
    decodes("FP8, one scale %s" % shape, {DOWN + ".weight": one.numbers})
nan = Grid(64, 64, 32, 32, scales=[255, 127, 0, 245])
make({DOWN + ".weight": nan.weight(), DOWN + SCALE: nan.scale(), **PLAIN}, fp8_config([32, 32]))
decodes("FP8, scales at the ends", {DOWN + ".weight": nan.numbers})
EXPERTS = "model.layers.0.mlp.experts.gate_up_proj"
experts = Grid(192, 64, 128, 64, matrices=3)
make({EXPERTS: experts.weight(), EXPERTS + "_scale_inv": experts.scale("U8"), **PLAIN}, fp8_config([128, 64]))
decodes("FP8 experts", {EXPERTS: experts.numbers}, shapes={EXPERTS: [3, 192, 64]})
# Rows that are read in pieces, which begin within a scale's columns.
long = Grid(3, 150000, 2, 4096)
make({DOWN + ".weight": long.weight(), DOWN + SCALE: long.scale(), **PLAIN}, fp8_config([2, 4096]))
decodes("FP8, long rows", {DOWN + ".weight": long.numbers})
# A shape that both the configuration and an equal share fit: the configuration says 128 and 64 rows, not twice 96.
two = Grid(192, 64, 128, 64)
make({DOWN + ".weight": two.weight(), DOWN + SCALE: two.scale(), **PLAIN}, fp8_config([128, 64]))
decodes("FP8, cut off", {DOWN + ".weight": two.numbers})
refused("FP8, cut off, a file alone", DOWN + SCALE + "|directory's config.json must state", "dequantize", MODEL + "/model.safetensors", "-o", OUT)
make({DOWN + ".weight": two.weight(), DOWN + SCALE: two.scale(), **PLAIN}, fp8_config([64, 64]))
refused("FP8, cut off, another configuration", DOWN + SCALE)
# Grids whose columns are no whole blocks are numbers: those that the configuration states, cut off or not, or equal shares of a power of two.
for what, grid, block, scale_dtype, end in (
        ("128 x 48, cut off", Grid(200, 160, 128, 48), [128, 48], "F8_E8M0", SCALE), ("1 x 16", Grid(6, 96, 1, 16), [1, 16], "U8", INV),
        ("1 x 16 without a word", Grid(6, 96, 1, 16), None, "F8_E8M0", SCALE), ("2 x 8 of experts", Grid(4, 64, 2, 8, 2), None, "F8_E8M0", INV),
        ("the least and the largest", Grid(4, 64, 1, 16, scales=(0, 1, 3, 200, 245)), [1, 16], "U8", INV)):
    make({DOWN + ".weight": grid.weight(), DOWN + end: grid.scale(scale_dtype), **PLAIN}, fp8_config(block))
    decodes("FP8, a grid of %s" % what, {DOWN + ".weight": grid.numbers})
    check("FP8, a grid of %s: lint" % what, "1 quantized weights: errors 0" in run("lint", MODEL)[1], run("lint", MODEL)[1])
nan = Grid(4, 64, 1, 16, scales=(120, 255))
make({DOWN + ".weight": nan.weight(), DOWN + INV: nan.scale("U8"), **PLAIN}, fp8_config([1, 16]))
refused("FP8, a grid of 1 x 16 with NaN", DOWN + INV + "|is NaN")
make({DOWN + ".weight": two.weight(), DOWN + SCALE: ("F8_E8M0", [2, 7], bytes(14)), **PLAIN}, fp8_config([64, 64]))
refused("FP8, a grid that does not divide", DOWN + SCALE + "|does not divide")
make({DOWN + ".weight": two.weight(), DOWN + ".weight_scale": ("U8", [192, 4], bytes(768)), **PLAIN}, None)
refused("FP8, 1 x 16 of compressed-tensors' name", DOWN + ".weight")

# Near misses.
small = Grid(6, 96, 1, 32)
weight, scale = small.weight(), small.scale("U8")
BAD = {
    "a scale too many": ({DOWN + SCALE: ("F8_E8M0", [6, 4], bytes(24))}, DOWN + ".weight"),
    "scales of more rows without columns": ({DOWN + SCALE: ("F8_E8M0", [7], bytes(7))}, DOWN + SCALE),
    "scales of three dimensions": ({DOWN + SCALE: ("F8_E8M0", [1, 6, 3], bytes(18))}, DOWN + ".weight"),
    "no scales": ({DOWN + SCALE: ("F8_E8M0", [0, 3], b"")}, DOWN + ".weight"),
    "scales twice": ({DOWN + SCALE: ("U8", [6, 3], scale[2]), DOWN + INV: scale}, DOWN + SCALE + "|stands beside"),
    "scales twice, of ModelOpt": ({DOWN + SCALE: ("U8", [6, 3], scale[2]), DOWN + PLAIN_SCALE: scale}, DOWN + SCALE + "|stands beside"),
    "scales twice, inverse": ({DOWN + INV: ("U8", [6, 3], scale[2]), DOWN + PLAIN_SCALE: scale}, "stands beside"),
    "scales twice, a number": ({DOWN + PLAIN_SCALE: scale, DOWN + INV: ("F32", [], bytes(4))}, DOWN + INV + "|stands beside"),
    "a grid of compressed-tensors' name": ({DOWN + PLAIN_SCALE: ("U8", [3, 3], bytes(9))}, DOWN + ".weight"),
    "FP4 in blocks of 64": ({DOWN + ".weight": ("I8", [6, 96], weight[2]), DOWN + SCALE: ("U8", [6, 3], scale[2])}, DOWN + ".weight"),
    "FP4 with a grid": ({DOWN + ".weight": ("U8", [6, 48], bytes(288)), DOWN + SCALE: ("U8", [1, 3], bytes(3))}, DOWN + ".weight"),
    "E5M2": ({DOWN + ".weight": ("F8_E5M2", [6, 96], weight[2]), DOWN + INV: scale}, DOWN + ".weight"),
    "another tensor beside it": ({DOWN + INV: scale, DOWN + ".zero_point": ("U8", [6, 3], bytes(18))}, "zero_point"),
    "scales without codes": ({DOWN + ".weight": None, UP + ".weight": weight, UP + INV: scale, DOWN + INV: scale}, DOWN + INV),
    "scales of DeepSeek without codes": ({DOWN + ".weight": None, UP + ".weight": weight, UP + INV: scale, DOWN + SCALE: scale}, DOWN + SCALE),
}
for what, (tensors, part) in BAD.items():
    tensors = {**{DOWN + ".weight": weight}, **tensors, **PLAIN}
    make({k: v for k, v in tensors.items() if v is not None}, fp8_config(None))
    refused("FP8, " + what, part)
for key, value in [("fmt", "e5m2"), ("scale_fmt", "e4m3"), ("expert_dtype", "int4"), ("weight_block_size", 128), ("mystery", 1), ("activation_scheme", "block")]:
    make({DOWN + ".weight": weight, DOWN + INV: scale, **PLAIN}, fp8_config(None, **{key: value}))
    refused("FP8, %s %s" % (key, value), key)
for block in ([0, 32], [-1, 32], [1], ["1", "32"], [1, 32, 32]):
    make({DOWN + ".weight": weight, DOWN + INV: scale, **PLAIN}, fp8_config(block))
    refused("FP8, weight_block_size %s" % block, "weight_block_size")
for block in ([1 << 62, 1 << 62], []):
    make({DOWN + ".weight": weight, DOWN + INV: scale, **PLAIN}, fp8_config(block))
    decodes("FP8, weight_block_size %s" % block, {DOWN + ".weight": small.numbers})
make({UP + ".weight_packed": ("U8", [ROWS, COLS // 2], four.code_bytes(4)), UP + ".weight_scale": ("U8", [ROWS, 3], four.scale_bytes()), **PLAIN},
     fp8_config([128, 128]))
refused("FP8 stated of another layout", "quantization_config")
# Written by quantize, and what it says: MiniMax-M3's.
make({DOWN + ".weight": ("F32", [64, 64], f32_bytes([f32(draw.gauss(0, 1)) for _ in range(4096)])), **PLAIN}, {"model_type": "llama"})
done("quantize to fp8", "quantize", MODEL, "-o", OUT, "-q", "--layout", "fp8", "--weights", "mxfp8-e4m3")
there, section = read_safetensors(OUT + "/model.safetensors"), read_json(OUT + "/config.json")["quantization_config"]
check("quantize to fp8", there[DOWN + ".weight"][:2] == ("F8_E4M3", [64, 64]) and there[DOWN + INV][:2] == ("U8", [64, 2]))
section.pop("mxfp")
check("quantize to fp8: config", section == {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32], "scale_fmt": "ue8m0",
                                             "modules_to_not_convert": ["lm_head"]}, section)
remove(MODEL)
shutil.move(OUT, MODEL)
lint("quantize to fp8")
refused("quantize to fp8 with MXFP4", "mxfp8-e4m3", "quantize", MODEL, "-o", OUT, "--layout", "fp8", "--weights", "mxfp4", code=2)

# ---- compressed-tensors 0.20: MXFP6 by pack_fp6_to_uint8(), several groups, presets MXFP4xFP8 and MXFP6A8
def mxfp6(rows, cols):
    return Blocks(rows, cols, range(64), 32, range(118, 132), e8m0)


def pack_fp6(row):
    """Words of four codes, the first in the lowest bits, as three bytes, the lowest first."""
    out = b""
    for i in range(0, len(row), 4):
        word = row[i] | row[i + 1] << 6 | row[i + 2] << 12 | row[i + 3] << 18
        out += bytes([word & 0xFF, word >> 8 & 0xFF, word >> 16 & 0xFF])
    return out


CT_FORMATS = {"mxfp4": ("mxfp4-pack-quantized", 4), "mxfp6": ("mxfp6-pack-quantized", 6), "mxfp8": ("mxfp8-quantized", 8), "nvfp4": ("nvfp4-pack-quantized", 4)}


def ct_tensors(module, form, blocks):
    name, scale = module + ".weight", module + ".weight_scale"
    if form == "mxfp6":
        return {name + "_packed": ("U8", [blocks.rows, blocks.cols * 3 // 4], b"".join(map(pack_fp6, blocks.codes))), scale: ("U8", [blocks.rows, blocks.cols // 32], blocks.scale_bytes())}
    if form == "mxfp8":
        return {name: ("F8_E4M3", [blocks.rows, blocks.cols], blocks.code_bytes(8)), scale: ("U8", [blocks.rows, blocks.cols // 32], blocks.scale_bytes())}
    tensors = {name + "_packed": ("U8", [blocks.rows, blocks.cols // 2], blocks.code_bytes(4))}
    if form == "nvfp4":
        return {**tensors, scale: ("F8_E4M3", [blocks.rows, blocks.cols // 16], blocks.scale_bytes()), name + "_global_scale": ("F32", [1], f32_bytes([1]))}
    return {**tensors, scale: ("U8", [blocks.rows, blocks.cols // 32], blocks.scale_bytes())}


def ct_arguments(bits, length, **more):
    return dict({"num_bits": bits, "type": "float", "strategy": "group", "group_size": length, "symmetric": True, "dynamic": False, "actorder": None,
                 "block_structure": None, "observer": "memoryless_minmax", "observer_kwargs": {}, "scale_dtype": "torch.uint8", "zp_dtype": "torch.uint8"}, **more)


def ct_group(form, targets, activations=None, stated=True):
    weights = ct_arguments(CT_FORMATS[form][1], 16 if form == "nvfp4" else 32)
    if form == "nvfp4":
        weights.update(strategy="tensor_group", scale_dtype="torch.float8_e4m3fn")
    return {"targets": targets, "weights": weights, "input_activations": activations, "output_activations": None, "format": CT_FORMATS[form][0] if stated else None}


def ct_config(*groups, form=None):
    return {"model_type": "llama", "quantization_config": {
        "quant_method": "compressed-tensors", "format": form or "mixed-precision", "quantization_status": "compressed", "ignore": ["lm_head"], "version": "0.20.0",
        "kv_cache_scheme": None, "sparsity_config": {}, "transform_config": {}, "global_compression_ratio": None,
        "config_groups": {"group_%d" % i: g for i, g in enumerate(groups)}}}


FP8_128 = ct_arguments(8, 128, dynamic=True, scale_dtype=None, zp_dtype=None) # MXFP4xFP8
MXFP8_ACTIVATIONS = ct_arguments(8, 32, dynamic=True) # MXFP6A8
six, four, eight, nv = mxfp6(ROWS, COLS), mxfp4(ROWS, COLS), mxfp8(ROWS, COLS), nvfp4(ROWS, COLS)
for what, activations in (("MXFP6A16", None), ("MXFP6A8", MXFP8_ACTIVATIONS)):
    make({**ct_tensors(DOWN, "mxfp6", six), **PLAIN}, ct_config(ct_group("mxfp6", ["Linear"], activations), form="mxfp6-pack-quantized"))
    decodes(what, {DOWN + ".weight": six.numbers})
    lint(what)
make({**ct_tensors(DOWN, "mxfp4", four), **PLAIN}, ct_config(ct_group("mxfp4", ["Linear"], FP8_128), form="mxfp4-pack-quantized"))
decodes("MXFP4xFP8", {DOWN + ".weight": four.numbers})
lint("MXFP4xFP8")
for targets in ([[Q, "model.layers.0.self_attn.v_proj"], ["re:.*up_proj"], ["re:.*o_proj$"], ["Linear"]], [["re:.*self_attn[.]q_proj"], [UP], ["re:.*o_proj"], ["Linear"]]):
    O = "model.layers.0.self_attn.o_proj"
    make({**ct_tensors(Q, "mxfp6", six), **ct_tensors(UP, "nvfp4", nv), **ct_tensors(O, "mxfp8", eight), **ct_tensors(DOWN, "mxfp4", four), **PLAIN},
         ct_config(ct_group("mxfp6", targets[0], MXFP8_ACTIVATIONS), ct_group("nvfp4", targets[1]), ct_group("mxfp8", targets[2]), ct_group("mxfp4", targets[3], FP8_128)))
    decodes("mixed-precision", {Q + ".weight": six.numbers, UP + ".weight": nv.numbers, O + ".weight": eight.numbers, DOWN + ".weight": four.numbers})
    lint("mixed-precision")
    done("mixed-precision, convert", "convert", MODEL, "-o", OUT, "-q", "--layout", "compressed-tensors")
    decodes("mixed-precision, again", {Q + ".weight": six.numbers, UP + ".weight": nv.numbers, O + ".weight": eight.numbers, DOWN + ".weight": four.numbers}, OUT)
    remove(OUT)
# Two groups, whose format is stated at the top of one alone or of none: the bits tell.
make({**ct_tensors(Q, "mxfp6", six), **ct_tensors(DOWN, "mxfp4", four), **PLAIN},
     ct_config(ct_group("mxfp6", [Q], None, False), ct_group("mxfp4", ["Linear"], None, False)))
decodes("mixed-precision without formats", {Q + ".weight": six.numbers, DOWN + ".weight": four.numbers})
make({**ct_tensors(UP, "nvfp4", nv), **PLAIN}, ct_config(ct_group("mxfp6", [Q]), ct_group("mxfp4", ["Linear"])))
refused("a format of no group", UP + ".weight")
make({**ct_tensors(DOWN, "mxfp4", four), **PLAIN}, ct_config(ct_group("mxfp4", ["Linear"]), dict(ct_group("mxfp8", [Q]), format="int-quantized")))
refused("a group of another kind", "int-quantized")
make({**ct_tensors(DOWN, "mxfp4", four), **PLAIN}, ct_config(ct_group("mxfp4", ["Linear"]), {"targets": [Q], "weights": ct_arguments(4, 128)}))
refused("a group of another length", "group_size")

# ---- ModelOpt 0.47: MIXED_PRECISION by process_layer_quant_config() and convert_hf_quant_config_format(), whose keys may name what modules
# are in, with prefixes of a wrapper; names of tensors are others
def mo_tensors(module, form, blocks, scale=1.0):
    tensors = {k.replace("_packed", ""): v for k, v in ct_tensors(module, form, blocks).items() if "global" not in k}
    return {**tensors, module + ".weight_scale_2": ("F32", [], f32_bytes([scale]))} if form == "nvfp4" else tensors


def mo_weights(bits, length):
    return {"dynamic": False, "num_bits": bits, "type": "float", "group_size": length}


PRODUCER = {"name": "modelopt", "version": "0.47.0"}
EXPERT = "backbone.layers.0.mlp.experts.0.down_proj"
nv.half = [f32(x * 0.5) for x in nv.numbers]
layers = {"model.language_model.layers.0.self_attn.q_proj": {"quant_algo": "MXFP8", "group_size": 32}, "backbone.layers.0.mlp.experts": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
          "model.language_model.layers.0.mlp.down_proj": {"quant_algo": "W4A8_MXFP4_FP8", "group_size": 32},
          "model.language_model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16}}
groups = {"group_0": {"input_activations": mo_weights(8, 32), "weights": mo_weights(8, 32), "targets": ["model.language_model.layers.0.self_attn.q_proj"]},
          "group_1": {"weights": mo_weights(4, 16), "targets": ["backbone.layers.0.mlp.experts"]},
          "group_2": {"input_activations": {"dynamic": False, "num_bits": 8, "type": "float"}, "weights": mo_weights(4, 32), "targets": ["model.language_model.layers.0.mlp.down_proj"]},
          "group_3": {"input_activations": mo_weights(4, 16), "weights": mo_weights(4, 16), "targets": ["model.language_model.layers.0.mlp.up_proj"]}}
tensors = {**mo_tensors(Q, "mxfp8", eight), **mo_tensors(EXPERT, "nvfp4", nv, 0.5), **mo_tensors(DOWN, "mxfp4", four), **mo_tensors(UP, "nvfp4", nv), **PLAIN}
want = {Q + ".weight": eight.numbers, EXPERT + ".weight": nv.half, DOWN + ".weight": four.numbers, UP + ".weight": nv.numbers}
first = {"model_type": "llama", "quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "producer": PRODUCER, "ignore": ["lm_head"], "config_groups": groups,
                                                        "quantized_layers": layers, "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}}
second = {"producer": PRODUCER, "quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "quantized_layers": layers, "exclude_modules": ["lm_head"]}}
for what, config, other in (("both", first, second), ("config.json alone", first, None), ("hf_quant_config.json alone", {"model_type": "llama"}, second)):
    make(tensors, config, other)
    decodes("ModelOpt MIXED_PRECISION, " + what, want)
    lint("ModelOpt MIXED_PRECISION, " + what)
make({**tensors, **ct_tensors("model.layers.1.self_attn.q_proj", "mxfp6", six)}, first, second)
refused("ModelOpt MIXED_PRECISION, a format that it does not state", "layers.1.self_attn.q_proj")
layers["model.language_model.layers.0.self_attn.k_proj"] = {"quant_algo": "W4A16_AWQ", "group_size": 128}
make(tensors, {"model_type": "llama"}, second)
refused("ModelOpt MIXED_PRECISION, AWQ", "k_proj.quant_algo")
# Experts in one tensor, each with its own tensor scale: numbers.
experts = [nvfp4(ROWS, COLS) for _ in range(2)]
stacked = {EXPERTS: ("U8", [2, ROWS, COLS // 2], b"".join(e.code_bytes(4) for e in experts)),
           EXPERTS + "_weight_scale": ("F8_E4M3", [2, ROWS, COLS // 16], b"".join(e.scale_bytes() for e in experts))}
MUSE = {"model_type": "muse_spark", "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "producer": PRODUCER, "ignore": ["lm_head"]}}
E_DOWN = EXPERTS.replace("gate_up_proj", "down_proj")
# sanitize() of muse_spark.py: gate and up are the halves of each expert's rows, down has one number; code x scale x scale_2.
halves, each = [0.5, 3.0, 0.7, 1e-3], [0.25, 1 / 3]
in_halves = [f32(x * f32(halves[2 * e + (i >= len(n.numbers) // 2)])) for e, n in enumerate(experts) for i, x in enumerate(n.numbers)]
in_each = [f32(x * f32(each[e])) for e, n in enumerate(experts) for x in n.numbers]
down = {E_DOWN: stacked[EXPERTS], E_DOWN + "_weight_scale": stacked[EXPERTS + "_weight_scale"], E_DOWN + "_weight_scale_2": ("F32", [2], f32_bytes(each)),
        E_DOWN + "_input_scale": ("F32", [2], f32_bytes([1.0, 2.0]))}
make({**stacked, EXPERTS + "_weight_scale_2": ("F32", [2, 2], f32_bytes(halves)), **down, **PLAIN}, MUSE)
decodes("Muse-Spark", {EXPERTS: in_halves, E_DOWN: in_each}, shapes={EXPERTS: [2, ROWS, COLS], E_DOWN: [2, ROWS, COLS]})
lint("Muse-Spark")
code, out, error = run("inspect", MODEL)
check("Muse-Spark: inspect", code == 0 and "already quantized: modelopt" in out and "refused" not in out, out + error)
done("Muse-Spark: report", "report", MODEL)
done("Muse-Spark: to other blocks", "quantize", MODEL, "-o", OUT, "--layout", "trn-x4", "--weights", "mxfp8", "--activations", "none")
remove(OUT)
os.makedirs(OUT + "-alone")
os.rename(MODEL + "/model.safetensors", OUT + "-alone/model.safetensors")
out = done("Muse-Spark: --to", "convert", OUT + "-alone/model.safetensors", "-o", OUT + ".safetensors", "--to", "mxfp8-e4m3", "--allow-rounding")
check("Muse-Spark: --to says what it was", "nvfp4 with tensor scales [2, %d, %d]" % (ROWS, COLS) in out, out)
os.rename(OUT + "-alone/model.safetensors", MODEL + "/model.safetensors")
remove(OUT + ".safetensors", OUT + "-alone")
refused("Muse-Spark: into another layout", EXPERTS + "|mxfp dequantize", "convert", MODEL, "-o", OUT, "--layout", "compressed-tensors")
refused("Muse-Spark: decoded on the way", EXPERTS + "|mxfp dequantize", "convert", MODEL, "-o", OUT, "--decode-rest", "f32")
for shape in ([2], [1], [2, 1], [1, 2], [2, 2, 1], [4], [2, 3]):
    n = 1
    for d in shape:
        n *= d
    make({**stacked, EXPERTS + "_weight_scale_2": ("F32", shape, f32_bytes([0.5] * n)), **PLAIN}, MUSE)
    refused("NVFP4 experts with tensor scales %s" % shape, EXPERTS + "_weight_scale_2|each of 2 matrices")
    make({**down, E_DOWN + "_weight_scale_2": ("F32", shape, f32_bytes([0.5] * n)), **PLAIN}, MUSE)
    if shape != [2]:
        refused("NVFP4 experts, down, with tensor scales %s" % shape, E_DOWN + "_weight_scale_2|each of 2 matrices")
    if len(shape) > 1:
        continue
    make({EXPERTS: stacked[EXPERTS], EXPERTS + "_scale": stacked[EXPERTS + "_weight_scale"], EXPERTS + "_scale_2": ("F32", shape, f32_bytes([0.5] * n)), **PLAIN}, None)
    if shape == [1]:
        decodes("NVFP4 experts with one tensor scale", {EXPERTS: [f32(x * 0.5) for e in experts for x in e.numbers]})
    else:
        refused("NVFP4 experts, other names, with tensor scales %s" % shape, EXPERTS + "_scale_2")
# MiniMax-M3.1: MXFP8 and, in experts, NVFP4 as compressed-tensors has it.
m31 = {"quant_method": "minimax_m3_nvfp4", "activation_scheme": "dynamic", "weight_block_size": [1, 32], "ignored_layers": ["lm_head"], "kv_cache_quant_algo": "FP8",
       "index_k_quant_type": "nvfp4", "attention_quant_algo": "FP8", "group_size": 16}
tensors = {Q + ".weight": ("F8_E4M3", [ROWS, COLS], eight.code_bytes(8)), Q + INV: ("U8", [ROWS, COLS // 32], eight.scale_bytes()), **ct_tensors(EXPERT, "nvfp4", nv), **PLAIN}
make(tensors, {"model_type": "minimax_m3", "quantization_config": m31})
decodes("MiniMax-M3.1", {Q + ".weight": eight.numbers, EXPERT + ".weight": nv.numbers})
make({**tensors, **ct_tensors(DOWN, "mxfp4", four)}, {"model_type": "minimax_m3", "quantization_config": m31})
refused("MiniMax-M3.1 with MXFP4", DOWN)

# ---- GGUF: F64 (type 28) is numbers, rounded to binary32 first, wherever weights are read
def gguf(path, kind, numbers):
    text = lambda x: struct.pack("<Q", len(x)) + x.encode()
    data = struct.pack("<%d%s" % (len(numbers), "d" if kind == 28 else "f"), *numbers)
    out = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("general.architecture") + struct.pack("<I", 8) + text("llama")
    out += text("blk.0.ffn_down.weight") + struct.pack("<IQQIQ", 2, 64, 64, kind, 0)
    with open(path, "wb") as file:
        file.write(out + bytes(-len(out) % 32) + data)


wide = [draw.gauss(0, 1) for _ in range(4096)]
paths = [WORK + "/f64.gguf", WORK + "/f32.gguf"]
gguf(paths[0], 28, wide)
gguf(paths[1], 0, [f32(x) for x in wide])
made = []
for path in paths:
    done("quantize " + path, "quantize", path, "-o", path + ".out.gguf", "-qf", "--weights", "mxfp4")
    made.append(open(path + ".out.gguf", "rb").read()[-4096 * 17 // 32:])
check("GGUF, F64", made[0] == made[1])
code, out, error = run("diff", paths[0], paths[1], "--json")
check("GGUF, F64: diff", json.loads(out)["tensors"][0]["compared"], out + error)
refused("GGUF, F64: gemm", "blk.0.ffn_down.weight|F64", "gemm", paths[1], paths[0], "-o", OUT + ".npy")

# ---- What is quantized once more is what its numbers would be, and gemm and eval read the same
grid, four = Grid(64, 96, 32, 32), mxfp4(64, 96)
for what, tensors, config in (("FP8", {DOWN + ".weight": grid.weight(), DOWN + SCALE: grid.scale(), **PLAIN}, fp8_config([32, 32])),
                              ("MLX", {**mlx_tensors(DOWN, "mxfp4", four), **PLAIN}, mlx_config(mlx_section("mxfp4")))):
    make(tensors, config)
    done(what + ": dequantize", "dequantize", MODEL, "-o", BACK, "-q")
    made = []
    for source, out in ((MODEL, OUT), (BACK, OUT + "2")):
        remove(out)
        done("quantize %s %s" % (what, source), "quantize", source, "-o", out, "-q", "--weights", "nvfp4", "--layout", "modelopt", "--activations", "none")
        made.append(read_safetensors(out + "/model.safetensors"))
    check(what + ": quantized once more", made[0] == made[1])
    config = read_json(OUT + "/config.json")
    check(what + ": its section is gone", "quantization" not in config and config["quantization_config"]["quant_method"] == "modelopt", config)
    write_safetensors(WORK + "/one.safetensors", {"a": ("F32", [96, 96], f32_bytes([float(i % 97 == 0) for i in range(96 * 96)]))})
    done(what + ": gemm", "gemm", WORK + "/one.safetensors", MODEL + ":" + DOWN + ".weight", "-o", WORK + "/c.safetensors", "-qf", "--a-format", "none")
    done(what + ": gemm of numbers", "gemm", WORK + "/one.safetensors", BACK + ":" + DOWN + ".weight", "-o", WORK + "/d.safetensors", "-qf", "--a-format", "none")
    check(what + ": gemm", list(read_safetensors(WORK + "/c.safetensors").values()) == list(read_safetensors(WORK + "/d.safetensors").values()))
    remove(OUT, OUT + "2", BACK)

finish()
