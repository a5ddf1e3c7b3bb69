# SPDX-License-Identifier: MIT
"""jax's arrays in; results are numpy's."""

import numpy
import pytest

import mxfp

jax = pytest.importorskip("jax")
X = numpy.random.default_rng(1).standard_normal((6, 64), dtype=numpy.float32)


def test_arrays():
    x = jax.numpy.asarray(X)
    assert numpy.array_equal(mxfp.cast(x, "e4m3"), mxfp.cast(X, "e4m3"))
    assert numpy.array_equal(mxfp.quantize(x, "nvfp4").codes, mxfp.quantize(X, "nvfp4").codes)
    assert numpy.array_equal(mxfp.cast(x.astype("bfloat16"), "f32"), numpy.asarray(x.astype("bfloat16")).astype(numpy.float32))
    assert numpy.array_equal(mxfp.cast(x.astype("float8_e4m3fn"), "f32"), numpy.asarray(x.astype("float8_e4m3fn")).astype(numpy.float32))


def test_in_jit():
    """As the documentation has it."""

    def fake(x):
        return jax.pure_callback(lambda x: mxfp.fake_quantize(x, "mxfp4"), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    assert numpy.array_equal(jax.jit(fake)(X), mxfp.fake_quantize(X, "mxfp4"))


def test_straight_through():
    @jax.custom_vjp
    def fake(x):
        return jax.pure_callback(lambda x: mxfp.fake_quantize(x, "mxfp4"), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    fake.defvjp(lambda x: (fake(x), None), lambda _, g: (g,))
    assert numpy.array_equal(jax.grad(lambda x: fake(x).sum())(X), numpy.ones_like(X))
