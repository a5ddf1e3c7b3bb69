#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""polynomial.py: the tables of polynomial.h, to stdout: for each function of a row the polynomial whose largest error,
weighted, is least (Remez), computed with mpmath, its coefficients rounded to binary64, or to binary32 in the rows of SHORT.
Printed above each is the largest error of the rounded coefficients themselves, as a power of two. Behind them are tables of
roots of two."""
import struct

from mpmath import mp, mpf, matrix, lu_solve, log, exp, expm1, pi, erf, erfc, sqrt, atanh, sin, cos

mp.prec = 240
LN2 = log(2)


def exp2m1_rest(r):
    """(2^r - 1) / r."""
    return expm1(r * LN2) / r if r != 0 else LN2


def exp_second(t):
    """(e^t - 1 - t) / t^2."""
    return (expm1(t) - t) / (t * t) if t != 0 else mpf(1) / 2


def atanh_rest(s):
    """atanh(v) / v, s = v^2."""
    v = sqrt(s)
    return atanh(v) / v if s != 0 else mpf(1)


def sin_rest(s):
    """(sin(r) / r - 1) / s, s = r^2."""
    r = sqrt(s)
    return (sin(r) / r - 1) / s


def cos_rest(s):
    """(cos(r) - 1 + s / 2) / s^2, s = r^2."""
    return (cos(sqrt(s)) - 1 + s / 2) / s ** 2


def phi_rest(v):
    """(Phi(x) - 1/2) / x, v = x^2 - PHI_CENTRE, Phi the distribution function of standard normals."""
    s = v + PHI_CENTRE
    x = sqrt(s)
    return erf(x / sqrt(mpf(2))) / (2 * x) if s != 0 else 1 / sqrt(2 * pi)


def mills(u):
    """e^(t^2 / 2) Phi(-t), u = (t - K) / (t + K)."""
    t = MILLS_K * (1 + u) / (1 - u)
    return exp(t * t / 2) * erfc(t / sqrt(mpf(2))) / 2


PHI_CENTRE = mpf("7.03125")
MILLS_K = mpf(4)
MILLS_T = mpf("14.75")
HALF = mpf("0.50001")  # a nearest integer is off by a little more than 1/2 where the product was rounded
SHORT_HALF = mpf("0.5002")  # the same in binary32
QUARTER_PI = mpf("0.78541")
TINY = mpf(2) ** -100
PARTS = (8, 32)  # of an octave, of the tables in binary32
SHORT = {"exp_second_8", "exp_second_32"}

# name, what, degree, interval, function, weight of an error (None: relative), terms
ROWS = [
    ("exp_sixteenth", "(2^r - 1) / r, |r| <= 1/32", 4, -HALF / 16, HALF / 16, exp2m1_rest, None),
    ("expm1_sixteenth", "(2^r - 1) / r, |r| <= 1/32", 5, -HALF / 16, HALF / 16, exp2m1_rest, None),
    ("exp_fast", "(2^r - 1) / r, |r| <= 1/2, times r", 7, -HALF, HALF, exp2m1_rest, lambda r: r),
    ("expm1_fast", "(2^r - 1) / r, |r| <= 1/2", 8, -HALF, HALF, exp2m1_rest, None),
    ("expm1_exact", "(2^r - 1) / r, |r| <= 1/2", 9, -HALF, HALF, exp2m1_rest, None),
    ("exp_second_8", "(e^t - 1 - t) / t^2, |t| <= log(2) / 16, times t^2", 3, -HALF * LN2 / 8, HALF * LN2 / 8, exp_second,
     lambda t: t * t),
    ("exp_second_32", "(e^t - 1 - t) / t^2, |t| <= log(2) / 64, times t^2", 2, -SHORT_HALF * LN2 / 32,
     SHORT_HALF * LN2 / 32, exp_second, lambda t: t * t),
    ("log_rest", "atanh(v) / v, s = v^2 <= (sqrt 2 - 1)^4", 6, TINY, mpf("0.029438"), atanh_rest, None),
    ("log1p_rest", "atanh(v) / v, s = v^2 <= 1/9", 8, TINY, mpf(1) / 9 + mpf(2) ** -40, atanh_rest, None),
    ("sin_rest", "(sin(r) / r - 1) / s, s = r^2, |r| <= pi/4", 4, TINY, QUARTER_PI ** 2, sin_rest, lambda s: s),
    ("cos_rest", "(cos r - 1 + s/2) / s^2, s = r^2, |r| <= pi/4", 4, TINY, QUARTER_PI ** 2, cos_rest,
     lambda s: s * s),
    ("phi_rest", "(Phi(x) - 1/2) / x, v = x^2 - 7.03125, |x| <= 3.75", 19, TINY - PHI_CENTRE, PHI_CENTRE, phi_rest,
     lambda v: sqrt(v + PHI_CENTRE)),
    ("mills", "e^(t^2/2) Phi(-t), u = (t - 4) / (t + 4), 0 <= t <= 14.75", 17, mpf(-1),
     (MILLS_T - MILLS_K) / (MILLS_T + MILLS_K), mills, None),
]


def to_f32(a):
    """The nearest binary32 number."""
    return struct.unpack("f", struct.pack("f", float(a)))[0]


def value(c, x):
    y = mpf(0)
    for a in reversed(c):
        y = y * x + a
    return y


def remez(degree, low, high, f, weight):
    """The coefficients, lowest first, of least largest weighted error."""
    n = degree + 2
    w = (lambda x: 1 / f(x)) if weight is None else weight
    at = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (n - 1)) for i in range(n)]
    for _ in range(12):
        a, b = matrix(n, n), matrix(n, 1)
        for i, x in enumerate(at):
            for j in range(degree + 1):
                a[i, j] = x ** j
            wx = w(x)
            a[i, degree + 1] = (-1) ** i / wx if abs(wx) > mpf(2) ** -60 else mpf(2) ** 60 * (-1) ** i
            b[i] = f(x)
        solution = lu_solve(a, b)
        c = [solution[j] for j in range(degree + 1)]
        grid = 16 * n
        points = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / grid) for i in range(grid + 1)]
        errors = [(value(c, x) - f(x)) * w(x) for x in points]
        found, best = [], None  # one extreme of each sign in turn
        for x, e in zip(points, errors):
            if best is not None and (e > 0) == (best[1] > 0):
                if abs(e) > abs(best[1]):
                    best = (x, e)
            else:
                if best is not None:
                    found.append(best)
                best = (x, e)
        found.append(best)
        while len(found) > n:
            found.pop(0 if abs(found[0][1]) < abs(found[-1][1]) else -1)
        if len(found) < n:
            break
        at = [x for x, _ in found]
        extremes = [abs(e) for _, e in found]
        if max(extremes) < min(extremes) * mpf("1.02"):
            break
    return c, w


def print_table(name, numbers, short):
    print(f"static const {'float' if short else 'double'} {name}[] = {{")
    for i in range(0, len(numbers), 4):
        print("\t" + ", ".join(shorter(a) + "F" if short else a.hex() for a in numbers[i:i + 4]) + ",")
    print("};")


def shorter(a):
    """A binary32 number with six hexadecimal digits."""
    mantissa, exponent = a.hex().split("p")
    return mantissa[:-7] + "p" + exponent if mantissa.endswith("0000000") else a.hex()


def main():
    print("/* SPDX-License-Identifier: MIT */")
    print("/* Polynomials of functions.h, the lowest coefficient first. Made by polynomial.py. */")
    print("#ifndef MXFP_BODY_POLYNOMIAL_H\n#define MXFP_BODY_POLYNOMIAL_H")
    for name, what, degree, low, high, f, weight in ROWS:
        c, w = remez(degree, low, high, f, weight)
        short = name in SHORT
        rounded = [to_f32(a) if short else float(a) for a in c]
        points = [low + (high - low) * i / 2000 for i in range(2001)]
        error = max(abs((value([mpf(a) for a in rounded], x) - f(x)) * w(x)) for x in points)
        kind = "relative" if weight is None else "absolute"
        print(f"\n/* {what}. {kind.capitalize()} error 2^{float(log(error, 2)):.1f}. */")
        print_table(name, rounded, short)
    print("\n/* 2^(i/16). */")
    print_table("exp2_sixteenths", [float(mpf(2) ** (mpf(i) / 16)) for i in range(16)], False)
    for n in PARTS:
        roots = [mpf(2) ** (mpf(i) / n) for i in range(n)]
        high = [to_f32(a) for a in roots]
        print(f"\n/* 2^(i/{n}) as binary32 numbers, and what these are to be multiplied by, less 1. */")
        print_table(f"exp2_root_{n}", high, True)
        print_table(f"exp2_rest_{n}", [to_f32((a - h) / h) for a, h in zip(roots, high)], True)
    print("\n#endif")


main()
