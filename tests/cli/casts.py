# Conversions between all element types: the op cast and --cast against exact fractions, and against each other.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

import numpy as np

from float_formats import STORED_FLOATS, TYPES, Float, Integer, array, codes, convert, edge_codes, fits, safetensors, same
from folder_test import FolderTest

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")


def source(name, dtype, count):
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ dim: {count} }} data_type: {TYPES[dtype][0]} }} }} }}\n'


def call(name, op, tensor, attrs=""):
    return (f'op {{ name: "{name}_op" user_conf {{ op_type_name: "{op}" input {{ key: "in" value {{ s: "{tensor}/out" }} }} {attrs} }} }}\n'
            f'op {{ name: "{name}" output_conf {{ in: "{name}_op/out_0" out: "out" }} }}\n')


class Casts(FolderTest):
    def run_graph(self, text, inputs, *flags, code=0):
        """Runs the graph on {name: (type, elements)}; the outputs by name, or what opc said when it is to fail."""
        graph, given, out = (os.path.join(self.folder, name) for name in ("g.pbtxt", "in.safetensors", "out.npz"))
        with open(graph, "w") as f:
            f.write(text)
        with open(given, "wb") as f:
            f.write(safetensors(inputs))
        done = subprocess.run([os.path.join(BIN, "opc"), "run", graph, "--inputs", given, "--outputs", out, "--print", "none", *flags],
                              capture_output=True, timeout=120, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else dict(np.load(out))

    def check(self, got, given, dtype, target, **options):
        for c, g in zip(given, codes(got, target), strict=True):
            want = convert(c, dtype, target, **options)
            if not same(g, want, target):
                self.fail(f"{dtype} {c:#x} ({TYPES[dtype][2].value(c)}) to {target} {options}: {g:#x} ({TYPES[target][2].value(g)}), "
                          f"expected {want:#x} ({TYPES[target][2].value(want)})")

    def test_op_cast_rounds_once_saturates_and_wraps(self):
        for dtype in TYPES:
            given = edge_codes(dtype)
            text = source("x", dtype, len(given))
            for target, (graph_name, _, _) in TYPES.items():
                attr = f'attr {{ key: "dtype" value {{ at_data_type: {graph_name} }} }}'
                text += call(target, "cast", "x", attr)
                if target in STORED_FLOATS:
                    text += call(target + "_exact", "cast", "x", attr + ' attr { key: "saturate" value { at_bool: false } }')
            got = self.run_graph(text, {"x": (dtype, array(given, dtype))})
            for target in TYPES:
                self.check(got[target], given, dtype, target)
            for target in STORED_FLOATS:
                self.check(got[target + "_exact"], given, dtype, target, saturate=False)

    def test_cast_of_given_tensors_equals_the_op(self):
        for dtype in TYPES:
            text, inputs, given = "", {}, {}
            for target in TYPES:
                given[target] = [c for c in edge_codes(dtype) if fits(c, dtype, target)]
                text += source("x_" + target, target, len(given[target])) + call(target, "identity", "x_" + target)
                inputs["x_" + target] = dtype, array(given[target], dtype)
            got = self.run_graph(text, inputs, "--cast")
            for target in TYPES:
                self.check(got[target], given[target], dtype, target)

    def test_what_does_not_fit_is_refused(self):
        for dtype in ("f64", "i64", "u64"):
            for target in TYPES:
                misfits = [c for c in edge_codes(dtype) if not fits(c, dtype, target)]
                for c in misfits[:1] + misfits[-1:]:
                    text = source("x", target, 1) + call("y", "identity", "x")
                    said = self.run_graph(text, {"x": (dtype, array([c], dtype))}, "--cast", code=2)
                    self.assertIn("OPC0703", said)
                    self.assertIn(f"does not fit {target}", said)

    def test_the_judge_is_numpy_where_numpy_has_the_type(self):
        for dtype in ("f64", "f32", "f16", "i32", "i64", "u64"):
            given = edge_codes(dtype)
            for target, numpy_type in (("f64", np.float64), ("f32", np.float32), ("f16", np.float16)):
                if isinstance(TYPES[dtype][2], Integer) and target == "f16":
                    continue  # numpy goes through f64 or f32: it rounds twice
                with np.errstate(over="ignore"):
                    want = codes(array(given, dtype).astype(numpy_type), target)
                for c, w in zip(given, want):
                    self.assertTrue(same(convert(c, dtype, target), w, target), (dtype, target, hex(c)))

    def test_tables_of_the_stored_floats(self):
        # From the definitions of the formats in the ONNX documentation ("Float stored in 8 bits", "Float stored in 4 bits").
        e4m3fn, e5m2 = TYPES["f8e4m3fn"][2], TYPES["f8e5m2"][2]
        self.assertIsInstance(e4m3fn, Float)
        self.assertEqual([float(e4m3fn.value(c)) for c in (0x7e, 0x08, 0x07, 0x01)], [448, 2**-6, 0.875 * 2**-6, 2**-9])
        self.assertEqual([float(e5m2.value(c)) for c in (0x7b, 0x04, 0x03, 0x01)], [57344, 2**-14, 0.75 * 2**-14, 2**-16])
        self.assertEqual([e4m3fn.value(0x7f), e5m2.value(0x7c), e5m2.value(0xfc), e5m2.value(0x7d)], ["nan", "inf", "-inf", "nan"])
        e4m3fnuz, e5m2fnuz, e8m0, e2m1 = (TYPES[n][2] for n in ("f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0", "f4e2m1"))
        self.assertEqual([float(e4m3fnuz.value(c)) for c in (0x7f, 0x01)], [240, 2**-10])
        self.assertEqual([float(e5m2fnuz.value(c)) for c in (0x7f, 0x01)], [57344, 2**-17])
        self.assertEqual([e4m3fnuz.value(0x80), e5m2fnuz.value(0x80), e4m3fnuz.code("-0", True), e4m3fnuz.code("inf", False)], ["nan", "nan", 0, 0x80])
        self.assertEqual([e8m0.value(c) for c in (0, 127, 254, 255)], [2**-127, 1, 2**127, "nan"])
        self.assertEqual([float(e2m1.value(c)) for c in range(8)], [0, 0.5, 1, 1.5, 2, 3, 4, 6])
        self.assertEqual([e2m1.code(v, s) for v in ("nan", "inf", "-inf", "-0") for s in (True, False)], [7, 7, 7, 7, 15, 15, 8, 8])


if __name__ == "__main__":
    unittest.main()
