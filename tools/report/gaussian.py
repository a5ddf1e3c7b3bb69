#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gaussian.py: the rows of gaussian.def, to stdout: what each format, scale rule and recipe makes of standard normal
numbers, SQNR in dB. Written from sections 3 and 4 of doc/numerics.md with numpy, which rounds, and ml_dtypes, whose
types the elements are; nothing here is of libmxfp. Sixteen tensors of 1024 x 1024 numbers: the last digit is right to
about one."""
import ml_dtypes
import numpy as np

TENSORS, SIZE, SEED = 16, 1 << 20, 1
MX = {
    # name: type, emax, largest, bits of the significand
    "MXFP8_E4M3": (ml_dtypes.float8_e4m3fn, 8, 448.0, 3),
    "MXFP8_E5M2": (ml_dtypes.float8_e5m2, 15, 57344.0, 2),
    "MXFP6_E3M2": (ml_dtypes.float6_e3m2fn, 4, 28.0, 2),
    "MXFP6_E2M3": (ml_dtypes.float6_e2m3fn, 2, 7.5, 3),
    "MXFP4": (ml_dtypes.float4_e2m1fn, 2, 6.0, 1),
    "MXINT8": (None, 0, 127 / 64, 6),
}
RULES = ["FLOOR", "CEIL", "EVEN", "EVEN_M1", "RCEIL", "FIT", "TRN3", "RNE", "LOG_NEAREST"]


def element(x, kind, largest):
    """Numbers rounded to the nearest of a type, ties to even, saturating."""
    x = np.clip(x, -largest, largest)
    return np.clip(np.rint(x * 64), -127, 127) / 64 if kind is None else x.astype(kind).astype(np.float64)


def exponent(rule, amax, name):
    """The scale's exponent for blocks of that largest magnitude."""
    kind, emax, largest, bits = MX[name]
    m, e = np.frexp(amax)
    m, e = 2 * m, e - 1
    if rule == "FLOOR":
        return e - emax
    if rule == "CEIL":
        return e + (m > 1) - emax
    if rule in ("EVEN", "EVEN_M1"):
        return e + (m >= 2 - 2.0 ** -((bits if rule == "EVEN" else 1) + 1)) - emax
    if rule == "RCEIL":
        return e - emax + (m > largest / 2.0**emax)
    if rule == "TRN3":
        return e - (emax - 1)
    if rule == "RNE":
        return e - emax - (m < 0.75 * largest / 2.0**emax)
    if rule == "LOG_NEAREST":
        return np.floor(np.log2(amax / largest) + 0.5)
    # FIT: from where a number under the floor's scale would round past the largest, half a step further; ties to even
    # go up, as the largest of all types but E4M3 is odd.
    steps = 2.0 ** (emax - bits)
    limit = (largest + steps / 2) / 2.0**emax
    return e - emax + (m > limit if name == "MXFP8_E4M3" else m >= limit)


def mx(blocks, name, rule):
    kind, _, largest, _ = MX[name]
    amax = np.abs(blocks).max(axis=1)

    def decoded(s):
        scale = np.exp2(s.astype(np.float64))[:, None]
        return element(blocks / scale, kind, largest) * scale

    if rule != "MSE":
        return decoded(exponent(rule, amax, name))
    s = exponent("FLOOR", amax, name)
    small, large = decoded(s), decoded(s + 1)
    worse = ((small - blocks) ** 2).sum(axis=1) >= ((large - blocks) ** 2).sum(axis=1)
    return np.where(worse[:, None], large, small)


def ue4m3(x):
    return np.minimum(x, 448.0).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)


def half_up(x):
    """ggml's scale: the nearest, ties up."""
    step = np.exp2(np.maximum(np.floor(np.log2(x)), -6) - 3)
    return np.floor(x / step + 0.5) * step


def nvfp4(blocks, recipe):
    amax_t, amax = np.abs(blocks).max(), np.abs(blocks).max(axis=1)
    g = amax_t / (1536 if recipe.endswith("4OVER6") else 2688)
    if recipe in ("TORCHAO_1", "GGML"):
        g = 1

    def decoded(scale):
        scale = (g * scale)[:, None]
        return element(blocks / scale, ml_dtypes.float4_e2m1fn, 6.0) * scale

    u = amax / (6 * g)
    if recipe == "GGML":
        return decoded(half_up(u))
    if recipe.startswith("TORCHAO"):
        u = np.clip(u, 2.0**-6, 448)
    six = decoded(ue4m3(u))
    if not recipe.endswith("4OVER6"):
        return six
    four = decoded(ue4m3(1.5 * u))
    better = ((four - blocks) ** 2).sum(axis=1) < ((six - blocks) ** 2).sum(axis=1)
    return np.where(better[:, None], four, six)


RECIPES = ["TE", "TORCHAO", "TORCHAO_1", "COMPRESSED_TENSORS", "MODELOPT", "MODELOPT_0_45", "GGML", "4OVER6",
           "MODELOPT_4OVER6"]


def main():
    rows = [(f, r, "RULE") for f in MX for r in ["MSE", *RULES]] + [("NVFP4", r, "RECIPE") for r in RECIPES]
    signal, noise = 0.0, dict.fromkeys(rows, 0.0)
    normal = np.random.Generator(np.random.PCG64(SEED))

    for _ in range(TENSORS):
        x = normal.standard_normal(SIZE, dtype=np.float32).astype(np.float64)
        signal += (x**2).sum()
        for row in rows:
            blocks = x.reshape(-1, 16 if row[0] == "NVFP4" else 32)
            q = nvfp4(blocks, row[1]) if row[0] == "NVFP4" else mx(blocks, *row[:2])
            noise[row] += ((q - blocks) ** 2).sum()
    for row in rows:
        print(f"GAUSSIAN_{row[2]}({row[0]}, {row[1]}, {10 * np.log10(signal / noise[row]):.2f})")


main()
