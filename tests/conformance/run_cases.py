# Runs cases of several ops, whose expectations come from elsewhere, forward through the command line.
"""usage: run_cases.py [-v] [FOLDER | CASE...]

A case is a folder with case.json (inputs, outputs, tolerances, the ops as records) and the tensors as .npy files;
docs/testing.md describes it. The graph is the records, an input op for each input and an output op for each output.
Our own cases are in tests/conformance/cases; OPC_CASES_DIR names another folder to run as well.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from registry_cases import DTYPES, Attr, opc_binary

HERE = os.path.dirname(os.path.abspath(__file__))
NUMPY_NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "int32": "i32", "int64": "i64", "int8": "i8", "uint8": "u8", "bool": "bool"}


def output_tensors(case):
    """Names of the tensors that the case's outputs are: as the case says, else by custom (y, out, out0, out1)."""
    if all("tensor" in o for o in case["outputs"]):
        return [o["tensor"] for o in case["outputs"]]
    made = [t for r in case["oneflow"] for tensors in r.get("output", {}).values() for t in tensors]
    for names in (["y"], ["out"], [f"out{o['index']}" for o in case["outputs"]], [f"y{o['index']}" for o in case["outputs"]]):
        if len(names) == len(case["outputs"]) and set(names) <= set(made):
            return names
    read = {t for r in case["oneflow"] for tensors in r.get("input", {}).values() for t in tensors}
    return [t for t in made if t not in read]


def graph_text(case):
    ops, tensors = [], {}
    for i in case["inputs"]:
        dims = " ".join(f"dim: {d}" for d in i["shape"])
        ops.append(f'op {{ name: "in_{i["name"]}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {DTYPES[NUMPY_NAMES[i["dtype"]]][0]} }} }} }}')
        tensors[i["name"]] = f'in_{i["name"]}/out'
    for n, record in enumerate(case["oneflow"]):
        for arg, names in record.get("output", {}).items():
            for k, name in enumerate(names):
                tensors[name] = f"op{n}/{arg}_{k}"
    for n, record in enumerate(case["oneflow"]):
        conf = [f'op_type_name: "{record["op_type_name"]}"']
        for kind in ("input", "output"):
            for arg, names in record.get(kind, {}).items():
                conf.append(f'{kind} {{ key: "{arg}" value {{ ' + " ".join(f's: "{tensors[x]}"' for x in names) + " } }")
        for name, attr in record.get("attr", {}).items():
            conf.append(f'attr {{ key: "{name}" value {{ {Attr(attr).text()} }} }}')
        ops.append(f'op {{ name: "op{n}" user_conf {{ {" ".join(conf)} }} }}')
    wanted = output_tensors(case)
    for o in case["outputs"]:
        ops.append(f'op {{ name: "out_{o["index"]}" output_conf {{ in: "{tensors[wanted[o["index"]]]}" out: "out" }} }}')
    return "\n".join(ops) + "\n"


def run_case(folder):
    """None, or what is wrong."""
    with open(os.path.join(folder, "case.json")) as f:
        case = json.load(f)
    if not case["oneflow"]:
        return None  # expectations without records, for other front ends
    with tempfile.TemporaryDirectory() as scratch:
        graph = os.path.join(scratch, f"{case['id']}.pbtxt")
        with open(graph, "w") as f:
            f.write(graph_text(case))
        command = [opc_binary(), "run", graph, "--outputs", os.path.join(scratch, "out"), "--print", "none"]
        for i in case["inputs"]:
            command += ["--input", f"in_{i['name']}=@{os.path.join(folder, i['file'])}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            return f"exit code {done.returncode}: " + done.stderr.strip().split("\n")[0]
        for o in case["outputs"]:
            got = np.load(os.path.join(scratch, "out", f"out_{o['index']}.npy"))
            want = np.load(os.path.join(folder, o["file"]))
            if got.shape != want.shape or got.dtype != want.dtype:
                return f"output {o['index']}: {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
            bad = ~(np.abs(got.astype(np.float64) - want) <= case["atol_forward"] + case["rtol"] * np.abs(want.astype(np.float64)))
            if bad.any():
                at = tuple(int(x) for x in np.argwhere(bad)[0])
                return f"output {o['index']}: {int(bad.sum())} of {bad.size} differ, first at {at}: {got[at]!r}, expected {want[at]!r}"
    return None


def case_folders(root):
    return sorted(os.path.join(root, d) for d in os.listdir(root) if os.path.exists(os.path.join(root, d, "case.json")))


def main(argv):
    verbose = "-v" in argv
    given = [a for a in argv if a != "-v"]
    roots = given or [os.path.join(HERE, "cases")] + ([os.environ["OPC_CASES_DIR"]] if os.environ.get("OPC_CASES_DIR") else [])
    folders = [f for r in roots for f in ([r] if os.path.exists(os.path.join(r, "case.json")) else case_folders(r))]
    failed = 0
    for folder in folders:
        wrong = run_case(folder)
        if wrong:
            failed += 1
            print(f"FAIL {os.path.basename(folder)}: {wrong}")
        elif verbose:
            print(f"ok   {os.path.basename(folder)}")
    print(f"cases: {len(folders) - failed} of {len(folders)} passed")
    return 1 if failed or not folders else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
