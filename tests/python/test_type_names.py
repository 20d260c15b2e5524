"""An element type is read alike wherever it is said: inputs, options of operators, Specs, attributes and their defaults."""
# SPDX-License-Identifier: Apache-2.0
import unittest
import warnings

import numpy as np

import opc

#: As docs/python.md has it: opc's names count bits, numpy's other names bytes, `float` is f32 and `int` i64.
SPELLINGS = [
    ("f32", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("i64", "i64"), ("i8", "i8"), ("u8", "u8"), ("i16", "i16"), ("i4", "i4"),
    ("float32", "f32"), ("int64", "i64"), ("uint8", "u8"), ("bool", "bool"), ("double", "f64"), ("f8", "f64"), ("u1", "u8"),
    (float, "f32"), (int, "i64"), (bool, "bool"), (np.int8, "i8"), (np.float64, "f64"), (np.dtype("u2"), "u16"), (np.dtype(">f4"), "f32"),
    (opc.dtype("i8"), "i8"), (opc.dtype("bf16"), "bf16"),
]  # fmt: skip


def told(kind):
    """The type in each place."""

    def body(x):
        return x

    x = opc.Graph().input("x", (2,))
    ruled = opc.op("spelled::ruled")(body)
    ruled.infer(lambda x: opc.Spec(x.shape, kind))
    yield "input", opc.Graph().input("x", (2,), kind).dtype
    yield "option", opc.op("spelled::option", like="x", dtype={"y": kind})(body)(x).dtype
    yield "Spec", ruled(x).dtype
    yield "Spec again", ruled(x).dtype
    yield "attribute", opc.ops.cast(x, dtype=kind).dtype
    recorded = [b for b in ruled.describe()[0].splitlines() if "output { dim: 2" in b]
    yield "manifest", recorded[0].split("data_type: ")[1].split()[0]

    def defaulted(x, *, to: np.dtype = kind):
        return x

    yield "default", opc.op("spelled::default", like="x")(defaulted).describe()[0].split("at_data_type: ")[1].split()[0]


GRAPH_NAMES = {"f32": "kFloat", "f64": "kDouble", "f16": "kFloat16", "bf16": "kBFloat16", "bool": "kBool", "i64": "kInt64", "i16": "kInt16", "i8": "kInt8",
               "i4": "kInt4", "u8": "kUInt8", "u16": "kUInt16"}  # fmt: skip


class TypeNames(unittest.TestCase):
    def setUp(self):
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore")  # definitions replace each other

    def test_every_spelling_in_every_place(self):
        for kind, name in SPELLINGS:
            for place, found in told(kind):
                with self.subTest(kind=kind, place=place):
                    self.assertEqual(found, GRAPH_NAMES[name] if place in ("manifest", "default") else name)

    def test_what_is_none(self):
        x = opc.Graph().input("x", (2,))
        ruled = opc.op("spelled::ruled")(lambda x: x)
        for kind in ("nosuch", np.complex64, None, 3):
            ruled.infer(lambda x: opc.Spec(x.shape, kind))
            with self.subTest(kind=kind), self.assertRaises(opc.GraphError) as caught:
                ruled(x)
            self.assertEqual(caught.exception.code, "OPC0923")
            self.assertIn("the shape rule says that the element type of 'y' is ", str(caught.exception))
            self.assertRegex(str(caught.exception), "which is none of graphs; there are bf16, bool, f16, f32")
            with self.assertRaisesRegex(ValueError, "dtype of 'y' is .*, which is no element type"):
                opc.op("spelled::wrong", like="x", dtype={"y": kind})(lambda x: x)


if __name__ == "__main__":
    unittest.main()
