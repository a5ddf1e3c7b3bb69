# SPDX-License-Identifier: MIT
"""Functions of one number and operations on rows."""

from __future__ import annotations

from math import prod

from . import _core
from ._arrays import OWN, kind_of, moved_shape, normal_axis, out_of, source_number, target_of, wanted
from ._options import Options, optional, real, row_to, word
from ._product import made
from ._quantize import floats, own_dtype, part_shapes, result
from ._tables import BF16, F32, FUNCTIONS, Format, block_format, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_REDUCTIONS = ("sum", "mean", "square_sum", "max")
_SCALINGS = ("unscaled", "llama3", "yarn")


def _numbers(x: Any, what: str, axis: int = -1) -> tuple[tuple[Any, int, int], tuple[int, ...], Any, int]:
    """What _core reads of numbers in float32 or bfloat16, their shape, kind and format."""
    kind = kind_of(x)
    data, found, shape = kind.look(x, what)
    if found < OWN:
        found = source_number(found, None, what)
    if found not in (OWN, F32, BF16):
        name = _core.formats[found][0]
        raise TypeError(f"{what}: {name}; operations on rows read float32 and bfloat16, to which cast() converts")
    return (data, found, axis), tuple(shape), kind, found


class _To:
    """Where the result of an operation goes: numbers, or blocks."""

    __slots__ = ("kind", "shape", "block", "options", "out", "codes", "scales", "target", "row")

    def __init__(
        self,
        kind: Any,
        shape: tuple[int, ...],
        own: Any,
        axis: int,
        dtype: Any,
        out: Any,
        to: str | Format | None,
        to_options: Options | None,
    ) -> None:
        self.kind, self.shape, self.options = kind, shape, to_options
        self.block = None if to is None else block_format(to, "to")
        self.row = None
        raw = self.codes = self.scales = None
        number = F32
        if self.block is not None:
            self.row = row_to(self.block, to_options)
        elif to_options is not None:
            raise ValueError("to_options: they are for `to`, which is None")
        if self.block is None or out is not None:
            number, native = target_of(kind, *wanted(dtype, out, own), (F32, BF16))
            if out is None:
                out, raw = result(kind, shape, axis, native)
            else:
                raw = out_of(kind, out, shape, axis)
        self.out = out
        if self.block is not None:
            if axis != -1:
                raise ValueError("to: blocks run along the last axis, as the operation must")
            code_shape, scale_shape = part_shapes(self.block, shape, -1)
            self.codes, self.scales = kind.bytes(code_shape), kind.bytes(scale_shape)
        self.target = (
            raw,
            number,
            None if self.codes is None else kind.own(self.codes),
            None if self.scales is None else kind.own(self.scales),
            0 if self.block is None else self.block.number,
            None,
            False,
        )

    def done(self, outcome: Any) -> Any:
        if self.block is None:
            return self.out
        return made(self.codes, self.scales, self.shape, self.block, outcome, self.options)


def _own(kind: Any, x: Any, found: int) -> Any:
    """Results are in bfloat16 if x is, else in float32."""
    return own_dtype(kind, x, found) if found == BF16 else "f32"


def apply(
    x: Any,
    function: str,
    *,
    parameter: float | None = None,
    dtype: Any = None,
    out: Any = None,
    to: str | Format | None = None,
    to_options: Options | None = None,
) -> Any:
    """
    A function of mxfp.functions of each number of x, in float32 or bfloat16: the binary32 number nearest to the true value.

    parameter: the slope of leaky-relu (0.01), alpha of elu (1), beta of silu (1). The result has the shape of x, in bfloat16 if x
    is in it, else float32, unless `dtype` or `out` says another of the two; with `to` it is Quantized, as to_options say. `out`
    may be x.

    Each function also has its own name: mxfp.silu(x), mxfp.gelu(x), mxfp.leaky_relu(x, parameter=0.2), ...

    >>> import mxfp
    >>> mxfp.apply([-1.0, 0.0, 1.0], "exp")
    array([0.36787945, 1.        , 2.7182817 ], dtype=float32)
    """
    number = FUNCTIONS[function]
    src, shape, kind, found = _numbers(x, "x")
    to_ = _To(kind, shape, _own(kind, x, found), -1, dtype, out, to, to_options)
    return to_.done(_core.apply(to_.target, number, src, optional(parameter, "parameter"), to_.row))


