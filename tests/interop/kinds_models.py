# SPDX-License-Identifier: MIT
"""
Small random models in the kinds that makers publish: kinds_models.py DIRECTORY makes DIRECTORY/NAME for each, as its files are,
and DIRECTORY/NAME.plain, the same model with the numbers that they stand for in F32. compressed-tensors and MLX make the bytes
of their own kinds; those of the others are random codes and scales in the places where the loaders look for them.
"""
import json
import pathlib
import re
import sys
import warnings

import torch
import transformers

import checks
from families import auto_class
from kinds_numbers import E2M1, E4M3, F64, blocks, bytes_of, cells, e4m3, e8m0, nibbles, rounded, save, six_bits, spread
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# ---- random codes and scales
def any_codes(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def any_e4m3(*shape):
    codes = any_codes(*shape)
    codes[codes & 127 == 127] -= 1
    return codes.view(torch.float8_e4m3fn)


def any_e8m0(*shape):
    return torch.randint(115, 128, shape, dtype=torch.uint8)


def any_numbers(*shape, dtype=torch.float32):
    return (torch.rand(shape) * 0.02 + 0.001).to(dtype)


# ---- how one matrix is stored: (module, rows, cols) -> what is in the file, the numbers
def fp8(block, dtype, suffix, shape=None):
    """FP8 with a scale for each block, (0, 0) for all of the matrix, (1, 0) for a row."""
    def encode(module, rows, cols):
        size = (block[0] or rows, block[1] or cols)
        grid = cells(rows, cols, size)
        codes = any_e4m3(rows, cols)
        scales = any_e8m0(*grid) if dtype in (torch.uint8, torch.float8_e8m0fnu) else any_numbers(*grid, dtype=dtype)
        powers = e8m0(scales) if scales.dtype == torch.uint8 else scales.to(F64)
        numbers = rounded(e4m3(codes) * spread(powers, rows, cols, size))
        stored = scales.view(dtype) if scales.dtype == torch.uint8 else scales
        if shape is not None:
            stored = stored.reshape([grid[i] if i is not None and i >= 0 else 1 for i in shape])
        return {module + "weight": codes, module + suffix: stored}, numbers
    return encode


def fp4(dtype, suffix, scale_dtype=torch.float8_e8m0fnu):
    def encode(module, rows, cols):
        codes, scales = any_codes(rows, cols // 2), any_e8m0(rows, cols // 32)
        numbers = blocks(nibbles(codes), e8m0(scales), 32)
        return {module + "weight": codes.view(dtype), module + suffix: scales.view(scale_dtype)}, numbers
    return encode


def any_positive_e4m3(*shape):
    return torch.randint(8, 127, shape, dtype=torch.uint8)


def nvfp4_modelopt(module, rows, cols):
    """With pre_quant_scale, as NVFP4_AWQ has it."""
    codes, scales = any_codes(rows, cols // 2), any_positive_e4m3(rows, cols // 16)
    factor, smooth = any_numbers(), any_numbers(cols, dtype=torch.bfloat16)
    numbers = rounded(nibbles(codes) * e4m3(scales).repeat_interleave(16, -1) * factor.to(F64))
    return {module + "weight": codes, module + "weight_scale": scales.view(torch.float8_e4m3fn), module + "weight_scale_2": factor,
            module + "pre_quant_scale": smooth}, rounded(numbers.to(F64) * smooth.to(F64))


def nvfp4_ct(module, rows, cols):
    codes, scales = any_codes(rows, cols // 2), any_positive_e4m3(rows, cols // 16)
    divisor = torch.tensor([float(torch.randint(1000, 60000, ()))]) / 7
    numbers = rounded(nibbles(codes) * e4m3(scales).repeat_interleave(16, -1) / divisor.to(F64))
    return {module + "weight_packed": codes, module + "weight_scale": scales.view(torch.float8_e4m3fn),
            module + "weight_global_scale": divisor}, numbers


# ---- models
BASE = {"vocab_size": 128, "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 64, "intermediate_size": 384, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
        "max_position_embeddings": 256}
LATENT = BASE | {"num_key_value_heads": 4, "moe_intermediate_size": 256, "q_lora_rank": 128, "kv_lora_rank": 256,
                 "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 64, "n_routed_experts": 4,
                 "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1}
V4 = {k: v for k, v in BASE.items() if k not in ("intermediate_size", "num_key_value_heads")} | {
    "num_key_value_heads": 1, "moe_intermediate_size": 256, "q_lora_rank": 128, "o_groups": 2, "o_lora_rank": 128,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "index_n_heads": 4, "index_head_dim": 64, "num_nextn_predict_layers": 0,
    "layer_types": ["heavily_compressed_attention", "compressed_sparse_attention"], "mlp_layer_types": ["moe", "moe"]}
M3 = BASE | {"intermediate_size": 256, "dense_intermediate_size": 384, "shared_intermediate_size": 256, "num_local_experts": 4,
             "num_experts_per_tok": 2, "rotary_dim": 32, "mlp_layer_types": ["dense", "sparse"], "index_n_heads": 2, "index_head_dim": 64}
M3_TOWER = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "image_size": 56, "patch_size": 14}
PIXTRAL = {"model_type": "pixtral", "head_dim": 16, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
           "num_attention_heads": 4, "image_size": 56, "patch_size": 14}
GPT_OSS = BASE | {"intermediate_size": 256, "num_local_experts": 4, "num_experts_per_tok": 2}
EXPERTS = BASE | {"moe_intermediate_size": 128, "num_experts": 4, "num_experts_per_tok": 2}
MODELS = {
    "llama": ("llama", BASE),
    "qwen3": ("qwen3", BASE),
    "qwen3-moe": ("qwen3_moe", EXPERTS),
    "deepseek-v3": ("deepseek_v3", LATENT),
    "deepseek-v3-192": ("deepseek_v3", LATENT | {"kv_lora_rank": 128}),
    "deepseek-v4": ("deepseek_v4", V4),
    "minimax-m3": ("minimax_m3_vl", {"text_config": M3, "vision_config": M3_TOWER, "projector_hidden_size": 256}),
    "mistral-large-4": ("mistral_large4", {"text_config": LATENT | {"index_head_dim": 64, "index_n_heads": 2},
                                           "vision_config": PIXTRAL}),
    "gpt-oss": ("gpt_oss", GPT_OSS),
}
# Keys that published files have, and llama.cpp's converter asks for, but transformers does not write.
ALSO = {"deepseek-v4": {"num_hash_layers": 0, "compress_ratios": [128, 4]},
        "qwen3-moe": {"rope_theta": 10000.0, "num_experts": 4},
        "minimax-m3": {"text_config": {"n_shared_experts": 1, "moe_layer_freq": [0, 1], "sparse_attention_config": {
            "sparse_attention_freq": [0, 0], "sparse_num_index_heads": 2, "sparse_index_dim": 64, "sparse_topk_blocks": 16,
            "sparse_block_size": 128, "sparse_local_block": 1}}}}
# Matrices that makers quantize, by their names in files.
QUANTIZED = re.compile(r"(_proj|_proj_with_mqa|\.w[123]|\.wq(_[ab])?|\.wkv(_\w+)?|\.wo(_[ab])?)\.weight$")
KEPT = re.compile(r"vision|multi_modal|patch_merge|weights_proj|compressor|index")


def make_model(directory, name):
    """config.json and the tensors of a small model, as transformers writes them."""
    torch.manual_seed(5)
    kind, values = MODELS[name]
    config = CONFIG_MAPPING[kind](**values)
    model = auto_class(config).from_config(config).to(torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.05)
    model.save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    for key, value in ALSO.get(name, {}).items():
        config[key] = config[key] | value if isinstance(value, dict) else value
    tensors = checks.load(directory)
    if name == "deepseek-v4":  # the rest of the way to its files' names
        for theirs, ours in (("model.", ""), ("embed_tokens.", "embed."), ("hc_head.hc_", "hc_head_")):
            tensors = {ours + n.removeprefix(theirs) if n.startswith(theirs) else n: t for n, t in tensors.items()}
        tensors = {n.replace("attn.norm.", "attn.kv_norm."): t for n, t in tensors.items()}
    return config, tensors


def make_v41():
    """DeepSeek-V4.1, which transformers does not have, by the names that mlx-lm looks for, with neither Engram nor compressed keys."""
    torch.manual_seed(5)
    text = V4 | {"model_type": "deepseek_v41_text", "qk_rope_head_dim": 32, "compress_ratios": [0, 0], "kv_source_layer_ids": [],
                 "index_source_layer_ids": [], "hc_mult": 4, "n_shared_experts": 1}
    for key in ("layer_types", "mlp_layer_types"):
        del text[key]
    hidden, head, heads, inner = text["hidden_size"], text["head_dim"], text["num_attention_heads"], text["moe_intermediate_size"]
    shapes = {"embed.weight": (128, hidden), "head.weight": (128, hidden), "norm.weight": (hidden,)}
    for layer in ("layers.0.", "layers.1."):
        for name, shape in {
                "attn.wq_a": (128, hidden), "attn.q_norm": (128,), "attn.wq_b": (heads * head, 128), "attn.wkv": (head, hidden),
                "attn.kv_norm": (head,),
                "attn.wo_a": (2 * 128, heads * head // 2), "attn.wo_b": (hidden, 2 * 128), "attn_norm": (hidden,), "ffn_norm": (hidden,),
                "ffn.gate": (4, hidden)}.items():
            shapes[f"{layer}{name}.weight"] = shape
        for hyper in ("attn", "ffn"):
            for part, shape in {"fn": (24, 4 * hidden), "base": (24,), "scale": (3,)}.items():
                shapes[f"{layer}hc_{hyper}_{part}"] = shape
        for module in [f"experts.{e}" for e in range(4)] + ["shared_experts"]:
            for part, shape in {"w1": (inner, hidden), "w2": (hidden, inner), "w3": (inner, hidden)}.items():
                shapes[f"{layer}ffn.{module}.{part}.weight"] = shape
        shapes |= {layer + "attn.attn_sink": (heads,), layer + "ffn.gate.bias": (4,)}
    config = {"architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "text_config": text}
    return config, {name: torch.randn(shape) * 0.05 for name, shape in shapes.items()}


def make_kimi_k3():
    """Kimi-K3, which transformers does not have either, with latent attention in all layers."""
    torch.manual_seed(5)
    text = {k: v for k, v in BASE.items() if k != "head_dim"} | {
        "model_type": "kimi_linear", "num_key_value_heads": 4, "q_lora_rank": 128, "kv_lora_rank": 128, "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 64, "v_head_dim": 64, "mla_use_nope": True, "mla_use_output_gate": True, "num_experts": 4,
        "num_experts_per_token": 2, "num_shared_experts": 1, "moe_intermediate_size": 128, "first_k_dense_replace": 1,
        "routed_expert_hidden_size": 128, "latent_moe_use_norm": True, "hidden_act": "situ", "activation_situ_beta": 4.0,
        "activation_situ_linear_beta": 4.0, "attn_res_block_size": 2, "rms_norm_eps": 1e-5, "routed_scaling_factor": 1.0,
        "moe_renormalize": True, "moe_router_activation_func": "sigmoid", "rope_theta": 10000.0, "linear_attn_config": {
            "full_attn_layers": [1, 2], "kda_layers": [], "num_heads": 4, "head_dim": 64, "short_conv_kernel_size": 4}}
    shapes = {"lm_head": (128, 256), "model.embed_tokens": (128, 256), "model.norm": (256,), "model.output_attn_res_proj": (1, 256),
              "model.output_attn_res_norm": (256,)}
    mlp = {"gate_proj": (1, 0), "up_proj": (1, 0), "down_proj": (0, 1)}
    for layer in ("model.layers.0.", "model.layers.1."):
        shapes |= {layer + name: shape for name, shape in {
            "self_attn.q_a_proj": (128, 256), "self_attn.q_a_layernorm": (128,), "self_attn.q_b_proj": (512, 128),
            "self_attn.kv_a_proj_with_mqa": (192, 256), "self_attn.kv_a_layernorm": (128,), "self_attn.kv_b_proj": (512, 128),
            "self_attn.o_proj": (256, 256), "self_attn.g_proj": (256, 256), "input_layernorm": (256,), "post_attention_layernorm": (256,),
            "self_attention_res_proj": (1, 256), "self_attention_res_norm": (256,), "mlp_res_proj": (1, 256), "mlp_res_norm": (256,)}.items()}
    for part, order in mlp.items():
        shapes[f"model.layers.0.mlp.{part}"] = tuple((256, 384)[i] for i in order)
        shapes[f"model.layers.1.block_sparse_moe.shared_experts.{part}"] = tuple((256, 128)[i] for i in order)
    moe = "model.layers.1.block_sparse_moe."
    shapes |= {moe + "gate": (4, 256), moe + "routed_expert_down_proj": (128, 256), moe + "routed_expert_up_proj": (256, 128),
               moe + "routed_expert_norm": (128,)} | {f"{moe}experts.{e}.w{i}": (128, 128) for e in range(4) for i in (1, 2, 3)}
    tensors = {f"language_model.{name}.weight": torch.randn(shape) * 0.05 for name, shape in shapes.items()}
    tensors[f"language_model.{moe}gate.e_score_correction_bias"] = torch.randn(4)
    config = {"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", "text_config": text}
    return config, tensors


def quantized(name):
    return QUANTIZED.search(name) and not KEPT.search(name)


def encode_all(tensors, choose):
    """What is in the file, and the numbers: choose(name) is how a matrix is stored, or None."""
    stored, numbers = {}, {}
    for name, tensor in tensors.items():
        encode = choose(name) if quantized(name) and tensor.dim() == 2 else None
        if encode is None:
            stored[name] = numbers[name] = tensor
            continue
        parts, numbers[name] = encode(name.removesuffix("weight"), *tensor.shape)
        stored |= parts
    return stored, numbers


def fp8_section(block, **more):
    return {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": block} | more


E8M0 = torch.float8_e8m0fnu
is_expert = lambda name: ".experts." in name
SQUARES = fp8((128, 128), torch.float32, "weight_scale_inv")
# Kinds whose bytes are made here: model, how a matrix is stored by its name, quantization_config.
RANDOM = {
    "fp8-f32": ("deepseek-v3", lambda n: SQUARES, fp8_section([128, 128])),
    "fp8-192": ("deepseek-v3-192", lambda n: SQUARES, fp8_section([128, 128])),
    "fp8-bf16": ("qwen3", lambda n: fp8((128, 128), torch.bfloat16, "weight_scale_inv"), fp8_section([128, 128])),
    "fp4-e8m0": ("deepseek-v4", lambda n: fp4(torch.int8, "scale") if is_expert(n) else fp8((128, 128), E8M0, "scale"),
                 fp8_section([128, 128], scale_fmt="ue8m0")),
    "v41": ("deepseek-v41", lambda n: fp4(torch.int8, "scale") if is_expert(n) else fp8((32, 32), E8M0, "scale"),
            fp8_section([32, 32], scale_fmt="ue8m0", expert_dtype="fp4")),
    "mxfp8-u8": ("minimax-m3", lambda n: fp8((1, 32), torch.uint8, "weight_scale_inv"),
                 {"quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32], "scale_fmt": "ue8m0",
                  "ignored_layers": ["vision_tower", "multi_modal_projector", "patch_merge_mlp", "lm_head"]}),
    "fp8-other-block": ("deepseek-v4", lambda n: fp4(torch.int8, "scale") if is_expert(n) else fp8((1, 32), E8M0, "scale"),
                        fp8_section([128, 128], scale_fmt="ue8m0")),
    "qscale": ("mistral-large-4", lambda n: fp8((0, 0), torch.float32, "qscale_weight", []),
               {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None}),
    "fbgemm": ("llama", lambda n: fp8((1, 0), torch.float32, "weight_scale"),
               {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"]}),
    "modelopt-awq": ("qwen3", lambda n: nvfp4_modelopt if re.search(r"(o|down)_proj", n) else None, {
        "quant_method": "modelopt", "quant_algo": "NVFP4_AWQ", "producer": {"name": "modelopt", "version": "0.47.0"},
        "ignore": ["lm_head", "*.q_proj", "*.k_proj", "*.v_proj", "*.gate_proj", "*.up_proj"]}),
    "m31": ("minimax-m3", lambda n: nvfp4_ct if is_expert(n) else fp8((1, 32), torch.uint8, "weight_scale_inv"),
            {"quant_method": "minimax_m3_nvfp4", "activation_scheme": "dynamic", "weight_block_size": [1, 32],
             "ignored_layers": ["vision_tower", "multi_modal_projector", "patch_merge_mlp", "lm_head"],
             "kv_cache_quant_algo": "FP8", "index_k_quant_type": "nvfp4", "attention_quant_algo": "FP8", "group_size": 16}),
}


def make_random(directory, models):
    for name, (model, choose, section) in RANDOM.items():
        torch.manual_seed(6)
        config, tensors = models[model]
        stored, numbers = encode_all(tensors, choose)
        section = dict(section)
        if model == "deepseek-v4":
            config = config | {"expert_dtype": "fp4"}
        save(directory / name, config | {"quantization_config": section}, stored)
        save(directory / f"{name}.plain", config, numbers)


# ---- compressed-tensors
def make_compressed_tensors(directory, models):
    from compressed_tensors.compressors import BaseCompressor, ModelCompressor
    from compressed_tensors.config import CompressionFormat
    from compressed_tensors.quantization import QuantizationConfig, preset_name_to_scheme
    from compressed_tensors.quantization.utils import calculate_qparams
    from layout_compressed_tensors import compress

    def ranges(weight, args):
        """The least and the largest weight of each channel, block, or of all."""
        if args.strategy == "channel":
            parts = weight
        elif args.strategy == "block":
            rows, cols = args.block_structure
            grid = cells(*weight.shape, (rows, cols))
            parts = torch.zeros(grid[0] * rows, grid[1] * cols)
            parts[:weight.shape[0], :weight.shape[1]] = weight
            parts = parts.unflatten(1, (grid[1], cols)).unflatten(0, (grid[0], rows)).transpose(1, 2).flatten(2)
            return parts.amin(-1), parts.amax(-1)
        else:
            return weight.amin().reshape(1), weight.amax().reshape(1)
        return parts.amin(-1, keepdim=True), parts.amax(-1, keepdim=True)

    def scheme_of(preset, strategy, targets):
        scheme = preset_name_to_scheme(preset, targets)
        if strategy is not None:
            scheme = type(scheme).model_validate(scheme.model_dump() | {"weights": scheme.weights.model_dump() | {
                "strategy": strategy, "block_structure": [128, 128] if strategy == "block" else None, "group_size": None,
                "dynamic": False}})
        scheme.format = CompressionFormat({"MXFP4A16": "mxfp4-pack-quantized", "MXFP6A16": "mxfp6-pack-quantized",
                                           "MXFP8A16": "mxfp8-quantized", "NVFP4A16": "nvfp4-pack-quantized"}.get(preset, "float-quantized"))
        return scheme

    def decode(state, scheme):
        form = scheme.format.value
        if form == "float-quantized":
            codes, scales = e4m3(state["weight"]), state["weight_scale"].to(F64)
            rows, cols = codes.shape
            if scheme.weights.strategy == "block":
                scales = spread(scales, rows, cols, (128, 128))
            return rounded(codes * scales.reshape(-1, 1) if scheme.weights.strategy == "channel" else codes * scales)
        scales = state["weight_scale"]
        if form == "nvfp4-pack-quantized":
            numbers = nibbles(state["weight_packed"]) * e4m3(scales).repeat_interleave(16, -1)
            return rounded(numbers / state["weight_global_scale"].to(F64))
        codes = {"mxfp4-pack-quantized": lambda: nibbles(state["weight_packed"]), "mxfp6-pack-quantized": lambda: six_bits(state["weight_packed"]),
                 "mxfp8-quantized": lambda: e4m3(state["weight"])}[form]()
        return blocks(codes, e8m0(scales), 32)

    def make(name, groups, form, model="qwen3"):
        config, tensors = models[model]
        stored, numbers, schemes = {}, {}, [scheme_of(*group) for group in groups]
        for tensor, weight in tensors.items():
            scheme = next((s for s in schemes if quantized(tensor) and any(
                t == "Linear" or re.match(t.removeprefix("re:"), tensor) for t in s.targets)), None)
            if scheme is None:
                stored[tensor] = numbers[tensor] = weight
                continue
            if scheme.format.value == "float-quantized":
                state = {"weight": weight}
                state["weight_scale"], _ = calculate_qparams(*ranges(weight, scheme.weights), scheme.weights)
            else:
                state = compress(weight, scheme)
            state = BaseCompressor.get_value_from_registry(scheme.format.value).compress(state, scheme)
            state = {part: t.detach() for part, t in state.items()}
            stored |= {tensor.removesuffix("weight") + part: t for part, t in state.items()}
            numbers[tensor] = decode(state, scheme)
        save(directory / name, config, stored)
        parsed = QuantizationConfig(config_groups={f"group_{i}": s for i, s in enumerate(schemes)}, format=form,
                                    quantization_status="compressed", ignore=["lm_head", "re:.*mlp.gate$"])
        ModelCompressor(quantization_config=parsed).update_config(directory / name)
        save(directory / f"{name}.plain", config, numbers)

    for name, preset in {"ct-mxfp4": "MXFP4A16", "ct-mxfp6": "MXFP6A16", "ct-mxfp8": "MXFP8A16", "ct-nvfp4": "NVFP4A16"}.items():
        scheme = scheme_of(preset, None, ["Linear"])
        make(name, [(preset, None, ["Linear"])], scheme.format.value)
        if name != "ct-mxfp6":
            make(f"{name}-experts", [(preset, None, ["Linear"])], scheme.format.value, "qwen3-moe")
    make("ct-mxfp4-k3", [("MXFP4A16", None, ["re:.*block_sparse_moe[.]experts.*"])], "mxfp4-pack-quantized", "kimi-k3")
    for strategy in ("tensor", "channel", "block"):
        make(f"ct-fp8-{strategy}", [("FP8_DYNAMIC", strategy, ["Linear"])], "float-quantized")
    make("ct-mixed", [("FP8_DYNAMIC", "channel", ["re:.*self_attn.*"]), ("NVFP4A16", None, ["re:.*mlp.*"])], "mixed-precision")


# ---- MLX
def make_mlx(directory, models):
    import mlx.core as mx
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model
    for mode, (length, bits) in {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}.items():
        target = directory / f"mlx-{mode}"
        config, tensors = models["qwen3"]
        model, loaded = load_model(directory / "source.qwen3")
        choose = lambda path, module: hasattr(module, "to_quantized") and bool(quantized(path + ".weight"))
        model, loaded = quantize_model(model, loaded, length, bits, mode=mode, quant_predicate=choose)
        target.mkdir()
        save_model(target, model)
        save_config(loaded, target / "config.json")
        state, numbers = checks.load(target), dict(tensors)
        for name in (n for n in state if n.endswith(".scales")):
            words, scales = state[name.removesuffix("scales") + "weight"], state[name]
            codes = e4m3(bytes_of(words)) if bits == 8 else nibbles(bytes_of(words))
            numbers[name.removesuffix("scales") + "weight"] = blocks(codes, e4m3(scales) if mode == "nvfp4" else e8m0(scales), length)
        save(directory / f"mlx-{mode}.plain", config, numbers)


# ---- gpt-oss
def make_gpt_oss(directory, models):
    config, tensors = models["gpt-oss"]
    stored, numbers = dict(tensors), dict(tensors)
    for name in [n for n in tensors if re.search(r"experts\.(gate_up|down)_proj$", n)]:
        experts, cols, rows = tensors[name].shape
        codes, scales = any_codes(experts, rows, cols // 32, 16), any_e8m0(experts, rows, cols // 32)
        numbers[name] = blocks(nibbles(codes.flatten(-2)), e8m0(scales), 32).transpose(1, 2)
        del stored[name]
        stored |= {name + "_blocks": codes, name + "_scales": scales}
    section = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    save(directory / "gpt-oss", config | {"quantization_config": section}, stored)
    save(directory / "gpt-oss.plain", config, numbers)


# ---- GGUF
def make_gguf(directory, models):
    """The blocks of ggml: llama.cpp's converter makes the file of F32, and matrices become blocks."""
    import gguf
    import numpy
    import kinds

    def q8_0(numbers):
        data = gguf.quants.quantize(numbers, gguf.GGMLQuantizationType.Q8_0)
        parts = torch.from_numpy(data).unflatten(-1, (-1, 34))
        scales = torch.from_numpy(parts[..., :2].numpy().copy().view(numpy.float16)).to(F64)
        return data, rounded(parts[..., 2:].view(torch.int8).to(F64) * scales).flatten(-2)

    def mxfp4(numbers):
        rows, cols = numbers.shape
        parts = torch.cat((any_e8m0(rows, cols // 32, 1), any_codes(rows, cols // 32, 16)), -1)
        codes = torch.cat((E2M1[(parts[..., 1:] & 15).long()], E2M1[(parts[..., 1:] >> 4).long()]), -1)
        return parts.flatten(-2).numpy(), rounded(codes * e8m0(parts[..., :1])).flatten(-2)

    def nvfp4(numbers):
        rows, cols = numbers.shape
        parts = torch.cat((any_positive_e4m3(rows, cols // 64, 4), any_codes(rows, cols // 64, 32)), -1)
        bytes_ = parts[..., 4:].unflatten(-1, (4, 8))
        codes = torch.cat((E2M1[(bytes_ & 15).long()], E2M1[(bytes_ >> 4).long()]), -1)
        return parts.flatten(-2).numpy(), rounded(codes * E4M3[parts[..., :4].long()].unsqueeze(-1)).flatten(-3)

    plain = directory / "source.gguf"
    kinds.write_gguf(directory / "source.llama", plain)
    for name, encode in {"Q8_0": q8_0, "MXFP4": mxfp4, "NVFP4": nvfp4}.items():
        kind = gguf.GGMLQuantizationType[name]
        torch.manual_seed(6)
        pair = [(directory / f"gguf-{name.lower()}{end}") for end in ("", ".plain")]
        reader = gguf.GGUFReader(plain)
        writers = []
        for place in pair:
            place.mkdir()
            writer = gguf.GGUFWriter(place / "model.gguf", "llama")
            for field in reader.fields.values():
                if not field.name.startswith("GGUF.") and field.name != "general.architecture":
                    writer.add_key_value(field.name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
            writers.append(writer)
        for tensor in reader.tensors:
            if re.search(r"(attn_[qkvo]\w*|ffn_\w+)\.weight$", tensor.name) and "norm" not in tensor.name:
                data, numbers = encode(tensor.data)
                writers[0].add_tensor(tensor.name, data, raw_dtype=kind)
                writers[1].add_tensor(tensor.name, numbers.numpy())
            else:
                for writer in writers:
                    writer.add_tensor(tensor.name, tensor.data)
        for writer in writers:
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()


def main():
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    directory = pathlib.Path(sys.argv[1])
    models = {name: make_model(directory / f"source.{name}", name) for name in MODELS} | {"deepseek-v41": make_v41(), "kimi-k3": make_kimi_k3()}
    make_random(directory, models)
    make_compressed_tensors(directory, models)
    make_mlx(directory, models)
    make_gpt_oss(directory, models)
    make_gguf(directory, models)
    print(f"{len(list(directory.glob('*.plain')))} models made, 0 failures")


if __name__ == "__main__":
    main()
