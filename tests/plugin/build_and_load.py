# Plugins as their authors build them: in a scratch folder, with nothing but `opc sdk` and a compiler.
# SPDX-License-Identifier: Apache-2.0
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np

SOURCE = os.environ["OPC_SOURCE_DIR"]
OPC = os.environ.get("OPC_BINARY") or os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
EXAMPLE = os.path.join(SOURCE, "docs", "examples", "myrelu_plugin")
BAD = os.path.join(SOURCE, "tests", "plugin", "bad")
CXX = os.environ.get("OPC_PLUGIN_CXX", "g++")

scratch = tempfile.TemporaryDirectory()


def opc(*args, plugins=()):
    command = [OPC, *args] + [x for p in plugins for x in ("--plugin", p)]
    return subprocess.run(command, capture_output=True, text=True, cwd=scratch.name, timeout=120)


def flags(which):
    done = opc("sdk", which)
    assert done.returncode == 0, done.stderr
    return shlex.split(done.stdout)


def build(output, *sources, extra=()):
    """A shared library of the sources; the path. Raises with the compiler's words."""
    path = os.path.join(scratch.name, output)
    command = [CXX, "-O0", "-fPIC", "-shared", *flags("--cflags"), *extra, *sources, "-o", path, *flags("--ldflags")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=scratch.name)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stderr}")
    return path


LIBRARIES = {}


def setUpModule():
    names = ("ops", "undefined_symbol", "duplicate_op", "api_version")
    with ThreadPoolExecutor(2) as pool:
        jobs = {n: pool.submit(build, f"lib{n}.so", os.path.join(BAD, f"{n}.cpp")) for n in names}
        jobs["myrelu"] = pool.submit(build, "libmyrelu.so", os.path.join(EXAMPLE, "myrelu_op.cpp"), os.path.join(EXAMPLE, "myrelu_cpu_kernel.cpp"))
        for n, job in jobs.items():
            LIBRARIES[n] = job.result()
    LIBRARIES["no_sdk"] = os.path.join(scratch.name, "libno_sdk.so")
    subprocess.run([CXX, "-fPIC", "-shared", os.path.join(BAD, "no_sdk.cpp"), "-o", LIBRARIES["no_sdk"]], check=True)


def one_op_graph(op_type, inputs=1, attrs=""):
    path = os.path.join(scratch.name, f"{op_type}.pbtxt")
    bound = " ".join(['s: "x/out"'] * inputs)
    with open(path, "w") as f:
        f.write('op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 dim: 3 } data_type: kFloat } } }\n'
                f'op {{ name: "culprit" user_conf {{ op_type_name: "{op_type}" input {{ key: "x" value {{ {bound} }} }}\n'
                f'  output {{ key: "y" value {{ s: "culprit/y_0" }} }} {attrs} }} }}\n'
                'op { name: "y" output_conf { in: "culprit/y_0" out: "out" } }\n')
    return path


