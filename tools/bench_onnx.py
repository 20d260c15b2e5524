#!/usr/bin/env python3
# ONNX models beside ONNX Runtime: whether the numbers agree, what a run takes and the start before it, and how much memory.
# SPDX-License-Identifier: Apache-2.0
"""usage: bench_onnx.py [--models GLOB,...] [--batches N,...] [--rounds N] [--threads N] [--numbers] [--int8 | --f16] [--json FILE]

Models of tests/onnx/zoo, exported by PyTorch, as they are and as ONNX Runtime's optimizer saves them at level extended. Needs the
peers of tools/dev/install_peers.sh in build/peers (OPC_PEERS names another folder), Debian's python3-torch, and a build of opc
(OPC_BUILD_DIR). With --int8 each model is quantised by opc quantize, with its own inputs as examples, and both programs run that, opc the
model in f32, too, by turns. With --f16 the models' tensors are in half precision. With --numbers nothing is timed. Exit code 1 when a result is
further from ONNX Runtime's or from PyTorch's in f32 than 1e-4 of its range, with --f16 than 1e-2 (from both, where these are further from each
other), or with --int8 has a cosine under 0.999 with PyTorch's.
"""
import argparse
import fnmatch
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
EXPORT, HALVE = (["/usr/bin/python3", os.path.join(ROOT, "tests", "onnx", "zoo", name)] for name in ("export.py", "halved.py"))
PEERS = os.environ.get("OPC_PEERS", os.path.join(ROOT, "build", "peers"))
BUILD = os.environ.get("OPC_BUILD_DIR", os.path.join(ROOT, "build"))
NODE = {"NODE_PATH": os.path.join(PEERS, "node_modules")}
RANGE, F16_RANGE, COSINE = 1e-4, 1e-2, 0.999
ROUND = 0.5  # seconds of runs in a round, about


# A process begins as its parent, whose memory counts as its own until then: a parent without numpy starts it.
PEAK = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[2:]).returncode; "
        "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)); sys.exit(r)")  # fmt: skip


