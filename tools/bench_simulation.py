#!/usr/bin/env python3
"""Simulated step times of training plans against real ones, on this machine.

For each graph and mesh, in turns: the machine is calibrated with all ranks at work (--calibrate), the plan is simulated with the
result, and the same plan is run; the table has the median of the simulated steps, the fastest real one, and the processor time of
a step divided by the cores that its ranks have, each as a ratio. Processor time is the better judge on a machine that others use
too. Ranks are threads of one process, or with --mpi processes under mpirun (without processor time).
usage: tools/bench_simulation.py [--opc build/bin/opc] [--rounds 3] [--mpi] [--mesh 2,4,2x2]"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--opc", default="build/bin/opc")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--repeat", type=int, default=40)
parser.add_argument("--mpi", action="store_true", help="ranks are processes")
parser.add_argument("--mesh", default="2,4,2x2")
parser.add_argument("--graphs", default="mlp,deep,digits")
args = parser.parse_args()
opc = os.path.abspath(args.opc)
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def opc_run(words, launcher=(), **more):
    done = subprocess.run([*launcher, opc, *words], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def processor_seconds(words):
    """Of a run and its threads. Idle threads sleep: waiting takes no processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    opc_run(words, env={**os.environ, "GOMP_SPINCOUNT": "0"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def blob(name, dims, kind):
    shape = " ".join(f"dim: {d}" for d in dims)
    if kind == "input":
        return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {shape} }} data_type: kFloat }} }} }}\n'
    return (f'op {{ name: "{name}" variable_conf {{ out: "out" shape {{ {shape} }} data_type: kFloat '
            f"initializer {{ random_uniform_conf {{ min: -0.05 max: 0.05 }} }} random_seed: 1 }} }}\n")


def user(name, kind, inputs, attrs=""):
    args_ = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs)
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {args_} {attrs} }} }}\n'


def perceptron(batch, width, layers):
    """Layers of matmul, bias and gelu, and the mean of squares as the loss."""
    text, x = blob("x", [batch, width], "input"), "x/out"
    for i in range(layers):
        text += blob(f"w{i}", [width, width], "variable") + blob(f"b{i}", [width], "variable")
        text += user(f"fc{i}", "matmul", [("a", x), ("b", f"w{i}/out")])
        text += user(f"bias{i}", "bias_add", [("a", f"fc{i}/out_0"), ("b", f"b{i}/out")],
                     'attr { key: "axis" value { at_int32: 1 } }')
        text += user(f"act{i}", "gelu", [("in", f"bias{i}/out_0")])
        x = f"act{i}/out_0"
    text += user("square", "square", [("x", x)])
    text += user("loss", "reduce_mean", [("input_tensor", "square/y_0")],
                 'attr { key: "axis" value { at_list_int32 { val: 0 val: 1 } } } attr { key: "keepdims" value { at_bool: false } }')
    return text


def training(graph, folder):
    if graph == "digits":
        digits = os.path.join(source, "docs/examples/digits")
        text = "".join(open(os.path.join(digits, n)).read() for n in ("cnn.pbtxt", "cnn_loss.pbtxt"))
        shapes = ["--shape", "image=256,1,8,8", "--shape", "label=256"]
    else:
        text = perceptron(512, 768, 4) if graph == "mlp" else perceptron(256, 384, 12)
        shapes = []
    path = os.path.join(folder, graph + ".pbtxt")
    opc_run(["grad", "-", *shapes, "--loss", "loss", "--optimizer", "sgd", "--lr", "0.01", "-o", path], input=text)
    return path


def main():
    cores = len(os.sched_getaffinity(0))
    print(f"{'graph':8} {'mesh':5} {'simulated':>11} {'fastest':>11} {'ratio':>7} {'processor':>11} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for graph in args.graphs.split(","):
            path = training(graph, folder)
            for mesh in args.mesh.split(","):
                ranks = 1
                for d in mesh.split("x"):
                    ranks *= int(d)
                plan, cluster = os.path.join(folder, "p.plan"), os.path.join(folder, "c.json")
                launcher = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(ranks)] if args.mpi and ranks > 1 else []
                found, real, busy = [], [], []
                for _ in range(args.rounds):
                    flags = ["--mesh", mesh] if ranks > 1 else []
                    opc_run(["compile", path, *flags, "-o", plan, "--calibrate", cluster], launcher)
                    report = opc_run(["compile", path, *flags, "-o", plan, "--simulate", cluster, "--json"])
                    found.append(json.loads(report)["simulation"]["step_seconds"])
                    where = [] if ranks == 1 or args.mpi else ["--ranks", str(ranks), "--in-process"]
                    out = opc_run(["run", plan, *where, "--fill", "rand", "--warmup", "3", "--repeat", str(args.repeat),
                                   "--print", "none", "--json"], launcher)
                    real.append(json.loads(out)["timing"]["min_s"])
                    if not args.mpi:
                        few, many = 3, 3 + args.repeat
                        words = ["run", plan, *where, "--fill", "rand", "--print", "none", "--repeat"]
                        extra = processor_seconds([*words, str(many)]) - processor_seconds([*words, str(few)])
                        busy.append(extra / args.repeat / min(ranks, cores))
                simulated, fastest = statistics.median(found), min(real)
                line = f"{graph:8} {mesh:5} {simulated * 1e3:8.2f} ms {fastest * 1e3:8.2f} ms {simulated / fastest:7.2f}"
                if busy:
                    line += f" {statistics.median(busy) * 1e3:8.2f} ms {simulated / statistics.median(busy):7.2f}"
                print(line, flush=True)


main()
