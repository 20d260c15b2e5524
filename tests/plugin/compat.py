# The headers at OneFlow's paths: sources in that style compile, load, run and give numpy's numbers; what is not there says so.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np

SOURCE = os.environ["OPC_SOURCE_DIR"]
OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
CXX = os.environ.get("OPC_PLUGIN_CXX", "g++")
COMPAT = os.path.join(SOURCE, "kernels", "sdk", "compat")
scratch = tempfile.TemporaryDirectory()
LIBRARY = os.path.join(scratch.name, "libcompat.so")
rng = np.random.default_rng(7)


def opc(*args):
    return subprocess.run([OPC, *args], capture_output=True, text=True, cwd=scratch.name, timeout=120)


def flags(which):
    return shlex.split(opc("sdk", which).stdout)


def setUpModule():
    def compile_one(name):
        target = os.path.join(scratch.name, f"{name}.o")
        subprocess.run([CXX, "-O0", "-w", "-fPIC", *flags("--cflags"), "-c", os.path.join(SOURCE, "tests", "plugin", "compat", f"{name}.cpp"),
                        "-o", target], check=True)
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, ("arrays", "kernels")))
    subprocess.run([CXX, "-shared", *objects, "-o", LIBRARY, *flags("--ldflags")], check=True)


def graph_of(op, inputs, outputs, attrs=""):
    kinds = {np.dtype(np.float32): "kFloat", np.dtype(np.float64): "kDouble", np.dtype(np.int32): "kInt32"}
    lines, bound = [], ""
    for name, value in inputs.items():
        dims = " ".join(f"dim: {d}" for d in value.shape)
        lines.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {kinds[value.dtype]} }} }} }}')
        bound += f'input {{ key: "{name}" value {{ s: "{name}/out" }} }} '
    for name in outputs:
        bound += f'output {{ key: "{name}" value {{ s: "it/{name}_0" }} }} '
        lines.append(f'op {{ name: "out_{name}" output_conf {{ in: "it/{name}_0" out: "out" }} }}')
    lines.append(f'op {{ name: "it" user_conf {{ op_type_name: "{op}" {bound} {attrs} }} }}')
    return "\n".join(lines)


def attempt(op, inputs, outputs, attrs="", extra=()):
    with open(os.path.join(scratch.name, "graph.pbtxt"), "w") as f:
        f.write(graph_of(op, inputs, outputs, attrs))
    np.savez(os.path.join(scratch.name, "in.npz"), **inputs)
    return opc("run", "graph.pbtxt", "--inputs", "in.npz", "--outputs", "out", "--print", "none", "--plugin", LIBRARY, *extra)


def computed(op, inputs, outputs, attrs="", extra=()):
    done = attempt(op, inputs, outputs, attrs, extra)
    assert done.returncode == 0, done.stderr
    return [np.load(os.path.join(scratch.name, "out", f"out_{name}.npy")) for name in outputs]


def f32(*shape):
    return rng.uniform(-2, 2, shape).astype(np.float32)


