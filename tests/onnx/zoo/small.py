# Small networks, for tests that run on every change.
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels):
        super().__init__()
        self.a, self.b = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.na, self.nb = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.nb(self.b(torch.relu(self.na(self.a(x))))))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1) @ v
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class Layer(nn.Module):
    """A layer of a transformer's encoder."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.norm, self.last = Attention(width, heads), nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = self.norm(x + self.attention(x))
        return self.last(x + self.feed(x))


def models(batch):
    """Name, what makes the module, inputs by name, names of outputs."""
    yield "mlp", lambda: nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), {"x": torch.randn(batch, 784)}, ["y"]
    yield "cnn", lambda: nn.Sequential(nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(), Block(32), Block(32),
                                       nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), Block(64), nn.AdaptiveAvgPool2d(1),
                                       nn.Flatten(), nn.Linear(64, 10)), {"x": torch.randn(batch, 3, 64, 64)}, ["y"]
    yield "encoder", lambda: nn.Sequential(*(Layer(128, 4) for _ in range(4))), {"x": torch.randn(batch, 64, 128)}, ["y"]
