# SPDX-License-Identifier: MIT
"""
Packages that answer mxfp conform: mxfp conform 'python3 packages.py ml_dtypes'. PACKAGE is ml_dtypes, numpy, torch, gfloat,
gguf, ggml, onnxruntime, mlx, torchao, compressed-tensors, microxcaling, spike or onednn. What a package cannot be asked is not
supported. For --probe numpy, torch and onednn multiply matrices of 64 rows and columns, numpy and torch vectors if `dot` follows.
"""
import importlib.metadata
import json
import os
import sys

import numpy as np

# Some packages print on standard output when they are loaded.
stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)


def f32(data):
    return np.frombuffer(data, "<f4")


def dot(types, products):
    """Answers products of rows, summed as the package sums them: products(a, w, type of the package) are those of all pairs of rows
    of two matrices, or of the rows themselves. A matrix has 64 rows, as a large one would be cut, and its diagonal counts."""

    def answer(q, data):
        if q["acc"] != "own" or q["a"] != q["w"] or q["a"] not in types:
            return None
        width, kind = types[q["a"]]
        a, w = np.frombuffer(data, width).reshape(2, q["n"], q["k"])
        out = np.empty(q["n"], "<f4")
        for i in range(0, q["n"], 64):
            n = min(64, q["n"] - i)
            rows = [np.concatenate([x[i : i + n], np.zeros((64 - n, q["k"]), width)]) for x in (a, w)]
            c = products(*rows, kind)
            out[i : i + n] = (c.diagonal() if c.ndim == 2 else c)[:n]
        return out.tobytes()

    return answer


def of_ml_dtypes():
    import ml_dtypes

    types = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m1": ml_dtypes.float4_e2m1fn,
             "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn, "e8m0": ml_dtypes.float8_e8m0fnu,
             "e4m3ieee": ml_dtypes.float8_e4m3, "e3m4": ml_dtypes.float8_e3m4, "bf16": ml_dtypes.bfloat16,
             "e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "e5m2fnuz": ml_dtypes.float8_e5m2fnuz}
    # A cast has no mode: to nearest, and past the largest to what a format has for it.
    modes = ("rne", "ovf")

    def cast(q, data):
        return f32(data).astype(types[q["to"]]).tobytes()

    def decode(q, data):
        return np.frombuffer(data, types[q["from"]]).astype("<f4").tobytes()

    return ml_dtypes.__version__, types, modes, {"cast": cast, "decode": decode}


def of_numpy():
    types = {"f16": "<f2"}

    def cast(q, data):
        return f32(data).astype("<f2").tobytes()

    def decode(q, data):
        return np.frombuffer(data, "<f2").astype("<f4").tobytes()

    def products(a, w, _):
        return np.array([np.dot(x, y) for x, y in zip(a, w)]) if vectors else a @ w.T

    return np.__version__, types, ("rne", "ovf"), {"cast": cast, "decode": decode, "dot": dot({"f32": ("<f4", None)}, products)}


def of_torch():
    import torch

    types = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e8m0": torch.float8_e8m0fnu, "bf16": torch.bfloat16,
             "f16": torch.float16, "e4m3fnuz": torch.float8_e4m3fnuz, "e5m2fnuz": torch.float8_e5m2fnuz}

    def tensor(data, dtype):
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype)

    def cast(q, data):
        return tensor(data, torch.float32).to(types[q["to"]]).view(torch.uint8).numpy().tobytes()

    def decode(q, data):
        return tensor(data, types[q["from"]]).to(torch.float32).numpy().tobytes()

    def products(a, w, kind):
        a, w = (torch.from_numpy(x.copy()).view(kind) for x in (a, w))
        c = torch.stack([torch.dot(x, y) for x, y in zip(a, w)]) if vectors else a @ w.T
        return c.to(torch.float32).numpy()

    own = dot({"f32": ("<f4", torch.float32), "bf16": ("<i2", torch.bfloat16), "f16": ("<i2", torch.float16)}, products)
    # Past the largest e4m3 saturates, and e5m2 and e8m0 overflow.
    return torch.__version__, types, ("rne", {"e4m3": "sat"}), {"cast": cast, "decode": decode, "dot": own}


