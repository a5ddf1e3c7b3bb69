# SPDX-License-Identifier: MIT
"""
Checks conformance/vectors, for test_conform_vectors.sh, without code of the library's: the tables are those of the files; packing,
pruning and products by integers, rows and attention by binary64 and decimal numbers, all as doc/numerics.md has them; casts and
values against what other packages returned, tests/vectors. vectors.py SOURCE
"""
import decimal
import fractions
import json
import math
import pathlib
import struct
import sys

source = pathlib.Path(sys.argv[1])
folder = source / "conformance" / "vectors"
failures = []
compared = 0


def expect(where, got, wanted):
    global compared
    compared += 1
    if got != wanted and len(failures) < 20:
        failures.append(f"{where}: {got} where {wanted} is expected")


def count(layout):
    return sum(int(part.split("x")[0]) for part in layout.split("+"))


def read(path):
    """Columns, and for each line its class, the words of the input, and those of each column."""
    lines = path.read_text().splitlines()
    first, *rest = lines[0].split("A line: ")[1].split(" ")
    columns = dict(column.split(":") for column in rest)
    n_in, n_out = count(first), {column: count(layout) for column, layout in columns.items()}
    items, name = [], ""
    for line in lines[1:]:
        if line.startswith("// "):
            name = line[3:]
            continue
        words = line.split("_")
        at = n_in
        item = (name, [int(word, 16) for word in words[:at]], {})
        for column, n in n_out.items():
            item[2][column] = words[at : at + n]
            at += n
        expect(f"{path.name}: words of a line", len(words), at)
        items.append(item)
    return first, columns, items


files = {path.name: read(path) for path in sorted(folder.glob("*.hex"))}


def table(name):
    lines = [line.split("\t") for line in (folder / name).read_text().splitlines()]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def check_tables():
    faults = {row["fault"] for row in table("faults.tsv")}
    rows = table("files.tsv")
    expect("files.tsv", sorted(row["file"] for row in rows), sorted(files))
    for row in rows:
        first, columns, items = files[row["file"]]
        expect(row["file"], (int(row["items"]), row["in"], row["results"]),
               (len(items), first, " ".join(f"{name}:{layout}" for name, layout in columns.items())))
    counted = {}
    for name, (_, _, items) in files.items():
        for item in items:
            counted[name, item[0]] = counted.get((name, item[0]), 0) + 1
    classes = table("classes.tsv")
    expect("classes.tsv", {(row["file"], row["class"]): int(row["items"]) for row in classes}, counted)
    expect("faults that no class catches", set(), faults - {fault for row in classes for fault in row["catches"].split()})
    expect("bytes", sum(path.stat().st_size for path in folder.iterdir()) < 10_000_000, True)


# Numbers are integers in units of 2^-UNIT.
UNIT = 700


def rounded(n, least):
    """n to 24 significant bits, ties to even, of which the last is at least 2^least."""
    m = abs(n)
    drop = max(m.bit_length() - 24, UNIT + least, 0)
    q, rest = m >> drop, m & ((1 << drop) - 1)
    q += drop > 0 and (rest > 1 << (drop - 1) or (rest == 1 << (drop - 1) and q & 1))
    return (-q if n < 0 else q) << drop


def f32(n):
    return rounded(n, -149)


def of_f32(bits):
    """None: Inf or NaN."""
    field, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    if field == 255:
        return None
    n = (fraction if field == 0 else fraction | 1 << 23) << (UNIT - 149 + max(field - 1, 0))
    return -n if bits >> 31 else n


def unpack(data, bits):
    whole = int.from_bytes(bytes(data), "little")
    return [whole >> i & ((1 << bits) - 1) for i in range(0, 8 * len(data), bits)]


elements = {"e4m3": (4, 3, 7, 0x7E), "e5m2": (5, 2, 15, 0x7B), "e2m1": (2, 1, 1, 7), "ue4m3": (4, 3, 7, 0x7E), "bf16": (8, 7, 127, 0x7F7F),
            "f16": (5, 10, 15, 0x7BFF), "e4m3fnuz": (4, 3, 8, 0x7F), "e5m2fnuz": (5, 2, 16, 0x7F)}


