# SPDX-License-Identifier: MIT
"""Numbers of element formats, and blocks."""

from __future__ import annotations

from math import prod
from struct import pack, unpack

from . import _core
from ._arrays import CODES, OWN, kind_of, moved_shape, normal_axis, out_of, source_number, target_of, wanted
from ._options import RECIPE_DEFAULTS, Counts, Options, check, optional, real, squares, word
from ._tables import (
    BF16,
    DEFAULT_RECIPE,
    F16,
    F32,
    NON_FINITES,
    OVERFLOWS,
    RECIPES,
    ROUNDS,
    RULES,
    Format,
    block_format,
    formats,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLAIN = (0, 0, False, 0, 0, 0)
# What is quantized, and what it is dequantized to.
NUMBERS = (OWN, F32, BF16, F16)


def cast(
    x: Any,
    format: Any,
    *,
    round: str = "rne",
    overflow: str = "sat",
    source: str | None = None,
    no_negative_zero: bool = False,
    seed: int = 0,
    stream: int = 0,
    first_index: int = 0,
    counts: Counts | None = None,
    out: Any = None,
) -> Any:
    """
    Convert numbers to an element format, each rounded once.

    x is an array of any shape: float32, float16, bfloat16, or codes, by their dtype or by `source`. Numbers in float64, lists
    and Python's numbers are rounded to float32 first, to nearest even.

    format is one of mxfp.formats, or its name, or a dtype of numpy, ml_dtypes or torch. The result has the shape of x and that dtype;
    for a name it is float32, float16, or codes: torch's dtype where torch has one, else unsigned integers (int8 for "int8").

    Parameters:
        round: one of mxfp.rounds. "sr" draws random bits by seed, stream, and the element's index, which starts at first_index.
        overflow: in formats of up to 8 bits, "sat": numbers that are too large become the largest; "ovf": Inf, or NaN without Inf.
        source: the format of codes in integers.
        no_negative_zero: -0 becomes +0.
        counts: a Counts, to which what happened is added.
        out: where the result goes; it is returned.

    Raises ValueError for an unknown name and TypeError for numbers in a dtype that is not read.

    >>> import mxfp, numpy
    >>> codes = mxfp.cast(numpy.float32([1, 1.1, 300, 1e6]), "e4m3")
    >>> codes
    array([ 56,  57, 121, 126], dtype=uint8)
    >>> mxfp.cast(codes, "f32", source="e4m3")
    array([  1.   ,   1.125, 288.   , 448.   ], dtype=float32)
    """
    kind = kind_of(x)
    data, found, shape = kind.look(x)
    if source is not None or found < OWN:
        found = source_number(found, source)
    number, dtype = target_of(kind, format)
    if out is None:
        out = kind.empty(shape, dtype)
        raw = kind.own(out)
    else:
        raw = out_of(kind, out, shape)
    options = (
        _PLAIN
        if round == "rne" and overflow == "sat" and not no_negative_zero
        else (
            ROUNDS[round],
            OVERFLOWS[overflow],
            no_negative_zero,
            word(seed, "seed"),
            word(stream, "stream"),
            word(first_index, "first_index"),
        )
    )
    outcome = _core.convert((raw, number, None, None, 0, None, counts is not None), (data, found, -1), options)
    if counts is not None:
        counts._add(outcome[2])
    return out


class Quantized:
    """
    A tensor in a block format: what quantize() returns.

    The constructor makes one of parts from elsewhere: `shape` is that of the numbers, of which `axis` is divided into blocks;
    codes and scales have its other dimensions first, in their order, then bytes of codes, and scales, of a row. They are bytes, or
    in a dtype of their format: scales that are numbers in float32 are refused, as are codes in float8_e4m3fnuz where e4m3 is meant.

    numpy.asarray(q) is q.dequantize(). Two are equal if format, shape, axis, codes, scales and tensor scale are.

    Attributes:
        codes: uint8, [..., bytes of a row]: codes one after the other from the low bits up. Two of a 4-bit format are in a byte,
            the first in the low bits; four of a 6-bit format in three bytes. Rows are padded with zeros to whole blocks.
        scales: uint8, [..., blocks of a row]: codes in e8m0, or ue4m3 (the bytes of e4m3 without the sign) for NVFP4.
        tensor_scale: the scale of the whole tensor; 1.0 for formats without.
        tensor_scale_divides: whether numbers are divided by it instead of multiplied.
        shape: of the numbers.
        format: the name of the format.
        rule, recipe: how scales were chosen; None: not known, or not of this format.
        axis: the dimension that is divided into blocks, counted from the end.
    """

    __slots__ = ("codes", "scales", "tensor_scale", "tensor_scale_divides", "shape", "format", "rule", "recipe", "axis")

    codes: Any
    scales: Any
    tensor_scale: float
    tensor_scale_divides: bool
    shape: tuple[int, ...]
    format: str
    rule: str | None
    recipe: str | None
    axis: int

    def __init__(
        self,
        codes: Any,
        scales: Any,
        shape: tuple[int, ...],
        format: str,
        *,
        tensor_scale: float = 1.0,
        tensor_scale_divides: bool = False,
        axis: int = -1,
        rule: str | None = None,
        recipe: str | None = None,
    ) -> None:
        self.format = block_format(format).name
        self.shape = tuple(word(size, "shape", 63) for size in shape)
        self.axis = normal_axis(axis, self.shape)
        self.codes = codes
        self.scales = scales
        self.tensor_scale = tensor_scale
        self.tensor_scale_divides = bool(tensor_scale_divides)
        self.rule = rule
        self.recipe = recipe
        self.tensor_scale = self._scale()
        code_shape, scale_shape = part_shapes(formats[self.format], self.shape, self.axis)
        for what, expected in (("codes", code_shape), ("scales", scale_shape)):
            data, found = self._part(what)
            size = _core.describe(data, what)[3]
            if size != 1:
                raise TypeError(f"{what}: elements of {8 * size} bits; they are bytes: uint8")
            if found != expected:
                raise ValueError(
                    f"{what}: shape {found}; {self.format} of shape {self.shape} has {what} of shape {expected}"
                )

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales, and a tensor scale if the format has one."""
        rows = prod(self.shape[: self.axis]) * prod(self.shape[len(self.shape) + self.axis + 1 :]) if self.shape else 1
        row = _core.row_bytes(formats[self.format].number, self._cols())
        return rows * sum(row) + 4 * formats[self.format].tensor_scale

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of numbers."""
        return prod(self.shape)

    def _cols(self) -> int:
        return self.shape[self.axis] if self.shape else 1

    def _rows(self) -> int:
        cols = self._cols()
        return prod(self.shape) // cols if cols else prod(moved_shape(self.shape, self.axis)[:-1])

    def _part(self, what: str) -> tuple[Any, tuple[int, ...]]:
        """What _core reads of codes or scales, in integers or in a dtype of their format, and the shape."""
        part = getattr(self, what)
        data, found, shape = kind_of(part).look(part, what)
        if found != CODES:
            format = formats[self.format]
            name = format.element if what == "codes" else format.scale
            takes = {"ue4m3": ("ue4m3", "e4m3")}.get(name or "", (name,)) if format.bits == 8 or what == "scales" else ()
            is_float = found in NUMBERS
            if is_float or _core.formats[found][0] not in takes:
                of = "numbers in floating point" if is_float else _core.formats[found][0]
                raise TypeError(f"{what}: {of}; those of {self.format} are codes in {name}, as bytes: uint8")
        return data, tuple(shape)

    def _scale(self) -> float:
        """The tensor scale in binary32."""
        scale, divides = self.tensor_scale, self.tensor_scale_divides
        if not formats[self.format].tensor_scale:
            if divides or real(scale, "tensor_scale") != 1:
                raise ValueError(f"tensor_scale: {scale!r}; {self.format} has none: 1.0")
            return 1.0
        (rounded,) = unpack("f", pack("f", real(scale, "tensor_scale", 0)))
        if divides and rounded == 0:
            raise ValueError(f"tensor_scale: {scale!r}, by which numbers are divided")
        return float(rounded)

    def _operand(self) -> tuple[Any, Any, int, int, int, float, bool]:
        """What _core reads."""
        return (
            self._part("codes")[0],
            self._part("scales")[0],
            formats[self.format].number,
            self._rows(),
            self._cols(),
            self._scale(),
            self.tensor_scale_divides,
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """numpy.asarray(q): the numbers, in float32 if it does not say another dtype."""
        import numpy

        if copy is False:
            raise ValueError("copy: False; the numbers of Quantized are computed")
        return numpy.asarray(self.dequantize(), dtype=dtype)

    def __eq__(self, other: object) -> bool:
        """Whether format, shape, axis, codes, scales and tensor scale are the same; how scales were chosen does not matter."""
        if not isinstance(other, Quantized):
            return NotImplemented
        if (self.format, self.shape, self.axis, self.tensor_scale_divides) != (
            other.format,
            other.shape,
            other.axis,
            other.tensor_scale_divides,
        ):
            return False
        return self._scale() == other._scale() and all(
            _core.equal(self._part(what)[0], other._part(what)[0]) for what in ("codes", "scales")
        )

    def __hash__(self) -> int:
        """Of what does not change when codes do."""
        return hash((self.format, self.shape, self.axis))

    def dequantize(self, dtype: Any = None, *, out: Any = None) -> Any:
        """
        The numbers: in float32, or in `dtype`, "f32", "bf16", "f16" or a dtype, or in that of `out`, rounded to nearest even.

        >>> import mxfp, numpy
        >>> q = mxfp.quantize(numpy.float32([1, 2, 3, 5]), "mxfp4")
        >>> q.dequantize()
        array([1., 2., 3., 4.], dtype=float32)
        """
        kind = kind_of(self.codes)
        number, native = target_of(kind, *wanted(dtype, out, "f32"), NUMBERS[1:])
        if out is None:
            out, to = result(kind, self.shape, self.axis, native)
        else:
            to = out_of(kind, out, self.shape, self.axis)
        _core.dequantize((to, number, None, None, 0, None, False), self._operand())
        return out

    def elements(self) -> Any:
        """
        The codes of the elements, one a byte, in the shape of the numbers.

        >>> import mxfp, numpy
        >>> q = mxfp.quantize(numpy.float32([1, 2, 3, 6]), "mxfp4", rule="floor")
        >>> q.elements(), q.scales
        (array([2, 4, 5, 7], dtype=uint8), array([127], dtype=uint8))
        """
        kind = kind_of(self.codes)
        out, to = result(kind, self.shape, self.axis, None)
        _core.unpack((None, 0, None, None, 0, to, False), self._operand())
        return out

    def transpose(self) -> Quantized:
        """
        The transposed matrix, of one that was quantized with block_rows=32: codes and scales move, nothing is rounded.

        Raises ValueError where the 32 rows of a square have different scales.
        """
        if len(self.shape) != 2 or self.axis != -1:
            raise ValueError("transpose: a matrix of rows in blocks is needed")
        format = formats[self.format]
        kind = kind_of(self.codes)
        shape = (self.shape[1], self.shape[0])
        code_shape, scale_shape = part_shapes(format, shape, -1)
        codes, scales = kind.bytes(code_shape), kind.bytes(scale_shape)
        _core.transpose((None, 0, kind.own(codes), kind.own(scales), format.number, None, False), self._operand())
        return Quantized(codes, scales, shape, self.format, rule=self.rule)

    def to_layout(self, layout: str = "compressed-tensors", name: str = "weight") -> dict[str, Any]:
        """
        The tensors that this one becomes in files of a layout: {name: array}.

        "compressed-tensors": `name`_packed, `name`_scale and, in NVFP4, `name`_global_scale; MXFP8 has `name` for its codes.

        Raises ValueError for formats that the layout does not have here, and for a tensor scale of the other kind.
        """
        from ._layout import parts

        return parts(self, layout, name)

    def __repr__(self) -> str:
        bits = f", {8 * self.nbytes / self.size:.4g} bits a number" if self.size else ""
        how = f", rule={self.rule!r}" if self.rule else f", recipe={self.recipe!r}" if self.recipe else ""
        axis = f", axis={self.axis}" if self.axis != -1 else ""
        return f"<mxfp {self.format} shape={self.shape}{how}{axis}{bits}>"


def result(kind: Any, shape: tuple[int, ...], axis: int, dtype: Any) -> tuple[Any, Any]:
    """An array of that shape for results, and what _core writes to: the axis comes last there. dtype None: bytes."""
    moved = moved_shape(shape, axis)
    made = kind.bytes(moved) if dtype is None else kind.empty(moved, dtype)
    return (made if axis == -1 else kind.moved(made, axis)), kind.own(made)


# Bytes of codes and of scales by format and columns, of the first that were asked for.
_row_bytes: dict[tuple[int, int], tuple[int, int]] = {}


def part_shapes(format: Format, shape: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of codes and scales."""
    moved = (shape if axis == -1 else moved_shape(shape, axis)) or (1,)
    key = format.number, moved[-1]
    found = _row_bytes.get(key)
    if found is None:
        found = _core.row_bytes(*key)
        if len(_row_bytes) < 1000:
            _row_bytes[key] = found
    if len(moved) == 1:
        return (found[0],), (found[1],)
    lead = moved[:-1]
    return (*lead, found[0]), (*lead, found[1])


def quantize_row(
    format: Format,
    rule: str | None,
    recipe: str | None,
    round: str,
    non_finite: str,
    no_negative_zero: bool,
    via_bf16: bool,
    block_rows: int,
    seed: int,
    stream: int,
    first_index: int,
    tensor_amax: float | None,
) -> Any:
    if rule is None and recipe is None and tensor_amax is None:
        if round == "rne" and non_finite == "propagate" and block_rows == 1:
            if not (seed or stream or first_index or via_bf16 or no_negative_zero):
                return RECIPE_DEFAULTS if format.tensor_scale else None
    row = (
        0 if rule is None else RULES[rule],
        RECIPES[DEFAULT_RECIPE if recipe is None else recipe],
        ROUNDS[round],
        NON_FINITES[non_finite],
        no_negative_zero,
        via_bf16,
        squares(block_rows),
        word(seed, "seed"),
        word(stream, "stream"),
        word(first_index, "first_index"),
        optional(tensor_amax, "tensor_amax", 0),
    )
    check(format, rule, recipe, round, via_bf16, block_rows, tensor_amax)
    return row


def check_numbers(found: int, what: str) -> None:
    if found not in NUMBERS:
        raise TypeError(f"{what}: {_core.formats[found][0]}; float32, bfloat16, float16 and float64 are read: cast({what}, 'f32')")


def _source(x: Any, format: str | Format, axis: int) -> tuple[Format, Any, Any, int, tuple[int, ...], int]:
    """The format; of x its kind, the data, their dtype and shape; the axis."""
    found_format = block_format(format)
    kind = kind_of(x)
    data, found, shape = kind.look(x)
    if found < OWN:
        found = source_number(found, None)
    check_numbers(found, "x")
    return found_format, kind, data, found, shape, axis if axis == -1 else normal_axis(axis, shape)


def quantize(
    x: Any,
    format: str | Format,
    *,
    rule: str | None = None,
    recipe: str | None = None,
    axis: int = -1,
    round: str = "rne",
    non_finite: str = "propagate",
    block_rows: int = 1,
    tensor_amax: float | None = None,
    via_bf16: bool = False,
    no_negative_zero: bool = False,
    seed: int = 0,
    stream: int = 0,
    first_index: int = 0,
    counts: Counts | None = None,
) -> Quantized:
    """
    Quantize numbers to a block format.

    x is an array of any shape in float32, float16 or bfloat16; others as in cast(). Blocks run along `axis`, 32 numbers each, 16
    in NVFP4; a last one is padded with zeros.

    Parameters:
        format: one of mxfp.formats that has blocks: "mxfp8", "mxfp4", "nvfp4", ...
        rule: how the scale of an MX block follows from its numbers, one of mxfp.rules ("mse" if None).
        recipe: whose arithmetic makes NVFP4's scales, one of mxfp.recipes ("compressed-tensors" if None, as of
            `mxfp quantize`).
        round: of the elements, one of mxfp.rounds; "sr" as in cast().
        non_finite: what a block with NaN or Inf becomes, one of mxfp.non_finites.
        block_rows: 32: squares of 32 x 32 share a scale (MX), so that transpose() needs no rounding.
        tensor_amax: NVFP4: the largest magnitude of the whole tensor, of which x is a piece; None: that of x.
        via_bf16: numbers are rounded to bfloat16 first, as Trainium3 does.
        counts: a Counts, to which what happened is added.

    Raises ValueError under non_finite="error", naming the first such element.

    >>> import mxfp, numpy
    >>> x = numpy.linspace(-3, 3, 64, dtype=numpy.float32).reshape(2, 32)
    >>> mxfp.quantize(x, "mxfp4")
    <mxfp mxfp4 shape=(2, 32), rule='mse', 4.25 bits a number>
    """
    found_format, kind, data, found, shape, axis = _source(x, format, axis)
    row = quantize_row(
        found_format, rule, recipe, round, non_finite, no_negative_zero, via_bf16, block_rows, seed, stream, first_index, tensor_amax
    )
    code_shape, scale_shape = part_shapes(found_format, shape, axis)
    codes, scales = kind.bytes(code_shape), kind.bytes(scale_shape)
    outcome = _core.quantize(
        (None, F32, kind.own(codes), kind.own(scales), found_format.number, None, counts is not None), (data, found, axis), row
    )
    if counts is not None:
        counts._add(outcome[2])
    q = Quantized.__new__(Quantized)
    q.codes, q.scales, q.shape, q.format, q.axis = codes, scales, tuple(shape), found_format.name, axis
    if found_format.tensor_scale:
        q.tensor_scale, q.tensor_scale_divides = outcome[0], outcome[1]
        q.rule, q.recipe = None, recipe or DEFAULT_RECIPE
    else:
        q.tensor_scale, q.tensor_scale_divides = 1.0, False
        q.rule, q.recipe = rule or next(iter(RULES)), None
    return q


def dequantize(q: Quantized, dtype: Any = None, *, out: Any = None) -> Any:
    """The numbers of a Quantized: q.dequantize(dtype, out=out)."""
    if not isinstance(q, Quantized):
        raise TypeError(f"q: Quantized is needed, not {type(q)!r}; cast(q, \"f32\", source=...) decodes codes of an element format")
    return q.dequantize(dtype, out=out)


def fake_quantize(
    x: Any,
    format: str | Format,
    *,
    rule: str | None = None,
    recipe: str | None = None,
    axis: int = -1,
    round: str = "rne",
    non_finite: str = "propagate",
    block_rows: int = 1,
    tensor_amax: float | None = None,
    via_bf16: bool = False,
    no_negative_zero: bool = False,
    seed: int = 0,
    stream: int = 0,
    first_index: int = 0,
    counts: Counts | None = None,
    clamped: bool = False,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """
    What quantize() and dequantize() make of x, in one pass: fake quantization, as in quantization-aware training.

    The result has the shape of x, and its dtype (float32 for float64) unless `dtype` or `out` says another: float32, bfloat16 or
    float16. `out` may be x.

    With clamped=True the result is a pair of that and an array of uint8, 1 where a number was clamped: above the largest
    that its block holds. Its gradient passes straight through all the same, since the block's scale follows its largest number, which
    could not grow otherwise. It stops only beyond a scale that is given: of nvfp4, where |x| > tensor_amax. Other parameters are
    those of quantize().

    >>> import mxfp, numpy
    >>> mxfp.fake_quantize(numpy.float32([1, 2, 3, 5, 7]), "mxfp4", clamped=True, rule="floor")
    (array([1., 2., 3., 4., 6.], dtype=float32), array([0, 0, 0, 0, 1], dtype=uint8))
    """
    found_format, kind, data, found, shape, axis = _source(x, format, axis)
    row = quantize_row(
        found_format, rule, recipe, round, non_finite, no_negative_zero, via_bf16, block_rows, seed, stream, first_index, tensor_amax
    )
    number, native = target_of(kind, *wanted(dtype, out, own_dtype(kind, x, found)), NUMBERS[1:])
    if out is None:
        out, to = result(kind, shape, axis, native)
    else:
        to = out_of(kind, out, shape, axis)
    mask, raw_mask = result(kind, shape, axis, None) if clamped else (None, None)
    outcome = _core.fake_quantize(
        (to, number, None, None, 0, raw_mask, counts is not None), found_format.number, (data, found, axis), row
    )
    if counts is not None:
        counts._add(outcome[2])
    return (out, mask) if clamped else out


def own_dtype(kind: Any, x: Any, found: int) -> Any:
    """The dtype that results have if nothing else is said: that of x, float32 for what is rounded to it."""
    if found < 0 or found == F32:
        return "f32"
    own = getattr(x, "dtype", None)
    return _core.formats[found][0] if own is None or kind.format_of(own) < 0 else own


def floats(x: Any, what: str) -> Any:
    """Numbers as _core reads rows of float32."""
    kind = kind_of(x)
    data, found, _ = kind.look(x, what)
    if found < OWN:
        source_number(found, None, what)
    return data if found == F32 else kind.own(cast(x, "f32"))


def amax(x: Any) -> float:
    """
    The largest finite magnitude: 0.0 if there is none.

    >>> import mxfp
    >>> mxfp.amax([1.0, -3.0, float("inf")])
    3.0
    """
    data, found, _ = kind_of(x).look(x)
    if found < OWN:
        found = source_number(found, None)
    check_numbers(found, "x")
    return _core.amax((data, found, -1))


__all__ = ["Counts", "Options", "Quantized", "amax", "cast", "dequantize", "fake_quantize", "quantize"]
