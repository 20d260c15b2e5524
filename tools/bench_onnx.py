#!/usr/bin/env python3
# ONNX models beside ONNX Runtime: whether the numbers agree, and what a run takes.
# SPDX-License-Identifier: Apache-2.0
"""usage: bench_onnx.py [--rounds N] [--threads N] [--json FILE]

Models of tests/onnx/models.py, exported by PyTorch, as they are and as ONNX Runtime's optimizer saves them at level extended. Needs
the peers of tools/dev/install_peers.sh in build/peers (OPC_PEERS names another folder) and a build of opc (OPC_BUILD_DIR). Exit code
1 when a result is further from ONNX Runtime's than 1e-4 of its range.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from bench_models import Worker, np  # which finds a python3 that has numpy

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(ROOT, "tools", "bench")
PEERS = os.environ.get("OPC_PEERS", os.path.join(ROOT, "build", "peers"))
BUILD = os.environ.get("OPC_BUILD_DIR", os.path.join(ROOT, "build"))
NODE = {"NODE_PATH": os.path.join(PEERS, "node_modules")}
RANGE = 1e-4
CALLS = 20  # of a round


def opc(model, x, out, threads):
    """Seconds of a run (median), with the output in `out`."""
    command = [os.path.join(BUILD, "bin", "opc"), "run", model, "--input", f"x=@{x}", "--output", f"y={out}", "--repeat", str(CALLS),
               "--warmup", "3", "-j", str(threads), "--json", "--config", "none"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["timing"]["median_s"]


def measure(name, model, x, want, options):
    out, theirs = os.path.join(os.path.dirname(model), "opc.npy"), os.path.join(os.path.dirname(model), "ort.npy")
    peer = Worker("ONNX Runtime", ["node", os.path.join(BENCH, "ort_worker.js"), model, x, str(options.threads)], NODE)
    peer.ask("run 3")
    ours, others = [], []
    for _ in range(options.rounds):
        others.append(statistics.median(peer.ask(f"run {CALLS}")["times"]))
        ours.append(opc(model, x, out, options.threads))
    peer.ask(f"output y {theirs}")
    peer.close()
    got, ort = np.load(out), np.load(theirs)
    span = float(want.max() - want.min())
    row = {"model": name, "difference": float(np.abs(got - ort).max()) / span, "from_torch": float(np.abs(got - want).max()) / span,
           "opc": min(ours), "onnxruntime": min(others), "ratio": min(ours) / min(others)}
    print(f"{name:18} differs by {row['difference']:.1e} of the range, from PyTorch by {row['from_torch']:.1e}; "
          f"opc {row['opc'] * 1e6:.0f} us, ONNX Runtime {row['onnxruntime'] * 1e6:.0f} us: {row['ratio']:.2f}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=re.sub(r"\n\n.*", "", __doc__ or "", flags=re.S))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench_onnx") as folder:
        made = subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "tests", "onnx", "models.py"), folder], capture_output=True, text=True)
        if made.returncode:
            sys.exit(made.stderr)
        for name in made.stdout.split():
            path = os.path.join(folder, name)
            extended = path + ".extended.onnx"
            subprocess.run(["node", os.path.join(BENCH, "ort_optimize.js"), path + ".onnx", extended, "extended"], env={**os.environ, **NODE},
                           check=True)
            for kind, model in ((name, path + ".onnx"), (name + " extended", extended)):
                rows.append(measure(kind, model, path + ".x.npy", np.load(path + ".y.npy"), options))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    return int(any(not r["difference"] <= RANGE for r in rows))


if __name__ == "__main__":
    sys.exit(main())
