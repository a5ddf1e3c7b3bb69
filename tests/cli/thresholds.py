# SPDX-License-Identifier: MIT
"""
A program for mxfp conform: scales by each rule, from its definition in doc/numerics.md, section 3, in fractions. At the end it
prints on standard error which questions do not ask, at every exponent, those of subnormal numbers included, the significand from which
on their rule gives one more than for 1, the one before and the one after; and how many questions there were.
"""
import json
import struct
import sys
from fractions import Fraction
from functools import lru_cache

# The largest value, its exponent, bits of the significand, whether its code is even.
ELEMENTS = {"mxfp4": (6, 2, 1, False), "mxfp8-e4m3": (448, 8, 3, True), "mxfp8-e5m2": (57344, 15, 2, False),
            "mxfp6-e2m3": (Fraction(15, 2), 2, 3, False), "mxfp6-e3m2": (28, 4, 2, False), "mxint8": (Fraction(127, 64), 0, 6, False)}


def log2_below(x, k):
    """Whether log2(x) < k / 2."""
    return x * x < Fraction(2) ** k


def scale(name, rule, m):
    """s of m * 2^0, 1 <= m < 2."""
    largest, emax, bits, is_even = ELEMENTS[name]
    if rule == "floor":
        return -emax
    if rule == "trn3":
        return 1 - emax
    if rule == "ceil":
        return -emax + (m > 1)
    if rule in ("even", "even-m1"):
        step = Fraction(1, 2 ** (bits if rule == "even" else 1))
        return -emax + (m + step / 2 >= 2)
    s = -emax - 3
    if rule == "rceil":
        while m > largest * Fraction(2) ** s:
            s += 1
    if rule == "fit":
        tie = largest + Fraction(2) ** (emax - bits - 1)
        while m > tie * Fraction(2) ** s or (m == tie * Fraction(2) ** s and not is_even):
            s += 1
    if rule == "rne":  # of 2^s the nearest to m / largest, the larger of two
        s = min(range(-emax - 3, -emax + 3), key=lambda k: (abs(Fraction(m) / largest - Fraction(2) ** k), -k))
    if rule == "log-nearest":  # s - 1/2 <= log2(m / largest) < s + 1/2
        while not log2_below(Fraction(m) / largest, 2 * s + 1):
            s += 1
    return s


@lru_cache(maxsize=None)
def threshold(name, rule):
    """The first significand with one more than 1.0 has, as the integer behind the hidden bit, or None; s of 1.0."""
    low, high, first = 0, 2**23 - 1, scale(name, rule, Fraction(1))
    if scale(name, rule, 2 - Fraction(1, 2**23)) == first:
        return None, first
    while low + 1 < high:
        middle = (low + high) // 2
        if scale(name, rule, 1 + Fraction(middle, 2**23)) > first:
            high = middle
        else:
            low = middle
    return high, first


def parts(x):
    """Exponent and significand of the bits of a number."""
    if x >= 2**23:
        return (x >> 23) - 127, x & (2**23 - 1)
    up = 24 - x.bit_length()
    return -126 - up, (x << up) - 2**23


def answers(name, rule, numbers):
    at, first = threshold(name, rule)
    for x in numbers:
        exponent, significand = parts(x) if x > 0 else (-512, 0)
        s = exponent + first + (at is not None and significand >= at)
        yield 0 if s < -127 else 254 if s > 127 else s + 127


def check(name, rule, asked):
    """At each exponent."""
    at, _ = threshold(name, rule)
    if at is None:
        at = 0  # it decides at powers of two
    due = {(field << 23 | at) + side for field in range(1, 255) for side in (-1, 0, 1)}
    for up in range(1, 23):
        near = (2**23 | at) >> up
        due |= {near, near + 1} | ({near - 1} if near > 1 else set())
    missing = sorted(x for x in due - asked if 0 < x < 0x7F800000)
    if missing:
        print(f"scale {name} {rule} does not ask {missing[0]:08X} and {len(missing) - 1} more of {len(due)}", file=sys.stderr)


stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
asked, of = set(), None
n_asked = 0
for line in stdin:
    request = json.loads(line)
    data = stdin.read(request.get("bytes", 0))
    if request["op"] == "hello":
        stdout.write(b'{"version":1,"name":"thresholds"}\n')
    elif request["op"] != "scale":
        stdout.write(b'{"unsupported":true}\n')
    else:
        if of != (request["format"], request["rule"]):
            if of is not None:
                check(*of, asked)
            asked, of, n_asked = set(), (request["format"], request["rule"]), n_asked + 1
        numbers = struct.unpack(f"<{request['n']}I", data)
        asked.update(numbers)
        stdout.write(b'{"bytes":%d}\n' % len(numbers) + bytes(answers(*of, numbers)))
    stdout.flush()
check(*of, asked)
print(f"{n_asked} questions", file=sys.stderr)
