# Many ranks against one: cases of several ops, the digits' networks and their training steps, random graphs, every operator.
# SPDX-License-Identifier: Apache-2.0
"""usage: many_against_one.py [--seeds N] [--ops] [--full] [ARGUMENTS of opc_ranks_conformance...]

Writes graphs and tensors into a folder for opc_ranks_conformance: the cases of tests/conformance/cases (and OPC_CASES_DIR),
forward and backward; docs/examples/digits, inference and training steps with every optimizer; graphs that read variables
before and after they are written. --full: 50 random choices of signatures for every graph, mesh and operator, in every element
type; it takes hours.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from registry_cases import opc_binary  # noqa: E402
from run_cases import case_folders, graph_text, loss_text  # noqa: E402

SOURCE = os.environ.get("OPC_SOURCE_DIR") or os.path.join(HERE, "..", "..", "..")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")


def opc(*args, text=None):
    done = subprocess.run([opc_binary(), *args], input=text, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"opc {' '.join(args)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def write(folder, name, text, tensors, rtol, atol, steps=1):
    with open(os.path.join(folder, f"{name}.pbtxt"), "w") as f:
        f.write(f"# rtol {rtol} atol {atol} steps {steps}\n{text}")
    if tensors:
        np.savez(os.path.join(folder, f"{name}.npz"), **tensors)


def write_case(folder, case_folder):
    with open(os.path.join(case_folder, "case.json")) as f:
        case = json.load(f)
    if not case["oneflow"]:
        return
    text = graph_text(case)
    tensors = {f"in_{i['name']}": np.load(os.path.join(case_folder, i["file"])) for i in case["inputs"]}
    write(folder, f"case_{case['id']}", text, tensors, case["rtol"], case["atol_forward"])
    if not case.get("grad_inputs"):
        return
    loss, terms = loss_text(case)
    command = ["grad", "-", "-o", "-"]
    for t in terms:
        command += ["--loss", t]
    for g in case["grad_inputs"]:
        command += ["--wrt", f"in_{g['name']}"]
    for g in case["grad_outputs"]:
        tensors[f"dout_{g['index']}"] = np.load(os.path.join(case_folder, g["file"]))
    write(folder, f"case_{case['id']}_backward", opc(*command, text=text + loss), tensors, case["rtol"], case["atol_grad"])


def write_digits(folder):
    images, labels = (np.load(os.path.join(DIGITS, f"train_{n}.npy")) for n in ("images", "labels"))
    for net in ("mlp", "cnn"):
        with open(os.path.join(DIGITS, f"{net}.pbtxt")) as f:
            text = f.read()
        with open(os.path.join(DIGITS, f"{net}_loss.pbtxt")) as f:
            loss = f.read()
        weights = dict(np.load(os.path.join(DIGITS, f"{net}_weights.npz")))
        inference = opc("compile", "-", "--shape", "image=30,64", "--to", "shape", "--emit", "pbtxt", "-o", "-", text=text)
        write(folder, f"digits_{net}", inference, dict(weights, image=images[:30]), 1e-4, 1e-5)
        # Without weights, so that initializers are run, too.
        for optimizer in (["sgd"], ["momentum"], ["adam", "--clip-norm", "0.5"]) if net == "mlp" else (["adam"],):
            step = opc("grad", "-", "--shape", "image=30,64", "--shape", "label=30", "--loss", "loss", "--lr", "0.002", "--optimizer", *optimizer, "-o", "-", text=text + loss)
            # Adam divides by the root of a square: where that is near nothing, a rounding decides the step's sign.
            atol = 2e-3 if optimizer[0] == "adam" else 1e-5
            write(folder, f"digits_{net}_{optimizer[0]}", step, {"image": images[:30], "label": labels[:30]}, 1e-4, atol, 3)


def main(argv):
    full = "--full" in argv
    arguments = [a for a in argv if a != "--full"]
    with tempfile.TemporaryDirectory() as folder:
        roots = [os.path.join(HERE, "..", "cases")] + ([os.environ["OPC_CASES_DIR"]] if os.environ.get("OPC_CASES_DIR") else [])
        for root in roots:
            for case in case_folders(root):
                write_case(folder, case)
        write_digits(folder)
        for name in sorted(os.listdir(os.path.join(HERE, "graphs"))):
            shutil.copy(os.path.join(HERE, "graphs", name), folder)
        program = os.path.join(os.path.dirname(opc_binary()), "opc_ranks_conformance")
        command = [program, "--folder", folder]
        if full:
            command += ["--seeds", "50", "--ops", "*", "--all-types"]
            for kind in ("any", "gradients", "images"):
                command += ["--random", f"{kind}:1..50"]
        return subprocess.run(command + arguments).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
