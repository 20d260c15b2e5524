# The C++ example trains, stops, goes on bit for bit, and writes what the command line reads.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

SOURCE, BIN = os.environ["OPC_SOURCE_DIR"], os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
DIGITS = os.path.join(SOURCE, "docs", "examples", "digits")


def train(checkpoint, epochs):
    return subprocess.run([os.path.join(BIN, "train_digits"), DIGITS, checkpoint, str(epochs)], capture_output=True, text=True, timeout=300)


class TrainCpp(unittest.TestCase):
    def test_example(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, parts = os.path.join(folder, "whole"), os.path.join(folder, "parts")
            done = train(whole, 15)
            self.assertEqual(done.returncode, 0, done.stderr)
            accuracy = float(done.stdout.splitlines()[-1].split(":")[1].split("%")[0])
            self.assertGreaterEqual(accuracy, 96)
            for epochs in (4, 15):
                done = train(parts, epochs)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("going on from step 88", done.stdout)
            with open(whole, "rb") as a, open(parts, "rb") as b:
                self.assertEqual(a.read(), b.read())
            # The command line evaluates what the program has saved.
            done = subprocess.run([os.path.join(BIN, "opc"), "run", os.path.join(DIGITS, "mlp.pbtxt"), "--weights", whole, "--input",
                                   f"image=@{os.path.join(DIGITS, 'test_images.npy')}"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_errors(self):
        self.assertEqual(train("", 0).returncode, 2)
        done = subprocess.run([os.path.join(BIN, "train_digits"), "/nowhere", "ckpt"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 5)
        self.assertIn("OPC0706", done.stderr)


if __name__ == "__main__":
    unittest.main()
