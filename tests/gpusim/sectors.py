# Accesses of elementwise, reduction, norm, transpose and matmul kernels at sizes of some blocks: sectors of global memory against the
# least that could hold the bytes, bank conflicts of shared memory, and bytes that are moved against an op's inputs and outputs.
# SPDX-License-Identifier: Apache-2.0
"""usage: sectors.py [--table]      needs nvcc's kernels in the build (OPC_BUILD_DIR), python3 with numpy

Each op runs alone on the simulated GPU, whose report counts 32-byte sectors and wavefronts of every kernel. What an op moves are all sectors
of its kernels, those of a repeated read each time: there are no caches. tests/gpusim/sectors.txt has what is above the bounds, with
the reason; the list may only shrink. --table prints all ratios.
"""
import json
import os
import sys
import tempfile
import unittest

import numpy as np

from device_code import SOURCE, modules
from reasons import reasons

sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
from gpu_ops import Graph  # noqa: E402

SECTORS = 1.15  # the most, of the least possible
TRAFFIC = 1.1  # the most bytes moved, of those of inputs and outputs
TYPES = (np.float32, np.float64, np.float16)
SECTOR = 32


def ints(*values):
    return "at_list_int32 { " + " ".join(f"val: {v}" for v in values) + " }"


def unary(kind, given="x", output="y", **attrs):
    return lambda g, x: g.op("op", kind, {given: g.input("x", x)}, (output,), **attrs)


def with_same(kind, names, outputs, **attrs):
    """Of two tensors of one shape."""
    return lambda g, x: g.op("op", kind, dict(zip(names, (g.input("x", x), g.input("z", x + 1)))), outputs, **attrs)


def with_row(kind, given, row, outputs, **attrs):
    """Of a tensor and vectors as long as its rows."""
    return lambda g, x: g.op("op", kind, {given: g.input("x", x), **{name: g.input(name, x.reshape(-1)[: x.shape[-1]]) for name in row}}, outputs, **attrs)


def matmul(g, x, **attrs):
    return g.op("op", "matmul", {"a": g.input("x", x), "b": g.input("z", x.copy())}, ("out",), **attrs)


def channels_grad(g, x):
    """Of a batch normalisation of images, with all three results."""
    kind = np.float32 if x.dtype == np.float16 else x.dtype
    given = {name: g.input(name, x + i) for i, name in enumerate(("x", "dy"))}
    given |= {name: g.input(name, (x[0, :, 0, 0] ** 2 + 1).astype(kind)) for name in ("mean", "inv_variance", "gamma")}
    dx = g.op("op", "normalization_grad", given, ("dx", "gamma_diff", "beta_diff"), axis="at_int32: 1", epsilon="at_float: 1e-5")
    for name in ("gamma_diff", "beta_diff"):
        g.output(name, f"op/{name}_0")
    return dx


def stack(m, transposed):
    """64 products of m x 16 and 16 x m: one tile each of the larger kinds."""
    lies = {"transpose_a": "at_bool: true", "transpose_b": "at_bool: true"} if transposed else {}

    def add(g, x):
        a, b = (64, 16, m) if transposed else (64, m, 16), (64, m, 16) if transposed else (64, 16, m)
        return g.op("op", "batch_matmul", {"a": g.input("x", np.resize(x, a)), "b": g.input("z", np.resize(x, b))}, ("out",), **lies)

    return add


def convolution(last, channels=32):
    """One with its two gradients: 64 filters of 3 x 3."""
    form = {"data_format": f'at_string: "channels_{"last" if last else "first"}"', "padding_before": ints(1, 1)}
    back = {"num_spatial_dims": "at_int32: 2", "kernel_size": ints(3, 3), **form}

    def add(g, x):
        xs = g.input("x", np.resize(x, (2, 16, 16, channels) if last else (2, channels, 16, 16)))
        ws = g.input("w", np.resize(x, (64, 3, 3, channels) if last else (64, channels, 3, 3)))
        y = g.op("y", "conv2d", {"in": xs, "weight": ws}, ("out",), **form)
        g.output("dx", g.op("d", "conv_data_grad", {"dy": y, "filter": ws, "x_like": xs}, ("dx",), **back))
        return g.op("f", "conv_filter_grad", {"dy": y, "x": xs}, ("filter_diff",), **back)

    return add


