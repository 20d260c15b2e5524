"""Definitions of operators in Python: mistakes are found where they stand, outputs have names, optional inputs need no default."""
# SPDX-License-Identifier: Apache-2.0
import sys
import unittest

import numpy as np

import opc

X = np.array([[1, -2], [3, 4]], "f")


@opc.op("defined::shifted", like="x", optional=("b", "c"))
def shifted(x, b, c):
    for one in (b, c):
        x = x if one is None else x + one
    return x


@opc.op("defined::between", like="x", optional=("b",))
def between(x, b, c):
    return c if b is None else b + c


@opc.op("defined::parts", outputs=("low", "class"), like="x", dtype={"class": "int64"})
def parts(x, *, by: float = 2.0):
    return np.minimum(x, np.float32(by)), x.astype("i8")


@opc.op("defined::joined", like="xs", variadic={"xs": 1})
def joined(xs):
    return xs[0]


def f(x, w, *, n: int = 3, alpha: float = 0.5, names: list[str] = ()):
    return x


def needs(x, *, n: int):
    return x


# Options, and what the message says; the argument is always named.
WRONG = [
    ({"sbp": 3}, "sbp is opc.elementwise or a rule"),
    ({"sbp": "m k, k n"}, "sbp is 'm k, k n', which has 0 arrows"),
    ({"sbp": "a -> a -> a"}, "2 arrows"),
    ({"sbp": "a, b, c -> a"}, "3 terms for 2 inputs"),
    ({"sbp": "a, b -> a, b"}, "2 terms for 1 output"),
    ({"sbp": "a, b -> q"}, "sbp names 'q', which is no axis of an input; there are a, b"),
    ({"sbp": "a a, b -> a"}, "names an axis twice in 'a a'"),
    ({"sbp": "c: a, b -> a"}, "sbp names 'c', which is no axis of the rule; there are a, b"),
    ({"sbp": "+, b -> a"}, "'+' is no name of an axis"),
    ({"sbp": "a* a, b -> a"}, "names an axis twice"),
    ({"sbp": "a+b, b -> a"}, "'a+b' is no name of an axis"),
    ({"cases": {"x": (2, 3)}}, "cases is a sequence of dicts"),
    ({"cases": [(2, 3)]}, "cases is a dict by names"),
    ({"cases": [{"x": (2, 3), "v": (2,)}]}, "cases names 'v', which is no input or attribute; there are x, w, n"),
    ({"cases": [{"x": (2, 3)}]}, "cases has a case without a shape for the input 'w'"),
    ({"cases": [{"x": 2, "w": (2,)}]}, "cases has 2 for the input 'x', which is no shape"),
    ({"cases": [{"x": (2, -3), "w": (2,)}]}, "(2, -3) for the input 'x'"),
    ({"cases": [{"x": [(2,), (2,)], "w": (2,)}]}, "cases has 2 shapes for the input 'x'"),
    ({"cases": [{"x": (2,), "w": (2,), "n": 1.5}]}, "cases has 1.5 for the attribute 'n', which is int64"),
    ({"cases": [{"x": (2,), "w": (2,), "names": "ab"}]}, "cases has 'ab' for the attribute 'names'"),
    ({"optional": ("b",)}, "optional names 'b', which is no input; there are x, w"),
    ({"optional": "w"}, "optional is a sequence of names, such as optional=('x',), not 'w'"),
    ({"optional": ("w", "w")}, "optional has a name twice"),
    ({"variadic": {"xs": 1}}, "variadic names 'xs', which is no input; there are x, w; did you mean 'x'?"),
    ({"variadic": ("x",)}, "variadic is a dict by names"),
    ({"variadic": {"x": -1}}, "variadic says how many tensors 'x' has at least"),
    ({"outputs": "y"}, "outputs is a sequence of names"),
    ({"outputs": ("y", "y")}, "outputs has a name twice"),
    ({"outputs": ("a b",)}, "outputs has 'a b', which is no name"),
    ({"outputs": ("x",)}, "outputs has 'x', which is an input or attribute, too"),
    ({"like": {"q": "x"}}, "like names 'q', which is no output"),
    ({"like": "z"}, "like names 'z', which is no input"),
    ({"like": 3}, "like is a dict by names"),
    ({"broadcast": "x"}, "broadcast is a sequence of names"),
    ({"shape": {"y": "x[0]"}}, "shape of 'y' is a sequence of sizes"),
    ({"shape": {"y": ("z[0]",)}}, "shape of 'y' names 'z' in 'z[0]', which is no input"),
    ({"shape": {"y": ("alpha + 1",)}}, "which is no integer attribute"),
    ({"shape": {"y": (1.5,)}}, "shape of 'y' has 1.5"),
    ({"dtype": {"y": "float99"}}, "dtype of 'y' is 'float99', which is no element type"),
    ({"dtype": "int64"}, "dtype is a dict by names"),
    ({"aux": "x"}, "aux is a sequence of names"),
    ({"inplace": ("x", "y")}, "inplace is a dict by names"),
    ({"side_effect": 1}, "side_effect is True or False, not 1"),
    ({"timeout_s": -1, "isolation": "process"}, "timeout_s is a number of seconds"),
    ({"timeout_s": float("nan"), "isolation": "process"}, "timeout_s is a number of seconds"),
    ({"isolation": "thread"}, "isolation is None or 'process'"),
]  # fmt: skip


