# References of gathers, scatters and one-hot codes.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
import torch.nn.functional as F

from .table import REFERENCES, Typed, reference


@reference("gather")
def gather(c):
    return np.take(c.get("in"), c.get("indices").astype(np.int64), axis=c.attr("axis", default=0))


@reference("batch_gather")
def batch_gather(c):
    """out[b..., i, rest...] = in[b..., indices[b..., i], rest...]"""
    x, idx = c.get("in"), c.get("indices").astype(np.int64)
    axis = idx.ndim - 1
    full = idx.reshape(idx.shape + (1,) * (x.ndim - idx.ndim))
    return np.take_along_axis(x, np.broadcast_to(full, idx.shape + x.shape[idx.ndim:]), axis=axis)


@reference("embedding")
def embedding(c):
    return c.get("weight")[c.get("indices").astype(np.int64)]


@reference("gather_nd")
def gather_nd(c):
    idx = c.get("indices").astype(np.int64)
    return c.get("params")[tuple(np.moveaxis(idx, -1, 0))]


@reference("dim_gather")
def dim_gather(c):
    return torch.gather(c.torch("input", "in"), c.attr("dim"), c.torch("index").long()).numpy()


def dim_scatter(reduce):
    def run(c):
        index, src, dim = c.torch("index").long(), c.torch("src"), c.attr("dim")
        base = c.torch("input", "like")
        out = base.clone() if c.has("input") else torch.zeros_like(base)
        if reduce == "add":
            return out.scatter_add_(dim, index, src[tuple(slice(0, n) for n in index.shape)]).numpy()
        return out.scatter_(dim, index, src[tuple(slice(0, n) for n in index.shape)], **({"reduce": reduce} if reduce else {})).numpy()

    return run


REFERENCES["dim_scatter_add"] = dim_scatter("add")
REFERENCES["dim_scatter_add_like"] = dim_scatter("add")
REFERENCES["dim_scatter_mul"] = dim_scatter("multiply")
REFERENCES["dim_scatter_update"] = dim_scatter(None)


def dim_choose(ufunc):
    """Element by element, in numpy: NaN is the larger and the smaller."""
    def run(c):
        out, index, src, dim = c.get("input").copy(), c.get("index"), c.get("src"), c.attr("dim")
        for at in np.ndindex(*index.shape):
            to = list(at)
            to[dim] = index[at]
            out[tuple(to)] = ufunc(out[tuple(to)], src[at])
        return out

    return run


REFERENCES["dim_scatter_max"] = dim_choose(np.maximum)
REFERENCES["dim_scatter_min"] = dim_choose(np.minimum)


def scatter_into(out, idx, updates, add):
    at = tuple(np.moveaxis(idx, -1, 0))
    if add:
        np.add.at(out, at, updates)
    else:
        out[at] = updates
    return out


@reference("scatter_nd")
def scatter_nd(c):
    """Equal indices add up."""
    u = c.get("updates")
    return scatter_into(np.zeros(c.attr("shape"), u.dtype), c.get("indices").astype(np.int64), u, True)


@reference("scatter_nd_like")
def scatter_nd_like(c):
    u = c.get("updates")
    return scatter_into(np.zeros(c.get("like").shape, u.dtype), c.get("indices").astype(np.int64), u, True)


@reference("tensor_scatter_nd_update")
def tensor_scatter_nd_update(c):
    return scatter_into(c.get("params").copy(), c.get("indices").astype(np.int64), c.get("updates"), False)


@reference("tensor_scatter_nd_add")
def tensor_scatter_nd_add(c):
    return scatter_into(c.get("params").copy(), c.get("indices").astype(np.int64), c.get("updates"), True)


def segment_sum(data, ids, axis, rows):
    """ids index the axis; data has ids' shape at that axis."""
    shape = data.shape[:axis] + (rows,) + data.shape[axis + ids.ndim:]
    out = np.zeros(shape, data.dtype)
    for i in np.ndindex(ids.shape):
        out[(slice(None),) * axis + (ids[i],)] += data[(slice(None),) * axis + i]
    return out


@reference("unsorted_segment_sum")
def unsorted_segment_sum(c):
    return segment_sum(c.get("data"), c.get("segment_ids").astype(np.int64), c.attr("axis", default=0), c.attr("num_segments"))


