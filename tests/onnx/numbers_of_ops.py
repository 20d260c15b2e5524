# Numbers of a model that become parts of ops: given again with their value they pass, with another one they are refused
# wherever values are given, and --const imports the model with it. Expected numbers are numpy's.
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import subprocess
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402

spec = importlib.util.spec_from_file_location("onnx_import", os.path.join(os.path.dirname(os.path.abspath(__file__)), "import.py"))
onnx_import = importlib.util.module_from_spec(spec)
spec.loader.exec_module(onnx_import)
F32, I64 = np.float32, np.int64
X = np.linspace(-2, 2, 6, dtype=F32).reshape(2, 3)
BOUNDS = {"low": np.array(-1, F32), "high": np.array(1, F32)}
RUNTIME = onnx_import.OPC + "-runtime"


def scalar(v, dtype=F32):
    return np.array(v, dtype)


# op -> (its nodes on x, initializers, other values)
CASES = {
    "Clip": ([m.node("Clip", ["x", "low", "high"], ["y"], "op")], BOUNDS, {"low": scalar(-0.5), "high": scalar(0.25)}),
    "Pad": ([m.node("Pad", ["x", "pads", "filled"], ["y"], "op")], {"pads": np.array([0, 1, 0, 1]), "filled": scalar(2)},
            {"pads": np.array([1, 0, 1, 0]), "filled": scalar(5)}),
    "Reshape": ([m.node("Reshape", ["x", "shape"], ["y"], "op")], {"shape": np.array([3, 2])}, {"shape": np.array([6, 1])}),
    "Slice": ([m.node("Slice", ["x", "from", "to"], ["y"], "op")], {"from": np.array([0, 0]), "to": np.array([2, 2])}, {"to": np.array([1, 2])}),
    "Expand": ([m.node("Expand", ["x", "shape"], ["y"], "op")], {"shape": np.array([2, 2, 3])}, {"shape": np.array([3, 2, 3])}),
    "Tile": ([m.node("Tile", ["x", "times"], ["y"], "op")], {"times": np.array([1, 2])}, {"times": np.array([2, 1])}),
    "TopK": ([m.node("TopK", ["x", "k"], ["y", "i"], "op")], {"k": np.array([2])}, {"k": np.array([1])}),
    "CumSum": ([m.node("CumSum", ["x", "axis"], ["y"], "op")], {"axis": scalar(0, I64)}, {"axis": scalar(1, I64)}),
    "Gather": ([m.node("Gather", ["x", "rows"], ["y"], "op")], {"rows": np.array([0])}, {"rows": np.array([1])}),
    "ReduceSum": ([m.node("ReduceSum", ["x", "axes"], ["y"], "op")], {"axes": np.array([0])}, {"axes": np.array([1])}),
    "Range": ([m.node("Range", ["from", "to", "by"], ["r"], "op"), m.node("Add", ["x", "r"], ["y"])],
              {"from": scalar(0), "to": scalar(3), "by": scalar(1)}, {"from": scalar(3), "to": scalar(6)}),
    "Trilu": ([m.node("Trilu", ["x", "k"], ["y"], "op")], {"k": scalar(0, I64)}, {"k": scalar(1, I64)}),
    "Dropout": ([m.node("Dropout", ["x", "ratio", "trains"], ["y"], "op")], {"ratio": scalar(0.5), "trains": scalar(False, np.bool_)},
                {"trains": scalar(True, np.bool_)}),
    # What is computed from a number is as fixed as the number.
    "of a number": ([m.node("Neg", ["n"], ["low"]), m.node("Clip", ["x", "low", "n"], ["y"], "op")], {"n": scalar(1)}, {"n": scalar(0.5)}),
}
RESIZE = ([m.node("Resize", ["x", "", "scales"], ["y"], "op", mode="nearest")], {"scales": np.array([1, 1, 2, 2], F32)}, {"scales": np.array([1, 1, 1, 3], F32)})
BOXES = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], F32)


