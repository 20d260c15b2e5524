# Files of --trace against the public document of the Trace Event Format: fields by kind of event, arrows that pair up, tasks in their order; passes, flops, live and sent bytes, a process for each rank.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from folder_test import FolderTest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_cases as base
from gpu_build import need_simulator
from schedules import SCHEDULES

NUMBER = (int, float)
HAS_MPI = shutil.which("mpirun") and os.path.exists(os.path.join(os.environ["OPC_BUILD_DIR"], "lib", "libopc_mpi.so"))
ROOT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
# "Trace Event Format", sections Complete, Counter, Flow and Metadata Events: what each kind must have, and of which type.
COMMON = {"name": str, "ph": str, "pid": int}
KINDS = {
    "X": {"cat": str, "ts": NUMBER, "dur": NUMBER, "tid": int, "args": dict},
    "C": {"ts": NUMBER, "args": dict},
    "M": {"tid": int, "args": dict},
    "s": {"cat": str, "ts": NUMBER, "id": int, "tid": int},
    "f": {"cat": str, "ts": NUMBER, "id": int, "tid": int, "bp": str},
}


def complaints(document):
    """What a document has that the format has not."""
    found = []
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        return ["no object with a list traceEvents"]
    if document.get("displayTimeUnit") not in (None, "ms", "ns"):
        found.append("displayTimeUnit")
    for number, event in enumerate(document["traceEvents"]):
        fields = {**COMMON, **KINDS.get(event.get("ph"), {"a kind that is known": str})}
        found += [f"{number}: {name}" for name, kind in fields.items()
                  if not isinstance(event.get(name), kind) or isinstance(event.get(name), bool)]
        if event.get("ph") == "X" and event.get("dur", 0) < 0:
            found.append(f"{number}: dur")
        if event.get("ph") == "C" and not all(isinstance(v, NUMBER) for v in event.get("args", {}).values()):
            found.append(f"{number}: args of a counter")
    return found


