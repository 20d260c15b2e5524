# Nodes that contradict themselves or the specification are refused with their place and with what was expected.
# SPDX-License-Identifier: Apache-2.0
"""Each refusal stands beside the same node without the contradiction, which runs."""
import json
import os
import subprocess
import sys
import unittest

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measured  # noqa: E402
import messages as m  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
ORT = "com.microsoft"
RANDOM = np.random.default_rng(13)
F32 = np.float32
INVALID, UNSUPPORTED = (3, "OPC0322"), (4, "OPC0422")


def uniform(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(F32)


def u8(*shape):
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return RANDOM.integers(-128, 128, shape).astype(np.int8)


def i32(values):
    return np.array(values, np.int32)


def of(value, dtype=F32):
    return np.array(value, dtype)


class Case(FolderTest):
    base = 0 # the peak of a small run

    def node(self, op, inputs, constants=(), domain="", opset=21, count=1, **attributes):
        """What `opc run` of one node, called N, does; inputs are i0, i1, ..., and initializers where `constants` has their place."""
        names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
        given = [k for k, a in enumerate(inputs) if a is not None and k not in constants]
        outputs = [f"o{k}" for k in range(count)]
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph([m.node(op, names, outputs, "N", domain, **attributes)],
                                    [m.value(names[k], inputs[k].shape, m.ELEMENT[inputs[k].dtype]) for k in given],
                                    [m.value(o, None, 0) for o in outputs], [m.tensor(names[k], inputs[k]) for k in constants]),
                            opset=opset, domains=[domain] if domain else []))
        np.savez(os.path.join(self.folder, "in.npz"), **{names[k]: inputs[k] for k in given})
        done, self.seconds, self.peak = measured.run([OPC, "run", "model.onnx", "--quiet", *(["--inputs", "in.npz"] if given else []), "--outputs", "out.npz"], self.folder)
        return done

    def runs(self, op, inputs, *rest, **more):
        done = self.node(op, inputs, *rest, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(os.path.join(self.folder, "out.npz"))["o0"]

    def refused(self, how, words, op, inputs, *rest, **more):
        done = self.node(op, inputs, *rest, **more)
        self.assertEqual(done.returncode, how[0], done.stderr)
        self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        for word in (how[1], 'model.onnx: node 0 "N"', words):
            self.assertIn(word, done.stderr)
        seconds, peak, size = self.seconds, self.peak, sum(os.path.getsize(os.path.join(self.folder, f)) for f in ("model.onnx", "in.npz"))
        if not self.base:
            self.assertEqual(self.node("Relu", [uniform(2, 3)]).returncode, 0)
            type(self).base = self.peak
        measured.is_modest(self, size, self.base, seconds, peak, f"{op}: {words}")


def changed(inputs, place, value):
    return [value if k == place else a for k, a in enumerate(inputs)]


class Groups(Case):
    """GroupQueryAttention: two sequences with eight places of past keys, and a token each."""

    def group(self, batch=2, past=8, last=(5, 2), total=6, rows=8):
        kept = [uniform(batch, 2, past, 16), uniform(batch, 2, past, 16)]
        return [uniform(2, 1, 64), uniform(2, 1, 32), uniform(2, 1, 32), *kept, i32(last), i32(total), uniform(rows, 8), uniform(rows, 8)]

    FORM = {"domain": ORT, "num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}

    def test_sizes(self):
        self.runs("GroupQueryAttention", self.group(), (6,), **self.FORM)
        for words, inputs in (("input 6 ('i6') is 2147483647", self.group(total=2**31 - 1)), ("input 6 ('i6') is 0", self.group(total=0)),
                              ("input 6 ('i6') is -1", self.group(total=-1)), ("input 6 ('i6') is i32[2]", self.group(total=(6, 6))),
                              ("input 6 ('i6') is i64[]", changed(self.group(), 6, of(6, np.int64))),
                              ("input 6 ('i6') is f32[]", changed(self.group(), 6, of(6))),
                              ("input 5 ('i5') is f32[2]", changed(self.group(), 5, of([5, 2]))),
                              ("input 5 ('i5') is i32[3]", self.group(last=(5, 2, 1))),
                              ("input 3 ('i3') is f32[1,2,8,16]", self.group(batch=1)),
                              ("input 4 ('i4') is f32[2,2,7,16]", changed(self.group(), 4, uniform(2, 2, 7, 16))),
                              ("input 7 ('i7') is f32[5,8], and must have a row for each of the 6 places", self.group(rows=5)),
                              ("input 8 ('i8') is f32[7,8]", changed(self.group(), 8, uniform(7, 8))),
                              ("input 1 ('i1') has keys of (1,2,1,16)", changed(self.group(), 1, uniform(1, 1, 32)))):
            with self.subTest(words):
                self.refused(INVALID, words, "GroupQueryAttention", inputs, (6,), **self.FORM)

    def test_places(self):
        """Known last keys are refused while importing; of others the run has an error that names the input."""
        for last, wrong in (((5, 9), 9), ((5, -1), -1), ((5, 8), 8)):
            with self.subTest(last):
                self.refused(INVALID, f"input 5 ('i5') leads to place {wrong}", "GroupQueryAttention", self.group(last=last), (5, 6), **self.FORM)
                self.refused((5, "OPC0601"), "N/i5", "GroupQueryAttention", self.group(last=last), (6,), **self.FORM)
        self.runs("GroupQueryAttention", self.group(last=(7, 0), total=8), (6,), **self.FORM)
        positions = [*self.group(), of([[5], [8]], np.int64)]
        self.refused((5, "OPC0601"), "N/i9", "GroupQueryAttention", positions, (6,), **self.FORM)
        self.refused(INVALID, "input 9 ('i9') leads to place 8", "GroupQueryAttention", positions, (6, 9), **self.FORM)

    def test_prompts(self):
        prompt = [uniform(2, 3, 64), uniform(2, 3, 32), uniform(2, 3, 32), None, None, i32([2, 1]), i32(3)]
        form = {"domain": ORT, "num_heads": 4, "kv_num_heads": 2}
        self.runs("GroupQueryAttention", prompt, (6,), **form)
        self.refused((5, "OPC0601"), "N/i5", "GroupQueryAttention", changed(prompt, 5, i32([2, 3])), (6,), **form)
        self.refused(INVALID, "input 5 ('i5') leads to place 3", "GroupQueryAttention", changed(prompt, 5, i32([2, 3])), (5, 6), **form)
        self.refused(INVALID, "input 6 ('i6') is 2", "GroupQueryAttention", changed(prompt, 6, i32(2)), (6,), **form)

    def test_attributes(self):
        for how, name, value in ((INVALID, "windows", 1), (INVALID, "do_rotary", 2), (UNSUPPORTED, "sliding_window_cache", 1),
                                 (UNSUPPORTED, "causal", 0), (UNSUPPORTED, "k_quant_type", "PER_TENSOR")):
            with self.subTest(name):
                said = "quantised keys" if name == "k_quant_type" else name
                self.refused(how, said, "GroupQueryAttention", self.group(), (6,), **{**self.FORM, name: value})


class Masks(Case):
    def test_lengths_and_ones(self):
        inputs = [uniform(2, 3, 4), uniform(4, 12), uniform(12), i32([3, 1])]
        for op, given, at in (("Attention", inputs, 3), ("MultiHeadAttention", [uniform(2, 3, 4)] * 3 + [None, i32([3, 1])], 4)):
            form = {"domain": ORT, "num_heads": 2}
            self.runs(op, given, **form)
            for mask, wrong in ((i32([3, -1]), -1), (i32([4, 1]), 4), (i32([[1, 1, 1], [1, 2, 0]]), 2), (i32([[1, 1, 1], [1, -1, 0]]), -1)):
                with self.subTest(op=op, mask=mask):
                    self.refused(INVALID, f"input {at} ('i{at}') leads to place {wrong}", op, changed(given, at, mask), (at,), **form)
                    self.refused((5, "OPC0601"), f"N/i{at}", op, changed(given, at, mask), **form)
            self.refused(INVALID, "must be of type i32", op, changed(given, at, of([3, 1])), **form)
            self.refused(UNSUPPORTED, "masks are", op, changed(given, at, i32([3, 1, 0, 0])), **form)


class Recurrent(Case):
    def test_attributes(self):
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
            inputs = [uniform(3, 2, 4), uniform(1, 3 * gates, 4), uniform(1, 3 * gates, 3)]
            whole = inputs + [None] * (5 if op == "LSTM" else 3)
            y = self.runs(op, inputs, (1, 2))
            np.testing.assert_array_equal(self.runs(op, inputs, (1, 2), clip=float("inf")), y)
            for words, more in (("'clip' is nan", {"clip": float("nan")}), ("'clip' is -1", {"clip": -1.0}), ("'layout' is 2", {"layout": 2})):
                with self.subTest(op=op, words=words):
                    self.refused(INVALID, words, op, inputs, (1, 2), **more)
            self.refused(INVALID, f"input {len(whole)} ('i{len(whole)}') is too many", op, [*whole, uniform(3)], (1, 2))
            self.refused(INVALID, "input 4 ('i4') is i64[2], and must be of type i32", op, [*inputs, None, of([3, 1], np.int64)], (1, 2))

    def test_a_gradient_that_no_file_holds(self):
        """Lengths that are an initializer: what cannot be written is said with the node that reads it."""
        nodes = [m.node("LSTM", ["x", "w", "r", "", "n"], ["y"], "tagger"), m.node("ReduceSum", ["y"], ["loss"], "sum", keepdims=0)]
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, [m.value("x", (3, 2, 4))], [m.value("loss", None, 0)],
                                    [m.tensor("w", uniform(1, 12, 4)), m.tensor("r", uniform(1, 12, 3)), m.tensor("n", i32([3, 1]))])))
        done = subprocess.run([OPC, "grad", "model.onnx", "--loss", "loss", "-o", "g.pbtxt"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r'OPC0112\]: op constant, i32\[2\], .* read by tagger \(.*model.onnx: node 0 "tagger"\)')
        self.assertIn("--weights-out FILE", done.stderr)
        kept = [OPC, "grad", "model.onnx", "--loss", "loss", "-o", "g.pbtxt", "--weights-out", "w.safetensors"]
        done = subprocess.run(kept, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        x = uniform(3, 2, 4)
        np.save(os.path.join(self.folder, "x.npy"), x)
        for what, weights in (("model.onnx", []), ("g.pbtxt", ["--weights", "w.safetensors"])):
            done = subprocess.run([OPC, "run", what, *weights, "--input", "x=@x.npy", "--outputs", what + ".out"], cwd=self.folder, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
        losses = [np.load(os.path.join(self.folder, what + ".out", "loss.npy")) for what in ("model.onnx", "g.pbtxt")]
        np.testing.assert_array_equal(*losses)


class Quantised(Case):
    def test_steps(self):
        x = [uniform(4), of(0.1), of(3, np.uint8)]
        self.runs("QuantizeLinear", x, output_dtype=2)
        self.refused(INVALID, "'output_dtype' is i8, and input 2 ('i2') is of type u8", "QuantizeLinear", x, output_dtype=3)
        self.refused(INVALID, "axis 1 of a tensor of rank 1", "QuantizeLinear", x, block_size=2)
        self.refused(INVALID, "blocks of 2 along axis 0 ask for (2)", "QuantizeLinear", x, block_size=2, axis=0)
        self.refused(INVALID, "'block_size' is -2", "QuantizeLinear", x, block_size=-2)
        self.refused(INVALID, "input 1 ('i1') is u8[], and must be of type f32", "QuantizeLinear", changed(x, 1, of(1, np.uint8)))
        q = [u8(4), of(0.1), of(3, np.uint8)]
        self.runs("DequantizeLinear", q)
        self.refused(INVALID, "input 2 ('i2') is i8[], and must be of type u8", "DequantizeLinear", changed(q, 2, of(3, np.int8)))
        self.refused(INVALID, "axis 1 of a tensor of rank 1", "DequantizeLinear", q, block_size=4)
        made = self.runs("DequantizeLinear", q, opset=23, output_dtype=11)
        self.assertEqual(made.dtype, np.float64)

    def test_convolutions(self):
        inputs = [u8(1, 2, 5, 5), of(0.1), of(3, np.uint8), i8(3, 2, 3, 3), of(0.1), of(0, np.int8), of(0.2), of(1, np.uint8), i32([1, 2, 3])]
        self.runs("QLinearConv", inputs)
        for at, wrong, expected in ((0, uniform(1, 2, 5, 5), "type u8 or i8"), (1, i32(1), "type f32"), (1, of([0.1, 0.2]), "one number"),
                                    (1, of(0.1, np.float64), "type f32"), (2, of(3, np.int8), "type u8"), (3, i32(np.ones((3, 2, 3, 3))), "type u8 or i8"),
                                    (4, of(1, np.int64), "type f32"), (5, of(0, np.uint8), "type i8"), (6, of([0.1] * 3), "one number"),
                                    (7, i32(1), "type u8 or i8"), (8, uniform(3), "type i32")):
            with self.subTest(at=at, expected=expected):
                self.refused(INVALID, f"input {at} ('i{at}') is", "QLinearConv", changed(inputs, at, wrong))
                self.refused(INVALID, "must be " + ("of " if "type" in expected else "") + expected, "QLinearConv", changed(inputs, at, wrong))
        plain = [u8(1, 2, 5, 5), i8(3, 2, 3, 3), of(3, np.uint8), of(0, np.int8)]
        self.runs("ConvInteger", plain)
        self.refused(INVALID, "input 2 ('i2') is i8[]", "ConvInteger", changed(plain, 2, of(3, np.int8)))
        self.refused(INVALID, "input 1 ('i1') is i32[3,2,3,3]", "ConvInteger", changed(plain, 1, i32(np.ones((3, 2, 3, 3)))))

    def test_products(self):
        """Zero points of rows and columns in the two forms that the specification has."""
        a, b, rows, columns = u8(2, 4, 6), i8(2, 6, 5), u8(4), i8(5)
        want = (a.astype(int) - rows.reshape(4, 1)) @ (b.astype(int) - columns.astype(int))
        for za, zb in ((rows, columns), (rows.reshape(4, 1), columns.reshape(1, 5)), (rows.reshape(1, 4, 1), columns.reshape(1, 1, 5))):
            np.testing.assert_array_equal(self.runs("MatMulInteger", [a, b, za, zb]), want)
        self.refused(UNSUPPORTED, "input 3 ('i3') is i8[2,1,5]; it can be one number or one for each column", "MatMulInteger", [a, b, rows, i8(2, 1, 5)])
        self.refused(UNSUPPORTED, "input 2 ('i2') is u8[1,4]; it can be one number or one for each row", "MatMulInteger", [a, b, rows.reshape(1, 4), columns])
        self.refused(INVALID, "expected one number or a vector of 5, one for each column", "MatMulInteger", [a, b, rows, i8(4)])
        self.refused(INVALID, "input 2 ('i2') is i8[4], and must be of type u8", "MatMulInteger", [a, b, i8(4), columns])
        q = [u8(4, 6), of(0.1), of(3, np.uint8), i8(6, 5), of(0.1), of(3, np.int8), of(0.2), of(7, np.uint8)]
        self.runs("QLinearMatMul", q)
        self.runs("QLinearMatMul", changed(changed(q, 1, np.abs(uniform(4, 1))), 4, np.abs(uniform(1, 5))))
        self.refused(UNSUPPORTED, "input 6 ('i6') is f32[4]", "QLinearMatMul", changed(q, 6, uniform(4)))
        for at, wrong in ((1, i32(1)), (2, of(1, np.int8)), (7, i32(1))):
            self.refused(INVALID, f"input {at} ('i{at}') is", "QLinearMatMul", changed(q, at, wrong))

    def test_packed_weights(self):
        inputs, form = [uniform(3, 32), u8(5, 2, 8), uniform(5, 2), None, None, uniform(5)], {"domain": ORT, "K": 32, "N": 5, "bits": 4, "block_size": 16}
        self.runs("MatMulNBits", inputs, **form)
        for at, wrong, words in ((0, uniform(3, 31), "'K' is 32"), (1, i8(5, 2, 8), "must be of type u8"), (2, uniform(5, 2).astype(np.float64), "must be of type f32"),
                                 (3, i32(8), "must be of type u8 or f32"), (5, uniform(1), "biases have shape (5)"), (5, uniform(3, 1), "biases have shape (5)")):
            with self.subTest(at=at, words=words):
                self.refused(INVALID, words, "MatMulNBits", changed(inputs, at, wrong), **form)
        for how, name, value in ((INVALID, "block", 2), (INVALID, "block_size", 2), (INVALID, "block_size", 24), (UNSUPPORTED, "weight_prepacked", 1)):
            self.refused(how, name, "MatMulNBits", inputs, **{**form, name: value})

    def test_ops_of_onnx_runtime(self):
        inputs = [u8(3, 4), of(0.1), of(3, np.uint8), u8(3, 4), of(0.2), of(4, np.uint8), of(0.3), of(5, np.uint8)]
        self.runs("QLinearAdd", inputs, domain=ORT)
        for at, wrong in ((1, uniform(4)), (1, i32(1)), (2, of(3, np.int8)), (6, uniform(4)), (7, of(3, np.int8)), (0, uniform(3, 4))):
            self.refused(INVALID, f"input {at} ('i{at}') is", "QLinearAdd", changed(inputs, at, wrong), domain=ORT)
        self.refused(INVALID, "it has no attribute 'axis'", "QLinearAdd", inputs, domain=ORT, axis=1)


class OtherSets(Case):
    """What an op has in other operator sets alone, and would be passed over in this one: the form of the node's own set runs."""

    def test_attributes(self):
        x, axis = uniform(2, 3), of([1], np.int64)
        for op, own, last, form, inputs in (("ReduceMean", 18, 17, {"axes": [1]}, [x, axis]), ("ReduceSum", 13, 12, {"axes": [1]}, [x, axis]), ("ReduceL1", 20, 17, {"axes": [1]}, [x, axis]),
                                            ("Clip", 11, 10, {"min": 0.25}, [x, of(0.25)]), ("Squeeze", 13, 12, {"axes": [1]}, [x[:, :1], axis]),
                                            ("Dropout", 12, 11, {"ratio": 0.25}, [x, of(0.25)]), ("Pad", 11, 10, {"pads": [0, 1, 0, 1]}, [x, of([0, 1, 0, 1], np.int64)]),
                                            ("Slice", 10, 9, {"starts": [1], "ends": [2]}, [x, axis, axis + 1]), ("TopK", 10, 9, {"k": 1}, [x, axis])):
            with self.subTest(op=op):
                old, new = self.runs(op, inputs[:1], opset=last, **form), self.runs(op, inputs, range(1, len(inputs)), opset=own)
                np.testing.assert_array_equal(old, new)
                name = next(iter(form)) if op != "Slice" else "ends"
                self.refused(INVALID, f"attribute '{name}' is one of operator sets up to {last}, and the node is of set {own}", op, inputs[:1], opset=own, **form)
        self.runs("Add", [x, uniform(2)], opset=6, broadcast=1, axis=0)
        self.refused(INVALID, "attribute 'axis' is one of operator sets up to 6, and the node is of set 7", "Add", [x, uniform(3)], opset=7, axis=1)
        self.refused(INVALID, "attribute 'split' is one of operator sets up to 12", "Split", [x], opset=13, count=2, axis=1, split=[1, 2])
        for op, first, form, more in (("Reshape", 14, {"allowzero": 1}, [of([3, 2], np.int64)]), ("Cast", 19, {"saturate": 0}, []), ("Shape", 15, {"start": 1}, []),
                                      ("ArgMax", 12, {"select_last_index": 1}, []), ("ReduceMax", 18, {"noop_with_empty_axes": 1}, [])):
            needed = {"to": 10} if op == "Cast" else {}
            self.runs(op, [x, *more], range(1, 1 + len(more)), opset=first, **form, **needed)
            for opset in (first - 1, 13 if first == 14 else 11 if first == 12 else 13):
                self.refused(INVALID, f"opset_version={first} or a later one", op, [x, *more], range(1, 1 + len(more)), opset=opset, **form, **needed)

    def test_inputs(self):
        x, axis = uniform(2, 3), of([1], np.int64)
        for op, first, inputs in (("ReduceMean", 18, [x, axis]), ("ReduceSum", 13, [x, axis]), ("Clip", 11, [x, of(0.25)]), ("Squeeze", 13, [x[:, :1], axis]),
                                  ("Slice", 10, [x, axis, axis + 1]), ("Pad", 18, [x, of([1, 1], np.int64), of(2.0), axis])):
            with self.subTest(op=op):
                self.runs(op, inputs, range(1, len(inputs)), opset=first)
                most = 3 if op == "Pad" else 1
                self.refused(INVALID, f"input {most} ('i{most}') is too many: the op has at most {most} input{'s' if most > 1 else ''} in operator set {first - 1}", op, inputs,
                             range(1, len(inputs)), opset=first - 1)
        statistics = [uniform(3), uniform(3), uniform(3), np.abs(uniform(3))]
        self.refused(INVALID, "output 3 ('o3') is too many: the op has at most 3 outputs", "BatchNormalization", [x, *statistics], opset=15, count=5, training_mode=1)

    def test_values_of_a_constant(self):
        self.assertEqual(self.runs("Constant", [], opset=12, value_int=3), 3)
        self.refused(INVALID, "it has 2 attributes, and a constant has one", "Constant", [], opset=12, value_int=3, value_float=2.0)
        self.refused(INVALID, "attribute 'value_int' is one of operator set 12 on", "Constant", [], opset=11, value_int=3)

    def test_all_that_onnx_lists(self):
        """The attributes of each version of each op, as the installed package of ONNX has them."""
        try:
            from onnx import defs
        except ImportError:
            self.skipTest("the package onnx is not installed")
        versions = {}
        for schema in defs.get_all_schemas_with_history():
            if schema.domain == "" and not schema.deprecated:
                versions.setdefault(schema.name, {})[schema.since_version] = schema
        values = {"FLOAT": 1.0, "INT": 1, "STRING": "NOTSET", "FLOATS": [1.0], "INTS": [1]}
        lenient = {"consumed_inputs", "output_sequence"}  # say nothing of the result, and old exporters write them
        wrong, asked = [], 0
        for op, known in versions.items():
            every = {name: a for schema in known.values() for name, a in schema.attributes.items()}
            for version, schema in known.items():
                for name in every.keys() - schema.attributes.keys() - lenient:
                    kind = str(every[name].type).split(".")[-1]
                    if kind not in values:
                        continue
                    asked += 1
                    inputs = [uniform(2, 3)] * schema.min_input
                    done = self.node(op, inputs, opset=version, **{name: values[kind]})
                    if f"attribute '{name}' is one of operator set" not in done.stderr:
                        wrong.append((op, version, name, done.stderr))
        self.assertGreater(asked, 100)
        self.assertEqual(wrong, [])


class Functions(Case):
    def called(self, nodes, inputs=("a",), attributes=(), **given):
        """What `opc run` says of a call of a function of the model, of two inputs at most."""
        x = np.array([[-1, 2, -3]], F32)
        function = (m.field(1, "F") + b"".join(m.field(4, i) for i in inputs) + m.field(5, "b") + b"".join(m.field(6, a) for a in attributes) + b"".join(m.field(7, n) for n in nodes) +
                    m.field(9, m.field(2, 17)) + m.field(10, "local"))
        reads = given.pop("reads", ["x"])
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph([m.node("F", reads, ["y"], "N", "local", **given)], [m.value("x", x.shape)], [m.value("y", x.shape)]), functions=[function], domains=["local"]))
        np.savez(os.path.join(self.folder, "in.npz"), x=x)
        done, *_ = measured.run([OPC, "run", "model.onnx", "--quiet", "--inputs", "in.npz", "--outputs", "out.npz"], self.folder)
        return done

    def said(self, done, code, words):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("error["), 1, done.stderr)
        for word in ('node 0 "N"', words):
            self.assertIn(word, done.stderr)

    def test_what_a_call_gives(self):
        relu = [m.node("Relu", ["a"], ["b"])]
        self.assertEqual(self.called(relu).returncode, 0)
        self.assertEqual(self.called(relu, attributes=["alpha"], alpha=2.0).returncode, 0)
        self.said(self.called(relu, reads=["x", "x"]), 3, "F: input 1 is too many: the function has at most 1 input")
        self.said(self.called(relu, attributes=["alpha"], alhpa=2.0), 3, "F: the function has no attribute 'alhpa'")

    def test_what_fails_is_said_once(self):
        """What reads the result of a node that fails is not at fault, in a function as little as in the model's own graph."""
        self.said(self.called([m.node("MatMul", ["a", "a"], ["t"]), m.node("Relu", ["t"], ["b"])]), 3, "MatMul: a matrix of 3 columns times one of 1 rows")
        self.said(self.called([m.node("Fancy", ["a"], ["t"]), m.node("Relu", ["t"], ["b"])]), 4, "the model has 1 op that opc does not import: Fancy (version 17): 1 node")
        self.assertEqual(self.called([m.node("Clip", ["a", "low"], ["b"])], inputs=("a", "low")).returncode, 0)  # one that is left out is no failure