def softmax(
    x: Any,
    *,
    axis: int = -1,
    scale: float | None = None,
    mask: Any = None,
    causal: bool = False,
    causal_offset: int | None = None,
    sinks: Any = None,
    dtype: Any = None,
    out: Any = None,
    to: str | Format | None = None,
    to_options: Options | None = None,
) -> Any:
    """
    Softmax along an axis of x, in float32 or bfloat16.

    Parameters:
        scale: numbers are multiplied by it first.
        mask: numbers that are then added: an array whose rows repeat for those of x.
        causal: for x [..., queries, keys]: query q takes part with keys 0 .. q + causal_offset, the others give 0;
            causal_offset None: keys - queries, which aligns the last two.
        sinks: for x [heads, queries, keys]: a score for each head that takes part and has no column.
        dtype, out, to, to_options: as in apply().

    >>> import mxfp
    >>> mxfp.softmax([[0.0, 0.0], [0.0, 1.0]])
    array([[0.5       , 0.5       ],
           [0.26894143, 0.7310586 ]], dtype=float32)
    """
    return _softmax(False, x, axis, scale, mask, causal, causal_offset, sinks, dtype, out, to, to_options)


def log_softmax(
    x: Any,
    *,
    axis: int = -1,
    scale: float | None = None,
    mask: Any = None,
    causal: bool = False,
    causal_offset: int | None = None,
    sinks: Any = None,
    dtype: Any = None,
    out: Any = None,
    to: str | Format | None = None,
    to_options: Options | None = None,
) -> Any:
    """The logarithm of softmax(), with the same parameters."""
    return _softmax(True, x, axis, scale, mask, causal, causal_offset, sinks, dtype, out, to, to_options)


def _softmax(
    logarithm: bool,
    x: Any,
    axis: int,
    scale: float | None,
    mask: Any,
    causal: bool,
    causal_offset: int | None,
    sinks: Any,
    dtype: Any,
    out: Any,
    to: str | Format | None,
    to_options: Options | None,
) -> Any:
    src, shape, kind, found = _numbers(x, "x")
    axis = normal_axis(axis, shape)
    if axis != -1 and (causal or sinks is not None or mask is not None):
        raise ValueError("axis: a mask, sinks and causal are for the last axis")
    if (causal or sinks is not None) and len(shape) < 2:
        raise ValueError("x: causal and sinks need [..., queries, keys]")
    if causal and causal_offset is None:
        causal_offset = shape[-1] - shape[-2]
    head_rows = shape[-2] if causal or sinks is not None else 0
    to_ = _To(kind, shape, _own(kind, x, found), axis, dtype, out, to, to_options)
    return to_.done(
        _core.softmax(
            to_.target,
            logarithm,
            (src[0], src[1], axis),
            scale,
            None if mask is None else _numbers(mask, "mask")[0],
            head_rows,
            causal,
            causal_offset or 0,
            None if sinks is None else floats(sinks, "sinks"),
            to_.row,
        )
    )


def rms_norm(
    x: Any,
    weight: Any = None,
    *,
    eps: float = 1e-6,
    weight_plus_one: bool = False,
    residual: Any = None,
    dtype: Any = None,
    out: Any = None,
    to: str | Format | None = None,
    to_options: Options | None = None,
) -> Any:
    """
    Root mean square norm of the rows of x [..., K], in float32 or bfloat16.

    Parameters:
        weight: K numbers; weight_plus_one: 1 + weight stands for it, as in Gemma.
        eps: added to the mean square.
        residual: [..., K], added to x before; then the result is a pair: what is said here, and the sums, in its dtype.
        dtype, out, to, to_options: as in apply().

    >>> import mxfp, numpy
    >>> mxfp.rms_norm(numpy.float32([[3, -3]]), eps=0)
    array([[ 1., -1.]], dtype=float32)
    """
    return _norm(False, x, weight, None, eps, weight_plus_one, residual, dtype, out, to, to_options)


