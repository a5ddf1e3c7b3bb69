# SPDX-License-Identifier: MIT
"""The examples run, and do what they say."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy
import pytest
from test_command import safetensors

import mxfp

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quant_linear():
    torch = pytest.importorskip("torch")
    example = load("quant_linear")
    torch.manual_seed(1)
    linear = torch.nn.Linear(64, 16)
    x = torch.randn(3, 5, 64)
    layer = example.QuantLinear(linear, rule="rceil")
    w = mxfp.quantize(linear.weight.detach(), "mxfp4", rule="rceil")
    expected = mxfp.matmul(x, w, a_format="mxfp8") + linear.bias.detach()
    assert torch.equal(layer(x), expected) and layer(x).shape == (3, 5, 16)
    assert layer(x.bfloat16()).dtype == torch.bfloat16
    model = example.quantize_layers(torch.nn.Sequential(linear, torch.nn.ReLU()))
    assert type(model[0]) is example.QuantLinear


def test_straight_through():
    torch = pytest.importorskip("torch")
    example = load("quant_linear")
    x = torch.tensor([1.0, 6.5, 7.9, -7.9, 0.3], requires_grad=True)
    y = example.StraightThrough.apply(x, "mxfp4", {"rule": "floor"})
    assert y.tolist() == [1, 6, 6, -6, 0.5]
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1, 1]
    layer = example.FakeQuantLinear(64, 16)
    layer(torch.randn(2, 64)).sum().backward()
    assert layer.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("rule", ["mse", "floor", "even"])
def test_training_from_small_weights(rule):
    torch = pytest.importorskip("torch")
    example = load("quant_linear")
    torch.manual_seed(3)
    wanted = torch.randn(64, 64)
    weights = (0.01 * torch.randn(64, 64)).requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=0.05)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        loss = (example.StraightThrough.apply(weights, "mxfp4", {"rule": rule}) - wanted).square().sum() / 2
        loss.backward()
        losses.append(float(loss.detach()))
        optimizer.step()
    assert min(losses) < float((mxfp.fake_quantize(wanted, "mxfp4", rule=rule) - wanted).square().sum())


def test_training():
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, EXAMPLES / "quant_linear.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after, trained = (float(line.split()[-1]) for line in done.stdout.splitlines() if "mean squared error" in line)
    assert trained < after


def test_error_against_bits(tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / "error_against_bits.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    n = 6 * len(mxfp.rules) + len(mxfp.recipes)
    assert len(done.stdout.splitlines()) == n
    rows = load("error_against_bits").measure(numpy.float32([[1, 2, 4, 8] * 8]))
    assert max(rows, key=lambda row: row[1])[1] == numpy.inf


def test_error_against_bits_chart(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "chart.png"
    subprocess.run([sys.executable, EXAMPLES / "error_against_bits.py", "-o", path], check=True, capture_output=True)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_layer_by_layer(command, tmp_path, matrix):
    if not hasattr(mxfp._core, "model_open"):
        pytest.skip("built without the command's readers")
    model = tmp_path / "model"
    model.mkdir()
    spread = numpy.random.default_rng(4).standard_normal((64, 96)).astype(numpy.float32)
    spread = (spread * numpy.exp2(numpy.random.default_rng(5).integers(-6, 7, spread.shape))).astype(numpy.float32)
    even = numpy.full((64, 96), 3, numpy.float32)
    safetensors(
        model / "model.safetensors",
        {"model.layers.0.mlp.up_proj.weight": spread, "model.layers.0.mlp.down_proj.weight": even, "model.norm.weight": matrix[0]},
    )
    (model / "config.json").write_text(json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}))
    done = subprocess.run([sys.executable, EXAMPLES / "layer_by_layer.py", model, tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "mxfp8-e4m3: 1 layers\nmxfp4: 1 layers\n"
    with mxfp.open(tmp_path / "out") as written:
        assert written["model.layers.0.mlp.up_proj.weight"].format == "mxfp8-e4m3"
        assert written["model.layers.0.mlp.down_proj.weight"].format == "mxfp4"
