"""mxnet's style (tools/python/compat/mxnet): the document's programs, and what they leave out."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys
import unittest
import warnings

import numpy as np

import opc
from mxnet_listings import (
    DENSE_BLOCK, DENSE_OP, DENSE_PROP, DENSE_USE, FORK_READ, FORK_UNREAD, IMPORTS, SIGMOID_BACKWARD, SIGMOID_FORWARD, SIGMOID_OP, SIGMOID_PROP,
)
from style_programs import StyleTest, path_of

sys.path.append(path_of("--compat-path"))
import mxnet as mx  # noqa: E402
from mxnet import autograd  # noqa: E402

SIGMOID = (IMPORTS, SIGMOID_OP, SIGMOID_PROP)
DENSE = (IMPORTS, DENSE_OP, DENSE_PROP, DENSE_BLOCK, DENSE_USE)


def numbers(text):
    return [float(n) for n in re.findall(r"-?\d+\.\d*(?:e-?\d+)?", text)]


class Document(StyleTest):
    def test_sigmoid_forward(self):
        printed = self.program(*SIGMOID, SIGMOID_FORWARD)
        np.testing.assert_allclose(numbers(printed), 1 / (1 + np.exp(-np.arange(4.0))), rtol=1e-6)
        self.assertTrue(printed.endswith("]\n<NDArray 4 @cpu(0)>\n"), printed)
        self.assertEqual(self.trace(*SIGMOID, SIGMOID_FORWARD), ["mxnet::sigmoid"])

    def test_sigmoid_backward(self):
        printed = numbers(self.program(*SIGMOID, SIGMOID_FORWARD, SIGMOID_BACKWARD))
        y = 1 / (1 + np.exp(-np.arange(4.0)))
        np.testing.assert_allclose(printed[4:], y * (1 - y), rtol=1e-6)
        self.assertEqual(self.trace(*SIGMOID, SIGMOID_FORWARD, SIGMOID_BACKWARD), ["mxnet::sigmoid", "mxnet::sigmoid_grad"])

    def test_dense_block(self):
        check = "assert np.allclose(y.asnumpy(), x.asnumpy() @ dense.weight.data().asnumpy().T + 0.1, rtol=1e-6)\n"
        printed = self.program(*DENSE, check)
        self.assertEqual(len(numbers(printed)), 20)
        self.assertIn("<NDArray 4x5 @cpu(0)>", printed)
        self.assertEqual(self.trace(*DENSE), ["mxnet::dense"])

    def test_the_printed_gradient_of_dense_is_refused(self):
        error = self.failing(*DENSE, "x.attach_grad()\nwith autograd.record():\n    y = dense(x)\ny.backward()\n")
        for part in ("OPC0622", "mxnet::dense_grad", "(5, 3)", "(4, 3)", "in backward"):
            self.assertIn(part, error)

    def test_the_gradient_that_dense_means(self):
        meant = DENSE_OP.replace("dx = dy.T.dot(x)", "dx = dy.dot(in_data[1].asnumpy())")
        meant += "        self.assign(in_grad[1], req[1], mx.nd.array(dy.T.dot(x)))\n"
        use = "x.attach_grad()\nwith autograd.record():\n    y = dense(x)\ny.backward()\n"
        check = (
            "w = dense.weight\n"
            "assert np.allclose(x.grad.asnumpy(), np.ones((4, 5)) @ w.data().asnumpy(), rtol=1e-5)\n"
            "assert np.allclose(w.grad().asnumpy(), np.ones((5, 4)) @ x.asnumpy(), rtol=1e-5)\n"
        )
        program = (IMPORTS, meant, DENSE_PROP, DENSE_BLOCK, DENSE_USE, use, check)
        self.program(*program)
        self.assertEqual(self.trace(*program), ["mxnet::dense", "mxnet::dense", "mxnet::dense_grad"])

    def test_fork_does_not_block(self):
        self.program(*SIGMOID, FORK_UNREAD)
        printed = self.program(*SIGMOID, FORK_READ)
        self.assertEqual(len(numbers(printed)), 4 * (1 + printed.count("]") // 2))
        self.assertIn("mxnet::sigmoid", self.trace(*SIGMOID, FORK_READ))

    def test_parent_and_child_go_on(self):
        go_on = "pid = os.fork()\nprint('child' if pid == 0 else 'parent', mx.nd.Custom(x, op_type='sigmoid').asnumpy()[0], flush=True)\n"
        wait = "if pid:\n    assert os.waitpid(pid, 0)[1] == 0\n"
        printed = self.program(*SIGMOID, FORK_READ.replace("os.fork()\n", ""), go_on, wait)
        self.assertIn("parent 0.5\n", printed)
        self.assertIn("child 0.5\n", printed)


class Graphs(StyleTest):
    BUILD = """\
