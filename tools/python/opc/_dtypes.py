"""Element types: str with opc's name ("f32"), and numpy's type where numpy has one."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Dict, Optional, Union

import numpy as np

from . import _core
from ._errors import usage


class DType(str):
    """An element type; equal to its name: `tensor.dtype == "f32"`."""

    __slots__ = ()

    @property
    def numpy(self) -> Optional[np.dtype]:
        """numpy's type, or None where numpy has none (bf16, floats of a byte, types under a byte: arrays then have bits_type)."""
        return _NUMPY.get(str(self))

    @property
    def bits_type(self) -> np.dtype:
        """The numpy type of the arrays that go in and come out: where numpy has no such type, int8 for i4 and i2, else bits as unsigned integers."""
        return _BITS_TYPE[str(self)]

    def __repr__(self) -> str:
        return "opc." + str(self)


_BITS_TYPE: Dict[str, np.dtype] = {}
_NUMPY: Dict[str, np.dtype] = {}
_KNOWN: Dict[Any, DType] = {}


def _fill() -> None:
    for name, _, numpy_name, bits_type, *_ in _core.dtypes():
        known = DType(name)
        _BITS_TYPE[name] = bits_type
        for spelling in (name, numpy_name):
            _KNOWN[spelling] = known
        if bits_type.name == numpy_name:
            _NUMPY[name] = bits_type
            _KNOWN[_NUMPY[name]] = known
            _KNOWN[_NUMPY[name].type] = known
    _KNOWN[float] = _KNOWN["f32"]
    _KNOWN[int] = _KNOWN["i64"]
    _KNOWN[bool] = _KNOWN["bool"]


_fill()
DTypeLike = Union[str, DType, np.dtype, type]


def dtype(kind: Any) -> DType:
    """An element type of opc's, numpy's or the graph files' name, a numpy type, or float, int and bool (f32, i64, bool)."""
    try:
        return _KNOWN[kind]
    except (KeyError, TypeError):
        pass
    name = _core.dtype_name(kind)
    if name is None or name not in _KNOWN:
        try:
            return _KNOWN[np.dtype(kind) if kind is not None else None]
        except (KeyError, TypeError):
            raise usage(f"no element type is called {kind!r}; there are {', '.join(sorted(_BITS_TYPE))}", code="OPC0204") from None
    return _KNOWN[name]
