# SPDX-License-Identifier: MIT
"""lint_whole.py MXFP WORK: models by the names that transformers 5.24, mlx-lm 0.32 and llama.cpp give their tensors, whole and with
one thing missing or renamed. Numbers are zeros but for scales."""
import json, os, shutil, struct

from checked import MXFP, WORK, check, finish, run
from safetensors_file import f32_bytes, write_safetensors

os.chdir(WORK)
WIDTH, MLP, TOKENS = 32, 64, 32
NORMS = ("input_layernorm", "post_attention_layernorm")


def weight(*shape):
    n = 1
    for d in shape:
        n *= d
    return "F32", shape, bytes(4 * n)


def layer(name, mlp=True):
    tensors = {name + norm + ".weight": weight(WIDTH) for norm in NORMS}
    tensors.update({name + "self_attn.%s_proj.weight" % part: weight(WIDTH, WIDTH) for part in "qkvo"})
    if mlp:
        tensors.update(glu(name + "mlp."))
    return tensors


def glu(name, parts=("gate_proj", "up_proj", "down_proj")):
    return {name + part + ".weight": weight(*((WIDTH, MLP) if part in ("down_proj", "w2") else (MLP, WIDTH))) for part in parts}


def config(model_type, n_layers, **more):
    return dict({"model_type": model_type, "hidden_size": WIDTH, "intermediate_size": MLP, "num_hidden_layers": n_layers,
                 "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": TOKENS}, **more)


ENDS = {"model.embed_tokens.weight": weight(TOKENS, WIDTH), "model.norm.weight": weight(WIDTH), "lm_head.weight": weight(TOKENS, WIDTH)}


def llama(n_layers=2):
    tensors = dict(ENDS)
    for i in range(n_layers):
        tensors.update(layer("model.layers.%d." % i))
    return tensors


def make(tensors, of):
    shutil.rmtree("m", ignore_errors=True)
    os.mkdir("m")
    write_safetensors("m/model.safetensors", tensors)
    with open("m/config.json", "w") as file:
        json.dump(of, file)


def findings(model="m", *arguments):
    """The checks that found something, and all text."""
    code, out, error = run("lint", "-q", model, *arguments)
    names = sorted({line.rsplit("[", 1)[1].rstrip("]") for line in out.splitlines() if line.endswith("]")})
    return code, names, out + error


def clean(what, tensors, of, notes=()):
    make(tensors, of)
    code, names, out = findings()
    check(what, names == sorted(notes) and code in (0, 6), out)


def found(what, name, says, tensors, of):
    make(tensors, of)
    code, names, out = findings()
    check(what, code == 1 and names == [name] and says in out, out)


def without(tensors, *parts):
    return {k: v for k, v in tensors.items() if not any(part in k for part in parts)}


def renamed(tensors, old, new):
    return {k.replace(old, new): v for k, v in tensors.items()}


# ---- A Llama: each of its tensors is needed, in one of two layers or in the one that there is.
L2 = config("llama", 2)
clean("Llama", llama(), L2)
for n in (1, 2):
    for name in llama(n):
        found("Llama of %d without %s" % (n, name), "missing", "'%s' is missing" % name, without(llama(n), name), config("llama", n))
found("names of another", "missing", "'model.layers.1.self_attn.k_proj.weight' is missing",
      renamed(llama(), "layers.1.self_attn.k_proj", "layers.1.self_attn.key_proj"), L2)
found("a layer", "missing", "layer 'model.layers.1' is missing", without(llama(3), "layers.1."), config("llama", 3))
found("the last layers", "missing", "2 layers are missing, the first is 'model.layers.2'", llama(2), config("llama", 4))
found("more layers", "shape", "has layers up to number 3, and by the configuration there are 2", llama(4), L2)
# A layer that predicts ahead stands behind the others.
ahead = dict(llama(2), **layer("model.layers.2."))
ahead["model.layers.2.eh_proj.weight"] = weight(WIDTH, 2 * WIDTH)
clean("MTP", ahead, config("deepseek_like", 2))

# ---- Heads. LlamaConfig ties nothing where config.json does not say; GemmaConfig does.
headless = without(llama(), "lm_head")
clean("tied", headless, dict(L2, tie_word_embeddings=True))
clean("tied, both", llama(), dict(L2, tie_word_embeddings=True))
found("not tied", "missing", "'lm_head.weight'", headless, dict(L2, tie_word_embeddings=False))
found("tied, and different", "tied", "lm_head.weight", dict(llama(), **{"lm_head.weight": ("F32", (TOKENS, WIDTH), bytes(4 * TOKENS * WIDTH - 1) + b"\x01")}),
      dict(L2, tie_word_embeddings=True))
