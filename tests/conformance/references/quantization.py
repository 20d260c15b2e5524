# References of the quantised ops: numpy's integers; real numbers are divided and multiplied in the op's own type.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from .nn import conv_settings
from .table import Typed, reference


DTYPES = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "i32": np.int32}


def along_axis(c, values, x):
    """Scales or zero points, shaped to broadcast over x."""
    if values is None:
        return 0
    if values.size == 1:
        return values.reshape(())
    shape = [1] * x.ndim
    shape[c.attr("axis", default=1)] = -1
    return values.reshape(shape)


def held(c, steps, x):
    """Rounded, moved by the zero point and held to the type of the output."""
    dtype = c.types.get("zero_point") or c.attr("dtype", default="u8")
    info = np.iinfo(DTYPES[dtype])
    return Typed(np.clip(np.rint(steps).astype(np.float64) + along_axis(c, c.get("zero_point"), x), info.min, info.max), dtype)


@reference("quantize_linear")
def quantize_linear(c):
    own = np.float64 if c.dtype == "f64" else np.float32
    x = c.get("in").astype(own)
    return held(c, x / along_axis(c, c.get("scale").astype(own), x), x)


@reference("requantize")
def requantize(c):
    x = c.get("in").astype(np.float32)
    return held(c, x * along_axis(c, c.get("scale").astype(np.float32), x), x)


@reference("dequantize_linear")
def dequantize_linear(c):
    x = c.get("in").astype(np.int64)
    return (x - along_axis(c, c.get("zero_point"), x)) * along_axis(c, c.get("scale"), x)


@reference("dynamic_quantize_linear")
def dynamic_quantize_linear(c):
    x = c.get("in").astype(np.float32)
    low, high = min(np.float32(0), x.min(initial=0)), max(np.float32(0), x.max(initial=0))
    scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    return {"out": Typed(np.clip(np.rint(x / scale) + zero, 0, 255), "u8"), "scale": Typed(scale, "f32"), "zero_point": Typed(zero, "u8")}


@reference("integer_matmul")
def integer_matmul(c):
    a, b = c.get("a").astype(np.int64), c.get("b").astype(np.int64)
    if c.attr("transpose_b", default=False):
        b = np.swapaxes(b, -1, -2)
    left, right = c.get("a_zero_point"), c.get("b_zero_point")
    if left is not None:
        a = a - left.astype(np.int64).reshape(-1, 1)
    if right is not None:
        b = b - right.astype(np.int64).reshape(1, -1)
    out = a @ b
    return Typed(out if c.get("bias") is None else out + c.get("bias"), "i32")


def finished(c, sums, axis):
    """The sums as bytes, or as real numbers; f32 rounds them first."""
    vector = lambda v: v if v.size == 1 else v.reshape([-1 if k == axis else 1 for k in range(sums.ndim)])
    sums = sums.astype(np.int64)
    if c.attr("relu", default=False):
        sums = np.maximum(sums, 0)
    steps = sums.astype(np.float32) * vector(c.get("scale").astype(np.float32))
    dtype = c.attr("dtype", default="u8")
    if dtype == "f32":
        return Typed(steps, dtype)
    zero = vector(c.get("zero_point")) if c.has("zero_point") else 0
    info = np.iinfo(DTYPES[dtype])
    return Typed(np.clip(np.rint(steps).astype(np.float64) + zero, info.min, info.max), dtype)


@reference("fused_integer_matmul")
def fused_integer_matmul(c):
    sums = integer_matmul(c).array
    return finished(c, sums, sums.ndim - 1)


def convolve(rank, images=lambda x: x):
    def run(c):
        import torch  # f64 is exact on these sums

        x, w = images(c.get("in").astype(np.float64)), c.get("weight").astype(np.float64)
        if c.has("in_zero_point"):
            x = x - c.get("in_zero_point").reshape(())
        if c.has("weight_zero_point"):
            w = w - c.get("weight_zero_point").reshape([-1] + [1] * (w.ndim - 1))
        bias = None if c.get("bias") is None else torch.from_numpy(c.get("bias").astype(np.float64))
        out = getattr(torch.nn.functional, f"conv{rank}d")(torch.from_numpy(x), torch.from_numpy(w), bias, **conv_settings(c))
        return Typed(np.rint(out.numpy()), "i32")

    return run


for _rank in (1, 2, 3):
    reference(f"integer_conv{_rank}d")(convolve(_rank))


@reference("fused_integer_conv2d")
def fused_integer_conv2d(c):
    """The weight is [filters, channels / groups, ...] in both layouts."""
    if c.attr("data_format", default="channels_first") == "channels_first":
        return finished(c, convolve(2)(c).array, 1)
    sums = convolve(2, lambda x: np.moveaxis(x, -1, 1))(c).array
    return finished(c, np.moveaxis(sums, 1, -1), 3)
