"""mxnet's style: what Props may answer, auxiliary states of graphs, and executors that go back first."""
# SPDX-License-Identifier: Apache-2.0
import operator
import sys
import unittest
import warnings

import numpy as np

import opc
from style_programs import path_of

sys.path.append(path_of("--compat-path"))
import mxnet as mx  # noqa: E402


class Squares(mx.operator.CustomOp):
    """Half of the values' squares; the state counts."""

    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] = aux[0] + 1
        self.assign(out_data[0], req[0], in_data[0] * in_data[0] / 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * in_data[0])


class SquaresProp(mx.operator.CustomOpProp):
    size = staticmethod(lambda n: n)

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, [[self.size(n) for n in in_shape[0]]], [[1]]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Squares()


mx.operator.register("squares")(SquaresProp)


def registered(**changes):
    """The name of an operator that is another in this."""
    mx.operator.register("changed")(type("Changed", (SquaresProp,), changes))
    return "changed"


def plain(kind, **changes):
    """The name of an operator of one input, computed by this class."""
    made = {"create_operator": lambda self, ctx, shapes, types: kind(), **changes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mx.operator.register("plain")(type("PlainProp", (mx.operator.CustomOpProp,), made))
    return "plain"


def eager(name):
    return mx.nd.Custom(mx.nd.array([1, 2, 3]), mx.nd.zeros((1,)), op_type=name)


class Refused(unittest.TestCase):
    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of operators that are replaced

    def refuses(self, says, **changes):
        name = registered(**changes)
        for call in (lambda: eager(name), lambda: mx.sym.Custom(mx.sym.Variable("a"), op_type=name).simple_bind(mx.cpu(), a=(3,))):
            with self.assertRaises((mx.MXNetError, opc.Error)) as raised:
                call()
            self.assertIn("mxnet::changed: " + says, str(raised.exception))

    def test_sizes_that_are_not_whole(self):
        for size, shown in ((lambda n: n / 2, "1.5"), (lambda n: "3", "'3'"), (lambda n: None, "None"), (lambda n: float("nan"), "nan")):
            self.refuses(f"infer_shape answers [{shown}] for its output 'output', and {shown} is no whole number", size=staticmethod(size))
        self.refuses("infer_shape answers 3 for its output 'output', which is no shape", infer_shape=lambda self, s: (s, s[0], [[1]]))
        self.refuses("infer_shape answers [0.5] for its auxiliary state 'count'", infer_shape=lambda self, s: (s, s, [[0.5]]))

    def test_whole_sizes_of_any_type(self):
        for size in (np.int64, np.int32, np.float64, float):
            np.testing.assert_array_equal(eager(registered(size=staticmethod(size))).asnumpy(), [0.5, 2, 4.5])

    def test_names(self):
        two = lambda self: ["a", "a"]  # noqa: E731
        self.refuses("list_arguments returns the name 'a' twice", list_arguments=two)
        self.refuses("list_outputs returns the name 'a' twice", list_outputs=two)
        self.refuses("list_auxiliary_states returns the name 'a' twice", list_auxiliary_states=two)
        self.refuses("list_auxiliary_states returns the name 'data' which list_arguments returns, too", list_auxiliary_states=lambda self: ["data"])
        self.refuses("list_outputs returns no name: an operator needs an output", list_outputs=lambda self: [])


class States(unittest.TestCase):
    def test_a_state_of_a_graph_is_a_variable(self):
        g = opc.Graph("g")
        x, n, v = g.input("x", (2,)), g.input("n", (1,)), g.variable("v", (1,), init=0, trainable=False)
        for state in (n, n * 2.0, v * 2.0):
            with self.assertRaises(opc.GraphError) as raised:
                mx.sym.Custom(x, state, op_type="squares")
            self.assertEqual(raised.exception.code, "OPC0208")
            self.assertIn(f"mxnet::squares: it writes its auxiliary state count, and {state.name} is no variable", str(raised.exception))
        g.output("y", mx.sym.Custom(x, v, op_type="squares"))
        program = g.compile()
        for step in (1, 2):
            np.testing.assert_array_equal(program.run(x=np.array([2, 4], "f"), n=np.ones(1, "f"))["y"], [2, 8])
            np.testing.assert_array_equal(program.variables["v"], [step])

    def test_a_state_of_a_symbol_is_a_variable(self):
        a, n = mx.sym.Variable("a"), mx.sym.Variable("n")
        with self.assertRaisesRegex(mx.MXNetError, r"auxiliary state count, and \w+ is computed: give it mx.sym.Variable\('count'\)"):
            mx.sym.Custom(a, n * 2.0, op_type="squares")
        self.assertEqual(mx.sym.Custom(a, n, op_type="squares").list_auxiliary_states(), ["n"])

    def test_a_state_has_the_shape_of_infer_shape(self):
        g = opc.Graph()
        x, v = g.input("x", (3,)), g.variable("v", (2,), init=0, trainable=False)
        for call in (lambda: mx.nd.Custom(mx.nd.ones((3,)), mx.nd.zeros((2,)), op_type="squares"), lambda: mx.sym.Custom(x, v, op_type="squares")):
            with self.assertRaisesRegex(opc.Error, r"mxnet::squares: infer_shape wants count of shape \(1,\), found \(2,\)"):
                call()

    def test_backward_reads_them_and_does_not_write(self):
        class Writes(Squares):
            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                aux[0][:] = 7

        x, count = mx.nd.array([1, 2]), mx.nd.zeros((1,))
        x.attach_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name = registered(create_operator=lambda self, ctx, shapes, types: Writes())
        with mx.autograd.record():
            y = mx.nd.Custom(x, count, op_type=name)
        with self.assertRaisesRegex(opc.ExecutionError, "in backward its states, are read-only"):
            y.backward()
        self.assertEqual(count.asscalar(), 1)


class Backward(unittest.TestCase):
    def test_backward_without_forward(self):
        symbol = mx.sym.Custom(mx.sym.Variable("a"), op_type="squares", name="s")
        a, da, count = mx.nd.array([1, 2, 3]), mx.nd.zeros((3,)), mx.nd.zeros((1,))
        bound = symbol.bind(mx.cpu(), [a], [da], aux_states=[count])
        bound.backward()
        np.testing.assert_array_equal(da.asnumpy(), [1, 2, 3])
        np.testing.assert_array_equal(bound.outputs[0].asnumpy(), [0.5, 2, 4.5])
        self.assertEqual(count.asscalar(), 1)
        plain = symbol.bind(mx.cpu(), [a])
        plain.backward([mx.nd.array([2, 2, 2])])
        np.testing.assert_array_equal(plain.grad_dict["a"].asnumpy(), [2, 4, 6])

    def test_an_executor_goes_back_from_what_its_forward_has_seen(self):
        class Weighted(Squares):
            """Times the number of the call, which the state has."""

            def forward(self, is_train, req, in_data, out_data, aux):
                aux[0][:] = aux[0] + 1
                self.assign(out_data[0], req[0], in_data[0] * aux[0])

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                self.assign(in_grad[0], req[0], out_grad[0] * aux[0])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name = registered(create_operator=lambda self, ctx, shapes, types: Weighted())
        bound = mx.sym.Custom(mx.sym.Variable("a"), name="w", op_type=name).simple_bind(mx.cpu(), a=(2,))
        given = mx.nd.array([1, 2])
        for call in (1, 2, 3):
            (y,) = bound.forward(is_train=True, a=given)
            bound.backward()
            self.assertEqual((y.asnumpy().tolist(), bound.grad_dict["a"].asnumpy().tolist()), ([call, 2 * call], [call, call]))
            self.assertEqual(bound.aux_dict["w_count"].asscalar(), call)
        bound.arg_dict["a"][:] = 9
        self.assertEqual(given.asnumpy().tolist(), [1, 2])  # the executor has the values, not the caller's array

    def test_what_the_dependencies_leave_out(self):
        uses = {
            "product": lambda dy, x, y: dy * x,
            "reversed": lambda dy, x, y: x * dy,
            "method": lambda dy, x, y: x.asnumpy(),
            "assigned": lambda dy, x, y: y,
        }
        for name, rule in uses.items():

            class Squared(Squares):
                forward = lambda self, is_train, req, in_data, out_data, aux: self.assign(out_data[0], req[0], in_data[0] * in_data[0])

                def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                    self.assign(in_grad[0], req[0], rule(out_grad[0], in_data[0], out_data[0]))

            x = mx.nd.array([1, 2])
            x.attach_grad()
            with mx.autograd.record():
                y = mx.nd.Custom(x, op_type=plain(Squared, declare_backward_dependency=lambda self, dy, x, y: dy))
            with self.subTest(use=name), self.assertRaises(opc.Error) as caught:
                y.backward()
            self.assertEqual(caught.exception.code, "OPC0622")
            self.assertIn("help: backward gets None for in_data[0], out_data[0], which declare_backward_dependency leaves out\n", str(caught.exception))
            self.assertIn("test_mxnet_calls.py:", str(caught.exception).splitlines()[0])

    def test_a_class_without_the_method(self):
        """It would give zeros."""

        class OnlyForward(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] * 3)

        x = mx.nd.array([1, 2])
        x.attach_grad()
        with mx.autograd.record():
            y = mx.nd.Custom(x, op_type=plain(OnlyForward))
        g = opc.Graph()
        g.output("y", mx.sym.Custom(g.input("x", (2,)), op_type="plain"))
        self.assertEqual(y.asnumpy().tolist(), [3, 6])
        for back in (y.backward, lambda: g.grad("y", "x").compile().run(x=np.ones(2, "f"))):
            with self.assertRaises(opc.Error) as caught:
                back()
            self.assertEqual(caught.exception.code, "OPC0501")
            self.assertRegex(str(caught.exception), r"mxnet::plain(_\d+)?_grad: OnlyForward has no method backward, and a gradient is wanted \(.*test_mxnet_calls.py:\d+\)")
            self.assertIn("self.assign(in_grad[0], req[0], 0)", str(caught.exception))
        with self.assertRaisesRegex(opc.Error, r"CustomOp has no method forward\n"):
            mx.nd.Custom(x, op_type=plain(mx.operator.CustomOp))


