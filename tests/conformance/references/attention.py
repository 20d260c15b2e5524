# References of the fused attention: the composite of products and a softmax.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from .nn import stat
from .table import reference


def scores_of(c):
    """Scores with the mask, minus infinity where a query does not look."""
    q, k = c.get("query"), c.get("key")
    scale = c.attr("scale") or 1 / np.sqrt(q.shape[-1])
    s = scale * q @ np.swapaxes(k, -1, -2)
    if c.has("mask"):
        mask = c.get("mask")
        s = np.where(mask != 0, s, -np.inf) if c.types["mask"] == "bool" else s + mask
    if c.attr("causal"):
        s = np.where(np.arange(s.shape[-1]) <= np.arange(s.shape[-2])[:, None], s, -np.inf)
    return s, scale


@reference("scaled_dot_product_attention")
def scaled_dot_product_attention(c):
    s, _ = scores_of(c)
    top = np.where(np.isinf(m := s.max(axis=-1, keepdims=True)), 0.0, m) if s.size else s[..., :1]
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    p = np.where(total == 0, 0.0, e / np.where(total == 0, 1.0, total))
    return {"out": p @ c.get("value"), "log_sum": stat(c, (np.log(total) + top)[..., 0])}


@reference("scaled_dot_product_attention_grad")
def scaled_dot_product_attention_grad(c):
    """The statistics are inputs of their own: the formula with them."""
    s, scale = scores_of(c)
    dout, value = c.get("dout"), c.get("value")
    p = np.exp(s - c.get("log_sum")[..., None])
    along = (dout * c.get("out")).sum(axis=-1, keepdims=True)
    if c.has("dlog_sum"):
        along = along - c.get("dlog_sum")[..., None]
    ds = p * (dout @ np.swapaxes(value, -1, -2) - along)
    return {"dvalue": np.swapaxes(p, -1, -2) @ dout, "dquery": scale * ds @ c.get("key"), "dkey": scale * np.swapaxes(ds, -1, -2) @ c.get("query"), "dscores": ds}
