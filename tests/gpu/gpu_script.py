# tests/gpu/run.sh as on a machine with a GPU, with the stand-in as the system's driver: what it writes, and its exit code.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
sys.path.append(os.path.join(SOURCE, "tests", "cli"))
from gpu_build import need_simulator  # noqa: E402

OPC = os.path.join(BUILD, "bin", "opc")
DRIVER = os.path.join(BUILD, "lib", "opc", "gpusim")


def run(*more, sim="", driver=DRIVER):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "results.md")
        done = subprocess.run([os.path.join(SOURCE, "tests", "gpu", "run.sh"), "--opc", OPC, "--out", out, *more], capture_output=True, text=True,
                              timeout=900, env=dict(os.environ, LD_LIBRARY_PATH=driver, CUDA_SIM=sim))
        page = ""
        if os.path.exists(out):
            with open(out, encoding="utf-8") as f:
                page = f.read()
        return done, page


class Script(unittest.TestCase):
    def test_page(self):
        need_simulator()
        done, page = run("--ops", "relu softmax matmul")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(page, r"\| device \| Simulated GPU \(sm_80\)")
        self.assertRegex(page, r"`opc verify relu softmax matmul --device gpu`: 3 ops on gpu: \d+ samples, 0 failed")
        self.assertIn("Ops that failed: none", page)
        self.assertRegex(page, r"\| mlp \| as on the CPU, executed in simulation \(\d{4}-\d\d-\d\d, \S+\) \| not run \|")
        self.assertNotIn("measured (", page)  # nothing is claimed of a simulated device
        self.assertNotRegex(page, r"\d (GB/s|GFLOP/s|ms|us)\b")
        self.assertIn("Failures\n\nNone of the cells above.", page)
        cells = [cell for line in page.splitlines() if line.startswith("|") and "---" not in line for cell in line.strip("| ").split(" | ")[1:]]
        self.assertEqual(cells.count("executed in simulation"), 11 + 10 + 4)  # a size of each kernel, products, launches and loads
        self.assertEqual(cells.count("not run"), 2 * 11 + 2 + 4)  # other sizes, times of models, compute-sanitizer
        self.assertRegex(page, r"two ranks: as on the CPU, executed in simulation \(.*\)\.")

    def test_a_cell_that_fails(self):
        """The page names it, and the script says so with its exit code."""
        need_simulator()
        done, page = run("--ops", "relu", sim="drop=softmax_f32:1")  # which has no barrier
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(page, r"\| softmax \| FAILED \| not run \| not run \|")
        self.assertRegex(page, r"- it: error\[OPC\d+\]")

    def test_a_kernel_that_fails(self):
        need_simulator()
        done, page = run("--ops", "relu", sim="fail=cuLaunchKernel:1:719")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("Ops that failed: relu", page)

    def test_no_gpu(self):
        if os.path.exists("/proc/driver/nvidia"):
            self.skipTest("this machine has a GPU")
        done, page = run("--ops", "relu", driver="")
        self.assertEqual((done.returncode, page), (4, ""), done.stderr)
        self.assertIn("OPC0630", done.stderr)

    def test_usage(self):
        done, page = run("--what", "x")
        self.assertEqual((done.returncode, page), (2, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
