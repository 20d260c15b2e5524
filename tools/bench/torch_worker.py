# Serves one model (the JSON steps of make_models.py) in PyTorch to tools/bench_models.py: the same commands and answers
# as `opc-bench model`. usage: torch_worker.py STEPS.json WEIGHTS.safetensors X.npy THREADS eager|jit|train
# (train: a run is a step of SGD on the mean square of the output, for tools/bench_training.py)
# SPDX-License-Identifier: Apache-2.0

import json
import struct
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F


def memory():
    with open("/proc/self/status") as f:
        rows = dict(line.split(":", 1) for line in f)
    return {key: int(rows[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM")}


def read_safetensors(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        tensors = {}
        for name, entry in header.items():
            f.seek(8 + size + entry["data_offsets"][0])
            count = int(np.prod(entry["shape"]))
            tensors[name] = torch.from_numpy(np.fromfile(f, "f4", count).reshape(entry["shape"]))
    return tensors


def apply(step, a):
    op = step["op"]
    if op == "conv":
        return F.conv2d(a[0], a[1], None, step["stride"], step["pad"], 1, step["groups"])
    if op == "norm":
        return F.batch_norm(a[0], a[3], a[4], a[1], a[2], False, 0.0, 1e-5)
    if op == "relu":
        return F.relu(a[0])
    if op == "relu6":
        return F.hardtanh(a[0], 0.0, 6.0)
    if op == "gelu":
        return F.gelu(a[0])
    if op == "fast_gelu":
        return F.gelu(a[0], approximate="tanh")
    if op == "softmax":
        return F.softmax(a[0], -1)
    if op == "scale":
        return a[0] * step["factor"]
    if op == "add":
        return a[0] + a[1]
    if op == "max_pool":
        return F.max_pool2d(a[0], 3, 2, 1)
    if op == "mean":
        return F.adaptive_avg_pool2d(a[0], 1)
    if op == "reshape":
        return a[0].reshape(step["shape"])
    if op == "transpose":
        return a[0].permute(step["perm"])
    if op == "linear":
        return F.linear(a[0], a[1].t(), a[2])
    if op == "product":
        return torch.matmul(a[0], a[1].transpose(-1, -2) if step["transposed"] else a[1])
    if op == "layer_norm":
        return F.layer_norm(a[0], a[1].shape, a[1], a[2], 1e-5)
    raise SystemExit(f"torch_worker: no op '{op}'")


class Graph(torch.nn.Module):
    def __init__(self, graph, weights, train=False):
        super().__init__()
        self.graph = graph
        self.last = {}
        for i, step in enumerate(graph["steps"]):
            for name in step["inputs"]:
                self.last[name] = i
        for name, value in weights.items():
            if train:
                self.register_parameter(name, torch.nn.Parameter(value))
            else:
                self.register_buffer(name, value)

    def forward(self, x):
        values = {"x": x}
        for i, step in enumerate(self.graph["steps"]):
            args = [values[n] if n in values else getattr(self, n) for n in step["inputs"]]
            values[step["name"]] = apply(step, args)
            for n in step["inputs"]:
                if self.last[n] == i and n != self.graph["output"]:
                    values.pop(n, None)
        return values[self.graph["output"]]


def main():
    steps, weights, x, threads, mode = sys.argv[1:]
    torch.set_num_threads(int(threads))
    x = torch.from_numpy(np.load(x))
    before, start = memory(), time.perf_counter()
    train = mode == "train"
    model = Graph(json.load(open(steps)), read_safetensors(weights), train).eval()
    result = None
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3) if train else None

    def step():
        optimizer.zero_grad(set_to_none=True)
        y = model(x)
        y.square().mean().backward()
        optimizer.step()
        return y.detach()

    with torch.inference_mode(not train):
        if mode == "jit":
            model = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x).eval()))
        say = lambda answer: print(json.dumps(answer), flush=True)
        say({"ready": True, "load": time.perf_counter() - start, "before": before})
        for line in sys.stdin:
            command, *args = line.split()
            if command == "quit":
                return
            if command == "run":
                times = []
                for _ in range(int(args[0])):
                    begin = time.perf_counter()
                    result = step() if train else model(x)
                    times.append(time.perf_counter() - begin)
                say({"times": times})
            elif command == "output":
                np.save(args[1], result.numpy())
                say({"written": args[1]})
            elif command == "memory":
                say(memory())


main()