clean("Gemma", headless, config("gemma", 2, head_dim=8))
score = dict(headless, **{"score.weight": weight(2, WIDTH)})
clean("a classifier", score, dict(L2, architectures=["LlamaForSequenceClassification"]))
found("a model with a head", "missing", "'lm_head.weight'", headless, dict(L2, architectures=["LlamaForCausalLM"]))
bare = {k[len("model."):]: v for k, v in headless.items()}
clean("LlamaModel", bare, dict(L2, architectures=["LlamaModel"]))
found("LlamaModel without a norm", "missing", "'norm.weight' is missing", {k: v for k, v in bare.items() if k != "norm.weight"},
      dict(L2, architectures=["LlamaModel"]))
# EAGLE's first layer has no norm, and the embedding and the head are those of the model that it drafts for.
clean("EAGLE", dict(without(layer("layers.0."), "input_layernorm"), **{"fc.weight": weight(WIDTH, 2 * WIDTH)}), config("llama", 1))

# ---- Names that wrappers make.
for prefix in ("_orig_mod.", "module.", "_fsdp_wrapped_module.", "_forward_module.", "base_model.model.", "model.", "module.module."):
    found("prefix " + prefix, "names", prefix, {prefix + k: v for k, v in llama().items()}, L2)
found("within", "names", "_checkpoint_wrapped_module.", renamed(llama(), "layers.1.", "layers.1._checkpoint_wrapped_module."), dict(L2, model_type="other"))
found("peft", "names", "base_layer.", renamed(llama(), "q_proj.", "q_proj.base_layer."), dict(L2, model_type="other"))
clean("module within", renamed(llama(), "model.", "model.module."), dict(L2, model_type="other"))

