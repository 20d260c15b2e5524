# The gradient of dropout uses the mask of the same run: dx = dy * mask / (1 - rate), and another mask in the next one.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

import numpy as np

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
GRAPH = """
op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 40 dim: 50 } data_type: kDouble } } }
op { name: "residual" input_conf { out: "out" blob_conf { shape { dim: 40 dim: 50 } data_type: kDouble } } }
op { name: "drop" user_conf { op_type_name: "dropout" input { key: "in" value { s: "x/out" } } input { key: "_add_to_output" value { s: "residual/out" } }
  output { key: "out" value { s: "drop/out_0" } } output { key: "mask" value { s: "drop/mask_0" } } attr { key: "rate" value { at_float: 0.25 } } attr { key: "seed" value { at_int64: SEED } } } }
op { name: "y" output_conf { in: "drop/out_0" out: "out" } }
op { name: "mask" output_conf { in: "drop/mask_0" out: "out" } }
"""


class Dropout(unittest.TestCase):
    def step(self, seed):
        rng = np.random.default_rng(seed)
        x, residual, dy = (rng.standard_normal((40, 50)) for _ in range(3))
        with tempfile.TemporaryDirectory() as folder:
            at = lambda name: os.path.join(folder, name)  # noqa: E731
            with open(at("graph.pbtxt"), "w") as f:
                f.write(GRAPH.replace("SEED", str(seed)))
            subprocess.run([OPC, "grad", at("graph.pbtxt"), "--dy", "--loss", "y", "--wrt", "x", "--wrt", "residual", "-o", at("grad.pbtxt"), "-q"], check=True)
            np.savez(at("in.npz"), **{"x": x, "residual": residual, "y.dy": dy})
            subprocess.run([OPC, "run", at("grad.pbtxt"), "--inputs", at("in.npz"), "--outputs", at("out"), "--print", "none", "-q"], check=True)
            y, mask, dx, dresidual = (np.load(at(f"out/{n}.npy")) for n in ("y", "mask", "x.grad", "residual.grad"))
        np.testing.assert_allclose(y, np.where(mask, x / 0.75, 0) + residual, rtol=1e-6)
        np.testing.assert_allclose(dx, np.where(mask, dy / 0.75, 0), rtol=1e-6)
        np.testing.assert_array_equal(dresidual, dy)
        return mask

    def test_mask_of_the_run(self):
        first, second = self.step(1), self.step(2)
        self.assertTrue(0.7 < first.mean() < 0.8)
        self.assertTrue((first != second).any())


if __name__ == "__main__":
    unittest.main()
