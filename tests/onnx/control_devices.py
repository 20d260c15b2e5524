# `if` and `loop` where their graphs cannot run: both branches and every turn are written out, for several ranks and for GPUs. Expected
# numbers are numpy's, and those of one CPU.
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import control_flow as flow  # noqa: E402
import control_gradients as grads  # noqa: E402
import export_control as written  # noqa: E402
import gpu_build  # noqa: E402
import messages as m  # noqa: E402

F32, X = np.float32, flow.X
MOST = r'key: \"most\"\n      value {\n        at_int64: 0' # of a loop in a branch, as its text is in the file
RANKS, GPU = ("--ranks", "2", "--in-process"), ("--device", "sim")
DEVICES = (RANKS,) if gpu_build.without_simulator() else (RANKS, GPU)  # test_gpus_are_there says so


class WrittenOut(flow.Control):
    def ran_there(self, graph, inputs, *flags):
        command = ["run", graph, "--quiet", *flags, "--outputs", self.path("out.npz")]
        for k, (name, a) in enumerate(inputs.items()):
            command += ["--input", f"{name}={self.array(f'in{k}.npy', a)}"]
        done = self.opc(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(np.load(self.path("out.npz")))

    def graph_of(self, data):
        """A graph file in which what the run decides is `if` or `loop`."""
        done = self.opc("compile", self.file("model.onnx", data), "--emit", "pbtxt", "-o", self.path("g.pbtxt"), "--weights-out", self.path("w.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("g.pbtxt"), encoding="utf-8") as f:
            self.assertRegex(f.read(), r'op_type_name: "(if|loop)"')
        return self.path("g.pbtxt"), ["--weights", self.path("w.safetensors")]

    def test_gpus_are_there(self):
        gpu_build.need_simulator()
        self.assertIn(GPU, DEVICES)

    def test_branches(self):
        s = np.array([[1], [-2], [3], [0.5]], F32)
        graph, weights = self.graph_of(flow.branches())
        for c in (True, False):
            want = -(X @ flow.A + s) if c else -(np.maximum(X @ flow.B, 0) * s)
            for device in DEVICES:
                got = self.ran_there(graph, {"x": X, "c": np.array(c), "s": s}, *weights, *device)
                np.testing.assert_allclose(got["y"], want, rtol=1e-5, atol=1e-6)

    def test_turns(self):
        """Of opc's own loops: forwards and backwards, all turns or fewer, ended by the run or not."""
        rng = np.random.default_rng(4)
        x, z = rng.standard_normal(2).astype(F32), rng.standard_normal((6, 2)).astype(F32)
        for reverse, partial, ends_at in ((False, False, None), (True, False, None), (False, True, None), (True, True, None), (False, True, 2), (True, True, 2)):
            graph = self.path("loop.pbtxt")
            with open(graph, "w", encoding="utf-8") as f:
                f.write(written.loop_graph(reverse, partial, ends_at))
            for n, begin in ((6, True), (4, True), (0, True), (5, False), (-1, True)) if partial else ((6, True),):
                want = written.loop_numbers(reverse, x, z, n, begin, ends_at)
                for device in DEVICES if n == 4 or not partial else (RANKS,):
                    with self.subTest(reverse=reverse, partial=partial, ends_at=ends_at, n=n, device=device):
                        got = self.ran_there(graph, {"x": x, "z": z, "n": np.array([n]), "begin": np.array(begin)}, *device)
                        for name, array in want.items():
                            np.testing.assert_allclose(got[name], array, rtol=1e-6, err_msg=name)

    def test_graphs_in_graphs(self):
        """A branch in a loop in a branch: nothing says how many turns there are at most, until the graph does."""
        graph, weights = self.graph_of(written.nested())
        done = self.opc("compile", graph, "--mesh", "2", "-o", self.path("m.plan"))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        for text in ("OPC0416", "(loop): the run alone knows how many turns it makes", "--const"):
            self.assertIn(text, done.stderr)
        with open(graph, encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(text.count(MOST), 1)
        with open(graph, "w", encoding="utf-8") as f:
            f.write(text.replace(MOST, MOST.replace("at_int64: 0", "at_int64: 5")))
        for n, d in ((0, True), (5, True), (3, False)):
            inputs = {"x": X, "n": np.array(n), "d": np.array([d])}
            want = X
            for i in range(n if d else 0):
                want = want - X if i % 2 else want @ flow.A
            np.testing.assert_allclose(self.ran_there(graph, inputs, *weights, *RANKS)["y"], want, rtol=1e-4, atol=1e-5)

    def test_gradients(self):
        """What opc grad makes of models whose branches and turns the run decides."""
        w = grads.weights(6)
        body = grads.body([m.node("Identity", ["c"], ["go"]), m.node("MatMul", ["h", "a"], ["p"]), m.node("Tanh", ["p"], ["q"]), m.node("Add", ["q", "s"], ["h_out"])],
                          ["go", "h_out"])
        turned = grads.model(grads.loss_of([m.node("Min", ["n", "most"], ["k"]), m.node("Loop", ["k", "", "x"], ["y"], "turns", body=body)], "y"),
                             [m.value("x", (4, 8)), m.value("n", (), 7)], {"a": w["a"], "s": w["s"], "most": np.array(5)})
        for data, wrt, cases in ((grads.branches(w), ("x", "a", "b", "s"), [{"x": X, "c": np.array(c)} for c in (True, False)]),
                                 (turned, ("x", "a", "s"), [{"x": X, "n": np.array(n)} for n in (0, 3, 9)])):
            done = self.opc("grad", self.file("model.onnx", data), "--loss", "loss", "-o", self.path("g.pbtxt"), "--weights-out", self.path("w.safetensors"),
                            *[f for one in wrt for f in ("--wrt", one)])
            self.assertEqual(done.returncode, 0, done.stderr)
            weights = ["--weights", self.path("w.safetensors"), "--partial-weights"]
            for inputs in cases:
                want = self.ran_there(self.path("g.pbtxt"), inputs, *weights)
                got = self.ran_there(self.path("g.pbtxt"), inputs, *weights, *RANKS)
                self.assertTrue(all(f"{one}.grad" in got for one in wrt))
                for name, array in want.items():
                    np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5, err_msg=name)

    def test_too_many_turns(self):
        graph = self.path("loop.pbtxt")
        with open(graph, "w", encoding="utf-8") as f:
            f.write(written.loop_graph(False, True).replace("dim: 6", "dim: 5000"))
        for flags in (("--mesh", "2"), ("--device", "sim")):
            done = self.opc("compile", graph, *flags, "-o", self.path("m.plan"))
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertEqual(done.stderr.count("error["), 1, done.stderr)
            for text in ("OPC0416", "op turns (loop): it makes up to 5000 turns", "at most 4096"):
                self.assertIn(text, done.stderr)

    def test_a_graph_for_a_range(self):
        graph = self.path("loop.pbtxt")
        with open(graph, "w", encoding="utf-8") as f:
            f.write(written.loop_graph(False, True).replace('{ out: "out" blob_conf { shape { dim: 2 }', '{ out: "out" blob_conf { shape { dim: -1 }', 1))
        done = self.opc("compile", graph, "--shape", "x=n:1..2", "-o", self.path("m.plan"))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("OPC0416", done.stderr)
        self.assertIn("sizes in a range", done.stderr)


if __name__ == "__main__":
    unittest.main()
