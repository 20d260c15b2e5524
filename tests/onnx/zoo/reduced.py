# The zoo's networks with a few numbers each and a loss: as PyTorch exports them, and its gradients of every parameter.
# SPDX-License-Identifier: Apache-2.0
"""usage: reduced.py FOLDER        writes FOLDER/NAME/model.onnx, inputs.npz and gradients.npz (by the parameter's name, and "loss") for every network"""
import os
import sys
import warnings

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import export  # noqa: E402
import language  # noqa: E402
import ranged  # noqa: E402
import small  # noqa: E402
import vision  # noqa: E402


class Dense(vision.DenseNet121):
    """Four blocks of two layers, the last of one."""

    def __init__(self, growth=4, classes=5):
        nn.Module.__init__(self)
        self.first, at = vision.convolution(3, 8, 3, 1, act=nn.ReLU), 8
        self.blocks, self.between = nn.ModuleList(), nn.ModuleList()
        for stage in range(4):
            layers = nn.ModuleList()
            for _ in range(2 if stage < 3 else 1):
                layers.append(nn.Sequential(nn.BatchNorm2d(at), nn.ReLU(), nn.Conv2d(at, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                                            nn.Conv2d(8, growth, 3, padding=1, bias=False)))
                at += growth
            self.blocks.append(layers)
            if stage < 3:
                self.between.append(nn.Sequential(nn.BatchNorm2d(at), nn.ReLU(), nn.Conv2d(at, at // 2, 1, bias=False), nn.AvgPool2d(2)))
                at //= 2
        self.norm, self.head = nn.BatchNorm2d(at), nn.Linear(at, classes)


class Windows(nn.Module):
    """Two layers of windows, the second one's shifted, and a merging."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 2, 2)
        self.body = nn.Sequential(vision.WindowLayer(8, 2, 14, 0), vision.WindowLayer(8, 2, 14, 3), vision.Merging(8))

    def forward(self, x):
        return self.body(self.patches(x).permute(0, 2, 3, 1)).mean([1, 2])


def lively(module):
    """The same with weights by which deep layers count as much as the others, and SiLU for ReLU: its many kinks lie near one another."""
    for name, part in module.named_children():
        if isinstance(part, nn.ReLU):
            setattr(module, name, nn.SiLU())
        if isinstance(part, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.kaiming_normal_(part.weight)
        lively(part)
    return module


class Loss(nn.Module):
    """The sum of all outputs, each number times one that stands for its place."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, *inputs):
        made = self.network(*inputs)
        total = 0
        for y in made if isinstance(made, tuple) else (made,):
            total = total + (y * torch.sin(torch.arange(y.numel(), dtype=torch.float32)).reshape(y.shape)).sum()
        return total


def models():
    """Name -> what makes the module, and its inputs by name."""

    def image(size):
        return {"image": torch.randn(2, 3, size, size)}

    def head(channels, classes=5):
        return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)

    v = vision
    ids, mask = torch.randint(0, 20, (2, 6)), torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    return {
        "mlp": (lambda: nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 5)), {"x": torch.randn(3, 20)}),
        "resnet": (lambda: nn.Sequential(v.convolution(3, 8, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1), v.Basic(8, 8, 1), v.Bottleneck(8, 4, 2), *head(16)),
                   image(24)),
        "mobilenet_v2": (lambda: nn.Sequential(v.convolution(3, 8, 3, 2, act=nn.ReLU6), v.Inverted(8, 24, 8, 3, 1, nn.ReLU6), v.Inverted(8, 24, 12, 3, 2, nn.ReLU6),
                                               *head(12)), image(16)),
        "mobilenet_v3": (lambda: nn.Sequential(v.convolution(3, 8, 3, 2, act=nn.Hardswish), v.Inverted(
            8, 16, 8, 5, 1, nn.Hardswish, lambda c: v.Excitation(c, 8, nn.ReLU, nn.Hardsigmoid)), *head(8)), image(16)),
        "efficientnet": (lambda: nn.Sequential(v.convolution(3, 8, 3, 2, act=nn.SiLU), v.Inverted(
            8, 24, 8, 3, 1, nn.SiLU, lambda c: v.Excitation(c, 4, nn.SiLU, nn.Sigmoid)), *head(8)), image(16)),
        "densenet": (Dense, image(16)),
        "vit": (ranged.Patches, image(32)),
        "swin": (Windows, image(28)),
        "unet": (lambda: lively(v.UNet(width=2)), image(16)),
        "encoder": (lambda: small.Layer(16, 4), {"x": torch.randn(2, 5, 16)}),
        "bert": (lambda: language.Bert(20, 16, 1, 2), {"ids": ids, "mask": mask, "kinds": ids % 2}),
        "gpt2": (lambda: language.Gpt2(20, 16, 1, 2), {"ids": ids, "past": torch.randn(2, 2, 2, 3, 8)}),
        "t5_encoder": (lambda: language.T5(False, 20, 16, 1, 2), {"ids": ids, "mask": mask}),
        "t5_decoder": (lambda: language.T5(True, 20, 16, 1, 2), {"ids": ids, "mask": mask, "memory": torch.randn(2, 6, 16)}),
        "lstm": (lambda: language.Tagger(nn.LSTM, 20, 4, 6, 3), {"ids": ids}),
        "gru": (lambda: language.Tagger(nn.GRU, 20, 4, 6, 3), {"ids": ids}),
    }


def write(folder, make, inputs):
    torch.manual_seed(7)
    module = Loss(export.settled(make()).eval())
    loss = module(*inputs.values())
    loss.backward()
    os.makedirs(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Neither folded nor joined with what is beside them: parameters keep their names.
        torch.onnx.export(module, tuple(inputs.values()), os.path.join(folder, "model.onnx"), input_names=list(inputs), output_names=["loss"],
                          opset_version=16, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    np.savez(os.path.join(folder, "inputs.npz"), **{name: x.numpy() for name, x in inputs.items()})
    gradients = {name: p.grad.numpy() for name, p in module.named_parameters() if p.grad is not None}
    np.savez(os.path.join(folder, "gradients.npz"), loss=loss.detach().numpy(), **gradients)


if __name__ == "__main__":
    torch.manual_seed(5)
    for name_, (make_, inputs_) in models().items():
        write(os.path.join(sys.argv[1], name_), make_, inputs_)
