"""Operators on tensors and the generated functions, against numpy."""
# SPDX-License-Identifier: Apache-2.0
import inspect
import os
import unittest

import numpy as np

import opc
from opc import _core, _stubs

A = (np.arange(24, dtype="f").reshape(2, 3, 4) - 11) / 4
B = (np.arange(12, dtype="f").reshape(3, 4) + 1) / 2


def both(compute):
    """What `compute` gives on tensors of a graph, and on arrays."""
    g = opc.Graph()
    g.output("out", compute(g.input("a", A.shape), g.input("b", B.shape)))
    return g.compile().run(a=A, b=B)["out"], compute(A, B)


class Operators(unittest.TestCase):
    def same(self, compute):
        found, expected = both(compute)
        self.assertEqual(found.shape, np.shape(expected))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)

    def test_arithmetic_broadcasts(self):
        for compute in (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: b ** b, lambda a, b: -a):
            self.same(compute)

    def test_numbers_on_both_sides(self):
        for compute in (lambda a, b: a + 2, lambda a, b: 2.5 + a, lambda a, b: a - 0.5, lambda a, b: 3 - a, lambda a, b: 2 * a,
                        lambda a, b: a / 4, lambda a, b: 1 / b, lambda a, b: b ** 2, lambda a, b: b ** 0.5):
            self.same(compute)

    def test_quotients_and_remainders_round_down(self):
        for compute in (lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a // 2, lambda a, b: a % 0.75, lambda a, b: a % -2, lambda a, b: 7 // b, lambda a, b: 7.5 % b,
                        lambda a, b: divmod(a, b)[1], lambda a, b: divmod(a, 2)[0], lambda a, b: abs(a), lambda a, b: +a, lambda a, b: 2**a, lambda a, b: 0.5**b):  # fmt: skip
            self.same(compute)

    def test_operators_of_integers(self):
        x, y = np.array([[7, -7, 5], [-8, 6, 1]], "i4"), np.array([3, -3, 2], "i4")
        u = np.array([1, 2, 3], "u1")
        for compute in (lambda x, y, u: x // y, lambda x, y, u: x % y, lambda x, y, u: y // x, lambda x, y, u: x // -2, lambda x, y, u: x % -3, lambda x, y, u: 100 // x, lambda x, y, u: 100 % x,
                        lambda x, y, u: 2**u, lambda x, y, u: u**2, lambda x, y, u: abs(x), lambda x, y, u: ~x, lambda x, y, u: x & y, lambda x, y, u: x | 8, lambda x, y, u: 6 ^ x,
                        lambda x, y, u: u & u[0:1], lambda x, y, u: ~u, lambda x, y, u: (x < y) & (x > -8), lambda x, y, u: ~(x < y), lambda x, y, u: (x < 0) | (y > 2),
                        lambda x, y, u: (x < 0) ^ True, lambda x, y, u: True & (x < 0)):  # fmt: skip
            g = opc.Graph()
            made = compute(g.input("x", x.shape, "i32"), g.input("y", y.shape, "i32"), g.input("u", u.shape, "u8"))
            g.output("out", made)
            expected = compute(x, y, u)
            found = g.compile().run(x=x, y=y, u=u)["out"]
            self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
            np.testing.assert_array_equal(found, expected)

    def test_operands_that_do_not_fit(self):
        g = opc.Graph()
        f, i, b = g.input("f", (2, 3)), g.input("i", (3,), "i32"), g.input("b", (3,), "bool")
        for compute, part in ((lambda: ~f, "~ is for integers and bool"), (lambda: f & f, "& is for integers and bool"), (lambda: i | f, "is neither"), (lambda: i // 1.5, "nothing is converted"),
                              (lambda: 2.5 % i, "nothing is converted"), (lambda: i & 2**40, "nothing is converted"), (lambda: b & 1, "unsupported operand"), (lambda: i ^ True, "unsupported operand"),
                              (lambda: f % "a", "unsupported operand"), (lambda: f // np.ones(3, "f"), "does not support"), (lambda: divmod(f, None), "unsupported operand"), (lambda: "a" // f, "unsupported operand"),
                              (lambda: len(g.input("zero", ())), "no length"), (lambda: float(f), "Tensor"), (lambda: 3 in f, "iterable"), (lambda: round(f), "Tensor")):  # fmt: skip
            with self.assertRaises(TypeError) as caught:
                compute()
            self.assertIn(part, str(caught.exception))
        self.assertEqual((len(f), len(i)), (2, 3))
        with self.assertRaises(opc.GraphError):
            f // g.input("four", (4,))

    def test_numbers_over_tensors_are_divided_once(self):
        small = np.array([1e-40, -1e-40, 3e-39, 1e-45, 7.0, 0.0], "f")
        for x in (small, np.linspace(0.01, 1000, 4097).astype("f"), np.array([1e-310, 5e-324, 3.0]), np.array([6e-8, 1e-4, 3], "e")):
            for number in (0.0, 1e-10, 1.0, 0.1, 3, 7e-3):
                for codegen in (True, False):
                    g = opc.Graph()
                    g.output("out", number / g.input("x", x.shape, x.dtype))
                    with np.errstate(all="ignore"):
                        expected = x.dtype.type(number) / x
                    np.testing.assert_array_equal(g.compile().session(codegen=codegen).run(x=x)["out"], expected)
        i = np.array([3, -7, 1, 100], "i4")
        g = opc.Graph()
        g.output("out", 50 / g.input("i", i.shape, "i32"))
        np.testing.assert_array_equal(g.compile().run(i=i)["out"], np.trunc(50 / i))

    def test_the_gradient_of_a_number_over_a_tensor(self):
        x = np.array([0.3, -2.0, 7.0])
        g = opc.Graph()
        t = g.input("x", x.shape, "f64")
        g.output("loss", (0.1 / t).sum())
        np.testing.assert_allclose(g.grad("loss", [t]).compile().run(x=x)["x.grad"], -0.1 / x**2, rtol=1e-15)

    def test_numbers_beyond_i64(self):
        u = np.array([2**64 - 1, 2**63, 2**63 - 1, 5], "u8")
        for number in (2**63, 2**63 + 12345, 2**64 - 1):
            n = np.uint64(number)
            for compute in (lambda u, n: u + n, lambda u, n: u - n, lambda u, n: n - u, lambda u, n: u * n, lambda u, n: u // n, lambda u, n: u % n, lambda u, n: n // u, lambda u, n: n % u,
                            lambda u, n: u & n, lambda u, n: u | n, lambda u, n: u ^ n, lambda u, n: u < n, lambda u, n: u <= n, lambda u, n: u > n, lambda u, n: u >= n):  # fmt: skip
                g = opc.Graph()
                g.output("out", compute(g.input("u", u.shape, "u64"), number))
                for codegen in (True, False):
                    np.testing.assert_array_equal(g.compile().session(codegen=codegen).run(u=u)["out"], compute(u, n))
            g = opc.Graph()
            x = g.input("u", u.shape, "u64")
            g.output("quotient", x / number)
            g.output("reverse", number / x)
            found = g.compile().run(u=u)
            np.testing.assert_array_equal(found["quotient"], u // n)
            np.testing.assert_array_equal(found["reverse"], n // u)
        g = opc.Graph()
        x = np.array([1.5, -2e30], "f")
        g.output("sum", g.input("x", x.shape) + 2**70)
        np.testing.assert_array_equal(g.compile().run(x=x)["sum"], x + np.float32(2**70))

    def test_bools_beside_bools(self):
        b = np.array([True, False])
        for compute in (lambda b: b > True, lambda b: b >= False, lambda b: True > b, lambda b: b <= np.False_, lambda b: b & np.True_):
            g = opc.Graph()
            g.output("out", compute(g.input("b", b.shape, "bool")))
            np.testing.assert_array_equal(g.compile().run(b=b)["out"], compute(b))
        x = opc.Graph().input("b", (2,), "bool")
        for compute in (lambda b: b > 0.5, lambda b: b < 1, lambda b: b + 1, lambda b: b * 1.0, lambda b: 1 - b, lambda b: b // 1, lambda b: b + True):
            with self.assertRaises(TypeError):
                compute(x)

    def test_comparisons(self):
        for compute in (lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= 1, lambda a, b: a < 0.5):
            found, expected = both(compute)
            np.testing.assert_array_equal(found.astype(bool), expected)

    def test_products_and_reductions(self):
        for compute in (lambda a, b: a @ b.T, lambda a, b: a.sum(axis=1), lambda a, b: a.mean(), lambda a, b: a.sum(axis=(0, 2), keepdims=True),
                        lambda a, b: a.mean(axis=-1), lambda a, b: a.transpose(2, 0, 1), lambda a, b: a.reshape(6, -1), lambda a, b: a.reshape((4, 6))):
            self.same(compute)

    def test_indices(self):
        for index in (0, -1, slice(1, 2), (slice(None), 1), (Ellipsis, 2), (slice(None), None, 0), (0, slice(None, None, 2)), (Ellipsis, slice(None, None, -1)),
                      (slice(None), slice(2, 0, -1)), None, (1, 2, 3), slice(None), (slice(-9, 9), slice(1, -1))):
            with self.subTest(index=index):
                self.same(lambda a, b, i=index: a[i])

    def test_numbers_that_do_not_fit(self):
        """numpy would convert the tensor, or wrap the number around; here that is a mistake, not other numbers."""
        g = opc.Graph()
        x, u, f = g.input("x", (3,), "i32"), g.input("u", (3,), "u8"), g.input("f", (2, 3))
        for compute in (lambda: x < 2.5, lambda: x + 1.5, lambda: 0.5 * x, lambda: x ** 0.5, lambda: x + 2**40, lambda: u - 256, lambda: u * -1):
            self.assertRaisesRegex(TypeError, "nothing is converted silently", compute)
        for compute in (lambda: f + 1e300, lambda: f * 10**400, lambda: f / 3.5e38, lambda: 1e39 - f, lambda: f > 1e300, lambda: opc.Graph().input("h", (2,), "f16") + 65520):
            self.assertRaisesRegex(TypeError, "nothing is converted silently", compute)
        for value in (3.4028234663852886e38, -3.4028235e38, float("inf")):  # the largest of f32, what rounds to it, and what is meant
            opc.Graph().input("f", (2, 3)) + value
        for compute in (lambda: f.sum(2), lambda: f.mean(-3), lambda: f.sum((0, 5)), lambda: f.transpose(0, 7)):
            self.assertRaisesRegex(IndexError, "has 2 dimensions, and no axis", compute)
        self.assertRaisesRegex(TypeError, "'a' is no axis", lambda: f.sum("a"))
        for compute in (lambda: f + np.ones((2, 3), "f"), lambda: np.ones((2, 3), "f") * f):
            self.assertRaises(TypeError, compute)
        g.output("less", u - 1)
        g.output("compared", x >= 3)
        values = g.compile().run(x=np.array([2, 3, 4], "i4"), u=np.array([0, 1, 200], "u1"), f=np.zeros((2, 3), "f"))
        self.assertEqual(values["less"].tolist(), [255, 0, 199])
        self.assertEqual(values["compared"].astype(bool).tolist(), [False, True, True])

    def test_initializers_are_of_the_type(self):
        g = opc.Graph()
        for i, (dtype, init) in enumerate((("i32", 1.5), ("i32", 2**31), ("u8", -1), ("i32", float("nan")), ("f32", 1e300), ("f16", 65520))):
            self.assertRaisesRegex(TypeError, "which the variable is; nothing is converted silently", g.variable, f"v{i}", (2,), dtype, init)
        for wrong in (lambda: opc.init.normal(std=-1), lambda: opc.init.normal(std=float("nan")), lambda: opc.init.uniform(high=float("inf")),
                      lambda: opc.init.normal(std="a"), lambda: opc.init.arange(step=None)):  # fmt: skip
            self.assertRaisesRegex(ValueError, "of an initializer is a finite number", wrong)
        for name, dtype, init in (("i", "i64", 2**40 + 1), ("u", "u8", 255), ("f", "f32", 0.5), ("b", "bool", True), ("h", "f16", 65504)):
            g.output("o" + name, g.variable(name, (2,), dtype, init))
        found = {name: values.tolist() for name, values in g.compile().run().items()}
        self.assertEqual(found, {"oi": [2**40 + 1] * 2, "ou": [255] * 2, "of": [0.5] * 2, "ob": [True] * 2, "oh": [65504] * 2})

    def test_names_that_files_cannot_hold(self):
        g = opc.Graph()
        for name in ("x\n", "a\0b", "\x7f", "\udc80"):
            self.assertRaisesRegex(ValueError, "control character", g.input, name, (2,))

    def test_wrong_indices(self):
        a = opc.Graph().input("a", A.shape)
        for index, error in ((2, IndexError), ((0, 0, 0, 0), IndexError), ("x", TypeError), ([0, 1], TypeError), (1.5, TypeError), ((..., ...), IndexError)):
            with self.assertRaises(error):
                a[index]

    def test_tensors_have_no_values(self):
        a = opc.Graph().input("a", A.shape)
        for use in (bool, list, lambda t: t if t else None):
            with self.assertRaises(TypeError):
                use(a)
        with self.assertRaises(TypeError):
            a + "x"

    def test_tensors_of_two_graphs(self):
        with self.assertRaises(opc.UsageError) as caught:
            opc.Graph("one").input("x", (2,)) + opc.Graph("two").input("y", (2,))
        self.assertIn("'two'", str(caught.exception))


class Functions(unittest.TestCase):
    def test_every_operator_has_a_function(self):
        names = [n for n in _core.op_names() if ":" not in n]
        self.assertGreater(len(names), 300)
        for name in names:
            function = opc.ops.function(name)
            definition = _core.describe_op(name)
            self.assertIn("outputs: ", function.__doc__)
            parameters = inspect.signature(function).parameters
            for attr, _, _, _ in definition["attrs"]:
                self.assertIn(opc.ops.python_name(attr), parameters, name)
            for argument, optional, _ in opc.ops.inputs_of(definition):
                self.assertEqual(parameters[opc.ops.python_name(argument)].default is None, optional, name)
        self.assertEqual(set(dir(opc.ops)), {opc.ops.python_name(n) for n in names})

    def test_stubs_are_those_of_the_build(self):
        with open(os.path.join(os.path.dirname(opc.__file__), "ops.pyi"), encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(text, _stubs.text())
        compile(text, "ops.pyi", "exec")
        self.assertIn("def matmul(a: Tensor, b: Tensor, *, transpose_a: bool = ...", text)

    def test_arguments(self):
        g = opc.Graph()
        x, y = g.input("x", (2, 3)), g.input("y", (2, 3))
        self.assertEqual(opc.ops.add_n([x, y]).shape, (2, 3))
        self.assertEqual(opc.ops.cast(in_=x, dtype=np.float64).dtype, "f64")
        prob, out = opc.ops.softmax_cross_entropy(x, y)
        self.assertEqual((prob.shape, out.shape), ((2, 3), (2,)))
        self.assertEqual(opc.ops.softmax_cross_entropy(x, label=y).out.shape, (2,))
        self.assertEqual(opc.ops.relu(x, name="act").name, "act/y_0")

    def test_wrong_arguments(self):
        g = opc.Graph()
        x = g.input("x", (2, 3))
        for call in (lambda: opc.ops.matmul(x), lambda: opc.ops.relu(x, x), lambda: opc.ops.relu(x, slope=1), lambda: opc.ops.relu(x, x=x),
                     lambda: opc.ops.relu(1.0), lambda: opc.ops.add_n([x, 1])):
            with self.assertRaises(TypeError):
                call()
        with self.assertRaisesRegex(AttributeError, "did you mean matmul"):
            opc.ops.matmull
        for value in ("yes", 1, None.__class__):
            with self.assertRaises(opc.GraphError) as caught:
                opc.ops.matmul(x, x, transpose_b=value)
            self.assertEqual(caught.exception.code, "OPC0205")
            self.assertRegex(str(caught.exception), r"matmul: attribute .transpose_b. is .*, expected a bool(.|\n)*test_operators.py:\d+")
        with self.assertRaises(opc.GraphError) as caught:
            opc.ops.reduce_sum(x, axis=[2 ** 40])
        self.assertEqual(caught.exception.code, "OPC0205")

    def test_what_is_no_tensor_is_named(self):
        g = opc.Graph("named")
        x = g.input("x", (2,), "f32")
        takes = r"; it takes \(x, \*, name=None, outputs=None\)$"
        for call, message in (
            (lambda: opc.ops.relu(3), r"^relu: input 'x' is int 3; it takes a tensor of a graph"),
            (lambda: opc.ops.relu("a"), r"^relu: input 'x' is str 'a'; "),
            (lambda: opc.ops.relu(np.ones(2)), r"^relu: input 'x' is of type ndarray; "),
            (lambda: opc.ops.matmul(x, b=3), r"^matmul: input 'b' is int 3; "),
            (lambda: opc.ops.add_n([x, 3.5]), r"^add_n: input 'in'\[1\] is float 3\.5; it takes tensors of a graph"),
            (lambda: opc.ops.relu(x, x), r"^relu: too many positional arguments \(2\)" + takes),
            (lambda: opc.ops.relu(x, foo=3), r"^relu: got an unexpected keyword argument 'foo'" + takes),
            (lambda: opc.ops.relu(x, x=x), r"^relu: multiple values for argument 'x'" + takes),
        ):
            with self.assertRaisesRegex(TypeError, message):
                call()
        self.assertEqual(opc.ops.add_n({0: x, 1: x}.values()).shape, (2,))

    def test_scopes_and_names(self):
        g = opc.Graph()
        x = g.input("x", (2,))
        with opc.name_scope("a"), opc.name_scope("b"):
            self.assertEqual(g.variable("w", (2,), init=1).name, "a.b.w/out")
            self.assertEqual([opc.ops.relu(x).op_name for _ in range(3)], ["a.b.relu", "a.b.relu_1", "a.b.relu_2"])
        self.assertEqual(opc.ops.relu(x).op_name, "relu")
        with self.assertRaises(opc.GraphError) as caught:
            g.input("x", (2,))
        self.assertEqual(caught.exception.code, "OPC0106")

    def test_sizes_are_known(self):
        for add in (opc.Graph().input, opc.Graph().variable):
            with self.assertRaises(opc.GraphError) as caught:
                add("x", (-1, 3))
            self.assertEqual(caught.exception.code, "OPC0207")
            self.assertIn("compile(shapes=", str(caught.exception))

    def test_sources_need_a_graph(self):
        with self.assertRaises(opc.UsageError):
            opc.ops.arange(integer_limit=4, dtype="i64")
        with opc.Graph() as g:
            n = opc.ops.arange(integer_start=0, integer_limit=4, integer_delta=1, dtype="i64")
            g.output("n", n)
        np.testing.assert_array_equal(g.compile().run()["n"], np.arange(4))


class Types(unittest.TestCase):
    def test_names_of_types(self):
        for kind in ("f32", "float32", "kFloat", np.float32, np.dtype("f4"), float, opc.dtype("f32")):
            self.assertEqual(opc.dtype(kind), "f32")
        self.assertEqual(opc.dtype("bf16").numpy, None)
        self.assertEqual(opc.dtype(np.int64), "i64")
        for kind in ("float33", None, object, np.complex64):
            with self.assertRaises(opc.UsageError):
                opc.dtype(kind)


if __name__ == "__main__":
    unittest.main()
