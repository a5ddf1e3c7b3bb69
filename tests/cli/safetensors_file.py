# SPDX-License-Identifier: MIT
"""Safetensors files for tests: numbers as bytes, and tensors as name: (dtype, shape, bytes)."""
import json, struct


def f32_bytes(numbers):
    return struct.pack("<%df" % len(numbers), *numbers)


def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def bf16_bytes(numbers):
    return struct.pack("<%dH" % len(numbers), *map(bf16, numbers))


def write_safetensors(path, tensors, metadata=None):
    header, at = {"__metadata__": dict(metadata or {}, format="pt")}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in header.items()}
