"""ONNX models in Python: numbers and gradients beside those of PyTorch and numpy, training that begins with a model's weights."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import unittest

import numpy as np

import opc

from scratch import ScratchTest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
import messages as m  # noqa: E402

F32 = np.float32
X = np.array([[1, -2, 3], [-4, 5, -6]], F32)


class Models(ScratchTest):
    def model(self, *args, **more):
        with open(self.path("m.onnx"), "wb") as f:
            f.write(m.model(m.graph(*args, **more)))
        return self.path("m.onnx")

    def layer(self):
        """y = relu(x @ w) + a table of integers that is folded to several fractions, which no graph file holds."""
        self.w = np.random.default_rng(3).standard_normal((3, 4)).astype(F32)
        self.table = np.arange(8, dtype=F32).reshape(2, 4)
        nodes = [m.node("Cast", ["t"], ["f"], to=1), m.node("MatMul", ["x", "w"], ["a"]), m.node("Relu", ["a"], ["b"]), m.node("Add", ["b", "f"], ["y"])]
        return self.model(nodes, [m.value("x", (2, 3))], [m.value("y")], [m.tensor("w", self.w), m.tensor("t", self.table.astype(np.int64))])

    def test_as_much_as_a_run_finds(self):
        """One session, outputs of other sizes in each run; arrays of a run stay what they were."""
        nodes = [m.node("NonZero", ["x"], ["at"]), m.node("Transpose", ["at"], ["rows"], perm=[1, 0]), m.node("GatherND", ["x", "rows"], ["v"])]
        session = opc.load(self.model(nodes, [m.value("x", (2, 3))], [m.value("at", None, 7), m.value("v")])).compile().session()
        kept = []
        for x in (X * (X > 0), X * 0, X):
            made = session.run(x=x)
            kept.append((x, made["at"], made["v"]))
            self.assertEqual(made["at.count"], np.count_nonzero(x))
        for x, at, v in kept:
            np.testing.assert_array_equal(at, np.array(np.nonzero(x)))
            np.testing.assert_array_equal(v, x[x != 0])

    def test_the_weights_come_with_the_model(self):
        g = opc.load(self.layer())
        want = np.maximum(X @ self.w, 0) + self.table
        program = g.compile()
        np.testing.assert_allclose(program.run(x=X)["y"], want, rtol=1e-6)
        np.testing.assert_array_equal(program.variables["w"], self.w)
        # A plan holds them; another session has its own.
        program.save(self.path("m.plan"))
        np.testing.assert_allclose(opc.load(self.path("m.plan")).run(x=X)["y"], want, rtol=1e-6)
        self.command("run", "m.plan", "--input", "x=f32[2,3]:1,-2,3,-4,5,-6", "--outputs", "out")
        np.testing.assert_allclose(np.load(self.path("out/y.npy")), want, rtol=1e-6)

    def test_loading_leaves_the_weights_in_the_file(self):
        """64 MiB of weights, of which loading takes next to nothing; what it takes is the process's peak of memory."""
        w = np.random.default_rng(3).standard_normal((4096, 4096)).astype(F32)
        path = self.model([m.node("MatMul", ["x", "w"], ["y"])], [m.value("x", (1, 4096))], [m.value("y")], [m.tensor("w", w)])
        code = ("import sys, numpy, opc\n"
                "def peak(): return next(int(x.split()[1]) for x in open('/proc/self/status') if x.startswith('VmHWM:'))\n"
                "before = peak(); g = opc.load(sys.argv[1]); print(peak() - before)\n"
                "numpy.save(sys.argv[2], g.compile().run(x=numpy.ones((1, 4096), numpy.float32))['y'])")  # fmt: skip
        found = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        done = subprocess.run([sys.executable, "-c", code, path, self.path("y.npy")], capture_output=True, text=True, check=True, timeout=120, env=found)
        np.testing.assert_allclose(np.load(self.path("y.npy")), w.astype(np.float64).sum(0, keepdims=True), atol=1e-3)
        self.assertLess(int(done.stdout) * 1024, 0.2 * w.nbytes, "the whole file was read")

    def test_weights_are_in_memory_once(self):
        """Compiling copies none of 64 MiB, a session has them once, and the plan that is saved has them all."""
        w = np.random.default_rng(3).standard_normal((4096, 4096)).astype(F32)
        path = self.model([m.node("MatMul", ["x", "w"], ["y"])], [m.value("x", (1, 4096))], [m.value("y")], [m.tensor("w", w)])
        code = ("import sys, numpy, opc\n"
                "def peak(): return next(int(x.split()[1]) for x in open('/proc/self/status') if x.startswith('VmHWM:'))\n"
                "before = peak(); p = opc.load(sys.argv[1]).compile(); print(peak() - before)\n"
                "s = p.session(); print(peak() - before)\n"
                "numpy.save(sys.argv[2], s.variables['w']); numpy.save(sys.argv[3], s.run(x=numpy.ones((1, 4096), numpy.float32))['y'])\n"
                "p.save(sys.argv[4]); print(repr(p))")  # fmt: skip
        found = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        files = [self.path(name) for name in ("w.npy", "y.npy", "m.plan")]
        done = subprocess.run([sys.executable, "-c", code, path, *files], capture_output=True, text=True, check=True, timeout=120, env=found)
        compiled, loaded, shown = done.stdout.splitlines()
        self.assertLess(int(compiled) * 1024, 0.3 * w.nbytes, "compiling")
        self.assertLess(int(loaded) * 1024, 1.4 * w.nbytes, "a session")
        self.assertIn(f" bytes and {w.nbytes:,} of weights>", shown)
        want = w.astype(np.float64).sum(0, keepdims=True)
        np.testing.assert_array_equal(np.load(files[0]), w)
        np.testing.assert_allclose(np.load(files[1]), want, atol=1e-3)
        saved = opc.load(files[2])
        self.assertGreater(len(saved.plan), w.nbytes)
        np.testing.assert_allclose(saved.run(x=np.ones((1, 4096), F32))["y"], want, atol=1e-3)

    def test_the_files_of_a_model_are_not_written(self):
        """Saving over what the weights are read from would destroy them: the model, and the file beside it."""
        w = np.arange(6, dtype=F32).reshape(2, 3)
        with open(self.path("w.safetensors"), "wb") as f:
            f.write(w.tobytes())
        beside = [m.external("w", (2, 3), location="w.safetensors", offset=0, length=24)]
        g = opc.load(self.model([m.node("Mul", ["x", "w"], ["h"]), m.node("ReduceSum", ["h"], ["y"], keepdims=0)], [m.value("x", (2, 3))], [m.value("y")], beside))
        step = g.training_step("y", opc.optim.SGD(lr=0.1))
        program = g.compile()
        training = opc.train(step, {"x": np.ones((2, 3), F32)}, steps=1)
        writers = [g.save, g.grad("y").save, step.save, program.save, program.save_weights, training.save,
                   lambda path: opc.train(step, {"x": np.ones((2, 3), F32)}, steps=1, save=path)]
        os.symlink("w.safetensors", self.path("link.safetensors"))
        for write in writers:
            for name in ("w.safetensors", "link.safetensors", "m.onnx"):
                with self.assertRaises(opc.UsageError) as caught:
                    write(self.path(name))
                if name != "m.onnx":  # an ending that some refuse themselves
                    self.assertEqual(caught.exception.code, "OPC0002", str(caught.exception))
        with open(self.path("w.safetensors"), "rb") as f:
            self.assertEqual(f.read(), w.tobytes())
        program.save_weights(self.path("own.safetensors"))
        g.save(self.path("g.pbtxt"))
        np.testing.assert_allclose(program.run(x=X)["y"], (X * w).sum(), rtol=1e-6)

    def test_numbers_of_ops_have_the_model_s_values(self):
        """Bounds of Clip: set, loaded, also of a graph that grew, and with another value as constants of the import."""
        low, high = np.array(-1, F32), np.array(1, F32)
        nodes = [m.node("Mul", ["x", "w"], ["h"]), m.node("Clip", ["h", "low", "high"], ["y"], "clip")]
        path = self.model(nodes, [m.value("x", (2, 3))], [m.value("y")], [m.tensor("w", np.ones(3, F32)), m.tensor("low", low), m.tensor("high", high)])
        np.savez(self.path("same.npz"), w=np.ones(3, F32), low=low)
        np.savez(self.path("other.npz"), w=np.ones(3, F32), low=np.array(-0.5, F32))
        grown = opc.load(path)
        grown.output("z", opc.ops.relu(grown.tensor("y")))
        opc.load(path).compile().save(self.path("m.plan"))
        for program in (opc.load(path).compile(), grown.compile(), opc.load(self.path("m.plan")), opc.load(path).grad("y").compile()):
            session = program.session()
            self.assertEqual(session.load_weights(self.path("same.npz")), 1)
            session.variables["low"] = low
            for give in (lambda: session.load_weights(self.path("other.npz")), lambda: session.variables.__setitem__("low", -0.5)):
                with self.assertRaisesRegex(opc.UsageError, "'low' is given as -0.5, and the model has -1: it is a part of .*m.onnx: node 1 \"clip\"") as caught:
                    give()
                self.assertEqual(caught.exception.code, "OPC0719")
                self.assertNotIn("--const", str(caught.exception))
            np.testing.assert_array_equal(session.run(x=X)["y"], np.clip(X, -1, 1))
        made = opc.load(path, consts={"low": np.array(-0.5, F32)}).compile().session()
        made.load_weights(self.path("other.npz"))
        np.testing.assert_array_equal(made.run(x=X)["y"], np.clip(X, F32(-0.5), 1))

    def test_errors_of_a_model_name_its_nodes(self):
        """Not the generated text that the compiler reads."""
        body = m.graph([m.node("Identity", ["go"], ["on"]), m.node("Mul", ["s", "w"], ["t"])], [m.value("i", (), 7), m.value("go", (), 9), m.value("s", (2, 3))],
                       [m.value("on", (), 9), m.value("t", (2, 3))])
        nodes = [m.node("Loop", ["n", "", "x"], ["h"], "turns", body=body), m.node("ReduceSum", ["h"], ["y"], keepdims=0)]
        g = opc.load(self.model(nodes, [m.value("x", (2, 3)), m.value("n", (), 7)], [m.value("y")], [m.tensor("w", np.ones((2, 3), F32))]))
        with self.assertRaises(opc.Error) as caught:
            g.grad("y").compile()
        text = str(caught.exception)
        self.assertEqual(caught.exception.code, "OPC0511", text)
        self.assertIn("op turns", text)
        self.assertIn('m.onnx: node 0 "turns"', text)
        self.assertNotRegex(text, r"<\w+>:\d+|op_type_name")

    def test_a_session_reads_the_weights_and_notices_another_file(self):
        path = self.layer()
        program = opc.load(path).compile()
        want = np.maximum(X @ self.w, 0) + self.table
        first = program.session()
        first.variables["w"] = 2 * self.w
        np.testing.assert_allclose(program.session().run(x=X)["y"], want, rtol=1e-6)
        np.testing.assert_allclose(first.run(x=X)["y"], np.maximum(X @ (2 * self.w), 0) + self.table, rtol=1e-6)
        whole = program.plan
        os.truncate(path, os.path.getsize(path) - 1)
        for use in (program.session, lambda: program.plan, lambda: program.save(self.path("m.plan"))):
            with self.assertRaisesRegex(opc.Error, "m.onnx' has been written since the model was loaded"):
                use()
        np.testing.assert_allclose(opc.Program.from_plan(whole).run(x=X)["y"], want, rtol=1e-6)
        np.testing.assert_array_equal(first.variables["w"], 2 * self.w)

    def test_a_file_that_is_written_again_is_noticed(self):
        path = self.layer()
        g = opc.load(path)
        with open(path, "r+b") as f:
            f.truncate(100)
        with self.assertRaisesRegex(opc.Error, "m.onnx' has been written since the model was loaded"):
            g.compile()
        self.layer()
        replaced = opc.load(path)
        os.rename(path, self.path("before.onnx"))
        with open(path, "wb") as f:
            f.write(b"another file")
        want = np.maximum(X @ self.w, 0) + self.table
        np.testing.assert_allclose(replaced.compile().run(x=X)["y"], want, rtol=1e-6)

    def test_data_that_became_shorter_is_noticed(self):
        """What lies beside the model, too: to read behind its end would end the process."""
        w = np.random.default_rng(3).standard_normal((64, 64)).astype(F32)
        with open(self.path("w.data"), "wb") as f:
            f.write(w.tobytes())
        beside = [m.external("w", w.shape, location="w.data", offset=0, length=w.nbytes)]
        g = opc.load(self.model([m.node("MatMul", ["x", "w"], ["y"])], [m.value("x", (1, 64))], [m.value("y")], beside))
        x = np.linspace(-1, 1, 64, dtype=F32)[None]
        np.testing.assert_allclose(g.compile().run(x=x)["y"], x @ w, atol=1e-5)
        os.truncate(self.path("w.data"), 4096)
        with self.assertRaisesRegex(opc.Error, "tensor 'w' ends at byte 16384 of '.*w.data', which has 4096 by now"):
            g.compile()
        with open(self.path("w.data"), "wb") as f:
            f.write(w.tobytes())
        np.testing.assert_allclose(g.compile().run(x=x)["y"], x @ w, atol=1e-5)

    def test_gradients(self):
        g = opc.load(self.layer())
        back = g.grad("y")
        self.assertEqual(list(back.gradients), ["w"], "the table is not trained")
        made = back.compile().run(x=X)
        np.testing.assert_allclose(made["w.grad"], X.T @ (X @ self.w > 0).astype(F32), rtol=1e-6)

    def test_gradients_of_the_branch_that_a_run_takes(self):
        """One session: y = x @ w, or x * x; the gradient of the other branch's weight is zero."""
        w = np.random.default_rng(4).standard_normal((3, 3)).astype(F32)
        yes = m.graph([m.node("MatMul", ["x", "w"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("Mul", ["x", "x"], ["t"])], [], [m.value("t")])
        path = self.model([m.node("If", ["c"], ["y"], then_branch=yes, else_branch=no)], [m.value("x", (2, 3)), m.value("c", (), 9)], [m.value("y")], [m.tensor("w", w)])
        session = opc.load(path).grad("y", ["w", "x"]).compile().session()
        for c in (True, False, True):
            made = session.run(x=X, c=np.array(c))
            np.testing.assert_allclose(made["y"], X @ w if c else X * X, rtol=1e-5)
            np.testing.assert_allclose(made["x.grad"], np.ones((2, 3), F32) @ w.T if c else 2 * X, rtol=1e-5)
            np.testing.assert_allclose(made["w.grad"], X.T @ np.ones((2, 3), F32) * c, rtol=1e-5)

    def test_training_begins_with_the_weights(self):
        g = opc.load(self.layer())
        with g:
            g.output("loss", (g.tensor("y") * g.tensor("y")).sum())
        step = g.training_step("loss", opc.optim.SGD(0.01))
        run = opc.train(step, {"x": X}, steps=1)
        a = X @ self.w
        np.testing.assert_allclose(run.history[0]["loss"], np.sum((np.maximum(a, 0) + self.table) ** 2), rtol=1e-5)
        np.testing.assert_allclose(run.variables["w"], self.w - 0.01 * X.T @ ((a > 0) * 2 * (np.maximum(a, 0) + self.table)), rtol=1e-4, atol=1e-6)

    def test_sizes_with_names(self):
        path = self.model([m.node("Shape", ["x"], ["s"]), m.node("Reshape", ["x", "s"], ["h"]), m.node("Neg", ["h"], ["y"])],
                          [m.value("x", ("batch", 3))], [m.value("y")])
        np.testing.assert_array_equal(opc.load(path, dims={"batch": 2}).compile().run(x=X)["y"], -X)
        np.testing.assert_array_equal(opc.load(path, shapes={"x": (2, 3)}).compile().run(x=X)["y"], -X)
        with self.assertRaisesRegex(opc.Error, r"'batch'"):
            opc.load(path)
        with self.assertRaisesRegex(opc.Error, r"'bach'.*"):
            opc.load(path, dims={"bach": 2})
        with self.assertRaisesRegex(TypeError, r"dims is a dict, such as .*, not 3"):
            opc.load(path, dims=3)
        with self.assertRaisesRegex((TypeError, opc.UsageError), r"the size 'batch' is .* not "):
            opc.load(path, dims={"batch": -2})

    def test_values_that_decide(self):
        yes, no = (m.graph([m.node("Slice", ["x", "k0", end, "k1"], ["t"])], [], [m.value("t")]) for end in ("k1", "k2"))
        path = self.model([m.node("If", ["c"], ["y"], then_branch=yes, else_branch=no)], [m.value("x", (2, 3)), m.value("c", (), 9)], [m.value("y")],
                          [m.tensor(f"k{i}", np.array([i])) for i in range(3)])
        for c in (True, np.array(True), np.bool_(True)):
            np.testing.assert_array_equal(opc.load(path, consts={"c": c}).compile().run(x=X)["y"], X[:, :1])
        np.testing.assert_array_equal(opc.load(path, consts={"c": False}).compile().run(x=X)["y"], X[:, :2])
        with self.assertRaisesRegex(opc.Error, r"depends on the input 'c'"):
            opc.load(path)
        with self.assertRaisesRegex(opc.Error, r"'d'"):
            opc.load(path, consts={"d": 1})
        with self.assertRaisesRegex(opc.Error, r"constant 'c'"):
            opc.load(path, consts={"c": np.zeros(3, bool)})
        with self.assertRaisesRegex(opc.Error, r"constant 'c'"):
            opc.load(path, consts={"c": "yes"})

    def test_sizes_are_chosen_on_loading(self):
        """y = x / the number of its rows, which is a constant of the graph."""
        nodes = [m.node("Shape", ["x"], ["s"]), m.node("Gather", ["s", "zero"], ["n"]), m.node("Cast", ["n"], ["f"], to=1), m.node("Div", ["x", "f"], ["y"])]
        path = self.model(nodes, [m.value("x", ("batch", 3))], [m.value("y")], [m.tensor("zero", np.array(0))])
        g = opc.load(path, dims={"batch": 2})
        np.testing.assert_allclose(g.compile(shapes={"x": (2, 3)}).run(x=X)["y"], X / 2)
        for made in (g, g.grad("y", wrt=["x"])):
            with self.assertRaisesRegex(opc.UsageError, r"loaded for input 'x' of shape \(2, 3\), not \(4, 3\)(.|\n)*opc.load\(path, shapes="):
                made.compile(shapes={"x": (4, 3)})
        four = np.concatenate([X, X])
        np.testing.assert_allclose(opc.load(path, shapes={"x": (4, 3)}).compile().run(x=four)["y"], four / 4)
        with self.assertRaisesRegex(opc.UsageError, r"the size 'batch' is 1180591620717411303424, more than any tensor has"):
            opc.load(path, dims={"batch": 2**70})
        g.compile().save(self.path("m.plan"))
        for given in ({"dims": {"batch": 2}}, {"consts": {"x": 1}}, {"shapes": {"x": (4, 3)}}):
            with self.assertRaisesRegex(opc.UsageError, r"m.plan is a plan, which has its sizes"):
                opc.load(self.path("m.plan"), **given)

    def test_a_plan_for_sizes_in_a_range(self):
        """Each run has the size of its arrays, and so have its outputs."""
        w, c = np.linspace(-1, 1, 12, dtype=F32).reshape(3, 4), np.arange(4, dtype=F32)
        nodes = [m.node("MatMul", ["x", "w"], ["h"]), m.node("Mul", ["h", "k"], ["y"]), m.node("Add", ["y", "y"], ["z"])]
        self.model(nodes, [m.value("x", ("n", 3)), m.value("k", ("n", 4))], [m.value("y"), m.value("z")], [m.tensor("w", w)])
        self.command("compile", "m.onnx", "--shape", "x=n:1..6,3", "-o", "m.plan")
        program = opc.load(self.path("m.plan"))
        x, k = np.random.default_rng(1).standard_normal((6, 3)).astype(F32), np.outer(np.arange(6, dtype=F32), c) + 1
        for run in (program.run, program.session().run):
            kept = []
            for n in (2, 6, 1, 3, 3):
                made = run(x=x[:n], k=k[:n])
                kept.append((n, made))
                opposite = run(k=k[6 - n:], x=x[6 - n:])["y"]
                np.testing.assert_allclose(opposite, (x @ w * k)[6 - n:], rtol=1e-5, atol=1e-6)
            for n, made in kept:
                self.assertEqual((made["y"].shape, made["z"].shape), ((n, 4), (n, 4)))
                np.testing.assert_allclose(made["y"], x[:n] @ w * k[:n], rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(made["z"], 2 * (x[:n] @ w * k[:n]), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(run(k=k[:3] * 2)["y"], 2 * (x[3:] @ w * k[:3]), rtol=1e-5, atol=1e-6)  # the other is the one of before
        session = program.session()
        for given, said in ((np.ones((7, 3), F32), r"OPC0704(.|\n)*'x' is f32\[7,3\], expected f32\[n,3\] with n from 1 to 6"),
                            (np.ones((0, 3), F32), r"OPC0704(.|\n)*n from 1 to 6"), (np.ones((2, 4), F32), r"OPC0704(.|\n)*f32\[2,4\], expected f32\[n,3\] with n from 1 to 6"),
                            (np.ones(3, F32), r"OPC0704(.|\n)*f32\[3\]"), (np.ones((2, 3)), r"OPC0703(.|\n)*'x' is float64")):
            with self.assertRaisesRegex(opc.UsageError, said):
                session.run(x=given, k=k[:2])
        with self.assertRaisesRegex(opc.UsageError, r"OPC0704(.|\n)*they disagree about n"):
            session.run(x=x[:2], k=k[:3])
        np.testing.assert_allclose(session.run(x=x[:2], k=k[:2])["y"], x[:2] @ w * k[:2], rtol=1e-5, atol=1e-6)
        # Branches of an If that the run decides, at every size.
        yes = m.graph([m.node("Relu", ["x"], ["t"])], [], [m.value("t")])
        no = m.graph([m.node("Neg", ["x"], ["t"])], [], [m.value("t")])
        self.model([m.node("If", ["c"], ["y"], "choice", then_branch=yes, else_branch=no)], [m.value("x", ("n", 3)), m.value("c", (), 9)], [m.value("y")])
        self.command("compile", "m.onnx", "--shape", "x=n:1..6,3", "-o", "c.plan")
        run = opc.load(self.path("c.plan")).run
        for n in (1, 4):
            np.testing.assert_array_equal(run(x=x[:n], c=np.array(True))["y"], np.maximum(x[:n], 0))
            np.testing.assert_array_equal(run(x=x[:n], c=np.array(False))["y"], -x[:n])

    def test_errors_of_a_run_name_the_node(self):
        path = self.model([m.node("Neg", ["x"], ["h"]), m.node("Gather", ["h", "i"], ["y"], "pick/rows")], [m.value("x", (2, 3)), m.value("i", (1,), 7)],
                          [m.value("y")])
        program = opc.load(path).compile()
        np.testing.assert_array_equal(program.run(x=X, i=np.array([1]))["y"], -X[1:])
        with self.assertRaisesRegex(opc.ExecutionError, r'OPC0601(.|\n)*m.onnx: node 1 "pick/rows"'):
            program.run(x=X, i=np.array([5]))

    def test_only_true_lets_code_of_a_file_run(self):
        program = opc.load(self.layer()).compile()
        program.session(allow_native=True), program.session(allow_native=np.bool_(False))
        for no in ("no", "", 1, None):
            with self.assertRaisesRegex(TypeError, "allow_native is True or False, not"):
                program.session(allow_native=no)
            with self.assertRaisesRegex(TypeError, "allow_tf32 is True or False, not"):
                program.session(allow_tf32=no)

    def test_tf32_is_for_gpus(self):
        program = opc.load(self.layer()).compile()
        self.assertIsNotNone(program.session(allow_tf32=False))
        with self.assertRaisesRegex(opc.Error, "OPC0630(.|\n)*the plan is for the CPU"):
            program.session(allow_tf32=True)

    def test_what_is_no_model(self):
        g = opc.Graph()
        g.output("y", g.input("x", (2,)))
        g.save(self.path("g.pbtxt"))
        for given in ({"dims": {"n": 1}}, {"consts": {"x": 1}}):
            with self.assertRaisesRegex(opc.UsageError, r"are for ONNX models, and .*g.pbtxt is none"):
                opc.load(self.path("g.pbtxt"), **given)


if __name__ == "__main__":
    unittest.main()
