"""Arrays that compute at once: mx.nd."""
# SPDX-License-Identifier: Apache-2.0
import numbers
import operator as operators
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

import opc
from opc_styles import classes, eager

from . import autograd
from .context import Context, cpu

Shape = Union[int, Sequence[int]]


class NDArray(eager.Array):
    """An array with values, as MXNet's."""

    __array_priority__ = 1000.0

    def __init__(self, value: np.ndarray) -> None:
        super().__init__(value)
        self.grad: Optional["NDArray"] = None
        self._grad_req = "null"

    # Gradients.

    def attach_grad(self, grad_req: str = "write", stype: Any = None) -> None:
        """`backward` fills `grad`: "write" replaces, "add" adds, "null" leaves."""
        self._node, self._grad_req = None, grad_req
        self.grad = None if grad_req == "null" else NDArray(np.zeros_like(self._value))

    def backward(self, out_grad: Optional["NDArray"] = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Goes back from here."""
        autograd.backward([self], None if out_grad is None else [out_grad], retain_graph, train_mode)

    def detach(self) -> "NDArray":
        """The same values, off the tape."""
        return NDArray(self._value)

    def _leaf(self) -> bool:
        return self._grad_req != "null"

    def _receive(self, gradient: np.ndarray) -> None:
        assert self.grad is not None
        if self._grad_req == "add":
            self.grad._value = self.grad._value + gradient
        else:
            self.grad._value = gradient

    # Values.

    shape = property(lambda self: tuple(self._value.shape))
    dtype = property(lambda self: self._value.dtype.type)
    size = property(lambda self: self._value.size)
    ndim = property(lambda self: self._value.ndim)
    context: Context = property(lambda self: cpu())  # type: ignore[assignment]
    ctx = context

    def asnumpy(self) -> np.ndarray:
        """A copy of the values."""
        return self._value.copy()

    def asscalar(self) -> Any:
        if self.size != 1:
            raise ValueError(f"asscalar of an array of {self.size} elements")
        return self._value.reshape(-1)[0]

    def wait_to_read(self) -> None:
        """Nothing waits: every op has run when its call returns."""

    def copy(self) -> "NDArray":
        return NDArray(self._value.copy())

    def as_in_context(self, context: Context) -> "NDArray":
        return self

    def astype(self, dtype: Any) -> "NDArray":
        kind = np.dtype(dtype)
        return _apply("cast", lambda t: opc.ops.cast(t[0], dtype=kind), lambda t: t[0].astype(kind), [self], kind.str)

    def reshape(self, *shape: Any, **named: Any) -> "NDArray":
        wanted = named.get("shape", shape[0] if len(shape) == 1 and not isinstance(shape[0], numbers.Integral) else shape)
        return _apply("reshape", lambda t: t[0].reshape(*wanted), None, [self], tuple(wanted))

    @property
    def T(self) -> "NDArray":
        return _apply("T", lambda t: t[0].T, None, [self])

    def sum(self, axis: Any = None, keepdims: bool = False) -> "NDArray":
        return _reduce("sum", self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> "NDArray":
        return _reduce("mean", self, axis, keepdims)

    def __getitem__(self, index: Any) -> "NDArray":
        if autograd.is_recording() and self._on_tape() and not classes.inside_kernel():
            return _apply("[]", lambda t: t[0][index], None, [self], repr(index))
        return NDArray(self._value[self._place(index)])

    def _place(self, index: Any) -> Any:
        """`[:]` is all of an array without dimensions, too."""
        return ... if self._value.ndim == 0 and isinstance(index, slice) and index == slice(None) else index

    def __setitem__(self, index: Any, value: Any) -> None:
        if autograd.is_recording() and self._on_tape():
            raise opc.UnsupportedError("assigning to an array that is recorded: compute a new one")
        if not self._value.flags.writeable and self._value.base is None:
            raise ValueError("the inputs of an operator, and in backward its states, are read-only: assign to its outputs")
        self._value[self._place(index)] = value._value if isinstance(value, NDArray) else value

    def __len__(self) -> int:
        return len(self._value)

    def __array__(self, dtype: Any = None) -> np.ndarray:
        return self._value if dtype is None else self._value.astype(dtype)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __float__(self) -> float:
        return float(self.asscalar())

    def __repr__(self) -> str:
        return f"\n{self._value!s}\n<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self.context}>"

    __str__ = __repr__

    def _binary(name: str, rule: Callable[[Any, Any], Any]) -> Callable[["NDArray", Any], "NDArray"]:  # type: ignore[misc] # noqa: N805
        def operator(self: "NDArray", other: Any) -> "NDArray":
            if isinstance(other, NDArray):
                return _apply(name, lambda t: rule(t[0], t[1]), None, [self, other])
            if other is None:
                raise TypeError(f"there is no value, None, for {name}")
            return _apply(name, lambda t: rule(t[0], other), None, [self], eager.number_key(other))

        return operator

    __add__ = __radd__ = _binary("+", lambda x, y: x + y)
    __sub__ = _binary("-", lambda x, y: x - y)
    __rsub__ = _binary("r-", lambda x, y: y - x)
    __mul__ = __rmul__ = _binary("*", lambda x, y: x * y)
    __truediv__ = _binary("/", lambda x, y: x / y)
    __rtruediv__ = _binary("r/", lambda x, y: y / x)
    __pow__ = _binary("**", lambda x, y: x**y)
    __neg__ = lambda self: _apply("neg", lambda t: -t[0], None, [self])  # noqa: E731

    def _compared(name: str, rule: Callable[[Any, Any], Any]) -> Callable[["NDArray", Any], Any]:  # type: ignore[misc] # noqa: N805
        """1 where it holds, in the array's type; nothing to differentiate."""

        def operator(self: "NDArray", other: Any) -> Any:
            if isinstance(other, NDArray):
                arrays, right, settings = [self, other], lambda t: t[1], None
            elif isinstance(other, (numbers.Real, np.bool_)):
                arrays, right, settings = [self], lambda t: other, eager.number_key(other)
            elif hasattr(other, "__array__"):
                raise TypeError(f"{name} of an NDArray and a {type(other).__name__}: mx.nd.array(...) makes an NDArray of it")
            else:
                return NotImplemented
            kind = self._value.dtype
            inside = classes.inside_kernel()
            as_graph = lambda t: [opc.ops.cast(rule(t[0], right(t)), dtype=kind)]  # noqa: E731
            as_numpy = lambda t: [rule(t[0], right(t)).astype(kind)]  # noqa: E731
            return eager.apply(NDArray, name, as_numpy if inside else as_graph, arrays, settings, False)[0]

        return operator

    __eq__ = _compared("==", eager.equal)  # type: ignore[assignment]
    __ne__ = _compared("!=", eager.not_equal)  # type: ignore[assignment]
    __lt__ = _compared("<", operators.lt)
    __le__ = _compared("<=", operators.le)
    __gt__ = _compared(">", operators.gt)
    __ge__ = _compared(">=", operators.ge)
    __hash__ = eager.Array.__hash__  # by identity

    def _in_place(rule: Callable[[Any, Any], Any], anew: Callable[[Any, Any], Any]) -> Callable[["NDArray", Any], "NDArray"]:  # type: ignore[misc] # noqa: N805
        """What stands on the tape stays as it is: there the name gets a new array."""

        def operator(self: "NDArray", other: Any) -> "NDArray":
            if autograd.is_recording() and not classes.inside_kernel() and self._on_tape():
                if self._leaf():
                    raise opc.UnsupportedError("assigning to an array that is recorded: compute a new one")
                made: NDArray = anew(self, other)
                return made
            self._value = rule(self._value, other._value if isinstance(other, NDArray) else other)  # into its own memory
            return self

        return operator

    __iadd__, __isub__ = _in_place(operators.iadd, operators.add), _in_place(operators.isub, operators.sub)
    __imul__, __itruediv__ = _in_place(operators.imul, operators.mul), _in_place(operators.itruediv, operators.truediv)


def _apply(name: str, build: Callable[..., Any], numpy: Optional[Callable[..., Any]], arrays: Sequence[NDArray], settings: Any = None) -> NDArray:
    inside = classes.inside_kernel()
    rule = numpy if inside and numpy else build
    return eager.apply(NDArray, name, lambda t: [rule(t)], arrays, settings, autograd.is_recording() and not inside)[0]  # type: ignore[return-value]


def _reduce(name: str, x: NDArray, axis: Any, keepdims: bool) -> NDArray:
    """MXNet has no arrays without dimensions: a whole sum has one."""
    settings = (tuple(axis) if isinstance(axis, list) else axis, keepdims)

    def build(t: List[Any]) -> Any:
        y = getattr(t[0], name)(axis=settings[0], keepdims=keepdims)
        return y if y.shape else y.reshape(1)

    return _apply(name, build, None, [x], settings)


def _unary(name: str, numpy: Callable[[np.ndarray], np.ndarray]) -> Callable[[NDArray], NDArray]:
    def function(data: NDArray) -> NDArray:
        return _apply(name, lambda t: [getattr(opc.ops, name)(t[0])][0], lambda t: numpy(t[0]), [data])

    function.__name__ = name
    function.__doc__ = f"{name} of each element."
    return function


exp = _unary("exp", np.exp)
log = _unary("log", np.log)
sqrt = _unary("sqrt", np.sqrt)
square = _unary("square", np.square)
abs = _unary("abs", np.abs)  # noqa: A001
tanh = _unary("tanh", np.tanh)
sigmoid = _unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)))
relu = _unary("relu", lambda x: np.maximum(x, 0))


