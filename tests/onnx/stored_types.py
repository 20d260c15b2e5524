# Types that are only stored, in ONNX models: floats of a byte and less, integers of 4 and 2 bits. They are given, moved, cast,
# quantised to, and come out, as files of ONNX hold them. Expected are the definitions in exact fractions (float_formats).
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import sys
import unittest
from fractions import Fraction

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "cli")]
import messages as m  # noqa: E402
from float_formats import STORED, STORED_FLOATS, TYPES, Integer  # noqa: E402

spec = importlib.util.spec_from_file_location("onnx_import", os.path.join(HERE, "import.py"))
onnx_import = importlib.util.module_from_spec(spec)
spec.loader.exec_module(onnx_import)
F32 = np.float32
NUMBERS = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19,
           "f8e5m2fnuz": 20, "u4": 21, "i4": 22, "f4e2m1": 23, "f8e8m0": 24, "u2": 25, "i2": 26}
WHOLE = STORED[6:]
# What ONNX's own cases of Cast convert, and what lies beside it.
NEAR = [0.0, 0.47892547, 0.48033667, 0.49968487, 0.81910545, 0.7229038, 1e6, 1e-7, float("nan"), float("inf"), float("-inf"), -1e-7, -1e6, 0.25, 1.05,
        -3.5, -8.0, 9.0, -4.0, 0.01, -0.0, 448.0, 464.0, 0.5, 1.5, 2.5, -0.5, 3.0, 7.0, 5.0]


def exact(value):
    """A number as float_formats has it."""
    value = float(value)
    if value != value:
        return "nan"
    return ("inf" if value > 0 else "-inf") if abs(value) == float("inf") else "-0" if value == 0 and np.signbit(value) else Fraction(value)


def number(value):
    return float(value) if not isinstance(value, str) else {"-0": -0.0}.get(value, float(value))


