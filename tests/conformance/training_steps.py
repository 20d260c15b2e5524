# Training steps against PyTorch: the loss, every gradient and every weight after five steps; each optimizer by itself.
# SPDX-License-Identifier: Apache-2.0
"""usage: training_steps.py [--sim OPTIONS] [TEST...]     needs numpy and a built opc; the expected values are in
tests/conformance/training (make_training_vectors.py). With --sim the steps run on the simulated GPU: OPTIONS are those
of CUDA_SIM ("policy=random,seed=1").
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import training_models as models
from driver import need_simulator

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "training")
# Relative to a tensor's largest value: its small elements carry the rounding of the large ones.
SIM = None
TYPES = {"kFloat": (np.float32, 1e-4), "kDouble": (np.float64, 1e-9)}


def safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header, body = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    types = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    return {k: np.frombuffer(body[slice(*t["data_offsets"])], types[t["dtype"]]).reshape(t["shape"])
            for k, t in header.items() if k != "__metadata__"}


class Training(unittest.TestCase):
    def setUp(self):
        if SIM is not None:
            need_simulator()
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def opc(self, *args):
        environment = dict(os.environ, **({} if SIM is None else {"OPC_DEVICE": "sim", "CUDA_SIM": SIM}))
        done = subprocess.run([OPC, *args], capture_output=True, text=True, timeout=300, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)

    def graph(self, text):
        with open(self.path("g.pbtxt"), "w") as f:
            f.write("\n".join(text) + "\n")
        return self.path("g.pbtxt")

    def close(self, got, want, rtol, what):
        self.assertEqual(got.shape, want.shape, what)
        limit = rtol * np.abs(want).max()
        self.assertTrue((np.abs(got - want) <= limit).all(), f"{what}: {np.abs(got - want).max():.3g} apart, the limit is {limit:.3g}")

    def check_model(self, name):
        vectors = {k.split("/", 1)[1]: v for k, v in np.load(os.path.join(FOLDER, "models.npz")).items() if k.startswith(name + "/")}
        for dtype, (numpy_type, rtol) in TYPES.items():
            with self.subTest(dtype=dtype):
                model = models.MODELS[name](dtype)
                graph = self.graph(model.text)
                start = {v: vectors[f"start/{v}"].astype(numpy_type) for v, _ in model.variables}
                np.savez(self.path("w.npz"), **start)
                np.save(self.path("x.npy"), vectors["x"].astype(numpy_type))
                np.save(self.path("label.npy"), vectors["label"])

                self.opc("grad", graph, "--loss", "loss", "-o", self.path("grad.pbtxt"))
                self.opc("run", self.path("grad.pbtxt"), "--weights", self.path("w.npz"), "--input", f"x=@{self.path('x.npy')}",
                         "--input", f"label=@{self.path('label.npy')}", "--outputs", self.path("out.npz"), "--print", "none")
                out = dict(np.load(self.path("out.npz")))
                self.close(out.pop("loss"), vectors["loss"], rtol, "the loss")
                self.assertEqual(set(out), {f"{v}.grad" for v in start})
                for v in start:
                    self.close(out[f"{v}.grad"], vectors[f"grad/{v}"], rtol, f"the gradient of {v}")

                self.opc("grad", graph, "--loss", "loss", "--optimizer", "adam", "--lr", "0.0078125", "-o", self.path("train.pbtxt"))
                # The data set is one batch, five times.
                self.opc("run", self.path("train.pbtxt"), "--weights", self.path("w.npz"), "--partial-weights", "--steps", "5", "--save", self.path("ckpt"),
                         "--feed-dataset", f"x=@{self.path('x.npy')},label=@{self.path('label.npy')}")
                after = safetensors(self.path("ckpt"))
                for v in start:
                    self.close(after[v], vectors[f"after/{v}"], rtol, f"{v} after five steps of Adam")

    def test_mlp(self):
        self.check_model("mlp")

    def test_transformer_encoder(self):
        self.check_model("encoder")

    def test_recurrent_net(self):
        self.check_model("recurrent")

    def test_optimizers(self):
        vectors = np.load(os.path.join(FOLDER, "optimizers.npz"))
        for name in models.OPTIMIZERS:
            for dtype, (numpy_type, rtol) in {"kFloat": (np.float32, 1e-5), "kDouble": (np.float64, 1e-12)}.items():
                with self.subTest(optimizer=name, dtype=dtype):
                    np.savez(self.path("w.npz"), w=vectors["start"].astype(numpy_type))
                    np.save(self.path("g.npy"), vectors["gradients"].astype(numpy_type))
                    self.opc("run", self.graph(models.optimizer(name, dtype).text), "--weights", self.path("w.npz"), "--partial-weights", "--feed-dataset",
                             f"g=@{self.path('g.npy')}", "--save", self.path("ckpt"))
                    self.close(safetensors(self.path("ckpt"))["w"], vectors[f"{name}/after"], rtol, name)


if __name__ == "__main__":
    if "--sim" in sys.argv:
        at = sys.argv.index("--sim")
        SIM = sys.argv[at + 1]
        del sys.argv[at : at + 2]
    unittest.main()
