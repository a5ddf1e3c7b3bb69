# SPDX-License-Identifier: MIT
"""What is read: arrays in any order in memory, of any package, or a clear error."""

import array

import numpy
import pytest

import mxfp

BYTES = numpy.zeros((2, 15), numpy.uint8)
BASE = numpy.random.default_rng(5).standard_normal((6, 8, 64), dtype=numpy.float32)


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


# Each gives an array of the same numbers as BASE, which lies otherwise.
ORDERS = {
    "C": lambda x: x.copy(),
    "Fortran": numpy.asfortranarray,
    "transposed": lambda x: numpy.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0),
    "gaps between rows": lambda x: numpy.concatenate([x, x], axis=2)[:, :, :64],
    "gaps between numbers": lambda x: numpy.repeat(x, 2, axis=2)[:, :, ::2],
    "gaps between matrices": lambda x: numpy.repeat(x, 3, axis=0)[::3],
    "negative rows": lambda x: x[:, ::-1].copy()[:, ::-1],
    "negative numbers": lambda x: x[..., ::-1].copy()[..., ::-1],
    "big-endian": lambda x: x.astype(">f4"),
    "little-endian": lambda x: x.astype("<f4"),
    "read-only": read_only,
    "unaligned": lambda x: numpy.frombuffer(b"\0" + x.tobytes(), numpy.uint8)[1:].view(numpy.float32).reshape(x.shape),
    "float64": lambda x: x.astype(numpy.float64),
    "big-endian float64": lambda x: x.astype(">f8"),
    "a list": lambda x: x.tolist(),
    "memoryview": lambda x: memoryview(x.copy()),
}
CALLS = {
    "cast": lambda x: mxfp.cast(x, "e4m3"),
    "stochastic": lambda x: mxfp.cast(x, "e2m1", round="sr", seed=9, first_index=4),
    "mxfp4": lambda x: mxfp.quantize(x, "mxfp4").codes,
    "nvfp4": lambda x: mxfp.quantize(x, "nvfp4", round="sr", seed=4).codes,
    "mxint8 of axis 0": lambda x: mxfp.quantize(x, "mxint8", axis=0).codes,
    "fake_quantize": lambda x: mxfp.fake_quantize(x, "mxfp6-e3m2", dtype="f32"),
    "fake_quantize of axis 1": lambda x: mxfp.fake_quantize(x, "mxfp8", dtype="f32", axis=1),
    "matmul": lambda x: mxfp.matmul(x, BASE[0], a_format="mxfp8"),
    "matmul of numbers": lambda x: mxfp.matmul(x, BASE[0]),
    "silu": lambda x: mxfp.silu(x),
    "softmax": lambda x: mxfp.softmax(x),
    "softmax of axis 1": lambda x: mxfp.softmax(x, axis=1),
    "rms_norm": lambda x: mxfp.rms_norm(x, BASE[0, 0]),
    "amax": lambda x: mxfp.amax(x),
    "sum": lambda x: mxfp.reduce(x, axis=-3),
    "argmax": lambda x: mxfp.argmax(x, axis=1),
    "error": lambda x: mxfp.error(x, mxfp.quantize(BASE, "mxfp4")).sqnr,
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("call", CALLS)
def test_order(order, call):
    x = ORDERS[order](BASE)
    got, expected = CALLS[call](x), CALLS[call](BASE)
    assert numpy.array_equal(got, expected)


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("format", ["mxfp4", "mxfp6-e2m3", "nvfp4"])
def test_axis(axis, format):
    """Blocks along an axis are those of the array with that axis last."""
    q = mxfp.quantize(BASE, format, axis=axis)
    p = mxfp.quantize(numpy.ascontiguousarray(numpy.moveaxis(BASE, axis, -1)), format)
    assert numpy.array_equal(q.codes, p.codes) and numpy.array_equal(q.scales, p.scales)
    assert q.dequantize().shape == q.elements().shape == BASE.shape
    assert numpy.array_equal(q.dequantize(), numpy.moveaxis(p.dequantize(), -1, axis))
    assert numpy.array_equal(q.elements(), numpy.moveaxis(p.elements(), -1, axis))
    out = numpy.empty_like(numpy.moveaxis(BASE, axis, -1).copy())
    q.dequantize(out=numpy.moveaxis(out, -1, axis))
    assert numpy.array_equal(out, p.dequantize())
    assert mxfp.error(BASE, q).sqnr == pytest.approx(mxfp.error(numpy.moveaxis(BASE, axis, -1), p).sqnr)
    with pytest.raises(ValueError, match="axis"):
        mxfp.matmul(BASE, q) if q.axis != -1 else mxfp.quantize(BASE, format, axis=3)


@pytest.mark.parametrize("shape", [(0,), (0, 64), (3, 0), (2, 0, 5), ()])
def test_without_elements(shape):
    x = numpy.ones(shape, numpy.float32)
    assert mxfp.cast(x, "e4m3").shape == shape
    assert mxfp.fake_quantize(x, "mxfp4").shape == shape
    assert mxfp.silu(x).shape == shape
    q = mxfp.quantize(x, "mxfp4")
    assert q.dequantize().shape == shape
    assert numpy.array_equal(q.dequantize(), x)
    assert mxfp.error(x, q).n == x.size
    assert "mxfp4" in repr(q) and q.nbytes == q.codes.nbytes + q.scales.nbytes


def test_product_without_elements():
    a, w = numpy.ones((2, 0), numpy.float32), numpy.ones((3, 0), numpy.float32)
    assert numpy.array_equal(mxfp.matmul(a, w), numpy.zeros((2, 3), numpy.float32))
    assert mxfp.matmul(numpy.ones((0, 5), numpy.float32), numpy.ones((3, 5), numpy.float32)).shape == (0, 3)
    assert mxfp.matmul(numpy.ones(5, numpy.float32), numpy.ones((0, 5), numpy.float32)).shape == (0,)


def test_scalars():
    assert mxfp.cast(1.5, "e4m3").shape == ()
    assert mxfp.cast(1.5, "e4m3") == 0x3C
    assert mxfp.cast(2, "e4m3") == 0x40
    assert mxfp.cast(numpy.float32(1.5), "e4m3") == 0x3C
    assert mxfp.cast([[1, 2], [3, 4]], "f32").tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError):
        mxfp.cast([[1, 2], [3]], "e4m3")


