# SPDX-License-Identifier: MIT
"""
Small models that become GGUF files, and what must be in these: to_gguf.py make DIRECTORY gives the models of small_llama.py
and small_experts.py there vocabularies and makes others; to_gguf.py check DIRECTORY compares FILE.gguf with what
llama.cpp's converter defines (conversion/llama.py, qwen.py, gpt_oss.py, base.py; gguf-py/gguf/vocab.py), computed here.
"""
import json, math, os, random, struct, sys

from safetensors_file import bf16_bytes, f32_bytes, read_safetensors, write_safetensors

GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
E4M3 = [(0x38, 1.0), (0xB0, -0.5), (0x44, 3.0), (0x00, 0.0)]  # codes and their numbers
command, work = sys.argv[1:]


def added(id, content, special):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": special}


def template(id, token):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": token, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}}}


def byte_level(ignore_merges=True):
    """<s>, letters, and what merges make: of 40 ids the last are free, but for two added ones."""
    vocab = ["<s>", "a", "b", "c", "\u0120", "ab", "\u0120a", "abc"]
    split = {"type": "Split", "pattern": {"Regex": GPT4}, "behavior": "Isolated", "invert": False}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": {"type": "ByteLevel"},
            "added_tokens": [added(0, "<s>", True), added(8, "<tool\u2581x>", False), added(10, "<|odd|>", False)],
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes_]}, "post_processor": template(0, "<s>"),
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": ignore_merges,
                      "vocab": {token: id for id, token in enumerate(vocab)}, "merges": [["a", "b"], ["\u0120", "a"], ["ab", "c"]]}}


def sentence_pieces(**model):
    """As transformers makes it of SentencePiece's: three ids, bytes, then what merges make, best first, and letters."""
    vocab = ["<unk>", "<s>", "</s>", "<0x00>", "<0x41>", "\u2581a", "ab", "\u2581ab", "\u2581", "a", "b"]
    steps = [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": {"type": "Sequence", "normalizers": steps},
            "added_tokens": [added(0, "<unk>", True), added(1, "<s>", True), added(2, "</s>", True)], "pre_tokenizer": None,
            "post_processor": template(1, "<s>"), "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": {token: id for id, token in enumerate(vocab)},
                      "merges": ["\u2581 a", "a b", "\u2581a b", "\u2581 ab"]} | model}


def write_json(path, value):
    with open(os.path.join(work, path), "w") as file:
        json.dump(value, file)


def change(model, **keys):
    with open("%s/%s/config.json" % (work, model)) as file:
        config = json.load(file)
    write_json(model + "/config.json", {k: v for k, v in (config | keys).items() if v != "absent"})


def copy(source, target):
    os.mkdir("%s/%s" % (work, target))
    for name in os.listdir("%s/%s" % (work, source)):
        with open("%s/%s/%s" % (work, source, name), "rb") as a, open("%s/%s/%s" % (work, target, name), "wb") as b:
            b.write(a.read())


