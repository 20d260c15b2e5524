# Regions over rows: softmax, normalizations, losses and reductions with the ops around them are one loop, with the bits that they give one
# after the other; what `opc show --what fusion` says of it.
# SPDX-License-Identifier: Apache-2.0
import json
import random
import shutil
import unittest

import numpy as np

from code_levels import SETTINGS
from plugin_build import build_plugin
from regions import BINARY, NUMPY, RUNTIME, UNARY, Graph, RegionCase, values

SHAPES = [(5, 2), (3, 7), (1, 300), (33, 65), (2, 3, 64), (4, 1000), (2, 5000), (700, 10), (40, 3001)]
PLUGIN = """#include "opc/RowsKernel.h"
#include "opc/Op.h"
using namespace opc;
using namespace opc::user_op;
template <class T> class CenteredKernel final : public RowFunctionKernel<T> {
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const Shape &shape = ctx.Desc("x").shape();
    RowFunction<T> f;
    const int64_t n = f.size = shape.At(1);
    f.rows = shape.At(0);
    f.inputs = {{"x", RowPart::kRow}};
    f.outputs = {{"y", RowPart::kRow}, {"mean", RowPart::kOne}};
    f.run = [n](const RowArguments<T> &a) {
      for (int64_t r = 0; r < a.count; ++r) {
        const T *x = a.x(0) + r * n;
        T sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += x[i];
        const T mean = sum / static_cast<T>(n);
        for (int64_t i = 0; i < n; ++i) a.out[0][r * n + i] = x[i] - mean;
        a.out[1][r] = mean;
      }
    };
    return f;
  }
};
REGISTER_USER_OP("centered").Input("x").Output("y").Output("mean").SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
  ctx->Out("mean") = TensorDesc(Shape({ctx->In("x").shape().At(0)}), ctx->In("x").data_type());
  return Maybe<void>::Ok();
}).Doc("y = x - mean of its rows.").Kernel<CenteredKernel, types::Floating>("x");
"""
EPSILON = 'attr { key: "epsilon" value { at_double: 1e-5 } }'


def axis_attrs(axes, keep):
    return f'attr {{ key: "axis" value {{ at_list_int32 {{ {" ".join(f"val: {a}" for a in axes)} }} }} }} attr {{ key: "keepdims" value {{ at_bool: {str(keep).lower()} }} }}'


