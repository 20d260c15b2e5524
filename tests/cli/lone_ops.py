# No op that is bound by memory stays alone where one loop could compute it with a neighbour: the benchmark models and their training steps with Adam, by
# what `opc show --what fusion` says of every op.
# SPDX-License-Identifier: Apache-2.0
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from row_regions import RowCase

SOURCE = pathlib.Path(os.environ["OPC_SOURCE_DIR"])
MAKE = SOURCE / "docs" / "examples" / "models" / "make_models.py"
# Why one loop is no possibility: the op, its place, or the shapes do not allow it. What is left is cost.
IMPOSSIBLE = {"no_loop", "view", "writes", "open_shape", "no_neighbour", "shape", "rows", "access", "moves", "stride", "length", "step", "device", "rank", "device_code", "cycle"}
LOSS = """
op {{ name: "bench_square" user_conf {{ op_type_name: "square" input {{ key: "x" value {{ s: "{y}" }} }} }} }}
op {{ name: "bench_loss" user_conf {{ op_type_name: "reduce_mean" input {{ key: "input_tensor" value {{ s: "bench_square/y_0" }} }}
  attr {{ key: "axis" value {{ at_list_int32 {{ {axes} }} }} }} attr {{ key: "keepdims" value {{ at_bool: false }} }} }} }}
"""


class LoneOps(RowCase):
    @classmethod
    def setUpClass(cls):
        with open(SOURCE / "compiler" / "facts" / "FusionReasons.h", encoding="utf-8") as f:
            cls.reasons = set(re.findall(r'FusionReason::k\w+, "(\w+)"', f.read()))

    def make(self, model, batch=2):
        subprocess.run([sys.executable, MAKE, self.folder, "--tiny", "--models", model, "--batch", str(batch)], check=True)
        with open(self.path(f"{model}_b{batch}.pbtxt"), encoding="utf-8") as f:
            return f.read()

    def training(self, text):
        """A step of Adam on the mean square of the model's output; normalizations see their batch."""
        text = re.sub(r'(key: "training" value \{ at_bool: )false', r"\1true", text)
        y = re.search(r'name: "y" output_conf \{ in: "([^"]+)"', text).group(1)
        with open(self.path("m.pbtxt"), "w", encoding="utf-8") as f:
            f.write(text)
        rank = len(json.loads(self.opc("show", "m.pbtxt", "--json").stdout)["outputs"][0]["shape"])
        with open(self.path("m.pbtxt"), "a", encoding="utf-8") as f:
            f.write(LOSS.format(y=y, axes=" ".join(f"val: {i}" for i in range(rank))))
        self.opc("grad", "m.pbtxt", "--loss", "bench_loss", "--optimizer", "adam", "--lr", "0.001", "-o", "g.pbtxt", "-q")

    def check(self, expected):
        """`expected`: how many ops at most are alone for which reasons though one loop could compute them, by type and reasons."""
        fusion = self.fusion()
        for op in fusion["alone"]:
            self.assertTrue(op["reasons"] and set(op["reasons"]) <= self.reasons, op)
        named = [op["op"] for op in fusion["alone"]] + [op for r in fusion["regions"] for op in r["ops"]]
        self.assertEqual(len(named), len(set(named)))
        ops = {task["op"] for task in json.loads(self.opc("show", "g.pbtxt", "--what", "tasks", "--json").stdout)["tasks"]}
        self.assertEqual(ops - set(named), set())
        found = collections.Counter((op["type"], *op["reasons"]) for op in fusion["alone"] if not set(op["reasons"]) <= IMPOSSIBLE)
        self.assertLessEqual(found, collections.Counter(expected), [dict(found)] + [b for b in fusion["boundaries"] if b["reason"] not in IMPOSSIBLE])
        return fusion

    def test_models(self):
        for model in ("resnet50", "mobilenet", "encoder", "gpt", "mlp"):
            with self.subTest(model=model):
                text = self.make(model)
                with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
                    f.write(text)
                self.check({})

    def test_training_steps(self):
        # At the end of the forward part most is alive: there a join is not made where it would raise the peak of memory. These
        # are the most there may be.
        at_the_peak = {
            "resnet50": {("reduce_mean", "peak"): 1},
            "encoder": {("layer_norm_param_grad", "cycle", "peak"): 1, ("layer_norm_grad", "cycle", "memory"): 1, ("reduce_sum", "memory"): 1},
            "gpt": {("fast_gelu_grad", "cycle", "memory"): 1, ("reduce_sum", "memory"): 1},
        }
        for model in ("resnet50", "encoder", "gpt", "mlp"):
            with self.subTest(model=model):
                self.training(self.make(model))
                fusion = self.check(at_the_peak.get(model, {}))
                self.assertGreater(len(fusion["regions"]), 5)


if __name__ == "__main__":
    unittest.main()
