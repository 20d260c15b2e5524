"""The digits classifier with an activation and a loss in Python trains to the weights of the graph that is all C++."""
# SPDX-License-Identifier: Apache-2.0
import os
import unittest

import numpy as np

import opc

DIGITS = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "examples", "digits")
BATCH, EPOCHS = 64, 5


def data(name):
    return np.load(os.path.join(DIGITS, name + ".npy"))


@opc.op("digits::relu", sbp=opc.elementwise, like="x")
def relu(x):
    return np.maximum(x, np.float32(0))


@relu.grad(needs=["y"])
def _(dy, *, y):
    return np.where(y > 0, dy, np.float32(0))


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@opc.op("digits::cross_entropy", shape={"y": ("logits[0]",)}, no_grad=("label",))
def cross_entropy(logits, label):
    return -np.log(softmax(logits)[np.arange(len(label)), label])


@cross_entropy.grad
def _(dy, *, logits, label):
    p = softmax(logits)
    p[np.arange(len(label)), label] -= 1
    return p * dy[:, None]


def built_in_loss(logits, label):
    return opc.ops.sparse_softmax_cross_entropy(logits, label).out


def network(activation, batch=BATCH):
    g = opc.Graph("digits")
    h, sizes = g.input("image", (batch, 64)), (64, 128, 64, 10)
    for i in range(3):
        w, b = g.variable(f"w{i}", sizes[i : i + 2], init=opc.init.normal(std=sizes[i] ** -0.5)), g.variable(f"b{i}", sizes[i + 1 : i + 2], init=0)
        h = h @ w + b
        h = activation(h) if i < 2 else h
    g.output("logits", h)
    return g, h


def trained(activation, loss):
    g, logits = network(activation)
    g.output("loss", loss(logits, g.input("label", (BATCH,), "i32")).mean())
    step = g.training_step("loss", opc.optim.SGD(0.1, momentum=0.9))
    run = opc.train(step, {"image": data("train_images"), "label": data("train_labels")}, epochs=EPOCHS, shuffle=True, seed=3)
    return {name: np.array(run.variables[name]) for name in g.variables}


def correct(weights):
    """How many of the held-out digits are read right, by numpy."""
    h = data("test_images")
    for i in range(3):
        h = h @ weights[f"w{i}"] + weights[f"b{i}"]
        h = np.maximum(h, 0) if i < 2 else h
    return int((h.argmax(1) == data("test_labels")).sum())


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = trained(opc.ops.relu, built_in_loss)

    def test_the_data_is_learnt(self):
        self.assertGreater(correct(self.expected), 330)  # of 360

    def test_an_activation_in_python_gives_the_same_bits(self):
        for name, found in trained(relu, built_in_loss).items():
            np.testing.assert_array_equal(found, self.expected[name], name)

    def test_with_a_loss_in_python_too(self):
        found = trained(relu, cross_entropy)
        for name, expected in self.expected.items():  # exp and the order of sums are numpy's
            np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=2e-4, err_msg=name)
        self.assertEqual(correct(found), correct(self.expected))


if __name__ == "__main__":
    unittest.main()
