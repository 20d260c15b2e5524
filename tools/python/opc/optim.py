"""Optimizers and schedules: what a training step is asked to have. The numbers are PyTorch's, where it has the optimizer."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Dict, Optional, Sequence, Tuple

from . import _numbers
from ._errors import usage


class Schedule:
    """How the rate changes from step to step: the attributes of the op learning_rate_schedule."""

    def __init__(self, decay_type: str = "", warmup: int = 0, warmup_from: float = 0.0, **attrs: Any) -> None:
        self.attrs: Dict[str, Any] = dict(attrs)
        if decay_type and decay_type != "constant":
            self.attrs["decay_type"] = decay_type
        warmup = _numbers.whole(warmup, "warmup", also="0 for none", allowed=(0,))
        if warmup:
            warmup_from = _numbers.real(warmup_from, "warmup_from")
            self.attrs.update(warmup_type="linear", warmup_batches=warmup, warmup_multiplier=warmup_from)

    def __repr__(self) -> str:
        return "<opc.optim schedule: " + (", ".join(f"{k} {v!r}" for k, v in self.attrs.items()) or "constant") + ">"


def cosine(steps: int, alpha: float = 0.0, warmup: int = 0) -> Schedule:
    """From the rate to `alpha` times it over `steps`, along a cosine."""
    return Schedule("cosine", warmup, decay_batches=steps, alpha=alpha)


def step(size: int, gamma: float = 0.1, warmup: int = 0) -> Schedule:
    """Times `gamma` every `size` steps."""
    return Schedule("step", warmup, step_size=size, gamma=gamma)


def multi_step(milestones: Sequence[int], gamma: float = 0.1, warmup: int = 0) -> Schedule:
    """Times `gamma` at each of the steps."""
    return Schedule("multi_step", warmup, milestones=list(milestones), gamma=gamma)


def constant(warmup: int = 0) -> Schedule:
    """The rate, after a linear rise over `warmup` steps."""
    return Schedule("", warmup)


class Optimizer:
    """One optimizer over the variables that the globs name; without globs over all that no other one names.

    clip_norm: gradients are scaled down together when their 2-norm exceeds it. no_decay: globs of variables whose weights do
    not decay.
    """

    def __init__(self, op: str, lr: float, attrs: Dict[str, Any], decay_attr: str, weight_decay: float = 0.0, schedule: Optional[Schedule] = None,
                 clip_norm: float = 0.0, variables: Sequence[str] = (), no_decay: Sequence[str] = ()) -> None:
        if schedule is not None and not isinstance(schedule, Schedule):
            raise TypeError(f"{schedule!r} is no schedule: opc.optim has cosine, step, multi_step and constant")
        for name, globs in (("variables", variables), ("no_decay", no_decay)):
            if isinstance(globs, str) or not all(isinstance(g, str) for g in globs):
                raise TypeError(f"{name} is a sequence of globs, such as ['fc*.w'], not {globs!r}")
        self.request: Dict[str, Any] = {
            "op": op, "lr": _numbers.real(lr, "lr"), "attrs": attrs, "decay_attr": decay_attr, "weight_decay": _numbers.real(weight_decay, "weight_decay"),
            "clip_norm": _numbers.real(clip_norm, "clip_norm", also="0 for none", allowed=(0,)),
            "schedule": schedule.attrs if schedule else {}, "variables": list(variables), "no_decay": list(no_decay),
        }  # fmt: skip

    def __repr__(self) -> str:
        r = self.request
        said = {"lr": r["lr"], **r["attrs"], **{k: r[k] for k in ("weight_decay", "clip_norm", "schedule", "variables", "no_decay") if r[k]}}
        return f"<opc.optim {r['op']}: {', '.join(f'{k} {v!r}' for k, v in said.items())}>"


def SGD(lr: float, momentum: float = 0.0, dampening: float = 0.0, nesterov: bool = False, **options: Any) -> Optimizer:
    """Stochastic gradient descent; weight_decay is an L2 term."""
    if not momentum:
        if nesterov:
            raise usage("nesterov is for a momentum", "SGD(lr, momentum=0.9, nesterov=True)")
        return Optimizer("sgd_update", lr, {}, "l2", **options)
    return Optimizer("momentum_update", lr, {"beta": momentum, "dampening": dampening, "nesterov": nesterov}, "l2", **options)


def _means(betas: Tuple[float, float]) -> Dict[str, float]:
    if isinstance(betas, (str, float, int)) or len(betas) != 2:
        raise TypeError(f"betas is a pair of numbers, such as (0.9, 0.999), not {betas!r}")
    return {"beta1": betas[0], "beta2": betas[1]}


def _adam(lr: float, betas: Tuple[float, float], eps: float, amsgrad: bool, decay: str, options: Dict[str, Any]) -> Optimizer:
    return Optimizer("adam_update", lr, {**_means(betas), "epsilon": eps, "amsgrad": amsgrad}, decay, **options)


def Adam(lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, amsgrad: bool = False, **options: Any) -> Optimizer:
    """Adam (Kingma, Ba, 2014); weight_decay is an L2 term."""
    return _adam(lr, betas, eps, amsgrad, "l2", options)


def AdamW(lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, amsgrad: bool = False, weight_decay: float = 1e-2,
          **options: Any) -> Optimizer:
    """Adam with weight decay of its own (Loshchilov, Hutter, 2017)."""
    return _adam(lr, betas, eps, amsgrad, "weight_decay", {**options, "weight_decay": weight_decay})


def RMSprop(lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, centered: bool = False, **options: Any) -> Optimizer:
    """RMSprop; eps stands under the root."""
    return Optimizer("rmsprop_update", lr, {"decay_rate": alpha, "epsilon": eps, "centered": centered}, "l2", **options)


def Adagrad(lr: float = 1e-2, lr_decay: float = 0.0, eps: float = 1e-10, **options: Any) -> Optimizer:
    """Adagrad (Duchi, Hazan, Singer, 2011)."""
    return Optimizer("adagrad_update", lr, {"lr_decay": lr_decay, "epsilon": eps}, "l2", **options)


def Lamb(lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-6, **options: Any) -> Optimizer:
    """LAMB (You et al., 2019)."""
    return Optimizer("lamb_update", lr, {**_means(betas), "epsilon": eps}, "weight_decay", **options)


def Lars(lr: float = 1e-2, momentum: float = 0.9, coefficient: float = 1e-4, eps: float = 1e-9, **options: Any) -> Optimizer:
    """LARS (You, Gitman, Ginsburg, 2017)."""
    return Optimizer("lars_update", lr, {"momentum_beta": momentum, "lars_coefficient": coefficient, "epsilon": eps}, "weight_decay", **options)
