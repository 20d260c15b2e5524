# Every gradient against central differences: each op of the registry, in each of its cases, through opc grad --check.
# SPDX-License-Identifier: Apache-2.0
"""usage: gradients.py [-v] [--order 2 | --type T] [OP...]       needs python3 with numpy; the commands come from OPC_BUILD_DIR

For an op with a gradient (a rule or a derived one) a graph is made of all its cases with f64 kernels. The losses are its
floating outputs, which opc weights at random; all floating inputs are differentiated. With --order 2 the gradients
themselves are differentiated once more. With --type (f32, f16 or bf16) the backward graphs of the cases in that type are made
and run: what they compute, the kernels' vectors judge; here no rule may mix types or want a kernel that is not there. Every op must have a gradient or say why not (NoGrad).
"""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

from driver import Graph
from registry_cases import DTYPES, file_array, instances, load_registry, opc_binary, vector_path

# Cases that differences cannot judge, with the reason.
NOT_CHECKED = {
    "dropout half": "the mask is drawn anew in every run",
    "bernoulli": "random",
    "grid_sample_grad_grad": "opc grad says that there is no third derivative",
    **dict.fromkeys(("lstm_grad", "gru_grad", "rnn_grad"), "opc grad says that there is no second derivative"),
    **dict.fromkeys(("roi_align_grad largest", "roi_align_grad adaptive_largest"), "opc grad says that there is no second derivative"),
}
# Inputs that the op declares to be without gradient.
NO_GRADIENT = {("nll", "weight"), ("nll_grad", "weight"), ("roi_align", "rois"), ("roi_align_grad", "rois")}


def has_gradient(instance, arg):
    if instance.op["name"] == "normalization" and arg.startswith("moving_"):
        return not instance.all_attrs().get("training")
    return (instance.op["name"], arg) not in NO_GRADIENT


# No second order, of an op or of a case, with the reason.
FIRST_ORDER_ONLY = {
    "grid_sample_grad": "opc grad says that there is no third derivative",
    **dict.fromkeys(("lstm", "gru", "rnn"), "opc grad says that there is no second derivative"),
    **dict.fromkeys(("roi_align largest", "roi_align adaptive_largest"), "opc grad says that there is no second derivative"),
}

# Products: polynomials, whose derivatives are checked with zeros among the factors, too, up to the order given.
WITH_ZEROS = {"cumprod": 2, "cumprod_grad": 2, "reduce_prod": 2, "reduce_prod_grad": 2, "linear_scan": 2, "dim_scatter_mul": 2,
              "dim_scatter_mul_grad": 1, "multiply": 2, "broadcast_mul": 2}


def inputs_of(instance, vectors, rng):
    """The case's inputs: those of its vector, or random ones."""
    found = {}
    for arg, index, dtype, shape, lo, hi in instance.inputs():
        key = f"{instance.name}|in|{arg}|{index}|{dtype}"
        if key not in vectors:
            values = rng.uniform(lo, hi, shape)
            vectors[key] = values.astype(DTYPES[dtype][1]) if dtype != "bool" else values > (lo + hi) / 2
        found[(arg, index)] = vectors[key]
    return found


