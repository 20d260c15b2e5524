# roi_align and its gradient by ONNX's formulas, sample by sample.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from .table import reference


def axis_samples(low, high, size, bins, c):
    """Of each bin its samples: [(place, weight), (place, weight)], or None outside the image."""
    half = c.attr("coordinate_transformation_mode") == "half_pixel"
    begin, end = (v * c.attr("spatial_scale") - (0.5 if half else 0) for v in (low, high))
    length = end - begin if half else max(end - begin, 1)
    count = c.attr("sampling_ratio") or max(int(np.ceil(length / bins)), 0)
    out = []
    for b in range(bins):
        out.append([])
        for k in range(count):
            at = begin + length / bins * (b + (k + 0.5) / count)
            if at < -1 or at > size:
                out[-1].append(None)
                continue
            at = min(max(at, 0), size - 1)
            low_place = int(at)
            out[-1].append([(low_place, 1 - at + low_place), (min(low_place + 1, size - 1), at - low_place)])
    return out


def windows(c):
    """Yields (region, image, i, j, samples), each sample a list of (row, column, weight)."""
    x, rois = c.get("x"), c.get("rois")
    for r, roi in enumerate(rois):
        rows = axis_samples(roi[1], roi[3], x.shape[2], c.attr("output_height"), c)
        columns = axis_samples(roi[0], roi[2], x.shape[3], c.attr("output_width"), c)
        for i, some in enumerate(rows):
            for j, others in enumerate(columns):
                samples = [[] if v is None or h is None else [(y, x0, a * b) for y, a in v for x0, b in h] for v in some for h in others]
                yield r, int(c.get("batch_indices")[r]), i, j, samples


def shape_of(c):
    return len(c.get("rois")), c.get("x").shape[1], c.attr("output_height"), c.attr("output_width")


@reference("roi_align")
def roi_align(c):
    x, y = c.get("x"), np.zeros(shape_of(c))
    for r, n, i, j, samples in windows(c):
        if not samples:
            continue
        parts = [[w * x[n, :, a, b] for a, b, w in taps] or [np.zeros(x.shape[1])] for taps in samples]
        y[r, :, i, j] = np.mean([sum(p) for p in parts], axis=0) if c.attr("mode") == "avg" else np.max([v for p in parts for v in p], axis=0)
    return y


@reference("roi_align_grad")
def roi_align_grad(c):
    """To each pixel its share; of the largest to the first that is it."""
    x, dy = c.get("x"), c.get("dy")
    dx = np.zeros(x.shape)
    for r, n, i, j, samples in windows(c):
        for channel in range(x.shape[1]):
            d = dy[r, channel, i, j]
            if c.attr("mode") == "avg":
                for a, b, w in (t for taps in samples for t in taps):
                    dx[n, channel, a, b] += d * w / len(samples)
                continue
            candidates = [(w * x[n, channel, a, b], a, b, w) for taps in samples for a, b, w in taps]
            best = max(candidates, default=None, key=lambda t: t[0])
            if best and (best[0] > 0 or all(samples)):
                dx[n, channel, best[1], best[2]] += d * best[3]
    return dx
