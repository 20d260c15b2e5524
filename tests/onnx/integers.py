# Products and convolutions of 8-bit integers against numpy's integers, extremes included, with and without VNNI.
# SPDX-License-Identifier: Apache-2.0
"""Without VNNI the library adds pairs of u8 * s8 in 16 bits, which saturate: opc must not take that path. The library is held
to each of ISAS (it cannot be held to more than the processor has), and the bits must be numpy's on all of them."""
import itertools
import os
import subprocess
import sys
import unittest

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
ISAS = ["DEFAULT", "AVX512_CORE_VNNI", "AVX512_CORE", "AVX2"]
RANGE = {np.uint8: (0, 256), np.int8: (-128, 128)}


def drawn(rng, dtype, shape, kind):
    """Random bytes; or the extremes alone, which saturate 16 bits; or one of them everywhere."""
    low, high = RANGE[dtype]
    if kind == "random":
        return rng.integers(low, high, shape).astype(dtype)
    if kind == "extremes":
        return rng.choice([low, high - 1, min(127, high - 1)], shape).astype(dtype)
    return np.full(shape, high - 1, dtype)


def convolved(x, w, stride, pad, groups):
    """In i64, by plain loops over the window."""
    n, c, height, width = x.shape
    o, own, kh, kw = w.shape
    x = np.pad(x, ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3])))
    rows, columns = (x.shape[2] - kh) // stride + 1, (x.shape[3] - kw) // stride + 1
    out = np.zeros((n, o, rows, columns), np.int64)
    for group in range(groups):
        filters = slice(group * o // groups, (group + 1) * o // groups)
        for a in range(kh):
            for b in range(kw):
                window = x[:, group * own : (group + 1) * own, a : a + stride * rows : stride, b : b + stride * columns : stride]
                out[:, filters] += np.einsum("nchw,oc->nohw", window, w[filters, :, a, b])
    return out


class Integers(FolderTest):
    def setUp(self):
        super().setUp()
        self.nodes, self.values, self.outputs, self.tensors, self.given, self.expected = [], [], [], [], {}, {}

    def node(self, op, inputs, expected, constants, domain="", **attributes):
        """One node of the model; inputs whose place is in `constants` are initializers."""
        at, names = len(self.nodes), []
        for k, array in enumerate(inputs):
            name = f"i{at}_{k}" if array is not None else ""
            names.append(name)
            if array is None:
                continue
            if k in constants:
                self.tensors.append(m.tensor(name, array))
            else:
                self.values.append(m.value(name, array.shape, m.ELEMENT[array.dtype]))
                self.given[name] = array
        self.nodes.append(m.node(op, names, [f"o{at}"], f"node{at}", domain, **attributes))
        self.outputs.append(m.value(f"o{at}", None, 0))
        self.expected[f"o{at}"] = expected

    def run_all(self, isas=ISAS, within=0, more=((),)):
        path = os.path.join(self.folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(m.model(m.graph(self.nodes, self.values, self.outputs, self.tensors), opset=21))
        np.savez(os.path.join(self.folder, "in.npz"), **self.given)
        for isa, options in itertools.product(isas, more):
            out = os.path.join(self.folder, f"{isa}.npz")
            done = subprocess.run([OPC, "run", path, "--quiet", "--inputs", os.path.join(self.folder, "in.npz"), "--outputs", out, *options],
                                  capture_output=True, text=True, timeout=120, env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa})
            self.assertEqual(done.returncode, 0, done.stderr)
            made = np.load(out)
            for name, expected in self.expected.items():
                with self.subTest(isa=isa, options=options, node=name):
                    self.assertEqual(made[name].shape, expected.shape)
                    self.assertLessEqual(np.abs(made[name].astype(np.int64) - expected.astype(np.int64)).max(initial=0), within)

    def test_products(self):
        rng = np.random.default_rng(5)
        for left, right in [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8), (np.int8, np.uint8)]:
            for shape in [(1, 37, 5), (3, 64, 96), (130, 31, 17), (5, 1027, 9)]:
                for kind in ("random", "extremes", "largest"):
                    rows, terms, columns = shape
                    a, b = drawn(rng, left, (rows, terms), kind), drawn(rng, right, (terms, columns), kind)
                    for zeros in (None, (), (rows, columns)):
                        za = None if zeros is None else drawn(rng, left, zeros[:1], "random")
                        zb = None if zeros is None else drawn(rng, right, zeros[1:], "random")
                        wide_a = a.astype(np.int64) - (0 if za is None else za.astype(np.int64).reshape(-1, 1))
                        wide_b = b.astype(np.int64) - (0 if zb is None else zb.astype(np.int64).reshape(1, -1))
                        inputs = [a, b] if za is None else [a, b, za, zb]
                        for constants in ((), (1, 3)):
                            self.node("MatMulInteger", inputs, wide_a @ wide_b, constants)
        self.run_all()

    def test_sums_beyond_32_bits(self):
        """They wrap around, those of a weight's columns as well, which zero points are multiplied by."""
        terms = 2**24 + 9
        a, b = np.full((1, terms), 3, np.uint8), np.full((terms, 1), -128, np.int8)
        sum_of = lambda zero: np.array((3 - zero) * -128 * terms & 0xFFFFFFFF, np.uint32).view(np.int32).reshape(1, 1)
        self.node("MatMulInteger", [a, b, np.array([200], np.uint8), None], sum_of(200), (1, 2))
        self.node("ConvInteger", [a.reshape(1, terms, 1, 1), b.reshape(1, terms, 1, 1), np.array(200, np.uint8), None],
                  sum_of(200).reshape(1, 1, 1, 1), (1, 2))
        self.run_all(["DEFAULT", "AVX2"])

    def test_convolutions(self):
        rng = np.random.default_rng(6)
        for left, right in [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)]:
            for channels, filters, kernel, stride, groups in [(3, 8, 3, 1, 1), (16, 16, 3, 2, 16), (12, 18, 1, 1, 3), (64, 32, 3, 1, 1), (519, 3, 3, 2, 1)]:
                for kind in ("random", "extremes", "largest"):
                    x = drawn(rng, left, (2, channels, 7, 6), kind)
                    w = drawn(rng, right, (filters, channels // groups, kernel, kernel), kind)
                    pad = [kernel // 2] * 4
                    for has_zero, pads in ((False, pad), (True, pad), (True, [0, 1, 2, 0])):
                        zx = drawn(rng, left, (), "random") if has_zero else None
                        zw = drawn(rng, right, (filters,), "random") if has_zero and right is np.uint8 else None
                        wide = x.astype(np.int64) - (0 if zx is None else int(zx))
                        weight = w.astype(np.int64) - (0 if zw is None else zw.astype(np.int64).reshape(-1, 1, 1, 1))
                        for constants in ((1, 2, 3), (2,)):
                            self.node("ConvInteger", [x, w, zx, zw], convolved(wide, weight, stride, pads, groups), constants,
                                      strides=[stride, stride], pads=pads, group=groups)
        self.run_all()

    def test_quantised_ops(self):
        """QLinearMatMul and QLinearConv against the formula of the operator set, in f64: within a step."""
        rng = np.random.default_rng(7)
        f32 = np.float32
        x, w = drawn(rng, np.uint8, (2, 8, 7, 7), "random"), drawn(rng, np.int8, (6, 8, 3, 3), "random")
        bias, steps = rng.integers(-5000, 5000, 6).astype(np.int32), rng.uniform(0.01, 0.03, 6).astype(f32)
        real = (convolved(x.astype(np.int64) - 120, w.astype(np.int64), 1, [1] * 4, 1) + bias.reshape(-1, 1, 1)) * 0.02 * steps.reshape(-1, 1, 1).astype(np.float64)
        self.node("QLinearConv", [x, f32(0.02), np.uint8(120), w, steps, np.zeros(6, np.int8), f32(0.25), np.uint8(99), bias],
                  np.clip(np.rint(real / 0.25) + 99, 0, 255), (1, 2, 3, 4, 5, 6, 7, 8), pads=[1] * 4)
        a, b = drawn(rng, np.uint8, (9, 33), "random"), drawn(rng, np.int8, (33, 12), "random")
        for sa, sb, za, zb in [(f32(0.1), f32(0.2), np.uint8(100), np.int8(3)),
                               (rng.uniform(0.05, 0.1, 9).astype(f32), rng.uniform(0.05, 0.1, 12).astype(f32), rng.integers(90, 150, 9).astype(np.uint8), np.zeros(12, np.int8))]:
            product = (a.astype(np.int64) - za.astype(np.int64).reshape(-1, 1)) @ (b.astype(np.int64) - zb.astype(np.int64).reshape(1, -1))
            real = product * sa.astype(np.float64).reshape(-1, 1) * sb.astype(np.float64).reshape(1, -1)
            self.node("QLinearMatMul", [a, sa, za, b, sb, zb, f32(2.5), np.uint8(130)], np.clip(np.rint(real / 2.5) + 130, 0, 255), (3, 4, 5))
        self.run_all(within=1)

    def test_finished_sums(self):
        """Bytes that convolutions and products write themselves: the bits of f32's formula, in bands and parts of any number of threads."""
        rng = np.random.default_rng(8)
        f32 = np.float32

        def steps(sums, scale, zero):
            low, high = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max
            return np.clip(np.rint(sums.astype(f32) * scale).astype(np.float64) + zero, low, high)

        for left, channels, size, filters, kernel, stride, groups in [(np.uint8, 16, (41, 36), 40, 3, 1, 1), (np.int8, 64, (9, 9), 256, 1, 1, 1), (np.uint8, 32, (7, 15), 160, 3, 1, 1),
                                                                      (np.uint8, 3, (33, 31), 16, 7, 2, 1), (np.int8, 24, (10, 11), 24, 3, 2, 24), (np.uint8, 520, (5, 4), 6, 3, 1, 1)]:
            for kind in ("random", "extremes", "largest"):
                x, w = drawn(rng, left, (2, channels, *size), kind), drawn(rng, np.int8, (filters, channels // groups, kernel, kernel), kind)
                zero, made = drawn(rng, left, (), "random"), drawn(rng, left, (), "random")
                pads, bias = [kernel // 2] * 4, rng.integers(-5000, 5000, filters).astype(np.int32)
                sums = convolved(x.astype(np.int64) - int(zero), w.astype(np.int64), stride, pads, groups) + bias.reshape(-1, 1, 1)
                scale, to = rng.uniform(0.5, 2, filters).astype(f32), f32(np.abs(sums).max() / 60)
                expected = steps(sums, (f32(1) * scale / to).reshape(-1, 1, 1), made)
                self.node("QLinearConv", [x, f32(1), zero, w, scale, np.zeros(filters, np.int8), to, made, bias], expected, (1, 2, 3, 4, 5, 6, 7, 8),
                          strides=[stride, stride], pads=pads, group=groups)
        for left, shape in [(np.uint8, (1, 37, 5)), (np.int8, (131, 70, 300)), (np.uint8, (2, 3, 33, 257))]:
            for kind in ("random", "extremes"):
                a, b = drawn(rng, left, shape[:-1], kind), drawn(rng, np.int8, (shape[-2], shape[-1]), kind)
                zero, made = drawn(rng, left, (), "random"), drawn(rng, left, (), "random")
                sums = (a.astype(np.int64) - int(zero)) @ b.astype(np.int64)
                scale, to = rng.uniform(0.5, 2, shape[-1]).astype(f32), f32(np.abs(sums).max() / 60)
                self.node("QLinearMatMul", [a, f32(1), zero, b, scale, np.zeros(shape[-1], np.int8), to, made], steps(sums, f32(1) * scale / to, made), (1, 2, 3, 4, 5, 6, 7))
        self.run_all(more=(("-j", "1"), ("-j", "2"), ("--no-fuse",)))


if __name__ == "__main__":
    unittest.main()
