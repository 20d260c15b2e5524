# LinearAttention, CausalConvWithState, DeformConv, samples of volumes, folds and inverse transforms of one side: against numpy and
# PyTorch, with gradients by differences; beside each what contradicts itself. Places of the largest and of gathered elements.
# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import subprocess
import unittest

import numpy as np

import messages as m
from later_ops import F32, INVALID, OPC, RANDOM, UNSUPPORTED, Case, uniform


def linear_attention(q, k, v, heads, kv_heads, state=None, decay=None, beta=None, scale=0.0):
    """Step by step, in f64."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    batch, length, group = q.shape[0], q.shape[1], heads // kv_heads
    size, values = q.shape[2] // heads, v.shape[2] // kv_heads
    s = np.zeros((batch, kv_heads, size, values)) if state is None else state.astype(np.float64)
    out = np.zeros((batch, length, heads, values))
    for b, h, t in itertools.product(range(batch), range(kv_heads), range(length)):
        own = s[b, h]
        kt, vt = k[b, t, h * size:(h + 1) * size], v[b, t, h * values:(h + 1) * values]
        if decay is not None:
            g = decay[b, t].astype(np.float64)
            own *= np.exp(g[h] if len(g) == kv_heads else g[h * size:(h + 1) * size, None])
        if beta is not None:
            vt = beta[b, t, h if beta.shape[2] > 1 else 0] * (vt - kt @ own)
        own += np.outer(kt, vt)
        for of in range(group):
            head = h * group + of
            out[b, t, head] = (scale or size**-0.5) * (q[b, t, head * size:(head + 1) * size] @ own)
    return out.reshape(batch, length, heads * values), s


class LinearAttention(Case):
    RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}

    def inputs(self, rule, heads=4, kv_heads=2, length=5, by_key=False, shared=False, state=True, kind=F32):
        decays, corrects = self.RULES[rule]
        size, values = 3, 6
        k = uniform(2, length, kv_heads, size)
        k /= np.linalg.norm(k, axis=3, keepdims=True)
        given = [uniform(2, length, heads * size), k.reshape(2, length, -1), uniform(2, length, kv_heads * values),
                 uniform(2, kv_heads, size, values) if state else None,
                 -np.abs(uniform(2, length, kv_heads * (size if by_key else 1))) if decays else None,
                 (np.abs(uniform(2, length, 1 if shared else kv_heads)) if corrects else None)]
        return [a if a is None else a.astype(kind) for a in given], {"q_num_heads": heads, "kv_num_heads": kv_heads, "update_rule": rule}

    def test_rules(self):
        for rule in self.RULES:
            for heads, kv_heads, by_key, shared, state, scale in ((4, 2, False, False, True, 0.0), (2, 2, True, True, False, 0.7), (3, 1, True, False, True, 0.0)):
                with self.subTest(rule=rule, heads=heads, by_key=by_key):
                    given, attributes = self.inputs(rule, heads, kv_heads, by_key=by_key, shared=shared, state=state)
                    made = self.ran("LinearAttention", given, outputs=2, opset=27, scale=scale, **attributes)
                    out, after = linear_attention(*given[:3], heads, kv_heads, *given[3:], scale=scale)
                    self.close(made["o0"], out)
                    self.close(made["o1"], after)

    def test_default_rule(self):
        given, attributes = self.inputs("gated_delta")
        del attributes["update_rule"]
        self.close(self.ran("LinearAttention", given, opset=27, chunk_size=16, **attributes)["o0"], linear_attention(*given[:3], 4, 2, *given[3:])[0])

    def test_steps(self):
        """One step after another, with the state fed back, is all at once; also of many steps, which become a loop."""
        for length in (1, 7, 5000):
            given, attributes = self.inputs("gated_delta", 2, 1, length)
            whole = self.ran("LinearAttention", given, outputs=2, opset=27, **attributes)
            out, after = linear_attention(*given[:3], 2, 1, *given[3:])
            self.close(whole["o0"], out, 1e-4)
            self.close(whole["o1"], after, 1e-4)
            state = given[3]
            for t in range(length if length < 10 else 0):
                part = [a if k == 3 else a[:, t:t + 1] for k, a in enumerate(given)]
                part[3] = state
                made = self.ran("LinearAttention", part, outputs=2, opset=27, **attributes)
                self.close(made["o0"], whole["o0"][:, t:t + 1])
                state = made["o1"]

    def test_types(self):
        """f16 is computed in f32; the state has its own type."""
        given, attributes = self.inputs("gated_delta", kind=np.float16)
        given[3] = given[3].astype(F32)
        made = self.ran("LinearAttention", given, outputs=2, opset=27, **attributes)
        out, after = linear_attention(*given[:3], 4, 2, *given[3:])
        self.assertEqual((made["o0"].dtype, made["o1"].dtype), (np.float16, F32))
        np.testing.assert_allclose(made["o0"].astype(F32), out, 2e-3, 2e-3)
        self.close(made["o1"], after)

    def test_contradictions(self):
        good, attributes = self.inputs("gated_delta")

        def changed(k, a):
            return [a if j == k else x for j, x in enumerate(good)]

        for words, given, more in (
            ("update_rule 'gated_delta' needs input 4 (decay)", changed(4, None), {}),
            ("update_rule 'linear' has no input 4 (decay)", good, {"update_rule": "linear"}),
            ("update_rule 'gated' has no input 5 (beta)", good, {"update_rule": "gated"}),
            ("'update_rule'", good, {"update_rule": "squared"}),
            ("must be a multiple of kv_num_heads", good, {"q_num_heads": 3}),
            ("must be a multiple of kv_num_heads", good, {"kv_num_heads": 0}),
            ("must be a multiple of kv_num_heads", good, {"kv_num_heads": -2}),
            ("its heads do not divide", changed(0, uniform(2, 5, 13)), {}),
            ("keys", changed(1, uniform(2, 4, 6)), {}),
            ("values", changed(2, uniform(1, 5, 12)), {}),
            ("[batch, length, heads * size] is wanted", changed(0, uniform(2, 5)), {}),
            ("its state", changed(3, uniform(2, 2, 3, 5)), {}),
            ("decays", changed(4, uniform(2, 5, 3)), {}),
            ("update rates", changed(5, uniform(2, 5, 4)), {}),
        ):
            with self.subTest(words):
                self.refused(INVALID, words, "LinearAttention", given, opset=27, **{**attributes, **more})


def causal_conv(x, w, b, past):
    x, size = x.astype(np.float64), w.shape[2]
    past = np.zeros((x.shape[0], x.shape[1], size - 1)) if past is None else past
    whole = np.concatenate([past, x], 2)
    out = np.stack([(whole[:, :, t:t + size] * w[:, 0]).sum(2) for t in range(x.shape[2])], 2)
    return out if b is None else out + b[:, None], whole[:, :, whole.shape[2] - (size - 1):]


class CausalConv(Case):
    def test_forms(self):
        for size, length, bias, state, activation in ((4, 7, True, True, "silu"), (3, 1, False, True, "none"), (5, 2, True, False, "swish"), (1, 4, False, False, "none")):
            with self.subTest(size=size):
                given = [uniform(2, 6, length), uniform(6, 1, size), uniform(6) if bias else None, uniform(2, 6, size - 1) if state else None]
                made = self.ran("CausalConvWithState", given, outputs=2, opset=27, activation=activation)
                out, after = causal_conv(*given)
                self.close(made["o0"], out if activation == "none" else out / (1 + np.exp(-out)))
                self.close(made["o1"], after)

    def test_contradictions(self):
        good = [uniform(2, 6, 7), uniform(6, 1, 4), uniform(6), uniform(2, 6, 3)]
        for words, k, a in (("an input [batch, channels, length]", 0, uniform(2, 6)), ("a kernel [channels, 1, size]", 1, uniform(6, 4)), ("its kernels", 1, uniform(6, 2, 4)),
                            ("its kernels", 1, uniform(5, 1, 4)), ("a kernel [channels, 1, size]", 1, uniform(6, 1, 0)), ("its biases", 2, uniform(5)), ("its state", 3, uniform(2, 6, 4))):
            with self.subTest(words):
                self.refused(INVALID, words, "CausalConvWithState", [a if j == k else x for j, x in enumerate(good)], opset=27)
        self.refused(INVALID, "'activation'", "CausalConvWithState", good, opset=27, activation="relu")


def bilinear(image, y, x):
    """Of [channels, height, width] at a point; outside lie zeros."""
    y0, x0 = int(np.floor(y)), int(np.floor(x))
    total = 0
    for dy, dx in itertools.product((0, 1), (0, 1)):
        if 0 <= y0 + dy < image.shape[1] and 0 <= x0 + dx < image.shape[2]:
            total = total + image[:, y0 + dy, x0 + dx] * abs(y - (y0 + 1 - dy)) * abs(x - (x0 + 1 - dx))
    return total


def deform_conv(x, w, offset, b=None, mask=None, group=1, offset_group=1, strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0)):
    n, channels, filters, (kh, kw), (oh, ow) = x.shape[0], x.shape[1], w.shape[0], w.shape[2:], offset.shape[2:]
    out = np.zeros((n, filters, oh, ow))
    moved, own, taps = channels // offset_group, channels // group, kh * kw
    for s, o, i, j, tap in itertools.product(range(n), range(offset_group), range(oh), range(ow), range(taps)):
        at = offset[s, (o * taps + tap) * 2:(o * taps + tap) * 2 + 2, i, j].astype(np.float64)
        y = i * strides[0] - pads[0] + tap // kw * dilations[0] + at[0]
        column = j * strides[1] - pads[1] + tap % kw * dilations[1] + at[1]
        value = bilinear(x[s, o * moved:(o + 1) * moved].astype(np.float64), y, column) * (1 if mask is None else mask[s, o * taps + tap, i, j])
        for c in range(moved if np.ndim(value) else 0):
            channel = o * moved + c
            g = channel // own
            rows = slice(g * filters // group, (g + 1) * filters // group)
            out[s, rows, i, j] += w[rows, channel % own, tap // kw, tap % kw] * value[c]
    return out if b is None else out + b[:, None, None]


class DeformConv(Case):
    def inputs(self, group=1, offset_group=1, kernel=(3, 3), strides=(1, 1), dilations=(1, 1), pads=(1, 1, 1, 1), bias=True, mask=True, kind=F32):
        x = uniform(2, 4, 6, 5)
        oh, ow = ((x.shape[2 + k] + pads[k] + pads[k + 2] - (kernel[k] - 1) * dilations[k] - 1) // strides[k] + 1 for k in (0, 1))
        taps = kernel[0] * kernel[1]
        given = [x, uniform(6, 4 // group, *kernel), uniform(2, offset_group * taps * 2, oh, ow) * 2, uniform(6) if bias else None,
                 np.abs(uniform(2, offset_group * taps, oh, ow)) if mask else None]
        return [a if a is None else a.astype(kind) for a in given], {"group": group, "offset_group": offset_group, "strides": list(strides), "dilations": list(dilations), "pads": list(pads)}

    def test_forms(self):
        for options in ({}, {"group": 2, "offset_group": 4}, {"offset_group": 2, "kernel": (2, 3), "mask": False}, {"strides": (2, 1), "dilations": (1, 2), "pads": (0, 2, 1, 2), "bias": False},
                        {"kernel": (1, 1), "pads": (0, 0, 0, 0)}):
            with self.subTest(str(options)):
                given, attributes = self.inputs(**options)
                for opset in (19, 22):
                    made = self.ran("DeformConv", given, opset=opset, **attributes)["o0"]
                    np.testing.assert_allclose(made, deform_conv(*given, **attributes), 2e-4, 2e-4)

    def test_no_offsets(self):
        """Then it is a convolution: opc's own one judges, too."""
        given, attributes = self.inputs(group=2, mask=False)
        given[2] = np.zeros_like(given[2])
        made = self.ran("DeformConv", given, opset=22, **attributes)["o0"]
        plain = self.ran("Conv", [given[0], given[1], given[3]], opset=22, group=2, pads=attributes["pads"])["o0"]
        np.testing.assert_allclose(made, plain, 1e-4, 1e-4)

    def test_f64(self):
        given, attributes = self.inputs(kind=np.float64)
        np.testing.assert_allclose(self.ran("DeformConv", given, opset=22, **attributes)["o0"], deform_conv(*given, **attributes), 1e-10, 1e-10)

    def test_gradients(self):
        given, attributes = self.inputs(kind=np.float64)
        self.write("DeformConv", given, opset=22, constants=(1, 3), **attributes)
        done = subprocess.run([OPC, "grad", "model.onnx", "--check", "--loss", "o0", "--wrt", "i*", "--inputs", "in.npz"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_contradictions(self):
        good, attributes = self.inputs(group=2, offset_group=2)
        for words, k, a, more in (("its offsets", 2, uniform(2, 36, 6, 4), {}), ("its offsets", 2, uniform(2, 18, 6, 5), {}), ("its weight", 1, uniform(6, 4, 3, 3), {}),
                                  ("its mask", 4, uniform(2, 9, 6, 5), {}), ("its biases", 3, uniform(5), {}), ("must divide the channels", 0, good[0], {"offset_group": 3}),
                                  ("must divide the channels", 0, good[0], {"group": 0}), ("must divide the channels", 0, good[0], {"group": -1}),
                                  ("attribute 'strides' has 0, and must be from 1", 0, good[0], {"strides": [0, 1]}), ("its attributes are not for 2 dimensions", 0, good[0], {"pads": [1, 1]})):
            with self.subTest(words):
                self.refused(INVALID, words, "DeformConv", [a if j == k else x for j, x in enumerate(good)], opset=22, **{**attributes, **more})
        self.refused(UNSUPPORTED, "opc moves taps of 2", "DeformConv", [uniform(1, 2, 4, 4, 4), uniform(2, 2, 1, 1, 1), uniform(1, 3, 4, 4, 4)], opset=22)


class Volumes(Case):
    """GridSample of five dimensions, against PyTorch."""

    def judge(self, x, grid, mode, padding, aligned):
        import torch

        return torch.nn.functional.grid_sample(torch.from_numpy(x), torch.from_numpy(grid), mode, padding, bool(aligned)).numpy()

    def test_modes(self):
        x, grid = uniform(2, 3, 4, 5, 6), uniform(2, 3, 2, 4, 3) * F32(1.6)
        for mode, padding, aligned in itertools.product(("linear", "nearest"), ("zeros", "border", "reflection"), (0, 1)):
            with self.subTest(mode=mode, padding=padding, aligned=aligned):
                made = self.ran("GridSample", [x, grid], opset=20, mode=mode, padding_mode=padding, align_corners=aligned)["o0"]
                np.testing.assert_allclose(made, self.judge(x, grid, "bilinear" if mode == "linear" else mode, padding, aligned), 2e-5, 2e-5)

    def test_thin_volumes(self):
        x, grid = uniform(1, 2, 1, 3, 1), uniform(1, 2, 2, 2, 3) * F32(1.6)
        for padding, aligned in itertools.product(("zeros", "border", "reflection"), (0, 1)):
            with self.subTest(padding=padding, aligned=aligned):
                made = self.ran("GridSample", [x, grid], opset=20, padding_mode=padding, align_corners=aligned)["o0"]
                np.testing.assert_allclose(made, self.judge(x, grid, "bilinear", padding, aligned), 2e-5, 2e-5)

    def test_places_that_are_no_numbers(self):
        x, grid = uniform(1, 2, 3, 3, 3), np.zeros((1, 1, 1, 2, 3), F32)
        grid[0, 0, 0, 0, 1] = np.nan
        made = self.ran("GridSample", [x, grid], opset=20)["o0"]
        self.assertTrue(np.isnan(made[..., 0]).all())
        self.assertTrue(np.isfinite(made[..., 1]).all())

    def test_contradictions(self):
        x = uniform(2, 3, 4, 5, 6)
        for words, grid in (("a grid [2, depth, height, width, 3]", uniform(2, 3, 2, 4, 2)), ("a grid [2, depth", uniform(1, 3, 2, 4, 3)), ("a grid [2, depth", uniform(2, 3, 2, 3))):
            self.refused(INVALID, words, "GridSample", [x, grid], opset=20)
        self.refused(UNSUPPORTED, "cubic samples of volumes", "GridSample", [x, uniform(2, 3, 2, 4, 3)], opset=20, mode="cubic")
        self.refused(UNSUPPORTED, "opc samples 2 and 3", "GridSample", [uniform(1, 1, 4), uniform(1, 4, 1)], opset=20)


def folded(x, size, block, strides, dilations, pads):
    """Each element of each block to its place."""
    dims = len(size)
    counts = [(size[k] + pads[k] + pads[k + dims] - dilations[k] * (block[k] - 1) - 1) // strides[k] + 1 for k in range(dims)]
    whole = np.zeros((x.shape[0], x.shape[1] // int(np.prod(block)), *size))
    columns = x.reshape(x.shape[0], -1, *block, *counts).astype(np.float64)
    for at in itertools.product(*(range(n) for n in (*block, *counts))):
        place = [at[dims + k] * strides[k] + at[k] * dilations[k] - pads[k] for k in range(dims)]
        if all(0 <= p < s for p, s in zip(place, size)):
            whole[(slice(None), slice(None), *place)] += columns[(slice(None), slice(None), *at)]
    return whole


class Folds(Case):
    def test_dimensions(self):
        for size, block, strides, dilations, pads in (
            ((7,), (3,), (2,), (1,), (1, 2)), ((5, 6), (2, 3), (1, 2), (2, 1), (1, 0, 0, 2)), ((5, 6), (2, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
            ((3, 4, 5), (1, 2, 3), (1, 1, 1), (1, 1, 1), (0,) * 6), ((4, 5, 5), (2, 2, 2), (2, 1, 2), (1, 2, 1), (1, 0, 1, 0, 1, 1)),
        ):
            with self.subTest(size=size):
                count = np.prod([(size[k] + pads[k] + pads[k + len(size)] - dilations[k] * (block[k] - 1) - 1) // strides[k] + 1 for k in range(len(size))])
                x = uniform(2, 3 * int(np.prod(block)), int(count))
                made = self.ran("Col2Im", [x, np.array(size), np.array(block)], opset=18, constants=(1, 2), strides=list(strides), dilations=list(dilations), pads=list(pads))["o0"]
                np.testing.assert_allclose(made, folded(x, size, block, strides, dilations, pads), 1e-5, 1e-5)

    def test_contradictions(self):
        x = uniform(1, 6, 5)
        for how, words, size, block in ((INVALID, "columns [n, channels * 3, 5] are wanted", (7,), (3,)), (INVALID, "columns [n, channels * 4, 4]", (7,), (4,)),
                                        (UNSUPPORTED, "opc folds up to 3", (2, 2, 2, 2), (1, 1, 1, 1)), (INVALID, "a side of -1", (-1,), (3,)),
                                        (INVALID, "the shape of its kernel has 0, and must be from 1", (7,), (0,)), (INVALID, "its attributes are not for", (7,), (2, 2)),
                                        (INVALID, "a side of 1099511627776", (1 << 40,), (3,))):
            with self.subTest(words):
                given = x if "3, 5" not in words else uniform(1, 7, 5)
                self.refused(how, words, "Col2Im", [given, np.array(size), np.array(block)], opset=18, constants=(1, 2))


class HalfTransforms(Case):
    def test_signals(self):
        for n, length in ((6, None), (6, 10), (6, 11), (4, 10), (9, 10)):
            with self.subTest(n=n, length=length):
                z = uniform(2, n) + 1j * uniform(2, n)
                inputs = [np.stack([z.real, z.imag], -1).astype(F32), np.array(length) if length else None]
                made = self.ran("DFT", inputs, opset=20, constants=(1,) if length else (), inverse=1, onesided=1)["o0"]
                self.close(made, np.fft.irfft(z, n=length or 2 * (n - 1), axis=1)[..., None])

    def test_and_back(self):
        x = uniform(3, 12, 1)
        half = self.ran("DFT", [x], opset=20, onesided=1)["o0"]
        self.close(self.ran("DFT", [half], opset=20, inverse=1, onesided=1)["o0"], x)


class LongTransforms(Case):
    """Of many points, which are transformed by factors of their number; numpy's transforms are the judge."""

    def dft(self, x, length=None, **attributes):
        return self.ran("DFT", [x, np.array(length) if length else None], opset=20, constants=(1,) if length else (), **attributes)["o0"]

    def test_lengths(self):
        for n, length in ((512, None), (800, None), (1000, 1024), (1024, 729), (2 * 1021, None), (1021, None), (4096, None), (6561, None), (1 << 16, None), (700, 46189)):
            with self.subTest(n=n, length=length):
                z = uniform(2, n) + 1j * uniform(2, n)
                x, most = np.stack([z.real, z.imag], -1).astype(F32), np.sqrt(length or n)
                for want, attributes in ((np.fft.fft(z, n=length) / most, {}), (np.fft.ifft(z, n=length) * most, {"inverse": 1})):
                    got = self.dft(x, length, **attributes)
                    self.close(got / most if not attributes else got * most, np.stack([want.real, want.imag], -1))
                want = np.fft.rfft(z.real, n=length) / most
                self.close(self.dft(x[..., :1], length, onesided=1) / most, np.stack([want.real, want.imag], -1))
                bins = n if length else n // 2 + 1
                signal = np.fft.irfft(z[:, :bins], n=length or n) * most
                self.close(self.dft(x[:, :bins], length or n, onesided=1, inverse=1) * most, signal[..., None])

    def test_frames(self):
        x, window = uniform(2, 3000, 1), uniform(1024)
        frames = np.stack([x[:, k:k + 1024, 0] for k in range(0, 3000 - 1024 + 1, 256)], 1)
        want = np.fft.rfft(frames * window)
        got = self.ran("STFT", [x, np.array(256), window], opset=17, constants=(1,))["o0"]
        self.close(got / 32, np.stack([want.real, want.imag], -1) / 32)

    def test_primes(self):
        few = uniform(1, 8, 1)
        for length in (8191, 2 * 8191):
            want = np.fft.fft(few[..., 0], n=length)
            self.close(self.dft(few, length), np.stack([want.real, want.imag], -1))
            self.refused(UNSUPPORTED, f"a transform of {length} points: opc transforms up to 8,388,608", "DFT", [uniform(1, length, 1)], opset=20)
        self.refused(UNSUPPORTED, "a transform of 8388609 points", "DFT", [few, np.array((1 << 23) + 1)], opset=20, constants=(1,))


class HalfPrecision(Case):
    """Ops of which several are made: what is between them is beyond f16's range, or less than its least number, and the result is not."""

    def half(self, op, inputs, wanted, outputs=1, once=False, keep=False, **attributes):
        """once: the result is rounded once, to half of its last bit. keep: inputs of f32 are not made halves."""
        with self.subTest(op):
            given = [a if a is None or a.dtype.kind == "i" or a.dtype == F32 and keep else a.astype(np.float16) for a in inputs]
            y = self.ran(op, given, outputs=outputs, **{"opset": 17, **attributes})["o0"]
            self.assertEqual(y.dtype, np.float16)
            made = y.astype(np.float64)
            want = wanted(*(a if a is None or a.dtype.kind == "i" else a.astype(np.float64) for a in given))
            np.testing.assert_allclose(made, want, rtol=5.1e-4 if once else 2e-3, atol=1e-7 if once else 1e-4)

    def test_reductions(self):
        x = 60 + uniform(2, 64)
        self.half("ReduceL2", [x], lambda x: np.sqrt((x * x).sum(1, keepdims=True)), axes=[1])
        self.half("ReduceLogSum", [2000 + x], lambda x: np.log(x.sum(1, keepdims=True)), axes=[1])
        self.half("ReduceSumSquare", [uniform(3, 5) * 1e-3 * 2.0**-3], lambda x: (x * x).sum(1), axes=[1], keepdims=0)
        self.half("LpNormalization", [x], lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)), axis=1)

    def test_images(self):
        x = 60 + uniform(1, 2, 8, 8)
        self.half("GlobalLpPool", [x * 2], lambda x: np.sqrt((x * x).sum((2, 3), keepdims=True)))
        self.half("LpPool", [x * 3], lambda x: np.sqrt(sum(x[:, :, i:7 + i, j:7 + j]**2 for i in (0, 1) for j in (0, 1))), kernel_shape=[2, 2])
        self.half("LRN", [x * 5], lambda x: x / (1 + 1e-4 / 3 * (x * x).sum(1, keepdims=True))**0.75, size=3)
        self.half("AveragePool", [x * 9], lambda x: (x[:, :, :6, :6] + x[:, :, 2:, :6] + x[:, :, :6, 2:] + x[:, :, 2:, 2:]) / 4, kernel_shape=[2, 2],
                  dilations=[2, 2], opset=19)
        self.half("MeanVarianceNormalization", [300 + 100 * uniform(2, 3, 4, 4)],
                  lambda x: (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True))

    def test_of_several(self):
        far = [np.full(3, 60000.0), np.full(3, 50000.0), np.full(3, -55000.0)]
        self.half("Mean", far[:2], lambda a, b: (a + b) / 2)
        self.half("Sum", far, lambda a, b, c: a + b + c)
        self.half("SoftmaxCrossEntropyLoss", [100 * uniform(2000, 4), RANDOM.integers(0, 4, 2000)],
                  lambda x, k: (np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1) - x[np.arange(len(k)), k]).mean(), reduction="mean")


    def once(self, op, inputs, wanted, **more):
        self.half(op, inputs, wanted, once=True, **more)

    def test_activations(self):
        x = 4 * uniform(7, 9)

        def sigmoid(v):
            return 1 / (1 + np.exp(-v))

        def f32(v): # of an attribute
            return np.float64(F32(v))
        self.once("HardSigmoid", [x], lambda x: np.clip(f32(0.3) * x + f32(0.4), 0, 1), alpha=0.3, beta=0.4)
        self.once("Selu", [x], lambda x: f32(1.0507009873554805) * np.where(x > 0, x, f32(1.6732632423543772) * np.expm1(x)))
        self.once("Swish", [x], lambda x: x * sigmoid(f32(1.7) * x), alpha=1.7, opset=24)
        self.once("SwiGLU", [x, 2 * uniform(7, 9)], lambda x, y: x * sigmoid(x) * y, opset=28)
        self.once("Shrink", [x], lambda x: np.where(x < -0.3, x + f32(0.1), np.where(x > 0.3, x - f32(0.1), 0)), lambd=0.3, bias=0.1)
        near = np.array([0.3, 0.2998, 0.3003], np.float16) # the first is a little above 0.3
        self.once("ThresholdedRelu", [near], lambda x: np.where(x > f32(0.3), x, 0), alpha=0.3)
        self.once("QuickGelu", [x], lambda x: x * sigmoid(f32(1.702) * x), domain="com.microsoft")
        self.once("Pow", [x.astype(np.float16), np.array(3, F32)], lambda x, _: x**3, constants=(1,), keep=True)

    def test_sums_of_several(self):
        a, b, c = (uniform(*s) for s in ((4, 5), (5, 6), (6, 3)))
        self.once("Einsum", [300 * a, 300 * b, c * 2.0**-9], lambda a, b, c: a @ b @ c, equation="ij,jk,kl->il")
        self.once("Einsum", [np.full((2, 3, 9), 9000.0), np.full((3, 2), 2.0**-8)], lambda a, b: a.sum(2) @ b, equation="ijm,jk->ik")
        self.once("Det", [300 * uniform(4, 2, 2)], np.linalg.det, opset=11)
        logs, k = -40 * np.abs(uniform(3000, 5)) - 20, RANDOM.integers(0, 5, 3000)
        self.once("NegativeLogLikelihoodLoss", [logs, k], lambda x, k: -x[np.arange(len(k)), k].mean())
        x, cosine, sine = uniform(1, 2, 4, 8), uniform(1, 4, 4), uniform(1, 4, 4)

        def rotated(x, c, s):
            l, r = x[..., :4], x[..., 4:]
            return np.concatenate([l * c - r * s, l * s + r * c], -1)
        self.half("RotaryEmbedding", [x * 30000, cosine, sine], rotated, opset=23)
        skip = {"domain": "com.microsoft", "opset": 17}
        far = 40000 + 20000 * uniform(2, 3, 8)
        self.half("SkipLayerNormalization", [far, far, np.ones(8)], lambda a, b, _: (a + b - (a + b).mean(-1, keepdims=True)) / (a + b).std(-1, keepdims=True), **skip)
        words = 40000 + 20000 * uniform(9, 8)
        ids = RANDOM.integers(0, 9, (2, 4)).astype(np.int32)

        def embedded(ids, _, words, places, *rest):
            y = words[ids] + places[:4]
            return (y - y.mean(-1, keepdims=True)) / y.std(-1, keepdims=True)
        self.half("EmbedLayerNormalization", [ids, None, words, words[:6], None, np.ones(8), np.zeros(8)], embedded, **skip)

    def test_images_in_between(self):
        x = 300 * uniform(1, 2, 5, 7)
        weights = np.array([[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]])
        self.once("Resize", [x[:, :, :2, :1].astype(np.float16), None, np.array([1, 1, 2, 1], F32)], lambda x, *_: np.einsum("ki,ncij->nckj", weights, x), keep=True, constants=(2,), mode="linear")
        self.half("AveragePool", [np.full((1, 1, 9, 9), 60000.0)], lambda x: x, kernel_shape=[1, 9], pads=[0, 8, 0, 8], strides=[1, 2], count_include_pad=0)
        grid = uniform(1, 3, 3, 3, 3) * 0.8
        volume = 300 * uniform(1, 2, 40, 5, 4)
        halves = [volume.astype(np.float16), grid.astype(np.float16)]
        wanted = self.ran("GridSample", [a.astype(F32) for a in halves], opset=20)["o0"].astype(np.float16)
        np.testing.assert_array_equal(self.ran("GridSample", halves, opset=20)["o0"], wanted)

    def test_inputs_of_two_types(self):
        """Statistics, scales and places of f32 beside tensors of half precision."""
        x, one = 400 * uniform(8, 3, 4), np.ones(3)
        mean, variance = uniform(3), (1e6 * (1 + np.abs(uniform(3)))).astype(F32)

        def normal(x, s, b, m, v):
            return (x - m[:, None]) / np.sqrt(v[:, None] + 1e-5)
        self.once("BatchNormalization", [x.astype(np.float16), one, 0 * one, mean, variance], normal, keep=True)
        given = [x.astype(np.float16), one.astype(np.float16), np.zeros(3, np.float16), mean, variance]
        made = self.ran("BatchNormalization", given, outputs=3, opset=17, training_mode=1)
        wide = given[0].astype(np.float64)
        self.close(made["o2"], (0.9 * variance + 0.1 * wide.var((0, 2))).astype(F32), 1e-4)
        np.testing.assert_allclose(made["o0"].astype(np.float64), (wide - wide.mean((0, 2), keepdims=True)) / wide.std((0, 2), keepdims=True), rtol=1e-3, atol=1e-3)
        rows, scale = uniform(4, 9).astype(np.float16), uniform(9)
        y = self.ran("RMSNormalization", [rows, scale], opset=23)["o0"]
        self.close(y, (rows / np.sqrt((rows.astype(np.float64)**2).mean(1, keepdims=True) + 1e-5) * scale).astype(F32), 1e-5)
        for shape, places in (((1, 2, 5, 7), (1, 4, 4, 2)), ((1, 2, 3, 5, 7), (1, 2, 2, 2, 3))):
            image, grid = uniform(*shape).astype(np.float16), uniform(*places)
            wanted = self.ran("GridSample", [image.astype(F32), grid], opset=20)["o0"].astype(np.float16)
            np.testing.assert_array_equal(self.ran("GridSample", [image, grid], opset=20)["o0"], wanted)

    def test_exponents_of_another_type(self):
        """Whether a whole exponent is odd is its last bit, which neither f16 nor f32 may have."""
        odd = np.array([2049, 65537, (1 << 24) + 1, (1 << 31) + 1, (1 << 53) - 1])
        for kind in (np.float16, F32, np.float64):
            x = np.full(5, -1, kind)
            for constants in ((), (1,)):
                np.testing.assert_array_equal(self.ran("Pow", [x, odd], opset=17, constants=constants)["o0"], x)
        for kind in (np.int32, np.int64):
            np.testing.assert_array_equal(self.ran("Pow", [np.array([2, -1, 3], kind), np.array([30, (1 << 40) + 1, 5])], opset=17)["o0"], np.array([1 << 30, -1, 243], kind))
            np.testing.assert_array_equal(self.ran("Pow", [np.array([-1, 3], kind), np.array([(1 << 64) - 1, 3], np.uint64)], opset=17)["o0"], np.array([-1, 27], kind))
        self.once("Pow", [0.5 + np.abs(uniform(20)).astype(np.float16), np.array([1 / 3], F32)], lambda x, y: x**y, keep=True)
        self.once("Pow", [1 + np.arange(6).astype(np.float16) / 1024, np.array([2049])], lambda x, y: x**y)


class Norms(Case):
    def test_gradients(self):
        """Where all elements are 0 a norm's gradient is 0."""
        x = np.array([[1, -2, 3], [0, 0, 0], [4, 0, 3]], np.float64)
        self.write("ReduceL2", [x], opset=17, axes=[1])
        for command in (["grad", "model.onnx", "--loss", "o0", "--wrt", "i0", "-o", "step.pbtxt"],
                        ["run", "step.pbtxt", "--quiet", "--inputs", "in.npz", "--outputs", "out.npz"],
                        ["grad", "model.onnx", "--check", "--loss", "o0", "--wrt", "i*", "--inputs", "in.npz"]):
            done = subprocess.run([OPC, *command], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        made = dict(np.load(os.path.join(self.folder, "out.npz")))
        length = np.sqrt((x * x).sum(1, keepdims=True))
        np.testing.assert_array_equal(made["o0"], length)
        np.testing.assert_allclose(made["i0.grad"], np.divide(x, length, out=np.zeros_like(x), where=length > 0), rtol=1e-12)


class Rows(Case):
    def test_the_largest_of_rows(self):
        """NaN is above infinity, of equal elements (both zeros are) the first one comes first."""
        for kind in (np.float16, F32, np.float64, np.int8, np.uint8, np.int32, np.int64):
            x = (RANDOM.standard_normal((3, 333)) * 4).round()
            if np.dtype(kind).kind == "f":
                for value in (np.nan, np.inf, -np.inf, -0.0):
                    x[RANDOM.random(x.shape) < 0.05] = value
            x = (np.abs(x) if kind is np.uint8 else x).astype(kind)
            order = np.array([sorted(range(333), key=lambda i: (not r[i] != r[i], 0 if r[i] != r[i] else -float(r[i]), i)) for r in x])
            for k in (1, 20, 64, 200, 333):
                with self.subTest(kind=kind, k=k):
                    made = self.ran("TopK", [x, np.array([k])], outputs=2, opset=17)
                    np.testing.assert_array_equal(made["o1"], order[:, :k])
                    np.testing.assert_array_equal(made["o0"], np.take_along_axis(x, order[:, :k], 1))

    def test_elements_along_every_axis(self):
        """Rows that move as one, longer than a piece of indices, and short ones; what leads out is named by its place."""
        for shape, index, axis in (((4, 3, 50), (7, 3, 50), 0), ((4, 3, 50), (4, 5, 50), 1), ((4, 3, 50), (2, 5, 20), 1), ((2, 90), (2, 6000), 1), ((90, 1), (40, 1), 0),
                                   ((5, 4), (9, 1), 0), ((3, 2500), (2, 2500), 0)):
            x, at = uniform(*shape), RANDOM.integers(0, shape[axis], index)
            at[-1] = at[-1].flat[0]
            inside = x[tuple(slice(None) if a == axis else slice(0, n) for a, n in enumerate(index))]
            with self.subTest(shape=shape, index=index, axis=axis):
                np.testing.assert_array_equal(self.ran("GatherElements", [x, at], opset=17, axis=axis)["o0"], np.take_along_axis(inside, at, axis))
        at = np.zeros((3, 2500), np.int64)
        at[2, 2400] = 4
        self.write("GatherElements", [uniform(4, 2500), at], opset=17, axis=0)
        done = self.run_model()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("index[2,2400] = 4 is outside [0, 4)", done.stderr)

    def test_a_place_before_the_first(self):
        """The message has the number that was given, not the one that is counted from the end."""
        x, updates = uniform(4, 3), uniform(1, 3)
        for op, inputs, place, attributes in (
                ("Gather", [x, np.array([0, -4, -9])], "indices[2] = -9 is outside [0, 4)", {}),
                ("GatherElements", [x, np.array([[0, -3, -4]], np.int32)], "index[0,2] = -4 is outside [0, 3)", {"axis": 1}),
                ("GatherND", [x, np.array([[-4, -3], [3, -7]])], "indices[1,1] = -7 is outside [0, 3)", {}),
                ("ScatterElements", [x, np.array([[-1, -4, -5]]), updates], "index[0,2] = -5 is outside [0, 4)", {}),
                ("ScatterND", [x, np.array([[-6]]), updates], "indices[0,0] = -6 is outside [0, 4)", {})):
            with self.subTest(op=op):
                self.write(op, inputs, opset=17, **attributes)
                done = self.run_model()
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertIn(place, done.stderr)


class Edges(Case):
    def test_an_axis_that_is_resized_to_nothing(self):
        x = np.ones((1, 1, 1, 4), F32)
        for mode in ("nearest", "linear"):
            y = self.ran("Resize", [x, None, np.array([1, 1, 0.5, 1], F32)], constants=(2,), mode=mode, opset=19)["o0"]
            self.assertEqual(y.shape, (1, 1, 0, 4))

    def test_an_axis_that_keeps_its_length_has_a_scale(self):
        """Where another one is resized: alone, the image is as it was."""
        x = np.arange(1, 7, dtype=F32).reshape(1, 1, 2, 3)
        for mode in ("linear", "cubic", "nearest"):
            for how in ("half_pixel", "asymmetric"):
                with self.subTest(mode=mode, how=how):
                    scales = np.array([1, 1, 2, 1.3], F32)
                    y = self.judged("Resize", [x, None, scales], constants=(2,), mode=mode, coordinate_transformation_mode=how, nearest_mode="floor", opset=19)["o0"]
                    self.assertEqual(y.shape, (1, 1, 4, 3))
                    if mode == "linear":
                        at = np.arange(3) / 1.3 if how == "asymmetric" else (np.arange(3) + 0.5) / 1.3 - 0.5
                        np.testing.assert_allclose(y[0, 0, 0], 1 + np.clip(at, 0, 2), rtol=1e-5)
                    alone = self.judged("Resize", [x, None, np.array([1, 1, 1, 1.3], F32)], constants=(2,), mode=mode, coordinate_transformation_mode=how, nearest_mode="floor", opset=19)["o0"]
                    np.testing.assert_array_equal(alone, x)
        nine = np.arange(27, dtype=F32).reshape(1, 1, 9, 3)
        y = self.judged("Resize", [nine, None, None, np.array([8, 3])], constants=(3,), mode="linear", keep_aspect_ratio_policy="not_larger", axes=[2, 3], opset=19)["o0"]
        np.testing.assert_allclose(y[0, 0, 0], [0.25, 1.375, 2.1875], rtol=1e-6)

    def test_products_of_integers_wrap_around(self):
        draw = np.random.default_rng(3)
        for kind, low, high in ((np.uint32, 0, 2**32), (np.int32, -2**31, 2**31), (np.int64, -2**63, 2**63), (np.uint64, 0, 2**64)):
            for left, right in (((5, 9), (9, 6)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (4, 3)), ((3, 4), (4,)), ((4,), (4,)), ((2, 0), (0, 3))):
                with self.subTest(kind=kind, left=left, right=right):
                    draws = [draw.integers(low, high, shape, kind if low == 0 or kind == np.int64 else np.int64).astype(kind) for shape in (left, right)]
                    made = self.ran("MatMul", draws, opset=13)["o0"]
                    np.testing.assert_array_equal(made, np.matmul(*draws))
        big = self.ran("MatMul", [np.array([[2**40, 1]]), np.array([[2**20], [1]])], opset=13)["o0"]
        self.assertEqual(big.item(), 2**60 + 1)

    def test_windows_of_which_the_first_is_the_last(self):
        """ceil_mode: it may reach behind the image, as others do."""
        x = np.arange(1, 5, dtype=F32).reshape(1, 1, 4)
        for kernel, stride, pad in ((5, 2, 0), (7, 3, 1)):
            more = {"kernel_shape": [kernel], "strides": [stride], "pads": [pad, pad], "ceil_mode": 1, "opset": 19}
            np.testing.assert_array_equal(self.judged("MaxPool", [x], **more)["o0"], np.full((1, 1, 1), 4, F32))
            np.testing.assert_array_equal(self.ran("AveragePool", [x], count_include_pad=0, **more)["o0"], np.full((1, 1, 1), 2.5, F32))

    def test_what_is_cropped_is_not_repeated(self):
        x = np.arange(7, dtype=F32)
        y = self.judged("Pad", [x, np.array([3, -1])], constants=(1,), mode="wrap", opset=19)["o0"]
        np.testing.assert_array_equal(y, [3, 4, 5, 0, 1, 2, 3, 4, 5])


class Scalars(Case):
    def test_reductions(self):
        """Of rank 0 the result has rank 0, whatever keepdims says; of a truth value, too."""
        for kind, value in ((bool, True), (bool, False), (F32, 2.5), (np.int64, -3)):
            for op in ("ReduceMax", "ReduceMin") + (() if kind is bool else ("ReduceSum", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceSumSquare")):
                for kept in (0, 1):
                    with self.subTest(op=op, kind=kind, kept=kept):
                        y = self.ran(op, [np.array(value, kind)], opset=20, keepdims=kept)["o0"]
                        expected = abs(value) if op == "ReduceL1" else value * value if op == "ReduceSumSquare" else value
                        self.assertEqual((y.shape, y.dtype, y.item()), ((), np.dtype(kind), expected))


class Corners(Case):
    """Values and sizes at which an op is another one than elsewhere."""

    def test_whole_numbers_without_axes(self):
        x = np.array([[3, -4], [5, 12]], np.int32)
        for op, wanted in (("ReduceL1", np.abs(x)), ("ReduceL2", np.abs(x)), ("ReduceSumSquare", x * x), ("ReduceLogSumExp", x), ("ReduceMean", x)):
            self.close(self.ran(op, [x], opset=18, noop_with_empty_axes=1)["o0"], wanted)
        self.close(self.ran("ReduceLogSum", [np.abs(x)], opset=18, noop_with_empty_axes=1)["o0"], np.log(np.abs(x)).astype(np.int32))

    def test_windows_that_share_an_element(self):
        """It is put once, whatever windows name it: by numpy and as PyTorch's max_unpool2d does."""
        x = uniform(2, 1, 5, 5)
        x[:, :, 2, 2] = 9
        form = {"kernel_shape": [3, 3], "strides": [2, 2]}
        self.write("MaxPool", [x], outputs=2, opset=12, **form)
        done = self.run_model()
        self.assertEqual(done.returncode, 0, done.stderr)
        pooled = dict(np.load(os.path.join(self.folder, "out.npz")))
        wanted = np.zeros(x.size, F32)
        wanted[pooled["o1"].reshape(-1)] = pooled["o0"].reshape(-1)
        self.assertEqual(len(set(pooled["o1"].reshape(-1))), 2)
        self.close(self.judged("MaxUnpool", [pooled["o0"], pooled["o1"]], opset=11, **form)["o0"], wanted.reshape(x.shape))
        self.refused(INVALID, "a result of", "MaxUnpool", [pooled["o0"], pooled["o1"]], opset=11, kernel_shape=[1, 1], pads=[9, 9, 9, 9])

    def test_numbers_of_the_first_operator_sets(self):
        x = uniform(3, 4) * 3
        for opset, alpha, gamma in ((1, 1.6732, 1.0507), (6, 1.67326319217681884765625, 1.05070102214813232421875)):
            wanted = gamma * np.where(x > 0, x, alpha * np.expm1(x.astype(np.float64)))
            self.close(self.ran("Selu", [x], opset=opset)["o0"], wanted, 5e-6)
        image = uniform(1, 2, 3, 4)
        wanted = image[:, :, np.arange(6) // 2][..., (np.arange(6) / 1.5).astype(int)]
        self.close(self.ran("Upsample", [image], opset=1, height_scale=2.0, width_scale=1.5)["o0"], wanted)
        even = self.ran("Upsample", [image], opset=7, scales=[1.0, 1.0, 2.0, 1.5], mode="linear")["o0"]
        self.close(self.ran("Upsample", [image], opset=1, height_scale=2.0, width_scale=1.5, mode="bilinear")["o0"], even)
        ends = np.array([np.inf, -np.inf, np.nan, 1], F32)
        for opset, most in ((1, np.inf), (6, np.finfo(F32).max), (10, np.finfo(F32).max)):
            np.testing.assert_array_equal(self.ran("Clip", [ends], opset=opset, min=0.0)["o0"], np.array([most, 0, np.nan, 1], F32))
        np.testing.assert_array_equal(self.ran("Clip", [ends], opset=6)["o0"], np.clip(ends, -np.finfo(F32).max, np.finfo(F32).max))
        self.refused(INVALID, "attribute 'width_scale' is missing", "Upsample", [image], opset=1, height_scale=2.0)

    def test_fractions_of_whole_numbers(self):
        x = np.array([-3, -2, -1, 0, 1, 2, 3], np.int8)
        self.close(self.ran("Shrink", [x], opset=9, bias=1.5, lambd=0.5)["o0"], np.array([-1, 0, 0, 0, 0, 0, 1], np.int8))
        large = np.array([1 << 60, -(1 << 60) - 1])
        self.close(self.ran("Shrink", [large], opset=9, bias=2.0, lambd=0.5)["o0"], np.array([(1 << 60) - 2, -(1 << 60) + 1]))

    def test_ranges_of_large_numbers(self):
        for start, end, step in (((1 << 53), (1 << 53) + 3, 1), (-(1 << 62), -(1 << 62) - 10, -3), ((1 << 63) - 5, (1 << 63) - 1, 2), (-(1 << 63), (1 << 63) - 1, 1 << 62), (3, 3, 1), (4, 3, 1)):
            made = self.ran("Range", [np.array(v) for v in (start, end, step)], constants=(0, 1, 2), opset=11)["o0"]
            self.assertEqual(made.tolist(), list(range(start, end, step)))

    def test_whole_numbers_beyond_f64(self):
        """Those of u64 and i64 that f64 does not have, as numbers of ops."""
        for kind, values in ((np.uint64, ((1 << 53) + 1, (1 << 63) + 5, (1 << 64) - 1)), (np.int64, ((1 << 53) + 1, -(1 << 63) + 1))):
            for number in values:
                with self.subTest(kind=kind, number=number):
                    one = np.array(number, kind)
                    made = self.ran("ConstantOfShape", [np.array([3])], opset=17, constants=(0,), value=one.reshape(1))["o0"]
                    np.testing.assert_array_equal(made, np.full(3, one))
                    made = self.ran("Pad", [np.array([7], kind), np.array([1, 2]), one], opset=17, constants=(1, 2))["o0"]
                    np.testing.assert_array_equal(made, np.array([number, 7, number, number], kind))
        least = self.ran("ReduceMin", [np.zeros((0, 3), np.uint64), np.array([0])], opset=18, constants=(1,))["o0"]
        np.testing.assert_array_equal(least, np.full((1, 3), (1 << 64) - 1, np.uint64))

    def test_sequences_that_are_reversed(self):
        lengths = np.array([5, 2, 1, 4])
        for shape in ((5, 4), (5, 4, 3), (5, 4, 2, 3)):
            x = uniform(*shape)
            wanted = x.copy()
            for k, n in enumerate(lengths):
                wanted[:n, k] = x[:n, k][::-1]
            for kind in (F32, np.float16, np.uint8, np.int64):
                given, want = ((a * 9).astype(kind) for a in (np.abs(x), np.abs(wanted)))
                with self.subTest(shape=shape, kind=kind):
                    np.testing.assert_array_equal(self.ran("ReverseSequence", [given, lengths], opset=17)["o0"], want)
                    given, want = (np.ascontiguousarray(a.swapaxes(0, 1)) for a in (given, want))
                    np.testing.assert_array_equal(self.ran("ReverseSequence", [given, lengths], opset=17, batch_axis=0, time_axis=1)["o0"], want)
            for axes in ({}, {"batch_axis": 0, "time_axis": 1}):
                self.write("ReverseSequence", [x.swapaxes(0, 1).copy() if axes else x, np.array([5, 6, 1, 4])], opset=17, **axes)
                done = self.run_model()
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertIn("outside", done.stderr)
        self.refused(INVALID, "the sequences", "ReverseSequence", [uniform(5, 4, 3), lengths[:3]], opset=17)

    def test_scales_of_another_type(self):
        """The division is in the type that has more of the numbers, if no attribute says."""
        x = np.array([1e-3, 5e-3, 9e-3, -1], np.float16)
        inputs = [x, np.array(2e-8, F32) * F32(2000), np.array(3, np.uint8)]
        wanted = np.clip(np.rint(x.astype(F32) / inputs[1]) + 3, 0, 255).astype(np.uint8)
        self.close(self.ran("QuantizeLinear", inputs, opset=23)["o0"], wanted)
        tiny = np.array([1e-6, 0], np.float16)
        wanted = np.clip(np.rint(tiny.astype(F32) / F32(1e-8)), 0, 255).astype(np.uint8)
        self.close(self.ran("QuantizeLinear", [tiny, np.array(1e-8, F32), np.array(0, np.uint8)], opset=23)["o0"], wanted)
        f32, scale = uniform(64) * 10, np.array(0.0701, F32)
        halves = f32.astype(np.float16) / scale.astype(np.float16)
        made = self.ran("QuantizeLinear", [f32, scale, np.array(128, np.uint8)], opset=23, precision=10)["o0"]
        self.assertLessEqual(np.abs(made.astype(int) - np.clip(np.rint(halves.astype(F32)) + 128, 0, 255)).max(), 1)
        np.testing.assert_array_equal(made, self.ran("QuantizeLinear", [f32.astype(np.float16), scale.astype(np.float16), np.array(128, np.uint8)], opset=23)["o0"])

    def test_sizes_that_none_has(self):
        square = uniform(1, 4, 2, 2)
        for op in ("DepthToSpace", "SpaceToDepth"):
            self.refused(INVALID, "blocks of 4294967296 do not fit", op, [square], opset=13, blocksize=1 << 32)
        number = lambda v: np.array(v)
        mel = [number(100000), number(1 << 24), number(16000), np.array(0, F32), np.array(8000, F32)]
        self.refused(UNSUPPORTED, "weights of", "MelWeightMatrix", mel, constants=range(5), opset=17)
        self.refused(INVALID, "edges of", "MelWeightMatrix", [number(2), number(64), number(1), np.array(0, F32), np.array(1e38, F32)], constants=range(5), opset=17)
        made = self.ran("MelWeightMatrix", [number(2), number(64), number(1), np.array(0, F32), np.array(1e9, F32)], constants=range(5), opset=17)["o0"]
        self.assertEqual((made.shape, made[1, 0] > 0), ((33, 2), True))  # what lies behind the spectrum has no row
        self.refused(UNSUPPORTED, "frames of", "STFT", [uniform(1, 1 << 18, 1), number(1), None, number(1 << 17)], constants=(1, 3), opset=17)
        self.refused(UNSUPPORTED, "an axis of 1099511627776 elements", "Resize", [uniform(1, 1), None, None, np.array([1, 1 << 40])], constants=(3,), opset=13)
        body = m.graph([m.node("Identity", ["a"], ["b"])], [m.value("a")], [m.value("b")])
        self.refused(INVALID, "windows of pads alone", "MaxPool", [uniform(1, 1, 0, 4)], outputs=2, opset=12, kernel_shape=[2, 2], pads=[1, 0, 1, 0], storage_order=1)
        form = {"opset": 8, "body": body, "num_scan_inputs": 1}
        x = uniform(2, 3, 4)
        self.close(self.ran("Scan", [None, x], **form)["o0"], x)
        for inputs in ([np.array(1, F32)], [uniform(0, 3)], [x, uniform(3, 3)]):
            self.refused(INVALID, "all inputs have the same batch in front", "Scan", [None, *inputs], **{**form, "num_scan_inputs": len(inputs)})
        self.refused(INVALID, "it has nothing to go over", "Scan", [None, x], **{**form, "num_scan_inputs": 0})

    def test_tensors_of_several_ranks(self):
        nodes = [m.node("SequenceConstruct", ["i0", "i1"], ["s"]), m.node("ConcatFromSequence", ["s"], ["o0"], "N", axis=2, new_axis=1)]
        for other, code in ((uniform(2, 3), 0), (np.array(1, F32), 3)):
            given = {"i0": uniform(2, 3), "i1": other}
            with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
                f.write(m.model(m.graph(nodes, [m.value(n, a.shape) for n, a in given.items()], [m.value("o0", None, 0)])))
            np.savez(os.path.join(self.folder, "in.npz"), **given)
            done = self.run_model()
            self.assertEqual(done.returncode, code, done.stderr)
            if code:
                self.assertIn("tensors of the ranks 2 and 0", done.stderr)
            else:
                self.close(np.load(os.path.join(self.folder, "out.npz"))["o0"], np.stack(list(given.values()), 2))


if __name__ == "__main__":
    unittest.main()
