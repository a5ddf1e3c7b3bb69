# SPDX-License-Identifier: MIT
"""
Writes GGUF files of the model DIRECTORY/dense by python3-gguf: plain.gguf in the plain types, and others with blocks
that python3-gguf or libggml quantized: gguf_write.py DIRECTORY. DIRECTORY/ggml is the program of ggml.c.
"""
import pathlib
import subprocess
import sys

import gguf
import ml_dtypes  # gives numpy bfloat16
import numpy
import safetensors.numpy
from gguf import GGMLQuantizationType as Type

# What python3-gguf quantizes to itself, and what libggml does; and what other tensors become in each file.
OF_PYTHON = (Type.Q8_0, Type.MXFP4)
OF_LIBRARY = (Type.Q8_0, Type.MXFP4, Type.NVFP4)
KEPT = {"lm_head.weight": Type.F16, "model.embed_tokens.weight": Type.BF16}


def by_python(_, numbers, type):
    return gguf.quants.quantize(numbers, type)


def by_library(directory, numbers, type):
    command = [directory / "ggml", "encode", str(type.value), str(numbers.shape[-1])]
    blocks = subprocess.run(command, input=numbers.tobytes(), stdout=subprocess.PIPE, check=True).stdout
    return numpy.frombuffer(blocks, numpy.uint8).reshape(*numbers.shape[:-1], -1)


def write(directory, source, type, name, quantize):
    writer = gguf.GGUFWriter(directory / f"{name}.gguf", "llama")
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for tensor, numbers in source.items():
        numbers = numbers.astype(numpy.float32)
        if numbers.ndim == 1:
            writer.add_tensor(tensor, numbers)
        elif tensor in KEPT:
            writer.add_tensor(tensor, by_python(directory, numbers, KEPT[tensor]), raw_dtype=KEPT[tensor])
        elif type == Type.Q8_0 and tensor.endswith("wide.weight"):
            continue  # Its scales are in F16.
        else:
            writer.add_tensor(tensor, quantize(directory, numbers, type), raw_dtype=type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    directory = pathlib.Path(sys.argv[1])
    assert ml_dtypes.bfloat16
    source = safetensors.numpy.load_file(directory / "dense" / "model.safetensors")
    write(directory, source, Type.F32, "plain", by_python)
    for type in OF_PYTHON:
        write(directory, source, type, f"python.{type.name}", by_python)
    for type in OF_LIBRARY:
        write(directory, source, type, f"ggml.{type.name}", by_library)


main()
