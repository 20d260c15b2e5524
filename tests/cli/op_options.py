# Options for single ops, against numpy: --cast-ops computes them in another element type, --place puts them on a device,
# --observe watches their kernels.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import unittest

import numpy as np

from folder_test import FolderTest
from plugin_build import build_plugin


def op(name, kind, inputs, output="y", attrs=""):
    ins = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
    return (f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {ins} '
            f'output {{ key: "{output}" value {{ s: "{name}/{output}_0" }} }} {attrs} }} }}\n')


def port(name, dims, dtype="kFloat"):
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {" ".join(f"dim: {d}" for d in dims)} }} data_type: {dtype} }} }} }}\n'


def result(name, tensor):
    return f'op {{ name: "{name}" output_conf {{ in: "{tensor}" out: "out" }} }}\n'


AXIS = 'attr { key: "axis" value { at_list_int32 { val: 0 } } } attr { key: "keepdims" value { at_bool: false } }'
SUM = port("x", [5000]) + op("total", "reduce_sum", {"input_tensor": "x/out"}, "output_tensor", AXIS) + result("y", "total/output_tensor_0")
CHAIN = port("x", [64]) + op("first", "exp", {"x": "x/out"}) + op("second", "exp", {"x": "first/y_0"}) + result("y", "second/y_0")
PRODUCT = (port("a", [8, 16]) + port("b", [16, 4]) + op("fc1", "matmul", {"a": "a/out", "b": "b/out"}, "out") + result("y", "fc1/out_0"))


