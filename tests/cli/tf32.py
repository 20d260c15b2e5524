# --allow-tf32: products of f32 on a GPU's matrix units, whose numbers are numpy's of factors that were rounded to TF32; and nothing else
# changes, with it or without it.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

import numpy as np

from gpu_build import without_simulator
from gpu_ops import BIN, Graph

TRUE = "at_bool: true"


def ints(*values):
    return "at_list_int32 { " + " ".join(f"val: {v}" for v in values) + " }"


def tf32(x):
    """The nearest number of 11 significant bits, ties away from zero: half of the last place is added, the rest cut off."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def product(a, b, left=False, right=False):
    """In f64, of matrices that may lie transposed."""
    a, b = (np.swapaxes(v, -1, -2) if turned else v for v, turned in ((a.astype(np.float64), left), (b.astype(np.float64), right)))
    return a @ b


def products(rng, m, n, k, batch=()):
    """A graph of one product for each way in which its factors may lie, and the factors of each."""
    graph, given = Graph(), {}
    for left in (False, True):
        for right in (False, True):
            name = f"y{left:d}{right:d}"
            a = rng.uniform(-1, 1, (*batch, *((k, m) if left else (m, k)))).astype(np.float32)
            b = rng.uniform(-1, 1, (*batch, *((n, k) if right else (k, n)))).astype(np.float32)
            attrs = {**({"transpose_a": TRUE} if left else {}), **({"transpose_b": TRUE} if right else {})}
            of = {"a": graph.input(f"a{name}", a), "b": graph.input(f"b{name}", b)}
            graph.output(name, graph.op(f"op{name}", "batch_matmul" if batch else "matmul", of, **attrs))
            given[name] = a, b, left, right
    return graph, given


class Convolution:
    """A two-dimensional one in f64, with its gradients: a product for each tap."""

    def __init__(self, stride, dilation, padding):
        self.stride, self.dilation, self.padding = stride, dilation, padding

    def seen(self, padded, i, j, h, w):
        """What tap (i, j) sees."""
        (sh, sw), (dh, dw) = self.stride, self.dilation
        return padded[:, :, i * dh : i * dh + sh * (h - 1) + 1 : sh, j * dw : j * dw + sw * (w - 1) + 1 : sw]

    def padded(self, x):
        (ph, pw) = self.padding
        return np.pad(x.astype(np.float64), ((0, 0), (0, 0), (ph, ph), (pw, pw)))

    def size(self, x, weight):
        return [(x.shape[2 + a] + 2 * self.padding[a] - self.dilation[a] * (weight.shape[2 + a] - 1) - 1) // self.stride[a] + 1 for a in (0, 1)]

    def forward(self, x, weight):
        given, size = self.padded(x), self.size(x, weight)
        return sum(np.einsum("nchw,fc->nfhw", self.seen(given, i, j, *size), weight[:, :, i, j].astype(np.float64))
                   for i in range(weight.shape[2]) for j in range(weight.shape[3]))

    def data(self, dy, weight, like):
        given = np.zeros_like(self.padded(like))
        for i in range(weight.shape[2]):
            for j in range(weight.shape[3]):
                self.seen(given, i, j, *dy.shape[2:])[...] += np.einsum("nfhw,fc->nchw", dy.astype(np.float64), weight[:, :, i, j].astype(np.float64))
        (ph, pw), (h, w) = self.padding, like.shape[2:]
        return given[:, :, ph : ph + h, pw : pw + w]

    def filter(self, dy, x, like):
        given, made = self.padded(x), np.zeros(like.shape)
        for i in range(like.shape[2]):
            for j in range(like.shape[3]):
                made[:, :, i, j] = np.einsum("nfhw,nchw->fc", dy.astype(np.float64), self.seen(given, i, j, *dy.shape[2:]))
        return made


@unittest.skipIf(without_simulator(), "this build runs no kernels for GPUs")
class Tf32(unittest.TestCase):
    def run_on(self, graph, *options, sim="policy=late"):
        done, results = graph.run("sim", *options, policy=sim)
        self.assertEqual(done.returncode, 0, done.stderr)
        return results

    def test_numbers(self):
        """Both sizes of tiles, with and without accesses of 16 bytes."""
        rng = np.random.default_rng(11)
        for m, n, k, batch in ((66, 72, 40, ()), (67, 69, 35, ()), (32, 33, 7, (3,)), (132, 260, 24, (16,)), (131, 259, 21, (16,))):
            with self.subTest((m, n, k, batch)):
                graph, given = products(rng, m, n, k, batch)
                for name, got in self.run_on(graph, "--allow-tf32").items():
                    a, b, *lie = given[name]
                    want = product(tf32(a), tf32(b), *lie)
                    # Each of k additions in f32 may be off by half of a last place.
                    close = k * 2.0**-24 * product(np.abs(a), np.abs(b), *lie) + 1e-7
                    self.assertTrue((np.abs(got - want) <= close).all(), (name, np.abs(got - want).max()))
                    # They are not the exact product's: the factors were rounded.
                    self.assertGreater(np.abs(got - product(a, b, *lie)).max(), 4 * np.abs(got - want).max(), name)

    def test_multiples_added_to_something(self):
        """Half of a product is added to what is exact; rows that accesses of 16 bytes divide and others, both sizes of tiles."""
        rng = np.random.default_rng(19)
        for m, n, k, batch in ((66, 72, 20, 1), (67, 69, 20, 1), (130, 132, 8, 64), (130, 131, 8, 64)):
            with self.subTest((m, n, k, batch)):
                a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((batch, m, k), (batch, k, n), (batch, m, n)))
                graph = Graph()
                of = {"a": graph.input("a", a), "b": graph.input("b", b), "_add_to_output": graph.input("c", c)}
                graph.output("y", graph.op("op", "batch_matmul", of, alpha="at_double: 0.5"))
                want = product(tf32(a), tf32(b)) / 2 + c
                self.assertLess(np.abs(self.run_on(graph, "--allow-tf32")["y"] - want).max(), 2e-6)

    def test_exact_where_factors_fit(self):
        """Numbers of 11 bits are not rounded: the bits are those of products of f32."""
        rng = np.random.default_rng(12)
        a, b = rng.integers(-2047, 2048, (70, 40)).astype(np.float32), rng.integers(-7, 8, (40, 66)).astype(np.float32)
        graph = Graph()
        graph.output("y", graph.op("op", "matmul", {"a": graph.input("a", a), "b": graph.input("b", b)}))
        got = self.run_on(graph, "--allow-tf32")["y"]
        np.testing.assert_array_equal(got, product(a, b))
        self.assertEqual(got.tobytes(), self.run_on(graph)["y"].tobytes())

    def test_what_is_not_finite(self):
        a = np.zeros((32, 16), np.float32)
        a[0, 0], a[1, 1], a[2, 2], a[3, 3] = np.inf, np.nan, -np.inf, np.finfo(np.float32).max
        b = np.ones((16, 32), np.float32)
        graph = Graph()
        graph.output("y", graph.op("op", "matmul", {"a": graph.input("a", a), "b": graph.input("b", b)}))
        got = self.run_on(graph, "--allow-tf32")["y"][:, 0]
        # The largest float is nearer to 2^128 than to the largest TF32.
        np.testing.assert_array_equal(got[:5], np.array([np.inf, np.nan, -np.inf, np.inf, 0], np.float32))

    def test_the_default_is_exact(self):
        """Without the option the bits are those of a GPU that has no units for TF32."""
        graph, given = products(np.random.default_rng(13), 66, 72, 40)
        exact, old = self.run_on(graph), self.run_on(graph, sim="policy=late,cc=75")
        allowed = self.run_on(graph, "--allow-tf32")
        for name, (a, b, *lie) in given.items():
            self.assertEqual(exact[name].tobytes(), old[name].tobytes())
            self.assertNotEqual(exact[name].tobytes(), allowed[name].tobytes())
            self.assertLess(np.abs(exact[name] - product(a, b, *lie)).max(), 1e-5)

    def test_other_types_do_not_change(self):
        rng = np.random.default_rng(14)
        graph = Graph()
        for kind in (np.float16, np.float64):
            a, b = (rng.uniform(-1, 1, (40, 40)).astype(kind) for _ in range(2))
            name = np.dtype(kind).name
            graph.output(name, graph.op(f"op_{name}", "matmul", {"a": graph.input(f"a_{name}", a), "b": graph.input(f"b_{name}", b)}))
        exact, allowed = self.run_on(graph), self.run_on(graph, "--allow-tf32")
        self.assertEqual({n: v.tobytes() for n, v in exact.items()}, {n: v.tobytes() for n, v in allowed.items()})

    def test_convolutions(self):
        """And their gradients, in both layouts, with and without accesses of 16 bytes."""
        rng = np.random.default_rng(18)
        for channels, filters, stride, dilation, padding in ((12, 68, (1, 1), (1, 1), (1, 1)), (13, 21, (2, 1), (1, 2), (0, 2))):
            conv = Convolution(stride, dilation, padding)
            x = rng.uniform(-1, 1, (2, channels, 11, 13)).astype(np.float32)
            weight = rng.uniform(-1, 1, (filters, channels, 3, 3)).astype(np.float32)
            bias = rng.uniform(-1, 1, filters).astype(np.float32)
            dy = rng.uniform(-1, 1, conv.forward(x, weight).shape).astype(np.float32)
            of = lambda v: {"out": conv.forward(v(x), v(weight)) + bias[:, None, None], "dx": conv.data(v(dy), v(weight), x), "filter_diff": conv.filter(v(dy), v(x), weight)}
            want, exact, size = of(tf32), of(lambda v: v), of(np.abs)
            for last in (False, True):
                with self.subTest(channels=channels, last=last):
                    lie = (lambda v: np.ascontiguousarray(np.moveaxis(v, 1, -1))) if last else (lambda v: v)
                    attrs = {"data_format": f'at_string: "channels_{"last" if last else "first"}"', "strides": ints(*stride),
                             "dilation_rate": ints(*dilation), "padding_before": ints(*padding)}
                    back = {"num_spatial_dims": "at_int32: 2", "kernel_size": ints(3, 3), **attrs}
                    g = Graph()
                    xs, ws, ys = (g.input(name, lie(v)) for name, v in (("x", x), ("w", weight), ("g", dy)))
                    g.output("out", g.op("y", "conv2d", {"in": xs, "weight": ws, "bias": g.input("b", bias)}, **attrs))
                    g.output("dx", g.op("d", "conv_data_grad", {"dy": ys, "filter": ws, "x_like": xs}, ("dx",), **back))
                    g.output("filter_diff", g.op("f", "conv_filter_grad", {"dy": ys, "x": xs}, ("filter_diff",), **back))
                    for name, got in self.run_on(g, "--allow-tf32").items():
                        got = np.moveaxis(got, -1, 1) if last else got
                        close = 2.0**-15 * np.abs(size[name]) + 1e-6  # some hundred additions in f32
                        self.assertTrue((np.abs(got - want[name]) <= close).all(), (name, np.abs(got - want[name]).max()))
                        self.assertGreater(np.abs(got - exact[name]).max(), 4 * np.abs(got - want[name]).max(), name)
                    for name, got in self.run_on(g).items():
                        got = np.moveaxis(got, -1, 1) if last else got
                        self.assertLess(np.abs(got - exact[name]).max(), 1e-4, name)

    def test_references_are_exact(self):
        """--reference and first-diff compare with products that are not rounded."""
        graph, _ = products(np.random.default_rng(15), 66, 72, 40)
        close = self.run_on(graph, "--allow-tf32", "--reference", "cpu", "--atol", "0.05")
        self.assertEqual(len(close), 4)
        done, _ = graph.run("sim", "--allow-tf32", "--reference", "cpu")
        self.assertEqual(done.returncode, 1, done.stderr)
        done, _ = graph.run("sim", "--reference", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "g.pbtxt"), "w", encoding="utf-8") as f:
                f.write("\n".join(graph.lines) + "\n")
            np.savez(os.path.join(folder, "in.npz"), **graph.inputs)
            call = [os.path.join(BIN, "opc"), "debug", "first-diff", "g.pbtxt", "--inputs", "in.npz", "--device", "sim"]
            for options, code in ((("--allow-tf32",), 1), ((), 0)):
                done = subprocess.run([*call, *options], cwd=folder, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def test_refusals(self):
        graph, _ = products(np.random.default_rng(16), 34, 35, 8)
        for device, sim, says in (("cpu", "", "the plan is for the CPU"), ("sim", "cc=75", "the GPU of sim has compute capability 7.5: TF32 needs 8.0")):
            done, _ = graph.run(device, "--allow-tf32", policy=sim)
            self.assertEqual(done.returncode, 4, done.stderr)
            said = " ".join(done.stderr.split())
            self.assertIn("OPC0630", said)
            self.assertIn(f"TF32 is allowed (AllowTf32, --allow-tf32), and {says}", said)
            self.assertIn("leave it out", said)

    def test_plans(self):
        """The program that runs plans has the option, too; a plan says nothing of it."""
        graph, given = products(np.random.default_rng(17), 34, 35, 8)
        want = self.run_on(graph, "--allow-tf32")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "g.pbtxt"), "w", encoding="utf-8") as f:
                f.write("\n".join(graph.lines) + "\n")
            np.savez(os.path.join(folder, "in.npz"), **graph.inputs)
            for device in ("sim", "cpu"):
                subprocess.run([os.path.join(BIN, "opc"), "compile", "g.pbtxt", "--device", device, "-o", f"{device}.plan"], cwd=folder, check=True, capture_output=True)
            call = [os.path.join(BIN, "opc-runtime"), "sim.plan", "--inputs", "in.npz", "--outputs", "out", "--print", "none"]
            for options, same in (((), False), (("--allow-tf32",), True)):
                subprocess.run([*call, *options], cwd=folder, check=True, capture_output=True, timeout=120)
                for name in given:
                    got = np.load(os.path.join(folder, "out", f"{name}.npy"))
                    self.assertEqual(got.tobytes() == want[name].tobytes(), same, name)
            call[1] = "cpu.plan"
            done = subprocess.run([*call, "--allow-tf32"], cwd=folder, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("OPC0630", done.stderr)


if __name__ == "__main__":
    unittest.main()
