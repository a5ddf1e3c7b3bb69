# SPDX-License-Identifier: MIT
"""
Compares what mxfp decoded DIRECTORY/theirs.* to with what the packages that wrote them did: compare.py DIRECTORY. Goes
by bytes: no package has a word in it.
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


def main():
    checks = failures = 0
    for path in sorted(pathlib.Path(sys.argv[1]).glob("theirs.*.expected.safetensors")):
        name = path.name.removesuffix(".expected.safetensors")
        expected, ours = tensors(path), tensors(path.parent / f"{name}.ours" / "model.safetensors")
        for tensor in expected:
            checks += 1
            if expected[tensor] != ours.get(tensor):
                failures += 1
                print(f"FAIL: {name}: {tensor}: expected {expected[tensor][:2]}, got {ours.get(tensor, ('none',))[:2]}")
    print(f"{checks} tensors of the packages compared, {failures} failures")
    sys.exit(failures != 0 or checks == 0)


main()
