# An op that fails inside a region, or in a task of several updates, is the one that the error names, with its own line: with loops, with
# machine code, with threads, and by opc-runtime.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import unittest

import numpy as np

from code_levels import SETTINGS
from folder_test import FolderTest
from plugin_build import build_plugin

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
RUNTIME = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-runtime")
# One op over rows that refuses negative numbers, and an update that refuses those that are not numbers.
PLUGIN = """#include "opc/Op.h"
#include "opc/PieceTask.h"
#include "opc/RowsKernel.h"
#include <cmath>
using namespace opc;
using namespace opc::user_op;
template <class T> class PositiveKernel final : public RowFunctionKernel<T> {
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    RowFunction<T> f;
    const int64_t n = f.size = ctx.Desc("x").shape().At(1);
    f.rows = ctx.Desc("x").shape().At(0);
    f.inputs = {{"x", RowPart::kRow}};
    f.outputs = {{"y", RowPart::kRow}};
    f.run = [n](const RowArguments<T> &a) {
      for (int64_t i = 0; i < a.count * n; ++i) {
        CHECK(a.x(0)[i] >= 0) << "row " << a.first + i / n << " has a negative number";
        a.out[0][i] = a.x(0)[i];
      }
    };
    return f;
  }
};
REGISTER_USER_OP("positive").Input("x").Output("y").SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
  ctx->Out("y") = ctx->In("x");
  return Maybe<void>::Ok();
}).Doc("y = x, where no x is negative.").Kernel<PositiveKernel, types::Of<float>>("x");

template <class T> class FiniteKernel final : public BindingKernel, public PieceKernel {
  struct Task final : PieceTask {
    T *model;
    const T *diff;
    int64_t n;
    int64_t Pieces() const override { return n; }
    void RunPieces(int64_t begin, int64_t end) const override {
      for (int64_t i = begin; i < end; ++i) {
        CHECK(std::isfinite(diff[i])) << "element " << i << " is not finite";
        model[i] -= diff[i];
      }
    }
  };
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    auto task = std::make_unique<Task>();
    task->model = ctx->Out("model").mut_dptr<T>();
    task->diff = ctx->In("diff").dptr<T>();
    task->n = ctx->Desc("model").shape().elem_cnt();
    return task;
  }
};
REGISTER_USER_OP("finite_update").Input("model").Input("diff").Doc("model -= diff, where every diff is finite.")
    .SetInputArgModifyFn([](GetInputArgModifier get, const UserOpConfWrapper &) { get("model", 0)->set_is_mutable(true); })
    .SetTensorDescInferFn([](InferContext *) -> Maybe<void> { return Maybe<void>::Ok(); })
    .Kernel<FiniteKernel, types::Of<float>>("model");
"""


def op(name, kind, inputs, attrs=""):
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" ' + "".join(f'input {{ key: "{k}" value {{ s: "{t}" }} }} ' for k, t in inputs) + attrs + "} }"


def source(name, dims, kind="kFloat"):
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {" ".join(f"dim: {d}" for d in dims)} }} data_type: {kind} }} }} }}'


def output(tensor):
    return f'op {{ name: "end" output_conf {{ in: "{tensor}" }} }}'


ENTROPY = op("c", "sparse_softmax_cross_entropy", [("prediction", "t/y_0"), ("label", "label/out")], 'attr { key: "depth" value { at_int64: 8 } }')