def attention(g, x):
    q, k, v = (g.input(name, np.resize(x, (2, 128, 64))) for name in "qkv")
    return g.op("op", "scaled_dot_product_attention", {"query": q, "key": k, "value": v}, ("out", "log_sum"))


def with_rows(kind, names, vectors, outputs, accurate=True, column=False, **attrs):
    """Of tensors of one shape, and of a number for each of their rows: in f32 beside f16, where `accurate`; [rows, 1] as a `column`."""

    def add(g, x):
        type_of = np.float32 if accurate and x.dtype == np.float16 else x.dtype
        given = {name: g.input(name, x + i) for i, name in enumerate(names)}
        given |= {name: g.input(name, (x[:, :1] if column else x[:, 0]).astype(type_of) ** 2 + 1) for name in vectors}
        return g.op("op", kind, given, outputs, **attrs)

    return add


NORM = {"begin_norm_axis": "at_int64: 1", "begin_params_axis": "at_int64: 1", "epsilon": "at_double: 1e-5"}
# name: (shape, adds the op to a graph)
INSTANCES = {
    "relu": ((64, 256), unary("relu")),
    "exp": ((64, 256), unary("exp")),
    "broadcast_add": ((64, 256), with_same("broadcast_add", "xy", ("z",))),
    "broadcast_mul by row": ((64, 256), with_row("broadcast_mul", "x", ("y",), ("z",))),
    "bias_add": ((64, 256), with_row("bias_add", "a", ("b",), ("out",), axis="at_int32: 1")),
    "reduce_sum of rows": ((64, 512), unary("reduce_sum", "input_tensor", "output_tensor", axis=ints(1), keepdims="at_bool: false")),
    "reduce_max of rows": ((64, 512), unary("reduce_max", "input_tensor", "output_tensor", axis=ints(1), keepdims="at_bool: false")),
    "reduce_sum of columns": ((64, 512), unary("reduce_sum", "input_tensor", "output_tensor", axis=ints(0), keepdims="at_bool: false")),
    "var of rows": ((64, 512), unary("var", "input", "output", dim=ints(1), unbiased="at_bool: true", keepdim="at_bool: false")),
    "softmax": ((64, 512), unary("softmax", "in", "out")),
    "log_softmax": ((64, 512), unary("log_softmax", "in", "prob")),
    "layer_norm": ((64, 512), with_row("layer_norm", "x", ("gamma", "beta"), ("y", "mean", "inv_variance"), center="at_bool: true", scale="at_bool: true", **NORM)),
    "rms_norm": ((64, 512), with_row("rms_norm", "x", ("weight",), ("y", "inv_rms"), normalized_shape="at_shape { dim: 512 }")),
    "l2_normalize": ((64, 512), unary("l2_normalize", "x", "y", axis="at_int32: 1", epsilon="at_float: 1e-6")),
    "softmax_grad": ((64, 512), with_same("softmax_grad", ("y", "dy"), ("dx",))),
    "log_softmax_grad": ((64, 512), with_same("log_softmax_grad", ("prob", "dy"), ("dx",))),
    "softmax_cross_entropy": ((64, 512), with_same("softmax_cross_entropy", ("prediction", "label"), ("prob", "out"))),
    "softmax_cross_entropy_grad": ((64, 512), with_rows("softmax_cross_entropy_grad", ("label", "prob"), ("dy",), ("prediction_diff",), False)),
    "layer_norm_grad": ((32, 1024), with_rows("layer_norm_grad", ("dy", "x"), ("mean", "inv_variance"), ("dx",), begin_norm_axis="at_int64: 1", epsilon="at_double: 1e-5")),
    "layer_norm_param_grad": ((64, 512), with_rows("layer_norm_param_grad", ("dy", "x"), ("mean", "inv_variance"), ("beta_diff", "gamma_diff"), begin_params_axis="at_int64: 1")),
    "normalization_grad": ((2, 8, 32, 32), channels_grad),
    "l2_normalize_grad": ((64, 512), with_rows("l2_normalize_grad", ("dy", "y"), ("square_x_sum",), ("dx",), False, True, axis="at_int32: 1", epsilon="at_float: 1e-6")),
    "transpose": ((128, 256), unary("transpose", "input", "output", perm=ints(1, 0))),
    "transpose of heads": ((4, 32, 8, 64), unary("transpose", "input", "output", perm=ints(0, 2, 1, 3))),
    "matmul": ((64, 64), matmul),
    "matmul of a transposed": ((64, 64), lambda g, x: matmul(g, x, transpose_a="at_bool: true")),
    "matmul by a transposed": ((64, 64), lambda g, x: matmul(g, x, transpose_b="at_bool: true")),
    "batch_matmul in tiles": ((64, 64), stack(64, False)),
    "batch_matmul of transposed in tiles": ((64, 64), stack(64, True)),
    "batch_matmul in wide tiles": ((64, 64), stack(128, False)),
    "batch_matmul of transposed in wide tiles": ((64, 64), stack(128, True)),
}


