# Kernels for GPUs on the simulated one, where the conformance suite does not reach: all pairs of casts, long lines, the same
# random numbers as on the CPU, and wrong indices.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

import numpy as np

from gpu_build import need_simulator

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
GRAPH_TYPES = {np.dtype(n): g for n, g in (("float32", "kFloat"), ("float64", "kDouble"), ("float16", "kFloat16"), ("int32", "kInt32"),
                                           ("int64", "kInt64"), ("int8", "kInt8"), ("uint8", "kUInt8"), ("bool", "kBool"))}
ALL_TYPES = ["kFloat", "kDouble", "kFloat16", "kBFloat16", "kInt8", "kUInt8", "kInt16", "kUInt16", "kInt32", "kUInt32", "kInt64", "kUInt64",
             "kBool"]
STORED_FLOATS = ["kFloat8E4M3FN", "kFloat8E5M2", "kFloat8E4M3FNUZ", "kFloat8E5M2FNUZ", "kFloat8E8M0", "kFloat4E2M1"]
ALL_TYPES += [*STORED_FLOATS, "kInt4", "kUInt4", "kInt2", "kUInt2"]


def without_nans(a, kind):
    """The bits of a tensor, those of NaN being 0: a GPU has one NaN, the CPU keeps some bits of the one that it was given."""
    bits = a.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize])
    if a.dtype.kind == "f":
        nan = np.isnan(a)
    elif kind == "kBFloat16":
        nan = bits & 0x7FFF > 0x7F80
    elif kind == "kFloat8E4M3FN":
        nan = bits & 0x7F == 0x7F
    elif kind == "kFloat8E5M2":
        nan = bits & 0x7F > 0x7C
    elif kind in ("kFloat8E4M3FNUZ", "kFloat8E5M2FNUZ"):
        nan = bits == 0x80
    else:
        nan = np.zeros(a.shape, bool)
    return np.where(nan, 0, bits), nan


