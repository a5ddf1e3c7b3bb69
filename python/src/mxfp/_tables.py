# SPDX-License-Identifier: MIT
"""Formats and options by their names, from the library's tables."""

from __future__ import annotations

from . import _core


class Names(dict[str, int]):
    """Numbers by name. An unknown name is a ValueError that lists those that there are."""

    __slots__ = ("_argument", "_what")

    def __init__(self, argument: str, what: str, names: list[str]) -> None:
        super().__init__((name, number) for number, name in enumerate(names))
        self._argument = argument
        self._what = what

    def __missing__(self, name: object) -> int:
        raise unknown(self._argument, name, self._what, list(self))


def unknown(argument: str, name: object, what: str, names: list[str]) -> Exception:
    """The error of a name that is none, in the words of the command."""
    if not isinstance(name, str):
        return TypeError(f"{argument}: a name is needed, not {name!r} ({what}: {', '.join(names)})")
    close = meant(name, names)
    guess = f": did you mean {' or '.join(map(repr, close))}?" if close else ""
    return ValueError(f"{argument}: unknown value {name!r}{guess} ({what}: {', '.join(names)})")


def meant(name: str, names: list[str]) -> list[str]:
    """What a name that is none most likely means: one that it begins or is in, like 'fp4', one in it, like 'nvfp4-w4a4', or near."""
    import difflib

    word = name.lower().replace("_", "-")
    if not word:
        return []
    begun = [n for n in names if n.startswith(word)]
    if begun:
        return begun[:1]
    within = [n for n in names if len(word) > 2 and word in n]
    holds = sorted((n for n in names if len(n) > 3 and n in word), key=len)
    return within[:3] or holds[-1:] or difflib.get_close_matches(word, names, 1)


class Format:
    """
    A format of the library: an element format, a code for each number, or a block format, whose elements share scales.

    >>> import mxfp
    >>> mxfp.formats["mxfp4"].bits_per_number
    4.25
    >>> mxfp.formats["e4m3"].largest
    448.0
    """

    __slots__ = {
        "name": "as all functions take it",
        "number": "enum mxfp_format",
        "kind": "'float', 'ufloat', 'fixed', 'exponent' or 'block'",
        "special": "of elements: 'none', 'nan', 'ieee' or 'fnuz': which codes are NaN and Inf",
        "bits": "of a code, of an element in a block format",
        "exponent_bits": "of a code",
        "significand_bits": "as stored, without the hidden bit",
        "bias": "of the exponent",
        "max_code": "of the largest finite number",
        "storage_bytes": "of a code by itself",
        "element": "of blocks: the format of their elements; of elements: their own name",
        "scale": "of blocks: the format of their scales",
        "block_length": "elements that share a scale; 1: no blocks",
        "tensor_scale": "whether the whole tensor has a scale in binary32 besides",
    }

    name: str
    number: int
    kind: str
    special: str
    bits: int
    exponent_bits: int
    significand_bits: int
    bias: int
    max_code: int
    storage_bytes: int
    element: str
    scale: str | None
    block_length: int
    tensor_scale: bool

    def __init__(self, number: int) -> None:
        row = _core.formats[number]
        self.number = number
        (self.name, self.kind, self.special, self.bits, self.exponent_bits, self.significand_bits) = row[:6]
        (self.bias, self.max_code, self.storage_bytes) = row[6:9]
        self.element = _core.formats[row[9]][0]
        self.scale = _core.formats[row[10]][0] if self.kind == "block" else None
        self.block_length = row[11]
        self.tensor_scale = row[12]
        if self.kind == "block":
            self.bits = _core.formats[row[9]][3]

    @property
    def is_block(self) -> bool:
        """Whether quantize() takes it; the others are cast()'s."""
        return self.kind == "block"

    @property
    def bits_per_number(self) -> float:
        """Bits of a number, its part of the scale included."""
        return self.bits + 8 / self.block_length if self.is_block else self.bits

    @property
    def largest(self) -> float:
        """The largest finite number of an element, without its scale."""
        if self.is_block:
            return formats[self.element].largest
        if self.kind == "fixed":
            return self.max_code / 2.0**self.significand_bits
        if self.kind == "exponent":
            return 2.0 ** (self.max_code - self.bias)
        exponent = self.max_code >> self.significand_bits
        significand = self.max_code & ((1 << self.significand_bits) - 1)
        return (1 + significand / 2.0**self.significand_bits) * 2.0 ** (exponent - self.bias)

    def __repr__(self) -> str:
        if self.is_block:
            return (
                f"<mxfp format {self.name}: blocks of {self.block_length} {self.element} with a scale in {self.scale}, "
                f"{self.bits_per_number:g} bits a number>"
            )
        return f"<mxfp format {self.name}: {self.bits} bits, largest {self.largest:g}>"


