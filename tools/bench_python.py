#!/usr/bin/env python3
# What the Python package costs: its import over numpy's, building a graph of 10,000 ops, a run of one op beside an empty call.
#
#   tools/bench_python.py [--build build] [--rounds 15] [--json]
#
# Peers are measured in the same run, by turns; each row is the median over the rounds of a round's fastest.
# SPDX-License-Identifier: Apache-2.0

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NODES = 10_000


def start_seconds(code, build):
    """A fresh interpreter that runs `code`, without its start."""
    timed = f"import time; t = time.perf_counter()\n{code}\nprint(time.perf_counter() - t)"
    env = dict(os.environ, PYTHONPATH=str(build / "python"), PYTHONDONTWRITEBYTECODE="")
    return float(subprocess.run([sys.executable, "-c", timed], env=env, capture_output=True, text=True, check=True).stdout)


def fastest(call, count=500, tries=5):
    best = float("inf")
    for _ in range(tries):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - begin) / count)
    return best


def imports(args):
    """(opc after numpy, numpy): the seconds that each adds."""
    pairs = []
    for _ in range(args.rounds):
        numpy = start_seconds("import numpy", args.build)
        pairs.append((start_seconds("import numpy, opc", args.build) - numpy, numpy))
    return {"name": "python/import", "value": statistics.median(p[0] for p in pairs), "unit": "s", "reference": statistics.median(p[1] for p in pairs),
            "reference_name": "numpy", "limit": 0.12}  # fmt: skip


def graph(args, opc):
    def build():
        begin = time.perf_counter()
        x = opc.Graph().input("x", (4,))
        for _ in range(NODES):
            x = opc.ops.relu(x)
        return time.perf_counter() - begin

    return {"name": "python/graph_10000_ops", "value": statistics.median(build() for _ in range(min(args.rounds, 5))), "unit": "s", "limit": 1.0}


def runs(args, opc, np):
    import empty_call

    g = opc.Graph()
    g.output("y", opc.ops.relu(g.input("x", (4,))))
    program, x = g.compile(), np.ones(4, "f")
    program.run(x=x)
    empty = getattr(empty_call, "pass")
    pairs = [(fastest(lambda: program.run(x=x)), fastest(lambda: empty(x))) for _ in range(args.rounds)]
    return {"name": "python/run_one_op", "value": statistics.median(p[0] for p in pairs) * 1e6, "unit": "us", "reference": statistics.median(p[1] for p in pairs) * 1e6,
            "reference_name": "empty call", "ratio": statistics.median(a / b for a, b in pairs), "limit": 8}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sys.path[:0] = [str(args.build / "python"), str(args.build / "python-bench")]
    rows = [imports(args)]  # before opc is in this process
    import numpy as np
    import opc

    rows += [graph(args, opc), runs(args, opc, np)]
    if args.json:
        print(json.dumps({"schema": 1, "rows": rows}))
        return
    for row in rows:
        peer = f"  ({row['reference_name']} {row['reference']:.3g} {row['unit']})" if "reference" in row else ""
        ratio = f"  ratio {row['ratio']:.2f}" if "ratio" in row else ""
        print(f"{row['name']:<24} {row['value']:.3g} {row['unit']}{peer}{ratio}  limit {row['limit']}")


if __name__ == "__main__":
    main()
