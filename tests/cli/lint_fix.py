# SPDX-License-Identifier: MIT
"""lint_fix.py MXFP WORK: faults put into models by hand, and what mxfp lint --fix makes of them. WORK has the model of small_llama.py.
What is expected are the tensors before the fault, or numbers that are worked out here."""
import copy, json, math, os, shutil, struct, subprocess, sys

from safetensors_file import bf16_bytes, f32_bytes, read_safetensors, write_safetensors

MXFP, WORK = sys.argv[1], sys.argv[2]
os.chdir(WORK)
checks = failures = 0
Q, K, V, O, UP = ("model.layers.0.self_attn.%s_proj" % c for c in "qkvo"), 0, 0, 0, "model.layers.0.mlp.up_proj"
Q, K, V, O = Q
FILE = "/model.safetensors"


def check(what, good, got=""):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        print("FAIL: %s %s" % (what, got))


def run(*arguments):
    p = subprocess.run([MXFP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return p.returncode, p.stdout, p.stderr.strip()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write_model(name, tensors, config, others=()):
    """A directory with these tensors and a config.json, and a file to be carried."""
    shutil.rmtree(name, ignore_errors=True)
    os.mkdir(name)
    write_safetensors(name + FILE, tensors)
    for path, value in (("config.json", config), *others):
        if value is not None:
            with open(name + "/" + path, "w") as file:
                json.dump(value, file)
    with open(name + "/tokenizer.model", "wb") as file:
        file.write(b"\0pieces\n")


def fix(what, *arguments, code=0, says=(), source="bad", out="out"):
    """Fixes bad; the output is clean if the exit code is 0, and has the file that is carried."""
    shutil.rmtree(out, ignore_errors=True)
    got, text, error = run("lint", source, "--fix", "-o", out, "-q", *arguments)
    check(what + ": exit code", got == code, (got, text, error))
    for part in says:
        check(what + ": says", part in text + error, (part, text, error))
    check(what + ": nothing partial", not os.path.exists(out + ".partial"))
    if code == 0 and os.path.isdir(out):
        got, text, error = run("lint", out, "-q")
        check(what + ": clean", got == 0 and "errors 0, warnings 0" in text, text + error)
        check(what + ": carried", read(out + "/tokenizer.model") == b"\0pieces\n")
    if code != 0 and not any("fixed: " in part for part in says):
        check(what + ": nothing is written", not os.path.exists(out))
    return read_safetensors(out + FILE) if os.path.exists(out + FILE) else {}


def same(what, got, expected):
    check(what + ": names", sorted(got) == sorted(expected), sorted(set(got) ^ set(expected))[:3])
    other = [name for name in expected if name in got and got[name] != expected[name]]
    check(what + ": bytes", not other, [(name, got[name][:2], expected[name][:2]) for name in other[:3]])


def section(name):
    with open(name + "/config.json") as file:
        return json.load(file)["quantization_config"]


for layout, weights in (("compressed-tensors", "mxfp4"), ("modelopt", "nvfp4"), ("quark", "mxfp4"), ("compressed-tensors", "nvfp4")):
    check("quantize", run("quantize", "model", "-q", "-o", layout + weights, "--weights", weights, "--layout", layout,
                          *(["--fuse"] if weights == "nvfp4" else []))[0] == 0)
check("quantize", run("quantize", "model", "-q", "-o", "mxfp8", "--weights", "mxfp8", "--layout", "compressed-tensors")[0] == 0)
models = {name: (read_safetensors(name + FILE), json.load(open(name + "/config.json"))) for name in
          ("model", "compressed-tensorsmxfp4", "modeloptnvfp4", "quarkmxfp4", "compressed-tensorsnvfp4", "mxfp8")}
MX, NV, QUARK, CT_NV, MX8 = (models[name] for name in ("compressed-tensorsmxfp4", "modeloptnvfp4", "quarkmxfp4",
                                                       "compressed-tensorsnvfp4", "mxfp8"))


# The order of nibbles.
def reorder(data, column, n):
    """Codes in pairs, in another order: those of column(place) stand at a place of each n."""
    out = bytearray(len(data))
    for group in range(0, 2 * len(data), n):
        for place in range(n):
            at, to = group + column(place), group + place
            out[to // 2] |= (data[at // 2] >> 4 * (at % 2) & 15) << 4 * (to % 2)
    return bytes(out)


ORDERS = {"swapped": (lambda p: p ^ 1, 32), "halves": (lambda p: p % 2 * 16 + p // 2, 32), "pairs": (lambda p: p % 16 * 2 + p // 16, 32),
          "halves of 16": (lambda p: p % 2 * 8 + p // 2, 16)}
for name, (column, n) in ORDERS.items():
    for (tensors, config), suffix in ((MX, "_packed"), (QUARK, ""), (NV, "")):
        bad = {k: (t[0], t[1], reorder(t[2], column, n)) if k.endswith("weight" + suffix) and t[0] == "U8" else t for k, t in tensors.items()}
        write_model("bad", bad, config)
        n_bad = sum(bad[k] != tensors[k] for k in tensors)
        got = fix("nibbles " + name, "--against", "model", says=["[nibble-order]", "fixed: codes of '%s.weight" % UP, "fixed %d, not fixed 0" % n_bad])
        same("nibbles " + name, got, tensors)
        if name == "swapped" and suffix:
            check("config.json stays", read("bad/config.json") == read("out/config.json"))
# Experts that lie [in, out] in the source; 32-bit words of codes.
for source, layout, dtype in (("oss", "gpt-oss", "U8"), ("model", "mlx", "U32")):
    check("quantize " + layout, run("quantize", source, "-q", "-o", layout, "--weights", "mxfp4", "--layout", layout)[0] == 0)
    tensors = read_safetensors(layout + FILE)
    bad = {k: (t[0], t[1], reorder(t[2], *ORDERS["halves"])) if t[0] == dtype and "scales" not in k else t for k, t in tensors.items()}
    check("%s: some are bad" % layout, bad != tensors)
    config = json.load(open(layout + "/config.json"))
    config["quantization_config"].pop("modules_to_not_convert", None)  # of experts that are not quantized
    write_model("bad", bad, config)
    same(layout, fix(layout, "--against", source, says=["in the order of layout " + layout]), tensors)
# One of them alone, and what has no evidence.
bad = dict(MX[0])
bad[O + ".weight_packed"] = (*bad[O + ".weight_packed"][:2], reorder(bad[O + ".weight_packed"][2], *ORDERS["swapped"]))
write_model("bad", bad, MX[1])
same("one", fix("one", "--against", "model", says=["fixed 1, not fixed 0"]), MX[0])
code, text, _ = run("lint", "bad", "-q", "--against", "model")
check("against without --fix", code == 1 and "[nibble-order]" in text and "fixed" not in text, text)
got = fix("other numbers", "--against", "nan.safetensors", says=["fixed 1"])
# A source that is another model has no such numbers; one without the names is refused.
other = {k: (t[0], t[1], f32_bytes([math.sin(i * 0.7) for i in range(len(t[2]) // 4)])) for k, t in models["model"][0].items()}
write_safetensors("other.safetensors", other)
fix("another model", "--against", "other.safetensors", code=3, says=["its numbers are in no order those of a 4-bit weight of bad"])
write_safetensors("none.safetensors", {"x": ("F32", [1], f32_bytes([1]))})
fix("without names", "--against", "none.safetensors", code=3, says=["has no unquantized tensor with the name and shape"])

# Lists of modules.
config = copy.deepcopy(MX[1])
config["quantization_config"]["ignore"] = ["lm_head", "re:.*embed.*", "model.layers.0"]
write_model("bad", MX[0], config)
got = fix("lists", says=["fixed: 'model.layers.0' of ignore of quantization_config -> removed", "ignore of quantization_config: none -> 'model.layers.1.mlp.down_proj'"])
same("lists", got, MX[0])
check("lists", sorted(section("out")["ignore"]) == ["lm_head", "model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj", "re:.*embed.*"],
      section("out")["ignore"])
rest = section("out")
rest["ignore"] = config["quantization_config"]["ignore"]
check("lists: the rest stays", rest == config["quantization_config"])
config = copy.deepcopy(NV[1])
second = json.load(open("modeloptnvfp4/hf_quant_config.json"))
second["quantization"]["exclude_modules"] = ["model.layers.*.self_attn*"]
write_model("bad", NV[0], config, [("hf_quant_config.json", second)])
same("hf_quant_config.json", fix("hf_quant_config.json", says=["'model.layers.*.self_attn*' of exclude_modules of hf_quant_config.json -> removed"]), NV[0])
check("config.json is as it was", read("out/config.json") == read("bad/config.json"))
check("exclude_modules", json.load(open("out/hf_quant_config.json"))["quantization"]["exclude_modules"] == [])
config = copy.deepcopy(MX[1])
del config["quantization_config"]["ignore"]
write_model("bad", MX[0], config)
fix("no list", says=["none -> 'model.layers.0.mlp.down_proj'"])
check("no list", section("out")["ignore"] == ["model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"], section("out").get("ignore"))

# A tied head has no tensor, and stays listed; what is no list stays; an expression that is none ends lint.
config = copy.deepcopy(MX[1])
config["quantization_config"]["ignore"] = ["re:.*(lm_head|down_proj|q_proj)"]
write_model("bad", MX[0], config)
same("tied head", fix("tied head", says=["-> removed", "fixed 2, not fixed 0"]), MX[0])
check("tied head", sorted(section("out")["ignore"]) == ["lm_head", "model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"], section("out")["ignore"])
for ignore, code, said in (("lm_head", 1, "not fixed: under which key"), (["re:("], 3, "ignored modules 're:('"), ({"x": 1}, 1, "not fixed: under which key")):
    config["quantization_config"]["ignore"] = ignore
    write_model("bad", MX[0], config)
    fix("a list %s" % ignore, code=code, says=[said])

# Targets by name: one that is not quantized, and one that no group names; not where the names are those of another program.
targets = [k[:-len(".weight_packed")] for k in MX[0] if k.endswith("_packed")]
config = copy.deepcopy(MX[1])
config["quantization_config"]["config_groups"]["group_0"]["targets"] = [t for t in targets if t != UP] + ["model.layers.0.mlp.down_proj"]
config["quantization_config"]["ignore"] = ["lm_head"]
write_model("bad", MX[0], config)
same("targets", fix("targets", says=["'%s.weight': it is quantized (mxfp4), and no target" % UP, "config_groups: none -> '%s'" % UP,
                                     "ignore of quantization_config: none -> 'model.layers.0.mlp.down_proj'", "fixed 2, not fixed 0"]), MX[0])
check("targets", sorted(section("out")["config_groups"]["group_0"]["targets"]) == sorted(targets + ["model.layers.0.mlp.down_proj"]))
check("targets: ignore", section("out")["ignore"] == ["lm_head", "model.layers.0.mlp.down_proj"])
config["quantization_config"]["config_groups"]["group_1"] = config["quantization_config"]["config_groups"]["group_0"]
write_model("bad", MX[0], config)
fix("two groups of the format", code=1, says=["not fixed: which group of config_groups", "fixed: ignore of"])
config["quantization_config"]["config_groups"] = {"group_0": dict(MX[1]["quantization_config"]["config_groups"]["group_0"], targets=["transformer.h.0"])}
write_model("bad", MX[0], config)
check("names of another program", run("lint", "bad", "-q")[0] == 0)

# A section without quantized tensors; one about caches alone may be meant.
write_model("bad", models["model"][0], dict(models["model"][1], quantization_config=MX[1]["quantization_config"]),
            [("hf_quant_config.json", second)])
same("left over", fix("left over", says=["[config]", "fixed: quantization_config with quant_method compressed-tensors -> none"]), models["model"][0])
check("left over", json.load(open("out/config.json")) == models["model"][1] and not os.path.exists("out/hf_quant_config.json"))
for name, left in (("quantization_config", {"quant_method": "fp8", "weight_block_size": [128, 128]}), ("quantization_config", QUARK[1]["quantization_config"]),
                   ("quantization", {"group_size": 32, "bits": 4, "mode": "mxfp4"})):
    write_model("bad", models["model"][0], dict(models["model"][1], **{name: left}))
    same("left over", fix("left over", says=["fixed: %s" % name]), models["model"][0])
    check("left over", json.load(open("out/config.json")) == models["model"][1])
cache = {"quant_method": "modelopt", "quant_algo": None, "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}
write_model("bad", models["model"][0], dict(models["model"][1], quantization_config=cache))
fix("caches", code=1, says=["not fixed: it does not say that weights are quantized"])
config = copy.deepcopy(MX[1])
del config["quantization_config"]
write_model("bad", MX[0], config)
fix("no section", code=1, says=["not fixed: how activations were to be quantized cannot be told"])

# Scales of inputs.
inputs = dict(NV[0])
for k in list(inputs):
    if k.endswith(".weight_scale_2"):
        inputs[k[:-len("weight_scale_2")] + "input_scale"] = ("F32", [], f32_bytes([0.0625 if "attn" in k and "o_proj" not in k else 0.5]))
config = copy.deepcopy(NV[1])
config["quantization_config"]["quant_algo"] = "NVFP4"
for bad_scale in (math.nan, math.inf, 0.0, -1.0, 1e-40):
    bad = dict(inputs)
    bad[K + ".input_scale"] = ("F32", [], f32_bytes([bad_scale]))
    write_model("bad", bad, config)
    same("input scale %g" % bad_scale, fix("input scale", says=["[scale-value]", "-> 0.0625, that of '%s.input_scale'" % Q]), inputs)
bad = {k: t for k, t in inputs.items() if k not in (K + ".input_scale", Q + ".input_scale", UP + ".input_scale")}
write_model("bad", bad, config)
same("missing", fix("missing", says=["'%s.input_scale': none -> 0.0625, that of '%s.input_scale'" % (K, V), "none -> 0.5", "fixed 3, not fixed 0"]), inputs)
bad = {k: t for k, t in inputs.items() if k != K + ".input_scale"}
write_model("bad", bad, config)
same("missing once", fix("missing once", says=["fixed 1, not fixed 0"]), inputs)
for what, names, number, said in (("alone", [O], math.nan, "no layer with the same input has a scale"), ("all of them", [Q, K, V], math.nan, "no layer with the same input has a scale"),
                                  ("differ", [K], math.nan, "have different scales for it")):
    bad = dict(inputs)
    if what == "differ":
        bad[V + ".input_scale"] = ("F32", [], f32_bytes([0.125]))
    for name in names:
        bad[name + ".input_scale"] = ("F32", [], f32_bytes([number]))
    write_model("bad", bad, config)
    fix("input scales that are " + what, code=1, says=["not fixed: ", said])
# Queries of attention to another model's states have another input than keys and values.
bad = {}
for part in "qkv":
    for k in NV[0]:
        if k.startswith(Q):
            bad[k.replace("model.layers.0.self_attn.q", "decoder.encoder_attn." + part)] = NV[0][k]
bad["decoder.encoder_attn.q_proj.input_scale"] = ("F32", [], f32_bytes([0.25]))
write_safetensors("bad.safetensors", bad)
check("encoder_attn", run("lint", "bad.safetensors", "-q")[0] == 0)
bad["decoder.encoder_attn.k_proj.input_scale"] = ("F32", [], f32_bytes([0.25]))
write_safetensors("bad.safetensors", bad)
code, text, _ = run("lint", "bad.safetensors", "-q", "--fix", "-o", "out.safetensors")
check("encoder_attn", code == 0 and "v_proj.input_scale': none -> 0.25, that of 'decoder.encoder_attn.k_proj.input_scale'" in text, text)


# Tensor scales of layers that are fused.
def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    return (-1 if code & 128 else 1) * (mantissa + 8 * (exponent > 0)) * 2.0**(max(exponent, 1) - 10)


def products(tensors, divides):
    """Block scale times tensor scale of each block, exact."""
    out = {}
    for k, t in tensors.items():
        if t[0] == "F8_E4M3":
            name = k.replace("_scale", "_global_scale" if divides else "_scale_2")
            scale = struct.unpack("<f", tensors[name][2])[0]
            out[k] = [e4m3(c) / scale if divides else e4m3(c) * scale for c in t[2]]
    return out


def tensor_scale(tensors, module, divides):
    return struct.unpack("<f", tensors[module + (".weight_global_scale" if divides else ".weight_scale_2")][2])[0]


for (tensors, config), divides in ((NV, False), (CT_NV, True)):
    append = ".weight_global_scale" if divides else ".weight_scale_2"
    bad = dict(tensors)
    base = tensor_scale(tensors, Q, divides)
    for module, exponent in ((Q, -2), (V, 1)):  # block scales times 2^-e, tensor scales times 2^e
        scales = bytes(c & 128 | max(0, min(0x7E, (c & 127) - 8 * exponent)) for c in tensors[module + ".weight_scale"][2])
        if exponent < 0:  # within E4M3 there
            scales = bytes(min(c, 0x6E) for c in tensors[module + ".weight_scale"][2])
            tensors = dict(tensors)
            tensors[module + ".weight_scale"] = (*tensors[module + ".weight_scale"][:2], scales)
            scales = bytes(c + 16 for c in scales)
        bad[module + ".weight_scale"] = (*tensors[module + ".weight_scale"][:2], scales)
        bad[module + append] = (*tensors[module + append][:2], f32_bytes([base * 2.0**(-exponent if divides else exponent)]))
    write_model("bad", bad, config)
    got = fix("fused", says=["[fused-scale]", "fixed: tensor scale of q_proj", "fixed 1, not fixed 0"])
    check("fused: the same numbers", products(got, divides) == products(bad, divides))
    check("fused: one scale", len({tensor_scale(got, m, divides) for m in (Q, K, V)}) == 1)
    check("fused: codes", all(got[k] == bad[k] for k in bad if bad[k][0] == "U8"))
    check("fused: the other layer", all(got[k] == bad[k] for k in bad if "layers.1" in k))
    # Three halves is exact for some scales only; a scale of 448 beside the smallest leaves no room.
    bad = dict(tensors)
    for module, number in ((Q, 0.25), (K, 0.375), (V, 0.25)):
        bad[module + append] = (*bad[module + append][:2], f32_bytes([number]))
    write_model("bad", bad, config)
    fix("fused by 1.5", code=1, says=["not fixed: no tensor scale leaves all numbers as they are"])
    eights = lambda name, code: (*tensors[name + ".weight_scale"][:2], bytes([code]) * len(tensors[name + ".weight_scale"][2]))
    bad.update({K + ".weight_scale": eights(K, 0x38), Q + ".weight_scale": eights(Q, 0x30), V + ".weight_scale": eights(V, 0x30)})
    write_model("bad", bad, config)
    got = fix("1 by 1.5", says=["fixed: tensor scale"])
    check("1 by 1.5", products(got, divides) == products(bad, divides))
    bad[K + append] = (*bad[K + append][:2], f32_bytes([0.5]))
    bad[Q + ".weight_scale"] = (*bad[Q + ".weight_scale"][:2], bytes([0x7E, 0x01] * (len(bad[Q + ".weight_scale"][2]) // 2)))
    bad[K + ".weight_scale"] = bad[V + ".weight_scale"] = bad[Q + ".weight_scale"]
    write_model("bad", bad, config)
    fix("no room", code=1, says=["not fixed: no tensor scale leaves all numbers as they are"])

# Scales stored as numbers.
for (tensors, config), codes in ((MX, "weight_packed"), (QUARK, "weight")):
    scales = [k for k in tensors if k.endswith("weight_scale")]
    for dtype, pack in (("F32", f32_bytes), ("BF16", bf16_bytes), ("F16", lambda x: struct.pack("<%de" % len(x), *x))):
        for kind, number in (("numbers", lambda c: 2.0**(c - 127)), ("bytes", float)):
            bad = {k: (dtype, t[1], pack([number(c) for c in t[2]])) if k in scales else t for k, t in tensors.items()}
            write_model("bad", bad, config)
            got = fix("scales as %s in %s" % (kind, dtype), says=["[parts]" if config is MX[1] else "[unknown-layout]", ".weight_scale': %s, numbers from" % dtype, "not fixed 0"])
            same("scales as %s in %s" % (kind, dtype), got, tensors)
    for what, numbers, said in (("may be both", [128.0, 64.0], "which may be those of e8m0 or of its bytes"), ("are others", [0.3, 0.25], "not all are values of e8m0"),
                                ("are negative", [-0.5, 0.25], "not all are values of e8m0"), ("are NaN", [math.nan, 0.25], "not all are values of e8m0"), ("are zero", [0.0, 0.25], "not all are values of e8m0")):
        bad = dict(tensors)
        t = bad[UP + ".weight_scale"]
        bad[UP + ".weight_scale"] = ("F32", t[1], f32_bytes((numbers * len(t[2]))[:len(t[2])]))
        write_model("bad", bad, config)
        fix("scales that " + what, code=1 if config is MX[1] or numbers[0] < 0 or numbers[0] != numbers[0] else 0, says=["not fixed: ", said, "fixed 0"])
        check("scales that " + what, not os.path.exists("out"))
scales = [k for k in NV[0] if k.endswith("weight_scale")]
bad = {k: ("BF16", t[1], bf16_bytes([e4m3(c) for c in t[2]])) if k in scales else t for k, t in NV[0].items()}
write_model("bad", bad, NV[1])
same("scales of NVFP4", fix("scales of NVFP4", says=["-> F8_E4M3, ue4m3"]), NV[0])
scales = [k for k in MX8[0] if k.endswith("weight_scale")]
bad = {k: ("F32", t[1], f32_bytes([2.0**(c - 127) for c in t[2]])) if k in scales else t for k, t in MX8[0].items()}
write_model("bad", bad, MX8[1])
same("scales of MXFP8", fix("scales of MXFP8", says=["[config]", "-> U8, e8m0"]), MX8[0])

# An index; a tensor in two files. The copy that the index names is the model's.
write_model("bad", {}, MX[1])
os.remove("bad" + FILE)
names = list(MX[0])
half = {1: names[:20], 2: names[20:]}
for i in half:
    write_safetensors("bad/model-0000%d-of-00002.safetensors" % i, {k: MX[0][k] for k in half[i]} | ({names[0]: (*MX[0][names[0]][:2], bytes(len(MX[0][names[0]][2])))} if i == 2 else {}))
index = {"metadata": {"total_size": 7}, "weight_map": {k: "model-0000%d-of-00002.safetensors" % i for i in half for k in half[i]}}
json.dump(index, open("bad/model.safetensors.index.json", "w"))
fix("index", says=["[total-size]", "[superseded]", "fixed 2, not fixed 0"])
got = {}
for i in half:
    got.update(read_safetensors("out/model-0000%d-of-00002.safetensors" % i))
    check("index: a file's tensors", sorted(read_safetensors("out/model-0000%d-of-00002.safetensors" % i)) == sorted(half[i]))
same("index", got, MX[0])
check("index", json.load(open("out/model.safetensors.index.json"))["metadata"]["total_size"] == sum(len(t[2]) for t in MX[0].values()))

# What is lost is not fixed; with it, what is certain is.
bad = dict(MX[0])
bad[UP + ".weight_scale"] = (*bad[UP + ".weight_scale"][:2], b"\xff" * len(bad[UP + ".weight_scale"][2]))
write_model("bad", bad, MX[1])
fix("NaN", code=1, says=["[scale-nan]", "not fixed: what the scale was is lost", "fixed 0, not fixed 1; nothing is written"])
config = copy.deepcopy(MX[1])
config["quantization_config"]["ignore"].append("model.layers.1.self_attn.q_proj")
write_model("bad", bad, config)
same("NaN and a list", fix("NaN and a list", code=1, says=["fixed: 'model.layers.1.self_attn.q_proj'", "fixed 1, not fixed 1; in out errors and warnings 1"]), bad)
code, text, _ = run("lint", "bad", "-q", "--fix", "-o", "out2", "--json")
facts = json.loads(text)
check("JSON", code == 1 and {"fixed", "not_fixed"} <= {k for f in facts["findings"] for k in f} and facts["summary"]["fixed"] == 1 and
      facts["summary"]["found_in_output"] == 1 and facts["summary"]["output"] == "out2", text)

# Outputs.
fix("sound", source="compressed-tensorsmxfp4", says=["fixed 0, not fixed 0; nothing is written"])
check("sound: nothing is written", not os.path.exists("out"))
for what, arguments, code, said in (
        ("over the source", ["bad", "--fix", "-o", "bad", "-f"], 2, "bad"), ("over what is there", ["bad", "--fix", "-o", "out2"], 2, "--force"),
        ("over another's", ["bad", "--fix", "-o", "model", "-f"], 2, "model"), ("into a file", ["bad", "--fix", "-o", "out.safetensors"], 2, "leave out the suffix"),
        ("into a directory", ["bad" + FILE, "--fix", "-o", "out3"], 2, "name a .safetensors file"), ("another format", ["bad" + FILE, "--fix", "-o", "out.gguf"], 2, "name a .safetensors file"),
        ("nowhere", ["bad", "--fix"], 2, "-o OUT names it"), ("without --fix", ["bad", "-o", "out3"], 2, "--output"), ("no source", ["bad", "--against", "gone"], 4, "gone")):
    got, _, error = run("lint", *arguments)
    check(what, got == code and said in error and error.count("\n") == 0, (got, error))
check("what is there stays", read("out2" + FILE) == read("out" + FILE) if os.path.exists("out") else True)
check("over it with --force", run("lint", "bad", "--fix", "-o", "out2", "-q", "-f")[0] == 1)
print("%d checks, %d failures" % (checks, failures))
sys.exit(failures > 0)
