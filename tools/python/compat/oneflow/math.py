"""`flow.math`: arithmetic."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Optional, Sequence, Union

from ._functions import one

relu, sigmoid, tanh, exp, log, sqrt, square, abs, negative = (
    one(name) for name in ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "square", "abs", "negative")
)
Axis = Union[None, int, Sequence[int]]


def add(x: Any, y: Any, name: Optional[str] = None) -> Any:
    """x + y."""
    return x + y


def subtract(x: Any, y: Any, name: Optional[str] = None) -> Any:
    """x - y."""
    return x - y


def multiply(x: Any, y: Any, name: Optional[str] = None) -> Any:
    """x * y."""
    return x * y


def divide(x: Any, y: Any, name: Optional[str] = None) -> Any:
    """x / y."""
    return x / y


def reduce_sum(input_tensor: Any, axis: Axis = None, keepdims: bool = False, name: Optional[str] = None) -> Any:
    """The sum over the axes, or of all."""
    return input_tensor.sum(axis, keepdims)


def reduce_mean(input_blob: Any, axis: Axis = None, keepdims: bool = False, name: Optional[str] = None) -> Any:
    """The mean over the axes, or of all."""
    return input_blob.mean(axis, keepdims)
