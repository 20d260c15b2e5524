# References of ops that move, cut, join and make data.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
import torch.nn.functional as F

from .table import REFERENCES, Typed, reference


@reference("reshape")
def reshape(c):
    return c.get("in").reshape(c.attr("shape"))


@reference("reshape_like")
def reshape_like(c):
    return c.get("in").reshape(c.get("like").shape)


@reference("flatten")
def flatten(c):
    x = c.get("in")
    s, e = c.attr("start_dim", default=0), c.attr("end_dim", default=-1)
    return torch.flatten(torch.from_numpy(x), s, e).numpy()


@reference("transpose")
def transpose(c):
    return np.transpose(c.get("input"), c.attr("perm"))


@reference("expand_dims")
def expand_dims(c):
    return np.expand_dims(c.get("in"), c.attr("axis"))


@reference("squeeze")
def squeeze(c):
    return np.squeeze(c.get("in"), tuple(c.attr("axes")))


@reference("concat", "cat")
def concat(c):
    return np.concatenate(c.all("in"), axis=c.attr("axis", default=0))


@reference("stack")
def stack(c):
    return np.stack(c.all("in"), axis=c.attr("axis", default=0))


@reference("split_like")
def split_like(c):
    x, axis = c.get("in"), c.attr("axis", default=0)
    ends = np.cumsum([like.shape[axis] for like in c.all("like")])
    return {"out": np.split(x, ends[:-1], axis=axis)}


def region(c):
    """OneFlow's slice: per axis start, stop, step, in numpy's sense; stop may lie past the end."""
    return tuple(slice(a, b, s) for a, b, s in zip(c.attr("start"), c.attr("stop"), c.attr("step")))


@reference("slice")
def slice_(c):
    return c.get("x")[region(c)]


@reference("slice_grad")
def slice_grad(c):
    shape = c.attr("like_shape") or c.get("like").shape
    out = np.zeros(shape, c.get("dy").dtype)
    out[region(c)] = c.get("dy")
    return out


@reference("slice_update")
def slice_update(c):
    out = c.get("ref", "x").copy()
    out[region(c)] = c.get("value", "update")
    return out


@reference("narrow")
def narrow(c):
    x, dim, start, length = c.get("in"), c.attr("dim"), c.attr("start"), c.attr("length")
    return np.take(x, np.arange(start, start + length), axis=dim)


@reference("narrow_grad")
def narrow_grad(c):
    out = np.zeros(c.get("like").shape, c.get("dy").dtype)
    at = [slice(None)] * out.ndim
    at[c.attr("dim")] = slice(c.attr("start"), c.attr("start") + c.attr("length"))
    out[tuple(at)] = c.get("dy")
    return out


@reference("broadcast_like")
def broadcast_like(c):
    x, like, axes = c.get("x"), c.get("like"), list(c.attr("broadcast_axes", default=[]))
    if axes and x.ndim != like.ndim:
        for a in sorted(i % like.ndim for i in axes):
            x = np.expand_dims(x, a)
    return np.broadcast_to(x, like.shape)


@reference("expand")
def expand(c):
    x, shape = c.get("in"), list(c.attr("expand_shape", "logical_expand_shape"))
    x = x.reshape((1,) * (len(shape) - x.ndim) + x.shape)
    return np.broadcast_to(x, [x.shape[i] if d == -1 else d for i, d in enumerate(shape)])


@reference("flip")
def flip(c):
    return np.flip(c.get("x"), tuple(c.attr("dims")))


@reference("roll")
def roll(c):
    dims = c.attr("dims", default=[])
    return np.roll(c.get("in"), c.attr("shifts"), tuple(dims) if len(dims) else None)


def triangle(c, of):
    x = c.get("in")
    fill = c.attr("floating_fill_value", default=0) if c.attr("is_floating_fill_value", default=False) else c.attr("integer_fill_value", default=0)
    return np.where(of(np.ones(x.shape[-2:], bool), c.attr("diagonal")), x, np.asarray(fill).astype(x.dtype))


