# SPDX-License-Identifier: MIT
"""Single numbers: what each package casts them to, and what its codes stand for."""
import ctypes

import gfloat
import gfloat.formats
import gguf.quants
import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import torch
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8
from compressed_tensors.quantization.utils.fp4_utils import cast_to_fp4
from torchao.prototype.mx_formats import kernels as torchao

NOT_RUN = 0xEE
GGML = ctypes.CDLL("libggml-base.so.0")

ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn, "e4m3ieee": ml_dtypes.float8_e4m3,
    "e3m4": ml_dtypes.float8_e3m4, "e8m0": ml_dtypes.float8_e8m0fnu, "bf16": ml_dtypes.bfloat16,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}
TORCH = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e8m0": torch.float8_e8m0fnu,
         "f16": torch.float16, "bf16": torch.bfloat16, "e4m3fnuz": torch.float8_e4m3fnuz, "e5m2fnuz": torch.float8_e5m2fnuz}
GFLOAT = {
    "e4m3": gfloat.formats.format_info_ocp_e4m3, "e5m2": gfloat.formats.format_info_ocp_e5m2,
    "e2m3": gfloat.formats.format_info_ocp_e2m3, "e3m2": gfloat.formats.format_info_ocp_e3m2,
    "e2m1": gfloat.formats.format_info_ocp_e2m1, "e8m0": gfloat.formats.format_info_ocp_e8m0,
    "int8": gfloat.formats.format_info_ocp_int8, "f16": gfloat.formats.format_info_binary16,
    "bf16": gfloat.formats.format_info_bfloat16,
}
TORCHAO = {"e2m1": (torchao.f32_to_f4_unpacked, torchao.f4_unpacked_to_f32),
           "e2m3": (torchao.f32_to_f6_e2m3_unpacked, torchao.f6_e2m3_unpacked_to_f32),
           "e3m2": (torchao.f32_to_f6_e3m2_unpacked, torchao.f6_e3m2_unpacked_to_f32)}
ROUNDINGS = {"RNE": gfloat.RoundMode.TiesToEven, "RNA": gfloat.RoundMode.TiesToAway,
             "RTZ": gfloat.RoundMode.TowardZero, "RTP": gfloat.RoundMode.TowardPositive,
             "RTN": gfloat.RoundMode.TowardNegative}


def wide(name):
    return name in ("bf16", "f16")


def storage(name):
    return np.uint16 if wide(name) else np.uint8


def inputs_of(name):
    return ["special", "powers", "sample"] + ([] if name == "e8m0" else ["mid_" + name])


def n_codes(name):
    return {"e2m3": 64, "e3m2": 64, "e2m1": 16, "bf16": 65536, "f16": 65536}.get(name, 256)


def from_torch(tensor):
    if tensor.element_size() == 2:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.view(torch.uint8).numpy()


def gfloat_codes(name, x, rounding, saturate):
    """NaN and Inf are not run where the format has none, nor is what e8m0 has no code for."""
    info = GFLOAT[name]
    runs = np.ones(x.shape, dtype=bool) if name in ("e4m3", "e5m2", "bf16", "f16") else np.isfinite(x)
    if name == "e8m0":
        runs &= x > 0
    out = np.full(x.shape, NOT_RUN, dtype=storage(name))
    v = x[runs].astype(np.float64)
    out[runs] = gfloat.encode_ndarray(info, gfloat.round_ndarray(info, v, ROUNDINGS[rounding], saturate))
    return out


def onnxruntime_values(name, x, saturate):
    """Cast to the format and back."""
    types = {"e4m3": onnx.TensorProto.FLOAT8E4M3FN, "e5m2": onnx.TensorProto.FLOAT8E5M2,
             "f16": onnx.TensorProto.FLOAT16, "bf16": onnx.TensorProto.BFLOAT16}
    attributes = {} if wide(name) else {"saturate": int(saturate)}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Cast", ["x"], ["code"], to=types[name], **attributes),
         onnx.helper.make_node("Cast", ["code"], ["y"], to=onnx.TensorProto.FLOAT)], "cast",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [x.size])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [x.size])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def ggml_row(function, x, out):
    getattr(GGML, function)(x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                            ctypes.c_int64(x.size))
    return out


