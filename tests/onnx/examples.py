# The models of docs/examples/onnx: their numbers against PyTorch's, formulas in numpy and ONNX Runtime; and the options that
# docs/onnx.md names for users of other programs.
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ort  # noqa: E402

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
OPC = os.path.join(BUILD, "bin", "opc")
EXAMPLES = os.path.join(SOURCE, "docs", "examples")
DIGITS = os.path.join(EXAMPLES, "digits")


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(EXAMPLES, "onnx", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="onnx_examples")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        subprocess.run([sys.executable, os.path.join(EXAMPLES, "onnx", "make_models.py"), cls.dir], check=True)

    def run_model(self, model, inputs):
        np.savez(os.path.join(self.dir, "in.npz"), **inputs)
        done = subprocess.run([OPC, "run", model, "--quiet", "--inputs", "in.npz", "--outputs", "out.npz"], cwd=self.dir, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(np.load(os.path.join(self.dir, "out.npz")))

    def judged(self, model, inputs, tolerance=2e-5):
        """What opc makes, which ONNX Runtime makes too."""
        made = self.run_model(model, inputs)
        if ort.judges(self):
            for name, wanted in ort.run(self.dir, [(model, inputs)])[0].items():
                np.testing.assert_allclose(made[name], wanted, rtol=tolerance, atol=tolerance)
        return made

    def test_classifier(self):
        images, labels = (np.load(os.path.join(DIGITS, f"test_{what}.npy")) for what in ("images", "labels"))
        wanted = np.load(os.path.join(DIGITS, "cnn_test_logits.npy"))
        for count in (360, 3):
            logits = self.judged("classifier.onnx", {"image": images[:count]})["logits"]
            np.testing.assert_allclose(logits, wanted[:count], rtol=1e-4, atol=2e-5)
        loss = self.judged("classifier_train.onnx", {"image": images, "label": labels})["loss"]
        shares = wanted - np.log(np.exp(wanted.astype(np.float64)).sum(1, keepdims=True))
        np.testing.assert_allclose(loss, -shares[np.arange(360), labels].mean(), rtol=1e-4)

    def test_encoder(self):
        ids, wanted = (np.load(os.path.join(self.dir, name + ".npy")) for name in ("ids", "scores"))
        np.testing.assert_allclose(self.judged("encoder.onnx", {"ids": ids})["scores"], wanted, rtol=1e-4, atol=1e-5)
        make = loaded("make_models")
        for shape in ((1, 1), (2, 7), (3, 32)):
            ids = np.random.RandomState(shape[1]).randint(0, make.WORDS, shape)
            np.testing.assert_allclose(self.judged("encoder.onnx", {"ids": ids})["scores"], make.encoded(make.encoder_weights(), ids), rtol=1e-4, atol=1e-5)

    def test_detector(self):
        """Piece by piece with opc's own state, against the spectrum of numpy's FFT; the voice is found where it is."""
        if "opc" not in sys.modules:
            sys.path.insert(0, os.path.join(BUILD, "python"))
            try:
                import opc  # noqa: F401
            except ImportError:
                sys.modules["opc"] = types.ModuleType("opc")  # a build without the package: the sound alone
        detect = loaded("detect")
        samples, state, floor, voice = detect.sound(), detect.FIRST_STATE, 20.0, 0.0
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(256) / 256)
        heard, session = [], None
        if hasattr(sys.modules["opc"], "load"):
            session = sys.modules["opc"].load(os.path.join(self.dir, "detector.onnx")).compile().session()
        for begin in range(0, len(samples) - 255, 256 if session else 256 * 12):
            frame = samples[None, begin:begin + 256]
            made = session.run(frame=frame, state=state) if session else self.run_model("detector.onnx", {"frame": frame, "state": state})
            spectrum = np.abs(np.fft.rfft(frame[0] * window)) ** 2
            level = np.log(spectrum[3:48].sum() + 1e-6)  # 187.5 Hz to 2,937.5 Hz: the bins from 150 Hz on and below 3,000 Hz
            floor = min(level, floor + 0.01)
            voice = 0.7 * voice + 0.3 / (1 + np.exp(3 + floor - level))
            np.testing.assert_allclose([made["voice"][0, 0], *made["next"][0]], [voice, floor, voice], rtol=1e-3, atol=1e-4)
            state = made["next"]
            heard.append((begin / 16000, voice > 0.5))
        if session:
            inside = [t for t, is_voice in heard if is_voice]
            self.assertAlmostEqual(inside[0], 0.8, delta=0.05)
            self.assertAlmostEqual(inside[-1], 1.4, delta=0.05)
            self.assertEqual(len(inside), round((inside[-1] - inside[0]) / 0.016) + 1)
            done = subprocess.run([sys.executable, os.path.join(EXAMPLES, "onnx", "detect.py"), self.dir], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")})
            self.assertEqual(done.stdout.split("\n")[:2], [f"voice from {inside[0]:.2f} s on", f"quiet from {inside[-1] + 0.016:.2f} s on"], done.stderr)


class OtherPrograms(unittest.TestCase):
    def test_options_exist(self):
        with open(os.path.join(SOURCE, "docs", "onnx.md"), encoding="utf-8") as f:
            part = f.read().split("## Coming from other programs")[1].split("\n## ")[0]
        rows = [line.strip("|").split("|") for line in part.split("\n") if line.startswith("| ")][1:]
        self.assertGreater(len(rows), 20)
        helps, seen = {}, 0
        for row in rows:
            self.assertEqual(len(row), 5, row)
            command = "run"
            for code in re.findall(r"`([^`]*)`", row[4]):
                words = code.split()
                if words[0] == "opc":
                    command = words[1]
                said = helps.get(command) or helps.setdefault(command, subprocess.run([OPC, command, "--help"], capture_output=True, text=True).stdout)
                for flag in (w for w in words if w.startswith("-")):
                    self.assertRegex(said, rf"(?m)(^|[\s,]){re.escape(flag)}\b", f"opc {command}: {row[0]}")
                    seen += 1
                if words[0] == "opc" and len(words) > 2 and re.fullmatch("[a-z-]+", words[2]):
                    self.assertIn(words[2], said)
        self.assertGreater(seen, 40)


if __name__ == "__main__":
    unittest.main()
