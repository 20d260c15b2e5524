# A plugin that crashes in its shape function, its SBP function or its kernel, in every way: it is named, and leaves a crash folder.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from folder_test import FolderTest
from plugin_build import build_plugin

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
# AddressSanitizer has handlers of its own for signals.
SIGNALS = not re.search("address", os.environ.get("OPC_SANITIZE", ""))

PLUGIN = r'''
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include "oneflow/core/framework/framework.h"
namespace oneflow {

static int deeper(volatile char *above) {
  volatile char frame[4096];
  frame[0] = above ? above[0] : 1;
  return deeper(frame) + frame[0];
}
static void die(const std::string &how) {
  volatile int zero = 0, many = 1000;
  if (how == "SIGSEGV") *(volatile int *)8 = 1;
  if (how == "SIGABRT") std::abort();
  if (how == "SIGFPE") zero = many / zero;
  if (how == "SIGILL") __builtin_trap();
  if (how == "SIGBUS") {
    const int file = ::memfd_create("empty", 0);
    *(volatile char *)::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) = 1;
  }
  if (how == "overflow") zero = deeper(nullptr);
  if (how == "terminate") []() noexcept { throw std::runtime_error("nobody catches it"); }();
  if (how == "thread") std::thread([] { throw std::runtime_error("nobody\033catches it"); }).join();
  if (how == "threads") {
    std::vector<std::thread> several;
    for (int i = 0; i < 8; ++i) several.emplace_back([i] {
      if (i % 2) throw std::runtime_error("nobody catches it");
      std::abort();
    });
    for (std::thread &t : several) t.join();
  }
  if (how == "linker") { // what lies behind the tensors may be what the dynamic linker finds functions by
    std::memset(_r_debug.r_map, 3, sizeof(link_map) + 512);
    zero = *(volatile int *)8;
  }
  if (how == "throw") throw std::runtime_error("no plugin today");
  if (how == "throw-int") throw 3;
  if (how == "exit") std::exit(0);
  if (how == "_exit") ::_exit(0);
  if (how == "SIGKILL") ::raise(SIGKILL);
  if (how == "print") std::printf("printed by the kernel\n");
}
static void mayDie(const char *place, const std::string &where, const std::string &how) {
  if (where == place) die(how);
}
static struct Constructed {
  Constructed() {
    if (const char *how = std::getenv("OPC_TEST_CONSTRUCTOR")) die(how);
  }
} constructed;
template <class T> class Kernel : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    mayDie("kernel", ctx->Attr<std::string>("where"), ctx->Attr<std::string>("how"));
    T *y = ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<T>();
    y[0] = 0;
    const std::string how = ctx->Attr<std::string>("how");
    for (int i = 0, n = how == "past" ? 3000 : how == "far past" ? 100000 : 0; i < n; ++i) const_cast<volatile T *>(y)[12 + i] = 3;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_OP("crashes")
    .Input("x").Output("y").Attr<std::string>("where", "").Attr<std::string>("how", "")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      mayDie("shape", ctx->Attr<std::string>("where"), ctx->Attr<std::string>("how"));
      if (const char *how = std::getenv("OPC_TEST_SHAPE")) die(how);
      *ctx->MutOutputTensorDesc("y", 0) = ctx->InputTensorDesc("x", 0);
      return Maybe<void>::Ok();
    })
    .SetDataTypeInferFn([](user_op::InferContext *) -> Maybe<void> { return Maybe<void>::Ok(); })
    .Cases({user_op::Case("small").In("x", {4, 3})})
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      mayDie("sbp", ctx->Attr<std::string>("where"), ctx->Attr<std::string>("how"));
      return Maybe<void>::Ok();
    });
REGISTER_USER_KERNEL("crashes").SetCreateFn<Kernel<float>>().SetIsMatchedHob(user_op::HobDataType("x", 0) == DataType::kFloat);
}
'''
GRAPH = '''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 3 } data_type: kFloat } } }
op { name: "culprit" user_conf { op_type_name: "crashes" input { key: "x" value { s: "x/out" } }
  attr { key: "where" value { at_string: "%s" } } attr { key: "how" value { at_string: "%s" } } } }
op { name: "y" output_conf { in: "culprit/y_0" } }
'''
HOWS = {"SIGSEGV": signal.SIGSEGV, "SIGABRT": signal.SIGABRT, "SIGBUS": signal.SIGBUS, "SIGFPE": signal.SIGFPE, "SIGILL": signal.SIGILL,
        "overflow": signal.SIGSEGV}


def opc(*words):
    return subprocess.run([OPC, *words], capture_output=True, text=True, timeout=60, check=True).stdout


