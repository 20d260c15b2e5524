"""`flow.optimizer`: rates over the steps, and the optimizers that a job minimizes a loss with."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Dict, Optional, Sequence

import opc
from opc.optim import Optimizer as _Optimizer, Schedule

from ._job import add_loss


class _Warmup:
    def __init__(self, kind: str, steps: int, multiplier: float) -> None:
        self.attrs = {"warmup_type": kind, "warmup_batches": steps, "warmup_multiplier": multiplier}


class warmup:
    """How a rate begins."""

    @staticmethod
    def linear(steps: int, start_multiplier: float) -> _Warmup:
        """From that part of the rate to all of it."""
        return _Warmup("linear", steps, start_multiplier)

    @staticmethod
    def constant(steps: int, multiplier: float) -> _Warmup:
        """That part of the rate."""
        return _Warmup("constant", steps, multiplier)


class _Scheduler:
    """A base rate, and the attributes of opc's learning_rate_schedule."""

    def __init__(self, base_lr: float, begin: Optional[_Warmup], attrs: Dict[str, Any]) -> None:
        self.base_lr = base_lr
        self.attrs = {**attrs, **(begin.attrs if begin else {})}

    def schedule(self) -> Optional[Schedule]:
        return Schedule(**self.attrs) if self.attrs else None


def PiecewiseConstantScheduler(boundaries: Sequence[int], values: Sequence[float], warmup: Optional[_Warmup] = None) -> _Scheduler:
    """values[i] up to and with step boundaries[i], then the last."""
    if len(values) != len(boundaries) + 1:
        raise ValueError(f"{len(boundaries)} boundaries part {len(boundaries) + 1} values; found {len(values)}")
    attrs = {"decay_type": "piecewise_constant", "boundaries": list(boundaries), "values": list(values)} if boundaries else {}
    return _Scheduler(values[0], warmup, attrs)


def CosineScheduler(base_lr: float, steps: int, alpha: float = 0.0, warmup: Optional[_Warmup] = None) -> _Scheduler:
    """From the rate to `alpha` times it, along a cosine."""
    return _Scheduler(base_lr, warmup, {"decay_type": "cosine", "decay_batches": steps, "alpha": alpha})


class grad_clipping:
    """What is done to gradients before the update."""

    @staticmethod
    def by_global_norm(clip_norm: float) -> float:
        """Scaled down together when their 2-norm exceeds it."""
        return clip_norm


class _FlowOptimizer:
    def __init__(self, made: _Optimizer) -> None:
        self._made = made

    def minimize(self, loss: Any) -> None:
        """Makes the job a training step: the loss backward, and an update of each trainable variable."""
        add_loss(self._made, list(loss) if isinstance(loss, (list, tuple)) else [loss])


def _options(rate: Any, clipping: Optional[float]) -> Dict[str, Any]:
    if not isinstance(rate, _Scheduler):
        raise TypeError(f"an optimizer takes a schedule, flow.optimizer.PiecewiseConstantScheduler([], [0.1]); found {rate!r}")
    return {"lr": rate.base_lr, "schedule": rate.schedule(), "clip_norm": clipping or 0.0}


def SGD(lr_scheduler: Any, loss_scale_factor: Any = None, momentum: float = 0.9, grad_clipping: Optional[float] = None) -> _FlowOptimizer:
    """Gradient descent; the momentum is 0.9 when nothing is said, as OneFlow's."""
    return _FlowOptimizer(opc.optim.SGD(momentum=momentum, **_options(lr_scheduler, grad_clipping)))


def Adam(lr_scheduler: Any, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, do_bias_correction: bool = False,
         grad_clipping: Optional[float] = None) -> _FlowOptimizer:
    """Adam; the means' bias is corrected only where that is said, as in OneFlow."""
    attrs = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "do_bias_correction": do_bias_correction}
    return _FlowOptimizer(_Optimizer("adam_update", attrs=attrs, decay_attr="l2", **_options(lr_scheduler, grad_clipping)))
