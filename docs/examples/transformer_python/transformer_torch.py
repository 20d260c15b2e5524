# The same transformer in PyTorch.
import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, TOKENS, LENGTH, BATCH = 6, 4, 64, 32, 16, 8


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.mix = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1), persistent=False)

    def heads(self, x):
        return x.reshape(-1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (self.heads(f(h)) for f in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5 + self.mask, -1)
        x = x + self.mix((weights @ v).transpose(1, 2).reshape(-1, LENGTH, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def training_step(model, optimizer, tokens, labels):
    loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