@unittest.skipUnless(SIGNALS, "AddressSanitizer has handlers of its own")
class Crashes(FolderTest):
    @classmethod
    def setUpClass(cls):
        cls.built = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.built)
        cls.plugin = build_plugin(os.path.join(cls.built, "libcrashes.so"), PLUGIN, "-O0", "-w")

    def run_opc(self, where, how, *args):
        with open(os.path.join(self.folder, "g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(GRAPH % (where, how))
        env = {k: v for k, v in os.environ.items() if k not in ("CI", "GITHUB_ACTIONS", "OPC_CRASH_DIR")}
        return subprocess.run([OPC, "--config", "none", args[0], "g.pbtxt", "--plugin", self.plugin, *args[1:]], capture_output=True, text=True,
                              timeout=120, cwd=self.folder, env=env)

    def bundle(self, done):
        names = re.findall(r"^(?:help: )?opc debug replay (\S+)$", done.stdout + done.stderr, re.M)
        self.assertEqual(len(names), 1, (done.stdout, done.stderr))
        with open(os.path.join(self.folder, names[0], "bundle.json"), encoding="utf-8") as f:
            about = json.load(f)
        self.assertTrue(os.path.exists(os.path.join(self.folder, names[0], "graph.pbtxt")))
        self.assertEqual(about["plugins"][0]["path"], self.plugin)
        shutil.rmtree(os.path.join(self.folder, names[0]))
        return about["failure"]

    def test_rules(self):
        """Code of the plugin that the compiler calls: an internal error that may be the plugin's."""
        for where, phase, more in (("shape", "shape", []), ("sbp", "sbp", ["--mesh", "2"])):
            for how, number in HOWS.items():
                with self.subTest(where=where, how=how):
                    done = self.run_opc(where, how, "compile", "-o", "g.plan", *more)
                    self.assertEqual(done.returncode, 70, (done.stdout, done.stderr))
                    self.assertIn(f" in phase {phase}", done.stderr)
                    self.assertIn(f"; it may be a plugin's: a rule of op crashes ({self.plugin})\nhelp: ", done.stderr)
                    failure = self.bundle(done)
                    self.assertEqual((failure["phase"], failure["signal"], failure["code"], failure["exit_code"]),
                                     (phase, signal.Signals(number).name, "OPC0999", 70))
                    self.assertFalse(os.path.exists(os.path.join(self.folder, "g.plan")))

    def test_rules_that_end_the_process(self):
        """exit(), and an exception that nobody catches: the op and its library are named."""
        for where, how, code, says in (("shape", "exit", 5, "error[OPC0603]: a rule of op crashes (%s) called exit(0)"),
                                       ("sbp", "exit", 5, "error[OPC0603]: a rule of op crashes (%s) called exit(0)"),
                                       ("shape", "terminate", 70, "; it may be a plugin's: a rule of op crashes (%s): nobody catches it")):
            with self.subTest(where=where, how=how):
                done = self.run_opc(where, how, "compile", "-o", "g.plan", "--mesh", "2")
                self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
                self.assertIn(says % self.plugin, done.stderr)

    def test_plugin_check(self):
        """A rule that crashes on the op's own case is named there, too."""
        for how, code, says in (("SIGSEGV", 70, "error[OPC0999]: internal error: opc touched memory that is not there; it may be a plugin's: "),
                                ("exit", 5, "error[OPC0603]: ")):
            with self.subTest(how):
                done = subprocess.run([OPC, "--config", "none", "plugin", "check", self.plugin], capture_output=True, text=True, timeout=60,
                                      cwd=self.folder, env={**os.environ, "OPC_TEST_SHAPE": how})
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says + f"a rule of op crashes ({self.plugin})", done.stderr)

    def test_rules_in_a_run_of_a_plan(self):
        """opc-runtime ends by the signal, as other programs do, and says whose rule it was."""
        plan = os.path.join(self.folder, "g.plan")
        self.assertEqual(self.run_opc("", "", "compile", "-o", plan).returncode, 0)
        done = subprocess.run([OPC + "-runtime", plan, "--plugin", self.plugin, "--input", "x=f32[4,3]:1"], capture_output=True, text=True,
                              timeout=60, cwd=self.folder, env={**os.environ, "OPC_TEST_SHAPE": "SIGSEGV"})
        self.assertEqual(done.returncode, -signal.SIGSEGV, (done.stdout, done.stderr))
        self.assertIn(f"error[OPC0999]: internal error: opc touched memory that is not there; it may be a plugin's: a rule of op crashes ({self.plugin})\n",
                      done.stderr)

    def test_writing_past_a_tensor(self):
        """Whatever a kernel has written over, on the heap or of the dynamic linker's: the text comes, and names the op."""
        for how in ("past", "far past", "linker"):
            for command in (["run", "--fill", "ones"], ["check", "--update", "--update-in-ci"]):
                with self.subTest(how=how, command=command):
                    done = self.run_opc("kernel", how, *command)
                    if how == "past" and done.returncode == 0:
                        continue # nothing lay there that was used
                    said = done.stdout + done.stderr
                    self.assertIn(done.returncode, (5, 70) if command[0] == "check" else (70, -signal.SIGSEGV, -signal.SIGABRT), said)
                    self.assertRegex(said, r"OPC0605\]?: the kernel of op culprit \(crashes\)|; it may be a plugin's: the kernel of op crashes \(.*\), which ran before")

    def test_several_threads_at_once(self):
        """One text, whole, and not those of eight threads in each other."""
        for _ in range(5):
            done = self.run_opc("kernel", "threads", "run", "--fill", "ones")
            self.assertEqual((done.stdout + done.stderr).count("error["), 1, done.stderr)
            self.assertRegex(done.stderr, r"^error\[OPC0605\]: a thread that a plugin's kernel has started let an exception escape: nobody catches it\n|"
                                          r"^error\[OPC0999\]: internal error: opc called abort\(\); it may be a plugin's\n")
            self.bundle(done)

    def test_kernels(self):
        """The op is named, and opc ends as a program ends that the signal was for."""
        for how, number in HOWS.items():
            with self.subTest(how):
                done = self.run_opc("kernel", how, "run", "--fill", "ones")
                self.assertEqual(done.returncode, -number, (done.stdout, done.stderr))
                self.assertIn("error[OPC0605]: the kernel of op culprit (crashes)", done.stderr)
                failure = self.bundle(done)
                self.assertEqual((failure["signal"], failure["code"], failure["exit_code"]), (signal.Signals(number).name, "OPC0605", 128 + number))

    def test_an_exception_that_escapes(self):
        """A kernel that reaches std::terminate() is named as one that aborts."""
        done = self.run_opc("kernel", "terminate", "run", "--fill", "ones")
        self.assertEqual(done.returncode, -signal.SIGABRT, (done.stdout, done.stderr))
        self.assertIn("error[OPC0605]: the kernel of op culprit (crashes) let an exception escape", done.stderr)
        self.assertEqual(self.bundle(done)["code"], "OPC0605")

    def test_an_exception_in_a_thread_of_the_kernel(self):
        """No kernel runs in that thread: the plugin's code is named, and the program ends as for a crash of a kernel."""
        says = "error[OPC0605]: a thread that a plugin's kernel has started let an exception escape: nobody?catches it\n"
        done = self.run_opc("kernel", "thread", "run", "--fill", "ones")
        self.assertEqual(done.returncode, -signal.SIGABRT, (done.stdout, done.stderr))
        self.assertIn(says, done.stderr)
        self.assertEqual(self.bundle(done)["code"], "OPC0605")
        plan = os.path.join(self.folder, "g.plan")
        self.assertEqual(self.run_opc("kernel", "thread", "compile", "-o", plan).returncode, 0)
        done = subprocess.run([OPC + "-runtime", plan, "--plugin", self.plugin, "--input", "x=f32[4,3]:1"], capture_output=True, text=True,
                              timeout=60, cwd=self.folder)
        self.assertEqual(done.returncode, -signal.SIGABRT, (done.stdout, done.stderr))
        self.assertIn(says, done.stderr)

    def test_static_constructors(self):
        """A library that cannot be loaded because its constructors fail: exit code 4, the reason, and no crash of opc."""
        for how, says in (("throw", "a static constructor threw: no plugin today"), ("throw-int", "a static constructor threw something that is no std::exception"),
                          ("SIGSEGV", "a static constructor touched memory that is not there"), ("SIGABRT", "a static constructor called abort()"),
                          ("overflow", "a static constructor touched memory"), ("terminate", "a static constructor let an exception escape")):
            for words in (["plugin", "check", self.plugin], ["ops", "--plugin", self.plugin]):
                with self.subTest(how=how, words=words):
                    done = subprocess.run([OPC, "--config", "none", *words], capture_output=True, text=True, timeout=60, cwd=self.folder,
                                          env={**os.environ, "OPC_TEST_CONSTRUCTOR": how})
                    self.assertEqual(done.returncode, 4, done.stderr)
                    self.assertIn(f"error[OPC0902]: cannot load plugin {self.plugin}: {says}", done.stderr)
                    self.assertEqual(os.listdir(self.folder), [])

    def test_checks(self):
        """opc check, on several threads: the bundle has the graph whose plugin it was."""
        for where in ("shape", "kernel"):
            for how, number in (("SIGFPE", signal.SIGFPE), ("overflow", signal.SIGSEGV)):
                with self.subTest(where=where, how=how):
                    done = self.run_opc(where, how, "check", "--update", "-j", "4")
                    self.assertEqual(done.returncode, 70 if where == "shape" else 5, (done.stdout, done.stderr))
                    self.assertIn("INTERNAL_ERROR" if where == "shape" else "RUN_FAILED]: OPC0605: the kernel of op culprit (crashes)", done.stdout)
                    self.assertEqual(self.bundle(done)["signal"], signal.Signals(number).name)
                    self.assertFalse(os.path.exists(os.path.join(self.folder, "g.opc.lock")))

    def test_checks_of_others(self):
        """However a kernel ends the process that checks its graph: it is a finding, the other graphs are checked, and reports are written."""
        with open(os.path.join(self.folder, "z.pbtxt"), "w", encoding="utf-8") as f:
            f.write(GRAPH % ("", ""))
        self.checked("none", "--update", code=0)
        with open(os.path.join(self.folder, "z.pbtxt"), "w", encoding="utf-8") as f:
            f.write((GRAPH % ("", "")).replace("dim: 3", "dim: 5"))
        for how, says in (("SIGSEGV", r"OPC0605: the kernel of op culprit \(crashes\) touched memory"), ("SIGABRT", "called abort()"),
                          ("SIGKILL", "OPC0605: .* ended by a signal: Killed"), ("exit", r"OPC0603: .* culprit .* called exit\(0\)"),
                          ("_exit", "OPC0603: .* ended the process .* exit code 0")):
            for more in ([], ["-j", "1"], ["--twice"]):
                with self.subTest(how=how, more=more):
                    done = self.checked(how, "--report", "json=r.json", *more, code=5)
                    with open(os.path.join(self.folder, "r.json"), encoding="utf-8") as f:
                        found = [(f["graph"], f["rule"], f["message"]) for f in json.load(f)["findings"] if f["severity"] == "error"]
                    os.remove(os.path.join(self.folder, "r.json"))
                    failed = [f for f in found if f[0] == "g.pbtxt"]
                    self.assertEqual([f[1] for f in failed], ["RUN_FAILED"])
                    self.assertRegex(failed[0][2], says)
                    self.assertIn(("z.pbtxt", "INPUT_TYPE_CHANGED"), [f[:2] for f in found])
                    self.assertIn("checked 2 graphs", done.stderr)
        self.assertEqual(self.checked("_exit", "--except", "RUN_FAILED", "--ignore", "z.pbtxt:*", code=0).stderr.splitlines()[-1],
                         "checked 2 graphs: no finding")

    def test_what_a_process_hands_over(self):
        """Locks, whole outputs and what kernels print are the same as from this process, with a plugin or without."""
        with open(os.path.join(self.folder, "plain.pbtxt"), "w", encoding="utf-8") as f:
            f.write((GRAPH % ("", "")).replace("crashes", "relu").split("attr", maxsplit=1)[0] +
                    '} }\nop { name: "y" output_conf { in: "culprit/y_0" } }\n')
        self.checked("print", "--update", "--keep-outputs", code=0, graph="plain.pbtxt")
        names = ("plain.opc.lock", "plain.opc.outputs.npz")
        def made():
            texts = []
            for name in names:
                with open(os.path.join(self.folder, name), "rb") as f:
                    texts.append(f.read())
                os.remove(os.path.join(self.folder, name))
            return texts
        with_plugin = made()
        subprocess.run([OPC, "--config", "none", "check", "plain.pbtxt", "--update", "--update-in-ci", "--keep-outputs", "-q"], cwd=self.folder, check=True)
        self.assertEqual(made(), with_plugin)
        done = self.checked("print", "--update", code=0)
        self.assertEqual(done.stdout.count("printed by the kernel"), 1)
        self.checked("print", code=0)

    def checked(self, how, *more, code, graph="."):
        with open(os.path.join(self.folder, "g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(GRAPH % ("kernel", how))
        env = {k: v for k, v in os.environ.items() if k not in ("CI", "GITHUB_ACTIONS")}
        done = subprocess.run([OPC, "--config", "none", "check", graph, "--plugin", self.plugin, *more], capture_output=True, text=True, timeout=120,
                              cwd=self.folder, env={**env, "OPC_CRASH_DIR": "none"})
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        return done


if __name__ == "__main__":
    unittest.main()
