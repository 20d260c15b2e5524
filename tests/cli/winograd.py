# 3x3 convolutions by minimal filtering: near f64, the same bits for threads, batches, processors and programs, direct where numbers are far apart or with --no-winograd; in training beside PyTorch.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

import numpy as np

from code_levels import SETTINGS
from folder_test import FolderTest

try:
    import torch
except ImportError:
    torch = None

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
RUNTIME = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc-runtime")
BATCH = 3
# (channels, filters, side), the last one with channels to spare: computed directly
SHAPES = ((32, 48, 30), (64, 64, 16), (144, 96, 13), (40, 32, 29))


def dims(*shape):
    return "shape { " + " ".join(f"dim: {d}" for d in shape) + " }"


def op(name, kind, inputs, out, attrs=""):
    args = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
    return f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {args} output {{ key: "{out}" value {{ s: "{name}/{out}_0" }} }} {attrs} }} }}'


def ints(key, *values):
    return f'attr {{ key: "{key}" value {{ at_list_int32 {{ ' + " ".join(f"val: {i}" for i in values) + " } } }"


def network(batch, channels, filters, side):
    """A convolution, a bias and relu."""
    number = lambda key, v: f'attr {{ key: "{key}" value {{ at_int32: {v} }} }}'
    return "\n".join([
        f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(batch, channels, side, side)} data_type: kFloat }} }} }}',
        *(f'op {{ name: "{n}" variable_conf {{ out: "out" {dims(*shape)} data_type: kFloat initializer {{ constant_conf {{ value: 0 }} }} }} }}'
          for n, shape in (("w", (filters, channels, 3, 3)), ("b", (filters,)))),
        op("c", "conv2d", {"in": "x/out", "weight": "w/out", "bias": "b/out"}, "out", number("filters", filters) + ints("kernel_size", 3, 3) + ints("padding_before", 1, 1)),
        op("r", "relu", {"x": "c/out_0"}, "y"), 'op { name: "y" output_conf { in: "r/y_0" out: "out" } }', ""])


def reference(x, w, b):
    """The same in f64, by shifted products."""
    side = x.shape[2]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    with np.errstate(invalid="ignore"):
        y = sum(np.einsum("nchw,oc->nohw", padded[:, :, i:i + side, j:j + side], w[:, :, i, j].astype(np.float64)) for i in range(3) for j in range(3))
    return np.maximum(y + b[None, :, None, None], 0)