def bits_of(codes, kind):
    width = TYPES[kind][2].bits
    out = bytearray((len(codes) * width + 7) // 8)
    for k, c in enumerate(codes):
        for b in range(0, width, 8):
            at = k * width + b
            out[at // 8] |= (int(c) >> b & (1 << min(width, 8)) - 1) << at % 8
    return bytes(out)


def tensor(name, kind, codes, shape):
    return b"".join(m.field(1, d) for d in shape) + m.field(2, NUMBERS[kind]) + m.field(8, name) + m.field(9, bits_of(codes, kind))


def codes_of(numbers, kind):
    """Codes of a type that computes."""
    return [int(c) for c in np.array(numbers, {"f32": F32, "f16": np.float16, "f64": np.float64, "i8": np.int8, "u8": np.uint8, "i32": np.int32}[kind])
            .view({4: np.uint32, 2: np.uint16, 8: np.uint64, 1: np.uint8}[int(TYPES[kind][2].bits / 8)]).reshape(-1)]


def cast(code, source, target, saturate=True, mode="up"):
    """As ONNX's Cast: to integers under a byte numbers are rounded and cut to the low bits."""
    value, to = TYPES[source][2].value(code), TYPES[target][2]
    if target in WHOLE:
        if isinstance(value, str):
            return 0 if value in ("nan", "-0") else None  # infinity is not defined
        whole = int(value) if isinstance(TYPES[source][2], Integer) else int(np.rint(float(value)))
        return None if abs(whole) > 2**31 - 1 else whole & ((1 << to.bits) - 1)
    if target == "f8e8m0" and mode != "up" and not isinstance(value, str):
        up = to.code(value, False)
        low, magnitude = max(0, up - 1), abs(value)
        if up == 0 or (up <= 254 and to.value(up) == magnitude):
            return up
        if mode == "down" or up > 254:
            middle = Fraction(2) ** (low - 127) * Fraction(3, 2)
            return low if mode == "down" or magnitude < middle else 254 if saturate else 255
        return up if magnitude >= (to.value(low) + to.value(up)) / 2 else low
    return to.code(value, saturate if target in STORED_FLOATS else isinstance(TYPES[source][2], Integer))


class StoredTypes(onnx_import.Case):
    def expect(self, data, inputs, outputs):
        """Runs the model on {name: (type, codes, shape)}; outputs are compared by what the written file holds."""
        command = ["run", self.file("model.onnx", data), "--quiet"]
        for k, (name, (kind, codes, shape)) in enumerate(inputs.items()):
            command += ["--input", f"{name}=@{self.file(f'in{k}.pb', tensor(name, kind, codes, shape))}"]
        for k, name in enumerate(outputs):
            command += ["--output", f"{name}={self.path(f'out{k}.pb')}"]
        done = self.opc(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        for k, (name, (kind, codes, _)) in enumerate(outputs.items()):
            with open(self.path(f"out{k}.pb"), "rb") as f:
                held = dict(m.fields(f.read()))
            self.assertEqual(held[2], NUMBERS[kind], name)
            form, width = TYPES[kind][2], TYPES[kind][2].bits
            whole = int.from_bytes(held[9], "little")
            got = [whole >> i * width & (1 << width) - 1 for i in range(len(codes))]
            for i, (g, w) in enumerate(zip(got, codes)):
                if w is not None and g != w and not (form.value(g) == "nan" == form.value(w)):
                    self.fail(f"{name}[{i}] is {g:#x} ({form.value(g)}), expected {w:#x} ({form.value(w)})")

    def cast_model(self, source, target, count, **attributes):
        node = m.node("Cast", ["x"], ["y"], to=NUMBERS[target], **attributes)
        return m.model(m.graph([node], [m.value("x", (count,), NUMBERS[source])], [m.value("y", (count,), NUMBERS[target])]), opset=25)

    def check_cast(self, source, target, given, **attributes):
        want = [cast(c, source, target, attributes.get("saturate", 1), attributes.get("round_mode", "up")) for c in given]
        with self.subTest(f"{source} to {target}", **attributes):
            self.expect(self.cast_model(source, target, len(given), **attributes), {"x": (source, given, (len(given),))}, {"y": (target, want, None)})

    def test_casts_from_numbers(self):
        for source in ("f32", "f16"):
            with np.errstate(over="ignore"):
                given = codes_of(NEAR, source)
            for target in STORED:
                self.check_cast(source, target, given)
            for target in STORED_FLOATS:
                self.check_cast(source, target, given, saturate=0)
        whole = codes_of(np.arange(-9, 16), "i8")
        for target in WHOLE:
            self.check_cast("i8", target, whole)
            self.check_cast("f32", target, codes_of(np.arange(-9, 16), "f32"))

    def test_casts_from_every_code(self):
        for source in STORED:
            given = list(range(1 << TYPES[source][2].bits))
            for target in ("f32", "f16", "bool", *STORED):
                if target != source:
                    self.check_cast(source, target, given)

    def test_powers_of_two(self):
        edges = [0.0, 0.124, 0.25, 0.5, 1.1, 1.5, 1.4999999, 3.0, 2.0**-126, 2.0**-127, 1.5 * 2.0**-127, 1.25 * 2.0**-127, 2.0**-149, 2.0**127, 1.5 * 2.0**127,
                 1.4 * 2.0**127, float("inf"), float("nan"), -3.0]
        given = codes_of(edges, "f32")
        for mode in ("up", "down", "nearest"):
            for saturate in (0, 1):
                self.check_cast("f32", "f8e8m0", given, round_mode=mode, saturate=saturate)
        self.refused(self.cast_model("f32", "f8e8m0", 4, round_mode="sideways"), "OPC0322", "round_mode", "up, down or nearest")

    def test_like(self):
        given = codes_of(NEAR, "f32")
        for target in ("f8e5m2fnuz", "f4e2m1", "u4"):
            data = m.model(m.graph([m.node("CastLike", ["x", "z"], ["y"])], [m.value("x", (len(given),))], [m.value("y", None, NUMBERS[target])],
                                   [tensor("z", target, [1, 2], (2,))]), opset=25)
            self.expect(data, {"x": ("f32", given, (len(given),))}, {"y": (target, [cast(c, "f32", target) for c in given], None)})

    def test_moves(self):
        """A type of each width, given and as an initializer; also the initializer itself as an output, and through branches."""
        for kind in ("f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4", "u2"):
            given = [(7 * i + 3) % (1 << TYPES[kind][2].bits) for i in range(12)]
            a = np.array(given).reshape(3, 4)
            number_of = NUMBERS[kind]
            nodes = [m.node("Reshape", ["x", "six"], ["reshaped"]), m.node("Transpose", ["w"], ["transposed"]), m.node("Concat", ["x", "w"], ["joined"], axis=0),
                     m.node("Slice", ["x", "from", "to"], ["sliced"]), m.node("Gather", ["w", "at"], ["gathered"], axis=1), m.node("Identity", ["w"], ["same"]),
                     m.node("Expand", ["x", "wide"], ["expanded"]), m.node("Split", ["x"], ["first", "second"], axis=1, num_outputs=2),
                     m.node("Unsqueeze", ["x", "at"], ["deep"]), m.node("Squeeze", ["deep"], ["flat"]), m.node("Tile", ["x", "from"], ["none"]),
                     m.node("Where", ["which", "x", "w"], ["chosen"]), m.node("Flatten", ["x"], ["lines"]), m.node("Shape", ["w"], ["sizes"])]
            outputs = {"reshaped": a.reshape(6, 2), "transposed": a.T, "joined": np.concatenate([a, a]), "sliced": a[1:3], "gathered": a[:, [2, 0]], "same": a,
                       "expanded": np.broadcast_to(a, (2, 3, 4)), "second": a[:, 2:], "flat": a, "chosen": a, "lines": a, "w": a}
            ints = [m.tensor(n, np.array(v, np.int64)) for n, v in (("six", [6, 2]), ("from", [1]), ("to", [3]), ("at", [2, 0]), ("wide", [2, 3, 4]))]
            body = m.graph([n for n in nodes if b"none" not in n], [m.value("x", (3, 4), number_of)],
                           [m.value(n, None, number_of) for n in outputs] + [m.value("sizes", None, 7)],
                           [tensor("w", kind, given, (3, 4)), *ints, m.tensor("which", np.eye(3, 4, dtype=bool))])
            with self.subTest(kind):
                want = {n: (kind, list(v.reshape(-1)), None) for n, v in outputs.items()}
                self.expect(m.model(body, opset=25), {"x": (kind, given, (3, 4))}, {**want, "sizes": ("i64", [3, 4], None)})
            one = m.graph([m.node("Identity", ["w"], ["b"])], [], [m.value("b", None, number_of)])
            other = m.graph([m.node("Reshape", ["x", "shape"], ["b"])], [], [m.value("b", None, number_of)])
            body = m.graph([m.node("If", ["c"], ["y"], then_branch=one, else_branch=other)], [m.value("x", (12,), number_of), m.value("c", (), 9)],
                           [m.value("y", None, number_of)], [tensor("w", kind, given[::-1], (3, 4)), m.tensor("shape", np.array([3, 4], np.int64))])
            for c, codes in ((1, given[::-1]), (0, given)):
                with self.subTest(kind, branch=c):
                    self.expect(m.model(body, opset=25), {"x": (kind, given, (12,)), "c": ("bool", [c], ())}, {"y": (kind, codes, None)})

    def quantized(self, kind, x, scale, zero, **attributes):
        """QuantizeLinear and, of what it gives, DequantizeLinear; scales and zero points as they broadcast to x."""
        with np.errstate(over="ignore", invalid="ignore"):
            steps = (x / scale).astype(F32)
        form = TYPES[kind][2]
        if kind in WHOLE:
            q = np.clip(np.rint(steps).astype(int) + zero, form.lowest, form.highest)
            return [int(v) & ((1 << form.bits) - 1) for v in q.reshape(-1)], ((q - zero) * scale).astype(F32)
        codes = [form.code(exact(v), True) for v in steps.reshape(-1)]
        return codes, (np.array([number(form.value(c)) for c in codes]).reshape(x.shape) * scale).astype(F32)

    def test_quantisation(self):
        x = np.array([[0, 1, 2, 100000, 200], [-8.6, 3.4, 0.7, -100000, 12]], F32)
        rng = np.random.default_rng(3)
        for kind in STORED:
            if kind == "f8e8m0":
                continue
            number_of, whole = NUMBERS[kind], kind in WHOLE
            form = TYPES[kind][2]
            for scale_shape, block in (((), 0), ((2,), 0), ((2, 3), 2)):
                scale = rng.choice(np.array([0.5, 2, 4], F32), scale_shape).astype(F32)
                zero = rng.integers(form.lowest, form.highest + 1, scale_shape) if whole else np.zeros(scale_shape, int)
                spread = lambda a, b=block: np.repeat(a, b, 1)[:, :5] if b else a.reshape(-1, 1) if a.ndim else a  # noqa: E731
                attributes = {"axis": 1 if block else 0, **({"block_size": block} if block else {})}
                given = [m.tensor("scale", scale), tensor("zero", kind, [int(z) & ((1 << form.bits) - 1) for z in zero.reshape(-1)], scale_shape)]
                nodes = [m.node("QuantizeLinear", ["x", "scale", "zero"], ["q"], **attributes), m.node("DequantizeLinear", ["q", "scale", "zero"], ["y"], **attributes)]
                body = m.graph(nodes, [m.value("x", x.shape)], [m.value("q", x.shape, number_of), m.value("y", x.shape)], given)
                codes, back = self.quantized(kind, x, spread(scale), spread(zero))
                with self.subTest(kind, scale=scale_shape):
                    self.expect(m.model(body, opset=25), {"x": ("f32", codes_of(x, "f32"), x.shape)},
                                {"q": (kind, codes, None), "y": ("f32", codes_of(back, "f32"), None)})
        # The published numbers of ONNX's cases.
        for kind, largest in (("f8e4m3fn", 448), ("f8e5m2", 49152), ("f4e2m1", 6)):
            self.assertEqual([number(TYPES[kind][2].value(c)) for c in self.quantized(kind, np.array([0, 1, 2, 100000], F32), F32(2), 0)[0]],
                             [0, 0.5, 1, largest if kind != "f8e5m2" else 49152])

    def test_one_scale_and_one_zero_point(self):
        """One number may be of any rank: the published cases have a zero point of shape [1] beside a scale without axes."""
        for kind, x, want in (("f8e4m3fn", [0, 0x30, 0x38, 0x7e, 0x53], [0.0, 1.0, 2.0, 896.0, 22.0]), ("f4e2m1", [0, 1, 2, 7, 11], [0.0, 1.0, 2.0, 12.0, -3.0])):
            for scale_shape, zero_shape in (((), (1,)), ((1,), ()), ((), ()), ((1,), (1,))):
                body = m.graph([m.node("DequantizeLinear", ["x", "scale", "zero"], ["y"], axis=0)], [m.value("x", (5,), NUMBERS[kind])], [m.value("y", (5,))],
                               [m.tensor("scale", np.full(scale_shape, 2, F32)), tensor("zero", kind, [0], zero_shape)])
                with self.subTest(kind, scale=scale_shape, zero=zero_shape):
                    self.expect(m.model(body, opset=23), {"x": (kind, x, (5,))}, {"y": ("f32", codes_of(want, "f32"), None)})
        body = m.graph([m.node("DequantizeLinear", ["x", "scale", "zero"], ["y"], axis=0)], [m.value("x", (5,), NUMBERS["f4e2m1"])], [m.value("y", (5,))],
                       [m.tensor("scale", np.ones(5, F32)), tensor("zero", "f4e2m1", [0, 0], (2,))])
        self.refused(m.model(body, opset=23), "OPC0322", "input 2 ('zero') has not the shape of input 1 ('scale')")

    def test_without_a_zero_point(self):
        x = np.array([0.4, 1.6, -3.0, 100.0], F32)
        for kind in ("i4", "f8e4m3fnuz"):
            body = m.graph([m.node("QuantizeLinear", ["x", "scale"], ["q"], output_dtype=NUMBERS[kind])], [m.value("x", (4,))], [m.value("q", (4,), NUMBERS[kind])],
                           [m.tensor("scale", np.array(0.5, F32))])
            self.expect(m.model(body, opset=23), {"x": ("f32", codes_of(x, "f32"), (4,))}, {"q": (kind, self.quantized(kind, x, F32(0.5), 0)[0], None)})

    def test_microscaling(self):
        """Blocks of f4e2m1 with powers of two as scales, as OCP's formats have them."""
        codes, scales = [(5 * i + 1) % 16 for i in range(16)], [120, 127, 130, 126]
        body = m.graph([m.node("DequantizeLinear", ["w", "scale"], ["y"], axis=1, block_size=4, output_dtype=1)], [m.value("w", (2, 8), NUMBERS["f4e2m1"])],
                       [m.value("y", (2, 8))], [tensor("scale", "f8e8m0", scales, (2, 2))])
        want = [number(TYPES["f4e2m1"][2].value(c)) * 2.0 ** (scales[k // 8 * 2 + k % 8 // 4] - 127) for k, c in enumerate(codes)]
        self.expect(m.model(body, opset=25), {"w": ("f4e2m1", codes, (2, 8))}, {"y": ("f32", codes_of(want, "f32"), None)})

    def test_exported(self):
        """Casts to and from every type, out as ONNX and in again: the same bits."""
        x = np.array([v for v in NEAR if abs(v) < 2**31] + [float("inf")], F32)
        ops = [f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ dim: {len(x)} }} data_type: kFloat }} }} }}']
        for kind in STORED:
            for saturates in ("true", "false") if kind in STORED_FLOATS else ("true",):
                name = f"{kind}_{saturates}"
                ops += [f'op {{ name: "{name}" user_conf {{ op_type_name: "cast" input {{ key: "in" value {{ s: "x/out" }} }} '
                        f'attr {{ key: "dtype" value {{ at_data_type: {TYPES[kind][0]} }} }} attr {{ key: "saturate" value {{ at_bool: {saturates} }} }} }} }}',
                        f'op {{ name: "back_{name}" user_conf {{ op_type_name: "cast" input {{ key: "in" value {{ s: "{name}/out_0" }} }} '
                        'attr { key: "dtype" value { at_data_type: kFloat } } } }',
                        f'op {{ name: "o_{name}" output_conf {{ in: "back_{name}/out_0" out: "out" }} }}',
                        f'op {{ name: "s_{name}" output_conf {{ in: "{name}/out_0" out: "out" }} }}']
        graph = self.file("g.pbtxt", "\n".join(ops).encode())
        given = self.array("x", x)
        for flags in ([], ["--no-fuse"]):
            done = self.opc("compile", graph, "--emit", "onnx", "-o", self.path("e.onnx"))
            self.assertEqual(done.returncode, 0, done.stderr)
            for model, out in ((graph, "a.npz"), (self.path("e.onnx"), "b.npz")):
                done = self.opc("run", model, "--input", f"x={given}", "--outputs", self.path(out), "--quiet", *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
            a, b = np.load(self.path("a.npz")), np.load(self.path("b.npz"))
            self.assertEqual(sorted(a.files), sorted(b.files))
            for name in a.files:
                self.assertEqual(a[name].tobytes(), b[name].tobytes(), name)

    def test_operator_sets_of_what_is_read(self):
        """A type that an op reads decides the operator set as one that it makes does."""
        for kind, first in (("f8e4m3fn", 19), ("f8e5m2", 19), ("f8e8m0", 24)):
            graph = self.file("model.onnx", m.model(m.graph([m.node("Cast", ["x"], ["y"], to=1)], [m.value("x", (3,), NUMBERS[kind])], [m.value("y", (3,))]), opset=25))
            done = self.opc("compile", graph, "--emit", "onnx", "-o", self.path("e.onnx"))
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(self.path("e.onnx"), "rb") as f:
                sets = [dict(m.fields(b)) for n, b in m.fields(f.read()) if n == 8]
            self.assertEqual([s[2] for s in sets], [first])
            done = self.opc("compile", graph, "--emit", "onnx", "--opset", str(first - 1), "-o", self.path("e.onnx"))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"the type {kind} is of operator set {first}", done.stderr)

    def test_refused(self):
        body = m.graph([m.node("Add", ["x", "x"], ["y"], "sum")], [m.value("x", (3,), NUMBERS["f8e5m2fnuz"])], [m.value("y")])
        self.refused(m.model(body, opset=25), "OPC0422", "f8e5m2fnuz, which no op computes in", 'node 0 "sum"', "Cast before it", exit_code=4)
        body = m.graph([m.node("BitCast", ["x"], ["y"], to=NUMBERS["i4"])], [m.value("x", (3,), NUMBERS["f4e2m1"])], [m.value("y")])
        self.refused(m.model(body, opset=26), "OPC0422", "bits of f4e2m1 as i4", exit_code=4)
        body = m.graph([m.node("BitCast", ["x"], ["y"], to=NUMBERS["i4"])], [m.value("x", (3,), 3)], [m.value("y")])
        self.refused(m.model(body, opset=26), "OPC0322", "the sizes must be equal")
        body = m.graph([m.node("DequantizeLinear", ["x", "s"], ["y"])], [m.value("x", (3,), NUMBERS["i4"])], [m.value("y")], [tensor("s", "f8e8m0", [127], ())])
        self.refused(m.model(body, opset=25), "OPC0322", "'output_dtype' does not say")
        model = self.file("model.onnx", self.cast_model("i4", "f32", 5))
        for what, data in (("2 bytes, i4[5] has 3", tensor("x", "i4", [1, 2, 3, 4], (5,))), ("holds 2 bytes, i4[5] has 3", tensor("x", "i4", [1, 2, 3], (5,)))):
            done = self.opc("run", model, "--input", f"x=@{self.file('x.pb', data)}")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(what, done.stderr)


if __name__ == "__main__":
    unittest.main()
