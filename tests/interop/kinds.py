# SPDX-License-Identifier: MIT
"""
How programs read the models of kinds_models.py: kinds.py DIRECTORY PROGRAM reads each DIRECTORY/NAME and DIRECTORY/NAME.plain, the
same numbers in F32, with the program's own loader, compares all weights of both, and writes DIRECTORY/PROGRAM.json;
kinds.py DIRECTORY table prints what those say as a table, which must be that of DIRECTORY/layout.md, a copy of doc/layout.md. A cell is

  right     every bit of every weight, zeros of either sign alike
  rounded   every weight is right within 1 %, as numbers are that were rounded to BF16, once or twice, or products rounded twice; or
            it is off by half a unit of Q8_0
  wrong     it loads, without an error, with other numbers
  refused   it ends with an error
  no model  it does not have the model, whose numbers in F32 it refuses, too
  -         another program's kind
"""
import json
import logging
import pathlib
import re
import sys
import tempfile
import warnings

import numpy
import safetensors.torch
import torch

import checks
from checks import check

PROGRAMS = ("mxfp", "transformers", "compressed-tensors", "mlx-lm", "llama.cpp")
# A row of the table each: published as, for example, read by mxfp as.
KINDS = {
    "fp8-f32": ("FP8, F32 scales of 128 x 128", "DeepSeek-V3, MiniMax-M2", "numbers"),
    "fp8-192": ("that, where 192 rows have 2 scales", "", "numbers"),
    "fp8-bf16": ("FP8, BF16 scales of 128 x 128", "Qwen3, GLM", "numbers"),
    "fp4-e8m0": ("FP8, E8M0 scales of 128 x 128; FP4 in I8 in experts", "DeepSeek-V4", "MXFP8 and MXFP4, layout `fp8`"),
    "v41": ("FP8, E8M0 scales of 32 x 32; FP4 in I8 in experts", "DeepSeek-V4.1", "MXFP8 and MXFP4, layout `fp8`"),
    "fp8-other-block": ("FP8 whose block, [1, 32], is not the stated one", "Engram of DeepSeek-V4.1", "MXFP8, or numbers"),
    "mxfp8-u8": ("MXFP8, U8 scales under `weight_scale_inv`", "MiniMax-M3, Inkling-2", "MXFP8, layout `fp8`"),
    "m31": ("that, and NVFP4 in experts", "MiniMax-M3.1", "MXFP8, NVFP4"),
    "qscale": ("FP8, `.qscale_weight`", "Mistral Large 4", "numbers"),
    "ct-mxfp4": ("compressed-tensors MXFP4", "builds of GLM-5.3, Qwen3.8", "blocks"),
    "ct-mxfp4-experts": ("that, of experts one each", "builds of Qwen3-MoE", "blocks"),
    "ct-mxfp4-k3": ("that, of experts alone", "Kimi-K3", "blocks"),
    "ct-mxfp6": ("compressed-tensors MXFP6", "builds of llm-compressor", "blocks"),
    "ct-mxfp8": ("compressed-tensors MXFP8", "builds of llm-compressor", "blocks"),
    "ct-mxfp8-experts": ("that, of experts one each", "builds of Qwen3-MoE", "blocks"),
    "ct-nvfp4": ("compressed-tensors NVFP4", "builds of GLM-5.3, Qwen3.8", "blocks"),
    "ct-nvfp4-experts": ("that, of experts one each", "builds of Qwen3-MoE", "blocks"),
    "ct-fp8-tensor": ("compressed-tensors float-quantized: tensor", "builds of many", "numbers"),
    "ct-fp8-channel": ("compressed-tensors float-quantized: channel", "builds of many", "numbers"),
    "ct-fp8-block": ("compressed-tensors float-quantized: block", "builds of many", "numbers"),
    "ct-mixed": ("compressed-tensors mixed-precision", "NVFP4 with FP8 of Qwen3.8", "each as what it is"),
    "modelopt-nvfp4": ("ModelOpt NVFP4", "NVIDIA's builds", "blocks"),
    "modelopt-w4a16": ("ModelOpt W4A16_NVFP4", "Nemotron-3's experts", "blocks"),
    "modelopt-mxfp4": ("ModelOpt W4A8_MXFP4_FP8", "NVIDIA's builds", "blocks"),
    "modelopt-mxfp8": ("ModelOpt MXFP8", "NVIDIA's builds", "blocks"),
    "modelopt-fp8": ("ModelOpt FP8", "NVIDIA's builds", "numbers"),
    "modelopt-fp8-channel": ("ModelOpt FP8_PC_PT", "NVIDIA's builds", "numbers"),
    "modelopt-fp8-block": ("ModelOpt FP8_PB_WO", "NVIDIA's builds", "numbers"),
    "modelopt-mixed": ("ModelOpt MIXED_PRECISION", "Nemotron-3", "each as what it is"),
    "modelopt-awq": ("ModelOpt NVFP4_AWQ", "", "blocks; `pre_quant_scale` folded"),
    "quark": ("Quark MXFP4", "AMD's builds", "blocks"),
    "fbgemm": ("FBGEMM FP8", "Llama 3.1 405B", "numbers"),
    "mlx-mxfp4": ("MLX mxfp4", "mlx-community", "blocks, layout `mlx`"),
    "mlx-mxfp8": ("MLX mxfp8", "mlx-community", "blocks, layout `mlx`"),
    "mlx-nvfp4": ("MLX nvfp4", "mlx-community", "blocks, layout `mlx`"),
    "gpt-oss": ("gpt-oss MXFP4", "gpt-oss", "blocks"),
    "gguf-mxfp4": ("GGUF MXFP4", "llama.cpp's builds", "blocks"),
    "gguf-nvfp4": ("GGUF NVFP4", "llama.cpp's builds", "blocks"),
    "gguf-q8_0": ("GGUF Q8_0", "llama.cpp's builds", "numbers"),
}


