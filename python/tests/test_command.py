# SPDX-License-Identifier: MIT
"""The module gives the bytes that the command gives, which reaches the library by other ways: files, options by name."""

import json
import re
import subprocess

import numpy
import pytest

import mxfp

ELEMENTS = [f.name for f in mxfp.formats.values() if not f.is_block]
BLOCKS = [f.name for f in mxfp.formats.values() if f.is_block]
COLS = 80  # two and a half blocks, five of NVFP4


def run(command, *arguments, data=b""):
    """What the command prints. It refuses options that change nothing, and asks to leave them out: this does so."""
    words = [str(word) for word in arguments]
    while True:
        done = subprocess.run([command, *words], input=data, capture_output=True)
        if done.returncode == 0:
            return done.stdout
        useless = re.search(r"(--[a-z0-9-]+): is for .*leave it out", done.stderr.decode())
        if useless is None or useless[1] not in words:
            raise AssertionError(done.stderr.decode())
        at = words.index(useless[1])
        del words[at : at + 2]


def sources(numbers):
    """The same numbers in the three formats that blocks are made of: bytes, and an array with the name of its format."""
    with numpy.errstate(over="ignore", invalid="ignore"):
        half = numbers.astype(numpy.float16)
    brain = (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
    return [("f32", numbers, None), ("f16", half, None), ("bf16", brain, "bf16")]


def as_bytes(x):
    return numpy.ascontiguousarray(x).tobytes()


@pytest.mark.parametrize("to", ELEMENTS)
@pytest.mark.parametrize("mode", mxfp.rounds)
def test_cast(command, numbers, to, mode):
    for name, x, source in sources(numbers):
        for overflow in mxfp.overflows:
            expected = run(
                command, "cast", "--from", name, "--to", to, "--round", mode, "--overflow", overflow, "--seed", 3, "--stream", 5,
                data=as_bytes(x),
            )
            got = mxfp.cast(x, to, round=mode, overflow=overflow, source=source, seed=3, stream=5)
            assert as_bytes(got) == expected, (name, overflow)


@pytest.mark.parametrize("source", ELEMENTS)
def test_decode(command, source):
    size = mxfp.formats[source].storage_bytes
    random = numpy.random.default_rng(7)
    codes = numpy.arange(256, dtype=numpy.uint8) if size == 1 else random.integers(0, 256, 4000 * size, dtype=numpy.uint8)
    codes = codes.view({1: "u1", 2: "u2", 4: "u4"}[size])
    expected = run(command, "cast", "--decode", "--to", source, data=as_bytes(codes))
    assert as_bytes(mxfp.cast(codes, "f32", source=source)) == expected


def blocks(command, folder, x, name, format, how, options):
    """Codes, scales and tensor scale by the command."""
    (folder / "x").write_bytes(as_bytes(x))
    out = run(
        command, "blocks", "--to", format, "--cols", COLS, "--from", name, "--force", "--json", *how, *options,
        folder / "x", folder / "codes", folder / "scales",
    )
    return (folder / "codes").read_bytes(), (folder / "scales").read_bytes(), json.loads(out)


def check(command, folder, name, x, source, format, how, given, **more):
    x = x[: len(x) // COLS * COLS].reshape(-1, COLS)
    option = "--nvfp4-recipe" if format == "nvfp4" else "--rule"
    words = [option, how]
    for key, value in more.items():
        words += [f"--{key.replace('_', '-')}"] + ([] if value is True else [str(value)])
    codes, scales, said = blocks(command, folder, x, name, format, words, [])
    if source is not None:
        x = numpy.asarray(x).view("V2")
        pytest.importorskip("ml_dtypes")
        import ml_dtypes

        x = x.view(ml_dtypes.bfloat16)
    q = mxfp.quantize(x, format, **given, **more)
    assert as_bytes(q.codes) == codes
    assert as_bytes(q.scales) == scales
    if format == "nvfp4":
        assert numpy.float32(q.tensor_scale) == numpy.float32(said["tensor_scale"])


@pytest.mark.parametrize("format", [name for name in BLOCKS if name != "nvfp4"])
@pytest.mark.parametrize("rule", mxfp.rules)
@pytest.mark.parametrize("of", range(3), ids=["f32", "f16", "bf16"])
def test_rules(command, tmp_path, numbers, format, rule, of):
    check(command, tmp_path, *sources(numbers)[of], format, rule, {"rule": rule})


@pytest.mark.parametrize("recipe", mxfp.recipes)
@pytest.mark.parametrize("of", range(3), ids=["f32", "f16", "bf16"])
def test_recipes(command, tmp_path, numbers, recipe, of):
    limit = 60000 if of == 1 else 1e30
    tame = numpy.clip(numpy.nan_to_num(numbers), -limit, limit)
    check(command, tmp_path, *sources(tame)[of], "nvfp4", recipe, {"recipe": recipe})


def test_default_recipe(command, tmp_path, numbers):
    """Without a recipe both take the same one."""
    matrix = numpy.clip(numpy.nan_to_num(numbers), -1e30, 1e30)[: COLS * 64].reshape(-1, COLS)
    codes, scales, said = blocks(command, tmp_path, matrix, "f32", "nvfp4", [], [])
    q = mxfp.quantize(matrix, "nvfp4")
    assert (as_bytes(q.codes), as_bytes(q.scales), q.recipe) == (codes, scales, said["recipe"])
    assert (q.tensor_scale, q.tensor_scale_divides) == (said["tensor_scale"], said["tensor_scale_divides"])
    y = mxfp.fake_quantize(matrix, "nvfp4")
    assert numpy.array_equal(y, q.dequantize())
    amax = mxfp.Options(tensor_amax=said["amax"])
    for p in (mxfp.quantize(q.dequantize(), "nvfp4", tensor_amax=said["amax"]), mxfp.add(q.dequantize(), y * 0, to="nvfp4", to_options=amax)):
        assert p.recipe == q.recipe and p.tensor_scale == q.tensor_scale and p.tensor_scale_divides


@pytest.mark.parametrize("format", BLOCKS)
@pytest.mark.parametrize("mode", mxfp.rounds)
def test_rounding(command, tmp_path, numbers, format, mode):
    tame = numpy.clip(numpy.nan_to_num(numbers), -1e30, 1e30)
    how = ("te", {"recipe": "te"}) if format == "nvfp4" else ("even", {"rule": "even"})
    check(command, tmp_path, "f32", tame, None, format, *how, round=mode, seed=11, stream=2)


@pytest.mark.parametrize("policy", ["propagate", "saturate"])
@pytest.mark.parametrize("format", BLOCKS)
def test_policies(command, tmp_path, numbers, format, policy):
    how = ("te", {"recipe": "te"}) if format == "nvfp4" else ("ceil", {"rule": "ceil"})
    check(command, tmp_path, "f32", numbers, None, format, *how, non_finite=policy, no_negative_zero=True)


@pytest.mark.parametrize("format", BLOCKS)
def test_dequantize(command, tmp_path, matrix, format):
    q = mxfp.quantize(matrix, format)
    (tmp_path / "codes").write_bytes(as_bytes(q.codes))
    (tmp_path / "scales").write_bytes(as_bytes(q.scales))
    scale = ["--tensor-scale", repr(q.tensor_scale), "--nvfp4-recipe", q.recipe] if format == "nvfp4" else []
    expected = run(
        command, "blocks", "--decode", "--to", format, "--cols", matrix.shape[1], *scale, tmp_path / "codes", tmp_path / "scales"
    )
    assert as_bytes(q.dequantize()) == expected


@pytest.mark.parametrize("a_format", [None, *BLOCKS])
@pytest.mark.parametrize("w_format", BLOCKS)
def test_gemm(command, tmp_path, matrix, a_format, w_format):
    a = matrix[:7] * numpy.float32(0.5)
    numpy.save(tmp_path / "a.npy", a)
    numpy.save(tmp_path / "w.npy", matrix)
    rule = {} if w_format == "nvfp4" else {"rule": "rceil"}
    options = mxfp.Options(rule="floor") if a_format not in (None, "nvfp4") else None
    w = mxfp.quantize(matrix, w_format, **rule)
    for acc in mxfp.accs:
        arguments = [
            "gemm", tmp_path / "a.npy", tmp_path / "w.npy", "--w-format", w_format, "--a-format", a_format or "none", "--rule", "rceil",
            "--a-rule", "floor", "--acc", acc, "--force", "-q", "-o", tmp_path / "c.npy",
        ]
        try:
            run(command, *arguments)
        except AssertionError as refused:  # a machine that does not take these formats
            assert acc not in ("exact", "chain") and f"--acc {acc} does not take" in str(refused)
            with pytest.raises(ValueError, match=f"acc: a is .*; '{acc}' takes a in "):
                mxfp.matmul(a, w, a_format=a_format, a_options=options, acc=acc)
            continue
        c = mxfp.matmul(a, w, a_format=a_format, a_options=options, acc=acc)
        assert as_bytes(c) == as_bytes(numpy.load(tmp_path / "c.npy"))
        packed = mxfp.pack(w, a_format=a_format, acc=acc)
        assert as_bytes(mxfp.matmul(a, packed, a_format=a_format, a_options=options, acc=acc)) == as_bytes(c)


@pytest.mark.parametrize("layout", ["compressed-tensors", "modelopt"])
@pytest.mark.parametrize("format", ["mxfp4", "mxfp8-e4m3", "nvfp4"])
def test_layout(command, tmp_path, matrix, layout, format):
    """The parts of a tensor have the names, shapes and bytes of the file that the command writes."""
    safetensors(tmp_path / "in.safetensors", {"layer.weight": matrix})
    recipe = "compressed-tensors" if layout == "compressed-tensors" else "te"
    run(
        command, "quantize", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors", "-w", format, "-l", layout,
        "--rule", "mse", "--nvfp4-recipe", recipe, "--include", "*", "-q",
    )
    header, data = read_safetensors(tmp_path / "out.safetensors")
    q = mxfp.quantize(matrix, format, **({"recipe": recipe} if format == "nvfp4" else {}))
    parts = q.to_layout(layout, "layer.weight")
    assert set(parts) == set(header)
    for name, part in parts.items():
        begin, end = header[name]["data_offsets"]
        assert list(part.shape) == header[name]["shape"], name
        assert as_bytes(part) == data[begin:end], name


def safetensors(path, tensors):
    """Writes a file of float32."""
    header, data = {}, b""
    for name, x in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(data), len(data) + x.nbytes]}
        data += as_bytes(x)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def read_safetensors(path):
    raw = path.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + n])
    header.pop("__metadata__", None)
    return header, raw[8 + n :]
