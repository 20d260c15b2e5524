# Every elementwise op and derived gradient on the simulated GPU, at sizes of whole accesses with a rest and in broadcasts of many
# dimensions, with special values: as on the CPU.
# SPDX-License-Identifier: Apache-2.0
"""usage: elementwise_on_gpu.py [OP...]       needs python3 with numpy and mpmath; opc comes from OPC_BUILD_DIR

Each op runs in every type that it has a kernel for, in one graph for the CPU and for the simulator (its options: OPC_TEST_SIM, too).
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from driver import Graph, compare, need_simulator
from elementwise_sweep import instance, instances_of
from registry_cases import DTYPES, FLOATING, from_dtype, load_registry, opc_binary

# 250 accesses of four elements, and three elements behind them: more than one block.
FLAT = 1003
AT_ONCE = 60  # instances in a graph
# No two neighbours can be merged.
BOXES = ((3, 1, 2, 1, 2, 5), (1, 4, 1, 3, 1, 5), (3, 4, 2, 3, 2, 1))


def judged(made, shape):
    """Where results are compared: for ops of the registry everywhere, for derived gradients where no operand is extreme."""
    if "derived" not in made.op or made.dtype not in FLOATING:
        return np.ones(shape, bool)
    given = [np.abs(from_dtype(v, made.dtype)) for v in made.values if v.dtype != bool]
    return np.logical_and.reduce([np.broadcast_to((x <= 12) & ((x >= 1e-3) | (x == 0)), shape) for x in given])


def broadcast(made):
    """The same operands in boxes that are broadcast to 3 x 4 x 2 x 3 x 2 x 5."""
    boxes = [np.resize(values, BOXES[k % len(BOXES)]) for k, values in enumerate(made.values)]
    own = {k: i.get("dtype") for k, i in enumerate(made.case["inputs"])}
    return instance(made.op, made.case, made.dtype, boxes, own)


def results(graph, folder, *device):
    path = os.path.join(folder, "graph.pbtxt")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(graph.ops) + "\n")
    np.savez(os.path.join(folder, "in.npz"), **graph.inputs)
    sim = ",".join(filter(None, ["policy=late", os.environ.get("OPC_TEST_SIM")]))
    done = subprocess.run([opc_binary(), "run", path, "--no-fuse", "--print", "none", "--inputs", os.path.join(folder, "in.npz"), "--outputs",
                           os.path.join(folder, "out"), *device], capture_output=True, text=True, timeout=600, env=dict(os.environ, CUDA_SIM=sim))
    if done.returncode:
        return None, done.stderr
    return {end: np.load(os.path.join(folder, "out", f"{end}.npy")) for _, _, _, end in graph.wanted}, ""


def expected(array, made):
    """The CPU's output as numbers, and its type."""
    if array.dtype == np.dtype("V2"):
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64), "bf16"
    return array, next(n for n, (_, kind) in DTYPES.items() if n != "bf16" and np.dtype(kind) == array.dtype)


def failures(list_):
    """What differs of some instances; of an op that takes equal shapes only, those are left out that are broadcast."""
    if not list_:
        return []
    with tempfile.TemporaryDirectory() as folder:
        graph = Graph()
        for number, made in enumerate(list_):
            given = {f"{made.name}|in|{arg}|{index}|{dtype}": array for (arg, index, dtype, *_), array in zip(made.inputs(), made.values)}
            graph.add(number, made, given)
        cpu, said = results(graph, folder)
        refused = set(re.findall(r"error\[OPC0203\]: (\w+): the shapes", said))  # ops that do not broadcast
        if cpu is None and refused:
            return failures([made for made in list_ if made.values[0].ndim == 1 or made.op["name"] not in refused])
        if cpu is None:
            return [f"{list_[0].op['name']}: the CPU says {said}"]
        sim, said = results(graph, folder, "--device", "sim")
        if sim is None:
            return [f"{list_[0].op['name']}: the simulator says {said}"]
    found = []
    for made, _, _, end in graph.wanted:
        want, dtype = expected(cpu[end], made)
        where = judged(made, want.shape)
        wrong = compare(made.op, sim[end][where], want[where], dtype)
        if wrong:
            found.append(f"{made.op['name']} {made.dtype} {made.case['name']} {[v.shape for v in made.values]}: {wrong}")
    return found


def kernel_ops(registry, names):
    """The ops that elementwise device code was written for; derived gradients, which no list has, are asked for."""
    folder = os.path.join(os.environ["OPC_BUILD_DIR"], "kernels", "cuda", "code")
    known = {op["name"]: op for op in registry}
    found = set()
    for file in os.listdir(folder):
        if file.startswith("elementwise_") and file.endswith(".cu"):
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                found.update(re.findall(r"OPC_ELEMENTWISE_KERNEL\(ew_[0-9a-f]{16}_[a-z0-9]+_[a-z0-9]+_(\w+),", f.read()))
    for name in sorted(found if not names else found & set(names)):
        shown = [opc_binary(), "ops", "show", name, "--json"]
        yield known.get(name) or dict(json.loads(subprocess.run(shown, check=True, capture_output=True, text=True).stdout)["op"], derived=True)


def main(names):
    need_simulator()
    by_type, ops = {}, list(kernel_ops(load_registry(), names))
    for op in ops:
        on_gpu = dict(op, kernels=[k for k in op["kernels"] if k["device"] == "gpu"])
        for made in instances_of(on_gpu, FLAT):
            by_type.setdefault(made.dtype, []).append(made)
    jobs = []
    for list_ in by_type.values():
        list_ += [broadcast(made) for made in list_ if len(made.values) > 1]
        jobs += [list_[at : at + AT_ONCE] for at in range(0, len(list_), AT_ONCE)]
    with ThreadPoolExecutor(2) as pool:
        found = [text for texts in pool.map(failures, jobs) for text in texts]
    for text in found:
        print("FAIL", text)
    print(f"elementwise_on_gpu: {len(ops)} ops, {len(by_type)} types, {sum(map(len, jobs))} instances, {len(found)} failures")
    return 1 if found or not jobs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
