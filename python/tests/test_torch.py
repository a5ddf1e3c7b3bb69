# SPDX-License-Identifier: MIT
"""torch's tensors in and out."""

import numpy
import pytest

import mxfp

torch = pytest.importorskip("torch")

X = numpy.random.default_rng(1).standard_normal((6, 64), dtype=numpy.float32)
T = torch.from_numpy(X.copy())


def test_cast_has_torch_dtypes():
    for name, dtype in (("e4m3", "float8_e4m3fn"), ("e5m2", "float8_e5m2"), ("bf16", "bfloat16"), ("f16", "float16"), ("f32", "float32")):
        dtype = getattr(torch, dtype, None)
        if dtype is None:
            continue
        y = mxfp.cast(T, name)
        assert y.dtype == dtype and torch.equal(y.float(), T.to(dtype).float())
        assert mxfp.cast(T, dtype).dtype == dtype
        assert torch.equal(mxfp.cast(y, "f32"), y.float())
    assert mxfp.cast(T, "e2m1").dtype == torch.uint8


def test_views():
    for x in (T.T.contiguous().T, T.repeat_interleave(2, 1)[:, ::2], T[:, :], T.double(), T.clone().requires_grad_()):
        assert torch.equal(mxfp.cast(x, "f32"), T)
    assert torch.equal(mxfp.cast(T.bfloat16().T.contiguous().T, "f32"), T.bfloat16().float())


def test_quantized():
    q, p = mxfp.quantize(T, "nvfp4"), mxfp.quantize(X, "nvfp4")
    assert isinstance(q.codes, torch.Tensor) and numpy.array_equal(q.codes.numpy(), p.codes)
    assert torch.equal(q.dequantize(), torch.from_numpy(p.dequantize()))
    assert q.dequantize("bf16").dtype == torch.bfloat16 and q.dequantize(torch.float16).dtype == torch.float16
    q = mxfp.quantize(T, "mxfp4", axis=0)
    assert q.dequantize().shape == T.shape and torch.equal(q.dequantize(), torch.from_numpy(mxfp.quantize(X, "mxfp4", axis=0).dequantize()))
    out = torch.empty(64, 6)
    q.dequantize(out=out.T)
    assert torch.equal(out.T, q.dequantize())
    parts = mxfp.quantize(T, "mxfp8").to_layout()
    assert parts["weight"].dtype == torch.float8_e4m3fn and parts["weight_scale"].dtype == torch.uint8


def test_fake_quantize():
    x = T.bfloat16()
    y, clamped = mxfp.fake_quantize(x, "mxfp4", clamped=True)
    assert y.dtype == torch.bfloat16 and clamped.dtype == torch.uint8
    assert torch.equal(y.float(), mxfp.quantize(x, "mxfp4").dequantize())


def test_products_and_rows():
    w = mxfp.quantize(T, "mxfp4")
    assert numpy.array_equal(mxfp.matmul(T, w, a_format="mxfp8").numpy(), mxfp.matmul(X, mxfp.quantize(X, "mxfp4"), a_format="mxfp8"))
    x = T.bfloat16()
    assert mxfp.matmul(x, w).dtype == torch.bfloat16 and mxfp.matmul(x, w, dtype="f32").dtype == torch.float32
    assert mxfp.silu(x).dtype == torch.bfloat16 and mxfp.rms_norm(x, x[0]).dtype == torch.bfloat16
    assert torch.allclose(mxfp.softmax(T), torch.softmax(T, -1), rtol=1e-6)
    assert torch.equal(mxfp.argmax(T), T.argmax(-1)) and torch.equal(mxfp.reduce(T, "max"), T.amax(-1))
    assert torch.equal(mxfp.softmax(T, axis=0), mxfp.softmax(T.T).T)
    out = torch.empty(6, 6)
    assert mxfp.matmul(T, T, out=out) is out
    out = torch.empty(6, 6, dtype=torch.bfloat16)
    assert torch.equal(mxfp.matmul(T, T, out=out), mxfp.matmul(T, T).bfloat16())


def test_errors():
    with pytest.raises(TypeError, match="int32|integers"):
        mxfp.cast(torch.zeros(3, dtype=torch.int32), "e4m3")
    with pytest.raises(TypeError, match="complex"):
        mxfp.cast(torch.zeros(3, dtype=torch.complex64), "e4m3")
    with pytest.raises(TypeError, match="meta"):
        mxfp.cast(torch.zeros(3, device="meta"), "e4m3")
    with pytest.raises(TypeError):
        mxfp.cast(torch.zeros(2, 2).to_sparse(), "e4m3")
    with pytest.raises(ValueError, match="out"):
        mxfp.cast(T, "e4m3", out=torch.empty(3, dtype=torch.uint8))
