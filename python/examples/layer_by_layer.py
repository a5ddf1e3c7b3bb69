# SPDX-License-Identifier: MIT
"""
Quantizes a model directory of Hugging Face layer by layer, with a hook that sees each layer's weight and chooses its format, then
has the command judge the result.

    python layer_by_layer.py MODEL OUT [TEXT]

The hook here gives MXFP8 to layers that lose more than a limit in MXFP4. What it chose becomes a recipe for mxfp quantize, which
writes the model: the module never writes files itself. With TEXT, mxfp eval prints the perplexity of the result.
"""

import json
import pathlib
import subprocess
import sys

import numpy

import mxfp

LIMIT = 18.5  # dB


def choose(name, weight):
    """The hook: the format of a layer."""
    e = mxfp.error(weight, mxfp.quantize(weight, "mxfp4"))
    return "mxfp4" if e.sqnr >= LIMIT else "mxfp8-e4m3"


def is_layer(info):
    return len(info.shape) == 2 and info.name.endswith("proj.weight") and info.shape[1] % 32 == 0


def main(source, out, text=None):
    rules = []
    with mxfp.open(source) as model:
        for name in model:
            if is_layer(model.info(name)):
                weight = numpy.asarray(model[name], dtype=numpy.float32)
                rules.append({"match": name, "format": choose(name, weight)})
    for format in mxfp.formats:
        n = sum(rule["format"] == format for rule in rules)
        if n:
            print(f"{format}: {n} layers")
    recipe = pathlib.Path(f"{out}.recipe.json")
    recipe.write_text(json.dumps({"version": 1, "rules": rules}, indent=1))
    command("quantize", source, "-o", out, "--recipe", recipe, "-q")
    if text is not None:
        command("eval", out, "--text", text)


def command(*arguments):
    subprocess.run([sys.executable, "-m", "mxfp", *map(str, arguments)], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
