# SPDX-License-Identifier: MIT
"""
What codes and scales are, from the definitions of their formats. Numbers are exact: code times scale in binary64, which holds that
product, rounded to binary32 once. A quotient by a tensor scale is no tie of binary32 that binary64 could not see: it is one of 8 bits
by one of 24, so that it is in the middle of two numbers or off by 2^-49 of it.
"""
import json

import safetensors.torch
import torch

F64 = torch.float64


def table(exponent_bits, mantissa_bits):
    """All numbers of a format without infinities, by code; NaN of E4M3 is not asked for."""
    bias, numbers = 2 ** (exponent_bits - 1) - 1, []
    for code in range(1 << (1 + exponent_bits + mantissa_bits)):
        exponent, mantissa = code >> mantissa_bits & (1 << exponent_bits) - 1, code & (1 << mantissa_bits) - 1
        number = (mantissa + (exponent > 0) * 2 ** mantissa_bits) * 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
        numbers.append(-number if code >> (exponent_bits + mantissa_bits) else number)
    return torch.tensor(numbers, dtype=F64)


E2M1, E2M3, E4M3 = table(2, 1), table(2, 3), table(4, 3)


def bytes_of(tensor):
    return tensor.contiguous().view(torch.uint8)


def e4m3(codes):
    return E4M3[bytes_of(codes).long()]


def e8m0(scales):
    return torch.exp2(bytes_of(scales).to(F64) - 127)


def nibbles(codes):
    """The even element is the low one."""
    codes = bytes_of(codes)
    return E2M1[torch.stack((codes & 15, codes >> 4), -1).flatten(-2).long()]


def six_bits(codes):
    """Four codes in three bytes, the first in the lowest bits."""
    a, b, c = codes.unflatten(-1, (-1, 3)).long().unbind(-1)
    word = a | b << 8 | c << 16
    return E2M3[torch.stack([word >> 6 * i & 63 for i in range(4)], -1).flatten(-2)]


def spread(scales, rows, cols, block):
    """Scales [..., n, k] of blocks, the last of which may be cut off, as [..., rows, cols]."""
    return scales.repeat_interleave(block[0], -2)[..., :rows, :].repeat_interleave(block[1], -1)[..., :cols]


def cells(rows, cols, block):
    return -(-rows // block[0]), -(-cols // block[1])


def rounded(numbers):
    return numbers.to(torch.float32)


def blocks(codes, scales, length):
    return rounded(codes * scales.repeat_interleave(length, -1))


def save(directory, config, tensors, second=None):
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if second is not None:
        (directory / "hf_quant_config.json").write_text(json.dumps(second, indent=2) + "\n")
    safetensors.torch.save_file({n: t.contiguous() for n, t in tensors.items()}, directory / "model.safetensors", {"format": "pt"})
