# opc check of ONNX models: their own weights are locked and run, and a weight that has moved is found.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m
from check_cases import GRAPH, OPC, Checks, relocked

F32 = np.float32
X = np.linspace(-1, 1, 12, dtype=F32).reshape(4, 3)
W = np.linspace(-2, 3, 15, dtype=F32).reshape(3, 5)


def model(w=W, bias=None, nodes=None):
    bias = np.arange(5, dtype=F32) if bias is None else bias
    nodes = nodes or [m.node("MatMul", ["x", "w"], ["h"], "mul"), m.node("Add", ["h", "b"], ["y"], "sum")]
    return m.model(m.graph(nodes, [m.value("x", (4, 3))], [m.value("y")], [m.tensor("w", w), m.tensor("b", bias)]))


class Files(Checks):
    def put(self, data, name="nets/net.onnx"):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data)


class Models(Files):
    def setUp(self):
        super().setUp()
        self.put(model())
        np.savez(self.path("nets/net.opc.inputs.npz"), x=X)
        self.check("nets", "--update")

    def test_its_weights_are_what_is_run(self):
        self.check("nets")
        lock = json.loads(self.read("nets/net.opc.lock"))
        y = next(r for r in lock["numerics"] if r.get("out") == "y")
        np.testing.assert_allclose(np.array(y["samples"]).reshape(4, 5), X @ W + np.arange(5), rtol=1e-6)
        self.assertEqual({r["var"] for r in lock["interface"] if "var" in r and r["init"].startswith("values sha256:")}, {"w", "b"})

    def test_a_weight_that_moves(self):
        for size, values in ((1e-2, True), (1e-7, False)):
            w = W.copy()
            w[1, 2] += F32(size) if values else np.spacing(w[1, 2])
            self.put(model(w))
            found = self.findings("nets")
            rules = {f["rule"] for f in found}
            self.assertEqual(rules, {"OP_ATTR_CHANGED"} | ({"NUMERIC_MISMATCH"} if values else set()), size)
            self.assertEqual([f["op"] for f in found if f["rule"] == "OP_ATTR_CHANGED"], ["w"])
        self.put(model())
        self.check("nets")

    def test_a_lock_without_digests(self):
        lock = self.read("nets/net.opc.lock")
        old = re.sub(r',"init":"values sha256:[0-9a-f]+"', "", lock)
        old = re.sub(r'"init":"values sha256:[0-9a-f]+",', "", old)
        self.assertNotIn("values sha256:", old)
        self.write("nets/net.opc.lock", relocked(old))
        self.check("nets")
        self.check("nets", "--update")
        self.assertEqual(self.read("nets/net.opc.lock"), lock)

    def constants(self, scale=0.5, table=(1, 2, 3, 4, 5)):
        """A model whose constants are no weights: numbers of nodes."""
        nodes = [m.node("Constant", [], ["s"], "scale", value=np.array(scale, F32)),
                 m.node("Constant", [], ["t"], "table", value=np.array(table, F32)),
                 m.node("MatMul", ["x", "w"], ["h"], "mul"), m.node("Mul", ["h", "s"], ["k"], "scaled"), m.node("Add", ["k", "t"], ["y"], "sum")]
        return m.model(m.graph(nodes, [m.value("x", (4, 3))], [m.value("y")], [m.tensor("w", W)]))

    def test_a_constant_that_moves(self):
        self.put(self.constants())
        self.check("nets", "--update")
        lock = self.read("nets/net.opc.lock")
        self.assertEqual([r["tensor"] for r in json.loads(lock)["constants"]], ["f32[]", "f32[5]"])
        self.check("nets", "--no-run", "--use", "EXACT")
        for moved in (self.constants(scale=0.25), self.constants(table=(1, 2, 3, 4, 6))):
            self.put(moved)
            self.assertEqual(self.rules("nets"), {"OP_ATTR_CHANGED", "NUMERIC_MISMATCH"})
            found = self.findings("nets", "--no-run")
            self.assertEqual([f["rule"] for f in found], ["OP_ATTR_CHANGED"])
            self.assertEqual(self.rules("nets", "--no-run", "--update=ops", code=0), {"OP_ATTR_CHANGED"})
            self.check("nets", "--no-run")
            self.write("nets/net.opc.lock", lock)
        # Of a graph whose constants are ops there is no such section.
        self.write("g.pbtxt", GRAPH)
        self.check("g.pbtxt", "--update")
        self.assertNotIn('"constants"', self.read("g.opc.lock"))

    def test_a_lock_without_constants(self):
        """As earlier builds wrote it: nothing is said of them until it is written again."""
        self.put(self.constants())
        self.check("nets", "--update")
        lock = self.read("nets/net.opc.lock")
        old = re.sub(r'"constants":\[[^\]]*(\[[^\]]*\][^\]]*)*?\n?\],\n(?="grad")', "", lock)
        old = re.sub(r'"constants":"[0-9a-f]+",', "", old)
        self.assertNotIn('"constants"', old)
        self.write("nets/net.opc.lock", old)
        self.check("nets")
        self.put(self.constants(scale=0.25))
        self.check("nets", "--no-run")
        self.put(self.constants())
        self.check("nets", "--update")
        self.assertEqual(self.read("nets/net.opc.lock"), lock)

    def test_constants_that_no_compiler_wrote(self):
        self.put(self.constants())
        self.check("nets", "--update")
        lock = self.read("nets/net.opc.lock")
        record = next(line for line in lock.split("\n") if '"tensor":"f32[5]"' in line)
        for bad in ('{"op":"c","type":"constant","tensor":"f32[5]"},', '{"op":"c","type":"constant","out":{"out_0":"c/out"}},', '7,', '{},',
                    record.replace('"f32[5]"', '"f99[5]"').rstrip("],") + "},"):  # fmt: skip
            self.write("nets/net.opc.lock", lock.replace('"constants":[\n', '"constants":[\n' + bad + "\n"))
            self.assertEqual(self.rules("nets", code=3), {"LOCK_DAMAGED"}, bad)
        self.write("nets/net.opc.lock", lock.replace('"tensor":"f32[5]"', '"tensor":"f32[6]"'))
        self.assertIn("LOCK_STALE", self.rules("nets"))

    def test_an_output_that_another_op_makes(self):
        """Another axis of a Softmax is moved to the end and back: its output is that of the way back."""
        def soft(axis):
            return m.model(m.graph([m.node("Softmax", ["x"], ["y"], "soft", axis=axis)], [m.value("x", (2, 3))], [m.value("y")]))

        self.put(soft(1), "nets/soft.onnx")
        self.check("nets/soft.onnx", "--update")
        self.put(soft(0), "nets/soft.onnx")
        edges = [f["message"] for f in self.findings("nets/soft.onnx", "--no-run") if f["rule"] == "EDGE_CHANGED" and f["op"] == "y"]
        self.assertEqual(len(edges), 1)
        self.assertRegex(edges[0], r"^input in: y of \S+ \(softmax\) -> y of \S+ \(transpose\)$")

    def test_another_model(self):
        """--against a file and a revision compares weights as well."""
        self.put(model(bias=np.full(5, 2, F32)), "old.onnx")
        self.assertEqual(self.rules("nets/net.onnx", "--against", "old.onnx"), {"OP_ATTR_CHANGED", "NUMERIC_MISMATCH"})
        self.check("nets/net.onnx", "--against", "nets/net.onnx")

    def test_a_file_of_weights_wins(self):
        np.savez(self.path("nets/net.opc.inputs.npz"), x=X, w=W * 2)
        self.check("nets", "--update")
        y = next(r for r in json.loads(self.read("nets/net.opc.lock"))["numerics"] if r.get("out") == "y")
        np.testing.assert_allclose(np.array(y["samples"]).reshape(4, 5), X @ (2 * W) + np.arange(5), rtol=1e-6, atol=1e-6)

    def test_one_lock_for_two(self):
        self.write("nets/net.pbtxt", "no graph")
        self.assertEqual(self.rules("nets"), {"LOCK_SHARED"})