def make():
    for name in ("model", "mixtral", "apart", "stacked", "oss"):
        write_json(name + "/tokenizer.json", byte_level(name != "oss"))
        write_json(name + "/tokenizer_config.json", {"bos_token": "<s>", "eos_token": {"content": "<|odd|>"}, "pad_token": "none",
                                                     "chat_template": [{"name": "default", "template": "one"},
                                                                       {"name": "tool", "template": "two"}]})
    change("oss", layer_types=["sliding_attention"])
    # A head of 8 columns, which is not hidden / heads; two heads share one of keys; biases; Llama 3's rope; not tied.
    draw = random.Random(3)
    tensors = read_safetensors(work + "/model/model.safetensors")
    os.mkdir(work + "/biased")
    biased = {name: t for name, t in tensors.items() if "self_attn" not in name}
    for layer in range(2):
        for part, rows in (("q", 32), ("k", 16), ("v", 16), ("o", 32)):
            start = "model.layers.%d.self_attn.%s_proj." % (layer, part)
            biased[start + "weight"] = ("BF16", [rows, 32], bf16_bytes([draw.gauss(0, 0.3) for _ in range(rows * 32)]))
            biased[start + "bias"] = ("BF16", [rows], bf16_bytes([draw.gauss(0, 0.3) for _ in range(rows)]))
    biased["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    write_safetensors(work + "/biased/model.safetensors", biased)
    with open(work + "/model/config.json") as file:
        write_json("biased/config.json", json.load(file))
    change("biased", num_attention_heads=4, num_key_value_heads=2, head_dim=8, attention_bias=True, tie_word_embeddings=False,
           rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64})
    write_json("biased/tokenizer.json", sentence_pieces())
    # FP8 with a scale for each square of 32: numbers.
    copy("model", "fp8")
    tensors["model.layers.0.mlp.up_proj.weight"] = ("F8_E4M3", [76, 32], bytes(E4M3[i % 4][0] for i in range(76 * 32)))
    tensors["model.layers.0.mlp.up_proj.weight_scale_inv"] = ("F32", [3, 1], f32_bytes([0.75, 3.0, 0.1]))
    write_safetensors(work + "/fp8/model.safetensors", tensors)
    change("fp8", quantization_config={"quant_method": "fp8", "weight_block_size": [32, 32]})
    # One thing wrong in each.
    for name, keys in (("windowed", {"model_type": "mistral", "sliding_window": 32}), ("dynamic", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
                       ("endless", {"max_position_embeddings": 0}), ("alone", {})):
        copy("model", name)
        change(name, **keys)
    os.remove(work + "/alone/tokenizer.json")
    for name in ("small", "large", "twice", "unigram", "words", "prefix", "lacks", "scattered", "two", "cut"):
        copy("model", name)
    form = byte_level()
    form["model"]["vocab"]["z"] = 40
    write_json("small/tokenizer.json", form)
    write_json("large/tokenizer.json", byte_level() | {"added_tokens": [added(40, "<y>", True)]})
    form = byte_level()
    form["added_tokens"].append(added(11, "ab", False))
    write_json("twice/tokenizer.json", form)
    form = byte_level()
    form["model"]["type"] = "Unigram"
    write_json("unigram/tokenizer.json", form)
    form = byte_level()
    form["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = r"\w+"
    write_json("words/tokenizer.json", form)
    form = byte_level()
    form["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = True
    write_json("prefix/tokenizer.json", form)
    write_json("lacks/tokenizer.json", sentence_pieces(merges=["\u2581 a", "a b", "\u2581a b"]))
    write_json("scattered/tokenizer.json", sentence_pieces(merges=["\u2581 a", "\u2581a b", "a b", "\u2581 ab"]))
    form = byte_level()
    form["post_processor"]["single"].insert(0, form["post_processor"]["single"][0])
    write_json("two/tokenizer.json", form)
    with open(work + "/cut/tokenizer.json", "w") as file:
        file.write(json.dumps(byte_level())[:-40])


class Gguf:
    """A GGUF file: pairs as key: (type, value), tensors as name: (type, shape outermost first, bytes)."""
    SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 0
        assert self.take("4s") == b"GGUF" and self.take("I") == 3
        n_tensors, n_pairs = self.take("Q"), self.take("Q")
        self.pairs = {}
        for _ in range(n_pairs):
            key, kind = self.string(), self.take("I")
            assert key not in self.pairs, key
            self.pairs[key] = self.value(kind)
        found = []
        for _ in range(n_tensors):
            name = self.string()
            shape = [self.take("Q") for _ in range(self.take("I"))][::-1]
            found.append((name, shape, self.take("I"), self.take("Q")))
        base = self.at + -self.at % 32
        self.tensors = {}
        for name, shape, kind, offset in found:
            elements, size = {0: (1, 4), 30: (1, 2), 39: (32, 17), 40: (64, 36)}[kind]
            start = base + offset
            self.tensors[name] = (kind, shape, self.data[start:start + math.prod(shape) // elements * size])

    def take(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def string(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return "string", self.string()
        if kind == 9:
            kind = self.take("I")
            return "array", kind, [self.value(kind)[1] for _ in range(self.take("Q"))]
        return self.SCALARS[kind], self.take(self.SCALARS[kind])


checks = failures = 0


def same(what, expected, actual):
    global checks, failures
    checks += 1
    if expected != actual:
        failures += 1
        print("FAIL: %s: expected %.200r, got %.200r" % (what, expected, actual))


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def permuted(rows, heads):
    """LlamaModel.permute(): rows as [heads, 2, rows of a head / 2], whose last two dimensions change places."""
    half = len(rows) // heads // 2
    return [rows[h * 2 * half + part * half + i] for h in range(heads) for i in range(half) for part in range(2)]


def rows_of(tensor):
    width = len(tensor[2]) // tensor[1][0]
    return [tensor[2][i * width:(i + 1) * width] for i in range(tensor[1][0])]


def mxfp4_row(codes, scales):
    """Blocks of ggml: the scale, then 16 bytes, element j low and j + 16 high; codes hold two neighbours a byte, the even low."""
    row = b""
    for k, scale in enumerate(scales):
        e = [code for byte in codes[16 * k:16 * k + 16] for code in (byte & 15, byte >> 4)]
        row += bytes([scale]) + bytes(e[j] | e[j + 16] << 4 for j in range(16))
    return row


def widened(tensor):
    """Bytes of a tensor's numbers in F32."""
    return tensor[2] if tensor[0] == "F32" else b"".join(b"\0\0" + tensor[2][i:i + 2] for i in range(0, len(tensor[2]), 2))


def check_pairs(name, gguf, expected):
    for key, value in expected.items():
        same("%s: %s" % (name, key), value, gguf.pairs.get(key))


def common_pairs(architecture, name, file_type, **more):
    return {"general.architecture": ("string", architecture), "general.type": ("string", "model"), "general.name": ("string", name),
            "general.file_type": ("I", file_type), "general.quantization_version": ("I", 2)} | {
                "%s.%s" % (architecture, key): value for key, value in more.items()}


def check_vocabulary(gguf, name):
    tokens = ["<s>", "a", "b", "c", "\u0120", "ab", "\u0120a", "abc", "<tool x>", "[PAD9]", "<|odd|>"]
    types = [CONTROL] + [NORMAL] * 7 + [USER_DEFINED, UNUSED, CONTROL]
    check_pairs(name, gguf, {
        "tokenizer.ggml.model": ("string", "gpt2"), "tokenizer.ggml.pre": ("string", "smaug-bpe" if name == "oss" else "llama-bpe"),
        "tokenizer.ggml.tokens": ("array", 8, tokens + ["[PAD%d]" % i for i in range(11, 40)]),
        "tokenizer.ggml.token_type": ("array", 5, types + [UNUSED] * 29),
        "tokenizer.ggml.merges": ("array", 8, ["a b", "\u0120 a", "ab c"]),
        "tokenizer.ggml.bos_token_id": ("I", 0), "tokenizer.ggml.eos_token_id": ("I", 10), "tokenizer.ggml.padding_token_id": None,
        "tokenizer.ggml.add_bos_token": ("?", True), "tokenizer.ggml.add_eos_token": ("?", False), "tokenizer.ggml.scores": None,
        "tokenizer.chat_template": ("string", "one"), "tokenizer.chat_template.tool": ("string", "two"),
        "tokenizer.chat_templates": ("array", 8, ["tool"])})


def check_llama():
    gguf, source = Gguf(work + "/w4.gguf"), read_safetensors(work + "/w4/model.safetensors")
    check_pairs("w4", gguf, common_pairs(
        "llama", "w4", 38, block_count=("I", 2), context_length=("I", 128), embedding_length=("I", 32), feed_forward_length=("I", 76),
        vocab_size=("I", 40)) | {"llama.attention." + key: value for key, value in {
            "head_count": ("I", 2), "head_count_kv": ("I", 2), "key_length": ("I", 16), "value_length": ("I", 16),
            "layer_norm_rms_epsilon": ("f", f32(1e-5))}.items()} | {
        "llama.rope.freq_base": ("f", 10000.0), "llama.rope.dimension_count": ("I", 16), "llama.rope.scaling.type": None,
        "llama.expert_count": None})
    check_vocabulary(gguf, "w4")
    names = {"token_embd.weight", "output_norm.weight"}
    for layer in range(2):
        start, there = "model.layers.%d." % layer, "blk.%d." % layer
        names |= {there + "attn_norm.weight", there + "ffn_norm.weight", there + "ffn_down.weight"}
        for ours, theirs in (("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
                             ("self_attn.o_proj", "attn_output"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up")):
            packed, scales = source[start + ours + ".weight_packed"], source[start + ours + ".weight_scale"]
            rows = [mxfp4_row(c, s) for c, s in zip(rows_of(packed), rows_of(scales))]
            if theirs in ("attn_q", "attn_k"):
                rows = permuted(rows, 2)
            same(there + theirs, (39, [len(rows), 32], b"".join(rows)), gguf.tensors.get(there + theirs + ".weight"))
            names.add(there + theirs + ".weight")
        # Rows of 76 are no whole blocks, and stay numbers.
        same(there + "ffn_down", (0, [32, 76], source[start + "mlp.down_proj.weight"][2]), gguf.tensors.get(there + "ffn_down.weight"))
    # Without output.weight: it is the embedding.
    same("w4: names", names, set(gguf.tensors))


def check_biased():
    gguf, source = Gguf(work + "/biased.gguf"), read_safetensors(work + "/biased/model.safetensors")
    check_pairs("biased", gguf, {
        "llama.attention.key_length": ("I", 8), "llama.rope.dimension_count": ("I", 8), "llama.attention.head_count": ("I", 4),
        "llama.attention.head_count_kv": ("I", 2), "general.file_type": ("I", 0), "tokenizer.ggml.model": ("string", "llama"),
        "tokenizer.ggml.pre": ("string", "default"),
        "tokenizer.ggml.tokens": ("array", 8, ["<unk>", "<s>", "</s>", "<0x00>", "<0x41>", "\u2581a", "ab", "\u2581ab", "\u2581", "a",
                                               "b"] + ["[PAD%d]" % i for i in range(11, 40)]),
        "tokenizer.ggml.token_type": ("array", 5, [CONTROL] * 3 + [BYTE] * 2 + [NORMAL] * 6 + [UNUSED] * 29),
        # Minus the place of what the merges make, and on for letters.
        "tokenizer.ggml.scores": ("array", 6, [-1000.0] * 3 + [0.0] * 2 + [0.0, -1.0, -2.0, -3.0, -4.0, -5.0] + [-10000.0] * 29),
        "tokenizer.ggml.add_space_prefix": ("?", True), "tokenizer.ggml.add_bos_token": ("?", True),
        "tokenizer.ggml.bos_token_id": ("I", 1), "tokenizer.ggml.merges": None})
    for part, heads in (("q", 4), ("k", 2), ("v", 0)):
        weight, bias = (source["model.layers.1.self_attn.%s_proj.%s" % (part, kind)] for kind in ("weight", "bias"))
        rows, numbers = rows_of(weight), [b"\0\0" + bias[2][2 * i:2 * i + 2] for i in range(bias[1][0])]
        if heads:
            rows, numbers = permuted(rows, heads), permuted(numbers, heads)
        same(part + " of biased", (30, weight[1], b"".join(rows)), gguf.tensors.get("blk.1.attn_%s.weight" % part))
        same(part + " bias", (0, bias[1], b"".join(numbers)), gguf.tensors.get("blk.1.attn_%s.bias" % part))
    same("head", (0, [40, 32], source["lm_head.weight"][2]), gguf.tensors.get("output.weight"))
    # Frequencies 10000^(-i/4), wavelengths 6.28, 62.8, 628 and 6283: below 64/4 kept, above 64/1 divided by 8, between both.
    smooth = (64 / (2 * math.pi * 10) - 1) / (4 - 1)
    factors = struct.unpack("<4f", gguf.tensors["rope_freqs.weight"][2])
    same("rope_freqs", (1.0, round(1 / ((1 - smooth) / 8 + smooth), 5), 8.0, 8.0), tuple(round(x, 5) for x in factors))


def check_fp8():
    numbers = [f32(E4M3[i % 4][1] * f32((0.75, 3.0, 0.1)[i // 32 // 32])) for i in range(76 * 32)]
    same("fp8: up", (0, [76, 32], f32_bytes(numbers)), Gguf(work + "/fp8.gguf").tensors.get("blk.0.ffn_up.weight"))


def check_experts():
    for name, prefix, kinds in (("mixtral", "block_sparse_moe.", ("w1", "w3", "w2")), ("apart", "mlp.", ("gate_proj", "up_proj", "down_proj"))):
        gguf, source = Gguf("%s/%s.gguf" % (work, name)), read_safetensors("%s/%s/model.safetensors" % (work, name))
        for kind, theirs in zip(kinds, ("gate", "up", "down")):
            all_ = [source["model.layers.0.%sexperts.%d.%s.weight" % (prefix, e, kind)] for e in range(4)]
            same("%s: %s" % (name, theirs), ({"F32": 0, "BF16": 30}[all_[0][0]], [4] + list(all_[0][1]), b"".join(t[2] for t in all_)),
                 gguf.tensors.get("blk.0.ffn_%s_exps.weight" % theirs))
        router = source["model.layers.0.%sgate.weight" % prefix]
        same(name + ": router", (0, [4, 32], widened(router)), gguf.tensors.get("blk.0.ffn_gate_inp.weight"))
    apart = gguf.tensors
    check_pairs("apart", gguf, common_pairs("qwen3moe", "apart", 0, expert_count=("I", 4), expert_used_count=("I", 2),
                                            expert_feed_forward_length=("I", 48)) | {"qwen3moe.vocab_size": None})
    # One tensor of all gates and ups is the same model.
    same("stacked", apart, Gguf(work + "/stacked.gguf").tensors)
    # gpt-oss: [experts, in, 2 out], gate and up in turns, and biases so.
    gguf, source = Gguf(work + "/oss.gguf"), read_safetensors(work + "/oss/model.safetensors")
    _, _, fused = source["model.layers.0.mlp.experts.gate_up_proj"]
    for at, theirs in ((0, "gate"), (1, "up")):
        numbers = b"".join(fused[2 * ((e * 32 + i) * 96 + 2 * o + at):][:2] for e in range(4) for o in range(48) for i in range(32))
        same("oss: " + theirs, (30, [4, 48, 32], numbers), gguf.tensors.get("blk.0.ffn_%s_exps.weight" % theirs))
        bias = source["model.layers.0.mlp.experts.gate_up_proj_bias"]
        numbers = [b"\0\0" + bias[2][i:i + 2] for i in range(0, len(bias[2]), 2)][at::2]
        same("oss: %s bias" % theirs, (0, [4, 48], b"".join(numbers)), gguf.tensors.get("blk.0.ffn_%s_exps.bias" % theirs))
    _, _, down = source["model.layers.0.mlp.experts.down_proj"]
    numbers = b"".join(down[2 * ((e * 48 + i) * 32 + o):][:2] for e in range(4) for o in range(32) for i in range(48))
    same("oss: down", (30, [4, 32, 48], numbers), gguf.tensors.get("blk.0.ffn_down_exps.weight"))
    same("oss: sinks", (0, [2], f32_bytes([0.5, 1.0])), gguf.tensors.get("blk.0.attn_sinks.weight"))
    same("oss: norm", True, "blk.0.post_attention_norm.weight" in gguf.tensors and "blk.0.ffn_norm.weight" not in gguf.tensors)
    check_pairs("oss", gguf, common_pairs("gpt-oss", "oss", 32, expert_feed_forward_length=("I", 48)) | {
        "gpt-oss.attention.sliding_window": ("I", 64), "gpt-oss.rope.scaling.type": ("string", "yarn"),
        "gpt-oss.rope.scaling.factor": ("f", 32.0), "gpt-oss.rope.scaling.original_context_length": ("I", 4096)})
    check_vocabulary(gguf, "oss")


def check_nvfp4():
    """Blocks of 64: four scales, then of each 16 elements 8 bytes, element j low and j + 8 high."""
    gguf, source = Gguf(work + "/nv.gguf"), read_safetensors(work + "/nv/model.safetensors")
    start = "model.layers.0.self_attn.k_proj.weight_"
    rows = []
    for codes, scales in zip(rows_of(source[start + "packed"]), rows_of(source[start + "scale"])):
        e = [code for byte in codes for code in (byte & 15, byte >> 4)]
        rows.append(b"".join(scales[4 * k:4 * k + 4] + bytes(e[i + j] | e[i + j + 8] << 4 for i in range(64 * k, 64 * k + 64, 16)
                                                           for j in range(8)) for k in range(len(scales) // 4)))
    same("nv: k", (40, [64, 64], b"".join(permuted(rows, 2))), gguf.tensors.get("blk.0.attn_k.weight"))
    divisor, = struct.unpack("<f", source[start + "global_scale"][2])
    same("nv: scale", (0, [1], f32_bytes([1 / divisor])), gguf.tensors.get("blk.0.attn_k.scale"))
    named = gguf.pairs["general.tensor_extra.name"][2]
    same("nv: names", sorted(name for name, t in gguf.tensors.items() if t[0] == 40), named)
    same("nv: precision", ("array", 7, [False] * len(named)), gguf.pairs["general.tensor_extra.prec_a4"])


def check():
    check_llama()
    check_biased()
    check_experts()
    check_nvfp4()
    check_fp8()
    check_oss_blocks()
    check_experts_nvfp4()
    print("%d checks of GGUF files, %d failures" % (checks, failures))
    sys.exit(failures != 0)


def wide():
    """A Llama of one layer whose rows of 64 NVFP4 takes, and 96, which it does not."""
    draw = random.Random(5)
    os.mkdir(work + "/wide")
    tensors = {}
    for name, rows, cols in [("model.embed_tokens", 40, 64), ("model.layers.0.mlp.gate_proj", 96, 64), ("model.layers.0.mlp.up_proj", 96, 64),
                             ("model.layers.0.mlp.down_proj", 64, 96)] + [("model.layers.0.self_attn.%s_proj" % p, 64, 64) for p in "qkvo"]:
        tensors[name + ".weight"] = ("F32", [rows, cols], f32_bytes([draw.gauss(0, 0.3) for _ in range(rows * cols)]))
    for name in ("model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"):
        tensors[name + ".weight"] = ("F32", [64], f32_bytes([1.0] * 64))
    write_safetensors(work + "/wide/model.safetensors", tensors)
    with open(work + "/model/config.json") as file:
        write_json("wide/config.json", json.load(file) | {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1})
    write_json("wide/tokenizer.json", byte_level())


def oss_blocks():
    """gpt-oss as its makers publish it: experts in MXFP4, rows of gate and up in turns, everything else numbers; two layers."""
    draw = random.Random(23)
    os.mkdir(work + "/ossq")
    kept = {name: t for name, t in read_safetensors(work + "/oss/model.safetensors").items() if "experts" not in name}
    tensors = {name: t for name, t in kept.items() if ".layers." not in name}
    tensors["lm_head.weight"] = ("BF16", [40, 32], bf16_bytes([draw.gauss(0, 0.3) for _ in range(40 * 32)]))
    for layer in range(2):
        tensors |= {name.replace("layers.0.", "layers.%d." % layer): t for name, t in kept.items() if ".layers." in name}
        start = "model.layers.%d.mlp.experts." % layer
        for name, rows, cols in (("gate_up_proj", 128, 32), ("down_proj", 32, 64)):
            tensors[start + name + "_blocks"] = ("U8", [4, rows, cols // 32, 16], bytes(draw.randrange(256) for _ in range(4 * rows * cols // 2)))
            tensors[start + name + "_scales"] = ("U8", [4, rows, cols // 32], bytes(draw.randrange(118, 126) for _ in range(4 * rows * cols // 32)))
            # Numbers that bf16 holds.
            tensors[start + name + "_bias"] = ("BF16", [4, rows], bf16_bytes([draw.randrange(-64, 64) / 64 for _ in range(4 * rows)]))
    write_safetensors(work + "/ossq/model.safetensors", tensors)
    with open(work + "/oss/config.json") as file:
        config = json.load(file)
    write_json("ossq/config.json", config | {
        "num_hidden_layers": 2, "intermediate_size": 64, "tie_word_embeddings": False, "layer_types": ["sliding_attention", "full_attention"],
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        with open(work + "/oss/" + name) as file:
            write_json("ossq/" + name, json.load(file))


def check_oss_blocks():
    gguf, source = Gguf(work + "/ossq.gguf"), read_safetensors(work + "/ossq/model.safetensors")
    start = "model.layers.1.mlp.experts."
    for name, at, step, theirs in (("gate_up_proj", 0, 2, "gate"), ("gate_up_proj", 1, 2, "up"), ("down_proj", 0, 1, "down")):
        codes, scales = source[start + name + "_blocks"], source[start + name + "_scales"]
        rows, n = codes[1][1], codes[1][2]
        all_ = [mxfp4_row(codes[2][16 * n * i:16 * n * (i + 1)], scales[2][n * i:n * (i + 1)]) for i in range(4 * rows)][at::step]
        same("ossq: " + theirs, (39, [4, rows // step, 32 * n], b"".join(all_)), gguf.tensors.get("blk.1.ffn_%s_exps.weight" % theirs))


def experts_nvfp4():
    """Qwen3 with experts in NVFP4, each with a tensor scale and an input scale of its own; ModelOpt's layout, whose scales multiply."""
    draw = random.Random(29)
    os.mkdir(work + "/nvmoe")
    tensors = {name: t for name, t in read_safetensors(work + "/wide/model.safetensors").items() if ".mlp." not in name}
    layer = "model.layers.0."
    tensors |= {layer + "self_attn.%s_norm.weight" % part: ("F32", [32], f32_bytes([1.0] * 32)) for part in "qk"}
    tensors[layer + "mlp.gate.weight"] = ("F32", [4, 64], f32_bytes([draw.gauss(0, 0.3) for _ in range(256)]))
    for e in range(4):
        for part, rows, cols in (("gate", 128, 64), ("up", 128, 64), ("down", 64, 128)):
            name = layer + "mlp.experts.%d.%s_proj." % (e, part)
            tensors[name + "weight"] = ("U8", [rows, cols // 2], bytes(draw.randrange(256) for _ in range(rows * cols // 2)))
            tensors[name + "weight_scale"] = ("F8_E4M3", [rows, cols // 16], bytes(draw.randrange(0x20, 0x48) for _ in range(rows * cols // 16)))
            tensors[name + "weight_scale_2"] = ("F32", [], f32_bytes([0.03 + 0.01 * e + (part == "up") / 64]))
            tensors[name + "input_scale"] = ("F32", [], f32_bytes([0.5 + e]))
    write_safetensors(work + "/nvmoe/model.safetensors", tensors)
    with open(work + "/apart/config.json") as file:
        config = json.load(file)
    write_json("nvmoe/config.json", config | {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 128, "moe_intermediate_size": 128,
               "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.0.self_attn*", "model.layers.0.mlp.gate"],
                                       "producer": {"name": "modelopt", "version": "0.47.0"}}})
    write_json("nvmoe/tokenizer.json", byte_level())


def check_experts_nvfp4():
    gguf, source = Gguf(work + "/nvmoe.gguf"), read_safetensors(work + "/nvmoe/model.safetensors")
    for part in ("gate", "up", "down"):
        for ending, theirs in (("weight_scale_2", "scale"), ("input_scale", "input_scale")):
            all_ = b"".join(source["model.layers.0.mlp.experts.%d.%s_proj.%s" % (e, part, ending)][2] for e in range(4))
            same("nvmoe: %s %s" % (part, theirs), (0, [4], all_), gguf.tensors.get("blk.0.ffn_%s_exps.%s" % (part, theirs)))
    # Decoded, each expert has its scale.
    e2m1 = [0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6]
    e4m3 = lambda c: (1 + (c & 7) / 8) * 2.0 ** ((c >> 3) - 7)
    numbers = b""
    for e in range(4):
        name = "model.layers.0.mlp.experts.%d.up_proj." % e
        scale, = struct.unpack("<f", source[name + "weight_scale_2"][2])
        codes, scales = source[name + "weight"][2], source[name + "weight_scale"][2]
        numbers += f32_bytes([f32(e2m1[codes[i // 2] >> 4 * (i % 2) & 15] * e4m3(scales[i // 16]) * scale) for i in range(128 * 64)])
    same("nvmoe: decoded", (0, [4, 128, 64], numbers), Gguf(work + "/nvmoe-f32.gguf").tensors.get("blk.0.ffn_up_exps.weight"))


if command == "make":
    make()
    wide()
    oss_blocks()
    experts_nvfp4()
else:
    check()
