# SPDX-License-Identifier: MIT
"""
The layout of NVIDIA's Model Optimizer, by its own export of a small Llama and its own tensor classes.

Its arithmetic is F32. E8M0 scales are powers of two, so MX weights are exact. For NVFP4 the product of both scales is
rounded and then that with the code; we round (code * scale) * weight_scale_2 once, as code * scale is exact. So there
the class decodes with 1 for weight_scale_2, which is exact, that product is multiplied by weight_scale_2 and must be
ours in every bit, but for the sign of -0, which the class's table does not have; and the class's own way of it must be
within one unit of the last place.
"""
import copy
import json
import warnings

import modelopt.torch.quantization
import safetensors.torch
import torch
import transformers
from modelopt.torch.export import export_hf_checkpoint
from modelopt.torch.export.convert_hf_config import convert_hf_quant_config_format
from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor, NVFP4QTensor

from checks import check, config, load, same

RECIPES = ("W4A16_NVFP4", "NVFP4_DEFAULT", "MXFP4_DEFAULT", "MXFP8_DEFAULT", "W4A8_MXFP4_FP8")


def decode_nvfp4(codes, scale, tensor_scale):
    tensor = NVFP4QTensor(torch.Size((*codes.shape[:-1], 2 * codes.shape[-1])), torch.float32, codes)
    one = torch.ones_like(tensor_scale)
    products = tensor.dequantize(torch.float32, scale=scale, double_scale=one, block_sizes={-1: 16}) * tensor_scale
    whole = tensor.dequantize(torch.float32, scale=scale, double_scale=tensor_scale, block_sizes={-1: 16})
    check("modelopt: order of the products", (whole.view(torch.int32) - products.view(torch.int32)).abs().max() <= 1)
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(-2)
    return torch.where(nibbles == 8, -0.0, products)


def decode(state, name):
    """A weight by the class of its format, in F32; others as they are."""
    codes, scale = state[name], state.get(name + "_scale")
    if scale is None:
        return codes
    if codes.dtype == torch.float8_e4m3fn:
        return MXFP8QTensor(codes.shape, torch.float32, codes).dequantize(torch.float32, scale=scale)
    if name + "_scale_2" in state:
        return decode_nvfp4(codes, scale, state[name + "_scale_2"])
    shape = torch.Size((*codes.shape[:-1], 2 * codes.shape[-1]))
    return MXFP4QTensor(shape, torch.float32, codes).dequantize(torch.float32, scale=scale, block_sizes={-1: 32})


def ours(directory):
    for name in ("modelopt.nvfp4", "modelopt.mxfp4", "modelopt-relaid.nvfp4", "modelopt-relaid.mxfp4"):
        model = directory / name
        state, decoded = load(model), load(f"{model}.f32")
        for tensor, expected in decoded.items():
            same(f"{name}: {tensor}", decode(state, tensor).to(expected.dtype), expected)
        rest = {tensor for tensor in state if not tensor.endswith(("_scale", "_scale_2"))}
        check(f"{name}: names of tensors", rest == set(decoded), rest ^ set(decoded))
        settings = json.loads((model / "hf_quant_config.json").read_text())
        # vLLM refuses FP4 without any of these.
        missing = {"kv_cache_quant_algo", "group_size", "exclude_modules"} - set(settings["quantization"])
        check(f"{name}: keys of hf_quant_config.json", not missing, missing)
        described, expected = config(model), convert_hf_quant_config_format(settings)
        check(f"{name}: config.json says what hf_quant_config.json does",
              expected == {key: described.get(key) for key in expected}, f"{expected}, {described}")


def llama():
    torch.manual_seed(3)
    settings = transformers.LlamaConfig(vocab_size=64, hidden_size=128, intermediate_size=192, num_hidden_layers=1,
                                        num_attention_heads=4, num_key_value_heads=2)
    model = transformers.LlamaForCausalLM(settings).bfloat16()
    settings.architectures = ["LlamaForCausalLM"]
    with torch.no_grad():
        for weight in model.parameters():
            weight[torch.rand_like(weight, dtype=torch.float32) < 0.01] *= 30.0
        model.model.layers[0].mlp.up_proj.weight[1:3] = 0.0
    return model


def theirs(directory):
    (directory / "llama").mkdir()
    safetensors.torch.save_file(llama().state_dict(), directory / "llama" / "model.safetensors")
    for recipe in RECIPES:
        settings = copy.deepcopy(getattr(modelopt.torch.quantization, recipe + "_CFG"))
        with warnings.catch_warnings(action="ignore"):
            model = modelopt.torch.quantization.quantize(llama(), settings, lambda model: model(torch.arange(16)[None]))
            export_hf_checkpoint(model, export_dir=directory / f"theirs.modelopt.{recipe}.f32")
        state = load(directory / f"theirs.modelopt.{recipe}.f32")
        names = [n for n in state if not n.endswith("_scale") and not n.endswith("_scale_2")]
        safetensors.torch.save_file({n: decode(state, n) for n in names},
                                    directory / f"theirs.modelopt.{recipe}.f32.expected.safetensors")