class Branches(Files):
    """Models with If, whose branches are graphs in an op."""

    def choice(self, other, bias=1.0):
        yes = m.graph([m.node("Constant", [], ["k"], value=np.array([bias], F32)), m.node("Add", ["x", "k"], ["t"])], [], [m.value("t", (4,))])
        no = m.graph([m.node(other, ["x"], ["e"])], [], [m.value("e", (4,))])
        return m.model(m.graph([m.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=no)], [m.value("x", (4,)), m.value("c", (), 9)], [m.value("y")]))

    def diff(self, a, b, code=1):
        done = subprocess.run([OPC, "diff", self.path(a), b, "--json"], capture_output=True, text=True, timeout=120, cwd=self.path("nets"))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return [(f["rule"], f["op"]) for f in json.loads(done.stdout)["findings"]]

    def test_another_branch(self):
        self.put(self.choice("Neg"))
        self.check("nets", "--update")
        self.put(self.choice("Neg"), "old.onnx")
        self.assertEqual(self.diff("old.onnx", "net.onnx", code=0), [])
        self.put(self.choice("Exp"))
        for found in (self.findings("nets", "--no-run"), self.findings("nets/net.onnx", "--no-run", "--against", "old.onnx")):
            self.assertEqual([(f["rule"], f["op"]) for f in found if f["severity"] == "error" and f["rule"] != "FLOPS_GREW"], [("OP_ATTR_CHANGED", "choice")])
        self.assertIn(("OP_ATTR_CHANGED", "choice"), self.diff("nets/net.opc.lock", "net.onnx"))
        self.assertEqual([f for f in self.diff("old.onnx", "net.onnx") if f[0].startswith("OP_")], [("OP_ATTR_CHANGED", "choice")])

    def test_its_name_and_folder_do_not_count(self):
        self.put(self.choice("Neg"))
        self.check("nets", "--update")
        lock = self.read("nets/net.opc.lock")
        self.check("net.onnx", "--no-run", "--use", "EXACT", "-C", self.path("nets"))
        self.check("net.onnx", "--update", "-C", self.path("nets"))
        self.assertEqual(self.read("nets/net.opc.lock"), lock)
        self.put(self.choice("Neg"), "nets/other.onnx")
        self.check("nets/other.onnx", "--update")
        self.assertEqual(self.read("nets/other.opc.lock").replace("other.onnx", "net.onnx"), lock)


