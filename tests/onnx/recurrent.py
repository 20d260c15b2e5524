# Recurrent layers from end to end: taggers of PyTorch run, differentiated and trained beside it; nodes of ONNX; bad input.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import unittest

import numpy as np

from folder_test import FolderTest

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
F32 = np.float32


class Case(FolderTest):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(11)  # a test alone draws what it draws among the others

    def uniform(self, *shape):
        return self.random.uniform(-1, 1, shape).astype(F32)

    def opc(self, *words, code=0):
        done = subprocess.run([OPC, *words], cwd=self.folder, capture_output=True, text=True, timeout=120, errors="replace")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def save(self, name, array):
        np.save(self.path(name), array)
        return "@" + name

    def model(self, op, inputs, count, name="model.onnx", opset=17, **attributes):
        """A model of one node; inputs are arrays, or None where one is left out. The first and the integers are its inputs."""
        names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
        given = [k for k, a in enumerate(inputs) if a is not None and (k == 0 or a.dtype != F32)]
        data = m.model(m.graph([m.node(op, names, [f"o{k}" for k in range(count)], "layer", **attributes)],
                               [m.value(names[k], inputs[k].shape, m.ELEMENT[inputs[k].dtype]) for k in given],
                               [m.value(f"o{k}", None, 0) for k in range(count)],
                               [m.tensor(names[k], a) for k, a in enumerate(inputs) if a is not None and k not in given]), opset=opset)
        with open(self.path(name), "wb") as f:
            f.write(data)
        return [x for k in given for x in ("--input", f"i{k}={self.save(f'i{k}.npy', inputs[k])}")]

    def run_node(self, op, inputs, count, **attributes):
        given = self.model(op, inputs, count, **attributes)
        self.opc("run", "model.onnx", *given, "--quiet", "--outputs", "out")
        return [np.load(self.path(f"out/o{k}.npy")) for k in range(count)]


