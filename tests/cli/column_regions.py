# Sums over the first axes beside what makes their rows: one loop, with the bits that the ops give one after the other.
# SPDX-License-Identifier: Apache-2.0
import random
import unittest

import numpy as np

from gpu_build import need_simulator
from regions import BINARY, UNARY
from row_regions import RowCase, RowGraph, axis_attrs

# With 1 to 12 pieces of rows; the reductions of (2, 40, 30) are over two axes.
SHAPES = [(5, 2), (2, 7), (33, 65), (2, 40, 30), (700, 10), (64, 1100), (1100, 600), (3000, 258)]
REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_nansum")


class ColumnGraph(RowGraph):
    """With what puts rows together. The last axis stays."""

    def columns(self, type, x, keep, dtype=None):
        axes = range(len(x[1]) - 1)
        return self.op(type, [("input_tensor", x)], "output_tensor", (1,) * (len(axes) if keep else 0) + x[1][-1:], dtype or x[2], axis_attrs(axes, keep))

    def sum_like(self, x, like):
        return self.op("reduce_sum_like", [("x", x), ("like", like)], "y", like[1], x[2], axis_attrs(range(len(x[1]) - 1), True).split(" attr")[0])

    def parameter_gradients(self, dy, x, mean, inverse):
        attrs = f'attr {{ key: "begin_params_axis" value {{ at_int64: {len(x[1]) - 1} }} }}'
        for output in ("beta_diff", "gamma_diff"):  # both may be left out
            attrs += f' output {{ key: "{output}" value {{ s: "op{self.count + 1}/{output}_0" }} }}'
        inputs = [("dy", dy), ("x", x), ("mean", mean), ("inv_variance", inverse)]
        return self.results("layer_norm_param_grad", inputs, [("beta_diff", x[1][-1:], mean[2]), ("gamma_diff", x[1][-1:], mean[2])], attrs)

    def weight_gradient(self, dy, x, inverse):
        return self.op("rms_norm_param_grad", [("dy", dy), ("x", x), ("inv_rms", inverse)], "weight_grad", x[1][-1:], inverse[2])


def every_op(shape, dtype):
    """Each op behind one that makes its rows, which are a result, too; bf16 by way of casts."""
    g = ColumnGraph()
    given = "f16" if dtype == "bf16" else dtype
    name = [0]

    def input(shape):
        x = g.input(shape, given)
        return g.cast(x, dtype) if dtype == "bf16" else x

    def out(x):
        name[0] += 1
        g.output(f"y{name[0]}", g.cast(x, "f16") if x[2] == "bf16" else x)

    a, b, count = input(shape), input(shape), [0]

    def before():  # no two are equal
        count[0] += 1
        return g.binary(BINARY[count[0] % 4], g.binary("broadcast_mul", a, b), g.cast(g.input((1,), given), dtype) if dtype == "bf16" else g.input((1,), given))

    for k, type in enumerate(REDUCTIONS):
        x = before()
        out(x)
        out(g.columns(type, x, k % 2 == 0))
    x = before()
    out(g.columns("reduce_any", g.binary("broadcast_greater", x, b), False, "bool"))
    x = before()
    out(g.sum_like(x, input(shape[-1:])))
    for type in ("reduce_sum", "reduce_max"):  # two of one loop
        out(g.columns(type, x, False))
    statistic = "f64" if dtype == "f64" else "f32"
    mean, inverse = g.input(shape[:-1], statistic), g.input(shape[:-1], statistic)
    for beta, gamma in (g.parameter_gradients(before(), b, mean, inverse),):
        out(beta)
        out(gamma)
    out(g.weight_gradient(before(), b, inverse))
    return g