def _meanings(rows: list[tuple[str, str]]) -> dict[str, str]:
    return dict(rows)


def _names(argument: str, what: str, rows: list[tuple[str, str]]) -> Names:
    return Names(argument, what, [name for name, _ in rows])


#: Formats by name.
formats: dict[str, Format] = {}
formats.update((row[0], Format(number)) for number, row in enumerate(_core.formats))
#: Scale rules of the MX formats: {name: meaning}.
rules = _meanings(_core.rules)
#: NVFP4 recipes: {name: meaning}.
recipes = _meanings(_core.recipes)
#: Rounding modes: {name: meaning}.
rounds = _meanings(_core.rounds)
#: What becomes of numbers that are too large: {name: meaning}.
overflows = _meanings(_core.overflows)
#: What a block with NaN or Inf becomes: {name: meaning}.
non_finites = _meanings(_core.non_finites)
#: How products are summed: {name: meaning}.
accs = _meanings(_core.accs)
#: Functions of one number: {name: meaning}.
functions = _meanings(_core.functions)

RULES = _names("rule", "scale rules", _core.rules)
RECIPES = _names("recipe", "recipes", _core.recipes)
ROUNDS = _names("round", "rounding modes", _core.rounds)
OVERFLOWS = _names("overflow", "overflow", _core.overflows)
NON_FINITES = _names("non_finite", "policies", _core.non_finites)
ACCS = _names("acc", "accumulation", _core.accs)
FUNCTIONS = _names("function", "functions", _core.functions)

#: The NVFP4 recipe if none is named: that of `mxfp quantize`, for its layout compressed-tensors.
DEFAULT_RECIPE = "compressed-tensors"

# Names of dtypes of numpy, ml_dtypes, torch and jax.
DTYPES = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "float8_e5m2": "e5m2",
    "float8_e4m3fn": "e4m3",
    "float8_e4m3": "e4m3ieee",
    "float8_e3m4": "e3m4",
    "float8_e8m0fnu": "e8m0",
    "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2fnuz": "e5m2fnuz",
    "float6_e3m2fn": "e3m2",
    "float6_e2m3fn": "e2m3",
    "float4_e2m1fn": "e2m1",
}
F32, BF16, F16 = (formats[name].number for name in ("f32", "bf16", "f16"))

_numbers: dict[str, int] = {name: f.number for name, f in formats.items()}

BLOCK_NUMBERS = frozenset(f.number for f in formats.values() if f.is_block)


def format_number(name: str, argument: str = "format") -> int:
    """The number of a format of that name, or alias, or dtype's name."""
    number = _numbers.get(name)
    if number is not None:
        return number
    number = -1
    if isinstance(name, str):
        number = _core.format_from_name(DTYPES.get(name, name))
    if number < 0:
        raise unknown(argument, name, "formats", list(formats))
    _numbers[name] = number
    return number


_blocks: dict[object, Format] = {}


def block_format(name: str | Format, argument: str = "format") -> Format:
    """The block format of that name."""
    if isinstance(name, str):
        known = _blocks.get(name)
        if known is not None:
            return known
    found = name if isinstance(name, Format) else formats[_core.formats[format_number(name, argument)][0]]
    if not found.is_block:
        blocks = [f for f in formats.values() if f.is_block]
        with_it = [f.name for f in blocks if f.element == found.name]
        guess = f"; did you mean {' or '.join(map(repr, with_it))}?" if with_it else ""
        names = ", ".join(f.name for f in blocks)
        raise ValueError(f"{argument}: {found.name} has no blocks; cast() converts to it{guess} (block formats: {names})")
    _blocks[name] = found
    return found
