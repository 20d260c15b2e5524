# Plans of several streams on the simulated GPU: right under every schedule; and when single events, waits, copies or launches are
# taken away, or registers lie over each other, that is noticed, by another number, a finding or the loader. What is redundant is listed
# with its reason.
# SPDX-License-Identifier: Apache-2.0
"""usage: plan_mutants.py [--list]: all mutants and what noticed them"""
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.append(os.path.join(os.environ["OPC_SOURCE_DIR"], "tests", "cli"))
from gpu_build import need_simulator  # noqa: E402
from reasons import reasons  # noqa: E402
from schedules import skips  # noqa: E402

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
PROGRAM = os.path.join(BIN, "opc_gpusim_plans")
POLICIES = ("late", "eager", "random")
# What a mutant takes away, by the steps of a run: edges, and the uses of slots, in several; copies and work in one, since in the next
# the same work would be done again.
FUNCTIONS = {3: ("cuStreamWaitEvent",), 1: ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuLaunchKernel", "cuGraphLaunch")}
ADDED = {"hand_over": 1111, "pipelined": 1111, "fork": 0, "one_way": 11, "steady": 111, "weights": 100, "beside": 111, "beside_pipelined": 111}
# Of these plans each two registers are laid over each other, and registers get a second slot without memory for it.
REGISTERS = {"hand_over": "x/out a b c y", "ahead": "x/out a b y", "fork": "x/out a b c y", "again": "x/out a b c y"}
SLOTS = {"hand_over": "a b c", "one_way": "a", "fork": "a b c", "again": "a b c"}
# Plans of several streams, in which a step is a graph from the second one on; by themselves their steps are launched task by task.
RECORDED = {plan + "_graph": plan for plan in ("hand_over", "fork", "one_way")}
ADDED |= {name: ADDED[plan] for name, plan in RECORDED.items()}
# Where the CPU works beside the device, its thread waits for copies: only there anybody waits for events while a plan runs.
WAITING = ("beside", "beside_pipelined")


def expected(plan):
    """sum over i of (i + 1) y[i], three times: y = x + 1111, (x + 1 + 10) + (x + 1 + 100), or x + (n + 1) + 100."""
    lines = []
    for n in range(3):
        x = [i + 1000 * n for i in range(1000)]
        added = {**ADDED, "thousand": 1000, "ahead": 111, "again": 0}[plan] + (n + 1 if plan == "weights" else 0)
        y = [2 * v + 112 for v in x] if plan in ("fork", "fork_graph", "again") else [v + added for v in x]
        lines.append(sum((i + 1) * v for i, v in enumerate(y)))
    return "".join(f"{v}\n" for v in lines)


def run(plan, sim, steps=3, *words, **more):
    if plan in RECORDED.values():
        more.setdefault("OPC_CUDA_GRAPHS", "0")
    return subprocess.run([PROGRAM, RECORDED.get(plan, plan), str(steps), *words], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, CUDA_SIM=sim, **more))


def report(plan, steps=3, **more):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        done = run(plan, "report=" + path, steps, **more)
        assert done.returncode == 0, done.stderr
        with open(path, encoding="utf-8") as f:
            return json.load(f)


def mutants(plan):
    for steps, functions in FUNCTIONS.items():
        yield from ((steps, mutant) for mutant in skips(report(plan, steps), functions))


def waits(plan):
    """Waits of the host, as mutants, in one step: in later ones it would read the same numbers too early."""
    for n in range(1, report(plan, 1)["calls"]["cuEventSynchronize"] + 1):
        yield 1, f"cuEventSynchronize:{n}"


def first(schedules):
    """Whether anybody notices: the others need not be asked. "" when nobody does."""
    return next(schedules, "")


def noticed(plan, steps, mutant):
    """By which schedules."""
    for policy in POLICIES:
        done = run(plan, f"skip={mutant},policy={policy},seed=3", steps)
        if done.returncode != 0 or done.stdout != expected(plan):
            yield policy


def overlaps():
    """(plan, REGISTER@REGISTER or REGISTER*2)"""
    for plan, names in REGISTERS.items():
        yield from ((plan, f"{b}@{a}") for a, b in itertools.combinations(names.split(), 2))
    for plan, names in SLOTS.items():
        yield from ((plan, f"{name}*2") for name in names.split())


