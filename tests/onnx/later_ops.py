# Attention with lengths and windows, caches, gates, regions, dilated poolings, embeddings and sparse tensors: against numpy, and
# against ONNX Runtime where it has the op; random ops by their statistics. Beside each what contradicts itself.
# SPDX-License-Identifier: Apache-2.0
import itertools
import math
import os
import sys
import unittest

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measured  # noqa: E402
import messages as m  # noqa: E402
import ort  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
MICROSOFT = "com.microsoft"
F32, I64 = np.float32, np.int64
RANDOM = np.random.default_rng(17)
INVALID, UNSUPPORTED = (3, "OPC0322"), (4, "OPC0422")


def uniform(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(F32)


def i64(*values):
    return np.array(values, I64)


class Case(FolderTest):
    def write(self, op, inputs, outputs=1, domain="", opset=24, constants=(), types=None, **attributes):
        """One node, called N: inputs are arrays or None, outputs o0, o1, ... or those of a list of places, of these element types."""
        names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
        places = range(outputs) if isinstance(outputs, int) else outputs
        made = [f"o{k}" if k in places else "" for k in range(max(places) + 1)]
        given = {n: a for k, (n, a) in enumerate(zip(names, inputs)) if n and k not in constants}
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph([m.node(op, names, made, "N", domain, **attributes)], [m.value(n, a.shape, m.ELEMENT[a.dtype]) for n, a in given.items()],
                                    [m.value(o, None, (types or {}).get(o, 0)) for o in made if o], [m.tensor(names[k], inputs[k]) for k in constants]),
                            opset=opset, domains=[domain] if domain else []))
        np.savez(os.path.join(self.folder, "in.npz"), **given)
        return given

    def run_model(self):
        done, self.seconds, self.peak = measured.run([OPC, "run", "model.onnx", "--quiet", "--inputs", "in.npz", "--outputs", "out.npz"], self.folder)
        return done

    def ran(self, *node, **more):
        self.write(*node, **more)
        done = self.run_model()
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(np.load(os.path.join(self.folder, "out.npz")))

    def judged(self, *node, tolerance=2e-5, **more):
        """The outputs, which ONNX Runtime makes too."""
        made = self.ran(*node, **more)
        if ort.judges(self):
            given = self.write(*node, types={name: m.ELEMENT[a.dtype] for name, a in made.items()}, **more)
            for name, wanted in ort.run(self.folder, [("model.onnx", given)])[0].items():
                self.close(made[name], wanted, tolerance)
        return made

    def close(self, got, want, tolerance=2e-5):
        self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype) if want.dtype != np.float64 else (want.shape, got.dtype))
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)

    def refused(self, how, words, *node, **more):
        given = self.write(*node, **more)
        done = self.run_model()
        self.assertEqual(done.returncode, how[0], done.stderr)
        self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        for word in (how[1], 'node 0 "N"', words):
            self.assertIn(word, done.stderr)
        self.assertLess(self.seconds, measured.SECONDS, words)
        return given


