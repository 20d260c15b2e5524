# References of convolution, pooling, normalisation, softmax and resampling, by PyTorch.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
import torch.nn.functional as F

from .table import REFERENCES, Typed, reference


def first(c, x):
    """The tensor with channels first, and the way back."""
    if c.attr("data_format", default="channels_first") == "channels_first":
        return x, lambda y: y
    return x.movedim(-1, 1), lambda y: y.movedim(1, -1)


def grad_of(fn, dy, *leaves, by):
    leaves = [None if a is None else a.clone().requires_grad_(i == by) for i, a in enumerate(leaves)]
    fn(*leaves).backward(dy)
    return leaves[by].grad


# --- convolution -----------------------------------------------------------------------------------------------------
def spatial(c, name, default):
    """A list by spatial axis; one that is left out is the default everywhere."""
    return c.attr(name) or default


def conv_settings(c):
    return dict(stride=spatial(c, "strides", 1), padding=spatial(c, "padding_before", 0), dilation=spatial(c, "dilation_rate", 1), groups=c.attr("groups", default=1))


def convolve(rank):
    def run(c):
        x, back = first(c, c.torch("in"))
        w, _ = first(c, c.torch("weight"))
        out = getattr(F, f"conv{rank}d")(x, w, c.torch("bias"), **conv_settings(c))
        out = back(out).numpy()
        return out if not c.has("_add_to_output") else out + c.get("_add_to_output")

    return run


for r in (1, 2, 3):
    REFERENCES[f"conv{r}d"] = convolve(r)


@reference("fused_conv2d")
def fused_conv2d(c):
    """The weight is [filters, channels / groups, ...] in both layouts."""
    x, back = first(c, c.torch("in"))
    y = F.conv2d(x, c.torch("weight"), c.torch("bias"), **conv_settings(c))
    if c.has("gamma"):
        y = F.batch_norm(y, c.torch("moving_mean"), c.torch("moving_variance"), c.torch("gamma"), c.torch("beta"), eps=c.attr("epsilon"))
    y = back(y)
    if c.has("_add_to_output"):
        y = y + c.torch("_add_to_output")
    activation = c.attr("activation", default="")
    if activation == "relu":
        y = F.relu(y)
    elif activation == "clip":
        y = y.clamp(c.attr("activation_min"), c.attr("activation_max"))
    return y.numpy()


@reference("conv_data_grad")
def conv_data_grad(c):
    rank = c.attr("num_spatial_dims")
    like, back = first(c, c.torch("x_like"))
    dy, _ = first(c, c.torch("dy"))
    w, _ = first(c, c.torch("filter"))
    conv = getattr(F, f"conv{rank}d")
    dx = back(grad_of(lambda x: conv(x, w, **conv_settings(c)), dy, like.double(), by=0)).numpy()
    return dx + c.get("_add_to_output") if c.has("_add_to_output") else dx


