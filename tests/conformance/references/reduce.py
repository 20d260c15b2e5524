# References of reductions, scans and searches along axes.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch

from .table import REFERENCES, Typed, reference


def axes(c, x):
    a = c.attr("axis", "dim", default=[])
    a = [a] if isinstance(a, int) else list(a)
    return tuple(i % max(x.ndim, 1) for i in a) if x.ndim else ()


def reducing(fn, dtype=None):
    """An empty list of axes reduces over none, as in OneFlow; the shape rule makes it explicit."""

    def run(c):
        x = c.only()
        keep = c.attr("keepdims", "keepdim", default=False)
        r = np.asarray(fn(x, axis=axes(c, x), keepdims=keep))
        return Typed(r, dtype) if dtype else r

    return run


for name, fn in {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "nansum": np.nansum}.items():
    REFERENCES[f"reduce_{name}"] = reducing(fn)
REFERENCES["reduce_any"] = reducing(lambda x, axis, keepdims: np.any(x != 0, axis=axis, keepdims=keepdims), "bool")
REFERENCES["reduce_all"] = reducing(lambda x, axis, keepdims: np.all(x != 0, axis=axis, keepdims=keepdims), "bool")


@reference("logsumexp")
def logsumexp(c):
    x = torch.from_numpy(c.only())
    over = axes(c, c.only())
    return torch.logsumexp(x, over, keepdim=c.attr("keepdims", "keepdim", default=False)).numpy() if over else c.only()


@reference("reduce_sum_like")
def reduce_sum_like(c):
    x, like = c.get("x"), c.get("like")
    return np.sum(x, axis=axes(c, x), keepdims=True).reshape(like.shape)


@reference("argmax")
def argmax(c):
    return Typed(np.argmax(c.only(), axis=-1), "i64")


@reference("argmin")
def argmin(c):
    return Typed(np.argmin(c.only(), axis=-1), "i64")


@reference("cumsum")
def cumsum(c):
    return np.cumsum(c.only(), axis=c.attr("dim", "axis"))


@reference("cumprod")
def cumprod(c):
    return np.cumprod(c.only(), axis=c.attr("dim", "axis"))


@reference("linear_scan")
def linear_scan(c):
    a, b = (np.moveaxis(c.get(n), c.attr("dim"), -1) for n in ("a", "b"))
    y, n = np.zeros_like(b), b.shape[-1]
    for i in range(n):
        steps = range(i, n) if c.attr("reverse") else range(i + 1)
        y[..., i] = sum(b[..., j] * a[..., min(i, j) + 1 : max(i, j) + 1].prod(-1) for j in steps)
    return np.moveaxis(y, -1, c.attr("dim"))


@reference("square_sum")
def square_sum(c):
    return np.asarray(np.sum(c.only() ** 2)).reshape(1)


@reference("multi_square_sum")
def multi_square_sum(c):
    return np.asarray(sum(np.sum(x**2) for x in c.all("x"))).reshape(1)


@reference("var")
def var(c):
    x = torch.from_numpy(c.only())
    return torch.var(x, dim=axes(c, c.only()), unbiased=c.attr("unbiased", default=True), keepdim=c.attr("keepdim", default=False)).numpy()


@reference("count_not_finite")
def count_not_finite(c):
    return Typed(np.asarray([np.sum(~np.isfinite(c.only()))]), "i64")


@reference("top_k")
def top_k(c):
    x, k = c.get("in"), c.attr("k")
    return Typed(np.argsort(-x, axis=-1, kind="stable")[..., :k], "i64")


@reference("arg_sort")
def arg_sort(c):
    x = c.get("in")
    x = -x if c.attr("direction") == "DESCENDING" else x
    return Typed(np.argsort(x, axis=-1, kind="stable"), "i32")


@reference("sort")
def sort(c):
    x = np.sort(c.get("in"), axis=-1)
    return x[..., ::-1] if c.attr("direction") == "DESCENDING" else x
