# References of the ops that are gradients of others: PyTorch's autograd of the forward op, or the sum written out.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
import torch.nn.functional as F

from .nn import first, spatial, stat
from .table import reference


def autograd(forward, x, dy):
    """d (forward(x) . dy) / d x, in f64."""
    x = x.clone().double().requires_grad_()
    forward(x).backward(dy.double())
    return x.grad


def keeps_layout(pool):
    """The gradient of a pooling, in either layout."""

    def run(c):
        x, back = first(c, c.torch("x"))
        dy, _ = first(c, c.torch("dy"))
        return back(autograd(lambda v: pool(c, v), x, dy)).numpy()

    return run


def max_pool(rank):
    def pool(c, x):
        return getattr(F, f"max_pool{rank}d")(x, c.attr("kernel_size"), spatial(c, "stride", None), spatial(c, "padding", 0), spatial(c, "dilation", 1),
                                              ceil_mode=c.attr("ceil_mode", default=False))

    return keeps_layout(pool)


def avg_pool(rank):
    def pool(c, x):
        settings = dict(kernel_size=c.attr("kernel_size"), stride=spatial(c, "stride", None), padding=spatial(c, "padding", 0),
                        ceil_mode=c.attr("ceil_mode", default=False), count_include_pad=c.attr("count_include_pad", default=True))
        if rank > 1:
            settings["divisor_override"] = c.attr("divisor_override", default=0) or None
        return getattr(F, f"avg_pool{rank}d")(x, **settings)

    return keeps_layout(pool)


def adaptive(rank):
    def pool(c, x):
        size = c.attr("output_size")
        return getattr(F, f"adaptive_avg_pool{rank}d")(x, size[0] if rank == 1 else tuple(size))

    return keeps_layout(pool)


for r in (1, 2, 3):
    reference(f"max_pool_{r}d_grad")(max_pool(r))
    reference(f"avg_pool_{r}d_grad")(avg_pool(r))
    reference(f"adaptive_avg_pool{r}d_grad")(adaptive(r))

for name, mode in {"reflection": "reflect", "replication": "replicate"}.items():
    for r in (1, 2):
        reference(f"{name}_pad{r}d_grad")(lambda c, mode=mode: autograd(lambda x: F.pad(x, c.attr("padding"), mode=mode), c.torch("x"), c.torch("dy")).numpy())


def upsample(mode, corners):
    def run(c):
        size = c.attr("output_size", default=[]) or None
        scale = None if size else [c.attr("height_scale"), c.attr("width_scale")]
        extra = {"align_corners": c.attr("align_corners", default=False)} if corners else {}
        return autograd(lambda x: F.interpolate(x, size=size, scale_factor=scale, mode=mode, **extra), c.torch("x"), c.torch("dy")).numpy()

    return run


reference("upsample_nearest_2d_grad")(upsample("nearest", False))
reference("upsample_bilinear_2d_grad")(upsample("bilinear", True))
reference("upsample_bicubic_2d_grad")(upsample("bicubic", True))


@reference("affine_grid_grad")
def affine_grid_grad(c):
    size = list(c.attr("size"))
    theta = torch.zeros(size[0], len(size) - 2, len(size) - 1)
    return autograd(lambda t: F.affine_grid(t, size, c.attr("align_corners")), theta, c.torch("dgrid")).numpy()


@reference("grid_sample_grad")
def grid_sample_grad(c):
    x, grid = c.torch("input").requires_grad_(), c.torch("grid").requires_grad_()
    F.grid_sample(x, grid, c.attr("interpolation_mode"), c.attr("padding_mode"), c.attr("align_corners")).backward(c.torch("doutput"))
    return {"dinput": x.grad.numpy(), "dgrid": grid.grad.numpy()}


