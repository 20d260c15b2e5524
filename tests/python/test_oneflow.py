"""Programs in OneFlow's style run as they are printed in its documents."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import oneflow_listings as listings
from style_programs import path_of

BUILD = os.environ["OPC_BUILD_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")

#: A kernel for the document's op `myop`, which it says is 3 x x, and an op with two outputs.
MYOP_KERNEL = r'''
class MyOpKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    for (int64_t i = 0; i < in->shape().elem_cnt(); ++i)
      out->mut_dptr<float>()[i] = 3 * in->dptr<float>()[i] * in->dptr<float>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_KERNEL("myop").SetCreateFn<MyOpKernel>().SetIsMatchedHob(user_op::HobDeviceType() == DeviceType::kCPU);
'''
INSIDE = '#include "oneflow/core/framework/framework.h"\nnamespace oneflow {\nnamespace {\n%s\n}\n}\n'

TRAIN_MYOP = r'''
import numpy as np
import oneflow as flow
import oneflow.typing as tp

flow.config.load_library("libmyop.so")
seen = []


def watch_diff_handler(blob: tp.Numpy):
    seen.append(blob)


def myop(x):
    return flow.user_op_builder("my").Op("myop").Input("in", [x]).Output("out").Build().InferAndTryRun().SoleOutputBlob()


@flow.global_function(type="train")
def train(x: tp.Numpy.Placeholder((4,), dtype=flow.float32)) -> tp.Numpy:
    w = flow.get_variable("w", shape=(4,), initializer=flow.constant_initializer(0.5))
    flow.watch_diff(w, watch_diff_handler)
    loss = flow.math.reduce_sum(myop(w * x))
    rate = flow.optimizer.PiecewiseConstantScheduler([1], [0.01, 0.001])
    flow.optimizer.SGD(rate, momentum=0).minimize(loss)
    return loss


@flow.global_function()
def look() -> tp.Numpy:
    return flow.get_variable("w", shape=(4,), initializer=flow.constant_initializer(0.5))


x = np.array([1, -2, 3, 0], np.float32)
w = np.full(4, 0.5, np.float32)
for step in range(3):
    loss = train(x)
    np.testing.assert_allclose(loss, np.sum(3 * (w * x) ** 2), rtol=1e-6)
    np.testing.assert_allclose(seen[-1], 6 * (w * x) * x, rtol=1e-6)
    w = w - np.float32(0.01 if step <= 1 else 0.001) * 6 * (w * x) * x
    np.testing.assert_allclose(look(), w, rtol=1e-6)
print("trained", len(seen))
'''


class Programs(unittest.TestCase):
    """A scratch folder, and programs that see nothing of opc but the two folders that the command prints."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = os.path.realpath(made.name)
        os.mkdir(os.path.join(self.folder, "bin"))
        os.symlink(sys.executable, os.path.join(self.folder, "bin", "python"))
        places = [path_of(option) for option in ("--path", "--compat-path")]
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("OPC_", "PYTHON"))}
        self.env["PYTHONPATH"] = ":".join(places)
        self.env["PATH"] = os.path.join(self.folder, "bin") + ":" + os.environ["PATH"]
        self.env["XDG_CACHE_HOME"] = os.path.join(self.folder, "cache")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def do(self, *words):
        return subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True)

    def prints(self, program, expected):
        done = self.do("python", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, expected)

    def fails(self, text, *parts):
        self.write("wrong.py", "import numpy as np\nimport oneflow as flow\nimport oneflow.typing as tp\n" + text)
        done = self.do("python", "wrong.py")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        for part in parts:
            self.assertIn(part, done.stderr)