def test_other_buffers():
    x = array.array("f", [1, 2, 3])
    assert mxfp.cast(x, "e4m3").tolist() == [0x38, 0x40, 0x44]
    assert mxfp.cast(array.array("d", [1, 2, 3]), "e4m3").tolist() == [0x38, 0x40, 0x44]
    assert mxfp.cast(b"\x38\x40", "f32", source="e4m3").tolist() == [1, 2]
    assert mxfp.cast(memoryview(x)[::-1], "f32").tolist() == [3, 2, 1]

    class Interface:
        __array_interface__ = BASE.__array_interface__
        keep = BASE

    assert numpy.array_equal(mxfp.cast(Interface(), "f32"), BASE)

    class Capsule:
        def __dlpack__(self):
            return BASE.__dlpack__()

        def __dlpack_device__(self):
            return BASE.__dlpack_device__()

    assert numpy.array_equal(mxfp.cast(Capsule(), "f32"), BASE)


@pytest.mark.parametrize(
    "interface",
    [
        None,
        {},
        {"data": (1, False), "shape": (1,)},
        {"data": 5, "shape": (1,), "typestr": "<f4"},
        {"data": (1, False), "shape": 1, "typestr": "<f4"},
        {"data": (1, False), "shape": (1,) * 40, "typestr": "<f4"},
        {"data": (1, False), "shape": (1,), "typestr": "f"},
        {"data": (1, False), "shape": (1,), "typestr": "<f4", "strides": (1, 2)},
        {"data": (1, False), "shape": ("a",), "typestr": "<f4"},
        {"data": (1, False), "shape": (-1,), "typestr": "|u1"},
        {**BASE.__array_interface__, "mask": BASE > 0},
    ],
)
def test_broken_interface(interface):
    class Broken:
        __array_interface__ = interface

    for source in (None, "e4m3"):
        with pytest.raises((TypeError, ValueError)):
            mxfp.cast(Broken(), "f32", source=source)


