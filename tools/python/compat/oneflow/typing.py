"""`oneflow.typing`: annotations of jobs, which say what goes in and what comes out."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Dict, Sequence, Tuple

import numpy as np
import opc


class _Placeholder:
    """A parameter of a job: a tensor of that shape and element type."""

    def __init__(self, shape: Sequence[int], dtype: Any = "f32", batch_axis: Any = None, name: Any = None) -> None:
        self.shape = tuple(int(size) for size in shape)
        self.dtype = opc.dtype(dtype)

    def __repr__(self) -> str:
        return f"oneflow.typing.Numpy.Placeholder({self.shape}, dtype={self.dtype})"


class Numpy(np.ndarray):
    """An array: the job gives what it computes, when it is done."""

    Placeholder = _Placeholder


class Callback:
    """`Callback[Numpy]`: the job gives a function that takes what is to be called with the arrays."""

    def __class_getitem__(cls, item: Any) -> "Callback":
        made = cls()
        made.item = item
        return made

    item: Any = None


__all__ = ["Callback", "Dict", "Numpy", "Tuple"]
