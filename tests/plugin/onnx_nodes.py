# Nodes of another domain in an ONNX model: the op of that name that a plugin brings, with its attributes. Expected numbers are numpy's.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from plugin_build import build_plugin

SOURCE = os.environ["OPC_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "onnx"))
import messages as m  # noqa: E402

OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
F32 = np.float32
OPS = r'''
#include "opc/Elementwise.h"
using namespace opc;
OPC_SCALAR(Bent, x, y, low, steps, asSum) { return select(asSum != 0, x + y, x * y) * low + steps; }
REGISTER_USER_OP("Bent")
    .Input("x").Input("y").Output("z")
    .Attr<double>("low", 1.0).Attr<int64_t>("steps", 0).Attr<bool>("as_sum", false)
    .Doc("z = (x y or x + y) low + steps.")
    .Elementwise<Bent, user_op::types::Floating, user_op::output::Same>();
'''
X, Y = np.linspace(-2, 2, 6, dtype=F32).reshape(2, 3), np.array([1, -3, 0.5], F32)


class Nodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="onnx_nodes")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        build_plugin(cls.path("libbent.so"), OPS)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def model(self, nodes, inputs=(), **more):
        with open(self.path("model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, [m.value("x", X.shape), *inputs], [m.value("z")], [m.tensor("y", Y)]), domains=["com.example"], **more))

    def opc(self, *args, plugin=True):
        return subprocess.run([OPC, *args, *(["--plugin", "libbent.so"] if plugin else [])], capture_output=True, text=True, cwd=self.folder, timeout=60)

    def gives(self, wanted, *flags):
        np.save(self.path("x.npy"), X)
        done = self.opc("run", "model.onnx", "--input", "x=@x.npy", "--outputs", "out.npz", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_allclose(np.load(self.path("out.npz"))["z"], wanted, rtol=1e-6)

    def bent(self, out="z", **attributes):
        return m.node("Bent", ["x", "y"], [out], "the node", "com.example", **attributes)

    def test_attributes(self):
        self.model([self.bent()])
        self.gives(X * Y)
        self.model([self.bent(low=0.5, steps=3)])
        self.gives(X * Y * F32(0.5) + 3)
        self.model([self.bent(as_sum=1), ])
        self.gives(X + Y)

    def test_among_others_and_in_branches(self):
        self.model([self.bent("h", low=2.0), m.node("Relu", ["h"], ["z"])])
        self.gives(np.maximum(2 * X * Y, 0))
        branch = [m.graph([m.node("Bent", ["x", "y"], ["t"], domain="com.example", as_sum=k)], [], [m.value("t")]) for k in (0, 1)]
        self.model([m.node("If", ["c"], ["z"], then_branch=branch[0], else_branch=branch[1])], [m.value("c", (), 9)])
        for c in (0, 1):
            np.save(self.path("c.npy"), np.array(bool(c)))
            self.gives(X * Y if c else X + Y, "--input", "c=@c.npy")

    def test_it_is_differentiated_and_shown(self):
        self.model([self.bent(low=0.5)])
        done = self.opc("show", "model.onnx", "--json")
        self.assertEqual([(op["name"], op["type"]) for op in json.loads(done.stdout)["ops"]], [("the node", "Bent")])
        done = self.opc("grad", "model.onnx", "--loss", "z", "--wrt", "y", "-o", "g.pbtxt", "--weights-out", "w.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        np.save(self.path("x.npy"), X)
        done = self.opc("run", "g.pbtxt", "--weights", "w.safetensors", "--input", "x=@x.npy", "--outputs", "out.npz")
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_allclose(np.load(self.path("out.npz"))["y.grad"], X.sum(0) / 2, rtol=1e-6, atol=1e-6)

    def refused(self, code, exit_code, *words, plugin=True):
        for command in (["show", "model.onnx"], ["run", "model.onnx", "--fill", "ones"]):
            done = self.opc(*command, plugin=plugin)
            self.assertEqual(done.returncode, exit_code, done.stderr)
            self.assertEqual(done.stderr.count("error["), 1, done.stderr)
            for word in (f"error[{code}]", *words):
                self.assertIn(word, done.stderr)

    def test_what_does_not_fit(self):
        self.model([self.bent()])
        self.refused("OPC0421", 4, "com.example.Bent (version 1): 1 node, model.onnx: node 0 \"the node\"", "--plugin", plugin=False)
        self.model([self.bent(hight=1.0)])
        self.refused("OPC0322", 3, "op Bent has no attribute 'hight'", 'node 0 "the node"')
        self.model([self.bent(low=np.zeros(2, F32))])
        self.refused("OPC0422", 4, "attribute 'low' is of a kind that no op of opc has", 'node 0 "the node"')
        self.model([m.node("Bent", ["x"], ["z"], "the node", "com.example")])
        self.refused("OPC0322", 3, 'node 0 "the node"')
        self.model([self.bent(as_sum=5)])
        self.refused("OPC0322", 3, "attribute 'as_sum' has 5, and a flag is 0 or 1", 'node 0 "the node"')
        self.model([m.node("Bent", ["x", "y"], ["z", "more"], "the node", "com.example")])
        self.refused("OPC0322", 3, "output 1 ('more') is too many: op Bent has 1", 'node 0 "the node"')
        self.model([m.node("relu", ["x"], ["z"], "the node", "com.example")])  # a built-in op's name
        self.refused("OPC0421", 4, "com.example.relu (version 1)")
        self.model([m.node("Bent", ["x", "y"], ["z"], "the node")])  # of ONNX's own domain
        self.refused("OPC0421", 4, "Bent (version 17)")


if __name__ == "__main__":
    unittest.main()