reference("tril")(lambda c: triangle(c, np.tril))
reference("triu")(lambda c: triangle(c, np.triu))


@reference("diagonal")
def diagonal(c):
    return np.diagonal(c.get("in"), c.attr("offset", default=0), 0, 1).copy()


@reference("diag")
def diag(c):
    return np.diag(c.get("in"), c.attr("diagonal", default=0)).copy()


@reference("repeat")
def repeat(c):
    return np.repeat(c.get("in")[None], c.attr("repeat_num"), axis=0)


@reference("pad")
def pad(c):
    x = c.get("x")
    before, after = list(c.attr("padding_before", default=[])), list(c.attr("padding_after", default=[]))
    if not before:
        p = list(c.attr("padding"))
        pairs = [(p[i], p[i + 1]) for i in range(0, len(p), 2)]
        pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    else:
        pairs = list(zip(before, after))
    v = c.attr("floating_constant_value", default=0.0) if c.floating else c.attr("integral_constant_value", default=0)
    padded = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in pairs], constant_values=v)
    return padded[tuple(slice(max(-a, 0), padded.shape[i] - max(-b, 0)) for i, (a, b) in enumerate(pairs))]


def torch_pad(mode):
    def run(c):
        x = c.torch("x")
        return F.pad(x.double(), list(c.attr("padding")), mode=mode).to(x.dtype).numpy()

    return run


for name, mode in {"reflection_pad1d": "reflect", "reflection_pad2d": "reflect", "replication_pad1d": "replicate", "replication_pad2d": "replicate"}.items():
    REFERENCES[name] = torch_pad(mode)


@reference("constant_pad2d", "constant_pad1d", "constant_pad3d")
def constant_pad(c):
    v = c.attr("floating_value", default=0.0) if c.floating else c.attr("integral_value", default=0)
    return F.pad(c.torch("x"), list(c.attr("padding")), value=v).numpy()


@reference("unfold")
def unfold(c):
    return F.unfold(c.torch("x"), c.attr("kernel_size"), c.attr("dilation_rate", "dilation"), c.attr("padding"), c.attr("strides", "stride")).numpy()


@reference("fold")
def fold(c):
    return F.fold(c.torch("x"), c.attr("output_size"), c.attr("kernel_size"), c.attr("dilation_rate", "dilation"), c.attr("padding"), c.attr("strides", "stride")).numpy()


@reference("constant")
def constant(c):
    v = c.attr("floating_value", default=0.0) if c.attr("is_floating_value", default=False) else c.attr("integer_value", default=0)
    dtype = c.attr("dtype")
    kind = np.float64 if dtype in ("f16", "bf16", "f32", "f64") else np.int64
    return Typed(np.full(c.attr("shape"), v, kind), dtype)


@reference("zero_like", "zeros_like")
def zero_like(c):
    return np.zeros_like(c.only())


@reference("ones_like")
def ones_like(c):
    return np.ones_like(c.only())


@reference("constant_like")
def constant_like(c):
    v = c.attr("floating_value", default=0.0) if c.attr("is_floating_value", default=False) else c.attr("integer_value", default=0)
    return np.full_like(c.only(), v)


@reference("arange")
def arange(c):
    dtype = c.attr("dtype")
    kind = "float" if dtype in ("f16", "bf16", "f32", "f64") else "integer"
    return Typed(np.arange(c.attr(f"{kind}_start"), c.attr(f"{kind}_limit"), c.attr(f"{kind}_delta")), dtype)


@reference("range")
def range_(c):
    return Typed(np.arange(c.attr("start"), c.attr("limit"), c.attr("delta")), c.attr("dtype"))


@reference("eye")
def eye(c):
    dtype = c.attr("dtype")
    return Typed(np.eye(c.attr("rows"), c.attr("cols"), dtype=np.float64 if dtype[0] in "fb" and dtype != "bool" else np.int64), dtype)
