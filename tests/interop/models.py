# SPDX-License-Identifier: MIT
"""Makes the models that both sides quantize: models.py DIRECTORY. The same bytes every time."""
import json
import pathlib
import sys

import ml_dtypes
import numpy
import safetensors.numpy

LAYER = "model.layers.0."
# Rows of several lengths, all whole blocks of every format; each dtype that checkpoints come in.
SHAPES = {
    LAYER + "self_attn.q_proj.weight": ((64, 128), ml_dtypes.bfloat16),
    LAYER + "self_attn.k_proj.weight": ((32, 128), ml_dtypes.bfloat16),
    LAYER + "self_attn.o_proj.weight": ((128, 64), numpy.float16),
    LAYER + "mlp.up_proj.weight": ((5, 2880), numpy.float32),
    LAYER + "mlp.down_proj.weight": ((33, 192), numpy.float32),
    LAYER + "mlp.wide.weight": ((16, 64), numpy.float32),
    LAYER + "mlp.zero.weight": ((4, 64), ml_dtypes.bfloat16),
    LAYER + "mlp.experts.0.up_proj.weight": ((8, 320), ml_dtypes.bfloat16),
    "lm_head.weight": ((16, 64), ml_dtypes.bfloat16),
}
STACKED = {
    LAYER + "mlp.experts.gate_up_proj": ((3, 64, 32), ml_dtypes.bfloat16),
    LAYER + "mlp.experts.down_proj": ((3, 128, 64), ml_dtypes.bfloat16),
}
# A recipe whose config.json needs several groups, one of them by name, and a list of what is left alone.
MIXED = {"version": 1, "default": {"format": "mxfp4", "rule": "floor"}, "activations": "mxfp8-e4m3", "rules": [
    {"match": "*.o_proj.weight", "keep": True}, {"match": "*.down_proj.weight", "format": "mxfp8-e4m3"},
    {"match": "re:.*self_attn", "format": "nvfp4"}, {"match": "*.experts.*", "format": "mxfp6-e2m3"}]}
KEPT = {
    "model.embed_tokens.weight": ((16, 64), ml_dtypes.bfloat16),
    "model.norm.weight": ((64,), numpy.float32),
    LAYER + "self_attn.q_proj.bias": ((64,), numpy.float16),
}


def numbers(random, name, shape):
    """Normal numbers with outliers and zero blocks; "wide" ones reach the ends of the scales, "zero" ones are zero."""
    values = random.standard_normal(shape)
    values *= numpy.where(random.random(shape) < 0.004, 40.0, 0.02)
    blocks = values.reshape(-1, 32)
    blocks[random.random(len(blocks)) < 0.05] = 0.0
    blocks[random.random(len(blocks)) < 0.02] *= 1e-3
    if name.endswith("wide.weight"):
        blocks *= numpy.exp2(random.integers(-140, 100, (len(blocks), 1)))
    elif name.endswith("zero.weight"):
        blocks[:] = 0.0
    return values


def model(seed, shapes):
    random = numpy.random.default_rng(seed)
    # Without -0, whose sign the encoder of compressed-tensors drops.
    return {name: numbers(random, name, shape).astype(dtype) + dtype(0) for name, (shape, dtype) in shapes.items()}


def save(directory, tensors, architecture="LlamaForCausalLM", model_type="llama"):
    directory.mkdir()
    config = {"architectures": [architecture], "model_type": model_type, "tie_word_embeddings": False}
    (directory / "config.json").write_text(json.dumps(config))
    safetensors.numpy.save_file(tensors, directory / "model.safetensors", {"format": "pt"})


def main():
    directory = pathlib.Path(sys.argv[1])
    save(directory / "dense", model(1, SHAPES | KEPT))
    save(directory / "experts", model(2, STACKED | KEPT), "GptOssForCausalLM", "gpt_oss")
    (directory / "mixed.json").write_text(json.dumps(MIXED))


main()
