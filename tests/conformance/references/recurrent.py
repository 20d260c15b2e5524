# References of the recurrent layers: the formulas step by step in PyTorch's f64, and their gradients by its autograd.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from .table import reference

USUAL = {"rnn": ["Tanh"], "gru": ["Sigmoid", "Tanh"], "lstm": ["Sigmoid", "Tanh", "Tanh"]}
# alpha and beta where none are given, None for functions that have none. ONNX's attributes are f32.
CONSTANTS = {"Affine": (1.0, 0.0), "LeakyRelu": (float(np.float32(0.01)), None), "ThresholdedRelu": (1.0, None), "ScaledTanh": (1.0, 1.0),
             "HardSigmoid": (float(np.float32(0.2)), 0.5), "Elu": (1.0, None)}


def function(name, a, b):
    import torch
    import torch.nn.functional as F

    return {"Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Relu": torch.relu, "Affine": lambda x: a * x + b,
            "LeakyRelu": lambda x: F.leaky_relu(x, a), "ThresholdedRelu": lambda x: torch.where(x < a, torch.zeros_like(x), x),
            "ScaledTanh": lambda x: a * torch.tanh(b * x), "HardSigmoid": lambda x: torch.clamp(a * x + b, 0, 1),
            "Elu": lambda x: F.elu(x, a), "Softsign": F.softsign, "Softplus": lambda x: torch.log1p(torch.exp(x))}[name]


def functions_of(c, kind, directions):
    names = c.attr("activations") or USUAL[kind] * directions
    alphas, betas, made = list(c.attr("activation_alpha")), list(c.attr("activation_beta")), []
    for name in names:
        a, b = CONSTANTS.get(name, (None, None))
        a = float(np.float32(alphas.pop(0))) if a is not None and alphas else a
        b = float(np.float32(betas.pop(0))) if b is not None and betas else b
        f = function(name, a, b)
        clip = c.attr("clip")
        made.append((lambda f: lambda x: f(x.clamp(-clip, clip)))(f) if clip else f)
    count = len(names) // directions
    return [made[d * count:(d + 1) * count] for d in range(directions)]


def cell(c, kind, f, x, h, state, w, r, bias, peephole):
    """One step of one sequence: the new hidden state and cell."""
    n = h.shape[0]
    wx, rh = w @ x, r @ h
    bw, br = bias[:len(wx)], bias[len(wx):]
    if kind == "rnn":
        return f[0](wx + rh + bw + br), state
    if kind == "gru":
        z, reset = (f[0]((wx + rh + bw + br)[k * n:(k + 1) * n]) for k in (0, 1))
        if c.attr("linear_before_reset"):
            inner = reset * (rh + br)[2 * n:]
        else:
            inner = r[2 * n:] @ (reset * h) + br[2 * n:]
        return (1 - z) * f[1]((wx + bw)[2 * n:] + inner) + z * h, state
    i, o, forget, g = (wx + rh + bw + br).split(n)
    pi, po, pf = peephole.split(n)
    i = f[0](i + pi * state)
    forget = 1 - i if c.attr("input_forget") else f[0](forget + pf * state)
    state = forget * state + i * f[1](g)
    return f[0](o + po * state) * f[2](state), state


def layer(c, kind, t, given=None):
    """The outputs from the tensors `t`; with `given` the state before a step has the value of that y's row, and the gradient of its own."""
    import torch

    first = c.attr("batch_first")
    x = t["x"].transpose(0, 1) if first else t["x"]
    steps, batch, _ = x.shape
    directions, columns, n = t["recurrence"].shape
    states = [t.get(k) for k in ("initial_h", "initial_c")]
    states = [torch.zeros(directions, batch, n, dtype=x.dtype) if s is None else s.transpose(0, 1) if first else s for s in states]
    lengths = c.get("lengths") if c.has("lengths") else [steps] * batch
    bias = t.get("bias", torch.zeros(directions, 2 * columns, dtype=x.dtype))
    peephole = t.get("peephole", torch.zeros(directions, 3 * n, dtype=x.dtype))
    if given is not None and first:
        given = given.permute(1, 2, 0, 3)
    rows = [[[torch.zeros(n, dtype=x.dtype)] * batch for _ in range(directions)] for _ in range(steps)]
    last = [[[None] * batch for _ in range(directions)] for _ in range(2)]
    functions = functions_of(c, kind, directions)
    for d in range(directions):
        back = d == 1 or c.attr("direction") == "reverse"
        for b in range(batch):
            h, state = states[0][d, b], states[1][d, b]
            order = range(int(lengths[b]))
            for at in reversed(order) if back else order:
                h, state = cell(c, kind, functions[d], x[at, b], h, state, t["weight"][d], t["recurrence"][d], bias[d], peephole[d])
                rows[at][d][b] = h
                if given is not None:
                    h = given[at, d, b] + (h - h.detach())
            last[0][d][b], last[1][d][b] = rows[at][d][b] if len(order) else h, state
    stack = lambda many: torch.stack([torch.stack([torch.stack(b) for b in d]) for d in many])  # noqa: E731
    y = stack(rows) if steps else torch.zeros(0, directions, batch, n, dtype=x.dtype)
    h, state = (torch.stack([torch.stack(b) for b in part]) for part in last)
    if first:
        y, h, state = y.permute(2, 0, 1, 3), h.transpose(0, 1), state.transpose(0, 1)
    return {"y": y, "y_h": h, "y_c": state}


TENSORS = ("x", "weight", "recurrence", "bias", "initial_h", "initial_c", "peephole")


@reference("lstm", "gru", "rnn")
def recurrent(c):
    made = layer(c, c.op, {k: c.torch(k) for k in TENSORS if c.has(k)})
    return {k: v.numpy() for k, v in made.items() if k in c.outputs}


@reference("lstm_grad", "gru_grad", "rnn_grad")
def recurrent_grad(c):
    """y is an input of its own: the steps read their states there."""
    import torch

    tensors = {k: c.torch(k).requires_grad_() for k in TENSORS if c.has(k)}
    made = layer(c, c.op.removesuffix("_grad"), tensors, c.torch("y"))
    loss = sum((made[k] * c.torch("d" + k)).sum() for k in ("y", "y_h", "y_c") if c.has("d" + k))
    names = [k for k in TENSORS if "d" + k in c.outputs]
    found = torch.autograd.grad(loss, [tensors[k] for k in names], allow_unused=True)
    return {"d" + k: (torch.zeros_like(tensors[k]) if g is None else g).numpy() for k, g in zip(names, found)}