import numpy as np
import mxnet as mx
import opc
import sigmoids

g = opc.Graph("net")
x = g.input("x", (4, 3))
w = g.variable("w", (3, 2), init=opc.init.normal(std=0.5))
y = mx.sym.Custom(x @ w, op_type="sigmoid", name="act")
g.output("loss", (y * y).mean())
g.save("g.pbtxt")
found = g.grad("loss", ["x"])
assert "mxnet::sigmoid_grad" in found.text()
step = g.training_step("loss", opc.optim.SGD(0.5)).compile()
losses = [float(step.run(x=np.ones((4, 3), "f"))["loss"]) for _ in range(10)]
step.save_weights("w.npz")
c = opc.Graph("same")
x = c.input("x", (4, 3))
w = c.variable("w", (3, 2), init=opc.init.normal(std=0.5))
y = opc.ops.sigmoid(x @ w)
c.output("loss", (y * y).mean())
builtin = c.training_step("loss", opc.optim.SGD(0.5)).compile()
expected = [float(builtin.run(x=np.ones((4, 3), "f"))["loss"]) for _ in range(10)]
assert np.allclose(losses, expected, rtol=1e-5), (losses, expected)
assert losses[9] < losses[0]
trained = g.compile()
trained.load_weights("w.npz", partial=True)
print(losses[0], trained.run(x=np.ones((4, 3), "f"))["loss"])
"""

    def test_the_same_class_in_a_graph_trained_saved_and_run_by_the_command(self):
        os.mkdir(os.path.join(self.folder, "ops"))
        self.write("ops/sigmoids.py", *SIGMOID)
        self.write("sigmoids.py", *SIGMOID)
        loss, trained = map(float, self.program(self.BUILD).split())
        with open(os.path.join(self.folder, "g.ops.pbtxt")) as file:
            self.assertIn('"mxnet::sigmoid"', file.read())
        os.remove(os.path.join(self.folder, "sigmoids.py"))
        self.command_agrees("mxnet::sigmoid", loss, trained)


class Counting(mx.operator.CustomOp):
    def __init__(self, prop):
        self.prop = prop

    def forward(self, is_train, req, in_data, out_data, aux):
        self.prop.seen["forward"] = (is_train, list(req))
        self.kept = in_data[0]
        aux[0][:] += 1
        self.assign(out_data[0], req[0], in_data[0] * self.prop.factor)
        self.assign(out_data[1], "add", mx.nd.ones(in_data[0].shape))
        self.assign(out_data[1], "null", mx.nd.zeros(in_data[0].shape))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.prop.seen["backward"] = (list(req), [t is None for t in out_grad + in_data + out_data], self.kept.asnumpy())
        self.assign(in_grad[0], req[0], out_grad[0] * self.prop.factor)


@mx.operator.register("counting")
class CountingProp(mx.operator.CustomOpProp):
    seen = {}

    def __init__(self, factor="2", **rest):
        super().__init__(need_top_grad=True)
        self.factor = float(factor)
        self.seen["settings"] = {"factor": factor, **rest}

    def list_outputs(self):
        return ["scaled", "ones"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0], in_shape[0]], [(1,)]

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        return out_grad

    def create_operator(self, ctx, in_shapes, in_dtypes):
        self.seen["create"] = (str(ctx), in_shapes, in_dtypes)
        return Counting(self)


@mx.operator.register("square_loss")
class SquareLossProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0]], [in_shape[0]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        class Loss(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0])

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                assert out_grad == [None], out_grad
                self.assign(in_grad[0], req[0], in_data[0] - in_data[1])

        return Loss()


class Product(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] += 1
        self.assign(out_data[0], req[0], in_data[0] * in_data[1])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * in_data[1])
        self.assign(in_grad[1], req[1], out_grad[0] * in_data[0])


@mx.operator.register("bound_product")
class ProductProp(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["a", "b"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return [in_shape[0]] * 2, [in_shape[0]], [(1,)]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Product()


class Bound(unittest.TestCase):
    """Symbol.bind: the executor has the caller's own arrays."""

    def setUp(self):
        self.symbol = mx.sym.Custom(mx.sym.Variable("a"), name="p", op_type="bound_product")

    def test_arrays_of_any_size_and_value_are_the_callers(self):
        for values in ([1, 2, 3], [0], [0, 0], [5]):
            a, b = mx.nd.array(values), mx.nd.array(np.arange(len(values)) + 2)
            for args in ([a, b], {"a": a, "p_b": b}):
                bound = self.symbol.bind(mx.cpu(), args)
                a[:] = 4
                np.testing.assert_array_equal(bound.forward()[0].asnumpy(), 4 * b.asnumpy())
                a[:] = 7
                np.testing.assert_array_equal(bound.forward()[0].asnumpy(), 7 * b.asnumpy())

    def test_gradients_and_states_are_written_into_the_callers_arrays(self):
        a, b, count = mx.nd.array([1, 2]), mx.nd.array([3, 4]), mx.nd.array([10])
        da, db = mx.nd.ones((2,)), mx.nd.ones((2,))
        bound = self.symbol.bind(mx.cpu(), [a, b], [da, db], ["add", "write"], [count])
        for step in (1, 2):
            bound.forward(is_train=True)
            bound.backward([mx.nd.array([2, 5])])
            np.testing.assert_array_equal(da.asnumpy(), 1 + step * np.array([2, 5]) * b.asnumpy())
            np.testing.assert_array_equal(db.asnumpy(), np.array([2, 5]) * a.asnumpy())
            self.assertEqual(count.asscalar(), 10 + step)
        self.assertIs(bound.aux_dict["p_count"], count)
        self.assertEqual([g is own for g, own in zip(bound.grad_arrays, (da, db))], [True, True])

    def test_only_the_gradients_that_are_asked_for(self):
        a, b, da = mx.nd.array([1, 2]), mx.nd.array([3, 4]), mx.nd.zeros((2,))
        for how in ({"args_grad": {"a": da}}, {"args_grad": [da, None]}, {"args_grad": [da, mx.nd.zeros((2,))], "grad_req": {"a": "write"}}):
            da[:] = 0
            bound = self.symbol.bind(mx.cpu(), [a, b], **how)
            bound.forward(is_train=True)
            bound.backward()
            self.assertEqual(list(bound.grad_dict), ["a"])
            np.testing.assert_array_equal(da.asnumpy(), b.asnumpy())

    def test_types_are_those_of_arrays_and_of_type_dict(self):
        third = np.array([1 / 3, 2 / 3])
        by_type = self.symbol.simple_bind(mx.cpu(), type_dict={"a": "float64"}, a=(2,))
        by_type.forward(is_train=True, a=third, p_b=third)
        given = self.symbol.bind(mx.cpu(), [mx.nd.array(third, dtype="float64")] * 2)
        given.forward(is_train=True)
        for bound in (by_type, given):
            self.assertEqual(bound.outputs[0].dtype, np.float64)
            np.testing.assert_array_equal(bound.outputs[0].asnumpy(), third * third)
            bound.backward()
            np.testing.assert_array_equal(bound.grad_dict["a"].asnumpy(), third)

    def test_what_does_not_fit_says_so(self):
        a, b = mx.nd.array([1, 2]), mx.nd.array([3, 4])
        for args, more, part in (
            ([a], {}, "1 arrays in args, expected 2: a, p_b"),
            ({"a": a}, {}, "p_b is missing in args"),
            ({"a": a, "p_b": np.ones(2)}, {}, "p_b in args is a ndarray"),
            ([a, mx.nd.array([1])], {}, "infer_shape wants b of shape (2,), found (1,)"),
            ([a, b], {"args_grad": [a]}, "1 arrays in args_grad, expected 2"),
            ([a, b], {"args_grad": {"a": mx.nd.zeros((3,))}}, "a in args_grad has shape (3,)"),
            ([a, b], {"grad_req": "ad"}, "grad_req of a is 'write', 'add' or 'null', not 'ad'"),
            ([a, b], {"grad_req": ["write"]}, "1 words, expected 2"),
            ([a, b], {"aux_states": [mx.nd.zeros((2,))]}, "p_count has shape (2,), the expression wants (1,)"),
        ):
            with self.assertRaises((mx.MXNetError, opc.Error)) as raised:
                self.symbol.bind(mx.cpu(), args, **more)
            self.assertIn(part, str(raised.exception))


