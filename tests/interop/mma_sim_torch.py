# SPDX-License-Identifier: MIT
"""What MMA-Sim uses of torch, in plain Python: PyPy runs MMA-Sim's own code faster so. A number is a double with a value of its type."""
import ctypes
import math
import struct


class Union(type):
    """Makes "float | torch.Tensor" an expression before Python 3.10."""
    def __or__(cls, other):
        return object

    __ror__ = __or__


class dtype(metaclass=Union):
    def __init__(self, name, code, bytes_):
        self.name, self.code, self.bytes = name, code, bytes_


uint8, int32, uint32 = dtype("uint8", "B", 1), dtype("int32", "i", 4), dtype("uint32", "I", 4)
float16, float32, float64 = dtype("float16", "e", 2), dtype("float32", "f", 4), dtype("float64", "d", 8)
bfloat16 = dtype("bfloat16", "H", 2)
float8_e4m3fn, float8_e5m2 = dtype("float8_e4m3fn", "B", 1), dtype("float8_e5m2", "B", 1)
float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu = (dtype(n, "B", 1) for n in ("float8_e4m3fnuz", "float8_e5m2fnuz",
                                                                           "float8_e8m0fnu"))


def minifloat(code, exponent_bits, bits, bias, has_inf):
    e, f = code >> bits & (1 << exponent_bits) - 1, code & (1 << bits) - 1
    top = e == (1 << exponent_bits) - 1
    if top and (has_inf or f == (1 << bits) - 1):
        value = math.nan if f != 0 or not has_inf else math.inf
    else:
        value = math.ldexp(f + (1 << bits if e else 0), max(e, 1) - bias - bits)
    return -value if code >> exponent_bits + bits else value


def fnuz(code, exponent_bits, bits, bias):
    return math.nan if code == 0x80 else minifloat(code, exponent_bits + 1, bits, bias, False) if code < 0x80 else \
        -minifloat(code & 0x7F, exponent_bits + 1, bits, bias, False)


TABLES = {
    float8_e4m3fn: [minifloat(x, 4, 3, 7, False) for x in range(256)],
    float8_e5m2: [minifloat(x, 5, 2, 15, True) for x in range(256)],
    float8_e4m3fnuz: [fnuz(x, 4, 3, 8) for x in range(256)],
    float8_e5m2fnuz: [fnuz(x, 5, 2, 16) for x in range(256)],
    float8_e8m0fnu: [math.ldexp(1, x - 127) if x < 255 else math.nan for x in range(256)],
}


def to_float32(x):
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


