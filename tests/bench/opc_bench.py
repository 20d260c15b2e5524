# opc-bench answers: its rows, its JSON, and the commands by which tools/bench_models.py drives it. No time is judged.
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.environ["OPC_SOURCE_DIR"], "tools"))
import bench_floor  # noqa: E402
import bench_training  # noqa: E402

BENCH = pathlib.Path(os.environ["OPC_BUILD_DIR"]) / "bin/opc-bench"
GRAPH = """
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 3 } data_type: kFloat } } }
op { name: "s" user_conf { op_type_name: "scalar_add" input { key: "in" value { s: "x/out" } }
  output { key: "out" value { s: "s/out_0" } } attr { key: "has_float_operand" value { at_bool: true } }
  attr { key: "float_operand" value { at_double: 0.5 } } } }
op { name: "y" output_conf { in: "s/out_0" out: "out" } }
"""
errors = []


def require(what, ok):
    if not ok:
        errors.append(what)


def run(args, text=""):
    return subprocess.run([str(BENCH), *args], input=text, capture_output=True, text=True)


def rows():
    names = run(["--list"]).stdout.split()
    for wanted in ("kernel/matmul_64_t1", "kernel/conv_3x3_64-64@56_nchw_t2", "kernel/attention_8x128x64_t1"):
        require(f"--list names {wanted}", wanted in names)
    done = run(["--filter", "kernel/matmul_64_t1", "--json"])
    row = json.loads(done.stdout)["rows"][0]
    require("a measured row", done.returncode == 0 and row["name"] == "kernel/matmul_64_t1" and row["value"] > 0)
    require("its reference and ratio", row["reference_name"] == "oneDNN" and abs(row["ratio"] - row["value"] / row["reference"]) < 1e-9)
    row = json.loads(run(["--filter", "error/exp", "--json"]).stdout)["rows"][0]
    # As the sweep has it: tests/conformance/ulp_bounds.json.
    require("the error of a function, and oneDNN's", row["unit"] == "ulp" and 0.5 <= row["value"] <= 1.5 and row["reference_name"] == "oneDNN" and row["reference"] > 0.5)
    require("error/erf in the list, and what compiling costs", {"error/erf", "codegen/50_regions", "memory/chain_0_of_3_t1_unfused"} <= set(names))
    require("a filter that matches nothing is a slip", run(["--filter", "nothing"]).returncode == 2)


def worker(folder):
    graph, x, y = folder / "g.pbtxt", folder / "x.npy", folder / "y.npy"
    graph.write_text(GRAPH)
    np.save(x, np.array([1, 2, 3], "f4"))
    base = ["model", "--graph", str(graph), "--input", f"x={x}"]
    done = run(base, f"run 3\noutput y {y}\nmemory\nquit\n")
    ready, times, written, memory = map(json.loads, done.stdout.splitlines())
    require("ready first", ready["ready"] and done.returncode == 0)
    require("a time for each run", len(times["times"]) == 3 and min(times["times"]) > 0)
    require("the output", written["written"] == str(y) and np.load(y).tolist() == [1.5, 2.5, 3.5])
    require("memory", memory["VmHWM"] >= memory["VmRSS"] > 0)
    for text in ("jump\n", "output z /dev/null\n", f"output y {folder}/no/y.npy\n"):
        done = run(base, "run 1\n" + text)
        require(f"an error for {text!r}", done.returncode == 1 and done.stderr.startswith("opc-bench: "))
    for args in (["--graph", "missing.pbtxt"], ["--graph", str(graph), "--input", "x"], ["--graph", str(graph), "--weights", str(x)]):
        done = run(["model", *args])
        require(f"an error for {args}", done.returncode == 1 and "opc-bench: " in done.stderr)
    require("usage", run(["model"]).returncode == 2)


def floor(folder):
    """What tools/bench_models.py and bench_training.py print beside times: operations are counted, of steps those of all products."""
    variable = '{ name: "%s" variable_conf { out: "out" shape { dim: 64 dim: 48 } data_type: kFloat initializer { constant_conf { value: 0.1 } } } }'
    (folder / "model.pbtxt").write_text(
        'op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 8 dim: 64 } data_type: kFloat } } }\n' + f'op {variable % "w"}\n'
        'op { name: "m" user_conf { op_type_name: "broadcast_matmul" input { key: "a" value { s: "x/out" } } input { key: "b" value { s: "w/out" } } } }\n'
        'op { name: "q" user_conf { op_type_name: "square" input { key: "x" value { s: "m/out_0" } } } }\n'
        'op { name: "y" output_conf { in: "q/y_0" out: "out" } }\n')
    args = argparse.Namespace(build=pathlib.Path(os.environ["OPC_BUILD_DIR"]), folder=folder)
    model = bench_floor.of_model(args, folder / "model.pbtxt", 1)
    flops, weights = 2 * 16 * 64 * 48, 4 * 64 * 48
    require("the operations and weights of a model", (model["flops"], model["weight_bytes"]) == (flops, weights))
    require("its floor is no more than at the best rate", model["floor_ms"] >= flops / model["best_gflops"] / 1e6 * 0.999)
    (folder / "model.pbtxt").rename(folder / "model_b1.pbtxt")
    step = bench_floor.of_step(args, bench_training.training_graph(args, "model", 1), 1)
    require("a step has the product and the gradient by its weight", step["flops"] == 2 * flops)
    require("and the traffic of an update", step["optimizer_bytes"] == 3 * weights)


def main():
    rows()
    with tempfile.TemporaryDirectory() as folder:
        worker(pathlib.Path(folder))
        floor(pathlib.Path(folder))
    print("\n".join("FAIL " + e for e in errors) or "opc-bench answers")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
