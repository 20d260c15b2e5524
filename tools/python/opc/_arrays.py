"""Arrays from whatever holds one: the buffer protocol, DLPack, numbers and sequences."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np


def as_array(value: Any, what: str = "value") -> np.ndarray:
    """A numpy array of the value's memory, without a copy where the value offers its memory.

    Called by the core for values that are no arrays. Numbers and sequences take the type that numpy gives them, but Python
    floats become f32.
    """
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if isinstance(value, float):
        return np.float32(value)[...]
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        pass
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"{what} is {type(value).__name__}: no array, nothing with a buffer or __dlpack__, no sequence of numbers")
    if array.dtype == np.float64 and not isinstance(value, np.generic) and not hasattr(value, "__array__"):
        array = array.astype(np.float32)
    return array
