# Ops that ONNX has no form for, exported as nodes of the domain opc and read back: the same bits, and numpy's numbers.
# SPDX-License-Identifier: Apache-2.0
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from plugin_build import build_plugin

SOURCE = os.environ["OPC_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "onnx"))
import messages as m  # noqa: E402

OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
F32 = np.float32
# y = (x + sum of more) scale; rest = x - y; seen: every attribute as numbers.
OPS = r'''
#include "oneflow/core/framework/framework.h"
namespace oneflow {
namespace {
Maybe<void> infer(user_op::InferContext *ctx) {
  for (const char *out : {"y", "rest"})
    if (ctx->has_output(out, 0)) {
      *ctx->Shape4ArgNameAndIndex(out, 0) = *ctx->Shape4ArgNameAndIndex("x", 0);
      *ctx->Dtype4ArgNameAndIndex(out, 0) = *ctx->Dtype4ArgNameAndIndex("x", 0);
    }
  *ctx->Shape4ArgNameAndIndex("seen", 0) = Shape({32});
  *ctx->Dtype4ArgNameAndIndex("seen", 0) = DataType::kDouble;
  return Maybe<void>::Ok();
}
class Mix final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0), *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    user_op::Tensor *scale = ctx->Tensor4ArgNameAndIndex("scale", 0), *rest = ctx->Tensor4ArgNameAndIndex("rest", 0);
    for (int64_t i = 0; i < x->shape().elem_cnt(); ++i) {
      float sum = x->dptr<float>()[i];
      for (int32_t k = 0; k < ctx->user_op_conf().input_size("more"); ++k)
        sum += ctx->Tensor4ArgNameAndIndex("more", k)->dptr<float>()[i];
      y->mut_dptr<float>()[i] = scale ? sum * scale->dptr<float>()[i] : sum;
      if (rest) rest->mut_dptr<float>()[i] = x->dptr<float>()[i] - y->dptr<float>()[i];
    }
    double *seen = ctx->Tensor4ArgNameAndIndex("seen", 0)->mut_dptr<double>();
    const double *const end = seen + 32;
    const auto add = [&](double v) { *seen++ = v; };
    add(ctx->Attr<double>("exact"));
    add(ctx->Attr<double>("plain"));
    add(ctx->Attr<float>("real"));
    add(ctx->Attr<int32_t>("narrow"));
    add(static_cast<double>(ctx->Attr<int64_t>("wide") >> 32));
    add(ctx->Attr<bool>("flag"));
    add(static_cast<double>(ctx->Attr<DataType>("type")));
    for (char c : ctx->Attr<std::string>("text")) add(static_cast<unsigned char>(c));
    for (int64_t d : ctx->Attr<Shape>("shape").dim_vec()) add(static_cast<double>(d));
    for (int32_t v : ctx->Attr<std::vector<int32_t>>("narrows")) add(v);
    for (int64_t v : ctx->Attr<std::vector<int64_t>>("wides")) add(static_cast<double>(v));
    for (float v : ctx->Attr<std::vector<float>>("reals")) add(v);
    for (DataType v : ctx->Attr<std::vector<DataType>>("types")) add(static_cast<double>(v));
    for (const Shape &s : ctx->Attr<std::vector<Shape>>("shapes")) { add(100 + s.NumAxes()); for (int64_t d : s.dim_vec()) add(static_cast<double>(d)); }
    for (const std::string &s : ctx->Attr<std::vector<std::string>>("texts")) add(static_cast<double>(s.size()));
    while (seen < end) add(-1);
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_OP("mix").Input("x").InputWithMinimum("more", 1).OptionalInput("scale")
    .Output("y").OptionalOutput("rest").Output("seen")
    .Attr<double>("exact", 0).Attr<double>("plain", 0).Attr<float>("real", 0).Attr<int32_t>("narrow", 0).Attr<int64_t>("wide", 0)
    .Attr<bool>("flag", false).Attr<DataType>("type", DataType::kFloat).Attr<std::string>("text", "").Attr<Shape>("shape", Shape({}))
    .Attr<std::vector<int32_t>>("narrows", {}).Attr<std::vector<int64_t>>("wides", {}).Attr<std::vector<float>>("reals", {})
    .Attr<std::vector<DataType>>("types", {}).Attr<std::vector<Shape>>("shapes", {}).Attr<std::vector<std::string>>("texts", {})
    .SetTensorDescInferFn(infer);
REGISTER_USER_KERNEL("mix").SetCreateFn<Mix>().SetIsMatchedHob(user_op::HobDeviceType() == DeviceType::kCPU);
class Nothing final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *) const override {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_OP("two_lists").Input("x").InputWithMinimum("a", 1).InputWithMinimum("b", 1).Output("y").Output("seen").SetTensorDescInferFn(infer);
REGISTER_USER_OP("writes").Input("x").Output("y").Output("seen").SetTensorDescInferFn(infer)
    .SetInputArgModifyFn([](user_op::GetInputArgModifier get, const user_op::UserOpConfWrapper &) -> Maybe<void> {
      get("x", 0)->set_is_mutable(true);
      return Maybe<void>::Ok();
    });
REGISTER_USER_KERNEL("writes").SetCreateFn<Nothing>().SetIsMatchedHob(user_op::HobDeviceType() == DeviceType::kCPU);
} // namespace
} // namespace oneflow
'''
ATTRS = {"exact": "at_double: 0.1", "plain": "at_double: 0.5", "real": "at_float: 0.1", "narrow": "at_int32: -7", "wide": f"at_int64: {5 << 32}",
         "flag": "at_bool: true", "type": "at_data_type: kDouble", "text": r'at_string: "a\377"', "shape": "at_shape { dim: 2 dim: 3 }",
         "narrows": "at_list_int32 { val: -1 val: 4 }", "wides": f"at_list_int64 {{ val: {1 << 40} }}", "reals": "at_list_float { val: 0.3 }",
         "types": "at_list_data_type { val: kInt8 val: kFloat16 }", "shapes": "at_list_shape { val { dim: 9 } val { } }",
         "texts": 'at_list_string { val: "four" val: "" }'}
NUMBERS = {"kFloat": 2, "kDouble": 3, "kInt8": 4, "kFloat16": 9}  # of proto/graph.proto
SEEN = [0.1, 0.5, float(F32(0.1)), -7, 5, 1, NUMBERS["kDouble"], ord("a"), 255, 2, 3, -1, 4, 2.0 ** 40, float(F32(0.3)), NUMBERS["kInt8"],
        NUMBERS["kFloat16"], 101, 9, 100, 4, 0]
VALUES = {n: np.random.default_rng(k).standard_normal(4).astype(F32) for k, n in enumerate("xabs")}


def given(name):
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 4 }} data_type: kFloat }} }} }}\n'


