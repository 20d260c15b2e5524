# The benchmark models, small: what opc computes, fused and as written, against numpy; and the same files every time.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

SOURCE = pathlib.Path(os.environ["OPC_SOURCE_DIR"])
OPC = pathlib.Path(os.environ["OPC_BUILD_DIR"]) / "bin/opc"
MAKE = SOURCE / "docs/examples/models/make_models.py"
BATCH = 2


def erf(x):
    from math import erf as scalar

    return np.vectorize(scalar)(x)


def convolve(x, w, stride, pad, groups):
    n, c, h, width = x.shape
    o, own, k, _ = w.shape
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    oh, ow = (h + 2 * pad - k) // stride + 1, (width + 2 * pad - k) // stride + 1
    y = np.zeros((n, groups, o // groups, oh, ow))
    grouped, weight = x.reshape(n, groups, own, *x.shape[2:]), w.reshape(groups, o // groups, own, k, k)
    for i in range(k):
        for j in range(k):
            part = grouped[:, :, :, i : i + (oh - 1) * stride + 1 : stride, j : j + (ow - 1) * stride + 1 : stride]
            y += np.einsum("ngchw,goc->ngohw", part, weight[..., i, j])
    return y.reshape(n, o, oh, ow)


def max_pool(x):
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    oh, ow = (x.shape[2] - 3) // 2 + 1, (x.shape[3] - 3) // 2 + 1
    parts = [x[:, :, i : i + 2 * oh - 1 : 2, j : j + 2 * ow - 1 : 2] for i in range(3) for j in range(3)]
    return np.max(parts, axis=0)


def apply(step, a):
    op = step["op"]
    if op == "conv":
        return convolve(a[0], a[1], step["stride"], step["pad"], step["groups"])
    if op == "norm":
        gamma, beta, mean, var = (v[:, None, None] for v in a[1:])
        return (a[0] - mean) / np.sqrt(var + 1e-5) * gamma + beta
    if op == "layer_norm":
        mean, var = a[0].mean(-1, keepdims=True), a[0].var(-1, keepdims=True)
        return (a[0] - mean) / np.sqrt(var + 1e-5) * a[1] + a[2]
    if op == "softmax":
        e = np.exp(a[0] - a[0].max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    simple = {
        "relu": lambda x: np.maximum(x, 0),
        "relu6": lambda x: np.clip(x, 0, 6),
        "gelu": lambda x: x * (1 + erf(x / 2**0.5)) / 2,
        "fast_gelu": lambda x: x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2,
        "scale": lambda x: x * step["factor"],
        "add": lambda x, y: x + y,
        "max_pool": max_pool,
        "mean": lambda x: x.mean((2, 3), keepdims=True),
        "reshape": lambda x: x.reshape(step["shape"]),
        "transpose": lambda x: x.transpose(step["perm"]),
        "linear": lambda x, w, b: x @ w + b,
        "product": lambda x, y: x @ (y.swapaxes(-1, -2) if step["transposed"] else y),
    }
    return simple[op](*a)


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    return {k: np.frombuffer(data[8 + size :][slice(*v["data_offsets"])], "f4").reshape(v["shape"]).astype("f8")
            for k, v in json.loads(data[8 : 8 + size]).items()}


def check(folder, name):
    stem = folder / f"{name}_b{BATCH}"
    graph = json.loads(stem.with_suffix(".json").read_text())
    values = {**read_safetensors(folder / f"{name}.safetensors"), "x": np.load(f"{stem}_x.npy").astype("f8")}
    for step in graph["steps"]:
        values[step["name"]] = apply(step, [values[i] for i in step["inputs"]])
    expected = values[graph["output"]]
    found = []
    for flags in ([], ["--no-fuse"]):
        out = folder / f"{name}_out.npy"
        command = [str(OPC), "run", f"{stem}.pbtxt", "--weights", str(folder / f"{name}.safetensors"), "--input",
                   f"x=@{stem}_x.npy", "--output", f"y={out}", "--print", "none", *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return [f"{name} {flags}: exit code {done.returncode}\n{done.stderr}"]
        found.append(np.load(out))
    errors = []
    for flags, y in zip(("fused", "as written"), found):
        error = np.abs(y - expected).max() / np.abs(expected).max()
        if y.shape != expected.shape or not error < 2e-5:
            errors.append(f"{name} {flags}: largest relative difference {error}")
    phase = subprocess.run([str(OPC), "compile", f"{stem}.pbtxt", "--to", "fuse"], capture_output=True, text=True).stdout
    left = [op for op in ("conv2d", "normalization", "clip_by_scalar", "relu") if f'user_op "{op}"' in phase]
    if name in ("resnet50", "mobilenet") and (left or "fused_conv2d" not in phase):
        errors.append(f"{name}: not fused: {left}")
    return errors


def main():
    errors = []
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        for folder in (one, two):
            subprocess.run([sys.executable, str(MAKE), folder, "--tiny", "--batch", str(BATCH)], check=True)
        names = sorted(os.listdir(one))
        for name in names:
            if pathlib.Path(one, name).read_bytes() != pathlib.Path(two, name).read_bytes():
                errors.append(f"make_models.py writes another {name} each time")
        models = sorted(n[: -len(".safetensors")] for n in names if n.endswith(".safetensors"))
        if len(models) != 5:
            errors.append(f"make_models.py made {models}")
        for model in models:
            errors += check(pathlib.Path(one), model)
    print("\n".join(errors) or f"{len(models)} models agree with numpy")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
