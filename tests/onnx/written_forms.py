# Forms that exporters and ONNX Runtime's optimizer write: batches' statistics by the number of outputs, pixels that a scale falls between,
# bounds of one side, transposed batches, zero points of filters; against numpy, PyTorch's numbers written down, and ONNX Runtime.
# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import subprocess
import unittest

import numpy as np

import messages as m
import ort
from later_ops import F32, INVALID, MICROSOFT, OPC, RANDOM, Case, uniform


class Form(Case):
    def opc(self, *words):
        done = subprocess.run([OPC, *words], cwd=self.folder, capture_output=True, text=True, timeout=120, errors="replace")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def outputs_of(self, *words, **inputs):
        """What `opc run` with these words makes of these inputs."""
        np.savez(os.path.join(self.folder, "in.npz"), **inputs)
        self.opc("run", *words, "--quiet", "--inputs", "in.npz", "--outputs", "out.npz")
        return dict(np.load(os.path.join(self.folder, "out.npz")))

    def file(self, nodes, inputs, outputs, initializers=(), **more):
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, inputs, outputs, initializers), **more))


class BatchNormalization(Form):
    def given(self, *shape):
        places = shape[1] if len(shape) > 1 else 1
        return [uniform(*shape) * 3, uniform(places), uniform(places), uniform(places), np.abs(uniform(places))]

    def wanted(self, given, axes, momentum, epsilon):
        x, scale, bias, old_mean, old_variance = (a.astype(np.float64) for a in given)
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        own = mean.shape[1:] if axes == 0 else (1, -1) + (1,) * (x.ndim - 2)
        y = (x - mean) / np.sqrt(variance + epsilon) * scale.reshape(own) + bias.reshape(own)
        moved = [old * momentum + new.reshape(old.shape) * (1 - momentum) for old, new in ((old_mean, mean), (old_variance, variance))]
        return [y, *moved, mean.reshape(scale.shape), (1 / np.sqrt(variance + epsilon)).reshape(scale.shape)]

    def test_five_outputs_are_training_mode(self):
        for shape in ((6, 4), (3, 4, 5), (2, 3, 4, 2)):
            given = self.given(*shape)
            wanted = self.wanted(given, (0, *range(2, len(shape))), 0.7, 1e-3)
            for opset in (1, 6, 7, 8, 9, 11, 13):
                run = self.judged if opset > 6 else self.ran  # ONNX Runtime has none of the first ones
                made = run("BatchNormalization", given, outputs=5, opset=opset, momentum=0.7, epsilon=1e-3)
                for k, want in enumerate(wanted):
                    self.close(made[f"o{k}"], want)

    def test_outputs_that_nothing_reads(self):
        """As PyTorch writes a module in training."""
        given = self.given(6, 4)
        names = "x", "scale", "bias", "mean", "variance"
        for opset in (9, 11, 13):
            self.file([m.node("BatchNormalization", names, ["y", "d1", "d2", "d3", "d4"], epsilon=1e-3)], [m.value("x", (6, 4))], [m.value("y", (6, 4))],
                      [m.tensor(n, a) for n, a in zip(names[1:], given[1:])], opset=opset)
            self.close(self.outputs_of("model.onnx", x=given[0])["y"], self.wanted(given, 0, 0.9, 1e-3)[0])

    def test_one_output_is_inference(self):
        x, scale, bias, mean, variance = given = self.given(3, 4, 5)
        by = lambda a: a.astype(np.float64)[:, None]
        wanted = (x - by(mean)) / np.sqrt(by(variance) + 1e-5) * by(scale) + by(bias)
        for opset in (1, 6, 7, 9, 13, 14, 15):
            self.close(self.ran("BatchNormalization", given, opset=opset)["o0"], wanted)
        self.close(self.ran("BatchNormalization", given, opset=6, is_test=1)["o0"], wanted)

    def test_one_channel(self):
        given = self.given(7)
        made = self.judged("BatchNormalization", given, outputs=5, opset=9)
        self.close(made["o0"], self.wanted([given[0][:, None], *given[1:]], 0, 0.9, 1e-5)[0][:, 0])
        x, scale, bias, mean, variance = (a.astype(np.float64) for a in given)
        self.close(self.judged("BatchNormalization", given, opset=15)["o0"], (x - mean) / np.sqrt(variance + 1e-5) * scale + bias)

    def test_statistics_of_each_place(self):
        given = [uniform(5, 2, 3) * 3, uniform(2, 3), uniform(2, 3), uniform(2, 3), np.abs(uniform(2, 3))]
        x, scale, bias, mean, variance = (a.astype(np.float64) for a in given)
        self.close(self.judged("BatchNormalization", given, opset=7, spatial=0)["o0"], (x - mean) / np.sqrt(variance + 1e-5) * scale + bias)
        made = self.ran("BatchNormalization", given, outputs=5, opset=7, spatial=0)
        for k, want in enumerate(self.wanted(given, 0, 0.9, 1e-5)):
            self.close(made[f"o{k}"], want)
        self.refused(INVALID, "the places of one sample have shape (2,3)", "BatchNormalization", [given[0], uniform(2), *given[2:]], opset=7, spatial=0)

    def test_gradients(self):
        given = [a.astype(np.float64) for a in self.given(4, 3, 2)]
        self.write("BatchNormalization", given, outputs=5, opset=11)
        self.opc("grad", "model.onnx", "--loss", "o0", "--wrt", "i0", "--wrt", "i1", "--wrt", "i2", "--check", "--inputs", "in.npz")

    def test_contradictions(self):
        given = self.given(3, 4)
        for outputs in (2, 3, 4):
            self.refused(INVALID, f"it has {outputs} outputs", "BatchNormalization", given, outputs=outputs, opset=13)
        self.refused(INVALID, "attribute 'is_test' is 1", "BatchNormalization", given, outputs=5, opset=6, is_test=1)
        self.refused(INVALID, "in training mode alone", "BatchNormalization", given, outputs=3, opset=15)


