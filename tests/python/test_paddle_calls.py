"""paddle's style: what a PyLayer's context offers, the arguments that it gets, and programs without outputs."""
# SPDX-License-Identifier: Apache-2.0
import operator
import sys
import unittest

import numpy as np

import opc
from style_programs import path_of

sys.path.append(path_of("--compat-path"))
import paddle  # noqa: E402
from paddle import static  # noqa: E402
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


class Positive(PyLayer):
    """Its output's size depends on values."""

    @staticmethod
    def forward(ctx, x):
        chosen = x.numpy() > 0
        ctx.chosen = chosen
        return paddle.to_tensor(x.numpy()[chosen])

    @staticmethod
    def backward(ctx, dy):
        dx = np.zeros(ctx.chosen.shape, "f")
        dx[ctx.chosen] = dy.numpy()
        return paddle.to_tensor(dx)


class Wrong(PyLayer):
    @staticmethod
    def forward(ctx, x, saves):
        ctx.saves = saves
        return x * 2

    @staticmethod
    def backward(ctx, dy, more=None, *, most=None):
        if ctx.saves:
            ctx.save_for_backward(dy)
        return dy


class Greedy(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, dy, dz):
        return dy


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

    def test_a_size_that_depends_on_values_is_that_of_each_call(self):
        for values in ([1.0, 2.0], [1.0, -2.0], [-1.0, -2.0], [3.0, 4.0], [-3.0, 4.0]):
            x = paddle.to_tensor(values, stop_gradient=False)
            y = Positive.apply(x)
            np.testing.assert_array_equal(y.numpy(), [v for v in values if v > 0])
            (y * 3).sum().backward()
            np.testing.assert_array_equal(x.grad.numpy(), [3 * (v > 0) for v in values])

    def test_what_backward_gets_and_may_do(self):
        x = paddle.to_tensor([1.0], stop_gradient=False)
        Wrong.apply(x, False).backward()
        self.assertEqual(x.grad.item(), 1)
        for wrong, says in (
            (lambda: Wrong.apply(x, True), "save_for_backward is called in forward only"),
            (lambda: Greedy.apply(x), "it gets ctx and the gradient of each Tensor that forward returns: 2 arguments"),
        ):
            with self.assertRaises(opc.ExecutionError) as raised:
                wrong().backward()
            self.assertIn(says, str(raised.exception))
            self.assertNotIn("attributes by keyword", str(raised.exception))

    def test_functions_want_tensors(self):
        for value, says in ((np.ones(2), "paddle.tanh takes a Tensor, found ndarray"), (2.0, "paddle.tanh takes a Tensor, found float")):
            with self.assertRaisesRegex(TypeError, says):
                paddle.tanh(value)

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


