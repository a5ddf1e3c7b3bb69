# SPDX-License-Identifier: MIT
"""
Speed of the module beside ml_dtypes, gguf and numpy, on one thread: processor time, the least of several runs, which a busy machine
disturbs less than time that passes. Peers that are not installed are left out.

    OPENBLAS_NUM_THREADS=1 python speed.py
"""

import platform
import time

import numpy

import mxfp


def seconds(call, least=0.5):
    """The least processor time of a call, of at least three and for that long."""
    best, spent, n = float("inf"), 0.0, 0
    while n < 3 or spent < least:
        begin = time.process_time()
        call()
        took = time.process_time() - begin
        best, spent, n = min(best, took), spent + took, n + 1
    return best


def short(call, n=2000):
    """The least processor time of one of n calls."""
    def calls():
        for _ in range(n):
            call()

    return seconds(calls) / n


def row(what, ours, peer=None, theirs=None):
    text = f"{what:44} {ours}"
    print(text if peer is None else f"{text:64} {peer} {theirs}")


def rate(n, took):
    return f"{n / took / 1e9:7.3f} G/s"


def main():
    mxfp.set_threads(1)
    print(f"mxfp {mxfp.__version__}, tier {mxfp.isa()}, numpy {numpy.__version__}, Python {platform.python_version()}")
    n = 1 << 24
    x = numpy.random.default_rng(0).standard_normal(n, dtype=numpy.float32)
    codes = numpy.empty(n, numpy.uint8)
    ours = seconds(lambda: mxfp.cast(x, "e4m3", out=codes))
    new = seconds(lambda: mxfp.cast(x, "e4m3"))
    row("float32 to E4M3, 16 Mi, into an array", rate(n, ours))
    row("float32 to E4M3, 16 Mi, a new array", rate(n, new))
    try:
        import ml_dtypes

        theirs = seconds(lambda: x.astype(ml_dtypes.float8_e4m3fn))
        row("", f"{theirs / new:.1f} times ml_dtypes", f"ml_dtypes {ml_dtypes.__version__}", rate(n, theirs))
    except ImportError:
        pass
    m = x[: 1 << 22].reshape(1024, 4096)
    for how in ("mse", "floor"):
        took = seconds(lambda: mxfp.quantize(m, "mxfp4", rule=how))
        row(f"float32 to MXFP4, 4 Mi, rule {how}", rate(m.size, took))
    try:
        import gguf

        theirs = seconds(lambda: gguf.quants.quantize(m, gguf.GGMLQuantizationType.MXFP4))
        row("", f"{theirs / took:.1f} times gguf", "gguf", rate(m.size, theirs))
    except ImportError:
        pass
    a = numpy.random.default_rng(1).standard_normal((512, 2048), dtype=numpy.float32)
    w = numpy.random.default_rng(2).standard_normal((2048, 2048), dtype=numpy.float32)
    packed = mxfp.pack(mxfp.quantize(w, "mxfp4"), a_format="mxfp8")
    out = numpy.empty((512, 2048), numpy.float32)
    ours = seconds(lambda: mxfp.matmul(a, packed, a_format="mxfp8", out=out))
    theirs = seconds(lambda: numpy.matmul(a, w.T, out=out))
    work = 2 * a.size * w.shape[0]
    row("W4A8, 512 x 2048 by 2048 x 2048, packed", f"{work / ours / 1e9:7.1f} GFLOP/s", "numpy, float32", f"{work / theirs / 1e9:.1f}")
    row("", f"{theirs / ours:.2f} times numpy")
    small, to = numpy.ones(64, numpy.float32), numpy.empty(64, numpy.uint8)
    q = mxfp.quantize(small, "mxfp4")
    for name, call in (
        ("cast into an array", lambda: mxfp.cast(small, "e4m3", out=to)),
        ("cast", lambda: mxfp.cast(small, "e4m3")),
        ("quantize", lambda: mxfp.quantize(small, "mxfp4")),
        ("dequantize", lambda: q.dequantize()),
        ("silu", lambda: mxfp.silu(small)),
    ):
        row(f"{name}, 64 numbers", f"{short(call) * 1e6:7.2f} us a call")


if __name__ == "__main__":
    main()