@reference("grid_sample_grad_grad")
def grid_sample_grad_grad(c):
    """PyTorch has none. Derivatives along (ddinput, ddgrid) of its output and of its gradients, which are piecewise polynomials:
    a five-point difference in f64."""
    x, grid, dx, dgrid = c.torch("input"), c.torch("grid"), c.torch("ddinput"), c.torch("ddgrid")

    def at(t):
        a, b = (x + t * dx).requires_grad_(), (grid + t * dgrid).requires_grad_()
        y = F.grid_sample(a, b, c.attr("interpolation_mode"), c.attr("padding_mode"), c.attr("align_corners"))
        y.backward(c.torch("doutput"))
        return y.detach().numpy(), a.grad.numpy(), b.grad.numpy()

    h = 2.0**-12
    far, near = zip(at(2 * h), at(-2 * h)), zip(at(h), at(-h))
    slopes = [(8 * (n[0] - n[1]) - (f[0] - f[1])) / (12 * h) for f, n in zip(far, near)]
    return dict(zip(("ddoutput", "dinput", "dgrid"), slopes))


@reference("diagonal_grad")
def diagonal_grad(c):
    return autograd(lambda x: torch.diagonal(x, c.attr("offset")), c.torch("in"), c.torch("dy")).numpy()


@reference("embedding_grad")
def embedding_grad(c):
    padding = c.attr("padding_idx")
    return autograd(lambda w: F.embedding(c.torch("indices").long(), w, None if padding < 0 else padding, scale_grad_by_freq=c.attr("scale_grad_by_freq")),
                    c.torch("weight"), c.torch("dy")).numpy()


@reference("dim_scatter_update_grad")
def dim_scatter_update_grad(c):
    """Of several writes to one place, in order, the last one counts."""
    dy, index, dim = c.get("dy"), c.get("index").astype(np.int64), c.attr("dim")
    out, last = np.zeros(index.shape, dy.dtype), {}
    for at in np.ndindex(index.shape):
        to = list(at)
        to[dim] = index[at]
        last[tuple(to)] = at
    for to, at in last.items():
        out[at] = dy[to]
    return out


@reference("tensor_scatter_nd_update_grad")
def tensor_scatter_nd_update_grad(c):
    dy, indices = c.get("dy"), c.get("indices").astype(np.int64)
    out, last = np.zeros(indices.shape[:-1] + dy.shape[indices.shape[-1]:], dy.dtype), {}
    for at in np.ndindex(indices.shape[:-1]):
        last[tuple(indices[at])] = at
    for to, at in last.items():
        out[at] = dy[to]
    return out


@reference("cumprod_grad")
def cumprod_grad(c):
    """The case's output is any tensor, not the product of its input: the sums of products by definition, term by term."""
    x, dy, y = (np.moveaxis(c.get(n), c.attr("dim"), -1) for n in ("input", "dy", "output"))
    dx = np.zeros_like(x)
    for k in range(x.shape[-1]):
        before = y[..., k - 1] if k else 1.0
        dx[..., k] = before * sum(dy[..., i] * x[..., k + 1 : i + 1].prod(-1) for i in range(k, x.shape[-1]))
    return np.moveaxis(dx, -1, c.attr("dim"))


@reference("reduce_prod_grad")
def reduce_prod_grad(c):
    def forward(x):
        for a in c.attr("axis"):
            x = x.prod(dim=a, keepdim=True)
        return x

    return autograd(forward, c.torch("x"), c.torch("dy")).numpy()


@reference("rms_norm_grad")
def rms_norm_grad(c):
    """inv_rms is an input of its own: the formula with it."""
    x, d = c.get("x"), c.get("dy")
    shape = c.get("inv_rms").shape + (1,) * (x.ndim - c.get("inv_rms").ndim)
    over = tuple(range(c.get("inv_rms").ndim, x.ndim))
    if c.has("weight"):
        d = d * c.get("weight")
    inv = c.get("inv_rms").reshape(shape)
    xhat = x * inv
    return inv * (d - xhat * (d * xhat).mean(axis=over, keepdims=True))


@reference("rms_norm_param_grad")
def rms_norm_param_grad(c):
    x, inv = c.get("x"), c.get("inv_rms")
    return stat(c, (c.get("dy") * x * inv.reshape(inv.shape + (1,) * (x.ndim - inv.ndim))).sum(axis=tuple(range(inv.ndim))))


