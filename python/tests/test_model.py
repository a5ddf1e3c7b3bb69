# SPDX-License-Identifier: MIT
"""Models in files, written by the command and by hand."""

import json

import numpy
import pytest
from test_command import run, safetensors

import mxfp
from mxfp import _core

pytestmark = pytest.mark.skipif(not hasattr(_core, "model_open"), reason="built without the command's readers")

@pytest.fixture
def source(tmp_path, matrix):
    path = tmp_path / "source.safetensors"
    safetensors(path, {"model.layers.0.mlp.up_proj.weight": matrix, "model.norm.weight": matrix[0]})
    return path


@pytest.mark.parametrize(
    "layout, format, recipe",
    [
        *((layout, format, None) for layout in ("compressed-tensors", "modelopt", "mlx") for format in ("mxfp4", "mxfp8-e4m3")),
        ("quark", "mxfp4", None),
        ("compressed-tensors", "nvfp4", "compressed-tensors"),
        ("modelopt", "nvfp4", "te"),
        ("mlx", "nvfp4", "torchao-1"),
    ],
)
def test_quantized(command, tmp_path, source, matrix, layout, format, recipe):
    out = tmp_path / "out"
    words = [] if recipe is None else ["--nvfp4-recipe", recipe]
    run(command, "quantize", source, "-o", out, "-w", format, "-l", layout, *words, "-q")
    run(command, "dequantize", out, "-o", tmp_path / "plain.safetensors", "-q")
    with mxfp.open(out) as model, mxfp.open(tmp_path / "plain.safetensors") as plain:
        assert list(model) == list(plain) and len(model) == 2
        name = "model.layers.0.mlp.up_proj.weight"
        q = model[name]
        assert isinstance(q, mxfp.Quantized) and q.format == format and q.shape == matrix.shape
        assert model.info(name).quantized and model.info(name).layout and model.info(name).nbytes == q.codes.nbytes + q.scales.nbytes
        assert numpy.array_equal(q.dequantize(), plain[name])
        assert numpy.array_equal(model["model.norm.weight"], matrix[0])
        expected = mxfp.quantize(matrix, format, recipe=recipe)
        assert numpy.array_equal(q.codes, expected.codes) and numpy.array_equal(q.scales, expected.scales)
        assert (q.tensor_scale, q.tensor_scale_divides) == (expected.tensor_scale, expected.tensor_scale_divides)


@pytest.mark.parametrize("format", ["mxfp4", "nvfp4"])
def test_gguf(command, tmp_path, matrix, format):
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("blk.0.ffn_up.weight", matrix)
    writer.add_tensor("q8", gguf.quants.quantize(matrix, gguf.GGMLQuantizationType.Q8_0), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("q4", gguf.quants.quantize(matrix, gguf.GGMLQuantizationType.Q4_0), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    blocks = gguf.quants.quantize(matrix, gguf.GGMLQuantizationType.MXFP4)
    writer.add_tensor("m4", blocks, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with mxfp.open(path) as model:
        assert numpy.array_equal(model["blk.0.ffn_up.weight"], matrix)
        expected = gguf.quants.dequantize(gguf.quants.quantize(matrix, gguf.GGMLQuantizationType.Q8_0), gguf.GGMLQuantizationType.Q8_0)
        assert numpy.array_equal(model["q8"], expected)
        assert numpy.array_equal(model["m4"].dequantize(), gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.MXFP4))
        with pytest.raises(ValueError, match="'q4': is Q4_0, which is not read here"):
            model["q4"]


def tensors(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_dtypes(tmp_path):
    """Every dtype of safetensors with whole bytes."""
    sizes = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8, "C64": 8, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1}
    header, data = {}, b""
    for dtype, size in sizes.items():
        header[dtype] = {"dtype": dtype, "shape": [2, 1], "data_offsets": [len(data), len(data) + 2 * size]}
        data += bytes([1] + [0] * (size - 1)) + bytes(size)
    tensors(tmp_path / "x.safetensors", header, data)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with mxfp.open(tmp_path / "x.safetensors") as model:
        for dtype, size in sizes.items():
            x = model[dtype]
            assert x.shape == (2, 1) and x.itemsize == size and x.tobytes()[0] == 1
        assert model["BF16"].dtype == ml_dtypes.bfloat16 and model["I64"].tolist() == [[1], [0]]


def test_errors(tmp_path, source):
    with pytest.raises(OSError, match="No such file"):
        mxfp.open(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    (tmp_path / "cut.safetensors").write_bytes(source.read_bytes()[:-4])
    with pytest.raises(ValueError, match="cut.safetensors"):
        mxfp.open(tmp_path / "cut.safetensors")
    with pytest.raises(ValueError, match="arrays: unknown value"):
        mxfp.open(source, arrays="tensorflow")
    with mxfp.open(source) as model:
        with pytest.raises(KeyError, match="did you mean 'model.norm.weight'"):
            model["model.norm.weigth"]
        assert "model.norm.weight" in model and "x" not in model
    with pytest.raises(ValueError, match="is closed"):
        model["model.norm.weight"]


def test_a_scale_that_is_missing(tmp_path):
    """Codes without their scales are refused, not read as bytes."""
    header = {
        "a.weight_packed": {"dtype": "U8", "shape": [32, 16], "data_offsets": [0, 512]},
    }
    tensors(tmp_path / "x.safetensors", header, bytes(512))
    with pytest.raises(ValueError, match="a.weight_packed"):
        mxfp.open(tmp_path / "x.safetensors")


def test_fp8_with_scales(tmp_path):
    """DeepSeek's: codes times the scale of their square, float32."""
    codes = numpy.full((128, 256), 0x38, numpy.uint8)  # 1.0
    scales = numpy.float32([[2, 3]])
    header = {
        "a.weight": {"dtype": "F8_E4M3", "shape": [128, 256], "data_offsets": [0, codes.nbytes]},
        "a.weight_scale_inv": {"dtype": "F32", "shape": [1, 2], "data_offsets": [codes.nbytes, codes.nbytes + 8]},
    }
    tensors(tmp_path / "model.safetensors", header, codes.tobytes() + scales.tobytes())
    config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3", "activation_scheme": "dynamic"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with mxfp.open(tmp_path) as model:
        assert list(model) == ["a.weight"]
        x = model["a.weight"]
        assert x.dtype == numpy.float32 and (x[:, :128] == 2).all() and (x[:, 128:] == 3).all()


def test_readers_in_threads(source, matrix):
    import concurrent.futures

    with mxfp.open(source) as model, concurrent.futures.ThreadPoolExecutor(8) as pool:
        for x in pool.map(lambda _: model["model.layers.0.mlp.up_proj.weight"], range(64)):
            assert numpy.array_equal(x, matrix)
