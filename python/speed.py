# SPDX-License-Identifier: MIT
"""
Speed of the module beside its own library called from C, ml_dtypes, gguf and numpy, on one thread: processor time, the least of
several runs, which a busy machine disturbs less than time that passes. Peers that are not installed are left out.

    OPENBLAS_NUM_THREADS=1 python speed.py
"""

import ctypes
import glob
import os
import platform
import subprocess
import sys
import time

import numpy

import mxfp


def turns(calls, least=0.5):
    """The least processor time of each of some calls, which take turns, at least three and for that long each."""
    best, spent, n = [float("inf")] * len(calls), 0.0, 0
    while n < 3 or spent < least * len(calls):
        for i, call in enumerate(calls):
            begin = time.process_time()
            call()
            took = time.process_time() - begin
            best[i], spent = min(best[i], took), spent + took
        n += 1
    return best


def seconds(call):
    return turns([call])[0]


def short(call, n=2000):
    """The least processor time of one of n calls."""
    def calls():
        for _ in range(n):
            call()

    return seconds(calls) / n


class Matrix(ctypes.Structure):
    """struct mxfp_matrix."""

    _fields_ = [
        ("size", ctypes.c_size_t), ("format", ctypes.c_int), ("rows", ctypes.c_size_t), ("cols", ctypes.c_size_t),
        ("data", ctypes.c_void_p), ("stride", ctypes.c_size_t), ("scales", ctypes.c_void_p), ("scales_stride", ctypes.c_size_t),
        ("tensor_scale", ctypes.c_float), ("flags", ctypes.c_bool * 2), ("sparsity", ctypes.c_uint * 2),
        ("masks", ctypes.c_void_p), ("masks_stride", ctypes.c_size_t),
    ]  # fmt: skip


class Result(ctypes.Structure):
    """struct mxfp_result."""

    _fields_ = [
        ("size", ctypes.c_size_t), ("format", ctypes.c_int), ("data", ctypes.c_void_p), ("stride", ctypes.c_size_t),
        ("blocks", ctypes.c_void_p), ("clamped", ctypes.c_void_p), ("clamped_stride", ctypes.c_size_t),
        ("counts", ctypes.c_void_p), ("first_non_finite", ctypes.c_void_p),
    ]  # fmt: skip


class Exec(ctypes.Structure):
    """struct mxfp_exec."""

    _fields_ = [
        ("size", ctypes.c_size_t), ("threads", ctypes.c_uint), ("isa", ctypes.c_char_p), ("run", ctypes.c_void_p),
        ("run_context", ctypes.c_void_p),
    ]  # fmt: skip


def c_cast(x, codes):
    """A call of mxfp_convert() in C, from float32 to E4M3."""
    (path,) = glob.glob(os.path.join(os.path.dirname(mxfp.__file__), "libmxfp-python.so"))
    convert = ctypes.CDLL(path).mxfp_convert
    number = {name: mxfp.formats[name].number for name in ("f32", "e4m3")}
    result = Result(ctypes.sizeof(Result), number["e4m3"], codes.ctypes.data)
    matrix = Matrix(ctypes.sizeof(Matrix), number["f32"], 1, x.size, x.ctypes.data)
    one = Exec(ctypes.sizeof(Exec), 1)
    words = (ctypes.byref(result), ctypes.byref(matrix), None, ctypes.byref(one))
    assert convert(*words) == 0

    def call():
        convert(*words)

    return call


def import_time():
    """Milliseconds of processor time that import mxfp takes, the least of 20."""
    text = "from time import process_time as now; begin = now(); import mxfp; print(now() - begin)"
    return min(float(subprocess.check_output([sys.executable, "-c", text])) * 1000 for _ in range(20))


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
    ours, same = turns([lambda: mxfp.cast(x, "e4m3", out=codes), c_cast(x, codes)], 2)
    new = seconds(lambda: mxfp.cast(x, "e4m3"))
    row("float32 to E4M3, 16 Mi, into an array", rate(n, ours), "from C", f"{rate(n, same)}, {same / ours:.3f} of it")
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
        ("mxfp_convert() from C, by ctypes", c_cast(small, to)),
        ("cast into an array", lambda: mxfp.cast(small, "e4m3", out=to)),
        ("cast", lambda: mxfp.cast(small, "e4m3")),
        ("quantize", lambda: mxfp.quantize(small, "mxfp4")),
        ("dequantize", lambda: q.dequantize()),
        ("silu", lambda: mxfp.silu(small)),
    ):
        row(f"{name}, 64 numbers", f"{short(call) * 1e6:7.2f} us a call")
    row("import mxfp", f"{import_time():7.2f} ms")


if __name__ == "__main__":
    main()
