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


def without_names(folder, forward, data):
    """Stages that leave ops unnamed, of steps that update in every micro-batch and of those that accumulate."""
    at = lambda name: os.path.join(folder, name)
    # A mask that the backward pass reads, and a view.
    forward = forward.replace('key: "a" value { s: "relu1/y_0" }', 'key: "a" value { s: "flat/out_0" }') + """
      op { name: "drop" user_conf { op_type_name: "dropout" input { key: "in" value { s: "relu1/y_0" } } output { key: "out" value { s: "drop/out_0" } }
        output { key: "mask" value { s: "drop/mask_0" } } attr { key: "rate" value { at_float: 0.3 } } } }
      op { name: "flat" user_conf { op_type_name: "reshape" input { key: "in" value { s: "drop/out_0" } } output { key: "out" value { s: "flat/out_0" } }
        attr { key: "shape" value { at_shape { dim: 16 dim: 128 } } } } }"""
    steps = {"sgd": ["--optimizer", "sgd", "--lr", "0.1"], "adam, clipped": ["--optimizer", "adam", "--lr", "0.002", "--clip-norm", "1"],
             "accumulated": ["--optimizer", "momentum", "--lr", "0.05", "--accumulate", "2"],
             "accumulated, clipped": ["--optimizer", "adam", "--lr", "0.002", "--accumulate", "2", "--clip-norm", "1"]}
    stages = {"all but a mask and a view": ["fc1*,relu1*", "fc2*,relu2*,fc3*,cross*,mean*"], "the first and the last": ["fc1*", "fc3*"],
              "forward ops alone": ["fc1", "fc2,fc3"], "the second to begin with no weight": ["fc1*,relu1*,drop*,flat*,fc2*", "relu2*"],
              "three": ["fc1*", "drop*", "fc3*"]}
    for name, flags in steps.items():
        run("grad", "-", "--shape", "image=16,64", "--shape", "label=16", "--loss", "loss", *flags, "-o", at("step.pbtxt"), input=forward)
        run("run", at("step.pbtxt"), *data, "--steps", "24", "--save", at("one.safetensors"))
        one = weights(at("one.safetensors"))
        for what, globs in stages.items():
            named = [a for i, g in enumerate(globs) for a in ("--stage", f"{g}={i}")]
            run("compile", at("step.pbtxt"), "--mesh", str(len(globs)), *named, "--micro-batches", "2", "-o", at("pipeline.plan"))
            run("run", at("pipeline.plan"), *data, "--steps", "12", "--ranks", str(len(globs)), "--in-process", "--timeout", "60", "--save", at("many.safetensors"))
            many = weights(at("many.safetensors"))
            check(f"{name}, {what}", all(np.array_equal(one[v], many[v]) for v in one), str({v: float(np.abs(one[v] - many[v]).max()) for v in one}))
    # What is on all ranks lags, the second stage does not, and each waits for the other.
    run("grad", "-", "--shape", "image=16,64", "--shape", "label=16", "--loss", "loss", *steps["sgd"], "-o", at("step.pbtxt"), input=forward)
    stuck = run("compile", at("step.pbtxt"), "--mesh", "2", "--stage", "fc2*=0", "--stage", "fc3*=1", "--micro-batches", "2", "-o", at("stuck.plan"), ok=False)
    check("a plan that cannot finish is an error of compiling", stuck.returncode == 3 and "error[OPC0746]: the plan cannot finish" in stuck.stderr, stuck.stderr)
    check("the way out names the ops", "on all ranks, in a --stage: fc1, fc1_bias, relu1" in stuck.stderr, stuck.stderr)
    check("nothing is written", not os.path.exists(at("stuck.plan")))


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
        without_names(folder, forward, [a for a in data if a not in ("--epochs", "1")])
        run("grad", "-", "--shape", "image=16,64", "--shape", "label=16", "--loss", "loss", "--optimizer", "momentum", "--lr", "0.05",
            "--accumulate", "4", "-o", at("step.pbtxt"), input=forward)
        shown = run("show", at("step.pbtxt"), "--what", "sbp", "--mesh", "2", *two, "--micro-batches", "4").stdout
        check("the bubble is printed", "bubbles take 20 %" in shown, shown[:400])
        wrong = run("compile", at("step.pbtxt"), "--mesh", "2", *two, "--micro-batches", "3", "-o", plan, ok=False)
        check("another number of micro-batches is an error", wrong.returncode == 3 and "OPC0314" in wrong.stderr, wrong.stderr)
    sys.exit(1 if failures else 0)


main()