FLAGS = {"ArgMax": ("keepdims", "select_last_index"), "ReduceSum": ("keepdims", "noop_with_empty_axes"), "ReduceMax": ("keepdims",),
         "IsInf": ("detect_negative", "detect_positive")}


class Words(Case):
    """Attributes that have few values; the nodes run with each of them."""

    def each(self, op, inputs, constants, attribute, good, bad, **more):
        for value in good:
            with self.subTest(op=op, attribute=attribute, value=value):
                self.runs(op, inputs, constants, **{**more, attribute: value})
        for value in bad:
            with self.subTest(op=op, attribute=attribute, value=value):
                said = f"'{value}'" if isinstance(value, str) else value
                self.refused(INVALID, f"attribute '{attribute}' is {said}, and must be ", op, inputs, constants, **{**more, attribute: value})

    def test_resize(self):
        inputs, wrong = [uniform(1, 1, 4, 4), None, of([1, 1, 2.5, 2.5])], ("HALF_PIXEL", "half", "")
        self.each("Resize", inputs, (2,), "mode", ("nearest", "linear", "cubic"), ("bilinear", "area"))
        self.each("Resize", inputs, (2,), "nearest_mode", ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"), ("round", "simple"))
        self.each("Resize", inputs, (2,), "coordinate_transformation_mode",
                  ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"), wrong)
        self.each("Resize", inputs, (2,), "antialias", (0, 1), (2, -1), mode="linear")
        self.each("Resize", inputs, (2,), "exclude_outside", (0, 1), (2,), mode="cubic")
        sizes = [inputs[0], None, None, of([1, 1, 8, 6], np.int64)]
        self.each("Resize", sizes, (3,), "keep_aspect_ratio_policy", ("stretch", "not_larger", "not_smaller"), ("larger",))
        self.refused(INVALID, "one of them is wanted", "Resize", [*inputs, sizes[3]], (2, 3))
        self.refused(INVALID, "axis -2 is given twice", "Resize", [inputs[0], None, of([2.0, 2.0])], (2,), axes=[2, -2])

    def test_images(self):
        x = uniform(1, 2, 5, 5)
        for op in ("MaxPool", "AveragePool"):
            self.each(op, [x], (), "ceil_mode", (0, 1), (2, -1), kernel_shape=[2, 2], strides=[2, 2])
            self.each(op, [x], (), "auto_pad", ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"), ("SAME", "valid"), kernel_shape=[2, 2])
        self.each("AveragePool", [x], (), "count_include_pad", (0, 1), (2,), kernel_shape=[2, 2], pads=[1, 1, 1, 1])
        for p in (0, -2):
            self.refused(INVALID, f"'p' is {p}", "LpPool", [x], kernel_shape=[2, 2], p=p)
            self.refused(INVALID, f"'p' is {p}", "GlobalLpPool", [x], p=p)
        grid = uniform(1, 3, 3, 2)
        self.each("GridSample", [x, grid], (), "mode", ("linear", "nearest", "cubic"), ("area",))
        self.each("GridSample", [x, grid], (), "padding_mode", ("zeros", "border", "reflection"), ("wrap",))
        self.each("GridSample", [x, grid], (), "align_corners", (0, 1), (2,))
        self.each("Pad", [x, of([0, 0, 1, 1, 0, 0, 1, 1], np.int64)], (1,), "mode", ("constant", "edge", "reflect", "wrap"), ("symmetric",))
        self.each("DepthToSpace", [uniform(1, 4, 2, 2)], (), "mode", ("DCR", "CRD"), ("RDC",), blocksize=2)
        rois = [uniform(1, 1, 4, 4), of([[0, 0, 3, 3]]), of([0], np.int64)]
        self.each("RoiAlign", rois, (), "coordinate_transformation_mode", ("half_pixel", "output_half_pixel"), ("half",), sampling_ratio=2)
        self.refused(INVALID, "'output_padding' has -1", "ConvTranspose", [uniform(1, 2, 4, 4), uniform(2, 3, 3, 3)], (1,), output_padding=[-1, 0])

    def test_flags(self):
        x = uniform(3, 4)
        for op, names in FLAGS.items():
            for name in names:
                self.each(op, [x], (), name, (0, 1), (2, -1))
        axis = of(1, np.int64)
        for op in ("CumSum",):
            self.each(op, [x, axis], (1,), "exclusive", (0, 1), (2,))
            self.each(op, [x, axis], (1,), "reverse", (0, 1), (2,))
        self.each("Trilu", [x], (), "upper", (0, 1), (2,))
        self.each("TopK", [x, of([2], np.int64)], (1,), "largest", (0, 1), (2,), count=2)
        self.each("TopK", [x, of([2], np.int64)], (1,), "sorted", (0, 1), (2,), count=2)
        self.each("Mod", [x, np.abs(uniform(3, 4)) + 1], (), "fmod", (1,), (2,))
        self.each("Gemm", [uniform(3, 3), uniform(3, 3)], (), "transA", (0, 1), (2,))
        self.each("Gemm", [uniform(3, 3), uniform(3, 3)], (), "transB", (0, 1), (-1,))
        self.each("Reshape", [x, of([4, 3], np.int64)], (1,), "allowzero", (0, 1), (2,))
        self.each("Cast", [x], (), "saturate", (0, 1), (2,), to=6)
        self.each("Gelu", [x], (), "approximate", ("none", "tanh"), ("erf",))
        self.each("LpNormalization", [x], (), "p", (1, 2), (3,))
        self.each("BitShift", [u8(3), u8(3) % 8], (), "direction", ("LEFT", "RIGHT"), ("left",))
        self.each("ReverseSequence", [x, of([3, 2, 1, 3], np.int64)], (), "batch_axis", (1,), (2, -1), time_axis=0)
        logs, target = uniform(3, 4), of([0, 3, 1], np.int64)
        self.each("SoftmaxCrossEntropyLoss", [logs, target], (), "reduction", ("none", "sum", "mean"), ("max",))

    def test_saturation(self):
        """An 8-bit float without saturation holds infinity, or NaN where it has none; PyTorch 2 and the specification say so."""
        x = of([1e6, -1e6, 1.0])
        for to, large in ((17, np.nan), (19, np.inf)):
            node = [m.node("Cast", ["x"], ["q"], to=to, saturate=0), m.node("Cast", ["q"], ["y"], to=1)]
            with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
                f.write(m.model(m.graph(node, [m.value("x", (3,))], [m.value("y", None, 0)]), opset=19))
            np.save(os.path.join(self.folder, "x.npy"), x)
            done = subprocess.run([OPC, "run", "model.onnx", "--quiet", "--input", "x=@x.npy", "--output", "y=y.npy"], cwd=self.folder, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_array_equal(np.abs(np.load(os.path.join(self.folder, "y.npy"))), [large, large, 1])


class Stretched(Case):
    """Operands that broadcast to another one and must not enlarge it."""

    def test_operands(self):
        x, wide = uniform(3, 4), uniform(2, 3, 4)
        for op, inputs, at in (("PRelu", [x, uniform(4)], 1), ("Gemm", [x, uniform(4, 5), uniform(5)], 2), ("LayerNormalization", [x, uniform(4)], 1),
                               ("RMSNormalization", [x, uniform(4)], 1)):
            with self.subTest(op=op):
                self.runs(op, inputs, opset=23)
                self.refused(INVALID, f"input {at} ('i{at}') is f32[2,3,", op, changed(inputs, at, uniform(2, 3, inputs[at].shape[-1])), opset=23)
        for op in ("FastGelu", "BiasGelu"):
            self.runs(op, [x, uniform(4)], domain=ORT)
            self.refused(INVALID, "must broadcast to (3,4)", op, [x, wide], domain=ORT)
        self.refused(INVALID, "must broadcast to (3,4)", "PRelu", [x, uniform(3)], ())

    def test_losses_and_slices(self):
        self.runs("NegativeLogLikelihoodLoss", [uniform(3, 4), of([0, 3, 1], np.int64), uniform(4)])
        self.refused(INVALID, "for 4 classes", "NegativeLogLikelihoodLoss", [uniform(3, 4), of([0, 3, 1], np.int64), uniform(5)])
        inputs = [uniform(4, 2), of([[1], [3], [0]], np.int64), uniform(3, 2)]
        for reduction in ("none", "add", "mul", "max", "min"):
            self.runs("ScatterND", inputs, reduction=reduction)
        self.refused(INVALID, "input 2 ('i2') is f32[2,3], and the slices that the indices name have shape (3,2)", "ScatterND",
                     changed(inputs, 2, uniform(2, 3)), reduction="max")


class Numbers(Case):
    def test_dropout(self):
        x = uniform(3, 4)
        for opset, given in ((7, {"ratio": 0.5}), (13, {})):
            self.runs("Dropout", [x], opset=opset, **given)
        for ratio in (-1.0, float("nan"), 1.5):
            with self.subTest(ratio=ratio):
                self.refused(INVALID, "its ratio is ", "Dropout", [x], opset=7, ratio=ratio)
                self.refused(INVALID, "its ratio is ", "Dropout", [x, of(ratio)], (1,), opset=13)
                self.refused(INVALID, "its ratio is ", "Dropout", [x, of(ratio), of(True, bool)], (1, 2), opset=13)

    def test_pieces(self):
        x = uniform(7, 2)
        sizes = of([4, 3], np.int64)
        for opset, inputs, constants, more in ((13, [x, sizes], (1,), {}), (18, [x, sizes], (1,), {}), (18, [x], (), {"num_outputs": 2}), (18, [x, sizes], (1,), {"num_outputs": 2})):
            np.testing.assert_array_equal(self.runs("Split", inputs, constants, opset=opset, count=2, **more), x[:4])
            self.refused(INVALID, "it makes 2 pieces, and has 3 outputs", "Split", inputs, constants, opset=opset, count=3, **more)
            self.refused(INVALID, "it makes 2 pieces, and has 1 output", "Split", inputs, constants, opset=opset, count=1, **more)
        self.refused(INVALID, "'num_outputs' is 3, and input 1 ('i1') has 2 sizes", "Split", [x, sizes], (1,), opset=18, count=2, num_outputs=3)
        self.refused(INVALID, "7 elements, which do not make 2 equal pieces", "Split", [x], opset=13, count=2)
        self.refused(INVALID, "pieces of 6 elements in all", "SplitToSequence", [x, of([4, 2], np.int64)], (1,))

    def test_one_number(self):
        """What is one number is not none and not two."""
        x = uniform(3, 4)
        for op, inputs, at, more in (("TopK", [x, of([2], np.int64)], 1, {"count": 2}), ("Trilu", [x, of(1, np.int64)], 1, {}), ("CumSum", [x, of(1, np.int64)], 1, {}),
                                     ("OneHot", [of([1, 0], np.int64), of(3, np.int64), of([0.0, 1.0])], 1, {}), ("Range", [of(0, np.int64), of(4, np.int64), of(1, np.int64)], 1, {}),
                                     ("HannWindow", [of(4, np.int64)], 0, {}), ("Dropout", [x, of(0.5), of(False, bool)], 2, {}), ("Pad", [x, of([0, 1, 0, 1], np.int64), of(2.0)], 2, {})):
            self.runs(op, inputs, tuple(range(len(inputs)))[1:] if op not in ("Range", "HannWindow") else tuple(range(len(inputs))), **more)
            for wrong in (np.zeros((0,), inputs[at].dtype), np.zeros((2,), inputs[at].dtype)):
                with self.subTest(op=op, shape=wrong.shape):
                    self.refused(INVALID, "and must be one number", op, changed(inputs, at, wrong),
                                 tuple(range(len(inputs)))[1:] if op not in ("Range", "HannWindow") else tuple(range(len(inputs))), **more)
        self.refused(INVALID, "a range whose input 1 ('i1') is nan", "Range", [of(0.0), of(np.nan), of(1.0)], (0, 1, 2))
        boxes, scores = of([[[0, 0, 1, 1], [0, 0, 1, 1]]]), of([[[0.5, 0.25]]])
        most = of([2], np.int64)
        self.runs("NonMaxSuppression", [boxes, scores, most, of([0.5])], (0, 1, 2, 3))
        for limit in (-0.5, 1.5, np.nan):
            self.refused(INVALID, "must be from 0 to 1", "NonMaxSuppression", [boxes, scores, most, of([limit])], (0, 1, 2, 3))

    def test_counts(self):
        """TopK of more elements than there are, known or of the run."""
        x = uniform(2, 3)
        self.runs("TopK", [x, np.array([3])], (1,), count=2)
        self.refused(INVALID, "TopK: input 1 ('i1') is 4, and axis 1 of f32[2,3] has 3 elements", "TopK", [x, np.array([4])], (1,), count=2)
        self.refused(INVALID, "k is from 0 to 2", "TopK", [x, np.array([3])], (1,), count=2, axis=0)
        self.refused(INVALID, "attribute 'k' is 5, and axis 1", "TopK", [x], count=2, opset=9, k=5)

    def test_axes(self):
        x = uniform(3, 4)
        one = of([1, 1], np.int64)
        self.runs("Pad", [x, of([1, 0, 0, 1], np.int64), None, of([1, 0], np.int64)], (1, 3))
        self.refused(INVALID, "axis -1 is given twice", "Pad", [x, of([1, 0, 0, 1], np.int64), None, of([1, -1], np.int64)], (1, 3))
        self.refused(INVALID, "axis 1 is given twice", "Slice", [x, one * 0, one, one], (1, 2, 3))
        self.refused(INVALID, "axis 1 is given twice", "CenterCropPad", [x, one], (1,), axes=[1, 1])

    def test_attention(self):
        q = uniform(1, 2, 3, 8)
        plain = self.runs("Attention", [q, q, q], opset=23)
        for precision, limit in ((1, 0), (11, 1e-6), (10, 5e-3), (16, 5e-2)):
            made = self.runs("Attention", [q, q, q], opset=23, softmax_precision=precision)
            np.testing.assert_allclose(made, plain, atol=limit)
        self.refused(INVALID, "'softmax_precision' is 7, and must be 1, 10, 11 or 16", "Attention", [q, q, q], opset=23, softmax_precision=7)
        self.refused(INVALID, "'softcap' is -1", "Attention", [q, q, q], opset=23, softcap=-1.0)
        self.refused(INVALID, "'softcap' is nan", "Attention", [q, q, q], opset=23, softcap=float("nan"))
        self.refused(INVALID, "'is_causal' is 2", "Attention", [q, q, q], opset=23, is_causal=2)
        self.refused(INVALID, "a mask of (4,1,3,3) for (1,2,3,3) scores", "Attention", [q, q, q, uniform(4, 1, 3, 3)], opset=23)
        cosine, places = uniform(5, 4), of([[0, 1, 2]], np.int64)
        self.runs("RotaryEmbedding", [q, cosine, uniform(5, 4), places], opset=23)
        for sine in (uniform(6, 4), uniform(5, 3)):
            self.refused(INVALID, "cosines of (5,4) and sines of ", "RotaryEmbedding", [q, cosine, sine, places], opset=23)
        self.refused(INVALID, "cosines and sines of (2,3,4)", "RotaryEmbedding", [q, cosine, cosine, of([[0, 1, 2]] * 2, np.int64)], opset=23)
        self.refused(INVALID, "cosines of (5,4) and sines of (6,4)", "RotaryEmbedding", [q, of([0], np.int64), cosine, uniform(6, 4)], domain=ORT)


class Others(Case):
    def test_bits(self):
        for how, words, x, to in ((INVALID, "dtype i64 has 8 bytes, and in is f32[2], of 4", uniform(2), 7), (INVALID, "dtype is bool", u8(2), 9),
                                  (UNSUPPORTED, "element type 8", uniform(2), 8)):
            self.refused(how, words, "BitCast", [x], opset=26, to=to)

    def test_reductions(self):
        inputs = [uniform(3), of([0, 2], np.int64), uniform(2)]
        self.runs("ScatterElements", inputs, reduction="max")
        self.refused(INVALID, "'reduction' is 'mean', and must be none, add, mul, max or min", "ScatterElements", inputs, reduction="mean")

    def test_inputs_that_ops_do_not_have(self):
        for op, most in (("Relu", 1), ("Add", 2), ("Conv", 3)):
            self.refused(INVALID, f"the op has at most {most} input", op, [uniform(1, 2, 3, 3)] * (most + 1))

    def written(self, nodes, opset=17, output="y"):
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph(nodes, [m.value("x", (1, 2, 3, 3))], [m.value(output)]), opset=opset))
        return subprocess.run([OPC, "show", "model.onnx"], cwd=self.folder, capture_output=True, text=True)

    def test_outputs_that_ops_do_not_have(self):
        """onnx.checker and ONNX Runtime refuse them, read or not; trailing ones without a name are none."""
        for op, most in (("Relu", 1), ("MaxPool", 2), ("TopK", 2)):
            inputs = [uniform(1, 2, 3, 3), of([1], np.int64)][: 1 + (op == "TopK")]
            self.refused(INVALID, f"{op}: output {most} ('o{most}') is too many: the op has at most {most} output", op, inputs, (1,) if op == "TopK" else (), count=most + 1,
                         **({"kernel_shape": [1, 1]} if op == "MaxPool" else {}))
        for nodes in ([m.node("Relu", ["x"], ["h", "z"], "N"), m.node("Neg", ["z"], ["y"])], [m.node("Relu", ["x"], ["y", "z"], "N")]):
            done = self.written(nodes)
            self.assertEqual((done.returncode, done.stderr.count("error[")), (3, 1), done.stderr)
            for word in ("OPC0322", 'node 0 "N"', "output 1 ('z') is too many: the op has at most 1 output"):
                self.assertIn(word, done.stderr)
        self.assertEqual(self.written([m.node("Relu", ["x"], ["y", "", ""])]).returncode, 0)
        constant = [m.node("Constant", [], ["c", "z"], "N", value_float=1.0), m.node("Add", ["x", "c"], ["y"])]
        done = self.written(constant)
        self.assertEqual((done.returncode, done.stderr.count("error[")), (3, 1), done.stderr)
        self.assertIn("Constant: output 1 ('z') is too many", done.stderr)
        scores = m.graph([m.node("MultiHeadAttention", ["x", "x", "x"], ["a", "", "", "s"], "N", ORT, num_heads=2), m.node("Neg", ["s"], ["y"])], [m.value("x", (1, 2, 8))], [m.value("y")])
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:  # an output that the op has and opc does not give
            f.write(m.model(scores, domains=[ORT]))
        done = subprocess.run([OPC, "show", "model.onnx"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("error[")), (4, 1), done.stderr)
        for word in ("OPC0422", 'node 0 "N"', "MultiHeadAttention: output 3 ('s') is read, and opc does not give it"):
            self.assertIn(word, done.stderr)
        function = m.field(1, "F") + m.field(4, "a") + m.field(5, "b") + m.field(7, m.node("Neg", ["a"], ["b"])) + m.field(10, "l")
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(m.model(m.graph([m.node("F", ["x"], ["y", "z"], "N", domain="l")], [m.value("x", (2,))], [m.value("y")]), functions=[function], domains=["l"]))
        done = subprocess.run([OPC, "show", "model.onnx"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("error[")), (3, 1), done.stderr)
        self.assertIn("F: output 1 ('z') is too many", done.stderr)

    def test_operator_sets(self):
        """The sets are those of ONNX's Changelog.md."""
        x = uniform(2, 3, 4)
        ops = (("Gelu", [x], 20, {}), ("HardSwish", [x], 14, {}), ("Mish", [x], 18, {}), ("BitwiseNot", [u8(3)], 18, {}), ("Trilu", [x], 14, {}), ("Einsum", [x], 12, {"equation": "ijk->k"}),
               ("IsNaN", [x], 9, {}), ("Swish", [x], 24, {}), ("CastLike", [x, u8(1)], 15, {}))
        for op, inputs, first, attributes in ops:
            with self.subTest(op):
                self.runs(op, inputs, opset=first, **attributes)
                self.refused(INVALID, f"{op}: the op exists from operator set {first} on, and the node is of set {first - 1}", op, inputs, opset=first - 1, **attributes)
        # ONNX Runtime's optimizer writes these into models of any set.
        self.runs("LayerNormalization", [x, uniform(4)], opset=11)
        listed = json.loads(subprocess.run([OPC, "__commands"], capture_output=True, text=True, check=True).stdout)["onnx_ops"]
        versions = {(o["domain"], o["op"]): o["versions"] for o in listed}
        for op, published in (("Add", [1, 6, 7, 13, 14]), ("Resize", [10, 11, 13, 18, 19]), ("Gelu", [20]), ("Attention", [23, 24, 25]), ("TopK", [1, 10, 11, 24]), ("Loop", [1, 11, 13, 16, 19, 21, 23, 24, 25])):
            self.assertEqual(versions["", op], published, op)
        for key, sets in versions.items():
            self.assertTrue(sets and sets == sorted(set(sets)) and 1 <= sets[0] and sets[-1] <= 28, key)


if __name__ == "__main__":
    unittest.main()
