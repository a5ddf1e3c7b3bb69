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
    assert parts["weight"].dtype == getattr(torch, "float8_e4m3fn", torch.uint8) and parts["weight_scale"].dtype == torch.uint8


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


CALLS = {
    "cast": lambda x: mxfp.cast(x, "f32"),
    "quantize": lambda x: mxfp.quantize(x, "mxfp4").dequantize(),
    "fake_quantize": lambda x: mxfp.fake_quantize(x, "nvfp4", dtype="f32"),
    "fake_quantize of axis 0": lambda x: mxfp.fake_quantize(x, "mxfp8", axis=0, dtype="f32"),
    "matmul": lambda x: mxfp.matmul(x, T, dtype="f32"),
    "matmul, w": lambda x: mxfp.matmul(T, x),
    "matmul, a_format": lambda x: mxfp.matmul(x, T, a_format="mxfp8", dtype="f32"),
    "bias": lambda x: mxfp.gemm(T, T, bias=x.reshape(-1)[:6]),
    "gate": lambda x: mxfp.gemm(T[:6, :6], T[:6, :6], gate=x[:6, :6]),
    "residual": lambda x: mxfp.gemm(T[:6, :6], T[:6, :6], residual=x[:6, :6]),
    "pack": lambda x: mxfp.matmul(T, mxfp.pack(x)),
    "error": lambda x: torch.tensor(mxfp.error(x, T).mse),
    "error, q": lambda x: torch.tensor(mxfp.error(T, x).mse),
    "amax": lambda x: torch.tensor(mxfp.amax(x)),
    "silu": lambda x: mxfp.silu(x, dtype="f32"),
    "softmax": lambda x: mxfp.softmax(x, dtype="f32"),
    "mask": lambda x: mxfp.softmax(T, mask=x),
    "rms_norm": lambda x: mxfp.rms_norm(x, dtype="f32"),
    "weight": lambda x: mxfp.rms_norm(T, x[0]),
    "layer_norm, bias": lambda x: mxfp.layer_norm(T, T[0], x[0]),
    "add, b": lambda x: mxfp.add(T, x),
    "glu, up": lambda x: mxfp.glu(T, x),
    "rotary": lambda x: mxfp.rotary(x, T[0, :32], dtype="f32"),
    "frequencies": lambda x: mxfp.rotary(T, x[0, :32]),
    "reduce": lambda x: mxfp.reduce(x),
    "argmax": lambda x: mxfp.argmax(x, axis=0),
}
# Views whose memory has other numbers than they have.
VIEWS = {
    "negative": lambda: torch._neg_view(T),
    "negative bf16": lambda: torch._neg_view(T.bfloat16()),
    "imaginary part of a conjugate": lambda: torch.complex(T, T + 1).conj().imag,
    "negative, strided": lambda: torch._neg_view(T.repeat_interleave(2, 1))[:, ::2],
    "negative, with a gradient": lambda: torch._neg_view(T.clone().requires_grad_()),
    "zeros": lambda: torch._efficientzerotensor(T.shape),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("call", CALLS)
def test_lazy_views(view, call):
    x = VIEWS[view]()
    plain = torch.from_numpy((x.detach() + 0).float().numpy().copy()).to(x.dtype)
    assert torch.equal(CALLS[call](x), CALLS[call](plain))


@pytest.mark.parametrize("view", VIEWS)
def test_out_is_no_lazy_view(view):
    out = VIEWS[view]().detach()
    before = (out + 0).clone()
    for call in (
        lambda: mxfp.cast(T, "f32", out=out),
        lambda: mxfp.fake_quantize(T, "mxfp4", out=out),
        lambda: mxfp.silu(T, out=out),
        lambda: mxfp.quantize(T, "mxfp4").dequantize(out=out),
        lambda: mxfp.gemm(T, torch.ones(64, 64), out=out),
    ):
        with pytest.raises(TypeError, match="out: .*numbers are others|out: "):
            call()
    assert torch.equal(out + 0, before)


def test_codes_are_no_lazy_view():
    q = mxfp.quantize(T, "mxint8")
    codes = torch._neg_view(q.codes.view(torch.int8))
    p = mxfp.Quantized(codes, q.scales, q.shape, "mxint8")
    assert p == mxfp.Quantized(-q.codes.view(torch.int8), q.scales, q.shape, "mxint8") and p != q


def refused():
    """Tensors without memory of numbers, by name."""
    yield "meta", lambda: torch.zeros(6, 64, device="meta")
    yield "sparse", lambda: T.to_sparse()
    yield "sparse rows", lambda: T.to_sparse_csr()
    yield "quantized", lambda: torch.quantize_per_tensor(T, 0.1, 0, torch.qint8)
    yield "complex", lambda: torch.complex(T, T)
    yield "boolean", lambda: T > 0
    yield "nested", lambda: torch.nested.nested_tensor([T, T]) if hasattr(torch.nested, "nested_tensor") else torch.nested_tensor([T, T])
    yield "mkldnn", lambda: T.to_mkldnn()
    yield "jagged", lambda: torch.nested.nested_tensor([T, T], layout=torch.jagged)
    yield "fake", lambda: __import__("torch._subclasses")._subclasses.FakeTensorMode().from_tensor(T)


@pytest.mark.parametrize("name, make", refused(), ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.filterwarnings("ignore")
def test_refused(name, make):
    try:
        x = make()
    except (AttributeError, RuntimeError, NotImplementedError, ImportError) as error:
        pytest.skip(f"torch here has none: {error}")
    for call in (mxfp.amax, mxfp.silu, lambda x: mxfp.cast(x, "e4m3"), lambda x: mxfp.matmul(T, x), lambda x: mxfp.cast(T, "f32", out=x)):
        with pytest.raises(TypeError, match="^[a-z]+: "):
            call(x)


def test_transforms():
    """Tensors inside vmap and grad have no memory that may be read."""
    try:
        from torch.func import grad, vmap
    except ImportError:
        pytest.skip("torch before 2.0")
    for transform in (vmap(lambda x: mxfp.cast(x, "f32")), grad(lambda x: mxfp.cast(x, "f32").sum())):
        with pytest.raises(TypeError, match="x: its memory cannot be read"):
            transform(T)
    assert torch.equal(vmap(lambda x: x + mxfp.cast(T[0], "f32"))(T), T + T[0])


def recorders():
    """What calls a function once, to write down what functions of torch it calls."""
    yield "trace", lambda f: torch.jit.trace(f, (T,), check_trace=False)
    yield "make_fx", lambda f: __import__("torch.fx.experimental.proxy_tensor").fx.experimental.proxy_tensor.make_fx(f)(T)
    yield "functionalize", lambda f: torch.func.functionalize(f)(T)
    yield "export", lambda f: torch.export.export(type("M", (torch.nn.Module,), {"forward": lambda self, x: f(x)})(), (T,), strict=False)


@pytest.mark.parametrize("name, record", recorders(), ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.filterwarnings("ignore")
def test_recorded(name, record):
    """A record would have the memory of the result, and not what is written there."""
    if name != "trace" and not hasattr(torch, "export"):
        pytest.skip("torch before 2.1")
    for call in (lambda x: mxfp.cast(x, "f32"), lambda x: mxfp.quantize(x + 1, "mxfp4").codes):
        with pytest.raises(TypeError, match="x: (torch is recording|a FakeTensor|a tensor of torch.func.functionalize)"):
            record(call)
    assert torch.equal(mxfp.cast(T, "f32"), T)


def test_subclasses():
    class Plain(torch.Tensor):
        pass

    assert torch.equal(mxfp.cast(T.as_subclass(Plain), "f32"), T)
    assert torch.equal(mxfp.cast(torch.nn.Parameter(T), "f32"), T)

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, x):
            return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)

        def __init__(self, x):
            self.x = x

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError

    for call in (lambda x: mxfp.cast(x, "f32"), lambda x: mxfp.cast(T, "f32", out=x)):
        with pytest.raises(TypeError, match="a Wrapper, whose numbers lie in other tensors"):
            call(Wrapper(T))


def test_gradients():
    """As torch's functions do, out= refuses what a gradient is wanted of, and counts as a change."""
    w = T.clone().requires_grad_()
    with pytest.raises(ValueError, match="out: requires grad"):
        mxfp.fake_quantize(w, "mxfp4", out=w)
    assert torch.equal(w, T)
    with torch.no_grad():
        assert torch.equal(mxfp.fake_quantize(w, "mxfp4", out=w), mxfp.fake_quantize(T, "mxfp4"))
    if hasattr(torch.autograd.graph, "increment_version"):
        y = (w * w).sum()
        mxfp.fake_quantize(T, "mxfp4", out=w.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
    with torch.inference_mode():
        x = T + 1
    assert torch.equal(mxfp.cast(T, "f32", out=x), T)


def test_parts_in_torch_dtypes():
    q = mxfp.quantize(T, "mxfp8")
    for name, good in (("float8_e4m3fn", True), ("float8_e4m3fnuz", False), ("float8_e5m2", False)):
        if not hasattr(torch, name):
            continue
        make = lambda: mxfp.Quantized(q.codes.view(getattr(torch, name)), q.scales, q.shape, "mxfp8")
        if good:
            assert make() == q
        else:
            with pytest.raises(TypeError, match="codes: e.*codes in e4m3"):
                make()
    with pytest.raises(TypeError, match="scales: numbers in floating point"):
        mxfp.Quantized(q.codes, q.scales.float(), q.shape, "mxfp8")
    with pytest.raises(TypeError, match="codes: lies on device meta"):
        mxfp.Quantized(q.codes.to("meta"), q.scales, q.shape, "mxfp8")
    assert numpy.array_equal(numpy.asarray(q), q.dequantize().numpy())
    assert q == mxfp.quantize(X, "mxfp8") and mxfp.quantize(X, "mxfp8") == q


def test_default_device():
    if not hasattr(torch, "set_default_device"):
        pytest.skip("torch before 2.0")
    with torch.device("meta"):
        assert torch.equal(mxfp.cast(T, "f32").to("cpu"), T) and mxfp.quantize(T, "mxfp4").codes.device.type == "cpu"


def test_too_large():
    with pytest.raises(MemoryError):
        mxfp.cast(torch.zeros(1).expand(1 << 60), "f32")
    with pytest.raises(MemoryError):
        mxfp.amax(torch.zeros(1).expand(1 << 60))
