#!/usr/bin/env python3
# Training steps through opc and PyTorch, in turns: forward, backward and an SGD update of all weights on the mean square of
# a model's output.
#
#   tools/bench_training.py [--models mlp:64,encoder:1] [--threads 1,2] [--rounds 7] [--json]
#
# Models, workers and the way of measuring are those of tools/bench_models.py. The engines start from the same weights and
# take the same steps, so their outputs must agree after all rounds. Beside them stands a floor: the operations of the
# step's products at the speed of the fastest of them by itself, and the least traffic of the optimizer, both measured in
# the same run by the same program.
# SPDX-License-Identifier: Apache-2.0

import argparse
import json
import pathlib
import re
import subprocess
import sys

import bench_floor
import bench_models as bench

ROOT = pathlib.Path(__file__).resolve().parent.parent


def training_graph(args, model, batch):
    """`opc grad` on the model with a loss behind it."""
    text = (args.folder / f"{model}_b{batch}.pbtxt").read_text()
    output = re.search(r'name:\s*"y"\s*output_conf\s*{\s*in:\s*"([^"]+)"', text)
    if not output:
        sys.exit(f"bench_training: {model} has no output y")
    desc = subprocess.run([str(args.build / "bin/opc"), "show", "-", "--json"], input=text, capture_output=True, text=True, check=True)
    rank = next(len(o["shape"]) for o in json.loads(desc.stdout)["outputs"] if o["name"] == "y")
    axes = " ".join(f"val: {i}" for i in range(rank))
    text += f'''
op {{ name: "bench_square" user_conf {{ op_type_name: "square" input {{ key: "x" value {{ s: "{output.group(1)}" }} }} }} }}
op {{ name: "bench_loss" user_conf {{ op_type_name: "reduce_mean" input {{ key: "input_tensor" value {{ s: "bench_square/y_0" }} }}
  attr {{ key: "axis" value {{ at_list_int32 {{ {axes} }} }} }} attr {{ key: "keepdims" value {{ at_bool: false }} }} }} }}
'''
    path = args.folder / f"{model}_b{batch}_train.pbtxt"
    subprocess.run([str(args.build / "bin/opc"), "grad", "-", "--loss", "bench_loss", "--optimizer", "sgd", "--lr", "1e-3", "-q",
                    "-o", str(path)], input=text, text=True, check=True)
    return path


def main():
    parser = argparse.ArgumentParser(description="training steps through opc and PyTorch, in turns")
    parser.add_argument("--models", default="mlp:64,encoder:1,encoder:8", help="MODEL:BATCH,...")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/models", help="where the models are or will be")
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that has torch")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, bad = [], False
    if not args.json:
        print(f"{'model':<10} {'batch':>5} {'threads':>7} {'engine':<8} {'ms':>9} {'opc/it':>7} {'floor ms':>9} {'it/floor':>8} {'peak MB':>8} {'difference':>10}")
    for item in args.models.split(","):
        model, batch = item.split(":")
        if not (args.folder / f"{model}_b{batch}.pbtxt").exists():
            subprocess.run([sys.executable, str(ROOT / "docs/examples/models/make_models.py"), str(args.folder), "--models", model,
                            "--batch", batch], check=True)
        step = training_graph(args, model, batch)
        found = {
            "opc": lambda m, b, t: ([str(args.build / "bin/opc-bench"), "model", "--graph", str(step), "--weights",
                                     f"{args.folder}/{m}.safetensors", "--input", f"x={args.folder}/{m}_b{b}_x.npy", "--threads",
                                     str(t)], {}),
            "torch": lambda m, b, t: ([args.python, str(ROOT / "tools/bench/torch_worker.py"), f"{args.folder}/{m}_b{b}.json",
                                       f"{args.folder}/{m}.safetensors", f"{args.folder}/{m}_b{b}_x.npy", str(t), "train"],
                                      {"OMP_NUM_THREADS": t}),
        }
        for threads in map(int, args.threads.split(",")):
            least = bench_floor.of_step(args, step, threads)
            for r in bench.measure(args, found, model, int(batch), threads, steps=2):
                r.update(least, floor_ratio=r["ms"] / least["floor_ms"])
                rows.append(r)
                bad |= not r["agrees"]
                if not args.json:
                    print(f"{r['model']:<10} {r['batch']:>5} {r['threads']:>7} {r['engine']:<8} {r['ms']:>9.2f} {r['opc_ratio']:>7.2f} "
                          f"{r['floor_ms']:>9.2f} {r['floor_ratio']:>8.2f} {r['peak_mb']:>8.1f} {r['difference']:>10.1e}{'' if r['agrees'] else '  DIFFERS'}", flush=True)
    if args.json:
        print(json.dumps({"schema": 1, "rows": rows}, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
