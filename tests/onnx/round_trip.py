# Out as ONNX and in again: every conformance case of every op, against the graph itself.
# SPDX-License-Identifier: Apache-2.0
"""usage: round_trip.py [-v] [OP...]

Ops that are not in export_inexact.txt give the same bits; those that are there agree within their tolerance, and one that gives the
same bits must leave the list.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

from exported import Cases, Model, exceptions, export
from driver import compare
from registry_cases import opc_binary

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "export_inexact.txt")


def run(folder, what, out, *options):
    done = subprocess.run([opc_binary(), "run", what, "--no-fuse", "--quiet", "--outputs", out, "--print", "none", *options], cwd=folder,
                          capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"opc run {what}: exit code {done.returncode}\n{done.stderr[:4000]}")


def same_bits(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tobytes() == b.tobytes() or (a.dtype.kind == "f" and bool(np.all((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b))))


def main(argv):
    only = [a for a in argv if not a.startswith("-")]
    with open(LIST, encoding="utf-8") as f:
        listed = {line.split(":")[0].strip() for line in f if line.strip() and not line.startswith("#")}
    left_out = {what: why for what, why in exceptions().items() if why.startswith("no cases")}
    cases, failures, inexact, exact = Cases(left_out, only), [], {}, set()
    with tempfile.TemporaryDirectory(prefix="onnx_round_trip") as folder:
        cases.write(folder)
        model = Model(export(folder))
        run(folder, "graph.pbtxt", "a", "--inputs", "in.npz", *(["--weights", "variables.npz"] if cases.graph.variables else []))
        run(folder, "all.onnx", "b", "--inputs", "all.npz")
        for number, end, name, arg, index in cases.wanted(model):
            op, instance, _ = cases.of[number]
            a, b = (np.load(os.path.join(folder, d, n + ".npy")) for d, n in (("a", end), ("b", name)))
            if same_bits(a, b):
                exact.add(op["name"]) # in this case
                continue
            inexact.setdefault(op["name"], set()).add(instance.dtype)
            _, dtype = cases.expected(number, arg, index)
            want = a.view(np.uint16) if a.dtype == np.dtype("V2") else a
            with np.errstate(over="ignore", invalid="ignore"):
                wrong = compare(op, b, bf16(want) if dtype == "bf16" else want, dtype)
            if wrong:
                failures.append(f"{op['name']} {instance.name} output {arg}_{index}: {wrong}")
    for op in sorted(set(inexact) - listed):
        failures.append(f"{op} in {', '.join(sorted(inexact[op]))} does not give the same bits: export_inexact.txt does not name it")
    for op in sorted(listed - set(inexact)):
        if op in exact:
            failures.append(f"{op} gives the same bits: take it out of export_inexact.txt")
        elif not only:
            failures.append(f"{op} is in export_inexact.txt, and has no case here")
    for f in failures:
        print("FAIL", f)
    ops = {op["name"] for op, _, _ in cases.of}
    print(f"{len(cases.of)} cases of {len(ops)} ops: {len(ops - set(inexact))} ops give the same bits, {len(inexact)} agree within tolerance")
    return 1 if failures or not ops else 0


def bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
