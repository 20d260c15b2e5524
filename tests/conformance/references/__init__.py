# Reference implementations of the operators, in f64, by numpy and PyTorch. One module a family.
# SPDX-License-Identifier: Apache-2.0
from . import attention, elementwise, gradients, index, linear, loss, nn, optimizer, reduce, shape  # noqa: F401 (they fill the table)
from .table import NOT_COMPARED, REFERENCES, Instance, Typed  # noqa: F401
