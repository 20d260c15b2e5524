# opc check of ONNX models: their own weights are locked and run, and a weight that has moved is found.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m
from check_cases import Checks

F32 = np.float32
X = np.linspace(-1, 1, 12, dtype=F32).reshape(4, 3)
W = np.linspace(-2, 3, 15, dtype=F32).reshape(3, 5)


def model(w=W, bias=None, nodes=None):
    bias = np.arange(5, dtype=F32) if bias is None else bias
    nodes = nodes or [m.node("MatMul", ["x", "w"], ["h"], "mul"), m.node("Add", ["h", "b"], ["y"], "sum")]
    return m.model(m.graph(nodes, [m.value("x", (4, 3))], [m.value("y")], [m.tensor("w", w), m.tensor("b", bias)]))


class Models(Checks):
    def put(self, data, name="nets/net.onnx"):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data)

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

    def test_another_model(self):
        """--against a file and a revision compares weights as well."""
        self.put(model(bias=np.full(5, 2, F32)), "old.onnx")
        self.assertEqual(self.rules("nets/net.onnx", "--against", "old.onnx"), {"OP_ATTR_CHANGED", "NUMERIC_MISMATCH"})
        self.check("nets/net.onnx", "--against", "nets/net.onnx")

    def test_a_file_of_weights_wins(self):
        np.savez(self.path("nets/net.opc.inputs.npz"), x=X, w=W * 2)
        self.check("nets", "--update")
        y = next(r for r in json.loads(self.read("nets/net.opc.lock"))["numerics"] if r.get("out") == "y")
        np.testing.assert_allclose(np.array(y["samples"]).reshape(4, 5), X @ (2 * W) + np.arange(5), rtol=1e-6)

    def test_one_lock_for_two(self):
        self.write("nets/net.pbtxt", "no graph")
        self.assertIn("would have one lock", self.check("nets", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
