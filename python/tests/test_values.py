# SPDX-License-Identifier: MIT
"""Values from specifications and other packages, not from this library."""

import math

import numpy
import pytest

import mxfp


def test_float16_is_ieee():
    """Every float16 to float32 and back, and numpy's rounding of float32."""
    codes = numpy.arange(1 << 16, dtype=numpy.uint16).view(numpy.float16)
    wide = mxfp.cast(codes, "f32")
    assert numpy.array_equal(wide, codes.astype(numpy.float32), equal_nan=True)
    x = numpy.random.default_rng(3).integers(0, 1 << 32, 200_000, dtype=numpy.uint32).view(numpy.float32)
    x = x[numpy.abs(x) < 65000]
    assert numpy.array_equal(mxfp.cast(x, "f16"), x.astype(numpy.float16))


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("e5m2", "float8_e5m2"),
        ("e4m3ieee", "float8_e4m3"),
        ("e3m4", "float8_e3m4"),
        ("e4m3fnuz", "float8_e4m3fnuz"),
        ("e5m2fnuz", "float8_e5m2fnuz"),
        ("bf16", "bfloat16"),
    ],
)
def test_ml_dtypes(name, dtype):
    """Formats with Inf, or with a NaN after the largest number, overflow as ml_dtypes does; every float16 is a source."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = numpy.dtype(getattr(ml_dtypes, dtype))
    x = numpy.arange(1 << 16, dtype=numpy.uint16).view(numpy.float16)
    x = x[~numpy.isnan(x)]
    with numpy.errstate(over="ignore"):
        expected = x.astype(numpy.float32).astype(dtype)
    got = mxfp.cast(x, dtype, overflow="ovf")
    assert got.dtype == dtype
    assert numpy.array_equal(got.view(f"u{dtype.itemsize}"), expected.view(f"u{dtype.itemsize}"))
    assert numpy.array_equal(mxfp.cast(got, "f32"), expected.astype(numpy.float32), equal_nan=True)
    assert mxfp.formats[name].storage_bytes == dtype.itemsize


@pytest.mark.parametrize("name, dtype", [("e4m3", "float8_e4m3fn"), ("e3m2", "float6_e3m2fn"), ("e2m3", "float6_e2m3fn"), ("e2m1", "float4_e2m1fn")])
def test_ml_dtypes_in_range(name, dtype):
    """Formats without Inf, up to their largest number, and each of their codes."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = numpy.dtype(getattr(ml_dtypes, dtype))
    x = numpy.arange(1 << 16, dtype=numpy.uint16).view(numpy.float16)
    x = x[numpy.abs(x) <= mxfp.formats[name].largest]
    got = mxfp.cast(x, dtype)
    assert numpy.array_equal(got.view("u1"), x.astype(numpy.float32).astype(dtype).view("u1"))
    codes = numpy.arange(1 << mxfp.formats[name].bits, dtype=numpy.uint8)
    assert numpy.array_equal(mxfp.cast(codes, "f32", source=name), codes.view(dtype).astype(numpy.float32), equal_nan=True)


# Largest numbers: OCP OFP8 and MX v1.0, IEEE 754.
LARGEST = {
    "f32": (2 - 2**-23) * 2.0**127,
    "bf16": (2 - 2**-7) * 2.0**127,
    "f16": 65504,
    "tf32": (2 - 2**-10) * 2.0**127,
    "e5m2": 57344,
    "e4m3": 448,
    "e3m2": 28,
    "e2m3": 7.5,
    "e2m1": 6,
    "int8": 127 / 64,
    "e8m0": 2.0**127,
    "ue4m3": 448,
    "e4m3ieee": 240,
    "e3m4": 15.5,
    "e4m3fnuz": 240,
    "e5m2fnuz": 57344,
}


@pytest.mark.parametrize("name", LARGEST)
def test_largest(name):
    format = mxfp.formats[name]
    assert format.largest == LARGEST[name]
    top = mxfp.cast(LARGEST[name], name)
    raw = top.view(numpy.uint32) >> 13 if name == "tf32" else top.view(f"u{format.storage_bytes}")
    assert raw == format.max_code


