# ONNX models for batches in a range: one plan gives ONNX Runtime's numbers at every size, and what does not fit is refused.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from folder_test import FolderTest

ROOT, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.environ.get("OPC_PEERS", os.path.join(ROOT, "build", "peers"))
sys.path.insert(0, HERE)
import messages as m  # noqa: E402

F32 = np.float32
SIZES = (1, 2, 5, 8)
I64 = m.ELEMENT[np.dtype(np.int64)]


def has_torch():
    return subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode == 0


class Case(FolderTest):
    def path(self, *names):
        return os.path.join(self.folder, *map(str, names))

    def tool(self, *command, tool="opc"):
        return subprocess.run([os.path.join(BUILD, "bin", tool), *map(str, command)], capture_output=True, text=True, cwd=self.folder, timeout=300)

    def succeeds(self, *command, tool="opc"):
        done = self.tool(*command, tool=tool)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done


class Zoo(Case):
    """Networks as PyTorch exports them: small variants, the ops and their order are those of the published ones. One process makes them all: it takes
    longer to start than a network does."""

    @classmethod
    def setUpClass(cls):
        if not has_torch():
            raise unittest.SkipTest("PyTorch is not installed (tools/dev/setup.sh --tests)")
        if not os.path.isdir(os.path.join(PEERS, "node_modules", "onnxruntime-node")):
            raise unittest.SkipTest("ONNX Runtime is not installed (tools/dev/install_peers.sh)")
        cls.zoo = cls.enterClassContext(tempfile.TemporaryDirectory())
        names = ("flat", "cnn", "resnet18", "mobilenet_v2", "vit", "bert", "gpt2", "lstm")
        subprocess.run(["/usr/bin/python3", os.path.join(HERE, "zoo", "ranged.py"), cls.zoo, ",".join(map(str, SIZES)), *names], check=True)

    def onnx_runtime(self, size):
        os.makedirs(self.path(size, "ort"))
        done = subprocess.run(["node", os.path.join(ROOT, "tools", "bench", "ort_worker.js"), self.path("model.onnx"), self.path(size, "inputs"), "1"],
                              input=f"run 1\noutputs {self.path(size, 'ort')}\nquit\n", capture_output=True, text=True,
                              env={**os.environ, "NODE_PATH": os.path.join(PEERS, "node_modules")})
        self.assertEqual(done.returncode, 0, done.stderr)

    def check(self, name, *shapes):
        self.folder = os.path.join(self.zoo, name)
        given = [part for shape in shapes for part in ("--shape", shape)]
        self.succeeds("compile", "model.onnx", *given, "-o", "m.plan")
        self.succeeds("compile", "model.onnx", *given, "--no-fuse", "-o", "plain.plan")
        for size in SIZES:
            self.onnx_runtime(size)
            for plan, tool in (("m.plan", "opc"), ("plain.plan", "opc"), ("m.plan", "opc-runtime")):
                command = ["run"] if tool == "opc" else []
                self.succeeds(*command, plan, "--inputs", self.path(size, "inputs"), "--outputs", self.path(size, "opc"), tool=tool)
                for output in sorted(os.listdir(self.path(size, "ort"))):
                    made, ort, torch = (np.load(self.path(size, d, output)) for d in ("opc", "ort", "outputs"))
                    self.assertEqual((made.shape, made.dtype), (ort.shape, ort.dtype), output)
                    span = float(torch.max() - torch.min())
                    for theirs in (ort, torch):
                        self.assertLess(float(np.abs(made - theirs).max()), 1e-5 * span, (name, size, output, plan))

    def test_reshapes(self):
        self.check("flat", "x=batch:1..8,4,6")

    def test_images(self):
        self.check("cnn", "image=1..8,3,64,64")

    def test_resnet18(self):
        self.check("resnet18", "image=1..8,3,64,64")

    def test_mobilenet(self):
        self.check("mobilenet_v2", "image=1..8,3,64,64")

    def test_vision_transformer(self):
        self.check("vit", "image=1..8,3,32,32")

    def test_bert(self):
        """One range is enough: the other inputs' sizes have the name of this one."""
        self.check("bert", "ids=n:1..8,12")

    def test_gpt2(self):
        self.check("gpt2", "ids=n:1..8,5")

    def test_recurrent(self):
        self.check("lstm", "ids=1..8,12")


