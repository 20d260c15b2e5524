"""Graphs, plans and weights as files: what Python writes the command line runs, and the other way round."""
# SPDX-License-Identifier: Apache-2.0
import pickle
import unittest

import numpy as np

import opc

from scratch import ScratchTest

X = np.arange(12, dtype="f").reshape(4, 3)


def layer():
    g = opc.Graph("layer")
    x = g.input("x", (4, 3))
    g.output("y", x @ g.variable("w", (3, 2), init=opc.init.normal(std=0.5)) + g.variable("b", (2,), init=1))
    return g


class Files(ScratchTest):
    def test_the_command_runs_what_python_saved(self):
        program = layer().compile()
        expected = program.run(x=X)["y"]
        layer().save(self.path("g.pbtxt"))
        layer().save(self.path("g.pb"))
        program.save(self.path("g.plan"))
        program.save_weights(self.path("w.safetensors"))
        np.save(self.path("x.npy"), X)
        for name in ("g.pbtxt", "g.pb", "g.plan"):
            self.command("run", name, "--weights", "w.safetensors", "--input", "x=@x.npy", "--outputs", "out")
            np.testing.assert_array_equal(np.load(self.path("out/y.npy")), expected)

    def test_loaded_graphs_and_plans_run(self):
        expected = layer().compile().run(x=X)["y"]
        for name in ("g.pbtxt", "g.pb"):
            layer().save(self.path(name))
            loaded = opc.load(self.path(name))
            self.assertEqual((list(loaded.inputs), list(loaded.variables), list(loaded.outputs)), (["x"], ["w", "b"], ["y"]))
            np.testing.assert_array_equal(loaded.compile().run(x=X)["y"], expected)
        layer().compile().save(self.path("g.plan"))
        self.assertIsInstance(opc.load(self.path("g.plan")), opc.Program)
        np.testing.assert_array_equal(opc.load(self.path("g.plan")).run(x=X)["y"], expected)

    def test_a_loaded_graph_goes_on(self):
        layer().save(self.path("g.pbtxt"))
        g = opc.load(self.path("g.pbtxt"))
        y = g.tensor("y")
        self.assertEqual(y.shape, (4, 2))
        g.output("twice", y * 2)
        out = g.compile().run(x=X)
        np.testing.assert_array_equal(out["twice"], 2 * out["y"])
        with self.assertRaises(opc.GraphError):
            g.input("x", (1,))

    def test_a_saved_graph_reads_back_to_itself(self):
        layer().save(self.path("a.pbtxt"))
        opc.load(self.path("a.pbtxt")).save(self.path("b.pbtxt"))
        opc.load(self.path("b.pbtxt")).save(self.path("c.pbtxt"))
        with open(self.path("b.pbtxt"), "rb") as b, open(self.path("c.pbtxt"), "rb") as c:
            self.assertEqual(b.read(), c.read())

    def test_weights(self):
        program = layer().compile()
        for name in ("w.npz", "w.safetensors"):
            program.variables["b"] = np.array([3, 4], "f")
            program.save_weights(self.path(name))
            other = layer().compile()
            self.assertEqual(other.load_weights(self.path(name)), 2)
            np.testing.assert_array_equal(other.variables["b"], [3, 4])
            np.testing.assert_array_equal(other.variables["w"], program.variables["w"])
        np.savez(self.path("part.npz"), b=np.zeros(2, "f"))
        with self.assertRaises(opc.UsageError) as caught:
            program.load_weights(self.path("part.npz"))
        self.assertEqual(caught.exception.code, "OPC0717")
        self.assertEqual(program.load_weights(self.path("part.npz"), partial=True), 1)
        before = {name: np.array(program.variables[name]) for name in ("b", "w")}
        for b, w, code in ((np.ones(3, "f"), np.ones((3, 2), "f"), "OPC0704"), (np.ones(2, "f"), np.ones((2, 3), "f"), "OPC0704"),
                           (np.ones(2, "f"), np.ones((3, 2), "d"), "OPC0703"), (np.ones(2, "d"), np.ones((3, 2), "f"), "OPC0703")):
            np.savez(self.path("wrong.npz"), b=b, w=w)
            with self.assertRaises(opc.Error) as caught:
                program.load_weights(self.path("wrong.npz"))
            self.assertEqual(caught.exception.code, code)
            for name, value in before.items():  # whichever comes first: none has changed
                np.testing.assert_array_equal(program.variables[name], value)

    def test_files_that_are_none(self):
        for name, content, code in (("a.pbtxt", b"op { nam", "OPC0101"), ("b.npy", b"\x93NUMPY", "OPC0103")):
            with open(self.path(name), "wb") as f:
                f.write(content)
            with self.assertRaises(opc.Error) as caught:
                opc.load(self.path(name))
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(opc.Error) as caught:
            opc.load(self.path("absent"))
        self.assertEqual(caught.exception.code, "OPC0706")
        with self.assertRaises(opc.Error) as caught:
            layer().save(self.path("no/such/folder/g.pbtxt"))
        self.assertEqual(caught.exception.code, "OPC0707")
        with self.assertRaises(opc.Error):
            opc.Program.from_plan(b"no plan").session()


class Errors(unittest.TestCase):
    def test_the_command_s_diagnostics(self):
        g = layer()
        with self.assertRaises(opc.GraphError) as caught:
            g.compile(shapes={"x": (4, 5)})
        e = caught.exception
        self.assertEqual((e.code, e.exit_code), ("OPC0203", 3))
        text = str(e)
        for part in ("error[OPC0203]: matmul", "--> test_files.py:", "b: w/out", "1 error in <layer>"):
            self.assertIn(part, text.replace("tests/python/", ""))
        self.assertNotIn("<layer>:", text)  # a text that nobody has written
        self.assertNotIn("OperatorConf", text)
        (finding,) = e.diagnostics
        self.assertEqual(finding["code"], "OPC0203")
        self.assertTrue(finding["range"]["file"].endswith("test_files.py"), finding)
        again = pickle.loads(pickle.dumps(e))
        self.assertEqual((type(again), str(again), again.code, again.diagnostics), (type(e), text, e.code, e.diagnostics))

    def test_several_findings(self):
        g = opc.Graph("bad")
        x = g.input("x", (2, 3))
        for _ in range(3):
            g.output(g._message.free_name("y"), opc.ops.matmul(x, g.variable(g._message.free_name("w"), (3, 2), init=0)))
        with self.assertRaises(opc.GraphError) as caught:
            g.compile(shapes={"x": (2, 4)})
        self.assertEqual(len(caught.exception.diagnostics), 3)
        self.assertIn("3 errors in <bad>", str(caught.exception))

    def test_a_graph_without_outputs(self):
        g = opc.Graph()
        g.input("x", (2,))
        with self.assertRaises(opc.GraphError) as caught:
            g.compile()
        self.assertEqual(caught.exception.code, "OPC0111")

    def test_no_kernel(self):
        g = opc.Graph()
        g.output("y", opc.ops.relu(g.input("x", (2,), "bool")))
        with self.assertRaises(opc.UnsupportedError):
            g.compile()


if __name__ == "__main__":
    unittest.main()
