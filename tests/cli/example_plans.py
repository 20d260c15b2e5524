# opc-runtime runs the plans of the examples, all of docs/examples: interpreted, and as the machine code that a plan brings, with the same bits.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy as np

import native_plans
from native_plans import SOURCE
from regions import NUMPY_ALL, OPC

EXAMPLES = pathlib.Path(SOURCE) / "docs" / "examples"
# What has no graph: files for CI, clusters, programs that read graphs of other folders or make models (onnx_examples runs those).
WITHOUT_GRAPHS = {"ci", "clusters", "embed_c", "embed_cpp", "onnx", "train_cpp"}


class ExamplePlans(native_plans.NativePlans):
    # What the base class tests is tested by its own entry.
    for name in [n for n in dir(native_plans.NativePlans) if n.startswith("test_")]:
        locals()[name] = None

    def run_plan(self, graph, *compiled, integers=2, given=(), runs=()):
        """The plan of a graph with inputs at random, compared; how many loops have code."""
        self.opc("compile", graph, "--native", *compiled, "-o", "g.plan")
        rng, inputs = np.random.default_rng(1), {}
        for port in json.loads(self.opc("show", "g.plan", "--json", *runs).stdout)["inputs"]:
            shape, dtype = port["shape"], port["dtype"]
            if dtype in ("f32", "f64", "f16"):
                inputs[port["name"]] = rng.standard_normal(shape).astype(NUMPY_ALL[dtype])
            else:
                inputs[port["name"]] = rng.integers(0, integers, shape).astype(NUMPY_ALL[dtype])
        np.savez(self.path("in.npz"), **inputs)
        return self.same(given=("--inputs", "in.npz", *given, *runs))

    def test_every_folder_is_looked_at(self):
        self.assertEqual({p.name for p in EXAMPLES.iterdir()} - WITHOUT_GRAPHS, {"digits", "distributed", "models", "myrelu_plugin", "transformer_python"})

    def test_digits(self):
        """With their weights; without them, and training, in native_plans."""
        for net in ("mlp", "cnn"):
            with self.subTest(net=net):
                self.assertGreater(self.run_plan(str(EXAMPLES / "digits" / f"{net}.pbtxt"), given=("--weights", str(EXAMPLES / "digits" / f"{net}_weights.npz"))), 0)

    def test_models(self):
        subprocess.run([sys.executable, EXAMPLES / "models" / "make_models.py", self.folder, "--tiny", "--batch", "2"], check=True)
        loops = 0
        for model in ("resnet50", "mobilenet", "encoder", "gpt", "mlp"):
            with self.subTest(model=model):
                loops += self.run_plan(f"{model}_b2.pbtxt", given=("--weights", f"{model}.safetensors"))
        self.assertGreater(loops, 5)

    def test_distributed(self):
        for model in ("block", "gpt"):
            with self.subTest(model=model):
                small = ("--batch", "2", "--sequence", "16", "--hidden", "64", "--heads", "4", "--vocabulary", "100")
                made = subprocess.run([sys.executable, EXAMPLES / "distributed" / "make_graphs.py", model, *small], check=True, capture_output=True)
                self.write("g.pbtxt", made.stdout)
                self.run_plan("g.pbtxt", given=("--seed", "3"))

    def test_plugin(self):
        for file in (EXAMPLES / "myrelu_plugin").iterdir():
            shutil.copy(file, self.folder)
        path = os.path.dirname(OPC) + os.pathsep + os.environ["PATH"]
        subprocess.run(["make", "-s", f"CXX={os.environ.get('OPC_PLUGIN_CXX', 'g++')}"], cwd=self.folder, check=True, env={**os.environ, "PATH": path})
        self.run_plan("myrelu.pbtxt", "--plugin", "./libmyrelu.so", runs=("--plugin", "./libmyrelu.so"))

    @unittest.skipUnless(os.path.isdir(os.path.join(os.environ["OPC_BUILD_DIR"], "python", "opc")), "the Python package is not built")
    def test_transformer(self):
        """Its training step."""
        made = f"import sys; sys.path.insert(0, {str(EXAMPLES / 'transformer_python')!r}); import transformer as t; import opc; " \
               "t.build().training_step('loss', opc.optim.AdamW(1e-3, weight_decay=0.01)).save('g.pbtxt')"
        subprocess.run([sys.executable, "-c", made], cwd=self.folder, check=True, env={**os.environ, "PYTHONPATH": os.path.join(os.environ["OPC_BUILD_DIR"], "python")})
        self.assertGreater(self.run_plan("g.pbtxt", integers=32, given=("--seed", "3")), 5)


if __name__ == "__main__":
    unittest.main()
