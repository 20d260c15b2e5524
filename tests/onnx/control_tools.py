# opc check, opc report, --capture and what else looks at graphs, on models with If and Loop that only a run decides. Expected numbers
# are numpy's.
# SPDX-License-Identifier: Apache-2.0
import glob
import json
import os
import sys
import unittest

import numpy as np

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
import messages as m  # noqa: E402
from control_flow import A, B, F32, STEP, X, Control, branches, loop, stepped, turns  # noqa: E402

S = np.array([[1], [-2], [3], [0.5]], F32)


class Tools(Control):
    def put(self, data, inputs):
        self.file("model.onnx", data)
        np.savez(self.path("model.opc.inputs.npz"), **inputs)

    def check(self, *flags, code=0):
        environment = {k: os.environ.pop(k) for k in ("CI", "GITHUB_ACTIONS") if k in os.environ}
        try:
            done = self.opc("check", "model.onnx", *flags)
        finally:
            os.environ.update(environment)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done

    def models(self):
        """Name, the model, its inputs, its output y, the name of the op, and the same with another weight."""
        other = A.copy()
        other[2, 3] += 1
        yield "branch", branches(), {"x": X, "c": np.array(False), "s": S}, -(np.maximum(X @ B, 0) * S), "choice", None
        yield ("loop", loop(turns(STEP)), {"x": X, "n": np.array(3)}, stepped(X, 3), "turns",
               m.model(m.graph([m.node("Loop", ["n", "", "x"], ["y"], "turns", body=turns(STEP))], [m.value("x", (4, 8)), m.value("n", (), 7)],
                               [m.value("y")], [m.tensor("a", other)])))

    def test_locks(self):
        """What is computed inside is locked by its outputs; a weight that only a graph of an op reads is found when it moves."""
        for name, data, inputs, wanted, _, other in self.models():
            with self.subTest(name):
                self.put(data, inputs)
                self.check("--update")
                self.check()
                self.check("--twice")
                with open(self.path("model.opc.lock"), encoding="utf-8") as f:
                    lock = json.load(f)
                y = next(r for r in lock["numerics"] if r.get("out") == "y")
                samples = np.array(y["samples"])
                places = np.abs(wanted.reshape(-1)[:, None] - samples[None]).min(0)
                self.assertLess(places.max(), 1e-4, "the lock's samples are numbers of y")
                if other is not None:
                    self.put(other, inputs)
                    rules = {f["rule"] for f in json.loads(self.check("--json", code=1).stdout)["findings"]}
                    self.assertEqual(rules, {"OP_ATTR_CHANGED", "NUMERIC_MISMATCH"})
                os.remove(self.path("model.opc.lock"))

    def test_reports(self):
        for name, data, inputs, _, op, _ in self.models():
            with self.subTest(name):
                self.put(data, inputs)
                done = self.opc("report", "model.onnx", "-o", "r.html")
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(self.path("r.html"), encoding="utf-8") as f:
                    first = f.read()
                self.assertIn(op, first)
                self.assertEqual(self.opc("report", "model.onnx", "-o", "again.html").returncode, 0)
                with open(self.path("again.html"), encoding="utf-8") as f:
                    self.assertEqual(f.read(), first)
                flags = [f"--input={k}=" + self.array(k + ".npy", v) for k, v in inputs.items()]
                done = self.opc("run", "model.onnx", *flags, "--report", "run.html", "--profile")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreater(os.path.getsize(self.path("run.html")), len(first) // 2)

    def test_tensors_that_are_captured(self):
        """Such an op is one for whoever looks at tensors: its results, and nothing of what is inside."""
        for name, data, inputs, wanted, op, _ in self.models():
            with self.subTest(name):
                self.put(data, inputs)
                flags = [f"--input={k}=" + self.array(k + ".npy", v) for k, v in inputs.items()]
                done = self.opc("run", "model.onnx", *flags, "--no-simplify", "--capture", f"*={self.path(name)}", "--capture-stats", f"{name}.jsonl",
                                "--trap", "nan,inf", "--output", "y=y.npy")
                self.assertEqual(done.returncode, 0, done.stderr)
                np.testing.assert_allclose(np.load(self.path("y.npy")), wanted, rtol=1e-5, atol=1e-6)
                kept = {os.path.relpath(f, self.path(name))[:-4]: np.load(f) for f in glob.glob(self.path(name) + "/**/*.npy", recursive=True)}
                inside = wanted if name == "loop" else -wanted
                self.assertTrue(any(a.shape == inside.shape and np.allclose(a, inside, rtol=1e-5, atol=1e-6) for a in kept.values()), list(kept))
                self.assertFalse(any(part in key.split("/") for key in kept for part in ("p", "q")), list(kept))
                with open(self.path(name + ".jsonl"), encoding="utf-8") as f:
                    self.assertTrue(all(json.loads(line) for line in f))

    def test_other_views(self):
        for name, data, inputs, _, op, _ in self.models():
            with self.subTest(name):
                self.put(data, inputs)
                for command in (["show", "model.onnx", "--what", "ops"], ["show", "model.onnx", "--as", "svg"], ["show", "model.onnx", "--op", op],
                                ["show", "model.onnx", "--what", "memory"], ["show", "model.onnx", "--what", "cost"], ["diff", "model.onnx", "model.onnx"]):
                    done = self.opc(*command)
                    self.assertEqual(done.returncode, 0, (command, done.stderr))
                    if command[0] == "show" and command[-1] in ("ops", "svg"):
                        self.assertIn(op, done.stdout)

    def test_a_trap_inside(self):
        """What a branch or a turn makes is seen when it leaves the op."""
        body = turns([m.node("Identity", ["c"], ["go"]), m.node("Log", ["h"], ["h_out"])])
        self.put(loop(body), {"x": X, "n": np.array(2)})
        done = self.opc("run", "model.onnx", "--input", "x=" + self.array("x.npy", X), "--input", "n=2", "--trap", "nan")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("OPC0620", done.stderr)
        self.assertIn("turns", done.stderr)


del Control  # of control_flow.py: its tests are its own

if __name__ == "__main__":
    unittest.main()
