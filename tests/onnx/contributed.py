# Ops of ONNX Runtime's domain, attention and the ops that ONNX's own cases of 1.12 do not have: against numpy.
# SPDX-License-Identifier: Apache-2.0
import math
import os
import subprocess
import sys
import unittest

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
F32 = np.float32
ORT = "com.microsoft"
RANDOM = np.random.default_rng(7)
ERF = np.vectorize(math.erf)


def uniform(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(F32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Case(FolderTest):
    def run_op(self, op, inputs, count=1, domain=ORT, opset=17, constants=(), **attributes):
        """The outputs of one node; inputs are arrays, or None where one is left out."""
        names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
        outputs = [f"o{k}" for k in range(count)]
        values = [m.value(n, a.shape, m.ELEMENT[a.dtype]) for k, (n, a) in enumerate(zip(names, inputs)) if n and k not in constants]
        tensors = [m.tensor(names[k], inputs[k]) for k in constants]
        data = m.model(m.graph([m.node(op, names, outputs, "node", domain, **attributes)], values, [m.value(o, None, 0) for o in outputs], tensors),
                       opset=opset, domains=[domain] if domain else [])
        path = os.path.join(self.folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(data)
        command = [OPC, "run", path, "--quiet"]
        for k, a in enumerate(inputs):
            if a is None or k in constants:
                continue
            np.save(os.path.join(self.folder, f"i{k}.npy"), a)
            command += ["--input", f"i{k}=@{self.folder}/i{k}.npy"]
        for o in outputs:
            command += ["--output", f"{o}={self.folder}/{o}.npy"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, errors="replace")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [np.load(os.path.join(self.folder, o + ".npy")) for o in outputs]
        return found if count > 1 else found[0]

    def close(self, got, want, tolerance=2e-6):
        self.assertEqual(got.shape, want.shape)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


class Contributed(Case):
    def test_gelus(self):
        x, b = uniform(2, 5), uniform(5)
        gelu = lambda v: 0.5 * v * (1 + ERF(v / math.sqrt(2)))
        fast = lambda v: 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
        self.close(self.run_op("Gelu", [x]), gelu(x))
        self.close(self.run_op("BiasGelu", [x, b]), gelu(x + b))
        self.close(self.run_op("FastGelu", [x, b]), fast(x + b))
        self.close(self.run_op("QuickGelu", [x], alpha=1.5), x * sigmoid(1.5 * x))

    def test_products(self):
        a, b, c = uniform(2, 4, 3), uniform(2, 4, 5), uniform(5)
        self.close(self.run_op("FusedMatMul", [a, b], transA=1, alpha=0.5), 0.5 * a.transpose(0, 2, 1) @ b)
        self.close(self.run_op("FusedGemm", [a[0], b[0], c], transA=1, activation="LeakyRelu", activation_alpha=0.2),
                   np.where((y := a[0].T @ b[0] + c) < 0, 0.2 * y, y))
        x, w, z = uniform(1, 3, 6, 6), uniform(4, 3, 1, 1), uniform(1, 4, 6, 6)
        y = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) + z
        self.close(self.run_op("FusedConv", [x, w, None, z], activation="Relu"), np.maximum(y, 0))
        self.close(self.run_op("FusedConv", [x, w, None, z], activation="Clip", activation_params=[-0.1, 0.2]), np.clip(y, F32(-0.1), F32(0.2)))

    def test_normalisations(self):
        x, skip, g, b, bias = uniform(2, 3, 8), uniform(2, 3, 8), uniform(8), uniform(8), uniform(8)
        s = (x + skip + bias).astype(np.float64)
        y = (s - s.mean(-1, keepdims=True)) / np.sqrt(s.var(-1, keepdims=True) + 1e-5) * g + b
        names = [x, skip, g, b, bias]
        self.close(self.run_op("SkipLayerNormalization", names, epsilon=1e-5), y, 1e-5)
        rms = lambda v: v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-5) * g
        self.close(self.run_op("SkipSimplifiedLayerNormalization", [x, skip, g, bias], epsilon=1e-5), rms(s), 1e-5)
        self.close(self.run_op("SimplifiedLayerNormalization", [x, g], domain="", epsilon=1e-5), rms(x.astype(np.float64)), 1e-5)

    def test_quantised(self):
        a, b = RANDOM.integers(0, 256, (3, 4), np.uint8), RANDOM.integers(0, 256, (3, 4), np.uint8)
        s = [np.array(v, F32) for v in (0.02, 0.03, 0.05)]
        z = [np.array(v, np.uint8) for v in (120, 3, 130)]
        real = lambda q, k: (q.astype(np.int32) - int(z[k])).astype(F32) * s[k]
        back = lambda r: np.clip(np.rint(r / s[2]) + int(z[2]), 0, 255).astype(np.uint8)
        near = lambda got, want: self.assertLessEqual(np.abs(got.astype(int) - want.astype(int)).max(), 1)
        near(self.run_op("QLinearAdd", [a, s[0], z[0], b, s[1], z[1], s[2], z[2]]), back(real(a, 0) + real(b, 1)))
        near(self.run_op("QLinearMul", [a, s[0], z[0], b, s[1], z[1], s[2], z[2]]), back(real(a, 0) * real(b, 1)))
        near(self.run_op("QLinearSigmoid", [a, s[0], z[0], s[2], z[2]]), back(sigmoid(real(a, 0))))
        near(self.run_op("QLinearLeakyRelu", [a, s[0], z[0], s[2], z[2]], alpha=0.1), back(np.where(real(a, 0) < 0, 0.1 * real(a, 0), real(a, 0))))
        near(self.run_op("QLinearConcat", [s[2], z[2], a, s[0], z[0], b, s[1], z[1]], axis=1), back(np.concatenate([real(a, 0), real(b, 1)], 1)))
        w = RANDOM.integers(-128, 128, (4, 5), np.int8)
        zero = np.array(0, np.int8)
        self.close(self.run_op("MatMulIntegerToFloat", [a, w, s[0], s[1], z[0], zero]), real(a, 0) @ w.astype(F32) * s[1], 1e-5)
        near(self.run_op("QGemm", [a, s[0], z[0], w, s[1], zero, None, s[2], z[2]]), back(real(a, 0) @ w.astype(F32) * s[1]))
        image = RANDOM.integers(0, 256, (1, 2, 3, 3), np.uint8)
        near(self.run_op("QLinearGlobalAveragePool", [image, s[0], z[0], s[2], z[2]]), back(real(image, 0).mean((2, 3), keepdims=True)))


class Attention(Case):
    def attended(self, q, k, v, scale, mask=0):
        return softmax(q @ k.swapaxes(-1, -2) * scale + mask) @ v

    def test_products_with_packed_weights(self):
        rng = np.random.default_rng(3)
        for bits, k, block, kind, rows in [(4, 64, 16, None, [3]), (4, 70, 32, "packed", []), (8, 40, 16, "packed", [3]), (4, 48, 16, "real", [2, 3])]:
            n, blocks = 5, -(-k // block)
            steps = rng.integers(0, 2**bits, (n, blocks, block))
            zeros = np.full((n, blocks), 2 ** (bits - 1)) if kind is None else rng.integers(0, 2**bits, (n, blocks))
            scales = rng.uniform(0.01, 0.1, (n, blocks)).astype(F32)
            pack = lambda x: (x[..., 0::2] + 16 * x[..., 1::2]).astype(np.uint8) if bits == 4 else x.astype(np.uint8)
            padded = np.concatenate([zeros, np.zeros((n, blocks % 2), zeros.dtype)], 1) if bits == 4 else zeros
            given = {None: None, "packed": pack(padded).reshape(-1), "real": zeros.astype(F32)}[kind]
            weight = ((steps - zeros[:, :, None]) * scales[:, :, None].astype(np.float64)).reshape(n, -1)[:, :k]
            a = uniform(*rows, k)
            inputs = [a, pack(steps), scales.reshape(-1), given]
            self.close(self.run_op("MatMulNBits", inputs, K=k, N=n, bits=bits, block_size=block), a @ weight.T, 1e-5)
            self.close(self.run_op("MatMulNBits", inputs, constants=(1, 2), K=k, N=n, bits=bits, block_size=block), a @ weight.T, 1e-5)

    def test_a_product_that_quantises(self):
        a, b, scale, bias = uniform(4, 24), np.random.default_rng(4).integers(-127, 128, (24, 6)).astype(np.int8), np.float32(0.02), uniform(6)
        low, high = min(a.min(), 0), max(a.max(), 0)
        step = F32((high - low) / F32(255))
        zero = np.rint(np.clip(-low / step, 0, 255))
        quantised = np.clip(np.rint(a / step) + zero, 0, 255) - zero
        self.close(self.run_op("DynamicQuantizeMatMul", [a, b, np.array(scale), np.array(0, np.int8), bias]), quantised @ b.astype(np.float64) * step * scale + bias, 1e-5)

    def test_heads_of_queries_share_those_of_keys(self):
        q, k, v = uniform(2, 4, 3, 8), uniform(2, 2, 5, 8), uniform(2, 2, 5, 8)
        want = self.attended(q, k.repeat(2, 1), v.repeat(2, 1), 1 / math.sqrt(8))
        self.close(self.run_op("Attention", [q, k, v], domain="", opset=23), want)
        flat = lambda t: t.transpose(0, 2, 1, 3).reshape(t.shape[0], t.shape[2], -1)
        self.close(self.run_op("Attention", [flat(q), flat(k), flat(v)], domain="", opset=23, q_num_heads=4, kv_num_heads=2), flat(want))

    def test_past_masks_and_caps(self):
        q, k, v = uniform(1, 2, 3, 4), uniform(1, 2, 3, 4), uniform(1, 2, 3, 4)
        pk, pv = uniform(1, 2, 2, 4), uniform(1, 2, 2, 4)
        ak, av = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
        causal = np.where(np.arange(5)[None] > np.arange(3)[:, None] + 2, -np.inf, 0)
        y, keys, values = self.run_op("Attention", [q, k, v, None, pk, pv], 3, domain="", opset=23, is_causal=1)
        self.close(y, self.attended(q, ak, av, 0.5, causal))
        self.close(keys, ak)
        self.close(values, av)
        mask = RANDOM.uniform(0, 1, (3, 3)) > 0.3
        mask[:, 0] = True
        self.close(self.run_op("Attention", [q, k, v, mask], domain="", opset=23, scale=0.3), self.attended(q, k, v, 0.3, np.where(mask, 0, -np.inf)))
        capped = 2 * np.tanh(q @ k.swapaxes(-1, -2) * 0.5 / 2)
        self.close(self.run_op("Attention", [q, k, v], domain="", opset=23, softcap=2.0), softmax(capped) @ v)

    def test_of_onnx_runtime(self):
        q, k, v, bias = uniform(2, 3, 8), uniform(2, 5, 8), uniform(2, 5, 8), uniform(24)
        heads = lambda t: t.reshape(t.shape[0], t.shape[1], 2, 4).transpose(0, 2, 1, 3)
        want = self.attended(heads(q + bias[:8]), heads(k + bias[8:16]), heads(v + bias[16:]), 0.5)
        got = self.run_op("MultiHeadAttention", [q, k, v, bias], num_heads=2)
        self.close(got, want.transpose(0, 2, 1, 3).reshape(2, 3, 8))

    def test_rotary(self):
        x = uniform(2, 2, 3, 8)
        angle = uniform(6, 4)
        cos, sin = np.cos(angle), np.sin(angle)
        places = np.array([[0, 1, 2], [3, 4, 5]], np.int64)
        c, s = cos[places][:, None], sin[places][:, None]
        a, b = x[..., :4], x[..., 4:]
        want = np.concatenate([a * c - b * s, a * s + b * c], -1)
        self.close(self.run_op("RotaryEmbedding", [x, cos, sin, places], domain="", opset=23), want)
        a, b = x[..., ::2], x[..., 1::2]
        mixed = np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)
        self.close(self.run_op("RotaryEmbedding", [x, cos, sin, places], domain="", opset=23, interleaved=1), mixed)
        self.close(self.run_op("RotaryEmbedding", [x, places, cos, sin]), want)


class OrtAttention(Case):
    """The formulas by numpy; ONNX Runtime gives these numbers, too."""

    def heads(self, x, heads):
        return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)

    def joined(self, x):
        return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)

    def attended(self, q, k, v, mask):
        return self.joined(softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + mask) @ v)

    def test_attention(self):
        x, w, b = uniform(2, 3, 6), uniform(6, 24), uniform(24)
        past = uniform(2, 2, 2, 2, 4)
        q, k, v = (self.heads(part, 2) for part in np.split(x @ w + b, 3, -1))
        keys, values = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
        causal = np.where(np.arange(5)[None] > np.arange(3)[:, None] + 2, -np.inf, 0)
        y, present = self.run_op("Attention", [x, w, b, None, past], 2, num_heads=2, unidirectional=1)
        self.close(y, self.attended(q, keys, values, causal), 1e-5)
        self.close(present, np.stack([keys, values]))
        lengths = np.array([3, 1], np.int32)
        hidden = np.where(np.arange(3) < lengths[:, None], 0, -10000.0)[:, None, None]
        self.close(self.run_op("Attention", [x, w, b, lengths], num_heads=2), self.attended(q, k, v, hidden), 1e-5)
        ones = (np.arange(3) < lengths[:, None]).astype(np.int32)
        self.close(self.run_op("Attention", [x, w, b, ones], num_heads=2), self.attended(q, k, v, hidden), 1e-5)
        added = uniform(1, 2, 3, 3)
        self.close(self.run_op("Attention", [x, w, b, None, None, added], num_heads=2), self.attended(q, k, v, added), 1e-5)

    def test_values_of_another_width(self):
        x, w, bias = uniform(2, 3, 6), uniform(6, 22), uniform(22)
        y = x @ w + bias
        q, k, v = self.heads(y[..., :8], 2), self.heads(y[..., 8:16], 2), self.heads(y[..., 16:], 2)
        self.close(self.run_op("Attention", [x, w, bias], num_heads=2, qkv_hidden_sizes=[8, 8, 6]), self.attended(q, k, v, 0), 1e-5)

    def test_many_heads(self):
        q, k, v, pk, pv = uniform(2, 3, 8), uniform(2, 3, 8), uniform(2, 3, 8), uniform(2, 2, 4, 4), uniform(2, 2, 4, 4)
        keys, values = np.concatenate([pk, self.heads(k, 2)], 2), np.concatenate([pv, self.heads(v, 2)], 2)
        mask = np.array([[1, 1, 1, 1, 1, 1, 0], [1, 0, 1, 1, 1, 0, 0]], np.int32)
        y, present, _ = self.run_op("MultiHeadAttention", [q, k, v, None, mask, None, pk, pv], 3, num_heads=2)
        self.close(y, self.attended(self.heads(q, 2), keys, values, np.where(mask[:, None, None] != 0, 0, -10000.0)), 1e-5)
        self.close(present, keys)
        packed = np.stack([t.reshape(2, 3, 2, 4) for t in (q, k, v)], 3)
        self.close(self.run_op("MultiHeadAttention", [packed], num_heads=2), self.attended(*(self.heads(t, 2) for t in (q, k, v)), 0), 1e-5)

    def turned(self, x, places, cos, sin):
        c, s = cos[places][:, None], sin[places][:, None]
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * c - b * s, a * s + b * c], -1)

    def group(self, q, k, v, past, last, total, window=-1):
        """Sequence by sequence; `last` has the index of each one's last key. The inputs of the node, and what it gives."""
        batch, length = q.shape[:2]
        angle = uniform(16, 8)
        cos, sin = np.cos(angle), np.sin(angle)
        qs, ks, vs = self.heads(q, 4), self.heads(k, 2), self.heads(v, 2)
        want, present = np.zeros((batch, 4, length, 16)), []
        for b in range(batch):
            before = 0 if length == total and length > 1 else last[b] + 1 - length
            places = np.arange(before, before + length)[None]
            one = [t[b:b + 1] for t in (qs, ks, vs)]
            one[0], one[1] = (self.turned(t, places, cos, sin) for t in one[:2])
            keys, values = one[1:] if past is None else [np.concatenate([p[b:b + 1, :, :before], t], 2) for p, t in zip(past, one[1:])]
            present.append(keys)
            far = np.arange(keys.shape[2])[None] - places[0][:, None]
            mask = np.where((far > 0) | (far <= -window if window > 0 else False), -np.inf, 0)
            scores = one[0] @ keys.repeat(2, 1).swapaxes(-1, -2) / math.sqrt(16) + mask
            want[b] = (softmax(scores) @ values.repeat(2, 1))[0]
        inputs = [q, k, v, *(past or (None, None)), np.array(last, np.int32), np.array(total, np.int32), cos, sin]
        more = {"local_window_size": window} if window > 0 else {}
        y, keys, _ = self.run_op("GroupQueryAttention", inputs, 3, constants=(6,), num_heads=4, kv_num_heads=2, do_rotary=1, **more)
        self.close(y, self.joined(want), 1e-5)
        for b, one in enumerate(present):
            self.close(keys[b, :, :one.shape[2]], one[0], 1e-5)
        return keys

    def test_groups(self):
        q, k, v = uniform(2, 3, 64), uniform(2, 3, 32), uniform(2, 3, 32)
        self.assertEqual(self.group(q, k, v, None, [2, 2], 3).shape, (2, 2, 3, 16))
        # A token: sequences of different lengths in a buffer that has room, and in one that is as long as they are.
        one = [uniform(2, 1, 64), uniform(2, 1, 32), uniform(2, 1, 32)]
        self.assertEqual(self.group(*one, (uniform(2, 2, 8, 16), uniform(2, 2, 8, 16)), [5, 2], 6).shape, (2, 2, 8, 16))
        self.assertEqual(self.group(*one, (uniform(2, 2, 4, 16), uniform(2, 2, 4, 16)), [4, 4], 5).shape, (2, 2, 5, 16))
        self.group(q, k, v, None, [2, 2], 3, window=2)

    def test_operands_in_one_tensor(self):
        q, k, v = uniform(1, 3, 32), uniform(1, 3, 16), uniform(1, 3, 16)
        want = self.run_op("GroupQueryAttention", [q, k, v, None, None, np.array([2], np.int32), np.array(3, np.int32)], constants=(6,), num_heads=4,
                           kv_num_heads=2)
        mask = np.where(np.arange(3)[None] > np.arange(3)[:, None], -np.inf, 0)
        self.close(want, self.attended(self.heads(q, 4), self.heads(k, 2).repeat(2, 1), self.heads(v, 2).repeat(2, 1), mask), 1e-5)
        packed = np.concatenate([q, k, v], -1)
        self.close(self.run_op("GroupQueryAttention", [packed, None, None, None, None, np.array([2], np.int32), np.array(3, np.int32)], constants=(6,),
                               num_heads=4, kv_num_heads=2), want)