def refusal(plan, change):
    """What the loader says of a plan with registers that overlap, "" when it takes the plan."""
    loaded = run(plan, "", 3, change)
    code = re.match(r"OPC\d+", loaded.stderr)
    return code[0] if code else loaded.stderr


def seen(plan, change):
    """Of a plan with registers that overlap, without the loader: the schedules under which the simulator, or another number, shows it. The
    last step has the first slot of two, or the second."""
    for policy in POLICIES:
        for steps in (3, 4):
            done = run(plan, f"policy={policy},seed=3", steps, change, "unchecked")
            if done.returncode != 0 or done.stdout != expected(plan):
                yield policy
                break


def all_overlaps(of=first):
    jobs = list(overlaps())
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(jobs, pool.map(lambda job: (refusal(*job), of(seen(*job))), jobs)))


def listed():
    """A line: PLAN FUNCTION:CALLS[:STREAM] | reason."""
    found = {}
    for what, reason in reasons("redundant_calls.txt"):
        plan, mutant = what.split()
        function, calls, *stream = mutant.split(":")
        for n in calls.split(","):
            found[plan, ":".join([function, n, *stream])] = reason
    return found


def listed_overlaps():
    """A line: PLAN REGISTER@REGISTER... | reason."""
    found = {}
    for what, reason in reasons("harmless_overlaps.txt"):
        plan, *changes = what.split()
        found.update({(plan, change): reason for change in changes})
    return found


def all_mutants(of=first):
    triples = [(plan, *m) for plan in ADDED for m in mutants(plan)] + [(plan, *m) for plan in WAITING for m in waits(plan)]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip([(plan, mutant) for plan, _, mutant in triples], pool.map(lambda t: of(noticed(*t)), triples)))


