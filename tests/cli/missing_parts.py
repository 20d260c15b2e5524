# What built-in ops lack, as opc ops --missing lists it: each stands here with the reason, or says it itself; a reason for what is there is wrong, too.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import unittest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
GRAPHS = "its work is graphs of its own, which a plan has as plans for one CPU; for several devices and GPUs they are written out"
FOR_THE_CPU = "its library says that it is for the CPU alone"  # what opc says of an op with .SupportCpuOnly(), as tools/dev/new_op writes
ONE_NUMBER = "it makes one number of one number: there is nothing to split"
REASONS = {
    "grad": {},
    "kernel": {},
    "doc": {},
    "sbp": {"if": GRAPHS, "loop": GRAPHS, "batch_parts": GRAPHS, "adam_bias_correction_factor": ONE_NUMBER, "adam_bias_correction_learning_rate": ONE_NUMBER,
            "learning_rate_schedule": ONE_NUMBER, "dynamic_loss_scale_schedule": ONE_NUMBER},
    "gpu": {"if": GRAPHS, "loop": GRAPHS, "batch_parts": GRAPHS},
    "cases": {"if": GRAPHS, "loop": GRAPHS, "batch_parts": GRAPHS},
}


class MissingParts(unittest.TestCase):
    def test_parts(self):
        for part, reasons in REASONS.items():
            with self.subTest(part):
                done = subprocess.run([OPC, "--config", "none", "ops", "--missing", part, "--json"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                own = {op["name"] for op in json.loads(done.stdout)["ops"] if part == "gpu" and op["no_gpu"] == FOR_THE_CPU}
                self.assertEqual({op["name"] for op in json.loads(done.stdout)["ops"]} - own, set(reasons))

    def test_gradients_that_are_none(self):
        """Not differentiable is a reason, which the op itself gives."""
        done = subprocess.run([OPC, "--config", "none", "ops", "--json"], capture_output=True, text=True)
        ops = json.loads(done.stdout)["ops"]
        self.assertGreater(len(ops), 300)
        for op in ops:
            self.assertTrue(op["gradient"] or (op["no_grad"] or "").strip(), f"{op['name']} has neither a gradient nor a reason")


if __name__ == "__main__":
    unittest.main()