class Traces(FolderTest):
    def opc(self, *args, code=0, launcher=(), sim=""):
        done = subprocess.run([*launcher, base.OPC, "--config", "none", *args], capture_output=True, text=True, timeout=300, cwd=self.folder,
                              env=ROOT if launcher else dict(os.environ, CUDA_SIM=sim))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def trace(self, *args, code=0, **kw):
        path = os.path.join(self.folder, "t.json")
        self.said = self.opc(*args, "--trace", path, code=code, **kw)
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        self.assertEqual(complaints(document), [])
        return document["traceEvents"]

    def check_flows(self, events):
        tasks = [e for e in events if e["ph"] == "X" and e["cat"] == "task"]
        for task in tasks:
            self.assertLessEqual({"op", "shape", "bytes", "flops", "src", "step", "inputs", "outputs"}, set(task["args"]))
        begins, ends = ({e["id"]: e for e in events if e["ph"] == kind} for kind in "sf")
        self.assertEqual(begins.keys(), ends.keys())
        self.assertEqual(len(begins), sum(e["ph"] == "s" for e in events))
        for flow, begin in begins.items():
            end = ends[flow]
            makers = [t for t in tasks if (t["pid"], t["tid"]) == (begin["pid"], begin["tid"]) and t["ts"] <= begin["ts"] <= t["ts"] + t["dur"]]
            readers = [t for t in tasks if (t["pid"], t["tid"]) == (end["pid"], end["tid"]) and abs(t["ts"] - end["ts"]) < 0.002]
            self.assertTrue(makers and readers, (begin, end))
            self.assertIn(begin["name"], [o.rsplit(" ", 1)[0] for t in makers for o in t["args"]["outputs"]])
            self.assertTrue(any(m["ts"] + m["dur"] <= r["ts"] + 0.002 for m in makers for r in readers), (begin, end))
            self.assertEqual({m["args"]["step"] for m in makers} & {r["args"]["step"] for r in readers} != set(), True)
        return tasks, begins

    def test_a_forward_graph(self):
        tasks, flows = self.check_flows(self.trace("run", os.path.join(base.DIGITS, "cnn.pbtxt"), "--fill", "rand", "--print", "none", "--repeat", "3"))
        self.assertEqual({t["args"]["step"] for t in tasks}, {tasks[0]["args"]["step"] + i for i in range(3)})
        self.assertGreaterEqual(len(flows), len(tasks) - 3) # each task but a step's first reads what another has made

    def test_a_tensor_that_two_read(self):
        product = """op { name: "gram" user_conf { op_type_name: "matmul" input { key: "a" value { s: "act/y_0" } } input { key: "b" value { s: "fc/out_0" } }
  attr { key: "transpose_b" value { at_bool: true } } } }
op { name: "y" output_conf { in: "gram/out_0" } }"""
        with open(os.path.join(self.folder, "g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(base.GRAPH.replace('op { name: "y" output_conf { in: "act/y_0" } }', product))
        _, flows = self.check_flows(self.trace("run", "g.pbtxt", "--fill", "rand", "--no-fuse"))
        names = sorted(f["name"] for f in flows.values())
        self.assertEqual(names, ["act/y_0", "fc/out_0", "fc/out_0"])

    def test_a_plan(self):
        plan = os.path.join(self.folder, "p.plan")
        subprocess.run([base.OPC, "compile", os.path.join(base.DIGITS, "mlp.pbtxt"), "-o", plan, "-q"], check=True, timeout=60)
        events = self.trace("run", plan, "--fill", "rand", "--print", "none")
        self.check_flows(events)
        self.assertEqual([e["name"] for e in events if e["name"].startswith("phase ")], [])

    def phases(self, events):
        """Passes lie within their phases, which follow each other."""
        phases = [e for e in events if e.get("cat") == "phase"]
        for before, after in zip(phases, phases[1:]):
            self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.002)
        ran = {}
        for p in [e for e in events if e.get("cat") == "pass"]:
            around = [f for f in phases if f["ts"] - 0.002 <= p["ts"] and p["ts"] + p["dur"] <= f["ts"] + f["dur"] + 0.002]
            self.assertEqual(len(around), 1, p)
            self.assertEqual((p["pid"], p["tid"]), (around[0]["pid"], around[0]["tid"]))
            ran.setdefault(around[0]["name"][6:], []).append(p["name"][5:])
        return [e["name"][6:] for e in phases], ran

    def test_compilation_alone(self):
        graph = os.path.join(base.DIGITS, "mlp.pbtxt")
        names, ran = self.phases(self.trace("compile", graph, "-o", "m.plan", "-q"))
        self.assertEqual(names, ["import", "shape", "grad", "simplify", "sbp", "boxing", "fuse", "tasks", "memory", "plan"])
        # docs/passes.md: what a phase runs; import, memory and plan are functions.
        self.assertLessEqual(set(ran), {"shape", "grad", "simplify", "fuse", "tasks"})
        with open(os.path.join(base.SOURCE, "docs", "passes.md"), encoding="utf-8") as f:
            documented = set(re.findall(r"^## `-(opc-[a-z-]+)`", f.read(), re.M))
        self.assertEqual({p for passes in ran.values() for p in passes} - documented - {"cse", "canonicalize"}, set())
        self.assertIn("opc-infer-shapes", ran["shape"])
        with open(os.path.join(self.folder, "bad.pbtxt"), "w", encoding="utf-8") as f:
            f.write(base.GRAPH.replace("dim: 3 dim: 5", "dim: 4 dim: 5"))
        for command in (["compile", "bad.pbtxt", "-o", "m.plan", "-q"], ["run", "bad.pbtxt", "--fill", "rand"]):
            names, ran = self.phases(self.trace(*command, code=3)) # as far as it came, with the pass that failed
            self.assertEqual(names, ["import", "shape"])
            self.assertIn("opc-infer-shapes", ran["shape"])

    def test_a_run_has_its_parts(self):
        events = self.trace("run", os.path.join(base.DIGITS, "mlp.pbtxt"), "--fill", "rand", "--print", "none", "--reference", "cpu", "--no-fuse")
        spans = {e["name"]: e for e in events if e.get("cat") == "opc"}
        self.assertLessEqual({"compile", "load the plan", "give values", "prepare kernels", "run", "reference", "write outputs"}, set(spans))
        names, ran = self.phases(events)
        self.assertEqual((names[0], names[-1]), ("import", "plan"))
        inside = lambda e, name: spans[name]["ts"] - 0.002 <= e["ts"] and e["ts"] + e["dur"] <= spans[name]["ts"] + spans[name]["dur"] + 0.002
        self.assertTrue(all(inside(e, "compile") for e in events if e.get("cat") == "phase"))
        self.assertTrue(all(inside(e, "run") for e in events if e.get("cat") == "task"))

    # --- what a task does --------------------------------------------------------------------------------------------------
    def test_flops_and_places(self):
        graph = os.path.join(base.DIGITS, "mlp.pbtxt")
        for flags in ([], ["--no-fuse"], ["--mesh", "2", "--in-process", "--no-fuse", "--sbp", "image=S(0)"]):
            tasks, _ = self.check_flows(self.trace("run", graph, "--fill", "rand", "--print", "none", *flags))
            products = 0
            for t in tasks:
                if t["args"]["op"] in ("matmul", "opc.matmul"):
                    (m, k), (n, width) = (map(int, re.search(r"\[(\d+),(\d+)\]", i).groups()) for i in t["args"]["inputs"][:2])
                    self.assertEqual((k, t["args"]["flops"]), (width, 2 * m * n * k)) # b is transposed
                    products += 1
                self.assertGreaterEqual(t["args"]["flops"], 0)
                self.assertRegex(t["args"]["src"], r"mlp\.pbtxt:\d+:\d+$")
            if flags:
                self.assertEqual(products, 3 * (2 if "--mesh" in flags else 1))
            else: # fused or not, as much is computed: as much as opc show says of the whole
                cost = json.loads(self.opc("show", graph, "--what", "cost", "--json").stdout)["flops"]
                self.assertAlmostEqual(sum(t["args"]["flops"] for t in tasks), cost, delta=0.02 * cost)

    # --- counters ----------------------------------------------------------------------------------------------------------
    def counters(self, events, name, series):
        found = {}
        for e in events:
            if e["ph"] == "C" and e["name"] == name:
                self.assertEqual(list(e["args"]), [series])
                found.setdefault(e["pid"], []).append((e["ts"], e["args"][series]))
        return {pid: [v for _, v in sorted(values, key=lambda x: x[0])] for pid, values in found.items()}

    def planned(self, plan):
        """The peak that a plan says, and the same from the lives of its buffers."""
        memory = json.loads(self.opc("show", plan, "--what", "memory", "--json").stdout)["memory"]
        slots = [s for s in memory["slots"] if s["kind"] in ("activation", "workspace")]
        live = [sum(s["bytes"] for s in slots if s["first_task"] <= t <= s["last_task"]) for t in range(1 + max(s["last_task"] for s in slots))]
        self.assertEqual(memory["live_lower_bound"], max(live))
        return max(live)

    def training(self):
        if not os.path.exists(os.path.join(self.folder, "train.pbtxt")):
            with open(os.path.join(self.folder, "loss.pbtxt"), "w", encoding="utf-8") as out:
                for name in ("mlp.pbtxt", "mlp_loss.pbtxt"):
                    with open(os.path.join(base.DIGITS, name), encoding="utf-8") as f:
                        out.write(f.read() + "\n")
            self.opc("grad", "loss.pbtxt", "--shape", "image=32,64", "--shape", "label=32", "--loss", "loss", "--optimizer", "adam", "--lr", "0.01",
                     "-o", "train.pbtxt")
        return "train.pbtxt"

    def test_live_bytes_are_the_planned_ones(self):
        cases = [(os.path.join(base.DIGITS, "cnn.pbtxt"), []), (os.path.join(base.DIGITS, "mlp.pbtxt"), ["--no-fuse"]), (self.training(), [])]
        for graph, flags in cases:
            self.opc("compile", graph, "-o", "p.plan", "-q", *flags)
            peak = self.planned("p.plan")
            for what in ([graph, *flags], ["p.plan"]):
                events = self.trace("run", *what, "--fill", "zeros", "--print", "none", "--repeat", "2")
                tasks, _ = self.check_flows(events)
                self.assertEqual({t["args"]["step"] for t in tasks}, {0, 1})
                live = self.counters(events, "live bytes", "activations")
                self.assertEqual(list(live), [1])
                self.assertEqual(max(live[1]), peak, what)
                self.assertEqual(len(live[1]), len(tasks) + 2) # and one more at the end of each step: what can be fetched
                self.assertEqual(self.counters(events, "communication bytes", "sent"), {})

    def check_ranks(self, events, ranks, plan, launched=False):
        """A process for each rank, with the bytes that it really sent."""
        tasks, _ = self.check_flows(events)
        pids = list(range(1, ranks + 1))
        self.assertEqual(sorted({t["pid"] for t in tasks}), pids)
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {0: "opc", **{p: f"rank {p - 1}: cpu" for p in pids}})
        threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertLessEqual({(t["pid"], t["tid"]) for t in tasks}, set(threads))
        commands = [f"rank {r}: command" for r in range(ranks)] if launched else ["command"]
        self.assertEqual([threads[0, t] for t in range(len(commands))], commands)
        for key, name in threads.items():
            self.assertTrue(key[0] == 0 or re.fullmatch(rf"stream {key[1]}(: comm)?", name), name)
        peak, live = self.planned(plan), self.counters(events, "live bytes", "activations")
        self.assertEqual(sorted(live), pids)
        self.assertEqual(max(live[1]), peak) # opc show shows the first rank's; the others' are no larger
        self.assertEqual([pid for pid in pids if max(live[pid]) > peak], [])
        sent = self.counters(events, "communication bytes", "sent")
        done = {r["rank"] + 1: r["bytes_sent"] for r in json.loads(self.said.stdout)["ranks"]} # counted by the engine
        self.assertEqual({pid: values[-1] for pid, values in sent.items()}, done)
        for pid, values in sent.items():
            self.assertEqual((values[0], values), (0, sorted(values)))
            self.assertEqual(values[-1], sum(t["args"].get("sent", 0) for t in tasks if t["pid"] == pid))
        return tasks, threads

    def test_ranks_and_two_streams(self):
        mesh = ["--mesh", "4", "--sbp", "relu?=S(0)", "--sbp", "fc?_grad_b=P"] # gradients are reduced beside the computation
        self.opc("compile", self.training(), *mesh, "-o", "p.plan", "-q")
        run = ["--in-process", "--fill", "zeros", "--print", "none", "--stats", "--json"]
        events = self.trace("run", self.training(), *mesh, *run, "--repeat", "2")
        tasks, threads = self.check_ranks(events, 4, "p.plan")
        self.assertIn("comm", {name.split(": ")[-1] for name in threads.values()})
        self.assertEqual({tid for pid, tid in threads if pid == 1}, {0, 1})
        for stream in threads: # each does one thing at a time
            own = sorted(((t["ts"], t["dur"]) for t in tasks if (t["pid"], t["tid"]) == stream))
            for (start, length), (after, _) in zip(own, own[1:]):
                self.assertLessEqual(start + length, after + 0.002)
        transfers = {t["name"] for t in tasks if "sent" in t["args"]}
        self.assertTrue(transfers)
        for pid in range(1, 5):
            self.assertEqual({t["name"] for t in tasks if t["pid"] == pid and "sent" in t["args"]}, transfers)
        events = self.trace("run", "p.plan", "--ranks", "4", *run)
        self.check_ranks(events, 4, "p.plan")

    # --- GPUs --------------------------------------------------------------------------------------------------------------
    def lanes(self, events):
        """The names of threads but the command's, by stream; each does one thing at a time."""
        tasks, _ = self.check_flows(events)
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 1}
        self.assertEqual({t["tid"] for t in tasks}, set(names))
        for stream in names:
            own = sorted((t["ts"], t["dur"]) for t in tasks if t["tid"] == stream)
            for (start, length), (after, _) in zip(own, own[1:]):
                self.assertLessEqual(start + length, after + 0.002)
        return tasks, names, next(e["args"]["name"] for e in events if e["name"] == "process_name" and e["pid"] == 1)

    def test_a_gpu(self):
        need_simulator()
        graph = os.path.join(base.SOURCE, "tests", "cli", "Inputs", "log.pbtxt")
        self.opc("run", graph, "--input", "x=1,2,3,4,5,6", "--device", "sim", "--no-fuse", "--print", "none", "--trace", "t.json")
        checker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_trace.py")
        done = subprocess.run([sys.executable, checker, os.path.join(self.folder, "t.json"), "half", "ln", "up", "sum"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for sim in SCHEDULES:
            events = self.trace("run", os.path.join(base.DIGITS, "cnn.pbtxt"), "--shape", "image=8,64", "--device", "sim", "--fill", "rand", "--print", "none", "--repeat", "3", sim=sim)
            tasks, names, device = self.lanes(events)
            self.assertEqual((names, device), ({0: "stream 0"}, "sim"))
            self.assertEqual({t["args"]["step"] for t in tasks}, {0, 1, 2})

    def test_a_gpu_and_the_cpu(self):
        """A lane for the device's computation, one for the CPU's, and one for copies in each direction."""
        need_simulator()
        for sim in SCHEDULES:
            events = self.trace("run", os.path.join(base.DIGITS, "mlp.pbtxt"), "--shape", "image=8,64", "--device", "sim", "--place", "relu1=cpu", "--no-fuse", "--fill", "rand", "--print",
                                "none", "--repeat", "3", sim=sim)
            tasks, names, device = self.lanes(events)
            self.assertEqual((names, device), ({0: "stream 0", 1: "stream 1: cpu", 2: "stream 2", 3: "stream 3"}, "sim"))
            by_lane = {lane: {t["name"] for t in tasks if t["tid"] == lane} for lane in names}
            self.assertEqual(by_lane[1], {"relu1"})
            self.assertTrue(all(re.fullmatch(r".*\.to_device", name) for name in by_lane[2]), by_lane)
            self.assertTrue(all(re.fullmatch(r".*\.to_cpu", name) for name in by_lane[3]), by_lane)
            for step in range(3):  # made, copied, read, copied back
                end, start = ({t["name"]: t["ts"] + (t["dur"] if behind else 0) for t in tasks if t["args"]["step"] == step} for behind in (True, False))
                (to_cpu,), (back,) = by_lane[3], by_lane[2]
                self.assertLessEqual(end[to_cpu], start["relu1"] + 0.002)
                self.assertLessEqual(end["relu1"], start[back] + 0.002)

    @unittest.skipUnless(HAS_MPI, "no mpirun, or built without MPI")
    def test_ranks_that_are_processes(self):
        self.opc("compile", self.training(), "--mesh", "3", "-o", "p.plan", "-q")
        mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "3"]
        events = self.trace("run", "p.plan", "--fill", "zeros", "--print", "none", "--stats", "--json", "--repeat", "2", launcher=mpirun)
        tasks, _ = self.check_ranks(events, 3, "p.plan", launched=True)
        self.assertEqual([n for n in os.listdir(self.folder) if "t.json" in n], ["t.json"])
        # One clock: nobody has what another one sends before that one has begun to.
        for name in {t["name"] for t in tasks if "sent" in t["args"] and t["args"]["op"] == "all_reduce"}:
            for step in (0, 1):
                same = [t for t in tasks if t["name"] == name and t["args"]["step"] == step]
                self.assertGreaterEqual(min(t["ts"] + t["dur"] for t in same) + 1000, max(t["ts"] for t in same), same)

    def test_a_simulated_step(self):
        cluster = os.path.join(base.SOURCE, "docs", "examples", "clusters")
        cluster = os.path.join(cluster, sorted(n for n in os.listdir(cluster) if n.endswith(".json"))[0])
        self.opc("compile", self.training(), "--mesh", "2", "-o", "p.plan", "-q", "--simulate", cluster, "--simulate-trace", "s.json")
        with open(os.path.join(self.folder, "s.json"), encoding="utf-8") as f:
            self.assertEqual(complaints(json.load(f)), [])

    # --- files -------------------------------------------------------------------------------------------------------------
    def test_files_that_cannot_be_written(self):
        graph = os.path.join(base.DIGITS, "mlp.pbtxt")
        for command in (["run", graph, "--fill", "rand", "--print", "none"], ["compile", graph, "-q", "-o", "m.plan"]):
            done = self.opc(*command, "--trace", "nowhere/t.json", code=2)
            self.assertIn("nowhere", done.stderr)
            self.opc(*command, "--trace", self.folder, code=2) # it is a folder
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_run_that_is_killed(self):
        graph = os.path.join(base.DIGITS, "cnn.pbtxt")
        command = [base.OPC, "run", graph, "--fill", "rand", "--print", "none", "--repeat", "100000", "--trace", "t.json"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            time.sleep(1)
            running.send_signal(signal.SIGKILL)
        self.assertEqual(os.listdir(self.folder), [])
        for patience in (0.5, 1, 2, 4, 8, 16):
            with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
                time.sleep(patience)
                running.send_signal(signal.SIGINT) # ends after the run under way, or at once before the first
                code = running.wait(timeout=200)
            if code == 130:
                break
            self.assertEqual((code, os.listdir(self.folder)), (-signal.SIGINT, []))
        with open(os.path.join(self.folder, "t.json"), encoding="utf-8") as f:
            document = json.load(f)
        self.assertEqual(complaints(document), [])
        self.check_steps(document["traceEvents"])

    def check_steps(self, events):
        steps = sorted({e["args"]["step"] for e in events if e.get("cat") == "task"})
        self.assertEqual(steps, list(range(len(steps))))

    def test_no_output_replaces_another_file(self):
        with open(os.path.join(self.folder, "g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(base.GRAPH)
        for args in (["compile", "g.pbtxt", "-o", "x.plan", "--trace", "x.plan"], ["compile", "g.pbtxt", "-o", "x.plan", "--trace", "g.pbtxt"],
                     ["run", "g.pbtxt", "--fill", "rand", "--trace", "g.pbtxt"]):
            done = subprocess.run([base.OPC, *args], capture_output=True, text=True, timeout=60, cwd=self.folder)
            self.assertEqual(done.returncode, 2, (args, done.stderr))
            self.assertIn("OPC0002", done.stderr)

    def test_the_check_itself_finds_faults(self):
        good = {"name": "a", "cat": "task", "ph": "X", "ts": 1, "dur": 2, "pid": 0, "tid": 0, "args": {}}
        self.assertEqual(complaints({"traceEvents": [good]}), [])
        for change in ({"ts": "1"}, {"dur": -1}, {"ph": "Z"}, {"pid": None}, {"args": []}, {"ph": "f"}):
            self.assertNotEqual(complaints({"traceEvents": [{**good, **change}]}), [], change)
        self.assertNotEqual(complaints([good]), [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
