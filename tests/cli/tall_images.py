# Images one element wide: convolutions and poolings of H x 1 give numpy's numbers and, bit for bit, what 1 x H gives.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

import numpy as np

from folder_test import FolderTest

OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
KINDS = {"f64": "kDouble", "f32": "kFloat", "f16": "kFloat16", "bf16": "kBFloat16", "u8": "kUInt8", "i8": "kInt8"}
# Of the largest value of a result; those of f16 and bf16 are the result's own rounding.
NEAR = {"f64": 1e-13, "f32": 3e-6, "f16": 1e-3, "bf16": 8e-3, "i32": 0}


def stored(values, kind):
    if kind != "bf16":
        return values.astype({"f64": "f8", "f32": "f4", "f16": "f2", "u8": "u1", "i8": "i1"}[kind])
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).view("V2")


def values(array):
    return array if array.dtype.kind != "V" else (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


# --- numpy -----------------------------------------------------------------------------------------------------------
def taps(w, size, stride, dilation):
    """The taps of a kernel, and what part of the padded input each of them sees."""
    for t in np.ndindex(*w.shape[2:]):
        yield t, (..., *(slice(i * d, i * d + (n - 1) * s + 1, s) for i, n, s, d in zip(t, size, stride, dilation)))


def padded(x, pad, value=0.0):
    return np.pad(x, [(0, 0)] * (x.ndim - len(pad)) + [(p, p) for p in pad], constant_values=value)


def grouped(x, groups, axis):
    return x.reshape(*x.shape[:axis], groups, -1, *x.shape[axis + 1:])


def convolved(x, w, stride, dilation, pad, groups):
    size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(x.shape[2:], pad, dilation, w.shape[2:], stride)]
    xs, ws = padded(grouped(x, groups, 1), pad), grouped(w, groups, 0)
    y = sum(np.einsum("ngc...,gfc->ngf...", xs[part], ws[(..., *t)]) for t, part in taps(w, size, stride, dilation))
    return y.reshape(x.shape[0], w.shape[0], *size)


def by_data(dy, w, size, stride, dilation, pad, groups):
    dx = padded(np.zeros((dy.shape[0], groups, w.shape[1], *size)), pad)
    ws, dys = grouped(w, groups, 0), grouped(dy, groups, 1)
    for t, part in taps(w, dy.shape[2:], stride, dilation):
        dx[part] += np.einsum("ngf...,gfc->ngc...", dys, ws[(..., *t)])
    inner = dx[(..., *(slice(p, p + n) for p, n in zip(pad, size)))]
    return inner.reshape(dy.shape[0], -1, *size)


