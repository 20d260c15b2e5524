"""Ranks on several simulated devices: the stand-in for NCCL by itself, and what is found there."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

BUILD = os.environ["OPC_BUILD_DIR"]
PROGRAM = os.path.join(BUILD, "bin", "opc_gpusim_nccl")
LIBRARIES = os.path.join(BUILD, "lib", "opc", "gpusim")


def run(scenario, sim):
    return subprocess.run([PROGRAM, scenario], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, CUDA_SIM=sim, LD_LIBRARY_PATH=LIBRARIES,
                                   OPC_GPUSIM_LIBRARY=os.path.join(LIBRARIES, "libcuda.so.1")))


class Ranks(unittest.TestCase):
    def silent(self, scenario, devices):
        for policy, seed in [("late", 0), ("eager", 0)] + [("random", s) for s in range(1, 6)]:
            done = run(scenario, f"devices={devices},policy={policy},seed={seed}")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), (policy, seed))

    def test_collectives(self):
        self.silent("collectives", 3)

    def test_disagreement(self):
        done = run("disagreement", "devices=2")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertRegex(done.stderr, "call, count, type, root or reduction of rank [01] are not those of the others, which are in NCCL (all-reduce|broadcast) 0")

    def test_injected_failures(self):
        done = run("injected", "fail=ncclAllReduce:2:3")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("NCCL error 3: ncclAllReduce: injected by fail= of CUDA_SIM", done.stderr)
        for wrong in ("ncclNothing:1:2", "ncclAllReduce:1:7", "ncclAllReduce:0:2"):  # 7 is no error
            done = run("injected", "fail=" + wrong)
            self.assertEqual(done.returncode, 1)
            self.assertIn("CUDA_SIM: fail= takes FUNCTION:CALL:CODE", done.stderr)

    def test_messages(self):
        self.silent("messages", 3)

    def test_missing_order(self):
        for policy in ("late", "eager", "random"):
            done = run("unordered", f"devices=2,policy={policy},seed=1")
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            self.assertRegex(done.stderr, r"UNORDERED: .*memset \(operation \d+, stream \d+ of device 0\)")
            self.assertIn("NCCL all-reduce 0 (operation ", done.stderr)

    def test_mistakes(self):
        done = run("mistakes", "devices=2")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        for text in ("NCCL error 5: ncclCommInitRank: the unique id is of another process; the stand-in's ranks are threads of one",
                     "NCCL error 4: ncclCommInitRank: rank 2 of 2", "NCCL error 5: two ranks have the same device",
                     "NCCL send 0 to 1: 64 bytes are no device memory"):
            self.assertIn(text, done.stderr)

    def test_sizes(self):
        done = run("sizes", "devices=2")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertRegex(done.stderr, r"message 0 from rank 1 to 0 has 6[04] bytes on the other side and 6[04] here")

    def test_abort(self):
        done = run("aborted", "devices=2")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)


if __name__ == "__main__":
    unittest.main()