class Folder(FolderTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(7)

    def run_graph(self, text, inputs, *args):
        self.write("net.pbtxt", text)
        given = []
        for name, value in inputs.items():
            np.save(self.path(name + ".npy"), value)
            given += ["--input", f"{name}=@{name}.npy"]
        self.opc("run", "net.pbtxt", *given, "--output", "y=y.npy", "--print", "none", *args)
        return np.load(self.path("y.npy"))


class CastOps(Folder):
    def test_wider(self):
        """A sum in f64 is rounded once."""
        x = self.random.standard_normal(5000).astype(np.float32) * 1000
        got = self.run_graph(SUM, {"x": x}, "--cast-ops", "total=f64")
        self.assertEqual(got.dtype, np.float32)
        self.assertEqual(got, np.float32(x.astype(np.float64).sum()))

    def test_narrower(self):
        """What an op gives in f16 has f16's digits, and what reads it goes on in f32."""
        x = self.random.uniform(-1, 1, 64).astype(np.float32)
        plain = self.run_graph(CHAIN, {"x": x})
        half = self.run_graph(CHAIN, {"x": x}, "--cast-ops", "first=f16")
        inner = np.exp(x.astype(np.float16).astype(np.float64)).astype(np.float16)
        np.testing.assert_allclose(half, np.exp(inner.astype(np.float64)), rtol=2.0 ** -9)
        self.assertGreater(np.abs(half - plain).max(), 1e-4)
        np.testing.assert_allclose(plain, np.exp(np.exp(x.astype(np.float64))), rtol=1e-6)
        # By type: both of them, and the result has f16's digits.
        both = self.run_graph(CHAIN, {"x": x}, "--cast-ops", "exp=f16")
        np.testing.assert_array_equal(both, both.astype(np.float16).astype(np.float32))
        self.assertFalse(np.array_equal(half, half.astype(np.float16).astype(np.float32)))

    def test_brain_floats(self):
        a, b = (self.random.uniform(-1, 1, s).astype(np.float32) for s in ((8, 16), (16, 4)))
        got = self.run_graph(PRODUCT, {"a": a, "b": b}, "--cast-ops", "matmul=bf16")
        self.assertEqual(int((got.view(np.uint32) & 0xFFFF).sum()), 0)  # what bf16 can hold
        np.testing.assert_allclose(got, a.astype(np.float64) @ b, atol=16 * 2.0 ** -8)

    def test_nothing_is_rounded_between_chosen_ops(self):
        """A graph in half precision that is computed in f32: what is given out has its digits, what is between them has f32's."""
        chain = CHAIN.replace("kFloat", "kFloat16").replace(result("y", "second/y_0"), result("y", "second/y_0") + result("z", "first/y_0"))
        x = self.random.uniform(-1, 1, 64).astype(np.float16)
        exact = np.exp(np.exp(x.astype(np.float64)))
        wide = self.run_graph(chain, {"x": x}, "--cast-ops", "*=f32", "--output", "z=z.npy")
        self.assertEqual(wide.dtype, np.float16)
        np.testing.assert_array_equal(wide, exact.astype(np.float16))
        np.testing.assert_array_equal(np.load(self.path("z.npy")), np.exp(x.astype(np.float64)).astype(np.float16))
        self.assertFalse(np.array_equal(self.run_graph(chain, {"x": x}), wide))
        self.opc("compile", "net.pbtxt", "--cast-ops", "*=f32", "--to", "shape", "--emit", "pbtxt", "-o", "cast.pbtxt")
        with open(self.path("cast.pbtxt"), encoding="utf-8") as f:
            self.assertEqual(f.read().count('op_type_name: "cast"'), 3)  # x in, y and z out

    def test_ops_that_are_of_their_types(self):
        """"*" leaves out what reads bits and ops with graphs; by name they are refused."""
        dtype = 'attr { key: "dtype" value { at_data_type: kUInt16 } }'
        bits = port("x", [8], "kFloat16") + op("e", "exp", {"x": "x/out"}) + op("b", "bit_cast", {"in": "e/y_0"}, "out", dtype) + result("y", "b/out_0")
        x = self.random.uniform(-1, 1, 8).astype(np.float16)
        for wanted in ("*=f32", "*=bf16"):
            got = self.run_graph(bits, {"x": x}, "--cast-ops", wanted)
            self.assertEqual(got.dtype, np.uint16)
            np.testing.assert_allclose(got.view(np.float16).astype(np.float64), np.exp(x.astype(np.float64)), rtol=2.0 ** (-10 if wanted == "*=f32" else -7))
        self.assertIn("it reads the bits of its input", self.opc("compile", "net.pbtxt", "--cast-ops", "b=f32", "-o", "o.plan", code=3).stderr)
        folder = os.path.join(os.environ["OPC_SOURCE_DIR"], "tests", "compat", "plan-5")
        graph = os.path.join(folder, "graph.pbtxt")
        self.opc("run", graph, "--input", f"x=@{folder}/x.npy", "--cast-ops", "*=f64", "--expect", f"y=@{folder}/y.npy", "--rtol", "1e-5")
        said = self.opc("run", graph, "--input", f"x=@{folder}/x.npy", "--cast-ops", "b=f64", code=3).stderr
        self.assertIn("if: --cast-ops cannot give it another type: its graphs are made for the types around them", said)

    def test_what_is_cut_has_the_type_of_the_graph(self):
        chain = CHAIN.replace("kFloat", "kFloat16")
        x = self.random.uniform(-1, 1, 64).astype(np.float16)
        self.write("net.pbtxt", chain)
        np.save(self.path("x.npy"), x)
        self.opc("run", "net.pbtxt", "--input", "x=@x.npy", "--cast-ops", "*=f32", "--until", "first", "--output", "first=z.npy")
        z = np.load(self.path("z.npy"))
        np.testing.assert_array_equal(z, np.exp(x.astype(np.float64)).astype(np.float16))
        # An op that what is given makes needless may be named; one that is not there is refused.
        self.opc("run", "net.pbtxt", "--feed", "first/y_0=@z.npy", "--cast-ops", "first=f32", "--output", "y=y.npy")
        np.testing.assert_allclose(np.load(self.path("y.npy")), np.exp(z.astype(np.float64)), rtol=2e-3)
        self.assertIn("'third'", self.opc("run", "net.pbtxt", "--fill", "zeros", "--cast-ops", "third=f32", "--until", "first", code=2).stderr)

    def test_first_request_counts(self):
        x = self.random.uniform(-1, 1, 64).astype(np.float32)
        got = self.run_graph(CHAIN, {"x": x}, "--cast-ops", "second=f32", "--cast-ops", "exp=f16")
        np.testing.assert_array_equal(got, self.run_graph(CHAIN, {"x": x}, "--cast-ops", "first=f16"))

    def test_gradients_go_through(self):
        text = port("x", [64]) + op("e", "exp", {"x": "x/out"}) + op("s", "reduce_sum", {"input_tensor": "e/y_0"}, "output_tensor", AXIS) + result("y", "s/output_tensor_0")
        self.write("net.pbtxt", text)
        self.opc("compile", "net.pbtxt", "--cast-ops", "e=f64", "--to", "shape", "--emit", "pbtxt", "-o", "cast.pbtxt")
        self.opc("grad", "cast.pbtxt", "--loss", "y", "--wrt", "x", "--check")

    def test_compile_and_run_agree(self):
        x = self.random.uniform(-1, 1, 64).astype(np.float32)
        got = self.run_graph(CHAIN, {"x": x}, "--cast-ops", "exp=f16")
        self.opc("compile", "net.pbtxt", "--cast-ops", "exp=f16", "-o", "net.plan")
        self.opc("run", "net.plan", "--input", "x=@x.npy", "--expect", "y=@y.npy", "--rtol", "0", "--atol", "0")
        np.testing.assert_array_equal(got, np.load(self.path("y.npy")))
        said = self.opc("run", "net.plan", "--input", "x=@x.npy", "--cast-ops", "exp=f16", code=2).stderr
        self.assertIn("--cast-ops, --place, --allow-cpu-fallback and --no-winograd need the graph", said)
        # So does all that is for a compiler: nothing is ignored without a word.
        for flags in (["--no-fuse"], ["--no-simplify"], ["--sbp", "x=B"], ["--micro-batches", "2"], ["--device-memory", "1G"], ["--no-overlap"], ["--sbp-random", "1"]):
            mesh = [] if flags[0] in ("--no-fuse", "--no-simplify") else ["--mesh", "1", "--in-process"]
            said = self.opc("run", "net.plan", "--input", "x=@x.npy", *mesh, *flags, code=2).stderr
            self.assertIn(f"error[OPC0001]: {flags[0]} needs the graph, and net.plan is a plan", said)

    def test_bad(self):
        self.write("net.pbtxt", CHAIN)
        for text, words, code in [("frist=f16", "did you mean first?", 2), ("exp=f8e5m2", "f16, bf16, f32 or f64", 2), ("exp=i32", "not in 'i32'", 2),
                                  ("exp", "takes GLOB=TYPE", 2), ("=f16", "takes GLOB=TYPE", 2), ("exp=", "takes GLOB=TYPE", 2)]:
            self.assertIn(words, self.opc("compile", "net.pbtxt", "--cast-ops", text, "-o", "o.plan", code=code).stderr)
        self.assertFalse(os.path.exists(self.path("o.plan")))


class Place(Folder):
    TAGGED = CHAIN.replace('name: "second" ', 'name: "second" device_tag: "gpu" ')

    def test_device_tags(self):
        self.write("net.pbtxt", self.TAGGED)
        self.assertIn("OPC0413", self.opc("compile", "net.pbtxt", "-o", "a.plan").stderr)
        for glob in ("second", "exp", "s*"):
            self.assertNotIn("OPC0413", self.opc("compile", "net.pbtxt", "-o", "b.plan", "--place", glob + "=cpu").stderr)
        self.assertIn("OPC0413", self.opc("compile", "net.pbtxt", "-o", "b.plan", "--place", "first=cpu").stderr)
        self.assertNotIn("OPC0413", self.opc("run", "net.pbtxt", "--fill", "ones", "--place", "second=cpu").stderr)

    def test_bad(self):
        self.write("net.pbtxt", CHAIN)
        for text, words, code in [("first=gpu", "single ops go to the cpu alone, not to 'gpu'", 4), ("first=sim:1", "--device sim:1 runs the graph there", 4), ("first=gpux", "unknown device 'gpux'", 2), ("first=tpu", "unknown device 'tpu'", 2), ("frist=cpu", "'frist'\nhelp: did you mean first?", 2), ("first", "GLOB=DEVICE", 2)]:
            self.assertIn(words, self.opc("compile", "net.pbtxt", "--place", text, "-o", "o.plan", code=code).stderr)


PLUGIN = """// An operator whose kernel writes to its input.
#include "oneflow/core/framework/framework.h"
namespace oneflow {
REGISTER_USER_OP("greedy").Input("in").Output("out")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      *ctx->Shape4ArgNameAndIndex("out", 0) = *ctx->Shape4ArgNameAndIndex("in", 0);
      *ctx->Dtype4ArgNameAndIndex("out", 0) = *ctx->Dtype4ArgNameAndIndex("in", 0);
      return Maybe<void>::Ok();
    });
class Greedy final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    for (int64_t i = 0; i < in->shape().elem_cnt(); ++i) out->mut_dptr<float>()[i] = in->dptr<float>()[i];
    const_cast<float *>(in->dptr<float>())[0] += 1;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_KERNEL("greedy").SetCreateFn<Greedy>().SetIsMatchedHob(user_op::HobDeviceTag() == "cpu");
} // namespace oneflow
"""


class Observe(Folder):
    def test_access(self):
        """A kernel that writes what it only reads is named."""
        build_plugin(self.path("greedy.so"), PLUGIN)
        self.write("net.pbtxt", port("x", [4]) + op("a", "exp", {"x": "x/out"}) + op("thief", "greedy", {"in": "a/y_0"}, "out")
                   + op("b", "relu", {"x": "a/y_0"}) + result("y", "thief/out_0") + result("z", "b/y_0"))
        self.opc("run", "net.pbtxt", "--fill", "ones", "--plugin", "./greedy.so")
        said = self.opc("run", "net.pbtxt", "--fill", "ones", "--plugin", "./greedy.so", "--observe", "access", code=5).stderr
        self.assertIn("error[OPC0627]: greedy: the kernel has changed its input in, a/y_0", said)
        self.assertIn("running op thief at net.pbtxt:3:1", said)

    def test_good_kernels_pass(self):
        self.write("net.pbtxt", CHAIN)
        plain = self.opc("run", "net.pbtxt", "--fill", "rand", "--print", "all").stdout
        self.assertEqual(plain, self.opc("run", "net.pbtxt", "--fill", "rand", "--print", "all", "--observe", "sync,access").stdout)

    def test_sync(self):
        self.write("net.pbtxt", CHAIN)
        self.opc("run", "net.pbtxt", "--fill", "ones", "--observe", "sync", "--log", "run.log", "-q")
        with open(self.path("run.log"), encoding="utf-8") as f:
            lines = [line.split("] ", 1)[1].strip() for line in f if "running op" in line]
        self.assertEqual(lines, ["running op first (exp) at net.pbtxt:2:1", "running op second (exp) at net.pbtxt:3:1"])

    def test_profile(self):
        self.write("net.pbtxt", CHAIN)
        profile = json.loads(self.opc("run", "net.pbtxt", "--fill", "ones", "--observe", "profile", "--json").stdout)["profile"]
        self.assertEqual(sorted(profile), sorted(json.loads(self.opc("run", "net.pbtxt", "--fill", "ones", "--profile", "--json").stdout)["profile"]))

    def test_bad(self):
        self.write("net.pbtxt", CHAIN)
        self.assertIn("--observe takes sync, access and profile, not 'acess'", self.opc("run", "net.pbtxt", "--fill", "ones", "--observe", "acess", code=2).stderr)
        self.assertIn("look at one rank", self.opc("run", "net.pbtxt", "--fill", "ones", "--observe", "access", "--ranks", "2", "--in-process", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