class Ranges(Case):
    def model(self, nodes, inputs, outputs=("y",), initializers=(), opset=17):
        with open(self.path("model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, inputs, [m.value(o) if isinstance(o, str) else o for o in outputs], initializers), opset=opset))

    def plan(self, *shapes):
        self.succeeds("compile", "model.onnx", *[p for s in shapes for p in ("--shape", s)], "-o", "m.plan")

    def run_plan(self, inputs, outputs=("y",)):
        np.savez(self.path("in.npz"), **inputs)
        self.succeeds("run", "m.plan", "--inputs", "in.npz", "--outputs", "out.npz")
        made = np.load(self.path("out.npz"))
        return [made[o] for o in outputs]

    def test_constants_of_a_shape(self):
        """What is filled, repeated and cut as often as the batch says; numbers are numpy's."""
        self.model([m.node("Shape", ["x"], ["s"]), m.node("Gather", ["s", "zero"], ["n"]), m.node("Unsqueeze", ["n", "axes"], ["n1"]),
                    m.node("Concat", ["n1", "three"], ["to"], axis=0), m.node("ConstantOfShape", ["to"], ["c"], value=np.array([2.5], F32)),
                    m.node("Expand", ["row", "to"], ["rows"]), m.node("Add", ["c", "rows"], ["d"]), m.node("Slice", ["x", "zero1", "three", "axes1"], ["cut"]),
                    m.node("Mul", ["d", "cut"], ["y"])],
                   [m.value("x", ("n", 4))],
                   initializers=[m.tensor("zero", np.array(0)), m.tensor("axes", np.array([0])), m.tensor("three", np.array([3])),
                                 m.tensor("row", np.array([[1, 2, 3]], F32)), m.tensor("zero1", np.array([0])), m.tensor("axes1", np.array([1]))])
        self.plan("x=1..6,4")
        for n in range(1, 7):
            x = np.random.default_rng(n).standard_normal((n, 4)).astype(F32)
            self.assertTrue((self.run_plan({"x": x})[0] == x[:, :3] * (np.array([1, 2, 3], F32) + F32(2.5))).all(), n)

    def test_reversed_sequences(self):
        """Of any number, with sequences before or behind their steps."""
        for axes, shape in (({}, (5, "n", 2)), ({"batch_axis": 0, "time_axis": 1}, ("n", 5, 2)), ({}, (5, "n"))):
            node = m.node("ReverseSequence", ["x", "l"], ["y"], "N", **axes)
            with open(self.path("r.onnx"), "wb") as f:
                f.write(m.model(m.graph([node], [m.value("x", shape), m.value("l", ("n",), I64)], [m.value("y")])))
            self.succeeds("compile", "r.onnx", "--shape", "x=" + ",".join("n:1..8" if d == "n" else str(d) for d in shape), "-o", "r.plan")
            for n in SIZES:
                x = np.random.default_rng(n).standard_normal([n if d == "n" else d for d in shape]).astype(F32)
                lengths = np.arange(n) % 5 + 1
                np.savez(self.path("in.npz"), x=x, l=lengths)
                self.succeeds("run", "r.plan", "--inputs", "in.npz", "--outputs", "out.npz")
                steps, wanted = (a if axes else a.swapaxes(0, 1) for a in (x, x.copy()))
                for k, length in enumerate(lengths):
                    wanted[k, :length] = steps[k, :length][::-1]
                np.testing.assert_array_equal(np.load(self.path("out.npz"))["y"], wanted if axes else wanted.swapaxes(0, 1))

    def test_two_sizes_of_a_range(self):
        """Sizes of an odd range, of two values, and two ranges of which each is one dimension that follows."""
        self.model([m.node("Flatten", ["x"], ["f"]), m.node("Reshape", ["z", "to"], ["g"]), m.node("MatMul", ["f", "g"], ["y"])],
                   [m.value("x", ("n", 2, 3)), m.value("z", (6, "k", 1))], initializers=[m.tensor("to", np.array([0, -1]))])
        for flags, sizes in ((("x=1..2,2,3", "z=6,5,1"), [(1, 5), (2, 5)]), (("x=4..5,2,3", "z=6,k:1..40,1"), [(4, 1), (5, 7), (4, 40)])):
            self.plan(*flags)
            for n, k in sizes:
                x, z = (np.random.default_rng(n).standard_normal(s).astype(F32) for s in ((n, 2, 3), (6, k, 1)))
                np.testing.assert_allclose(self.run_plan({"x": x, "z": z})[0], x.reshape(n, 6) @ z.reshape(6, k), rtol=1e-5, atol=1e-6)

    def test_sizes_that_are_equal_by_chance(self):
        """A range whose largest size is that of a channel: what broadcasts stays what it is."""
        self.model([m.node("Shape", ["x"], ["s"]), m.node("Expand", ["v", "s"], ["w"]), m.node("Sub", ["x", "w"], ["y"])], [m.value("x", ("n", 4, 4))],
                   initializers=[m.tensor("v", np.arange(16, dtype=F32).reshape(4, 4))])
        self.plan("x=1..4,4,4")
        for n in (1, 3, 4):
            x = np.random.default_rng(n).standard_normal((n, 4, 4)).astype(F32)
            self.assertTrue((self.run_plan({"x": x})[0] == x - np.arange(16, dtype=F32).reshape(4, 4)).all(), n)

    def refused(self, words, *shapes, code=3):
        done = self.tool("compile", "model.onnx", *[p for s in shapes for p in ("--shape", s)], "-o", "m.plan")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_numbers_that_are_sizes(self):
        """A Shape that is computed with, as a number and as a list."""
        self.model([m.node("Shape", ["x"], ["s"]), m.node("Cast", ["s"], ["f"], to=1), m.node("Mul", ["x", "f"], ["y"])], [m.value("x", ("n", 2))])
        self.plan("x=1..9,2")
        for n in (1, 2, 6, 9):
            x = np.random.default_rng(n).standard_normal((n, 2)).astype(F32)
            self.assertTrue((self.run_plan({"x": x})[0] == x * np.array([n, 2], F32)).all(), n)
        self.model([m.node("Shape", ["x"], ["s"]), m.node("Gather", ["s", "zero"], ["n"]), m.node("Cast", ["n"], ["f"], to=1), m.node("ReduceSum", ["x"], ["t"], keepdims=0),
                    m.node("Div", ["t", "f"], ["y"])], [m.value("x", ("n", 3))], initializers=[m.tensor("zero", np.array(0))])
        self.plan("x=1..9,3")
        for n in (1, 4, 9):
            x = np.random.default_rng(n).standard_normal((n, 3)).astype(F32)
            np.testing.assert_allclose(self.run_plan({"x": x})[0], x.sum() / n, rtol=1e-5)

    def test_numbers_that_follow_from_a_size(self):
        self.model([m.node("Shape", ["x"], ["s"]), m.node("Cast", ["s"], ["f"], to=1), m.node("Reciprocal", ["f"], ["r"]), m.node("Mul", ["x", "r"], ["y"], "scaled")],
                   [m.value("x", ("n", 2))])
        self.refused(["error[OPC0220]", 'model.onnx: node 3 "scaled"', "computed from the sizes", "compile the model for one size"], "x=1..8,2")

    def number(self, *nodes, initializers=()):
        """y is a, and what the nodes make of its size s (and of b's, t) as e."""
        self.model([m.node("Size", ["a"], ["s"]), m.node("Size", ["b"], ["t"]), *nodes, m.node("Cast", ["e"], ["f"], to=1), m.node("Add", ["a", "f"], ["z"]),
                    m.node("ReduceSum", ["b"], ["u"], keepdims=0), m.node("Add", ["z", "u"], ["y"])],
                   [m.value("a", ("n",)), m.value("b", ("m",))], initializers=initializers)

    def test_numbers_that_agree_at_many_sizes(self):
        """A minimum of a size and 5 is 5 at most sizes, and which of two sizes is larger the same at most pairs: neither may be frozen."""
        for op, k, most in (("Min", 5, 8), ("Min", 5, 400), ("Max", 5, 8), ("Min", 63, 64), ("Equal", 1, 64), ("Equal", 5, 9), ("Greater", 3, 200), ("Less", 2, 64),
                            ("Mod", 2, 64), ("Div", 4, 8)):
            self.number(m.node(op, ["s", "k"], ["e"]), initializers=[m.tensor("k", np.array(k))])
            with self.subTest(op, k=k, most=most):
                self.refused(["error[OPC0220]", "computed from the sizes"], f"a=n:1..{most}", "b=3")
        for op in ("Sub", "Div", "Max", "Min", "Equal", "Less", "Greater", "Mod"):
            for ranges in (("a=n:1..9", "b=m:1..10"), ("a=n:1..400", "b=m:1..401"), ("a=n:1..20", "b=m:1..30"), ("a=n:2..5", "b=m:1..64"), ("a=n:1..9", "b=m:3..9")):
                self.number(m.node(op, ["s", "t"], ["e"]))
                with self.subTest(op, ranges=ranges):
                    self.refused(["error[OPC0220]", "computed from the sizes"], *ranges)

    def test_branches_that_follow_from_a_size(self):
        yes, no = (m.graph([m.node(op, ["x"], ["t"])], [], [m.value("t")]) for op in ("Neg", "Exp"))
        for op, k in (("Equal", 1), ("Greater", 3), ("Less", 2)):
            self.model([m.node("Size", ["x"], ["s"]), m.node(op, ["s", "k"], ["c"]), m.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=no)],
                       [m.value("x", ("n",))], initializers=[m.tensor("k", np.array(k))])
            for most in (8, 64):
                self.refused(["error[OPC0220]"], f"x=n:1..{most}")
        self.refused(["which branch of an If is computed depends on the sizes", 'node 2 "choice": then_branch with n = 1'], "x=n:1..64")
        self.plan("x=n:4..64")
        for n in (4, 9, 64):
            x = np.linspace(-1, 1, n, dtype=F32)
            np.testing.assert_allclose(self.run_plan({"x": x})[0], np.exp(x), rtol=1e-5)

    def test_equal_ranges_of_two_sizes(self):
        """What has the name of the second size has that one, though the first has the same range."""
        self.model([m.node("Neg", [name], [name + "y"]) for name in "qkv"], [m.value("q", ("n", 4)), m.value("k", ("m", 4)), m.value("v", ("m", 4))], ("qy", "ky", "vy"))
        for ranges in (("q=n:1..40,4", "k=m:1..40,4"), ("q=n:1..6,4", "k=m:1..6,4")):
            self.plan(*ranges)
            q, k, v = (np.random.default_rng(n).standard_normal((n, 4)).astype(F32) for n in (6, 3, 3))
            for got, want in zip(self.run_plan({"q": q, "k": k, "v": v}, ("qy", "ky", "vy")), (-q, -k, -v)):
                self.assertTrue((got == want).all())

    def test_two_open_sizes_in_one_shape(self):
        self.model([m.node("Shape", ["x"], ["s"]), m.node("Concat", ["s", "one"], ["to"], axis=0), m.node("Reshape", ["x", "to"], ["y"], "more")],
                   [m.value("x", ("n", "k"))], initializers=[m.tensor("one", np.array([1]))])
        self.refused(["error[OPC0220]", 'node 2 "more"', "several sizes of its shape"], "x=n:1..8,k:1..9")

    def test_more_elements_than_there_may_be(self):
        """TopK of 5 is as long as its axis where that has fewer: the message shows the sizes at which this turns."""
        self.model([m.node("TopK", ["x", "k"], ["v", "i"], axis=0)], [m.value("x", ("n",))], ("v", m.value("i", None, 7)), initializers=[m.tensor("k", np.array([5]))])
        self.refused(["error[OPC0220]: dimension 0 of ", "it is 1 where n = 1, 5 where n = 5 and 5 where n = 64\n", "not the smaller of a size and a number"], "x=n:1..64")
        self.plan("x=n:5..64")
        x = np.random.default_rng(3).permutation(40).astype(F32)
        values, places = self.run_plan({"x": x}, ("v", "i"))
        np.testing.assert_array_equal(values, np.sort(x)[:-6:-1])
        np.testing.assert_array_equal(places, np.argsort(x)[:-6:-1])

    def test_a_shape_of_one_batch(self):
        """Exported for one batch: it fits no other."""
        self.model([m.node("Reshape", ["x", "to"], ["y"], "fixed")], [m.value("x", (3, 4))], initializers=[m.tensor("to", np.array([3, 2, 2]))])
        self.refused(['node 0 "fixed"'], "x=1..8,4")


if __name__ == "__main__":
    unittest.main()