class TransposedBatches(Form):
    """FusedMatMul, where the first axis of a factor is its matrices' own and the batch comes behind it."""

    def stored(self, x, trans, trans_batch):
        """The matrices x [batch..., rows, columns] as such a factor is written."""
        if trans:
            x = x.swapaxes(-1, -2)
        return np.ascontiguousarray(np.moveaxis(x, -2, 0)) if trans_batch else x

    def test_all_forms(self):
        for batch in ((4,), (2, 3)):
            a, b = uniform(*batch, 5, 6), uniform(*batch, 6, 7)
            for flags in itertools.product((0, 1), repeat=4):
                names = dict(zip(("transA", "transB", "transBatchA", "transBatchB"), flags))
                given = [self.stored(a, flags[0], flags[2]), self.stored(b, flags[1], flags[3])]
                with self.subTest(batch=batch, **names):
                    made = self.judged("FusedMatMul", given, domain=MICROSOFT, opset=17, alpha=0.5, **names)["o0"]
                    self.close(made, 0.5 * (a.astype(np.float64) @ b))


class Pixels(Form):
    """Resize of mode nearest, where the quotient of a place and a scale is next to a whole number or a half."""

    def resized(self, x, cases):
        """What each of the cases, of attributes and the scale or size of the last axis, makes of x; ONNX Runtime makes it, too."""
        nodes, constants, outputs = [], [], []
        for k, (attributes, scale, size) in enumerate(cases):
            constants.append(m.tensor(f"s{k}", np.array([1, scale], F32)) if size is None else m.tensor(f"s{k}", np.array([1, size])))
            nodes.append(m.node("Resize", ["x", "", f"s{k}"] if size is None else ["x", "", "", f"s{k}"], [f"y{k}"], f"N{k}", mode="nearest", **attributes))
            outputs.append(f"y{k}")
        self.file(nodes, [m.value("x", x.shape)], [m.value(o) for o in outputs], constants, opset=13)
        made = self.outputs_of("model.onnx", x=x)
        if ort.judges(self):
            wanted = ort.run(self.folder, [("model.onnx", {"x": x})])[0]
            for o, case in zip(outputs, cases):
                np.testing.assert_array_equal(made[o], wanted[o], str((x.shape, case)))
        return [made[o][0].tolist() for o in outputs]

    def test_pixels(self):
        """Numbers are ONNX Runtime's and PyTorch's (interpolate with mode nearest)."""
        plain = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        (thirds,) = self.resized(np.arange(6, dtype=F32)[None], [(plain, 1 / 3, None)])
        self.assertEqual(thirds, [0, 3])
        x = np.arange(20, dtype=F32)[None]
        made = self.resized(x, [(plain, 0.3, None), (plain, 1.1, None)])
        self.assertEqual(made[0], [0, 3, 6, 10, 13, 16])
        self.assertEqual(made[1], [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19])

    def test_modes(self):
        for length in (7, 10, 12):
            cases = []
            for places in ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "tf_half_pixel_for_nn"):
                for mode in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
                    attributes = {"coordinate_transformation_mode": places, "nearest_mode": mode}
                    # In these two opc has the length before it is rounded, as ONNX's own cases have it.
                    scales = (2, 3) if places == "align_corners" else (0.3, 1 / 3, 0.4, 0.6, 0.667, 0.7, 1.3, 1.5, 1.7, 2.3, 3, 5, 7)
                    scales += () if places in ("align_corners", "pytorch_half_pixel") else (0.2,)
                    cases += [(attributes, scale, None) for scale in scales if int(F32(scale) * F32(length)) != length]
                    cases += [(attributes, None, size) for size in (1, 3, 4, 11, 13, 14, 18)]
            self.resized(np.arange(length, dtype=F32)[None], cases)

    def test_halves(self):
        """Within a millionth a place is half-way."""
        for scale in (0.28571421, 0.28571427, 0.28571433, 0.2857144, 0.2857146):
            self.resized(np.arange(40, dtype=F32)[None], [({"coordinate_transformation_mode": "asymmetric", "nearest_mode": mode}, scale, None)
                                                          for mode in ("round_prefer_floor", "round_prefer_ceil")])

    def test_aligned_corners(self):
        """By a scale they follow from the length before it is rounded, as in ONNX's own cases, and by a size from that; ONNX Runtime and
        PyTorch take the rounded length in both."""
        x = np.arange(6, dtype=F32)[None]
        attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
        made = self.ran("Resize", [x, None, np.array([1, 0.6], F32)], constants=(2,), opset=13, **attributes)["o0"]
        self.close(made, np.arange(3)[None] * 5 / (6 * np.float64(F32(0.6)) - 1))
        made = self.judged("Resize", [x, None, None, np.array([1, 3])], constants=(3,), opset=13, **attributes)["o0"]
        self.close(made, np.array([[0, 2.5, 5]]))


