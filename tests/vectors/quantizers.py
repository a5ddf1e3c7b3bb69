# SPDX-License-Identifier: MIT
"""Blocks and tensors: what each package quantizes them to; and torch's two of four."""
import ctypes

import gfloat
import gguf
import gguf.quants
import numpy as np
import torch
from compressed_tensors.compressors.nvfp4.helpers import quantize_and_pack_fp4, unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam
from compressed_tensors.quantization.utils.mxfp_utils import generate_mx_scales
from torch.sparse import _semi_structured_conversions as semi_structured
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2
from torchao.prototype.mx_formats.mx_tensor import to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, nvfp4_quantize, per_tensor_amax_to_scale

from casts import GFLOAT, GGML, NOT_RUN, gfloat_codes

TORCHAO = {"mxe4m3": torch.float8_e4m3fn, "mxe5m2": torch.float8_e5m2, "mxe2m3": DTYPE_FP6_E2M3,
           "mxe3m2": DTYPE_FP6_E3M2, "mxe2m1": torch.float4_e2m1fn_x2}
MODES = {"FLOOR": ScaleCalculationMode.FLOOR, "CEIL": ScaleCalculationMode.CEIL,
         "EVEN": ScaleCalculationMode.EVEN, "RCEIL": ScaleCalculationMode.RCEIL}


def ggml_version():
    GGML.ggml_version.restype = ctypes.c_char_p
    return GGML.ggml_version().decode()


