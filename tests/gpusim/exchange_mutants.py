# Ranks on simulated GPUs that exchange from device to device: right under every schedule and in every kind of step; and when single waits,
# copies or sums are taken away, that is noticed, by another number or a finding.
# SPDX-License-Identifier: Apache-2.0
"""usage: exchange_mutants.py [--list]: all mutants and what noticed them"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np

sys.path.append(os.path.join(os.environ["OPC_SOURCE_DIR"], "tests", "cli"))
from gpu_build import need_simulator  # noqa: E402
from schedules import skips  # noqa: E402

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
PROGRAM = os.path.join(BIN, "opc_gpusim_exchanges")
POLICIES = ("late", "eager", "random")
ATTEMPTS = 6
FUNCTIONS = ("cuStreamWaitEvent", "cuMemcpyPeerAsync", "cuLaunchKernel", "cuMemcpy2DAsync")
STEPS = 3
# What a rank of several gets of the whole tensor, which is the sum of what all have or what each has a part of.
KINDS = {"sum": None, "bucket": None, "sum_rows": 0, "sum_columns": 1, "gather_rows": None, "gather_columns": None, "exchange": 1, "hand_on": None}


def expected(kind, ranks):
    lines = []
    for rank in range(ranks):
        words = []
        for rows, columns in ((7, 100), (1, 300))[:1 + (kind == "bucket")]:
            for step in range(STEPS):
                whole = (np.arange(rows * columns) + 1.0).reshape(rows, columns) * (step + 1)
                if kind in ("sum", "bucket", "sum_rows", "sum_columns"):
                    whole *= sum(range(1, ranks + 1))
                if KINDS[kind] is not None:
                    whole = np.array_split(whole, ranks, KINDS[kind])[rank]
                if kind == "hand_on" and rank != ranks - 1:
                    whole = np.zeros(0)  # it gives, or has no part
                if kind == "hand_on" and 0 < rank < ranks - 1:
                    continue
                words.append(f" {int((np.arange(whole.size) + 1) @ whole.ravel())}")
        lines.append(f"{rank}:{''.join(words)}")
    return lines


def run(kind, ranks, sim, **more):
    done = subprocess.run([PROGRAM, kind, str(ranks)], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, **{"OPC_COLLECTIVES": "peer", "CUDA_SIM": f"devices={ranks},{sim}", **more}))
    return done, done.stdout.split("\n")[1:-1]


def report(kind, ranks, **more):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        done, lines = run(kind, ranks, "report=" + path, **more)
        assert (done.returncode, lines) == (0, expected(kind, ranks)), done.stdout + done.stderr
        with open(path, encoding="utf-8") as f:
            return json.load(f)


def mutants(kind, ranks):
    return ((kind, ranks, mutant) for mutant in skips(report(kind, ranks), FUNCTIONS))


def noticed(kind, ranks, mutant):
    """By which schedules, in turn. Ranks are threads, so whether one of them is late enough is not the schedule's alone: what is not
    noticed is tried again."""
    found = False
    for attempt in range(ATTEMPTS):
        for policy in POLICIES:
            done, lines = run(kind, ranks, f"skip={mutant},policy={policy},seed={3 + attempt}")
            if done.returncode != 0 or lines != expected(kind, ranks):
                found = True
                yield policy
        if found:
            return


def first(schedules):
    """Whether anybody notices: the others need not be asked. "" when nobody does."""
    return next(schedules, "")


def all_mutants(of=first):
    every = [m for kind in KINDS for m in mutants(kind, 3 if kind in ("sum", "exchange") else 2)]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(every, pool.map(lambda m: of(noticed(*m)), every)))


class Exchanges(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_simulator()

    def test_every_schedule(self):
        """From device to device, over NCCL's stand-in, and through the CPU's memory alike."""
        for kind in KINDS:
            for ranks in (2, 3):
                for sim in [f"policy={p}" for p in POLICIES] + [f"policy=random,seed={n}" for n in range(1, 4)]:
                    for way in ("peer", "nccl", "host") if "seed" not in sim else ("peer",):
                        done, lines = run(kind, ranks, sim, OPC_COLLECTIVES=way)
                        self.assertEqual((done.returncode, lines), (0, expected(kind, ranks)), (kind, ranks, sim, way, done.stderr))

    def test_nothing_but_copies_between_devices(self):
        for kind in KINDS:
            found = report(kind, 2)
            given, peer = found["copies"]["host_to_device"]["count"], found["copies"]["peer"]
            self.assertEqual(found["copies"]["device_to_host"]["count"], len(expected(kind, 2)[1].split(": ")[1].split()) // STEPS * (1 if kind == "hand_on" else 2))
            self.assertEqual(given, STEPS * (1 if kind == "hand_on" else 4 if kind == "bucket" else 2))
            self.assertEqual((peer["count"] > 0, found["copies"]["peer_staged"]["count"]), (not kind.startswith("sum_"), 0), kind)

    def test_devices_that_do_not_reach_each_other(self):
        """Of three, 0 and 1 do: there the driver would take copies through the host, and no kernel reads."""
        done, _ = run("sum", 3, "peers=pairs")
        self.assertEqual(done.returncode, 1)
        self.assertIn("OPC0725: the ranks cannot exchange from device to device; not all devices reach each other's memory", done.stderr)
        done, lines = run("sum", 2, "peers=pairs")
        self.assertEqual((done.returncode, lines), (0, expected("sum", 2)), done.stderr)

    def test_calls_that_fail(self):
        """The job ends with what was tried, and nobody waits for ever."""
        for fault, says in (("cuEventCreate:5:2", "making an event on sim:"), ("cuEventRecord:8:700", "marking a place in a stream"),
                            ("cuStreamWaitEvent:3:700", "waiting for another rank's stream"), ("cuLaunchKernel:2:701", "adding up what the ranks have"),
                            ("cuMemcpyPeerAsync:2:1", "copying from the device of rank ")):
            done, _ = run("sum", 2, "fail=" + fault)
            self.assertEqual(done.returncode, 1, fault)
            self.assertIn("OPC0631: " + says, done.stderr)

    def test_mutants(self):
        found = all_mutants()
        self.assertGreater(len(found), 150)
        self.assertEqual([mutant for mutant, by in found.items() if not by], [])


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for mutant, by in all_mutants(" ".join).items():
            print(*mutant, by or "-")
    else:
        unittest.main(argv=sys.argv[:1] + ["-v"] + sys.argv[1:])
