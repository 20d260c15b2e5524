# Graphs within the ops of an ONNX model: their tensors, names, types. Expected numbers are numpy's.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import unittest

import numpy as np

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
import messages as m  # noqa: E402
from control_flow import BOOL, F32, I64, Control  # noqa: E402

RNG = np.random.default_rng(11)


def named(kind, weight):
    """The tensor w of a graph as an initializer, or made by a Constant: its nodes, its initializers."""
    if kind == "initializer":
        return [], [m.tensor("w", weight)]
    return [m.node("Constant", [], ["w"], "k", value=weight)], []


def branch(kind, weight):
    nodes, own = named(kind, weight)
    return m.graph([*nodes, m.node("MatMul", ["x", "w"], ["t"], "product")], [], [m.value("t")], own)


def body(kind, weight):
    nodes, own = named(kind, weight)
    return m.graph([*nodes, m.node("MatMul", ["h", "w"], ["p"], "product"), m.node("Tanh", ["p"], ["h_out"], "tanh"), m.node("Identity", ["c"], ["go"], "keep")],
                   [m.value("i", (), I64), m.value("c", (), BOOL), m.value("h", (2, len(weight)))], [m.value("go", (), BOOL), m.value("h_out")], own)


def turned(x, weight, count):
    for _ in range(count):
        x = np.tanh(x @ weight)
    return x


