# SPDX-License-Identifier: MIT
"""
Loads what mxfp made of the models of families.py, as users load it and decoded while it is loaded, and what mxfp dequantize
made of that: loaded.py DIRECTORY. No key is missing or left over, and the outputs are the same to the bit: BF16 is exact in the
range of MXFP4 and MXFP8, NVFP4 is rounded to it once in both.
"""
import pathlib
import sys
import warnings

import torch
import transformers

import checks
import layout_compressed_tensors
from checks import check
from families import auto_class


def open_model(directory, **options):
    config = transformers.AutoConfig.from_pretrained(directory)
    model, info = auto_class(config).from_pretrained(directory, output_loading_info=True, dtype=torch.bfloat16, **options)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        check(f"{directory.name}: {what}", not info.get(what), sorted(map(str, info.get(what, ())))[:3])
    return model.eval()


@torch.no_grad()
def output(model):
    torch.manual_seed(6)
    tokens = torch.randint(6, 128, (2, 12))
    if model.config.model_type == "whisper":
        return model(input_features=torch.randn(2, 16, 32).bfloat16(), decoder_input_ids=tokens).logits
    return model(input_ids=tokens).logits


def compare(ours, quantized):
    expected, actual = output(open_model(ours)), output(open_model(quantized))
    checks.same(f"{quantized.name}: output", expected, actual)
    check(f"{quantized.name}: output is finite", bool(torch.isfinite(actual).all()))
    if quantized.suffix == ".mxfp4":
        decoding = transformers.CompressedTensorsConfig(dequantize=True)
        checks.same(f"{quantized.name}: output, decoded", expected, output(open_model(quantized, quantization_config=decoding)))


def main():
    directory = pathlib.Path(sys.argv[1])
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    for ours in sorted(directory.glob("loads.*.bf16")):
        quantized = ours.with_suffix("")
        try:
            compare(ours, quantized)
        except (RuntimeError, ValueError, AttributeError) as problem:
            check(f"{quantized.name}: loads", False, str(problem)[:300])
    for ours in sorted(directory.glob("each.*.bf16")):
        layout_compressed_tensors.read_model(ours.with_suffix(""), directory / f"family.{ours.name.split('.')[1]}", ours)
    for quantized in sorted(directory.glob("keys.*")):
        if not quantized.name.endswith((".bf16", ".f32")):
            check(f"{quantized.name}: output is finite", bool(torch.isfinite(output(open_model(quantized))).all()))
    print(f"{checks.checks} checks of transformers, {checks.failures} failures")
    sys.exit(checks.failures != 0)


main()
