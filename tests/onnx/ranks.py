# A transformer as PyTorch exports it on several devices: planned for eight, and run on two processes under mpirun. Expected numbers are
# PyTorch's.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo"))

try:
    import torch
    import language
except ImportError:
    torch = None

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
OPC = os.path.join(BIN, "opc")
HAS_MPI = shutil.which("mpirun") and os.path.exists(os.path.join(BIN, "..", "lib", "libopc_mpi.so"))
ROOT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
# Of each layer the wide product is cut by columns, and so the narrow one by rows: partial sums meet.
TENSORS = ["--sbp", "*wide*MatMul*=S(2)"]
DATA = [f for name in ("ids", "mask", "kinds") for f in ("--sbp", f"{name}=S(0)")]


@unittest.skipIf(torch is None, "PyTorch is not installed (tools/dev/setup.sh --tests)")
class Transformer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="onnx_ranks")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        torch.manual_seed(3)
        model = language.Bert(words=101, width=64, layers=2, heads=4).eval()
        ids = torch.randint(0, 101, (8, 16))
        mask = (torch.arange(16)[None, :] < torch.tensor([16, 3, 9, 1, 12, 16, 7, 5])[:, None]).to(torch.int64)
        kinds = (torch.arange(16)[None, :] > 6).to(torch.int64).repeat(8, 1)
        inputs = {"ids": ids, "mask": mask, "kinds": kinds}
        cls.model = os.path.join(cls.folder, "bert.onnx")
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = dict(zip(("hidden", "pooled"), model(*inputs.values())))
            torch.onnx.export(model, tuple(inputs.values()), cls.model, input_names=list(inputs), output_names=list(outputs), opset_version=16)
        cls.values = []
        for option, tensors in (("--input", inputs), ("--expect", outputs)):
            for name, tensor in tensors.items():
                path = os.path.join(cls.folder, name + ".npy")
                np.save(path, tensor.numpy())
                cls.values += [option, f"{name}=@{path}"]
        cls.values += ["--rtol", "1e-4", "--atol", "1e-5", "--print", "none"]
        assert all(float(o.std()) > 0.1 for o in outputs.values())

    def agrees(self, *command):
        done = subprocess.run([*command, *self.values], capture_output=True, text=True, timeout=300, env=ROOT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("hidden", "pooled"):
            self.assertRegex(done.stdout + done.stderr, rf"{name}: all [\d,]+ values as expected")

    def planned(self, name, *flags):
        path = os.path.join(self.folder, name)
        done = subprocess.run([OPC, "compile", self.model, "-q", "-o", path, *flags], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def sums(self, *flags):
        done = subprocess.run([OPC, "compile", self.model, "--to", "boxing", "--emit", "mlir", "-o", "-", *flags], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {name for name, kind in re.findall(r'%(\S*narrow\S*) = opc\.boxing "(\w+)"', done.stdout) if kind == "reduce_scatter"}

    def test_a_mesh_of_eight(self):
        """Planned freely, by data, and by tensors on a mesh of two axes."""
        for flags in (["--mesh", "8"], ["--mesh", "8", *DATA], ["--mesh", "2x4", "--sbp", "*wide*MatMul*=[S(0),S(2)]"]):
            plan = self.planned("eight.plan", *flags)
            self.agrees(OPC, "run", plan, "--ranks", "8", "--in-process")

    def test_two_ranks(self):
        for flags in ([], DATA, TENSORS):
            self.agrees(OPC, "run", self.model, "--ranks", "2", "--in-process", *flags)

    @unittest.skipUnless(HAS_MPI, "mpirun is not here")
    def test_two_processes(self):
        """The model itself and a plan of it; under mpirun every rank has its part."""
        two = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", OPC, "run"]
        for flags in ([], DATA, TENSORS):
            self.agrees(*two, self.model, *flags)
        self.agrees(*two, self.planned("two.plan", "--mesh", "2", *TENSORS))

    def test_the_parts_differ(self):
        """Cut by tensors the partial sums of both layers are added over the ranks; cut by data nothing is."""
        self.assertEqual(len(self.sums("--mesh", "2", *TENSORS)), 2)
        self.assertFalse(self.sums("--mesh", "2", *DATA))


if __name__ == "__main__":
    unittest.main()
