"""Operators that programs call beside their own: opc's under OneFlow's names."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Callable, Optional, Sequence

import opc


def one(type_name: str) -> Callable[..., Any]:
    """A function of tensors: `f(x, y, name=None)`."""

    def function(*tensors: Any, name: Optional[str] = None) -> Any:
        return opc.ops.function(type_name)(*tensors, name=name)

    function.__name__ = function.__qualname__ = type_name
    function.__doc__ = f"opc's {type_name}."
    return function


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: Optional[str] = None) -> Any:
    """The product of matrices."""
    return opc.ops.function("matmul" if a.ndim == 2 else "batch_matmul")(a, b, transpose_a=transpose_a, transpose_b=transpose_b, name=name)


def cast(x: Any, dtype: Any, name: Optional[str] = None) -> Any:
    """The same numbers in another element type."""
    return opc.ops.cast(x, dtype=opc.dtype(dtype), name=name)


def reshape(x: Any, shape: Sequence[int], name: Optional[str] = None) -> Any:
    """The same elements under another shape; one size may be -1."""
    return x.reshape(*shape)


def transpose(a: Any, perm: Optional[Sequence[int]] = None, name: Optional[str] = None) -> Any:
    """The axes in another order."""
    return a.transpose(*(perm if perm is not None else reversed(range(a.ndim))))
