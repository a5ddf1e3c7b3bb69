# SPDX-License-Identifier: MIT
"""Calls with random arguments, mostly wrong: a result or an exception, and nothing else. Run under AddressSanitizer too."""

import random

import numpy
import pytest
from conftest import CALLS

import mxfp

FORMATS = [*mxfp.formats, "mxfp8", "e4m3fn", "no", "", None, 3, numpy.float32, numpy.float16, numpy.int8, float]
NUMBERS = [0, 1, -1, 2, 32, 2**31, 2**63, 2**64, -(2**63), 0.5, -1.5, 1e300, float("nan"), float("inf"), None, "a", True]


def some_array(r):
    shape = tuple(r.choice([0, 1, 2, 3, 5, 16, 31, 32, 33, 64]) for _ in range(r.choice([0, 1, 1, 2, 2, 2, 3, 4])))
    dtype = r.choice(["f4", "f4", "f4", "f2", "f8", ">f4", ">f2", "u1", "u2", "u4", "i1", "i8", "?", "c8", "O", "S2"])
    bits = numpy.random.default_rng(r.getrandbits(32))
    if dtype in ("O", "S2", "?", "c8"):
        x = numpy.zeros(shape, dtype)
    else:
        x = numpy.frombuffer(bits.bytes(int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize), dtype).reshape(shape)
    change = r.randrange(9)
    if change == 0:
        x = x.T
    elif change == 1 and x.ndim:
        x = x[::-1]
    elif change == 2 and x.ndim:
        x = x[..., ::-2]
    elif change == 3:
        x = numpy.broadcast_to(x, (2, *x.shape))
    elif change == 4:
        x = x.copy()
    return x


def some_quantized(r):
    x = numpy.random.default_rng(r.getrandbits(32)).standard_normal((r.choice([1, 2, 33]), r.choice([1, 16, 32, 40, 64])))
    q = mxfp.quantize(x, r.choice([f.name for f in mxfp.formats.values() if f.is_block]), axis=r.choice([-1, -1, -1, 0]))
    change = r.randrange(8)
    if change == 0:
        q.codes = some_array(r)
    elif change == 1:
        q.scales = some_array(r)
    elif change == 2:
        q.shape = tuple(r.choice([0, 1, 7, 1 << 40, -1]) for _ in range(r.randrange(4)))
    elif change == 3:
        q.tensor_scale = r.choice(NUMBERS)
    return q


def thing(r):
    kind = r.randrange(12)
    if kind < 7:
        return some_array(r)
    if kind < 9:
        return some_quantized(r)
    if kind == 9:
        return r.choice(NUMBERS)
    if kind == 10:
        return [1.0, [2.0]] if r.random() < 0.5 else [[1.0, 2.0], [3.0, 4.0]]
    return r.choice([b"abc", memoryview(b"abcd").cast("f"), bytearray(8), "text", object(), {}, (), lambda: 0])


def word(r, names):
    return r.choice([*names, *names, "no", None, 1])


def options(r, **more):
    """Some of the named arguments."""
    return {name: make() for name, make in more.items() if r.random() < 0.3}


def calls(r):
    array, format = lambda: thing(r), lambda: r.choice(FORMATS)
    number = lambda: r.choice(NUMBERS)
    writable = lambda: r.choice([some_array(r).copy(), None, thing(r)])
    quantizing = {
        "rule": lambda: word(r, mxfp.rules),
        "recipe": lambda: word(r, mxfp.recipes),
        "round": lambda: word(r, mxfp.rounds),
        "non_finite": lambda: word(r, mxfp.non_finites),
        "seed": number,
        "stream": number,
        "first_index": number,
        "tensor_amax": number,
        "block_rows": number,
        "via_bf16": number,
    }
    how = lambda: mxfp.Options(**options(r, **quantizing))
    ending = {"dtype": format, "out": writable, "to": format, "to_options": how}
    yield lambda: mxfp.cast(array(), format(), **options(r, round=lambda: word(r, mxfp.rounds), source=format, out=writable, seed=number))
    yield lambda: mxfp.quantize(array(), format(), **options(r, axis=number, **quantizing))
    yield lambda: mxfp.fake_quantize(array(), format(), **options(r, axis=number, dtype=format, out=writable, clamped=number, **quantizing))
    yield lambda: some_quantized(r).dequantize(**options(r, dtype=format, out=writable))
    yield lambda: some_quantized(r).elements()
    yield lambda: some_quantized(r).transpose()
    yield lambda: some_quantized(r).to_layout(r.choice(["compressed-tensors", "modelopt", "no"]))
    yield lambda: mxfp.Quantized(array(), array(), tuple(r.choice([1, 2, 32]) for _ in range(r.randrange(3))), format())
    yield lambda: mxfp.error(array(), array())
    yield lambda: mxfp.amax(array())
    yield lambda: mxfp.gemm(
        array(),
        array(),
        **options(
            r,
            bias=array,
            gate=array,
            residual=array,
            activation=lambda: word(r, mxfp.functions),
            activation_parameter=number,
            acc=lambda: word(r, mxfp.accs),
            pass_k=number,
            psum=format,
            accumulate=number,
            a_format=format,
            a_options=how,
            **ending,
        ),
    )
    yield lambda: mxfp.pack(array(), **options(r, a_format=format, pass_k=number))
    yield lambda: mxfp.apply(array(), word(r, mxfp.functions), **options(r, parameter=number, **ending))
    yield lambda: mxfp.softmax(
        array(), **options(r, axis=number, scale=number, mask=array, causal=number, causal_offset=number, sinks=array, **ending)
    )
    yield lambda: mxfp.rms_norm(array(), array(), **options(r, eps=number, residual=array, weight_plus_one=number, **ending))
    yield lambda: mxfp.layer_norm(array(), array(), array(), **options(r, eps=number, **ending))
    yield lambda: mxfp.glu(array(), r.choice([None, array()]), **options(r, limit=number, parameter=number, **ending))
    yield lambda: mxfp.add(array(), array(), **options(r, **ending))
    yield lambda: mxfp.rotary(
        array(), array(), **options(r, head_cols=number, rotary_cols=number, positions=array, first_position=number, **ending)
    )
    yield lambda: mxfp.rotary_frequencies(r.choice([0, 2, 4, -1, 3]), **options(r, base=number, scaling=format, factor=number))
    yield lambda: mxfp.reduce(array(), r.choice(["sum", "mean", "max", "no"]), **options(r, axis=number))
    yield lambda: mxfp.argmax(array(), **options(r, axis=number))


@pytest.mark.filterwarnings("ignore")
def test_random_calls():
    r = random.Random(20)
    ended = 0
    for _ in range(CALLS):
        call = r.choice(list(calls(r)))
        try:
            call()
            ended += 1
        # IndexError: of a Quantized whose shape was changed.
        except (TypeError, ValueError, OverflowError, MemoryError, IndexError):
            pass
    assert ended > CALLS // 20
