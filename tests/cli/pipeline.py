# A pipeline of two stages computes what one rank with gradient accumulation computes: the same weights, bit for bit.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile

import numpy as np

import weight_files

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
DIGITS = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "digits")
failures = []


def run(*args, ok=True, **kwargs):
    r = subprocess.run([BIN, *args], capture_output=True, text=True, cwd=DIGITS, **kwargs)
    if ok and r.returncode:
        raise SystemExit(f"{' '.join(args)}\nexit {r.returncode}\n{r.stderr}")
    return r


def weights(path):
    """Those that are learnt; a checkpoint also counts the steps."""
    return {name: w for name, w in weight_files.read(path).items() if w.dtype == np.float32}


def check(what, holds, detail=""):
    print(("ok   " if holds else "FAIL ") + what + (f": {detail}" if not holds else ""))
    if not holds:
        failures.append(what)


def compare(name, a, b, exact):
    # The accumulators hold what has been added up since the last update: another micro-batch at the end of the data.
    for v in a:
        if v.endswith("-accumulated"):
            continue
        worst = np.abs(a[v] - b[v]).max()
        check(f"{name}: {v}", worst == 0 if exact else worst <= 1e-4 * max(1, np.abs(a[v]).max()), f"differs by {worst}")


def main():
    data = ["--feed-dataset", "image=@train_images.npy,label=@train_labels.npy", "--seed", "7", "--epochs", "1", "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        forward = "".join(open(os.path.join(DIGITS, f)).read() for f in ("mlp.pbtxt", "mlp_loss.pbtxt"))
        run("grad", "-", "--shape", "image=16,64", "--shape", "label=16", "--loss", "loss", "--optimizer", "momentum", "--lr", "0.05",
            "--accumulate", "4", "-o", at("step.pbtxt"), input=forward)
        run("run", at("step.pbtxt"), *data, "--save", at("one.safetensors"))
        one = weights(at("one.safetensors"))
        two = ["--stage", "fc1*,relu1*,fc2*=0", "--stage", "relu2*,fc3*,cross*,mean*=1"]
        three = ["--stage", "fc1*,relu1*=0", "--stage", "fc2*,relu2*=1", "--stage", "fc3*,cross*,mean*=2"]
        wide = ["--stage", "fc1*,relu1*,fc2*=0-1", "--stage", "relu2*,fc3*,cross*,mean*=2-3"]
        for name, mesh, stages, exact in (("two stages", 2, two, True), ("three stages", 3, three, True),
                                          ("two stages of two ranks", 4, wide, False)):
            plan = at("pipeline.plan")
            run("compile", at("step.pbtxt"), "--mesh", str(mesh), *stages, "--micro-batches", "4", "-o", plan)
            run("run", plan, *data, "--ranks", str(mesh), "--in-process", "--save", at("many.safetensors"))
            compare(name, one, weights(at("many.safetensors")), exact)
        shown = run("show", at("step.pbtxt"), "--what", "sbp", "--mesh", "2", *two, "--micro-batches", "4").stdout
        check("the bubble is printed", "bubbles take 20 %" in shown, shown[:400])
        wrong = run("compile", at("step.pbtxt"), "--mesh", "2", *two, "--micro-batches", "3", "-o", plan, ok=False)
        check("another number of micro-batches is an error", wrong.returncode == 3 and "OPC0314" in wrong.stderr, wrong.stderr)
    sys.exit(1 if failures else 0)


main()
