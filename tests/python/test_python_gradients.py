"""Gradients of operators in Python: numeric and symbolic rules, against formulas; files; training beside built-in ops."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

import opc


@opc.op("grad::leaky", sbp=opc.elementwise, like="x")
def leaky(x, *, alpha: float = 0.25):
    return np.where(x > 0, x, x * np.float32(alpha))


@leaky.grad(needs=["x"])
def _(dy, *, x, alpha):
    return np.where(x > 0, dy, dy * np.float32(alpha))


@opc.op("grad::product", shape={"y": ("a[0]", "b[1]")}, sbp="m k, k n -> m n")
def product(a, b):
    return a @ b


@product.grad
def _(dy, *, a, b):
    return {"a": dy @ b.T, "b": a.T @ dy}


@opc.op("grad::widened", like="x", dtype={"y": "f64"})
def widened(x):
    return x.astype("d") * 2


@widened.grad
def _(dy):
    return (dy * 2).astype("f")


@opc.op("grad::exp", like="x")
def exp(x):
    return np.exp(x)


@exp.grad(needs=["y"])
def _(dy, *, y):
    return dy * y


@opc.op("grad::ruleless", like="x")
def ruleless(x):
    return x


@opc.op("grad::total", variadic={"xs": 2}, like="xs")
def total(xs):
    return sum(xs[1:], xs[0])


@total.grad(needs=["xs"])
def _(dy, *, xs):
    return [dy * (i + 1) for i in range(len(xs))]  # not the derivative: which one comes where shows


@opc.op("grad::scaled_by", like="x", no_grad=("m",))
def scaled_by(x, m):
    return x * m


@scaled_by.grad
def _(dy, *, m):
    return dy * m


@opc.op("grad::scaled_by_ops", like="x", no_grad=("m",))
def scaled_by_ops(x, m):
    return x * m


scaled_by_ops.grad_graph(lambda g, fw, dy: {"x": g.op("multiply", x=fw.input("m"), y=dy)})


@opc.op("grad::cosine_times", like="x")
def cosine_times(x, dy):
    return np.cos(x) * dy


@cosine_times.grad(needs=["x", "dy"])
def _(d, *, x, dy):
    return -np.sin(x) * dy * d, np.cos(x) * d


@opc.op("grad::sine", like="x")
def sine(x):
    return np.sin(x)


sine.grad_graph(lambda g, fw, dy: {"x": g.op("grad::cosine_times", x=fw.input("x"), dy=dy)})


@opc.op("grad::stepped", like="x")
def stepped(x, dy):
    return np.where(x > 0, dy, 0).astype("f")


@stepped.grad(needs=["x", "dy"])
def _(d, *, x, dy):
    return {"dy": np.where(x > 0, d, 0).astype("f"), "x": None}


@opc.op("grad::spaced", shape={"y": ("x[0]", "x[1]")})
def spaced(x, *, dx: float = 1.0, dx_shape: int = 3, dx_type: str = "any"):
    return x / np.float32(dx)


@spaced.grad
def _(dy, *, dx, dx_shape, dx_type):
    assert (dx_shape, dx_type) == (3, "any")
    return {"x": dy / np.float32(dx)}


@opc.op("grad::mixed", like="x")
def mixed(x, dx):
    return 2 * x + 3 * dx


@mixed.grad(needs=["dx"])
def _(dy, *, dx):
    return {"dx": 3 * dy, "x": 2 * dy}


@opc.op("grad::mixed_without", like="x")
def mixed_without(x, dx):
    return 2 * x + 3 * dx


@mixed_without.grad
def _(dy):
    return {"x": 2 * dy, "dx": 3 * dy}


@opc.op("grad::picked", shape={"y": ()}, no_grad=("labels",))
def picked(x, labels):
    return x[np.arange(len(labels)), labels].sum()


@picked.grad(needs=["x", "labels"])
def _(dy, *, x, labels):
    dx = np.zeros_like(x)
    dx[np.arange(len(labels)), labels] = dy
    return dx


@opc.op("grad::sum_all", shape={"y": ()})
def sum_all(x):
    return x.sum()


@sum_all.grad(needs=[])
def _(dy):
    return None  # zeros: the shape of x is known although x is not needed


@opc.op("grad::split", outputs=("low", "mask"), like="x", non_differentiable=("mask",))
def split(x):
    return np.minimum(x, 0), (x < 0).astype(np.float32)


@split.grad(needs=["mask"])
def _(dlow, *, mask):
    return dlow * mask


@opc.op("grad::cube", sbp=opc.elementwise, like="x")
def cube(x):
    return x * x * x


@cube.grad_graph
def _(g, fw, dy):
    x = fw.input("x")
    slope = g.op("multiply", x=g.op("multiply", x=x, y=x), y=dy)
    return {"x": g.op("add_n", **{"in": [slope, slope, slope]})}


@opc.op("grad::halves", outputs=("low", "high"), shape={"low": ("x[0]", "1"), "high": ("x[0]", "x[1] - 1")})
def halves(x):
    return x[:, :1], x[:, 1:]


handed = []


@halves.grad(needs=[])
def _(dlow, dhigh):
    handed.append((dlow.copy(), dhigh.copy()))
    return np.concatenate([dlow, dhigh], axis=1)


X = np.array([[-2, -1, 0.5], [1, 2, 3]], "f")


def gradients(build, order=1, **arrays):
    """The gradients of the sum of what `build` makes of the inputs, by the inputs' names."""
    g = opc.Graph()
    tensors = {n: g.input(n, a.shape, str(a.dtype)) for n, a in arrays.items()}
    g.output("loss", opc.ops.reduce_sum(build(**tensors), axis=list(range(build_rank(build, arrays)))))
    wanted = [n for n, a in arrays.items() if a.dtype == np.float32]
    return g.grad("loss", wanted, order=order).compile().run(**arrays)


