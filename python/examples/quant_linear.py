# SPDX-License-Identifier: MIT
"""Linear layers of torch with quantized weights: QuantLinear to infer, FakeQuantLinear to train with."""

import torch

import mxfp


class QuantLinear(torch.nn.Module):
    """A layer whose weights are quantized, and whose inputs are on the way: W4A8 unless said otherwise."""

    def __init__(self, linear, format="mxfp4", a_format="mxfp8", **options):
        super().__init__()
        self.a_format = a_format
        self.weight = mxfp.quantize(linear.weight.detach(), format, **options)
        self.packed = mxfp.pack(self.weight, a_format=a_format)
        self.bias = None if linear.bias is None else linear.bias.detach().float()

    def forward(self, x):
        return mxfp.gemm(x, self.packed, a_format=self.a_format, bias=self.bias)


class StraightThrough(torch.autograd.Function):
    """Fake quantization whose gradient passes, of clamped numbers too: a block's scale follows its largest."""

    @staticmethod
    def forward(context, x, format, options):
        return mxfp.fake_quantize(x, format, **options)

    @staticmethod
    def backward(context, gradient):
        return gradient, None, None


class FakeQuantLinear(torch.nn.Linear):
    """A layer that trains with weights and inputs as QuantLinear has them."""

    def __init__(self, *arguments, format="mxfp4", a_format="mxfp8", **named):
        super().__init__(*arguments, **named)
        self.format, self.a_format = format, a_format

    def forward(self, x):
        w = StraightThrough.apply(self.weight, self.format, {})
        return torch.nn.functional.linear(StraightThrough.apply(x, self.a_format, {}), w, self.bias)


def quantize_layers(model, **options):
    """Replaces all torch.nn.Linear in a model by QuantLinear."""
    for name, child in model.named_children():
        if type(child) is torch.nn.Linear:
            setattr(model, name, QuantLinear(child, **options))
        else:
            quantize_layers(child, **options)
    return model


def main():
    torch.manual_seed(0)
    teacher = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    student = torch.nn.Sequential(FakeQuantLinear(64, 128), torch.nn.ReLU(), FakeQuantLinear(128, 8))
    student.load_state_dict(teacher.state_dict())
    x = torch.randn(512, 64)
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-5)

    @torch.no_grad()
    def loss(model):
        return float((model(x) - teacher(x)).square().mean())

    print(f"quantized after training:  mean squared error {loss(quantize_layers(torch.nn.Sequential(*teacher))):.5f}")
    for _ in range(200):
        optimizer.zero_grad()
        (student(x) - teacher(x).detach()).square().mean().backward()
        optimizer.step()
    print(f"trained with quantization: mean squared error {loss(quantize_layers(plain(student))):.5f}")


def plain(model):
    """A copy of a model of FakeQuantLinear with plain layers."""
    layers = []
    for layer in model:
        if isinstance(layer, FakeQuantLinear):
            copy = torch.nn.Linear(layer.in_features, layer.out_features)
            copy.load_state_dict(layer.state_dict())
            layers.append(copy)
        else:
            layers.append(layer)
    return torch.nn.Sequential(*layers)


if __name__ == "__main__":
    main()