def check(op, order, verbose, dtype="f64", zeros=False):
    """None, or what opc said."""
    floats = ("f64",) if dtype == "f64" else (dtype, "f32")
    vectors = dict(np.load(vector_path(op["name"]))) if os.path.exists(vector_path(op["name"])) else {}
    rng = np.random.default_rng(1)
    graph, wrt, losses, count = Graph(), [], [], 0
    left_out = NOT_CHECKED if order == 1 else {**NOT_CHECKED, **FIRST_ORDER_ONLY}
    for n, instance in enumerate(instances(op)):
        if instance.dtype not in (dtype, "fixed") or f"{op['name']} {instance.case['name']}" in left_out or op["name"] in left_out:
            continue
        inputs_of(instance, vectors, rng)
        floating = [f"i{n}_{arg}_{index}" for arg, index, kind, shape, _, _ in instance.inputs()
                    if kind in floats and has_gradient(instance, arg) and np.prod(shape) > 0]
        stored = {tuple(k.split("|")[-3:]) for k in vectors if k.startswith(f"{instance.name}|out|")}
        made = [f"i{n}/{arg}_{i}" for arg, many in instance.outputs().items() if arg not in instance.mutable() for i in range(many)
                if any((arg, str(i), kind) in stored for kind in floats) or not stored and arg != "mask"]
        if not floating or not made:
            continue
        if zeros:
            for key in vectors:
                if key.startswith(f"{instance.name}|in|") and vectors[key].dtype == np.float64:
                    vectors[key] = np.where(rng.random(vectors[key].shape) < 0.4, 0.0, vectors[key])
        graph.add(n, instance, vectors)
        wrt += floating
        losses += made
        count += 1
    if not wrt:
        return None, 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.pbtxt")
        with open(path, "w") as f:
            f.write("\n".join(graph.ops) + "\n")
        np.savez(os.path.join(folder, "in.npz"), **graph.inputs)
        weights = []
        if graph.variables:
            np.savez(os.path.join(folder, "variables.npz"), **graph.variables)
            weights = ["--weights", os.path.join(folder, "variables.npz")]
        if not losses:
            return None, 0
        if dtype != "f64":
            backward = os.path.join(folder, "backward.pbtxt")
            done = opc("grad", path, "--dy", "-o", backward, *flags("--wrt", wrt), *flags("--loss", losses))
            if done.returncode == 0:
                done = opc("run", backward, "--inputs", os.path.join(folder, "in.npz"), *weights, "--fill", "rand", "--print", "none", "-j", "1")
            return (None if done.returncode == 0 else said(done)), count
        if order > 1:
            first = os.path.join(folder, "first.pbtxt")
            done = opc("grad", path, "--dy", "-o", first, *flags("--wrt", wrt), *flags("--loss", losses))
            if done.returncode != 0:
                return said(done), count
            # Under other names the first gradients leave NAME.grad to the second ones, and only those are checked.
            with open(first) as f:
                text = re.sub(r'"(i\d+_\w+)\.grad"', r'"first_\1"', f.read())
            with open(first, "w") as f:
                f.write(text)
            path, losses = first, [f"first_{name}" for name in wrt]
            # A gradient depends on the upstream gradients too, and of a linear op on nothing else.
            wrt = wrt + sorted(set(re.findall(r'name: "(i\d+[^"]*\.dy)"', text)))
        while True:
            done = opc("grad", path, "--check", "--dy", "--inputs", os.path.join(folder, "in.npz"), *weights, "-j", "1", "--max-errors", "1000", *flags("--wrt", wrt), *flags("--loss", losses))
            idle = set(re.findall(r"does not depend differentiably on (\S+);", done.stderr))
            if order == 1 or not idle:
                break
            wrt = [name for name in wrt if name not in idle]
            if not wrt:
                return None, count
        if verbose:
            print(done.stdout + done.stderr)
        return (None if done.returncode == 0 else said(done)), count


def flags(name, values):
    return [x for v in values for x in (name, v)]


def opc(*arguments):
    return subprocess.run([opc_binary(), *arguments], capture_output=True, text=True, timeout=300)


def said(done):
    return f"exit code {done.returncode}\n    " + (done.stdout + done.stderr).strip().replace("\n", "\n    ")


def main(argv):
    verbose = "-v" in argv
    order = 2 if "--order" in argv else 1
    dtype = argv[argv.index("--type") + 1] if "--type" in argv else "f64"
    names = [a for a in argv if not a.startswith("-") and a not in ("2", dtype)]
    failed = ops = cases = 0
    for op in load_registry():
        if names and op["name"] not in names:
            continue
        if op["no_grad"] is not None:
            continue
        if not op["gradient"]:
            print(f"FAIL {op['name']}: no gradient rule, and no reason for it (.NoGrad)")
            failed += 1
            continue
        if order > 1 and op["name"] in FIRST_ORDER_ONLY:
            continue
        wrong, count = check(op, order, verbose, dtype)
        if not wrong and dtype == "f64" and order <= WITH_ZEROS.get(op["name"], 0):
            wrong, more = check(op, order, verbose, dtype, zeros=True)
            count += more
        if wrong:
            print(f"FAIL {op['name']}: {wrong}")
            failed += 1
        ops += 1
        cases += count
    print(f"gradients: {ops} ops, {cases} cases, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