class RowGraph(Graph):
    """With the ops that go by rows. `x` is (name, shape, dtype); rows are along the last axis."""

    def results(self, type, inputs, outputs, attrs=""):
        """Those of an op with several: outputs are (argument, shape, dtype)."""
        first = self.op(type, inputs, outputs[0][0], outputs[0][1], outputs[0][2], attrs)
        op = first[0].split("/")[0]
        return [(f"{op}/{name}_0", tuple(shape), dtype) for name, shape, dtype in outputs]

    def softmax(self, x):
        return self.op("softmax", [("in", x)], "out", x[1], x[2])

    def log_softmax(self, x):
        return self.op("log_softmax", [("in", x)], "prob", x[1], x[2])

    def softmax_grad(self, y, dy):
        return self.op("softmax_grad", [("y", y), ("dy", dy)], "dx", y[1], y[2])

    def log_softmax_grad(self, y, dy):
        return self.op("log_softmax_grad", [("prob", y), ("dy", dy)], "dx", y[1], y[2])

    def statistics(self, x):
        return x[1][:-1], "f64" if x[2] == "f64" else "f32"

    def layer_norm(self, x, gamma=None, beta=None):
        axis = len(x[1]) - 1
        attrs = f'{EPSILON} attr {{ key: "begin_norm_axis" value {{ at_int64: {axis} }} }} attr {{ key: "begin_params_axis" value {{ at_int64: {axis} }} }}'
        attrs += f' attr {{ key: "scale" value {{ at_bool: {str(bool(gamma)).lower()} }} }} attr {{ key: "center" value {{ at_bool: {str(bool(beta)).lower()} }} }}'
        inputs = [("x", x)] + ([("beta", beta)] if beta else []) + ([("gamma", gamma)] if gamma else [])
        shape, dtype = self.statistics(x)
        return self.results("layer_norm", inputs, [("y", x[1], x[2]), ("mean", shape, dtype), ("inv_variance", shape, dtype)], attrs)

    def layer_norm_grad(self, dy, x, mean, inverse, gamma=None):
        attrs = f'{EPSILON} attr {{ key: "begin_norm_axis" value {{ at_int64: {len(x[1]) - 1} }} }}'
        inputs = [("dy", dy), ("x", x), ("mean", mean), ("inv_variance", inverse)] + ([("gamma", gamma)] if gamma else [])
        return self.op("layer_norm_grad", inputs, "dx", x[1], x[2], attrs)

    def rms_norm(self, x, weight=None):
        attrs = f'attr {{ key: "normalized_shape" value {{ at_shape {{ dim: {x[1][-1]} }} }} }}'
        shape, dtype = self.statistics(x)
        return self.results("rms_norm", [("x", x)] + ([("weight", weight)] if weight else []), [("y", x[1], x[2]), ("inv_rms", shape, dtype)], attrs)

    def rms_norm_grad(self, dy, x, inverse, weight=None):
        return self.op("rms_norm_grad", [("dy", dy), ("x", x), ("inv_rms", inverse)] + ([("weight", weight)] if weight else []), "dx", x[1], x[2])

    def reduce(self, type, x, keep, count=1, dtype=None):
        axes = range(len(x[1]) - count, len(x[1]))
        shape = x[1][: len(x[1]) - count] + (1,) * (count if keep else 0)
        return self.op(type, [("input_tensor", x)], "output_tensor", shape, dtype or x[2], axis_attrs(axes, keep))

    def sparse_loss(self, x, label):
        return self.results("sparse_softmax_cross_entropy", [("prediction", x), ("label", label)], [("prob", x[1], x[2]), ("out", x[1][:-1], x[2])])

    def sparse_loss_grad(self, label, dy, prob):
        return self.op("sparse_softmax_cross_entropy_grad", [("label", label), ("dy", dy), ("prob", prob)], "prediction_diff", prob[1], prob[2])

    def dense_loss(self, x, label):
        return self.results("softmax_cross_entropy", [("prediction", x), ("label", label)], [("prob", x[1], x[2]), ("out", x[1][:-1], x[2])])

    def dense_loss_grad(self, label, dy, prob):
        return self.op("softmax_cross_entropy_grad", [("label", label), ("dy", dy), ("prob", prob)], "prediction_diff", prob[1], prob[2])

    def var(self, x, keep, unbiased):
        last = len(x[1]) - 1
        attrs = f'attr {{ key: "dim" value {{ at_list_int32 {{ val: {last} }} }} }} attr {{ key: "keepdim" value {{ at_bool: {str(keep).lower()} }} }}'
        attrs += f' attr {{ key: "unbiased" value {{ at_bool: {str(unbiased).lower()} }} }}'
        return self.op("var", [("input", x)], "output", x[1][:-1] + (1,) * keep, x[2], attrs)

    def nll(self, x, target, weight=None, ignore=-100):
        inputs = [("input", x), ("target", target)] + ([("weight", weight)] if weight else [])
        return self.results("nll", inputs, [("output", x[1][:-1], x[2]), ("out_weight", x[1][:-1], x[2])], f'attr {{ key: "ignore_index" value {{ at_int64: {ignore} }} }}')

    def nll_grad(self, dy, x, target, weight=None, ignore=-100):
        inputs = [("out_grad", dy), ("input", x), ("target", target)] + ([("weight", weight)] if weight else [])
        return self.op("nll_grad", inputs, "in_grad", x[1], x[2], f'attr {{ key: "ignore_index" value {{ at_int64: {ignore} }} }}')

    def l2_attrs(self, x, axis):
        return f'attr {{ key: "axis" value {{ at_int32: {axis % len(x[1])} }} }} attr {{ key: "epsilon" value {{ at_float: 1e-5 }} }}'

    def l2_normalize(self, x, axis=-1):
        sums = tuple(1 if a == axis % len(x[1]) else d for a, d in enumerate(x[1]))
        return self.results("l2_normalize", [("x", x)], [("y", x[1], x[2]), ("square_x_sum", sums, x[2])], self.l2_attrs(x, axis))

    def l2_normalize_grad(self, dy, y, sums, axis=-1):
        return self.op("l2_normalize_grad", [("dy", dy), ("y", y), ("square_x_sum", sums)], "dx", y[1], y[2], self.l2_attrs(y, axis))

    def dropout(self, x, rate, seed=0, add=None):
        attrs = f'attr {{ key: "rate" value {{ at_float: {rate} }} }} attr {{ key: "seed" value {{ at_int64: {seed} }} }}'
        inputs = [("in", x)] + ([("_add_to_output", add)] if add else [])
        return self.results("dropout", inputs, [("out", x[1], x[2]), ("mask", x[1], "bool")], attrs)

    def dropout_grad(self, dy, mask, scale):
        return self.op("dropout_grad", [("dy", dy), ("mask", mask)], "dx", dy[1], dy[2], f'attr {{ key: "scale" value {{ at_float: {scale} }} }}')