class OperatorsInCpp(Programs):
    def test_myrelu(self):
        self.write("myrelu_op.cpp", listings.MYRELU_OP)
        self.write("myrelu_cpu_kernel.cpp", listings.MYRELU_CPU_KERNEL)
        self.write("myrelu_gpu_kernel.cu", listings.MYRELU_GPU_KERNEL)
        self.write("Makefile", listings.MYRELU_MAKEFILE)
        self.write("program.py", listings.MYRELU_PROGRAM)
        flags = self.do("python", "-c", "import oneflow; print(*oneflow.sysconfig.get_link_flags())").stdout.split()
        if shutil.which("nvcc"):
            made = self.do("make")
        else:
            made = self.do("make", "myrelu_op.o", "myrelu_cpu_kernel.o")
            self.assertEqual(made.returncode, 0, made.stderr)
            made = self.do("g++", "-shared", "myrelu_op.o", "myrelu_cpu_kernel.o", "-o", "final_relu.so", *flags)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.prints("program.py", "[-2. -1.  0.  1.  2.]\n[0. 0. 0. 1. 2.]\n")

    def test_flags_of_the_compiler(self):
        program = (
            "import oneflow, os\ns = oneflow.sysconfig\nflags = s.get_compile_flags()\n"
            "assert flags and all(f.startswith(('-I', '-D')) or f == '-std=c++17' for f in flags), flags\n"
            "assert os.path.isfile(os.path.join(s.get_include(), 'oneflow/core/framework/framework.h'))\n"
            "assert os.path.isfile(os.path.join(s.get_lib(), 'libopc_sdk.so'))\nprint('fine')\n"
        )
        self.write("flags.py", program)
        self.prints("flags.py", "fine\n")

    def test_nvcc_says_where_the_runtime_is(self):
        # On PATH may be a script that starts the compiler from somewhere else.
        self.write("toolkit of cuda/lib/libcudart.so", "")
        self.write("bin/nvcc", f"#!/bin/sh\necho '#$ TOP=/x' >&2\necho '#$ LIBRARIES=  \"-L{self.folder}/stubs\" \"-L{self.folder}/toolkit of cuda/lib\"' >&2\n")
        os.chmod(os.path.join(self.folder, "bin", "nvcc"), 0o755)
        self.write("flags.py", "import oneflow\nprint(oneflow.sysconfig.get_link_flags()[-2:])\n")
        folder = os.path.join(self.folder, "toolkit of cuda", "lib")
        self.prints("flags.py", f"{['-L' + folder, '-Wl,-rpath,' + folder]}\n")
        self.write("bin/nvcc", "#!/bin/sh\nexit 1\n")
        self.assertNotIn("cuda", self.do("python", "flags.py").stdout)

    def test_myop_trains_by_the_documents_gradient(self):
        self.write("myop.cpp", INSIDE % (listings.MYOP + listings.MYOP_GRADIENT + MYOP_KERNEL))
        self.write("train.py", TRAIN_MYOP)
        flags = self.do("python", "-c", "import oneflow as f; s = f.sysconfig; print(*s.get_compile_flags(), *s.get_link_flags())").stdout.split()
        built = self.do("g++", "-O1", "-shared", "-fPIC", "myop.cpp", "-o", "libmyop.so", *flags)
        self.assertEqual(built.returncode, 0, built.stderr)
        self.prints("train.py", "trained 3\n")

    def test_cast(self):
        # The document's listing has a parenthesis too many.
        self.write("printed.py", listings.CAST)
        self.assertIn("SyntaxError: unmatched ')'", self.do("python", "printed.py").stderr)
        self.write(
            "corrected.py",
            "import numpy as np\nimport oneflow as flow\nimport oneflow.typing as tp\n" + listings.CAST.rstrip()[:-1] + "\n"
            "@flow.global_function()\ndef job(x: tp.Numpy.Placeholder((3,))) -> tp.Numpy:\n    return cast(x, flow.int32, 'c')\n"
            "y = job(np.array([1.5, -2.5, 3], np.float32))\nprint(y, y.dtype)\n",
        )
        self.prints("corrected.py", "[ 1 -2  3] int32\n")


JOB = """
@flow.global_function(%s)
def job(x: tp.Numpy.Placeholder((3,))) -> tp.Numpy:
    %s
job(np.zeros(%s, %s))
"""


class WrongPrograms(Programs):
    def test_messages(self):
        builder = "return flow.user_op_builder('a')%s.InferAndTryRun().SoleOutputBlob()"
        for text, *parts in (
            (JOB % ("", builder % ".Op('reluu').Input('x', [x]).Output('y').Build()", 3, "'f'"), "OPC0201", "reluu"),
            (JOB % ("", builder % ".Op('relu').Input('x', x).Output('y').Build()", 3, "'f'"), "takes a list of tensors"),
            (JOB % ("", builder % ".Input('x', [x]).Build()", 3, "'f'"), "has no type"),
            (JOB % ("", builder % ".Op('relu').Input('x', [np.ones(3)]).Output('y').Build()", 3, "'f'"), "of op 'a': a ndarray is no tensor of a job"),
            (JOB % ("", builder % ".Op('leaky_relu').Input('x', [x]).Output('y').Attr('alpha', 'no').Build()", 3, "'f'"),
             "OPC0205", "leaky_relu: attribute 'alpha' is 'no', expected a number", "op a", "wrong.py:7:1"),
            (JOB % ("'train'", "return x", 3, "'f'"), "says no loss"),
            (JOB % ("", "flow.optimizer.SGD(flow.optimizer.PiecewiseConstantScheduler([], [1])).minimize(x)", 3, "'f'"), 'type="train"'),
            (JOB % ("'traim'", "return x", 3, "'f'"), "'predict' or 'train'"),
            (JOB % ("", "return x", 4, "'f'"), "job", "4"),
            (JOB % ("", "return x", 3, "'d'"), "OPC0703", "float64"),
            (JOB % ("", "return 3", 3, "'f'"), "is no tensor"),
            (JOB % ("", "with flow.scope.placement('gpu', '0:0'): return x", 3, "'f'"), "on the CPU"),
            ("flow.config.load_library('nothing.so')\n", "OPC0902", "nothing.so"),
            ("flow.get_variable('w', (3,))\n", "belongs into a function"),
            ("@flow.global_function()\ndef job(x): return x\njob(1)\n", "needs an annotation"),
        ):
            with self.subTest(text=text):
                self.fails(text, *parts)


if __name__ == "__main__":
    unittest.main()
