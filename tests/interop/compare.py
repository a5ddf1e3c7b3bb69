# SPDX-License-Identifier: MIT
"""
Compares what mxfp decoded DIRECTORY/theirs.* to with what the packages that wrote them did, and what mxfp quantized
to alike.* with the quantized tensors of theirs.*: compare.py DIRECTORY. Goes by bytes: no package has a word in it.
"""
import json
import pathlib
import sys


def tensors(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[8 + length:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def compare(name, expected, actual):
    """The number of tensors that both should have, and of those that differ."""
    differing = [tensor for tensor in expected if expected[tensor] != actual.get(tensor)]
    for tensor in differing:
        (dtype, shape, data), got = expected[tensor], actual.get(tensor, ("none", [], b""))
        count = sum(a != b for a, b in zip(data, got[2]))
        print(f"FAIL: {name}: {tensor}: expected {dtype} {shape}, got {got[0]} {got[1]}, {count} bytes differ")
    return len(expected), len(differing)


def main():
    directory = pathlib.Path(sys.argv[1])
    counts = []
    for path in sorted(directory.glob("theirs.*.expected.safetensors")):
        name = path.name.removesuffix(".expected.safetensors")
        counts.append(compare(name, tensors(path), tensors(directory / f"{name}.ours" / "model.safetensors")))
    for path in sorted(directory.glob("alike.*")):
        theirs = tensors(directory / path.name.replace("alike", "theirs") / "model.safetensors")
        theirs = {name: tensor for name, tensor in theirs.items() if ".layers." in name}
        counts.append(compare(path.name, theirs, tensors(path / "model.safetensors")))
    checks, failures = (sum(column) for column in zip(*counts))
    print(f"{checks} tensors of the packages compared, {failures} failures")
    sys.exit(failures != 0)


main()
