#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Every method that changes a model for a format, in every format: the tables of doc/accuracy.md.

    scripts/accuracy.py MODEL TOKENS.json

measures on the first 24 sequences of tokens, and calibrates on the others. A cell is what is added to the perplexity of the
model as it is, in per cent, and its standard error by the spread over the predictions of both models' differences, which
is a small part of the error of either perplexity. Then what each method takes: processor time, and the most memory that
a run of it had. `mxfp` is found in PATH.
"""
import json
import math
import os
import pathlib
import sys
import tempfile

TEST = 24
FOUR_BITS = ["mxfp4", "nvfp4"]  # which are calibrated; the others lose little
FORMATS = [*FOUR_BITS, "mxfp6-e2m3", "mxfp6-e3m2", "mxfp8-e4m3", "mxfp8-e5m2", "mxint8"]
SCALES = ["--scale-norms", "--scale-values", "--scale-mlp"]
ROTATIONS = ["--rotate-values", "--rotate-stream"]
# Name, options of mxfp transform, whether mxfp calibrate follows.
METHODS = [("rounded", [], False), ("scaled", SCALES, False), ("rotated", ROTATIONS, False), ("calibrated", [], True),
           ("scaled, calibrated", SCALES, True)]
ACTIVATIONS = "mxfp8-e4m3"


class Costs:
    """The most processor time and memory of the runs of one kind."""

    def __init__(self):
        self.kinds = {}

    def run(self, kind, *arguments):
        arguments = ["mxfp", *map(str, arguments)]
        process = os.posix_spawnp("mxfp", arguments, os.environ)
        _, status, usage = os.wait4(process, 0)
        if status:
            sys.exit("accuracy.py: failed: " + " ".join(arguments))
        seconds, kibibytes = self.kinds.get(kind, (0, 0))
        self.kinds[kind] = max(seconds, usage.ru_utime + usage.ru_stime), max(kibibytes, usage.ru_maxrss)


def evaluate(costs, work, model, base, test, formats):
    """The costs of a model that was made for formats, by format and activations: per cent, error."""
    cells = {}
    for format in formats:
        for activations in dict.fromkeys(("none", ACTIVATIONS, format)):
            # The output goes to a file: --json has no option for that.
            saved = os.dup(1)
            with open(work / "eval.json", "w") as file:
                os.dup2(file.fileno(), 1)
                costs.run("`mxfp eval`, 24 stories in one format", "eval", model, "--tokens", test, "--pad-tail", "--compare", base,
                          "--weights", format, "--activations", activations, "--json", "-q")
            os.dup2(saved, 1)
            os.close(saved)
            ratio = json.loads((work / "eval.json").read_text())["runs"][1]["ln_perplexity_ratio"]
            cells[f"{format}/{activations}"] = math.expm1(ratio["mean"]) * 100, math.exp(ratio["mean"]) * ratio["error"] * 100
    return cells


def main():
    base, tokens = map(pathlib.Path, sys.argv[1:])
    costs, cells = Costs(), {}
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        sequences = json.loads(tokens.read_text())
        sequences = sequences["seqs"] if isinstance(sequences, dict) else sequences
        for name, part in (("test", sequences[:TEST]), ("train", sequences[TEST:])):
            (work / name).with_suffix(".json").write_text(json.dumps(part))
        for method, transforms, calibrated in METHODS:
            model = base
            if transforms:
                model = work / "transformed"
                costs.run("`mxfp transform`", "transform", base, *transforms, "-o", model, "-f", "-q")
            # One of calibrated weights has one format; other models are run in all.
            for formats in [[format] for format in FOUR_BITS] if calibrated else [FORMATS]:
                made = model
                if calibrated:
                    made = work / "calibrated"
                    costs.run("`mxfp calibrate`, 104 stories", "calibrate", model, "--tokens", work / "train.json", "--pad-tail",
                              "--weights", formats[0], "--activations", ACTIVATIONS, "-o", made, "-f", "-q")
                for trial, cell in evaluate(costs, work, made, base, work / "test.json", formats).items():
                    cells[trial, method] = cell
                    print(f"{method}: {trial}: {cell[0]:+.2f} +- {cell[1]:.2f} %", file=sys.stderr, flush=True)
    names = [method for method, _, _ in METHODS]
    print("| weights | activations | " + " | ".join(names) + " |")
    print("|---|---|" + "---:|" * len(names))
    for trial in dict.fromkeys(trial for trial, _ in cells):
        weights, activations = trial.split("/")
        row = ["%+.1f +- %.1f" % cells[trial, name] if (trial, name) in cells else "" for name in names]
        print(f"| {weights} | {'f32' if activations == 'none' else activations} | " + " | ".join(row) + " |")
    print("\n| | processor time | memory |\n|---|---:|---:|")
    for kind, (seconds, kibibytes) in costs.kinds.items():
        print(f"| {kind} | {seconds:.1f} s | {kibibytes / 1024:.0f} MiB |")


main()
