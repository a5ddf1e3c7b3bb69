# SPDX-License-Identifier: MIT
"""Arrays of the caller: what is read, and arrays of the same kind for results.

numpy's and torch's are known by their types; other objects are read by the buffer protocol, __array_interface__ or DLPack,
and results for them, as for lists and numbers, are numpy's arrays, or memoryviews where numpy is not installed.
"""

from __future__ import annotations

import sys
from math import prod

from . import _core
from ._tables import BF16, BLOCK_NUMBERS, DTYPES, F16, F32, Format, format_number, formats, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OWN = -1  # the format is what the array itself says
CODES = -3  # integers, which `source` has to name

# Floating-point dtypes by their bytes; binary64 is rounded.
_FLOATS = {2: F16, 4: F32, 8: OWN}
_UINTS = {1: "uint8", 2: "uint16", 4: "uint32"}
# Letters of memoryview for formats whose numbers it knows.
_LETTERS = {F32: "f", format_number("tf32"): "f", format_number("int8"): "b"}


def _described(x: Any, what: str) -> tuple[int, tuple[int, ...]]:
    """The format and shape of whatever _core reads."""
    kind, number, _, size, shape = _core.describe(x, what)
    return number if kind == "format" else _FLOATS.get(size, CODES) if kind == "float" else CODES, shape


class Kind:
    """How arrays of one package are looked at and made."""

    name: str

    def look(self, x: Any, what: str = "x") -> tuple[Any, int, tuple[int, ...]]:
        """What the library reads for x, which errors call `what`; its format, and shape."""
        raise NotImplementedError

    def place(self, x: Any, what: str = "out") -> tuple[Any, int, tuple[int, ...]]:
        """The same for an array of the caller that the library writes to: never a copy."""
        return self.look(x, what)

    def own(self, x: Any) -> Any:
        """What the library writes to for an array that empty() or bytes() made."""
        return self.look(x)[0]

    def dtype(self, number: int) -> Any:
        """The dtype of results in a format."""
        raise NotImplementedError

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        raise NotImplementedError

    def bytes(self, shape: tuple[int, ...]) -> Any:
        """An array of uint8."""
        raise NotImplementedError

    def moved(self, x: Any, axis: int) -> Any:
        """x, whose last axis becomes `axis`."""
        raise NotImplementedError

    def format_of(self, dtype: Any) -> int:
        """The format of a dtype of the package; -1: none."""
        return -1

    def named(self, name: str) -> Any:
        """The dtype of that name; None: the package has none."""
        return None

    def as_bytes(self, x: Any) -> Any:
        """What the library writes to for all bytes of an array that empty() made."""
        raise NotImplementedError


class Memory(Kind):
    """Without numpy: buffers are read, results are memoryviews."""

    name = "memory"

    def look(self, x: Any, what: str = "x") -> tuple[Any, int, tuple[int, ...]]:
        return x, *_described(x, what)

    def dtype(self, number: int) -> Any:
        return _LETTERS.get(number, {1: "B", 2: "H", 4: "I"}[_core.formats[number][8]])

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        import struct

        view = memoryview(bytearray(prod(shape) * struct.calcsize(dtype)))
        return view.cast("B").cast(dtype, shape) if prod(shape) > 0 else view.cast(dtype)

    def bytes(self, shape: tuple[int, ...]) -> Any:
        return self.empty(shape, "B")

    def moved(self, x: Any, axis: int) -> Any:
        raise ValueError("axis: other axes than the last need numpy's or torch's arrays")


class Lists(Memory):
    """Numbers and nested lists of them, where there is no numpy."""

    def look(self, x: Any, what: str = "x") -> tuple[Any, int, tuple[int, ...]]:
        from array import array

        numbers: list[float] = []
        shape = _flatten(numbers, x, what)
        flat = memoryview(array("d", numbers))
        if prod(shape) > 0:
            return flat.cast("B").cast("d", shape), OWN, shape
        return flat, OWN, shape

    def place(self, x: Any, what: str = "out") -> tuple[Any, int, tuple[int, ...]]:
        raise TypeError(f"{what}: an array is needed, not {type(x)!r}")

    def own(self, x: Any) -> Any:
        return x


def _flatten(numbers: list[float], x: Any, what: str) -> tuple[int, ...]:
    """Appends the numbers of nested lists, and returns their shape."""
    if not isinstance(x, (list, tuple)):
        if not hasattr(type(x), "__float__"):
            raise _no_numbers(x, what)
        numbers.append(float(x))
        return ()
    shapes = {_flatten(numbers, part, what) for part in x} or {()}
    if len(shapes) > 1:
        raise ValueError(f"{what}: the lists have different lengths")
    return (len(x), *shapes.pop())


