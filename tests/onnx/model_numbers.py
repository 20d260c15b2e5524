# The small models of tests/onnx/zoo in opc, ONNX Runtime and PyTorch: tools/bench_onnx.py without its times.
# SPDX-License-Identifier: Apache-2.0
import functools
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
PEERS = os.environ.get("OPC_PEERS", os.path.join(ROOT, "build", "peers"))
SMALL = "mlp,cnn,encoder"


@functools.cache
def has_torch():
    return subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode == 0


class Numbers(unittest.TestCase):
    def setUp(self):
        if not has_torch():
            self.skipTest("PyTorch is not installed (tools/dev/setup.sh --tests)")
        if not os.path.isdir(os.path.join(PEERS, "node_modules", "onnxruntime-node")):
            self.skipTest("ONNX Runtime is not installed (tools/dev/install_peers.sh)")

    def bench(self, *args, build=BUILD):
        return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "bench_onnx.py"), "--numbers", *args], capture_output=True, text=True,
                              env={**os.environ, "OPC_BUILD_DIR": build})

    def test_small_models(self):
        done = self.bench("--models", SMALL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("12 runs, 0 further", done.stdout)

    def test_small_models_in_half_precision(self):
        done = self.bench("--models", SMALL, "--f16")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("12 runs, 0 further than 0.01", done.stdout)

    def test_half_precision_computed_in_f32(self):
        """Without roundings between the ops it is no further from what PyTorch makes of the weights in f32."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        zoo, opc = os.path.join(ROOT, "tests", "onnx", "zoo"), os.path.join(BUILD, "bin", "opc")

        def do(*command):
            subprocess.run(command, cwd=folder, capture_output=True, check=True)

        do("/usr/bin/python3", os.path.join(zoo, "export.py"), ".", "cnn", "1")
        do("/usr/bin/python3", os.path.join(zoo, "halved.py"), ".")
        far = []
        for more in ([], ["--cast-ops", "*=f32"]):
            do(opc, "run", "model.onnx", "--inputs", "inputs", "--outputs", "opc", "--print", "none", *more)
            got, wanted = (np.load(os.path.join(folder, d, "y.npy")) for d in ("opc", "outputs"))
            self.assertEqual(got.dtype, np.float16)
            far.append(float(np.abs(got.astype(np.float64) - wanted).max()))
        self.assertLessEqual(far[1], far[0])

    def test_other_numbers_are_found(self):
        """A command that writes 1 % more than opc into its outputs."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        os.makedirs(os.path.join(folder, "bin"))
        wrapper = os.path.join(folder, "bin", "opc")
        with open(wrapper, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\n{os.path.join(BUILD, "bin", "opc")} "$@" || exit\n'
                    f"/usr/bin/python3 -c \"import numpy as np; y = np.load('opc/y.npy'); np.save('opc/y.npy', y * np.float32(1.01))\"\n")
        os.chmod(wrapper, stat.S_IRWXU)
        done = self.bench("--models", "mlp", "--batches", "1", build=folder)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("2 runs, 2 further than 0.0001 of the range: mlp b1, mlp b1 extended", done.stdout)

    def test_names(self):
        done = self.bench("--models", "resnet51")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no model is called resnet51; there are mlp, cnn, encoder, resnet18", done.stderr)


if __name__ == "__main__":
    unittest.main()
