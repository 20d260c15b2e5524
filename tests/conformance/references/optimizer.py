# References of the optimizers' updates, one step each; five steps against torch.optim are in training_vectors.py.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from .table import Typed, reference


@reference("l1_l2_regularize_gradient")
def l1_l2_regularize_gradient(c):
    model = c.get("model")
    return c.get("model_diff") + c.attr("l1", default=0.0) * np.sign(model) + c.attr("l2", default=0.0) * model


@reference("assign")
def assign(c):
    return {"ref": c.get("value")}


def scalar(c, name, otherwise):
    return c.get(name).item() if c.has(name) else otherwise


def rate(c):
    return scalar(c, "learning_rate", c.attr("learning_rate_val")) * c.attr("learning_rate_scale")


def gradient(c):
    w = c.get("model")
    return c.get("model_diff") * (c.attr("scale") * scalar(c, "scale_by_tensor", 1.0)) + c.attr("l1") * np.sign(w) + c.attr("l2") * w


def unless_skipped(update):
    """An update op changes nothing when skip_if is not 0."""

    def run(c):
        names = [n for n in c.outputs if n != "model_copy"]
        new = {n: c.get(n) for n in names} if scalar(c, "skip_if", 0) else update(c)
        if c.has("model_copy"):
            new["model_copy"] = Typed(new["model"], c.types["model_copy"])
        return new

    return run


@reference("sgd_update")
@unless_skipped
def sgd_update(c):
    w = c.get("model")
    return {"model": w - rate(c) * (gradient(c) + c.attr("weight_decay") * w)}


@reference("momentum_update")
@unless_skipped
def momentum_update(c):
    w, g = c.get("model"), gradient(c)
    momentum = c.attr("beta") * c.get("momentum") + (1 - c.attr("dampening")) * g
    direction = g + c.attr("beta") * momentum if c.attr("nesterov") else momentum
    return {"model": w - (-1 if c.attr("maximize") else 1) * rate(c) * direction - rate(c) * c.attr("weight_decay") * w,
            "momentum": momentum}


def means(c):
    g, b1, b2 = gradient(c), c.attr("beta1"), c.attr("beta2")
    return b1 * c.get("m") + (1 - b1) * g, b2 * c.get("v") + (1 - b2) * g * g


def corrections(c):
    if not c.attr("do_bias_correction"):
        return 1.0, 1.0
    return (scalar(c, "bias_correction1", c.attr("bias_correction1_val")),
            scalar(c, "bias_correction2", c.attr("bias_correction2_val")))


@reference("adam_update")
@unless_skipped
def adam_update(c):
    w, (m, v), (c1, c2) = c.get("model"), means(c), corrections(c)
    new = {"m": m, "v": v}
    if c.attr("amsgrad"):
        new["max_v"] = v = np.maximum(c.get("max_v"), v)
    new["model"] = w - rate(c) * (m / c1 / (np.sqrt(v / c2) + c.attr("epsilon")) + c.attr("weight_decay") * w)
    return new


def norms(c, model, other):
    """Of the model and of what it is compared with: measured, or as sums of squares that the op is given."""
    return np.sqrt(c.get("norms")) if c.has("norms") else (np.linalg.norm(model), np.linalg.norm(other))


@reference("lamb_update")
@unless_skipped
def lamb_update(c):
    w, (m, v), (c1, c2) = c.get("model"), means(c), corrections(c)
    new = {"m": m, "v": v}
    if c.has("beta1_t"):
        new["beta1_t"] = c.get("beta1_t") * c.attr("beta1")
        new["beta2_t"] = c.get("beta2_t") * c.attr("beta2")
        c1, c2 = 1 - new["beta1_t"].item(), 1 - new["beta2_t"].item()
    d = m / c1 / (np.sqrt(v / c2) + c.attr("epsilon"))
    size, step = norms(c, w, d)
    quotient = size / step if size > 0 and step > 0 else 1.0
    new["model"] = w - rate(c) * quotient * (d + c.attr("weight_decay") * w)
    return new


@reference("lamb_norms")
def lamb_norms(c):
    w, (m, v), (c1, c2) = c.get("model"), means(c), corrections(c)
    if c.has("beta1_t"):
        c1, c2 = (1 - (c.get(f"beta{i}_t") * c.attr(f"beta{i}")).item() for i in (1, 2))
    d = m / c1 / (np.sqrt(v / c2) + c.attr("epsilon"))
    return Typed(np.array([(w * w).sum(), (d * d).sum()]), "f64")


@reference("lars_norms")
def lars_norms(c):
    w, g = c.get("model"), gradient(c)
    return Typed(np.array([(w * w).sum(), (g * g).sum()]), "f64")


@reference("lars_update")
@unless_skipped
def lars_update(c):
    w, g, decay = c.get("model"), gradient(c), c.attr("weight_decay")
    norm, slope = norms(c, w, g)
    both = norm > 0 and slope > 0
    local = rate(c) * (c.attr("lars_coefficient") * norm / (c.attr("epsilon") + slope + decay * norm) if both else 1.0)
    momentum = c.attr("momentum_beta") * c.get("momentum") - local * g
    return {"model": w + momentum - local * decay * w, "momentum": momentum}