def dot(lhs: NDArray, rhs: NDArray) -> NDArray:
    """The product of matrices; of a stack of them with one."""
    if rhs.ndim > 2:
        raise NotImplementedError(f"dot of {lhs.shape} and {rhs.shape}: the second one has more than two dimensions")

    def build(t: List[Any]) -> Any:
        y = t[0] @ t[1]
        return y if y.shape else y.reshape(1)  # of two vectors: as of a whole sum

    return _apply("dot", build, None, [lhs, rhs])


def sum(data: NDArray, axis: Any = None, keepdims: bool = False) -> NDArray:  # noqa: A001
    return data.sum(axis, keepdims)


def mean(data: NDArray, axis: Any = None, keepdims: bool = False) -> NDArray:
    return data.mean(axis, keepdims)


def array(source_array: Any, ctx: Optional[Context] = None, dtype: Any = None) -> NDArray:
    """An array of its own; float32 unless the source is an NDArray or a type is given. In an operator's code numpy's type
    stays, so that gradients can be checked in double precision."""
    if dtype is None:
        keeps = isinstance(source_array, NDArray) or (isinstance(source_array, np.ndarray) and classes.inside_kernel())
        dtype = source_array.dtype if keeps else np.float32
    return NDArray(np.array(source_array._value if isinstance(source_array, NDArray) else source_array, dtype))


def zeros(shape: Shape, ctx: Any = None, dtype: Any = "float32") -> NDArray:
    return NDArray(np.zeros(shape, dtype))


def ones(shape: Shape, ctx: Any = None, dtype: Any = "float32") -> NDArray:
    return NDArray(np.ones(shape, dtype))


def uniform(*args: Any, **kwargs: Any) -> NDArray:
    """mx.random.uniform."""
    from . import random

    return random.uniform(*args, **kwargs)


def waitall() -> None:
    """Nothing waits: every op has run when its call returns."""


def Custom(*args: Any, op_type: str, name: Optional[str] = None, **kwargs: Any) -> Union[NDArray, Tuple[NDArray, ...]]:  # noqa: N802
    """The registered operator on these arrays, at once. Arguments by their names are inputs, the others settings, as texts."""
    from . import operator

    return operator.run(op_type, args, kwargs)