def cubic(d, a=-0.75):
    d = abs(d)
    return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def interpolated(x, axis, to, mode, places, excludes, region, outside):
    """ONNX's formulas in f64, along one axis."""
    size, parts = x.shape[axis], []
    x = np.moveaxis(x.astype(np.float64), axis, -1)
    for k in range(to):
        at = {"half_pixel": (k + 0.5) * size / to - 0.5, "asymmetric": k * size / to, "align_corners": k * (size - 1) / (to - 1),
              "tf_crop_and_resize": region[0] * (size - 1) + k * (region[1] - region[0]) * (size - 1) / (to - 1)}[places]
        if places == "tf_crop_and_resize" and not 0 <= at <= size - 1:
            parts.append(np.full(x.shape[:-1], outside))
            continue
        near = np.arange(int(np.floor(at)) - 1, int(np.floor(at)) + 3)
        weights = np.array([cubic(at - n) if mode == "cubic" else max(0, 1 - abs(at - n)) for n in near])
        if excludes:
            weights = np.where((near >= 0) & (near < size), weights, 0)
            weights /= weights.sum()
        parts.append(x[..., np.clip(near, 0, size - 1)] @ weights)
    return np.moveaxis(np.stack(parts, -1), -1, axis)


class LongAxes(Form):
    """Resize of mode linear and cubic along axes with few results of many elements: no product with all of them."""

    def test_modes(self):
        x = uniform(1, 2, 300, 290)
        for mode, (high, wide) in itertools.product(("linear", "cubic"), ((70, 33), (150, 145), (299, 580))):
            for places, excludes in (("half_pixel", 0), ("half_pixel", 1), ("asymmetric", 0), ("align_corners", 0), ("tf_crop_and_resize", 0)):
                if excludes and mode == "linear":
                    continue
                with self.subTest(mode=mode, size=(high, wide), places=places, excludes=excludes):
                    regions, outside = ((-0.1, 0.9), (0.2, 1.3)), 7.0
                    region = np.array([0, 0, -0.1, 0.2, 1, 1, 0.9, 1.3], F32) if places == "tf_crop_and_resize" else None
                    made = self.ran("Resize", [x, region, None, np.array([1, 2, high, wide])], constants=(3,) if region is None else (1, 3), opset=13, mode=mode,
                                    coordinate_transformation_mode=places, exclude_outside=excludes, extrapolation_value=outside)["o0"]
                    want = interpolated(x, 2, high, mode, places, excludes, regions[0], outside)
                    want = interpolated(want, 3, wide, mode, places, excludes, regions[1], outside)
                    inside = want != 7 if places == "tf_crop_and_resize" else np.ones(want.shape, bool)
                    self.assertEqual(made.shape, want.shape)
                    np.testing.assert_allclose(made[inside], want[inside], 2e-4, 2e-4)

    def test_judged(self):
        x = uniform(1, 2, 300, 290)
        for mode, size in itertools.product(("linear", "cubic"), ((70, 33), (150, 145), (299, 100))):
            self.judged("Resize", [x, None, None, np.array([1, 2, *size])], constants=(3,), opset=13, tolerance=1e-4, mode=mode)

    def test_other_ranks_and_whole_numbers(self):
        x = uniform(400)
        made = self.ran("Resize", [x, None, None, np.array([50])], constants=(3,), opset=13, mode="linear")["o0"]
        self.close(made, (x[3::8].astype(np.float64) + x[4::8]) / 2)
        whole = RANDOM.integers(0, 255, (2, 3, 256)).astype(np.uint8)
        made = self.ran("Resize", [whole, None, None, np.array([2, 3, 64])], constants=(3,), opset=13, mode="linear")["o0"]
        np.testing.assert_array_equal(made, np.rint((whole[..., 1::4].astype(np.float64) + whole[..., 2::4]) / 2))

    def test_gradients(self):
        for mode in ("linear", "cubic"):
            self.write("Resize", [uniform(1, 1, 40, 300).astype(np.float64), None, None, np.array([1, 1, 7, 21])], constants=(3,), opset=13, mode=mode)
            self.opc("grad", "model.onnx", "--check", "--loss", "o0", "--wrt", "i0", "--inputs", "in.npz")

    def test_memory_of_products(self):
        """A table of all weights would have 2^28."""
        made = self.ran("Resize", [uniform(1, 1 << 14), None, None, np.array([1, (1 << 14) + 2])], constants=(3,), opset=13, mode="linear")["o0"]
        self.assertTrue(np.isfinite(made).all())


