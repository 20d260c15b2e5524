# Models as PyTorch exports them, with inputs and what PyTorch makes of these. Random weights of a fixed seed.
# SPDX-License-Identifier: Apache-2.0
"""usage: export.py FOLDER NAME BATCH        writes FOLDER/model.onnx, inputs/NAME.npy and outputs/NAME.npy there
       export.py --list                   every name, the small ones first

With a batch above 1 the model's first sizes are open, by the name "batch".
"""
import itertools
import os
import sys
import warnings

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import language  # noqa: E402
import small  # noqa: E402
import vision  # noqa: E402

# Parameters in millions, as the papers and PyTorch's own collection give them.
PARAMETERS = {"resnet18": 11.69, "resnet50": 25.56, "mobilenet_v2": 3.50, "mobilenet_v3": 5.48, "efficientnet_b0": 5.29, "densenet121": 7.98,
              "vit_b16": 86.57, "swin_t": 28.29, "unet": 31.04, "bert_base": 109.48, "gpt2": 124.44, "t5_encoder": 35.33,
              "t5_decoder": 41.63}  # fmt: skip


def models(batch):
    return itertools.chain(small.models(batch), vision.models(batch), language.models(batch))


def settled(module):
    """Statistics and norms as training leaves them, not as it finds them: else whole stages would compute nothing."""
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.normal_(0, 0.1), part.running_var.uniform_(0.5, 1.5), part.weight.uniform_(0.8, 1.6), part.bias.normal_(0, 0.1)
    return module.eval()


def write(folder, wanted, batch):
    torch.manual_seed(5)
    make, inputs, outputs = next((make, inputs, outputs) for name, make, inputs, outputs in models(batch) if name == wanted)
    torch.manual_seed(7)
    module = settled(make())
    millions = sum(p.numel() for p in module.parameters()) / 1e6
    if abs(millions - PARAMETERS.get(wanted, millions)) > 0.006:
        sys.exit(f"{wanted} has {millions:.2f} million parameters, not {PARAMETERS[wanted]}")
    with torch.no_grad():
        made = module(*inputs.values())
    made = made if isinstance(made, tuple) else (made,)
    axes = None
    if batch > 1:
        named = [*inputs.items(), *zip(outputs, made)]
        axes = {name: {tensor.shape.index(batch): "batch"} for name, tensor in named}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs.values()), os.path.join(folder, "model.onnx"), input_names=list(inputs), output_names=outputs,
                          opset_version=16, dynamic_axes=axes)
    for kind, values in (("inputs", inputs), ("outputs", dict(zip(outputs, made)))):
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
        for name, tensor in values.items():
            np.save(os.path.join(folder, kind, name + ".npy"), tensor.detach().numpy())


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(*(name for name, *_ in models(1)))
    else:
        write(sys.argv[1], sys.argv[2], int(sys.argv[3]))
