# SPDX-License-Identifier: MIT
"""
Compares what mxfp eval made of the models of eval_models.py with what transformers and llama.cpp made of them:
eval_compare.py DIRECTORY, where MODEL.logits are of mxfp eval --save-logits, MODEL.json of --json, and MODEL.llama is what
llama-perplexity printed. MODEL is NAME or NAME.gguf.
"""
import json
import pathlib
import re
import sys

import numpy

from checks import check
import checks

HEADER_BYTES = 64
# Of the largest logit. Sums in binary32 in another order come to 2e-6 here.
LOGITS_MOST = 2e-5
PERPLEXITY_MOST = 1e-3
# GGUF has no windows for a Llama: rows before the window's end are the same.
ROWS = {"mistral.gguf": 100}


def read_logits(path, vocabulary):
    data = path.read_bytes()
    assert data[:8] == b"MXFPLOGI" and int.from_bytes(data[16:24], "little") == vocabulary, path
    return numpy.frombuffer(data[HEADER_BYTES:], "<f4").reshape(-1, vocabulary).astype(numpy.float64)


def compare_logits(path):
    expected = numpy.load(path.parent / path.stem.removesuffix(".gguf") / "logits.npy").astype(numpy.float64)
    actual = read_logits(path, expected.shape[1])
    check(f"{path.stem}: rows of logits", actual.shape == expected.shape, f"{actual.shape}, {expected.shape}")
    rows = ROWS.get(path.stem, len(expected))
    errors = numpy.abs(actual - expected)[:rows].max(1) / numpy.abs(expected).max()
    print(f"{path.stem}: logits differ by {errors.max():.1e} of the largest")
    # Not of NaN either.
    check(f"{path.stem}: logits", errors.max() <= LOGITS_MOST, f"{errors.max():.1e} of the largest in row {errors.argmax()}")


def compare_perplexity(path):
    theirs = float(re.search(r"Final estimate: PPL = ([\d.]+)", path.read_text(errors="replace")).group(1))
    ours = json.loads(path.with_suffix(".json").read_text())["runs"][0]["perplexity"]["mean"]
    print(f"{path.stem}: perplexity {ours:.4f}, of llama-perplexity {theirs:.4f}")
    check(f"{path.stem}: perplexity", abs(ours / theirs - 1) <= PERPLEXITY_MOST, f"{ours}, {theirs}")


def main():
    directory = pathlib.Path(sys.argv[1])
    for path in sorted(directory.glob("*.logits")):
        compare_logits(path)
    for path in sorted(directory.glob("*.llama")):
        compare_perplexity(path)
    print(f"{checks.checks} comparisons of models that run, {checks.failures} failures")
    sys.exit(checks.failures != 0)


if __name__ == "__main__":
    main()
