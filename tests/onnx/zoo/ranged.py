# Small variants of the zoo's networks with an open batch, and what PyTorch makes of them at several sizes.
# SPDX-License-Identifier: Apache-2.0
"""usage: ranged.py FOLDER SIZE,... NAME...     writes FOLDER/NAME/model.onnx and, for each batch, FOLDER/NAME/SIZE/inputs/NAME.npy and .../outputs/NAME.npy

The model is exported for a batch of 3 whose size is open, by the name "batch".
"""
import os
import sys
import warnings

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import export  # noqa: E402
import language  # noqa: E402
import small  # noqa: E402
import vision  # noqa: E402


class Patches(vision.VisionTransformer):
    """The vision transformer, narrow and of two layers, on images of 32 x 32."""

    def __init__(self):
        nn.Module.__init__(self)
        self.patches, self.first = nn.Conv2d(3, 32, 8, 8), nn.Parameter(torch.randn(1, 1, 32))
        self.places = nn.Parameter(0.02 * torch.randn(1, 17, 32))
        self.body = nn.Sequential(*(vision.VisionLayer(32, 4) for _ in range(2)), nn.LayerNorm(32, eps=1e-6))
        self.head = nn.Linear(32, 10)


class Flat(nn.Module):
    """Reshapes as people write them: -1, a size that is read, Flatten."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(24, 12), nn.Linear(12, 5)

    def forward(self, x):
        y = torch.relu(self.a(x.reshape(-1, 24))).view(x.shape[0], 3, 4)
        return self.b(torch.flatten(y, 1)) + torch.zeros(x.shape[0], 5)


def models(batch):
    def image(size):
        return {"image": torch.randn(batch, 3, size, size)}

    ids = torch.randint(0, 50, (batch, 12))
    mask = (torch.arange(12)[None] < torch.arange(12, 12 - batch, -1).clamp(min=3)[:, None]).to(torch.int64)
    past = {f"past_{i}": torch.randn(2, batch, 4, 6, 8) for i in range(2)}
    return {
        "flat": (Flat, {"x": torch.randn(batch, 4, 6)}, ["y"]),
        "cnn": (next(make for name, make, *_ in small.models(1) if name == "cnn"), image(64), ["y"]),
        "resnet18": (lambda: vision.ResNet(vision.Basic, (2, 2, 2, 2)), image(64), ["logits"]),
        "mobilenet_v2": (vision.MobileNetV2, image(64), ["logits"]),
        "vit": (Patches, image(32), ["logits"]),
        "bert": (lambda: language.Bert(50, 32, 2, 4), {"ids": ids, "mask": mask, "kinds": ids % 2}, ["places", "pooled"]),
        "gpt2": (lambda: language.Gpt2(50, 32, 2, 4), {"ids": ids[:, :5], **past}, ["logits", "present_0", "present_1"]),
        "lstm": (lambda: language.Tagger(nn.LSTM, 50, 8, 16, 5), {"ids": ids}, ["tags"]),
    }


def save(folder, tensors):
    os.makedirs(folder)
    for name, tensor in tensors.items():
        np.save(os.path.join(folder, name + ".npy"), tensor.detach().numpy())


def write(folder, wanted, sizes):
    os.makedirs(folder)
    torch.manual_seed(7)
    make, inputs, outputs = models(3)[wanted]
    module = export.settled(make())
    with torch.no_grad():
        made = module(*inputs.values())
    made = made if isinstance(made, tuple) else (made,)
    axes = {name: {tensor.shape.index(3): "batch"} for name, tensor in [*inputs.items(), *zip(outputs, made)]}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs.values()), os.path.join(folder, "model.onnx"), input_names=list(inputs), output_names=outputs,
                          opset_version=16, dynamic_axes=axes)
    for size in sizes:
        torch.manual_seed(size)
        inputs = models(size)[wanted][1]
        with torch.no_grad():
            made = module(*inputs.values())
        save(os.path.join(folder, str(size), "inputs"), inputs)
        save(os.path.join(folder, str(size), "outputs"), dict(zip(outputs, made if isinstance(made, tuple) else (made,))))


if __name__ == "__main__":
    for name in sys.argv[3:]:
        write(os.path.join(sys.argv[1], name), name, [int(n) for n in sys.argv[2].split(",")])
