"""The transformer of docs/examples/transformer_python: at most 60 lines, one text, PyTorch's numbers step by step; an MLP and a CNN beside it."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import opc

try:
    import torch
except ImportError:
    torch = None

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
EXAMPLE = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "transformer_python")
sys.path.insert(0, EXAMPLE)
import transformer as ours  # noqa: E402


def torch_names(model):
    """opc's names and layouts for PyTorch's parameters."""
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    for name, parameter in model.named_parameters():
        owner, kind = name.rsplit(".", 1)
        yield name.replace("layers.", "layer"), parameter, owner in linear and kind == "weight"


class Transformer(unittest.TestCase):
    def test_at_most_60_lines(self):
        with open(os.path.join(EXAMPLE, "transformer.py"), encoding="utf-8") as f:
            self.assertLessEqual(len(f.read().splitlines()), 60)

    def test_the_same_text_every_time(self):
        a, b = (ours.build().training_step("loss", opc.optim.AdamW(1e-3)) for _ in range(2))
        self.assertEqual(a.text(), b.text())
        self.assertEqual(ours.build().text(), ours.build().text())

    def test_saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.pbtxt")
            ours.build().save(path)
            data = {k: v[: ours.BATCH] for k, v in ours.data().items()}
            np.testing.assert_array_equal(opc.load(path).compile().run(**data)["logits"], ours.build().compile().run(**data)["logits"])

    @unittest.skipIf(torch is None, "no torch")
    def test_beside_torch_step_by_step(self):
        import transformer_torch as theirs

        program = ours.build().training_step("loss", opc.optim.AdamW(1e-3, weight_decay=0.01)).compile()
        model = theirs.Transformer()
        with torch.no_grad():
            for name, parameter, is_transposed in torch_names(model):
                value = program.variables[name]
                parameter.copy_(torch.from_numpy(value.T.copy() if is_transposed else value))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.01)
        data = ours.data()
        for i in range(4):
            rows = slice(i * ours.BATCH, (i + 1) * ours.BATCH)
            batch = {k: v[rows] for k, v in data.items()}
            expected = theirs.training_step(model, optimizer, *(torch.from_numpy(batch[k]).long() for k in ("tokens", "labels")))
            self.assertAlmostEqual(float(program.run(**batch)["loss"]), expected, places=4, msg=f"step {i}")
            for name, parameter, is_transposed in torch_names(model):
                found = program.variables[name]
                np.testing.assert_allclose(found.T if is_transposed else found, parameter.detach().numpy(), rtol=2e-3, atol=2e-4, err_msg=f"{name}, step {i}")


class Command(unittest.TestCase):
    """What Python trained, the command line runs: the same bits."""

    def check(self, graph, data):
        step = graph.training_step("loss", opc.optim.Adam(1e-3))
        program = step.compile()
        for _ in range(3):
            program.run(**data)
        with tempfile.TemporaryDirectory() as folder:
            graph.save(os.path.join(folder, "g.pbtxt"))
            step.save(os.path.join(folder, "step.pbtxt"))
            program.save_weights(os.path.join(folder, "w.safetensors"))
            np.savez(os.path.join(folder, "in.npz"), **data)
            for name in ("g", "step"):
                subprocess.run([OPC, "--config", "none", "run", f"{name}.pbtxt", "--weights", "w.safetensors", "--inputs", "in.npz", "--output", f"loss={name}.npy", "--print", "none"],
                               cwd=folder, check=True, capture_output=True)  # fmt: skip
            forward = graph.compile()
            forward.load_weights(os.path.join(folder, "w.safetensors"), partial=True)
            np.testing.assert_array_equal(np.load(os.path.join(folder, "g.npy")), forward.run(**data)["loss"])
            np.testing.assert_array_equal(np.load(os.path.join(folder, "step.npy")), program.run(**data)["loss"])

    def test_mlp(self):
        import test_training

        self.check(test_training.forward(), {"x": test_training.X[:16], "t": test_training.T[:16]})

    def test_cnn(self):
        rng = np.random.default_rng(3)
        self.check(Cnn.build(), {"x": rng.standard_normal((8, 1, 8, 8)).astype("f"), "t": rng.integers(0, 3, 8).astype("i4")})

    def test_transformer(self):
        self.check(ours.build(), {k: v[: ours.BATCH] for k, v in ours.data().items()})


class Page(unittest.TestCase):
    def test_the_page_shows_these_programs(self):
        docs = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs")
        with open(os.path.join(docs, "python.md"), encoding="utf-8") as f:
            blocks = [b.split("```")[0].strip() for b in f.read().split("```python\n")[1:]]
        first, _, mine, theirs = blocks
        for block, name in ((mine, "transformer.py"), (theirs, "transformer_torch.py")):
            with open(os.path.join(EXAMPLE, name), encoding="utf-8") as f:
                self.assertIn(block, f.read())
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            exec(compile(first, "python.md", "exec"), {})
        self.assertEqual(shown.getvalue().count("["), 3)  # an array of two rows


class Cnn(unittest.TestCase):
    @staticmethod
    def build():
        g = opc.Graph("cnn")
        x, t = g.input("x", (8, 1, 8, 8)), g.input("t", (8,), "i32")
        w = g.variable("conv.weight", (4, 1, 3, 3), init=opc.init.normal(std=0.3))
        h = opc.ops.conv2d(x, w, g.variable("conv.bias", (4,), init=0), filters=4, kernel_size=[3, 3], strides=[1, 1], padding_before=[1, 1], dilation_rate=[1, 1],
                           groups=1, data_format="channels_first")  # fmt: skip
        h = opc.ops.relu(h).reshape(8, 4 * 64)
        y = h @ g.variable("head.weight", (256, 3), init=opc.init.normal(std=0.1)) + g.variable("head.bias", (3,), init=0)
        g.output("loss", opc.ops.sparse_softmax_cross_entropy(y, t).out.mean())
        return g

    @unittest.skipIf(torch is None, "no torch")
    def test_beside_torch_step_by_step(self):
        conv, head = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Linear(256, 3)
        pairs = {"conv.weight": conv.weight, "conv.bias": conv.bias, "head.weight": head.weight, "head.bias": head.bias}
        rng = np.random.default_rng(3)
        x, t = rng.standard_normal((8, 1, 8, 8)).astype("f"), rng.integers(0, 3, 8).astype("i4")
        same_steps(self, self.build(), pairs, lambda given: head(torch.relu(conv(given)).flatten(1)), x, t)


class Mlp(unittest.TestCase):
    @staticmethod
    def build():
        g = opc.Graph("mlp")
        x, t = g.input("x", (16, 20)), g.input("t", (16,), "i32")
        h = opc.ops.tanh(x @ g.variable("fc.weight", (20, 32), init=opc.init.normal(std=0.2)) + g.variable("fc.bias", (32,), init=0))
        y = h @ g.variable("head.weight", (32, 5), init=opc.init.normal(std=0.2)) + g.variable("head.bias", (5,), init=0)
        g.output("loss", opc.ops.sparse_softmax_cross_entropy(y, t).out.mean())
        return g

    @unittest.skipIf(torch is None, "no torch")
    def test_beside_torch_step_by_step(self):
        fc, head = torch.nn.Linear(20, 32), torch.nn.Linear(32, 5)
        pairs = {"fc.weight": fc.weight, "fc.bias": fc.bias, "head.weight": head.weight, "head.bias": head.bias}
        rng = np.random.default_rng(4)
        x, t = rng.standard_normal((16, 20)).astype("f"), rng.integers(0, 5, 16).astype("i4")
        same_steps(self, self.build(), pairs, lambda given: head(torch.tanh(fc(given))), x, t)


def same_steps(test, graph, pairs, forward, x, t):
    """Six steps of SGD with momentum, here and in PyTorch, from the same weights: losses and every parameter after each."""
    program = graph.training_step("loss", opc.optim.SGD(0.1, momentum=0.9)).compile()
    turned = {name for name, parameter in pairs.items() if parameter.dim() == 2}  # PyTorch has (out, in)
    with torch.no_grad():
        for name, parameter in pairs.items():
            value = program.variables[name]
            parameter.copy_(torch.from_numpy(value.T.copy() if name in turned else value))
    optimizer = torch.optim.SGD(list(pairs.values()), 0.1, momentum=0.9)
    for i in range(6):
        loss = torch.nn.functional.cross_entropy(forward(torch.from_numpy(x)), torch.from_numpy(t).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        test.assertAlmostEqual(float(program.run(x=x, t=t)["loss"]), loss.item(), places=5, msg=f"step {i}")
        for name, parameter in pairs.items():
            found = program.variables[name]
            np.testing.assert_allclose(found.T if name in turned else found, parameter.detach().numpy(), rtol=1e-4, atol=1e-5, err_msg=f"{name}, step {i}")


if __name__ == "__main__":
    unittest.main()
