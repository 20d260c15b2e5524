"""Tensors that compute at once: paddle.Tensor."""
# SPDX-License-Identifier: Apache-2.0
import numbers
import operator as operators
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

import opc
from opc_styles import classes, eager

from . import dtypes


class Tensor(eager.Array):
    """An array with values. `stop_gradient` is True until it is set False, or an op had an input where it is."""

    __array_priority__ = 1000.0

    def __init__(self, value: np.ndarray, stop_gradient: Optional[bool] = None) -> None:
        super().__init__(value)
        self._stop = stop_gradient
        self.grad: Optional["Tensor"] = None
        self.name = ""

    # Gradients.

    @property
    def stop_gradient(self) -> bool:
        return self._node is None if self._stop is None else self._stop

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        self._stop = stop

    @property
    def is_leaf(self) -> bool:
        return self._node is None

    def _leaf(self) -> bool:
        return self._node is None and not self.stop_gradient

    def _on_tape(self) -> bool:
        return not self.stop_gradient

    def _receive(self, gradient: np.ndarray) -> None:
        self.grad = Tensor(gradient if self.grad is None else self.grad._value + gradient)

    def backward(self, grad_tensor: Optional["Tensor"] = None, retain_graph: bool = False) -> None:
        """Adds to `grad` of every tensor that wants one."""
        from . import autograd

        autograd.backward([self], None if grad_tensor is None else [grad_tensor], retain_graph)

    def clear_grad(self) -> None:
        self.grad = None

    clear_gradient = clear_grad

    def detach(self) -> "Tensor":
        """The same values, off the tape."""
        return Tensor(self._value)

    # Values.

    shape = property(lambda self: list(self._value.shape))
    ndim = property(lambda self: self._value.ndim)
    size = property(lambda self: self._value.size)
    dtype = property(lambda self: dtypes.DType(self._value.dtype.name))
    place = property(lambda self: "Place(cpu)")

    def numpy(self) -> np.ndarray:
        return self._value.copy()

    def item(self) -> Any:
        return self._value.item()

    def __array__(self, dtype: Any = None) -> np.ndarray:
        return self._value if dtype is None else self._value.astype(dtype)

    def __float__(self) -> float:
        return float(self._value.reshape(()))

    def __bool__(self) -> bool:
        return bool(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def __repr__(self) -> str:
        values = np.array2string(self._value, separator=", ", prefix=" " * 7)
        head = f"Tensor(shape={self.shape}, dtype={self.dtype!s}, place={self.place}, stop_gradient={self.stop_gradient},"
        return f"{head}\n       {values})"

    __str__ = __repr__


class Variable:
    """A tensor of a static program: its values come when an Executor runs."""

    def __init__(self, program: Any, name: str, shape: Sequence[int], dtype: Any, kind: str = "op") -> None:
        self.program, self.name, self.kind = program, name, kind
        self.shape = tuple(int(d) for d in shape)
        self.dtype = dtypes.DType(dtypes.numpy_type(dtype).name)
        self.stop_gradient = kind == "data"

    def __repr__(self) -> str:
        return f"var {self.name} : (shape={self.shape}, dtype={self.dtype!s}, stop_gradient={self.stop_gradient})"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no values while the program is built")

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} cannot be iterated over while the program is built: take slices, or paddle.split")


def no_tensor(function: str, value: Any) -> str:
    """What is wrong with a call of this function on something that is no tensor."""
    kind = type(value).__name__
    if classes.inside_kernel() and isinstance(value, np.ndarray):
        return f"paddle.{function} on a numpy array: func and backward_func of py_func get arrays and must not call paddle's functions: use numpy's"
    return f"paddle.{function} takes a Tensor, found {kind}: paddle.to_tensor(x) makes one"