@reference("group_norm_grad")
def group_norm_grad(c):
    """The statistics are inputs of their own: the formula with them."""
    x, back = first(c, c.torch("x"))
    dy, _ = first(c, c.torch("dy"))
    x, d = x.numpy(), dy.numpy()
    if c.has("gamma"):
        d = d * c.get("gamma").reshape([1, -1] + [1] * (x.ndim - 2))
    rows = c.get("mean").shape + (-1,)
    mean, inv = c.get("mean")[..., None], c.get("inv_variance")[..., None]
    xhat, d = (x.reshape(rows) - mean) * inv, d.reshape(rows)
    dx = inv * (d - d.mean(axis=2, keepdims=True) - xhat * (d * xhat).mean(axis=2, keepdims=True))
    return back(torch.from_numpy(dx.reshape(x.shape))).numpy()


@reference("group_norm_param_grad")
def group_norm_param_grad(c):
    x, _ = first(c, c.torch("x"))
    dy, _ = first(c, c.torch("dy"))
    x, dy = x.numpy(), dy.numpy()
    rows = c.get("mean").shape + (-1,)
    xhat = ((x.reshape(rows) - c.get("mean")[..., None]) * c.get("inv_variance")[..., None]).reshape(x.shape)
    over = (0,) + tuple(range(2, x.ndim))
    return {"dgamma": stat(c, (dy * xhat).sum(axis=over)), "dbeta": stat(c, dy.sum(axis=over))}


@reference("l2_normalize_grad")
def l2_normalize_grad(c):
    dy, y, s, axis, eps = c.get("dy"), c.get("y"), c.get("square_x_sum"), c.attr("axis"), c.attr("epsilon")
    along = np.where(s >= np.float32(eps), (y * dy).sum(axis=axis, keepdims=True), 0.0)
    return (dy - y * along) / np.sqrt(np.maximum(s, np.float32(eps)))


def activation(forward):
    return lambda c: autograd(lambda x: forward(c, x), c.torch("x"), c.torch("dy")).numpy()


reference("leaky_relu_grad")(activation(lambda c, x: F.leaky_relu(x, c.attr("alpha"))))
reference("tanh_grad")(activation(lambda c, x: torch.tanh(x)))
reference("gelu_grad")(activation(lambda c, x: F.gelu(x)))
reference("fast_gelu_grad")(activation(lambda c, x: F.gelu(x, approximate="tanh")))
reference("quick_gelu_grad")(activation(lambda c, x: x * torch.sigmoid(1.702 * x)))
reference("silu_grad")(activation(lambda c, x: F.silu(x)))


def scattered(index, dim):
    """Which elements go to each place."""
    places = {}
    for at in np.ndindex(index.shape):
        to = list(at)
        to[dim] = index[at]
        places.setdefault(tuple(to), []).append(at)
    return places


@reference("dim_scatter_mul_grad")
def dim_scatter_mul_grad(c):
    """Each element of src by itself: the product of what else multiplies its place."""
    dy, x, index, src, dim = c.get("dy"), c.get("input"), c.get("index").astype(np.int64), c.get("src"), c.attr("dim")
    out = np.zeros(src.shape)
    for to, elements in scattered(index, dim).items():
        for at in elements:
            out[at] = dy[to] * x[to] * np.prod([src[b] for b in elements if b != at])
    return out


@reference("dim_scatter_mul_grad_grad")
def dim_scatter_mul_grad_grad(c):
    """Each pair of elements at a place: the product of the others there."""
    weight, index, src, ddsrc, dim = c.get("weight"), c.get("index").astype(np.int64), c.get("src"), c.get("ddsrc"), c.attr("dim")
    out = np.zeros(src.shape)
    for to, elements in scattered(index, dim).items():
        for at in elements:
            out[at] = weight[to] * sum(ddsrc[k] * np.prod([src[b] for b in elements if b not in (at, k)]) for k in elements if k != at)
    return out