def test_formats_are_all():
    assert set(LARGEST) == {f.name for f in mxfp.formats.values() if not f.is_block}
    assert {f.name: f.bits_per_number for f in mxfp.formats.values() if f.is_block} == {
        "mxfp8-e4m3": 8.25,
        "mxfp8-e5m2": 8.25,
        "mxfp6-e3m2": 6.25,
        "mxfp6-e2m3": 6.25,
        "mxfp4": 4.25,
        "mxint8": 8.25,
        "nvfp4": 4.5,
    }


def nearest_e2m1(x):
    """OCP MX v1.0: 0, 0.5, 1, 1.5, 2, 3, 4, 6; to nearest, ties to the even code, saturating."""
    grid = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    best = min(range(8), key=lambda code: (abs(grid[code] - abs(x)), code % 2))
    return math.copysign(grid[best], x)


# What 2.5 and -2.5, halfway between 2 (an even code) and 3, become.
TIES = {"rne": (2, -2), "rna": (3, -3), "rhz": (2, -2), "rtz": (2, -2), "rtp": (3, -2), "rtn": (2, -3)}


@pytest.mark.parametrize("mode", TIES)
def test_rounding_by_hand(mode):
    x = [6, 2.5, -2.5]
    assert mxfp.cast(mxfp.cast(x, "e2m1", round=mode), "f32", source="e2m1").tolist() == [6, *TIES[mode]]
    assert mxfp.quantize(x, "mxfp4", rule="floor", round=mode).dequantize().tolist() == [6, *TIES[mode]]
    assert mxfp.fake_quantize(x, "mxfp4", rule="floor", round=mode).tolist() == [6, *TIES[mode]]


def test_mxfp4_by_hand():
    """OCP MX v1.0, section 6.3: scale 2^(floor(log2 amax) - 2), elements rounded to nearest even."""
    x = numpy.random.default_rng(8).standard_normal((20, 64), dtype=numpy.float32)
    q = mxfp.quantize(x, "mxfp4", rule="floor")
    for row in range(20):
        for block in range(2):
            part = x[row, 32 * block : 32 * block + 32].astype(float)
            exponent = math.floor(math.log2(max(abs(part)))) - 2
            assert q.scales[row, block] == exponent + 127
            expected = [nearest_e2m1(v / 2.0**exponent) * 2.0**exponent for v in part]
            assert q.dequantize()[row, 32 * block : 32 * block + 32].tolist() == expected


def test_packing():
    """OCP: element 2 i in the low half of a byte; 4 codes of 6 bits in three bytes from the low bits up."""
    x = numpy.zeros(32, numpy.float32)
    x[:4] = [6, 1, -0.5, 4]
    q = mxfp.quantize(x, "mxfp4", rule="floor")
    assert q.codes[:2].tolist() == [0x27, 0x69] and q.scales.tolist() == [127]
    x[:4] = [7.5, 1, -0.125, 4]
    q = mxfp.quantize(x, "mxfp6-e2m3", rule="floor")
    codes = [0x1F, 0x08, 0x21, 0x18]
    word = sum(code << 6 * i for i, code in enumerate(codes))
    assert q.codes[:3].tobytes() == word.to_bytes(3, "little")
    assert q.elements()[:4].tolist() == codes


def test_gguf():
    """llama.cpp's MXFP4, by gguf-py: rule floor, ties toward zero; a block of 17 bytes has its halves in nibbles."""
    quants = pytest.importorskip("gguf").quants
    import gguf

    x = numpy.random.default_rng(9).standard_normal((16, 128), dtype=numpy.float32)
    blocks = quants.quantize(x, gguf.GGMLQuantizationType.MXFP4).reshape(16, 4, 17)
    q = mxfp.quantize(x, "mxfp4", rule="floor", round="rhz")
    assert numpy.array_equal(q.scales, blocks[:, :, 0])
    elements = q.elements().reshape(16, 4, 2, 16)
    # gguf writes +0 for what rounds to zero.
    elements = numpy.where(elements == 8, 0, elements)
    theirs = blocks[:, :, 1:]
    theirs = numpy.stack([theirs & 15, theirs >> 4], axis=2)
    theirs = numpy.where(theirs == 8, 0, theirs)
    assert numpy.array_equal(elements, theirs)


