#!/usr/bin/env python3
"""What a kernel in Python costs: beside the same function called from C, by turns, and the forms of returning 4M floats.

usage: PYTHONPATH=$(opc python --path) tools/bench_python_ops.py [ROUNDS]
"""
# SPDX-License-Identifier: Apache-2.0
import statistics
import sys
import time

import numpy as np

import opc
from opc import _core

CHAIN, STEPS, CALLS = 65, 2_000, 100_000


@opc.op("bench::identity", like="x")
def identity(x):
    return x


@opc.op("bench::twice", like="x")
def twice(x):
    return x + x


@opc.op("bench::twice_out", like="x")
def twice_out(x):
    return x + x


@twice_out.out
def _(x, *, out):
    np.add(x, x, out=out)


def chain(operators, length, size):
    """The operators one after the other, `length` times."""
    g = opc.Graph()
    t = g.input("x", (size,))
    for _ in range(length):
        for operator in operators:
            t = operator(t)
    g.output("y", t)
    return g.compile().session()


def seconds(session, x, steps):
    start = time.perf_counter()
    session.run(steps, x=x)
    return time.perf_counter() - start


def small(rounds):
    """The task alone: a step of 65 tasks less a step of one, divided by 64; and what it adds behind an op in C++."""
    x = np.arange(4, dtype="f")
    negative = opc.ops.negative
    one, many = chain([identity], 1, 4), chain([identity], CHAIN, 4)
    plain, mixed = chain([negative], CHAIN, 4), chain([negative, identity], CHAIN, 4)
    for s in (one, many, plain, mixed):
        s.run(x=x)
    calls = {"call with the GIL": [], "call that takes the GIL": []}
    tasks = {"beside its like": [], "behind an op in C++": []}
    for _ in range(rounds):
        for name, takes in (("call with the GIL", False), ("call that takes the GIL", True)):
            calls[name].append(_core.time_calls(identity.function, x, CALLS, takes) / CALLS)
        tasks["beside its like"].append((seconds(many, x, STEPS) - seconds(one, x, STEPS)) / STEPS / (CHAIN - 1))
        tasks["behind an op in C++"].append((seconds(mixed, x, STEPS) - seconds(plain, x, STEPS)) / STEPS / CHAIN)
    for name, all_of in calls.items():
        print(f"identity of 4 floats, {name}: median {statistics.median(all_of) * 1e9:.0f} ns, least {min(all_of) * 1e9:.0f} ns")
    for name, all_of in tasks.items():
        ratios = ", ".join(f"{statistics.median(t / c for t, c in zip(all_of, of)):.2f} of a {what}" for what, of in calls.items())
        print(f"its task {name}: median {statistics.median(all_of) * 1e9:.0f} ns, least {min(all_of) * 1e9:.0f} ns; {ratios}")


def large(rounds):
    x = np.ones(4 << 20, dtype="f")
    out = np.empty_like(x)
    sessions = {"returned": chain([twice], 1, x.size), "out form": chain([twice_out], 1, x.size)}
    times = {name: [] for name in [*sessions, "numpy alone"]}
    for _ in range(rounds):
        for name, s in sessions.items():
            times[name].append(seconds(s, x, 5) / 5)
        start = time.perf_counter()
        for _ in range(5):
            np.add(x, x, out=out)
        times["numpy alone"].append((time.perf_counter() - start) / 5)
    for name, all_of in times.items():
        print(f"4M floats, {name}: {statistics.median(all_of) * 1e3:.2f} ms")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    small(count)
    large(count)
