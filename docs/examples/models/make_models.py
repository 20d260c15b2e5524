#!/usr/bin/env python3
# Makes the benchmark models: for each an opc graph, a safetensors file of weights, an ONNX model with the same weights,
# the same graph as a list of steps (JSON, for PyTorch), and an input. numpy only; the same bytes on every machine.
#
#   python3 make_models.py DIR [--models resnet50,mobilenet,encoder,gpt,mlp] [--batch 1,8] [--tiny]
#   opc run DIR/mlp_b1.pbtxt --weights DIR/mlp.safetensors --input x=@DIR/mlp_b1_x.npy

import argparse
import json
import pathlib
import struct

import numpy as np

from onnx_writer import OnnxWriter


class Model:
    """One graph written three ways at once. Tensors are (name, shape); `steps` is the list for PyTorch."""

    def __init__(self, name, batch, weights):
        self.name, self.batch = name, batch
        self.weights = weights  # name -> array, shared by all batch sizes
        self.text, self.steps, self.onnx = [], [], OnnxWriter()
        self.names = {}  # our tensor name -> the graph's

    # --- the parts that each op is made of
    def fresh(self, kind):
        count = sum(1 for s in self.steps if s["name"].startswith(kind)) + 1
        return f"{kind}{count}"

    def variable(self, name, make):
        if name not in self.weights:
            self.weights[name] = make().astype("f4")
        array = self.weights[name]
        dims = " ".join(f"dim: {d}" for d in array.shape)
        self.text.append(f'op {{ name: "{name}" variable_conf {{ out: "out" shape {{ {dims} }} data_type: kFloat }} }}')
        self.onnx.constant(name, array)
        self.names[name] = f"{name}/out"
        return name

    def user(self, name, kind, inputs, output, **attrs):
        lines = [f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}"']
        for key, tensor in inputs:
            lines.append(f'input {{ key: "{key}" value {{ s: "{self.names[tensor]}" }} }}')
        outputs = output if isinstance(output, (list, tuple)) else [output]
        for key in outputs:
            lines.append(f'output {{ key: "{key}" value {{ s: "{name}/{key}_0" }} }}')
        for key, (kind_, value) in attrs.items():
            if kind_.startswith("at_list"):
                value = "{ " + " ".join(f"val: {v}" for v in value) + " }"
            elif kind_ == "at_shape":
                value = "{ " + " ".join(f"dim: {v}" for v in value) + " }"
            elif kind_ == "at_string":
                value = f'"{value}"'
            elif kind_ == "at_bool":
                value = str(value).lower()
            joint = " " if value and str(value)[0] == "{" else ": "
            lines.append(f'attr {{ key: "{key}" value {{ {kind_}{joint}{value} }} }}')
        self.text.append("\n  ".join(lines) + "\n} }")
        self.names[name] = f"{name}/{outputs[0]}_0"

    def step(self, op, name, inputs, **attrs):
        self.steps.append({"op": op, "name": name, "inputs": inputs, **attrs})

    # --- graph input and output
    def input(self, shape):
        self.shape = shape
        dims = " ".join(f"dim: {d}" for d in shape)
        self.text.append(f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ {dims} }} data_type: kFloat }} }} }}')
        self.names["x"] = "x/out"
        return "x", shape

    def save(self, folder, result):
        name, shape = result
        self.text.append(f'op {{ name: "y" output_conf {{ in: "{self.names[name]}" out: "out" }} }}')
        stem = folder / f"{self.name}_b{self.batch}"
        stem.with_suffix(".pbtxt").write_text("\n".join(self.text) + "\n")
        self.onnx.save(stem.with_suffix(".onnx"), self.name, [("x", self.shape)], [(name, shape)])
        stem.with_suffix(".json").write_text(json.dumps({"steps": self.steps, "output": name}) + "\n")
        x = np.random.RandomState(7).standard_normal(self.shape).astype("f4")
        np.save(f"{stem}_x.npy", x)

    # --- operators
    def conv(self, x, filters, kernel, stride=1, groups=1):
        """Convolution without bias, then batch normalisation with stored statistics."""
        name, (n, c, h, w) = x
        out, pad = self.fresh("conv"), kernel // 2
        r = random_of(out)
        fan = c // groups * kernel * kernel
        weight = self.variable(f"{out}_w", lambda: r.standard_normal((filters, c // groups, kernel, kernel)) * (2 / fan) ** 0.5)
        size = [(d + 2 * pad - kernel) // stride + 1 for d in (h, w)]
        pair = lambda v: ("at_list_int32", (v, v))
        self.user(out, "conv2d", [("in", name), ("weight", weight)], "out", filters=("at_int32", filters),
                  kernel_size=pair(kernel), strides=pair(stride), padding_before=pair(pad), dilation_rate=pair(1),
                  groups=("at_int32", groups), data_format=("at_string", "channels_first"))
        self.onnx.node("Conv", [name, weight], out, kernel_shape=(kernel, kernel), strides=(stride, stride),
                       pads=(pad,) * 4, group=groups)
        self.step("conv", out, [name, weight], stride=stride, pad=pad, groups=groups)
        norm = self.fresh("norm")
        parameters = [self.variable(f"{norm}_{p}", f) for p, f in (
            ("gamma", lambda: r.uniform(0.6, 1.0, filters)), ("beta", lambda: r.standard_normal(filters) * 0.1),
            ("mean", lambda: r.standard_normal(filters) * 0.1), ("var", lambda: r.uniform(0.8, 1.2, filters)))]
        keys = ("gamma", "beta", "moving_mean", "moving_variance")
        self.user(norm, "normalization", [("x", out)] + list(zip(keys, parameters)), "y", axis=("at_int32", 1),
                  epsilon=("at_float", 1e-5), training=("at_bool", False))
        self.onnx.node("BatchNormalization", [out] + parameters, norm, epsilon=1e-5)
        self.step("norm", norm, [out] + parameters)
        return norm, (n, filters, *size)

    def unary(self, x, op, onnx, in_arg, out_arg, **attrs):
        out = self.fresh(op)
        self.user(out, op, [(in_arg, x[0])], out_arg, **attrs)
        onnx_op, onnx_attrs = onnx
        self.onnx.node(onnx_op, [x[0]], out, **onnx_attrs)
        self.step(op, out, [x[0]])
        return out, x[1]

    def relu(self, x):
        return self.unary(x, "relu", ("Relu", {}), "x", "y")

    def gelu(self, x, fast=False):
        op = "fast_gelu" if fast else "gelu"
        return self.unary(x, op, ("Gelu", {"approximate": "tanh"} if fast else {}), "in", "out")

    def softmax(self, x):
        return self.unary(x, "softmax", ("Softmax", {"axis": -1}), "in", "out")

    def relu6(self, x):
        out = self.fresh("clip")
        self.user(out, "clip_by_scalar", [("x", x[0])], "y", floating_min=("at_double", 0.0), floating_max=("at_double", 6.0))
        bounds = [self.onnx.constant(f"{out}_{i}", np.float32(v)) for i, v in enumerate((0, 6))]
        self.onnx.node("Clip", [x[0], *bounds], out)
        self.step("relu6", out, [x[0]])
        return out, x[1]

    def scale(self, x, factor):
        out = self.fresh("scale")
        self.user(out, "scalar_mul", [("in", x[0])], "out", has_float_operand=("at_bool", True), float_operand=("at_double", factor))
        self.onnx.node("Mul", [x[0], self.onnx.constant(f"{out}_k", np.float32(factor))], out)
        self.step("scale", out, [x[0]], factor=factor)
        return out, x[1]

    def add(self, x, y):
        out = self.fresh("add")
        self.user(out, "broadcast_add", [("x", x[0]), ("y", y[0])], "z")
        self.onnx.node("Add", [x[0], y[0]], out)
        self.step("add", out, [x[0], y[0]])
        return out, x[1]

    def max_pool(self, x):
        name, (n, c, h, w) = x
        out = self.fresh("pool")
        pair = lambda v: ("at_list_int32", (v, v))
        self.user(out, "max_pool_2d", [("x", name)], "y", kernel_size=pair(3), stride=pair(2), padding=pair(1))
        self.onnx.node("MaxPool", [name], out, kernel_shape=(3, 3), strides=(2, 2), pads=(1,) * 4)
        self.step("max_pool", out, [name])
        return out, (n, c, (h - 1) // 2 + 1, (w - 1) // 2 + 1)

    def global_average(self, x):
        """The mean over the image, as [batch, channels]."""
        name, (n, c, _, _) = x
        out = self.fresh("mean")
        self.user(out, "adaptive_avg_pool2d", [("x", name)], "y", output_size=("at_list_int64", (1, 1)))
        self.onnx.node("GlobalAveragePool", [name], out)
        self.step("mean", out, [name])
        return self.reshape((out, (n, c, 1, 1)), (n, c))

    def reshape(self, x, shape):
        out = self.fresh("reshape")
        # The batch follows, so that the graph serves any: opc run GRAPH --shape x=1..64,128,512
        self.user(out, "reshape", [("in", x[0])], "out", shape=("at_shape", (-1, *shape[1:])))
        self.onnx.node("Reshape", [x[0], self.onnx.constant(f"{out}_shape", np.array(shape, "i8"))], out)
        self.step("reshape", out, [x[0]], shape=shape)
        return out, tuple(shape)

    def transpose(self, x, perm):
        out = self.fresh("transpose")
        self.user(out, "transpose", [("input", x[0])], "output", perm=("at_list_int32", perm))
        self.onnx.node("Transpose", [x[0]], out, perm=perm)
        self.step("transpose", out, [x[0]], perm=perm)
        return out, tuple(x[1][p] for p in perm)

    def linear(self, x, features):
        """x times a weight [in, features], plus a bias."""
        name, shape = x
        out, depth = self.fresh("linear"), shape[-1]
        r = random_of(out)
        weight = self.variable(f"{out}_w", lambda: r.standard_normal((depth, features)) * depth ** -0.5)
        bias = self.variable(f"{out}_b", lambda: r.standard_normal(features) * 0.02)
        product = f"{out}_product"
        self.user(product, "matmul" if len(shape) == 2 else "broadcast_matmul", [("a", name), ("b", weight)], "out")
        self.user(out, "bias_add", [("a", product), ("b", bias)], "out", axis=("at_int32", len(shape) - 1))
        if len(shape) == 2:
            self.onnx.node("Gemm", [name, weight, bias], out)
        else:
            self.onnx.node("MatMul", [name, weight], product)
            self.onnx.node("Add", [product, bias], out)
        self.step("linear", out, [name, weight, bias])
        return out, (*shape[:-1], features)

    def product(self, x, y, transposed=False):
        """Products of two stacks of matrices; `transposed`: y's are [columns, depth]."""
        out = self.fresh("product")
        attrs = {"transpose_b": ("at_bool", True)} if transposed else {}
        self.user(out, "batch_matmul", [("a", x[0]), ("b", y[0])], "out", **attrs)
        second = y[0]
        if transposed:
            rank = len(y[1])
            second = self.onnx.node("Transpose", [y[0]], f"{out}_t", perm=(*range(rank - 2), rank - 1, rank - 2))
        self.onnx.node("MatMul", [x[0], second], out)
        self.step("product", out, [x[0], y[0]], transposed=transposed)
        return out, (*x[1][:-1], y[1][-2 if transposed else -1])

    def layer_norm(self, x):
        name, shape = x
        out = self.fresh("layernorm")
        r = random_of(out)
        gamma = self.variable(f"{out}_gamma", lambda: r.uniform(0.8, 1.2, shape[-1]))
        beta = self.variable(f"{out}_beta", lambda: r.standard_normal(shape[-1]) * 0.1)
        axis = ("at_int64", len(shape) - 1)
        self.user(out, "layer_norm", [("x", name), ("gamma", gamma), ("beta", beta)], ("y", "mean", "inv_variance"),
                  center=("at_bool", True), scale=("at_bool", True), begin_norm_axis=axis, begin_params_axis=axis,
                  epsilon=("at_double", 1e-5))
        self.onnx.node("LayerNormalization", [name, gamma, beta], out, axis=-1, epsilon=1e-5)
        self.step("layer_norm", out, [name, gamma, beta])
        return out, shape

    def constant(self, name, array):
        return self.variable(name, lambda: array), array.shape


def random_of(name):
    """A generator for each layer: a model's weights do not depend on what was made before."""
    return np.random.RandomState(np.frombuffer(name.encode().ljust(16, b"."), "u4") % (1 << 31))


# --- the models ------------------------------------------------------------------------------------------------------
def resnet50(m, tiny):
    """ResNet-50 v1.5 (He et al., 2015; the stride of a block sits in its 3x3 convolution)."""
    size, width, blocks = (32, 8, (1, 1)) if tiny else (224, 64, (3, 4, 6, 3))
    x = m.relu(m.conv(m.input((m.batch, 3, size, size)), width, 7, 2))
    x = m.max_pool(x)
    for stage, count in enumerate(blocks):
        planes = width << stage
        for i in range(count):
            stride = 2 if stage and not i else 1
            y = m.relu(m.conv(x, planes, 1))
            y = m.relu(m.conv(y, planes, 3, stride))
            y = m.conv(y, planes * 4, 1)
            if not i:
                x = m.conv(x, planes * 4, 1, stride)
            x = m.relu(m.add(y, x))
    return m.linear(m.global_average(x), 10 if tiny else 1000)


def mobilenet(m, tiny):
    """MobileNet v2 (Sandler et al., 2018)."""
    size = 32 if tiny else 224
    rows = [(1, 16, 1, 1), (6, 24, 2, 2)] if tiny else [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    x = m.relu6(m.conv(m.input((m.batch, 3, size, size)), 32, 3, 2))
    for expand, planes, count, first in rows:
        for i in range(count):
            stride, y, hidden = first if not i else 1, x, x[1][1] * expand
            if expand > 1:
                y = m.relu6(m.conv(y, hidden, 1))
            y = m.relu6(m.conv(y, hidden, 3, stride, hidden))
            y = m.conv(y, planes, 1)
            x = m.add(x, y) if stride == 1 and x[1] == y[1] else y
    x = m.relu6(m.conv(x, 64 if tiny else 1280, 1))
    return m.linear(m.global_average(x), 10 if tiny else 1000)


def attention(m, x, heads, mask=None):
    batch, length, width = x[1]
    split = lambda t: m.transpose(m.reshape(t, (batch, length, heads, width // heads)), (0, 2, 1, 3))
    q, k, v = (split(m.linear(x, width)) for _ in range(3))
    scores = m.scale(m.product(q, k, True), (width // heads) ** -0.5)
    if mask:
        scores = m.add(scores, mask)
    mixed = m.transpose(m.product(m.softmax(scores), v), (0, 2, 1, 3))
    return m.linear(m.reshape(mixed, x[1]), width)


def encoder(m, tiny):
    """A transformer encoder with normalisation after each sum (Vaswani et al., 2017), gelu in between."""
    layers, width, heads, hidden, length = (2, 32, 4, 64, 16) if tiny else (6, 512, 8, 2048, 128)
    x = m.input((m.batch, length, width))
    for _ in range(layers):
        x = m.layer_norm(m.add(x, attention(m, x, heads)))
        x = m.layer_norm(m.add(x, m.linear(m.gelu(m.linear(x, hidden)), width)))
    return x


def gpt(m, tiny):
    """Blocks of GPT-2 (Radford et al., 2019): normalisation first, causal mask, gelu by tanh."""
    layers, width, heads, length = (2, 32, 4, 16) if tiny else (4, 768, 12, 128)
    x = m.input((m.batch, length, width))
    mask = m.constant("mask", np.triu(np.full((length, length), -1e9, "f4"), 1)[None, None])
    for _ in range(layers):
        x = m.add(x, attention(m, m.layer_norm(x), heads, mask))
        x = m.add(x, m.linear(m.gelu(m.linear(m.layer_norm(x), 4 * width), True), width))
    return m.layer_norm(x)


def mlp(m, tiny):
    sizes = (48, 64, 64, 10) if tiny else (784, 4096, 4096, 10)
    x = m.input((m.batch, sizes[0]))
    for i, size in enumerate(sizes[1:]):
        x = m.linear(x, size)
        if i + 2 < len(sizes):
            x = m.relu(x)
    return x


MODELS = {"resnet50": resnet50, "mobilenet": mobilenet, "encoder": encoder, "gpt": gpt, "mlp": mlp}


def save_safetensors(path, tensors):
    header, offset = {}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": "F32", "shape": a.shape, "data_offsets": [offset, offset + a.nbytes]}
        offset += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            f.write(np.ascontiguousarray(a).tobytes())


def main():
    parser = argparse.ArgumentParser(description="makes the benchmark models")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--tiny", action="store_true", help="small sizes of the same shapes, for tests")
    args = parser.parse_args()
    names = args.models.split(",")
    for name in names:
        if name not in MODELS:
            parser.error(f"no model '{name}'; there are {', '.join(MODELS)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        weights = {}
        for batch in map(int, args.batch.split(",")):
            model = Model(name, batch, weights)
            model.save(args.folder, MODELS[name](model, args.tiny))
        save_safetensors(args.folder / f"{name}.safetensors", weights)


if __name__ == "__main__":
    main()