class Arrays(unittest.TestCase):
    def test_products(self):
        for dtype, rtol in ((np.float32, 1e-5), (np.float64, 1e-12)):
            for ta in (False, True):
                for tb in (False, True):
                    a, b, d = (rng.uniform(-1, 1, s).astype(dtype) for s in (((5, 3) if ta else (3, 5)), ((4, 5) if tb else (5, 4)), (3, 4)))
                    attrs = " ".join(f'attr {{ key: "transpose_{n}" value {{ at_bool: {str(v).lower()} }} }}' for n, v in (("a", ta), ("b", tb)))
                    c, twice = computed("compat_gemm", {"a": a, "b": b, "d": d}, ["c", "twice"], attrs)
                    product = (a.T if ta else a) @ (b.T if tb else b)
                    np.testing.assert_allclose(c, 2 * product + 3 * d, rtol=rtol, atol=rtol)
                    np.testing.assert_allclose(twice, np.stack([product, product]), rtol=rtol, atol=rtol)

    def test_transpose(self):
        x = f32(2, 3, 4)
        for perm in ((0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0)):
            attrs = 'attr { key: "perm" value { at_list_int32 { ' + " ".join(f"val: {p}" for p in perm) + " } } }"
            np.testing.assert_array_equal(computed("compat_transpose", {"x": x}, ["y"], attrs)[0], x.transpose(perm))

    def test_broadcasting(self):
        functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum,
                     "FloorMod": np.mod, "LT": np.less}
        for xs, ys in (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((2, 3, 4), (3, 1)), ((2, 1, 4), (3, 1)), ((1,), (1,))):
            x, y = f32(*xs), f32(*ys)
            for (name, function), got in zip(functions.items(), computed("compat_broadcast", {"x": x, "y": y}, list(functions))):
                np.testing.assert_allclose(got, function(x, y), rtol=1e-6, atol=1e-6, err_msg=f"{name} {xs} {ys}")

    def test_reductions(self):
        functions = {"Sum": np.sum, "Max": np.max, "Min": np.min, "Prod": np.prod}
        x = f32(3, 4, 5)
        for axis in (0, 1, 2, -1):
            attrs = f'attr {{ key: "axis" value {{ at_int32: {axis} }} }}'
            for (name, function), got in zip(functions.items(), computed("compat_reduce", {"x": x}, list(functions), attrs)):
                np.testing.assert_allclose(got, function(x, axis), rtol=1e-5, err_msg=name)

    def test_boxes(self):
        for shape, widths in (((5,), (2,)), ((2, 3), (0, 4)), ((2, 3, 4), (1, 0, 2)), ((2, 0), (1, 1))):
            x = f32(*shape)
            attrs = 'attr { key: "widths" value { at_list_int64 { ' + " ".join(f"val: {w}" for w in widths) + " } } }"
            for got in computed("compat_frame", {"x": x}, ["boxes", "indices"], attrs):
                np.testing.assert_array_equal(got, np.pad(x, [(w, w) for w in widths], constant_values=7))

    def test_rows(self):
        x, ids = f32(4, 3), np.array([2, 0, 2, 3, 2], np.int32)
        gathered, batched, summed, by_index, squares = computed("compat_rows", {"x": x, "ids": ids}, ["gathered", "batched", "summed", "by_index", "squares"])
        np.testing.assert_array_equal(gathered, x[ids])
        np.testing.assert_array_equal(batched, x[ids])
        expected = np.zeros_like(x)
        np.add.at(expected, ids, x[ids])
        np.testing.assert_allclose(summed, expected, rtol=1e-6)
        np.testing.assert_allclose(by_index, np.concatenate([expected[[2, 0, 3]], np.zeros((2, 3))]), rtol=1e-6)
        np.testing.assert_allclose(squares, [np.sum(x * x)], rtol=1e-6)

    def test_index_beyond_the_rows(self):
        done = attempt("compat_rows", {"x": f32(4, 3), "ids": np.array([1, 4], np.int32)}, ["summed"])
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("index 4 of 4", done.stderr)


