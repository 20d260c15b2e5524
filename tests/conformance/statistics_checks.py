# What the driver checks of random ops, whose values nobody can know: ranges, moments, and relations between outputs.
# SPDX-License-Identifier: Apache-2.0
"""A check is a function of the attributes, the inputs and the outputs (argument -> f64 array); it returns None or what
is wrong. Bounds are five standard errors: a right generator fails one in two million times, and seeds are fixed."""
import numpy as np


def moments(x, low, high, mean, std):
    n = x.size
    if not (np.all(x >= low) and np.all(x <= high)):
        return f"values outside [{low}, {high}]"
    if n >= 100 and abs(x.mean() - mean) > 5 * std / np.sqrt(n):
        return f"mean {x.mean():.4g}, expected {mean:.4g}"
    if n >= 100 and abs(x.std() - std) > 5 * std / np.sqrt(n):
        return f"standard deviation {x.std():.4g}, expected {std:.4g}"
    return None


def share(kept, probability):
    """How often something that has a probability of its own in each element happened."""
    p = np.broadcast_to(probability, kept.shape)
    if kept.size and abs(kept.sum() - p.sum()) > 5 * np.sqrt((p * (1 - p)).sum()) + 1e-9:
        return f"{int(kept.sum())} of {kept.size}, expected about {p.sum():.1f}"
    return None


def uniform(attrs, inputs, outputs):
    low, high = attrs["from"], attrs["to"]
    return moments(outputs["out"], low, high, (low + high) / 2, (high - low) / np.sqrt(12))


def normal(attrs, inputs, outputs):
    return moments(outputs["out"], -np.inf, np.inf, attrs["mean"], attrs["std"])


def dropout(attrs, inputs, outputs):
    kept = outputs["mask"] != 0
    scale = 0 if attrs["rate"] >= 1 else 1 / (1 - attrs["rate"])
    want = np.where(kept, inputs["in"] * scale, 0) + inputs.get("_add_to_output", 0)
    if not np.allclose(outputs["out"], want, rtol=1e-2, atol=1e-2):
        return "out is not in * mask / (1 - rate)"
    return share(kept, 1 - attrs["rate"])


def bernoulli(attrs, inputs, outputs):
    if not np.isin(outputs["out"], (0, 1)).all():
        return "values other than 0 and 1"
    return share(outputs["out"], inputs["in"] if attrs["p"] == -1 else attrs["p"])


def random_mask_like(attrs, inputs, outputs):
    if outputs["out"].shape != inputs["like"].shape:
        return "another shape than like"
    return share(outputs["out"], 1 - attrs["rate"])


def randperm(attrs, inputs, outputs):
    if not np.array_equal(np.sort(outputs["out"]), np.arange(attrs["n"])):
        return "no permutation"
    return "not shuffled" if attrs["n"] > 10 and np.array_equal(outputs["out"], np.arange(attrs["n"])) else None


STATISTICS = {"uniform": uniform, "normal": normal, "dropout": dropout, "bernoulli": bernoulli,
              "random_mask_like": random_mask_like, "randperm": randperm}
