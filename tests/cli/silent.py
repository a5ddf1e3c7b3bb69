# SPDX-License-Identifier: MIT
"""silent.py MXFP WORK [CASES]: random small models in every layout, and in each one key, tensor or fact that is not as it should
be. A command that reads numbers then gives the right ones, which are worked out here from the formats' definitions, or ends with
one line that names the key or tensor, and leaves no output. Each case runs dequantize and one other command, which must take and
refuse the same.

Of a fact the mode says what is right:
  REFUSE  nobody can know the numbers: every command refuses the model and names the fact; lint and inspect name it
  SAME    the numbers are what they were, or the model is refused by the fact's name
  FOLD    the numbers are those that the fact makes of them, or the model is refused by its name

What leaves files that agree with themselves is no case, because nothing in them is wrong: other codes, other values of scales
and tensor scales, a permutation of rows, codes in nibbles of another order without a word about it, the codes of a square matrix
by columns, a whole configuration of the other kind of MXFP6, mxfp.transposed of a square matrix,
mxfp.cols that is missing or less than it was, E4M3 that says E5M2 where no configuration tells them apart (a file alone), modules
that `ignore` or `targets` name or do not name, and what configurations say of activations.

MXFP_TEST_SEED seeds what is drawn, MXFP_TEST_ROUNDS=N runs N times as many cases. MXFP_TEST_CASE=N runs the case of that number alone and
keeps its model in WORK."""
import copy, json, os, random, shutil, struct, subprocess, sys

from safetensors_file import bf16_bytes, f32_bytes, read_safetensors, write_safetensors

MXFP, WORK = sys.argv[1], sys.argv[2]
SEED = int(os.environ.get("MXFP_TEST_SEED", "38"))
CASES = int(sys.argv[3] if len(sys.argv) > 3 else 150) * int(os.environ.get("MXFP_TEST_ROUNDS", "1"))
ONE = os.environ.get("MXFP_TEST_CASE")
REFUSE, SAME, FOLD = "refuse", "same", "fold"
SIDE, VOCABULARY = 64, 48
MODEL, OUT = WORK + "/model", WORK + "/out"
O, DOWN = "model.layers.0.self_attn.o_proj", "model.layers.0.mlp.down_proj"
GATE_UP = "model.layers.0.mlp.experts.gate_up_proj"


# ---- the formats, from their definitions
def float_of(code, exponent_bits, mantissa_bits):
    """A number of a format without infinities: sign, exponent, mantissa."""
    bias = 2**(exponent_bits - 1) - 1
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent, mantissa = code >> mantissa_bits & (1 << exponent_bits) - 1, code & (1 << mantissa_bits) - 1
    if exponent == 0:
        return sign * mantissa * 2.0**(1 - bias - mantissa_bits)
    return sign * (2**mantissa_bits + mantissa) * 2.0**(exponent - bias - mantissa_bits)


E4M3 = [float_of(c, 4, 3) for c in range(256)]
# Format: bits of a code, elements of a block, what codes stand for, codes to draw from: no NaN or Inf.
FORMATS = {
    "mxfp4": (4, 32, [float_of(c, 2, 1) for c in range(16)], range(16)),
    "nvfp4": (4, 16, [float_of(c, 2, 1) for c in range(16)], range(16)),
    "mxfp6-e2m3": (6, 32, [float_of(c, 2, 3) for c in range(64)], range(64)),
    "mxfp6-e3m2": (6, 32, [float_of(c, 3, 2) for c in range(64)], range(64)),
    "mxfp8-e4m3": (8, 32, E4M3, [c for c in range(256) if c & 0x7F != 0x7F]),
    "mxfp8-e5m2": (8, 32, [float_of(c, 5, 2) for c in range(256)], [c for c in range(256) if c & 0x7F < 0x7C]),
    "mxint8": (8, 32, [(c - 256 * (c > 127)) / 64 for c in range(256)], range(256)),
}


