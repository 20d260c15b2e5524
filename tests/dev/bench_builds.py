#!/usr/bin/env python3
# Whether one build of opc is slower than another: every row of opc-bench and the bench models, both builds in turns.
#
#   tests/dev/bench_builds.py OLD NEW [--filter 'kernel/*'] [--models mlp,gpt] [--rounds 5] [--limit 1.03] [--json FILE]
#
# OLD and NEW are build folders. A row's figure is the smallest of its rounds on each side; a row above the limit is measured
# again with three times the rounds before it counts, since a busy machine is slow by turns, too. Figures are all of the
# kind where less is better (us, s, MiB). Exit code 1 when a row stays above the limit.
# SPDX-License-Identifier: Apache-2.0

import argparse
import fnmatch
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import bench_models  # noqa: E402


def bench(build, *arguments):
    return subprocess.run([str(build / "bin/opc-bench"), *arguments], check=True, capture_output=True, text=True).stdout


def row_names(build):
    return [line.split()[0] for line in bench(build, "--list").splitlines() if "/" in line]


def measure_row(builds, name, rounds):
    """The smallest value of each build."""
    best = [float("inf")] * len(builds)
    pattern = "".join(f"[{c}]" if c in "*?[" else c for c in name)
    for _ in range(rounds):
        for i, build in enumerate(builds):
            for row in json.loads(bench(build, "--json", "--filter", pattern))["rows"]:
                if row["name"] == name and row.get("value") is not None:
                    best[i] = min(best[i], row["value"])
    return best


def measure_model(builds, folder, model, batch, threads, rounds):
    workers = [bench_models.Worker(str(b), [str(b / "bin/opc-bench"), "model", "--graph", f"{folder}/{model}_b{batch}.pbtxt",
                                            "--weights", f"{folder}/{model}.safetensors", "--input",
                                            f"x={folder}/{model}_b{batch}_x.npy", "--threads", str(threads)], {})
               for b in builds]
    try:
        once = max(w.ask("run 2")["times"][-1] for w in workers)
        runs = max(1, min(50, int(0.25 / max(once, 1e-6))))
        for _ in range(rounds):
            for w in workers:
                w.times.append(min(w.ask(f"run {runs}")["times"]))
        return [min(w.times) * 1e3 for w in workers]
    finally:
        for w in workers:
            w.close()


def subjects(args, builds, folder):
    """(name, function of the number of rounds)."""
    for name in row_names(builds[0]):
        if fnmatch.fnmatchcase(name, args.filter) and not name.endswith(("_gap", "_growth")):
            yield name, lambda rounds, name=name: measure_row(builds, name, rounds)
    for model in filter(None, args.models.split(",")):
        for batch in (1, 8):
            for threads in (1, 2):
                yield (f"model/{model}_b{batch}_t{threads}",
                       lambda rounds, m=model, b=batch, t=threads: measure_model(builds, folder, m, b, t, rounds))


def main():
    parser = argparse.ArgumentParser(description="Compares the speed of two builds of opc.")
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--filter", default="*", help="rows of opc-bench (a pattern; '' for none)")
    parser.add_argument("--models", default=",".join(bench_models.MODELS), help="bench models, comma separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=1.03)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    builds = [args.old.resolve(), args.new.resolve()]
    with tempfile.TemporaryDirectory() as folder:
        if args.models:
            subprocess.run([sys.executable, str(ROOT / "docs/examples/models/make_models.py"), folder], check=True,
                           stdout=subprocess.DEVNULL)
        rows, slower = [], []
        for name, measure in subjects(args, builds, folder):
            old, new = measure(args.rounds)
            if new > old * args.limit:
                again = measure(3 * args.rounds)
                old, new = min(old, again[0]), min(new, again[1])
            ratio = new / old if old > 0 else 1.0
            rows.append({"name": name, "old": old, "new": new, "ratio": ratio})
            if ratio > args.limit:
                slower.append(name)
            print(f"{name:40} {old:12.4g} {new:12.4g} {ratio:7.3f}{'  slower' if ratio > args.limit else ''}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{len(rows)} rows, {len(slower)} slower than {args.limit} times" + "".join(f"\n  {n}" for n in slower))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