def value(name, code):
    """Exponent bits, significand bits, bias and largest code are all there is to it. None: Inf or NaN."""
    if name == "int8":
        return (code - 256 * (code >> 7)) << (UNIT - 6)
    if name == "tf32":
        return of_f32(code)
    exponent, significand, bias, largest = elements[name]
    if name.endswith("fnuz") and code == 0x80:
        return None
    sign, code = code >> (exponent + significand) & 1 if name != "ue4m3" else 0, code & ((1 << (exponent + significand)) - 1)
    if code > largest:
        return None
    field, fraction = code >> significand, code & ((1 << significand) - 1)
    n = (fraction if field == 0 else fraction | 1 << significand) << (UNIT + max(field, 1) - bias - significand)
    return -n if sign else n


def exponent(name, code):
    """That of an element, of a subnormal that of the least normal one."""
    bits, significand, bias, _ = elements.get(name, (8, 23, 127, None))
    return max(code >> significand & ((1 << bits) - 1), 1) - bias


blocks = {"mxfp8-e4m3": ("e4m3", 8, 32), "mxfp8-e5m2": ("e5m2", 8, 32), "mxfp4": ("e2m1", 4, 32), "mxint8": ("int8", 8, 32),
          "nvfp4": ("e2m1", 4, 16)}


def row(name, k, words):
    """Elements, their exponents, the scale of each as a mantissa and an exponent, and how many words that was; None: Inf or NaN."""
    if name not in blocks:
        return [value(name, word) for word in words[:k]], [exponent(name, word) for word in words[:k]], [(1, 0)] * k, k
    element, bits, length = blocks[name]
    n, n_blocks = k * bits // 8, k // length
    codes = unpack(words[:n], bits)
    scales = []
    for byte in words[n : n + n_blocks]:
        if name == "nvfp4":
            sf = value("ue4m3", byte)
            scales += [None if sf is None else (sf >> (UNIT - 9), -9)] * length
        else:
            scales += [None if byte == 255 else (1, byte - 127)] * length
    return [value(element, code) for code in codes], [exponent(element, code) for code in codes], scales, n + n_blocks


def shifted(n, exponent):
    return n << exponent if exponent >= 0 else n >> -exponent


def cut(n, last):
    """Toward zero, to a multiple of 2^last."""
    drop = max(UNIT + last, 0)
    return -(-n >> drop << drop) if n < 0 else n >> drop << drop


def floor(n, last):
    return n >> max(UNIT + last, 0) << max(UNIT + last, 0)


def exponent_of(n):
    return max(abs(n).bit_length() - 1 - UNIT, -126)


def aligned(terms, c, fraction, lowest, bits):
    """Terms are numbers with the exponents they have in the sum, None: none."""
    exponents = [e for _, e in terms if e is not None] + ([exponent_of(c)] if c else [])
    if not exponents:
        return 0
    top = max([*exponents, lowest])
    total = sum(cut(n, top - fraction) for n, _ in terms) + cut(c, top - fraction)
    return cut(total, max(abs(total).bit_length() - UNIT - bits, -126 - bits + 1))


def cdna2(terms, c):
    def f(n):
        return 0 if abs(f32(n)) < 1 << (UNIT - 126) else f32(n)

    a, b, d, e = (f(n) for n, _ in terms)
    return f(c + f(f(a + b) + f(d + e)))


def cdna3_add(total, top, c):
    """The products' sum, with their exponent, and C."""
    top = max(top, exponent_of(c))
    total = floor(total, top - 32) + floor(c, top - 24)
    return f32(floor(total, exponent_of(total) - 31))


def cdna3(terms, c):
    top = max((e for _, e in terms if e is not None), default=NONE)
    return cdna3_add(sum(cut(n, top - 24) for n, _ in terms), top, c)


def cdna3_fp8(terms, c):
    sums = []
    for half in (terms[0::2], terms[1::2]):
        top = max((e for _, e in half if e is not None), default=NONE)
        sums.append((top, sum(cut(n, top - 24) for n, _ in half)))
    top = max(e for e, _ in sums)
    return cdna3_add(sum(floor(n, top - 24) for _, n in sums), top, c if exponent_of(c) >= top - 25 else 0)


def flushed(n):
    """fl32, of which what is below 2^-126 after 24 bits is zero."""
    n = rounded(n, -UNIT)
    return 0 if abs(n) < 1 << (UNIT - 126) else n


def hopper_mma(terms, c):
    p = 0
    for pair in (0, 2):
        p = aligned([term for i, term in enumerate(terms) if i & 2 == pair], p, 25, -133, 24)
    return f32(c + p)


