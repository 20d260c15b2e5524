"""The functions that programs with operators of their own use: on tensors, variables of programs, and tensors of graphs."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Callable, List, Optional, Sequence, Union

import numpy as np

import opc

from .dtypes import numpy_type
from .tensor import Tensor, apply, no_tensor

_generator = np.random.default_rng()


def _unary(name: str, numpy: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Any]:
    def function(x: Any, name: Optional[str] = None) -> Any:
        return apply(kind, lambda t: [getattr(opc.ops, kind)(t[0])], lambda t: [numpy(t[0])], [x])[0]

    kind = name
    function.__name__, function.__doc__ = name, f"{name} of each element."
    return function


abs = _unary("abs", np.abs)  # noqa: A001
cos = _unary("cos", np.cos)
exp = _unary("exp", np.exp)
log = _unary("log", np.log)
relu = _unary("relu", lambda x: np.maximum(x, 0))
sigmoid = _unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)))
sin = _unary("sin", np.sin)
sqrt = _unary("sqrt", np.sqrt)
square = _unary("square", np.square)
tanh = _unary("tanh", np.tanh)


def add(x: Any, y: Any) -> Any:
    return x + y


def subtract(x: Any, y: Any) -> Any:
    return x - y


def multiply(x: Any, y: Any) -> Any:
    return x * y


def divide(x: Any, y: Any) -> Any:
    return x / y


def matmul(x: Any, y: Any) -> Any:
    return x @ y


def _reduction(name: str) -> Callable[..., Any]:
    def function(x: Any, axis: Any = None, keepdim: bool = False) -> Any:
        axes = tuple(axis) if isinstance(axis, list) else axis
        return apply(name, lambda t: [getattr(t[0], name)(axis=axes, keepdims=keepdim)], None, [x], (axes, keepdim))[0]

    function.__name__, function.__doc__ = name, f"The {name} over an axis, several, or all."
    return function


mean = _reduction("mean")
sum = _reduction("sum")  # noqa: A001


def reshape(x: Any, shape: Sequence[int]) -> Any:
    return apply("reshape", lambda t: [t[0].reshape(*shape)], None, [x], tuple(shape))[0]


def transpose(x: Any, perm: Sequence[int]) -> Any:
    return apply("transpose", lambda t: [t[0].transpose(*perm)], None, [x], tuple(perm))[0]


def cast(x: Any, dtype: Any) -> Any:
    kind = numpy_type(dtype)
    return apply("cast", lambda t: [opc.ops.cast(t[0], dtype=kind)], lambda t: [t[0].astype(kind)], [x], kind.str)[0]


def concat(x: Sequence[Any], axis: int = 0) -> Any:
    return apply("concat", lambda t: [opc.ops.concat(t, axis=axis % t[0].ndim)], lambda t: [np.concatenate(t, axis)], list(x), axis)[0]


def split(x: Any, num_or_sections: Union[int, Sequence[int]], axis: int = 0) -> List[Any]:
    """Into so many equal parts, or parts of these sizes."""
    size = x.shape[axis]
    if isinstance(num_or_sections, int):
        if size % num_or_sections:
            raise ValueError(f"split: axis {axis} of {size} is not {num_or_sections} equal parts")
        sections = [size // num_or_sections] * num_or_sections
    else:
        sections = list(num_or_sections)
    ends = np.cumsum(sections).tolist()

    def build(t: List[Any]) -> List[Any]:
        before = (slice(None),) * (axis % t[0].ndim)
        return [t[0][(*before, slice(end - n, end))] for n, end in zip(sections, ends)]

    return apply("split", build, None, [x], (tuple(sections), axis))


def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Tensor:
    """Floats become float32 unless they are numpy's or a type is given."""
    value = np.array(data._value if isinstance(data, Tensor) else data)
    if dtype is None and value.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic, Tensor)):
        dtype = np.float32
    return Tensor(value if dtype is None else value.astype(numpy_type(dtype)), stop_gradient)


def seed(seed: int) -> None:
    """Restarts the generator."""
    global _generator
    _generator = np.random.default_rng(seed)


def randn(shape: Sequence[int], dtype: Any = "float32") -> Tensor:
    return Tensor(np.asarray(_generator.standard_normal(shape), numpy_type(dtype)))


def rand(shape: Sequence[int], dtype: Any = "float32") -> Tensor:
    return uniform(shape, dtype, 0.0, 1.0)


def uniform(shape: Sequence[int], dtype: Any = "float32", min: float = -1.0, max: float = 1.0) -> Tensor:  # noqa: A002
    return Tensor(np.asarray(_generator.uniform(min, max, shape), numpy_type(dtype)))


def full(shape: Sequence[int], fill_value: Any, dtype: Any = "float32") -> Tensor:
    return Tensor(np.full(shape, fill_value, numpy_type(dtype)))


def zeros(shape: Sequence[int], dtype: Any = "float32") -> Tensor:
    return full(shape, 0, dtype)


def ones(shape: Sequence[int], dtype: Any = "float32") -> Tensor:
    return full(shape, 1, dtype)


def zeros_like(x: Tensor) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(no_tensor("zeros_like", x))
    return Tensor(np.zeros_like(x._value))


def ones_like(x: Tensor) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(no_tensor("ones_like", x))
    return Tensor(np.ones_like(x._value))