def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    eps: float = 1e-5,
    weight_plus_one: bool = False,
    residual: Any = None,
    dtype: Any = None,
    out: Any = None,
    to: str | Format | None = None,
    to_options: Options | None = None,
) -> Any:
    """Layer norm of the rows of x [..., K]: parameters as in rms_norm(), and a bias of K numbers."""
    return _norm(True, x, weight, bias, eps, weight_plus_one, residual, dtype, out, to, to_options)


def _norm(
    mean: bool,
    x: Any,
    weight: Any,
    bias: Any,
    eps: float,
    weight_plus_one: bool,
    residual: Any,
    dtype: Any,
    out: Any,
    to: str | Format | None,
    to_options: Options | None,
) -> Any:
    src, shape, kind, found = _numbers(x, "x")
    to_ = _To(kind, shape, _own(kind, x, found), -1, dtype, out, to, to_options)
    sums = of_residual = None
    if residual is not None:
        of_residual, its_shape, its_kind, its_found = _numbers(residual, "residual")
        if its_shape != shape:
            raise ValueError(f"residual: shape {its_shape}; that of x is {shape}")
        sums = _To(kind, shape, _own(its_kind, residual, its_found), -1, None, None, None, None)
    outcome = _core.norm(
        to_.target,
        mean,
        src,
        real(eps, "eps", 0),
        None if weight is None else _numbers(weight, "weight")[0],
        None if bias is None else _numbers(bias, "bias")[0],
        weight_plus_one,
        of_residual,
        None if sums is None else sums.target,
        to_.row,
    )
    return to_.done(outcome) if sums is None else (to_.done(outcome), sums.out)


def _same_shape(a: tuple[int, ...], b: tuple[int, ...], what: str) -> None:
    if a != b:
        raise ValueError(f"{what}: shape {b}; {a} is needed")


def add(
    a: Any, b: Any, *, dtype: Any = None, out: Any = None, to: str | Format | None = None, to_options: Options | None = None
) -> Any:
    """
    a + b, of one shape, in float32 or bfloat16, each sum rounded once to float32. The others as in apply().

    >>> import mxfp
    >>> mxfp.add([1.0], [2.0])
    array([3.], dtype=float32)
    """
    of_a, shape, kind, found = _numbers(a, "a")
    of_b, its_shape, _, _ = _numbers(b, "b")
    _same_shape(shape, its_shape, "b")
    to_ = _To(kind, shape, _own(kind, a, found), -1, dtype, out, to, to_options)
    return to_.done(_core.add(to_.target, of_a, of_b, to_.row))