def of_onednn():
    """libdnnl by ctypes: the primitive matmul, with results in binary32."""
    import ctypes
    import ctypes.util

    dnnl = ctypes.CDLL(ctypes.util.find_library("dnnl"))
    pointer = ctypes.c_void_p
    engine, stream = pointer(), pointer()

    class Argument(ctypes.Structure):
        _fields_ = [("argument", ctypes.c_int), ("memory", pointer)]

    class Version(ctypes.Structure):
        _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int)]

    def call(function, *arguments):
        status = getattr(dnnl, "dnnl_" + function)(*arguments)
        if status != 0:
            raise RuntimeError(f"dnnl_{function}: status {status}")

    call("engine_create", ctypes.byref(engine), 1, ctypes.c_size_t(0))
    call("stream_create", ctypes.byref(stream), engine, 1)

    def described(rows, cols, strides, kind):
        description = pointer()
        call("memory_desc_create_with_strides", ctypes.byref(description), 2, (ctypes.c_int64 * 2)(rows, cols), kind,
             (ctypes.c_int64 * 2)(*strides))
        return description

    made = {}

    def make(k, kind):
        if (k, kind) not in made:
            sides = [described(64, k, (k, 1), kind), described(k, 64, (1, k), kind), described(64, 64, (64, 1), 3)]
            description, primitive = pointer(), pointer()
            call("matmul_primitive_desc_create", ctypes.byref(description), engine, sides[0], sides[1], None, sides[2], None)
            call("primitive_create", ctypes.byref(primitive), description)
            made[k, kind] = primitive, sides
        return made[k, kind]

    def products(a, w, kind):
        c = np.empty((64, 64), "<f4")
        primitive, sides = make(a.shape[1], kind)
        arguments = (Argument * 3)()
        for i, (argument, x) in enumerate(((1, a), (33, w), (17, c))):
            memory = pointer()
            call("memory_create", ctypes.byref(memory), sides[i], engine, pointer(x.ctypes.data))
            arguments[i] = Argument(argument, memory)
        call("primitive_execute", primitive, stream, 3, arguments)
        call("stream_wait", stream)
        for argument in arguments:
            call("memory_destroy", pointer(argument.memory))
        return c

    def own(q, data):
        try:
            return dot({"f32": ("<f4", 3), "bf16": ("<u2", 2), "f16": ("<u2", 1), "e5m2": ("u1", 9), "e4m3": ("u1", 10)}, products)(q, data)
        except RuntimeError:
            return None  # this processor has no kernel for it

    dnnl.dnnl_version.restype = ctypes.POINTER(Version)
    version = dnnl.dnnl_version().contents
    return f"{version.major}.{version.minor}.{version.patch}", {}, (None, None), {"dot": own}


def of_onnxruntime():
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    types = {"e4m3": TensorProto.FLOAT8E4M3FN, "e5m2": TensorProto.FLOAT8E5M2, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
    sessions = {}

    def session(to, saturate):
        if (to, saturate) not in sessions:
            attributes = {"saturate": saturate} if to in ("e4m3", "e5m2") else {}
            node = helper.make_node("Cast", ["x"], ["y"], to=types[to], **attributes)
            graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])],
                                      [helper.make_tensor_value_info("y", types[to], [None])])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
            sessions[to, saturate] = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return sessions[to, saturate]

    def cast(q, data):
        run = session(q["to"], int(q.get("overflow") == "sat"))
        x = onnxruntime.OrtValue.ortvalue_from_numpy(f32(data).copy())
        y = run.run_with_ort_values(["y"], {"x": x})[0]
        import ctypes

        n = len(data) // 4 * (1 if q["to"] in ("e4m3", "e5m2") else 2)
        return ctypes.string_at(y._ortvalue.data_ptr(), n)

    return onnxruntime.__version__, types, ("rne", None), {"cast": cast}