@reference("rmsprop_update")
@unless_skipped
def rmsprop_update(c):
    w, g, keep = c.get("model"), gradient(c), c.attr("decay_rate")
    new = {"mean_square": keep * c.get("mean_square") + (1 - keep) * g * g}
    variance = new["mean_square"]
    if c.attr("centered"):
        new["mean_gradient"] = keep * c.get("mean_gradient") + (1 - keep) * g
        variance = variance - new["mean_gradient"] ** 2
    new["model"] = w - rate(c) * (g / np.sqrt(variance + c.attr("epsilon")) + c.attr("weight_decay") * w)
    return new


@reference("adagrad_update")
@unless_skipped
def adagrad_update(c):
    w, g = c.get("model"), gradient(c)
    step = scalar(c, "train_step", c.attr("train_step_val"))
    r = rate(c) / (1 + step * c.attr("lr_decay"))
    new = c.get("sum") + g * g
    return {"model": w - r * (g / (np.sqrt(new) + c.attr("epsilon")) + c.attr("weight_decay") * w), "sum": new}


@reference("adam_bias_correction_factor")
def adam_bias_correction_factor(c):
    return Typed(1 - c.attr("beta") ** (c.get("train_step") + 1.0), c.attr("dtype"))


@reference("adam_bias_correction_learning_rate")
def adam_bias_correction_learning_rate(c):
    t = c.get("train_step") + 1.0
    return c.get("learning_rate") * np.sqrt(1 - c.attr("beta2") ** t) / (1 - c.attr("beta1") ** t)


@reference("dynamic_loss_scale_schedule")
def dynamic_loss_scale_schedule(c):
    scale, good, k = c.get("loss_scale").item(), c.get("good_step_counter").item(), c.attr("multiplier")
    if c.has("skip_if") and c.get("skip_if").item():
        pass
    elif c.get("count_not_finite").item():
        scale, good = max(scale / k, 1.0), 0
    else:
        good += 1
        if good >= c.attr("increment_period"):
            scale, good = scale * k, 0
    return {"loss_scale": Typed([scale], "f32"), "good_step_counter": Typed([good], "i64")}


def passed(boundaries, step):
    """How many boundaries lie before the step, which is the last one of its piece when it is a boundary itself."""
    return sum(step > b for b in boundaries)


def decayed(c, lr, step):
    """The learning rate without warm-up. Formulas of OneFlow's documentation of its schedulers, of torch's for the
    kinds that torch has too."""
    kind, n = c.attr("decay_type"), c.attr("decay_batches")
    x = step / n if n else 0.0
    if kind in ("exponential", "inverse_time", "natural_exp"):
        x = np.floor(x) if c.attr("staircase") else x
        k = c.attr("decay_rate")
        return {"exponential": lr * k**x, "inverse_time": lr / (1 + k * x), "natural_exp": lr * np.exp(-k * x)}[kind]
    if kind == "piecewise_constant":
        return c.attr("values")[passed(c.attr("boundaries"), step)]
    if kind == "piecewise_scaling":
        return lr * c.attr("scales")[passed(c.attr("boundaries"), step)]
    if kind == "polynomial":
        n = n * max(1.0, np.ceil(step / n)) if c.attr("cycle") else n
        x = min(step, n) / n
        end = c.attr("end_learning_rate")
        return (lr - end) * (1 - x) ** c.attr("power") + end
    if kind == "cosine":
        x = min(x, 1.0)
        return lr * ((1 - c.attr("alpha")) * 0.5 * (1 + np.cos(np.pi * x)) + c.attr("alpha"))
    if kind == "linear_cosine":
        x = min(x, 1.0)
        wave = 0.5 * (1 + np.cos(2 * np.pi * c.attr("num_periods") * x))
        return lr * ((c.attr("alpha") + 1 - x) * wave + c.attr("beta"))
    if kind == "multi_step":
        return lr * c.attr("gamma") ** sum(m <= step for m in c.attr("milestones"))
    if kind == "step":
        return lr * c.attr("gamma") ** (step // c.attr("step_size"))
    if kind == "cosine_annealing":
        return c.attr("eta_min") + (lr - c.attr("eta_min")) * (1 + np.cos(np.pi * step / c.attr("t_max"))) / 2
    if kind == "linear_lr":
        x = min(step, c.attr("total_iters")) / c.attr("total_iters")
        return lr * (c.attr("start_factor") + (c.attr("end_factor") - c.attr("start_factor")) * x)
    if kind == "constant_lr":
        return lr * (c.attr("factor") if step < c.attr("total_iters") else 1)
    assert kind == ""
    return lr


@reference("learning_rate_schedule")
def learning_rate_schedule(c):
    step, lr, warm = c.get("train_step").item(), c.attr("learning_rate"), c.attr("warmup_batches")
    if step < warm:
        k = c.attr("warmup_multiplier")
        out = lr * (k if c.attr("warmup_type") == "constant" else k + (1 - k) * step / warm)
    else:
        out = decayed(c, lr, step - warm if c.attr("exclude_warmup") else step)
    return Typed([out], c.attr("dtype"))