class Definitions(unittest.TestCase):
    def test_mistakes_are_found_where_they_stand(self):
        for options, part in WRONG:
            with self.subTest(options=options), self.assertRaises(ValueError) as caught:
                opc.op("defined::f", **options)(f)
            self.assertTrue(str(caught.exception).startswith("defined::f: " + next(iter(options))), str(caught.exception))
            self.assertIn(part, str(caught.exception))
        self.assertNotIn("defined::f", opc._op.operators)

    def test_more_of_them(self):
        with self.assertRaisesRegex(ValueError, "case without the attribute 'n', which has no default"):
            opc.op("defined::f", like="x", cases=[{"x": (2,)}])(needs)
        for default in (0.5, "1", 2**63, True):
            def with_default(x, *, n: int = default):
                return x

            with self.assertRaisesRegex(ValueError, "defined::f: the default has .* for the attribute 'n', which is int64"):
                opc.op("defined::f", like="x")(with_default)
        with self.assertRaisesRegex(TypeError, "defined::f: the parameters of <ufunc 'negative'> are not known, and its inputs have no names: wrap it"):
            opc.op("defined::f", like="x")(np.negative)
        with self.assertRaisesRegex(TypeError, "defined::f: opc.op has no option 'brodcast'; did you mean 'broadcast'?"):
            opc.op("defined::f", brodcast=("x",))

    def test_random_kernels_say_so(self):
        """Two that are told apart by nothing but their numbers would be one."""

        def draws(x, *, rng):
            return rng.standard_normal(x.shape, dtype=np.float32)

        def writes(x, *, out, rng):
            out[...] = rng.standard_normal(x.shape, dtype=np.float32)

        for define in (lambda: opc.op("defined::f", like="x")(draws), lambda: opc.op("defined::f", like="x")(needs).out(writes)):
            with self.assertRaisesRegex(ValueError, "defined::f: needs_rng must be True: the kernel takes random numbers"):
                define()
        for options in ({"needs_rng": True}, {"side_effect": True}):
            made = opc.op("defined::draws", like="x", **options)(draws).out(writes)
            g = opc.Graph()
            x = g.input("x", (4,))
            g.output("a", made(x)), g.output("b", made(x))
            got = g.compile().run(x=np.zeros(4, "f"))
            self.assertFalse(np.array_equal(got["a"], got["b"]))

    def test_what_is_right_is_taken(self):
        for options in ({"sbp": "m k, k n -> m n"}, {"sbp": "..., . -> ..."}, {"sbp": "+ m .., ? m -> m"}, {"sbp": "b a: a c*, c b -> a b"}, {"sbp": opc.elementwise}, {"cases": [{"x": (2, 3), "w": (), "alpha": 1, "names": ["a"]}]},
                        {"shape": {"y": ("x[0]", 4, "n + 1", "x[1] * (n - 1)")}}, {"dtype": {"y": np.int64}}, {"dtype": {"y": "bf16"}}, {"like": {"y": "w"}},
                        {"optional": ["w"]}, {"timeout_s": 1, "isolation": "process"}):  # fmt: skip
            with self.subTest(options=options):
                opc.op("defined::right", **options)(f)
        del opc._op.operators["defined::right"]


@opc.op("defined::configured", like="x")
def configured(x, *, n: int, rate: float = 0.5):
    return x


@opc.op("defined::rotated", like="x", no_grad=("out",))
def rotated(x, position, out):
    return x * position + out


@rotated.grad(needs=["x", "position"])
def _(dy, *, x, position):
    return dy * position, dy * x


