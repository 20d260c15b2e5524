"""Programs for several devices: pins, states, the numbers of one device."""
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import unittest

import numpy as np

import opc

X = np.random.default_rng(0).integers(-3, 4, (8, 6)).astype("f")


def layer():
    g = opc.Graph("layer")
    x = g.input("x", (8, 6))
    w = g.variable("w", (6, 4), init=0)
    g.output("y", opc.ops.relu(x @ w))
    return g


@opc.op("meshes::scaled", sbp=opc.elementwise, broadcast=("x", "y"))
def scaled(x: opc.Tensor, y: opc.Tensor) -> opc.Tensor:
    return x * y


class Meshes(unittest.TestCase):
    def run_on(self, program):
        program.variables["w"] = np.arange(24, dtype="f").reshape(6, 4) - 12
        return program.run(x=X)["y"]

    def test_the_numbers_of_one_device(self):
        one = self.run_on(layer().compile())
        for mesh in ((2,), (2, 2)):
            np.testing.assert_array_equal(self.run_on(layer().compile(mesh=mesh)), one)

    def test_an_elementwise_operator_that_repeats_an_input(self):
        """Its axes count from the right; what is repeated along the one that is cut is whole."""
        for x, y in (((4, 2), (2,)), ((2,), (4, 2)), ((4, 2), (4, 1)), ((4, 1), (1, 4)), ((3, 4, 2), (4, 1))):
            a, b = np.arange(np.prod(x), dtype="f").reshape(x) + 1, np.arange(np.prod(y), dtype="f").reshape(y) + 1
            for states in ("S(0)", "S(1)"):
                g = opc.Graph("repeated")
                g.output("z", scaled(g.input("x", x), g.input("y", y)))
                np.testing.assert_array_equal(g.compile(mesh=(2,), sbp={"z": states}).run(x=a, y=b)["z"], a * b, err_msg=f"{x} {y} {states}")

    def test_pins(self):
        for states in ("S(0)", "S(1)", "B"):
            g = layer()
            g.variables["w"].sbp = states
            self.assertEqual(g.variables["w"].sbp, states)
            self.assertEqual(g.facts(mesh=(2,))["signatures"]["w"], f"({states})")
            np.testing.assert_array_equal(self.run_on(g.compile(mesh=(2,))), self.run_on(layer().compile()))

    def test_pins_of_the_call(self):
        text = layer().facts(mesh=(2,), sbp={"x": "S(0)", "y": "B"})
        self.assertTrue(any(kind == "all_gather" for _, kind, *_ in text["transitions"]), text["transitions"])

    def test_fork(self):
        """Devices are threads here, and a child has none of them: it is told so when it asks for what lies on all of them, and does not wait."""
        g = layer()
        g.variables["w"].sbp = "S(0)"
        session = g.compile(mesh=(2,)).session(threads=2)
        session.run(x=X)
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a hang ends the child, and the test fails
            code = 1
            try:
                with self.assertRaisesRegex(opc.UsageError, "before fork"):
                    session.variables["w"]
                code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_what_is_refused(self):
        for options in ({"mesh": ()}, {"mesh": (0,)}, {"mesh": (2,), "sbp": {"w": "S("}}, {"sbp": {"w": "B"}}, {"mesh": (2,), "stages": ["x"]}):
            with self.assertRaises(opc.UsageError):
                layer().compile(**options)
        with self.assertRaises(opc.Error):
            layer().compile(mesh=(2,), sbp={"nothing": "B"})
        with self.assertRaises(opc.Error):
            layer().compile(mesh=(2,), sbp={"w": "S(5)"})

    def test_the_gradient_of_a_bias_that_heads_share(self):
        """A tensor [1,T,T] is broadcast over batch and heads: its gradient sums over axes that it does not have."""
        made = np.random.default_rng(4)
        x, v = made.standard_normal((3, 4, 8, 8)), made.standard_normal((3, 4, 8, 5))
        e = np.exp(x)
        p = e / e.sum(-1, keepdims=True)
        dp = 2 * (p @ v) @ v.swapaxes(-1, -2)
        want = (p * (dp - (p * dp).sum(-1, keepdims=True))).sum((0, 1))
        g = opc.Graph("biased")
        o = opc.ops.batch_matmul(opc.ops.softmax(g.input("x", x.shape) + g.variable("b", (1, 8, 8), init=0)), g.input("v", v.shape))
        back = g.grad(g.output("loss", opc.ops.square(o).sum()), ["b"])
        for options in ({}, {"mesh": (2,)}, {"mesh": (4,)}, {"mesh": (2, 2)}, {"mesh": (2,), "sbp": {"x": "S(3)"}}, {"mesh": (2,), "sbp": {"x": "S(2)"}}):
            with self.subTest(options):
                found = back.compile(**options).run(x=x.astype("f"), v=v.astype("f"))["b.grad"]
                np.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-4)

    def test_outputs_that_later_stages_read(self):
        """A learning rate by a schedule is made on the first stage and read on all: one number, whatever the micro-batches."""
        for parts in (2, 3):
            g = opc.Graph("staged")
            a = opc.ops.matmul(g.input("x", (2, 6)), g.variable("w0", (6, 4), init=0.5), name="a")
            b = opc.ops.matmul(a, g.variable("w1", (4, 1), init=0.25), name="b")
            step = g.training_step(g.output("loss", b.mean()), opc.optim.SGD(0.125, schedule=opc.optim.cosine(8, warmup=2)), accumulate=parts)
            batch = np.arange(12 * parts, dtype="f").reshape(2 * parts, 6) / 8
            program = step.compile(mesh=(2,), stages=["a=0", "b=1"], micro_batches=parts)
            alone = step.compile()
            for turn in range(3):
                staged = program.run(x=batch)
                for part in range(parts):
                    last = alone.run(x=batch[2 * part:2 * part + 2])
                self.assertEqual(staged["lr"].shape, (1,))
                np.testing.assert_allclose(staged["lr"], last["lr"], rtol=1e-6, err_msg=str((parts, turn)))
                for name in ("w0", "w1"):
                    np.testing.assert_allclose(program.variables[name], alone.variables[name], rtol=1e-5)

    def test_training_on_a_mesh(self):
        def step():
            g = layer()
            y = g.outputs["y"]
            g.output("loss", (y * y).mean())
            return g.training_step("loss", opc.optim.SGD(0.125))

        def train(program):
            program.variables["w"] = (np.arange(24, dtype="f").reshape(6, 4) - 12) / 16
            for _ in range(5):
                program.run(x=X)
            return program.variables["w"]

        np.testing.assert_allclose(train(step().compile(mesh=(2,))), train(step().compile()), rtol=1e-5, atol=1e-6)


class Show(unittest.TestCase):
    def test_texts(self):
        from opc import _show

        g = layer()
        self.assertIn("input     x  f32[8,6]", _show.text(g, "summary", {}))
        self.assertRegex(_show.text(g, "ops", {}), r"matmul +matmul +x/out, w/out +f32\[8,4\] +\S*test_meshes.py:\d+")
        self.assertIn("relu/y_0", _show.text(g, "tensors", {}))
        self.assertIn("arena", _show.text(g, "memory", {}))
        self.assertIn("matmul", _show.text(g, "sbp", {"mesh": (2,)}))
        with self.assertRaises(opc.UsageError):
            _show.text(g, "everything", {})

    def test_notebooks(self):
        g = opc.Graph("<b>")
        x = g.input("a<b", (2,))
        g.output("y", x + 1)
        page = g._repr_html_()
        self.assertIn("&lt;b&gt;", page)
        self.assertNotIn("<b>a<b", page)
        self.assertIn("scalar_add", page)
        self.assertIn("a&lt;b", x._repr_html_())


if __name__ == "__main__":
    unittest.main()