def ggml_blocks(name, x, block_length, block_bytes):
    """The GGUF blocks that libggml makes of the rows of x, and what it decodes them to."""
    out = np.zeros((x.size // block_length, block_bytes), np.uint8)
    values = np.zeros(x.shape, np.float32)
    x = np.ascontiguousarray(x)
    for function, source, target in ((f"quantize_row_{name}_ref", x, out), (f"dequantize_row_{name}", out, values)):
        getattr(GGML, function)(source.ctypes.data_as(ctypes.c_void_p), target.ctypes.data_as(ctypes.c_void_p),
                                ctypes.c_int64(x.size))
    return out, values


def nibbles(packed):
    """Codes of which two stand in a byte, the first below."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1)


def mxfp4_outputs(gguf_blocks, values):
    return {"scales": gguf_blocks[:, 0], "gguf_blocks": gguf_blocks, "values": values,
            "codes": np.concatenate([gguf_blocks[:, 1:] & 15, gguf_blocks[:, 1:] >> 4], axis=1)}


def gfloat_block_outputs(name, x):
    """A block with NaN or Inf is not run."""
    info = GFLOAT[name]
    codes = np.full(x.shape, NOT_RUN, np.uint8)
    scales = np.full(x.shape[0], 0xFF, np.uint8)
    for row, numbers in enumerate(x.astype(np.float64)):
        if np.all(np.isfinite(numbers)):
            scale = gfloat.compute_scale_amax(info.emax, numbers)
            codes[row] = gfloat_codes(name, numbers / scale, "RNE", True)
            scales[row] = int(np.log2(scale)) + 127
    return {"codes": codes, "scales": scales}


def run_torchao_mx(r, by, source):
    tensor = torch.from_numpy(r.floats(source).copy())
    for name, dtype in TORCHAO.items():
        for rule, mode in MODES.items():
            scales, codes = to_mx(tensor, dtype, 32, mode)
            codes = codes.view(torch.uint8).numpy()
            outputs = {"packed": codes, "codes": nibbles(codes)} if name == "mxe2m1" else {"codes": codes}
            r.case(f"mx/{name[2:]}/{source}/torchao-{rule.lower()}", "mx-block", by["torchao"],
                   {**outputs, "scales": scales.view(torch.uint8).numpy().reshape(-1)}, format=name, input=source,
                   rounding="RNE", scale_rule=rule)


def run_mx(r, by):
    run_torchao_mx(r, by, "blocks")
    run_torchao_mx(r, by, "blocks_plain")
    x = r.floats("blocks")
    for name in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "int8"):
        r.case(f"mx/{name}/blocks/gfloat", "mx-block", by["gfloat"], gfloat_block_outputs(name, x),
               format="mxmxint8" if name == "int8" else "mx" + name, input="blocks", rounding="RNE",
               scale_rule="FLOOR")
    r.case("mx/e2m1/blocks/ggml", "mx-block", by["ggml"], mxfp4_outputs(*ggml_blocks("mxfp4", x, 32, 17)),
           format="mxe2m1", input="blocks", scale_rule="FLOOR")
    finite = np.where(np.isfinite(x), x, np.float32(0))
    packed = gguf.quants.quantize(finite, gguf.GGMLQuantizationType.MXFP4)
    r.case("mx/e2m1/blocks/gguf-py", "mx-block", by["gguf-py"],
           mxfp4_outputs(packed, gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.MXFP4)),
           format="mxe2m1", input="blocks", scale_rule="FLOOR")
    amax = np.max(np.abs(x), axis=1)
    amax = np.where(np.isfinite(amax) & (amax > 0), amax, np.float32(1))
    for name, n_bits, rule in (("mxe2m1", 4, "EVEN with FP4 mantissa"), ("mxe2m3", 6, "EVEN"),
                               ("mxe4m3", 8, "EVEN with FP4 mantissa")):
        r.case(f"scale/{name}/blocks/compressed-tensors", "mx-scale", by["compressed-tensors"],
               {"values": generate_mx_scales(torch.from_numpy(amax.copy()), n_bits).numpy()}, format=name,
               input="blocks", scale_rule=rule)


def torchao_outputs(tensor, tensor_scale):
    scales, packed = nvfp4_quantize(tensor, 16, tensor_scale)
    outputs = {"scales": scales.view(torch.uint8).numpy().reshape(tensor.shape[0], -1),
               "packed": packed.view(torch.uint8).numpy(),
               "dequantized": NVFP4Tensor.to_nvfp4(tensor, 16, tensor_scale).dequantize(torch.float32).numpy()}
    if tensor_scale is not None:
        outputs["tensor_scale"] = tensor_scale.numpy().reshape(1)
    return outputs


def compressed_tensors_outputs(tensor):
    arguments = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True,
                                 scale_dtype=torch.float8_e4m3fn, zp_dtype=torch.float8_e4m3fn)
    groups = tensor.reshape(tensor.shape[0], -1, 16)
    global_scale = generate_gparam(tensor.min().reshape(1), tensor.max().reshape(1))
    scales, _ = calculate_qparams(groups.amin(-1), groups.amax(-1), arguments, global_scale)
    packed = quantize_and_pack_fp4(tensor, scales.float(), global_scale, None, 16)
    elements = unpack_fp4_from_uint8(packed, *tensor.shape, dtype=torch.float32)
    numbers = dequantize(elements, scales.float(), args=arguments, dtype=torch.float32, global_scale=global_scale)
    return {"global_scale": global_scale.numpy(), "packed": packed.numpy(), "dequantized": numbers.numpy(),
            "scales": scales.to(torch.float8_e4m3fn).view(torch.uint8).numpy()}


def run_nvfp4(r, by):
    for source in (name for name in r.arrays if name.startswith("nv_")):
        x = r.floats(source)
        tensor = torch.from_numpy(x.copy())
        more = {"format": "nvfp4", "input": source}
        r.case(f"nvfp4/{source}/torchao-onelevel", "nvfp4", by["torchao"], torchao_outputs(tensor, None), **more)
        scale = per_tensor_amax_to_scale(tensor.abs().max())
        r.case(f"nvfp4/{source}/torchao-twolevel", "nvfp4", by["torchao"], torchao_outputs(tensor, scale), **more)
        r.case(f"nvfp4/{source}/compressed-tensors", "nvfp4", by["compressed-tensors"],
               compressed_tensors_outputs(tensor), **more)
        blocks, values = ggml_blocks("nvfp4", x, 64, 36)
        quarters = blocks[:, 4:].reshape(-1, 4, 8)
        codes = np.concatenate([quarters & 15, quarters >> 4], axis=2).reshape(x.shape)
        r.case(f"nvfp4/{source}/ggml", "nvfp4", by["ggml"],
               {"gguf_blocks": blocks, "scales": blocks[:, :4].reshape(x.shape[0], -1), "codes": codes,
                "values": values, "values_gguf_py": gguf.quants.dequantize(
                    blocks.reshape(x.shape[0], -1), gguf.GGMLQuantizationType.NVFP4)}, **more)


def run_sparse(r, by):
    dense = torch.from_numpy(r.arrays["sparse24"].view(np.int16).copy()).view(torch.float16)
    values, meta = semi_structured.sparse_semi_structured_from_dense_cutlass(dense)
    r.case("sparse24/sparse24/torch", "sparse24", by["torch"],
           {"values": values.view(torch.int16).numpy().view(np.uint16),
            "meta": meta.view(torch.int16).numpy().view(np.uint16)}, input="sparse24")


def run(r, by):
    run_mx(r, by)
    run_nvfp4(r, by)
    run_sparse(r, by)
