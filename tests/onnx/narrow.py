# Weights of 2 and 4 bits in ONNX models: unpacked while importing, read by DequantizeLinear (also by blocks) and Cast (stored_types.py
# has such types elsewhere). Expected numbers
# are numpy's, by the formula of the specification, and ONNX Runtime's where it has the type.
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402
import ort  # noqa: E402

import importlib.util  # noqa: E402

spec = importlib.util.spec_from_file_location("onnx_import", os.path.join(os.path.dirname(os.path.abspath(__file__)), "import.py"))
onnx_import = importlib.util.module_from_spec(spec)
spec.loader.exec_module(onnx_import)
F32 = np.float32
TYPES = {"u4": (21, 4, False), "i4": (22, 4, True), "u2": (25, 2, False), "i2": (26, 2, True)}


def drawn(kind, shape, seed=1):
    _, bits, signed = TYPES[kind]
    low = -(1 << (bits - 1)) if signed else 0
    values = np.random.default_rng(seed).integers(low, low + (1 << bits), shape)
    if values.size > 1:
        values.reshape(-1)[:2] = low, low + (1 << bits) - 1
    return values


def packed(kind, values):
    """The first element in the lowest bits."""
    _, bits, _ = TYPES[kind]
    out = bytearray((values.size * bits + 7) // 8)
    for k, v in enumerate(values.reshape(-1)):
        out[k * bits // 8] |= (int(v) & ((1 << bits) - 1)) << (k * bits % 8)
    return bytes(out)


def tensor(name, kind, values, how="raw"):
    head = b"".join(m.field(1, d) for d in values.shape) + m.field(2, TYPES[kind][0]) + m.field(8, name)
    data = packed(kind, values)
    if how == "raw":
        return head + m.field(9, data)
    if how == "list":
        return head + m.field(5, b"".join(m.varint(b) for b in data))
    pairs = b"".join(m.field(13, m.field(1, k) + m.field(2, v)) for k, v in (("location", "w.bin"), ("offset", "3"), ("length", str(len(data)))))
    return head + pairs + m.field(14, 1)


def dequantize(kind, values, scale, zero=None, how="raw", node="DequantizeLinear", **attributes):
    tensors = [tensor("q", kind, values, how), m.tensor("scale", scale)] + ([tensor("zero", kind, zero)] if zero is not None else [])
    body = m.graph([m.node(node, ["q", "scale"] + (["zero"] if zero is not None else []), ["w"], "unpack", **attributes), m.node("Mul", ["x", "w"], ["y"])],
                   [m.value("x", (1,))], [m.value("y")], tensors)
    return m.model(body, opset=21)


class Narrow(onnx_import.Case):
    def check(self, kind, data, want):
        got = self.runs(data, {"x": np.array([2], F32)})[0]
        np.testing.assert_array_equal(got, (want * 2).astype(F32))
        if kind in ("u4", "i4") and ort.judges(self):
            self.file("o.onnx", data)
            np.testing.assert_allclose(ort.run(self.folder, [("o.onnx", {"x": np.array([2], F32)})])[0]["y"], got, rtol=1e-6)

    def test_types(self):
        """All types, an odd number of elements, a zero point or none."""
        for kind in TYPES:
            values = drawn(kind, (3, 5))
            scale, zero = np.array(0.25, F32), drawn(kind, (1,), 2).reshape(()) if kind in ("u4", "i4") else None
            for z in (None, zero):
                with self.subTest(kind, zero=z is not None):
                    self.check(kind, dequantize(kind, values, scale, z), (values - (0 if z is None else z)) * 0.25)

    def test_axes(self):
        for kind in TYPES:
            values, zero = drawn(kind, (4, 6)), drawn(kind, (6,), 3)
            scale = np.array([0.5, 0.25, 1, 2, 4, 0.125], F32)
            with self.subTest(kind):
                self.check(kind, dequantize(kind, values, scale, zero, axis=1), (values - zero) * scale)

    def test_blocks(self):
        """A scale for each block; the last one may be shorter."""
        for kind in TYPES:
            for axis, size, block in ((0, 8, 4), (1, 12, 4), (0, 7, 3), (1, 5, 16)):
                shape = [3, 3]
                shape[axis] = size
                fewer = list(shape)
                fewer[axis] = -(-size // block)
                values, zero = drawn(kind, shape), drawn(kind, fewer, 4)
                scale = np.random.default_rng(5).choice(np.array([0.5, 1, 2], F32), fewer)
                spread = lambda a: np.repeat(a, block, axis).take(range(size), axis)  # noqa: E731,B023
                for z in (None, zero):
                    with self.subTest(kind, axis=axis, size=size, zero=z is not None):
                        want = (values - (0 if z is None else spread(z))) * spread(scale)
                        data = dequantize(kind, values, scale, z, axis=axis, block_size=block)
                        if size % block:  # ONNX Runtime wants whole blocks
                            np.testing.assert_array_equal(self.runs(data, {"x": np.array([2], F32)})[0], want * 2)
                        else:
                            self.check(kind, data, want)

    def test_where_elements_lie(self):
        values = drawn("i4", (4, 5))
        with open(self.path("w.bin"), "wb") as f:
            f.write(b"abc" + packed("i4", values))
        for how in ("list", "file"):
            self.check("i4", dequantize("i4", values, np.array(0.5, F32), how=how), values * 0.5)

    def test_a_product(self):
        """As quantisers write weights of 4 bits: blocks along the rows, more than what is folded while importing."""
        values, scale = drawn("i4", (1024, 600)), np.random.default_rng(6).random((32, 600)).astype(F32)
        x = np.random.default_rng(7).standard_normal((2, 1024)).astype(F32)
        body = m.graph([m.node("DequantizeLinear", ["q", "scale"], ["w"], axis=0, block_size=32), m.node("MatMul", ["x", "w"], ["y"])],
                       [m.value("x", x.shape)], [m.value("y")], [tensor("q", "i4", values), m.tensor("scale", scale)])
        got = self.runs(m.model(body, opset=21), {"x": x})[0]
        want = x.astype(np.float64) @ (values * np.repeat(scale, 32, 0).astype(np.float64))
        np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())

    def test_bytes_by_blocks(self):
        values, scale = np.arange(-8, 8, dtype=np.int8).reshape(2, 8) * 7, np.array([[0.5, 2], [1, 0.25]], F32)
        body = m.graph([m.node("DequantizeLinear", ["q", "scale"], ["w"], axis=1, block_size=4), m.node("Mul", ["x", "w"], ["y"])],
                       [m.value("x", (1,))], [m.value("y")], [m.tensor("q", values), m.tensor("scale", scale)])
        self.check("i4", m.model(body, opset=21), values * np.repeat(scale, 4, 1))

    def test_casts(self):
        values = drawn("u2", (7,))
        body = m.graph([m.node("Cast", ["q"], ["w"], to=1), m.node("Mul", ["x", "w"], ["y"])], [m.value("x", (1,))], [m.value("y")], [tensor("q", "u2", values)])
        self.check("u2", m.model(body, opset=21), values)

    def test_bad_input(self):
        values, one = drawn("i4", (3, 5)), np.array(1, F32)
        shape = b"".join(m.field(1, d) for d in values.shape) + m.field(2, 22) + m.field(8, "q")
        self.refused(tensor_model(shape + m.field(9, packed("i4", values)[:-1])), "OPC0322", "it holds 7 bytes")
        self.refused(tensor_model(shape + m.field(5, bytes(7))), "OPC0322", "it holds 7 values", "8, each with 2 elements")
        head = b"".join(m.field(1, d) for d in (1 << 20, 1 << 20)) + m.field(2, 22) + m.field(8, "q")
        self.refused(tensor_model(head), "OPC0322", "tensor 'q'", "it holds 0 values, i4[1048576,1048576] has 549755813888")
        self.refused(dequantize("i4", values, one, node="Add"), "OPC0422", "is of type i4, which no op computes in", 'node 0 "unpack"', "put DequantizeLinear or Cast", exit_code=4)
        self.refused(dequantize("i4", values, np.ones((3, 3), F32), axis=1, block_size=4), "OPC0322", "blocks of 4 along axis 1 ask for (3,2)")
        self.refused(dequantize("i4", values, one, block_size=-1), "OPC0322", "block_size")


def tensor_model(data):
    return m.model(m.graph([m.node("Cast", ["q"], ["w"], to=1), m.node("Mul", ["x", "w"], ["y"])], [m.value("x", (1,))], [m.value("y")], [data]), opset=21)


if __name__ == "__main__":
    unittest.main()
