"""MXNet's style of operators in Python, over opc (docs/python-styles.md): `import mxnet as mx`."""
# SPDX-License-Identifier: Apache-2.0
from . import autograd, gluon, ndarray, operator, random, symbol
from . import ndarray as nd
from . import symbol as sym
from .base import MXNetError
from .context import Context, cpu, current_context, gpu

__all__ = [
    "Context", "MXNetError", "autograd", "cpu", "current_context", "gluon", "gpu", "nd", "ndarray", "operator", "random", "sym", "symbol",
]