def _no_numbers(x: Any, what: str) -> TypeError:
    return TypeError(f"{what}: numbers are needed, not {x!r}")


def _refuse_masks(x: Any, what: str) -> None:
    if isinstance(x, (list, tuple)):
        for part in x:
            _refuse_masks(part, what)
    elif getattr(x, "mask", None) is not None:
        raise TypeError(f"{what}: a masked array, whose mask is not read; fill it first: x.filled(0)")


class Numpy(Kind):
    name = "numpy"

    def __init__(self, numpy: Any) -> None:
        self.numpy = numpy
        self.make, self.array = numpy.empty, numpy.ndarray
        self.uint8, self.float32 = numpy.dtype("uint8"), numpy.dtype("float32")
        self.views = {size: numpy.dtype(name) for size, name in _UINTS.items()}
        # What a dtype holds: its format, and the dtype to view it as where the struct module does not know it.
        self.known: dict[Any, tuple[int, Any]] = {self.float32: (F32, None)}
        self.formats: dict[Any, int] = {}
        # What the struct module knows.
        self.plain = frozenset(numpy.dtype(name) for name in ("uint8", "float32", "float16", "uint16", "int8", "int64"))
        self.dtypes = {
            number: numpy.dtype({F16: "float16", F32: "float32"}.get(number, "uint8")) for number in range(len(_core.formats))
        }
        self.dtypes[format_number("tf32")] = self.dtypes[F32]
        self.dtypes[format_number("int8")] = numpy.dtype("int8")
        self.dtypes[BF16] = numpy.dtype("uint16")

    def learn(self, dtype: Any, what: str) -> tuple[int, Any]:
        name = DTYPES.get(dtype.name)
        if dtype.kind in "iu":
            known: tuple[int, Any] = (CODES, None)
        elif dtype.kind == "f" and dtype.itemsize in _FLOATS:
            known = (_FLOATS[dtype.itemsize], None)
        elif name is not None:
            known = (format_number(name), self.views[dtype.itemsize].newbyteorder(dtype.byteorder))
        else:
            raise TypeError(f"{what}: dtype {dtype}; numbers are float32, bfloat16, float16, float64 or in a format of mxfp")
        self.known[dtype] = known
        return known

    def look(self, x: Any, what: str = "x") -> tuple[Any, int, tuple[int, ...]]:
        dtype = x.dtype
        _refuse_masks(x, what)
        # These two without a hash, which takes longer than all else here.
        if dtype is self.float32:
            return x, F32, x.shape
        if dtype is self.uint8:
            return x, CODES, x.shape
        known = self.known.get(dtype)
        if known is None:
            known = self.learn(dtype, what)
        number, view = known
        return x if view is None else x.view(view), number, x.shape

    def own(self, x: Any) -> Any:
        dtype = x.dtype
        return x if dtype is self.uint8 or dtype is self.float32 or dtype in self.plain else self.look(x)[0]

    def dtype(self, number: int) -> Any:
        return self.dtypes[number]

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self.make(shape, dtype)

    def bytes(self, shape: tuple[int, ...]) -> Any:
        return self.make(shape, self.uint8)

    def moved(self, x: Any, axis: int) -> Any:
        return self.numpy.moveaxis(x, -1, axis)

    def named(self, name: str) -> Any:
        if name == "bfloat16" or name.startswith("float8"):
            try:
                import ml_dtypes
            except ImportError:
                return None
            return self.numpy.dtype(getattr(ml_dtypes, name))
        return self.numpy.dtype(name)

    def as_bytes(self, x: Any) -> Any:
        return x.reshape(-1).view(self.uint8)

    def format_of(self, dtype: Any) -> int:
        try:
            found = self.formats.get(dtype)
            if found is None:
                name = DTYPES.get(self.numpy.dtype(dtype).name)
                found = self.formats[dtype] = -1 if name is None else format_number(name)
        except TypeError:
            return -1
        return found


