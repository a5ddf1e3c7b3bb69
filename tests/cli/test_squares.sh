#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp quantize --block 32x32. What codes and scales must be is computed here in Python, from the rule floor and the tables
# of element formats, with numbers that binary64 holds exactly.
. "${srcdir:-.}/tests/cli/cli.shlib"

command -v python3 >/dev/null || { echo "no python3"; exit 77; }

cat >"$work/squares.py" <<'END'
import json, math, random, struct, sys

# Element formats: bits of the significand behind the point, exponent of the least normal and of the largest, and the largest.
FORMATS = {"mxfp4": (1, 0, 2, 6.0, 4), "mxfp8-e4m3": (3, -6, 8, 448.0, 8), "mxfp6-e2m3": (3, 0, 2, 7.5, 6)}

def write(path, tensors):
    header, data = {}, b""
    for name, shape, part in tensors:
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)

def read(path):
    with open(path, "rb") as file:
        text = file.read(struct.unpack("<Q", file.read(8))[0])
        data = file.read()
    header = json.loads(text)
    return {name: data[slice(*of["data_offsets"])] for name, of in header.items() if name != "__metadata__"}

def numbers(seed, rows, cols):
    """bf16 patterns of many magnitudes, those of a block much the same, and some zeros."""
    chosen = random.Random(seed)
    block, out = 0, []
    for i in range(rows * cols):
        if i % 32 == 0:
            block = chosen.randrange(118, 122)
        field = block + chosen.randrange(-6, 3)
        out.append(0 if chosen.randrange(20) == 0 else chosen.randrange(2) << 15 | field << 7 | chosen.randrange(128))
    return out

def value(pattern):
    return struct.unpack("<f", struct.pack("<I", pattern << 16))[0]

def code(x, shift, kind):
    bits, least, top, largest, width = kind
    sign = 1 if math.copysign(1, x) < 0 else 0
    y = math.ldexp(abs(x), -shift)
    unit = max(math.frexp(y)[1] - 1, least) if y else least
    steps = math.ldexp(y, bits - unit)            # exact
    whole = math.floor(steps)
    whole += steps - whole > 0.5 or (steps - whole == 0.5 and whole % 2)
    most = (top - least << bits) + int(math.ldexp(largest, bits - top))
    return min((unit - least << bits) + whole, most) | sign << width - 1