def ended(command, **more):
    """What a program has printed, and its peak of memory in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        peak = os.path.join(folder, "peak")
        done = subprocess.run([sys.executable, "-I", "-S", "-c", PEAK, peak, *command], capture_output=True, text=True, check=False, **more)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        with open(peak, encoding="utf-8") as f:
            return done.stdout, int(f.read())


def opc(folder, model, threads, calls):
    """Seconds of a run (median), or None without `calls`, the peak of memory, and the seconds until a run can begin (reading, compiling,
    loading); the outputs are in FOLDER/opc."""
    command = [os.path.join(BUILD, "bin", "opc"), "run", model, "--inputs", "inputs", "--outputs", "opc", "-j", str(threads), "--json",
               "--config", "none", "--timing"]
    text, peak = ended([*command, *(["--repeat", str(calls), "--warmup", "1"] if calls else [])], cwd=folder)
    timing = json.loads(text)["timing"]
    start = sum(seconds for part, seconds in timing["parts_s"].items() if part != "run")
    return timing["p50_s"] if calls else None, peak, start


def distance(folder, other, one="opc"):
    """How far the outputs of one are from the other's at most, as a share of the range of PyTorch's."""
    most = 0.0
    for name in sorted(os.listdir(os.path.join(folder, "outputs"))):
        got, theirs, torch = (np.load(os.path.join(folder, d, name)) for d in (one, other, "outputs"))
        if got.shape != torch.shape or got.dtype != torch.dtype:
            sys.exit(f"{name} is {got.dtype}{list(got.shape)}, PyTorch's {torch.dtype}{list(torch.shape)}")
        got, theirs, torch = (np.asarray(a, np.float32) if a.dtype == np.float16 else a for a in (got, theirs, torch))
        span = float(torch.max() - torch.min())
        most = max(most, float(np.abs(got - theirs).max()) / span if np.isfinite(got).all() and span else float("inf"))
    return most


def is_far(row, bound):
    """From one of two that agree, or from both: in half precision ONNX Runtime may be further from PyTorch than that, or end."""
    if row["peer_from_torch"] is None:
        return not row["from_torch"] <= bound
    judges = max if row["peer_from_torch"] <= bound else min
    return not judges(row["difference"], row["from_torch"]) <= bound


def alone(name, folder, model, options, why):
    """opc's numbers beside PyTorch's, where the other program runs no such model."""
    opc(folder, model, options.threads, None)
    row = {"model": name, "difference": None, "from_torch": distance(folder, "outputs"), "peer_from_torch": None}
    print(f"{name:28} {why}; differs from PyTorch by {row['from_torch']:.1e} of the range", flush=True)
    return row


def measure(name, folder, model, options):
    try:
        return beside(name, folder, model, options)
    except RuntimeError as why:
        return alone(name, folder, model, options, why)


def beside(name, folder, model, options):
    peer = Worker("ONNX Runtime", ["node", os.path.join(BENCH, "ort_worker.js"), os.path.join(folder, model), os.path.join(folder, "inputs"),
                                   str(options.threads)], NODE)
    took = statistics.median(peer.ask("run 3")["times"])
    calls = max(3, min(100, int(ROUND / took)))
    ours, others, peaks, starts = [], [], [], []
    for _ in range(1 if options.numbers else options.rounds):
        if not options.numbers:
            others.append(statistics.median(peer.ask(f"run {calls}")["times"]))
        seconds, peak, start = opc(folder, model, options.threads, None if options.numbers else calls)
        ours.append(seconds), peaks.append(peak), starts.append(start)
    os.makedirs(os.path.join(folder, "ort"), exist_ok=True)
    peer.ask(f"outputs {os.path.join(folder, 'ort')}")
    memory = peer.ask("memory")["VmHWM"] - peer.ready["node"]["VmRSS"]  # its library included, as opc's is
    peer.close()
    row = {"model": name, "difference": distance(folder, "ort"), "from_torch": distance(folder, "outputs"),
           "peer_from_torch": distance(folder, "outputs", "ort")}  # fmt: skip
    said = f"{name:28} differs by {row['difference']:.1e} of the range, from PyTorch by {row['from_torch']:.1e}"
    if options.f16 and row["peer_from_torch"] > F16_RANGE:
        said += f" (ONNX Runtime by {row['peer_from_torch']:.1e})"
    if not options.numbers:
        row.update(opc=min(ours), onnxruntime=min(others), ratio=min(ours) / min(others), opc_bytes=max(peaks), onnxruntime_bytes=memory,
                   memory_ratio=max(peaks) / memory, opc_start=min(starts), onnxruntime_start=peer.ready["load"],
                   start_ratio=min(starts) / peer.ready["load"])  # fmt: skip
        said += (f"; opc {row['opc'] * 1e3:.2f} ms, {row['opc_bytes'] >> 20} MiB, ONNX Runtime {row['onnxruntime'] * 1e3:.2f} ms, {memory >> 20} MiB: "
                 f"{row['ratio']:.2f} of the time, {row['memory_ratio']:.2f} of the memory, {row['start_ratio']:.2f} of the start")
    print(said, flush=True)
    return row


def cosine(folder):
    """The least one of opc's outputs with PyTorch's."""
    least = 1.0
    for name in os.listdir(os.path.join(folder, "outputs")):
        a, b = (np.load(os.path.join(folder, d, name)).astype(np.float64).ravel() for d in ("opc", "outputs"))
        least = min(least, float(a @ b / np.sqrt((a @ a) * (b @ b))))
    return least


def measure_int8(name, folder, options):
    examples = [f"{os.path.splitext(f)[0]}=@inputs/{f}" for f in sorted(os.listdir(os.path.join(folder, "inputs")))]
    given = [word for example in examples for word in ("--calibrate", example)]
    ended([os.path.join(BUILD, "bin", "opc"), "quantize", "model.onnx", *given, "-o", "int8.onnx"], cwd=folder)
    peer = Worker("ONNX Runtime", ["node", os.path.join(BENCH, "ort_worker.js"), os.path.join(folder, "int8.onnx"), os.path.join(folder, "inputs"),
                                   str(options.threads)], NODE)
    calls = max(3, min(100, int(ROUND / statistics.median(peer.ask("run 3")["times"]))))
    times = {"f32": [], "int8": [], "onnxruntime": []}
    for _ in range(options.rounds):
        times["onnxruntime"].append(statistics.median(peer.ask(f"run {calls}")["times"]))
        for kind, model in (("f32", "model.onnx"), ("int8", "int8.onnx")):
            times[kind].append(opc(folder, model, options.threads, calls)[0])
    peer.close()
    best = {kind: min(seconds) for kind, seconds in times.items()}
    row = {"model": name, "cosine": cosine(folder), "faster": best["f32"] / best["int8"], "ratio": best["int8"] / best["onnxruntime"], **best}
    print(f"{name:28} cosine {row['cosine']:.6f}; opc {best['int8'] * 1e3:.2f} ms, in f32 {best['f32'] * 1e3:.2f} ms, ONNX Runtime {best['onnxruntime'] * 1e3:.2f} ms: "
          f"{row['faster']:.2f} times as fast as f32, {row['ratio']:.2f} of ONNX Runtime's time", flush=True)  # fmt: skip
    return row


def main():
    parser = argparse.ArgumentParser(description=re.sub(r"\n\n.*", "", __doc__ or "", flags=re.S))
    parser.add_argument("--models", default="*", help="names or globs, with commas (default: all)")
    parser.add_argument("--batches", default="1,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--numbers", action="store_true", help="no times")
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument("--int8", action="store_true", help="quantised models, at batch 1")
    precision.add_argument("--f16", action="store_true", help="models in half precision")
    parser.add_argument("--json")
    options = parser.parse_args()
    known, globs = ended([*EXPORT, "--list"])[0].split(), options.models.split(",")
    for glob in globs:
        if not fnmatch.filter(known, glob):
            sys.exit(f"no model is called {glob}; there are {', '.join(known)}")
    rows = []
    for name in (n for n in known if any(fnmatch.fnmatchcase(n, g) for g in globs)):
        for batch in ["1"] if options.int8 else options.batches.split(","):
            with tempfile.TemporaryDirectory(prefix="bench_onnx") as folder:
                ended([*EXPORT, folder, name, batch])
                if options.f16:
                    ended([*HALVE, folder])
                if options.int8:
                    rows.append(measure_int8(name, folder, options))
                    continue
                ended(["node", os.path.join(BENCH, "ort_optimize.js"), "model.onnx", "extended.onnx", "extended"], cwd=folder, env={**os.environ, **NODE})
                for model, kind in (("model.onnx", ""), ("extended.onnx", " extended")):
                    rows.append(measure(f"{name} b{batch}{kind}", folder, model, options))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    if options.int8:
        return int(any(not r["cosine"] >= COSINE for r in rows))
    bound = F16_RANGE if options.f16 else RANGE
    far = [r["model"] for r in rows if is_far(r, bound)]
    print(f"{len(rows)} runs, {len(far)} further than {bound:g} of the range" + ": " * bool(far) + ", ".join(far))
    return int(bool(far))


if __name__ == "__main__":
    sys.exit(main())