def softmax(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - np.where(np.isneginf(x.max(-1, keepdims=True)), 0, x.max(-1, keepdims=True)))
        total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def attention(q, k, v, mask=None, softcap=0.0, lengths=None, causal=False, left=-1, right=-1, past=0):
    """The output and the scores of each of the four modes, in f64: a query that sees no key gives 0."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    plain = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[3])
    capped = np.tanh(plain / softcap) * softcap if softcap else plain
    seen = np.ones(plain.shape, bool)
    for b in range(q.shape[0]):
        offset = past if lengths is None else lengths[b] - q.shape[2]
        for i in range(q.shape[2]):
            for j in range(k.shape[2]):
                at = i + offset
                seen[b, :, i, j] = ((lengths is None or j < lengths[b]) and (not causal or j <= at) and (left < 0 or j >= at - left) and
                                    (right < 0 or j <= at + right))
    bias = np.where(seen, 0, -np.inf)
    if mask is not None:
        given = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        short = k.shape[2] - given.shape[-1]
        given = np.concatenate([given, np.full((*given.shape[:-1], short), -np.inf)], -1)
        bias = bias + given
    shares = np.where(np.isneginf(bias.max(-1, keepdims=True)), 0, softmax(capped + bias))
    return shares @ v, [plain, capped, capped + bias, shares]


class Attention(Case):
    def setUp(self):
        super().setUp()
        self.q, self.k, self.v = uniform(2, 4, 3, 8), uniform(2, 2, 6, 8), uniform(2, 2, 6, 5)

    def test_softcap_before_the_mask(self):
        mask = uniform(3, 6) * 3
        want, _ = attention(self.q, self.k, self.v, mask, softcap=0.5)
        for opset in (23, 24):
            self.close(self.judged("Attention", [self.q, self.k, self.v, mask], opset=opset, softcap=0.5)["o0"], want)

    def test_scores(self):
        mask = RANDOM.integers(0, 2, (2, 1, 3, 6)).astype(bool)
        mask[0, 0, 1] = False
        for opset in (23, 24):
            for given in (mask, uniform(2, 1, 3, 6)):
                want, scores = attention(self.q, self.k, self.v, given, softcap=0.7)
                for mode in range(4):
                    # What is masked is -inf, and the lowest number in ONNX Runtime's scores.
                    run = self.ran if mode == 2 and given is mask else self.judged
                    made = run("Attention", [self.q, self.k, self.v, given], outputs=(0, 3), opset=opset, softcap=0.7, qk_matmul_output_mode=mode)
                    self.close(made["o0"], want)
                    self.close(made["o3"], scores[mode])

    def test_masks_of_one_column(self):
        """Of all keys in operator set 23, and of the first one from 24 on, where masks may be shorter."""
        mask = uniform(3, 1) * 3
        self.close(self.ran("Attention", [self.q, self.k, self.v, mask], opset=23)["o0"], attention(self.q, self.k, self.v, mask.repeat(6, 1))[0])
        self.close(self.ran("Attention", [self.q, self.k, self.v, mask], opset=24)["o0"], attention(self.q, self.k, self.v, mask)[0])

    def test_queries_without_keys(self):
        """0, and a gradient that is finite."""
        mask = np.array([[1, 1, 0, 0, 1, 0], [0] * 6, [1] * 6], bool)
        made = self.judged("Attention", [self.q, self.k, self.v, mask])["o0"]
        self.close(made, attention(self.q, self.k, self.v, mask)[0])
        self.assertTrue((made[:, :, 1] == 0).all())
        done, *_ = measured.run([OPC, "grad", "model.onnx", "--loss", "o0", "--wrt", "i0", "--wrt", "i2", "-o", "g.pbtxt"], self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        done, *_ = measured.run([OPC, "run", "g.pbtxt", "--inputs", "in.npz", "--outputs", "out.npz"], self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        gradient = np.load(os.path.join(self.folder, "out.npz"))["i0.grad"]
        self.assertTrue(np.isfinite(gradient).all())
        self.assertTrue((gradient[:, :, 1] == 0).all())
        self.assertGreater(np.abs(gradient[:, :, 0]).max(), 0)

    def test_lengths(self):
        for lengths in (i64(6, 3), i64(2, 5), i64(0, 4)):
            for causal in (0, 1):
                want, _ = attention(self.q, self.k, self.v, lengths=lengths, causal=causal)
                self.close(self.judged("Attention", [self.q, self.k, self.v, None, None, None, lengths], is_causal=causal)["o0"], want)
                self.close(self.ran("Attention", [self.q, self.k, self.v, None, None, None, lengths], is_causal=causal, constants=(6,))["o0"], want)
        mask = RANDOM.integers(0, 2, (3, 5)).astype(bool)
        want, _ = attention(self.q, self.k, self.v, mask, lengths=i64(4, 5))
        self.close(self.ran("Attention", [self.q, self.k, self.v, mask, None, None, i64(4, 5)])["o0"], want)

    def test_windows(self):
        past = [uniform(2, 2, 4, 8), uniform(2, 2, 4, 5)]
        for left, right, causal in ((1, -1, 0), (-1, 0, 0), (2, 1, 0), (0, 0, 0), (2, -1, 1), (3, 2, 1)):
            sides = dict(left_window_size=left, right_window_size=right, is_causal=causal)
            facts = dict(left=left, right=right, causal=causal)
            self.close(self.ran("Attention", [self.q, self.k, self.v], opset=25, **sides)["o0"], attention(self.q, self.k, self.v, **facts)[0])
            want, _ = attention(self.q, np.concatenate([past[0], self.k], 2), np.concatenate([past[1], self.v], 2), past=4, **facts)
            self.close(self.ran("Attention", [self.q, self.k, self.v, None, *past], outputs=3, opset=25, **sides)["o0"], want)
            want, _ = attention(self.q, self.k, self.v, lengths=i64(5, 3), **facts)
            self.close(self.ran("Attention", [self.q, self.k, self.v, None, None, None, i64(5, 3)], opset=25, **sides)["o0"], want)

    def test_contradictions(self):
        q, k, v = self.q, self.k, self.v
        plain, past = [q, k, v], [uniform(2, 2, 4, 8), uniform(2, 2, 4, 5)]
        self.refused(INVALID, "'left_window_size' is one of operator set 25 on", "Attention", plain, opset=24, left_window_size=2)
        self.refused(INVALID, "'right_window_size' is -2", "Attention", plain, opset=25, right_window_size=-2)
        self.refused(INVALID, "is one of operator set 24 on", "Attention", [*plain, None, None, None, i64(1, 2)], opset=23)
        self.refused(INVALID, "do not go together", "Attention", [*plain, None, *past, i64(1, 2)], outputs=3)
        self.refused(INVALID, "do not go together", "Attention", [*plain, None, None, None, i64(1, 2)], outputs=3)
        self.refused(INVALID, "the sequences have shape", "Attention", [*plain, None, None, None, i64(1, 2, 3)])
        for flat in ([past[0].ravel(), past[1]], [past[0], past[1].ravel()]):
            self.refused(INVALID, "must be [batch, heads, places, size]", "Attention", [*plain, None, *flat], outputs=3)
        self.refused(INVALID, "is for 4 keys, and there are 6", "Attention", [*plain, uniform(3, 4)], opset=23)
        self.refused(INVALID, "leads to place 7", "Attention", [*plain, None, None, None, i64(1, 7)], constants=(6,))
        self.refused(INVALID, "'qk_matmul_output_mode' is 4", "Attention", plain, outputs=(0, 3), qk_matmul_output_mode=4)
        self.write("Attention", [*plain, None, None, None, i64(1, 7)])  # that only the run knows
        self.assertEqual(self.run_model().returncode, 5)


class Caches(Case):
    def wanted(self, cache, update, first, axis, circular):
        out, axis = cache.copy(), axis % cache.ndim
        for b in range(cache.shape[0]):
            for j in range(update.shape[axis]):
                at = first[b] + j
                to, source = [b] + [slice(None)] * (cache.ndim - 1), [b] + [slice(None)] * (cache.ndim - 1)
                to[axis], source[axis] = at % cache.shape[axis] if circular else at, j
                out[tuple(to)] = update[tuple(source)]
        return out

    def test_places(self):
        for dtype in (F32, I64):
            cache, update = ((uniform(*s) * 100).astype(dtype) for s in ((3, 2, 5, 4), (3, 2, 2, 4)))
            for mode, first in (("linear", i64(0, 3, 1)), ("circular", i64(4, 3, 7))):
                made = self.judged("TensorScatter", [cache, update, first], mode=mode)["o0"]
                np.testing.assert_array_equal(made, self.wanted(cache, update, first, -2, mode == "circular"))
        np.testing.assert_array_equal(self.judged("TensorScatter", [cache, update])["o0"], self.wanted(cache, update, i64(0, 0, 0), -2, False))
        cache, update, first = uniform(2, 6, 3), uniform(2, 4, 3), i64(2, 1)
        np.testing.assert_array_equal(self.judged("TensorScatter", [cache, update, first], axis=1)["o0"], self.wanted(cache, update, first, 1, False))

    def test_contradictions(self):
        cache, update = uniform(2, 1, 5, 4), uniform(2, 1, 2, 4)
        self.refused(INVALID, "the axis of the sequences", "TensorScatter", [cache, update], axis=0)
        self.refused(INVALID, "'mode' is 'round'", "TensorScatter", [cache, update], mode="round")
        self.refused(INVALID, "leads to place 4", "TensorScatter", [cache, update, i64(0, 4)], constants=(2,))
        self.refused(INVALID, "has 6 places, and the cache 5", "TensorScatter", [cache, uniform(2, 1, 6, 4)])
        self.refused(INVALID, "the cache's sequences have shape", "TensorScatter", [cache, uniform(2, 1, 2, 3)])
        self.refused(INVALID, "the sequences have shape", "TensorScatter", [cache, update, i64(0)])
        self.refused(INVALID, "must be of type i64", "TensorScatter", [cache, update, np.zeros(2, np.int32)])


class Gates(Case):
    def test_gates(self):
        a, b = uniform(2, 3) * 3, uniform(2, 3)
        self.close(self.ran("SwiGLU", [a, b], opset=28)["o0"], a / (1 + np.exp(-a.astype(np.float64))) * b)
        self.close(self.ran("SwiGLU", [a, b], opset=28, alpha=1.7)["o0"], a / (1 + np.exp(-1.7 * a.astype(np.float64))) * b)
        self.refused(INVALID, "the gates have shape (2,3)", "SwiGLU", [a, uniform(1, 3)], opset=28)
        self.refused(INVALID, "no attribute 'beta'", "SwiGLU", [a, b], opset=28, beta=1.0)
        # What cannot be computed has one error, whoever reads it.
        self.refused((3, "OPC0205"), "attribute 'alpha' is nan", "LeakyRelu", [a], alpha=float("nan"))


def samples_of(begin, length, bins, ratio):
    count = ratio if ratio else max(int(np.ceil(F32(length) / F32(bins))), 0)
    return [[begin + (b + (i + 0.5) / count) * length / bins for i in range(count)] for b in range(bins)]


def roi_align(x, rois, images, ratio, mode, high, wide, half, scale):
    """By the definition, sample by sample."""
    out = np.zeros((len(rois), x.shape[1], high, wide))
    height, width = x.shape[2:]
    for k, (roi, image) in enumerate(zip(rois.astype(np.float64) * scale - (0.5 if half else 0), images)):
        w, h = roi[2] - roi[0], roi[3] - roi[1]
        if not half:
            w, h = max(w, 1), max(h, 1)
        ys, xs = samples_of(roi[1], h, high, ratio), samples_of(roi[0], w, wide, ratio)
        for i in range(high):
            for j in range(wide):
                values = []
                for y in ys[i]:
                    for at in xs[j]:
                        if y < -1 or y > height or at < -1 or at > width:
                            values.append([np.zeros(x.shape[1])] * 4)
                            continue
                        r, c = min(max(y, 0), height - 1), min(max(at, 0), width - 1)
                        r0, c0 = int(r), int(c)
                        r1, c1 = min(r0 + 1, height - 1), min(c0 + 1, width - 1)
                        values.append([x[image, :, r0, c0] * (1 - r + r0) * (1 - c + c0), x[image, :, r0, c1] * (1 - r + r0) * (c - c0),
                                       x[image, :, r1, c0] * (r - r0) * (1 - c + c0), x[image, :, r1, c1] * (r - r0) * (c - c0)])
                if values:
                    values = np.array(values)
                    out[k, :, i, j] = values.sum(1).mean(0) if mode == "avg" else values.max((0, 1))
    return out


class Regions(Case):
    ROIS = np.array([[0, 0, 5, 4], [1.5, 2, 3, 6.5], [-2, -1, 4, 3], [4, 3, 12, 9], [3, 3, 3.5, 3.2]], F32)
    IMAGES = i64(0, 1, 1, 0, 1)

    def test_alignment(self):
        x = uniform(2, 3, 7, 6)
        for mode in ("avg", "max"):
            for ratio in (0, 2):
                for how in ("half_pixel", "output_half_pixel"):
                    node = ("RoiAlign", [x, self.ROIS, self.IMAGES])
                    form = dict(opset=17, mode=mode, sampling_ratio=ratio, output_height=3, output_width=2, spatial_scale=0.75, coordinate_transformation_mode=how)
                    made = self.judged(*node, **form)["o0"]
                    want = roi_align(x, self.ROIS, self.IMAGES, ratio, mode, 3, 2, how == "half_pixel", 0.75)
                    np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-5)
                    self.close(self.ran(*node, constants=(1, 2), **form)["o0"], want, 1e-4)

    def test_regions_far_larger_than_images(self):
        x = uniform(2, 3, 7, 6)
        for mode in ("avg", "max"):
            form = dict(mode=mode, output_height=2, opset=17)
            made = self.judged("RoiAlign", [x, self.ROIS * 20, self.IMAGES], **form)["o0"]
            self.close(made, roi_align(x, self.ROIS * 20, self.IMAGES, 0, mode, 2, 1, True, 1), 1e-5)
        # A side of 2^38: the samples between are too many to be gone through.
        vast = np.array([[0, 0, 2.0**38, 4], [-(2.0**38), 0, 2.0**38, 4]], F32)
        self.close(self.ran("RoiAlign", [x, vast, i64(0, 1)], opset=17)["o0"], np.zeros((2, 3, 1, 1)), 1e-6)

    def test_regions_copy_no_images(self):
        x, count = uniform(1, 64, 128, 128), 200  # 4 MiB, copied 800 MiB
        self.ran("RoiAlign", [x, np.tile(self.ROIS, (40, 1)), np.zeros(count, I64)], opset=17, output_height=2)
        if not os.environ.get("OPC_SANITIZE"):
            self.assertLess(self.peak, 300 << 20)

    def test_cells(self):
        x = uniform(2, 3, 7, 6)
        rois = np.concatenate([self.IMAGES[:, None].astype(F32), self.ROIS], 1)
        made = self.judged("MaxRoiPool", [x, rois], opset=17, pooled_shape=[3, 2], spatial_scale=0.75)["o0"]
        want = np.zeros((5, 3, 3, 2))
        for k, roi in enumerate(rois):
            x0, y0, x1, y1 = (int(np.floor(v * F32(0.75) + 0.5)) if v >= 0 else -int(np.floor(-v * F32(0.75) + 0.5)) for v in roi[1:])
            h, w = max(y1 - y0 + 1, 1) / 3, max(x1 - x0 + 1, 1) / 2
            for i in range(3):
                for j in range(2):
                    top, bottom = (int(np.clip(v + y0, 0, 7)) for v in (np.floor(i * h), np.ceil((i + 1) * h)))
                    left, right = (int(np.clip(v + x0, 0, 6)) for v in (np.floor(j * w), np.ceil((j + 1) * w)))
                    if bottom > top and right > left:
                        want[k, :, i, j] = x[int(roi[0]), :, top:bottom, left:right].max((1, 2))
        np.testing.assert_array_equal(made, want.astype(F32))

    def test_halves_go_away_from_zero(self):
        x = np.arange(54, dtype=F32).reshape(1, 1, 6, 9)
        rois = np.array([[0, 1, 1, 5, 5], [0, -1, -3, 5, 3], [0, 3, 1, 9, 7], [0, 0.999, 1, 1.001, 3]], F32)
        made = self.judged("MaxRoiPool", [x, rois], opset=17, pooled_shape=[1, 1], spatial_scale=0.5)["o0"]
        # The last column and row: 2.5 is 3, 1.5 is 2, 4.5 is 5, 3.5 is 4, 0.5005 is 1.
        self.assertEqual(made.ravel().tolist(), [3 * 9 + 3, 2 * 9 + 3, 4 * 9 + 5, 2 * 9 + 1])

    def test_contradictions(self):
        x, rois = uniform(2, 3, 7, 6), np.concatenate([self.IMAGES[:, None].astype(F32), self.ROIS], 1)
        node = [x, self.ROIS, self.IMAGES]
        self.refused(INVALID, "leads to place 2", "RoiAlign", [x, self.ROIS, i64(0, 1, 2, 0, 1)], constants=(2,))
        self.refused(INVALID, "the rois have shape (5)", "RoiAlign", [x, self.ROIS, i64(0, 1)])
        self.refused(INVALID, "'sampling_ratio' is -1, and must be from 0 to 64", "RoiAlign", node, sampling_ratio=-1)
        self.refused(INVALID, "'output_width' is 1099511627776", "RoiAlign", node, output_width=1 << 40)
        for scale in (0.0, -1.0, float("nan"), float("inf")):
            self.refused(INVALID, f"'spatial_scale' is {scale:f}", "RoiAlign", node, spatial_scale=scale)
            self.refused(INVALID, f"'spatial_scale' is {scale:f}", "MaxRoiPool", [x, rois], pooled_shape=[2, 2], spatial_scale=scale)
        self.refused(INVALID, "'mode' is 'sum'", "RoiAlign", node, mode="sum")
        self.refused((5, "OPC0601"), "batch_indices[2] = 2 is outside [0, 2), the range of the images of x", "RoiAlign", [x, self.ROIS, i64(0, 1, 2, 0, 1)])
        self.refused((5, "OPC0601"), "batch_indices[0] = -1 is outside [0, 2)", "RoiAlign", [x, self.ROIS, i64(-1, 1, 1, 0, 1)])
        self.refused(INVALID, "'pooled_shape'", "MaxRoiPool", [x, rois])
        self.refused(INVALID, "'pooled_shape'", "MaxRoiPool", [x, rois], pooled_shape=[0, 2])
        self.refused(INVALID, "'pooled_shape'", "MaxRoiPool", [x, rois], pooled_shape=[1 << 40, 2])
        self.refused(INVALID, "rois [k, 5]", "MaxRoiPool", [x, self.ROIS], pooled_shape=[2, 2])
        self.refused(INVALID, "leads to place 2", "MaxRoiPool", [x, rois + F32(1)], pooled_shape=[2, 2], constants=(1,))


class Pieces(Case):
    def test_slices_without_elements(self):
        """Where one axis has none left the others are cut all the same."""
        x = uniform(6, 7, 5)
        for starts, ends, axes, steps, want in (([0, 3], [2, 3], [0, 2], [1, 1], x[0:2, :, 3:3]), ([3, 0], [3, 2], [2, 0], [1, -1], x[0:2:-1, :, 3:3]),
                                                ([0, 3, 1], [2, 3, 4], [0, 2, 1], [1, 1, 1], x[0:2, 1:4, 3:3]), ([4, 4], [2, 3], [0, 1], [1, 1], x[4:2, 4:3]),
                                                ([5, 3], [0, 3], [0, 2], [-2, 1], x[5:0:-2, :, 3:3])):
            made = self.judged("Slice", [x, i64(*starts), i64(*ends), i64(*axes), i64(*steps)], constants=(1, 2, 3, 4))["o0"]
            self.assertEqual(made.shape, want.shape)
        empty = np.zeros((0, 5, 4), F32)
        made = self.ran("Slice", [empty, i64(0, 1), i64(1, 3), i64(0, 1)], constants=(1, 2, 3))["o0"]
        self.assertEqual(made.shape, (0, 2, 4))
        self.assertEqual(self.ran("Slice", [x], opset=9, starts=[0, 3], ends=[2, 3], axes=[0, 2])["o0"].shape, (2, 7, 0))

    def test_backwards_from_before_the_first(self):
        """The specification holds a start to the elements there are where numpy has none: the first one is left."""
        x = uniform(1, 1, 6)
        for start in (-9, -7, -6, I64(-2**63)):
            made = self.judged("Slice", [x, i64(start), i64(-100), i64(2), i64(-1)], constants=(1, 2, 3, 4))["o0"]
            self.close(made, x[:, :, :1])
        self.assertEqual(self.ran("Slice", [x, i64(-9), i64(0), i64(2), i64(-1)], constants=(1, 2, 3, 4))["o0"].shape, (1, 1, 0))
        empty = np.zeros((1, 0), F32)
        self.assertEqual(self.ran("Slice", [empty, i64(5), i64(-9), i64(1), i64(-1)], constants=(1, 2, 3, 4))["o0"].shape, (1, 0))

    def test_none_of_the_largest(self):
        x = uniform(3, 4)
        for largest in (0, 1):
            for axis, shape in ((-1, (3, 0)), (0, (0, 4))):
                made = self.judged("TopK", [x, i64(0)], outputs=2, constants=(1,), axis=axis, largest=largest)
                self.assertEqual([(a.shape, a.dtype) for a in made.values()], [(shape, F32), (shape, I64)])
        self.assertEqual(self.ran("TopK", [x], outputs=2, opset=9, k=0)["o1"].shape, (3, 0))

    def test_not_a_number_is_under_a_threshold(self):
        """x where x > alpha, 0 everywhere else."""
        x = np.array([np.nan, -2, 1, 1.5, 3, np.inf, -np.inf], F32)
        for alpha in (1.5, -1.0):
            self.close(self.judged("ThresholdedRelu", [x], alpha=alpha)["o0"], np.where(x > alpha, x, F32(0)))

    def test_a_region_of_one_element(self):
        """0.5 * (start + end) * (length - 1), also where the scale gives a little more than one element: here 3.5."""
        x, roi = np.arange(1, 9, dtype=F32).reshape(1, 8), np.array([0, 0.2, 1, 0.8], F32)
        for mode, want in (("linear", 4.5), ("nearest", 4.0)):
            for scale in (0.125, 0.15, 0.24):
                made = self.judged("Resize", [x, roi, np.array([1, scale], F32)], constants=(1, 2), mode=mode, coordinate_transformation_mode="tf_crop_and_resize",
                                   nearest_mode="round_prefer_floor")["o0"]
                self.close(made, np.array([[want]], F32))

    def test_sizes_by_scales(self):
        """The product of a size and a scale is one of f32: 10 times 0.7 are 7 elements."""
        for n, scale, want in ((10, 0.7, 7), (5, 1.4, 7), (5, 2.6, 13), (100, 0.57, 57), (20, 0.35, 7), (10, 2.3, 23), (30, 0.9, 27), (7, 1.0, 7), (3, 2.5, 7)):
            x = uniform(1, 1, n)
            made = self.judged("Resize", [x, None, np.array([1, 1, scale], F32)], constants=(2,), opset=13, mode="nearest", coordinate_transformation_mode="asymmetric",
                               nearest_mode="floor")["o0"]
            self.assertEqual(made.shape, (1, 1, want), (n, scale))
            if scale >= 1:
                made = self.judged("Upsample", [x, np.array([1, 1, scale], F32)], constants=(1,), opset=9, mode="nearest")["o0"]
                self.assertEqual(made.shape, (1, 1, want), (n, scale))


class Pools(Case):
    def windows(self, x, kernel, dilations, strides, pads):
        """The elements of each window, NaN where there is none: [n, c, out..., kernel...]."""
        dims = len(kernel)
        spread = np.full((*x.shape[:2], *(s + pads[k] + pads[k + dims] for k, s in enumerate(x.shape[2:]))), np.nan)
        spread[(slice(None), slice(None), *(slice(pads[k], pads[k] + s) for k, s in enumerate(x.shape[2:])))] = x
        out = spread
        for k in range(dims):
            axis = 2 + k
            count = (spread.shape[axis] - (kernel[k] - 1) * dilations[k] - 1) // strides[k] + 1
            out = np.stack([np.take(out, np.arange(count) * strides[k] + t * dilations[k], axis) for t in range(kernel[k])], -1)
        return out

    FORMS = [((2, 2), (2, 2), (1, 1), (0, 0, 0, 0)), ((3, 2), (2, 3), (2, 1), (1, 1, 2, 0)), ((2, 3), (1, 2), (1, 2), (1, 1, 0, 2))]

    def test_averages(self):
        x = uniform(2, 3, 9, 8)
        for kernel, dilations, strides, pads in self.FORMS:
            form = dict(kernel_shape=list(kernel), dilations=list(dilations), strides=list(strides), pads=list(pads))
            w = self.windows(x, kernel, dilations, strides, pads)
            self.close(self.judged("AveragePool", [x], opset=22, **form)["o0"], np.nanmean(w, (-1, -2)))
            self.close(self.judged("AveragePool", [x], opset=22, count_include_pad=1, **form)["o0"], np.nansum(w, (-1, -2)) / np.prod(kernel))
            for p in (1, 2, 3):
                self.close(self.judged("LpPool", [x], opset=22, p=p, **form)["o0"], np.nansum(np.abs(w) ** p, (-1, -2)) ** (1 / p))
        x = uniform(1, 2, 11)
        w = self.windows(x, (3,), (3,), (2,), (1, 1))
        self.close(self.judged("AveragePool", [x], opset=22, kernel_shape=[3], dilations=[3], strides=[2], pads=[1, 1])["o0"], np.nanmean(w, -1))

    def test_rounded_up(self):
        """The last window has more than there is, which does not count."""
        x = uniform(1, 1, 8)
        for counts in (0, 1):
            made = self.judged("AveragePool", [x], opset=22, kernel_shape=[2], dilations=[2], strides=[3], ceil_mode=1, pads=[0, 1], count_include_pad=counts)["o0"]
            self.close(made[0, 0, :2], np.array([(x[0, 0, 0] + x[0, 0, 2]) / 2, (x[0, 0, 3] + x[0, 0, 5]) / 2]))

    def test_last_windows_end_with_wide_pads(self):
        """Pads over half a window count, and what a last window has beyond them does not."""
        made = self.judged("AveragePool", [np.arange(1, 9, dtype=F32).reshape(1, 1, 8)], kernel_shape=[4], strides=[3], pads=[3, 1], ceil_mode=1, count_include_pad=1)["o0"]
        self.close(made, np.array([[[0.25, 2.5, 5.5, 5]]], F32))
        for shape, kernel, strides, pads in (((1, 2, 5, 6, 7), [3, 4, 3], [2, 3, 2], [1, 3, 2, 0, 1, 2]), ((2, 1, 6, 5), [4, 1], [3, 1], [3, 0, 1, 0]), ((1, 1, 9), [3], [2], [2, 1])):
            x = uniform(*shape)
            for ceils in (0, 1):
                form = dict(kernel_shape=kernel, strides=strides, pads=pads, ceil_mode=ceils, count_include_pad=1)
                made = self.judged("AveragePool", [x], **form)["o0"]
                self.close(made, self.averages(x, kernel, strides, pads, ceils))

    @staticmethod
    def averages(x, kernel, strides, pads, ceils):
        """Each window, cut at the padded border, by its elements there: PyTorch's rule."""
        dims, places = len(kernel), []
        wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *zip(pads[:dims], pads[dims:])])
        for k in range(dims):
            room = wide.shape[2 + k] - kernel[k]
            count = (-(-room // strides[k]) if ceils else room // strides[k]) + 1
            count -= ceils and (count - 1) * strides[k] >= x.shape[2 + k] + pads[k]
            places.append(range(0, count * strides[k], strides[k]))
        made = [wide[(slice(None), slice(None), *(slice(a, a + n) for a, n in zip(at, kernel)))].mean(tuple(range(2, 2 + dims))) for at in itertools.product(*places)]
        return np.moveaxis(np.array(made), 0, -1).reshape(*x.shape[:2], *map(len, places))

    def test_columns_first(self):
        for shape, kernel in (((2, 3, 5, 4), (2, 2)), ((1, 2, 4, 3, 5), (2, 2, 3)), ((2, 2, 7), (3,))):
            x = uniform(*shape)
            made = self.judged("MaxPool", [x], outputs=2, opset=22, kernel_shape=list(kernel), storage_order=1)
            for image in range(shape[0]):
                for channel in range(shape[1]):
                    plane = math.prod(shape[2:])
                    flat = x[image, channel].reshape(-1, order="F")
                    np.testing.assert_array_equal(flat[made["o1"][image, channel] - (image * shape[1] + channel) * plane], made["o0"][image, channel])

    def test_wide_pads(self):
        """Pads of more than half a window, with the places of the largest elements."""
        for shape, form in (((2, 3, 9, 8), dict(kernel_shape=[3, 2], dilations=[2, 3], strides=[1, 2], pads=[1, 0, 2, 1], ceil_mode=1)),
                            ((1, 2, 5, 4), dict(kernel_shape=[3, 3], pads=[2, 2, 0, 1])), ((2, 1, 7), dict(kernel_shape=[4], strides=[3], pads=[3, 3])),
                            ((1, 2, 3, 4, 5), dict(kernel_shape=[2, 3, 3], pads=[1, 2, 0, 1, 0, 2]))):
            for order in (0, 1):
                x = uniform(*shape)
                made = self.judged("MaxPool", [x], outputs=2, opset=22, storage_order=order, **form)
                flat = np.stack([image.reshape(-1, order="CF"[order]) for image in x.reshape(-1, *shape[2:])]).reshape(-1)
                np.testing.assert_array_equal(flat[made["o1"]], made["o0"])
        numbers = RANDOM.integers(-128, 0, (1, 2, 4, 4)).astype(np.int8)
        self.judged("MaxPool", [numbers], outputs=2, opset=22, kernel_shape=[3, 3], pads=[2, 2, 2, 2])

    def test_contradictions(self):
        x = uniform(1, 2, 5, 5)
        self.refused(INVALID, "a window is larger than its images", "AveragePool", [x], kernel_shape=[3, 3], dilations=[4, 1])
        for name, values, value in (("dilations", [0, 1], 0), ("strides", [1, -2], -2), ("pads", [0, 0, -1, 0], -1), ("kernel_shape", [2, 1 << 40], 1 << 40)):
            self.refused(INVALID, f"attribute '{name}' has {value}, and must be from", "AveragePool", [x], **{"kernel_shape": [2, 2], name: values})
        for indices in (np.zeros(4, I64), np.zeros((1, 1, 2, 2, 1), I64)):
            self.refused(INVALID, "the values have shape (1,1,2,2)", "MaxUnpool", [uniform(1, 1, 2, 2), indices], opset=11, kernel_shape=[2, 2], strides=[2, 2])
        self.refused(UNSUPPORTED, "4 spatial dimensions", "LpPool", [uniform(1, 1, 3, 3, 3, 3)], kernel_shape=[2] * 4, dilations=[2] * 4)
        self.refused(INVALID, "'storage_order' is 2", "MaxPool", [x], kernel_shape=[2, 2], storage_order=2)


class Embeddings(Case):
    def setUp(self):
        super().setUp()
        self.ids, self.kinds = (RANDOM.integers(0, n, (2, 5)).astype(np.int32) for n in (9, 2))
        self.words, self.places, self.segments, self.scale, self.bias = uniform(9, 8), uniform(7, 8), uniform(2, 8), uniform(8), uniform(8)

    def node(self, **changed):
        inputs = {**dict(ids=self.ids, kinds=self.kinds, words=self.words, places=self.places, segments=self.segments, scale=self.scale, bias=self.bias,
                         mask=None, at=None), **changed}
        return "EmbedLayerNormalization", [inputs[k] for k in ("ids", "kinds", "words", "places", "segments", "scale", "bias", "mask", "at")]

    def test_sums(self):
        mask = (np.arange(5)[None] < np.array([[3], [5]])).astype(np.int32)
        at = RANDOM.integers(0, 7, (2, 5)).astype(np.int32)
        for changed, kinds, rows in ((dict(), True, np.arange(5)[None]), (dict(kinds=None, segments=None), False, np.arange(5)[None]),
                                     (dict(mask=mask, at=at), True, at), (dict(at=at[:1]), True, at[:1])):
            made = self.judged(*self.node(**changed), outputs=3, domain=MICROSOFT, opset=17, epsilon=1e-5)
            total = (self.words[self.ids] + self.places[rows] + (self.segments[self.kinds] if kinds else 0)).astype(np.float64)
            want = (total - total.mean(-1, keepdims=True)) / np.sqrt(total.var(-1, keepdims=True) + 1e-5) * self.scale + self.bias
            self.close(made["o0"], want)
            np.testing.assert_array_equal(made["o1"], np.array([3, 5] if changed.get("mask") is not None else [0, 0], np.int32))
            self.close(made["o2"], total)
        mask[0, 1], mask[1, 0] = 2, -1  # no words
        made = self.judged(*self.node(mask=mask), outputs=3, domain=MICROSOFT, opset=17, epsilon=1e-5)
        np.testing.assert_array_equal(made["o1"], np.array([2, 4], np.int32))

    def test_contradictions(self):
        for words, changed in (("segments and their table", dict(kinds=None)), ("and the words have 8 numbers each", dict(segments=uniform(2, 7))),
                               ("and there are 5 places", dict(places=uniform(4, 8))), ("its scale is", dict(scale=uniform(7))),
                               ("the ids have shape", dict(kinds=self.kinds[:, :4])), ("the ids have shape", dict(at=np.zeros((3, 5), np.int32))),
                               ("ids [batch, length]", dict(ids=self.ids[0]))):
            self.refused(INVALID, words, *self.node(**changed), domain=MICROSOFT, opset=17)
        self.ids[1, 2] = 9
        self.refused(INVALID, "leads to place 9", *self.node(), domain=MICROSOFT, opset=17, constants=(0,))


class Random(Case):
    """The numbers are opc's own: their distribution is looked at, to five standard deviations, and that runs and seeds differ."""

    def moments(self, made, mean, deviation):
        n = made.size
        self.assertLess(abs(made.mean() - mean), 5 * deviation / math.sqrt(n))
        self.assertLess(abs(made.std() - deviation), 5 * deviation / math.sqrt(n))

    def test_sources(self):
        shape = [40, 500]
        for dtype, number in ((np.float32, 1), (np.float64, 11), (np.float16, 10)):
            made = self.ran("RandomNormal", [], opset=22, shape=shape, dtype=number, mean=2.0, scale=3.0, seed=1.0)["o0"]
            self.assertEqual((made.shape, made.dtype), ((40, 500), np.dtype(dtype)))
            self.moments(made.astype(np.float64), 2, 3)
            made = self.ran("RandomUniform", [], opset=22, shape=shape, dtype=number, low=-1.0, high=3.0, seed=1.0)["o0"]
            self.assertTrue((made >= -1).all() and (made <= 3).all())
            self.moments(made.astype(np.float64), 1, 4 / math.sqrt(12))
        x = uniform(40, 500)
        self.moments(self.ran("RandomNormalLike", [x], opset=22)["o0"], 0, 1)
        made = self.ran("RandomUniformLike", [x.astype(I64)], opset=22, dtype=11)["o0"]
        self.assertEqual(made.dtype, np.float64)
        self.moments(made, 0.5, 1 / math.sqrt(12))

    def test_seeds(self):
        one, again, other = (self.ran("RandomNormal", [], shape=[50], seed=s)["o0"] for s in (1.0, 1.0, 1.5))
        np.testing.assert_array_equal(one, again)
        self.assertFalse((one == other).any())

    def test_bernoulli(self):
        p = np.repeat(np.array([0, 0.2, 0.7, 1], F32), 5000)
        for number, dtype in ((None, F32), (11, np.float64), (9, np.bool_), (7, I64), (3, np.int8)):
            made = self.ran("Bernoulli", [p], opset=22, **({} if number is None else {"dtype": number}))["o0"]
            self.assertEqual(made.dtype, np.dtype(dtype))
            self.assertEqual(set(np.unique(made).tolist()), {0, 1})
            for value, part in zip((0, 0.2, 0.7, 1), made.reshape(4, 5000).astype(np.float64)):
                self.assertLessEqual(abs(part.mean() - value), 5 * math.sqrt(value * (1 - value) / 5000))

    def test_multinomial(self):
        shares = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0, 0.3, 0]])
        with np.errstate(divide="ignore"):
            logs = np.log(shares).astype(F32)
        logs[1] += 5 # logarithms need no norm
        for number, dtype in ((None, np.int32), (7, I64)):
            made = self.ran("Multinomial", [logs], opset=22, sample_size=20000, **({} if number is None else {"dtype": number}))["o0"]
            self.assertEqual((made.shape, made.dtype), ((2, 20000), np.dtype(dtype)))
            for row, wanted in zip(made, shares):
                found = np.bincount(row, minlength=4) / 20000
                self.assertTrue((np.abs(found - wanted) <= 5 * np.sqrt(wanted * (1 - wanted) / 20000)).all(), found)

    def test_contradictions(self):
        x = uniform(2, 3)
        self.refused(INVALID, "'shape' is missing", "RandomNormal", [])
        self.refused(INVALID, "a dimension of -1", "RandomUniform", [], shape=[2, -1])
        self.refused(INVALID, "its element type is i64", "RandomNormal", [], shape=[2], dtype=7)
        self.refused(INVALID, "its element type is i64", "RandomUniformLike", [x.astype(I64)])
        self.refused(INVALID, "'scale' is -1", "RandomNormal", [], shape=[2], scale=-1.0)
        self.refused(INVALID, "from 2.000000 to 1.000000", "RandomUniform", [], shape=[2], low=2.0)
        self.refused(INVALID, "must be probabilities", "Bernoulli", [x.astype(I64)])
        self.refused(INVALID, "'sample_size' is 0", "Multinomial", [x], sample_size=0)
        self.refused(INVALID, "'dtype' must be 6 (i32) or 7 (i64)", "Multinomial", [x], dtype=1)
        self.refused(INVALID, "[batch, classes]", "Multinomial", [x[0]])


