# SPDX-License-Identifier: MIT
"""
The layouts of compressed-tensors, by its own lifecycle for loading: config.json is parsed and applied to a model, our
tensors are loaded into what that made of it, and ModelCompressor decompresses it.

Its arithmetic: codes become BF16. E8M0 scales become BF16 powers of two, and the product is BF16, all of it exact in
its range. For NVFP4 sf / gs is rounded to F32, its product with the code too, and that to BF16. Ours is --to bf16,
where (code * sf) / gs is rounded to F32 first.
"""
import json
import warnings

import safetensors.torch
import torch
from compressed_tensors.compressors import BaseCompressor, ModelCompressor
from compressed_tensors.config import CompressionFormat
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config, preset_name_to_scheme
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

from checks import check, config, load, same, skeleton

PRESETS = {"mxfp4": "MXFP4A16", "mxfp6-e2m3": "MXFP6A16", "mxfp8-e4m3": "MXFP8A16", "nvfp4": "NVFP4A16"}


def weights(tensors):
    return {name: t for name, t in tensors.items() if name.endswith(".weight") and t.dim() == 2}


def read_model(directory, source, decoded):
    """A whole model of ours, with the layers that config.json leaves alone."""
    parsed = QuantizationConfig.model_validate(config(directory))
    model = skeleton(load(source))
    with warnings.catch_warnings(action="error"):
        apply_quantization_config(model, parsed)
    compressor = ModelCompressor(quantization_config=parsed)
    compressor.compress_model(model)
    ours = {name: t for name, t in load(directory).items() if not name.endswith(".bias")}
    result = model.load_state_dict(ours, strict=False, assign=True)
    check(f"{directory.name}: tensors that the model lacks", not result.unexpected_keys, result.unexpected_keys)
    check(f"{directory.name}: tensors that the file lacks", not result.missing_keys, result.missing_keys)
    compressor.decompress_model(model)
    expected = load(decoded)
    for name, tensor in model.state_dict().items():
        if name in expected:
            same(f"{directory.name}: {name}", tensor, expected[name])
    missing = set(expected) - set(model.state_dict()) - {n for n in expected if n.endswith(".bias")}
    check(f"{directory.name}: all tensors are there", not missing, missing)


def ours(directory):
    read_model(directory / "ct-mixed", directory / "dense", directory / "ct-mixed.bf16")
    groups = config(directory / "ct-mixed")["config_groups"].values()
    check("ct-mixed: a group for each format", len({group["format"] for group in groups}) == len(PRESETS))
    read_model(directory / "ct-relaid.nvfp4", directory / "dense", directory / "ct-relaid.nvfp4.bf16")
    for format in PRESETS:
        for source in ("dense", "charlm"):
            name = f"ct.{source}.{format}"
            read_model(directory / name, directory / source, directory / f"{name}.bf16")


def compress(weight, scheme):
    """The state of a Linear as compressed-tensors stores it, with scales by its own observers' arithmetic."""
    weight = weight.float()
    groups = weight.unflatten(-1, (-1, scheme.weights.group_size))
    low, high = groups.amin(-1), groups.amax(-1)
    state = {"weight": weight}
    if scheme.weights.strategy == "tensor_group":
        state["weight_global_scale"] = generate_gparam(low.min(), high.max())
    state["weight_scale"], _ = calculate_qparams(low, high, scheme.weights, state.get("weight_global_scale"))
    return state


def write(directory, source, format):
    """What its compressors make of the source, and what they decompress that to."""
    scheme = preset_name_to_scheme(PRESETS[format], ["Linear"])
    name = {"mxfp8-e4m3": "mxfp8-quantized"}.get(format, format.partition("-")[0] + "-pack-quantized")
    scheme.format = CompressionFormat(name)
    compressor = BaseCompressor.get_value_from_registry(name)
    stored, decoded = {}, {}
    for weight, tensor in weights(source).items():
        module = weight.removesuffix("weight")
        state = compressor.compress(compress(tensor, scheme), scheme)
        stored |= {module + part: t.detach().contiguous() for part, t in state.items()}
        decoded[weight] = compressor.decompress(state, scheme)["weight"].detach()
    directory.mkdir()
    parsed = QuantizationConfig(config_groups={"group_0": scheme}, format=name, quantization_status="compressed")
    (directory / "config.json").write_text(json.dumps({"model_type": "llama"}))
    ModelCompressor(quantization_config=parsed).update_config(directory)
    safetensors.torch.save_file(stored, directory / "model.safetensors", {"format": "pt"})
    safetensors.torch.save_file(decoded, f"{directory}.expected.safetensors")


def theirs(directory):
    source = load(directory / "dense")
    for format in PRESETS:
        write(directory / f"theirs.ct.{format}.bf16", source, format)