class InPlace(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        out_data[0] += in_data[0]
        out_data[0] *= 6
        out_data[0] /= 2
        out_data[0] -= 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        in_grad[0] -= out_grad[0] * (in_data[0] > 1) * -3


class Arrays(unittest.TestCase):
    def test_arithmetic_in_place(self):
        x = mx.nd.array([1, 2])
        x.attach_grad()
        with mx.autograd.record():
            y = mx.nd.Custom(x, op_type=plain(InPlace))
        y.backward()
        self.assertEqual((y.asnumpy().tolist(), x.grad.asnumpy().tolist()), ([2, 5], [0, 3]))
        parameter = mx.gluon.Parameter("w", (2,), init=4.0)
        parameter.initialize()
        own = parameter.data()
        own -= 0.5 * x.grad
        self.assertEqual(parameter.data().asnumpy().tolist(), [4, 2.5])
        with mx.autograd.record():
            z = x * x
            z *= 2  # another array, as z is on the tape
            with self.assertRaisesRegex(opc.UnsupportedError, "compute a new one"):
                x *= 2
        z.backward()
        self.assertEqual(x.grad.asnumpy().tolist(), [4, 8])

    def test_comparisons(self):
        """1 and 0 in the array's type, elementwise: == has no answer of its own for two objects."""
        for kind in ("float32", "int32"):
            x, y = mx.nd.array([1, 2, 3], dtype=kind), mx.nd.array([3, 2, 1], dtype=kind)
            a, b = x.asnumpy(), y.asnumpy()
            for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
                for got, expected in ((compare(x, y), compare(a, b)), (compare(x, 2), compare(a, 2)), (compare(2, x), compare(2, a))):
                    self.assertEqual((got.dtype, got.asnumpy().tolist()), (np.dtype(kind).type, expected.astype(kind).tolist()))
        self.assertFalse(x == None)  # noqa: E711
        self.assertEqual(len({x, y}), 2)
        with self.assertRaisesRegex(TypeError, "mx.nd.array"):
            x > np.ones(3)

    def test_numbers_that_look_alike(self):
        x = mx.nd.array([1])
        self.assertEqual([float(x / n) for n in (0.0, -0.0, 0)], [np.inf, -np.inf, np.inf])
        n = mx.nd.array([0], dtype="int64")
        self.assertEqual([(n + k).asnumpy()[0] for k in (2**53, 2**53 + 1)], [2**53, 2**53 + 1])

    def test_products_of_stacks_by_stacks_are_refused(self):
        stack = mx.nd.ones((2, 3, 3))
        self.assertEqual(mx.nd.dot(stack, mx.nd.ones((3, 4))).shape, (2, 3, 4))
        self.assertEqual(mx.nd.dot(mx.nd.ones((3,)), mx.nd.ones((3,))).asnumpy().tolist(), [3])
        with self.assertRaisesRegex(NotImplementedError, "more than two dimensions"):
            mx.nd.dot(stack, stack)

    def test_a_parameter_has_values_of_its_own(self):
        parameter, given = mx.gluon.Parameter("w", (2,)), mx.nd.array([1, 2], dtype="float64")
        for _ in range(2):
            parameter.set_data(given)
            given[:] = 0
            self.assertEqual((parameter.data().dtype, parameter.data().asnumpy().tolist()), (np.float32, [1, 2]))
            given[:] = mx.nd.array([1, 2])


if __name__ == "__main__":
    unittest.main()