@reference("unsorted_segment_sum_like")
def unsorted_segment_sum_like(c):
    axis = c.attr("axis", default=0)
    return segment_sum(c.get("data"), c.get("segment_ids").astype(np.int64), axis, c.get("like").shape[axis])


@reference("unsorted_batch_segment_sum")
def unsorted_batch_segment_sum(c):
    data, ids, n = c.get("data"), c.get("segment_ids").astype(np.int64), c.attr("num_segments")
    batch = ids.shape[:-1]
    out = np.zeros(batch + (n,) + data.shape[ids.ndim:], data.dtype)
    for b in np.ndindex(batch):
        for i in range(ids.shape[-1]):
            out[b + (ids[b + (i,)],)] += data[b + (i,)]
    return out


@reference("one_hot")
def one_hot(c):
    dtype = c.attr("dtype")
    kind = "floating" if dtype in ("f16", "bf16", "f32", "f64") else "integer"
    on, off = c.attr(f"{kind}_on_value"), c.attr(f"{kind}_off_value")
    hot = np.eye(c.attr("depth"), dtype=bool)[c.get("indices").astype(np.int64)]
    return Typed(np.where(hot, on, off), dtype)


@reference("grid_sample")
def grid_sample(c):
    return F.grid_sample(c.torch("input"), c.torch("grid"), c.attr("interpolation_mode"), c.attr("padding_mode"), c.attr("align_corners")).numpy()


@reference("affine_grid")
def affine_grid(c):
    return F.affine_grid(c.torch("theta"), list(c.attr("size")), c.attr("align_corners")).numpy()


def padded(rows, count, dtype):
    out = np.zeros((count,) + rows.shape[1:], np.int64)
    out[:len(rows)] = rows
    return Typed(out, dtype)


@reference("argwhere")
def argwhere(c):
    x, dtype = c.only(), c.attr("dtype", default="i32")
    rows = np.argwhere(x)
    return {"output": padded(rows, x.size, dtype), "output_size": Typed([len(rows)], dtype)}


@reference("unique_rows")
def unique_rows(c):
    x = c.get("in")
    rows = x.reshape(len(x), -1) if x.size else np.zeros((len(x), 0))
    _, first, inverse, counts = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True) if x.size else [np.zeros(0, np.int64)] * 4
    if not c.attr("sorted", default=True):
        order = np.argsort(first)
        place = np.argsort(order)
        first, inverse, counts = first[order], place[inverse], counts[order]
    return {"first": padded(first, len(x), "i64"), "inverse": Typed(inverse.reshape(-1), "i64"), "counts": padded(counts, len(x), "i64"), "output_size": Typed([len(first)], "i64")}


@reference("non_max_suppression")
def non_max_suppression(c):
    """Greedy, in the order of the scores; corners in any order, or centres."""
    boxes, scores = c.get("boxes"), c.get("scores")
    most, limit = c.attr("max_output_boxes_per_class"), c.attr("iou_threshold", default=0.0)
    if c.attr("center_point_box", default=False):
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        boxes = np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], -1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    rows = []
    for b in range(scores.shape[0]):
        area = np.prod(high[b] - low[b], -1)
        for k in range(scores.shape[1]):
            kept = []
            for i in np.argsort(-scores[b, k], kind="stable"):
                if c.attr("has_score_threshold", default=False) and not scores[b, k, i] > c.attr("score_threshold"):
                    continue
                if len(kept) == most:
                    break
                both = [np.prod(np.maximum(0, np.minimum(high[b][i], high[b][j]) - np.maximum(low[b][i], low[b][j]))) for j in kept]
                if all(v / (area[i] + area[j] - v) <= limit for v, j in zip(both, kept)):
                    kept.append(i)
            rows += [(b, k, i) for i in kept]
    count = scores.shape[0] * scores.shape[1] * min(most, scores.shape[2])
    return {"output": padded(np.array(rows, np.int64).reshape(-1, 3), count, "i64"), "output_size": Typed([len(rows)], "i64")}


@reference("bounded")
def bounded(c):
    x, count = np.moveaxis(c.get("x").copy(), c.attr("axis"), 0), int(c.get("count").reshape(-1)[0])
    x[max(count, 0):] = 0
    return np.moveaxis(x, 0, c.attr("axis"))