def test_matmul_is_exact_where_numbers_are():
    """Small integers: no sum is rounded."""
    random = numpy.random.default_rng(10)
    a = random.integers(-3, 4, (5, 96)).astype(numpy.float32)
    w = random.integers(-3, 4, (7, 96)).astype(numpy.float32)
    a[:, ::32] = w[:, ::32] = 4
    expected = a @ w.T
    assert numpy.array_equal(mxfp.matmul(a, w), expected)
    for format in ("mxfp8", "mxfp8-e5m2", "mxfp6-e2m3", "mxfp4", "mxint8"):
        wq = mxfp.quantize(w, format, rule="floor")
        assert numpy.array_equal(wq.dequantize(), w)
        assert numpy.array_equal(mxfp.matmul(a, wq, a_format="mxfp8"), expected)
        assert numpy.array_equal(mxfp.matmul(mxfp.quantize(a, "mxfp8", rule="floor"), wq), expected)


def test_finish():
    """bias, activation, gate, residual, in this order, each rounded to float32."""
    random = numpy.random.default_rng(11)
    a, w, g, r = (random.standard_normal(shape, dtype=numpy.float32) for shape in ((3, 32), (5, 32), (3, 5), (3, 5)))
    bias = random.standard_normal(5, dtype=numpy.float32)
    c = mxfp.matmul(a, w)
    expected = numpy.maximum(c + bias, 0) * g + r
    assert numpy.array_equal(mxfp.gemm(a, w, bias=bias, activation="relu", gate=g, residual=r), expected)
    out = r.copy()
    assert numpy.array_equal(mxfp.gemm(a, w, accumulate=True, out=out), c + r)
    q = mxfp.gemm(a, w, to="mxfp8", to_options=mxfp.Options(rule="floor"))
    assert numpy.array_equal(q.codes, mxfp.quantize(c, "mxfp8", rule="floor").codes) and q.rule == "floor"
    out = numpy.empty_like(c)
    q = mxfp.gemm(a, w, to="nvfp4", to_options=mxfp.Options(tensor_amax=float(abs(c).max())), out=out)
    assert numpy.array_equal(out, c) and numpy.array_equal(q.dequantize(), mxfp.quantize(c, "nvfp4").dequantize())


FUNCTIONS = {
    "relu": lambda x: numpy.maximum(x, 0),
    "leaky-relu": lambda x: numpy.where(x > 0, x, x * numpy.float64(numpy.float32(0.01))),
    "exp": numpy.exp,
    "exp2": numpy.exp2,
    "tanh": numpy.tanh,
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "silu": lambda x: x / (1 + numpy.exp(-x)),
    "softplus": lambda x: numpy.logaddexp(0, x),
    "elu": lambda x: numpy.where(x > 0, x, numpy.expm1(numpy.minimum(x, 0))),
    "gelu": lambda x: x * numpy.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x]),
    "reciprocal": lambda x: 1 / x,
    "sin": numpy.sin,
    "cos": numpy.cos,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    """binary64 rounded to binary32, which is the nearest unless a result lies within 2^-50 of a tie."""
    x = numpy.linspace(-5, 5, 4001, dtype=numpy.float32)
    x = x[x != 0]
    expected = FUNCTIONS[name](x.astype(numpy.float64)).astype(numpy.float32)
    assert numpy.array_equal(mxfp.apply(x, name), expected)
    assert numpy.array_equal(getattr(mxfp, name.replace("-", "_"))(x), expected)


def test_every_function_has_a_name():
    for name in mxfp.functions:
        assert name == "identity" or callable(getattr(mxfp, name.replace("-", "_")))