class Compositions(Case):
    def test_determinants(self):
        for n in (1, 2, 3, 4, 5):
            x = uniform(3, n, n)
            self.close(self.run_op("Det", [x], domain="", opset=22), np.linalg.det(x.astype(np.float64)), 1e-5)

    def test_transforms(self):
        x = uniform(2, 10, 1)
        want = np.fft.fft(x[..., 0], axis=1)
        self.close(self.run_op("DFT", [x], domain="", axis=1), np.stack([want.real, want.imag], -1))
        z = uniform(2, 6, 2)
        want = np.fft.ifft(z[..., 0] + 1j * z[..., 1], n=9, axis=1)
        got = self.run_op("DFT", [z, np.array(9, np.int64)], domain="", axis=1, inverse=1, constants=(1,))
        self.close(got, np.stack([want.real, want.imag], -1))
        want = np.fft.rfft(x[..., 0], axis=1)
        self.close(self.run_op("DFT", [x], domain="", opset=20, onesided=1), np.stack([want.real, want.imag], -1))

    def test_products_scattered(self):
        x, updates = uniform(3, 4), uniform(3, 4)
        indices = np.array([[0], [2], [0]], np.int64)
        want = x.copy()
        for row, u in zip(indices[:, 0], updates):
            want[row] *= u
        self.close(self.run_op("ScatterND", [x, indices, updates], domain="", opset=18, reduction="mul"), want)

    def test_the_largest_and_the_smallest_scattered(self):
        for dtype in (F32, np.int64, np.uint8):
            x, updates = RANDOM.integers(0, 100, (4, 5)).astype(dtype), RANDOM.integers(0, 100, (3, 4)).astype(dtype)
            indices, rows = RANDOM.integers(-5, 5, (3, 4)), np.array([[0], [-2], [0]], np.int64)
            for name, ufunc in (("max", np.maximum), ("min", np.minimum)):
                want = x.copy()
                for at in np.ndindex(3, 4):
                    want[at[0], indices[at]] = ufunc(want[at[0], indices[at]], updates[at])
                got = self.run_op("ScatterElements", [x, indices, updates], domain="", opset=18, axis=1, reduction=name)
                np.testing.assert_array_equal(got, want)
                want, slices = x.copy(), RANDOM.integers(0, 100, (3, 5)).astype(dtype)
                ufunc.at(want, rows[:, 0], slices)
                got = self.run_op("ScatterND", [x, rows, slices], domain="", opset=18, reduction=name)
                np.testing.assert_array_equal(got, want)

    def test_equal_shares_of_a_gradient(self):
        """As PyTorch's scatter_reduce: what is as large as the largest has its share, the element that was there, too."""
        nodes = [m.node("ScatterElements", ["x", "i", "s"], ["y"], reduction="max"), m.node("Mul", ["y", "w"], ["p"]), m.node("ReduceSum", ["p"], ["loss"], keepdims=0)]
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, [m.value("x", (3,)), m.value("s", (4,)), m.value("i", (4,), 7), m.value("w", (3,))], [m.value("loss")]), opset=18))
        for words in (["grad", "model.onnx", "--loss", "loss", "--wrt", "x", "--wrt", "s", "-o", "g.pbtxt"],
                      ["run", "g.pbtxt", "--quiet", "--input", "x=1,5,7", "--input", "s=5,3,5,9", "--input", "i=1,1,1,2", "--input", "w=2,3,4", "--output", "x.grad=x.npy", "--output", "s.grad=s.npy"]):
            done = subprocess.run([OPC, *words], cwd=self.folder, capture_output=True, text=True, timeout=60, errors="replace")
            self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(np.load(os.path.join(self.folder, "x.npy")), np.array([2, 1, 0], F32))
        np.testing.assert_array_equal(np.load(os.path.join(self.folder, "s.npy")), np.array([1, 0, 1, 4], F32))

    def test_bits(self):
        for dtype, to in ((F32, np.int32), (np.int32, F32), (np.float64, np.uint64), (np.int8, np.uint8), (np.bool_, np.uint8), (np.float16, np.int16)):
            x = (RANDOM.uniform(-50, 50, (2, 3)) if dtype is not np.bool_ else RANDOM.uniform(-1, 1, (2, 3)) > 0).astype(dtype)
            got = self.run_op("BitCast", [x], domain="", opset=26, to=m.ELEMENT[np.dtype(to)])
            np.testing.assert_array_equal(got, x.view(to))
            self.assertEqual(got.dtype, to)

    def test_pads_wider_than_half_a_window(self):
        x = uniform(1, 1, 5)
        padded, ones = np.pad(x[0, 0], 2), np.pad(np.ones(5), 2)
        want = np.array([padded[k:k + 3].sum() / ones[k:k + 3].sum() for k in range(7)], F32).reshape(1, 1, 7)
        self.close(self.run_op("AveragePool", [x], domain="", kernel_shape=[3], pads=[2, 2]), want)


if __name__ == "__main__":
    unittest.main()
