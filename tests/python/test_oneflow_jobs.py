"""Jobs in OneFlow's style beside numpy: functions, optimizers, schedules, variables that jobs share, what a job gives."""
# SPDX-License-Identifier: Apache-2.0
import unittest

from test_oneflow import Programs

HEAD = r'''
import math
import numpy as np
import oneflow as flow
import oneflow.typing as tp

np.random.seed(0)
'''
FUNCTIONS = HEAD + r'''
A, B = np.random.rand(2, 3).astype("f") + 0.5, np.random.rand(3, 2).astype("f")
L = np.array([1, 0], np.int32)


@flow.global_function()
def job(a: tp.Numpy.Placeholder((2, 3)), b: tp.Numpy.Placeholder((3, 2)), l: tp.Numpy.Placeholder((2,), dtype=flow.int32)):
    m = flow.math
    c = flow.transpose(b)
    return (m.add(a, c), m.subtract(a, c), m.multiply(a, c), m.divide(c, a), m.relu(m.negative(a)), m.sigmoid(a), m.tanh(a), m.exp(a),
            m.log(a), m.sqrt(a), m.square(a), m.abs(m.negative(a)), m.reduce_sum(a, axis=1), m.reduce_mean(a), flow.matmul(a, b),
            flow.matmul(a, c, transpose_b=True), flow.reshape(a, (3, -1)), flow.cast(a, flow.int32), flow.nn.softmax(a), flow.nn.relu(a),
            flow.nn.sparse_softmax_cross_entropy_with_logits(l, a))


C = B.T
S = np.exp(A) / np.exp(A).sum(1, keepdims=True)
expected = (A + C, A - C, A * C, C / A, 0 * A, 1 / (1 + np.exp(-A)), np.tanh(A), np.exp(A), np.log(A), np.sqrt(A), A * A, A, A.sum(1),
            A.mean(), A @ B, A @ C.T, A.reshape(3, 2), A.astype("i"), S, A, -np.log(S[[0, 1], L]))
found = job(A, B, L).get()
assert len(found) == len(expected)
for blob, value in zip(found, expected):
    assert blob.shape == np.shape(value)
    np.testing.assert_allclose(blob.numpy(), value, rtol=2e-5)


@flow.global_function()
def called(a: tp.Numpy.Placeholder((2, 3))) -> tp.Callback[tp.Numpy]:
    flow.watch(a, watched.append)
    return a * a


watched, given = [], []
called(A)(given.append)
np.testing.assert_allclose(given[0], A * A, rtol=1e-6)
np.testing.assert_array_equal(watched[0].numpy(), A)
print("fine")
'''
TRAINING = HEAD + r'''
def make(optimizer, name):
    @flow.global_function(type="train")
    def train(x: tp.Numpy.Placeholder((3,))) -> tp.Numpy:
        w = flow.get_variable(name, (3,), initializer=flow.constant_initializer(1.0))
        loss = flow.math.reduce_sum(w * w * x)
        optimizer.minimize(loss)
        return loss

    @flow.global_function()
    def look() -> tp.Numpy:
        return flow.get_variable(name, (3,), initializer=flow.constant_initializer(1.0)) * 1.0

    return train, look


def follow(optimizer, name, update):
    """Five steps in f32 (as 1 - beta2 is) beside `update(step, w, gradient)` in numpy."""
    train, look = make(optimizer, name)
    x, w = np.array([1, 2, -0.5], np.float32), np.ones(3)
    np.testing.assert_array_equal(look(), w)
    for step in range(5):
        np.testing.assert_allclose(train(x), np.sum(w * w * x), rtol=1e-4, atol=1e-6)
        w = update(step, w, 2 * w * x)
        np.testing.assert_allclose(look(), w, rtol=1e-4, atol=1e-6)
    return train, look


o = flow.optimizer
constant = o.PiecewiseConstantScheduler([], [0.1])
state = {"m": 0, "v": 0}


def momentum(step, w, g):
    state["m"] = 0.9 * state["m"] + g
    return w - 0.1 * state["m"]


follow(o.SGD(constant), "a", momentum)


def adam(step, w, g, corrected=False):
    state["m"] = 0.9 * (state["m"] if step else 0) + 0.1 * g
    state["v"] = 0.999 * (state["v"] if step else 0) + 0.001 * g * g
    one, two = ((1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)) if corrected else (1, 1))
    return w - 0.1 * (state["m"] / one) / (np.sqrt(state["v"] / two) + 1e-8)


follow(o.Adam(constant), "b", adam)
follow(o.Adam(constant, do_bias_correction=True), "c", lambda s, w, g: adam(s, w, g, True))
cosine = o.CosineScheduler(0.1, 4)
follow(o.SGD(cosine, momentum=0), "d", lambda s, w, g: w - 0.1 * 0.5 * (1 + math.cos(math.pi * min(s, 4) / 4)) * g)
rising = o.PiecewiseConstantScheduler([], [0.1], warmup=o.warmup.linear(4, 0.5))
follow(o.SGD(rising, momentum=0), "e", lambda s, w, g: w - 0.1 * (0.5 + 0.5 * min(s, 4) / 4) * g)
clipped = o.SGD(constant, momentum=0, grad_clipping=o.grad_clipping.by_global_norm(1.0))
train, look = follow(clipped, "f", lambda s, w, g: w - 0.1 * g * min(1, 1 / np.linalg.norm(g)))

saved = look()
flow.checkpoint.save("all.npz")
train(np.ones(3, np.float32))
assert not np.array_equal(look(), saved)
flow.checkpoint.load("all.npz")
np.testing.assert_array_equal(look(), saved)
flow.checkpoint.load("all.npz")
flow.checkpoint.save("again")  # under this very name, with what no job has read yet
assert {n: v.tolist() for n, v in np.load("again").items()} == {n: v.tolist() for n, v in np.load("all.npz").items()}
flow.checkpoint.load("again")
np.testing.assert_array_equal(look(), saved)
print("fine")
'''

VARIABLES = HEAD + r'''
def job_of(**again):
    @flow.global_function()
    def job(x: tp.Numpy.Placeholder((3,))) -> tp.Numpy:
        w = flow.get_variable("w", (3,), initializer=flow.constant_initializer(2.0))
        return x * w * flow.get_variable("w", **again)

    return job


x = np.ones(3, np.float32)
np.testing.assert_array_equal(job_of()(x), [4, 4, 4])
np.testing.assert_array_equal(job_of(shape=(3,), dtype=flow.float32)(x), [4, 4, 4])
for again, says in (({"shape": (1,)}, "has shape (3,), and flow.get_variable asks for (1,)"), ({"dtype": flow.double}, "has dtype f32, and flow.get_variable asks for f64"),
                    ({"shape": (3,), "reuse": False}, "reuse=False) wants a new one")):
    try:
        job_of(**again)(x)
        raise SystemExit(f"{again} was taken")
    except ValueError as e:
        assert says in str(e), e
print("fine")
'''


class Jobs(Programs):
    def test_functions(self):
        self.write("functions.py", FUNCTIONS)
        self.prints("functions.py", "fine\n")

    def test_training(self):
        self.write("training.py", TRAINING)
        self.prints("training.py", "fine\n")

    def test_a_variable_that_a_job_has_already(self):
        self.write("variables.py", VARIABLES)
        self.prints("variables.py", "fine\n")


if __name__ == "__main__":
    unittest.main()
