# SPDX-License-Identifier: MIT
"""The numbers that make.py gives to other packages: binary32 patterns, made with integers and a seed alone."""
import random
import struct

import numpy as np

SIGN = 1 << 31
INF = 0x7F800000

# Bits of exponent and of significand, bias, and the number of finite magnitudes: the first code that is none.
FLOATS = {
    "e5m2": (5, 2, 15, 0x7C),
    "e4m3": (4, 3, 7, 0x7F),
    "e3m2": (3, 2, 3, 0x20),
    "e2m3": (2, 3, 1, 0x20),
    "e2m1": (2, 1, 1, 0x08),
    "e4m3ieee": (4, 3, 7, 0x78),
    "e3m4": (3, 4, 3, 0x70),
    "f16": (5, 10, 15, 0x7C00),
    "bf16": (8, 7, 127, 0x7F80),
    "e4m3fnuz": (4, 3, 8, 0x80),
    "e5m2fnuz": (5, 2, 16, 0x80),
}


def bits(value):
    """The pattern of a number that binary32 can hold."""
    return struct.unpack("<I", struct.pack("<f", value))[0]


def near(value):
    """A positive number with its two neighbors, each with both signs."""
    pattern = bits(value)
    return [p | s for p in (pattern - 1, pattern, pattern + 1) if p <= INF for s in (0, SIGN)]


def magnitude(name, code):
    """What a code stands for, going on past the largest as if exponents had no end."""
    _, fraction_bits, bias, _ = FLOATS[name]
    exponent, fraction = code >> fraction_bits, code & ((1 << fraction_bits) - 1)
    if exponent == 0:
        return fraction * 2.0 ** (1 - bias - fraction_bits)
    return ((1 << fraction_bits) + fraction) * 2.0 ** (exponent - bias - fraction_bits)


def thresholds(name):
    """Each value, and each midpoint to the next, with neighbors; of a large format some codes."""
    n_codes = FLOATS[name][3]
    codes = range(n_codes + 1)
    if n_codes > 0x100:
        rng = random.Random(name)
        fraction_bits = FLOATS[name][1]
        codes = sorted({0, 1, 2, (1 << fraction_bits) - 1, 1 << fraction_bits, n_codes - 2, n_codes - 1}
                       | {rng.randrange(n_codes) for _ in range(400)})
    out = []
    for code in codes:
        low, high = magnitude(name, code), magnitude(name, code + 1)
        for value in (low, (low + high) / 2):
            if 0 < value < 2.0 ** 128:
                out += near(value)
    return out


def thresholds_int8():
    return [p for n in range(1, 2 * 132) for p in near(n / 128.0)]


def thresholds_ue4m3():
    """For a scale: positive, and a few that a scale cannot be."""
    rng = random.Random("ue4m3")
    values = [p for p in thresholds("e4m3") if p < SIGN]
    return values + [bits(v) for v in (0.0, 500.0, 1e30, -1.0, -448.0)] + [
        rng.randrange(bits(2.0 ** -12), bits(600.0)) for _ in range(1000)]


def special():
    return [p | s for p in (0, 1, 2, 0x007FFFFF, 0x00800000, 0x00800001, 0x3F800000, 0x7F000000, 0x7F7F8000,
                            0x7F7FFFFF, INF, 0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x7FA5A5A5, 0x7FC12345)
            for s in (0, SIGN)]


def powers():
    """Every 2^k and 1.5 * 2^k with neighbors."""
    return [p for k in range(-149, 128) for m in (1.0, 1.5) if k > -149 or m == 1.0 for p in near(m * 2.0 ** k)]


def sample():
    """Patterns of bf16 and of binary32, and binary32 where the narrow formats have their range."""
    rng = random.Random("sample")
    out = [rng.getrandbits(16) << 16 for _ in range(2048)] + [rng.getrandbits(32) for _ in range(2048)]
    return out + [rng.getrandbits(1) << 31 | rng.randrange(127 - 26, 127 + 18) << 23 | rng.getrandbits(23)
                  for _ in range(4096)]


def scaled_row(rng, n, exponent, spread=2):
    """n numbers below 2^exponent, most of them within a few powers of two of it."""
    out = []
    for _ in range(n):
        value = rng.uniform(-1, 1) * 2.0 ** -rng.randrange(spread * 2)
        out.append(bits(np.float32(value)))
    return [bits(float(np.ldexp(np.float32(struct.unpack("<f", struct.pack("<I", p))[0]), exponent))) for p in out]


def quarters(largest):
    return [bits(v / 4) | s for v in range(4 * largest + 1) for s in (0, SIGN)]


