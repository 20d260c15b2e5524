# Networks for texts at their published sizes, as plain modules of PyTorch with random weights.
# SPDX-License-Identifier: Apache-2.0
"""Sizes and orders of layers are those of the papers that each class names. Ids are i64[batch, length]."""
import math

import torch
from torch import nn
from torch.nn import functional as F


def split(x, heads):
    """[batch, length, width] as [batch, heads, length, width / heads]."""
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm, self.last = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        q, k, v = (split(layer(x), self.heads) for layer in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1)
        x = self.norm(x + self.out(joined(weights @ v)))
        return self.last(x + self.narrow(F.gelu(self.wide(x))))


class Bert(nn.Module):
    """Devlin et al. 2018, base: places and a pooled sentence."""

    def __init__(self, words=30522, width=768, layers=12, heads=12):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(words, width), nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm, self.layers = nn.LayerNorm(width, eps=1e-12), nn.ModuleList(BertLayer(width, heads) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, ids, mask, kinds):
        at = torch.arange(ids.shape[1], device=ids.device)[None]
        x = self.norm(self.words(ids) + self.places(at) + self.kinds(kinds))
        hidden = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(torch.float32).min
        for layer in self.layers:
            x = layer(x, hidden)
        return x, torch.tanh(self.pool(x[:, 0]))


class GptLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.before, self.norm = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out, self.wide, self.narrow = (nn.Linear(width, n * width) if n != 0 else nn.Linear(4 * width, width) for n in (3, 1, 4, 0))

    def forward(self, x, past, mask):
        """`past` is [2, batch, heads, length, size]: keys and values of what was read before."""
        q, k, v = (split(part, self.heads) for part in self.qkv(self.before(x)).chunk(3, -1))
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        lowest = torch.full([], torch.finfo(x.dtype).min, dtype=x.dtype)
        weights = torch.softmax(torch.where(mask, q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), lowest), -1)
        x = x + self.out(joined(weights @ v))
        return x + self.narrow(F.gelu(self.wide(self.norm(x)), approximate="tanh")), torch.stack([k, v])


class Gpt2(nn.Module):
    """Radford et al. 2019, small: logits, and the keys and values that the next call reads."""

    def __init__(self, words=50257, width=768, layers=12, heads=12):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.layers, self.norm = nn.ModuleList(GptLayer(width, heads) for _ in range(layers)), nn.LayerNorm(width)

    def forward(self, ids, *past):
        before, length = past[0].shape[3], ids.shape[1]
        at = torch.arange(before, before + length)
        mask = torch.arange(before + length)[None, :] <= at[:, None]
        x, present = self.words(ids) + self.places(at), []
        for layer, kept in zip(self.layers, past):
            x, now = layer(x, kept, mask)
            present.append(now)
        return (self.norm(x) @ self.words.weight.t(), *present)


class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class T5Attention(nn.Module):
    """Not scaled and without biases; places count by their distance alone."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, Rms(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        nn.init.normal_(self.q.weight, std=width**-0.5 / (width // heads) ** 0.5)

    def forward(self, x, bias, memory=None):
        y = self.norm(x)
        q, k, v = split(self.q(y), self.heads), *(split(layer(y if memory is None else memory), self.heads) for layer in (self.k, self.v))
        return x + self.out(joined(torch.softmax(q @ k.transpose(-1, -2) + bias, -1) @ v))


class T5Feed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.narrow = Rms(width), nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return x + self.narrow(F.relu(self.wide(self.norm(x))))


class T5(nn.Module):
    """Raffel et al. 2019, small: the encoder, or the decoder with the encoder's memory."""

    def __init__(self, decoder, words=32128, width=512, layers=6, heads=8):
        super().__init__()
        self.decoder, self.words, self.distances, self.norm = decoder, nn.Embedding(words, width), nn.Embedding(32, heads), Rms(width)
        self.attention, self.feed = (nn.ModuleList(made(width, *more) for _ in range(layers)) for made, more in ((T5Attention, (heads,)), (T5Feed, ())))
        self.crossed = nn.ModuleList(T5Attention(width, heads) for _ in range(layers if decoder else 0))

    def bias(self, length):
        """A number for each head and distance: 32 buckets, the nearest exact, the others by logarithm up to 128."""
        apart = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        buckets, first = 32, 0
        if self.decoder:
            apart = torch.clamp(-apart, min=0)
        else:
            buckets, first, apart = 16, (apart > 0).to(torch.int64) * 16, torch.abs(apart)
        exact = buckets // 2
        far = exact + (torch.log(torch.clamp(apart, min=1).float() / exact) / math.log(128 / exact) * (buckets - exact)).to(torch.int64)
        index = first + torch.where(apart < exact, apart, torch.clamp(far, max=buckets - 1))
        return self.distances(index).permute(2, 0, 1)[None]

    def forward(self, ids, mask, memory=None):
        lowest = torch.finfo(torch.float32).min
        x, bias, read = self.words(ids), self.bias(ids.shape[1]), (1.0 - mask[:, None, None, :].to(torch.float32)) * lowest
        if self.decoder:
            at = torch.arange(ids.shape[1])
            bias = bias + (at[None, :] > at[:, None]).to(torch.float32) * lowest
        else:
            bias = bias + read
        for i, (attention, feed) in enumerate(zip(self.attention, self.feed)):
            x = attention(x, bias)
            x = feed(self.crossed[i](x, read, memory) if self.decoder else x)
        x = self.norm(x)
        return x * 512**-0.5 @ self.words.weight.t() if self.decoder else x


class Tagger(nn.Module):
    """Huang et al. 2015 without its last layer: two layers in both directions, and a class for each word."""

    def __init__(self, kind, words=10000, width=128, hidden=256, tags=17):
        super().__init__()
        self.words, self.body = nn.Embedding(words, width), kind(width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(2 * hidden, tags)

    def forward(self, ids):
        return self.tags(self.body(self.words(ids))[0])


def models(batch):
    """Name, module, inputs by name, names of outputs."""

    def ids(words, length):
        return torch.randint(0, words, (batch, length))

    def mask(length):
        return (torch.arange(length)[None] < torch.arange(length, length - 7 * batch, -7)[:, None]).to(torch.int64)

    kinds = (torch.arange(64) > 20).to(torch.int64).repeat(batch, 1)
    yield "bert_base", Bert, {"ids": ids(30522, 64), "mask": mask(64), "kinds": kinds}, ["places", "pooled"]
    past = {f"past_{i}": torch.randn(2, batch, 12, 24, 64) for i in range(12)}
    yield "gpt2", Gpt2, {"ids": ids(50257, 8), **past}, ["logits", *(f"present_{i}" for i in range(12))]
    yield "t5_encoder", lambda: T5(False), {"ids": ids(32128, 48), "mask": mask(48)}, ["memory"]
    yield "t5_decoder", lambda: T5(True), {"ids": ids(32128, 16), "mask": mask(48), "memory": torch.randn(batch, 48, 512)}, ["logits"]
    yield "lstm_tagger", lambda: Tagger(nn.LSTM), {"ids": ids(10000, 32)}, ["tags"]
    yield "gru_tagger", lambda: Tagger(nn.GRU), {"ids": ids(10000, 32)}, ["tags"]
