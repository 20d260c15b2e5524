# The example models in their small sizes, and training steps of a transformer, on the simulated GPU under several schedules, beside the CPU.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
import training_models  # noqa: E402
import weight_files  # noqa: E402
from runs_on_gpu import SOURCE, OnGpu  # noqa: E402
from schedules import SCHEDULES  # noqa: E402

MODELS = ("resnet50", "mobilenet", "encoder", "gpt", "mlp")


class Models(OnGpu):
    def check(self, name):
        maker = os.path.join(SOURCE, "docs", "examples", "models", "make_models.py")
        subprocess.run([sys.executable, maker, self.folder, "--tiny", "--models", name, "--batch", "2"], check=True)
        call = ["run", self.path(f"{name}_b2.pbtxt"), "--weights", self.path(f"{name}.safetensors"), "--input", f"x=@{self.path(f'{name}_b2_x.npy')}",
                "--output", f"y={self.path('y.npy')}", "--print", "none"]
        self.ok(*call)
        want = np.load(self.path("y.npy"))
        self.assertGreater(want.std(), 1e-3)
        for sim in SCHEDULES:
            os.remove(self.path("y.npy"))
            self.ok(*call, "--device", "sim", "--repeat", "3", sim=sim)  # the third run is a recorded graph
            np.testing.assert_allclose(np.load(self.path("y.npy")), want, rtol=0, atol=2e-5 * np.abs(want).max(), err_msg=sim)


for model in MODELS:
    setattr(Models, f"test_{model}", lambda self, name=model: self.check(name))


class Transformer(OnGpu):
    def test_training_steps(self):
        """Three steps of Adam on an encoder of two layers: the loss of each step, and every weight and moment."""
        graph, sizes, random = training_models.encoder("kFloat"), training_models.ENCODER, np.random.default_rng(11)
        self.write("g.pbtxt", "\n".join(graph.text) + "\n")
        samples = 3 * sizes["batch"]
        np.save(self.path("x.npy"), random.standard_normal((samples, sizes["length"], sizes["width"])).astype(np.float32))
        np.save(self.path("label.npy"), random.integers(0, sizes["classes"], (samples, sizes["length"])))
        start = {name: (random.standard_normal(dims) / np.sqrt(dims[-1])).astype(np.float32) for name, dims in graph.variables}
        np.savez(self.path("w.npz"), **start)
        self.ok("grad", self.path("g.pbtxt"), "--loss", "loss", "--optimizer", "adam", "--lr", "0.01", "-o", self.path("train.pbtxt"))
        losses, weights = self.trained("cpu", "")
        self.assertEqual(len(losses), 3)
        for name, value in start.items():
            self.assertGreater(np.abs(weights[name] - value).max(), 0.005, name)
        for sim in SCHEDULES:
            got_losses, got = self.trained("sim", sim)
            np.testing.assert_allclose(got_losses, losses, rtol=1e-5, err_msg=sim)
            self.assertEqual(sorted(got), sorted(weights))
            for name, value in weights.items():
                np.testing.assert_allclose(got[name], value, rtol=0, atol=1e-4 * np.abs(value).max(), err_msg=f"{sim} {name}")

    def trained(self, device, sim):
        saved, metrics = self.path("w.safetensors"), self.path("m.jsonl")
        for path in (saved, metrics):
            if os.path.exists(path):
                os.remove(path)
        data = f"x=@{self.path('x.npy')},label=@{self.path('label.npy')}"
        self.ok("run", self.path("train.pbtxt"), "--device", device, "--weights", self.path("w.npz"), "--partial-weights", "--feed-dataset", data, "--steps", "3",
                "--save", saved, "--metrics", metrics, sim=sim)
        with open(metrics, encoding="utf-8") as f:
            losses = [json.loads(line)["loss"] for line in f]
        return losses, weight_files.read(saved)


if __name__ == "__main__":
    unittest.main(verbosity=2)
