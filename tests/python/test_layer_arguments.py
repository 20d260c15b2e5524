"""What a PyLayer is called with beside tensors: kept in the node, or named as what stayed in the process."""
# SPDX-License-Identifier: Apache-2.0
import unittest

from style_programs import StyleTest

LAYERS = """
from paddle.autograd import PyLayer
class Fn(PyLayer):
    @staticmethod
    def forward(ctx, x, f):
        return f(x)
    @staticmethod
    def backward(ctx, dy):
        return dy
class Scaled(PyLayer):
    @staticmethod
    def forward(ctx, x, k, table=None):
        assert type(k).__name__ == "float32" and (table or {1: 1})[1] == 1, (type(k), table)
        return x * k
    @staticmethod
    def backward(ctx, dy):
        return dy
class Powers(PyLayer):
    @staticmethod
    def forward(ctx, x, k):
        return x * k
    @staticmethod
    def backward(ctx, dy):
        return dy
"""
GRAPH = "import layers, numpy as np, opc; g = opc.Graph('g'); x = g.input('x', (1,)); "
RUN = "print(g.compile().run(x=np.ones(1, 'f'))['y'].tolist())"


class Arguments(StyleTest):
    def setUp(self):
        super().setUp()
        self.write("layers.py", LAYERS)

    def test_a_function_stays_in_its_process(self):
        self.assertEqual(self.program(GRAPH + "g.output('y', layers.Fn.apply(x, lambda v: v * 2)); g.save('g.pbtxt')", RUN), "[2.0]\n")
        other = GRAPH + "g.output('y', layers.Fn.apply(x, lambda v: v * 9)); g.compile(); g = opc.load('g.pbtxt')"
        said = [self.failing(other, RUN), self.opc("run", "g.pbtxt", "--op-path", ".", "--fill", "ones").stderr]
        for text in said:
            self.assertIn("OPC0923", text)
            self.assertIn("does not have all arguments of Fn.forward: f (function) stayed in the process that built it", text)
            self.assertIn("help: give apply numbers, texts, lists or dicts", text)
            self.assertNotIn("JSONDecodeError", text)

    def test_numbers_of_numpy_and_dicts_of_numbers_are_kept(self):
        self.program(GRAPH + "g.output('y', layers.Scaled.apply(x, np.float32(4), table={1: 1})); g.save('g.pbtxt')")
        self.assertEqual(self.program("import layers, numpy as np, opc; g = opc.load('g.pbtxt')", RUN), "[4.0]\n")
        self.assertEqual(self.command("run", "g.pbtxt", "--op-path", ".", "--fill", "ones").split()[-1], "[4]")

    def test_an_array_is_named(self):
        self.program(GRAPH + "g.output('y', layers.Powers.apply(x, k=np.ones(1, 'f'))); g.save('g.pbtxt')")
        self.assertIn("k (ndarray) stayed", self.opc("run", "g.pbtxt", "--op-path", ".", "--fill", "ones").stderr)

    def test_results_that_graphs_do_not_have(self):
        said = self.failing(GRAPH + "layers.Powers.apply(x, 2**70)")
        self.assertIn("Powers.forward gives Tensor 0 of type object: a graph has bool, integers and floats", said)


if __name__ == "__main__":
    unittest.main()
