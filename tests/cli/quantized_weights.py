# opc quantize: weights that are computed of weights, what stays in f32 and why, examples of one batch, tensors that are rounding noise.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import unittest

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
import messages as m  # noqa: E402
from quantizing import least_entropy  # noqa: E402

F32 = np.float32


class QuantizedWeights(FolderTest):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(3)

    def normal(self, *shape, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(F32)

    def model(self, nodes, inputs, weights, outputs=("y",), shapes=None, domains=()):
        """model.onnx, and an example for each of its inputs."""
        for name, array in inputs.items():
            np.save(self.path(f"{name}.npy"), array)
        values = [m.value(n, (shapes or {}).get(n, a.shape), m.ELEMENT[a.dtype]) for n, a in inputs.items()]
        with open(self.path("model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, values, [m.value(o, None, 10 if o in "lq" else 1) for o in outputs], [m.tensor(n, a) for n, a in weights.items()]), domains=domains))
        return [word for name in inputs for word in ("--calibrate", f"{name}=@{name}.npy")]

    def quantize(self, given, *flags):
        done = self.opc("quantize", "model.onnx", *given, "--json", "-o", "q.onnx", *flags)
        return json.loads(done.stdout), done.stderr

    def types(self):
        return [op["type"] for op in json.loads(self.opc("show", "q.onnx", "--what", "ops", "--json").stdout)["ops"]]

    def made(self, inputs, model="q.onnx", output="y"):
        self.opc("run", model, "--quiet", *[w for n in inputs for w in ("--input", f"{n}=@{n}.npy")], "--output", f"{output}=out.npy")
        return np.load(self.path("out.npy"))

    def near(self, made, want, least=0.999):
        made, want = made.astype(np.float64).ravel(), np.asarray(want, np.float64).ravel()
        self.assertEqual(made.shape, want.shape)
        self.assertGreater(made @ want / np.linalg.norm(made) / np.linalg.norm(want), least)

    # Weights that are computed.

    def test_weights_of_weights(self):
        """Each form of a weight becomes one matrix of i8; what computed it is gone."""
        x, w, v, k = self.normal(6, 32), self.normal(16, 32), self.normal(32, 16), np.array(0.5, F32)
        d, wide = self.normal(2, 5, 32), self.normal(1, 32, 16)
        forms = {
            "Transpose": ([m.node("Transpose", ["w"], ["t"], perm=[1, 0]), m.node("MatMul", ["x", "t"], ["y"])], {"x": x}, {"w": w}, x @ w.T),
            "Cast": ([m.node("Cast", ["h"], ["t"], to=1), m.node("MatMul", ["x", "t"], ["y"])], {"x": x}, {"h": v.astype(np.float16)}, x @ v),
            "Reshape": ([m.node("Reshape", ["f", "s"], ["t"]), m.node("MatMul", ["x", "t"], ["y"])], {"x": x}, {"f": v.ravel(), "s": np.array([32, 16])}, x @ v),
            "Mul": ([m.node("Mul", ["v", "k"], ["s"]), m.node("Identity", ["s"], ["t"]), m.node("MatMul", ["x", "t"], ["y"])], {"x": x}, {"v": v, "k": k}, x @ v / 2),
            "Gemm": ([m.node("Gemm", ["x", "w"], ["y"], alpha=0.5, transB=1)], {"x": x}, {"w": w}, x @ w.T / 2),
            "Gemm twice": ([m.node("Gemm", ["x", "w"], ["a"], alpha=0.5, transB=1), m.node("Gemm", ["x", "w"], ["b"], alpha=2.0, transB=1), m.node("Sub", ["a", "b"], ["y"])],
                           {"x": x}, {"w": w}, x @ w.T * -1.5),
            "FusedMatMul": ([m.node("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft", alpha=0.25, transB=1)], {"x": x}, {"w": w}, x @ w.T / 4),
            "Einsum": ([m.node("Einsum", ["x", "w"], ["y"], equation="ij,kj->ik")], {"x": x}, {"w": w}, x @ w.T),
            "[1,K,N]": ([m.node("MatMul", ["d", "u"], ["y"])], {"d": d}, {"u": wide}, d @ wide),
        }
        for name, (nodes, inputs, weights, want) in forms.items():
            with self.subTest(name):
                given = self.model(nodes, inputs, weights, domains=["com.microsoft"])
                report, said = self.quantize(given)
                count = 2 if "twice" in name else 1
                self.assertEqual((len(report["quantized"]), report["not_quantized"]), (count, []), said)
                self.assertEqual(self.types().count("integer_matmul"), count, self.types())
                self.near(self.made(inputs), want)
                self.assertLess(report["weight_bytes"]["after"], 32 * 16 * count + 4 * 16 * count + 64)
                for kind, least in (("int8-weights", 0.9999), ("bf16-weights", 0.9999), ("int4-weights", 0.99)):
                    report, said = self.quantize([], "--to", kind)
                    self.assertEqual(len(report["quantized"]), count, said)
                    self.near(self.made(inputs), want, least)

    def test_tied_weights(self):
        """The table of a lookup, transposed behind the model: the table itself stays in f32."""
        e, i = self.normal(40, 32), np.array([3, 9, 1])
        nodes = [m.node("Gather", ["e", "i"], ["x"]), m.node("Transpose", ["e"], ["t"], perm=[1, 0]), m.node("MatMul", ["x", "t"], ["y"])]
        report, _ = self.quantize(self.model(nodes, {"i": i}, {"e": e}))
        self.assertEqual(len(report["quantized"]), 1)
        self.near(self.made(["i"]), e[i] @ e.T)
        table, integers = 40 * 32 * 4, 40 * 32
        self.assertTrue(table + integers <= report["weight_bytes"]["after"] < table + integers + 256, report)

    def test_kept_ops_have_their_weight(self):
        x, w = self.normal(6, 32), self.normal(16, 32)
        nodes = [m.node("Gemm", ["x", "w"], ["a"], "first", alpha=0.5, transB=1), m.node("Gemm", ["x", "w"], ["b"], "second", transB=1), m.node("Sub", ["a", "b"], ["y"])]
        given = self.model(nodes, {"x": x}, {"w": w})
        report, said = self.quantize(given, "--keep", "first")
        self.assertEqual((report["quantized"], report["not_quantized"]), (["second"], []), said)
        self.near(self.made(["x"]), x @ w.T * -0.5)
        self.assertIn("has such a name or type", self.opc("quantize", "model.onnx", *given, "--keep", "third", code=2).stderr)

    # What stays as it is.

    def test_what_is_not_quantised_is_said(self):
        x, w, stack, image = self.normal(4, 8), self.normal(8, 8), self.normal(2, 8, 3), self.normal(1, 2, 5, 5)
        p, kernel = self.normal(2, 4, 8), self.normal(2, 3, 3, 3)
        nodes = [m.node("MatMul", ["x", "w"], ["a"], "plain"), m.node("Gemm", ["x", "g"], ["b"], "turned", transA=1), m.node("MatMul", ["g", "x"], ["c"], "left"),
                 m.node("MatMul", ["p", "stack"], ["d"], "stacked"), m.node("Transpose", ["x"], ["t"], perm=[1, 0]), m.node("MatMul", ["x", "t"], ["e"], "both"),
                 m.node("MatMul", ["a", "t"], ["f"], "again"), m.node("ConvTranspose", ["image", "kernel"], ["h"], "up"), m.node("MatMul", ["w", "w"], ["k"], "ww"),
                 m.node("MatMul", ["x16", "w16"], ["l"], "half")]
        given = self.model(nodes, {"x": x, "p": p, "image": image, "x16": x.astype(np.float16)},
                           {"w": w, "g": self.normal(4, 4), "stack": stack, "kernel": kernel, "w16": w.astype(np.float16)}, "abcdefhkl")
        report, said = self.quantize(given)
        self.assertEqual(report["quantized"], ["plain"])
        reasons = {o["op"]: o["reason"] for o in report["not_quantized"]}
        self.assertEqual(reasons, {"turned": "the data is transposed", "left": "the weight is the left operand", "stacked": "the weight is a stack of matrices",
                                   "both": "both operands are data", "again": "both operands are data", "up": "a transposed convolution",
                                   "ww": "all operands are constant", "half": "computed in f16, and f32 is quantised"})
        self.assertIn("2 ops stay in f32: both operands are data (both, again)", said)
        self.assertIn("op half stays as it is: computed in f16", said)
        self.near(self.made(["x", "p", "image", "x16"], output="k"), w @ w, 0.9999999)
        report, _ = self.quantize(given, "--to", "int4-weights")
        self.assertEqual(report["quantized"], ["plain"])

    def test_layers_and_turns(self):
        x = self.normal(3, 1, 4)
        body = m.graph([m.node("MatMul", ["s", "w"], ["n"], "inner"), m.node("Identity", ["c"], ["o"])],
                       [m.value("i", (), 7), m.value("c", (), 9), m.value("s", (1, 4))], [m.value("o", (), 9), m.value("n", (1, 4))])
        nodes = [m.node("Squeeze", ["x", "axis"], ["r"]), m.node("MatMul", ["r", "w"], ["q"], "product"), m.node("Slice", ["q", "zero", "one"], ["b"]),
                 m.node("Loop", ["three", "yes", "b"], ["y"], "turns", body=body), m.node("LSTM", ["x", "lw", "lr"], ["", "z"], "layer", hidden_size=2)]
        given = self.model(nodes, {"x": x, "three": np.array(3)}, {"w": self.normal(4, 4, scale=0.3), "axis": np.array([1]), "zero": np.array([0]), "one": np.array([1]),
                                            "yes": np.array(True), "lw": self.normal(1, 8, 4), "lr": self.normal(1, 8, 2)}, "yz")
        report, said = self.quantize(given)
        self.assertEqual(report["quantized"], ["product"], said)
        reasons = {o["type"]: o["reason"] for o in report["not_quantized"]}
        self.assertEqual(reasons.get("loop"), "the graph in it has products, convolutions or layers", report["not_quantized"])
        self.assertEqual(reasons.get("lstm"), "a recurrent layer", report["not_quantized"])

    def test_nothing_to_quantise(self):
        """The error says what there was, and why it is none."""
        x = self.normal(4, 8)
        given = self.model([m.node("MatMul", ["h", "w"], ["q"], "half")], {"h": x.astype(np.float16)}, {"w": self.normal(8, 8).astype(np.float16)}, "q")
        said = self.opc("quantize", "model.onnx", *given, code=2).stderr
        self.assertIn("nothing of model.onnx can be quantised: op half stays as it is: computed in f16", said)
        # The way out that the help names.
        self.assertIn("opc compile model.onnx --cast-ops '*=f32' --emit onnx -o FILE", said)
        self.assertNotIn("--weights", said)
        self.opc("compile", "model.onnx", "--cast-ops", "*=f32", "--emit", "onnx", "-o", "wide.onnx")
        self.assertEqual(json.loads(self.opc("quantize", "wide.onnx", *given, "--json").stdout)["quantized"], ["half"])
        given = self.model([m.node("Relu", ["x"], ["y"])], {"x": x}, {})
        self.assertIn("it has no convolution or product of f32", self.opc("quantize", "model.onnx", *given, code=2).stderr)

    def test_long_sums_and_empty_ones(self):
        """Sums of 66,312 products of bytes may be over 2^31; an op without data has no range."""
        for terms, quantised in ((66311, ["p"]), (66312, [])):
            x, w = np.full((1, terms), 1, F32), np.full((terms, 2), 1, F32)
            given = self.model([m.node("MatMul", ["x", "w"], ["a"], "p"), m.node("MatMul", ["a", "v"], ["y"], "next")], {"x": x}, {"w": w, "v": np.eye(2, dtype=F32)})
            report, _ = self.quantize(given)
            self.assertEqual(report["quantized"], [*quantised, "next"])
            self.near(self.made(["x"]), x @ w)
            np.testing.assert_allclose(self.made(["x"]), x @ w, rtol=0.01)
        self.assertEqual([(o["op"], o["reason"]) for o in report["not_quantized"]], [("p", "sums of over 66311 products may not fit in 32 bits")])
        self.assertEqual(self.quantize([], "--to", "int8-weights")[0]["not_quantized"], [])  # computed in f32
        given = self.model([m.node("MatMul", ["x", "w"], ["a"], "p"), m.node("MatMul", ["z", "v"], ["b"], "nobody"), m.node("MatMul", ["s", "v"], ["y"], "some")],
                           {"x": np.zeros((4, 0), F32), "z": np.zeros((0, 2), F32), "s": np.ones((1, 2), F32)}, {"w": np.zeros((0, 5), F32), "v": np.eye(2, dtype=F32)}, "aby")
        report, _ = self.quantize(given)
        self.assertEqual({o["op"]: o["reason"] for o in report["not_quantized"]}, {"p": "the weight is empty", "nobody": "the data is empty"})

    # Examples.

    def test_inputs_without_a_common_batch(self):
        """Files of exactly the inputs' shapes are one batch: scalars, and first dimensions that differ."""
        x, past, c = self.normal(1, 8), self.normal(2, 3, 8), np.array(True)
        yes = m.graph([m.node("Identity", ["a"], ["t"])], [], [m.value("t", (1, 8))])
        no = m.graph([m.node("Neg", ["a"], ["n"])], [], [m.value("n", (1, 8))])
        nodes = [m.node("MatMul", ["x", "w"], ["a"], "p"), m.node("If", ["c"], ["k"], "choice", then_branch=yes, else_branch=no), m.node("Add", ["k", "past"], ["y"])]
        w = self.normal(8, 8)
        given = self.model(nodes, {"x": x, "past": past, "c": c}, {"w": w})
        report, said = self.quantize(given)
        self.assertEqual((report["quantized"], report["examples"], report["examples_left_over"]), (["p"], 1, 0), said)
        self.near(self.made(["x", "past", "c"]), x @ w + past)
        # A file of another shape: how many examples it has cannot be said.
        np.save(self.path("x.npy"), self.normal(4, 8))
        said = self.opc("quantize", "model.onnx", *given, code=2).stderr
        self.assertIn("OPC0704", said)
        self.assertIn("for each input a file of exactly its shape", said)
        np.save(self.path("x.npy"), x)
        np.save(self.path("c.npy"), np.array([True]))
        said = self.opc("quantize", "model.onnx", *given, code=2).stderr
        self.assertIn("is bool[1], the input is bool[]: it has no first dimension in which they may differ", said)

    def test_sizes_that_are_not_known(self):
        """The error names what this command takes."""
        x = self.normal(4, 8)
        given = self.model([m.node("MatMul", ["x", "w"], ["y"])], {"x": x}, {"w": self.normal(8, 8)}, shapes={"x": ("n", 8)})
        said = self.opc("quantize", "model.onnx", *given, code=3).stderr
        self.assertIn("OPC0207", said)
        self.assertNotIn("opc run", said)
        self.assertRegex(said, r"--shape x=|--dim n=")
        self.quantize(given, "--dim", "n=4")
        for shape in ("shape { dim: -1 dim: 8 } ", ""):
            with open(self.path("g.pbtxt"), "w") as f:
                f.write('op { name: "x" input_conf { out: "out" blob_conf { %s data_type: kFloat } } }\n'
                        'op { name: "w" variable_conf { out: "out" shape { dim: 8 dim: 8 } data_type: kFloat } }\n'
                        'op { name: "p" user_conf { op_type_name: "matmul" input { key: "a" value { s: "x/out" } } input { key: "b" value { s: "w/out" } } } }\n'
                        'op { name: "y" output_conf { in: "p/out_0" } }\n' % shape)
            said = self.opc("quantize", "g.pbtxt", *given, code=3).stderr
            self.assertIn("OPC0207", said)
            self.assertRegex(said, r"help: give one: --shape x=[0-9,]+\n")
        np.savez(self.path("g.npz"), w=self.normal(8, 8))
        self.opc("quantize", "g.pbtxt", "--weights", "g.npz", *given, "--shape", "x=4,8", "-o", "q.onnx")
        # A model that does not even say how many dimensions there are.
        values = [m.value("x", None)]
        with open(self.path("model.onnx"), "wb") as f:
            f.write(m.model(m.graph([m.node("MatMul", ["x", "w"], ["y"])], values, [m.value("y")], [m.tensor("w", self.normal(8, 8))])))
        for command in (["quantize", "model.onnx", *given], ["compile", "model.onnx", "--emit", "onnx", "-o", "q.onnx"]):
            said = self.opc(*command, code=3).stderr
            self.assertIn("error[OPC0207]", said)
            self.assertIn("bind them: --shape x=", said)
        self.quantize(given, "--shape", "x=4,8")

    def test_options_without_an_effect(self):
        self.model([m.node("MatMul", ["x", "w"], ["y"])], {"x": self.normal(4, 8)}, {"w": self.normal(8, 8)})
        for kind in ("int8-weights", "int4-weights", "bf16-weights"):
            for method in ("min-max", "entropy"):
                self.assertIn("--method is for --to int8", self.opc("quantize", "model.onnx", "--to", kind, "--method", method, code=2).stderr)

    # Ranges and the report.

    def test_entropy_leaves_zeros_out(self):
        """Behind a ReLU half or more of all values are 0, which 8 bits have exactly: the range is that of the others."""
        for shift, scale in ((0, 1), (-0.3, 0.3)):
            x = (self.normal(200, 500) * F32(scale) + F32(shift))
            want = np.maximum(x, 0)
            given = self.model([m.node("Relu", ["x"], ["r"]), m.node("MatMul", ["r", "w"], ["y"], "p")], {"x": x}, {"w": np.eye(500, 2, dtype=F32)})
            self.quantize(given, "--method", "entropy")
            scales = [np.frombuffer(t[9], F32)[0] for t in self.tensors("q.onnx") if t[8].endswith(b".scale") and len(t[9]) == 4]
            top = want.max()
            bound = least_entropy(want)
            self.assertGreater(bound, 0.75 * top)
            self.assertAlmostEqual(scales[0] * 255 / bound, 1, delta=1e-4)
            noise = ((np.clip(np.rint(want / scales[0]), 0, 255) * scales[0] - want) ** 2).sum()
            self.assertGreater(10 * np.log10((want.astype(np.float64) ** 2).sum() / noise), 30)
        self.model([m.node("Relu", ["x"], ["r"]), m.node("MatMul", ["r", "w"], ["y"], "p")], {"x": -np.abs(x)}, {"w": np.eye(500, 2, dtype=F32)})
        self.quantize(given, "--method", "entropy")  # nothing but zeros

    def tensors(self, model):
        with open(self.path(model), "rb") as f:
            graph = next(body for number, body in m.fields(f.read()) if number == 7)
        return [{9: b"", **dict(m.fields(body))} for number, body in m.fields(graph) if number == 5]

    def test_rounding_noise_does_not_lead_the_table(self):
        """The mean of what was centred is 0 but for rounding: what its bits are says nothing."""
        x = self.normal(64, 32)
        nodes = [m.node("MatMul", ["x", "w"], ["a"], "p"), m.node("ReduceMean", ["a"], ["u"], "mean", axes=[-1]), m.node("Sub", ["a", "u"], ["b"], "centre"),
                 m.node("ReduceMean", ["b"], ["v"], "noise", axes=[-1]), m.node("Sub", ["b", "v"], ["y"], "again")]
        given = self.model(nodes, {"x": x}, {"w": self.normal(32, 32)})
        report, _ = self.quantize(given)
        by = {t["op"]: t for t in report["tensors"]}
        self.assertTrue(by["noise"]["negligible"], by)
        self.assertLess(by["noise"]["snr_db"], 20)
        self.assertEqual([op for op in by if by[op]["negligible"]], ["noise"])
        self.assertEqual(report["tensors"][-1]["op"], "noise")
        table = self.opc("quantize", "model.onnx", *given).stdout
        self.assertEqual(len(table.splitlines()), 1 + len(by) - 1, table)
        self.assertNotIn(by["noise"]["tensor"], table)


if __name__ == "__main__":
    unittest.main()