def arrays(tensors):
    return {name: t.detach().to(torch.float32).contiguous().numpy() for name, t in tensors.items()}


# ---- programs: a directory -> names and numbers in binary32
def read_mxfp(directory):
    """What mxfp dequantize wrote, beside it; kinds.sh ran it."""
    path = directory if directory.suffix == ".plain" else directory.with_name(directory.name + ".mxfp")
    if not path.exists():
        raise RuntimeError(directory.with_name(directory.name + ".error").read_text())
    if (path / "model.gguf").exists():
        return read_gguf(path / "model.gguf")
    with safetensors.safe_open(path / "model.safetensors", framework="pt") as file:
        return arrays({name: file.get_tensor(name) for name in file.keys()})


def read_gguf(path):
    import gguf
    tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(numpy.float32) for t in gguf.GGUFReader(path).tensors}
    for name in [n for n in tensors if n.endswith(".scale")]:
        scale, weight = tensors.pop(name), name.removesuffix("scale") + "weight"
        if weight in tensors:
            tensors[weight] = tensors[weight] * scale.reshape(-1, *[1] * (tensors[weight].ndim - 1))
    return {name: t for name, t in tensors.items() if not name.endswith(".input_scale")}


def read_transformers(directory):
    import transformers
    from families import auto_class
    if (directory / "model.gguf").exists():
        model = transformers.AutoModelForCausalLM.from_pretrained(directory, gguf_file="model.gguf", dtype=torch.float32)
        return arrays(model.state_dict())
    config = transformers.AutoConfig.from_pretrained(directory)
    options = {"dtype": torch.float32}
    section = getattr(config, "quantization_config", None)
    if section is not None:
        # Quark is where ModelOpt and Debian's transformers are.
        sys.path.append("/opt/python/lib/python%d.%d/site-packages" % sys.version_info[:2])
        decoding = {"compressed-tensors": transformers.CompressedTensorsConfig, "mxfp4": transformers.Mxfp4Config}
        method = section.get("quant_method") if isinstance(section, dict) else section.quant_method
        if method in decoding:
            options["quantization_config"] = decoding[method](dequantize=True)
    load = lambda: auto_class(config).from_pretrained(directory, output_loading_info=True, **options)
    try:
        model, info = load()
    except RuntimeError:
        if section is None or method != "compressed-tensors":
            raise
        del options["quantization_config"]  # It may load what it does not decode; compressed-tensors does so at the first call.
        model, info = load()
        model.hf_quantizer.compressor.decompress_model(model)
    lost = sorted(map(str, info["missing_keys"]))
    if lost:
        raise Wrong(f"{len(lost)} weights are left random")
    if info["mismatched_keys"]:
        raise Wrong(f"{len(info['mismatched_keys'])} weights of another shape are left random")
    state = {}
    for name, module in model.named_modules():
        for part, tensor in list(module.named_parameters(recurse=False)) + list(module.named_buffers(recurse=False)):
            state[f"{name}.{part}"] = tensor
        if hasattr(module, "_get_qweight"):  # Quark's layer
            state[f"{name}.weight"] = module._get_qweight(module.weight)
    return arrays(state)


def mlx_gpt_oss(directory):
    """mlx-lm does not take gpt-oss's experts as numbers: here as it would have them, [E, N, K], gate and up apart."""
    state = {}
    for name, t in read_mxfp(directory).items():
        parts = {"gate_proj": slice(0, None, 2), "up_proj": slice(1, None, 2)} if "gate_up_proj" in name else {"down_proj": slice(None)}
        if ".experts." not in name:
            state[name] = t
            continue
        for part, rows in parts.items():
            module = f"{name.rsplit('.', 1)[0]}.{part}."
            if name.endswith("bias"):
                state[module + "bias"] = t[..., rows]
            else:
                state[module + "weight"] = t.transpose(0, 2, 1)[:, rows]
    return state


