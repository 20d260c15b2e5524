"""Messages in Python's words, paths of every kind, numbers for inputs."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import sys
import unittest

import numpy as np

import opc

from scratch import ScratchTest
from test_numbers import forward, step

X, T = np.ones((8, 6), "f"), np.zeros(8, "i4")


@opc.op("words::text", like="x")
def text_op(x, *, conf: str = ""):
    return x


def doubled(shape, kind):
    g = opc.Graph()
    x = g.input("x", shape, kind)
    g.output("y", opc.ops.logical_not(x) if kind == "bool" else x + x)
    return g.compile()


class Words(ScratchTest):
    def message(self, make, code):
        with self.assertRaises(opc.Error) as caught:
            make()
        self.assertEqual(caught.exception.code, code)
        said = " | ".join(d["message"] + " | " + (d.get("help") or "") for d in caught.exception.diagnostics)
        for text in (said, str(caught.exception)):
            self.assertIsNone(re.search(r"(?<!opc )--[a-z]", re.sub(r"opc [a-z]+ [^;,:]*", "", text).replace("-->", "")), text)
        return said

    def test_options_of_the_command_are_parameters(self):
        g = forward()
        program = g.compile()
        self.assertIn("shapes names 'q'", self.message(lambda: g.compile(shapes={"q": (1,)}), "OPC0005"))
        self.assertIn("wrt w9 matches", self.message(lambda: g.grad("loss", ["w9"]), "OPC0503"))
        self.assertIn("leave it out of wrt", self.message(lambda: g.grad("loss", ["t"]), "OPC0503"))
        self.assertIn("raise max_memory", self.message(lambda: program.session(max_memory=1), "OPC0821"))
        self.assertIn("give each by its name: run(NAME=array)", self.message(lambda: forward().compile().run(), "OPC0610"))
        self.assertIn("sbp nothere=B names", self.message(lambda: g.compile(mesh=(2,), sbp={"nothere": "B"}), "OPC0311"))
        self.assertIn("compile(mesh=...) with the size 3", self.message(lambda: program.session(ranks=3), "OPC0714"))
        empty = opc.Graph()
        empty.output("y", empty.input("x", (2,)) + empty.variable("v", (2,)))
        self.assertIn("variables[NAME] = array", self.message(lambda: empty.compile().run(x=[1.0, 2.0]), "OPC0612"))

    def model(self):
        """The sum of two matrices of open sizes."""
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
        import messages as m

        path = self.path("m.onnx")
        nodes = [m.node("Add", ["x", "z"], ["y"])]
        with open(path, "wb") as f:
            f.write(m.model(m.graph(nodes, [m.value("x", ("n", "k")), m.value("z", ("n", "k"))], [m.value("y")])))
        return path

    def test_options_that_are_dictionaries(self):
        model = self.model()
        said = self.message(lambda: opc.load(model).compile(), "OPC0207")
        self.assertIn('shapes={"x": (2, 3)}', said)
        self.assertIn('dims={"n": N, "k": N}', said.replace('"k": N, "n": N', '"n": N, "k": N'))
        self.assertIn("dims names 'q'", self.message(lambda: opc.load(model, dims={"q": 3}).compile(), "OPC0005"))
        self.assertIn("consts names 'q'", self.message(lambda: opc.load(model, consts={"q": np.ones(3, "f")}).compile(), "OPC0005"))
        self.assertEqual(opc.load(model, dims={"n": 4, "k": 5}).compile().run(x=np.ones((4, 5), "f"), z=np.ones((4, 5), "f"))["y"][0, 0], 2)

    def test_failures_of_training_have_findings_and_a_way_out(self):
        data, ck = {"x": X, "t": T}, self.path("c.safetensors")
        opc.train(step(), data, steps=2, seed=3, save=ck)
        self.assertIn("leave out seed=", self.message(lambda: opc.train(step(), data, steps=4, seed=4, resume=ck), "OPC0712"))
        self.assertIn("weights=", self.message(lambda: opc.train(step(), {"x": X + 1, "t": T}, steps=4, resume=ck), "OPC0712"))
        wild = forward().training_step("loss", opc.optim.SGD(1e38))
        self.assertIn("opc run --trap nan,inf finds", self.message(lambda: opc.train(wild, {"x": X * 1e20, "t": T}, steps=5, stop_on="nan,inf"), "OPC0621"))

    def test_sizes_and_names_of_load(self):
        model = self.model()
        for dims, error in (({"b": -1}, opc.UsageError), ({"b": 1.5}, TypeError), ({"b": True}, TypeError)):
            with self.assertRaisesRegex(error, "the size 'b' is a whole number from 0, not "):
                opc.load(model, dims=dims)
        path = self.path("g.pbtxt")
        forward().save(path)
        for options, part in (({"foo": 1}, r"load\(\) takes no 'foo'; it takes dims, consts, shapes"), ({"dim": {"b": 1}}, r"load\(\) takes no 'dim'; did you mean 'dims'")):
            with self.assertRaisesRegex(TypeError, part):
                opc.load(path, **options)

    def test_a_larger_range_is_the_command_s(self):
        g = opc.Graph()
        g.output("y", g.input("x", (8, 4)) * 2.0)
        g.save(self.path("g.pbtxt"))
        self.command("compile", "g.pbtxt", "--shape", "x=n:1..8,4", "-o", "g.plan")
        said = self.message(lambda: opc.load(self.path("g.plan")).run(x=np.ones((9, 4), "f")), "OPC0704")
        self.assertIn("for a larger range: opc compile --shape x=...", said)

    def test_what_is_no_name_text_or_capsule(self):
        program = forward().compile()
        with self.assertRaisesRegex(TypeError, "the name of a variable is a str, not None"):
            program.variables[None] = np.zeros((6, 3), "f")
        x = opc.Graph().input("x", (2,))
        with self.assertRaisesRegex(opc.GraphError, r"attribute 'conf' is '\\udc80', expected a str of whole characters"):
            opc.ops.function("words::text")(x, conf="\udc80")

        class Once:
            def __init__(self, capsule):
                self.capsule = capsule

            def __dlpack__(self, **unused):
                return self.capsule

        x = Once(np.ones((4, 6), "f").__dlpack__())
        program.session().run(x=x, t=T[:4])
        with self.assertRaisesRegex(ValueError, "input 'x': its __dlpack__ gave a tensor that has been taken already"):
            program.session().run(x=x, t=T[:4])
        with self.assertRaisesRegex(TypeError, "input 'x': __dlpack__ gave a value of type int"):
            program.session().run(x=Once(5), t=T[:4])

    def test_no_message_is_pybind_s(self):
        g, program = forward(), forward().compile()
        for make in (lambda: g.tensor(3), lambda: program.default_session.fetch(3), lambda: opc.Program.from_plan("plan"), lambda: g.grad(3), lambda: g.grad(["loss", 3]),
                     lambda: opc.ops.relu(g.inputs["x"], outputs={"out": "two"}), lambda: opc.ops.relu(g.inputs["x"], name=3), lambda: opc.load(3), lambda: opc.load_plugin(3),
                     lambda: opc.train(step(), [X, T]), lambda: opc.train(step(), {"x": X, "t": T}, save=3), lambda: g.save(3), lambda: program.save(3),
                     lambda: program.load_weights(3), lambda: g.output("q", 3), lambda: opc.ops.function(3), lambda: opc.dtype([]),
                     lambda: setattr(g.inputs["x"], "sbp", 3), lambda: g.variable("v", (2,), init="zeros"), lambda: program.variables.__setitem__("w", "text")):  # fmt: skip
            with self.assertRaises((TypeError, opc.UsageError)) as caught:
                make()
            self.assertNotIn("incompatible", str(caught.exception))
            self.assertNotIn("pybind", str(caught.exception).lower())

    def test_paths(self):
        folder = pathlib.Path(self.folder)
        np.save(folder / "x.npy", X)
        np.save(folder / "t.npy", T)
        run = opc.train(step(), {"x": folder / "x.npy", "t": folder / "t.npy"}, steps=2, save=folder / "c.safetensors", metrics=folder / "m.jsonl")
        run.save(folder / "again.safetensors")
        self.assertEqual(opc.train(step(), {"x": X, "t": T}, steps=3, resume=folder / "c.safetensors").step, 3)
        opc.train(step(), {"x": X, "t": T}, steps=1, weights=folder / "again.safetensors")
        step().save(folder / "g.pbtxt")
        opc.load(folder / "g.pbtxt").compile().save(folder / "g.plan")
        program = opc.load(folder / "g.plan")
        program.save_weights(folder / "w.npz")
        program.load_weights(folder / "w.npz")
        self.assertEqual(sorted(os.listdir(folder)), ["again.safetensors", "c.safetensors", "g.pbtxt", "g.plan", "m.jsonl", "t.npy", "w.npz", "x.npy"])
        with self.assertRaises(opc.Error):
            opc.load_plugin(folder / "absent.so")


class NumbersForInputs(unittest.TestCase):
    def test_numbers_take_the_type_of_the_input(self):
        for kind, value in (("f32", 3), ("f32", 1.5), ("f64", 1.5), ("f16", 2), ("i32", 3), ("i64", -3), ("u8", 100), ("i8", -7)):
            y = doubled((), kind).run(x=value)["y"]
            self.assertEqual((y.dtype, y.shape, y[()]), (opc.dtype(kind).numpy, (), 2 * value), kind)
        np.testing.assert_array_equal(doubled((), "bool").run(x=False)["y"], True)
        np.testing.assert_array_equal(doubled((2, 2), "i32").run(x=[[1, 2], (3, 4)])["y"], [[2, 4], [6, 8]])
        np.testing.assert_array_equal(doubled((3,), "f64").run(x=range(3))["y"], [0, 2, 4])
        program = forward().compile()
        program.variables["w"] = [[1, 2, 3]] * 6
        np.testing.assert_array_equal(program.variables["w"][0], [1, 2, 3])

    def test_numbers_of_another_type_are_refused(self):
        for kind, value in (("i32", 1.5), ("i32", 2**31), ("u8", -1), ("u8", 256), ("bool", 1), ("i64", True), ("f32", True), ("f32", 1j), ("i32", [1, 2.5]), ("f32", ["1"])):
            with self.subTest(kind=kind, value=value), self.assertRaises(TypeError) as caught:
                doubled(np.shape(value), kind).run(x=value)
            self.assertIn(f"input 'x' is {kind}", str(caught.exception))
        with self.assertRaisesRegex(TypeError, "input 'x' is bf16.*uint16"):
            doubled((), "bf16").run(x=1.5)
        with self.assertRaises(TypeError):
            doubled((2, 2), "f32").run(x=[[1.0], [2.0, 3.0]])
        # numpy's own numbers have a type.
        with self.assertRaises(opc.UsageError) as caught:
            doubled((), "f32").run(x=np.float64(1.5))
        self.assertEqual(caught.exception.code, "OPC0703")
        with self.assertRaises(opc.UsageError) as caught:
            doubled((3,), "f32").run(x=2.0)
        self.assertEqual(caught.exception.code, "OPC0704")


if __name__ == "__main__":
    unittest.main()
