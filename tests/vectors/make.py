# SPDX-License-Identifier: MIT
"""
Gives the numbers of inputs.py to other packages and writes down what they return: make.py DIRECTORY writes
DIRECTORY/manifest.json, inputs/ and data/. Run by scripts/vectors-lab.sh; README.md says what the files hold.
"""
import hashlib
import importlib.metadata
import json
import os
import sys

import numpy as np

import casts
import inputs
import nearest
import quantizers


class Recorder:
    """Collects inputs and cases; an output is written once, named by its content."""

    dtypes = {"uint8": "uint8", "uint16": "uint16", "uint32": "float32"}

    def __init__(self, folder):
        self.folder = folder
        self.arrays = inputs.all_inputs()
        self.cases = []
        for name in ("inputs", "data"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        self.inputs = {}
        for name, array in self.arrays.items():
            file = f"inputs/{name}.{'f16' if array.dtype == np.uint16 else 'f32'}"
            array.astype(array.dtype.newbyteorder("<")).tofile(os.path.join(folder, file))
            self.inputs[name] = {"dtype": str(array.dtype).replace("uint32", "float32").replace("uint16", "float16"),
                                 "file": file, "shape": list(array.shape)}

    def floats(self, name):
        return self.arrays[name].view(np.float32)

    def write(self, kind, array):
        array = np.ascontiguousarray(array)
        if array.dtype == np.float32:
            array = array.view(np.uint32)
        dtype = self.dtypes[str(array.dtype)]
        content = array.astype(array.dtype.newbyteorder("<")).tobytes()
        file = f"data/{kind}-{hashlib.sha256(content).hexdigest()[:12]}.bin"
        with open(os.path.join(self.folder, file), "wb") as out:
            out.write(content)
        return {"dtype": dtype, "file": file, "shape": list(array.shape)}

    def case(self, name, kind, implementation, outputs, **more):
        entry = {"name": name, "kind": kind, "implementation": implementation, **more}
        entry["outputs"] = {k: self.write(k, array) for k, array in outputs.items()}
        self.cases.append(entry)

    def finish(self):
        with open(os.path.join(self.folder, "manifest.json"), "w", encoding="ascii") as out:
            out.write('{\n"inputs": {\n')
            out.write(",\n".join(f'"{k}": {json.dumps(v)}' for k, v in self.inputs.items()))
            out.write('\n},\n"cases": [\n')
            out.write(",\n".join(json.dumps(c) for c in self.cases))
            out.write("\n]\n}\n")


def versions():
    import gguf.quants  # noqa: F401  (present)
    names = {"ml_dtypes": "ml_dtypes", "numpy": "numpy", "torch": "torch", "gfloat": "gfloat", "torchao": "torchao",
             "compressed-tensors": "compressed-tensors", "onnxruntime": "onnxruntime", "gguf": "gguf"}
    found = {}
    for key, distribution in names.items():
        try:
            found[key] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            module = __import__(key.replace("-", "_"))
            found[key] = module.__version__
    found["ggml"] = quantizers.ggml_version()
    return found


def main():
    recorder = Recorder(sys.argv[1])
    found = versions()
    by = {
        "ml_dtypes": "ml_dtypes " + found["ml_dtypes"],
        "numpy": "numpy " + found["numpy"],
        "torch": "torch " + found["torch"],
        "gfloat": "graphcore gfloat " + found["gfloat"],
        "torchao": "pytorch/ao " + found["torchao"] + " on torch " + found["torch"],
        "compressed-tensors": "vllm-project/compressed-tensors " + found["compressed-tensors"],
        "onnxruntime": "onnxruntime " + found["onnxruntime"],
        "ggml": "libggml " + found["ggml"],
        "gguf-py": "gguf-py " + found["gguf"],
        "mlx": "ml-explore/mlx ",  # and a version
    }
    casts.run(recorder, by)
    quantizers.run(recorder, by)
    nearest.run(recorder, by)
    recorder.finish()
    print(f"{len(recorder.cases)} cases; Python {sys.version.split()[0]}")
    for name, version in sorted(found.items()):
        print(f"{name} {version}")


if __name__ == "__main__":
    main()
