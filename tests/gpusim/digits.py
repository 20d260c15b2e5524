# The digits' networks, trained as the demo trains them, but on the simulated GPU: they read as many of the held-out images as on the CPU.
# SPDX-License-Identifier: Apache-2.0
"""usage: digits.py [NET...]      minutes (.ci/nightly gpuseeds); needs nvcc's kernels in the build (OPC_BUILD_DIR)"""
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

SOURCE, OPC = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")
FROZEN, TRAINED = 'key: "training" value { at_bool: false }', 'key: "training" value { at_bool: true }'


def data(name):
    return os.path.join(DIGITS, name)


class Digits(unittest.TestCase):
    nets = ["mlp", "cnn"]

    def opc(self, *args, text=None):
        done = subprocess.run([OPC, *args], input=text, capture_output=True, text=True, timeout=3600, env=dict(os.environ, CUDA_SIM=""))
        self.assertEqual(done.returncode, 0, done.stderr)

    def right(self, net, device, graph, folder):
        """Of the held-out images, after the demo's 20 epochs on a device; the answers are the CPU's."""
        saved, logits = os.path.join(folder, f"{device}.safetensors"), os.path.join(folder, f"{device}.npy")
        self.opc("run", graph, "--device", device, "--feed-dataset", f"image=@{data('train_images.npy')},label=@{data('train_labels.npy')}", "--batch", "64",
                 "--shuffle", "--seed", "7", "--epochs", "20", "--save", saved)
        self.opc("run", data(net + ".pbtxt"), "--weights", saved, "--input", f"image=@{data('test_images.npy')}", "--output", f"logits={logits}")
        return int((np.load(logits).argmax(1) == np.load(data("test_labels.npy"))).sum())

    def test_training(self):
        for net in self.nets:
            with self.subTest(net), tempfile.TemporaryDirectory() as folder:
                text = ""
                for name in (net, net + "_loss"):
                    with open(data(name + ".pbtxt"), encoding="utf-8") as f:
                        text += f.read().replace(FROZEN, TRAINED)
                graph = os.path.join(folder, "train.pbtxt")
                self.opc("grad", "-", "--shape", "image=64,64", "--shape", "label=64", "--loss", "loss", "--optimizer", "adam", "--lr", "0.002", "-o", graph,
                         text=text)
                cpu, sim = (self.right(net, device, graph, folder) for device in ("cpu", "sim"))
                print(f"{net}: {sim} of 360 images after training on the simulated GPU, {cpu} after training on the CPU")
                self.assertGreaterEqual(cpu, 342)
                self.assertLessEqual(abs(sim - cpu), 3)


if __name__ == "__main__":
    Digits.nets = sys.argv[1:] or Digits.nets
    unittest.main(argv=sys.argv[:1], verbosity=2)