class Graph:
    """The text of a graph, with the inputs that it is given."""

    def __init__(self):
        self.lines, self.inputs, self.outputs = [], {}, []

    def input(self, name, value):
        value = np.asarray(value)
        dims = " ".join(f"dim: {d}" for d in value.shape)
        self.lines.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {GRAPH_TYPES[value.dtype]} }} }} }}')
        self.inputs[name] = value
        return f"{name}/out"

    def op(self, name, kind, inputs, outputs=("out",), **attrs):
        """attrs: "at_i64: 3" and so on."""
        text = "".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }} ' for k, v in inputs.items())
        text += "".join(f'output {{ key: "{o}" value {{ s: "{name}/{o}_0" }} }} ' for o in outputs)
        text += "".join(f'attr {{ key: "{k}" value {{ {v} }} }} ' for k, v in attrs.items())
        self.lines.append(f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {text}}} }}')
        return f"{name}/{outputs[0]}_0"

    def output(self, name, of):
        self.lines.append(f'op {{ name: "{name}" output_conf {{ in: "{of}" out: "out" }} }}')
        self.outputs.append(name)

    def run(self, device, *options, policy="policy=late"):
        """The finished command, and its outputs by name."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.pbtxt")
            with open(path, "w") as f:
                f.write("\n".join(self.lines) + "\n")
            call = [os.path.join(BIN, "opc"), "run", path, "--device", device, "--print", "none", "--outputs", os.path.join(folder, "out"), *options]
            if self.inputs:
                np.savez(os.path.join(folder, "in.npz"), **self.inputs)
                call += ["--inputs", os.path.join(folder, "in.npz")]
            sim = ",".join(filter(None, [policy, os.environ.get("OPC_TEST_SIM")]))  # as in device_kernels.py
            done = subprocess.run(call, capture_output=True, text=True, timeout=300, env=dict(os.environ, CUDA_SIM=sim))
            results = {n: np.load(os.path.join(folder, "out", f"{n}.npy")) for n in self.outputs} if done.returncode == 0 else {}
        return done, results


class OnGpu(unittest.TestCase):
    def both(self, graph, *options):
        """The outputs on the CPU and on the simulated GPU."""
        results = []
        for device in ("cpu", "sim"):
            done, outputs = graph.run(device, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            results.append(outputs)
        return results

    def assert_same_bits(self, graph, *options):
        cpu, sim = self.both(graph, *options)
        for name, want in cpu.items():
            self.assertEqual(sim[name].shape, want.shape, name)
            self.assertEqual(sim[name].tobytes(), want.tobytes(), f"{name}:\n{sim[name]}\nexpected\n{want}")
        return cpu

    def test_scores_that_a_mask_hides(self):
        """Be they NaN or infinite: the numbers are numpy's, in which they are not there."""
        rng = np.random.default_rng(3)
        for dtype in (np.float32, np.float64, np.float16):
            q, k, v = (rng.standard_normal((2, n, 8)).astype(dtype) for n in (5, 9, 9))
            lowest = -np.inf if dtype == np.float16 else -1e30
            scores = q.astype(float) @ k[:, :6].astype(float).transpose(0, 2, 1) / np.sqrt(8)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            want = shares / shares.sum(-1, keepdims=True) @ v[:, :6].astype(float)
            for bad in (np.nan, np.inf):
                k[:, 6:] = bad
                g = Graph()
                mask = np.where(np.arange(9) < 6, 0, lowest).astype(dtype)
                given = {n: g.input(n, a) for n, a in (("query", q), ("key", k), ("value", v), ("mask", mask))}
                g.output("y", g.op("a", "scaled_dot_product_attention", given))
                for made in self.both(g):
                    np.testing.assert_allclose(made["y"], want, rtol=1e-5 if dtype != np.float16 else 2e-3, atol=1e-5 if dtype != np.float16 else 2e-3)

    def test_casts_of_all_pairs(self):
        floats = np.array([0.0, -0.0, 1.5, -2.5, 0.1, 255.5, -129.0, 448.0, 449.0, 464.0, 57344.0, 61440.0, 65504.0, 65519.9, 65520.0, 2.0**-25, 3e-8, 1e-40,
                           16777217.0, -2147483649.0, 4294967296.0, 9.3e18, -9.3e18, 2e19, 1e300, -1e300, np.inf, -np.inf, np.nan])
        whole = np.array([0, 1, -1, 127, 128, -129, 255, 256, 2049, 32768, 65535, 16777217, -2147483649, 4294967297, 9007199254740993,
                          1125899906842625, np.iinfo(np.int64).max, np.iinfo(np.int64).min], dtype=np.int64)
        for value, own in ((floats, "kDouble"), (whole, "kInt64")):
            g = Graph()
            x = g.input("x", value)
            for a in ALL_TYPES:
                first = g.op(f"a_{a}", "cast", {"in": x}, dtype=f"at_data_type: {a}") if a != own else x
                for b in ALL_TYPES:
                    g.output(f"y_{a}_{b}", g.op(f"b_{a}_{b}", "cast", {"in": first}, dtype=f"at_data_type: {b}"))
                    if b in STORED_FLOATS:
                        g.output(f"z_{a}_{b}", g.op(f"c_{a}_{b}", "cast", {"in": first}, dtype=f"at_data_type: {b}", saturate="at_bool: false"))
            cpu, sim = self.both(g, "--no-fuse")
            self.assertEqual(len(cpu), len(ALL_TYPES) * (len(ALL_TYPES) + len(STORED_FLOATS)))
            for name, want in cpu.items():
                for a, b in zip(without_nans(sim[name], name.split("_")[2]), without_nans(want, name.split("_")[2])):
                    np.testing.assert_array_equal(a, b, err_msg=name)

    def test_multiples_of_whole_products(self):
        """A negative factor, and one that wraps around, in numpy's numbers."""
        rng = np.random.default_rng(5)
        a, b = rng.integers(-99, 99, (5, 70), dtype=np.int32), rng.integers(-99, 99, (70, 3), dtype=np.int32)
        g = Graph()
        x, y = g.input("a", a), g.input("b", b)
        factors = {"one": -1, "three": -3, "large": 3000000000}
        for name, factor in factors.items():
            g.output(name, g.op(f"p_{name}", "matmul", {"a": x, "b": y}, alpha=f"at_double: {factor}"))
        outputs = self.assert_same_bits(g)
        for name, factor in factors.items():
            np.testing.assert_array_equal(outputs[name], ((a.astype(np.int64) @ b) * factor).astype(np.int32), name)

    def test_bits_of_truth_values(self):
        """A number beside truth values is one of them; what comes out is 0 or 1."""
        x, g = np.array([False, True]), Graph()
        given = g.input("x", x)
        of = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
        for kind in of:
            for number in (0, 1, 5, 6):
                y = g.op(f"b_{kind}_{number}", f"scalar_bitwise_{kind}", {"in": given}, has_int_operand="at_bool: true", int_operand=f"at_int64: {number}")
                g.output(f"{kind}_{number}", g.op(f"c_{kind}_{number}", "cast", {"in": y}, dtype="at_data_type: kFloat"))
        for options in ((), ("--no-fuse",)):
            for name, value in self.assert_same_bits(g, *options).items():
                kind, number = name.split("_")
                np.testing.assert_array_equal(value, of[kind](x, int(number) != 0).astype(np.float32), name)

    def test_sequences_of_all_types(self):
        """arange by its float and integer attributes, and ones on a diagonal: the bits that the CPU writes."""
        g = Graph()
        for t in ALL_TYPES:
            if t != "kBool":
                g.output(f"y_{t}", g.op(f"a_{t}", "arange", {}, dtype=f"at_data_type: {t}", integer_start="at_int64: -9", integer_delta="at_int64: 7",
                                        integer_limit="at_int64: 2100", float_start="at_double: -3.1", float_delta="at_double: 0.37", float_limit="at_double: 100"))
            if "Float" in t or t == "kDouble":  # through all that the type has, and beyond
                g.output(f"b_{t}", g.op(f"beyond_{t}", "arange", {}, dtype=f"at_data_type: {t}", float_start="at_double: -4e38", float_delta="at_double: 1.7e35",
                                        float_limit="at_double: 4e38"))
                g.output(f"s_{t}", g.op(f"small_{t}", "arange", {}, dtype=f"at_data_type: {t}", float_start="at_double: -0.002", float_delta="at_double: 3.1e-6",
                                        float_limit="at_double: 0.002"))
            g.output(f"e_{t}", g.op(f"eye_{t}", "eye", {}, dtype=f"at_data_type: {t}", rows="at_int64: 23", cols="at_int64: 31"))
        cpu, sim = self.both(g, "--no-simplify")  # constants would be folded
        self.assertEqual(len(cpu), 2 * len(ALL_TYPES) - 1 + 2 * sum("Float" in t or t == "kDouble" for t in ALL_TYPES))
        for name, want in cpu.items():
            self.assertEqual(sim[name].tobytes(), want.tobytes(), name)
        np.testing.assert_array_equal(cpu["y_kInt64"], np.arange(-9, 2100, 7))
        np.testing.assert_array_equal(cpu["e_kDouble"], np.eye(23, 31))

    def test_labels_of_32_bits(self):
        """The gradient of the cross entropy takes them in every type of the probabilities."""
        rng = np.random.default_rng(5)
        label = rng.integers(0, 41, 9).astype(np.int32)
        prob = rng.random((9, 41)) / 41
        g = Graph()
        i, p, d = g.input("label", label), g.input("prob", prob), g.input("dy", rng.standard_normal(9))
        for t in ("kFloat", "kDouble", "kFloat16", "kBFloat16"):
            own = {k: g.op(f"{k}_{t}", "cast", {"in": v}, dtype=f"at_data_type: {t}") if t != "kDouble" else v for k, v in (("prob", p), ("dy", d))}
            g.output(f"y_{t}", g.op(f"o_{t}", "sparse_softmax_cross_entropy_grad", {"label": i, **own}, outputs=("prediction_diff",), depth="at_int64: 41"))
        got = self.assert_same_bits(g)
        self.assert_same_bits(g, "--no-fuse")  # op by op, without a region's code
        one = np.eye(41)[label]
        np.testing.assert_allclose(got["y_kDouble"], g.inputs["dy"][:, None] * (prob - one), rtol=1e-12)

    def test_rows_beyond_registers(self):
        """Rows of which a thread holds the first elements and reads those behind again, against numpy."""
        x, g = np.random.default_rng(2).uniform(-1, 1, (3, 2100)), Graph()
        axis, dims = 'at_list_int32 { val: 1 }', {"unbiased": "at_bool: false", "keepdim": "at_bool: false"}
        norm = {"begin_norm_axis": "at_int64: 1", "begin_params_axis": "at_int64: 1", "epsilon": "at_double: 0", "center": "at_bool: false", "scale": "at_bool: false"}
        given = g.input("x", x)
        for t, kind in (("f64", "kDouble"), ("f32", "kFloat"), ("f16", "kFloat16"), ("bf16", "kBFloat16")):
            own = g.op(f"x_{t}", "cast", {"in": given}, dtype=f"at_data_type: {kind}") if t != "f64" else given
            made = {"softmax": g.op(f"s_{t}", "softmax", {"in": own}), "log": g.op(f"l_{t}", "log_softmax", {"in": own}, ("prob",)),
                    "norm": g.op(f"n_{t}", "layer_norm", {"x": own}, ("y", "mean", "inv_variance"), **norm), "var": g.op(f"v_{t}", "var", {"input": own}, ("output",), dim=axis, **dims),
                    "sum": g.op(f"e_{t}", "logsumexp", {"input_tensor": own}, ("output_tensor",), axis=axis), "l2": g.op(f"u_{t}", "l2_normalize", {"x": own}, ("y", "square_x_sum"), axis="at_int32: 1", epsilon="at_float: 1e-9")}
            for name, tensor in made.items():
                g.output(f"{name}_{t}", g.op(f"{name}_{t}_wide", "cast", {"in": tensor}, dtype="at_data_type: kDouble"))
        done, found = g.run("sim", "--no-fuse")
        self.assertEqual(done.returncode, 0, done.stderr)
        total = np.exp(x).sum(1, keepdims=True)
        want = {"softmax": np.exp(x) / total, "log": x - np.log(total), "norm": (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), "var": x.var(1),
                "sum": np.log(total), "l2": x / np.sqrt((x * x).sum(1, keepdims=True))}
        for name, value in want.items():
            for t, close in (("f64", 1e-11), ("f32", 1e-5), ("f16", 4e-3), ("bf16", 3e-2)):
                np.testing.assert_allclose(found[f"{name}_{t}"].ravel(), value.ravel(), rtol=close, atol=close * np.abs(value).max(), err_msg=f"{name} {t}")

    def test_long_lines(self):
        """More than one chunk of a sort, more than one warp of a scan."""
        rng = np.random.default_rng(1)
        x = rng.integers(-300, 300, (2, 2500)).astype(np.float32)
        x[0, 7] = x[1, 1500] = np.nan
        order = np.argsort(x, axis=-1, kind="stable")
        g = Graph()
        i = g.input("x", x)
        for direction in ("ASCENDING", "DESCENDING"):
            for kind in ("sort", "arg_sort"):
                g.output(f"{kind}_{direction}", g.op(f"o_{kind}_{direction}", kind, {"in": i}, direction=f'at_string: "{direction}"'))
        g.output("top", g.op("o_top", "top_k", {"in": i}, k="at_int32: 1300"))
        g.output("max", g.op("o_max", "argmax", {"in": i}))
        got = self.assert_same_bits(g)
        np.testing.assert_array_equal(got["sort_ASCENDING"], np.sort(x, axis=-1))
        np.testing.assert_array_equal(got["arg_sort_ASCENDING"], order)
        # From the largest, NaN first, equal ones in their order.
        down = np.argsort(-np.where(np.isnan(x), np.inf, x), axis=-1, kind="stable")
        np.testing.assert_array_equal(got["arg_sort_DESCENDING"], down)
        np.testing.assert_array_equal(got["top"], down[:, :1300])
        np.testing.assert_array_equal(got["max"], [7, 1500])

        whole = rng.integers(-9, 9, (3, 700)).astype(np.int64)
        g = Graph()
        g.output("rows", g.op("o_rows", "cumsum", {"x": g.input("x", whole)}, outputs=("y",), dim="at_int64: 1"))
        g.output("columns", g.op("o_columns", "cumsum", {"x": g.input("t", whole.T.copy().reshape(350, 2, 3))}, outputs=("y",), dim="at_int64: 0"))
        got = self.assert_same_bits(g)
        np.testing.assert_array_equal(got["rows"], whole.cumsum(1))
        np.testing.assert_array_equal(got["columns"], whole.T.reshape(350, 2, 3).cumsum(0))

    def test_sums_in_the_order_of_the_indices(self):
        """Many for one place: the same bits as on the CPU, which adds in order."""
        rng = np.random.default_rng(2)
        index = rng.integers(0, 5, 200)
        values = (rng.standard_normal((200, 37)) * 10.0 ** rng.integers(-3, 4, (200, 1))).astype(np.float32)
        g = Graph()
        i, v = g.input("i", index), g.input("v", values)
        g.output("sums", g.op("o_sums", "unsorted_segment_sum", {"data": v, "segment_ids": i}, num_segments="at_int64: 6"))
        half = g.op("half", "cast", {"in": v}, dtype="at_data_type: kFloat16")
        g.output("halves", g.op("o_halves", "unsorted_segment_sum", {"data": half, "segment_ids": i}, num_segments="at_int64: 6"))
        weight = g.input("w", np.zeros((6, 37), np.float32))
        g.output("embedded", g.op("o_embedded", "embedding_grad", {"dy": v, "weight": weight, "indices": i}, outputs=("dx",),
                                  padding_idx="at_int64: 3", scale_grad_by_freq="at_bool: true"))
        g.output("read", g.op("o_read", "embedding", {"weight": g.input("table", values[:8, :32].copy()), "indices": i}))
        got = self.assert_same_bits(g)
        exact = np.stack([values[index == e].astype(np.float64).sum(0) for e in range(6)])
        np.testing.assert_allclose(got["sums"], exact, rtol=1e-4, atol=1e-2)
        self.assertTrue((got["embedded"][3] == 0).all())
        np.testing.assert_array_equal(got["read"], values[:8, :32][index])

    def test_the_same_random_numbers(self):
        x = np.linspace(0, 1, 301, dtype=np.float32)
        g = Graph()
        i = g.input("x", x)
        for t in ("kFloat", "kDouble", "kBFloat16"):
            g.output(f"u_{t}", g.op(f"o_u_{t}", "uniform", {}, dtype=f"at_data_type: {t}", shape="at_shape { dim: 7 dim: 43 }", **{"from": "at_double: -2"}))
        dropped = g.op("o_drop", "dropout", {"in": i}, outputs=("out", "mask"), rate="at_float: 0.25")
        g.output("dropped", dropped)
        g.output("mask", "o_drop/mask_0")
        g.output("given", g.op("o_given", "bernoulli", {"in": i}))
        g.output("small", g.op("o_small", "randperm", {}, n="at_int32: 100"))
        g.output("large", g.op("o_large", "randperm", {}, n="at_int32: 12300"))
        got = self.assert_same_bits(g, "--seed", "7")
        self.assertLess(abs(got["mask"].mean() - 0.75), 0.1)
        np.testing.assert_array_equal(got["dropped"], np.where(got["mask"], x * np.float32(1 / 0.75), 0))
        np.testing.assert_array_equal(np.sort(got["large"]), np.arange(12300))
        normal = Graph()
        normal.output("n", normal.op("o", "normal", {}, dtype="at_data_type: kFloat", shape="at_shape { dim: 400 }"))
        cpu, sim = self.both(normal)
        np.testing.assert_allclose(sim["n"], cpu["n"], rtol=1e-5, atol=1e-6)
        self.assertLess(abs(cpu["n"].std() - 1), 0.15)

    def wrong(self, kind, inputs, says, outputs=("out",), options=(), **attrs):
        """On both devices the same error, which names the op, its line in the graph, the place, the value and the range."""
        g = Graph()
        g.output("y", g.op("bad", kind, {k: g.input(k, v) for k, v in inputs.items()}, outputs, **attrs))
        told = []
        for device in ("cpu", "sim"):
            done, _ = g.run(device, *options)
            self.assertEqual(done.returncode, 5, f"{kind} on {device}: {done.stderr}")
            self.assertIn(f"error[OPC0601]: {kind}: {says}", done.stderr)
            self.assertIn("bad", done.stderr)
            self.assertIn("g.pbtxt:", done.stderr)  # where in the graph
            told.append(done.stderr)
        self.assertEqual(told[0], told[1])

    def test_wrong_indices(self):
        table = np.arange(15, dtype=np.float32).reshape(5, 3)
        self.wrong("gather", {"in": table, "indices": np.array([[0, 4], [9, -1]])}, "indices[1,0] = 9 is outside [0, 5), the range of the gathered axis")
        self.wrong("gather", {"in": table, "indices": np.array([[0, 4], [2, -7]], dtype=np.int32)}, "indices[1,1] = -7 is outside [0, 5)")
        self.wrong("gather", {"in": table, "indices": np.array([1, 2**40])}, f"indices[1] = {2**40} is outside [0, 5)")
        self.wrong("embedding", {"weight": table, "indices": np.array([5])}, "indices[0] = 5 is outside [0, 5), the range of the entries of weight")
        self.wrong("gather_nd", {"params": table, "indices": np.array([[1, 2], [4, 3]])}, "indices[1,1] = 3 is outside [0, 3), the range of axis 1")
        self.wrong("tensor_scatter_nd_add", {"params": table, "indices": np.array([[1], [6]]), "updates": table[:2]}, "indices[1,0] = 6 is outside [0, 5)")
        self.wrong("unsorted_segment_sum", {"data": table, "segment_ids": np.array([0, 1, 2, 1, 3])}, "segment_ids[4] = 3 is outside [0, 3), the range of the segments",
                   num_segments="at_int64: 3")
        regions = {"x": np.zeros((2, 1, 3, 3), np.float32), "rois": np.zeros((2, 4), np.float32), "batch_indices": np.array([1, 2])}
        self.wrong("roi_align", regions, "batch_indices[1] = 2 is outside [0, 2), the range of the images of x", outputs=("y",))
        self.wrong("dim_gather", {"input": table, "index": np.array([[0, 3]])}, "index[0,1] = 3 is outside [0, 3)", outputs=("output",), dim="at_int32: 1")
        self.wrong("dim_scatter_add", {"input": table, "index": np.array([[0, -1]]), "src": table}, "index[0,1] = -1 is outside [0, 3)", outputs=("output",),
                   dim="at_int32: 1")
        self.wrong("one_hot", {"indices": np.array([1, 4])}, "indices[1] = 4 is outside [0, 4), the range of the classes", depth="at_int64: 4",
                   dtype="at_data_type: kFloat")
        labels = np.array([0, 3, 1, 1, 1])
        self.wrong("sparse_softmax_cross_entropy", {"prediction": table, "label": labels}, "label[1] = 3 is outside [0, 3), the range of the classes",
                   outputs=("out", "prob"))
        self.wrong("nll", {"input": table, "target": labels}, "target[1] = 3 is outside [0, 3), the range of the classes, and is not ignore_index (-100)",
                   outputs=("output", "out_weight"))
        self.wrong("learning_rate_schedule", {"train_step": np.array([-4])}, "train_step is -4", learning_rate="at_double: 0.5")
        self.wrong("gather", {"in": table, "indices": np.array([7])}, "indices[0] = 7 is outside", options=("--observe", "sync"))

    def test_a_wrong_index_among_right_ops(self):
        """The first op that found something is named, though others ran after it."""
        table = np.arange(15, dtype=np.float32).reshape(5, 3)
        g = Graph()
        good = g.op("good", "gather", {"in": g.input("t", table), "indices": g.input("i", np.array([0, 4]))})
        bad = g.op("bad", "gather", {"in": good, "indices": g.input("j", np.array([0, 2]))})
        g.output("y", g.op("after", "relu", {"in": bad}))
        done, _ = g.run("sim")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("error[OPC0601]: gather: indices[1] = 2 is outside [0, 2), the range of the gathered axis", done.stderr)
        self.assertIn("running op bad", done.stderr)


if __name__ == "__main__":
    need_simulator()
    unittest.main()
