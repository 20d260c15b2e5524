"""What `+ * @ []` mean on tensors: ordinary ops, broadcasting as in numpy. Nothing is converted silently."""
# SPDX-License-Identifier: Apache-2.0
import numbers
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import ops
from ._arrays import fits_float
from ._graph import Tensor, add_op


def _check_fits(x: Tensor, value: Any) -> None:
    """Numbers become numbers of the tensor's type: one that is none would be cut off without a word."""
    if x.dtype == "bool":
        if not isinstance(value, _BOOL):
            raise TypeError(f"{value!r} is no bool, and {x!r} is one; nothing is converted silently: opc.ops.cast(x, dtype=...)")
        return
    if x.dtype[0] not in "iu":
        if not fits_float(value, x.dtype):
            raise TypeError(f"{value!r} is beyond {x.dtype}, and {x!r} is one; nothing is converted silently: infinity is float('inf')")
        return
    bits = int(x.dtype[1:])
    low, high = (0, 2**bits - 1) if x.dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not isinstance(value, numbers.Integral) or not low <= int(value) <= high:
        raise TypeError(f"{value!r} is no {x.dtype}, and {x!r} is one; nothing is converted silently: opc.ops.cast(x, dtype=...)")


def _scalar(type_name: str, x: Tensor, value: Any) -> Tensor:
    _check_fits(x, value)
    return _with_number(type_name, x, value)


def _with_number(type_name: str, x: Tensor, value: Any) -> Tensor:
    if _is_whole(x, value):
        attrs: Dict[str, Any] = {"has_int_operand": True, "int_operand": _in_64_bits(value)}
    else:
        attrs = {"has_float_operand": True, "float_operand": float(value)}
    return add_op(type_name, {"in": x}, attrs)[0]


_BOOL = (bool, np.bool_)


def _is_whole(x: Tensor, value: Any) -> bool:
    """Whether an attribute of 64 bits holds the number; floats have larger ones."""
    return isinstance(value, (numbers.Integral, np.bool_)) and (x.dtype[0] in "iu" or -(2**63) <= int(value) < 2**63)


def _in_64_bits(value: Any) -> int:
    """As graph files have it: of u64 the upper half are the negative ones."""
    return (int(value) + 2**63) % 2**64 - 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_comparable(x: Tensor, value: Any) -> bool:
    """Numbers, and bools beside a tensor of them."""
    return _is_number(value) or x.dtype == "bool" and isinstance(value, _BOOL)


def _binary(
    tensors: str, scalar: Callable[[Tensor, Any], Tensor], takes: Callable[[Tensor, Any], bool] = lambda x, y: _is_number(y)
) -> Callable[[Tensor, Any], Any]:
    def operator(x: Tensor, y: Any) -> Any:
        if isinstance(y, Tensor):
            return add_op(tensors, {"x": x, "y": y})[0]
        return scalar(x, y) if takes(x, y) else NotImplemented

    return operator


def _reflected(scalar: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Any], Any]:
    return lambda x, y: scalar(x, y) if _is_number(y) else NotImplemented