def read_mlx_lm(directory):
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten
    from mlx_lm.utils import load_model
    if not (directory / "config.json").exists():
        raise NotFor
    mx.set_default_device(mx.cpu)
    if directory.name == "gpt-oss.plain":
        return mlx_gpt_oss(directory)
    model, _ = load_model(directory)
    state = dict(tree_flatten(model.parameters()))
    for name, module in model.named_modules():
        if getattr(module, "mode", None) is None or "scales" not in module:
            continue
        numbers = mx.dequantize(module.weight, module.scales, module.get("biases"), group_size=module.group_size,
                                bits=module.bits, mode=module.mode, dtype=mx.float32)
        if module.get("global_scale") is not None:
            numbers = numbers * module.global_scale.reshape(-1, *[1] * (numbers.ndim - 1)) / 2688
        state[f"{name}.weight"] = numbers
        state.pop(f"{name}.scales")
    return {name: numpy.array(t.astype(mx.float32)) for name, t in state.items()}


def write_gguf(directory, path):
    """The file that llama.cpp's converter makes, without a vocabulary, which needs a tokenizer."""
    import gguf
    sys.path.insert(1, "/usr/share/llama.cpp/llama.cpp-tools")  # where Debian has the modules of convert_hf_to_gguf.py
    import conversion
    parameters = conversion.ModelBase.load_hparams(directory, False)
    family = conversion.get_model_class(conversion.get_model_architecture(parameters, conversion.ModelType.TEXT))

    class Model(family):
        model_arch = family.model_arch

        def set_vocab(self):
            self.gguf_writer.add_vocab_size(128)

    # A transformers that knows MiniMax-M3 drops keys of its config.json that the converter asks for.
    raw = json.loads((directory / "config.json").read_text())
    with torch.inference_mode():
        Model(directory, gguf.LlamaFileType.ALL_F32, path, hparams=raw if "minimax" in raw["model_type"] else None).write()


def deepseek_v4(directory, target):
    """The converter takes experts of DeepSeek-V4 as FP4 alone: these are, in a directory that it takes, and what numbers they are."""
    target.mkdir()
    tensors, experts = checks.load(directory), {}
    for name, t in checks.load(directory.with_suffix("")).items():
        if ".experts." in name:
            tensors[name] = t
    for name, t in checks.load(directory).items():
        found = re.fullmatch(r"layers\.(\d+)\.ffn\.experts\.\d+\.w([123])\.weight", name)
        if found:
            part = {"1": "gate", "2": "down", "3": "up"}[found[2]]
            experts.setdefault(f"blk.{found[1]}.ffn_{part}_exps.weight", []).append((name, t))
    safetensors.torch.save_file(tensors, target / "model.safetensors", {"format": "pt"})
    (target / "config.json").write_text((directory / "config.json").read_text())
    return target, {name: torch.stack([t for _, t in sorted(parts)]).numpy() for name, parts in experts.items()}


def read_llama_cpp(directory):
    if not (directory / "config.json").exists():
        raise NotFor
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        source, experts = directory, {}
        if directory.suffix == ".plain" and json.loads((directory / "config.json").read_text())["model_type"] == "deepseek_v4":
            source, experts = deepseek_v4(directory, place / "model")
        write_gguf(source, place / "model.gguf")
        return read_gguf(place / "model.gguf") | experts


def read_compressed_tensors(directory):
    """Its own decompressor, and its converters of other kinds, which are told what config.json says."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.entrypoints.convert.converters import CompressedTensorsDequantizer, FP8BlockDequantizer, ModelOptNvfp4Converter
    if not (directory / "config.json").exists():
        raise NotFor
    with safetensors.safe_open(directory / "model.safetensors", framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    section = json.loads((directory / "config.json").read_text()).get("quantization_config", {})
    method = section.get("quant_method")
    if method == "compressed-tensors":
        # It takes every name that config.json does not ignore for a Linear's.
        tensors = CompressedTensorsDequantizer(directory, ignore=["re:.*embed_tokens$"], dtype=torch.float32).validate(tensors)
    elif method in ("fp8", "mxfp8"):
        block = tuple(section["weight_block_size"] or (128, 128))
        tensors = FP8BlockDequantizer.from_pretrained(directory, weight_block_size=block, dtype=torch.float32).validate(tensors)
    elif method == "modelopt" and section["quant_algo"] in ("NVFP4", "W4A16_NVFP4"):
        converter = ModelOptNvfp4Converter(ignore=["lm_head"], targets=["re:.*_proj$"])
        tensors = converter.validate(tensors)
        scheme = converter.update_config(None).config_groups["config_group_0"]
        compressor = BaseCompressor.get_value_from_registry("nvfp4-pack-quantized")
        for name in [n for n in tensors if n.endswith(".weight_packed")]:
            module = name.removesuffix("weight_packed")
            parts = {part: tensors.pop(module + part) for part in ("weight_packed", "weight_scale", "weight_global_scale")}
            tensors[module + "weight"] = compressor.decompress(parts, scheme)["weight"]
    elif method is not None or any(t.dtype == torch.uint32 for t in tensors.values()):
        raise NotFor
    return arrays({name: t for name, t in tensors.items()})


class NotFor(Exception):
    """Another program's kind."""


