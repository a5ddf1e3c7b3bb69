#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Blocks of every format made to blocks of every other, by mxfp and by trying all scales.

The definitions here are those of doc/numerics.md, sections 1, 3 and 4, in integers: a number is a multiple of 2^-1200. A block is
exact if one of the scales of the target, each of which is tried, has a code for each number. usage: convert_blocks.py MXFP DIRECTORY BLOCKS
[SEED]; BLOCKS of 32 numbers for each pair. What mxfp writes is decoded and compared, too, and brought back."""
import bisect
import json
import os
import random
import struct
import sys
from fractions import Fraction

from checked import WORK, check, finish, run
from safetensors_file import read_safetensors, write_safetensors

BLOCKS = int(sys.argv[3])
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
UNIT = 1200  # numbers are multiples of 2^-UNIT
NAN, INF = "nan", "inf"


def minifloat(exponent_bits, significand_bits, bias, special):
    """What each code means, as a multiple of 2^-16 with its sign: (negative, magnitude)."""
    numbers = []
    bits = 1 + exponent_bits + significand_bits
    for code in range(1 << bits):
        negative, field = code >> (bits - 1), code >> significand_bits & ((1 << exponent_bits) - 1)
        fraction = code & ((1 << significand_bits) - 1)
        if special == "ieee" and field == (1 << exponent_bits) - 1:
            numbers.append((negative, NAN if fraction else INF))
        elif special == "nan" and code & ((1 << (bits - 1)) - 1) == (1 << (bits - 1)) - 1:
            numbers.append((negative, NAN))
        elif field == 0:
            numbers.append((negative, fraction << 16 + 1 - bias - significand_bits))
        else:
            numbers.append((negative, (fraction | 1 << significand_bits) << 16 + field - bias - significand_bits))
    return numbers


def int8():
    return [(1, 256 - code << 10) if code >= 128 else (0, code << 10) for code in range(256)]


E2M1, E2M3, E3M2 = minifloat(2, 1, 1, None), minifloat(2, 3, 1, None), minifloat(3, 2, 3, None)
E4M3, E5M2 = minifloat(4, 3, 7, "nan"), minifloat(5, 2, 15, "ieee")
UE4M3 = [magnitude for _, magnitude in E4M3[:128]]
# name: elements, bits, length, whether the scale is ue4m3
FORMATS = {
    "mxfp4": (E2M1, 4, 32, False), "nvfp4": (E2M1, 4, 16, True), "mxfp6-e2m3": (E2M3, 6, 32, False), "mxfp6-e3m2": (E3M2, 6, 32, False),
    "mxfp8-e4m3": (E4M3, 8, 32, False), "mxfp8-e5m2": (E5M2, 8, 32, False), "mxint8": (int8(), 8, 32, False),
}
CODES = {  # of numbers, without int8's lowest code, which is never made
    name: {number: code for code, number in reversed(list(enumerate(row[0]))) if number[1] != INF and not (name == "mxint8" and code == 128)}
    for name, row in FORMATS.items()
}


LIMITS = {name: (min(m for _, m in codes if m not in (0, NAN)), max(m for _, m in codes if m != NAN)) for name, codes in CODES.items()}


def unpack(data, bits):
    if bits == 8:
        return list(data)
    word = int.from_bytes(data, "little")
    return [word >> bits * i & (1 << bits) - 1 for i in range(len(data) * 8 // bits)]


def pack(codes, bits):
    word = 0
    for i, code in enumerate(codes):
        word |= code << bits * i
    return word.to_bytes(len(codes) * bits // 8, "little")


def scaled(number, byte, ue4m3, factor):
    """(negative, multiple of 2^-UNIT or NaN): code x scale x factor, a Fraction times that."""
    negative, magnitude = number
    if ue4m3:
        scale = UE4M3[byte & 127]
        if scale == NAN:
            return 0, NAN
        if magnitude in (NAN, INF):
            return number
        value = Fraction(magnitude * scale, 1 << 32) * factor
    else:
        if byte == 255:
            return 0, NAN
        if magnitude in (NAN, INF):
            return number
        value = Fraction(magnitude, 1 << 16) * Fraction(2) ** (byte - 127)
    value *= 1 << UNIT
    return (negative, value.numerator) if value.denominator == 1 else (negative, value)


def numbers_of(name, codes, scales, factor):
    elements, _, length, ue4m3 = FORMATS[name]
    return [scaled(elements[code], scales[i // length], ue4m3, factor) for i, code in enumerate(codes)]


def mx_scales():
    return [(byte, 1 << UNIT - 16 + byte - 127) for byte in range(255)]


def nv_scales(t):
    return [(byte, UE4M3[byte] << UNIT - 32 + t) for byte in range(1, 127)]


def holds(name, block, scales):
    """The bytes of all scales by which the format holds these numbers."""
    codes = CODES[name]
    finite = [x for x in block if x[1] not in (NAN, INF)]
    if any(x[1] == INF for x in block) or (any(x[1] == NAN for x in block) and (0, NAN) not in codes):
        return []
    if any(x[1] == 0 and x not in codes for x in finite):
        return []
    numbers = sorted({x for x in finite if x[1] != 0}, key=lambda x: -x[1])
    found = []
    least, most = LIMITS[name]
    # The largest number is none of any scale that is not among these.
    units = [unit for _, unit in scales]
    first, last = (0, len(units)) if not numbers or not isinstance(numbers[0][1], int) else (
        bisect.bisect_left(units, -(-numbers[0][1] // most)), bisect.bisect_right(units, numbers[0][1] // least))
    for byte, unit in scales[first:last]:
        if all(isinstance(m, int) and m % unit == 0 and (negative, m // unit) in codes for negative, m in numbers):
            found.append(byte)
    return found


def all_nan(block):
    return all(x == (0, NAN) for x in block)


def random_block(r, name):
    """Codes and scales of 32 numbers of a format, in one of several ways."""
    elements, bits, length, ue4m3 = FORMATS[name]
    way = r.randrange(10)
    codes = [r.randrange(1 << bits) for _ in range(32)]
    few = r.sample(range(1 << bits), r.randrange(1, 4))
    if way in (0, 1, 2):  # few kinds of numbers
        codes = [r.choice(few) for _ in codes]
    elif way == 3:  # close to each other
        first = r.randrange(1 << bits - 1)
        codes = [min(first + r.randrange(3), (1 << bits - 1) - 1) | r.randrange(2) << bits - 1 for _ in codes]
    elif way == 4:
        codes = [0 if r.randrange(8) else r.choice(few) for _ in codes]
    elif way == 5:
        codes = [r.choice((0, 0, 1 << bits - 1)) for _ in codes] if r.randrange(2) else [0] * 32
    if name not in ("mxint8",) and way < 8:  # few significant bits, so that something fits
        magnitude = (1 << bits - 1) - 1
        keep = ~((1 << r.randrange(1, 4)) - 1) if bits > 4 and r.randrange(2) else -1
        codes = [code & magnitude & keep | code & 1 << bits - 1 for code in codes]
    n = 32 // length
    if ue4m3:
        base = r.choice((0, 8, 48, 56, 64, 120)) if r.randrange(2) else r.randrange(128)
        scales = [min(base + (r.randrange(3) if r.randrange(3) == 0 else 0), 127) if way < 9 else r.randrange(256) for _ in range(n)]
    else:
        scales = [r.choice((0, 1, 118, 126, 127, 128, 135, 253, 254, 255)) if r.randrange(20) == 0 else r.randrange(117, 136) for _ in range(n)]
    return codes, scales


DTYPES = {"mxfp8-e4m3": "F8_E4M3", "mxfp8-e5m2": "F8_E5M2", "mxint8": "I8"}


def write_model(path, name, blocks, factor):
    """One tensor [blocks, 32] in layout compressed-tensors, whose tensor scale divides."""
    _, bits, length, ue4m3 = FORMATS[name]
    packed = bits < 8
    tensors = {
        "a.weight_packed" if packed else "a.weight": (DTYPES.get(name, "U8"), [len(blocks), 32 * bits // 8],
                                                      b"".join(pack(codes, bits) for codes, _ in blocks)),
        "a.weight_scale": ("F8_E4M3" if ue4m3 else "U8", [len(blocks), 32 // length], b"".join(bytes(scales) for _, scales in blocks)),
    }
    if ue4m3:
        tensors["a.weight_global_scale"] = ("F32", [1], struct.pack("<f", 1 / factor))
    write_safetensors(path, tensors, {"mxfp.weights": name})


def read_model(path, name):
    _, bits, length, ue4m3 = FORMATS[name]
    tensors = {key: data for key, (_, _, data) in read_safetensors(path).items()}
    codes, scales = tensors["a.weight_packed" if bits < 8 else "a.weight"], tensors["a.weight_scale"]
    factor = 1
    if ue4m3:
        divisor = struct.unpack("<f", tensors["a.weight_global_scale"])[0]
        factor = 1 / Fraction(divisor)
    size, n = 32 * bits // 8, 32 // length
    return [(unpack(codes[i * size:(i + 1) * size], bits), list(scales[i * n:(i + 1) * n])) for i in range(len(scales) // n)], factor


def expected_scale(target, held, codes, scales, source, factor, to_factor):
    """The byte that is taken: that of the source if it holds the block, else the least."""
    _, _, length, ue4m3 = FORMATS[target]
    _, _, source_length, source_ue4m3 = FORMATS[source]
    own = set()
    for i, byte in enumerate(scales):
        part = codes[i * source_length:(i + 1) * source_length]
        if source_ue4m3:
            size = UE4M3[byte & 127]
            value = None if size == NAN else Fraction(size, 1 << 16) * factor
        else:
            value = None if byte == 255 else Fraction(2) ** (byte - 127)
        if value is not None and value != 0 and any(FORMATS[source][0][code][1] != 0 for code in part):
            own.add(value)
    if len(own) != 1:
        return held[0]
    value = own.pop()
    for byte in held:
        scale = Fraction(UE4M3[byte], 1 << 16) * to_factor if ue4m3 else Fraction(2) ** (byte - 127)
        if scale == value:
            return byte
    return held[0]


def judge(source, target, blocks, factor, t):
    """How each block of 32 (of 16, if both are NVFP4) is held: the bytes that each target block may have; None: it is not."""
    length = FORMATS[target][2]
    scales = mx_scales() if not FORMATS[target][3] else nv_scales(t)
    verdicts = []
    for codes, own in blocks:
        numbers = numbers_of(source, codes, own, factor)
        verdict = []
        for at in range(0, 32, length):
            block = numbers[at:at + length]
            source_length = FORMATS[source][2]
            parts = own[at // source_length:(at + length - 1) // source_length + 1]
            by_scale = all(UE4M3[b & 127] == NAN if FORMATS[source][3] else b == 255 for b in parts)
            if by_scale:
                verdict.append([127 if FORMATS[target][3] else 255])
            elif all_nan(block) and not holds(target, block, scales):
                verdict.append([127 if FORMATS[target][3] else 255])
            elif all(x[1] == 0 for x in block) and all(x in CODES[target] for x in block):
                verdict.append(range(256))
            else:
                verdict.append(holds(target, block, scales))
        verdicts.append(verdict)
    return verdicts


def same_numbers(a, b):
    return all(x == y or (x[1] == NAN and y[1] == NAN and x[0] == y[0]) for x, y in zip(a, b))


def pair(source, target, r):
    blocks = [random_block(r, source) for _ in range(BLOCKS)]
    factor = 2.0 ** r.randrange(-3, 4) if FORMATS[source][3] else 1
    path, out, back = (os.path.join(WORK, name) for name in ("in.safetensors", "out.safetensors", "back.safetensors"))
    what = "%s to %s:" % (source, target)
    write_model(path, source, blocks, factor)
    code, text, error = run("convert", path, "-o", out, "--to", target, "--allow-rounding", "--non-finite", "propagate", "--json", "-f")
    check(what, code == 0, error)
    if code != 0:
        return
    counts = json.loads(text)["summary"]["blocks"]
    made, to_factor = read_model(out, target)
    t = (Fraction(to_factor).numerator.bit_length() - Fraction(to_factor).denominator.bit_length())
    check(what + " tensor scale", Fraction(2) ** t == to_factor, to_factor)
    verdicts = judge(source, target, blocks, Fraction(factor), t)
    exact = [all(v) for v in verdicts]
    check(what + " counts", (counts["exact"], counts["rounded"]) == (sum(exact), len(exact) - sum(exact)),
          "%r, not %d of %d" % (counts, sum(exact), len(exact)))
    length = FORMATS[target][2]
    for i, ((codes, scales), (to_codes, to_scales), verdict) in enumerate(zip(blocks, made, verdicts)):
        was, now = numbers_of(source, codes, scales, Fraction(factor)), numbers_of(target, to_codes, to_scales, Fraction(to_factor))
        for k, held in enumerate(verdict):
            at = k * length
            if held:
                check("%s block %d.%d" % (what, i, k), same_numbers(was[at:at + length], now[at:at + length]) and to_scales[k] in held,
                      "%r %r became %r %r" % (codes, scales, to_codes, to_scales))
                if isinstance(held, range) or held[0] in (127, 255) and len(held) == 1:
                    continue
                n = FORMATS[source][2]
                first, last = at // n, (at + length - 1) // n + 1
                wanted = expected_scale(target, held, codes[at:at + length] * max(1, n // length),
                                        scales[first:last], source, Fraction(factor), Fraction(to_factor))
                check("%s scale of block %d.%d" % (what, i, k), to_scales[k] == wanted, "%d, not %d" % (to_scales[k], wanted))
    # Without --allow-rounding, the same or nothing.
    refused = not all(exact)
    os.remove(out)
    code, text, error = run("convert", path, "-o", out, "--to", target, "-qf")
    check(what + " without --allow-rounding", code == (3 if refused else 0) and os.path.exists(out) != refused, error)
    if refused:
        first = exact.index(False)
        check(what + " error", "row %d " % first in error or "NaN or Inf" in error, error)
    # What is exact comes back as the same bytes, if codes and scales are those that would be made.
    # The lowest code of int8 is never made, so there is no way back to it.
    good = [block for block, is_exact in zip(blocks, exact) if is_exact and not (source == "mxint8" and 128 in block[0])]
    if not good:
        return
    write_model(path, source, good, factor)
    code, text, error = run("convert", path, "-o", out, "--to", target, "-qf", "--allow-rounding")
    check(what + " those that are exact", code == 0, error)
    made, to_factor = read_model(out, target)
    code, text, error = run("convert", out, "-o", back, "--to", source, "-qf", "--allow-rounding", "--non-finite", "propagate")
    check(what + " and back", code == 0, error)
    again, back_factor = read_model(back, source)
    for (codes, scales), (to_codes, to_scales), (c, s) in zip(good, made, again):
        # Where scales were kept, and codes are such as are made.
        if FORMATS[source][3]:
            kept = False
        elif FORMATS[target][3]:
            halves = [byte for byte, half in zip(to_scales, (codes[:16], codes[16:])) if any(x & 7 for x in half)]
            kept = source == "mxfp4" and halves != [] and scales[0] != 255 and all(
                Fraction(UE4M3[byte], 1 << 16) * Fraction(to_factor) == Fraction(2) ** (scales[0] - 127) for byte in halves)
        else:
            kept = scales == to_scales
        nan = source == "mxfp8-e5m2" and any(x & 127 in (0x7D, 0x7F) for x in codes)  # 7E is the one that is made
        if kept and scales[0] != 255 and not nan:
            check(what + " and back: bytes", (c, s) == (codes, scales), "%r %r %r %r" % (codes, scales, c, s))
        check(what + " and back: numbers", same_numbers(numbers_of(source, codes, scales, Fraction(factor)),
                                                       numbers_of(source, c, s, Fraction(back_factor))), "%r %r %r %r" % (codes, scales, c, s))
    return sum(exact)


def rounded_f32(x):
    return Fraction(struct.unpack("<f", struct.pack("<f", x))[0])


def scaled_pair(dtype, target, r):
    """8-bit floats with an F32 scale for each row: their numbers are known, each the product, rounded to binary32."""
    name = {"F8_E4M3": "mxfp8-e4m3", "F8_E5M2": "mxfp8-e5m2"}[dtype]
    elements = FORMATS[name][0]
    rows, length = [], FORMATS[target][2]
    for _ in range(BLOCKS):
        codes, _ = random_block(r, name)
        codes = [code if elements[code][1] != INF else 0 for code in codes]
        scale = Fraction(2) ** -r.randrange(13) if r.randrange(3) else rounded_f32(r.uniform(0.001, 1))
        rows.append((codes, scale))
    numbers = []
    for codes, scale in rows:
        block = []
        for code in codes:
            negative, magnitude = elements[code]
            # No product here is too small for binary32, and Python's binary64 holds it exactly.
            value = magnitude if magnitude == NAN else rounded_f32(float(Fraction(magnitude, 1 << 16) * scale)) * (1 << UNIT)
            block.append((negative, value if value == NAN else value.numerator))
        numbers.append(block)
    path, out = (os.path.join(WORK, x) for x in ("in.safetensors", "out.safetensors"))
    write_safetensors(path, {"a.weight": (dtype, [BLOCKS, 32], b"".join(bytes(codes) for codes, _ in rows)),
                             "a.weight_scale": ("F32", [BLOCKS, 1], b"".join(struct.pack("<f", float(scale)) for _, scale in rows))})
    what = "%s with scales to %s:" % (dtype, target)
    code, text, error = run("convert", path, "-o", out, "--to", target, "--allow-rounding", "--non-finite", "propagate", "--json", "-f")
    check(what, code == 0, error)
    if code != 0:
        return
    counts = json.loads(text)["summary"]["blocks"]
    made, to_factor = read_model(out, target)
    to_factor = Fraction(to_factor)
    scales = nv_scales(to_factor.numerator.bit_length() - to_factor.denominator.bit_length()) if FORMATS[target][3] else mx_scales()
    exact, total = 0, 0
    for i, (block, (to_codes, to_scales)) in enumerate(zip(numbers, made)):
        now = numbers_of(target, to_codes, to_scales, to_factor)
        for at in range(0, 32, length):
            part = block[at:at + length]
            zero = all(x[1] == 0 for x in part)
            held = [127 if FORMATS[target][3] else 255] if all_nan(part) else [0] if zero and all(x in CODES[target] for x in part) else [] if zero else holds(target, part, scales)
            if held and name == target and rows[i][1].numerator == 1:
                held = [128 - rows[i][1].denominator.bit_length()]  # the scale is kept, and so are the codes
                check("%s block %d is kept" % (what, i), to_codes == rows[i][0], rows[i])
            total += 1
            exact += held != []
            if held:
                check("%s block %d" % (what, i), same_numbers(part, now[at:at + length]) and to_scales[at // length] == held[0],
                      "%r became %r %r" % (rows[i], to_codes, to_scales))
    check(what + " counts", (counts["exact"], counts["rounded"]) == (exact, total - exact), "%r, not %d of %d" % (counts, exact, total))
    return exact * length // 32


def main():
    r = random.Random(SEED)
    for dtype in ("F8_E4M3", "F8_E5M2"):
        for target in FORMATS:
            print("%-10s %-10s %s of %d exact" % (dtype, target, scaled_pair(dtype, target, r), BLOCKS))
    for source in FORMATS:
        for target in FORMATS:
            if source != target:
                n = pair(source, target, r)
                print("%-10s %-10s %s of %d exact" % (source, target, n, BLOCKS))
    finish()


main()
