# SPDX-License-Identifier: MIT
"""
Loads what mxfp made of the models of families.py, as users load it, and what mxfp dequantize made of that:
loaded.py DIRECTORY. No key is missing or left over, and the output of both is the same to the bit: BF16 is exact in the
range of MXFP4 and MXFP8, and so are the decompressed weights.
"""
import pathlib
import sys
import warnings

import torch
import transformers

import checks
import layout_compressed_tensors
from checks import check


def open_model(directory):
    whisper = ".whisper." in directory.name
    kind = transformers.AutoModelForSpeechSeq2Seq if whisper else transformers.AutoModelForCausalLM
    model, info = kind.from_pretrained(directory, output_loading_info=True, dtype=torch.bfloat16)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        check(f"{directory.name}: {what}", not info.get(what), sorted(map(str, info.get(what, ())))[:3])
    return model.eval()


@torch.no_grad()
def output(model):
    torch.manual_seed(6)
    tokens = torch.randint(3, 128, (2, 12))
    if model.config.model_type == "whisper":
        return model(input_features=torch.randn(2, 16, 32).bfloat16(), decoder_input_ids=tokens).logits
    return model(input_ids=tokens).logits


def main():
    directory = pathlib.Path(sys.argv[1])
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    for ours in sorted(directory.glob("loads.*.bf16")):
        quantized = ours.with_suffix("")
        expected, actual = output(open_model(ours)), output(open_model(quantized))
        checks.same(f"{quantized.name}: output", expected, actual)
        check(f"{quantized.name}: output is finite", bool(torch.isfinite(actual).all()))
    # With activations that are quantized too, the output is another one.
    for quantized in sorted(directory.glob("keys.*")):
        if not quantized.name.endswith((".bf16", ".f32")):
            output(open_model(quantized))
    # transformers 5.12 makes one tensor of the codes of all experts, which it does not know then. Loaders that do not
    # take them as compressed-tensors does: one module each.
    for quantized in sorted(directory.glob("each.*.bf16")):
        name = quantized.name.split(".")[1]
        layout_compressed_tensors.read_model(quantized.with_suffix(""), directory / f"family.{name}", quantized)
    print(f"{checks.checks} checks of transformers, {checks.failures} failures")
    sys.exit(checks.failures != 0)


main()
