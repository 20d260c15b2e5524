# Definitions of plugins that no graph could use: refused when they are loaded, or told by opc plugin check.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shlex
import subprocess
import tempfile
import unittest

OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
SOURCE = r'''
#include "opc/Elementwise.h"
#include "opc/Op.h"
#include "opc/StagedKernel.h"
using namespace opc;
using namespace opc::user_op;
namespace {
Maybe<void> likeX(InferContext *ctx) {
  *ctx->MutOutputTensorDesc("y", 0) = ctx->InputTensorDesc("x", 0);
  return Maybe<void>::Ok();
}
class Copy final : public OpKernel {
  void Compute(KernelComputeContext *) const override {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
OPC_SCALAR(Product, a, b) { return a * b; }
#if TWICE == 1
REGISTER_USER_OP("twice").Input("x").Input("x").Output("y").SetTensorDescInferFn(likeX);
#elif TWICE == 2
REGISTER_USER_OP("twice").Input("x").Output("y").Output("y").SetTensorDescInferFn(likeX);
#elif TWICE == 3
REGISTER_USER_OP("twice").Input("x").Output("y").Attr<float>("a", 1).Attr<int64_t>("a", 1).SetTensorDescInferFn(likeX);
#elif TWICE == 4
REGISTER_USER_OP("twice").Input("x").Input("z").Output("y").ArgAlias("z", "x").SetTensorDescInferFn(likeX);
#else
REGISTER_USER_OP("d_right").Input("x").Output("y").SetTensorDescInferFn(likeX).Sharding("a b -> a b").Kernel<Copy>()
    .Cases({Case("rows").In("x", {4, 6}), Case("integers").In("x", kInt32, {2, 2}, 0, 5)});
REGISTER_USER_OP("d_rank").Input("x").Output("y").SetTensorDescInferFn(likeX).Sharding("a b c -> a b c").Kernel<Copy>()
    .Cases({Case("rows").In("x", {4, 6})});
REGISTER_USER_OP("d_argument").Input("x").Output("y").SetTensorDescInferFn(likeX).Kernel<Copy>().Cases({Case("rows").In("x", {4}).In("z", {4})});
REGISTER_USER_OP("d_attribute").Input("x").Output("y").SetTensorDescInferFn(likeX).Kernel<Copy>()
    .Cases({Case("rows").In("x", {4}).Attr("no_such", 1.f)});
REGISTER_USER_OP("d_kernel").Input("x").Output("y").SetTensorDescInferFn(likeX)
    .Kernel<Copy>(KernelOptions().When(HobDataType("x", 0) == kInt8)).Cases({Case("floats").In("x", kFloat, {4}, 0, 1)});
REGISTER_USER_OP("d_optional").Input("x").OptionalInput("z").Output("y").Elementwise<Product>();
REGISTER_USER_OP("d_in_place").Input("x").Output("y").SetTensorDescInferFn(likeX).Kernel<Copy>(KernelOptions().Inplace("y", "inn"))
    .Cases({Case("rows").In("x", {4})});
#endif
} // namespace
'''


class Definitions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        flags = [shlex.split(subprocess.run([OPC, "sdk", f], capture_output=True, text=True, check=True).stdout) for f in ("--cflags", "--ldflags")]
        cls.libraries = [os.path.join(scratch.name, f"lib{i}.so") for i in range(5)]
        source = os.path.join(scratch.name, "ops.cpp")
        with open(source, "w", encoding="utf-8") as f:
            f.write(SOURCE)
        for i, library in enumerate(cls.libraries):
            subprocess.run([os.environ.get("OPC_PLUGIN_CXX", "g++"), "-w", "-fPIC", "-shared", f"-DTWICE={i}", *flags[0], source, "-o", library, *flags[1]], check=True)

    def opc(self, *words):
        return subprocess.run([OPC, "--config", "none", *words], capture_output=True, text=True, timeout=60)

    def test_names_that_are_there_twice(self):
        for library, says in zip(self.libraries[1:], ("two inputs 'x'", "two outputs 'y'", "two attributes 'a'", "two inputs 'z'")):
            for words in (["plugin", "check", library], ["ops", "--plugin", library]):
                with self.subTest(says, words=words[0]):
                    done = self.opc(*words)
                    self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
                    self.assertIn(f"error[OPC0903]: op 'twice' has {says} ({library}, ", done.stderr)
                    self.assertIn("ops.cpp:", done.stderr)

    def test_what_the_cases_show(self):
        done = self.opc("plugin", "check", "--json", self.libraries[0])
        self.assertEqual(done.returncode, 1, done.stderr)
        wrong = {op["name"]: op["wrong"] for op in json.loads(done.stdout)["plugins"][0]["ops"]}
        self.assertEqual(wrong.pop("d_right"), [])
        for name, says in (("d_rank", "(OPC0301)"), ("d_argument", "'z'"), ("d_attribute", "'no_such'"), ("d_kernel", "no cpu kernel"), ("d_in_place", "names 'inn'")):
            with self.subTest(name):
                (text,) = wrong.pop(name)
                self.assertTrue(text.startswith("case "), text)
                self.assertIn(says, text)
        self.assertEqual(wrong, {"d_optional": []})
        said = self.opc("plugin", "check", self.libraries[0])
        self.assertEqual(said.returncode, 1, said.stderr)
        self.assertEqual(said.stdout.count("    wrong       case "), 5, said.stdout)

    def test_a_scalar_function_of_an_optional_input(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            with open(path, "w", encoding="utf-8") as f:
                f.write('op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 } data_type: kFloat } } }\n'
                        'op { name: "p" user_conf { op_type_name: "d_optional" input { key: "x" value { s: "x/out" } } } }\n')
            done = self.opc("compile", path, "--plugin", self.libraries[0])
            self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
            self.assertIn("'z' may be absent or several tensors", done.stderr)
            self.assertIn("g.pbtxt:2:1", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