class InnerGraphs(Control):
    def setUp(self):
        super().setUp()
        self.x = {n: RNG.standard_normal((2, n)).astype(F32) for n in (3, 20)}
        self.w = {n: RNG.standard_normal((2, n, n)).astype(F32) / 4 for n in (3, 20)}

    def cases(self):
        for kind in ("initializer", "constant"):
            for size in (3, 20):
                with self.subTest(kind=kind, size=size):
                    yield kind, self.x[size], *self.w[size]

    def variables(self, data, *flags):
        done = self.opc("show", self.file("v.onnx", data), "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {v["name"]: v["trainable"] for v in json.loads(done.stdout)["variables"]}

    # Tensors of the same name.

    def test_branches(self):
        for kind, x, w, u in self.cases():
            choice = m.node("If", ["c"], ["a"], "one", then_branch=branch(kind, w), else_branch=branch(kind, u))
            other = m.node("If", ["c"], ["b"], "two", then_branch=branch(kind, u), else_branch=branch(kind, w))
            data = m.model(m.graph([choice, other, m.node("Sub", ["a", "b"], ["y"])], [m.value("x", x.shape), m.value("c", (), BOOL)], [m.value("y")]))
            for c in (True, False):
                want = (x @ w - x @ u) * (1 if c else -1)
                inputs = {"x": x, "c": np.array(c)}
                np.testing.assert_allclose(self.ran(self.compiled(data), inputs)[0], want, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(self.ran(self.compiled(data, "--const", f"c={int(c)}"), {"x": x})[0], want, rtol=1e-4, atol=1e-5)

    def test_turns(self):
        """Written out, and of the run; each tensor is there once, however many turns there are."""
        for kind, x, w, u in self.cases():
            for known in (True, False):
                nodes = [m.node("Loop", ["n", "", "x"], ["a"], "one", body=body(kind, w)), m.node("Loop", ["n", "", "a"], ["y"], "two", body=body(kind, u))]
                count = np.array(3)
                data = m.model(m.graph(nodes, [m.value("x", x.shape)] + ([] if known else [m.value("n", (), I64)]), [m.value("y")], [m.tensor("n", count)] if known else []))
                got = self.ran(self.compiled(data), {"x": x} if known else {"x": x, "n": count})[0]
                np.testing.assert_allclose(got, turned(turned(x, w, 3), u, 3), rtol=1e-4, atol=1e-5)
                if kind == "initializer" or w.nbytes > 1024:
                    self.assertEqual(sorted(self.variables(data)), ["one/body/w", "two/body/w"])

    def test_scans(self):
        for kind, x, w, u in self.cases():
            nodes, own = named(kind, w)
            scan = m.graph([*nodes, m.node("Add", ["h", "r"], ["p"]), m.node("MatMul", ["p", "w"], ["h_out"]), m.node("Identity", ["h_out"], ["o"])],
                           [m.value("h", x.shape), m.value("r", x.shape[1:])], [m.value("h_out"), m.value("o")], own)
            data = m.model(m.graph([m.node("Scan", ["x", "s"], ["f", "y"], "scan", body=scan, num_scan_inputs=1)], [m.value("x", x.shape), m.value("s", (3, x.shape[1]))],
                                   [m.value("f"), m.value("y")]))
            rows, h = u[:3], x
            want = []
            for r in rows:
                h = (h + r) @ w
                want.append(h)
            f, y = self.ran(self.compiled(data), {"x": x, "s": rows}, ("f", "y"))
            np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(f, want[-1], rtol=1e-4, atol=1e-5)

    def test_graphs_in_graphs(self):
        """An If of two Loops, and a branch's tensor with the name of one around it."""
        for kind, x, w, u in self.cases():
            def loop(weight):
                return m.graph([m.node("Loop", ["n", "", "x"], ["t"], "turns", body=body(kind, weight))], [], [m.value("t")])
            outer = m.tensor("w", w + u)
            nodes = [m.node("If", ["c"], ["a"], "choice", then_branch=loop(w), else_branch=loop(u)), m.node("MatMul", ["a", "w"], ["y"])]
            data = m.model(m.graph(nodes, [m.value("x", x.shape), m.value("c", (), BOOL)], [m.value("y")], [m.tensor("n", np.array(2)), outer]))
            for c, weight in ((True, w), (False, u)):
                got = self.ran(self.compiled(data), {"x": x, "c": np.array(c)})[0]
                np.testing.assert_allclose(got, turned(x, weight, 2) @ (w + u), rtol=1e-4, atol=1e-5)
            if kind == "initializer":
                self.assertEqual(sorted(self.variables(data)), ["choice/else_branch/turns/body/w", "choice/then_branch/turns/body/w", "w"])

    # They are trained as others are, by names that do not depend on what is converted.

    def test_weights_and_gradients(self):
        x, (w, u) = self.x[3], self.w[3]
        data = m.model(m.graph([m.node("If", ["c"], ["a"], "choice", then_branch=branch("initializer", w), else_branch=branch("initializer", u)),
                                m.node("ReduceSum", ["a"], ["y"], keepdims=0)], [m.value("x", x.shape), m.value("c", (), BOOL)], [m.value("y")]), opset=13)
        names = {"choice/then_branch/w": w, "choice/else_branch/w": u}
        self.assertEqual(self.variables(data), dict.fromkeys(names, True))
        self.assertEqual(self.variables(data, "--const", "c=0"), {"choice/else_branch/w": True})
        path = self.file("g.onnx", data)
        new = {name: RNG.standard_normal((3, 3)).astype(F32) for name in names}
        np.savez(self.path("new.npz"), **new)
        at = self.array("x.npy", x)
        done = self.opc("grad", path, "--loss", "y", "-o", self.path("g.pbtxt"), "--weights-out", self.path("g.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for c, name in ((1, "choice/then_branch/w"), (0, "choice/else_branch/w")):
            done = self.opc("run", path, "--input", f"x={at}", "--input", f"c={c}", "--weights", self.path("new.npz"), "--outputs", self.path("y.npz"))
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_allclose(np.load(self.path("y.npz"))["y"], (x @ new[name]).sum(), rtol=1e-4)
            done = self.opc("run", self.path("g.pbtxt"), "--input", f"x={at}", "--input", f"c={c}", "--weights", self.path("g.safetensors"), "--outputs", self.path("d.npz"))
            self.assertEqual(done.returncode, 0, done.stderr)
            got = np.load(self.path("d.npz"))
            want = np.repeat(x.sum(0)[:, None], 3, 1)  # of the sum of x w
            for other in names:
                np.testing.assert_allclose(got[other + ".grad"], want if other == name else np.zeros((3, 3)), rtol=1e-4, atol=1e-6)

    # The op has the name of its node.

    def test_names_of_ops(self):
        w = np.eye(3, dtype=F32)
        loop = m.model(m.graph([m.node("Loop", ["n", "", "x"], ["y"], "turns", body=body("initializer", w))], [m.value("x", (2, 3)), m.value("n", (), I64)], [m.value("y")]))
        choice = m.model(m.graph([m.node("If", ["c"], ["y"], "choice", then_branch=branch("constant", w),
                                         else_branch=m.graph([m.node("Neg", ["x"], ["t"], "negated")], [], [m.value("t")]))],
                                 [m.value("x", (2, 3)), m.value("c", (), BOOL)], [m.value("y")]))
        for data, name, kind in ((loop, "turns", "loop"), (choice, "choice", "if")):
            done = self.opc("show", self.file("n.onnx", data), "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([(o["name"], o["type"]) for o in json.loads(done.stdout)["ops"] if o["type"] == kind], [(name, kind)])
        done = self.opc("grad", self.file("n.onnx", loop), "--loss", "y")
        self.assertIn("OPC0511", done.stderr)
        self.assertIn("op turns (loop)", done.stderr)
        self.assertIn('n.onnx: node 0 "turns"', done.stderr)

    # What a graph says of its values' types.

    def test_types_that_contradict(self):
        ports = [m.value("i", (), I64), m.value("c", (), BOOL), m.value("h", (2, 3))]
        nodes = [m.node("Identity", ["c"], ["go"]), m.node("Tanh", ["h"], ["h_out"])]

        def loop(inputs=tuple(ports), go=BOOL, h=1):
            graph = m.graph(nodes, inputs, [m.value("go", None, go), m.value("h_out", None, h)])
            return m.model(m.graph([m.node("Loop", ["n", "", "x"], ["y"], "turns", body=graph)], [m.value("x", (2, 3)), m.value("n", (), I64)], [m.value("y")]))

        def choice(element, more=b""):
            yes = m.graph([m.node("Less", ["x", "x"], ["l"]), m.node("Cast", ["l"], ["t"], to=1)], [], [m.value("t", None, element)]) + more
            no = m.graph([m.node("Neg", ["x"], ["e"])], [], [m.value("e")])
            return m.model(m.graph([m.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=no)], [m.value("x", (2, 3)), m.value("c", (), BOOL)], [m.value("y")]))

        self.compiled(loop())
        self.compiled(choice(1))
        self.compiled(choice(0))
        self.refused(loop(go=1), "OPC0322", "'go' is bool[], and the model says that it is f32", 'node 0 "turns"')
        self.refused(loop(h=11), "OPC0322", "'h_out' is f32[2,3], and the model says that it is f64", 'node 0 "turns"')
        self.refused(loop([*ports[:2], m.value("h", (2, 3), 10)]), "OPC0322", "'h' is f32[2,3], and the model says that it is f16")
        self.refused(choice(7), "OPC0322", "'t' is f32[2,3], and the model says that it is i64", 'node 0 "choice"', "infer_shapes")
        self.refused(choice(1, m.field(13, m.value("l", (2, 3), 6))), "OPC0322", "'l' is bool[2,3], and the model says that it is i32")


del Control
if __name__ == "__main__":
    unittest.main()
