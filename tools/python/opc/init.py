"""Initializers of variables, as graph files have them. Numbers depend on the seed and the variable's name alone."""
# SPDX-License-Identifier: Apache-2.0
import math
import numbers
from typing import Any, Union

import numpy as np

from ._arrays import fits_float


class Initializer:
    """A message of `variable_conf.initializer`, as text."""

    __slots__ = ("text",)

    def __init__(self, kind: str, **fields: Any) -> None:
        self.text = kind + " { " + " ".join(f"{k}: {v}" for k, v in fields.items() if v is not None) + " }"

    def __repr__(self) -> str:
        return f"opc.init: {self.text}"


def _number(value: Any, name: str, least: float = -math.inf) -> float:
    """A finite number, as graph files hold them."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value) or value < least:
        wanted = "a finite number" + ("" if least == -math.inf else f", at least {least:g}")
        raise ValueError(f"{name} of an initializer is {wanted}, not {value!r}")
    return float(value)


def constant(value: Union[int, float] = 0) -> Initializer:
    """Every element is `value`."""
    return Initializer("constant_int_conf" if isinstance(value, int) and not isinstance(value, bool) else "constant_conf", value=repr(value))


def zeros() -> Initializer:
    return constant(0.0)


def ones() -> Initializer:
    return constant(1.0)


def uniform(low: float = 0.0, high: float = 1.0) -> Initializer:
    """Uniform in [low, high)."""
    return Initializer("random_uniform_conf", min=repr(_number(low, "low")), max=repr(_number(high, "high")))


def normal(mean: float = 0.0, std: float = 1.0) -> Initializer:
    return Initializer("random_normal_conf", mean=repr(_number(mean, "mean")), std=repr(_number(std, "std", 0)))


def truncated_normal(mean: float = 0.0, std: float = 1.0) -> Initializer:
    """Normal, drawn again beyond two standard deviations."""
    return Initializer("truncated_normal_conf", mean=repr(_number(mean, "mean")), std=repr(_number(std, "std", 0)))


_NORMS = {"fan_in": "kFanIn", "fan_out": "kFanOut", "average": "kAverage"}


def _norm(mode: str) -> str:
    if mode not in _NORMS:
        raise ValueError(f"mode is {', '.join(_NORMS)}, not {mode!r}")
    return _NORMS[mode]


def xavier(mode: str = "fan_in") -> Initializer:
    """Glorot's. mode: fan_in, fan_out or average."""
    return Initializer("xavier_conf", variance_norm=_norm(mode))


def msra(mode: str = "fan_in") -> Initializer:
    """He's. mode: fan_in, fan_out or average."""
    return Initializer("msra_conf", variance_norm=_norm(mode))


def arange(start: float = 0.0, step: float = 1.0, axis: int = -1) -> Initializer:
    """start, start + step, ... along an axis."""
    return Initializer("range_conf", start=repr(_number(start, "start")), stride=repr(_number(step, "step")), axis=axis)


def as_initializer(value: Any, dtype: str = "f32") -> Initializer:
    """A number of the type is a constant."""
    if isinstance(value, Initializer):
        return value
    if str(dtype) == "bool":
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{value!r} is no bool, which the variable is; nothing is converted silently")
        return constant(int(value))
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{value!r} is no initializer: a number, or one of opc.init")
    if str(dtype)[0] in "iu":
        bits = int(str(dtype)[1:])
        low, high = (0, 2**bits - 1) if str(dtype)[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not isinstance(value, numbers.Integral) or not low <= int(value) <= high:
            raise TypeError(f"{value!r} is no {dtype}, which the variable is; nothing is converted silently")
        return constant(int(value))
    if not fits_float(value, dtype):
        raise TypeError(f"{value!r} is beyond {dtype}, which the variable is; nothing is converted silently")
    return constant(float(value))