class Tensor(metaclass=Union):
    def __init__(self, data, dtype, shape, strides=None, at=0):
        if strides is None:
            strides, step = [], 1
            for n in reversed(shape):
                strides.insert(0, step)
                step *= n
            shape, strides = tuple(shape), tuple(strides)
        self.data, self.dtype, self.shape, self.strides, self.at = data, dtype, shape, strides, at

    def places(self):
        if len(self.shape) == 0:
            return [self.at]
        if len(self.shape) == 1:
            return [self.at + i * self.strides[0] for i in range(self.shape[0])]
        return [self.at + i * self.strides[0] + j * self.strides[1] for i in range(self.shape[0]) for j in range(self.shape[1])]

    def values(self):
        data = self.data
        if len(self.shape) == 1:
            return data[self.at:self.at + self.shape[0] * self.strides[0]:self.strides[0]]
        return [data[i] for i in self.places()]

    def new(self, values, dtype=None):
        return Tensor(values, dtype or self.dtype, self.shape)

    def at_key(self, key):
        """The view of a key: integers and slices."""
        at, shape, strides = self.at, [], []
        for axis, k in enumerate(key if isinstance(key, tuple) else (key,)):
            if isinstance(k, slice):
                first, end, _ = k.indices(self.shape[axis])
                at += first * self.strides[axis]
                shape.append(end - first)
                strides.append(self.strides[axis])
            else:
                at += k * self.strides[axis]
        n = len(key) if isinstance(key, tuple) else 1
        return Tensor(self.data, self.dtype, tuple(shape) + self.shape[n:], tuple(strides) + self.strides[n:], at)

    def __getitem__(self, key):
        if isinstance(key, int) and len(self.shape) == 1:  # what most calls are
            return Tensor(self.data, self.dtype, (), (), self.at + key * self.strides[0])
        if isinstance(key, Tensor):
            return Tensor([x for x, m in zip(self.values(), key.values()) if m], self.dtype, (sum(key.values()),))
        return self.at_key(key)

    def __setitem__(self, key, value):
        if isinstance(key, Tensor):
            places = [i for i, m in zip(self.places(), key.values()) if m]
            for n, i in enumerate(places):
                self.data[i] = value.values()[n] if isinstance(value, Tensor) else value
            return
        view = self.at_key(key)
        x = value.item() if isinstance(value, Tensor) else value
        view.data[view.at] = to_float32(x) if self.dtype is float32 else x

    def item(self):
        return self.data[self.at]

    def numel(self):
        return math.prod(self.shape)

    def tolist(self):
        return self.values()

    def flatten(self):
        return Tensor(self.values(), self.dtype, (self.numel(),))

    def reshape(self, *shape):
        return Tensor(self.values(), self.dtype, shape)

    def clone(self):
        return self.new(self.values())

    def cpu(self):
        return self

    def contiguous(self):
        return self.clone()

    @property
    def T(self):
        return Tensor(self.data, self.dtype, self.shape[::-1], self.strides[::-1], self.at)

    def to(self, dtype):
        assert dtype is self.dtype
        return self

    def double(self):
        return self.new(self.values(), float64)

    def float(self):
        return self.new(self.values(), float32)

    def abs(self):
        return self.new([abs(x) for x in self.values()])

    def sum(self):
        return Tensor([math.fsum(self.values()) if all(map(math.isfinite, self.values())) else sum(self.values())], self.dtype, ())

    def any(self):
        return any(self.values())

    def view(self, dtype):
        """Other numbers of the same bits."""
        values, old = self.values(), self.dtype
        if old in (uint8, int32, uint32) or dtype in (uint8, int32, uint32):
            result = frombuffer(struct.pack("<%d%s" % (len(values), old.code), *values), dtype)
            return result if old.bytes != dtype.bytes else result.reshape(*self.shape)
        raise TypeError(dtype.name)

    def apply(self, other, f, dtype=None):
        values = self.values()
        if isinstance(other, Tensor):
            theirs = other.values()
            if len(theirs) == 1 and len(values) != 1:
                theirs = theirs * len(values)
            if len(values) == 1 and len(theirs) != 1:
                values = values * len(theirs)
        else:
            theirs = [other] * len(values)
        dtype = dtype or (float64 if float64 in (self.dtype, getattr(other, "dtype", None)) else self.dtype)
        shape = self.shape if len(values) == self.numel() else other.shape
        result = [f(x, y) for x, y in zip(values, theirs)]
        return Tensor([to_float32(x) for x in result] if dtype is float32 else result, dtype, shape)

    def __mul__(self, other):
        return self.apply(other, lambda x, y: x * y)

    def __add__(self, other):
        return self.apply(other, lambda x, y: x + y)

    def __and__(self, other):
        return self.apply(other, lambda x, y: x & y)

    def __rshift__(self, other):
        return self.apply(other, lambda x, y: x >> y)

    def __lshift__(self, other):
        return self.apply(other, lambda x, y: ctypes.c_int32(x << y).value if self.dtype is int32 else x << y)

    def __lt__(self, other):
        return self.apply(other, lambda x, y: x < y, uint8)

    def __ge__(self, other):
        return self.item() >= other

    def __le__(self, other):
        return self.item() <= other

    def __bool__(self):
        return bool(self.item())


def frombuffer(buffer, dtype):
    values = list(struct.unpack("<%d%s" % (len(buffer) // dtype.bytes, dtype.code), buffer))
    if dtype in TABLES:
        values = [TABLES[dtype][x] for x in values]
    elif dtype is bfloat16:
        values = list(struct.unpack("<%df" % len(values), b"".join(struct.pack("<I", x << 16) for x in values)))
    return Tensor(values, dtype, (len(values),))


def tensor(x, dtype=float32):
    return Tensor([to_float32(x) if dtype is float32 else x], dtype, ())


def zeros(*shape, dtype=float32):
    shape = shape[0] if not isinstance(shape[0], int) else shape
    return Tensor([0 if dtype in (uint8, int32, uint32) else 0.0] * math.prod(shape), dtype, shape)


def isnan(x):
    return x.new([math.isnan(y) for y in x.values()], uint8)


def isinf(x):
    return x.new([math.isinf(y) for y in x.values()], uint8)