def test_rows():
    x = numpy.random.default_rng(12).standard_normal((9, 40)).astype(numpy.float32)
    wide = x.astype(float)
    e = numpy.exp(wide - wide.max(-1, keepdims=True))
    assert numpy.allclose(mxfp.softmax(x), e / e.sum(-1, keepdims=True), rtol=3e-7)
    assert numpy.allclose(mxfp.log_softmax(x), numpy.log(e / e.sum(-1, keepdims=True)), rtol=1e-6, atol=1e-6)
    weight = wide[0].astype(numpy.float32)
    expected = wide / numpy.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * weight
    assert numpy.allclose(mxfp.rms_norm(x, weight), expected, rtol=3e-7)
    y, sums = mxfp.rms_norm(x, weight, residual=x)
    assert numpy.array_equal(sums, x + x) and numpy.allclose(y, mxfp.rms_norm(x + x, weight))
    centred = wide - wide.mean(-1, keepdims=True)
    expected = centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + weight
    assert numpy.allclose(mxfp.layer_norm(x, weight, weight), expected, rtol=1e-6, atol=1e-6)
    assert numpy.array_equal(mxfp.add(x, x), x + x)
    assert numpy.array_equal(mxfp.glu(x, x, function="relu"), numpy.maximum(x, 0) * x)
    assert numpy.array_equal(mxfp.glu(x, function="relu"), numpy.maximum(x[:, ::2], 0) * x[:, 1::2])
    assert numpy.array_equal(mxfp.reduce(x, "max"), x.max(-1)) and numpy.array_equal(mxfp.argmax(x), x.argmax(-1))
    assert numpy.allclose(mxfp.reduce(x), wide.sum(-1), rtol=1e-6)


def test_causal():
    x = numpy.zeros((2, 3, 4), numpy.float32)
    third = mxfp.softmax(numpy.zeros(3, numpy.float32))[0]
    expected = [[0.5, 0.5, 0, 0], [third, third, third, 0], [0.25] * 4]
    assert mxfp.softmax(x, causal=True).tolist() == numpy.float32([expected, expected]).tolist()
    sinks = numpy.float32([0, -numpy.inf])
    got = mxfp.softmax(x, causal=True, sinks=sinks)
    assert got[0, 0].tolist() == [third, third, 0, 0] and got[1, 0].tolist() == [0.5, 0.5, 0, 0]
    mask = numpy.float32([[0, -numpy.inf, -numpy.inf, -numpy.inf]])
    assert mxfp.softmax(x, mask=mask)[0, 0].tolist() == [1, 0, 0, 0]


def test_rotary():
    frequencies, factor = mxfp.rotary_frequencies(8)
    assert factor == 1 and numpy.allclose(frequencies, 10000.0 ** (-numpy.arange(4) / 4))
    x = numpy.random.default_rng(13).standard_normal((5, 8)).astype(numpy.float32)
    angle = numpy.arange(5)[:, None] * frequencies.astype(float)
    a, b = x[:, :4], x[:, 4:]
    expected = numpy.concatenate([a * numpy.cos(angle) - b * numpy.sin(angle), b * numpy.cos(angle) + a * numpy.sin(angle)], 1)
    assert numpy.allclose(mxfp.rotary(x, frequencies), expected, atol=1e-6)
    assert numpy.array_equal(mxfp.rotary(x, frequencies, positions=[0, 1, 2, 3, 4]), mxfp.rotary(x, frequencies))
    assert numpy.array_equal(mxfp.rotary(x, frequencies, positions=[0] * 5), x)
    with pytest.raises(ValueError, match="positions"):
        mxfp.rotary(x, frequencies, positions=[0, 1])
    with pytest.raises(ValueError, match="positions"):
        mxfp.rotary(x, frequencies, positions=[-1] * 5)


def test_error():
    x = numpy.float32([1, 2, 3, 4, 1000, numpy.nan])
    e = mxfp.error(x, numpy.float32([1, 2, 3, 2, 0, 0]))
    assert (e.n, e.not_finite, e.equal, e.flushed, e.largest, e.saturated) == (5, 1, 3, 1, 1000, None)
    assert e.sqnr == 10 * math.log10((1 + 4 + 9 + 16 + 1e6) / (4 + 1e6)) and e.mse == (4 + 1e6) / 5
    assert e.cosine == pytest.approx((1 + 4 + 9 + 8) / math.sqrt((30 + 1e6) * 18))
    assert mxfp.error(x[:4], x[:4]).sqnr == math.inf
    assert mxfp.error(x[:4], mxfp.cast(x[:4], mxfp.formats["e4m3"]), source="e4m3").sqnr == math.inf
    # Scale 2^0: 6 is the largest, and 7 halfway to 8, which is even.
    assert mxfp.error([6.0, 6.9, 7.0, -7.9], mxfp.quantize([6.0, 6.9, 7.0, -7.9], "mxfp4", rule="floor")).saturated == 2
    # 448 is even.
    assert mxfp.error([464.0, 465.0], mxfp.quantize([464.0, 465.0], "mxfp8", rule="floor")).saturated == 1


