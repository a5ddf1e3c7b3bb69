#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp calibrate --activation-file: weights beside GPTQ in binary64 by Python, errors beside mxfp report's; the same bytes for all threads,
# tiers and memory; a run that is stopped and resumed; what is refused, with nothing written; the project's own model, and,
# if ../shared is there, a voice detector, whose outputs come nearer to the exact ones in every layer.
. "${srcdir:-.}/tests/cli/cli.shlib"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }

top=${srcdir:-.}
shared=${MXFP_SHARED:-$top/../shared}/weights
cat >"$work/tensors.py" <<'END'
import json, math, struct


def write(path, tensors):
    """tensors: name -> (dtype, shape, numbers or bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, x) in tensors.items():
        packed = x if isinstance(x, bytes) else struct.pack("<%d%s" % (len(x), {"F32": "f", "F64": "d", "F16": "e", "I32": "i"}[dtype]), *x)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    return {name: struct.unpack("<%df" % math.prod(fact["shape"]), data[slice(*fact["data_offsets"])])
            for name, fact in header.items() if name != "__metadata__"}
END
cat >"$work/make.py" <<'END'
import random, sys

from tensors import write

work = sys.argv[1]
draw = random.Random(3)


def numbers(*shape):
    n = 1
    for length in shape:
        n *= length
    return "F32", shape, [draw.gauss(0, 0.3) for _ in range(n)]


def inputs(rows, cols):
    """Rows whose columns go together, as those of real layers do."""
    mixed = [[draw.gauss(0, 1) for _ in range(cols)] for _ in range(cols // 4)]
    x = []
    for _ in range(rows):
        parts = [draw.gauss(0, 1) for _ in mixed]
        x += [draw.gauss(0, 0.3) + sum(p * m[k] for p, m in zip(parts, mixed)) for k in range(cols)]
    return x


model = {"a.weight": numbers(6, 64), "b.weight": numbers(5, 96), "c.weight": numbers(4, 64), "norm.weight": numbers(64)}
write(work + "/model.safetensors", model)
a, b = inputs(300, 64), inputs(100, 96)
write(work + "/x.safetensors", {"b": ("F16", [2, 50, 96], b), "a.weight": ("F32", [300, 64], a)})
write(work + "/alone.safetensors", {"any": ("F64", [300, 64], a)})
write(work + "/named.safetensors", {"a": ("F64", [300, 64], a)})


def bad(name, **tensors):
    write("%s/%s.safetensors" % (work, name), {key.replace("_", "."): value for key, value in tensors.items()})


bad("width", a_weight=("F32", [3, 32], [0.0] * 96), b=("F32", [1, 96], [0.0] * 96))
bad("integers", a_weight=("I32", [1, 64], [0] * 64), b=("F32", [1, 96], [0.0] * 96))
bad("empty", a_weight=("F32", [0, 64], []), b=("F32", [1, 96], [0.0] * 96))
bad("name", a_wieght=("F32", [300, 64], a), b=("F32", [1, 96], [0.0] * 96))
bad("unlike", tokens=("F32", [300, 64], a), b=("F32", [1, 96], [0.0] * 96))
bad("other", any=("F32", [2, 16], [0.0] * 32))
for name, number in (("nan", float("nan")), ("inf", float("inf"))):
    bad(name, a_weight=("F32", [300, 64], a[:64 * 299 + 5] + [number] + a[64 * 299 + 6:]))
bad("large", a_weight=("F32", [513, 64], [1.0] * (512 * 64) + [1.0] * 5 + [1e30] + [1.0] * 58))
for name, unit in (("unit", 0), ("tiny", -110), ("huge", 110)):
    write("%s/%s.safetensors" % (work, name), {"a.weight": ("F32", [300, 64], [x * 2.0 ** unit for x in a]),
                                               "b": ("F32", [2, 50, 96], [x * 2.0 ** unit for x in b])})
bad("zeros", a_weight=("F32", [300, 64], [0.0] * (300 * 64)))
write(work + "/without.safetensors", {"a.weight": ("F32", [0, 64], []), "b.weight": ("F32", [4, 0], []), "e.weight": ("F32", [0, 8, 64], []),
                                      "w.weight": model["a.weight"]})
weight = list(model["a.weight"][2])
weight[70] = float("inf")
bad("weight", a_weight=("F32", [6, 64], weight))
END
export PYTHONPATH="$work"
python3 "$work/make.py" "$work" || exit 99

# calibrate FILE OUT OPTION...: the model, on a file of inputs.
calibrate() {
	file=$1 out=$2
	shift 2
	exits 0 "" calibrate "$work/model.safetensors" --activation-file "$work/$file.safetensors" -o "$work/$out" -f "$@"
}

calibrate x out1.safetensors
text=$(tr -s ' ' <"$work/out")
has "table" "$text" "| a.weight | 6 x 64 | mxfp4 mse |"
has "summary" "$text" "2 tensors calibrated on inputs of $work/x.safetensors, 2 kept; signal to noise of outputs beside those of exact"
has "a tensor without inputs" "$text" "1 of those kept would be quantized, but have no inputs: c.weight; mxfp quantize rounds them to nearest"
has "few rows" "$text" "2 tensors have few rows of inputs, b.weight 100 for 96 columns: on other inputs errors are larger"
calibrate x out1.safetensors --json
mv "$work/out" "$work/facts"

# GPTQ in binary64, of inputs as they are and rounded to MXFP8 E4M3, for which the aim changes (GPTAQ): MXFP4 by rule floor, the
# scale of a block by what its columns are when the first of them is rounded. Codes near a tie could differ; here none do.
cat >"$work/gptq.py" <<'END'
import math, sys

from tensors import read

work, made, activations = sys.argv[1:]
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def e2m1(x):
    """Of two that are as near, the one with an even code."""
    code = min(range(8), key=lambda c: (abs(abs(x) - E2M1[c]), c % 2))
    return math.copysign(E2M1[code], x)


def e4m3(x):
    if x == 0:
        return x
    step = 2.0 ** (max(math.frexp(abs(x))[1] - 1, -6) - 3)
    return math.copysign(min(round(abs(x) / step) * step, 448), x)


def round_activations(row):
    result = []
    for i in range(0, len(row), 32):
        block = row[i:i + 32]
        scale = 2.0 ** math.ceil(math.log2(max(map(abs, block)) / 448))
        result += [scale * e4m3(x / scale) for x in block]
    return result


def invert(matrix):
    """By Gauss and Jordan; the matrix is positive definite."""
    n = len(matrix)
    rows = [list(row) + [float(i == j) for j in range(n)] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = rows[i][i]
        rows[i] = [x / pivot for x in rows[i]]
        for j in range(n):
            if j != i and rows[j][i] != 0:
                factor = rows[j][i]
                rows[j] = [x - factor * y for x, y in zip(rows[j], rows[i])]
    return [row[n:] for row in rows]


def gram(a, b):
    return [[math.fsum(x * y for x, y in zip(p, q)) for q in zip(*b)] for p in zip(*a)]


def gptq(w, exact):
    n = len(w[0])
    x = [round_activations(row) for row in exact] if activations != "none" else exact
    h = gram(x, x)
    damping = 0.01 * sum(h[i][i] for i in range(n)) / n
    for i in range(n):
        h[i][i] += damping
    inverse = invert(h)
    f = gram([[p - q for p, q in zip(*rows)] for rows in zip(exact, x)], x)
    moved = [[sum(f[i][k] * inverse[k][j] for k in range(n)) for j in range(n)] for i in range(n)]
    w = [[row[j] + sum(row[i] * moved[i][j] for i in range(n)) for j in range(n)] for row in w]
    scales = [0] * len(w)
    # Eliminating column j from what is left of the inverse gives the rows of its factor.
    for j in range(n):
        for r, row in enumerate(w):
            if j % 32 == 0:
                scales[r] = 2.0 ** (math.frexp(max(map(abs, row[j:j + 32])))[1] - 1 - 2)
            q = scales[r] * e2m1(row[j] / scales[r])
            error = (row[j] - q) / inverse[j][j]
            row[j] = q
            for k in range(j + 1, n):
                row[k] -= error * inverse[j][k]
        for i in range(j + 1, n):
            part = inverse[i][j] / inverse[j][j]
            inverse[i] = [p - part * q for p, q in zip(inverse[i], inverse[j])]
    return [x for row in w for x in row]


def rows(x, n):
    return [list(x[i:i + n]) for i in range(0, len(x), n)]


model, x, result = read(work + "/model.safetensors"), read(work + "/x32.safetensors"), read(made)
for name, cols in (("a.weight", 64), ("b.weight", 96)):
    want = gptq(rows(model[name], cols), rows(x[name], cols))
    unequal = sum(p != q for p, q in zip(want, result[name]))
    assert unequal == 0, "%s: %d of %d weights are not those of GPTQ" % (name, unequal, len(want))
assert result["c.weight"] == model["c.weight"] and result["norm.weight"] == model["norm.weight"]
END
python3 - "$work" <<'END' || exit 99
import json, struct, sys

from tensors import write

work = sys.argv[1]
with open(work + "/x.safetensors", "rb") as file:
    size, = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(size))
    data = file.read()
x = {name: struct.unpack("<%d%s" % ((f["data_offsets"][1] - f["data_offsets"][0]) // (4 if f["dtype"] == "F32" else 2),
                                    "f" if f["dtype"] == "F32" else "e"), data[slice(*f["data_offsets"])]) for name, f in header.items()}
write(work + "/x32.safetensors", {"a.weight": ("F32", [300, 64], x["a.weight"]), "b.weight": ("F32", [100, 96], x["b"])})
END
for activations in none mxfp8-e4m3; do
	calibrate x gptq.safetensors -q --rule floor --activations $activations
	[ $slow$activations = yesnone ] || python3 "$work/gptq.py" "$work" "$work/gptq.safetensors" $activations || bad "GPTQ in binary64, activations $activations"
done

# Quantizing loses nothing more, and mxfp report finds the errors that the table has: of its weights, and of those rounded to nearest.
exits 0 "" quantize "$work/out1.safetensors" -o "$work/quantized" -f -q --ignore c.weight
exits 0 "" dequantize "$work/quantized" -o "$work/decoded.safetensors" -f -q
exits 0 "" diff "$work/decoded.safetensors" "$work/out1.safetensors"
cat >"$work/errors.py" <<'END'
import json, math, sys

facts, report, key = sys.argv[1:]
facts, report = json.load(open(facts)), json.load(open(report))
errors = {row["tensor"]: -10 * math.log10(row[key]) for row in facts["tensors"]}
found = {row["name"]: row["variants"][0]["products"][0]["both_quantized"]["sqnr_db"] for row in report["tensors"]}
for name in errors:
    assert abs(errors[name] - found[name]) < 0.02, (name, errors[name], found[name])
assert errors
END
# errors FACTS MODEL INPUTS KEY OPTION...: the errors of quantized weights in $work/quantized by mxfp report.
errors() {
	facts=$1 source=$2 inputs=$3 key=$4
	shift 4
	exits 0 "" report "$source" --against "$work/quantized" --activation-file "$inputs" --activation-rows 4096 --product-rows 0 --json "$@"
	python3 "$work/errors.py" "$facts" "$work/out" "$key" || bad "mxfp report beside mxfp calibrate: $key of $source"
}
errors "$work/facts" "$work/model.safetensors" "$work/x.safetensors" calibrated_error --ignore c.weight
exits 0 "" quantize "$work/model.safetensors" -o "$work/quantized" -f -q
errors "$work/facts" "$work/model.safetensors" "$work/x.safetensors" rounded_error

# The same bytes for all threads, tiers and memory, in all formats.
for how in "-w mxfp4" "-w nvfp4" "-w mxfp4 --sparsity 4:8"; do
	calibrate x out2.safetensors -q $how
	for option in "--threads 1" "--threads 2" "--isa ref"; do
		case $option in
		--isa*) MXFP_ISA=ref calibrate x out3.safetensors -q $how ;;
		*) calibrate x out3.safetensors -q $how $option ;;
		esac
		check "bytes with $how $option" cmp -s "$work/out2.safetensors" "$work/out3.safetensors"
	done
done
exits 2 "are too few for the largest tensor; give --mem" calibrate "$work/model.safetensors" --activation-file "$work/x.safetensors" \
	-o "$work/none" --mem 1M
least=$(printf '%s\n' "$error" | sed -n 's/.*give --mem \([0-9]*\)M or more/\1/p')
calibrate x out2.safetensors -q --mem "${least}M" --threads 2
check "bytes with --mem" cmp -s "$work/out1.safetensors" "$work/out2.safetensors"
calibrate x out1.safetensors --json --mem "${least}M" --threads 2
check "sums with --mem" cmp -s "$work/facts" "$work/out"

# The most memory that a run holds stays under --mem: 2,048 inputs take 160 MiB of statistics.
python3 - "$work" <<'END' || exit 99
import random, sys

from tensors import write

draw = random.Random(4)
for name, rows in (("wide", 64), ("wide.x", 100)):
    write("%s/%s.safetensors" % (sys.argv[1], name), {"w": ("F32", [rows, 2048], [draw.uniform(-1, 1) for _ in range(rows * 2048)])})
END
if [ "${MXFP_ISA:-}" != ref ] && peak_tells; then
	set -- calibrate "$work/wide.safetensors" --activation-file "$work/wide.x.safetensors" -o "$work/wide.made.safetensors" -q --include w
	exits 2 "give --mem" "$@" --mem 1M
	least=$(printf '%s\n' "$error" | sed -n 's/.*give --mem \([0-9]*\)M or more/\1/p')
	held=$(peak "$@" --mem "${least}M")
	check "memory, $held MiB of $least" test "$held" -gt 160 -a "$held" -lt "$least"
fi

# One tensor of any name is for all layers that it fits, also in an .npy file; other numbers' dtypes are taken.
calibrate alone out2.safetensors
text=$(tr -s ' ' <"$work/out")
has "a tensor for all" "$text" "| c.weight | 4 x 64 | mxfp4 mse |"
has "what it does not fit" "$text" "have no inputs: b.weight;"
# Unless it has the name of one of them.
calibrate named out3.safetensors -f
has "what it is not for" "$(cat "$work/out")" "2 of those kept would be quantized, but have no inputs: b.weight, c.weight;"
{
	npy '<f8' False '(300, 64)'
	tail -c $((300 * 64 * 8)) "$work/alone.safetensors"
} >"$work/alone.npy"
exits 0 "" calibrate "$work/model.safetensors" --activation-file "$work/alone.npy" -o "$work/out3.safetensors" -f -q
check "bytes of an .npy file" cmp -s "$work/out2.safetensors" "$work/out3.safetensors"
calibrate zeros out2.safetensors -q
exits 0 "" calibrate "$work/model.safetensors" --activation-file "$work/alone.safetensors" --preset nvfp4 -o "$work/out3.safetensors" -f --json
python3 -c '
import json, sys
facts = json.load(open(sys.argv[1]))
assert facts["activation_file"] == sys.argv[2] and "tokens" not in facts and facts["without_inputs"] == ["b.weight"]
assert facts["tensors_left"] == 1 and facts["tensors_kept"] == 2 and [row["tokens"] for row in facts["tensors"]] == [300, 300]' \
	"$work/out" "$work/alone.safetensors" || bad "JSON: $(cat "$work/out")"

# Tensors without elements are copied.
exits 0 "" calibrate "$work/without.safetensors" --activation-file "$work/alone.safetensors" --pad-tail -o "$work/out3.safetensors" -f
has "tensors without elements" "$(cat "$work/out")" "1 tensors calibrated on inputs of"

# Several matrices in one tensor, stored by rows or, as gpt-oss does, by columns, share its inputs.
mkdir "$work/oss"
printf '{"model_type": "gpt_oss"}' >"$work/oss/config.json"
python3 - "$work" <<'END' || exit 99
import random, sys

from tensors import write

work = sys.argv[1]
draw = random.Random(5)
experts = [[[draw.gauss(0, 0.3) for _ in range(32)] for _ in range(64)] for _ in range(2)]
name = "model.layers.0.mlp.experts.gate_up_proj"
write(work + "/oss/model.safetensors", {name: ("F32", [2, 32, 64], [e[o][i] for e in experts for i in range(32) for o in range(64)])})
write(work + "/apart.safetensors", {"e%d.weight" % e: ("F32", [64, 32], [x for row in experts[e] for x in row]) for e in range(2)})
write(work + "/both.safetensors", {"x": ("F32", [40, 32], [draw.gauss(0, 1) for _ in range(40 * 32)])})
END
exits 0 "" calibrate "$work/oss" --activation-file "$work/both.safetensors" --layout gpt-oss -a mxfp8-e4m3 -o "$work/oss-made"
has "matrices in a tensor" "$(tr -s ' ' <"$work/out")" "| 128 x 32 | mxfp4 mse |"
exits 0 "" calibrate "$work/apart.safetensors" --activation-file "$work/both.safetensors" -o "$work/apart-made.safetensors" -q
python3 - "$work" <<'END' || bad "matrices in one tensor"
import sys

from tensors import read

one, = read(sys.argv[1] + "/oss-made/model.safetensors").values()
apart = read(sys.argv[1] + "/apart-made.safetensors")
for e in range(2):
    for o in range(64):
        assert apart["e%d.weight" % e][o * 32:o * 32 + 32] == tuple(one[(e * 32 + i) * 64 + o] for i in range(32))
END

# A run that is stopped goes on behind the last tensor, to the same bytes.
python3 - "$work" $(fewer 128 96) <<'END' || exit 99
import random, sys

from tensors import write

work, cols = sys.argv[1], int(sys.argv[2])
draw = random.Random(9)
for name, key in (("long", "l%d.weight"), ("y", "l%d")):
    write("%s/%s.safetensors" % (work, name), {key % i: ("F32", [32, cols], [draw.gauss(0, 1) for _ in range(32 * cols)]) for i in range(4)})
END
long() {
	"$mxfp" --isa ref calibrate "$work/long.safetensors" --activation-file "$work/y.safetensors" -q "$@"
}
long -o "$work/whole.safetensors" || bad "the run that is not stopped"
stop_at "$work/resumed.safetensors.partial/weights-2.state" --isa ref calibrate "$work/long.safetensors" \
	--activation-file "$work/y.safetensors" -q -o "$work/resumed.safetensors"
check "states, of which there are none" test ! -e "$work/resumed.safetensors.partial/states-1.state"
cp "$work/y.safetensors" "$work/z.safetensors"
printf '\177' | dd of="$work/z.safetensors" bs=1 seek=1000 conv=notrunc 2>/dev/null
exits 2 "was begun with another file of inputs (--activation-file)" --isa ref calibrate "$work/long.safetensors" --activation-file \
	"$work/z.safetensors" -q -o "$work/resumed.safetensors" --resume
cp -R "$work/resumed.safetensors.partial" "$work/damaged.safetensors.partial"
printf '\377' | dd of="$work/damaged.safetensors.partial/weights-0.state" bs=1 seek=300 conv=notrunc 2>/dev/null
for name in damaged resumed; do
	long -o "$work/$name.safetensors" --resume || bad "resuming: $name"
	check "bytes of a run that is $name" cmp -s "$work/whole.safetensors" "$work/$name.safetensors"
	check "what is left of it" test ! -e "$work/$name.safetensors.partial"
done

# refused CODE PART INPUTS OPTION...: one line, and no output.
refused() {
	code=$1 part=$2 inputs=$3
	shift 3
	exits "$code" "$part" calibrate "$work/model.safetensors" --activation-file "$work/$inputs" -o "$work/none.safetensors" "$@"
	check "output of a failed run" test ! -e "$work/none.safetensors"
	check "partial output of a failed run" test ! -e "$work/none.safetensors.partial"
}
refused 3 "width.safetensors: tensor 'a.weight': activations must be F32, F16, BF16 or F64 with a last dimension of 64" width.safetensors
refused 3 "integers.safetensors: tensor 'a.weight': activations must be F32" integers.safetensors
refused 3 "empty.safetensors: tensor 'a.weight': has no rows of inputs" empty.safetensors
refused 3 "name.safetensors: tensor 'a.wieght': $work/model.safetensors has no tensor of this name; did you mean 'a.weight'?" name.safetensors
refused 3 "unlike.safetensors: tensor 'tokens': $work/model.safetensors has no tensor of this name; leave it out" unlike.safetensors
refused 3 "other.safetensors: its one tensor, of F32, fits no tensor that is quantized, of which 'a.weight' is the first; give" other.safetensors
refused 3 "x.safetensors: has no inputs for any tensor that is quantized, of which 'c.weight' is the first" x.safetensors --ignore a.weight \
	--ignore b.weight
npy '<i4' False '(1, 64)' >"$work/unfit.npy"
head -c 256 /dev/zero >>"$work/unfit.npy"
refused 3 "unfit.npy: its one tensor, of I32, fits no tensor that is quantized, of which 'a.weight' is the first; give" unfit.npy
npy '<f4' False '(1, 63)' >"$work/narrow.npy"
head -c 252 /dev/zero >>"$work/narrow.npy"
refused 3 "or F64 with a last dimension of 64 for that" narrow.npy
refused 3 "nan.safetensors: tensor 'a.weight': row 299, column 5 is NaN or Inf in binary32" nan.safetensors
refused 3 "inf.safetensors: tensor 'a.weight': row 299, column 5 is NaN or Inf in binary32" inf.safetensors
refused 3 "large.safetensors: tensor 'a.weight': column 5 is too large for its squares beside the first rows" large.safetensors
refused 4 "missing.safetensors" missing.safetensors
# The unit of inputs changes neither weights nor what is said of them, also where no square is a number of binary32.
for unit in unit tiny huge; do
	exits 0 "" calibrate "$work/model.safetensors" --activation-file "$work/$unit.safetensors" -o "$work/in_$unit.safetensors" -f
	grep '^|' "$work/out" >"$work/$unit.txt"
done
for unit in tiny huge; do
	check "inputs in another unit: other weights" cmp -s "$work/in_unit.safetensors" "$work/in_$unit.safetensors"
	check "inputs in another unit: another table" cmp -s "$work/unit.txt" "$work/$unit.txt"
done
refused 3 "nothing is to be quantized" x.safetensors --ignore '*'
refused 2 "calibrate: --context: is for --tokens or --text" x.safetensors --context 64
refused 2 "--tokens, --text and --activation-file: give one of them" x.safetensors --text "$work/make.py"
npy '<f4' True '(1, 64)' >"$work/fortran.npy"
head -c 256 /dev/zero >>"$work/fortran.npy"
refused 3 "fortran.npy: is in Fortran order" fortran.npy
exits 3 "weight.safetensors: tensor 'a.weight': element 70 (row 1, column 6) is NaN or Inf" calibrate "$work/weight.safetensors" \
	--activation-file "$work/alone.safetensors" -o "$work/none"
exits 2 "x.safetensors: is the input" calibrate "$work/model.safetensors" --activation-file "$work/x.safetensors" -o "$work/x.safetensors" -f
check "the inputs are intact" test -s "$work/x.safetensors"

# falls WHAT N: the table in $work/out has smaller errors of every tensor, of which there are so many.
falls() {
	same "tensors of $1 whose errors fall" "$2" "$(sed -n 's/^|[^|]*| *[0-9]* x [^|]*|[^|]*| *\([^ ]*\) | *\([^ ]*\) |/\1 \2/p' "$work/out" |
		awk '$2 > $1 + 1 { n++ } END { print n }')"
}
if [ "${MXFP_ISA:-}" = ref ]; then
	echo "real models take minutes without vectors: not run"
	finish
fi

# The project's own model: half of what W4A8 costs it is left, on characters that neither training nor calibration saw.
charlm=$top/examples
# Without arguments it says how it is called, and exits with 2; under an emulator it cannot run.
status=0
[ -x examples/charlm_inputs ] && examples/charlm_loss >/dev/null 2>&1 || status=$?
if [ $status = 2 ]; then
	examples/charlm_inputs "$charlm/charlm.safetensors" "$charlm/charlm.txt" "$work/charlm.x.safetensors" $(fewer 4096 512) || bad "inputs of the character model"
	exits 0 "" calibrate "$charlm/charlm.safetensors" --activation-file "$work/charlm.x.safetensors" -o "$work/charlm.safetensors"
	falls charlm 5
	exits 0 "" calibrate "$charlm/charlm.safetensors" --activation-file "$work/charlm.x.safetensors" -o "$work/charlm.safetensors" -f --json
	mv "$work/out" "$work/facts"
	exits 0 "" quantize "$work/charlm.safetensors" -o "$work/quantized" -f -q --preset w4a8
	errors "$work/facts" "$charlm/charlm.safetensors" "$work/charlm.x.safetensors" calibrated_error
	line=$(examples/charlm_loss "$work/quantized/model.safetensors" "$charlm/charlm.txt")
	[ $slow = yes ] || check "loss of the character model in W4A8: $line" awk "BEGIN { exit !(${line%% *} > 1.73 && ${line%% *} < 1.74) }"
else
	echo "not run on the character model: examples/charlm_inputs is not there, or cannot run here"
fi

# Silero, all of whose layers are matrices here, as a product takes convolutions.
if [ -e "$shared/silero_vad_16k.safetensors" ]; then
	silero=$shared/silero_vad_16k.safetensors
	python3 "$top/scripts/silero.py" matrices "$silero" "$work/silero.safetensors" || bad "Silero as matrices"
	python3 "$top/scripts/silero.py" inputs "$silero" "$work/silero.x.safetensors" 160 || bad "inputs of Silero"
	# No loader of the default layout takes an LSTM.
	set -- --layout trn-x4 --include '*lstm*'
	exits 3 "nothing is to be quantized" calibrate "$silero" --activation-file "$work/silero.x.safetensors" \
		-o "$work/none.safetensors"
	exits 0 "" calibrate "$silero" --activation-file "$work/silero.x.safetensors" -o "$work/out2.safetensors" -f "$@"
	falls Silero 2
	exits 0 "" calibrate "$work/silero.safetensors" --activation-file "$work/silero.x.safetensors" -o "$work/silero.made.safetensors" \
		--include '*conv*' --pad-tail "$@"
	falls "Silero as matrices" 8
	exits 0 "" calibrate "$work/silero.safetensors" --activation-file "$work/silero.x.safetensors" -o "$work/silero.made.safetensors" \
		--include '*conv*' --pad-tail -f --json "$@"
	mv "$work/out" "$work/facts"
	exits 0 "" quantize "$work/silero.made.safetensors" -o "$work/quantized" -f -q --include '*conv*' --pad-tail "$@"
	errors "$work/facts" "$work/silero.safetensors" "$work/silero.x.safetensors" calibrated_error --include '*conv*' \
		--include '*lstm*' --pad-tail
else
	echo "no ../shared: not run on Silero"
fi
finish