class Winograd(FolderTest):
    def setUp(self):
        super().setUp()
        self.draw = np.random.default_rng(11)

    def give(self, channels, filters, side, batch=BATCH):
        with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
            f.write(network(batch, channels, filters, side))
        self.w = (self.draw.standard_normal((filters, channels, 3, 3)) / np.sqrt(9 * channels)).astype(np.float32)
        self.b = (self.draw.standard_normal(filters) * 0.1).astype(np.float32)
        np.savez(self.path("w.npz"), w=self.w, b=self.b)
        return np.maximum(self.draw.standard_normal((batch, channels, side, side), dtype=np.float32), 0)

    def run_(self, *command, level=None):
        environment = dict(os.environ, OPC_CODE_LEVEL=level) if level else os.environ
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def values(self, x, *more, graph="g.pbtxt", program=OPC, level=None):
        np.save(self.path("x.npy"), x)
        os.makedirs(self.path("made"), exist_ok=True)
        given = ["--weights", "w.npz", "--input", "x=@x.npy", "--outputs", "made", *more]
        self.run_(*([RUNTIME] if program == RUNTIME else [OPC, "run", "--config", "none"]), graph, *given, level=level)
        return np.load(self.path("made/y.npy"))

    def test_errors(self):
        for shape in SHAPES:
            with self.subTest(shape=shape):
                x = self.give(*shape)
                expected = reference(x, self.w, self.b)
                rms = np.sqrt(np.mean(expected**2))
                fast, direct = self.values(x), self.values(x, "--no-winograd")
                self.assertLess(np.abs(fast - expected).max(), 1.5e-5 * rms)
                self.assertLess(np.abs(direct - expected).max(), 1e-5 * rms)
                self.assertEqual((fast != direct).any(), shape != SHAPES[3])
                np.testing.assert_array_equal(direct, self.values(x, "--no-winograd", "-j", "2"))

    def test_same_bits(self):
        for shape in SHAPES[:3]:
            with self.subTest(shape=shape):
                x = self.give(*shape)
                y = self.values(x, "-j", "1")
                for level in SETTINGS:
                    np.testing.assert_array_equal(self.values(x, level=level), y, level)
                for more in (["-j", "2"], ["-j", "5"], ["-j", "2", "--repeat", "3"], ["--no-codegen"]):
                    np.testing.assert_array_equal(self.values(x, *more), y, str(more))
                self.run_(OPC, "compile", "g.pbtxt", "-o", "g.plan", "--config", "none", "-q")
                refused = subprocess.run([OPC, "run", "g.plan", "--no-winograd", "--config", "none"], cwd=self.folder, capture_output=True, text=True, timeout=300)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                self.assertIn("--no-winograd need the graph, and g.plan is a plan", refused.stderr)
                for program in (OPC, RUNTIME):
                    np.testing.assert_array_equal(self.values(x, graph="g.plan", program=program), y)
                with open(self.path("g.pbtxt"), "w", encoding="utf-8") as f:
                    f.write(network(1, *shape))
                for n in range(BATCH):
                    np.testing.assert_array_equal(self.values(x[n:n + 1]), y[n:n + 1])

    def test_far_apart(self):
        """What is large or no number changes what it is summed into, and nothing beside that."""
        for shape in (SHAPES[0], (16, 16, 24)):
            side = shape[2]
            x = self.give(*shape)
            whole = self.values(x)
            for value in (np.inf, -np.inf, np.nan, 3e38, 1e20, 1e12, -1e9, 1e6, 1e4, 300):
                for what, cut in (("a number", (slice(7, 8), slice(9, 10), slice(13, 14))), ("columns", (slice(None), slice(None), slice(17, None))),
                                  ("most of it", (slice(None), slice(5, None), slice(None)))):
                    with self.subTest(shape=shape, value=value, what=what):
                        far = x.copy()
                        far[(1, *cut)] = value
                        touched = np.zeros((side + 2, side + 2), bool)
                        for i in range(3):
                            for j in range(3):
                                touched[i:side + i, j:side + j][cut[1:]] = True
                        touched = touched[1:-1, 1:-1]
                        y = self.values(far, "-j", "2")
                        np.testing.assert_allclose(y[1][:, ~touched], whole[1][:, ~touched], rtol=1e-4, atol=3e-5)
                        for n in (0, 2):  # whatever is beside a sample
                            np.testing.assert_array_equal(y[n], whole[n])
                        expected = reference(far, self.w, self.b)
                        seen, right = y[1][:, touched], expected[1][:, touched]
                        if what == "a number" or np.isfinite(value):
                            np.testing.assert_array_equal(np.isnan(seen), np.isnan(right))
                        finite = np.isfinite(right) & np.isfinite(seen) & (np.abs(right) < 1e38)
                        np.testing.assert_allclose(seen[finite], right[finite], rtol=1e-4, atol=2e-5 * max(min(abs(value), 1e37), 1))
                for level, threads in (("v3", "1"), ("v4", "5")):
                    np.testing.assert_array_equal(self.values(far, "-j", threads, level=level), y)

    def test_a_channel_of_large_weights(self):
        """A small number is large by its weight."""
        x = self.give(*SHAPES[0])
        self.w[:, 0] = self.draw.standard_normal(self.w[:, 0].shape) * 1e5
        np.savez(self.path("w.npz"), w=self.w, b=self.b)
        x[:, 0] = 0
        without = self.values(x)
        x[1, 0, 9, 13] = 0.5
        y = self.values(x)
        around = np.zeros(y.shape[2:], bool)
        around[8:11, 12:15] = True
        np.testing.assert_allclose(y[1][:, ~around], without[1][:, ~around], rtol=1e-4, atol=2e-4)
        np.testing.assert_allclose(y, reference(x, self.w, self.b), rtol=1e-4, atol=2e-4)

    def test_what_is_out_of_range(self):
        """Numbers that are near the least there are, zeros, and large weights."""
        x = self.give(*SHAPES[0])
        for factor in (0, 1e-30, 1e-20, 1e-13, 1e-6, 1e6):
            y = self.values(x * np.float32(factor))
            expected = reference(x * np.float32(factor), self.w, self.b)
            np.testing.assert_allclose(y, expected, rtol=1e-4, atol=2e-5 * (factor + np.abs(self.b).max()))
        w = self.w
        for factor in (0, 1e-38, 1e-20, 1e14, 1e30):
            np.savez(self.path("w.npz"), w=w * np.float32(factor), b=self.b * 0)
            direct = self.values(x, "--no-winograd")
            np.testing.assert_allclose(self.values(x), direct, rtol=1e-4, atol=2e-5 * np.sqrt(np.mean(direct.astype(np.float64)**2)) + 1e-44)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_training(self):
        """Results and gradients of two convolutions whose weights change, against PyTorch in f64."""
        batch, channels, filters, side = 4, 16, 32, 14
        weights = {"w1": (filters, channels, 3, 3), "w2": (channels, filters, 3, 3)}
        text = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ {dims(batch, channels, side, side)} data_type: kFloat }} }} }}',
                *(f'op {{ name: "{n}" variable_conf {{ out: "out" {dims(*shape)} data_type: kFloat initializer {{ constant_conf {{ value: 0 }} }} }} }}' for n, shape in weights.items()),
                op("c1", "conv2d", {"in": "x/out", "weight": "w1/out"}, "out", ints("padding_before", 1, 1)), op("r", "relu", {"x": "c1/out_0"}, "y"),
                op("c2", "conv2d", {"in": "r/y_0", "weight": "w2/out"}, "out", ints("padding_before", 1, 1)), op("s", "square", {"x": "c2/out_0"}, "y"),
                op("loss", "reduce_mean", {"input_tensor": "s/y_0"}, "output_tensor", ints("axis", 0, 1, 2, 3)), 'op { name: "c" output_conf { in: "c2/out_0" out: "out" } }', ""]
        with open(self.path("train.pbtxt"), "w", encoding="utf-8") as f:
            f.write("\n".join(text))
        given = {n: (self.draw.standard_normal(shape) / np.sqrt(9 * shape[1])).astype(np.float32) for n, shape in weights.items()}
        np.savez(self.path("w.npz"), **given)
        x = self.draw.standard_normal((batch, channels, side, side), dtype=np.float32)
        self.run_(OPC, "grad", "train.pbtxt", "--config", "none", "--loss", "loss", "--wrt", "w1", "--wrt", "w2", "--wrt", "x", "-o", "grads.pbtxt", "-q")
        np.save(self.path("x.npy"), x)

        def values(*more, level=None):
            self.run_(OPC, "run", "--config", "none", "grads.pbtxt", "--weights", "w.npz", "--input", "x=@x.npy", "--outputs", "made.npz", *more, level=level)
            with np.load(self.path("made.npz")) as z:
                return {name: z[name] for name in z.files}

        fast, direct = values("-j", "1"), values("--no-winograd")
        of = {n: torch.tensor(v.astype(np.float64), requires_grad=True) for n, v in (*given.items(), ("x", x))}
        c = torch.conv2d(torch.relu(torch.conv2d(of["x"], of["w1"], padding=1)), of["w2"], padding=1)
        (c * c).mean().backward()
        for name, expected in (("c", c.detach()), *((f"{n}.grad", t.grad) for n, t in of.items())):
            with self.subTest(tensor=name):
                expected = expected.numpy()
                self.assertLess(np.abs(fast[name] - expected).max(), 1.5e-5 * np.sqrt(np.mean(expected**2)))
                self.assertTrue((fast[name] != direct[name]).any())
                for more in ((), ("-j", "2"), ("-j", "5", "--no-codegen")):
                    np.testing.assert_array_equal(values(*more)[name], fast[name])
                np.testing.assert_array_equal(values(level="v3")[name], fast[name])
                np.testing.assert_array_equal(values("--no-fuse")[name], direct[name])

    def test_python(self):
        """Graph.compile has the same choice."""
        program = "\n".join([
            "import sys, numpy as np, opc",
            "w = np.load('w.npz')",
            "def values(**given):",
            "    p = opc.load('g.pbtxt').compile(**given)",
            "    s = p.session()",
            "    for n in ('w', 'b'): s.variables[n] = w[n]",
            "    return s.run(x=np.load('x.npy'))['y']",
            "np.savez('p.npz', fast=values(), direct=values(winograd=False))"])
        x = self.give(*SHAPES[0])
        fast, direct = self.values(x), self.values(x, "--no-winograd")
        environment = dict(os.environ, PYTHONPATH=os.path.join(os.environ["OPC_BUILD_DIR"], "python"))
        done = subprocess.run(["/usr/bin/python3", "-c", program], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = np.load(self.path("p.npz"))
        np.testing.assert_array_equal(made["direct"], direct)
        np.testing.assert_array_equal(made["fast"], fast)


if __name__ == "__main__":
    unittest.main()