def tdpbf16ps(terms, c):
    halves = []
    for half in (0, 1):
        p = 0
        for n, _ in terms[half::2]:
            p = flushed(n + p)
        halves.append(p)
    return flushed(c + flushed(sum(halves)))


def nvidia(fraction, lowest, bits):
    return lambda terms, c: aligned(terms, c, fraction, lowest, bits)


# By sum and format of A: how many products an instruction takes, and what it makes of them and C. doc/numerics.md, section 5.
NONE = -10_000
fp8 = ("e4m3", "e5m2")
machines = {("volta", "f16"): (4, nvidia(23, NONE, 24)), ("turing", "f16"): (8, nvidia(24, NONE, 24))}
for machine in ("ampere", "ada"):
    machines |= {(machine, "f16"): (8, nvidia(24, -132, 24)), (machine, "bf16"): (8, nvidia(24, -132, 24)),
                 (machine, "tf32"): (4, nvidia(24, -132, 24))}
for machine in ("hopper", "blackwell"):
    machines |= {(machine, "f16"): (16, nvidia(25, -133, 24)), (machine, "bf16"): (16, nvidia(25, -133, 24)),
                 (machine, "tf32"): (8, nvidia(25, -133, 24))}
for name in fp8:
    machines |= {("ada", name): (16, nvidia(13, -132, 14)), ("hopper", name): (32, nvidia(13, -133, 14)),
                 ("hopper-mma", name): (32, hopper_mma), ("blackwell", name): (32, nvidia(25, -133, 24)),
                 ("blackwell", "mxfp8-" + name): (32, nvidia(25, -133, 24)),
                 ("fmmla", name): (8, lambda terms, c: f32(sum(n for n, _ in terms) + c))}
for name in ("mxfp4", "nvfp4"):
    machines["blackwell", name] = (64, nvidia(35, -139, 24))
machines |= {("cdna2", "f16"): (4, cdna2), ("cdna2", "bf16"): (4, cdna2), ("cdna3", "f16"): (8, cdna3), ("cdna3", "bf16"): (8, cdna3),
             ("cdna3", "tf32"): (4, cdna3), ("cdna3", "e4m3fnuz"): (16, cdna3_fp8), ("cdna3", "e5m2fnuz"): (16, cdna3_fp8),
             ("vdpbf16ps", "bf16"): (2, lambda terms, c: flushed(terms[0][0] + flushed(terms[1][0] + c))),
             ("tdpbf16ps", "bf16"): (32, tdpbf16ps)}


def terms_of(acc, a, x, y):
    """Products and their exponents. Where Blackwell takes 64, 16 neighbours are a term, by the scales' exponents, unless all are zero."""
    products = [(shifted(v * w * s * t, e + f) >> UNIT, g + h + e + f if v and w else None)
                for (v, g, (s, e)), (w, h, (t, f)) in zip(x, y)]
    if acc in ("cdna2", "vdpbf16ps", "tdpbf16ps"):
        least = 1 << (UNIT + exponent(a, 0))  # subnormal operands are zeros
        products = [(n if min(abs(v), abs(w)) >= least else 0, e) for (n, e), (v, _, _), (w, _, _) in zip(products, x, y)]
    if acc != "blackwell" or machines[acc, a][0] != 64:
        return products
    scale = [max((abs(s) << UNIT).bit_length() - 1 - UNIT + e, -6) if a == "nvfp4" else e for _, _, (s, e) in x]
    other = [max((abs(s) << UNIT).bit_length() - 1 - UNIT + e, -6) if a == "nvfp4" else e for _, _, (s, e) in y]
    groups = [products[i : i + 16] for i in range(0, len(products), 16)]
    return [(sum(n for n, _ in group), scale[16 * i] + other[16 * i] if any(n for n, _ in group) else None)
            for i, group in enumerate(groups)]


def by_machine(acc, a, terms, k):
    n_products, step = machines[acc, a]
    n = n_products * len(terms) // k  # 16 products may be a term
    c = 0
    for start in range(0, len(terms), max(n, 1)):
        part = terms[start : start + n]
        c = step(part + [(0, None)] * (n - len(part)), c)
    return c