# The products' tiles read their operands several times: what they move is no measure of them.
MOVES_ONCE = [name for name in INSTANCES if "matmul" not in name]


def chain(g, x):
    """Three elementwise ops of two tensors."""
    a, b = g.input("x", x), g.input("z", x + 1)
    return g.op("c", "broadcast_mul", {"x": g.op("b", "broadcast_add", {"x": g.op("a", "relu", {"x": a}, ("y",)), "y": b}, ("z",)), "y": b}, ("z",))


def repeated(g, x):
    """An elementwise op of a row and a tensor, and another one."""
    a, b = g.input("x", x), g.input("z", x.reshape(-1)[: x.shape[-1]])
    return g.op("b", "relu", {"x": g.op("a", "broadcast_add", {"x": a, "y": b}, ("z",))}, ("y",))


def scores(g, x):
    """softmax of what elementwise ops make."""
    return g.op("b", "softmax", {"in": g.op("a", "relu", {"x": g.input("x", x)}, ("y",))}, ("out",))


def residual(g, x):
    """rms_norm of a sum, with its weight."""
    total = g.op("a", "broadcast_add", {"x": g.input("x", x), "y": g.input("z", x + 1)}, ("z",))
    given = {"x": total, "weight": g.input("w", x.reshape(-1)[: x.shape[-1]])}
    return g.op("b", "rms_norm", given, ("y", "inv_rms"), normalized_shape="at_shape { dim: 512 }")


# Each is one kernel of generated code.
REGIONS = {"region of a chain": ((64, 256), chain), "region with a row": ((64, 256), repeated), "region of a softmax": ((64, 512), scores),
           "region of a norm": ((64, 512), residual)}


# Every sixteenth element of a row: a sector for each, of which an eighth (f32) is wanted.
SCATTERED = {"slice by steps": ((64, 512), unary("slice", start="at_list_int64 { val: 0 val: 0 }", stop="at_list_int64 { val: 64 val: 512 }",
                                                 step="at_list_int64 { val: 1 val: 16 }"))}


# More than a block holds: each element is read twice.
LONG = ((8, 8192), unary("logsumexp", "input_tensor", "output_tensor", axis=ints(1), keepdims="at_bool: false"))


# The matrix units' kernels of other ops, and those of f32.
UNITS = {"convolution, channels last": ((64, 64), convolution(True)), "convolution, channels first": ((64, 64), convolution(False))}
HALF = {**UNITS, "attention": ((64, 64), attention)}
ROUNDED = {f"{name}, TF32": instance for name, instance in {**INSTANCES, **UNITS}.items() if "matmul" in name or name in UNITS}


