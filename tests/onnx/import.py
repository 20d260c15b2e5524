# ONNX models through the commands: what a model may look like, names, sizes, weights, functions; and models that are not valid,
# each with one diagnostic, exit code 3 or 4. Expected numbers are numpy's.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measured  # noqa: E402
import messages as m  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
F32 = np.float32


class Case(FolderTest):
    def file(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def opc(self, *arguments):
        return subprocess.run([OPC, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=60, errors="replace")

    def array(self, name, a):
        np.save(self.path(name), a)
        return "@" + self.path(name) + ("" if name.endswith(".npy") else ".npy")

    def runs(self, data, inputs, *flags, outputs=("y",)):
        """The outputs of a model on named arrays."""
        path = self.file("model.onnx", data)
        command = ["run", path, "--quiet", *flags]
        for k, (name, a) in enumerate(inputs.items()):
            command += ["--input", f"{name}={self.array(f'in{k}.npy', a)}"]
        for k, name in enumerate(outputs):
            command += ["--output", f"{name}={self.path(f'out{k}.npy')}"]
        done = self.opc(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [np.load(self.path(f"out{k}.npy")) for k in range(len(outputs))]

    bases = {} # the peak of a command on a valid model

    def measured(self, data, *command):
        """The command on a model; its seconds and the peak of its memory."""
        self.file("model.onnx", data)
        return measured.run([OPC, *command, "model.onnx", *(["--fill", "ones"] if command == ("run",) else [])], self.folder)

    def refused(self, data, code, *texts, exit_code=3, commands=("show",)):
        """One diagnostic, soon and in little memory."""
        said = ""
        for command in commands:
            words = (command,) if isinstance(command, str) else command
            base = self.bases.get(words[0]) or self.bases.setdefault(words[0], self.measured(relu(), words[0])[2])
            done, seconds, peak = self.measured(data, *words)
            said = done.stderr
            self.assertIn(done.returncode, exit_code if isinstance(exit_code, tuple) else (exit_code,), said[:2000] + done.stdout)
            self.assertEqual(said.count("error["), 1, said[:2000])
            self.assertIn(f"error[{code}", said)
            for text in texts:
                self.assertIn(text, said)
            measured.is_modest(self, len(data), base, seconds, peak, command)
        return said


def relu(inputs=("x",), shape=(2, 3)):
    return m.model(m.graph([m.node("Relu", inputs, ["y"], "act")], [m.value("x", shape)], [m.value("y")]))


X = np.array([[-1, 2, -3], [4, -5, 6]], F32)


class Models(Case):
    def test_a_model_is_told_by_its_bytes(self):
        self.assertTrue((self.runs(relu(), {"x": X})[0] == np.maximum(X, 0)).all())
        plain = self.file("without_ending", relu())
        self.assertEqual(self.opc("show", plain).returncode, 0)

    def test_weights_are_variables_with_their_values(self):
        w, b = np.arange(12, dtype=F32).reshape(3, 4), np.array([1, -1, 2, -2], F32)
        body = m.graph([m.node("Gemm", ["x", "w", "b"], ["y"], "fc", alpha=0.5, beta=2.0)], [m.value("x", (2, 3))],
                       [m.value("y")], [m.tensor("w", w), m.tensor("b", b)])
        np.testing.assert_allclose(self.runs(m.model(body), {"x": X})[0], 0.5 * X @ w + 2 * b, rtol=1e-6)
        shown = self.opc("show", self.path("model.onnx"), "--what", "tensors")
        self.assertIn("w", shown.stdout)
        # What is given wins over what the model has.
        got = self.runs(m.model(body), {"x": X, "w": w * 0})[0]
        np.testing.assert_allclose(got, np.broadcast_to(2 * b, (2, 4)), rtol=1e-6)

    def test_a_reference_has_the_same_weights(self):
        body = m.graph([m.node("MatMul", ["x", "w"], ["y"])], [m.value("x", (2, 3))], [m.value("y")],
                       [m.tensor("w", np.arange(12, dtype=F32).reshape(3, 4))])
        path = self.file("model.onnx", m.model(body))
        done = self.opc("run", path, "--fill", "rand", "--reference", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def linear(self):
        """y = x @ w, as a file; w."""
        w = np.arange(12, dtype=F32).reshape(3, 4)
        body = m.graph([m.node("MatMul", ["x", "w"], ["y"])], [m.value("x", (2, 3))], [m.value("y")], [m.tensor("w", w)])
        return self.file("model.onnx", m.model(body)), w

    def gives(self, command, y, code=0):
        done = subprocess.run([*command, "--input", "x=" + self.array("x.npy", X), "--outputs", self.path("out.npz")],
                              capture_output=True, text=True, cwd=self.folder, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        if code == 0:
            np.testing.assert_allclose(np.load(self.path("out.npz"))["y"], y, rtol=1e-6)
        return done.stderr

    def test_a_plan_has_the_weights(self):
        path, w = self.linear()
        plan = self.path("m.plan")
        self.assertEqual(self.opc("compile", path, "-o", plan).returncode, 0)
        np.savez(self.path("w.npz"), w=2 * w)
        for program in ([OPC, "run", plan], [OPC + "-runtime", plan]):
            self.gives(program, X @ w)
            self.gives([*program, "--weights", self.path("w.npz")], X @ (2 * w))
        with open(plan, "rb") as f:
            self.assertEqual(f.read()[8], 3, "the version of plans with values")
        for _ in range(2): # equal plans are equal bytes
            self.assertEqual(self.opc("compile", path, "-o", self.path("again.plan")).returncode, 0)
            with open(plan, "rb") as a, open(self.path("again.plan"), "rb") as b:
                self.assertEqual(a.read(), b.read())

    def test_a_plan_of_two_ranks_has_the_weights(self):
        path, w = self.linear()
        self.assertEqual(self.opc("compile", path, "--mesh", "2", "-o", self.path("m.plan")).returncode, 0)
        self.gives([OPC, "run", self.path("m.plan"), "--ranks", "2", "--in-process"], X @ w)
        self.gives([OPC, "run", path, "--ranks", "2", "--in-process"], X @ w)

    def test_weights_beside_the_plan_or_graph(self):
        path, w = self.linear()
        weights = self.path("w.safetensors")
        for result in ("m.plan", "m.pbtxt"):
            flags = ["--emit", "pbtxt"] if result == "m.pbtxt" else []
            done = self.opc("compile", path, *flags, "-o", self.path(result), "--weights-out", weights)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("left behind", done.stderr)
            self.assertIn("OPC0004", self.gives([OPC, "run", self.path(result)], X @ w, code=2))
            self.gives([OPC, "run", self.path(result), "--weights", weights], X @ w)
        done = self.opc("compile", path, "-o", self.path("n.plan"), "--weights-out", self.path("w.npz"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--weights-out writes no .npz file", done.stderr)
        self.assertFalse(os.path.exists(self.path("w.npz")) or os.path.exists(self.path("n.plan")))
        for command in (["compile", path, "-o", "-"], ["grad", path, "--loss", "y"]):
            done = self.opc(*command, "--weights-out", "-")
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("--weights-out and -o both want standard output", done.stderr)
        done = self.opc("compile", path, "--emit", "pbtxt", "-o", self.path("g.pbtxt"))
        self.assertIn("those of 1 variable are left behind; --weights-out FILE writes them", done.stderr)
        done = self.opc("compile", self.path("g.pbtxt"), "-o", self.path("g.plan"), "--weights-out", weights)
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_gradients(self):
        w = np.arange(12, dtype=F32).reshape(3, 4)
        body = m.graph([m.node("MatMul", ["x", "w"], ["h"]), m.node("ReduceSum", ["h"], ["loss"], keepdims=0)],
                       [m.value("x", (2, 3))], [m.value("loss")], [m.tensor("w", w)])
        path = self.file("model.onnx", m.model(body))
        done = self.opc("grad", path, "--loss", "loss", "--check")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_gradients_of_a_model_with_open_sizes_are_checked(self):
        nodes = [m.node("Reshape", ["x", "s"], ["h"]), m.node("MatMul", ["h", "w"], ["k"]), m.node("ReduceSum", ["k"], ["loss"], keepdims=0)]
        body = m.graph(nodes, [m.value("x", ("b", 3)), m.value("s", (2,), 7)], [m.value("loss")],
                       [m.tensor("w", np.arange(12, dtype=F32).reshape(3, 4))])
        path = self.file("model.onnx", m.model(body))
        done = self.opc("grad", path, "--dim", "b=2", "--const", "s=@" + self.int64s("s.npy", 2, 3), "--loss", "loss", "--check")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("w", done.stdout)

    def test_gradients_are_checked_at_the_models_own_weights(self):
        # Random weights would give logarithms and roots of negative numbers: a check that draws them cannot pass.
        data = m.model(m.graph([m.node("Log", ["w"], ["l"]), m.node("Mul", ["x", "l"], ["k"]),
                                m.node("BatchNormalization", ["k", "s", "b", "mean", "var"], ["n"]),
                                m.node("ReduceSum", ["n"], ["loss"], keepdims=0)], [m.value("x", (2, 3))], [m.value("loss")],
                               [m.tensor("w", np.array([2, 0.5, 3], F32)), m.tensor("s", np.ones(3, F32)), m.tensor("b", np.zeros(3, F32)),
                                m.tensor("mean", np.zeros(3, F32)), m.tensor("var", np.full(3, 0.25, F32))]))
        path = self.file("model.onnx", data)
        for seed in range(4):
            done = self.opc("grad", path, "--loss", "loss", "--check", "--seed", str(seed))
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertNotIn("nan", done.stdout)
        done = self.opc("grad", path, "--loss", "loss", "--check", "--input", "w=" + self.array("w.npy", np.full(3, -1, F32)))
        self.assertNotEqual(done.returncode, 0, done.stdout)

    def test_small_powers_are_products(self):
        x = np.array([[-2, -1, -0.0, 0], [0.1, 3e-30, 1e30, -np.inf], [np.nan, np.inf, 7, -1e-20]], F32)
        for dtype, element in ((F32, 1), (np.float64, 11), (np.int32, 6)):
            base = np.nan_to_num(x, nan=3, posinf=5, neginf=-6).clip(-50, 50).astype(dtype) if element == 6 else x.astype(dtype)
            for exponent in (1, 2, 3, 2.5, -1):
                if element == 6 and exponent not in (1, 2, 3):
                    continue
                power = np.array(exponent, dtype)
                nodes = [m.node("Constant", [], ["e"], value=power), m.node("Pow", ["x", "e"], ["y"])]
                data = m.model(m.graph(nodes, [m.value("x", (3, 4), element)], [m.value("y", None, element)]))
                got, = self.runs(data, {"x": base})
                with np.errstate(all="ignore"):
                    want = np.power(base, power)
                np.testing.assert_allclose(got, want, rtol={1: 3e-7, 11: 5e-16, 6: 0}[element], atol=0)
                shown = json.loads(self.opc("show", self.path("model.onnx"), "--what", "ops", "--json").stdout)
                types = {o["type"] for o in shown["ops"]}
                self.assertEqual("broadcast_pow" in types, exponent not in (1, 2, 3), types)
        for exponent in (2.0, 3.0, 2.5):  # a whole base, a fraction for exponent: f32 has not all of i32
            base, power = np.array([46339, 1289, 1250, -7] if exponent == 2 else [1289, 1250, 3, 7], np.int32), np.array(exponent, F32)
            nodes = [m.node("Constant", [], ["e"], value=power), m.node("Pow", ["x", "e"], ["y"])]
            got, = self.runs(m.model(m.graph(nodes, [m.value("x", (4,), 6)], [m.value("y", None, 6)])), {"x": base})
            self.assertEqual(got.tolist(), [int(float(b) ** exponent) for b in base.tolist()])
        # An exponent that is a variable stays one.
        body = m.graph([m.node("Pow", ["x", "e"], ["y"])], [m.value("x", (3, 4))], [m.value("y")], [m.tensor("e", np.array(2, F32))])
        got, = self.runs(m.model(body), {"x": X[:, :1] * np.ones((3, 4), F32) if X.shape[0] == 3 else np.ones((3, 4), F32)})
        self.assertEqual(got.shape, (3, 4))
        self.assertIn("broadcast_pow", self.opc("show", self.path("model.onnx"), "--what", "ops").stdout)

    def test_images_of_a_few_channels(self):
        rng = np.random.default_rng(5)
        for shape, perm in (((2, 3, 97, 101), (0, 2, 3, 1)), ((1, 4, 130, 67), (0, 2, 3, 1)), ((3, 2, 9001), (0, 2, 1)), ((2, 50, 3, 40), (0, 1, 3, 2)),
                            ((2, 61, 83, 3), (0, 3, 1, 2)), ((4, 5), (1, 0)), ((5, 1, 3, 7), (2, 3, 0, 1))):
            for dtype, element in ((np.float32, 1), (np.float64, 11), (np.float16, 10), (np.uint8, 2)):
                x = rng.integers(0, 200, shape).astype(dtype)
                nodes = [m.node("Transpose", ["x"], ["y"], perm=list(perm))]
                data = m.model(m.graph(nodes, [m.value("x", shape, element)], [m.value("y", None, element)]))
                for threads in ("1", "2"):
                    got, = self.runs(data, {"x": x}, "-j", threads)
                    np.testing.assert_array_equal(got, x.transpose(perm))

    def int64s(self, name, *values):
        np.save(self.path(name), np.array(values, np.int64))
        return self.path(name)

    def test_nodes_are_named_in_the_run(self):
        nodes = [m.node("Neg", ["x"], ["h"], "/layer1/neg"), m.node("Sqrt", ["h"], ["y"], "/layer1/root")]
        path = self.file("model.onnx", m.model(m.graph(nodes, [m.value("x", (2, 3))], [m.value("y")])))
        value = "x=" + self.array("x.npy", np.abs(X))
        done = self.opc("run", path, "--input", value, "--trap", "nan")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn('model.onnx: node 1 "/layer1/root"', done.stderr)
        self.assertEqual(self.opc("compile", path, "-o", self.path("m.plan")).returncode, 0)
        done = self.opc("run", self.path("m.plan"), "--input", value, "--trap", "nan")
        self.assertIn('at model.onnx: node 1 "/layer1/root"', done.stderr)
        done = self.opc("run", path, "--input", value, "--trace", self.path("t.json"), "--no-fuse")
        with open(self.path("t.json"), encoding="utf-8") as f:
            self.assertIn('model.onnx: node 0 \\"/layer1/neg\\"', f.read())

    def test_places_are_no_texts(self):
        """Folders, files and places in a graph that read as a model's node, which a place is by what it says, and not by how it looks."""
        nodes = [m.node("Neg", ["x"], ["h"], "/layer1/neg"), m.node("Sqrt", ["h"], ["y"], "/layer1: node 7")]
        os.makedirs(self.path("a: node 3"))
        path = self.file("a: node 3/x: node 4.onnx", m.model(m.graph(nodes, [m.value("x", (2, 3))], [m.value("y")])))
        value = "x=" + self.array("x.npy", np.abs(X))
        said = ' at x: node 4.onnx: node 1 "/layer1: node 7"\n'
        for emit, made in (("plan", "m.plan"), ("pbtxt", "a: node 3/m.pbtxt")): # a graph that was made of a model knows its nodes
            self.assertEqual(self.opc("compile", path, "--emit", emit, "--to", "plan" if emit == "plan" else "shape", "-o", self.path(made)).returncode, 0)
        for graph in (path, self.path("m.plan"), self.path("a: node 3/m.pbtxt")):
            done = self.opc("run", graph, "--input", value, "--trap", "nan")
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn(said, done.stderr + "\n")
        with open(self.path("a: node 3/m.pbtxt"), encoding="utf-8") as f:
            text = f.read()
        self.assertIn('place { file: "x: node 4.onnx" node: "node 1 \\"/layer1: node 7\\"" }', text)
        # Of an op that says so in words alone nothing is known but its line.
        plain = re.sub(r" *place \{.*\}\n", "", text)
        self.assertNotEqual(plain, text)
        self.file("a: node 3/m.pbtxt", plain.encode())
        line = [k for k, row in enumerate(plain.split("\n"), 1) if row.startswith("op {")][2]
        done = self.opc("run", self.path("a: node 3/m.pbtxt"), "--input", value, "--trap", "nan")
        self.assertIn(f" at m.pbtxt:{line}:1\n", done.stderr + "\n")

    def test_first_difference(self):
        path, _ = self.linear()
        done = self.opc("debug", "first-diff", path, "--reference", "f64", "--input", "x=" + self.array("x.npy", X))
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_names_of_sizes_are_bound_by_the_given_tensors(self):
        data = m.model(m.graph([m.node("Add", ["x", "z"], ["y"])], [m.value("x", ("n", 3)), m.value("z", ("n", 3))], [m.value("y")]))
        self.assertTrue((self.runs(data, {"x": X, "z": X})[0] == 2 * X).all())
        path = self.file("model.onnx", data)
        self.assertEqual(self.opc("compile", path, "--shape", "x=2,3", "-o", self.path("m.plan")).returncode, 0)
        self.refused_sizes(path)

    def refused_sizes(self, path):
        done = self.opc("show", path, "--what", "ops")
        self.assertNotEqual(done.returncode, 70, done.stderr)

    def test_shapes_that_nodes_compute(self):
        nodes = [m.node("Shape", ["x"], ["s"]), m.node("Gather", ["s", "zero"], ["n"]),
                 m.node("Unsqueeze", ["n", "axis"], ["n1"]), m.node("Concat", ["n1", "minus"], ["to"], axis=0),
                 m.node("Reshape", ["x", "to"], ["y"])]
        constants = [m.tensor("zero", np.array(0, np.int64)), m.tensor("axis", np.array([0], np.int64)),
                     m.tensor("minus", np.array([-1], np.int64))]
        x = np.arange(24, dtype=F32).reshape(2, 3, 4)
        y = self.runs(m.model(m.graph(nodes, [m.value("x", (2, 3, 4))], [m.value("y")], constants)), {"x": x})[0]
        self.assertEqual(y.shape, (2, 12))

    def test_an_input_that_decides_a_shape_is_a_constant_of_the_run(self):
        data = m.model(m.graph([m.node("Reshape", ["x", "s"], ["y"])], [m.value("x", (2, 3)), m.value("s", (1,), 7)], [m.value("y")]))
        y = self.runs(data, {"x": X, "s": np.array([6], np.int64)})[0]
        self.assertEqual(y.shape, (6,))
        said = self.refused(data, "OPC0422", "'s'", "Reshape", "help: make it a constant: --const s=VALUE\n", exit_code=4)
        self.assertNotIn("--input", said)
        self.assertIn("--const s=VALUE, or give it: --input s=VALUE", self.refused(data, "OPC0422", exit_code=4, commands=(("run", "--input=x=1"),)))
        large = m.model(m.graph([m.node("NonZero", ["x"], ["at"]), m.node("Tile", ["at", "once"], ["y"])], [m.value("x", (65,))], [m.value("y", None, 7)],
                                [m.tensor("once", np.array([1, 1], np.int64))]))
        said = self.refused(large, "OPC0422", "--const x=VALUE; opc run takes by itself what has at most 64 elements", exit_code=4,
                            commands=(("run", "--input=x=1"),))
        self.assertNotIn("--input x", said)
        # What is wrong with a value that was given is said, and not that it should be given.
        turn = m.graph([m.node("Identity", ["c"], ["d"]), m.node("Neg", ["a"], ["b"])],
                       [m.value("i", (), 7), m.value("c", (), 9), m.value("a", (2,))], [m.value("d", (), 9), m.value("b", (2,)), m.value("b", (2,))])
        loop = m.model(m.graph([m.node("Loop", ["n", "", "x"], ["z", "y"], body=turn)], [m.value("n", (), 7), m.value("x", (2,))], [m.value("y")]))
        said = self.refused(loop, "OPC0422", "a loop of more than 4294967296 turns", exit_code=4, commands=(("run", "--input=n=1099511627776", "--input=x=1"),))
        self.assertNotIn("--input", said)

    def test_const(self):
        data = m.model(m.graph([m.node("Reshape", ["x", "s"], ["y"])], [m.value("x", (2, 3)), m.value("s", (1,), 7)], [m.value("y")]))
        path = self.file("model.onnx", data)
        done = self.opc("compile", path, "--const", "s=6", "-o", self.path("m.plan"))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.opc("run", self.path("m.plan"), "--input", "x=" + self.array("x.npy", X), "--expect",
                        "y=" + self.array("y.npy", X.reshape(6)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("f32[6]", self.opc("show", path, "--const", "s=6").stdout)
        for flags, code in ((["--const", "q=6"], "OPC0005"), (["--const", "s=f32[3]:1"], "OPC0704"), (["--dim", "n=2"], "OPC0005")):
            done = self.opc("show", path, *flags)
            self.assertIn(f"error[{code}]", done.stderr)
            self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        done = self.opc("show", path, "--const", "s=@missing.npy")
        self.assertEqual((done.returncode, done.stderr.count("missing.npy") > 0), (2, True), done.stderr)
        graph = self.file("g.pbtxt", b"")
        self.assertEqual(self.opc("show", graph, "--dim", "n=2").returncode, 2)

    def test_dim(self):
        data = m.model(m.graph([m.node("Add", ["x", "z"], ["y"])], [m.value("x", ("n", "m")), m.value("z", ("n", "m"))], [m.value("y")]))
        path = self.file("model.onnx", data)
        done = self.opc("show", path)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("'n' (dimension 0 of 'x'), 'm' (dimension 1 of 'x')", done.stderr)
        self.assertIn("bind them: --dim n=N --dim m=N", done.stderr)
        done = self.opc("show", path, "--dim", "n=2", "--dim", "m=3")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("f32[2,3]", done.stdout)
        done = self.opc("show", path, "--dim", "n=2", "--shape", "x=4,3")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("'n' is 2 by --dim and 4 in input 'x'", done.stderr)
        done = self.opc("show", path, "--dim", "k=2")
        self.assertIn("OPC0005", done.stderr)
        self.assertEqual(self.opc("show", path, "--dim", "n=two").returncode, 2)
        done = self.opc("run", path, "--dim", "n=2", "--dim", "m=3", "--fill", "rand", "--reference", "cpu")
        self.assertEqual((done.returncode, "all 6 values as expected" in done.stdout + done.stderr), (0, True), done.stdout + done.stderr)

    def test_reports_and_differences_bind_sizes(self):
        """x [n,3] + c, of which c is an array of integers: a graph file cannot hold it."""
        def put(name, c, size):
            data = m.model(m.graph([m.node("Add", ["x", "c"], ["y"])], [m.value("x", (size, 3), 7)], [m.value("y", None, 7)],
                                   [m.tensor("c", np.array(c, np.int64))]))
            return self.file(name, data)
        a, b = put("a.onnx", [1, 2, 3], "n"), put("b.onnx", [1, 2, 3], "n")
        done = self.opc("compile", a, "--dim", "n=4", "--to", "shape", "--emit", "pbtxt")
        self.assertIn("error[OPC0112]", done.stderr)
        self.assertNotIn("--to shape", done.stderr)
        self.assertIn("--weights-out FILE keeps it as a variable that is not trained", done.stderr)
        done = self.opc("compile", a, "--dim", "n=4", "--to", "shape", "--emit", "pbtxt", "-o", self.path("a.pbtxt"), "--weights-out", self.path("a.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("a.pbtxt"), encoding="utf-8") as f:
            self.assertIn("trainable: false", f.read())
        done = self.opc("run", self.path("a.pbtxt"), "--weights", self.path("a.safetensors"), "--fill", "ones", "--output", "y=" + self.path("a.npy"))
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(np.load(self.path("a.npy")), np.ones((4, 3), np.int64) + [1, 2, 3])
        for command in (["diff", a, b], ["report", a, "-o", self.path("r.html")]):
            done = self.opc(*command)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("--dim NAME=N", done.stderr)
            done = self.opc(*command, "--dim", "n=4")
            self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("r.html"), encoding="utf-8") as f:
            self.assertIn("[4,3]", f.read().replace(", ", ",").replace("×", ","))
        plain = self.file("g.pbtxt", b'op { name: "x" input_conf { out: "out" blob_conf { shape { dim: 2 } data_type: kFloat } } }')
        for command in (["diff", plain, plain], ["report", plain, "-o", "-"]):
            done = self.opc(*command, "--dim", "n=4")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--dim and --const are for ONNX models", done.stderr)

    def test_differences_of_weights(self):
        path, w = self.linear()
        w[1, 2] = 8
        body = m.graph([m.node("MatMul", ["x", "w"], ["y"])], [m.value("x", (2, 3))], [m.value("y")], [m.tensor("w", w)])
        other = self.file("other.onnx", m.model(body))
        done = self.opc("diff", path, other, "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([(f["rule"], f["op"]) for f in json.loads(done.stdout)["findings"]], [("OP_ATTR_CHANGED", "w")])
        self.assertEqual(self.opc("diff", path, path).returncode, 0)
        # A graph file has no weights to compare.
        self.assertEqual(self.opc("compile", path, "--to", "shape", "--emit", "pbtxt", "-o", self.path("g.pbtxt")).returncode, 0)
        done = self.opc("diff", path, self.path("g.pbtxt"))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_constants_are_ops_as_in_the_written_graph(self):
        def put(name, c):
            return self.file(name, m.model(m.graph([m.node("Constant", [], ["half"], value=np.array(0.5, F32)), m.node("Mul", ["x", "half"], ["h"]),
                                                    m.node("Cast", ["c"], ["f"], to=1), m.node("Add", ["h", "f"], ["y"])],
                                                   [m.value("x", (2, 3))], [m.value("y")], [m.tensor("c", np.array(c, np.int64))])))

        def ops(graph):
            done = self.opc("show", graph, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return {(o["name"], o["type"], json.dumps(o["attrs"], sort_keys=True), *[t["tensor"] for t in o["outputs"]]) for o in json.loads(done.stdout)["ops"]}

        def differences(a, b, *flags):
            done = self.opc("diff", a, b, "--json", *flags)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            return [(f["rule"], f["op"]) for f in json.loads(done.stdout)["findings"]]

        # What an op makes of constants alone is one, too: here only the half and the cast fives.
        same, other = put("same.onnx", [5, 5, 5]), put("other.onnx", [6, 6, 6])
        self.assertEqual(self.opc("compile", same, "--emit", "pbtxt", "-o", "g.pbtxt").returncode, 0)
        shown = ops(same)
        self.assertEqual(shown, ops("g.pbtxt"))
        constants = sorted(json.loads(attrs)["floating_value"]["value"] for _, type_, attrs, *_ in shown if type_ == "constant")
        self.assertEqual(constants, [0.5, 5])
        for a, b in ((same, "g.pbtxt"), ("g.pbtxt", same)):
            done = self.opc("diff", a, b)
            self.assertEqual((done.returncode, done.stdout), (0, "no difference\n"), done.stderr)
        self.assertEqual([rule for rule, _ in differences("g.pbtxt", other)], ["OP_ATTR_CHANGED"])
        # A file has those of several values as variables, and not what they hold.
        several, others = put("several.onnx", [1, 2, 3]), put("others.onnx", [1, 2, 4])
        self.assertEqual(self.opc("compile", several, "--emit", "pbtxt", "-o", "s.pbtxt", "--weights-out", "s.safetensors").returncode, 0)
        for a, b in ((several, "s.pbtxt"), ("s.pbtxt", several)):
            self.assertEqual(differences(a, b, "--ignore", "cost"), [])
        (found,) = differences(several, others)
        self.assertEqual(found[0], "OP_ATTR_CHANGED")
        self.assertEqual(len(ops(several)), len(shown))
        self.assertEqual(len(ops("s.pbtxt")), len(shown) - 1)
        # A lock has no constants of models.
        self.assertEqual(self.opc("check", same, "--update", "--update-in-ci").returncode, 0)
        self.assertEqual(differences("same.opc.lock", same), [])

    def test_sequences_are_an_input_or_output_for_each_element(self):
        tensor_type = m.field(1, m.field(1, 1))
        seq = m.field(1, "s") + m.field(2, m.field(4, m.field(1, tensor_type)))
        out = m.field(1, "t") + m.field(2, m.field(4, m.field(1, tensor_type)))
        data = m.model(m.graph([m.node("SequenceInsert", ["s", "x"], ["t"])], [seq, m.value("x", (2, 3))], [out]))
        a, b = np.arange(4, dtype=F32), np.ones((1, 2), F32)
        got = self.runs(data, {"s.0": a, "s.1": b, "x": X}, outputs=("t.0", "t.1", "t.2"))
        for have, want in zip(got, (a, b, X)):
            np.testing.assert_array_equal(have, want)

    def test_sequences_without_elements_or_types(self):
        """What is wrong with a sequence is one sentence, and how elements are given is said."""
        floats, untyped, strings = m.field(1, m.field(1, 1)), m.field(1, b""), m.field(1, m.field(1, 8))
        help = "--shape NAME.0=DIMS, NAME.1=DIMS"
        at, join = m.node("SequenceAt", ["s", "k"], ["y"]), m.node("ConcatFromSequence", ["s"], ["y"], axis=0)
        for node, element, shapes, code, words in (
                (at, untyped, (), 3, ("error[OPC0321]: input 's' is a sequence of tensors without an element type\n",)),
                (at, strings, (), 4, ("error[OPC0422]: input 's' is a sequence of tensors of ONNX's element type 8 (strings), which opc does not have\n",)),
                (at, b"", (), 4, ("error[OPC0422]: input 's' is a sequence of what is no tensor, and opc has those of tensors alone\n",)),
                (at, floats, (), 3, ("input 1 ('k') is place 1 of a sequence that has 0 elements\n", help)),
                (at, floats, ("s.0=2,3",), 3, ("input 1 ('k') is place 1 of a sequence that has 1 element\n",)),
                (join, floats, (), 3, ("input 0 ('s') is an empty sequence\n", help))):
            declared = m.field(1, "s") + m.field(2, m.field(4, m.field(1, element)))
            path = self.file("model.onnx", m.model(m.graph([node], [declared], [m.value("y")], [m.tensor("k", np.array(1))])))
            done = self.opc("show", path, *[word for s in shapes for word in ("--shape", s)])
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stderr.count("error["), 1, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
        shown = self.opc("show", path, "--shape", "s.0=2,3", "--shape", "s.1=4,3", "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual([(t["name"], t["shape"]) for t in json.loads(shown.stdout)["inputs"]], [("s.0", [2, 3]), ("s.1", [4, 3])])

    def test_unsorted_and_nameless_nodes(self):
        nodes = [m.node("Neg", ["b"], ["y"]), m.node("Neg", ["a"], ["b"]), m.node("Relu", ["x"], ["a"])]
        y = self.runs(m.model(m.graph(nodes, [m.value("x", (2, 3))], [m.value("y")])), {"x": X})[0]
        self.assertTrue((y == np.maximum(X, 0)).all())

    def test_awkward_names(self):
        data = m.model(m.graph([m.node("Relu", ["onnx::x/0:1"], ["a b{}"], "x y = \"z\"")], [m.value("onnx::x/0:1", (2, 3))], [m.value("a b{}")]))
        y = self.runs(data, {"onnx::x/0:1": X}, outputs=("a b{}",))[0]
        self.assertTrue((y == np.maximum(X, 0)).all())

    def test_names_with_an_equals_sign(self):
        path = self.file("model.onnx", m.model(m.graph([m.node("Relu", ["a=b"], ["c=d"])], [m.value("a=b", X.shape)], [m.value("c=d")])))
        np.savez(self.path("in.npz"), **{"a=b": X})
        done = self.opc("run", path, "--inputs", self.path("in.npz"), "--outputs", self.path("out.npz"))
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(np.load(self.path("out.npz"))["c=d"], np.maximum(X, 0))

    def test_values_that_are_called_as_tensors_of_opc(self):
        """Nodes that become several ops, whose own tensors must not meet the model's names."""
        own = ["x/out", "a/z_0", "a/y_0", "b/output_tensor_0", "constant/out"]
        nodes = [m.node("Sum", ["x", "x", "x"], [own[0]], "a"), m.node("ReduceL2", [own[0]], [own[1]], "b", axes=[1]),
                 m.node("Abs", [own[1]], [own[2]], "c"), m.node("Mean", [own[2], own[1]], [own[3]], "a"),
                 m.node("Add", [own[3], "k"], [own[4]], "d"), m.node("Neg", [own[4]], ["y"], "e")]
        k = np.array([1], F32)
        data = m.model(m.graph(nodes, [m.value("x", (2, 3))], [m.value("y")], [m.tensor("k", k)]), opset=13)
        norm = np.sqrt(((3 * X) ** 2).sum(1, keepdims=True))
        np.testing.assert_allclose(self.runs(data, {"x": X})[0], -(norm + 1), rtol=1e-6)

    def test_an_input_that_is_an_output(self):
        data = m.model(m.graph([m.node("Relu", ["x"], ["y"])], [m.value("x", (2, 3))], [m.value("y"), m.value("x")]))
        self.assertTrue((self.runs(data, {"x": X})[0] == np.maximum(X, 0)).all())

    def test_inputs_and_outputs_stand_as_the_model_declares_them(self):
        ops = {"o0": np.abs, "o1": np.tanh, "o2": np.exp, "o3": np.negative}
        nodes = [m.node("Neg", ["h"], ["o0"]), m.node("Tanh", ["x"], ["o1"]), m.node("Exp", ["x"], ["o2"]), m.node("Neg", ["x"], ["o3"]),
                 m.node("Neg", ["g"], ["h"]), m.node("Abs", ["x"], ["g"]), m.node("Add", ["b", "x"], ["o4"])]
        names = ["unused", "b", "x"]
        for order in (["o0", "o1", "o2", "o3", "o4"], ["o3", "o4", "o1", "o0", "o2"]):
            data = m.model(m.graph(nodes, [m.value(n, (2, 3)) for n in names], [m.value(o) for o in order]))
            path = self.file("model.onnx", data)
            self.assertEqual(self.opc("compile", path, "-o", self.path("m.plan")).returncode, 0)
            for graph in (path, self.path("m.plan")):
                shown = json.loads(self.opc("show", graph, "--json").stdout)
                self.assertEqual([t["name"] for t in shown["inputs"]], names)
                self.assertEqual([t["name"] for t in shown["outputs"]], order)
                given = [f"--input={n}=" + self.array(n + ".npy", X) for n in names]
                done = self.opc("run", graph, *given, "--outputs", self.path("o"), "--outputs-as", "pb")
                self.assertEqual(done.returncode, 0, done.stderr)
                for k, name in enumerate(order):
                    with open(self.path(f"o/output_{k}.pb"), "rb") as f:
                        message = dict(m.fields(f.read()))
                    self.assertEqual(message[8].decode(), name)
                    want = ops[name](X) if name in ops else X + X
                    np.testing.assert_allclose(np.frombuffer(message[9], F32).reshape(2, 3), want, rtol=1e-5)
            names.reverse()

    def test_functions_of_the_model(self):
        function = (m.field(1, "Twice") + m.field(4, "a") + m.field(5, "b") + m.field(7, m.node("Add", ["a", "a"], ["b"])) +
                    m.field(10, "local"))
        body = m.graph([m.node("Twice", ["x"], ["h"], domain="local"), m.node("Twice", ["h"], ["y"], domain="local")],
                       [m.value("x", (2, 3))], [m.value("y")])
        self.assertTrue((self.runs(m.model(body, functions=[function], domains=["local"]), {"x": X})[0] == 4 * X).all())

    def test_a_branch_that_is_known(self):
        yes = m.graph([m.node("Neg", ["x"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("Relu", ["x"], ["t"])], [], [m.value("t")])
        nodes = [m.node("If", ["c"], ["y"], then_branch=yes, else_branch=no)]
        for c in (True, False):
            data = m.model(m.graph(nodes, [m.value("x", (2, 3))], [m.value("y")], [m.tensor("c", np.array(c))]))
            self.assertTrue((self.runs(data, {"x": X})[0] == (-X if c else np.maximum(X, 0))).all())
        data = m.model(m.graph(nodes, [m.value("x", (2, 3)), m.value("c", (), 9)], [m.value("y")]))
        self.assertTrue((self.runs(data, {"x": X, "c": np.array(True)})[0] == -X).all())

    def test_branches_that_fit_some_sizes(self):
        """A branch that does not fit what the inputs are can only be the other one: its condition must be known."""
        yes, no = (m.graph([m.node("MatMul", ["x", w], ["t"])], [], [m.value("t")]) for w in ("a", "b"))
        weights = [m.tensor("a", np.ones((3, 2), F32)), m.tensor("b", np.ones((4, 2), F32))]
        nodes = [m.node("If", ["c"], ["y"], then_branch=yes, else_branch=no)]
        data = m.model(m.graph(nodes, [m.value("x", (2, 3)), m.value("c", (), 9)], [m.value("y")], weights))
        self.assertTrue((self.runs(data, {"x": X, "c": np.array(True)})[0] == X @ np.ones((3, 2), F32)).all())
        self.refused(data, "OPC0422", "as its else_branch does not fit here (MatMul:", "it depends on the input 'c'", "--const c=VALUE", exit_code=4)
        neither = m.model(m.graph(nodes, [m.value("x", (2, 5)), m.value("c", (), 9)], [m.value("y")], weights))
        self.refused(neither, "OPC0322", "neither of its branches fits: then_branch: MatMul:", "; else_branch: MatMul:")

    def test_external_data(self):
        w = np.arange(6, dtype=F32).reshape(2, 3)
        self.file("weights.bin", b"12345678" + w.tobytes())
        data = weighted(m.external("w", (2, 3), location="weights.bin", offset=8, length=24))
        self.assertTrue((self.runs(data, {"x": X})[0] == X + w).all())

    def test_bools_of_other_bytes(self):
        """What is not 0 is true, wherever the elements lie."""
        self.file("flags.bin", bytes([0, 2, 255]))
        head = m.field(1, 3) + m.field(2, 9) + m.field(8, "flags")
        pair = m.field(13, m.field(1, "location") + m.field(2, "flags.bin")) + m.field(14, 1)
        nodes = [m.node("Cast", ["flags"], ["factors"], to=1), m.node("Mul", ["x", "factors"], ["y"])]
        for flags in (head + m.field(9, bytes([0, 2, 255])), head + m.field(5, bytes([0, 2, 3])), head + pair):
            data = m.model(m.graph(nodes, [m.value("x", (2, 3))], [m.value("y")], [flags]))
            self.assertTrue((self.runs(data, {"x": X})[0] == X * np.array([0, 1, 1], F32)).all())

    def test_all_ops_that_are_unknown_in_one_report(self):
        nodes = [m.node("Fancy", ["x"], ["a"]), m.node("Fancy", ["a"], ["b"], "second"), m.node("Other", ["x"], ["y"], domain="com.example")]
        data = m.model(m.graph(nodes, [m.value("x", (2, 3))], [m.value("y")]))
        self.refused(data, "OPC0421", "Fancy (version 17)", "com.example.Other", "model.onnx: node 0", exit_code=4)
        data = m.model(m.graph([m.node("ReorderInput", ["x"], ["y"], domain="com.microsoft.nchwc")], [m.value("x", (1, 8, 3, 3))], [m.value("y")]), domains=["com.microsoft.nchwc"])
        self.refused(data, "OPC0421", "com.microsoft.nchwc.ReorderInput", "save the model at level extended", exit_code=4)

    def test_unknown_ops_that_are_reached(self):
        """Of branches the one that is taken; of what reads a lost value nothing; in functions and behind a node whose graph reads a lost value, too."""
        def branches(yes, taken=True, more=(), **rest):
            then, other = m.graph([m.node(yes, ["x"], ["r"])], [], [m.value("r")]), m.graph([m.node("Neg", ["x"], ["r"])], [], [m.value("r")])
            return m.model(m.graph([*more, m.node("If", ["c"], ["y"], then_branch=then, else_branch=other)], [m.value("x", (2, 3))], [m.value("y")], [m.tensor("c", np.array(taken))]), **rest)
        self.assertTrue((self.runs(branches("Fancy", False), {"x": X})[0] == -X).all())
        self.refused(branches("Fancy"), "OPC0421", "has 1 op that", "Fancy (version 17): 1 node, ", "node 0", exit_code=4)
        self.refused(branches("Fancy", more=[m.node("Other", ["x"], ["o"])]), "OPC0421", "has 2 ops that", "Fancy (version 17): 1 node, ", "Other (version 17): 1 node, ", exit_code=4)
        self.assertNotIn("Fancy", self.refused(branches("Fancy", False, [m.node("Other", ["x"], ["o"])]), "OPC0421", "has 1 op that", "Other (version 17): 1 node, ", exit_code=4))
        function = m.field(1, "F") + m.field(4, "a") + m.field(5, "b") + m.field(7, m.node("Fancy", ["a"], ["b"])) + m.field(9, m.field(2, 12)) + m.field(10, "l")
        self.refused(branches("Relu", more=[m.node("F", ["x"], ["o"], domain="l"), m.node("F", ["x"], ["p"], domain="l")], functions=[function], domains=["l"]), "OPC0421",
                     "has 1 op that", "Fancy (version 12): 2 nodes, first ", "node 0", exit_code=4)
        lost = m.graph([m.node("Relu", ["o"], ["r"])], [], [m.value("r")])
        nodes = [m.node("Other", ["x"], ["o"]), m.node("If", ["c"], ["z"], then_branch=lost, else_branch=lost), m.node("Fancy", ["z"], ["y"])]
        said = self.refused(m.model(m.graph(nodes, [m.value("x", (2, 3))], [m.value("y")], [m.tensor("c", np.array(True))])), "OPC0421", "has 1 op that", "Other", exit_code=4)
        self.assertNotIn("Fancy", said)
        twice = m.node("Fancy", ["x"], ["y"]) + m.field(5, m.attribute("a", 1)) * 2
        self.refused(m.model(m.graph([twice], [m.value("x", (2, 3))], [m.value("y")])), "OPC0322", "attribute 'a' is given twice")


def weighted(initializer):
    return m.model(m.graph([m.node("Add", ["x", "w"], ["y"])], [m.value("x", (2, 3))], [m.value("y")], [initializer]))


class BadModels(Case):
    def test_external_data_that_lies_elsewhere(self):
        outside = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, outside)
        with open(os.path.join(outside, "secret"), "wb") as f:
            f.write(bytes(24))
        self.file("real", bytes(24))
        os.symlink(os.path.join(outside, "secret"), self.path("link"))
        os.symlink(outside, self.path("folder"))
        os.link(self.path("real"), self.path("second"))
        os.mkfifo(self.path("pipe"))
        self.file("short", bytes(20))
        entries = [dict(location="../secret"), dict(location=os.path.join(outside, "secret")), dict(location="link"),
                   dict(location="folder/secret"), dict(location="second"), dict(location="pipe"), dict(location="none"),
                   dict(location="short"), dict(location="short", offset=1 << 60), dict(location=""), dict(location="."),
                   dict(location="short", length=8), dict(location="short", offset="-4"), dict(location="/dev/zero")]
        for e in entries:
            with self.subTest(**e):
                self.refused(weighted(m.external("w", (2, 3), **e)), "OPC0323", "'", commands=("show", "run"))

    def test_values(self):
        x, y = [m.value("x", (2, 3))], [m.value("y")]
        node = m.node
        self.refused(m.model(m.graph([node("Relu", ["nothing"], ["y"], "act")], x, y)), "OPC0321", "'nothing'", 'node 0 "act"')
        self.refused(m.model(m.graph([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], x, y)), "OPC0321", "two values", "'y'")
        self.refused(m.model(m.graph([node("Relu", ["b"], ["a"], "one"), node("Neg", ["a"], ["b"], "two")], x, [m.value("a")])),
                     "OPC0321", "cycle", "one", "two")
        self.refused(m.model(m.graph([node("Relu", ["x"], ["z"])], x, y)), "OPC0321", "output 'y'")
        self.refused(m.model(m.graph([node("Relu", ["x"], ["y"])], x, [])), "OPC0321", "no outputs")
        self.refused(m.field(1, 8) + m.field(7, b"\xff"), "OPC0321")

    def test_nodes(self):
        x, y = [m.value("x", (2, 3))], [m.value("y")]
        for data, text in [(m.node("Concat", ["x", "x"], ["y"]), "'axis' is missing"),
                           (m.node("Concat", ["x", "x"], ["y"], axis=1.5), "'axis' is a float"),
                           (m.node("Concat", ["x", "x"], ["y"], axis=2), "axis 2"),
                           (m.node("Transpose", ["x"], ["y"], perm=[0]), "'perm'"),
                           (m.node("Add", ["x"], ["y"]), "input 1"),
                           (m.node("Softmax", ["x"], ["y"], axis=7), "axis 7"),
                           (m.node("Cast", ["x"], ["y"]), "'to' is missing")]:
            with self.subTest(text=text):
                self.refused(m.model(m.graph([data], x, y)), "OPC0322", text, "node 0")

    def test_tensors(self):
        short = m.field(1, 2) + m.field(1, 3) + m.field(2, 1) + m.field(8, "w") + m.field(9, bytes(20))
        self.refused(weighted(short), "OPC0322", "'w'", "20 bytes")
        huge = b"".join(m.field(1, 1 << 40) for _ in range(3)) + m.field(2, 1) + m.field(8, "w") + m.field(9, bytes(4))
        self.refused(weighted(huge), "OPC0322", "'w'")
        self.refused(weighted(m.field(1, 1 << 36) + m.field(2, 1) + m.field(8, "w")), "OPC0322", "'w'")
        self.refused(weighted(m.field(1, -1) + m.field(2, 1) + m.field(8, "w")), "OPC0322", "'w'")
        self.refused(weighted(m.field(1, 1) + m.field(2, 8) + m.field(8, "w") + m.field(6, "text")), "OPC0422", "strings", exit_code=4)
        self.refused(weighted(m.field(1, 1) + m.field(2, 99) + m.field(8, "w")), "OPC0422", "99", exit_code=4)

    def test_truncated(self):
        w = m.tensor("w", np.arange(6, dtype=F32).reshape(2, 3))
        data = weighted(w)
        for cut in range(1, len(data) - 1, 3):
            path = self.file("model.onnx", data[:cut])
            done = self.opc("show", path)
            self.assertIn(done.returncode, (0, 3, 4), f"{cut}: {done.stderr}")
            self.assertLessEqual(done.stderr.count("error["), 2, done.stderr)

    def test_deep_graphs_and_functions_that_call_themselves(self):
        body = m.graph([m.node("Relu", ["x"], ["t"])], [], [m.value("t")])
        for _ in range(2000):
            body = m.graph([m.node("If", ["c"], ["t"], then_branch=body, else_branch=b"")], [], [m.value("t")])
        self.refused(m.model(m.graph([m.node("If", ["c"], ["y"], then_branch=body, else_branch=b"")],
                                     [m.value("x", (2,))], [m.value("y")], [m.tensor("c", np.array(True))])), "OPC0321")
        function = m.field(1, "F") + m.field(4, "a") + m.field(5, "b") + m.field(7, m.node("F", ["a"], ["b"], domain="l")) + m.field(10, "l")
        self.refused(m.model(m.graph([m.node("F", ["x"], ["y"], domain="l")], [m.value("x", (2,))], [m.value("y")]),
                             functions=[function], domains=["l"]), "OPC0322", "calls itself")

    def test_small_files_that_would_be_large_graphs(self):
        """Functions that call the next one twice, a sequence of a million pieces, and constants that double."""
        calls = [m.field(1, f"F{k}") + m.field(4, "a") + m.field(5, "b") + m.field(10, "l") + b"".join(
            m.field(7, m.node(f"F{k + 1}" if k < 30 else "Neg", [a], [b], domain="l" if k < 30 else "")) for a, b in (("a", "h"), ("h", "b"))) for k in range(31)]
        self.refused(m.model(m.graph([m.node("F0", ["x"], ["y"], domain="l")], [m.value("x", (2,))], [m.value("y")]), functions=calls, domains=["l"]),
                     "OPC0422", "more than 1,000,000 ops", exit_code=4)
        split = [m.node("SplitToSequence", ["x"], ["s"], axis=0), m.node("ConcatFromSequence", ["s"], ["y"], axis=0)]
        self.refused(m.model(m.graph(split, [m.value("x", (2000000,))], [m.value("y")])), "OPC0422", "more than 1,000,000 ops", exit_code=4)
        double = [m.node("Concat", [f"c{k}", f"c{k}"], [f"c{k + 1}"], axis=0) for k in range(33)]
        path = self.file("model.onnx", m.model(m.graph(double, [], [m.value("c33", element=7)], [m.tensor("c0", np.zeros(1, np.int64))])))
        limit = "" if os.environ.get("OPC_SANITIZE") else "ulimit -v 6000000; "  # a sanitizer's process has terabytes of addresses
        done = subprocess.run(["sh", "-c", limit + 'exec "$@"', "sh", OPC, "show", path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)  # 64 GiB are a shape; no file of 2 KB makes them a value
        self.assertIn("i64[8589934592]", done.stdout)

    def test_names(self):
        for name in ("a\0b", "a\nb", "n" * 1000):
            data = m.model(m.graph([m.node("Relu", ["x"], ["y"], name)], [m.value("x", (2, 3))], [m.value("y")]))
            self.assertTrue((self.runs(data, {"x": X})[0] == np.maximum(X, 0)).all())
        self.refused(m.model(m.graph([m.node("Relu", ["x" * (1 << 20)], ["y"])], [m.value("x" * (1 << 20), (2,))], [m.value("y")])),
                     "OPC0321", "1048576 bytes")

    def test_newer_operator_sets(self):
        data = m.model(m.graph([m.node("Relu", ["x"], ["y"])], [m.value("x", (2, 3))], [m.value("y")]), opset=99)
        self.refused(data, "OPC0422", "operator set 99", "the newest that opc knows is 28", exit_code=4)

    def test_attributes_that_an_op_does_not_have(self):
        data = m.model(m.graph([m.node("Softmax", ["x"], ["y"], "s", axes=1)], [m.value("x", (2, 3))], [m.value("y")]))
        self.refused(data, "OPC0322", "no attribute 'axes'", "did you mean 'axis'", 'node 0 "s"')
        data = m.model(m.graph([m.node("Relu", ["x"], ["y"], wrong=1)], [m.value("x", (2, 3))], [m.value("y")]))
        self.refused(data, "OPC0322", "no attribute 'wrong'")

    def test_declared_types_that_contradict(self):
        node = m.node("Relu", ["x"], ["y"], "act")
        data = m.model(m.graph([node], [m.value("x", (2, 3))], [m.value("y", (2, 3), 7)]))
        self.refused(data, "OPC0322", "'y' is f32[2,3]", "i64", 'node 0 "act"')
        inner = m.graph([m.node("Neg", ["x"], ["h"], "neg"), m.node("Relu", ["h"], ["y"])], [m.value("x", (2, 3))], [m.value("y")])
        self.refused(m.model(inner + m.field(13, m.value("h", (2, 3), 11))), "OPC0322", "'h' is f32[2,3]", "f64", "neg")
        # Shapes are those of the export: one warning, and the run goes on.
        path = self.file("model.onnx", m.model(m.graph([node], [m.value("x", (2, 3))], [m.value("y", (5, 3))])))
        done = self.opc("show", path)
        self.assertEqual((done.returncode, done.stderr.count("warning[OPC0315]")), (0, 1), done.stderr)
        self.assertIn("[5,3]", done.stderr)
        done = self.opc("run", path, "--fill", "ones")
        self.assertEqual((done.returncode, done.stderr.count("warning[OPC0315]")), (0, 1), done.stderr)

    def test_maps(self):
        """ZipMap's results, and what feeds DictVectorizer: opc has tensors."""
        map_ = m.field(5, m.field(1, 7) + m.field(2, m.field(1, m.field(1, 1))))
        sequence = m.field(4, m.field(1, map_))
        plain = m.value("x", (2, 3)), m.value("y")
        for type_ in (map_, sequence, m.field(9, m.field(1, map_)), m.field(9, m.field(1, sequence))):
            output = m.graph([m.node("Relu", ["x"], ["y"])], plain[:1], [m.field(1, "y") + m.field(2, type_)])
            self.refused(m.model(output), "OPC0422", "output 'y' is a map or made of maps, and opc has tensors", exit_code=4, commands=("show", "run"))
            into = m.graph([m.node("Relu", ["x"], ["y"])], [m.field(1, "x") + m.field(2, type_)], plain[1:])
            self.refused(m.model(into), "OPC0422", "input 'x' is a map or made of maps, and opc has tensors", exit_code=4, commands=("show", "run"))

    def test_sizes(self):
        data = m.model(m.graph([m.node("Add", ["x", "z"], ["y"])], [m.value("x", ("n", 3)), m.value("z", ("n", 3))], [m.value("y")]))
        path = self.file("model.onnx", data)
        done = self.opc("compile", path, "--shape", "x=2,3", "--shape", "z=4,3", "-o", self.path("m.plan"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("OPC0324", done.stderr)
        # A range is for the inputs whose sizes have its name; what is wrong else names a node and no line of a program.
        plan = self.path("m.plan")
        done = self.opc("compile", path, "--shape", "x=n:1..4,3", "--shape", "z=n,3", "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.opc("compile", path, "--shape", "x=1..4,3", "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        apart = self.file("apart.onnx", m.model(m.graph([m.node("Add", ["x", "z"], ["y"])], [m.value("x", ("n", 3)), m.value("z", ("k", 3))], [m.value("y")])))
        done = self.opc("compile", apart, "--shape", "x=1..4,3", "--shape", "z=4,3", "-o", plan)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("node 0", done.stderr)
        self.assertNotIn("python", done.stderr)

    def test_images_keep_a_layout(self):
        """What stands between convolutions works in their layout: the numbers are those of numpy."""
        rng = np.random.default_rng(5)
        x = rng.standard_normal((2, 3, 5, 6)).astype(F32)
        w, v, u = (rng.standard_normal(s).astype(F32) for s in ((4, 3, 1, 1), (8, 8, 1, 1), (8, 8, 1, 1)))
        gamma, beta, mean = (rng.standard_normal(8).astype(F32) for _ in range(3))
        variance = rng.uniform(0.5, 2, 8).astype(F32)
        nodes = [m.node("Conv", ["x", "w"], ["a"]), m.node("Sigmoid", ["a"], ["g"]), m.node("Concat", ["a", "g"], ["c"], axis=1),
                 m.node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"], epsilon=0.01), m.node("Relu", ["n"], ["r"]),
                 m.node("Conv", ["r", "v"], ["d"]), m.node("GlobalAveragePool", ["d"], ["p"]), m.node("Conv", ["p", "u"], ["q"]),
                 m.node("HardSigmoid", ["q"], ["s"]), m.node("Mul", ["s", "d"], ["e"]), m.node("Conv", ["e", "v"], ["y"])]
        tensors = {"w": w, "v": v, "u": u, "gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
        data = m.model(m.graph(nodes, [m.value("x", x.shape)], [m.value("y"), m.value("n"), m.value("p")],
                               [m.tensor(k, t) for k, t in tensors.items()]))

        def conv(image, weight):
            return np.einsum("nchw,oc->nohw", image, weight[:, :, 0, 0].astype(np.float64))

        def wide(t):
            return t.astype(np.float64)[:, None, None]

        a = conv(x, w)
        c = np.concatenate([a, 1 / (1 + np.exp(-a))], 1)
        n = (c - wide(mean)) / np.sqrt(wide(variance) + 0.01) * wide(gamma) + wide(beta)
        d = conv(np.maximum(n, 0), v)
        p = d.mean((2, 3), keepdims=True)
        y = conv(d * np.clip(0.2 * conv(p, u) + 0.5, 0, 1), v)
        for flags in ((), ("--no-fuse",)):
            for got, expected in zip(self.runs(data, {"x": x}, *flags, outputs=("y", "n", "p")), (y, n, p)):
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-5)


if __name__ == "__main__":
    unittest.main()
