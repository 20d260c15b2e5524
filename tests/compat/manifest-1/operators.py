# Operators of graph.pbtxt.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

import opc


@opc.op("compat::leaky", sbp=opc.elementwise, like="x")
def leaky(x: opc.Tensor, *, alpha: float = 0.01) -> opc.Tensor:
    """x where it is positive, alpha x elsewhere."""
    return np.where(x > 0, x, x * np.float32(alpha))


@leaky.grad(needs=["x"])
def _(dy, *, x, alpha):
    return np.where(x > 0, dy, dy * np.float32(alpha))


@opc.op("compat::product", shape={"y": ("a[0]", "b[1]")}, sbp="m k, k n -> m n", cases=[{"a": (4, 6), "b": (6, 2)}])
def product(a, b):
    return a @ b
