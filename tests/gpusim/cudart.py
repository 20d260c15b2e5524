"""Programs that nvcc compiled for CUDA's runtime run on its stand-in, with the simulator's findings."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD, SOURCE = os.environ["OPC_BUILD_DIR"], os.environ["OPC_SOURCE_DIR"]
LIBRARIES = os.path.join(BUILD, "lib", "opc", "gpusim")
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
FLAGS = ("-cudart", "shared", "-std=c++17")
PTX = ("-no-compress", "-gencode", "arch=compute_75,code=compute_75")
# Documents that users have; where there are none, that test is skipped.
SEEDS = os.path.join(SOURCE, os.pardir, "shared", "seeds")


@unittest.skipUnless(NVCC, "nvcc is not installed")
class Runtime(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def compile(self, source, *flags):
        target = self.path("program")
        done = subprocess.run([NVCC, *FLAGS, *flags, "-o", target, source], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return target

    def run_program(self, *command, sim=""):
        return subprocess.run(command, capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, LD_LIBRARY_PATH=LIBRARIES, CUDA_SIM=sim))

    def test_vector_add(self):
        program = self.compile(os.path.join(SOURCE, "tests", "gpusim", "vector_add.cu"), *PTX, "-lineinfo")
        expected = "1000 added on 2 devices, PTX 75, 8 blocks\ncudaErrorInvalidConfiguration\ncudaSuccess\n"
        for policy in ("late", "eager", "random"):
            done = self.run_program(program, sim=f"policy={policy},seed=4,devices=2,report={self.path('report')}")
            self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
            with open(self.path("report"), encoding="utf-8") as f:
                report = json.load(f)
            self.assertEqual((report["launches"], report["findings"]), (1, []))
        done = self.run_program(program, "beyond", sim="devices=2")
        self.assertEqual(done.stdout, expected + "cudaErrorIllegalAddress\ncudaErrorIllegalAddress\n")
        self.assertRegex(done.stderr, r"out of bounds in _Z6beyondPfi, PTX line \d+ \(\S*vector_add.cu:18\), block \(0,0,0\), thread \(0,0,0\)")
        done = self.run_program(program, sim="devices=2,fail=cuMemAlloc:2:2")
        self.assertEqual((done.returncode, done.stdout), (1, "cudaMalloc(&dy, bytes): cudaErrorMemoryAllocation, out of memory\n"))

    def test_compressed_ptx(self):
        done = self.run_program(self.compile(os.path.join(SOURCE, "tests", "gpusim", "vector_add.cu"), "-arch=sm_80"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("cudaErrorNoKernelImageForDevice", done.stdout)
        self.assertIn("gpusim: error 209 (CUDA_ERROR_NO_BINARY_FOR_GPU): cuLibraryLoadData: the fat binary's PTX is compressed: "
                      "give nvcc -no-compress", done.stderr)

    def test_kernel_of_a_document(self):
        """The kernel of the tutorial on user operators, from where it stands, launched as the tutorial's code does."""
        text = ""
        for name in sorted(os.listdir(SEEDS)) if os.path.isdir(SEEDS) else ():
            with open(os.path.join(SEEDS, name), encoding="utf-8") as f:
                text += f.read()
        kernel = re.search(r"template <typename T>\n__global__ void ReluForwardGpu\(.*?\n}\n", text, re.S)
        if not kernel:
            self.skipTest("the document is not here")
        self.assertIn("<<<32, 1024, 0, ctx->device_ctx()->cuda_stream()>>>(n, in_ptr, out_ptr)", text)
        with open(self.path("relu.cu"), "w", encoding="utf-8") as f:
            f.write("#include <cstdio>\n#include <cuda_runtime.h>\n"
                    "#define CUDA_1D_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)\n"
                    + kernel.group(0) +
                    "int main() {\n  float in[5] = {-2, -1, 0, 1, 2}, out[5];\n  float *x, *y;\n  cudaStream_t s;\n"
                    "  cudaMalloc(&x, sizeof in), cudaMalloc(&y, sizeof in), cudaStreamCreate(&s);\n"
                    "  cudaMemcpy(x, in, sizeof in, cudaMemcpyHostToDevice);\n"
                    "  ReluForwardGpu<float><<<32, 1024, 0, s>>>(5, x, y);\n"
                    "  cudaStreamSynchronize(s), cudaMemcpy(out, y, sizeof in, cudaMemcpyDeviceToHost);\n"
                    "  for (float v : out) printf(\"%g \", v);\n  return cudaGetLastError();\n}\n")
        done = self.run_program(self.compile(self.path("relu.cu"), *PTX))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0 0 0 1 2 ", ""))


if __name__ == "__main__":
    unittest.main()
