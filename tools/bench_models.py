#!/usr/bin/env python3
# Whole models through opc and through its peers, in turns: latency, peak memory, and whether the outputs agree.
#
#   tools/dev/install_peers.sh                       PyTorch and ONNX Runtime, where they can be had
#   tools/bench_models.py [--models resnet50,mlp] [--batch 1,8] [--threads 1,2] [--rounds 7] [--json]
#
# Each engine is a process of its own that waits while another one runs. A round lets each run a few times; a row's time
# is the median over the rounds of each round's fastest run, and a ratio is opc's time over the peer's: the machine may
# be busy, so trust ratios and not times. The floor is what the model's products and convolutions take at the speed of
# large products by themselves, measured in the same run (bench_floor.py). Memory is the peak of the resident size while loading and running, less what
# the process took before it loaded the model (the interpreters of the peers are not counted).
# SPDX-License-Identifier: Apache-2.0

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]

try:
    import numpy as np
except ImportError:  # the first python3 of PATH may be another one than that which has numpy
    found = subprocess.run([ROOT / "tools/dev/find_python.sh"], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stderr.strip())
    python = found.stdout.strip()
    os.execv(python, [python, *sys.argv])

MODELS = ("resnet50", "mobilenet", "encoder", "gpt", "mlp")


class Worker:
    """A process that serves one model; None from start() when the engine is not installed."""

    def __init__(self, name, command, environment):
        self.name, self.times = name, []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environ(environment)})
        self.ready = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with code {self.process.wait()}")
        return json.loads(line)

    def ask(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.answer()

    def output(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "y.npy")
            self.ask(f"output y {path}")
            return np.load(path)

    def close(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait()


def environ(extra):
    return {k: str(v) for k, v in extra.items()}


def engines(args):
    """Name -> function (model, batch, threads) -> command and environment; only what is there."""
    models, build = args.folder, args.build
    bench = build / "bin/opc-bench"
    found = {}

    def opc(extra):
        return lambda m, b, t: ([str(bench), "model", "--graph", f"{models}/{m}_b{b}.pbtxt", "--weights",
                                 f"{models}/{m}.safetensors", "--input", f"x={models}/{m}_b{b}_x.npy", "--threads",
                                 str(t), *extra], {})

    found["opc"] = opc([])
    found["opc-unfused"] = opc(["--no-fuse"])
    if (args.peers / "node_modules/onnxruntime-node").is_dir():
        found["ort"] = lambda m, b, t: (["node", str(ROOT / "tools/bench/ort_worker.js"), f"{models}/{m}_b{b}.onnx",
                                         f"{models}/{m}_b{b}_x.npy", str(t)], {"NODE_PATH": args.peers / "node_modules"})
    if subprocess.run([args.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
        for mode in ("eager", "jit"):
            found[f"torch-{mode}"] = lambda m, b, t, mode=mode: (
                [args.python, str(ROOT / "tools/bench/torch_worker.py"), f"{models}/{m}_b{b}.json",
                 f"{models}/{m}.safetensors", f"{models}/{m}_b{b}_x.npy", str(t), mode], {"OMP_NUM_THREADS": t})
    return found


def measure(args, found, model, batch, threads, steps=None):
    """`steps`: the same number of runs a round for every engine (a training step changes what follows)."""
    workers, rows = [], []
    try:
        for name, make in found.items():
            try:
                workers.append(Worker(name, *make(model, batch, threads)))
            except RuntimeError as e:
                print(f"bench_models: {e}", file=sys.stderr)
        first = {w.name: w.ask("run 1")["times"][0] for w in workers}
        once = {w.name: w.ask("run 1")["times"][0] for w in workers}
        runs = {name: steps or max(1, min(50, int(0.25 / max(t, 1e-6)))) for name, t in once.items()}
        for _ in range(args.rounds):
            for w in workers:
                w.times.append(min(w.ask(f"run {runs[w.name]}")["times"]))
        expected = workers[0].output()
        scale = float(np.abs(expected).max())
        for w in workers:
            memory = w.ask("memory")
            error = float(np.abs(w.output() - expected).max()) / scale
            rows.append({"model": model, "batch": batch, "threads": threads, "engine": w.name,
                         "ms": statistics.median(w.times) * 1e3, "best_ms": min(w.times) * 1e3,
                         "first_ms": first[w.name] * 1e3, "load_s": w.ready["load"],
                         "peak_mb": (memory["VmHWM"] - w.ready["before"]["VmRSS"]) / 1e6,
                         "resident_mb": (memory["VmRSS"] - w.ready["before"]["VmRSS"]) / 1e6,
                         "difference": error, "agrees": bool(error <= 1e-3)})
        for r in rows:
            pairs = [a / b for a, b in zip(workers[0].times, next(w for w in workers if w.name == r["engine"]).times)]
            r["opc_ratio"] = statistics.median(pairs)
            r["opc_memory_ratio"] = rows[0]["peak_mb"] / r["peak_mb"] if r["peak_mb"] > 0 else 0
    finally:
        for w in workers:
            w.close()
    return rows


def main():
    import bench_floor  # which uses this module

    parser = argparse.ArgumentParser(description="whole models through opc and its peers, in turns")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engines", default="", help="only these (opc is always there)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/models", help="where the models are or will be")
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that has torch")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = engines(args)
    if args.engines:
        found = {k: v for k, v in found.items() if k == "opc" or k in args.engines.split(",")}
    wanted, rows, bad = args.models.split(","), [], False
    missing = [m for m in wanted if any(not (args.folder / f"{m}_b{b}.onnx").exists() for b in args.batch.split(","))]
    if missing:
        make = ROOT / "docs/examples/models/make_models.py"
        subprocess.run([sys.executable, str(make), str(args.folder), "--models", ",".join(missing), "--batch", args.batch],
                       check=True)
    if not args.json:
        print(f"{'model':<10} {'batch':>5} {'threads':>7} {'engine':<12} {'ms':>9} {'opc/it':>7} {'peak MB':>8} {'opc/it':>7} "
              f"{'load s':>7} {'floor ms':>9} {'it/floor':>8} {'difference':>10}")
    for model in wanted:
        for batch in map(int, args.batch.split(",")):
            for threads in map(int, args.threads.split(",")):
                least = bench_floor.of_model(args, args.folder / f"{model}_b{batch}.pbtxt", threads)
                for r in measure(args, found, model, batch, threads):
                    r.update(least, floor_ratio=r["ms"] / least["floor_ms"])
                    rows.append(r)
                    bad |= not r["agrees"]
                    if not args.json:
                        print(f"{r['model']:<10} {r['batch']:>5} {r['threads']:>7} {r['engine']:<12} {r['ms']:>9.2f} "
                              f"{r['opc_ratio']:>7.2f} {r['peak_mb']:>8.1f} {r['opc_memory_ratio']:>7.2f} "
                              f"{r['load_s']:>7.2f} {r['floor_ms']:>9.2f} {r['floor_ratio']:>8.2f} {r['difference']:>10.1e}{'' if r['agrees'] else '  DIFFERS'}", flush=True)
    if args.json:
        print(json.dumps({"schema": 1, "rows": rows}, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
