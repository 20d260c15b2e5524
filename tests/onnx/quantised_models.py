# Models with QuantizeLinear and DequantizeLinear around their ops, as quantisers write them: computed on integers, and against ONNX Runtime.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import unittest

import numpy as np

from folder_test import FolderTest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402
from exported import PEERS  # noqa: E402

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
F32 = np.float32


class Quantised:
    """A model whose tensors are quantised one by one."""

    def __init__(self, seed):
        self.rng, self.nodes, self.values, self.tensors, self.given, self.number = np.random.default_rng(seed), [], [], [], {}, 0
        self.types = {}  # of outputs

    def name(self):
        self.number += 1
        return f"t{self.number}"

    def constant(self, array):
        name = self.name()
        self.tensors.append(m.tensor(name, np.asarray(array)))
        return name

    def add(self, op, inputs, domain="", **attributes):
        name = self.name()
        self.nodes.append(m.node(op, inputs, [name], f"node_{name}", domain, **attributes))
        return name

    def linear(self, op, parts, scale, zero, first=False, **attributes):
        """An op of ONNX Runtime's domain on (integers, scale, zero) each; what it makes, so."""
        flat = [t for q, s, z in parts for t in (q, self.constant(F32(s)), self.constant(z))]
        own = [self.constant(F32(scale)), self.constant(zero)]
        name = self.add(op, own + flat if first else flat + own, "com.microsoft", **attributes)
        self.types[name] = m.ELEMENT[np.asarray(zero).dtype]
        return name, scale, zero

    def input(self, shape, low, high):
        name = self.name()
        self.given[name] = self.rng.uniform(low, high, shape).astype(F32)
        self.values.append(m.value(name, shape, 1))
        return name

    def activation(self, x, scale, zero):
        """Through u8 (or i8) and back."""
        s, z = self.constant(F32(scale)), self.constant(zero)
        return self.add("DequantizeLinear", [self.add("QuantizeLinear", [x, s, z]), s, z])

    def quantised(self, x, scale, zero):
        name = self.add("QuantizeLinear", [x, self.constant(F32(scale)), self.constant(zero)])
        self.types[name] = m.ELEMENT[np.asarray(zero).dtype]
        return name

    def weight(self, shape, axis=None):
        scale = self.rng.uniform(0.005, 0.02, () if axis is None else shape[axis]).astype(F32)
        w = self.constant(self.rng.integers(-127, 128, shape).astype(np.int8))
        inputs = [w, self.constant(scale), self.constant(np.zeros(scale.shape, np.int8))]
        return self.add("DequantizeLinear", inputs, **({} if axis is None else {"axis": axis})), scale

    def bias(self, scale):
        steps = np.atleast_1d(np.asarray(scale, F32))
        return self.add("DequantizeLinear", [self.constant(self.rng.integers(-3000, 3000, steps.shape).astype(np.int32)), self.constant(steps)], axis=0)


