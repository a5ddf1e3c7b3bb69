# SPDX-License-Identifier: MIT
"""What the checks share: counting, equality of bits, and models of torch made from names and shapes."""
import json
import pathlib

import safetensors
import torch

failures = 0
checks = 0


def check(what, good, details=""):
    global failures, checks
    checks += 1
    if not good:
        failures += 1
        print(f"FAIL: {what}{': ' if details else ''}{details}")


def same(what, expected, actual):
    """Dtype, shape and every bit."""
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        check(what, False, f"{expected.dtype} {list(expected.shape)}, {actual.dtype} {list(actual.shape)}")
        return
    left, right = (t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (expected, actual))
    differing = (left != right).reshape(expected.numel(), -1).any(1).nonzero().flatten().tolist()
    details = ""
    if differing:
        at = differing[0]
        values = expected.flatten()[at].item(), actual.flatten()[at].item()
        details = f"{len(differing)} of {expected.numel()} differ, first [{at}]: {values[0]!r}, {values[1]!r}"
    check(what, not differing, details)


def load(path):
    """All tensors of a file or of the model.safetensors of a directory."""
    path = pathlib.Path(path)
    with safetensors.safe_open(path / "model.safetensors" if path.is_dir() else path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def config(directory):
    return json.loads((pathlib.Path(directory) / "config.json").read_text())["quantization_config"]


def skeleton(tensors):
    """A model in which NAME.weight with two dimensions is a Linear without bias and the rest are parameters."""
    root = torch.nn.Module()
    # Modules before what else is in them.
    for name, tensor in sorted(tensors.items(), key=lambda item: not item[0].endswith(".weight")):
        *path, leaf = name.split(".")
        if leaf == "bias":
            continue
        linear = leaf == "weight" and tensor.dim() == 2 and path[-1] != "embed_tokens"
        module = root
        for part in path[:-1] if linear else path:
            if not hasattr(module, part):
                module.add_module(part, torch.nn.Module())
            module = getattr(module, part)
        if linear:
            module.add_module(path[-1], torch.nn.Linear(*reversed(tensor.shape), bias=False, dtype=torch.bfloat16))
        else:
            module.register_parameter(leaf, torch.nn.Parameter(tensor, requires_grad=False))
    return root
