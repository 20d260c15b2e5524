# Every element type through every layer: text, files, shape operators, and the integers' arithmetic against numpy.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import struct
import subprocess
import unittest

import numpy as np

from float_formats import FILE_TYPES, SAFETENSORS, STORED, STORED_FLOATS, TYPES, Integer, array, packed
from folder_test import FolderTest

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
NEW = ("i16", "u16", "u32", "u64", *STORED)
INTEGERS = {name: np.dtype(FILE_TYPES[name]) for name in TYPES if isinstance(TYPES[name][2], Integer) and name not in STORED}
ONNX_NUMBERS = {"i16": 5, "u16": 4, "u32": 12, "u64": 13, "f8e4m3fn": 17, "f8e5m2": 19, "f8e4m3fnuz": 18,
                "f8e5m2fnuz": 20, "f8e8m0": 24, "f4e2m1": 23, "i4": 22, "u4": 21, "i2": 26, "u2": 25}


def source(name, dtype, shape):
    dims = " ".join(f"dim: {d}" for d in shape)
    return f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {TYPES[dtype][0]} }} }} }}\n'


def call(name, op, inputs, output, attrs=""):
    """An op and an output op NAME for its result."""
    given = "".join(f'input {{ key: "{arg}" value {{ {" ".join(f"s: {chr(34)}{t}/out{chr(34)}" for t in tensors.split())} }} }} '
                    for arg, tensors in inputs.items())
    return (f'op {{ name: "{name}_op" user_conf {{ op_type_name: "{op}" {given}{attrs} }} }}\n'
            f'op {{ name: "{name}" output_conf {{ in: "{name}_op/{output}_0" out: "out" }} }}\n')


def attr(name, kind, value):
    return f'attr {{ key: "{name}" value {{ at_{kind} {value} }} }} '


def values(*numbers):
    return "{ " + " ".join(f"val: {n}" for n in numbers) + " }"


