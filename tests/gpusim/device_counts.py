# What a step costs the driver, as tools/bench_device.py counts it: launches, graph launches, copies and synchronisations of small models.
# SPDX-License-Identifier: Apache-2.0
"""The numbers of the models are those of this version: fewer are welcome, more need a reason."""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "tools"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
import bench_device  # noqa: E402
from gpu_build import need_simulator  # noqa: E402

OPC = os.path.join(BUILD, "bin", "opc")


class Counts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_simulator()

    def of(self, case):
        """With a CUDA graph, and op by op; both execute the same kernels."""
        graph, kernels = bench_device.step(OPC, case, True)
        single, same = bench_device.step(OPC, case, False)
        self.assertEqual(kernels, same)
        self.assertEqual((graph["launches"], graph["graph_launches"]), (0, 1))
        self.assertEqual((single["graph_launches"], single["graph_nodes"]), (0, 0))
        self.assertEqual(sum(kernels.values()), single["launches"])
        self.assertEqual(graph["graph_nodes"], single["launches"] + single["copies_on"] + single["fills"])
        for name in ("copies_in", "bytes_in", "copies_out", "bytes_out", "synchronisations"):
            self.assertEqual(graph[name], single[name], name)
        return single, kernels

    def test_tiny_ops(self):
        """A thousand launches, or one."""
        with tempfile.TemporaryDirectory() as folder:
            found, kernels = self.of(bench_device.tiny_ops(folder, 1000))
        self.assertEqual((found["launches"], len(kernels)), (1000, 1))
        self.assertEqual((found["copies_in"], found["bytes_in"], found["copies_out"]), (1, 16 * 4, 0))
        self.assertLessEqual(found["synchronisations"], 3)

    def test_training_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            for net, launches, updates in (("mlp", 28, 6), ("cnn", 47, 10)):
                with self.subTest(net=net):
                    found, kernels = self.of(bench_device.training(OPC, folder, net, "adam"))
                    # 64 images of 64 floats, 64 labels; the loss, and notes of 32 bytes of wrong labels.
                    self.assertEqual((found["copies_in"], found["bytes_in"]), (2, 64 * 64 * 4 + 64 * 4))
                    self.assertEqual(found["bytes_out"], 4 + 32 * (found["copies_out"] - 1))
                    self.assertLess(sum(count for name, count in kernels.items() if "adam_update" in name), updates)
                    self.assertEqual(found["launches"], launches)

    def test_models(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, launches, given in (("resnet50", 38, (1, 3, 32, 32)), ("encoder", 38, (1, 16, 32))):
                with self.subTest(model=name):
                    found, _ = self.of(bench_device.model(folder, name, True, given))
                    self.assertEqual((found["copies_in"], found["bytes_in"], found["copies_out"]), (1, 4 * math.prod(given), 0))
                    self.assertEqual(found["launches"], launches)

    def test_command(self):
        done = subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "bench_device.py"), "--build", BUILD, "--rows", "ops", "--tiny", "--json"],
                              capture_output=True, text=True, check=True)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([(r["launches"], r["graph_launches"], r["graph_nodes"], sum(r["kernels"].values())) for r in rows], [(0, 1, 100, 100)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
