# Files of --trace against the public document of the Trace Event Format: fields by kind of event, arrows that pair up, tasks in their order.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_cases as base

NUMBER = (int, float)
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


class Traces(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def trace(self, *args, code=0):
        path = os.path.join(self.folder, "t.json")
        done = subprocess.run([base.OPC, "--config", "none", *args, "--trace", path], capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        self.assertEqual(complaints(document), [])
        return document["traceEvents"]

    def check_flows(self, events):
        tasks = [e for e in events if e["ph"] == "X" and e["cat"] == "task"]
        begins, ends = ({e["id"]: e for e in events if e["ph"] == kind} for kind in "sf")
        self.assertEqual(begins.keys(), ends.keys())
        self.assertEqual(len(begins), sum(e["ph"] == "s" for e in events))
        for flow, begin in begins.items():
            end = ends[flow]
            makers = [t for t in tasks if t["tid"] == begin["tid"] and t["ts"] <= begin["ts"] <= t["ts"] + t["dur"]]
            readers = [t for t in tasks if t["tid"] == end["tid"] and abs(t["ts"] - end["ts"]) < 0.002]
            self.assertTrue(makers and readers, (begin, end))
            self.assertIn(begin["name"], [o.split()[0] for t in makers for o in t["args"]["outputs"]])
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

    def test_compilation_alone(self):
        graph = os.path.join(base.DIGITS, "mlp.pbtxt")
        events = self.trace("compile", graph, "-o", "m.plan", "-q")
        phases = [e for e in events if e["ph"] == "X"]
        self.assertEqual([e["name"] for e in phases], ["phase " + p for p in
                         ("import", "shape", "grad", "simplify", "sbp", "boxing", "fuse", "tasks", "memory", "plan")])
        for before, after in zip(phases, phases[1:]):
            self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.002)
        with open(os.path.join(self.folder, "bad.pbtxt"), "w", encoding="utf-8") as f:
            f.write(base.GRAPH.replace("dim: 3 dim: 5", "dim: 4 dim: 5"))
        events = self.trace("compile", "bad.pbtxt", "-o", "m.plan", "-q", code=3)
        self.assertEqual([e["name"] for e in events if e["ph"] == "X"][-1], "phase shape") # as far as it came

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
