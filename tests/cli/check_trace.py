"""Checks a file of --trace: JSON, phases in order, one event for each task named, times that make sense."""
# SPDX-License-Identifier: Apache-2.0
import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    events = json.load(f)["traceEvents"]
spans = [e for e in events if e["ph"] == "X"]
assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans)
phases = [e["name"] for e in spans if e["name"].startswith("phase ")]
assert phases == ["phase " + p for p in ("import", "shape", "grad", "simplify", "sbp", "boxing", "fuse", "tasks", "memory", "plan")], phases
tasks = [e for e in spans if e["cat"] == "task"]
assert [t["name"] for t in tasks] == sys.argv[2:], tasks
for before, after in zip(tasks, tasks[1:]):
    assert before["ts"] + before["dur"] <= after["ts"] + 0.002, "tasks of one stream overlap"
for t in tasks:
    assert t["args"]["op"] and t["args"]["src"].startswith("log.pbtxt:") and t["args"]["shape"] == "f32[2,3]", t
assert tasks[0]["args"]["bytes"] == 2 * 6 * 4 + 4, tasks[0]
# In place from the first op on: one buffer of 24 bytes, in a slot of 64.
counters = [e["args"]["activations"] for e in events if e["ph"] == "C"]
assert counters == [64] * (len(tasks) + 1), counters # afterwards it is what can be fetched
# Each arrow begins in the task that has made the tensor and ends at one that reads it.
begins = {e["id"]: e for e in events if e["ph"] == "s"}
ends = {e["id"]: e for e in events if e["ph"] == "f"}
assert begins.keys() == ends.keys() and len(begins) == len(tasks) - 1, (begins, ends)
for flow, begin in begins.items():
    end = ends[flow]
    maker = next(t for t in tasks if begin["name"] in [o.split()[0] for o in t["args"]["outputs"]])
    reader = next(t for t in tasks if begin["name"] in [i.split()[0] for i in t["args"]["inputs"]])
    assert maker["ts"] <= begin["ts"] <= maker["ts"] + maker["dur"] and maker["tid"] == begin["tid"], (begin, maker)
    assert abs(end["ts"] - reader["ts"]) < 0.002 and end["bp"] == "e" and end["tid"] == reader["tid"], (end, reader)
    assert reader["ts"] + 0.002 >= maker["ts"] + maker["dur"], "a task begins before what it reads is made"