class Calls(unittest.TestCase):
    def test_optional_inputs_need_no_default(self):
        g = opc.Graph()
        x, b = g.input("x", (2, 2)), g.input("b", (2, 2))
        for name, made in (("none", shifted(x)), ("first", shifted(x, b)), ("last", shifted(x, c=b)), ("both", shifted(x, b, b)), ("said", shifted(x, None, b)), ("middle", between(x, None, b))):
            g.output(name, made)
        out = g.compile().run(x=X, b=X + 1)
        for name, expected in (("none", X), ("first", 2 * X + 1), ("last", 2 * X + 1), ("both", 3 * X + 2), ("said", 2 * X + 1), ("middle", X + 1)):
            np.testing.assert_array_equal(out[name], expected, name)
        with self.assertRaises(TypeError):
            shifted()

    def test_inputs_of_any_name(self):
        """Those that kernels get beside the op's are so called behind the `*` alone."""
        g = opc.Graph()
        g.output("y", rotated(*(g.input(n, (2, 2)) for n in ("x", "position", "out"))))
        np.testing.assert_array_equal(g.compile().run(x=X, position=X + 1, out=X + 2)["y"], X * (X + 1) + X + 2)
        made = g.grad("y", ["x", "position"]).compile().run(x=X, position=X + 1, out=X + 2)
        np.testing.assert_array_equal(made["x.grad"], X + 1)
        np.testing.assert_array_equal(made["position.grad"], X)

    def test_optional_inputs_by_annotation(self):
        for annotation in ("Optional[opc.Tensor]", *(["opc.Tensor | None"] if sys.version_info >= (3, 10) else [])):
            found: dict = {}
            exec(f"from typing import Optional\nimport opc\ndef f(x: opc.Tensor, b: {annotation}) -> opc.Tensor: return x", found)
            self.assertEqual([a.optional for a in opc.op("defined::annotated", like="x")(found["f"]).signature.inputs], [False, True])
            del opc._op.operators["defined::annotated"]

    def test_wrong_calls_name_the_operator(self):
        g = opc.Graph()
        x = g.input("x", (2, 2))
        for call, says in (
            (lambda: between(x), f"{between.name}: missing a required argument: 'b'; it takes (x, b, c)"),
            (lambda: configured(x), f"{configured.name}: missing a required argument: 'n'; it takes (x, *, n, rate=0.5)"),
            (lambda: configured(x, x, n=1), f"{configured.name}: too many positional arguments; it takes (x, *, n, rate=0.5)"),
            (lambda: configured(x, n=1, m=2), f"{configured.name}: got an unexpected keyword argument 'm'; it takes (x, *, n, rate=0.5)"),
        ):
            with self.subTest(says=says), self.assertRaises(TypeError) as raised:
                call()
            self.assertEqual(str(raised.exception), says)

    def test_what_is_no_tensor(self):
        """Named with the operator, the argument, what it takes and what to do."""
        g = opc.Graph()
        x = g.input("x", (2, 2))
        one, several = "it takes a tensor of a graph, or a list of them where it takes several", "it takes tensors of a graph"
        number = "; a number is an attribute, an operand of + - * /, or a constant (opc.ops.constant)"
        array = "; an array is fed to an input (graph.input) or set in a variable (graph.variable)"
        for call, says in (
            (lambda: between(x, None, 2.0), f"{between.name}: input 'c' is float 2.0; {one}{number}"),
            (lambda: between(x, 3, x), f"{between.name}: input 'b' is int 3; {one}{number}"),
            (lambda: between(x, None, X), f"{between.name}: input 'c' is of type ndarray; {one}{array}"),
            (lambda: between(X, None, x), f"{between.name}: input 'x' is of type ndarray; {one}{array}"),
            (lambda: between(x, None, np.float32(1)), f"{between.name}: input 'c' is of type float32; {one}{array}"),
            (lambda: between(x, None, [1, 2]), f"{between.name}: input 'c'[0] is int 1; {several}{number}"),
            (lambda: between(x, None, "c"), f"{between.name}: input 'c' is str 'c'; {one}"),
            (lambda: between(x, None, None), f"{between.name}: input 'c' is None; only optional inputs may be left out"),
            (lambda: joined([x, 1.5]), f"{joined.name}: input 'xs'[1] is float 1.5; {several}{number}"),
            (lambda: joined([x, X]), f"{joined.name}: input 'xs'[1] is of type ndarray; {several}{array}"),
            (lambda: opc.ops.multiply(x, 2.0), f"multiply: input 'y' is float 2.0; {one}{number}"),
        ):
            with self.subTest(says=says), self.assertRaises(TypeError) as raised:
                call()
            self.assertEqual(str(raised.exception), says)
        self.assertEqual(joined(x).shape, (2, 2))

    def test_a_missing_input_is_told_in_pythons_words(self):
        x = opc.Graph().input("x", (2, 2))
        with self.assertRaises(opc.GraphError) as raised:
            opc.ops.function("matmul")(x, None)
        self.assertEqual(raised.exception.code, "OPC0202")
        self.assertIn("help: give it a tensor: b=...\n", str(raised.exception))
        for call in (lambda: opc.ops.relu(None), lambda: opc.ops.relu()):
            with self.assertRaisesRegex(TypeError, r"^relu\(\) misses its input 'x': relu\(x, \*"):
                call()

    def test_optional_inputs_of_calls_with_arrays(self):
        np.testing.assert_array_equal(shifted(X), X)
        np.testing.assert_array_equal(shifted(X, c=X), 2 * X)
        np.testing.assert_array_equal(shifted(X, None, X), 2 * X)

    def test_several_outputs_have_their_names(self):
        g = opc.Graph()
        made = parts(g.input("x", (2, 2)), name="cut")
        self.assertEqual(made._fields, ("low", "class_"))  # a word of Python's
        self.assertIs(made.low, made[0])
        low, kind = made
        self.assertEqual((low.dtype, kind.dtype), ("f32", "i64"))
        self.assertEqual(type(made).__name__, "defined_parts_outputs")
        g.output("low", made.low)
        np.testing.assert_array_equal(g.compile().run(x=X)["low"], np.minimum(X, 2))


if __name__ == "__main__":
    unittest.main()