def chain(u, v, pass_k):
    total = 0
    for start in range(0, len(u), pass_k):
        p = 0
        for b, c in zip(u[start : start + pass_k], v[start : start + pass_k]):
            p = f32((b * c >> UNIT) + p)
        total = f32(total + p)
    return total


def by_pass(x, y, pass_k):
    """chain: fused multiply-adds of decoded numbers."""
    return chain(*([f32(shifted(n * s, e)) for n, _, (s, e) in side] for side in (x, y)), pass_k)


def exactly(x, y, length):
    total = 0
    for start in range(0, len(x), 512):
        p = 0
        for at in range(start, min(start + 512, len(x)), length):
            s = sum(b * c for (b, _, _), (c, _, _) in zip(x[at : at + length], y[at : at + length])) >> UNIT
            (s0, e0), (s1, e1) = x[at][2], y[at][2]
            # An NVFP4 block needs no rounding.
            p = f32(p + shifted((s if length == 16 else rounded(s, -UNIT)) * s0 * s1, e0 + e1))
        total = f32(total + p)
    return total


def check_dot(name, items):
    a, w, k = name.removesuffix(".hex").split("_")[1:]
    for i, (_, words, results) in enumerate(items):
        *left, n = row(a, int(k), words)
        *right, _ = row(w, int(k), words[n:])
        x, y = list(zip(*left)), list(zip(*right))
        if None in left[0] + right[0] + left[2] + right[2]:
            continue
        for acc, (word,) in results.items():
            wanted = of_f32(int(word, 16))
            if wanted is None:
                continue
            if acc == "chain":
                got = by_pass(x, y, 512 if a in blocks and w in blocks else 128)
            elif acc == "exact":
                got = exactly(x, y, 16 if "nvfp4" in (a, w) else 32)
            elif (acc, a) in machines:
                got = by_machine(acc, a, terms_of(acc, a, x, y), int(k))
            else:
                continue
            summed[acc] = summed.get(acc, 0) + 1
            expect(f"{name} item {i}, {acc}", wanted, got)


summed = {}


