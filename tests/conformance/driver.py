# The conformance driver: runs every op of the registry in every case and element type through `opc run`.
# SPDX-License-Identifier: Apache-2.0
"""usage: driver.py [-v] [--sim OPTIONS] [OP...]       needs python3 with numpy; the commands come from OPC_BUILD_DIR or
OPC_BINARY

An op, case and element type with a CPU kernel must have a vector (tests/conformance/vectors, made by make_vectors.py),
and opc's outputs must equal it within the op's tolerance for that type, or the table of element types. With --sim the
same for the kernels for GPUs, on the simulated one: OPTIONS are those of CUDA_SIM ("policy=random,seed=1").
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from registry_cases import DTYPES, FLOATING, TOLERANCE, file_array, from_dtype, instances, load_registry, opc_binary, to_dtype, vector_path
from statistics_checks import STATISTICS


def need_simulator():
    """That of tests/cli, which is asked for where a simulator is wanted alone: this folder also runs without the other ones."""
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
    import gpu_build

    gpu_build.need_simulator()


# So many instances at least have a graph together.
BATCH = 200
# Ops without cases, with the reason.
WITHOUT_CASES = {
    "if": "its graphs are run by a plan: tests/onnx/control_flow.py",
    "loop": "its graphs are run by a plan: tests/onnx/control_flow.py",
    "batch_parts": "its graph is run by a plan: tests/cli/batch_parts.py",
}


class Graph:
    """The text of a graph that holds several independent instances, and the tensors to feed it."""

    def __init__(self):
        self.ops, self.inputs, self.variables, self.wanted = [], {}, {}, []

    def add(self, number, instance, vectors):
        prefix = f"i{number}"
        conf = [f'op_type_name: "{instance.op["name"]}"']
        bound, mutable = {}, instance.mutable()
        for arg, index, dtype, shape, _, _ in instance.inputs():
            name = f"{prefix}_{arg}_{index}"
            dims = " ".join(f"dim: {d}" for d in shape)
            described = f"shape {{ {dims} }} data_type: {DTYPES[dtype][0]}"
            if arg in mutable:
                self.ops.append(f'op {{ name: "{name}" variable_conf {{ out: "out" {described} }} }}')
            else:
                self.ops.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ {described} }} }} }}')
            (self.variables if arg in mutable else self.inputs)[name] = file_array(vectors[f"{instance.name}|in|{arg}|{index}|{dtype}"], dtype)
            bound.setdefault(arg, []).append(f"{name}/out")
        for arg, tensors in bound.items():
            conf.append(f'input {{ key: "{arg}" value {{ ' + " ".join(f's: "{x}"' for x in tensors) + " } }")
        ends = []
        for arg in mutable:
            end = f"{prefix}_out_{arg}_0"
            ends.append(f'op {{ name: "{end}" output_conf {{ in: "{prefix}_{arg}_0/out" out: "out" }} }}')
            self.wanted.append((instance, arg, 0, end))
        for arg, count in instance.outputs().items():
            if arg in mutable:
                continue
            conf.append(f'output {{ key: "{arg}" value {{ ' + " ".join(f's: "{prefix}/{arg}_{i}"' for i in range(count)) + " } }")
            for i in range(count):
                end = f"{prefix}_out_{arg}_{i}"
                ends.append(f'op {{ name: "{end}" output_conf {{ in: "{prefix}/{arg}_{i}" out: "out" }} }}')
                self.wanted.append((instance, arg, i, end))
        for name, attr in instance.attrs().items():
            conf.append(f'attr {{ key: "{name}" value {{ {attr.text()} }} }}')
        self.ops.append(f'op {{ name: "{prefix}" user_conf {{ {" ".join(conf)} }} }}')
        self.ops += ends

    def run(self, folder, sim=None):
        """Exit code and what opc said; outputs are in folder/out."""
        graph = os.path.join(folder, "graph.pbtxt")
        with open(graph, "w") as f:
            f.write("\n".join(self.ops) + "\n")
        command = [opc_binary(), "run", graph, "--no-fuse", "--outputs", os.path.join(folder, "out"), "--print", "none"]
        if self.inputs:
            np.savez(os.path.join(folder, "in.npz"), **self.inputs)
            command += ["--inputs", os.path.join(folder, "in.npz")]
        if self.variables:
            np.savez(os.path.join(folder, "variables.npz"), **self.variables)
            command += ["--weights", os.path.join(folder, "variables.npz")]
        environment = dict(os.environ)
        if sim is not None:
            command += ["--device", "sim"]
            environment["CUDA_SIM"] = sim
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        return done.returncode, done.stderr


def tolerance(op, dtype):
    own = (op.get("tolerances") or {}).get(dtype)
    if isinstance(own, dict):
        return own["rtol"], own["atol"]
    return tuple(own) if own else TOLERANCE[dtype]


def compare(op, got, want, dtype):
    """None, or what is wrong."""
    kind = np.dtype("V2") if dtype == "bf16" else np.dtype(DTYPES[dtype][1])
    if got.dtype != kind:
        return f"element type {got.dtype}, expected {dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    x = from_dtype(got.view(np.uint16) if dtype == "bf16" else got, dtype)
    want = want.astype(x.dtype)
    if dtype not in FLOATING:
        wrong = x != want
    else:
        rtol, atol = tolerance(op, dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            limit = {"f16": 65504.0, "bf16": 3.39e38, "f32": 3.4028235e38}.get(dtype, np.inf)
            want = np.where(np.abs(want) > limit * (1 + 2.0**-12), np.copysign(np.inf, want), want)
            wrong = ~((np.abs(x - want) <= atol + rtol * np.abs(want)) | (x == want) | (np.isnan(x) & np.isnan(want)))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} values differ, first at {at}: {x[at]!r}, expected {want[at]!r}"


def prepared(op, sim=None):
    """What is to be run of an op, as instances with their vectors; what is wrong before that; and how many instances there are."""
    found = list(instances(op, "cpu" if sim is None else "gpu"))
    if not found and (sim is not None or op["name"] in WITHOUT_CASES):
        return [], [], 0
    if not found:
        return [], [f"{op['name']}: " + ("no CPU kernel takes its cases' element types" if op["cases"] else "has no cases (.Cases in its definition)")], 0
    if op["name"] in STATISTICS:
        vectors = {}
        for i in found:
            rng = np.random.default_rng(1)
            for arg, index, dtype, shape, lo, hi in i.inputs():
                vectors[f"{i.name}|in|{arg}|{index}|{dtype}"] = to_dtype(rng.uniform(lo, hi, shape), dtype)
        return [(i, vectors) for i in found], [], len(found)
    if not os.path.exists(vector_path(op["name"])):
        return [], [f"{op['name']}: no vectors; add a reference and run make_vectors.py {op['name']}"], len(found)
    vectors = dict(np.load(vector_path(op["name"])))
    meta = json.loads(bytes(vectors["meta"]).decode())
    failures, ready = [], []
    for i in found:
        if i.name not in meta:
            failures.append(f"{op['name']} {i.name}: no vector; run make_vectors.py {op['name']}")
        elif meta[i.name] != i.fingerprint():
            failures.append(f"{op['name']} {i.name}: the case has changed since its vector was made; run make_vectors.py {op['name']}")
        else:
            ready.append((i, vectors))
    return ready, failures, len(found)


def parts(batch):
    """Of a graph that fails, to find the culprits: ops, then instances."""
    ops = list(dict.fromkeys(i.op["name"] for i, _ in batch))
    return [[pair for pair in batch if pair[0].op["name"] == op] for op in ops] if len(ops) > 1 else [[pair] for pair in batch]


def attempt(batch, sim=None):
    """(instance, what is wrong with it), after one run of a graph of all of them."""
    vectors_of, random = {i: vectors for i, vectors in batch}, {}
    with tempfile.TemporaryDirectory() as folder:
        graph = Graph()
        for n, (i, vectors) in enumerate(batch):
            graph.add(n, i, vectors)
        code, said = graph.run(folder, sim)
        if code != 0 and len(batch) == 1:
            yield batch[0][0], f": opc run gave exit code {code}:\n    " + said.strip().replace("\n", "\n    ")
        if code != 0:
            for part in parts(batch) if len(batch) > 1 else ():
                yield from attempt(part, sim)
            return
        for i, arg, index, end in graph.wanted:
            got = np.load(os.path.join(folder, "out", f"{end}.npy"))
            if i.op["name"] in STATISTICS:
                stored = got.view(np.uint16) if got.dtype == np.dtype("V2") else got
                random.setdefault(i, {})[arg] = from_dtype(stored, "bf16") if stored is not got else got.astype(np.float64)
                continue
            begin = f"{i.name}|out|{arg}|{index}|"
            keys = [k for k in vectors_of[i] if k.startswith(begin)]
            wrong = compare(i.op, got, vectors_of[i][keys[0]], keys[0].rsplit("|", 1)[1]) if keys else "no expected values"
            if wrong:
                yield i, f" output {arg}_{index}: {wrong}"
    for i, outputs in random.items():
        inputs = {arg: from_dtype(vectors_of[i][f"{i.name}|in|{arg}|{index}|{dtype}"], dtype) for arg, index, dtype, *_ in i.inputs()}
        wrong = STATISTICS[i.op["name"]](i.all_attrs(), inputs, outputs)
        if wrong:
            yield i, f": {wrong}"


def checked(ops, sim=None):
    """(op, failures, instances that passed, instances that there are). Ops share graphs: most of an op's seconds are those of a process."""
    batch, waiting = [], []
    for op in ops:
        ready, failures, count = prepared(op, sim)
        waiting.append((op, failures, len(ready), count))
        batch += ready
        if len(batch) < BATCH and op is not ops[-1]:
            continue
        wrong = {}
        for i, text in attempt(batch, sim) if batch else ():
            wrong.setdefault(i.op["name"], []).append((i, text))
        for known, failures, tried, count in waiting:
            found = wrong.get(known["name"], [])
            yield known, failures + [f"{known['name']} {i.name}{text}" for i, text in found], tried - len({i for i, _ in found}), count
        batch, waiting = [], []


def main(argv):
    verbose = "-v" in argv
    sim = None
    if "--sim" in argv:
        at = argv.index("--sim")
        sim, argv = argv[at + 1], argv[:at] + argv[at + 2 :]
        need_simulator()
    names = [a for a in argv if a != "-v"]
    ops = [o for o in load_registry() if not names or o["name"] in names]
    if not ops:
        print("conformance: the registry has no such op", file=sys.stderr)
        return 1
    failures, passed = [], 0
    for op, f, p, count in checked(ops, sim):
        failures += f
        passed += p
        if verbose:
            print(f"{op['name']}: {p} of {count}")
    for f in failures:
        print("FAIL", f)
    if sim is not None and not names and passed < 7500:
        failures.append(f"only {passed} instances ran on the simulated GPU")
        print("FAIL", failures[-1])
    print(f"conformance: {len(ops)} ops, {passed} instances passed, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