def run_casts(r, by):
    for name, dtype in ML_DTYPES.items():
        for source in inputs_of(name):
            x = r.floats(source)
            r.case(f"cast/{name}/{source}/ml_dtypes", "cast", by["ml_dtypes"],
                   {"codes": x.astype(dtype).view(storage(name))}, format=name, input=source, rounding="RNE")
    for source in inputs_of("f16"):
        r.case(f"cast/f16/{source}/numpy", "cast", by["numpy"],
               {"codes": r.floats(source).astype(np.float16).view(np.uint16)}, format="f16", input=source,
               rounding="RNE")
    for name, dtype in TORCH.items():
        for source in inputs_of(name):
            x = torch.from_numpy(r.floats(source).copy())
            r.case(f"cast/{name}/{source}/torch", "cast", by["torch"], {"codes": from_torch(x.to(dtype))},
                   format=name, input=source, rounding="RNE")
    for name in GFLOAT:
        for source in inputs_of(name):
            for rounding in ROUNDINGS:
                for saturate in (True, False):
                    if wide(name) if saturate else name not in ("e4m3", "e5m2", "f16", "bf16"):
                        continue
                    r.case(f"cast/{name}/{source}/gfloat-{rounding}-{'sat' if saturate else 'nosat'}", "cast",
                           by["gfloat"], {"codes": gfloat_codes(name, r.floats(source), rounding, saturate)},
                           format=name, input=source, rounding=rounding, saturate=saturate)
    for name, (encode, _) in TORCHAO.items():
        for source in inputs_of(name):
            x = torch.from_numpy(r.floats(source).copy())
            r.case(f"cast/{name}/{source}/torchao", "cast", by["torchao"], {"codes": encode(x).numpy()},
                   format=name, input=source, rounding="RNE", saturate=True)
    for name in ("f16", "bf16"):
        for source in inputs_of(name):
            x = r.floats(source)
            codes = ggml_row(f"ggml_fp32_to_{'fp16' if name == 'f16' else name}_row", x, np.zeros(x.shape, np.uint16))
            r.case(f"cast/{name}/{source}/ggml", "cast", by["ggml"], {"codes": codes}, format=name, input=source,
                   rounding="RNE")
    codes = gguf.quants.NVFP4.fp32_to_ue4m3(r.floats("mid_ue4m3")).astype(np.uint8)
    r.case("cast/ue4m3/mid_ue4m3/gguf-py", "cast", by["gguf-py"], {"codes": codes}, format="ue4m3",
           input="mid_ue4m3", rounding="RNA", notes="negative numbers give 0")


def run_values(r, by):
    for name in ("e4m3", "e5m2", "f16", "bf16"):
        for source in inputs_of(name):
            for saturate in (True, False):
                if wide(name) and saturate:
                    continue
                more = {} if wide(name) else {"saturate": saturate}
                r.case(f"cast/{name}/{source}/onnxruntime{'-sat' if saturate else ''}", "cast-values",
                       by["onnxruntime"], {"values": onnxruntime_values(name, r.floats(source), saturate)},
                       format=name, input=source, rounding="RNE", **more)
    for source in inputs_of("e2m1"):
        values = cast_to_fp4(torch.from_numpy(r.floats(source).copy())).numpy()
        r.case(f"cast/e2m1/{source}/compressed-tensors", "cast-values", by["compressed-tensors"],
               {"values": values}, format="e2m1", input=source, rounding="RNE", saturate=True)
    values = r.floats("fp4_pairs")
    r.case("pack/e2m1/fp4_pairs/compressed-tensors", "pack", by["compressed-tensors"],
           {"packed": pack_fp4_to_uint8(torch.from_numpy(values.copy())).numpy(), "values": values}, format="e2m1",
           input="fp4_pairs")


def run_decodes(r, by):
    def case(label, package, values, name, **more):
        r.case(f"decode/{label}/{package}", "decode", by[package], {"values": values.astype(np.float32)},
               format=name, **more)

    for name, dtype in ML_DTYPES.items():
        case(name, "ml_dtypes", np.arange(n_codes(name), dtype=storage(name)).view(dtype), name)
    for name, dtype in TORCH.items():
        codes = np.arange(n_codes(name), dtype=storage(name))
        codes = torch.from_numpy(codes.view(np.int16) if wide(name) else codes).view(dtype)
        case(name, "torch", codes.float().numpy(), name)
    for name, info in GFLOAT.items():
        if not wide(name):
            case(name, "gfloat", gfloat.decode_ndarray(info, np.arange(n_codes(name))), name)
    for name, (_, decode) in TORCHAO.items():
        case(name, "torchao", decode(torch.arange(n_codes(name), dtype=torch.uint8)).numpy(), name)
    for name, function in (("f16", "ggml_fp16_to_fp32_row"), ("bf16", "ggml_bf16_to_fp32_row")):
        codes = np.arange(65536, dtype=np.uint16)
        case(name, "ggml", ggml_row(function, codes, np.zeros(65536, np.float32)), name)
    codes = np.arange(256, dtype=np.uint8)
    case("e8m0-halved", "gguf-py", gguf.quants.MXFP4.e8m0_to_fp32_half(codes), "e8m0")
    case("ue4m3-halved", "gguf-py", gguf.quants.NVFP4.ue4m3_to_fp32(codes), "ue4m3",
         notes="7F gives 0, FF 240, the half of 480")


def run(r, by):
    run_casts(r, by)
    run_values(r, by)
    run_decodes(r, by)
