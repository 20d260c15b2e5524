# opc quantize: the digits in 8 bits are within 1 % of f32; methods, kept ops, weights alone; what it refuses.
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
from messages import fields  # noqa: E402

SOURCE, OPC = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")

CONV = '''op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 4 dim: 3 dim: 6 dim: 6 } data_type: kFloat } } }
op { name: "w" variable_conf { out: "out" shape { dim: 5 dim: 3 dim: 3 dim: 3 } data_type: kFloat } }
op { name: "c" user_conf { op_type_name: "conv2d" input { key: "in" value { s: "x/out" } } input { key: "weight" value { s: "w/out" } } } }
op { name: "y" output_conf { in: "c/out_0" } }
'''


class Quantizing(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="quantizing")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def opc(self, *args, code=0, env=None):
        done = subprocess.run([OPC, *args], capture_output=True, text=True, cwd=self.dir, timeout=120, env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def quantize(self, net, *flags):
        return json.loads(self.opc("quantize", os.path.join(DIGITS, net + ".pbtxt"), "--weights", os.path.join(DIGITS, net + "_weights.npz"), "--json", *flags).stdout)

    def logits(self, model):
        self.opc("run", model, "--quiet", "--input", f"image=@{DIGITS}/test_images.npy", "--output", "logits=l.npy")
        return np.load(self.path("l.npy"))

    def compare(self, net, model, cosine):
        made, want = self.logits(model), np.load(os.path.join(DIGITS, net + "_test_logits.npy"))
        labels = np.load(os.path.join(DIGITS, "test_labels.npy"))
        self.assertGreaterEqual((made * want).sum() / np.linalg.norm(made) / np.linalg.norm(want), cosine)
        share = lambda l: (l.argmax(1) == labels).mean()
        self.assertLessEqual(abs(share(made) - share(want)), 0.01)
        return made, want

    EXAMPLES = ["--calibrate", f"image=@{DIGITS}/train_images.npy"]

    def test_the_digits(self):
        for net, ops in (("cnn", 4), ("mlp", 3)):
            for method in ("min-max", "percentile", "entropy"):
                with self.subTest(net=net, method=method):
                    report = self.quantize(net, *self.EXAMPLES, "--method", method, "-o", "q.onnx")
                    self.assertEqual((len(report["quantized"]), report["method"], report["examples"]), (ops, method, 1080))
                    self.assertLess(report["weight_bytes"]["after"], report["weight_bytes"]["before"] / 3)
                    made, want = self.compare(net, "q.onnx", 0.999)
                    self.assertGreater(np.abs(made - want).max(), 0)
                    shown = json.loads(self.opc("show", "q.onnx", "--what", "ops", "--json").stdout)["ops"]
                    types = [o["type"] for o in shown]
                    self.assertEqual(types.count("integer_conv2d") + types.count("integer_matmul"), ops, types)

    def test_the_report_is_of_the_tensors(self):
        """The figures of a tensor, against numpy's of the two runs."""
        report = self.quantize("mlp", *self.EXAMPLES, "-o", "q.onnx")
        by = {t["tensor"]: t for t in report["tensors"]}
        self.assertEqual([t["snr_db"] for t in report["tensors"]], sorted(t["snr_db"] for t in report["tensors"]))
        image = np.load(os.path.join(DIGITS, "train_images.npy"))[:360]
        np.save(self.path("i.npy"), image)
        self.opc("run", "q.onnx", "--quiet", "--input", "image=@i.npy", "--output", "logits=a.npy")
        self.opc("run", os.path.join(DIGITS, "mlp.pbtxt"), "--weights", os.path.join(DIGITS, "mlp_weights.npz"), "--quiet", "--input", "image=@i.npy", "--output", "logits=b.npy")
        a, b = np.load(self.path("a.npy")).astype(np.float64), np.load(self.path("b.npy")).astype(np.float64)
        snr = 10 * np.log10((b * b).sum() / ((a - b) ** 2).sum())
        cosine = (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
        self.assertTrue(any(abs(t["snr_db"] - snr) < 0.05 and abs(t["cosine"] - cosine) < 1e-6 for t in by.values()), (snr, report["tensors"]))

    def test_weights_alone(self):
        for kind, least in (("int8-weights", 3), ("bf16-weights", 1.8)):
            with self.subTest(kind):
                report = self.quantize("cnn", "--to", kind, "-o", "w.onnx")
                self.assertIsNone(report["method"])
                self.assertGreater(report["weight_bytes"]["before"] / report["weight_bytes"]["after"], least)
                self.compare("cnn", "w.onnx", 0.9999)

    def test_bf16_is_rounded_to_nearest(self):
        self.quantize("mlp", "--to", "bf16-weights", "-o", "w.onnx")
        weights = dict(np.load(os.path.join(DIGITS, "mlp_weights.npz")))
        for name in [n for n in weights if n.endswith("_w")]:
            bits = weights[name].view(np.uint32).astype(np.uint64)
            weights[name] = (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)
        np.savez(self.path("rounded.npz"), **weights)
        self.opc("run", os.path.join(DIGITS, "mlp.pbtxt"), "--weights", "rounded.npz", "--quiet", "--input", f"image=@{DIGITS}/test_images.npy", "--output", "logits=r.npy")
        np.testing.assert_allclose(self.logits("w.onnx"), np.load(self.path("r.npy")), rtol=1e-5, atol=1e-5)

    def test_kept_ops(self):
        report = self.quantize("cnn", *self.EXAMPLES, "--keep", "conv1", "--keep", "matmul", "-o", "k.onnx")
        self.assertEqual(report["quantized"], ["conv2"])
        types = [o["type"] for o in json.loads(self.opc("show", "k.onnx", "--what", "ops", "--json").stdout)["ops"]]
        self.assertEqual((types.count("conv2d"), types.count("integer_conv2d"), types.count("integer_matmul")), (1, 1, 0))

    def test_a_model_of_onnx(self):
        self.opc("compile", os.path.join(DIGITS, "cnn.pbtxt"), "--emit", "onnx", "--weights", os.path.join(DIGITS, "cnn_weights.npz"), "-o", "cnn.onnx")
        done = self.opc("quantize", "cnn.onnx", *self.EXAMPLES, "-o", "q.onnx", "--top", "3")
        self.assertEqual(len(done.stdout.strip().split("\n")), 4)
        self.compare("cnn", "q.onnx", 0.999)

    def test_scales_are_of_filters(self):
        """Each filter's largest weight is 127; what the integers stand for is within half a step."""
        rng = np.random.default_rng(1)
        w = (rng.standard_normal((5, 3, 3, 3)) * 10.0 ** np.arange(-2, 3).reshape(5, 1, 1, 1)).astype(np.float32)
        np.savez(self.path("w.npz"), w=w)
        with open(self.path("c.pbtxt"), "w") as f:
            f.write(CONV)
        self.opc("quantize", "c.pbtxt", "--weights", "w.npz", "--to", "int8-weights", "-o", "c.onnx")
        with open(self.path("c.onnx"), "rb") as f:
            graph = next(body for number, body in fields(f.read()) if number == 7)
        tensors = {t[8].decode(): t for t in (dict(fields(body)) for number, body in fields(graph) if number == 5)}
        steps = np.frombuffer(tensors["w.int8"][9], np.int8).reshape(w.shape)
        scales = np.frombuffer(tensors["w.scale"][9], np.float32)
        np.testing.assert_array_equal(np.abs(steps).reshape(5, -1).max(1), np.full(5, 127))
        np.testing.assert_allclose(scales, np.abs(w).reshape(5, -1).max(1) / 127, rtol=1e-6)
        self.assertLessEqual((np.abs(steps * scales.reshape(5, 1, 1, 1) - w) / scales.reshape(5, 1, 1, 1)).max(), 0.5001)

    def test_what_it_refuses(self):
        with open(self.path("c.pbtxt"), "w") as f:
            f.write(CONV)
        np.savez(self.path("w.npz"), w=np.ones((5, 3, 3, 3), np.float32))
        np.save(self.path("x.npy"), np.ones((8, 3, 6, 6), np.float32))
        np.save(self.path("short.npy"), np.ones((3, 3, 6, 6), np.float32))
        np.save(self.path("other.npy"), np.ones((8, 2, 6, 6), np.float32))
        np.save(self.path("nan.npy"), np.full((8, 3, 6, 6), np.nan, np.float32))
        base = ["quantize", "c.pbtxt", "--weights", "w.npz"]
        for flags, code, words in [
            (["-o", "q.onnx"], 2, "--to int8 needs examples"),
            (["--calibrate", "x", "-o", "q.onnx"], 2, "OPC0003"),
            (["--calibrate", "z=@x.npy", "-o", "q.onnx"], 2, "OPC0005"),
            (["-o", "q.onnx", "--to", "int8-weights", "--mesh", "2"], 2, "--mesh"),
            (["--calibrate", "x=@missing.npy", "-o", "q.onnx"], 2, "missing.npy"),
            (["--calibrate", "x=@short.npy", "-o", "q.onnx"], 2, "OPC0704"),
            (["--calibrate", "x=@other.npy", "-o", "q.onnx"], 2, "OPC0704"),
            (["--calibrate", "x=@nan.npy", "-o", "q.onnx"], 5, "not finite"),
            (["--calibrate", "x=@x.npy", "--keep", "none*", "-o", "q.onnx"], 2, "--keep none*: no op"),
            (["--calibrate", "x=@x.npy", "--keep", "c", "-o", "q.onnx"], 2, "nothing can be quantised"),
            (["--calibrate", "x=@x.npy", "--percentile", "99", "-o", "q.onnx"], 2, "--percentile is for --method percentile"),
            (["--calibrate", "x=@x.npy", "--method", "percentile", "--percentile", "101", "-o", "q.onnx"], 2, "--percentile takes"),
            (["--calibrate", "x=@x.npy", "--method", "guess", "-o", "q.onnx"], 2, "--method takes"),
            (["--calibrate", "x=@x.npy", "-o", "nowhere/q.onnx"], 2, "nowhere"),
            (["--calibrate", "x=@x.npy", "-o", "-", "--json"], 2, "standard output"),
        ]:
            with self.subTest(flags=flags):
                done = self.opc(*base, *flags, code=code)
                self.assertIn(words, done.stderr + done.stdout)
                self.assertFalse(os.path.exists(self.path("q.onnx")))
        self.opc("quantize", "c.pbtxt", "--to", "int8-weights", code=2) # a variable without a value


if __name__ == "__main__":
    unittest.main()
