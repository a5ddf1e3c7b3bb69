# SPDX-License-Identifier: MIT
"""Each .safetensors of ours is what the serializer of safetensors itself writes for the same tensors and metadata."""
import json

import safetensors
import safetensors.torch

from checks import check


def split(data):
    """The header without its metadata and without padding, the length of all of it, and the data."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    return json.dumps(header), metadata, length, data[8 + length:]


def ours(directory):
    for path in sorted(directory.rglob("model*.safetensors")):
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            metadata = file.metadata()
        header, mine, length, data = split(path.read_bytes())
        what = path.relative_to(directory)
        check(f"{what}: metadata", metadata == mine, f"{metadata}, {mine}")
        # The order of the metadata is that of a hash table in the serializer, another one each time.
        again = split(safetensors.torch.save(tensors, metadata))
        check(f"{what}: order, offsets and names of tensors", header == again[0], f"{again[0]}, ours {header}")
        check(f"{what}: length of the header", length == again[2], f"{again[2]}, ours {length}")
        check(f"{what}: data", data == again[3])