def apply(
    name: str, build: Callable[[List[Any]], Sequence[Any]], numpy: Optional[Callable[..., Any]], inputs: Sequence[Any], settings: Any = None, has_gradient: bool = True
) -> List[Any]:
    """An op: at once on tensors, as a node on tensors of a graph, into the program on variables."""
    from . import autograd

    for x in inputs:
        if not isinstance(x, (Tensor, Variable, opc.Tensor)):
            raise TypeError(no_tensor(name, x))
    if any(isinstance(x, Variable) for x in inputs):
        variable = next(x for x in inputs if isinstance(x, Variable))
        return variable.program.add(name, list(inputs), build)
    if any(isinstance(x, opc.Tensor) for x in inputs):
        if not all(isinstance(x, opc.Tensor) for x in inputs):
            raise TypeError(f"paddle.{name}: a tensor with values beside tensors of an opc.Graph: make it an input, variable or constant of the graph")
        return list(build(list(inputs)))
    inside = classes.inside_kernel()
    rule = numpy if inside and numpy else build
    return eager.apply(Tensor, name, rule, inputs, settings, has_gradient and autograd.grad_enabled() and not inside)


def _as_float(x: Any) -> Any:
    """Paddle's float32 where whole numbers meet what is none."""
    from . import functions

    kind = x._value.dtype if isinstance(x, Tensor) else np.dtype(x.dtype) if isinstance(x, Variable) else None
    return functions.cast(x, dtypes.float32) if kind is not None and kind.kind in "biu" else x


def _binary(name: str, rule: Callable[[Any, Any], Any], divides: bool = False, has_gradient: bool = True) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            other = Tensor(other)
        if isinstance(other, (Tensor, Variable, opc.Tensor)):
            inputs = [_as_float(self), _as_float(other)] if divides else [self, other]
            return apply(name, lambda t: [rule(t[0], t[1])], None, inputs, None, has_gradient)[0]
        is_whole = isinstance(other, (numbers.Integral, np.bool_))
        x = self if is_whole and not divides else _as_float(self)
        return apply(name, lambda t: [rule(t[0], other)], None, [x], eager.number_key(other), has_gradient)[0]

    return operator


def _comparison(name: str, rule: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Tensors of bool, which have no gradient."""
    compare = _binary(name, rule, has_gradient=False)

    def operator(self: Any, other: Any) -> Any:
        known = isinstance(other, (Tensor, Variable, opc.Tensor, np.ndarray, numbers.Real, np.bool_))
        return compare(self, other) if known else NotImplemented

    return operator


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        from . import functions

        return getattr(functions, name)(self, *args, **kwargs)

    return method


def _install(kind: type) -> None:
    """What tensors and variables have in common."""
    add, multiply = _binary("+", lambda x, y: x + y), _binary("*", lambda x, y: x * y)
    methods = {
        "__add__": add, "__radd__": add, "__mul__": multiply, "__rmul__": multiply,
        "__sub__": _binary("-", lambda x, y: x - y), "__rsub__": _binary("r-", lambda x, y: y - x),
        "__truediv__": _binary("/", lambda x, y: x / y, divides=True), "__rtruediv__": _binary("r/", lambda x, y: y / x, divides=True),
        "__eq__": _comparison("==", eager.equal), "__ne__": _comparison("!=", eager.not_equal),
        "__lt__": _comparison("<", operators.lt), "__le__": _comparison("<=", operators.le),
        "__gt__": _comparison(">", operators.gt), "__ge__": _comparison(">=", operators.ge),
        "__pow__": _binary("**", lambda x, y: x**y),
        "__matmul__": _binary("@", lambda x, y: x @ y),
        "__neg__": lambda self: apply("neg", lambda t: [-t[0]], None, [self])[0],
        "__getitem__": lambda self, index: apply("[]", lambda t: [t[0][index]], None, [self], repr(index))[0],
        "T": property(lambda self: apply("T", lambda t: [t[0].T], None, [self])[0]),
        "clone": lambda self: apply("clone", lambda t: [t[0] * 1], None, [self])[0],
        "astype": _method("cast"),
    }  # fmt: skip
    for name in ("abs", "add", "cast", "cos", "divide", "exp", "log", "matmul", "mean", "multiply", "reshape", "sigmoid", "sin", "sqrt",
                 "square", "subtract", "sum", "tanh", "transpose"):  # fmt: skip
        methods[name] = _method(name)
    for name, method in methods.items():
        setattr(kind, name, method)


_install(Tensor)
_install(Variable)