def tagger(kind, batch):
    """A module, its tokens and labels."""

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.tags = nn.Embedding(20, 8), nn.Linear(24, 5)
            self.layers = getattr(nn, kind)(8, 12, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, tokens, labels):
            logits = self.tags(self.layers(self.table(tokens))[0])
            return logits, nn.functional.cross_entropy(logits.reshape(-1, 5), labels.reshape(-1))

    torch.manual_seed(3)
    return Tagger(), torch.randint(0, 20, (batch, 7)), torch.randint(0, 5, (batch, 7))


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Taggers(Case):
    """Two bidirectional layers; the expected values are PyTorch's."""

    def export(self, module, tokens, labels, training):
        import warnings

        mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, (tokens, labels), self.path("tagger.onnx"), input_names=["tokens", "labels"],
                              output_names=["logits", "loss"], opset_version=16, training=mode, do_constant_folding=not training)
        return ["--input", "tokens=" + self.save("tokens.npy", tokens.numpy()), "--input", "labels=" + self.save("labels.npy", labels.numpy())]

    def test_outputs(self):
        """As models are exported to be run: with constants folded."""
        for kind in ("LSTM", "GRU", "RNN"):
            for batch in (1, 4):
                with self.subTest(kind=kind, batch=batch):
                    module, tokens, labels = tagger(kind, batch)
                    given = self.export(module, tokens, labels, training=False)
                    self.opc("run", "tagger.onnx", *given, "--quiet", "--outputs", "out")
                    with torch.no_grad():
                        logits, loss = module(tokens, labels)
                    np.testing.assert_allclose(np.load(self.path("out/logits.npy")), logits.numpy(), rtol=1e-5, atol=1e-6)
                    np.testing.assert_allclose(np.load(self.path("out/loss.npy")), loss.item(), rtol=1e-6)
                    shown = self.opc("show", "tagger.onnx").stdout
                    self.assertRegex(shown, rf"2 +{kind.lower()}\b")

    def test_gradients(self):
        for kind in ("LSTM", "GRU", "RNN"):
            with self.subTest(kind=kind):
                module, tokens, labels = tagger(kind, 4)
                given = self.export(module, tokens, labels, training=True)
                self.opc("grad", "tagger.onnx", "--loss", "loss", "-o", "g.pbtxt", "--weights-out", "w.safetensors")
                self.opc("run", "g.pbtxt", "--weights", "w.safetensors", *given, "--quiet", "--outputs", "grads")
                module(tokens, labels)[1].backward()
                compared = 0
                for name, parameter in module.named_parameters():
                    ours = np.load(self.path(f"grads/{name}.grad.npy"))
                    np.testing.assert_allclose(ours, parameter.grad.numpy(), rtol=1e-4, atol=1e-7, err_msg=name)
                    compared += int(np.any(ours != 0))
                self.assertEqual(compared, 19)

    def test_gradients_are_checked(self):
        for kind in ("LSTM", "GRU"):
            module, tokens, labels = tagger(kind, 2)
            given = self.export(module, tokens, labels, training=True)
            said = self.opc("grad", "tagger.onnx", "--loss", "loss", "--wrt", "layers.weight_hh_l0_reverse", "--wrt", "table.weight",
                            "--wrt", "layers.bias_ih_l1", *given, "--check").stdout
            self.assertIn("layers.weight_hh_l0_reverse", said)

    def test_training(self):
        """The same losses, step by step."""
        for kind, optimizer, rate in (("LSTM", "sgd", 0.5), ("GRU", "adam", 0.01)):
            with self.subTest(kind=kind):
                module, _, _ = tagger(kind, 4)
                tokens, labels = torch.randint(0, 20, (12, 7)), torch.randint(0, 5, (12, 7))
                self.export(module, tokens[:4], labels[:4], training=True)
                self.save("all_tokens.npy", tokens.numpy()), self.save("all_labels.npy", labels.numpy())
                self.opc("grad", "tagger.onnx", "--loss", "loss", "--optimizer", optimizer, "--lr", str(rate), "-o", "train.pbtxt",
                         "--weights-out", "w.safetensors")
                self.opc("run", "train.pbtxt", "--weights", "w.safetensors", "--feed-dataset", "tokens=@all_tokens.npy,labels=@all_labels.npy",
                         "--batch", "4", "--partial-weights", "--steps", "9", "--metrics", "m.jsonl", "--save", "after.safetensors")
                with open(self.path("m.jsonl"), encoding="utf-8") as f:
                    ours = [json.loads(line)["loss"] for line in f]
                step = (torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam)(module.parameters(), lr=rate)
                theirs = []
                for k in range(9):
                    part = slice(4 * (k % 3), 4 * (k % 3) + 4)
                    step.zero_grad()
                    loss = module(tokens[part], labels[part])[1]
                    theirs.append(loss.item())
                    loss.backward()
                    step.step()
                np.testing.assert_allclose(ours, theirs, rtol=2e-5)
                self.assertLess(sum(ours[-3:]), sum(ours[:3]))  # an epoch


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Nodes(Case):
    """Forms that exporters write and ONNX's own cases do not have."""

    def test_reverse_with_lengths(self):
        """A sequence is read from its own end, and y is 0 behind it."""
        x, w, r = self.uniform(5, 3, 2), self.uniform(1, 4, 2), self.uniform(1, 4, 4)
        lengths = np.array([5, 2, 3], np.int32)
        y, last = self.run_node("RNN", [x, w, r, None, lengths], 2, hidden_size=4, direction="reverse")
        want = np.zeros((5, 1, 3, 4))
        for b, n in enumerate(lengths):
            h = np.zeros(4)
            for t in range(n - 1, -1, -1):
                h = np.tanh(w[0] @ x[t, b] + r[0] @ h)
                want[t, 0, b] = h
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(last[0], want[0, 0], rtol=1e-5, atol=1e-6)

    def test_names_of_functions_in_any_case_and_numbers_to_spare(self):
        x, w, r = self.uniform(3, 2, 2), self.uniform(1, 3, 2), self.uniform(1, 3, 3)
        y, _ = self.run_node("RNN", [x, w, r], 2, hidden_size=3, activations=["leakyrelu"], activation_alpha=[0.25, 7.0])
        h = np.zeros((2, 3))
        for t in range(3):
            h = x[t] @ w[0].T + h @ r[0].T
            h = np.where(h < 0, 0.25 * h, h)
            np.testing.assert_allclose(y[t, 0], h, rtol=1e-5, atol=1e-6)

    def test_the_first_operator_set(self):
        x, w, r, b = self.uniform(3, 2, 2), self.uniform(1, 9, 2), self.uniform(1, 9, 3), self.uniform(1, 18)
        y, last = self.run_node("GRU", [x, w, r, b], 2, opset=1, hidden_size=3, output_sequence=1)
        h, wb, rb = np.zeros((2, 3)), b[0, :9], b[0, 9:]
        for t in range(3):
            a = x[t] @ w[0].T + wb
            s = h @ r[0, :6].T + rb[:6]
            z, reset = sigmoid(a[:, :3] + s[:, :3]), sigmoid(a[:, 3:6] + s[:, 3:])
            h = (1 - z) * np.tanh(a[:, 6:] + (reset * h) @ r[0, 6:].T + rb[6:]) + z * h
            np.testing.assert_allclose(y[t, 0], h, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(last[0], h, rtol=1e-5, atol=1e-6)

    def test_a_long_sequence(self):
        """One op, whatever the number of steps; threads change no bit."""
        x, w, r = self.uniform(6000, 1, 3), self.uniform(2, 16, 3), 0.3 * self.uniform(2, 16, 4)
        given = self.model("LSTM", [x, w, r], 1, hidden_size=4, direction="bidirectional")
        for threads in ("1", "2"):
            self.opc("run", "model.onnx", *given, "--quiet", "-j", threads, "--outputs", "out" + threads)
        one, two = (np.load(self.path(f"out{k}/o0.npy")) for k in "12")
        np.testing.assert_array_equal(one, two)
        self.assertEqual(one.shape, (6000, 2, 1, 4))
        self.assertTrue(np.all(np.isfinite(one)) and np.ptp(one) > 0.1)

    def test_large_steps_on_several_threads(self):
        """Where a step is large its product and its gates are shared out."""
        x, w, r = self.uniform(3, 40, 64), 0.1 * self.uniform(2, 512, 64), 0.1 * self.uniform(2, 512, 128)
        given = self.model("LSTM", [x, w, r], 1, hidden_size=128, direction="bidirectional")
        for threads in ("1", "2", "3"):
            self.opc("run", "model.onnx", *given, "--quiet", "-j", threads, "--outputs", "out" + threads)
        first = np.load(self.path("out1/o0.npy"))
        for threads in "23":
            np.testing.assert_array_equal(first, np.load(self.path(f"out{threads}/o0.npy")))
        h, c = np.zeros((40, 128)), np.zeros((40, 128))
        for t in range(3):
            i, o, f, g = np.split(x[t] @ w[0].T.astype(float) + h @ r[0].T, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            np.testing.assert_allclose(first[t, 0], h, rtol=1e-4, atol=1e-6)


GRAPH = """op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 3 dim: 2 dim: 4 }} data_type: kFloat }} }} }}
op {{ name: "n" input_conf {{ out: "out" blob_conf {{ shape {{ dim: 2 }} data_type: kInt32 }} }} }}
op {{ name: "w" variable_conf {{ out: "out" shape {{ dim: 1 dim: {gates} dim: 4 }} data_type: kFloat initializer {{ random_normal_conf {{ std: 0.1 }} }} }} }}
op {{ name: "r" variable_conf {{ out: "out" shape {{ dim: 1 dim: 12 dim: 3 }} data_type: kFloat initializer {{ random_normal_conf {{ std: 0.1 }} }} }} }}
op {{ name: "layer" user_conf {{ op_type_name: "lstm" input {{ key: "x" value {{ s: "x/out" }} }} input {{ key: "weight" value {{ s: "w/out" }} }}
  input {{ key: "recurrence" value {{ s: "r/out" }} }} input {{ key: "lengths" value {{ s: "n/out" }} }}
  output {{ key: "y" value {{ s: "layer/y_0" }} }} output {{ key: "y_h" value {{ s: "layer/y_h_0" }} }} output {{ key: "y_c" value {{ s: "layer/y_c_0" }} }}
  {attrs} }} }}
op {{ name: "y" output_conf {{ in: "layer/y_0" out: "out" }} }}
"""


class Numbers(Case):
    def test_a_test_alone_draws_the_same(self):
        """Whatever ran before it, a test begins with these."""
        np.testing.assert_array_equal(self.uniform(3, 2), np.random.default_rng(11).uniform(-1, 1, (3, 2)).astype(F32))


class BadInput(Case):
    def graph(self, attrs="", gates=12):
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(GRAPH.format(attrs=attrs, gates=gates))
        return "g.pbtxt"

    def refused(self, code, *words, graph, command=("show",), exit=3):
        said = self.opc(*command, graph, code=exit).stderr
        for word in (code, "layer", *words):
            self.assertIn(word, said)

    def test_attributes(self):
        def attr(name, value):
            return f'attr {{ key: "{name}" value {{ {value} }} }}'

        self.opc("show", self.graph(attr("direction", 'at_string: "reverse"')))
        self.refused("OPC0205", "direction is \"both\"", '"bidirectional"', graph=self.graph(attr("direction", 'at_string: "both"')))
        self.refused("OPC0205", "activations has 2 names, expected 3", graph=self.graph(attr("activations", 'at_list_string { val: "Tanh" val: "Tanh" }')))
        self.refused("OPC0205", 'activations has "Swish"', "there are Sigmoid, Tanh",
                     graph=self.graph(attr("activations", 'at_list_string { val: "Swish" val: "Tanh" val: "Tanh" }')))
        self.refused("OPC0205", "activation_alpha has 1 values, and the activations take 0",
                     graph=self.graph(attr("activation_alpha", "at_list_float { val: 0.5 }")))
        self.refused("OPC0205", "clip is -1", graph=self.graph(attr("clip", "at_double: -1")))

    def test_shapes(self):
        self.refused("OPC0203", "weight is f32[1,16,4], expected (1,12,4)", graph=self.graph(gates=16))

    def test_lengths_beyond_the_steps(self):
        self.opc("run", self.graph(), "--input", "x=rand", "--input", "n=3,0")
        said = self.opc("run", self.graph(), "--input", "x=rand", "--input", "n=1,4", code=5).stderr
        self.assertIn("lengths[1] = 4 is outside [0, 4)", said)
        self.assertIn("layer", said)

    def test_nodes(self):
        """What is wrong with a node is said with its place."""
        x, w, r = self.uniform(3, 2, 2), self.uniform(1, 4, 2), self.uniform(1, 4, 4)
        for attributes, words in (({"hidden_size": 5}, ("'hidden_size' is 5",)), ({"direction": "sideways"}, ("'direction' is 'sideways'",)),
                                  ({"activations": ["Mish"]}, ('activations has "Mish"',)), ({"direction": "bidirectional"}, ("weight is f32[1,4,2]",))):
            self.model("RNN", [x, w, r], 1, **attributes)
            said = self.opc("show", "model.onnx", code=3).stderr
            for word in (*words, 'node 0 "layer"'):
                self.assertIn(word, said)

    def test_second_derivatives(self):
        """Refused, and not left out."""
        self.opc("grad", self.graph(), "--loss", "y", "--dy", "--wrt", "x", "-o", "first.pbtxt")
        with open(self.path("first.pbtxt"), encoding="utf-8") as f:
            text = f.read().replace('"x.grad"', '"first_x"')
        with open(self.path("first.pbtxt"), "w", encoding="utf-8") as f:
            f.write(text)
        said = self.opc("grad", "first.pbtxt", "--loss", "first_x", "--dy", "--wrt", "x", "-o", "second.pbtxt", code=3).stderr
        self.assertIn("second derivatives of lstm are not provided", said)


if __name__ == "__main__":
    unittest.main()
