# Every conformance case of every op, written as ONNX and run by ONNX Runtime, against the case's vectors within the op's tolerance.
# SPDX-License-Identifier: Apache-2.0
"""usage: export_cases.py [-v] [--opset N] [OP...]

export_exceptions.txt names the ops and cases that are left out, with a reason each. Ops for which ONNX Runtime has no kernel in an element
type are counted, as are cases of integers that saturate in it on processors without VNNI; -v lists them.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import ort

from exported import PEERS, Cases, Model, exceptions, export, stored
from driver import compare
from registry_cases import DTYPES, bf16_bits

JS = {"f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32",
      "i64": "int64", "u64": "uint64", "bool": "bool"}
OF_INTEGERS = {"fused_integer_matmul", "integer_conv2d", "integer_matmul"}  # opc's own numbers are numpy's, in the conformance tests
NO_KERNEL = re.compile(r"NOT_IMPLEMENTED|Could not find an implementation|not implemented|is not supported|does not support double", re.I)


def as_stored(values, dtype):
    """What ONNX Runtime gave, as opc's files hold it."""
    if dtype == "bf16":
        return bf16_bits(values).view("V2")
    return values.astype(np.float16) if dtype == "f16" else values


class Judge:
    """ONNX Runtime on groups of cases."""

    def __init__(self, cases, model, folder):
        self.cases, self.model, self.folder = cases, model, folder
        self.outputs = collections.defaultdict(list)  # by instance: the model's output, argument, index
        for number, _, name, arg, index in cases.wanted(model):
            self.outputs[number].append((name, arg, index))

    def run(self, groups):
        """The results of groups of instances, each a model."""
        described, values = [], bytearray()
        for k, group in enumerate(groups):
            data, inputs = self.model.part([name for n in group for name, _, _ in self.outputs[n]])
            with open(os.path.join(self.folder, f"{k}.onnx"), "wb") as f:
                f.write(data)
            feeds = {}
            for name in inputs:
                dtype = self.model.element(name)
                given = self.cases.graph.inputs.get(name, self.cases.graph.variables.get(name))
                array = stored(given, dtype)
                half = dtype in ("f16", "bf16")
                feeds[name + "#f32" if half else name] = {"type": JS["f32" if half else dtype], "dims": list(array.shape), "at": len(values),
                                                           "bytes": array.nbytes}
                values += array.tobytes()
            described.append({"model": f"{k}.onnx", "feeds": feeds})
        with open(os.path.join(self.folder, "cases.json"), "w") as f:
            json.dump(described, f)
        with open(os.path.join(self.folder, "values.bin"), "wb") as f:
            f.write(values)
        done = subprocess.run(["node", os.path.join(os.path.dirname(os.path.abspath(__file__)), "ort_cases.js"), self.folder],
                              env={**os.environ, "NODE_PATH": os.path.join(PEERS, "node_modules")}, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"ONNX Runtime ended with {done.returncode}: {done.stderr[-2000:]}")
        with open(os.path.join(self.folder, "results.json")) as f:
            results = json.load(f)
        with open(os.path.join(self.folder, "results.bin"), "rb") as f:
            self.made = f.read()
        return results

    def differs(self, number, result):
        op, instance, _ = self.cases.of[number]
        for name, arg, index in self.outputs[number]:
            dtype = self.model.element(name)
            o = result["outputs"][name + "#f32" if dtype in ("f16", "bf16") else name]
            kind = np.dtype(np.float32 if dtype in ("f16", "bf16") else DTYPES[dtype][1])
            raw = np.frombuffer(self.made, kind, count=o["bytes"] // kind.itemsize, offset=o["at"])
            want, kind = self.cases.expected(number, arg, index)
            with np.errstate(over="ignore", invalid="ignore"):
                wrong = compare(op, as_stored(raw.reshape(o["dims"]), dtype), want, kind)
            if wrong:
                return f"{op['name']} {instance.name} output {arg}_{index}: {wrong}"
        return None


def judge(folder, only, options):
    cases = Cases(exceptions(), only)
    cases.write(folder)
    judge = Judge(cases, Model(export(folder, *options)), folder)
    groups = collections.defaultdict(list)
    for number, (op, instance, _) in enumerate(cases.of):
        groups[op["name"], instance.dtype].append(number)
    failures, missing, agreed = [], collections.defaultdict(list), 0
    again = []
    for round_, batch in enumerate((list(groups.values()), again)):
        if not batch:
            continue
        for group, result in zip(batch, judge.run(batch)):
            if "error" in result and len(group) > 1:
                again += [[n] for n in group]
            elif "error" in result:
                op, instance, _ = cases.of[group[0]]
                if NO_KERNEL.search(result["error"]):
                    node = re.search(r"for (\w+)\(", result["error"])
                    missing[op["name"], instance.dtype].append(node.group(1) if node else result["error"][:120])
                else:
                    failures.append(f"{op['name']} {instance.name}: {result['error'][:300]}")
            else:
                for n in group:
                    wrong = judge.differs(n, result)
                    op, instance, _ = cases.of[n]
                    if wrong and op["name"] in OF_INTEGERS and ort.saturates():
                        missing[op["name"], instance.dtype].append("saturates")
                        continue
                    failures += [wrong] if wrong else []
                    agreed += not wrong
    return len(cases.of), agreed, failures, missing


def main(argv):
    if not os.path.isdir(os.path.join(PEERS, "node_modules", "onnxruntime-node")):
        raise unittest.SkipTest(f"onnxruntime-node is not in {PEERS}: tools/dev/install_peers.sh")
    options = argv[argv.index("--opset"):argv.index("--opset") + 2] if "--opset" in argv else []
    only = [a for a in argv if not a.startswith("-") and a not in options]
    with tempfile.TemporaryDirectory(prefix="onnx_export") as folder:
        count, agreed, failures, missing = judge(folder, only, options)
    for f in failures:
        print("FAIL", f)
    if "-v" in argv:
        for (op, dtype), nodes in sorted(missing.items()):
            print(f"no kernel: {op} {dtype}: {sorted(set(nodes))}")
    none = sum(len(v) for v in missing.values())
    lost = f" ({sum(v.count('saturates') for v in missing.values())} of which saturate here)" if ort.saturates() else ""
    print(f"{agreed} of {count} cases agree; ONNX Runtime has no kernel for {none}{lost}; {len(failures)} fail")
    return 1 if failures or agreed + none != count or not agreed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