def random_columns(seed):
    """Ops over elements, over rows and over columns of one shape."""
    pick = random.Random(seed)
    g = ColumnGraph()
    shape, dtype = pick.choice(SHAPES[:-1]), pick.choice(["f32", "f32", "f64", "f16"])
    full, small, sums = [g.input(shape, dtype), g.input(shape, dtype)], [g.input((1,), dtype), g.input(shape[-1:], dtype)], []
    for _ in range(pick.randint(4, 20)):
        x, y, kind = pick.choice(full[-4:]), pick.choice(full[-5:]), pick.random()
        if kind < 0.2:
            full.append(g.unary(pick.choice(list(UNARY)), x))
        elif kind < 0.5:
            full.append(g.binary(pick.choice(BINARY), *pick.sample([x, pick.choice([y, *small, *sums])], 2)))
        elif kind < 0.7:
            full.append(pick.choice([lambda: g.softmax(x), lambda: g.layer_norm(x)[0], lambda: g.softmax_grad(x, y)])())
        else:
            sums.append(g.columns(pick.choice(REDUCTIONS), x, pick.random() < 0.5))
    g.output("last", full[-1])
    for i, x in enumerate(sums):
        g.output(f"sum{i}", x)
    return g


class ColumnRegions(RowCase):
    def test_every_op(self):
        for i, shape in enumerate(SHAPES):
            for dtype in ("f32", "f64", "f16", "bf16"):
                if dtype != "f32" and np.prod(shape) > 100000:
                    continue
                with self.subTest(shape=shape, dtype=dtype):
                    self.write(every_op(shape, dtype), np.random.default_rng(i))
                    self.same_bits()

    def test_what_joins(self):
        """Each op with what makes its rows, where memory is no matter: two other tensors need more of it."""
        for shape, dtype in (((33, 65), "f32"), ((1100, 600), "f32"), ((1100, 600), "f16"), ((3000, 258), "f64")):
            statistic = "f64" if dtype == "f64" else "f32"
            ops = {type: lambda g, x, y, type=type: g.columns(type, x, True) for type in REDUCTIONS}
            ops["reduce_all"] = lambda g, x, y: g.columns("reduce_all", x, False, "bool")
            ops["reduce_sum_like"] = lambda g, x, y: g.sum_like(x, g.input(shape[-1:], dtype))
            ops["layer_norm_param_grad"] = lambda g, x, y: g.parameter_gradients(x, y, g.input(shape[:-1], statistic), g.input(shape[:-1], statistic))[1]
            ops["rms_norm_param_grad"] = lambda g, x, y: g.weight_gradient(x, y, g.input(shape[:-1], statistic))
            if dtype == "f16":
                del ops["reduce_all"]  # it takes none
            for type, op in ops.items():
                with self.subTest(shape=shape, dtype=dtype, type=type):
                    g = ColumnGraph()
                    y = g.input(shape, dtype)
                    for _ in range(2):
                        y = g.op("roll", [("in", y)], "out", y[1], y[2], 'attr { key: "shifts" value { at_list_int32 { val: 1 } } }')
                    x = g.unary("negative", g.input(shape, dtype))
                    g.output("x", x)
                    g.output("y", op(g, x, y))
                    self.write(g, np.random.default_rng(0))
                    widens = dtype == "f16" and type.endswith("param_grad")  # whole tensors, for its kernel
                    self.assertEqual([r["ops"] for r in self.fusion()["regions"]], [] if widens else [["op3", "op4"]], self.fusion())

    def test_random_graphs(self):
        joined = 0
        for seed in range(20):
            with self.subTest(seed=seed):
                types = self.same_in_less_memory(random_columns(seed), seed)
                joined += any(types[op] in REDUCTIONS for r in self.fusion()["regions"] for op in r["ops"])
        self.assertGreater(joined, 12)

    def test_numbers(self):
        """The gradient of relu and of a bias behind it, as numpy has them."""
        g = ColumnGraph()
        shape = (1100, 600)
        dy, y = g.input(shape, "f32"), g.input(shape, "f32")
        dx = g.op("relu_grad", [("dy", dy), ("y", y)], "dx", shape, "f32")
        g.output("dx", dx)
        g.output("db", g.columns("reduce_sum", dx, False))
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(g.text())
        rng = np.random.default_rng(0)
        given = {name: rng.standard_normal(shape).astype(np.float32) for name in g.inputs}
        np.savez(self.path("in.npz"), **given)
        size = 1100 * 600 * 4
        self.assertEqual([(sorted(r["ops"]), r["bytes_moved"], r["bytes_saved"]) for r in self.fusion()["regions"]], [(["op1", "op2"], 3 * size + 600 * 4, size)])
        self.outputs("-j", "2")
        first, second = (given[name].astype(np.float64) for name in g.inputs)
        want = np.where(second > 0, first, 0.0)
        with np.load(self.path("out.npz")) as z:
            np.testing.assert_array_equal(z["dx"], want.astype(np.float32))
            np.testing.assert_allclose(z["db"], want.sum(0), rtol=1e-5, atol=1e-3)

    def test_rows_of_several_ranks(self):
        """Each rank puts its rows together: a mean is of all rows, and a sum of those here stays in the loop."""
        want = {"reduce_sum": np.sum, "reduce_mean": np.mean, "reduce_max": np.max, "reduce_min": np.min, "reduce_prod": np.prod, "reduce_nansum": np.nansum}
        rng = np.random.default_rng(1)
        for shape, axes in (((12, 20), (0,)), ((9, 5), (0,)), ((8, 4, 6), (0, 1)), ((6, 4, 10), (0, 1))):
            for dtype in ("f32", "f64"):
                x = rng.uniform(0.5, 1.5, shape).astype({"f32": np.float32, "f64": np.float64}[dtype])
                for type in REDUCTIONS:
                    g = ColumnGraph()
                    source = g.input(shape, dtype)
                    g.output("y", g.columns(type, g.unary("square", source), True))
                    with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
                        f.write(g.text())
                    np.savez(self.path("in.npz"), **{next(iter(g.inputs)): x})
                    for mesh in ("2", "3", "2x2"):
                        pins = ["--mesh", mesh, "--sbp", f"op1={'S(0),S(0)' if 'x' in mesh else 'S(0)'}"]
                        with self.subTest(shape=shape, dtype=dtype, type=type, mesh=mesh):
                            self.outputs("-j", "2", "--in-process", *pins)
                            with np.load(self.path("out.npz")) as z:
                                np.testing.assert_allclose(z["y"].reshape(-1), want[type](x.astype(np.float64) ** 2, axis=axes).reshape(-1), rtol=1e-5 if dtype == "f32" else 1e-13)
                    regions = [r["ops"] for r in self.fusion("--mesh", "2", "--sbp", "op1=S(0)", "--sbp", "op2=P")["regions"]] if type in ("reduce_sum", "reduce_mean") else None
                    self.assertEqual(regions, {"reduce_sum": [["op1", "op2"]], "reduce_mean": []}.get(type))

    def test_boundaries(self):
        g = ColumnGraph()  # sums of all rows are there when the loop is at its end
        x = g.unary("exp", g.input((32, 64), "f32"))
        g.output("y", g.binary("broadcast_sub", x, g.columns("reduce_sum", x, True)))
        self.assertIn("access", self.reasons(g).values())
        g = ColumnGraph()  # two pieces of rows for all threads
        x = g.unary("exp", g.input((256, 600), "f32"))
        g.output("x", x)
        g.output("y", g.columns("reduce_sum", x, False))
        self.assertEqual(self.reasons(g), {("op1", "op2"): "length"})
        g = ColumnGraph()  # rows of 8, and of 32
        x = g.softmax(g.input((64, 4, 8), "f32"))
        g.output("y", g.op("reduce_sum", [("input_tensor", x)], "output_tensor", (4, 8), "f32", axis_attrs([0], False)))
        self.assertEqual(self.reasons(g), {("op1", "op2"): "rows"})

    def test_on_a_gpu(self):
        """There they stay alone."""
        need_simulator()
        g = ColumnGraph()
        x = g.unary("exp", g.input((32, 64), "f32"))
        g.output("y", g.columns("reduce_sum", g.unary("tanh", x), False))
        self.write(g, np.random.default_rng(0))
        fusion = self.fusion("--device", "gpu")
        self.assertEqual([r["ops"] for r in fusion["regions"]], [["op1", "op2"]])
        self.assertEqual([(op["type"], op["reasons"]) for op in fusion["alone"]], [("reduce_sum", ["device_code"])])


if __name__ == "__main__":
    unittest.main()
