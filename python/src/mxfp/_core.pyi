# SPDX-License-Identifier: MIT
from typing import Any

version: str
build_info: str
formats: list[tuple[str, str, str, int, int, int, int, int, int, int, int, int, bool]]
rounds: list[tuple[str, str]]
overflows: list[tuple[str, str]]
rules: list[tuple[str, str]]
recipes: list[tuple[str, str]]
non_finites: list[tuple[str, str]]
accs: list[tuple[str, str]]
functions: list[tuple[str, str]]

_Outcome = tuple[float, bool, tuple[int, int, int, int, int] | None]

def describe(array: object, what: str, /) -> tuple[str, int, int, int, tuple[int, ...]]: ...
def set_threads(n: int, /) -> None: ...
def row_bytes(format: int, cols: int, /) -> tuple[int, int]: ...
def isa() -> tuple[list[str], str]: ...
def format_from_name(name: str, /) -> int: ...
def convert(target: Any, src: Any, options: Any, /) -> _Outcome: ...
def quantize(target: Any, src: Any, options: Any, /) -> _Outcome: ...
def fake_quantize(target: Any, format: int, src: Any, options: Any, /) -> _Outcome: ...
def dequantize(target: Any, src: Any, /) -> _Outcome: ...
def transpose(target: Any, src: Any, /) -> _Outcome: ...
def amax(src: Any, /) -> float: ...
def unpack(target: Any, src: Any, /) -> _Outcome: ...
def difference(
    x: Any, y: Any, /
) -> tuple[int, int, int, int, int, float, float, float, float, float]: ...
def equal(a: Any, b: Any, /) -> bool: ...
def gemm(target: Any, a: Any, w: Any, kernel: Any, finish: Any, /) -> _Outcome: ...
def pack(w: Any, kernel: Any, /) -> bytes: ...
def takes(acc: int, /) -> list[tuple[int, int]]: ...
def apply(target: Any, function: int, src: Any, parameter: float | None, quantize: Any, /) -> _Outcome: ...
def softmax(
    target: Any,
    logarithm: bool,
    src: Any,
    scale: float | None,
    mask: Any,
    head_rows: int,
    causal: bool,
    causal_offset: int,
    sinks: Any,
    quantize: Any,
    /,
) -> _Outcome: ...
def norm(
    target: Any,
    mean: bool,
    src: Any,
    epsilon: float,
    weight: Any,
    bias: Any,
    weight_plus_one: bool,
    residual: Any,
    residual_out: Any,
    quantize: Any,
    /,
) -> _Outcome: ...
def add(target: Any, a: Any, b: Any, quantize: Any, /) -> _Outcome: ...
def glu(
    target: Any,
    function: int,
    gate: Any,
    up: Any,
    parameter: float | None,
    limit: float | None,
    up_plus_one: bool,
    quantize: Any,
    /,
) -> _Outcome: ...
def rotary(
    target: Any,
    src: Any,
    frequencies: Any,
    head_cols: int,
    rotary_cols: int,
    interleaved: bool,
    positions: Any,
    first_position: int,
    attention_factor: float | None,
    quantize: Any,
    /,
) -> _Outcome: ...
def frequencies(
    frequencies: Any,
    base: float,
    scaling: int,
    factor: float,
    original_positions: int,
    low_freq_factor: float,
    high_freq_factor: float,
    beta_fast: float,
    beta_slow: float,
    truncate: bool,
    mscale: float,
    mscale_all_dim: float,
    /,
) -> float: ...
def reduce(numbers: Any, reduction: int, src: Any, /) -> None: ...
def argmax(integers: Any, src: Any, /) -> None: ...
def model_open(path: bytes, /) -> tuple[Any, list[Any]]: ...
def model_read(model: Any, number: int, data: Any, scales: Any, /) -> None: ...