class RegionErrors(FolderTest):
    def setUp(self):
        super().setUp()
        self.x = np.random.default_rng(1).standard_normal((64, 8)).astype(np.float32)
        self.label = np.arange(64, dtype=np.int32) % 8

    def opc(self, *args, level=None, **more):
        return super().opc(*args, env={**os.environ, "OPC_CODE_LEVEL": level} if level else None, **more)

    def regions(self, *flags):
        return [sorted(r["ops"]) for r in json.loads(self.opc("show", "g.pbtxt", "--what", "fusion", "--json", *flags).stdout)["fusion"]["regions"]]

    def expect(self, graph, region, values, message, op, line, flags=()):
        """The graph has that region; with those values it ends with the message, of that op on that line, whoever runs it. What
        `--no-fuse` says is the same."""
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write("\n".join(graph) + "\n")
        np.savez(self.path("in.npz"), **values)
        self.assertEqual(self.regions(*flags), [region] if region else [])
        self.opc("compile", "g.pbtxt", "-o", "g.plan", *flags)
        runs = [(OPC, ("run", what, *more), level) for what in ("g.pbtxt", "g.plan") for more, level in ((("--no-codegen",), None), *(((), level) for level in SETTINGS))]
        runs += [(OPC, ("run", "g.pbtxt", "--no-fuse"), None), (RUNTIME, ("g.plan",), None)]
        for program, args, level in runs:
            for threads in ("1", "2"):
                with self.subTest(program=os.path.basename(program), args=args, level=level, threads=threads):
                    said = self.opc(*args, "--inputs", "in.npz", "-j", threads, *flags, program=program, level=level, code=5).stderr
                    self.assertIn(f"error[OPC0601]: {message}", said)
                    self.assertIn(f"running op {op} at g.pbtxt:{line}:1", said)
                    self.assertNotIn("opc.fused", said)

    def test_labels(self):
        graph = [source("x", (64, 8)), source("label", (64,), "kInt32"), op("t", "tanh", [("x", "x/out")]), ENTROPY, op("s", "relu", [("x", "c/out_0")]), output("s/y_0")]
        self.label[17] = 9
        self.expect(graph, ["c", "s", "t"], {"x": self.x, "label": self.label}, "sparse_softmax_cross_entropy: label[17] = 9 is outside [0, 8)", "c", 4)

    def test_labels_of_a_gradient(self):
        """Two ops of a region look at labels of their own: the one that finds a wrong one is named."""
        graph = [source("x", (64, 8)), source("label", (64,), "kInt32"), source("other", (64,), "kInt32"), op("t", "tanh", [("x", "x/out")]), ENTROPY,
                 op("g", "sparse_softmax_cross_entropy_grad", [("dy", "c/out_0"), ("label", "other/out"), ("prob", "c/prob_0")], 'attr { key: "depth" value { at_int64: 8 } }'),
                 op("s", "relu", [("x", "g/prediction_diff_0")]), output("s/y_0")]
        other = self.label.copy()
        other[3] = -1
        self.expect(graph, ["c", "g", "s", "t"], {"x": self.x, "label": self.label, "other": other},
                    "sparse_softmax_cross_entropy_grad: label[3] = -1 is outside [0, 8)", "g", 6)

    def test_behind_a_move(self):
        """An op that only moves elements is in the region and no step of its loop."""
        graph = [source("x", (8, 64)), source("label", (64,), "kInt32"),
                 op("m", "transpose", [("input", "x/out")], 'attr { key: "perm" value { at_list_int32 { val: 1 val: 0 } } }'),
                 op("t", "tanh", [("x", "m/output_0")]), ENTROPY, op("s", "relu", [("x", "c/out_0")]), output("s/y_0")]
        self.label[63] = 8
        self.expect(graph, ["c", "m", "t"], {"x": self.x.T, "label": self.label}, "sparse_softmax_cross_entropy: label[63] = 8 is outside [0, 8)", "c", 5)

    def test_beside_a_region(self):
        """What no region takes names itself, as before."""
        graph = [source("x", (64, 8)), source("i", (4,), "kInt32"), op("t", "tanh", [("x", "x/out")]), op("u", "exp", [("x", "t/y_0")]),
                 op("g", "gather", [("in", "u/y_0"), ("indices", "i/out")], 'attr { key: "axis" value { at_int64: 0 } }'), output("g/out_0")]
        self.expect(graph, ["t", "u"], {"x": self.x, "i": np.array([0, 63, 64, 1], np.int32)}, "gather: indices[2] = 64 is outside", "g", 5)

    def plugin(self):
        build_plugin(self.path("libp.so"), PLUGIN, "-O1")
        return ("--plugin", "./libp.so")

    def test_rows_that_throw(self):
        """A plugin's loop over rows that throws while it runs, on one of several threads."""
        plugin = self.plugin()
        graph = [source("x", (4096, 64)), op("a", "negative", [("x", "x/out")]), op("b", "abs", [("x", "a/y_0")]), op("p", "positive", [("x", "a/y_0")]),
                 op("q", "positive", [("x", "b/y_0")]), op("s", "broadcast_add", [("x", "p/y_0"), ("y", "q/y_0")]), output("s/z_0")]
        x = np.full((4096, 64), -1, np.float32)
        x[3000, 5] = 1
        self.expect(graph, ["a", "b", "p", "q", "s"], {"x": x}, "positive: check failed: a.x(0)[i] >= 0: row 3000 has a negative number", "p", 4, plugin)

    def test_updates(self):
        """Three updates are one task; the second one throws."""
        plugin = self.plugin()
        variable = 'op {{ name: "{0}" variable_conf {{ out: "out" shape {{ dim: 64 dim: 8 }} data_type: kFloat initializer {{ constant_conf {{ value: 1 }} }} }} }}'
        graph = [source("x", (64, 8)), source("y", (64, 8)), *(variable.format(v) for v in "vwz"),
                 op("a", "finite_update", [("model", "v/out"), ("diff", "x/out")]), op("b", "finite_update", [("model", "w/out"), ("diff", "y/out")]),
                 op("c", "finite_update", [("model", "z/out"), ("diff", "x/out")]), output("x/out")]
        self.y = self.x.copy()
        self.y[3, 5] = np.inf
        self.expect(graph, ["a", "b", "c"], {"x": self.x, "y": self.y}, "finite_update: check failed: std::isfinite(diff[i]): element 29 is not finite", "b", 7, plugin)


if __name__ == "__main__":
    unittest.main()