# ---- Mixtures. A dense layer among them, and experts one each, or in one tensor.
def mixture(dense=(0,), experts=4, fused=False):
    tensors = dict(ENDS)
    for i in range(3):
        name = "model.layers.%d." % i
        tensors.update(layer(name, i in dense))
        tensors.update({name + "self_attn.%s_norm.weight" % c: weight(WIDTH // 4) for c in "qk"})
        if i in dense:
            continue
        tensors[name + "mlp.gate.weight"] = weight(experts, WIDTH)
        if fused:
            tensors[name + "mlp.experts.gate_up_proj"] = weight(experts, 2 * MLP, WIDTH)
            tensors[name + "mlp.experts.down_proj"] = weight(experts, WIDTH, MLP)
        for e in range(0 if fused else experts):
            tensors.update(glu(name + "mlp.experts.%d." % e))
    return tensors


MOE = config("qwen3_moe", 3, num_experts=4, moe_intermediate_size=MLP)
clean("Qwen3-MoE", mixture(), MOE)
clean("Qwen3-MoE, experts in one tensor", mixture(fused=True), MOE)
clean("Qwen3-MoE of mlx-lm", renamed(mixture(fused=True), "experts.", "switch_mlp."), MOE)
found("a router", "missing", "'model.layers.1.mlp.gate.weight'", without(mixture(), "layers.1.mlp.gate.weight"), MOE)
found("routers", "missing", "mlp.gate.weight'", without(mixture(()), "mlp.gate.weight"), MOE)
found("an expert", "missing", "1 of 4 experts are missing in 'model.layers.2.mlp.experts'", without(mixture(), "layers.2.mlp.experts.1."), MOE)
found("the last expert", "missing", "1 of 4 experts are missing in 'model.layers.2.mlp.experts'", without(mixture(), "layers.2.mlp.experts.3."), MOE)
found("an expert's weight", "missing", "'model.layers.2.mlp.experts.0.up_proj.weight' is missing", without(mixture(), "layers.2.mlp.experts.0.up"), MOE)
found("gate", "missing", "'model.layers.0.mlp.gate_proj.weight' is missing", without(mixture(), "layers.0.mlp.gate_proj"), MOE)
mixtral = dict(ENDS)
for i in range(2):
    mixtral.update(layer("model.layers.%d." % i, False))
    mixtral["model.layers.%d.block_sparse_moe.gate.weight" % i] = weight(2, WIDTH)
    for e in range(2):
        mixtral.update(glu("model.layers.%d.block_sparse_moe.experts.%d." % (i, e), ("w1", "w2", "w3")))
MIXTRAL = config("mixtral", 2, num_local_experts=2)
clean("Mixtral", mixtral, MIXTRAL)
found("Mixtral's router", "missing", "block_sparse_moe.gate.weight'", without(mixtral, "layers.1.block_sparse_moe.gate"), MIXTRAL)
found("Mixtral's w3", "missing", "experts.1.w3.weight'", without(mixtral, "layers.1.block_sparse_moe.experts.1.w3"), MIXTRAL)

# ---- Families that are not known: layers are compared with each other.
def hybrid(n=8):
    """Every fourth layer attends, the others are a state space; the first has a dense MLP, as in DeepSeek, and biases stand in one."""
    tensors = {"model.embed_tokens.weight": weight(TOKENS, WIDTH)}
    for i in range(n):
        name = "model.layers.%d." % i
        for part in ("norm", "q_proj", "k_proj", "o_proj") if i % 4 == 3 else ("norm", "in_proj", "conv1d", "out_proj"):
            tensors[name + "mixer.%s.weight" % part] = weight(WIDTH)
        for part in ("dense_up", "dense_down") if i == 0 else ("router", "up", "down"):
            tensors[name + "mlp.%s.weight" % part] = weight(WIDTH)
    return tensors


OTHER = config("other_hybrid", 8)
clean("a hybrid", hybrid(), OTHER)
for name in ("layers.2.mixer.conv1d", "layers.5.mlp.router", "layers.6.mixer.norm"):
    found("a hybrid without " + name, "missing", name, without(hybrid(), name), OTHER)
found("a hybrid's layer", "missing", "layer 'model.layers.4'", without(hybrid(), "layers.4."), OTHER)
found("a hybrid's last layer", "missing", "layer 'model.layers.7'", without(hybrid(), "layers.7."), OTHER)
found("a hybrid's tensor renamed", "missing", "layers.2.mixer.conv1d", renamed(hybrid(), "layers.2.mixer.conv1d", "layers.2.mixer.conv"), OTHER)
# The last layers share keys and values with one before (Gemma3n); the first has no norm (ModernBERT), or a bias alone (T5).
clean("shared keys", {k: v for k, v in llama(8).items() if not any("layers.%d.self_attn.%s_" % (i, c) in k for i in (6, 7) for c in "kv")},
      config("other", 8))
modern = {"layers.%d.%s.weight" % (i, part): weight(WIDTH) for i in range(6) for part in ("attn_norm", "attn.Wqkv", "mlp.Wi")}
clean("ModernBERT", without(modern, "layers.0.attn_norm"), config("modernbert", 6))
found("ModernBERT's layer 2", "missing", "layers.2.attn_norm.weight", without(modern, "layers.0.attn_norm", "layers.2.attn_norm"), config("modernbert", 6))
clean("T5", dict(modern, **{"layers.0.attn.relative_attention_bias.weight": weight(4)}), config("other", 6))
# Any language model has an embedding, and a head that is not it.
CAUSAL = config("other", 3, architectures=["OtherForCausalLM"], tie_word_embeddings=False)
clean("ends", renamed(renamed(llama(3), "embed_tokens", "wte"), "lm_head", "embed_out"), CAUSAL)
found("no embedding", "missing", "no embedding is there", without(llama(3), "embed_tokens"), CAUSAL)
found("no head", "missing", "no output head is there", without(llama(3), "lm_head"), CAUSAL)
clean("no head, tied", without(llama(3), "lm_head"), dict(CAUSAL, tie_word_embeddings=True))
# Stages of layers, nn.Sequential, a tower with fewer layers than the language model has.
stages = {"encoder.layers.%d.blocks.%d.attn.weight" % (i, k): weight(4) for i in range(4) for k in (0, 1, 2)[: 3 if i == 2 else 2]}
stages.update({"encoder.layers.%d.downsample.weight" % i: weight(4) for i in range(3)})
clean("stages", stages, {"model_type": "swin", "num_hidden_layers": 4})
# Layers that are others on purpose: the third factor of DPT's is 1, the first block of EfficientNet does not expand, timm counts blocks
# within stages.
clean("DPT", {"neck.reassemble_stage.layers.%d.%s" % (i, part): weight(4) for i in range(4) for part in ("projection.weight", "resize.weight", "resize.bias")
              if i != 2 or "resize" not in part}, {"model_type": "dpt"})
clean("EfficientNet", {"encoder.blocks.%d.%s.weight" % (i, part): weight(4) for i in range(5)
                       for part in ("depthwise_conv.depthwise_conv", "expansion.expand_conv", "expansion.expand_bn") if i > 0 or "expand" not in part},
      {"model_type": "efficientnet"})
clean("timm", {"blocks.%d.%d.%s.weight" % (i, k, part): weight(4) for i in range(4) for k in range(2) for part in ("bn1", "bn2", "bn3") if i > 0 or part != "bn3"},
      {"architecture": "efficientnet_b0"}, ("model-type",))
clean("BERT with code of its own", {"encoder.layer.%d.attention.Wqkv.weight" % i: weight(4) for i in range(3)},
      config("bert", 3, auto_map={"AutoModel": "modeling_bert.BertModel"}))
found("no layer at all", "missing", "no layer is there, and by the configuration there are 2", ENDS, L2)
# An adapter's own file has these names.
make({"base_model.model.model.layers.0.self_attn.q_proj.lora_%s.weight" % part: weight(4, WIDTH) for part in "AB"}, {})
check("a file of an adapter", findings("m/model.safetensors")[1] == [], findings("m/model.safetensors")[2])
clean("nn.Sequential", {"blocks.%d.weight" % i: weight(4) for i in (0, 2, 3, 5)}, {"model_type": "other", "num_hidden_layers": 9})
tower = {"vision_tower.layers.%d.%s.weight" % (i, p): weight(4) for i in range(3) for p in ("norm", "attn.qkv")}
clean("a tower", dict(llama(4), **tower), config("llava_like", 4))
found("a tower's norm", "missing", "vision_tower.layers.1.norm", dict(llama(4), **without(tower, "layers.1.norm")), config("llava_like", 4))

# ---- Layouts that are known by name alone: AWQ of a whole model, and of one without a layer's k_proj.
awq = {}
for name, value in llama().items():
    if "_proj" not in name:
        awq[name] = value
        continue
    rows, cols = value[1]
    awq.update({name.replace("weight", part): tensor for part, tensor in (
        ("qweight", ("I32", (cols, rows // 8), bytes(cols * rows // 2))), ("qzeros", ("I32", (1, rows // 8), bytes(rows // 2))),
        ("scales", ("F16", (1, rows), bytes(2 * rows))))})
AWQ = dict(L2, quantization_config={"quant_method": "awq", "bits": 4, "group_size": WIDTH})
clean("AWQ", awq, AWQ, ["unknown-layout"])
make(without(awq, "layers.1.self_attn.k_proj"), AWQ)
code, names, out = findings()
check("AWQ without k_proj", code == 1 and "missing" in names and "'model.layers.1.self_attn.k_proj.weight'" in out, out)
make(awq, AWQ)
summary = json.loads(run("lint", "-q", "--json", "m")[1])["summary"]
check("what was not read", summary.get("unread") == 14 and summary["whole_unchecked"] is None and not summary["checked"], summary)
check("what was not read, as text", "not checked: the numbers of 14 tensors, the first of them 'model.layers.0.mlp.down_proj.qweight'\n" in findings()[2])
make(llama(), dict(L2, model_type="other"))
summary = json.loads(run("lint", "-q", "--json", "m")[1])["summary"]
check("what is not known", "what else a model of type other needs is not known" in summary.get("whole_unchecked", ""), summary)
check("a file alone", "not known: whether all tensors are there: a file alone may be one of several\n" in findings("m/model.safetensors")[2])

# ---- Quantized tensors that loaders take, and do not. MXFP8: 64 is 2^-63, and codes are 0.
def scaled(name, rows, scale, shape, algorithm=None, cols=WIDTH, kind="other"):
    n = 1
    for d in shape:
        n *= d
    of = {"model_type": kind, "hidden_size": cols, "num_hidden_layers": 1}
    of["quantization_config"] = algorithm or {"quant_method": "fp8", "weight_block_size": [1, 32]}
    codes = {name: ("F8_E4M3", rows, bytes([0x38]) * (rows[0] * rows[1] * (rows[2] if len(rows) > 2 else 1)))}
    return dict(codes, **{name + scale: ("U8", shape, b"\x40" * n) if scale == "_scale_inv" else ("F32", shape, f32_bytes([2.0 ** i for i in range(n)]))}), of


# FP8Experts of transformers: gate_up_proj, down_proj and the same with _scale_inv.
experts = {}
for name, rows in (("model.layers.0.mlp.experts.gate_up_proj", [2, 2 * MLP, WIDTH]), ("model.layers.0.mlp.experts.down_proj", [2, WIDTH, MLP])):
    tensors, of = scaled(name, rows, "_scale_inv", rows[:2] + [rows[2] // 32], kind="qwen3_5_moe_text")
    experts.update(tensors)
make(experts, of)
code, names, out = findings("m", "--ignore", "missing")
check("experts of MXFP8 in one tensor", "2 quantized weights: errors 0, warnings 0" in out, out)
# QuantizedSwitchLinear of mlx-lm: U32 words and bytes of scales.
mlx = {}
for part, rows, cols in (("gate_proj", MLP, WIDTH), ("up_proj", MLP, WIDTH), ("down_proj", WIDTH, MLP)):
    mlx["model.layers.0.mlp.experts.%s.weight" % part] = "U32", (2, rows, cols // 8), b"\x22" * (2 * rows * cols // 2)
    mlx["model.layers.0.mlp.experts.%s.scales" % part] = "U8", (2, rows, cols // 32), b"\x7f" * (2 * rows * cols // 32)
make(mlx, {"model_type": "gpt_oss", "hidden_size": WIDTH, "num_local_experts": 2,
           "quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}})
code, names, out = findings("m", "--ignore", "missing")
check("experts of MLX in one tensor", "3 quantized weights: errors 0, warnings 0" in out, out)
# ModelOptFp8PbWoLinearMethod of vLLM: [out / 128, 1, in / 128, 1], whose last squares may be cut.
PB = {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO", "exclude_modules": ["lm_head"]}
for algorithm, rows, grid in (("FP8_PB_WO", 256, [2, 1, 3, 1]), ("fp8_pb_wo", 200, [2, 1, 3, 1]), ("FP8_BLOCK_SCALES", 200, [2, 3])):
    tensors, of = scaled("x.weight", [rows, 320], "_scale", grid, dict(PB, quant_algo=algorithm), 320)
    make(tensors, of)
    code, names, out = findings()
    check("%s of %d rows" % (algorithm, rows), code == 0 and names == [] and ", 1 quantized weights" in out, out)
    code, out, error = run("dequantize", "m", "-o", "d", "--to", "f32", "-q", "--force")
    with open("d/model.safetensors", "rb") as file:
        numbers = file.read()[-4 * rows * 320:]
    want = b"".join(f32_bytes([2.0 ** (r // 128 * 3 + c // 128) for c in range(320)]) for r in range(rows))
    check("numbers of %s of %d rows" % (algorithm, rows), code == 0 and numbers == want, error)
tensors, of = scaled("x.weight", [200, 320], "_scale", [2, 1, 3, 1], {"quant_method": "modelopt"}, 320)
make(tensors, of)
code, names, out = findings()
check("squares that nothing states", names == ["unknown-layout"] and "FP8 with a scale for each square" in out and "each tensor" not in out, out)

# compressed-tensors matches targets with classes of modules: Linear is not Embedding.
embedding = {"model.embed_tokens.weight_packed": ("U8", (TOKENS, WIDTH // 2), b"\x22" * (TOKENS * WIDTH // 2)),
             "model.embed_tokens.weight_scale": ("U8", (TOKENS, WIDTH // 32), b"\x7f" * (TOKENS * WIDTH // 32))}
tensors = dict(without(llama(), "embed_tokens"), **embedding)
group = {"weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "symmetric": True, "dynamic": False,
                     "scale_dtype": "torch.uint8"}, "format": "mxfp4-pack-quantized"}
CT = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "quantization_status": "compressed",
      "ignore": ["lm_head", "re:.*_proj"]}
for targets, names in ((["Linear"], ["skipped"]), (["Linear", "Embedding"], []), (["model.embed_tokens"], []), (["Linear", "re:.*embed_tokens"], [])):
    make(tensors, dict(L2, quantization_config=dict(CT, config_groups={"group_0": dict(group, targets=targets)})))
    code, got, out = findings()
    check("an embedding, targets %s" % targets, got == names and code == (1 if names else 0), out)
# A linear layer within a module of an embedding is of the class Linear.
make({"time_embed.linear_1" + name[len("model.embed_tokens"):]: value for name, value in embedding.items()},
     dict(L2, quantization_config=dict(CT, config_groups={"group_0": dict(group, targets=["Linear"])})))
check("a layer within an embedding", "skipped" not in findings()[1], findings()[2])
# What quantize makes of an embedding is what it says there is: beside the class Linear its module is a target.
make({"model.embed_tokens.weight": ("F32", (TOKENS, WIDTH), f32_bytes([1.0] * (TOKENS * WIDTH))),
      "model.layers.0.mlp.up_proj.weight": ("F32", (WIDTH, WIDTH), f32_bytes([1.0] * (WIDTH * WIDTH)))}, {"model_type": "unknown_to_us"})
run("quantize", "m", "-o", "d", "-q", "--force", "--include", "model.embed_tokens.weight")
with open("d/config.json") as file:
    targets = json.load(file)["quantization_config"]["config_groups"]["group_0"]["targets"]
check("targets of a quantized embedding", targets == ["Linear", "model.embed_tokens"], targets)

# ---- GGUF.
def gguf(tensors, pairs):
    """Tensors as name: (type, dimensions from the last, bytes)."""
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs))
    for key, value in pairs.items():
        head += text(key) + (struct.pack("<I", 8) + text(value) if isinstance(value, str) else struct.pack("<II", 4, value))
    data = b""
    for name, (kind, dims, values) in tensors.items():
        head += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, len(data))
        data += values + bytes(-len(values) % 32)
    with open("m.gguf", "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)


F32, Q4_1, Q8_0 = 0, 3, 8


def numbers(*dims):
    n = 1
    for d in dims:
        n *= d
    return F32, dims, bytes(4 * n)


def blocks(n_layers=2):
    tensors = {"token_embd.weight": numbers(WIDTH, TOKENS), "output_norm.weight": numbers(WIDTH)}
    for i in range(n_layers):
        tensors.update({"blk.%d.%s.weight" % (i, part): numbers(WIDTH, WIDTH) for part in (
            "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")})
        tensors.update({"blk.%d.%s.weight" % (i, part): numbers(WIDTH) for part in ("attn_norm", "ffn_norm")})
    return tensors


PAIRS = {"general.architecture": "llama", "llama.block_count": 2}


def of_gguf(what, tensors, names, says="", pairs=PAIRS, code=None):
    gguf(tensors, pairs)
    got, found_names, out = findings("m.gguf")
    check("GGUF: " + what, found_names == names and says in out and got == (code if code is not None else 1 if names else 0), out)


of_gguf("whole", blocks(), [])
for name in blocks():
    of_gguf("without " + name, without(blocks(), name), ["missing"], "'%s' is missing" % name)
of_gguf("a layer", without(blocks(), "blk.1."), ["missing"], "layer 'blk.1' is missing")
of_gguf("an adapter", without(blocks(), "blk.1."), [], "general.type", dict(PAIRS, **{"general.type": "adapter"}))
# GGML_MAX_NAME is 64, with the NUL: gguf_init_from_file() refuses 64 bytes.
for n, names in ((63, []), (64, ["names"])):
    of_gguf("a name of %d bytes" % n, dict(blocks(), **{"x" * n: numbers(WIDTH)}), names)
packed = dict(blocks(), **{"blk.0.ffn_up.weight": (Q4_1, (WIDTH, WIDTH), bytes(20 * WIDTH)), "blk.1.ffn_up.weight": (Q4_1, (WIDTH, WIDTH), bytes(20 * WIDTH))})
of_gguf("Q4_1", packed, ["unknown-layout"], "'blk.0.ffn_up.weight': it and 1 other are Q4_1 of ggml, which mxfp does not read", code=6)
of_gguf("Q8_0", dict(blocks(), **{"blk.0.ffn_up.weight": (Q8_0, (WIDTH, WIDTH), bytes(34 * WIDTH))}), [])
of_gguf("Q8_0, NaN", dict(blocks(), **{"blk.0.ffn_up.weight": (Q8_0, (WIDTH, WIDTH), bytes(34 * 5) + b"\x00\x7e" + b"\x01" * 32 + bytes(34 * (WIDTH - 6)))}),
        ["non-finite"], "32 of 1024 elements are NaN or Inf, the first in row 5, column 0")
finish()