@pytest.mark.parametrize("format", [f.name for f in mxfp.formats.values() if f.is_block])
def test_saturated_is_what_quantize_counts(format):
    x = numpy.random.default_rng(15).standard_normal((64, 320), dtype=numpy.float32)
    counts = mxfp.Counts()
    q = mxfp.quantize(x, format, counts=counts, **({} if format == "nvfp4" else {"rule": "floor"}))
    assert mxfp.error(x, q).saturated == counts.saturated and (counts.saturated > 0) == (format != "nvfp4")


def test_squares():
    x = numpy.random.default_rng(14).standard_normal((64, 96)).astype(numpy.float32)
    q = mxfp.quantize(x, "mxfp4", block_rows=32, rule="rceil")
    t = mxfp.quantize(x.T, "mxfp4", block_rows=32, rule="rceil")
    assert numpy.array_equal(q.transpose().codes, t.codes) and numpy.array_equal(q.transpose().scales, t.scales)
    with pytest.raises(ValueError, match="transpose"):
        mxfp.quantize(x * numpy.arange(1, 65, dtype=numpy.float32)[:, None] ** 4, "mxfp4").transpose()


def test_clamped():
    y, clamped = mxfp.fake_quantize(numpy.float32([1, 6.5, 7.9]), "mxfp4", rule="floor", clamped=True)
    assert y.tolist() == [1, 6, 6] and clamped.tolist() == [0, 1, 1]


def test_counts():
    counts = mxfp.Counts()
    mxfp.cast(numpy.float32([1e9, -1e9, 1e-30, numpy.nan, numpy.inf, 1]), "e4m3", counts=counts)
    assert (counts.saturated, counts.overflowed, counts.flushed, counts.nan, counts.inf) == (3, 0, 1, 1, 1)
    mxfp.quantize(numpy.float32([[448, 1e-9], [1, 1]]), "mxfp8", counts=counts)
    assert counts.flushed == 2


def test_isa_and_threads(matrix):
    assert mxfp.isas()[0] == "ref" and mxfp.isa() in mxfp.isas()
    w = mxfp.quantize(matrix, "mxfp4")
    results = []
    for n in (1, 2, 0):
        mxfp.set_threads(n)
        results.append(mxfp.matmul(matrix, w, a_format="mxfp8"))
    assert numpy.array_equal(results[0], results[1]) and numpy.array_equal(results[0], results[2])


@pytest.mark.parametrize("rule", ["mse", "floor", "even", "rceil"])
def test_training_from_small_weights(rule):
    """A gradient that passes straight through all numbers leads to what quantizing after training has; with orthonormal inputs it
    is the difference. One that stops at clamped numbers does not: every block keeps its largest, which its scale follows."""
    wanted = numpy.random.default_rng(1).standard_normal((32, 64), dtype="f4")
    after = numpy.square(mxfp.fake_quantize(wanted, "mxfp4", rule=rule) - wanted).mean()

    def trained(passes):
        weights, losses = wanted[::-1] / 100, []
        for _ in range(200):
            y, clamped = mxfp.fake_quantize(weights, "mxfp4", rule=rule, clamped=True)
            losses.append(numpy.square(y - wanted).mean())
            weights = weights - numpy.where(passes(clamped), numpy.float32(0.05) * (y - wanted), 0)
        return min(losses)

    assert trained(lambda clamped: True) < 2 * after
    assert (trained(lambda clamped: clamped == 0) > 2 * after) == (rule != "rceil")