def blocks():
    """Rows of 32 whose largest magnitude stands at a threshold of some scale rule, and rows that are special."""
    rng = random.Random("blocks")
    out = []

    def row(amax, exponent):
        x = scaled_row(rng, 32, exponent)
        x = [p if p & ~SIGN < amax else p & SIGN for p in x]
        x[rng.randrange(32)] = amax | rng.getrandbits(1) << 31
        out.append(x)

    # Significands 1, 1.5, 1.75, 1.8125, 1.875, 1.9375, 1.96875, 1.9921875 and 2 - 1 ulp, and their neighbors.
    for exponent in (-126, -125, -118, -64, -9, -1, 0, 1, 2, 3, 8, 60, 120, 127):
        for fraction in (0, 0x400000, 0x600000, 0x680000, 0x700000, 0x780000, 0x7C0000, 0x7F0000):
            for step in (-1, 0, 1):
                pattern = ((exponent + 127) << 23 | fraction) + step
                if pattern < INF:
                    row(pattern, exponent)
    for pattern in (1, 2, 3, 0x0003FFFF, 0x00040000, 0x00200000, 0x003FFFFF, 0x00400000, 0x007FFFFF, 0x7F7FFFFF):
        out.append([pattern] + [rng.randrange(pattern + 1) | rng.getrandbits(1) << 31 for _ in range(31)])
    out += [[0] * 32, [SIGN] * 32, [0, SIGN] * 16, [0] * 31 + [SIGN | 1]]
    for name in ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2"):  # ties under the scales that floor gives
        ties = [p for p in thresholds(name) if 0 < p & ~SIGN <= bits(magnitude(name, FLOATS[name][3] - 1))]
        for exponent in (0, -40, 77):
            x = [bits(magnitude(name, FLOATS[name][3] - 1))] + [rng.choice(ties) for _ in range(31)]
            out.append([(p & SIGN) | (p & ~SIGN) + (exponent << 23) for p in x])
    for outlier in (2.0 ** 20, -(2.0 ** 20), 1.5 * 2.0 ** 100):  # one outlier over small numbers
        x = scaled_row(rng, 32, 0)
        x[17] = bits(outlier)
        out.append(x)
    out += [scaled_row(rng, 32, e, 8) for e in range(-140, 129, 6)]
    for value in (INF, SIGN | INF, 0x7FC00000, 0xFF800001):
        x = scaled_row(rng, 32, 0)
        x[5] = value
        out.append(x)
    return out


def blocks_plain():
    """Rows of 32 of an ordinary matrix, and rows of ties."""
    rng = random.Random("blocks_plain")
    ordinary = [scaled_row(rng, 32, rng.randrange(-6, 3)) for _ in range(48)]
    return ordinary + [[bits(float(n))] + rng.choices(quarters(n), k=31) for n in (4, 6) * 8]


def nvfp4_tensors():
    rng = random.Random("nvfp4")

    def rows(n, cols, exponent):
        return [sum((scaled_row(rng, 16, exponent()) for _ in range(cols // 16)), []) for _ in range(n)]

    return {
        "nv_ordinary": rows(16, 128, lambda: rng.randrange(-2, 3)),
        "nv_spread": rows(16, 128, lambda: rng.randrange(-24, 9)),
        "nv_small": rows(8, 64, lambda: rng.randrange(-104, -96)),
        "nv_smallest": rows(8, 64, lambda: rng.randrange(-140, -126)),
        "nv_large": rows(8, 64, lambda: rng.randrange(90, 118)),
        "nv_ties": [[bits(6.0)] + rng.choices(quarters(6), k=63) for _ in range(16)],
        "nv_largest": [[bits(2688.0)] + [bits(v) for v in (6.0 * 2.0 ** (k % 9), -1.25, 0.5)] * 21
                       for k in range(4)],
        "nv_zero": [[0, SIGN] * 32] * 2,
        "nv_one": [[0] * 63 + [bits(1.0)]] * 2,
    }


def fp4_pairs():
    values = [bits(magnitude("e2m1", code & 7)) | (code >> 3) << 31 for code in range(16)]
    return [[low, high] for high in values for low in values]


def sparse24():
    """f16, two of four at most; some groups have fewer that are not zero."""
    rng = random.Random("sparse24")
    out = []
    for _ in range(64):
        x = [0] * 64
        for group in range(16):
            for i in rng.sample(range(4), 2 if group else rng.randrange(3)):
                x[4 * group + i] = rng.getrandbits(1) << 15 | rng.randrange(1, 0x7C00)
        out.append(x)
    return out


def all_inputs():
    """Name: array of patterns; uint16 is f16, uint32 binary32."""
    made = {"special": special(), "powers": powers(), "sample": sample(), "mid_int8": thresholds_int8(),
            "mid_ue4m3": thresholds_ue4m3(), "blocks": blocks(), "blocks_plain": blocks_plain(),
            "fp4_pairs": fp4_pairs()}
    made.update({"mid_" + name: thresholds(name) for name in FLOATS})
    made.update(nvfp4_tensors())
    arrays = {name: np.array(x, dtype=np.uint32) for name, x in made.items()}
    arrays["sparse24"] = np.array(sparse24(), dtype=np.uint16)
    return arrays
