# opc quantize: weights that are computed of weights, what stays in f32 and why, examples of one batch, tensors that are rounding noise.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
import messages as m  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
F32 = np.float32


class QuantizedWeights(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="quantized_weights")
        self.addCleanup(shutil.rmtree, self.dir)
        self.rng = np.random.default_rng(3)

    def path(self, name):
        return os.path.join(self.dir, name)

    def opc(self, *args, code=0):
        done = subprocess.run([OPC, *args], capture_output=True, text=True, cwd=self.dir, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def normal(self, *shape, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(F32)

    def model(self, nodes, inputs, weights, outputs=("y",), shapes=None, domains=()):
        """model.onnx, and an example for each of its inputs."""
        for name, array in inputs.items():
            np.save(self.path(f"{name}.npy"), array)
        values = [m.value(n, (shapes or {}).get(n, a.shape), m.ELEMENT[a.dtype]) for n, a in inputs.items()]
        with open(self.path("model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, values, [m.value(o, None, 10 if o in "lq" else 1) for o in outputs], [m.tensor(n, a) for n, a in weights.items()]), domains=domains))
        return [word for name in inputs for word in ("--calibrate", f"{name}=@{name}.npy")]

    def quantize(self, given, *flags):
        done = self.opc("quantize", "model.onnx", *given, "--json", "-o", "q.onnx", *flags)
        return json.loads(done.stdout), done.stderr

    def types(self):
        return [op["type"] for op in json.loads(self.opc("show", "q.onnx", "--what", "ops", "--json").stdout)["ops"]]

    def made(self, inputs, model="q.onnx", output="y"):
        self.opc("run", model, "--quiet", *[w for n in inputs for w in ("--input", f"{n}=@{n}.npy")], "--output", f"{output}=out.npy")
        return np.load(self.path("out.npy"))

    def near(self, made, want, least=0.999):
        made, want = made.astype(np.float64).ravel(), np.asarray(want, np.float64).ravel()
        self.assertEqual(made.shape, want.shape)
        self.assertGreater(made @ want / np.linalg.norm(made) / np.linalg.norm(want), least)

    def test_inputs_without_a_common_batch(self):
        """Files of exactly the inputs' shapes are one batch: scalars, and first dimensions that differ."""
        x, past, c = self.normal(1, 8), self.normal(2, 3, 8), np.array(True)
        yes = m.graph([m.node("Identity", ["a"], ["t"])], [], [m.value("t", (1, 8))])
        no = m.graph([m.node("Neg", ["a"], ["n"])], [], [m.value("n", (1, 8))])
        nodes = [m.node("MatMul", ["x", "w"], ["a"], "p"), m.node("If", ["c"], ["k"], "choice", then_branch=yes, else_branch=no), m.node("Add", ["k", "past"], ["y"])]
        w = self.normal(8, 8)
        given = self.model(nodes, {"x": x, "past": past, "c": c}, {"w": w})
        report, said = self.quantize(given)
        self.assertEqual((report["quantized"], report["examples"], report["examples_left_over"]), (["p"], 1, 0), said)
        self.near(self.made(["x", "past", "c"]), x @ w + past)
        # A file of another shape: how many examples it has cannot be said.
        np.save(self.path("x.npy"), self.normal(4, 8))
        said = self.opc("quantize", "model.onnx", *given, code=2).stderr
        self.assertIn("OPC0704", said)
        self.assertIn("for each input a file of exactly its shape", said)
        np.save(self.path("x.npy"), x)
        np.save(self.path("c.npy"), np.array([True]))
        said = self.opc("quantize", "model.onnx", *given, code=2).stderr
        self.assertIn("is bool[1], the input is bool[]: it has no first dimension in which they may differ", said)

    def test_entropy_leaves_zeros_out(self):
        """Behind a ReLU half or more of all values are 0, which 8 bits have exactly: the range is that of the others."""
        for shift, scale in ((0, 1), (-0.3, 0.3)):
            x = (self.normal(200, 500) * F32(scale) + F32(shift))
            want = np.maximum(x, 0)
            given = self.model([m.node("Relu", ["x"], ["r"]), m.node("MatMul", ["r", "w"], ["y"], "p")], {"x": x}, {"w": np.eye(500, 2, dtype=F32)})
            self.quantize(given, "--method", "entropy")
            scales = [np.frombuffer(t[9], F32)[0] for t in self.tensors("q.onnx") if t[8].endswith(b".scale") and len(t[9]) == 4]
            top = want.max()
            bound = least_entropy(want)
            self.assertGreater(bound, 0.75 * top)
            self.assertAlmostEqual(scales[0] * 255 / bound, 1, delta=1e-4)
            noise = ((np.clip(np.rint(want / scales[0]), 0, 255) * scales[0] - want) ** 2).sum()
            self.assertGreater(10 * np.log10((want.astype(np.float64) ** 2).sum() / noise), 30)
        self.model([m.node("Relu", ["x"], ["r"]), m.node("MatMul", ["r", "w"], ["y"], "p")], {"x": -np.abs(x)}, {"w": np.eye(500, 2, dtype=F32)})
        self.quantize(given, "--method", "entropy")  # nothing but zeros

    def tensors(self, model):
        with open(self.path(model), "rb") as f:
            graph = next(body for number, body in m.fields(f.read()) if number == 7)
        return [{9: b"", **dict(m.fields(body))} for number, body in m.fields(graph) if number == 5]



def least_entropy(values):
    """The bound at which 128 levels lose least of what is not 0: Kullback and Leibler's divergence, in numpy."""
    some = np.abs(values[values != 0].astype(np.float64))
    counts, edges = np.histogram(some, 2048, (0, some.max()))
    best = (np.inf, 0)
    for kept in range(128, 2049, 16):
        p, q = counts[:kept].astype(np.float64), np.zeros(kept)
        for part in np.split(np.arange(kept), [level * kept // 128 for level in range(1, 128)]):
            filled = part[p[part] > 0]
            q[filled] = p[filled].mean() if filled.size else 0
        p[-1] += counts[kept:].sum()
        p, q = p / p.sum(), q / q.sum()
        best = min(best, ((p[p > 0] * np.log(p[p > 0] / np.maximum(q[p > 0], 1e-12))).sum(), edges[kept]))
    return best[1]


if __name__ == "__main__":
    unittest.main()
