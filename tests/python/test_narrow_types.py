"""Operators in Python on bf16 and 8-bit floats, which numpy has not: kernels see f32, and what they give is rounded."""
# SPDX-License-Identifier: Apache-2.0
import unittest

import numpy as np

import opc

from scratch import ScratchTest

SEEN = []


@opc.op("narrow::third", like="x")
def third(x, *, by: float = 3.0):
    SEEN.append((x.dtype, x.flags.writeable))
    return x / np.float32(by)


@third.grad(needs=["x"])
def _(dy, *, x, by):
    assert x.dtype == dy.dtype == np.float32
    return dy / np.float32(by)


@opc.op("narrow::pieces", outputs=("low", "high"))
def pieces(x):
    return x[:2], x[2:].astype("d")


@pieces.infer
def _(x):
    return [opc.Spec((2,), x.dtype), opc.Spec((x.shape[0] - 2,), "f8e5m2" if x.dtype == "bf16" else np.float64)]


@opc.op("narrow::filled", like="x", dtype={"y": "bf16"})
def filled(x):
    raise AssertionError("the other form is called")


@filled.out
def _(x, *, out):
    assert out.dtype == np.float32
    out[...] = x + np.float32(1 / 3)


@opc.op("narrow::counted", like="x", aux=["seen"], side_effect=True)
def counted(x, seen):
    seen += 1
    return x * seen


@opc.op("narrow::apart", like="x", isolation="process")
def apart(x):
    return x * np.float32(3)


@opc.op("narrow::kind", like="x")
def kind(x, *, to: np.dtype = np.float32):
    assert to == "bf16", to
    return x


@opc.op("narrow::wrong", like="x")
def wrong(x):
    return x.astype("d")


@opc.op("narrow::kept", like="x")
def kept(x):
    SEEN.append(x)
    return x


def bf16(values):
    """Bits of f32 rounded to nearest, ties to even: the definition."""
    bits = np.asarray(values, "f").view("u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")


def wide(bits):
    return (np.asarray(bits).astype("u4") << 16).view("f")


def run(op, x, kind="bf16", **attrs):
    g = opc.Graph()
    made = op(g.input("x", x.shape, kind), **attrs)
    for i, y in enumerate(made if isinstance(made, tuple) else (made,)):
        g.output(f"y{i}", y)
    return g.compile().run(x=x)


X = np.array([1, -2.5, 1000, 0.1, 3e38], "f")


class NarrowTypes(ScratchTest):
    def test_values(self):
        SEEN.clear()
        y = run(third, bf16(X))["y0"]
        self.assertEqual(SEEN, [(np.dtype("f"), False)])
        np.testing.assert_array_equal(y, bf16(wide(bf16(X)) / np.float32(3)))

    def test_eight_bits(self):
        """Of e4m3 and e5m2: 1, 2, 1.5 and 0.5 are exact, 1/3 becomes the nearest, beyond the range the largest."""
        for name, bits, expected in (("f8e4m3fn", [0x38, 0x40, 0x3C, 0x30, 0x38], [0x2B, 0x33, 0x30, 0x23, 0x2B]), ("f8e5m2", [0x3C, 0x40, 0x3E, 0x38, 0x3C], [0x35, 0x39, 0x38, 0x31, 0x35])):
            np.testing.assert_array_equal(run(third, np.array(bits, "u1"), name)["y0"], expected, name)
        self.assertEqual(run(third, np.array([0x7E], "u1"), "f8e4m3fn", by=0.25)["y0"][0], 0x7E)

    def test_the_form_with_out(self):
        g = opc.Graph()
        g.output("y", filled(g.input("x", (5,), "bf16")))
        program = g.compile()
        for _ in range(2):
            np.testing.assert_array_equal(program.run(x=bf16(X))["y"], bf16(wide(bf16(X)) + np.float32(1 / 3)))

    def test_shape_rules(self):
        x = np.array([1, 2, 3, 4], "f")
        g = opc.Graph()
        made = pieces(g.input("x", (4,), "bf16"))
        self.assertEqual([t.dtype for t in made], ["bf16", "f8e5m2"])
        with self.assertRaises(opc.ExecutionError) as caught:
            run(pieces, bf16(x))
        self.assertEqual(caught.exception.code, "OPC0623")
        self.assertIn("float64, expected float32", str(caught.exception))

    def test_auxiliary_variables_are_written(self):
        g = opc.Graph()
        g.output("y", counted(g.input("x", (2,), "bf16"), g.variable("seen", (1,), "bf16", init=0, trainable=False)))
        program = g.compile()
        for n in (1, 2, 3):
            np.testing.assert_array_equal(program.run(x=bf16([1, 2]))["y"], bf16([n, 2 * n]))
        np.testing.assert_array_equal(wide(program.variables["seen"]), [3])

    def test_in_a_process_of_its_own(self):
        np.testing.assert_array_equal(run(apart, bf16([1, 2.5]))["y0"], bf16([3, 7.5]))

    def test_types_as_attributes(self):
        np.testing.assert_array_equal(run(kind, bf16([1]), to="bf16")["y0"], bf16([1]))

    def test_gradients(self):
        g = opc.Graph()
        x = g.input("x", (2,), "bf16")
        g.output("loss", third(x).sum())
        out = g.grad("loss", [x]).compile().run(x=bf16([1, 2]))
        np.testing.assert_array_equal(out["x.grad"], bf16(np.float32([1, 1]) / 3))

    def test_what_is_refused(self):
        for op, code in ((wrong, "OPC0623"), (kept, "OPC0624")):
            with self.assertRaises(opc.ExecutionError) as caught:
                run(op, bf16([1, 2]))
            self.assertEqual(caught.exception.code, code)
        SEEN.clear()

    def test_saved_graphs(self):
        g = opc.Graph()
        g.output("y", third(g.input("x", (5,), "bf16")))
        g.output("low", pieces(g.input("z", (4,), "bf16"))[0])
        g.save(self.path("g.pbtxt"))
        self.assertIn("kFloat8E5M2", open(self.path("g.ops.pbtxt")).read())
        loaded = opc.load(self.path("g.pbtxt"))
        self.assertEqual(loaded.outputs["y"].dtype, "bf16")
        shown = self.command("show", "g.pbtxt", "--what", "tensors")
        self.assertIn("bf16[5]", shown)


class UnderAByte(unittest.TestCase):
    def test_numbers_that_the_type_has_not(self):
        for kind, numpy_type, good, bad in (("i4", np.int8, [-8, 7], 8), ("u4", np.uint8, [0, 15], 16), ("i2", np.int8, [-2, 1], -3), ("u2", np.uint8, [0, 3], 4),
                                            ("f4e2m1", np.uint8, [0, 15], 16)):
            g = opc.Graph()
            x = g.input("x", (2,), kind)
            g.output("y", x.reshape((2, 1)))
            program = g.compile()
            self.assertEqual(program.run(x=np.array(good, numpy_type))["y"].reshape(-1).tolist(), good)
            self.assertEqual(opc.dtype(kind).bits_type, numpy_type)
            with self.assertRaisesRegex(Exception, f"elements that are no {kind}"):
                program.run(x=np.array([0, bad], numpy_type))
            with self.assertRaisesRegex(Exception, f"view\\('{np.dtype(numpy_type)}'\\)"):
                program.run(x=np.array(good, numpy_type).view("V1"))  # as numpy reads the files that opc writes


if __name__ == "__main__":
    unittest.main()
