# SPDX-License-Identifier: MIT
"""
Checks conformance/vectors, for test_conform_vectors.sh, without code of the library's: the tables are those of the files; packing,
pruning and the sums `exact` and `chain` by integers; casts and values against what other packages returned, tests/vectors.
vectors.py SOURCE
"""
import json
import pathlib
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
            "f16": (5, 10, 15, 0x7BFF)}


def value(name, code):
    """Exponent bits, significand bits, bias and largest code are all there is to it. None: Inf or NaN."""
    if name == "int8":
        return (code - 256 * (code >> 7)) << (UNIT - 6)
    if name == "tf32":
        return of_f32(code)
    exponent, significand, bias, largest = elements[name]
    sign, code = code >> (exponent + significand) & 1 if name != "ue4m3" else 0, code & ((1 << (exponent + significand)) - 1)
    if code > largest:
        return None
    field, fraction = code >> significand, code & ((1 << significand) - 1)
    n = (fraction if field == 0 else fraction | 1 << significand) << (UNIT + max(field, 1) - bias - significand)
    return -n if sign else n


blocks = {"mxfp8-e4m3": ("e4m3", 8, 32), "mxfp8-e5m2": ("e5m2", 8, 32), "mxfp4": ("e2m1", 4, 32), "mxint8": ("int8", 8, 32),
          "nvfp4": ("e2m1", 4, 16)}


def row(name, k, words):
    """Elements, the scale of each as a multiplier's mantissa and exponent, and how many words that was; None: Inf or NaN."""
    if name not in blocks:
        return [value(name, word) for word in words[:k]], [(1, 0)] * k, k
    element, bits, length = blocks[name]
    n, n_blocks = k * bits // 8, k // length
    codes = [value(element, code) for code in unpack(words[:n], bits)]
    scales = []
    for byte in words[n : n + n_blocks]:
        if name == "nvfp4":
            sf = value("ue4m3", byte)
            scales += [None if sf is None else (sf >> (UNIT - 9), -9)] * length
        else:
            scales += [None if byte == 255 else (1, byte - 127)] * length
    return codes, scales, n + n_blocks


def shifted(n, exponent):
    return n << exponent if exponent >= 0 else n >> -exponent


def check_dot(name, items):
    a, w, k = name.removesuffix(".hex").split("_")[1:]
    if "chain" not in files[name][1]:
        return
    k = int(k)
    both = a in blocks and w in blocks
    length = 16 if "nvfp4" in (a, w) else 32
    for i, (_, words, results) in enumerate(items):
        x, x_scales, n = row(a, k, words)
        y, y_scales, _ = row(w, k, words[n:])
        if None in x + y + x_scales + y_scales or of_f32(int(results["chain"][0], 16)) is None:
            continue
        u = [f32(shifted(v * s, e)) for v, (s, e) in zip(x, x_scales)]
        v = [f32(shifted(v * s, e)) for v, (s, e) in zip(y, y_scales)]
        pass_k, total = 512 if both else 128, 0
        for start in range(0, k, pass_k):
            p = 0
            for at in range(start, min(start + pass_k, k)):
                p = f32((u[at] * v[at] >> UNIT) + p)
            total = f32(total + p)
        expect(f"{name} item {i}, chain", of_f32(int(results["chain"][0], 16)), total)
        if "exact" not in results:
            continue
        total = 0
        for start in range(0, k, 512):
            p = 0
            for at in range(start, min(start + 512, k), length):
                s = sum(b * c for b, c in zip(x[at : at + length], y[at : at + length])) >> UNIT
                (s0, e0), (s1, e1) = x_scales[at], y_scales[at]
                # An NVFP4 block needs no rounding.
                p = f32(p + shifted((s if length == 16 else rounded(s, -UNIT)) * s0 * s1, e0 + e1))
            total = f32(total + p)
        expect(f"{name} item {i}, exact", of_f32(int(results["exact"][0], 16)), total)


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


check_tables()
for name, (_, _, items) in files.items():
    if name.startswith("dot"):
        check_dot(name, items)
    elif name.startswith(("pack", "unpack")):
        check_order(name, items)
    elif name.startswith("prune"):
        check_prune(name, items)
check_packages()
print(f"{compared} comparisons, {len(failures)} failures")
sys.exit("\n".join(failures) if failures else 0)