def every_op(shape, dtype, more=False):
    """Each op over rows between an op on what it reads and one on what it makes; bf16 by way of casts. `more`: those that the CPU alone has, too."""
    g = RowGraph()
    given = "f16" if dtype == "bf16" else dtype

    def input(shape):
        x = g.input(shape, given)
        return g.cast(x, dtype) if dtype == "bf16" else x

    def out(x):
        x = g.unary("negative", x)
        g.output(f"y{len(g.ops)}", g.cast(x, "f16") if x[2] == "bf16" else x)

    a, b = input(shape), input(shape)
    gamma, beta = input(shape[-1:]), input(shape[-1:])
    count = [0]

    def before(x):  # no two are equal
        count[0] += 1
        return g.binary(BINARY[count[0] % 4], x, g.cast(g.input((1,), given), dtype) if dtype == "bf16" else g.input((1,), given))

    out(g.softmax(before(a)))
    out(g.log_softmax(before(a)))
    out(g.softmax_grad(before(a), before(b)))
    out(g.log_softmax_grad(before(a), before(b)))
    for scale, shift in ((None, None), (gamma, beta), (gamma, None), (None, beta)):
        x = before(a)
        y, mean, inverse = g.layer_norm(x, scale, shift)
        out(y)
        out(mean)
        out(g.layer_norm_grad(before(b), x, mean, inverse, scale))
    for weight in (None, gamma):
        x = before(a)
        y, inverse = g.rms_norm(x, weight)
        out(y)
        out(g.rms_norm_grad(before(b), x, inverse, weight))
    label = g.input(shape[:-1], "i32")
    for forward, backward, target in ((g.sparse_loss, g.sparse_loss_grad, label), (g.dense_loss, g.dense_loss_grad, before(b))):
        prob, loss = forward(before(a), target)
        out(loss)
        out(backward(target, g.unary("abs", loss), prob))
    for type in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_nansum"):
        x = before(a)
        out(g.binary("broadcast_sub", x, g.unary("tanh", g.reduce(type, x, True))))
        out(g.reduce(type, before(a), False))
    if not more:
        return g
    for moment in (lambda x, keep: g.var(x, keep, keep), lambda x, keep: g.reduce("logsumexp", x, keep)):
        x = before(a)
        out(g.binary("broadcast_sub", x, g.unary("tanh", moment(x, True))))
        out(moment(before(a), False))
    for weight, ignore in ((None, -100), (gamma, 1)):
        x = before(a)
        loss, own = g.nll(x, label, weight, ignore)
        out(loss)
        out(own)
        out(g.nll_grad(g.unary("abs", loss), x, label, weight, ignore))
    x = before(a)
    loss = g.op("sparse_cross_entropy", [("prediction", x), ("label", label)], "out", shape[:-1], dtype)
    out(loss)
    out(g.op("sparse_cross_entropy_grad", [("prediction", x), ("label", label), ("dy", g.unary("abs", loss))], "prediction_diff", shape, dtype))
    y, sums = g.l2_normalize(before(a))
    out(y)
    out(g.l2_normalize_grad(before(b), y, sums))
    y, mask = g.dropout(before(a), 0.25, add=b)
    out(y)
    out(g.dropout_grad(before(b), mask, 1.25))
    return g