class Bounds(Form):
    X = np.array([-np.inf, -2, -1, -0.5, 0, 0.5, 1, 2, np.inf, np.nan], F32)

    def clipped(self, low, high, opset):
        """The output and the gradient of its sum; bounds are attributes before operator set 11, and then constants."""
        given = {k: v for k, v in (("min", low), ("max", high)) if v is not None}
        if opset < 11:
            nodes = [m.node("Clip", ["x"], ["y"], "N", **given)]
        else:
            nodes = [m.node("Constant", [], [k], value=np.array(v, F32)) for k, v in given.items()]
            nodes.append(m.node("Clip", ["x", *(k if k in given else "" for k in ("min", "max"))], ["y"], "N"))
        self.file(nodes, [m.value("x", self.X.shape)], [m.value("y")], opset=opset)
        y = self.outputs_of("model.onnx", x=self.X)["y"]
        self.opc("grad", "model.onnx", "--loss", "y", "--wrt", "x", "-o", "g.pbtxt")
        return y, self.outputs_of("g.pbtxt", x=self.X)["x.grad"]

    def test_one_bound(self):
        """At the bound the gradient is 1, as that of PyTorch's clamp. Before operator set 11 a bound that is left out is f32's last number."""
        for opset in (6, 11, 13):
            last = np.finfo(F32).max if opset < 11 else F32(np.inf)
            for low, high in ((-1.0, None), (None, 0.5), (-1.0, 0.5), (0.0, None), (float("-inf"), None)):
                with self.subTest(opset=opset, low=low, high=high):
                    y, gradient = self.clipped(low, high, opset)
                    least, most = F32(-last if low is None else low), F32(last if high is None else high)
                    np.testing.assert_array_equal(y, np.clip(self.X, least, most))
                    inside = (self.X >= least) & (self.X <= most)
                    known = ~np.isnan(self.X)
                    np.testing.assert_array_equal(gradient[known], inside[known].astype(F32))

    def test_crossed_bounds(self):
        for opset in (6, 13):
            y, _ = self.clipped(0.5, -1.0, opset)
            np.testing.assert_array_equal(y[:-1], np.full(9, -1, F32))


