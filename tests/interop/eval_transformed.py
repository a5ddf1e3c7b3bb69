# SPDX-License-Identifier: MIT
"""
Runs what mxfp transform made of models of eval_models.py by transformers: eval_transformed.py DIRECTORY, where
scaled.NAME and rotated.NAME were made of NAME. Scales are powers of two: logits are those of NAME to the bit.
"""
import json
import pathlib
import sys

import numpy
import torch
import transformers

from checks import check
import checks

# Of the largest logit: rotated weights are rounded to binary32, and sums have other terms.
ROTATED_MOST = 2e-5


@torch.no_grad()
def logits(directory, tokens):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, output_loading_info=True, dtype=torch.float32, attn_implementation="eager")
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        check(f"{directory.name}: {what}", not info.get(what), sorted(map(str, info.get(what, ())))[:3])
    return model.eval()(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy()


def main():
    directory = pathlib.Path(sys.argv[1])
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for path in sorted([*directory.glob("scaled.*"), *directory.glob("rotated.*")]):
        kind, name = path.name.split(".")
        tokens = json.loads((directory / name / "tokens.json").read_text())[:-1]
        expected = numpy.load(directory / name / "logits.npy").astype(numpy.float64)
        error = numpy.abs(logits(path, tokens) - expected).max() / numpy.abs(expected).max()
        print(f"{path.name}: logits by transformers differ by {error:.1e} of the largest")
        # Not of NaN either.
        check(f"{path.name}: logits", error <= (0 if kind == "scaled" else ROTATED_MOST), f"{error:.1e} of the largest")
    print(f"{checks.checks} checks of transformed models, {checks.failures} failures")
    sys.exit(checks.failures != 0 or checks.checks == 0)


main()
