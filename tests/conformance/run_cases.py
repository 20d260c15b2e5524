# Runs cases of several ops, whose expectations come from elsewhere, forward and backward through the command line.
# SPDX-License-Identifier: Apache-2.0
"""usage: run_cases.py [-v] [FOLDER | CASE...]

A case is a folder with case.json (inputs, outputs, tolerances, the ops as records) and the tensors as .npy files;
docs/testing.md describes it. The graph is the records, an input op for each input and an output op for each output.
A case with grad_inputs is run again with its gradients: the loss is the sum over the outputs of output * dout, opc grad
adds the backward ops, and opc run gives the gradient of each input that the case differentiates.
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


def tensor_names(case):
    """The graph's names of the case's tensors."""
    tensors = {i["name"]: f'in_{i["name"]}/out' for i in case["inputs"]}
    for n, record in enumerate(case["oneflow"]):
        for arg, names in record.get("output", {}).items():
            for k, name in enumerate(names):
                tensors[name] = f"op{n}/{arg}_{k}"
    return tensors


def graph_text(case):
    ops, tensors = [], tensor_names(case)
    for i in case["inputs"]:
        dims = " ".join(f"dim: {d}" for d in i["shape"])
        ops.append(f'op {{ name: "in_{i["name"]}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {DTYPES[NUMPY_NAMES[i["dtype"]]][0]} }} }} }}')
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


def loss_text(case):
    """The upstream gradients as inputs, and the loss: the sum of each output times its own."""
    ops, terms = [], []
    wanted = output_tensors(case)
    for g in case["grad_outputs"]:
        k = g["index"]
        output = next(o for o in case["outputs"] if o["index"] == k)
        rank = len(output["shape"])
        dims = " ".join(f"dim: {d}" for d in output["shape"])
        ops.append(f'op {{ name: "dout_{k}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {DTYPES[NUMPY_NAMES[output["dtype"]]][0]} }} }} }}')
        tensor = tensor_names(case)[wanted[k]]
        ops.append(f'op {{ name: "weighted_{k}" user_conf {{ op_type_name: "broadcast_mul" input {{ key: "x" value {{ s: "{tensor}" }} }} '
                   f'input {{ key: "y" value {{ s: "dout_{k}/out" }} }} output {{ key: "z" value {{ s: "weighted_{k}/z_0" }} }} }} }}')
        ops.append(f'op {{ name: "total_{k}" user_conf {{ op_type_name: "reduce_sum" input {{ key: "input_tensor" value {{ s: "weighted_{k}/z_0" }} }} '
                   f'output {{ key: "output_tensor" value {{ s: "total_{k}/output_tensor_0" }} }} '
                   f'attr {{ key: "axis" value {{ at_list_int32 {{ {" ".join(f"val: {a}" for a in range(rank))} }} }} }} '
                   f'attr {{ key: "keepdims" value {{ at_bool: false }} }} }} }}')
        terms.append(f"total_{k}/output_tensor_0")
    return "\n".join(ops) + "\n", terms


def run(command):
    """None, or how opc failed."""
    done = subprocess.run([opc_binary()] + command, capture_output=True, text=True, timeout=300)
    return None if done.returncode == 0 else f"opc {command[0]}: exit code {done.returncode}: " + done.stderr.strip().split("\n")[0]


def compare(path, want_path, rtol, atol, what):
    got, want = np.load(path), np.load(want_path)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{what}: {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    bad = ~(np.abs(got.astype(np.float64) - want) <= atol + rtol * np.abs(want.astype(np.float64)))
    if bad.any():
        at = tuple(int(x) for x in np.argwhere(bad)[0])
        return f"{what}: {int(bad.sum())} of {bad.size} differ, first at {at}: {got[at]!r}, expected {want[at]!r}"
    return None


def run_case(folder):
    """None, or what is wrong."""
    with open(os.path.join(folder, "case.json")) as f:
        case = json.load(f)
    if not case["oneflow"]:
        return None  # expectations without records, for other front ends
    with tempfile.TemporaryDirectory() as scratch:
        graph = os.path.join(scratch, f"{case['id']}.pbtxt")
        out = os.path.join(scratch, "out")
        with open(graph, "w") as f:
            f.write(graph_text(case))
        feeds = []
        for i in case["inputs"]:
            feeds += ["--input", f"in_{i['name']}=@{os.path.join(folder, i['file'])}"]
        wrong = run(["run", graph, "--outputs", out, "--print", "none"] + feeds)
        for o in case["outputs"]:
            wrong = wrong or compare(os.path.join(out, f"out_{o['index']}.npy"), os.path.join(folder, o["file"]), case["rtol"], case["atol_forward"], f"output {o['index']}")
        if wrong or not case.get("grad_inputs"):
            return wrong
        loss, terms = loss_text(case)
        with open(graph, "a") as f:
            f.write(loss)
        backward = os.path.join(scratch, "backward.pbtxt")
        command = ["grad", graph, "-o", backward]
        for t in terms:
            command += ["--loss", t]
        for g in case["grad_inputs"]:
            command += ["--wrt", f"in_{g['name']}"]
        for g in case["grad_outputs"]:
            feeds += ["--input", f"dout_{g['index']}=@{os.path.join(folder, g['file'])}"]
        wrong = run(command) or run(["run", backward, "--outputs", out, "--print", "none"] + feeds)
        for g in case["grad_inputs"]:
            wrong = wrong or compare(os.path.join(out, f"in_{g['name']}.grad.npy"), os.path.join(folder, g["file"]), case["rtol"], case["atol_grad"], f"gradient of {g['name']}")
    return wrong


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