def of_gfloat():
    import gfloat
    from gfloat import RoundMode, formats, round_ndarray, decode_ndarray, encode_ndarray

    types = {"e4m3": formats.format_info_ocp_e4m3, "e5m2": formats.format_info_ocp_e5m2, "e2m1": formats.format_info_ocp_e2m1,
             "e2m3": formats.format_info_ocp_e2m3, "e3m2": formats.format_info_ocp_e3m2, "bf16": formats.format_info_bfloat16,
             "f16": formats.format_info_binary16, "int8": formats.format_info_ocp_int8, "e8m0": formats.format_info_ocp_e8m0}
    rounds = {"rne": RoundMode.TiesToEven, "rna": RoundMode.TiesToAway, "rtz": RoundMode.TowardZero, "rtp": RoundMode.TowardPositive,
              "rtn": RoundMode.TowardNegative}

    def word(name):
        return "<u2" if name in ("bf16", "f16") else "u1"

    def cast(q, data):
        x, f = f32(data).astype(np.float64), types[q["to"]]
        if q["round"] not in rounds or q["to"] in ("e8m0", "int8"):
            return None
        if not f.num_nans:
            x = np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf)
        y = round_ndarray(f, x, rounds[q["round"]], sat=q.get("overflow") == "sat" or not f.num_nans)
        return encode_ndarray(f, y).astype(word(q["to"])).tobytes()

    def decode(q, data):
        return decode_ndarray(types[q["from"]], np.frombuffer(data, word(q["from"])).astype(np.int64)).astype("<f4").tobytes()

    return importlib.metadata.version("gfloat"), types, (None, None), {"cast": cast, "decode": decode}


def of_gguf():
    import gguf
    from gguf import GGMLQuantizationType as kind, quants

    def mx(q, data):
        if q["format"] != "mxfp4" or q["rule"] != "floor" or q["round"] != "rhz":
            return None
        blocks = quants.quantize(f32(data).reshape(-1, 32), kind.MXFP4)
        return blocks[:, 1:].tobytes() + blocks[:, 0].tobytes()

    def mx_decode(q, data):
        if q["format"] != "mxfp4":
            return None
        n = q["n"]
        codes, scales = np.frombuffer(data[: 16 * n], np.uint8).reshape(n, 16), np.frombuffer(data[16 * n :], np.uint8)
        blocks = np.concatenate([scales[:, None], codes], axis=1)
        return quants.dequantize(blocks, kind.MXFP4).astype("<f4").tobytes()

    return importlib.metadata.version("gguf"), {}, (None, None), {"mx": mx, "mx-decode": mx_decode}


def of_mlx():
    import mlx.core as mx

    formats = {"mxfp4": ("mxfp4", 4), "mxfp8-e4m3": ("mxfp8", 8)}

    def quantize(q, data):
        if q["format"] not in formats or q["rule"] != "rceil" or q["round"] != "rne":
            return None
        mode, bits = formats[q["format"]]
        codes, scales = mx.quantize(mx.array(f32(data).reshape(-1, 32)), group_size=32, bits=bits, mode=mode)
        return np.array(codes).tobytes() + np.array(scales).tobytes()

    def dequantize(q, data):
        if q["format"] not in formats:
            return None
        mode, bits = formats[q["format"]]
        n = q["n"] * 32 * bits // 8
        codes = mx.array(np.frombuffer(data[:n], "<u4").reshape(q["n"], -1))
        scales = mx.array(np.frombuffer(data[n:], np.uint8).reshape(q["n"], 1))
        return np.array(mx.dequantize(codes, scales, group_size=32, bits=bits, mode=mode, dtype=mx.float32)).tobytes()

    return importlib.metadata.version("mlx"), {}, (None, None), {"mx": quantize, "mx-decode": dequantize}


