# SPDX-License-Identifier: MIT
"""References, memory, threads, processes and interpreters."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import CALLS

import mxfp

X = numpy.random.default_rng(1).standard_normal((4, 64), dtype=numpy.float32)
Q = mxfp.quantize(X, "nvfp4")
BIG_ENDIAN = X.astype(">f4")
PACKED = mxfp.pack(Q)


def raises(call):
    try:
        call()
    except (TypeError, ValueError):
        return
    raise AssertionError("no error")


EACH = {
    "cast": lambda: mxfp.cast(X, "e4m3"),
    "cast with counts": lambda: mxfp.cast(X, "e4m3", counts=mxfp.Counts()),
    "cast of a copy": lambda: mxfp.cast(BIG_ENDIAN, "e4m3"),
    "cast of a list": lambda: mxfp.cast([1.0, 2.0], "e4m3"),
    "quantize": lambda: mxfp.quantize(X, "nvfp4"),
    "quantize of another axis": lambda: mxfp.quantize(X, "mxfp4", axis=0),
    "dequantize": lambda: Q.dequantize(),
    "elements": lambda: Q.elements(),
    "fake_quantize": lambda: mxfp.fake_quantize(X, "mxfp4", clamped=True),
    "error": lambda: mxfp.error(X, Q),
    "amax": lambda: mxfp.amax(X),
    "gemm": lambda: mxfp.gemm(X, Q, bias=X[0, :4], gate=X[:, :4], residual=X[:, :4], to="mxfp8"),
    "gemm with packed": lambda: mxfp.matmul(X, PACKED),
    "pack": lambda: mxfp.pack(Q),
    "silu": lambda: mxfp.silu(X, to="mxfp4"),
    "softmax": lambda: mxfp.softmax(X, mask=X, causal=True),
    "rms_norm": lambda: mxfp.rms_norm(X, X[0], residual=X),
    "layer_norm": lambda: mxfp.layer_norm(X, X[0], X[1]),
    "glu": lambda: mxfp.glu(X, X),
    "rotary": lambda: mxfp.rotary(X, mxfp.rotary_frequencies(64)[0], positions=[1, 2, 3, 4]),
    "reduce": lambda: mxfp.reduce(X),
    "argmax": lambda: mxfp.argmax(X),
    "isas": lambda: mxfp.isas(),
    "wrong dtype": lambda: raises(lambda: mxfp.cast(numpy.zeros(3, numpy.int32), "e4m3")),
    "wrong axis": lambda: raises(lambda: mxfp.quantize(X, "mxfp4", axis=5)),
    "wrong shape": lambda: raises(lambda: mxfp.matmul(X, X[:, :3])),
    "wrong bias": lambda: raises(lambda: mxfp.gemm(X, Q, bias=X[0, :3], gate=X[:, :4])),
    "wrong mask": lambda: raises(lambda: mxfp.softmax(X, mask=X[:, :3])),
    "wrong residual": lambda: raises(lambda: mxfp.rms_norm(X, X[0], residual=X[0])),
    "wrong out": lambda: raises(lambda: mxfp.cast(X, "e4m3", out=X)),
    "not finite": lambda: raises(lambda: mxfp.quantize([numpy.nan], "mxfp4", non_finite="error")),
    "no array": lambda: raises(lambda: mxfp.cast(object(), "e4m3")),
    "packed for others": lambda: raises(lambda: mxfp.matmul(X, PACKED, a_format="mxfp8")),
}


def counts():
    return [sys.getrefcount(x) for x in (X, Q, Q.codes, Q.scales, BIG_ENDIAN, PACKED, PACKED.data, None, True, "e4m3")]


@pytest.mark.parametrize("name", EACH)
def test_references(name):
    """As many blocks of memory and references after many calls as after a few."""
    call = EACH[name]
    for _ in range(50):
        call()
    gc.collect()
    references, blocks = counts(), sys.getallocatedblocks()
    for _ in range(CALLS):
        call()
    gc.collect()
    # A few blocks come and go with the caches of the interpreter.
    assert abs(sys.getallocatedblocks() - blocks) < 100 + CALLS // 100
    assert max(abs(a - b) for a, b in zip(counts(), references)) < 100


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_memory_is_released():
    """The process does not grow: copies, workspaces and results of 4 MB each."""
    x = numpy.ones((1024, 1024), numpy.float64)
    w = mxfp.quantize(numpy.ones((64, 1024), numpy.float32), "mxfp4")

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(5):
        mxfp.matmul(x, w, a_format="mxfp8")
    before = resident()
    for _ in range(40):
        mxfp.matmul(x, w, a_format="mxfp8")
    assert resident() - before < 40 << 20


def test_threads():
    """Calls at the same time, that share what they read."""
    expected = mxfp.matmul(X, Q, a_format="mxfp8")
    failed = []

    def work():
        for _ in range(200):
            if not numpy.array_equal(mxfp.matmul(X, Q, a_format="mxfp8"), expected):
                failed.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_the_gil_is_released():
    """Another thread runs while a long call does."""
    x = numpy.random.default_rng(3).standard_normal((2048, 2048), dtype=numpy.float32)
    seen = []
    done = threading.Event()

    def watch():
        while not done.is_set():
            seen.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=watch)
    mxfp.set_threads(1)
    thread.start()
    begin = time.monotonic()
    mxfp.matmul(x, x)
    end = time.monotonic()
    done.set()
    thread.join()
    assert len([t for t in seen if begin < t < end]) >= 3


def test_fork():
    """A child's calls have threads of their own."""
    x = numpy.random.default_rng(4).standard_normal((256, 1024), dtype=numpy.float32)
    expected = mxfp.quantize(x, "mxfp4").codes
    child = os.fork()
    if child == 0:
        os._exit(0 if numpy.array_equal(mxfp.quantize(x, "mxfp4").codes, expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert numpy.array_equal(mxfp.quantize(x, "mxfp4").codes, expected)


def python(text, **environment):
    return subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )


def test_interrupt():
    """Ctrl-C during calls is KeyboardInterrupt."""
    text = """
import mxfp, numpy, signal
x = numpy.ones((512, 512), numpy.float32)
# Shells start what runs in the background without it.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
try:
    while True:
        mxfp.matmul(x, x)
except KeyboardInterrupt:
    print("interrupted")
"""
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted\n" and child.returncode == 0


def test_interpreters():
    """Another interpreter of the process imports the module and calls it, and ends."""
    text = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
import sys
sys.modules["numpy"] = None
import mxfp
assert mxfp.cast([1.0, 2.0], "e4m3").tolist() == [0x38, 0x40]
'''
for _ in range(3):
    other = interpreters.create()
    failed = interpreters.run_string(other, code)
    assert not failed, failed
    interpreters.destroy(other)
import mxfp
assert mxfp.cast([1.0], "e4m3")[0] == 0x38
print("done")
"""
    done = python(text)
    assert done.stdout == "done\n", done.stderr


def test_without_numpy():
    """Lists, numbers and buffers are read, and results are memoryviews."""
    text = """
import sys
sys.modules["numpy"] = None
import array, mxfp
assert mxfp.cast([[1.0, 2.0], [3.0, 4.0]], "e4m3").tolist() == [[0x38, 0x40], [0x44, 0x48]]
assert mxfp.cast(array.array("f", [1, 2]), "f16").tolist() == [0x3C00, 0x4000]
assert mxfp.cast(1.5, "f32").tolist() == 1.5
assert mxfp.cast(b"8@", "f32", source="e4m3").tolist() == [1, 2]
q = mxfp.quantize([[1.0] * 32, [2.0] * 32], "mxfp4", rule="floor")
assert q.codes.shape == (2, 16) and q.scales.tolist() == [[125], [126]] and q.dequantize().tolist() == [[1.0] * 32, [2.0] * 32]
assert mxfp.matmul([[1.0] * 32], q).tolist() == [[32.0, 64.0]]
assert mxfp.softmax([0.0, 0.0]).tolist() == [0.5, 0.5]
assert mxfp.reduce([[1.0, 2.0]]).tolist() == [3.0] and mxfp.argmax([[1.0, 2.0]]).tolist() == [1]
assert mxfp.error([1.0, 2.0], [1.0, 3.0]).largest == 1
assert mxfp.cast([], "e4m3").tolist() == []
for wrong in ([[1.0], [1.0, 2.0]], "text", None, [None]):
    try:
        mxfp.cast(wrong, "e4m3")
    except (TypeError, ValueError):
        continue
    raise SystemExit(repr(wrong))
print("done")
"""
    done = python(text)
    assert done.stdout == "done\n", done.stderr


def test_import_is_light():
    """Neither numpy nor torch is imported, nor anything that takes long."""
    done = python("import sys, mxfp; print([m for m in ('numpy', 'torch', 'typing', 're', 'enum', 'dataclasses') if m in sys.modules])")
    assert done.returncode == 0, done.stderr
    loaded = set(eval(done.stdout))
    plain = set(eval(python("import sys; print([m for m in ('typing', 're', 'enum', 'dataclasses') if m in sys.modules])").stdout))
    assert loaded <= plain


def test_command(command):
    """python -m mxfp and the script mxfp run it, with its exit codes."""
    for words in ([command], [sys.executable, "-m", "mxfp"]):
        done = subprocess.run([*words, "--version"], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout == f"mxfp {mxfp.__version__}\n"
        done = subprocess.run([*words, "quantize"], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("mxfp: quantize: ")