def test_float64_is_rounded_once_to_float32():
    assert mxfp.cast(numpy.float64([1 + 2**-24, 1 + 2**-24 + 2**-40]), "f32").tolist() == [1, 1 + 2**-23]
    assert mxfp.cast(numpy.float64([numpy.inf, -numpy.inf]), "e5m2", overflow="ovf").tolist() == [0x7C, 0xFC]
    with pytest.raises(ValueError, match="above the largest of binary32"):
        mxfp.cast(numpy.float64([1e39]), "e4m3")


@pytest.mark.parametrize(
    "x",
    [
        numpy.zeros(4, numpy.int32),
        numpy.zeros(4, bool),
        numpy.zeros(4, complex),
        numpy.zeros(4, "S3"),
        numpy.zeros(4, object),
        numpy.zeros(4, [("a", "f4")]),
        numpy.zeros(4, "M8[s]"),
        numpy.zeros(4, numpy.longdouble),
        "text",
        None,
        object(),
        {1: 2},
    ],
    ids=str,
)
def test_wrong_dtype(x):
    for call in (mxfp.amax, mxfp.silu, lambda x: mxfp.cast(x, "e4m3"), lambda x: mxfp.quantize(x, "mxfp4")):
        with pytest.raises(TypeError):
            call(x)