class Plain(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0])


@mx.operator.register("plain")
class PlainProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Plain()


@mx.operator.register("wants_doubles")
class DoublesProp(PlainProp):
    def infer_type(self, in_type):
        return [np.float64], [np.float64], []


class Rules(unittest.TestCase):
    def test_settings_are_texts_and_hidden_ones_stay_away(self):
        mx.nd.Custom(mx.nd.ones((2,)), mx.nd.zeros((1,)), factor=3, mode="fast", __layout__="x", op_type="counting")
        self.assertEqual(CountingProp.seen["settings"], {"factor": "3", "mode": "fast"})
        self.assertEqual(CountingProp.seen["create"], ("cpu(0)", [[2]], [np.float32]))
        for number in (np.float64(0.5), np.float32(0.5), 0.5):
            y, _ = mx.nd.Custom(mx.nd.ones((2,)), mx.nd.zeros((1,)), factor=number, op_type="counting")
            self.assertEqual((CountingProp.seen["settings"], y.asnumpy().tolist()), ({"factor": "0.5"}, [0.5, 0.5]))

    def test_states_requests_and_phases(self):
        x, count = mx.nd.array([[1, 2, 3]]), mx.nd.zeros((1,))
        x.attach_grad(grad_req="add")
        for i in (1, 2):
            with autograd.record():
                y, ones = mx.nd.Custom(x, count, op_type="counting")
            self.assertEqual(CountingProp.seen["forward"], (True, ["write", "write"]))
            y.backward()
            self.assertEqual(count.asscalar(), i)
            np.testing.assert_array_equal(x.grad.asnumpy(), [[2 * i] * 3])
        np.testing.assert_array_equal(ones.asnumpy(), np.ones((1, 3)))
        req, absent, kept = CountingProp.seen["backward"]
        self.assertEqual(req, ["add"])
        self.assertEqual(absent, [False, False, True, True, True], "what is not declared is None")
        np.testing.assert_array_equal(kept, [[1, 2, 3]])
        mx.nd.Custom(x, count, op_type="counting")
        self.assertEqual(CountingProp.seen["forward"][0], False)

    def test_an_input_without_gradient_has_req_null(self):
        x, label = mx.nd.array([3, 4]), mx.nd.array([1, 1])
        x.attach_grad()
        with autograd.record():
            loss = mx.nd.Custom(x, label, op_type="square_loss")
        loss.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), [2, 3])
        self.assertIsNone(label.grad)

    def test_built_in_ops_are_on_the_tape(self):
        x = mx.nd.array([[1.0, 2.0], [3.0, 4.0]])
        x.attach_grad()
        with autograd.record():
            z = (mx.nd.exp(x) * x + mx.nd.dot(x, x)).sum() / 2
        z.backward()
        v = x.asnumpy()
        ones = np.ones((2, 2))
        np.testing.assert_allclose(x.grad.asnumpy(), (np.exp(v) * (1 + v) + ones @ v.T + v.T @ ones) / 2, rtol=1e-5)

    def test_symbols(self):
        s = mx.sym.Custom(mx.sym.Variable("data"), name="loss", op_type="square_loss")
        self.assertEqual(s.list_arguments(), ["data", "loss_label"], "an input that is not given becomes a variable")
        self.assertEqual(s.infer_shape(data=(2, 3))[0], [(2, 3), (2, 3)])
        bound = s.simple_bind(mx.cpu(), data=(2,))
        bound.forward(is_train=True, data=np.array([3, 5], "f"), loss_label=np.array([1, 1], "f"))
        bound.backward()
        np.testing.assert_array_equal(bound.outputs[0].asnumpy(), [3, 5])
        np.testing.assert_array_equal(bound.grad_dict["data"].asnumpy(), [2, 4])

    def test_a_gradient_that_is_not_there_is_refused(self):
        def declared(numbers, back):
            @mx.operator.register("declares")
            class Declares(mx.operator.CustomOpProp):
                def declare_backward_dependency(self, out_grad, in_data, out_data):
                    return numbers

                def create_operator(self, ctx, in_shapes, in_dtypes):
                    class Op(mx.operator.CustomOp):
                        def forward(self, is_train, req, in_data, out_data, aux):
                            self.assign(out_data[0], req[0], in_data[0])

                        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                            self.assign(in_grad[0], req[0], back(out_grad[0], in_data[0]))

                    return Op()

            x = mx.nd.array([3, 4])
            x.attach_grad()
            with autograd.record():
                y = mx.nd.Custom(x, op_type="declares")
            y.backward()
            return x.grad.asnumpy().tolist()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(declared([1], lambda dy, x: x * 2), [6, 8])
            for numbers, back, part in (
                ([], lambda dy, x: dy, "assign: there is no value, None"),
                ([99, 1], lambda dy, x: x, "declare_backward_dependency names [99]; it is given [0], [1] and [2]"),
                ([-1], lambda dy, x: 1, "names [-1]"),
            ):
                with self.assertRaises(opc.ExecutionError) as raised:
                    declared(numbers, back)
                self.assertIn(part, str(raised.exception))

    def test_assign_broadcasts(self):
        """As numpy.broadcast_to does; "write" and "add" alike."""
        def assigned(shape, value):
            @mx.operator.register("assigns")
            class Assigns(mx.operator.CustomOpProp):
                def create_operator(self, ctx, in_shapes, in_dtypes):
                    class Op(mx.operator.CustomOp):
                        def forward(self, is_train, req, in_data, out_data, aux):
                            self.assign(out_data[0], req[0], value)
                            self.assign(out_data[0], "add", value)

                    return Op()

            return mx.nd.Custom(mx.nd.array(np.zeros(shape, "f")), op_type="assigns").asnumpy()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for shape, value in (((2,), [1]), ((2, 3), [[1, 2, 3]]), ((2, 3), [1, 2, 3]), ((2, 3), [[1], [2]]), ((1, 3), [1, 2, 3]), ((2, 3), 4), ((0, 3), [1, 2, 3])):
                value = np.array(value, "f")
                for given in (value, mx.nd.array(value)) if value.ndim else (4,):
                    np.testing.assert_array_equal(assigned(shape, given), 2 * np.broadcast_to(value, shape))
            for shape, value in (((2, 3), [[1, 2], [3, 4], [5, 6]]), ((3,), [1, 2]), ((3,), [[1, 2, 3]]), ((1, 3), [[1, 2, 3], [4, 5, 6]])):
                with self.assertRaises(opc.ExecutionError) as raised:
                    assigned(shape, mx.nd.array(value))
                self.assertIn(f"assign: a value of shape {np.shape(value)} does not broadcast to the array's shape {shape}", str(raised.exception))

    def test_types_that_numpy_has_not_are_refused_by_name(self):
        for kind in ("bf16", "f8e5m2", "i4"):
            x = opc.Graph().input("x", (3,), kind)
            with self.assertRaises((mx.MXNetError, opc.Error)) as raised:
                mx.sym.Custom(x, op_type="plain")
            self.assertIn(f"an input is {kind}, which numpy has not: cast it", str(raised.exception))
            with self.assertRaises((mx.MXNetError, opc.Error)) as raised:
                mx.sym.Custom(mx.sym.Variable("a"), op_type="plain").simple_bind(type_dict={"a": kind}, a=(2,))
            self.assertIn(f"an input is {kind}, which numpy has not: cast it", str(raised.exception))

    def test_an_input_of_another_type_than_infer_type_wants(self):
        x = mx.nd.array([1, 2])
        with self.assertRaises((mx.MXNetError, opc.Error)) as raised:
            mx.nd.Custom(x, op_type="wants_doubles")
        self.assertIn("infer_type wants data of type float64, found float32", str(raised.exception))
        self.assertEqual(mx.nd.Custom(x.astype("float64"), op_type="wants_doubles").dtype, np.float64)
        bound = mx.sym.Custom(mx.sym.Variable("a"), op_type="wants_doubles").simple_bind(a=(2,))
        self.assertEqual(bound.arg_dict["a"].dtype, np.float64)

    def test_arrays_without_dimensions(self):
        @mx.operator.register("halved")
        class Halved(mx.operator.CustomOpProp):
            def create_operator(self, ctx, in_shapes, in_dtypes):
                class Op(mx.operator.CustomOp):
                    def forward(self, is_train, req, in_data, out_data, aux):
                        self.assign(out_data[0], req[0], in_data[0] * 0.25)
                        self.assign(out_data[0], "add", in_data[0][:] / 4)

                return Op()

        for kind in ("float16", "float32", "float64"):
            y = mx.nd.Custom(mx.nd.array(3, dtype=kind), op_type="halved")
            self.assertEqual((y.shape, y.dtype, y.asscalar()), ((), np.dtype(kind).type, 1.5))

    def test_what_is_wrong_says_so(self):
        class Wrong(mx.operator.CustomOpProp):
            def infer_shape(self, in_shape):
                return in_shape, [in_shape[0], in_shape[0]], []

        class Recomputing(Plain):
            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                in_data[0].attach_grad()
                with mx.autograd.record():
                    y = in_data[0] * 2
                y.backward()
                self.assign(in_grad[0], req[0], in_data[0].grad)

        class RecomputingProp(mx.operator.CustomOpProp):
            def create_operator(self, ctx, in_shapes, in_dtypes):
                return Recomputing()

        def recomputed():
            a = mx.nd.ones((2,))
            a.attach_grad()
            with mx.autograd.record():
                y = mx.nd.Custom(a, op_type="recomputing")
            y.backward()

        mx.operator.register("wrong")(Wrong)
        mx.operator.register("recomputing")(RecomputingProp)
        x = mx.nd.ones((2,))
        for call, part in (
            (lambda: mx.nd.Custom(x, op_type="wrong"), "infer_shape must return 1 entries for its outputs"),
            (recomputed, "backward is called within an operator's own code, where nothing is recorded"),
            (lambda: mx.nd.Custom(x, op_type="absent"), "no operator 'absent' is registered; there are"),
            (lambda: mx.nd.Custom(x, op_type="counting"), "count is missing"),
            (lambda: mx.nd.Custom(x, x, x, op_type="square_loss"), "3 inputs"),
            (lambda: mx.nd.Custom(x, lable=x, op_type="square_loss"), "'lable' is not one of ['data', 'label']"),
            (lambda: mx.nd.Custom(x, x, size=3, op_type="square_loss"), "SquareLossProp(size)"),
            (lambda: mx.nd.Custom(x, mx.nd.ones((3,)), op_type="square_loss"), "wants label of shape (2,), found (3,)"),
            (lambda: mx.nd.Custom(np.ones(2, "f"), op_type="plain"), "input 0 is a ndarray: Custom takes Symbols, or NDArrays"),
            (lambda: mx.nd.Custom(data=np.ones(2, "f"), op_type="plain"), "input 'data' is a ndarray"),
            (lambda: mx.nd.Custom(3, op_type="plain"), "input 0 is a int"),
            (lambda: mx.sym.Custom(x, op_type="plain"), "input 0 is a NDArray"),
            (lambda: mx.sym.Custom(opc.Graph().input("x", (2,)), x, op_type="square_loss"), "input 1 is a NDArray"),
            (lambda: mx.operator.register("n")(int), "subclass of CustomOpProp"),
            (lambda: x.backward(), "not in a computational graph"),
            (lambda: mx.gpu(0), "CPU"),
        ):
            with self.assertRaises((mx.MXNetError, opc.Error)) as raised:
                call()
            self.assertIn(part, str(raised.exception))

    def test_a_name_that_is_registered_again_is_replaced_with_a_warning(self):
        def make(factor):
            class Op(mx.operator.CustomOp):
                def forward(self, is_train, req, in_data, out_data, aux):
                    self.assign(out_data[0], req[0], in_data[0] * factor)

            class Prop(mx.operator.CustomOpProp):
                def create_operator(self, ctx, in_shapes, in_dtypes):
                    return Op()

            return Prop

        x = mx.nd.array([1])
        mx.operator.register("again")(make(2))
        graph = opc.Graph()
        graph.output("y", mx.sym.Custom(graph.input("x", (1,)), op_type="again"))
        before = graph.compile()
        self.assertEqual(mx.nd.Custom(x, op_type="again").asscalar(), 2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mx.operator.register("again")(make(3))
        self.assertIn("mxnet::again", str(caught[0].message))
        self.assertEqual(mx.nd.Custom(x, op_type="again").asscalar(), 3)
        self.assertEqual(before.run(x=np.ones(1, "f"))["y"][0], 2)

    def test_a_built_in_of_the_same_name_is_untouched(self):
        class Prop(mx.operator.CustomOpProp):
            def create_operator(self, ctx, in_shapes, in_dtypes):
                return mx.operator.CustomOp()

        mx.operator.register("tanh")(Prop)
        graph = opc.Graph()
        graph.output("y", opc.ops.tanh(graph.input("x", (1,))))
        self.assertAlmostEqual(float(graph.compile().run(x=np.ones(1, "f"))["y"][0]), np.tanh(1), places=6)


if __name__ == "__main__":
    unittest.main()
