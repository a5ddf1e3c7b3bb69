# SPDX-License-Identifier: MIT
"""
The layout of gpt-oss, by what transformers loads such checkpoints with: BF16, exact in its range. It turns the last two
dimensions round, as the unquantized model has them.
"""
import json

import safetensors.torch
import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.utils.quantization_config import Mxfp4Config

from checks import check, config, load, same


def decode(blocks, scales):
    return convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)


def ours(directory):
    for model in ("gpt-oss", "gpt-oss-relaid"):
        state, decoded = load(directory / model), load(directory / f"{model}.bf16")
        for name, expected in decoded.items():
            if name + "_blocks" in state:
                same(f"{model}: {name}", decode(state[name + "_blocks"], state[name + "_scales"]), expected)
            else:
                same(f"{model}: {name}", state[name], expected)
        check(f"{model}: experts are quantized", sum(name.endswith("_blocks") for name in state) == 2)
        settings = config(directory / model)
        check(f"{model}: quant_method", settings.pop("quant_method") == "mxfp4")
        settings.pop("mxfp", None)
        check(f"{model}: config.json", Mxfp4Config(**settings).modules_to_not_convert)


def theirs(directory):
    """No program is known that writes this layout on a CPU: random codes, scales within BF16."""
    torch.manual_seed(4)
    target = directory / "theirs.gpt-oss.bf16"
    stored, decoded = {}, {}
    for name, (experts, rows, groups) in {"gate_up_proj": (2, 12, 5), "down_proj": (2, 6, 90)}.items():
        blocks = torch.randint(0, 256, (experts, rows, groups, 16), dtype=torch.uint8)
        scales = torch.randint(0, 252, (experts, rows, groups), dtype=torch.uint8)
        name = "model.layers.3.mlp.experts." + name
        stored |= {name + "_blocks": blocks, name + "_scales": scales}
        decoded[name] = decode(blocks, scales)
    target.mkdir()
    settings = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (target / "config.json").write_text(json.dumps({"model_type": "gpt_oss", "quantization_config": settings}))
    safetensors.torch.save_file(stored, target / "model.safetensors")
    safetensors.torch.save_file(decoded, f"{target}.expected.safetensors")