def op(name, kind, inputs, outputs, attrs=""):
    bound = "".join(f'input {{ key: "{k}" value {{ {" ".join(f"""s: "{t}" """ for t in v)} }} }} ' for k, v in inputs.items())
    bound += "".join(f'output {{ key: "{k}" value {{ s: "{name}/{k}_0" }} }} ' for k in outputs)
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {bound} {attrs} }} }}\n'


def taken(name, tensor):
    return f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}\n'


def mix(inputs, outputs, attrs=()):
    text = " ".join(f'attr {{ key: "{a}" value {{ {ATTRS[a]} }} }}' for a in attrs)
    return "".join(given(n) for n in "xabs") + op("the mix", "mix", inputs, outputs, text) + "".join(
        taken("out_" + n, f"the mix/{n}_0") for n in outputs)


class Exported(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="onnx_export")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        build_plugin(cls.path("libmix.so"), OPS, "-w")
        np.savez(cls.path("in.npz"), **VALUES)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def opc(self, *args, code=0, plugin=True):
        done = subprocess.run([OPC, *args, *(["--plugin", "libmix.so"] if plugin else [])], capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def write(self, text):
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(text)

    def values(self, graph, **more):
        self.opc("run", graph, "--inputs", "in.npz", "--outputs", "out.npz", **more)
        return dict(np.load(self.path("out.npz")))

    def exported(self, text, **more):
        """The nodes, and what graph and model give, which are the same bits."""
        self.write(text)
        said = self.opc("compile", "g.pbtxt", "--emit", "onnx", "-o", "out.onnx", **more).stderr
        self.assertRegex(said, "note: 1 node of the domain opc, which opc alone runs")
        a, b = self.values("g.pbtxt", **more), self.values("out.onnx", **more)
        self.assertEqual({k: v.tobytes() for k, v in a.items()}, {k: v.tobytes() for k, v in b.items()})
        # And what is exported of the import is the same node again.
        self.opc("compile", "out.onnx", "--emit", "onnx", "-o", "again.onnx", **more)
        nodes, again = self.nodes("out.onnx"), self.nodes("again.onnx")
        self.assertEqual(nodes, again)
        return nodes, a

    def nodes(self, name):
        with open(self.path(name), "rb") as f:
            model = list(m.fields(f.read()))
        graph = dict(m.fields(next(v for k, v in model if k == 7)))
        sets = [dict(m.fields(v)) for k, v in model if k == 8]
        self.assertIn({1: b"opc", 2: 1}, sets)
        found = []
        for k, v in m.fields(next(v for k, v in model if k == 7)):
            if k != 1:
                continue
            parts = list(m.fields(v))
            of = {key: [value for n, value in parts if n == key] for key in (1, 2, 4, 5, 7)}
            if of[7] == [b"opc"]:
                found.append((of[4][0].decode(), [i.decode() for i in of[1]], [o.decode() for o in of[2]], sorted(of[5])))
        self.assertTrue(graph)
        return found

    def test_all_kinds_of_attributes(self):
        nodes, got = self.exported(mix({"x": ["x/out"], "more": ["a/out"]}, ["y", "seen"], ATTRS))
        self.assertEqual(len(nodes[0][3]), len(ATTRS))
        np.testing.assert_array_equal(got["out_seen"], SEEN + [-1] * (32 - len(SEEN)))
        np.testing.assert_array_equal(got["out_y"], VALUES["x"] + VALUES["a"])

    def test_defaults(self):
        _, got = self.exported(mix({"x": ["x/out"], "more": ["a/out"]}, ["y", "seen"]))
        np.testing.assert_array_equal(got["out_seen"], [0] * 6 + [NUMBERS["kFloat"]] + [-1] * 25)

    def test_what_is_left_out_and_lists_in_the_middle(self):
        x, a, b, s = (VALUES[n] for n in "xabs")
        for inputs, shape, y in (({"x": ["x/out"], "more": ["a/out"]}, ["x", "a", ""], x + a),
                                 ({"x": ["x/out"], "more": ["a/out", "b/out"]}, ["x", "a", "b", ""], x + a + b),
                                 ({"x": ["x/out"], "more": ["b/out"], "scale": ["s/out"]}, ["x", "b", "s"], (x + b) * s),
                                 ({"x": ["s/out"], "more": ["a/out", "b/out", "a/out"], "scale": ["x/out"]}, ["s", "a", "b", "a", "x"],
                                  (s + a + b + a) * x)):
            first = x if shape[0] == "x" else s
            nodes, got = self.exported(mix(inputs, ["y", "seen"]))
            self.assertEqual((nodes[0][0], nodes[0][1], nodes[0][2][1]), ("mix", shape, ""))
            np.testing.assert_array_equal(got["out_y"], y)
            nodes, got = self.exported(mix(inputs, ["y", "rest", "seen"]))
            self.assertEqual((nodes[0][1], nodes[0][2]), (shape, ["out_y", "out_rest", "out_seen"]))
            np.testing.assert_array_equal(got["out_rest"], first - y)

    def test_built_in_ops(self):
        nodes, got = self.exported(given("x") + op("a", "lgamma", {"x": ["x/out"]}, ["y"]) + op("b", "relu", {"x": ["a/y_0"]}, ["y"]) +
                                   taken("o", "a/y_0") + taken("r", "b/y_0"), plugin=False)
        self.assertEqual(nodes, [("lgamma", ["x"], ["o"], [])])
        np.testing.assert_allclose(got["o"], [math.lgamma(v) for v in VALUES["x"]], rtol=1e-5)
        np.testing.assert_array_equal(got["r"], np.maximum(got["o"], 0))

    def test_without_the_plugin(self):
        self.exported(mix({"x": ["x/out"], "more": ["a/out"]}, ["y", "seen"]))
        said = self.opc("run", "out.onnx", "--inputs", "in.npz", plugin=False, code=4).stderr
        for words in ("error[OPC0421]", "opc.mix (version 1): 1 node", 'node 0 "the mix", of the plugin libmix.so', "--plugin"):
            self.assertIn(words, said)

    def test_what_cannot_be_written(self):
        self.write(given("x") + given("a") + op("l", "two_lists", {"x": ["x/out"], "a": ["a/out"], "b": ["a/out"]}, ["y", "seen"]) + taken("o", "l/y_0"))
        said = self.opc("compile", "g.pbtxt", "--emit", "onnx", "-o", "no.onnx", code=4).stderr
        self.assertIn("two_lists: it has 2 inputs of any number, and a node has one list for all; 1 op, the first is l (g.pbtxt:3)", said)
        self.write('op { name: "w" variable_conf { out: "out" shape { dim: 4 } data_type: kFloat initializer { constant_conf { value: 1 } } } }\n' +
                   op("l", "writes", {"x": ["w/out"]}, ["y", "seen"]) + taken("o", "l/y_0"))
        said = self.opc("compile", "g.pbtxt", "--emit", "onnx", "-o", "no.onnx", code=4).stderr
        self.assertIn("writes: it writes its input 'x', which no node does", said)
        self.assertFalse(os.path.exists(self.path("no.onnx")))

    def test_attributes_that_do_not_fit(self):
        for attributes, words in (({"narrow": 1 << 40}, "attribute 'narrow' has 1099511627776, and is of 32 bits"),
                                  ({"narrows": [1, -(1 << 31) - 1]}, "attribute 'narrows' has -2147483649, and is of 32 bits"),
                                  ({"exact": np.zeros(2)}, "attribute 'exact' is of a kind"), ({"type": 8}, "element type 8")):
            graph = m.graph([m.node("mix", ["x", "x"], ["y", "", "seen"], "n", "opc", **attributes)], [m.value("x", (4,))], [m.value("y")])
            with open(self.path("bad.onnx"), "wb") as f:
                f.write(m.model(graph, domains=["opc"]))
            done = subprocess.run([OPC, "show", "bad.onnx", "--plugin", "libmix.so"], capture_output=True, text=True, cwd=self.folder, timeout=60)
            self.assertIn(done.returncode, (3, 4), done.stderr)
            self.assertIn(words, done.stderr)
            self.assertIn('bad.onnx: node 0 "n"', done.stderr)


if __name__ == "__main__":
    unittest.main()
