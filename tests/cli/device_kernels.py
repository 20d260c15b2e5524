# Kernels for GPUs at sizes that take more than one tile, slice or block: the simulated GPU against the CPU.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

import numpy as np

from gpu_build import need_simulator

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
KINDS = {"f32": ("kFloat", np.float32), "f64": ("kDouble", np.float64), "f16": ("kFloat16", np.float16), "i64": ("kInt64", np.int64), "u8": ("kUInt8", np.uint8),
         "i8": ("kInt8", np.int8), "i32": ("kInt32", np.int32), "bool": ("kBool", np.bool_)}
# Of the largest element of a result: sums of some hundred products of numbers around 1, rounded once.
CLOSE = {"f32": 2e-6, "f64": 1e-14, "f16": 1e-3, "bf16": 8e-3}


def opc(*args, sim="policy=late"):
    """OPC_TEST_SIM has further options of the simulator, for tests that look at what these graphs execute."""
    more = os.environ.get("OPC_TEST_SIM")
    return subprocess.run([os.path.join(BIN, "opc"), *args], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, CUDA_SIM=f"{sim},{more}" if more else sim))


def attr(name, value):
    if isinstance(value, bool):
        text = f"at_bool: {str(value).lower()}"
    elif isinstance(value, int):
        text = f"at_int32: {value}"
    elif isinstance(value, float):
        text = f"at_double: {value}"
    elif isinstance(value, str):
        text = f'at_string: "{value}"'
    else:
        text = "at_list_int32 { " + " ".join(f"val: {v}" for v in value) + " }"
    return f'attr {{ key: "{name}" value {{ {text} }} }}'


def numbers(array):
    """f64; numpy reads bf16 as two bytes without a type."""
    if array.dtype == np.dtype("V2"):
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def doubles(**values):
    return " ".join(f'attr {{ key: "{k}" value {{ at_double: {v} }} }}' for k, v in values.items())


def longs(name, *values):
    return f'attr {{ key: "{name}" value {{ at_list_int64 {{ {" ".join(f"val: {v}" for v in values)} }} }} }}'


