# References of matrix products and of biases.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from .table import reference


def product(c):
    a, b = c.get("a"), c.get("b")
    if c.attr("transpose_a", default=False):
        a = np.swapaxes(a, -1, -2)
    if c.attr("transpose_b", default=False):
        b = np.swapaxes(b, -1, -2)
    out = np.matmul(a, b) * c.attr("alpha", default=1.0)
    return out if c.get("_add_to_output") is None else out + c.get("_add_to_output")


reference("matmul", "batch_matmul", "broadcast_matmul")(product)


@reference("broadcast_matmul_grad_b")
def broadcast_matmul_grad_b(c):
    """A gradient with respect to the unbatched operand: the batch is summed."""
    a, b = c.get("a"), c.get("b")
    out = np.einsum("bk,bn->kn", a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])) * c.attr("alpha", default=1.0)
    return out if c.get("_add_to_output") is None else out + c.get("_add_to_output")


@reference("matrix_vector_product")
def matrix_vector_product(c):
    return c.get("a") @ c.get("b")


@reference("vector_matrix_product")
def vector_matrix_product(c):
    return c.get("a") @ c.get("b")


@reference("dot")
def dot(c):
    return np.asarray(np.dot(c.get("x"), c.get("y")))


@reference("bias_add")
def bias_add(c):
    a, b, axis = c.get("a"), c.get("b"), c.attr("axis")
    shape = [1] * a.ndim
    shape[axis] = -1
    return a + b.reshape(shape)


@reference("fused_matmul_bias")
def fused_matmul_bias(c):
    return c.get("x") @ c.get("weight").T + c.get("bias")
