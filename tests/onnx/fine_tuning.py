# Which values of an ONNX model are trained: parameters, and not statistics, scales, bounds and constants. Gradients by their formulas.
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import json
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402

spec = importlib.util.spec_from_file_location("onnx_import", os.path.join(os.path.dirname(os.path.abspath(__file__)), "import.py"))
onnx_import = importlib.util.module_from_spec(spec)
spec.loader.exec_module(onnx_import)
F32 = np.float32
RNG = np.random.default_rng(11)
DIGITS = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "digits")


def near(made, wanted):
    np.testing.assert_allclose(made, wanted, rtol=2e-5, atol=2e-5)


class FineTuning(onnx_import.Case):
    def model(self, nodes, inputs, initializers, loss="loss"):
        return self.file("model.onnx", m.model(m.graph(nodes, inputs, [m.value(loss)], [m.tensor(k, v) for k, v in initializers.items()])))

    def variables(self, path):
        """name -> whether it is trained."""
        done = self.opc("show", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {v["name"]: v["trainable"] for v in json.loads(done.stdout)["variables"]}

    def gradients(self, path, inputs, *flags):
        done = self.opc("grad", path, "--loss", "loss", *flags, "-o", self.path("g.pbtxt"), "--weights-out", self.path("w.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        np.savez(self.path("in.npz"), **inputs)
        done = self.opc("run", "g.pbtxt", "--weights", "w.safetensors", "--inputs", "in.npz", "--outputs", "out.npz")
        self.assertEqual(done.returncode, 0, done.stderr)
        return {k: v for k, v in np.load(self.path("out.npz")).items() if k.endswith(".grad")}

    def normalized(self, mean):
        """A normalization of evaluation, whose mean is the value of this name; a loss whose gradient at y is r."""
        values = {"s": RNG.uniform(0.5, 2, 3).astype(F32), "b": RNG.standard_normal(3).astype(F32), "m": RNG.standard_normal(3).astype(F32),
                  "v": RNG.uniform(0.5, 2, 3).astype(F32)}
        if mean != "m":
            del values["m"]
        nodes = [m.node("BatchNormalization", ["x", "s", "b", mean, "v"], ["y"], "bn", epsilon=1e-3), m.node("Mul", ["y", "r"], ["z"]),
                 m.node("ReduceSum", ["z"], ["loss"], keepdims=0)]
        path = self.model(nodes, [m.value("x", (2, 3, 4, 4)), m.value("r", (2, 3, 4, 4))], values)
        x, r = (RNG.standard_normal((2, 3, 4, 4)).astype(F32) for _ in range(2))
        scale = 1 / np.sqrt(values["v"] + F32(1e-3)).reshape(-1, 1, 1)
        centred = (x - values[mean].reshape(-1, 1, 1)) * scale
        wanted = {"s.grad": (r * centred).sum((0, 2, 3)), "b.grad": r.sum((0, 2, 3)), "x.grad": r * values["s"].reshape(-1, 1, 1) * scale}
        return path, {"x": x, "r": r}, wanted

    def test_statistics_are_state(self):
        path, inputs, wanted = self.normalized("m")
        self.assertEqual(self.variables(path), {"s": True, "b": True, "m": False, "v": False})
        made = self.gradients(path, inputs)
        self.assertEqual(sorted(made), ["b.grad", "s.grad"])
        for name, gradient in made.items():
            near(gradient, wanted[name])
        made = self.gradients(path, inputs, "--wrt", "x", "--wrt", "[sb]")
        self.assertEqual(sorted(made), sorted(wanted))
        for name, gradient in made.items():
            near(gradient, wanted[name])

    def test_a_statistic_that_is_a_parameter_too(self):
        """Exporters write equal tensors once: here the mean is the bias. Its gradient is the bias's alone."""
        path, inputs, wanted = self.normalized("b")
        self.assertEqual(self.variables(path), {"s": True, "b": True, "b.state": False, "v": False})
        made = self.gradients(path, inputs)
        self.assertEqual(sorted(made), ["b.grad", "s.grad"])
        for name, gradient in made.items():
            near(gradient, wanted[name])

    def test_settings_and_constants_are_not_trained(self):
        """Bounds, scales, what is filled in, and numbers of Constant nodes, however many; a parameter is an initializer."""
        table = RNG.standard_normal((20, 20)).astype(F32)
        nodes = [m.node("Constant", [], ["k"], value=table), m.node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
                 m.node("DequantizeLinear", ["q", "scale", "zero"], ["d"]), m.node("Clip", ["d", "low", "high"], ["c"]), m.node("MatMul", ["c", "k"], ["e"]),
                 m.node("MatMul", ["e", "w"], ["f"]), m.node("ReduceSum", ["f"], ["loss"], keepdims=0)]
        w = RNG.standard_normal((20, 2)).astype(F32)
        path = self.model(nodes, [m.value("x", (3, 20))], {"scale": np.array(0.05, F32), "zero": np.array(3, np.int8), "low": np.array(-1, F32),
                                                           "high": np.array(1, F32), "w": w})
        trained = self.variables(path)
        self.assertEqual([name for name, is_trained in trained.items() if is_trained], ["w"])
        x = RNG.standard_normal((3, 20)).astype(F32)
        made = self.gradients(path, {"x": x})
        self.assertEqual(list(made), ["w.grad"])
        e = np.clip((np.clip(np.rint(x / F32(0.05)) + 3, -128, 127) - 3) * F32(0.05), -1, 1) @ table
        near(made["w.grad"], np.broadcast_to(e.sum(0)[:, None], (20, 2)))
        made = self.gradients(path, {"x": x}, "--wrt", "k")
        near(made["k.grad"], np.outer((np.clip((np.clip(np.rint(x / F32(0.05)) + 3, -128, 127) - 3) * F32(0.05), -1, 1)).sum(0), w.sum(1)))

    def test_scales_of_quantised_ops_are_not_trained(self):
        zero, scales = np.array(3, np.uint8), {f"s{k}": np.array(0.1 + k / 100, F32) for k in range(3)}
        unary = ["x", "s0", "z", "s1", "z"]
        for op, inputs, form in (("QLinearSigmoid", unary, {}), ("QLinearLeakyRelu", unary, {"alpha": 0.1}), ("QLinearSoftmax", unary, {"axis": -1, "opset": 17}),
                                 ("QLinearGlobalAveragePool", unary, {}), ("QLinearAveragePool", unary, {"kernel_shape": [2, 2]}),
                                 ("QLinearConcat", ["s0", "z", "x", "s1", "z", "x", "s2", "z"], {"axis": 1})):
            with self.subTest(op=op):
                used = {"z": zero, **{name: v for name, v in scales.items() if name in inputs}}
                nodes = [m.node(op, inputs, ["y"], domain="com.microsoft", **form)]
                path = self.file("model.onnx", m.model(m.graph(nodes, [m.value("x", (1, 2, 3, 3), 2)], [m.value("y", None, 2)], [m.tensor(k, v) for k, v in used.items()]),
                                                       domains=["com.microsoft"]))
                trained = self.variables(path)
                self.assertEqual({name: trained[name] for name in used if name in scales}, {name: False for name in used if name in scales})

    def given(self, nodes, x, initializers, new):
        """y of a model with other values for variables, and what is said."""
        path = self.file("given.onnx", m.model(m.graph(nodes, [m.value("x", x.shape, {"f": 1, "i": 7}[x.dtype.kind])], [m.value("y")],
                                                       [m.tensor(k, v) for k, v in initializers.items()])))
        np.savez(self.path("new.npz"), **new)
        done = self.opc("run", path, "--input", f"x={self.array('x.npy', x)}", "--weights", "new.npz", "--partial-weights", "--outputs", "y.npz")
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(self.path("y.npz"))["y"], done.stderr

    def test_state_that_weights_set(self):
        x = RNG.standard_normal((2, 3, 4)).astype(F32)
        old = {k: RNG.uniform(0.5, 2, 3).astype(F32) for k in "sbmv"}
        new = {k: RNG.uniform(0.5, 2, 3).astype(F32) for k in "mv"}
        made, _ = self.given([m.node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=1e-3)], x, old, new)
        s, b, mean, variance = (a.reshape(-1, 1) for a in (old["s"], old["b"], new["m"], new["v"]))
        near(made, (x - mean) / np.sqrt(variance + F32(1e-3)) * s + b)
        nodes = [m.node("QuantizeLinear", ["x", "scale", "zero"], ["q"]), m.node("DequantizeLinear", ["q", "scale", "zero"], ["y"])]
        made, _ = self.given(nodes, x, {"scale": np.array(0.1, F32), "zero": np.array(7, np.uint8)}, {"scale": np.array(0.05, F32)})
        near(made, (np.clip(np.rint(x / F32(0.05)) + 7, 0, 255) - 7) * F32(0.05))
        i = np.array([1, 2, 3])
        made, _ = self.given([m.node("OneHot", ["x", "depth", "two"], ["y"])], i, {"depth": np.array(5), "two": np.array([0, 1], F32)}, {"two": np.array([-1, 2], F32)})
        near(made, np.where(np.arange(5) == i[:, None], 2, -1))


class Digits(onnx_import.Case):
    """The network of docs/examples/digits as an ONNX model, whose last layer is drawn anew and trained; beside it the graph file itself."""

    def done(self, *arguments):
        done = self.opc(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def exported(self, batch):
        """The model with its trained weights, for batches of this size."""
        self.done("compile", os.path.join(DIGITS, "cnn.pbtxt"), "--weights", os.path.join(DIGITS, "cnn_weights.npz"), "--shape", f"image={batch},64",
                  "--emit", "onnx", "-o", self.path("whole.onnx"))
        with open(self.path("whole.onnx"), "rb") as f:
            return f.read()

    def changed(self, data, values, with_loss):
        """A model with other initializers, and the mean of the cross entropy of its logits as an output."""
        batch = next(b for n, b in m.fields(data) if n == 7)
        body, replaced = b"", set()
        for number, part in m.fields(batch):
            name = dict(m.fields(part)).get(8, b"").decode() if number == 5 else None
            if name in values:
                part, _ = m.tensor(name, values[name]), replaced.add(name)
            body += m.field(number, part)
        self.assertEqual(replaced, set(values))
        if with_loss:
            body += (m.field(1, m.node("SoftmaxCrossEntropyLoss", ["logits", "label"], ["loss"], "cross_entropy", reduction="mean")) +
                     m.field(11, m.value("label", (64,), 6)) + m.field(12, m.value("loss", ())))
        return b"".join(m.field(n, body if n == 7 else b) for n, b in m.fields(data))

    def trained(self, graph, weights, wrt, epochs):
        """The variables after training on the images, given in one order."""
        flags = ["--weights-out", self.path("begin.safetensors")] if graph.endswith(".onnx") else []
        if flags:
            weights = self.path("begin.safetensors")
        self.done("grad", graph, "--loss", "loss", "--optimizer", "adam", "--lr", "0.002", *(f for w in wrt for f in ("--wrt", w)),
                  *flags, "-o", self.path("step.pbtxt"))
        data = ",".join(f"{name}=@{os.path.join(DIGITS, f'train_{name}s.npy')}" for name in ("image", "label"))
        self.done("run", "step.pbtxt", "--weights", weights, "--partial-weights", "--feed-dataset", data, "--batch", "64", "--shuffle", "--seed", "7",
                  "--epochs", str(epochs), "--save", self.path("made.safetensors"))
        return safetensors(self.path("made.safetensors"))

    def accuracy(self, model, *flags):
        self.done("run", model, *flags, "--input", f"image=@{os.path.join(DIGITS, 'test_images.npy')}", "--output", f"logits={self.path('logits.npy')}")
        return float((np.load(self.path("logits.npy")).argmax(1) == np.load(os.path.join(DIGITS, "test_labels.npy"))).mean())

    def begun(self):
        """Trained weights but for the last layer, which is drawn."""
        values = dict(np.load(os.path.join(DIGITS, "cnn_weights.npz")))
        drawn = {"fc2_w": (RNG.standard_normal((10, 64)) * np.sqrt(2 / 64)).astype(F32), "fc2_b": np.zeros(10, F32)}
        return {**values, **drawn}, drawn

    def beside_the_graph_file(self, wrt, epochs):
        """Both trained in the same order from the same weights; the accuracy of the damaged model, of the trained one and of the graph file."""
        values, drawn = self.begun()
        damaged = self.file("damaged.onnx", self.changed(self.exported(360), drawn, False))
        before = self.accuracy(damaged)
        model = self.trained(self.file("loss.onnx", self.changed(self.exported(64), drawn, True)), None, wrt, epochs)
        after = self.accuracy(damaged, "--weights", self.path("made.safetensors"))
        text = ""
        for name in ("cnn.pbtxt", "cnn_loss.pbtxt"):
            with open(os.path.join(DIGITS, name), encoding="utf-8") as f:
                text += f.read().replace("dim: 360", "dim: 64") + "\n"
        np.savez(self.path("begun.npz"), **values)
        graph = self.trained(self.file("graph.pbtxt", text.encode()), "begun.npz", wrt, epochs)
        own = self.accuracy(os.path.join(DIGITS, "cnn.pbtxt"), "--weights", self.path("made.safetensors"))
        return values, before, after, own, model, graph

    def test_the_last_layer(self):
        values, before, after, own, model, graph = self.beside_the_graph_file(["fc2_*"], 10)
        self.assertLess(before, 0.4)
        self.assertGreater(after, 0.97)
        self.assertLessEqual(abs(after - own), 1 / 360)
        for name, value in values.items(): # the other layers are as they were, bit for bit
            if not name.startswith("fc2"):
                np.testing.assert_array_equal(model[name], value, name)
        for name in ("fc2_w", "fc2_b"):
            self.assertGreater(np.abs(model[name] - values[name]).max(), 0.01)
            np.testing.assert_allclose(model[name], graph[name], rtol=1e-3, atol=1e-4)

    def test_all_layers(self):
        values, before, after, own, model, _ = self.beside_the_graph_file([], 3)
        self.assertLess(before, 0.4)
        self.assertGreater(after, 0.97)
        self.assertLessEqual(abs(after - own), 0.01)
        for name, value in values.items():
            if name in ("bn1_mean", "bn1_var"): # statistics are state
                np.testing.assert_array_equal(model[name], value, name)
            else:
                self.assertGreater(np.abs(model[name] - value).max(), 0, name)


def safetensors(path):
    """The f32 tensors of a file, by name: its public format."""
    with open(path, "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    return {name: np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], F32).reshape(t["shape"])
            for name, t in head.items() if name != "__metadata__" and t["dtype"] == "F32"}


if __name__ == "__main__":
    unittest.main()