@reference("conv_filter_grad")
def conv_filter_grad(c):
    rank = c.attr("num_spatial_dims")
    x, back = first(c, c.torch("x"))
    dy, _ = first(c, c.torch("dy"))
    groups = c.attr("groups", default=1)
    w = torch.zeros(dy.shape[1], x.shape[1] // groups, *c.attr("kernel_size"), dtype=torch.float64)
    conv = getattr(F, f"conv{rank}d")
    return back(grad_of(lambda w: conv(x, w, **conv_settings(c)), dy, w, by=0)).numpy()


@reference("conv_bias_grad")
def conv_bias_grad(c):
    dy, _ = first(c, c.torch("dy"))
    return dy.sum(dim=[d for d in range(dy.ndim) if d != 1]).numpy()


def deconvolve(rank):
    def run(c):
        x, back = first(c, c.torch("in"))
        w, _ = first(c, c.torch("weight"))
        fn = getattr(F, f"conv_transpose{rank}d")
        out = fn(x, w, c.torch("bias"), stride=spatial(c, "strides", 1), padding=spatial(c, "padding_before", 0),
                 output_padding=spatial(c, "output_padding", 0), groups=c.attr("groups", default=1), dilation=spatial(c, "dilation_rate", 1))
        return back(out).numpy()

    return run


for r in (1, 2, 3):
    REFERENCES[f"deconv{r}d"] = deconvolve(r)


# --- pooling ---------------------------------------------------------------------------------------------------------
def max_pool(rank):
    def run(c):
        x, back = first(c, c.torch("x"))
        fn = getattr(F, f"max_pool{rank}d")
        y, index = fn(x.double(), c.attr("kernel_size"), spatial(c, "stride", None), spatial(c, "padding", 0), spatial(c, "dilation", 1),
                      ceil_mode=c.attr("ceil_mode", default=False), return_indices=True)
        return {"y": back(y.to(x.dtype)).numpy(), "indice": Typed(back(index).numpy(), "i64")}

    return run


def avg_pool(rank):
    def run(c):
        x, back = first(c, c.torch("x"))
        settings = dict(kernel_size=c.attr("kernel_size"), stride=spatial(c, "stride", None), padding=spatial(c, "padding", 0),
                        ceil_mode=c.attr("ceil_mode", default=False), count_include_pad=c.attr("count_include_pad", default=True))
        if rank > 1:
            settings["divisor_override"] = c.attr("divisor_override", default=0) or None
        return back(getattr(F, f"avg_pool{rank}d")(x, **settings)).numpy()

    return run


def adaptive(kind, rank):
    def run(c):
        x, back = first(c, c.torch("x"))
        size = c.attr("output_size")
        size = size[0] if rank == 1 else tuple(size)
        if kind == "avg":
            return back(getattr(F, f"adaptive_avg_pool{rank}d")(x, size)).numpy()
        y, index = getattr(F, f"adaptive_max_pool{rank}d")(x, size, return_indices=True)
        return {"y": back(y).numpy(), "index": Typed(back(index).numpy(), "i64")}

    return run


for r in (1, 2, 3):
    REFERENCES[f"max_pool_{r}d"] = max_pool(r)
    REFERENCES[f"avg_pool_{r}d"] = avg_pool(r)
    REFERENCES[f"adaptive_avg_pool{r}d"] = adaptive("avg", r)
    REFERENCES[f"adaptive_max_pool{r}d"] = adaptive("max", r)


def resample(mode, corners):
    def run(c):
        x, back = first(c, c.torch("x"))
        size = c.attr("output_size", default=[]) or None
        scale = None if size else [v for v in (c.attr("depth_scale"), c.attr("height_scale", "scale_factor"), c.attr("width_scale")) if v is not None][-(x.ndim - 2):]
        extra = {"align_corners": c.attr("align_corners", default=False)} if corners else {}
        return back(F.interpolate(x, size=size, scale_factor=scale, mode=mode, **extra)).numpy()

    return run


for name, mode in {"nearest_1d": "nearest", "nearest_2d": "nearest", "nearest_3d": "nearest"}.items():
    REFERENCES[f"upsample_{name}"] = resample(mode, False)
for name, mode in {"linear_1d": "linear", "bilinear_2d": "bilinear", "bicubic_2d": "bicubic", "trilinear_3d": "trilinear"}.items():
    REFERENCES[f"upsample_{name}"] = resample(mode, True)


# --- normalisation ---------------------------------------------------------------------------------------------------
def channel(axis, rank):
    shape = [1] * rank
    shape[axis] = -1
    return shape


@reference("normalization")
def normalization(c):
    x, axis, eps = c.get("x"), c.attr("axis"), c.attr("epsilon")
    shape = channel(axis, x.ndim)
    if c.attr("training", default=False):
        over = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
        mean, v = x.mean(axis=over), x.var(axis=over)
    else:
        mean, v = c.get("moving_mean"), c.get("moving_variance")
    inv = 1 / np.sqrt(v + eps)
    y = (x - mean.reshape(shape)) * inv.reshape(shape) * c.get("gamma").reshape(shape) + c.get("beta").reshape(shape)
    if c.has("_add_to_output"):
        y = y + c.get("_add_to_output")
    result = {"y": y, "mean": stat(c, mean), "inv_variance": stat(c, inv)}
    if c.has("moving_mean"):
        result["moving_mean"], result["moving_variance"] = c.get("moving_mean"), c.get("moving_variance")
        if c.attr("training", default=False):
            k, n = c.attr("momentum"), x.size // x.shape[axis]
            result["moving_mean"] = k * result["moving_mean"] + (1 - k) * mean
            result["moving_variance"] = k * result["moving_variance"] + (1 - k) * v * n / (n - 1)
    return result


@reference("normalization_grad")
def normalization_grad(c):
    x, dy, axis = c.get("x"), c.get("dy"), c.attr("axis")
    over = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    shape = channel(axis, x.ndim)
    inv = c.get("inv_variance").reshape(shape)
    xhat = (x - c.get("mean").reshape(shape)) * inv
    beta, gamma = dy.sum(axis=over), (dy * xhat).sum(axis=over)
    n = x.size // x.shape[axis]
    if not c.attr("training", default=True):
        return {"dx": c.get("gamma").reshape(shape) * inv * dy, "gamma_diff": stat(c, gamma), "beta_diff": stat(c, beta)}
    dx = c.get("gamma").reshape(shape) * inv * (dy - (beta.reshape(shape) + xhat * gamma.reshape(shape)) / n)
    return {"dx": dx, "gamma_diff": stat(c, gamma), "beta_diff": stat(c, beta)}


def stat(c, a):
    """Statistics of half types are f32."""
    return Typed(a, "f32") if c.dtype in ("f16", "bf16") else a


@reference("layer_norm")
def layer_norm(c):
    x, begin, eps = c.get("x"), c.attr("begin_norm_axis"), c.attr("epsilon")
    begin %= x.ndim
    over = tuple(range(begin, x.ndim))
    mean = x.mean(axis=over, keepdims=True)
    inv = 1 / np.sqrt(x.var(axis=over, keepdims=True) + eps)
    y = (x - mean) * inv
    if c.has("gamma"):
        y = y * c.get("gamma")
    if c.has("beta"):
        y = y + c.get("beta")
    return {"y": y, "mean": stat(c, mean.reshape(x.shape[:begin])), "inv_variance": stat(c, inv.reshape(x.shape[:begin]))}


@reference("layer_norm_grad")
def layer_norm_grad(c):
    x, dy, begin = c.get("x"), c.get("dy"), c.attr("begin_norm_axis") % c.get("x").ndim
    over = tuple(range(begin, x.ndim))
    shape = x.shape[:begin] + (1,) * len(over)
    inv = c.get("inv_variance").reshape(shape)
    xhat = (x - c.get("mean").reshape(shape)) * inv
    d = dy * c.get("gamma") if c.has("gamma") else dy
    dx = inv * (d - d.mean(axis=over, keepdims=True) - xhat * (d * xhat).mean(axis=over, keepdims=True))
    return dx + c.get("_add_to_output") if c.has("_add_to_output") else dx


@reference("layer_norm_param_grad")
def layer_norm_param_grad(c):
    x, dy, begin = c.get("x"), c.get("dy"), c.attr("begin_params_axis") % c.get("x").ndim
    lead = c.get("mean").ndim
    shape = x.shape[:lead] + (1,) * (x.ndim - lead)
    xhat = (x - c.get("mean").reshape(shape)) * c.get("inv_variance").reshape(shape)
    over = tuple(range(begin))
    return {"gamma_diff": stat(c, (dy * xhat).sum(axis=over)), "beta_diff": stat(c, dy.sum(axis=over))}


@reference("rms_norm")
def rms_norm(c):
    x, shape = c.get("x"), c.attr("normalized_shape")
    over = tuple(range(x.ndim - len(shape), x.ndim))
    inv = 1 / np.sqrt((x**2).mean(axis=over, keepdims=True) + c.attr("epsilon"))
    y = x * inv
    if c.has("weight"):
        y = y * c.get("weight")
    return {"y": y, "inv_rms": stat(c, inv.reshape(x.shape[: x.ndim - len(shape)]))}


@reference("group_norm")
def group_norm(c):
    x, back = first(c, c.torch("x"))
    x, groups = x.numpy(), c.attr("num_groups")
    flat = x.reshape(x.shape[0], groups, x[:1].size // groups if x.shape[0] else 1)
    mean = flat.mean(axis=2)
    inv = 1 / np.sqrt(flat.var(axis=2) + c.attr("epsilon"))
    y = ((flat - mean[..., None]) * inv[..., None]).reshape(x.shape)
    for name, apply in (("gamma", np.multiply), ("beta", np.add)):
        if c.has(name):
            y = apply(y, c.get(name).reshape(channel(1, x.ndim)))
    if c.attr("activation", default="none") == "silu":
        y = y / (1 + np.exp(-y))
    return {"y": back(torch.from_numpy(y)).numpy(), "mean": stat(c, mean), "inv_variance": stat(c, inv)}


@reference("l2_normalize")
def l2_normalize(c):
    x, axis = c.get("x"), c.attr("axis")
    s = (x**2).sum(axis=axis, keepdims=True)
    return {"y": x / np.sqrt(np.maximum(s, c.attr("epsilon"))), "square_x_sum": s}


# --- softmax ---------------------------------------------------------------------------------------------------------
REFERENCES["softmax"] = lambda c: F.softmax(torch.from_numpy(c.only()), dim=-1).numpy()
REFERENCES["log_softmax"] = lambda c: F.log_softmax(torch.from_numpy(c.only()), dim=-1).numpy()


@reference("softmax_grad")
def softmax_grad(c):
    y, dy = c.get("y"), c.get("dy")
    return y * (dy - (y * dy).sum(axis=-1, keepdims=True))


@reference("log_softmax_grad")
def log_softmax_grad(c):
    y, dy = c.get("prob", "y"), c.get("dy")
    return dy - np.exp(y) * dy.sum(axis=-1, keepdims=True)
