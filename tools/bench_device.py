#!/usr/bin/env python3
# What a step costs a GPU's driver: launches, graph launches, copies and synchronisations of a step, counted on the simulated GPU. Counts
# are exact and the same everywhere; a time is not among them.
#
#   tools/bench_device.py [--rows resnet50,encoder,digits,ops] [--tiny] [--json]
#
# A row is the difference of two runs with other numbers of steps, so that loading a graph, its first step and the recording of its CUDA
# graph do not count. Each model runs twice: as it is, and op by op (OPC_CUDA_GRAPHS=0).
# SPDX-License-Identifier: Apache-2.0

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "docs/examples/digits"
FEW, MANY = 3, 5  # steps; the second one is recorded
ROWS = ("resnet50", "encoder", "digits", "ops")


def counters(opc, arguments, steps, graphs):
    """The simulator's report of a run, in numbers by name."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        environment = dict(os.environ, CUDA_SIM=f"report={report}", OPC_CUDA_GRAPHS="1" if graphs else "0", OPC_CACHE_SIZE="0")
        done = subprocess.run([opc, "run", *arguments, "--device", "sim", "--repeat", str(steps), "--print", "none", "-q"],
                              capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(f"opc run {' '.join(arguments)}: {done.stderr}")
        with open(report, encoding="utf-8") as f:
            all_of = json.load(f)
    found = {name: all_of[name] for name in ("launches", "graph_launches", "graph_nodes", "synchronisations")}
    for name, short in (("host_to_device", "in"), ("device_to_host", "out"), ("device_to_device", "on")):
        found[f"copies_{short}"], found[f"bytes_{short}"] = all_of["copies"][name]["count"], all_of["copies"][name]["bytes"]
    found["fills"] = all_of["fills"]["count"]
    return found, {name: kernel["launches"] for name, kernel in all_of["kernels"].items()}


def step(opc, arguments, graphs):
    """What each further step of a run costs, and the kernels that it executes."""
    (few, few_kernels), (many, many_kernels) = (counters(opc, arguments, steps, graphs) for steps in (FEW, MANY))
    between = MANY - FEW
    for name, count in many.items():
        if (count - few[name]) % between:
            raise RuntimeError(f"opc run {' '.join(arguments)}: {few[name]} {name} in {FEW} steps, {count} in {MANY}: steps differ")
    kernels = {name: (count - few_kernels.get(name, 0)) // between for name, count in many_kernels.items()}
    return {name: (count - few[name]) // between for name, count in many.items()}, {name: count for name, count in kernels.items() if count}


def model(folder, name, tiny, shape):
    """A benchmark model with a smaller input: what is launched follows from the ops, and hardly from sizes."""
    python = subprocess.run([ROOT / "tools/dev/find_python.sh"], capture_output=True, text=True, check=True).stdout.strip()  # which has numpy
    subprocess.run([python, str(ROOT / "docs/examples/models/make_models.py"), folder, "--models", name, "--batch", "1",
                    *(["--tiny"] if tiny else [])], check=True, stdout=subprocess.DEVNULL)
    return [f"{folder}/{name}_b1.pbtxt", "--weights", f"{folder}/{name}.safetensors", "--fill", "rand", "--seed", "1",
            *([] if tiny else ["--shape", f"x={shape}"])]


def training(opc, folder, net, optimizer):
    """A training step of a network of the digits, of 64 images."""
    text = ""
    for name in (net, net + "_loss"):
        text += (DIGITS / f"{name}.pbtxt").read_text().replace('key: "training" value { at_bool: false }', 'key: "training" value { at_bool: true }')
    graph = f"{folder}/{net}_{optimizer}.pbtxt"
    subprocess.run([opc, "grad", "-", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss", "--optimizer", optimizer, "--lr", "0.002", "-q",
                    "-o", graph], input=text, text=True, check=True)
    return [graph, "--fill", "rand", "--seed", "1"]


def tiny_ops(folder, count):
    """A chain of ops on 16 numbers each."""
    lines = ['op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 16 } data_type: kFloat } } }']
    last = "x/out"
    for i in range(count):
        lines.append(f'op {{ name: "op{i}" user_conf {{ op_type_name: "sin" input {{ key: "x" value {{ s: "{last}" }} }} }} }}')
        last = f"op{i}/y_0"
    lines += [f'op {{ name: "y" output_conf {{ in: "{last}" out: "out" }} }}', ""]
    path = f"{folder}/ops_{count}.pbtxt"
    pathlib.Path(path).write_text("\n".join(lines))
    return [path, "--fill", "rand", "--seed", "1", "--no-fuse"]


def cases(opc, folder, rows, tiny):
    """(name, arguments of opc run)"""
    if "resnet50" in rows:
        yield "ResNet-50, an image of 32 x 32" if not tiny else "resnet50, tiny", model(folder, "resnet50", tiny, "1,3,32,32")
    if "encoder" in rows:
        yield "encoder, a sequence of 16" if not tiny else "encoder, tiny", model(folder, "encoder", tiny, "1,16,512")
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
        print("| a step of | CUDA graphs | launches | graph launches | nodes | copies in, bytes | copies out, bytes | on the device | fills | synchronisations |")
        print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in cases(opc, folder, rows, args.tiny):
            for graphs in (True, False):
                c, kernels = step(opc, arguments, graphs)
                found.append({"row": name, "graphs": graphs, **c, "kernels": kernels})
                if not args.json:
                    print(f"| {name} | {'yes' if graphs else 'no'} | {c['launches']} | {c['graph_launches']} | {c['graph_nodes']} | {c['copies_in']}, {c['bytes_in']:,} | "
                          f"{c['copies_out']}, {c['bytes_out']:,} | {c['copies_on']} | {c['fills']} | {c['synchronisations']} |", flush=True)
    if args.json:
        print(json.dumps({"schema": 1, "rows": found}, indent=1))


if __name__ == "__main__":
    main()