class MyRelu(unittest.TestCase):
    def test_runs(self):
        out = os.path.join(scratch.name, "out")
        done = opc("run", os.path.join(EXAMPLE, "myrelu.pbtxt"), "--input", "x=f32[5]:-2,-1,0,1,2", "--outputs", out, "--print", "none",
                   plugins=[LIBRARIES["myrelu"]])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        y = np.load(os.path.join(out, "y.npy"))
        self.assertEqual(y.dtype, np.float32)
        self.assertEqual(y.tolist(), [0, 0, 0, 1, 2])

    def test_plugin_check(self):
        done = opc("plugin", "check", LIBRARIES["myrelu"])
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout + done.stderr
        self.assertIn("myrelu", text)
        for word in ("gradient", "f32", "f64"):
            self.assertIn(word, text)

    def test_is_listed(self):
        done = opc("ops", "myrelu", plugins=[LIBRARIES["myrelu"]])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("myrelu", done.stdout)

    def test_unknown_without_the_plugin(self):
        done = opc("run", os.path.join(EXAMPLE, "myrelu.pbtxt"), "--input", "x=f32[5]:0")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("unknown op type 'myrelu'", done.stderr)

    def test_wrong_element_type_lists_the_kernels(self):
        graph = os.path.join(scratch.name, "half.pbtxt")
        with open(os.path.join(EXAMPLE, "myrelu.pbtxt")) as f, open(graph, "w") as g:
            g.write(f.read().replace("kFloat", "kFloat16"))
        done = opc("run", graph, "--fill", "zeros", plugins=[LIBRARIES["myrelu"]])
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("myrelu", done.stderr)
        self.assertIn("f16", done.stderr)

    def test_makefile(self):
        folder = os.path.join(scratch.name, "make")
        shutil.copytree(EXAMPLE, folder)
        done = subprocess.run(["make", f"OPC={OPC}", f"CXX={CXX}"], cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = opc("plugin", "check", os.path.join(folder, "libmyrelu.so"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_headers_are_cpp17(self):
        build("libcpp17.so", os.path.join(EXAMPLE, "myrelu_op.cpp"), extra=["-std=c++17", "-fsyntax-only"])

    def test_cuda_kernel_compiles(self):
        nvcc = shutil.which("nvcc") or ("/usr/local/cuda/bin/nvcc" if os.path.exists("/usr/local/cuda/bin/nvcc") else None)
        if not nvcc:
            self.skipTest("no nvcc: the .cu was not compiled")
        command = [nvcc, "-Xcompiler", "-fPIC", *flags("--cflags"), "-c", os.path.join(EXAMPLE, "myrelu_gpu_kernel.cu"), "-o", os.path.join(scratch.name, "gpu.o")]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


class BrokenLibraries(unittest.TestCase):
    """A library that cannot be loaded: exit code 4, the reason, and nothing else happens."""

    def refused(self, name, *words):
        for done in (opc("plugin", "check", LIBRARIES[name]), opc("ops", plugins=[LIBRARIES[name]])):
            self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
            for w in words:
                self.assertIn(w, done.stdout + done.stderr)

    def test_undefined_symbol(self):
        self.refused("undefined_symbol", "computedElsewhere")

    def test_duplicate_op(self):
        self.refused("duplicate_op", "matmul", "duplicate_op.cpp", "built-in")

    def test_api_version(self):
        self.refused("api_version", "999")

    def test_no_sdk(self):
        self.refused("no_sdk", "libno_sdk.so")

    def test_missing_file(self):
        done = opc("ops", plugins=[os.path.join(scratch.name, "libnowhere.so")])
        self.assertIn(done.returncode, (2, 4), done.stderr)
        self.assertIn("libnowhere.so", done.stderr)

    def test_not_a_library(self):
        path = os.path.join(scratch.name, "text.so")
        with open(path, "w") as f:
            f.write("not a library\n")
        done = opc("ops", plugins=[path])
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("text.so", done.stderr)

    def test_twice_the_same_plugin(self):
        done = opc("ops", "myrelu", plugins=[LIBRARIES["myrelu"]] * 2)
        self.assertIn(done.returncode, (0, 4), done.stderr)


class BrokenOps(unittest.TestCase):
    """An op that breaks the SDK's contract: an error that names the op and what it did."""

    def fails(self, op_type, code, *words, threads="1", **graph):
        done = opc("run", one_op_graph(op_type, **graph), "--fill", "ones", "-j", threads, plugins=[LIBRARIES["ops"]])
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}")
        for w in ("culprit",) + words:
            self.assertIn(w, done.stderr)

    def test_wrong_dtype_in_kernel(self):
        self.fails("bad_dtype", 5, "f64", "f32")

    def test_absent_optional_tensor(self):
        self.fails("bad_optional", 5)

    def test_writing_an_input(self):
        self.fails("bad_write", 5)

    def test_throwing_kernel(self):
        self.fails("bad_throw", 5, "the kernel gave up")

    def test_kernel_that_throws_a_number(self):
        self.fails("bad_throw_number", 5)

    def test_throwing_on_threads_of_the_pool(self):
        for threads in ("1", "2", "8"):
            self.fails("bad_throw_in_loop", 5, "the piece gave up", threads=threads)
            self.fails("bad_check_in_loop", 5, "the piece is odd", "ops.cpp:", threads=threads)

    def test_rank_40(self):
        self.fails("bad_rank", 3, "40")

    def test_negative_dimension(self):
        self.fails("bad_negative", 3, "-5")

    def test_input_7_of_2(self):
        self.fails("bad_index", 3, "7", inputs=2)

    def test_throwing_rule(self):
        self.fails("bad_rule", 3, "the rule gave up")

    def test_attribute_of_another_type(self):
        self.fails("bad_attr", 3, "scale")

    def test_no_kernel(self):
        self.fails("no_kernel", 4, "no_kernel")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + ["-v"] + sys.argv[1:])