def of_ggml():
    """libggml by ctypes. Its order of codes is taken apart, so that only numbers are compared."""
    import ctypes

    ggml = ctypes.CDLL("libggml-base.so.0")
    ggml.ggml_version.restype = ctypes.c_char_p

    def call(function, source, target, n):
        getattr(ggml, function)(source.ctypes.data_as(ctypes.c_void_p), target.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(n))

    def paired(halves):
        codes = np.concatenate([halves & 15, halves >> 4], axis=-1)
        return codes[..., 0::2] | codes[..., 1::2] << 4

    def mx(q, data):
        if q["format"] != "mxfp4" or q["rule"] != "floor" or q["round"] != "rhz":
            return None
        x, blocks = f32(data).copy(), np.zeros((q["n"], 17), np.uint8)
        call("quantize_row_mxfp4_ref", x, blocks, x.size)
        return paired(blocks[:, 1:]).tobytes() + blocks[:, 0].tobytes()

    def nvfp4(q, data):
        if q["recipe"] != "ggml":
            return None
        n = q["n"]
        x = np.zeros((-(-n // 4) * 4, 16), np.float32)  # four blocks share 36 bytes
        x[:n] = f32(data).reshape(n, 16)
        blocks = np.zeros((len(x) // 4, 36), np.uint8)
        call("quantize_row_nvfp4_ref", x, blocks, x.size)
        codes = paired(blocks[:, 4:].reshape(-1, 4, 8)).reshape(-1, 8)
        return codes[:n].tobytes() + blocks[:, :4].reshape(-1)[:n].tobytes()

    return ggml.ggml_version().decode(), {}, (None, None), {"mx": mx, "nvfp4": nvfp4}


def of_torchao():
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

    formats = {"mxfp4": torch.float4_e2m1fn_x2, "mxfp8-e4m3": torch.float8_e4m3fn, "mxfp8-e5m2": torch.float8_e5m2}

    def tensor(data, cols):
        return torch.from_numpy(f32(data).reshape(-1, cols).copy())

    def number(bits):
        return torch.from_numpy(np.array([bits], np.uint32).view(np.float32).copy())[0]

    def mx(q, data):
        mode = getattr(ScaleCalculationMode, q["rule"].upper(), None)
        if q["format"] not in formats or mode is None or q["round"] != "rne":
            return None
        scales, codes = to_mx(tensor(data, 32), formats[q["format"]], 32, mode)
        return codes.view(torch.uint8).numpy().tobytes() + scales.view(torch.uint8).numpy().tobytes()

    def nvfp4_tensor(q, data):
        if q["recipe"] != "torchao":
            return None
        return per_tensor_amax_to_scale(torch.from_numpy(f32(data).copy())).numpy().astype("<f4").tobytes()

    def nvfp4(q, data):
        if q["recipe"] not in ("torchao", "torchao-1") or q["round"] != "rne":
            return None
        scale = per_tensor_amax_to_scale(number(q["amax_bits"])) if q["recipe"] == "torchao" else None
        scales, packed = nvfp4_quantize(tensor(data, 16), 16, scale)
        return packed.view(torch.uint8).numpy().tobytes() + scales.view(torch.uint8).numpy().tobytes()

    operations = {"mx": mx, "nvfp4-tensor": nvfp4_tensor, "nvfp4": nvfp4}
    return importlib.metadata.version("torchao"), {}, (None, None), operations


def of_compressed_tensors():
    import torch
    from compressed_tensors.compressors.nvfp4.helpers import quantize_and_pack_fp4
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam

    arguments = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True,
                                 scale_dtype=torch.float8_e4m3fn, zp_dtype=torch.float8_e4m3fn)

    def global_scale(amax):
        return generate_gparam(-amax.reshape(1), amax.reshape(1))

    def nvfp4_tensor(q, data):
        if q["recipe"] != "compressed-tensors":
            return None
        return b"".join(global_scale(x).numpy().astype("<f4").tobytes() for x in torch.from_numpy(f32(data).copy()))

    def nvfp4(q, data):
        if q["recipe"] != "compressed-tensors" or q["round"] != "rne":
            return None
        x = torch.from_numpy(f32(data).reshape(-1, 16).copy())
        amax = torch.from_numpy(np.array([q["amax_bits"]], np.uint32).view(np.float32).copy())
        scales, _ = calculate_qparams(x.amin(-1, keepdim=True), x.amax(-1, keepdim=True), arguments, global_scale(amax))
        packed = quantize_and_pack_fp4(x, scales.float(), global_scale(amax), None, 16)
        return packed.numpy().tobytes() + scales.to(torch.float8_e4m3fn).view(torch.uint8).numpy().tobytes()

    return importlib.metadata.version("compressed_tensors"), {}, (None, None), {"nvfp4-tensor": nvfp4_tensor, "nvfp4": nvfp4}


def of_microxcaling():
    """It has numbers and no codes: each is given the code of its value, a value without code that of NaN."""
    import torch
    from mx import elemwise_ops, formats as mx_formats, mx_ops

    names = {"e4m3": "fp8_e4m3", "e5m2": "fp8_e5m2", "e2m1": "fp4_e2m1", "e2m3": "fp6_e2m3", "e3m2": "fp6_e3m2", "int8": "int8"}
    rounds = {"rne": "even", "rna": "nearest", "rtz": "floor"}
    types = {name: mx_formats._get_format_params(theirs) for name, theirs in names.items()}

    def codes(name, y):
        exponent, bits, _, largest, _ = types[name]
        y, sign = y.numpy().astype(np.float64), y.numpy().view(np.uint32) >> 31
        if name == "int8":
            return np.where(np.isfinite(y), y * 64, 127).astype(np.int8).view(np.uint8)
        k, bias = np.arange(1 << (exponent + bits - 2)), 2 ** (exponent - 1) - 1
        field, fraction = k >> (bits - 2), k & ((1 << (bits - 2)) - 1)
        values = np.ldexp(fraction + (field > 0) * (1 << (bits - 2)), np.maximum(field, 1) - bias - (bits - 2))
        values = values[values <= largest]
        at = np.minimum(np.searchsorted(values, np.abs(y)), len(values) - 1)
        special = len(values) if np.isinf(y).any() and name == "e5m2" else len(k) - 1
        at = np.where(values[at] == np.abs(y), at, np.where(np.isinf(y), special, len(k) - 1))
        return (sign << (exponent + bits - 2) | at).astype(np.uint8)

    def cast(q, data):
        if q["round"] not in rounds:
            return None
        exponent, bits, _, largest, _ = types[q["to"]]
        saturates = q.get("overflow") == "sat" or q["to"] not in ("e4m3", "e5m2")
        y = elemwise_ops._quantize_elemwise_core(torch.from_numpy(f32(data).copy()), bits, exponent, largest, round=rounds[q["round"]],
                                                 saturate_normals=saturates)
        return codes(q["to"], y).tobytes()

    def mx(q, data):
        name = q["format"].removeprefix("mxfp4").removeprefix("mxfp8-").removeprefix("mxfp6-").removeprefix("mx") or "e2m1"
        if q["rule"] != "floor" or q["round"] not in rounds:
            return None
        seen = {}

        def watched(*args, function=elemwise_ops._quantize_elemwise_core, **keys):
            seen["y"] = function(*args, **keys)
            return seen["y"]

        mx_ops._quantize_elemwise_core = watched
        x = torch.from_numpy(f32(data).reshape(-1, 32).copy())
        mx_ops._quantize_mx(x, 8, names[name], axes=[-1], block_size=32, round=rounds[q["round"]])
        # The scale as _quantize_mx() has it, which does not return it.
        scale = mx_ops._shared_exponents(x, axes=[-1]) - types[name][2]
        scale = np.where(np.isnan(scale) | (scale > 127), 128, np.maximum(scale, -127)) + 127
        y = codes(name, seen["y"].reshape(-1, 32)).astype(np.uint32)
        n_bits = {"mxfp4": 4, "mxfp6-e2m3": 6, "mxfp6-e3m2": 6}.get(q["format"], 8)
        bits = (y[:, :, None] >> np.arange(n_bits) & 1).reshape(len(y), -1).astype(np.uint8)
        return np.packbits(bits, axis=1, bitorder="little").tobytes() + scale.astype(np.uint8).tobytes()

    return os.environ.get("MICROXCALING_VERSION", "of unknown version"), types, (None, None), {"cast": cast, "mx": mx}


def of_spike():
    """The SoftFloat of the RISC-V simulator, its folder softfloat/ compiled to libsoftfloat.so."""
    import ctypes

    library = ctypes.CDLL("libsoftfloat.so")
    mode = ctypes.c_uint8.in_dll(library, "softfloat_roundingMode")
    rounds = {"rne": 0, "rtz": 1, "rtn": 2, "rtp": 3, "rna": 4}
    types = {"e4m3": "u1", "e5m2": "u1", "f16": "<u2", "bf16": "<u2"}

    def run(name, x, dtype, *more):
        # A struct of one number is passed as that number.
        function = library[name]
        function.restype = ctypes.c_uint32
        function.argtypes = [ctypes.c_uint32] + [ctypes.c_bool] * len(more)
        return np.array([function(int(v), *more) for v in x]).astype(dtype)

    def cast(q, data):
        if q["round"] not in rounds:
            return None
        mode.value = rounds[q["round"]]
        saturates = [q["overflow"] == "sat"] if "overflow" in q else []
        return run("f32_to_" + q["to"], np.frombuffer(data, "<u4"), types[q["to"]], *saturates).tobytes()

    def decode(q, data):
        name, x = q["from"], np.frombuffer(data, types[q["from"]])
        if name in ("e4m3", "e5m2"):
            name, x = "bf16", run(name + "_to_bf16", x, "<u2")
        return run(name + "_to_f32", x, "<u4").tobytes()

    return os.environ.get("SPIKE_VERSION", "of unknown version"), types, (None, None), {"cast": cast, "decode": decode}


packages = {"ml_dtypes": of_ml_dtypes, "numpy": of_numpy, "torch": of_torch, "onnxruntime": of_onnxruntime, "gfloat": of_gfloat,
            "gguf": of_gguf, "ggml": of_ggml, "mlx": of_mlx, "torchao": of_torchao, "compressed-tensors": of_compressed_tensors,
            "microxcaling": of_microxcaling, "spike": of_spike, "onednn": of_onednn}
name = sys.argv[1] if len(sys.argv) > 1 else ""
vectors = sys.argv[2:] == ["dot"]
if name not in packages or (len(sys.argv) > 2 and not vectors):
    sys.exit("usage: packages.py " + "|".join(packages) + " [dot]")
np.seterr(all="ignore")
version, types, (round_, overflow), operations = packages[name]()


def answer_of(q, data):
    if q["op"] not in operations:
        return None
    if q["op"] in ("cast", "decode") and q.get("to", q.get("from")) not in types:
        return None
    if q["op"] == "cast" and round_ is not None and q["round"] != round_:
        return None
    if q["op"] == "cast" and overflow is not None:
        mode = overflow.get(q["to"], "ovf") if isinstance(overflow, dict) else overflow
        if q.get("overflow", mode) != mode:
            return None
    return operations[q["op"]](q, data)


for line in stdin:
    q = json.loads(line)
    if q["op"] == "hello":
        stdout.write(json.dumps({"version": 1, "name": f"{name} {version}", "batch": 65536}).encode() + b"\n")
    else:
        answer = answer_of(q, stdin.read(q["bytes"]))
        stdout.write(b'{"unsupported":true}\n' if answer is None else b'{"bytes":%d}\n' % len(answer) + answer)
    stdout.flush()
