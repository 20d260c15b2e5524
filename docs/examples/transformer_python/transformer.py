# A transformer of 6 layers that predicts the next token, and its training step.
import numpy as np

import opc
from opc import init, ops

LAYERS, HEADS, WIDTH, TOKENS, LENGTH, BATCH = 6, 4, 64, 32, 16, 8


def linear(x, name, size):
    g = x.graph
    w = g.variable(name + ".weight", (x.shape[-1], size), init=init.normal(std=0.02))
    return x @ w + g.variable(name + ".bias", (size,), init=0)


def norm(x, name):
    g = x.graph
    gamma, beta = g.variable(name + ".weight", (WIDTH,), init=1), g.variable(name + ".bias", (WIDTH,), init=0)
    return ops.layer_norm(x, beta, gamma, center=True, scale=True, begin_norm_axis=2, begin_params_axis=2, epsilon=1e-5).y


def heads(x):
    return x.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)


def layer(x):
    h = norm(x, "norm1")
    q, k, v = (heads(linear(h, name, WIDTH)) for name in ("query", "key", "value"))
    mixed = ops.scaled_dot_product_attention(q, k, v, causal=True).out
    x = x + linear(mixed.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH), "mix", WIDTH)
    return x + linear(ops.gelu(linear(norm(x, "norm2"), "up", 4 * WIDTH)), "down", WIDTH)


def build():
    g = opc.Graph("transformer")
    tokens = g.input("tokens", (BATCH, LENGTH), "i32")
    labels = g.input("labels", (BATCH, LENGTH), "i32")
    table = g.variable("tokens.weight", (TOKENS, WIDTH), init=init.normal(std=0.02))
    places = g.variable("places.weight", (LENGTH, WIDTH), init=init.normal(std=0.02))
    x = ops.embedding(table, tokens) + places
    for i in range(LAYERS):
        with opc.name_scope(f"layer{i}"):
            x = layer(x)
    logits = g.output("logits", linear(norm(x, "norm"), "head", TOKENS))
    g.output("loss", ops.sparse_softmax_cross_entropy(logits, labels).out.mean())
    return g


def data(count=64):  # each token is the sum of the two before it
    x = np.random.default_rng(0).integers(0, TOKENS, (count, LENGTH + 1)).astype("i4")
    for i in range(2, LENGTH + 1):
        x[:, i] = (x[:, i - 1] + x[:, i - 2]) % TOKENS
    return {"tokens": np.ascontiguousarray(x[:, :-1]), "labels": np.ascontiguousarray(x[:, 1:])}


if __name__ == "__main__":
    step = build().training_step("loss", opc.optim.AdamW(1e-3, weight_decay=0.01))
    run = opc.train(step, data(), epochs=5, shuffle=True, seed=7, save="transformer.safetensors")
    print(f"loss {run.history[0]['loss']:.3f} -> {run.history[-1]['loss']:.3f}")
