# SPDX-License-Identifier: MIT
"""
Small random models as transformers writes them, one of each family whose tensors have names and shapes of their own:
families.py DIRECTORY makes family.NAME there. loaded.py loads what mxfp made of them.
"""
import pathlib
import sys

import torch
import transformers
from transformers import (GPT2Config, GptOssConfig, Llama4TextConfig, LlamaConfig, MixtralConfig, NemotronHConfig, Qwen3MoeConfig,
                          WhisperConfig)

LLAMA = {"vocab_size": 128, "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "num_experts_per_tok": 2}
WHISPER = {"vocab_size": 128, "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "max_source_positions": 16,
           "max_target_positions": 32, "num_mel_bins": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
           "decoder_start_token_id": 1}
NEMOTRON = {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 4, "hybrid_override_pattern": "M*E-",
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96,
            "mamba_num_heads": 4, "mamba_head_dim": 32, "ssm_state_size": 16, "n_groups": 1, "n_routed_experts": 4,
            "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 32, "num_experts_per_tok": 2}
# down_proj of gpt-oss is square: nothing but its product tells which way round it is.
FAMILIES = {
    "gpt2": lambda: GPT2Config(vocab_size=128, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
                               eos_token_id=2),
    "gpt-oss": lambda: GptOssConfig(**LLAMA, intermediate_size=64, num_local_experts=4),
    "llama4": lambda: Llama4TextConfig(**LLAMA | {"num_experts_per_tok": 1}, intermediate_size=96,
                                       intermediate_size_mlp=96, num_local_experts=4),
    # Without experts, of which LLAMA has the number that a token takes.
    "llama": lambda: LlamaConfig(**{key: LLAMA[key] for key in LLAMA if "experts" not in key}, intermediate_size=96),
    "mixtral": lambda: MixtralConfig(**LLAMA, intermediate_size=96, num_local_experts=4),
    "qwen3-moe": lambda: Qwen3MoeConfig(**LLAMA, intermediate_size=96, moe_intermediate_size=32, num_experts=4),
    "nemotron-h": lambda: NemotronHConfig(**NEMOTRON),
    "whisper": lambda: WhisperConfig(**WHISPER),
}


def main():
    transformers.utils.logging.set_verbosity_error()
    for name, config in FAMILIES.items():
        torch.manual_seed(5)
        kind = transformers.AutoModelForSpeechSeq2Seq if name == "whisper" else transformers.AutoModelForCausalLM
        model = kind.from_config(config()).to(torch.bfloat16)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.3)
        model.save_pretrained(pathlib.Path(sys.argv[1]) / f"family.{name}")
    print(f"{len(FAMILIES)} models made by transformers, 0 failures")


main()
