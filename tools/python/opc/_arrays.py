"""Arrays from whatever holds one: the buffer protocol, DLPack, numbers and sequences."""
# SPDX-License-Identifier: Apache-2.0
import math
import numbers
from typing import Any, Iterator

import numpy as np

from . import _core


def refuse_mask(value: Any, what: str) -> None:
    """A kernel sees no mask, and what is under it is any number."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{what} is a masked array, and a tensor has no mask: give .filled(...), or .data; nothing is converted silently")


def as_array(value: Any, what: str, expected: str) -> np.ndarray:
    """A numpy array of the value's memory, without a copy where the value offers its memory.

    Called by the core for values that are no arrays, or of a class of their own. Numbers of Python and sequences of them have no type of their own: they
    become the `expected` one where they are numbers of it.
    """
    if isinstance(value, np.ndarray):
        refuse_mask(value, what)
        return value
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if hasattr(value, "__array__"):  # numpy's numbers have a type
        return np.asarray(value)
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        pass
    if not isinstance(value, (numbers.Number, list, tuple, range)):
        raise TypeError(f"{what} is {type(value).__name__}: no array, nothing with a buffer or __dlpack__, no sequence of numbers")
    return _of_numbers(value, what, expected)


def _elements(value: Any) -> Iterator[Any]:
    """The numbers of nested sequences."""
    if isinstance(value, (list, tuple, range)):
        for v in value:
            yield from _elements(v)
    else:
        yield value


#: The largest finite number of a type of floats and its bits of fraction; what is halfway to the next power of two, or beyond, rounds to infinity.
_LARGEST = {name: (largest, bits) for name, _, _, _, largest, bits in _core.dtypes() if largest is not None}


def fits_float(value: Any, dtype: str) -> bool:
    """Whether a number is one of the type after rounding: finite ones that would become infinite are not."""
    try:
        number = abs(float(value))
    except OverflowError:  # an int beyond f64
        return False
    largest, bits = _LARGEST.get(str(dtype), (None, 0))
    if largest is None or number != number or number == float("inf"):
        return True
    half = 2.0 ** (math.frexp(largest)[1] - 2 - bits)
    return number - largest < half


def _of_numbers(value: Any, what: str, expected: str) -> np.ndarray:
    from ._dtypes import dtype

    wanted = dtype(expected).numpy
    if wanted is None:
        raise TypeError(f"{what} is {expected}, which numpy has not: give its bits, an array of {dtype(expected).bits_type}")
    for v in _elements(value):
        refuse_mask(v, what)
        if isinstance(v, (np.ndarray, np.generic)):  # a list of arrays has their type
            return np.asarray(value)
        fits = isinstance(v, bool) if wanted.kind == "b" else isinstance(v, numbers.Integral if wanted.kind in "iu" else numbers.Real) and not isinstance(v, bool)
        if fits and wanted.kind in "iu":
            fits = np.iinfo(wanted).min <= v <= np.iinfo(wanted).max
        if fits and wanted.kind == "f":
            fits = fits_float(v, expected)
        if not fits:
            raise TypeError(f"{what} is {expected}, and {v!r} is no number of that type: nothing is converted silently")
    try:
        return np.array(value, wanted)
    except (ValueError, OverflowError) as e:
        raise TypeError(f"{what}: {e}") from None
