# PTX that MLIR's pipeline for GPUs makes is executed: another compiler's style, and functions of libdevice that it links.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

SIMULATOR = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-ptxsim")
MLIR = shutil.which("mlir-opt-22") or shutil.which("mlir-opt", path="/usr/lib/llvm-22/bin")
if not MLIR:
    raise unittest.SkipTest("mlir-opt is not installed")

# Neighbours are added, in lanes and in shared memory, behind a function of each element.
MODULE = """module attributes {gpu.container_module} {
  gpu.module @m {
    gpu.func @neighbours(%a: memref<?xf32>, %b: memref<?xf32>, %n: index) workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>) kernel {
      %one = arith.constant 1 : i32
      %width = arith.constant 32 : i32
      %last = arith.constant 63 : index
      %t = gpu.thread_id x
      %block = gpu.block_id x
      %size = gpu.block_dim x
      %first = arith.muli %block, %size : index
      %i = arith.addi %first, %t : index
      %x = memref.load %a[%i] : memref<?xf32>
      %h = arith.constant 0.5 : f32
      %y = arith.mulf %x, %h : f32
      %other, %valid = gpu.shuffle xor %y, %one, %width : f32
      %sum = arith.addf %y, %other : f32
      memref.store %sum, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
      BARRIER
      %u = arith.subi %last, %t : index
      %z = memref.load %s[%u] : memref<64xf32, #gpu.address_space<workgroup>>
      %c = arith.cmpi ult, %i, %n : index
      scf.if %c {
        memref.store %z, %b[%i] : memref<?xf32>
      }
      gpu.return
    }
  }
}
"""


class Mlir(unittest.TestCase):
    def run_module(self, barrier):
        with tempfile.TemporaryDirectory() as folder:
            source, ptx, given, result = (os.path.join(folder, n) for n in ("m.mlir", "m.ptx", "in", "out"))
            with open(source, "w", encoding="utf-8") as f:
                f.write(MODULE.replace("BARRIER", barrier))
            pipeline = "--gpu-lower-to-nvvm-pipeline=cubin-chip=sm_80 cubin-format=isa cubin-features=+ptx80"
            made = subprocess.run([MLIR, pipeline, source], capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stderr)
            text = re.search(r'assembly = "((?:[^"\\]|\\.)*)"', made.stdout).group(1)
            with open(ptx, "w", encoding="utf-8") as f:
                f.write(re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m.group(1), 16)), text))
            x = np.random.default_rng(3).integers(-100, 100, 192).astype(np.float32)
            x.tofile(given)
            shape = ["i64:0", "i64:192", "i64:1"]  # a memref: two addresses, offset, size, stride
            command = [SIMULATOR, ptx, "neighbours", "u64:0", "in:" + given, *shape, "u64:0", f"out:768:{result}", *shape, "i64:192", "--grid", "3", "--block", "64"]
            done = subprocess.run(command, capture_output=True, text=True)
            return done, x, np.fromfile(result, np.float32)

    def test_neighbours(self):
        done, x, got = self.run_module("gpu.barrier")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        i = np.arange(192)
        sums = x / 2 + x[i ^ 1] / 2
        np.testing.assert_array_equal(got, sums.reshape(3, 64)[:, ::-1].reshape(-1))

    def test_without_barrier(self):
        done, _, _ = self.run_module("")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"^(race|unwritten) in neighbours, PTX line \d+")


if __name__ == "__main__":
    unittest.main()
