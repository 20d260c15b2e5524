# Gradients of imported models: the zoo's networks with a few numbers each, against central differences and against PyTorch.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
MAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo", "reduced.py")


def has_torch():
    return subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode == 0


class Gradients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not has_torch():
            raise unittest.SkipTest("PyTorch is not installed (tools/dev/setup.sh --tests)")
        cls.dir = tempfile.mkdtemp(prefix="model_gradients")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        done = subprocess.run(["/usr/bin/python3", MAKE, cls.dir], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stderr)
        cls.names = sorted(os.listdir(cls.dir))

    def opc(self, name, *arguments):
        return subprocess.run([OPC, *arguments], capture_output=True, text=True, cwd=os.path.join(self.dir, name), timeout=120)

    def test_central_differences(self):
        """In f64, at some elements of every parameter."""
        self.assertGreaterEqual(len(self.names), 10)
        for name in self.names:
            with self.subTest(name):
                done = self.opc(name, "grad", "model.onnx", "--loss", "loss", "--check", "--inputs", "inputs.npz", "--samples", "3", "--json")
                self.assertEqual(done.returncode, 0, done.stderr + done.stdout[-2000:])
                tensors = {t["name"]: t["checked"] for t in json.loads(done.stdout)["tensors"]}
                wanted = set(np.load(os.path.join(self.dir, name, "gradients.npz")).files) - {"loss"}
                self.assertEqual(wanted - set(tensors), set())
                self.assertGreater(min(tensors.values()), 0)

    def test_pytorch(self):
        """In f32, every element of every parameter."""
        for name in self.names:
            with self.subTest(name):
                done = self.opc(name, "grad", "model.onnx", "--loss", "loss", "-o", "g.pbtxt", "--weights-out", "w.safetensors")
                self.assertEqual(done.returncode, 0, done.stderr)
                done = self.opc(name, "run", "g.pbtxt", "--weights", "w.safetensors", "--inputs", "inputs.npz", "--outputs", "out.npz")
                self.assertEqual(done.returncode, 0, done.stderr)
                made = np.load(os.path.join(self.dir, name, "out.npz"))
                for key, wanted in np.load(os.path.join(self.dir, name, "gradients.npz")).items():
                    got = made[key if key == "loss" else key + ".grad"]
                    self.assertEqual(got.shape, wanted.shape, key)
                    largest = np.abs(wanted).max()
                    self.assertLessEqual(np.abs(got - wanted).max(), 1e-4 * largest + 1e-6, f"{key}: {got} {wanted}")


if __name__ == "__main__":
    unittest.main()
