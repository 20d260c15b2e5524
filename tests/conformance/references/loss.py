# References of loss functions.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch
import torch.nn.functional as F

from .table import reference


def softmax_of(c):
    return F.softmax(c.torch("prediction"), dim=-1).numpy()


@reference("softmax_cross_entropy")
def softmax_cross_entropy(c):
    logp = F.log_softmax(c.torch("prediction"), dim=-1).numpy()
    return {"prob": np.exp(logp), "out": -(c.get("label") * logp).sum(axis=-1)}


@reference("softmax_cross_entropy_grad")
def softmax_cross_entropy_grad(c):
    label = c.get("label")
    return c.get("dy")[..., None] * (c.get("prob") * label.sum(axis=-1, keepdims=True) - label)


@reference("sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(c):
    logp = F.log_softmax(c.torch("prediction"), dim=-1).numpy()
    picked = np.take_along_axis(logp, c.get("label").astype(np.int64)[..., None], axis=-1)[..., 0]
    return {"prob": np.exp(logp), "out": -picked}


@reference("sparse_softmax_cross_entropy_grad")
def sparse_softmax_cross_entropy_grad(c):
    prob, label = c.get("prob"), c.get("label").astype(np.int64)
    return c.get("dy")[..., None] * (prob - np.eye(prob.shape[-1])[label])


@reference("sparse_cross_entropy")
def sparse_cross_entropy(c):
    p = np.take_along_axis(c.get("prediction"), c.get("label").astype(np.int64)[..., None], axis=-1)[..., 0]
    return -np.log(p)


@reference("binary_cross_entropy")
def binary_cross_entropy(c):
    return F.binary_cross_entropy(c.torch("input"), c.torch("target"), c.torch("weight"), reduction="none").numpy()


@reference("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(c):
    return F.binary_cross_entropy_with_logits(c.torch("input"), c.torch("target"), c.torch("weight"), reduction="none", pos_weight=c.torch("pos_weight")).numpy()


@reference("smooth_l1_loss")
def smooth_l1_loss(c):
    return F.smooth_l1_loss(c.torch("input", "prediction"), c.torch("target", "label"), reduction="none", beta=c.attr("beta")).numpy()


@reference("kl_div_loss")
def kl_div_loss(c):
    return F.kl_div(c.torch("input"), c.torch("target"), reduction="none", log_target=c.attr("log_target", default=False)).numpy()


@reference("nll")
def nll(c):
    x, label, ignore = c.torch("input"), c.torch("target").long(), c.attr("ignore_index")
    out = F.nll_loss(x.reshape(-1, x.shape[-1]), label.reshape(-1), c.torch("weight"), ignore_index=ignore, reduction="none").reshape(label.shape)
    weight = torch.ones(x.shape[-1], dtype=torch.float64) if not c.has("weight") else c.torch("weight")
    taken = torch.where(label == ignore, torch.zeros((), dtype=torch.float64), weight[label.clamp(0, x.shape[-1] - 1)])
    return {"output": out.numpy(), "out_weight": taken.numpy()}


@reference("dropout_grad")
def dropout_grad(c):
    return np.where(c.get("mask") != 0, c.get("dy") * c.attr("scale"), 0.0)


@reference("sparse_cross_entropy_grad")
def sparse_cross_entropy_grad(c):
    p, label = c.get("prediction"), c.get("label").astype(np.int64)
    return np.where(np.eye(p.shape[-1])[label] == 1, -c.get("dy")[..., None] / p, 0.0)


@reference("nll_grad")
def nll_grad(c):
    x, label, ignore = c.torch("input").requires_grad_(), c.torch("target").long(), c.attr("ignore_index")
    out = F.nll_loss(x.reshape(-1, x.shape[-1]), label.reshape(-1), c.torch("weight"), ignore_index=ignore, reduction="none").reshape(label.shape)
    out.backward(c.torch("out_grad"))
    return x.grad.numpy()


def pointwise(loss):
    """The gradient of a loss of input and target by input."""

    def run(c):
        x = c.torch("input").requires_grad_()
        loss(c, x, c.torch("target")).backward(c.torch("dy"))
        return x.grad.numpy()

    return run


reference("binary_cross_entropy_grad")(pointwise(lambda c, x, t: F.binary_cross_entropy(x, t, reduction="none")))
reference("binary_cross_entropy_with_logits_grad")(pointwise(lambda c, x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none")))
reference("smooth_l1_loss_grad")(pointwise(lambda c, x, t: F.smooth_l1_loss(x, t, reduction="none", beta=c.attr("beta"))))