class ZeroPoints(Form):
    """Convolutions of integers whose filters have zero points of their own, out as ONNX: ONNX Runtime's ConvInteger has one for all."""

    def exported(self, groups, zeros, kind, dims=2, opset=13):
        x, w = RANDOM.integers(0, 256, (2, 4, *(6, 5, 4)[:dims]), np.uint8), RANDOM.integers(-100, 100, (6, 4 // groups, *(3, 2, 2)[:dims])).astype(kind)
        rest = [F32(0.02), np.uint8(117), w, np.linspace(0.01, 0.03, 6, dtype=F32), np.array(zeros, kind), F32(0.9), np.uint8(121), RANDOM.integers(-3000, 3000, 6).astype(np.int32)]
        before, after = [1, 0, 1][:dims], [1, 0, 1][:dims]
        self.write("QLinearConv", [x, *rest], constants=range(1, 9), opset=opset, types={"o0": 2}, group=groups, pads=before + after, strides=[2, 1, 1][:dims])
        wanted = self.outputs_of("model.onnx", i0=x)["o0"]
        self.opc("compile", "model.onnx", "--emit", "onnx", "-o", "out.onnx")
        np.testing.assert_array_equal(self.outputs_of("out.onnx", i0=x)["o0"], wanted)
        if ort.judges(self) and not ort.saturates():
            for name in ("model.onnx", "out.onnx"):
                made = ort.run(self.folder, [(name, {"i0": x})])[0]["o0"]
                np.testing.assert_array_less(np.abs(made.astype(int) - wanted), 2)  # ONNX Runtime rounds halves of products in another order
                self.assertLess((made != wanted).mean(), 0.01)
        with open(os.path.join(self.folder, "out.onnx"), "rb") as f:
            body = next(b for n, b in m.fields(f.read()) if n == 7)
        return [dict(m.fields(b))[4].decode() for n, b in m.fields(body) if n == 1]

    def test_equal_ones_are_a_number(self):
        for zero in (0, 3):
            self.assertEqual(self.exported(1, [zero] * 6, np.int8).count("ConvInteger"), 1)

    def test_own_ones(self):
        zeros = [-3, 0, 7, 100, -128, 1]
        for groups in (1, 2):
            for dims in (1, 2, 3):
                with self.subTest(groups=groups, dims=dims):
                    self.assertEqual(self.exported(groups, zeros, np.int8, dims).count("ConvInteger"), 2)
        self.assertEqual(self.exported(2, [3, 0, 7, 100, 255, 1], np.uint8).count("ConvInteger"), 2)


class Gates(Form):
    def test_hard_swish(self):
        """The formula, but for -inf, of which opc's op has 0."""
        x = np.array([-np.inf, -1e38, -4, -3, -1.5, 0, 3, 4, np.inf, np.nan], F32)
        with np.errstate(invalid="ignore", over="ignore"):
            wanted = x * np.maximum(0, np.minimum(F32(1), x / 6 + F32(0.5)))
        made = self.ran("HardSwish", [x], opset=14)["o0"]
        self.assertEqual(made[0], 0)
        self.close(made[1:], wanted[1:])


class NothingToNormalize(Form):
    def test_zeros(self):
        """LpNormalization of zeros alone is zeros, in every operator set."""
        x = np.array([[0, 0, 0], [1, -2, 2], [-0.0, 0, 0], [0, np.nan, 0], [0, 0, 3]], F32)
        for opset in (1, 17, 22):
            for p, norms in ((1, np.abs(x).sum(1, keepdims=True)), (2, np.sqrt((x * x).sum(1, keepdims=True)))):
                made = self.judged("LpNormalization", [x], opset=opset, axis=1, p=p)["o0"]
                self.close(made, x / np.where(norms == 0, F32(1), norms))


if __name__ == "__main__":
    unittest.main()
