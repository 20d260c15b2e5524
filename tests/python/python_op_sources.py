"""Sources of operators for the tests, written into folders of their own, as users write them."""
# SPDX-License-Identifier: Apache-2.0
LEAKY = '''\
import numpy as np
import opc


@opc.op("demo::leaky_relu", sbp=opc.elementwise, like="x")
def leaky_relu(x: opc.Tensor, *, alpha: float = 0.01) -> opc.Tensor:
    """x where it is positive, alpha x elsewhere."""
    return np.where(x > 0, x, x * np.float32(alpha))


@leaky_relu.grad(needs=["x"])
def _(dy, *, x, alpha):
    return np.where(x > 0, dy, dy * np.float32(alpha))


@opc.op("demo::fails", like="x")
def fails(x):
    raise ValueError("not today")


@opc.op("demo::product", shape={"y": ("a[0]", "b[1]")}, sbp="n: m k, k n -> m n", cases=[{"a": (4, 6), "b": (6, 2)}])
def product(a, b):
    return a @ b
'''
