# SPDX-License-Identifier: MIT
"""Models in files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from . import _core
from ._arrays import kind_named
from ._quantize import Quantized, part_shapes
from ._tables import formats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# dtypes of files: the name that numpy, ml_dtypes and torch have for them.
_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "I32": "int32",
    "U32": "uint32",
    "I64": "int64",
    "U64": "uint64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


class TensorInfo:
    """What a model says of a tensor: Model.info(name)."""

    __slots__ = {
        "name": "of the tensor",
        "quantized": "whether it is read as Quantized",
        "dtype": "as safetensors has it, 'BF16'; of quantized ones the format",
        "layout": "of quantized ones: how their parts lie in files",
        "shape": "of the numbers",
        "nbytes": "in memory",
    }

    name: str
    quantized: bool
    dtype: str
    layout: str | None
    shape: tuple[int, ...]
    nbytes: int

    def __repr__(self) -> str:
        layout = f" in layout {self.layout}" if self.layout else ""
        return f"<{self.name}: {self.dtype} {self.shape}{layout}>"


class Model(Mapping[str, "Any"]):
    """
    A model's tensors by name: what open() returns. A tensor is read when it is asked for, and not kept.

    Quantized ones, whoever made them, are Quantized, under the names that they had before; their parts (codes, scales) have no
    names here. FP8 weights with scales that are numbers, and ggml's Q8_0, are float32.
    """

    def __init__(self, path: str, model: Any, rows: list[Any], kind: Any) -> None:
        self.path = path
        self._model = model
        self._rows = {row[0]: (i, row) for i, row in enumerate(rows)}
        self._kind = kind

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def info(self, name: str) -> TensorInfo:
        """What the files say of a tensor, without reading it."""
        row = self._row(name)[1]
        info = TensorInfo()
        info.name, info.quantized, info.dtype, info.layout, info.shape = name, row[1] == "blocks", row[2], row[3], row[4]
        info.nbytes = row[8] + row[9]
        return info

    def _row(self, name: str) -> tuple[int, Any]:
        try:
            found: tuple[int, Any] = self._rows[name]
        except KeyError:
            import difflib

            close = difflib.get_close_matches(str(name), self._rows, 1)
            guess = f": did you mean {close[0]!r}?" if close else ""
            raise KeyError(f"{self.path}: has no tensor {name!r}{guess}") from None
        return found

    def __getitem__(self, name: str) -> Any:
        number, (_, what, dtype, _, shape, transposed, scale, divides, _, _) = self._row(name)
        if self._model is None:
            raise ValueError(f"{self.path}: is closed")
        kind = self._kind
        if what == "opaque":
            raise ValueError(f"{self.path}: tensor {name!r}: is {dtype}, which is not read here")
        if what == "blocks":
            format = formats[dtype]
            axis = -2 if transposed else -1
            code_shape, scale_shape = part_shapes(format, shape, axis)
            codes, scales = kind.bytes(code_shape), kind.bytes(scale_shape)
            _core.model_read(self._model, number, kind.own(codes), kind.own(scales))
            scaled = format.tensor_scale
            try:
                return Quantized(
                    codes,
                    scales,
                    shape,
                    dtype,
                    tensor_scale=scale if scaled else 1.0,
                    tensor_scale_divides=divides if scaled else False,
                    axis=axis,
                )
            except ValueError as error:
                raise ValueError(f"{self.path}: tensor {name!r}: {error}") from None
        native = kind.named(_DTYPES[dtype])
        if native is None:
            raise ValueError(
                f"{self.path}: tensor {name!r}: is {dtype}, for which {kind.name} has no dtype"
                + (": install ml_dtypes, or open with arrays='torch'" if kind.name == "numpy" else "")
            )
        made = kind.empty(shape, native)
        _core.model_read(self._model, number, kind.as_bytes(made), None)
        return made

    def close(self) -> None:
        """Close the files; tensors that were read stay."""
        self._model = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        quantized = sum(row[1] == "blocks" for _, row in self._rows.values())
        return f"<mxfp model {self.path}: {len(self)} tensors, {quantized} of them quantized>"


def open(path: str | os.PathLike[str], arrays: str = "numpy") -> Model:
    """
    Open a model: a .safetensors, .gguf or .npy file, or a directory with one or with shards and their index, as all commands do.

    Returns a mapping of names to tensors, which are read when they are asked for. arrays: "numpy" or "torch". numpy needs the
    package ml_dtypes for tensors in bfloat16 and FP8.

    Raises ValueError, with the words of the command, for a file that is damaged, or a model that says something about its numbers
    that is not known here; OSError where reading fails.

    >>> import mxfp, numpy, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> numpy.save(path, numpy.float32([[1, 2], [3, 4]]))
    >>> with mxfp.open(path) as model:
    ...     for name in model:
    ...         print(model.info(name), model[name].tolist())
    <array: F32 (2, 2)> [[1.0, 2.0], [3.0, 4.0]]
    """
    if not hasattr(_core, "model_open"):
        raise NotImplementedError(
            "open: the module was built without the command's readers, for which jansson, xxhash, pcre2, utf8proc and sleef must "
            "be there (scripts/dependencies.sh python)"
        )
    kind = kind_named(arrays)
    name = os.fspath(path)
    if ("\0" if isinstance(name, str) else b"\0") in name:
        raise ValueError(f"path: {name!r} has a NUL, which no name of a file has")
    model, rows = _core.model_open(os.fsencode(name))
    return Model(name, model, rows, kind)
