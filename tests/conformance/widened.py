# Half precision: ops that compute in f32 have the same bits in a graph that is compiled with casts around them (opc-widen-half) and without.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from driver import STATISTICS, Graph
from registry_cases import instances, load_registry, opc_binary, vector_path

# Fewer of them would mean that the pass does not find what it is for: products, convolutions, pooling, attention.
FEWEST = 40


class Widened(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.graph, self.ops = Graph(), []
        for op in load_registry():
            # A graph with an op of a backward pass (conv_filter_grad, broadcast_matmul_grad_b) stays as it is.
            if "_grad" in op["name"] or op["name"] in STATISTICS or not op["pure"]:
                continue
            half = [i for i in instances(op) if i.dtype in ("f16", "bf16") and not i.mutable()]
            if not half:
                continue
            vectors = dict(np.load(vector_path(op["name"])))
            known = json.loads(bytes(vectors["meta"]).decode())
            for instance in half:
                if instance.name in known:
                    self.graph.add(len(self.ops), instance, vectors)
                    self.ops.append(op["name"])
        with open(self.path("graph.pbtxt"), "w", encoding="utf-8") as f:
            f.write("\n".join(self.graph.ops) + "\n")
        np.savez(self.path("in.npz"), **self.graph.inputs)

    def path(self, name):
        return os.path.join(self.folder, name)

    def opc(self, *args):
        done = subprocess.run([opc_binary(), *args, "--config", "none"], cwd=self.folder, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done.stdout

    def results(self, folder, *more):
        self.opc("run", "graph.pbtxt", "--inputs", "in.npz", "--outputs", folder, "--print", "none", *more)
        return {end: np.load(self.path(f"{folder}/{end}.npy")) for _, _, _, end in self.graph.wanted}

    def test_bits(self):
        self.assertGreater(len(self.ops), 300)
        plain, wide = self.results("plain", "--no-fuse"), self.results("wide")
        one = self.results("one", "-j", "1", "--no-codegen")
        wrong = sorted({f"{self.ops[int(end[1:].split('_')[0])]} {end}" for end, value in plain.items()
                        if value.dtype != wide[end].dtype or value.tobytes() != wide[end].tobytes() or wide[end].tobytes() != one[end].tobytes()})
        self.assertEqual(wrong, [])
        text = self.opc("compile", "graph.pbtxt", "--to", "fuse", "--emit", "mlir", "-o", "-", "-q")
        numbers = {int(line.split("@f32")[0].split('"')[-1].split("_")[0][1:]) for line in text.splitlines() if '@f32"' in line and line.startswith("#loc")}
        widened = {self.ops[n] for n in numbers}
        self.assertGreaterEqual(len(widened), FEWEST, sorted(widened))
        self.assertLessEqual({"matmul", "batch_matmul", "conv2d", "avg_pool_2d", "max_pool_2d"}, widened)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