class Kept(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_not_inplace(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensor()
        return dy * (x > 1).astype("float32")


class Numbers(unittest.TestCase):
    def test_numbers_that_look_alike(self):
        x, n = paddle.to_tensor([1.0]), paddle.to_tensor([0])
        self.assertEqual([(x / k).item() for k in (0.0, -0.0)], [np.inf, -np.inf])
        self.assertEqual([(n + k).item() for k in (2**53, 2**53 + 1)], [2**53, 2**53 + 1])

    def test_whole_numbers_are_divided_as_floats(self):
        n, k = paddle.to_tensor([3, 4]), paddle.to_tensor([2, 3], dtype="int32")
        for got, expected in ((n / 2, [1.5, 2]), (n / k, [1.5, 4 / 3]), (6 / n, [2, 1.5]), (n * 0.5, [1.5, 2]), (n - 0.5, [2.5, 3.5])):
            self.assertEqual(got.dtype, "float32")
            np.testing.assert_allclose(got.numpy(), np.array(expected, "f"))
        self.assertEqual(((n * 2).dtype, (n + 1).dtype), ("int64", "int64"))

    def test_comparisons(self):
        """Elementwise, without a gradient: == has no answer of its own for two objects."""
        x, y = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False), paddle.to_tensor([3.0, 2.0, 1.0])
        a, b = x.numpy(), y.numpy()
        for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
            for got, expected in ((compare(x, y), compare(a, b)), (compare(x, 2), compare(a, 2)), (compare(2.0, x), compare(2, a)), (compare(x, b), compare(a, b))):
                self.assertEqual((got.dtype, got.numpy().tolist(), got.stop_gradient), ("bool", expected.tolist(), True))
        self.assertFalse(x == None)  # noqa: E711
        self.assertEqual(len({x, y}), 2)
        Kept.apply(x).sum().backward()
        self.assertEqual(x.grad.numpy().tolist(), [0, 1, 1])

    def test_a_tensor_of_a_graph_is_no_operand(self):
        t, x = opc.Graph().input("x", (1,)), paddle.to_tensor([1.0])
        for wrong in (lambda: x + t, lambda: t + x, lambda: x < t, lambda: paddle.concat([x, t])):
            with self.assertRaisesRegex(TypeError, "a tensor with values beside tensors of an opc.Graph"):
                wrong()


class Programs(unittest.TestCase):
    def setUp(self):
        paddle.enable_static()
        self.addCleanup(paddle.disable_static)
        self.main, self.exe = static.Program(), static.Executor(paddle.CPUPlace())

    def run_(self, fetched):
        """With a = [1, 1, 1]: the first element of each."""
        return [float(v.reshape(-1)[0]) for v in self.exe.run(self.main, feed={"a": np.ones(3, "f")}, fetch_list=fetched)]

    def test_what_is_fed_has_the_variables_type(self):
        """As in Paddle, whose numbers and lists become the type; here only where they are numbers of it."""
        with static.program_guard(self.main):
            a, n = static.data("a", [2]), static.data("n", [], "int64")
        for feed, error, says in (
            ({"a": np.array([0.1, 1e300])}, ValueError, "a is float32, and fed is float64: nothing is converted silently; value.astype('float32') does it"),
            ({"a": np.array([1, 2**40 + 1])}, ValueError, "a is float32, and fed is int64"),
            ({"a": paddle.to_tensor(np.array([1, 2]))}, ValueError, "a is float32, and fed is int64"),
            ({"a": [1, 1e300]}, TypeError, "what is fed for a is f32, and 1e+300 is no number of that type"),
            ({"n": 2.5}, TypeError, "what is fed for n is i64, and 2.5 is no number of that type"),
        ):
            with self.subTest(feed=feed), self.assertRaises(error) as caught:
                self.exe.run(self.main, feed=feed, fetch_list=[a if "a" in feed else n])
            self.assertIn(says, str(caught.exception))
        got = self.exe.run(self.main, feed={"a": [1, 0.5], "n": 2**40 + 1}, fetch_list=[a, n])
        self.assertEqual([(v.tolist(), v.dtype.name) for v in got], [([1, 0.5], "float32"), (2**40 + 1, "int64")])

    def test_a_function_that_writes_what_is_fed(self):
        with static.program_guard(self.main):
            a = static.data("a", [3])
            before = a * 3
            static.py_func(lambda x: x + 1, a, a)
            after = a * 10
        for fetched, expected in (([after, a], [20, 2]), ([a], [2]), (["a", before], [2, 3])):
            self.assertEqual(self.run_(fetched), expected)
        got = self.main.graph([after, a]).compile().run(a=np.ones(3, "f"))
        np.testing.assert_array_equal(got["a@OUT"], [2, 2, 2])
        np.testing.assert_array_equal(got[after.name], [20, 20, 20])

    def test_a_function_that_writes_a_parameter(self):
        with static.program_guard(self.main):
            a, w = static.data("a", [3]), static.create_parameter([3], name="w", default_initializer=5.0)
            before = w * a
            static.py_func(lambda x, y: x + y, [a, w], w)
            after = w * 2
        self.assertEqual(self.run_([before, after, "w"]), [5, 12, 6])
        self.assertEqual(self.run_([after]), [14])  # parameters stay written, fetched or not
        self.assertEqual(self.run_([]), [])
        self.assertEqual(self.run_([w, before]), [9, 8])

    def test_gradients_have_paddles_names_and_no_gradients(self):
        with static.program_guard(self.main):
            a, w = static.data("a", [3]), static.create_parameter([3], name="w", default_initializer=5.0)
            loss = (a * w * w).sum()
            ((_, first),) = static.append_backward(loss)
            (second,) = static.gradients(loss, w)
            self.assertEqual(first.name, "w@GRAD")
            self.assertNotEqual(second.name, first.name)
            self.assertEqual((self.run_(["w@GRAD"]), self.run_([second])), ([10], [10]))
            for wrong in (lambda: static.gradients(first, a), lambda: first * 2, lambda: static.py_func(np.abs, first, a)):
                with self.assertRaisesRegex(NotImplementedError, "w@GRAD"):
                    wrong()

    def test_variables_are_declared_in_full(self):
        block = self.main.current_block()
        self.assertEqual(block.create_var(name="scalar", dtype="float32", shape=()).shape, ())
        for more, absent in (({}, "dtype and shape"), ({"shape": [3]}, "dtype"), ({"dtype": "float32"}, "shape")):
            with self.assertRaisesRegex(ValueError, f"create_var of 'o': give {absent}:"):
                block.create_var(name="o", **more)

    def test_functions_get_arrays_in_their_order(self):
        backward_gets = "it gets each x, each out and the gradient of each out"
        for func, backward, says in (
            (lambda x: paddle.tanh(x), None, "must not call paddle's functions: use numpy's"),
            (lambda x, y: x, None, "it gets one tensor for each input: 1 argument"),
            (np.tanh, lambda y, dy: dy * (1 - y * y), backward_gets),
        ):
            self.main = static.Program()
            with static.program_guard(self.main):
                a = static.data("a", [3])
                out = self.main.current_block().create_var(name="out", dtype="float32", shape=[3])
                static.py_func(func, a, out, backward)
                fetched = static.gradients(out, a) if backward else [out]
            with self.assertRaises(opc.ExecutionError) as raised:
                self.run_(fetched)
            self.assertIn(says, str(raised.exception))

    def test_results_that_do_not_fit_name_the_variable_and_the_place(self):
        def soft(x):
            return np.zeros((3,), "f") if x[0] > 1 else np.zeros((2,), "d") if x[0] > 0 else None

        def backward(x, y, dy):
            return dy[:1]

        here = rf" \(.*test_paddle_calls.py:{soft.__code__.co_firstlineno}, in soft\)"
        with static.program_guard(self.main):
            x = static.data("x", [2])
            probs = self.main.current_block().create_var(name="probs", dtype="float32", shape=[2])
            static.py_func(soft, x, probs)
        for first, says in ((2, r"soft has given the shape \[3\] for probs, expected \[2\]"), (1, "soft has given float64 for probs, expected float32"), (0, "soft has given 0 arrays, expected 1: probs")):
            with self.subTest(says=says), self.assertRaisesRegex(opc.ExecutionError, says + here) as caught:
                self.exe.run(self.main, feed={"x": np.array([first, 0], "f")}, fetch_list=[probs])
            self.assertEqual(caught.exception.code, "OPC0623")
            self.assertIn("help: what the function returns has the count, shapes and types of `out`\n", str(caught.exception))
        g = opc.Graph()
        t = g.input("x", (2,))
        g.output("y", static.py_func(lambda x: x * 2, [t], opc.Spec((2,), "float32"), backward).sum())
        with self.assertRaisesRegex(opc.ExecutionError, r"backward has given the shape \[1\] for the gradient of input 0, expected \[2\] \(.*, in backward\)"):
            g.grad("y", [t]).compile().run(x=np.ones(2, "f"))

    def test_none_from_a_backward_function_is_zeros(self):
        for backward in (lambda x, z, y, dy: None, lambda x, z, y, dy: [None, None], lambda x, z, y, dy: (None, dy)):
            g = opc.Graph()
            x, z = g.input("x", (2,)), g.input("z", (2,))
            g.output("y", static.py_func(lambda x, z: x * 2 + z, [x, z], opc.Spec((2,), "float32"), backward).sum())
            found = g.grad("y", [x, z]).compile().run(x=np.ones(2, "f"), z=np.ones(2, "f"))
            np.testing.assert_array_equal(found["x.grad"], [0, 0])
            np.testing.assert_array_equal(found["z.grad"], [1, 1] if isinstance(backward(1, 1, 1, 1), tuple) else [0, 0])
        g = opc.Graph()
        x = g.input("x", (2,))
        g.output("y", static.py_func(lambda x: x * 2, [x], opc.Spec((2,), "float32"), lambda x, y, dy: []).sum())  # a list of too few is none
        with self.assertRaisesRegex(opc.ExecutionError, "must return 1 gradients.*found 0"):
            g.grad("y", [x]).compile().run(x=np.ones(2, "f"))

    def test_what_is_noted_of_kernels_has_an_end(self):
        from opc_styles import classes

        for i in range(classes.trace.maxlen + 10):
            with classes.kernel_of(f"paddle::op{i}"):
                pass
        self.assertEqual((len(classes.trace), classes.trace[-1]), (4096, f"paddle::op{i}"))

    def test_a_program_that_runs_for_what_its_function_does(self):
        seen = []
        with static.program_guard(self.main):
            x = static.data("x", [None, 2])
            static.py_func(lambda a: seen.append(a.tolist()), x, None)
        self.exe.run(static.default_startup_program())
        for rows in ([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]):
            self.assertEqual(self.exe.run(self.main, feed={"x": np.array(rows, "f")}), [])
            self.assertEqual(seen.pop(), rows)
            self.assertEqual(seen, [])
        with self.assertRaisesRegex(ValueError, "no op of the program can run: what is fed says the sizes of x"):
            self.exe.run(self.main)
        self.main = static.Program()
        with static.program_guard(self.main):
            made = self.main.current_block().create_var(name="made", dtype="float32", shape=[1])
            static.py_func(lambda: (seen.append(1), np.ones(1, "f"))[1], None, made)
        self.assertEqual((self.exe.run(self.main), seen), ([], [1]))

    def test_one_variable_is_fetched_alone(self):
        with static.program_guard(self.main):
            a = static.data("a", [3])
            total = (a == 1.0).astype("float32") + a
            count = len(self.main.ops)
        for fetched in (total, total.name, [total], (total,)):
            self.assertEqual(self.run_(fetched), [2])
            self.assertEqual(len(self.main.ops), count)  # nothing was added
        self.assertEqual(self.exe.run(self.main, feed={"a": np.ones(3, "f")}, fetch_list=None), [])
        with self.assertRaisesRegex(TypeError, "cannot be iterated over while the program is built"):
            list(a)


if __name__ == "__main__":
    unittest.main()
