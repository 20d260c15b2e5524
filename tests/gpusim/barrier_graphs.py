# Small graphs that execute what the cases of operators do not: every barrier of kernels, with two steps of each loop around it; arguments of
# a convolution that all differ; grids of several blocks.
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import zlib

import numpy as np

sys.path.insert(0, os.path.join(os.environ["OPC_SOURCE_DIR"], "tests", "cli"))
from gpu_ops import Graph as OpGraph  # noqa: E402

FLOATS = {"f32": "kFloat", "f64": "kDouble", "f16": "kFloat16", "bf16": "kBFloat16"}


def ints(*values):
    return "at_list_int32 { " + " ".join(f"val: {v}" for v in values) + " }"


class Graph(OpGraph):
    """Inputs are given in f64 and converted, so that a graph has the same ops in several types."""

    def __init__(self):
        super().__init__()
        self.many = 0

    def tensor(self, kind, *shape):
        name = f"x{len(self.inputs)}"
        given = self.input(name, np.random.default_rng(zlib.crc32(f"{name} {kind}".encode())).uniform(-1, 1, shape))
        return given if kind == "f64" else self.one("cast", {"in": given}, ("out",), keep=(), dtype=f"at_data_type: {FLOATS[kind]}")

    def one(self, kind, inputs, outputs, keep=None, **attrs):
        """Adds an op, whose outputs (or those to keep) become the graph's; gives the first."""
        self.many += 1
        first = self.op(f"op{self.many}", kind, inputs, outputs, **attrs)
        for name in outputs if keep is None else keep:
            self.output(f"op{self.many}_{name}", f"op{self.many}/{name}_0")
        return first


def attention(backward):
    """Two tiles of queries and of keys, two pieces of each row, two heads."""
    g = Graph()
    for kind in FLOATS:
        given = {"query": g.tensor(kind, 2, 17, 20), "key": g.tensor(kind, 2, 70, 20), "value": g.tensor(kind, 2, 70, 18)}
        out = g.one("scaled_dot_product_attention", given, ("out", "log_sum"))
        if backward:
            given.update(out=out, log_sum=out.replace("/out_0", "/log_sum_0"), dout=g.tensor(kind, 2, 17, 18))
            g.one("scaled_dot_product_attention_grad", given, ("dquery", "dkey", "dvalue"))
    return g


def attention_units():
    """Two blocks of queries, three tiles of keys, of which the last one has one piece or two, two pieces of each row."""
    g = Graph()
    for kind in ("f16", "bf16"):
        for keys in (150, 170):
            given = {"query": g.tensor(kind, 1, 130, 40), "key": g.tensor(kind, 1, keys, 40), "value": g.tensor(kind, 1, keys, 136)}
            g.one("scaled_dot_product_attention", given, ("out", "log_sum"))
    return g


def convolutions(kinds=FLOATS, sizes=((16, 9), (3, 2)), batch=1, side=5):
    """Two pieces of the sums of each product, in tiles and in sums of whole blocks."""
    g = Graph()
    for kind in kinds:
        for last in (False, True):
            form = {"data_format": 'at_string: "channels_last"' if last else 'at_string: "channels_first"'}
            for filters, channels in sizes:
                x = g.tensor(kind, *((batch, side, side, channels) if last else (batch, channels, side, side)))
                w = g.tensor(kind, *((filters, 3, 3, channels) if last else (filters, channels, 3, 3)))
                y = g.one("conv2d", {"in": x, "weight": w}, ("out",), padding_before=ints(1, 1), **form)
                back = {"num_spatial_dims": "at_int32: 2", "kernel_size": ints(3, 3), "padding_before": ints(1, 1), **form}
                g.one("conv_data_grad", {"dy": y, "filter": w, "x_like": x}, ("dx",), **back)
                g.one("conv_filter_grad", {"dy": y, "x": x}, ("filter_diff",), **back)
    return g


def convolution_units(kinds):
    """Two tiles of each product and of its steps, with and without accesses of 16 bytes."""
    return convolutions(kinds, ((16, 8), (16, 9)), 2, 7)


def products():
    """Two pieces of each sum, and 64 tiles: those of 64 x 64 and of 128 x 128 sums."""
    g = Graph()
    for kind, batch, side, depth in (("f32", 64, 33, 20), ("f64", 64, 33, 20), ("i32", 64, 33, 20), ("f32", 64, 65, 10),
                                     ("f16", 3, 33, 40), ("bf16", 3, 33, 40), ("f16", 64, 65, 40), ("bf16", 64, 65, 40)):
        shapes = (batch, side, depth), (batch, depth, side)
        if kind == "i32":
            a, b = (g.input(f"i{n}", np.random.default_rng(n).integers(-99, 99, shape, dtype=np.int32)) for n, shape in enumerate(shapes))
        else:
            a, b = (g.tensor(kind, *shape) for shape in shapes)
        g.one("batch_matmul", {"a": a, "b": b}, ("out",))
    return g