def _by(type_name: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda x, value: _scalar(type_name, x, value)


def _less_number(x: Tensor, value: Any) -> Tensor:
    _check_fits(x, value)  # its negative need not: unsigned numbers wrap around to the right sum
    return _with_number("scalar_add", x, -value)


def _number_less(x: Tensor, value: Any) -> Tensor:
    _check_fits(x, value)
    return _with_number("scalar_add", ops.negative(x), value)


def _constant(x: Tensor, value: Any) -> Tensor:
    """A number as a tensor of x's type."""
    _check_fits(x, value)
    with x.graph:
        if _is_whole(x, value):
            return ops.constant(integer_value=_in_64_bits(value), dtype=x.dtype, shape=())
        return ops.constant(floating_value=float(value), is_floating_value=True, dtype=x.dtype, shape=())


def _of_constant(type_name: str, reflected: bool = False) -> Callable[[Tensor, Any], Tensor]:
    """What has no form with a number, or none with the number in front."""

    def operator(x: Tensor, value: Any) -> Tensor:
        y = _constant(x, value)
        return add_op(type_name, {"x": y, "y": x} if reflected else {"x": x, "y": y})[0]

    return operator


def _floor_divide(x: Tensor, y: Any) -> Any:
    if not isinstance(y, Tensor):
        return _scalar("scalar_floordiv", x, y) if _is_number(y) else NotImplemented
    return _floordiv(x, y)


def _floordiv(x: Tensor, y: Tensor) -> Tensor:
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        shape = x.shape  # the op says what does not fit
    whole = [t if t.shape == shape else ops.expand(t, expand_shape=shape) for t in (x, y)]
    return add_op("floordiv", {"x": whole[0], "y": whole[1]})[0]


def _reverse_pow(x: Tensor, value: Any) -> Tensor:
    return _of_constant("broadcast_pow", True)(x, value) if x.dtype[0] in "iu" else _scalar("scalar_reverse_pow", x, value)


def _check_bits(symbol: str, x: Tensor, y: Any = None) -> None:
    for t in (x, y):
        if isinstance(t, Tensor) and t.dtype != "bool" and t.dtype[0] not in "iu":
            raise TypeError(f"{symbol} is for integers and bool, and {t!r} is neither")


def _bits(symbol: str, name: str) -> Callable[[Tensor, Any], Any]:
    def operator(x: Tensor, y: Any) -> Any:
        _check_bits(symbol, x, y)
        if isinstance(y, Tensor):
            return add_op("broadcast_bitwise_" + name, {"x": x, "y": y})[0]
        if isinstance(y, _BOOL) and x.dtype == "bool":
            return add_op("scalar_bitwise_" + name, {"in": x}, {"has_int_operand": True, "int_operand": int(y)})[0]
        return _scalar("scalar_bitwise_" + name, x, y) if _is_number(y) and x.dtype != "bool" else NotImplemented

    return operator


def _invert(x: Tensor) -> Tensor:
    _check_bits("~", x)
    return ops.bitwise_not(x)


def _divmod(x: Tensor, y: Any) -> Any:
    return (x // y, x % y) if isinstance(y, Tensor) or _is_number(y) else NotImplemented


def _length(x: Tensor) -> int:
    if not x.shape:
        raise TypeError(f"{x!r} has no dimensions, and so no length")
    return x.shape[0]


def _matmul(a: Tensor, b: Any) -> Any:
    return ops.matmul(a, b) if isinstance(b, Tensor) else NotImplemented


def _spread(index: Any, rank: int, what: Tensor) -> Tuple[Any, ...]:
    """The index with one entry for each dimension, and None for each new one."""
    parts = index if isinstance(index, tuple) else (index,)
    for part in parts:
        if not (part is None or part is Ellipsis or isinstance(part, (slice, numbers.Integral))) or isinstance(part, bool):
            raise TypeError(f"{what!r} is indexed by ints, slices, ... and None, not by {part!r}; opc.ops.gather takes tensors")
    taken = sum(p is not None and p is not Ellipsis for p in parts)
    if taken > rank or sum(p is Ellipsis for p in parts) > 1:
        raise IndexError(f"{what!r} has {rank} dimensions, and the index {index!r} is for {taken}")
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    return (*parts[:at], *[slice(None)] * (rank - taken), *parts[at + 1:])


def _getitem(x: Tensor, index: Any) -> Tensor:
    start: List[int] = []
    stop: List[int] = []
    step: List[int] = []
    shape: List[int] = []  # of the result
    for part in _spread(index, x.ndim, x):
        if part is None:
            shape.append(1)
            continue
        size = x.shape[len(start)]
        if isinstance(part, slice):
            first, last, by = part.indices(size)
            shape.append(len(range(first, last, by)))
        else:
            first = int(part)
            if not -size <= first < size:
                raise IndexError(f"{x!r}: index {first} is beyond dimension {len(start)}, which has {size}")
            first %= size
            last, by = first + 1, 1
        start.append(first)
        stop.append(last if by > 0 or last >= 0 else -size - 1)
        step.append(by)
    whole = all(s == 0 and e == n and b == 1 for s, e, b, n in zip(start, stop, step, x.shape))
    y = x if whole else ops.slice(x, start=start, stop=stop, step=step)
    return y if y.shape == tuple(shape) else ops.reshape(y, shape=shape)


def _axis(x: Tensor, axis: Any) -> int:
    if isinstance(axis, bool) or not isinstance(axis, numbers.Integral):
        raise TypeError(f"{axis!r} is no axis of {x!r}: an int is")
    if not -x.ndim <= int(axis) < x.ndim:
        raise IndexError(f"{x!r} has {x.ndim} dimensions, and no axis {axis}")
    return int(axis) % x.ndim


def _reduction(type_name: str) -> Callable[..., Tensor]:
    def reduce(self: Tensor, axis: Optional[Union[int, Sequence[int]]] = None, keepdims: bool = False) -> Tensor:
        axes = range(self.ndim) if axis is None else axis if isinstance(axis, (tuple, list, range)) else [axis]
        return add_op(type_name, {"input_tensor": self}, {"axis": [_axis(self, a) for a in axes], "keepdims": keepdims})[0]

    reduce.__doc__ = f"{type_name} over an axis, several, or all."
    return reduce


def _transpose(self: Tensor, *axes: int) -> Tensor:
    """The axes in another order; reversed when none is given."""
    order = axes if axes else tuple(reversed(range(self.ndim)))
    return ops.transpose(self, perm=[_axis(self, a) for a in order])


def _reshape(self: Tensor, *shape: Any) -> Tensor:
    """Another shape of as many elements; one -1 is what is left."""
    return ops.reshape(self, shape=shape[0] if len(shape) == 1 and not isinstance(shape[0], numbers.Integral) else shape)


def _methods() -> Dict[str, Any]:
    negative = ops.negative
    add = _binary("broadcast_add", _by("scalar_add"))
    multiply = _binary("broadcast_mul", _by("scalar_mul"))
    methods: Dict[str, Any] = {
        "__add__": add,
        "__radd__": add,
        "__sub__": _binary("broadcast_sub", _less_number),
        "__rsub__": _reflected(_number_less),
        "__mul__": multiply,
        "__rmul__": multiply,
        "__truediv__": _binary("broadcast_div", _by("scalar_div")),
        "__rtruediv__": _reflected(_of_constant("broadcast_div", True)),
        "__pow__": _binary("broadcast_pow", _by("scalar_pow")),
        "__rpow__": _reflected(_reverse_pow),
        "__floordiv__": _floor_divide,
        "__rfloordiv__": _reflected(lambda x, v: _floordiv(_constant(x, v), x)),
        "__mod__": _binary("broadcast_floor_mod", _of_constant("broadcast_floor_mod")),
        "__rmod__": _reflected(_of_constant("broadcast_floor_mod", True)),
        "__divmod__": _divmod,
        "__abs__": lambda self: ops.abs(self),
        "__pos__": lambda self: self,
        "__invert__": _invert,
        "__len__": _length,
        "__matmul__": _matmul,
        "__neg__": lambda self: negative(self),
        "__getitem__": _getitem,
        "sum": _reduction("reduce_sum"),
        "mean": _reduction("reduce_mean"),
        "transpose": _transpose,
        "reshape": _reshape,
        "T": property(_transpose),
        "__array_ufunc__": None,  # numpy's arrays are no operands, element by element least of all
    }
    for symbol, name in (("&", "and"), ("|", "or"), ("^", "xor")):
        methods[f"__{name}__"] = methods[f"__r{name}__"] = _bits(symbol, name)
    for name, op in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal")):
        methods[f"__{name}__"] = _binary("broadcast_" + op, _by("scalar_logical_" + op), _is_comparable)
    return methods


def install() -> None:
    """Gives tensors their operators and the methods that read better than functions; Tensor declares their types."""
    for name, method in _methods().items():
        setattr(Tensor, name, method)