class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_simulator()

    def test_every_schedule(self):
        for plan in ADDED:
            for sim in [f"policy={p}" for p in POLICIES] + [f"policy=random,seed={n}" for n in range(1, 6)]:
                done = run(plan, sim)
                self.assertEqual((done.returncode, done.stdout), (0, expected(plan)), (plan, sim, done.stderr))

    def test_edges_are_events(self):
        """No stream is waited for by the host between tasks: three runs of three steps, and what copies need."""
        found = report("hand_over")
        steps, edges = 9, 2
        self.assertEqual(found["calls"]["cuEventRecord"] >= steps * 2 * edges, True, found["calls"])
        self.assertEqual(found["calls"]["cuStreamWaitEvent"], 9 * edges + 3 * 2 * edges)  # credits: not in the first step of a run
        alone = report("steady")
        self.assertNotIn("cuStreamWaitEvent", alone["calls"])

    def test_steady_state_is_a_graph(self):
        found = report("steady")
        self.assertEqual(found["calls"]["cuStreamBeginCapture"], 1)
        self.assertEqual(found["graph_launches"], 8)  # of nine steps all but the first
        self.assertEqual(found["graph_nodes"], 8 * 3)
        self.assertEqual(found["calls"]["cuLaunchKernel"], 2 * 3)
        without = report("steady", OPC_CUDA_GRAPHS="0")
        self.assertEqual((without["graph_launches"], without["calls"]["cuLaunchKernel"]), (0, 9 * 3))

    def test_a_thousand_ops_are_one_launch(self):
        """Of nine steps the first is launched op by op and the second is recorded, once; each from then on is one launch of a thousand nodes."""
        done = run("thousand", "policy=random,seed=2")
        self.assertEqual((done.returncode, done.stdout), (0, expected("thousand")), done.stderr)
        found = report("thousand")
        calls = found["calls"]
        self.assertEqual((calls["cuStreamBeginCapture"], calls["cuGraphInstantiateWithFlags"], calls["cuGraphLaunch"]), (1, 1, 8))
        self.assertEqual((found["graph_launches"], found["graph_nodes"]), (8, 8 * 1000))
        self.assertEqual(calls["cuLaunchKernel"], 2 * 1000)
        self.assertNotIn("cuStreamWaitEvent", calls)

    def test_a_graph_of_several_streams(self):
        """Tasks of three streams are one launch, and the streams' edges are its own."""
        for plan, tasks, streams, edges in (("hand_over_graph", 4, 2, 2), ("fork_graph", 4, 3, 4), ("one_way_graph", 2, 2, 1)):
            found = report(plan)
            self.assertEqual(found["calls"]["cuStreamBeginCapture"], 1)
            self.assertEqual((found["graph_launches"], found["graph_nodes"]), (8, 8 * tasks))
            self.assertEqual(found["calls"]["cuLaunchKernel"], 2 * tasks)
            # Of the first step, and while it is recorded; credits are those of earlier steps.
            self.assertEqual(found["calls"]["cuStreamWaitEvent"], 2 * edges + streams - 1)
        for plan in ("pipelined", "beside"):  # slots that turn, and the CPU between
            self.assertNotIn("cuStreamBeginCapture", report(plan)["calls"])

    def test_weights_that_are_set(self):
        """Each run has others: the second step of the first run is recorded, and the first of each later one; of several streams, too."""
        for plan in ("weights", "weights_apart"):
            found = report(plan)
            self.assertEqual((found["calls"]["cuStreamBeginCapture"], found["graph_launches"]), (3, 8))
            done = run(plan, "")
            self.assertEqual((done.returncode, done.stdout), (0, expected("weights")), done.stderr)

    def test_a_capture_that_fails(self):
        """Then every step is launched by itself."""
        common = ("cuStreamBeginCapture:1:900", "cuGraphInstantiateWithFlags:1:2")
        for plan, faults in (("steady", (*common, "cuLaunchKernel:5:999")),
                             ("fork_graph", (*common, "cuLaunchKernel:6:999", "cuStreamWaitEvent:5:900", "cuStreamWaitEvent:9:900"))):
            for fault in faults:
                done = run(plan, "fail=" + fault)
                if "is none of" in done.stderr or "takes FUNCTION" in done.stderr:
                    self.fail(done.stderr)
                self.assertEqual((done.returncode, done.stdout), (0, expected(plan)), (plan, fault, done.stderr))

    def test_wrong_indices_of_an_earlier_run(self):
        """Each run answers for its own, also where a launch has failed before the notes were read."""
        for sim, code in (("", "OPC0601"), ("policy=eager", "OPC0601"), ("fail=cuLaunchKernel:3:701", "OPC0631"), ("fail=cuLaunchKernel:290:701", "OPC0631")):
            done = subprocess.run([PROGRAM, "after_failure"], capture_output=True, text=True, timeout=300, env=dict(os.environ, CUDA_SIM=sim))
            self.assertEqual((done.returncode, done.stdout), (0, f"{code}\nbackwards\n"), (sim, done.stderr))

    def test_mutants(self):
        found, redundant = all_mutants(), listed()
        self.assertGreater(len(found), 60)
        silent = sorted(key for key, by in found.items() if not by)
        self.assertEqual(silent, sorted(redundant), "what nobody notices, and the list with reasons")
        for reason in redundant.values():
            self.assertGreaterEqual(len(reason), 20)

    def test_registers_that_overlap(self):
        """Whatever makes other numbers is refused by the loader; and without the loader the simulator sees it, where it matters."""
        found, harmless = all_overlaps(), listed_overlaps()
        for job, (code, by) in found.items():
            self.assertEqual(code, "OPC0817" if code or by else "", job)
        refused = {job for job, (code, _) in found.items() if code}
        self.assertGreater(len(refused), 30)
        self.assertEqual(sorted(job for job in refused if not found[job][1]), sorted(harmless), "what only the loader notices, and the list with reasons")
        for reason in harmless.values():
            self.assertGreaterEqual(len(reason), 20)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for (plan, mutant), by in all_mutants(" ".join).items():
            print(plan, mutant, by or "-")
        for (plan, change), (code, by) in all_overlaps(" ".join).items():
            print(plan, change, code or "-", by or "-")
    else:
        unittest.main(argv=sys.argv[:1] + ["-v"] + sys.argv[1:])
