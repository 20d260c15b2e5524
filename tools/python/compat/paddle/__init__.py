"""Paddle's style of operators in Python, over opc (docs/python-styles.md): `import paddle`."""
# SPDX-License-Identifier: Apache-2.0
from . import autograd, nn, static
from .autograd import grad_enabled, no_grad
from .dtypes import DType, bool, float16, float32, float64, int8, int16, int32, int64, uint8  # noqa: A004
from .functions import (
    abs, add, cast, concat, cos, divide, exp, full, log, matmul, mean, multiply, ones, ones_like, rand, randn, reshape, seed, sigmoid, sin, split,  # noqa: A004
    sqrt, square, subtract, sum, tanh, to_tensor, transpose, uniform, zeros, zeros_like,  # noqa: A004
)  # fmt: skip
from .static import CPUPlace
from .mode import disable_static, enable_static, in_dynamic_mode
from .tensor import Tensor

__all__ = [n for n in dir() if not n.startswith("_")]
