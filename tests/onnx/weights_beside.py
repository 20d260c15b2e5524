# Weights of plans in several files: an index and its shards that are missing, damaged or no files at all, each with one diagnostic.
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402

spec = importlib.util.spec_from_file_location("onnx_import", os.path.join(os.path.dirname(os.path.abspath(__file__)), "import.py"))
onnx_import = importlib.util.module_from_spec(spec)
spec.loader.exec_module(onnx_import)
F32 = np.float32
W, B, X = np.arange(12, dtype=F32).reshape(3, 4), np.array([1, -1, 2, -2], F32), np.array([[-1, 2, -3], [4, -5, 6]], F32)
INDEX = "m.safetensors.index.json"


def safetensors(data=b"", **entries):
    header = json.dumps({k: dict(zip(("dtype", "shape", "data_offsets"), e)) for k, e in entries.items()}).encode()
    return struct.pack("<Q", len(header)) + header + data


BIAS = safetensors(B.tobytes(), b=("F32", [4], [0, 16]))


class Shards(onnx_import.Case):
    def setUp(self):
        super().setUp()
        nodes = [m.node("MatMul", ["x", "w"], ["h"]), m.node("Add", ["h", "b"], ["y"])]
        path = self.file("model.onnx", m.model(m.graph(nodes, [m.value("x", (2, 3))], [m.value("y")], [m.tensor("w", W * 0), m.tensor("b", B * 0)])))
        self.assertEqual(self.opc("compile", path, "--weights-out", "none.safetensors", "-o", "m.plan").returncode, 0)
        self.array("x.npy", X)
        self.file("a.safetensors", safetensors(W.tobytes(), w=("F32", [3, 4], [0, 48])))

    def run_with(self, shard):
        """What both programs that run plans say, with the bias in `shard`."""
        self.file(INDEX, json.dumps({"metadata": {}, "weight_map": {"w": "a.safetensors", "b": shard}}).encode())
        said = []
        for program in ([onnx_import.OPC, "run"], [onnx_import.OPC + "-runtime"]):
            done = subprocess.run([*program, "m.plan", "--weights", INDEX, "--input", "x=@x.npy", "--outputs", "y.npz"],
                                  capture_output=True, text=True, cwd=self.folder, timeout=30, stdin=subprocess.DEVNULL)
            if done.returncode == 0:
                np.testing.assert_allclose(np.load(self.path("y.npz"))["y"], X @ W + B, rtol=1e-6)
            said.append((done.returncode, done.stderr))
        return said

    def fails(self, shard, code, *texts, exit_code=3):
        for returned, said in self.run_with(shard):
            self.assertEqual(returned, exit_code, said)
            self.assertEqual(said.count("error["), 1, said)
            self.assertIn(f"error[{code}]", said)
            for text in texts:
                self.assertIn(text, said)

    def works(self, shard):
        for returned, said in self.run_with(shard):
            self.assertEqual(returned, 0, said)

    def test_shards_that_fit(self):
        self.file("b.safetensors", BIAS)
        self.works("b.safetensors")
        # Two shards may have a tensor of one name: the index says which one counts.
        self.file("b.safetensors", safetensors(B.tobytes() + bytes(48), b=("F32", [4], [0, 16]), w=("F32", [3, 4], [16, 64])))
        self.works("b.safetensors")

    def test_damaged_shards(self):
        for data, code, text in [(BIAS[:-4], "OPC0702", "truncated"), (BIAS[:20], "OPC0702", "truncated"), (b"", "OPC0702", "0 bytes"),
                                 (BIAS + b"more", "OPC0701", "4 bytes that belong to no tensor"),
                                 (safetensors(B.tobytes(), b=("F32", [4], [1 << 40, (1 << 40) + 16])), "OPC0702", "'b' ends at byte"),
                                 (safetensors(B.tobytes(), b=("F32", [3], [0, 16])), "OPC0701", "f32[3]"),
                                 (safetensors(B.tobytes(), c=("F32", [4], [0, 16])), "OPC0701", "no tensor 'b'")]:
            with self.subTest(text=text):
                self.file("b.safetensors", data)
                self.fails("b.safetensors", code, "b.safetensors", text)

    def test_tensors_of_other_types(self):
        self.file("b.safetensors", safetensors(bytes(32), b=("F64", [4], [0, 32])))
        self.fails("b.safetensors", "OPC0703", "'b'", "f64[4]", "f32[4]", exit_code=2)
        self.file("b.safetensors", safetensors(bytes(20), b=("F32", [5], [0, 20])))
        self.fails("b.safetensors", "OPC0704", "'b'", "f32[5]", "f32[4]", exit_code=2)

    def test_shards_that_are_no_files_of_the_folder(self):
        self.fails("none", "OPC0702", INDEX, "shard 'none' cannot be read", "No such file")
        os.mkfifo(self.path("pipe"))  # nobody waits for who might write it
        self.fails("pipe", "OPC0701", INDEX, "shard 'pipe' is no regular file")
        os.mkdir(self.path("folder"))
        self.fails("folder", "OPC0701", "shard 'folder' is no regular file")
        os.symlink("/dev/zero", self.path("zeros"))
        self.fails("zeros", "OPC0701", "shard 'zeros' is no regular file")
        os.symlink("circle", self.path("circle"))
        self.fails("circle", "OPC0702", "shard 'circle' cannot be read")
        with tempfile.TemporaryDirectory() as outside:
            with open(os.path.join(outside, "blob"), "wb") as f:
                f.write(BIAS)
            for shard in (os.path.join(outside, "blob"), "../" + os.path.basename(outside) + "/blob", "", "./b.safetensors"):
                self.fails(shard, "OPC0701", "is not a plain file name")
            os.symlink(os.path.join(outside, "blob"), self.path("linked.safetensors"))
            self.works("linked.safetensors")  # as caches of downloads store them


if __name__ == "__main__":
    unittest.main()