def glu(
    gate: Any,
    up: Any = None,
    *,
    function: str = "silu",
    parameter: float | None = None,
    limit: float | None = None,
    up_plus_one: bool = False,
    dtype: Any = None,
    out: Any = None,
    to: str | Format | None = None,
    to_options: Options | None = None,
) -> Any:
    """
    Gated linear unit: function(gate) * up, of one shape. Without `up`, gate [..., 2 K] holds gate 0, up 0, gate 1, up 1, ...

    Parameters:
        function, parameter: as in apply().
        limit: gates above it become it, and ups are clamped to [-limit, limit].
        up_plus_one: up + 1 stands for up.
        dtype, out, to, to_options: as in apply().

    >>> import mxfp
    >>> mxfp.glu([1.0, 2.0], [3.0, 4.0], function="relu")
    array([3., 8.], dtype=float32)
    """
    number = FUNCTIONS[function]
    of_gate, shape, kind, found = _numbers(gate, "gate")
    of_up = None
    if up is not None:
        of_up, its_shape, _, _ = _numbers(up, "up")
        _same_shape(shape, its_shape, "up")
    elif not shape or shape[-1] % 2:
        raise ValueError(f"gate: shape {shape}; without `up` the last dimension is even")
    else:
        shape = (*shape[:-1], shape[-1] // 2)
    to_ = _To(kind, shape, _own(kind, gate, found), -1, dtype, out, to, to_options)
    return to_.done(
        _core.glu(
            to_.target,
            number,
            of_gate,
            of_up,
            optional(parameter, "parameter"),
            optional(limit, "limit", 0),
            up_plus_one,
            to_.row,
        )
    )


def rotary(
    x: Any,
    frequencies: Any,
    *,
    head_cols: int = 0,
    rotary_cols: int = 0,
    interleaved: bool = False,
    positions: Any = None,
    first_position: int = 0,
    attention_factor: float | None = None,
    dtype: Any = None,
    out: Any = None,
    to: str | Format | None = None,
    to_options: Options | None = None,
) -> Any:
    """
    Rotary position embedding of the rows of x [..., K], one for each position.

    Parameters:
        frequencies: rotary_cols / 2 numbers, as rotary_frequencies() makes them.
        head_cols: numbers of a head, which divide K; 0: K.
        rotary_cols: the first so many numbers of a head rotate; 0: all.
        interleaved: numbers 2 k and 2 k + 1 are a pair; else k and k + rotary_cols / 2.
        positions: a position for each row, from 0 to 2^32 - 1; None: first_position, first_position + 1, ...
        attention_factor: cosines and sines are multiplied by it.
        dtype, out, to, to_options: as in apply().
    """
    src, shape, kind, found = _numbers(x, "x")
    raw_positions = None
    if positions is not None:
        raw_positions = _words(positions)
    to_ = _To(kind, shape, _own(kind, x, found), -1, dtype, out, to, to_options)
    return to_.done(
        _core.rotary(
            to_.target,
            src,
            floats(frequencies, "frequencies"),
            word(head_cols, "head_cols", 63),
            word(rotary_cols, "rotary_cols", 63),
            interleaved,
            raw_positions,
            word(first_position, "first_position", 32),
            attention_factor,
            to_.row,
        )
    )


def _words(positions: Any) -> Any:
    """Unsigned integers of 32 bits."""
    from array import array

    letter = "I" if array("I").itemsize == 4 else "L"
    try:
        return memoryview(array(letter, positions.tolist() if hasattr(positions, "tolist") else list(positions)))
    except OverflowError:
        raise ValueError("positions: they are from 0 to 2^32 - 1") from None
    except (TypeError, RuntimeError):
        raise TypeError("positions: integers in one dimension are needed") from None


def rotary_frequencies(
    rotary_cols: int,
    *,
    base: float = 10000.0,
    scaling: str = "unscaled",
    factor: float = 0.0,
    original_positions: int = 0,
    low_freq_factor: float = 0.0,
    high_freq_factor: float = 0.0,
    beta_fast: float = 0.0,
    beta_slow: float = 0.0,
    truncate: bool = True,
    mscale: float = 0.0,
    mscale_all_dim: float = 0.0,
) -> tuple[Any, float]:
    """
    The rotary_cols / 2 frequencies of rotary(), in float32, and its attention factor.

    The parameters are those of a model's config.json, rope_scaling or rope_parameters: scaling is rope_type, "unscaled" its
    "default"; "llama3" and "yarn" need factor and original_positions, "llama3" low_freq_factor and high_freq_factor.

    >>> import mxfp
    >>> mxfp.rotary_frequencies(4)
    (array([1.  , 0.01], dtype=float32), 1.0)
    """
    if scaling not in _SCALINGS:
        raise unknown("scaling", scaling, "rotary scalings", list(_SCALINGS))
    if rotary_cols <= 0 or rotary_cols % 2:
        raise ValueError(f"rotary_cols: {rotary_cols} is not an even number above 0")
    kind = kind_of([])
    made = kind.empty((rotary_cols // 2,), kind.dtype(F32))
    attention_factor = _core.frequencies(
        kind.own(made),
        base,
        _SCALINGS.index(scaling),
        factor,
        word(original_positions, "original_positions", 32),
        low_freq_factor,
        high_freq_factor,
        beta_fast,
        beta_slow,
        truncate,
        mscale,
        mscale_all_dim,
    )
    return made, attention_factor


def reduce(x: Any, reduction: str = "sum", *, axis: int = -1) -> Any:
    """
    Reduce the numbers along an axis to one, in float32: "sum", "mean", "square_sum" or "max". No bit depends on threads.

    >>> import mxfp
    >>> mxfp.reduce([[1.0, 2.0], [3.0, 5.0]], "mean")
    array([1.5, 4. ], dtype=float32)
    """
    if reduction not in _REDUCTIONS:
        raise unknown("reduction", reduction, "reductions", list(_REDUCTIONS))
    src, shape, kind, _ = _numbers(x, "x")
    axis = normal_axis(axis, shape)
    lead = moved_shape(shape, axis)[:-1]
    made = kind.empty((prod(lead),), kind.dtype(F32))
    _core.reduce(kind.own(made), _REDUCTIONS.index(reduction), (src[0], src[1], axis))
    return _shaped(made, lead)


def argmax(x: Any, *, axis: int = -1) -> Any:
    """
    The index of the first largest number along an axis, or of the first NaN.

    >>> import mxfp
    >>> mxfp.argmax([[1.0, 3.0, 3.0], [5.0, 2.0, 1.0]])
    array([1, 0])
    """
    src, shape, kind, _ = _numbers(x, "x")
    axis = normal_axis(axis, shape)
    lead = moved_shape(shape, axis)[:-1]
    if kind.name == "torch":
        dtype: Any = kind.torch.int64
    else:
        dtype = "int64" if kind.name != "memory" else "n"
    made = kind.empty((prod(lead),), dtype)
    _core.argmax(kind.own(made), (src[0], src[1], axis))
    return _shaped(made, lead)


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    if hasattr(x, "reshape"):
        return x.reshape(shape)
    return x.cast("B").cast(x.format, shape) if prod(shape) > 0 else x


def _define(name: str, meaning: str) -> Any:
    """A function of one number by its own name."""

    def function(
        x: Any,
        *,
        parameter: float | None = None,
        dtype: Any = None,
        out: Any = None,
        to: str | Format | None = None,
        to_options: Options | None = None,
    ) -> Any:
        return apply(x, name, parameter=parameter, dtype=dtype, out=out, to=to, to_options=to_options)

    function.__name__ = function.__qualname__ = name.replace("-", "_")
    function.__doc__ = f"{meaning}: apply(x, {name!r}, ...)."
    return function


relu = _define("relu", "x if x > 0, else 0")
leaky_relu = _define("leaky-relu", "x if x > 0, else x times the parameter (0.01)")
exp = _define("exp", "e^x")
exp2 = _define("exp2", "2^x")
log = _define("log", "natural logarithm")
tanh = _define("tanh", "hyperbolic tangent")
sigmoid = _define("sigmoid", "1 / (1 + e^-x)")
silu = _define("silu", "x / (1 + e^(-b x)), b the parameter (1)")
softplus = _define("softplus", "log(1 + e^x)")
elu = _define("elu", "x if x > 0, else (e^x - 1) times the parameter (1)")
selu = _define("selu", "elu, scaled as in PyTorch")
gelu = _define("gelu", "x times the normal distribution function of x")
gelu_tanh = _define("gelu-tanh", "gelu approximated by tanh, as in PyTorch")
rsqrt = _define("rsqrt", "1 / sqrt(x)")
reciprocal = _define("reciprocal", "1 / x")
sin = _define("sin", "sine of x radians")
cos = _define("cos", "cosine of x radians")
