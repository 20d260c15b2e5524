#!/usr/bin/env python3
# Writes tests/compat/VERSION: a graph, a plan, checkpoints and a plugin as the given build makes them, with the numbers they give.
#
#   tests/compat/make_version.py BUILD [--renew]
#
# BUILD is a build folder; the folder's name is what its `opc --version` says. --renew writes a folder again that is
# there already: only for a version that has not been released.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent

# A perceptron with a constant, a reshape and a cast: what a small graph has in variety.
GRAPH = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 6 } data_type: kFloat } } }
op { name: "w1" variable_conf { out: "out" shape { dim: 5 dim: 6 } data_type: kFloat initializer { random_normal_conf { std: 0.5 } } random_seed: 3 } }
op { name: "b1" variable_conf { out: "out" shape { dim: 5 } data_type: kFloat initializer { constant_conf { value: 0.1 } } } }
op { name: "w2" variable_conf { out: "out" shape { dim: 3 dim: 5 } data_type: kFloat initializer { random_normal_conf { std: 0.5 } } random_seed: 4 } }
op { name: "fc1" user_conf { op_type_name: "matmul" input { key: "a" value { s: "x/out" } } input { key: "b" value { s: "w1/out" } }
  output { key: "out" value { s: "fc1/out_0" } } attr { key: "transpose_b" value { at_bool: true } } } }
op { name: "bias" user_conf { op_type_name: "bias_add" input { key: "a" value { s: "fc1/out_0" } } input { key: "b" value { s: "b1/out" } }
  output { key: "out" value { s: "bias/out_0" } } attr { key: "axis" value { at_int32: 1 } } } }
op { name: "act" user_conf { op_type_name: "gelu" input { key: "in" value { s: "bias/out_0" } } output { key: "out" value { s: "act/out_0" } } } }
op { name: "fc2" user_conf { op_type_name: "matmul" input { key: "a" value { s: "act/out_0" } } input { key: "b" value { s: "w2/out" } }
  output { key: "out" value { s: "fc2/out_0" } } attr { key: "transpose_b" value { at_bool: true } } } }
op { name: "prob" user_conf { op_type_name: "softmax" input { key: "in" value { s: "fc2/out_0" } } output { key: "out" value { s: "prob/out_0" } } } }
op { name: "y" output_conf { in: "prob/out_0" out: "out" } }
"""
LOSS = """op { name: "square" user_conf { op_type_name: "square" input { key: "x" value { s: "prob/out_0" } } output { key: "y" value { s: "square/y_0" } } } }
op { name: "loss" output_conf { in: "square/y_0" out: "out" } }
"""
PLUGIN_GRAPH = """op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 } data_type: kFloat } } }
op { name: "twice" user_conf { op_type_name: "compat_twice" input { key: "in" value { s: "x/out" } } output { key: "out" value { s: "twice/out_0" } } } }
op { name: "y" output_conf { in: "twice/out_0" out: "out" } }
"""


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"make_version: {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def make_plugin(opc, folder):
    """twice.so, of the SDK that the build has."""
    cxx = os.environ.get("OPC_PLUGIN_CXX", "g++")
    flags = shlex.split(run(opc, "sdk", "--cflags"))
    # No rpath: the library of whoever loads it.
    link = [f for f in shlex.split(run(opc, "sdk", "--ldflags")) if "-rpath" not in f]
    small = ["-Os", "-s", "-ffunction-sections", "-fdata-sections", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
             "-Wl,--gc-sections,-z,noseparate-code,-z,norelro", f"-ffile-prefix-map={HERE}/="]
    run(cxx, "-shared", "-fPIC", *small, *flags, HERE / "twice.cpp", "-o", folder / "twice.so", *link)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--renew"]
    if len(arguments) != 1:
        sys.exit("usage: make_version.py BUILD [--renew]")
    opc = pathlib.Path(arguments[0]).resolve() / "bin/opc"
    version = json.loads(run(opc, "--version", "--json"))
    folder = HERE / version["version"]
    if folder.exists():
        if "--renew" not in sys.argv:
            sys.exit(f"make_version: {folder} is there; --renew writes it again, which is right before its release only")
        shutil.rmtree(folder)
    folder.mkdir()
    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    data = np.random.default_rng(2).normal(size=(16, 6)).astype(np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "data.npy", data)
    (folder / "graph.pbtxt").write_text(GRAPH)
    common = ["--config", "none", "-q"]
    run(opc, "compile", "graph.pbtxt", "--to", "import", "--emit", "pb", "-o", "graph.pb", *common, cwd=folder)
    run(opc, "compile", "graph.pbtxt", "-o", "graph.plan", *common, cwd=folder)
    run(opc, "run", "graph.pbtxt", "--input", "x=@x.npy", "--output", "y=y.npy", "--print", "none", *common, cwd=folder)
    # A training run that stops half way, and what it would have come to.
    run(opc, "grad", "-", "--loss", "loss", "--optimizer", "adam", "--lr", "0.01", "-o", "train.pbtxt", *common, cwd=folder,
        input=GRAPH + LOSS)
    feed = ["--feed-dataset", "x=@data.npy", "--batch", "4", "--shuffle", "--seed", "5"]
    run(opc, "run", "train.pbtxt", *feed, "--epochs", "2", "--save", "half.safetensors", *common, cwd=folder)
    run(opc, "run", "train.pbtxt", *feed, "--epochs", "4", "--save", "whole.safetensors", *common, cwd=folder)

    (folder / "plugin.pbtxt").write_text(PLUGIN_GRAPH)
    make_plugin(opc, folder)
    header = (folder / "graph.plan").read_bytes()[8:12]
    facts = {"version": version["version"], "plan_format": int.from_bytes(header, "little"), "sdk_api": version["sdk_api"]}
    (folder / "version.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"{folder}: {sum(f.stat().st_size for f in folder.iterdir())} bytes")


if __name__ == "__main__":
    main()
