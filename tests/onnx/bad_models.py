# Models that are small and would be large, or are none: each is refused with one diagnostic, in the memory of a model that is valid.
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import random
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measured  # noqa: E402
import messages as m  # noqa: E402

spec = importlib.util.spec_from_file_location("onnx_import", os.path.join(os.path.dirname(os.path.abspath(__file__)), "import.py"))
onnx_import = importlib.util.module_from_spec(spec)
spec.loader.exec_module(onnx_import)
F32 = np.float32
X, Y = [m.value("x", (2, 3))], [m.value("y")]


class BadModels(onnx_import.Case):
    def bad(self, data, code, *texts, exit_code=3, commands=("show", "run")):
        self.refused(data, code, *texts, exit_code=exit_code, commands=commands)

    def model(self, nodes, inputs=None, outputs=None, values=None, opset=17, **more):
        return m.model(m.graph(nodes, X if inputs is None else inputs, outputs or Y, [m.tensor(k, np.array(v)) for k, v in (values or {}).items()]), opset, **more)

    def test_tensors_that_overlap(self):
        self.file("w.bin", bytes(64))

        def both(**second):
            nodes = [m.node("Add", ["x", "w"], ["a"]), m.node("Add", ["a", "v"], ["y"])]
            return m.model(m.graph(nodes, X, Y, [m.external("w", (2, 3), location="w.bin", offset=16, length=24), m.external("v", (2, 3), location="w.bin", **second)]))
        for offset in (0, 8, 20, 36):
            self.bad(both(offset=offset), "OPC0323", "'v'", "are those of another tensor in part")
        for fits in (16, 40):  # tied weights, neighbours
            done, *_ = self.measured(both(offset=fits), "show")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_functions_that_call_each_other_twice(self):
        def function(k):
            return (m.field(1, f"F{k}") + m.field(4, "a") + m.field(5, "c") + m.field(10, "l") +
                    b"".join(m.field(7, m.node(f"F{1 - k}", [a], [b], domain="l")) for a, b in (("a", "b"), ("b", "c"))))
        data = self.model([m.node("F0", ["x"], ["y"], domain="l")], functions=[function(0), function(1)], domains=["l"])
        self.bad(data, "OPC0322", "function F0 calls itself")
        # One that is called twice and calls nothing is called twice.
        twice = [m.field(1, "G") + m.field(4, "a") + m.field(5, "b") + m.field(7, m.node("Neg", ["a"], ["b"])) + m.field(10, "l")]
        nodes = [m.node("G", ["x"], ["h"], domain="l"), m.node("G", ["h"], ["y"], domain="l")]
        x = np.array([[-1, 2, -3], [4, -5, 6]], F32)
        np.testing.assert_array_equal(self.runs(self.model(nodes, functions=twice, domains=["l"]), {"x": x})[0], x)

    def test_sequences_of_many_pieces(self):
        long = [m.value("x", (1 << 40,))]
        length = m.node("SequenceLength", ["s"], ["y"])
        self.bad(self.model([m.node("SplitToSequence", ["x"], ["s"]), length], long), "OPC0422", "1099511627776 pieces", exit_code=4)
        self.bad(self.model([m.node("SplitToSequence", ["x", "n"], ["s"]), length], long, values={"n": 3}), "OPC0422", "pieces", exit_code=4)
        self.bad(self.model([m.node("Split", ["x"], ["y", "z"], num_outputs=1 << 40)], long, opset=18), "OPC0322", "1099511627776 pieces, and has 2 outputs")

    def test_results_of_many_elements(self):
        n = 1 << 40
        for node, values, code, exit_code in [
                (m.node("ConstantOfShape", ["n"], ["y"]), {"n": [n, n]}, "OPC0322", 3), (m.node("Range", ["a", "n", "b"], ["y"]), {"a": 0, "n": n, "b": 1}, "OPC0322", 3),
                (m.node("Pad", ["x", "n"], ["y"]), {"n": [0, 0, (1 << 63) - 1, 0]}, "OPC0322", 3), (m.node("HannWindow", ["n"], ["y"]), {"n": n}, "OPC0322", 3),
                (m.node("OneHot", ["n", "n", "v"], ["y"]), {"n": n, "v": [0.0, 1.0]}, "OPC0322", 3), (m.node("Tile", ["x", "n"], ["y"]), {"n": [n, n]}, "OPC0322", 3),
                (m.node("Expand", ["x", "n"], ["y"]), {"n": [n, n, 1, 1]}, "OPC0322", 3)]:
            with self.subTest(node=node):
                self.bad(self.model([node], values=values), code, "node 0", exit_code=exit_code)
        for node, values in [(m.node("ConstantOfShape", ["n"], ["y"]), {"n": [n]}), (m.node("Expand", ["x", "n"], ["y"]), {"n": [n, 1, 1]})]:
            self.bad(self.model([node], values=values), "OPC0821", exit_code=4, commands=("run",))  # a shape, which no memory holds

    def test_turns_without_end(self):
        body = m.graph([m.node("Identity", ["go"], ["on"]), m.node("Neg", ["s"], ["t"])], [m.value("i", (), 7), m.value("go", (), 9), m.value("s", (2, 3))],
                       [m.value("on", (), 9), m.value("t", (2, 3))])
        self.bad(self.model([m.node("Loop", ["n", "c", "x"], ["y"], body=body)], values={"n": 1 << 40, "c": True}), "OPC0422", "4294967296 turns", exit_code=4)

    def test_what_is_no_model(self):
        noise = random.Random(1)
        for data in (noise.randbytes(1 << 20), b"text\n" * 1000, b"", bytes(1 << 20)):
            for command in ("show", "run"):
                done, seconds, _ = self.measured(data, command)
                self.assertEqual(done.returncode, 3, done.stderr[:2000])
                self.assertEqual(done.stderr.count("error["), 1, done.stderr[:2000])
                self.assertLess(seconds, measured.SECONDS)
        self.bad(onnx_import.relu() + m.field(7, noise.randbytes(1 << 20)), "OPC0321")
        for opset, code, exit_code in ((99, "OPC0422", 4), (0, "OPC0321", 3), (-1, "OPC0321", 3)):
            self.bad(self.model([m.node("Relu", ["x"], ["y"])], opset=opset), code, exit_code=exit_code)

    def test_deep_graphs(self):
        for depth in (100, 1000, 10000):
            body = m.graph([m.node("Relu", ["x"], ["t"])], [], [m.value("t")])
            for _ in range(depth):
                body = m.graph([m.node("If", ["c"], ["t"], then_branch=body, else_branch=b"")], [], [m.value("t")])
            self.bad(self.model([m.node("If", ["c"], ["y"], then_branch=body, else_branch=b"")], values={"c": True}), "OPC0321")

    def test_names(self):
        """With control characters they are spelled; of a megabyte they are refused, or left out where nothing needs them."""
        for name in ("a\0b", "a\nb", "n" * (1 << 20)):
            relu = m.node("Relu", ["x"], ["y"], name)
            done, *_ = self.measured(self.model([relu]), "run")
            self.assertEqual(done.returncode, 0, done.stderr[:2000])
            for data in (self.model([m.node(name, ["x"], ["y"])]), self.model([m.node("Relu", ["x"], ["y"], **{name: 1})]), self.model([m.node("R", ["x"], ["y"], domain=name)])):
                said = self.refused(data, "OPC0", exit_code=(3, 4))
                self.assertLess(len(said), 5000)

    def test_wrong_names_and_ops_behind_many_nodes(self):
        """They are found in the model's message: of its ops there are none yet."""
        n = 30000
        chain = [m.node("Relu", [f"t{k}" if k else "x"], [f"t{k + 1}"]) for k in range(n)]
        base, valid = (self.measured(data, "show")[2] for data in (onnx_import.relu(), self.model(chain, outputs=[m.value(f"t{n}")])))
        for node, text in ((m.node("Relu", ["nobody"], ["y"]), "reads 'nobody', which nothing makes"), (m.node("Relu", ["x"], ["t5"]), "two values are called 't5'"),
                           (m.node("Relu", ["t7"], ["x"]), "two values are called 'x'")):
            done, seconds, peak = self.measured(self.model([*chain, node], outputs=[m.value(f"t{n}")]), "show")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(text, done.stderr)
            self.assertIn(f"node {n}", done.stderr)
            self.assertEqual(done.stderr.count("error["), 1, done.stderr)
            self.assertLess(seconds, measured.SECONDS)
            self.assertLess(peak - base, 0.6 * (valid - base), text)
        for nodes, places in (([*chain, m.node("Fancy", [f"t{n}"], ["y"])], f"1 node, model.onnx: node {n}"),
                              ([m.node("Fancy", ["x"], ["a"]), *chain, m.node("Fancy", [f"t{n}"], ["y"]), m.node("Fancy", ["y"], ["z"])], "2 nodes, first model.onnx: node 0")):
            done, seconds, peak = self.measured(self.model(nodes, outputs=[m.value(f"t{n}")]), "show")
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(f"Fancy (version 17): {places}", done.stderr)
            self.assertEqual(done.stderr.count("error["), 1, done.stderr)
            self.assertLess(seconds, measured.SECONDS)
            self.assertLess(peak - base, 0.6 * (valid - base), places)

    def test_many_of_everything(self):
        """50,000 of what a model may have: its reading takes no more than in proportion."""
        n, relu = 50000, m.node("Relu", ["x"], ["y"])
        body = m.graph([relu], X, Y)
        extra = [m.value(f"a{k}", (f"d{k}",)) for k in range(n)]
        functions = [m.field(1, f"F{k}") + m.field(4, "a") + m.field(5, "b") + m.field(7, m.node("Neg", ["a"], ["b"])) + m.field(10, "l") for k in range(n)]
        reads = [m.node("Neg", [f"a{k}"], [f"b{k}"]) for k in range(n)]
        for what, data in (("inputs", m.model(m.graph([relu], X + extra, Y))), ("outputs", m.model(m.graph([relu], X, Y + [m.value(f"z{k}") for k in range(n)]))),
                           ("one output", m.model(m.graph([relu], X, Y * n))), ("one input", m.model(m.graph([relu], X * n, Y))),
                           ("initializers", m.model(m.graph([relu], X, Y, [m.tensor(f"w{k}", np.zeros(1, F32)) for k in range(n)]))),
                           ("one initializer", m.model(m.graph([relu], X, Y, [m.tensor("w", np.zeros(1, F32))] * n))),
                           ("value_infos", m.model(body + b"".join(m.field(13, v) for v in extra))), ("functions", m.model(body, functions=functions, domains=["l"])),
                           ("inputs that are read", m.model(m.graph([relu, *reads], X + [m.value(f"a{k}", ("d",)) for k in range(n)], Y))),
                           ("unknown ops", m.model(m.graph([relu, *(m.node(f"U{k}", ["x"], [f"u{k}"]) for k in range(n))], X, Y))),
                           ("nodes of one name", m.model(m.graph([m.node("Relu", ["x"], ["y"], "n")] * n, X, Y)))):
            for command in (("show",), ("show", "--dim", "none=2")):
                with self.subTest(what, command=command):
                    done, seconds, _ = self.measured(data, *command)
                    self.assertIn(done.returncode, (0, 2, 3, 4), done.stderr[:2000])
                    self.assertLess(seconds, measured.SECONDS, what)
                    self.assertLess(len(done.stderr), 20000, what)

    def test_cut_at_many_places(self):
        """One process for each place would take long: the model's parts that are not there are told by every reader alike."""
        w = np.arange(60, dtype=F32).reshape(3, 20)
        nodes = [m.node("MatMul", ["x", "w"], ["h"], "first"), m.node("Clip", ["h", "low", "high"], ["y"], "second")]
        data = m.model(m.graph(nodes, X, Y, [m.tensor("w", w), m.tensor("low", np.array(-1, F32)), m.tensor("high", np.array(1, F32))]))
        for cut in range(1, len(data), max(1, len(data) // 60)):
            self.file("model.onnx", data[:cut])
            done = self.opc("show", "model.onnx")
            self.assertIn(done.returncode, (0, 3, 4), f"{cut}: {done.stderr}")
            self.assertEqual(done.stderr.count("error["), 0 if done.returncode == 0 else 1, f"{cut}: {done.stderr}")


if __name__ == "__main__":
    unittest.main()