class Other(Numpy):
    """Numbers, lists, and arrays of other packages; results are numpy's."""

    def look(self, x: Any, what: str = "x") -> tuple[Any, int, tuple[int, ...]]:
        if isinstance(x, (int, float, list, tuple)):
            return super().look(self.listed(x, what), what)
        if isinstance(x, self.numpy.generic):
            return super().look(self.numpy.asarray(x), what)
        dtype = getattr(x, "dtype", None)
        number = -1 if dtype is None else self.format_of(dtype)
        if number >= 0 and hasattr(x, "__array__"):
            # jax's arrays of ml_dtypes' dtypes, among others.
            return super().look(self.numpy.asanyarray(x), what)
        return x, *_described(x, what)

    def place(self, x: Any, what: str = "out") -> tuple[Any, int, tuple[int, ...]]:
        found = self.look(x, what)
        if found[0] is not x:
            raise TypeError(f"{what}: an array is needed, not {type(x)!r}")
        return found

    def listed(self, x: Any, what: str) -> Any:
        """Numbers and lists of them in float64. numpy would take None for NaN, read texts, and not look at masks."""
        _refuse_masks(x, what)
        try:
            found = self.numpy.asarray(x)
        except RuntimeError as error:  # of torch, for what it has in the list
            raise TypeError(f"{what}: {error}") from None
        except ValueError:
            raise ValueError(f"{what}: the lists have different lengths") from None
        if found.dtype.kind not in "biufO" and found.dtype.name not in DTYPES:
            raise _no_numbers(x, what)
        if found.dtype.kind == "O":
            for part in found.flat:
                if not hasattr(type(part), "__float__"):
                    raise _no_numbers(part, what)
        try:
            return found.astype("float64")
        except OverflowError:
            raise ValueError(f"{what}: an integer that float64 does not hold") from None