def build_rank(build, arrays):
    g = opc.Graph()
    return build(**{n: g.input(n, a.shape, str(a.dtype)) for n, a in arrays.items()}).ndim


class Rules(unittest.TestCase):
    def test_numeric(self):
        np.testing.assert_array_equal(gradients(lambda x: leaky(x, alpha=0.5), x=X)["x.grad"], np.where(X > 0, 1, 0.5))

    def test_by_names_of_inputs(self):
        a, b = X, np.arange(12, dtype="f").reshape(3, 4)
        made = gradients(lambda a, b: product(a, b), a=a, b=b)
        ones = np.ones((2, 4), "f")
        np.testing.assert_allclose(made["a.grad"], ones @ b.T, rtol=1e-6)
        np.testing.assert_allclose(made["b.grad"], a.T @ ones, rtol=1e-6)

    def test_of_the_output_alone(self):
        np.testing.assert_allclose(gradients(lambda x: exp(x), x=X)["x.grad"], np.exp(X), rtol=1e-6)

    def test_of_an_output_of_another_type(self):
        """The gradient has the input's type, also where nothing but the output's is at hand."""
        g = opc.Graph()
        g.output("y", widened(g.input("x", (2,))))
        found = g.grad("y", ["x"])
        self.assertEqual(found.outputs["x.grad"].dtype, "f32")
        np.testing.assert_array_equal(found.compile().run(x=np.ones(2, "f"))["x.grad"], [2, 2])

    def test_variadic(self):
        made = gradients(lambda a, b, c: total([a, b, c]), a=X, b=X, c=X)
        for k, name in enumerate("abc"):
            np.testing.assert_array_equal(made[name + ".grad"], np.full_like(X, k + 1))

    def test_inputs_without_gradient(self):
        labels = np.array([2, 0])
        made = gradients(lambda x, labels: picked(x, labels), x=X, labels=labels)
        want = np.zeros_like(X)
        want[[0, 1], labels] = 1
        np.testing.assert_array_equal(made["x.grad"], want)

    def test_none_is_zeros(self):
        np.testing.assert_array_equal(gradients(lambda x: sum_all(x), x=X)["x.grad"], np.zeros_like(X))

    def test_outputs_without_gradient(self):
        np.testing.assert_array_equal(gradients(lambda x: split(x)[0], x=X)["x.grad"], (X < 0).astype("f"))

    def test_an_output_that_nobody_uses_has_zeros_for_its_gradient(self):
        made = gradients(lambda x: halves(x)[0], x=X)
        np.testing.assert_array_equal(made["x.grad"], [[1, 0, 0], [1, 0, 0]])
        dlow, dhigh = handed.pop()
        np.testing.assert_array_equal(dlow, np.ones((2, 1), "f"))
        np.testing.assert_array_equal(dhigh, np.zeros((2, 2), "f"))

    def test_symbolic_and_second_order(self):
        made = gradients(lambda x: cube(x), order=2, x=X)
        np.testing.assert_allclose(made["x.grad"], 3 * X * X, rtol=1e-6)
        np.testing.assert_allclose(made["x.grad.grad"], 6 * X, rtol=1e-6)

    def test_without_a_rule_python_is_told_how_to_give_one(self):
        with self.assertRaises(opc.GraphError) as caught:
            gradients(lambda x: ruleless(x), x=X)
        self.assertEqual(caught.exception.code, "OPC0501")
        said = caught.exception.diagnostics[0]
        self.assertIn("op type 'grad::ruleless' has no gradient rule", said["message"])
        self.assertIn("@NAME.grad", said["help"])
        self.assertIn("NAME.no_gradient(", said["help"])
        self.assertNotIn("REGISTER_USER_OP_GRAD", said["help"])

    def test_a_rule_that_leaves_an_input_out(self):
        @opc.op("grad::half", like="a")
        def half(a, b):
            return a * b

        half.grad_graph(lambda g, fw, dy: {"a": g.op("multiply", x=fw.input("b"), y=dy)})
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made = gradients(lambda a, b: half(a, b), a=X, b=X + 1)
        np.testing.assert_array_equal(made["a.grad"], X + 1)
        np.testing.assert_array_equal(made["b.grad"], np.zeros_like(X))
        said = [str(w.message) for w in seen if "OPC0510" in str(w.message)]
        self.assertEqual(len(said), 1)
        self.assertIn("binds no gradient to input 'b'", said[0])
        self.assertIn("no_grad= of opc.op", said[0])

    def test_floats_without_gradient_say_nothing(self):
        """no_grad= is what the warning advises: of a float, for both kinds of rules."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for op in (scaled_by, scaled_by_ops):
                g = opc.Graph()
                x, m = g.input("x", X.shape), g.input("m", X.shape)
                g.output("loss", (op(x, m) + op(m * x, m * x)).sum())
                made = g.grad("loss", "x").compile().run(x=X, m=X + 1)
                np.testing.assert_allclose(made["x.grad"], X + 1 + (X + 1) * (X + 1) * X, rtol=1e-6)
        with self.assertRaises(opc.GraphError) as caught:
            gradients(lambda x, m: scaled_by(x, m), x=X, m=X)
        self.assertEqual(caught.exception.code, "OPC0505")

    def test_a_rule_of_operators_that_no_graph_has_used(self):
        made = gradients(lambda x: sine(x), order=2, x=X)
        np.testing.assert_allclose(made["x.grad"], np.cos(X), rtol=1e-6)
        np.testing.assert_allclose(made["x.grad.grad"], -np.sin(X), rtol=1e-6)

    def test_arguments_that_are_called_as_gradients(self):
        """`dy` beside an output y, and an attribute or an input `dx` beside an input x."""
        D, E = X + 1, X + 2
        made = gradients(lambda x, dy: stepped(x, dy), x=X, dy=D)
        np.testing.assert_array_equal(made["dy.grad"], np.where(X > 0, 1, 0))
        np.testing.assert_array_equal(made["x.grad"], 0 * X)
        made = gradients(lambda x: spaced(x, dx=0.25), x=X)
        np.testing.assert_array_equal(made["x.grad"], np.full_like(X, 4))
        for op in (mixed, mixed_without):
            made = gradients(lambda x, dx: op(x, dx), x=X, dx=E)
            np.testing.assert_array_equal(made["x.grad"], np.full_like(X, 2))
            np.testing.assert_array_equal(made["dx.grad"], np.full_like(X, 3))

    def test_rules_that_cannot_be_called_are_refused_when_they_are_given(self):
        @opc.op("grad::called", like="x", outputs=("y", "mask"), non_differentiable=("mask",), optional=("b",))
        def called(x, b, *, k: float = 1.0):
            return x, x

        def of_two(dy, dmask):
            return dy

        here = re.escape(__file__) + rf":{of_two.__code__.co_firstlineno}, in of_two\)"
        for rule, says in (
            (of_two, rf"grad::called: the gradient rule of_two\(dy, dmask\) cannot be called: missing a required argument: 'dmask' \({here}"),
            (of_two, "it gets a gradient for each output, by position: dy; mask, non_differentiable, has none"),
            (lambda: 0, "too many positional arguments"),
            (lambda dy, x: dy, "missing a required argument: 'x'.* what it needs of the op, and attributes, stand behind a '\\*'"),
            (lambda dy, *, z: dy, "missing a required argument: 'z'"),
        ):
            with self.subTest(says=says), self.assertRaisesRegex(TypeError, says):
                called.grad(rule)
        for rule in (lambda dy: dy, lambda *dys: dys[0], lambda dy, *, x, k: dy * k, lambda dy, *, mask, rng: dy, lambda dy, **more: dy):
            called.grad(rule)

    def test_wrong_rules_are_refused_when_they_are_given(self):
        for wrong, part in (
            (lambda: leaky.grad(needs=["q"])(lambda dy: dy), "needs 'q'"),
            (lambda: cube.grad_graph(lambda g, fw, dy: {"q": dy}), "no input"),
            (lambda: cube.grad_graph(lambda g, fw, dy: {"x": g.op("no_such_op", x=dy)}), "no op 'no_such_op'"),
            (lambda: cube.grad_graph(lambda g, fw, dy: {"x": fw.input("z")}), "no input 'z'"),
        ):
            with self.assertRaises(ValueError) as caught:
                wrong()
            self.assertIn(part, str(caught.exception))
        with self.assertRaisesRegex(TypeError, "no values"):
            cube.grad_graph(lambda g, fw, dy: {"x": dy if fw.input("x") else None})


def trained(activation, loss):
    """Weights of a small network after twenty steps."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((16, 4), dtype=np.float32)
    t = (x @ np.array([[1], [-2], [0.5], [3]], "f")).astype("f")
    g = opc.Graph()
    h = opc.ops.matmul(g.input("x", (16, 4)), g.variable("w1", (4, 8), init=0.1))
    h = activation(h)
    y = opc.ops.matmul(h, g.variable("w2", (8, 1), init=0.2))
    g.output("loss", loss(y, g.input("t", (16, 1))))
    step = g.grad("loss")
    program = step.compile()
    session = program.session()
    for _ in range(20):
        made = session.run(x=x, t=t)
        for name in ("w1", "w2"):
            session.variables[name] = session.variables[name] - np.float32(0.01) * made[name + ".grad"]
    return session.variables["w1"], session.variables["w2"]