def sparse(name, values, indices, dims):
    return m.field(1, m.tensor(name, values)) + m.field(2, m.tensor("", indices)) + b"".join(m.field(3, d) for d in dims)


class Sparse(Case):
    """Of initializers and of Constant: written out, as far as that is not far more than the file holds."""

    VALUES = np.array([1.5, -2, 3], F32)

    def model(self, tensor, kind):
        nodes, extra = [m.node("Add", ["x", "w"], ["y"], "N")], b""
        if kind == "initializer":
            extra = m.field(15, tensor)
        else:
            attribute = m.field(1, "sparse_value") + m.field(22, tensor) + m.field(20, 11)
            nodes.insert(0, m.field(2, "w") + m.field(3, "C") + m.field(4, "Constant") + m.field(5, attribute))
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, [m.value("x", (2, 4))], [m.value("y")]) + extra))
        np.savez(os.path.join(self.folder, "in.npz"), x=np.ones((2, 4), F32))

    def test_values(self):
        want = np.array([[0, 1.5, 0, -2], [3, 0, 0, 0]], F32) + 1
        for kind in ("initializer", "constant"):
            for indices in (i64(1, 3, 4), np.array([[0, 1], [0, 3], [1, 0]])):
                self.model(sparse("w", self.VALUES, indices, (2, 4)), kind)
                done = self.run_model()
                self.assertEqual(done.returncode, 0, done.stderr)
                np.testing.assert_array_equal(np.load(os.path.join(self.folder, "out.npz"))["y"], want)
                if indices.ndim == 1 and ort.judges(self):
                    np.testing.assert_array_equal(ort.run(self.folder, [("model.onnx", {"x": np.ones((2, 4), F32)})])[0]["y"], want)
            done, *_ = measured.run([OPC, "grad", "model.onnx", "--loss", "y", "--wrt", "w", "-o", "g.pbtxt", "--weights-out", "w.safetensors"], self.folder)
            # An initializer is a variable; a small constant is a number.
            self.assertEqual(done.returncode, 0 if kind == "initializer" else 2, done.stderr)

    def test_contradictions(self):
        good = i64(1, 3, 4)
        for how, words, values, indices, dims in (
                (INVALID, "element 2 has no place", self.VALUES, i64(1, 3, 8), (2, 4)), (INVALID, "element 0 has no place", self.VALUES, i64(-1, 3, 4), (2, 4)),
                (INVALID, "element 1 stands not behind", self.VALUES, i64(3, 3, 4), (2, 4)), (INVALID, "its indices", self.VALUES, i64(1, 3), (2, 4)),
                (INVALID, "its indices", self.VALUES, np.array([[0, 1, 0]] * 3), (2, 4)), (INVALID, "its indices", self.VALUES, good.astype(np.int32), (2, 4)),
                (INVALID, "element 1 has no place", self.VALUES, np.array([[0, 1], [0, 4], [1, 0]]), (2, 4)), (INVALID, "a dimension of -4", self.VALUES, good, (2, -4)),
                (INVALID, "is larger than 2^63 bytes", self.VALUES, good, (1 << 40, 1 << 40)), (UNSUPPORTED, "writes sparse tensors out", self.VALUES, good, (1 << 20, 4)),
                (UNSUPPORTED, "writes sparse tensors out", self.VALUES, good, (1 << 40,)), (INVALID, "65 dimensions", self.VALUES, good, (1,) * 65)):
            for kind in ("initializer", "constant"):
                with self.subTest(words=words, kind=kind):
                    self.model(sparse("w", values, indices, dims), kind)
                    done = self.run_model()
                    self.assertEqual(done.returncode, how[0], done.stderr)
                    self.assertEqual(done.stderr.count("error["), 1, done.stderr)
                    self.assertIn(how[1], done.stderr)
                    self.assertIn(words, done.stderr)
                    self.assertLess(self.seconds, measured.SECONDS)
                    self.assertLess(self.peak, self.base() + 2 * os.path.getsize(os.path.join(self.folder, "model.onnx")) + measured.SLACK)

    def base(self):
        if not hasattr(Sparse, "small"):
            self.model(sparse("w", self.VALUES, i64(1, 3, 4), (2, 4)), "initializer")
            self.assertEqual(self.run_model().returncode, 0)
            Sparse.small = self.peak
        return Sparse.small


if __name__ == "__main__":
    unittest.main()
