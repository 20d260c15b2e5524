"""Operators of graphs whose kernels are methods of a user's class."""
# SPDX-License-Identifier: Apache-2.0
import collections
import os
import threading
import warnings
from typing import Any, Callable, Deque, List, Optional, Sequence

import numpy as np

from opc import _op, _threads, ops
from opc._host import HostError, defined_at
from opc._schema import Argument, Attribute, Signature, check_name

EAGER = "eager"  #: the attribute `instance` of ops that run at once; their object is that of the call
trace: Deque[str] = collections.deque(maxlen=4096)  #: the last ops whose kernels sessions have called, in their order
_inside = threading.local()


class _Call:
    """The outermost code of a user's that a thread runs; `depth` is 0 when that has ended."""

    depth = 0


_NONE = _Call()


def _own() -> _Call:
    return getattr(_inside, "call", _NONE)


def _starter() -> _Call:
    """What has started this thread."""
    return getattr(_inside, "starter", _NONE)


def inside_kernel() -> bool:
    """Whether this thread is in a kernel: what is computed there is numpy's, for a kernel cannot run a graph. So is a thread
    that a kernel has started, while that kernel runs."""
    return _own().depth > 0 or _starter().depth > 0


def _capture() -> Optional[Callable[[], None]]:
    call = _own() if _own().depth else _starter()
    return (lambda: setattr(_inside, "starter", call)) if call.depth else None


_threads.follow(_capture)


class probing:
    """While a user's code runs that must not run graphs."""

    def __enter__(self) -> None:
        if not _own().depth:
            _inside.call = _Call()
        _inside.call.depth += 1

    def __exit__(self, *unused: object) -> None:
        _inside.call.depth -= 1


class kernel_of(probing):
    """While a kernel of this op runs."""

    def __init__(self, op: str) -> None:
        trace.append(op)


class ClassOperator(_op.Operator):
    """An op `data... (aux...) -> output...` whose code is a class of the user, which manifests name."""

    def __init__(self, name: str, owner: Any, kernel: Callable[..., Any], attrs: Sequence[Attribute], **options: Any) -> None:
        check_name(name)
        inputs = [Argument("data", True, 0)]
        if options.get("aux"):
            inputs.append(Argument("aux", True, 0))
        super().__init__(name, kernel, Signature(inputs, [Argument("output", True, 0)], list(attrs)), _op.Options(**options))
        self.__doc__ = getattr(owner, "__doc__", None)
        self.owner, self.module = owner, getattr(owner, "__module__", "")
        self.code = _op.Code(owner)
        self._changed()

    def describe(self, running: bool = False) -> List[str]:
        """Both ops of the manifest are the class's."""
        made = [self._forward(self._code(self.name, self.code, running))]
        if self._gradient:
            made.append(self._backward(self._code(self.grad_name(), self.code, running)))
        return made

    def grad_code(self) -> _op.Code:
        return self.code


def define(operator: ClassOperator) -> ClassOperator:
    """Puts it into the table; one of that name is replaced for nodes made afterwards."""
    old = _op.operators.pop(operator.name, None)
    if old is not None and getattr(old, "owner", None) is not operator.owner:
        where = f"{os.path.basename(old.code.path) or 'elsewhere'}:{old.code.line}"
        warnings.warn(f"the operator {operator.name} of {where} is replaced for what is built from now on", stacklevel=3)
    _op.define(operator)
    ops.forget(operator.name)
    return operator


def check_results(made: Sequence[Optional[np.ndarray]], wanted: Sequence[Any], names: Sequence[str], function: Callable[..., Any], help: str, none_is_zero: bool = False) -> None:
    """What a function of the user's has given against shapes and element types (opc.Spec): the error names the result, the
    function and its place."""
    said = getattr(function, "__qualname__", type(function).__name__).split("<locals>.")[-1] + " has given"
    where = defined_at(function)
    if len(made) != len(wanted):
        raise HostError("OPC0623", f"{said} {len(made)} array{'s' * (len(made) != 1)}, expected {len(wanted)}: {', '.join(names) or 'none'}{where}", help)
    for name, array, spec in zip(names, made, wanted):
        if array is None and none_is_zero:
            continue
        if array is None:
            raise HostError("OPC0623", f"{said} None for {name}{where}", help)
        if tuple(array.shape) != tuple(spec.shape):
            raise HostError("OPC0623", f"{said} the shape {list(array.shape)} for {name}, expected {list(spec.shape)}{where}", help)
        if array.dtype != np.dtype(spec.dtype):
            raise HostError("OPC0623", f"{said} {array.dtype.name} for {name}, expected {np.dtype(spec.dtype).name}{where}", help)


def check_gradients(made: Sequence[Optional[np.ndarray]], data: Sequence[np.ndarray], function: Callable[..., Any]) -> None:
    """What a backward function has given: each gradient is as its input, or None."""
    names = [f"the gradient of input {i}" for i in range(len(data))]
    check_results(made, data, names, function, "the gradient of an input has its shape and type; None stands for zeros", True)


def copies(arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
    """What a class gets: arrays that it may keep, and cannot write by mistake."""
    made = [np.array(a) for a in arrays or ()]
    for a in made:
        a.flags.writeable = False
    return made
