# SPDX-License-Identifier: MIT
"""What quantizing costs."""

from __future__ import annotations

from math import inf, log10, nan, sqrt

from . import _core
from ._arrays import OWN, kind_of, source_number
from ._quantize import Quantized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Error:
    """
    How far numbers are from others: what error() returns. Elements that are NaN or Inf in one of the two count as not_finite
    alone.

    Attributes:
        n: elements that are finite in both.
        not_finite: the others.
        sqnr: signal to noise in dB: 10 log10(sum x^2 / sum (x - q)^2); inf if all are equal.
        cosine: sum x q / sqrt(sum x^2 sum q^2).
        mse: the mean of (x - q)^2.
        largest: the largest |x - q|.
        equal: elements without an error.
        flushed: nonzero elements that are zero in q.
        saturated: elements that rounding to nearest takes past the largest number of their block; None if q is not Quantized.
    """

    __slots__ = ("n", "not_finite", "sqnr", "cosine", "mse", "largest", "equal", "flushed", "saturated")

    n: int
    not_finite: int
    sqnr: float
    cosine: float
    mse: float
    largest: float
    equal: int
    flushed: int
    saturated: int | None

    def __repr__(self) -> str:
        saturated = "" if self.saturated is None else f", {self.saturated} saturated"
        not_finite = f", {self.not_finite} not finite" if self.not_finite else ""
        return (
            f"<mxfp error: SQNR {self.sqnr:.2f} dB, cosine {self.cosine:.6f}, largest {self.largest:.4g}; of {self.n} "
            f"elements {self.equal} equal, {self.flushed} flushed{saturated}{not_finite}>"
        )


def error(x: Any, q: Any, *, source: str | None = None) -> Error:
    """
    Compare numbers q, an array or Quantized, to those that they stand for. source: the format of q in integers, as in cast().

    >>> import mxfp, numpy
    >>> x = numpy.float32([1, 2, 3, 5])
    >>> e = mxfp.error(x, mxfp.quantize(x, "mxfp4"))
    >>> round(e.sqnr, 2), e.largest, e.equal
    (15.91, 1.0, 3)
    >>> mxfp.error(x, mxfp.cast(x, "e2m1"), source="e2m1").largest
    1.0
    """
    kind = kind_of(x)
    data, found, shape = kind.look(x)
    if found < OWN:
        found = source_number(found, None)
    shape = tuple(shape)
    axis = -1
    of_q: Any
    if isinstance(q, Quantized):
        axis, its_shape, of_q = q.axis, q.shape, q._operand()
    else:
        data_q, found_q, its_shape = kind_of(q).look(q, "q")
        if source is not None or found_q < OWN:
            found_q = source_number(found_q, source, "q")
        its_shape, of_q = tuple(its_shape), (data_q, found_q, -1)
    if its_shape != shape:
        raise ValueError(f"q: shape {its_shape}; that of x is {shape}")
    n, not_finite, equal, saturated, flushed, x2, q2, xq, d2, largest = _core.difference((data, found, axis), of_q)
    e = Error()
    e.n, e.not_finite, e.equal, e.flushed, e.largest = n, not_finite, equal, flushed, largest
    e.saturated = saturated if isinstance(q, Quantized) else None
    e.sqnr = inf if d2 == 0 else -inf if x2 == 0 else 10 * log10(x2 / d2)
    e.cosine = xq / (sqrt(x2) * sqrt(q2)) if x2 > 0 and q2 > 0 else 1.0 if x2 == q2 else nan
    e.mse = d2 / n if n else nan
    return e
