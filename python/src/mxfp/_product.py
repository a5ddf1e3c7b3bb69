# SPDX-License-Identifier: MIT
"""Products of matrices."""

from __future__ import annotations

from . import _core
from ._arrays import OWN, kind_of, out_of, source_number, target_of, wanted
from ._options import Counts, Options, optional, row_of, row_to, word
from ._quantize import Quantized, check_numbers, floats, own_dtype, part_shapes
from ._tables import (
    ACCS,
    BF16,
    DEFAULT_RECIPE,
    F32,
    FUNCTIONS,
    ROUNDS,
    RULES,
    Format,
    block_format,
    format_number,
    formats,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Packed:
    """
    Weights in the order in which this machine's kernel reads them: what pack() returns. For products with the same a_format, acc
    and pass_k on such a machine; others raise ValueError. It can be pickled.
    """

    __slots__ = ("data", "shape", "format", "a_format", "acc", "pass_k")

    data: bytes
    shape: tuple[int, int]
    format: str
    a_format: str | None
    acc: str
    pass_k: int

    @property
    def nbytes(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        with_a = f", a_format={self.a_format!r}" if self.a_format else ""
        return f"<mxfp packed {self.format} shape={self.shape}{with_a}, {self.nbytes} bytes>"


def _matrix(x: Any, what: str) -> tuple[Any, tuple[int, ...], Any, int]:
    """What _core reads, the shape, the array's kind, and the format: OWN: what the array says."""
    if isinstance(x, Quantized):
        if x.axis != -1:
            raise ValueError(f"{what}: its blocks run along axis {x.axis}; those of a product run along the last")
        return x._operand(), x.shape, kind_of(x.codes), formats[x.format].number
    kind = kind_of(x)
    data, found, shape = kind.look(x, what)
    if found < OWN:
        found = source_number(found, None, what)
    return (data, found, -1), tuple(shape), kind, found


def _name(x: Any, found: int) -> str:
    if isinstance(x, Quantized):
        return x.format
    return "f32" if found < 0 else _core.formats[found][0]


# The pairs of formats, of a and of w, that each way to sum takes, of those that were asked for.
_pairs: dict[int, frozenset[tuple[int, int]]] = {}


def _takes(acc: int) -> frozenset[tuple[int, int]]:
    found = _pairs.get(acc)
    if found is None:
        found = _pairs[acc] = frozenset(_core.takes(acc))
    return found


def _names(numbers: list[int]) -> str:
    return ", ".join(_core.formats[i][0] for i in numbers)


def _listed(pairs: frozenset[tuple[int, int]]) -> str:
    """Pairs in words; formats of a that go with the same of w stand together."""
    of_a: dict[frozenset[int], list[int]] = {}
    for a in sorted({a for a, _ in pairs}):
        of_a.setdefault(frozenset(w for b, w in pairs if a == b), []).append(a)
    return "; ".join(f"a in {_names(a)} with w in {_names(sorted(w))}" for w, a in of_a.items())


def _check_pair(acc: str, a: int | None, w: int) -> None:
    """Refuses formats, of which that of a may be unknown, which are not summed so."""
    number = ACCS[acc]
    if any(pair[1] == w and a in (None, pair[0]) for pair in _takes(number)):
        return
    others = [name for name, i in ACCS.items() if any(pair[1] == w and a in (None, pair[0]) for pair in _takes(i))]
    of_a = "" if a is None else f"a is {_core.formats[a][0]}, "
    remedy = f" (takes these: acc={', '.join(map(repr, others))})" if others else ""
    raise ValueError(f"acc: {of_a}w is {_core.formats[w][0]}; {acc!r} takes {_listed(_takes(number))}{remedy}")


def _kernel(
    acc: str,
    pass_k: int,
    psum: str,
    psum_round: str,
    seed: int,
    stream: int,
    a_format: str | Format | None,
    a_options: Options | None,
) -> tuple[Any, ...]:
    if a_format is None:
        if a_options is not None:
            raise ValueError("a_options: they are for a_format, which is None")
        number, row = 0, None
    else:
        format = block_format(a_format, "a_format")
        number, row = format.number, row_of(format, a_options, "a_options")
        if row is not None and row[6] > 1:
            raise ValueError(f"a_options: block_rows {row[6]}; a is quantized row by row")
    if word(pass_k, "pass_k") not in (0, 128, 256, 512):
        raise ValueError(f"pass_k: {pass_k}; 128, 256 or 512, or 0, which is 512")
    if format_number(psum, "psum") not in (F32, BF16):
        raise ValueError(f"psum: {psum!r}; results are summed in 'f32' or 'bf16'")
    if ROUNDS[psum_round] not in (ROUNDS["rne"], ROUNDS["sr"]):
        raise ValueError(f"psum_round: {psum_round!r}; 'rne' or 'sr'")
    return (
        ACCS[acc],
        pass_k,
        format_number(psum, "psum"),
        ROUNDS[psum_round],
        word(seed, "seed"),
        word(stream, "stream"),
        number,
        row,
    )


def gemm(
    a: Any,
    w: Any,
    *,
    bias: Any = None,
    activation: str = "identity",
    activation_parameter: float | None = None,
    gate: Any = None,
    residual: Any = None,
    acc: str = "exact",
    pass_k: int = 0,
    psum: str = "f32",
    psum_round: str = "rne",
    accumulate: bool = False,
    a_format: str | Format | None = None,
    a_options: Options | None = None,
    to: str | Format | None = None,
    to_options: Options | None = None,
    seed: int = 0,
    stream: int = 0,
    dtype: Any = None,
    out: Any = None,
    counts: Counts | None = None,
) -> Any:
    """
    Multiply a by the transposed w, and finish the result: a [..., K], w [N, K], the result [..., N].

    Each of the two is an array in float32, float16 or bfloat16, or Quantized; w may be Packed. Two block formats under
    acc="exact": the products of a block are summed exactly, and rounded once a block; else one fused multiply-add each, in
    ascending k. No bit depends on threads or machine.

    Parameters:
        bias: N numbers, added to each row.
        activation, activation_parameter: a function of mxfp.functions, after bias; its parameter.
        gate: [..., N], by which that is multiplied; residual: [..., N], added last. In float32 or bfloat16.
        pass_k: how many k are summed before they are added to the result: 512 (0), 256 or 128; a quarter of it without blocks.
        psum, psum_round: "bf16": the result is rounded to it after every pass; "rne", or "sr" by seed and stream.
        accumulate: add to what `out` holds.
        a_format, a_options: quantize a to a block format on the way.
        to, to_options: return the result as Quantized in this format.
        dtype: of the result: float32 or bfloat16; None: that of `out`, else bfloat16 if a is in it, else float32.
        out: where the result goes; it may be gate or residual.
        counts: a Counts, to which what became of the result's numbers is added (to=...).

    Raises ValueError for shapes that do not agree and for Packed weights of another product.

    >>> import mxfp, numpy
    >>> a, w = numpy.float32([[1, 2], [3, 4]]), numpy.float32([[1, 1], [1, -1], [0, 2]])
    >>> mxfp.gemm(a, w, bias=numpy.float32([0.5, 0, 0]), activation="relu")
    array([[3.5, 0. , 4. ],
           [7.5, 0. , 8. ]], dtype=float32)
    """
    of_a, a_shape, kind, found = _matrix(a, "a")
    kernel = _kernel(acc, pass_k, psum, psum_round, seed, stream, a_format, a_options)
    of_w: Any
    w_shape: tuple[int, ...]
    if isinstance(w, Packed):
        of_w, w_shape, found_w = (w.data, w.shape[0]), w.shape, format_number(w.format)
    else:
        of_w, w_shape, _, found_w = _matrix(w, "w")
    if len(w_shape) != 2:
        raise ValueError(f"w: shape {w_shape}; a matrix [N, K] is needed")
    if not a_shape or a_shape[-1] != w_shape[1]:
        transpose = "; w is multiplied transposed: pass w.T" if a_shape and a_shape[-1] == w_shape[0] else ""
        raise ValueError(
            f"a: shape {a_shape}, whose last dimension is not the {w_shape[1]} of w, whose shape is {w_shape}{transpose}"
        )
    if a_format is None or found == kernel[6]:
        _check_pair(acc, max(found, F32), max(found_w, F32))
    elif isinstance(a, Quantized):
        raise ValueError(f"a_format: {_core.formats[kernel[6]][0]}, while a is {a.format}; numbers are quantized")
    else:
        check_numbers(found, "a")
        _check_pair(acc, kernel[6], max(found_w, F32))
    shape = (*a_shape[:-1], w_shape[0])
    block = None if to is None else block_format(to, "to")
    if to_options is not None and block is None:
        raise ValueError("to_options: they are for `to`, which is None")
    finish = (
        None if bias is None else floats(bias, "bias"),
        FUNCTIONS[activation],
        optional(activation_parameter, "activation_parameter"),
        None if gate is None else _matrix(gate, "gate")[0],
        None if residual is None else _matrix(residual, "residual")[0],
        accumulate,
        None if block is None else row_to(block, to_options),
    )
    raw: Any = None
    number = F32
    if block is None or out is not None:
        own = own_dtype(kind, a, found) if found == BF16 else "f32"
        number, native = target_of(kind, *wanted(dtype, out, own), (F32, BF16))
        if out is None:
            if accumulate:
                raise ValueError("accumulate: it needs `out`, to which the product is added")
            out = kind.empty(shape, native)
            raw = kind.own(out)
        else:
            raw = out_of(kind, out, shape)
    codes = scales = None
    if block is not None:
        code_shape, scale_shape = part_shapes(block, shape, -1)
        codes, scales = kind.bytes(code_shape), kind.bytes(scale_shape)
    outcome = _core.gemm(
        (
            raw,
            number,
            None if codes is None else kind.own(codes),
            None if scales is None else kind.own(scales),
            0 if block is None else block.number,
            None,
            counts is not None,
        ),
        of_a,
        of_w,
        kernel,
        finish,
    )
    if counts is not None:
        counts._add(outcome[2])
    if block is None:
        return out
    return made(codes, scales, shape, block, outcome, to_options)


def made(codes: Any, scales: Any, shape: tuple[int, ...], format: Format, outcome: Any, options: Options | None) -> Quantized:
    """Blocks that _core made, by options that name rule or recipe, or by the defaults."""
    given = {} if options is None else options._given
    scaled = format.tensor_scale
    return Quantized(
        codes,
        scales,
        shape,
        format.name,
        tensor_scale=outcome[0] if scaled else 1.0,
        tensor_scale_divides=outcome[1] if scaled else False,
        rule=None if scaled else given.get("rule", next(iter(RULES))),
        recipe=given.get("recipe", DEFAULT_RECIPE) if scaled else None,
    )


def matmul(
    a: Any,
    w: Any,
    *,
    acc: str = "exact",
    a_format: str | Format | None = None,
    a_options: Options | None = None,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """
    Multiply a [..., K] by the transposed w [N, K]: gemm() without a finish, as torch.nn.functional.linear(a, w).

    >>> import mxfp, numpy
    >>> w = mxfp.quantize(numpy.eye(4, 32, dtype=numpy.float32), "mxfp4")
    >>> mxfp.matmul(numpy.arange(32, dtype=numpy.float32), w, a_format="mxfp8")
    array([0., 1., 2., 3.], dtype=float32)
    """
    return gemm(a, w, acc=acc, a_format=a_format, a_options=a_options, dtype=dtype, out=out)


def pack(w: Any, *, a_format: str | Format | None = None, acc: str = "exact", pass_k: int = 0, psum: str = "f32") -> Packed:
    """
    Pack w [N, K] for many products: each is then faster by the time that packing takes.

    a_format: the block format that a has in those products or is quantized to; None: a in numbers.

    >>> import mxfp, numpy
    >>> w = mxfp.quantize(numpy.eye(4, 32, dtype=numpy.float32), "mxfp4")
    >>> packed = mxfp.pack(w, a_format="mxfp8")
    >>> mxfp.matmul(numpy.arange(32, dtype=numpy.float32), packed, a_format="mxfp8")
    array([0., 1., 2., 3.], dtype=float32)
    """
    of_w, shape, _, found = _matrix(w, "w")
    if len(shape) != 2:
        raise ValueError(f"w: shape {shape}; a matrix [N, K] is needed")
    _check_pair(acc, None if a_format is None else block_format(a_format, "a_format").number, max(found, F32))
    packed = Packed.__new__(Packed)
    packed.data = _core.pack(of_w, _kernel(acc, pass_k, psum, "rne", 0, 0, a_format, None))
    packed.shape = (shape[0], shape[1])
    packed.format = _name(w, found)
    packed.a_format = None if a_format is None else block_format(a_format, "a_format").name
    packed.acc = acc
    packed.pass_k = pass_k
    return packed