def random_rows(seed):
    """Ops over rows and over elements of one shape, row results that go back into the rows, and ops in between that nothing joins."""
    pick = random.Random(seed)
    g = RowGraph()
    shape, dtype = pick.choice(SHAPES), pick.choice(["f32", "f32", "f64", "f16"])
    full, ones = [g.input(shape, dtype), g.input(shape, dtype)], [g.input(shape[:-1] + (1,), dtype)]
    small = [g.input((1,), dtype), g.input(shape[-1:], dtype), g.input((), dtype)]
    for _ in range(pick.randint(4, 24)):
        x, y, kind = pick.choice(full[-4:]), pick.choice(full[-5:]), pick.random()
        if kind < 0.2:
            full.append(g.unary(pick.choice(list(UNARY)), x))
        elif kind < 0.5:
            full.append(g.binary(pick.choice(BINARY), *pick.sample([x, pick.choice([y, *ones, *small])], 2)))
        elif kind < 0.6:
            ones.append(g.reduce(pick.choice(["reduce_sum", "reduce_mean", "reduce_max"]), x, True))
        elif kind < 0.7:
            ones.append(g.binary(pick.choice(BINARY), pick.choice(ones), pick.choice([*ones, small[0]])))
        elif kind < 0.9:
            norm = lambda: g.layer_norm(x, *pick.choice([(), (small[1], small[1])]))[0]
            full.append(pick.choice([lambda: g.softmax(x), lambda: g.log_softmax(x), norm, lambda: g.rms_norm(x)[0], lambda: g.softmax_grad(x, y)])())
        else:
            full.append(g.op("flip", [("x", x)], "y", x[1], x[2], 'attr { key: "dims" value { at_list_int32 { val: 0 } } }'))
    g.output("last", full[-1])
    g.output("ones", ones[-1])
    for i, x in enumerate(pick.sample(full[2:], min(2, len(full) - 2))):
        g.output(f"also{i}", g.unary("negative", x))
    return g


class RowCase(RegionCase):
    """Without machine code, where nothing else is said."""

    def write(self, g, rng, classes=2):
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(g.text())
        given = {name: values(rng, shape, dtype) if dtype != "i32" else rng.integers(0, classes, shape, np.int32) for name, (shape, dtype) in g.inputs.items()}
        np.savez(self.path("in.npz"), **given)

    def fusion(self, *args, level="none"):
        return super().fusion(*args, level=level)

    def same_bits(self, levels=("none", *SETTINGS)):
        want = self.outputs("--no-fuse", "-j", "1")
        for args in (("-j", "1"), ("-j", "2")):
            for level in levels:
                self.assertEqual(self.outputs(*args, level=level), want, (args, level))
        self.opc("compile", "g.pbtxt", "-o", "g.plan")
        self.assertEqual(self.outputs("-j", "2", program=RUNTIME, what="g.plan"), want)

    def same_in_less_memory(self, g, seed):
        """The types of the graph's ops, whose regions have the bits of the ops alone and take no more memory."""
        self.write(g, np.random.default_rng(seed))
        self.same_bits()
        memory = []
        for args in ((), ("--no-fuse",)):
            self.opc("compile", "g.pbtxt", "-o", "m.plan", *args)
            memory.append(json.loads(self.opc("show", "m.plan", "--what", "memory", "--json").stdout)["memory"]["activation_bytes"])
        self.assertLessEqual(memory[0], memory[1])
        return dict(line.split('"')[1:4:2] for line in g.text().split("\n") if "user_conf" in line)

    def reasons(self, g, **more):
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(g.text())
        return {(b["from"], b["to"]): b["reason"] for b in self.fusion(**more)["boundaries"]}