@opc.op("grad::relu", sbp=opc.elementwise, like="x")
def relu(x):
    return np.maximum(x, np.float32(0))


@relu.grad(needs=["y"])
def _(dy, *, y):
    return np.where(y > 0, dy, np.float32(0))


@opc.op("grad::squares", shape={"y": ()})
def squares(a, b):
    return np.float32(((a - b) ** 2).sum())


@squares.grad
def _(dy, *, a, b):
    d = np.float32(2) * (a - b) * dy
    return d, -d


def built_in_squares(a, b):
    d = opc.ops.broadcast_sub(a, b)
    return opc.ops.reduce_sum(opc.ops.multiply(d, d), axis=[0, 1])


class Training(unittest.TestCase):
    def test_same_weights_as_built_in_operators(self):
        mine, theirs = trained(relu, squares), trained(opc.ops.relu, built_in_squares)
        for a, b in zip(mine, theirs):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        self.assertGreater(float(np.abs(mine[0] - 0.1).max()), 0.01, "it has moved")


class Files(unittest.TestCase):
    def test_saved_loaded_and_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            g = opc.Graph()
            g.output("y", leaky(g.input("x", (2, 3)), alpha=0.5))
            g.save(path)
            with open(os.path.join(folder, "g.ops.pbtxt")) as file:
                self.assertIn('name: "grad::leaky_grad"', file.read())
            np.testing.assert_array_equal(opc.load(path).compile().run(x=X)["y"], np.where(X > 0, X, X * np.float32(0.5)))

    def test_where_the_code_is_not_a_graph_is_read_and_not_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            g = opc.Graph()
            g.output("y", cube(leaky(g.input("x", (2, 3)))))
            g.save(path)
            done = subprocess.run(
                [sys.executable, "-c", "import sys, opc; g = opc.load(sys.argv[1]); print(g.grad('y', ['x']).text()); g.compile().run(x=[[0.0] * 3] * 2)", path],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True)  # fmt: skip
            self.assertIn("grad::leaky_grad", done.stdout, done.stderr)
            self.assertIn("OPC0921", done.stderr)

    def test_a_graph_without_python_operators_has_no_manifest(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            open(os.path.join(folder, "g.ops.pbtxt"), "w").close()
            g = opc.Graph()
            g.output("y", opc.ops.relu(g.input("x", (2, 3))))
            g.save(path)
            self.assertEqual(os.listdir(folder), ["g.pbtxt"])


if __name__ == "__main__":
    unittest.main()
