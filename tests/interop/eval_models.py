# SPDX-License-Identifier: MIT
"""
Small random models, one of each family that mxfp eval runs, and what transformers computes with them:
eval_models.py DIRECTORY [NAME...] makes NAME/ there with config.json, model.safetensors, tokens.json (one sequence) and
logits.npy ([tokens but one][vocabulary] in binary32, computed with attention and experts in plain operations). It prints
what binary32 costs transformers itself: how far the same model in binary64 is.
"""
import contextlib
import json
import pathlib
import sys

import numpy
import safetensors.torch
import torch
import transformers
from transformers import (GptOssConfig, LlamaConfig, MistralConfig, MixtralConfig, Qwen2Config, Qwen2MoeConfig,
                          Qwen3Config, Qwen3MoeConfig)

TOKENS = 512  # that are predicted from
BASE = {"vocab_size": 288, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 1024, "bos_token_id": 1, "eos_token_id": 2}
# Of head_dim / 2 = 16 frequencies, some are kept, some divided, some between.
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 256}
YARN = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "truncate": False, "original_max_position_embeddings": 256}
GPT_OSS = BASE | {"hidden_size": 96, "intermediate_size": 64, "num_hidden_layers": 4, "head_dim": 32,
                  "sliding_window": 48, "num_local_experts": 8, "num_experts_per_tok": 4, "rope_parameters": YARN}

FAMILIES = {
    "llama2": lambda: LlamaConfig(**BASE | {"num_key_value_heads": 4}, rms_norm_eps=1e-5),
    "llama3": lambda: LlamaConfig(**BASE | {"num_attention_heads": 8}, head_dim=32, tie_word_embeddings=True,
                                  rope_parameters=LLAMA3),
    "llama-bias": lambda: LlamaConfig(**BASE, attention_bias=True, mlp_bias=True),
    "mistral": lambda: MistralConfig(**BASE | {"num_hidden_layers": 3}, head_dim=32, sliding_window=100,
                                     rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "qwen2": lambda: Qwen2Config(**BASE | {"vocab_size": 512, "hidden_size": 128}, tie_word_embeddings=True,
                                 rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "qwen2-window": lambda: Qwen2Config(**BASE | {"num_hidden_layers": 3}, use_sliding_window=True, sliding_window=75,
                                        max_window_layers=1),
    "qwen3": lambda: Qwen3Config(**BASE | {"num_hidden_layers": 4}, head_dim=32),
    "mixtral": lambda: MixtralConfig(**BASE | {"intermediate_size": 96}, num_local_experts=8),
    "qwen2-moe": lambda: Qwen2MoeConfig(**BASE | {"num_hidden_layers": 3}, num_experts=8, num_experts_per_tok=3,
                                        moe_intermediate_size=64, shared_expert_intermediate_size=96),
    "qwen3-moe": lambda: Qwen3MoeConfig(**BASE, head_dim=32, num_experts=16, num_experts_per_tok=4,
                                        moe_intermediate_size=64, norm_topk_prob=True),
    "qwen3-moe-dense": lambda: Qwen3MoeConfig(**BASE | {"num_hidden_layers": 4}, head_dim=16, num_experts=8,
                                              num_experts_per_tok=2, moe_intermediate_size=96, mlp_only_layers=[2],
                                              norm_topk_prob=False),
    "gpt-oss": lambda: GptOssConfig(**GPT_OSS | {"rope_parameters": YARN | {"truncate": True}}),
    "gpt-oss-mxfp4": lambda: GptOssConfig(**GPT_OSS),
    "llama3-bf16": lambda: LlamaConfig(**BASE, rope_parameters=LLAMA3),
}
# Families whose config.json is written as checkpoints of before transformers 5 have it.
FORMER = ("llama3", "mistral", "gpt-oss-mxfp4")


def spread(name, parameter, tied):
    """The mean and the standard deviation with which each number of a model counts in its logits."""
    if name.endswith("sinks"):
        return 3.0, 1.5  # against up to 512 keys
    if "norm" in name:
        return 1.0, 0.2
    if name.endswith("bias"):
        return 0.0, 0.4
    if "embed_tokens" in name:
        return 0.0, 0.15 if tied else 0.6
    if "gate_up_proj" in name:
        return 0.0, 0.3  # beyond the limit of gpt-oss now and then
    return 0.0, 0.8 * parameter.shape[-1] ** -0.5


@torch.no_grad()
def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        mean, deviation = spread(name, parameter, model.config.tie_word_embeddings)
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation + mean)


def former_config(directory):
    """rope_theta and rope_scaling instead of rope_parameters, torch_dtype instead of dtype."""
    path = directory / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config, indent=2) + "\n")