# Rows, in Python's floats: sums, differences, products and quotients of binary32 are right if binary64's are rounded once more.
def number(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def fl32(x):
    return number(bits_of(x))


def nearest(x):
    """The binary32 nearest to a fraction or decimal that is no tie."""
    x = fractions.Fraction(x)
    return math.ldexp(f32((x.numerator << UNIT) // x.denominator) >> (UNIT - 149), -149)


def lane_sum(x):
    lanes = [0.0] * 16
    for i, v in enumerate(x):
        lanes[i % 16] += v
    for distance in (8, 4, 2, 1):
        for lane in range(distance):
            lanes[lane] += lanes[lane + distance]
    return lanes[0]


def inverse_root(v):
    return nearest(1 / decimal.Decimal(v).sqrt())


def exponentials(x):
    """What softmax and log-softmax begin with: differences from the largest, their exponentials, and the sum of these."""
    d = [fl32(v - max(x)) for v in x]
    e = [1.0 if v == 0 else nearest(decimal.Decimal(v).exp()) if v > -200 else 0.0 for v in d]
    return d, e, lane_sum(e)


def softmax(x):
    _, e, total = exponentials(x)
    r = nearest(1 / fractions.Fraction(total))
    return [fl32(v * r) for v in e]


def log_softmax(x):
    d, _, total = exponentials(x)
    log = nearest_signed(decimal.Decimal(fl32(total)).ln())
    return [fl32(v - log) for v in d]


def nearest_signed(x):
    return -nearest(-x) if x < 0 else nearest(x)


def rms_norm(x):
    r = inverse_root(lane_sum([v * v for v in x]) / len(x) + 2**-20)
    return [fl32(v * r) for v in x]


def layer_norm(x):
    mean = lane_sum(x) / len(x)
    d = [fl32(v - mean) for v in x]
    r = inverse_root(lane_sum([v * v for v in d]) / len(x) + 2**-20)
    return [fl32(v * r) for v in d]


rows = {"sum": lambda x: [fl32(lane_sum(x))], "mean": lambda x: [fl32(lane_sum(x) / len(x))],
        "square-sum": lambda x: [fl32(lane_sum([v * v for v in x]))], "max": lambda x: [max(x, key=lambda v: (v, math.copysign(1, v)))],
        "softmax": softmax, "log-softmax": log_softmax, "rms-norm": rms_norm, "layer-norm": layer_norm}


def check_rows(name, items):
    for i, (class_, words, results) in enumerate(items):
        for operation, wanted in results.items():
            if class_ != "row with NaN or Inf":
                got = [bits_of(v) for v in rows[operation]([number(word) for word in words])]
                expect(f"{name} item {i}, {operation}", [int(word, 16) for word in wanted], got)


def check_attention(name, items):
    cols, keys = map(int, name.removesuffix(".hex").split("_")[1:])
    for i, (_, words, results) in enumerate(items):
        n = [of_f32(word) for word in words]
        q, k, v = n[:cols], n[cols : cols + keys * cols], n[cols + keys * cols :]
        scores = [chain(q, k[j * cols : (j + 1) * cols], 128) for j in range(keys)]
        weights = softmax([fl32(math.ldexp(s >> (UNIT - 149), -149) / 4) for s in scores])
        w = [of_f32(bits_of(x)) for x in weights]
        got = [chain(w, v[c::cols], 128) for c in range(cols)]
        expect(f"{name} item {i}", [of_f32(int(word, 16)) for word in results["result"]], got)


def check_order(name, items):
    bits = int(name[-5])
    for i, (_, words, results) in enumerate(items):
        result = [int(word, 16) for word in results["result"]]
        codes, data = (words, result) if name.startswith("pack") else (result, words)
        expect(f"{name} item {i}", codes, unpack(data, bits))


def check_prune(name, items):
    n, m = map(int, name.removesuffix(".hex").split("_")[1].split("-"))
    for i, (_, words, results) in enumerate(items):
        kept = sorted(sorted(range(m), key=lambda at: (-(words[at] & 0x7FFFFFFF), at))[:n])
        mask = sum(1 << at for at in kept).to_bytes((m + 7) // 8, "little")
        expect(f"{name} item {i}", [int(word, 16) for word in results["result"]], [*mask, *(words[at] for at in kept)])


def check_packages():
    """What packages returned for inputs that are here too; NaN and what tests/vectors/README.md has as a difference left out."""
    data = source / "tests" / "vectors"
    manifest = json.loads((data / "manifest.json").read_text())
    modes = {"RNE": "rne", "RNA": "rna", "RTZ": "rtz", "RTP": "rtp", "RTN": "rtn"}

    def load(part):
        raw, size = (data / part["file"]).read_bytes(), {"float32": 4, "uint16": 2, "uint8": 1}[part["dtype"]]
        return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]

    inputs = {name: load(part) for name, part in manifest["inputs"].items() if part["dtype"] == "float32"}
    n = 0
    for case in manifest["cases"]:
        name = f"{case['kind']}_{case.get('format')}.hex"
        if case["kind"] not in ("cast", "decode") or name not in files or "gguf" in case["name"]:
            continue
        is_cast, columns = case["kind"] == "cast", ["result"]
        if is_cast:  # by rounding mode; past the largest, where modes of overflow differ, a package has one of them
            columns = [c for c in files[name][1] if c.split(".")[0] == modes.get(case["rounding"])]
        results = load(case["outputs"]["codes" if is_cast else "values"])
        theirs = dict(zip(inputs[case["input"]] if is_cast else range(len(results)), results))
        for i, (_, (word,), ours) in enumerate(files[name][2]):
            if word not in theirs or not columns or (word & 0x7FFFFFFF >= 0x7F800000 if is_cast else of_f32(theirs[word]) is None):
                continue
            wanted = {int(ours[c][0], 16) for c in columns}
            # Items 8 and 14 of tests/vectors/README.md.
            if len(wanted) > 1 or (is_cast and (case["format"] == "e8m0" or (case["format"] == "int8" and theirs[word] == 0x80))):
                continue
            expect(f"{name} item {i}, {case['name']}", theirs[word], wanted.pop())
            n += 1
    expect("results of packages", n > 10_000, True)


decimal.getcontext().prec = 40
check_tables()
for name, (_, _, items) in files.items():
    if name.startswith("dot"):
        check_dot(name, items)
    elif name.startswith(("pack", "unpack")):
        check_order(name, items)
    elif name.startswith("prune"):
        check_prune(name, items)
    elif name.startswith("row"):
        check_rows(name, items)
    elif name.startswith("attention"):
        check_attention(name, items)
check_packages()
print(f"{compared} comparisons, {len(failures)} failures")
sys.exit("\n".join(failures) if failures else 0)
