"""Gradients against formulas and PyTorch."""
# SPDX-License-Identifier: Apache-2.0
import unittest

import numpy as np

import opc

try:
    import torch
except ImportError:
    torch = None

X = np.random.default_rng(0).standard_normal((5, 3)).astype("f")
W = np.random.default_rng(1).standard_normal((3, 4)).astype("f")


def cube():
    g = opc.Graph()
    x = g.input("x", (5, 3))
    y = g.output("y", x @ g.variable("w", (3, 4), init=0))
    return g, g.output("loss", (y * y * y).sum())


def run(graph):
    program = graph.compile()
    program.variables["w"] = W
    return program.run(x=X)


class Gradients(unittest.TestCase):
    def test_windows_that_lie_in_the_padding(self):
        """No element is the largest of such a window of a maximum pooling, so that none gets its gradient."""
        x = np.random.default_rng(6).standard_normal((1, 3, 1, 6)).astype("f")
        g = opc.Graph()
        y = g.output("y", opc.ops.max_pool_2d(g.input("x", x.shape), padding=[1, 1], kernel_size=[2, 2], stride=[2, 2], dilation=[2, 2], ceil_mode=True))
        got = g.grad(["y"], ["x"], dy_inputs=True).compile().run(x=x, **{"y.dy": np.ones(y.shape, "f")})
        self.assertTrue(np.all(got["y"] == -np.inf), got["y"]) # rows -1 and 1 of one row
        self.assertFalse(np.any(got["x.grad"]), got["x.grad"])

    def test_attention_where_a_finite_mask_hides_a_query(self):
        """The logarithm of its sum has lost how many keys there were; the probabilities have not."""
        made = np.random.default_rng(5)
        q, k, v, dy = (made.standard_normal((2, 3, 4)) for _ in range(4))
        for dtype, low in (("f32", np.finfo("f").min), ("f32", -1e30), ("f32", -1e9), ("f32", -1e4), ("f64", -1e30), ("f64", -1e18)):
            mask = np.zeros((2, 3, 3))
            mask[0, 1] = low
            s = q @ k.swapaxes(-1, -2) / 2
            s[0, 1] = 0 # beside the mask nothing of it is left, or next to nothing
            if low == -1e4:
                s = q @ k.swapaxes(-1, -2) / 2
            p = np.exp(s - s.max(-1, keepdims=True))
            p /= p.sum(-1, keepdims=True)
            dp = dy @ v.swapaxes(-1, -2)
            ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / 2
            want = {"q": ds @ k, "k": ds.swapaxes(-1, -2) @ q, "v": p.swapaxes(-1, -2) @ dy}
            g = opc.Graph()
            inputs = [g.input(name, (2, 3, 4), dtype) for name in "qkv"]
            g.output("o", opc.ops.scaled_dot_product_attention(*inputs, mask=g.input("mask", (2, 3, 3), dtype)).out)
            got = g.grad(["o"], ["q", "k", "v"], dy_inputs=True).compile().run(
                **{n: x.astype("f" if dtype == "f32" else "d") for n, x in (("q", q), ("k", k), ("v", v), ("mask", mask), ("o.dy", dy))})
            for name, expected in want.items():
                with self.subTest(dtype=dtype, low=low, gradient=name):
                    np.testing.assert_allclose(got[name + ".grad"], expected, rtol=0, atol=2e-3 if low == -1e4 else 2e-6)

    def test_variables_by_default(self):
        g, loss = cube()
        back = g.grad(loss)
        self.assertEqual(list(back.gradients), ["w"])
        self.assertEqual(back.gradients["w"].shape, (3, 4))
        np.testing.assert_allclose(run(back)["w.grad"], X.T @ (3 * (X @ W) ** 2), rtol=1e-4, atol=1e-5)

    def test_tensors_inputs_and_names(self):
        g, loss = cube()
        for wrt in ([g.inputs["x"]], ["x"], [g.tensor("x/out")]):
            np.testing.assert_allclose(run(g.grad(loss, wrt))["x.grad"], (3 * (X @ W) ** 2) @ W.T, rtol=1e-4, atol=1e-5)
        inner = g.grad(loss, [g.outputs["y"]])
        np.testing.assert_allclose(next(v for k, v in run(inner).items() if k.endswith(".grad")), 3 * (X @ W) ** 2, rtol=1e-4, atol=1e-5)

    def test_second_order(self):
        g, loss = cube()
        out = run(opc.grad(loss, ["x"], order=2))
        # The sum of the gradient, differentiated again.
        np.testing.assert_allclose(out["x.grad.grad"], (6 * (X @ W) * W.sum(0)) @ W.T, rtol=1e-3, atol=1e-4)

    def test_seeds(self):
        g, _ = cube()
        back = g.grad("y", ["x"], dy_inputs=True)
        program = back.compile()
        program.variables["w"] = W
        dy = np.ones((5, 4), "f") * 2
        np.testing.assert_allclose(program.run(x=X, **{"y.dy": dy})["x.grad"], dy @ W.T, rtol=1e-5)

    def test_no_gradient(self):
        g = opc.Graph()
        x = g.input("x", (3,))
        g.output("y", opc.ops.argmax(x))
        with self.assertRaises(opc.GraphError):
            g.grad("y", [x])
        with self.assertRaises(opc.Error):
            cube()[0].grad("nothing")

    @unittest.skipIf(torch is None, "no torch")
    def test_against_torch(self):
        def compute(x, w, ops):
            return ops.softmax(ops.tanh(x @ w))

        class Both:
            softmax, tanh = staticmethod(lambda t: torch.softmax(t, -1)), staticmethod(torch.tanh)

        g = opc.Graph()
        x = g.input("x", (5, 3))
        y = compute(x, g.variable("w", (3, 4), init=0), opc.ops)
        g.output("loss", (y * y).sum())
        out = run(g.grad("loss", ["w", "x"]))
        tx, tw = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
        (compute(tx, tw, Both) ** 2).sum().backward()
        np.testing.assert_allclose(out["w.grad"], tw.grad, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(out["x.grad"], tx.grad, rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