class Models(FolderTest):
    def write(self, q, outputs):
        path = os.path.join(self.folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(m.model(m.graph(q.nodes, q.values, [m.value(o, None, q.types[o]) for o in outputs], q.tensors), opset=17, domains=["com.microsoft"]))
        return path

    def ops(self, path):
        done = subprocess.run([OPC, "show", path, "--what", "ops", "--json"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [op["type"] for op in json.loads(done.stdout)["ops"]]

    def opc(self, q, path, outputs, *options):
        np.savez(os.path.join(self.folder, "in.npz"), **q.given)
        done = subprocess.run([OPC, "run", path, "--quiet", "--inputs", os.path.join(self.folder, "in.npz"), "--outputs", os.path.join(self.folder, "out.npz"), *options],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = np.load(os.path.join(self.folder, "out.npz"))
        return [made[o] for o in outputs]

    def onnx_runtime(self, q, outputs):
        values, feeds = b"", {}
        for name, array in q.given.items():
            feeds[name] = {"type": "float32", "dims": list(array.shape), "at": len(values), "bytes": array.nbytes}
            values += array.tobytes()
        with open(os.path.join(self.folder, "cases.json"), "w") as f:
            json.dump([{"model": "model.onnx", "feeds": feeds}], f)
        with open(os.path.join(self.folder, "values.bin"), "wb") as f:
            f.write(values)
        subprocess.run(["node", os.path.join(os.path.dirname(os.path.abspath(__file__)), "ort_cases.js"), self.folder], check=True,
                       env={**os.environ, "NODE_PATH": os.path.join(PEERS, "node_modules")})
        with open(os.path.join(self.folder, "results.json")) as f:
            (result,) = json.load(f)
        self.assertNotIn("error", result)
        with open(os.path.join(self.folder, "results.bin"), "rb") as f:
            made = f.read()
        found = []
        for name in outputs:
            o = result["outputs"][name]
            found.append(np.frombuffer(made, o["type"], count=o["bytes"] // np.dtype(o["type"]).itemsize, offset=o["at"]).reshape(o["dims"]))
        return found

    def check(self, q, outputs, integer_ops):
        path = self.write(q, outputs)
        ops = self.ops(path)
        for op, count in integer_ops.items():
            self.assertEqual(ops.count(op), count, ops)
        made = self.opc(q, path, outputs)
        if not os.path.isdir(os.path.join(PEERS, "node_modules", "onnxruntime-node")):
            self.skipTest("ONNX Runtime is not installed (tools/dev/install_peers.sh)")
        for name, mine, theirs in zip(outputs, made, self.onnx_runtime(q, outputs)):
            self.assertEqual(mine.dtype, theirs.dtype)
            if mine.dtype == F32:
                np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-4 * np.abs(theirs[np.isfinite(theirs)]).max(initial=0))
                continue
            steps = np.abs(mine.astype(np.int64) - theirs.astype(np.int64))
            self.assertLessEqual(steps.max(initial=0), 1, name)
            # ONNX Runtime multiplies the real numbers and rounds them; the integers differ where that is near a tie.
            self.assertLess(np.mean(steps != 0), 0.01, name)

    def test_convolutions(self):
        q, outputs = Quantised(1), []
        for groups, axis, relu, with_bias, pads in [(1, None, False, False, [1] * 4), (1, 0, True, True, [1] * 4), (2, 0, False, True, [0, 1, 2, 1]),
                                                    (8, 0, True, False, [1] * 4)]:
            x = q.activation(q.input((2, 8, 9, 7), -2, 3), 0.02, np.uint8(100))
            w, scale = q.weight((16, 8 // groups, 3, 3), axis)
            inputs = [x, w] + ([q.bias(np.full(16, F32(0.02)) * scale)] if with_bias else [])
            y = q.add("Conv", inputs, pads=pads, group=groups)
            outputs.append(q.quantised(q.add("Relu", [y]) if relu else y, 0.06, np.uint8(3 if relu else 120)))
        self.check(q, outputs, {"integer_conv2d": 4, "requantize": 4, "conv2d": 0, "dequantize_linear": 0})

    def test_products(self):
        q, outputs = Quantised(2), []
        for op, axis, transposed, with_bias in [("MatMul", None, False, False), ("MatMul", 1, False, False), ("Gemm", 1, False, True), ("Gemm", 0, True, True),
                                                ("Gemm", None, True, False)]:
            x = q.activation(q.input((5, 64), -2, 3), 0.02, np.int8(-28))
            w, scale = q.weight((24, 64) if transposed else (64, 24), axis)
            inputs = [x, w] + ([q.bias(np.full(24, F32(0.02)) * scale)] if with_bias else [])
            y = q.add(op, inputs, **({"transB": 1} if transposed else {}))
            outputs.append(q.quantised(y, 0.05, np.int8(5)))
        self.check(q, outputs, {"integer_matmul": 5, "requantize": 5, "matmul": 0})

    def test_a_bias_in_f32_is_quantised(self):
        q = Quantised(3)
        x = q.activation(q.input((4, 32), -2, 3), 0.02, np.uint8(100))
        w, _ = q.weight((10, 32), 0)
        y = q.add("Gemm", [x, w, q.constant(q.rng.uniform(-3, 3, 10).astype(F32))], transB=1)
        self.check(q, [q.quantised(y, 0.05, np.uint8(128))], {"integer_matmul": 1, "matmul": 0})

    def real(self, q, name):
        q.types[name] = 1
        return name

    def test_biases_that_no_steps_make(self):
        """Channels whose scales are next to nothing or 0, whose weights are 0, or whose bias is no number: the bias counts all the same."""
        for scales, weights, bias in [([0.01, 1e-30, 0.01], 1, [1, -2.5, 3]), ([0.01, 0, 0.01], 1, [1, 0.75, 3]), ([0.01, 1e-38, 1e-20], 0, [1, -2, 3e5]),
                                      ([0.01] * 3, 0, [0.00013, -0.00007, 1.23456]), ([0.01] * 3, 1, [np.inf, -np.inf, 1]), ([0.01] * 3, 1, [np.nan, 1, 2]),
                                      ([0.01] * 3, 1, [3e8, 1, 2])]:
            for op in ("Conv", "Gemm", "Relu"):
                q = Quantised(11)
                values = (q.rng.integers(-127, 128, (3, 8)) * weights).astype(np.int8)
                shape = (3, 8, 1, 1) if op != "Gemm" else (3, 8)
                x = q.activation(q.input((2, 8, 3, 3) if op != "Gemm" else (5, 8), -2, 3), 0.02, np.uint8(100))
                w = q.add("DequantizeLinear", [q.constant(values.reshape(shape)), q.constant(np.array(scales, F32)), q.constant(np.zeros(3, np.int8))], axis=0)
                y = q.add("Gemm" if op == "Gemm" else "Conv", [x, w, q.constant(np.array(bias, F32))], **({"transB": 1} if op == "Gemm" else {}))
                outputs = [self.real(q, y)]
                if np.isfinite(bias).all() and op == "Relu":
                    outputs.append(q.quantised(q.add("Relu", [y]), 0.05, np.uint8(3)))
                with self.subTest(op=op, scales=scales, weights=weights, bias=bias):
                    self.check(q, outputs, {})

    def test_scales_below_nothing(self):
        """Relu holds the real numbers, not the integers."""
        q = Quantised(12)
        x = q.activation(q.input((2, 6, 5, 5), -2, 3), 0.02, np.uint8(100))
        scale = np.array([-0.01, 0.02, -0.005, 0.01], F32)
        w = q.add("DequantizeLinear", [q.constant(q.rng.integers(-127, 128, (4, 6, 1, 1)).astype(np.int8)), q.constant(scale), q.constant(np.zeros(4, np.int8))], axis=0)
        y = q.add("Relu", [q.add("Conv", [x, w])])
        self.check(q, [q.quantised(y, 0.05, np.uint8(3))], {"integer_conv2d": 1})

    def test_sums_beyond_32_bits(self):
        """They would wrap around: such products are of real numbers. Where the weights are small they are of integers."""
        for high, integer in ((255, 0), (20, 1)):
            q = Quantised(13)
            n = 70000
            x = q.activation(q.input((2, n), 0.9, 1), 1 / 255, np.uint8(0))
            w = q.add("DequantizeLinear", [q.constant(q.rng.integers(high - 5, high + 1, (n, 3)).astype(np.uint8)), q.constant(F32(0.01)), q.constant(np.uint8(0))])
            with self.subTest(high=high):
                self.check(q, [self.real(q, q.add("MatMul", [x, w]))], {"integer_matmul": integer})

    def test_scales_of_the_run(self):
        """A bias in steps of another scale than the model's would be wrong: another one is refused, the model's is taken."""
        q = Quantised(14)
        x = q.activation(q.input((4, 32), -2, 3), 0.02, np.uint8(100))
        w, scale = q.weight((10, 32), 0)
        y = q.add("Gemm", [x, w, q.bias(F32(0.02) * scale)], transB=1)
        outputs = [q.quantised(y, 0.05, np.uint8(128))]
        path = self.write(q, outputs)
        (plain,) = self.opc(q, path, outputs)
        name = f"t{int(w[1:]) - 2}"
        weights = os.path.join(self.folder, "w.npz")
        np.savez(weights, **{name: scale})
        np.testing.assert_array_equal(self.opc(q, path, outputs, "--weights", weights)[0], plain)
        np.savez(weights, **{name: scale * F32(2)})
        done = subprocess.run([OPC, "run", path, "--quiet", "--fill", "rand", "--weights", weights], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, f"OPC0719.*{name}")

    def test_a_chain(self):
        q = Quantised(4)
        x = q.activation(q.input((1, 3, 16, 16), -1, 1), 1 / 127, np.uint8(128))
        for channels, filters in ((3, 16), (16, 32)):
            w, scale = q.weight((filters, channels, 3, 3), 0)
            y = q.add("Relu", [q.add("Conv", [x, w, q.bias(np.full(filters, F32(1 / 127 if channels == 3 else 0.02)) * scale)], pads=[1] * 4)])
            x = q.activation(y, 0.02, np.uint8(0))
            x = q.add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
            x = q.activation(x, 0.02, np.uint8(0))
        w, scale = q.weight((10, 32 * 16), 0)
        y = q.add("Gemm", [q.add("Flatten", [x]), w], transB=1)
        self.check(q, [q.quantised(y, 0.3, np.uint8(128))], {"integer_conv2d": 2, "conv2d": 0})

    def test_a_residual_block(self):
        """Bytes between the convolutions, in channels_last; the bits of the ops by themselves, with any number of threads."""
        q = Quantised(10)
        x = q.activation(q.input((2, 16, 15, 14), -1, 1), 1 / 127, np.uint8(128))
        skip, steps = x, 1 / 127
        for kernel in (1, 3):
            w, scale = q.weight((16, 16, kernel, kernel), 0)
            y = q.add("Relu", [q.add("Conv", [x, w, q.bias(np.full(16, F32(steps)) * scale)], pads=[kernel // 2] * 4)])
            x, steps = q.activation(y, 0.02, np.uint8(0)), 0.02
        w, scale = q.weight((16, 16, 1, 1), 0)
        y = q.activation(q.add("Conv", [x, w, q.bias(np.full(16, F32(0.02)) * scale)]), 0.02, np.uint8(120))
        outputs = [q.quantised(q.add("Relu", [q.add("Add", [y, skip])]), 0.02, np.uint8(0))]
        self.check(q, outputs, {"integer_conv2d": 3, "requantize": 3, "conv2d": 0})
        path, plan = os.path.join(self.folder, "model.onnx"), os.path.join(self.folder, "m.plan")
        (plain,) = self.opc(q, path, outputs, "--no-fuse")
        for threads in ("1", "2"):
            np.testing.assert_array_equal(self.opc(q, path, outputs, "-j", threads)[0], plain)
        done = subprocess.run([OPC, "compile", path, "-o", plan], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run([OPC, "show", plan, "--what", "tasks", "--json"], capture_output=True, text=True, timeout=60)
        types = [task["kernel"].split("/")[1] for task in json.loads(done.stdout)["tasks"]]
        # One transpose before the block, and one behind.
        self.assertEqual([types.count(t) for t in ("fused_integer_conv2d", "integer_conv2d", "requantize", "transpose")], [3, 0, 0, 2], types)

    def test_ops_of_onnx_runtime(self):
        """The QLinear family on u8 and i8, single and one behind the other."""
        for seed, dtype, zero in ((6, np.uint8, 120), (7, np.int8, -9)):
            q = Quantised(seed)
            a, b = ((q.quantised(q.input((2, 6, 10, 9), -2, 3), s, dtype(z)), s, dtype(z)) for s, z in ((0.0213, zero), (0.0307, zero // 2)))
            made = [q.linear("QLinearAdd", [a, b], 0.0411, dtype(10)), q.linear("QLinearMul", [a, b], 0.0523, dtype(30)), # of no ties
                    q.linear("QLinearSigmoid", [a], 1 / 256, dtype(0)), q.linear("QLinearLeakyRelu", [b], 0.0207, dtype(40), alpha=0.1),
                    q.linear("QLinearConcat", [a, b], 0.0321, dtype(20), first=True, axis=1)]
            if dtype is np.uint8: # ONNX Runtime 1.30 has these for it alone
                made += [q.linear("QLinearSoftmax", [a], 1 / 256, dtype(0), axis=-1, opset=17),
                         q.linear("QLinearGlobalAveragePool", [a], 0.0103, dtype(100)),
                         q.linear("QLinearAveragePool", [b], 0.0209, dtype(90), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])]
            chain = q.linear("QLinearLeakyRelu", [q.linear("QLinearMul", [made[0], made[2]], 0.03, dtype(5))], 0.03, dtype(7), alpha=0.2)
            self.check(q, [name for name, *_ in [*made, chain]], {"quantize_linear": len(made) + 4})

    def test_one_loop_over_bytes(self):
        """Dequantise, compute, quantise: what lies between is in no tensor of the plan."""
        q = Quantised(8)
        x = q.quantised(q.input((4, 4096), -2, 3), 0.02, np.uint8(100))
        y = q.linear("QLinearSigmoid", [q.linear("QLinearAdd", [(x, 0.02, np.uint8(100)), (x, 0.02, np.uint8(100))], 0.04, np.uint8(90))], 1 / 256, np.uint8(0))
        z = q.quantised(q.add("Relu", [q.activation(q.add("DequantizeLinear", [y[0], q.constant(F32(1 / 256)), q.constant(np.uint8(0))]), 0.01, np.uint8(3))]), 0.02, np.uint8(9))
        self.check(q, [z], {})
        done = subprocess.run([OPC, "compile", "model.onnx", "-o", "m.plan"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run([OPC, "show", "m.plan", "--what", "tasks", "--json"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        tasks = json.loads(done.stdout)["tasks"]
        self.assertEqual((len(tasks), {task.get("region") for task in tasks}), (13, {0}), done.stdout)

    def test_finishes_that_cannot_be(self):
        """fused_integer_matmul in a graph file: each error names what is wrong."""
        inputs = {"a": ("kUInt8", (2, 3)), "b": ("kInt8", (3, 4)), "scale": ("kFloat", (4,)), "zero_point": ("kUInt8", ())}
        for changes, dtype, said in [({}, "kUInt8", None), ({}, "kInt32", "dtype is i32, expected u8, i8 or f32"), ({}, "kInt8", "zero_point is u8[], expected the element type i8"),
                                     ({"zero_point": ("kFloat", ())}, "kFloat", "dtype is f32, and real numbers have no zero_point"),
                                     ({"scale": ("kFloat", (3,))}, "kUInt8", "scale is f32[3], expected one number or a vector of 4, one for each column"),
                                     ({"scale": ("kInt32", (4,))}, "kUInt8", "scale is i32[4], expected the element type f32")]:
            ops, given = "", {**inputs, **changes}
            for name, (kind, shape) in given.items():
                dims = " ".join(f"dim: {d}" for d in shape)
                ops += f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {kind} }} }} }}\n'
            args = " ".join(f'input {{ key: "{name}" value {{ s: "{name}/out" }} }}' for name in given)
            ops += (f'op {{ name: "m" user_conf {{ op_type_name: "fused_integer_matmul" {args} attr {{ key: "dtype" value {{ at_data_type: {dtype} }} }} }} }}\n'
                    'op { name: "y" output_conf { in: "m/out_0" } }\n')
            with open(os.path.join(self.folder, "g.pbtxt"), "w") as f:
                f.write(ops)
            done = subprocess.run([OPC, "compile", "g.pbtxt", "-o", "g.plan"], capture_output=True, text=True, timeout=60, cwd=self.folder)
            with self.subTest(changes=changes, dtype=dtype):
                self.assertEqual(done.returncode, 0 if said is None else 3, done.stderr)
                self.assertIn(said or "", done.stderr)

    def test_weights_of_4_bits(self):
        """What opc quantize writes as MatMulNBits, and the same node with a stack of matrices on the left."""
        rng = np.random.default_rng(9)
        q, outputs, nodes = Quantised(5), ["p", "r"], ""
        for name, shape, op in (("p", (5, 96), "matmul"), ("r", (2, 3, 96), "broadcast_matmul")):
            dims = " ".join(f"dim: {d}" for d in shape)
            q.given["x" + name] = rng.uniform(-1, 1, shape).astype(F32)
            nodes += (f'op {{ name: "x{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: kFloat }} }} }}\n'
                      f'op {{ name: "m{name}" user_conf {{ op_type_name: "{op}" input {{ key: "a" value {{ s: "x{name}/out" }} }} input {{ key: "b" value {{ s: "w/out" }} }} }} }}\n'
                      f'op {{ name: "{name}" output_conf {{ in: "m{name}/out_0" }} }}\n')
        with open(os.path.join(self.folder, "g.pbtxt"), "w") as f:
            f.write('op { name: "w" variable_conf { out: "out" shape { dim: 96 dim: 48 } data_type: kFloat } }\n' + nodes)
        np.savez(os.path.join(self.folder, "w.npz"), w=rng.standard_normal((96, 48)).astype(F32))
        path = os.path.join(self.folder, "model.onnx")
        done = subprocess.run([OPC, "quantize", "g.pbtxt", "--weights", "w.npz", "--to", "int4-weights", "-o", path], capture_output=True, text=True, timeout=60, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = self.opc(q, path, outputs)
        if not os.path.isdir(os.path.join(PEERS, "node_modules", "onnxruntime-node")):
            self.skipTest("ONNX Runtime is not installed (tools/dev/install_peers.sh)")
        for mine, theirs in zip(made, self.onnx_runtime(q, outputs)):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
