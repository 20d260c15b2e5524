# Random networks of convolutions and what stands around them: fused and as written, they must agree.
# SPDX-License-Identifier: Apache-2.0
"""usage: fuse_nets.py [FIRST [COUNT]]      seeds; a network that fails is kept in the working directory"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np

OPC = pathlib.Path(os.environ["OPC_BUILD_DIR"]) / "bin/opc"
KINDS = ["conv"] * 4 + ["norm", "bias", "add", "relu", "relu", "clip", "hardtanh", "pool", "mean", "silu", "scale",
                        "reshape", "softmax", "spread"]


def dims(shape):
    return " ".join(f"dim: {d}" for d in shape)


def ints(*values):
    return "at_list_int32 { " + " ".join(f"val: {v}" for v in values) + " }"


def attr(name, value):
    return f'attr {{ key: "{name}" value {{ {value} }} }} '


class Network:
    """Images are (tensor, (batch, channels, height, width)), whatever the layout."""

    def __init__(self, seed):
        self.random = r = random.Random(seed)
        self.first = r.random() < 0.7
        self.format = attr("data_format", 'at_string: "channels_%s"' % ("first" if self.first else "last"))
        self.axis = 1 if self.first else 3
        self.text, self.images = [], []
        shape = (r.choice([1, 2, 3]), r.choice([1, 3, 4, 8]), r.choice([5, 7, 8]), r.choice([4, 6, 9]))
        self.text.append(f'op {{ name: "x" input_conf {{ out: "out" blob_conf {{ shape {{ {dims(self.shape(shape))} }} '
                         "data_type: kFloat } } }")
        self.images.append(("x/out", shape))
        for i in range(r.randint(3, 14)):
            self.grow(f"o{i}", r.choice(self.images[-3:]), r.choice(KINDS))
        inner = self.images[1:-1]
        self.outputs = [self.images[-1]] + r.sample(inner, min(len(inner), r.choice([0, 0, 1, 2])))
        for i, (tensor, _) in enumerate(self.outputs):
            self.text.append(f'op {{ name: "y{i}" output_conf {{ in: "{tensor}" out: "out" }} }}')

    def shape(self, s):
        return s if self.first else (s[0], s[2], s[3], s[1])

    def variable(self, name, shape, low=-1, high=1):
        self.text.append(f'op {{ name: "{name}" variable_conf {{ out: "out" shape {{ {dims(shape)} }} data_type: kFloat '
                         f"initializer {{ random_uniform_conf {{ min: {low} max: {high} }} }} }} }}")
        return name + "/out"

    def op(self, name, kind, inputs, output, attrs=""):
        ins = " ".join(f'input {{ key: "{a}" value {{ s: "{t}" }} }}' for a, t in inputs)
        self.text.append(f'op {{ name: "{name}" user_conf {{ op_type_name: "{kind}" {ins} '
                         f'output {{ key: "{output}" value {{ s: "{name}/{output}_0" }} }} {attrs} }} }}')
        return f"{name}/{output}_0"

    def another(self, shape):
        return self.random.choice([t for t, s in self.images if s == shape])

    def convolution(self, name, x, s):
        r = self.random
        groups = r.choice([1, 1, 1, s[1]])
        filters = r.choice([4, 8, 3]) if groups == 1 else s[1]
        kernel, stride = r.choice([1, 3]), r.choice([1, 1, 2])
        pad = r.choice([0, kernel // 2])
        if min(s[2:]) + 2 * pad < kernel:
            return
        own = s[1] // groups
        weight = (filters, own, kernel, kernel) if self.first else (filters, kernel, kernel, own)
        inputs = [("in", x), ("weight", self.variable(name + "_w", weight))]
        if r.random() < 0.3:
            inputs.append(("bias", self.variable(name + "_b", (filters,))))
        size = [(d + 2 * pad - kernel) // stride + 1 for d in s[2:]]
        attrs = (self.format + attr("strides", ints(stride, stride)) + attr("padding_before", ints(pad, pad))
                 + attr("groups", f"at_int32: {groups}"))
        self.images.append((self.op(name, "conv2d", inputs, "out", attrs), (s[0], filters, *size)))

    def grow(self, name, image, kind):
        r, (x, s) = self.random, image
        add = lambda tensor, shape=s: self.images.append((tensor, shape))
        if kind == "conv":
            self.convolution(name, x, s)
        elif kind == "norm":
            inputs = [("x", x)] + [(a, self.variable(f"{name}_{a}", (s[1],), 0.5, 1.5))
                                   for a in ("gamma", "beta", "moving_mean", "moving_variance")]
            if r.random() < 0.3:
                inputs.append(("_add_to_output", self.another(s)))
            add(self.op(name, "normalization", inputs, "y", attr("axis", f"at_int32: {self.axis}") + attr("epsilon", "at_float: 0.001")))
        elif kind == "bias":
            axis = r.choice([self.axis, self.axis - 4])
            add(self.op(name, "bias_add", [("a", x), ("b", self.variable(name + "_b", (s[1],)))], "out", attr("axis", f"at_int32: {axis}")))
        elif kind == "add":
            pair = [x, self.another(s)]
            r.shuffle(pair)
            add(self.op(name, "broadcast_add", list(zip("xy", pair)), "z"))
        elif kind == "spread":
            add(self.op(name, "broadcast_mul", [("x", x), ("y", self.variable(name + "_v", self.shape((1, s[1], 1, 1))))], "z"))
        elif kind == "clip":
            add(self.op(name, "clip_by_scalar", [("x", x)], "y", attr("floating_min", "at_double: -0.5") + attr("floating_max", "at_double: 1.5")))
        elif kind == "scale":
            add(self.op(name, "scalar_mul", [("in", x)], "out", attr("has_float_operand", "at_bool: true") + attr("float_operand", "at_double: 0.7")))
        elif kind == "pool" and min(s[2:]) >= 2:
            add(self.op(name, "max_pool_2d", [("x", x)], "y", self.format + attr("kernel_size", ints(2, 2)) + attr("stride", ints(1, 2))),
                (s[0], s[1], s[2] - 1, (s[3] - 2) // 2 + 1))
        elif kind == "mean":
            size = attr("output_size", "at_list_int64 { val: 1 val: 1 }")
            add(self.op(name, "adaptive_avg_pool2d", [("x", x)], "y", self.format + size), (s[0], s[1], 1, 1))
        elif kind == "reshape":
            whole = self.shape(s)
            flat = self.op(name, "reshape", [("in", x)], "out", attr("shape", f"at_shape {{ {dims((s[0], s[1] * s[2] * s[3]))} }}"))
            add(self.op(name + "_back", "reshape", [("in", flat)], "out", attr("shape", f"at_shape {{ {dims(whole)} }}")))
        elif kind in ("relu", "hardtanh", "silu", "softmax"):
            arg, out = ("x", "y") if kind == "relu" else ("in", "out")
            add(self.op(name, kind, [(arg, x)], out))


def check(seed, folder):
    network = Network(seed)
    graph = folder / f"{seed}.pbtxt"
    graph.write_text("\n".join(network.text) + "\n")
    found = []
    for flags in ([], ["--no-fuse"]):
        out = folder / f"out{len(flags)}"
        command = [str(OPC), "run", str(graph), "--input", "x=randn", "--seed", "3", "--outputs", f"{out}/", "--print", "none",
                   "-j", str(1 + seed % 2), *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"seed {seed} {flags}: exit code {done.returncode}\n{done.stderr}"
        found.append([np.load(out / f"y{i}.npy") for i in range(len(network.outputs))])
    for i, (fused, plain) in enumerate(zip(*found)):
        error = np.abs(fused - plain).max() / max(1e-6, np.abs(plain).max())
        if fused.shape != plain.shape or not error < 1e-4:
            return f"seed {seed}: output y{i} differs by {error}"
    return None


def main():
    first, count = [int(v) for v in sys.argv[1:3]] + [0, 60][len(sys.argv) - 1 :]
    failures = []
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            failure = check(seed, pathlib.Path(folder))
            if failure:
                failures.append(failure)
                pathlib.Path(f"fuse_nets_{seed}.pbtxt").write_text("\n".join(Network(seed).text) + "\n")
    print("\n".join(failures) or f"{count} networks agree")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
