# SPDX-License-Identifier: MIT
"""
Bit-exact low-precision numerics: FP8, FP6, FP4 and their relatives, blocks of MXFP8, MXFP6, MXFP4, MXINT8 and NVFP4, and products
of them. No result depends on the machine, its instruction set, or threads.

>>> import mxfp, numpy
>>> w = numpy.random.default_rng(0).standard_normal((64, 256), dtype=numpy.float32)
>>> q = mxfp.quantize(w, "mxfp4")
>>> q
<mxfp mxfp4 shape=(64, 256), rule='mse', 4.25 bits a number>
>>> mxfp.error(w, q).sqnr > 18
True
>>> x = numpy.random.default_rng(1).standard_normal((8, 256), dtype=numpy.float32)
>>> mxfp.matmul(x, q, a_format="mxfp8").shape
(8, 64)

What there is:

    cast                          numbers of an element format: float32, bfloat16, e4m3, e2m1, ...
    quantize, Quantized           blocks: codes and scales
    fake_quantize                 both ways in one pass, for training
    error                         SQNR, cosine, largest error
    matmul, gemm, pack            products
    apply, silu, gelu, ...        functions of one number
    softmax, rms_norm, glu, ...   operations on rows
    open                          a model's tensors, quantized ones as Quantized
    formats, rules, recipes, ...  what names there are, and what they mean
    isa, isas, set_threads        what runs

Arrays are numpy's, torch's, or of any package with the buffer protocol, __array_interface__ or DLPack, in any order in memory;
lists and numbers are taken too. Results are torch's for torch's, else numpy's. Calls release the GIL and run on all processors.
"""

from . import _core
from ._error import Error, error
from ._model import Model, TensorInfo, open
from ._operations import (
    add,
    apply,
    argmax,
    cos,
    elu,
    exp,
    exp2,
    gelu,
    gelu_tanh,
    glu,
    layer_norm,
    leaky_relu,
    log,
    log_softmax,
    reciprocal,
    reduce,
    relu,
    rms_norm,
    rotary,
    rotary_frequencies,
    rsqrt,
    selu,
    sigmoid,
    silu,
    sin,
    softmax,
    softplus,
    tanh,
)
from ._options import Counts, Options
from ._product import Packed, gemm, matmul, pack
from ._quantize import Quantized, amax, cast, dequantize, fake_quantize, quantize
from ._tables import Format, accs, formats, functions, non_finites, overflows, recipes, rounds, rules

#: The version of the library.
__version__: str = _core.version


def isa() -> str:
    """The instruction-set tier that runs: the highest that this machine has, or that MXFP_ISA names. No result depends on it."""
    return _core.isa()[1]


def isas() -> list[str]:
    """The tiers that this build and machine can run, ascending; the first is "ref"."""
    return _core.isa()[0]


def set_threads(n: int = 0) -> None:
    """
    Run calls on at most n threads, the calling one included; 0: on every processor that the process may use. For all threads of
    the process. No result depends on it.

    >>> import mxfp
    >>> mxfp.set_threads(1)
    >>> mxfp.set_threads(0)
    """
    if not 0 <= n < 1 << 16:
        raise ValueError(f"set_threads: {n} threads; from 0 to 65535")
    _core.set_threads(n)


__all__ = [
    "Counts",
    "Error",
    "Format",
    "Model",
    "Options",
    "Packed",
    "Quantized",
    "TensorInfo",
    "accs",
    "add",
    "amax",
    "apply",
    "argmax",
    "cast",
    "cos",
    "dequantize",
    "elu",
    "error",
    "exp",
    "exp2",
    "fake_quantize",
    "formats",
    "functions",
    "gelu",
    "gelu_tanh",
    "gemm",
    "glu",
    "isa",
    "isas",
    "layer_norm",
    "leaky_relu",
    "log",
    "log_softmax",
    "matmul",
    "non_finites",
    "open",
    "overflows",
    "pack",
    "quantize",
    "recipes",
    "reciprocal",
    "reduce",
    "relu",
    "rms_norm",
    "rotary",
    "rotary_frequencies",
    "rounds",
    "rsqrt",
    "rules",
    "selu",
    "set_threads",
    "sigmoid",
    "silu",
    "sin",
    "softmax",
    "softplus",
    "tanh",
]
