"""paddle's style: what a PyLayer's context offers, the arguments that it gets, and programs without outputs."""
# SPDX-License-Identifier: Apache-2.0
import sys
import unittest

import numpy as np

import opc
from style_programs import path_of

sys.path.append(path_of("--compat-path"))
import paddle  # noqa: E402
from paddle.autograd import PyLayer  # noqa: E402


class Marked(PyLayer):
    """The values in another order, and from where they come."""

    seen = []

    @staticmethod
    def forward(ctx, x, materialize=True):
        ctx.set_materialize_grads(materialize)
        order = np.argsort(x.numpy())
        ctx.order = order
        values, where = x * 2, paddle.to_tensor(order.astype("f"))
        ctx.mark_non_differentiable(where)
        return values, where, x * 5

    @staticmethod
    def backward(ctx, dvalues, dwhere, dmore):
        Marked.seen = [None if d is None else d.numpy().tolist() for d in (dvalues, dwhere, dmore)]
        return (0 if dvalues is None else dvalues * 2) + (0 if dmore is None else dmore * 5)


class Context(unittest.TestCase):
    def test_outputs_that_are_marked_have_no_gradient(self):
        x = paddle.to_tensor([3.0, 1.0], stop_gradient=False)
        values, where, more = Marked.apply(x)
        self.assertEqual([t.stop_gradient for t in (values, where, more)], [False, True, False])
        (values * 7 + where * values + more).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), 2 * (7 + np.argsort([3, 1])) + 5)
        self.assertEqual(Marked.seen, [[8, 7], [0, 0], [1, 1]])

    def test_marked_outputs_in_a_graph(self):
        g = opc.Graph()
        values, where, more = Marked.apply(g.input("x", (2,)))
        g.output("y", (values + where * 3 + more).sum())
        got = g.grad("y", ["x"]).compile().run(x=np.array([3, 1], "f"))
        np.testing.assert_array_equal(got["y"], 2 * 4 + 3 + 5 * 4)
        np.testing.assert_array_equal(got["x.grad"], [7, 7])

    def test_gradients_that_nothing_has_reached(self):
        for materialize, absent in ((True, [0, 0]), (False, None)):
            x = paddle.to_tensor([3.0, 1.0], stop_gradient=False)
            Marked.apply(x, materialize)[0].sum().backward()
            self.assertEqual(Marked.seen, [[1, 1], absent, absent])
            np.testing.assert_array_equal(x.grad.numpy(), [2, 2])
            Marked.apply(x, materialize=materialize)[2].sum().backward()
            self.assertEqual(Marked.seen, [absent, absent, [1, 1]])
            np.testing.assert_array_equal(x.grad.numpy(), [7, 7])


class Noting(PyLayer):
    @staticmethod
    def forward(ctx, x, notes, more=None):
        notes.append(x.numpy().tolist())
        if more is not None:
            more["calls"] = more.get("calls", 0) + 1
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy * 2


class Typed(PyLayer):
    @staticmethod
    def forward(ctx, x, factor):
        return paddle.cast(x, "float64") * factor if isinstance(factor, float) else x * factor

    @staticmethod
    def backward(ctx, dy):
        return dy


class Arguments(unittest.TestCase):
    def test_forward_writes_into_the_callers_lists_and_dicts_once_for_a_call(self):
        notes, more = [], {}
        for i in (1, 2, 3):
            x = paddle.to_tensor([float(i)], stop_gradient=False)
            Noting.apply(x, notes, more=more).backward()
            self.assertEqual((notes, more), ([[float(k)] for k in range(1, i + 1)], {"calls": i}))
        tensor, holds = paddle.to_tensor([9.0]), []
        Noting.apply(tensor, holds)
        self.assertEqual(holds, [[9.0]])

    def test_arguments_of_other_types_are_other_calls(self):
        x = paddle.to_tensor([1.5])
        for factor, kind in ((2, "float32"), (2.0, "float64"), (2, "float32"), (True, "float32")):
            y = Typed.apply(x, factor)
            self.assertEqual((y.dtype, y.item()), (kind, 1.5 * factor))

    def test_a_tensor_with_values_beside_one_of_a_graph(self):
        x = opc.Graph().input("x", (1,))
        for args in ((x, paddle.to_tensor([1.0])), (paddle.to_tensor([1.0]), x)):
            with self.assertRaises(TypeError) as raised:
                Typed.apply(*args)
            self.assertIn("Typed.apply: a tensor with values beside tensors of an opc.Graph", str(raised.exception))


class Programs(unittest.TestCase):
    def test_a_program_that_runs_for_what_its_function_does(self):
        paddle.enable_static()
        self.addCleanup(paddle.disable_static)
        seen = []
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [None, 2])
            paddle.static.py_func(lambda a: seen.append(a.tolist()), x, None)
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(paddle.static.default_startup_program())
        for rows in ([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]):
            self.assertEqual(exe.run(main, feed={"x": np.array(rows, "f")}), [])
            self.assertEqual(seen.pop(), rows)
            self.assertEqual(seen, [])


if __name__ == "__main__":
    unittest.main()
