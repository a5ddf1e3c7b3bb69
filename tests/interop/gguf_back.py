# SPDX-License-Identifier: MIT
"""
What transformers makes of directories that mxfp made of GGUF files: gguf_back.py DIRECTORY TEXT loads each
DIRECTORY/back/NAME that is not quantized, and compares its logits with those of DIRECTORY/NAME, bit by bit, and the tokens of
the text by both tokenizer.json.
"""
import pathlib
import sys

import tokenizers
import torch
import transformers

from checks import check
import checks


@torch.no_grad()
def logits(directory, tokens):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype="auto", attn_implementation="eager")
    return model.eval()(input_ids=torch.tensor([tokens]), use_cache=False).logits


def main():
    directory = pathlib.Path(sys.argv[1])
    transformers.utils.logging.set_verbosity_error()
    for path in sorted((directory / "back").glob("*/config.json")):
        back, first = path.parent, directory / path.parent.name
        ids = [tokenizers.Tokenizer.from_file(str(where / "tokenizer.json")).encode(sys.argv[2]).ids for where in (first, back)]
        check(f"{back.name}: tokens", ids[0] == ids[1], f"{ids}")
        if "quantization_config" not in path.read_text():
            check(f"{back.name}: logits", torch.equal(logits(first, ids[0]), logits(back, ids[0])))
    print(f"{checks.checks} comparisons of models on the way back, {checks.failures} failures")
    sys.exit(checks.failures != 0)


main()
