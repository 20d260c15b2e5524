# The cases of every op with one size made larger, on the simulated GPU: rows and columns that take several rounds of a block, rests
# behind whole accesses, more than one tile. As on the CPU.
# SPDX-License-Identifier: Apache-2.0
"""usage: larger_on_gpu.py [--write] [OP...]       needs python3 with numpy; opc comes from OPC_BUILD_DIR

tests/conformance/larger.txt has what is run: OP CASE FROM>TO, and whether attributes of that size grow, too. Each line is run in every type
that the op has a GPU kernel for, by the CPU and by the simulator (its options: OPC_TEST_SIM, too). --write tries all sizes of all cases on
the CPU, and writes down those that it takes.
"""
import copy
import math
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from driver import Graph, tolerance, need_simulator
from elementwise_on_gpu import kernel_ops
from registry_cases import DTYPES, FLOATING, from_dtype, instances, load_registry, opc_binary, to_dtype

LISTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "larger.txt")
MOST = 4000  # elements of a tensor
# Five rounds of 256 threads and one, and what fits instead.
SIZES = (1281, 641, 289, 161, 97, 71, 37)


def replaced(value, old, new):
    if isinstance(value, list):
        return [replaced(v, old, new) for v in value]
    return new if type(value) is int and value == old else value


def larger(case, old, new, with_attrs):
    made = copy.deepcopy(case)
    for given in made["inputs"]:
        given["shape"] = replaced(given["shape"], old, new)
    if with_attrs:
        for attr in made.get("attrs", {}).values():
            attr["value"] = replaced(attr["value"], old, new)
    return made


def sizes(case, all_sizes=True):
    """(size, a larger one) for each size of the case's inputs, or for that of the last one alone."""
    found = {}
    for old in sorted({d for given in case["inputs"] for d in given["shape"] if d > 1}):
        for new in SIZES:
            if max(math.prod(replaced(list(given["shape"]), old, new)) for given in case["inputs"]) <= MOST:
                found[old] = new
                break
    return list(found.items())[0 if all_sizes else -1 :]


def values(made):
    """The same for each run; integers that are indices stay in the range that the case gives."""
    rng = np.random.default_rng(11)
    found = {}
    for arg, index, dtype, shape, lo, hi in made.inputs():
        found[f"{made.name}|in|{arg}|{index}|{dtype}"] = to_dtype(rng.uniform(lo, hi, shape), dtype)
    return found


def results(list_, *device):
    """{end: array}, or what opc said."""
    with tempfile.TemporaryDirectory() as folder:
        graph = Graph()
        for number, made in enumerate(list_):
            graph.add(number, made, values(made))
        path = os.path.join(folder, "graph.pbtxt")
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(graph.ops) + "\n")
        command = [opc_binary(), "run", path, "--no-fuse", "--print", "none", "--outputs", os.path.join(folder, "out"), *device]
        for option, tensors in (("--inputs", graph.inputs), ("--weights", graph.variables)):
            if tensors:
                np.savez(os.path.join(folder, option[2:] + ".npz"), **tensors)
                command += [option, os.path.join(folder, option[2:] + ".npz")]
        sim = ",".join(filter(None, ["policy=late", os.environ.get("OPC_TEST_SIM")]))
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=dict(os.environ, CUDA_SIM=sim))
        if done.returncode:
            return done.stderr
        return [(made, arg, np.load(os.path.join(folder, "out", f"{end}.npy"))) for made, arg, _, end in graph.wanted]


def wrong(op, got, want):
    """None, or how the arrays differ: floats by more than the op's bounds of what the largest element is."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
    dtype = "bf16" if want.dtype == np.dtype("V2") else next(n for n, (_, kind) in DTYPES.items() if n != "bf16" and np.dtype(kind) == want.dtype)
    x, y = (from_dtype(a.view(np.uint16) if dtype == "bf16" else a, dtype) for a in (got, want))
    bad = x != y
    if dtype in FLOATING:
        rtol, atol = tolerance(op, dtype)
        finite = np.abs(y[np.isfinite(y)])
        with np.errstate(invalid="ignore"):
            bad &= ~((np.abs(x - y) <= 2 * (atol + rtol * finite.max(initial=0))) | (np.isnan(x) & np.isnan(y)))
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size} values differ, first at {at}: {x[at]!r}, expected {y[at]!r}"


def instances_of(op, case):
    return list(instances(dict(op, cases=[case]), "gpu"))


def failures(line, op):
    """What is wrong with the op in the case and size of a line."""
    _, name, change, grown = line.split()
    base = next((c for c in op["cases"] if c["name"] == name), None)
    if base is None:
        return [f"{line}: the op has no such case"]
    old, new = (int(n) for n in change.split(">"))
    list_ = instances_of(op, larger(base, old, new, grown == "all"))
    cpu, sim = results(list_), results(list_, "--device", "sim")
    if isinstance(cpu, str) or isinstance(sim, str):
        return [f"{line}: {said}" for said in (cpu, sim) if isinstance(said, str)]
    found = ((made, arg, wrong(op, got, want)) for (made, arg, want), (_, _, got) in zip(cpu, sim))
    return [f"{line} {made.dtype} output {arg}: {text}" for made, arg, text in found if text]


def tried(op):
    """The lines of an op."""
    found = []
    for number, case in enumerate(op["cases"]):
        for old, new in sizes(case, number == 0):
            for grown in ("all", "shapes"):
                list_ = instances_of(op, larger(case, old, new, grown == "all"))[:1]
                if list_ and not isinstance(results(list_), str):
                    found.append(f"{op['name']} {case['name']} {old}>{new} {grown}")
                    break
    return found


def write(ops):
    with ThreadPoolExecutor(2) as pool:
        lines = [line for found in pool.map(tried, ops) for line in found]
    with open(LISTED, "w", encoding="utf-8") as f:
        f.write("# Cases of ops in larger sizes, which larger_on_gpu.py --write has found: OP CASE FROM>TO, in shapes alone or in attributes, too.\n")
        f.write("".join(line + "\n" for line in lines))
    return 0


def main(arguments):
    need_simulator()
    names = [a for a in arguments if a != "--write"]
    # Elementwise ops are the other script's, and views have no kernel.
    ops = {op["name"]: op for op in load_registry() if not op.get("expression") and not op.get("view") and (not names or op["name"] in names)}
    if "--write" in arguments:
        elementwise = {op["name"] for op in kernel_ops(ops.values(), [])}
        return write([op for name, op in ops.items() if name not in elementwise and any(k["device"] == "gpu" for k in op["kernels"])])
    with open(LISTED, encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    lines = [line for line in lines if not names or line.split()[0] in names]
    gone = sorted({line.split()[0] for line in lines} - set(ops))
    with ThreadPoolExecutor(2) as pool:
        found = [text for texts in pool.map(lambda line: failures(line, ops[line.split()[0]]), [ln for ln in lines if ln.split()[0] in ops]) for text in texts]
    for text in found + gone:
        print("FAIL", text)
    print(f"larger_on_gpu: {len(lines)} cases, {len(found) + len(gone)} failures")
    return 1 if found or gone or not lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
