# Makes tests/conformance/training: what PyTorch computes in f64 for the graphs of training_models.py.
# SPDX-License-Identifier: Apache-2.0
"""usage: make_training_vectors.py        needs numpy and PyTorch

models.npz: inputs, first weights, the loss, every gradient, and every weight after five steps of torch.optim.Adam.
optimizers.npz: a weight, five gradients, and the weight after five steps, for each optimizer that torch.optim has.
Weights and inputs are f32 numbers, and so are the optimizers' settings: the update ops take f32 attributes.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F

import training_models as models

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "training")
RATE = 0.0078125  # of Adam in the models: exact in f32


def f32(value):
    return float(np.float32(value))


def mlp(x, w):
    for i in range(1, len(models.MLP["sizes"])):
        x = torch.relu(x @ w[f"fc{i}_w"] + w[f"fc{i}_b"])
    return x @ w["head_w"] + w["head_b"]


def encoder(x, w):
    m = models.ENCODER
    b, s, d, h = m["batch"], m["length"], m["width"], m["heads"]
    norm = lambda name, x: F.layer_norm(x, (d,), w[f"{name}_gamma"], w[f"{name}_beta"], 1e-5)  # noqa: E731
    heads = lambda x: x.reshape(b, s, h, d // h).transpose(1, 2)  # noqa: E731
    for i in range(m["layers"]):
        p = f"layer{i}_"
        y = norm(p + "norm1", x)
        q, k, v = (heads(y @ w[f"{p}{n}_w"] + w.get(f"{p}{n}_b", 0)) for n in "qkv")
        y = torch.softmax(q @ k.transpose(-1, -2) * (d // h) ** -0.5, -1) @ v
        x = x + y.transpose(1, 2).reshape(b, s, d) @ w[p + "out_w"] + w[p + "out_b"]
        y = F.gelu(norm(p + "norm2", x) @ w[p + "up_w"] + w[p + "up_b"])
        x = x + y @ w[p + "down_w"] + w[p + "down_b"]
    return norm("norm", x) @ w["head_w"] + w["head_b"]


def recurrent(x, w):
    """torch.nn.LSTM: its gates are in the order i, f, g, o, and those of the graph i, o, f, g."""
    m = models.RECURRENT
    h = m["hidden"]
    order = [i * h + k for i in (0, 2, 3, 1) for k in range(h)]
    parameters = []
    for d in range(2):
        parameters += [w["lstm_w"][d][order], w["lstm_r_w"][d][order], w["lstm_b"][d][: 4 * h][order], w["lstm_b"][d][4 * h :][order]]
    state = torch.zeros(2, m["batch"], h, dtype=torch.float64)
    y = torch.lstm(x, (state, state), parameters, True, 1, 0.0, False, True, True)[0]  # what torch.nn.LSTM calls
    return y @ w["head_w"] + w["head_b"]


def rounded(array):
    return np.asarray(array, np.float32).astype(np.float64)


def model_vectors(name, forward, x_shape, label_shape, classes):
    rng = np.random.default_rng(11)
    start = {}
    for variable, shape in models.MODELS[name]("kDouble").variables:
        kind = variable.rsplit("_", 1)[1]
        start[variable] = rounded(rng.normal(0, shape[0] ** -0.5, shape) if kind == "w" else rng.normal(1.0 if kind == "gamma" else 0.0, 0.1, shape))
    x, label = rounded(rng.normal(size=x_shape)), rng.integers(0, classes, label_shape)
    w = {k: torch.tensor(v, requires_grad=True) for k, v in start.items()}
    optimizer = torch.optim.Adam(w.values(), lr=RATE, betas=(f32(0.9), f32(0.999)), eps=f32(1e-8))
    data = {f"{name}/x": x, f"{name}/label": label}
    for step in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(torch.tensor(x), w).reshape(-1, classes), torch.tensor(label).reshape(-1))
        loss.backward()
        if step == 0:
            data[f"{name}/loss"] = loss.detach().numpy()
            data.update({f"{name}/grad/{k}": v.grad.numpy().copy() for k, v in w.items()})
        optimizer.step()
    data.update({f"{name}/start/{k}": v for k, v in start.items()})
    data.update({f"{name}/after/{k}": v.detach().numpy() for k, v in w.items()})
    return data


def torch_optimizer(name, w):
    a = {k: f32(v) if isinstance(v, float) else v for k, v in models.OPTIMIZERS[name][3].items()}
    betas, lr = (f32(0.9), f32(0.999)), models.RATE
    return {
        "sgd": lambda: torch.optim.SGD([w], lr, weight_decay=a["l2"]),
        "sgd_schedule": lambda: torch.optim.SGD([w], lr),
        "momentum": lambda: torch.optim.SGD([w], lr, momentum=a["beta"], weight_decay=a["l2"]),
        "nesterov": lambda: torch.optim.SGD([w], lr, momentum=a["beta"], nesterov=True),
        "adam": lambda: torch.optim.Adam([w], lr, betas, a["epsilon"], weight_decay=a["l2"]),
        "adamw": lambda: torch.optim.AdamW([w], lr, betas, a["epsilon"], weight_decay=a["weight_decay"]),
        "amsgrad": lambda: torch.optim.Adam([w], lr, betas, a["epsilon"], amsgrad=True),
        "rmsprop": lambda: torch.optim.RMSprop([w], lr, a["decay_rate"], a["epsilon"]),
        "rmsprop_centered": lambda: torch.optim.RMSprop([w], lr, a["decay_rate"], a["epsilon"], centered=True),
        "adagrad": lambda: torch.optim.Adagrad([w], lr, a["lr_decay"], initial_accumulator_value=0.25, eps=a["epsilon"]),
    }[name]()


def optimizer_vectors(name):
    rng = np.random.default_rng(5)
    start = rounded(rng.normal(size=models.SHAPE))
    gradients = rounded(rng.normal(size=(models.STEPS, *models.SHAPE)))
    w = torch.tensor(start, requires_grad=True)
    optimizer = torch_optimizer(name, w)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4) if name == "sgd_schedule" else None
    for g in gradients:
        w.grad = torch.tensor(g)
        optimizer.step()
        if schedule:
            schedule.step()
    return {"start": start, "gradients": gradients, f"{name}/after": w.detach().numpy()}


def main():
    os.makedirs(FOLDER, exist_ok=True)
    m, e, r = models.MLP, models.ENCODER, models.RECURRENT
    data = {**model_vectors("mlp", mlp, (m["batch"], m["sizes"][0]), (m["batch"],), m["classes"]),
            **model_vectors("encoder", encoder, (e["batch"], e["length"], e["width"]), (e["batch"], e["length"]), e["classes"]),
            **model_vectors("recurrent", recurrent, (r["batch"], r["length"], r["numbers"]), (r["batch"], r["length"]), r["classes"])}
    np.savez_compressed(os.path.join(FOLDER, "models.npz"), **data)
    data = {}
    for name in models.OPTIMIZERS:
        data.update(optimizer_vectors(name))
    np.savez_compressed(os.path.join(FOLDER, "optimizers.npz"), **data)


if __name__ == "__main__":
    main()
