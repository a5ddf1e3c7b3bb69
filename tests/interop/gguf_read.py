# SPDX-License-Identifier: MIT
"""
Reads each DIRECTORY/*.gguf by python3-gguf and by libggml, and compares what they decode it to with what mxfp did, in
DIRECTORY/decoded: gguf_read.py DIRECTORY. DIRECTORY/ggml is the program of ggml.c.

Both have tables of integers for E2M1, which know no -0: zeros are compared without their sign. Neither multiplies by
the tensor scale of NVFP4, NAME.scale beside NAME.weight, which comes after the product of matrices: that is done here.
All else is exact in F32 and compared by bits.
"""
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy

failures = 0
checks = 0


def same(what, expected, actual):
    global checks, failures
    checks += 1
    expected, actual = ((numbers.reshape(-1) + numpy.float32(0)).view(numpy.uint32) for numbers in (expected, actual))
    if len(expected) != len(actual) or (expected != actual).any():
        failures += 1
        count = (expected != actual).sum() if len(expected) == len(actual) else "all"
        print(f"FAIL: {what}: {count} of {len(expected)} differ")


def tensors(path):
    return gguf.GGUFReader(path).tensors


def by_python(tensor):
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type)


def read(directory, path):
    """Every tensor of the file by both programs."""
    ours = {tensor.name: by_python(tensor) for tensor in tensors(directory / "decoded" / path.name)}
    scales = {tensor.name: tensor.data for tensor in tensors(path) if tensor.name.endswith(".scale")}
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([directory / "ggml", "decode", path, scratch], check=True)
        for number, tensor in enumerate(tensors(path)):
            if tensor.name in scales:
                continue
            scale = scales.get(tensor.name.removesuffix("weight") + "scale", numpy.float32(1))
            by_library = numpy.fromfile(f"{scratch}/{number}.f32", numpy.float32)
            what = f"{path.name}: {tensor.name}"
            same(f"{what}, python3-gguf", by_python(tensor) * scale, ours[tensor.name])
            same(f"{what}, libggml", by_library * scale, ours[tensor.name])


def main():
    directory = pathlib.Path(sys.argv[1])
    for path in sorted(directory.glob("*.gguf")):
        read(directory, path)
    print(f"{checks} tensors by python3-gguf and libggml, {failures} failures")
    sys.exit(failures != 0 or checks == 0)


main()