class Torch(Kind):
    name = "torch"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.tensor = torch.Tensor
        self.uint8 = torch.uint8
        self.known: dict[Any, tuple[int, Any]] = {}
        for name in ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"):
            dtype = getattr(torch, name, None)
            if dtype is not None:
                self.known[dtype] = (CODES, None)
        for name, number in (("float32", F32), ("float16", F16), ("float64", OWN)):
            self.known[getattr(torch, name)] = (number, None)
        self.dtypes = {number: torch.uint8 for number in range(len(_core.formats))}
        for name, short in DTYPES.items():
            dtype = getattr(torch, name, None)
            if dtype is None:
                continue
            number = format_number(short)
            self.dtypes[number] = dtype
            if dtype not in self.known:
                self.known[dtype] = (number, torch.int16 if _core.formats[number][8] == 2 else torch.uint8)
        self.dtypes[format_number("tf32")] = torch.float32
        self.dtypes[format_number("int8")] = torch.int8
        self.is_tracing = getattr(getattr(torch, "jit", None), "is_tracing", None)
        self.is_functional = getattr(torch, "_is_functional_tensor", None)
        # Modes that run functions of torch on tensors of their own, or write them down.
        its = getattr(torch, "_C", None)
        self.mode, keys = getattr(its, "_get_dispatch_mode", None), getattr(its, "_TorchDispatchModeKey", None)
        self.modes = [key for key in (getattr(keys, name, None) for name in ("FAKE", "FUNCTIONAL", "PROXY")) if key is not None]
        self.has_numpy = True
        try:
            torch.empty((0,), dtype=torch.uint8).numpy()
        except RuntimeError:
            self.has_numpy = False

    def look(self, x: Any, what: str = "x") -> tuple[Any, int, tuple[int, ...]]:
        known = self.check(x, what)
        if x.is_neg():
            x = self.tried(x.resolve_neg, what)
        elif self.is_zeros(x):
            x = self.torch.zeros(x.shape, dtype=x.dtype, device="cpu")
        return self.memory(x, known, what)

    def place(self, x: Any, what: str = "out") -> tuple[Any, int, tuple[int, ...]]:
        known = self.check(x, what)
        if x.is_neg() or self.is_zeros(x):
            raise TypeError(f"{what}: a tensor whose numbers are others than those in its memory; pass {what}.clone()")
        if x.requires_grad and self.torch.is_grad_enabled():
            raise ValueError(f"{what}: requires grad; call under torch.no_grad(), or pass {what}.detach()")
        found = self.memory(x, known, what)
        # So that a gradient which needs what was there before is an error, as for torch's own functions.
        increment = getattr(getattr(getattr(self.torch, "autograd", None), "graph", None), "increment_version", None)
        if increment is not None and not x.is_inference():
            increment(x)
        return found

    def check(self, x: Any, what: str) -> tuple[int, Any]:
        """Refuses a tensor whose numbers lie elsewhere or otherwise; its format, and the dtype to view it as."""
        if (self.is_tracing is not None and self.is_tracing()) or (self.mode is not None and any(map(self.mode, self.modes))):
            raise TypeError(f"{what}: torch is recording its functions here, as torch.jit.trace and make_fx do; mxfp's are none of them")
        if self.is_functional is not None and self.is_functional(x):
            raise TypeError(f"{what}: a tensor of torch.func.functionalize, whose numbers lie in another; pass a plain tensor")
        own = getattr(self.tensor, "__torch_dispatch__", None)
        if type(x) is not self.tensor and getattr(type(x), "__torch_dispatch__", own) is not own:
            raise TypeError(f"{what}: a {type(x).__name__}, whose numbers lie in other tensors or nowhere; pass a plain tensor")
        if getattr(x, "is_nested", False):
            raise TypeError(f"{what}: a nested tensor; pass its tensors one by one: x.unbind()")
        known = self.known.get(x.dtype)
        if known is None:
            raise TypeError(
                f"{what}: dtype {x.dtype}; numbers are float32, bfloat16, float16, float64 or in a format of mxfp, a code each"
            )
        device = x.device.type
        if device == "meta":
            raise TypeError(f"{what}: lies on device meta, which has no numbers")
        if device != "cpu":
            raise TypeError(f"{what}: lies on device {x.device}; move it to the CPU first: x.cpu()")
        layout = getattr(x, "layout", None)
        if layout is not None and layout is not self.torch.strided:
            raise TypeError(f"{what}: layout {layout}; make it plain first: x.to_dense()")
        return known

    @staticmethod
    def is_zeros(x: Any) -> bool:
        """Whether a tensor is one of zeros without memory, which torch's gradients make."""
        test = getattr(x, "_is_zerotensor", None)
        return test is not None and bool(test())

    @staticmethod
    def tried(call: Any, what: str) -> Any:
        """What a method of a tensor returns. What torch refuses is refused in its words."""
        try:
            return call()
        except RuntimeError as error:
            words = (str(error) or type(error).__name__).splitlines()[0]
            raise TypeError(f"{what}: its memory cannot be read: {words}") from None

    def memory(self, x: Any, known: tuple[int, Any], what: str) -> tuple[Any, int, tuple[int, ...]]:
        """The memory of a plain tensor as the library reads and writes it."""
        number, view = known
        shape = tuple(x.shape)
        if x.requires_grad:
            x = x.detach()
        if view is not None:
            x = self.tried(lambda: x.view(view), what)
        if self.has_numpy:
            x = self.tried(x.numpy, what)
        else:
            self.tried(x.data_ptr, what)
        return x, number, shape

    def dtype(self, number: int) -> Any:
        return self.dtypes[number]

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        try:
            made = self.torch.empty(shape, dtype=dtype)
            # set_default_device() may have said another.
            return made if made.device.type == "cpu" else self.torch.empty(shape, dtype=dtype, device="cpu")
        except RuntimeError as error:
            raise MemoryError(str(error).splitlines()[0]) from None

    def bytes(self, shape: tuple[int, ...]) -> Any:
        return self.empty(shape, self.uint8)

    def moved(self, x: Any, axis: int) -> Any:
        return self.torch.movedim(x, -1, axis)

    def named(self, name: str) -> Any:
        return getattr(self.torch, name, None)

    def as_bytes(self, x: Any) -> Any:
        return x.reshape(-1).view(self.torch.uint8).numpy()

    def format_of(self, dtype: Any) -> int:
        if not isinstance(dtype, self.torch.dtype):
            return -1
        name = DTYPES.get(str(dtype).rpartition(".")[2])
        return -1 if name is None else format_number(name)


_kinds: dict[type, Kind] = {}
_torch: Torch | None = None
_numpy: Numpy | None = None
_other: Kind | None = None


def _has_numpy() -> Any:
    global _numpy, _other
    if _numpy is None:
        try:
            import numpy
        except ImportError:
            return None
        _numpy, _other = Numpy(numpy), Other(numpy)
    return _numpy.numpy


def kind_of(x: Any) -> Kind:
    """The kind of an array, by its type."""
    return _kinds.get(type(x)) or _find(x)


