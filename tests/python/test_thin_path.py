"""The package's first path: a graph, an op, compiled, run on arrays; failures are exceptions."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

import numpy as np

import opc


def small():
    g = opc.Graph("small")
    x = g.input("x", (2, 3))
    w = g.variable("w", (3, 4), init=0.5)
    g.output("y", opc.ops.relu(opc.ops.matmul(x, w)))
    return g


class ThinPath(unittest.TestCase):
    def test_runs_on_arrays(self):
        x = np.arange(6, dtype="f").reshape(2, 3) - 3
        y = small().compile().run(x=x)["y"]
        np.testing.assert_array_equal(y, np.maximum(x @ np.full((3, 4), 0.5, "f"), 0))
        self.assertEqual(y.dtype, np.float32)

    def test_shapes_are_inferred_as_the_graph_grows(self):
        g = opc.Graph()
        x = g.input("x", (2, 3), "f64")
        y = opc.ops.matmul(x, x, transpose_b=True)
        self.assertEqual((y.shape, y.dtype, y.name), ((2, 2), "f64", "matmul/out_0"))

    def test_same_text_every_time(self):
        self.assertEqual(small().text(), small().text())

    def test_a_wrong_op_names_python_s_line(self):
        g = opc.Graph()
        x, y = g.input("x", (2, 3)), g.input("y", (4, 5))
        with self.assertRaises(opc.GraphError) as caught:
            opc.ops.matmul(x, y)
        self.assertEqual(caught.exception.code, "OPC0203")
        self.assertIn("test_thin_path.py:", str(caught.exception))
        self.assertIn("a: x/out  f32[2,3]", str(caught.exception))

    def test_wrong_arrays_are_refused(self):
        program = small().compile()
        for wrong, code in ((np.zeros((2, 3), "d"), "OPC0703"), (np.zeros((3, 2), "f"), "OPC0704")):
            with self.assertRaises(opc.UsageError) as caught:
                program.run(x=wrong)
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(opc.UsageError) as caught:
            program.run(z=np.zeros((2, 3), "f"))
        self.assertEqual(caught.exception.code, "OPC0611")

    def test_the_command_says_where_the_package_is(self):
        command = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
        path = subprocess.run([command, "python", "--path"], capture_output=True, text=True, check=True).stdout.strip()
        self.assertTrue(os.path.samefile(os.path.dirname(opc.__file__), os.path.join(path, "opc")))


if __name__ == "__main__":
    unittest.main()
