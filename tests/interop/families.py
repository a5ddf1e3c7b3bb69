# SPDX-License-Identifier: MIT
"""
Small random models as transformers writes them, one of each family whose tensors have names and shapes of their own:
families.py DIRECTORY makes family.NAME there, and fused.NAME of the same numbers with experts in one tensor; DIRECTORY/families
lists those that loaded.py loads from what mxfp made of them, a line "loads NAME" each, or "each NAME" with experts one each.
"""
import json
import pathlib
import shutil
import sys
import warnings

import safetensors.torch
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import checks

BASE = {"vocab_size": 128, "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "intermediate_size": 96, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MOE = BASE | {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = BASE | {"num_key_value_heads": 4, "moe_intermediate_size": 32, "q_lora_rank": 32, "kv_lora_rank": 32,
                 "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 4,
                 "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
         "layer_types": ["linear_attention", "full_attention"]}
SHARED = MOE | DELTA | {"num_experts": 4, "shared_expert_intermediate_size": 32}
NEMOTRON = {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 4, "hybrid_override_pattern": "M*E-",
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96,
            "mamba_num_heads": 4, "mamba_head_dim": 32, "ssm_state_size": 16, "n_groups": 1, "n_routed_experts": 4,
            "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 32, "num_experts_per_tok": 2}
WHISPER = {"vocab_size": 128, "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "max_source_positions": 16,
           "max_target_positions": 32, "num_mel_bins": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
           "decoder_start_token_id": 1}
TOWER = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 8,
         "patch_size": 4}
QWEN_TOWER = {"depth": 2, "hidden_size": 64, "num_heads": 4, "intermediate_size": 96, "out_hidden_size": 64, "patch_size": 4}
MROPE = {"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}}

# NAME: model_type and what config.json says. down_proj of gpt-oss is square: nothing but its product tells which way
# round it is.
FAMILIES = {
    "llama": ("llama", BASE),
    "qwen3": ("qwen3", BASE),
    "gemma3": ("gemma3_text", BASE | {"layer_types": ["sliding_attention", "full_attention"]}),
    "qwen3-moe": ("qwen3_moe", MOE | {"num_experts": 4}),
    "qwen3-next": ("qwen3_next", SHARED),
    "qwen3-5": ("qwen3_5_text", BASE | DELTA),
    "qwen3-5-moe": ("qwen3_5_moe_text", SHARED),
    "mixtral": ("mixtral", BASE | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "minimax-m2": ("minimax_m2", BASE | {"num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 16}),
    "deepseek-v3": ("deepseek_v3", LATENT),
    "glm4-moe": ("glm4_moe", MOE | {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
                                    "n_shared_experts": 1}),
    "lfm2-moe": ("lfm2_moe", MOE | {"num_experts": 4, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1}),
    "jamba": ("jamba", BASE | {"num_experts": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False,
                               "mamba_d_state": 16, "mamba_dt_rank": 32}),
    "nemotron-h": ("nemotron_h", NEMOTRON),
    "gpt-oss": ("gpt_oss", BASE | {"intermediate_size": 64, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "llama4": ("llama4_text", BASE | {"intermediate_size_mlp": 96, "num_local_experts": 4, "num_experts_per_tok": 1}),
    "whisper": ("whisper", WHISPER),
    "llava": ("llava", {"text_config": {"model_type": "llama"} | BASE,
                        "vision_config": {"model_type": "clip_vision_model", "projection_dim": 64} | TOWER,
                        "image_token_index": 5}),
    "gemma3-images": ("gemma3", {"text_config": BASE | {"layer_types": ["sliding_attention", "full_attention"]},
                                 "vision_config": TOWER}),
    "qwen2-5-vl": ("qwen2_5_vl", {"text_config": BASE | MROPE,
                                  "vision_config": QWEN_TOWER | {"fullatt_block_indexes": [1], "window_size": 16}}),
    "gpt2": ("gpt2", {"vocab_size": 128, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1,
                      "eos_token_id": 2}),
    "mamba": ("mamba", {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16,
                        "time_step_rank": 32}),
}
NOT_LOADED = ("gpt2", "mamba")
EACH = ("qwen3-moe", "qwen3-next", "qwen3-5-moe", "mixtral", "minimax-m2", "deepseek-v3", "glm4-moe", "lfm2-moe", "jamba",
        "nemotron-h")
FUSED = ("qwen3-moe", "qwen3-5-moe")


def auto_class(config):
    if config.model_type == "whisper":
        return transformers.AutoModelForSpeechSeq2Seq
    images = hasattr(config, "vision_config")
    return transformers.AutoModelForImageTextToText if images else transformers.AutoModelForCausalLM


def make(directory, kind, values):
    torch.manual_seed(5)
    config = CONFIG_MAPPING[kind](**values)
    model = auto_class(config).from_config(config).to(torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(directory)


def fuse(source, directory):
    """The same with all experts of a layer in one tensor, as the files of Qwen3.5-MoE have them: gate above up."""
    shutil.copytree(source, directory)
    tensors = checks.load(source)
    names = [name for name in tensors if ".experts.0." in name]
    for module in sorted({name.split(".experts.0.")[0] for name in names}):
        n = sum(f"{module}.experts.{e}.down_proj.weight" in tensors for e in range(64))
        take = lambda part, e: tensors.pop(f"{module}.experts.{e}.{part}.weight")
        gate_up = [torch.cat([take("gate_proj", e), take("up_proj", e)]) for e in range(n)]
        tensors[f"{module}.experts.gate_up_proj"] = torch.stack(gate_up)
        tensors[f"{module}.experts.down_proj"] = torch.stack([take("down_proj", e) for e in range(n)])
    safetensors.torch.save_file(tensors, directory / "model.safetensors", {"format": "pt"})


def main():
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    directory = pathlib.Path(sys.argv[1])
    for name, (kind, values) in FAMILIES.items():
        make(directory / f"family.{name}", kind, values)
    for name in FUSED:
        fuse(directory / f"family.{name}", directory / f"fused.{name}")
    (directory / "families").write_text("".join(f"{'each' if name in EACH else 'loads'} {name}\n" for name in FAMILIES if name not in NOT_LOADED))
    print(f"{len(FAMILIES)} models made by transformers {transformers.__version__}, 0 failures")


if __name__ == "__main__":
    main()