def _find(x: Any) -> Kind:
    global _torch
    kind: Kind
    numpy = sys.modules.get("numpy")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, getattr(torch, "Tensor", ())):
        _torch = kind = _torch or Torch(torch)
    elif numpy is not None and isinstance(x, getattr(numpy, "ndarray", ())):
        _has_numpy()
        assert _numpy is not None
        kind = _numpy
    elif _has_numpy() is not None:
        assert _other is not None
        kind = _other
    else:
        kind = Lists() if isinstance(x, (int, float, list, tuple)) else Memory()
    if len(_kinds) < 1000:
        _kinds[type(x)] = kind
    return kind


def kind_named(name: str) -> Kind:
    """The kind of arrays of a package, which is imported."""
    if name == "numpy":
        if _has_numpy() is None:
            raise ImportError("arrays: numpy is not installed")
        assert _numpy is not None
        return _numpy
    if name == "torch":
        import torch  # type: ignore[import-not-found, unused-ignore]

        return kind_of(torch.empty(0))
    raise unknown("arrays", name, "packages", ["numpy", "torch"])


def source_number(found: int, source: str | None, what: str = "x") -> int:
    """The format of what is read, of which the array says `found`."""
    if source is None:
        if found == CODES:
            raise TypeError(
                f"{what}: integers; numbers are float32, bfloat16, float16 or float64, and codes of a format are named by "
                "source=, as in cast(..., source='e4m3')"
            )
        return found
    number = format_number(source, "source")
    if found >= 0 and found != number:
        raise TypeError(f"source: {source}, while {what} holds {_core.formats[found][0]}")
    return number


def target_of(kind: Kind, to: Any, argument: str = "format", takes: tuple[int, ...] = ()) -> tuple[int, Any]:
    """The format and dtype of results: `to` is a format, its name, or a dtype; `takes` has all formats that there may be, if not all."""
    number, native = _target(kind, to, argument)
    if takes and number not in takes:
        names = [_core.formats[i][0] for i in takes]
        raise ValueError(f"{argument}: {_core.formats[number][0]}; results here are {', '.join(names[:-1])} or {names[-1]}")
    return number, native


def _target(kind: Kind, to: Any, argument: str) -> tuple[int, Any]:
    if isinstance(to, Format):
        to = to.name
    if isinstance(to, str):
        number = format_number(to, argument)
        if number in BLOCK_NUMBERS:
            raise ValueError(f"{argument}: {to} has blocks, which quantize() makes")
        return number, kind.dtype(number)
    number = kind.format_of(to)
    if number >= 0:
        return number, to
    raise TypeError(f"{argument}: a format's name or a dtype of {kind.name} is needed, not {to!r}")


def wanted(dtype: Any, out: Any, own: Any) -> tuple[Any, str]:
    """The dtype of results, and which argument says it: what the caller says, else that of `out`, else `own`."""
    if dtype is not None:
        return dtype, "dtype"
    if out is not None:
        found = kind_of(out).look(out, "out")[1]
        if found == CODES:
            raise TypeError("out: an array of integers; results are numbers of a dtype of floats")
        if found >= 0:
            return _core.formats[found][0], "out"
    return own, "dtype"


def out_of(kind: Kind, out: Any, shape: tuple[int, ...], axis: int = -1) -> Any:
    """Where results go, if the caller says that: what _core writes to, with the axis last."""
    its_kind = kind_of(out)
    if its_kind.name != kind.name:
        raise TypeError(f"out: an array of {kind.name} is needed, not {type(out)!r}")
    raw, _, its = its_kind.place(out)
    if tuple(its) != tuple(shape):
        raise ValueError(f"out: its shape is {tuple(its)}, that of the result {tuple(shape)}")
    if axis == -1:
        return raw
    if not hasattr(raw, "transpose"):
        raise ValueError("axis: other axes than the last need numpy's or torch's arrays")
    last = len(shape) + axis
    order = [i for i in range(len(shape)) if i != last] + [last]
    # torch's raw form is numpy's array, or itself where there is no numpy.
    return raw.permute(order) if hasattr(raw, "permute") else raw.transpose(order)


def normal_axis(axis: int, shape: tuple[int, ...]) -> int:
    """An axis counted from the end; -1 for arrays of no dimensions."""
    n = max(len(shape), 1)
    if not -n <= axis < n:
        raise ValueError(f"axis: {axis} of an array of {len(shape)} dimensions")
    return axis if axis < 0 else axis - n


def moved_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape with that axis, counted from the end, last."""
    if axis == -1:
        return shape
    return (*shape[:axis], *shape[len(shape) + axis + 1 :], shape[axis])


__all__ = ["Kind", "OWN", "formats", "kind_of", "moved_shape", "normal_axis", "out_of", "source_number", "target_of"]