def by_weight(dy, x, w, stride, dilation, pad, groups):
    dw, dys, xs = np.zeros((groups, w.shape[0] // groups, *w.shape[1:])), grouped(dy, groups, 1), padded(grouped(x, groups, 1), pad)
    for t, part in taps(w, dy.shape[2:], stride, dilation):
        seen = xs[part]
        dw[(..., *t)] = np.einsum("ngfp,ngcp->gfc", dys.reshape(*dys.shape[:3], -1), seen.reshape(*seen.shape[:3], -1))
    return dw.reshape(w.shape)


def pool_positions(length, kernel, stride, before, after, dilation, ceil):
    """[windows, kernel] positions in the input; those outside are padding."""
    count = -(-(length + before + after - dilation * (kernel - 1) - 1) // stride) if ceil else (length + before + after - dilation * (kernel - 1) - 1) // stride
    if ceil and count * stride >= length + before:
        count -= 1
    return np.arange(count + 1)[:, None] * stride - before + np.arange(kernel) * dilation


def max_pool(x, at):
    inside = (at >= 0) & (at < x.shape[2])
    seen = np.where(inside, x[:, :, np.clip(at, 0, x.shape[2] - 1)], -np.inf)
    which = seen.argmax(-1)
    return seen.max(-1), np.take_along_axis(np.broadcast_to(at, seen.shape), which[..., None], -1)[..., 0]


def avg_weights(length, at, after, counted):
    """[windows, length]: the share of each element of x in a mean."""
    inside = (at >= 0) & (at < length)
    size = (at < length + after).sum(1) if counted else inside.sum(1)
    shares = np.zeros((len(at), length))
    for o, row in enumerate(at):
        shares[o, row[inside[o]]] = 1 / size[o]
    return shares


# --- graphs ----------------------------------------------------------------------------------------------------------
class Graphs:
    """The same ops twice: with the sizes in the first of the op's spatial dimensions (tall), and in the last (wide)."""

    def __init__(self):
        self.lines, self.feeds, self.expected = {"tall": [], "wide": []}, {"tall": {}, "wide": {}}, {}

    def add(self, op, inputs, outputs, attrs=(), spatial=(), ones=1, last=False, fill=None, relu=False):
        """inputs: argument -> (array [N, C, sizes...] or a vector, type); spatial: attribute -> (numbers, what the other dimensions
        have); outputs: argument -> (expected, type, whether it is an image)."""
        name = f"o{len(self.expected)}"
        for form, lines in self.lines.items():
            join = lambda own, rest: [*own, *rest] if form == "tall" else [*rest, *own]  # noqa: E731
            widen = lambda a, lasts: np.moveaxis(a.reshape(*a.shape[:2], *join(a.shape[2:], [1] * ones)), 1, -1 if lasts else 1)  # noqa: E731
            conf = []
            for arg, (array, kind) in inputs.items():
                array = widen(array, last and not (arg == "weight" and "integer" in op)) if array.ndim > 2 else array
                lines.append(f'op {{ name: "{name}_{arg}" input_conf {{ out: "out" blob_conf {{ shape {{ {" ".join(f"dim: {d}" for d in array.shape)} }} data_type: {KINDS[kind]} }} }} }}')
                self.feeds[form][f"{name}_{arg}"] = np.array(array, order="C")
                conf.append(f'input {{ key: "{arg}" value {{ s: "{name}_{arg}/out" }} }}')
            conf += [f'output {{ key: "{arg}" value {{ s: "{name}/{arg}" }} }}' for arg in outputs]
            for key, (own, rest) in dict(spatial).items():
                conf.append(f'attr {{ key: "{key}" value {{ at_list_int{64 if key == "output_size" else 32} {{ {" ".join(f"val: {v}" for v in join(own, [rest] * ones))} }} }} }}')
            conf += [f'attr {{ key: "{k}" value {{ {v} }} }}' for k, v in dict(attrs).items()]
            conf.append(f'attr {{ key: "data_format" value {{ at_string: "channels_{"last" if last else "first"}" }} }}')
            lines.append(f'op {{ name: "{name}" user_conf {{ op_type_name: "{op}" {" ".join(conf)} }} }}')
            for arg, (expected, kind, image) in outputs.items():
                source = f"{name}/{arg}"
                if relu:
                    lines.append(f'op {{ name: "{name}r" user_conf {{ op_type_name: "relu" input {{ key: "x" value {{ s: "{source}" }} }} output {{ key: "y" value {{ s: "{name}r/y" }} }} }} }}')
                    source = f"{name}r/y"
                lines.append(f'op {{ name: "{name}_{arg}_out" output_conf {{ in: "{source}" out: "out" }} }}')
                expected = np.maximum(expected, 0) if relu else expected
                self.expected.setdefault(f"{name}_{arg}_out", (f"{op} {dict(spatial)} {inputs[next(iter(inputs))][1]} last={last}", {}, kind))[1][form] = widen(expected, last) if image else expected

    def convolutions(self, draw, kind, sizes, channels, filters, kernel, stride=1, dilation=1, pad=0, groups=1, ones=1, last=False, batch=2):
        n = len(sizes)
        s, d, p = [stride] * n, [dilation] * n, [pad] * n
        make = lambda *shape: stored(draw.standard_normal(shape), kind)  # noqa: E731
        f = lambda a: values(a).astype(np.float64)  # noqa: E731
        x, w, b = make(batch, channels, *sizes), make(filters, channels // groups, *[kernel] * n), make(filters)
        y = convolved(f(x), f(w), s, d, p, groups)
        dy = make(*y.shape)
        # What stride and dilation say of a dimension of size 1 does not matter.
        spatial = {"kernel_size": ([kernel] * n, 1), "strides": (s, 3), "dilation_rate": (d, 2), "padding_before": (p, 0)}
        attrs = {"groups": f"at_int32: {groups}"}
        bias = f(b).reshape(-1, *[1] * n)
        self.add(f"conv{n + ones}d", {"in": (x, kind), "weight": (w, kind), "bias": (b, kind)}, {"out": (y + bias, kind, True)}, attrs, spatial, ones, last, relu=kind == "f32")
        backward = {**attrs, "num_spatial_dims": f"at_int32: {n + ones}"}
        self.add("conv_data_grad", {"dy": (dy, kind), "filter": (w, kind), "x_like": (x, kind)}, {"dx": (by_data(f(dy), f(w), sizes, s, d, p, groups), kind, True)}, backward, spatial, ones, last)
        self.add("conv_filter_grad", {"dy": (dy, kind), "x": (x, kind)}, {"filter_diff": (by_weight(f(dy), f(x), f(w), s, d, p, groups), kind, True)}, backward, spatial, ones, last)
        back = [(m - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1 for m in y.shape[2:]]
        made = by_data(f(dy), f(w), back, s, d, p, groups)
        self.add(f"deconv{n + ones}d", {"in": (dy, kind), "weight": (w, kind)}, {"out": (made, kind, True)}, attrs, spatial, ones, last)

    def integers(self, draw, channels, filters, groups=1, stride=1, dilation=1, pad=2, signed=False, last=False, size=90):
        low, kind = (-128, "i8") if signed else (0, "u8")
        x = stored(draw.integers(low, low + 256, (2, channels, size)), kind)
        w = stored(draw.integers(-128, 128, (filters, channels // groups, 5)), "i8")
        zero = np.array(low + 77, dtype=x.dtype)
        y = convolved(x.astype(np.float64) - float(zero), w.astype(np.float64), [stride], [dilation], [pad], groups)
        spatial = {"kernel_size": ([5], 1), "strides": ([stride], 2), "dilation_rate": ([dilation], 3), "padding_before": ([pad], 0)}
        inputs, attrs = {"in": (x, kind), "weight": (w, "i8"), "in_zero_point": (zero, kind)}, {"groups": f"at_int32: {groups}"}
        if not last:
            return self.add("integer_conv2d", inputs, {"out": (y, "i32", True)}, attrs, spatial)
        inputs["scale"] = (np.float32(0.25), "f32")  # exact: the sums have fewer than 24 bits
        return self.add("fused_integer_conv2d", inputs, {"out": (y * 0.25, "f32", True)}, {**attrs, "dtype": "at_data_type: kFloat"}, spatial, last=True)

    def poolings(self, draw, kind, size, kernel, stride, before, after, ceil=False, dilation=1, last=False, counted=False):
        f = lambda a: values(a).astype(np.float64)  # noqa: E731
        x = stored(draw.standard_normal((2, 5, size)), kind)
        spatial = {"kernel_size": ([kernel], 1), "stride": ([stride], 2), "padding": ([before], 0), "padding_after": ([after], 0)}
        attrs, image = {"ceil_mode": f"at_bool: {str(ceil).lower()}"}, lambda v: (v, kind, True)  # noqa: E731
        at = pool_positions(size, kernel, stride, before, after, dilation, ceil)
        y, where = max_pool(f(x), at)
        dy = stored(draw.standard_normal(y.shape), kind)
        dx = np.zeros(x.shape)
        np.add.at(dx, (*np.indices(where.shape)[:2], where), f(dy))
        dilated = {**spatial, "dilation": ([dilation], 3)}
        self.add("max_pool_2d", {"x": (x, kind)}, {"y": image(y)}, attrs, dilated, last=last)
        self.add("max_pool_2d", {"x": (x, kind)}, {"y": image(y), "indice": (where, "i32", True)}, {**attrs, "return_indices": "at_bool: true"}, dilated, last=last)
        self.add("max_pool_2d_grad", {"x": (x, kind), "dy": (dy, kind)}, {"dx": image(dx)}, attrs, dilated, last=last)
        at = pool_positions(size, kernel, stride, before, after, 1, ceil)
        shares = avg_weights(size, at, after, counted)
        dy = stored(draw.standard_normal((2, 5, len(at))), kind)
        attrs["count_include_pad"] = f"at_bool: {str(counted).lower()}"
        self.add("avg_pool_2d", {"x": (x, kind)}, {"y": image(f(x) @ shares.T)}, attrs, spatial, last=last)
        self.add("avg_pool_2d_grad", {"dy": (dy, kind), "x": (x, kind)}, {"dx": image(f(dy) @ shares)}, attrs, spatial, last=last)
        shares = np.zeros((7, size))
        for i in range(7):
            part = slice(i * size // 7, -(-(i + 1) * size // 7))
            shares[i, part] = 1 / (part.stop - part.start)
        dy = stored(draw.standard_normal((2, 5, 7)), kind)
        self.add("adaptive_avg_pool2d", {"x": (x, kind)}, {"y": image(f(x) @ shares.T)}, {}, {"output_size": ([7], 1)}, last=last)
        self.add("adaptive_avg_pool2d_grad", {"dy": (dy, kind), "x": (x, kind)}, {"dx": image(f(dy) @ shares)}, {}, {"output_size": ([7], 1)}, last=last)


class TallImages(FolderTest):
    def run_form(self, graphs, form, *more):
        path = lambda name: os.path.join(self.folder, f"{form}{name}")  # noqa: E731
        with open(path(".pbtxt"), "w", encoding="utf-8") as f:
            f.write("\n".join(graphs.lines[form]) + "\n")
        np.savez(path(".npz"), **graphs.feeds[form])
        done = subprocess.run([OPC, "run", path(".pbtxt"), "--inputs", path(".npz"), "--outputs", path(""), "--print", "none", "--config", "none", *more],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return {end: np.load(os.path.join(path(""), f"{end}.npy")) for end in graphs.expected}

    def check(self, graphs):
        first = {}
        for more in (["-j", "1"], ["-j", "2"], ["-j", "2", "--no-fuse"]):
            tall, wide = self.run_form(graphs, "tall", *more), self.run_form(graphs, "wide", *more)
            for end, (what, expected, kind) in graphs.expected.items():
                with self.subTest(what=what, end=end, more=more):
                    for got, form in ((tall[end], "tall"), (wide[end], "wide")):
                        self.assertEqual(got.shape, expected[form].shape)
                        error = np.abs(values(got).astype(np.float64) - expected[form]).max()
                        self.assertLessEqual(error, NEAR[kind] * np.abs(expected[form]).max())
                    self.assertEqual(tall[end].tobytes(), wide[end].tobytes(), "H x 1 and 1 x H differ in their bits")
                    if "--no-fuse" not in more:
                        self.assertEqual(tall[end].tobytes(), first.setdefault(end, tall[end]).tobytes())

    def test_convolutions(self):
        graphs, draw = Graphs(), np.random.default_rng(3)
        for kind in ("f32", "f64", "f16", "bf16"):
            graphs.convolutions(draw, kind, [150], 32, 48, 5, pad=2)
            graphs.convolutions(draw, kind, [700], 3, 32, 16, stride=4, pad=6, batch=1)
            graphs.convolutions(draw, kind, [97], 16, 32, 9, stride=4, pad=3, batch=3)
            graphs.convolutions(draw, kind, [60], 12, 8, 3, dilation=4, groups=4)
            graphs.convolutions(draw, kind, [83], 32, 32, 7, stride=2, pad=3, groups=32)
            graphs.convolutions(draw, kind, [50], 32, 32, 1)
            graphs.convolutions(draw, kind, [40], 16, 24, 5, stride=2, dilation=2, pad=4, last=True)
            graphs.convolutions(draw, kind, [83], 32, 32, 3, pad=1, groups=32, last=True)
        # Where the library's order of summation follows the shape of an image.
        graphs.convolutions(draw, "f32", [30], 1024, 32, 3)
        graphs.convolutions(draw, "f32", [40], 3, 5, 3)
        self.check(graphs)

    def test_volumes(self):
        graphs, draw = Graphs(), np.random.default_rng(4)
        for kind in ("f32", "f64"):
            graphs.convolutions(draw, kind, [90], 16, 16, 5, stride=2, pad=2, ones=2)
            graphs.convolutions(draw, kind, [21, 14], 16, 16, 3, pad=1)
            graphs.convolutions(draw, kind, [12, 9], 8, 16, 2, dilation=2, groups=2, last=True)
        self.check(graphs)

    def test_integers(self):
        graphs, draw = Graphs(), np.random.default_rng(5)
        for last in (False, True):
            graphs.integers(draw, 32, 48, last=last)
            graphs.integers(draw, 32, 32, groups=32, signed=True, last=last)
            graphs.integers(draw, 16, 16, stride=3, dilation=2, pad=3, last=last)
            graphs.integers(draw, 6, 10, groups=2, pad=0, signed=True, last=last)
            graphs.integers(draw, 8, 16, size=2311, last=last)  # in bands, of unequal lengths
        self.check(graphs)

    def test_poolings(self):
        graphs, draw = Graphs(), np.random.default_rng(6)
        for kind in ("f32", "f64", "f16", "bf16"):
            for last in (False, True):
                graphs.poolings(draw, kind, 41, 3, 2, 1, 1, last=last)
                graphs.poolings(draw, kind, 44, 4, 3, 2, 0, ceil=True, counted=True, last=last)
                graphs.poolings(draw, kind, 30, 5, 1, 0, 2, dilation=3, last=last)
            graphs.poolings(draw, kind, 6007, 4, 2, 1, 2, counted=True)  # in pieces
            graphs.poolings(draw, kind, 5000, 3, 1, 1, 1, ceil=True)
        self.check(graphs)


if __name__ == "__main__":
    unittest.main()
