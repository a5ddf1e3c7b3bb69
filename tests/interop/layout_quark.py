# SPDX-License-Identifier: MIT
"""
The layout of AMD Quark, by its own quantizer, export and import.

Its arithmetic: codes and E8M0 scales become F32 and are multiplied, which is exact.
"""
import safetensors.torch
import torch
import transformers
from quark.torch import ModelQuantizer, export_safetensors, import_model_from_safetensors
from quark.torch.export.nn.modules.qparamslinear import QParamsLinear
from quark.torch.quantization import OCP_MXFP4Spec, QConfig, QLayerConfig

from checks import check, load, same, skeleton


class Plain(transformers.PreTrainedModel):
    """What Quark takes for a model: the modules of a skeleton."""

    config_class = transformers.PretrainedConfig

    def __init__(self, root):
        super().__init__(transformers.PretrainedConfig())
        for name, module in root.named_children():
            self.add_module(name, module)
        self.post_init()


def without_bias(tensors):
    return {name: tensor for name, tensor in tensors.items() if not name.endswith("bias")}


def imported(directory, source):
    """The weights of all layers after Quark's import, quantized ones decoded; and how many were."""
    model = import_model_from_safetensors(Plain(skeleton(source)), str(directory))
    decoded = {name: tensor for name, tensor in model.state_dict().items() if "quantizer" not in name}
    layers = {name: module for name, module in model.named_modules() if isinstance(module, QParamsLinear)}
    for name, module in layers.items():
        decoded.pop(name + ".weight_scale", None)
        decoded[name + ".weight"] = module._get_qweight(module.weight).detach()
    return decoded, len(layers)


def ours(directory):
    source = without_bias(load(directory / "dense"))
    for model in ("quark", "quark-relaid"):
        expected = without_bias(load(directory / f"{model}.f32"))
        decoded, count = imported(directory / model, source)
        check(f"{model}: {count} layers are quantized", count == 8)
        check(f"{model}: names of tensors", set(decoded) == set(expected), set(decoded) ^ set(expected))
        for name in set(decoded) & set(expected):
            same(f"{model}: {name}", decoded[name].to(expected[name].dtype), expected[name])


def theirs(directory):
    source = without_bias(load(directory / "dense"))
    model = Plain(skeleton(source))
    model.load_state_dict(source, assign=True)
    weights = OCP_MXFP4Spec(ch_axis=-1, is_dynamic=False).to_quantization_spec()
    settings = QConfig(global_quant_config=QLayerConfig(weight=weights), exclude=["lm_head"])
    model = ModelQuantizer.freeze(ModelQuantizer(settings).quantize_model(model))
    target = directory / "theirs.quark.f32"
    export_safetensors(model, str(target))
    decoded, _ = imported(target, source)
    decoded = {name: tensor.contiguous() for name, tensor in decoded.items()}
    safetensors.torch.save_file(decoded, f"{target}.expected.safetensors")