def bits_of(codes, bits):
    """Codes one after the other from the low bit."""
    number = 0
    for i, code in enumerate(codes):
        number |= code << bits * i
    return number.to_bytes(len(codes) * bits // 8, "little")


class Numbers:
    """A matrix in a format: rows of codes and of scale bytes, a tensor scale that multiplies."""

    def __init__(self, draw, form, rows, cols, tensor_scale=1.0, grid=None, sparse=False):
        self.form, self.rows, self.cols = form, rows, cols
        bits, block, values, allowed = FORMATS[form]
        self.codes = [draw.choices(allowed, k=cols) for _ in range(rows)]
        # Two of four are kept, which may be zero, too; the others are.
        self.kept = [[sorted(draw.sample(range(4), 2)) for _ in range(cols // 4)] for _ in range(rows)] if sparse else None
        if sparse:
            self.codes = [[c if i % 4 in kept[i // 4] else 0 for i, c in enumerate(row)] for row, kept in zip(self.codes, self.kept)]
        self.scale_bytes = [[draw.randrange(0x28, 0x48) if form == "nvfp4" else draw.randrange(118, 124) for _ in range(cols // block)]
                            for _ in range(rows)]
        if grid is not None:
            self.grid = [[draw.randrange(118, 124) for _ in range(cols // grid[1])] for _ in range(rows // grid[0])]
            self.scale_bytes = [[self.grid[r // grid[0]][k // grid[1]] for k in range(0, cols, block)] for r in range(rows)]
        self.tensor_scale = struct.unpack("<f", struct.pack("<f", tensor_scale))[0] if form == "nvfp4" else 1.0
        scale = E4M3 if form == "nvfp4" else [2.0**(b - 127) for b in range(256)]
        self.want = [values[code] * scale[scales[i // block]] * self.tensor_scale
                     for codes, scales in zip(self.codes, self.scale_bytes) for i, code in enumerate(codes)]
        self.want = list(struct.unpack("<%df" % len(self.want), f32_bytes(self.want)))

    def packed(self):
        return b"".join(bits_of(row, FORMATS[self.form][0]) for row in self.codes)

    def kept_codes(self):
        return b"".join(bits_of([row[4 * g + i] for g, kept in enumerate(groups) for i in kept], FORMATS[self.form][0]) for row, groups in zip(self.codes, self.kept))

    def masks(self):
        return b"".join(bits_of([sum(1 << i for i in kept) for kept in groups], 4) for groups in self.kept)

    def scales(self):
        return bytes(b for row in self.scale_bytes for b in row)


# ---- files
GGUF_TYPES = {"F32": 0, "F16": 1, "Q8_0": 8, "BF16": 30, "MXFP4": 39, "NVFP4": 40}
GGUF_VALUES = {"u8": (0, "<B"), "u16": (2, "<H"), "u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q")}


def gguf_text(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_value(kind, value):
    if kind == "text":
        return struct.pack("<I", 8) + gguf_text(value)
    if kind == "texts":
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_text, value))
    if kind[:2] == "[]":
        number, form = GGUF_VALUES[kind[2:]]
        return struct.pack("<IIQ", 9, number, len(value)) + b"".join(struct.pack(form, x) for x in value)
    number, form = GGUF_VALUES[kind]
    return struct.pack("<I", number) + struct.pack(form, value)


def write_gguf(path, keys, tensors):
    out, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)), b""
    for key, (kind, value) in keys.items():
        out += gguf_text(key) + gguf_value(kind, value)
    for name, (dtype, shape, content) in tensors.items():
        out += gguf_text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape))
        out += struct.pack("<IQ", GGUF_TYPES[dtype] if isinstance(dtype, str) else dtype, len(data))
        data += content + bytes(-len(content) % 32)
    with open(path, "wb") as file:
        file.write(out + bytes(-len(out) % 32) + data)


def read_gguf_tensors(path):
    """Of a file of numbers alone: F32 tensors by name."""
    with open(path, "rb") as file:
        data = file.read()
    at = [24]
    n_tensors, n_keys = struct.unpack("<QQ", data[8:24])

    def take(form):
        n = struct.calcsize(form)
        at[0] += n
        return struct.unpack(form, data[at[0] - n:at[0]])[0]

    def text():
        n = take("<Q")
        at[0] += n
        return data[at[0] - n:at[0]].decode()

    forms = {number: form for number, form in GGUF_VALUES.values()}
    forms.update({1: "<b", 3: "<h", 11: "<q", 12: "<d"})

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = take("<I"), take("<Q")
            return [value(inner) for _ in range(n)]
        return take(forms[kind])

    for _ in range(n_keys):
        text(), value(take("<I"))
    heads = []
    for _ in range(n_tensors):
        name = text()
        shape = [take("<Q") for _ in range(take("<I"))][::-1]
        heads.append((name, shape, take("<I"), take("<Q")))
    start = -(-at[0] // 32) * 32
    out = {}
    for name, shape, dtype, offset in heads:
        n = 4
        for x in shape:
            n *= x
        out[name] = ("F32" if dtype == 0 else dtype, shape, data[start + offset:start + offset + n])
    return out


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


# ---- models
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": SIDE, "intermediate_size": SIDE,
          "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": VOCABULARY,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
          "hidden_act": "silu"}
GGUF_KEYS = {"general.architecture": ("text", "llama"), "llama.block_count": ("u32", 1), "llama.embedding_length": ("u32", SIDE),
             "llama.feed_forward_length": ("u32", SIDE), "llama.context_length": ("u32", 64), "llama.vocab_size": ("u32", VOCABULARY),
             "llama.attention.head_count": ("u32", 2), "llama.attention.head_count_kv": ("u32", 2),
             "llama.attention.layer_norm_rms_epsilon": ("f32", 1e-5), "llama.rope.freq_base": ("f32", 10000.0),
             "llama.rope.dimension_count": ("u32", 32)}
GGUF_NAMES = {O: "blk.0.attn_output", DOWN: "blk.0.ffn_down", "model.embed_tokens": "token_embd", "model.norm": "output_norm",
              "model.layers.0.input_layernorm": "blk.0.attn_norm", "model.layers.0.post_attention_layernorm": "blk.0.ffn_norm",
              "model.layers.0.self_attn.q_proj": "blk.0.attn_q", "model.layers.0.self_attn.k_proj": "blk.0.attn_k",
              "model.layers.0.self_attn.v_proj": "blk.0.attn_v", "model.layers.0.mlp.gate_proj": "blk.0.ffn_gate",
              "model.layers.0.mlp.up_proj": "blk.0.ffn_up"}


def plain_tensors(draw):
    """What is not quantized, in numbers that bf16 and f16 hold."""
    shapes = {"model.embed_tokens": (VOCABULARY, SIDE), "model.norm": (SIDE,)}
    for part in ("input_layernorm", "post_attention_layernorm"):
        shapes["model.layers.0." + part] = (SIDE,)
    for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
        shapes["model.layers.0." + part] = (SIDE, SIDE)
    out = {}
    for name, shape in shapes.items():
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        numbers = [1.0] * n if "norm" in name else [draw.randrange(-31, 32) / 128 for _ in range(n)]
        out[name + ".weight"] = (shape, {"F32": f32_bytes(numbers), "BF16": bf16_bytes(numbers), "F16": struct.pack("<%de" % n, *numbers)})
    return out


PLAIN = plain_tensors(random.Random(3))

CT_ARGUMENTS = {"num_bits": 4, "type": "float", "symmetric": True, "group_size": 32, "strategy": "group", "block_structure": None,
                "dynamic": False, "actorder": None, "scale_dtype": "torch.uint8", "zp_dtype": None, "observer": "minmax",
                "observer_kwargs": {}}
CT_NAMES = {"mxfp4": "mxfp4-pack-quantized", "nvfp4": "nvfp4-pack-quantized", "mxfp6-e2m3": "mxfp6-pack-quantized",
            "mxfp6-e3m2": "mxfp6-e3m2-pack-quantized", "mxfp8-e4m3": "mxfp8-quantized", "mxfp8-e5m2": "mxfp8-e5m2-quantized",
            "mxint8": "mxint8-quantized"}
DTYPES = {"mxfp8-e4m3": "F8_E4M3", "mxfp8-e5m2": "F8_E5M2", "mxint8": "I8"}


def ct_sparse(name, n):
    """Kept codes, and 4 bits for each group of 4: doc/layout.md."""
    out = {k: v for k, v in ct_tensors(name, n).items() if "scale" in k}
    out[name + ".weight_sparse"] = ("U8", [n.rows, n.cols // 2 * FORMATS[n.form][0] // 8], n.kept_codes())
    out[name + ".weight_mask"] = ("U8", [n.rows, n.cols // 8], n.masks())
    return out


def ct_section(form):
    weights = dict(CT_ARGUMENTS, num_bits=FORMATS[form][0], group_size=FORMATS[form][1], type="int" if form == "mxint8" else "float")
    if form == "nvfp4":
        weights.update(strategy="tensor_group", scale_dtype="torch.float8_e4m3fn")
    return {"quant_method": "compressed-tensors", "format": CT_NAMES[form], "quantization_status": "compressed",
            "global_compression_ratio": None, "ignore": ["lm_head"], "version": "0.20.0", "sparsity_config": {}, "transform_config": {},
            "kv_cache_scheme": None,
            "config_groups": {"group_0": {"targets": ["Linear"], "format": CT_NAMES[form], "weights": weights,
                                          "input_activations": None, "output_activations": None}}}


def ct_tensors(name, n):
    shape = [n.rows, n.cols * FORMATS[n.form][0] // 8]
    four = FORMATS[n.form][0] < 8
    out = {name + (".weight_packed" if four else ".weight"): ("U8" if four else DTYPES[n.form], shape, n.packed()),
           name + ".weight_scale": ("F8_E4M3" if n.form == "nvfp4" else "U8", [n.rows, n.cols // FORMATS[n.form][1]], n.scales())}
    if n.form == "nvfp4":
        out[name + ".weight_global_scale"] = ("F32", [1], f32_bytes([1 / n.tensor_scale]))
    return out


def modelopt_tensors(name, n):
    out = {k.replace("weight_packed", "weight"): v for k, v in ct_tensors(name, n).items() if "global" not in k}
    if n.form == "nvfp4":
        out[name + ".weight_scale_2"] = ("F32", [], f32_bytes([n.tensor_scale]))
    return out


PRODUCER = {"name": "modelopt", "version": "0.47.0"}
ALGORITHMS = {"nvfp4": "NVFP4", "mxfp4": "MXFP4", "mxfp8-e4m3": "MXFP8"}


def modelopt_section(form):
    group = {"weights": {"dynamic": False, "num_bits": FORMATS[form][0], "type": "float", "group_size": FORMATS[form][1]},
             "targets": ["Linear"]}
    return {"quant_method": "modelopt", "quant_algo": ALGORITHMS[form], "ignore": ["lm_head"], "producer": PRODUCER,
            "config_groups": {"group_0": group}, "kv_cache_scheme": None}


def modelopt_second(form):
    return {"producer": PRODUCER, "quantization": {"quant_algo": ALGORITHMS[form], "kv_cache_quant_algo": None,
                                                   "group_size": FORMATS[form][1], "exclude_modules": ["lm_head"]}}


QUARK_TENSOR = {"dtype": "fp4", "is_dynamic": False, "qscheme": "per_group", "ch_axis": -1, "group_size": 32, "block_size": None,
                "symmetric": None, "round_method": "half_even", "scale_type": "float", "scale_format": "e8m0",
                "scale_calculation_mode": "even", "mx_element_dtype": None, "observer_cls": "PerBlockMXObserver",
                "is_scale_quant": False}


def quark_section(form):
    return {"global_quant_config": {"input_tensors": None, "output_tensors": None, "weight": QUARK_TENSOR, "bias": None,
                                    "target_device": None},
            "exclude": ["lm_head"], "softmax_quant_spec": None, "quant_method": "quark", "algo_config": [{"name": "gptq"}],
            "layer_type_quant_config": {}, "layer_quant_config": {}, "kv_cache_quant_config": {}, "quant_mode": "eager_mode",
            "version": "0.13", "export": {"kv_cache_group": [], "min_kv_scale": 0.0, "pack_method": "reorder",
                                          "weight_format": "real_quantized", "weight_merge_groups": None}}


def auto_round_section(form):
    return {"quant_method": "auto-round", "bits": FORMATS[form][0], "group_size": FORMATS[form][1], "sym": True, "iters": 0,
            "data_type": "nv_fp" if form == "nvfp4" else "mx_fp", "packing_format": "auto_round:llm_compressor",
            "autoround_version": "0.16.1", "block_name_to_quantize": "model.layers"}


MLX_MODES = {"mxfp4": "mxfp4", "nvfp4": "nvfp4", "mxfp8-e4m3": "mxfp8"}


def mlx_tensors(name, n):
    bits, block = FORMATS[n.form][:2]
    return {name + ".weight": ("U32", [n.rows, n.cols * bits // 32], n.packed()),
            name + ".scales": ("U8", [n.rows, n.cols // block], n.scales())}


def mlx_section(form):
    return {"group_size": FORMATS[form][1], "bits": FORMATS[form][0], "mode": MLX_MODES[form]}


def fp8_section(form):
    return {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [32, 32], "scale_fmt": "ue8m0",
            "modules_to_not_convert": ["lm_head"]}


def fp8_tensors(name, n, draw):
    end, dtype = draw.choice([".weight_scale_inv", ".scale"]), draw.choice(["U8", "F8_E8M0"])
    codes = draw.choice(["I8", "U8"]) if n.form == "mxfp4" else "F8_E4M3"
    grid = n.scale_bytes if n.form == "mxfp4" else n.grid
    return {name + ".weight": (codes, [n.rows, n.cols * FORMATS[n.form][0] // 8], n.packed()),
            name + end: (dtype, [len(grid), len(grid[0])], bytes(b for row in grid for b in row))}


def trn_tensors(name, n):
    """Word (p, t, row): elements 512 t + 4 p + 0 to 3, the first lowest; a scale for 8 p; columns padded to 512."""
    four = n.form == "mxfp4"
    words, scales = b"", b""
    for p in range(128):
        for codes in n.codes:
            lane = (codes + [0] * (512 - n.cols))[4 * p:4 * p + 4]
            words += bits_of(lane, 4 if four else 8)
    for s in range(16):
        scales += bytes(row[s] if s < len(row) else 127 for row in n.scale_bytes)
    suffix = {"mxfp4": "_e2m1_x4", "mxfp8-e4m3": "_e4m3_x4", "mxfp8-e5m2": "_e5m2_x4"}[n.form]
    return {name + ".weight" + suffix: ("U16" if four else "U32", [128, 1, n.rows], words),
            name + ".weight_x4_scale": ("U8", [16, 1, n.rows], scales)}


def gguf_tensors(name, n):
    """Blocks of ggml-common.h."""
    data = b""
    for codes, scales in zip(n.codes, n.scale_bytes):
        if n.form == "mxfp4":
            for b, scale in enumerate(scales):
                e = codes[32 * b:32 * b + 32]
                data += bytes([scale] + [e[i] | e[i + 16] << 4 for i in range(16)])
        else:
            for b in range(0, n.cols // 64):
                data += bytes(scales[4 * b:4 * b + 4])
                for k in range(4 * b, 4 * b + 4):
                    e = codes[16 * k:16 * k + 16]
                    data += bytes(e[i] | e[i + 8] << 4 for i in range(8))
    out = {name + ".weight": (n.form.upper(), [n.rows, n.cols], data)}
    if n.form == "nvfp4":
        out[name + ".scale"] = ("F32", [1], f32_bytes([n.tensor_scale]))
    return out


class Model:
    """What is written for one case. want: name -> (shape, numbers); quantized: the names of weights, without an end."""

    def __init__(self, kind, number):
        layout, form = kind
        draw = random.Random("%s %d" % (kind, number))
        self.layout, self.form, self.number, self.kind = layout, form, number, kind
        self.tensors, self.metadata, self.want, self.second, self.index = {}, {}, {}, None, None
        self.keys = None
        self.alone = False
        self.quantized = [O, DOWN]
        # Of some instances 32 rows share scales, or two of four codes are kept; a GGUF file has Q8_0, or is two files.
        self.squares = layout == "compressed-tensors" and form != "nvfp4" and number == 1
        self.sparse = layout == "compressed-tensors" and number == 2
        self.split = layout == "gguf" and number == 2
        self.config = copy.deepcopy(CONFIG)
        self.config["torch_dtype"] = "bfloat16"
        self.fields = {}
        dtype = form.upper() if layout == "plain" else draw.choice(["F32", "BF16", "F16"])
        if layout == "gguf":
            dtype = "F32"
        for name, (shape, data) in PLAIN.items():
            self.tensors[name] = (dtype if layout != "gguf" else "F32", shape, data[dtype])
        if layout == "gpt-oss":
            self.make_experts(draw)
            return
        for module in self.quantized:
            if layout == "plain":
                numbers = [draw.randrange(-31, 32) / 128 for _ in range(SIDE * SIDE)]
                data = {"F32": f32_bytes, "BF16": bf16_bytes, "F16": lambda x: struct.pack("<%de" % len(x), *x)}[dtype](numbers)
                self.tensors[module + ".weight"] = (dtype, [SIDE, SIDE], data)
                self.want[module + ".weight"] = ([SIDE, SIDE], numbers)
                continue
            n = Numbers(draw, form, SIDE, SIDE, draw.choice([.25, .125]) if layout not in ("modelopt", "gguf") else draw.uniform(.05, .2))
            if layout in ("mlx", "fp8"):
                self.grid = draw.choice([(1, 32), (1, 32), (32, 32), (64, 64)]) if layout == "fp8" and form != "mxfp4" else None
                n = Numbers(draw, form, SIDE, SIDE, 1, self.grid)
            if self.squares or self.sparse:
                n = Numbers(draw, form, SIDE, SIDE, draw.choice([.25, .125]), (32, 32) if self.squares else None, self.sparse)
            make = {"mlx": mlx_tensors, "fp8": lambda name, n: fp8_tensors(name, n, draw), "compressed-tensors": ct_tensors, "auto-round": ct_tensors, "modelopt": modelopt_tensors,
                    "quark": modelopt_tensors, "trn-x4": trn_tensors, "gguf": gguf_tensors}[layout]
            make = ct_sparse if self.sparse else make
            self.tensors.update(make(module, n))
            self.want[module + ".weight"] = ([SIDE, SIDE], n.want)
            if layout == "trn-x4":
                self.metadata["mxfp.cols.%s.weight" % module] = str(SIDE)
        if self.squares:
            self.metadata["mxfp.block"] = "32x32"
        if self.sparse:
            self.metadata["mxfp.sparsity"] = "2:4"
        if layout == "gguf" and number > 0:
            self.make_q8_0(draw)
        if layout == "gguf":
            self.keys = copy.deepcopy(GGUF_KEYS)
            rename = lambda x: GGUF_NAMES[max((k for k in GGUF_NAMES if x.startswith(k + ".")), key=len)] + x[len(max(
                (k for k in GGUF_NAMES if x.startswith(k + ".")), key=len)):]
            self.tensors = {rename(k): v for k, v in self.tensors.items()}
            self.want = {rename(k): v for k, v in self.want.items()}
            self.quantized = [GGUF_NAMES[x] for x in self.quantized]
        sections = {"compressed-tensors": ct_section, "auto-round": auto_round_section, "modelopt": modelopt_section,
                    "quark": quark_section, "mlx": mlx_section, "fp8": fp8_section}
        if layout in sections:
            self.config["quantization_config"] = copy.deepcopy(sections[layout](form))
            if self.sparse:
                section = self.config["quantization_config"]
                section["format"] = section["config_groups"]["group_0"]["format"] = CT_NAMES[form] + "-sparse"
        if layout == "mlx":
            self.config["quantization"] = mlx_section(form)
        if layout == "trn-x4":
            self.config["quantization_config"] = {"quant_method": "trn-x4", "ignore": []}
        if layout == "modelopt":
            self.second = copy.deepcopy(modelopt_second(form))

    def make_q8_0(self, draw):
        """A matrix of ggml's Q8_0: 32 elements in a scale in f16 and as many signed bytes."""
        name, numbers, data = "model.layers.0.mlp.up_proj.weight", [], b""
        for _ in range(SIDE * SIDE // 32):
            scale, codes = draw.randrange(1, 64) / 4096, [draw.randrange(-127, 128) for _ in range(32)]
            data += struct.pack("<e32b", scale, *codes)
            numbers += [scale * c for c in codes]
        self.tensors[name] = ("Q8_0", [SIDE, SIDE], data)
        self.want[name] = ([SIDE, SIDE], numbers)

    def make_experts(self, draw):
        self.config = {"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}}
        self.quantized = [GATE_UP, GATE_UP.replace("gate_up", "down")]
        mark = draw.choice("_.")
        for name in self.quantized:
            experts = [Numbers(draw, "mxfp4", SIDE, SIDE) for _ in range(2)]
            self.tensors[name + mark + "blocks"] = ("U8", [2, SIDE, SIDE // 32, 16], b"".join(e.packed() for e in experts))
            self.tensors[name + mark + "scales"] = ("U8", [2, SIDE, SIDE // 32], b"".join(e.scales() for e in experts))
            self.tensors[name + "_bias"] = ("BF16", [2, SIDE], bytes(4 * SIDE))
            # transformers has them [E, K, N].
            self.want[name] = ([2, SIDE, SIDE], [e.want[r * SIDE + c] for e in experts for c in range(SIDE) for r in range(SIDE)])

    def copy(self):
        other = copy.copy(self)
        other.tensors, other.metadata, other.want = dict(self.tensors), dict(self.metadata), dict(self.want)
        other.config, other.second, other.keys = copy.deepcopy(self.config), copy.deepcopy(self.second), copy.deepcopy(self.keys)
        return other

    def part(self, module, ends):
        """The first of a module's tensors whose name ends in one of those."""
        for end in ends:
            for name in self.tensors:
                if name.startswith(module) and name.endswith(end):
                    return name
        return None

    def write(self, path):
        remove(path)
        if self.keys is not None and self.split:
            return self.write_split(path)
        if self.keys is not None:
            write_gguf(path + ".gguf", self.keys, self.tensors)
            return path + ".gguf"
        os.mkdir(path)
        if self.index is None:
            write_safetensors(path + "/model.safetensors", self.tensors, self.metadata)
        else:
            self.write_shards(path)
        if self.config is not None:
            write_json(path + "/config.json", self.config)
        if self.second is not None:
            write_json(path + "/hf_quant_config.json", self.second)
        return path + "/model.safetensors" if self.alone else path

    def write_split(self, path):
        """Two files as llama-gguf-split writes them, of which the first has the keys; the first is named."""
        os.mkdir(path)
        names, n = list(self.tensors), len(self.tensors)
        for i, part in enumerate((names[:n // 2], names[n // 2:])):
            keys = {"split.no": ("u16", i), "split.count": ("u16", 2), "split.tensors.count": ("i32", n)}
            write_gguf(path + "/model-0000%d-of-00002.gguf" % (i + 1), {**(self.keys if i == 0 else {}), **keys}, {k: self.tensors[k] for k in part})
        return path + "/model-00001-of-00002.gguf"

    def write_shards(self, path):
        """Parts of a tensor in two files; index: what the map says otherwise."""
        names = ["model-0000%d-of-00002.safetensors" % i for i in (1, 2)]
        where = {name: names[i % 2] for i, name in enumerate(self.tensors)}
        for file in names:
            write_safetensors(path + "/" + file, {k: v for k, v in self.tensors.items() if where[k] == file}, self.metadata)
        where.update(self.index)
        where = {k: v for k, v in where.items() if v is not None}
        write_json(path + "/model.safetensors.index.json", {"metadata": {}, "weight_map": where})


KINDS = [("compressed-tensors", f) for f in FORMATS] + [("compressed-tensors", "mxfp4"), ("compressed-tensors", "nvfp4")]
KINDS += [("modelopt", f) for f in ("nvfp4", "mxfp4", "mxfp8-e4m3", "nvfp4")]
KINDS += [("quark", "mxfp4")] * 2 + [("gpt-oss", "mxfp4")] * 2 + [("auto-round", f) for f in ("mxfp4", "nvfp4", "mxfp8-e4m3")]
KINDS += [("trn-x4", f) for f in ("mxfp4", "mxfp8-e4m3", "mxfp8-e5m2")] + [("gguf", f) for f in ("mxfp4", "nvfp4")] * 2
KINDS += [("mlx", f) for f in MLX_MODES] + [("fp8", f) for f in ("mxfp8-e4m3", "mxfp8-e4m3", "mxfp4")]
KINDS += [("plain", f) for f in ("f32", "bf16", "f16")]
INSTANCES = 3

# ---- facts: (layouts and formats, path or tensor, values, mode). A value that is callable makes one of the model's format.
CT, MO, QU, AR, GO, TR, GG, PL = "compressed-tensors", "modelopt", "quark", "auto-round", "gpt-oss", "trn-x4", "gguf", "plain"
ML, F8 = "mlx", "fp8"
SAFE = (CT, MO, QU, AR, GO, TR)
G, W = ("config_groups", "group_0"), ("config_groups", "group_0", "weights")
QW = ("global_quant_config", "weight")
TRANSFORM = {"config_groups": {"u": {"type": "hadamard", "apply": [{"targets": ["Linear"], "location": "input"}]}}}


def others(values, own):
    """Of values by formats those of other formats."""
    return lambda m: [v for f, v in values.items() if v != values.get(m.form)] if own else values


KEYS = [
    # compressed-tensors: QuantizationConfig, QuantizationScheme, QuantizationArgs
    (CT, ("format",), others(CT_NAMES, True), REFUSE),
    (CT, ("format",), ["marlin-24", "int-quantized", "float-quantized", "pack-quantized", "naive-quantized", "sparse-bitmask", 4, True, ["x"],
                       "mxfp4"], REFUSE),
    (CT, ("format",), ["mixed-precision", None], SAME),
    (CT, G + ("format",), others(CT_NAMES, True), REFUSE),
    (CT, G + ("format",), ["int-quantized", "nvfp4", "pack-quantized"], REFUSE),
    (CT, W + ("num_bits",), lambda m: [x for x in (2, 3, 4, 5, 6, 8, 16, "4", 4.5, None) if x != FORMATS[m.form][0]], REFUSE),
    (CT, W + ("type",), lambda m: ["int" if m.form != "mxint8" else "float", "nf4", None], REFUSE),
    (CT, W + ("group_size",), lambda m: [x for x in (-1, 0, 8, 16, 32, 64, 128, None) if x != FORMATS[m.form][1]], REFUSE),
    (CT, W + ("strategy",), lambda m: ["tensor", "channel", "block", "token", "attn_head",
                                       "group" if m.form == "nvfp4" else "tensor_group"], REFUSE),
    (CT, W + ("symmetric",), [False], REFUSE), (CT, W + ("dynamic",), [True, "local"], REFUSE),
    (CT, W + ("block_structure",), [[128, 128], "32x32"], REFUSE), (CT, W + ("actorder",), ["group", True, "dynamic"], REFUSE),
    (CT, W + ("scale_dtype",), ["torch.float16", "torch.bfloat16", "torch.float32"], REFUSE),
    (CT, W + ("scale_dtype",), ["torch.uint8", "torch.float8_e4m3fn"], SAME),
    (CT, W + ("zp_dtype",), ["torch.int8"], SAME), (CT, W + ("observer",), ["mse"], SAME),
    (CT, ("quantization_status",), ["calibration", "initialized"], REFUSE), (CT, ("quantization_status",), ["frozen"], SAME),
    (CT, ("sparsity_config",), [{"format": "sparse-24-bitmask"}, {"format": "sparse-bitmask", "targets": []}, {"mask": 1}], REFUSE),
    (CT, ("transform_config",), [TRANSFORM], REFUSE), (CT, ("moe_sparsity_config",), [{"method": "novice"}], REFUSE),
    (CT, ("fp8_dtype_flavor",), ["float8_e4m3fnuz"], REFUSE),
    (CT, ("config_groups", "group_1"), [{"targets": ["x"], "weights": {"num_bits": 3, "type": "int", "group_size": 128}},
                                        {"targets": ["x"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}], REFUSE),
    (CT, ("config_groups",), ["all", 3, ["x"]], REFUSE), (CT, W, ["fp4", 4], REFUSE),
    (CT, ("ignore",), [["lm_head", "re:.*gate"], []], SAME), (CT, ("global_compression_ratio",), [1.9], SAME),
    (CT, ("kv_cache_scheme",), [{"num_bits": 8, "type": "float"}], SAME), (CT, ("version",), ["0.19"], SAME),
    (CT, ("quant_method",), ["modelslim", "gptq", "awq", "bitsandbytes", "torchao", "mxfp5", "hqq", "quanto", 7], REFUSE),
    (CT, ("quant_method",), [None], SAME),
    # ModelOpt: convert_hf_quant_config_format()
    (MO, ("quant_algo",), others(ALGORITHMS, True), REFUSE),
    (MO, ("quant_algo",), ["NVFP4_SVD", "NVFP4_SVDQUANT", "FP8", "W4A16_AWQ", "INT4_AWQ", "FP8_PB_WO", "W8A8_SQ_PER_CHANNEL", "MXFP6", 4], REFUSE),
    (MO, ("group_size",), [8, 64, 128, -1], REFUSE), (MO, ("group_size",), lambda m: [48 - FORMATS[m.form][1]], REFUSE),
    (MO, ("has_zero_point",), [True], REFUSE), (MO, ("lora_rank",), [32], REFUSE),
    (MO, W + ("num_bits",), lambda m: [12 - FORMATS[m.form][0], 6, "4"], REFUSE), (MO, W + ("type",), ["int"], REFUSE),
    (MO, W + ("group_size",), lambda m: [48 - FORMATS[m.form][1], 128], REFUSE), (MO, W + ("dynamic",), [True], REFUSE),
    (MO, W + ("strategy",), ["channel", "tensor", "block"], REFUSE), (MO, G + ("lora_rank",), [8], REFUSE),
    (MO, G + ("has_zero_point",), [True], REFUSE),
    (MO, G + ("quant_algo",), others(ALGORITHMS, True), REFUSE),
    (MO, ("quantized_layers",), [{O: {"quant_algo": "W4A16_AWQ", "group_size": 128}}, {O: {"quant_algo": "FP8"}}, {O: {"lora_rank": 8}}],
     REFUSE),
    (MO, ("quantized_layers",), lambda m: [{O: {"quant_algo": v}} for f, v in ALGORITHMS.items() if f != m.form], REFUSE),
    (MO, ("exclude_modules",), [["x"]], SAME), (MO, ("packed_modules_mapping",), [{"qkv": ["q"]}], SAME),
    (MO, ("producer",), [{"name": "modelopt", "version": "0.50"}], SAME), (MO, ("kv_cache_scheme",), ["NVFP4"], SAME),
    (MO, ("quant_method",), ["modelopt_fp8", "gptq", "svdquant", "w4afp8", "modelopt_int4"], REFUSE),
    (MO, ("quant_method",), [None], SAME),
    # Quark: QConfig, QTensorConfig
    (QU, QW + ("dtype",), ["fp8_e4m3", "int4", "uint4", "fp6_e2m3", "int8", "mxfp6", "bfp16"], REFUSE),
    (QU, QW + ("qscheme",), ["per_channel", "per_tensor", "per_block"], REFUSE), (QU, QW + ("symmetric",), [False], REFUSE),
    (QU, QW + ("group_size",), [16, 64, 128, -1, None], REFUSE), (QU, QW + ("block_size",), [16, [32, 32]], REFUSE),
    (QU, QW + ("ch_axis",), [0], REFUSE), (QU, QW + ("scale_format",), ["float32", "fp8_e4m3", "e5m3"], REFUSE),
    (QU, QW + ("mx_element_dtype",), ["fp8_e4m3", "fp6_e3m2", "int8"], REFUSE), (QU, QW + ("is_scale_quant",), [True], REFUSE),
    (QU, QW + ("is_dynamic",), [True], REFUSE), (QU, ("global_quant_config", "bias"), [QUARK_TENSOR], REFUSE),
    (QU, ("layer_quant_config",), [{"*.o_proj": {"weight": dict(QUARK_TENSOR, dtype="int4")}}, {"*.o_proj": {"weight": dict(QUARK_TENSOR, qscheme="per_channel")}},
                                   {"*.o_proj": {"weight": dict(QUARK_TENSOR, dtype="fp8_e4m3", qscheme="per_tensor")}}, {"*": {"skew": 1}}], REFUSE),
    (QU, ("layer_quant_config",), [{"*.x_proj": {"weight": dict(QUARK_TENSOR, dtype="fp8_e4m3", qscheme="per_tensor", group_size=None, scale_format=None)}}], SAME),
    (QU, ("layer_type_quant_config",), [{"Linear": {"weight": dict(QUARK_TENSOR, dtype="int4")}}], REFUSE),
    (QU, ("algo_config",), [[{"name": "rotation", "r4": True}], [{"name": "rotation", "online_r1_rotation": True}], [{"name": "svdquant"}],
                            [{"name": "quarot"}], [{"name": "rotation", "r3": True}]], REFUSE),
    (QU, ("algo_config",), [[{"name": "awq"}], [{"name": "rotation", "r1": True, "r4": False}]], SAME),
    (QU, ("export", "weight_format"), ["fake_quantized"], REFUSE), (QU, ("export", "pack_method"), ["shuffle"], REFUSE),
    (QU, ("softmax_quant_spec",), [{}], SAME), (QU, ("quant_mode",), ["fx_graph_mode"], SAME), (QU, ("version",), ["0.14"], SAME),
    (QU, ("quant_method",), ["gptq", "quark_int4"], REFUSE), (QU, ("global_quant_config",), ["fp4"], REFUSE),
    # auto-round: SerializedCompressorConfig
    (AR, ("bits",), lambda m: [12 - FORMATS[m.form][0], 2, 3], REFUSE), (AR, ("group_size",), lambda m: [48 - FORMATS[m.form][1], 128, -1], REFUSE),
    (AR, ("data_type",), lambda m: ["int", "fp8", "mx_int", "nv_fp" if m.form != "nvfp4" else "mx_fp"], REFUSE), (AR, ("sym",), [False], REFUSE),
    (AR, ("super_bits",), [6], REFUSE), (AR, ("super_group_size",), [16], REFUSE), (AR, ("rotation_config",), [{"block_size": 32}], REFUSE),
    (AR, ("rotation_configs",), [[{"block_size": 32}]], REFUSE),
    (AR, ("packing_format",), ["auto_round:auto_gptq", "auto_round:auto_awq", "auto_round:exllamav2", "auto_round:gptq"], REFUSE),
    (AR, ("extra_config",), [{O: {"bits": 3}}, {O: {"sym": False}}, {O: {"data_type": "int2"}}, {O: {"zero": 1}}], REFUSE),
    (AR, ("extra_config",), [{"lm_head": {"bits": 16, "data_type": "fp"}}], SAME),
    (AR, ("extra_config",), lambda m: [{O: {"bits": 12 - FORMATS[m.form][0], "data_type": "mx_fp"}}], SAME),
    (AR, ("iters",), [200], SAME), (AR, ("backend",), ["auto"], SAME), (AR, ("act_bits",), [8], SAME), (AR, ("quant_method",), ["gptq", "awq"], REFUSE),
    # gpt-oss, ours
    (GO, ("modules_to_not_convert",), [["x"]], SAME), (GO, ("dequantize",), [True], SAME), (GO, ("quant_method",), ["gptq", "mxfp6"], REFUSE),
    (TR, ("ignore",), [["x"]], SAME), (TR, ("quant_method",), ["gptq", "trn-x8"], REFUSE),
    # MLX: quantize_model() of mlx-lm
    (ML, ("mode",), others(MLX_MODES, True), REFUSE), (ML, ("mode",), ["affine", "mxfp6", 4], REFUSE),
    (ML, ("bits",), lambda m: [12 - FORMATS[m.form][0], 3, 2, "4"], REFUSE), (ML, ("group_size",), lambda m: [48 - FORMATS[m.form][1], 64, 128], REFUSE),
    (ML, (O,), [{"bits": 8, "group_size": 64, "mode": "affine"}, {"mode": "mxfp5"}, 3, {"skew": 1}, {"bits": 6}], REFUSE),
    (ML, (O,), [True, {}], SAME), (ML, ("quant_method",), ["gptq", "fp8", "torchao"], REFUSE), (ML, ("global_scale",), [True], REFUSE),
    # FP8: FineGrainedFP8Config, Fp8Config
    (F8, ("fmt",), ["e5m2", "int8", 8], REFUSE), (F8, ("scale_fmt",), ["e4m3", "bf16"], REFUSE), (F8, ("scale_fmt",), ["float", None], SAME),
    (F8, ("expert_dtype",), ["int4", "fp6"], REFUSE), (F8, ("expert_dtype",), ["fp4", "fp8"], SAME), (F8, ("activation_scheme",), ["static"], SAME),
    (F8, ("activation_scheme",), ["block"], REFUSE), (F8, ("weight_block_size",), ["128", 3, {"a": 1}], REFUSE),
    (F8, ("weight_block_size",), [[128, 128], [1, 32], [64, 32], None, []], SAME), (F8, ("ignored_layers",), [["x"]], SAME),
    (F8, ("quant_method",), ["gptq", "awq", "mxfp5"], REFUSE), (F8, ("quant_method",), ["mxfp8"], SAME),
]
# hf_quant_config.json: its `quantization`
SECOND = [
    (("quantization", "quant_algo"), others(ALGORITHMS, True), REFUSE), (("quantization", "quant_algo"), ["FP8", "NVFP4_SVD", "INT4_AWQ"], REFUSE),
    (("quantization", "group_size"), lambda m: [48 - FORMATS[m.form][1], 128, 8], REFUSE),
    (("quantization", "has_zero_point"), [True], REFUSE), (("quantization", "lora_rank"), [8], REFUSE),
    (("quantization", "kv_cache_quant_algo"), ["FP8", "NVFP4", "INT8"], SAME), (("quantization", "exclude_modules"), [["x"]], SAME),
    (("quantization", "quantized_layers"), [{O: {"quant_algo": "FP8"}}, {O: {"shift": 1}}], REFUSE),
    (("quantization",), ["NVFP4", 3, ["NVFP4"]], REFUSE), (("producer",), [{"name": "x"}], SAME),
]
# Sections in other places of config.json; of a model without one.
ELSEWHERE = [
    ("compression_config", {"quant_method": "gptq", "bits": 4}), ("quantization", {"group_size": 32, "bits": 4, "mode": "mxfp4"}),
    ("quantization", {"group_size": 64, "bits": 4}), ("text_config", {"quantization_config": {"quant_method": "gptq"}}),
    ("thinker_config", {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}),
]
METHODS = ["gptq", "awq", "fp8", "bitsandbytes", "hqq", "quanto", "aqlm", "vptq", "spqr", "higgs", "eetq", "fbgemm_fp8", "torchao", "bitnet",
           "fp_quant", "sinq", "exl3", "gguf", "mlx", "svdquant", "mxfp8", "nvfp4", "autoawq", "marlin", "compressed_tensors", "quark2"]
UNKNOWN = ["rotation", "offset", "permutation", "hadamard", "lut", "codebook", "outliers", "swizzle", "interleave", "scale_layout", "packing_order",
           "bias_correction", "low_rank", "shift", "zero", "clip_ratio", "scale_bias", "nibble_order", "transpose", "smoothquant", "block_shape",
           "scale_factor_vector_size", "exponent_bias", "weight_norm"]
DESCRIBED = ("observer_kwargs", "input_activations", "input_tensors", "output_activations", "output_tensors", "producer", "kv_cache_scheme", "kv_cache_quant_config",
             "packed_modules_mapping", "algo_config")

# Tensors beside a weight: the end of the name, dtypes, shapes as of [rows, cols] or numbers, mode.
COLS, ROWS, ONE_NUMBER, MATRIX, LOW, GROUPS = "cols", "rows", "one", "matrix", "low", "groups"
BESIDE = [(x, (COLS,), REFUSE) for x in (".smooth", ".smooth_factor", ".smooth_factor_orig", ".input_prescale", ".g_idx", ".weight_g_idx", ".perm",
                                         ".act_scale", ".in_scale", ".smoothing", ".mystery")]
BESIDE += [(x, (ROWS, ONE_NUMBER, GROUPS), REFUSE) for x in (
    ".weight_zero_point", ".zero_point", ".zeros", ".weight_zeros", ".biases", ".weight_bias", ".weight_chan_scale", ".weight_scale_3", ".scale_b",
    ".weight_scale_inv", ".scales_2", ".global_scale", ".scale_weight", ".channel_scale", ".weight_offset", ".outliers", ".weight_scale_2_inv",
    ".weight_scale_zp", ".wscale", ".out_scale", ".weight_norm", ".gamma")]
BESIDE += [(x, (MATRIX, LOW), REFUSE) for x in (
    ".proj_down", ".proj_up", ".lora_down", ".lora_up", ".svdquant_lora_a", ".svdquant_lora_b", ".input_rotation", ".hadamard_matrix", ".had_K",
    ".forward_hadamard_matrix", ".weight_codebook", ".lora_A.weight", ".lora_B.weight", ".lora_A.default.weight", ".lora_embedding_A",
    ".R1", ".weight_residual", ".parametrizations.weight.original0", ".dora_magnitude", ".delta")]
BESIDE += [(".comfy_quant", ("bytes",), REFUSE)]
BESIDE += [(x, (ONE_NUMBER,), SAME) for x in (".input_scale", ".input_global_scale", ".output_scale", ".k_scale", ".v_scale", ".q_scale")]
BESIDE += [(".bias", (ROWS,), SAME)]
NAMED_AFTER = ["_shift", "_zeros", "_lut", "_offset", "_rotation", "_outliers", "_scale_2", "_lora"]
FOREIGN = {  # tensors of a module in layouts that are not read
    "mlx affine": {".weight": ("U32", [SIDE, SIDE // 8], 4 * SIDE * SIDE // 8), ".scales": ("BF16", [SIDE, 1], 2 * SIDE),
                   ".biases": ("BF16", [SIDE, 1], 2 * SIDE)},
    "awq": {".qweight": ("I32", [SIDE, SIDE // 8], 4 * SIDE * SIDE // 8), ".qzeros": ("I32", [1, SIDE // 8], SIDE // 2),
            ".scales": ("F16", [1, SIDE], 2 * SIDE)},
    "gptq": {".qweight": ("I32", [SIDE // 8, SIDE], 4 * SIDE * SIDE // 8), ".qzeros": ("I32", [1, SIDE // 8], SIDE // 2),
             ".scales": ("F16", [1, SIDE], 2 * SIDE), ".g_idx": ("I32", [SIDE], 4 * SIDE)},
    "int8 rows": {".weight": ("I8", [SIDE, SIDE], SIDE * SIDE), ".weight_scale": ("F32", [SIDE, 1], 4 * SIDE)},
    "packed int4": {".weight_packed": ("I32", [SIDE, SIDE // 8], 4 * SIDE * SIDE // 8), ".weight_scale": ("BF16", [SIDE, 2], 4 * SIDE),
                    ".weight_shape": ("I64", [2], 16)},
    "nf4": {".weight": ("U8", [SIDE * SIDE // 2, 1], SIDE * SIDE // 2), ".weight.absmax": ("F32", [SIDE], 4 * SIDE),
            ".weight.quant_map": ("F32", [16], 64), ".weight.quant_state.bitsandbytes__nf4": ("U8", [8], 8)},
    "comfy nvfp4": {".weight": ("U8", [SIDE, SIDE // 2], SIDE * SIDE // 2), ".weight_scale": ("F8_E4M3", [128, 4], 512),
                    ".weight_scale_2": ("F32", [], 4), ".comfy_quant": ("U8", [19], 19)},
    "swizzled nvfp4": {".weight": ("U8", [SIDE, SIDE // 2], SIDE * SIDE // 2), ".weight_scale": ("F8_E4M3", [128, 4], 512),
                       ".weight_scale_2": ("F32", [], 4)},
    "scaled fp8": {".weight": ("F8_E4M3", [SIDE, SIDE], SIDE * SIDE), ".scale_weight": ("F32", [], 4)},
    "hqq": {".W_q": ("U8", [SIDE // 2, SIDE], SIDE * SIDE // 2), ".scale": ("F16", [SIDE, 1], 2 * SIDE), ".zero": ("F16", [SIDE, 1], 2 * SIDE)},
    "codes alone": {".weight": ("U8", [SIDE, SIDE // 2], SIDE * SIDE // 2)},
    "eight bits alone": {".weight": ("F8_E4M3", [SIDE, SIDE], SIDE * SIDE)},
}
SCALED = {  # 8-bit floats with scales that are numbers: the end of the scale's name, its dtype and shape
    "squares": ("_scale_inv", "F32", [1, 1]), "tensor": ("_scale", "F32", []), "rows": ("_scale", "BF16", [SIDE, 1]),
}
# Keys of GGUF's metadata that change what a model computes: for eval alone.
GGUF = [
    ("llama.attention.scale", "f32", 0.5), ("llama.attn_logit_softcapping", "f32", 50.0), ("llama.final_logit_softcapping", "f32", 30.0),
    ("llama.logit_scale", "f32", 0.5), ("llama.residual_scale", "f32", 0.5), ("llama.embedding_scale", "f32", 8.0),
    ("llama.attention.clamp_kqv", "f32", 8.0), ("llama.attention.max_alibi_bias", "f32", 8.0), ("llama.use_parallel_residual", "bool", True),
    ("llama.attention.causal", "bool", False), ("llama.attention.temperature_scale", "f32", 0.1), ("llama.nextn_predict_layers", "u32", 1),
    ("llama.rope.scaling.yarn_ext_factor", "f32", 0.5), ("llama.swin_norm", "bool", True), ("llama.mystery", "u32", 1),
    ("llama.attention.output_scale", "f32", 0.5), ("llama.attention.value_scale", "f32", 2.0), ("llama.rope.scaling.alpha", "f32", 2.0),
    ("llama.full_attention_interval", "u32", 4), ("llama.attention.shared_kv_layers", "u32", 1)]


def put(root, path, value):
    for part in path[:-1]:
        root = root.setdefault(part, {})
    root[path[-1]] = value


def chosen(draw, values, m):
    return copy.deepcopy(draw.choice(list(values(m)) if callable(values) else values))


def of_key(draw, m):
    rows = [r for r in KEYS if r[0] == m.layout]
    if m.layout == MO:
        rows = rows + [(MO, None) + r for r in SECOND]
    row = draw.choice(rows)
    second = len(row) == 5
    path, values, mode = row[-3:]
    value = chosen(draw, values, m)
    put(m.second if second else m.config["quantization_config"], path, value)
    names = [path[-1]] + ([p for p in path if p in ("weights", "config_groups")])
    if isinstance(value, (dict, list)):
        names += [k for k in json.dumps(value).split('"')[1::2] if k]
    if path[-1] == "quant_method":
        names += ["quant_algo"]
    return names + m.quantized, mode, "%s%s = %r" % ("second " if second else "", ".".join(path), value)


def objects_of(value, found, described=False):
    """Objects of a section that are not among what only describes."""
    if isinstance(value, dict):
        found.append(value)
        for k, v in value.items():
            if k not in DESCRIBED:
                objects_of(v, found)
    return found


def of_unknown_key(draw, m):
    places = objects_of(m.config["quantization_config"], [])
    if m.second is not None:
        places += [m.second, m.second["quantization"]]
    # Names of groups and modules are any names, so what stands under them must be an object.
    at = draw.choice([p for p in places])
    word = draw.choice(UNKNOWN)
    word = draw.choice([word, word + "_type", "weight_" + word, "use_" + word, "_" + word])
    at[word] = draw.choice([True, 1, "x", [1, 2], {"a": 1}, 0.5])
    return [word], REFUSE, "unknown %s = %r" % (word, at[word])


def of_elsewhere(draw, m):
    key, value = draw.choice(ELSEWHERE)
    if key == "text_config":
        method = draw.choice(METHODS)
        if method in {ML: ["mlx"], F8: ["fp8", "mxfp8"]}.get(m.layout, []):
            return None
        value = {"quantization_config": {"quant_method": method}}
    if m.layout == ML and key == "quantization" or m.layout == F8 and key == "thinker_config":
        return None
    m.config[key] = copy.deepcopy(value)
    return ["quant_method", key, "quantization"], REFUSE, "%s = %r" % (key, value)


def of_other_section(draw, m):
    """The section of another program, whose format is not that of the tensors."""
    forms = [(f, x) for f, x in ((ct_section, "mxint8"), (ct_section, "mxfp6-e2m3"), (ct_section, "nvfp4"), (ct_section, "mxfp4"),
                                 (modelopt_section, "nvfp4"), (modelopt_section, "mxfp8-e4m3"), (quark_section, "mxfp4"),
                                 (auto_round_section, "nvfp4"), (auto_round_section, "mxfp4"))
             if x != m.form and not (x == "mxfp6-e2m3" and m.form == "mxfp6-e3m2")]
    make, form = draw.choice(forms)
    m.config["quantization_config"] = make(form)
    return m.quantized + ["weights", "quant_algo"], REFUSE, "%s of %s" % (make.__name__, form)


def side_tensor(draw, shape):
    dtype = draw.choice(["F32", "BF16"])
    dims = {COLS: [SIDE], ROWS: [SIDE], ONE_NUMBER: draw.choice([[], [1]]), MATRIX: [SIDE, SIDE], LOW: draw.choice([[8, SIDE], [SIDE, 8]]),
            GROUPS: [SIDE, 2], "bytes": [19]}[shape]
    n = 1
    for x in dims:
        n *= x
    if shape == "bytes":
        return "U8", dims, b'{"format": "nvfp4"}'
    numbers = [draw.choice([.5, .25, 2, 1.5]) for _ in range(n)]
    return dtype, dims, f32_bytes(numbers) if dtype == "F32" else bf16_bytes(numbers)


def of_side(draw, m):
    module = draw.choice(m.quantized)
    if m.layout in (TR, GO) and draw.random() < .5 or m.layout == GO:
        end, shape, mode = draw.choice(NAMED_AFTER), ROWS, REFUSE
        name = module + ("" if m.layout == GO else ".weight") + end
    else:
        end, shapes, mode = draw.choice(BESIDE)
        name, shape = module + end, draw.choice(shapes)
    m.tensors[name] = side_tensor(draw, shape)
    if m.keys is not None and m.tensors[name][1] == []:
        m.tensors[name] = (m.tensors[name][0], [1], m.tensors[name][2])
    if name.endswith(".comfy_quant") and m.keys is not None:
        m.tensors[name] = ("F32", [1], bytes(4))
    names = m.quantized if m.layout == F8 and end == ".weight_scale_inv" else []
    return [end.lstrip("._").split(".")[0], end.split(".")[-1]] + names, mode, "side %s %r" % (name, m.tensors[name][:2])


def of_pre_quant_scale(draw, m):
    module = draw.choice(m.quantized)
    factors = [1 + draw.randrange(8) / 8 for _ in range(SIDE)]
    dtype = draw.choice(["F32", "BF16", "F16"])
    data = {"F32": f32_bytes, "BF16": bf16_bytes, "F16": lambda x: struct.pack("<%de" % len(x), *x)}[dtype](factors)
    m.tensors[module + ".pre_quant_scale"] = (dtype, [SIDE], data)
    if m.layout not in (MO, QU) or m.form == "mxfp8-e4m3":
        return ["pre_quant_scale"] + m.quantized, REFUSE, "pre_quant_scale"
    shape, numbers = m.want[module + ".weight"]
    numbers = [x * factors[i % SIDE] for i, x in enumerate(numbers)]
    m.want[module + ".weight"] = (shape, list(struct.unpack("<%df" % len(numbers), f32_bytes(numbers))))
    return ["pre_quant_scale"], FOLD, "pre_quant_scale"


SCALE_ENDS, CODE_ENDS = ["_scale", "_scales"], ["_packed", "_blocks", "_x4", ".weight"]


def transposed_shape(shape):
    return shape[:-2] + [shape[-1], shape[-2]]


def of_parts(draw, m):
    """A part of a quantized tensor that is not as it should be."""
    module = draw.choice(m.quantized)
    scale = m.part(module, ["weight_scale", "_x4_scale", "_scales", ".scales"] + (["_scale_inv", ".scale"] if m.layout == F8 else []))
    codes = m.part(module, ["_packed", "_sparse", "_blocks", ".blocks", "_e2m1_x4", "_e4m3_x4", "_e5m2_x4", ".weight"])
    tensor_scale = m.part(module, ["_global_scale", "_scale_2", ".scale"]) if m.layout != F8 else None
    parts = [x for x in (scale, codes, tensor_scale, m.part(module, ["_mask"])) if x is not None]
    name = draw.choice(parts)
    dtype, shape, data = m.tensors[name]
    shape = list(shape)
    kind = draw.choice(["missing", "renamed", "shape", "dtype", "length"])
    names, mode = m.quantized, REFUSE
    # Other shapes may be those of another mode or grid, which the files then have.
    if kind == "length" and m.layout in (ML, F8) or kind == "shape" and m.layout == F8 and m.grid not in (None, (1, 32)):
        return None
    if kind == "missing":
        del m.tensors[name]
        if m.layout == GG and name == tensor_scale:
            mode = None
        if m.layout == GG and name == codes:
            mode = None
    elif kind == "renamed":
        end = draw.choice(["x", "s", "_inv", "_old", "_1", ".0", ".data"])
        m.tensors[name + end] = m.tensors.pop(name)
        # Layout fp8 calls them so.
        if name == scale and end == "_inv" and (m.form == "mxfp8-e4m3" and m.layout in (CT, AR, MO) or m.form == "mxfp4" and m.layout in (MO, QU)):
            mode = SAME
        if m.layout == GG and name == codes:
            mode = None
    elif kind == "shape":
        if name == tensor_scale:
            shape = draw.choice([[2], [SIDE], [1, 2]])
            data = data * (shape[-1])
        elif len(shape) < 2 or m.layout == GG:
            return None
        else:
            how = draw.choice(["transposed", "flat", "more", "halves", "rows"])
            if how == "transposed":
                shape = transposed_shape(shape)
            elif how == "flat":
                n = 1
                for x in shape:
                    n *= x
                shape = [n]
            elif how == "more":
                shape = [1] + shape
            elif how == "halves":
                shape = shape[:-2] + [shape[-2] * 2, shape[-1] // 2] if shape[-1] % 2 == 0 else shape[:-2] + [shape[-2] // 2, shape[-1] * 2]
            else:
                shape, data = shape[:-2] + [shape[-2] // 2, shape[-1]], data[:len(data) // 2]
                if shape[-2] == 0 or m.layout == F8 and name == scale:
                    return None
            if shape == list(m.tensors[name][1]):
                return None
        m.tensors[name] = (dtype, shape, data)
    elif kind == "dtype":
        if m.layout == GG and name == codes:
            return None
        wide = {"F32": 4, "BF16": 2, "F16": 2, "F64": 8, "I32": 4, "I64": 8}
        width = {"F32": 4, "U16": 2, "U32": 4}.get(dtype, 1)
        other = draw.choice([x for x in (["F32", "BF16"] if m.layout == GG else ["F32", "BF16", "F16", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "BOOL", "I32"])
                             if x != dtype])
        if m.layout == F8 and name == scale and other in ("F32", "BF16", "F16") and m.form == "mxfp8-e4m3":
            return None # FP8 with scales that are numbers
        n = len(data) // width
        data = data if wide.get(other, 1) == width else (data * 8)[:n * wide.get(other, 1)]
        m.tensors[name] = (other, shape, data)
        if other == "F8_E8M0" and name == scale and m.form != "nvfp4":
            mode = SAME
        if m.layout == F8 and name == scale and other == "U8":
            mode = SAME
        if other in ("I8", "U8") and dtype in ("U8", "I8") and name != scale:
            mode = SAME if m.form != "mxint8" else REFUSE
        kind += " " + other
    else:
        if m.layout == GG and name == codes or name == tensor_scale:
            return None
        # As many again in the last dimension.
        shape[-1] *= 2
        m.tensors[name] = (dtype, shape, data * 2)
    if mode is None:
        return None
    return names, mode, "%s: %s" % (kind, name)


def of_label(draw, m):
    """Codes that say another dtype of 8 bits, where config.json says which."""
    name = m.part(draw.choice(m.quantized), [".weight"])
    if name is None or m.tensors[name][0] not in ("F8_E4M3", "F8_E5M2", "I8") or m.layout == TR or m.layout == F8 and m.form == "mxfp4":
        return None
    dtype, shape, data = m.tensors[name]
    other = draw.choice([x for x in ("F8_E4M3", "F8_E5M2", "I8", "U8") if x != dtype])
    m.tensors[name] = (other, shape, data)
    return m.quantized, REFUSE, "%s labelled %s" % (name, other)


def of_twice(draw, m):
    """A tensor quantized and not, or in two layouts."""
    module = draw.choice(m.quantized)
    what = draw.choice(["plain", "packed", "blocks"])
    if m.layout in (GG, GO):
        return None
    if what == "plain" and m.part(module, [".weight"]) is None:
        m.tensors[module + ".weight"] = ("BF16", [SIDE, SIDE], bytes(2 * SIDE * SIDE))
    elif what == "packed" and m.part(module, ["_packed"]) is None:
        m.tensors[module + ".weight_packed"] = ("U8", [SIDE, SIDE // 2], bytes(SIDE * SIDE // 2))
    elif what == "blocks" and m.layout != TR:
        m.tensors[module + ".weight_blocks"] = ("U8", [SIDE, SIDE // 32, 16], bytes(SIDE * SIDE // 2))
        m.tensors[module + ".weight_scales"] = ("U8", [SIDE, SIDE // 32], bytes([127] * (SIDE * SIDE // 32)))
    else:
        return None
    return m.quantized, REFUSE, "twice: %s %s" % (what, module)


def of_metadata(draw, m):
    module = draw.choice(m.quantized)
    name = module if m.layout == GO else module + ".weight"
    other = [f for f in FORMATS if f != m.form]
    key, value, mode = draw.choice([
        ("_quantization_metadata", '{"format_version": "1.0", "layers": {}}', REFUSE), ("quantization_config", '{"quant_algo": "NVFP4"}', REFUSE),
        ("mxfp.cols." + name, draw.choice(["0", "65", "1000", "x", "-1", "64.0", ""]), REFUSE),
        ("mxfp.tensor." + name, draw.choice(other) + " mse", REFUSE), ("mxfp.weights", draw.choice(other), SAME),
        ("mxfp.weights", "mxfp5", SAME), ("mxfp.rule", "floor", SAME), ("modelspec.title", "x", SAME), ("format", "pt", SAME)])
    if key.startswith("mxfp.cols") and m.layout == TR and value == "65":
        return None
    m.metadata[key] = value
    return [key, value] + m.quantized, mode, "metadata %s = %s" % (key, value)


def of_shards(draw, m):
    """Two files, whose index forgets a tensor or sends it elsewhere."""
    if m.layout == GO and False:
        return None
    name = draw.choice([x for x in m.tensors if any(x.startswith(q) for q in m.quantized)])
    files = ["model-0000%d-of-00002.safetensors" % i for i in (1, 2)]
    at = files[list(m.tensors).index(name) % 2]
    how = draw.choice(["right", "forgets", "elsewhere", "nowhere", "one more"])
    m.index = {"right": {}, "forgets": {name: None}, "elsewhere": {name: files[at == files[0]]},
               "nowhere": {name: "model-00003-of-00003.safetensors"}, "one more": {"x.weight": files[0]}}[how]
    return [name, "x.weight", "model-00003"] + m.quantized, SAME if how in ("right",) else REFUSE if how != "forgets" else SAME, "index %s: %s" % (how, name)


def of_foreign(draw, m):
    module = draw.choice(m.quantized)
    layout = draw.choice(list(FOREIGN))
    for name in [x for x in m.tensors if x.startswith(module + ".")]:
        del m.tensors[name]
    for end, (dtype, shape, n) in FOREIGN[layout].items():
        m.tensors[module + end] = (dtype, shape, bytes(draw.choices(range(0x20, 0x60), k=n)))
    del m.want[module + ".weight"]
    if layout == "eight bits alone" and m.layout in (TR, PL):
        return None
    if layout == "codes alone" and m.layout in (TR, PL):
        return None
    return [module, "ComfyUI", "*.weight"], REFUSE, "foreign %s: %s" % (layout, module)


def of_scaled(draw, m):
    """Read where nothing says that weights are of another format; convert has no place for it."""
    module, kind = draw.choice(m.quantized), draw.choice(list(SCALED))
    end, dtype, shape = SCALED[kind]
    for name in [x for x in m.tensors if x.startswith(module + ".")]:
        del m.tensors[name]
    codes = draw.choices(range(0x20, 0x60), k=SIDE * SIDE)
    scales = [draw.randrange(1, 256) / 128 for _ in range(SIDE if kind == "rows" else 1)]
    m.tensors[module + ".weight"] = ("F8_E4M3", [SIDE, SIDE], bytes(codes))
    m.tensors[module + ".weight" + end] = (dtype, shape, f32_bytes(scales) if dtype == "F32" else bf16_bytes(scales))
    m.want[module + ".weight"] = ([SIDE, SIDE], [E4M3[c] * scales[i // SIDE if kind == "rows" else 0] for i, c in enumerate(codes)])
    return [module], SAME if m.layout in (TR, PL, F8) else REFUSE, "scaled %s: %s" % (kind, module)


def of_leftover(draw, m):
    """A model of plain numbers whose config.json says that it is quantized."""
    section = draw.choice([ct_section("mxfp4"), modelopt_section("nvfp4"), quark_section("mxfp4"), auto_round_section("mxfp4"),
                           {"quant_method": draw.choice(METHODS)}, {"quant_method": "fp8", "weight_block_size": [128, 128]}])
    m.config[draw.choice(["quantization_config"] * 3 + ["text_config"])] = section
    if "text_config" in m.config:
        m.config["text_config"] = {"quantization_config": section}
    return ["quantization_config"], REFUSE, "leftover %s" % section["quant_method"]


def of_nothing(draw, m):
    return [], SAME, "nothing"


def of_gguf_key(draw, m):
    key, kind, value = draw.choice(GGUF)
    m.keys[key] = (kind, value)
    return [key], "gguf", "%s = %r" % (key, value)


SECTIONED = (CT, MO, QU, AR, GO, TR, ML, F8)
FACTS = [(of_key, SECTIONED, 6), (of_unknown_key, SECTIONED, 4), (of_elsewhere, SECTIONED, 1), (of_other_section, SECTIONED, 1),
         (of_side, SECTIONED + (GG,), 5), (of_pre_quant_scale, (CT, MO, QU, AR, PL), 1), (of_parts, SECTIONED + (GG,), 6),
         (of_label, (CT, MO, AR, F8), 1), (of_twice, SECTIONED, 1), (of_metadata, SECTIONED, 2), (of_shards, SECTIONED + (PL,), 1),
         (of_foreign, (CT, MO, QU, AR, TR, PL, ML, F8), 2), (of_scaled, (CT, MO, QU, AR, TR, PL, F8), 1), (of_leftover, (PL,), 6), (of_nothing, SECTIONED + (GG, PL), .3), (of_gguf_key, (GG,), 4)]


# ---- commands
def run(*arguments):
    p = subprocess.run([MXFP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    return p.returncode, p.stdout, p.stderr


READS = ["dequantize", "convert", "report", "diff", "detect-rule", "eval", "gemm", "lint", "inspect", "quantize", "advise", "calibrate",
         "transform"]
TOKENS = WORK + "/tokens.json"
LAYOUTS = [CT, MO, QU, GO, TR, ML, F8]


class Reference:
    """What is right of an instance of a kind: its numbers in a plain model, and how each command takes it undamaged."""

    def __init__(self, kind, number):
        self.model = Model(kind, number)
        self.plain = WORK + "/plain-%s-%s-%d" % (kind + (number,))
        self.codes = {}
        plain = self.model.copy()
        plain.second, plain.metadata = None, {}
        parts = [x for x in plain.tensors if x not in PLAIN and any(x.startswith(q) for q in plain.quantized) and not x.endswith("_bias")]
        for x in parts:
            del plain.tensors[x]
        for name, (shape, numbers) in plain.want.items():
            plain.tensors[name] = ("F32", shape, f32_bytes(numbers))
        if plain.config is not None:
            plain.config.pop("quantization_config", None)
            plain.config.pop("quantization", None)
        self.plain = plain.write(self.plain)

    def command(self, name, path, m, draw):
        """Arguments, and where the output goes."""
        weight = m.damaged if getattr(m, "damaged", None) in m.want else next(iter(m.want))
        out = OUT + (".gguf" if m.layout == GG else "")
        if name in ("dequantize",):
            return ["dequantize", path, "-o", out, "-q"], out
        if name == "convert":
            return ["convert", path, "-o", out, "-q", "--allow-rounding", "-l", m.target], out
        if name == "report":
            return (["report", path, "--json", "-q", "--formats", "mxfp4", "--rules", "floor", "--activation-rows", "1"] if m.layout == PL else
                    ["report", self.plain, "--against", path, "--json", "-q", "--activation-rows", "1"]), None
        if name == "diff":
            return ["diff", path, self.plain, "--json"], None
        if name == "detect-rule":
            return ["detect-rule", path, "--ref", self.plain, "-q"], None
        if name == "eval":
            # The configuration may say that activations are quantized, too.
            return ["eval", path, "--tokens", TOKENS, "-q", "--json"] + (["-a", "none"] if m.layout != PL else []), None
        if name == "gemm":
            return ["gemm", WORK + "/one.safetensors", "%s:%s" % (path, weight), "-o", OUT + ".safetensors", "--a-format", "none", "-q"], OUT + ".safetensors"
        if name == "lint":
            return ["lint", path, "-q"], None
        if name == "inspect":
            return ["inspect", path], None
        if name == "quantize":
            return ["quantize", path, "-o", out, "-q"], out
        if name == "advise":
            return ["advise", path, "-q", "--formats", "mxfp4", "--rules", "floor"], None
        if name == "calibrate":
            return ["calibrate", path, "--tokens", TOKENS, "-o", out, "-q"], out
        return ["transform", path, "--scale-mlp", "-o", out, "-q"], out

    def code(self, name, target, alone):
        """The exit status for the undamaged model."""
        key = (name, target if name == "convert" else None, alone)
        if key not in self.codes:
            m = self.model.copy()
            m.target, m.alone = target, alone
            arguments, out = self.command(name, m.write(WORK + "/whole"), m, None)
            self.codes[key] = run(*arguments)[0], run(*arguments)[1] if name == "eval" else ""
            if out is not None:
                remove(out)
        return self.codes[key][0]


def numbers_of(path):
    if path.endswith(".gguf"):
        return read_gguf_tensors(path)
    if path.endswith(".safetensors"):
        return read_safetensors(path)
    out = {}
    for file in sorted(os.listdir(path)):
        if file.endswith(".safetensors"):
            out.update(read_safetensors(path + "/" + file))
    return out


def wrong(path, m, loose=False):
    """What is wrong with the numbers in a decoded model; None: nothing."""
    got = numbers_of(path)
    for name, (shape, numbers) in m.want.items():
        if name not in got:
            return "%s is not there" % name
        dtype, is_shape, data = got[name]
        if list(is_shape) != list(shape):
            return "%s is %r" % (name, is_shape)
        if dtype != "F32":
            if m.layout == PL and dtype == m.tensors[name][0]:
                if data != m.tensors[name][2]:
                    return "%s has other numbers" % name
                continue
            return "%s is %s" % (name, dtype)
        if data != f32_bytes(numbers):
            is_numbers = struct.unpack("<%df" % len(numbers), data)
            if not loose or any(abs(a - b) > 1e-6 * abs(b) for a, b in zip(is_numbers, numbers)):
                return "%s has other numbers" % name
    for name, (dtype, shape, data) in m.tensors.items():
        if name in PLAIN and (name not in got or got[name][0] != dtype or got[name][2] != data):
            return "%s is not as it was" % name
    return None


def names_it(text, names):
    return any(str(n) in text for n in names)


def refusal_fault(code, error, names, out):
    """What is wrong with a refusal."""
    if code not in (2, 3):
        return "exit %d" % code
    if error.count("\n") != 1:
        return "%d lines" % error.count("\n")
    if names and not names_it(error, names):
        return "names none of %s" % ", ".join(map(str, names[:4]))
    if out is not None and (os.path.exists(out) or os.path.exists(out + ".partial")):
        return "leaves an output"
    return None


class Case:
    def __init__(self, number):
        draw = random.Random("%d %d" % (SEED, number))
        made = None
        while made is None:
            self.kind = draw.choice(KINDS)
            self.reference = reference(self.kind, draw.randrange(INSTANCES))
            self.m = self.reference.model.copy()
            facts = [(f, w) for f, layouts, w in FACTS if self.kind[0] in layouts]
            fact = draw.choices([f for f, _ in facts], [w for _, w in facts])[0]
            made = fact(draw, self.m)
        self.names, self.mode, self.what = made
        self.fact = fact
        self.m.alone = self.m.keys is None and self.m.index is None and self.mode != FOLD and fact is not of_leftover and draw.random() < .15
        # A file alone does not say which MXFP6 it is.
        self.m.alone = self.m.alone and "mxfp6" not in self.kind[1]
        self.m.target = draw.choice(LAYOUTS) if self.m.layout != GG else GG
        for q in self.m.quantized:
            if q in self.what:
                self.m.damaged = q if self.m.layout == GO else q + ".weight"
        self.path = self.m.write(MODEL)
        self.draw = draw
        self.faults = []

    def fault(self, command, what, text=""):
        self.faults.append("%s/%s %s (%s): %s: %s %s" % (*self.kind, self.what, self.mode, command, what, text.strip()[:300]))

    def dequantize(self):
        arguments, out = self.reference.command("dequantize", self.path, self.m, self.draw)
        code, _, error = run(*arguments)
        self.took = code == 0
        if code == 0:
            if self.mode == REFUSE:
                self.fault("dequantize", "SILENT: takes it")
            else:
                bad = wrong(out, self.m)
                if bad:
                    self.fault("dequantize", "SILENT: " + bad)
        else:
            bad = refusal_fault(code, error, self.names if self.m.layout != PL else None, out)
            if bad:
                self.fault("dequantize", bad, error)
        remove(out)
        remove(out + ".partial")

    def other(self):
        name = self.draw.choice(READS[1:])
        if self.mode == "gguf":
            name = "eval"
        m, reference = self.m, self.reference
        before = reference.code(name, m.target, m.alone)
        # Of other numbers a model predicts otherwise, and differs from the plain one.
        if self.fact is of_scaled and name in ("eval", "diff"):
            return
        arguments, out = reference.command(name, self.path, m, self.draw)
        code, text, error = run(*arguments)
        if self.fact is of_scaled and name == "convert" and code == 3:
            return
        takes = (0, 1) if name in ("diff", "detect-rule") else (0,)
        if name in ("lint", "inspect"):
            self.looked(name, code, text, error)
        elif before not in takes:
            # It takes no such model.
            if code in takes and name not in ("convert",):
                self.fault(name, "SILENT: takes it, and not the whole one")
            elif code not in takes:
                bad = refusal_fault(code, error, None, out)
                if bad:
                    self.fault(name, bad, error)
            elif code in takes and self.mode == REFUSE:
                self.fault(name, "SILENT: takes it")
        elif code in takes:
            self.taken(name, code, text, error, out)
        else:
            bad = refusal_fault(code, error, self.names, out)
            if bad:
                self.fault(name, bad, error)
            # Whether a model that runs may have a bias there is another question.
            elif self.took and self.mode == SAME and self.m.layout != PL and ".bias" not in self.what:
                self.fault(name, "refuses what dequantize takes", error)
        if out is not None:
            remove(out)
            remove(out + ".partial")

    def looked(self, name, code, text, error):
        if code not in (0, 1, 3, 6):
            self.fault(name, "exit %d" % code, error)
        elif self.mode == REFUSE and not names_it(text + error, self.names):
            self.fault(name, "SILENT: says nothing (exit %d)" % code, text + error)
        elif self.mode == SAME and self.what == "nothing" and name == "lint" and code != 0 and "[meaning]" in text:
            self.fault(name, "complains", text)

    def compared(self, name, text):
        for t in json.loads(text)["tensors"]:
            if t["name"] in self.m.want and (not t["compared"] or t["errors"]["max_absolute"] != 0):
                self.fault(name, "SILENT: other numbers", json.dumps(t))

    def taken(self, name, code, text, error, out):
        m = self.m
        if self.mode == REFUSE:
            if name == "diff" and ("quant_method" in self.what or self.fact is of_elsewhere):
                self.compared(name, text)
                return
            # diff compares as bytes, and says so, what cannot be decoded or is of a layout that is not read.
            if name == "diff" and self.fact in (of_foreign, of_parts, of_label, of_twice, of_metadata, of_other_section, of_key):
                if self.fact is of_twice:
                    return
                damaged = getattr(m, "damaged", None) if self.fact not in (of_key, of_other_section) else None
                for t in json.loads(text)["tensors"]:
                    if (t["name"] == damaged or damaged is None and t["name"] in m.want) and t["compared"] and t["errors"]["max_absolute"] == 0:
                        self.fault(name, "SILENT: takes it", json.dumps(t))
                return
            # A product of other tensors of the model is right.
            if name == "gemm" and self.fact is of_foreign:
                return
            self.fault(name, "SILENT: takes it")
            return
        if self.mode == FOLD:
            if name in ("convert",) and not wrong_after(out, m):
                return
            # What decodes a model first multiplies by them; meaning.py has the numbers.
            if name not in ("convert", "inspect", "lint", "quantize", "calibrate", "report", "advise", "transform"):
                self.fault(name, "SILENT: takes it without the factors")
            return
        if self.mode == "gguf":
            self.fault(name, "SILENT: takes it")
            return
        if not self.took and name == "diff" and self.fact in (of_parts, of_metadata):
            return # as they are stored
        if not self.took and m.layout != PL:
            self.fault(name, "SILENT: takes what dequantize refuses")
        elif name == "diff":
            self.compared(name, text)
        elif name == "eval":
            reference = self.reference
            if not hasattr(reference, "perplexity"):
                reference.perplexity = perplexity(run("eval", reference.plain, "--tokens", TOKENS, "-q", "--json")[1])
            # A bias is added, too.
            if perplexity(text) != reference.perplexity and ".bias" not in self.what:
                self.fault(name, "SILENT: other predictions", "%s, not %s" % (perplexity(text), reference.perplexity))
        elif name == "gemm":
            weight = m.damaged if getattr(m, "damaged", None) in m.want else next(iter(m.want))
            shape, numbers = m.want[weight]
            got = next(iter(read_safetensors(out).values()))
            back = struct.unpack("<%df" % (len(got[2]) // 4), got[2])
            if len(shape) == 2 and any(back[c * SIDE + r] != numbers[r * SIDE + c] for r in range(SIDE) for c in range(SIDE)):
                self.fault(name, "SILENT: other numbers")
        elif name == "convert":
            bad = wrong_after(out, m)
            if bad:
                self.fault(name, "SILENT: " + bad)


def wrong_after(out, m):
    """Of a model in another layout, by its decoded numbers."""
    back = WORK + "/back" + (".gguf" if out.endswith(".gguf") else "")
    remove(back)
    code, _, error = run("dequantize", out, "-o", back, "-q")
    return error if code != 0 else wrong(back, m, True)


def perplexity(text):
    try:
        return json.loads(text)["runs"][0]["nll"]["mean"]
    except (KeyError, ValueError):
        return text


references, wholes = {}, []


def reference(kind, number):
    if (kind, number) not in references:
        references[kind, number] = made = Reference(kind, number)
        m = made.model.copy()
        m.target = None
        arguments, out = made.command("dequantize", m.write(WORK + "/whole"), m, None)
        code, _, error = run(*arguments) if kind[0] != PL else (None, None, None)
        bad = None if kind[0] == PL else error if code != 0 else wrong(out, m)
        remove(out)
        if bad:
            print("FAIL: %s/%s as it should be: SILENT: %s" % (*kind, bad))
            wholes.append(kind)
    return references[kind, number]


def main():
    write_json(TOKENS, [[random.Random(1).randrange(VOCABULARY) for _ in range(24)]])
    one = [float(i == j) for i in range(SIDE) for j in range(SIDE)]
    write_safetensors(WORK + "/one.safetensors", {"one": ("F32", [SIDE, SIDE], f32_bytes(one))})
    print("seed: MXFP_TEST_SEED=%d, %d cases" % (SEED, CASES), flush=True)
    faults, silent, kinds = 0, 0, {}
    for number in [int(ONE)] if ONE else range(CASES):
        case = Case(number)
        case.dequantize()
        case.other()
        kinds[case.kind[0]] = kinds.get(case.kind[0], 0) + 1
        for text in case.faults:
            print("FAIL: case %d: %s" % (number, text), flush=True)
            faults += 1
            silent += "SILENT" in text
        if ONE is None:
            remove(case.path if case.path.endswith(".gguf") else MODEL)
    print("cases: %s" % ", ".join("%s %d" % x for x in sorted(kinds.items())))
    print("%d cases, %d silent, %d failures" % (CASES, silent + len(wholes), faults + len(wholes)))
    sys.exit(faults + len(wholes) != 0)


main()