class Numbers(onnx_import.Case):
    def model(self, nodes, values, shape=(2, 3), inputs=None, opset=17):
        return self.file("model.onnx", m.model(m.graph(nodes, inputs or [m.value("x", shape)], [m.value("y")], [m.tensor(k, v) for k, v in values.items()]), opset))

    def give(self, what, new, *more, code=0, x=X, program=None):
        np.savez(self.path("new.npz"), **new)
        inputs = [] if x is None else ["--input", "x=" + self.array("x.npy", x)]
        command = [*(program or [onnx_import.OPC, "run"]), what, *inputs, "--weights", "new.npz", "--partial-weights", "--outputs", "y.npz", *more]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else np.load(self.path("y.npz"))["y"]

    def refused(self, said, name):
        self.assertEqual(said.count("error["), 1, said)
        self.assertIn("error[OPC0719]", said)
        for text in (f"'{name}'", "model.onnx: node 0", f"--const {name}="):
            self.assertIn(text, said)

    def check(self, nodes, old, new, x=X):
        """One by one: the model's value changes nothing, another one is refused, and as a constant it is the model's."""
        path = self.model(nodes, old, x.shape)
        want = self.give(path, old, x=x)
        for name, value in new.items():
            said = self.give(path, {name: value}, x=x, code=2)
            self.assertEqual(said.count("error["), 1, said)
            self.assertIn("error[OPC0719]", said)
            self.assertIn(f"'{name}'", said)
            self.assertIn("model.onnx: node ", said)
        constants = [word for k, v in new.items() for word in ("--const", f"{k}=" + self.array(f"c_{k}.npy", v))]
        made = self.give(path, new, *constants, x=x)
        other = self.model(nodes, {**old, **new}, x.shape)
        np.testing.assert_array_equal(made, self.give(other, {}, x=x))
        return want

    def test_each_op(self):
        for op, (nodes, old, new) in CASES.items():
            with self.subTest(op=op):
                self.check(nodes, old, {k: v for k, v in new.items() if op != "Dropout"})
                if op == "Dropout":
                    self.refused(self.give(self.model(nodes, old), new, code=2), "trains")

    def test_numbers_that_numpy_knows(self):
        made = self.check(*CASES["Clip"])
        np.testing.assert_array_equal(made, np.clip(X, -1, 1))
        path = self.model(*CASES["Clip"][:2])
        np.testing.assert_array_equal(self.give(path, {}, "--const", "low=-0.5", "--const", "high=0.25"), np.clip(X, F32(-0.5), F32(0.25)))
        said = self.give(path, {"low": scalar(-0.5)}, code=2)
        self.refused(said, "low")
        for text in ("is given as -0.5, and the model has -1", 'model.onnx: node 0 "op"', "--const low=-0.5"):
            self.assertIn(text, said)

    def test_images(self):
        nodes, old, new = RESIZE
        x = np.arange(6, dtype=F32).reshape(1, 1, 2, 3)
        np.testing.assert_array_equal(self.check(nodes, old, new, x), x.repeat(2, 2).repeat(2, 3))

    def test_boxes(self):
        old = {"boxes": BOXES, "scores": np.array([[[0.9, 0.8, 0.7]]], F32), "most": np.array([3]), "iou": np.array([0.5], F32), "least": np.array([0.1], F32)}
        nodes = [m.node("NonMaxSuppression", ["boxes", "s", "most", "iou", "least"], ["n"], "op"), m.node("Add", ["scores", "x"], ["s"]),
                 m.node("Cast", ["n"], ["y"], to=1)]
        path = self.model(nodes, old, (1, 1, 3))
        x = np.zeros((1, 1, 3), F32)
        self.assertEqual(len(self.give(path, old, x=x)), 2)
        for name, value in (("iou", 0.95), ("least", 0.75)):
            said = self.give(path, {name: np.array([value], F32)}, x=x, code=2)
            self.refused(said, name)
        self.assertEqual(len(self.give(path, {}, "--const", "iou=f32[1]:0.95", x=x)), 3)
        self.assertEqual(len(self.give(path, {}, "--const", "least=f32[1]:0.75", x=x)), 1)

    def test_a_parameter_that_is_a_number_too(self):
        """A tensor that another op reads as a variable: half of what was meant would change."""
        nodes = [m.node("Clip", ["x", "low", "high"], ["a"], "op"), m.node("Mul", ["a", "high"], ["y"])]
        path = self.model(nodes, BOUNDS)
        np.testing.assert_array_equal(self.give(path, BOUNDS), np.clip(X, -1, 1))
        said = self.give(path, {"high": scalar(0.25)}, code=2)
        for text in ("OPC0719", "'high' is given as 0.25, and the model has 1", "other ops read it as a variable"):
            self.assertIn(text, said)
        made = self.give(path, {"high": scalar(0.25)}, "--const", "high=0.25")
        np.testing.assert_array_equal(made, np.clip(X, -1, F32(0.25)) * F32(0.25))

    def test_bounds_that_ops_read_as_tensors(self):
        """With one bound alone it is an operand: the value is used."""
        path = self.model([m.node("Clip", ["x", "low"], ["y"], "op")], {"low": scalar(-1)})
        np.testing.assert_array_equal(self.give(path, {"low": scalar(0.5)}), np.maximum(X, F32(0.5)))

    def test_many_numbers(self):
        """Of more than 1 KiB a checksum says whether they are the model's."""
        rows = np.arange(1000, dtype=I64) % 2
        path = self.model([m.node("Gather", ["x", "rows"], ["y"], "op")], {"rows": rows})
        np.testing.assert_array_equal(self.give(path, {"rows": rows}), X[rows])
        said = self.give(path, {"rows": 1 - rows}, code=2)
        self.assertIn("'rows' is given other numbers than the model's", said)
        self.assertIn("--const rows=@FILE", said)
        np.testing.assert_array_equal(self.give(path, {}, "--const", "rows=" + self.array("r.npy", 1 - rows)), X[1 - rows])

    def test_other_types_and_shapes(self):
        path = self.model(*CASES["Clip"][:2])
        self.assertIn("OPC0703", self.give(path, {"low": np.array(-1, np.float64)}, code=2))
        self.give(path, {"low": np.array(-1, np.float64)}, "--cast")
        self.assertIn("OPC0719", self.give(path, {"low": np.array(-2, np.float64)}, "--cast", code=2))
        self.assertIn("OPC0704", self.give(path, {"low": np.array([-1, -1], F32)}, code=2))
        self.assertIn("OPC0704", self.opc("run", path, "--input", "x=1", "--const", "low=f32[2]:1,2").stderr)

    def test_inputs_that_are_initializers(self):
        """Old exporters list them among the inputs, which a run has no more."""
        path = self.model(*CASES["Clip"][:2], inputs=[m.value("x", (2, 3)), m.value("low", ()), m.value("high", ())])
        self.assertIn("OPC0005", self.give(path, {}, "--input", "low=-0.5", code=2))
        np.savez(self.path("in.npz"), x=X, low=scalar(-1))
        np.testing.assert_array_equal(self.give(path, {}, "--inputs", "in.npz", x=None), np.clip(X, -1, 1))
        np.savez(self.path("in.npz"), x=X, low=scalar(-0.5))
        self.refused(self.give(path, {}, "--inputs", "in.npz", x=None, code=2), "low")

    def plans(self):
        path = self.model(*CASES["Clip"][:2])
        for name, more in (("one", []), ("two", ["--mesh", "2"]), ("range", ["--shape", "x=n:1..4,3"])):
            self.assertEqual(self.opc("compile", path, *more, "-o", name + ".plan").returncode, 0)
        self.assertEqual(self.opc("compile", path, "--to", "import", "--emit", "mlir", "-o", "m.mlir").returncode, 0)
        self.assertEqual(self.opc("compile", "m.mlir", "--from", "import", "-o", "ir.plan").returncode, 0)
        self.assertEqual(self.opc("compile", path, "--emit", "pbtxt", "-o", "g.pbtxt").returncode, 0)
        self.assertEqual(self.opc("compile", path, "--emit", "pb", "-o", "g.pb").returncode, 0)
        return path

    def test_plans_and_graphs_know_them(self):
        self.plans()
        for what, more, program in (("one.plan", [], None), ("one.plan", [], [RUNTIME]), ("range.plan", [], None), ("g.pbtxt", [], None), ("g.pb", [], None),
                                    ("ir.plan", [], None), ("two.plan", ["--ranks", "2", "--in-process"], None)):
            with self.subTest(what=what, program=program):
                np.testing.assert_array_equal(self.give(what, BOUNDS, *more, program=program), np.clip(X, -1, 1))
                self.refused(self.give(what, {"high": scalar(0.5)}, *more, program=program, code=2), "high")
        # Equal models are equal plans.
        with open(self.path("one.plan"), "rb") as f:
            first = f.read()
        os.mkdir(self.path("folder"))
        os.rename(self.path("model.onnx"), self.path("folder/model.onnx"))
        self.assertEqual(self.opc("compile", "folder/model.onnx", "-o", "again.plan").returncode, 0)
        with open(self.path("again.plan"), "rb") as f:
            self.assertEqual(f.read(), first)

    def test_training_and_gradients(self):
        nodes = [m.node("Mul", ["x", "w"], ["h"]), m.node("Clip", ["h", "low", "high"], ["c"], "op"), m.node("ReduceSum", ["c"], ["y"], keepdims=0)]
        path = self.model(nodes, {"w": np.ones(3, F32), **BOUNDS})
        np.savez(self.path("new.npz"), w=np.ones(3, F32), low=scalar(-0.5))
        np.savez(self.path("same.npz"), w=np.ones(3, F32), low=scalar(-1))
        done = self.opc("grad", path, "--loss", "y", "--optimizer", "sgd", "--lr", "0.1", "-o", "t.pbtxt", "--weights-out", "w.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        np.save(self.path("all.npy"), np.repeat(X[None], 4, 0).reshape(8, 3))
        steps = ["--feed-dataset", "x=@all.npy", "--batch", "2", "--steps", "3", "--save", "s.safetensors"]
        for weights, code in (("same.npz", 0), ("w.safetensors", 0), ("new.npz", 2)):
            done = self.opc("run", "t.pbtxt", "--weights", weights, "--partial-weights", *steps)
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("error[OPC0719]", done.stderr)
        self.assertEqual(self.opc("run", "t.pbtxt", "--resume", "s.safetensors", *steps[:-1], "again.safetensors").returncode, 0)
        for weights, code in (("same.npz", 0), ("new.npz", 2)):
            done = self.opc("grad", path, "--loss", "y", "--check", "--weights", weights, "--input", "x=" + self.array("x.npy", X / 2))
            self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        self.assertIn("error[OPC0719]", done.stderr)

    def test_export(self):
        path = self.model(*CASES["Clip"][:2])
        np.savez(self.path("new.npz"), low=scalar(-0.5))
        done = self.opc("compile", path, "--emit", "onnx", "--weights", "new.npz", "--partial-weights", "-o", "out.onnx")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("error[OPC0719]", done.stderr)
        self.assertFalse(os.path.exists(self.path("out.onnx")))

    def test_damaged_numbers(self):
        self.plans()
        with open(self.path("g.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        self.assertIn("model_number", text)
        for old, new in (('name: "low"', 'name: "high"'), ('name: "low"', 'name: ""'), ("  data: ", "  checksum: 7\n  data: "), ("data_type: kFloat\n  shape {}", "data_type: kDouble\n  shape {}")):
            self.assertEqual(text.count(old) > 0, True, text)
            self.file("bad.pbtxt", text.replace(old, new, 1).encode())
            done = self.opc("show", "bad.pbtxt")
            self.assertEqual(done.returncode, 3, done.stderr + done.stdout)
            self.assertEqual(done.stderr.count("error[OPC0105]"), 1, done.stderr)
        self.assertIn("no input or initializer", self.opc("show", "model.onnx", "--const", "lo=1").stderr)


if __name__ == "__main__":
    unittest.main()