def test_wrong_source():
    with pytest.raises(TypeError, match="source="):
        mxfp.cast(numpy.zeros(4, numpy.uint8), "f32")
    with pytest.raises(TypeError, match="16 bits do not hold e4m3"):
        mxfp.cast(numpy.zeros(4, numpy.uint16), "f32", source="e4m3")
    with pytest.raises(TypeError, match="while x holds f16"):
        mxfp.cast(numpy.zeros(4, numpy.float16), "f32", source="bf16")
    with pytest.raises(ValueError, match="unknown value 'e4m4': did you mean 'e4m3'"):
        mxfp.cast(numpy.zeros(4, numpy.uint8), "f32", source="e4m4")


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: mxfp.cast(BASE, "mxfp5"), "format: unknown value 'mxfp5'"),
        (lambda: mxfp.cast(BASE, "mxfp4"), "mxfp4 has blocks, which quantize"),
        (lambda: mxfp.quantize(BASE, "e4m3"), "e4m3 has no blocks; cast"),
        (lambda: mxfp.quantize(BASE, "mxfp4", rule="mean"), r"rule: unknown value 'mean'.*\(scale rules: mse"),
        (lambda: mxfp.quantize(BASE, "mxfp4", recipe="te"), "recipe: 'te' is of nvfp4"),
        (lambda: mxfp.quantize(BASE, "nvfp4", rule="mse"), "rule: 'mse' is of the MX formats"),
        (lambda: mxfp.quantize(BASE, "mxfp4", tensor_amax=1.0), "tensor_amax: mxfp4 has no tensor scale"),
        (lambda: mxfp.quantize(BASE, "nvfp4", tensor_amax=-1.0), "tensor_amax: -1.0"),
        (lambda: mxfp.quantize(BASE, "mxfp4", axis=3), "axis: 3 of an array of 3 dimensions"),
        (lambda: mxfp.quantize(BASE, "mxfp4", block_rows=7), "block_rows: 7; 1, or 32"),
        (lambda: mxfp.quantize(BASE, "mxfp4", seed=-1), "seed: -1 is not from 0"),
        (lambda: mxfp.quantize([1.0, float("inf")], "mxfp4", non_finite="error"), "NaN or Inf in the input: element 1"),
        (lambda: mxfp.cast(BASE, "e4m3", out=numpy.empty(3, numpy.uint8)), r"out: its shape is \(3,\)"),
        (lambda: mxfp.cast(BASE, "e4m3", out=read_only(numpy.empty(BASE.shape, numpy.uint8))), "read-only"),
        (lambda: mxfp.matmul(BASE, BASE), "a matrix"),
        (lambda: mxfp.matmul(BASE, BASE[0, :, :63]), "last dimension is not the 63"),
        (lambda: mxfp.gemm(BASE, BASE[0], bias=numpy.ones(3, numpy.float32)), "bias: 8 numbers"),
        (lambda: mxfp.gemm(BASE, BASE[0], residual=numpy.ones((3, 8), numpy.float32)), "shapes do not agree"),
        (lambda: mxfp.gemm(BASE, BASE[0], accumulate=True), "accumulate: it needs `out`"),
        (lambda: mxfp.gemm(BASE, BASE[0], pass_k=100), "pass_k: 100; 128, 256 or 512"),
        (lambda: mxfp.rms_norm(BASE, BASE[0, 0, :5]), "weight: 64 numbers"),
        (lambda: mxfp.rms_norm(BASE, eps=-1.0), "eps: -1.0"),
        (lambda: mxfp.apply(BASE, "sil"), "function: unknown value 'sil': did you mean 'silu'"),
        (lambda: mxfp.add(BASE, BASE[0]), "b: shape"),
        (lambda: mxfp.glu(BASE[..., :63]), "even"),
        (lambda: mxfp.error(BASE, BASE[0]), "q: shape"),
        (lambda: mxfp.matmul(BASE[0], BASE[0].T), "pass w.T"),
        (lambda: mxfp.quantize(BASE, "mxfp6"), "did you mean 'mxfp6-e3m2'"),
        (lambda: mxfp.gemm(BASE, BASE[0], pass_k=2**32 + 128), "pass_k: 4294967424"),
        (lambda: mxfp.quantize(BASE, "mxfp4", block_rows=2**64), "block_rows: 18446744073709551616"),
        (lambda: mxfp.rotary(BASE, numpy.ones(32), first_position=2**32), "first_position: 4294967296"),
        (lambda: mxfp.set_threads(-1), "-1 threads"),
        (lambda: mxfp.set_threads(2**64), "18446744073709551616 threads"),
        (lambda: mxfp.reduce(BASE, "product"), "reduction: unknown value"),
        (lambda: mxfp.reduce(BASE[:0], "max", axis=0), "size"),
        (lambda: mxfp.cast(BASE, "e4m3\0"), "format: unknown value"),
        (lambda: mxfp.cast(BYTES, "f32", source="e4m3\0fn"), "source: unknown value"),
        (lambda: mxfp.quantize(BASE, "fp4"), "did you mean 'mxfp4' or 'nvfp4'"),
        (lambda: mxfp.quantize(BASE, "nvfp4-w4a4"), "did you mean 'nvfp4'"),
        (lambda: mxfp.quantize(BASE, "MXFP4"), "did you mean 'mxfp4'"),
        (lambda: mxfp.quantize(BASE, "e4m3"), "did you mean 'mxfp8-e4m3'"),
        (lambda: mxfp.quantize(BASE, "e2m1"), "did you mean 'mxfp4' or 'nvfp4'"),
        (lambda: mxfp.quantize(BASE, "nvfp4", via_bf16=True), "via_bf16: it is of the MX formats"),
        (lambda: mxfp.quantize(BASE, "nvfp4", block_rows=32), "block_rows: 32; nvfp4 has no squares"),
        (lambda: mxfp.quantize(BASE, "nvfp4", recipe="ggml", round="sr"), "round: 'sr'; recipe 'ggml'"),
        (lambda: mxfp.quantize(BASE, "nvfp4", tensor_amax=1e300), "tensor_amax: 1e\\+300"),
        (lambda: mxfp.quantize(BASE, "nvfp4", tensor_amax=float("nan")), "tensor_amax: nan"),
        (lambda: mxfp.fake_quantize(BASE, "mxfp4", dtype="e4m3"), "dtype: e4m3; results here are f32, bf16 or f16"),
        (lambda: mxfp.silu(BASE, dtype="f16"), "dtype: f16; results here are f32 or bf16"),
        (lambda: mxfp.silu(BASE, out=numpy.empty(BASE.shape, numpy.float16)), "out: f16; results here are f32 or bf16"),
        (lambda: mxfp.leaky_relu(BASE, parameter=float("inf")), "parameter: inf"),
        (lambda: mxfp.glu(BASE, BASE, limit=-1.0), "limit: -1.0"),
        (lambda: mxfp.silu(BASE, to="nvfp4"), "to_options: nvfp4 needs tensor_amax"),
        (lambda: mxfp.silu(BASE, to="mxfp4", to_options=mxfp.Options(block_rows=32)), "to_options: block_rows 32"),
        (lambda: mxfp.silu(BASE, to="mxfp4", to_options=mxfp.Options(non_finite="error")), "to_options: non_finite 'error'"),
        (lambda: mxfp.gemm(BASE, BASE[0], psum="f16"), "psum: 'f16'"),
        (lambda: mxfp.gemm(BASE, BASE[0], psum_round="rtz"), "psum_round: 'rtz'"),
        (lambda: mxfp.gemm(BASE, BASE[0], acc="hoper"), "acc: unknown value 'hoper': did you mean 'hopper'"),
        (lambda: mxfp.gemm(BASE, BASE[0], acc="hopper"), "a is f32, w is f32; 'hopper' takes a in .*bf16.*takes these: acc='exact'"),
        (lambda: mxfp.pack(BASE[0], acc="hopper"), "acc: w is f32; 'hopper' takes"),
        (lambda: mxfp.matmul(mxfp.quantize(BASE[0], "mxfp4"), BASE[0], a_format="mxfp8"), "a_format: mxfp8-e4m3, while a is mxfp4"),
        (lambda: mxfp.gemm(BASE, BASE[0], a_format="mxfp4", a_options=mxfp.Options(block_rows=32)), "a_options: block_rows 32"),
        (lambda: mxfp.reduce(BASE, "su"), "did you mean 'sum'"),
        (lambda: mxfp.rotary_frequencies(4, scaling="yarm"), "did you mean 'yarn'"),
        (lambda: mxfp.Quantized(BYTES, BYTES, (2, 32), "mxfp4"), "codes: shape"),
    ],
)
def test_wrong_values(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: mxfp.quantize(BASE, "mxfp4", seed=0.5), "seed: an integer is needed, not 0.5"),
        (lambda: mxfp.quantize(BASE, "mxfp4", block_rows="32"), "block_rows: an integer"),
        (lambda: mxfp.quantize(BASE, "nvfp4", tensor_amax="1"), "tensor_amax: a number"),
        (lambda: mxfp.gemm(BASE, BASE[0], a_format="mxfp4", a_options={"rule": "mse"}), "a_options: mxfp.Options is needed"),
        (lambda: mxfp.rms_norm(BASE, eps=None), "eps: a number"),
        (lambda: mxfp.quantize(BYTES, "mxfp4"), "x: integers"),
        (lambda: mxfp.gemm(BASE, BASE[0], residual=BYTES), "residual: integers"),
        (lambda: mxfp.gemm(BASE, BASE[0], bias=numpy.zeros(3, complex)), "bias: dtype complex"),
        (lambda: mxfp.cast(["1", "2"], "e4m3"), "x: numbers are needed"),
        (lambda: mxfp.cast([1.0, None], "e4m3"), "x: numbers are needed, not None"),
        (lambda: mxfp.matmul(BASE, [[1.0, "2"]]), "w: numbers are needed"),
        (lambda: mxfp.rotary(BASE, numpy.ones(32), positions=[0.5] * 48), "positions: integers"),
        (lambda: mxfp.amax(numpy.ma.masked_less(BASE, 0)), "x: a masked array.*filled"),
        (lambda: mxfp.matmul(BASE, numpy.ma.masked_less(BASE[0], 0)), "w: a masked array"),
        (lambda: mxfp.amax([[numpy.ma.masked_less(BASE[0], 0)]]), "x: a masked array"),
        (lambda: mxfp.amax([1.0, numpy.ma.masked]), "x: a masked array"),
        (lambda: mxfp.fake_quantize(BASE, "mxfp4", out=BASE.astype("i4")), "out: an array of integers"),
        (lambda: mxfp.quantize(BASE, "nvfp4", tensor_amax=numpy.ones(2)), "tensor_amax: a number"),
        (lambda: mxfp.fake_quantize(BASE, "mxfp4", out=numpy.ma.array(BASE)), "out: a masked array"),
    ],
)
def test_wrong_kinds(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_wrong_lists():
    with pytest.raises(ValueError, match="x: the lists have different lengths"):
        mxfp.amax([[1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="x: an integer that float64 does not hold"):
        mxfp.amax([1 << 2000])


def test_big_endian_codes():
    """ml_dtypes' arrays in the other byte order, which the buffer protocol does not know."""
    bf16 = numpy.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    x = BASE.astype(bf16)
    assert numpy.array_equal(mxfp.cast(x.astype(bf16.newbyteorder()), "f32"), x.astype(numpy.float32))
    with pytest.raises(ValueError, match="byte order"):
        mxfp.cast(BASE, "bf16", out=numpy.empty(BASE.shape, bf16.newbyteorder()))


@pytest.mark.parametrize("major", [0, 1])
def test_dlpack(major):
    """Where an object lies is asked first; whether it is read-only is known from version 1.0 on."""
    asked = []

    class Capsule:
        def __init__(self, x, device=1):
            self.x, self.device = x, device

        def __dlpack__(self, **how):
            asked.append(how)
            if how and not major:
                raise TypeError("no such argument")
            return self.x.__dlpack__(**how)

        def __dlpack_device__(self):
            return self.device, 0

    if major and tuple(map(int, numpy.__version__.split(".")[:2])) < (2, 1):
        pytest.skip("numpy before 2.1 has DLPack 0.x")
    assert numpy.array_equal(mxfp.cast(Capsule(BASE), "f32"), BASE)
    del asked[:]
    with pytest.raises(TypeError, match="x: lies on another device"):
        mxfp.cast(Capsule(BASE, 2), "f32")
    assert not asked
    if major:
        assert numpy.array_equal(mxfp.cast(Capsule(read_only(BASE)), "f32"), BASE)
        with pytest.raises(ValueError, match="out: is read-only"):
            mxfp.cast(Capsule(BASE), "f32", out=Capsule(read_only(BASE)))


def test_rows_of_numbers():
    """A bias is read as x is: lists, binary64, any strides."""
    expected = mxfp.matmul(BASE, BASE[0]) + numpy.arange(8, dtype=numpy.float32)
    for bias in (list(range(8)), numpy.arange(8.0), numpy.arange(16, dtype=numpy.float16)[:8], numpy.arange(7, -1, -1, dtype="f4")[::-1]):
        assert numpy.array_equal(mxfp.gemm(BASE, BASE[0], bias=bias), expected)
    with pytest.raises(TypeError, match="bias: integers"):
        mxfp.gemm(BASE, BASE[0], bias=numpy.arange(8))


def test_no_rows_of_many():
    """Nothing is computed for 0 x 2^61 numbers, of which a row has 2^63 bytes."""

    class Rows:
        __array_interface__ = {"data": (1, False), "shape": (0, 1 << 61), "typestr": "<f4"}

    q = mxfp.Quantized(numpy.empty((0, 1 << 60), numpy.uint8), numpy.empty((0, 1 << 56), numpy.uint8), (0, 1 << 61), "mxfp4")
    with pytest.raises(MemoryError):
        mxfp.error(Rows(), q)


def test_wrong_out():
    with pytest.raises(TypeError):
        mxfp.cast(BASE, "e4m3", out=numpy.empty(BASE.shape, numpy.float32))
    with pytest.raises(TypeError):
        mxfp.quantize(BASE, "mxfp4").dequantize("f32", out=numpy.empty(BASE.shape, numpy.float16))
    with pytest.raises(ValueError):
        mxfp.matmul(BASE, BASE[0], out=numpy.empty((6, 8, 8), numpy.float16))
    for out in ([1.0, 2.0], 1.0, numpy.float32(1), b"12345678"):
        with pytest.raises((TypeError, ValueError), match="out|read-only"):
            mxfp.cast([1.0, 2.0], "f32", out=out)
    with pytest.raises(ValueError, match="rows of numbers side by side"):
        mxfp.cast(BASE, "e4m3", out=numpy.empty(BASE.shape[::-1], numpy.uint8).T)


def test_out():
    out = numpy.empty(BASE.shape, numpy.float16)
    assert mxfp.cast(BASE, "f16", out=out) is out
    assert numpy.array_equal(out, BASE.astype(numpy.float16))
    x = BASE.copy()
    assert mxfp.fake_quantize(x, "mxfp4", out=x) is x
    assert numpy.array_equal(x, mxfp.fake_quantize(BASE, "mxfp4"))
    x = BASE.copy()
    assert mxfp.silu(x, out=x) is x
    assert numpy.array_equal(x, mxfp.silu(BASE))
    out = numpy.empty(BASE.shape, numpy.float16)
    assert numpy.array_equal(mxfp.quantize(BASE, "mxfp4").dequantize(out=out), mxfp.quantize(BASE, "mxfp4").dequantize("f16"))
    wide = numpy.zeros((48, 100), numpy.float32)
    mxfp.quantize(BASE.reshape(48, 64), "mxfp8").dequantize(out=wide[:, 10:74])
    assert numpy.array_equal(wide[:, 10:74], mxfp.quantize(BASE.reshape(48, 64), "mxfp8").dequantize())
    assert not wide[:, :10].any() and not wide[:, 74:].any()


def test_overlap_is_refused():
    x = numpy.ones(100, numpy.float32)
    with pytest.raises(ValueError, match="overlap"):
        mxfp.cast(x[:50], "f32", out=x[1:51])


def test_pickle():
    import pickle

    q = pickle.loads(pickle.dumps(mxfp.quantize(BASE, "nvfp4", axis=0)))
    assert numpy.array_equal(q.dequantize(), mxfp.quantize(BASE, "nvfp4", axis=0).dequantize())
    packed = mxfp.pack(mxfp.quantize(BASE[0], "mxfp4"), a_format="mxfp8")
    again = pickle.loads(pickle.dumps(packed))
    assert numpy.array_equal(mxfp.matmul(BASE, again, a_format="mxfp8"), mxfp.matmul(BASE, packed, a_format="mxfp8"))


def parts(format="mxfp4", **more):
    q = mxfp.quantize(BASE[0], format, **more)
    return {"codes": q.codes, "scales": q.scales, "shape": q.shape, "format": q.format}


def test_parts():
    """Codes and scales are bytes, or in a dtype of their format."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    good = parts("mxfp8")
    expected = mxfp.Quantized(**good)
    for change in (
        {"codes": good["codes"].view(ml_dtypes.float8_e4m3fn)},
        {"codes": good["codes"].view(numpy.int8)},
        {"scales": good["scales"].view(ml_dtypes.float8_e8m0fnu)},
        {"tensor_scale": numpy.float64(1)},
    ):
        assert mxfp.Quantized(**good | change) == expected
    nvfp4 = parts("nvfp4")
    # A tensor scale as files have it.
    assert mxfp.Quantized(**nvfp4 | {"tensor_scale": numpy.array([2.0], "f4")}) == mxfp.Quantized(**nvfp4 | {"tensor_scale": 2.0})
    assert mxfp.Quantized(**nvfp4 | {"scales": nvfp4["scales"].view(ml_dtypes.float8_e4m3fn)}) == mxfp.Quantized(**nvfp4)
    for words, made, change in (
        ("codes: e4m3fnuz; .* codes in e4m3", good, {"codes": good["codes"].view(ml_dtypes.float8_e4m3fnuz)}),
        ("codes: e5m2; ", good, {"codes": good["codes"].view(ml_dtypes.float8_e5m2)}),
        ("codes: numbers in floating point", good, {"codes": good["codes"].astype(numpy.float32)}),
        ("codes: elements of 64 bits", good, {"codes": good["codes"].astype(numpy.int64)}),
        ("codes: dtype bool", good, {"codes": good["codes"] > 0}),
        ("scales: numbers in floating point; .* codes in e8m0", good, {"scales": good["scales"].astype(numpy.float32)}),
        ("scales: numbers in floating point", good, {"scales": good["scales"].astype(numpy.float64)}),
        ("scales: e4m3; ", good, {"scales": good["scales"].view(ml_dtypes.float8_e4m3fn)}),
        ("scales: e8m0; .* codes in ue4m3", nvfp4, {"scales": nvfp4["scales"].view(ml_dtypes.float8_e8m0fnu)}),
        ("codes: e2m1; ", nvfp4, {"codes": nvfp4["codes"].view(ml_dtypes.float4_e2m1fn)}),
        ("scales: a masked array", good, {"scales": numpy.ma.array(good["scales"])}),
        ("tensor_scale: a number", nvfp4, {"tensor_scale": "1"}),
        ("tensor_scale: a number", nvfp4, {"tensor_scale": numpy.ones(2)}),
        ("shape: an integer", good, {"shape": (8.0, 64)}),
    ):
        with pytest.raises(TypeError, match=words):
            mxfp.Quantized(**made | change)
        # So is what is put in later.
        if not {"shape", "tensor_scale"} & set(change) and "64 bits" not in words:
            q = mxfp.Quantized(**made)
            for name, part in change.items():
                setattr(q, name, part)
            for call in (q.dequantize, q.elements, lambda: mxfp.matmul(BASE[0], q), lambda: mxfp.error(BASE[0], q)):
                with pytest.raises(TypeError, match=words):
                    call()
    for words, made, change in (
        ("tensor_scale: 2.0; mxfp8-e4m3 has none", good, {"tensor_scale": 2.0}),
        ("tensor_scale: 1.0; mxfp8-e4m3 has none", good, {"tensor_scale_divides": True}),
        ("tensor_scale: nan", nvfp4, {"tensor_scale": float("nan")}),
        ("tensor_scale: inf", nvfp4, {"tensor_scale": float("inf")}),
        ("tensor_scale: -1.0", nvfp4, {"tensor_scale": -1.0}),
        ("tensor_scale: 1e\\+39", nvfp4, {"tensor_scale": 1e39}),
        ("tensor_scale: 0.0, by which", nvfp4, {"tensor_scale": 0.0, "tensor_scale_divides": True}),
        ("tensor_scale: 1e-50, by which", nvfp4, {"tensor_scale": 1e-50, "tensor_scale_divides": True}),
        ("shape: -1", good, {"shape": (-1, 64)}),
    ):
        with pytest.raises(ValueError, match=words):
            mxfp.Quantized(**made | change)


@pytest.mark.parametrize("recipe", mxfp.recipes)
@pytest.mark.parametrize("largest", [0, 1e-45, 1e-37, 1, 3.4e38])
def test_own_parts(recipe, largest):
    """What quantize() makes is never refused."""
    x = numpy.float32([[largest, -largest / 2, 0] * 16])
    q = mxfp.quantize(x, "nvfp4", recipe=recipe)
    more = {"tensor_scale": q.tensor_scale, "tensor_scale_divides": q.tensor_scale_divides}
    p = mxfp.Quantized(q.codes, q.scales, q.shape, q.format, **more)
    assert p == q and numpy.array_equal(p.dequantize(), q.dequantize(), equal_nan=True)


def test_equal():
    q, p = mxfp.quantize(BASE, "mxfp4"), mxfp.quantize(BASE, "mxfp4", rule="mse")
    assert q == p and not q != p and hash(q) == hash(p) and len({q, p}) == 1
    assert mxfp.Quantized(q.codes[::1, ::-1][:, ::-1], q.scales, q.shape, "mxfp4") == q
    for other in (
        mxfp.quantize(BASE, "mxfp4", rule="ceil"),
        mxfp.quantize(-BASE, "mxfp4"),
        mxfp.quantize(BASE, "mxfp6-e2m3"),
        mxfp.quantize(BASE, "mxfp4", axis=1),
        mxfp.quantize(BASE[:2], "mxfp4"),
        mxfp.quantize(BASE.reshape(48, 64), "mxfp4"),
        None,
        "mxfp4",
        q.codes.tobytes(),
    ):
        assert q != other and (q == other) is False
    a = mxfp.quantize(BASE, "nvfp4")
    b = mxfp.Quantized(a.codes, a.scales, a.shape, "nvfp4", tensor_scale=a.tensor_scale * 2, tensor_scale_divides=True)
    c = mxfp.Quantized(a.codes, a.scales, a.shape, "nvfp4", tensor_scale=a.tensor_scale)
    assert a != b and a != c and b != c


def test_asarray():
    q = mxfp.quantize(BASE, "nvfp4", axis=1)
    assert numpy.asarray(q).dtype == numpy.float32 and numpy.array_equal(numpy.asarray(q), q.dequantize())
    assert numpy.asarray(q, dtype="f8").dtype == numpy.float64
    assert numpy.array_equal(numpy.subtract(BASE, q), BASE - q.dequantize())
    with pytest.raises(ValueError):
        q.__array__(copy=False)


@pytest.mark.parametrize("path", ["/models/x\0/etc", b"/models/x\0/etc", "\0"])
def test_nul(path):
    with pytest.raises((ValueError, NotImplementedError), match="NUL|built without"):
        mxfp.open(path)
