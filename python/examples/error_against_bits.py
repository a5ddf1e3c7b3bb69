# SPDX-License-Identifier: MIT
"""
Error against bits of one tensor, for all block formats, rules and recipes: a table, and with -o FILE a chart (matplotlib).

    python error_against_bits.py                                  random numbers
    python error_against_bits.py MODEL TENSOR [-o chart.png]      a tensor of a model
"""

import argparse

import numpy

import mxfp


def measure(x):
    """[(bits, SQNR, format, rule or recipe), ...], the best of each format first."""
    rows = []
    for format in mxfp.formats.values():
        if not format.is_block:
            continue
        for how in mxfp.recipes if format.tensor_scale else mxfp.rules:
            q = mxfp.quantize(x, format, **{"recipe" if format.tensor_scale else "rule": how})
            rows.append((format.bits_per_number, mxfp.error(x, q).sqnr, format.name, how))
    return sorted(rows, key=lambda row: (row[0], row[2], -row[1]))


def draw(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name in dict.fromkeys(row[2] for row in rows):
        some = [row for row in rows if row[2] == name]
        axes.plot([row[0] for row in some], [row[1] for row in some], "o-", label=name)
        axes.annotate(some[0][3], (some[0][0], some[0][1]), textcoords="offset points", xytext=(6, 2), fontsize=7)
    axes.set_xlabel("bits a number, scales included")
    axes.set_ylabel("SQNR, dB (each rule or recipe a point, the best named)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("tensor", nargs="?")
    parser.add_argument("-o", "--output", help="chart to write, .png or .svg")
    options = parser.parse_args()
    if options.model is None:
        x = numpy.random.default_rng(0).standard_normal((256, 4096), dtype=numpy.float32)
    else:
        with mxfp.open(options.model) as model:
            x = model[options.tensor or next(iter(model))]
    rows = measure(x)
    for bits, sqnr, name, how in rows:
        print(f"{bits:5.2f} bits  {sqnr:6.2f} dB  {name:11} {how}")
    if options.output:
        draw(rows, options.output)


if __name__ == "__main__":
    main()
