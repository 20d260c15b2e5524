#!/usr/bin/env python3
# What a step costs a GPU's driver: launches, graph launches, copies and synchronisations of a step, counted on the simulated GPU. Counts
# are exact and the same everywhere; a time is not among them.
#
#   tools/bench_device.py [--rows resnet50,encoder,digits,ops] [--tiny] [--json]
#
# A row is the difference of two runs with other numbers of steps, so that loading a graph, its first step and the recording of its CUDA
# graph do not count. Each step is fed a batch of a data set. Kernels are launched one by one with OPC_CUDA_GRAPHS=0 alone: else a step is
# one launch of a graph, whose nodes they are.
# SPDX-License-Identifier: Apache-2.0

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from bench_models import np  # which finds a python3 that has numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent

DIGITS = ROOT / "docs/examples/digits"
FEW, MANY = 2, 3  # steps; the second one is recorded
ROWS = ("resnet50", "encoder", "digits", "ops")


class Case:
    """A graph, options of opc run, and what a step is fed: {input: (shape with the batch first, type)}."""

    def __init__(self, graph, fed, *options):
        self.graph, self.fed, self.options = str(graph), fed, options

    def command(self, opc, folder, steps):
        batch = next(iter(self.fed.values()))[0][0]
        files = []
        for name, (shape, kind) in self.fed.items():
            path = os.path.join(folder, f"{name}.npy")
            np.save(path, np.random.default_rng(1).integers(0, 10, (steps * shape[0], *shape[1:])).astype(kind))
            files.append(f"{name}=@{path}")
        return [opc, "run", self.graph, "--device", "sim", "--feed-dataset", ",".join(files), "--batch", str(batch), "--epochs", "1", "--print", "none", "-q",
                *self.options]


def counters(opc, case, steps, graphs):
    """The simulator's report of a run, in numbers by name."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        environment = dict(os.environ, CUDA_SIM=f"report={report}", OPC_CUDA_GRAPHS="1" if graphs else "0", OPC_CACHE_SIZE="0")
        command = case.command(opc, folder, steps)
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        with open(report, encoding="utf-8") as f:
            all_of = json.load(f)
    found = {name: all_of[name] for name in ("launches", "graph_launches", "graph_nodes", "synchronisations")}
    for name, short in (("host_to_device", "in"), ("device_to_host", "out"), ("device_to_device", "on")):
        found[f"copies_{short}"], found[f"bytes_{short}"] = all_of["copies"][name]["count"], all_of["copies"][name]["bytes"]
    found["fills"] = all_of["fills"]["count"]
    return found, {name: kernel["launches"] for name, kernel in all_of["kernels"].items()}


def step(opc, case, graphs):
    """What a further step of a run costs, and the kernels that it executes."""
    (few, few_kernels), (many, many_kernels) = (counters(opc, case, steps, graphs) for steps in (FEW, MANY))
    kernels = {name: count - few_kernels.get(name, 0) for name, count in many_kernels.items()}
    return {name: count - few[name] for name, count in many.items()}, {name: count for name, count in kernels.items() if count}


def model(folder, name, tiny, shape, smaller=None):
    """A benchmark model with a smaller input, or with another size in place of one: what is launched follows from the ops, and hardly from sizes."""
    subprocess.run([sys.executable, str(ROOT / "docs/examples/models/make_models.py"), folder, "--models", name, "--batch", "1",
                    *(["--tiny"] if tiny else [])], check=True, stdout=subprocess.DEVNULL)
    path = pathlib.Path(f"{folder}/{name}_b1.pbtxt")
    if smaller:
        path.write_text(path.read_text().replace(*(f"dim: {size} " for size in smaller)))
    return Case(path, {"x": (shape, np.float32)}, "--weights", f"{folder}/{name}.safetensors", "--shape", "x=" + ",".join(map(str, shape)))


def training(opc, folder, net, optimizer):
    """A training step of a network of the digits, of 64 images."""
    text = ""
    for name in (net, net + "_loss"):
        text += (DIGITS / f"{name}.pbtxt").read_text().replace('key: "training" value { at_bool: false }', 'key: "training" value { at_bool: true }')
    graph = f"{folder}/{net}_{optimizer.split(':')[0]}.pbtxt"
    subprocess.run([opc, "grad", "-", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss", "--optimizer", optimizer, "--lr", "0.002", "-q",
                    "-o", graph], input=text, text=True, check=True)
    return Case(graph, {"image": ((64, 64), np.float32), "label": ((64,), np.int32)})


def tiny_ops(folder, count):
    """A chain of ops on 16 numbers each."""
    lines = ['op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 1 dim: 16 } data_type: kFloat } } }']
    last = "x/out"
    for i in range(count):
        lines.append(f'op {{ name: "op{i}" user_conf {{ op_type_name: "sin" input {{ key: "x" value {{ s: "{last}" }} }} }} }}')
        last = f"op{i}/y_0"
    lines += [f'op {{ name: "y" output_conf {{ in: "{last}" out: "out" }} }}', ""]
    path = f"{folder}/ops_{count}.pbtxt"
    pathlib.Path(path).write_text("\n".join(lines))
    return Case(path, {"x": ((1, 16), np.float32)}, "--no-fuse")


def cases(opc, folder, rows, tiny):
    """(name, case)"""
    if "resnet50" in rows:
        yield "resnet50, tiny" if tiny else "ResNet-50, an image of 32 x 32", model(folder, "resnet50", tiny, (1, 3, 32, 32))
    if "encoder" in rows:
        yield "encoder, tiny" if tiny else "encoder, a sequence of 16", model(folder, "encoder", tiny, (1, 16, 32 if tiny else 512), (128, 16))
    if "digits" in rows:
        for net in ("mlp", "cnn"):
            yield f"digits {net}, a training step with adam", training(opc, folder, net, "adam")
    if "ops" in rows:
        count = 100 if tiny else 1000
        yield f"{count:,} ops of 16 numbers, --no-fuse", tiny_ops(folder, count)


def main():
    parser = argparse.ArgumentParser(description="what a step costs a GPU's driver, counted on the simulated GPU")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--tiny", action="store_true", help="small models")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = args.rows.split(",")
    for row in rows:
        if row not in ROWS:
            parser.error(f"no row '{row}'; there are {', '.join(ROWS)}")
    opc, found = str(args.build / "bin/opc"), []
    if not args.json:
        print("| a step of | graph launches | kernels | copies in, bytes | copies out, bytes | copies on the device | fills | synchronisations |")
        print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases(opc, folder, rows, args.tiny):
            c, kernels = step(opc, case, True)
            found.append({"row": name, **c, "kernels": kernels})
            if not args.json:
                print(f"| {name} | {c['graph_launches']} | {sum(kernels.values()):,} | {c['copies_in']}, {c['bytes_in']:,} | {c['copies_out']}, {c['bytes_out']:,} | "
                      f"{c['copies_on']} | {c['fills']} | {c['synchronisations']} |", flush=True)
    if args.json:
        print(json.dumps({"schema": 1, "rows": found}, indent=1))


if __name__ == "__main__":
    main()
