"""Names of element types: paddle.float32."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np


class DType(str):
    """An element type; equal to its name, and taken by numpy."""

    def __repr__(self) -> str:
        return f"paddle.{self!s}"


bool, uint8, int8, int16, int32, int64, float16, float32, float64 = map(  # noqa: A001
    DType, ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
)


def numpy_type(dtype: Any) -> np.dtype:
    """As numpy has it."""
    known = getattr(dtype, "numpy", None)  # opc.DType
    if known is not None:
        return np.dtype(known)
    try:
        return np.dtype(dtype.replace("paddle.", "") if isinstance(dtype, str) else dtype)
    except TypeError:
        raise TypeError(f"tensors of this style have element types of numpy's, and '{dtype!s}' is none; on a tensor of an opc.Graph opc.ops.cast has all types") from None