class General(unittest.TestCase):
    def test_switch(self):
        for shape in ((3,), (2, 3), (1, 2, 1, 2, 1, 2)):
            self.assertEqual(computed("compat_switch", {"x": f32(*shape)}, ["y"])[0].tolist(), [100 * len(shape) + 4])
        done = attempt("compat_switch", {"x": f32(1, 1, 1, 1, 1, 1, 1)}, ["y"])  # DIM_SEQ ends at 6
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("no function for these types", done.stderr)

    def test_threads(self):
        x = f32(1001)
        for threads in ("1", "3"):
            y, = computed("compat_threads", {"x": x}, ["y"], extra=("-j", threads))
            np.testing.assert_allclose(y, x + np.arange(1001, dtype=np.float32), rtol=1e-6)

    def test_lists_of_types(self):
        largest = [np.finfo(np.float32).max, np.inf, 127, 2**31 - 1, 2**63 - 1, 65504]  # f64's overflows f32
        y, = computed("compat_types", {"x": f32(1)}, ["y"])
        expected = [largest[0] / 2, np.inf, 63, 2**30 - 1, 2**62 - 1, 32752]
        np.testing.assert_allclose(y, np.array(expected, np.float32))

    def test_state(self):
        def drawn(seed):
            return computed("compat_random", {"x": f32(1000)}, ["y"], f'attr {{ key: "seed" value {{ at_int64: {seed} }} }}')[0]

        y = drawn(1)
        self.assertTrue((y >= 2).all() and (y < 5).all())
        self.assertLess(abs(y.mean() - 3.5), 0.15)
        np.testing.assert_array_equal(drawn(1), y)
        self.assertFalse((drawn(2) == y).any())

    def test_signatures(self):
        shown = json.loads(opc("plugin", "check", LIBRARY, "--json").stdout)
        self.assertIn("compat_threads", [op["name"] for p in shown["plugins"] for op in p["ops"]])
        done = opc("verify", "compat_threads", "--plugin", LIBRARY)
        self.assertIn(done.returncode, (0, 2, 3), done.stderr)

    def test_ways_to_give_up(self):
        words = {"check": ["shape == Shape({1})", "(2) vs (1)", "what is expected"], "fatal": ["a fatal word"], "todo": ["still to be written"],
                 "unimplemented": ["not implemented"], "just": ["no device is called 'tpu'"], "type": ["f32", "read as f64"]}
        for how, expected in words.items():
            done = attempt("compat_gives_up", {"x": f32(2)}, ["y"], f'attr {{ key: "how" value {{ at_string: "{how}" }} }}')
            self.assertEqual(done.returncode, 5, done.stderr)
            for word in (*expected, "kernels.cpp" if how not in ("just", "type") else "it"):
                self.assertIn(word, done.stderr, how)
        done = attempt("compat_gives_up", {"x": f32(2)}, ["y"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("a word of kernel it", done.stderr)


UNARY = """
#include "oneflow/core/framework/framework.h"
namespace oneflow {
%s
class Kernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    user_op::Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    for (int64_t i = 0; i < x->shape().elem_cnt(); ++i) y->mut_dptr<float>()[i] = %s(x->dptr<float>()[i]);
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_OP("%s").Input("x").Output("y").SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged);
REGISTER_USER_KERNEL("%s").SetCreateFn<Kernel>().SetIsMatchedHob(
    (user_op::HobDeviceTag() == "cpu") & (user_op::HobDataType("x", 0) == DataType::kFloat));
}
"""
REPORT = """folder                files  compiled  loaded  with kernels  numbers
oneflow/user/kernels      4         3       2             2        1
oneflow/user/ops          1         1       1             0        0

failed, by reason:
     1  wants the function oneflow::elsewhere
     1  wants the header oneflow/core/nowhere.h

ops with kernels: 1 agrees, 1 differs, 0 not compared
  tanh: differs: """


class Script(unittest.TestCase):
    def test_folder_of_sources(self):
        folder = os.path.join(scratch.name, "sources")
        files = {"kernels/fine.cpp": UNARY % ("", "std::abs", "abs", "abs"), "kernels/wrong.cpp": UNARY % ("namespace {", "std::atan", "tanh", "tanh") + "}\n",
                 "kernels/alone.cpp": UNARY % ("float elsewhere(float);", "elsewhere", "mine", "mine"),
                 "kernels/headless.cpp": '#include "oneflow/core/nowhere.h"\n', "ops/none.cpp": '#include "oneflow/core/common/util.h"\n'}
        for name, text in files.items():
            path = os.path.join(folder, "oneflow", "user", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        command = [sys.executable, os.path.join(SOURCE, "tests", "plugin", "oneflow_sources.py"), folder, "--cxx", CXX, "-j", "2",
                   "--objects", os.path.join(scratch.name, "objects")]
        said = [subprocess.run(command, capture_output=True, text=True) for _ in range(2)]
        self.assertEqual(said[0].returncode, 0, said[0].stderr)
        self.assertTrue(said[0].stdout.startswith(REPORT), said[0].stdout)
        self.assertEqual(said[0].stdout, said[1].stdout)


class Headers(unittest.TestCase):
    def errors(self, text, *extra):
        done = subprocess.run([CXX, "-w", "-fsyntax-only", *flags("--cflags"), *extra, "-x", "c++", "-"], input=text, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0, "this should not compile")
        return done.stderr

    def test_each_compiles_alone(self):
        headers = sorted(os.path.relpath(os.path.join(at, f), COMPAT) for at, _, files in os.walk(COMPAT) for f in files if f.endswith((".h", ".cuh")))
        self.assertGreater(len(headers), 40)
        eigen = "oneflow/core/common/eigen_util.h"
        include = flags("--cflags")
        warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Wdouble-promotion", "-Wconversion", "-Wold-style-cast", "-Werror"]
        text = "".join(f'#include "{h}"\n' for h in reversed(headers) if h != eigen)
        for source in (text + text, *(f'#include "{h}"\n' for h in headers if h != eigen and os.environ.get("OPC_EVERY_HEADER"))):
            done = subprocess.run([CXX, *warnings, "-fsyntax-only", *include, "-x", "c++", "-"], input=source, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr[:2000])

    def test_what_is_not_there_says_so(self):
        start = '#include "oneflow/core/ndarray/ndarray_util.h"\n#include "oneflow/core/kernel/random_generator.h"\nusing namespace oneflow;\n'
        text = self.errors(start + "void f(float *y) { NewKernelUtil<DeviceType::kGPU>::Fill(nullptr, 1, 0.f, y); }\n"
                                   "void g() { Memcpy<DeviceType::kGPU>(nullptr, nullptr, nullptr, 0); }\n"
                                   "NdarrayUtil<DeviceType::kGPU, float> h;\nvoid i() { RandomGenerator<DeviceType::kGPU>(1, nullptr); }\n"
                                   "#define NOTHING(x)\nOF_PP_FOR_EACH_ATOMIC(NOTHING, " + "(1)" * 65 + ")\n")
        for sentence in ("NewKernelUtil computes on the CPU", "the compat headers copy on the CPU", "NdarrayUtil computes on the CPU",
                         "RandomGenerator draws on the CPU", "more than 64 elements"):
            self.assertIn(sentence, text)
        self.assertIn("no cuDNN", self.errors('#include "oneflow/core/device/cudnn_util.h"\n', "-DWITH_CUDA"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