class Wrong(Exception):
    pass


READERS = {"mxfp": read_mxfp, "transformers": read_transformers, "compressed-tensors": read_compressed_tensors, "mlx-lm": read_mlx_lm,
           "llama.cpp": read_llama_cpp}


# ---- comparison
def compare(got, want, q8_0=False):
    """A cell and what is to be said of it. llama.cpp's converter writes some weights as Q8_0: those may be off by half a unit."""
    missing = sorted(want.keys() - got.keys())
    if missing:
        return "wrong", f"{len(missing)} weights are missing, {missing[0]} first"
    worst = 0.0
    for name, numbers in want.items():
        if got[name].shape != numbers.shape:
            return "wrong", f"{name} has the shape {list(got[name].shape)}, not {list(numbers.shape)}"
        error = numpy.abs(got[name].astype(numpy.float64) - numbers)
        bound = numpy.abs(numbers).astype(numpy.float64)
        allowed = bound * 0.01
        if q8_0 and numbers.shape[-1] % 32 == 0:
            largest = bound.reshape(-1, 32).max(1).repeat(32).reshape(bound.shape)
            allowed = numpy.maximum(allowed, largest * (0.5 / 127 + 2.0 ** -11))
        off = numpy.count_nonzero(~(error <= allowed))
        if off:
            known = (bound > 0) & numpy.isfinite(got[name])
            factor = numpy.median(got[name][known] / numbers[known]) if known.any() else numpy.nan
            return "wrong", f"{name}: {off} of {error.size} numbers, by a median factor of {factor:.4g}"
        worst = max(worst, float((error / numpy.where(bound == 0, 1, bound)).max()))
    if worst == 0:
        return "right", ""
    return "rounded", "to BF16" if worst > 2.0 ** -20 else "twice"


def first_line(problem):
    text = str(problem).strip().split("\n")[0]
    return f"{type(problem).__name__}: {text}"[:240]


def read_all(directory, program):
    names = sorted(path.name.removesuffix(".plain") for path in directory.glob("*.plain"))
    reader, cells, plain = READERS[program], {}, {}
    for name in names:
        try:
            want = reader(directory / f"{name}.plain")
            cells[name] = None
            cells[name] = compare(reader(directory / name), want, program == "llama.cpp")
        except NotFor:
            cells[name] = ("-", "")
        except Wrong as problem:
            cells[name] = ("wrong", str(problem))
        except Exception as problem:
            cells[name] = ("refused" if name in cells else "no model", first_line(problem))
        print(f"{program}: {name}: {': '.join(filter(None, cells[name]))}", flush=True)
        check(f"{program}: {name}", cells[name][0] == "right" or program != "mxfp", cells[name])
    (directory / f"{program}.json").write_text(json.dumps(cells, indent=1))
    check(f"{program}: the kinds are those of the table", cells.keys() == KINDS.keys(), sorted(cells.keys() ^ KINDS.keys()))


def print_table(directory):
    results = {program: json.loads((directory / f"{program}.json").read_text()) for program in PROGRAMS}
    lines = [["published as", "for example", "read as", "`mxfp`", *PROGRAMS[1:]], ["---"] * (3 + len(PROGRAMS))]
    lines += [[*texts, *(results[program][name][0] for program in PROGRAMS)] for name, texts in KINDS.items()]
    lines = ["| " + " | ".join(line).replace("|  |", "| |") + " |" for line in lines]
    lines[1] = lines[1].replace(" ", "")
    print("\n".join(lines))
    known = (directory / "layout.md").read_text()
    for line in lines:
        check("doc/layout.md has another row than", line + "\n" in known, line)
    check("doc/layout.md has the rows in this order", "\n".join(lines) in known)


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    directory = pathlib.Path(sys.argv[1])
    if sys.argv[2] == "table":
        print_table(directory)
    else:
        read_all(directory, sys.argv[2])
    print(f"{checks.checks} checks of what {sys.argv[2]} reads, {checks.failures} failures")
    sys.exit(checks.failures != 0)


if __name__ == "__main__":
    main()