class OpenModels(Files):
    def open_model(self, dims=("n", 3), w=W):
        return m.model(m.graph([m.node("MatMul", ["x", "w"], ["y"], "mul")], [m.value("x", dims)], [m.value("y")], [m.tensor("w", w)]))

    def header(self):
        return json.loads(self.read("nets/net.opc.lock"))

    def test_a_model_of_open_sizes(self):
        self.put(self.open_model())
        found = self.findings("nets", code=3)
        self.assertEqual([f["rule"] for f in found], ["GRAPH_INVALID"])
        self.assertIn("OPC0207", found[0]["message"])
        self.assertIn("--shape x=1,3", found[0]["help"])
        self.check("nets", "--update", "--shape", "x=2,3")
        self.assertEqual(self.header()["target"]["shapes"], {"x": [2, 3]})
        self.assertEqual(next(r for r in self.header()["numerics"] if r.get("out") == "y")["type"], "f32[2,5]")
        self.check("nets")
        self.check("nets", "--dim", "n=2")
        self.assertIn("LOCK_STALE", self.rules("nets", "--shape", "x=4,3"))
        self.assertIn("did you mean x?", self.check("nets", "--shape", "xx=4,3", code=2).stderr)
        self.put(self.open_model(w=W * 2))
        self.assertEqual(self.rules("nets"), {"OP_ATTR_CHANGED", "NUMERIC_MISMATCH"})

    def test_a_size_by_its_name(self):
        self.put(self.open_model())
        self.check("nets", "--update", "--dim", "n=6")
        self.assertEqual(self.header()["target"]["shapes"], {"x": [6, 3]})
        self.check("nets")
        self.write("g.pbtxt", GRAPH)
        self.assertIn("for ONNX models", self.check("g.pbtxt", "--dim", "n=6", code=2).stderr)

    def test_an_input_that_is_a_constant(self):
        self.put(self.open_model())
        self.check("nets", "--update", "--const", "x=ones", code=3)
        self.put(self.open_model((4, 3)))
        self.check("nets", "--update", "--const", "x=ones")
        self.assertEqual([r for r in self.header()["interface"] if "in" in r], [])
        self.check("nets", "--const", "x=ones")

    def test_a_size_that_is_open_no_more(self):
        self.put(self.open_model())
        self.check("nets", "--update", "--shape", "x=2,3")
        self.put(self.open_model((8, 3)))
        self.assertEqual(self.rules("nets"), {"INPUT_TYPE_CHANGED"})

    def test_another_open_model(self):
        self.put(self.open_model())
        self.put(self.open_model(w=W * 2), "old.onnx")
        self.assertEqual(self.rules("nets/net.onnx", "--against", "old.onnx", code=3), {"GRAPH_INVALID"})
        self.assertEqual(self.rules("nets/net.onnx", "--against", "old.onnx", "--shape", "x=2,3"), {"OP_ATTR_CHANGED", "NUMERIC_MISMATCH"})
        self.check("nets/net.onnx", "--against", "nets/net.onnx", "--dim", "n=2")


if __name__ == "__main__":
    unittest.main()
