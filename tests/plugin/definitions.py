# Definitions of plugins that no graph could use: refused when they are loaded, or told by opc plugin check.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import tempfile
import time
import unittest

from plugin_build import build_plugin

OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
SOURCE = r'''
#include "opc/Elementwise.h"
#include "opc/Op.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <unistd.h>
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
#define RULE(name) REGISTER_USER_OP(name).Input("x").Output("y").SetTensorDescInferFn(likeX).Kernel<Copy>()
#define CASE Cases({Case("rows").In("x", {4, 6})})
OPC_SCALAR(Product, a, b) { return a * b; }
#if TWICE == 1
REGISTER_USER_OP("twice").Input("x").Input("x").Output("y").SetTensorDescInferFn(likeX);
#elif TWICE == 2
REGISTER_USER_OP("twice").Input("x").Output("y").Output("y").SetTensorDescInferFn(likeX);
#elif TWICE == 3
REGISTER_USER_OP("twice").Input("x").Output("y").Attr<float>("a", 1).Attr<int64_t>("a", 1).SetTensorDescInferFn(likeX);
#elif TWICE == 4
REGISTER_USER_OP("twice").Input("x").Input("z").Output("y").ArgAlias("z", "x").SetTensorDescInferFn(likeX);
#elif TWICE == 5
REGISTER_USER_OP("twice").Input("x").Output("y").Attr("a", kAtDouble, 1).SetTensorDescInferFn(likeX);
#elif TWICE == 6
REGISTER_USER_OP("twice").Input("x").Output("y").ArgAlias("z", "xx").SetTensorDescInferFn(likeX);
#elif TWICE == 7
/// Writes `extra` elements from place `at` on, beside what it should.
template <int at, int extra> class Beside final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    const int64_t n = ctx->In("x").shape().elem_cnt();
    float *y = ctx->Out("y").mut_dptr<float>();
    for (int64_t i = 0; i < n; ++i) y[i] = ctx->In("x").dptr<float>()[i];
    for (int i = 0; i < extra; ++i) y[(at < 0 ? at : n) + i] = 3;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
class Temporary final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    for (int i = 0; i < 100; ++i) ctx->Tmp<float>()[i] = 1;
    ctx->Out("y").mut_dptr<float>()[0] = 1;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
class Backwards final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    const int64_t n = ctx->In("x").shape().elem_cnt();
    for (int64_t i = 0; i < n; ++i) ctx->Out("y").mut_dptr<float>()[i] = ctx->In("x").dptr<float>()[n - 1 - i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
/// Reads as far as it writes: what lies there goes from one guard to another.
template <int from, int to> class Copies final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    const int64_t n = ctx->In("x").shape().elem_cnt();
    for (int64_t i = from; i < n + to; ++i) ctx->Out("y").mut_dptr<float>()[i] = ctx->In("x").dptr<float>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
/// What it reads too much of takes part: in a sum, in an extreme. `from` and `to` as above.
template <int from, int to, bool extreme> class Reads final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    const int64_t n = ctx->In("x").shape().elem_cnt();
    float all = ctx->In("x").dptr<float>()[0];
    for (int64_t i = from; i < n + to; ++i) {
      const float v = ctx->In("x").dptr<float>()[i];
      all = extreme ? (v < all ? v : all) : all + v;
    }
    for (int64_t i = 0; i < n; ++i) ctx->Out("y").mut_dptr<float>()[i] = all;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
class Exits final : public OpKernel {
  void Compute(KernelComputeContext *) const override { std::exit(0); }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
/// How many are not zero, one too many.
class Counts final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    const int64_t n = ctx->In("x").shape().elem_cnt();
    int64_t count = 0;
    for (int64_t i = 0; i <= n; ++i) count += ctx->In("x").dptr<float>()[i] != 0;
    for (int64_t i = 0; i < n; ++i) ctx->Out("y").mut_dptr<float>()[i] = static_cast<float>(count);
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
/// Adds an element of its temporary memory, which it has not written: one that it has, or the one behind.
template <int at> class AddsTemporary final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    const int64_t n = ctx->In("x").shape().elem_cnt();
    for (int64_t i = 0; i < n; ++i) ctx->Out("y").mut_dptr<float>()[i] = ctx->In("x").dptr<float>()[i] + ctx->Tmp<float>()[at];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
/// No function of what it reads: it is not pure, and reads nothing beside.
class Counter final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    static std::atomic<int> runs{0};
    const int64_t n = ctx->In("x").shape().elem_cnt(), run = runs++;
    for (int64_t i = 0; i < n; ++i) ctx->Out("y").mut_dptr<float>()[i] = static_cast<float>(run);
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
/// Ends the process after as many runs as the environment says.
class EndsLater final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    static std::atomic<int> runs{0};
    const char *left = std::getenv("RUNS_UNTIL_THE_END");
    if (left && runs++ >= std::atoi(left)) *reinterpret_cast<volatile int *>(uintptr_t(8)) = 1;
    const int64_t n = ctx->In("x").shape().elem_cnt();
    for (int64_t i = 0; i < n; ++i) ctx->Out("y").mut_dptr<float>()[i] = ctx->In("x").dptr<float>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
/// Never comes to an end, in the process that the environment names by its option; its number is in the file HANGING.
class Hangs final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override {
    const int64_t n = ctx->In("x").shape().elem_cnt();
    for (int64_t i = 0; i < n; ++i) ctx->Out("y").mut_dptr<float>()[i] = ctx->In("x").dptr<float>()[i];
    const char *where = std::getenv("HANGS_IN");
    std::ifstream words("/proc/self/cmdline");
    if (!where || std::string(std::istreambuf_iterator<char>(words), {}).find(where) == std::string::npos) return;
    std::ofstream(std::getenv("HANGING")) << ::getpid() << std::flush;
    for (;; ::usleep(1000)) std::printf("it works\n"); // what it prints is no progress
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
class Throws final : public OpKernel {
  void Compute(KernelComputeContext *) const override { throw std::runtime_error("boom"); }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
/// Ends the process: a signal, an exit without and with an error.
template <int code> class Ends final : public OpKernel {
  void Compute(KernelComputeContext *) const override {
    std::printf("{\"faults\":[]");
    std::fflush(stdout);
    if (code < 0) *reinterpret_cast<volatile int *>(uintptr_t(8)) = 1;
    ::_exit(code);
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
const std::vector<Case> kCases = {Case("rows").In("x", kFloat, {4, 6}, -1, 1)};
#define KERNEL(name, ...) REGISTER_USER_OP(name).Input("x").Output("y").SetTensorDescInferFn(likeX).Cases(kCases).Kernel<__VA_ARGS__
KERNEL("v_right", Beside<0, 0>>(KernelOptions().Inplace("y", "x")));
KERNEL("v_behind", Beside<0, 2>>());
KERNEL("e_signal", Ends<-1>>());
KERNEL("e_exit", Ends<0>>());
KERNEL("e_error", Ends<3>>());
KERNEL("e_exits", Exits>());
KERNEL("e_right", Beside<0, 0>>());
KERNEL("v_far_behind", Beside<0, 3000>>());
KERNEL("v_before", Beside<-1, 1>>());
KERNEL("v_temporary", Temporary>(KernelOptions().TmpSize([](InferContext *) -> size_t { return 396; })));
KERNEL("v_in_place", Backwards>(KernelOptions().Inplace("y", "x")));
KERNEL("v_throws", Throws>());
KERNEL("v_copies_behind", Copies<0, 1>>());
KERNEL("v_copies_before", Copies<-1, 0>>());
KERNEL("v_copies_much", Copies<0, 1000>>());
KERNEL("v_large", Copies<0, 0>>(KernelOptions().TmpSize([](InferContext *) -> size_t { return size_t{300} << 20; })));
KERNEL("v_reads_behind", Reads<0, 1, false>>());
KERNEL("v_reads_before", Reads<-1, 0, true>>());
KERNEL("v_reads", Reads<0, 0, true>>());
KERNEL("v_counts_behind", Counts>());
KERNEL("v_reads_temporary", AddsTemporary<16>>(KernelOptions().TmpSize([](InferContext *) -> size_t { return 64; })));
KERNEL("v_counter", Counter>());
KERNEL("v_old_temporary", AddsTemporary<0>>(KernelOptions().TmpSize([](InferContext *) -> size_t { return 64; })));
KERNEL("e_third", EndsLater>());
KERNEL("h_ever", Hangs>());
KERNEL("v_two", Copies<0, 0>>()).Kernel<Copies<0, 0>>();
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
RULE("r_linear").CASE.Sharding("m n -> m n", Linear({5}));
RULE("r_linear_none").CASE.Sharding("m n -> m n", Linear({}));
RULE("r_lost").CASE.Sharding("m n -> m k");
RULE("r_many").CASE.Sharding("m n, q -> m n");
RULE("r_many_outputs").CASE.Sharding("m n -> m n, m");
RULE("r_sum").CASE.Sharding("m n -> m n", Sum("q"));
RULE("r_function").CASE.Sharding([](const SbpContext &) -> Maybe<ShardingRule> { return ShardingRule("m n -> m n", Sum("q")); });
RULE("r_without_case").Sharding("m n -> m n", Sum("q"));
RULE("r_shard").CASE.Sharding("m . -> m k", Linear({0}));
REGISTER_USER_OP("r_optional").Input("x").OptionalInput("z").Output("y").SetTensorDescInferFn(likeX).Kernel<Copy>().CASE
    .Sharding("m n, k -> m n", Sum("k"), Linear({1}));
REGISTER_USER_OP("d_early").Input("x").Output("y").Elementwise<Product>().Attr<float>("a", 1);
REGISTER_USER_OP("d_few").Input("x").Output("y").RequiredAttr<std::string>("s").Elementwise<Product>();
REGISTER_USER_KERNEL("d_rigth").SetCreateFn<Copy>().SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);
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
        cls.libraries = [os.path.join(scratch.name, f"lib{i}.so") for i in range(8)]
        source = os.path.join(scratch.name, "ops.cpp")
        with open(source, "w", encoding="utf-8") as f:
            f.write(SOURCE)
        for i, library in enumerate(cls.libraries):
            build_plugin(library, source, "-w", f"-DTWICE={i}")

    def opc(self, *words, env=None):
        return subprocess.run([OPC, "--config", "none", *words], capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})

    def test_names_that_are_there_twice(self):
        for library, says in zip(self.libraries[1:5], ("two inputs 'x'", "two outputs 'y'", "two attributes 'a'", "two inputs 'z'")):
            for words in (["plugin", "check", library], ["ops", "--plugin", library]):
                with self.subTest(says, words=words[0]):
                    done = self.opc(*words)
                    self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
                    self.assertIn(f"error[OPC0903]: op 'twice' has {says} ({library}, ", done.stderr)
                    self.assertIn("ops.cpp:", done.stderr)

    def test_defaults_and_aliases(self):
        for library, says, help_text in ((self.libraries[5], "OPC0205]: op 'twice': attribute 'a' is declared kAtDouble, and its default 1 is kAtInt32", '.Attr<double>("a", 1)'),
                                         (self.libraries[6], "OPC0202]: op 'twice': ArgAlias(\"z\", \"xx\") names no input, output or attribute", "help: ")):
            done = self.opc("ops", "--plugin", library)
            self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
            for word in (says, help_text, library + ", ", "ops.cpp:"):
                self.assertIn(word, done.stderr)

    def test_a_kernel_of_no_op(self):
        done = self.opc("plugin", "check", self.libraries[0])
        self.assertRegex(done.stdout, r"  kernel for 'd_rigth', which no library defines \(.*lib0\.so, .*ops\.cpp:\d+\); the nearest op is d_right")
        # What it says is wrong, not beside the wrong cases alone.
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "k.cpp")
            with open(source, "w", encoding="utf-8") as f:
                f.write('#include "opc/Op.h"\nREGISTER_USER_OP_GRAD("reluu").SetBackwardOpConfGenFn([](opc::user_op::BackwardOpConfContext *) {});\n')
            library = os.path.join(folder, "libk.so")
            build_plugin(library, source, "-w")
            done = self.opc("plugin", "check", library)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn(f"  gradient for 'reluu', which no library defines ({library}, {source}:2); the nearest op is relu", done.stdout)

    def test_what_the_cases_show(self):
        done = self.opc("plugin", "check", "--json", self.libraries[0])
        self.assertEqual(done.returncode, 1, done.stderr)
        wrong = {op["name"]: op["wrong"] for op in json.loads(done.stdout)["plugins"][0]["ops"] if op["name"].startswith("d_")}
        self.assertEqual(wrong.pop("d_right"), [])
        for name, says in (("d_rank", "(OPC0301)"), ("d_argument", "'z'"), ("d_attribute", "'no_such'"), ("d_kernel", "no cpu kernel"), ("d_in_place", "names 'inn'"),
                           ("d_optional", "'z' may be absent or several tensors"), ("d_early", "'d_early' has 2 parameters, but the op declares 1 inputs, 0 numeric attributes"),
                           ("d_few", "'d_few' has 2 parameters, but")):
            with self.subTest(name):
                (text,) = wrong.pop(name)
                self.assertTrue(text.startswith("case "), text)
                self.assertIn(says, text)
        self.assertEqual(wrong, {})
        said = self.opc("plugin", "check", self.libraries[0])
        self.assertEqual(said.returncode, 1, said.stderr)
        self.assertEqual(said.stdout.count("    wrong       case "), 15, said.stdout)

    def test_sharding_rules(self):
        done = self.opc("plugin", "check", "--json", self.libraries[0])
        wrong = {op["name"]: op["wrong"] for op in json.loads(done.stdout)["plugins"][0]["ops"]}
        for name, says in (("r_linear", "'m n -> m n' is Linear in input 5: the op has 1 input, numbered from 0"), ("r_linear_none", "has a Linear without inputs"),
                           ("r_lost", "'m n -> m k' has 'k' in an output and in no input, and 'n' in an input, in no output and not reduced"),
                           ("r_many", "'m n, q -> m n' has the term 'q' too many: the op has 1 input"), ("r_many_outputs", "the term 'm' too many: the op has 1 output"),
                           ("r_sum", "'m n -> m n' reduces 'q', which is in no term of it"), ("r_function", "reduces 'q'"), ("r_without_case", "reduces 'q'")):
            with self.subTest(name):
                (text,) = wrong[name]
                self.assertEqual(text.startswith("case rows: "), name != "r_without_case", text)
                for word in (f"op type '{name}': the sharding rule ", says, self.libraries[0] + ", ", "ops.cpp:", "(OPC0301)"):
                    self.assertIn(word, text)
        # Kernels that know their part, and optional inputs that are not there.
        self.assertEqual((wrong["r_shard"], wrong["r_optional"]), ([], []))

    def test_a_graph_is_told_where(self):
        done = self.show("r_lost")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        for word in ("error[OPC0301]: ", "op type 'r_lost': ", "g.pbtxt:2:1"):
            self.assertIn(word, done.stderr)

    def show(self, op):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            with open(path, "w", encoding="utf-8") as f:
                f.write('op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 6 } data_type: kFloat } } }\n'
                        f'op {{ name: "p" user_conf {{ op_type_name: "{op}" input {{ key: "x" value {{ s: "x/out" }} }} }} }}\n'
                        'op { name: "result" output_conf { in: "p/y_0" out: "out" } }\n')
            return self.opc("show", path, "--what", "sbp", "--mesh", "2", "--plugin", self.libraries[0])

    def test_what_the_kernels_show(self):
        """opc verify: cases that do not run, what kernels write beside their tensors, and results in place that are others."""
        done = self.opc("verify", "v_*", "--plugin", self.libraries[7], "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        document = json.loads(done.stdout)
        self.assertFalse(document["passed"])
        found = {f["op"]: (f["fault"], f["case"], f["type"], f["detail"]) for f in document["kernel_faults"]}
        beside = "writes beside its output y, f32[4,6]: it writes up to "
        for op, fault, kind, says in (("v_behind", "WRITES_BESIDE", "f32", beside + "8 bytes behind it"),
                                      ("v_far_behind", "WRITES_BESIDE", "f32", beside + "12000 bytes behind it"),
                                      ("v_before", "WRITES_BESIDE", "f32", beside + "4 bytes before it"),
                                      ("v_copies_behind", "WRITES_BESIDE", "f32", beside + "4 bytes behind it"),
                                      ("v_copies_before", "WRITES_BESIDE", "f32", beside + "4 bytes before it"),
                                      ("v_copies_much", "WRITES_BESIDE", "f32", beside + "4000 bytes behind it"),
                                      ("v_reads_behind", "READS_BESIDE", "f32", "what it computes depends on what is behind its input x, f32[4,6]"),
                                      ("v_reads_before", "READS_BESIDE", "f32", "what it computes depends on what is before its input x, f32[4,6]"),
                                      ("v_counts_behind", "READS_BESIDE", "f32", "what it computes depends on what is behind its input x, f32[4,6]"),
                                      ("v_reads_temporary", "READS_BESIDE", "f32", "what it computes depends on what is behind its temporary memory"),
                                      ("v_two", "FAILS", "f32", "two cpu kernels for"),
                                      ("v_temporary", "WRITES_BESIDE", "f32", "writes beside its temporary memory of 396 bytes: it writes up to 4 bytes behind it"),
                                      ("v_in_place", "NOT_IN_PLACE", "f32", "output y in the memory of input x, which its kernel proposes, has other numbers"),
                                      ("v_throws", "FAILS", "", "boom")):
            with self.subTest(op):
                got = found.pop(op)
                self.assertEqual(got[:3], (fault, "case rows", kind))
                self.assertIn(says, got[3])
        self.assertEqual(found, {})
        impure = {f["op"]: f["when"] for f in document["not_pure"]}
        self.assertEqual(impure.pop("v_old_temporary"), "run over memory that held something else")
        self.assertEqual(set(impure), {"v_counter"} | set(impure) & {"v_reads_behind", "v_reads_before", "v_counts_behind", "v_reads_temporary"})
        done = self.opc("verify", "v_large", "--plugin", self.libraries[7])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr) # so much memory is not tried
        done = self.opc("verify", "v_throws", "--plugin", self.libraries[7])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("v_throws  FAILS: case rows\n", done.stdout)
        done = self.opc("verify", "v_right", "--plugin", self.libraries[7])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1 op ran in guarded memory and in place in 1 sample; 0 faults", done.stderr)
        self.assertEqual(done.stdout, "v_right  NO_RULES: it declares no signature but all-broadcast that fits its cases\n")
        self.assertIn("1 not applicable, of which 1 NO_RULES", done.stderr)

    def test_kernels_that_end_the_process(self):
        """Each has its verdict, and the others have theirs."""
        done = self.opc("verify", "e_*", "v_in_place", "--plugin", self.libraries[7], "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        document = json.loads(done.stdout)
        found = {f["op"]: (f["fault"], f["case"], f["type"], f["detail"]) for f in document["kernel_faults"]}
        self.assertEqual(found.pop("v_in_place")[0], "NOT_IN_PLACE")
        by_exit = "it ends the process, by exit() or _exit()"
        unseen = os.environ.get("OPC_SANITIZE")  # which has an _exit() of its own
        for op, detail in (("e_signal", "it ends the process: Segmentation fault"), ("e_exit", "it ends the process with exit code 0" if unseen else by_exit),
                           ("e_error", "it ends the process with exit code 3" if unseen else by_exit), ("e_exits", by_exit)):
            self.assertEqual(found.pop(op), ("CRASHES", "case rows", "f32", detail))
        self.assertEqual((found, document["kernel_samples"]), ({}, 3))
        self.assertIn("e_signal", done.stderr) # whose kernel it was
        self.assertNotIn("opc debug replay", done.stderr) # a verdict leaves no bundle
        done = self.opc("verify", "e_signal", "e_right", "--plugin", self.libraries[7])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("e_signal  CRASHES: case rows in f32\n    it ends the process: Segmentation fault\n", done.stdout)
        self.assertIn("1 op ran in guarded memory and in place in 1 sample; 1 fault", done.stderr)

    def test_kernels_that_end_the_process_later(self):
        """Whichever run it is, for the faults, for purity, for parts: the op has its verdict, and the others have theirs."""
        for runs in (0, 3, 5, 7, 8):
            done = self.opc("verify", "e_right", "e_third", "v_counter", "--plugin", self.libraries[7], "--json", env={"RUNS_UNTIL_THE_END": str(runs)})
            self.assertEqual(done.returncode, 1, done.stderr)
            document = json.loads(done.stdout)
            (fault,) = document["kernel_faults"]
            self.assertEqual((fault["op"], fault["fault"], fault["detail"]), ("e_third", "CRASHES", "it ends the process: Segmentation fault"), runs)
            self.assertEqual([f["op"] for f in document["not_pure"]], ["v_counter"], runs)
        done = self.opc("verify", "e_right", "e_third", "--plugin", self.libraries[7])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_kernels_that_never_end(self):
        """In each process of opc verify: it is ended, the op has its verdict, and the others have theirs."""
        for where in ("--faults", "--proofs", "--results"):
            with self.subTest(where), tempfile.TemporaryDirectory() as folder:
                hanging = os.path.join(folder, "pid")
                done = self.opc("verify", "e_right", "h_ever", "v_counter", "--timeout", "3", "--plugin", self.libraries[7], "--json", env={"HANGS_IN": where, "HANGING": hanging})
                self.assertEqual(done.returncode, 1, done.stderr)
                document = json.loads(done.stdout)
                detail = "it has not come to an end within 3 s; --timeout gives it more"
                self.assertEqual(document["kernel_faults"], [{"op": "h_ever", "case": "case rows", "type": "f32", "fault": "HANGS", "detail": detail}])
                self.assertEqual([f["op"] for f in document["not_pure"]], ["v_counter"])
                with open(hanging, encoding="utf-8") as f:
                    self.assertTrue(self.ends(int(f.read())), "it is there still")
        done = self.opc("verify", "e_right", "h_ever", "--timeout", "3", "--plugin", self.libraries[7])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.opc("verify", "e_right", "--timeout", "0", "--plugin", self.libraries[7])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("a number of seconds above 0", done.stderr)

    def test_a_timeout_below_the_start_of_a_process(self):
        """It is that of cases: the ops have their verdicts, whatever the processes take to start."""
        for where in ("--faults", "--proofs", "--results"):
            with self.subTest(where), tempfile.TemporaryDirectory() as folder:
                env = {"HANGS_IN": where, "HANGING": os.path.join(folder, "pid")}
                done = self.opc("verify", "h_ever", "--timeout", "0.000001", "--plugin", self.libraries[7], "--json", env=env)
                self.assertEqual(done.returncode, 1, done.stderr)
                (fault,) = json.loads(done.stdout)["kernel_faults"]
                self.assertEqual((fault["op"], fault["fault"]), ("h_ever", "HANGS"))

    @staticmethod
    def ends(process):
        """Whether a process is gone, or will be at once: who should wait for it need not have."""
        for _ in range(100):
            try:
                with open(f"/proc/{process}/stat", encoding="utf-8") as f:
                    if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return True
            except OSError:
                return True
            time.sleep(0.1)
        return False

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