class DeviceKernels(unittest.TestCase):
    def setUp(self):
        need_simulator()
        self.ops, self.outputs, self.inputs = [], [], {}
        self.random = np.random.default_rng(7)

    def tensor(self, shape, kind="f32", values=None):
        """The name of an input of random numbers, or of `values`; numpy has no bf16, so that such a tensor is converted in the graph."""
        if kind == "bf16":
            return self.op("cast", {"in": self.tensor(shape, "f32", values)}, ["out"], 'attr { key: "dtype" value { at_data_type: kBFloat16 } }', keep=False)[0]
        name = f"x{len(self.inputs)}"
        proto, dtype = KINDS[kind]
        dims = " ".join(f"dim: {d}" for d in shape)
        self.ops.append(f'op {{ name: "{name}" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: {proto} }} }} }}')
        self.inputs[name] = (self.random.uniform(-1, 1, shape) if values is None else values).astype(dtype)
        return f"{name}/out"

    def op(self, kind, inputs, outputs, attrs="", keep=True):
        """Adds an op; gives its outputs' names, which become outputs of the graph."""
        name = f"op{len(self.ops)}"
        args = " ".join(f'input {{ key: "{k}" value {{ s: "{v}" }} }}' for k, v in inputs.items())
        outs = " ".join(f'output {{ key: "{o}" value {{ s: "{name}/{o}_0" }} }}' for o in outputs)
        self.ops.append(f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {args} {outs} {attrs} }} }}')
        for o in outputs if keep else ():
            self.outputs.append(f"{name}_{o}")
            self.ops.append(f'op {{ name: "{name}_{o}" output_conf {{ in: "{name}/{o}_0" out: "out" }} }}')
        return [f"{name}/{o}_0" for o in outputs]

    def compare(self, close, sim="policy=late"):
        with tempfile.TemporaryDirectory() as folder:
            graph, inputs = os.path.join(folder, "g.pbtxt"), os.path.join(folder, "in.npz")
            with open(graph, "w", encoding="utf-8") as f:
                f.write("\n".join(self.ops))
            np.savez(inputs, **self.inputs)
            results = {}
            for device in ("cpu", "sim"):
                out = os.path.join(folder, device)
                done = opc("run", graph, "--no-fuse", "--inputs", inputs, "--outputs", out, "--print", "none", "--device", device, sim=sim)
                self.assertEqual(done.returncode, 0, done.stderr)
                results[device] = {name: np.load(os.path.join(out, f"{name}.npy")) for name in self.outputs}
        self.assertGreater(len(self.outputs), 0)
        for name in self.outputs:
            want, got = numbers(results["cpu"][name]), numbers(results["sim"][name])
            self.assertEqual(got.shape, want.shape)
            self.assertTrue(np.isfinite(want).all(), name)
            self.assertLessEqual(np.abs(got - want).max(initial=0), close * max(1e-3, np.abs(want).max(initial=0)), name)

    def convolution(self, kind, last, groups, channels, filters, size, attrs, added=False):
        """A convolution and its three gradients; two of the results may be added to something, where they are as large as the input."""
        first = not last
        x = (2, channels, *size) if first else (2, *size, channels)
        w = (filters, channels // groups, 3, 3) if first else (filters, 3, 3, channels // groups)
        common = attrs + attr("data_format", "channels_last" if last else "channels_first") + attr("groups", groups)
        xs, ws = self.tensor(x, kind), self.tensor(w, kind)
        to = {"_add_to_output": self.tensor((2, filters, *size) if first else (2, *size, filters), kind)} if added else {}
        (y,) = self.op("conv2d", {"in": xs, "weight": ws, "bias": self.tensor((filters,), kind), **to}, ["out"], common)
        backward = common + attr("num_spatial_dims", 2) + attr("kernel_size", [3, 3])
        to = {"_add_to_output": self.tensor(x, kind)} if added else {}
        self.op("conv_data_grad", {"dy": y, "filter": ws, "x_like": xs, **to}, ["dx"], backward)
        self.op("conv_filter_grad", {"dy": y, "x": xs}, ["filter_diff"], backward)
        self.op("conv_bias_grad", {"dy": y}, ["bias_diff"], attr("num_spatial_dims", 2) + attr("data_format", "channels_last" if last else "channels_first"))

    def test_convolution_tiles(self):
        """More than one tile of each product, none of them whole; the gradient by the weight in slices."""
        plain, wide = attr("padding_before", [1, 1]), attr("strides", [2, 1]) + attr("dilation_rate", [1, 2]) + attr("padding_before", [0, 2])
        for kind, attrs in (("f32", plain), ("f32", wide), ("f64", wide), ("f16", plain), ("bf16", plain)):
            for last in (False, True):
                with self.subTest(kind=kind, last=last, attrs=attrs):
                    self.ops, self.outputs, self.inputs = [], [], {}
                    self.convolution(kind, last, 1, 20, 70, (17, 19), attrs)
                    self.compare(CLOSE[kind] * 4)

    def test_convolutions_on_matrix_units(self):
        """16-bit floats on GPUs from 8.0 on: whole accesses where channels have them, groups, strides, and the kernels of older GPUs."""
        plain, wide = attr("padding_before", [1, 1]), attr("strides", [2, 1]) + attr("dilation_rate", [1, 2]) + attr("padding_before", [0, 2])
        for kind, groups, channels, filters, attrs, sim in (("f16", 1, 24, 72, plain, ""), ("bf16", 1, 16, 40, wide, ""), ("f16", 1, 19, 37, wide, ""),
                                                            ("f16", 2, 48, 32, plain, ""), ("f16", 1, 20, 70, wide, "cc=75"), ("bf16", 1, 20, 70, plain, "cc=75")):
            for last in (False, True):
                with self.subTest(kind=kind, groups=groups, channels=channels, last=last, attrs=attrs, sim=sim):
                    self.ops, self.outputs, self.inputs = [], [], {}
                    self.convolution(kind, last, groups, channels, filters, (17, 16), attrs, added=attrs is plain)
                    self.compare(CLOSE[kind] * 4, sim=f"policy=late,{sim}".rstrip(","))

    def test_convolution_groups(self):
        """Groups of whole tiles, and of single channels."""
        for groups, channels, filters in ((2, 24, 40), (12, 12, 24)):
            for last in (False, True):
                with self.subTest(groups=groups, last=last):
                    self.ops, self.outputs, self.inputs = [], [], {}
                    self.convolution("f32", last, groups, channels, filters, (9, 31), attr("padding_before", [1, 1]))
                    self.compare(CLOSE["f32"] * 4)

    def test_maxima_at_given_places(self):
        """The gradient of max pooling from positions, whose planes are more than one block's."""
        for shape, last in (((2, 3, 70, 61), False), ((2, 50, 50, 5), True)):
            with self.subTest(shape=shape):
                self.ops, self.outputs, self.inputs = [], [], {}
                window = attr("kernel_size", [3, 3]) + attr("stride", [2, 2]) + attr("padding", [1, 1])
                window += attr("data_format", "channels_last" if last else "channels_first")
                x = self.tensor(shape)
                y, places = self.op("max_pool_2d", {"x": x}, ["y", "indice"], window + attr("return_indices", True))
                self.op("max_pool_2d_grad", {"x": x, "dy": y, "indice": places}, ["dx"], window)
                self.op("max_pool_2d_grad", {"x": x, "dy": y}, ["dx"], window)
                self.compare(1e-6)

    def test_fused_convolution(self):
        """The kernels of few and of many filters in both layouts, the weight in the other one."""
        for last in (False, True):
            for filters in (3, 70):
                image, weight = ((2, 15, 13, 5), (filters, 5, 3, 3)) if last else ((2, 5, 15, 13), (filters, 3, 3, 5))
                per_filter = {arg: self.tensor((filters,)) for arg in ("bias", "gamma", "beta", "moving_mean")}
                per_filter["moving_variance"] = self.tensor((filters,), values=self.random.uniform(0.5, 2, filters))
                layouts = ("channels_last", "channels_first") if last else ("channels_first", "channels_last")
                self.op("fused_conv2d", {"in": self.tensor(image), "weight": self.tensor(weight), **per_filter}, ["out"],
                        attr("data_format", layouts[0]) + attr("weight_format", layouts[1]) + attr("activation", "relu") + 'attr { key: "epsilon" value { at_float: 1e-5 } }')
        self.compare(CLOSE["f32"] * 4)

    def products(self, kind, batch, m, n, k):
        """Both factors as they are and transposed, a multiple added to something, and sizes that no access of 16 bytes divides."""
        for number, (left, right) in enumerate(((False, False), (True, False), (False, True), (True, True))):
            a, b = (k, m) if left else (m, k), (n, k) if right else (k, n)
            inputs = {"a": self.tensor((*batch, *a), kind), "b": self.tensor((*batch, *b), kind)}
            if number % 2:
                inputs["_add_to_output"] = self.tensor((*batch, m, n), kind)
            self.op("batch_matmul" if batch else "matmul", inputs, ["out"],
                    attr("transpose_a", left) + attr("transpose_b", right) + doubles(alpha=1 if number < 2 else 0.5))

    def test_product_tiles(self):
        """Tiles of 64 x 64 sums, with and without accesses of 16 bytes."""
        for kind, m, n, k in (("f32", 66, 132, 24), ("f32", 65, 67, 19), ("f64", 66, 68, 18), ("i32", 65, 67, 19), ("bf16", 66, 68, 17), ("f16", 65, 68, 16)):
            with self.subTest((kind, m, n, k)):
                self.ops, self.outputs, self.inputs = [], [], {}
                if kind == "i32":
                    self.op("batch_matmul", {"a": self.tensor((16, m, k), kind, self.random.integers(-99, 99, (16, m, k))),
                                             "b": self.tensor((16, k, n), kind, self.random.integers(-99, 99, (16, k, n)))}, ["out"])
                else:
                    self.products(kind, (16,), m, n, k)
                self.compare(CLOSE.get(kind, 0), sim="policy=late,cc=75")

    def test_wide_product_tiles(self):
        """Tiles of 128 x 128 sums."""
        self.products("f32", (16,), 130, 260, 11)
        self.compare(CLOSE["f32"])

    def test_matrix_units(self):
        """16-bit floats on GPUs from 8.0 on; the last sizes take tiles of 128 x 128 sums."""
        for kind in ("f16", "bf16"):
            for batch, m, n, k in (((), 66, 72, 40), ((), 67, 69, 35), ((3,), 32, 32, 64), ((), 64, 136, 0), ((16,), 130, 264, 40), ((16,), 131, 259, 33)):
                with self.subTest((kind, batch, m, n, k)):
                    self.ops, self.outputs, self.inputs = [], [], {}
                    self.products(kind, batch, m, n, k)
                    self.compare(CLOSE[kind])

    def test_integers(self):
        """Products and convolutions of 8-bit integers of more than one tile, and the range of more than one block; to the bit."""
        draw = self.random.integers
        a = self.tensor((3, 70, 90), "u8", draw(0, 256, (3, 70, 90)))
        b = self.tensor((90, 130), "i8", draw(-128, 128, (90, 130)))
        zeros = {"a_zero_point": self.tensor((70,), "u8", draw(0, 256, 70)), "b_zero_point": self.tensor((130,), "i8", draw(-128, 128, 130))}
        self.op("integer_matmul", {"a": a, "b": b, **zeros}, ["out"])
        image = self.tensor((2, 20, 17, 19), "u8", draw(0, 256, (2, 20, 17, 19)))
        weight = self.tensor((70, 20, 3, 3), "i8", draw(-128, 128, (70, 20, 3, 3)))
        zero = self.tensor((1,), "u8", draw(0, 256, 1))
        self.op("integer_conv2d", {"in": image, "weight": weight, "in_zero_point": zero}, ["out"], attr("padding_before", [1, 1]) + attr("strides", [2, 1]))
        self.op("dynamic_quantize_linear", {"in": self.tensor((70001,))}, ["out", "scale", "zero_point"])
        # The same, finished: bytes in both layouts, and real numbers.
        uniform = self.random.uniform
        steps = {"scale": self.tensor((70,), values=uniform(2e-4, 1e-3, 70)), "bias": self.tensor((70,), "i32", draw(-9000, 9000, 70))}
        first = {"in": image, "weight": weight, "in_zero_point": zero, "zero_point": self.tensor((70,), "u8", draw(0, 256, 70))}
        self.op("fused_integer_conv2d", {**first, **steps}, ["out"], attr("padding_before", [1, 1]) + attr("relu", True))
        last = {"in": self.tensor((2, 17, 19, 20), "i8", draw(-128, 128, (2, 17, 19, 20))), "weight": weight, "zero_point": self.tensor((), "i8", draw(-9, 9, ()))}
        self.op("fused_integer_conv2d", {**last, **steps}, ["out"], attr("data_format", "channels_last") + 'attr { key: "dtype" value { at_data_type: kInt8 } }')
        self.op("fused_integer_matmul", {"a": a, "b": b, **zeros, "scale": self.tensor((1,), values=uniform(2e-4, 1e-3, 1))}, ["out"],
                'attr { key: "dtype" value { at_data_type: kFloat } }')
        self.compare(0)

    def test_resampling(self):
        """Pictures made larger and smaller by odd factors, and back by the gradients."""
        x = self.tensor((2, 3, 23, 31))
        sizes = (doubles(height_scale=2.7, width_scale=0.36), doubles(height_scale=0.11, width_scale=3.3), longs("output_size", 1, 70),
                 longs("output_size", 40, 5))
        for size in sizes:
            for kind in ("nearest", "bilinear", "bicubic"):
                for align in (False, True) if kind != "nearest" else (False,):
                    attrs = size + (attr("align_corners", align) if kind != "nearest" else "")
                    (y,) = self.op(f"upsample_{kind}_2d", {"x": x}, ["y"], attrs)
                    self.op(f"upsample_{kind}_2d_grad", {"dy": y, "x": x}, ["dx"], attrs)
        self.compare(2e-6)

    def test_transposes(self):
        """Tiles through shared memory, several in each direction and none of them whole; to the bit."""
        for kind in ("f32", "f64", "f16", "i8"):
            x = self.tensor((3, 37, 70), kind, self.random.integers(-100, 100, (3, 37, 70)))
            for perm in ([0, 2, 1], [2, 1, 0], [2, 0, 1], [1, 2, 0], [1, 0, 2]):
                self.op("transpose", {"input": x}, ["output"], attr("perm", perm))
        self.compare(0)

    def test_long_vectors(self):
        """Reductions in two passes and vectors of unit length, of more elements than a block has threads."""
        x = self.tensor((3, 700, 35))
        for axis in (0, 1, 2):
            self.op("var", {"input": x}, ["output"], attr("dim", [axis]) + attr("unbiased", True) + attr("keepdim", False))
            self.op("logsumexp", {"input_tensor": x}, ["output_tensor"], attr("axis", [axis]) + attr("keepdims", False))
            where = attr("axis", axis) + 'attr { key: "epsilon" value { at_float: 1e-6 } } '
            y, sums = self.op("l2_normalize", {"x": x}, ["y", "square_x_sum"], where)
            self.op("l2_normalize_grad", {"dy": self.tensor((3, 700, 35)), "y": y, "square_x_sum": sums}, ["dx"], where)
        self.compare(3e-6)

    def recurrent(self, kind, gates, dtype, lengths, attrs, peephole=False, first=False):
        """A layer of two directions and its gradient, of more than one tile of each product and more than one block of states."""
        steps, batch, width, hidden, both = 4, 19, 21, 35, 2
        rows, state = ((batch, steps), (batch, both, hidden)) if first else ((steps, batch), (both, batch, hidden))
        attrs += attr("direction", "bidirectional") + attr("batch_first", first)
        small = {"weight": (both, gates * hidden, width), "recurrence": (both, gates * hidden, hidden), "bias": (both, 2 * gates * hidden)}
        given = {"x": self.tensor((*rows, width), dtype), "initial_h": self.tensor(state, dtype)}
        given.update({arg: self.tensor(shape, dtype, self.random.uniform(-0.2, 0.2, shape)) for arg, shape in small.items()})
        if lengths:
            given["lengths"] = self.tensor((batch,), lengths, self.random.integers(0, steps + 1, batch))
        ends = ["y_h"] + (["y_c"] if kind == "lstm" else [])
        grads = ["dx", "dweight", "drecurrence", "dbias", "dinitial_h"] + (["dinitial_c"] if kind == "lstm" else [])
        if kind == "lstm":
            given["initial_c"] = self.tensor(state, dtype)
        if peephole:
            given["peephole"] = self.tensor((both, 3 * hidden), dtype)
            grads.append("dpeephole")
        y, *_ = self.op(kind, given, ["y", *ends], attrs)
        dy = (batch, steps, both, hidden) if first else (steps, both, batch, hidden)
        coming = {"y": y, "dy": self.tensor(dy, dtype), **{"d" + end: self.tensor(state, dtype) for end in ends}}
        self.op(f"{kind}_grad", {**given, **coming}, grads, attrs)

    def test_recurrent_layers(self):
        """Several tiles and blocks, sequences of all lengths, among them none at all."""
        late, clip = attr("linear_before_reset", True), doubles(clip=0.5)
        for args in (("lstm", 4, "f32", "i32", ""), ("lstm", 4, "f64", "i64", clip, True, True), ("lstm", 4, "f32", None, attr("input_forget", True)),
                     ("gru", 3, "f32", "i64", ""), ("gru", 3, "f64", "i32", late, False, True), ("gru", 3, "f32", None, late + clip), ("rnn", 1, "f32", "i32", clip),
                     ("rnn", 1, "f64", None, "", False, True), ("lstm", 4, "f16", "i32", ""), ("gru", 3, "f16", "i32", "")):
            with self.subTest(args=args):
                self.ops, self.outputs, self.inputs = [], [], {}
                self.recurrent(*args)
                self.compare(CLOSE[args[2]] * 4)

    def test_length_outside(self):
        for kind, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)):
            for given in ([2, 4, 1], [-1, 0, 7]):
                with self.subTest(kind=kind, lengths=given):
                    self.ops, self.outputs, self.inputs = [], [], {}
                    args = {"x": self.tensor((3, 3, 2)), "weight": self.tensor((1, gates * 4, 2)), "recurrence": self.tensor((1, gates * 4, 4)),
                            "lengths": self.tensor((3,), "i32", np.array(given))}
                    self.op(kind, args, ["y", "y_h"] + (["y_c"] if kind == "lstm" else []))
                    at, value = (1, 4) if given[1] == 4 else (0, -1)
                    self.assert_said_as_on_the_cpu(f"lengths[{at}] = {value} is outside [0, 4), the range of the steps of x and 0")

    def assert_said_as_on_the_cpu(self, text):
        """That the run ends with an error that has this text."""
        with tempfile.TemporaryDirectory() as folder:
            graph, inputs = os.path.join(folder, "g.pbtxt"), os.path.join(folder, "in.npz")
            with open(graph, "w", encoding="utf-8") as f:
                f.write("\n".join(self.ops))
            np.savez(inputs, **self.inputs)
            for device in ("cpu", "sim"):
                done = opc("run", graph, "--inputs", inputs, "--device", device)
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertIn("OPC0601", done.stderr)
                self.assertIn(text, done.stderr)

    def test_place_outside(self):
        window = attr("kernel_size", [2, 2])
        x, dy = self.tensor((1, 1, 4, 4)), self.tensor((1, 1, 2, 2))
        self.op("max_pool_2d_grad", {"x": x, "dy": dy, "indice": self.tensor((1, 1, 2, 2), "i64", np.array([[[[0, 1], [2, 16]]]]))}, ["dx"], window)
        self.assert_said_as_on_the_cpu("indice[0,0,1,1] = 16 is outside [0, 16), the range of the positions of x")

    def test_one_window_of_all(self):
        """Windows so large that their maxima are scattered, and means of whole planes."""
        x = self.tensor((2, 3, 48, 47))
        window = attr("kernel_size", [48, 47])
        (y,) = self.op("max_pool_2d", {"x": x}, ["y"], window)
        self.op("max_pool_2d_grad", {"x": x, "dy": y}, ["dx"], window)
        (mean,) = self.op("adaptive_avg_pool2d", {"x": x}, ["y"], longs("output_size", 1, 1))
        self.op("adaptive_avg_pool2d_grad", {"dy": mean, "x": x}, ["dx"], longs("output_size", 1, 1))
        self.compare(2e-6)

    def test_long_rows(self):
        """Rows and channels of more than one element a thread."""
        axis = 'attr { key: "begin_norm_axis" value { at_int64: 1 } } '
        params = 'attr { key: "begin_params_axis" value { at_int64: 1 } } '
        epsilon = 'attr { key: "epsilon" value { at_double: 1e-5 } } '
        x, dy = self.tensor((37, 700)), self.tensor((37, 700))
        gamma, beta = self.tensor((700,)), self.tensor((700,))
        _, mean, inverse = self.op("layer_norm", {"x": x, "gamma": gamma, "beta": beta}, ["y", "mean", "inv_variance"],
                                   axis + params + epsilon + attr("center", True) + attr("scale", True))
        statistics = {"dy": dy, "x": x, "mean": mean, "inv_variance": inverse}
        self.op("layer_norm_grad", {**statistics, "gamma": gamma}, ["dx"], axis + epsilon)
        self.op("layer_norm_param_grad", statistics, ["gamma_diff", "beta_diff"], params)
        for shape, at in (((3, 40, 21, 20), 1), ((3, 21, 20, 40), 3)):
            x, dy, gamma = self.tensor(shape), self.tensor(shape), self.tensor((40,))
            where = attr("axis", at) + 'attr { key: "epsilon" value { at_float: 1e-5 } } ' + attr("training", True)
            _, mean, inverse = self.op("normalization", {"x": x, "gamma": gamma, "beta": self.tensor((40,))}, ["y", "mean", "inv_variance"], where)
            self.op("normalization_grad", {"x": x, "dy": dy, "mean": mean, "inv_variance": inverse, "gamma": gamma}, ["gamma_diff", "beta_diff", "dx"], where)
        self.compare(4e-6)

    def test_attention_tiles(self):
        """More queries, keys and columns than a block takes, forward and backward."""
        band = attr("window_left", 70) + attr("window_right", 9) + attr("offset", 20)
        for more, heads, mask in (("", 3, None), (attr("causal", True), 3, None), ("", 3, (1, 1, 150)), (band, 1, (3, 40, 150)),
                                  (attr("causal", True) + attr("softcap", 0.7) + attr("offset", -1), 1, (3, 1, 150))):
            with self.subTest(more=more, mask=mask):
                self.ops, self.outputs, self.inputs = [], [], {}
                q, k, v = self.tensor((3, 40, 36)), self.tensor((heads, 150, 36)), self.tensor((heads, 150, 140))
                args = {"query": q, "key": k, "value": v}
                if mask:
                    args["mask"] = self.tensor(mask)
                out, sums = self.op("scaled_dot_product_attention", args, ["out", "log_sum"], more)
                self.op("scaled_dot_product_attention_grad", {**args, "out": out, "log_sum": sums, "dout": self.tensor((3, 40, 140))},
                        ["dquery", "dkey", "dvalue", *(["dscores"] if mask else [])], more)
                self.compare(1e-5)

    def test_attention_where_a_finite_mask_hides_queries(self):
        """The logarithm of such a query's sum has lost how many keys there were."""
        for low in (np.finfo("f").min, -1e9):
            with self.subTest(low=low):
                self.ops, self.outputs, self.inputs = [], [], {}
                mask = np.zeros((3, 40, 70), "f")
                mask[:, 7], mask[1, 39], mask[2, 0, :50] = low, low, low
                args = {"query": self.tensor((3, 40, 12)), "key": self.tensor((3, 70, 12)), "value": self.tensor((3, 70, 20)), "mask": self.tensor((3, 40, 70), "f32", mask)}
                out, sums = self.op("scaled_dot_product_attention", args, ["out", "log_sum"])
                self.op("scaled_dot_product_attention_grad", {**args, "out": out, "log_sum": sums, "dout": self.tensor((3, 40, 20))}, ["dquery", "dkey", "dvalue"])
                self.compare(1e-5)

    def test_attention_of_lengths(self):
        """The keys that count are in a tensor: none, some, all and more than there are."""
        for kind in ("i32", "i64"):
            with self.subTest(kind=kind):
                self.ops, self.outputs, self.inputs = [], [], {}
                args = {"query": self.tensor((4, 2, 5, 24)), "key": self.tensor((4, 1, 130, 24)), "value": self.tensor((4, 1, 130, 8)),
                        "key_lengths": self.tensor((4,), kind, np.array([0, 70, 130, 200]))}
                out, _ = self.op("scaled_dot_product_attention", args, ["out", "log_sum"], attr("window_left", 66), keep=False)
                self.outputs.append("seen")
                self.ops.append(f'op {{ name: "seen" output_conf {{ in: "{out}" out: "out" }} }}')
                self.compare(1e-5)

    def test_attention_on_matrix_units(self):
        """16-bit floats: more queries, keys and columns than a block takes, rows that see nothing, with and without accesses of 16 bytes."""
        for kind in ("f16", "bf16"):
            for n, m, d, dv in ((130, 150, 40, 136), (129, 70, 35, 21), (33, 64, 8, 16)):
                band = attr("window_left", 65) + attr("window_right", 2) + attr("softcap", 0.5)
                for more, heads, mask in (("", 2, None), (attr("causal", True), 2, None), ("", 2, (2, 1, m)), ("", 2, (n, m)), (band, 1, None)):
                    with self.subTest(kind=kind, n=n, more=more, mask=mask):
                        self.ops, self.outputs, self.inputs = [], [], {}
                        args = {"query": self.tensor((2, n, d), kind), "key": self.tensor((heads, m, d), kind), "value": self.tensor((heads, m, dv), kind)}
                        if mask and len(mask) == 3:
                            args["mask"] = self.tensor(mask, kind)
                        elif mask: # of truth values; the first query sees no key
                            seen = self.random.integers(0, 2, mask).astype(bool)
                            seen[0] = False
                            args["mask"] = self.tensor(mask, "bool", seen)
                        is_blind = bool(mask) and len(mask) == 2  # its log_sum is minus infinity
                        out, _ = self.op("scaled_dot_product_attention", args, ["out", "log_sum"], more, keep=not is_blind)
                        if is_blind:
                            self.outputs.append("seen")
                            self.ops.append(f'op {{ name: "seen" output_conf {{ in: "{out}" out: "out" }} }}')
                        self.compare(CLOSE[kind])


if __name__ == "__main__":
    unittest.main()