def mxfp4_experts(directory, seed):
    """The experts as OpenAI's release stores them: blocks of 32 along the inputs, two codes a byte. Returns their values."""
    generator = torch.Generator().manual_seed(seed)
    path = directory / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    exact = {}
    for name in sorted(tensors):
        tensor = tensors[name]
        if not name.endswith(("gate_up_proj", "down_proj")):
            tensors[name] = tensor.bfloat16().contiguous()
            exact[name] = tensors[name].float()
            continue
        experts, inputs, outputs = tensor.shape
        del tensors[name]
        blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), generator=generator, dtype=torch.uint8)
        least = 127 - 5 if name.endswith("gate_up_proj") else 127 - 7
        scales = torch.randint(least, least + 3, (experts, outputs, inputs // 32), generator=generator,
                               dtype=torch.uint8)
        tensors[name + "_blocks"], tensors[name + "_scales"] = blocks, scales
        e2m1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
        codes = torch.stack((blocks & 15, blocks >> 4), -1).reshape(experts, outputs, inputs // 32, 32)
        values = torch.ldexp(e2m1[codes.long()], (scales.int() - 127)[..., None])
        exact[name] = values.reshape(experts, outputs, inputs).transpose(1, 2).contiguous()
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["torch_dtype"] = "bfloat16"
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return exact


@contextlib.contextmanager
def binary64():
    """What transformers computes in binary32 whatever the model's dtype - norms, angles, softmax - in binary64."""
    kept = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept


@torch.no_grad()
def logits(model, tokens):
    return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy()


def error(actual, expected):
    return numpy.abs(actual.astype(numpy.float64) - expected).max() / numpy.abs(expected).max()


def make(directory, name, config, seed):
    model = transformers.AutoModelForCausalLM.from_config(config)
    randomize(model, seed)
    if name.endswith("bf16"):
        model = model.bfloat16()
    model.save_pretrained(directory)
    if name in FORMER:
        former_config(directory)
    options = {"dtype": torch.float32, "attn_implementation": "eager", "experts_implementation": "eager"}
    if name.endswith("mxfp4"):
        exact = mxfp4_experts(directory, seed + 1)
        options["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    # What is read back from the files counts.
    model, info = transformers.AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True, **options)
    model.eval()
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(what), (name, what, info[what])
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters()), name
    if name.endswith("mxfp4"):
        for key, parameter in model.named_parameters():
            assert torch.equal(parameter, exact[key]), key
    tokens = numpy.random.default_rng(seed).integers(0, config.vocab_size, TOKENS + 1).tolist()
    (directory / "tokens.json").write_text(json.dumps(tokens) + "\n")
    tokens.pop()
    ours = logits(model, tokens)
    assert ours.dtype == numpy.float32 and numpy.isfinite(ours).all()
    numpy.save(directory / "logits.npy", ours)
    with binary64():
        wide = logits(model.double(), tokens)
        # Frequencies in binary64 too.
        rotary = type(model.model.rotary_emb)(model.config)
        model.model.rotary_emb = rotary.double()
        exact = logits(model, tokens)
    print(f"{name}: largest logit {numpy.abs(ours).max():.2f}, deviation {ours.std():.3f}; "
          f"binary32 off by {error(ours, wide):.1e}, with its frequencies {error(ours, exact):.1e}")


def main():
    directory = pathlib.Path(sys.argv[1])
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    names = sys.argv[2:] or FAMILIES
    for seed, (name, config) in enumerate(FAMILIES.items()):
        if name in names:
            make(directory / name, name, config(), 100 + seed)
    print(f"{len(names)} models run by transformers, 0 failures")


main()
