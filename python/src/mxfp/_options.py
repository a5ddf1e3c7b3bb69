# SPDX-License-Identifier: MIT
"""How numbers become blocks, and what is counted."""

from __future__ import annotations

from ._tables import NON_FINITES, RECIPES, ROUNDS, RULES, Format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# As _core takes it: rule, recipe, round, non_finite, no_negative_zero, via_bf16, block_rows, seed, stream, first_index,
# tensor_amax.
Row = tuple[int, int, int, int, bool, bool, int, int, int, int, "float | None"]
DEFAULTS: Row = (0, 0, 0, 0, False, False, 0, 0, 0, 0, None)


def word(number: int, argument: str, bits: int = 64) -> int:
    """An unsigned integer of that many bits."""
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{argument}: {number} is not from 0 to 2^{bits} - 1")
    return number


class Options:
    """
    How numbers are quantized, for functions that quantize what they read or compute on the way: gemm(a_options=...).

    quantize() takes the same by name. `rule` is for the MX formats, `recipe` and `tensor_amax` for NVFP4.

    >>> import mxfp
    >>> mxfp.Options(rule="rceil", round="sr", seed=7)
    Options(rule='rceil', round='sr', seed=7)
    >>> mxfp.Options(rule="rcel")
    Traceback (most recent call last):
        ...
    ValueError: rule: unknown value 'rcel': did you mean 'rceil'? (scale rules: mse, floor, ceil, even, even-m1, rceil, fit, trn3, rne, log-nearest)
    """

    __slots__ = ("_row", "_given")

    def __init__(
        self,
        *,
        rule: str | None = None,
        recipe: str | None = None,
        round: str = "rne",
        non_finite: str = "propagate",
        no_negative_zero: bool = False,
        via_bf16: bool = False,
        block_rows: int = 1,
        seed: int = 0,
        stream: int = 0,
        first_index: int = 0,
        tensor_amax: float | None = None,
    ) -> None:
        given = locals()
        self._given = {name: value for name, value in given.items() if name != "self" and value != _DEFAULT_OPTIONS[name]}
        self._row: Row = (
            0 if rule is None else RULES[rule],
            0 if recipe is None else RECIPES[recipe],
            ROUNDS[round],
            NON_FINITES[non_finite],
            no_negative_zero,
            via_bf16,
            word(block_rows, "block_rows", 63),
            word(seed, "seed"),
            word(stream, "stream"),
            word(first_index, "first_index"),
            tensor_amax,
        )

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def _of(self, format: Format) -> Row:
        """What _core takes, for a format that the options must be of."""
        check(format, self._given.get("rule"), self._given.get("recipe"), self._row[10])
        return self._row


_DEFAULT_OPTIONS: dict[str, Any] = {
    "rule": None,
    "recipe": None,
    "round": "rne",
    "non_finite": "propagate",
    "no_negative_zero": False,
    "via_bf16": False,
    "block_rows": 1,
    "seed": 0,
    "stream": 0,
    "first_index": 0,
    "tensor_amax": None,
}


def check(format: Format, rule: str | None, recipe: str | None, tensor_amax: float | None) -> None:
    """Refuses what another kind of format has."""
    if format.tensor_scale:
        if rule is not None:
            raise ValueError(f"rule: {rule!r} is of the MX formats; {format.name} takes a recipe")
    elif recipe is not None:
        raise ValueError(f"recipe: {recipe!r} is of nvfp4; {format.name} takes a rule")
    elif tensor_amax is not None:
        raise ValueError(f"tensor_amax: {format.name} has no tensor scale")


def row_of(format: Format, options: Options | None) -> Row:
    return DEFAULTS if options is None else options._of(format)


class Counts:
    """
    What happened to numbers that became codes. Calls add to it.

    >>> import mxfp
    >>> counts = mxfp.Counts()
    >>> _ = mxfp.cast([1.0, 1e6, 1e-9, float("nan")], "e4m3", counts=counts)
    >>> counts
    Counts(saturated=1, overflowed=0, flushed=1, nan=1, inf=0)
    """

    __slots__ = {
        "saturated": "became the largest number of their sign",
        "overflowed": "finite numbers that became Inf or NaN",
        "flushed": "nonzero numbers that became zero",
        "nan": "NaN in what was read",
        "inf": "Inf in what was read",
    }

    saturated: int
    overflowed: int
    flushed: int
    nan: int
    inf: int

    def __init__(self) -> None:
        self.saturated = self.overflowed = self.flushed = self.nan = self.inf = 0

    def _add(self, counts: tuple[int, int, int, int, int] | None) -> None:
        if counts is not None:
            self.saturated += counts[0]
            self.overflowed += counts[1]
            self.flushed += counts[2]
            self.nan += counts[3]
            self.inf += counts[4]

    def __repr__(self) -> str:
        return f"Counts({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"
