# SPDX-License-Identifier: MIT
"""How numbers become blocks, and what is counted."""

from __future__ import annotations

from math import inf
from operator import index

from ._tables import DEFAULT_RECIPE, NON_FINITES, RECIPES, ROUNDS, RULES, Format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# As _core takes it: rule, recipe, round, non_finite, no_negative_zero, via_bf16, block_rows, seed, stream, first_index,
# tensor_amax.
Row = tuple[int, int, int, int, bool, bool, int, int, int, int, "float | None"]
# What differs from None, the library's defaults, where a format has recipes.
RECIPE_DEFAULTS: Row = (0, RECIPES[DEFAULT_RECIPE], 0, 0, False, False, 0, 0, 0, 0, None)


def word(number: Any, argument: str, bits: int = 64) -> int:
    """An unsigned integer of that many bits."""
    if type(number) is not int:
        try:
            number = index(number)
        except TypeError:
            raise TypeError(f"{argument}: an integer is needed, not {number!r}") from None
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{argument}: {number} is not from 0 to 2^{bits} - 1")
    return int(number)


def real(number: Any, argument: str, least: float = -inf) -> float:
    """A number that is finite in binary32, and not below `least`."""
    if not hasattr(type(number), "__float__"):
        raise TypeError(f"{argument}: a number is needed, not {number!r}")
    try:
        # Files hold a tensor scale as an array of one number, which numpy 2.4 and later no longer takes for it.
        value = float(number.item() if hasattr(number, "item") else number)
    except OverflowError:
        value = inf
    except (TypeError, ValueError, RuntimeError):  # an array of several numbers, say
        raise TypeError(f"{argument}: a number is needed, not {number!r}") from None
    # From there on binary32 rounds to Inf.
    if not abs(value) < 2.0**128 - 2.0**103 or value < least:
        raise ValueError(f"{argument}: {number!r}; a finite number{f' from {least:g} on' if least > -inf else ''} is needed")
    return value


def optional(number: Any, argument: str, least: float = -inf) -> float | None:
    return None if number is None else real(number, argument, least)


class Options:
    """
    How numbers are quantized, for functions that quantize what they read or compute on the way: gemm(a_options=...).

    quantize() takes the same by name, and has the same defaults. `rule` is for the MX formats, `recipe` and `tensor_amax` for NVFP4.

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
        tensor_amax = optional(tensor_amax, "tensor_amax", 0)
        given = locals()
        self._given = {name: value for name, value in given.items() if name != "self" and value != _DEFAULT_OPTIONS[name]}
        self._row: Row = (
            0 if rule is None else RULES[rule],
            0 if recipe is None else RECIPES[recipe],
            ROUNDS[round],
            NON_FINITES[non_finite],
            no_negative_zero,
            via_bf16,
            squares(block_rows),
            word(seed, "seed"),
            word(stream, "stream"),
            word(first_index, "first_index"),
            tensor_amax,
        )

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def _of(self, format: Format) -> Row:
        """What _core takes, for a format that the options must be of."""
        given, row = self._given, self._row
        check(format, given.get("rule"), given.get("recipe"), given.get("round", "rne"), row[5], row[6], row[10])
        return (row[0], RECIPE_DEFAULTS[1], *row[2:]) if format.tensor_scale and given.get("recipe") is None else row


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


def squares(block_rows: Any) -> int:
    n = word(block_rows, "block_rows")
    if n not in (0, 1, 32):
        raise ValueError(f"block_rows: {n}; 1, or 32 for squares of blocks")
    return n


def check(
    format: Format, rule: str | None, recipe: str | None, round: str, via_bf16: bool, block_rows: int, tensor_amax: float | None
) -> None:
    """Refuses what another kind of format has."""
    if format.tensor_scale:
        if rule is not None:
            raise ValueError(f"rule: {rule!r} is of the MX formats; {format.name} takes a recipe")
        if via_bf16:
            raise ValueError(f"via_bf16: it is of the MX formats, not of {format.name}")
        if block_rows > 1:
            raise ValueError(f"block_rows: {block_rows}; {format.name} has no squares")
        if recipe == "ggml" and round != "rne":
            raise ValueError(f"round: {round!r}; recipe 'ggml' rounds in its own way, which is \"rne\" here")
    elif recipe is not None:
        raise ValueError(f"recipe: {recipe!r} is of nvfp4; {format.name} takes a rule")
    elif tensor_amax is not None:
        raise ValueError(f"tensor_amax: {format.name} has no tensor scale")


def row_of(format: Format, options: Options | None, argument: str) -> Row | None:
    """What _core takes; None: the library's defaults."""
    if options is None:
        return RECIPE_DEFAULTS if format.tensor_scale else None
    if not isinstance(options, Options):
        raise TypeError(f"{argument}: mxfp.Options is needed, not {type(options)!r}")
    return options._of(format)


def row_to(format: Format, options: Options | None) -> Row | None:
    """The same for results, which become blocks as they are computed."""
    row = row_of(format, options, "to_options")
    if row is not None and row[6] > 1:
        raise ValueError(f"to_options: block_rows {row[6]}; results become blocks row by row")
    if row is not None and row[3] == NON_FINITES["error"]:
        raise ValueError("to_options: non_finite 'error'; results are not known before they become blocks")
    if row is not None and format.tensor_scale and row[10] is None and row[1] not in (RECIPES["torchao-1"], RECIPES["ggml"]):
        raise ValueError(
            f"to_options: {format.name} needs tensor_amax, the largest magnitude of the result, which is not known before; or a "
            "recipe without a tensor scale: 'torchao-1' or 'ggml'"
        )
    return row


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
