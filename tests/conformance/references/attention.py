# References of the fused attention: the composite of products and a softmax.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from .nn import stat
from .table import reference


def shared(c, arg):
    """Keys or values, each head of them as often as heads of queries share it."""
    x, q = c.get(arg), c.get("query")
    return np.repeat(x, q.shape[-3] // max(x.shape[-3], 1), axis=-3) if x.ndim > 2 else x


def seen_by_place(c, shape):
    """Which keys a query sees, by causality, window and lengths."""
    n, m = shape[-2:]
    keys, queries = np.arange(m), np.arange(n)[:, None]
    seen = np.ones(shape, bool)
    offset = c.attr("offset") or 0
    place = queries + (m - n if offset < 0 else offset)
    if c.has("key_lengths"):
        lengths = np.clip(c.get("key_lengths"), 0, m)[..., None, None, None]
        place = queries + lengths - n
        seen &= keys < lengths
    left, right = c.attr("window_left", default=-1), c.attr("window_right", default=-1)
    if c.attr("causal"):
        seen &= keys <= place
    if left >= 0:
        seen &= keys >= place - left
    if right >= 0:
        seen &= keys <= place + right
    return seen


def scores_of(c):
    """Scores with the mask, minus infinity where a query does not look; the scale; the derivative of a cap."""
    q, k = c.get("query"), shared(c, "key")
    scale = c.attr("scale") or 1 / np.sqrt(q.shape[-1])
    s, slope = scale * q @ np.swapaxes(k, -1, -2), 1.0
    if cap := c.attr("softcap"):
        t = np.tanh(s / cap)
        s, slope = cap * t, 1 - t**2
    if c.has("mask"):
        mask = c.get("mask")
        s = np.where(mask != 0, s, -np.inf) if c.types["mask"] == "bool" else s + mask
    return np.where(seen_by_place(c, s.shape), s, -np.inf), scale, slope


@reference("scaled_dot_product_attention")
def scaled_dot_product_attention(c):
    s, _, _ = scores_of(c)
    top = np.where(np.isinf(m := s.max(axis=-1, keepdims=True)), 0.0, m) if s.size else s[..., :1]
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    p = np.where(total == 0, 0.0, e / np.where(total == 0, 1.0, total))
    return {"out": p @ shared(c, "value"), "log_sum": stat(c, (np.log(total) + top)[..., 0])}


@reference("scaled_dot_product_attention_grad")
def scaled_dot_product_attention_grad(c):
    """The statistics are inputs of their own: the formula with them."""
    s, scale, slope = scores_of(c)
    dout, key, value = c.get("dout"), shared(c, "key"), shared(c, "value")
    p = np.exp(s - c.get("log_sum")[..., None])
    along = (dout * c.get("out")).sum(axis=-1, keepdims=True)
    if c.has("dlog_sum"):
        along = along - c.get("dlog_sum")[..., None]
    ds = p * (dout @ np.swapaxes(value, -1, -2) - along)
    sloped = ds * slope

    def summed(x, arg):
        """Over the heads that share one of the argument."""
        shape = c.get(arg).shape
        return x.reshape(shape[:-2] + (-1,) + shape[-2:]).sum(axis=-3) if x.shape != shape else x

    return {
        "dvalue": summed(np.swapaxes(p, -1, -2) @ dout, "value"),
        "dquery": scale * sloped @ key,
        "dkey": summed(scale * np.swapaxes(sloped, -1, -2) @ c.get("query"), "key"),
        "dscores": ds,
    }