def quantized(patterns, rows, cols, name, side):
    """Codes and scales, by rule floor, of blocks of `side` rows."""
    kind = FORMATS[name]
    padded = (cols + 31) // 32 * 32
    x = [[value(p) for p in patterns[i * cols:(i + 1) * cols]] + [0.0] * (padded - cols) for i in range(rows)]
    scales, codes = bytearray(), bytearray()
    shifts = {}
    for i in range(rows):
        word, held = 0, 0
        for b in range(padded // 32):
            at = (i // side, b)
            if at not in shifts:
                first = i // side * side
                amax = max(abs(v) for row in x[first:first + side] for v in row[b * 32:b * 32 + 32])
                shifts[at] = max(math.frexp(amax)[1] - 1 - kind[2], -127) if amax else None
            shift = shifts[at]
            scales.append(0 if shift is None else shift + 127)
            for v in x[i][b * 32:b * 32 + 32]:
                word |= code(v, -127 if shift is None else shift, kind) << held
                held += kind[4]
        codes += word.to_bytes(held // 8, "little")
    return bytes(codes), bytes(scales)

def pack(patterns):
    return struct.pack("<%dH" % len(patterns), *patterns)

if sys.argv[1] == "make":
    path, tensors = sys.argv[2], []
    for k, shape in enumerate(json.loads(sys.argv[3])):
        rows = math.prod(shape[:-1])
        name = "t%d.experts.weight" % k if len(shape) > 2 else "t%d.weight" % k
        tensors.append((name, shape, pack(numbers(k, rows, shape[-1]))))
    write(path, tensors)
elif sys.argv[1] == "check":
    source, out, name, side = sys.argv[2:6]
    with open(source, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    plain, made = read(source), read(out)
    for tensor, of in header.items():
        rows, cols = math.prod(of["shape"][:-1]), of["shape"][-1]
        patterns = struct.unpack("<%dH" % (rows * cols), plain[tensor])
        codes, scales = quantized(patterns, rows, cols, name, int(side))
        held = made.get(tensor + "_packed", made.get(tensor))
        if held != codes:
            print(tensor, "codes differ from byte", next(i for i in range(len(codes)) if held[i:i + 1] != codes[i:i + 1]))
        if made[tensor + "_scale"] != scales:
            print(tensor, "scales differ from byte",
                  next(i for i in range(len(scales)) if made[tensor + "_scale"][i:i + 1] != scales[i:i + 1]))
elif sys.argv[1] == "damage":
    source, tensor, at, out = sys.argv[2:6]
    with open(source, "rb") as file:
        data = bytearray(file.read())
    length = struct.unpack("<Q", data[:8])[0]
    data[8 + length + json.loads(data[8:8 + length])[tensor]["data_offsets"][0] + int(at)] ^= 1
    with open(out, "wb") as file:
        file.write(data)
elif sys.argv[1] == "scales":
    # Of rows of 4097 blocks, each row the same: five scales in turn, so that those of other places differ.
    with open(sys.argv[2], "rb") as file:
        data = bytearray(file.read())
    length = struct.unpack("<Q", data[:8])[0]
    first, end = (8 + length + at for at in json.loads(data[8:8 + length])["wide.weight_scale"]["data_offsets"])
    data[first:end] = bytes(120 + k % 4097 % 5 for k in range(end - first))
    with open(sys.argv[2], "wb") as file:
        file.write(data)
elif sys.argv[1] == "zeros":
    rows, cols = int(sys.argv[3]), int(sys.argv[4])
    write(sys.argv[2], [("wide.weight", [rows, cols], bytes(2 * rows * cols))])
END
py() {
	python3 "$work/squares.py" "$@"
}

# fits FORMAT OUT SIDE: what the file holds is what is computed here.
fits() {
	same "$1 in $2" "" "$(py check "$work/in.safetensors" "$2" "$1" "$3" 2>&1)"
}

# Whole squares, 8 rows of one, and rows of which no 32 are 131072 numbers.
py make "$work/in.safetensors" '[[64, 96], [40, 64], [33, 4160]]'
for format in mxfp4 mxfp8-e4m3 mxfp6-e2m3; do
	exits 0 "" quantize "$work/in.safetensors" -o "$work/$format" -q -r floor -w $format -a none --block 32x32
	fits $format "$work/$format/model.safetensors" 32
done
exits 0 "" quantize "$work/in.safetensors" -o "$work/rows.safetensors" -q -r floor -w mxfp4 -a none --block 1x32
fits mxfp4 "$work/rows.safetensors" 1
exits 0 "" inspect "$work/rows.safetensors"
same "metadata of blocks of a row" "" "$(grep mxfp.block "$work/out")"
exits 0 "" inspect "$work/mxfp4"
has "metadata of squares" "$(cat "$work/out")" "mxfp.block = 32x32"
has config.json "$(tr -d ' \n' <"$work/mxfp4/config.json")" '"block":"32x32"'

# Neither threads, pieces nor another layout change anything; what is decoded is one matrix.
for threads in 1 3; do
	exits 0 "" quantize "$work/in.safetensors" -o "$work/again" -qf -r floor -w mxfp4 -a none --block 32x32 --threads $threads
	same "$threads threads" "" "$(diff -r "$work/mxfp4" "$work/again")"
done
exits 0 "" dequantize "$work/mxfp4" -o "$work/decoded.safetensors" -q
for layout in trn-x4 modelopt; do
	exits 0 "" quantize "$work/in.safetensors" -o "$work/other" -qf -r floor -w mxfp4 -a none --block 32x32 --layout $layout
	exits 0 "" dequantize "$work/other" -o "$work/other.safetensors" -qf
	exits 0 "" diff -q "$work/decoded.safetensors" "$work/other.safetensors"
done
exits 0 "" convert "$work/mxfp4" -o "$work/other" -qf --layout quark
exits 0 "" lint -q "$work/other"
exits 0 "" inspect "$work/other"
has "metadata after convert" "$(cat "$work/out")" "mxfp.block = 32x32"

# A tensor of several matrices has squares in each, so their rows must be whole squares.
mkdir "$work/moe"
echo '{"hidden_size": 64}' >"$work/moe/config.json"
py make "$work/moe/model.safetensors" '[[2, 32, 64], [3, 40, 64]]'
exits 0 "" quantize "$work/moe" -o "$work/experts" -l trn-x4 -w mxfp4 -a none -r floor --block 32x32
has "experts of 32 rows" "$(cat "$work/out")" "t0.experts.weight | BF16 [2, 32, 64] | mxfp4"
has "experts of 40 rows" "$(cat "$work/out")" \
	"kept  | several matrices whose rows are not a multiple of 32; --block 1x32 takes it"

# Rows that are no whole blocks are padded, and padding is of no square's numbers.
py make "$work/tails.safetensors" '[[35, 70]]'
exits 0 "" quantize "$work/tails.safetensors" -o "$work/padded.safetensors" -q -w mxfp8-e4m3 -a none -r floor --block 32x32 --pad-tail
same "a tail" "" "$(py check "$work/tails.safetensors" "$work/padded.safetensors" mxfp8-e4m3 32 2>&1)"

# Several files, parts of them, and a run that is stopped and resumed.
exits 0 "" quantize "$work/in.safetensors" -o "$work/shards" -q -r floor -w mxfp4 -a none --block 32x32 --shard-size 4K
for part in 1 2; do
	exits 0 "" quantize "$work/in.safetensors" -o "$work/part$part" -q -r floor -w mxfp4 -a none --block 32x32 --shard-size 4K \
		--part $part/2
done
exits 0 "" merge "$work/part1" "$work/part2" -o "$work/merged" -q
same "parts" "" "$(diff -r "$work/shards" "$work/merged")"
(
	ulimit -f 8
	exec "$mxfp" quantize "$work/in.safetensors" -o "$work/stopped" -q -r floor -w mxfp4 -a none --block 32x32
) 2>/dev/null
check "nothing is left to resume" test -e "$work/stopped.partial/fingerprint.json"
exits 2 "was begun with another block: 32x32, and not none; --resume" quantize "$work/in.safetensors" -o "$work/stopped" -q -r floor -w mxfp4 \
	-a none --resume
exits 0 "" quantize "$work/in.safetensors" -o "$work/stopped" -q -r floor -w mxfp4 -a none --block 32x32 --resume
same "resumed" "" "$(diff -r "$work/mxfp4" "$work/stopped")"

# 32 rows are in memory at once, 8 MiB here and codes and scales, and no more is taken than is asked for.
py zeros "$work/wide.safetensors" 64 131104
exits 2 "quantize: --mem: 8388608 bytes are too few for this model; give --mem " \
	quantize "$work/wide.safetensors" -o "$work/wide" -w mxfp4 --block 32x32 --mem 8M
least=${error##*--mem }
least=${least% or more}
check "what 32 rows of 131104 need, $least" test "${least%M}" -le 16
exits 0 "" quantize "$work/wide.safetensors" -o "$work/wide" -q -w mxfp4 --block 32x32 --mem "$least"
exits 0 "" quantize "$work/wide.safetensors" -o "$work/wide1" -q -w mxfp4 --mem 8M
exits 0 "" diff -q "$work/wide" "$work/wide1"
if (ulimit -v 60000 && exec "$mxfp" --version) >/dev/null 2>&1; then
	(
		ulimit -v 60000
		exec "$mxfp" quantize "$work/wide.safetensors" -o "$work/wide" -qf -w mxfp4 --block 32x32 --mem "$least" --threads 1
	) || bad "wide rows within 60 MB of addresses"
fi

# Recipes: another block for some tensors, which the file says, and lint and detect-rule know.
cat >"$work/recipe.json" <<'END'
{"version": 1, "activations": "none", "default": {"format": "mxfp4", "rule": "floor", "block": "32x32"},
 "rules": [{"match": "t1.*", "block": "1x32"}]}
END
exits 0 "" quantize "$work/in.safetensors" -o "$work/mixed" --recipe "$work/recipe.json"
has "a rule with blocks of a row" "$(cat "$work/out")" "t1.weight | BF16 [40, 64]   | mxfp4 floor | linear weight, rules[0]"
exits 0 "" inspect "$work/mixed"
has "its metadata" "$(cat "$work/out")" "mxfp.tensor.t1.weight = mxfp4 floor"
exits 0 "" lint -q "$work/mixed"
exits 0 "" detect-rule "$work/mixed" --ref "$work/in.safetensors" -q
has "detected" "$(cat "$work/out")" "exact: rule floor"
has "squares that are detected" "$(cat "$work/out")" "in squares of 32 x 32 that share a scale, as the metadata say: 2 of 3"
exits 0 "" detect-rule "$work/mxfp8-e4m3" --ref "$work/in.safetensors" -q --all
has "detected in every piece" "$(cat "$work/out")" "exact: rule floor"
sed 's/"block": "32x32"/"block": "1x32"/;s/"block": "1x32"}]/"block": "32x32"}]/' "$work/recipe.json" >"$work/other.json"
exits 0 "" quantize "$work/in.safetensors" -o "$work/mixed" --recipe "$work/other.json" -f
has "a rule with squares" "$(cat "$work/out")" "mxfp4 floor 32x32"
exits 0 "" inspect "$work/mixed"
has "its metadata" "$(cat "$work/out")" "mxfp.tensor.t1.weight = mxfp4 floor 32x32"
sed 's/"1x32"/"32x16"/' "$work/recipe.json" >"$work/other.json"
exits 3 "rules[0].block: unknown value '32x16': did you mean '32x32'?" quantize "$work/in.safetensors" -n --recipe "$work/other.json"
sed 's/"block": "1x32"/"format": "nvfp4", "block": "32x32"/' "$work/recipe.json" >"$work/other.json"
exits 3 "rules[0].block: nvfp4 has blocks of 16 and no squares; leave it out" quantize "$work/in.safetensors" -n --recipe "$work/other.json"

# A scale that differs in a square: row 33, block 1 of t0.weight, [64, 3] scales, which lie after the codes of all.
py damage "$work/mxfp4/model.safetensors" t0.weight_scale 100 "$work/damaged.safetensors"
code=0
"$mxfp" lint -q "$work/damaged.safetensors" >"$work/out" || code=$?
same "exit code of lint" 1 $code
has "the finding" "$(cat "$work/out")" \
	"'t0.weight': 1 of 192 blocks (0.521 %) have a scale that differs from that of the first row of their square, the first in row 33, block 1 [square]"
# Rows of more than 131072 numbers, which are read in two pieces each: those behind them have a square, too.
py scales "$work/wide/model.safetensors"
"$mxfp" lint -q "$work/wide/model.safetensors" >"$work/out" || :
same "squares of wide rows" "" "$(grep square "$work/out")"
py damage "$work/wide/model.safetensors" wide.weight_scale $((4097 + 4096)) "$work/damaged.safetensors"
"$mxfp" lint -q "$work/damaged.safetensors" >"$work/out" && bad "lint takes a square of wide rows that differs"
has "the finding in wide rows" "$(cat "$work/out")" \
	"1 of 262208 blocks (0.000381 %) have a scale that differs from that of the first row of their square, the first in row 1, block 4096 [square]"

# What has no squares, or is none.
exits 2 "quantize: --block: unknown value '16x16' (blocks: 1x32, 32x32)" \
	quantize "$work/in.safetensors" -n --block 16x16
exits 2 "--block" quantize "$work/in.safetensors" -n -w nvfp4 -a none --block 32x32
exits 2 "squares of 32x32 are for dense weights" quantize "$work/in.safetensors" -n --block 32x32 --sparsity 4:16
finish