class RowRegions(RowCase):
    def test_every_op(self):
        for i, shape in enumerate(SHAPES):
            for dtype in ("f32", "f64", "f16", "bf16"):
                if dtype != "f32" and shape[-1] > 1000:
                    continue
                with self.subTest(shape=shape, dtype=dtype):
                    self.write(every_op(shape, dtype, more=True), np.random.default_rng(i), shape[-1])
                    self.same_bits(("none", *SETTINGS) if shape[-1] < 3000 else ("none", SETTINGS[-1]))
                    fusion = self.fusion()
                    alone = {op["type"] for op in fusion["alone"]} - {"negative", "cast", "abs"}
                    # One row of 5000, and 40 of 3001, are for a thread each; what is alone is what is joined elsewhere.
                    self.assertEqual(alone, set(), fusion["boundaries"])

    def test_random_graphs(self):
        joined = 0
        for seed in range(24):
            with self.subTest(seed=seed):
                types = self.same_in_less_memory(random_rows(seed), seed)
                elements = {*UNARY, *BINARY}
                joined += any({types[op] for op in r["ops"]} - elements for r in self.fusion()["regions"])
        self.assertGreater(joined, 15)

    def test_labels_are_checked(self):
        """Before any row is computed, as alone, with the same words."""
        g = RowGraph()
        x, label = g.input((6, 5), "f32"), g.input((6,), "i32")
        prob, loss = g.sparse_loss(g.unary("tanh", x), label)
        g.output("loss", g.unary("negative", loss))
        self.write(g, np.random.default_rng(0))
        self.assertEqual(len(self.fusion()["regions"]), 1)
        np.savez(self.path("in.npz"), in0=np.zeros((6, 5), np.float32), in1=np.array([0, 1, 4, 5, 9, 0], np.int32))
        for args in ((), ("--no-fuse",)):
            self.assertIn("label[3] = 5 is outside [0, 5)", self.opc("run", "g.pbtxt", "--inputs", "in.npz", *args, code=5).stderr)

    def test_labels_that_are_ignored(self):
        """Others than the classes, and than the one to ignore, are refused in a region, too."""
        g = RowGraph()
        x, target = g.input((6, 5), "f32"), g.input((6,), "i32")
        g.output("loss", g.unary("negative", g.nll(g.log_softmax(x), target, ignore=7)[0]))
        self.write(g, np.random.default_rng(0))
        self.assertEqual([len(r["ops"]) for r in self.fusion()["regions"]], [3])
        x = np.random.default_rng(1).standard_normal((6, 5)).astype(np.float32)
        np.savez(self.path("in.npz"), in0=x, in1=np.array([0, 7, 4, 3, 7, 0], np.int32))
        self.same_bits()
        with np.load(self.path("out.npz")) as z:
            logs = x.astype(np.float64) - np.log(np.exp(x.astype(np.float64)).sum(1, keepdims=True))
            np.testing.assert_allclose(z["loss"], [logs[0, 0], 0, logs[2, 4], logs[3, 3], 0, logs[5, 0]], rtol=1e-6)
        np.savez(self.path("in.npz"), in0=x, in1=np.array([0, 7, 4, 5, 7, 0], np.int32))
        for args in ((), ("--no-fuse",)):
            self.assertIn("target[3] = 5 is outside [0, 5), the range of the classes, and is not ignore_index (7)", self.opc("run", "g.pbtxt", "--inputs", "in.npz", *args, code=5).stderr)

    def test_dropout(self):
        """The same elements are dropped for any threads, tiles and levels, as in the op by itself; others in the next step, and for another seed."""
        for shape in ((7, 3), (33, 65), (2, 3, 64), (700, 10), (40, 3001)):
            for dtype in ("f32", "f64", "f16"):
                with self.subTest(shape=shape, dtype=dtype):
                    g = RowGraph()
                    x, b = g.input(shape, dtype), g.input(shape, dtype)
                    for i in range(2):  # equal but for their names, and so of other numbers
                        y, mask = g.dropout(g.unary("tanh", g.binary("broadcast_add", x, b)), 0.25, add=b if i else None)
                        g.output(f"y{i}", g.unary("negative", y))
                        g.output(f"mask{i}", mask)
                    y, mask = g.dropout(g.softmax(x), 0.5)
                    g.output("z", g.dropout_grad(y, mask, 2.0))
                    self.write(g, np.random.default_rng(0))
                    given = {name: np.random.default_rng(i).standard_normal(shape).astype(NUMPY[dtype]) for i, name in enumerate(g.inputs)}
                    np.savez(self.path("in.npz"), **given)
                    types = {op["type"] for op in self.fusion()["alone"]}
                    self.assertEqual(types, set(), self.fusion())
                    self.same_bits()
                    masks = []
                    for args in ((), ("--repeat", "3"), ("--seed", "5"), ("--seed", "5", "--no-fuse", "--repeat", "3")):
                        self.outputs("-j", "2", *args)
                        with np.load(self.path("out.npz")) as z:
                            masks.append((z["mask0"], z["mask1"]))
                            x, b = (given[name].astype(np.float64) for name in g.inputs)
                            want = -np.where(z["mask1"], np.tanh(x + b) / 0.75, 0) - b
                            np.testing.assert_allclose(z["y1"], want, rtol=1e-2 if dtype == "f16" else 1e-5, atol=1e-2 if dtype == "f16" else 1e-5)
                    self.outputs("-j", "2", "--seed", "5", "--repeat", "3")
                    with np.load(self.path("out.npz")) as z:
                        np.testing.assert_array_equal(z["mask0"], masks[3][0])
                    self.assertTrue(all((a[0] != b[0]).any() and (a[0] != a[1]).any() for a, b in zip(masks, masks[1:])))
                    if np.prod(shape) > 1000:
                        self.assertAlmostEqual(masks[0][0].mean(), 0.75, delta=0.05)

    def test_draws_that_nobody_reads(self):
        """An op that draws stays where nobody reads it, and so does what it reads: no loop is of these alone."""
        g = RowGraph()
        x = g.input((20, 30), "f32")
        g.dropout(g.binary("broadcast_mul", g.unary("tanh", x), x), 0.25)
        g.dropout(x, 0.5)
        read = g.unary("abs", x)
        g.dropout(g.unary("negative", read), 0.5)  # beside one that others read they may be
        g.output("y", g.unary("exp", read))
        self.write(g, np.random.default_rng(0))
        x = np.random.default_rng(1).standard_normal((20, 30)).astype(np.float32)
        np.savez(self.path("in.npz"), in0=x)
        self.same_bits()
        with np.load(self.path("out.npz")) as z:
            np.testing.assert_allclose(z["y"], np.exp(np.abs(x.astype(np.float64))), rtol=1e-6)
        alone = {op["op"]: op["reasons"] for op in self.fusion()["alone"]}
        self.assertEqual((alone["op3"], alone["op4"]), (["unread"], ["no_neighbour"]))

    def test_tensors_inside(self):
        """Traps and ends at a tensor that a region does not write: its name, its place, and the numbers of numpy."""
        g = RowGraph()
        x = g.input((3, 4), "f32")
        g.output("y", g.unary("abs", g.op("log", [("x", g.unary("relu", g.softmax(x)))], "y", x[1], x[2])))
        self.write(g, np.random.default_rng(0))
        self.assertEqual([r["ops"] for r in self.fusion()["regions"]], [["op1", "op2", "op3", "op4"]])
        given = np.arange(12, dtype=np.float32).reshape(3, 4) / 4
        given[1] = [0, 200, 0, 200]  # two probabilities are 0
        np.savez(self.path("in.npz"), in0=given)
        shifted = np.exp(given.astype(np.float64) - given.max(1, keepdims=True))
        with np.errstate(divide="ignore"):
            want = np.log((shifted / shifted.sum(1, keepdims=True)).astype(np.float32))
        for level in ("none", "v3"):
            for until in ("op3/y_0", "op3"):
                self.outputs("--until", until, level=level)
                with np.load(self.path("out.npz")) as z:
                    np.testing.assert_allclose(z[z.files[0]], want, rtol=1e-5, atol=1e-6)
            said = self.opc("run", "g.pbtxt", "--inputs", "in.npz", "--trap", "inf", "--print", "none", code=5, level=level).stderr
            self.assertIn("op3/y_0[1, 0] is -inf; 2 of 12 values of f32[3,4] are trapped", said)
            self.assertIn("running op op3 at g.pbtxt:4", said)
            shutil.rmtree(self.path("opc-trap-op3"))

    def test_what_fusion_says(self):
        g = RowGraph()
        x = g.input((32, 64), "f32")
        y = g.layer_norm(g.binary("broadcast_add", x, g.unary("tanh", x)))[0]
        rolled = g.op("roll", [("in", y)], "out", y[1], y[2], 'attr { key: "shifts" value { at_list_int32 { val: 1 } } }')
        g.output("y", g.unary("exp", g.op("roll", [("in", rolled)], "out", rolled[1], rolled[2], 'attr { key: "shifts" value { at_list_int32 { val: 1 } } }')))
        self.write(g, np.random.default_rng(0))
        fusion = self.fusion(level="v3")
        size = 32 * 64 * 4
        # One by one: tanh 2, add 3, layer_norm 2 tensors and the statistics; together x is read and y written.
        self.assertEqual(fusion["regions"], [{"ops": ["op1", "op2", "op3"], "bytes_moved": 2 * size, "bytes_saved": 5 * size + 2 * 32 * 4, "code": True}])
        self.assertEqual([(op["op"], op["reasons"]) for op in fusion["alone"]], [("op4", ["no_loop"]), ("op5", ["no_loop"]), ("op6", ["no_neighbour"])])
        self.assertEqual(fusion["boundaries"], [])
        self.assertEqual(self.fusion()["regions"][0]["why_no_code"], "this opc makes no machine code here")
        text = self.opc("show", "g.pbtxt", "--what", "fusion").stdout
        self.assertIn("1 region of 3 ops", text)
        self.assertRegex(text, r"\nno_loop +its kernel has no loop that others can join\n")
        table = self.opc("show", "g.pbtxt", "--what", "fusion", "--as", "csv").stdout.splitlines()
        self.assertEqual(table[0], "op,type,reasons")

    def test_boundaries(self):
        g = RowGraph()  # a broadcast: the reader's loop is another
        x = g.unary("exp", g.input((8,), "f32"))
        g.output("y", g.binary("broadcast_add", x, g.input((4, 8), "f32")))
        self.assertEqual(self.reasons(g), {("op1", "op2"): "shape"})
        g = RowGraph()  # rows of 8, and of 32
        x = g.softmax(g.input((64, 4, 8), "f32"))
        g.output("y", g.reduce("reduce_sum", x, False, count=2))
        self.assertEqual(self.reasons(g), {("op1", "op2"): "rows"})
        g = RowGraph()  # sums of rows, for all elements of other rows
        x = g.input((8, 8), "f32")
        y = g.reduce("reduce_sum", x, False)
        g.output("y", g.binary("broadcast_add", g.softmax(g.unary("exp", x)), y))
        self.assertIn("access", self.reasons(g).values())
        g = RowGraph()  # a roll in between
        x = g.unary("exp", g.input((4, 8), "f32"))
        y = g.op("roll", [("in", x)], "out", x[1], x[2], 'attr { key: "shifts" value { at_list_int32 { val: 1 } } }')
        g.output("y", g.binary("broadcast_add", x, y))
        self.assertEqual(self.reasons(g), {("op1", "op3"): "cycle"})
        g = RowGraph()  # a flip, which the loop could read through, of what is read as it is, too
        x = g.unary("exp", g.input((4, 8), "f32"))
        y = g.op("flip", [("x", x)], "y", x[1], x[2], 'attr { key: "dims" value { at_list_int32 { val: 0 } } }')
        g.output("y", g.binary("broadcast_add", x, y))
        self.assertEqual(self.reasons(g)["op1", "op3"], "access")
        g = RowGraph()  # two rows for two threads, and a long one
        for shape in ((2, 40000), (32, 200000)):
            g.output(f"y{shape[0]}", g.softmax(g.unary("exp", g.input(shape, "f32"))))
        self.assertEqual(self.reasons(g), {("op1", "op2"): "length", ("op3", "op4"): "length"})
        g = RowGraph()
        x = g.input((4,), "f32")
        for _ in range(65):
            x = g.unary("tanh", x)
        g.output("y", x)
        self.assertEqual(self.reasons(g), {("op64", "op65"): "ops"})
        g = RowGraph()
        x = g.input((4,), "f32")
        for _ in range(20):
            x = g.binary("broadcast_add", x, g.input((4,), "f32"))
        g.output("y", x)
        self.assertEqual(set(self.reasons(g).values()), {"tensors"})

    def test_kernels_of_plugins(self):
        """A RowFunction between built-in ops: one region, with the numbers of numpy."""
        build_plugin(self.path("libcentered.so"), PLUGIN, "-O1")
        for dtype in ("f32", "f16"):
            g = RowGraph()
            x = g.input((37, 50), dtype)
            y, mean = g.results("centered", [("x", g.unary("square", x))], [("y", x[1], dtype), ("mean", (37,), dtype)])
            g.output("y", g.unary("negative", y))
            g.output("mean", g.unary("negative", mean))
            self.write(g, np.random.default_rng(0))
            x = np.random.default_rng(1).standard_normal((37, 50)).astype(NUMPY[dtype])
            np.savez(self.path("in.npz"), in0=x)
            plugin = ("--plugin", "./libcentered.so")
            self.assertEqual([sorted(r["ops"]) for r in self.fusion(*plugin)["regions"]], [["op1", "op2", "op3", "op4"]])
            want = self.outputs("--no-fuse", "-j", "1", *plugin)
            self.assertEqual(self.outputs("-j", "2", *plugin), want)
            with np.load(self.path("out.npz")) as z:
                square = np.square(x).astype(np.float64)
                np.testing.assert_allclose(z["y"], square.mean(1, keepdims=True) - square, rtol=2e-3 if dtype == "f16" else 1e-5, atol=2e-3 if dtype == "f16" else 1e-5)

    def test_no_regions(self):
        """A graph without neighbours, and an empty one, say so."""
        g = RowGraph()
        g.output("y", g.unary("exp", g.input((4,), "f32")))
        self.write(g, np.random.default_rng(0))
        self.assertEqual(self.fusion(), {"regions": [], "parts": [], "alone": [{"op": "op1", "type": "exp", "reasons": ["no_neighbour"]}], "boundaries": [], "graphs": []})
        g = RowGraph()
        g.output("y", g.input((4,), "f32"))
        self.write(g, np.random.default_rng(0))
        self.assertEqual(self.fusion(), {"regions": [], "parts": [], "alone": [], "boundaries": [], "graphs": []})


if __name__ == "__main__":
    unittest.main()