def rounded_products():
    """The tiles of products() that take TF32."""
    g = Graph()
    for batch, side in ((3, 33), (64, 65)):
        g.one("batch_matmul", {"a": g.tensor("f32", batch, side, 20), "b": g.tensor("f32", batch, 20, side)}, ("out",))
    return g


def fused_convolution():
    g = Graph()
    for layout in ("channels_last", "channels_first"):
        image, weight = ((1, 5, 5, 9), (8, 3, 3, 9)) if layout == "channels_last" else ((1, 9, 5, 5), (8, 9, 3, 3))
        given = {"in": g.tensor("f32", *image), "weight": g.tensor("f32", *weight)}
        g.one("fused_conv2d", given, ("out",), data_format=f'at_string: "{layout}"', weight_format=f'at_string: "{layout}"')
    return g


def recurrent():
    """Products of two pieces."""
    g = Graph()
    for kind in FLOATS:
        given = {"x": g.tensor(kind, 2, 3, 20), "weight": g.tensor(kind, 1, 20, 20), "recurrence": g.tensor(kind, 1, 20, 20)}
        g.one("rnn", given, ("y", "y_h"))
    return g


def scattered_maxima():
    """Two rounds of positions, and two planes."""
    g = Graph()
    window = {"kernel_size": ints(2, 2), "stride": ints(1, 1)}
    for kind in FLOATS:
        x = g.tensor(kind, 1, 2, 18, 18)
        y = g.one("max_pool_2d", {"x": x}, ("y", "indice"), return_indices="at_bool: true", **window)
        g.one("max_pool_2d_grad", {"x": x, "dy": y, "indice": y.replace("/y_0", "/indice_0")}, ("dx",), **window)
    return g


def parameters():
    """More parameters than a block takes at once."""
    g = Graph()
    for kind in FLOATS:
        x, dy = g.tensor(kind, 5, 300), g.tensor(kind, 5, 300)
        given = {"x": x, "gamma": g.tensor(kind, 300), "beta": g.tensor(kind, 300)}
        y = g.one("layer_norm", given, ("y", "mean", "inv_variance"), begin_norm_axis="at_int64: 1", begin_params_axis="at_int64: 1",
                  epsilon="at_double: 1e-5", center="at_bool: true", scale="at_bool: true")
        back = {"dy": dy, "x": x, "mean": y.replace("/y_0", "/mean_0"), "inv_variance": y.replace("/y_0", "/inv_variance_0")}
        g.one("layer_norm_param_grad", back, ("gamma_diff", "beta_diff"), begin_params_axis="at_int64: 1")
    return g


def different_sizes():
    """A convolution whose sizes, steps and paddings differ from each other, in tiles."""
    g = Graph()
    given = {"in": g.tensor("f32", 2, 3, 6, 7, 12), "weight": g.tensor("f32", 9, 3, 2, 3, 2), "bias": g.tensor("f32", 9)}
    g.one("conv3d", given, ("out",), strides=ints(1, 2, 3), dilation_rate=ints(2, 1, 2), padding_before=ints(1, 2, 3))
    return g


def several_blocks():
    g = Graph()
    g.one("relu", {"x": g.tensor("f32", 5000)}, ("y",))
    g.one("reduce_sum", {"input_tensor": g.tensor("f32", 70, 33)}, ("output_tensor",), axis=ints(1))
    given = {"x": g.tensor("f32", 37, 300), "gamma": g.tensor("f32", 300), "beta": g.tensor("f32", 300)}
    g.one("layer_norm", given, ("y", "mean", "inv_variance"), begin_norm_axis="at_int64: 1", begin_params_axis="at_int64: 1", epsilon="at_double: 1e-5",
          center="at_bool: true", scale="at_bool: true")
    g.one("matmul", {"a": g.tensor("f32", 50, 20), "b": g.tensor("f32", 20, 40)}, ("out",))
    g.one("conv2d", {"in": g.tensor("f32", 3, 4, 9, 9), "weight": g.tensor("f32", 9, 4, 3, 3)}, ("out",))
    return g


GRAPHS = {"attention": lambda: attention(False), "attention_units": attention_units, "attention_grad": lambda: attention(True), "convolutions": convolutions,
          "convolution_units": lambda: convolution_units(("f16", "bf16")), "rounded_convolutions": lambda: convolution_units(("f32",)),
          "products": products, "rounded_products": rounded_products, "fused_convolution": fused_convolution, "recurrent": recurrent, "scattered_maxima": scattered_maxima, "parameters": parameters,
          "different_sizes": different_sizes, "several_blocks": several_blocks}


OPTIONS = dict.fromkeys(("rounded_products", "rounded_convolutions"), ("--allow-tf32",))
SIMS = {"convolutions": "cc=75"}  # without matrix units


def run(name, sim):
    """The finished command, and the outputs."""
    return GRAPHS[name]().run("sim", "--no-fuse", *OPTIONS.get(name, ()), policy=",".join(filter(None, (sim, SIMS.get(name)))))