def counters(instances=None, types=TYPES, *options, traffic=None):
    """{(instance, type, kernel): (sectors over the least, wavefronts over the least)}; what each instance moves over its inputs and outputs
    comes into `traffic`."""
    found = {}
    for name, (shape, add) in (instances or INSTANCES).items():
        for kind in types:
            with tempfile.TemporaryDirectory() as folder:
                graph = Graph()
                x = np.random.default_rng(3).uniform(-1, 1, shape).astype(kind)
                graph.output("result", add(graph, x))
                done, outputs = graph.run("sim", *options, policy=f"report={folder}/report.json")
                assert done.returncode == 0, (name, kind, done.stderr)
                with open(os.path.join(folder, "report.json"), encoding="utf-8") as f:
                    kernels = json.load(f)["kernels"]
                for kernel, k in kernels.items():
                    ratios = [k[n] / k["ideal_" + n] if k["ideal_" + n] else 1.0 for n in ("sectors", "wavefronts")]
                    found[name, np.dtype(kind).name, kernel] = tuple(ratios)
                if traffic is not None:
                    needed = sum(tensor.nbytes for tensor in (*graph.inputs.values(), *outputs.values()))
                    traffic[name, np.dtype(kind).name] = SECTOR * sum(k["sectors"] for k in kernels.values()) / needed
    return found


def all_counters():
    """Those of single ops and of regions, and their traffic."""
    traffic = {}
    found = counters(None, TYPES, "--no-fuse", traffic=traffic) | counters(HALF, (np.float16,), "--no-fuse")
    found |= counters(ROUNDED, (np.float32,), "--no-fuse", "--allow-tf32") | counters(REGIONS, (np.float32, np.float16), traffic=traffic)
    return found, {key: ratio for key, ratio in traffic.items() if key[0] in MOVES_ONCE or key[0] in REGIONS}


def listed():
    """A line: KERNEL of INSTANCE | reason, or traffic of INSTANCE | reason."""
    return dict(reasons("sectors.txt"))


class Accesses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not modules():
            raise unittest.SkipTest("this build has no kernels for GPUs (nvcc)")
        cls.found, cls.traffic = all_counters()

    def test_bounds(self):
        reasons = listed()
        for reason in reasons.values():
            self.assertGreaterEqual(len(reason), 20)
        above = {f"{kernel} of {name}" for (name, _, kernel), (sectors, wavefronts) in self.found.items() if sectors > SECTORS or wavefronts > 1}
        above |= {f"traffic of {name}" for (name, _), ratio in self.traffic.items() if ratio > TRAFFIC}
        self.assertEqual(sorted(above), sorted(reasons), "kernels above the bounds, and tests/gpusim/sectors.txt")

    def test_bad_accesses_are_seen(self):
        """Those of an op that cannot have others are above the bound."""
        traffic = {}
        for (name, kind, kernel), (sectors, _) in counters(SCATTERED, TYPES, "--no-fuse", traffic=traffic).items():
            self.assertGreater(sectors, 2, (name, kind, kernel))
        # A kernel that reads its input twice moves half as much again, and one that reads less than half of it less than all.
        counters({"logsumexp of long rows": LONG}, (np.float32,), "--no-fuse", traffic=traffic)
        self.assertGreater(traffic["logsumexp of long rows", "float32"], 1.4)
        self.assertLess(traffic["slice by steps", "float32"], 0.9)

    def test_what_was_counted(self):
        """Kernels of all kinds, those with shared memory among them."""
        kernels = {kernel for _, _, kernel in self.found}
        self.assertGreaterEqual(len(kernels), 40)
        self.assertEqual(len(self.traffic), len(MOVES_ONCE) * len(TYPES) + len(REGIONS) * 2)
        for (name, _), ratio in self.traffic.items():  # all of it is moved
            self.assertGreaterEqual(ratio, 1, name)
        for name in REGIONS:
            for kind in ("float32", "float16"):
                self.assertEqual(len([1 for of, its, _ in self.found if (of, its) == (name, kind)]), 1, name)
        for name in ("matmul_f32", "transpose_tiles_2", "transpose_tiles_8", "matmul_units_f32", "matmul_units_wide_f32", "reduce_sum_rows_f32", "reduce_sum_columns_f64"):
            self.assertIn(name, kernels)


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        kernels, moved = all_counters()
        for (name, kind, kernel), (sectors, wavefronts) in kernels.items():
            print(f"{name:24} {kind:8} {kernel:36} {sectors:6.3f} {wavefronts:6.3f}")
        for (name, kind), ratio in moved.items():
            print(f"{name:24} {kind:8} {'traffic':36} {ratio:6.3f}")
    else:
        unittest.main(argv=sys.argv[:1] + ["-v"])
