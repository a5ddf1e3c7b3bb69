# SPDX-License-Identifier: MIT
"""The other side of mxfp conform, for a decoder of MXFP4 in Python without packages: mxfp conform 'python3 decoder.py'"""
import json
import struct
import sys

CODES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
CODES += [-x for x in CODES]
stdin, stdout = sys.stdin.buffer, sys.stdout.buffer


def decode_e2m1(request, data):
    return struct.pack(f"<{len(data)}f", *(CODES[code & 15] for code in data))


def decode_mxfp4(request, data):
    """All codes come first, 16 bytes a block, then all scales."""
    n = request["n"]
    values = []
    for block in range(n):
        scale = data[16 * n + block]
        for byte in data[16 * block : 16 * block + 16]:
            for code in (byte & 15, byte >> 4):
                values.append(float("nan") if scale == 255 else CODES[code] * 2.0 ** (scale - 127))
    # What is past the largest binary32 is Inf.
    values = [x if abs(x) < 2.0**128 else x * float("inf") for x in values]
    return struct.pack(f"<{len(values)}f", *values)


def answer_of(request, data):
    if request["op"] == "decode" and request["from"] == "e2m1":
        return decode_e2m1(request, data)
    if request["op"] == "mx-decode" and request["format"] == "mxfp4":
        return decode_mxfp4(request, data)
    return None


for line in stdin:
    request = json.loads(line)
    if request["op"] == "hello":
        stdout.write(b'{"version":1,"name":"decoder.py"}\n')
    else:
        answer = answer_of(request, stdin.read(request["bytes"]))
        stdout.write(b'{"unsupported":true}\n' if answer is None else b'{"bytes":%d}\n' % len(answer) + answer)
    stdout.flush()