class Types(FolderTest):
    def opc(self, *args, code=0):
        done = subprocess.run([os.path.join(BIN, "opc"), *args], capture_output=True, timeout=60, text=True)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stderr}")
        return done.stdout + done.stderr

    def graph(self, text):
        with open(self.path("g.pbtxt"), "w") as f:
            f.write(text)
        return self.path("g.pbtxt")

    def identity(self, dtype, shape):
        return self.graph(source("x", dtype, shape) + call("y", "identity", {"in": "x"}, "out"))

    def results(self, text, inputs):
        np.savez(self.path("in.npz"), **inputs)
        self.opc("run", self.graph(text), "--inputs", self.path("in.npz"), "--outputs", self.path("out.npz"), "--print", "none")
        return dict(np.load(self.path("out.npz")))

    def test_the_list_of_types(self):
        said = json.loads(self.opc("ops", "identity", "--json"))["types"]
        self.assertEqual({t["name"]: t["graph"] for t in said}, {name: graph for name, (graph, _, _) in TYPES.items()})
        self.assertEqual({t["name"]: t["bits"] for t in said}, {name: form.bits for name, (_, _, form) in TYPES.items()})
        numbers = {t["name"]: t["number"] for t in said}
        # OneFlow's numbers, and from 1000 those of types that it lacks (docs/graph-format.md).
        self.assertEqual(numbers, {"f32": 2, "f64": 3, "i8": 4, "i32": 5, "i64": 6, "u8": 7, "f16": 9, "bf16": 11, "bool": 12, "u16": 13,
                                   "u32": 14, "u64": 15, "i16": 17, **{name: 1000 + k for k, name in enumerate(STORED)}})

    def test_default_tolerances_are_those_of_the_page(self):
        said = {t["name"]: (t["rtol"], t["atol"]) for t in json.loads(self.opc("ops", "identity", "--json"))["types"]}
        with open(os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "cli.md")) as f:
            rows = dict((name, (float(rtol), float(atol))) for name, rtol, atol in re.findall(r"^\| (\w+) \| (\S+) \| (\S+) \|", f.read(), re.M)
                        if name in said)
        self.assertEqual(rows, {name: t for name, t in said.items() if t != (0, 0)})

    def test_initializers(self):
        for name, dtype in INTEGERS.items():
            info = np.iinfo(dtype)
            variable = (f'op {{ name: "w" variable_conf {{ out: "out" shape {{ dim: 500 }} data_type: {TYPES[name][0]} '
                        f'initializer {{ %s }} }} }}\n' + call("y", "identity", {"in": "w"}, "out"))
            self.opc("run", self.graph(variable % "constant_int_conf { value: 100 }"), "--expect", f"y={name}[500]:100")
            top = min(info.max, 1 << 31)
            self.opc("run", self.graph(variable % f"random_uniform_int_conf {{ min: 5 max: {min(info.max, 2**31 - 1)} }}"),
                     "--output", "y=" + self.path("w.npy"), "--print", "none")
            drawn = np.load(self.path("w.npy"))
            self.assertEqual(drawn.dtype, dtype)
            self.assertGreaterEqual(drawn.min(), 5)
            self.assertGreater(int(drawn.max()), top // 2)

    def test_numbers_in_text(self):
        for name, dtype in INTEGERS.items():
            info = np.iinfo(dtype)
            graph = self.identity(name, (4,))
            spec = f"{name}[4]:{info.min},{info.max},0,1"
            said = self.opc("run", graph, "--input", f"x={spec}", "--expect", f"y={spec}")
            self.assertIn(f"[{info.min}, {info.max}, 0, 1]", said)
            for bad in (info.min - 1, info.max + 1):
                said = self.opc("run", graph, "--input", f"x={name}[4]:1,{bad},3,4", code=2)
                self.assertIn(f"'{bad}' does not fit {name}", said)
                self.assertIn("reading number 2 of 4", said)
                self.assertIn("giving input x", said)
            self.assertIn("is not a whole number", self.opc("run", graph, "--input", f"x={name}[4]:1.5", code=2))
        for name, largest, near in (("f8e4m3fn", 448, "0.0625"), ("f8e5m2", 57344, "0.0625"), ("f8e4m3fnuz", 240, "0.0625"),
                                    ("f8e5m2fnuz", 57344, "0.0625"), ("f4e2m1", 6, "0")):
            graph = self.identity(name, (3,))
            self.assertIn(f"[{largest}, -{largest}, {near}]", self.opc("run", graph, "--input", f"x={name}[3]:{largest},-{largest},0.0624"))
            self.assertIn(f"too large for {name}", self.opc("run", graph, "--input", f"x={name}[3]:{largest + 1}", code=2))
        self.assertIn("nan", self.opc("run", self.identity("f8e4m3fn", (1,)), "--input", "x=nan"))

    def test_names_that_are_not_types(self):
        graph = self.identity("u16", (4,))
        for name in ("u17", "uin16", "f8e4m3", "float99"):
            said = self.opc("run", graph, "--input", f"x={name}[4]:1", code=2)
            self.assertIn(f"'{name}' is not an element type", said)
            self.assertIn("The types are f32, f64, f16", said)
        self.assertIn("did you mean f8e4m3fn?", self.opc("run", graph, "--input", "x=f8e4m3f[4]:1", code=2))
        self.assertIn("write u16[]:... for a scalar", self.opc("run", graph, "--input", "x=u16:70000", code=2))
        said = self.opc("compile", self.graph(source("x", "u16", (4,)).replace("kUInt16", "kUint16")), "-o", self.path("p"), code=3)
        self.assertIn("did you mean kUInt16?", said)
        cast = attr("dtype", "data_type:", "kComplex64")
        said = self.opc("compile", self.graph(source("x", "u16", (4,)) + call("y", "cast", {"in": "x"}, "out", cast)), "-o", self.path("p"), code=3)
        self.assertIn("kComplex64, which tensors cannot have", said)
        self.assertIn("kFloat8E5M2", said)

    def test_fills(self):
        for name in TYPES:
            graph = self.identity(name, (5,))
            said = self.opc("run", graph, "--input", f"x={name}[5]:iota")
            least = "5.877472e-39"  # f8e8m0 has no 0
            wrapped = {"bool": "[false, true, false, true, false]", "u2": "[0, 1, 2, 3, 0]", "i2": "[0, 1, -2, -1, 0]",
                       "f8e8m0": f"[{least}, 1, 2, 4, 4]"}
            self.assertIn(wrapped.get(name, "[0, 1, 2, 3, 4]"), said)
            for fill in ("ones", "zeros"):
                want = {"ones": "true" if name == "bool" else "1", "zeros": {"bool": "false", "f8e8m0": least}.get(name, "0")}[fill]
                self.assertIn("[" + ", ".join([want] * 5) + "]", self.opc("run", graph, "--fill", fill))
        self.opc("run", self.identity("u64", (1000,)), "--input", "x=u64[1000]:rand(0,18446744073709551615)", "--output", "y=" + self.path("y.npy"),
                 "--print", "none")
        drawn = np.load(self.path("y.npy"))
        self.assertGreater(drawn.max(), 1 << 63)
        self.assertLess(drawn.min(), 1 << 60)

    def test_stored_floats_are_no_integers(self):
        """What is drawn has fractions and signs, and JSON has numbers and words."""
        for name in STORED_FLOATS:
            graph = self.identity(name, (3,))
            given = "0.5,2,4" if name == "f8e8m0" else "0.5,-2,4" if name == "f4e2m1" else "0.5,nan,-3.5"
            said = json.loads(self.opc("run", graph, "--input", "x=" + given, "--json", "--print", "all"))
            self.assertEqual(said["outputs"][0]["values"], [v if v == "nan" else float(v) for v in given.split(",")])
            graph = self.identity(name, (50,))
            for fill in ("rand", "randn"):
                self.opc("run", graph, "--input", "x=" + fill, "--output", "y=" + self.path("y.npy"), "--print", "none")
                drawn = [TYPES[name][2].value(int(c)) for c in np.load(self.path("y.npy")).view(np.uint8)]
                self.assertTrue(any(v != "-0" and v.denominator > 1 for v in drawn), (name, fill))
                self.assertTrue(name == "f8e8m0" or any(v != "-0" and v < 0 for v in drawn), (name, fill))

    def test_constants(self):
        """Folded, as a graph file and as ONNX they keep type and value."""
        want, ops = {}, ""
        for name in STORED:
            value = 1.5 if name in STORED_FLOATS[:4] + STORED_FLOATS[5:] else 0.5 if name == "f8e8m0" else 3 if name == "u2" else -2 if name[0] == "i" else 9
            isReal = name in STORED_FLOATS
            attrs = (attr("dtype", "data_type:", TYPES[name][0]) + attr("shape", "shape", "{ dim: 3 }") + attr("is_floating_value", "bool:", str(isReal).lower())
                     + (attr("floating_value", "double:", value) if isReal else attr("integer_value", "int64:", value)))
            ops += call("c_" + name, "constant", {}, "out", attrs)
            want["c_" + name] = f"{name}[3]:{value}"
        graph = self.graph(ops)
        expected = [w for name, value in want.items() for w in ("--expect", f"{name}={value}")]
        self.opc("run", graph, *expected)
        self.opc("compile", graph, "--to", "simplify", "--emit", "pbtxt", "-o", self.path("folded.pbtxt"))
        self.opc("compile", graph, "--emit", "onnx", "-o", self.path("g.onnx"))
        for form in ("folded.pbtxt", "g.onnx"):
            self.opc("run", self.path(form), *expected)

    def test_files_of_the_new_types(self):
        for name in NEW:
            form, unsigned = TYPES[name][2], TYPES[name][1]
            count = 6
            given = [(37 * i + 1) << max(form.bits - 8, 0) & ((1 << form.bits) - 1) for i in range(count)]
            x = array(given, name).reshape(2, 3)
            graph = self.identity(name, (2, 3))
            np.save(self.path("x.npy"), x)
            self.opc("run", graph, "--input", "x=@" + self.path("x.npy"), "--output", "y=" + self.path("y.npy"), "--print", "none")
            with open(self.path("x.npy"), "rb") as a, open(self.path("y.npy"), "rb") as b:
                self.assertEqual(a.read(), b.read(), name)  # as numpy writes it, to the byte
            for end in ("npz", "safetensors", "pb", "bin"):
                out = self.path("y." + end)
                self.opc("run", graph, "--input", "x=@" + self.path("x.npy"), "--output", "y=" + out, "--print", "none")
                back = f"{name}[2,3]:@{out}" if end == "bin" else f"@{out}" + (":y" if end in ("npz", "safetensors") else "")
                self.opc("run", graph, "--input", "x=" + back, "--expect", "y=@" + self.path("x.npy"), "--print", "none")
                with open(out, "rb") as f:
                    content = f.read()
                if end == "safetensors":
                    header = json.loads(content[8:8 + struct.unpack("<Q", content[:8])[0]])
                    self.assertEqual(header["y"]["dtype"], SAFETENSORS[name])
                    self.assertEqual(content[-header["y"]["data_offsets"][1]:], packed(x, form.bits) if form.bits < 8 else x.tobytes())
                elif end == "pb":  # field 2, a varint: TensorProto.data_type
                    self.assertIn(bytes([0x10, ONNX_NUMBERS[name]]), content)
                    self.assertIn(packed(x, form.bits) if form.bits < 8 else x.tobytes(), content)
                elif end == "bin":
                    self.assertEqual(content, x.tobytes())
        graph = self.identity("f32", (2, 3))
        np.save(self.path("x.npy"), array([0] * 6, "f8e5m2").reshape(2, 3))
        said = self.opc("run", graph, "--input", "x=@" + self.path("x.npy"), code=4)
        self.assertIn("it may be " + " or ".join(STORED), said)

    def test_shape_operators_move_every_type(self):
        for name, (_, unsigned, form) in TYPES.items():
            given = [0, 1] * 6 if name == "bool" else [(29 * i + 3) << max(form.bits - 8, 0) & ((1 << form.bits) - 1) for i in range(12)]
            x = array(given, name).reshape(3, 4)
            codes = x.view(unsigned)
            text = (source("x", name, (3, 4)) + source("i", "i64", (2,)) + source("c", "bool", (3, 4)) +
                    call("transposed", "transpose", {"input": "x"}, "output", attr("perm", "list_int32", values(1, 0))) +
                    call("reshaped", "reshape", {"in": "x"}, "out", attr("shape", "shape", "{ dim: 6 dim: 2 }")) +
                    call("sliced", "slice", {"x": "x"}, "y", attr("start", "list_int64", values(0, 3)) + attr("stop", "list_int64", values(3, 0))
                         + attr("step", "list_int64", values(2, -1))) +
                    call("joined", "concat", {"in": "x x"}, "out", attr("axis", "int64:", 1)) +
                    call("gathered", "gather", {"in": "x", "indices": "i"}, "out", attr("axis", "int64:", 1)) +
                    call("flipped", "flip", {"x": "x"}, "y", attr("dims", "list_int32", values(0))) +
                    call("padded", "pad", {"x": "x"}, "y", attr("padding_before", "list_int64", values(1, 0)) + attr("padding_after", "list_int64", values(0, 2))) +
                    call("chosen", "where", {"condition": "c", "x": "x", "y": "x"}, "out"))
            inputs = {"x": x, "i": np.array([3, 0]), "c": np.eye(3, 4, dtype=bool)}
            got = self.results(text, inputs)
            want = {"transposed": codes.T, "reshaped": codes.reshape(6, 2), "sliced": codes[0:3:2, 3:0:-1], "joined": np.concatenate([codes, codes], 1),
                    "gathered": codes[:, [3, 0]], "flipped": codes[::-1], "padded": np.pad(codes, ((1, 0), (0, 2))), "chosen": codes}
            for key, expected in want.items():
                np.testing.assert_array_equal(got[key].view(unsigned), expected, f"{key} of {name}")

    def test_integers_wrap_compare_and_reduce_as_numpys(self):
        for name, dtype in INTEGERS.items():
            info = np.iinfo(dtype)
            x = np.array([info.max, info.max, info.min, 7, info.max // 2 + 2, 100], dtype)
            y = np.array([1, info.max, 1, 3, info.max // 2 + 2, 9], dtype)
            text = source("x", name, x.shape) + source("y", name, x.shape) + source("m", name, (2, 3)) + source("f", "f32", x.shape)
            binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "maximum": np.maximum, "minimum": np.minimum,
                      "greater": np.greater, "less_equal": np.less_equal, "equal": np.equal, "bitwise_and": np.bitwise_and, "bitwise_xor": np.bitwise_xor}
            for key in binary:
                text += call(key, key if key == "floordiv" else "broadcast_" + key, {"x": "x", "y": "y"}, "z")
            reductions = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}
            for key in reductions:
                text += call("reduce_" + key, "reduce_" + key, {"input_tensor": "m"}, "output_tensor", attr("axis", "list_int32", values(1)))
            text += call("sorted", "sort", {"in": "x"}, "out", attr("direction", "string:", '"ASCENDING"'))
            text += call("at", "argmax", {"in": "m"}, "out")
            text += call("summed", "cumsum", {"x": "x"}, "y", attr("dim", "int64:", 0))
            text += call("chosen", "where", {"condition": "y", "x": "f", "y": "f"}, "out")
            m = x.reshape(2, 3)
            got = self.results(text, {"x": x, "y": y, "m": m, "f": np.ones(6, np.float32)})
            with np.errstate(over="ignore"):
                for key, fn in binary.items():
                    np.testing.assert_array_equal(got[key], fn(x, y), f"{key} of {name}")
                for key, fn in reductions.items():
                    want = fn(m, axis=1) if key in ("max", "min") else fn(m, axis=1, dtype=dtype)
                    self.assertEqual(got["reduce_" + key].dtype, dtype)
                    np.testing.assert_array_equal(got["reduce_" + key], want, f"reduce_{key} of {name}")
                np.testing.assert_array_equal(got["sorted"], np.sort(x), name)
                np.testing.assert_array_equal(got["at"], np.argmax(m, axis=1), name)
                np.testing.assert_array_equal(got["summed"], np.cumsum(x, dtype=dtype), name)

    def test_what_only_stores_does_not_compute(self):
        for name in STORED:
            text = source("x", name, (4,)) + call("y", "broadcast_add", {"x": "x", "y": "x"}, "z")
            said = self.opc("compile", self.graph(text), "-o", self.path("p"), code=4)
            self.assertIn(f'no cpu kernel for "broadcast_add" with inputs {name}', said)


if __name__ == "__main__":
    unittest.main()
