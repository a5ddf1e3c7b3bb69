# SPDX-License-Identifier: MIT
"""
The kinds that ModelOpt and Quark export, by those packages: kinds_packages.py DIRECTORY adds them to the models of kinds_models.py.
They run beside another transformers, that of Debian, than the one that reads.
"""
import copy
import json
import pathlib
import sys
import warnings

import modelopt.torch.quantization as mtq
import safetensors.torch
import torch
import transformers
from modelopt.torch.export import export_hf_checkpoint
from quark.torch import ModelQuantizer, export_safetensors
from quark.torch.quantization import OCP_MXFP4Spec, QConfig, QLayerConfig

import checks
import layout_quark
from kinds_numbers import F64, blocks, e4m3, e8m0, nibbles, rounded, save, spread

RECIPES = {"modelopt-nvfp4": "NVFP4_DEFAULT", "modelopt-w4a16": "W4A16_NVFP4", "modelopt-mxfp4": "W4A8_MXFP4_FP8", "modelopt-mxfp8": "MXFP8_DEFAULT",
           "modelopt-fp8": "FP8_DEFAULT", "modelopt-fp8-channel": "FP8_PER_CHANNEL_PER_TOKEN", "modelopt-fp8-block": "FP8_2D_BLOCKWISE_WEIGHT_ONLY",
           "modelopt-mixed": None}


def decode(state, name):
    """A weight by what stands beside it."""
    codes, scales = state[name], state.get(name + "_scale")
    if scales is None:
        return codes
    if name + "_scale_2" in state:
        numbers = nibbles(codes) * e4m3(scales).repeat_interleave(16, -1) * state[name + "_scale_2"].to(F64)
        return rounded(numbers)
    if codes.dtype != torch.float8_e4m3fn:
        return blocks(nibbles(codes), e8m0(scales), 32)
    if scales.dtype == torch.uint8:
        return blocks(e4m3(codes), e8m0(scales), 32)
    scales = scales.to(F64)
    if scales.dim() == 4:
        scales = spread(scales[:, 0, :, 0], *codes.shape, (128, 128))
    elif scales.dim() == 2 and scales.shape[1] > 1:
        scales = spread(scales, *codes.shape, (128, 128))
    elif scales.dim() and scales.numel() > 1:
        scales = scales.reshape(-1, 1)
    return rounded(e4m3(codes) * scales)


def settings(recipe):
    """FP8 of attention and NVFP4 of the rest, as builds of MIXED_PRECISION have it."""
    if recipe is not None:
        return copy.deepcopy(getattr(mtq, recipe + "_CFG"))
    mixed = copy.deepcopy(mtq.NVFP4_DEFAULT_CFG)
    fp8 = {"num_bits": (4, 3), "axis": None}
    mixed["quant_cfg"] = list(mixed["quant_cfg"]) + [
        {"quantizer_name": "*self_attn*weight_quantizer", "cfg": fp8}, {"quantizer_name": "*self_attn*input_quantizer", "cfg": fp8}]
    return mixed


def make_modelopt(directory, name, recipe):
    source = directory / "source.qwen3"
    config = json.loads((source / "config.json").read_text())
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    with torch.no_grad():
        tokens = torch.arange(96)[None]
        model = mtq.quantize(model, settings(recipe), lambda model: model(tokens))
        export_hf_checkpoint(model, export_dir=directory / name)
    made = json.loads((directory / name / "config.json").read_text())
    (directory / name / "config.json").write_text(json.dumps(config | {"quantization_config": made["quantization_config"]}, indent=2) + "\n")
    state = checks.load(directory / name)
    numbers = {n: decode(state, n) for n in state if not n.endswith(("_scale", "_scale_2"))}
    save(directory / f"{name}.plain", config, {n: t.float() for n, t in numbers.items()})


def make_quark(directory):
    source = directory / "source.qwen3"
    config = json.loads((source / "config.json").read_text())
    tensors = {n: t.bfloat16() for n, t in checks.load(source).items()}
    model = layout_quark.Plain(checks.skeleton(tensors))
    model.load_state_dict(tensors, assign=True)
    weights = OCP_MXFP4Spec(ch_axis=-1, is_dynamic=False).to_quantization_spec()
    quantization = QConfig(global_quant_config=QLayerConfig(weight=weights), exclude=["lm_head"])
    model = ModelQuantizer.freeze(ModelQuantizer(quantization).quantize_model(model))
    target = directory / "quark"
    export_safetensors(model, str(target))
    made = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | {"quantization_config": made["quantization_config"]}, indent=2) + "\n")
    state = checks.load(target)
    save(directory / "quark.plain", config, {n: decode(state, n).float() for n in state if not n.endswith("_scale")})


def main():
    warnings.simplefilter("ignore")
    directory = pathlib.Path(sys.argv[1])
    for name, recipe in RECIPES.items():
        make_modelopt(directory, name, recipe)
    make_quark(directory)
    print(f"{len(RECIPES) + 1} models exported, 0 failures")


main()
