# SPDX-License-Identifier: MIT
"""Tensors of files: the parts that a Quantized becomes in layouts that hold rows of codes and rows of scales."""

from __future__ import annotations

from ._quantize import Quantized
from ._arrays import kind_of
from ._tables import formats, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# {layout: {format: (what the name of the codes ends with, dtype of codes, dtype of scales)}}, as doc/layout.md has it.
_LAYOUTS: dict[str, dict[str, tuple[str, str, str]]] = {
    "compressed-tensors": {
        "mxfp4": ("_packed", "uint8", "uint8"),
        "nvfp4": ("_packed", "uint8", "float8_e4m3fn"),
        "mxfp8-e4m3": ("", "float8_e4m3fn", "uint8"),
        "mxfp6-e2m3": ("_packed", "uint8", "uint8"),
    },
    "modelopt": {
        "nvfp4": ("", "uint8", "float8_e4m3fn"),
        "mxfp4": ("", "uint8", "uint8"),
        "mxfp8-e4m3": ("", "float8_e4m3fn", "uint8"),
    },
}
# How each has NVFP4's tensor scale: its name, whether it divides, and its shape.
_TENSOR_SCALES: dict[str, tuple[str, bool, tuple[int, ...]]] = {
    "compressed-tensors": ("_global_scale", True, (1,)),
    "modelopt": ("_scale_2", False, ()),
}


def _as(x: Any, dtype: str) -> Any:
    """Bytes as a dtype of torch, if it has that one; numpy's stay bytes."""
    kind = kind_of(x)
    native = kind.named(dtype) if kind.name == "torch" else None
    return x if native is None else x.view(native)


def _tensor_scale(q: Quantized, layout: str) -> Any:
    _, divides, shape = _TENSOR_SCALES[layout]
    kind = kind_of(q.codes)
    from struct import pack, unpack

    value = q.tensor_scale
    if q.tensor_scale_divides != divides:
        (value,) = unpack("f", pack("f", 1 / value)) if value else (float("inf"),)
        if value * q.tensor_scale != 1:
            recipe = "compressed-tensors" if divides else "te"
            raise ValueError(
                f"to_layout: the tensor scale {q.tensor_scale!r} {'multiplies' if divides else 'divides'}, that of {layout} "
                f"{'divides' if divides else 'multiplies'}, and 1 divided by it is not exact; quantize with recipe={recipe!r}"
            )
    made = kind.empty(shape, kind.dtype(formats["f32"].number))
    made[...] = value
    return made


def parts(q: Quantized, layout: str, name: str) -> dict[str, Any]:
    """What Quantized.to_layout() returns."""
    if layout not in _LAYOUTS:
        raise unknown("layout", layout, "layouts here", [*_LAYOUTS])
    form = _LAYOUTS[layout].get(q.format)
    if form is None:
        raise ValueError(f"to_layout: {layout} has no {q.format} here (formats: {', '.join(_LAYOUTS[layout])})")
    if q.axis != -1 or len(q.shape) < 2:
        raise ValueError(f"to_layout: {layout} holds matrices whose rows are in blocks; this has shape {q.shape}, axis {q.axis}")
    block = formats[q.format].block_length
    if q.shape[-1] % block:
        raise ValueError(f"to_layout: rows of {q.shape[-1]} are not whole blocks of {block}")
    suffix, codes, scales = form
    made = {f"{name}{suffix}": _as(q.codes, codes), f"{name}_scale": _as(q.scales, scales)}
    if formats[q.format].tensor_scale:
        made[f"{name}{_TENSOR_SCALES[layout][0]}"] = _tensor_scale(q, layout)
    return made
